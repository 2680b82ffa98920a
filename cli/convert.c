/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon convert`: writes a model in another format. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static int convert(const char *from, const char *to, bool force) {
    tn_context *context = NULL;
    tn_model *model = NULL;
    if (!ends_with(to, ".onnx") && !ends_with(to, ".tn"))
        return report("\"%s\": the output ends in .onnx or .tn", to), USAGE;
    if (is_folder(to)) return report("\"%s\" is a folder", to);
    if (!force && is_file(to)) return report("\"%s\" is there already; --force replaces it", to);
    int code = open_context(0, &context);
    if (code == GO_ON) code = open_model(context, from, &model);
    if (code == GO_ON && tn_model_save(model, to) != TN_OK) code = report_last_error();
    tn_model_release(model);
    tn_context_release(context);
    return code == GO_ON ? DONE : code;
}

static int run_convert(int argc, const char **argv) {
    int force = 0;
    struct poptOption table[] = {{"force", 'f', POPT_ARG_NONE, &force, 0, "replace OUT when it is there", NULL},
                                 END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_convert, table, argc, argv, 2, 2);
    if (code == GO_ON) code = convert(args.rest[0], args.rest[1], force);
    args_free(&args);
    return code;
}

const Command command_convert = {
    "convert", "IN OUT [OPTION...]", "convert a model between ONNX (.onnx) and Tenon's text (.tn)",
    "The ending of OUT decides. The text's large constants go into a .safetensors file beside it.\n"
    "\n"
    "Examples:\n"
    "  tenon convert net.onnx net.tn\n"
    "  tenon convert net.tn net.onnx --force\n",
    run_convert};
