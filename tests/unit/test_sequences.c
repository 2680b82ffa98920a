/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences, optionals and maps as inputs, outputs, captured and carried values: answers, runs that fail midway, each
   failing allocation, sessions that meet other lengths and kinds. Nothing leaks on any way out. */
#include "test_ir_common.h"

#include "session/session.h"

/* ---- models ---------------------------------------------------------------------------------------------------- */

#define FORM(text) "tn 1\n" text

static const char grow[] =
    FORM(/* a sequence carried along, an element at a time */
         "graph @grow(%s: seq(f32[*]), %x: f32[n], %trips: i64[]) -> (%y, %n) {\n"
         "  %y = Loop(%trips, bool[] true, %s) {body = graph (%i: i64[], %c: bool[], %v: seq(f32[*])) -> (%c2, %v2) {\n"
         "    %c2 = Identity(%c)\n    %e = Cast(%i) {to=1}\n    %a = Add(%x, %e)\n    %v2 = SequenceInsert(%v, %a, i64[] 0)\n"
         "  }}\n"
         "  %n = SequenceLength(%y)\n}\n");

static const char pick[] = FORM(/* a position that may be outside */
                                "graph @pick(%x: f32[n], %at: i64[]) -> (%y, %z, %s2) {\n"
                                "  %d = Mul(%x, f32[] 2.0)\n  %s = SequenceConstruct(%x, %d)\n  %o = Optional(%s)\n"
                                "  %g = OptionalGetElement(%o)\n  %e = SequenceAt(%g, %at)\n  %y = Add(%e, %x)\n"
                                "  %s2 = SequenceErase(%g, %at)\n  %z = ConcatFromSequence(%s2) {axis=0}\n}\n");

static const char branch[] =
    FORM(/* captures; results that are captured; a constant without captures */
         "graph @branch(%s: seq(f32[*]), %c: bool[], %x: f32[n]) -> (%y, %n) {\n"
         "  %y = If(%c) {then_branch = graph () -> (%p) {\n    %p = SequenceInsert(%s, %x)\n"
         "  }, else_branch = graph () -> (%s) {\n  }}\n"
         "  %q = If(%c) {then_branch = graph () -> (%k) {\n    %k = SequenceConstruct(f32[2] [1.0, 2.0])\n"
         "  }, else_branch = graph () -> (%e) {\n    %e = SequenceEmpty()\n  }}\n"
         "  %n = SequenceLength(%q)\n}\n");

static const char each[] = FORM(/* a body for each element; one result that nobody reads */
                                "graph @each(%s: seq(f32[*]), %x: f32[n]) -> (%y, %all) {\n"
                                "  %y, %r = SequenceMap(%s, %x) {body = graph (%e: f32[*], %t: f32[*]) -> (%a, %b) {\n"
                                "    %a = Add(%e, %t)\n    %b = ReduceSum(%e) {keepdims=0}\n  }}\n"
                                "  %all = ConcatFromSequence(%y) {axis=0, new_axis=1}\n}\n");

static const char maybe[] =
    FORM(/* an optional that becomes a sequence */
         "graph @maybe(%o: opt(seq(f32[*])), %x: f32[n], %trips: i64[]) -> (%y) {\n"
         "  %y = Loop(%trips, bool[] true, %o) {body = graph (%i: i64[], %c: bool[], %v: opt(seq(f32[*]))) -> (%c2, %w) {\n"
         "    %c2 = Identity(%c)\n    %has = OptionalHasElement(%v)\n"
         "    %u = If(%has) {then_branch = graph () -> (%g) {\n      %g = OptionalGetElement(%v)\n"
         "    }, else_branch = graph () -> (%m) {\n      %m = SequenceEmpty()\n    }}\n"
         "    %w = SequenceInsert(%u, %x)\n  }}\n}\n");

static const char split[] = FORM(/* parts of strings and numbers, taken apart and put together */
                                 "graph @split(%x: f32[n], %each: i64[]) -> (%s, %y, %t) {\n"
                                 "  %s = SplitToSequence(%x, %each)\n  %y = ConcatFromSequence(%s) {axis=0}\n"
                                 "  %w = Concat(str[2] [\"a\", \"b\"], str[1] [\"and one that is longer\"]) {axis=0}\n"
                                 "  %t = SplitToSequence(%w, %each) {axis=-1}\n}\n");

static const char zip[] = FORM(/* maps */
                               "graph @zip(%x: f32[n]) -> (%m, %v, %f, %s) {\n"
                               "  %r = Reshape(%x, i64[2] [-1, 3])\n"
                               "  %m = ai.onnx.ml.ZipMap(%r) {classlabels_strings=[\"c\", \"a\", \"b\"]}\n"
                               "  %k = ai.onnx.ml.ZipMap(%r) {classlabels_int64s=[4, 1, 2]}\n"
                               "  %a = SequenceAt(%m, i64[] 0)\n  %b = SequenceAt(%k, i64[] -1)\n"
                               "  %v = ai.onnx.ml.DictVectorizer(%a) {string_vocabulary=[\"a\", \"z\", \"c\"]}\n"
                               "  %f = ai.onnx.ml.CastMap(%b) {map_form=\"SPARSE\", max_map=4}\n"
                               "  %s = ai.onnx.ml.CastMap(%b) {cast_to=\"TO_STRING\"}\n}\n");

static const char typed[] = FORM(/* an empty optional says what it might hold */
                                 "graph @typed(%c: bool[], %x: f32[n]) -> (%o, %has) {\n"
                                 "  %o = If(%c) {then_branch = graph () -> (%e) {\n"
                                 "    %e = Optional() {type = type seq(f32[*])}\n"
                                 "  }, else_branch = graph () -> (%f) {\n"
                                 "    %s = SequenceConstruct(%x)\n    %f = Optional(%s)\n  }}\n"
                                 "  %has = OptionalHasElement(%o)\n}\n");

static const char two[] = FORM(/* elements of two sequences side by side; the body does not say what they are */
                               "graph @two(%s: seq(f32[*]), %x: f32[n]) -> (%y) {\n"
                               "  %d = SequenceConstruct(%x, %x)\n"
                               "  %y = SequenceMap(%s, %d) {body = graph (%e: ?, %t: ?) -> (%a) {\n"
                               "    %a = Concat(%e, %t) {axis=0}\n  }}\n}\n");

/* A model, and what it runs on: the length of x, the number of elements of sequences (-1: an empty optional), the one
   integer, the one truth. `fails`: a part of the message. */
typedef struct Sample {
    const char *text;
    int64_t n, length, number;
    bool truth;
    const char *fails;
} Sample;

static const Sample samples[] = {
    {grow, 3, 2, 3, false, NULL},        {grow, 2, 0, 2, false, NULL},        {grow, 0, 1, 1, false, NULL},
    {grow, 2, 5, 0, false, NULL},        {pick, 4, 0, 1, false, NULL},        {pick, 4, 0, 2, false, "position"},
    {pick, 2, 0, -2, false, NULL},       {pick, 2, 0, -3, false, "position"}, {branch, 2, 3, 0, true, NULL},
    {branch, 2, 3, 0, false, NULL},      {branch, 5, 0, 0, true, NULL},       {branch, 5, 0, 0, false, NULL},
    {each, 3, 4, 0, false, NULL},        {each, 1, 1, 0, false, NULL},        {each, 3, 0, 0, false, "empty"},
    {each, 2, 3, 0, false, "broadcast"}, /* elements are x[3], then x[2]: see make_items */
    {maybe, 3, -1, 2, false, NULL},      {maybe, 3, 1, 3, false, NULL},       {maybe, 3, 2, 0, false, NULL},
    {maybe, 3, -1, 0, false, NULL},      {typed, 2, 0, 0, true, NULL},        {typed, 2, 0, 0, false, NULL},
    {two, 3, 2, 0, false, NULL},         {two, 3, 1, 0, false, "length"},     {split, 6, 0, 4, false, NULL},
    {split, 6, 0, 1, false, NULL},       {split, 3, 0, 5, false, NULL},       {split, 0, 0, 2, false, "empty"},
    {split, 3, 0, 0, false, "split"},    {zip, 6, 0, 0, false, NULL},         {zip, 3, 0, 0, false, NULL},
    {zip, 0, 0, 0, false, "position"},
};
enum { N_SAMPLES = sizeof samples / sizeof *samples, MOST = 4 };

static tn_status load(Context *ctx, const char *text, tn_model **model) {
    return tn_model_load_memory((tn_context *)ctx, text, strlen(text), NULL, NULL, NULL, model);
}

static void release(tn_tensor **list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tn_tensor_release(list[i]);
        list[i] = NULL;
    }
}

static tn_status make_floats(Context *ctx, int64_t n, float first, tn_tensor **out) {
    TRY(tn_tensor_create((tn_context *)ctx, TN_F32, 1, &n, out));
    for (int64_t i = 0; i < n; i++) ((float *)(*out)->t.data)[i] = first + (float)i / 4;
    return TN_OK;
}

/* Elements of n floats; in the sample that fails for that the first has 3. */
static tn_status make_items(Context *ctx, const Sample *s, tn_tensor **out) {
    tn_tensor *items[8] = {0};
    tn_status status = TN_OK;
    for (int64_t i = 0; i < s->length && status == TN_OK; i++) {
        bool other = s->fails && strcmp(s->fails, "broadcast") == 0 && i == 1;
        status = make_floats(ctx, other ? 3 : s->n, (float)i, &items[i]);
    }
    size_t n = (size_t)max_i64(s->length, 0);
    if (status == TN_OK)
        status = tn_tensor_from_items((tn_context *)ctx, TN_SEQUENCE, (const tn_tensor *const *)items, n, out);
    release(items, n);
    return status;
}

static tn_status make_input(Context *ctx, const Sample *s, const tn_value_info *info, tn_tensor **out) {
    if (info->kind == TN_SEQUENCE) return make_items(ctx, s, out);
    if (info->kind == TN_OPTIONAL) {
        tn_tensor *inside = NULL;
        if (s->length >= 0) TRY(make_items(ctx, s, &inside));
        tn_status status = tn_tensor_from_items((tn_context *)ctx, TN_OPTIONAL, (const tn_tensor *const *)&inside,
                                                inside != NULL, out);
        tn_tensor_release(inside);
        return status;
    }
    if (info->dtype == TN_F32) return make_floats(ctx, s->n, 10, out);
    TRY(tn_tensor_create((tn_context *)ctx, info->dtype, 0, NULL, out));
    if (info->dtype == TN_I64) *(int64_t *)(*out)->t.data = s->number;
    else *(bool *)(*out)->t.data = s->truth;
    return TN_OK;
}

static tn_status make_inputs(Context *ctx, const tn_model *model, const Sample *s, tn_tensor *in[MOST], size_t *n) {
    *n = tn_model_n_inputs(model);
    for (size_t i = 0; i < *n; i++) {
        tn_value_info info;
        TRY(tn_model_input(model, i, &info));
        TRY(make_input(ctx, s, &info, &in[i]));
    }
    return TN_OK;
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

/* The evaluator's answers, as handles. */
static tn_status evaluate(Context *ctx, const tn_model *model, tn_tensor *const *in, size_t n_in, tn_tensor **out) {
    const Tensor *given[MOST];
    Tensor found[MOST] = {0};
    for (size_t i = 0; i < n_in; i++) given[i] = &in[i]->t;
    TRY(eval_graph(ctx, model->ir->main, given, found));
    for (size_t i = 0; i < tn_model_n_outputs(model); i++) OK(tensor_handle(ctx, &found[i], &out[i]));
    return TN_OK;
}

static void expect(const Sample *s, tn_status status) {
    if (!s->fails) OK(status);
    if (s->fails && status == TN_OK) print_error("%.40s should fail\n", s->text);
    if (!s->fails) return;
    assert_true(status != TN_OK);
    assert_says(s->fails);
}

/* One run on a session, against the evaluator. */
static void run_and_compare(Context *ctx, tn_model *model, tn_session *session, const Sample *s) {
    tn_tensor *in[MOST] = {0}, *out[MOST] = {0}, *want[MOST] = {0};
    size_t n_in, n_out = tn_session_n_outputs(session);
    OK(make_inputs(ctx, model, s, in, &n_in));
    diag_clear();
    expect(s, tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, n_out));
    diag_clear();
    expect(s, evaluate(ctx, model, in, n_in, want));
    for (size_t i = 0; i < n_out && !s->fails; i++) {
        tn_difference d = tn_tensor_compare(out[i], want[i], 0, 0);
        if (!d.same) print_error("sample %zu, output %zu: %s\n", (size_t)(s - samples), i, d.why);
        assert_true(d.same);
    }
    for (size_t i = 0; i < n_out; i++) assert_true(s->fails ? out[i] == NULL : out[i] != NULL);
    release(in, n_in);
    release(out, n_out);
    release(want, n_out);
}

/* All samples of a model in turn, those that fail among them, on one session that keeps two plans. */
static void test_in_turn(void **state) {
    (void)state;
    TestHeap heap;
    Context *ctx;
    test_heap_init(&heap);
    OK(context_new(&heap.allocator, NULL, &ctx));
    for (size_t first = 0, end; first < N_SAMPLES; first = end) {
        tn_model *model;
        tn_session *session;
        for (end = first; end < N_SAMPLES && samples[end].text == samples[first].text; end++) continue;
        OK(load(ctx, samples[first].text, &model));
        OK(tn_session_create(model, &(tn_session_options){.max_plans = 2}, &session));
        for (size_t turn = 0; turn < 3 * (end - first); turn++)
            run_and_compare(ctx, model, session, &samples[first + turn % (end - first)]);
        tn_session_release(session);
        tn_model_release(model);
    }
    context_unref(ctx);
    assert_int_equal(heap.living, 0);
}

/* The last thing that a session does is to fail. */
static void test_released_after_failure(void **state) {
    (void)state;
    TestHeap heap;
    Context *ctx;
    test_heap_init(&heap);
    OK(context_new(&heap.allocator, NULL, &ctx));
    for (size_t k = 0; k < N_SAMPLES; k++) {
        tn_model *model;
        tn_session *session;
        if (!samples[k].fails) continue;
        OK(load(ctx, samples[k].text, &model));
        OK(tn_session_create(model, NULL, &session));
        run_and_compare(ctx, model, session, &samples[k]);
        tn_session_release(session);
        tn_model_release(model);
    }
    context_unref(ctx);
    assert_int_equal(heap.living, 0);
}

static tn_status attempt(Context *ctx, const Sample *s) {
    tn_tensor *in[MOST] = {0}, *out[MOST] = {0};
    tn_model *model = NULL;
    tn_session *session = NULL;
    size_t n_in = 0;
    tn_status status = load(ctx, s->text, &model);
    if (status == TN_OK) status = make_inputs(ctx, model, s, in, &n_in);
    if (status == TN_OK) status = tn_session_create(model, NULL, &session);
    for (int turn = 0; turn < 2 && status == TN_OK; turn++) {
        status = tn_session_run(session, NULL, (const tn_tensor *const *)in, n_in, out, tn_session_n_outputs(session));
        release(out, MOST);
    }
    release(in, MOST);
    tn_session_release(session);
    tn_model_release(model);
    return status;
}

/* A status for each allocation that fails, and nothing is left behind. */
static void test_no_memory(void **state) {
    (void)state;
    for (size_t k = 0; k < N_SAMPLES; k++) {
        if (samples[k].fails) continue;
        int64_t step = 1;
        for (int64_t at = 1;; at += step) {
            TestHeap heap;
            Context *ctx = NULL;
            test_heap_init(&heap);
            heap.fail_at = at;
            tn_status status = context_new(&heap.allocator, NULL, &ctx);
            if (status == TN_OK) status = attempt(ctx, &samples[k]);
            if (status != TN_OK && status != TN_OUT_OF_MEMORY)
                print_error("sample %zu, allocation %lld: %s: %s\n", k, (long long)at, status_name(status),
                            diag_text());
            assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
            if (ctx) context_unref(ctx);
            if (heap.living)
                print_error("sample %zu, allocation %lld: %zu bytes left\n", k, (long long)at, heap.living);
            assert_int_equal(heap.living, 0);
            if (status == TN_OK) break;
        }
    }
}

/* ---- what the engine must not take for granted ------------------------------------------------------------------ */

static void test_wrong_kinds(void **state) {
    (void)state;
    Context *ctx;
    tn_model *model;
    tn_session *session;
    tn_tensor *x, *empty, *out[2] = {0};
    OK(context_new(NULL, NULL, &ctx));
    OK(load(ctx, each, &model));
    OK(tn_session_create(model, NULL, &session));
    OK(make_floats(ctx, 2, 0, &x));
    OK(tn_tensor_from_items((tn_context *)ctx, TN_OPTIONAL, NULL, 0, &empty));
    assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const[]){x, x}, 2, out, 2), TN_SHAPE);
    assert_says("a tensor was given");
    assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const[]){empty, x}, 2, out, 2), TN_SHAPE);
    assert_int_equal(tn_session_resize(session, NULL, 0), TN_SHAPE);
    tn_session_release(session);
    tn_model_release(model);
    /* A loop that makes no turn gives the empty optional that it was given, where a tensor was expected. */
    static const char text[] = FORM(
        "graph @none(%o: opt(f32[*]), %trips: i64[]) -> (%z) {\n"
        "  %y = Loop(%trips, bool[] true, %o) {body = graph (%i: i64[], %c: bool[], %v: opt(f32[*])) -> (%c2, %w) {\n"
        "    %c2 = Identity(%c)\n    %w = OptionalGetElement(%v)\n  }}\n"
        "  %z = Shape(%y)\n}\n");
    tn_tensor *trips, *full;
    OK(tn_tensor_create((tn_context *)ctx, TN_I64, 0, NULL, &trips));
    OK(tn_tensor_from_items((tn_context *)ctx, TN_OPTIONAL, (const tn_tensor *const *)&x, 1, &full));
    OK(load(ctx, text, &model));
    OK(tn_session_create(model, NULL, &session));
    for (int turn = 0; turn < 2; turn++) {
        *(int64_t *)trips->t.data = 0;
        assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const[]){empty, trips}, 2, out, 1), TN_SHAPE);
        *(int64_t *)trips->t.data = 1;
        OK(tn_session_run(session, NULL, (const tn_tensor *const[]){full, trips}, 2, out, 1));
        assert_int_equal(*(int64_t *)out[0]->t.data, 2);
        release(out, 1);
        assert_int_equal(tn_session_run(session, NULL, (const tn_tensor *const[]){empty, trips}, 2, out, 1),
                         TN_INVALID_ARGUMENT);
        assert_says("no element");
    }
    tn_session_release(session);
    tn_model_release(model);
    release((tn_tensor *[]){x, empty, trips, full}, 4);
    context_unref(ctx);
}

/* Results whose size their kernel says may be of another size the next time, strings too. */
static void test_other_sizes(void **state) {
    (void)state;
    static const char text[] = FORM("graph @sizes(%x: str[1]) -> (%y, %u) {\n  %y, %n = StringSplit(%x)\n"
                                    "  %u, _, _, %m = Unique(%y)\n}\n");
    static const char *const lines[] = {"a b", "one", "a b c d", "", "x y"};
    static const int64_t words[] = {2, 1, 4, 0, 2};
    Context *ctx;
    tn_model *model;
    tn_session *session;
    tn_tensor *x, *out[2] = {0};
    const int64_t one = 1;
    OK(context_new(NULL, NULL, &ctx));
    OK(load(ctx, text, &model));
    OK(tn_session_create(model, NULL, &session));
    OK(tn_tensor_create((tn_context *)ctx, TN_STRING, 1, &one, &x));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        OK(tn_tensor_set_string(x, 0, lines[i], strlen(lines[i])));
        OK(tn_session_run(session, NULL, (const tn_tensor *const *)&x, 1, out, 2));
        assert_int_equal(out[0]->t.dims[1], words[i]);
        assert_int_equal(out[1]->t.dims[0], words[i]);
        release(out, 2);
    }
    tn_tensor_release(x);
    tn_session_release(session);
    tn_model_release(model);
    context_unref(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_turn),     cmocka_unit_test(test_released_after_failure),
        cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_wrong_kinds),
        cmocka_unit_test(test_other_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
