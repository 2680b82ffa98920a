/* SPDX-License-Identifier: Apache-2.0 */
/* saturate-rules: the rules without greed. What a rule replaces is kept beside it, so that no order of rules can hide the
   cheapest graph; that one is taken at the end. */
#include "pass/pass.h"
#include "rewrite/rewrite.h"

static bool may_change(void *user, const Rule *rule, const Node *root) {
    (void)rule, (void)root;
    return pass_may_change(user);
}

static tn_status collect(PassRun *run, const Rule ***rules, size_t *n) {
    const RuleSet *const *sets;
    size_t n_sets, all = 0;
    TRY(rules_library(run->scratch, &sets, &n_sets));
    for (size_t i = 0; i < n_sets; i++) all += rules_count(sets[i]);
    *rules = arena_array(run->scratch, const Rule *, all + 1);
    *n = 0;
    if (!*rules) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n_sets; i++)
        for (size_t k = 0; k < rules_count(sets[i]); k++)
            if (rule_level(rules_at(sets[i], k)) < RULE_LOWERS) (*rules)[(*n)++] = rules_at(sets[i], k);
    return TN_OK;
}

/* As it is counted, which lives as long as the report. */
static const char *reason(const char *stopped) {
    static const char *const reasons[] = {"stopped: saturated", "stopped: nodes", "stopped: iterations",
                                          "stopped: memory", "stopped: time"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strcmp(strchr(reasons[i], ' ') + 1, stopped) == 0) return reasons[i];
    return stopped;
}

static tn_status tell(PassRun *run, const SaturateResult *r) {
    log_message(run->ctx, TN_LOG_INFO,
                "saturation stopped (%s) after %d iterations with %zu nodes; modelled cost %.0f ns, before %.0f ns",
                r->stopped, r->iterations, r->nodes, r->cost_after, r->cost_before);
    TRY(pass_count(run, "iterations", r->iterations));
    TRY(pass_count(run, "nodes tried", (int64_t)r->nodes));
    TRY(pass_count(run, "rules applied", (int64_t)r->applied));
    TRY(pass_count(run, "ns saved", (int64_t)(r->cost_before - r->cost_after)));
    return pass_count(run, reason(r->stopped), 1);
}

static tn_status run(PassRun *run, Graph *graph) {
    const Rule **rules;
    size_t n;
    Matcher *matcher;
    SaturateResult result;
    int64_t ms = pass_int(run, "max-ms"), mib = pass_int(run, "max-mib");
    SaturateLimits limits = {.max_nodes = (size_t)pass_int(run, "max-nodes") + 2 * graph->n_nodes,
                             .max_iterations = (int)pass_int(run, "max-iterations"),
                             .max_matches = (size_t)pass_int(run, "max-matches"),
                             .max_bytes = mib > 0 ? (uint64_t)mib << 20 : 0,
                             .max_ns = ms > 0 ? (uint64_t)ms * 1000000u : 0};
    RewriteHooks hooks = {.cost = node_cost_measured, .may_change = may_change, .user = run};
    if (pass_int(run, "max-nodes") < 0 || limits.max_iterations < 0 || mib < 0 || mib >= 1 << 30 || ms < 0 ||
        pass_int(run, "max-matches") < 0)
        return fail(TN_INVALID_ARGUMENT, "limits are numbers from 0 on, and of memory less than 2^30 MiB");
    TRY(collect(run, &rules, &n));
    TRY(matcher_new(&run->ctx->allocator, rules, n, &matcher));
    tn_status status = saturate_graph(matcher, graph, &hooks, &limits, &result);
    matcher_free(matcher);
    return status == TN_OK ? tell(run, &result) : status;
}

const Pass pass_saturate_rules = {
    .name = "saturate-rules",
    .summary = "find the cheapest graph that the rules lead to, in whatever order",
    .each_graph = true,
    .requires = {"infer-shapes"},
    .keeps = {"infer-shapes"},
    .options = {{"max-nodes", OPTION_INT, "10000", "nodes of all variants, beside twice those of the graph"},
                {"max-iterations", OPTION_INT, "12", "rounds over all nodes"},
                {"max-matches", OPTION_INT, "64", "matches at one node in one round"},
                {"max-mib", OPTION_INT, "256", "MiB that variants may take; 0: no limit"},
                {"max-ms", OPTION_INT, "0",
                 "milliseconds; 0: no limit. With one the outcome may differ from run to run"}},
    .run = run};
