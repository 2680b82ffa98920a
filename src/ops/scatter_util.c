/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of ScatterElements and ScatterND. Each step rounds to the element type, as a sequence of updates does. */
#include "ops/scatter_int.h"

tn_status scatter_reduction(const Node *node, tn_dtype dtype, Reduction *out) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    for (int k = 0; k < 5; k++) {
        if (!attr_string_is(node, "reduction", names[k])) continue;
        *out = (Reduction)k;
        if (k != REDUCE_NONE && dtype == TN_STRING)
            return fail(TN_UNSUPPORTED, "strings have no reduction \"%s\"", names[k]);
        if (k >= REDUCE_MAX && dtype_is_complex(dtype))
            return fail(TN_UNSUPPORTED, "complex numbers have no reduction \"%s\"", names[k]);
        return TN_OK;
    }
    return fail(TN_INVALID_ARGUMENT, "reduction \"%.*s\" is none of none, add, mul, max, min",
                (int)attr_string(node, "reduction").n, attr_string(node, "reduction").s);
}

/* NaN wins, as in numpy. */
#define FLOAT_REDUCE(T)                                  \
    static T reduce_##T(Reduction r, T a, T b) {         \
        switch (r) {                                     \
        case REDUCE_ADD: return a + b;                   \
        case REDUCE_MUL: return a * b;                   \
        case REDUCE_MAX: return a != a || a > b ? a : b; \
        case REDUCE_MIN: return a != a || a < b ? a : b; \
        default: return b;                               \
        }                                                \
    }
FLOAT_REDUCE(float)
FLOAT_REDUCE(double)

static int64_t reduce_int(Reduction r, int64_t a, int64_t b, bool is_unsigned) {
    bool greater = is_unsigned ? (uint64_t)a > (uint64_t)b : a > b;
    switch (r) {
    case REDUCE_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case REDUCE_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case REDUCE_MAX: return greater ? a : b;
    case REDUCE_MIN: return greater ? b : a;
    default: return b;
    }
}

static void reduce_complex(Reduction r, const double *a, const double *b, double *out) {
    if (r == REDUCE_ADD) {
        out[0] = a[0] + b[0];
        out[1] = a[1] + b[1];
    } else {
        out[0] = a[0] * b[0] - a[1] * b[1];
        out[1] = a[0] * b[1] + a[1] * b[0];
    }
}

void scatter_combine(Reduction r, tn_dtype dtype, void *dst, int64_t at, const void *src, int64_t from, int64_t n) {
    Class class = class_of(dtype);
    if (r == REDUCE_NONE) {
        copy_run(dtype, dst, at, src, from, n);
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        if (class == CLASS_F32) {
            float v[2];
            load_f32(&v[0], dtype, dst, at + k, 1, 1);
            load_f32(&v[1], dtype, src, from + k, 1, 1);
            v[0] = reduce_float(r, v[0], v[1]);
            store_f32(dtype, dst, at + k, 1, v, 1);
        } else if (class == CLASS_F64) {
            double v[2];
            load_f64(&v[0], dtype, dst, at + k, 1, 1);
            load_f64(&v[1], dtype, src, from + k, 1, 1);
            v[0] = reduce_double(r, v[0], v[1]);
            store_f64(dtype, dst, at + k, 1, v, 1);
        } else if (class == CLASS_COMPLEX) {
            double a[2], b[2], sum[2];
            load_c128(a, dtype, dst, at + k, 1, 1);
            load_c128(b, dtype, src, from + k, 1, 1);
            reduce_complex(r, a, b, sum);
            store_c128(dtype, dst, at + k, 1, sum, 1);
        } else {
            int64_t v[2];
            load_i64(&v[0], dtype, dst, at + k, 1, 1);
            load_i64(&v[1], dtype, src, from + k, 1, 1);
            v[0] = reduce_int(r, v[0], v[1], dtype == TN_U64);
            store_i64(dtype, dst, at + k, 1, v, 1);
        }
    }
}
