/* SPDX-License-Identifier: Apache-2.0 */
/* lower-composites: nodes that a target has no kernel for become simpler ones: by their op's own lowering, or by the rules of
   rules/lower.rules, again and again until what is left has a kernel, only moves data, or cannot be taken apart. A target
   whose kernels are those of the atomic ops runs every model so. Sizes must be known for most of it, so it runs for each set
   of them. */
#include "ops/op.h"
#include "pass/pass.h"
#include "rewrite/rewrite.h"

#include <stdio.h>

enum { MOST_ROUNDS = 32 };

typedef struct Lowering {
    PassRun *run;
    PassPlace target;
    Matcher *rules;
    int64_t n_lowered, n_ruled;
} Lowering;

static bool has_kernel(const Lowering *l, const OpSchema *op) {
    const PassHost *host = l->run->setup->host;
    char name[128];
    bool ours = !op->domain || strcmp(op->domain, "tn") == 0;
    snprintf(name, sizeof name, "%s%s%s", ours ? "" : op->domain, ours ? "" : ".", op->name);
    return host && host->has_kernel && host->has_kernel(host->user, name, &l->target);
}

/* Rules of one set only. */
static tn_status make_matcher(Lowering *l) {
    const RuleSet *const *sets;
    size_t n_sets, n = 0;
    TRY(rules_library(l->run->scratch, &sets, &n_sets));
    for (size_t i = 0; i < n_sets; i++) {
        if (strcmp(rules_name(sets[i]), "lower") != 0) continue;
        const Rule **rules = arena_array(l->run->scratch, const Rule *, rules_count(sets[i]) + 1);
        if (!rules) return TN_OUT_OF_MEMORY;
        for (; n < rules_count(sets[i]); n++) rules[n] = rules_at(sets[i], n);
        return matcher_new(&l->run->ctx->allocator, rules, n, &l->rules);
    }
    return fail(TN_INTERNAL, "there are no rules \"lower\"");
}

/* 16-bit floats are widened before, so that results are rounded once. A node that is left over, since the rule gave not all
   that is read of it, counts as unchanged: it would be next again. */
static tn_status by_rules(Lowering *l, Node *node, bool *changed) {
    if (node->op->kind != OP_COMPOSITE || node->op->lower) return TN_OK;
    TRY(lower_widened(node, changed));
    if (!*changed) TRY(lower_completed(node, changed));
    if (!*changed) TRY(rewrite_once(l->rules, node, changed));
    *changed &= !node_is_placed(node);
    l->n_ruled += *changed;
    return TN_OK;
}

static tn_status lower(Lowering *l, Node *node, bool *changed) {
    const char *op = node->op->name;
    *changed = false;
    if (!node->op->lower && node->op->kind != OP_COMPOSITE) return TN_OK;
    if (has_kernel(l, node->op) || !pass_may_change(l->run)) return TN_OK;
    Str loc = node->loc;
    TRY(lower_empty(node, changed));
    if (!*changed) TRY(op_lower(node, changed));
    if (*changed) l->n_lowered++;
    else TRY(by_rules(l, node, changed));
    if (*changed) pass_describe_change(l->run, "%s at node \"%s\"", op, loc.n ? loc.s : "");
    return TN_OK;
}

/* What a node becomes stands in its place, so it is looked at next. */
static tn_status lower_graph(Lowering *l, Graph *graph) {
    bool any = true, changed;
    for (int round = 0; any && round < MOST_ROUNDS; round++) {
        any = false;
        for (Node *node = graph->first, *next; node; node = next) {
            next = node->next;
            TRY(lower(l, node, &changed));
            any |= changed;
        }
    }
    return TN_OK;
}

/* Bodies that lowering makes come with it. */
static tn_status lower_all(Lowering *l) {
    Graph **graphs;
    size_t n;
    int64_t before = -1;
    for (int round = 0; round < MOST_ROUNDS && l->n_lowered + l->n_ruled != before; round++) {
        before = l->n_lowered + l->n_ruled;
        TRY(model_graphs(l->run->model, l->run->scratch, &graphs, &n));
        for (size_t i = 0; i < n; i++) TRY(lower_graph(l, graphs[i]));
    }
    TRY(pass_count(l->run, "lowered", l->n_lowered));
    return pass_count(l->run, "by rules", l->n_ruled);
}

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    Str target = pass_string(run, "for");
    Lowering l = {.run = run};
    if (run->setup->n_places) l.target = run->setup->places[0];
    if (target.n) l.target = (PassPlace){.target = arena_strndup(run->scratch, target.s, target.n)};
    if (!l.target.target) return target.n ? TN_OUT_OF_MEMORY : TN_OK;
    TRY(make_matcher(&l));
    tn_status status = lower_all(&l);
    matcher_free(l.rules);
    return status;
}

const Pass pass_lower_composites = {.name = "lower-composites",
                                    .summary = "take apart the ops that a target has no kernel for",
                                    .phase = PHASE_POST_PARTITION,
                                    .order = 100,
                                    .targets = {"minimal"},
                                    .options = {{"for", OPTION_STRING, "", "the target; empty: the first valid place"}},
                                    .run = run};
