/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions whose sizes change: what a plan takes over from those before must be what a fresh session would make. And
   sessions of one model on several threads. */
#include "test_sessions_common.h"

#include <math.h>
#include <pthread.h>

/* Of one row, what is added is the same for all rows there are; of more it is not: what kernels prepared for the one is not
   for the other. */
static const char resized[] = FORM(
    "graph @resized(%x: f32[1,3,h,w], %r: f32[1,h,4]) -> (%y, %z) {\n"
    "  %k = Expand(f32[] 0.25, i64[4] [4, 3, 3, 3])\n  %m = Expand(f32[] 0.5, i64[2] [4, 4])\n"
    "  %conv = Conv(%x, %k) {pads=[1,1,1,1]}\n  %y = Relu(%conv)\n"
    "  %t = Softmax(%r)\n  %p = MatMul(%r, %m)\n  %s = Add(%p, %t)\n  %z = Relu(%s)\n}\n");

/* As much of a constant as there are columns: what is packed of it is for that size. */
static const char part_of_constant[] = FORM(
    "graph @part(%a: f32[m,n]) -> (%y) {\n  %table = Expand(f32[] 0.5, i64[2] [16, 8192])\n"
    "  %size = Shape(%a) {start=1, end=2}\n  %t = Slice(%table, i64[1] [0], %size, i64[1] [0])\n"
    "  %y = MatMul(%a, %t)\n}\n");

static void test_part_of_constant(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    begin(&f, part_of_constant);
    OK(tn_session_create(f.model, &(tn_session_options){.max_plans = 2}, &s));
    for (int64_t n = 1; n <= 16; n++) {
        tn_tensor *in[] = {floats(f.ctx, 2, (int64_t[]){3, n}, 5)}, *got[1] = {0}, *want[1] = {0};
        OK(run(s, in, got));
        run_whole(&f, NAMES("y"), 1, in, want);
        assert_same(got[0], want[0]);
        release(in, 1);
        release(got, 1);
        release(want, 1);
    }
    tn_session_release(s);
    end(&f);
}

/* Readings of the same sizes, of one constant or the other. */
static const char other_constant[] = FORM(
    "graph @other(%a: f32[2,16], %b: f32[k]) -> (%y) {\n  %first = Expand(f32[] 0.5, i64[2] [16, 2048])\n"
    "  %second = Expand(f32[] 0.25, i64[2] [16, 2048])\n  %both = Concat(%first, %second) {axis=0}\n"
    "  %size = Shape(%b)\n  %start = Sub(%size, i64[1] [1])\n  %end = Add(%start, i64[1] [16])\n"
    "  %t = Slice(%both, %start, %end, i64[1] [0])\n  %y = MatMul(%a, %t)\n}\n");

static void test_other_constant(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    begin(&f, other_constant);
    for (int level = TN_OPT_0; level <= TN_OPT_2; level++) {
        tn_pass_settings settings = {.opt_level = (tn_opt_level)level};
        OK(tn_session_create(f.model, &(tn_session_options){.max_plans = 2, .passes = &settings}, &s));
        for (int i = 0; i < 8; i++) {
            int64_t k = i % 3 == 0 ? 1 : i % 3 == 1 ? 17 : 9;
            tn_tensor *in[] = {floats(f.ctx, 2, (int64_t[]){2, 16}, 5), floats(f.ctx, 1, &k, 6)}, *got[1] = {0};
            tn_tensor *want[1] = {0};
            OK(run(s, in, got));
            run_whole(&f, NAMES("y"), 1, in, want);
            assert_same(got[0], want[0]);
            release(in, 2);
            release(got, 1);
            release(want, 1);
        }
        tn_session_release(s);
    }
    end(&f);
}

static void run_sizes(const Fix *f, tn_session *s, int64_t h, int64_t w, tn_tensor **out) {
    tn_tensor *in[] = {floats(f->ctx, 4, (int64_t[]){1, 3, h, w}, 1), floats(f->ctx, 3, (int64_t[]){1, h, 4}, 2)};
    OK(run(s, in, out));
    release(in, 2);
}

static void test_sizes_change(void **state) {
    (void)state;
    Fix f;
    tn_session *few, *fresh;
    begin(&f, resized);
    for (int plans = 1; plans <= 3; plans++) {
        OK(tn_session_create(f.model, &(tn_session_options){.max_plans = plans}, &few));
        for (int i = 0; i < 24; i++) {
            int64_t h = i % 2 ? 2 + i * 7 % 60 : 1, w = 1 + i * 5 % 70;
            tn_tensor *got[2] = {0}, *want[2] = {0};
            OK(tn_session_create(f.model, NULL, &fresh));
            run_sizes(&f, few, h, w, got);
            run_sizes(&f, fresh, h, w, want);
            for (int k = 0; k < 2; k++) assert_same(got[k], want[k]);
            release(got, 2);
            release(want, 2);
            tn_session_release(fresh);
        }
        tn_session_release(few);
    }
    end(&f);
}

/* Memory that has to grow grows by a quarter, so that few of many sizes pay for it. */
static void test_sizes_grow(void **state) {
    (void)state;
    static const char text[] = FORM("graph @g(%x: f32[n,64]) -> (%y) {\n  %w = Expand(f32[] 0.125, i64[2] [64, 64])\n"
                                    "  %a = MatMul(%x, %w)\n  %b = Softmax(%a)\n  %y = MatMul(%b, %w)\n}\n");
    Fix f;
    tn_session *s, *fresh;
    tn_session_info info;
    uint64_t before = 0;
    int grown = 0, sizes = 0;
    begin(&f, text);
    OK(tn_session_create(f.model, NULL, &s));
    for (int64_t n = 300; n < 700; n += 10, sizes++) {
        tn_tensor *in[] = {floats(f.ctx, 2, (int64_t[]){n, 64}, 5)}, *got[1] = {0}, *want[1] = {0};
        OK(run(s, in, got));
        OK(tn_session_get_info(s, &info));
        assert_true(info.allocated_bytes >= info.arena_bytes && info.allocated_bytes <= info.arena_bytes * 5 / 4);
        grown += info.allocated_bytes != before;
        before = info.allocated_bytes;
        OK(tn_session_create(f.model, NULL, &fresh));
        OK(run(fresh, in, want));
        OK(tn_session_get_info(fresh, &info));
        assert_int_equal(info.allocated_bytes, info.arena_bytes); /* nobody knows that there will be larger ones */
        assert_same(got[0], want[0]);
        release(in, 1);
        release(got, 1);
        release(want, 1);
        tn_session_release(fresh);
    }
    assert_true(before > 65536 && grown > 1 && grown < sizes / 4);
    tn_session_release(s);
    end(&f);
}

/* What does not depend on the size that changes stays, and can be relied on; what would change it is refused. */
static void test_fixed_sizes(void **state) {
    (void)state;
    static const char text[] = FORM("graph @g(%x: f32[n,4], %image: f32[m,4], %w: f32[4,4]) -> (%y) {\n"
                                    "  %a = MatMul(%image, %w)\n  %b = Softmax(%a)\n  %c = ReduceSum(%b, i64[1] [0])\n"
                                    "  %d = MatMul(%x, %w)\n  %y = Mul(%d, %c)\n}\n");
    Fix f;
    tn_session *s;
    tn_session_info info;
    tn_tensor *w, *out[1] = {0}, *want[1] = {0};
    begin(&f, text);
    w = rows(f.ctx, 4, 9);
    OK(tn_session_create(f.model, &(tn_session_options){.max_plans = 3}, &s));
    assert_int_equal(tn_session_set_shape_mode(s, TN_SHAPES_FIXED), TN_STATE);
    OK(tn_session_set_shape_mode(s, TN_SHAPES_TRACED));
    for (int i = 0; i < 12; i++) {
        if (i == 2) {
            OK(tn_session_get_info(s, &info));
            assert_true(info.n_stay >= 2 && info.n_stay < info.n_instructions);
            OK(tn_session_set_shape_mode(s, TN_SHAPES_FIXED));
        }
        bool other = i == 5 || i == 6;
        tn_tensor *in[] = {rows(f.ctx, 1 + i % 5, (uint64_t)i), rows(f.ctx, other ? 8 : 7, 3), w};
        tn_status status = run(s, in, out);
        if (other) {
            assert_int_equal(status, TN_SHAPE);
            assert_non_null(strstr(tn_last_error(), "fixed"));
        } else {
            OK(status);
            run_whole(&f, NAMES("y"), 1, in, want);
            assert_same(out[0], want[0]);
        }
        release(in, 2);
        release(out, 1);
        release(want, 1);
    }
    OK(tn_session_set_shape_mode(s, TN_SHAPES_FREE));
    tn_tensor *in[] = {rows(f.ctx, 2, 1), rows(f.ctx, 8, 3), w};
    OK(run(s, in, out));
    release(in, 3);
    release(out, 1);
    tn_session_release(s);
    end(&f);
}

/* ---- threads ------------------------------------------------------------------------------------------------------- */

static const char parts[] = FORM(
    "graph @parts(%x: f32[n,4]) -> (%y) {\n  %w = Const {data = f32[4] [1, 2, 3, 4]}\n"
    "  %v = Const {data = f32[4] [0.5, 0.25, 2, 8]}\n  %u = Const {data = f32[4] [3, 5, 7, 9]}\n"
    "  %a = Add(%x, %w)\n  %b = Mul(%a, %v)\n  %s = Softmax(%b)\n  %y = Sub(%s, %u)\n}\n");

/* Constants as they lie in files. */
static void lay_askew(Model *ir) {
    for (Node *node = ir->main->first; node; node = node->next) {
        Tensor *t = (Tensor *)value_payload(node_result(node, 0));
        if (!t) continue;
        Buffer *askew;
        OK(buffer_new(&ir->ctx->allocator, 17, &askew));
        memcpy(askew->data + 1, t->data, 16);
        buffer_unref(t->buffer);
        t->buffer = askew;
        t->data = askew->data + 1;
        assert_true(tensor_is_misaligned(t));
    }
}

static void *run_sessions(void *user) {
    Fix *f = user;
    for (int64_t n = 1; n <= 3; n++) {
        tn_session *s;
        tn_tensor *in[] = {rows(f->ctx, n, 3)}, *out[1] = {0};
        const float *x = tn_tensor_data(in[0]);
        tn_pass_settings plain = {.opt_level = TN_OPT_0};
        if (tn_session_create(f->model, &(tn_session_options){.passes = &plain}, &s) != TN_OK) return "create";
        if (run(s, in, out) != TN_OK) return "run";
        double e[4], sum = 0;
        for (int k = 0; k < 4; k++)
            sum += e[k] = exp(((double)x[k] + k + 1) * (double)((const float[]){0.5f, 0.25f, 2, 8})[k]);
        for (int k = 0; k < 4; k++)
            if (fabs(e[k] / sum - (3 + 2 * k) - (double)((const float *)tn_tensor_data(out[0]))[k]) > 1e-5)
                return "answer";
        release(in, 1);
        release(out, 1);
        tn_session_release(s);
    }
    return NULL;
}

/* Of one model at once: whoever comes first lays its constants straight, which the others may be reading. */
static void test_threads(void **state) {
    (void)state;
    for (int turn = 0; turn < 20; turn++) {
        Fix f;
        pthread_t threads[4];
        void *trouble;
        begin(&f, parts);
        lay_askew(f.model->ir);
        for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_sessions, &f), 0);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(pthread_join(threads[i], &trouble), 0);
            if (trouble) print_error("thread %d: %s\n", i, (char *)trouble);
            assert_null(trouble);
        }
        end(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_part_of_constant), cmocka_unit_test(test_other_constant),
                                       cmocka_unit_test(test_sizes_change),     cmocka_unit_test(test_sizes_grow),
                                       cmocka_unit_test(test_fixed_sizes),      cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
