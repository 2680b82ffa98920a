/* SPDX-License-Identifier: Apache-2.0 */
/* include/tenon/plugin.h within a program: what descriptions are refused, that all of a plug-in is registered or nothing,
   that others may compile and run meanwhile. Shared objects are loaded by tests/cli/plugin.test. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdint.h>

#include <pthread.h>
#include <stdatomic.h>

#include <cmocka.h>

#include <tenon/plugin.h>

#define OK(expr) assert_true(check_ok((expr), #expr))

static bool check_ok(tn_status status, const char *what) {
    if (status != TN_OK) print_error("%s: %s: %s\n", what, tn_status_name(status), tn_last_error());
    return status == TN_OK;
}

static void assert_says(const char *part) {
    if (!strstr(tn_last_error(), part)) print_error("\"%s\" does not say \"%s\"\n", tn_last_error(), part);
    assert_non_null(strstr(tn_last_error(), part));
}

static tn_model *model_of(tn_context *context, const char *text) {
    tn_model *model;
    OK(tn_model_from_text(context, text, &model));
    return model;
}

static const char *const add_mul = "tn 1\n"
                                   "graph @main(%x: f32[1,2]) -> (%y) {\n"
                                   "  %a = Add(%x, 1.0)\n"
                                   "  %y = Mul(%a, 1.0)\n"
                                   "}\n";

/* ---- passes -------------------------------------------------------------------------------------------------- */

static tn_status count_runs(tn_pass_run *run, tn_graph *graph) {
    atomic_int *runs = tn_pass_run_user(run);
    if (tn_graph_n_nodes(graph) > 0) atomic_fetch_add(runs, 1);
    return tn_pass_run_count(run, "runs", 1);
}

static tn_status run_pass(const char *pipeline, tn_pass_report **report) {
    tn_context *context;
    tn_pass_settings settings = {.pipeline = pipeline};
    OK(tn_context_create(&(tn_context_options){.threads = 1}, &context));
    tn_model *model = model_of(context, add_mul);
    tn_status status = tn_model_run_passes(model, &settings, report);
    tn_model_release(model);
    tn_context_release(context);
    return status;
}

static void test_pass(void **state) {
    (void)state;
    atomic_int runs = 0;
    char name[] = "count_runs_here", summary[] = "counts its runs", kind[] = "int", preset[] = "5", targets[] = "cpu";
    tn_pass_desc desc = {.size = sizeof desc,
                         .name = name,
                         .summary = summary,
                         .kind = TN_PASS_DEBUG,
                         .targets = targets,
                         .kernels = " Gemm  Conv@reference ",
                         .keeps = "remove-dead prune-graph",
                         .options = {{"n", kind, preset, NULL}},
                         .run = count_runs,
                         .user = &runs};
    OK(tn_register_pass(&desc));
    memset(name, 'x', sizeof name - 1); /* nothing of it is kept */
    memset(summary, 'x', sizeof summary - 1);
    memset(kind, 'x', sizeof kind - 1);
    memset(preset, 'x', sizeof preset - 1);
    memset(targets, 'x', sizeof targets - 1);
    memset(&desc, 0, sizeof desc);

    tn_pass_info info;
    tn_pass_option_info option;
    OK(tn_pass_find("count-runs_here", &info));
    assert_string_equal(info.name, "count-runs-here");
    assert_string_equal(info.summary, "counts its runs");
    assert_string_equal(info.targets, "cpu");
    assert_string_equal(info.kernels, "Gemm Conv@reference");
    assert_string_equal(info.keeps, "remove-dead prune-graph");
    OK(tn_pass_option_at("count_runs_here", 0, &option));
    assert_string_equal(option.kind, "int");
    assert_string_equal(option.preset, "5");

    tn_pass_report *report;
    tn_pass_record record;
    OK(run_pass("count_runs_here,count-runs-here(n=1)", &report));
    assert_int_equal(runs, 2);
    assert_int_equal(tn_pass_report_size(report), 2);
    OK(tn_pass_report_at(report, 1, &record));
    assert_string_equal(record.text, "count-runs-here(n=1)");
    assert_int_equal(record.n_counts, 1);
    assert_string_equal(record.counts[0].what, "runs");
    tn_pass_report_release(report);

    OK(tn_unregister_pass("count-runs_here"));
    assert_int_equal(tn_unregister_pass("count-runs-here"), TN_NOT_FOUND);
    assert_int_equal(run_pass("count-runs-here", NULL), TN_NOT_FOUND);
    assert_int_equal(tn_unregister_pass("remove-dead"), TN_INVALID_ARGUMENT);
    assert_says("belongs to the engine");
    assert_int_equal(tn_unregister_pass(NULL), TN_INVALID_ARGUMENT);
}

static tn_status nothing(tn_pass_run *run, tn_graph *graph) {
    (void)run, (void)graph;
    return TN_OK;
}

static void test_bad_passes(void **state) {
    (void)state;
    const struct {
        tn_pass_desc desc;
        const char *says;
    } bad[] = {
        {{.name = NULL, .run = nothing}, "no name"},
        {{.name = "", .run = nothing}, "no name for a pass"},
        {{.name = "a b", .run = nothing}, "\"a b\" is no name for a pass"},
        {{.name = "post_rewrite", .run = nothing}, "means something else"},
        {{.name = "remove_dead", .run = nothing}, "there is a pass \"remove-dead\" already"},
        {{.name = "p"}, "either a function or a pipeline"},
        {{.name = "p", .run = nothing, .pipeline = "remove-dead"}, "either a function or a pipeline"},
        {{.name = "p", .run = nothing, .phase = TN_POST_PARTITION}, "set per_shape"},
        {{.name = "p", .run = nothing, .phase = TN_POST_REWRITE, .per_shape = true}, "for post-partition only"},
        {{.name = "p", .run = nothing, .phase = (tn_phase)9}, "no known kind or phase"},
        {{.name = "p", .run = nothing, .kind = (tn_pass_kind)9}, "no known kind or phase"},
        {{.name = "p", .run = nothing, .opt_level = 4}, "levels are 0 to 3"},
        {{.name = "p", .run = nothing, .targets = "a b c d e f g h i"}, "at most 8 targets"},
        {{.name = "p", .run = nothing, .options = {{"n", "integer", "1", NULL}}},
         "there are int, float, bool and string"},
        {{.name = "p", .run = nothing, .options = {{"n", "int", "many", NULL}}}, "wants a whole number, not \"many\""},
        {{.name = "p", .run = nothing, .options = {{"n", "int", NULL, NULL}}}, "wants a whole number"},
        {{.name = "p", .run = nothing, .options = {{"a b", "string", NULL, NULL}}}, "no name for an option"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn_pass_desc desc = bad[i].desc;
        desc.size = sizeof desc;
        size_t before = tn_n_passes();
        assert_int_not_equal(tn_register_pass(&desc), TN_OK);
        assert_says(bad[i].says);
        assert_int_equal(tn_n_passes(), before);
    }
    assert_int_equal(tn_register_pass(NULL), TN_INVALID_ARGUMENT);
}

/* Structs of other versions are longer or shorter. */
static void test_sizes(void **state) {
    (void)state;
    struct {
        tn_pass_desc desc;
        uint64_t more[4];
    } longer = {{.name = "longer", .run = nothing}, {0}};
    assert_int_equal(tn_register_pass(&longer.desc), TN_INVALID_ARGUMENT);
    assert_says("the size of a pass is 0");
    longer.desc.size = sizeof longer;
    longer.more[3] = 1;
    assert_int_equal(tn_register_pass(&longer.desc), TN_UNSUPPORTED);
    assert_says("a newer Tenon is needed");
    longer.more[3] = 0;
    OK(tn_register_pass(&longer.desc));
    OK(tn_unregister_pass("longer"));
    tn_pass_desc shorter = {.size = offsetof(tn_pass_desc, pipeline),
                            .name = "shorter",
                            .run = nothing,
                            .pipeline = "what stands behind the end is not read"};
    OK(tn_register_pass(&shorter));
    OK(tn_unregister_pass("shorter"));
}

/* ---- plug-ins ------------------------------------------------------------------------------------------------ */

static tn_status times_run(tn_call *call) {
    tn_view x, y;
    double by;
    tn_status status = tn_node_get_float(tn_call_node(call), "by", &by);
    if (status != TN_OK) return status;
    if (!tn_call_input(call, 0, &x) || !tn_call_output(call, 0, &y)) return TN_INTERNAL;
    for (int64_t i = 0; i < x.dims[0] * x.dims[1]; i++) ((float *)y.data)[i] = ((float *)x.data)[i] * (float)by;
    return TN_OK;
}

static const tn_op_desc times = {.size = sizeof(tn_op_desc),
                                 .domain = "com.test",
                                 .name = "Times",
                                 .inputs = {{"x", "f32|T"}},
                                 .outputs = {{"y", "T"}},
                                 .attrs = {{.name = "by", .kind = TN_ATTR_FLOAT, .f = 3}},
                                 .run = times_run};
static const tn_kernel_desc times_kernel = {
    .size = sizeof(tn_kernel_desc), .name = "times", .op = "com.test.Times", .priority = 1, .run = times_run};
TN_REGISTER_OP(times);
TN_REGISTER_KERNEL(times_kernel);
TN_REGISTER_PASS(TN_POST_REWRITE, 10, nothing);
TN_PLUGIN("test");

static bool has_op(const char *domain, const char *name, tn_op_info *info) {
    for (size_t i = 0; i < tn_n_ops(); i++)
        if (tn_op(i, info) == TN_OK && strcmp(info->domain, domain) == 0 && strcmp(info->name, name) == 0) return true;
    return false;
}

static void test_plugin(void **state) {
    (void)state;
    tn_op_info op;
    tn_pass_info pass;
    size_t n = tn_n_ops();
    OK(tn_register_plugin(&tn_plugin_info));
    assert_int_equal(tn_n_ops(), n + 1);
    assert_true(has_op("com.test", "Times", &op));
    assert_string_equal(op.types, "f32");
    assert_string_equal(op.kernels, "times, reference_any");
    OK(tn_pass_find("nothing", &pass));
    assert_int_equal(tn_register_plugin(&tn_plugin_info), TN_INVALID_ARGUMENT);
    assert_says("a plug-in \"test\" is there already, in the program itself");
    assert_int_equal(tn_n_ops(), n + 1);
}

/* What is refused leaves nothing behind: the pass comes last, the op and the kernel before it are good. */
static void test_all_or_nothing(void **state) {
    (void)state;
    static const tn_op_desc good_op = {
        .size = sizeof good_op, .domain = "com.bad", .name = "Good", .outputs = {{"y", "f32"}}, .run = times_run};
    static const tn_kernel_desc good_kernel = {
        .size = sizeof good_kernel, .name = "good", .op = "com.bad.Good", .run = times_run};
    static const tn_pass_desc good = {.size = sizeof good, .name = "good_pass", .run = nothing};
    static const tn_pass_desc again = {.size = sizeof again, .name = "good-pass", .run = nothing};
    const tn_pass_desc *passes[] = {&good, &again};
    const tn_op_desc *ops[] = {&good_op};
    const tn_kernel_desc *kernels[] = {&good_kernel};
    tn_plugin plugin = {.api = TN_PLUGIN_API,
                        .size = sizeof plugin,
                        .name = "bad",
                        .engine = tn_version,
                        .passes = passes,
                        .passes_end = passes + 2,
                        .ops = ops,
                        .ops_end = ops + 1,
                        .kernels = kernels,
                        .kernels_end = kernels + 1};
    tn_op_info op;
    tn_pass_info pass;
    size_t n_ops = tn_n_ops(), n_passes = tn_n_passes();
    assert_int_equal(tn_register_plugin(&plugin), TN_INVALID_ARGUMENT);
    assert_says("there is a pass \"good-pass\" already");
    assert_says("nothing of this plug-in was registered");
    assert_false(has_op("com.bad", "Good", &op));
    assert_int_equal(tn_pass_find("good-pass", &pass), TN_NOT_FOUND);
    assert_int_equal(tn_n_ops(), n_ops);
    assert_int_equal(tn_n_passes(), n_passes);
    plugin.passes_end = passes + 1; /* the name of the plug-in, op and kernel are free still */
    OK(tn_register_plugin(&plugin));
    assert_true(has_op("com.bad", "Good", &op));
    assert_string_equal(op.kernels, "good, reference_any");
}

static void test_bad_plugins(void **state) {
    (void)state;
    tn_plugin plugin = {.api = TN_PLUGIN_API + 1, .size = sizeof plugin, .name = "worse", .engine = tn_version};
    assert_int_equal(tn_register_plugin(&plugin), TN_UNSUPPORTED);
    assert_says("build it again with this Tenon's <tenon/plugin.h>");
    plugin.api = TN_PLUGIN_API;
    plugin.size = 0;
    assert_int_equal(tn_register_plugin(&plugin), TN_INVALID_ARGUMENT);
    plugin.size = sizeof plugin;
    plugin.engine = NULL;
    assert_int_equal(tn_register_plugin(&plugin), TN_STATE);
    assert_says("another copy of Tenon");
    plugin.engine = tn_version;
    plugin.name = NULL;
    assert_int_equal(tn_register_plugin(&plugin), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_register_plugin(NULL), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_load_plugin(NULL), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_load_plugin("no/such.so"), TN_IO);
    assert_says("no/such.so");
    assert_int_equal(tn_load_plugin("/"), TN_IO);
    assert_int_equal(tn_load_plugin("/dev/null"), TN_IO);
}

/* ---- ops and kernels ----------------------------------------------------------------------------------------- */

static tn_status register_op(tn_op_desc desc) {
    const tn_op_desc *row = &desc;
    desc.size = sizeof desc;
    return tn_register_plugin(&(tn_plugin){.api = TN_PLUGIN_API,
                                           .size = sizeof(tn_plugin),
                                           .name = "one-op",
                                           .engine = tn_version,
                                           .ops = &row,
                                           .ops_end = &row + 1});
}

static void test_bad_ops(void **state) {
    (void)state;
    const struct {
        tn_op_desc desc;
        const char *says;
    } bad[] = {
        {{.domain = "d", .name = NULL, .run = times_run}, "no name for an op"},
        {{.domain = "d", .name = "A-B", .run = times_run}, "\"A-B\" is no name for an op"},
        {{.name = "Op", .run = times_run}, "needs a domain of its own"},
        {{.domain = "", .name = "Op", .run = times_run}, "needs a domain of its own"},
        {{.domain = "tn", .name = "Op", .run = times_run}, "the engine's"},
        {{.domain = "ai.onnx", .name = "Op", .run = times_run}, "the engine's"},
        {{.domain = "com.microsoft", .name = "QGemm", .outputs = {{"y", "f32"}}, .run = times_run},
         "there is an op \"com.microsoft.QGemm\" already"},
        {{.domain = "d", .name = "Op", .outputs = {{"y", "f32"}}}, "no function `run`"},
        {{.domain = "d", .name = "Op", .run = times_run}, "no results"},
        {{.domain = "d", .name = "Op", .flags = 1u << 20, .outputs = {{"y", "f32"}}, .run = times_run}, "flags"},
        {{.domain = "d", .name = "Op", .inputs = {{"x", "f33"}}, .outputs = {{"y", "f32"}}, .run = times_run},
         "\"f33\" of \"x\""},
        {{.domain = "d", .name = "Op", .inputs = {{"x", "string"}}, .outputs = {{"y", "f32"}}, .run = times_run},
         "\"string\" of \"x\""},
        {{.domain = "d", .name = "Op", .inputs = {{"x", "f32|T|U"}}, .outputs = {{"y", "f32"}}, .run = times_run},
         "\"U\" of \"x\""},
        {{.domain = "d", .name = "Op", .inputs = {{"x", "U"}}, .outputs = {{"y", "f32"}}, .run = times_run},
         "no operand has both"},
        {{.domain = "d", .name = "Op", .inputs = {{"x y", "f32"}}, .outputs = {{"y", "f32"}}, .run = times_run},
         "no name for an operand"},
        {{.domain = "d",
          .name = "Op",
          .inputs = {{"x", "f32", false, true}, {"y", "f32"}},
          .outputs = {{"y", "f32"}},
          .run = times_run},
         "not the last"},
        {{.domain = "d",
          .name = "Op",
          .outputs = {{"y", "f32"}},
          .attrs = {{.name = "g", .kind = TN_ATTR_GRAPH}},
          .run = times_run},
         "neither a number"},
        {{.domain = "d",
          .name = "Op",
          .outputs = {{"y", "f32"}},
          .attrs = {{.name = "a"}, {.name = "a"}},
          .run = times_run},
         "there twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t before = tn_n_ops();
        assert_int_not_equal(register_op(bad[i].desc), TN_OK);
        assert_says(bad[i].says);
        assert_int_equal(tn_n_ops(), before);
    }
}

static tn_status register_kernel(tn_kernel_desc desc) {
    const tn_kernel_desc *row = &desc;
    desc.size = sizeof desc;
    return tn_register_plugin(&(tn_plugin){.api = TN_PLUGIN_API,
                                           .size = sizeof(tn_plugin),
                                           .name = "one-kernel",
                                           .engine = tn_version,
                                           .kernels = &row,
                                           .kernels_end = &row + 1});
}

static void test_bad_kernels(void **state) {
    (void)state;
    const struct {
        tn_kernel_desc desc;
        const char *says;
    } bad[] = {
        {{.name = "", .op = "Relu", .run = times_run}, "no name for a kernel"},
        {{.name = "k", .op = "Relu"}, "no function `run`"},
        {{.name = "k", .run = times_run}, "has no op"},
        {{.name = "k", .op = "Rleu", .run = times_run}, "for the op \"Rleu\", which there is not"},
        {{.name = "k", .op = "com.example.Relu", .run = times_run}, "which there is not"},
        {{.name = "k", .op = "Loop", .run = times_run}, "nested graphs"},
        {{.name = "k", .op = "Relu", .target = "gpu", .run = times_run}, "is for \"gpu\""},
        {{.name = "k", .op = "Relu", .priority = -1, .run = times_run}, "it would never run"},
        {{.name = "reference_any", .op = "Relu", .run = times_run}, "there is a kernel \"reference_any\" already"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(register_kernel(bad[i].desc), TN_OK);
        assert_says(bad[i].says);
    }
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

static atomic_bool stop;
static atomic_int n_wrong;

static double run_once(tn_session *session, tn_tensor *x) {
    tn_tensor *y = NULL;
    if (!check_ok(tn_session_run(session, NULL, (const tn_tensor *[]){x}, 1, &y, 1), "run")) return 0;
    double last = tn_tensor_get_double(y, 3);
    tn_tensor_release(y);
    return last;
}

/* Compiles and runs a model with an op of the plug-in above, over and over. */
static void *compile(void *user) {
    tn_tensor *x;
    tn_context *context = user;
    if (tn_tensor_create(context, TN_F32, 2, (int64_t[]){2, 2}, &x) != TN_OK) return NULL;
    ((float *)tn_tensor_data(x))[3] = 4;
    for (size_t i = 0; i < 200 && !stop; i++) {
        tn_model *model = NULL;
        tn_session *session = NULL;
        tn_status status = tn_model_from_text(context,
                                              "tn 1\ngraph @main(%x: f32[2,2]) -> (%y) {\n"
                                              "  %a = com.test.Times(%x) {by=2.0}\n  %y = Relu(%a)\n}\n",
                                              &model);
        if (status == TN_OK) status = tn_session_create(model, NULL, &session);
        if (!check_ok(status, "compile") || run_once(session, x) != 8) atomic_fetch_add(&n_wrong, 1);
        tn_session_release(session);
        tn_model_release(model);
    }
    tn_tensor_release(x);
    return NULL;
}

/* Others add and take away meanwhile. */
static void test_threads(void **state) {
    (void)state;
    tn_context *context;
    pthread_t threads[2];
    OK(tn_context_create(&(tn_context_options){.threads = 1}, &context));
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, compile, context), 0);
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "Op%d", i);
        tn_op_desc op = {
            .size = sizeof op, .domain = "com.threads", .name = name, .outputs = {{"y", "f32"}}, .run = times_run};
        const tn_op_desc *row = &op;
        OK(tn_register_plugin(&(tn_plugin){.api = TN_PLUGIN_API,
                                           .size = sizeof(tn_plugin),
                                           .name = name,
                                           .engine = tn_version,
                                           .ops = &row,
                                           .ops_end = &row + 1}));
        atomic_int runs = 0;
        OK(tn_register_pass(&(tn_pass_desc){.size = sizeof(tn_pass_desc),
                                            .name = "in-passing",
                                            .phase = TN_POST_REWRITE,
                                            .run = nothing,
                                            .user = &runs}));
        OK(tn_unregister_pass("in-passing"));
    }
    stop = true;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(n_wrong, 0);
    tn_context_release(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pass),    cmocka_unit_test(test_bad_passes),     cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_plugin),  cmocka_unit_test(test_all_or_nothing), cmocka_unit_test(test_bad_plugins),
        cmocka_unit_test(test_bad_ops), cmocka_unit_test(test_bad_kernels),    cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
