/* SPDX-License-Identifier: Apache-2.0 */
/* apply-rules: rewriting by the rules of src/rules and those that were loaded, to a fixpoint. */
#include "pass/pass.h"
#include "rewrite/rewrite.h"

static bool is_wanted(PassRun *run, const RuleSet *set, const Rule *rule) {
    Str sets = pass_string(run, "set"), rules = pass_string(run, "rule");
    int64_t level = pass_int(run, "level");
    if (sets.n && !str_equal(sets, str_of(rules_name(set)))) return false;
    if (rules.n) return str_equal(rules, str_of(rule_name(rule)));
    int most = run->setup->opt_level < 2 ? run->setup->opt_level : 2; /* those above are for saturation */
    return rule_level(rule) <= (level < 0 ? most : level);
}

static tn_status no_such(PassRun *run, const RuleSet *const *sets, size_t n_sets) {
    Str set = pass_string(run, "set"), rule = pass_string(run, "rule");
    const char **names = arena_array(run->scratch, const char *, 4096);
    size_t n = 0;
    if (!names) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n_sets; i++) {
        if (!rule.n && n < 4096) names[n++] = rules_name(sets[i]);
        for (size_t k = 0; rule.n && k < rules_count(sets[i]) && n < 4096; k++)
            names[n++] = rule_name(rules_at(sets[i], k));
    }
    Str wrong = rule.n ? rule : set;
    const char *near = nearest_name(wrong, names, n);
    return fail(TN_NOT_FOUND, "there is no %s \"%.*s\"%s%s", rule.n ? "rule" : "set of rules", (int)wrong.n, wrong.s,
                near ? "; did you mean " : "", near ? near : "");
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
            if (is_wanted(run, sets[i], rules_at(sets[i], k))) (*rules)[(*n)++] = rules_at(sets[i], k);
    bool named = pass_string(run, "set").n || pass_string(run, "rule").n;
    return *n == 0 && named ? no_such(run, sets, n_sets) : TN_OK;
}

/* ---- what the engine tells ----------------------------------------------------------------------------------- */

static bool may_change(void *user, const Rule *rule, const Node *root) {
    (void)rule, (void)root;
    return pass_may_change(user);
}

static void changed(void *user, const Rule *rule, const Node *root) {
    pass_describe_change(user, "rule %s at node \"%s\" (%s)", rule_name(rule), root->loc.n ? root->loc.s : "",
                         root->op->name);
    pass_count(user, rule_name(rule), 1); /* running out of memory costs a figure, not the model */
}

static void refused(void *user, const Rule *rule, const Rule *made_by, const Node *root) {
    const PassRun *run = user;
    if (!made_by) return;
    log_message(run->ctx, TN_LOG_INFO, "rule %s would undo what rule %s did at node \"%s\": it is left out there",
                rule_name(rule), rule_name(made_by), root->loc.n ? root->loc.s : "");
}

static tn_status run(PassRun *run, Graph *graph) {
    const Rule **rules;
    size_t n;
    Matcher *matcher;
    RewriteHooks hooks = {.may_change = may_change, .changed = changed, .refused = refused, .user = run};
    hooks.keep_constants = !pass_bool(run, "fold");
    TRY(collect(run, &rules, &n));
    TRY(matcher_new(&run->ctx->allocator, rules, n, &matcher));
    tn_status status = rewrite_graph(matcher, graph, &hooks);
    matcher_free(matcher);
    return status;
}

const Pass pass_apply_rules = {
    .name = "apply-rules",
    .summary = "rewrite by rules until none of them lowers anything",
    .each_graph = true,
    .requires = {"infer-shapes"},
    .keeps = {"infer-shapes"},
    .options = {{"set", OPTION_STRING, "", "only the rules of this file, such as conv"},
                {"rule", OPTION_STRING, "", "only this rule"},
                {"fold", OPTION_BOOL, "true", "compute what is constant of a right side at once, rounded once"},
                {"level", OPTION_INT, "-1", "rules up to this opt level; -1: the session's, up to 2"}},
    .run = run};
