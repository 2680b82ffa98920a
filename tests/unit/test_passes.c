/* SPDX-License-Identifier: Apache-2.0 */
/* The pass manager: kinds, order, requirements, what applies, limits, pipelines as text, the report, files, threads. */
#include "test_passes_common.h"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

static const char straight[] = "tn 1\n"
                               "graph @straight(%x: f32[4]) -> (%y) {\n"
                               "  %a = Add(%x, %x)\n  %b = Identity(%a)\n  %c = Identity(%b)\n  %d = Identity(%c)\n"
                               "  %y = Mul(%d, %x)\n}\n";

static const char nested[] = "tn 1\n"
                             "graph @nested(%x: f32[4], %p: bool[]) -> (%y) {\n"
                             "  %y = If(%p) {then_branch = graph () -> (%q) {\n"
                             "    %q = If(%p) {then_branch = graph () -> (%r) {\n      %r = Relu(%x)\n"
                             "    }, else_branch = graph () -> (%s) {\n      %s = Neg(%x)\n    }}\n"
                             "  }, else_branch = graph () -> (%t) {\n    %t = Abs(%x)\n  }}\n}\n";

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static tn_status run_nothing(PassRun *run, Graph *graph) {
    (void)run, (void)graph;
    return TN_OK;
}

static tn_status run_rename(PassRun *run, Graph *graph) {
    (void)run;
    return value_set_name(graph->first->results[0], STR("renamed"));
}

static tn_status run_add_node(PassRun *run, Graph *graph) {
    Node *node;
    (void)run;
    TRY(node_new(graph, known_op("Identity"), &graph->inputs.data[0], 1, 1, &node));
    node_append(node);
    return TN_OK;
}

static tn_status run_rename_output(PassRun *run, Graph *graph) {
    Value *output = graph_output(graph, 0);
    (void)run;
    graph_clear_outputs(graph);
    return graph_add_output(graph, output, STR("other"));
}

/* A node that no model may have. */
static tn_status run_break_model(PassRun *run, Graph *graph) {
    TRY(run_add_node(run, graph));
    node_truncate_operands(graph->last, 0);
    return TN_OK;
}

static tn_status run_fail(PassRun *run, Graph *graph) {
    (void)run, (void)graph;
    return fail(TN_UNSUPPORTED, "it cannot be done");
}

static tn_status run_log_depth(PassRun *run, Graph *graph) {
    log_message(run->ctx, TN_LOG_INFO, "%d", graph_depth(graph));
    return TN_OK;
}

static tn_status drop_identities(PassRun *run, Graph *graph, int64_t most) {
    int64_t n = 0;
    for (Node *node = graph->first, *next; node && n < most; node = next) {
        next = node->next;
        if (strcmp(node->op->name, "Identity") != 0 || !pass_may_change(run)) continue;
        value_replace(node->results[0], node->operands[0].value);
        node_erase(node);
        n++;
    }
    return pass_count(run, "dropped", n);
}

static tn_status run_drop_one(PassRun *run, Graph *graph) { return drop_identities(run, graph, 1); }
static tn_status run_drop_all(PassRun *run, Graph *graph) { return drop_identities(run, graph, INT64_MAX); }

static tn_status run_options(PassRun *run, Graph *graph) {
    (void)graph;
    Str name = pass_string(run, "name");
    log_message(run->ctx, TN_LOG_INFO, "%lld,%g,%s,%.*s", (long long)pass_int(run, "count"), pass_float(run, "rate"),
                pass_bool(run, "is-on") ? "on" : "off", (int)name.n, name.s);
    return TN_OK;
}

static const Pass passes[] = {
    {.name = "t-note", .summary = "does nothing", .run = run_nothing},
    {.name = "t-look", .kind = PASS_DEBUG, .run = run_nothing},
    {.name = "t-rename", .kind = PASS_STMT, .run = run_rename},
    {.name = "t-stmt-adds", .kind = PASS_STMT, .run = run_add_node},
    {.name = "t-debug-adds", .kind = PASS_DEBUG, .run = run_add_node},
    {.name = "t-debug-renames", .kind = PASS_DEBUG, .run = run_rename},
    {.name = "t-rename-output", .run = run_rename_output},
    {.name = "t-break-model", .run = run_break_model},
    {.name = "t-fail", .run = run_fail},
    {.name = "t-depth", .kind = PASS_DEBUG, .each_graph = true, .run = run_log_depth},
    {.name = "t-drop-one", .run = run_drop_one},
    {.name = "t-drop-all", .run = run_drop_all},
    {.name = "t-base", .run = run_nothing},
    {.name = "t-need", .requires = {"t_base"}, .run = run_nothing},
    {.name = "t-gentle", .keeps = {"t_base"}, .run = run_drop_one},
    {.name = "t-circle", .requires = {"t-circle-too"}, .run = run_nothing},
    {.name = "t-circle-too", .requires = {"t-circle"}, .run = run_nothing},
    {.name = "t-both", .pipeline = "t-note, repeat{t-drop-one}"},
    {.name = "t-itself", .pipeline = "t-itself"},
    {.name = "t-options",
     .kind = PASS_DEBUG,
     .options = {{"count", OPTION_INT, "7", "how often"},
                 {"rate", OPTION_FLOAT, "0.5", ""},
                 {"is-on", OPTION_BOOL, "false", ""},
                 {"name", OPTION_STRING, "plain", ""}},
     .run = run_options},
    {.name = "t-on-gpu", .targets = {"gpu"}, .run = run_nothing},
    {.name = "t-not-on-cpu", .not_targets = {"cpu"}, .run = run_nothing},
    {.name = "t-conv", .kernels = {{"Conv", NULL}}, .run = run_nothing},
    {.name = "t-gpu-conv", .kernels = {{"Conv", "gpu"}}, .run = run_nothing},
    {.name = "t-fc", .kernels = {{"NoSuchOp", NULL}}, .run = run_nothing},
};
enum { N_PASSES = sizeof passes / sizeof *passes };

static int add_passes(void **state) {
    (void)state;
    for (int i = 0; i < N_PASSES; i++) OK(pass_register(&passes[i]));
    return 0;
}

static int remove_passes(void **state) {
    (void)state;
    for (int i = 0; i < N_PASSES; i++) OK(pass_unregister(str_of(passes[i].name)));
    return 0;
}

/* Runs a list on a model of its own. The report may be NULL. */
static tn_status run_on(const char *text, const tn_pass_settings *settings, Log *log, tn_pass_report **report) {
    tn_context *context = logging_context(log);
    tn_model *model = model_of(context, text);
    tn_status status = tn_model_run_passes(model, settings, report);
    tn_model_release(model);
    tn_context_release(context);
    return status;
}

static tn_status run_list(const char *list, Log *log, tn_pass_report **report) {
    return run_on(straight, &(tn_pass_settings){.pipeline = list}, log, report);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static void test_kinds(void **state) {
    (void)state;
    Log log;
    OK(run_list("t-rename", &log, NULL));
    assert_int_equal(run_list("t-stmt-adds", &log, NULL), TN_STATE);
    assert_says("it is a stmt pass, but changed the structure");
    assert_says("in pass \"t-stmt-adds\"");
    assert_int_equal(run_list("t-debug-adds", &log, NULL), TN_STATE);
    assert_says("it is a debug pass, but changed the structure");
    assert_int_equal(run_list("t-note,t-debug-renames", &log, NULL), TN_STATE);
    assert_says("in pass \"t-debug-renames\", the 2th that ran");
    assert_int_equal(run_list("t-rename-output", &log, NULL), TN_STATE);
    assert_says("changed the model's inputs or the names of its outputs");
}

static void test_verify(void **state) {
    (void)state;
    Log log;
    tn_pass_settings each = {.pipeline = "pre-placement{t-break-model,t-note}", .verify_each = true};
    tn_pass_settings phase = {.pipeline = each.pipeline};
    assert_int_not_equal(run_on(straight, &each, &log, NULL), TN_OK);
    assert_says("in pass \"t-break-model\"");
    assert_log(&log, "t-break-model");
    assert_int_not_equal(run_on(straight, &phase, &log, NULL), TN_OK);
    assert_log(&log, "t-break-model t-note");
}

/* ---- what runs, and when ----------------------------------------------------------------------------------------- */

static void test_requires(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"t-need", "t-base t-need"},
        {"t-base,t-need", "t-base t-need"},
        {"t-base,t-drop-one,t-need", "t-base t-drop-one t-base t-need"},
        {"t-base,t-gentle,t-need", "t-base t-gentle t-need"},
        {"t-base,t-look,t-need", "t-base t-look t-need"},
    };
    Log log;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(run_list(cases[i][0], &log, NULL));
        assert_log(&log, cases[i][1]);
    }
    assert_int_equal(run_list("t-circle", &log, NULL), TN_LIMIT);
    assert_says("requires itself");
    assert_int_equal(run_list("t-itself", &log, NULL), TN_LIMIT);
    assert_says("without end");
}

/* Twice in a list is twice, unless it is known to find nothing. */
static void test_twice(void **state) {
    (void)state;
    Log log;
    tn_pass_report *report;
    OK(run_list("t-note,t-note", &log, &report));
    assert_log(&log, "t-note");
    assert_int_equal(record_of(report, 1).outcome, TN_PASS_UP_TO_DATE);
    assert_int_equal(record_of(report, 1).number, 0);
    tn_pass_report_release(report);
    OK(run_list("t-note,t-drop-one,t-note", &log, NULL));
    assert_log(&log, "t-note t-drop-one t-note");
    OK(run_list("t-look,t-look", &log, NULL));
    assert_log(&log, "t-look t-look");
    OK(run_list("t-drop-one,t-drop-one", &log, NULL));
    assert_log(&log, "t-drop-one t-drop-one");
}

static void test_repeat(void **state) {
    (void)state;
    Log log;
    OK(run_list("repeat{t-drop-one}", &log, NULL));
    assert_log(&log, "t-drop-one t-drop-one t-drop-one t-drop-one");
    OK(run_list("repeat(max=2){t-drop-one}", &log, NULL));
    assert_log(&log, "t-drop-one t-drop-one the model still changed after 2 turns of `repeat`");
    OK(run_list("t-both", &log, NULL));
    assert_log(&log, "t-note t-drop-one t-drop-one t-drop-one t-drop-one");
}

static void test_disabled(void **state) {
    (void)state;
    static const char *const off[] = {"t_note"}, *const wrong[] = {"t-nte"}, *const twice[] = {"t-note", "t_note"};
    Log log;
    tn_pass_report *report;
    tn_pass_settings settings = {.pipeline = "t-note,t-look", .disabled = off, .n_disabled = 1};
    OK(run_on(straight, &settings, &log, &report));
    assert_log(&log, "t-look");
    assert_int_equal(record_of(report, 0).outcome, TN_PASS_DISABLED);
    assert_string_equal(record_of(report, 0).why, "it is disabled");
    tn_pass_report_release(report);
    settings.disabled = wrong;
    assert_int_equal(run_on(straight, &settings, &log, NULL), TN_NOT_FOUND);
    assert_says("did you mean \"t-note\"?");
    settings.disabled = twice;
    settings.n_disabled = 2;
    assert_int_equal(run_on(straight, &settings, &log, NULL), TN_INVALID_ARGUMENT);
    assert_says("named twice");
}

/* Why a pass does not apply; "" when it does. */
static void assert_applies(const char *pass, const tn_place *places, size_t n, const char *why) {
    bool applies;
    char *said;
    tn_pass_settings settings = {.pipeline = pass, .places = places, .n_places = n};
    Log log;
    tn_pass_report *report;
    OK(run_on(straight, &settings, &log, &report));
    tn_pass_record r = record_of(report, 0);
    assert_int_equal(r.outcome, *why ? TN_PASS_NOT_APPLICABLE : TN_PASS_RAN);
    assert_string_equal(r.why, why);
    tn_pass_report_release(report);
    OK(tn_pass_applies(pass, &settings, &applies, &said));
    assert_false(applies);
    assert_string_equal(said, *why ? why : "it names no phase: it runs where a pipeline names it");
    tn_free_text(said);
}

static void test_places(void **state) {
    (void)state;
    static const tn_place gpu[] = {{"gpu", TN_UNDEFINED}}, both[] = {{"gpu", TN_F16}, {"cpu", TN_UNDEFINED}};
    assert_applies("t-note", NULL, 0, "");
    assert_applies("t-on-gpu", NULL, 0, "it is for gpu only, which is no valid place");
    assert_applies("t-on-gpu", gpu, 1, "");
    assert_applies("t-on-gpu", both, 2, "");
    assert_applies("t-not-on-cpu", NULL, 0, "it is not for cpu, which is a valid place");
    assert_applies("t-not-on-cpu", gpu, 1, "");
    assert_applies("t-conv", NULL, 0, "");
    assert_applies("t-gpu-conv", NULL, 0, "it wants a kernel for Conv on gpu, and there is none");
    assert_applies("t-fc", both, 2, "it wants a kernel for NoSuchOp on one of the valid places, and there is none");
}

static void test_graphs(void **state) {
    (void)state;
    Log log;
    OK(run_on(nested, &(tn_pass_settings){.pipeline = "t-depth"}, &log, NULL));
    assert_log(&log, "t-depth 2 2 1 1 0");
}

static void test_failure_stops(void **state) {
    (void)state;
    Log log;
    tn_pass_report *report;
    assert_int_equal(run_list("t-note,t-fail,t-look", &log, &report), TN_UNSUPPORTED);
    assert_says("it cannot be done");
    assert_says("in pass \"t-fail\", the 2th that ran");
    assert_log(&log, "t-note t-fail");
    assert_int_equal(tn_pass_report_size(report), 2);
    assert_int_equal(record_of(report, 1).outcome, TN_PASS_FAILED);
    tn_pass_report_release(report);

    tn_context *context = logging_context(&log);
    tn_model *model = model_of(context, straight);
    tn_session *session;
    tn_pass_settings settings = {.pipeline = "t-fail"};
    assert_int_equal(tn_session_create(model, &(tn_session_options){.passes = &settings}, &session), TN_UNSUPPORTED);
    assert_says("in pass \"t-fail\"");
    tn_model_release(model);
    tn_context_release(context);
}

static void test_limits(void **state) {
    (void)state;
    Log log;
    tn_pass_report *report;
    OK(run_on(straight, &(tn_pass_settings){.pipeline = "t-note,t-need,t-look", .max_passes = 2}, &log, &report));
    assert_log(&log, "t-note t-base");
    assert_int_equal(record_of(report, 1).outcome, TN_PASS_BEYOND_LIMIT);
    assert_string_equal(record_of(report, 3).why, "the limit of passes is reached");
    tn_pass_report_release(report);
    for (uint64_t most = 1; most <= 4; most++) {
        tn_pass_settings settings = {.pipeline = "t-drop-one,t-drop-all", .max_changes = most};
        OK(run_on(straight, &settings, &log, &report));
        tn_pass_record r = record_of(report, 1);
        assert_int_equal(r.first_change, 2);
        assert_int_equal(r.n_changes, most < 3 ? most - 1 : 2);
        assert_int_equal(r.nodes_after, 5 - (most < 3 ? most : 3));
        tn_pass_report_release(report);
    }
}

/* ---- the default list -------------------------------------------------------------------------------------------- */

static const Pass scheduled[] = {
    {.name = "s-b", .phase = PHASE_POST_REWRITE, .order = 10, .kind = PASS_DEBUG, .run = run_nothing},
    {.name = "s-a", .phase = PHASE_POST_REWRITE, .order = 10, .kind = PASS_DEBUG, .run = run_nothing},
    {.name = "s-z", .phase = PHASE_POST_REWRITE, .order = 9, .kind = PASS_DEBUG, .run = run_nothing},
    {.name = "s-first", .phase = PHASE_PRE_PLACEMENT, .order = -5, .kind = PASS_DEBUG, .run = run_nothing},
    {.name = "s-high",
     .phase = PHASE_POST_REWRITE,
     .order = 11,
     .opt_level = 3,
     .kind = PASS_DEBUG,
     .run = run_nothing},
};

/* Those of the log that begin with "s-" or "t-", run by run. */
static void assert_ours(Log *log, const char *want) {
    char ours[1024] = "";
    for (char *word = strtok(log->text, " "); word; word = strtok(NULL, " ")) {
        if ((word[0] != 's' && word[0] != 't') || word[1] != '-') continue;
        strncat(ours, *ours ? " " : "", sizeof ours - strlen(ours) - 1);
        strncat(ours, word, sizeof ours - strlen(ours) - 1);
    }
    assert_string_equal(ours, want);
    *log = (Log){0};
}

static void test_schedule(void **state) {
    (void)state;
    static const char *const added[] = {"t-look", "repeat{t-note}"};
    Log log;
    char *text;
    size_t n = sizeof scheduled / sizeof *scheduled;
    for (size_t i = 0; i < n; i++) OK(pass_register(&scheduled[i]));
    tn_pass_settings settings = {.opt_level = TN_OPT_0};
    OK(run_on(straight, &settings, &log, NULL));
    assert_ours(&log, "s-first s-z s-a s-b");
    settings = (tn_pass_settings){.opt_level = TN_OPT_3, .added = added, .n_added = 2};
    OK(run_on(straight, &settings, &log, NULL));
    assert_ours(&log, "s-first t-look t-note s-z s-a s-b s-high");
    OK(run_list("post-rewrite", &log, NULL));
    assert_ours(&log, "s-z s-a s-b");
    OK(run_list("", &log, NULL));
    assert_log(&log, "");
    settings.opt_level = TN_OPT_0;
    OK(tn_pipeline_text(&settings, &text));
    assert_non_null(strstr(text, "pre-placement{s-first,"));
    assert_non_null(strstr(text, "t-look,repeat{t-note}}"));
    assert_non_null(strstr(text, "s-z,s-a,s-b}"));
    tn_free_text(text);
    for (size_t i = 0; i < n; i++) OK(pass_unregister(str_of(scheduled[i].name)));
    assert_null(pass_find(STR("s-a")));
}

/* ---- pipelines as text ------------------------------------------------------------------------------------------- */

static void assert_prints(const char *text, const char *want) {
    Arena arena;
    Pipeline pipeline, again;
    arena_init(&arena, &allocator_default);
    Text first, second;
    text_init(&first, &allocator_default);
    text_init(&second, &allocator_default);
    OK(pipeline_parse(&arena, str_of(text), &pipeline));
    pipeline_print(&pipeline, &first);
    assert_string_equal(first.s ? first.s : "", want);
    OK(pipeline_parse(&arena, str_of(want), &again));
    pipeline_print(&again, &second);
    assert_string_equal(second.s ? second.s : "", want);
    text_free(&first);
    text_free(&second);
    arena_free(&arena);
}

static void test_print(void **state) {
    (void)state;
    assert_prints("", "");
    assert_prints(" t_note ,\n t-look", "t-note,t-look");
    assert_prints("t-options()", "t-options");
    assert_prints("t-options(count = 7)", "t-options");
    assert_prints("t-options(count=-3,is_on=true)", "t-options(count=-3,is-on=true)");
    assert_prints("t-options(name=\"a \\\"b\\\" \\\\c\",rate=1e-3)", "t-options(rate=1e-3,name=\"a \\\"b\\\" \\\\c\")");
    assert_prints("t-options(name=\"plain_2\")", "t-options(name=plain_2)");
    assert_prints("repeat(max=3){t-note,repeat{t-look}}", "repeat(max=3){t-note,repeat{t-look}}");
    assert_prints("repeat(max=10){}", "repeat{}");
    assert_prints("post-rewrite,post_partition{t-note}", "post-rewrite,post-partition{t-note}");
}

static void test_options(void **state) {
    (void)state;
    Log log;
    OK(run_list("t-options,t-options(count=-3,rate=2,is-on=true,name=\"\")", &log, NULL));
    assert_log(&log, "t-options 7,0.5,off,plain t-options(count=-3,rate=2,is-on=true,name=\"\") -3,2,on,");
}

static void assert_refused(const char *list, tn_status status, const char *says, const char *where) {
    Log log;
    if (run_list(list, &log, NULL) != status) print_error("\"%s\": %s\n", list, diag_text());
    assert_int_equal(run_list(list, &log, NULL), status);
    assert_says(says);
    assert_says(where);
    assert_log(&log, "");
}

static void test_refused(void **state) {
    (void)state;
    assert_refused("t-note,t-loook", TN_NOT_FOUND, "there is no pass \"t-loook\"; did you mean \"t-look\"?",
                   "column 8");
    assert_refused("post-rewrit", TN_NOT_FOUND, "did you mean \"post-rewrite\"?", "column 1");
    assert_refused("zzzzzzzzzz", TN_NOT_FOUND, "`tenon passes` lists them", "column 1");
    assert_refused("t-options(coun=1)", TN_INVALID_ARGUMENT, "did you mean \"count\"?", "column 11");
    assert_refused("t-note(x=1)", TN_INVALID_ARGUMENT, "has no option \"x\", and no other", "column 8");
    assert_refused("t-options(count=1,count=2)", TN_INVALID_ARGUMENT, "\"count\" stands here twice", "column 19");
    assert_refused("t-options(count=1.5)", TN_INVALID_ARGUMENT, "wants a whole number", "column 11");
    assert_refused("t-options(rate=nan)", TN_INVALID_ARGUMENT, "wants a number", "column 11");
    assert_refused("t-options(is-on=yes)", TN_INVALID_ARGUMENT, "wants true or false", "column 11");
    assert_refused("t-options(count=99999999999999999999)", TN_INVALID_ARGUMENT, "wants a whole number", "column");
    assert_refused("t-options(name=\"x)", TN_INVALID_ARGUMENT, "this text does not end", "column 16");
    assert_refused("t-options(name=)", TN_INVALID_ARGUMENT, "a value is missing", "column 16");
    assert_refused("t-options(count=1", TN_INVALID_ARGUMENT, "ends where ')' should stand", "column 18");
    assert_refused("repeat{t-note", TN_INVALID_ARGUMENT, "ends where '}' should stand", "column 14");
    assert_refused("repeat(max=0){t-note}", TN_INVALID_ARGUMENT, "must be from 1 to", "column");
    assert_refused("repeat(min=1){t-note}", TN_INVALID_ARGUMENT, "has one option, \"max\"", "column 8");
    assert_refused("t-note t-look", TN_INVALID_ARGUMENT, "'t' stands where the pipeline should end", "column 8");
    assert_refused("t-note,", TN_INVALID_ARGUMENT, "the name of a pass is missing", "column 8");
    char deep[400] = "";
    for (int i = 0; i < 40; i++) strcat(deep, "repeat{");
    assert_refused(deep, TN_INVALID_ARGUMENT, "nested more than", "column");
}

/* ---- the registry ------------------------------------------------------------------------------------------------ */

static void assert_bad_pass(const Pass *pass, const char *says) {
    assert_int_equal(pass_register(pass), TN_INVALID_ARGUMENT);
    assert_says(says);
}

static void test_registry(void **state) {
    (void)state;
    uint64_t version = pass_registry_version();
    assert_bad_pass(&(Pass){.name = "t_note", .run = run_nothing}, "there is a pass \"t_note\" already");
    assert_bad_pass(&(Pass){.name = "remove_dead", .run = run_nothing}, "already");
    assert_bad_pass(&(Pass){.name = "two words", .run = run_nothing}, "is no name for a pass");
    assert_bad_pass(&(Pass){.name = "", .run = run_nothing}, "is no name for a pass");
    assert_bad_pass(&(Pass){.name = "repeat", .run = run_nothing}, "means something else");
    assert_bad_pass(&(Pass){.name = "post_rewrite", .run = run_nothing}, "means something else");
    assert_bad_pass(&(Pass){.name = "x"}, "either a function or a pipeline");
    assert_bad_pass(&(Pass){.name = "x", .run = run_nothing, .pipeline = "t-note"}, "either a function or a pipeline");
    assert_bad_pass(&(Pass){.name = "x", .run = run_nothing, .phase = N_PHASES}, "no known kind or phase");
    assert_bad_pass(
        &(Pass){.name = "x", .run = run_nothing, .options = {{"a", OPTION_INT, "1"}, {"a", OPTION_INT, "2"}}},
        "has the option \"a\" twice");
    assert_bad_pass(&(Pass){.name = "x", .run = run_nothing, .options = {{"a", OPTION_INT, "one"}}},
                    "wants a whole number");
    assert_int_equal(pass_unregister(STR("remove-dead")), TN_INVALID_ARGUMENT);
    assert_int_equal(pass_unregister(STR("t-nowhere")), TN_NOT_FOUND);
    static const Pass fresh = {.name = "x", .run = run_nothing};
    OK(pass_register(&fresh));
    assert_ptr_equal(pass_find(STR("x")), &fresh);
    OK(pass_unregister(STR("x")));
    assert_null(pass_find(STR("x")));
    assert_true(pass_registry_version() > version);
}

static void test_listing(void **state) {
    (void)state;
    tn_pass_info info;
    tn_pass_option_info option;
    char last[64] = "";
    for (size_t i = 0; i < tn_n_passes(); i++) {
        OK(tn_pass_at(i, &info));
        assert_true(strcmp(last, info.name) < 0);
        snprintf(last, sizeof last, "%s", info.name);
    }
    assert_int_equal(tn_pass_at(tn_n_passes(), &info), TN_OUT_OF_RANGE);
    OK(tn_pass_find("t_options", &info));
    assert_string_equal(info.name, "t-options");
    assert_int_equal(info.kind, TN_PASS_DEBUG);
    assert_int_equal(info.n_options, 4);
    OK(tn_pass_option_at("t-options", 1, &option));
    assert_string_equal(option.name, "rate");
    assert_string_equal(option.kind, "float");
    assert_string_equal(option.preset, "0.5");
    assert_int_equal(tn_pass_option_at("t-options", 4, &option), TN_OUT_OF_RANGE);
    assert_int_equal(tn_pass_find("t-option", &info), TN_NOT_FOUND);
    assert_says("did you mean \"t-options\"?");
    OK(tn_pass_find("t-gpu-conv", &info));
    assert_string_equal(info.kernels, "Conv@gpu");
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

static void test_report(void **state) {
    (void)state;
    static const struct {
        const char *pass, *text;
        tn_phase phase;
        int depth;
        uint64_t number;
        bool changed;
        size_t before, after;
    } want[] = {
        {"", "pre-placement", TN_NO_PHASE, 0, 0, true, 5, 4},
        {"t-need", "t-need", TN_PRE_PLACEMENT, 1, 2, false, 5, 5},
        {"t-base", "t-base", TN_PRE_PLACEMENT, 2, 1, false, 5, 5},
        {"t-options", "t-options(count=1)", TN_PRE_PLACEMENT, 1, 3, false, 5, 5},
        {"t-drop-one", "t-drop-one", TN_PRE_PLACEMENT, 1, 4, true, 5, 4},
        {"t-both", "t-both", TN_NO_PHASE, 0, 0, true, 4, 2},
        {"t-note", "t-note", TN_NO_PHASE, 1, 5, false, 4, 4},
        {"", "repeat", TN_NO_PHASE, 1, 0, true, 4, 2},
        {"t-drop-one", "t-drop-one", TN_NO_PHASE, 2, 6, true, 4, 3},
        {"t-drop-one", "t-drop-one", TN_NO_PHASE, 2, 7, true, 3, 2},
        {"t-drop-one", "t-drop-one", TN_NO_PHASE, 2, 8, false, 2, 2},
    };
    Log log;
    tn_pass_report *report;
    OK(run_list("pre-placement{t-need,t-options(count=1),t-drop-one},t-both", &log, &report));
    assert_int_equal(tn_pass_report_size(report), sizeof want / sizeof *want);
    for (size_t i = 0; i < tn_pass_report_size(report); i++) {
        tn_pass_record r = record_of(report, i);
        assert_string_equal(r.pass, want[i].pass);
        assert_string_equal(r.text, want[i].text);
        if (want[i].pass[0]) assert_int_equal(r.phase, want[i].phase);
        assert_int_equal(r.depth, want[i].depth);
        assert_int_equal(r.number, want[i].number);
        assert_int_equal(r.changed, want[i].changed);
        assert_int_equal(r.nodes_before, want[i].before);
        assert_int_equal(r.nodes_after, want[i].after);
        assert_int_equal(r.outcome, TN_PASS_RAN);
    }
    tn_pass_record dropped = record_of(report, 4);
    assert_int_equal(dropped.n_counts, 1);
    assert_string_equal(dropped.counts[0].what, "dropped");
    assert_int_equal(dropped.counts[0].n, 1);
    assert_true(record_of(report, 0).nanoseconds >= dropped.nanoseconds);
    tn_pass_record none;
    assert_int_equal(tn_pass_report_at(report, 99, &none), TN_OUT_OF_RANGE);
    tn_pass_report_release(report);
}

/* ---- looking on -------------------------------------------------------------------------------------------------- */

typedef struct Seen {
    char text[256];
    const char *stop_at;
} Seen;

static tn_status see(void *user, const char *when, const tn_pass_record *r, const tn_model *model) {
    Seen *seen = user;
    tn_value_info info;
    OK(tn_model_input(model, 0, &info));
    size_t n = strlen(seen->text);
    snprintf(seen->text + n, sizeof seen->text - n, "%s%s:%s:%zu", n ? " " : "", when, r->pass, r->nodes_after);
    return seen->stop_at && strcmp(seen->stop_at, r->pass) == 0 ? fail(TN_CANCELLED, "enough seen") : TN_OK;
}

static tn_status see_before(void *user, const tn_pass_record *r, const tn_model *m) { return see(user, "b", r, m); }
static tn_status see_after(void *user, const tn_pass_record *r, const tn_model *m) { return see(user, "a", r, m); }

static void test_callbacks(void **state) {
    (void)state;
    Log log;
    Seen seen = {0};
    tn_pass_settings settings = {
        .pipeline = "t-note,t-drop-all,t-look", .before = see_before, .after = see_after, .user = &seen};
    OK(run_on(straight, &settings, &log, NULL));
    assert_string_equal(seen.text, "b:t-note:5 a:t-note:5 b:t-drop-all:5 a:t-drop-all:2 b:t-look:2 a:t-look:2");
    seen = (Seen){.stop_at = "t-drop-all"};
    settings.before = NULL;
    assert_int_equal(run_on(straight, &settings, &log, NULL), TN_CANCELLED);
    assert_string_equal(seen.text, "a:t-note:5 a:t-drop-all:2");
}

typedef struct Gate {
    Instrument base;
    const char *shut;
} Gate;

static bool may_run(Instrument *self, const PassRun *run) { return strcmp(((Gate *)self)->shut, run->pass->name) != 0; }

static void test_gate(void **state) {
    (void)state;
    Fixture f;
    PassManager manager;
    Arena arena;
    Pipeline list;
    Gate gate = {.base = {.should_run = may_run}, .shut = "t-drop-all"};
    PassSetup setup = {.max_passes = UINT64_MAX, .max_changes = UINT64_MAX, .instruments = &gate.base};
    fixture_begin(&f);
    model_free(f.model);
    OK(model_parse(f.ctx, str_of(straight), NULL, STR(""), &f.model));
    arena_init(&arena, &f.heap.allocator);
    OK(pipeline_parse(&arena, STR("t-note,t-drop-all"), &list));
    OK(manager_init(&manager, f.model, &setup));
    OK(manager_run(&manager, &list));
    assert_int_equal(manager.records.data[1].outcome, PASS_DISABLED);
    assert_int_equal(model_node_count(f.model), 5);
    manager_free(&manager);
    arena_free(&arena);
    fixture_end(&f);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The names in a folder, sorted, with spaces between; removes them and the folder. */
static void take_folder(const char *folder, char *names, size_t size) {
    char *list[32], path[512];
    int n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && n < 32) list[n++] = strdup(entry->d_name);
    closedir(dir);
    qsort(list, (size_t)n, sizeof *list, by_text);
    *names = 0;
    for (int i = 0; i < n; i++) {
        snprintf(names + strlen(names), size - strlen(names), "%s%s", i ? " " : "", list[i]);
        snprintf(path, sizeof path, "%s/%s", folder, list[i]);
        assert_int_equal(unlink(path), 0);
        free(list[i]);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void test_files(void **state) {
    (void)state;
    static const char *const only[] = {"t-drop-one"};
    char folder[] = "tenon_passes_XXXXXX", names[1024], inner[64];
    Log log;
    assert_non_null(mkdtemp(folder));
    tn_pass_settings settings = {
        .pipeline = "t-note,t-drop-one", .print_folder = folder, .print_when = TN_PRINT_BEFORE | TN_PRINT_AFTER};
    OK(run_on(straight, &settings, &log, NULL));
    take_folder(folder, names, sizeof names);
    assert_string_equal(names, "0001_001_t-note_before.tn 0002_001_t-note_after.tn 0003_002_t-drop-one_before.tn "
                               "0004_002_t-drop-one_after.tn");
    settings.print_when = TN_PRINT_ON_CHANGE;
    OK(run_on(straight, &settings, &log, NULL));
    take_folder(folder, names, sizeof names);
    assert_string_equal(names, "0001_002_t-drop-one_after.tn");
    settings.print_when = TN_PRINT_BEFORE;
    settings.print_passes = only;
    settings.n_print_passes = 1;
    OK(run_on(straight, &settings, &log, NULL));
    take_folder(folder, names, sizeof names);
    assert_string_equal(names, "0001_002_t-drop-one_before.tn");
    settings = (tn_pass_settings){
        .pipeline = "t-drop-one,t-fail", .print_folder = folder, .print_when = TN_PRINT_ON_FAILURE};
    assert_int_equal(run_on(straight, &settings, &log, NULL), TN_UNSUPPORTED);
    take_folder(folder, names, sizeof names);
    assert_string_equal(names, "0001_002_t-fail_failed.tn");
    snprintf(inner, sizeof inner, "%s/no/such", folder);
    settings.print_folder = inner;
    assert_int_not_equal(run_on(straight, &settings, &log, NULL), TN_OK);
}

/* Left behind by a pass that fails, with what it was given. */
static void test_crash_file(void **state) {
    (void)state;
    char path[] = "tenon_crash_XXXXXX.tn";
    int fd = mkstemps(path, 3);
    assert_true(fd >= 0);
    close(fd);
    Log log;
    tn_pass_settings settings = {.pipeline = "t-drop-one,t-note", .reproducer = path};
    OK(run_on(straight, &settings, &log, NULL));
    assert_int_not_equal(access(path, F_OK), 0);
    settings.pipeline = "t-drop-one,t-fail,t-note";
    assert_int_equal(run_on(straight, &settings, &log, NULL), TN_UNSUPPORTED);
    tn_context *context = logging_context(&log);
    tn_model *model;
    OK(tn_model_load(context, path, &model));
    assert_string_equal(tn_model_metadata(model, "tenon.pipeline"), "t-fail");
    settings = (tn_pass_settings){.pipeline = tn_model_metadata(model, "tenon.pipeline")};
    assert_int_equal(model_node_count(model->ir), 4);
    assert_int_equal(tn_model_run_passes(model, &settings, NULL), TN_UNSUPPORTED);
    tn_model_release(model);
    tn_context_release(context);
    assert_int_equal(unlink(path), 0);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct Job {
    const tn_model *model;
    const char *list;
    size_t nodes;
} Job;

static void *optimize_often(void *user) {
    const Job *job = user;
    for (int i = 0; i < 20; i++) {
        tn_model *better = NULL;
        tn_pass_report *report = NULL;
        tn_pass_settings settings = {.pipeline = job->list, .verify_each = true};
        if (tn_model_optimize(job->model, &settings, &better, &report) != TN_OK) return "it failed";
        if (model_node_count(better->ir) != job->nodes) return "another number of nodes";
        tn_pass_report_release(report);
        tn_model_release(better);
    }
    return NULL;
}

static void *register_often(void *user) {
    static const Pass extra = {.name = "t-extra", .run = run_nothing};
    (void)user;
    for (int i = 0; i < 200; i++)
        if (pass_register(&extra) != TN_OK || !pass_find(STR("t-extra")) || pass_unregister(STR("t-extra")) != TN_OK)
            return "the registry failed";
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    tn_context *context;
    OK(tn_context_create(&(tn_context_options){.threads = 1}, &context));
    tn_model *model = model_of(context, straight), *other = model_of(context, nested);
    Job jobs[] = {{model, "repeat{t-drop-one},t-need", 2},
                  {model, "t-drop-all,t-options(name=x)", 2},
                  {other, "infer-shapes,t-depth,remove-dead", 5}};
    pthread_t threads[4];
    void *trouble;
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, optimize_often, &jobs[i]), 0);
    assert_int_equal(pthread_create(&threads[3], NULL, register_often, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &trouble), 0);
        if (trouble) print_error("thread %d: %s\n", i, (char *)trouble);
        assert_null(trouble);
    }
    assert_int_equal(model_node_count(model->ir), 5);
    tn_model_release(model);
    tn_model_release(other);
    tn_context_release(context);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Whatever allocation fails: a status, and nothing is lost. */
static void test_out_of_memory(void **state) {
    (void)state;
    TestHeap heap;
    tn_status status = TN_OUT_OF_MEMORY;
    for (int64_t at = 1; status != TN_OK && at < 20000; at++) {
        test_heap_init(&heap);
        heap.fail_at = at;
        tn_context *context = NULL;
        tn_model *model = NULL, *better = NULL;
        tn_pass_report *report = NULL;
        tn_pass_settings settings = {.pipeline = "t-need,repeat{t-drop-one},post-rewrite{t-options(name=\"a b\")}",
                                     .verify_each = true};
        status = tn_context_create(&(tn_context_options){.threads = 1, .allocator = heap.allocator}, &context);
        if (status == TN_OK)
            status = tn_model_load_memory(context, nested, sizeof nested - 1, NULL, NULL, NULL, &model);
        if (status == TN_OK) status = tn_model_optimize(model, &settings, &better, &report);
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        tn_pass_report_release(report);
        tn_model_release(better);
        tn_model_release(model);
        tn_context_release(context);
        assert_int_equal(heap.living, 0);
    }
    OK(status);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),   cmocka_unit_test(test_verify),        cmocka_unit_test(test_requires),
        cmocka_unit_test(test_twice),   cmocka_unit_test(test_repeat),        cmocka_unit_test(test_disabled),
        cmocka_unit_test(test_places),  cmocka_unit_test(test_graphs),        cmocka_unit_test(test_failure_stops),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_schedule),      cmocka_unit_test(test_print),
        cmocka_unit_test(test_options), cmocka_unit_test(test_refused),       cmocka_unit_test(test_registry),
        cmocka_unit_test(test_listing), cmocka_unit_test(test_report),        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_gate),    cmocka_unit_test(test_files),         cmocka_unit_test(test_crash_file),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, add_passes, remove_passes);
}
