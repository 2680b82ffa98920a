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

/* at[0 .. k-1] are the best k of n, best first. Most elements are worse than all in the heap, which one comparison tells. */
static void select_best(const uint64_t *keys, int64_t n, int64_t k, int64_t *at) {
    Heap h = {keys, at, 0};
    for (int64_t i = 0; i < k; i++) push(&h, i);
    uint64_t worst = k > 0 ? keys[at[0]] : UINT64_MAX;
    for (int64_t i = k; i < n; i++) {
        if (keys[i] <= worst) continue;
        at[0] = i;
        sift_down(&h);
        worst = keys[at[0]];
    }
    while (h.n > 1) { /* the worst goes to the end */
        int64_t worst = at[0];
        at[0] = at[--h.n];
        sift_down(&h);
        at[h.n] = worst;
    }
}

/* Elements of 32 bits: a heap of their place in the order of all and, below it, where they stand, the first as the best. */
static void sift_ranks(uint64_t *heap, int64_t n, int64_t i, uint64_t moved) {
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= moved) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

static uint64_t rank_of(int32_t key, int64_t at) {
    return (uint64_t)((uint32_t)key ^ 1U << 31) << 32 | (uint32_t) ~(uint32_t)at;
}

/* Most blocks have nothing that is better than all in the heap. */
static void select_narrow(const Tensor *x, int64_t from, int64_t stride, int64_t n, int64_t k, bool largest,
                          uint64_t *heap, int64_t *at) {
    enum { BLOCK = 128 };
    int32_t keys[BLOCK];
    int64_t held = 0;
    for (int64_t begin = 0; begin < n && k > 0; begin += BLOCK) {
        int64_t m = min_i64(BLOCK, n - begin), i = 0;
        order_keys(x->dtype, x->data, from + begin * stride, stride, m, keys);
        for (int64_t j = 0; !largest && j < m; j++) keys[j] = ~keys[j];
        while (held < k && i < m) {
            heap[held++] = rank_of(keys[i], begin + i);
            i++;
            for (int64_t j = held / 2; held == k && j-- > 0;) sift_ranks(heap, k, j, heap[j]);
        }
        if (i == m) continue;
        int32_t top = keys[i], worst = (int32_t)((uint32_t)(heap[0] >> 32) ^ 1U << 31);
        for (int64_t j = i; j < m; j++) top = keys[j] > top ? keys[j] : top;
        for (; top > worst && i < m; i++)
            if (keys[i] > worst) {
                sift_ranks(heap, k, 0, rank_of(keys[i], begin + i));
                worst = (int32_t)((uint32_t)(heap[0] >> 32) ^ 1U << 31);
            }
    }
    for (int64_t left = k; left > 0;) { /* the worst goes to the end */
        at[--left] = (int64_t)(uint32_t) ~(uint32_t)heap[0];
        sift_ranks(heap, left, 0, heap[left]);
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
    bool largest = attr_int(c->node, "largest") != 0, narrow = has_order_keys(x->dtype) && n <= UINT32_MAX;
    for (int64_t s = 0; s < slices; s++) {
        if (narrow) {
            select_narrow(x, from, x->strides[axis], n, k, largest, keys, best);
        } else {
            sort_keys(x->dtype, x->data, from, x->strides[axis], n, keys);
            for (int64_t i = 0; !largest && i < n; i++) keys[i] = ~keys[i];
            select_best(keys, n, k, best);
        }
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
