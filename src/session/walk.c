/* SPDX-License-Identifier: Apache-2.0 */
/* Visitors and mutators of include/tenon/graph.h over those of the IR. */
#include "session/session.h"

/* The text that is handed to a call-back: kept here, so that one buffer serves the whole walk. */
static const char *spell_type(Text *text, const Model *model, const Type *type) {
    text->n = 0;
    type_print(model, type, text);
    return text->status == TN_OK && text->s ? text->s : "";
}

static const char *spell_op(Text *text, const OpSchema *op) {
    text->n = 0;
    op_print_name(op, text);
    return text->status == TN_OK && text->s ? text->s : "";
}

/* ---- visiting ------------------------------------------------------------------------------------------------ */

typedef struct VisitBridge {
    const tn_visitor *to;
    Text text;
} VisitBridge;

/* The caller's visitor, with the count where it wants it. */
static const tn_visitor *visitor_of(const Visitor *v) {
    const tn_visitor *to = ((const VisitBridge *)v->user)->to;
    if (to->count) *to->count = v->count;
    return to;
}

static tn_status visit_by_op(Visitor *v, Node *node) {
    const tn_visitor *to = visitor_of(v);
    return to->ops[v->row].fn(to->user, (tn_node *)node);
}

static tn_status visit_other(Visitor *v, Node *node) {
    const tn_visitor *to = visitor_of(v);
    return to->node(to->user, (tn_node *)node);
}

static tn_status visit_constant(Visitor *v, Node *node) {
    const tn_visitor *to = visitor_of(v);
    return to->constant(to->user, (tn_node *)node);
}

static tn_status visit_input(Visitor *v, Value *value) {
    const tn_visitor *to = visitor_of(v);
    return to->input(to->user, (tn_value *)value);
}

static tn_status visit_a_graph(Visitor *v, Graph *graph) {
    const tn_visitor *to = visitor_of(v);
    return to->graph(to->user, (tn_graph *)graph);
}

static tn_status visit_location(Visitor *v, Str loc) {
    const tn_visitor *to = visitor_of(v);
    return to->location(to->user, loc.s, (tn_node *)v->of);
}

static tn_status visit_op(Visitor *v, const OpSchema *op) {
    VisitBridge *bridge = v->user;
    const tn_visitor *to = visitor_of(v);
    const char *name = spell_op(&bridge->text, op);
    return bridge->text.status == TN_OK ? to->op(to->user, name, (tn_node *)v->of) : bridge->text.status;
}

static tn_status visit_type(Visitor *v, const Type *type) {
    VisitBridge *bridge = v->user;
    const tn_visitor *to = visitor_of(v);
    const char *name = spell_type(&bridge->text, v->of_value->graph->model, type);
    return bridge->text.status == TN_OK ? to->type(to->user, name, (tn_value *)v->of_value) : bridge->text.status;
}

static bool visit_descend(Visitor *v, const Node *node) {
    const tn_visitor *to = ((const VisitBridge *)v->user)->to;
    return to->descend(to->user, (const tn_node *)node);
}

static Visitor internal_visitor(const tn_visitor *to, VisitBridge *bridge, const struct VisitOp *ops) {
    return (Visitor){
        .ops = ops,
        .node = to->node ? visit_other : NULL,
        .constant = to->constant ? visit_constant : NULL,
        .input = to->input ? visit_input : NULL,
        .graph = to->graph ? visit_a_graph : NULL,
        .location = to->location ? visit_location : NULL,
        .op = to->op ? visit_op : NULL,
        .type = to->type ? visit_type : NULL,
        .descend = to->descend ? visit_descend : NULL,
        .user = bridge,
    };
}

static tn_status visit_from(Context *ctx, Graph *graph, Value *value, const tn_visitor *to) {
    Arena arena;
    VisitBridge bridge = {.to = to};
    size_t n = 0;
    while (to->ops && to->ops[n].op) n++;
    arena_init(&arena, &ctx->allocator);
    text_init(&bridge.text, &ctx->allocator);
    struct VisitOp *ops = arena_array(&arena, struct VisitOp, n + 1);
    for (size_t i = 0; ops && i < n; i++) ops[i] = (struct VisitOp){to->ops[i].op, visit_by_op};
    tn_status status = TN_OUT_OF_MEMORY;
    if (ops) {
        Visitor visitor = internal_visitor(to, &bridge, ops);
        status = value ? visit_value(value, &visitor) : visit_graph(graph, &visitor);
    }
    text_free(&bridge.text);
    arena_free(&arena);
    return status;
}

static tn_status check_table(const tn_visitor *visitor) {
    for (size_t i = 0; visitor->ops && visitor->ops[i].op; i++)
        if (!visitor->ops[i].fn) return fail(TN_INVALID_ARGUMENT, "the function for %s is NULL", visitor->ops[i].op);
    return TN_OK;
}

tn_status tn_visit(tn_model *model, const tn_visitor *visitor) {
    if (!model || !visitor) return fail(TN_INVALID_ARGUMENT, "model or visitor is NULL");
    TRY(check_table(visitor));
    atomic_store(&model->exposed, true);
    return visit_from(model->ctx, model->ir->main, NULL, visitor);
}

tn_status tn_visit_graph(tn_graph *graph, const tn_visitor *visitor) {
    if (!graph || !visitor) return fail(TN_INVALID_ARGUMENT, "graph or visitor is NULL");
    TRY(check_table(visitor));
    Graph *g = (Graph *)graph;
    return visit_from(g->model->ctx, g, NULL, visitor);
}

tn_status tn_visit_value(tn_value *value, const tn_visitor *visitor) {
    if (!value || !visitor) return fail(TN_INVALID_ARGUMENT, "value or visitor is NULL");
    TRY(check_table(visitor));
    Value *v = (Value *)value;
    return visit_from(v->graph->model->ctx, NULL, v, visitor);
}

/* ---- rebuilding ---------------------------------------------------------------------------------------------- */

typedef struct MutateBridge {
    const tn_mutator *to;
    Text text;
} MutateBridge;

static const tn_mutator *mutator_of(const Mutator *m) { return ((const MutateBridge *)m->user)->to; }

static tn_status mutate_with(tn_mutate_fn fn, const Mutator *m, const Node *node, Graph *into, Value *const *operands,
                             Value **results, bool *changed) {
    return fn(mutator_of(m)->user, (const tn_node *)node, (tn_graph *)into, (tn_value *const *)operands,
              (tn_value **)results, changed);
}

static tn_status mutate_by_op(Mutator *m, const Node *node, Graph *into, Value *const *operands, Value **results,
                              bool *changed) {
    return mutate_with(mutator_of(m)->ops[m->row].fn, m, node, into, operands, results, changed);
}

static tn_status mutate_other(Mutator *m, const Node *node, Graph *into, Value *const *operands, Value **results,
                              bool *changed) {
    return mutate_with(mutator_of(m)->node, m, node, into, operands, results, changed);
}

static tn_status mutate_constant(Mutator *m, const Node *node, Graph *into, Value *const *operands, Value **results,
                                 bool *changed) {
    return mutate_with(mutator_of(m)->constant, m, node, into, operands, results, changed);
}

static tn_status mutate_input(Mutator *m, const Value *input, Value **value) {
    const tn_mutator *to = mutator_of(m);
    return to->input(to->user, (const tn_value *)input, (tn_value **)value);
}

static tn_status mutate_graph(Mutator *m, const Graph *graph, Graph *fresh, bool *changed) {
    const tn_mutator *to = mutator_of(m);
    return to->graph(to->user, (const tn_graph *)graph, (tn_graph *)fresh, changed);
}

static tn_status mutate_location(Mutator *m, Str *loc) {
    const tn_mutator *to = mutator_of(m);
    const char *other = NULL;
    TRY(to->location(to->user, loc->s, &other));
    if (other) *loc = str_of(other);
    return TN_OK;
}

static tn_status mutate_type(Mutator *m, Model *model, const Type **type) {
    const tn_mutator *to = mutator_of(m);
    MutateBridge *bridge = m->user;
    const char *other = NULL, *text = spell_type(&bridge->text, model, *type);
    TRY(bridge->text.status);
    TRY(to->type(to->user, text, &other));
    return other ? type_parse(model, str_of(other), type) : TN_OK;
}

static Mutator internal_mutator(const tn_mutator *to, MutateBridge *bridge, const struct MutateOp *ops) {
    return (Mutator){
        .ops = ops,
        .node = to->node ? mutate_other : NULL,
        .constant = to->constant ? mutate_constant : NULL,
        .input = to->input ? mutate_input : NULL,
        .graph = to->graph ? mutate_graph : NULL,
        .location = to->location ? mutate_location : NULL,
        .type = to->type ? mutate_type : NULL,
        .user = bridge,
    };
}

/* A model handle of its own for what is new, another reference where nothing is. */
static tn_status give_model(tn_model *model, Model *ir, tn_model **out) {
    if (ir == model->ir) {
        *out = tn_model_retain(model);
        return TN_OK;
    }
    TRY(model_handle(model->ctx, ir, out));
    atomic_store(&(*out)->exposed, true);
    return TN_OK;
}

tn_status tn_mutate(tn_model *model, const tn_mutator *mutator, tn_model **out) {
    if (!model || !mutator || !out) return fail(TN_INVALID_ARGUMENT, "model, mutator or out is NULL");
    Arena arena;
    MutateBridge bridge = {.to = mutator};
    Model *ir = NULL;
    size_t n = 0;
    while (mutator->ops && mutator->ops[n].op)
        if (!mutator->ops[n++].fn)
            return fail(TN_INVALID_ARGUMENT, "the function for %s is NULL", mutator->ops[n - 1].op);
    arena_init(&arena, &model->ctx->allocator);
    text_init(&bridge.text, &model->ctx->allocator);
    struct MutateOp *ops = arena_array(&arena, struct MutateOp, n + 1);
    for (size_t i = 0; ops && i < n; i++) ops[i] = (struct MutateOp){mutator->ops[i].op, mutate_by_op};
    tn_status status = TN_OUT_OF_MEMORY;
    if (ops) {
        Mutator internal = internal_mutator(mutator, &bridge, ops);
        status = mutate_model(model->ir, &internal, &ir);
    }
    text_free(&bridge.text);
    arena_free(&arena);
    return status == TN_OK ? give_model(model, ir, out) : status;
}
