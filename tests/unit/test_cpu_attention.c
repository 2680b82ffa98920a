/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on the CPU against its reference kernel: random sizes, readings, masks, windows, caches. */
#include "test_cpu_common.h"

extern const KernelDesc kernel_cpu_attention;

typedef struct Sizes {
    int64_t batch, heads, group, steps, keys, past, size, v_size;
    bool split;
} Sizes;

static const int64_t lengths[] = {1, 2, 3, 7, 16, 17, 49, 63, 64, 65, 100, 129, 200};
static const int64_t sizes[] = {1, 3, 8, 15, 16, 17, 32, 48, 64, 80, 128};
#define PICK(list) ((list)[random_below((int64_t)(sizeof(list) / sizeof *(list)))])

static Sizes random_sizes(void) {
    Sizes s = {.batch = random_from(1, 2), .heads = random_from(1, 3), .split = random_chance(50)};
    s.group = random_chance(30) ? random_from(2, 4) : 1;
    s.steps = random_chance(30) ? random_from(1, 5) : PICK(lengths);
    s.keys = random_chance(30) ? s.steps : PICK(lengths);
    s.past = random_chance(30) ? PICK(lengths) : 0;
    s.size = PICK(sizes);
    s.v_size = random_chance(70) ? s.size : PICK(sizes);
    if (random_chance(3)) s.steps = 0;
    if (random_chance(3)) s.keys = 0;
    if (random_chance(2)) s.batch = 0;
    if (random_chance(2)) s.v_size = 0;
    if (random_chance(2) && s.split) s.size = 0;
    return s;
}

static Tensor heads_of(Case *k, const Sizes *s, int64_t heads, int64_t steps, int64_t size, float factor) {
    const int64_t four[] = {s->batch, heads, steps, size}, three[] = {s->batch, steps, heads * size};
    return s->split ? random_floats(k->ctx, 4, four, factor) : random_floats(k->ctx, 3, three, factor);
}

static void add_mask(Case *k, const Sizes *s) {
    int64_t dims[4] = {s->batch, s->heads * s->group, s->steps, s->keys + s->past}, start = random_from(0, 3);
    for (int d = 0; d < 3; d++)
        if (random_chance(50)) dims[d] = 1;
    if (random_chance(15)) dims[3] = random_from(0, dims[3]);
    tn_dtype dtype = random_chance(50) ? TN_BOOL : TN_F32;
    Tensor t = random_reading(k->ctx, dtype, 4 - (int)start, dims + start, random_chance(50));
    int hidden = random_chance(20) ? 100 : (int)random_from(0, 60);
    for (TensorRows r = tensor_rows(&t); tensor_next_row(&r);) {
        bool blind = random_chance(10);
        for (int64_t i = 0; i < r.n; i++) {
            int64_t at = r.offset + i * r.stride;
            bool no = blind || random_chance(hidden);
            float low = random_chance(50) ? -INFINITY : -20; /* scores less 10000 would have few digits left */
            if (dtype == TN_BOOL) ((uint8_t *)t.data)[at] = !no;
            else ((float *)t.data)[at] = no ? low : 3 * random_float();
        }
    }
    k->in[3] = t;
    k->has[3] = true;
}

static void add_past(Case *k, const Sizes *s) {
    const int64_t key[] = {s->batch, s->heads, s->past, s->size}, value[] = {s->batch, s->heads, s->past, s->v_size};
    k->in[4] = random_floats(k->ctx, 4, key, 2);
    k->in[5] = random_floats(k->ctx, 4, value, 1);
    k->has[4] = k->has[5] = true;
}

/* `all`: each query sees each key, but for the mask. */
static void write_attrs(const Sizes *s, bool all, char *text, size_t room) {
    size_t n = (size_t)snprintf(text, room, "is_causal=%d", !all && random_chance(40));
#define SAY(...) n += (size_t)snprintf(text + n, room - n, __VA_ARGS__)
    if (!s->split) SAY(", q_num_heads=%d, kv_num_heads=%d", (int)(s->heads * s->group), (int)s->heads);
    if (random_chance(20) || s->size == 0) SAY(", scale=0.37");
    if (random_chance(20)) SAY(", softcap=2.5");
    if (!all && random_chance(15)) SAY(", left_window_size=%d", (int)random_from(0, 70));
    if (!all && random_chance(15)) SAY(", right_window_size=%d", (int)random_from(0, 70));
    if (random_chance(10)) SAY(", softmax_precision=1");
#undef SAY
}

/* Infinities and NaNs where a query meets them: in a row of Q or K. */
static void add_extremes(Case *k) {
    static const float values[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-40f};
    Tensor *t = &k->in[random_below(2)];
    if (tensor_count(t) == 0) return;
    TensorRows r = tensor_rows(t);
    for (int64_t skip = random_below(4); tensor_next_row(&r) && skip > 0;) skip--;
    ((float *)t->data)[r.offset] = PICK(values);
}

static void random_case(Context *ctx, Case *k, int n) {
    (void)n;
    char attrs[300];
    Sizes s = random_sizes();
    *k = (Case){.ctx = ctx, .n_in = 7, .n_out = random_chance(50) ? 1 : 3, .has = {true, true, true}};
    k->in[0] = heads_of(k, &s, s.heads * s.group, s.steps, s.size, 2);
    k->in[1] = heads_of(k, &s, s.heads, s.keys, s.size, 2);
    k->in[2] = heads_of(k, &s, s.heads, s.keys, s.v_size, 1);
    if (s.past && random_chance(80)) add_past(k, &s);
    else s.past = 0;
    bool extreme = random_chance(20);
    if (!k->has[4] && !extreme && random_chance(20)) {
        k->in[6] = some_integers(ctx, TN_I64, s.batch, 0, s.keys);
        k->has[6] = true;
    }
    if (random_chance(50)) add_mask(k, &s);
    if (extreme) add_extremes(k);
    for (int i = 0; i < 3; i++) k->wanted[i] = i == 0 || random_chance(70);
    write_attrs(&s, extreme, attrs, sizeof attrs);
    case_node(k, "Attention", attrs);
}

static void test_random(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int n = 0; n < 400; n++)
        case_random(ctx, n, (uint64_t)n * 7919 + 12345, random_case, &kernel_cpu_attention, 1e-5);
    context_unref(ctx);
}

/* A cache with room behind it, where present keys and values begin with past ones. */
static void test_cache_in_place(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int n = 0; n < 40; n++) {
        Case k = {.ctx = ctx, .n_in = 6, .n_out = 3, .has = {true, true, true, false, true, true}, .wanted = {1, 1, 1}};
        Tensor out[3] = {0};
        random_state = (uint64_t)n + 99;
        Sizes s = {.batch = 2, .heads = 3, .group = 1, .split = true, .size = PICK(sizes)};
        s.v_size = s.size, s.steps = s.keys = n % 2 ? 1 : PICK(lengths), s.past = PICK(lengths);
        const int64_t room[] = {s.batch, s.heads, s.past + s.keys + 5, s.size};
        for (int i = 0; i < 3; i++) k.in[i] = heads_of(&k, &s, s.heads, s.steps, s.size, 1);
        for (int i = 0; i < 2; i++) {
            out[1 + i] = random_reading(ctx, TN_F32, 4, room, true);
            fill_floats(&out[1 + i], 1);
            k.in[4 + i] = out[1 + i];
            k.in[4 + i].dims[2] = s.past;
            out[1 + i].dims[2] = s.past + s.keys;
            k.in[4 + i].buffer = NULL;
        }
        case_node(&k, "Attention", n % 3 ? "is_causal=1" : "is_causal=0");
        case_results(&k, k.want, true);
        OK(case_run(&k, NULL, NULL, k.want));
        case_results(&k, out, true);
        OK(case_run(&k, &kernel_cpu_attention, NULL, out));
        for (int i = 0; i < 3; i++) assert_true(difference(&k.want[i], &out[i]) < 1e-5);
        release_all(out, 3);
        case_free(&k);
    }
    context_unref(ctx);
}

/* What other kernels are for. */
static void test_declined(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int n = 0; n < 4; n++) {
        Case k = {.ctx = ctx, .n_in = 3, .n_out = n == 0 ? 4 : 1, .has = {true, true, true}};
        const int64_t dims[] = {1, 2, 3, 4};
        for (int i = 0; i < 3; i++) k.in[i] = random_reading(ctx, n == 1 ? TN_F64 : TN_F32, 4, dims, true);
        case_node(&k, "Attention", n == 2 ? "softmax_precision=10" : "");
        assert_int_equal(case_matches(&k, &kernel_cpu_attention), n == 3);
        case_free(&k);
    }
    context_unref(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_cache_in_place),
                                       cmocka_unit_test(test_declined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
