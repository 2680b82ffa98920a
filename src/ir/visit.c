/* SPDX-License-Identifier: Apache-2.0 */
/* Visitors: call-backs by op, for all of a graph or for what one value depends on. */
#include "ir/ir_int.h"

/* First the order is found and counted, then the call-backs run: so they may change the graph, and know how often what
   they are given is read. What was erased keeps its memory and can be told. */
typedef struct VisitItem {
    enum { ITEM_GRAPH, ITEM_INPUT, ITEM_HEAD, ITEM_NODE } kind;
    void *object;
} VisitItem;

typedef struct Visit {
    Visitor *visitor;
    const Allocator *allocator;
    PtrMap by_op;   /* schema -> index in the table + 1 */
    PtrMap reached; /* types, ops, locations, nodes, inputs -> how often */
    VEC(VisitItem) order;
} Visit;

tn_status add_op_row(PtrMap *rows, const char *whose, const char *name, size_t row) {
    const OpSchema *op = op_named(str_of(name));
    if (!op) return fail(TN_NOT_FOUND, "a %s is for the op \"%s\", which does not exist", whose, name);
    return ptrmap_set(rows, op, (void *)(uintptr_t)(row + 1));
}

bool find_op_row(const PtrMap *rows, const OpSchema *op, uint32_t *row) {
    const PtrMapSlot *slot = ptrmap_find(rows, op);
    if (slot) *row = (uint32_t)(uintptr_t)slot->value - 1;
    return slot != NULL;
}

static tn_status visit_begin(Visit *visit, Visitor *visitor, const Model *model) {
    const Allocator *a = model_allocator(model);
    *visit = (Visit){.visitor = visitor, .allocator = a, .by_op = {.allocator = a}, .reached = {.allocator = a}};
    for (size_t i = 0; visitor->ops && visitor->ops[i].op; i++)
        TRY(add_op_row(&visit->by_op, "visitor", visitor->ops[i].op, i));
    return TN_OK;
}

static void visit_end(Visit *visit) {
    ptrmap_free(&visit->by_op);
    ptrmap_free(&visit->reached);
    vec_free(visit->allocator, &visit->order);
}

static tn_status reach(Visit *visit, const void *object, uint32_t *count) {
    PtrMapSlot *slot = ptrmap_find(&visit->reached, object);
    *count = slot ? (uint32_t)(uintptr_t)slot->value + 1 : 1;
    if (!slot) return ptrmap_set(&visit->reached, object, (void *)(uintptr_t)1);
    slot->value = (void *)(uintptr_t)*count;
    return TN_OK;
}

/* ---- call-backs ---------------------------------------------------------------------------------------------- */

static tn_status call_type(Visit *visit, Node *node, Value *value) {
    Visitor *v = visit->visitor;
    if (!v->type) return TN_OK;
    TRY(reach(visit, value->type, &v->count));
    v->of = node;
    v->of_value = value;
    return v->type(v, value->type);
}

static tn_status call_location(Visit *visit, Node *node) {
    Visitor *v = visit->visitor;
    if (!v->location || node->loc.n == 0) return TN_OK;
    TRY(reach(visit, node->loc.s, &v->count)); /* interned */
    v->of = node;
    return v->location(v, node->loc);
}

static tn_status call_op(Visit *visit, Node *node) {
    Visitor *v = visit->visitor;
    if (!v->op) return TN_OK;
    TRY(reach(visit, node->op, &v->count));
    v->of = node;
    return v->op(v, node->op);
}

/* Each of these may erase the node. */
static tn_status call_head(Visit *visit, Node *node) {
    TRY(call_location(visit, node));
    if (node->graph) TRY(call_op(visit, node));
    for (uint32_t i = 0; i < node->n_results && node->graph; i++) TRY(call_type(visit, node, node->results[i]));
    return TN_OK;
}

static tn_status call_input(Visit *visit, Value *value, uint32_t count) {
    TRY(call_type(visit, NULL, value));
    visit->visitor->count = count;
    return visit->visitor->input ? visit->visitor->input(visit->visitor, value) : TN_OK;
}

static tn_status call_graph(Visit *visit, Graph *graph) {
    visit->visitor->count = 1;
    return visit->visitor->graph ? visit->visitor->graph(visit->visitor, graph) : TN_OK;
}

static VisitNodeFn function_for(Visit *visit, const Node *node) {
    Visitor *visitor = visit->visitor;
    if (visitor->constant && op_is_constant(node->op)) return visitor->constant;
    return find_op_row(&visit->by_op, node->op, &visitor->row) ? visitor->ops[visitor->row].fn : visitor->node;
}

static tn_status call_node(Visit *visit, Node *node, uint32_t count) {
    VisitNodeFn fn = function_for(visit, node);
    visit->visitor->count = count;
    return fn ? fn(visit->visitor, node) : TN_OK;
}

/* ---- the order ----------------------------------------------------------------------------------------------- */

static tn_status show(Visit *visit, int kind, void *object, bool hidden) {
    if (hidden) return TN_OK;
    const Visitor *v = visit->visitor;
    if (kind == ITEM_HEAD && !v->location && !v->op && !v->type) return TN_OK;
    return vec_push(visit->allocator, &visit->order, (VisitItem){kind, object});
}

static tn_status show_item(Visit *visit, VisitItem item) {
    const PtrMapSlot *slot = ptrmap_find(&visit->reached, item.object);
    uint32_t count = slot ? (uint32_t)(uintptr_t)slot->value : 1;
    Graph *graph = item.object;
    Value *input = item.object;
    Node *node = item.object;
    switch (item.kind) {
    case ITEM_GRAPH: return graph_is_alive(graph) ? call_graph(visit, graph) : TN_OK;
    case ITEM_INPUT: return graph_is_alive(input->graph) ? call_input(visit, input, count) : TN_OK;
    case ITEM_HEAD: return node->graph ? call_head(visit, node) : TN_OK;
    case ITEM_NODE: return node->graph ? call_node(visit, node, count) : TN_OK;
    }
    return TN_OK;
}

static tn_status show_all(Visit *visit) {
    for (size_t i = 0; i < visit->order.len; i++) TRY(show_item(visit, visit->order.data[i]));
    return TN_OK;
}

/* ---- all of a graph ------------------------------------------------------------------------------------------ */

static tn_status on_event(Visit *visit, Walk *walk, WalkEvent event) {
    Visitor *visitor = visit->visitor;
    if (event == WALK_BEFORE) {
        bool asks = visitor->descend && node_graph(walk->node, 0);
        walk->skip_nested = asks && !visitor->descend(visitor, walk->node);
        return show(visit, ITEM_HEAD, walk->node, false);
    }
    if (event == WALK_AFTER) return show(visit, ITEM_NODE, walk->node, false);
    if (event != WALK_ENTER) return TN_OK;
    const Graph *graph = walk->graph;
    TRY(show(visit, ITEM_GRAPH, walk->graph, false));
    for (size_t i = 0; i < graph->inputs.len; i++) TRY(show(visit, ITEM_INPUT, graph->inputs.data[i], false));
    return TN_OK;
}

tn_status visit_graph(Graph *graph, Visitor *visitor) {
    Visit visit;
    Walk walk;
    WalkEvent event = WALK_ENTER;
    tn_status status = visit_begin(&visit, visitor, graph->model);
    walk_init(&walk, visit.allocator, graph);
    while (status == TN_OK && event != WALK_END) {
        status = walk_next(&walk, &event);
        if (status == TN_OK) status = on_event(&visit, &walk, event);
    }
    walk_free(&walk);
    if (status == TN_OK) status = show_all(&visit);
    visit_end(&visit);
    return status;
}

tn_status visit_model(Model *model, Visitor *visitor) { return visit_graph(model->main, visitor); }

/* ---- what a value depends on --------------------------------------------------------------------------------- */

typedef struct Frame {
    Node *node;
    bool hidden; /* in a graph that is not descended into: what it reads counts, itself it is not shown */
    bool hide_nested;
    bool has_head;    /* its location, op and types are in the order */
    uint32_t operand; /* the next to look at */
    uint32_t attr;    /* the next nested graph */
    size_t item;
    Graph *graph;    /* the nested graph being looked at, or NULL */
    Node *next;      /* its next node */
    uint32_t output; /* its next output */
} Frame;

typedef struct Search {
    Visit visit;
    VEC(Frame) stack;
} Search;

static tn_status reach_node(Search *s, Node *node, bool hidden) {
    uint32_t count;
    TRY(reach(&s->visit, node, &count));
    if (count > 1) return TN_OK;
    return vec_push(s->visit.allocator, &s->stack, (Frame){.node = node, .hidden = hidden});
}

/* A node of a hidden graph is reached through its list before anything reads it, so what is new here is not hidden. */
static tn_status reach_value(Search *s, Value *value) {
    uint32_t count;
    if (!value) return TN_OK;
    if (value->def) return reach_node(s, value->def, false);
    TRY(reach(&s->visit, value, &count));
    return show(&s->visit, ITEM_INPUT, value, count > 1);
}

static tn_status enter_nested(Search *s, Frame *frame, Graph *graph) {
    uint32_t count;
    const Visitor *visitor = s->visit.visitor;
    frame->hide_nested = frame->hidden || (visitor->descend && !visitor->descend(s->visit.visitor, frame->node));
    frame->graph = graph;
    frame->next = graph->first;
    frame->output = 0;
    TRY(show(&s->visit, ITEM_GRAPH, graph, frame->hide_nested));
    for (size_t i = 0; i < graph->inputs.len; i++) {
        TRY(reach(&s->visit, graph->inputs.data[i], &count));
        TRY(show(&s->visit, ITEM_INPUT, graph->inputs.data[i], frame->hide_nested || count > 1));
    }
    return TN_OK;
}

/* One step; `frame` is the top of the stack and may move. */
static tn_status step(Search *s, Frame *frame) {
    Node *node = frame->node;
    if (frame->operand < node->n_operands) return reach_value(s, node->operands[frame->operand++].value);
    if (!frame->has_head) {
        frame->has_head = true;
        return show(&s->visit, ITEM_HEAD, node, frame->hidden);
    }
    if (!frame->graph) {
        Graph *graph = node_next_graph(node, &frame->attr, &frame->item);
        if (graph) return enter_nested(s, frame, graph);
        TRY(show(&s->visit, ITEM_NODE, node, frame->hidden));
        s->stack.len--;
        return TN_OK;
    }
    if (frame->next) {
        Node *nested = frame->next;
        frame->next = nested->next;
        return reach_node(s, nested, frame->hide_nested);
    }
    if (frame->output < graph_n_outputs(frame->graph))
        return reach_value(s, graph_output(frame->graph, frame->output++));
    frame->graph = NULL;
    return TN_OK;
}

tn_status visit_value(Value *value, Visitor *visitor) {
    Search s = {.stack = {.len = 0}};
    tn_status status = visit_begin(&s.visit, visitor, value->graph->model);
    if (status == TN_OK) status = reach_value(&s, value);
    while (status == TN_OK && s.stack.len > 0) status = step(&s, &s.stack.data[s.stack.len - 1]);
    if (status == TN_OK) status = show_all(&s.visit);
    vec_free(s.visit.allocator, &s.stack);
    visit_end(&s.visit);
    return status;
}
