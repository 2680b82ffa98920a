/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in with a pass: prints each call, in the order in which they run. docs/first-pass.md tells about it.
   tenon run --plugin build/examples/print_calls.so MODEL */
#include <stdio.h>
#include <tenon/plugin.h>

static tn_status print_call(void *user, tn_node *node) {
    (void)user;
    printf("call :\ntn 1\n%s\n", tn_node_op(node));
    return TN_OK;
}

/* Constants are nodes too, but they call nothing. */
static tn_status pass_over(void *user, tn_node *node) {
    (void)user, (void)node;
    return TN_OK;
}

static tn_status print_calls(tn_pass_run *run, tn_graph *graph) {
    (void)run;
    return tn_visit_graph(graph, &(tn_visitor){.node = print_call, .constant = pass_over});
}

TN_REGISTER_PASS(TN_POST_REWRITE, 10, print_calls);
TN_PLUGIN("print_calls");
