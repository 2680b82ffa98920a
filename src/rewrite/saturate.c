/* SPDX-License-Identifier: Apache-2.0 */
/* Equality saturation. The e-graph is the graph itself: each variant of a node is a node in it that nobody reads yet, and a
   class of equal values is a ring of values. A pattern reaches through an operand to whatever is equal to it. Order in the
   graph means nothing until the end, when the cheapest variants are put in order and all others go. */
#include "rewrite/saturate_int.h"

#include <stdlib.h>
#include <time.h>

/* ---- classes ------------------------------------------------------------------------------------------------- */

uint32_t class_find(Classes *c, uint32_t id) {
    while (c->parent[id] != id) {
        c->parent[id] = c->parent[c->parent[id]];
        id = c->parent[id];
    }
    return id;
}

/* Values from outside are by themselves. */
uint32_t value_class(const Classes *c, const Value *v) {
    uint32_t id = v->id;
    if (id >= c->n) return id;
    while (c->parent[id] != id) id = c->parent[id];
    return id;
}

/* The older one stands for both, and the two rings become one. */
void class_union(Classes *c, uint32_t a, uint32_t b) {
    a = class_find(c, a);
    b = class_find(c, b);
    if (a == b) return;
    if (b < a) {
        uint32_t t = a;
        a = b;
        b = t;
    }
    c->parent[b] = a;
    uint32_t next = c->next[a];
    c->next[a] = c->next[b];
    c->next[b] = next;
}

static void *larger(const Allocator *a, void *old, size_t n, size_t cap, size_t size) {
    void *fresh = mem_alloc(a, cap * size, 8);
    if (fresh && n) memcpy(fresh, old, n * size);
    return fresh;
}

static tn_status classes_reserve(Saturation *s, size_t n) {
    if (n <= s->cap) return TN_OK;
    size_t cap = n * 2 + 64;
    Classes *c = &s->classes, old = *c;
    uint32_t *scratch = s->scratch;
    c->parent = larger(s->allocator, old.parent, old.n, cap, sizeof *c->parent);
    c->next = larger(s->allocator, old.next, old.n, cap, sizeof *c->next);
    c->values = larger(s->allocator, old.values, old.n, cap, sizeof *c->values);
    s->scratch = larger(s->allocator, NULL, 0, cap, sizeof *s->scratch);
    mem_free(s->allocator, old.parent, s->cap * sizeof *old.parent);
    mem_free(s->allocator, old.next, s->cap * sizeof *old.next);
    mem_free(s->allocator, old.values, s->cap * sizeof *old.values);
    mem_free(s->allocator, scratch, s->cap * sizeof *scratch);
    s->cap = cap;
    return c->parent && c->next && c->values && s->scratch ? TN_OK : TN_OUT_OF_MEMORY;
}

static void enter_value(Classes *c, Value *v) { c->values[v->id] = v; }

tn_status classes_grow(Saturation *s) {
    size_t n = s->graph->model->n_values;
    TRY(classes_reserve(s, n));
    for (size_t i = s->classes.n; i < n; i++) {
        s->classes.parent[i] = s->classes.next[i] = (uint32_t)i;
        s->classes.values[i] = NULL;
    }
    s->classes.n = n;
    return TN_OK;
}

static void enter_node(Saturation *s, Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++) enter_value(&s->classes, node->results[i]);
}

/* ---- nodes that are the same --------------------------------------------------------------------------------- */

static bool may_be_shared(const Node *node) {
    if (node->op->flags & (OP_RANDOM | OP_CONTROL)) return false;
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (node->attrs[i].kind == ATTR_GRAPH || node->attrs[i].kind == ATTR_GRAPHS) return false;
    return true;
}

/* Of lists and numbers, which rules write in great numbers, also by what they are. */
static uint64_t hash_payload(const Tensor *t) {
    enum { FEW = 16 };
    uint64_t h = (uint64_t)t->dtype << 8 | (uint64_t)(unsigned)t->rank;
    for (int i = 0; i < t->rank; i++) h = (h ^ (uint64_t)t->dims[i]) * 0x9E3779B97F4A7C15u;
    if (t->kind != TYPE_TENSOR || !t->data || !tensor_is_dense(t) || tensor_count(t) > FEW) return h;
    if (buffer_keep(t->buffer) != TN_OK) {
        diag_clear();
        return h;
    }
    const unsigned char *bytes = tensor_bytes(t);
    for (size_t i = 0; i < (size_t)tensor_count(t) * dtype_size(t->dtype); i++) h = (h ^ bytes[i]) * 0x100000001B3u;
    return h;
}

static uint64_t hash_of(const Saturation *s, const Node *node) {
    uint64_t h = (uint64_t)(uintptr_t)node->op ^ (uint64_t)node->n_results << 56;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        h = (h ^ (v ? value_class(&s->classes, v) + 1 : 0)) * 0x9E3779B97F4A7C15u;
        h ^= h >> 31;
    }
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        h = (h ^ (uintptr_t)node->attrs[i].name.s) * 0x9E3779B97F4A7C15u;
        if (node->attrs[i].kind == ATTR_TENSOR) h = (h ^ hash_payload(node->attrs[i].tensor)) * 0x9E3779B97F4A7C15u;
    }
    return h;
}

static bool attrs_equal(const Attr *a, const Attr *b) {
    if (a->name.s != b->name.s || a->kind != b->kind || a->n != b->n) return false;
    switch (a->kind) {
    case ATTR_INT: return a->i == b->i;
    case ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case ATTR_STRING: return str_equal(a->s, b->s);
    case ATTR_INTS: return memcmp(a->ints, b->ints, a->n * sizeof *a->ints) == 0;
    case ATTR_FLOATS: return memcmp(a->floats, b->floats, a->n * sizeof *a->floats) == 0;
    case ATTR_TENSOR: return same_payload(a->tensor, b->tensor);
    case ATTR_TYPE: return a->type == b->type;
    default: return false;
    }
}

static bool nodes_equal(const Saturation *s, const Node *a, const Node *b) {
    if (a->op != b->op || a->n_operands != b->n_operands || a->n_attrs != b->n_attrs || a->n_results != b->n_results)
        return false;
    for (uint32_t i = 0; i < a->n_operands; i++) {
        const Value *x = a->operands[i].value, *y = b->operands[i].value;
        if (!x != !y || (x && value_class(&s->classes, x) != value_class(&s->classes, y))) return false;
    }
    for (uint32_t i = 0; i < a->n_attrs; i++)
        if (!attrs_equal(&a->attrs[i], &b->attrs[i])) return false;
    return true;
}

typedef struct Hashed {
    uint64_t hash;
    uint32_t index; /* of the node */
} Hashed;

static int by_hash(const void *x, const void *y) {
    const Hashed *a = x, *b = y;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Equal operands make equal results: found by sorting, again until nothing new follows. */
static tn_status close_once(Saturation *s, Hashed *list, bool *again) {
    size_t n = 0;
    *again = false;
    for (size_t i = 0; i < s->nodes.len; i++)
        if (s->nodes.data[i] && may_be_shared(s->nodes.data[i]))
            list[n++] = (Hashed){hash_of(s, s->nodes.data[i]), (uint32_t)i};
    qsort(list, n, sizeof *list, by_hash);
    for (size_t i = 1; i < n; i++) {
        if (list[i].hash != list[i - 1].hash) continue;
        Node *a = s->nodes.data[list[i - 1].index], *b = s->nodes.data[list[i].index];
        if (!a || !b || !nodes_equal(s, a, b)) continue;
        for (uint32_t k = 0; k < a->n_results; k++) {
            *again |= class_find(&s->classes, a->results[k]->id) != class_find(&s->classes, b->results[k]->id);
            class_union(&s->classes, a->results[k]->id, b->results[k]->id);
        }
    }
    return TN_OK;
}

static tn_status close_classes(Saturation *s) {
    size_t bytes = (s->nodes.len + 1) * sizeof(Hashed);
    Hashed *list = mem_alloc(s->allocator, bytes, alignof(Hashed));
    bool again = true;
    tn_status status = list ? TN_OK : TN_OUT_OF_MEMORY;
    while (again && status == TN_OK) status = close_once(s, list, &again);
    mem_free(s->allocator, list, bytes);
    return status;
}

/* ---- applying rules ------------------------------------------------------------------------------------------ */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static tn_status enter_constant(Saturation *s, Node *node) {
    if (node->n_operands > 0 || !may_be_shared(node) || !value_payload(node_result(node, 0))) return TN_OK;
    uint64_t h = hash_of(s, node);
    uint32_t *head = &s->heads[h % CONSTANT_HEADS];
    TRY(vec_push(s->allocator, &s->constants, (KnownConstant){h, node, *head}));
    *head = (uint32_t)s->constants.len;
    return TN_OK;
}

static Node *find_constant(const Saturation *s, const Node *node) {
    if (!value_payload(node_result(node, 0))) return NULL;
    uint64_t h = hash_of(s, node);
    for (uint32_t i = s->heads[h % CONSTANT_HEADS]; i > 0; i = s->constants.data[i - 1].next) {
        const KnownConstant *k = &s->constants.data[i - 1];
        if (k->hash == h && nodes_equal(s, k->node, node)) return k->node;
    }
    return NULL;
}

/* An equal node that is there already stands in for a new one. */
static Node *find_equal(const Saturation *s, const Node *node) {
    const Value *v = NULL;
    if (!may_be_shared(node)) return NULL;
    if (node->n_operands == 0) return find_constant(s, node);
    for (uint32_t i = 0; i < node->n_operands && !v; i++) v = node->operands[i].value;
    if (!v || v->id >= s->classes.n) return NULL;
    uint32_t first = v->id, id = first;
    do {
        const Value *equal = s->classes.values[id];
        for (const Use *u = equal ? equal->uses : NULL; u; u = u->next)
            if (u->user != node && u->user->graph == s->graph && u->user != s->graph->ret && u->user->id < node->id &&
                nodes_equal(s, u->user, node))
                return u->user;
        id = s->classes.next[id];
    } while (id != first);
    return NULL;
}

/* Of what was built, what is new joins the nodes. */
static tn_status take_in(Saturation *s) {
    for (size_t i = 0; i < s->built.n; i++) {
        Node *node = s->built.nodes[i], *equal = find_equal(s, node);
        if (!equal) {
            TRY(classes_grow(s));
            enter_node(s, node);
            TRY(enter_constant(s, node));
            TRY(vec_push(s->allocator, &s->nodes, node));
            continue;
        }
        for (uint32_t k = 0; k < node->n_results; k++) {
            for (size_t j = 0; j < RULE_VALUES; j++)
                if (s->built.values[j] == node->results[k]) s->built.values[j] = equal->results[k];
            value_replace(node->results[k], equal->results[k]);
        }
        node_erase(node);
    }
    return TN_OK;
}

static tn_status note_unions(Saturation *s, const Match *m) {
    const Rule *r = m->rule;
    for (size_t i = 0; i < r->n_values; i++) {
        if (r->replaced[i] < 0) continue;
        Value *fresh = s->built.values[r->replaced[i]];
        TRY(vec_push(s->allocator, &s->unions, m->values[i]));
        TRY(vec_push(s->allocator, &s->unions, fresh));
    }
    s->result->applied++;
    return TN_OK;
}

static tn_status on_match(void *user, Match *m) {
    Saturation *s = user;
    bool ok;
    if (s->n_matches >= s->limits->max_matches || s->nodes.len >= s->limits->max_nodes) {
        m->budget = 0;
        return TN_OK;
    }
    s->n_matches++;
    TRY(rule_build(m, &s->built, &ok));
    if (!ok) return TN_OK;
    TRY(take_in(s));
    return note_unions(s, m);
}

/* Patterns of nodes that only share operands are there in very many ways once variants of these are, so they are looked
   for in the first iteration only; and no search takes more steps than some. */
enum { JOINT_ITERATIONS = 1, STEPS = 2048 };

static bool may_match(const Saturation *s, const Rule *rule) {
    return !rule->joint || s->result->iterations <= JOINT_ITERATIONS;
}

static tn_status match_root(Saturation *s, Node *root, const Entry *e) {
    bool matched;
    s->match = (Match){.classes = &s->classes, .unordered = true, .each = on_match, .user = s, .budget = STEPS};
    arena_reset(&s->arena);
    return rule_match(e->rule, root, &s->arena, &s->match, &matched);
}

static bool is_over(const Saturation *s) {
    if (s->nodes.len >= s->limits->max_nodes) s->result->stopped = "nodes";
    if (s->most_used && s->graph->model->arena.used > s->most_used) s->result->stopped = "memory";
    if (s->deadline && now_ns() >= s->deadline) s->result->stopped = "time";
    return s->result->stopped != NULL;
}

/* A rule that matches too often is left for the next iteration; nodes made in this one are roots in the next. */
static tn_status iterate(Saturation *s) {
    size_t n = s->nodes.len;
    s->unions.len = 0;
    for (size_t i = 0; i < n && !is_over(s); i++) {
        Node *root = s->nodes.data[i];
        if (!root || !node_is_placed(root)) continue;
        s->n_matches = 0;
        const Entry *e;
        TRY(matcher_rules(s->matcher, root->op, &e));
        for (; e; e = e->next)
            if (may_match(s, e->rule)) TRY(match_root(s, root, e));
    }
    for (size_t i = 0; i + 1 < s->unions.len; i += 2)
        class_union(&s->classes, s->unions.data[i]->id, s->unions.data[i + 1]->id);
    return close_classes(s);
}

static size_t count_classes(Saturation *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->classes.n; i++) n += s->classes.values[i] && s->classes.parent[i] == i;
    return n;
}

static tn_status saturate(Saturation *s) {
    for (Node *n = s->graph->first; n; n = n->next) {
        TRY(vec_push(s->allocator, &s->nodes, n));
        TRY(enter_constant(s, n));
        enter_node(s, n);
    }
    for (size_t i = 0; i < s->graph->inputs.len; i++) enter_value(&s->classes, s->graph->inputs.data[i]);
    s->n_own = s->nodes.len;
    TRY(close_classes(s));
    while (!is_over(s)) {
        size_t nodes = s->nodes.len, classes = count_classes(s);
        if (s->result->iterations >= s->limits->max_iterations) {
            s->result->stopped = "iterations";
            break;
        }
        s->result->iterations++;
        TRY(iterate(s));
        if (!s->result->stopped && s->nodes.len == nodes && count_classes(s) == classes)
            s->result->stopped = "saturated";
    }
    s->result->nodes = s->nodes.len;
    return TN_OK;
}

tn_status saturate_graph(Matcher *matcher, Graph *graph, const RewriteHooks *hooks, const SaturateLimits *limits,
                         SaturateResult *result) {
    const Allocator *a = &graph->model->ctx->allocator;
    Saturation *s = mem_alloc(a, sizeof *s, alignof(Saturation));
    if (!s) return TN_OUT_OF_MEMORY;
    uint64_t structure = graph->model->structure_edits, state = graph->model->state_edits;
    *result = (SaturateResult){.stopped = NULL};
    s->matcher = matcher;
    s->graph = graph;
    s->hooks = hooks;
    s->limits = limits;
    s->result = result;
    s->allocator = a;
    s->most_used = limits->max_bytes ? graph->model->arena.used + limits->max_bytes : 0;
    s->deadline = limits->max_ns ? now_ns() + limits->max_ns : 0;
    arena_init(&s->arena, a);
    tn_status status = classes_grow(s);
    if (status == TN_OK) status = saturate(s);
    if (status == TN_OK) status = saturation_extract(s);
    if (status == TN_OK && !result->changed) { /* what was tried and thrown away is no change */
        graph->model->structure_edits = structure;
        graph->model->state_edits = state;
    }
    arena_free(&s->arena);
    vec_free(a, &s->nodes);
    vec_free(a, &s->unions);
    vec_free(a, &s->constants);
    mem_free(a, s->classes.parent, s->cap * sizeof *s->classes.parent);
    mem_free(a, s->classes.next, s->cap * sizeof *s->classes.next);
    mem_free(a, s->classes.values, s->cap * sizeof *s->classes.values);
    mem_free(a, s->scratch, s->cap * sizeof *s->scratch);
    mem_free(a, s, sizeof *s);
    return status;
}
