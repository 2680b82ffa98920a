/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of passes as tables and JSON. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static tn_pass_record record_at(const tn_pass_report *report, size_t i) {
    tn_pass_record r = {.pass = "", .text = "", .why = ""};
    tn_pass_report_at(report, i, &r);
    return r;
}

/* A group, or a pass that stands for others, which have lines of their own. */
static bool is_group(const tn_pass_record *r) { return r->number == 0 && r->outcome == TN_PASS_RAN; }

/* ---- the tree ------------------------------------------------------------------------------------------------- */

static void tree_row(Table *table, const tn_pass_record *r, uint64_t total) {
    char *bytes = bytes_text(r->bytes);
    table_cell(table, "%*s%s", 2 * (r->depth > 0 ? r->depth : 0), "", r->text);
    table_cell(table, "%.3f", 1e-6 * (double)r->nanoseconds);
    table_cell(table, "%.1f", total ? 100.0 * (double)r->nanoseconds / (double)total : 0.0);
    table_cell(table, "%zu", r->nodes_before);
    table_cell(table, "%zu", r->nodes_after);
    table_cell(table, "%s", is_group(r) ? "" : bytes);
    table_cell(table, "%s", r->outcome == TN_PASS_FAILED ? "failed" : r->changed ? "changed" : "");
    free(bytes);
}

void print_pass_tree(const tn_pass_report *report, FILE *stream) {
    static const char *const columns[] = {"~pass", ">ms", ">%", ">nodes", ">after", ">memory", "<"};
    Table *table = table_new(7, columns);
    uint64_t total = 0;
    for (size_t i = 0; i < tn_pass_report_size(report); i++) {
        tn_pass_record r = record_at(report, i);
        if (r.depth == 0) total += r.nanoseconds;
    }
    for (size_t i = 0; i < tn_pass_report_size(report); i++) {
        tn_pass_record r = record_at(report, i);
        if (r.number || is_group(&r) || r.outcome == TN_PASS_FAILED) tree_row(table, &r, total);
    }
    table_print(table, stream);
    fprintf(stream, "%.3f ms\n", 1e-6 * (double)total);
}

/* ---- sums ----------------------------------------------------------------------------------------------------- */

static void add_count(PassSum *sum, const tn_pass_count *count) {
    size_t k = 0;
    while (k < sum->n_counts && strcmp(sum->counts[k].what, count->what) != 0) k++;
    if (k == sum->n_counts) {
        sum->counts = need(realloc(sum->counts, (k + 1) * sizeof *sum->counts));
        sum->counts[sum->n_counts++] = (tn_pass_count){.what = count->what};
    }
    sum->counts[k].n += count->n;
}

static void add_record(PassSum *sum, const tn_pass_record *r) {
    bool ran = r->number || is_group(r);
    if (!ran && !sum->why) sum->why = r->why;
    if (!ran) return;
    sum->ran++;
    sum->changed += r->changed;
    for (size_t k = 0; k < r->n_counts; k++) add_count(sum, &r->counts[k]);
}

PassSum *pass_sums(const tn_pass_report *report, size_t *n) {
    size_t n_records = tn_pass_report_size(report);
    PassSum *sums = need(calloc(n_records + 1, sizeof *sums));
    *n = 0;
    for (size_t i = 0; i < n_records; i++) {
        tn_pass_record r = record_at(report, i);
        if (!r.pass[0]) continue;
        size_t k = 0;
        while (k < *n && strcmp(sums[k].text, r.text) != 0) k++;
        if (k == *n) sums[(*n)++] = (PassSum){.text = r.text, .pass = r.pass};
        add_record(&sums[k], &r);
    }
    return sums;
}

void pass_sums_free(PassSum *sums, size_t n) {
    for (size_t i = 0; i < n; i++) free(sums[i].counts);
    free(sums);
}

/* "removed 3, folded 2", or why it did not run; to be freed. */
static char *did_text(const PassSum *sum) {
    if (!sum->ran) return format_text("not run: %s", sum->why ? sum->why : "");
    char *text = format_text("%s", "");
    for (size_t k = 0; k < sum->n_counts; k++) {
        if (!sum->counts[k].n) continue;
        char *longer = format_text("%s%s%s %lld", text, *text ? ", " : "", sum->counts[k].what,
                                   (long long)sum->counts[k].n);
        free(text);
        text = longer;
    }
    return text;
}

void print_pass_sums(const tn_pass_report *report, bool all, bool changed, FILE *stream) {
    static const char *const columns[] = {"~pass", ">ran", ">changed", "~did"};
    Table *table = table_new(4, columns);
    size_t n;
    PassSum *sums = pass_sums(report, &n);
    for (size_t i = 0; i < n; i++) {
        if ((!all && !sums[i].ran) || (changed && !sums[i].changed)) continue;
        table_cell(table, "%s", sums[i].text);
        table_cell(table, "%zu", sums[i].ran);
        table_cell(table, "%zu", sums[i].changed);
        char *did = did_text(&sums[i]);
        table_cell(table, "%s", did);
        free(did);
    }
    table_print(table, stream);
    pass_sums_free(sums, n);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static const char *outcome_name(tn_pass_outcome outcome) {
    static const char *const names[] = {"ran", "not applicable", "disabled", "up to date", "beyond limit", "failed"};
    return outcome <= TN_PASS_FAILED ? names[outcome] : "";
}

static json_t *record_json(const tn_pass_record *r) {
    json_t *counts = json_object();
    for (size_t k = 0; k < r->n_counts; k++)
        json_object_set_new(counts, r->counts[k].what, json_integer((json_int_t)r->counts[k].n));
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "pass", r->pass,
                     "text", r->text, "phase", tn_phase_name(r->phase), "depth", r->depth, "number",
                     (json_int_t)r->number, "outcome", outcome_name(r->outcome), "why", r->why, "changed", r->changed,
                     "nanoseconds", (json_int_t)r->nanoseconds, "nodes_before", (json_int_t)r->nodes_before,
                     "nodes_after", (json_int_t)r->nodes_after, "bytes", (json_int_t)r->bytes, "first_change",
                     (json_int_t)r->first_change, "changes", (json_int_t)r->n_changes, "counts", counts);
}

json_t *pass_report_json(const tn_pass_report *report) {
    json_t *list = json_array();
    for (size_t i = 0; i < tn_pass_report_size(report); i++) {
        tn_pass_record r = record_at(report, i);
        json_array_append_new(list, record_json(&r));
    }
    return list;
}
