/* SPDX-License-Identifier: Apache-2.0 */
/* Models: what they own, interned text, names and ids. */
#include "ir/ir_int.h"

static void *vector_alloc(void *arena, size_t size, size_t align) { return arena_alloc(arena, size, align); }
static void vector_free(void *arena, void *ptr, size_t size) { (void)arena, (void)ptr, (void)size; }

tn_status model_new(Context *ctx, Model **out) {
    ModelStore *store = mem_alloc(&ctx->allocator, sizeof *store, alignof(ModelStore));
    if (!store) return TN_OUT_OF_MEMORY;
    Model *model = &store->model;
    model->ctx = context_ref(ctx);
    arena_init(&model->arena, &ctx->allocator);
    arena_init(&store->texts, &ctx->allocator);
    dim_table_init(&model->dims, &model->arena);
    map_init(&model->strings, &ctx->allocator);
    map_init(&store->name_next, &ctx->allocator);
    store->arena_vectors = (Allocator){vector_alloc, vector_free, &model->arena};
    Shape unknown = shape_unknown();
    model->type_any = type_tensor(model, TN_UNDEFINED, &unknown);
    tn_status status = model->type_any ? TN_OK : TN_OUT_OF_MEMORY;
    if (status == TN_OK) status = graph_new(model, NULL, STR("main"), &model->main);
    if (status != TN_OK) {
        model_free(model);
        return status;
    }
    *out = model;
    return TN_OK;
}

void model_free(Model *model) {
    if (!model) return;
    Context *ctx = model->ctx;
    const Allocator *a = &ctx->allocator;
    for (size_t i = 0; i < model->tensors.len; i++) tensor_release(model->tensors.data[i]);
    for (size_t i = 0; i < model->buffers.len; i++) buffer_unref(model->buffers.data[i]);
    vec_free(a, &model->tensors);
    vec_free(a, &model->buffers);
    vec_free(a, &model->types);
    vec_free(a, &model->graphs);
    vec_free(a, &model->metadata);
    mem_free(a, model->type_slots, model->n_type_slots * sizeof *model->type_slots);
    map_free(&model->strings);
    map_free(&model_store(model)->name_next);
    vec_free(a, &model_store(model)->loose);
    dim_table_free(&model->dims);
    arena_free(&model->arena);
    arena_free(&model_store(model)->texts);
    mem_free(a, model, sizeof(ModelStore));
    context_unref(ctx);
}

/* A name is looked up for its text and for its value at once, so both stand behind one entry. */
typedef struct Interned {
    Value *value;  /* that has it as its name */
    size_t number; /* of its entry, which never moves: no text is ever removed */
    char text[];
} Interned;

static Interned *interned_of(Str s) { return (Interned *)(s.s - offsetof(Interned, text)); }

static Interned *interned_new(Model *model, Str s, size_t number) {
    Interned *fresh = arena_alloc(&model_store(model)->texts, sizeof *fresh + s.n + 1, alignof(Interned));
    if (!fresh) return NULL;
    memcpy(fresh->text, s.s, s.n);
    fresh->number = number;
    return fresh;
}

Str model_str(Model *model, Str s) {
    if (s.n == 0) return STR("");
    Arena *texts = &model_store(model)->texts;
    ArenaMark mark = arena_mark(texts);
    Interned *fresh = interned_new(model, s, model->strings.len);
    MapEntry *entry = fresh ? map_entry(&model->strings, s) : NULL;
    if (!entry) return (Str){NULL, 0};
    if (entry->value) { /* it was there */
        arena_release(texts, mark);
        return entry->key;
    }
    entry->key = (Str){fresh->text, s.n};
    entry->value = fresh;
    return entry->key;
}

tn_status model_copy_strings(Model *to, const Model *from) {
    map_free(&to->strings); /* the name of its empty graph */
    TRY(map_clone(&to->strings, &from->strings));
    for (size_t i = 0; i < to->strings.len; i++) {
        MapEntry *entry = &to->strings.entries[i];
        Interned *fresh = interned_new(to, entry->key, i);
        if (!fresh) {
            to->strings.len = i; /* the others are not ours */
            return TN_OUT_OF_MEMORY;
        }
        entry->key.s = fresh->text;
        entry->value = fresh;
    }
    return TN_OK;
}

Str model_same_str(const Model *to, Str s) { return s.n ? to->strings.entries[interned_of(s)->number].key : STR(""); }

Value *model_value(const Model *model, Str name) {
    const Interned *found = name.n ? map_get(&model->strings, name) : NULL;
    return found ? found->value : NULL;
}

tn_status model_keep(Model *model, Buffer *buffer) {
    TRY(vec_push(model_allocator(model), &model->buffers, buffer));
    buffer_ref(buffer);
    return TN_OK;
}

tn_status model_tensor(Model *model, Tensor **out) {
    Tensor *t = arena_new(&model->arena, Tensor);
    if (!t) return TN_OUT_OF_MEMORY;
    TRY(vec_push(model_allocator(model), &model->tensors, t));
    *out = t;
    return TN_OK;
}

tn_status model_set_metadata(Model *model, Str key, Str value) {
    Str k = model_str(model, key), v = model_str(model, value);
    if (!k.s || !v.s) return TN_OUT_OF_MEMORY;
    model->state_edits++;
    for (size_t i = 0; i + 1 < model->metadata.len; i += 2) {
        if (model->metadata.data[i].s != k.s) continue;
        model->metadata.data[i + 1] = v;
        return TN_OK;
    }
    TRY(vec_reserve(model_allocator(model), &model->metadata, model->metadata.len + 2));
    model->metadata.data[model->metadata.len++] = k;
    model->metadata.data[model->metadata.len++] = v;
    return TN_OK;
}

Str model_metadata(const Model *model, Str key) {
    for (size_t i = 0; i + 1 < model->metadata.len; i += 2)
        if (str_equal(model->metadata.data[i], key)) return model->metadata.data[i + 1];
    return (Str){NULL, 0};
}

size_t model_node_count(const Model *model) {
    return (size_t)(model_store(model)->n_live - model_store(model)->n_returns);
}

static void number_values(Model *model, Value *const *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i]->id = model->n_values++;
}

static tn_status number_graph(Model *model, Graph *graph, bool only_look) {
    Walk walk;
    WalkEvent event = WALK_ENTER;
    walk_init(&walk, model_allocator(model), graph);
    tn_status status = walk_next(&walk, &event);
    for (; status == TN_OK && event != WALK_END; status = walk_next(&walk, &event)) {
        if (only_look) continue;
        if (event == WALK_ENTER) number_values(model, walk.graph->inputs.data, walk.graph->inputs.len);
        if (event == WALK_BEFORE) walk.node->id = model->n_nodes++;
        if (event == WALK_BEFORE) number_values(model, walk.node->results, walk.node->n_results);
        if (event == WALK_LEAVE) walk.graph->ret->id = model->n_nodes++;
    }
    walk_free(&walk);
    return status;
}

static tn_status number_all(Model *model, bool only_look) {
    ModelStore *store = model_store(model);
    TRY(number_graph(model, model->main, only_look));
    for (size_t i = 0; i < store->loose.len; i++) {
        Graph *graph = store->loose.data[i];
        if (!graph->owner && graph_is_alive(graph)) TRY(number_graph(model, graph, only_look));
    }
    return TN_OK;
}

/* First a walk that only looks, so that nothing has changed when memory runs out. */
tn_status model_compact_ids(Model *model) {
    TRY(number_all(model, true));
    model->n_values = model->n_nodes = 0;
    return number_all(model, false);
}

/* ---- names of values ----------------------------------------------------------------------------------------- */

bool value_owns_name(const Value *value) { return interned_of(value->name)->value == value; }

void value_drop_name(Value *value) {
    if (value->name.n && interned_of(value->name)->value == value) interned_of(value->name)->value = NULL;
    value->name = (Str){NULL, 0};
}

static void take_name(Value *value, Str interned) {
    value_drop_name(value);
    interned_of(interned)->value = value;
    value->name = interned;
    value->graph->model->state_edits++;
}

tn_status value_set_same_name(Value *value, Str name) {
    if (name.n == 0) return TN_OK;
    Str same = model_same_str(value->graph->model, name);
    if (interned_of(same)->value) return value_set_name(value, same);
    take_name(value, same);
    return TN_OK;
}

/* Tries base_1, base_2, ... from where the last search for this base ended. */
static tn_status take_suffixed_name(Value *value, Str base) {
    Model *model = value->graph->model;
    Map *next = &model_store(model)->name_next;
    uintptr_t n = (uintptr_t)map_get(next, base);
    Text text;
    text_init(&text, model_allocator(model));
    Str candidate;
    do {
        text.n = 0;
        text_put(&text, base.s, base.n);
        text_printf(&text, "_%zu", (size_t)++n);
        candidate = (Str){text.s, text.n};
    } while (text.status == TN_OK && model_value(model, candidate));
    tn_status status = text.status;
    if (status == TN_OK) {
        candidate = model_str(model, candidate);
        status = candidate.s ? map_set(next, base, (void *)n) : TN_OUT_OF_MEMORY;
    }
    text_free(&text);
    if (status == TN_OK) take_name(value, candidate);
    return status;
}

tn_status value_set_name(Value *value, Str name) {
    Model *model = value->graph->model;
    if (str_equal(value->name, name)) return TN_OK;
    if (name.n == 0) {
        value_drop_name(value);
        return TN_OK;
    }
    Str interned = model_str(model, name);
    if (!interned.s) return TN_OUT_OF_MEMORY;
    if (interned_of(interned)->value) return take_suffixed_name(value, interned);
    take_name(value, interned);
    return TN_OK;
}
