/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes and values: operands with their use lists, places in a graph, constants. */
#include "ir/ir_int.h"

/* ---- use lists ----------------------------------------------------------------------------------------------- */

static void use_link(Use *use, Value *value) {
    use->user->graph->model->structure_edits++;
    use->value = value;
    use->prev = NULL;
    use->next = value ? value->uses : NULL;
    if (!value) return;
    if (use->next) use->next->prev = use;
    value->uses = use;
}

static void use_unlink(Use *use) {
    if (!use->value) return;
    use->value->graph->model->structure_edits++;
    if (use->prev) use->prev->next = use->next;
    else use->value->uses = use->next;
    if (use->next) use->next->prev = use->prev;
    use->value = NULL;
    use->prev = use->next = NULL;
}

/* Takes the place of `from` in its list. */
static void use_move(Use *to, const Use *from) {
    *to = *from;
    if (!to->value) return;
    if (to->prev) to->prev->next = to;
    else to->value->uses = to;
    if (to->next) to->next->prev = to;
}

void value_replace(Value *old, Value *with) {
    Use *first = old->uses, *last = NULL;
    if (old == with || !first) return;
    old->graph->model->structure_edits++;
    for (Use *use = first; use; use = use->next) {
        use->value = with;
        last = use;
    }
    last->next = with->uses;
    if (with->uses) with->uses->prev = last;
    with->uses = first;
    old->uses = NULL;
}

/* The numbers that a random node draws follow from its name, or from its result's where it has none. */
static bool draws_by_name(const Value *v) { return v->def && v->def->op->flags & OP_RANDOM && v->def->loc.n == 0; }

tn_status value_take_over(Value *old, Value *with) {
    value_replace(old, with);
    if (with->name.n > 0 || old->name.n == 0 || draws_by_name(with)) return TN_OK;
    Str name = old->name;
    value_drop_name(old);
    return value_set_name(with, name);
}

void value_set_type(Value *value, const Type *type) {
    if (value->type == type) return;
    value->type = type;
    value->graph->model->state_edits++;
}

bool value_has_one_use(const Value *value) { return value->uses && !value->uses->next; }

/* ---- making -------------------------------------------------------------------------------------------------- */

/* Operand arrays have room for a power of two, so only at those lengths they may be full. */
static size_t room_for(size_t n) {
    size_t room = 1;
    while (room < n) room *= 2;
    return n ? room : 0;
}

tn_status node_alloc(Graph *graph, const OpSchema *op, size_t n_operands, Node **out) {
    Model *model = graph->model;
    ModelStore *store = model_store(model);
    uint64_t limit = model->ctx->limits.max_nodes;
    if (store->n_live >= limit || model->n_nodes == UINT32_MAX)
        return fail(TN_LIMIT, "the model has more than %llu nodes (tn_limits.max_nodes)", (unsigned long long)limit);
    if (n_operands > UINT32_MAX / 2) return fail(TN_LIMIT, "%zu operands are too many for a node", n_operands);
    Node *node = arena_new(&model->arena, Node);
    if (!node) return TN_OUT_OF_MEMORY;
    if (n_operands) {
        node->operands = arena_array(&model->arena, Use, room_for(n_operands));
        if (!node->operands) return TN_OUT_OF_MEMORY;
    }
    node->op = op;
    node->graph = graph;
    node->loc = STR("");
    node->id = model->n_nodes++;
    node->n_operands = (uint32_t)n_operands;
    for (size_t i = 0; i < n_operands; i++) node->operands[i].user = node;
    store->n_live++;
    *out = node;
    return TN_OK;
}

tn_status value_alloc(Graph *graph, Node *def, size_t index, const Type *type, Value *value) {
    if (graph->model->n_values == UINT32_MAX) return fail(TN_LIMIT, "the model has too many values");
    *value = (Value){.type = type, .name = STR(""), .def = def, .graph = graph, .index = (uint32_t)index};
    value->id = graph->model->n_values++;
    return TN_OK;
}

/* One piece of the arena for the values and the array of pointers to them. */
static tn_status make_results(Node *node, size_t n) {
    Model *model = node->graph->model;
    if (n == 0) return TN_OK;
    if (n > UINT32_MAX / 2) return fail(TN_LIMIT, "%zu results are too many for a node", n);
    Value *values = arena_array(&model->arena, Value, n);
    node->results = values ? arena_array(&model->arena, Value *, n) : NULL;
    if (!node->results) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        TRY(value_alloc(node->graph, node, i, model->type_any, &values[i]));
        node->results[i] = &values[i];
    }
    node->n_results = (uint32_t)n;
    return TN_OK;
}

tn_status node_new(Graph *graph, const OpSchema *op, Value *const *operands, size_t n_operands, size_t n_results,
                   Node **out) {
    Node *node;
    TRY(node_alloc(graph, op, n_operands, &node));
    tn_status status = make_results(node, n_results);
    if (status != TN_OK) {
        model_store(graph->model)->n_live--;
        return status;
    }
    for (size_t i = 0; i < n_operands; i++) use_link(&node->operands[i], operands[i]);
    *out = node;
    return TN_OK;
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

tn_status node_set_operand(Node *node, size_t i, Value *value) {
    if (i >= node->n_operands)
        return fail(TN_OUT_OF_RANGE, "operand %zu is set, but the node has %u", i, node->n_operands);
    use_unlink(&node->operands[i]);
    use_link(&node->operands[i], value);
    return TN_OK;
}

static tn_status grow_operands(Node *node) {
    size_t n = node->n_operands;
    if (n > UINT32_MAX / 4) return fail(TN_LIMIT, "%zu operands are too many for a node", n);
    Use *bigger = arena_array(&node->graph->model->arena, Use, room_for(n + 1));
    if (!bigger) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) use_move(&bigger[i], &node->operands[i]);
    node->operands = bigger;
    return TN_OK;
}

tn_status node_add_operand(Node *node, Value *value) {
    uint32_t n = node->n_operands;
    if ((n & (n - 1)) == 0) TRY(grow_operands(node));
    Use *use = &node->operands[node->n_operands++];
    use->user = node;
    use_link(use, value);
    return TN_OK;
}

void node_truncate_operands(Node *node, size_t n) {
    while (node->n_operands > n) use_unlink(&node->operands[--node->n_operands]);
}

/* ---- places in a graph --------------------------------------------------------------------------------------- */

static void link_between(Node *node, Node *prev, Node *next) {
    Graph *graph = node->graph;
    assert(graph && !node->order);
    node->prev = prev;
    node->next = next;
    if (prev) prev->next = node;
    else graph->first = node;
    if (next) next->prev = node;
    else graph->last = node;
    graph->n_nodes++;
    graph->model->structure_edits++;
    order_assign(node);
}

static void unlink_node(Node *node) {
    Graph *graph = node->graph;
    if (node->prev) node->prev->next = node->next;
    else graph->first = node->next;
    if (node->next) node->next->prev = node->prev;
    else graph->last = node->prev;
    graph->n_nodes--;
    graph->model->structure_edits++;
    node->prev = node->next = NULL;
    node->order = 0;
}

void node_append(Node *node) { link_between(node, node->graph->last, NULL); }

/* Before the outputs is at the end. */
void node_insert_before(Node *node, Node *place) {
    assert(place->graph == node->graph);
    if (place == place->graph->ret) node_append(node);
    else link_between(node, place->prev, place);
}

void node_move_before(Node *node, Node *place) {
    if (node == place || (node->next == place && node->graph == place->graph)) return;
    unlink_node(node);
    node->graph = place->graph;
    for (uint32_t i = 0; i < node->n_results; i++) node->results[i]->graph = place->graph;
    node_insert_before(node, place);
}

/* ---- erasing ------------------------------------------------------------------------------------------------- */

/* Puts a dead graph's nodes before those that `list` begins with; they are linked through `next`. */
static Node *bury_graph(Graph *graph, Node *list) {
    for (size_t i = 0; i < graph->inputs.len; i++) value_drop_name(graph->inputs.data[i]);
    graph->ret->next = list;
    if (graph->last) graph->last->next = graph->ret;
    list = graph->first ? graph->first : graph->ret;
    graph->first = graph->last = NULL;
    graph->n_nodes = 0;
    return list;
}

/* A list instead of recursion, and links that are there already instead of memory: this cannot fail. */
static void bury(ModelStore *store, Node *list) {
    while (list) {
        Node *dead = list;
        list = dead->next;
        node_truncate_operands(dead, 0);
        if (dead->op == &op_return) store->n_returns--;
        for (uint32_t i = 0; i < dead->n_results; i++) value_drop_name(dead->results[i]);
        uint32_t attr = 0;
        size_t item = 0;
        for (Graph *g; (g = node_next_graph(dead, &attr, &item));)
            if (g->owner == dead) list = bury_graph(g, list);
        dead->graph = NULL;
        dead->prev = dead->next = NULL;
        dead->order = 0;
        store->n_live--;
    }
}

void node_erase(Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++) assert(!node->results[i]->uses);
    if (node->order) unlink_node(node);
    bury(model_store(node->graph->model), node);
}

void graph_erase(Graph *graph) {
    assert(!graph->owner);
    graph->model->structure_edits++;
    bury(model_store(graph->model), bury_graph(graph, NULL));
}

/* ---- constants and messages ---------------------------------------------------------------------------------- */

const Tensor *value_payload(const Value *value) {
    if (!value || !value->def || !op_is_constant(value->def->op)) return NULL;
    const Attr *a = node_attr(value->def, STR("data"));
    return a && a->kind == ATTR_TENSOR ? a->tensor : NULL;
}

const Tensor *value_constant(const Value *value) {
    const Tensor *t = value_payload(value);
    return t && buffer_keep(t->buffer) == TN_OK ? t : NULL;
}

static const OpSchema *constant_op(Model *model) {
    ModelStore *store = model_store(model);
    if (!store->op_const) store->op_const = op_find(STR("tn"), STR("Const"));
    return store->op_const;
}

tn_status const_new(Graph *graph, Tensor *payload, Str name, Node **out) {
    Model *model = graph->model;
    const OpSchema *op = constant_op(model);
    if (!op) return fail(TN_INTERNAL, "the op Const is not in the table of ops");
    Shape shape = shape_make(payload->rank, payload->dims);
    const Type *type = type_tensor(model, payload->dtype, &shape);
    if (!type) return TN_OUT_OF_MEMORY;
    Node *node;
    TRY(node_new(graph, op, NULL, 0, 1, &node));
    node->results[0]->type = type;
    tn_status status = node_set_tensor(node, "data", payload);
    if (status == TN_OK) status = value_set_name(node->results[0], name);
    if (status == TN_OK) *out = node;
    else node_erase(node);
    return status;
}

tn_status const_ints(Graph *graph, const int64_t *values, int64_t n, bool scalar, Value **out) {
    assert(!scalar || n == 1);
    Tensor *payload;
    Node *node;
    TRY(model_tensor(graph->model, &payload));
    TRY(tensor_new(graph->model->ctx, TN_I64, scalar ? 0 : 1, &n, payload));
    if (n) memcpy(payload->data, values, (size_t)n * sizeof *values);
    TRY(const_new(graph, payload, (Str){NULL, 0}, &node));
    node_append(node);
    *out = node->results[0];
    return TN_OK;
}

void node_blame(const Node *node) {
    char op[160];
    const char *name = node->loc.n ? node->loc.s : NULL;
    for (uint32_t i = 0; !name && i < node->n_results; i++)
        if (node->results[i]->name.n) name = node->results[i]->name.s;
    diag_set_node(name, op_full_name(node->op, op, sizeof op));
}
