/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon convert`: writes a model in another format. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct ConvertOptions {
    InputOptions inputs; /* their sizes count */
    TuneOptions tune;
    int force, packed;
} ConvertOptions;

/* Optimised, with the weights as the kernels here want them for inputs of these sizes. */
static int save_packed(tn_context *context, tn_model *model, const ConvertOptions *o, const char *to) {
    tn_session *session = NULL;
    tn_tensor **inputs = NULL;
    size_t n = tn_model_n_inputs(model);
    tn_shape *shapes = need(calloc(n + 1, sizeof *shapes));
    tn_session_options options = {.defer_plan = true};
    tune_session(&o->tune, &options);
    int code = inputs_make(context, model, &o->inputs, &inputs);
    for (size_t i = 0; i < n && code == GO_ON; i++)
        if (inputs[i]) shapes[i] = (tn_shape){tn_tensor_rank(inputs[i]), tn_tensor_dims(inputs[i])};
    if (code == GO_ON && (tn_session_create(model, &options, &session) != TN_OK ||
                          tn_session_resize(session, shapes, n) != TN_OK || tn_session_save(session, to) != TN_OK))
        code = report_last_error();
    tn_session_release(session);
    if (inputs) tensors_free(inputs, n);
    free(shapes);
    return code;
}

static int convert(const char *from, const char *to, const ConvertOptions *o) {
    tn_context *context = NULL;
    tn_model *model = NULL;
    bool force = o->force;
    if (!ends_with(to, ".onnx") && !ends_with(to, ".tn"))
        return report("\"%s\": the output ends in .onnx or .tn", to), USAGE;
    if (!o->packed && (o->tune.tune || o->tune.tuning)) return report("--tune and --tuning go with --packed"), USAGE;
    if (o->packed && !ends_with(to, ".tn")) return report("--packed: the output ends in .tn"), USAGE;
    if (is_folder(to)) return report("\"%s\" is a folder", to);
    if (!force && is_file(to)) return report("\"%s\" is there already; --force replaces it", to);
    int code = open_context(0, &context);
    if (code == GO_ON) code = open_model(context, from, &model);
    if (code == GO_ON && o->packed) code = save_packed(context, model, o, to);
    else if (code == GO_ON && tn_model_save(model, to) != TN_OK) code = report_last_error();
    tn_model_release(model);
    tn_context_release(context);
    return code == GO_ON ? DONE : code;
}

static int run_convert(int argc, const char **argv) {
    ConvertOptions o = {0};
    struct poptOption table[] = {{"force", 'f', POPT_ARG_NONE, &o.force, 0, "replace OUT when it is there", NULL},
                                 {"packed", 'p', POPT_ARG_NONE, &o.packed, 0,
                                  "optimise, and save weights as this processor's kernels want them", NULL},
                                 {"shape", 's', POPT_ARG_ARGV, &o.inputs.shapes, 0,
                                  "with --packed: an input's sizes, x=1x3x224x224, or an unknown size, batch=4",
                                  "NAME=SIZES"},
                                 TUNE_OPTIONS(o.tune),
                                 END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_convert, table, argc, argv, 2, 2);
    if (code == GO_ON) code = tune_check(&command_convert, &o.tune);
    if (code == GO_ON) code = convert(args.rest[0], args.rest[1], &o);
    args_free(&args);
    return code;
}

const Command command_convert = {
    "convert", "IN OUT [OPTION...]", "convert a model between ONNX (.onnx) and Tenon's text (.tn)",
    "The ending of OUT decides. The text's large constants go into a .safetensors file beside it.\n"
    "What --packed writes opens without optimising and packing; on another kind of processor it is packed as usual.\n"
    "\n"
    "Examples:\n"
    "  tenon convert net.onnx net.tn\n"
    "  tenon convert net.tn net.onnx --force\n"
    "  tenon convert net.onnx net.tn --packed --shape batch=1\n",
    run_convert};
