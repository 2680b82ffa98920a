/* SPDX-License-Identifier: Apache-2.0 */
/* saturate-graph: from where settle-graph has got, what it could not see; then what that leaves to do. */
#include "pass/pass.h"

const Pass pass_saturate_graph = {.name = "saturate-graph",
                                  .summary = "the cheapest graph that rules lead to, and clean-up behind it",
                                  .phase = PHASE_PRE_PLACEMENT,
                                  .order = 210,
                                  .opt_level = 3,
                                  .pipeline = "repeat(max=3){saturate-rules,settle-graph}"};
