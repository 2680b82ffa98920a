/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon run`: runs a model on files, random numbers or recorded sets and shows what comes out. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- recorded sets -------------------------------------------------------------------------------------------- */

typedef struct Tally {
    size_t passed, failed;
    json_t *list; /* NULL: print */
} Tally;

static void show_result(void *user, const CheckResult *r) {
    Tally *tally = user;
    if (r->passed) tally->passed++;
    else tally->failed++;
    if (tally->list) {
        json_array_append_new(tally->list,
                              json_pack("{s:s, s:b, s:o, s:f, s:s*}", "set", r->set, "passed", r->passed, "difference",
                                        number_json(r->difference), "seconds", r->seconds, "reason", r->reason));
        return;
    }
    Colour c = r->passed ? GREEN : RED;
    printf("%s%s%s %s: largest difference %.2g of the output's scale, %.1f ms\n", colour(stdout, c),
           r->passed ? "pass" : "FAIL", colour(stdout, PLAIN), r->set, r->difference, 1e3 * r->seconds);
    if (r->reason) printf("  %s\n", r->reason);
}

static int run_sets(tn_context *context, const char *path, const RunOptions *o) {
    CheckOptions options = {o->rtol, o->atol, &o->passes.settings};
    char *inside = is_folder(path) ? model_in_folder(path) : NULL;
    Tally tally = {.list = o->json ? json_array() : NULL};
    int code = check_model(context, inside ? inside : path, o->test, &options, show_result, &tally);
    if (tally.list) print_json(json_pack("{s:s, s:o}", "model", path, "sets", tally.list));
    free(inside);
    return code != GO_ON ? code : tally.failed ? FAILED : DONE;
}

/* ---- running -------------------------------------------------------------------------------------------------- */

/* Runs o->repeat times; seconds[] gets each time. Outputs are those of the last run. */
static int run_repeatedly(Run *run, const RunOptions *o) {
    tn_run_options options = {.profile = o->profile};
    run->n_outputs = tn_session_n_outputs(run->session);
    run->outputs = need(calloc(run->n_outputs + 1, sizeof(tn_tensor *)));
    run->n_runs = (size_t)o->repeat;
    run->seconds = need(calloc(run->n_runs, sizeof *run->seconds));
    for (size_t i = 0; i < run->n_runs; i++) {
        for (size_t k = 0; k < run->n_outputs; k++) {
            tn_tensor_release(run->outputs[k]);
            run->outputs[k] = NULL;
        }
        progress("running", i, run->n_runs);
        double start = seconds_now();
        tn_status status = tn_session_run(run->session, &options, (const tn_tensor *const *)run->inputs, run->n_inputs,
                                          run->outputs, run->n_outputs);
        run->seconds[i] = seconds_now() - start;
        if (status != TN_OK) return report_last_error();
    }
    progress_end();
    return GO_ON;
}

/* ---- --output ------------------------------------------------------------------------------------------------- */

/* Names from models may hold anything, '/' and ".." too. */
static char *safe_name(const char *name, size_t i) {
    if (!*name) return format_text("output_%zu", i);
    char *safe = format_text("%.200s", name);
    for (char *c = safe; *c; c++) {
        bool fine = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                    strchr("_-.", *c);
        if (!fine || (*c == '.' && c == safe)) *c = '_';
    }
    return safe;
}

static int save_outputs(const Run *run, const char *folder) {
    if (mkdir(folder, 0777) != 0 && !is_folder(folder)) return report("cannot make the folder \"%s\"", folder);
    int code = GO_ON;
    char **names = need(calloc(run->n_outputs + 1, sizeof *names));
    for (size_t i = 0; i < run->n_outputs && code == GO_ON; i++) {
        names[i] = safe_name(output_name(run, i), i);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(names[k], names[i]) != 0) continue;
            char *other = format_text("%s_%zu", names[i], i);
            free(names[i]);
            names[i] = other;
            k = SIZE_MAX; /* from the start */
        }
        bool tensor = tn_tensor_kind(run->outputs[i]) == TN_TENSOR; /* npy has nothing for the others */
        char *path = format_text("%s/%s.%s", folder, names[i], tensor ? "npy" : "pb");
        if (tn_tensor_save(run->outputs[i], path, output_name(run, i)) != TN_OK) code = report_last_error();
        free(path);
    }
    free_list(names, run->n_outputs);
    return code;
}

/* ---- --from, --to -------------------------------------------------------------------------------------------- */

/* The model becomes the part of it that is wanted. Without --to its outputs are the ends. */
static int cut_model(tn_model **model, const RunOptions *o) {
    tn_path path = {.inputs = (const char *const *)o->from, .outputs = (const char *const *)o->to};
    const char **ends = NULL;
    tn_model *part = NULL;
    while (o->from && o->from[path.n_inputs]) path.n_inputs++;
    while (o->to && o->to[path.n_outputs]) path.n_outputs++;
    if (path.n_inputs + path.n_outputs == 0) return GO_ON;
    if (path.n_outputs == 0) {
        path.n_outputs = tn_model_n_outputs(*model);
        path.outputs = ends = need(calloc(path.n_outputs + 1, sizeof *ends));
        for (size_t i = 0; i < path.n_outputs; i++) {
            tn_value_info info;
            ends[i] = tn_model_output(*model, i, &info) == TN_OK ? info.name : "";
        }
    }
    tn_status status = tn_model_extract(*model, &path, 1, &part);
    free(ends);
    if (status != TN_OK) return report_last_error();
    tn_model_release(*model);
    *model = part;
    return GO_ON;
}

/* ---- the command ---------------------------------------------------------------------------------------------- */

static int run_model(tn_context *context, const char *path, const RunOptions *o) {
    Run run = {.path = path};
    tn_session_options session = {.passes = &o->passes.settings};
    tune_session(&o->tune, &session);
    int code = open_model(context, path, &run.model);
    if (code == GO_ON) code = cut_model(&run.model, o);
    if (code == GO_ON) {
        run.n_inputs = tn_model_n_inputs(run.model);
        code = inputs_make(context, run.model, &o->inputs, &run.inputs);
    }
    if (code == GO_ON && tn_session_create(run.model, &session, &run.session) != TN_OK) code = report_last_error();
    if (code == GO_ON) code = run_repeatedly(&run, o);
    if (code == GO_ON) {
        if (o->json) print_run_json(&run, o->profile);
        else print_run(&run, o->profile);
        code = o->output ? save_outputs(&run, o->output) : GO_ON;
    }
    tensors_free(run.outputs, run.n_outputs);
    tensors_free(run.inputs, run.n_inputs);
    free(run.seconds);
    tn_session_release(run.session);
    tn_model_release(run.model);
    return code == GO_ON ? DONE : code;
}

static int run_with(Args *args, RunOptions *o) {
    bool test = (args->seen & 1u << SEEN_TEST) != 0;
    const char *path = args->rest ? args->rest[0] : NULL;
    char *taken = NULL;
    if (!path && test && o->test) { /* `--test MODEL`: popt takes the model for the folder */
        path = taken = o->test;
        o->test = NULL;
    }
    if (!path) return usage_error(args->command, "which model?");
    if (test && (o->tune.tune || o->tune.tuning)) return usage_error(args->command, "--test does not tune");
    if (test && (o->from || o->to)) return usage_error(args->command, "--test is for whole models, not --from or --to");
    if (o->repeat < 1) return usage_error(args->command, "--repeat needs a number above 0");
    tn_context *context = NULL;
    int code = open_context(o->threads, &context);
    if (code == GO_ON) code = test ? run_sets(context, path, o) : run_model(context, path, o);
    tn_context_release(context);
    free(taken);
    return code;
}

static int run_run(int argc, const char **argv) {
    RunOptions o = {.repeat = 1, .rtol = -1, .atol = -1};
    struct poptOption table[] = {
        INPUT_OPTIONS(o.inputs),
        SHAPE_OPTION(o.inputs),
        {"from", '\0', POPT_ARG_ARGV, &o.from, 0, "begin at this value, which becomes an input; may be given again",
         "NAME"},
        {"to", '\0', POPT_ARG_ARGV, &o.to, 0, "end at this value, in place of the outputs; may be given again", "NAME"},
        {"output", 'o', POPT_ARG_STRING, &o.output, 0,
         "write each output there as NAME.npy (what is no tensor: NAME.pb)", "DIR"},
        {"threads", 't', POPT_ARG_INT, &o.threads, 0, "threads (one a processor)", "N"},
        {"repeat", 'r', POPT_ARG_INT, &o.repeat, 0, "run that often and show the times", "N"},
        {"profile", 'p', POPT_ARG_NONE, &o.profile, 0, "show where the time goes", NULL},
        {"test", '\0', POPT_ARG_STRING | POPT_ARGFLAG_OPTIONAL, &o.test, SEEN_TEST,
         "compare with the test_data_set_* in DIR (beside the model)", "DIR"},
        {"rtol", '\0', POPT_ARG_DOUBLE, &o.rtol, 0, "allowed difference relative to an output's scale", "X"},
        {"atol", '\0', POPT_ARG_DOUBLE, &o.atol, 0, "allowed absolute difference (1e-7)", "X"},
        PASS_OPTIONS(o.passes),
        TUNE_OPTIONS(o.tune),
        {"json", '\0', POPT_ARG_NONE, &o.json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_run, table, argc, argv, 0, 1);
    if (code == GO_ON) code = passes_read(&command_run, &o.passes);
    if (code == GO_ON) code = tune_check(&command_run, &o.tune);
    if (code == GO_ON) code = run_with(&args, &o);
    passes_free(&o.passes);
    args_free(&args);
    return code;
}

const Command command_run = {
    "run", "MODEL [OPTION...]", "run a model and show its outputs",
    "Inputs that are not given are random. The name may be left out where a model has one input. Sizes\n"
    "that the model leaves open come from --shape; a first size (the batch) is 1 without it.\n"
    "With --test nothing is shown but whether each recorded set of inputs gives its outputs:\n"
    "input_N.pb, output_N.pb; a file `expect_error` says that the model must fail (a line `contains: WORDS`: with these words).\n"
    "Without --rtol the file data.json beside the model decides, else 1e-4 (2e-2 for f16, bf16 and quantised models).\n"
    "\n"
    "Examples:\n"
    "  tenon run net.onnx                                     random inputs\n"
    "  tenon run net.onnx -i cat.jpg --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225\n"
    "  tenon run net.onnx -i ids=ids.npy -i length=5 --shape batch=4 -o out/\n"
    "  tenon run net.onnx --from conv1_out --to logits        a part of the model\n"
    "  tenon run net.onnx --repeat 100 --profile --threads 4\n"
    "  tenon run net.onnx --test\n",
    run_run};
