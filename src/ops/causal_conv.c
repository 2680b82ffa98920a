/* SPDX-License-Identifier: Apache-2.0 */
/* CausalConvWithState (ONNX 27): each channel convolved with its own kernel over past positions, which a state keeps
   from call to call. */
#include "ops/nn_int.h"

enum { IN_X, IN_W, IN_BIAS, IN_STATE };
enum { OUT_Y, OUT_STATE };

static tn_status read_activation(const Node *node, bool *silu) {
    *silu = attr_string_is(node, "activation", "silu") || attr_string_is(node, "activation", "swish");
    Str s = attr_string(node, "activation");
    if (*silu || str_equal(s, STR("none"))) return TN_OK;
    return fail(TN_INVALID_MODEL, "activation is \"%.*s\"; silu, swish or none is wanted", (int)s.n, s.s);
}

static tn_status causal_conv_infer(InferCtx *c) {
    bool silu;
    Dim batch = in_dim(c, IN_X, 0), channels = in_dim(c, IN_X, 1), taps = in_dim(c, IN_W, 2), same;
    TRY(read_activation(c->node, &silu));
    TRY(want_rank(c, IN_X, 3));
    TRY(want_rank(c, IN_W, 3));
    TRY(dims_must_match(in_dim(c, IN_W, 0), channels, "channels of the input and the weights", &channels));
    TRY(dims_must_match(in_dim(c, IN_W, 1), 1, "the middle size of the weights and 1", &same));
    TRY(want_vector(c, IN_BIAS, channels, false));
    if (dim_is_const(taps) && taps < 1) return fail(TN_SHAPE, "the kernel is empty");
    Shape state = {.rank = 3, .dims = {batch, channels, dim_sub(c->dims, taps, 1)}};
    if (has_input(c, IN_STATE)) {
        TRY(want_rank(c, IN_STATE, 3));
        for (int d = 0; d < 3; d++)
            TRY(dims_must_match(in_dim(c, IN_STATE, d), state.dims[d], "sizes of past_state", &state.dims[d]));
    }
    Shape y = {.rank = 3, .dims = {batch, channels, in_dim(c, IN_X, 2)}};
    set_shape(c, OUT_Y, &y);
    if (c->n_out > OUT_STATE) set_shape(c, OUT_STATE, &state);
    return TN_OK;
}

typedef struct Job {
    const double *x, *w, *bias, *past; /* bias and past: may be NULL */
    double *y, *state, *lines; /* state: NULL where nobody wants it; lines: [batch, channels, taps - 1 + length] */
    int64_t channels, taps, length;
    bool silu;
} Job;

static void run_lines(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    int64_t kept = job->taps - 1, n = job->length;
    for (int64_t k = begin; k < end; k++) {
        double *line = job->lines + k * (kept + n), *y = job->y + k * n;
        const double *w = job->w + k % job->channels * job->taps;
        for (int64_t i = 0; i < kept; i++) line[i] = job->past ? job->past[k * kept + i] : 0;
        for (int64_t i = 0; i < n; i++) line[kept + i] = job->x[k * n + i];
        for (int64_t t = 0; t < n; t++) {
            double v = job->bias ? job->bias[k % job->channels] : 0;
            for (int64_t j = 0; j < job->taps; j++) v += w[j] * line[t + j];
            y[t] = job->silu ? v / (1 + exp(-v)) : v;
        }
        for (int64_t i = 0; job->state && i < kept; i++) job->state[k * kept + i] = line[n + i];
    }
}

static tn_status causal_conv_reference(KernelCtx *c) {
    const Tensor *x = c->in[IN_X];
    Job job = {.channels = x->dims[1], .taps = c->in[IN_W]->dims[2], .length = x->dims[2]};
    int64_t lines = x->dims[0] * x->dims[1];
    if (job.taps < 1) return fail(TN_SHAPE, "the kernel is empty");
    TRY(read_activation(c->node, &job.silu));
    TRY(dense_f64(c, IN_X, &job.x));
    TRY(dense_f64(c, IN_W, &job.w));
    if (kernel_has_input(c, IN_BIAS)) TRY(dense_f64(c, IN_BIAS, &job.bias));
    if (kernel_has_input(c, IN_STATE)) TRY(dense_f64(c, IN_STATE, &job.past));
    TRY(result_f64(c, OUT_Y, &job.y));
    if (kernel_wants(c, OUT_STATE)) TRY(result_f64(c, OUT_STATE, &job.state));
    int64_t n;
    if (mul_overflows(lines, job.taps - 1 + job.length, &n)) return fail(TN_LIMIT, "the sequences are too long");
    job.lines = kernel_scratch(c, double, (size_t)max_i64(n, 1));
    if (!job.lines) return TN_OUT_OF_MEMORY;
    TRY(kernel_parallel(c, lines, (double)(job.length * job.taps) + 20, run_lines, &job));
    result_f64_done(c, OUT_Y, job.y);
    if (job.state) result_f64_done(c, OUT_STATE, job.state);
    return TN_OK;
}

#define FLOATS (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))

const OpSchema op_CausalConvWithState = {
    .name = "CausalConvWithState",
    .summary = "Convolution over past positions, kept in a state (ONNX 27)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"input", FLOATS, 'T'}, {"weight", FLOATS, 'T'}, {"bias", FLOATS, 'T', OPERAND_OPTIONAL},
                       {"past_state", FLOATS, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", FLOATS, 'T'}, {"present_state", FLOATS, 'T', OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"activation", ATTR_STRING, .s = "none"}),
    .infer = causal_conv_infer,
    .reference = causal_conv_reference,
};
