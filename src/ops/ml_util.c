/* SPDX-License-Identifier: Apache-2.0 */
/* What the ops of ai.onnx.ml share; see ml_int.h. */
#include <stdlib.h>

#include "ops/ml_int.h"

/* ---- scores -------------------------------------------------------------------------------------------------- */

tn_status read_post_transform(const Node *node, PostTransform *out) {
    static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    for (int i = 0; i < 5; i++) {
        *out = (PostTransform)i;
        if (attr_string_is(node, "post_transform", names[i])) return TN_OK;
    }
    Str s = attr_string(node, "post_transform");
    return fail(TN_INVALID_MODEL,
                "post_transform is \"%.*s\"; NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT is wanted", (int)s.n, s.s);
}

static float logistic(float x) {
    float v = 1 / (1 + expf(-fabsf(x)));
    return x < 0 ? 1 - v : v;
}

/* Winitzki's approximation, which is what onnxruntime has. */
static float probit(float p) {
    float x = 2 * p - 1, sign = x < 0 ? -1.0f : 1.0f, log_term = logf((1 - x) * (1 + x));
    float v = 2 / (3.14159f * 0.147f) + 0.5f * log_term, v2 = 1 / 0.147f * log_term;
    return 1.41421356f * sign * sqrtf(-v + sqrtf(v * v - v2));
}

/* Zeros stay zeros where `keep_zeros`. */
static void softmax(float *x, int64_t n, bool keep_zeros) {
    float top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmaxf(top, x[i]);
    for (int64_t i = 0; i < n; i++) {
        bool is_zero = keep_zeros && fabsf(x[i]) <= 1e-7f;
        x[i] = is_zero ? x[i] * expf(-top) : expf(x[i] - top);
        if (!is_zero) sum += x[i];
    }
    for (int64_t i = 0; i < n; i++) x[i] /= sum;
}

static void transform_single(PostTransform t, SecondScore second, float *x) {
    if (t == POST_PROBIT) x[0] = probit(x[0]);
    if (second == SECOND_NONE) return;
    float v = x[0];
    bool squash = t == POST_LOGISTIC;
    x[1] = squash ? logistic(v) : v;
    x[0] = squash ? logistic(-v) : second == SECOND_OPPOSITE ? -v : 1 - v;
}

void transform_scores(PostTransform t, SecondScore second, float *scores, int64_t n) {
    if (n == 1) {
        transform_single(t, second, scores);
        return;
    }
    if (t == POST_SOFTMAX || t == POST_SOFTMAX_ZERO) softmax(scores, n, t == POST_SOFTMAX_ZERO);
    for (int64_t i = 0; i < n; i++)
        if (t == POST_LOGISTIC) scores[i] = logistic(scores[i]);
        else if (t == POST_PROBIT) scores[i] = probit(scores[i]);
}

/* ---- rows and labels ----------------------------------------------------------------------------------------- */

tn_status want_rows(const InferCtx *c, int i) {
    int rank = in_shape(c, i)->rank;
    return rank < 0 || rank == 1 || rank == 2
               ? TN_OK
               : fail(TN_SHAPE, "\"%.*s\" has %d dimensions; 1 or 2 are wanted", IN_NAME(c, i), rank);
}

tn_status read_labels(const Node *node, const char *ints, const char *strings, Labels *out) {
    const Attr *a = attr_get(node, ints), *b = attr_get(node, strings);
    if (a && a->n == 0) a = NULL;
    if (b && b->n == 0) b = NULL;
    if (!a == !b) return fail(TN_INVALID_MODEL, "one of %s and %s is wanted", ints, strings);
    out->which = b ? b : a;
    out->n = (int64_t)out->which->n;
    return TN_OK;
}

static tn_status put_int(KernelCtx *c, int i, int64_t at, int64_t value) {
    store_i64(c->out[i].dtype, c->out[i].data, c->out[i].offset + at, 1, &value, 1);
    return TN_OK;
}

tn_status put_label(KernelCtx *c, int i, int64_t at, const Labels *l, int64_t k) {
    if (l->which->kind == ATTR_INTS) return put_int(c, i, at, l->which->ints[k]);
    return put_string(c, i, at, l->which->strings[k]);
}

tn_status put_default_label(KernelCtx *c, int i, int64_t at, const Labels *l, bool positive) {
    if (l->which->kind == ATTR_INTS) return put_int(c, i, at, positive);
    return put_string(c, i, at, positive ? STR("1") : STR("0"));
}

FloatList attr_float_list(const Node *node, const char *name) {
    const Attr *a = attr_get(node, name);
    return a ? (FloatList){a->floats, (int64_t)a->n} : (FloatList){NULL, 0};
}

/* ---- finding values ------------------------------------------------------------------------------------------ */

static int compare_keys(const LookupKey *a, const LookupKey *b, bool is_text) {
    if (!is_text) return (a->number > b->number) - (a->number < b->number);
    size_t n = a->text.n < b->text.n ? a->text.n : b->text.n;
    int order = n ? memcmp(a->text.s, b->text.s, n) : 0;
    return order ? order : (a->text.n > b->text.n) - (a->text.n < b->text.n);
}

static int compare_numbers(const void *a, const void *b) {
    const LookupKey *x = a, *y = b;
    int order = compare_keys(x, y, false);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static int compare_texts(const void *a, const void *b) {
    const LookupKey *x = a, *y = b;
    int order = compare_keys(x, y, true);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static tn_status new_lookup(KernelCtx *c, int64_t n, bool is_text, Lookup *out) {
    *out = (Lookup){kernel_scratch(c, LookupKey, (size_t)max_i64(n, 1)), n, is_text};
    for (int64_t i = 0; out->keys && i < n; i++) out->keys[i].index = i;
    return out->keys ? TN_OK : TN_OUT_OF_MEMORY;
}

static LookupKey key_of(tn_dtype dtype, const void *data, int64_t at) {
    LookupKey key = {0};
    if (dtype == TN_STRING) key.text = rc_string_get(((RcString *const *)data)[at]);
    else if (dtype == TN_I64)
        key.number = (uint64_t)((const int64_t *)data)[at] ^ (uint64_t)1 << 63; /* as of sort_keys */
    else sort_keys(dtype, data, at, 1, 1, &key.number);
    return key;
}

tn_status lookup_texts(KernelCtx *c, const Str *keys, int64_t n, Lookup *out) {
    TRY(new_lookup(c, n, true, out));
    for (int64_t i = 0; i < n; i++) out->keys[i].text = keys[i];
    qsort(out->keys, (size_t)n, sizeof *out->keys, compare_texts);
    return TN_OK;
}

tn_status lookup_elements(KernelCtx *c, tn_dtype dtype, const void *data, int64_t offset, int64_t n, Lookup *out) {
    TRY(new_lookup(c, n, dtype == TN_STRING, out));
    for (int64_t i = 0; i < n; i++) {
        LookupKey key = key_of(dtype, data, offset + i);
        out->keys[i].number = key.number, out->keys[i].text = key.text;
    }
    qsort(out->keys, (size_t)n, sizeof *out->keys, out->is_text ? compare_texts : compare_numbers);
    return TN_OK;
}

int64_t lookup_find(const Lookup *l, tn_dtype dtype, const void *data, int64_t at) {
    LookupKey key = key_of(dtype, data, at);
    int64_t low = 0, high = l->n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (compare_keys(&l->keys[middle], &key, l->is_text) <= 0) low = middle + 1;
        else high = middle;
    }
    return low > 0 && compare_keys(&l->keys[low - 1], &key, l->is_text) == 0 ? l->keys[low - 1].index : -1;
}
