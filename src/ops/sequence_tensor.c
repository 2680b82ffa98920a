/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors to sequences and back: SplitToSequence (ONNX 24), ConcatFromSequence (ONNX 11). */
#include "ops/object_int.h"

/* ---- SplitToSequence ------------------------------------------------------------------------------------------ */

static tn_status split_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    int axis;
    if (x->rank >= 0) TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    if (has_input(c, 1) && in_shape(c, 1)->rank > 1) return fail(TN_SHAPE, "split is neither a scalar nor a list");
    return set_object_of_tensors(c, 0, TYPE_SEQUENCE, in_dtype(c, 0));
}

/* Parts of equal size, the last one smaller, or of the sizes in a list. */
typedef struct Parts {
    int axis;
    bool squeeze; /* parts of size 1 lose the dimension */
    int64_t each, n;
    const int64_t *sizes; /* NULL: `each` */
} Parts;

static tn_status list_of_sizes(KernelCtx *c, int64_t size, Parts *p) {
    int64_t *sizes, total = 0;
    TRY(tensor_all_ints(c->in[1], c->scratch, &sizes, &p->n));
    for (int64_t i = 0; i < p->n; i++) {
        if (sizes[i] < 0) return fail(TN_SHAPE, "split has the size %lld", (long long)sizes[i]);
        if (sizes[i] > size - total)
            return fail(TN_SHAPE, "the sizes in split add up to more than %lld", (long long)size);
        total += sizes[i];
    }
    if (total != size)
        return fail(TN_SHAPE, "the sizes in split add up to %lld, but the dimension has %lld", (long long)total,
                    (long long)size);
    p->sizes = sizes;
    return TN_OK;
}

static tn_status read_parts(KernelCtx *c, Parts *p) {
    const Tensor *x = c->in[0];
    int n;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &p->axis));
    int64_t size = x->dims[p->axis];
    p->each = 1;
    p->squeeze = !kernel_has_input(c, 1) && attr_int(c->node, "keepdims") == 0;
    if (kernel_has_input(c, 1)) {
        if (c->in[1]->rank > 0) return list_of_sizes(c, size, p);
        TRY(tensor_few_ints(c->in[1], "split", &p->each, 1, &n));
        if (p->each < 1) return fail(TN_INVALID_ARGUMENT, "split is %lld", (long long)p->each);
    }
    p->n = size / p->each + (size % p->each != 0);
    return TN_OK;
}

/* Elements [at, at + size) of the axis, dense in memory of their own. */
static tn_status copy_part(KernelCtx *c, const Parts *p, int64_t at, int64_t size, Tensor *out) {
    Tensor part = *c->in[0];
    part.offset += at * part.strides[p->axis];
    part.dims[p->axis] = size;
    if (p->squeeze) {
        part.rank--;
        for (int k = p->axis; k < part.rank; k++) {
            part.dims[k] = part.dims[k + 1];
            part.strides[k] = part.strides[k + 1];
        }
    }
    TRY(tensor_new(c->context, part.dtype, part.rank, part.dims, out));
    return copy_dense(&part, out->data, 0, c->pool);
}

static tn_status split_reference(KernelCtx *c) {
    Parts p = {0};
    Tensor made;
    TRY(read_parts(c, &p));
    TRY(object_new(c->context, TYPE_SEQUENCE, (size_t)p.n, &made));
    tn_status status = TN_OK;
    int64_t at = 0;
    for (int64_t i = 0; i < p.n && status == TN_OK; i++) {
        int64_t size = p.sizes ? p.sizes[i] : min_i64(p.each, c->in[0]->dims[p.axis] - at);
        status = copy_part(c, &p, at, size, &object_of(&made)->items[i]);
        at += size;
    }
    if (status == TN_OK) return kernel_give_output(c, 0, &made);
    tensor_release(&made);
    return status;
}

const OpSchema op_SplitToSequence = {
    .name = "SplitToSequence",
    .summary = "SplitToSequence (ONNX 24): parts along an axis as a sequence",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}, {"split", TS(TN_I32) | TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output_sequence", TS_SEQUENCE, 0, 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 0, 0, NULL}, {"keepdims", ATTR_INT, 0, 1, 0, NULL}),
    .infer = split_infer,
    .reference = split_reference,
};

/* ---- ConcatFromSequence --------------------------------------------------------------------------------------- */

static tn_status concat_infer(InferCtx *c) {
    if (attr_int(c->node, "new_axis") < 0 || attr_int(c->node, "new_axis") > 1)
        return fail(TN_INVALID_ARGUMENT, "new_axis is neither 0 nor 1");
    const Type *item = items_type(c, 0);
    if (item && item->kind != TYPE_TENSOR) return fail(TN_SHAPE, "the sequence has elements that are no tensors");
    set_item(c, 0, item);
    return TN_OK;
}

/* The dims of the result; every element must agree with the first one but along the axis. */
static tn_status joined_dims(const Object *from, bool new_axis, int axis, int64_t *dims) {
    const Tensor *first = &from->items[0];
    int rank = first->rank + new_axis;
    for (int k = 0; k < rank; k++) dims[k] = k == axis ? 0 : first->dims[k - (new_axis && k > axis)];
    for (size_t i = 0; i < from->n; i++) {
        const Tensor *x = &from->items[i];
        bool same = x->kind == TYPE_TENSOR && x->dtype == first->dtype && x->rank == first->rank;
        for (int k = 0; same && k < rank; k++) same = k == axis || x->dims[k - (new_axis && k > axis)] == dims[k];
        if (!same) return fail(TN_SHAPE, "element %zu of the sequence differs from the first in type or shape", i);
        if (add_overflows(dims[axis], new_axis ? 1 : x->dims[axis], &dims[axis]))
            return fail(TN_LIMIT, "the sizes along the axis add up to more than 2^63");
    }
    return TN_OK;
}

static tn_status join(KernelCtx *c, const Object *from, bool new_axis, int axis) {
    Tensor *y = &c->out[0];
    RegionList list = {.arena = c->scratch, .covers = true};
    RasterOperand *sources = kernel_scratch(c, RasterOperand, from->n);
    int64_t at = 0;
    if (!sources) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < from->n; i++) {
        const Tensor *x = &from->items[i];
        Region r = region_dense((int32_t)i, y->rank, y->dims);
        r.size[axis] = new_axis ? 1 : x->dims[axis];
        r.dst_offset = at * r.dst_stride[axis];
        for (int k = 0; k < y->rank; k++)
            r.src_stride[k] = new_axis && k == axis ? 0 : x->strides[k - (new_axis && k > axis)];
        at += r.size[axis];
        sources[i] = (RasterOperand){x->data, x->offset};
        TRY(region_push(&list, &r));
    }
    int64_t count = tensor_count(y);
    return count ? raster_run(&list, y->dtype, sources, y->data, y->offset, count, NULL, c->pool) : TN_OK;
}

static tn_status concat_reference(KernelCtx *c) {
    const Object *from;
    bool new_axis = attr_int(c->node, "new_axis") != 0;
    int axis;
    int64_t dims[TN_MAX_RANK] = {0};
    TRY(operand_items(c, 0, TYPE_SEQUENCE, &from));
    if (from->n == 0) return fail(TN_SHAPE, "an empty sequence has no shape to make a tensor of");
    if (from->n > INT32_MAX) return fail(TN_LIMIT, "a sequence of %zu elements is too long to be joined", from->n);
    const Tensor *first = &from->items[0];
    int rank = first->rank + new_axis;
    if (rank > TN_MAX_RANK) return fail(TN_LIMIT, "the result would have more than %d dimensions", TN_MAX_RANK);
    TRY(normal_axis(attr_int(c->node, "axis"), rank, "axis", &axis));
    TRY(joined_dims(from, new_axis, axis, dims));
    c->out[0].dtype = first->dtype;
    TRY(kernel_alloc_output(c, 0, rank, dims));
    return join(c, from, new_axis, axis);
}

const OpSchema op_ConcatFromSequence = {
    .name = "ConcatFromSequence",
    .summary = "ConcatFromSequence (ONNX 11): the elements of a sequence as one tensor",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"input_sequence", TS_SEQUENCE, 0, 0}),
    .outputs = OPERANDS({"concat_result", TS_ALL_TENSOR, 0, 0}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, ATTR_REQUIRED, 0, 0, NULL}, {"new_axis", ATTR_INT, 0, 0, 0, NULL}),
    .infer = concat_infer,
    .reference = concat_reference,
};
