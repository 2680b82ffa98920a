/* SPDX-License-Identifier: Apache-2.0 */
/* LinearClassifier and LinearRegressor (ONNX ML 1): scores that are weighted sums of features. */
#include "ops/ml_int.h"

/* score[t] = intercepts[t] + coefficients[t] . x */
static void score_row(const float *x, int64_t width, FloatList coefficients, FloatList intercepts, int64_t targets,
                      float *scores) {
    for (int64_t t = 0; t < targets; t++) {
        double sum = t < intercepts.n ? (double)intercepts.data[t] : 0;
        for (int64_t k = 0; k < width; k++) sum += (double)x[k] * (double)coefficients.data[t * width + k];
        scores[t] = (float)sum;
    }
}

static tn_status check_sizes(int64_t coefficients, int64_t targets, int64_t width) {
    int64_t want;
    if (!mul_overflows(targets, width, &want) && want == coefficients) return TN_OK;
    return fail(TN_INVALID_MODEL, "%lld coefficients for %lld targets and %lld features", (long long)coefficients,
                (long long)targets, (long long)width);
}

/* ---- classifier ---------------------------------------------------------------------------------------------- */

typedef struct Classifier {
    PostTransform post;
    Labels labels;
    FloatList coefficients, intercepts;
    int64_t targets; /* 0: it takes the number of features to tell */
    bool second;     /* one score for two classes */
} Classifier;

/* `width`: features; negative where they are not known. */
static tn_status read_classifier(const Node *node, int64_t width, Classifier *m) {
    *m = (Classifier){.coefficients = attr_float_list(node, "coefficients"),
                      .intercepts = attr_float_list(node, "intercepts")};
    TRY(read_post_transform(node, &m->post));
    TRY(read_labels(node, "classlabels_ints", "classlabels_strings", &m->labels));
    m->targets = m->intercepts.n ? m->intercepts.n : width > 0 ? m->coefficients.n / width : 0;
    if (width >= 0) TRY(check_sizes(m->coefficients.n, m->targets, width));
    if (width == 0 && !m->targets) return fail(TN_SHAPE, "without features and intercepts there are no scores");
    m->second = m->targets == 1 && m->labels.n == 2;
    if (m->targets > 1 && m->labels.n < m->targets)
        return fail(TN_INVALID_MODEL, "%lld class labels for %lld scores", (long long)m->labels.n,
                    (long long)m->targets);
    return TN_OK;
}

static tn_status classifier_infer(InferCtx *c) {
    Classifier m;
    int rank = in_shape(c, 0)->rank;
    TRY(want_rows(c, 0));
    Dim width = rank > 0 ? in_dim(c, 0, rank - 1) : DIM_UNKNOWN;
    TRY(read_classifier(c->node, dim_is_const(width) ? width : -1, &m));
    Shape y = {.rank = 1, .dims = {rows_of(c, 0)}};
    Shape z = {.rank = 2, .dims = {y.dims[0], m.second ? 2 : m.targets ? m.targets : DIM_UNKNOWN}};
    set_type(c, 0, labels_dtype(&m.labels), &y);
    set_type(c, 1, TN_F32, &z);
    return TN_OK;
}

static tn_status put_class(KernelCtx *c, const Classifier *m, int64_t row, const float *scores) {
    if (m->targets == 1 && m->labels.n == 2) return put_label(c, 0, row, &m->labels, scores[0] > 0);
    if (m->targets == 1) return put_default_label(c, 0, row, &m->labels, scores[0] > 0);
    int64_t best = 0;
    for (int64_t t = 1; t < m->targets; t++)
        if (scores[t] > scores[best]) best = t;
    return put_label(c, 0, row, &m->labels, best);
}

static tn_status classifier_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    int64_t width = row_width(x), n;
    const float *in;
    float *z = NULL;
    Classifier m;
    TRY(read_classifier(c->node, width, &m));
    TRY(dense_f32(c, 0, &in));
    if (kernel_wants(c, 1)) TRY(result_f32(c, 1, &z));
    float *scores = kernel_scratch(c, float, (size_t)m.targets + 2);
    if (!scores) return TN_OUT_OF_MEMORY;
    n = m.second ? 2 : m.targets;
    for (int64_t row = 0; row < row_count(x); row++) {
        score_row(in + row * width, width, m.coefficients, m.intercepts, m.targets, scores);
        if (kernel_wants(c, 0)) TRY(put_class(c, &m, row, scores));
        transform_scores(m.post, m.second ? SECOND_COMPLEMENT : SECOND_NONE, scores, m.targets);
        if (z) memcpy(z + row * n, scores, (size_t)n * sizeof *z);
    }
    return TN_OK;
}

/* ---- regressor ----------------------------------------------------------------------------------------------- */

static tn_status regressor_infer(InferCtx *c) {
    PostTransform post;
    int64_t targets = attr_int(c->node, "targets"), n = attr_float_list(c->node, "intercepts").n;
    int rank = in_shape(c, 0)->rank;
    TRY(read_post_transform(c->node, &post));
    TRY(want_rows(c, 0));
    if (targets < 1 || (n && n != targets))
        return fail(TN_INVALID_MODEL, "%lld targets, %lld intercepts", (long long)targets, (long long)n);
    Dim width = rank > 0 ? in_dim(c, 0, rank - 1) : DIM_UNKNOWN;
    if (dim_is_const(width)) TRY(check_sizes(attr_float_list(c->node, "coefficients").n, targets, width));
    Shape y = {.rank = 2, .dims = {rows_of(c, 0), targets}};
    set_type(c, 0, TN_F32, &y);
    return TN_OK;
}

static tn_status regressor_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    int64_t width = row_width(x), targets = attr_int(c->node, "targets");
    PostTransform post;
    const float *in;
    float *y;
    TRY(read_post_transform(c->node, &post));
    TRY(dense_f32(c, 0, &in));
    TRY(result_f32(c, 0, &y));
    for (int64_t row = 0; row < row_count(x); row++) {
        score_row(in + row * width, width, attr_float_list(c->node, "coefficients"),
                  attr_float_list(c->node, "intercepts"), targets, y + row * targets);
        transform_scores(post, SECOND_NONE, y + row * targets, targets);
    }
    return TN_OK;
}

const OpSchema op_ml_LinearClassifier = {
    .domain = "ai.onnx.ml",
    .name = "LinearClassifier",
    .summary = "Classes by weighted sums (ONNX ML 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", ML_NUMBERS}),
    .outputs = OPERANDS({"Y", TS(TN_STRING) | TS(TN_I64)}, {"Z", TS(TN_F32), 0, OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"classlabels_ints", ATTR_INTS}, {"classlabels_strings", ATTR_STRINGS},
                        {"coefficients", ATTR_FLOATS, ATTR_REQUIRED}, {"intercepts", ATTR_FLOATS},
                        {"multi_class", ATTR_INT}, {"post_transform", ATTR_STRING, .s = "NONE"}),
    .infer = classifier_infer,
    .reference = classifier_reference,
};

const OpSchema op_ml_LinearRegressor = {
    .domain = "ai.onnx.ml",
    .name = "LinearRegressor",
    .summary = "Weighted sums of features (ONNX ML 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", ML_NUMBERS}),
    .outputs = OPERANDS({"Y", TS(TN_F32)}),
    .attrs = ATTRIBUTES({"coefficients", ATTR_FLOATS}, {"intercepts", ATTR_FLOATS},
                        {"post_transform", ATTR_STRING, .s = "NONE"}, {"targets", ATTR_INT, .i = 1}),
    .infer = regressor_infer,
    .reference = regressor_reference,
};
