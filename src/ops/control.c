/* SPDX-License-Identifier: Apache-2.0 */
/* What If, Loop and Scan share. */
#include "ops/control_int.h"

/* ---- types --------------------------------------------------------------------------------------------------- */

InferValue body_output(const InferCtx *c, const Graph *body, size_t i) {
    const Type *type = graph_output(body, i)->type;
    InferValue v = {
        .present = true, .kind = type->kind, .dtype = type->dtype, .shape = type->shape, .elem = type->elem};
    for (int k = 0; !c->model && k < v.shape.rank; k++)
        if (!dim_is_const(v.shape.dims[k])) v.shape.dims[k] = DIM_UNKNOWN;
    return v;
}

static bool says_nothing(const InferValue *v) { return v->kind == TYPE_TENSOR && !v->dtype && v->shape.rank < 0; }

static tn_dtype innermost_dtype(const Type *type) {
    while (type && type->kind != TYPE_TENSOR) type = type->elem;
    return type ? type->dtype : TN_UNDEFINED;
}

static tn_status holds_both(int result, tn_dtype x, tn_dtype y) {
    return fail(TN_SHAPE, "result %d holds %s in one case and %s in another", result, dtype_name(x), dtype_name(y));
}

/* An optional in one case and what may be in it in the other: ops that take the one take the other too, and the run
   will show. */
static tn_status without_optional(const InferValue *a, const InferValue *b, int result, InferValue *out) {
    const InferValue *optional = a->kind == TYPE_OPTIONAL ? a : b, *item = a->kind == TYPE_OPTIONAL ? b : a;
    if (optional->kind != TYPE_OPTIONAL || (optional->elem && optional->elem->kind != item->kind))
        return fail(TN_SHAPE, "result %d is a tensor in one case and none in another", result);
    tn_dtype x = innermost_dtype(optional->elem), y = item->elem ? innermost_dtype(item->elem) : item->dtype;
    if (x && y && x != y) return holds_both(result, x, y);
    *out = *item;
    out->shape = shape_unknown();
    return TN_OK;
}

tn_status either_of(const InferValue *a, const InferValue *other, int result, InferValue *out) {
    const InferValue first = *a, second = *other, *b = &second; /* `out` may be either of them */
    a = &first;
    *out = says_nothing(a) ? second : first;
    out->value = NULL;
    out->content = NULL;
    if (says_nothing(a) || says_nothing(b)) { /* the run will show */
        out->shape = shape_unknown();
        return TN_OK;
    }
    if (a->kind != b->kind) return without_optional(a, b, result, out);
    if (a->kind != TYPE_TENSOR) {
        if (!out->elem) out->elem = b->elem;
        tn_dtype x = innermost_dtype(out->elem), y = innermost_dtype(b->elem);
        return !x || !y || x == y ? TN_OK : holds_both(result, x, y);
    }
    if (a->dtype && b->dtype && a->dtype != b->dtype)
        return fail(TN_SHAPE, "result %d is %s in one case and %s in another", result, dtype_name(a->dtype),
                    dtype_name(b->dtype));
    if (!out->dtype) out->dtype = b->dtype;
    if (a->shape.rank != b->shape.rank) out->shape = shape_unknown();
    for (int k = 0; k < out->shape.rank; k++)
        if (a->shape.dims[k] != b->shape.dims[k]) out->shape.dims[k] = DIM_UNKNOWN;
    return TN_OK;
}

void set_result(InferCtx *c, int out, const InferValue *value) {
    if (out >= c->n_out) return;
    c->out[out].kind = value->kind;
    c->out[out].dtype = value->dtype;
    c->out[out].shape = value->shape;
    c->out[out].elem = value->elem;
}

tn_status insert_dim(Shape *s, int64_t axis, Dim size, const char *what) {
    int at;
    if (s->rank < 0) return TN_OK;
    if (s->rank == TN_MAX_RANK) return fail(TN_LIMIT, "a result would have more than %d dimensions", TN_MAX_RANK);
    TRY(normal_axis(axis, s->rank + 1, what, &at));
    for (int k = s->rank++; k > at; k--) s->dims[k] = s->dims[k - 1];
    s->dims[at] = size;
    return TN_OK;
}

/* ---- bodies -------------------------------------------------------------------------------------------------- */

/* The declared type of a body's input, made more precise by what is known of it. Declared sizes that contradict give
   way; a declared element type does not. */
static tn_status bind_input(Model *model, Value *input, const Type *known) {
    const Type *merged, *declared = input->type;
    const Type *interned = type_intern(model, known);
    if (!interned) return TN_OUT_OF_MEMORY;
    if (declared->kind != known->kind && declared != model->type_any)
        return fail(TN_SHAPE, "input \"%.*s\" of a nested graph is of another kind", (int)input->name.n, input->name.s);
    if (declared->dtype && known->dtype && declared->dtype != known->dtype)
        return fail(TN_SHAPE, "input \"%.*s\" of a nested graph is %s, but gets %s", (int)input->name.n, input->name.s,
                    dtype_name(declared->dtype), dtype_name(known->dtype));
    tn_status status = type_merge(model, interned, declared, &merged);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) {
        diag_clear();
        merged = interned;
    }
    value_set_type(input, merged);
    return TN_OK;
}

static tn_status bind_scalar(Model *model, Value *input, tn_dtype dtype) {
    /* Some exporters declare these as [1]; the kernel follows. */
    Type type = {.kind = TYPE_TENSOR, .dtype = dtype, .shape = {.rank = 0}};
    if (input->type->shape.rank == 1) type.shape = (Shape){.rank = 1, .dims = {1}};
    return bind_input(model, input, &type);
}

/* A carried value starts as the operand; where sizes may change, only what is declared of them is relied on. */
static tn_status bind_carried(Model *model, Value *input, const InferValue *operand, bool sizes_stay) {
    Type type = {.kind = operand->kind, .dtype = operand->dtype, .shape = operand->shape, .elem = operand->elem};
    if (says_nothing(operand) && operand->present) return TN_OK;
    if (!operand->present)
        return fail(TN_INVALID_MODEL, "the first value of \"%.*s\" is missing", (int)input->name.n, input->name.s);
    for (int k = 0; !sizes_stay && k < type.shape.rank; k++) type.shape.dims[k] = DIM_UNKNOWN;
    return bind_input(model, input, &type);
}

static tn_status bind_loop(const Node *node, Model *model, const InferValue *in, Graph *body, bool sizes_stay) {
    size_t carried = node->n_operands > 2 ? node->n_operands - 2 : 0;
    if (body->inputs.len != 2 + carried)
        return fail(TN_INVALID_MODEL, "the body has %zu inputs, but %zu are wanted", body->inputs.len, 2 + carried);
    TRY(bind_scalar(model, body->inputs.data[0], TN_I64));
    TRY(bind_scalar(model, body->inputs.data[1], TN_BOOL));
    for (size_t i = 0; i < carried; i++) TRY(bind_carried(model, body->inputs.data[2 + i], &in[2 + i], sizes_stay));
    return TN_OK;
}

static tn_status bind_scan(const Node *node, Model *model, const InferValue *in, Graph *body, bool sizes_stay) {
    int64_t scanned = attr_int(node, "num_scan_inputs");
    IntList axes = attr_ints(node, "scan_input_axes");
    if (scanned < 1 || scanned > node->n_operands)
        return fail(TN_INVALID_ARGUMENT, "num_scan_inputs is %lld", (long long)scanned);
    int64_t states = node->n_operands - scanned;
    if (body->inputs.len != node->n_operands)
        return fail(TN_INVALID_MODEL, "the body has %zu inputs, but the node %u", body->inputs.len, node->n_operands);
    for (int64_t i = 0; i < states; i++) TRY(bind_carried(model, body->inputs.data[i], &in[i], sizes_stay));
    for (int64_t i = states; i < (int64_t)node->n_operands; i++) {
        Type type = {.kind = TYPE_TENSOR, .dtype = in[i].dtype, .shape = in[i].shape};
        size_t k = (size_t)(i - states);
        int axis;
        if (type.shape.rank >= 0) {
            TRY(normal_axis(k < axes.n ? axes.data[k] : 0, type.shape.rank, "scan_input_axes", &axis));
            type.shape.rank--;
            for (int d = axis; d < type.shape.rank; d++) type.shape.dims[d] = type.shape.dims[d + 1];
            type.shape.dims[type.shape.rank] = 0;
        }
        TRY(bind_input(model, body->inputs.data[i], &type));
    }
    return TN_OK;
}

/* Sequences give their elements one by one, tensors go in as they are. */
static tn_status bind_sequence_map(const Node *node, Model *model, const InferValue *in, Graph *body) {
    if (body->inputs.len != node->n_operands)
        return fail(TN_INVALID_MODEL, "the body has %zu inputs, but the node %u", body->inputs.len, node->n_operands);
    for (uint32_t i = 0; i < node->n_operands; i++) {
        Type type = {.kind = in[i].kind, .dtype = in[i].dtype, .shape = in[i].shape, .elem = in[i].elem};
        if (type.kind == TYPE_SEQUENCE) {
            const Type *item = in[i].elem ? in[i].elem : model->type_any;
            type = (Type){.kind = item->kind, .dtype = item->dtype, .shape = shape_unknown(), .elem = item->elem};
        }
        TRY(bind_input(model, body->inputs.data[i], &type));
    }
    return TN_OK;
}

int control_carried(const Node *node, int *in, int *out) {
    int64_t n = 0;
    *in = node_is_onnx(node, "Loop") ? 2 : 0;
    *out = node_is_onnx(node, "Loop") ? 1 : 0;
    if (node_is_onnx(node, "Loop")) n = (int64_t)node->n_operands - 2;
    if (node_is_onnx(node, "Scan"))
        n = (int64_t)node->n_operands - min_i64(max_i64(attr_int(node, "num_scan_inputs"), 0), node->n_operands);
    return (int)max_i64(n, 0);
}

bool control_is_loop(const Node *node) { return node && node_is_onnx(node, "Loop"); }

void control_forget_slices(const Node *node, InferValue *out) {
    int in, first;
    bool scan = node_is_onnx(node, "Scan");
    if (!scan && !node_is_onnx(node, "Loop")) return;
    int n = control_carried(node, &in, &first);
    IntList axes = scan ? attr_ints(node, "scan_output_axes") : (IntList){0};
    for (int i = n; i < (int)node->n_results; i++) {
        Shape *s = &out[i].shape;
        int axis;
        if (s->rank < 0 || normal_axis((size_t)(i - n) < axes.n ? axes.data[i - n] : 0, s->rank, "axis", &axis))
            continue;
        if (dim_is_const(s->dims[axis]) && s->dims[axis] > 0) continue;
        for (int k = 0; k < s->rank; k++)
            if (k != axis) s->dims[k] = DIM_UNKNOWN;
    }
}

static tn_status bind_fused(const Node *node, Model *model, const InferValue *in, Graph *body) {
    if (body->inputs.len != node->n_operands)
        return fail(TN_INVALID_MODEL, "the body has %zu inputs, but the node %u operands", body->inputs.len,
                    node->n_operands);
    for (uint32_t i = 0; i < node->n_operands; i++) {
        Type type = {.kind = in[i].kind, .dtype = in[i].dtype, .shape = in[i].shape, .elem = in[i].elem};
        if (!in[i].present) return fail(TN_INVALID_MODEL, "operand %u is missing", i);
        TRY(bind_input(model, body->inputs.data[i], &type));
    }
    return TN_OK;
}

tn_status control_bind_body(const Node *node, Model *model, const InferValue *in, Graph *body, bool sizes_stay) {
    tn_status status = TN_OK;
    if (node_is_onnx(node, "Loop")) status = bind_loop(node, model, in, body, sizes_stay);
    if (node_is_onnx(node, "SequenceMap")) status = bind_sequence_map(node, model, in, body);
    if (node_is_fused(node)) status = bind_fused(node, model, in, body);
    if (node_is_onnx(node, "Scan")) status = bind_scan(node, model, in, body, sizes_stay);
    if (status != TN_OK) diag_set_node(node->loc.n ? node->loc.s : "", node->op->name);
    return status;
}

/* ---- carried values ------------------------------------------------------------------------------------------ */

static tn_status slot_reserve(KernelCtx *c, Slot *slot, tn_dtype dtype, int64_t count) {
    size_t bytes;
    TRY(checked_bytes(dtype, count, &bytes));
    if (slot->data && slot->dtype != dtype) return fail(TN_SHAPE, "a carried value changes its element type");
    if (slot->data && bytes <= slot->bytes) return TN_OK;
    if (c->context && bytes > c->context->limits.max_bytes)
        return fail(TN_LIMIT, "a value of %zu bytes is larger than max_bytes", bytes);
    void *data = arena_alloc(c->scratch, bytes ? bytes : 1, 64);
    if (!data) return TN_OUT_OF_MEMORY;
    if (slot->data) memcpy(data, slot->data, slot->bytes); /* strings move with their references */
    *slot = (Slot){dtype, data, bytes};
    return TN_OK;
}

void slot_release(Slot *slot) {
    if (slot->dtype != TN_STRING) return;
    for (size_t i = 0; i < slot->bytes / sizeof(RcString *); i++) rc_string_unref(((RcString **)slot->data)[i]);
    *slot = (Slot){0};
}

static bool same_reading(const Tensor *a, const Tensor *b) {
    if (a->kind != b->kind || a->data != b->data) return false;
    if (a->kind != TYPE_TENSOR) return true;
    size_t n = (size_t)a->rank * sizeof *a->dims;
    return a->offset == b->offset && a->dtype == b->dtype && a->rank == b->rank && memcmp(a->dims, b->dims, n) == 0 &&
           memcmp(a->strides, b->strides, n) == 0;
}

tn_status carry(KernelCtx *c, Carried *carried, const Tensor *next) {
    if (same_reading(&carried->now, next)) return TN_OK;
    int to = !carried->used;
    if (next->kind != TYPE_TENSOR) { /* objects do not change: a reference does */
        Tensor kept;
        TRY(tensor_keep(c->context, next, &kept));
        tensor_release(&carried->objects[to]);
        carried->now = carried->objects[to] = kept;
        carried->used = to;
        return TN_OK;
    }
    Slot *slot = &carried->slots[to];
    TRY(slot_reserve(c, slot, next->dtype, tensor_count(next)));
    TRY(copy_dense(next, slot->data, 0, c->pool));
    int64_t dims[TN_MAX_RANK];
    memcpy(dims, next->dims, sizeof dims);
    tensor_set_dense(&carried->now, next->dtype, next->rank, dims);
    carried->now.data = slot->data;
    carried->used = to;
    return TN_OK;
}

void carried_release(Carried *carried) {
    slot_release(&carried->slots[0]);
    slot_release(&carried->slots[1]);
    for (int i = 0; i < 2; i++) tensor_release(&carried->objects[i]);
}

/* ---- results ------------------------------------------------------------------------------------------------- */

static tn_status ready(KernelCtx *c, int i, tn_dtype dtype, int rank, const int64_t *dims) {
    Tensor *y = &c->out[i];
    if (!y->dtype) y->dtype = dtype;
    if (y->dtype != dtype)
        return fail(TN_SHAPE, "result %d is %s, but was expected to be %s", i, dtype_name(dtype), dtype_name(y->dtype));
    return output_ready(c, i, rank, dims);
}

tn_status give_result(KernelCtx *c, int i, const Tensor *value) {
    if (!output_wanted(c, i)) return TN_OK;
    if (value->kind != TYPE_TENSOR) {
        if (c->out[i].data) return fail(TN_SHAPE, "result %d is no tensor, but was expected to be one", i);
        Tensor kept;
        TRY(tensor_keep(c->context, value, &kept));
        return kernel_give_output(c, i, &kept);
    }
    TRY(ready(c, i, value->dtype, value->rank, value->dims));
    return copy_dense(value, c->out[i].data, c->out[i].offset, c->pool);
}

/* Where slice number `at` of a stack that is the tensor `y` goes. */
static tn_status put_slice(KernelCtx *c, const Tensor *y, int axis, int64_t at, const Tensor *slice) {
    if (tensor_count(slice) == 0) return TN_OK;
    Region r = {.rank = slice->rank, .dst_offset = at * y->strides[axis]};
    for (int k = 0; k < slice->rank; k++) {
        r.size[k] = slice->dims[k];
        r.src_stride[k] = slice->strides[k];
        r.dst_stride[k] = y->strides[k + (k >= axis)];
    }
    RegionList list = {.data = &r, .len = 1, .cap = 1, .covers = true}; /* of its slice; the rest stays */
    RasterOperand source = {slice->data, slice->offset};
    return raster_run(&list, y->dtype, &source, y->data, y->offset, tensor_count(y), NULL, c->pool);
}

/* The dims of `length` slices. */
static tn_status stacked_dims(const Stack *s, int64_t length, int *rank, int64_t *dims, int *axis) {
    Shape shape = shape_make(s->slice.rank, s->slice.dims);
    TRY(insert_dim(&shape, s->axis, length, "scan_output_axes"));
    TRY(normal_axis(s->axis, shape.rank, "scan_output_axes", axis));
    *rank = shape.rank;
    memcpy(dims, shape.dims, sizeof shape.dims);
    return TN_OK;
}

/* Slices of unknown number wait in a slot that doubles, stacked along dimension 0. */
static tn_status push_waiting(KernelCtx *c, Stack *s, const Tensor *slice) {
    int64_t each = tensor_count(slice), total;
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 4;
        if (mul_overflows(each, s->cap, &total)) return fail(TN_LIMIT, "a result grows without bounds");
        TRY(slot_reserve(c, &s->slot, slice->dtype, total));
    }
    return copy_dense(slice, s->slot.data, s->n * each, c->pool);
}

tn_status stack_push(KernelCtx *c, Stack *s, const Tensor *slice) {
    if (!output_wanted(c, s->index)) return TN_OK;
    if (slice->kind != TYPE_TENSOR) return fail(TN_UNSUPPORTED, "result %d: only tensors can be stacked", s->index);
    if (s->n == 0) s->slice = *slice;
    if (slice->rank != s->slice.rank || slice->dtype != s->slice.dtype ||
        memcmp(slice->dims, s->slice.dims, (size_t)slice->rank * sizeof *slice->dims) != 0)
        return fail(TN_SHAPE, "result %d: a slice differs in shape or element type from the first one", s->index);
    if (s->length < 0) {
        TRY(push_waiting(c, s, slice));
    } else {
        int rank, axis;
        int64_t dims[TN_MAX_RANK];
        if (s->n >= s->length) return fail(TN_INTERNAL, "result %d: more slices than expected", s->index);
        TRY(stacked_dims(s, s->length, &rank, dims, &axis));
        if (s->n == 0) TRY(ready(c, s->index, slice->dtype, rank, dims));
        TRY(put_slice(c, &c->out[s->index], axis, s->backwards ? s->length - 1 - s->n : s->n, slice));
    }
    s->n++;
    return TN_OK;
}

tn_status stack_finish(KernelCtx *c, Stack *s, const Value *body_output) {
    int rank, axis;
    int64_t dims[TN_MAX_RANK];
    if (!output_wanted(c, s->index)) return TN_OK;
    if (s->n == 0) { /* no slice was seen: unknown sizes are 0 */
        const Shape *shape = &body_output->type->shape;
        s->slice = (Tensor){.dtype = body_output->type->dtype, .rank = max_i64(shape->rank, 0)};
        for (int k = 0; k < s->slice.rank; k++) s->slice.dims[k] = dim_is_const(shape->dims[k]) ? shape->dims[k] : 0;
    } else if (s->length >= 0) {
        return TN_OK;
    }
    TRY(stacked_dims(s, s->n, &rank, dims, &axis));
    TRY(ready(c, s->index, s->slice.dtype, rank, dims));
    if (s->n == 0) return TN_OK;
    Tensor all;
    tensor_set_dense(&all, s->slice.dtype, rank, dims);
    all.data = s->slot.data;
    return copy_dense(&all, c->out[s->index].data, c->out[s->index].offset, c->pool);
}

tn_status read_bool(const Tensor *t, const char *what, bool *out) {
    int64_t value = 0;
    int n;
    TRY(tensor_few_ints(t, what, &value, 1, &n));
    if (n != 1) return fail(TN_SHAPE, "%s must have one element", what);
    *out = value != 0;
    return TN_OK;
}
