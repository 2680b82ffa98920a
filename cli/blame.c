/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon check`: does a pass change what a model answers, and which? */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct Blame {
    PassOptions passes;
    InputOptions inputs;
    char *reproducer;
    int bisect, json, verbose;
    double rtol, atol;
    json_t *list; /* NULL: print */
} Blame;

static void print_result(const tn_check_info *r, const char *set) {
    const char *mark = colour(stdout, r->same ? GREEN : RED);
    if (set) printf("%s: ", set);
    printf("%s%s%s\n", mark, r->why, colour(stdout, PLAIN));
    if (r->same) return;
    printf("  pass   %s (number %llu)\n", r->pass, (unsigned long long)r->pass_number);
    if (r->change) printf("  change %llu\n", (unsigned long long)r->change);
    if (*r->by) printf("  by     %s\n", r->by);
    printf("  node   %s (%s)\n  value  %s\n  difference %.3g, scale %.3g\n", r->node, r->op, r->value, r->largest,
           r->scale);
}

static json_t *result_json(const tn_check_info *r, const char *set) {
    return json_pack("{s:s*, s:b, s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:s}", "set", set, "same",
                     r->same, "pass", r->pass, "number", (json_int_t)r->pass_number, "change", (json_int_t)r->change,
                     "value", r->value, "node", r->node, "op", r->op, "by", r->by, "difference",
                     number_json(r->largest), "scale", number_json(r->scale), "worst", number_json(r->worst), "passes",
                     (json_int_t)r->n_passes, "why", r->why);
}

/* DONE when nothing changed, FAILED. */
static int check_inputs(const Blame *b, const tn_model *model, tn_tensor **inputs, const char *set) {
    tn_pass_settings settings = b->passes.settings;
    tn_check_options options = {.rtol = b->rtol > 0 ? b->rtol : 0,
                                .atol = b->atol > 0 ? b->atol : 0,
                                .bisect = b->bisect != 0,
                                .reproducer = b->reproducer};
    tn_check_result *result;
    if (!settings.pipeline) settings.pipeline = tn_model_metadata(model, "tenon.pipeline");
    if (tn_model_check(model, &settings, &options, (const tn_tensor *const *)inputs, tn_model_n_inputs(model),
                       &result) != TN_OK)
        return report_last_error();
    const tn_check_info *r = tn_check_result_info(result);
    int code = r->same ? DONE : FAILED;
    if (b->list) json_array_append_new(b->list, result_json(r, set));
    else print_result(r, set);
    tn_check_result_release(result);
    return code;
}

static int check_set(const Blame *b, tn_context *context, const tn_model *model, const char *set) {
    size_t n = tn_model_n_inputs(model);
    const char **names = need(calloc(n + 1, sizeof *names)), *slash = strrchr(set, '/');
    tn_value_kind *kinds = need(calloc(n + 1, sizeof *kinds));
    char *reason = NULL;
    for (size_t i = 0; i < n; i++) {
        tn_value_info info = {.name = ""};
        tn_model_input(model, i, &info);
        names[i] = info.name;
        kinds[i] = info.kind;
    }
    tn_tensor **inputs = load_set(context, set, "input_", names, kinds, n, &reason);
    int code = inputs ? check_inputs(b, model, inputs, slash ? slash + 1 : set) : report("%s: %s", set, reason);
    tensors_free(inputs, n);
    free(reason);
    free(kinds);
    free(names);
    return code;
}

static int check_made(const Blame *b, tn_context *context, const tn_model *model) {
    tn_tensor **inputs = NULL;
    int code = inputs_make(context, model, &b->inputs, &inputs);
    if (code == GO_ON) code = check_inputs(b, model, inputs, NULL);
    tensors_free(inputs, tn_model_n_inputs(model));
    return code;
}

/* Recorded inputs where the model's folder has them and no others were asked for. */
static int check_model_at(const char *path, const Blame *b) {
    tn_context *context = NULL;
    tn_model *model = NULL;
    size_t n = 0;
    int code = open_context_loud(0, b->verbose, &context);
    if (code == GO_ON) code = open_model(context, path, &model);
    char **sets = code == GO_ON && is_folder(path) && !b->inputs.inputs && !b->inputs.shapes ? find_sets(path, &n)
                                                                                             : NULL;
    if (code == GO_ON && n == 0) code = check_made(b, context, model);
    for (size_t i = 0; i < n && (code == GO_ON || code == DONE); i++) code = check_set(b, context, model, sets[i]);
    free_list(sets, n);
    tn_model_release(model);
    tn_context_release(context);
    return code;
}

static int run_check(int argc, const char **argv) {
    Blame b = {.rtol = -1, .atol = -1};
    struct poptOption table[] = {
        INPUT_OPTIONS(b.inputs),
        SHAPE_OPTION(b.inputs),
        PASS_OPTIONS(b.passes),
        {"bisect", '\0', POPT_ARG_NONE, &b.bisect, 0, "find it by halving, down to the single change", NULL},
        {"reproducer", '\0', POPT_ARG_STRING, &b.reproducer, 0, "write model, pass and inputs when one is to blame",
         "FILE"},
        {"rtol", '\0', POPT_ARG_DOUBLE, &b.rtol, 0, "allowed difference relative to a value's scale", "X"},
        {"atol", '\0', POPT_ARG_DOUBLE, &b.atol, 0, "allowed absolute difference (1e-7)", "X"},
        {"verbose", 'v', POPT_ARG_NONE, &b.verbose, 0, "tell what runs", NULL},
        {"json", '\0', POPT_ARG_NONE, &b.json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_check, table, argc, argv, 1, 1);
    if (code == GO_ON) code = passes_read(&command_check, &b.passes);
    if (code == GO_ON) {
        b.list = b.json ? json_array() : NULL;
        code = check_model_at(args.rest[0], &b);
        if (b.list) print_json(json_pack("{s:s, s:o}", "model", args.rest[0], "checks", b.list));
    }
    passes_free(&b.passes);
    args_free(&args);
    return code;
}

const Command command_check = {
    "check", "MODEL [OPTION...]", "find the pass that changes what a model answers",
    "The model runs on the reference kernels before any pass and after each, on inputs as `tenon run` makes\n"
    "them, or on those of the test_data_set_* in the folder MODEL. Told are the first pass after which an\n"
    "output is wrong, and the first value that differs. A file that --reproducer wrote says itself what runs.\n"
    "Without --rtol 1e-4 is allowed (2e-2 for f16, bf16 and quantised models). Exit status 1: a pass is to blame.\n"
    "\n"
    "Examples:\n"
    "  tenon check net.onnx\n"
    "  tenon check net.onnx --shape batch=4 --plugin mine.so --bisect\n"
    "  tenon check net.onnx --reproducer fault.tn; tenon check fault.tn\n",
    run_check};
