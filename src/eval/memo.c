/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator with a memory. A run goes through what the outputs need, in order. What was computed before, it only
   notes; when something else wants such a result that was thrown away meanwhile, it is computed again, and stays for the
   rest of the run, so that no run computes a node more than twice. */
#include "eval/eval_int.h"

/* What a node gave, under its key. */
typedef struct Entry {
    struct Entry *newer, *older; /* of those with results */
    uint64_t key, bytes;
    uint32_t n;
    bool held; /* the results are there */
    uint64_t *contents;
    Tensor *results;
} Entry;

struct Memo {
    Context *ctx;
    Arena arena;
    Map entries;
    Entry *newest, *oldest;
    uint64_t bytes, max_bytes, n_computed;
};

/* What a run knows of a value of its graph. */
typedef struct Slot {
    uint64_t contents;
    Entry *entry;  /* NULL: an input or a constant */
    uint32_t left; /* readers still to come; the outputs are read at the end */
    bool live, random;
} Slot;

struct MemoRun {
    Memo *memo;
    const Graph *graph;
    Arena arena, scratch;
    Evaluator e; /* binds what later nodes of this run read, as far as it is there */
    Keys keys;
    Slot *slots;     /* by value id */
    Nested **nested; /* by node id */
    VEC(const Node *) wanted;
    const Node *failed;
};

/* ---- the memory ---------------------------------------------------------------------------------------------- */

static void unlink_entry(Memo *m, Entry *e) {
    *(e->newer ? &e->newer->older : &m->newest) = e->older;
    *(e->older ? &e->older->newer : &m->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void link_newest(Memo *m, Entry *e) {
    e->older = m->newest;
    *(m->newest ? &m->newest->newer : &m->oldest) = e;
    m->newest = e;
}

static void touch(Memo *m, Entry *e) {
    if (!e->held || m->newest == e) return;
    unlink_entry(m, e);
    link_newest(m, e);
}

static void let_go(Memo *m, Entry *e) {
    unlink_entry(m, e);
    for (uint32_t i = 0; i < e->n; i++) tensor_release(&e->results[i]);
    e->held = false;
    m->bytes -= e->bytes;
}

/* Recursion is bounded by the depth of types. */
static uint64_t bytes_of(const Tensor *t) {
    uint64_t all = t->buffer ? t->buffer->size : 0;
    const Object *object = t->kind != TYPE_TENSOR ? object_of(t) : NULL;
    for (size_t i = 0; object && i < object->n; i++) all += bytes_of(&object->items[i]);
    return all;
}

static tn_status new_entry(Memo *m, uint64_t key, uint32_t n, Entry **out) {
    Entry *e = arena_new(&m->arena, Entry);
    if (!e) return TN_OUT_OF_MEMORY;
    *e = (Entry){.key = key, .n = n};
    e->contents = arena_array(&m->arena, uint64_t, n + 1);
    e->results = arena_array(&m->arena, Tensor, n + 1);
    if (!e->contents || !e->results) return TN_OUT_OF_MEMORY;
    TRY(map_set(&m->entries, (Str){(const char *)&e->key, sizeof e->key}, e));
    *out = e;
    return TN_OK;
}

/* Keeps what the run has bound. */
static void hold(MemoRun *r, Entry *e, const Node *node) {
    Memo *m = r->memo;
    e->bytes = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        e->results[i] = r->e.values[node->results[i]->id];
        buffer_ref(e->results[i].buffer);
        e->bytes += bytes_of(&e->results[i]);
    }
    e->held = true;
    m->bytes += e->bytes;
    link_newest(m, e);
    while (m->oldest && m->bytes > m->max_bytes) let_go(m, m->oldest);
}

tn_status memo_new(Context *ctx, uint64_t max_bytes, Memo **out) {
    Memo *m = mem_alloc(&ctx->allocator, sizeof *m, alignof(Memo));
    if (!m) return TN_OUT_OF_MEMORY;
    *m = (Memo){.ctx = context_ref(ctx), .max_bytes = max_bytes};
    arena_init(&m->arena, &ctx->allocator);
    map_init(&m->entries, &ctx->allocator);
    *out = m;
    return TN_OK;
}

void memo_free(Memo *m) {
    if (!m) return;
    Context *ctx = m->ctx;
    while (m->oldest) let_go(m, m->oldest);
    map_free(&m->entries);
    arena_free(&m->arena);
    mem_free(&ctx->allocator, m, sizeof *m);
    context_unref(ctx);
}

uint64_t memo_n_computed(const Memo *m) { return m->n_computed; }

/* ---- what a node reads --------------------------------------------------------------------------------------- */

static size_t n_reads(const MemoRun *r, const Node *node) {
    const Nested *nested = r->nested[node->id];
    return node->n_operands + (nested ? nested->n : 0);
}

static const Value *read_at(const MemoRun *r, const Node *node, size_t i) {
    return i < node->n_operands ? node->operands[i].value : r->nested[node->id]->captures[i - node->n_operands];
}

static bool is_live(const MemoRun *r, const Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++)
        if (r->slots[node->results[i]->id].live) return true;
    return false;
}

static void add_reader(MemoRun *r, const Value *v) {
    r->slots[v->id].left++;
    r->slots[v->id].live = true;
}

/* From the last node to the first, so that readers are known before what they read. */
static tn_status count_readers(MemoRun *r) {
    for (size_t i = 0; i < graph_n_outputs(r->graph); i++) add_reader(r, graph_output(r->graph, i));
    for (const Node *node = r->graph->last; node; node = node->prev) {
        if (!is_live(r, node)) continue;
        TRY(keys_nested(&r->keys, node, &r->nested[node->id]));
        for (size_t i = 0; i < n_reads(r, node); i++)
            if (read_at(r, node, i)) add_reader(r, read_at(r, node, i));
    }
    return TN_OK;
}

/* ---- making values available --------------------------------------------------------------------------------- */

static bool has(const MemoRun *r, const Value *v) { return r->e.have[v->id]; }

/* Without computing anything, if that is possible. */
static tn_status bind_if_there(MemoRun *r, const Value *v) {
    const Slot *slot = &r->slots[v->id];
    const Tensor *payload = value_constant(v);
    if (has(r, v)) return TN_OK;
    if (payload) return evaluator_bind_constant(&r->e, v, payload);
    if (!slot->entry || !slot->entry->held) return TN_OK;
    touch(r->memo, slot->entry);
    evaluator_bind(&r->e, v, &slot->entry->results[v->index], false);
    return TN_OK;
}

static tn_status run_node(MemoRun *r, const Node *node) {
    r->memo->n_computed++;
    tn_status status = evaluator_node(&r->e, node);
    if (status != TN_OK) r->failed = node;
    return status;
}

/* Pushes what the node reads and is not there. */
static tn_status want_operands(MemoRun *r, const Node *node) {
    for (size_t i = 0; i < n_reads(r, node); i++) {
        const Value *v = read_at(r, node, i);
        if (!v) continue;
        TRY(bind_if_there(r, v));
        if (!has(r, v)) TRY(vec_push(&r->memo->ctx->allocator, &r->wanted, v->def));
    }
    return TN_OK;
}

static bool is_there(const MemoRun *r, const Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++)
        if (!has(r, node->results[i])) return false;
    return true;
}

/* Computes what was thrown away, on a stack of its own, operands first. */
static tn_status compute_wanted(MemoRun *r) {
    while (r->wanted.len > 0) {
        size_t n = r->wanted.len;
        const Node *node = r->wanted.data[n - 1];
        Entry *entry = r->slots[node->results[0]->id].entry;
        if (!is_there(r, node)) {
            TRY(want_operands(r, node));
            if (r->wanted.len > n) continue;
            TRY(run_node(r, node));
            for (uint32_t i = 0; i < node->n_results; i++) r->slots[node->results[i]->id].left++;
            if (!entry->held) hold(r, entry, node);
        }
        r->wanted.len--;
    }
    return TN_OK;
}

/* The node stands for the first run of its results: nothing is known of them but the key. */
static tn_status compute(MemoRun *r, const Node *node, uint64_t key, Entry **out) {
    TRY(want_operands(r, node));
    TRY(compute_wanted(r));
    TRY(run_node(r, node));
    Entry *entry;
    TRY(new_entry(r->memo, key, node->n_results, &entry));
    for (uint32_t i = 0; i < node->n_results; i++)
        TRY(tensor_contents(r->memo->ctx, &r->scratch, &r->e.values[node->results[i]->id], &entry->contents[i]));
    hold(r, entry, node);
    *out = entry;
    return TN_OK;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static uint64_t contents_of(void *user, const Value *v) { return ((const MemoRun *)user)->slots[v->id].contents; }

static void was_read(MemoRun *r, const Value *v) {
    Slot *slot = &r->slots[v->id];
    if (--slot->left == 0) evaluator_drop(&r->e, v);
}

static tn_status note_random(MemoRun *r, const Node *node) {
    bool random = false;
    TRY(keys_note_random(&r->keys, node, &random));
    if (r->nested[node->id]) random |= r->nested[node->id]->random;
    for (size_t i = 0; i < n_reads(r, node); i++)
        if (read_at(r, node, i)) random |= r->slots[read_at(r, node, i)->id].random;
    for (uint32_t i = 0; i < node->n_results; i++) r->slots[node->results[i]->id].random |= random;
    return TN_OK;
}

static tn_status step(MemoRun *r, const Node *node) {
    const Tensor *payload = value_constant(node_result(node, 0));
    uint64_t key;
    if (payload) return tensor_contents(r->memo->ctx, &r->scratch, payload, &r->slots[node->results[0]->id].contents);
    TRY(keys_node(&r->keys, node, r->nested[node->id], contents_of, r, &key));
    Entry *entry = map_get(&r->memo->entries, (Str){(const char *)&key, sizeof key});
    if (entry) touch(r->memo, entry);
    else TRY(compute(r, node, key, &entry));
    for (uint32_t i = 0; i < node->n_results; i++) {
        Slot *slot = &r->slots[node->results[i]->id];
        slot->entry = entry;
        slot->contents = entry->contents[i];
        if (slot->left == 0) evaluator_drop(&r->e, node->results[i]);
    }
    for (size_t i = 0; i < n_reads(r, node); i++)
        if (read_at(r, node, i)) was_read(r, read_at(r, node, i));
    return note_random(r, node);
}

static tn_status bind_inputs(MemoRun *r, const Tensor *const *inputs) {
    const Graph *g = r->graph;
    for (size_t i = 0; i < g->inputs.len; i++) {
        const Value *v = g->inputs.data[i];
        const Tensor *t = inputs && inputs[i] ? inputs[i] : graph_input_default(g, i);
        if (!t) return fail(TN_INVALID_ARGUMENT, "input \"%s\" is missing", v->name.n ? v->name.s : "");
        TRY(tensor_contents(r->memo->ctx, &r->scratch, t, &r->slots[v->id].contents));
        if (inputs && inputs[i]) evaluator_bind(&r->e, v, t, false);
        else TRY(evaluator_bind_constant(&r->e, v, t));
        r->slots[v->id].left++; /* stays: there is no way to make it again */
    }
    return TN_OK;
}

static tn_status run_all(MemoRun *r, const Tensor *const *inputs) {
    const Model *model = r->graph->model;
    TRY(evaluator_init(&r->e, model, &r->arena, &r->scratch));
    TRY(keys_init(&r->keys, r->graph, &r->arena, &r->scratch));
    r->slots = arena_array(&r->arena, Slot, model->n_values + 1);
    r->nested = arena_array(&r->arena, Nested *, model->n_nodes + 1);
    if (!r->slots || !r->nested) return TN_OUT_OF_MEMORY;
    TRY(bind_inputs(r, inputs));
    TRY(count_readers(r));
    for (const Node *node = r->graph->first; node; node = node->next)
        if (is_live(r, node)) TRY(step(r, node));
    return TN_OK;
}

tn_status memo_run(Memo *memo, const Graph *graph, const Tensor *const *inputs, MemoRun **out, const Node **failed) {
    MemoRun *r = mem_alloc(&memo->ctx->allocator, sizeof *r, alignof(MemoRun));
    *failed = NULL;
    if (!r) return TN_OUT_OF_MEMORY;
    *r = (MemoRun){.memo = memo, .graph = graph};
    arena_init(&r->arena, &memo->ctx->allocator);
    arena_init(&r->scratch, &memo->ctx->allocator);
    r->keys.ctx = memo->ctx;
    tn_status status = run_all(r, inputs);
    *failed = r->failed;
    if (status == TN_OK) *out = r;
    else memo_run_free(r);
    return status;
}

void memo_run_free(MemoRun *r) {
    if (!r) return;
    const Allocator *a = &r->memo->ctx->allocator;
    if (r->e.values && r->e.have) evaluator_drop_graph(&r->e, r->graph);
    keys_free(&r->keys);
    vec_free(a, &r->wanted);
    arena_free(&r->scratch);
    arena_free(&r->arena);
    mem_free(a, r, sizeof *r);
}

/* ---- asking -------------------------------------------------------------------------------------------------- */

bool memo_has(const MemoRun *r, const Value *v) { return v->graph == r->graph && r->slots[v->id].live; }
uint64_t memo_contents(const MemoRun *r, const Value *v) { return r->slots[v->id].contents; }
bool memo_is_random(const MemoRun *r, const Value *v) { return r->slots[v->id].random; }
uint64_t memo_random(const MemoRun *r) { return keys_random(&((MemoRun *)r)->keys); }

tn_status memo_value(MemoRun *r, const Value *v, Tensor *out) {
    TRY(bind_if_there(r, v));
    if (!has(r, v)) TRY(vec_push(&r->memo->ctx->allocator, &r->wanted, v->def));
    TRY(compute_wanted(r));
    return tensor_keep(r->memo->ctx, &r->e.values[v->id], out);
}
