/* SPDX-License-Identifier: Apache-2.0 */
/* What ops on sequences, optionals and maps share: types of items, operands and results that are objects. */
#include "ops/object_int.h"

/* ---- inference ----------------------------------------------------------------------------------------------- */

const Type *items_type(const InferCtx *c, int i) {
    if (!has_input(c, i)) return NULL;
    if (c->in[i].elem || c->model) return c->in[i].elem;
    const Value *v = node_operand(c->node, (size_t)i);
    return v && v->type->kind == c->in[i].kind ? v->type->elem : NULL;
}

tn_dtype items_dtype(const InferCtx *c, int i) {
    const Type *item = items_type(c, i);
    return item && item->kind == TYPE_TENSOR ? item->dtype : TN_UNDEFINED;
}

tn_status set_object(InferCtx *c, int out, TypeKind kind, const Type *item) {
    if (out >= c->n_out) return TN_OK;
    if (item && item->kind == TYPE_TENSOR && item->shape.rank >= 0 && c->model) {
        Shape any = shape_unknown();
        item = type_tensor(c->model, item->dtype, &any);
        if (!item) return TN_OUT_OF_MEMORY;
    }
    c->out[out] = (InferValue){.present = true, .kind = kind, .shape = shape_unknown(), .elem = c->model ? item : NULL};
    return TN_OK;
}

tn_status set_object_of(InferCtx *c, int out, TypeKind kind, const InferValue *item) {
    Type type = {.kind = item->kind, .dtype = item->dtype, .shape = shape_unknown(), .elem = item->elem};
    if (!c->model) return set_object(c, out, kind, NULL);
    const Type *interned = type_intern(c->model, &type);
    return interned ? set_object(c, out, kind, interned) : TN_OUT_OF_MEMORY;
}

tn_status set_object_of_tensors(InferCtx *c, int out, TypeKind kind, tn_dtype dtype) {
    return set_object_of(c, out, kind, &(InferValue){.kind = TYPE_TENSOR, .dtype = dtype});
}

void set_item(InferCtx *c, int out, const Type *item) {
    if (out >= c->n_out || !item) return;
    c->out[out] = (InferValue){
        .present = true, .kind = item->kind, .dtype = item->dtype, .shape = shape_unknown(), .elem = item->elem};
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

tn_status operand_items(const KernelCtx *c, int i, TypeKind kind, const Object **out) {
    static const char *const names[] = {"tensor", "sequence", "optional", "map"};
    const Tensor *t = c->in[i];
    if (t->kind != kind) return fail(TN_SHAPE, "operand %d is a %s, not a %s", i, names[t->kind], names[kind]);
    *out = object_of(t);
    return TN_OK;
}

tn_status give_kept(KernelCtx *c, int i, const Tensor *value) {
    Tensor kept;
    if (!output_wanted(c, i)) return TN_OK;
    TRY(tensor_keep(c->context, value, &kept));
    return kernel_give_output(c, i, &kept);
}

tn_status read_position(const KernelCtx *c, int i, int64_t n, int64_t *out) {
    int64_t position = 0;
    int count;
    TRY(tensor_few_ints(c->in[i], "position", &position, 1, &count));
    if (count != 1) return fail(TN_SHAPE, "position must have one element");
    if (position < -n || position >= n)
        return fail(TN_OUT_OF_RANGE, "position is %lld, outside [-%lld, %lld)", (long long)position, (long long)n,
                    (long long)n);
    *out = position < 0 ? position + n : position;
    return TN_OK;
}
