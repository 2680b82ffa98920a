/* SPDX-License-Identifier: Apache-2.0 */
/* settle-graph: what one pass uncovers for another, until none finds anything. */
#include "pass/pass.h"

const Pass pass_settle_graph = {
    .name = "settle-graph",
    .summary = "rules and clean-up by turns, until nothing changes",
    .phase = PHASE_PRE_PLACEMENT,
    .order = 200,
    .opt_level = 1,
    .pipeline =
        "repeat(max=8){apply-rules,fold-constants,simplify-shapes,select-branches,canonicalize,remove-identities,"
        "share-constants,share-subexpressions,remove-dead}"};
