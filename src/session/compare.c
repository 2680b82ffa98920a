/* SPDX-License-Identifier: Apache-2.0 */
/* How far two tensors are apart, by the rule that docs and tests use throughout. */
#include <math.h>
#include <stdio.h>

#include "session/session.h"

#define MASK_SCALE 1e30 /* larger magnitudes are masks, not results */

static bool same_shape(const Tensor *a, const Tensor *b, tn_difference *d) {
    bool same = a->dtype == b->dtype && a->rank == b->rank &&
                memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
    if (same) return true;
    Text text;
    text_init(&text, &allocator_default);
    for (int which = 0; which < 2; which++) {
        const Tensor *t = which ? b : a;
        text_printf(&text, "%s%s[", which ? ", want " : "got ", dtype_name(t->dtype));
        for (int i = 0; i < t->rank; i++) text_printf(&text, "%s%lld", i ? "," : "", (long long)t->dims[i]);
        text_puts(&text, "]");
    }
    snprintf(d->why, sizeof d->why, "%s", text.s ? text.s : "shapes differ");
    text_free(&text);
    return false;
}

static void compare_strings(const Tensor *a, const Tensor *b, int64_t n, tn_difference *d) {
    for (int64_t i = 0; i < n; i++) {
        Str x = rc_string_get(((RcString **)a->data)[i]), y = rc_string_get(((RcString **)b->data)[i]);
        if (str_equal(x, y)) continue;
        if (d->n_wrong++ == 0) d->at = i;
    }
}

static void compare_ints(const Tensor *a, const Tensor *b, int64_t n, tn_difference *d) {
    for (int64_t i = 0; i < n; i++) {
        int64_t x, y;
        load_i64(&x, a->dtype, a->data, a->offset + i, 1, 1);
        load_i64(&y, b->dtype, b->data, b->offset + i, 1, 1);
        d->scale = fmax(d->scale, fabs((double)y));
        if (x == y) continue;
        double apart = fabs((double)x - (double)y);
        d->n_wrong++;
        if (apart > d->largest || d->at < 0) {
            d->largest = apart;
            d->at = i;
        }
    }
}

/* One float of each: NaN and infinity must stand at the same places. */
static void compare_float(double x, double y, double limit, int64_t i, tn_difference *d) {
    if (x == y || (isnan(x) && isnan(y))) return;
    bool finite = isfinite(x) && isfinite(y);
    double apart = finite ? fabs(x - y) : INFINITY;
    if (apart > limit) d->n_wrong++;
    if (apart > d->largest || d->at < 0) {
        d->largest = apart;
        d->at = i;
    }
    if (!finite && !d->why[0]) snprintf(d->why, sizeof d->why, "%g at %lld, want %g", x, (long long)i, y);
}

static void compare_floats(const Tensor *a, const Tensor *b, int64_t n, double rtol, double atol, tn_difference *d) {
    double x[2], y[2];
    int parts = dtype_is_complex(a->dtype) ? 2 : 1;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < n; i++) {
            if (parts == 2) {
                load_c128(x, a->dtype, a->data, a->offset + i, 1, 1);
                load_c128(y, b->dtype, b->data, b->offset + i, 1, 1);
            } else {
                load_f64(x, a->dtype, a->data, a->offset + i, 1, 1);
                load_f64(y, b->dtype, b->data, b->offset + i, 1, 1);
            }
            for (int k = 0; k < parts; k++) {
                if (pass == 0 && isfinite(y[k]) && fabs(y[k]) < MASK_SCALE) d->scale = fmax(d->scale, fabs(y[k]));
                /* a mask value is compared to itself: its magnitude would hide every other error */
                double limit = atol + rtol * (fabs(y[k]) >= MASK_SCALE ? fabs(y[k]) : d->scale);
                if (pass == 1) compare_float(x[k], y[k], limit, i, d);
            }
        }
}

static tn_difference compare_items(const tn_tensor *got, const tn_tensor *want, double rtol, double atol) {
    tn_difference d = {.at = -1, .same = true};
    size_t n = tn_tensor_n_items(want);
    if (tn_tensor_kind(got) != tn_tensor_kind(want) || tn_tensor_n_items(got) != n) {
        snprintf(d.why, sizeof d.why, "%zu items, want %zu", tn_tensor_n_items(got), n);
        d.same = false;
    }
    for (size_t i = 0; i < n && d.same; i++) {
        tn_tensor a = {.t = object_of(&got->t)->items[i]}, b = {.t = object_of(&want->t)->items[i]};
        d = tn_tensor_compare(&a, &b, rtol, atol);
    }
    return d;
}

tn_difference tn_tensor_compare(const tn_tensor *got, const tn_tensor *want, double rtol, double atol) {
    tn_difference d = {.at = -1};
    if (!got || !want) {
        snprintf(d.why, sizeof d.why, "%s is missing", got ? "the right answer" : "the result");
        return d;
    }
    if (got->t.kind != TYPE_TENSOR || want->t.kind != TYPE_TENSOR) return compare_items(got, want, rtol, atol);
    const Tensor *a = &got->t, *b = &want->t;
    int64_t n = tensor_count(a);
    if (!same_shape(a, b, &d)) return d;
    if (a->dtype == TN_STRING) compare_strings(a, b, n, &d);
    else if (dtype_is_float(a->dtype) || dtype_is_complex(a->dtype)) compare_floats(a, b, n, rtol, atol, &d);
    else compare_ints(a, b, n, &d);
    d.same = d.n_wrong == 0;
    return d;
}
