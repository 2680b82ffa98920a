/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of quantised ops. Sums of products of 8-bit integers are made in f64, where they are exact, or in f32 where they are
   exact there, too; what is scaled is f32, as in the kernels, so that the same ties are rounded. */
#include <math.h>

#include "ops/lower_int.h"
#include "ops/matmul_int.h"
#include "ops/quant_int.h"

/* ---- scales -------------------------------------------------------------------------------------------------- */

/* One number as a scalar; a list along `axis`; what has as many dimensions as `rank` stays. */
static Value *spread(LowerCtx *c, Value *v, int axis, int rank) {
    if (c->status != TN_OK || !v) return NULL;
    const Shape *s = lower_shape(v);
    if (s->rank == 0) return v;
    if (lower_product(s, 0, s->rank) == 1) return lower_reshape(c, v, NULL, 0);
    return s->rank == 1 ? lower_along(c, v, axis, rank) : v;
}

/* A number for each block of `block` elements along an axis, repeated so often. */
static Value *repeat_blocks(LowerCtx *c, Value *v, int axis, int64_t block, int64_t size) {
    int64_t dims[TN_MAX_RANK + 1], joined[TN_MAX_RANK], at = axis + 1;
    if (c->status != TN_OK || !v) return NULL;
    const Shape *s = lower_shape(v);
    if (s->rank != lower_shape(lower_in(c, 0))->rank || s->dims[axis] != size / block + (size % block != 0)) {
        c->status = fail(TN_SHAPE, "the scale is not one number for each block");
        return NULL;
    }
    block = min_i64(block, size);
    for (int d = 0; d < s->rank; d++) {
        dims[d < axis + 1 ? d : d + 1] = s->dims[d];
        joined[d] = d == axis ? s->dims[d] * block : s->dims[d];
    }
    dims[axis + 1] = block;
    Value *each = LOWER(c, "Expand", LOWER(c, "Unsqueeze", v, lower_ints(c, &at, 1)), lower_ints(c, dims, s->rank + 1));
    return lower_slice(c, lower_reshape(c, each, joined, s->rank), axis, 0, size);
}

/* Scale or zero point of a linear op such that it broadcasts to operand 0. */
static Value *linear_scale(LowerCtx *c, Value *v) {
    const Shape *x = lower_shape(lower_in(c, 0));
    bool blocked = op_attr_spec(c->node->op, STR("block_size")) != NULL;
    int64_t block = blocked ? attr_int(c->node, "block_size") : 0;
    int axis = 0;
    if (c->status != TN_OK || !v) return NULL;
    const Shape *s = lower_shape(v);
    if (block == 0 && s->rank <= 1 && lower_product(s, 0, s->rank) == 1) return lower_reshape(c, v, NULL, 0);
    c->status = normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis);
    if (c->status != TN_OK) return NULL;
    if (block) return repeat_blocks(c, v, axis, block, x->dims[axis]);
    if (s->rank != 1 || s->dims[0] != x->dims[axis])
        c->status = fail(TN_SHAPE, "the scale must be one number, or %lld of them", (long long)x->dims[axis]);
    return lower_along(c, v, axis, x->rank);
}

tn_status lower_dequantize(LowerCtx *c) {
    Value *x = lower_in(c, 0), *zero = lower_in(c, 2);
    if (!lower_sizes_known(c) || lower_shape(x)->rank == TN_MAX_RANK) return lower_decline(c);
    tn_dtype wide = lower_dtype(x) == TN_I32 ? TN_I64 : TN_F32;
    Value *scale = lower_cast(c, linear_scale(c, lower_in(c, 1)), TN_F32);
    zero = zero ? lower_cast(c, linear_scale(c, zero), wide) : NULL;
    Value *y = lower_cast(c, lower_less(c, lower_cast(c, x, wide), zero), TN_F32);
    c->out[0] = lower_cast(c, LOWER(c, "Mul", y, scale), lower_dtype(c->node->results[0]));
    return TN_OK;
}

/* The quotient in f64, in f32, or as a half precision has it. */
static Value *quotient(LowerCtx *c, tn_dtype precision, tn_dtype wide) {
    Value *x = lower_cast(c, lower_in(c, 0), wide), *scale = lower_cast(c, linear_scale(c, lower_in(c, 1)), wide);
    bool half = dtype_is_half(precision);
    if (half) x = lower_cast(c, lower_cast(c, x, precision), wide);
    if (half) scale = lower_cast(c, lower_cast(c, scale, precision), wide);
    Value *q = LOWER(c, "Div", x, scale);
    return half ? lower_cast(c, lower_cast(c, q, precision), wide) : q;
}

/* round(x) + zero within the type's range; NaN gives the lowest. */
static Value *quantise(LowerCtx *c, Value *x, Value *zero, tn_dtype to) {
    int64_t low, high;
    if (c->status != TN_OK) return NULL;
    tn_dtype wide = lower_dtype(x);
    int_range(to, &low, &high);
    Value *bottom = lower_number(c, wide, (double)low), *top = lower_number(c, wide, (double)high);
    Value *y = lower_plus(c, LOWER(c, "Round", x), zero ? lower_cast(c, zero, wide) : NULL);
    y = LOWER(c, "Where", LOWER(c, "Greater", y, bottom), y, bottom);
    return lower_cast(c, LOWER(c, "Min", y, top), to);
}

static Value *quantise_small(LowerCtx *c, Value *x, Value *zero, tn_dtype to, bool saturate) {
    x = lower_plus(c, x, zero ? lower_cast(c, zero, TN_F32) : NULL);
    return LOWER_WITH(c, "Cast", ATTRS(attr_i("to", to), attr_i("saturate", saturate)), x);
}

static tn_status quantize_linear(LowerCtx *c, tn_dtype precision, bool saturate) {
    Value *x = lower_in(c, 0), *zero = lower_in(c, 2);
    tn_dtype to = lower_dtype(c->node->results[0]);
    if (!lower_sizes_known(c) || !to || lower_shape(x)->rank == TN_MAX_RANK) return lower_decline(c);
    bool ints = !dtype_is_float(to);
    bool f64 = ints && (precision == TN_F64 || (!precision && lower_dtype(x) == TN_I32));
    Value *q = quotient(c, precision, f64 ? TN_F64 : TN_F32);
    zero = zero ? linear_scale(c, zero) : NULL;
    c->out[0] = ints ? quantise(c, q, zero, to) : quantise_small(c, q, zero, to, saturate);
    return TN_OK;
}

tn_status lower_quantize(LowerCtx *c) {
    tn_dtype precision = (tn_dtype)attr_int(c->node, "precision"), scale = lower_dtype(lower_in(c, 1));
    bool half = dtype_is_half(scale);
    return quantize_linear(c, precision ? precision : half ? scale : TN_UNDEFINED, attr_int(c->node, "saturate") != 0);
}

tn_status lower_ms_quantize(LowerCtx *c) { return quantize_linear(c, TN_F32, true); }

/* The range of what is no NaN, zero included. */
tn_status lower_dynamic_quantize(LowerCtx *c) {
    Value *x = lower_in(c, 0), *zero = lower_number(c, TN_F32, 0), *one = lower_number(c, TN_F32, 1);
    Value *number = LOWER(c, "Where", LOWER(c, "IsNaN", x), zero, x);
    Value *low = LOWER(c, "Min", LOWER_WITH(c, "ReduceMin", ATTRS(attr_i("keepdims", 0)), number), zero);
    Value *high = LOWER(c, "Max", LOWER_WITH(c, "ReduceMax", ATTRS(attr_i("keepdims", 0)), number), zero);
    Value *step = LOWER(c, "Div", LOWER(c, "Sub", high, low), lower_number(c, TN_F32, 255));
    Value *scale = LOWER(c, "Where", LOWER(c, "Equal", high, low), one, step);
    Value *at = quantise(c, LOWER(c, "Neg", LOWER(c, "Div", low, scale)), NULL, TN_U8);
    c->out[0] = quantise(c, LOWER(c, "Div", x, scale), at, TN_U8);
    c->out[1] = scale;
    c->out[2] = at;
    return TN_OK;
}

/* ---- products ------------------------------------------------------------------------------------------------ */

static Value *centred(LowerCtx *c, Value *x, Value *zero, int axis, tn_dtype wide) {
    if (zero) zero = lower_cast(c, spread(c, zero, axis, lower_shape(x)->rank), wide);
    return lower_less(c, lower_cast(c, x, wide), zero);
}

/* The factors of a product and their zero points, which are one, or one a row of a, one a column of b. */
typedef struct Factors {
    Value *a, *a_zero, *b, *b_zero;
} Factors;

static Factors factors_of(LowerCtx *c, size_t a, size_t a_zero, size_t b, size_t b_zero) {
    return (Factors){lower_in(c, a), lower_in(c, a_zero), lower_in(c, b), lower_in(c, b_zero)};
}

static Value *centred_product(LowerCtx *c, Factors f, tn_dtype wide) {
    if (c->status != TN_OK) return NULL;
    int row = (int)max_i64(lower_shape(f.a)->rank - 2, 0), column = lower_shape(f.b)->rank - 1;
    Value *left = centred(c, f.a, f.a_zero, row, wide);
    Value *right = c->in_f32 ? lower_factor(c, f.b, f.b_zero) : centred(c, f.b, f.b_zero, column, wide);
    return LOWER(c, "MatMul", left, right);
}

/* f32 holds them if it was asked for. */
static tn_dtype sums_type(LowerCtx *c, Factors f, double besides) {
    if (!c->in_f32) return TN_F64;
    c->declined |= !lower_is_exact(c, f.a, f.a_zero, f.b, f.b_zero, besides);
    return TN_F32;
}

/* Modulo 2^32. */
static Value *to_i32(LowerCtx *c, Value *sums) {
    return lower_cast(c, c->in_f32 ? sums : lower_cast(c, sums, TN_I64), TN_I32);
}

static Value *as_f32(LowerCtx *c, Value *sums) { return c->in_f32 ? sums : lower_cast(c, to_i32(c, sums), TN_F32); }

tn_status lower_matmul_integer(LowerCtx *c) {
    Factors f = factors_of(c, 0, 2, 1, 3);
    if (!c->in_f32 && !lower_sizes_known(c)) return TN_OK;
    tn_dtype wide = sums_type(c, f, 0);
    if (!c->declined) c->out[0] = to_i32(c, centred_product(c, f, wide));
    return TN_OK;
}

/* Of the product's dimensions: one a row where the left side has rows, one a column. */
static Value *product_scale(LowerCtx *c, Value *a_scale, Value *b_scale) {
    int rank = lower_shape(c->node->results[0])->rank;
    Value *a = lower_cast(c, spread(c, a_scale, (int)max_i64(rank - 2, 0), rank), TN_F32);
    return LOWER(c, "Mul", a, lower_cast(c, spread(c, b_scale, (int)max_i64(rank - 1, 0), rank), TN_F32));
}

/* Of all operands but that one. */
static bool other_sizes_known(LowerCtx *c, size_t but) {
    for (size_t i = 0; i < c->node->n_operands; i++) {
        const Value *v = lower_in(c, i);
        c->declined |= v && (v->type->kind != TYPE_TENSOR || !lower_dtype(v) || lower_shape(v)->rank < 0);
        c->declined |= v && i != but && !c->declined && !shape_is_known(lower_shape(v));
    }
    return !c->declined;
}

/* A left side without rows, or a right side without columns, leaves less dimensions than scales speak of. Where the sizes of
   the left side are not known, one zero point and one scale are all that it has. */
static bool is_plain_product(LowerCtx *c, size_t a, size_t b) {
    c->declined |= c->in_f32 ? !other_sizes_known(c, a) : !lower_sizes_known(c);
    if (c->declined) return false;
    c->declined |= lower_shape(lower_in(c, a))->rank < 2 || lower_shape(lower_in(c, b))->rank < 2;
    c->declined |= !c->in_f32 && !shape_is_known(lower_shape(c->node->results[0]));
    c->declined |= lower_shape(c->node->results[0])->rank < 0;
    return !c->declined;
}

tn_status lower_qlinear_matmul(LowerCtx *c) {
    if (!is_plain_product(c, 0, 3)) return TN_OK;
    bool floats = dtype_is_float(lower_dtype(lower_in(c, 0))) || dtype_is_float(lower_dtype(lower_in(c, 3)));
    Value *zero = lower_reshape(c, lower_in(c, 7), NULL, 0), *y_scale = lower_reshape(c, lower_in(c, 6), NULL, 0);
    Factors f = factors_of(c, 0, 2, 3, 5);
    tn_dtype wide = floats ? TN_F32 : sums_type(c, f, 0);
    if (c->declined || (c->in_f32 && floats)) return lower_decline(c);
    Value *sums = centred_product(c, f, wide);
    sums = floats ? sums : as_f32(c, sums);
    Value *scale = product_scale(c, lower_in(c, 1), lower_in(c, 4));
    Value *y = LOWER(c, "Mul", sums, LOWER(c, "Div", scale, lower_cast(c, y_scale, TN_F32)));
    tn_dtype to = lower_dtype(c->node->results[0]);
    c->out[0] = dtype_is_float(to) ? quantise_small(c, y, zero, to, true) : lower_requantised(c, y, zero);
    return TN_OK;
}

tn_status lower_matmul_integer_to_float(LowerCtx *c) {
    if (!is_plain_product(c, 0, 1)) return TN_OK;
    Factors f = factors_of(c, 0, 4, 1, 5);
    tn_dtype wide = sums_type(c, f, 0);
    if (c->declined) return TN_OK;
    Value *sums = as_f32(c, centred_product(c, f, wide)), *bias = lower_in(c, 6);
    Value *y = LOWER(c, "Mul", sums, product_scale(c, lower_in(c, 2), lower_in(c, 3)));
    y = lower_plus(c, y, bias ? lower_cast(c, bias, TN_F32) : NULL);
    c->out[0] = lower_cast(c, y, lower_dtype(c->node->results[0]));
    return TN_OK;
}

tn_status lower_dynamic_quantize_matmul(LowerCtx *c) {
    Value *x = lower_in(c, 0), *zero = lower_in(c, 3);
    if (!is_plain_product(c, 0, 1)) return TN_OK;
    Value *quantised = lower_node(c, "DynamicQuantizeLinear", &x, 1, (AttrList){NULL, 0}, 3);
    if (!quantised) return TN_OK;
    Value *scale = quantised->def->results[1], *x_zero = quantised->def->results[2];
    Factors f = {quantised, x_zero, lower_in(c, 1), zero};
    Value *operands[] = {quantised, lower_in(c, 1), x_zero, zero}, *sums;
    if (c->in_f32) {
        tn_dtype wide = sums_type(c, f, 0);
        if (c->declined) return TN_OK;
        sums = centred_product(c, f, wide);
    } else {
        sums = lower_cast(c, lower_node(c, "MatMulInteger", operands, 4, (AttrList){NULL, 0}, 1), TN_F32);
    }
    c->out[0] = lower_plus(c, LOWER(c, "Mul", sums, product_scale(c, scale, lower_in(c, 2))), lower_in(c, 4));
    return TN_OK;
}

static Value *turned(LowerCtx *c, Value *x, const char *attr) {
    static const int64_t perm[] = {1, 0};
    return attr_int(c->node, attr) ? lower_transpose(c, x, perm) : x;
}

/* The largest of what is added, of a constant. */
static bool largest_of(const Value *v, double *largest) {
    const Tensor *t = value_constant(v);
    *largest = 0;
    if (!v) return true;
    if (!t || !tensor_is_dense(t)) return false;
    for (int64_t i = 0; i < tensor_count(t); i++) {
        double x;
        load_f64(&x, t->dtype, tensor_bytes(t), i, 1, 1);
        *largest = fmax(*largest, fabs(x));
    }
    return true;
}

static Value *gemm_sums(LowerCtx *c, bool ta, bool tb) {
    Value *summand = lower_in(c, 6);
    double besides = 0;
    Factors f = factors_of(c, 0, 2, 3, 5);
    c->declined |= c->in_f32 && (ta || tb || !largest_of(summand, &besides));
    tn_dtype wide = c->declined ? TN_F64 : sums_type(c, f, besides);
    if (c->declined) return NULL;
    summand = summand ? lower_cast(c, summand, wide) : NULL;
    if (c->in_f32) return lower_plus(c, centred_product(c, f, wide), summand);
    Value *a = turned(c, centred(c, f.a, f.a_zero, ta, wide), "transA");
    Value *b = turned(c, centred(c, f.b, f.b_zero, !tb, wide), "transB");
    return lower_plus(c, LOWER(c, "MatMul", a, b), summand);
}

tn_status lower_qgemm(LowerCtx *c) {
    if (!is_plain_product(c, 0, 3)) return TN_OK;
    Value *y_scale = lower_in(c, 7), *zero = lower_in(c, 8);
    Value *sums = gemm_sums(c, attr_int(c->node, "transA") != 0, attr_int(c->node, "transB") != 0);
    if (c->declined) return TN_OK;
    Value *alpha = lower_number(c, TN_F32, attr_float(c->node, "alpha"));
    Value *scale = LOWER(c, "Mul", LOWER(c, "Mul", alpha, spread(c, lower_in(c, 1), 0, 2)),
                         spread(c, lower_in(c, 4), 1, 2));
    tn_dtype to = lower_dtype(c->node->results[0]);
    if (to != TN_F32) scale = LOWER(c, "Div", scale, lower_reshape(c, y_scale, NULL, 0));
    Value *y = LOWER(c, "Mul", as_f32(c, sums), scale);
    zero = zero ? lower_reshape(c, zero, NULL, 0) : lower_number(c, to, 0);
    c->out[0] = to == TN_F32 ? y : lower_requantised(c, y, zero);
    return TN_OK;
}

/* ---- ONNX Runtime's 8-bit ops -------------------------------------------------------------------------------- */

static Value *one_number(LowerCtx *c, size_t i) {
    return lower_in(c, i) ? lower_reshape(c, lower_in(c, i), NULL, 0) : NULL;
}

/* Operand i less its zero point, operand i + 2, as f32. */
static Value *centred_bytes(LowerCtx *c, size_t i) { return centred(c, lower_in(c, i), lower_in(c, i + 2), 0, TN_F32); }

static Value *to_bytes(LowerCtx *c, Value *y, size_t zero) {
    return quantise(c, y, one_number(c, zero), lower_dtype(c->node->results[0]));
}

tn_status lower_qlinear_add(LowerCtx *c) {
    if (!lower_sizes_known(c)) return TN_OK;
    Value *scale = one_number(c, 6);
    Value *a = LOWER(c, "Mul", centred_bytes(c, 0), LOWER(c, "Div", one_number(c, 1), scale));
    Value *b = LOWER(c, "Mul", centred_bytes(c, 3), LOWER(c, "Div", one_number(c, 4), scale));
    c->out[0] = to_bytes(c, LOWER(c, "Add", a, b), 7);
    return TN_OK;
}

tn_status lower_qlinear_mul(LowerCtx *c) {
    if (!lower_sizes_known(c)) return TN_OK;
    Value *scale = LOWER(c, "Div", LOWER(c, "Mul", one_number(c, 1), one_number(c, 4)), one_number(c, 6));
    Value *product = LOWER(c, "Mul", centred_bytes(c, 0), centred_bytes(c, 3));
    c->out[0] = to_bytes(c, LOWER(c, "Mul", product, scale), 7);
    return TN_OK;
}

/* Operand 0 as real numbers, with `fn` done to them, and back. */
static tn_status through_reals(LowerCtx *c, Value *(*fn)(LowerCtx *c, Value *x)) {
    if (!lower_sizes_known(c)) return TN_OK;
    Value *y = fn(c, LOWER(c, "Mul", centred_bytes(c, 0), one_number(c, 1)));
    c->out[0] = to_bytes(c, LOWER(c, "Div", y, one_number(c, 3)), 4);
    return TN_OK;
}

static Value *leaky_relu(LowerCtx *c, Value *x) { return lower_like(c, "LeakyRelu", &x, 1); }
static Value *sigmoid(LowerCtx *c, Value *x) { return LOWER(c, "Sigmoid", x); }

/* Below opset 13 all dimensions from the axis on are one. */
static Value *softmax(LowerCtx *c, Value *x) {
    if (c->status != TN_OK) return NULL;
    const Shape *s = lower_shape(x);
    int axis = 0;
    if (s->rank > 0) c->status = normal_axis(attr_int(c->node, "axis"), s->rank, "axis", &axis);
    if (s->rank > 0 && attr_int(c->node, "opset") >= 13) return lower_like(c, "Softmax", &x, 1);
    int64_t rows[] = {lower_product(s, 0, axis), lower_product(s, axis, s->rank)};
    return lower_reshape(c, LOWER(c, "Softmax", lower_reshape(c, x, rows, 2)), s->dims, s->rank);
}

tn_status lower_qlinear_leaky_relu(LowerCtx *c) { return through_reals(c, leaky_relu); }
tn_status lower_qlinear_sigmoid(LowerCtx *c) { return through_reals(c, sigmoid); }
tn_status lower_qlinear_softmax(LowerCtx *c) { return through_reals(c, softmax); }

static Value *average_pool(LowerCtx *c, Value *x) {
    if (!attr_int(c->node, "channels_last")) return lower_like(c, "AveragePool", &x, 1);
    x = lower_channels(c, x, false);
    return lower_channels(c, lower_like(c, "AveragePool", &x, 1), true);
}

tn_status lower_qlinear_average_pool(LowerCtx *c) { return through_reals(c, average_pool); }

/* One exact sum a channel, scaled once. */
tn_status lower_qlinear_global_average_pool(LowerCtx *c) {
    if (!lower_sizes_known(c)) return TN_OK;
    const Shape *s = lower_shape(lower_in(c, 0));
    int64_t axes[TN_MAX_RANK], first = attr_int(c->node, "channels_last") ? 1 : 2;
    for (int d = 0; d < s->rank - 2; d++) axes[d] = first + d;
    Value *plane = lower_number(c, TN_F32, (double)lower_product(s, (int)first, (int)first + s->rank - 2));
    Value *scale = LOWER(c, "Div", one_number(c, 1), LOWER(c, "Mul", one_number(c, 3), plane));
    Value *sums = lower_reduce(c, "ReduceSum", centred(c, lower_in(c, 0), lower_in(c, 2), 0, TN_I64), axes, s->rank - 2,
                               true);
    Value *zero = lower_in(c, 4) ? one_number(c, 4) : lower_number(c, lower_dtype(lower_in(c, 0)), 0);
    c->out[0] = lower_requantised(c, LOWER(c, "Mul", lower_cast(c, sums, TN_F32), scale), zero);
    return TN_OK;
}

tn_status lower_qlinear_concat(LowerCtx *c) {
    Value *parts[OP_MAX_INPUTS];
    size_t n = (c->node->n_operands - 2) / 3;
    if (!lower_sizes_known(c) || n > OP_MAX_INPUTS) return lower_decline(c);
    for (size_t k = 0; k < n; k++) {
        Value *real = LOWER(c, "Mul", centred_bytes(c, 2 + 3 * k), one_number(c, 3 + 3 * k));
        parts[k] = to_bytes(c, LOWER(c, "Div", real, one_number(c, 0)), 1);
    }
    c->out[0] = lower_node(c, "Concat", parts, n, ATTRS(attr_i("axis", attr_int(c->node, "axis"))), 1);
    return TN_OK;
}
