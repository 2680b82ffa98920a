/* SPDX-License-Identifier: Apache-2.0 */
/* Adagrad, Adam, Momentum (ONNX training preview 1): one step of an optimiser, for any number of tensors. They differ
   in how many state tensors each has and in one element's arithmetic. */
#include "ops/nn_int.h"

enum { IN_RATE, IN_COUNT, IN_FIRST };

/* Inputs after rate and count: all tensors, then all gradients, then the states; results: the same less the gradients.
   */
typedef struct Step {
    double rate;
    int64_t count;
    double norm, norm_post, alpha, beta, epsilon, decay;
    bool nesterov;
} Step;

/* x[0]: the tensor, x[1]: its gradient, then states; y: the new tensor, the new states. */
typedef void (*StepFn)(const Step *s, const double *x, double *y);

static void adagrad(const Step *s, const double *x, double *y) {
    double rate = s->rate / (1 + (double)s->count * s->decay), gradient = s->norm * x[0] + x[1];
    y[1] = x[2] + gradient * gradient;
    y[0] = x[0] - rate * gradient / (sqrt(y[1]) + s->epsilon);
}

static void adam(const Step *s, const double *x, double *y) {
    double gradient = s->norm * x[0] + x[1], t = (double)s->count, rate = s->rate;
    y[1] = s->alpha * x[2] + (1 - s->alpha) * gradient;
    y[2] = s->beta * x[3] + (1 - s->beta) * gradient * gradient;
    if (s->count > 0) rate *= sqrt(1 - pow(s->beta, t)) / (1 - pow(s->alpha, t));
    y[0] = (1 - s->norm_post) * (x[0] - rate * y[1] / (sqrt(y[2]) + s->epsilon));
}

static void momentum(const Step *s, const double *x, double *y) {
    double gradient = s->norm * x[0] + x[1];
    y[1] = s->alpha * x[2] + (s->count > 0 ? s->beta : 1) * gradient;
    y[0] = x[0] - s->rate * (s->nesterov ? gradient + s->alpha * y[1] : y[1]);
}

static tn_status check_mode(const Node *node) {
    Str s = op_attr_spec(node->op, STR("mode")) ? attr_string(node, "mode") : STR("standard");
    if (str_equal(s, STR("standard")) || str_equal(s, STR("nesterov"))) return TN_OK;
    return fail(TN_INVALID_MODEL, "mode is \"%.*s\"; nesterov or standard is wanted", (int)s.n, s.s);
}

/* `kinds`: tensors that each optimised one comes with, itself included. */
static tn_status step_infer(InferCtx *c, int kinds) {
    int tensors = c->n_in - IN_FIRST, n = tensors / kinds;
    TRY(check_mode(c->node));
    if (tensors % kinds || c->n_out > n * (kinds - 1))
        return fail(TN_INVALID_MODEL, "%d tensors and %d results: %d and %d for each tensor are wanted", tensors,
                    c->n_out, kinds, kinds - 1);
    for (int i = 0; i < tensors; i++) {
        const Shape *a = in_shape(c, IN_FIRST + i % n), *b = in_shape(c, IN_FIRST + i);
        Dim same;
        if (a->rank < 0 || b->rank < 0) continue;
        if (a->rank != b->rank)
            return fail(TN_SHAPE, "a tensor of rank %d has a companion of rank %d", a->rank, b->rank);
        for (int d = 0; d < a->rank; d++)
            TRY(dims_must_match(a->dims[d], b->dims[d], "sizes of a tensor and its companions", &same));
    }
    for (int i = 0; i < c->n_out; i++) set_like(c, i, IN_FIRST + (i < n ? i : i + n));
    return TN_OK;
}

static double optional_float(const Node *node, const char *name) {
    return op_attr_spec(node->op, str_of(name)) ? attr_float(node, name) : 0;
}

static tn_status read_step(KernelCtx *c, Step *s) {
    const Node *node = c->node;
    int64_t n;
    const double *rate;
    if (tensor_count(c->in[IN_RATE]) != 1) return fail(TN_SHAPE, "the learning rate must have one element");
    TRY(dense_f64(c, IN_RATE, &rate));
    *s = (Step){.rate = *rate,
                .norm = optional_float(node, "norm_coefficient"),
                .norm_post = optional_float(node, "norm_coefficient_post"),
                .alpha = optional_float(node, "alpha"),
                .beta = optional_float(node, "beta"),
                .epsilon = optional_float(node, "epsilon"),
                .decay = optional_float(node, "decay_factor")};
    s->nesterov = op_attr_spec(node->op, STR("mode")) && attr_string_is(node, "mode", "nesterov");
    TRY(kernel_ints(c, IN_COUNT, &s->count, 1, &n));
    return n == 1 ? TN_OK : fail(TN_SHAPE, "the update count must have one element");
}

static tn_status run_step(KernelCtx *c, int kinds, StepFn fn) {
    int n = (c->n_in - IN_FIRST) / kinds;
    Step step;
    TRY(read_step(c, &step));
    for (int i = 0; i < n; i++) {
        const double *x[4];
        double *y[3], element[4], result[3];
        int64_t count = tensor_count(c->in[IN_FIRST + i]);
        for (int k = 0; k < kinds; k++) TRY(dense_f64(c, IN_FIRST + k * n + i, &x[k]));
        for (int k = 0; k + 1 < kinds; k++) {
            y[k] = NULL;
            if (kernel_wants(c, k * n + i)) TRY(result_f64(c, k * n + i, &y[k]));
        }
        for (int64_t j = 0; j < count; j++) {
            for (int k = 0; k < kinds; k++) element[k] = x[k][j];
            fn(&step, element, result);
            for (int k = 0; k + 1 < kinds; k++)
                if (y[k]) y[k][j] = result[k];
        }
        for (int k = 0; k + 1 < kinds; k++)
            if (y[k]) result_f64_done(c, k * n + i, y[k]);
    }
    return TN_OK;
}

#define OPTIMIZER(name, kinds)                                                  \
    static tn_status name##_infer(InferCtx *c) { return step_infer(c, kinds); } \
    static tn_status name##_reference(KernelCtx *c) { return run_step(c, kinds, name); }
OPTIMIZER(adagrad, 3)
OPTIMIZER(adam, 4)
OPTIMIZER(momentum, 3)

#define FLOATS (TS(TN_F32) | TS(TN_F64))
#define STEP_OPERANDS                                                                              \
    .inputs = OPERANDS({"R", FLOATS}, {"T", TS(TN_I64)}, {"inputs", FLOATS, 0, OPERAND_VARIADIC}), \
    .outputs = OPERANDS({"outputs", FLOATS, 0, OPERAND_VARIADIC})

const OpSchema op_training_Adagrad = {
    .domain = "ai.onnx.preview.training",
    .name = "Adagrad",
    .kind = OP_ATOMIC,
    .summary = "One step of Adagrad (ONNX training preview 1)",
    STEP_OPERANDS,
    .attrs = ATTRIBUTES({"decay_factor", ATTR_FLOAT}, {"epsilon", ATTR_FLOAT, .f = 1e-6f},
                        {"norm_coefficient", ATTR_FLOAT}),
    .infer = adagrad_infer,
    .reference = adagrad_reference,
};

const OpSchema op_training_Adam = {
    .domain = "ai.onnx.preview.training",
    .name = "Adam",
    .kind = OP_ATOMIC,
    .summary = "One step of Adam (ONNX training preview 1)",
    STEP_OPERANDS,
    .attrs = ATTRIBUTES({"alpha", ATTR_FLOAT, .f = 0.9f}, {"beta", ATTR_FLOAT, .f = 0.999f},
                        {"epsilon", ATTR_FLOAT, .f = 1e-6f}, {"norm_coefficient", ATTR_FLOAT},
                        {"norm_coefficient_post", ATTR_FLOAT}),
    .infer = adam_infer,
    .reference = adam_reference,
};

const OpSchema op_training_Momentum = {
    .domain = "ai.onnx.preview.training",
    .name = "Momentum",
    .kind = OP_ATOMIC,
    .summary = "One step of gradient descent with momentum (ONNX training preview 1)",
    STEP_OPERANDS,
    .attrs = ATTRIBUTES({"alpha", ATTR_FLOAT, ATTR_REQUIRED}, {"beta", ATTR_FLOAT, ATTR_REQUIRED},
                        {"mode", ATTR_STRING, ATTR_REQUIRED}, {"norm_coefficient", ATTR_FLOAT, ATTR_REQUIRED}),
    .infer = momentum_infer,
    .reference = momentum_reference,
};
