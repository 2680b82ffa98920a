/* SPDX-License-Identifier: Apache-2.0 */
/* share-subexpressions: nodes that compute the same from the same become one. A node of a nested graph may give way to
   one of a graph around it that stands before the owner, never the other way round. Equal hashes are only a reason to
   compare everything: op, operands, and attributes of all kinds. */
#include "ops/op.h"
#include "pass/pass.h"
#include "rewrite/rewrite.h"

typedef struct Slot {
    uint64_t hash;
    Node *node; /* NULL: free */
} Slot;

typedef struct Sharing {
    PassRun *run;
    Slot *slots;
    size_t n_slots;
    VEC(uint64_t) words; /* that the hash of a node is made of */
    int64_t n_shared;
} Sharing;

/* ---- hashes -------------------------------------------------------------------------------------------------- */

static uint64_t hash_text(Str s) { return hash_bytes(s.n ? s.s : "", s.n); }

static uint64_t hash_of_tensor(const Tensor *t) {
    if (!t) return 0;
    return hash_bytes(t->dims, (size_t)t->rank * sizeof *t->dims) ^ (uint64_t)t->dtype;
}

/* Elements of lists of pointers and text are left to the comparison. */
static uint64_t hash_attr(const Attr *a) {
    switch (a->kind) {
    case ATTR_INT: return (uint64_t)a->i;
    case ATTR_FLOAT: return hash_bytes(&a->f, sizeof a->f);
    case ATTR_STRING: return hash_text(a->s);
    case ATTR_TENSOR: return hash_of_tensor(a->tensor);
    case ATTR_TYPE: return (uint64_t)(uintptr_t)a->type;
    case ATTR_INTS: return hash_bytes(a->ints, a->n * sizeof *a->ints);
    case ATTR_FLOATS: return hash_bytes(a->floats, a->n * sizeof *a->floats);
    case ATTR_STRINGS: return a->n ? hash_text(a->strings[0]) : 0;
    default: return a->n;
    }
}

static tn_status add_word(Sharing *s, uint64_t word) { return vec_push(&s->run->ctx->allocator, &s->words, word); }

static uint64_t id_of(const Value *value) { return value ? (uint64_t)value->id + 1 : 0; }

static tn_status hash_node(Sharing *s, const Node *node, uint64_t *hash) {
    s->words.len = 0;
    TRY(add_word(s, (uint64_t)(uintptr_t)node->op));
    TRY(add_word(s, (uint64_t)node->n_operands << 32 | node->n_results));
    for (uint32_t i = 0; i < node->n_operands; i++) TRY(add_word(s, id_of(node->operands[i].value)));
    if (node_may_swap(node) && s->words.data[2] > s->words.data[3]) {
        uint64_t first = s->words.data[2];
        s->words.data[2] = s->words.data[3];
        s->words.data[3] = first;
    }
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        TRY(add_word(s, (uint64_t)(uintptr_t)node->attrs[i].name.s));
        TRY(add_word(s, hash_attr(&node->attrs[i])));
    }
    *hash = hash_bytes(s->words.data, s->words.len * sizeof *s->words.data);
    return TN_OK;
}

static uint64_t hash_in(uint64_t hash, const Graph *graph) {
    uint64_t words[] = {hash, (uint64_t)(uintptr_t)graph};
    return hash_bytes(words, sizeof words);
}

/* ---- equality ------------------------------------------------------------------------------------------------ */

static bool same_strings(const Attr *a, const Attr *b) {
    for (size_t i = 0; i < a->n; i++)
        if (!str_equal(a->strings[i], b->strings[i])) return false;
    return true;
}

static bool same_tensors(const Attr *a, const Attr *b) {
    for (size_t i = 0; i < a->n; i++)
        if (!same_payload(a->tensors[i], b->tensors[i])) return false;
    return true;
}

static bool same_lists(const Attr *a, const Attr *b) {
    for (size_t i = 0; i < a->n; i++) {
        const IntList *x = &a->lists[i], *y = &b->lists[i];
        if (x->n != y->n || (x->n && memcmp(x->data, y->data, x->n * sizeof *x->data) != 0)) return false;
    }
    return true;
}

static bool same_words(const void *a, const void *b, size_t bytes) { return bytes == 0 || memcmp(a, b, bytes) == 0; }

/* Nested graphs are never equal, nor is a kind that is not known here. */
static bool same_attr(const Attr *a, const Attr *b) {
    if (a->kind != b->kind || !str_equal(a->name, b->name)) return false;
    switch (a->kind) {
    case ATTR_INT: return a->i == b->i;
    case ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case ATTR_STRING: return str_equal(a->s, b->s);
    case ATTR_TENSOR: return same_payload(a->tensor, b->tensor);
    case ATTR_TYPE: return a->type == b->type;
    default: break;
    }
    if (a->n != b->n) return false;
    switch (a->kind) {
    case ATTR_INTS: return same_words(a->ints, b->ints, a->n * sizeof *a->ints);
    case ATTR_FLOATS: return same_words(a->floats, b->floats, a->n * sizeof *a->floats);
    case ATTR_STRINGS: return same_strings(a, b);
    case ATTR_TENSORS: return same_tensors(a, b);
    case ATTR_TYPES: return same_words(a->types, b->types, a->n * sizeof(Type *));
    case ATTR_INT_LISTS: return same_lists(a, b);
    default: return false;
    }
}

static bool same_operands(const Node *a, const Node *b) {
    bool swapped = node_may_swap(a) && a->operands[0].value == b->operands[1].value &&
                   a->operands[1].value == b->operands[0].value;
    for (uint32_t i = swapped ? 2 : 0; i < a->n_operands; i++)
        if (a->operands[i].value != b->operands[i].value) return false;
    return true;
}

static bool same_node(const Node *a, const Node *b) {
    if (a->op != b->op || a->n_operands != b->n_operands || a->n_results != b->n_results || a->n_attrs != b->n_attrs)
        return false;
    if (!same_operands(a, b)) return false;
    for (uint32_t i = 0; i < a->n_attrs; i++)
        if (!same_attr(&a->attrs[i], &b->attrs[i])) return false;
    return true;
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

static Slot *find_slot(const Sharing *s, uint64_t hash, const Node *node, const Graph *graph) {
    for (size_t i = hash;; i++) {
        Slot *slot = &s->slots[i & (s->n_slots - 1)];
        if (!slot->node) return slot;
        if (slot->hash == hash && slot->node->graph == graph && same_node(slot->node, node)) return slot;
    }
}

/* The first equal node that may be read where `node` stands. */
static Node *equal_before(const Sharing *s, const Node *node, uint64_t hash) {
    const Node *place = node;
    for (const Graph *g = node->graph; g; place = g->owner, g = place ? place->graph : NULL) {
        Node *found = find_slot(s, hash_in(hash, g), node, g)->node;
        if (found && node_comes_before(found, place)) return found;
        if (graph_is_closed(g)) break;
    }
    return NULL;
}

/* What either says of a result holds for both. Types that contradict each other are left alone. */
static tn_status merge_types(Sharing *s, Node *node, Node *with, bool *ok) {
    *ok = true;
    for (uint32_t i = 0; i < node->n_results && *ok; i++) {
        const Type *merged;
        tn_status status = type_merge(s->run->model, with->results[i]->type, node->results[i]->type, &merged);
        if (status == TN_OUT_OF_MEMORY) return status;
        *ok = status == TN_OK;
        if (*ok) value_set_type(with->results[i], merged);
    }
    if (!*ok) diag_clear();
    return TN_OK;
}

static tn_status visit(Sharing *s, Node *node) {
    uint64_t hash;
    bool ok;
    if (!op_is_pure(node->op) || node_is_random(node) || value_payload(node_result(node, 0)) || !node_is_read(node))
        return TN_OK;
    TRY(hash_node(s, node, &hash));
    Node *found = equal_before(s, node, hash);
    if (!found) {
        Slot *slot = find_slot(s, hash_in(hash, node->graph), node, node->graph);
        *slot = (Slot){hash_in(hash, node->graph), node};
        return TN_OK;
    }
    if (!pass_may_change(s->run)) return TN_OK;
    TRY(merge_types(s, node, found, &ok));
    if (!ok) return TN_OK;
    for (uint32_t i = 0; i < node->n_results; i++) TRY(replace_value(node->results[i], found->results[i]));
    node_erase(node);
    s->n_shared++;
    return TN_OK;
}

/* Graphs around come first. */
static tn_status share_all(Sharing *s) {
    Graph **graphs;
    size_t n;
    PassRun *run = s->run;
    TRY(model_graphs(run->model, run->scratch, &graphs, &n));
    for (s->n_slots = 16; s->n_slots < 2 * model_node_count(run->model);) s->n_slots *= 2;
    s->slots = arena_array(run->scratch, Slot, s->n_slots);
    if (!s->slots) return TN_OUT_OF_MEMORY;
    for (size_t i = n; i-- > 0;)
        for (Node *node = graphs[i]->first, *next; node; node = next) {
            next = node->next;
            TRY(visit(s, node));
        }
    return TN_OK;
}

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    Sharing s = {.run = run};
    tn_status status = share_all(&s);
    vec_free(&run->ctx->allocator, &s.words);
    return status == TN_OK ? pass_count(run, "shared", s.n_shared) : status;
}

const Pass pass_share_subexpressions = {.name = "share-subexpressions",
                                        .summary = "compute once what is computed twice",
                                        .phase = PHASE_PRE_PLACEMENT,
                                        .order = 90,
                                        .opt_level = 1,
                                        .keeps = {"infer-shapes"},
                                        .run = run};
