/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon opt`: runs passes on a model, saves or prints what they made of it, and tells what each of them did. */
#include "cli.h"

#include <string.h>

typedef struct Opt {
    PassOptions passes;
    char *out, *reproducer;
    char *print[4]; /* folders: before, after, on change, on failure */
    char **print_passes;
    int text, verify, timing, stats, json, verbose;
    long long limit, change_limit;
} Opt;

static int read_print(Opt *o, tn_pass_settings *s) {
    for (int i = 0; i < 4; i++) {
        if (!o->print[i]) continue;
        if (s->print_folder && strcmp(s->print_folder, o->print[i]) != 0)
            return usage_error(&command_opt, "all --print-... go to one folder, not to \"%s\" and \"%s\"",
                               s->print_folder, o->print[i]);
        s->print_folder = o->print[i];
        s->print_when |= 1u << i; /* TN_PRINT_BEFORE and on */
    }
    if (o->print_passes && !s->print_folder)
        return usage_error(&command_opt, "--print-pass says for which passes; --print-after FOLDER says where");
    s->print_passes = (const char *const *)o->print_passes;
    while (o->print_passes && o->print_passes[s->n_print_passes]) s->n_print_passes++;
    return GO_ON;
}

static int read_opt(Opt *o) {
    tn_pass_settings *s = &o->passes.settings;
    s->verify_each = o->verify != 0;
    s->reproducer = o->reproducer;
    if (o->limit < 0 || o->change_limit < 0) return usage_error(&command_opt, "limits are numbers above 0");
    s->max_passes = (uint64_t)o->limit;
    s->max_changes = (uint64_t)o->change_limit;
    int code = read_print(o, s);
    return code == GO_ON ? passes_read(&command_opt, &o->passes) : code;
}

/* ---- what is told --------------------------------------------------------------------------------------------- */

static int print_text(const tn_model *model) {
    char *text;
    if (tn_model_text(model, &text) != TN_OK) return report_last_error();
    fputs(text, stdout);
    tn_free_text(text);
    return GO_ON;
}

static void print_summary(const tn_pass_report *report) {
    tn_pass_record r = {0};
    size_t n = tn_pass_report_size(report), before = 0, ran = 0, changed = 0;
    for (size_t i = 0; i < n && tn_pass_report_at(report, i, &r) == TN_OK; i++) {
        if (i == 0) before = r.nodes_before;
        ran += r.number > 0;
        changed += r.number > 0 && r.changed;
    }
    printf("%zu nodes became %zu; %zu passes ran, %zu of them changed something%s\n", before, r.nodes_after, ran,
           changed, changed ? ":" : "");
    if (changed) print_pass_sums(report, false, true, stdout);
}

/* What was asked for goes to stderr where stdout is the model's. */
static void print_report(const Opt *o, const tn_pass_report *report) {
    FILE *stream = o->text || o->json ? stderr : stdout;
    if (o->timing) print_pass_tree(report, stream);
    if (o->stats || o->verbose) print_pass_sums(report, true, false, stream);
    if (!o->timing && !o->stats && !o->verbose && !o->out && !o->text && !o->json) print_summary(report);
}

static int save(const Opt *o, const tn_model *model) {
    if (o->text && print_text(model) != GO_ON) return FAILED;
    if (o->out && tn_model_save(model, o->out) != TN_OK) return report_last_error();
    return GO_ON;
}

/* What was done is told also when a pass failed. */
static int optimize(const char *path, const Opt *o) {
    tn_context *context = NULL;
    tn_model *model = NULL;
    tn_pass_report *told = NULL;
    int code = open_context_loud(0, o->verbose, &context);
    if (code == GO_ON) code = open_model(context, path, &model);
    if (code == GO_ON && tn_model_run_passes(model, &o->passes.settings, &told) != TN_OK) code = report_last_error();
    if (told) print_report(o, told);
    if (told && o->json)
        print_json(
            json_pack("{s:s, s:b, s:o}", "model", path, "done", code == GO_ON, "passes", pass_report_json(told)));
    if (code == GO_ON) code = save(o, model);
    tn_pass_report_release(told);
    tn_model_release(model);
    tn_context_release(context);
    return code == GO_ON ? DONE : code;
}

static int run_opt(int argc, const char **argv) {
    Opt o = {0};
    struct poptOption table[] = {
        {"output", 'o', POPT_ARG_STRING, &o.out, 0, "where to save it: .tn or .onnx", "FILE"},
        {"text", 't', POPT_ARG_NONE, &o.text, 0, "print the result as text", NULL},
        PASS_OPTIONS(o.passes),
        {"timing", '\0', POPT_ARG_NONE, &o.timing, 0, "show times, nodes and memory as a tree", NULL},
        {"stats", '\0', POPT_ARG_NONE, &o.stats, 0, "show what each pass did, or why it did not run", NULL},
        {"print-before", '\0', POPT_ARG_STRING, &o.print[0], 0, "write the model before each pass", "FOLDER"},
        {"print-after", '\0', POPT_ARG_STRING, &o.print[1], 0, "write it after each pass", "FOLDER"},
        {"print-on-change", '\0', POPT_ARG_STRING, &o.print[2], 0, "write it after passes that changed it", "FOLDER"},
        {"print-on-failure", '\0', POPT_ARG_STRING, &o.print[3], 0, "write it as a pass that failed left it", "FOLDER"},
        {"print-pass", '\0', POPT_ARG_ARGV, &o.print_passes, 0, "write it only around this pass", "PASS"},
        {"verify", '\0', POPT_ARG_NONE, &o.verify, 0, "check the model's rules after each pass", NULL},
        {"limit", '\0', POPT_ARG_LONGLONG, &o.limit, 0, "run only the first passes", "N"},
        {"change-limit", '\0', POPT_ARG_LONGLONG, &o.change_limit, 0, "make only the first changes", "N"},
        {"reproducer", '\0', POPT_ARG_STRING, &o.reproducer, 0, "left behind when a pass fails or crashes", "FILE"},
        {"verbose", 'v', POPT_ARG_NONE, &o.verbose, 0, "tell what runs, and what does not", NULL},
        {"json", '\0', POPT_ARG_NONE, &o.json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_opt, table, argc, argv, 1, 1);
    if (code == GO_ON && o.text && o.json) code = usage_error(&command_opt, "--text and --json exclude each other");
    if (code == GO_ON) code = read_opt(&o);
    if (code == GO_ON) code = optimize(args.rest[0], &o);
    passes_free(&o.passes);
    args_free(&args);
    return code;
}

const Command command_opt = {
    "opt", "MODEL [OPTION...]", "optimise a model and tell what the passes did",
    "Without an option that says what to do with the result, a summary is shown. `tenon passes` lists what\n"
    "there is, `tenon check` finds the pass that changes an answer. A .tn that was optimised runs without\n"
    "passes.\n"
    "\n"
    "Examples:\n"
    "  tenon opt net.onnx -o net.tn\n"
    "  tenon opt net.onnx --passes infer-shapes,remove-dead --text\n"
    "  tenon opt net.onnx --timing --stats\n"
    "  tenon opt net.onnx --print-on-change steps\n",
    run_opt};
