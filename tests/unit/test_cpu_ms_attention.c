/* SPDX-License-Identifier: Apache-2.0 */
/* The attention ops of com.microsoft on the CPU against their reference kernels. */
#include "test_cpu_common.h"

extern const KernelDesc kernel_cpu_ms_attention, kernel_cpu_group_query;

static const int64_t lengths[] = {1, 2, 3, 7, 17, 33, 64, 65, 100};
static const int64_t sizes[] = {1, 3, 8, 15, 16, 32, 64};
#define PICK(list) ((list)[random_below((int64_t)(sizeof(list) / sizeof *(list)))])

typedef struct Sizes {
    int64_t batch, heads, steps, keys, past, size, v_size;
} Sizes;

static Sizes random_sizes(void) {
    Sizes s = {.batch = random_from(1, 3), .heads = random_from(1, 3), .steps = PICK(lengths), .size = PICK(sizes)};
    if (random_chance(20)) s.steps = 1;
    s.keys = s.steps;
    s.v_size = s.size;
    if (random_chance(3)) s.batch = 0;
    return s;
}

static void put(Case *k, int i, int rank, const int64_t *dims, float factor) {
    k->in[i] = random_floats(k->ctx, rank, dims, factor);
    k->has[i] = true;
}
#define PUT(k, i, factor, ...) \
    put(k, i, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__}, factor)

/* Numbers of keys, ranges of them, keys, or scores. */
static void add_masks(Case *k, const Sizes *s, int mask, int added) {
    int64_t total = s->past + s->keys;
    int form = random_chance(40) ? -1 : (int)random_below(4);
    int64_t n = form == 0   ? s->batch
                : form == 1 ? 2 * s->batch
                : form == 2 ? s->batch * total
                            : s->batch * s->steps * total;
    if (form >= 0) {
        Tensor t = some_integers(k->ctx, TN_I32, n, 0, form < 2 ? total : 1);
        if (form == 2) t.rank = 2, t.dims[0] = s->batch, t.dims[1] = total;
        if (form == 3) t.rank = 3, t.dims[0] = s->batch, t.dims[1] = s->steps, t.dims[2] = total;
        Tensor dense;
        tensor_set_dense(&dense, TN_I32, t.rank, t.dims);
        memcpy(t.strides, dense.strides, sizeof t.strides);
        k->in[mask] = t;
        k->has[mask] = true;
    }
    if (form != 3 && random_chance(40))
        PUT(k, added, 2, random_chance(50) ? 1 : s->batch, random_chance(50) ? 1 : s->heads, s->steps, total);
}

static void multi_head(Case *k, Sizes *s) {
    int form = (int)random_below(4);
    int64_t b = s->batch, h = s->heads;
    if (form > 1 && random_chance(50)) s->v_size = PICK(sizes);
    if (form && random_chance(50)) s->keys = PICK(lengths);
    if (random_chance(30)) s->past = PICK(lengths);
    k->n_in = 8, k->n_out = random_chance(50) ? 1 : 3;
    if (form == 0) PUT(k, 0, 1.5f, b, s->steps, h, 3, s->size);
    else PUT(k, 0, 1.5f, b, s->steps, h * s->size);
    if (form == 1) PUT(k, 1, 1.5f, b, s->keys, h, 2, s->size);
    if (form == 2) PUT(k, 1, 1.5f, b, s->keys, h * s->size);
    if (form == 2) PUT(k, 2, 1, b, s->keys, h * s->v_size);
    if (form == 3) PUT(k, 1, 1.5f, b, h, s->keys, s->size);
    if (form == 3) PUT(k, 2, 1, b, h, s->keys, s->v_size);
    if (random_chance(50)) PUT(k, 3, 0.5f, h * (2 * s->size + s->v_size));
    add_masks(k, s, 4, 5);
    if (s->past) PUT(k, 6, 1.5f, b, h, s->past, s->size);
    if (s->past) PUT(k, 7, 1, b, h, s->past, s->v_size);
}

static void joint(Case *k, Sizes *s, char *attrs, size_t room) {
    int64_t b = s->batch, h = s->heads, input = random_from(1, 40);
    if (random_chance(30)) s->past = PICK(lengths);
    bool present = s->past || random_chance(30);
    if (!present && random_chance(50)) s->v_size = PICK(sizes);
    k->n_in = 6, k->n_out = present ? 2 : 1;
    PUT(k, 0, 1, b, s->steps, input);
    PUT(k, 1, 0.5f, input, h * (2 * s->size + s->v_size));
    k->fixed[1] = random_chance(50);
    if (random_chance(70)) PUT(k, 2, 0.5f, h * (2 * s->size + s->v_size));
    add_masks(k, s, 3, 5);
    if (s->past) PUT(k, 4, 1, 2, b, h, s->past, s->size);
    if (s->v_size != s->size)
        snprintf(attrs, room, ", qkv_hidden_sizes=[%d, %d, %d]", (int)(h * s->size), (int)(h * s->size),
                 (int)(h * s->v_size));
}

static void random_case(Context *ctx, Case *k, int n) {
    bool is_joint = n % 2;
    char attrs[300], more[100] = "";
    Sizes s = random_sizes();
    *k = (Case){.ctx = ctx};
    if (is_joint) joint(k, &s, more, sizeof more);
    else multi_head(k, &s);
    for (int i = 0; i < k->n_out; i++) k->wanted[i] = i == 0 || random_chance(70);
    /* Less than onnxruntime's -10000: scores that all are so low would have few digits left. */
    snprintf(attrs, sizeof attrs, "num_heads=%d, unidirectional=%d, mask_filter_value=-20.0%s%s", (int)s.heads,
             (int)random_chance(40), random_chance(30) ? ", scale=0.3" : "", more);
    case_node(k, is_joint ? "com.microsoft.Attention" : "com.microsoft.MultiHeadAttention", attrs);
}

/* ---- GroupQueryAttention ------------------------------------------------------------------------------------------ */

static Tensor int_values(Context *ctx, tn_dtype dtype, int rank, const int64_t *dims, const int64_t *values) {
    Tensor t = random_reading(ctx, dtype, rank, dims, true);
    for (int64_t i = 0; i < tensor_count(&t); i++) store_i64(dtype, t.data, i, 1, &values[i], 1);
    return t;
}

/* Lengths of batch entries: all steps are new, or the last ones behind a cache. */
static void add_lengths(Case *k, const Sizes *s, int64_t total) {
    int64_t last[3];
    bool prompt = total == s->steps;
    for (int64_t b = 0; b < s->batch; b++)
        last[b] = prompt ? random_from(0, total - 1) : random_from(s->steps, min_i64(s->past + s->steps, total)) - 1;
    k->in[5] = int_values(k->ctx, TN_I32, 1, &s->batch, last);
    k->in[6] = int_values(k->ctx, TN_I32, 1, (const int64_t[]){1}, &total);
    k->has[5] = k->has[6] = true;
}

static void add_rotary(Case *k, const Sizes *s, int64_t total) {
    int64_t half = random_from(1, s->size / 2), rows = total + s->steps + 5, positions[3 * 100];
    const int64_t dims[] = {s->batch, s->steps};
    PUT(k, 7, 1, rows, half);
    PUT(k, 8, 1, rows, half);
    if (random_chance(60)) return;
    for (int64_t i = 0; i < s->batch * s->steps; i++) positions[i] = random_from(0, total + 4);
    k->in[9] = int_values(k->ctx, TN_I64, 2, dims, positions);
    k->has[9] = true;
}

static void group_query(Context *ctx, Case *k, int n) {
    bool packed = n % 2;
    char attrs[400];
    Sizes s = random_sizes();
    int64_t group = random_from(1, 4), b = s.batch, h = s.heads, heads = h * group;
    bool rotary = s.size > 1 && random_chance(50);
    if (random_chance(70)) s.past = PICK(lengths);
    /* Longer than what is cached and new, or a cache with room behind what counts. */
    int64_t total = s.past && random_chance(50) ? random_from(s.steps, s.past + s.steps) : s.past + s.steps;
    *k = (Case){.ctx = ctx, .n_in = 12, .n_out = random_chance(20) ? 1 : 3};
    if (packed) PUT(k, 0, 1.5f, b, s.steps, (heads + 2 * h) * s.size);
    else PUT(k, 0, 1.5f, b, s.steps, heads * s.size);
    for (int i = 1; !packed && i < 3; i++) PUT(k, i, 1, b, s.steps, h * s.size);
    for (int i = 3; s.past && i < 5; i++) PUT(k, i, 1, b, h, s.past, s.size);
    add_lengths(k, &s, total);
    if (rotary) add_rotary(k, &s, total);
    if (random_chance(30)) PUT(k, 10, 2, random_chance(50) ? 1 : b, random_chance(50) ? 1 : heads, s.steps, total);
    if (random_chance(20)) PUT(k, 11, 2, heads);
    for (int i = 0; i < k->n_out; i++) k->wanted[i] = i == 0 || random_chance(80);
    snprintf(attrs, sizeof attrs,
             "num_heads=%d, kv_num_heads=%d, do_rotary=%d, rotary_interleaved=%d, causal=%d, local_window_size=%d, "
             "smooth_softmax=%d, softcap=%s",
             (int)heads, (int)h, rotary, (int)random_chance(50), (int)random_chance(80),
             random_chance(30) ? (int)random_from(0, 40) : -1, (int)random_chance(15),
             random_chance(20) ? "3.0" : "0.0");
    case_node(k, "com.microsoft.GroupQueryAttention", attrs);
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

static void test_random(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int n = 0; n < 400; n++)
        case_random(ctx, n, (uint64_t)n * 7919 + 3, random_case, &kernel_cpu_ms_attention, 1e-5);
    context_unref(ctx);
}

static void test_group_query(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int n = 0; n < 400; n++)
        case_random(ctx, n, (uint64_t)n * 7919 + 3, group_query, &kernel_cpu_group_query, 1e-5);
    context_unref(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_group_query)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
