/* SPDX-License-Identifier: Apache-2.0 */
/* Products of float32 matrices on each instruction set that this machine has: gemm_run against sums in double, and the kernel
   of MatMul, Gemm and FusedMatMul against the ops' reference kernels. */
#include "backends/cpu/gemm_int.h"
#include "eval/eval.h"
#include "kernel/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* last: it has a macro `fail` */

#define OK(call) assert_int_equal(call, TN_OK)

extern const KernelDesc kernel_cpu_matmul;

static uint64_t seed = 1;
static int64_t pick(int64_t lo, int64_t hi) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}
static float number(void) { return (float)pick(-1000, 1000) / 500; }
static int64_t pick_of(const int64_t *list, size_t n, int64_t most) {
    return pick(0, 1) ? list[pick(0, (int64_t)n - 1)] : pick(1, most);
}

static const int64_t row_sizes[] = {0, 1, 2, 3, 5, 6, 7, 8, 9, 12, 13, 49, 100};
static const int64_t col_sizes[] = {0, 1, 3, 4, 8, 9, 15, 16, 17, 24, 31, 48, 63, 64, 65, 127, 128, 144};
static const int64_t sum_sizes[] = {0, 1, 2, 3, 16, 17, 64, 100, 768, 769, 1537};
#define PICK_ROWS pick_of(row_sizes, sizeof row_sizes / 8, 120)
#define PICK_COLS pick_of(col_sizes, sizeof col_sizes / 8, 200)
#define PICK_SUM pick_of(sum_sizes, sizeof sum_sizes / 8, 300)

enum { N_POOLS = 4 };
static const int pool_sizes[N_POOLS] = {1, 2, 3, 7};
static Pool *pools[N_POOLS];

static int setup(void **state) {
    (void)state;
    for (int i = 0; i < N_POOLS; i++)
        if (pool_new(&allocator_default, pool_sizes[i], &pools[i]) != TN_OK) return 1;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (int i = 0; i < N_POOLS; i++) pool_free(pools[i]);
    return 0;
}

/* Runs a test once for each instruction set. */
static void each_level(void (*test)(void)) {
    CpuLevel best = cpu_level_set(CPU_AVX512);
    for (CpuLevel level = CPU_BASELINE; level <= best; level++) {
        assert_int_equal(cpu_level_set(level), level);
        test();
    }
}

/* ---- gemm_run ------------------------------------------------------------------------------------------------ */

/* Numbers in a block of their own, so that sanitizers see what is read beyond them; `askew` bytes beyond an aligned address. */
typedef struct Numbers {
    char *block;
    float *data;
    size_t n;
} Numbers;

static Numbers numbers(int64_t n, int askew) {
    Numbers x = {malloc((size_t)n * 4 + (size_t)askew + 1), NULL, (size_t)n};
    x.data = (float *)(void *)(x.block + askew);
    for (int64_t i = 0; i < n; i++) {
        float v = number();
        memcpy((char *)x.data + i * 4, &v, 4);
    }
    return x;
}
static double at(const Numbers *x, int64_t i) {
    float v;
    assert_in_range(i, 0, x->n - 1);
    memcpy(&v, (const char *)x->data + i * 4, 4);
    return v;
}

typedef struct Trial {
    GemmArgs g;
    Numbers a, b, c, bias, residual;
    float *packed;
    int64_t a_at[8], b_at[8], c_at[8], residual_at[8];
    atomic_llong finished;
} Trial;

static void finish(void *arg, int64_t product, int64_t row, int64_t col, float *c, int64_t c_row, int64_t rows,
                   int64_t cols) {
    Trial *t = arg;
    assert_ptr_equal(c, t->g.c + t->c_at[product] + row * t->g.c_row + col);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) c[i * c_row + j] += 1;
    atomic_fetch_add(&t->finished, rows * cols);
}

/* Row and column strides of a matrix that is dense one way or the other, or has gaps; returns its extent. */
static int64_t lay_out(int64_t rows, int64_t cols, int64_t *row, int64_t *col) {
    int64_t gap = pick(0, 1) * pick(1, 5);
    bool turned = pick(0, 2) == 0;
    *row = turned ? 1 : cols + gap;
    *col = turned ? rows + gap : 1;
    return rows && cols ? (rows - 1) * *row + (cols - 1) * *col + 1 : 0;
}

static void make_trial(Trial *t) {
    *t = (Trial){0};
    GemmArgs *g = &t->g;
    int64_t batch = pick(0, 3) ? 1 : pick(0, 8), m = PICK_ROWS, n = PICK_COLS, k = PICK_SUM;
    if (batch > 1) m = pick(0, 20), n = pick(0, 70), k = pick(0, 70);
    *g = (GemmArgs){.m = m, .n = n, .k = k, .batch = batch, .tail = GEMM_PLAIN};
    int64_t a_size = lay_out(m, k, &g->a_row, &g->a_col), b_size = lay_out(k, n, &g->b_row, &g->b_col);
    bool shared_a = pick(0, 1), shared_b = pick(0, 1);
    g->c_row = n + pick(0, 1) * pick(1, 9);
    g->tail.residual_row = n + pick(0, 3);
    int64_t c_size = m * g->c_row, r_size = m * g->tail.residual_row;
    for (int64_t i = 0; i < batch; i++) {
        t->a_at[i] = shared_a ? 0 : i * a_size, t->b_at[i] = shared_b ? 0 : i * b_size;
        t->c_at[i] = i * c_size, t->residual_at[i] = i * r_size;
    }
    t->a = numbers(a_size * batch, pick(0, 5) == 0 ? 2 : 0), t->b = numbers(b_size * batch, pick(0, 3) == 0 ? 1 : 0);
    t->c = numbers(c_size * batch, 0), t->bias = numbers(n, 0), t->residual = numbers(r_size * batch, 0);
    g->a = t->a.data, g->b = t->b.data, g->c = t->c.data;
    g->a_at = shared_a ? NULL : t->a_at, g->b_at = shared_b ? NULL : t->b_at;
    g->c_at = batch == 1 ? NULL : t->c_at, g->residual_at = t->residual_at;
    g->accumulate = pick(0, 3) == 0;
    if (pick(0, 3) == 0) g->tail.alpha = number();
    if (pick(0, 1)) g->tail.bias = t->bias.data;
    if (pick(0, 1)) g->tail.residual = t->residual.data;
    if (pick(0, 2) == 0) g->tail.lo = -0.5F, g->tail.hi = 6;
    if (pick(0, 1)) g->finish = finish, g->arg = t;
    if (batch > 0 && shared_b && pick(0, 1)) {
        t->packed = aligned_alloc(64, gemm_packed_size(k, n) + 64 - gemm_packed_size(k, n) % 64);
        gemm_pack_b(t->packed, g->b, g->b_row, g->b_col, k, n, NULL);
        g->packed = t->packed;
        g->b = NULL;
    }
}

static void free_trial(Trial *t) {
    Numbers *all[] = {&t->a, &t->b, &t->c, &t->bias, &t->residual};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->block);
    free(t->packed);
}

static double expected(const Trial *t, const float *before, int64_t p, int64_t i, int64_t j) {
    const GemmArgs *g = &t->g;
    double sum = g->accumulate ? before[t->c_at[p] + i * g->c_row + j] : 0;
    for (int64_t k = 0; k < g->k; k++)
        sum += at(&t->a, t->a_at[p] + i * g->a_row + k * g->a_col) *
               at(&t->b, t->b_at[p] + k * g->b_row + j * g->b_col);
    sum *= g->tail.alpha;
    if (g->tail.bias) sum += at(&t->bias, j);
    if (g->tail.residual) sum += at(&t->residual, t->residual_at[p] + i * g->tail.residual_row + j);
    sum = fmin(fmax(sum, g->tail.lo), g->tail.hi);
    return g->finish ? sum + 1 : sum;
}

static void check_trial(const Trial *t, const float *before) {
    const GemmArgs *g = &t->g;
    double worst = 0, scale = 4 * sqrt((double)g->k) + 1;
    for (int64_t p = 0; p < g->batch; p++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                double e = fabs(t->c.data[t->c_at[p] + i * g->c_row + j] - expected(t, before, p, i, j));
                if (!(e <= worst)) worst = e;
            }
    if (!(worst <= 1e-5 * scale))
        print_error("%s: m %lld n %lld k %lld batch %lld: off by %g\n", cpu_level_name(cpu_level()), (long long)g->m,
                    (long long)g->n, (long long)g->k, (long long)g->batch, worst);
    assert_true(worst <= 1e-5 * scale);
    for (int64_t p = 0; p < g->batch; p++) /* what lies between the rows stays as it was */
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = g->n; j < g->c_row; j++) {
                int64_t c = t->c_at[p] + i * g->c_row + j;
                assert_memory_equal(&t->c.data[c], &before[c], 4);
            }
}

static void run_products(void) {
    Arena arena;
    arena_init(&arena, &allocator_default);
    for (int turn = 0; turn < 150; turn++) {
        Trial t;
        make_trial(&t);
        size_t size = t.c.n * 4;
        float *before = malloc(size + 1), *first = malloc(size + 1);
        memcpy(before, t.c.data, size);
        for (int i = 0; i < N_POOLS; i++) {
            memcpy(t.c.data, before, size);
            atomic_store(&t.finished, 0);
            t.g.pool = pools[i];
            t.g.scratch = &arena;
            OK(gemm_run(&t.g));
            arena_reset(&arena);
            if (t.g.finish) assert_int_equal(t.finished, t.g.m * t.g.n * t.g.batch);
            if (i == 0) {
                check_trial(&t, before);
                memcpy(first, t.c.data, size);
            }
            assert_memory_equal(first, t.c.data, size);
        }
        free(before);
        free(first);
        free_trial(&t);
    }
    arena_free(&arena);
}
static void test_products(void **state) {
    (void)state;
    each_level(run_products);
}

/* An element is the same whatever is computed beside it, and whether or not B was packed before. */
static void run_places(void) {
    enum { M = 61, N = 203, K = 1700 };
    float *a = malloc(M * K * 4), *b = malloc(K * N * 4), *c = malloc(M * N * 4), *one = malloc(M * N * 4);
    Numbers bias = numbers(N, 0);
    Arena arena;
    arena_init(&arena, &allocator_default);
    for (int i = 0; i < M * K; i++) a[i] = number();
    for (int i = 0; i < K * N; i++) b[i] = number();
    GemmArgs g = {.m = M, .n = N, .k = K, .batch = 1, .a = a, .a_row = K, .a_col = 1, .b = b, .b_row = N, .b_col = 1};
    g.c = c, g.c_row = N, g.scratch = &arena;
    g.tail = GEMM_PLAIN;
    g.tail.alpha = 0.3F, g.tail.bias = bias.data;
    OK(gemm_run(&g));
    for (int64_t m = 2; m <= M; m = m < 14 ? m + 1 : m + 17) {
        int64_t row = pick(0, M - m), col = pick(0, N - 2), n = pick(2, N - col);
        GemmArgs part = g;
        part.m = m, part.n = n, part.a = a + row * K, part.b = b + col, part.c = one, part.c_row = n;
        part.tail.bias = bias.data + col;
        OK(gemm_run(&part));
        for (int64_t i = 0; i < m; i++)
            assert_memory_equal(one + i * n, c + (row + i) * N + col, (size_t)n * sizeof *c);
        arena_reset(&arena);
    }
    arena_free(&arena);
    free(a), free(b), free(c), free(one), free(bias.block);
}
static void test_places(void **state) {
    (void)state;
    each_level(run_places);
}

static void run_not_numbers(void) {
    float a[2] = {NAN, 1}, b[2] = {1, INFINITY}, c[4];
    Arena arena;
    arena_init(&arena, &allocator_default);
    GemmArgs g = {.m = 2, .n = 2, .k = 1, .batch = 1, .a = a, .a_row = 1, .a_col = 1, .b = b, .b_row = 2, .b_col = 1};
    g.c = c, g.c_row = 2, g.scratch = &arena;
    g.tail = (GemmTail){.alpha = 1, .lo = 0, .hi = 6};
    OK(gemm_run(&g));
    assert_true(isnan(c[0]) && isnan(c[1]));
    assert_true(c[2] == 1 && c[3] == 6);
    arena_free(&arena);
}
static void test_not_numbers(void **state) {
    (void)state;
    each_level(run_not_numbers);
}

/* ---- the kernel ---------------------------------------------------------------------------------------------- */

static Context *ctx;

static Model *parse(const char *text) {
    Model *model = NULL;
    tn_status status = model_parse(ctx, str_of(text), NULL, (Str){0}, &model);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), text);
    OK(status);
    return model;
}

/* A tensor of these sizes whose dimensions lie in any order, some repeated. */
static Tensor random_tensor(int rank, const int64_t *dims) {
    Tensor t = {.dtype = TN_F32, .rank = rank}, store;
    int order[TN_MAX_RANK];
    int64_t extent = 1;
    for (int d = 0; d < rank; d++) order[d] = d;
    for (int d = rank - 1; d > 0 && pick(0, 1); d--) {
        int with = (int)pick(0, d), swap = order[d];
        order[d] = order[with], order[with] = swap;
    }
    for (int d = rank - 1; d >= 0; d--) {
        int own = order[d];
        t.dims[own] = dims[own];
        t.strides[own] = pick(0, 9) ? extent : 0;
        extent *= max_i64(dims[own], 1);
    }
    OK(tensor_new(ctx, TN_F32, 1, &extent, &store));
    for (int64_t i = 0; i < extent; i++) ((float *)store.data)[i] = number();
    t.data = store.data;
    t.buffer = store.buffer;
    return t;
}

/* A result of these sizes, dense or with gaps between its rows. */
static Tensor new_result(int rank, const int64_t *dims) {
    int64_t wider[TN_MAX_RANK];
    Tensor t;
    memcpy(wider, dims, (size_t)rank * sizeof *dims);
    if (rank > 1) wider[rank - 1] += pick(0, 1) * pick(1, 9);
    OK(tensor_new(ctx, TN_F32, rank, wider, &t));
    memcpy(t.dims, dims, (size_t)rank * sizeof *dims);
    return t;
}

static void assert_close(const Tensor *result, const Tensor *want, double scale, const char *text) {
    assert_int_equal(tensor_count(result), tensor_count(want));
    Tensor dense, *y = &dense;
    double worst = 0;
    OK(tensor_new(ctx, TN_F32, want->rank, want->dims, &dense));
    tensor_gather(result, dense.data);
    for (int64_t i = 0; i < tensor_count(y); i++) {
        double v = ((float *)want->data)[i], e = fabs(((float *)y->data)[i] - v);
        if (!(e <= worst)) worst = e;
        if (fabs(v) > scale) scale = fabs(v);
    }
    if (!(worst <= 1e-5 * scale)) print_error("%s: off by %g\n%s\n", cpu_level_name(cpu_level()), worst, text);
    assert_true(worst <= 1e-5 * scale);
    tensor_release(&dense);
}

/* Runs the first node of the text on these operands: `fixed` ones are constants of the model to the kernel. */
static uint32_t tried; /* ways of the kernel */

static void run_node(const char *text, Tensor *in, int n_in, uint32_t fixed, double scale) {
    Model *model = parse(text);
    const Node *node = model->main->first;
    Arena scratch;
    Tensor want, y, seen[4];
    const Tensor *ins[4], *query[4];
    OK(infer_model(model));
    arena_init(&scratch, &ctx->allocator);
    for (int i = 0; i < n_in; i++) {
        seen[i] = in[i];
        if (!(fixed & 1u << i)) seen[i].data = NULL;
        query[i] = &seen[i];
    }
    for (size_t i = 0; i < model->main->inputs.len; i++) ins[i] = &in[i];
    tn_status status = eval_graph(ctx, model->main, ins, &want);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), text);
    OK(status);
    y = new_result(want.rank, want.dims);
    Tensor shape = y;
    shape.data = NULL;
    KernelQuery q = {.node = node, .n_in = n_in, .n_out = 1, .in = query, .out = &shape};
    const KernelDesc *kernel;
    OK(kernel_pick(&q, TARGETS_ALL, &kernel));
    assert_ptr_equal(kernel, &kernel_cpu_matmul);
    KernelCtx c = {.node = node, .n_in = n_in, .n_out = 1, .in = ins, .out = &y, .context = ctx, .scratch = &scratch};
    int usual = 0;
    uint32_t offered = kernel->offers(&q, &usual);
    assert_true(!offered || (usual > 0 && offered & 1u << (usual - 1)));
    for (int way = 0; way <= KERNEL_WAYS; way++) { /* 0: by itself */
        if (way > 0 && !(offered & 1u << (way - 1))) continue;
        tried |= 1u << way;
        Prepared prepared = {0};
        q.way = c.way = way;
        OK(kernel->prepare(&q, ctx, &prepared));
        c.pool = pools[pick(0, N_POOLS - 1)];
        for (int turn = 0; turn < 2; turn++) {
            memset(y.buffer->data, 0xff, y.buffer->size);
            OK(kernel->launch(&c, &prepared));
            arena_reset(&scratch);
            assert_close(&y, &want, scale, text);
        }
        if (prepared.release) prepared.release(&prepared, &ctx->allocator);
    }
    tensor_release(&want);
    tensor_release(&y);
    arena_free(&scratch);
    model_free(model);
}

static void run_matmul(void) {
    for (int turn = 0; turn < 120; turn++) {
        bool fused = pick(0, 1), ta = fused && pick(0, 1), tb = fused && pick(0, 1);
        int ra = (int)pick(1, 5), rb = (int)pick(1, 5), most = (int)max_i64(ra, rb);
        int64_t batch[5], a[5], b[5], m = pick(0, 12) ? pick(1, 20) : 0, n = pick(0, 12) ? pick(1, 70) : 0;
        int64_t k = pick(0, 12) ? pick(1, 40) : 0;
        for (int d = 0; d < 5; d++) batch[d] = pick(0, 20) ? pick(1, 3) : 0;
        for (int d = 0; d + 2 < ra; d++) a[d] = pick(0, 2) ? batch[most - ra + d] : 1;
        for (int d = 0; d + 2 < rb; d++) b[d] = pick(0, 2) ? batch[most - rb + d] : 1;
        if (ra > 1) a[ra - 2] = ta ? k : m;
        a[ra - 1] = ta && ra > 1 ? m : k;
        if (rb > 1) b[rb - 2] = tb ? n : k;
        b[rb - 1] = rb > 1 && !tb ? n : k;
        bool turn_a = fused && ra > 2 && pick(0, 1), turn_b = fused && rb > 2 && pick(0, 1);
        if (turn_a) { /* what transBatchA takes apart again: the rows before the stack */
            int64_t rows = a[ra - 2];
            memmove(a + 1, a, (size_t)(ra - 2) * sizeof *a);
            a[0] = rows;
        }
        if (turn_b) {
            int64_t rows = b[rb - 2];
            memmove(b + 1, b, (size_t)(rb - 2) * sizeof *b);
            b[0] = rows;
        }
        if (turn_a && ta) a[0] = k, a[ra - 1] = m;
        if (turn_b && tb) b[0] = n, b[rb - 1] = k;
        char text[400];
        snprintf(
            text, sizeof text, "tn 1 graph @g(%%a: f32[*], %%b: f32[*]) -> (%%y) { %%y = %s(%%a, %%b) %s%s%s%s%s%s }",
            fused ? "com.microsoft.FusedMatMul" : "MatMul", fused ? "{alpha=0.25" : "", ta ? ", transA=1" : "",
            tb ? ", transB=1" : "", turn_a ? ", transBatchA=1" : "", turn_b ? ", transBatchB=1" : "", fused ? "}" : "");
        Tensor in[2] = {random_tensor(ra, a), random_tensor(rb, b)};
        run_node(text, in, 2, (uint32_t)pick(0, 3), 4 * sqrt((double)k) + 1);
        tensor_release(&in[0]);
        tensor_release(&in[1]);
    }
}
static void test_matmul(void **state) {
    (void)state;
    each_level(run_matmul);
    for (int way = 1; kernel_cpu_matmul.ways[way - 1].name; way++) assert_true(tried & 1u << way);
}

static void run_gemm(void) {
    for (int turn = 0; turn < 80; turn++) {
        bool ta = pick(0, 1), tb = pick(0, 1);
        int64_t m = PICK_ROWS, n = PICK_COLS, k = PICK_SUM;
        int64_t a[2] = {ta ? k : m, ta ? m : k}, b[2] = {tb ? n : k, tb ? k : n};
        int n_in = (int)pick(2, 3), rank = (int)pick(0, 2);
        int64_t s[2] = {pick(0, 1) ? m : 1, pick(0, 2) ? n : 1};
        char text[400];
        snprintf(text, sizeof text,
                 "tn 1 graph @g(%%a: f32[*], %%b: f32[*], %%c: f32[*]) -> (%%y) { %%y = Gemm(%%a, %%b%s) {alpha=%s, "
                 "beta=%s, transA=%d, transB=%d} }",
                 n_in > 2 ? ", %c" : "", pick(0, 1) ? "1.0" : "0.5",
                 pick(0, 1)   ? "1.0"
                 : pick(0, 1) ? "0.0"
                              : "-2.0",
                 ta, tb);
        Tensor in[3] = {random_tensor(2, a), random_tensor(2, b), random_tensor(rank, s + 2 - rank)};
        run_node(text, in, n_in, (uint32_t)pick(0, 7), 4 * sqrt((double)k) + 1);
        for (int i = 0; i < 3; i++) tensor_release(&in[i]);
    }
}
static void test_gemm(void **state) {
    (void)state;
    each_level(run_gemm);
}

/* What stands behind the product %p, with operands %k and %l. */
static const char *const tails[] = {
    "%y = Add(%p, %k)",
    "%q = Add(%p, %k) %y = Relu(%q)",
    "%q = Add(%p, %k) %r = Add(%q, %l) %y = Relu(%r)",
    "%q = Add(%l, %p) %y = Clip(%q, 0.0, 6.0)",
    "%y = Relu(%p)",
    "%q = Mul(%p, 0.5) %r = Mul(%p, 0.7071) %s = Erf(%r) %t = Add(%s, 1.0) %y = Mul(%q, %t)",
    "%q = Add(%p, %k) %r = Sigmoid(%q) %s = Mul(%q, %r) %y = Sub(%s, %l)",
    "%q = Mul(%p, %k) %y = Max(%q, %l)",
};

/* Sizes of an operand that is added to the result: all of it, or with dimensions left out or of size 1. */
static Tensor random_summand(int rank, const int64_t *dims) {
    int64_t own[5];
    int left_out = pick(0, 1) ? 0 : (int)pick(0, rank - 1);
    for (int d = 0; d < rank; d++) own[d] = pick(0, 3) ? dims[d] : 1;
    if (pick(0, 1)) memcpy(own, dims, (size_t)rank * sizeof *own);
    return random_tensor(rank - left_out, own + left_out);
}

static void run_fused(void) {
    for (int turn = 0; turn < 120; turn++) {
        size_t which = (size_t)pick(0, sizeof tails / sizeof *tails - 1);
        int ra = (int)pick(2, 5), rb = pick(0, 1) ? 2 : (int)pick(2, 5), rank = (int)max_i64(ra, rb);
        int64_t a[5], b[5], y[5], m = pick(1, 30), n = pick(1, 100), k = pick(0, 9) ? pick(1, 40) : 0;
        for (int d = 0; d < 5; d++) y[d] = pick(1, 3);
        for (int d = 0; d + 2 < ra; d++) a[d] = ra == rank ? y[d] : 1;
        for (int d = 0; d + 2 < rb; d++) b[d] = pick(0, 1) ? y[rank - rb + d] : 1;
        if (ra < rank) memcpy(b, y, sizeof b);
        a[ra - 2] = m, a[ra - 1] = k, b[rb - 2] = k, b[rb - 1] = n;
        y[rank - 2] = m, y[rank - 1] = n;
        bool gemm = rank == 2 && pick(0, 1);
        char text[900];
        snprintf(text, sizeof text,
                 "tn 1 graph @g(%%a: f32[*], %%b: f32[*], %%c: f32[*], %%d: f32[*]) -> (%%z) {\n"
                 "  %%z = tn.Fused(%%a, %%b, %%c, %%d) {body = graph(%%i, %%j, %%k, %%l) -> (%%y) {\n"
                 "    %%p = %s\n    %s }} }",
                 !gemm        ? "MatMul(%i, %j)"
                 : pick(0, 1) ? "Gemm(%i, %j, %k) {beta=0.5}"
                              : "Gemm(%i, %j, %l) {alpha=2.0}",
                 tails[which]);
        Tensor in[4] = {random_tensor(ra, a), random_tensor(rb, b), random_summand(rank, y), random_summand(rank, y)};
        run_node(text, in, 4, (uint32_t)pick(0, 15), 4 * sqrt((double)k) + 1);
        for (int i = 0; i < 4; i++) tensor_release(&in[i]);
    }
}
static void test_fused(void **state) {
    (void)state;
    each_level(run_fused);
}

static int setup_kernels(void **state) {
    (void)state;
    return context_new(NULL, NULL, &ctx) != TN_OK;
}
static int teardown_kernels(void **state) {
    (void)state;
    context_unref(ctx);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_not_numbers),
        cmocka_unit_test_setup_teardown(test_matmul, setup_kernels, teardown_kernels),
        cmocka_unit_test_setup_teardown(test_gemm, setup_kernels, teardown_kernels),
        cmocka_unit_test_setup_teardown(test_fused, setup_kernels, teardown_kernels),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
