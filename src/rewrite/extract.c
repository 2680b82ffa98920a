/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the cheapest graph out of a saturated one. Costs of classes are those of trees, found from the leaves up until none
   falls any more; whether the outcome is better is judged by what is really there, each node once. */
#include "rewrite/saturate_int.h"

#include <math.h>

typedef struct Capture { /* a value that a graph nested in `owner` reads */
    Node *owner;
    Value *value;
} Capture;

typedef struct Extraction {
    Saturation *s;
    double *own;    /* by node, in the order of s->nodes: of the node alone */
    double *cost;   /* by class */
    Value **chosen; /* by class */
    bool *constant; /* by class */
    uint8_t *state; /* by node id: of the walk */
    VEC(Node *) order;
    VEC(Node *) stack;
    VEC(Capture) captures;
} Extraction;

/* So that a class is never its own cheapest operand. */
static const double LEAST = 1e-3;

static uint32_t class_at(const Extraction *x, const Value *v) { return value_class(&x->s->classes, v); }

static bool is_ours(const Extraction *x, const Value *v) {
    return v->id < x->s->classes.n && x->s->classes.values[v->id] == v;
}

/* ---- what is constant, what a node costs --------------------------------------------------------------------- */

static bool reads_constants(const Extraction *x, const Node *node) {
    if (value_constant(node_result(node, 0))) return true;
    if (node->op->flags & (OP_RANDOM | OP_CONTROL) || node->n_operands == 0) return false;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (v && !value_constant(v) && !(is_ours(x, v) && x->constant[class_at(x, v)])) return false;
    }
    return true;
}

static void find_constants(Extraction *x) {
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < x->s->nodes.len; i++) {
            const Node *node = x->s->nodes.data[i];
            if (node->n_results == 0 || x->constant[class_at(x, node->results[0])] || !reads_constants(x, node))
                continue;
            for (uint32_t k = 0; k < node->n_results; k++) x->constant[class_at(x, node->results[k])] = true;
            changed = true;
        }
    }
}

static void find_costs(Extraction *x) {
    for (size_t i = 0; i < x->s->nodes.len; i++) {
        const Node *node = x->s->nodes.data[i];
        bool free = reads_constants(x, node);
        x->own[i] = free ? LEAST : cost_of_node(node, x->s->hooks) + LEAST;
    }
}

/* ---- choosing ------------------------------------------------------------------------------------------------ */

static double tree_cost(const Extraction *x, size_t i) {
    const Node *node = x->s->nodes.data[i];
    double sum = x->own[i];
    for (uint32_t k = 0; k < node->n_operands; k++)
        if (node->operands[k].value && is_ours(x, node->operands[k].value))
            sum += x->cost[class_at(x, node->operands[k].value)];
    return sum;
}

static void choose(Extraction *x) {
    const Graph *g = x->s->graph;
    for (size_t i = 0; i < x->s->classes.n; i++) x->cost[i] = INFINITY;
    for (size_t i = 0; i < g->inputs.len; i++) {
        x->cost[class_at(x, g->inputs.data[i])] = 0;
        x->chosen[class_at(x, g->inputs.data[i])] = g->inputs.data[i];
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < x->s->nodes.len; i++) {
            double cost = tree_cost(x, i);
            for (uint32_t k = 0; k < x->s->nodes.data[i]->n_results; k++) {
                Value *v = x->s->nodes.data[i]->results[k];
                uint32_t c = class_at(x, v);
                if (!(cost < x->cost[c] * (1 - 1e-12))) continue; /* the model's own stand first: ties are theirs */
                x->cost[c] = cost;
                x->chosen[c] = v;
                changed = true;
            }
        }
    }
}

/* ---- walking ------------------------------------------------------------------------------------------------- */

static Value *pick(const Extraction *x, Value *v, bool variants) {
    return v && variants && is_ours(x, v) ? x->chosen[class_at(x, v)] : v;
}

static tn_status push(Extraction *x, Value *v, bool variants) {
    Value *from = pick(x, v, variants);
    Node *def = from ? from->def : NULL;
    if (!def || def->graph != x->s->graph || x->state[def->id]) return TN_OK;
    return vec_push(x->s->allocator, &x->stack, def);
}

static tn_status push_operands(Extraction *x, const Node *node, bool variants) {
    for (uint32_t i = node->n_operands; i-- > 0;) TRY(push(x, node->operands[i].value, variants));
    if (!(node->op->flags & OP_CONTROL)) return TN_OK;
    for (size_t i = 0; i < x->captures.len; i++)
        if (x->captures.data[i].owner == node) TRY(push(x, x->captures.data[i].value, variants));
    return TN_OK;
}

/* What the outputs need, operands first. */
static tn_status walk(Extraction *x, bool variants) {
    enum { NEW, OPEN, DONE };
    memset(x->state, NEW, x->s->graph->model->n_nodes);
    x->order.len = x->stack.len = 0;
    for (size_t i = graph_n_outputs(x->s->graph); i-- > 0;) TRY(push(x, graph_output(x->s->graph, i), variants));
    while (x->stack.len > 0) {
        Node *node = x->stack.data[x->stack.len - 1];
        if (x->state[node->id] == NEW) {
            x->state[node->id] = OPEN;
            TRY(push_operands(x, node, variants));
            continue;
        }
        x->stack.len--;
        if (x->state[node->id] == DONE) continue;
        x->state[node->id] = DONE;
        TRY(vec_push(x->s->allocator, &x->order, node));
    }
    return TN_OK;
}

static double cost_of_walk(const Extraction *x) {
    double sum = 0;
    for (size_t i = 0; i < x->s->nodes.len; i++)
        if (x->state[x->s->nodes.data[i]->id]) sum += x->own[i];
    return sum;
}

static Node *ancestor_in(Node *node, const Graph *graph) {
    while (node && node->graph != graph) node = node->graph ? node->graph->owner : NULL;
    return node;
}

static tn_status find_captures(Extraction *x) {
    for (size_t i = 0; i < x->s->classes.n; i++) {
        Value *v = x->s->classes.values[i];
        for (const Use *u = v ? v->uses : NULL; u; u = u->next) {
            Node *owner = u->user->graph != x->s->graph ? ancestor_in(u->user, x->s->graph) : NULL;
            if (owner) TRY(vec_push(x->s->allocator, &x->captures, (Capture){owner, v}));
        }
    }
    return TN_OK;
}

/* ---- putting in place ---------------------------------------------------------------------------------------- */

/* Nodes that are left out read only each other, so first none of them reads anything. */
static void erase_others(Extraction *x, bool all_own) {
    Saturation *s = x->s;
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < s->nodes.len; i++) {
            Node *node = s->nodes.data[i];
            if (all_own ? i < s->n_own : x->state[node->id] != 0) continue;
            if (turn == 0) node_truncate_operands(node, 0);
            else node_erase(node);
        }
}

static tn_status put_in_place(Extraction *x) {
    Graph *g = x->s->graph;
    TRY(walk(x, true));
    for (size_t i = 0; i < x->captures.len; i++) {
        Value *old = x->captures.data[i].value, *with = pick(x, old, true);
        if (with != old) TRY(value_take_over(old, with));
    }
    for (size_t i = 0; i < graph_n_outputs(g); i++) {
        Value *old = graph_output(g, i), *with = pick(x, old, true);
        if (with != old) TRY(value_take_over(old, with));
    }
    for (size_t i = 0; i < x->order.len; i++) {
        Node *node = x->order.data[i];
        for (uint32_t k = 0; k < node->n_operands; k++) {
            Value *with = pick(x, node->operands[k].value, true);
            if (with != node->operands[k].value) TRY(node_set_operand(node, k, with));
        }
        node_move_before(node, g->ret);
    }
    erase_others(x, false);
    return TN_OK;
}

static tn_status extract(Extraction *x) {
    SaturateResult *r = x->s->result;
    TRY(find_captures(x));
    find_constants(x);
    find_costs(x);
    choose(x);
    TRY(walk(x, false));
    r->cost_before = cost_of_walk(x);
    TRY(walk(x, true));
    r->cost_after = cost_of_walk(x);
    const RewriteHooks *h = x->s->hooks;
    r->changed = r->cost_after < r->cost_before * (1 - 1e-9) &&
                 (!h || !h->may_change || h->may_change(h->user, NULL, NULL));
    if (r->changed) return put_in_place(x);
    r->cost_after = r->cost_before;
    erase_others(x, true);
    return TN_OK;
}

tn_status saturation_extract(Saturation *s) {
    Extraction x = {.s = s};
    Arena arena;
    arena_init(&arena, s->allocator);
    size_t n = s->classes.n + 1;
    x.own = arena_array(&arena, double, s->nodes.len + 1);
    x.cost = arena_array(&arena, double, n);
    x.chosen = arena_array(&arena, Value *, n);
    x.constant = arena_array(&arena, bool, n);
    x.state = arena_array(&arena, uint8_t, s->graph->model->n_nodes + 1);
    bool ready = x.own && x.cost && x.chosen && x.constant && x.state;
    tn_status status = ready ? extract(&x) : TN_OUT_OF_MEMORY;
    vec_free(s->allocator, &x.order);
    vec_free(s->allocator, &x.stack);
    vec_free(s->allocator, &x.captures);
    arena_free(&arena);
    return status;
}
