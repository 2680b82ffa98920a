/* SPDX-License-Identifier: Apache-2.0 */
/* Clip (ONNX 13): Min(max, Max(x, min)); a bound that is absent does not bound, and NaN stays. Where min is above max
   everything becomes max. */
#include "ops/elementwise_int.h"

typedef struct Bounds {
    double low, high;
    int64_t low_int, high_int; /* of u64: the bits */
} Bounds;

#define CLIP(name, T, LOW, HIGH)                                                      \
    static void name(const void *user, void *out, const void *const *in, int64_t n) { \
        const Bounds *b = user;                                                       \
        const T *x = in[0], low = (T)b->LOW, high = (T)b->HIGH;                       \
        T *y = out;                                                                   \
        EACH(i, n) {                                                                  \
            T v = x[i] < low ? low : x[i];                                            \
            y[i] = v > high ? high : v;                                               \
        }                                                                             \
    }
CLIP(clip_f32, float, low, high)
CLIP(clip_f64, double, low, high)
CLIP(clip_i64, int64_t, low_int, high_int)
CLIP(clip_u64, uint64_t, low_int, high_int)

static tn_status read_bound(KernelCtx *c, int i, const char *name, double *f, int64_t *n) {
    if (!kernel_has_input(c, i)) return TN_OK;
    const Tensor *t = c->in[i];
    if (tensor_count(t) != 1) return fail(TN_SHAPE, "%s must be one number", name);
    if (class_of(t->dtype) == CLASS_INT) load_i64(n, t->dtype, t->data, t->offset, 1, 1);
    else load_f64(f, t->dtype, t->data, t->offset, 1, 1);
    return TN_OK;
}

static tn_status clip_reference(KernelCtx *c) {
    bool is_u64 = c->in[0]->dtype == TN_U64;
    Bounds b = {-INFINITY, INFINITY, is_u64 ? 0 : INT64_MIN, is_u64 ? -1 : INT64_MAX};
    TRY(read_bound(c, 1, "min", &b.low, &b.low_int));
    TRY(read_bound(c, 2, "max", &b.high, &b.high_int));
    const ElementwiseFns fns = {.f32 = clip_f32, .f64 = clip_f64, .i64 = clip_i64, .u64 = clip_u64};
    return run_by_class(c, 1, &fns, &b, 1);
}

static tn_status clip_infer(InferCtx *c) {
    set_like(c, 0, 0);
    for (int i = 1; i <= 2; i++) {
        if (!has_input(c, i) || !rank_known(c, i)) continue;
        for (int k = 0; k < in_shape(c, i)->rank; k++)
            if (dim_is_const(in_shape(c, i)->dims[k]) && in_shape(c, i)->dims[k] != 1)
                return fail(TN_SHAPE, "%s must be one number", i == 1 ? "min" : "max");
    }
    return TN_OK;
}

const OpSchema op_Clip = {
    .name = "Clip",
    .summary = "Clip (ONNX 13): x within min and max",
    .kind = OP_COMPOSITE,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"input", TS_NUMERIC, 'T', 0}, {"min", TS_NUMERIC, 'T', OPERAND_OPTIONAL},
                       {"max", TS_NUMERIC, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_NUMERIC, 'T', 0}),
    .infer = clip_infer,
    .reference = clip_reference,
};
