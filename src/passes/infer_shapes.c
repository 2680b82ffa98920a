/* SPDX-License-Identifier: Apache-2.0 */
/* infer-shapes: types and sizes of all values, from what is known of the inputs. What a file declares of the sizes of other
   values goes: exporters write wrong ones, and other passes rely on what they find. */
#include "ops/op.h"
#include "pass/pass.h"

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    return infer_from_inputs(run->model);
}

const Pass pass_infer_shapes = {.name = "infer-shapes",
                                .summary = "find types and sizes of all values",
                                .kind = PASS_STMT,
                                .phase = PHASE_PRE_PLACEMENT,
                                .order = 10,
                                .opt_level = 1,
                                .run = run};
