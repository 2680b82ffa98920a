/* SPDX-License-Identifier: Apache-2.0 */
/* draw-graph: the model as a drawing that Graphviz makes (`dot -Tsvg FILE`). */
#include "pass/pass.h"

static tn_status run(PassRun *run, Graph *graph) {
    Text text;
    (void)graph;
    text_init(&text, &run->ctx->allocator);
    tn_status status = model_dot(run->model, &text);
    if (status == TN_OK) status = pass_say(run, &text, pass_string(run, "file"));
    text_free(&text);
    return status;
}

const Pass pass_draw_graph = {.name = "draw-graph",
                              .summary = "draw the model for Graphviz",
                              .kind = PASS_DEBUG,
                              .options = {{"file", OPTION_STRING, "", "where to; without it, the log"}},
                              .run = run};
