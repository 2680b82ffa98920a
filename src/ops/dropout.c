/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout (ONNX 22): in inference the operand as it is, and a mask that keeps everything; in training some elements
   zeroed, the others scaled up. */
#include "ops/move_int.h"
#include "ops/random_int.h"

enum { DATA, RATIO, TRAINING };

static tn_status infer(InferCtx *c) {
    set_shape(c, 0, in_shape(c, DATA));
    set_shape(c, 1, in_shape(c, DATA));
    return TN_OK;
}

/* The ratio to drop: 0 in inference. The operands' contents must be at hand. */
static tn_status read_ratio(const Tensor *const *in, int n_in, double *ratio) {
    int64_t training = 0;
    int n = 1;
    const Tensor *t = n_in > RATIO ? in[RATIO] : NULL;
    *ratio = 0;
    if (n_in <= TRAINING || !in[TRAINING]) return TN_OK;
    TRY(tensor_few_ints(in[TRAINING], "training_mode", &training, 1, &n));
    if (n != 1 || !training) return TN_OK;
    *ratio = 0.5;
    if (t && t->data && tensor_count(t) == 1) load_f64(ratio, t->dtype, t->data, t->offset, 1, 1);
    if (*ratio >= 0 && *ratio < 1) return TN_OK;
    return fail(TN_OUT_OF_RANGE, "the ratio is %g; 0 or more and less than 1 is wanted", *ratio);
}

static tn_status regions(RegionCtx *c) {
    static const uint8_t yes = 1;
    double ratio;
    c->declined = !region_contents_known(c, TRAINING) || !region_contents_known(c, RATIO);
    if (c->declined) return TN_OK;
    TRY(read_ratio(c->in, c->n_in, &ratio));
    c->declined = ratio > 0;
    if (c->declined) return TN_OK;
    if (c->n_out > 1) c->fill[1] = &yes;
    return region_whole(c, 0, DATA);
}

/* Not marked as random: folding or sharing what drops nothing is right, and the numbers depend on the node's name. */
static tn_status drop(KernelCtx *c, double ratio) {
    const Tensor *y = &c->out[0];
    Random random = random_of(c->node, y->dtype);
    int64_t n = tensor_count(y);
    bool wants_mask = kernel_wants(c, 1);
    const double *x;
    TRY(dense_f64(c, DATA, &x));
    for (int64_t i = 0; i < n; i++) {
        int64_t kept = random_uniform(&random, i) >= ratio;
        double v = kept ? x[i] / (1 - ratio) : 0;
        store_f64(y->dtype, y->data, y->offset + i, 1, &v, 1);
        if (wants_mask) store_i64(TN_BOOL, c->out[1].data, c->out[1].offset + i, 1, &kept, 1);
    }
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    double ratio;
    TRY(read_ratio(c->in, c->n_in, &ratio));
    return ratio > 0 ? drop(c, ratio) : run_as_regions(c);
}

const OpSchema op_Dropout = {
    .name = "Dropout",
    .summary = "Dropout (ONNX 22): its operand, in inference; in training, some of it",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"data", TS_FLOAT | TS_F8, 'T', 0}, {"ratio", TS_FLOAT | TS_F8, 0, OPERAND_OPTIONAL},
                       {"training_mode", TS(TN_BOOL), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_FLOAT | TS_F8, 'T', 0}, {"mask", TS(TN_BOOL), 0, OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"seed", ATTR_INT, 0, 0, 0, NULL}),
    .content_inputs = 1 << RATIO | 1 << TRAINING,
    .infer = infer,
    .regions = regions,
    .reference = reference,
};
