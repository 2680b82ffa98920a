/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the op Gradient share. It is lowered while a model is read: gradient.c walks the nodes between the
   tensors, gradient_table.c says what each op's derivative is, gradient_rules.c has those that no formula can say. */
#ifndef TENON_FORMATS_ONNX_GRADIENT_INT_H
#define TENON_FORMATS_ONNX_GRADIENT_INT_H

#include "formats/onnx/onnx_int.h"

/* One node on the way back: what has come to its results is to be brought to its operands. */
typedef struct Rule {
    Draft *d;
    const Node *node;
    Value **in;         /* its operands where the gradient is taken; NULL: absent */
    Value **out;        /* and its results */
    Value *const *back; /* gradients by result; NULL: nothing came */
    const bool *wanted; /* by operand */
    Value **grads;      /* the answer, by operand, each of the operand's shape; NULL: zero */
} Rule;
typedef tn_status (*DeriveFn)(Rule *r);

/* gradient_table.c */
typedef struct DeriveRow {
    const char *op;
    DeriveFn fn;
    const char *formulas[3]; /* by operand; NULL and "": zero */
} DeriveRow;
const DeriveRow *gradient_row(const OpSchema *op); /* NULL: no derivative */
/* A formula's value. `g` and `y` are the gradient and the result that it speaks of. */
tn_status gradient_formula(const Rule *r, const char *formula, Value *g, Value *y, Value **out);

/* gradient_rules.c */
tn_status derive_variadic(Rule *r);
tn_status derive_extreme(Rule *r);
tn_status derive_gelu(Rule *r);
tn_status derive_dropout(Rule *r);
tn_status derive_transpose(Rule *r);
tn_status derive_concat(Rule *r);
tn_status derive_split(Rule *r);
tn_status derive_matmul(Rule *r);
tn_status derive_gemm(Rule *r);

/* gradient_move.c */
tn_status derive_move(Rule *r);
tn_status derive_scatter(Rule *r);
tn_status derive_max_pool(Rule *r);

/* gradient_conv.c */
tn_status derive_conv(Rule *r);
tn_status derive_conv_transpose(Rule *r);

/* gradient_make.c: what rules build with. Each makes nodes in front of the Gradient's place. */
#define MAKE(r, op, out, ...) \
    make_op((r), (op), (Value *[]){__VA_ARGS__}, sizeof((Value *[]){__VA_ARGS__}) / sizeof(Value *), NULL, 0, (out))
tn_status make_op(const Rule *r, const char *op, Value *const *operands, size_t n, const Attr *attrs, size_t n_attrs,
                  Value **out);
tn_status make_shape(const Rule *r, Value *value, Value **out);              /* a constant where it is known */
tn_status make_count(const Rule *r, Value *value, Value **out);              /* of elements, i64 scalar; likewise */
tn_status make_full(const Rule *r, double number, Value *like, Value **out); /* of the shape and type of `like` */
tn_status make_reshape(const Rule *r, Value *value, Value *like, Value **out);
tn_status make_flat(const Rule *r, Value *value, Value **out);
tn_status make_transpose(const Rule *r, Value *value, const int64_t *perm, int rank, Value **out);
tn_status make_sum(const Rule *r, Value *value, const int64_t *axes, size_t n, bool keep, Value **out);
/* Undoes a broadcast: sums over what `like` was repeated along to make the shape of `value`. */
tn_status make_fit(const Rule *r, Value *value, Value *like, Value **out);
/* The node once more with other operands; all of its results. */
tn_status make_again(const Rule *r, Value *const *operands, size_t n, size_t n_results, Node **out);
/* TN_UNSUPPORTED unless only operand 0 is asked for. */
tn_status only_first(const Rule *r);
static inline Value *rule_in(const Rule *r, size_t i) { return i < r->node->n_operands ? r->in[i] : NULL; }

#endif
