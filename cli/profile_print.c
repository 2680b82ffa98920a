/* SPDX-License-Identifier: Apache-2.0 */
/* What `tenon profile` shows: tables, JSON, a trace. Times are nanoseconds here. */
#include "measure.h"

#include <stdlib.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------------------------- */

static double per_ns(double what, double ns) { return ns > 0 ? what / ns : 0; }

static double line_bytes(const Line *line) { return (double)(line->info.bytes_read + line->info.bytes_written); }

/* A rate and, where there is none, nothing. */
static void rate_cell(Table *table, double rate, const char *format, double scale) {
    char *text = format_text(format, rate * scale);
    table_cell(table, "%s", rate > 0 ? text : "-");
    free(text);
}

/* GFLOP/s and its part of the peak, as cells; GB/s. */
static void rate_cells(Table *table, const Profile *p, double flops, double bytes, double ns) {
    double rate = per_ns(flops, ns); /* FLOPs a nanosecond are GFLOPs a second */
    rate_cell(table, rate, "%.1f", 1);
    rate_cell(table, rate, "%.0f", 100 / (1e-9 * p->peak.flops));
    rate_cell(table, per_ns(bytes, ns), "%.1f", 1);
}

static void bytes_cell(Table *table, uint64_t bytes) {
    char *text = bytes_text(bytes);
    table_cell(table, "%s", bytes ? text : "-");
    free(text);
}

/* ---- tables ---------------------------------------------------------------------------------------------------- */

static bool works(const Line *line) { return line->median > 0 || line->info.bytes_written > 0; }

static const char *const columns[] = {">#", "~node",    "<op",     "<kernel", "~shapes", ">least us", ">median us",
                                      ">%", ">GFLOP/s", ">% peak", ">GB/s",   ">read",   ">written",  "<asked before"};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static void line_row(Table *table, const Profile *p, const Line *line, bool why) {
    table_cell(table, "%zu", line->info.index);
    table_cell(table, "%s", line->info.node);
    table_cell(table, "%s", line->info.op);
    table_cell(table, "%s%s%s%s", line->info.kernel, *line->info.way ? " " : "", line->info.way,
               line->info.tuned ? "*" : "");
    table_cell(table, "%s", line->shapes);
    table_cell(table, "%.1f", 1e-3 * line->least);
    table_cell(table, "%.1f", 1e-3 * line->median);
    table_cell(table, "%.1f", 100 * per_ns(line->median, p->all.median));
    rate_cells(table, p, line->info.flops, line_bytes(line), line->median);
    bytes_cell(table, line->info.bytes_read);
    bytes_cell(table, line->info.bytes_written);
    if (why) table_cell(table, "%s", line->refused);
}

static int slower_first(const void *a, const void *b) {
    const Line *x = *(const Line *const *)a, *y = *(const Line *const *)b;
    if (x->median != y->median) return x->median < y->median ? 1 : -1;
    return (x->info.index > y->info.index) - (x->info.index < y->info.index);
}

static void print_lines(const Profile *p, const ProfileOptions *o) {
    Table *table = table_new(o->why ? N_COLUMNS : N_COLUMNS - 1, columns);
    const Line **list = need(calloc(p->n_lines + 1, sizeof *list));
    size_t n = 0;
    for (size_t i = 0; i < p->n_lines; i++)
        if (o->all || works(&p->lines[i])) list[n++] = &p->lines[i];
    if (o->top && n > 0) qsort(list, n, sizeof *list, slower_first);
    if (o->top && n > (size_t)o->top) n = (size_t)o->top;
    for (size_t i = 0; i < n; i++) line_row(table, p, list[i], o->why);
    table_print(table, stdout);
    free(list);
}

static void print_ops(const Profile *p) {
    static const char *const op_columns[] = {"<op",      ">count",  ">least us", ">median us", ">%",
                                             ">GFLOP/s", ">% peak", ">GB/s",     ">moved"};
    Table *table = table_new(sizeof op_columns / sizeof *op_columns, op_columns);
    for (size_t i = 0; i <= p->n_ops; i++) {
        const OpSum *op = i < p->n_ops ? &p->ops[i] : &p->all;
        table_cell(table, "%s", i < p->n_ops ? op->op : "all");
        table_cell(table, "%zu", op->n);
        table_cell(table, "%.1f", 1e-3 * op->least);
        table_cell(table, "%.1f", 1e-3 * op->median);
        table_cell(table, "%.1f", 100 * per_ns(op->median, p->all.median));
        rate_cells(table, p, op->flops, op->bytes, op->median);
        bytes_cell(table, (uint64_t)op->moved);
    }
    table_print(table, stdout);
}

void print_profile_of(const Profile *p, const ProfileOptions *o) {
    const Measured *m = p->measured;
    int threads = tn_context_threads(m->context);
    double median = quantile(m->seconds, m->n_runs, 0.5);
    char *inputs = measured_inputs(m);
    printf("%s%s%s %s\n", colour(stdout, BOLD), m->path, colour(stdout, PLAIN), inputs);
    printf("%d thread%s, %s: %.0f GFLOP/s; memory read at %.1f GB/s, copied at %.1f\n", threads,
           threads == 1 ? "" : "s", p->peak.isa, 1e-9 * p->peak.flops, 1e-9 * p->peak.read, 1e-9 * p->peak.copy);
    printf("%zu runs, profiled: median %.3f ms, least %.3f ms; in instructions %.3f ms\n\n", m->n_runs, 1e3 * median,
           1e3 * quantile(m->seconds, m->n_runs, 0), 1e-6 * p->all.median);
    print_lines(p, o);
    printf("\n");
    print_ops(p);
    free(inputs);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static json_t *kernels_json(const tn_session *session, size_t i) {
    json_t *list = json_array();
    tn_kernel_choice c;
    for (size_t k = 0; tn_session_kernel(session, i, k, &c) == TN_OK; k++) {
        const char *what = c.chosen ? "chosen" : c.asked ? "does not match" : "not asked";
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:s}", "kernel", c.kernel, "target", c.target,
                                              "priority", c.priority, "answer", what));
    }
    return list;
}

static json_t *values_json(const tn_session *session, size_t i, size_t from, size_t to) {
    json_t *list = json_array();
    for (; from < to; from++) {
        tn_value_info info;
        bool there = tn_session_instruction_value(session, i, from, &info) == TN_OK && (*info.name || info.rank >= 0);
        json_array_append_new(list, there ? info_json(&info) : json_null());
    }
    return list;
}

static void add_rates(json_t *object, const Profile *p, double flops, double bytes, double ns) {
    json_object_set_new(object, "share", json_real(per_ns(ns, p->all.median)));
    json_object_set_new(object, "flops", number_json(flops));
    json_object_set_new(object, "gflops", json_real(per_ns(flops, ns)));
    json_object_set_new(object, "of_peak", json_real(per_ns(flops, ns) / (1e-9 * p->peak.flops)));
    json_object_set_new(object, "gbytes", json_real(per_ns(bytes, ns)));
}

static json_t *line_json(const Profile *p, const Line *line) {
    const tn_instruction_info *i = &line->info;
    const tn_session *session = p->measured->session;
    json_t *object = json_pack("{s:I, s:s, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:f, s:f}", "index", (json_int_t)i->index,
                               "node", i->node, "op", i->op, "kernel", i->kernel, "way", i->way, "tuned", i->tuned,
                               "kernels", kernels_json(session, i->index), "operands",
                               values_json(session, i->index, 0, i->n_operands), "results",
                               values_json(session, i->index, i->n_operands, i->n_operands + i->n_results), "least_us",
                               1e-3 * line->least, "median_us", 1e-3 * line->median);
    add_rates(object, p, i->flops, line_bytes(line), line->median);
    json_object_set_new(object, "bytes_read", json_integer((json_int_t)i->bytes_read));
    json_object_set_new(object, "bytes_written", json_integer((json_int_t)i->bytes_written));
    json_object_set_new(object, "moved_bytes", json_integer((json_int_t)i->moved_bytes));
    return object;
}

static json_t *op_json(const Profile *p, const OpSum *op) {
    json_t *object = json_pack("{s:s, s:I, s:f, s:f}", "op", op->op, "count", (json_int_t)op->n, "least_us",
                               1e-3 * op->least, "median_us", 1e-3 * op->median);
    add_rates(object, p, op->flops, op->bytes, op->median);
    json_object_set_new(object, "moved_bytes", number_json(op->moved));
    return object;
}

json_t *profile_of_json(const Profile *p) {
    const Measured *m = p->measured;
    char *inputs = measured_inputs(m);
    json_t *lines = json_array(), *ops = json_array();
    for (size_t i = 0; i < p->n_lines; i++) json_array_append_new(lines, line_json(p, &p->lines[i]));
    for (size_t i = 0; i < p->n_ops; i++) json_array_append_new(ops, op_json(p, &p->ops[i]));
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:{s:s, s:f, s:f, s:f}, s:I, s:f, s:f, s:o, s:o, s:o}", "model", m->path, "inputs", inputs,
        "threads", tn_context_threads(m->context), "peak", "isa", p->peak.isa, "gflops", 1e-9 * p->peak.flops,
        "read_gbytes", 1e-9 * p->peak.read, "copy_gbytes", 1e-9 * p->peak.copy, "runs", (json_int_t)m->n_runs,
        "median_ms", 1e3 * quantile(m->seconds, m->n_runs, 0.5), "least_ms", 1e3 * quantile(m->seconds, m->n_runs, 0),
        "instructions", lines, "ops", ops, "plan", plan_summary_json(m->session));
    free(inputs);
    return root;
}

/* ---- the trace ------------------------------------------------------------------------------------------------- */

static json_t *event_json(const Profile *p, const Line *line, uint64_t start) {
    const tn_instruction_info *i = &line->info;
    json_t *args = json_pack("{s:s, s:s, s:s, s:f, s:f}", "op", i->op, "kernel", i->kernel, "shapes", line->shapes,
                             "GFLOP/s", per_ns(i->flops, (double)i->nanoseconds), "% of peak",
                             100 * per_ns(i->flops, (double)i->nanoseconds) / (1e-9 * p->peak.flops));
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "name", *i->node ? i->node : i->op, "cat", i->op, "ph",
                     "X", "ts", 1e-3 * (double)(i->began - start), "dur", 1e-3 * (double)i->nanoseconds, "pid", 1,
                     "tid", 1, "args", args);
}

int write_trace(const Profile *p, const char *file) {
    uint64_t start = UINT64_MAX;
    json_t *events = json_array();
    for (size_t i = 0; i < p->n_lines; i++)
        if (p->lines[i].info.nanoseconds && p->lines[i].info.began < start) start = p->lines[i].info.began;
    for (size_t i = 0; i < p->n_lines; i++)
        if (p->lines[i].info.nanoseconds) json_array_append_new(events, event_json(p, &p->lines[i], start));
    json_t *root = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ns");
    int failed = json_dump_file(root, file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    return failed ? report("cannot write \"%s\"", file) : GO_ON;
}
