/* SPDX-License-Identifier: Apache-2.0 */
/* print-model: the model as text, large constants elided. */
#include "pass/pass.h"

static tn_status run(PassRun *run, Graph *graph) {
    Text text;
    (void)graph;
    text_init(&text, &run->ctx->allocator);
    tn_status status = model_print(run->model, NULL, &text);
    if (status == TN_OK) status = pass_say(run, &text, pass_string(run, "file"));
    text_free(&text);
    return status;
}

const Pass pass_print_model = {.name = "print-model",
                               .summary = "write the model as text",
                               .kind = PASS_DEBUG,
                               .options = {{"file", OPTION_STRING, "", "where to; without it, the log"}},
                               .run = run};
