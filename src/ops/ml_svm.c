/* SPDX-License-Identifier: Apache-2.0 */
/* SVMClassifier and SVMRegressor (ONNX ML 1): scores by similarity to support vectors, as libsvm has them, or linear
   where there are no vectors. */
#include "ops/ml_int.h"

/* ---- similarity ---------------------------------------------------------------------------------------------- */

typedef enum KernelType { KERNEL_LINEAR, KERNEL_POLY, KERNEL_RBF, KERNEL_SIGMOID } KernelType;

typedef struct Similarity {
    KernelType type;
    float gamma, coef0, degree;
    int64_t width; /* features */
} Similarity;

static tn_status read_similarity(const Node *node, Similarity *s) {
    static const char *const names[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
    FloatList params = attr_float_list(node, "kernel_params");
    Str name = attr_string(node, "kernel_type");
    *s = (Similarity){0};
    int i = 0;
    while (i < 4 && !str_equal(name, str_of(names[i]))) i++;
    if (i == 4)
        return fail(TN_INVALID_MODEL, "kernel_type is \"%.*s\"; LINEAR, POLY, RBF or SIGMOID is wanted", (int)name.n,
                    name.s);
    if (params.n && params.n < 3)
        return fail(TN_INVALID_MODEL, "kernel_params has %lld values; 3 are wanted", (long long)params.n);
    s->type = (KernelType)i;
    if (params.n) s->gamma = params.data[0], s->coef0 = params.data[1], s->degree = params.data[2];
    return TN_OK;
}

static float similarity(const Similarity *s, const float *a, const float *b) {
    double sum = 0;
    for (int64_t k = 0; k < s->width; k++) {
        double d = (double)a[k] - (double)b[k];
        sum += s->type == KERNEL_RBF ? d * d : (double)a[k] * (double)b[k];
    }
    switch (s->type) {
    case KERNEL_LINEAR: return (float)sum;
    case KERNEL_POLY: return (float)pow((double)s->gamma * sum + (double)s->coef0, (double)s->degree);
    case KERNEL_RBF: return (float)exp(-(double)s->gamma * sum);
    case KERNEL_SIGMOID: return (float)tanh((double)s->gamma * sum + (double)s->coef0);
    }
    return 0;
}

/* ---- classifier: the model ----------------------------------------------------------------------------------- */

typedef struct Machine {
    Similarity similarity;
    PostTransform post;
    Labels labels;
    FloatList vectors, coefficients, rho, prob_a, prob_b;
    IntList per_class;
    int64_t n_vectors, classes, pairs; /* n_vectors 0: linear */
    bool all_positive;                 /* coefficients */
    int64_t scores;                    /* columns of the second result */
} Machine;

static tn_status count_vectors(Machine *m) {
    for (size_t i = 0; i < m->per_class.n; i++)
        if (m->per_class.data[i] < 0 || add_overflows(m->n_vectors, m->per_class.data[i], &m->n_vectors))
            return fail(TN_INVALID_MODEL, "vectors_per_class has the value %lld", (long long)m->per_class.data[i]);
    if (m->n_vectors == 0) return TN_OK;
    if ((int64_t)m->per_class.n != m->classes || m->classes < 2)
        return fail(TN_INVALID_MODEL, "%zu vectors_per_class for %lld classes", m->per_class.n, (long long)m->classes);
    if (m->coefficients.n / m->n_vectors < m->classes - 1 || m->rho.n < m->pairs)
        return fail(TN_INVALID_MODEL, "%lld coefficients and %lld of rho for %lld vectors of %lld classes",
                    (long long)m->coefficients.n, (long long)m->rho.n, (long long)m->n_vectors, (long long)m->classes);
    return TN_OK;
}

static tn_status read_machine(const Node *node, Machine *m) {
    *m = (Machine){.vectors = attr_float_list(node, "support_vectors"),
                   .rho = attr_float_list(node, "rho"),
                   .coefficients = attr_float_list(node, "coefficients"),
                   .prob_a = attr_float_list(node, "prob_a"),
                   .prob_b = attr_float_list(node, "prob_b"),
                   .per_class = attr_ints(node, "vectors_per_class"),
                   .all_positive = true};
    TRY(read_similarity(node, &m->similarity));
    TRY(read_post_transform(node, &m->post));
    TRY(read_labels(node, "classlabels_ints", "classlabels_strings", &m->labels));
    m->classes = m->labels.n;
    if (m->classes > 65535) return fail(TN_LIMIT, "%lld classes, more than 65535", (long long)m->classes);
    m->pairs = m->classes * (m->classes - 1) / 2;
    TRY(count_vectors(m));
    if (m->prob_a.n != m->prob_b.n || (m->prob_a.n && m->prob_a.n < m->pairs) || m->rho.n < 1)
        return fail(TN_INVALID_MODEL, "prob_a has %lld values, prob_b %lld, rho %lld, for %lld pairs of classes",
                    (long long)m->prob_a.n, (long long)m->prob_b.n, (long long)m->rho.n, (long long)m->pairs);
    for (int64_t i = 0; i < m->coefficients.n; i++) m->all_positive = m->all_positive && m->coefficients.data[i] >= 0;
    bool linear = m->n_vectors == 0;
    if (linear) m->similarity.type = KERNEL_LINEAR;
    m->similarity.width = linear ? m->coefficients.n / m->classes : m->vectors.n / m->n_vectors;
    m->scores = linear || m->prob_a.n || m->classes == 2 ? m->classes : m->pairs;
    return TN_OK;
}

static tn_status svm_classifier_infer(InferCtx *c) {
    Machine m;
    int rank = in_shape(c, 0)->rank;
    Dim same;
    TRY(want_rows(c, 0));
    TRY(read_machine(c->node, &m));
    if (rank > 0)
        TRY(dims_must_match(in_dim(c, 0, rank - 1), m.similarity.width, "features of X and the model", &same));
    Shape y = {.rank = 1, .dims = {rows_of(c, 0)}}, z = {.rank = 2, .dims = {y.dims[0], m.scores}};
    set_type(c, 0, labels_dtype(&m.labels), &y);
    set_type(c, 1, TN_F32, &z);
    return TN_OK;
}

/* ---- classifier: scores -------------------------------------------------------------------------------------- */

typedef struct Row {
    float *kernels, *scores; /* of each vector; of each pair of classes, or each class */
    float *pairwise, *p;     /* probabilities: [classes, classes], [classes] */
    float *q, *qp;           /* scratch of coupling, the same sizes */
    int64_t *votes;
} Row;

/* Each pair of classes has a machine of its own: coefficients lie in classes - 1 rows of n_vectors. */
static void score_pairs(const Machine *m, Row *r) {
    int64_t start_i = 0, pair = 0;
    for (int64_t i = 0; i < m->classes; i++) r->votes[i] = 0;
    for (int64_t i = 0; i < m->classes; start_i += m->per_class.data[i++]) {
        int64_t start_j = start_i + m->per_class.data[i];
        for (int64_t j = i + 1; j < m->classes; start_j += m->per_class.data[j++]) {
            const float *a = m->coefficients.data + (j - 1) * m->n_vectors,
                        *b = m->coefficients.data + i * m->n_vectors;
            double sum = (double)m->rho.data[pair];
            for (int64_t k = start_i; k < start_i + m->per_class.data[i]; k++)
                sum += (double)a[k] * (double)r->kernels[k];
            for (int64_t k = start_j; k < start_j + m->per_class.data[j]; k++)
                sum += (double)b[k] * (double)r->kernels[k];
            r->scores[pair++] = (float)sum;
            r->votes[sum > 0 ? i : j]++;
        }
    }
}

/* Probabilities of classes out of those of pairs (Wu, Lin and Weng 2004): minimises the disagreement by iteration. */
static void couple(int64_t n, const float *pairwise, float *q, float *qp, float *p) {
    float enough = 0.005f / (float)n;
    for (int64_t i = 0; i < n; i++) {
        p[i] = 1 / (float)n;
        q[i * n + i] = 0;
        for (int64_t j = 0; j < n; j++) {
            if (i == j) continue;
            q[i * n + i] += pairwise[j * n + i] * pairwise[j * n + i];
            q[i * n + j] = -pairwise[j * n + i] * pairwise[i * n + j];
        }
    }
    for (int round = 0; round < 100; round++) {
        float total = 0, worst = 0;
        for (int64_t i = 0; i < n; i++) {
            qp[i] = 0;
            for (int64_t j = 0; j < n; j++) qp[i] += q[i * n + j] * p[j];
            total += p[i] * qp[i];
        }
        for (int64_t i = 0; i < n; i++) worst = fmaxf(worst, fabsf(qp[i] - total));
        if (worst < enough) return;
        for (int64_t i = 0; i < n; i++) {
            float diff = (total - qp[i]) / q[i * n + i];
            p[i] += diff;
            total = (total + diff * (diff * q[i * n + i] + 2 * qp[i])) / (1 + diff) / (1 + diff);
            for (int64_t j = 0; j < n; j++) {
                qp[j] = (qp[j] + diff * q[i * n + j]) / (1 + diff);
                p[j] /= 1 + diff;
            }
        }
    }
}

static void pair_probabilities(const Machine *m, Row *r) {
    int64_t n = m->classes, pair = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++, pair++) {
            float v = 1 / (1 + expf(r->scores[pair] * m->prob_a.data[pair] + m->prob_b.data[pair]));
            v = fminf(fmaxf(v, 1e-7f), 1 - 1e-7f);
            r->pairwise[i * n + j] = v;
            r->pairwise[j * n + i] = 1 - v;
        }
    }
    couple(n, r->pairwise, r->q, r->qp, r->p);
    memcpy(r->scores, r->p, (size_t)n * sizeof *r->scores);
}

static int64_t best_score(const float *scores, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (scores[i] > scores[best]) best = i;
    return best;
}

/* Which class: that with the most votes. Two classes without vectors: by the sign of the larger score. */
static int64_t choose_class(const Machine *m, const Row *r) {
    int64_t best = 0;
    if (m->n_vectors) {
        for (int64_t i = 1; i < m->classes; i++)
            if (r->votes[i] > r->votes[best]) best = i;
        return best;
    }
    best = best_score(r->scores, m->classes);
    if (m->classes != 2 || m->prob_a.n) return best;
    return r->scores[best] > 0 && (!m->all_positive || r->scores[best] >= 0.5f) ? 1 : best;
}

static void score_row(const Machine *m, const float *x, Row *r) {
    const FloatList vectors = m->n_vectors ? m->vectors : m->coefficients;
    float *to = m->n_vectors ? r->kernels : r->scores;
    for (int64_t v = 0; v < (m->n_vectors ? m->n_vectors : m->classes); v++)
        to[v] = similarity(&m->similarity, x, vectors.data + v * m->similarity.width) +
                (m->n_vectors ? 0 : m->rho.data[0]);
    if (!m->n_vectors) return;
    score_pairs(m, r);
    if (m->prob_a.n) pair_probabilities(m, r);
}

static tn_status make_row(KernelCtx *c, const Machine *m, Row *r) {
    size_t n = (size_t)m->classes, square = m->n_vectors && m->prob_a.n ? n * n : 1;
    int64_t scores = m->n_vectors ? max_i64(m->pairs, m->classes) : m->classes;
    *r = (Row){.kernels = kernel_scratch(c, float, (size_t)m->n_vectors + 1),
               .scores = kernel_scratch(c, float, (size_t)scores + 2),
               .pairwise = kernel_scratch(c, float, square),
               .p = kernel_scratch(c, float, n),
               .q = kernel_scratch(c, float, square),
               .qp = kernel_scratch(c, float, n),
               .votes = kernel_scratch(c, int64_t, n)};
    return r->kernels && r->scores && r->pairwise && r->p && r->q && r->qp && r->votes ? TN_OK : TN_OUT_OF_MEMORY;
}

static tn_status svm_classifier_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    const float *in;
    float *z = NULL;
    Machine m;
    Row r;
    TRY(read_machine(c->node, &m));
    TRY(make_row(c, &m, &r));
    TRY(dense_f32(c, 0, &in));
    if (kernel_wants(c, 1)) TRY(result_f32(c, 1, &z));
    bool single = m.n_vectors && !m.prob_a.n && m.classes == 2;
    SecondScore second = !single ? SECOND_NONE : m.post == POST_NONE ? SECOND_OPPOSITE : SECOND_COMPLEMENT;
    for (int64_t row = 0; row < row_count(x); row++) {
        TRY(kernel_poll(c));
        score_row(&m, in + row * m.similarity.width, &r);
        if (kernel_wants(c, 0)) TRY(put_label(c, 0, row, &m.labels, choose_class(&m, &r)));
        transform_scores(m.post, second, r.scores, single ? 1 : m.scores);
        if (z) memcpy(z + row * m.scores, r.scores, (size_t)m.scores * sizeof *z);
    }
    return TN_OK;
}

/* ---- regressor ----------------------------------------------------------------------------------------------- */

static tn_status read_regressor(const Node *node, Machine *m) {
    *m = (Machine){.vectors = attr_float_list(node, "support_vectors"),
                   .rho = attr_float_list(node, "rho"),
                   .coefficients = attr_float_list(node, "coefficients"),
                   .n_vectors = attr_int(node, "n_supports")};
    TRY(read_similarity(node, &m->similarity));
    TRY(read_post_transform(node, &m->post));
    if (m->rho.n < 1 || m->n_vectors < 0 || (m->n_vectors && m->coefficients.n < m->n_vectors))
        return fail(TN_INVALID_MODEL, "%lld of rho, %lld coefficients, %lld support vectors", (long long)m->rho.n,
                    (long long)m->coefficients.n, (long long)m->n_vectors);
    if (!m->n_vectors) m->similarity.type = KERNEL_LINEAR;
    m->similarity.width = m->n_vectors ? m->vectors.n / m->n_vectors : m->coefficients.n;
    return TN_OK;
}

static tn_status svm_regressor_infer(InferCtx *c) {
    Machine m;
    int rank = in_shape(c, 0)->rank;
    Dim same;
    TRY(want_rows(c, 0));
    TRY(read_regressor(c->node, &m));
    if (rank > 0)
        TRY(dims_must_match(in_dim(c, 0, rank - 1), m.similarity.width, "features of X and the model", &same));
    Shape y = {.rank = 2, .dims = {rows_of(c, 0), 1}};
    set_type(c, 0, TN_F32, &y);
    return TN_OK;
}

static tn_status svm_regressor_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    bool one_class = attr_int(c->node, "one_class") != 0;
    const float *in;
    float *y;
    Machine m;
    TRY(read_regressor(c->node, &m));
    TRY(dense_f32(c, 0, &in));
    TRY(result_f32(c, 0, &y));
    for (int64_t row = 0; row < row_count(x); row++) {
        const float *from = in + row * m.similarity.width;
        double sum = (double)m.rho.data[0];
        if (!m.n_vectors) sum += (double)similarity(&m.similarity, from, m.coefficients.data);
        for (int64_t v = 0; v < m.n_vectors; v++)
            sum += (double)m.coefficients.data[v] *
                   (double)similarity(&m.similarity, from, m.vectors.data + v * m.similarity.width);
        y[row] = one_class ? (sum > 0 ? 1 : -1) : (float)sum;
        if (!one_class) transform_scores(m.post, SECOND_NONE, y + row, 1);
    }
    return TN_OK;
}

#define KERNEL_ATTRS                                                                                            \
    {"coefficients", ATTR_FLOATS}, {"kernel_params", ATTR_FLOATS}, {"kernel_type", ATTR_STRING, .s = "LINEAR"}, \
        {"post_transform", ATTR_STRING, .s = "NONE"}, {"rho", ATTR_FLOATS}, {                                   \
        "support_vectors", ATTR_FLOATS                                                                          \
    }

const OpSchema op_ml_SVMClassifier = {
    .domain = "ai.onnx.ml",
    .name = "SVMClassifier",
    .summary = "Classes by support vectors (ONNX ML 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", ML_NUMBERS}),
    .outputs = OPERANDS({"Y", TS(TN_STRING) | TS(TN_I64)}, {"Z", TS(TN_F32), 0, OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"classlabels_ints", ATTR_INTS}, {"classlabels_strings", ATTR_STRINGS}, KERNEL_ATTRS,
                        {"prob_a", ATTR_FLOATS}, {"prob_b", ATTR_FLOATS}, {"vectors_per_class", ATTR_INTS}),
    .infer = svm_classifier_infer,
    .reference = svm_classifier_reference,
};

const OpSchema op_ml_SVMRegressor = {
    .domain = "ai.onnx.ml",
    .name = "SVMRegressor",
    .summary = "A value by support vectors (ONNX ML 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", ML_NUMBERS}),
    .outputs = OPERANDS({"Y", TS(TN_F32)}),
    .attrs = ATTRIBUTES(KERNEL_ATTRS, {"n_supports", ATTR_INT}, {"one_class", ATTR_INT}),
    .infer = svm_regressor_infer,
    .reference = svm_regressor_reference,
};
