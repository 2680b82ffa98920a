/* SPDX-License-Identifier: Apache-2.0 */
/* Programs against the evaluator, and what a session promises: the same answer on any number of threads and after any
   change of shapes, no allocation over shapes seen before, a status for each allocation that fails, call-backs, limits
   of time, fork. */
#include "test_ir_common.h"

#include <pthread.h>
#include <sys/wait.h>
#include <tenon/passes.h>
#include <unistd.h>

#include "session/session.h"

/* ---- models ----------------------------------------------------------------------------------------------------- */

#define FORM(text) "tn 1\n" text

static const char chain[] =
    FORM(/* in-place results, one after the other */
         "graph @chain(%x: f32[n,m], %b: f32[m]) -> (%y) {\n"
         "  %1 = Add(%x, %b)\n  %2 = Relu(%1)\n  %3 = Mul(%2, %2)\n  %4 = Sub(%3, %x)\n  %5 = Tanh(%4)\n  %y = Add(%5, %1)\n}\n");

static const char views[] = FORM(/* readings of readings, some kept to the end */
                                 "graph @views(%x: f32[n,m]) -> (%y, %z, %w, %t) {\n"
                                 "  %t = Transpose(%x)\n"
                                 "  %r = Reshape(%t, i64[2] [1, -1])\n"
                                 "  %s = Slice(%t, i64[1] [1], i64[1] [1000], i64[1] [0], i64[1] [2])\n"
                                 "  %y = Neg(%s)\n"
                                 "  %z = Concat(%r, %r) {axis=0}\n"
                                 "  %u = Unsqueeze(%s, i64[1] [0])\n"
                                 "  %w = Mul(%u, f32[] 2.0)\n}\n");

static const char products[] =
    FORM(/* operands read with strides */
         "graph @products(%x: f32[n,m], %w: f32[m,n]) -> (%y, %z) {\n"
         "  %t = Transpose(%w)\n  %u = Add(%x, %t)\n  %y = MatMul(%u, %w)\n"
         "  %s = Softmax(%y) {axis=0}\n  %r = ReduceSum(%s, i64[1] [1]) {keepdims=0}\n  %e = Expand(%r, i64[2] [3, 1])\n"
         "  %z = Transpose(%e) {perm=[1,0]}\n}\n");

static const char segments[] =
    FORM(/* sizes that depend on contents, twice */
         "graph @segments(%x: f32[n,m], %shape: i64[2]) -> (%y, %k, %q) {\n"
         "  %r = Reshape(%x, %shape)\n  %a = Add(%r, %r)\n"
         "  %nz = NonZero(%a)\n  %k = Transpose(%nz)\n"
         "  %g = GatherND(%a, %k)\n  %y = Mul(%g, %g)\n"
         "  %big = Greater(%y, f32[] 1.0)\n  %p = Compress(%y, %big) {axis=0}\n  %q = Exp(%p)\n}\n");

static const char loop[] =
    FORM(/* captures, a carried value, a scanned one */
         "graph @loop(%x: f32[n,m], %trips: i64[], %b: f32[m]) -> (%y, %all) {\n"
         "  %go = Greater(%trips, i64[] 0)\n"
         "  %y, %all = Loop(%trips, %go, %x) {body = graph (%i: i64[], %c: bool[], %v: f32[n,m]) -> (%c2, %v2, %s) {\n"
         "    %c2 = Identity(%c)\n    %h = Mul(%v, f32[] 0.5)\n    %v2 = Add(%h, %b)\n    %s = ReduceSum(%v2) {keepdims=0}\n  }}\n}\n");

static const char count[] =
    FORM(/* no scanned result: nothing grows */
         "graph @count(%x: f32[n], %trips: i64[], %b: f32[n]) -> (%y) {\n"
         "  %y = Loop(%trips, bool[] true, %x) {body = graph (%i: i64[], %c: bool[], %v: f32[n]) -> (%c2, %v2) {\n"
         "    %c2 = Identity(%c)\n    %h = Mul(%v, f32[] 0.5)\n    %v2 = Add(%h, %b)\n  }}\n}\n");

static const char branches[] =
    FORM(/* an If in an If, captures of both levels, results of other shapes */
         "graph @branches(%x: f32[n,m], %a: bool[], %b: bool[]) -> (%y, %z) {\n"
         "  %t = Transpose(%x)\n"
         "  %y = If(%a) {then_branch = graph () -> (%p) {\n"
         "    %u = Add(%t, f32[] 1.0)\n"
         "    %p = If(%b) {then_branch = graph () -> (%q) {\n      %q = Sub(%u, %t)\n    }, else_branch = graph () -> (%r) {\n"
         "      %r = Neg(%x)\n    }}\n"
         "  }, else_branch = graph () -> (%s) {\n    %s = Identity(%t)\n  }}\n"
         "  %z = Abs(%y)\n}\n");

static const char outputs[] = FORM(/* an input, a constant, one value twice */
                                   "graph @outputs(%x: f32[n]) -> (\"a\" = %x, \"b\" = %c, \"d\" = %y, \"e\" = %y) {\n"
                                   "  %c = Const {data = f32[2] [1.0, 2.0]}\n  %y = Neg(%x)\n}\n");

static const char texts[] = FORM("graph @texts(%x: str[n]) -> (%y, %z) {\n  %y = Concat(%x, %x) {axis=0}\n"
                                 "  %z = Equal(%y, str[] \"a\")\n}\n");

/* A model and what it is run on: sizes for n and m, other inputs by name. */
typedef struct Sample {
    const char *text;
    int64_t n, m;
    int64_t trips;
    int64_t shape[2];
    bool a, b;
} Sample;

static const Sample samples[] = {
    {.text = chain, .n = 3, .m = 5},
    {.text = chain, .n = 1, .m = 1},
    {.text = chain, .n = 0, .m = 4},
    {.text = chain, .n = 700, .m = 300},
    {.text = views, .n = 4, .m = 6},
    {.text = views, .n = 1, .m = 2},
    {.text = views, .n = 5, .m = 9},
    {.text = products, .n = 3, .m = 7},
    {.text = products, .n = 130, .m = 65},
    {.text = segments, .n = 2, .m = 6, .shape = {3, 4}},
    {.text = segments, .n = 2, .m = 6, .shape = {12, 1}},
    {.text = segments, .n = 0, .m = 6, .shape = {0, 6}},
    {.text = segments, .n = 20, .m = 60, .shape = {-1, 30}},
    {.text = loop, .n = 2, .m = 3, .trips = 4},
    {.text = loop, .n = 2, .m = 3, .trips = 0},
    {.text = loop, .n = 5, .m = 1, .trips = 7},
    {.text = count, .n = 5, .trips = 3},
    {.text = branches, .n = 2, .m = 3, .a = true, .b = true},
    {.text = branches, .n = 2, .m = 3, .a = true, .b = false},
    {.text = branches, .n = 4, .m = 3, .a = false, .b = false},
    {.text = outputs, .n = 3},
    {.text = texts, .n = 3},
};
enum { N_SAMPLES = sizeof samples / sizeof *samples, MOST = 4 };

static tn_status load(Context *ctx, const char *text, tn_model **model) {
    return tn_model_load_memory((tn_context *)ctx, text, strlen(text), NULL, NULL, NULL, model);
}

static void fill(tn_tensor *t, const Sample *s, const char *name, uint64_t *state) {
    static const char *const words[] = {"a", "", "something longer than a pointer"};
    int64_t n = tn_tensor_count(t);
    void *data = tn_tensor_data(t);
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = next_random(state);
        if (strcmp(name, "trips") == 0) ((int64_t *)data)[i] = s->trips;
        else if (strcmp(name, "shape") == 0) ((int64_t *)data)[i] = s->shape[i];
        else if (tn_tensor_dtype(t) == TN_BOOL) ((bool *)data)[i] = strcmp(name, "a") == 0 ? s->a : s->b;
        else if (tn_tensor_dtype(t) == TN_STRING) tn_tensor_set_string(t, i, words[r % 3], strlen(words[r % 3]));
        else ((float *)data)[i] = r % 4 == 0 ? 0 : (float)(int64_t)(r % 2001) / 500 - 2;
    }
}

static tn_status make_inputs(Context *ctx, const tn_model *model, const Sample *s, tn_tensor *in[MOST], size_t *n) {
    uint64_t state = 77 + (uint64_t)(s->n * 31 + s->m);
    *n = tn_model_n_inputs(model);
    for (size_t i = 0; i < *n; i++) {
        tn_value_info info;
        TRY(tn_model_input(model, i, &info));
        for (int k = 0; k < info.rank; k++)
            if (info.dims[k] < 0) info.dims[k] = strcmp(info.dim_text[k], "n") == 0 ? s->n : s->m;
        TRY(tn_tensor_create((tn_context *)ctx, info.dtype, info.rank, info.dims, &in[i]));
        fill(in[i], s, info.name, &state);
    }
    return TN_OK;
}

static void release(tn_tensor **list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tn_tensor_release(list[i]);
        list[i] = NULL;
    }
}

static bool same(const Tensor *a, const Tensor *b) {
    size_t bytes = 0;
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0)
        return false;
    if (a->dtype == TN_STRING) {
        for (int64_t i = 0; i < tensor_count(a); i++)
            if (!str_equal(rc_string_get(((RcString **)a->data)[i]), rc_string_get(((RcString **)b->data)[i])))
                return false;
        return true;
    }
    OK(checked_bytes(a->dtype, tensor_count(a), &bytes));
    return bytes == 0 || memcmp(tensor_bytes(a), tensor_bytes(b), bytes) == 0;
}

/* Bitwise what the evaluator says. */
static const tn_place on_reference = {"reference", TN_UNDEFINED};
static const tn_pass_settings reference_only = {.places = &on_reference, .n_places = 1};

/* A fresh session's answers on a context's pool. `passes` may be NULL. */
static void run_fresh(Context *ctx, const Sample *s, const tn_pass_settings *passes, tn_tensor *out[MOST],
                      size_t *n_out) {
    const tn_session_options options = {.passes = passes};
    tn_model *model;
    tn_session *session;
    tn_tensor *in[MOST] = {0};
    size_t n_in;
    OK(load(ctx, s->text, &model));
    OK(make_inputs(ctx, model, s, in, &n_in));
    OK(tn_session_create(model, &options, &session));
    *n_out = tn_session_n_outputs(session);
    memset(out, 0, MOST * sizeof *out);
    OK(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, *n_out));
    release(in, n_in);
    tn_session_release(session);
    tn_model_release(model);
}

static Context *context_with(int threads) {
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    if (threads > 0) OK(pool_new(&ctx->allocator, threads, &ctx->pool));
    return ctx;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static void test_against_evaluator(void **state) {
    (void)state;
    Context *ctx = context_with(0);
    for (size_t k = 0; k < N_SAMPLES; k++) {
        tn_tensor *in[MOST] = {0}, *out[MOST];
        const Tensor *given[MOST];
        Tensor want[MOST];
        tn_model *model;
        size_t n_in, n_out;
        run_fresh(ctx, &samples[k], &reference_only, out, &n_out);
        OK(load(ctx, samples[k].text, &model));
        OK(make_inputs(ctx, model, &samples[k], in, &n_in));
        for (size_t i = 0; i < n_in; i++) given[i] = &in[i]->t;
        OK(eval_graph(ctx, model->ir->main, given, want));
        for (size_t i = 0; i < n_out; i++) {
            if (!same(&out[i]->t, &want[i])) print_error("sample %zu, output %zu\n", k, i);
            assert_true(same(&out[i]->t, &want[i]));
            tensor_release(&want[i]);
        }
        release(in, n_in);
        release(out, n_out);
        tn_model_release(model);
    }
    context_unref(ctx);
}

static void test_threads_do_not_matter(void **state) {
    (void)state;
    Context *none = context_with(0);
    for (int threads = 1; threads <= 3; threads++) {
        Context *ctx = context_with(threads);
        for (size_t k = 0; k < N_SAMPLES; k++) {
            tn_tensor *a[MOST], *b[MOST];
            size_t n;
            run_fresh(none, &samples[k], NULL, a, &n);
            run_fresh(ctx, &samples[k], NULL, b, &n);
            for (size_t i = 0; i < n; i++) assert_true(same(&a[i]->t, &b[i]->t));
            release(a, n);
            release(b, n);
        }
        context_unref(ctx);
    }
    context_unref(none);
}

/* All samples of a model in turn, twice over, on one session that keeps two plans. */
static void test_resize_back_and_forth(void **state) {
    (void)state;
    Context *ctx = context_with(2);
    for (size_t first = 0, end; first < N_SAMPLES; first = end) {
        tn_model *model;
        tn_session *session;
        for (end = first; end < N_SAMPLES && samples[end].text == samples[first].text; end++) continue;
        OK(load(ctx, samples[first].text, &model));
        OK(tn_session_create(model, &(tn_session_options){.max_plans = 2}, &session));
        for (size_t turn = 0; turn < 2 * (end - first) + 1; turn++) {
            const Sample *s = &samples[first + turn % (end - first)];
            tn_tensor *in[MOST] = {0}, *out[MOST] = {0}, *want[MOST];
            size_t n_in, n_out;
            run_fresh(ctx, s, NULL, want, &n_out);
            OK(make_inputs(ctx, model, s, in, &n_in));
            OK(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, n_out));
            for (size_t i = 0; i < n_out; i++) {
                bool good = same(&out[i]->t, &want[i]->t);
                if (!good) print_error("sample %zu, turn %zu, output %zu\n", (size_t)(s - samples), turn, i);
                assert_true(good);
            }
            release(in, n_in);
            release(out, n_out);
            release(want, n_out);
        }
        tn_session_release(session);
        tn_model_release(model);
    }
    context_unref(ctx);
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static void test_failed_resize(void **state) {
    (void)state;
    Context *ctx = context_with(0);
    tn_model *model;
    tn_session *session;
    tn_session_info info;
    tn_value_info value;
    OK(load(ctx, products, &model));
    OK(tn_session_create(model, NULL, &session));
    OK(tn_session_get_info(session, &info));
    assert_false(info.planned);
    assert_int_equal(tn_session_output(session, 0, &value), TN_STATE);
    tn_shape good[] = {{2, (int64_t[]){2, 3}}, {2, (int64_t[]){3, 2}}},
             bad[] = {{2, (int64_t[]){2, 3}}, {2, (int64_t[]){5, 2}}};
    OK(tn_session_resize(session, good, 2));
    OK(tn_session_output(session, 0, &value));
    assert_true(value.rank == 2 && value.dims[0] == 2 && value.dims[1] == 2);
    assert_int_equal(tn_session_resize(session, bad, 2), TN_SHAPE);
    assert_int_equal(tn_session_output(session, 0, &value), TN_STATE);
    assert_int_equal(tn_session_resize(session, (tn_shape[]){{1, (int64_t[]){2}}}, 1), TN_SHAPE);
    assert_int_equal(tn_session_resize(session, (tn_shape[]){{2, (int64_t[]){-1, 2}}}, 1), TN_SHAPE);
    OK(tn_session_resize(session, good, 2));
    OK(tn_session_get_info(session, &info));
    assert_true(info.planned && info.n_segments == 1 && info.arena_bytes >= info.bound_bytes);
    tn_session_release(session);
    tn_model_release(model);
    context_unref(ctx);
}

static void test_outputs(void **state) {
    (void)state;
    Context *ctx = context_with(0);
    tn_model *model;
    tn_session *session;
    OK(load(ctx, chain, &model));
    const char *wanted[] = {"y", "x"}, *unknown[] = {"nobody"};
    assert_int_equal(tn_session_create(model, &(tn_session_options){.outputs = unknown, .n_outputs = 1}, &session),
                     TN_NOT_FOUND);
    OK(tn_session_create(model, &(tn_session_options){.outputs = wanted, .n_outputs = 2}, &session));
    tn_tensor *in[MOST] = {0}, *out[MOST] = {0}, *own, *wrong;
    size_t n_in, bytes;
    OK(make_inputs(ctx, model, &samples[0], in, &n_in));
    OK(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, 2));
    assert_true(same(&out[1]->t, &in[0]->t));
    OK(tn_session_output_bytes(session, 0, &bytes));
    assert_int_equal(bytes, 3 * 5 * 4);
    OK(tn_tensor_create((tn_context *)ctx, TN_F32, 2, (int64_t[]){3, 5}, &own));
    OK(tn_tensor_create((tn_context *)ctx, TN_F32, 2, (int64_t[]){5, 3}, &wrong));
    tn_tensor *mixed[] = {own, NULL}, *bad[] = {wrong, NULL};
    OK(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, mixed, 2));
    assert_ptr_equal(mixed[0], own);
    assert_true(same(&own->t, &out[0]->t));
    assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, bad, 2), TN_SHAPE);
    assert_null(bad[1]);
    assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const *)in, 1, bad, 2), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const[]){in[0], NULL}, 2, bad, 2),
                     TN_INVALID_ARGUMENT);
    release(in, n_in);
    release(out, 2);
    release(mixed, 2);
    tn_tensor_release(wrong);
    tn_session_release(session);
    tn_model_release(model);
    context_unref(ctx);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* The number of allocations of a run whose results are the caller's. */
static int64_t calls_of_run(TestHeap *heap, tn_session *session, tn_tensor **in, size_t n_in, tn_tensor **out,
                            size_t n_out) {
    int64_t before = heap->calls;
    OK(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, n_out));
    return heap->calls - before;
}

static void test_runs_allocate_nothing(void **state) {
    (void)state;
    static const Sample loops[] = {{.text = count, .n = 50, .trips = 10}, {.text = count, .n = 50, .trips = 10000}};
    TestHeap heap;
    Context *ctx;
    test_heap_init(&heap);
    OK(context_new(&heap.allocator, NULL, &ctx));
    for (size_t k = 0; k < N_SAMPLES; k++) {
        const Sample *s = samples[k].text == count ? &loops[0] : &samples[k];
        if (s->text == segments || s->text == texts || s->text == loop || s->text == branches)
            continue; /* sizes unknown */
        tn_model *model;
        tn_session *session;
        tn_tensor *in[MOST] = {0}, *out[MOST] = {0}, *more[MOST] = {0};
        size_t n_in;
        OK(load(ctx, s->text, &model));
        OK(make_inputs(ctx, model, s, in, &n_in));
        OK(tn_session_create(model, NULL, &session));
        size_t n_out = tn_session_n_outputs(session);
        calls_of_run(&heap, session, in, n_in, out, n_out);
        int64_t calls = calls_of_run(&heap, session, in, n_in, out, n_out);
        if (s->text == count) {
            OK(make_inputs(ctx, model, &loops[1], more, &n_in));
            assert_int_equal(calls_of_run(&heap, session, more, n_in, out, n_out), calls);
            release(more, n_in);
        } else {
            if (calls) print_error("sample %zu allocates %lld times\n", k, (long long)calls);
            assert_int_equal(calls, 0);
        }
        release(in, n_in);
        release(out, n_out);
        tn_session_release(session);
        tn_model_release(model);
    }
    context_unref(ctx);
    assert_int_equal(heap.living, 0);
}

static tn_status load_and_run(Context *ctx, const Sample *s) {
    tn_model *model = NULL;
    tn_session *session = NULL;
    tn_tensor *in[MOST] = {0}, *out[MOST] = {0};
    size_t n_in = 0, n_out = 0;
    tn_status status = load(ctx, s->text, &model);
    if (status == TN_OK) status = make_inputs(ctx, model, s, in, &n_in);
    if (status == TN_OK) status = tn_session_create(model, NULL, &session);
    if (status == TN_OK) n_out = tn_session_n_outputs(session);
    for (int turn = 0; turn < 2 && status == TN_OK; turn++)
        status = tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, n_out);
    if (status != TN_OK)
        for (size_t i = 0; i < n_out; i++) assert_true(!out[i] || status == TN_OUT_OF_MEMORY);
    release(in, MOST);
    release(out, MOST);
    tn_session_release(session);
    tn_model_release(model);
    return status;
}

static void test_each_allocation_fails(void **state) {
    (void)state;
    for (size_t k = 0; k < N_SAMPLES; k++) {
        if (k > 0 && samples[k].text == samples[k - 1].text) continue;
        tn_status status = TN_OUT_OF_MEMORY;
        int64_t n = 1;
        for (; status != TN_OK; n++) {
            TestHeap heap;
            Context *ctx;
            test_heap_init(&heap);
            heap.fail_at = n;
            status = context_new(&heap.allocator, NULL, &ctx);
            if (status == TN_OK) {
                status = load_and_run(ctx, &samples[k]);
                context_unref(ctx);
            }
            if (status != TN_OK && status != TN_OUT_OF_MEMORY)
                print_error("sample %zu, allocation %lld: %s: %s\n", k, (long long)n, status_name(status), diag_text());
            assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
            assert_int_equal(heap.living, 0);
        }
        assert_true(n > 10);
    }
}

/* ---- call-backs, limits ------------------------------------------------------------------------------------------ */

typedef struct Watch {
    int before, after;
    int stop_at, skip_at; /* -1: nowhere */
    char ops[200];
} Watch;

static tn_action watch_before(void *user, const tn_instruction_info *instruction) {
    Watch *w = user;
    int i = w->before++;
    size_t n = strlen(w->ops);
    snprintf(w->ops + n, sizeof w->ops - n, "%s ", instruction->op);
    return i == w->stop_at ? TN_STOP : i == w->skip_at ? TN_SKIP_OP : TN_CONTINUE;
}

static tn_action watch_after(void *user, const tn_instruction_info *instruction, tn_tensor *const *results, size_t n) {
    Watch *w = user;
    assert_true(n == 1 && tn_tensor_rank(results[0]) == instruction->rank);
    w->after++;
    return TN_CONTINUE;
}

static void test_callbacks(void **state) {
    (void)state;
    Context *ctx = context_with(0);
    tn_model *model;
    tn_session *session;
    tn_tensor *in[MOST] = {0}, *out[1] = {NULL};
    size_t n_in;
    OK(load(ctx, chain, &model));
    OK(make_inputs(ctx, model, &samples[0], in, &n_in));
    OK(tn_session_create(model, &(tn_session_options){.passes = &reference_only}, &session));
    Watch w = {.stop_at = -1, .skip_at = -1};
    tn_run_options o = {.before = watch_before, .after = watch_after, .user = &w};
    OK(tn_session_run(session, &o, (const tn_tensor *const *)in, n_in, out, 1));
    assert_true(w.before == 6 && w.after == 6);
    assert_string_equal(w.ops, "Add Relu Mul Sub Tanh Add ");
    tn_tensor *skipped[1] = {NULL}, *stopped[1] = {NULL}, *again[1] = {NULL};
    w = (Watch){.stop_at = -1, .skip_at = 2};
    OK(tn_session_run(session, &o, (const tn_tensor *const *)in, n_in, skipped, 1));
    w = (Watch){.stop_at = 3, .skip_at = -1};
    assert_int_equal(tn_session_run(session, &o, (const tn_tensor *const *)in, n_in, stopped, 1), TN_CANCELLED);
    assert_null(stopped[0]);
    assert_int_equal(w.before, 4);
    tn_session_cancel(session);
    assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, stopped, 1), TN_CANCELLED);
    OK(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, again, 1));
    assert_true(same(&again[0]->t, &out[0]->t));
    release(in, n_in);
    release(out, 1);
    release(skipped, 1);
    release(again, 1);
    tn_session_release(session);
    tn_model_release(model);
    context_unref(ctx);
}

/* While the session runs, from its own call-back and from another thread. */
typedef struct Intruder {
    tn_session *session;
    tn_tensor *const *in;
    size_t n_in;
    tn_status run, resize;
} Intruder;

static void *intrude(void *user) {
    Intruder *i = user;
    tn_tensor *out[1] = {NULL};
    i->run = tn_session_run(i->session, NULL, (const tn_tensor *const *)i->in, i->n_in, out, 1);
    i->resize = tn_session_resize(i->session, NULL, 0);
    tn_tensor_release(out[0]);
    return NULL;
}

static tn_action let_in(void *user, const tn_instruction_info *instruction) {
    Intruder *i = user;
    pthread_t thread;
    if (instruction->index != 1) return TN_CONTINUE;
    intrude(i);
    assert_true(i->run == TN_STATE && i->resize == TN_STATE);
    i->run = i->resize = TN_OK;
    assert_int_equal(pthread_create(&thread, NULL, intrude, i), 0);
    pthread_join(thread, NULL);
    return TN_CONTINUE;
}

static void test_one_at_a_time(void **state) {
    (void)state;
    Context *ctx = context_with(0);
    tn_model *model;
    tn_session *session;
    tn_tensor *in[MOST] = {0}, *out[1] = {NULL}, *again[1] = {NULL};
    size_t n_in;
    OK(load(ctx, chain, &model));
    OK(make_inputs(ctx, model, &samples[0], in, &n_in));
    OK(tn_session_create(model, &(tn_session_options){.passes = &reference_only}, &session));
    Intruder i = {.session = session, .in = in, .n_in = n_in};
    tn_run_options o = {.before = let_in, .user = &i};
    OK(tn_session_run(session, &o, (const tn_tensor *const *)in, n_in, out, 1));
    assert_true(i.run == TN_STATE && i.resize == TN_STATE);
    OK(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, again, 1));
    assert_true(same(&again[0]->t, &out[0]->t));
    release(in, n_in);
    release(out, 1);
    release(again, 1);
    tn_session_release(session);
    tn_model_release(model);
    context_unref(ctx);
}

static void *cancel_soon(void *session) {
    usleep(50000);
    tn_session_cancel(session);
    return NULL;
}

static void test_endless_loop(void **state) {
    (void)state;
    static const Sample endless = {.text = count, .n = 5, .trips = 2000000000};
    Context *ctx = context_with(0);
    tn_model *model;
    tn_session *session;
    tn_tensor *in[MOST] = {0}, *out[1] = {NULL};
    size_t n_in;
    OK(load(ctx, count, &model));
    OK(make_inputs(ctx, model, &endless, in, &n_in));
    OK(tn_session_create(model, NULL, &session));
    tn_run_options o = {.timeout_ns = 30000000};
    assert_int_equal(tn_session_run(session, &o, (const tn_tensor *const *)in, n_in, out, 1), TN_DEADLINE);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, session), 0);
    assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, 1), TN_CANCELLED);
    pthread_join(thread, NULL);
    ((int64_t *)tn_tensor_data(in[1]))[0] = INT64_MAX;
    ctx->limits.max_loop_trips = 1000;
    assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, 1), TN_LIMIT);
    assert_null(out[0]);
    release(in, n_in);
    tn_session_release(session);
    tn_model_release(model);
    context_unref(ctx);
}

/* ---- side by side ------------------------------------------------------------------------------------------------ */

typedef struct Worker {
    Context *ctx;
    tn_model *model;
    const Sample *sample;
    tn_tensor **want;
    size_t n_want;
    bool good;
} Worker;

/* Makes a session of the model and runs it; no assertions, since cmocka's are for the main thread. */
static void *work(void *user) {
    Worker *w = user;
    tn_session *session = NULL;
    tn_tensor *in[MOST] = {0};
    size_t n_in = 0;
    w->good = make_inputs(w->ctx, w->model, w->sample, in, &n_in) == TN_OK &&
              tn_session_create(w->model, NULL, &session) == TN_OK;
    for (int turn = 0; turn < 30 && w->good; turn++) {
        tn_tensor *out[MOST] = {0};
        w->good = tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, w->n_want) == TN_OK;
        for (size_t i = 0; i < w->n_want && w->good; i++) w->good = same(&out[i]->t, &w->want[i]->t);
        release(out, MOST);
    }
    release(in, MOST);
    tn_session_release(session);
    return NULL;
}

static void test_two_threads(void **state) {
    (void)state;
    for (int threads = 0; threads <= 2; threads += 2) {
        Context *ctx = context_with(threads);
        for (size_t k = 0; k < N_SAMPLES; k++) {
            Worker workers[2];
            pthread_t ids[2];
            tn_tensor *want[MOST];
            tn_model *model;
            size_t n;
            run_fresh(ctx, &samples[k], NULL, want, &n);
            OK(load(ctx, samples[k].text, &model));
            for (int i = 0; i < 2; i++) {
                workers[i] = (Worker){.ctx = ctx, .model = model, .sample = &samples[k], .want = want, .n_want = n};
                assert_int_equal(pthread_create(&ids[i], NULL, work, &workers[i]), 0);
            }
            for (int i = 0; i < 2; i++) pthread_join(ids[i], NULL);
            for (int i = 0; i < 2; i++) assert_true(workers[i].good);
            release(want, n);
            tn_model_release(model);
        }
        context_unref(ctx);
    }
}

static void test_fork(void **state) {
    (void)state;
    static const Sample big = {.text = chain, .n = 700, .m = 300};
    Context *ctx = context_with(3);
    tn_model *model;
    tn_session *session;
    tn_tensor *in[MOST] = {0}, *out[1] = {NULL};
    size_t n_in;
    OK(load(ctx, big.text, &model));
    OK(make_inputs(ctx, model, &big, in, &n_in));
    OK(tn_session_create(model, NULL, &session));
    OK(tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, 1));
    pid_t pid = fork();
    if (pid == 0) {
        tn_tensor *again[1] = {NULL};
        bool good = tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, again, 1) == TN_OK;
        _exit(good && same(&again[0]->t, &out[0]->t) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    release(in, n_in);
    release(out, 1);
    tn_session_release(session);
    tn_model_release(model);
    context_unref(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_evaluator),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_resize_back_and_forth),
        cmocka_unit_test(test_failed_resize),
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_runs_allocate_nothing),
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_endless_loop),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
