/* SPDX-License-Identifier: Apache-2.0 */
/* prune-graph: the first thing of post-rewrite. The outputs asked for are the graph's outputs by then, so what they do not
   need is dead. */
#include "pass/pass.h"

const Pass pass_prune_graph = {.name = "prune-graph",
                               .summary = "leave what the chosen outputs need",
                               .phase = PHASE_POST_REWRITE,
                               .order = 0,
                               .opt_level = 0,
                               .pipeline = "remove-dead"};
