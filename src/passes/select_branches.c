/* SPDX-License-Identifier: Apache-2.0 */
/* select-branches: an If whose condition is known makes way for the nodes of the branch that is taken. The condition is
   known where it is a constant, in a branch of an If that asked for the same value, and where it is what a Loop goes on
   by. */
#include "ops/op.h"
#include "pass/pass.h"

static bool constant_truth(const Value *v, bool *truth) {
    int64_t value = 0, n = 0;
    const Tensor *t = value_constant(v);
    if (!t || tensor_count(t) != 1 || tensor_ints(t, &value, 1, &n) != TN_OK) return false;
    *truth = value != 0;
    return true;
}

/* How deep graphs are nested bounds the walk outwards. */
static bool condition_of(const OpSchema *op_if, const Node *node, bool *truth) {
    const Value *condition = node_operand(node, 0);
    *truth = true;
    if (is_loop_condition(condition) || constant_truth(condition, truth)) return true;
    for (const Graph *g = node->graph; g->owner; g = g->owner->graph) {
        if (g->owner->op != op_if || node_operand(g->owner, 0) != condition) continue;
        *truth = attr_graph(g->owner, "then_branch") == g;
        return true;
    }
    return false;
}

static tn_status take_branch(Node *node, Graph *branch) {
    while (branch->first) node_move_before(branch->first, node);
    for (uint32_t i = 0; i < node->n_results; i++) TRY(value_take_over(node->results[i], graph_output(branch, i)));
    node_erase(node);
    return TN_OK;
}

static tn_status run(PassRun *run, Graph *graph) {
    int64_t n = 0;
    bool truth;
    const OpSchema *op_if = op_find(STR(""), STR("If"));
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (node->op != op_if || !condition_of(op_if, node, &truth)) continue;
        Graph *branch = attr_graph(node, truth ? "then_branch" : "else_branch");
        if (!branch || branch->inputs.len || graph_n_outputs(branch) != node->n_results) continue;
        if (!pass_may_change(run)) break;
        TRY(take_branch(node, branch));
        n++;
    }
    return pass_count(run, "branches", n);
}

/* Nested graphs come first: what moves out of a branch has been looked through already. */
const Pass pass_select_branches = {.name = "select-branches",
                                   .summary = "put the branch that is taken in the place of an If",
                                   .phase = PHASE_PRE_PLACEMENT,
                                   .order = 30,
                                   .opt_level = 1,
                                   .each_graph = true,
                                   .run = run};
