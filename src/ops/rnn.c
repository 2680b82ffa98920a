/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU, RNN (all ONNX 22) and DynamicQuantizeLSTM: recurrent layers in one or both directions. */
#include <strings.h>

#include "ops/lower_int.h"
#include "ops/rnn_int.h"

static CellOperands operands_of(const OpSchema *op) {
    if (strcmp(op->name, "GRU") == 0) return (CellOperands){CELL_GRU, 3, 2, false};
    if (strcmp(op->name, "RNN") == 0) return (CellOperands){CELL_RNN, 1, 1, false};
    return (CellOperands){CELL_LSTM, 4, 3, op->domain != NULL};
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static bool takes_alpha(ActivationKind kind) {
    return kind == ACT_AFFINE || kind == ACT_LEAKY_RELU || kind == ACT_THRESHOLDED_RELU || kind == ACT_SCALED_TANH ||
           kind == ACT_HARD_SIGMOID || kind == ACT_ELU;
}
static bool takes_beta(ActivationKind kind) {
    return kind == ACT_AFFINE || kind == ACT_SCALED_TANH || kind == ACT_HARD_SIGMOID;
}

static double take(const Attr *list, size_t *next, double missing) {
    return list && list->kind == ATTR_FLOATS && *next < list->n ? (double)list->floats[(*next)++] : missing;
}

/* The names of all directions in a row; alphas and betas are handed to those that take one, in order. */
static tn_status read_activations(const Node *node, CellAttrs *a) {
    static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
    const Attr *names = attr_get(node, "activations");
    const Attr *alphas = attr_get(node, "activation_alpha"), *betas = attr_get(node, "activation_beta");
    size_t each = (size_t)a->o.activations, want = each * (size_t)a->directions, alpha = 0, beta = 0;
    if (names && (names->kind != ATTR_STRINGS || (names->n && names->n != want)))
        return fail(TN_INVALID_MODEL, "activations has %zu names where %zu are wanted", names->n, want);
    for (size_t i = 0; i < want; i++) {
        Activation *act = &a->act[i / each][i % each];
        Str name = str_of(a->o.kind == CELL_RNN ? "Tanh" : usual[i % each]);
        if (names && names->n) name = names->strings[i];
        TRY(activation_named(name, act));
        if (takes_alpha(act->kind)) act->alpha = take(alphas, &alpha, act->alpha);
        if (takes_beta(act->kind)) act->beta = take(betas, &beta, act->beta);
    }
    return TN_OK;
}

static bool optional_int(const Node *node, const char *name) {
    return op_attr_spec(node->op, str_of(name)) && attr_int(node, name) != 0;
}

tn_status read_cell(const Node *node, CellAttrs *a) {
    *a = (CellAttrs){.o = operands_of(node->op), .directions = 1};
    Str direction = attr_string(node, "direction");
    if (str_equal(direction, STR("bidirectional"))) a->directions = 2;
    else if (str_equal(direction, STR("reverse"))) a->backward = true;
    else if (!str_equal(direction, STR("forward")))
        return fail(TN_INVALID_MODEL, "direction is \"%.*s\"; forward, reverse or bidirectional is wanted",
                    (int)direction.n, direction.s);
    a->batch_first = optional_int(node, "layout");
    a->input_forget = optional_int(node, "input_forget");
    a->linear_before_reset = optional_int(node, "linear_before_reset");
    a->clips = attr_present(node, "clip") && attr_float(node, "clip") > 0;
    a->clip = a->clips ? attr_float(node, "clip") : 0;
    return read_activations(node, a);
}

/* ---- shapes -------------------------------------------------------------------------------------------------- */

static tn_status want_dims(InferCtx *c, int i, int rank, const Dim *dims) {
    if (!has_input(c, i) || !rank_known(c, i)) return TN_OK;
    TRY(want_rank(c, i, rank));
    for (int d = 0; d < rank; d++) {
        Dim is = in_shape(c, i)->dims[d];
        if (dim_is_const(is) && dim_is_const(dims[d]) && is != dims[d])
            return fail(TN_SHAPE, "\"%.*s\" has size %lld in dimension %d where %lld is wanted", IN_NAME(c, i),
                        (long long)is, d, (long long)dims[d]);
    }
    return TN_OK;
}

static tn_status check_weights(InferCtx *c, const CellAttrs *a, Dim input, Dim hidden) {
    Dim n = a->directions, gates = dim_mul(c->dims, hidden, a->o.gates);
    if (a->o.quantised) {
        TRY(want_dims(c, IN_W, 3, (Dim[]){n, input, gates}));
        TRY(want_dims(c, IN_R, 3, (Dim[]){n, hidden, gates}));
    } else {
        TRY(want_dims(c, IN_W, 3, (Dim[]){n, gates, input}));
        TRY(want_dims(c, IN_R, 3, (Dim[]){n, gates, hidden}));
    }
    TRY(want_dims(c, IN_B, 2, (Dim[]){n, dim_mul(c->dims, gates, 2)}));
    if (a->o.kind == CELL_LSTM) TRY(want_dims(c, IN_P, 2, (Dim[]){n, dim_mul(c->dims, hidden, 3)}));
    return TN_OK;
}

static tn_status rnn_infer(InferCtx *c) {
    CellAttrs a;
    TRY(read_cell(c->node, &a));
    TRY(want_rank(c, IN_X, 3));
    TRY(want_rank(c, IN_W, 3));
    TRY(want_rank(c, IN_R, 3));
    Dim hidden = in_dim(c, IN_R, a.o.quantised ? 1 : 2), n = a.directions;
    if (attr_int(c->node, "hidden_size") < 0) return fail(TN_INVALID_MODEL, "hidden_size is negative");
    if (attr_int(c->node, "hidden_size"))
        TRY(dims_must_match(hidden, attr_int(c->node, "hidden_size"), "hidden_size and R", &hidden));
    TRY(check_weights(c, &a, in_dim(c, IN_X, 2), hidden));
    Dim steps = in_dim(c, IN_X, a.batch_first), batch = in_dim(c, IN_X, !a.batch_first);
    Shape y = {.rank = 4, .dims = {steps, n, batch, hidden}}, state = {.rank = 3, .dims = {n, batch, hidden}};
    if (a.batch_first) {
        y = (Shape){.rank = 4, .dims = {batch, steps, n, hidden}};
        state = (Shape){.rank = 3, .dims = {batch, n, hidden}};
    }
    TRY(want_dims(c, IN_LENS, 1, &batch));
    TRY(want_dims(c, IN_H, 3, state.dims));
    if (a.o.kind == CELL_LSTM) TRY(want_dims(c, IN_C, 3, state.dims));
    set_shape(c, 0, &y);
    for (int i = 1; i < c->n_out; i++) set_shape(c, i, &state);
    return TN_OK;
}

static double rnn_flops(const Node *node, const Shape *in, const Shape *out) {
    (void)node, (void)out;
    double rows = (double)in[IN_X].dims[0] * (double)in[IN_X].dims[1], n = 0;
    for (int i = IN_W; i <= IN_R; i++) n += (double)in[i].dims[0] * (double)in[i].dims[1] * (double)in[i].dims[2];
    return 2 * rows * n;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

/* One direction's quantised weights: integers less their zero points, and scales (one, or one a column). */
typedef struct QuantisedWeights {
    const float *w, *r, *w_scale, *r_scale;
    int64_t n_w_scale, n_r_scale;
} QuantisedWeights;

typedef struct Sizes {
    int64_t steps, batch, input, hidden, gates; /* gates: columns of W, gates times hidden */
    const int64_t *lens;                        /* of each sequence; NULL: all steps */
} Sizes;

static tn_status read_sizes(KernelCtx *c, const CellAttrs *a, Sizes *s) {
    const Tensor *x = c->in[IN_X];
    *s = (Sizes){.steps = x->dims[a->batch_first],
                 .batch = x->dims[!a->batch_first],
                 .input = x->dims[2],
                 .hidden = c->in[IN_R]->dims[a->o.quantised ? 1 : 2]};
    s->gates = s->hidden * a->o.gates;
    if (!kernel_has_input(c, IN_LENS)) return TN_OK;
    TRY(dense_i64(c, IN_LENS, &s->lens));
    for (int64_t b = 0; b < s->batch; b++)
        if (s->lens[b] < 0 || s->lens[b] > s->steps)
            return fail(TN_OUT_OF_RANGE, "sequence %lld has length %lld; at most %lld steps are there", (long long)b,
                        (long long)s->lens[b], (long long)s->steps);
    return TN_OK;
}

/* Scales and zero points are one for each direction, or one for each of its columns. */
static tn_status centre_weights(KernelCtx *c, int i, int scale, int zero, int d, const float **weights,
                                const float **scales, int64_t *n_scales) {
    const Tensor *t = c->in[i];
    int64_t rows = t->dims[1], columns = t->dims[2], n_zeros = tensor_count(c->in[zero]) / t->dims[0];
    int64_t plane = rows * columns;
    const void *bytes;
    const int64_t *zeros;
    TRY(dense_f32(c, scale, scales));
    TRY(dense_i64(c, zero, &zeros));
    TRY(dense_bytes(c, i, &bytes));
    *n_scales = tensor_count(c->in[scale]) / t->dims[0];
    if ((*n_scales != 1 && *n_scales != columns) || (n_zeros != 1 && n_zeros != columns))
        return fail(TN_SHAPE, "scales and zero points are one for each direction, or one for each of %lld columns",
                    (long long)columns);
    *scales += d * *n_scales;
    float *out = kernel_scratch(c, float, (size_t)plane);
    if (!out) return TN_OUT_OF_MEMORY;
    load_f32(out, t->dtype, bytes, d * plane, 1, plane);
    for (int64_t k = 0; k < plane; k++) out[k] -= (float)zeros[d * n_zeros + (n_zeros == 1 ? 0 : k % columns)];
    *weights = out;
    return TN_OK;
}

static tn_status read_quantised(KernelCtx *c, int d, QuantisedWeights *q) {
    TRY(centre_weights(c, IN_W, IN_W_SCALE, IN_W_ZERO, d, &q->w, &q->w_scale, &q->n_w_scale));
    return centre_weights(c, IN_R, IN_R_SCALE, IN_R_ZERO, d, &q->r, &q->r_scale, &q->n_r_scale);
}

/* The products of the f32 version may be quantised ones. */
static tn_status quantised_product_f32(KernelCtx *c, const MatrixProduct *p, const float *a, const float *b,
                                       const float *scale, int64_t n_scale, float *y) {
    return dynamic_product(c, p, a, b, scale, n_scale, y);
}
static tn_status quantised_product_f64(KernelCtx *c, const MatrixProduct *p, const double *a, const float *b,
                                       const float *scale, int64_t n_scale, double *y) {
    (void)c, (void)p, (void)a, (void)b, (void)scale, (void)n_scale, (void)y;
    return fail(TN_UNSUPPORTED, "quantised weights with double operands");
}

#define BODY "ops/rnn_body.h"
#include "ops/each_float_int.h"

static tn_status rnn_reference(KernelCtx *c) { return RUN_FLOAT(c, recurrent); }

/* ---- schemas ------------------------------------------------------------------------------------------------- */

#define FLOAT_OPTIONAL TS_FLOAT, 'T', OPERAND_OPTIONAL
#define RNN_INPUTS                                                                           \
    {"X", TS_FLOAT, 'T'}, {"W", TS_FLOAT, 'T'}, {"R", TS_FLOAT, 'T'}, {"B", FLOAT_OPTIONAL}, \
        {"sequence_lens", TS(TN_I32), 0, OPERAND_OPTIONAL}, {                                \
        "initial_h", FLOAT_OPTIONAL                                                          \
    }
#define RNN_ATTRS                                                                                       \
    {"activation_alpha", ATTR_FLOATS}, {"activation_beta", ATTR_FLOATS}, {"activations", ATTR_STRINGS}, \
        {"clip", ATTR_FLOAT}, {"direction", ATTR_STRING, .s = "forward"}, {                             \
        "hidden_size", ATTR_INT                                                                         \
    }
#define RNN_COMMON .infer = rnn_infer, .reference = rnn_reference, .flops = rnn_flops

const OpSchema op_LSTM = {
    .name = "LSTM",
    .summary = "Long short-term memory (ONNX 22)",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS(RNN_INPUTS, {"initial_c", FLOAT_OPTIONAL}, {"P", FLOAT_OPTIONAL}),
    .outputs = OPERANDS({"Y", FLOAT_OPTIONAL}, {"Y_h", FLOAT_OPTIONAL}, {"Y_c", FLOAT_OPTIONAL}),
    .attrs = ATTRIBUTES(RNN_ATTRS, {"input_forget", ATTR_INT}, {"layout", ATTR_INT}),
    RNN_COMMON,
    .lower = lower_rnn,
    .lowering = "MatMul of all steps, a Scan of MatMul and gates, or that for each step",
};

const OpSchema op_GRU = {
    .name = "GRU",
    .summary = "Gated recurrent unit (ONNX 22)",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS(RNN_INPUTS),
    .outputs = OPERANDS({"Y", FLOAT_OPTIONAL}, {"Y_h", FLOAT_OPTIONAL}),
    .attrs = ATTRIBUTES(RNN_ATTRS, {"layout", ATTR_INT}, {"linear_before_reset", ATTR_INT}),
    RNN_COMMON,
    .lower = lower_rnn,
    .lowering = "MatMul of all steps, a Scan of MatMul and gates, or that for each step",
};

const OpSchema op_RNN = {
    .name = "RNN",
    .summary = "Recurrent layer of one gate (ONNX 22)",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS(RNN_INPUTS),
    .outputs = OPERANDS({"Y", FLOAT_OPTIONAL}, {"Y_h", FLOAT_OPTIONAL}),
    .attrs = ATTRIBUTES(RNN_ATTRS, {"layout", ATTR_INT}),
    RNN_COMMON,
    .lower = lower_rnn,
    .lowering = "MatMul of all steps, a Scan of MatMul and an activation, or that for each step",
};

#define BYTE (TS(TN_I8) | TS(TN_U8))

const OpSchema op_ms_DynamicQuantizeLSTM = {
    .domain = "com.microsoft",
    .name = "DynamicQuantizeLSTM",
    .kind = OP_ATOMIC,
    .summary = "LSTM with 8-bit weights; what they are multiplied by is quantised as it comes (ONNX Runtime 1)",
    .inputs = OPERANDS(
        {"X", TS(TN_F32), 'T'}, {"W", BYTE, 'Q'}, {"R", BYTE, 'Q'}, {"B", TS(TN_F32), 'T', OPERAND_OPTIONAL},
        {"sequence_lens", TS(TN_I32), 0, OPERAND_OPTIONAL}, {"initial_h", TS(TN_F32), 'T', OPERAND_OPTIONAL},
        {"initial_c", TS(TN_F32), 'T', OPERAND_OPTIONAL}, {"P", TS(TN_F32), 'T', OPERAND_OPTIONAL},
        {"W_scale", TS(TN_F32)}, {"W_zero_point", BYTE, 'Q'}, {"R_scale", TS(TN_F32)}, {"R_zero_point", BYTE, 'Q'}),
    .outputs = OPERANDS({"Y", TS(TN_F32), 'T', OPERAND_OPTIONAL}, {"Y_h", TS(TN_F32), 'T', OPERAND_OPTIONAL},
                        {"Y_c", TS(TN_F32), 'T', OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES(RNN_ATTRS, {"input_forget", ATTR_INT}),
    RNN_COMMON,
};
