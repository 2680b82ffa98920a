/* SPDX-License-Identifier: Apache-2.0 */
/* One node on a CPU kernel and on the op's reference kernel: operands in random readings, results compared. */
#ifndef TEST_CPU_COMMON_H
#define TEST_CPU_COMMON_H

#include "test_base_alloc.h"

#include <math.h>
#include <stdio.h>

#include "backends/cpu/isa_int.h"
#include "kernel/kernel.h"
#include "ops/op.h"

#define OK(call) assert_int_equal(call, TN_OK)

enum { CASE_OPERANDS = 12, CASE_RESULTS = 4 };

static uint64_t random_state;
static inline int64_t random_below(int64_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)n);
}
static inline int64_t random_from(int64_t low, int64_t high) { return low + random_below(high - low + 1); }
static inline bool random_chance(int percent) { return random_below(100) < percent; }
static inline float random_float(void) { return (float)random_below(2000001) / 1e6f - 1; }

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

/* A tensor of these sizes in memory of its own: dense, or in any order with gaps, or some dimensions turned round. What lies
   between elements is NaN. */
static inline Tensor random_reading(Context *ctx, tn_dtype dtype, int rank, const int64_t *dims, bool dense) {
    Tensor t, memory;
    int order[TN_MAX_RANK];
    int64_t step = 1, low = 0;
    tensor_set_dense(&t, dtype, rank, dims);
    for (int d = 0; d < rank; d++) order[d] = rank - 1 - d;
    for (int n = dense ? 0 : (int)random_below(3); n > 0 && rank > 1; n--) {
        int a = (int)random_below(rank), b = (int)random_below(rank), kept = order[a];
        order[a] = order[b], order[b] = kept;
    }
    for (int i = 0; i < rank; i++) {
        int64_t *s = &t.strides[order[i]], n = dims[order[i]] > 0 ? dims[order[i]] : 1;
        if (!dense && random_chance(i ? 20 : 8)) step += random_from(1, 3);
        *s = step;
        step *= n;
        if (!dense && random_chance(5)) low += (n - 1) * *s, *s = -*s;
    }
    const int64_t all[] = {step + 16};
    OK(tensor_new(ctx, dtype, 1, all, &memory));
    memset(memory.data, 0xff, (size_t)(step + 16) * (size_t)dtype_size(dtype));
    t.data = memory.data;
    t.buffer = memory.buffer;
    t.offset = low + (dense ? 0 : random_below(8));
    return t;
}

static inline void fill_floats(Tensor *t, float factor) {
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);)
        for (int64_t i = 0; i < r.n; i++) ((float *)t->data)[r.offset + i * r.stride] = factor * random_float();
}

static inline Tensor random_floats(Context *ctx, int rank, const int64_t *dims, float factor) {
    Tensor t = random_reading(ctx, TN_F32, rank, dims, random_chance(40));
    fill_floats(&t, factor);
    return t;
}

static inline Tensor some_integers(Context *ctx, tn_dtype dtype, int64_t n, int64_t low, int64_t high) {
    Tensor t = random_reading(ctx, dtype, 1, &n, true);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = random_from(low, high);
        store_i64(dtype, t.data, i, 1, &v, 1);
    }
    return t;
}

/* ---- a case ------------------------------------------------------------------------------------------------------- */

typedef struct Case {
    Context *ctx;
    Model *model;
    Node *node;
    int n_in, n_out;
    Tensor in[CASE_OPERANDS];
    bool has[CASE_OPERANDS], wanted[CASE_RESULTS], fixed[CASE_OPERANDS]; /* fixed: a constant */
    bool dense;                                                          /* results are to be */
    Tensor want[CASE_RESULTS], got[CASE_RESULTS];
    char text[1000];
} Case;

/* The node of op(operands) {attrs}, with operands where `has` says. */
static inline void case_node(Case *k, const char *op, const char *attrs) {
    size_t n = (size_t)snprintf(k->text, sizeof k->text, "tn 1 graph @g(");
#define SAY(...) n += (size_t)snprintf(k->text + n, sizeof k->text - n, __VA_ARGS__)
    bool any = false;
    for (int i = 0; i < k->n_in; i++) {
        if (!k->has[i]) continue;
        SAY("%s%%x%d: %s[", any ? ", " : "", i, dtype_name(k->in[i].dtype));
        for (int d = 0; d < k->in[i].rank; d++) SAY("%s%lld", d ? "," : "", (long long)k->in[i].dims[d]);
        SAY("]");
        any = true;
    }
    SAY(") -> (%%y0) { ");
    for (int i = 0; i < k->n_out; i++) SAY("%s%%y%d", i ? ", " : "", i);
    SAY(" = %s(", op);
    for (int i = 0; i < k->n_in; i++) {
        if (k->has[i]) SAY("%s%%x%d", i ? ", " : "", i);
        else SAY("%s_", i ? ", " : "");
    }
    SAY(") {%s} }", attrs);
#undef SAY
    tn_status status = model_parse(k->ctx, str_of(k->text), NULL, (Str){0}, &k->model);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), k->text);
    OK(status);
    k->node = k->model->main->first;
}

/* Sizes of results by inference, the memory in any order. */
static inline void case_results(Case *k, Tensor *out, bool dense) {
    InferValue in[CASE_OPERANDS] = {0}, found[CASE_RESULTS] = {0};
    for (int i = 0; i < k->n_in; i++)
        if (k->has[i]) in[i] = infer_concrete(&k->in[i], true);
    tn_status status = op_infer(k->node, NULL, in, found, NULL);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), k->text);
    OK(status);
    for (int i = 0; i < k->n_out; i++) {
        if (out[i].data) continue;
        out[i] = random_reading(k->ctx, found[i].dtype, found[i].shape.rank, found[i].shape.dims, dense);
    }
}

static inline tn_status case_run(Case *k, const KernelDesc *kernel, Pool *pool, Tensor *out) {
    const Tensor *in[CASE_OPERANDS];
    Arena scratch;
    Prepared prepared = {0};
    arena_init(&scratch, &k->ctx->allocator);
    for (int i = 0; i < k->n_in; i++) in[i] = k->has[i] ? &k->in[i] : NULL;
    KernelCtx c = {.node = k->node,
                   .n_in = k->n_in,
                   .n_out = k->n_out,
                   .in = in,
                   .out = out,
                   .out_wanted = k->wanted,
                   .context = k->ctx,
                   .pool = pool,
                   .scratch = &scratch};
    tn_status status = TN_OK;
    if (kernel && kernel->prepare) {
        Tensor known[CASE_OPERANDS];
        const Tensor *at[CASE_OPERANDS];
        for (int i = 0; i < k->n_in; i++) {
            known[i] = k->in[i];
            if (!k->fixed[i]) known[i].data = NULL;
            at[i] = k->has[i] ? &known[i] : NULL;
        }
        KernelQuery q = {k->node, k->n_in, k->n_out, at, out, kernel};
        status = kernel->prepare(&q, k->ctx, &prepared);
    }
    if (status == TN_OK) status = kernel ? kernel->launch(&c, &prepared) : k->node->op->reference(&c);
    if (prepared.release) prepared.release(&prepared, &k->ctx->allocator);
    arena_free(&scratch);
    return status;
}

static inline bool case_matches(const Case *k, const KernelDesc *kernel) {
    const Tensor *in[CASE_OPERANDS];
    for (int i = 0; i < k->n_in; i++) in[i] = k->has[i] ? &k->in[i] : NULL;
    KernelQuery q = {k->node, k->n_in, k->n_out, in, k->want, kernel};
    return kernel->match(&q);
}

/* The largest difference relative to the largest finite element that is wanted; infinite where infinities or NaNs stand at
   other places. */
static inline double difference(const Tensor *want, const Tensor *got) {
    int64_t n = tensor_count(want);
    float *a = calloc((size_t)n + 1, sizeof *a), *b = calloc((size_t)n + 1, sizeof *b);
    double most = 1e-30, worst = 0;
    tensor_gather(want, a);
    tensor_gather(got, b);
    for (int64_t i = 0; i < n; i++)
        if (isfinite(a[i]) && fabsf(a[i]) < 1e30f) most = fmax(most, fabs((double)a[i]));
    for (int64_t i = 0; i < n; i++) {
        if (isnan(a[i]) && isnan(b[i])) continue;
        if (a[i] == b[i]) continue;
        double d = fabs((double)a[i] - (double)b[i]) / most;
        worst = isfinite(d) ? fmax(worst, d) : INFINITY;
    }
    free(a);
    free(b);
    return worst;
}

static inline bool same_bits(const Tensor *a, const Tensor *b) {
    size_t n = (size_t)tensor_count(a) * sizeof(float);
    char *x = calloc(n + 1, 1), *y = calloc(n + 1, 1);
    tensor_gather(a, x);
    tensor_gather(b, y);
    bool same = memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

static inline void release_all(Tensor *t, int n) {
    for (int i = 0; i < n; i++) tensor_release(&t[i]), t[i] = (Tensor){0};
}

/* Runs the case with 1, 2, 3 and 7 threads on the level of now: within `most` of the reference and the same bits. */
static inline void case_check(Case *k, const KernelDesc *kernel, double most) {
    static Pool *pools[4];
    static const int threads[] = {1, 2, 3, 7};
    uint64_t state = random_state;
    assert_true(case_matches(k, kernel));
    for (int p = 0; p < 4; p++) {
        Tensor out[CASE_RESULTS] = {0};
        random_state = state; /* results that lie in one way */
        if (!pools[p]) OK(pool_new(&allocator_default, threads[p], &pools[p]));
        case_results(k, out, k->dense || random_chance(50));
        tn_status status = case_run(k, kernel, pools[p], out);
        if (status != TN_OK) print_error("%s\n%s\n", diag_text(), k->text);
        OK(status);
        for (int i = 0; i < k->n_out; i++) {
            if (!k->wanted[i]) continue;
            double d = difference(&k->want[i], &out[i]);
            if (!(d <= most))
                print_error("result %d is off by %g at level %s\n%s\n", i, d, cpu_level_name(cpu_level()), k->text);
            assert_true(d <= most);
            if (p == 0) continue;
            if (!same_bits(&k->got[i], &out[i])) print_error("%d threads, result %d\n%s\n", threads[p], i, k->text);
            assert_true(same_bits(&k->got[i], &out[i]));
        }
        if (p == 0) memcpy(k->got, out, sizeof out);
        else release_all(out, k->n_out);
    }
    release_all(k->got, k->n_out);
}

static inline void case_free(Case *k) {
    release_all(k->in, CASE_OPERANDS);
    release_all(k->want, CASE_RESULTS);
    model_free(k->model);
}

/* Case n of a row of random ones, on one of the levels in turn. */
static inline void case_random(Context *ctx, int n, uint64_t seed, void (*make)(Context *ctx, Case *k, int n),
                               const KernelDesc *kernel, double most) {
    Case k;
    CpuLevel best = cpu_level();
    random_state = seed;
    make(ctx, &k, n);
    case_results(&k, k.want, true);
    tn_status status = case_run(&k, NULL, NULL, k.want);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), k.text);
    OK(status);
    cpu_level_set((CpuLevel)(n % ((int)best + 1)));
    case_check(&k, kernel, most);
    cpu_level_set(best);
    case_free(&k);
}

#endif
