/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon show`: what a model is, as a summary, text, a drawing or lists. */
#include "show.h"

#include <stdlib.h>
#include <string.h>

typedef struct ShowOptions {
    InputOptions inputs; /* its shapes */
    TuneOptions tune;    /* its file to be read */
    int text, dot, shapes, plan, memory, json;
    char *svg;
} ShowOptions;

static int print_text(tn_status (*make)(const tn_model *model, char **text), const tn_model *model) {
    char *text;
    if (make(model, &text) != TN_OK) return report_last_error();
    fputs(text, stdout);
    if (*text && !ends_with(text, "\n")) fputc('\n', stdout);
    tn_free_text(text);
    return GO_ON;
}

/* ---- the session, for what only a plan tells ------------------------------------------------------------------- */

static void note_trouble(Show *show) {
    show->trouble = format_text("%s", tn_last_error());
    tn_session_release(show->session);
    show->session = NULL;
}

/* Makes the session, planned when all sizes are known. Not an error when it cannot: the rest is worth showing. */
static int plan(Show *show, const ShowOptions *o) {
    size_t n = tn_model_n_inputs(show->model);
    tn_session_options options = {.defer_packing = true};
    tune_session(&o->tune, &options);
    if (tn_session_create(show->model, &options, &show->session) != TN_OK) {
        show->session = NULL;
        note_trouble(show);
        return GO_ON;
    }
    tn_shape *shapes = need(calloc(n + 1, sizeof *shapes));
    bool known = o->inputs.shapes != NULL;
    for (size_t i = 0; i < n; i++) {
        known = known && sizes_known(&show->inputs[i]);
        shapes[i] = (tn_shape){show->inputs[i].rank, show->inputs[i].dims};
    }
    if (known && tn_session_resize(show->session, shapes, n) != TN_OK) note_trouble(show);
    free(shapes);
    return GO_ON;
}

static int show_summary(Show *show, bool json) {
    Summary summary;
    int code = summarise(show->model, &summary);
    if (code == GO_ON && json) print_json(summary_json(show, &summary));
    if (code == GO_ON && !json) print_summary_of(show, &summary);
    free_summary(&summary);
    return code;
}

static int show_what(Show *show, const ShowOptions *o) {
    if (o->svg) return write_svg(show->model, o->svg);
    if (o->text) return print_text(tn_model_text, show->model);
    if (o->dot) return print_text(tn_model_dot, show->model);
    if (o->shapes) return print_values(show, o->json);
    plan(show, o);
    if (o->memory) return print_moves(show, o->json);
    return o->plan ? print_plan(show, o->json) : show_summary(show, o->json);
}

static int show_model(const char *path, const ShowOptions *o) {
    Show show = {.path = path};
    tn_context *context = NULL;
    int code = open_context(0, &context);
    if (code == GO_ON) code = open_model(context, path, &show.model);
    if (code == GO_ON) code = shapes_apply(show.model, o->inputs.shapes, false, &show.inputs);
    if (code == GO_ON) code = show_what(&show, o);
    tn_session_release(show.session);
    free(show.inputs);
    free(show.trouble);
    tn_model_release(show.model);
    tn_context_release(context);
    return code == GO_ON ? DONE : code;
}

static int run_show(int argc, const char **argv) {
    ShowOptions o = {0};
    struct poptOption table[] = {
        SHAPE_OPTION(o.inputs),
        {"text", '\0', POPT_ARG_NONE, &o.text, 0, "the graph in Tenon's own language", NULL},
        {"dot", '\0', POPT_ARG_NONE, &o.dot, 0, "the graph for Graphviz", NULL},
        {"svg", '\0', POPT_ARG_STRING, &o.svg, 0, "draw the graph, with Graphviz", "FILE"},
        {"shapes", '\0', POPT_ARG_NONE, &o.shapes, 0, "each value with its type", NULL},
        {"plan", '\0', POPT_ARG_NONE, &o.plan, 0, "each instruction with what runs it", NULL},
        {"memory", '\0', POPT_ARG_NONE, &o.memory, 0, "memory, and each instruction that only moves data", NULL},
        {"tuning", '\0', POPT_ARG_STRING, &o.tune.tuning, 0, "compute as FILE says, which --tune has made", "FILE"},
        {"json", '\0', POPT_ARG_NONE, &o.json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_show, table, argc, argv, 1, 1);
    if (code == GO_ON && o.text + o.dot + o.shapes + o.plan + o.memory + (o.svg != NULL) > 1)
        code = usage_error(&command_show, "--text, --dot, --svg, --shapes, --plan and --memory exclude each other");
    if (code == GO_ON) code = tune_check(&command_show, &o.tune);
    if (code == GO_ON) code = show_model(args.rest[0], &o);
    args_free(&args);
    return code;
}

const Command command_show = {
    "show", "MODEL [OPTION...]", "show what a model is made of and what it takes to run",
    "Work and memory are those of the sizes that the model declares, or of --shape where it leaves sizes\n"
    "open: the planned arena, the least that any plan needs, and what it would be without planning.\n"
    "\n"
    "Examples:\n"
    "  tenon show net.onnx\n"
    "  tenon show net.onnx --shape x=1x3x224x224 --plan\n"
    "  tenon show net.onnx --memory\n"
    "  tenon show net.onnx --text | less\n"
    "  tenon show net.onnx --svg net.svg\n",
    run_show};
