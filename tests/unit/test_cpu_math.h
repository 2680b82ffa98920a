/* SPDX-License-Identifier: Apache-2.0 */
/* The vectorised functions of all levels against those of the C library in double: the largest error in units of the last
   place, and what it may be. */
#ifndef TEST_CPU_MATH_H
#define TEST_CPU_MATH_H

#include <math.h>

#include "test_ir_common.h"

#include "backends/cpu/body_op_int.h"

static inline double exact_sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static inline double exact_softplus(double x) { return log1p(exp(-fabs(x))) + (x > 0 ? x : 0); }
static inline double exact_gelu(double x) { return 0.5 * x * erfc(-x * M_SQRT1_2); }
static inline double exact_gelu_tanh(double x) {
    return x * exact_sigmoid(2 * 0.797884560802865355879892 * (x + 0.044715 * x * x * x));
}
static inline double exact_mish(double x) { return x * tanh(exact_softplus(x)); }
static inline double exact_elu(double x) { return x >= 0 ? x : expm1(x); }
static inline double exact_swish(double x) { return x * exact_sigmoid(x); }
static inline double exact_root(double x) { return pow(x, 0.5); }
static inline double exact_power(double x) { return pow(x, (double)1.7f); }

typedef struct MathCase {
    const char *name;
    BodyCode code;
    float p[2];
    double (*exact)(double x);
    double most;  /* units of the last place */
    double small; /* or an absolute error up to this */
} MathCase;

static const MathCase math_cases[] = {
    {"exp", BODY_EXP, {0}, exp, 1.2, 0},
    {"log", BODY_LOG, {0}, log, 1.1, 0},
    {"sigmoid", BODY_SIGMOID, {0}, exact_sigmoid, 3, 0},
    {"tanh", BODY_TANH, {0}, tanh, 8, 0},
    {"erf", BODY_ERF, {0}, erf, 2.7, 0},
    {"sin", BODY_SIN, {0}, sin, 1.7, 0},
    {"cos", BODY_COS, {0}, cos, 1.7, 0},
    {"pow 1.7", BODY_POW, {1.7f}, exact_power, 0.51, 0},
    {"pow 0.5", BODY_ROOT, {0}, exact_root, 0.51, 0},
    {"softplus", BODY_SOFTPLUS, {0}, exact_softplus, 4, 0},
    {"gelu", BODY_GELU, {0}, exact_gelu, 4, 1e-7},
    {"gelu by tanh", BODY_GELU_TANH, {0}, exact_gelu_tanh, 4, 1e-7},
    {"swish", BODY_SWISH, {1}, exact_swish, 4, 1e-37},
    {"mish", BODY_MISH, {0}, exact_mish, 5, 1e-37},
    {"elu", BODY_ELU, {1}, exact_elu, 3, 0},
};
enum { MATH_CASES = sizeof math_cases / sizeof *math_cases };

/* The distance of neighbouring floats around x. */
static inline double unit_of(double x) {
    uint64_t bits;
    if (fabs(x) < 0x1p-126) return 0x1p-149;
    memcpy(&bits, &x, sizeof bits);
    bits &= (uint64_t)0x7ff << 52; /* the power of two below it */
    memcpy(&x, &bits, sizeof x);
    return x * 0x1p-23;
}

typedef struct MathWorst {
    double units, absolute;
    float units_at, absolute_at;
    bool wrong; /* NaN or infinity at another place */
    float wrong_at;
} MathWorst;

static inline void math_note(const MathCase *c, float x, float y, double exact, MathWorst *worst) {
    double error = fabs((double)y - exact);
    if (isnan(exact) || isnan(y) || isinf((float)exact) || isinf(y)) {
        bool edge = fabs(exact) > 0x1.fffffep127 * (1 - 0x1p-24) && fabs((double)y) >= 0x1.fffffcp127;
        if ((isnan(exact) && isnan(y)) || (float)exact == y || edge) return;
        worst->wrong = true;
        worst->wrong_at = x;
        return;
    }
    if (error > worst->absolute) worst->absolute = error, worst->absolute_at = x;
    double units = error / unit_of(exact);
    if (error > c->small && units > worst->units) worst->units = units, worst->units_at = x;
}

/* The function of one level on n floats. */
static inline void math_run(const MathCase *c, const BodyTable *table, const float *x, float *y, int64_t n) {
    const float *power = &c->p[0];
    BodyArgs a = {1, n, y, n, {x, power}, {n, 0}, c->code == BODY_POW ? 2 : 0, {c->p[0], c->p[1]}};
    table->run[c->code](&a);
}

static inline bool math_is_good(const MathCase *c, const MathWorst *worst) {
    bool good = !worst->wrong && worst->units <= c->most;
    if (!good)
        print_error("%s at level %s: %.3f units at %.9g (%a), allowed are %.2f; %s %.9g\n", c->name,
                    cpu_level_name(cpu_level()), worst->units, (double)worst->units_at, (double)worst->units_at,
                    c->most, worst->wrong ? "no number or infinity at" : "", (double)worst->wrong_at);
    return good;
}

#endif
