/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of ScatterElements and ScatterND. Each step rounds to the element type, as a sequence of updates does. */
#include "ops/scatter_int.h"

tn_status scatter_reduction(const Node *node, tn_dtype dtype, Reduction *out) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    for (int k = 0; k < 5; k++) {
        if (!attr_string_is(node, "reduction", names[k])) continue;
        *out = (Reduction)k;
        if (k != REDUCE_NONE && dtype == TN_STRING)
            return fail(TN_UNSUPPORTED, "strings have no reduction \"%s\"", names[k]);
        if (k >= REDUCE_MAX && dtype_is_complex(dtype))
            return fail(TN_UNSUPPORTED, "complex numbers have no reduction \"%s\"", names[k]);
        return TN_OK;
    }
    return fail(TN_INVALID_ARGUMENT, "reduction \"%.*s\" is none of none, add, mul, max, min",
                (int)attr_string(node, "reduction").n, attr_string(node, "reduction").s);
}

/* NaN wins, as in numpy. */
#define FLOAT_REDUCE(T)                                  \
    static T reduce_##T(Reduction r, T a, T b) {         \
        switch (r) {                                     \
        case REDUCE_ADD: return a + b;                   \
        case REDUCE_MUL: return a * b;                   \
        case REDUCE_MAX: return a != a || a > b ? a : b; \
        case REDUCE_MIN: return a != a || a < b ? a : b; \
        default: return b;                               \
        }                                                \
    }
FLOAT_REDUCE(float)
FLOAT_REDUCE(double)

static int64_t reduce_int(Reduction r, int64_t a, int64_t b, bool is_unsigned) {
    bool greater = is_unsigned ? (uint64_t)a > (uint64_t)b : a > b;
    switch (r) {
    case REDUCE_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case REDUCE_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case REDUCE_MAX: return greater ? a : b;
    case REDUCE_MIN: return greater ? b : a;
    default: return b;
    }
}

static void reduce_complex(Reduction r, const double *a, const double *b, double *out) {
    if (r == REDUCE_ADD) {
        out[0] = a[0] + b[0];
        out[1] = a[1] + b[1];
    } else {
        out[0] = a[0] * b[0] - a[1] * b[1];
        out[1] = a[0] * b[1] + a[1] * b[0];
    }
}

/* One element after another, of any type. */
static void combine(Reduction r, tn_dtype dtype, void *dst, int64_t at, const void *src, int64_t from, int64_t n) {
    Class class = class_of(dtype);
    for (int64_t k = 0; k < n; k++) {
        if (class == CLASS_F32) {
            float v[2];
            load_f32(&v[0], dtype, dst, at + k, 1, 1);
            load_f32(&v[1], dtype, src, from + k, 1, 1);
            v[0] = reduce_float(r, v[0], v[1]);
            store_f32(dtype, dst, at + k, 1, v, 1);
        } else if (class == CLASS_F64) {
            double v[2];
            load_f64(&v[0], dtype, dst, at + k, 1, 1);
            load_f64(&v[1], dtype, src, from + k, 1, 1);
            v[0] = reduce_double(r, v[0], v[1]);
            store_f64(dtype, dst, at + k, 1, v, 1);
        } else if (class == CLASS_COMPLEX) {
            double a[2], b[2], sum[2];
            load_c128(a, dtype, dst, at + k, 1, 1);
            load_c128(b, dtype, src, from + k, 1, 1);
            reduce_complex(r, a, b, sum);
            store_c128(dtype, dst, at + k, 1, sum, 1);
        } else {
            int64_t v[2];
            load_i64(&v[0], dtype, dst, at + k, 1, 1);
            load_i64(&v[1], dtype, src, from + k, 1, 1);
            v[0] = reduce_int(r, v[0], v[1], dtype == TN_U64);
            store_i64(dtype, dst, at + k, 1, v, 1);
        }
    }
}

/* ---- elements that are a C type's ------------------------------------------------------------------------------- */

#define SECOND(a, b) (b)
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define GREATER(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define LESSER(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))

typedef void (*MergeFn)(void *dst, const int64_t *places, int64_t n, int64_t run, const void *src);

/* The same update may come twice, so these are in order. */
#define MERGE(name, T, expr)                                                                      \
    static void name(void *dst, const int64_t *places, int64_t n, int64_t run, const void *src) { \
        const T *x = src;                                                                         \
        if (run == 1)                                                                             \
            for (int64_t i = 0; i < n; i++) {                                                     \
                T *y = (T *)dst + places[i];                                                      \
                *y = expr(*y, x[i]);                                                              \
            }                                                                                     \
        else                                                                                      \
            for (int64_t i = 0; i < n; i++, x += run) {                                           \
                T *y = (T *)dst + places[i];                                                      \
                EACH(k, run) y[k] = expr(y[k], x[k]);                                             \
            }                                                                                     \
    }
MERGE(set_8, uint8_t, SECOND)
MERGE(set_16, uint16_t, SECOND)
MERGE(set_32, uint32_t, SECOND)
MERGE(set_64, uint64_t, SECOND)

/* Integers wrap, so they are added and multiplied as unsigned. */
#define MERGES(suffix, T, U)                                                                                    \
    MERGE(merge_add_##suffix, U, PLUS)                                                                          \
    MERGE(merge_mul_##suffix, U, TIMES)                                                                         \
    MERGE(merge_max_##suffix, T, GREATER)                                                                       \
    MERGE(merge_min_##suffix, T, LESSER)                                                                        \
    static const MergeFn merges_##suffix[] = {NULL, merge_add_##suffix, merge_mul_##suffix, merge_max_##suffix, \
                                              merge_min_##suffix};
MERGES(f32, float, float)
MERGES(f64, double, double)
MERGES(i32, int32_t, uint32_t)
MERGES(i64, int64_t, uint64_t)

static MergeFn merge_of(Reduction r, tn_dtype dtype) {
    static const MergeFn sets[] = {[1] = set_8, [2] = set_16, [4] = set_32, [8] = set_64};
    int size = dtype == TN_STRING ? 0 : dtype_size(dtype);
    if (r == REDUCE_NONE) return size >= 1 && size <= 8 ? sets[size] : NULL;
    switch (dtype) {
    case TN_F32: return merges_f32[r];
    case TN_F64: return merges_f64[r];
    case TN_I32: return merges_i32[r];
    case TN_I64: return merges_i64[r];
    default: return NULL;
    }
}

void scatter_runs(Reduction r, tn_dtype dtype, void *dst, const int64_t *places, int64_t n, int64_t run,
                  const void *src, int64_t from) {
    MergeFn merge = merge_of(r, dtype);
    if (merge) {
        merge(dst, places, n, run, (const char *)src + from * dtype_size(dtype));
        return;
    }
    for (int64_t i = 0; i < n; i++, from += run) {
        if (r == REDUCE_NONE) copy_run(dtype, dst, places[i], src, from, run);
        else combine(r, dtype, dst, places[i], src, from, run);
    }
}

void scatter_combine(Reduction r, tn_dtype dtype, void *dst, int64_t at, const void *src, int64_t from, int64_t n) {
    scatter_runs(r, dtype, dst, &at, 1, n, src, from);
}

/* ---- what both ops begin with ------------------------------------------------------------------------------------ */

static bool same_memory(const Tensor *a, const Tensor *b) { return a->data == b->data; }

tn_status scatter_begin(KernelCtx *c, ScatterJob *job) {
    const Tensor *x = c->in[0];
    Tensor *y = &c->out[0];
    TRY(scatter_reduction(c->node, x->dtype, &job->reduction));
    job->dtype = x->dtype, job->y = y, job->count = tensor_count(c->in[1]), job->n = 0, job->from = 0, job->run = 1;
    if (job->count > 0) {
        TRY(dense_i64(c, 1, &job->index));
        TRY(dense_bytes(c, 2, &job->updates));
    }
    if (!same_memory(x, y)) return copy_dense(x, y->data, y->offset, c->pool);
    /* In the operand's own memory: what else is read there has to be elsewhere. */
    size_t bytes;
    if (job->count > 0 && same_memory(c->in[1], y)) {
        int64_t *index = kernel_scratch(c, int64_t, (size_t)job->count);
        if (!index) return TN_OUT_OF_MEMORY;
        job->index = memcpy(index, job->index, (size_t)job->count * sizeof *index);
    }
    if (job->count > 0 && same_memory(c->in[2], y)) {
        TRY(checked_bytes(x->dtype, tensor_count(c->in[2]), &bytes));
        void *updates = arena_alloc(c->scratch, bytes + 1, 64);
        if (!updates) return TN_OUT_OF_MEMORY;
        job->updates = memcpy(updates, job->updates, bytes);
    }
    return TN_OK;
}

void scatter_flush(ScatterJob *job) {
    scatter_runs(job->reduction, job->dtype, job->y->data, job->places, job->n, job->run, job->updates, job->from);
    job->from += job->n * job->run;
    job->n = 0;
}
