/* SPDX-License-Identifier: Apache-2.0 */
/* Min, Max, Sum, Mean (ONNX 13) of one or more broadcast operands. Min and Max keep NaN. */
#include "ops/lower_int.h"
#include "ops/elementwise_int.h"

CHUNK2(least_f32, float, T, ((v < w) | (v != v)) ? v : w)
CHUNK2(least_f64, double, T, ((v < w) | (v != v)) ? v : w)
CHUNK2(least_i64, int64_t, T, v < w ? v : w)
CHUNK2(least_u64, uint64_t, T, v < w ? v : w)
CHUNK2(most_f32, float, T, ((v > w) | (v != v)) ? v : w)
CHUNK2(most_f64, double, T, ((v > w) | (v != v)) ? v : w)
CHUNK2(most_i64, int64_t, T, v > w ? v : w)
CHUNK2(most_u64, uint64_t, T, v > w ? v : w)
CHUNK2(sum_f32, float, T, v + w)
CHUNK2(sum_f64, double, T, v + w)
/* p->a: the number of operands */
CHUNK1(divide_f32, float, T, v / (T)p->a)
CHUNK1(divide_f64, double, T, v / (T)p->a)

static const ElementwiseFns sum_fns = {.f32 = sum_f32, .f64 = sum_f64};
static const ElementwiseFns divide_fns = {.f32 = divide_f32, .f64 = divide_f64};

static tn_status min_reference(KernelCtx *c) {
    const ElementwiseFns fns = {.f32 = least_f32, .f64 = least_f64, .i64 = least_i64, .u64 = least_u64};
    return c->n_in == 2 ? run_by_class(c, 2, &fns, NULL, 1) : run_fold(c, &fns, NULL, NULL, 1);
}

static tn_status max_reference(KernelCtx *c) {
    const ElementwiseFns fns = {.f32 = most_f32, .f64 = most_f64, .i64 = most_i64, .u64 = most_u64};
    return c->n_in == 2 ? run_by_class(c, 2, &fns, NULL, 1) : run_fold(c, &fns, NULL, NULL, 1);
}

static tn_status sum_reference(KernelCtx *c) { return run_fold(c, &sum_fns, NULL, NULL, 1); }

static tn_status mean_reference(KernelCtx *c) {
    return run_fold(c, &sum_fns, &divide_fns, &(const Params){.a = c->n_in}, 1);
}

/* Sizes pass through the usual forms: a copy, and two operands. */
static Dim same_dim(const InferCtx *c, Dim a) { return (void)c, a; }
static Dim min_dim(const InferCtx *c, Dim a, Dim b) { return dim_make(c->dims, DIM_MIN, a, b); }
static Dim max_dim(const InferCtx *c, Dim a, Dim b) { return dim_make(c->dims, DIM_MAX, a, b); }

static tn_status variadic_infer(InferCtx *c, ContentFn fn) {
    TRY(infer_broadcast(c));
    if (in_dtype(c, 0) == TN_U64) return TN_OK;
    if (c->n_in == 1) content_unary(c, same_dim);
    if (c->n_in == 2) content_binary(c, 0, 1, fn);
    return TN_OK;
}

static tn_status min_infer(InferCtx *c) { return variadic_infer(c, min_dim); }
static tn_status max_infer(InferCtx *c) { return variadic_infer(c, max_dim); }

#define VARIADIC_OP(id, kind_, lower_fn, parts, types, infer_fn, reference_fn, text) \
    const OpSchema op_##id = {                                                       \
        .name = #id,                                                                 \
        .summary = #id " (ONNX 13): " text,                                          \
        .kind = OP_##kind_,                                                          \
        .flags = OP_ELEMENTWISE | OP_COMMUTATIVE,                                    \
        .inputs = OPERANDS({"data", types, 'T', OPERAND_VARIADIC}),                  \
        .outputs = OPERANDS({"result", types, 'T', 0}),                              \
        .infer = infer_fn,                                                           \
        .reference = reference_fn,                                                   \
        .lower = lower_fn,                                                           \
        .lowering = parts,                                                           \
    };
VARIADIC_OP(Max, ATOMIC, NULL, NULL, TS_NUMERIC, max_infer, max_reference,
            "the largest of the operands' elements; NaN where one is")
VARIADIC_OP(Mean, COMPOSITE, lower_mean, "Sum of f64 over how many they are", TS_FLOAT, infer_broadcast, mean_reference,
            "the mean of the operands' elements")
VARIADIC_OP(Min, ATOMIC, NULL, NULL, TS_NUMERIC, min_infer, min_reference,
            "the smallest of the operands' elements; NaN where one is")
VARIADIC_OP(Sum, COMPOSITE, NULL, NULL, TS_FLOAT, infer_broadcast, sum_reference, "the sum of the operands' elements")
