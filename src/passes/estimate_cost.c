/* SPDX-License-Identifier: Apache-2.0 */
/* estimate-cost: what the model costs by the measure that saturation goes by. */
#include "pass/pass.h"
#include "rewrite/rewrite.h"

static tn_status run(PassRun *run, Graph *graph) {
    Graph **graphs;
    size_t n;
    double ns = 0;
    (void)graph;
    TRY(model_graphs(run->model, run->scratch, &graphs, &n));
    for (size_t g = 0; g < n; g++) ns += graph_cost(graphs[g]);
    return pass_count(run, "ns", (int64_t)ns);
}

const Pass pass_estimate_cost = {
    .name = "estimate-cost",
    .summary = "tell what all nodes cost by the model that saturation goes by, constants nothing",
    .kind = PASS_DEBUG,
    .run = run};
