/* SPDX-License-Identifier: Apache-2.0 */
/* A pass that breaks answers on purpose: takes Relu for Abs, one after the other, as long as it may. */
#include <string.h>
#include <tenon/plugin.h>

static tn_status take_for_abs(tn_pass_run *run, tn_graph *graph, tn_node *relu) {
    tn_value *x = tn_node_operand(relu, 0);
    tn_node *abs;
    tn_status status = tn_graph_add_node(graph, "Abs", &x, 1, 1, relu, &abs);
    if (status == TN_OK) status = tn_value_replace(tn_node_result(relu, 0), tn_node_result(abs, 0));
    if (status == TN_OK) status = tn_node_erase(relu);
    return status == TN_OK ? tn_pass_run_count(run, "broken", 1) : status;
}

static tn_status relu_to_abs(tn_pass_run *run, tn_graph *graph) {
    tn_node *next;
    for (tn_node *node = tn_graph_first(graph); node; node = next) {
        next = tn_node_next(node);
        if (strcmp(tn_node_op(node), "Relu") != 0 || !tn_pass_run_may_change(run)) continue;
        tn_status status = take_for_abs(run, graph, node);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

TN_REGISTER_PASS(TN_PRE_PLACEMENT, 15, relu_to_abs);
TN_PLUGIN("wrong_pass");
