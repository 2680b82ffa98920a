/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a model holds together: one walk in program order, in which a value becomes visible where it is defined
   and invisible where its graph ends. */
#include "ir/ir_int.h"

typedef struct Verifier {
    const Model *model;
    uint32_t *since;      /* by id: when the value became visible, counted from 1; 0 while it is not */
    const Value **values; /* by id: those seen */
    const Node **nodes;   /* by id: those seen */
    uint32_t clock;
    VEC(uint32_t) borders; /* of the closed graphs around: what became visible before may not be read within */
    size_t n_operands, n_uses;
} Verifier;

#define BROKEN(node, ...) blamed((node), fail(TN_INVALID_MODEL, __VA_ARGS__))

static tn_status blamed(const Node *node, tn_status status) {
    node_blame(node);
    return status;
}

static const char *name_of(const Value *value) { return value->name.n ? value->name.s : "a value without a name"; }

/* ---- one object ---------------------------------------------------------------------------------------------- */

static tn_status check_value(Verifier *v, const Value *value, const Graph *graph, const Node *def, size_t index) {
    const Node *blame = def ? def : graph->ret;
    if (!value) return BROKEN(blame, "result %zu does not exist", index);
    const char *name = name_of(value);
    if (value->graph != graph || value->def != def || value->index != index)
        return BROKEN(blame, "\"%s\" does not know that it is number %zu of what defines it", name, index);
    if (value->id >= v->model->n_values || v->values[value->id])
        return BROKEN(blame, "\"%s\" has the id %u, which is out of range or another value's", name, value->id);
    v->values[value->id] = value;
    if (!value->type) return BROKEN(blame, "\"%s\" has no type", name);
    if (value->name.n && !value_owns_name(value)) return BROKEN(blame, "the name \"%s\" is another value's too", name);
    return TN_OK;
}

/* A reading across the border of a graph that must not read what is around it. */
static tn_status captured(const Node *node, size_t i, const Value *value) {
    const Graph *graph = node->graph;
    while (!graph_is_closed(graph)) graph = graph_around(graph);
    return BROKEN(node, "operand %zu, \"%s\", comes from outside of the graph of a %s, which must get it as an operand",
                  i, name_of(value), graph->owner->op->name);
}

/* The node reads a value of the model, but is not part of it: it was never put into its graph, or no node holds that. */
static tn_status outside(const Node *user, const Value *value) {
    const Graph *graph = user->graph;
    while (graph && graph->owner) graph = graph->owner->graph;
    if (!graph || !graph->outer)
        return BROKEN(user, "the node reads \"%s\" but stands in no graph of the model", name_of(value));
    return BROKEN(user,
                  "the node reads \"%s\", but no node holds the graph \"%s\" that it stands in; make it an attribute "
                  "of a node, or erase it",
                  name_of(value), graph->name.s);
}

/* Each listed reading is an operand of a living node; that the counts agree in the end is the other direction. */
static tn_status check_uses(Verifier *v, const Value *value) {
    const Node *blame = value->def ? value->def : value->graph->ret;
    const Use *prev = NULL;
    for (const Use *use = value->uses; use; prev = use, use = use->next) {
        const Node *user = use->user;
        if (use->value != value || use->prev != prev || !user)
            return BROKEN(blame, "the list of readings of \"%s\" is broken", name_of(value));
        if (user->id >= v->model->n_nodes || v->nodes[user->id] != user) return outside(user, value);
        if (++v->n_uses > v->n_operands)
            return BROKEN(blame, "the list of readings of \"%s\" is broken", name_of(value));
        if (use < user->operands || use >= user->operands + user->n_operands)
            return BROKEN(user, "the list of readings of \"%s\" names an operand that the node does not have",
                          name_of(value));
    }
    return TN_OK;
}

static tn_status invisible(const Node *node, const Graph *graph, size_t i, const Value *value) {
    const char *name = name_of(value);
    if (value->def && !node_is_placed(value->def))
        return BROKEN(node, "operand %zu, \"%s\", is made by a node that stands in no graph", i, name);
    if (value_visible_in(value, graph))
        return BROKEN(node,
                      "operand %zu, \"%s\", is made by a node that stands further below; what a node reads must "
                      "stand before it",
                      i, name);
    return BROKEN(node, "operand %zu, \"%s\", belongs to graph \"%s\", which is not around this node", i, name,
                  value->graph ? value->graph->name.s : "");
}

static tn_status check_operands(Verifier *v, const Node *node) {
    for (size_t i = 0; i < node->n_operands; i++) {
        const Use *use = &node->operands[i];
        const Value *value = use->value;
        if (use->user != node) return BROKEN(node, "operand %zu does not know its node", i);
        if (!value) continue;
        v->n_operands++;
        if (value->id >= v->model->n_values || v->values[value->id] != value || !v->since[value->id])
            return invisible(node, node->graph, i, value);
        if (v->borders.len && v->since[value->id] <= v->borders.data[v->borders.len - 1])
            return captured(node, i, value);
    }
    return TN_OK;
}

static tn_status check_node_id(Verifier *v, const Node *node) {
    if (node->id >= v->model->n_nodes || v->nodes[node->id])
        return BROKEN(node, "the node has the id %u, which is out of range or another node's", node->id);
    v->nodes[node->id] = node;
    return TN_OK;
}

/* ---- the walk ------------------------------------------------------------------------------------------------ */

static void show(Verifier *v, const Value *value) { v->since[value->id] = ++v->clock; }

static tn_status enter_graph(Verifier *v, const Graph *graph, const Node *owner) {
    const Node *ret = graph->ret;
    if (graph->model != v->model) return BROKEN(ret, "graph \"%s\" belongs to another model", graph->name.s);
    if (graph->owner != owner)
        return BROKEN(owner ? owner : ret, "graph \"%s\" does not know the node that it is nested in", graph->name.s);
    if (ret->op != &op_return || ret->graph != graph || ret->n_results)
        return BROKEN(ret, "the outputs of graph \"%s\" are not in its Return node", graph->name.s);
    if (graph->output_names.len != ret->n_operands)
        return BROKEN(ret, "graph \"%s\" has %u outputs, but %zu names for them", graph->name.s, ret->n_operands,
                      graph->output_names.len);
    if (graph->defaults.len > graph->inputs.len)
        return BROKEN(ret, "graph \"%s\" has more defaults than inputs", graph->name.s);
    if (graph_is_closed(graph)) TRY(vec_push(model_allocator(v->model), &v->borders, v->clock));
    for (size_t i = 0; i < graph->inputs.len; i++) {
        const Value *value = graph->inputs.data[i];
        TRY(check_value(v, value, graph, NULL, i));
        show(v, value);
    }
    return TN_OK;
}

static tn_status enter_node(Verifier *v, const Graph *graph, const Node *node) {
    if (node->graph != graph || !node->op) return BROKEN(graph->ret, "a node in the list does not know its graph");
    TRY(check_node_id(v, node));
    const Node *prev = node->prev;
    if (prev ? prev->next != node || prev->order >= node->order : graph->first != node)
        return BROKEN(node, "the node's place in its graph's list is broken");
    TRY(check_operands(v, node));
    return node_check(node);
}

static tn_status leave_node(Verifier *v, const Node *node) {
    for (size_t i = 0; i < node->n_results; i++) {
        TRY(check_value(v, node->results[i], node->graph, node, i));
        show(v, node->results[i]);
    }
    return TN_OK;
}

static tn_status hide(Verifier *v, Value *const *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        v->since[values[i]->id] = 0;
        TRY(check_uses(v, values[i]));
    }
    return TN_OK;
}

static tn_status leave_graph(Verifier *v, const Graph *graph) {
    const Node *ret = graph->ret, *last = NULL;
    TRY(check_node_id(v, ret));
    TRY(check_operands(v, ret));
    for (size_t i = 0; i < ret->n_operands; i++)
        if (!ret->operands[i].value) return BROKEN(ret, "output %zu of graph \"%s\" is missing", i, graph->name.s);
    size_t n = 0;
    for (const Node *node = graph->first; node; last = node, node = node->next, n++)
        TRY(hide(v, node->results, node->n_results));
    if (n != graph->n_nodes || last != graph->last)
        return BROKEN(ret, "the list of the nodes of graph \"%s\" is broken", graph->name.s);
    if (graph_is_closed(graph)) v->borders.len--;
    return hide(v, graph->inputs.data, graph->inputs.len);
}

static tn_status on_event(Verifier *v, const Walk *walk, WalkEvent event) {
    size_t depth = walk->stack.len;
    switch (event) {
    case WALK_ENTER: return enter_graph(v, walk->graph, depth > 1 ? walk->stack.data[depth - 2].node : NULL);
    case WALK_BEFORE: return enter_node(v, walk->graph, walk->node);
    case WALK_AFTER: return leave_node(v, walk->node);
    case WALK_LEAVE: return leave_graph(v, walk->graph);
    case WALK_END: break;
    }
    return TN_OK;
}

static tn_status verify(Verifier *v) {
    Walk walk;
    WalkEvent event = WALK_ENTER;
    tn_status status = TN_OK;
    walk_init(&walk, model_allocator(v->model), v->model->main);
    while (status == TN_OK && event != WALK_END) {
        status = walk_next(&walk, &event);
        if (status == TN_OK) status = on_event(v, &walk, event);
    }
    walk_free(&walk);
    if (status == TN_OK && v->n_uses != v->n_operands)
        status = fail(TN_INVALID_MODEL, "the nodes have %zu operands, but the values list %zu readings", v->n_operands,
                      v->n_uses);
    return status;
}

tn_status model_verify(const Model *model) {
    const Allocator *a = model_allocator(model);
    size_t value_bytes = model->n_values * sizeof(Value *), node_bytes = model->n_nodes * sizeof(Node *);
    size_t since_bytes = model->n_values * sizeof(uint32_t);
    Verifier v = {.model = model};
    v.since = mem_alloc(a, since_bytes, alignof(uint32_t));
    v.values = mem_alloc(a, value_bytes, alignof(Value *));
    v.nodes = mem_alloc(a, node_bytes, alignof(Node *));
    tn_status status = v.since && v.values && v.nodes ? verify(&v) : TN_OUT_OF_MEMORY;
    mem_free(a, v.since, since_bytes);
    vec_free(a, &v.borders);
    mem_free(a, v.values, value_bytes);
    mem_free(a, v.nodes, node_bytes);
    if (status != TN_OK && model->file.n) diag_set_file(model->file.s);
    return status;
}
