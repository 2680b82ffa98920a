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
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "domain", op->domain, "name", op->name, "kind",
                     op->kind, "summary", op->summary, "types", op->types, "kernels", op->kernels, "lowering",
                     op->lowering, "ways", op->ways);
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
    if (op->lowering[0]) printf("  %-8s %s\n", "made of", op->lowering);
    if (op->ways[0]) printf("  %-8s %s\n", "ways", op->ways);
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

/* ---- on a backend --------------------------------------------------------------------------------------------- */

static const char *const ways[] = {"kernels of its own",       "regions", "lowered to others", "known while planning",
                                   "on the reference kernels", "left out"};
enum { N_WAYS = 6 };

static int way_of(const char *how) {
    static const char *const words[] = {"regions", "lowered", "host", "reference", ""};
    for (int i = 0; i < N_WAYS - 1; i++)
        if (strcmp(how, words[i]) == 0) return i + 1;
    return 0;
}

static json_t *counts_json(const char *backend, json_t *list, const size_t *counts) {
    json_t *sums = json_object();
    for (int i = 0; i < N_WAYS; i++) json_object_set_new(sums, ways[i], json_integer((json_int_t)counts[i]));
    return json_pack("{s:s, s:o, s:o}", "backend", backend, "counts", sums, "ops", list);
}

static void print_counts(const char *backend, Table *table, const size_t *counts) {
    table_print(table, stdout);
    printf("%s:", backend);
    for (int i = 0, n = 0; i < N_WAYS; i++)
        if (counts[i]) printf("%s %zu %s", n++ ? "," : "", counts[i], ways[i]);
    printf("\n");
}

static int list_backend(const char *backend, bool json) {
    static const char *const columns[] = {"<op", "<kind", "<runs by", "~made of"};
    json_t *list = json ? json_array() : NULL;
    Table *table = json ? NULL : table_new(4, columns);
    size_t counts[N_WAYS] = {0};
    for (size_t i = 0; i < tn_n_ops(); i++) {
        tn_op_info op;
        const char *how;
        if (tn_op_on(i, backend, &how) != TN_OK) return report_last_error();
        if (tn_op(i, &op) != TN_OK) continue;
        counts[way_of(how)]++;
        char *name = full_name(&op);
        if (json) {
            json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "op", name, "kind", op.kind, "by", how));
        } else {
            table_cell(table, "%s", name);
            table_cell(table, "%s", op.kind);
            table_cell(table, "%s", how);
            table_cell(table, "%s", strcmp(how, "lowered") == 0 ? op.lowering : "");
        }
        free(name);
    }
    if (json) print_json(counts_json(backend, list, counts));
    else print_counts(backend, table, counts);
    return DONE;
}

static int run_ops(int argc, const char **argv) {
    int json = 0;
    char *backend = NULL;
    struct poptOption table[] = {
        {"backend", '\0', POPT_ARG_STRING, &backend, 0, "how this one runs them, and how many", "NAME"},
        {"json", '\0', POPT_ARG_NONE, &json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_ops, table, argc, argv, 0, 1);
    if (code == GO_ON && backend && args.n_rest) code = usage_error(&command_ops, "--backend lists all ops");
    if (code == GO_ON && backend) code = list_backend(backend, json);
    else if (code == GO_ON) code = args.n_rest ? show_op(args.rest[0], json) : list_ops(json);
    args_free(&args);
    return code;
}

const Command command_ops = {
    "ops", "[NAME] [OPTION...]", "list the ops that can run, or tell about one",
    "Kinds: an atomic op has kernels of its own, a deformable one only moves elements, a composite one can\n"
    "be made of others, a host one is computed while planning. A backend needs kernels for atomic ops only.\n"
    "\n"
    "Examples:\n"
    "  tenon ops\n"
    "  tenon ops Conv\n"
    "  tenon ops com.microsoft.QGemm --json\n"
    "  tenon ops --backend cpu\n",
    run_ops};
