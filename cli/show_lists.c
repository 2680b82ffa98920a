/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon show --shapes` and `--plan`: a line a value, a line an instruction. */
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

static void add_instruction(Table *table, json_t *list, const tn_instruction_info *i) {
    if (list) {
        json_array_append_new(list, json_pack("{s:I, s:s, s:s, s:s, s:s, s:b, s:s, s:o, s:o}", "index",
                                              (json_int_t)i->index, "node", i->node, "op", i->op, "kernel", i->kernel,
                                              "way", i->way, "tuned", i->tuned, "dtype", tn_dtype_name(i->dtype),
                                              "shape", dims_json(i->rank, i->dims), "flops", number_json(i->flops)));
        return;
    }
    char *dims = dims_text(i->rank, i->dims), *flops = count_text(i->flops);
    table_cell(table, "%zu", i->index);
    table_cell(table, "%s", i->node);
    table_cell(table, "%s", i->op);
    table_cell(table, "%s%s%s%s", i->kernel, *i->way ? " " : "", i->way, i->tuned ? "*" : "");
    table_cell(table, "%s%s", tn_dtype_name(i->dtype), dims);
    table_cell(table, "%s", flops);
    free(dims);
    free(flops);
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
        if (tn_session_instruction(show->session, i, &instruction) == TN_OK) add_instruction(table, list, &instruction);
    }
    if (json) print_json(list);
    else table_print(table, stdout);
    return GO_ON;
}
