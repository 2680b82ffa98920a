/* SPDX-License-Identifier: Apache-2.0 */
/* What a model is made of: ops, parameters, memory; as text and as JSON. */
#include "show.h"

#include <stdlib.h>
#include <string.h>

/* ---- counting ------------------------------------------------------------------------------------------------- */

/* A linear search: models have few kinds of ops. */
static void count_op(Summary *s, const char *domain, const char *op) {
    size_t n = strlen(domain);
    for (size_t i = 0; i < s->n_ops; i++) {
        const char *name = s->ops[i].op;
        if (n && (strncmp(name, domain, n) != 0 || name[n] != '.')) continue;
        if (strcmp(name + (n ? n + 1 : 0), op) != 0) continue;
        s->ops[i].n++;
        return;
    }
    s->ops = need(realloc(s->ops, (s->n_ops + 1) * sizeof *s->ops));
    s->ops[s->n_ops++] = (OpCount){format_text("%s%s%s", domain, n ? "." : "", op), 1};
}

/* By its type: asking for the payload could bring it in from the disk. */
static void count_constant(Summary *s, const tn_node *node) {
    tn_value_info info;
    if (tn_value_get_info(tn_node_result(node, 0), &info) != TN_OK || !sizes_known(&info)) return;
    double count = 1;
    for (int d = 0; d < info.rank; d++) count *= (double)info.dims[d];
    s->parameters += count;
    s->weight_bytes += (uint64_t)(count * tn_dtype_bits(info.dtype) + 7) / 8;
}

static tn_status count_node(void *user, tn_node *node) {
    Summary *s = user;
    if (strcmp(tn_node_op(node), "Const") == 0) {
        count_constant(s, node);
        return TN_OK;
    }
    s->n_nodes++;
    count_op(s, tn_node_domain(node), tn_node_op(node));
    return TN_OK;
}

static int frequent_first(const void *a, const void *b) {
    const OpCount *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->op, y->op);
}

int summarise(tn_model *model, Summary *summary) {
    tn_visitor visitor = {.node = count_node, .user = summary};
    *summary = (Summary){0};
    if (tn_visit(model, &visitor) != TN_OK) return report_last_error();
    if (summary->n_ops) qsort(summary->ops, summary->n_ops, sizeof *summary->ops, frequent_first);
    return GO_ON;
}

void free_summary(Summary *summary) {
    for (size_t i = 0; i < summary->n_ops; i++) free(summary->ops[i].op);
    free(summary->ops);
}

/* ---- text ----------------------------------------------------------------------------------------------------- */

static void print_metadata(const tn_model *model) {
    const char *key, *value;
    for (size_t i = 0; i < tn_model_n_metadata(model); i++) {
        if (tn_model_metadata_at(model, i, &key, &value) != TN_OK) continue;
        size_t line = strcspn(value, "\r\n"), n = line < 80 ? line : 80;
        while (n < line && n > 0 && ((unsigned char)value[n] & 0xc0) == 0x80) n--;
        printf("  %-20s %.*s%s\n", key, (int)n, value, value[n] ? "..." : "");
    }
}

static void print_heading(const char *text) { printf("\n%s%s%s\n", colour(stdout, BOLD), text, colour(stdout, PLAIN)); }

static void print_infos(const char *heading, const tn_value_info *infos, size_t n) {
    print_heading(heading);
    for (size_t i = 0; i < n; i++) {
        char *type = type_text(&infos[i]);
        printf("  %-20s %s%s\n", infos[i].name, type, infos[i].has_default ? "  (optional)" : "");
        free(type);
    }
}

/* As planned where sizes are known, else as the model says. */
static tn_value_info *output_infos(const Show *show, size_t *n) {
    *n = tn_model_n_outputs(show->model);
    tn_value_info *infos = need(calloc(*n + 1, sizeof *infos));
    for (size_t i = 0; i < *n; i++)
        if (!show->session || tn_session_output(show->session, i, &infos[i]) != TN_OK)
            tn_model_output(show->model, i, &infos[i]);
    return infos;
}

/* In columns as wide as the terminal. */
static void print_ops(const Summary *s) {
    size_t width = 0, room = (size_t)term_width(stdout);
    for (size_t i = 0; i < s->n_ops; i++)
        if (strlen(s->ops[i].op) > width) width = strlen(s->ops[i].op);
    size_t across = (room ? room : 100) / (width + 10);
    for (size_t i = 0; i < s->n_ops; i++) {
        bool last = i + 1 == s->n_ops || (across > 0 && (i + 1) % across == 0);
        printf("  %6zu %-*s%s", s->ops[i].n, last ? 0 : (int)width, s->ops[i].op, last ? "\n" : " ");
    }
}

void print_memory_of(const Show *show) {
    tn_session_info info;
    if (!show->session || tn_session_get_info(show->session, &info) != TN_OK) {
        printf("  no plan: %s\n", show->trouble ? show->trouble : "unknown");
        return;
    }
    if (info.n_planned == 0 && !info.planned) {
        printf("  no plan yet: sizes are open; see --shape\n");
        return;
    }
    if (!info.planned)
        printf("  %-20s %zu of %zu: the sizes of the others depend on contents\n", "planned", info.n_planned,
               info.n_instructions);
    char *flops = count_text(info.flops), *arena = bytes_text(info.arena_bytes), *bound = bytes_text(info.bound_bytes),
         *plain = bytes_text(info.plain_bytes), *moved = bytes_text(info.moved_bytes),
         *moves = bytes_text(info.moves_bytes);
    printf("  %-20s %s\n  %-20s %zu, in %zu %s\n", "FLOPs", flops, "instructions", info.n_instructions, info.n_segments,
           info.n_segments == 1 ? "segment" : "segments");
    printf("  %-20s %s\n", "arena", arena);
    printf("  %-20s %s (the arena is %.2f times that)\n", "lower bound", bound,
           info.bound_bytes ? (double)info.arena_bytes / (double)info.bound_bytes : 1);
    printf("  %-20s %s (%.2f times the arena)\n", "without planning", plain,
           info.arena_bytes ? (double)info.plain_bytes / (double)info.arena_bytes : 1);
    printf("  %-20s %s of the %s that its ops would move one by one\n", "moved", moved, moves);
    free(flops);
    free(arena);
    free(bound);
    free(plain);
    free(moved);
    free(moves);
}

void print_summary_of(const Show *show, const Summary *summary) {
    size_t n_outputs;
    tn_value_info *outputs = output_infos(show, &n_outputs);
    char *parameters = count_text(summary->parameters), *bytes = bytes_text(summary->weight_bytes);
    printf("%s%s%s\n", colour(stdout, BOLD), show->path, colour(stdout, PLAIN));
    print_metadata(show->model);
    print_infos("Inputs", show->inputs, tn_model_n_inputs(show->model));
    print_infos("Outputs", outputs, n_outputs);
    print_heading("Ops");
    printf("  %zu node%s of %zu kind%s\n", summary->n_nodes, summary->n_nodes == 1 ? "" : "s", summary->n_ops,
           summary->n_ops == 1 ? "" : "s");
    print_ops(summary);
    print_heading("Weights");
    printf("  %-20s %s\n  %-20s %s\n", "parameters", parameters, "bytes", bytes);
    print_heading("Work and memory");
    print_memory_of(show);
    free(parameters);
    free(bytes);
    free(outputs);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static json_t *infos_json(const tn_value_info *infos, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, info_json(&infos[i]));
    return list;
}

static json_t *metadata_json(const tn_model *model) {
    const char *key, *value;
    json_t *object = json_object();
    for (size_t i = 0; i < tn_model_n_metadata(model); i++)
        if (tn_model_metadata_at(model, i, &key, &value) == TN_OK) json_object_set_new(object, key, json_string(value));
    return object;
}

json_t *plan_summary_json(const tn_session *session) {
    tn_session_info i;
    if (!session || tn_session_get_info(session, &i) != TN_OK || i.n_planned == 0) return json_null();
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "flops", number_json(i.flops), "instructions",
                     (json_int_t)i.n_instructions, "planned", (json_int_t)i.n_planned, "segments",
                     (json_int_t)i.n_segments, "arena_bytes", (json_int_t)i.arena_bytes, "bound_bytes",
                     (json_int_t)i.bound_bytes, "plain_bytes", (json_int_t)i.plain_bytes, "moved_bytes",
                     (json_int_t)i.moved_bytes, "moves_bytes", (json_int_t)i.moves_bytes);
}

json_t *summary_json(const Show *show, const Summary *summary) {
    size_t n_outputs;
    tn_value_info *outputs = output_infos(show, &n_outputs);
    json_t *ops = json_object();
    for (size_t i = 0; i < summary->n_ops; i++)
        json_object_set_new(ops, summary->ops[i].op, json_integer((json_int_t)summary->ops[i].n));
    json_t *root = json_pack(
        "{s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:I, s:o}", "model", show->path, "metadata", metadata_json(show->model),
        "inputs", infos_json(show->inputs, tn_model_n_inputs(show->model)), "outputs", infos_json(outputs, n_outputs),
        "nodes", (json_int_t)summary->n_nodes, "ops", ops, "parameters", number_json(summary->parameters),
        "weight_bytes", (json_int_t)summary->weight_bytes, "plan", plan_summary_json(show->session));
    free(outputs);
    return root;
}
