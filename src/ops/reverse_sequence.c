/* SPDX-License-Identifier: Apache-2.0 */
/* ReverseSequence (ONNX 28): each sequence of a batch backwards, up to its own length. */
#include "ops/lower_int.h"
#include "ops/move_int.h"

static tn_status read_axes(const Node *node, int *batch, int *time) {
    int64_t b = attr_int(node, "batch_axis"), t = attr_int(node, "time_axis");
    if (b < 0 || b > 1 || t < 0 || t > 1 || b == t)
        return fail(TN_INVALID_ARGUMENT, "batch_axis and time_axis must be 0 and 1, or 1 and 0");
    *batch = (int)b;
    *time = (int)t;
    return TN_OK;
}

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0), *lengths = in_shape(c, 1);
    int batch, time;
    TRY(read_axes(c->node, &batch, &time));
    set_shape(c, 0, x);
    if (x->rank >= 0 && x->rank < 2) return fail(TN_SHAPE, "the operand has %d dimensions, fewer than 2", x->rank);
    if (lengths->rank >= 0 && lengths->rank != 1) return fail(TN_SHAPE, "sequence_lens must have one dimension");
    Dim same;
    if (x->rank >= 2 && lengths->rank == 1)
        return dims_must_match(x->dims[batch], lengths->dims[0], "sequence_lens and the batch size", &same);
    return TN_OK;
}

static tn_status regions(RegionCtx *c) {
    const Tensor *x = c->in[0];
    int batch, time;
    int64_t *lengths, n;
    if (!region_contents_known(c, 1) || tensor_count(c->in[1]) > MOVE_MAX_REGIONS / 2) {
        c->declined = true;
        return TN_OK;
    }
    TRY(read_axes(c->node, &batch, &time));
    TRY(tensor_all_ints(c->in[1], c->lists[0].arena, &lengths, &n));
    if (n != x->dims[batch]) return fail(TN_SHAPE, "sequence_lens has %lld entries", (long long)n);
    Region whole = region_over(c, 0, 0);
    for (int k = 0; k < x->rank; k++) whole.src_stride[k] = x->strides[k];
    whole.size[batch] = 1;
    for (int64_t i = 0; i < n; i++) {
        if (lengths[i] < 0 || lengths[i] > x->dims[time])
            return fail(TN_OUT_OF_RANGE, "sequence_lens[%lld] is %lld, outside [0, %lld]", (long long)i,
                        (long long)lengths[i], (long long)x->dims[time]);
        Region back = whole, rest;
        back.src_offset = i * x->strides[batch];
        back.dst_offset = i * whole.dst_stride[batch];
        rest = back;
        back.size[time] = lengths[i];
        back.src_offset += (lengths[i] - 1) * x->strides[time];
        back.src_stride[time] = -x->strides[time];
        rest.size[time] -= lengths[i];
        rest.src_offset += lengths[i] * x->strides[time];
        rest.dst_offset += lengths[i] * whole.dst_stride[time];
        TRY(add_region(c, 0, &back));
        TRY(add_region(c, 0, &rest));
    }
    c->lists[0].covers = true;
    return TN_OK;
}

/* Lengths that are not known before the run, and big batches, in parts. */
static tn_status reference(KernelCtx *c) {
    if (tensor_count(c->in[1]) <= MOVE_MAX_REGIONS / 2) return run_as_regions(c);
    return fail(TN_LIMIT, "a batch of %lld sequences is too large", (long long)tensor_count(c->in[1]));
}

const OpSchema op_ReverseSequence = {
    .name = "ReverseSequence",
    .summary = "ReverseSequence (ONNX 28): reverse sequences of given lengths",
    .kind = OP_DEFORMABLE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS({"input", TS_ALL_TENSOR, 'T', 0}, {"sequence_lens", TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"Y", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"batch_axis", ATTR_INT, 0, 1, 0, NULL}, {"time_axis", ATTR_INT, 0, 0, 0, NULL}),
    .infer = infer,
    .regions = regions,
    .reference = reference,
    .lower = lower_reverse_sequence,
    .lowering = "tn.Loop over computed places where lengths are not known",
};
