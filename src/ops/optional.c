/* SPDX-License-Identifier: Apache-2.0 */
/* Optional, OptionalGetElement, OptionalHasElement (ONNX 28): a value that may be absent. */
#include "ops/object_int.h"

/* ---- Optional -------------------------------------------------------------------------------------------------- */

static tn_status optional_infer(InferCtx *c) {
    const Attr *type = attr_get(c->node, "type");
    if (has_input(c, 0)) return set_object_of(c, 0, TYPE_OPTIONAL, &c->in[0]);
    if (!type) return fail(TN_INVALID_MODEL, "an optional without an element needs the attribute type");
    return set_object(c, 0, TYPE_OPTIONAL, type->type);
}

static tn_status optional_reference(KernelCtx *c) {
    Tensor made;
    bool full = kernel_has_input(c, 0);
    TRY(object_new(c->context, TYPE_OPTIONAL, full, &made));
    tn_status status = full ? tensor_keep(c->context, c->in[0], &object_of(&made)->items[0]) : TN_OK;
    if (status == TN_OK) return kernel_give_output(c, 0, &made);
    tensor_release(&made);
    return status;
}

const OpSchema op_Optional = {
    .name = "Optional",
    .summary = "Optional (ONNX 28): a value that may be absent",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR | TS_SEQUENCE, 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_OPTIONAL, 0, 0}),
    .attrs = ATTRIBUTES({"type", ATTR_TYPE, 0, 0, 0, NULL}),
    .infer = optional_infer,
    .reference = optional_reference,
};

/* ---- OptionalGetElement ---------------------------------------------------------------------------------------- */

/* What is no optional is its own element. */
static tn_status get_infer(InferCtx *c) {
    if (c->in[0].kind == TYPE_OPTIONAL) {
        set_item(c, 0, items_type(c, 0));
    } else {
        set_like(c, 0, 0);
        pass_content(c, 0, 0);
    }
    return TN_OK;
}

static tn_status get_regions(RegionCtx *c) {
    c->declined = c->in[0]->kind != TYPE_TENSOR;
    return c->declined ? TN_OK : region_whole(c, 0, 0);
}

static tn_status get_reference(KernelCtx *c) {
    const Object *from;
    if (c->in[0]->kind == TYPE_SEQUENCE) return give_kept(c, 0, c->in[0]);
    TRY(operand_items(c, 0, TYPE_OPTIONAL, &from));
    if (from->n == 0) return fail(TN_INVALID_ARGUMENT, "the optional has no element");
    return give_kept(c, 0, &from->items[0]);
}

const OpSchema op_OptionalGetElement = {
    .name = "OptionalGetElement",
    .summary = "OptionalGetElement (ONNX 28): what is in an optional",
    .kind = OP_DEFORMABLE,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR | TS_SEQUENCE | TS_OPTIONAL, 0, 0}),
    .outputs = OPERANDS({"output", TS_ANY, 0, 0}),
    .infer = get_infer,
    .regions = get_regions,
    .reference = get_reference,
};

/* ---- OptionalHasElement ---------------------------------------------------------------------------------------- */

static tn_status has_infer(InferCtx *c) {
    set_shape(c, 0, &(Shape){.rank = 0});
    return TN_OK;
}

static tn_status has_reference(KernelCtx *c) {
    const Tensor *x = kernel_has_input(c, 0) ? c->in[0] : NULL;
    *(uint8_t *)tensor_bytes(&c->out[0]) = x && (x->kind != TYPE_OPTIONAL || object_of(x)->n > 0);
    return TN_OK;
}

const OpSchema op_OptionalHasElement = {
    .name = "OptionalHasElement",
    .summary = "OptionalHasElement (ONNX 28): whether there is something in an optional",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR | TS_SEQUENCE | TS_OPTIONAL, 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS(TN_BOOL), 0, 0}),
    .infer = has_infer,
    .reference = has_reference,
};
