/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that normalise along chosen axes: Softmax, LogSoftmax, Hardmax (ONNX 13), LpNormalization (ONNX 22),
   MeanVarianceNormalization (ONNX 13). The first four work on lines along one axis and differ in what they do to it. */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

static tn_status axis_infer(InferCtx *c) {
    int axis;
    if (rank_known(c, 0)) TRY(normal_axis(attr_int(c->node, "axis"), in_shape(c, 0)->rank, "axis", &axis));
    set_shape(c, 0, in_shape(c, 0));
    return TN_OK;
}

static tn_status lp_norm_infer(InferCtx *c) {
    int64_t p = attr_int(c->node, "p");
    if (p != 1 && p != 2) return fail(TN_INVALID_MODEL, "p is %lld; 1 or 2 is wanted", (long long)p);
    return axis_infer(c);
}

/* Without axes: all but the channels, as for images. */
static tn_status mvn_axes(const Node *node, int rank, uint32_t *mask) {
    static const int64_t usual[] = {0, 2, 3};
    IntList axes = attr_present(node, "axes") ? attr_ints(node, "axes") : (IntList){usual, 3};
    return normal_axes(axes.data, axes.n, rank, "axes", mask);
}

static tn_status mvn_infer(InferCtx *c) {
    uint32_t mask;
    if (rank_known(c, 0)) TRY(mvn_axes(c->node, in_shape(c, 0)->rank, &mask));
    set_shape(c, 0, in_shape(c, 0));
    return TN_OK;
}

static double softmax_flops(const Node *node, const Shape *in, const Shape *out) {
    (void)node, (void)out;
    double n = 5;
    for (int d = 0; d < in->rank; d++) n *= (double)in->dims[d];
    return n;
}

#define BODY "ops/axis_norm_body.h"
#include "ops/each_float_int.h"

#define LINES(name, line)                                                                                            \
    static tn_status name##_reference(KernelCtx *c) {                                                                \
        return class_of(c->in[0]->dtype) == CLASS_F64 ? run_lines_f64(c, line##_f64) : run_lines_f32(c, line##_f32); \
    }
LINES(softmax, softmax_line)
LINES(log_softmax, log_softmax_line)
LINES(hardmax, hardmax_line)
LINES(lp_norm, lp_norm_line)
static tn_status mvn_reference(KernelCtx *c) { return RUN_FLOAT(c, mvn); }

#define FLOAT_TO_FLOAT .inputs = OPERANDS({"input", TS_FLOAT, 'T'}), .outputs = OPERANDS({"output", TS_FLOAT, 'T'})

const OpSchema op_Softmax = {
    .name = "Softmax",
    .summary = "exp(x) over its sum along an axis (ONNX 13)",
    .kind = OP_COMPOSITE,
    .flags = OP_OVERWRITES0,
    FLOAT_TO_FLOAT,
    .attrs = ATTRIBUTES({"axis", ATTR_INT, .i = -1}),
    .infer = axis_infer,
    .reference = softmax_reference,
    .flops = softmax_flops,
};

const OpSchema op_LogSoftmax = {
    .name = "LogSoftmax",
    .summary = "Logarithm of Softmax (ONNX 13)",
    .kind = OP_COMPOSITE,
    .flags = OP_OVERWRITES0,
    FLOAT_TO_FLOAT,
    .attrs = ATTRIBUTES({"axis", ATTR_INT, .i = -1}),
    .infer = axis_infer,
    .reference = log_softmax_reference,
    .flops = softmax_flops,
};

const OpSchema op_Hardmax = {
    .name = "Hardmax",
    .summary = "1 at the first largest element along an axis, else 0 (ONNX 13)",
    .kind = OP_COMPOSITE,
    FLOAT_TO_FLOAT,
    .attrs = ATTRIBUTES({"axis", ATTR_INT, .i = -1}),
    .infer = axis_infer,
    .reference = hardmax_reference,
    .lower = lower_hardmax,
    .lowering = "a comparison of ArgMax with counting numbers",
};

const OpSchema op_LpNormalization = {
    .name = "LpNormalization",
    .summary = "Divides by the p-norm along an axis (ONNX 22)",
    .kind = OP_COMPOSITE,
    FLOAT_TO_FLOAT,
    .attrs = ATTRIBUTES({"axis", ATTR_INT, .i = -1}, {"p", ATTR_INT, .i = 2}),
    .infer = lp_norm_infer,
    .reference = lp_norm_reference,
};

const OpSchema op_MeanVarianceNormalization = {
    .name = "MeanVarianceNormalization",
    .summary = "Mean 0 and variance 1 over chosen axes (ONNX 13)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"axes", ATTR_INTS}),
    .infer = mvn_infer,
    .reference = mvn_reference,
    .flops = softmax_flops,
};
