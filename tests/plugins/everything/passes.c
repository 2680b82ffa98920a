/* SPDX-License-Identifier: Apache-2.0 */
/* All that a pass from outside may say and ask, in a plug-in of several files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/plugin.h>

/* ---- options, statistics, the model ---- */

static tn_status say_options(tn_pass_run *run, tn_graph *graph) {
    tn_model *model = tn_pass_run_model(run);
    char *scratch = tn_pass_run_scratch(run, 64);
    if (!model || !scratch || !tn_pass_run_context(run)) return TN_OUT_OF_MEMORY;
    snprintf(scratch, 64, "%s/%s", tn_pass_run_pass(run), (const char *)tn_pass_run_user(run));
    printf("%s on @%s: times=%" PRId64 " factor=%g loud=%d word=\"%s\", %zu inputs\n", scratch, tn_graph_name(graph),
           tn_pass_run_int(run, "times"), tn_pass_run_float(run, "factor"), tn_pass_run_bool(run, "loud"),
           tn_pass_run_string(run, "word"), tn_model_n_inputs(model));
    char what[] = "said"; /* not there any more when the report is read */
    tn_status status = tn_pass_run_count(run, what, tn_pass_run_int(run, "times"));
    memset(what, 'x', sizeof what - 1);
    return status;
}

static const tn_pass_desc options = {
    .size = sizeof(tn_pass_desc),
    .name = "say_options",
    .summary = "says its options",
    .kind = TN_PASS_DEBUG,
    .each_graph = true,
    .options = {{"times", "int", "3", "how often"},
                {"factor", "float", "0.5", "a number"},
                {"loud", "bool", "false", "a choice"},
                {"word", "string", "", "any text"}},
    .run = say_options,
    .user = "me",
};
TN_REGISTER_PASS_DESC(options);

/* ---- other phases, places, kernels ---- */

static tn_status say_sizes(tn_pass_run *run, tn_graph *graph) {
    (void)run;
    tn_value_info info;
    for (size_t i = 0; i < tn_graph_n_inputs(graph); i++) {
        tn_status status = tn_value_get_info(tn_graph_input(graph, i), &info);
        if (status != TN_OK) return status;
        printf("at %s\n", info.type);
    }
    return TN_OK;
}

static const tn_pass_desc sizes = {.size = sizeof(tn_pass_desc),
                                   .name = "say-sizes",
                                   .summary = "says the sizes that a plan is made for",
                                   .kind = TN_PASS_DEBUG,
                                   .phase = TN_POST_PARTITION,
                                   .order = -100,
                                   .per_shape = true,
                                   .run = say_sizes};
TN_REGISTER_PASS_DESC(sizes);

static const tn_pass_desc bound = {.size = sizeof(tn_pass_desc),
                                   .name = "bound-to-fc",
                                   .summary = "wants a kernel that is not there",
                                   .phase = TN_POST_REWRITE,
                                   .order = 20,
                                   .kernels = "Gemm fc@cpu",
                                   .run = say_options};
TN_REGISTER_PASS_DESC(bound);

static const tn_pass_desc elsewhere = {.size = sizeof(tn_pass_desc),
                                       .name = "for-npu",
                                       .summary = "is for a place that is not valid",
                                       .phase = TN_PRE_PLACEMENT,
                                       .targets = "npu tpu",
                                       .run = say_options};
TN_REGISTER_PASS_DESC(elsewhere);

static const tn_pass_desc group = {.size = sizeof(tn_pass_desc),
                                   .name = "say-twice",
                                   .summary = "stands for others",
                                   .pipeline = "say-options(times=1),say-options(times=2)"};
TN_REGISTER_PASS_DESC(group);

/* ---- what a pass may do wrong ---- */

static tn_status fail_loudly(tn_pass_run *run, tn_graph *graph) {
    (void)run, (void)graph;
    return tn_fail(TN_LIMIT, "there are %d reasons", 7);
}
static const tn_pass_desc loud = {
    .size = sizeof(tn_pass_desc), .name = "fail-loudly", .keeps = "remove-dead", .run = fail_loudly};
TN_REGISTER_PASS_DESC(loud);

static tn_status fail_silently(tn_pass_run *run, tn_graph *graph) {
    (void)run, (void)graph;
    return TN_LIMIT;
}
static const tn_pass_desc silent = {
    .size = sizeof(tn_pass_desc), .name = "fail-silently", .required = "remove-dead", .run = fail_silently};
TN_REGISTER_PASS_DESC(silent);

static tn_status answer_nonsense(tn_pass_run *run, tn_graph *graph) {
    (void)run, (void)graph;
    return (tn_status)77;
}
static const tn_pass_desc nonsense = {.size = sizeof(tn_pass_desc), .name = "answer-nonsense", .run = answer_nonsense};
TN_REGISTER_PASS_DESC(nonsense);

static tn_status ask_wrongly(tn_pass_run *run, tn_graph *graph) {
    (void)graph;
    return tn_pass_run_int(run, "tmies") == 0 ? TN_OK : TN_INTERNAL;
}
static const tn_pass_desc wrongly = {.size = sizeof(tn_pass_desc),
                                     .name = "ask-wrongly",
                                     .options = {{"times", "int", "3", "how often"}},
                                     .run = ask_wrongly};
TN_REGISTER_PASS_DESC(wrongly);

static tn_status change_in_secret(tn_pass_run *run, tn_graph *graph) {
    (void)run;
    return tn_value_rename(tn_graph_output(graph, 0), "renamed");
}
static const tn_pass_desc secret = {
    .size = sizeof(tn_pass_desc), .name = "change-in-secret", .kind = TN_PASS_DEBUG, .run = change_in_secret};
TN_REGISTER_PASS_DESC(secret);
