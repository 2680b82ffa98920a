/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in that calls a function which this engine has not. */
#include <tenon/plugin.h>

tn_status tn_pass_run_from_the_future(tn_pass_run *run);

static tn_status call_it(tn_pass_run *run, tn_graph *graph) {
    (void)graph;
    return tn_pass_run_from_the_future(run);
}

TN_REGISTER_PASS(TN_POST_REWRITE, 10, call_it);
TN_PLUGIN("from_the_future");
