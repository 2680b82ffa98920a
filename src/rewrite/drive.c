/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: a queue of nodes, first in the graph's order. Each application must lower time, nodes or order, in that order,
   so it ends; what it changed comes back into the queue. */
#include "rewrite/index_int.h"

typedef struct Driver {
    Matcher *matcher;
    Graph *graph;
    const RewriteHooks *hooks;
    const Allocator *allocator;
    Shortlists *shortlists;
    Arena arena; /* of one match */
    Match match;
    Built built;
    VEC(Node *) queue;
    size_t head;
    VEC(uint8_t) queued;       /* by node id */
    VEC(const Rule *) made_by; /* by node id */
    VEC(Node *) dead;          /* scratch */
    Varying varying;
    bool free_of_charge; /* for proofs: costs do not matter */
} Driver;

/* ---- the queue ----------------------------------------------------------------------------------------------- */

static tn_status reserve_id(Driver *d, uint32_t id) {
    size_t n = (size_t)id + 1;
    if (n <= d->queued.len) return TN_OK;
    TRY(vec_reserve(d->allocator, &d->queued, n));
    TRY(vec_reserve(d->allocator, &d->made_by, n));
    memset(d->queued.data + d->queued.len, 0, n - d->queued.len);
    memset(d->made_by.data + d->made_by.len, 0, (n - d->made_by.len) * sizeof *d->made_by.data);
    d->queued.len = d->made_by.len = n;
    return TN_OK;
}

static tn_status enqueue(Driver *d, Node *node) {
    TRY(reserve_id(d, node->id));
    if (d->queued.data[node->id] || node == d->graph->ret || node->graph != d->graph) return TN_OK;
    d->queued.data[node->id] = 1;
    return vec_push(d->allocator, &d->queue, node);
}

/* A value that very many read is read by nodes that are in the queue anyway or will not mind. */
enum { MAX_READERS = 64 };

/* Nodes below may be roots of matches that reach up to what is new. */
static tn_status enqueue_below(Driver *d, const Value *value) {
    VEC(const Value *) level = {0};
    tn_status status = vec_push(d->allocator, &level, value);
    size_t begin = 0;
    for (size_t depth = 1; depth < d->matcher->depth && status == TN_OK; depth++) {
        size_t end = level.len;
        for (; begin < end && status == TN_OK; begin++) {
            size_t n = 0;
            for (const Use *u = level.data[begin]->uses; u && n < MAX_READERS && status == TN_OK; u = u->next, n++) {
                Node *user = u->user;
                if (user->graph != d->graph || user == d->graph->ret || level.len > 4 * MAX_READERS) continue;
                status = enqueue(d, user);
                for (uint32_t k = 0; k < user->n_results && status == TN_OK; k++)
                    status = vec_push(d->allocator, &level, user->results[k]);
            }
        }
    }
    vec_free(d->allocator, &level);
    return status;
}

/* ---- one application ----------------------------------------------------------------------------------------- */

static bool is_among(const Node *node, Node *const *nodes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (nodes[i] == node) return true;
    return false;
}

static bool is_replaced(const Match *m, const Value *value) {
    for (size_t i = 0; i < m->rule->n_values; i++)
        if (m->rule->replaced[i] >= 0 && m->values[i] == value) return true;
    return false;
}

/* Whether nobody but the dying would read its results. */
static bool would_die(const Match *m, const Node *node, Node *const *dying, size_t n) {
    for (uint32_t i = 0; i < node->n_results; i++) {
        if (is_replaced(m, node->results[i])) continue;
        for (const Use *u = node->results[i]->uses; u; u = u->next)
            if (!is_among(u->user, dying, n)) return false;
    }
    return true;
}

size_t match_dying(const Match *m, Node **dying) {
    size_t n = 0;
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t k = m->rule->n_match; k-- > 0;) {
            if (is_among(m->nodes[k], dying, n) || !would_die(m, m->nodes[k], dying, n)) continue;
            dying[n++] = m->nodes[k];
            changed = true;
        }
    }
    return n;
}

/* What was found of the new values holds for the old ones: sizes that only one side knows would be taken for others. */
static void swap_types(Driver *d, const Type **types) {
    const Rule *r = d->match.rule;
    for (size_t i = 0; i < r->n_values; i++) {
        if (r->replaced[i] < 0) continue;
        const Type *t = d->match.values[i]->type;
        d->match.values[i]->type = types[i];
        types[i] = t;
    }
}

static bool lowers(Driver *d) {
    Node *dying[RULE_NODES];
    const Type *types[RULE_VALUES];
    size_t n = match_dying(&d->match, dying);
    if (d->free_of_charge) return true;
    for (size_t i = 0; i < d->match.rule->n_values; i++)
        if (d->match.rule->replaced[i] >= 0) types[i] = d->built.values[d->match.rule->replaced[i]]->type;
    swap_types(d, types);
    Cost before = cost_of(dying, n, d->hooks), after = cost_of(d->built.nodes, d->built.n, d->hooks);
    swap_types(d, types);
    return cost_lower(&after, &before);
}

static bool is_unread(const Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++)
        if (node->results[i]->uses) return false;
    return true;
}

/* Nodes that nobody reads any more, and what only they read. */
static tn_status erase_dead(Driver *d) {
    d->dead.len = 0;
    for (size_t k = 0; k < d->match.rule->n_match; k++) TRY(vec_push(d->allocator, &d->dead, d->match.nodes[k]));
    while (d->dead.len > 0) {
        Node *node = d->dead.data[--d->dead.len];
        if (!node_is_placed(node) || !is_unread(node)) continue;
        for (uint32_t i = 0; i < node->n_operands; i++) {
            Value *v = node->operands[i].value;
            if (v && v->def && v->def->graph == d->graph) TRY(vec_push(d->allocator, &d->dead, v->def));
        }
        node_erase(node);
    }
    return TN_OK;
}

static tn_status replace(Driver *d) {
    const Rule *r = d->match.rule;
    if (!d->free_of_charge && !(d->hooks && d->hooks->keep_constants)) TRY(built_settle(&d->match, &d->built));
    for (size_t i = 0; i < r->n_values; i++)
        if (r->replaced[i] >= 0) TRY(value_take_over(d->match.values[i], d->built.values[r->replaced[i]]));
    for (size_t i = 0; i < d->built.n; i++) {
        TRY(reserve_id(d, d->built.nodes[i]->id));
        d->made_by.data[d->built.nodes[i]->id] = r;
        matcher_meet(d->matcher, d->built.nodes[i]->op);
        TRY(varying_add(&d->varying, d->allocator, d->built.nodes[i]));
        if (!node_is_constant(d->built.nodes[i]))
            TRY(enqueue(d, d->built.nodes[i])); /* those are folded, whatever they are */
    }
    for (size_t i = 0; i < r->n_values; i++) {
        if (r->replaced[i] < 0) continue;
        TRY(varying_settle(&d->varying, d->allocator, d->built.values[r->replaced[i]]));
        TRY(enqueue_below(d, d->built.values[r->replaced[i]]));
    }
    return erase_dead(d);
}

static const Rule *maker_of(const Driver *d) {
    for (size_t k = d->match.rule->n_match; k-- > 0;)
        if (d->match.nodes[k]->id < d->made_by.len && d->made_by.data[d->match.nodes[k]->id])
            return d->made_by.data[d->match.nodes[k]->id];
    return NULL;
}

/* Whether what was built is to be kept. */
static bool is_wanted(Driver *d, const Rule *rule, Node *root) {
    const RewriteHooks *h = d->hooks;
    bool lower = lowers(d);
    if (!lower && h && h->refused) h->refused(h->user, rule, maker_of(d), root);
    if (lower && (!h || !h->may_change || h->may_change(h->user, rule, root))) return true;
    built_discard(&d->built);
    return false;
}

/* What was tried and thrown away is no change. */
static tn_status try_rule(Driver *d, const Rule *rule, Node *root, bool *applied) {
    bool ok;
    Model *model = d->graph->model;
    uint64_t structure = model->structure_edits, state = model->state_edits;
    *applied = false;
    arena_reset(&d->arena);
    d->match.varies = d->varying.data;
    d->match.n_varies = d->varying.len;
    TRY(rule_match(rule, root, &d->arena, &d->match, &ok));
    if (!ok) return TN_OK;
    TRY(rule_build(&d->match, &d->built, &ok));
    if (!ok || !is_wanted(d, rule, root)) {
        model->structure_edits = structure;
        model->state_edits = state;
        return TN_OK;
    }
    const RewriteHooks *h = d->hooks;
    if (h && h->changed) h->changed(h->user, rule, root);
    *applied = true;
    return replace(d);
}

static tn_status try_node(Driver *d, Node *node, bool *applied) {
    const Rule *const *rules;
    *applied = false;
    TRY(shortlist_find(d->shortlists, d->matcher, &d->varying, node, &rules));
    for (; *rules && !*applied; rules++) TRY(try_rule(d, *rules, node, applied));
    return TN_OK;
}

/* ---- a graph ------------------------------------------------------------------------------------------------- */

static Shortlists *shortlists_new(const Allocator *a) {
    Shortlists *s = mem_alloc(a, sizeof *s, alignof(Shortlists));
    if (s) arena_init(&s->arena, a);
    return s;
}

static void shortlists_free(const Allocator *a, Shortlists *s) {
    if (s) arena_free(&s->arena);
    mem_free(a, s, sizeof *s);
}

static Driver *driver_new(Matcher *matcher, Graph *graph, const RewriteHooks *hooks) {
    const Allocator *a = &graph->model->ctx->allocator;
    Driver *d = mem_alloc(a, sizeof *d, alignof(Driver));
    if (!d) return NULL;
    d->matcher = matcher;
    d->graph = graph;
    d->hooks = hooks;
    d->allocator = a;
    d->match = (Match){.rule = NULL};
    arena_init(&d->arena, a);
    return d;
}

static void driver_free(Driver *d) {
    const Allocator *a = d->allocator;
    vec_free(a, &d->queue);
    vec_free(a, &d->queued);
    vec_free(a, &d->made_by);
    vec_free(a, &d->dead);
    vec_free(a, &d->varying);
    shortlists_free(a, d->shortlists);
    arena_free(&d->arena);
    mem_free(a, d, sizeof *d);
}

static tn_status drive(Driver *d) {
    d->matcher->choosy = true;
    for (Node *n = d->graph->first; n; n = n->next) {
        matcher_meet(d->matcher, n->op);
        TRY(varying_add(&d->varying, d->allocator, n));
        TRY(enqueue(d, n));
    }
    while (d->head < d->queue.len) {
        bool applied;
        Node *node = d->queue.data[d->head++];
        d->queued.data[node->id] = 0;
        if (!node_is_placed(node)) continue;
        TRY(try_node(d, node, &applied));
        if (d->head > 4096 && d->head > d->queue.len / 2) { /* the room of those that are done */
            d->queue.len -= d->head;
            memmove(d->queue.data, d->queue.data + d->head, d->queue.len * sizeof *d->queue.data);
            d->head = 0;
        }
    }
    return TN_OK;
}

tn_status rewrite_graph(Matcher *matcher, Graph *graph, const RewriteHooks *hooks) {
    Driver *d = driver_new(matcher, graph, hooks);
    if (!d) return TN_OUT_OF_MEMORY;
    d->shortlists = shortlists_new(d->allocator);
    tn_status status = d->shortlists ? drive(d) : TN_OUT_OF_MEMORY;
    driver_free(d);
    return status;
}

tn_status rewrite_once(Matcher *matcher, Node *root, bool *applied) {
    Driver *d = driver_new(matcher, root->graph, NULL);
    *applied = false;
    if (!d) return TN_OUT_OF_MEMORY;
    d->free_of_charge = true;
    const Entry *e = NULL;
    tn_status status = matcher_rules(matcher, root->op, &e);
    for (; e && status == TN_OK && !*applied; e = e->next) status = try_rule(d, e->rule, root, applied);
    driver_free(d);
    return status;
}
