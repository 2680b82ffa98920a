/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of CPU kernels share: operands in all kinds of readings, a node run by a given kernel on any level and any number
   of threads, and comparison with the reference kernels. */
#ifndef TEST_CPU_NODES_H
#define TEST_CPU_NODES_H

#include <math.h>

#include "test_ir_common.h"

#include "backends/cpu/isa_int.h"
#include "eval/eval.h"
#include "kernel/kernel.h"

static uint64_t seed;

static inline int pick(int low, int high) { return low + (int)(next_random(&seed) % (uint64_t)(high - low + 1)); }
static inline float uniform(float low, float high) {
    return low + (high - low) * (float)(next_random(&seed) >> 40) * 0x1p-24f;
}

static const float specials[] = {0.0f,  -0.0f,  INFINITY, -INFINITY, NAN,    1.0f,    -1.0f, 0.5f,  -0.5f, 1.5f,
                                 2.5f,  -2.5f,  1e-40f,   -1e-40f,   1e30f,  -1e30f,  3.0f,  -3.0f, 6.0f,  1e-8f,
                                 20.0f, -20.0f, 1e10f,    88.0f,     -88.0f, -104.0f, 9.0f,  -9.0f};

/* ---- operands ------------------------------------------------------------------------------------------------------ */

typedef struct Operand {
    Tensor t;     /* the reading that the kernel gets */
    Tensor dense; /* the same numbers, for the reference */
} Operand;

/* Dimensions in a random order, now and then with gaps. */
static inline int64_t random_strides(Tensor *t) {
    int order[TN_MAX_RANK];
    int64_t size = pick(0, 5) == 0 ? 2 : 1;
    for (int k = 0; k < t->rank; k++) {
        int at = pick(0, k);
        order[k] = order[at];
        order[at] = k;
    }
    for (int k = t->rank; k-- > 0;) {
        t->strides[order[k]] = size;
        size *= t->dims[order[k]] + (pick(0, 7) == 0);
    }
    return size;
}

static inline void put_number(const Tensor *t, int64_t at, float value) {
    if (t->dtype == TN_BOOL) ((uint8_t *)t->data)[at] = value > 0;
    else if (t->dtype == TN_F32) ((float *)t->data)[at] = value;
    else store_f32(t->dtype, t->data, at, 1, &value, 1);
}

/* `how`: 0: numbers within -spread..spread, 1: also special ones. `strided`: in any order and with gaps. */
static inline void make_operand(Context *ctx, tn_dtype dtype, int rank, const int64_t *dims, float spread, bool special,
                                bool strided, Operand *out) {
    int64_t at[TN_MAX_RANK] = {0}, n;
    OK(tensor_new(ctx, dtype, rank, dims, &out->dense));
    Tensor like = out->dense;
    n = tensor_count(&like);
    int64_t room = strided ? random_strides(&like) : n, offset = strided ? pick(0, 3) : 0, want = room + offset + 1;
    OK(tensor_new(ctx, dtype, 1, &want, &out->t));
    void *data = out->t.data;
    Buffer *buffer = out->t.buffer;
    out->t = like;
    out->t.data = data, out->t.buffer = buffer, out->t.offset = offset;
    for (int64_t i = 0; i < n; i++) {
        float value = special && pick(0, 2) == 0 ? specials[pick(0, sizeof specials / sizeof *specials - 1)]
                                                 : uniform(-spread, spread);
        int64_t to = offset;
        for (int k = 0; k < rank; k++) to += at[k] * like.strides[k];
        put_number(&out->dense, i, value);
        put_number(&out->t, to, value);
        for (int k = rank; k-- > 0 && ++at[k] == dims[k];) at[k] = 0;
    }
}

static inline void free_operand(Operand *o) {
    tensor_release(&o->t);
    tensor_release(&o->dense);
}

/* ---- models -------------------------------------------------------------------------------------------------------- */

static inline Model *parse_model(Context *ctx, const char *text) {
    Model *model = NULL;
    tn_status status = model_parse(ctx, str_of(text), NULL, (Str){0}, &model);
    if (status == TN_OK) status = infer_model(model);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), text);
    OK(status);
    return model;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

/* How results lie. */
typedef enum Lie { LAYOUT_DENSE, LAYOUT_LIKED, LAYOUT_ANY } Lie;

typedef struct Ran {
    Tensor out[OP_MAX_OUTPUTS];
    int n;
} Ran;

static inline void free_ran(Ran *ran) {
    for (int i = 0; i < ran->n; i++) tensor_release(&ran->out[i]);
}

/* Runs the node by the kernel into fresh memory that holds 0xab; false where it does not match. `like` gives dims and element
   types of the results. */
static inline bool run_kernel(Context *ctx, const KernelDesc *kernel, const Node *node, const Tensor *const *in,
                              const Tensor *like, int threads, Lie layout, Ran *ran) {
    Pool *pool;
    Arena scratch;
    Prepared prepared = {0};
    KernelQuery q = {.node = node, .n_in = (int)node->n_operands, .n_out = (int)node->n_results, .in = in};
    Tensor shapes[OP_MAX_OUTPUTS];
    ran->n = q.n_out;
    for (int i = 0; i < q.n_out; i++) {
        tensor_set_dense(&shapes[i], like[i].dtype, like[i].rank, like[i].dims);
        shapes[i].kind = TYPE_TENSOR;
        shapes[i].data = NULL, shapes[i].buffer = NULL;
    }
    q.out = shapes;
    q.kernel = kernel;
    if (!kernel->match(&q)) {
        ran->n = 0;
        return false;
    }
    for (int i = 0; i < q.n_out && layout == LAYOUT_LIKED && kernel->order; i++) kernel->order(&q, i, &shapes[i]);
    for (int i = 0; i < q.n_out; i++) {
        int64_t room = layout == LAYOUT_ANY ? random_strides(&shapes[i]) : tensor_count(&like[i]);
        OK(tensor_new(ctx, like[i].dtype, 1, &room, &ran->out[i]));
        memset(ran->out[i].data, 0xab, (size_t)(room * dtype_size(like[i].dtype)));
        shapes[i].data = ran->out[i].data, shapes[i].buffer = ran->out[i].buffer;
        ran->out[i] = shapes[i];
    }
    q.out = ran->out;
    if (kernel->prepare) OK(kernel->prepare(&q, ctx, &prepared));
    OK(pool_new(&ctx->allocator, threads, &pool));
    arena_init(&scratch, &ctx->allocator);
    KernelCtx c = {.node = node,
                   .n_in = q.n_in,
                   .n_out = q.n_out,
                   .in = in,
                   .out = ran->out,
                   .context = ctx,
                   .pool = pool,
                   .scratch = &scratch};
    OK(kernel->launch(&c, &prepared));
    arena_free(&scratch);
    pool_free(pool);
    if (prepared.release) prepared.release(&prepared, &ctx->allocator);
    return true;
}

/* ---- comparing ----------------------------------------------------------------------------------------------------- */

typedef struct Within {
    double absolute, relative;
} Within;

static inline bool is_near(double a, double b, Within w) {
    if (a != a || b != b) return a != a && b != b;
    return a == b || fabs(a - b) <= w.absolute + w.relative * fabs(b);
}

static inline double number_at(const Tensor *t, const int64_t *at) {
    int64_t offset = t->offset;
    double value;
    for (int k = 0; k < t->rank; k++) offset += at[k] * t->strides[k];
    if (t->dtype == TN_BOOL) return ((const uint8_t *)t->data)[offset];
    load_f64(&value, t->dtype, t->data, offset, 1, 1);
    return value;
}

/* The first element that differs is told. */
static inline bool all_near(const Tensor *a, const Tensor *b, Within w) {
    int64_t at[TN_MAX_RANK] = {0};
    for (int64_t i = 0, n = tensor_count(b); i < n; i++) {
        double x = number_at(a, at), y = number_at(b, at);
        if (!is_near(x, y, w)) {
            print_error("element %lld is %.9g instead of %.9g\n", (long long)i, x, y);
            return false;
        }
        for (int k = b->rank; k-- > 0 && ++at[k] == b->dims[k];) at[k] = 0;
    }
    return true;
}

static inline bool same_bits(const Ran *a, const Ran *b) {
    for (int i = 0; i < a->n; i++) {
        size_t bytes = (size_t)(tensor_count(&a->out[i]) * dtype_size(a->out[i].dtype));
        char *x = calloc(bytes + 1, 1), *y = calloc(bytes + 1, 1);
        tensor_gather(&a->out[i], x);
        tensor_gather(&b->out[i], y);
        bool same = memcmp(x, y, bytes) == 0;
        free(x);
        free(y);
        if (!same) return false;
    }
    return true;
}

/* The levels that this machine has, from the lowest. */
#define EACH_LEVEL(level, best)                                 \
    CpuLevel best = cpu_level_set(CPU_AVX512);                  \
    for (CpuLevel level = CPU_BASELINE; level <= best; level++) \
        if (cpu_level_set(level) == level)

#endif
