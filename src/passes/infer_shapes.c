/* SPDX-License-Identifier: Apache-2.0 */
/* infer-shapes: types and sizes of all values, from what is known of the inputs. */
#include "ops/op.h"
#include "pass/pass.h"

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    bool fresh = run->model->inferred_edits == model_edits(run->model);
    return fresh ? TN_OK : infer_model(run->model);
}

const Pass pass_infer_shapes = {.name = "infer-shapes",
                                .summary = "find types and sizes of all values",
                                .kind = PASS_STMT,
                                .phase = PHASE_PRE_PLACEMENT,
                                .order = 10,
                                .opt_level = 1,
                                .run = run};
