/* SPDX-License-Identifier: Apache-2.0 */
/* remove-dead: nodes whose results nobody reads, from the last to the first, so that what they alone read goes too. Nodes
   have no effects but their results, so nothing else is asked. */
#include "pass/pass.h"

static bool is_dead(const Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++)
        if (node->results[i]->uses) return false;
    return true;
}

static tn_status run(PassRun *run, Graph *graph) {
    int64_t n = 0;
    for (Node *node = graph->last, *before; node; node = before) {
        before = node->prev;
        if (!is_dead(node) || !pass_may_change(run)) continue;
        node_erase(node);
        n++;
    }
    return pass_count(run, "removed", n);
}

/* A nested graph may hold the last reader of a value of the graph around it: those nested come first. */
const Pass pass_remove_dead = {.name = "remove-dead",
                               .summary = "remove nodes whose results nobody reads",
                               .phase = PHASE_PRE_PLACEMENT,
                               .order = 900,
                               .opt_level = 1,
                               .each_graph = true,
                               .keeps = {"infer-shapes"},
                               .run = run};
