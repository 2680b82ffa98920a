/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout (ONNX 22) in inference: the operand as it is, and a mask that keeps everything. */
#include "ops/move_int.h"

enum { DATA, RATIO, TRAINING };

static tn_status infer(InferCtx *c) {
    set_shape(c, 0, in_shape(c, DATA));
    set_shape(c, 1, in_shape(c, DATA));
    return TN_OK;
}

/* Training drops nothing either when the ratio is 0. */
static tn_status check_training(const RegionCtx *c) {
    int64_t training = 0;
    int n;
    double ratio = 0.5;
    if (!region_has_input(c, TRAINING)) return TN_OK;
    TRY(region_ints(c, TRAINING, &training, 1, &n));
    if (n != 1 || !training) return TN_OK;
    if (region_has_input(c, RATIO) && c->in[RATIO]->data && tensor_count(c->in[RATIO]) == 1)
        load_f64(&ratio, c->in[RATIO]->dtype, c->in[RATIO]->data, c->in[RATIO]->offset, 1, 1);
    return ratio == 0 ? TN_OK : fail(TN_UNSUPPORTED, "training_mode is set: this engine only infers");
}

static tn_status regions(RegionCtx *c) {
    static const uint8_t yes = 1;
    c->declined = !region_contents_known(c, TRAINING);
    if (c->declined) return TN_OK;
    TRY(check_training(c));
    if (c->n_out > 1) c->fill[1] = &yes;
    return region_whole(c, 0, DATA);
}

static tn_status reference(KernelCtx *c) { return run_as_regions(c); }

const OpSchema op_Dropout = {
    .name = "Dropout", .summary = "Dropout (ONNX 22): its operand, in inference", .kind = OP_DEFORMABLE,
    .inputs = {{"data", TS_FLOAT | TS_F8, 'T', 0},
               {"ratio", TS_FLOAT | TS_F8, 0, OPERAND_OPTIONAL},
               {"training_mode", TS(TN_BOOL), 0, OPERAND_OPTIONAL}},
    .outputs = {{"output", TS_FLOAT | TS_F8, 'T', 0}, {"mask", TS(TN_BOOL), 0, OPERAND_OPTIONAL}},
    .attrs = {{"seed", ATTR_INT, 0, 0, 0, NULL}},
    .content_inputs = 1 << RATIO | 1 << TRAINING,
    .infer = infer, .regions = regions, .reference = reference,
};
