/* SPDX-License-Identifier: Apache-2.0 */
/* The activations that recurrent and fused ops name in an attribute. */
#include <strings.h>

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

#include <tgmath.h>

#define BODY "ops/activation_body.h"
#include "ops/each_float_int.h"
