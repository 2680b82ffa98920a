/* SPDX-License-Identifier: Apache-2.0 */
/* plan-memory: where each intermediate value lies while the program runs. */
#include "pass/pass.h"

static tn_status run(PassRun *run, Graph *graph) {
    const PassHost *host = run->setup->host;
    return host && host->plan_memory ? host->plan_memory(host->user, graph) : TN_OK;
}

const Pass pass_plan_memory = {.name = "plan-memory",
                               .summary = "find a place for each intermediate value",
                               .phase = PHASE_POST_PARTITION,
                               .order = 920,
                               .plan_only = true,
                               .requires = {"choose-kernels"},
                               .run = run};
