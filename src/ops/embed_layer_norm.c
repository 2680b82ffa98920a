/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Runtime's EmbedLayerNormalization: the sum of word, position and segment embeddings, normalised. */
#include "ops/nn_int.h"

enum { IN_IDS, IN_SEGMENTS, IN_WORDS, IN_POSITIONS, IN_SEGMENT_TABLE, IN_GAMMA, IN_BETA, IN_MASK, IN_POSITION_IDS };
enum { OUT_Y, OUT_MASK, OUT_SUM };

static tn_status embed_infer(InferCtx *c) {
    Dim batch = in_dim(c, IN_IDS, 0), steps = in_dim(c, IN_IDS, 1), hidden = in_dim(c, IN_WORDS, 1), same;
    TRY(want_rank(c, IN_IDS, 2));
    for (int i = IN_WORDS; i <= IN_SEGMENT_TABLE; i++) {
        TRY(want_rank(c, i, 2));
        if (has_input(c, i)) TRY(dims_must_match(hidden, in_dim(c, i, 1), "hidden sizes of the tables", &hidden));
    }
    if (has_input(c, IN_SEGMENTS) != has_input(c, IN_SEGMENT_TABLE))
        return fail(TN_INVALID_MODEL, "segment_ids and segment_embedding go together");
    TRY(want_vector(c, IN_GAMMA, hidden, false));
    TRY(want_vector(c, IN_BETA, hidden, false));
    static const int by_step[] = {IN_SEGMENTS, IN_MASK, IN_POSITION_IDS};
    for (int k = 0; k < 3; k++) {
        if (!has_input(c, by_step[k])) continue;
        TRY(want_rank(c, by_step[k], 2));
        TRY(dims_must_match(steps, in_dim(c, by_step[k], 1), "steps of input_ids and others", &steps));
        if (by_step[k] != IN_POSITION_IDS || in_dim(c, IN_POSITION_IDS, 0) != 1)
            TRY(dims_must_match(batch, in_dim(c, by_step[k], 0), "batches of input_ids and others", &same));
    }
    Shape y = {.rank = 3, .dims = {batch, steps, hidden}}, counts = {.rank = 1, .dims = {batch}};
    set_type(c, OUT_Y, in_dtype(c, IN_WORDS), &y);
    if (c->n_out > OUT_MASK) set_type(c, OUT_MASK, TN_I32, &counts);
    if (c->n_out > OUT_SUM) set_type(c, OUT_SUM, in_dtype(c, IN_WORDS), &y);
    return TN_OK;
}

/* Adds row `id` of a table to y. */
static tn_status add_row(const KernelCtx *c, int table, const float *rows, int64_t id, int64_t hidden, float *y) {
    if (id < 0 || id >= c->in[table]->dims[0])
        return fail(TN_OUT_OF_RANGE, "row %lld of \"%.*s\", which has %lld", (long long)id, IN_NAME(c, table),
                    (long long)c->in[table]->dims[0]);
    for (int64_t k = 0; k < hidden; k++) y[k] += rows[id * hidden + k];
    return TN_OK;
}

/* How many elements of each row of the mask are 1. */
static tn_status count_mask(KernelCtx *c, int64_t batch, int64_t steps) {
    const int64_t *mask = NULL;
    if (!kernel_wants(c, OUT_MASK)) return TN_OK;
    if (kernel_has_input(c, IN_MASK)) TRY(dense_i64(c, IN_MASK, &mask));
    int32_t *counts = tensor_bytes(&c->out[OUT_MASK]);
    for (int64_t b = 0; b < batch; b++) {
        counts[b] = 0;
        for (int64_t s = 0; mask && s < steps; s++) counts[b] += mask[b * steps + s] == 1;
    }
    return TN_OK;
}

typedef struct Tables {
    const float *words, *positions, *segments, *gamma, *beta;
    const int64_t *ids, *segment_ids, *position_ids;
    int64_t position_step; /* from one batch's positions to the next one's */
} Tables;

static tn_status read_tables(KernelCtx *c, Tables *t) {
    *t = (Tables){0};
    TRY(dense_i64(c, IN_IDS, &t->ids));
    TRY(dense_f32(c, IN_WORDS, &t->words));
    TRY(dense_f32(c, IN_POSITIONS, &t->positions));
    TRY(dense_f32(c, IN_GAMMA, &t->gamma));
    TRY(dense_f32(c, IN_BETA, &t->beta));
    if (kernel_has_input(c, IN_SEGMENTS)) {
        TRY(dense_i64(c, IN_SEGMENTS, &t->segment_ids));
        TRY(dense_f32(c, IN_SEGMENT_TABLE, &t->segments));
    }
    if (kernel_has_input(c, IN_POSITION_IDS)) {
        TRY(dense_i64(c, IN_POSITION_IDS, &t->position_ids));
        t->position_step = c->in[IN_POSITION_IDS]->dims[0] == 1 ? 0 : c->in[IN_IDS]->dims[1];
    }
    return TN_OK;
}

static tn_status embed_reference(KernelCtx *c) {
    Tables t;
    float *y, *sum = NULL;
    int64_t batch = c->in[IN_IDS]->dims[0], steps = c->in[IN_IDS]->dims[1], hidden = c->in[IN_WORDS]->dims[1];
    double epsilon = attr_float(c->node, "epsilon");
    TRY(read_tables(c, &t));
    TRY(count_mask(c, batch, steps));
    TRY(result_f32(c, OUT_Y, &y));
    if (kernel_wants(c, OUT_SUM)) TRY(result_f32(c, OUT_SUM, &sum));
    for (int64_t k = 0; k < batch * steps; k++) {
        int64_t step = k % steps;
        float *row = y + k * hidden;
        memset(row, 0, (size_t)hidden * sizeof *row);
        TRY(add_row(c, IN_WORDS, t.words, t.ids[k], hidden, row));
        int64_t position = t.position_ids ? t.position_ids[k / steps * t.position_step + step] : step;
        TRY(add_row(c, IN_POSITIONS, t.positions, position, hidden, row));
        if (t.segments) TRY(add_row(c, IN_SEGMENT_TABLE, t.segments, t.segment_ids[k], hidden, row));
        if (sum) memcpy(sum + k * hidden, row, (size_t)hidden * sizeof *row);
        double mean, variance;
        moments_f32(row, hidden, &mean, &variance);
        double inverse = 1 / sqrt(variance + epsilon);
        for (int64_t i = 0; i < hidden; i++)
            row[i] = (float)(((double)row[i] - mean) * inverse * (double)t.gamma[i] + (double)t.beta[i]);
    }
    result_f32_done(c, OUT_Y, y);
    if (sum) result_f32_done(c, OUT_SUM, sum);
    return TN_OK;
}

#define TABLE (TS(TN_F32) | TS(TN_F16))

const OpSchema op_ms_EmbedLayerNormalization = {
    .domain = "com.microsoft",
    .name = "EmbedLayerNormalization",
    .kind = OP_ATOMIC,
    .summary = "Sum of three embeddings, normalised (ONNX Runtime 1)",
    .inputs = OPERANDS({"input_ids", TS(TN_I32)}, {"segment_ids", TS(TN_I32), 0, OPERAND_OPTIONAL},
                       {"word_embedding", TABLE, 'T'}, {"position_embedding", TABLE, 'T'},
                       {"segment_embedding", TABLE, 'T', OPERAND_OPTIONAL}, {"gamma", TABLE, 'T'}, {"beta", TABLE, 'T'},
                       {"mask", TS(TN_I32), 0, OPERAND_OPTIONAL}, {"position_ids", TS(TN_I32), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TABLE, 'T'}, {"mask_index", TS(TN_I32), 0, OPERAND_OPTIONAL},
                        {"embedding_sum", TABLE, 'T', OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"epsilon", ATTR_FLOAT, .f = 1e-12f}, {"mask_index_type", ATTR_INT}),
    .infer = embed_infer,
    .reference = embed_reference,
};
