/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon profile`: where a run's time goes, held against what the machine can do. */
#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- gathering ------------------------------------------------------------------------------------------------- */

/* Times of the first KEPT runs; the least of all runs. */
typedef struct Times {
    size_t n, n_kept;
    double *kept; /* instruction by instruction, KEPT each */
    double *least;
} Times;
enum { KEPT = 500 };

static void take_times(Measured *m, void *user) {
    Times *t = user;
    for (size_t i = 0; i < t->n; i++) {
        tn_instruction_info info;
        if (tn_session_instruction(m->session, i, &info) != TN_OK) continue;
        double ns = (double)info.nanoseconds;
        if (t->n_kept < KEPT) t->kept[i * KEPT + t->n_kept] = ns;
        t->least[i] = fmin(t->least[i], ns);
    }
    if (t->n_kept < KEPT) t->n_kept++;
}

static void better_of(tn_peak *a, const tn_peak *b) {
    a->flops = fmax(a->flops, b->flops);
    a->read = fmax(a->read, b->read);
    a->copy = fmax(a->copy, b->copy);
}

/* The machine is measured before and after, as it may be slower at times. */
static int run_measured(Measured *m, const MeasureOptions *o, Times *times, tn_peak *peak) {
    tn_peak after;
    if (tn_measure_peak(m->context, 0, peak) != TN_OK) return report_last_error();
    int code = measure_runs(m, o, &(tn_run_options){.profile = true}, take_times, times);
    if (code == GO_ON && tn_measure_peak(m->context, 0, &after) != TN_OK) code = report_last_error();
    if (code == GO_ON) better_of(peak, &after);
    return code;
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

/* "f32[1,64,56,56] f32[64,64,3,3] -> f32[1,64,56,56]" */
static char *shapes_of(const tn_session *session, const tn_instruction_info *info) {
    char *text = format_text("%s", "");
    for (size_t k = 0; k < info->n_operands + info->n_results; k++) {
        tn_value_info value;
        if (tn_session_instruction_value(session, info->index, k, &value) != TN_OK) continue;
        char *type = *value.name || value.rank >= 0 ? type_text(&value) : format_text("-");
        const char *between = k == info->n_operands ? (k ? " -> " : "-> ") : k ? " " : "";
        char *longer = format_text("%s%s%s", text, between, type);
        free(type);
        free(text);
        text = longer;
    }
    return text;
}

static char *refused_by(const tn_session *session, size_t i) {
    char *text = format_text("%s", "");
    tn_kernel_choice choice;
    for (size_t k = 0; tn_session_kernel(session, i, k, &choice) == TN_OK && !choice.chosen; k++) {
        char *longer = format_text("%s%s%s", text, *text ? ", " : "", choice.kernel);
        free(text);
        text = longer;
    }
    return text;
}

static void add_to(OpSum *sum, const Line *line) {
    sum->n++;
    sum->median += line->median;
    sum->least += line->least;
    sum->flops += line->info.flops;
    sum->bytes += (double)(line->info.bytes_read + line->info.bytes_written);
    sum->moved += (double)line->info.moved_bytes;
}

static void make_lines(Profile *p, Times *times) {
    p->lines = need(calloc(times->n + 1, sizeof *p->lines));
    for (size_t i = 0; i < times->n; i++) {
        Line *line = &p->lines[p->n_lines];
        if (tn_session_instruction(p->measured->session, i, &line->info) != TN_OK) continue;
        sort_values(&times->kept[i * KEPT], times->n_kept);
        line->median = quantile(&times->kept[i * KEPT], times->n_kept, 0.5);
        line->least = times->least[i];
        line->shapes = shapes_of(p->measured->session, &line->info);
        line->refused = refused_by(p->measured->session, i);
        add_to(&p->all, line);
        p->n_lines++;
    }
}

static int slower_first(const void *a, const void *b) {
    double x = ((const OpSum *)a)->median, y = ((const OpSum *)b)->median;
    return (x < y) - (x > y);
}

static void sum_ops(Profile *p) {
    p->ops = need(calloc(p->n_lines + 1, sizeof *p->ops));
    for (size_t i = 0; i < p->n_lines; i++) {
        size_t k = 0;
        const Line *line = &p->lines[i];
        while (k < p->n_ops && strcmp(p->ops[k].op, line->info.op) != 0) k++;
        if (k == p->n_ops) p->ops[p->n_ops++].op = line->info.op;
        add_to(&p->ops[k], line);
    }
    if (p->n_ops > 0) qsort(p->ops, p->n_ops, sizeof *p->ops, slower_first);
}

static void free_profile(Profile *p) {
    for (size_t i = 0; i < p->n_lines; i++) {
        free(p->lines[i].shapes);
        free(p->lines[i].refused);
    }
    free(p->lines);
    free(p->ops);
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

static int show(Profile *p, const ProfileOptions *o) {
    int code = o->trace ? write_trace(p, o->trace) : GO_ON;
    if (code != GO_ON) return code;
    if (o->measure.json) print_json(profile_of_json(p));
    else print_profile_of(p, o);
    return GO_ON;
}

static int profile(const char *path, const ProfileOptions *o) {
    Measured m;
    Profile p = {.measured = &m};
    Times times = {0};
    tn_session_info info = {0};
    int code = measure_begin(&m, path, &o->measure);
    if (code == GO_ON && tn_session_get_info(m.session, &info) != TN_OK) code = report_last_error();
    times.n = info.n_instructions;
    times.kept = need(calloc((times.n + 1) * KEPT, sizeof *times.kept));
    times.least = need(calloc(times.n + 1, sizeof *times.least));
    for (size_t i = 0; i < times.n; i++) times.least[i] = HUGE_VAL;
    if (code == GO_ON) code = run_measured(&m, &o->measure, &times, &p.peak);
    if (code == GO_ON) {
        make_lines(&p, &times);
        sum_ops(&p);
        code = show(&p, o);
    }
    free_profile(&p);
    free(times.kept);
    free(times.least);
    measure_end(&m);
    return code == GO_ON ? DONE : code;
}

static int run_profile(int argc, const char **argv) {
    ProfileOptions o = {.measure = MEASURE_DEFAULTS};
    struct poptOption table[] = {
        INPUT_OPTIONS(o.measure.inputs),
        SHAPE_OPTION(o.measure.inputs),
        MEASURE_OPTIONS(o.measure),
        {"all", 'a', POPT_ARG_NONE, &o.all, 0, "show instructions without work, too: views, what is folded", NULL},
        {"top", '\0', POPT_ARG_INT, &o.top, 0, "show the N slowest instructions, the slowest first", "N"},
        {"why", 'w', POPT_ARG_NONE, &o.why, 0, "show which kernels were asked first and did not take it", NULL},
        {"trace", '\0', POPT_ARG_STRING, &o.trace, 0, "write the last run for chrome://tracing or Perfetto", "FILE"},
        PASS_OPTIONS(o.measure.passes),
        TUNE_OPTIONS(o.measure.tune),
        {"json", '\0', POPT_ARG_NONE, &o.measure.json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_profile, table, argc, argv, 1, 1);
    if (code == GO_ON) code = measure_check(&command_profile, &o.measure);
    if (code == GO_ON && o.top < 0) code = usage_error(&command_profile, "--top needs a number above 0");
    if (code == GO_ON) code = profile(args.rest[0], &o);
    passes_free(&o.measure.passes);
    args_free(&args);
    return code;
}

const Command command_profile = {
    "profile", "MODEL [OPTION...]", "tell where a model's time goes, against what the machine can do",
    "A line an instruction: its kernel, the least and the median of its times, its share of all of them,\n"
    "FLOPs a second and as part of the fastest multiply-adds of this machine with these threads (measured\n"
    "before and after the runs), bytes of operands and results, each element once, and bytes a second. FLOPs\n"
    "are those of the op's definition: a kernel that needs fewer, as Winograd's, can have more than 100 %.\n"
    "`moved` are bytes written without arithmetic. Inputs are found as by `tenon bench`.\n"
    "\n"
    "Examples:\n"
    "  tenon profile net.onnx\n"
    "  tenon profile net.onnx --top 20 --why --threads 1\n"
    "  tenon profile net.onnx --trace net.trace.json\n",
    run_profile};
