/* SPDX-License-Identifier: Apache-2.0 */
/* Dimensions: what they simplify to, that simplifying changes no value, that printing and making agree. */
#include "test_ir_common.h"

typedef struct Dims {
    TestHeap heap;
    Arena arena;
    DimTable table;
} Dims;

static void dims_begin(Dims *d) {
    test_heap_init(&d->heap);
    arena_init(&d->arena, &d->heap.allocator);
    dim_table_init(&d->table, &d->arena);
}

static void dims_end(Dims *d) {
    dim_table_free(&d->table);
    arena_free(&d->arena);
    assert_int_equal(d->heap.living, 0);
}

static void assert_prints(const DimTable *t, Dim d, const char *expected) {
    Text text;
    text_init(&text, &allocator_default);
    dim_print(t, d, &text);
    assert_string_equal(text.s, expected);
    text_free(&text);
}

#define SYM(name) dim_symbol(t, STR(name))
#define MAKE(op, a, b) dim_make(t, DIM_##op, (a), (b))

static void test_constants(void **state) {
    (void)state;
    assert_int_equal(dim_add(NULL, 2, 3), 5);
    assert_int_equal(dim_sub(NULL, 2, 3), -1);
    assert_int_equal(dim_floordiv(NULL, -7, 2), -4);
    assert_int_equal(dim_ceildiv(NULL, -7, 2), -3);
    assert_int_equal(dim_ceildiv(NULL, 7, 2), 4);
    assert_int_equal(dim_floordiv(NULL, 7, -2), -4);
    assert_int_equal(dim_make(NULL, DIM_MOD, -7, 3), 2);
    assert_int_equal(dim_make(NULL, DIM_MIN, -7, 3), -7);
    assert_int_equal(dim_make(NULL, DIM_MAX, -7, 3), 3);
    assert_int_equal(dim_floordiv(NULL, 7, 0), DIM_UNKNOWN);
    assert_int_equal(dim_mul(NULL, INT64_MAX, 2), DIM_UNKNOWN);
    assert_int_equal(dim_add(NULL, INT64_MAX, 1), DIM_UNKNOWN);
    assert_int_equal(dim_add(NULL, DIM_UNKNOWN, 1), DIM_UNKNOWN);
}

static void test_simplified(void **state) {
    (void)state;
    Dims d;
    dims_begin(&d);
    DimTable *t = &d.table;
    Dim h = SYM("h"), w = SYM("w"), a = SYM("a"), b = SYM("b"), batch = SYM("batch");
    assert_int_equal(SYM("h"), h);
    Dim hw = dim_mul(t, h, w);
    assert_int_equal(hw, dim_mul(t, w, h));
    assert_int_equal(dim_floordiv(t, dim_mul(t, hw, 4), hw), 4);
    assert_int_equal(dim_sub(t, dim_add(t, a, b), b), a);
    assert_int_equal(dim_add(t, dim_mul(t, 2, h), h), dim_mul(t, 3, h));
    assert_int_equal(dim_floordiv(t, dim_mul(t, h, 2), 2), h);
    assert_int_equal(dim_sub(t, h, h), 0);
    assert_int_equal(dim_floordiv(t, dim_mul(t, dim_mul(t, batch, 24), 32), 24 * 32), batch);
    assert_int_equal(dim_floordiv(t, h, 1), h);
    assert_int_equal(dim_ceildiv(t, h, 1), h);
    assert_int_equal(MAKE(MOD, h, 1), 0);
    assert_int_equal(MAKE(MOD, dim_mul(t, h, 6), 3), 0);
    assert_int_equal(dim_mul(t, h, 0), 0);
    assert_int_equal(dim_add(t, dim_add(t, dim_add(t, h, 3), w), -3), dim_add(t, w, h));
    assert_int_equal(MAKE(MAX, h, h), h);
    assert_int_equal(MAKE(MAX, h, 0), h);
    assert_int_equal(MAKE(MIN, dim_add(t, h, 1), h), h);
    assert_int_equal(MAKE(MIN, MAKE(MIN, h, w), w), MAKE(MIN, w, h));
    assert_int_equal(dim_floordiv(t, h, 0), DIM_UNKNOWN);
    /* A product of sums is divided by one of them. */
    Dim h1 = dim_add(t, dim_floordiv(t, dim_sub(t, h, 1), 2), 1), w1 = dim_add(t, dim_floordiv(t, w, 3), 5);
    assert_int_equal(dim_floordiv(t, dim_mul(t, dim_mul(t, h1, 64), w1), h1), dim_mul(t, w1, 64));
    assert_int_equal(dim_floordiv(t, dim_mul(t, dim_mul(t, h1, 64), w1), dim_mul(t, w1, 64)), h1);
    /* Halving twice is one division. */
    assert_int_equal(dim_floordiv(t, dim_floordiv(t, h, 2), 2), dim_floordiv(t, h, 4));
    assert_int_equal(dim_ceildiv(t, h, 2), dim_floordiv(t, dim_add(t, h, 1), 2));
    dims_end(&d);
}

static void test_printed(void **state) {
    (void)state;
    Dims d;
    dims_begin(&d);
    DimTable *t = &d.table;
    Dim w = SYM("w"), h = SYM("h"), batch = SYM("batch");
    assert_prints(t, dim_mul(t, 2, batch), "batch*2");
    assert_prints(t, dim_add(t, dim_floordiv(t, dim_sub(t, dim_add(t, h, 2), 3), 2), 1), "(h + 1)/2");
    assert_prints(t, dim_add(t, dim_floordiv(t, dim_add(t, h, 1), 3), 4), "(h + 1)/3 + 4");
    assert_prints(t, dim_sub(t, h, dim_mul(t, w, 3)), "h - w*3");
    assert_prints(t, dim_sub(t, w, dim_add(t, h, 3)), "w - h - 3");
    assert_prints(t, dim_sub(t, -3, h), "0 - h - 3");
    assert_prints(t, dim_floordiv(t, h, dim_mul(t, w, 2)), "h/(w*2)");
    assert_prints(t, dim_floordiv(t, h, dim_add(t, w, 2)), "h/(w + 2)");
    assert_prints(t, dim_mul(t, dim_floordiv(t, h, 2), w), "w*(h/2)");
    assert_prints(t, dim_mul(t, dim_floordiv(t, h, 2), 3), "h/2*3");
    assert_prints(t, MAKE(CEILDIV, h, w), "ceildiv(h, w)");
    assert_prints(t, MAKE(MOD, dim_add(t, h, 9), 4), "mod(h + 1, 4)");
    assert_prints(t, MAKE(MIN, 4, h), "min(h, 4)");
    assert_prints(t, MAKE(MAX, w, dim_sub(t, h, 4)), "max(w, h - 4)");
    assert_prints(t, SYM("max"), "\"max\"");
    assert_prints(t, SYM("batch size"), "\"batch size\"");
    assert_prints(t, DIM_UNKNOWN, "?");
    assert_prints(t, -5, "-5");
    dims_end(&d);
}

/* ---- random expressions -------------------------------------------------------------------------------------- */

enum { N_SYMBOLS = 3, N_VALUES = 12 };

/* An expression, and what it is without any simplification for several values of its symbols. */
typedef struct Sample {
    Dim d;
    Dim naive[N_VALUES];
} Sample;

static int64_t symbol_value(int symbol, int k) {
    static const int64_t values[N_SYMBOLS][N_VALUES] = {{0, 1, 2, 3, 4, 5, 7, 0, 31, 6, 1, 100},
                                                        {1, 1, 0, 2, 9, 5, 3, 0, 17, 4, 8, 63},
                                                        {2, 1, 5, 0, 3, 5, 0, 0, 12, 6, 64, 7}};
    return values[symbol][k];
}

static const char *const symbol_names[N_SYMBOLS] = {"x", "y", "z"};

static Dim look_up(void *user, Str name) {
    for (int i = 0; i < N_SYMBOLS; i++)
        if (str_equal(name, str_of(symbol_names[i]))) return symbol_value(i, *(int *)user);
    return DIM_UNKNOWN;
}

static Sample random_leaf(DimTable *t, uint64_t *seed) {
    Sample s;
    int64_t pick = (int64_t)(next_random(seed) % 8), constant = (int64_t)(next_random(seed) % 13) - 4;
    s.d = pick < 5 ? dim_symbol(t, str_of(symbol_names[pick % N_SYMBOLS])) : constant;
    for (int k = 0; k < N_VALUES; k++) s.naive[k] = pick < 5 ? symbol_value((int)(pick % N_SYMBOLS), k) : constant;
    return s;
}

static Sample combine(DimTable *t, DimOp op, const Sample *a, const Sample *b) {
    Sample s = {.d = dim_make(t, op, a->d, b->d)};
    for (int k = 0; k < N_VALUES; k++) s.naive[k] = dim_make(NULL, op, a->naive[k], b->naive[k]);
    return s;
}

/* An unknown expression, or a value that is not defined without simplifying, says nothing. */
static void assert_sound(const DimTable *t, const Sample *s) {
    for (int k = 0; k < N_VALUES && s->d != DIM_UNKNOWN; k++) {
        Dim value = dim_eval(t, s->d, look_up, &k);
        if (s->naive[k] == DIM_UNKNOWN || value == s->naive[k]) continue;
        Text text;
        text_init(&text, &allocator_default);
        dim_print(t, s->d, &text);
        print_error("%s is %lld, not %lld, for sample %d\n", text.s, (long long)value, (long long)s->naive[k], k);
        assert_int_equal(value, s->naive[k]);
    }
}

/* The same text whatever the order in which symbols were made, and again when it is made from its parts. */
static void assert_stable(const DimTable *t, Dim d) {
    Dims other;
    dims_begin(&other);
    for (int i = N_SYMBOLS - 1; i >= 0; i--) dim_symbol(&other.table, str_of(symbol_names[i]));
    Text a, b;
    text_init(&a, &allocator_default);
    text_init(&b, &allocator_default);
    Dim copy = dim_import(&other.table, t, d);
    dim_print(t, d, &a);
    dim_print(&other.table, copy, &b);
    assert_string_equal(a.s, b.s);
    assert_int_equal(dim_import(&other.table, t, d), copy);
    text_free(&a);
    text_free(&b);
    dims_end(&other);
}

static void test_random(void **state) {
    (void)state;
    uint64_t seed = 0x1234567;
    size_t known = 0, total = 0;
    for (int round = 0; round < 1500; round++) {
        Dims d;
        dims_begin(&d);
        enum { N = 24 };
        Sample samples[N];
        for (int i = 0; i < N; i++) {
            if (i < 6) {
                samples[i] = random_leaf(&d.table, &seed);
                continue;
            }
            DimOp op = (DimOp)(DIM_ADD + next_random(&seed) % 8);
            samples[i] = combine(&d.table, op, &samples[next_random(&seed) % (uint64_t)i],
                                 &samples[next_random(&seed) % (uint64_t)i]);
            assert_sound(&d.table, &samples[i]);
            known += samples[i].d != DIM_UNKNOWN;
            total++;
        }
        assert_stable(&d.table, samples[N - 1].d);
        dims_end(&d);
    }
    assert_true(known * 2 > total);
}

/* What grows without end becomes unknown, soon and cheaply. */
static void test_bounded(void **state) {
    (void)state;
    Dims d;
    dims_begin(&d);
    DimTable *t = &d.table;
    Dim x = SYM("x"), y = SYM("y");
    for (int i = 0; i < 10000; i++) x = dim_floordiv(t, dim_add(t, dim_mul(t, x, x), y), dim_add(t, x, 3));
    assert_int_equal(x, DIM_UNKNOWN);
    x = SYM("x");
    for (int i = 0; i < 200; i++) x = MAKE(MIN, dim_floordiv(t, dim_mul(t, x, 3), y), MAKE(CEILDIV, x, y));
    assert_int_equal(x, DIM_UNKNOWN);
    for (int i = 0; i < 40; i++) {
        char name[8];
        int n = snprintf(name, sizeof name, "s%d", i);
        x = i ? dim_add(t, x, dim_symbol(t, (Str){name, (size_t)n})) : SYM("x");
    }
    assert_int_equal(x, DIM_UNKNOWN);
    dims_end(&d);
}

static void test_out_of_memory(void **state) {
    (void)state;
    for (int64_t fail_at = 1; fail_at < 40; fail_at++) {
        Dims d;
        dims_begin(&d);
        d.heap.fail_at = fail_at;
        DimTable *t = &d.table;
        Dim x = SYM("x");
        for (int i = 0; i < 50; i++) {
            char name[8];
            int n = snprintf(name, sizeof name, "s%d", i);
            Dim y = dim_symbol(t, (Str){name, (size_t)n});
            x = dim_floordiv(t, x, y);
            if (x == DIM_UNKNOWN) x = y;
        }
        dims_end(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants), cmocka_unit_test(test_simplified), cmocka_unit_test(test_printed),
        cmocka_unit_test(test_random),    cmocka_unit_test(test_bounded),    cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
