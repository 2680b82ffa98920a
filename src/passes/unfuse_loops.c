/* SPDX-License-Identifier: Apache-2.0 */
/* unfuse-loops: the nodes of a tn.Fused's body in its place, for whoever does not know the op. */
#include "ops/op.h"
#include "pass/pass.h"

static tn_status run(PassRun *run, Graph *graph) {
    int64_t n = 0;
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (!node_is_fused(node)) continue;
        if (!pass_may_change(run)) break;
        TRY(fused_inline(node));
        n++;
    }
    return pass_count(run, "groups", n);
}

const Pass pass_unfuse_loops = {.name = "unfuse-loops",
                                .summary = "put the nodes of tn.Fused back where they came from",
                                .opt_level = 1,
                                .each_graph = true,
                                .keeps = {"infer-shapes"},
                                .run = run};
