/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of ops that move elements. Whatever such an op does, done to the places of its operand's elements instead
   of the elements it says where each element of the result came from; there what comes back is added up. */
#include "formats/onnx/gradient_int.h"

/* Adds the elements of `g` up at `places` (i64, of the same shape) of the operand; places begin at `first`: what has a
   smaller one came from nowhere. */
static tn_status add_up(Rule *r, Value *places, int64_t first, Value *g) {
    Value *x = r->in[0], *count, *zeros, *sums, *one, *most, *zero;
    Attr attrs[] = {onnx_int_attr("axis", 0), onnx_text_attr("reduction", "add")};
    TRY(onnx_make_ints(r->d, &first, 1, false, &one));
    TRY(make_count(r, x, &count));
    TRY(MAKE(r, "Add", &count, count, one));
    TRY(onnx_make_scalar(r->d, 0, g, &zeros));
    TRY(MAKE(r, "Expand", &zeros, zeros, count));
    TRY(make_flat(r, places, &places));
    TRY(make_flat(r, g, &g));
    TRY(make_op(r, "ScatterElements", (Value *[]){zeros, places, g}, 3, attrs, 2, &sums));
    if (first > 0) {
        TRY(onnx_make_ints(r->d, (int64_t[]){INT64_MAX}, 1, false, &most));
        TRY(onnx_make_ints(r->d, (int64_t[]){0}, 1, false, &zero));
        TRY(MAKE(r, "Slice", &sums, sums, one, most, zero));
    }
    return make_reshape(r, sums, x, &r->grads[0]);
}

/* 1, 2, 3 ... in the operand's shape; 0 is left for what the op fills up with. */
static tn_status number_places(const Rule *r, Value **out) {
    Value *count, *one;
    TRY(onnx_make_ints(r->d, (int64_t[]){1}, 1, true, &one));
    TRY(make_count(r, r->in[0], &count));
    TRY(MAKE(r, "Add", &count, count, one));
    TRY(MAKE(r, "Range", out, one, count, one));
    return make_reshape(r, *out, r->in[0], out);
}

tn_status derive_move(Rule *r) {
    uint32_t n = r->node->n_operands;
    Value **operands = arena_array(&r->d->reader->arena, Value *, n);
    Node *moved;
    if (!operands) return TN_OUT_OF_MEMORY;
    TRY(only_first(r));
    memcpy(operands, r->in, n * sizeof *operands);
    TRY(number_places(r, &operands[0]));
    if (n > 2 && strcmp(r->node->op->name, "Pad") == 0)
        operands[2] = NULL; /* pads with 0, not with a number of its own */
    TRY(make_again(r, operands, n, 1, &moved));
    return add_up(r, moved->results[0], 1, r->back[0]);
}

/* The places that MaxPool tells are those in the whole operand, whatever it is made of. */
tn_status derive_max_pool(Rule *r) {
    Node *pool;
    TRY(make_again(r, r->in, 1, 2, &pool));
    node_remove_attr(pool, STR("storage_order"));
    return add_up(r, pool->results[1], 0, r->back[0]);
}

/* Sums of what lies there and what is brought: both get what comes back to the place. */
tn_status derive_scatter(Rule *r) {
    Attr axis = onnx_int_attr("axis", attr_int(r->node, "axis"));
    if (!attr_string_is(r->node, "reduction", "add"))
        return fail(TN_UNSUPPORTED, "Gradient: there is a derivative of ScatterElements with reduction \"add\" only");
    if (r->wanted[0]) r->grads[0] = r->back[0];
    if (!r->wanted[2]) return TN_OK;
    return make_op(r, "GatherElements", (Value *[]){r->back[0], r->in[1]}, 2, &axis, 1, &r->grads[2]);
}
