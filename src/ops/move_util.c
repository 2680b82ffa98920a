/* SPDX-License-Identifier: Apache-2.0 */
/* What ops that move data share: contents, indices, regions run as a kernel. */
#include "ops/move_int.h"

/* ---- inference ----------------------------------------------------------------------------------------------- */

void pass_content(InferCtx *c, int out, int in) {
    Dim content[CONTENT_MAX];
    int n;
    if (in_content(c, in, content, CONTENT_MAX, &n)) set_content(c, out, content, n);
}

int64_t known_length(const InferCtx *c, int i) {
    if (!has_input(c, i)) return -1;
    const Shape *s = in_shape(c, i);
    if (s->rank == 0) return 1;
    return s->rank == 1 && dim_is_const(s->dims[0]) ? max_i64(s->dims[0], -1) : -1;
}

tn_status expect_list(const InferCtx *c, int i, int64_t max) {
    const OperandSpec *spec = op_input_spec(c->node->op, (size_t)i);
    if (!has_input(c, i)) return TN_OK;
    if (in_shape(c, i)->rank > 1)
        return fail(TN_SHAPE, "%s has %d dimensions, but is a list", spec->name, in_shape(c, i)->rank);
    int64_t n = known_length(c, i);
    return n <= max ? TN_OK
                    : fail(TN_SHAPE, "%s has %lld entries, more than %lld", spec->name, (long long)n, (long long)max);
}

/* ---- integers ------------------------------------------------------------------------------------------------ */

bool region_contents_known(const RegionCtx *c, int i) {
    return !region_has_input(c, i) || c->in[i]->data || tensor_count(c->in[i]) == 0;
}

tn_status tensor_few_ints(const Tensor *t, const char *what, int64_t *out, int max, int *n) {
    int64_t count = tensor_count(t);
    if (count > max) return fail(TN_LIMIT, "%s has %lld elements, more than %d", what, (long long)count, max);
    if (count > 0 && !t->data) return fail(TN_INTERNAL, "the contents of %s are not at hand", what);
    if (count > 0) TRY(tensor_ints(t, out, max, &count));
    *n = (int)count;
    return TN_OK;
}

tn_status region_ints(const RegionCtx *c, int i, int64_t *out, int max, int *n) {
    const OperandSpec *spec = op_input_spec(c->node->op, (size_t)i);
    return tensor_few_ints(c->in[i], spec ? spec->name : "operand", out, max, n);
}

tn_status tensor_all_ints(const Tensor *t, Arena *arena, int64_t **out, int64_t *n) {
    *n = tensor_count(t);
    *out = arena_array(arena, int64_t, (size_t)max_i64(*n, 1));
    if (!*out) return TN_OUT_OF_MEMORY;
    return *n > 0 ? tensor_ints(t, *out, *n, n) : TN_OK;
}

tn_status normal_index(int64_t index, int64_t size, int dim, int64_t *out) {
    if (index < -size || index >= size)
        return fail(TN_OUT_OF_RANGE, "index %lld is outside of dimension %d, which has size %lld", (long long)index,
                    dim, (long long)size);
    *out = index < 0 ? index + size : index;
    return TN_OK;
}

IndexRun index_run(const int64_t *index, int64_t n) {
    IndexRun run = {index[0], 0, 1};
    if (n < 2) return run;
    run.step = index[1] - index[0];
    run.n = 2;
    while (run.n < n && index[run.n] - index[run.n - 1] == run.step) run.n++;
    return run;
}

/* ---- moving -------------------------------------------------------------------------------------------------- */

tn_status run_as_regions(KernelCtx *c) {
    RegionList lists[OP_MAX_OUTPUTS] = {0};
    RegionCtx r = {.node = c->node, .n_in = c->n_in, .n_out = c->n_out, .in = c->in, .out = c->out, .lists = lists};
    RasterOperand *sources = kernel_scratch(c, RasterOperand, (size_t)c->n_in + 1);
    if (!sources) return TN_OUT_OF_MEMORY;
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i]) sources[i] = (RasterOperand){c->in[i]->data, c->in[i]->offset};
    for (int i = 0; i < c->n_out; i++) lists[i].arena = c->scratch;
    TRY(c->node->op->regions(&r));
    if (r.declined) return fail(TN_INTERNAL, "no regions for these operands");
    for (int i = 0; i < c->n_out; i++) {
        Tensor *y = &c->out[i];
        int64_t count = tensor_count(y);
        if (count == 0 || !y->data) continue;
        TRY(raster_run(&lists[i], y->dtype, sources, y->data, y->offset, count, r.fill[i], c->pool));
    }
    return TN_OK;
}

tn_status output_ready(KernelCtx *c, int i, int rank, const int64_t *dims) {
    Tensor *y = &c->out[i];
    if (!y->data) return kernel_alloc_output(c, i, rank, dims);
    bool same = y->rank == rank && memcmp(y->dims, dims, (size_t)rank * sizeof *dims) == 0;
    return same ? TN_OK : fail(TN_SHAPE, "result %d has another shape than was expected", i);
}

tn_status output_zero(KernelCtx *c, int i) {
    Tensor *y = &c->out[i];
    RegionList nothing = {.arena = c->scratch};
    int64_t n = tensor_count(y);
    return n > 0 ? raster_run(&nothing, y->dtype, NULL, y->data, y->offset, n, NULL, c->pool) : TN_OK;
}

#define KEY_CHUNK 256

static uint64_t float_key(double v) {
    uint64_t bits;
    if (v != v) return UINT64_MAX;
    v += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &v, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

void sort_keys(tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n, uint64_t *keys) {
    for (int64_t k = 0; k < n; k += KEY_CHUNK) {
        int64_t m = min_i64(KEY_CHUNK, n - k), ints[KEY_CHUNK];
        double floats[KEY_CHUNK];
        if (dtype_is_float(dtype)) {
            load_f64(floats, dtype, data, offset + k * stride, stride, m);
            for (int64_t i = 0; i < m; i++) keys[k + i] = float_key(floats[i]);
        } else {
            load_i64(ints, dtype, data, offset + k * stride, stride, m);
            uint64_t flip = dtype == TN_U64 ? 0 : (uint64_t)1 << 63;
            for (int64_t i = 0; i < m; i++) keys[k + i] = (uint64_t)ints[i] ^ flip;
        }
    }
}

bool has_order_keys(tn_dtype dtype) {
    bool whole = dtype == TN_I32 || dtype == TN_U8 || dtype == TN_I8 || dtype == TN_U16 || dtype == TN_I16;
    return whole || (dtype_is_float(dtype) && dtype != TN_F64);
}

/* Whole numbers of up to 16 bits are floats, too. */
void order_keys(tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n, int32_t *keys) {
    if (dtype == TN_I32) {
        const int32_t *from = (const int32_t *)data + offset;
        for (int64_t i = 0; i < n; i++) keys[i] = from[i * stride];
        return;
    }
    for (int64_t at = 0; at < n; at += KEY_CHUNK) {
        int64_t m = min_i64(KEY_CHUNK, n - at);
        float v[KEY_CHUNK];
        load_f32(v, dtype, data, offset + at * stride, stride, m);
        memcpy(keys + at, v, (size_t)m * sizeof *v);
        for (int64_t i = at; i < at + m; i++) {
            int32_t bits = keys[i] == INT32_MIN ? 0 : keys[i], ordered = bits ^ ((bits >> 31) & INT32_MAX);
            keys[i] = (bits & INT32_MAX) > 0x7f800000 ? INT32_MAX : ordered;
        }
    }
}

tn_status copy_dense(const Tensor *src, void *dst, int64_t dst_offset, Pool *pool) {
    int64_t count = tensor_count(src);
    if (count == 0) return TN_OK;
    Region r = region_dense(0, src->rank, src->dims);
    for (int k = 0; k < src->rank; k++) r.src_stride[k] = src->strides[k];
    RegionList list = {.data = &r, .len = 1, .cap = 1, .covers = true};
    RasterOperand source = {src->data, src->offset};
    return raster_run(&list, src->dtype, &source, dst, dst_offset, count, NULL, pool);
}

/* Single elements of the common sizes without calls: there may be very many. */
void copy_run(tn_dtype dtype, void *dst, int64_t dst_offset, const void *src, int64_t src_offset, int64_t n) {
    int size = dtype == TN_STRING ? 0 : dtype_size(dtype);
    char *to = (char *)dst + dst_offset * size;
    const char *from = (const char *)src + src_offset * size;
    if (size == 0) copy_elements(dtype, dst, dst_offset, 1, src, src_offset, 1, n);
    else if (n * size == 4) memcpy(to, from, 4);
    else if (n * size == 8) memcpy(to, from, 8);
    else if (n > 0) memcpy(to, from, (size_t)(n * size));
}
