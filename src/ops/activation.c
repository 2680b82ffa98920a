/* SPDX-License-Identifier: Apache-2.0 */
/* The activations that recurrent and fused ops name in an attribute. */
#include <strings.h>

#include "ops/lower_int.h"
#include "ops/nn_int.h"

static const struct {
    const char *name;
    Activation activation;
} activations[] = {
    {"Relu", {ACT_RELU, 0, 0}},
    {"Tanh", {ACT_TANH, 0, 0}},
    {"Sigmoid", {ACT_SIGMOID, 0, 0}},
    {"Affine", {ACT_AFFINE, 1, 0}},
    {"LeakyRelu", {ACT_LEAKY_RELU, 0.01f, 0}},
    {"ThresholdedRelu", {ACT_THRESHOLDED_RELU, 1, 0}},
    {"ScaledTanh", {ACT_SCALED_TANH, 1, 1}},
    {"HardSigmoid", {ACT_HARD_SIGMOID, 0.2f, 0.5f}},
    {"Elu", {ACT_ELU, 1, 0}},
    {"Softsign", {ACT_SOFTSIGN, 0, 0}},
    {"Softplus", {ACT_SOFTPLUS, 0, 0}},
    {"Clip", {ACT_CLIP, -HUGE_VAL, HUGE_VAL}},
};

tn_status activation_named(Str name, Activation *out) {
    *out = (Activation){.kind = ACT_NONE};
    if (name.n == 0) return TN_OK;
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        const char *known = activations[i].name;
        if (strlen(known) != name.n || strncasecmp(known, name.s, name.n) != 0) continue;
        *out = activations[i].activation;
        return TN_OK;
    }
    return fail(TN_INVALID_MODEL, "there is no activation \"%.*s\"", (int)name.n, name.s);
}

static Value *below_zero(LowerCtx *c, Value *x, Value *then) {
    return LOWER(c, "Where", LOWER(c, "Less", x, lower_number(c, lower_dtype(x), 0)), then, x);
}

Value *lower_activation(LowerCtx *c, const Activation *act, Value *x) {
    if (c->status != TN_OK) return NULL;
    Value *a = lower_number(c, lower_dtype(x), act->alpha), *b = lower_number(c, lower_dtype(x), act->beta);
    Value *one = lower_number(c, lower_dtype(x), 1), *zero = lower_number(c, lower_dtype(x), 0);
    switch (act->kind) {
    case ACT_NONE: return x;
    case ACT_RELU: return LOWER(c, "Max", x, zero);
    case ACT_TANH: return LOWER(c, "Tanh", x);
    case ACT_SIGMOID: return LOWER(c, "Sigmoid", x);
    case ACT_AFFINE: return LOWER(c, "Add", LOWER(c, "Mul", a, x), b);
    case ACT_LEAKY_RELU: return below_zero(c, x, LOWER(c, "Mul", a, x));
    case ACT_THRESHOLDED_RELU:
        return LOWER(c, "Where", LOWER(c, "Or", LOWER(c, "Greater", x, a), LOWER(c, "Equal", x, a)), x, zero);
    case ACT_SCALED_TANH: return LOWER(c, "Mul", a, LOWER(c, "Tanh", LOWER(c, "Mul", b, x)));
    case ACT_HARD_SIGMOID:
        return LOWER(c, "Min", LOWER(c, "Max", LOWER(c, "Add", LOWER(c, "Mul", a, x), b), zero), one);
    case ACT_ELU: return below_zero(c, x, LOWER(c, "Mul", a, LOWER(c, "Sub", LOWER(c, "Exp", x), one)));
    case ACT_SOFTSIGN: return LOWER(c, "Softsign", x);
    case ACT_SOFTPLUS: return LOWER(c, "Softplus", x);
    case ACT_CLIP: return LOWER(c, "Min", LOWER(c, "Max", x, a), b);
    }
    return NULL;
}

#include <tgmath.h>

#define BODY "ops/activation_body.h"
#include "ops/each_float_int.h"
