/* SPDX-License-Identifier: Apache-2.0 */
/* What row-wise kernels share. */
#include "backends/cpu/epilogue_int.h"

#include <stdlib.h>

static void discard(Prepared *prepared, const Allocator *allocator) {
    Epilogue *e = prepared->data;
    arena_free(&e->arena);
    mem_free(allocator, e, sizeof *e);
}

/* A body has one node that is none of its own, so only the kernel that was picked takes it. */
static bool is_heavy(const Node *node) {
    return is_softmax(node) || is_norm(node) || is_group_norm(node) || is_reduce(node);
}

tn_status epilogue_prepare(const KernelQuery *q, Context *context, Prepared *out) {
    Epilogue *e = mem_alloc(&context->allocator, sizeof *e, alignof(Epilogue));
    if (!e) return TN_OUT_OF_MEMORY;
    arena_init(&e->arena, &context->allocator);
    *out = (Prepared){.data = e, .size = sizeof *e, .release = discard};
    bool opened = heavy_open(q->node, is_heavy, &e->heavy);
    tn_status status = opened ? TN_OK : fail(TN_INTERNAL, "a node is not what its kernel runs");
    if (opened && e->heavy.fused) status = body_compile(q->node, e->heavy.node, &e->arena, &e->body);
    if (status == TN_OK) return TN_OK;
    discard(out, &context->allocator);
    *out = (Prepared){0};
    return status;
}

uint32_t epilogue_in_place(const Node *node) { return node_is_fused(node) ? 0 : 1; }

void epilogue_order(const KernelQuery *q, int k, Tensor *out) {
    Heavy heavy;
    if (k == 0 && heavy_open(q->node, is_heavy, &heavy)) order_like(heavy_operand(&heavy, q->in, 0), out);
}

const Tensor *heavy_operand(const Heavy *heavy, const Tensor *const *in, int k) {
    if (k >= OP_MAX_INPUTS) return NULL;
    return heavy->constant[k] ? heavy->constant[k] : heavy->in[k] >= 0 ? in[heavy->in[k]] : NULL;
}

bool same_sizes(const Tensor *a, const Tensor *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

void axes_by_stride(const Tensor *t, int *axes) {
    for (int k = 0; k < t->rank; k++) {
        int at = k;
        for (; at > 0 && llabs(t->strides[axes[at - 1]]) < llabs(t->strides[k]); at--) axes[at] = axes[at - 1];
        axes[at] = k;
    }
}

bool order_like(const Tensor *like, Tensor *out) {
    int axes[TN_MAX_RANK];
    int64_t strides[TN_MAX_RANK], size = 1;
    if (!same_sizes(like, out)) return false;
    axes_by_stride(like, axes);
    for (int k = like->rank; k-- > 0;) {
        strides[axes[k]] = size;
        if (like->dims[axes[k]] != 1 && like->strides[axes[k]] != size) return false;
        size *= like->dims[axes[k]];
    }
    memcpy(out->strides, strides, (size_t)like->rank * sizeof *strides);
    return true;
}

tn_status dense_reading(KernelCtx *c, const Tensor *t, Tensor *out) {
    *out = *t;
    if (tensor_is_dense(t)) return TN_OK;
    tensor_set_dense(out, t->dtype, t->rank, t->dims);
    size_t bytes = (size_t)max_i64(tensor_count(t), 1) * (size_t)dtype_size(t->dtype);
    out->data = arena_alloc(c->scratch, bytes, 64);
    if (!out->data) return TN_OUT_OF_MEMORY;
    return copy_dense(t, out->data, 0, c->pool);
}

tn_status float_buffer(KernelCtx *c, int rank, const int64_t *dims, Tensor *out) {
    *out = (Tensor){.kind = TYPE_TENSOR};
    tensor_set_dense(out, TN_F32, rank, dims);
    out->data = arena_raw(c->scratch, (size_t)max_i64(tensor_count(out), 1) * sizeof(float), 64);
    return out->data ? TN_OK : TN_OUT_OF_MEMORY;
}

void copy_floats(const Tensor *from, const Tensor *to) {
    const float *src = floats_of(from);
    for (TensorRows r = tensor_rows(to); tensor_next_row(&r); src += r.n)
        copy_elements(TN_F32, to->data, r.offset, r.stride, src, 0, 1, r.n);
}

/* ---- bodies over whole tensors ----------------------------------------------------------------------------------- */

static tn_status open_along(KernelCtx *c, const Epilogue *e, const Tensor *values, int axis, EpilogueTiles *t) {
    int row = values->rank - (axis == values->rank - 1 ? 2 : 1);
    bool has_rows = row >= 0 && row != axis;
    TRY(body_map(e->body, c, has_rows ? row : 0, has_rows ? 1 : 0, axis, &t->map));
    t->values = values;
    t->out = c->out[0];
    t->rows = has_rows ? t->out.dims[row] : 1;
    t->cols = axis >= 0 ? t->out.dims[axis] : 1;
    return TN_OK;
}

/* As many lines at once as there are rows. */
void epilogue_lines(const EpilogueTiles *t, int64_t begin, int64_t end) {
    const BodyMap *map = &t->map;
    int row = map->row_axis;
    for (int64_t line = begin, n; line < end; line += n) {
        int64_t at[TN_MAX_RANK] = {0}, left = line, from = t->values->offset, to = t->out.offset;
        n = min_i64(end - line, t->rows - line % t->rows);
        for (int k = map->rank; k-- > 0;) {
            if (k == map->col_axis) continue;
            at[k] = left % map->dims[k];
            left /= map->dims[k];
            from += at[k] * t->values->strides[k];
            to += at[k] * t->out.strides[k];
        }
        bool one = map->n_row_axes == 0;
        char *out = (char *)t->out.data + to * dtype_size(t->out.dtype);
        body_run_tile(map, at, (const float *)t->values->data + from, one ? 0 : t->values->strides[row], out,
                      one ? 0 : t->out.strides[row], n, t->cols);
    }
}

static void run_lines(void *arg, int64_t begin, int64_t end) { epilogue_lines(arg, begin, end); }

/* The axis along which both are neighbours; -1: none. */
static int common_axis(const Tensor *a, const Tensor *b) {
    int best = a->rank > 0 && tensor_count(a) == 1 ? 0 : -1;
    for (int k = 0; k < a->rank; k++)
        if (a->strides[k] == 1 && b->strides[k] == 1 && (best < 0 || a->dims[k] > a->dims[best])) best = k;
    return best;
}

tn_status epilogue_run(KernelCtx *c, const Epilogue *e, const Tensor *values) {
    EpilogueTiles tiles;
    Tensor out = c->out[0], buffer;
    int64_t count = tensor_count(values);
    if (count == 0) return TN_OK;
    int axis = common_axis(values, &out);
    bool detour = axis < 0 && values->rank > 0; /* through memory that lies as the values do */
    if (detour) {
        Tensor dense;
        TRY(dense_reading(c, values, &dense));
        buffer = dense;
        buffer.dtype = out.dtype;
        buffer.offset = 0;
        buffer.data = arena_raw(c->scratch, (size_t)count * (size_t)dtype_size(out.dtype), 64);
        if (!buffer.data) return TN_OUT_OF_MEMORY;
        Tensor kept = c->out[0];
        c->out[0] = buffer;
        tn_status status = epilogue_run(c, e, &dense);
        c->out[0] = kept;
        const char *src = buffer.data;
        int64_t size = dtype_size(out.dtype);
        for (TensorRows r = tensor_rows(&out); tensor_next_row(&r); src += r.n * size)
            copy_elements(out.dtype, out.data, r.offset, r.stride, src, 0, 1, r.n);
        return status;
    }
    TRY(open_along(c, e, values, axis, &tiles));
    double cost = (double)tiles.cols * body_cost(e->body) + 30;
    return kernel_parallel(c, count / tiles.cols, cost, run_lines, &tiles);
}

tn_status epilogue_open(KernelCtx *c, const Epilogue *e, const Tensor *values, EpilogueTiles *tiles, bool *opened) {
    int last = values->rank - 1;
    *opened = e->body && last >= 0 && tensor_count(values) > 0 && common_axis(values, &c->out[0]) == last;
    return *opened ? open_along(c, e, values, last, tiles) : TN_OK;
}
