/* SPDX-License-Identifier: Apache-2.0 */
/* tn.View and tn.Raster: regions written out in attributes. They count the elements of each operand in row-major order,
   whatever its strides are in memory; an operand that is not dense is copied first. */
#include "ops/move_int.h"

static tn_status shape_attr(const Node *node, const char *name, Shape *out) {
    IntList list = attr_ints(node, name);
    if (list.n > TN_MAX_RANK) return fail(TN_LIMIT, "%s has %zu dimensions, more than %d", name, list.n, TN_MAX_RANK);
    *out = (Shape){.rank = (int32_t)list.n};
    for (size_t k = 0; k < list.n; k++) {
        if (list.data[k] < 0) return fail(TN_SHAPE, "%s[%zu] is %lld", name, k, (long long)list.data[k]);
        out->dims[k] = list.data[k];
    }
    return TN_OK;
}

static tn_status read_view(const Node *node, Shape *y, Region *r) {
    IntList strides = attr_ints(node, "strides");
    TRY(shape_attr(node, "sizes", y));
    if (strides.n != (size_t)y->rank) return fail(TN_SHAPE, "strides has %zu entries for %d sizes", strides.n, y->rank);
    *r = region_dense(0, y->rank, y->dims);
    r->src_offset = attr_int(node, "offset");
    if (strides.n) memcpy(r->src_stride, strides.data, strides.n * sizeof *strides.data);
    return TN_OK;
}

/* [source, sizes.., offset, strides.., offset, strides..]: the source's side before the result's. */
static tn_status read_region(IntList list, Region *r) {
    size_t rank = list.n / 3 - 1;
    const int64_t *v = list.data;
    if (list.n % 3 != 0 || list.n == 0 || rank > TN_MAX_RANK)
        return fail(TN_INVALID_MODEL, "a region of %zu numbers: 3 for each dimension and 3 more are wanted", list.n);
    if (v[0] < REGION_FILL || v[0] > OP_MAX_INPUTS * 1024)
        return fail(TN_OUT_OF_RANGE, "regions: there is no source %lld", (long long)v[0]);
    *r = (Region){.source = (int32_t)v[0], .rank = (int32_t)rank};
    memcpy(r->size, v + 1, rank * sizeof *v);
    r->src_offset = v[1 + rank];
    memcpy(r->src_stride, v + 2 + rank, rank * sizeof *v);
    r->dst_offset = v[2 + 2 * rank];
    memcpy(r->dst_stride, v + 3 + 2 * rank, rank * sizeof *v);
    for (size_t k = 0; k < rank; k++)
        if (r->size[k] < 0) return fail(TN_SHAPE, "regions: a size is %lld", (long long)r->size[k]);
    return TN_OK;
}

/* One region against the result and the operands whose number of elements is known. */
static tn_status check(const Region *r, int n_in, const int64_t *counts, int64_t count) {
    int64_t lo = 0, hi = 0;
    RegionList list = {.data = (Region *)r, .len = region_count(r) > 0};
    Region one = *r;
    if (r->source >= n_in) return fail(TN_OUT_OF_RANGE, "regions: there is no source %d", r->source);
    if (r->source == REGION_FILL || list.len == 0) return regions_check(&list, 0, NULL, NULL, count);
    hi = counts[r->source] < 0 ? INT64_MAX : counts[r->source] - 1;
    one.source = 0;
    list.data = &one;
    return regions_check(&list, 1, &lo, &hi, count);
}

static tn_status counts_of(const InferCtx *c, int64_t *counts) {
    for (int i = 0; i < c->n_in; i++) {
        counts[i] = -1;
        if (has_input(c, i) && shape_is_known(in_shape(c, i)))
            TRY(checked_count(in_shape(c, i)->rank, in_shape(c, i)->dims, &counts[i]));
    }
    return TN_OK;
}

static tn_status view_infer(InferCtx *c) {
    Shape y;
    Region r;
    int64_t counts[1], count;
    TRY(read_view(c->node, &y, &r));
    TRY(checked_count(y.rank, y.dims, &count));
    if (c->n_in != 1) return fail(TN_INVALID_MODEL, "a view has one operand");
    TRY(counts_of(c, counts));
    TRY(check(&r, 1, counts, count));
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status raster_infer(InferCtx *c) {
    const Attr *attr = attr_get(c->node, "regions");
    Shape y;
    int64_t counts[OP_MAX_INPUTS], count;
    TRY(shape_attr(c->node, "shape", &y));
    TRY(checked_count(y.rank, y.dims, &count));
    if (c->n_in > OP_MAX_INPUTS) return fail(TN_LIMIT, "%d operands, more than %d", c->n_in, OP_MAX_INPUTS);
    TRY(counts_of(c, counts));
    for (size_t k = 0; attr && k < attr->n; k++) {
        Region r;
        TRY(read_region(attr->lists[k], &r));
        TRY(check(&r, c->n_in, counts, count));
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

static bool all_dense(const Tensor *const *in, int n) {
    for (int i = 0; i < n; i++)
        if (in[i] && !tensor_is_dense(in[i])) return false;
    return true;
}

static tn_status view_list(const Node *node, RegionList *list) {
    Shape y;
    Region r;
    TRY(read_view(node, &y, &r));
    list->covers = true;
    return region_push(list, &r);
}

static tn_status raster_list(const Node *node, RegionList *list, int64_t count) {
    const Attr *attr = attr_get(node, "regions");
    for (size_t k = 0; attr && k < attr->n; k++) {
        Region r;
        TRY(read_region(attr->lists[k], &r));
        TRY(region_push(list, &r));
    }
    list->covers = regions_cover(list, count);
    return TN_OK;
}

static tn_status view_regions(RegionCtx *c) {
    c->declined = !all_dense(c->in, c->n_in);
    return c->declined ? TN_OK : view_list(c->node, &c->lists[0]);
}

static tn_status raster_regions(RegionCtx *c) {
    c->declined = !all_dense(c->in, c->n_in);
    return c->declined ? TN_OK : raster_list(c->node, &c->lists[0], tensor_count(&c->out[0]));
}

static tn_status run(KernelCtx *c, RegionList *list) {
    RasterOperand sources[OP_MAX_INPUTS] = {0};
    Tensor *y = &c->out[0];
    int64_t count = tensor_count(y);
    if (count == 0) return TN_OK;
    for (size_t k = 0; k < list->len; k++) {
        int i = list->data[k].source;
        if (i != REGION_FILL && !sources[i].data) TRY(dense_bytes(c, i, &sources[i].data));
    }
    return raster_run(list, y->dtype, sources, y->data, y->offset, count, NULL, c->pool);
}

static tn_status view_reference(KernelCtx *c) {
    RegionList list = {.arena = c->scratch};
    TRY(view_list(c->node, &list));
    return run(c, &list);
}

static tn_status raster_reference(KernelCtx *c) {
    RegionList list = {.arena = c->scratch};
    TRY(raster_list(c->node, &list, tensor_count(&c->out[0])));
    return run(c, &list);
}

const OpSchema op_tn_View = {
    .domain = "tn",
    .name = "View",
    .summary = "a strided reading of the operand's elements",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}),
    .outputs = OPERANDS({"view", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"offset", ATTR_INT, 0, 0, 0, NULL}, {"sizes", ATTR_INTS, ATTR_REQUIRED, 0, 0, NULL},
                        {"strides", ATTR_INTS, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = view_infer,
    .regions = view_regions,
    .reference = view_reference,
};

const OpSchema op_tn_Raster = {
    .domain = "tn",
    .name = "Raster",
    .summary = "boxes of the operands' elements put together",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"sources", TS_ALL_TENSOR, 'T', OPERAND_VARIADIC}),
    .outputs = OPERANDS({"result", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"regions", ATTR_INT_LISTS, ATTR_REQUIRED, 0, 0, NULL},
                        {"shape", ATTR_INTS, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = raster_infer,
    .regions = raster_regions,
    .reference = raster_reference,
};
