/* SPDX-License-Identifier: Apache-2.0 */
/* What `tenon run` shows: inputs, outputs, times, a profile. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

const char *output_name(const Run *run, size_t i) {
    tn_value_info info;
    return tn_session_output(run->session, i, &info) == TN_OK ? info.name : "";
}

static const char *input_name(const Run *run, size_t i) {
    tn_value_info info;
    return tn_model_input(run->model, i, &info) == TN_OK ? info.name : "";
}

/* ---- times ---------------------------------------------------------------------------------------------------- */

typedef struct Times {
    double least, median, mean;
} Times;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static Times times_of(const Run *run) {
    Times t = {0};
    qsort(run->seconds, run->n_runs, sizeof *run->seconds, by_value);
    for (size_t i = 0; i < run->n_runs; i++) t.mean += run->seconds[i] / (double)run->n_runs;
    t.least = run->seconds[0];
    t.median = run->seconds[run->n_runs / 2];
    return t;
}

static void print_times(const Run *run) {
    Times t = times_of(run);
    if (run->n_runs == 1) printf("\n%.3f ms\n", 1e3 * t.least);
    else
        printf("\n%zu runs: least %.3f ms, median %.3f ms, mean %.3f ms\n", run->n_runs, 1e3 * t.least, 1e3 * t.median,
               1e3 * t.mean);
}

/* ---- tensors -------------------------------------------------------------------------------------------------- */

static void number_cell(Table *table, const Stats *s, double value) {
    if (s->finite > 0) table_cell(table, "%.5g", value);
    else table_cell(table, "-");
}

static void tensor_row(Table *table, const char *name, const tn_tensor *t) {
    Stats s = tensor_stats(t);
    char *type = tensor_type_text(t), *first = first_elements(t, 8), odd[64] = "";
    if (s.nan) snprintf(odd, sizeof odd, "(%lld NaN) ", (long long)s.nan);
    if (s.infinite) snprintf(odd + strlen(odd), sizeof odd - strlen(odd), "(%lld inf) ", (long long)s.infinite);
    table_cell(table, "%s", name);
    table_cell(table, "%s", type);
    number_cell(table, &s, s.min);
    number_cell(table, &s, s.max);
    number_cell(table, &s, s.mean);
    table_cell(table, "%s%s", odd, first);
    free(type);
    free(first);
}

static Table *tensors_table(const char *heading, const char *columns[6]) {
    const char *rest[] = {"<type", ">min", ">max", ">mean", "~first elements"};
    columns[0] = heading;
    memcpy(columns + 1, rest, sizeof rest);
    return table_new(6, columns);
}

/* ---- profile -------------------------------------------------------------------------------------------------- */

static int slower_first(const void *a, const void *b) {
    uint64_t x = ((const tn_instruction_info *)a)->nanoseconds, y = ((const tn_instruction_info *)b)->nanoseconds;
    return (x < y) - (x > y);
}

static tn_instruction_info *instructions_by_time(const Run *run, size_t *n, uint64_t *total) {
    tn_session_info info;
    *n = *total = 0;
    if (tn_session_get_info(run->session, &info) != TN_OK) return NULL;
    tn_instruction_info *list = need(calloc(info.n_instructions + 1, sizeof *list));
    for (size_t i = 0; i < info.n_instructions; i++) {
        if (tn_session_instruction(run->session, i, &list[*n]) != TN_OK) continue;
        *total += list[(*n)++].nanoseconds;
    }
    qsort(list, *n, sizeof *list, slower_first);
    return list;
}

/* Sums by op, slowest first, into a list of the same kind of which only op, flops and nanoseconds count. */
static tn_instruction_info *sums_by_op(const tn_instruction_info *list, size_t n, size_t *n_ops) {
    tn_instruction_info *sums = need(calloc(n + 1, sizeof *sums));
    *n_ops = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < *n_ops && strcmp(sums[k].op, list[i].op) != 0) k++;
        if (k == *n_ops) sums[(*n_ops)++] = (tn_instruction_info){.op = list[i].op};
        sums[k].index++; /* how many */
        sums[k].flops += list[i].flops;
        sums[k].nanoseconds += list[i].nanoseconds;
    }
    qsort(sums, *n_ops, sizeof *sums, slower_first);
    return sums;
}

static void time_cells(Table *table, const tn_instruction_info *i, uint64_t total) {
    table_cell(table, "%.3f", 1e-6 * (double)i->nanoseconds);
    table_cell(table, "%.1f", total ? 100.0 * (double)i->nanoseconds / (double)total : 0);
    if (i->flops > 0 && i->nanoseconds > 0) table_cell(table, "%.2f", i->flops / (double)i->nanoseconds);
    else table_cell(table, "-");
}

static void print_profile(const Run *run) {
    static const char *const op_columns[] = {"<op", ">count", ">ms", ">%", ">GFLOP/s"};
    static const char *const columns[] = {"~node", "<op", "<kernel", "~result", ">ms", ">%", ">GFLOP/s"};
    size_t n, n_ops;
    uint64_t total;
    tn_instruction_info *list = instructions_by_time(run, &n, &total), *sums = sums_by_op(list, n, &n_ops);
    Table *ops = table_new(5, op_columns), *nodes = table_new(7, columns);
    for (size_t i = 0; i < n_ops; i++) {
        table_cell(ops, "%s", sums[i].op);
        table_cell(ops, "%zu", sums[i].index);
        time_cells(ops, &sums[i], total);
    }
    for (size_t i = 0; i < n && i < 20; i++) {
        char *dims = dims_text(list[i].rank, list[i].dims);
        table_cell(nodes, "%s", list[i].node);
        table_cell(nodes, "%s", list[i].op);
        table_cell(nodes, "%s%s%s%s", list[i].kernel, *list[i].way ? " " : "", list[i].way, list[i].tuned ? "*" : "");
        table_cell(nodes, "%s%s", tn_dtype_name(list[i].dtype), dims);
        time_cells(nodes, &list[i], total);
        free(dims);
    }
    printf("\nBy op, the last run (%.3f ms in ops):\n", 1e-6 * (double)total);
    table_print(ops, stdout);
    printf("\nSlowest nodes:\n");
    table_print(nodes, stdout);
    free(list);
    free(sums);
}

void print_run(const Run *run, bool profile) {
    const char *in_columns[6], *out_columns[6];
    Table *inputs = tensors_table("~input", in_columns), *outputs = tensors_table("~output", out_columns);
    size_t given = 0;
    for (size_t i = 0; i < run->n_inputs; i++) {
        if (!run->inputs[i]) continue;
        tensor_row(inputs, input_name(run, i), run->inputs[i]);
        given++;
    }
    for (size_t i = 0; i < run->n_outputs; i++) tensor_row(outputs, output_name(run, i), run->outputs[i]);
    table_print(inputs, stdout);
    if (given) printf("\n");
    table_print(outputs, stdout);
    print_times(run);
    if (profile) print_profile(run);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static json_t *tensor_json(const char *name, const tn_tensor *t);

/* Items have no names. */
static json_t *object_json(const char *name, const tn_tensor *t) {
    json_t *items = json_array();
    for (size_t i = 0; i < tn_tensor_n_items(t); i++) {
        tn_tensor *item = NULL;
        if (tn_tensor_item(t, i, &item) != TN_OK) break;
        json_array_append_new(items, tensor_json("", item));
        tn_tensor_release(item);
    }
    return json_pack("{s:s, s:s, s:o}", "name", name, "kind", kind_name(t), "items", items);
}

static json_t *tensor_json(const char *name, const tn_tensor *t) {
    if (tn_tensor_kind(t) != TN_TENSOR) return object_json(name, t);
    Stats s = tensor_stats(t);
    json_t *first = json_array();
    for (int64_t i = 0; i < 16 && i < tn_tensor_count(t); i++) json_array_append_new(first, element_json(t, i));
    json_t *object = json_pack("{s:s, s:s, s:o}", "name", name, "dtype", tn_dtype_name(tn_tensor_dtype(t)), "shape",
                               dims_json(tn_tensor_rank(t), tn_tensor_dims(t)));
    if (s.finite > 0) {
        json_object_set_new(object, "min", number_json(s.min));
        json_object_set_new(object, "max", number_json(s.max));
        json_object_set_new(object, "mean", number_json(s.mean));
    }
    json_object_set_new(object, "nan", json_integer(s.nan));
    json_object_set_new(object, "infinite", json_integer(s.infinite));
    json_object_set_new(object, "first", first);
    return object;
}

static json_t *profile_json(const Run *run) {
    size_t n;
    uint64_t total;
    tn_instruction_info *list = instructions_by_time(run, &n, &total);
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            array, json_pack("{s:I, s:s, s:s, s:s, s:s, s:b, s:s, s:o, s:o, s:I}", "index", (json_int_t)list[i].index,
                             "node", list[i].node, "op", list[i].op, "kernel", list[i].kernel, "way", list[i].way,
                             "tuned", list[i].tuned, "dtype", tn_dtype_name(list[i].dtype), "shape",
                             dims_json(list[i].rank, list[i].dims), "flops", number_json(list[i].flops), "nanoseconds",
                             (json_int_t)list[i].nanoseconds));
    free(list);
    return array;
}

void print_run_json(const Run *run, bool profile) {
    json_t *inputs = json_array(), *outputs = json_array();
    Times t = times_of(run);
    for (size_t i = 0; i < run->n_inputs; i++)
        if (run->inputs[i]) json_array_append_new(inputs, tensor_json(input_name(run, i), run->inputs[i]));
    for (size_t i = 0; i < run->n_outputs; i++)
        json_array_append_new(outputs, tensor_json(output_name(run, i), run->outputs[i]));
    json_t *root = json_pack("{s:s, s:o, s:o, s:{s:I, s:f, s:f, s:f}}", "model", run->path, "inputs", inputs, "outputs",
                             outputs, "times", "runs", (json_int_t)run->n_runs, "least_ms", 1e3 * t.least, "median_ms",
                             1e3 * t.median, "mean_ms", 1e3 * t.mean);
    json_object_set_new(root, "plan", plan_summary_json(run->session));
    if (profile) json_object_set_new(root, "profile", profile_json(run));
    print_json(root);
}
