/* SPDX-License-Identifier: Apache-2.0 */
/* widen-halves: a node of 16-bit floats whose op has a kernel for float32 becomes that node between casts. The reference kernels
   compute such numbers in float32, too, and round each result once, so answers stay as they are. Constants are converted
   here. A value is widened once, where it is made, for all who read it; casts are element-wise and join groups of those. */
#include "kernel/kernel.h"
#include "ops/op.h"
#include "pass/pass.h"

#include <stdio.h>

typedef struct Widening {
    PassRun *run;
    Value **wide; /* by value id; of values that came later there is none */
    size_t n_wide;
    int64_t n_nodes, n_constants;
} Widening;

static bool is_half(const Value *v) { return v && v->type->kind == TYPE_TENSOR && dtype_is_half(v->type->dtype); }

/* ---- which nodes --------------------------------------------------------------------------------------------- */

static bool has_kernel(const OpSchema *op) {
    char name[128];
    snprintf(name, sizeof name, "%s%s%s", op->domain ? op->domain : "", op->domain ? "." : "", op->name);
    return kernel_exists(name, "cpu", TN_F32);
}

/* A scale of 16 bits says that QuantizeLinear is to divide as such numbers do. */
static bool stays(const Node *node) { return OP_IS_ONE_OF(node->op, "Cast", "CastLike", "Identity", "QuantizeLinear"); }

static bool is_for_f32(const Node *node) {
    return !node->op->regions && !(node->op->flags & OP_RANDOM) && !node_graph(node, 0) && !stays(node) &&
           lower_may_widen(node) && has_kernel(node->op);
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

static void insert_after(Node *node, Node *place, Graph *graph) {
    Node *next = place ? place->next : graph->first;
    if (next) node_insert_before(node, next);
    else node_append(node);
}

static tn_status new_cast(Value *from, Node **out) {
    TRY(node_new(from->graph, op_find(STR(""), STR("Cast")), &from, 1, 1, out));
    return node_set_int(*out, "to", TN_F32);
}

/* The same numbers as float32. */
static tn_status widen_constant(Widening *w, const Value *v, Node **out) {
    Tensor *to;
    TRY(model_tensor(w->run->model, &to));
    TRY(widened_constant(w->run->ctx, v, 0, to));
    w->n_constants++;
    return const_new(v->graph, to, (Str){0}, out);
}

static tn_status widened(Widening *w, Value *v, Value **out) {
    Value **known = v->id < w->n_wide ? &w->wide[v->id] : NULL;
    if (known && *known) {
        *out = *known;
        return TN_OK;
    }
    Node *node;
    if (value_payload(v)) TRY(widen_constant(w, v, &node));
    else TRY(new_cast(v, &node));
    insert_after(node, v->def, v->graph);
    if (!value_payload(node->results[0])) TRY(infer_node(node));
    *out = node->results[0];
    if (known) *known = *out;
    return TN_OK;
}

static tn_status widen(Widening *w, Node *node) {
    Value *operands[OP_MAX_INPUTS];
    bool done;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        operands[i] = node->operands[i].value;
        if (is_half(operands[i])) TRY(widened(w, operands[i], &operands[i]));
    }
    TRY(lower_widened(node, operands, &done));
    w->n_nodes += done;
    return TN_OK;
}

/* ---- the pass ------------------------------------------------------------------------------------------------ */

static tn_status widen_graph(Widening *w, Graph *graph) {
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (is_for_f32(node) && pass_may_change(w->run)) TRY(widen(w, node));
    }
    return TN_OK;
}

/* Constants of 16 bits that nobody reads any more. */
static void drop_unread(Graph *graph) {
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        const Value *v = node_result(node, 0);
        if (v && !v->uses && value_payload(v) && is_half(v)) node_erase(node);
    }
}

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    Widening w = {.run = run, .n_wide = (size_t)run->model->n_values};
    Graph **graphs;
    size_t n;
    w.wide = arena_array(run->scratch, Value *, w.n_wide + 1);
    if (!w.wide) return TN_OUT_OF_MEMORY;
    TRY(model_graphs(run->model, run->scratch, &graphs, &n));
    for (size_t i = 0; i < n; i++) TRY(widen_graph(&w, graphs[i]));
    for (size_t i = 0; i < n && w.n_constants; i++) drop_unread(graphs[i]);
    TRY(pass_count(run, "nodes", w.n_nodes));
    return pass_count(run, "constants", w.n_constants);
}

const Pass pass_widen_halves = {.name = "widen-halves",
                                .summary = "compute 16-bit floats as float32 where that has kernels",
                                .phase = PHASE_POST_REWRITE,
                                .order = 850,
                                .opt_level = 1,
                                .targets = {"cpu"},
                                .requires = {"infer-shapes"},
                                .keeps = {"infer-shapes"},
                                .run = run};
