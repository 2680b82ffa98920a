/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon show --shapes`, `--plan` and `--memory`: a line a value, a line an instruction. */
#include "show.h"

#include <stdlib.h>
#include <string.h>

/* ---- values --------------------------------------------------------------------------------------------------- */

typedef struct ValueList {
    Table *table; /* or */
    json_t *list;
} ValueList;

static void add_value(ValueList *out, const tn_value *value, const char *op) {
    tn_value_info info;
    if (!value || tn_value_get_info(value, &info) != TN_OK) return;
    if (out->list) {
        json_t *object = info_json(&info);
        json_object_set_new(object, "op", json_string(op));
        json_array_append_new(out->list, object);
        return;
    }
    char *type = type_text(&info);
    table_cell(out->table, "%s", tn_value_name(value));
    table_cell(out->table, "%s", op);
    table_cell(out->table, "%s", type);
    free(type);
}

static tn_status add_input(void *user, tn_value *value) {
    add_value(user, value, "input");
    return TN_OK;
}

static tn_status add_results(void *user, tn_node *node) {
    for (size_t i = 0; i < tn_node_n_results(node); i++) add_value(user, tn_node_result(node, i), tn_node_op(node));
    return TN_OK;
}

int print_values(const Show *show, bool json) {
    static const char *const columns[] = {"~value", "<op", "<type"};
    ValueList out = {.table = json ? NULL : table_new(3, columns), .list = json ? json_array() : NULL};
    tn_visitor visitor = {.node = add_results, .input = add_input, .user = &out};
    tn_status status = tn_visit(show->model, &visitor);
    if (json) print_json(out.list);
    else table_print(out.table, stdout);
    return status == TN_OK ? GO_ON : report_last_error();
}

/* ---- instructions --------------------------------------------------------------------------------------------- */

typedef enum Measure { FLOPS, MOVED } Measure; /* what stands in the last column */

static void add_instruction(Table *table, json_t *list, const tn_instruction_info *i, Measure measure) {
    if (list) {
        json_t *object = json_pack("{s:I, s:s, s:s, s:s, s:s, s:b, s:s, s:o}", "index", (json_int_t)i->index, "node",
                                   i->node, "op", i->op, "kernel", i->kernel, "way", i->way, "tuned", i->tuned, "dtype",
                                   tn_dtype_name(i->dtype), "shape", dims_json(i->rank, i->dims));
        if (measure == FLOPS) json_object_set_new(object, "flops", number_json(i->flops));
        else json_object_set_new(object, "moved_bytes", json_integer((json_int_t)i->moved_bytes));
        json_array_append_new(list, object);
        return;
    }
    char *dims = dims_text(i->rank, i->dims);
    char *last = measure == FLOPS ? count_text(i->flops) : bytes_text(i->moved_bytes);
    table_cell(table, "%zu", i->index);
    table_cell(table, "%s", i->node);
    table_cell(table, "%s", i->op);
    table_cell(table, "%s%s%s%s", i->kernel, *i->way ? " " : "", i->way, i->tuned ? "*" : "");
    table_cell(table, "%s%s", tn_dtype_name(i->dtype), dims);
    table_cell(table, "%s", last);
    free(dims);
    free(last);
}

int print_plan(const Show *show, bool json) {
    static const char *const columns[] = {">#", "~node", "<op", "<kernel", "~result", ">FLOPs"};
    tn_session_info info;
    if (!show->session) return report("no plan: %s", show->trouble);
    if (tn_session_get_info(show->session, &info) != TN_OK) return report_last_error();
    Table *table = json ? NULL : table_new(6, columns);
    json_t *list = json ? json_array() : NULL;
    for (size_t i = 0; i < info.n_instructions; i++) {
        tn_instruction_info instruction;
        if (tn_session_instruction(show->session, i, &instruction) == TN_OK)
            add_instruction(table, list, &instruction, FLOPS);
    }
    if (json) print_json(list);
    else table_print(table, stdout);
    return GO_ON;
}

/* ---- what moves ----------------------------------------------------------------------------------------------- */

static int more_first(const void *a, const void *b) {
    const tn_instruction_info *x = a, *y = b;
    if (x->moved_bytes != y->moved_bytes) return x->moved_bytes < y->moved_bytes ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Instructions that write bytes without arithmetic, those with the most first; to be freed. */
static tn_instruction_info *movers(const Show *show, size_t n_instructions, size_t *n) {
    tn_instruction_info *list = need(calloc(n_instructions + 1, sizeof *list));
    *n = 0;
    for (size_t i = 0; i < n_instructions; i++)
        if (tn_session_instruction(show->session, i, &list[*n]) == TN_OK && list[*n].moved_bytes > 0) ++*n;
    qsort(list, *n, sizeof *list, more_first);
    return list;
}

int print_moves(const Show *show, bool json) {
    static const char *const columns[] = {">#", "~node", "<op", "<kernel", "~result", ">moved"};
    tn_session_info info;
    if (!show->session) return report("no plan: %s", show->trouble);
    if (tn_session_get_info(show->session, &info) != TN_OK) return report_last_error();
    size_t n;
    tn_instruction_info *moving = movers(show, info.n_instructions, &n);
    Table *table = json || n == 0 ? NULL : table_new(6, columns);
    json_t *list = json ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) add_instruction(table, list, &moving[i], MOVED);
    free(moving);
    if (json) {
        print_json(json_pack("{s:o, s:o}", "plan", plan_summary_json(show->session), "moves", list));
        return GO_ON;
    }
    print_memory_of(show);
    if (!table) return GO_ON;
    putchar('\n');
    table_print(table, stdout);
    return GO_ON;
}
