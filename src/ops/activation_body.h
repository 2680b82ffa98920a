/* SPDX-License-Identifier: Apache-2.0 */
/* Activations in place, for one float type. */

#define APPLY(expr)                   \
    for (int64_t i = 0; i < n; i++) { \
        T v = x[i];                   \
        x[i] = (expr);                \
    }                                 \
    break

void FN(activate)(const Activation *act, T *x, int64_t n) {
    const T a = (T)act->alpha, b = (T)act->beta;
    switch (act->kind) {
    case ACT_NONE: break;
    case ACT_RELU: APPLY(v < 0 ? 0 : v);
    case ACT_TANH: APPLY(tanh(v));
    case ACT_SIGMOID: APPLY(1 / (1 + exp(-v)));
    case ACT_AFFINE: APPLY(a * v + b);
    case ACT_LEAKY_RELU: APPLY(v < 0 ? a * v : v);
    case ACT_THRESHOLDED_RELU: APPLY(v >= a ? v : 0);
    case ACT_SCALED_TANH: APPLY(a * tanh(b * v));
    case ACT_HARD_SIGMOID: APPLY(a * v + b < 0 ? 0 : a * v + b > 1 ? 1 : a * v + b);
    case ACT_ELU: APPLY(v < 0 ? a * (exp(v) - 1) : v);
    case ACT_SOFTSIGN: APPLY(v / (1 + fabs(v)));
    case ACT_SOFTPLUS: APPLY(v > 0 ? v + log1p(exp(-v)) : log1p(exp(v)));
    case ACT_CLIP: APPLY(v < a ? a : v > b ? b : v);
    }
}

#undef APPLY
