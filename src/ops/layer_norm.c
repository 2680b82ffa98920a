/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation over the last dimensions: LayerNormalization (ONNX 17), RMSNormalization (ONNX 23), and ONNX Runtime's
   forms of them with a residual in front. They differ in what is normalised and whether the mean is taken off. */
#include "ops/nn_int.h"

/* ---- shapes -------------------------------------------------------------------------------------------------- */

/* Operand i must broadcast to operand 0's shape. */
static tn_status want_broadcast(InferCtx *c, int i) {
    if (!has_input(c, i) || !rank_known(c, i) || !rank_known(c, 0)) return TN_OK;
    const Shape *x = in_shape(c, 0), *s = in_shape(c, i);
    bool ok = s->rank <= x->rank;
    for (int d = 0; ok && d < s->rank; d++) {
        Dim own = s->dims[d], want = x->dims[x->rank - s->rank + d];
        ok = !dim_is_const(own) || !dim_is_const(want) || own == want || own == 1;
    }
    if (ok) return TN_OK;
    return fail(TN_SHAPE, "\"%.*s\" does not broadcast to the shape of \"%.*s\"", IN_NAME(c, i), IN_NAME(c, 0));
}

/* Results from `first` on: one number for each row. */
static tn_status set_row_results(InferCtx *c, int axis, int first, int last, tn_dtype dtype) {
    Shape s = *in_shape(c, 0);
    for (int d = axis; s.rank >= 0 && d < s.rank; d++) s.dims[d] = 1;
    for (int i = first; i <= last && i < c->n_out; i++) set_type(c, i, dtype, &s);
    return TN_OK;
}

static tn_status layer_norm_infer(InferCtx *c) {
    int axis = 0;
    int64_t stash = attr_int(c->node, "stash_type");
    if (stash != 1 && stash != TN_BF16 && stash != TN_F64 && stash != TN_F16)
        return fail(TN_INVALID_MODEL, "stash_type is %lld; 1 (float) or 16 (bfloat16) is wanted", (long long)stash);
    if (rank_known(c, 0)) TRY(normal_axis(attr_int(c->node, "axis"), in_shape(c, 0)->rank, "axis", &axis));
    set_shape(c, 0, in_shape(c, 0));
    TRY(want_broadcast(c, 1));
    TRY(want_broadcast(c, 2));
    return set_row_results(c, axis, 1, 2, (tn_dtype)stash);
}

static tn_status skip_norm_infer(InferCtx *c, int first_vector, int last_vector) {
    set_shape(c, 0, in_shape(c, 0));
    int rank = in_shape(c, 0)->rank;
    if (rank >= 0 && rank < 2)
        return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 2 or 3 are wanted", IN_NAME(c, 0), rank);
    TRY(want_broadcast(c, 1));
    for (int i = first_vector; i <= last_vector; i++) TRY(want_vector(c, i, in_dim(c, 0, rank - 1), false));
    TRY(set_row_results(c, rank - 1, 1, 2, TN_F32));
    if (c->n_out > 3) set_type(c, 3, in_dtype(c, 0), in_shape(c, 0));
    return TN_OK;
}

static tn_status skip_layer_norm_infer(InferCtx *c) { return skip_norm_infer(c, 2, 4); }
static tn_status skip_simplified_norm_infer(InferCtx *c) { return skip_norm_infer(c, 2, 3); }

static double norm_flops(const Node *node, const Shape *in, const Shape *out) {
    (void)node, (void)out;
    double n = 8;
    for (int d = 0; d < in->rank; d++) n *= (double)in->dims[d];
    return n;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

/* Elements from `axis` on. */
static int64_t row_length(const Tensor *x, int axis) {
    int64_t n = 1;
    for (int d = axis; d < x->rank; d++) n *= x->dims[d];
    return n;
}

/* Whether `t`, but for leading ones, is a suffix of x's dims: then its element for x's k-th is number k modulo its
   count. */
static bool is_suffix(const Tensor *t, const Tensor *x) {
    int from = 0;
    while (from < t->rank && t->dims[from] == 1) from++;
    for (int d = from; d < t->rank; d++)
        if (t->dims[d] != x->dims[x->rank - t->rank + d]) return false;
    return true;
}

/* The operand repeated to x's dims. */
static Tensor repeated(const Tensor *t, const Tensor *x) {
    Tensor r = *t;
    r.rank = x->rank;
    for (int d = x->rank - 1; d >= 0; d--) {
        int own = d - (x->rank - t->rank);
        r.dims[d] = x->dims[d];
        r.strides[d] = own >= 0 && t->dims[own] != 1 ? t->strides[own] : 0;
    }
    return r;
}

/* Operands of one of the ops, and the results that it has; -1: none. */
typedef struct NormOperands {
    int skip, scale, shift, bias;
    int mean, inverse, sum;
    bool centre; /* take the mean off */
} NormOperands;

#define BODY "ops/layer_norm_body.h"
#include "ops/each_float_int.h"

static tn_status layer_norm_reference(KernelCtx *c) {
    static const NormOperands o = {-1, 1, 2, -1, 1, 2, -1, true};
    return class_of(c->in[0]->dtype) == CLASS_F64 ? layer_norm_f64(c, &o) : layer_norm_f32(c, &o);
}
static tn_status rms_norm_reference(KernelCtx *c) {
    static const NormOperands o = {-1, 1, -1, -1, -1, 1, -1, false};
    return class_of(c->in[0]->dtype) == CLASS_F64 ? layer_norm_f64(c, &o) : layer_norm_f32(c, &o);
}
static tn_status skip_layer_norm_reference(KernelCtx *c) {
    static const NormOperands o = {1, 2, 3, 4, 1, 2, 3, true};
    return class_of(c->in[0]->dtype) == CLASS_F64 ? layer_norm_f64(c, &o) : layer_norm_f32(c, &o);
}
static tn_status skip_simplified_norm_reference(KernelCtx *c) {
    static const NormOperands o = {1, 2, -1, 3, 1, 2, 3, false};
    return class_of(c->in[0]->dtype) == CLASS_F64 ? layer_norm_f64(c, &o) : layer_norm_f32(c, &o);
}

/* ---- schemas ------------------------------------------------------------------------------------------------- */

#define STASH_TYPES (TS_FLOAT)
#define NORM_ATTRS \
    {"axis", ATTR_INT, .i = -1}, {"epsilon", ATTR_FLOAT, .f = 1e-5f}, { "stash_type", ATTR_INT, .i = 1 }

const OpSchema op_LayerNormalization = {
    .name = "LayerNormalization",
    .summary = "Normalises over the last dimensions (ONNX 17)",
    .kind = OP_COMPOSITE,
    .flags = OP_OVERWRITES0,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"Scale", TS_FLOAT}, {"B", TS_FLOAT, 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}, {"Mean", STASH_TYPES, 0, OPERAND_OPTIONAL},
                        {"InvStdDev", STASH_TYPES, 0, OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES(NORM_ATTRS),
    .infer = layer_norm_infer,
    .reference = layer_norm_reference,
    .flops = norm_flops,
};

const OpSchema op_RMSNormalization = {
    .name = "RMSNormalization",
    .kind = OP_COMPOSITE,
    .flags = OP_OVERWRITES0,
    .summary = "Divides by the root mean square over the last dimensions (ONNX 23)",
    .inputs = OPERANDS({"X", TS_FLOAT}, {"scale", TS_FLOAT, 'V'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'V'}),
    .attrs = ATTRIBUTES(NORM_ATTRS),
    .infer = layer_norm_infer,
    .reference = rms_norm_reference,
    .flops = norm_flops,
};

/* onnxruntime writes it into models without a domain as well as with its own. */
#define SIMPLIFIED_LAYER_NORM                                                                     \
    .name = "SimplifiedLayerNormalization", .kind = OP_COMPOSITE,                                 \
    .summary = "RMSNormalization as ONNX Runtime names it (ONNX Runtime 1)",                      \
    .inputs = OPERANDS({"X", TS_FLOAT}, {"scale", TS_FLOAT, 'V'}),                                \
    .outputs = OPERANDS({"Y", TS_FLOAT, 'V'}, {"inv_std_var", STASH_TYPES, 0, OPERAND_OPTIONAL}), \
    .attrs = ATTRIBUTES(NORM_ATTRS), .infer = layer_norm_infer, .reference = rms_norm_reference, .flops = norm_flops

const OpSchema op_SimplifiedLayerNormalization = {SIMPLIFIED_LAYER_NORM};
const OpSchema op_ms_SimplifiedLayerNormalization = {.domain = "com.microsoft", SIMPLIFIED_LAYER_NORM};

#define SKIP_OUTPUTS                                                               \
    OPERANDS({"output", TS_FLOAT, 'T'}, {"mean", TS(TN_F32), 0, OPERAND_OPTIONAL}, \
             {"inv_std_var", TS(TN_F32), 0, OPERAND_OPTIONAL},                     \
             {"input_skip_bias_sum", TS_FLOAT, 'T', OPERAND_OPTIONAL})

const OpSchema op_ms_SkipLayerNormalization = {
    .domain = "com.microsoft",
    .name = "SkipLayerNormalization",
    .kind = OP_COMPOSITE,
    .summary = "LayerNormalization of the sum of two operands and a bias (ONNX Runtime 1)",
    .inputs = OPERANDS({"input", TS_FLOAT, 'T'}, {"skip", TS_FLOAT, 'T'}, {"gamma", TS_FLOAT, 'T'},
                       {"beta", TS_FLOAT, 'T', OPERAND_OPTIONAL}, {"bias", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = SKIP_OUTPUTS,
    .attrs = ATTRIBUTES({"epsilon", ATTR_FLOAT, .f = 1e-12f}),
    .infer = skip_layer_norm_infer,
    .reference = skip_layer_norm_reference,
    .flops = norm_flops,
};

const OpSchema op_ms_SkipSimplifiedLayerNormalization = {
    .domain = "com.microsoft",
    .name = "SkipSimplifiedLayerNormalization",
    .kind = OP_COMPOSITE,
    .summary = "RMSNormalization of the sum of two operands and a bias (ONNX Runtime 1)",
    .inputs = OPERANDS({"input", TS_FLOAT, 'T'}, {"skip", TS_FLOAT, 'T'}, {"gamma", TS_FLOAT, 'T'},
                       {"bias", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = SKIP_OUTPUTS,
    .attrs = ATTRIBUTES({"epsilon", ATTR_FLOAT, .f = 1e-12f}),
    .infer = skip_simplified_norm_infer,
    .reference = skip_simplified_norm_reference,
    .flops = norm_flops,
};
