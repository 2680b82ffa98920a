/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a cheap graph out of a saturated one. Costs of classes are those of trees, found from the leaves up until none
   falls any more. A tree counts what is read twice twice, so from there, or from the graph as it was, one node after the
   other is tried in the place of what is equal, and stays where that makes the whole, each node once, cheaper. */
#include "rewrite/saturate_int.h"

#include <math.h>

typedef struct Capture { /* a value that a graph nested in `owner` reads */
    Node *owner;
    Value *value;
} Capture;

typedef struct Flip { /* of a choice that is tried */
    uint32_t class;
    Value *before;
} Flip;

typedef struct Extraction {
    Saturation *s;
    double *own;     /* by node, in the order of s->nodes: of the node alone */
    double *saves;   /* likewise: what joining it with its one reader saves */
    double *count;   /* likewise: elements of its result */
    uint8_t *role;   /* likewise: a NodeRole */
    uint8_t *reads;  /* likewise: nodes of the walk that read it, two for more */
    double *cost;    /* by class */
    Value **chosen;  /* by class */
    bool *constant;  /* by class */
    uint8_t *state;  /* by node id: of the walk */
    uint32_t *place; /* by node id: in s->nodes */
    bool *used;      /* by class: the graph that is chosen has it */
    bool cyclic;     /* what the walk found: the choice depends on itself */
    size_t visits;   /* of all walks */
    VEC(Node *) order;
    VEC(Node *) stack;
    VEC(Capture) captures;
    VEC(Flip) flips;
} Extraction;

/* So that a class is never its own cheapest operand. */
static const double LEAST = 1e-3;

static uint32_t class_at(const Extraction *x, const Value *v) { return value_class(&x->s->classes, v); }

static bool is_ours(const Extraction *x, const Value *v) {
    return v->id < x->s->classes.n && x->s->classes.values[v->id] == v;
}

/* ---- what is constant, what a node costs --------------------------------------------------------------------- */

static bool reads_constants(const Extraction *x, const Node *node) {
    if (value_payload(node_result(node, 0))) return true;
    if (node->op->flags & (OP_RANDOM | OP_CONTROL) || node->n_operands == 0) return false;
    if (strcmp(node->op->name, "DequantizeLinear") == 0) return false; /* weights that are to stay quantised */
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (v && !value_payload(v) && !(is_ours(x, v) && x->constant[class_at(x, v)])) return false;
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

/* A variant has to be better by more than what the figures are off by; what may be joined is known by its role. */
static const double MARGIN = 1.03;

static void find_costs(Extraction *x) {
    for (size_t i = 0; i < x->s->nodes.len; i++) {
        const Node *node = x->s->nodes.data[i];
        bool free = reads_constants(x, node);
        x->own[i] = free ? LEAST : cost_of_node(node, x->s->hooks) * (i < x->s->n_own ? 1 : MARGIN) + LEAST;
        x->role[i] = free ? ROLE_OTHER : (uint8_t)node_role(node);
        if (x->role[i] == ROLE_OTHER) continue;
        const Shape shape = assumed_shape(node->results[0]);
        x->saves[i] = joining_saves(node->results[0], &shape);
        x->count[i] = 1;
        for (int k = 0; k < shape.rank; k++) x->count[i] *= (double)shape.dims[k];
    }
}

/* ---- choosing ------------------------------------------------------------------------------------------------ */

/* Of very many operands it does not matter. */
enum { MOST_OPERANDS = 16 };

static bool is_read_before(const Extraction *x, const Node *node, uint32_t k) {
    for (uint32_t i = 0; i < k && k < MOST_OPERANDS; i++)
        if (node->operands[i].value && class_at(x, node->operands[i].value) == class_at(x, node->operands[k].value))
            return true;
    return false;
}

/* Trees of what is read twice at each level grow beyond all numbers; equal costs may go round in circles, which the walk
   sees. */
static const double MOST = 1e300;

/* Infinite as long as nothing is known of an operand. */
static double tree_cost(const Extraction *x, size_t i) {
    const Node *node = x->s->nodes.data[i];
    double sum = x->own[i];
    for (uint32_t k = 0; k < node->n_operands; k++) {
        const Value *v = node->operands[k].value;
        if (!v || !is_ours(x, v) || is_read_before(x, node, k)) continue;
        double cost = x->cost[class_at(x, v)];
        if (isinf(cost)) return cost;
        sum += cost;
    }
    return sum < MOST ? sum : MOST;
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
    Value *chosen = v && variants && is_ours(x, v) ? x->chosen[class_at(x, v)] : NULL;
    return chosen ? chosen : v;
}

/* OPEN: on the way from an output to the node at hand; WANTED: new to a second walk */
enum { NEW, OPEN, DONE, WANTED };

static tn_status push(Extraction *x, Value *v, bool variants) {
    Value *from = pick(x, v, variants);
    Node *def = from ? from->def : NULL;
    if (!def || def->graph != x->s->graph) return TN_OK;
    if (x->state[def->id] == OPEN) x->cyclic = true;
    bool fresh = x->state[def->id] == NEW || x->state[def->id] == WANTED;
    return fresh ? vec_push(x->s->allocator, &x->stack, def) : TN_OK;
}

static tn_status push_operands(Extraction *x, const Node *node, bool variants) {
    for (uint32_t i = node->n_operands; i-- > 0;) TRY(push(x, node->operands[i].value, variants));
    if (!(node->op->flags & OP_CONTROL)) return TN_OK;
    for (size_t i = 0; i < x->captures.len; i++)
        if (x->captures.data[i].owner == node) TRY(push(x, x->captures.data[i].value, variants));
    return TN_OK;
}

/* What is on the stack and what that needs, operands first. */
static tn_status walk_on(Extraction *x, bool variants) {
    while (x->stack.len > 0 && !x->cyclic) {
        Node *node = x->stack.data[x->stack.len - 1];
        if (x->state[node->id] == NEW || x->state[node->id] == WANTED) {
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

/* What the outputs need. */
static tn_status walk(Extraction *x, bool variants) {
    memset(x->state, NEW, x->s->graph->model->n_nodes);
    x->order.len = x->stack.len = 0;
    x->cyclic = false;
    for (size_t i = graph_n_outputs(x->s->graph); i-- > 0;) TRY(push(x, graph_output(x->s->graph, i), variants));
    return walk_on(x, variants);
}

/* The same in the order that the graph had: what a node made is made where it stood, and new nodes where they are first
   needed. Which results lie beside each other, and for how long, goes by the order. */
static tn_status walk_in_order(Extraction *x) {
    TRY(walk(x, true));
    for (size_t i = 0; i < x->order.len; i++) x->state[x->order.data[i]->id] = WANTED;
    x->order.len = 0;
    for (size_t i = 0; i < x->s->n_own; i++)
        for (uint32_t k = 0; k < x->s->nodes.data[i]->n_results; k++) {
            Value *with = pick(x, x->s->nodes.data[i]->results[k], true);
            if (!with->def || x->state[with->def->id] != WANTED) continue;
            TRY(push(x, with, false));
            TRY(walk_on(x, true));
        }
    for (size_t i = graph_n_outputs(x->s->graph); i-- > 0;) TRY(push(x, graph_output(x->s->graph, i), true));
    return walk_on(x, true);
}

/* ---- what a choice costs ------------------------------------------------------------------------------------- */

/* The node that makes an operand, as it was chosen; NULL: none does, or an operand before it was of that node as well. */
static const Node *maker(const Extraction *x, const Node *node, uint32_t k, bool variants) {
    const Value *v = pick(x, node->operands[k].value, variants);
    if (!v || !v->def || v->def->graph != x->s->graph) return NULL;
    for (uint32_t i = 0; i < k && k < MOST_OPERANDS; i++) {
        const Value *u = pick(x, node->operands[i].value, variants);
        if (u && u->def == v->def) return NULL;
    }
    return v->def;
}

static void count_read(Extraction *x, const Node *made_by, uint8_t times) {
    if (!made_by || made_by->graph != x->s->graph) return;
    uint8_t *reads = &x->reads[x->place[made_by->id]];
    *reads = *reads + times > 2 ? 2 : (uint8_t)(*reads + times);
}

static void count_reads(Extraction *x, bool variants) {
    for (size_t i = 0; i < x->order.len; i++) x->reads[x->place[x->order.data[i]->id]] = 0;
    for (size_t i = 0; i < x->order.len; i++)
        for (uint32_t k = 0; k < x->order.data[i]->n_operands; k++)
            count_read(x, maker(x, x->order.data[i], k, variants), 1);
    for (size_t i = 0; i < graph_n_outputs(x->s->graph); i++) {
        const Value *v = pick(x, graph_output(x->s->graph, i), variants);
        if (v) count_read(x, v->def, 2);
    }
    for (size_t i = 0; i < x->captures.len; i++) {
        const Value *v = pick(x, x->captures.data[i].value, variants);
        if (v && v->def) count_read(x, v->def, 2);
    }
}

/* One heavy node, and all element-wise ones, whose results nobody else reads are computed together with the reader. */
static double joined(const Extraction *x, const Node *node, bool variants) {
    size_t reader = x->place[node->id];
    bool heavy = false;
    double saved = 0;
    if (x->role[reader] != ROLE_LIGHT) return 0;
    for (uint32_t k = 0; k < node->n_operands; k++) {
        const Node *made_by = maker(x, node, k, variants);
        size_t i = made_by ? x->place[made_by->id] : 0;
        if (!made_by || x->role[i] == ROLE_OTHER || x->reads[i] != 1 || x->count[i] != x->count[reader]) continue;
        if (x->role[i] == ROLE_HEAVY && heavy) continue;
        heavy |= x->role[i] == ROLE_HEAVY;
        saved += x->saves[i];
    }
    return saved;
}

static double cost_of_walk(Extraction *x, bool variants) {
    double sum = 0;
    count_reads(x, variants);
    for (size_t i = 0; i < x->order.len; i++)
        sum += x->own[x->place[x->order.data[i]->id]] - joined(x, x->order.data[i], variants);
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

/* ---- improving ----------------------------------------------------------------------------------------------- */

/* Walks over all nodes that may be spent on it. */
enum { MOST_VISITS = 1 << 26, ROUNDS = 4 };

static void choose_own(Extraction *x) {
    for (size_t i = x->s->n_own; i-- > 0;)
        for (uint32_t k = 0; k < x->s->nodes.data[i]->n_results; k++) {
            Value *v = x->s->nodes.data[i]->results[k];
            x->chosen[class_at(x, v)] = v;
        }
}

/* What the choice costs; INFINITY where it depends on itself. */
static tn_status try_choice(Extraction *x, double *cost) {
    TRY(walk(x, true));
    x->visits += x->order.len + 16;
    *cost = x->cyclic ? (double)INFINITY : cost_of_walk(x, true);
    return TN_OK;
}

static void note_used(Extraction *x) {
    memset(x->used, 0, x->s->classes.n * sizeof *x->used);
    for (size_t i = 0; i < x->order.len; i++)
        for (uint32_t k = 0; k < x->order.data[i]->n_results; k++)
            x->used[class_at(x, x->order.data[i]->results[k])] = true;
}

static bool is_another(const Extraction *x, const Node *node) {
    for (uint32_t k = 0; k < node->n_results; k++) {
        uint32_t c = class_at(x, node->results[k]);
        if (x->used[c] && x->chosen[c] != node->results[k]) return true;
    }
    return false;
}

/* All results at once: a node that makes several things pays where it makes all of them. */
static tn_status flip(Extraction *x, const Node *node) {
    for (uint32_t k = 0; k < node->n_results; k++) {
        uint32_t c = class_at(x, node->results[k]);
        TRY(vec_push(x->s->allocator, &x->flips, (Flip){c, x->chosen[c]}));
        x->chosen[c] = node->results[k];
    }
    return TN_OK;
}

static void flip_back(Extraction *x) {
    while (x->flips.len > 0) {
        const Flip *f = &x->flips.data[--x->flips.len];
        x->chosen[f->class] = f->before;
    }
}

/* What was flipped stays so where that makes the whole cheaper. */
static tn_status judge_flips(Extraction *x, double *best, bool *better) {
    double cost;
    TRY(try_choice(x, &cost));
    if (cost < *best * (1 - 1e-9)) {
        *best = cost;
        *better = true;
        x->flips.len = 0;
        note_used(x);
    }
    flip_back(x);
    return TN_OK;
}

static tn_status try_node(Extraction *x, const Node *node, double *best, bool *better) {
    if (!is_another(x, node)) return TN_OK;
    TRY(flip(x, node));
    return judge_flips(x, best, better);
}

/* Readers beyond these have to pay without the others. */
enum { MOST_READERS = 512 };

static bool is_flipped(const Extraction *x, const Node *node) {
    for (size_t i = 0; i < x->flips.len; i++)
        for (uint32_t k = 0; k < node->n_results; k++)
            if (x->flips.data[i].class == class_at(x, node->results[k])) return true;
    return false;
}

/* What only pays where several read it, such as one product in the place of many: all that may read it, together. */
static tn_status try_readers(Extraction *x, const Node *node, double *best, bool *better) {
    uint32_t first = class_at(x, node->results[0]), id = first;
    size_t n = 0;
    do {
        const Value *v = x->s->classes.values[id];
        for (const Use *u = v ? v->uses : NULL; u && n < MOST_READERS; u = u->next) {
            const Node *reader = u->user;
            if (reader->graph != x->s->graph || reader == x->s->graph->ret || !is_another(x, reader)) continue;
            if (is_flipped(x, reader)) continue;
            TRY(flip(x, reader));
            n++;
        }
        id = x->s->classes.next[id];
    } while (id != first);
    if (n >= 2) return judge_flips(x, best, better);
    flip_back(x);
    return TN_OK;
}

/* New, the best of its class, and of no use to anything that was chosen. */
static bool is_idle(const Extraction *x, size_t i) {
    const Node *node = x->s->nodes.data[i];
    if (i < x->s->n_own || node->n_results != 1) return false;
    uint32_t c = class_at(x, node->results[0]);
    return x->chosen[c] == node->results[0] && !x->used[c] && !x->constant[c];
}

static tn_status improve(Extraction *x, double *best) {
    bool better = true;
    TRY(try_choice(x, best));
    note_used(x);
    for (int round = 0; round < ROUNDS && better; round++) {
        better = false;
        for (size_t i = 0; i < x->s->nodes.len && x->visits < MOST_VISITS; i++)
            TRY(try_node(x, x->s->nodes.data[i], best, &better));
        for (size_t i = 0; i < x->s->nodes.len && x->visits < MOST_VISITS; i++)
            if (is_idle(x, i)) TRY(try_readers(x, x->s->nodes.data[i], best, &better));
    }
    return TN_OK;
}

/* From the trees or from the graph as it was, whichever is cheaper. */
static tn_status choose_best(Extraction *x, double before, double *after) {
    double trees;
    choose(x);
    TRY(try_choice(x, &trees));
    if (!(trees < before)) choose_own(x);
    return improve(x, after);
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
    TRY(walk_in_order(x));
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
    TRY(walk(x, false));
    r->cost_before = cost_of_walk(x, false);
    TRY(choose_best(x, r->cost_before, &r->cost_after));
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
    x.saves = arena_array(&arena, double, s->nodes.len + 1);
    x.count = arena_array(&arena, double, s->nodes.len + 1);
    x.role = arena_array(&arena, uint8_t, s->nodes.len + 1);
    x.reads = arena_array(&arena, uint8_t, s->nodes.len + 1);
    x.cost = arena_array(&arena, double, n);
    x.chosen = arena_array(&arena, Value *, n);
    x.constant = arena_array(&arena, bool, n);
    x.state = arena_array(&arena, uint8_t, s->graph->model->n_nodes + 1);
    x.used = arena_array(&arena, bool, n);
    x.place = arena_array(&arena, uint32_t, s->graph->model->n_nodes + 1);
    bool ready = x.own && x.saves && x.count && x.role && x.reads && x.cost && x.chosen && x.constant && x.state &&
                 x.used && x.place;
    for (size_t i = 0; ready && i < s->nodes.len; i++) x.place[s->nodes.data[i]->id] = (uint32_t)i;
    tn_status status = ready ? extract(&x) : TN_OUT_OF_MEMORY;
    vec_free(s->allocator, &x.order);
    vec_free(s->allocator, &x.stack);
    vec_free(s->allocator, &x.captures);
    vec_free(s->allocator, &x.flips);
    arena_free(&arena);
    return status;
}
