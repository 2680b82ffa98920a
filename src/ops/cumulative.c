/* SPDX-License-Identifier: Apache-2.0 */
/* CumSum (ONNX 14), CumProd (ONNX 26): running sums and products along one dimension, from either end, with or without
   the element itself. Floats accumulate in double, integers in 64 bits that wrap. */
#include "ops/lower_int.h"
#include "ops/op_int.h"

#define WIDTH 256

typedef void (*ScanFn)(void *acc, void *x, int64_t n, bool exclusive);

/* x becomes the running result and acc moves on; across n columns, or along one line of n. */
#define SCAN(name, X, operator)                                                     \
    static void across_##name(void *acc, void *values, int64_t n, bool exclusive) { \
        X *a = acc, *x = values;                                                    \
        for (int64_t i = 0; i < n; i++) {                                           \
            X before = a[i];                                                        \
            a[i] = before operator x[i];                                            \
            x[i] = exclusive ? before : a[i];                                       \
        }                                                                           \
    }                                                                               \
    static void along_##name(void *acc, void *values, int64_t n, bool exclusive) {  \
        X a = *(X *)acc, *x = values;                                               \
        for (int64_t i = 0; i < n; i++) {                                           \
            X before = a;                                                           \
            a = before operator x[i];                                               \
            x[i] = exclusive ? before : a;                                          \
        }                                                                           \
        *(X *)acc = a;                                                              \
    }
SCAN(sum_f64, double, +)
SCAN(sum_i64, uint64_t, +)
SCAN(prod_f64, double, *)
SCAN(prod_i64, uint64_t, *)

typedef struct Cumulative {
    const Tensor *in, *out;
    Class class;
    ScanFn across, along;
    double start; /* also of integers: 0 or 1 */
    bool exclusive, reverse;
    int64_t size, in_stride, out_stride; /* of the axis */
    Tensor in_kept, out_kept;            /* one element along the axis */
    Walk walk;                           /* over those */
} Cumulative;

static void start(const Cumulative *s, void *acc, int64_t n) {
    int64_t whole = (int64_t)s->start;
    const void *value = s->class == CLASS_F64 ? (const void *)&s->start : (const void *)&whole;
    for (int64_t i = 0; i < n; i++) memcpy((char *)acc + i * (int64_t)sizeof whole, value, sizeof whole);
}

static void scan_columns(const Cumulative *s, int64_t in, int64_t in_step, int64_t out, int64_t out_step, int64_t n) {
    double acc[WIDTH], x[WIDTH];
    start(s, acc, n);
    for (int64_t i = 0; i < s->size; i++) {
        int64_t k = s->reverse ? s->size - 1 - i : i;
        class_load(s->class, x, s->in->dtype, s->in->data, in + k * s->in_stride, in_step, n);
        s->across(acc, x, n, s->exclusive);
        class_store(s->class, s->out->dtype, s->out->data, out + k * s->out_stride, out_step, x, n);
    }
}

static void scan_line(const Cumulative *s, int64_t in, int64_t out) {
    double acc, x[CHUNK];
    start(s, &acc, 1);
    int64_t sign = s->reverse ? -1 : 1, first = s->reverse ? s->size - 1 : 0;
    for (int64_t at = 0; at < s->size; at += CHUNK) {
        int64_t n = min_i64(CHUNK, s->size - at), k = first + sign * at;
        class_load(s->class, x, s->in->dtype, s->in->data, in + k * s->in_stride, sign * s->in_stride, n);
        s->along(&acc, x, n, s->exclusive);
        class_store(s->class, s->out->dtype, s->out->data, out + k * s->out_stride, sign * s->out_stride, x, n);
    }
}

static void scan_range(void *arg, int64_t begin, int64_t end) {
    const Cumulative *s = arg;
    const Walk *w = &s->walk;
    int64_t in_step = w->strides[0][w->rank - 1], out_step = w->strides[1][w->rank - 1];
    int64_t pieces = (w->inner + WIDTH - 1) / WIDTH, offsets[WALK_MAX];
    for (int64_t task = begin; task < end; task++) {
        int64_t run = task / pieces, at = task % pieces * WIDTH, n = min_i64(WIDTH, w->inner - at);
        walk_offsets(w, run, offsets);
        int64_t in = offsets[0] + at * in_step, out = offsets[1] + at * out_step;
        if (out_step < s->out_stride && n > 1) scan_columns(s, in, in_step, out, out_step, n);
        else
            for (int64_t i = 0; i < n; i++) scan_line(s, in + i * in_step, out + i * out_step);
    }
}

static tn_status read_axis(KernelCtx *c, int rank, int *axis) {
    int64_t value, n;
    if (tensor_count(c->in[1]) != 1) return fail(TN_SHAPE, "axis must be one number");
    TRY(kernel_ints(c, 1, &value, 1, &n));
    return normal_axis(value, rank, "axis", axis);
}

static tn_status run_cumulative(KernelCtx *c, Cumulative *s) {
    const Tensor *in = c->in[0], *out = &c->out[0];
    int axis;
    TRY(read_axis(c, in->rank, &axis));
    if (tensor_count(out) == 0) return TN_OK;
    s->in = in;
    s->out = out;
    s->exclusive = attr_int(c->node, "exclusive") != 0;
    s->reverse = attr_int(c->node, "reverse") != 0;
    s->size = in->dims[axis];
    s->in_stride = in->strides[axis];
    s->out_stride = out->strides[axis];
    s->in_kept = *in;
    s->out_kept = *out;
    s->in_kept.dims[axis] = s->out_kept.dims[axis] = 1;
    TRY(walk_operands(&s->walk, 2, (const Tensor *const[]){&s->in_kept, &s->out_kept}));
    int64_t tasks = s->walk.outer * ((s->walk.inner + WIDTH - 1) / WIDTH);
    return kernel_parallel(c, tasks, (double)min_i64(s->walk.inner, WIDTH) * (double)s->size * 2, scan_range, s);
}

static tn_status cum_sum_reference(KernelCtx *c) {
    bool ints = class_of(c->in[0]->dtype) == CLASS_INT;
    Cumulative sum_f64 = {.class = CLASS_F64, .across = across_sum_f64, .along = along_sum_f64, .start = 0};
    Cumulative sum_i64 = {.class = CLASS_INT, .across = across_sum_i64, .along = along_sum_i64, .start = 0};
    return run_cumulative(c, ints ? &sum_i64 : &sum_f64);
}

static tn_status cum_prod_reference(KernelCtx *c) {
    bool ints = class_of(c->in[0]->dtype) == CLASS_INT;
    Cumulative prod_f64 = {.class = CLASS_F64, .across = across_prod_f64, .along = along_prod_f64, .start = 1};
    Cumulative prod_i64 = {.class = CLASS_INT, .across = across_prod_i64, .along = along_prod_i64, .start = 1};
    return run_cumulative(c, ints ? &prod_i64 : &prod_f64);
}

static tn_status cumulative_infer(InferCtx *c) {
    int64_t value;
    int n, axis;
    set_like(c, 0, 0);
    if (rank_known(c, 0) && in_ints(c, 1, &value, 1, &n) && n == 1)
        return normal_axis(value, in_shape(c, 0)->rank, "axis", &axis);
    return TN_OK;
}

#define TYPES (TS_FLOAT | TS(TN_I32) | TS(TN_I64) | TS(TN_U32) | TS(TN_U64))
#define CUMULATIVE_OP(id, version, reference_fn, text)                                                     \
    const OpSchema op_##id = {                                                                             \
        .name = #id,                                                                                       \
        .summary = #id " (ONNX " #version "): running " text " along a dimension",                         \
        .kind = OP_COMPOSITE,                                                                              \
        .flags = OP_LOOPS,                                                                                 \
        .inputs = OPERANDS({"x", TYPES, 'T', 0}, {"axis", TS(TN_I32) | TS(TN_I64), 0, 0}),                 \
        .outputs = OPERANDS({"y", TYPES, 'T', 0}),                                                         \
        .attrs = ATTRIBUTES({"exclusive", ATTR_INT, 0, 0, 0, NULL}, {"reverse", ATTR_INT, 0, 0, 0, NULL}), \
        .infer = cumulative_infer,                                                                         \
        .reference = reference_fn,                                                                         \
        .lower = lower_cumulative,                                                                         \
        .lowering = "tn.Loop, each turn on the result of the one before; windows as a strided reading",    \
    };
CUMULATIVE_OP(CumProd, 26, cum_prod_reference, "products")
CUMULATIVE_OP(CumSum, 14, cum_sum_reference, "sums")
