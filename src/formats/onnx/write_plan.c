/* SPDX-License-Identifier: Apache-2.0 */
/* What is decided before a model is written: the name of every value, copies for outputs that need a name of their
   own, the opset, and what ONNX cannot say. */
#include "formats/onnx/write_int.h"

static Str pointer_key(const Graph *const *graph) { return (Str){(const char *)graph, sizeof *graph}; }

const GraphPlan *onnx_graph_plan(const OnnxWriter *w, const Graph *graph) {
    return map_get(&w->plans, pointer_key(&graph));
}

/* `want`, or with a number behind it when that is taken. */
static tn_status claim_in(OnnxWriter *w, Map *taken, Str want, Str *out) {
    Str name = want;
    Text text;
    tn_status status = TN_OK;
    text_init(&text, w->alloc);
    while (name.n == 0 || map_get(taken, name)) {
        text.n = 0;
        text_printf(&text, "%.*s_%u", (int)want.n, want.n ? want.s : "", ++w->n_unnamed);
        if ((status = text.status) != TN_OK) break;
        name = (Str){text.s, text.n};
    }
    if (status == TN_OK) {
        char *copy = arena_strndup(&w->arena, name.s, name.n);
        *out = (Str){copy, name.n};
        status = copy ? map_set(taken, *out, w) : TN_OUT_OF_MEMORY;
    }
    text_free(&text);
    return status;
}

static tn_status claim(OnnxWriter *w, Str want, Str *out) { return claim_in(w, &w->taken, want, out); }

static tn_status name_value(OnnxWriter *w, const Value *value) {
    Str *name = &w->names[value->id];
    return name->s ? TN_OK : claim(w, value->name, name);
}

/* An optional result that nobody reads is left out. */
static bool is_unwanted(const Value *value, size_t i) {
    const OperandSpec *spec = op_output_spec(value->def->op, i);
    return !value->uses && spec && (spec->flags & OPERAND_OPTIONAL) && !(spec->flags & OPERAND_VARIADIC);
}

static tn_status new_plan(OnnxWriter *w, const Graph *graph, GraphPlan **out) {
    size_t n = graph_n_outputs(graph);
    GraphPlan *plan = *out = arena_new(&w->arena, GraphPlan);
    if (!plan) return TN_OUT_OF_MEMORY;
    plan->graph = graph;
    plan->outputs = arena_array(&w->arena, Str, n);
    plan->copies = arena_array(&w->arena, OutputCopy, n);
    if (!plan->outputs || !plan->copies) return TN_OUT_OF_MEMORY;
    return map_set(&w->plans, pointer_key((const Graph *const *)&plan->graph), plan);
}

static bool returned_before(const Graph *graph, size_t i) {
    for (const Use *use = graph_output(graph, i)->uses; use; use = use->next) {
        if (use->user == graph->ret && use < &graph->ret->operands[i]) return true;
    }
    return false;
}

/* Inputs and outputs of the main graph are how callers know the model: they come first, and their values' other names
   give way. */
static tn_status plan_interface(OnnxWriter *w, const Graph *graph, GraphPlan *plan) {
    for (size_t i = 0; i < graph->inputs.len; i++) TRY(name_value(w, graph->inputs.data[i]));
    for (size_t i = 0; i < graph_n_outputs(graph); i++) {
        const Value *value = graph_output(graph, i);
        Str want = i < graph->output_names.len ? graph->output_names.data[i] : value->name;
        Str *name = &w->names[value->id];
        if (name->s && str_equal(*name, want) && !returned_before(graph, i)) {
            plan->outputs[i] = *name; /* an input handed through */
            continue;
        }
        TRY(claim(w, want, &plan->outputs[i]));
        if (!name->s) *name = plan->outputs[i];
    }
    return TN_OK;
}

/* Where the value itself cannot stand as output, a copy does. */
static tn_status plan_outputs(OnnxWriter *w, const Graph *graph, GraphPlan *plan) {
    for (size_t i = 0; i < graph_n_outputs(graph); i++) {
        const Value *value = graph_output(graph, i);
        Str name = w->names[value->id];
        bool outer = value->graph != graph;
        if (!plan->outputs[i].s) {
            if (outer || returned_before(graph, i)) TRY(claim(w, name, &plan->outputs[i]));
            else plan->outputs[i] = name;
        }
        if (!str_equal(plan->outputs[i], name)) plan->copies[plan->n_copies++] = (OutputCopy){name, plan->outputs[i]};
    }
    return TN_OK;
}

static tn_status plan_constant(OnnxWriter *w, const Node *node) {
    const Value *value = node->results[0];
    TRY(name_value(w, value));
    const Tensor *t = value_constant(value);
    if (t->dtype != TN_STRING) w->constant_bytes += onnx_payload_bytes(t);
    return TN_OK;
}

static tn_status plan_graph(OnnxWriter *w, const Graph *graph, uint32_t depth);

static tn_status plan_node(OnnxWriter *w, const Node *node, uint32_t depth) {
    if (is_const(node)) return plan_constant(w, node);
    const char *domain = node->op->domain;
    if (domain && strcmp(domain, "tn") == 0) {
        text_printf(&w->missing, "%stn.%s at \"%.*s\"", w->missing.n ? ", " : "", node->op->name, (int)node->loc.n,
                    node->loc.n ? node->loc.s : "");
        if (w->missing.n > 400) return fail(TN_UNSUPPORTED, "ONNX does not have these ops: %s ...", w->missing.s);
    }
    TRY(onnx_note_opset(w, node));
    if (node->loc.n) TRY(claim_in(w, &w->taken_locs, node->loc, &w->locs[node->id]));
    for (size_t k = 0; node_graph(node, k); k++) TRY(plan_graph(w, node_graph(node, k), depth + 1));
    for (size_t i = 0; i < node->n_results; i++) {
        if (!is_unwanted(node->results[i], i)) TRY(name_value(w, node->results[i]));
    }
    return TN_OK;
}

static tn_status plan_graph(OnnxWriter *w, const Graph *graph, uint32_t depth) {
    GraphPlan *plan;
    if (depth > w->model->ctx->limits.max_nesting)
        return fail(TN_LIMIT, "graphs are nested more than %u deep", w->model->ctx->limits.max_nesting);
    TRY(new_plan(w, graph, &plan));
    if (depth == 0) TRY(plan_interface(w, graph, plan));
    for (size_t i = 0; i < graph->inputs.len; i++) TRY(name_value(w, graph->inputs.data[i]));
    for (const Node *node = graph->first; node; node = node->next) TRY(plan_node(w, node, depth));
    return plan_outputs(w, graph, plan);
}

tn_status onnx_plan(OnnxWriter *w) {
    const Model *model = w->model;
    w->names = arena_array(&w->arena, Str, model->n_values);
    w->locs = arena_array(&w->arena, Str, model->n_nodes);
    if (!w->names || !w->locs) return TN_OUT_OF_MEMORY;
    w->opset = onnx_first_opset(model);
    TRY(plan_graph(w, model->main, 0));
    if (w->missing.status != TN_OK) return w->missing.status;
    if (w->missing.n) return fail(TN_UNSUPPORTED, "ONNX does not have these ops: %s", w->missing.s);
    return TN_OK;
}
