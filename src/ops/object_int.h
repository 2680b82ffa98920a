/* SPDX-License-Identifier: Apache-2.0 */
/* What ops on sequences, optionals and maps share. */
#ifndef TENON_OPS_OBJECT_INT_H
#define TENON_OPS_OBJECT_INT_H

#include "ops/move_int.h"

/* ---- inference ----------------------------------------------------------------------------------------------- */

/* The type of what is in operand i (of a map: of its values); NULL where nothing is known. Objects do not carry it while
   a program runs: then it is what was found before. */
const Type *items_type(const InferCtx *c, int i);
/* The element type of the tensors in operand i; TN_UNDEFINED where that is not known or they are no tensors. */
tn_dtype items_dtype(const InferCtx *c, int i);
/* Result `out` is an object of that kind with such items (NULL: not known). Sizes of items are not kept: they may differ,
   and what models declare of them is often wrong. */
tn_status set_object(InferCtx *c, int out, TypeKind kind, const Type *item);
tn_status set_object_of(InferCtx *c, int out, TypeKind kind, const InferValue *item);
tn_status set_object_of_tensors(InferCtx *c, int out, TypeKind kind, tn_dtype dtype);
/* Result `out` is one item of such a type; its sizes are not known. */
void set_item(InferCtx *c, int out, const Type *item);

/* ---- kernels ------------------------------------------------------------------------------------------------- */

/* The items of operand i; TN_SHAPE when it is of another kind. */
tn_status operand_items(const KernelCtx *c, int i, TypeKind kind, const Object **out);
/* Result i becomes `value`, bytes shared where they can be. */
tn_status give_kept(KernelCtx *c, int i, const Tensor *value);
/* The scalar of operand i as a place in 0 .. n - 1, counted from the end when negative. */
tn_status read_position(const KernelCtx *c, int i, int64_t n, int64_t *out);

#endif
