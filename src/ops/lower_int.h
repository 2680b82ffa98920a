/* SPDX-License-Identifier: Apache-2.0 */
/* What lowerings are written with: nodes in front of the one that is lowered, with their types. Where something failed, or
   an operand is NULL that a failure left so, nothing is made and NULL is returned, so that calls may stand inside calls. */
#ifndef TENON_OPS_LOWER_INT_H
#define TENON_OPS_LOWER_INT_H

#include "ops/op_int.h"

typedef struct AttrList {
    const Attr *data;
    size_t n;
} AttrList;
static inline Attr attr_i(const char *name, int64_t value) {
    return (Attr){.name = str_of(name), .kind = ATTR_INT, .i = value};
}
static inline Attr attr_l(const char *name, const int64_t *values, int n) {
    return (Attr){.name = str_of(name), .kind = ATTR_INTS, .n = (size_t)n, .ints = values};
}
static inline Attr attr_s(const char *name, const char *value) {
    return (Attr){.name = str_of(name), .kind = ATTR_STRING, .s = str_of(value)};
}

static inline Attr attr_f(const char *name, double value) {
    return (Attr){.name = str_of(name), .kind = ATTR_FLOAT, .f = (float)value};
}

/* A node of ONNX's own domain, or of ours ("tn.Raster"); its first result. */
Value *lower_node(LowerCtx *c, const char *op, Value *const *operands, size_t n, AttrList attrs, size_t n_results);
/* With those attributes of the node that this op knows too. */
Value *lower_like(LowerCtx *c, const char *op, Value *const *operands, size_t n);
/* LOWER(c, "Add", a, b); LOWER_WITH(c, "Concat", ATTRS(attr_i("axis", 1)), a, b) */
#define ATTRS(...) ((AttrList){(const Attr[]){__VA_ARGS__}, sizeof((const Attr[]){__VA_ARGS__}) / sizeof(Attr)})
#define LOWER_WITH(c, op, attrs, ...) \
    lower_node(c, op, (Value *[]){__VA_ARGS__}, sizeof((Value *[]){__VA_ARGS__}) / sizeof(Value *), attrs, 1)
#define LOWER(c, op, ...) LOWER_WITH(c, op, ((AttrList){NULL, 0}), __VA_ARGS__)

/* ---- operands ------------------------------------------------------------------------------------------------ */

static inline Value *lower_in(const LowerCtx *c, size_t i) { return node_operand(c->node, i); }
/* Whether all operands that are there are tensors of known sizes; else the lowering is declined. */
bool lower_sizes_known(LowerCtx *c);
/* Likewise, but what runs along the first dimensions may not be known. */
bool lower_inner_sizes_known(LowerCtx *c);
/* A first size that is not known is -1. */
Shape lower_counted(const Value *v);
static inline const Shape *lower_shape(const Value *v) { return &v->type->shape; }
static inline tn_dtype lower_dtype(const Value *v) { return v->type->dtype; }
static inline bool lower_wants(const LowerCtx *c, size_t i) {
    return i < c->node->n_results && c->node->results[i]->uses;
}
static inline tn_status lower_decline(LowerCtx *c) {
    c->declined = true;
    return TN_OK;
}

/* Where operands are 16-bit floats: the node on f32 between casts, which is lowered then, so that what it is made of rounds
   once as it does. False: it has none. */
bool lower_by_widening(LowerCtx *c);

/* ---- constants ----------------------------------------------------------------------------------------------- */

Value *lower_ints(LowerCtx *c, const int64_t *values, int64_t n);
/* A number of an element type, as a scalar; of strings the empty one. */
Value *lower_number(LowerCtx *c, tn_dtype dtype, double value);
/* A dense tensor of an element type, from numbers. */
Value *lower_table(LowerCtx *c, tn_dtype dtype, int rank, const int64_t *dims, const double *values);

/* A payload of the model. */
Value *lower_constant(LowerCtx *c, Tensor *payload);

/* Whether f32 holds all sums of products of a less its zero point by b less its own, and of what is added `besides`, which is
   at most so much; b [..., rows, columns] is summed over rows. */
bool lower_is_exact(LowerCtx *c, Value *a, const Value *a_zero, const Value *b, const Value *b_zero, double besides);
/* Of such a product: b less its zero point, as f32. */
Value *lower_factor(LowerCtx *c, const Value *b, const Value *b_zero);

/* 0, 1, 2 ... along one of `rank` dimensions, as i64. */
Value *lower_counting(LowerCtx *c, int64_t n, int axis, int rank);
/* n of a type while the node is lowered; NULL with the status set when memory is out. */
#define lower_scratch(c, T, n) ((T *)lower_alloc(c, n, sizeof(T)))
void *lower_alloc(LowerCtx *c, int64_t n, size_t size);

/* ---- common nodes -------------------------------------------------------------------------------------------- */

Value *lower_cast(LowerCtx *c, Value *x, tn_dtype dtype); /* x itself where it has that type */
Value *lower_reshape(LowerCtx *c, Value *x, const int64_t *dims, int rank);
Value *lower_transpose(LowerCtx *c, Value *x, const int64_t *perm);
/* Dimensions of size 1 in front and behind, as a vector along `axis` of `rank` dimensions needs them. */
Value *lower_along(LowerCtx *c, Value *x, int axis, int rank);
Value *lower_view(LowerCtx *c, Value *x, int64_t offset, const int64_t *sizes, const int64_t *strides, int rank);
Value *lower_slice(LowerCtx *c, Value *x, int axis, int64_t begin, int64_t end); /* begin <= end, within the size */
/* `pads` of all dimensions, those in front first; `fill` NULL: zero. Negative ones cut off. */
Value *lower_pad(LowerCtx *c, Value *x, const int64_t *pads, Value *fill);
Value *lower_reduce(LowerCtx *c, const char *op, Value *x, const int64_t *axes, int n, bool keep);

/* Zero where a centre or a summand is absent. */
Value *lower_less(LowerCtx *c, Value *x, Value *centre);
Value *lower_plus(LowerCtx *c, Value *x, Value *summand);
/* Channels from the last place to the second, or back. */
Value *lower_channels(LowerCtx *c, Value *x, bool last);
/* Scaled numbers as integers of the zero point's element type: rounded, moved by it, saturated. */
Value *lower_requantised(LowerCtx *c, Value *x, Value *zero);

/* ---- tn.Loop ------------------------------------------------------------------------------------------------- */

/* One side of the copies: see copy_loop.c. */
typedef struct LowerSide {
    int64_t offset, strides[TN_MAX_RANK], steps[TN_MAX_RANK];
    int64_t bounds[TN_MAX_RANK], scales[TN_MAX_RANK];
    int n_index; /* numbers of an index tuple */
} LowerSide;
typedef struct LowerLoop {
    Value *data, *source, *source_index, *result_index;
    Shape shape; /* of the result where there is no data */
    int n_trips, n_size;
    int64_t trips[TN_MAX_RANK], size[TN_MAX_RANK];
    LowerSide from, to;
    const char *reduction; /* NULL: "none" */
} LowerLoop;
/* Without counted loops: what lower_boxes makes of it. */
Value *lower_loop(LowerCtx *c, const LowerLoop *l);
/* A tn.Raster, of loops that reduce nothing and whose indices are constants and not many; else declined. */
Value *lower_boxes(LowerCtx *c, const LowerLoop *l);
/* Row-major strides of sizes, in elements; the product of sizes [from, to). */
void lower_strides(int rank, const int64_t *dims, int64_t *strides);
int64_t lower_product(const Shape *s, int from, int to);

/* ---- Scan ---------------------------------------------------------------------------------------------------- */

/* A loop over the first dimension of what is scanned. Between beginning and end nodes are made in its body, which may read
   what stands outside. Of 4 values at most each. */
typedef struct LowerScan {
    int n_states, n_operands, n_outputs;
    Value *operands[8]; /* states, then what is scanned */
    Value *outputs[8];  /* of the body: states, then what is stacked */
    bool backward;
} LowerScan;
void lower_begin_scan(LowerCtx *c);
/* The body's next input: a state as `from` is, or a slice of it. */
Value *lower_scan_input(LowerCtx *c, const Value *from, bool slice);
Node *lower_end_scan(LowerCtx *c, const LowerScan *s);

/* ---- lowerings (*_lower.c) ----------------------------------------------------------------------------------- */

tn_status lower_gather(LowerCtx *c);
tn_status lower_gather_elements(LowerCtx *c);
tn_status lower_gather_nd(LowerCtx *c);
tn_status lower_scatter_elements(LowerCtx *c);
tn_status lower_scatter_nd(LowerCtx *c);
tn_status lower_tensor_scatter(LowerCtx *c);
tn_status lower_reverse_sequence(LowerCtx *c);
tn_status lower_trilu(LowerCtx *c);
tn_status lower_cumulative(LowerCtx *c);
tn_status lower_one_hot(LowerCtx *c);
tn_status lower_eye_like(LowerCtx *c);
tn_status lower_cast_like(LowerCtx *c);
tn_status lower_mean(LowerCtx *c);
tn_status lower_hardmax(LowerCtx *c);
tn_status lower_conv(LowerCtx *c);
tn_status lower_fused_conv(LowerCtx *c);
tn_status lower_nhwc_conv(LowerCtx *c);
tn_status lower_conv_integer(LowerCtx *c);
tn_status lower_qlinear_conv(LowerCtx *c);
tn_status lower_conv_transpose(LowerCtx *c);
tn_status lower_max_pool(LowerCtx *c);
tn_status lower_average_pool(LowerCtx *c);
tn_status lower_lp_pool(LowerCtx *c);
tn_status lower_lrn(LowerCtx *c);
tn_status lower_rnn(LowerCtx *c);
tn_status lower_dequantize(LowerCtx *c);
tn_status lower_quantize(LowerCtx *c);
tn_status lower_ms_quantize(LowerCtx *c);
tn_status lower_dynamic_quantize(LowerCtx *c);
tn_status lower_matmul_integer(LowerCtx *c);
tn_status lower_qlinear_matmul(LowerCtx *c);
tn_status lower_matmul_integer_to_float(LowerCtx *c);
tn_status lower_dynamic_quantize_matmul(LowerCtx *c);
tn_status lower_qgemm(LowerCtx *c);
tn_status lower_qlinear_add(LowerCtx *c);
tn_status lower_qlinear_mul(LowerCtx *c);
tn_status lower_qlinear_leaky_relu(LowerCtx *c);
tn_status lower_qlinear_sigmoid(LowerCtx *c);
tn_status lower_qlinear_softmax(LowerCtx *c);
tn_status lower_qlinear_average_pool(LowerCtx *c);
tn_status lower_qlinear_global_average_pool(LowerCtx *c);
tn_status lower_qlinear_concat(LowerCtx *c);

#endif
