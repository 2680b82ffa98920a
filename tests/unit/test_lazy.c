/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are made when they are needed: lazy buffers, and weights that a normalisation is folded into. */
#include "test_ir_common.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/session_int.h"

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

typedef struct Counts {
    atomic_int made, dropped;
    size_t n;
} Counts;

static void make(void *user, void *data, Pool *pool) {
    Counts *c = user;
    (void)pool;
    for (size_t i = 0; i < c->n; i++) {
        ((uint8_t *)data)[i] = (uint8_t)(i * 7 + 1);
    }
    atomic_fetch_add(&c->made, 1);
}

static void drop(void *user) { atomic_fetch_add(&((Counts *)user)->dropped, 1); }

static Buffer *lazy(Counts *c, size_t n) {
    Buffer *buffer;
    *c = (Counts){.n = n};
    OK(buffer_lazy(&allocator_default, n, &(BytesMaker){make, drop, c}, &buffer));
    assert_true(buffer_is_lazy(buffer));
    assert_int_equal(buffer->size, n);
    return buffer;
}

static void assert_bytes(const Buffer *buffer) {
    for (size_t i = 0; i < buffer->size; i++) assert_int_equal(buffer->data[i], (uint8_t)(i * 7 + 1));
}

static void test_held_bytes(void **state) {
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, (2 << 20) - 1, (2 << 20) + 4096, 5 << 20};
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        Counts c, other;
        Buffer *b = lazy(&c, sizes[k]), *beside = lazy(&other, 100);
        for (int turn = 1; turn < 4; turn++) {
            OK(bytes_hold(b->data, NULL));
            OK(bytes_hold(b->data + sizes[k] / 2, NULL)); /* any place in it, and more than one holder */
            bytes_let_go(b->data);
            assert_bytes(b);
            bytes_let_go(b->data);
            assert_int_equal(c.made, turn);
        }
        OK(buffer_keep(b));
        OK(buffer_keep(b));
        OK(bytes_hold(b->data, NULL));
        bytes_let_go(b->data);
        assert_bytes(b);
        assert_int_equal(c.made, 4);
        assert_int_equal(other.made, 0);
        buffer_unref(buffer_ref(b));
        assert_int_equal(c.dropped, 0);
        buffer_unref(b);
        buffer_unref(beside);
        assert_int_equal(c.dropped, 1);
        assert_int_equal(other.dropped, 1);
    }
}

static void test_other_bytes(void **state) {
    (void)state;
    Buffer *b;
    char c = 0;
    OK(buffer_new(&allocator_default, 10, &b));
    assert_false(buffer_is_lazy(b));
    assert_false(buffer_is_lazy(NULL));
    OK(buffer_keep(b));
    OK(buffer_keep(NULL));
    OK(bytes_hold(&c, NULL));
    OK(bytes_hold(NULL, NULL));
    bytes_let_go(&c);
    bytes_let_go(NULL);
    buffer_unref(b);
}

/* A wrong answer would be worse than no answer. */
static void test_reading_unheld(void **state) {
    Counts c;
    (void)state;
    Buffer *b = lazy(&c, 100);
    OK(bytes_hold(b->data, NULL));
    bytes_let_go(b->data);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile uint8_t *)b->data != 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    buffer_unref(b);
}

static void *hold_often(void *arg) {
    Buffer *b = arg;
    for (int i = 0; i < 200; i++) {
        if (bytes_hold(b->data, NULL) != TN_OK || b->data[99] != (uint8_t)(99 * 7 + 1)) return b;
        bytes_let_go(b->data);
    }
    return NULL;
}

static void test_threads(void **state) {
    pthread_t threads[4];
    Counts c;
    (void)state;
    Buffer *b = lazy(&c, 100);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, hold_often, b), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    buffer_unref(b);
}

/* ---- scaled weights ------------------------------------------------------------------------------------------------- */

static uint64_t seed;

static float number(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int64_t)(seed >> 33) / (float)(1u << 30) - 1;
}

static void put_constant(Text *text, const char *name, const char *sizes, int64_t n, float least) {
    text_printf(text, "  %%%s = Const {data = f32[%s] [", name, sizes);
    for (int64_t i = 0; i < n; i++) text_printf(text, "%s%.9e", i ? ", " : "", (double)fmaxf(least, number()));
    text_printf(text, "]}\n");
}

static void put_normalisation(Text *text, const char *of, const char *to) {
    text_printf(text, "  %%%s = BatchNormalization(%%%s, %%s, %%b, %%m, %%v) {epsilon=0.01}\n", to, of);
}

typedef enum Kind { BEHIND, TRANSPOSED, TRANSPOSED_GROUPS, FACTORS, BEFORE, BEFORE_GROUPS, N_KINDS } Kind;

/* One convolution with many weights, and a normalisation or factors behind it, or a normalisation before it. */
static tn_model *convolution(Context *ctx, Kind kind) {
    static const char *const sizes[] = {"80,100,3,3", "80,100,3,3", "80,100,3,3",
                                        "256,80,1,1", "256,80,1,1", "512,40,1,1"};
    static const int64_t counts[] = {80 * 100 * 9, 80 * 100 * 9, 80 * 100 * 9, 256 * 80, 256 * 80, 512 * 40};
    static const char *const channels[] = {"80", "100", "200", "256,1,1", "80", "80"};
    static const int64_t factors[] = {80, 100, 200, 256, 80, 80};
    static const char *const convolutions[] = {
        "  %x2 = Concat(%x, %x) {axis=1}\n  %x3 = Slice(%x2, [0], [100], [1])\n  %c = Conv(%x3, %w) {pads=[1,1,1,1]}\n",
        "  %c = ConvTranspose(%x, %w) {strides=[2,2]}\n",
        "  %c = ConvTranspose(%x, %w) {strides=[2,2], group=2}\n",
        "  %c = Conv(%x, %w)\n  %y = Mul(%c, %s)\n",
        "  %y = Conv(%c, %w)\n",
        "  %y = Conv(%c, %w) {group=2}\n"};
    Text text;
    tn_model *model;
    seed = 1;
    text_init(&text, &allocator_default);
    text_printf(&text, "tn 1\ngraph @g(%%x: f32[1,80,n,n]) -> (%%y) {\n");
    put_constant(&text, "w", sizes[kind], counts[kind], -1);
    for (int k = 0; k < 4; k++)
        put_constant(&text, (const char *const[]){"s", "b", "m", "v"}[k], channels[kind], factors[kind],
                     k == 3 ? 0.1f : -1);
    if (kind >= BEFORE) put_normalisation(&text, "x", "c");
    text_printf(&text, "%s", convolutions[kind]);
    if (kind < FACTORS) put_normalisation(&text, "c", "y");
    text_printf(&text, "}\n");
    OK(text.status);
    OK(tn_model_load_memory((tn_context *)ctx, text.s, text.n, NULL, NULL, NULL, &model));
    text_free(&text);
    return model;
}

static tn_session *session_of(tn_model *model, const char *pipeline) {
    tn_session *s;
    OK(tn_session_create(model, &(tn_session_options){.passes = &(tn_pass_settings){.pipeline = pipeline}}, &s));
    return s;
}

static tn_tensor *answer(tn_session *s, Context *ctx, int64_t n) {
    tn_tensor *x, *y = NULL;
    seed = (uint64_t)n;
    OK(tn_tensor_create((tn_context *)ctx, TN_F32, 4, (int64_t[]){1, 80, n, n}, &x));
    for (int64_t i = 0; i < tn_tensor_count(x); i++) ((float *)tn_tensor_data(x))[i] = number();
    OK(tn_session_run(s, NULL, (const tn_tensor *const[]){x}, 1, &y, 1));
    tn_tensor_release(x);
    return y;
}

static void assert_near(tn_tensor *a, tn_tensor *b) {
    const float *x = tn_tensor_data(a), *y = tn_tensor_data(b);
    float most = 0, apart = 0;
    assert_int_equal(tn_tensor_count(a), tn_tensor_count(b));
    for (int64_t i = 0; i < tn_tensor_count(a); i++) {
        most = fmaxf(most, fabsf(y[i]));
        apart = fmaxf(apart, fabsf(x[i] - y[i]));
    }
    assert_true(most > 1 && apart < 1e-4f * most);
}

static size_t count_lazy(const tn_session *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->ir->tensors.len; i++) n += buffer_is_lazy(s->ir->tensors.data[i]->buffer);
    return n;
}

/* Whether the bytes can be read. */
static bool stands(const Buffer *buffer) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    ssize_t n = write(ends[1], buffer->data, 1);
    assert_true(n == 1 || errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    return n == 1;
}

/* What was packed of them is all that is left in memory. */
static void check_gone(const tn_session *s) {
    for (size_t i = 0; i < s->ir->tensors.len; i++) {
        const Buffer *buffer = s->ir->tensors.data[i]->buffer;
        if (buffer_is_lazy(buffer)) assert_false(stands(buffer));
    }
}

static void check_answers(tn_model *model, Context *ctx) {
    tn_session *plain = session_of(model, ""), *s = session_of(model, NULL);
    static const int64_t sizes[] = {5, 30, 5, 14}; /* other sizes may want other packed weights */
    tn_tensor *first = NULL;
    assert_int_equal(count_lazy(plain), 0);
    assert_int_equal(count_lazy(s), 1);
    check_gone(s);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        tn_tensor *a = answer(s, ctx, sizes[k]), *b = answer(plain, ctx, sizes[k]);
        assert_near(a, b);
        check_gone(s);
        if (k == 2) assert_memory_equal(tn_tensor_data(a), tn_tensor_data(first), tn_tensor_bytes(a));
        tn_tensor_release(b);
        if (k == 0) first = a;
        else tn_tensor_release(a);
    }
    tn_tensor_release(first);
    tn_session_release(plain);
    tn_session_release(s);
}

static void test_folded_normalisation(void **state) {
    (void)state;
    for (int threads = 1; threads < 3; threads++)
        for (Kind kind = BEHIND; kind < N_KINDS; kind++) {
            tn_context *ctx;
            OK(tn_context_create(&(tn_context_options){.threads = threads}, &ctx));
            tn_model *model = convolution((Context *)ctx, kind);
            check_answers(model, (Context *)ctx);
            tn_model_release(model);
            tn_context_release(ctx);
        }
}

/* The bytes are the products, rounded once, for everybody who asks: here as text, and as a saved model does. */
static void test_bytes_of_product(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    tn_model *model = convolution(ctx, BEHIND);
    tn_session *s = session_of(model, NULL);
    const Tensor *scaled = NULL, *w = NULL;
    for (const Node *node = s->ir->main->first; node; node = node->next) {
        const Tensor *t = value_payload(node_result(node, 0));
        if (t && buffer_is_lazy(t->buffer)) scaled = value_constant(node_result(node, 0));
    }
    for (const Node *node = model->ir->main->first; node && !w; node = node->next)
        w = value_payload(node_result(node, 0));
    assert_true(scaled && w && tensor_count(scaled) == tensor_count(w));
    const float *x = tensor_bytes(w), *y = tensor_bytes(scaled);
    int64_t row = 900;
    for (int64_t m = 0; m < 80; m++) {
        int64_t at = m * row;
        double factor = (double)y[at] / (double)x[at];
        for (int64_t i = 0; i < row; i++)
            assert_true(fabs((double)y[at + i] - (double)x[at + i] * factor) <= 3e-7 * fabs((double)y[at + i]));
    }
    tn_session_release(s);
    tn_model_release(model);
    context_unref(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_bytes),       cmocka_unit_test(test_other_bytes),
        cmocka_unit_test(test_threads),          cmocka_unit_test(test_reading_unheld),
        cmocka_unit_test(test_bytes_of_product), cmocka_unit_test(test_folded_normalisation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
