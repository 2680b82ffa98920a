/* SPDX-License-Identifier: Apache-2.0 */
/* TopK (ONNX 24): the largest or smallest elements of an axis and where they stand. Equal ones keep their order, and
   NaN counts as larger than any number. */
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Dim k = DIM_UNKNOWN;
    int axis, n = 1;
    TRY(expect_list(c, 1, 1));
    bool known = in_content(c, 1, &k, 1, &n);
    if ((known && n != 1) || (!known && known_length(c, 1) >= 0 && known_length(c, 1) != 1))
        return fail(TN_SHAPE, "K must have one element");
    if (x->rank < 0) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    Shape y = *x;
    y.dims[axis] = dim_not_negative(c->dims, k) ? k : DIM_UNKNOWN;
    if (dim_is_const(k) && (k < 0 || (dim_is_const(x->dims[axis]) && k > x->dims[axis])))
        return fail(TN_OUT_OF_RANGE, "K is %lld, for a dimension of %lld", (long long)k, (long long)x->dims[axis]);
    set_shape(c, 0, &y);
    set_shape(c, 1, &y);
    return TN_OK;
}

/* A heap of the k best so far, the worst of them at the root. */
typedef struct Heap {
    const uint64_t *keys;
    int64_t *at;
    int64_t n;
} Heap;

static bool before(const Heap *h, int64_t a, int64_t b) {
    return h->keys[a] != h->keys[b] ? h->keys[a] > h->keys[b] : a < b;
}

static void sift_down(Heap *h) {
    for (int64_t i = 0;;) {
        int64_t child = 2 * i + 1;
        if (child >= h->n) return;
        if (child + 1 < h->n && before(h, h->at[child], h->at[child + 1])) child++;
        if (!before(h, h->at[i], h->at[child])) return;
        int64_t t = h->at[i];
        h->at[i] = h->at[child];
        h->at[child] = t;
        i = child;
    }
}

static void push(Heap *h, int64_t item) {
    int64_t i = h->n++;
    h->at[i] = item;
    for (int64_t up; i > 0 && before(h, h->at[up = (i - 1) / 2], h->at[i]); i = up) {
        int64_t t = h->at[i];
        h->at[i] = h->at[up];
        h->at[up] = t;
    }
}

/* at[0 .. k-1] are the best k of n, best first. */
static void select_best(const uint64_t *keys, int64_t n, int64_t k, int64_t *at) {
    Heap h = {keys, at, 0};
    for (int64_t i = 0; i < n && k > 0; i++) {
        if (h.n < k) {
            push(&h, i);
        } else if (before(&h, i, at[0])) {
            at[0] = i;
            sift_down(&h);
        }
    }
    while (h.n > 1) { /* the worst goes to the end */
        int64_t worst = at[0];
        at[0] = at[--h.n];
        sift_down(&h);
        at[h.n] = worst;
    }
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    Tensor *y = &c->out[0], *where = &c->out[1];
    int axis, count;
    int64_t k, at[TN_MAX_RANK] = {0}, from = x->offset, to = 0, dims[TN_MAX_RANK], slices = 1;
    TRY(tensor_few_ints(c->in[1], "K", &k, 1, &count));
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    memcpy(dims, x->dims, sizeof dims);
    int64_t n = x->dims[axis];
    if (count != 1 || k < 0 || k > n)
        return fail(TN_OUT_OF_RANGE, "K is %lld, for a dimension of %lld", (long long)k, (long long)n);
    dims[axis] = k;
    for (int i = 0; i < 2; i++)
        if (output_wanted(c, i)) TRY(output_ready(c, i, x->rank, dims));
    for (int d = 0; d < x->rank; d++) slices *= d == axis ? 1 : x->dims[d];
    if (slices * k == 0) return TN_OK;
    uint64_t *keys = kernel_scratch(c, uint64_t, (size_t)n);
    int64_t *best = kernel_scratch(c, int64_t, (size_t)k), step = 1;
    if (!keys || !best) return TN_OUT_OF_MEMORY;
    for (int d = axis + 1; d < x->rank; d++) step *= x->dims[d];
    bool largest = attr_int(c->node, "largest") != 0;
    for (int64_t s = 0; s < slices; s++) {
        sort_keys(x->dtype, x->data, from, x->strides[axis], n, keys);
        for (int64_t i = 0; !largest && i < n; i++) keys[i] = ~keys[i];
        select_best(keys, n, k, best);
        to = s / step * step * k + s % step;
        for (int64_t i = 0; i < k; i++) {
            if (output_wanted(c, 0))
                copy_run(x->dtype, y->data, y->offset + to + i * step, x->data, from + best[i] * x->strides[axis], 1);
            if (output_wanted(c, 1)) ((int64_t *)where->data)[where->offset + to + i * step] = best[i];
        }
        TRY(kernel_poll(c));
        for (int d = x->rank - 1; d >= 0; d--) {
            if (d == axis) continue;
            from += x->strides[d];
            if (++at[d] < x->dims[d]) break;
            from -= x->strides[d] * x->dims[d];
            at[d] = 0;
        }
    }
    return TN_OK;
}

const OpSchema op_TopK = {
    .name = "TopK",
    .summary = "TopK (ONNX 24): the largest or smallest elements of an axis",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS_NUMERIC, 'T', 0}, {"K", TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"Values", TS_NUMERIC, 'T', 0}, {"Indices", TS(TN_I64), 0, 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, -1, 0, NULL}, {"largest", ATTR_INT, 0, 1, 0, NULL},
                        {"sorted", ATTR_INT, 0, 1, 0, NULL}),
    .content_inputs = 1 << 1,
    .infer = infer,
    .reference = reference,
};
