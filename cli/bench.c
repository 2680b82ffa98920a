/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon bench`: how long a model takes to load, to answer first and to answer again, and the memory that it takes. */
#include "measure.h"

#include <stdlib.h>

static void memory_line(const char *name, int64_t bytes, const char *what) {
    char *text = bytes < 0 ? format_text("not known here") : bytes_text((uint64_t)bytes);
    printf("  %-16s %s%s\n", name, text, bytes < 0 ? "" : what);
    free(text);
}

static void print_bench(const Measured *m) {
    char *inputs = measured_inputs(m);
    double median = quantile(m->seconds, m->n_runs, 0.5);
    tn_session_info info = {0};
    printf("%s%s%s %s, %d thread%s\n", colour(stdout, BOLD), m->path, colour(stdout, PLAIN), inputs,
           tn_context_threads(m->context), tn_context_threads(m->context) == 1 ? "" : "s");
    printf("  %-16s %.3f ms (reading %.3f, preparing %.3f, first run %.3f)\n", "first answer",
           1e3 * (m->load + m->prepare + m->first), 1e3 * m->load, 1e3 * m->prepare, 1e3 * m->first);
    printf("  %-16s median %.3f ms, least %.3f ms, 90 %% within %.3f ms\n", "runs", 1e3 * median, 1e3 * m->seconds[0],
           1e3 * quantile(m->seconds, m->n_runs, 0.9));
    printf("  %-16s %zu runs, %.1f a second; the processor's time is %.3f ms a run\n", "", m->n_runs,
           median > 0 ? 1 / median : 0, 1e3 * quantile(m->processor, m->n_runs, 0.5));
    if (tn_session_get_info(m->session, &info) == TN_OK && info.flops > 0) {
        char *flops = count_text(info.flops);
        printf("  %-16s %s FLOPs, %.1f GFLOP/s\n", "work", flops, median > 0 ? 1e-9 * info.flops / median : 0);
        free(flops);
    }
    if (info.n_tuned > 0)
        printf("  %-16s %zu instructions as measured, %zu of them now\n", "tuning", info.n_tuned, info.n_measured);
    memory_line("memory", m->peak, " more than before loading, at most, inputs not counted");
    memory_line("", m->added, " of it after the first run");
    free(inputs);
}

static json_t *bytes_json(int64_t bytes) { return bytes < 0 ? json_null() : json_integer(bytes); }

static json_t *bench_json(const Measured *m) {
    char *inputs = measured_inputs(m);
    double mean = 0;
    for (size_t i = 0; i < m->n_runs; i++) mean += m->seconds[i] / (double)m->n_runs;
    json_t *root = json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f}", "model", m->path, "inputs", inputs, "threads",
                             tn_context_threads(m->context), "load_ms", 1e3 * m->load, "prepare_ms", 1e3 * m->prepare,
                             "first_run_ms", 1e3 * m->first, "first_answer_ms",
                             1e3 * (m->load + m->prepare + m->first));
    json_object_set_new(root, "times",
                        json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "runs", (json_int_t)m->n_runs, "median_ms",
                                  1e3 * quantile(m->seconds, m->n_runs, 0.5), "least_ms", 1e3 * m->seconds[0], "p90_ms",
                                  1e3 * quantile(m->seconds, m->n_runs, 0.9), "mean_ms", 1e3 * mean, "processor_ms",
                                  1e3 * quantile(m->processor, m->n_runs, 0.5)));
    json_object_set_new(
        root, "memory",
        json_pack("{s:o, s:o}", "peak_bytes", bytes_json(m->peak), "added_bytes", bytes_json(m->added)));
    json_object_set_new(root, "plan", plan_summary_json(m->session));
    free(inputs);
    return root;
}

static int bench(const char *path, const MeasureOptions *o) {
    Measured m;
    int code = measure_begin(&m, path, o);
    if (code == GO_ON) code = measure_runs(&m, o, NULL, NULL, NULL);
    if (code == GO_ON && o->json) print_json(bench_json(&m));
    if (code == GO_ON && !o->json) print_bench(&m);
    measure_end(&m);
    return code == GO_ON ? DONE : code;
}

static int run_bench(int argc, const char **argv) {
    MeasureOptions o = MEASURE_DEFAULTS;
    struct poptOption table[] = {
        INPUT_OPTIONS(o.inputs), SHAPE_OPTION(o.inputs),
        MEASURE_OPTIONS(o),      PASS_OPTIONS(o.passes),
        TUNE_OPTIONS(o.tune),    {"json", '\0', POPT_ARG_NONE, &o.json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_bench, table, argc, argv, 1, 1);
    if (code == GO_ON) code = measure_check(&command_bench, &o);
    if (code == GO_ON) code = bench(args.rest[0], &o);
    passes_free(&o.passes);
    args_free(&args);
    return code;
}

const Command command_bench = {
    "bench", "MODEL [OPTION...]", "time a model: loading, the first answer, runs; and its memory",
    "Inputs are those of --input and --shape, as in `tenon run`; without either those of a test_data_set_0\n"
    "beside the model, else random. The first answer counts from opening the file to the end of the first\n"
    "run; memory is what is resident in the process beyond what was before. `tenon profile` tells where the\n"
    "time goes; bench/peers.py holds it against other engines.\n"
    "\n"
    "Examples:\n"
    "  tenon bench net.onnx\n"
    "  tenon bench net.onnx --shape batch=8 --threads 1 --seconds 5\n"
    "  tenon bench net.onnx --tune net.tuning.json\n"
    "  tenon bench net.onnx --repeat 100 --json\n",
    run_bench};
