/* SPDX-License-Identifier: Apache-2.0 */
/* NegativeLogLikelihoodLoss (ONNX 22) and SoftmaxCrossEntropyLoss (ONNX 13): minus the log-probability of the class
   that each sample is labelled with. They differ in whether log-probabilities are given or made of scores. */
#include "ops/nn_int.h"

enum { IN_SCORES, IN_LABELS, IN_WEIGHT };
enum { OUT_LOSS, OUT_LOG_PROB };

typedef enum Reduction { REDUCE_NONE, REDUCE_SUM, REDUCE_MEAN } Reduction;

static tn_status read_reduction(const Node *node, Reduction *out) {
    static const char *const names[] = {"none", "sum", "mean"};
    for (int i = 0; i < 3; i++) {
        *out = (Reduction)i;
        if (attr_string_is(node, "reduction", names[i])) return TN_OK;
    }
    Str s = attr_string(node, "reduction");
    return fail(TN_INVALID_MODEL, "reduction is \"%.*s\"; none, sum or mean is wanted", (int)s.n, s.s);
}

static tn_status loss_infer(InferCtx *c) {
    const Shape *x = in_shape(c, IN_SCORES), *labels = in_shape(c, IN_LABELS);
    Reduction reduction;
    TRY(read_reduction(c->node, &reduction));
    Shape y = {.rank = 0};
    if (reduction == REDUCE_NONE) y = *labels;
    if (c->n_out > OUT_LOG_PROB) set_shape(c, OUT_LOG_PROB, x);
    if (x->rank >= 0) {
        if (x->rank < 2) return fail(TN_SHAPE, "the scores have %d dimensions; 2 or more are wanted", x->rank);
        TRY(want_rank(c, IN_LABELS, x->rank - 1));
        TRY(want_vector(c, IN_WEIGHT, x->dims[1], false));
        for (int d = 0; labels->rank >= 0 && d < labels->rank; d++) {
            Dim same;
            TRY(dims_must_match(labels->dims[d], x->dims[d ? d + 1 : 0], "sizes of scores and labels", &same));
            if (reduction == REDUCE_NONE) y.dims[d] = same;
        }
    }
    set_shape(c, OUT_LOSS, &y);
    return TN_OK;
}

typedef struct Sizes {
    int64_t batch, classes, inner;
} Sizes;

static Sizes read_sizes(const Tensor *x) {
    Sizes s = {.batch = x->dims[0], .classes = x->dims[1], .inner = 1};
    for (int d = 2; d < x->rank; d++) s.inner *= x->dims[d];
    return s;
}

static void log_softmax(const Sizes *s, const double *x, double *y) {
    for (int64_t k = 0; k < s->batch * s->inner; k++) {
        int64_t at = k / s->inner * s->classes * s->inner + k % s->inner;
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < s->classes; i++) top = fmax(top, x[at + i * s->inner]);
        for (int64_t i = 0; i < s->classes; i++) sum += exp(x[at + i * s->inner] - top);
        for (int64_t i = 0; i < s->classes; i++) y[at + i * s->inner] = x[at + i * s->inner] - top - log(sum);
    }
}

/* Ignored samples cost nothing and weigh nothing in the mean. */
static tn_status loss(KernelCtx *c, const Sizes *s, const double *log_prob) {
    Reduction reduction;
    const int64_t *labels;
    const double *weight = NULL;
    double *y, total = 0, total_weight = 0;
    bool ignores = attr_present(c->node, "ignore_index");
    int64_t ignored = attr_int(c->node, "ignore_index");
    TRY(read_reduction(c->node, &reduction));
    TRY(dense_i64(c, IN_LABELS, &labels));
    if (kernel_has_input(c, IN_WEIGHT)) TRY(dense_f64(c, IN_WEIGHT, &weight));
    TRY(result_f64(c, OUT_LOSS, &y));
    for (int64_t k = 0; k < s->batch * s->inner; k++) {
        double w = 0, v = 0;
        if (!ignores || labels[k] != ignored) {
            if (labels[k] < 0 || labels[k] >= s->classes)
                return fail(TN_OUT_OF_RANGE, "label %lld is none of %lld classes", (long long)labels[k],
                            (long long)s->classes);
            w = weight ? weight[labels[k]] : 1;
            v = -w * log_prob[(k / s->inner * s->classes + labels[k]) * s->inner + k % s->inner];
        }
        if (reduction == REDUCE_NONE) y[k] = v;
        total += v;
        total_weight += w;
    }
    if (reduction != REDUCE_NONE) y[0] = reduction == REDUCE_SUM ? total : total / total_weight;
    result_f64_done(c, OUT_LOSS, y);
    return TN_OK;
}

static tn_status nll_reference(KernelCtx *c) {
    Sizes s = read_sizes(c->in[IN_SCORES]);
    const double *x;
    TRY(dense_f64(c, IN_SCORES, &x));
    return loss(c, &s, x);
}

static tn_status cross_entropy_reference(KernelCtx *c) {
    Sizes s = read_sizes(c->in[IN_SCORES]);
    const double *x;
    double *y;
    bool wanted = kernel_wants(c, OUT_LOG_PROB);
    TRY(dense_f64(c, IN_SCORES, &x));
    if (wanted) {
        TRY(result_f64(c, OUT_LOG_PROB, &y));
    } else {
        y = kernel_scratch(c, double, (size_t)tensor_count(c->in[IN_SCORES]));
        if (!y) return TN_OUT_OF_MEMORY;
    }
    log_softmax(&s, x, y);
    TRY(loss(c, &s, y));
    if (wanted) result_f64_done(c, OUT_LOG_PROB, y);
    return TN_OK;
}

#define LABELS (TS(TN_I32) | TS(TN_I64))
#define ATTRS .attrs = ATTRIBUTES({"ignore_index", ATTR_INT}, {"reduction", ATTR_STRING, .s = "mean"})

const OpSchema op_NegativeLogLikelihoodLoss = {
    .name = "NegativeLogLikelihoodLoss",
    .kind = OP_ATOMIC,
    .summary = "Loss of labels, of log-probabilities (ONNX 22)",
    .inputs = OPERANDS({"input", TS_FLOAT, 'T'}, {"target", LABELS}, {"weight", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"loss", TS_FLOAT, 'T'}),
    ATTRS,
    .infer = loss_infer,
    .reference = nll_reference,
};

const OpSchema op_SoftmaxCrossEntropyLoss = {
    .name = "SoftmaxCrossEntropyLoss",
    .kind = OP_ATOMIC,
    .summary = "Loss of labels, of scores (ONNX 13)",
    .inputs = OPERANDS({"scores", TS_FLOAT, 'T'}, {"labels", LABELS}, {"weights", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_FLOAT, 'T'}, {"log_prob", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    ATTRS,
    .infer = loss_infer,
    .reference = cross_entropy_reference,
};
