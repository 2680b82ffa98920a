/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over some or all dimensions (ONNX 13 to 28): an expression each. Floats accumulate in double, integers in
   64 bits that wrap. The order of additions follows from shapes alone. */
#include "ops/op_int.h"

#include <math.h>
#include <stdlib.h>

#define LANES 64  /* accumulators of one row: what a loop folds in parallel */
#define WIDTH 256 /* results that are accumulated together where the innermost dimension is kept */

typedef void (*FoldFn)(void *acc, const void *x, int64_t n);
typedef void (*FinishFn)(void *acc, int64_t n, int64_t count);

/* One walk over the data: what is folded into accumulators, and how accumulators of one result are joined. */
typedef struct Pass {
    FoldFn fold, join;
    uint64_t init; /* bits of the double or integer */
} Pass;

typedef struct Axes {
    int rank;
    int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK];
} Axes;

typedef struct Reduction {
    const Tensor *in, *out;
    Class class;
    Axes kept, gone;
    int64_t count;      /* elements that make one result */
    Pass pass, largest; /* largest.fold: first find each result's maximum, to subtract it */
    FinishFn finish;
} Reduction;

/* ---- expressions --------------------------------------------------------------------------------------------- */

#define FOLD(name, X, expr)                                    \
    static void name(void *acc, const void *from, int64_t n) { \
        typedef X T;                                           \
        T *as = acc;                                           \
        const T *xs = from;                                    \
        for (int64_t i = 0; i < n; i++) {                      \
            T a = as[i], x = xs[i];                            \
            as[i] = (T)(expr);                                 \
        }                                                      \
    }
#define FINISH(name, X, expr)                               \
    static void name(void *acc, int64_t n, int64_t count) { \
        typedef X T;                                        \
        T *as = acc;                                        \
        (void)count;                                        \
        for (int64_t i = 0; i < n; i++) {                   \
            T a = as[i];                                    \
            as[i] = (T)(expr);                              \
        }                                                   \
    }

FOLD(add_f64, double, a + x)
FOLD(add_i64, uint64_t, a + x)
FOLD(mul_f64, double, a *x)
FOLD(mul_i64, uint64_t, a *x)
FOLD(most_f64, double, ((a > x) | (a != a)) ? a : x) /* NaN stays */
FOLD(most_i64, int64_t, a > x ? a : x)
FOLD(most_u64, uint64_t, a > x ? a : x)
FOLD(least_f64, double, ((a < x) | (a != a)) ? a : x)
FOLD(least_i64, int64_t, a < x ? a : x)
FOLD(least_u64, uint64_t, a < x ? a : x)
FOLD(add_abs_f64, double, a + fabs(x))
FOLD(add_abs_i64, uint64_t, a + ((int64_t)x < 0 ? 0 - x : x))
FOLD(add_square_f64, double, a + x * x)
FOLD(add_square_i64, uint64_t, a + x * x)
FOLD(add_exp_f64, double, a + exp(x))

/* The square root rounded down; the double's rounding is put right. */
static uint64_t root_u64(uint64_t v) {
    uint64_t r = (uint64_t)sqrt((double)v);
    while (r > UINT32_MAX || r * r > v) r--;
    while (r < UINT32_MAX && (r + 1) * (r + 1) <= v) r++;
    return r;
}

FINISH(mean_f64, double, a / (double)count)
FINISH(mean_i64, int64_t, count == 0 ? 0 : a / count)
FINISH(mean_u64, uint64_t, count == 0 ? 0 : a / (uint64_t)count)
FINISH(root_f64, double, sqrt(a))
FINISH(root_i64, uint64_t, root_u64(a))
FINISH(log_f64, double, log(a))

/* What the folds start from: the neutral element, which is also the result over nothing. */
typedef enum Neutral { ZERO, ONE, LOWEST, HIGHEST } Neutral;

typedef struct ReduceFns {
    Neutral neutral;
    FoldFn f64, join_f64;
    FinishFn finish_f64;
    FoldFn i64, join_i64;
    FinishFn finish_i64;
    FoldFn u64; /* also joins; NULL: as i64 */
    FinishFn finish_u64;
} ReduceFns;

static uint64_t neutral_int(Neutral neutral, tn_dtype dtype) {
    int width = dtype == TN_BOOL ? 1 : dtype_bits(dtype);
    uint64_t all = UINT64_MAX >> (64 - width), top = all ^ (all >> 1);
    bool is_signed = dtype_is_signed_int(dtype);
    switch (neutral) {
    case LOWEST: return is_signed ? 0 - top : 0;
    case HIGHEST: return is_signed ? top - 1 : all;
    default: return neutral == ONE;
    }
}

static uint64_t neutral_float(Neutral neutral) {
    static const double values[] = {[ZERO] = 0, [ONE] = 1, [LOWEST] = -INFINITY, [HIGHEST] = INFINITY};
    uint64_t word;
    memcpy(&word, &values[neutral], sizeof word);
    return word;
}

static void choose_fns(Reduction *r, const ReduceFns *fns, tn_dtype dtype) {
    bool is_u64 = dtype == TN_U64;
    if (r->class == CLASS_F64) {
        r->pass = (Pass){fns->f64, fns->join_f64, neutral_float(fns->neutral)};
        r->finish = fns->finish_f64;
        return;
    }
    r->pass = (Pass){fns->i64, fns->join_i64, neutral_int(fns->neutral, dtype)};
    r->finish = fns->finish_i64;
    if (is_u64 && fns->u64) r->pass.fold = r->pass.join = fns->u64;
    if (is_u64 && fns->finish_u64) r->finish = fns->finish_u64;
}

/* ---- loops --------------------------------------------------------------------------------------------------- */

/* Dimensions of size 1 say nothing; neighbours that are one run are one. */
static void axes_push(Axes *a, int64_t size, int64_t stride) {
    if (size == 1) return;
    if (a->rank > 0 && a->strides[a->rank - 1] == stride * size) {
        a->dims[a->rank - 1] *= size;
        a->strides[a->rank - 1] = stride;
        return;
    }
    a->dims[a->rank] = size;
    a->strides[a->rank++] = stride;
}

static int64_t axes_count(const Axes *a) {
    int64_t n = 1;
    for (int k = 0; k < a->rank; k++) n *= a->dims[k];
    return n;
}

/* The offset of position `index` of the first `rank` dimensions, whose places are left in `at`. */
static int64_t axes_seek(const Axes *a, int rank, int64_t index, int64_t *at) {
    int64_t offset = 0;
    for (int k = rank - 1; k >= 0; k--) {
        at[k] = index % a->dims[k];
        index /= a->dims[k];
        offset += at[k] * a->strides[k];
    }
    return offset;
}

static int64_t axes_next(const Axes *a, int rank, int64_t *at, int64_t offset) {
    for (int k = rank - 1; k >= 0; k--) {
        offset += a->strides[k];
        if (++at[k] < a->dims[k]) return offset;
        offset -= at[k] * a->strides[k];
        at[k] = 0;
    }
    return offset;
}

/* Accumulators are doubles or integers; their bits are what is written. */
static void fill(void *acc, int64_t n, uint64_t value) {
    for (int64_t i = 0; i < n; i++) memcpy((char *)acc + i * (int64_t)sizeof value, &value, sizeof value);
}

/* Infinite and NaN maxima are not subtracted: the sum of exponentials shows them by itself. */
static void make_finite(double *shift, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(shift[i])) shift[i] = 0;
}

/* Results [.., at .. at+n) of the innermost kept dimension, one row of the data after the other. */
static void fold_rows(const Reduction *r, const Pass *pass, int64_t offset, int64_t n, const double *shift, void *acc) {
    double x[WIDTH];
    int64_t at[TN_MAX_RANK] = {0}, stride = r->kept.rank > 0 ? r->kept.strides[r->kept.rank - 1] : 1;
    fill(acc, n, pass->init);
    for (int64_t k = 0; k < r->count; k++) {
        class_load(r->class, x, r->in->dtype, r->in->data, offset, stride, n);
        for (int64_t i = 0; shift && i < n; i++) x[i] -= shift[i];
        pass->fold(acc, x, n);
        offset = axes_next(&r->gone, r->gone.rank, at, offset);
    }
}

static void reduce_rows(void *arg, int64_t begin, int64_t end) {
    const Reduction *r = arg;
    int outer = r->kept.rank - 1;
    int64_t inner = outer >= 0 ? r->kept.dims[outer] : 1, pieces = (inner + WIDTH - 1) / WIDTH, place[TN_MAX_RANK];
    int64_t stride = outer >= 0 ? r->kept.strides[outer] : 1;
    double acc[WIDTH], shift[WIDTH];
    for (int64_t task = begin; task < end; task++) {
        int64_t row = task / pieces, at = task % pieces * WIDTH, n = min_i64(WIDTH, inner - at);
        int64_t offset = r->in->offset + axes_seek(&r->kept, outer, row, place) + at * stride;
        bool shifted = r->largest.fold != NULL;
        if (shifted) {
            fold_rows(r, &r->largest, offset, n, NULL, shift);
            make_finite(shift, n);
        }
        fold_rows(r, &r->pass, offset, n, shifted ? shift : NULL, acc);
        if (r->finish) r->finish(acc, n, r->count);
        for (int64_t i = 0; shifted && i < n; i++) acc[i] += shift[i];
        class_store(r->class, r->out->dtype, r->out->data, r->out->offset + row * inner + at, 1, acc, n);
    }
}

/* One result: each run of the innermost reduced dimension in lanes, which are joined in pairs at the end. */
static void fold_runs(const Reduction *r, const Pass *pass, int64_t offset, double shift, void *result) {
    double x[CHUNK];
    uint64_t acc[LANES];
    int outer = r->gone.rank - 1;
    int64_t at[TN_MAX_RANK] = {0}, inner = r->gone.dims[outer], stride = r->gone.strides[outer], lanes = 1;
    while (lanes < LANES && lanes < inner) lanes *= 2;
    fill(acc, lanes, pass->init);
    for (int64_t done = 0; done < r->count; done += inner) {
        for (int64_t k = 0; k < inner; k += CHUNK) {
            int64_t n = min_i64(CHUNK, inner - k);
            class_load(r->class, x, r->in->dtype, r->in->data, offset + k * stride, stride, n);
            for (int64_t i = 0; shift != 0 && i < n; i++) x[i] -= shift;
            for (int64_t i = 0; i < n; i += lanes) pass->fold(acc, x + i, min_i64(lanes, n - i));
        }
        offset = axes_next(&r->gone, outer, at, offset);
    }
    while ((lanes /= 2) > 0) pass->join(acc, acc + lanes, lanes);
    memcpy(result, acc, sizeof *acc);
}

static void reduce_runs(void *arg, int64_t begin, int64_t end) {
    const Reduction *r = arg;
    int64_t place[TN_MAX_RANK];
    for (int64_t k = begin; k < end; k++) {
        int64_t offset = r->in->offset + axes_seek(&r->kept, r->kept.rank, k, place);
        double acc, shift = 0;
        if (r->largest.fold) fold_runs(r, &r->largest, offset, 0, &shift);
        make_finite(&shift, 1);
        fold_runs(r, &r->pass, offset, shift, &acc);
        if (r->finish) r->finish(&acc, 1, r->count);
        if (r->largest.fold) acc += shift;
        class_store(r->class, r->out->dtype, r->out->data, r->out->offset + k, 1, &acc, 1);
    }
}

static tn_status run_reduction(KernelCtx *c, Reduction *r) {
    const Axes *kept = &r->kept, *gone = &r->gone;
    int64_t results = axes_count(kept);
    r->count = axes_count(gone);
    if (results == 0) return TN_OK;
    bool runs = r->count > 0 && gone->rank > 0 &&
                (kept->rank == 0 || llabs(gone->strides[gone->rank - 1]) < llabs(kept->strides[kept->rank - 1]));
    if (runs) return kernel_parallel(c, results, (double)r->count * 0.7 + 20, reduce_runs, r);
    int64_t inner = kept->rank > 0 ? kept->dims[kept->rank - 1] : 1, pieces = (inner + WIDTH - 1) / WIDTH;
    double cost = (double)(r->count + 1) * (double)min_i64(inner, WIDTH) * 0.7 + 20;
    return kernel_parallel(c, results / inner * pieces, cost, reduce_rows, r);
}

/* ---- axes ---------------------------------------------------------------------------------------------------- */

/* No axes: all of them, or none where noop_with_empty_axes says so. */
static tn_status axes_mask(const Node *node, const int64_t *axes, int64_t n, int rank, uint32_t *mask) {
    if (n > 0) return normal_axes(axes, (size_t)n, rank, "axes", mask);
    *mask = attr_int(node, "noop_with_empty_axes") ? 0 : (1u << rank) - 1;
    return TN_OK;
}

/* The loops follow strides, which would make the order of additions, and so a float's last bits, depend on how the
   operand lies in memory: floats are read from dense memory. */
static tn_status read_data(KernelCtx *c, Tensor *dense, const Tensor **in) {
    const void *data;
    *in = c->in[0];
    if (class_of((*in)->dtype) == CLASS_INT || tensor_is_dense(*in)) return TN_OK;
    TRY(dense_bytes(c, 0, &data));
    tensor_set_dense(dense, (*in)->dtype, (*in)->rank, (*in)->dims);
    dense->data = (void *)data;
    *in = dense;
    return TN_OK;
}

static tn_status reduce_with(KernelCtx *c, const ReduceFns *fns, bool exponential) {
    Tensor dense = {0};
    const Tensor *in;
    TRY(read_data(c, &dense, &in));
    int64_t axes[TN_MAX_RANK], n = 0;
    uint32_t mask;
    if (kernel_has_input(c, 1)) TRY(kernel_ints(c, 1, axes, TN_MAX_RANK, &n));
    TRY(axes_mask(c->node, axes, n, in->rank, &mask));
    Reduction r = {.in = in, .out = &c->out[0], .class = class_of(in->dtype) == CLASS_INT ? CLASS_INT : CLASS_F64};
    choose_fns(&r, fns, in->dtype);
    if (exponential) r.largest = (Pass){most_f64, most_f64, neutral_float(LOWEST)};
    for (int k = 0; k < in->rank; k++) axes_push(mask >> k & 1 ? &r.gone : &r.kept, in->dims[k], in->strides[k]);
    return run_reduction(c, &r);
}

/* ---- inference ----------------------------------------------------------------------------------------------- */

static void infer_reduced(InferCtx *c, uint32_t mask, bool keep) {
    const Shape *x = in_shape(c, 0);
    Shape s = {.rank = 0};
    for (int k = 0; k < x->rank; k++) {
        if (!(mask >> k & 1)) s.dims[s.rank++] = x->dims[k];
        else if (keep) s.dims[s.rank++] = 1;
    }
    set_shape(c, 0, &s);
}

/* Axes that are not known: what their number tells. */
static void infer_some_axes(InferCtx *c, bool keep) {
    const Shape *axes = in_shape(c, 1);
    bool counted = axes->rank == 1 && dim_is_const(axes->dims[0]) && axes->dims[0] > 0;
    int rank = in_shape(c, 0)->rank;
    if (keep) set_unknown_rank(c, 0, rank);
    else set_unknown_rank(c, 0, counted && axes->dims[0] <= rank ? rank - (int)axes->dims[0] : -1);
}

/* The contents of a list of sizes, joined to one. */
static void reduce_content(InferCtx *c, uint32_t mask, int join) {
    Dim content[CONTENT_MAX];
    int n;
    bool sizes = in_dtype(c, 0) == TN_I64 || in_dtype(c, 0) == TN_I32;
    if (join < 0 || !sizes || !c->content_out || mask != (1u << in_shape(c, 0)->rank) - 1) return;
    if (!in_content(c, 0, content, CONTENT_MAX, &n) || n == 0) return;
    for (int k = 1; k < n; k++) content[0] = dim_make(c->dims, (DimOp)join, content[0], content[k]);
    set_content(c, 0, content, 1);
}

static tn_status reduce_infer(InferCtx *c, int join) {
    int64_t axes[CONTENT_MAX];
    int n = 0;
    uint32_t mask;
    bool keep = attr_int(c->node, "keepdims") != 0;
    if (has_input(c, 1) && rank_known(c, 1) && in_shape(c, 1)->rank > 1)
        return fail(TN_SHAPE, "axes must be a list, not of rank %d", in_shape(c, 1)->rank);
    if (!rank_known(c, 0)) return TN_OK;
    if (has_input(c, 1) && !in_ints(c, 1, axes, CONTENT_MAX, &n)) {
        infer_some_axes(c, keep);
        return TN_OK;
    }
    TRY(axes_mask(c->node, axes, n, in_shape(c, 0)->rank, &mask));
    infer_reduced(c, mask, keep);
    reduce_content(c, mask, join);
    return TN_OK;
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */

#define WIDE (TS_FLOAT | TS(TN_I32) | TS(TN_I64) | TS(TN_U32) | TS(TN_U64))
#define ORDERED (WIDE | TS(TN_I8) | TS(TN_U8) | TS(TN_BOOL))

/* ROW(op, kind, version, types, content joined by, {neutral, f64: fold, join, finish; i64: the same; u64: fold, finish}) */
#define REDUCE_ROWS(ROW)                                                                                             \
    ROW(ReduceL1, COMPOSITE, 18, WIDE, -1, "sum of absolute values", ZERO, add_abs_f64, add_f64, NULL, add_abs_i64,  \
        add_i64, NULL, add_i64, NULL)                                                                                \
    ROW(ReduceL2, COMPOSITE, 18, WIDE, -1, "root of the sum of squares", ZERO, add_square_f64, add_f64, root_f64,    \
        add_square_i64, add_i64, root_i64, NULL, NULL)                                                               \
    ROW(ReduceLogSum, COMPOSITE, 28, TS_FLOAT, -1, "logarithm of the sum", ZERO, add_f64, add_f64, log_f64, NULL,    \
        NULL, NULL, NULL, NULL)                                                                                      \
    ROW(ReduceLogSumExp, COMPOSITE, 28, TS_FLOAT, -1, "logarithm of the sum of exponentials", ZERO, add_exp_f64,     \
        add_f64, log_f64, NULL, NULL, NULL, NULL, NULL)                                                              \
    ROW(ReduceMax, ATOMIC, 20, ORDERED, DIM_MAX, "the largest; NaN where one is", LOWEST, most_f64, most_f64, NULL,  \
        most_i64, most_i64, NULL, most_u64, NULL)                                                                    \
    ROW(ReduceMean, ATOMIC, 18, WIDE, -1, "the mean", ZERO, add_f64, add_f64, mean_f64, add_i64, add_i64, mean_i64,  \
        NULL, mean_u64)                                                                                              \
    ROW(ReduceMin, ATOMIC, 20, ORDERED, DIM_MIN, "the smallest; NaN where one is", HIGHEST, least_f64, least_f64,    \
        NULL, least_i64, least_i64, NULL, least_u64, NULL)                                                           \
    ROW(ReduceProd, ATOMIC, 18, WIDE, DIM_MUL, "the product", ONE, mul_f64, mul_f64, NULL, mul_i64, mul_i64, NULL,   \
        NULL, NULL)                                                                                                  \
    ROW(ReduceSum, ATOMIC, 13, WIDE, DIM_ADD, "the sum", ZERO, add_f64, add_f64, NULL, add_i64, add_i64, NULL, NULL, \
        NULL)                                                                                                        \
    ROW(ReduceSumSquare, COMPOSITE, 18, WIDE, -1, "sum of squares", ZERO, add_square_f64, add_f64, NULL,             \
        add_square_i64, add_i64, NULL, NULL, NULL)

#define REDUCE_OP(id, kind_, version, types, join, text, ...)                                                          \
    static tn_status id##_infer(InferCtx *c) { return reduce_infer(c, join); }                                         \
    static tn_status id##_reference(KernelCtx *c) {                                                                    \
        const ReduceFns fns = {__VA_ARGS__};                                                                           \
        return reduce_with(c, &fns, fns.f64 == add_exp_f64);                                                           \
    }                                                                                                                  \
    const OpSchema op_##id = {                                                                                         \
        .name = #id,                                                                                                   \
        .summary = #id " (ONNX " #version ") over axes: " text,                                                        \
        .kind = OP_##kind_,                                                                                            \
        .inputs = OPERANDS({"data", types, 'T', 0}, {"axes", TS(TN_I64), 0, OPERAND_OPTIONAL}),                        \
        .outputs = OPERANDS({"reduced", types, 'T', 0}),                                                               \
        .attrs = ATTRIBUTES({"keepdims", ATTR_INT, 0, 1, 0, NULL}, {"noop_with_empty_axes", ATTR_INT, 0, 0, 0, NULL}), \
        .content_inputs = 1u << 1,                                                                                     \
        .infer = id##_infer,                                                                                           \
        .reference = id##_reference,                                                                                   \
    };
REDUCE_ROWS(REDUCE_OP)
