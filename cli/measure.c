/* SPDX-License-Identifier: Apache-2.0 */
/* A model that is loaded and run under the clock. */
#include "measure.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int measure_check(const Command *command, MeasureOptions *o) {
    if (o->repeat < 0 || o->repeat > MOST_RUNS) return usage_error(command, "--repeat is at most %d", MOST_RUNS);
    if (!(o->seconds >= 0 && o->seconds < 1e6)) return usage_error(command, "--seconds is a number above 0");
    if (o->warmup < 0) return usage_error(command, "--warmup is a number above 0");
    int code = tune_check(command, &o->tune);
    return code == GO_ON ? passes_read(command, &o->passes) : code;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* A figure of /proc/self/status in bytes, -1 where there is none: "VmRSS", what is resident; "VmHWM", the most that was. */
static int64_t resident(const char *key) {
    size_t size;
    char *text = read_file("/proc/self/status", &size);
    const char *line = text ? strstr(text, key) : NULL;
    int64_t bytes = line ? 1024 * strtoll(line + strlen(key) + 1, NULL, 10) : -1;
    free(text);
    return bytes;
}

static int64_t inputs_bytes(const Measured *m) {
    int64_t sum = 0;
    for (size_t i = 0; i < m->n_inputs; i++)
        if (m->inputs[i]) sum += (int64_t)tn_tensor_bytes(m->inputs[i]);
    return sum;
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

static char *recorded_set(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = is_folder(path) ? format_text("%s", path)
                   : slash         ? format_text("%.*s", (int)(slash - path), path)
                                   : format_text(".");
    char *set = join_path(*folder ? folder : "/", "test_data_set_0");
    free(folder);
    if (is_folder(set)) return set;
    free(set);
    return NULL;
}

static int read_set(Measured *m, const char *set) {
    const char **names = need(calloc(m->n_inputs + 1, sizeof *names));
    tn_value_kind *kinds = need(calloc(m->n_inputs + 1, sizeof *kinds));
    char *reason = NULL;
    for (size_t i = 0; i < m->n_inputs; i++) {
        tn_value_info info = {.name = ""};
        tn_model_input(m->model, i, &info);
        names[i] = info.name;
        kinds[i] = info.kind;
    }
    m->inputs = load_set(m->context, set, "input_", names, kinds, m->n_inputs, &reason);
    int code = m->inputs ? GO_ON : report("%s: %s", set, reason);
    free(reason);
    free(names);
    free(kinds);
    return code;
}

static int find_inputs(Measured *m, const InputOptions *o) {
    char *set = o->inputs || o->shapes ? NULL : recorded_set(m->path);
    m->n_inputs = tn_model_n_inputs(m->model);
    int code = set ? read_set(m, set) : inputs_make(m->context, m->model, o, &m->inputs);
    free(set);
    return code;
}

static char *given_type(const Measured *m, size_t i) {
    return i < m->n_inputs && m->inputs[i] ? tensor_type_text(m->inputs[i]) : NULL;
}

char *measured_inputs(const Measured *m) {
    char *text = format_text("%s", ""), *type = NULL;
    size_t times = 0;
    for (size_t i = 0; i <= m->n_inputs; i++) {
        char *next = given_type(m, i);
        if (!next && i < m->n_inputs) continue;
        if (type && (!next || strcmp(next, type) != 0)) {
            char *many = times > 1 ? format_text(" (%zu times)", times) : format_text("%s", "");
            char *longer = format_text("%s%s%s%s", text, *text ? ", " : "", type, many);
            free(many);
            free(text);
            text = longer;
            times = 0;
        }
        free(type);
        type = next;
        times++;
    }
    return text;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

/* The results of the run before are given back outside the time that is taken. */
static int run_once(Measured *m, const tn_run_options *options, double *seconds) {
    for (size_t i = 0; i < m->n_outputs; i++) {
        tn_tensor_release(m->outputs[i]);
        m->outputs[i] = NULL;
    }
    double start = seconds_now();
    tn_status status = tn_session_run(m->session, options, (const tn_tensor *const *)m->inputs, m->n_inputs, m->outputs,
                                      m->n_outputs);
    *seconds = seconds_now() - start;
    return status == TN_OK ? GO_ON : report_last_error();
}

static int first_run(Measured *m, const MeasureOptions *o, int64_t before) {
    tn_session_options session = {.passes = &o->passes.settings};
    tune_session(&o->tune, &session);
    double start = seconds_now();
    if (tn_session_create(m->model, &session, &m->session) != TN_OK) return report_last_error();
    m->prepare = seconds_now() - start;
    m->n_outputs = tn_session_n_outputs(m->session);
    m->outputs = need(calloc(m->n_outputs + 1, sizeof(tn_tensor *)));
    int code = run_once(m, NULL, &m->first);
    int64_t now = resident("VmRSS:"), most = resident("VmHWM:"), inputs = inputs_bytes(m);
    m->added = before < 0 || now < 0 ? -1 : now - before - inputs;
    m->peak = before < 0 || most < 0 ? -1 : most - before - inputs;
    return code;
}

int measure_begin(Measured *m, const char *path, const MeasureOptions *o) {
    *m = (Measured){.path = path};
    int64_t before = resident("VmRSS:");
    double start = seconds_now();
    int code = open_context(o->threads, &m->context);
    if (code == GO_ON) code = open_model(m->context, path, &m->model);
    m->load = seconds_now() - start;
    if (code == GO_ON) code = find_inputs(m, &o->inputs);
    return code == GO_ON ? first_run(m, o, before) : code;
}

int measure_runs(Measured *m, const MeasureOptions *o, const tn_run_options *run,
                 void (*after)(Measured *m, void *user), void *user) {
    double ignored;
    int code = GO_ON;
    m->seconds = need(calloc(MOST_RUNS, sizeof *m->seconds));
    m->processor = need(calloc(MOST_RUNS, sizeof *m->processor));
    for (int i = 0; i < o->warmup && code == GO_ON; i++) code = run_once(m, run, &ignored);
    double start = seconds_now();
    while (code == GO_ON && m->n_runs < MOST_RUNS) {
        bool enough = o->repeat ? m->n_runs >= (size_t)o->repeat
                                : m->n_runs >= LEAST_RUNS && seconds_now() - start >= o->seconds;
        if (enough) break;
        progress("running", m->n_runs, o->repeat ? (size_t)o->repeat : 0);
        double had = processor_seconds();
        code = run_once(m, run, &m->seconds[m->n_runs]);
        m->processor[m->n_runs++] = processor_seconds() - had;
        if (code == GO_ON && after) after(m, user);
    }
    progress_end();
    sort_values(m->seconds, m->n_runs);
    sort_values(m->processor, m->n_runs);
    return code;
}

void measure_end(Measured *m) {
    tensors_free(m->outputs, m->n_outputs);
    tensors_free(m->inputs, m->n_inputs);
    free(m->seconds);
    free(m->processor);
    tn_session_release(m->session);
    tn_model_release(m->model);
    tn_context_release(m->context);
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_values(double *values, size_t n) {
    if (n > 0) qsort(values, n, sizeof *values, by_value);
}

double quantile(const double *sorted, size_t n, double q) {
    if (n == 0) return 0;
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}
