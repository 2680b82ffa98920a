/* SPDX-License-Identifier: Apache-2.0 */
/* share-constants: constants of equal type and bytes become one, and those of other shapes at least share their memory.
   Nested graphs read the constant of a graph around them. Bytes are read only where a few samples of them agree. */
#include "pass/pass.h"
#include "rewrite/rewrite.h"

#include <stdlib.h>

typedef struct Constant {
    Node *node; /* NULL: replaced */
    Tensor *payload;
    size_t bytes;
    uint64_t sample, contents; /* hashes of bytes, the first of a few of them */
} Constant;

/* Hash tables of numbers of constants, +1: by what they hold and the graph they stand in, and by bytes alone. */
typedef struct Table {
    uint32_t *slots;
    uint64_t *hashes;
    size_t n_slots;
} Table;

typedef struct Sharing {
    PassRun *run;
    Constant *all;
    size_t n;
    Table by_graph, by_bytes;
    VEC(Tensor *) dropped;
    int64_t n_shared, n_memory, saved;
} Sharing;

/* ---- contents ------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t words[] = {a, b};
    return hash_bytes(words, sizeof words);
}

static uint64_t hash_strings(const Tensor *t) {
    RcString *const *strings = tensor_bytes(t);
    uint64_t h = (uint64_t)tensor_count(t);
    for (int64_t i = 0; i < tensor_count(t); i++) {
        Str s = rc_string_get(strings[i]);
        h = mix(h, hash_bytes(s.n ? s.s : "", s.n));
    }
    return h;
}

static uint64_t hash_all(const Constant *c) {
    if (c->payload->dtype == TN_STRING) return hash_strings(c->payload);
    return c->bytes ? hash_bytes(tensor_bytes(c->payload), c->bytes) : 0;
}

/* Three pieces, so that weights that differ are told apart without reading them. */
static uint64_t hash_sample(const Constant *c) {
    enum { PIECE = 64 };
    uint64_t h = c->bytes;
    if (c->payload->dtype == TN_STRING || c->bytes <= 4 * PIECE) return mix(h, hash_all(c));
    const char *data = tensor_bytes(c->payload);
    const size_t at[] = {0, c->bytes / 2, c->bytes - PIECE};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) h = mix(h, hash_bytes(data + at[i], PIECE));
    return h;
}

static bool same_bytes(const Constant *a, const Constant *b) {
    if (a->bytes != b->bytes || a->payload->dtype == TN_STRING || b->payload->dtype == TN_STRING) return false;
    const void *x = tensor_bytes(a->payload), *y = tensor_bytes(b->payload);
    return x == y || memcmp(x, y, a->bytes) == 0;
}

static uint64_t hash_of_type(const Tensor *t) {
    return mix((uint64_t)t->dtype << 8 | (uint64_t)t->rank, hash_bytes(t->dims, (size_t)t->rank * sizeof *t->dims));
}

/* ---- tables -------------------------------------------------------------------------------------------------- */

static tn_status table_init(Table *t, Arena *arena, size_t n) {
    t->n_slots = 16;
    while (t->n_slots < 2 * n) t->n_slots *= 2;
    t->slots = arena_array(arena, uint32_t, t->n_slots);
    t->hashes = arena_array(arena, uint64_t, t->n_slots);
    return t->slots && t->hashes ? TN_OK : TN_OUT_OF_MEMORY;
}

static void table_add(Table *t, uint64_t hash, size_t index) {
    size_t i = hash & (t->n_slots - 1);
    while (t->slots[i]) i = (i + 1) & (t->n_slots - 1);
    t->slots[i] = (uint32_t)index + 1;
    t->hashes[i] = hash;
}

/* Calls with *at 0 at first; the next of that hash, or NULL. */
static Constant *table_next(const Sharing *s, const Table *t, uint64_t hash, size_t *at) {
    for (; *at < t->n_slots; ++*at) {
        size_t i = (hash + *at) & (t->n_slots - 1);
        if (!t->slots[i]) return NULL;
        if (t->hashes[i] != hash) continue;
        ++*at;
        return &s->all[t->slots[i] - 1];
    }
    return NULL;
}

/* ---- one constant -------------------------------------------------------------------------------------------- */

static uint64_t place_hash(const Constant *c, const Graph *graph) {
    return mix(mix(c->contents, hash_of_type(c->payload)), (uint64_t)(uintptr_t)graph);
}

static Constant *equal_in(const Sharing *s, const Constant *c, const Graph *graph) {
    uint64_t hash = place_hash(c, graph);
    size_t at = 0;
    Constant *found;
    while ((found = table_next(s, &s->by_graph, hash, &at)))
        if (found->node->graph == graph && same_payload(found->payload, c->payload)) return found;
    return NULL;
}

/* Constants read nothing, so one of a graph around may move to where all of this graph can read it. */
static void make_visible(Node *constant, const Graph *graph) {
    while (graph->owner && graph->owner->graph != constant->graph) graph = graph->owner->graph;
    if (graph->owner && node_comes_before(graph->owner, constant)) node_move_before(constant, graph->owner);
}

static tn_status replace(Sharing *s, Constant *c, const Constant *with) {
    if (with->node->graph != c->node->graph) make_visible(with->node, c->node->graph);
    TRY(replace_value(c->node->results[0], with->node->results[0]));
    TRY(vec_push(&s->run->ctx->allocator, &s->dropped, c->payload));
    node_erase(c->node);
    c->node = NULL;
    s->n_shared++;
    s->saved += (int64_t)c->bytes;
    return TN_OK;
}

static bool may_read_there(const Tensor *t, const Tensor *other) {
    Tensor moved = *t;
    moved.data = tensor_bytes(other);
    return !tensor_is_misaligned(&moved) || tensor_is_misaligned(t);
}

static Constant *equal_bytes(const Sharing *s, const Constant *c) {
    size_t at = 0;
    Constant *found;
    while ((found = table_next(s, &s->by_bytes, c->contents, &at)))
        if (same_bytes(found, c) && may_read_there(c->payload, found->payload)) return found;
    return NULL;
}

static tn_status share_memory(Sharing *s, Constant *c, const Tensor *with) {
    if (tensor_bytes(with) == tensor_bytes(c->payload) || !pass_may_change(s->run)) return TN_OK;
    Buffer *buffer = buffer_ref(with->buffer);
    void *data = tensor_bytes(with);
    tensor_release(c->payload);
    c->payload->buffer = buffer;
    c->payload->data = data;
    c->payload->offset = 0;
    s->n_memory++;
    s->saved += (int64_t)c->bytes;
    return node_set_tensor(c->node, "data", c->payload);
}

static tn_status share(Sharing *s, Constant *c) {
    const Constant *found = NULL;
    c->contents = hash_all(c);
    for (const Graph *g = c->node->graph; g && !found; g = graph_is_closed(g) ? NULL : graph_around(g))
        found = equal_in(s, c, g);
    if (found) return pass_may_change(s->run) ? replace(s, c, found) : TN_OK;
    table_add(&s->by_graph, place_hash(c, c->node->graph), (size_t)(c - s->all));
    if (c->bytes == 0) return TN_OK;
    found = equal_bytes(s, c);
    if (found) return share_memory(s, c, found->payload);
    table_add(&s->by_bytes, c->contents, (size_t)(c - s->all));
    return TN_OK;
}

/* ---- all of them --------------------------------------------------------------------------------------------- */

static tn_status collect(Sharing *s, const Graph *graph) {
    for (Node *node = graph->first; node; node = node->next) {
        Constant c = {.node = node, .payload = (Tensor *)value_payload(node_result(node, 0))};
        if (!c.payload || !tensor_is_dense(c.payload) || (!c.payload->data && tensor_count(c.payload) > 0)) continue;
        if (buffer_is_lazy(c.payload->buffer)) continue; /* weights of this node alone, not there to be compared */
        if (!dtype_size(c.payload->dtype) && c.payload->offset) continue;
        TRY(checked_bytes(c.payload->dtype, tensor_count(c.payload), &c.bytes));
        c.sample = hash_sample(&c);
        s->all[s->n++] = c;
    }
    return TN_OK;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Samples that more than one constant has, sorted. */
static tn_status repeated_samples(const Sharing *s, uint64_t **out, size_t *n) {
    uint64_t *list = arena_array(s->run->scratch, uint64_t, s->n + 1);
    if (!list) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < s->n; i++) list[i] = s->all[i].sample;
    if (s->n) qsort(list, s->n, sizeof *list, by_number);
    *n = 0;
    for (size_t i = 1; i < s->n; i++)
        if (list[i] == list[i - 1] && (*n == 0 || list[*n - 1] != list[i])) list[(*n)++] = list[i];
    *out = list;
    return TN_OK;
}

static tn_status share_all(Sharing *s) {
    Graph **graphs;
    size_t n, n_repeated;
    uint64_t *repeated;
    Arena *arena = s->run->scratch;
    TRY(model_graphs(s->run->model, arena, &graphs, &n));
    s->all = arena_array(arena, Constant, model_node_count(s->run->model) + 1);
    if (!s->all) return TN_OUT_OF_MEMORY;
    for (size_t i = n; i-- > 0;) TRY(collect(s, graphs[i]));
    TRY(table_init(&s->by_graph, arena, s->n));
    TRY(table_init(&s->by_bytes, arena, s->n));
    TRY(repeated_samples(s, &repeated, &n_repeated));
    for (size_t i = 0; i < s->n; i++)
        if (n_repeated && bsearch(&s->all[i].sample, repeated, n_repeated, sizeof *repeated, by_number))
            TRY(share(s, &s->all[i]));
    return TN_OK;
}

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    Sharing s = {.run = run};
    int64_t n_released = 0;
    tn_status status = share_all(&s);
    if (status == TN_OK)
        status = release_payloads(run->model, run->scratch, s.dropped.data, s.dropped.len, &n_released);
    vec_free(&run->ctx->allocator, &s.dropped);
    if (status != TN_OK) return status;
    TRY(pass_count(run, "shared", s.n_shared));
    if (s.n_memory) TRY(pass_count(run, "memory shared", s.n_memory));
    return pass_count(run, "bytes saved", s.saved);
}

const Pass pass_share_constants = {.name = "share-constants",
                                   .summary = "make equal constants one, and equal bytes share memory",
                                   .phase = PHASE_PRE_PLACEMENT,
                                   .order = 80,
                                   .opt_level = 1,
                                   .keeps = {"infer-shapes"},
                                   .run = run};
