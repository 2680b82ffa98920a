/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon ops`: the ops that the library knows. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The name in text: the domain in front unless it is ONNX's own. */
static char *full_name(const tn_op_info *op) {
    return format_text("%s%s%s", op->domain, op->domain[0] ? "." : "", op->name);
}

static json_t *op_json(const tn_op_info *op) {
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "domain", op->domain, "name", op->name, "kind", op->kind,
                     "summary", op->summary, "types", op->types, "kernels", op->kernels);
}

static int list_ops(bool json) {
    static const char *const columns[] = {"<op", "<kind", "~runs by", "~summary", "~types"};
    json_t *list = json ? json_array() : NULL;
    Table *table = json ? NULL : table_new(5, columns);
    size_t n = tn_n_ops();
    tn_op_info op;
    for (size_t i = 0; i < n; i++) {
        if (tn_op(i, &op) != TN_OK) continue;
        if (json) {
            json_array_append_new(list, op_json(&op));
            continue;
        }
        char *name = full_name(&op);
        table_cell(table, "%s", name);
        table_cell(table, "%s", op.kind);
        table_cell(table, "%s", op.kernels);
        table_cell(table, "%s", op.summary);
        table_cell(table, "%s", op.types);
        free(name);
    }
    if (json) {
        print_json(list);
    } else {
        table_print(table, stdout);
        printf("%zu ops\n", n);
    }
    return DONE;
}

static void print_op(const tn_op_info *op) {
    char *name = full_name(op);
    printf("%s%s%s: %s\n", colour(stdout, BOLD), name, colour(stdout, PLAIN), op->summary);
    printf("  %-8s %s\n  %-8s %s\n  %-8s %s\n", "kind", op->kind, "types", op->types, "runs by", op->kernels);
    free(name);
}

static int unknown_op(const char *wrong) {
    size_t n = tn_n_ops();
    char **names = need(calloc(n + 1, sizeof *names));
    tn_op_info op;
    for (size_t i = 0; i < n; i++) names[i] = tn_op(i, &op) == TN_OK ? full_name(&op) : format_text("%s", "");
    report("no op \"%s\"%s", wrong, suggestion(wrong, (const char *const *)names, n));
    free_list(names, n);
    return FAILED;
}

static int show_op(const char *wanted, bool json) {
    tn_op_info op;
    for (size_t i = 0; i < tn_n_ops(); i++) {
        if (tn_op(i, &op) != TN_OK) continue;
        char *name = full_name(&op);
        bool found = strcmp(name, wanted) == 0;
        free(name);
        if (!found) continue;
        if (json) print_json(op_json(&op));
        else print_op(&op);
        return DONE;
    }
    return unknown_op(wanted);
}

static int run_ops(int argc, const char **argv) {
    int json = 0;
    struct poptOption table[] = {{"json", '\0', POPT_ARG_NONE, &json, 0, "answer in JSON", NULL}, END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_ops, table, argc, argv, 0, 1);
    if (code == GO_ON) code = args.n_rest ? show_op(args.rest[0], json) : list_ops(json);
    args_free(&args);
    return code;
}

const Command command_ops = {
    "ops", "[NAME] [OPTION...]", "list the ops that can run, or tell about one",
    "Kinds: an atomic op has kernels of its own, a deformable one only moves elements, a composite one is\n"
    "made of others, a host one is computed while planning.\n"
    "\n"
    "Examples:\n"
    "  tenon ops\n"
    "  tenon ops Conv\n"
    "  tenon ops com.microsoft.QGemm --json\n",
    run_ops};
