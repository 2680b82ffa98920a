/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences: made, changed by an element, asked for one and for their length (ONNX 11). Elements are shared, not copied:
   only a tensor that goes in from the program's memory is. */
#include "ops/object_int.h"

/* ---- making -------------------------------------------------------------------------------------------------- */

static tn_status empty_infer(InferCtx *c) {
    tn_dtype dtype = (tn_dtype)attr_int(c->node, "dtype");
    if (dtype_bits(dtype) == 0) return fail(TN_INVALID_ARGUMENT, "dtype is %d, which is no element type", (int)dtype);
    return set_object_of_tensors(c, 0, TYPE_SEQUENCE, dtype);
}

static tn_status empty_reference(KernelCtx *c) {
    Tensor made;
    TRY(object_new(c->context, TYPE_SEQUENCE, 0, &made));
    return kernel_give_output(c, 0, &made);
}

const OpSchema op_SequenceEmpty = {
    .name = "SequenceEmpty",
    .summary = "SequenceEmpty (ONNX 11): a sequence without elements",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .outputs = OPERANDS({"output", TS_SEQUENCE, 0, 0}),
    .attrs = ATTRIBUTES({"dtype", ATTR_INT, 0, TN_F32, 0, NULL}),
    .infer = empty_infer,
    .reference = empty_reference,
};

static tn_status construct_infer(InferCtx *c) {
    tn_dtype dtype = TN_UNDEFINED;
    for (int i = 0; i < c->n_in && !dtype; i++) dtype = in_dtype(c, i);
    return set_object_of_tensors(c, 0, TYPE_SEQUENCE, dtype);
}

static tn_status construct_reference(KernelCtx *c) {
    Tensor made;
    TRY(object_new(c->context, TYPE_SEQUENCE, (size_t)c->n_in, &made));
    tn_status status = TN_OK;
    for (int i = 0; i < c->n_in && status == TN_OK; i++)
        status = tensor_keep(c->context, c->in[i], &object_of(&made)->items[i]);
    if (status == TN_OK) return kernel_give_output(c, 0, &made);
    tensor_release(&made);
    return status;
}

const OpSchema op_SequenceConstruct = {
    .name = "SequenceConstruct",
    .summary = "SequenceConstruct (ONNX 11): the operands as a sequence",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"inputs", TS_ALL_TENSOR, 'T', OPERAND_VARIADIC}),
    .outputs = OPERANDS({"output_sequence", TS_SEQUENCE, 0, 0}),
    .infer = construct_infer,
    .reference = construct_reference,
};

/* ---- changing ------------------------------------------------------------------------------------------------- */

/* A sequence of `n` items, filled from `items` but for `gap` places (0 or 1) at `at` on either side. */
static tn_status copy_around(KernelCtx *c, const Object *from, int64_t at, int64_t removed, int64_t added,
                             const Tensor *item) {
    Tensor made;
    int64_t n = (int64_t)from->n - removed + added;
    TRY(object_new(c->context, TYPE_SEQUENCE, (size_t)n, &made));
    tn_status status = TN_OK;
    for (int64_t i = 0; i < n && status == TN_OK; i++) {
        const Tensor *source = i == at && added ? item : &from->items[i < at ? i : i - added + removed];
        status = tensor_keep(c->context, source, &object_of(&made)->items[i]);
    }
    if (status == TN_OK) return kernel_give_output(c, 0, &made);
    tensor_release(&made);
    return status;
}

static tn_status different_elements(tn_dtype sequence, tn_dtype tensor) {
    return fail(TN_SHAPE, "the sequence has elements of type %s, the tensor is %s", dtype_name(sequence),
                dtype_name(tensor));
}

static tn_status insert_infer(InferCtx *c) {
    tn_dtype items = items_dtype(c, 0), tensor = in_dtype(c, 1);
    const Type *item = items_type(c, 0);
    if (item && item->kind != TYPE_TENSOR) return fail(TN_SHAPE, "the sequence has elements that are no tensors");
    if (items && tensor && items != tensor) return different_elements(items, tensor);
    return set_object_of_tensors(c, 0, TYPE_SEQUENCE, items ? items : tensor);
}

static tn_status insert_reference(KernelCtx *c) {
    const Object *from;
    TRY(operand_items(c, 0, TYPE_SEQUENCE, &from));
    int64_t at = (int64_t)from->n;
    if (from->n && from->items[0].dtype != c->in[1]->dtype)
        return different_elements(from->items[0].dtype, c->in[1]->dtype);
    if (kernel_has_input(c, 2)) {
        int64_t position = 0;
        int count;
        TRY(tensor_few_ints(c->in[2], "position", &position, 1, &count));
        if (count != 1) return fail(TN_SHAPE, "position must have one element");
        if (position < -at || position > at)
            return fail(TN_OUT_OF_RANGE, "position is %lld, outside [-%lld, %lld]", (long long)position, (long long)at,
                        (long long)at);
        at = position < 0 ? position + at : position;
    }
    return copy_around(c, from, at, 0, 1, c->in[1]);
}

const OpSchema op_SequenceInsert = {
    .name = "SequenceInsert",
    .summary = "SequenceInsert (ONNX 11): a tensor put into a sequence",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"input_sequence", TS_SEQUENCE, 0, 0}, {"tensor", TS_ALL_TENSOR, 0, 0},
                       {"position", TS(TN_I32) | TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output_sequence", TS_SEQUENCE, 0, 0}),
    .infer = insert_infer,
    .reference = insert_reference,
};

static tn_status erase_infer(InferCtx *c) { return set_object(c, 0, TYPE_SEQUENCE, items_type(c, 0)); }

static tn_status erase_reference(KernelCtx *c) {
    const Object *from;
    TRY(operand_items(c, 0, TYPE_SEQUENCE, &from));
    int64_t at = (int64_t)from->n - 1;
    if (from->n == 0) return fail(TN_OUT_OF_RANGE, "the sequence is empty");
    if (kernel_has_input(c, 1)) TRY(read_position(c, 1, (int64_t)from->n, &at));
    return copy_around(c, from, at, 1, 0, NULL);
}

const OpSchema op_SequenceErase = {
    .name = "SequenceErase",
    .summary = "SequenceErase (ONNX 11): a sequence without one element",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"input_sequence", TS_SEQUENCE, 0, 0},
                       {"position", TS(TN_I32) | TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output_sequence", TS_SEQUENCE, 0, 0}),
    .infer = erase_infer,
    .reference = erase_reference,
};

/* ---- asking --------------------------------------------------------------------------------------------------- */

static tn_status at_infer(InferCtx *c) {
    set_item(c, 0, items_type(c, 0));
    return TN_OK;
}

static tn_status at_reference(KernelCtx *c) {
    const Object *from;
    int64_t at;
    TRY(operand_items(c, 0, TYPE_SEQUENCE, &from));
    TRY(read_position(c, 1, (int64_t)from->n, &at));
    return give_kept(c, 0, &from->items[at]);
}

const OpSchema op_SequenceAt = {
    .name = "SequenceAt",
    .summary = "SequenceAt (ONNX 11): one element of a sequence",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"input_sequence", TS_SEQUENCE, 0, 0}, {"position", TS(TN_I32) | TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"tensor", TS_ANY, 0, 0}),
    .infer = at_infer,
    .reference = at_reference,
};

static tn_status length_infer(InferCtx *c) {
    set_shape(c, 0, &(Shape){.rank = 0});
    return TN_OK;
}

static tn_status length_reference(KernelCtx *c) {
    const Object *from;
    TRY(operand_items(c, 0, TYPE_SEQUENCE, &from));
    *(int64_t *)tensor_bytes(&c->out[0]) = (int64_t)from->n;
    return TN_OK;
}

const OpSchema op_SequenceLength = {
    .name = "SequenceLength",
    .summary = "SequenceLength (ONNX 11): the number of elements of a sequence",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"input_sequence", TS_SEQUENCE, 0, 0}),
    .outputs = OPERANDS({"length", TS(TN_I64), 0, 0}),
    .infer = length_infer,
    .reference = length_reference,
};
