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
    dim_table_init(&model->dims, &model->arena);
    map_init(&model->strings, &ctx->allocator);
    map_init(&model->value_names, &ctx->allocator);
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
    vec_free(a, &model->metadata);
    mem_free(a, model->type_slots, model->n_type_slots * sizeof *model->type_slots);
    map_free(&model->strings);
    map_free(&model->value_names);
    map_free(&model_store(model)->name_next);
    dim_table_free(&model->dims);
    arena_free(&model->arena);
    mem_free(a, model, sizeof(ModelStore));
    context_unref(ctx);
}

Str model_str(Model *model, Str s) {
    if (s.n == 0) return STR("");
    const char *found = map_get(&model->strings, s);
    if (found) return (Str){found, s.n};
    char *copy = arena_strndup(&model->arena, s.s, s.n);
    if (!copy || map_set(&model->strings, (Str){copy, s.n}, copy) != TN_OK) return (Str){NULL, 0};
    return (Str){copy, s.n};
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

static void number_values(Model *model, Value *const *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i]->id = model->n_values++;
}

tn_status model_compact_ids(Model *model) {
    /* First a walk that only looks, so that nothing has changed when memory runs out. */
    Walk walk;
    WalkEvent event = WALK_ENTER;
    for (int turn = 0; turn < 2; turn++) {
        walk_init(&walk, model_allocator(model), model->main);
        tn_status status = walk_next(&walk, &event);
        if (turn == 1) model->n_values = model->n_nodes = 0;
        for (; status == TN_OK && event != WALK_END; status = walk_next(&walk, &event)) {
            if (turn == 0) continue;
            if (event == WALK_ENTER) number_values(model, walk.graph->inputs.data, walk.graph->inputs.len);
            if (event == WALK_BEFORE) walk.node->id = model->n_nodes++;
            if (event == WALK_BEFORE) number_values(model, walk.node->results, walk.node->n_results);
            if (event == WALK_LEAVE) walk.graph->ret->id = model->n_nodes++;
        }
        walk_free(&walk);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

/* ---- names of values ----------------------------------------------------------------------------------------- */

void value_drop_name(Value *value) {
    Model *model = value->graph->model;
    if (value->name.n && map_get(&model->value_names, value->name) == value)
        map_remove(&model->value_names, value->name);
    value->name = (Str){NULL, 0};
}

static tn_status take_name(Value *value, Str interned) {
    TRY(map_set(&value->graph->model->value_names, interned, value));
    value_drop_name(value);
    value->name = interned;
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
    } while (text.status == TN_OK && map_get(&model->value_names, candidate));
    tn_status status = text.status;
    if (status == TN_OK) {
        candidate = model_str(model, candidate);
        status = candidate.s ? map_set(next, base, (void *)n) : TN_OUT_OF_MEMORY;
    }
    text_free(&text);
    return status == TN_OK ? take_name(value, candidate) : status;
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
    if (!map_get(&model->value_names, interned)) return take_name(value, interned);
    return take_suffixed_name(value, interned);
}
