/* SPDX-License-Identifier: Apache-2.0 */
/* choose-kernels: for the sizes at hand, what each instruction does: nothing (a view, or known already), a raster, or a
   kernel, in place where it may. */
#include "pass/pass.h"

static tn_status run(PassRun *run, Graph *graph) {
    const PassHost *host = run->setup->host;
    return host && host->choose_kernels ? host->choose_kernels(host->user, graph) : TN_OK;
}

const Pass pass_choose_kernels = {.name = "choose-kernels",
                                  .summary = "choose views, rasters and kernels for the sizes at hand",
                                  .phase = PHASE_POST_PARTITION,
                                  .order = 910,
                                  .plan_only = true,
                                  .requires = {"generate-program"},
                                  .run = run};
