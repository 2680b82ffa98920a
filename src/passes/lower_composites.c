/* SPDX-License-Identifier: Apache-2.0 */
/* lower-composites: nodes that a target has no kernel for become simpler ones: by their op's own lowering, or by the rules of
   rules/lower.rules, again and again until what is left has a kernel, only moves data, or cannot be taken apart. A target
   whose kernels are those of the atomic ops runs every model so. A session may wish it of other ops too, and otherwise than
   the target does it. Sizes must be known for most of it, so it runs for each set of them. */
#include "ops/op.h"
#include "pass/pass.h"
#include "rewrite/rewrite.h"

#include <stdio.h>

enum { MOST_ROUNDS = 32 };

typedef struct Work {
    PassRun *run;
    PassPlace target;
    bool takes_apart; /* the target does; else only what is wished */
    Matcher *rules;
    int64_t n_lowered, n_ruled;
    int *path_of; /* by node id: the first path that needs it; -1: none. NULL: no wish asks */
    size_t n_marked;
} Work;

/* ---- which path a node is of --------------------------------------------------------------------------------- */

typedef struct Marking {
    Work *w;
    const Graph *main;
    bool *needed; /* by value id */
    int path;
} Marking;

static tn_status need_operands(Visitor *visitor, Node *node) {
    Marking *m = visitor->user;
    if (node->id < m->w->n_marked) m->w->path_of[node->id] = m->path;
    for (uint32_t i = 0; i < node->n_operands; i++)
        if (node->operands[i].value) m->needed[node->operands[i].value->id] = true;
    return TN_OK;
}

static tn_status need_outputs(Visitor *visitor, Graph *graph) { return need_operands(visitor, graph->ret); }

static tn_status mark_node(Marking *m, Node *node) {
    Visitor visitor = {.node = need_operands, .graph = need_outputs, .user = m};
    bool needed = false;
    for (uint32_t i = 0; i < node->n_results; i++) needed |= m->needed[node->results[i]->id];
    if (!needed || m->w->path_of[node->id] >= 0)
        return TN_OK; /* what is behind an earlier path's node is that path's too */
    TRY(need_operands(&visitor, node));
    Graph *nested;
    for (size_t k = 0; (nested = node_graph(node, k)); k++) TRY(visit_graph(nested, &visitor));
    return TN_OK;
}

static tn_status mark_path(Marking *m, const PathEnds *ends) {
    for (size_t i = 0; i < ends->n; i++)
        for (size_t k = 0; k < graph_n_outputs(m->main); k++)
            if (str_equal(m->main->output_names.data[k], str_of(ends->outputs[i])))
                m->needed[graph_output(m->main, k)->id] = true;
    for (Node *node = m->main->last; node; node = node->prev) TRY(mark_node(m, node));
    return TN_OK;
}

static tn_status mark_paths(Work *w) {
    const PassSetup *setup = w->run->setup;
    const Model *model = w->run->model;
    bool asked = false;
    for (size_t i = 0; i < setup->n_wishes; i++) asked |= setup->wishes[i].path >= 0;
    if (!asked) return TN_OK;
    w->n_marked = (size_t)model->n_nodes;
    w->path_of = arena_array(w->run->scratch, int, w->n_marked + 1);
    Marking m = {
        .w = w, .main = model->main, .needed = arena_array(w->run->scratch, bool, (size_t)model->n_values + 1)};
    if (!w->path_of || !m.needed) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < w->n_marked; i++) w->path_of[i] = -1;
    for (; m.path < (int)setup->n_paths; m.path++) {
        memset(m.needed, 0, (size_t)model->n_values * sizeof *m.needed);
        TRY(mark_path(&m, &setup->paths[m.path]));
    }
    return TN_OK;
}

/* ---- how a node is to be run --------------------------------------------------------------------------------- */

static Lowering wish_for(const Work *w, const Node *node) {
    const PassSetup *setup = w->run->setup;
    int path = w->path_of && node->id < w->n_marked ? w->path_of[node->id] : -1, best = 0;
    Lowering how = LOWERING_UNSAID;
    for (size_t i = 0; i < setup->n_wishes; i++) {
        const LoweringWish *wish = &setup->wishes[i];
        if ((wish->op && wish->op != node->op) || (wish->path >= 0 && wish->path != path)) continue;
        int weight = 1 + 2 * (wish->path >= 0) + (wish->op != NULL);
        if (weight >= best) how = wish->how, best = weight;
    }
    return how;
}

static Lowering target_way(const Work *w, const OpSchema *op) {
    const PassHost *host = w->run->setup->host;
    char name[128];
    bool ours = !op->domain || strcmp(op->domain, "tn") == 0;
    snprintf(name, sizeof name, "%s%s%s", ours ? "" : op->domain, ours ? "" : ".", op->name);
    if (!w->takes_apart) return LOWERING_ORIGIN;
    return host && host->lowering ? host->lowering(host->user, name, &w->target) : LOWERING_LOOP;
}

static Lowering way_of(const Work *w, const Node *node) {
    Lowering wish = wish_for(w, node);
    return wish ? wish : target_way(w, node->op);
}

/* Whether some node of a body is wished to be taken apart. */
static bool holds_wish(const Work *w, const Node *fused) {
    const Graph *body = node_graph(fused, 0);
    bool any = false;
    for (const Node *node = body ? body->first : NULL; node && w->run->setup->n_wishes; node = node->next)
        any |= wish_for(w, node) > LOWERING_ORIGIN;
    return any;
}

/* ---- doing it -------------------------------------------------------------------------------------------------- */

/* Rules of one set only. */
static tn_status make_matcher(Work *w) {
    const RuleSet *const *sets;
    size_t n_sets, n = 0;
    TRY(rules_library(w->run->scratch, &sets, &n_sets));
    for (size_t i = 0; i < n_sets; i++) {
        if (strcmp(rules_name(sets[i]), "lower") != 0) continue;
        const Rule **rules = arena_array(w->run->scratch, const Rule *, rules_count(sets[i]) + 1);
        if (!rules) return TN_OUT_OF_MEMORY;
        for (; n < rules_count(sets[i]); n++) rules[n] = rules_at(sets[i], n);
        return matcher_new(&w->run->ctx->allocator, rules, n, &w->rules);
    }
    return fail(TN_INTERNAL, "there are no rules \"lower\"");
}

/* 16-bit floats are widened before, so that results are rounded once. A node that is left over, since the rule gave not all
   that is read of it, counts as unchanged: it would be next again. */
static tn_status by_rules(Work *w, Node *node, bool *changed) {
    if (node->op->kind != OP_COMPOSITE || node->op->lower) return TN_OK;
    TRY(lower_widened(node, NULL, changed));
    if (!*changed) TRY(lower_completed(node, changed));
    if (!*changed) TRY(rewrite_once(w->rules, node, changed));
    *changed &= !node_is_placed(node);
    w->n_ruled += *changed;
    return TN_OK;
}

/* From loops to regions to the node as it is. */
static tn_status search(Work *w, Node *node, Lowering how, bool *changed) {
    TRY(lower_empty(node, changed));
    if (!*changed && how == LOWERING_LOOP) TRY(op_lower(node, true, changed));
    if (!*changed && (how == LOWERING_GEOMETRY || node->op->flags & OP_LOOPS)) TRY(op_lower(node, false, changed));
    if (*changed) w->n_lowered++;
    else TRY(by_rules(w, node, changed));
    return TN_OK;
}

static tn_status lower(Work *w, Node *node, bool *changed) {
    const char *op = node->op->name;
    *changed = false;
    if (!node->op->lower && node->op->kind != OP_COMPOSITE) return TN_OK;
    Lowering how = way_of(w, node);
    if (how <= LOWERING_ORIGIN && node_is_fused(node) && holds_wish(w, node)) how = LOWERING_GEOMETRY;
    if (how <= LOWERING_ORIGIN || !pass_may_change(w->run)) return TN_OK;
    Str loc = node->loc;
    TRY(search(w, node, how, changed));
    if (*changed) pass_describe_change(w->run, "%s at node \"%s\"", op, loc.n ? loc.s : "");
    return TN_OK;
}

/* What a node becomes stands in its place, so it is looked at next. */
static tn_status lower_graph(Work *w, Graph *graph) {
    bool any = true, changed;
    for (int round = 0; any && round < MOST_ROUNDS; round++) {
        any = false;
        TRY(mark_paths(w));
        for (Node *node = graph->first, *next; node; node = next) {
            next = node->next;
            TRY(lower(w, node, &changed));
            any |= changed;
        }
    }
    return TN_OK;
}

/* Bodies that lowering makes come with it. */
static tn_status lower_all(Work *w) {
    Graph **graphs;
    size_t n;
    int64_t before = -1;
    for (int round = 0; round < MOST_ROUNDS && w->n_lowered + w->n_ruled != before; round++) {
        before = w->n_lowered + w->n_ruled;
        TRY(model_graphs(w->run->model, w->run->scratch, &graphs, &n));
        for (size_t i = 0; i < n; i++) TRY(lower_graph(w, graphs[i]));
    }
    TRY(pass_count(w->run, "lowered", w->n_lowered));
    return pass_count(w->run, "by rules", w->n_ruled);
}

static bool is_for(const Pass *pass, const char *target) {
    for (int i = 0; i < PASS_MAX_TARGETS && pass->targets[i]; i++)
        if (strcmp(pass->targets[i], target) == 0) return true;
    return false;
}

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    Str target = pass_string(run, "for");
    Work w = {.run = run, .takes_apart = target.n > 0};
    if (run->setup->n_places) w.target = run->setup->places[0];
    for (size_t i = 0; i < run->setup->n_places; i++) w.takes_apart |= is_for(run->pass, run->setup->places[i].target);
    if (target.n) w.target = (PassPlace){.target = arena_strndup(run->scratch, target.s, target.n)};
    if (!w.target.target) return target.n ? TN_OUT_OF_MEMORY : TN_OK;
    TRY(make_matcher(&w));
    tn_status status = lower_all(&w);
    matcher_free(w.rules);
    return status;
}

const Pass pass_lower_composites = {.name = "lower-composites",
                                    .summary = "take apart the ops that a target has no kernel for",
                                    .phase = PHASE_POST_PARTITION,
                                    .order = 100,
                                    .targets = {"minimal"},
                                    .for_wishes = true,
                                    .options = {{"for", OPTION_STRING, "", "the target; empty: the first valid place"}},
                                    .run = run};
