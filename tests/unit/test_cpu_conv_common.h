/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one node by a kernel of the CPU and by its reference function on the same random operands, and compares. Shared by
   the tests of convolutions and pools. */
#ifndef TENON_TESTS_CPU_CONV_COMMON_H
#define TENON_TESTS_CPU_CONV_COMMON_H

#include "test_base_alloc.h"

#include <math.h>
#include <stdio.h>

#include "backends/cpu/isa_int.h"
#include "eval/eval.h"
#include "kernel/kernel.h"

#define OK(call) assert_int_equal(call, TN_OK)

static uint64_t seed = 1;
static inline int64_t pick(int64_t lo, int64_t hi) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}
static inline float pick_float(void) { return (float)pick(-1000, 1000) / 1000; }

static Context *ctx;
static Pool *pools[8]; /* by the number of threads */

static inline int set_up(void **state) {
    (void)state;
    OK(context_new(NULL, NULL, &ctx));
    for (int n = 2; n < 8; n++) OK(pool_new(&ctx->allocator, n, &pools[n]));
    return 0;
}
static inline int tear_down(void **state) {
    (void)state;
    for (int n = 2; n < 8; n++) pool_free(pools[n]);
    context_unref(ctx);
    return 0;
}

/* ---- tensors ------------------------------------------------------------------------------------------------- */

/* How a tensor of three dimensions and more lies in memory. */
typedef enum Lies { ROW_MAJOR, LAST, PITCHED, SCATTERED, N_LIES } Lies;

/* Strides for these sizes, and the number of elements that they span. */
static inline int64_t lay(Tensor *t, Lies lies) {
    int64_t span = 1, step = 1;
    int order[TN_MAX_RANK]; /* from the innermost outwards */
    for (int d = 0; d < t->rank; d++) order[d] = t->rank - 1 - d;
    if (lies == LAST || lies == PITCHED) {
        for (int d = t->rank - 2; d > 0; d--) order[d] = order[d - 1];
        if (t->rank > 1) order[0] = 1;
        if (t->rank > 1) order[t->rank - 1] = 0;
    }
    for (int d = 0; d < t->rank; d++) {
        t->strides[order[d]] = step;
        step *= t->dims[order[d]] > 0 ? t->dims[order[d]] : 1;
        if ((lies == PITCHED && d == 0) || lies == SCATTERED) step += pick(0, 5);
    }
    for (int d = 0; d < t->rank; d++) span += (t->dims[d] - 1) * t->strides[d];
    return span;
}

/* Random elements, on memory that a sanitizer watches; misaligned as mapped constants are. */
static inline Tensor random_tensor(int rank, const int64_t *dims, Lies lies) {
    Tensor t = {.dtype = TN_F32, .rank = rank};
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    int64_t span = lay(&t, lies);
    if (tensor_count(&t) == 0) span = 0;
    t.offset = pick(0, 3);
    OK(buffer_new(&ctx->allocator, (size_t)(span + t.offset) * 4 + 4, &t.buffer));
    t.data = t.buffer->data + (pick(0, 7) == 0);
    for (int64_t i = 0; i < span + t.offset; i++) {
        float v = pick_float();
        memcpy((char *)t.data + 4 * i, &v, 4);
    }
    return t;
}

static inline Tensor empty_like(const Tensor *like, Lies lies) {
    Tensor t = {.dtype = TN_F32, .rank = like->rank};
    memcpy(t.dims, like->dims, sizeof t.dims);
    int64_t span = lay(&t, lies);
    OK(buffer_new(&ctx->allocator, (size_t)(tensor_count(&t) ? span : 0) * 4 + 4, &t.buffer));
    t.data = t.buffer->data;
    for (int64_t i = 0; i < (tensor_count(&t) ? span : 0); i++) ((float *)t.data)[i] = 12345; /* in gaps, for ever */
    return t;
}

static inline void gather(const Tensor *t, float *to) { tensor_gather(t, to); }

/* What lies between the elements is as it was. */
static inline void assert_gaps_kept(const Tensor *t) {
    int64_t span = 1, others = 0;
    for (int d = 0; d < t->rank; d++) span += (t->dims[d] - 1) * t->strides[d];
    if (tensor_count(t) == 0) return;
    for (int64_t i = 0; i < span; i++) others += ((const float *)t->data)[i] == 12345.0f;
    assert_int_equal(others, span - tensor_count(t));
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static inline const KernelDesc *kernel_named(const char *name) {
    size_t n;
    const KernelDesc *const *table = kernel_table(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    print_error("there is no kernel %s\n", name);
    assert_true(false);
    return NULL;
}

static inline Model *parse(const char *text) {
    Model *model;
    tn_status status = model_parse(ctx, str_of(text), NULL, (Str){0}, &model);
    if (status == TN_OK) status = infer_model(model);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), text);
    OK(status);
    return model;
}

/* A graph whose inputs %v0, %v1 ... are the operands that are not NULL, and of whose node `node` is the text. */
static inline Model *model_of_text(const Tensor *const *in, int n_in, const char *node) {
    char text[3000];
    size_t n = (size_t)snprintf(text, sizeof text, "tn 1 graph @g(");
    for (int i = 0, seen = 0; i < n_in; i++) {
        if (!in[i]) continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%%v%d: f32[", seen++ ? ", " : "", i);
        for (int d = 0; d < in[i]->rank; d++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", d ? "," : "", (long long)in[i]->dims[d]);
        n += (size_t)snprintf(text + n, sizeof text - n, "]");
    }
    snprintf(text + n, sizeof text - n, ") -> (%%y) { %%y = %s }", node);
    return parse(text);
}

/* A node of operands `in` (NULL: absent); `attrs` as text between braces. */
static inline Model *model_of(const char *op, const Tensor *const *in, int n_in, const char *attrs) {
    char node[1500];
    size_t n = (size_t)snprintf(node, sizeof node, "%s(", op);
    for (int i = 0; i < n_in; i++)
        n += (size_t)snprintf(node + n, sizeof node - n, in[i] ? "%s%%v%d" : "%s_", i ? ", " : "", i);
    snprintf(node + n, sizeof node - n, ") {%s}", attrs);
    return model_of_text(in, n_in, node);
}

typedef struct Case {
    const KernelDesc *kernel;
    Model *model;
    const Tensor *const *in; /* of its one node, NULL: absent; the others are the inputs of the graph */
    int n_in;
    const char *what;
} Case;

/* What is known of the node when it is planned: operands in `constants` with their bytes. */
typedef struct Known {
    KernelQuery q;
    const Tensor *in[OP_MAX_INPUTS];
    Tensor bare[OP_MAX_INPUTS];
} Known;

static inline void plan_case(const Case *k, uint32_t constants, const Tensor *y, Known *known) {
    for (int i = 0; i < k->n_in; i++) {
        known->in[i] = k->in[i];
        if (!k->in[i] || constants & 1u << i) continue;
        known->bare[i] = *k->in[i];
        known->bare[i].data = NULL;
        known->in[i] = &known->bare[i];
    }
    known->q = (KernelQuery){
        .node = k->model->main->first, .n_in = k->n_in, .n_out = 1, .in = known->in, .out = y, .kernel = k->kernel};
}

/* Bit w: the kernel may take way w; bit 0: it may choose. */
static inline uint32_t ways_of(const Case *k, uint32_t constants, const Tensor *y) {
    Known known;
    int usual = 0;
    plan_case(k, constants, y, &known);
    if (!k->kernel->match(&known.q)) return 0;
    uint32_t offered = k->kernel->offers ? k->kernel->offers(&known.q, &usual) : 0;
    assert_true(!offered || (usual > 0 && offered & 1u << (usual - 1)));
    return 1 | offered << 1;
}

/* By the kernel in one of its ways, into memory that lies like `y`. False: it does not match. */
static inline bool run_kernel(const Case *k, uint32_t constants, int threads, int way, Tensor *y) {
    Known known;
    plan_case(k, constants, y, &known);
    KernelQuery q = known.q;
    if (!k->kernel->match(&q)) return false;
    q.way = way;
    Arena scratch;
    Prepared prepared = {0};
    arena_init(&scratch, &ctx->allocator);
    if (k->kernel->prepare) OK(k->kernel->prepare(&q, ctx, &prepared));
    KernelCtx c = {.node = k->model->main->first,
                   .n_in = k->n_in,
                   .n_out = 1,
                   .in = k->in,
                   .out = y,
                   .way = way,
                   .context = ctx,
                   .pool = pools[threads],
                   .scratch = &scratch};
    for (int times = 0; times < 2; times++) { /* scratch memory is not zero the second time */
        ArenaMark mark = arena_mark(&scratch);
        tn_status status = k->kernel->launch(&c, &prepared);
        if (status != TN_OK) print_error("%s\n%s\n", diag_text(), k->what);
        OK(status);
        arena_release(&scratch, mark);
    }
    if (prepared.release) prepared.release(&prepared, &ctx->allocator);
    arena_free(&scratch);
    return true;
}

static inline const char *way_name(const Case *k, int way) { return way ? k->kernel->ways[way - 1].name : "by itself"; }

static inline void assert_near(const Case *k, int way, const float *got, const float *want, int64_t n,
                               double tolerance) {
    double scale = 0, worst = 0;
    int64_t where = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(want[i]) && fabs((double)want[i]) > scale) scale = fabs((double)want[i]);
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - (double)want[i]);
        bool same = isfinite(want[i]) ? error <= tolerance * scale : isnan(want[i]) ? isnan(got[i]) : got[i] == want[i];
        if (same) continue;
        if (!(error <= worst)) worst = error, where = i;
        if (isnan(error)) break;
    }
    if (!(worst <= tolerance * scale))
        print_error("%s at level %s, %s: element %lld of %lld is %g, not %g; the largest is %g\n", k->what,
                    cpu_level_name(cpu_level()), way_name(k, way), (long long)where, (long long)n, (double)got[where],
                    (double)want[where], scale);
    assert_true(worst <= tolerance * scale);
}

static inline void assert_same(const Case *k, int way, const float *first, const float *got, int64_t n, int threads) {
    bool same = memcmp(first, got, (size_t)n * sizeof *got) == 0;
    if (!same)
        print_error("%s at level %s, %s: %d threads give another answer than one\n", k->what,
                    cpu_level_name(cpu_level()), way_name(k, way), threads);
    assert_true(same);
}

static uint32_t tried; /* ways of the kernel, by all cases */

/* One way at the level of now, on one thread and on several. False: the kernel does not match. */
static inline bool check_way(const Case *k, uint32_t constants, int way, double tolerance, const Tensor *want) {
    static const int others[] = {2, 2, 2, 3, 3, 7};
    int64_t n = tensor_count(want);
    float *first = test_calloc((size_t)n + 1, sizeof *first), *got = test_calloc((size_t)n + 1, sizeof *got);
    bool matched = true;
    for (int i = 0; i < 2 && matched; i++) {
        int threads = i == 0 ? 1 : others[pick(0, 5)];
        Tensor y = empty_like(want, i == 0 ? LAST : (Lies)pick(0, N_LIES - 1));
        matched = run_kernel(k, constants, threads, way, &y);
        if (matched) {
            gather(&y, i == 0 ? first : got);
            assert_gaps_kept(&y);
            if (i == 0) assert_near(k, way, first, tensor_bytes(want), n, tolerance);
            else assert_same(k, way, first, got, n, threads);
        }
        tensor_release(&y);
    }
    test_free(first);
    test_free(got);
    return matched;
}

/* At every level and in every way: near the reference, and the same bits for any number of threads and any way to lie. */
static inline bool check_case(const Case *k, uint32_t constants, double tolerance) {
    Tensor want;
    const Tensor *inputs[OP_MAX_INPUTS] = {NULL};
    Tensor aligned[OP_MAX_INPUTS] = {{0}}; /* unlike kernels, the reference reads elements where they belong */
    bool matched = true;
    int n_inputs = 0;
    for (int i = 0; i < k->n_in; i++) {
        if (!k->in[i]) continue;
        OK(tensor_new(ctx, k->in[i]->dtype, k->in[i]->rank, k->in[i]->dims, &aligned[n_inputs]));
        tensor_gather(k->in[i], aligned[n_inputs].data);
        inputs[n_inputs] = &aligned[n_inputs];
        n_inputs++;
    }
    OK(eval_graph(ctx, k->model->main, inputs, &want));
    for (int i = 0; i < n_inputs; i++) tensor_release(&aligned[i]);
    CpuLevel before = cpu_level();
    for (CpuLevel level = CPU_BASELINE; level <= CPU_AVX512 && matched; level++) {
        if (cpu_level_set(level) != level) break;
        Tensor like = empty_like(&want, LAST);
        uint32_t offered = ways_of(k, constants, &like);
        tensor_release(&like);
        matched = offered != 0;
        for (int way = 0; way <= KERNEL_WAYS && matched; way++)
            if (offered & 1u << way) tried |= 1u << way, matched = check_way(k, constants, way, tolerance, &want);
    }
    cpu_level_set(before);
    tensor_release(&want);
    return matched;
}

#endif
