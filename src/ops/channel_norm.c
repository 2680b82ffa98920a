/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation by channel: BatchNormalization (ONNX 15), InstanceNormalization (ONNX 22), GroupNormalization
   (ONNX 21), LRN (ONNX 13). */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

/* ---- shapes -------------------------------------------------------------------------------------------------- */

/* A vector is one channel. */
static Dim channels(const InferCtx *c) { return rank_known(c, 0) && in_shape(c, 0)->rank < 2 ? 1 : in_dim(c, 0, 1); }

static tn_status batch_norm_infer(InferCtx *c) {
    set_shape(c, 0, in_shape(c, 0));
    if (rank_known(c, 0) && in_shape(c, 0)->rank < 1) return fail(TN_SHAPE, "the input is a scalar");
    Dim n = channels(c);
    for (int i = 1; i < 5; i++) {
        TRY(want_vector(c, i, n, false));
        if (!dim_is_const(n)) n = in_dim(c, i, 0);
    }
    if (c->n_out > 1 && attr_int(c->node, "training_mode") == 0)
        return fail(TN_INVALID_MODEL, "%d results are asked for; only training_mode=1 has more than one", c->n_out);
    Shape s = {.rank = 1, .dims = {n}};
    for (int i = 1; i < c->n_out; i++) set_shape(c, i, &s);
    return TN_OK;
}

static tn_status want_channels(InferCtx *c) {
    set_shape(c, 0, in_shape(c, 0));
    if (rank_known(c, 0) && in_shape(c, 0)->rank < 2)
        return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 2 or more are wanted", IN_NAME(c, 0),
                    in_shape(c, 0)->rank);
    for (int i = 1; i < c->n_in; i++) TRY(want_vector(c, i, in_dim(c, 0, 1), false));
    return TN_OK;
}

static tn_status group_norm_infer(InferCtx *c) {
    int64_t groups = attr_int(c->node, "num_groups");
    Dim n = in_dim(c, 0, 1);
    if (groups < 1) return fail(TN_INVALID_MODEL, "num_groups is %lld; 1 or more is wanted", (long long)groups);
    if (dim_is_const(n) && n % groups)
        return fail(TN_SHAPE, "%lld channels cannot be divided into %lld groups", (long long)n, (long long)groups);
    return want_channels(c);
}

static tn_status lrn_infer(InferCtx *c) {
    if (attr_int(c->node, "size") < 1)
        return fail(TN_INVALID_MODEL, "size is %lld; 1 or more is wanted", (long long)attr_int(c->node, "size"));
    return want_channels(c);
}

static double norm_flops(const Node *node, const Shape *in, const Shape *out) {
    double n = op_attr_spec(node->op, STR("training_mode")) ? 2 : 8;
    (void)out;
    for (int d = 0; d < in->rank; d++) n *= (double)in->dims[d];
    return n;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

/* x as [batch, channels, plane] */
typedef struct Planes {
    int64_t batch, channels, plane;
} Planes;

static Planes planes_of(const Tensor *x) {
    Planes p = {.batch = x->dims[0], .channels = x->rank > 1 ? x->dims[1] : 1, .plane = 1};
    for (int d = 2; d < x->rank; d++) p.plane *= x->dims[d];
    return p;
}

#define BODY "ops/channel_norm_body.h"
#include "ops/each_float_int.h"

static tn_status batch_norm_reference(KernelCtx *c) { return RUN_FLOAT(c, batch_norm); }
static tn_status lrn_reference(KernelCtx *c) { return RUN_FLOAT(c, lrn); }
static tn_status instance_norm_reference(KernelCtx *c) {
    int64_t groups = c->in[0]->dims[1]; /* each channel is a group */
    return class_of(c->in[0]->dtype) == CLASS_F64 ? group_norm_f64(c, groups) : group_norm_f32(c, groups);
}
static tn_status group_norm_reference(KernelCtx *c) {
    int64_t groups = attr_int(c->node, "num_groups");
    return class_of(c->in[0]->dtype) == CLASS_F64 ? group_norm_f64(c, groups) : group_norm_f32(c, groups);
}

/* ---- schemas ------------------------------------------------------------------------------------------------- */

const OpSchema op_BatchNormalization = {
    .name = "BatchNormalization",
    .summary = "Scales each channel by given or measured statistics (ONNX 15)",
    .kind = OP_COMPOSITE,
    .flags = OP_OVERWRITES0,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"scale", TS_FLOAT, 'U'}, {"B", TS_FLOAT, 'U'},
                       {"input_mean", TS_FLOAT, 'V'}, {"input_var", TS_FLOAT, 'V'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}, {"running_mean", TS_FLOAT, 'V', OPERAND_OPTIONAL},
                        {"running_var", TS_FLOAT, 'V', OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"epsilon", ATTR_FLOAT, .f = 1e-5f}, {"momentum", ATTR_FLOAT, .f = 0.9f},
                        {"training_mode", ATTR_INT}),
    .infer = batch_norm_infer,
    .reference = batch_norm_reference,
    .flops = norm_flops,
};

const OpSchema op_InstanceNormalization = {
    .name = "InstanceNormalization",
    .summary = "Normalises each channel of each image (ONNX 22)",
    .kind = OP_COMPOSITE,
    .flags = OP_OVERWRITES0,
    .inputs = OPERANDS({"input", TS_FLOAT, 'T'}, {"scale", TS_FLOAT, 'T'}, {"B", TS_FLOAT, 'T'}),
    .outputs = OPERANDS({"output", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"epsilon", ATTR_FLOAT, .f = 1e-5f}),
    .infer = want_channels,
    .reference = instance_norm_reference,
    .flops = norm_flops,
};

const OpSchema op_GroupNormalization = {
    .name = "GroupNormalization",
    .summary = "Normalises groups of channels of each image (ONNX 21)",
    .kind = OP_COMPOSITE,
    .flags = OP_OVERWRITES0,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"scale", TS_FLOAT, 'T'}, {"bias", TS_FLOAT, 'T'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"epsilon", ATTR_FLOAT, .f = 1e-5f}, {"num_groups", ATTR_INT, ATTR_REQUIRED},
                        {"stash_type", ATTR_INT, .i = 1}),
    .infer = group_norm_infer,
    .reference = group_norm_reference,
    .flops = norm_flops,
};

const OpSchema op_LRN = {
    .name = "LRN",
    .summary = "Divides by the energy of neighbouring channels (ONNX 13)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"alpha", ATTR_FLOAT, .f = 1e-4f}, {"beta", ATTR_FLOAT, .f = 0.75},
                        {"bias", ATTR_FLOAT, .f = 1}, {"size", ATTR_INT, ATTR_REQUIRED}),
    .infer = lrn_infer,
    .reference = lrn_reference,
    .flops = norm_flops,
    .lower = lower_lrn,
    .lowering = "windows over channels as a strided reading, ReduceSum",
};
