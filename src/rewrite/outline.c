/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of nodes: put side by side, then made the body of a new node. */
#include "rewrite/rewrite.h"

/* ---- side by side -------------------------------------------------------------------------------------------- */

/* A group is put where its last node stood, and what reads of it stood before that is put right behind it. All else stays in
   its order. */
typedef struct Regroup {
    const NodeGroups *g;
    uint32_t *waits;    /* by place of a group's last node: operands that are still to come */
    uint32_t *head;     /* likewise: its first node */
    uint32_t *next;     /* of its group; 0: none, which the first node of a graph never is */
    uint32_t *late;     /* groups whose turn has passed and that wait for nothing any more */
    uint32_t n_late, n; /* nodes placed */
    uint32_t *order;
} Regroup;

uint32_t groups_reader(const NodeGroups *g, const Use *use) {
    const Graph *graph = g->nodes[0]->graph;
    const Node *user = use->user;
    while (user && user->graph != graph) user = user->graph->owner;
    return user && user != graph->ret ? g->place[user->id] : UINT32_MAX;
}

static tn_status regroup_init(Regroup *r, const NodeGroups *g, Arena *arena) {
    *r = (Regroup){.g = g};
    r->waits = arena_array(arena, uint32_t, g->n);
    r->head = arena_array(arena, uint32_t, g->n);
    r->next = arena_array(arena, uint32_t, g->n);
    r->late = arena_array(arena, uint32_t, g->n);
    r->order = arena_array(arena, uint32_t, g->n);
    if (!r->waits || !r->head || !r->next || !r->late || !r->order) return TN_OUT_OF_MEMORY;
    for (uint32_t i = g->n; i-- > 0;) {
        uint32_t last = g->last[i];
        r->next[i] = last == i ? 0 : r->head[last];
        r->head[last] = i;
    }
    return TN_OK;
}

/* Calls for each reading of a node's results by another group. */
static void each_reader(Regroup *r, uint32_t i, void (*fn)(Regroup *r, uint32_t reader)) {
    const NodeGroups *g = r->g;
    for (uint32_t k = 0; k < g->nodes[i]->n_results; k++)
        for (const Use *use = g->nodes[i]->results[k]->uses; use; use = use->next) {
            uint32_t reader = groups_reader(g, use);
            if (reader != UINT32_MAX && g->last[reader] != g->last[i]) fn(r, g->last[reader]);
        }
}

static void count_wait(Regroup *r, uint32_t reader) { r->waits[reader]++; }

static void end_wait(Regroup *r, uint32_t reader) {
    if (--r->waits[reader] == 0) r->late[r->n_late++] = reader;
}

static void put(Regroup *r, uint32_t last) {
    for (uint32_t i = r->head[last];; i = r->next[i]) {
        r->order[r->n++] = i;
        if (i == last) break;
    }
    for (uint32_t i = r->head[last];; i = r->next[i]) {
        each_reader(r, i, end_wait);
        if (i == last) break;
    }
}

/* Those that wait for nothing any more and whose turn is still to come are left for it. */
static void put_late(Regroup *r, uint32_t turn) {
    for (uint32_t k = 0; k < r->n_late; k++)
        if (r->late[k] <= turn) put(r, r->late[k]);
    r->n_late = 0;
}

static void move_nodes(const Regroup *r) {
    const NodeGroups *g = r->g;
    Graph *graph = g->nodes[0]->graph;
    Node *place = graph->first;
    for (uint32_t k = 0; k < g->n; k++) {
        Node *node = g->nodes[r->order[k]];
        if (node == place) place = place->next;
        else node_move_before(node, place ? place : graph->ret);
    }
}

tn_status groups_gather(const NodeGroups *g, Arena *arena) {
    Regroup r;
    TRY(regroup_init(&r, g, arena));
    for (uint32_t i = 0; i < g->n; i++) each_reader(&r, i, count_wait);
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->last[i] != i || r.waits[i] > 0) continue;
        put(&r, i);
        put_late(&r, i);
    }
    if (r.n != g->n) return fail(TN_INTERNAL, "a group of nodes depends on itself through a node outside of it");
    move_nodes(&r);
    return TN_OK;
}

/* ---- into a body --------------------------------------------------------------------------------------------- */

typedef struct Outline {
    Node *node;
    Graph *body;
    Node *first; /* of the nodes; constants stand before it */
    bool (*goes_in)(const Node *reader, uint32_t operand);
    VEC(Value *) outside; /* constants that were copied in, and their copies */
    VEC(Value *) inside;
} Outline;

static bool is_read_in_body_only(const Outline *o, const Value *v) {
    for (const Use *use = v->uses; use; use = use->next)
        if (use->user->graph != o->body) return false;
    return true;
}

/* The constant itself, where nobody else reads it. */
static tn_status take_constant(Outline *o, Value *v, Value **out) {
    const Allocator *a = &o->body->model->ctx->allocator;
    Node *copy;
    *out = v;
    if (v->graph == o->body) return TN_OK;
    for (size_t i = 0; i < o->outside.len; i++)
        if (o->outside.data[i] == v) {
            *out = o->inside.data[i];
            return TN_OK;
        }
    if (v->graph == o->node->graph && is_read_in_body_only(o, v)) {
        node_move_before(v->def, o->first);
        return TN_OK;
    }
    TRY(const_new(o->body, (Tensor *)value_payload(v), (Str){NULL, 0}, &copy));
    copy->loc = v->def->loc;
    node_insert_before(copy, o->first);
    *out = copy->results[0];
    TRY(vec_push(a, &o->outside, v));
    return vec_push(a, &o->inside, *out);
}

static tn_status take_operand(Outline *o, Value *v, Value **out) {
    for (uint32_t i = 0; i < o->node->n_operands; i++)
        if (o->node->operands[i].value == v) {
            *out = o->body->inputs.data[i];
            return TN_OK;
        }
    TRY(node_add_operand(o->node, v));
    return graph_add_input(o->body, (Str){NULL, 0}, v->type, out);
}

static tn_status take_operands(Outline *o, Node *node) {
    for (uint32_t i = 0; i < node->n_operands; i++) {
        Value *v = node->operands[i].value, *inside;
        if (!v || v->graph == o->body) continue;
        if (value_payload(v) && o->goes_in(node, i)) TRY(take_constant(o, v, &inside));
        else TRY(take_operand(o, v, &inside));
        if (inside != v) TRY(node_set_operand(node, i, inside));
    }
    return TN_OK;
}

/* Readers outside get the node's result, which is called what the value was called. */
static tn_status give_result(Outline *o, Value *v, Value *result) {
    Str name = v->name;
    value_set_type(result, v->type);
    for (Use *use = v->uses, *next; use; use = next) {
        next = use->next;
        if (use->user->graph != o->body) TRY(node_set_operand(use->user, (size_t)(use - use->user->operands), result));
    }
    TRY(value_set_name(v, (Str){NULL, 0}));
    TRY(value_set_name(result, name));
    return graph_add_output(o->body, v, (Str){NULL, 0});
}

static bool is_result(const Value *v, Node *const *nodes, size_t n) {
    for (const Use *use = v->uses; use; use = use->next) {
        size_t i = 0;
        while (i < n && use->user != nodes[i]) i++;
        if (i == n) return true;
    }
    return false;
}

static tn_status fill(Outline *o, Node *const *nodes, size_t n, Value *const *results, size_t n_results) {
    TRY(graph_new(o->node->graph->model, o->node, (Str){NULL, 0}, &o->body));
    TRY(node_set_graph(o->node, "body", o->body));
    node_insert_before(o->node, nodes[0]);
    for (size_t i = 0; i < n; i++) node_move_before(nodes[i], o->body->ret);
    for (size_t i = 0; i < n; i++) TRY(take_operands(o, nodes[i]));
    for (size_t i = 0; i < n_results; i++) TRY(give_result(o, results[i], o->node->results[i]));
    return TN_OK;
}

tn_status outline_nodes(Node *const *nodes, size_t n, const OpSchema *op,
                        bool (*goes_in)(const Node *reader, uint32_t operand), Node **out) {
    VEC(Value *) results = {0};
    const Allocator *a = &nodes[0]->graph->model->ctx->allocator;
    Outline o = {.first = nodes[0], .goes_in = goes_in};
    tn_status status = TN_OK;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < nodes[i]->n_results && status == TN_OK; k++)
            if (is_result(nodes[i]->results[k], nodes, n)) status = vec_push(a, &results, nodes[i]->results[k]);
    if (status == TN_OK) status = node_new(nodes[0]->graph, op, NULL, 0, results.len, &o.node);
    if (status == TN_OK) status = fill(&o, nodes, n, results.data, results.len);
    vec_free(a, &results);
    vec_free(a, &o.outside);
    vec_free(a, &o.inside);
    if (status == TN_OK) *out = o.node;
    return status;
}
