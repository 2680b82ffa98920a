/* SPDX-License-Identifier: Apache-2.0 */
/* Gemm (ONNX 13) and FusedGemm: alpha * A' B' + beta * C, where C broadcasts to the product's shape. */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

static tn_status gemm_infer(InferCtx *c) {
    bool ta = attr_int(c->node, "transA") != 0, tb = attr_int(c->node, "transB") != 0;
    TRY(want_rank(c, 0, 2));
    TRY(want_rank(c, 1, 2));
    Dim k = in_dim(c, 0, ta ? 0 : 1), rows = in_dim(c, 1, tb ? 1 : 0);
    if (dim_is_const(k) && dim_is_const(rows) && k != rows)
        return fail(TN_SHAPE, "\"%.*s\" has %lld columns, but \"%.*s\" has %lld rows (after transA and transB)",
                    IN_NAME(c, 0), (long long)k, IN_NAME(c, 1), (long long)rows);
    Shape y = {.rank = 2, .dims = {in_dim(c, 0, ta ? 1 : 0), in_dim(c, 1, tb ? 0 : 1)}};
    set_shape(c, 0, &y);
    if (!has_input(c, 2) || !rank_known(c, 2)) return TN_OK;
    const Shape *s = in_shape(c, 2);
    if (s->rank > 2)
        return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where at most 2 are wanted", IN_NAME(c, 2), s->rank);
    for (int d = 0; d < s->rank; d++) {
        Dim want = y.dims[2 - s->rank + d];
        if (dim_is_const(s->dims[d]) && dim_is_const(want) && s->dims[d] != want && s->dims[d] != 1)
            return fail(TN_SHAPE, "\"%.*s\" with size %lld in dimension %d does not broadcast to the product's %lld",
                        IN_NAME(c, 2), (long long)s->dims[d], d, (long long)want);
    }
    return TN_OK;
}

static double gemm_flops(const Node *node, const Shape *in, const Shape *out) {
    double k = (double)in[0].dims[attr_int(node, "transA") ? 0 : 1];
    return 2 * k * (double)out->dims[0] * (double)out->dims[1];
}

static tn_status gemm_activation(const Node *node, Activation *act) {
    *act = (Activation){.kind = ACT_NONE};
    if (!op_attr_spec(node->op, STR("activation"))) return TN_OK;
    TRY(activation_named(attr_string(node, "activation"), act));
    if (attr_present(node, "activation_alpha")) act->alpha = attr_float(node, "activation_alpha");
    if (attr_present(node, "activation_beta")) act->beta = attr_float(node, "activation_beta");
    return TN_OK;
}

/* Strides of C over the product's two dimensions; 0 where it broadcasts. */
static void summand_strides(const Tensor *t, int64_t *row, int64_t *col) {
    *col = t->rank > 0 && t->dims[t->rank - 1] != 1 ? 1 : 0;
    *row = t->rank > 1 && t->dims[t->rank - 2] != 1 ? t->dims[t->rank - 1] : 0;
}

static float factor_f32(double v) { return (float)v; }
static double factor_f64(double v) { return v; }
static uint64_t factor_u64(double v) { return v >= -0x1p63 && v < 0x1p63 ? (uint64_t)(int64_t)v : 0; }

#define activate_u64(act, y, n) ((void)(act))
#define BODY "ops/gemm_op_body.h"
#include "ops/each_number_int.h"

static tn_status gemm_reference(KernelCtx *c) { return RUN_NUMBER(c, gemm); }

#define GEMM_TYPES (TS_FLOAT | TS(TN_I32) | TS(TN_I64) | TS(TN_U32) | TS(TN_U64))
#define GEMM_ATTRS \
    {"alpha", ATTR_FLOAT, .f = 1}, {"beta", ATTR_FLOAT, .f = 1}, {"transA", ATTR_INT}, { "transB", ATTR_INT }

const OpSchema op_Gemm = {
    .name = "Gemm",
    .summary = "alpha * A B + beta * C (ONNX 13)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"A", GEMM_TYPES, 'T'}, {"B", GEMM_TYPES, 'T'}, {"C", GEMM_TYPES, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", GEMM_TYPES, 'T'}),
    .attrs = ATTRIBUTES(GEMM_ATTRS),
    .infer = gemm_infer,
    .reference = gemm_reference,
    .flops = gemm_flops,
};

static tn_status lower_fused_gemm(LowerCtx *c) {
    Value *operands[] = {lower_in(c, 0), lower_in(c, 1), lower_in(c, 2)};
    Activation act;
    if (lower_by_widening(c)) return TN_OK;
    TRY(gemm_activation(c->node, &act));
    c->out[0] = lower_activation(c, &act, lower_like(c, "Gemm", operands, 3));
    return TN_OK;
}

const OpSchema op_ms_FusedGemm = {
    .domain = "com.microsoft",
    .name = "FusedGemm",
    .summary = "Gemm and an activation (ONNX Runtime 1)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"A", TS_FLOAT, 'T'}, {"B", TS_FLOAT, 'T'}, {"C", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"activation", ATTR_STRING}, {"activation_alpha", ATTR_FLOAT}, {"activation_beta", ATTR_FLOAT},
                        {"activation_gamma", ATTR_FLOAT}, GEMM_ATTRS),
    .infer = gemm_infer,
    .reference = gemm_reference,
    .flops = gemm_flops,
    .lower = lower_fused_gemm,
    .lowering = "Gemm, the activation's nodes",
};
