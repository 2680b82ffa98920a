/* SPDX-License-Identifier: Apache-2.0 */
/* generate-program: the graph as an array of instructions. The session, which runs it, does the work. */
#include "pass/pass.h"

static tn_status run(PassRun *run, Graph *graph) {
    const PassHost *host = run->setup->host;
    return host && host->generate_program ? host->generate_program(host->user, graph) : TN_OK;
}

const Pass pass_generate_program = {.name = "generate-program",
                                    .summary = "make instructions of the graph",
                                    .phase = PHASE_POST_PARTITION,
                                    .order = 900,
                                    .plan_only = true,
                                    .run = run};
