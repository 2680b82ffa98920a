/* SPDX-License-Identifier: Apache-2.0 */
/* Public models: formats by content or by ending, what inputs and outputs are. */
#include "formats/formats.h"
#include "session/passes_int.h"

#include <pthread.h>

/* ---- formats ------------------------------------------------------------------------------------------------- */

#define FORMAT(id) extern const FormatDesc format_##id;
#include "formats/formats.def"
#undef FORMAT

static const FormatDesc *const formats[] = {
#define FORMAT(id) &format_##id,
#include "formats/formats.def"
#undef FORMAT
};
#define N_FORMATS (sizeof formats / sizeof *formats)

static tn_status unknown_format(const char *what) {
    Text names;
    text_init(&names, &allocator_default);
    for (size_t i = 0; i < N_FORMATS; i++)
        text_printf(&names, "%s%s (%s)", i ? ", " : "", formats[i]->name, formats[i]->extension);
    tn_status status = fail(TN_UNSUPPORTED, "%s; known formats: %s", what, names.s ? names.s : "");
    text_free(&names);
    return status;
}

static tn_status read_model(Context *ctx, Buffer *bytes, const char *path, const char *folder, tn_model **model) {
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (!formats[i]->probe(bytes->data, bytes->size)) continue;
        Model *ir;
        TRY(formats[i]->read(ctx, bytes, path, folder, &ir));
        return model_handle(ctx, ir, model);
    }
    return unknown_format("the contents are of no known model format");
}

/* A pass that runs under the lock may make or release sessions of the same model. */
static void init_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

tn_status model_handle_lent(Context *ctx, Model *ir, tn_model **out) {
    tn_model *h = mem_alloc(&ctx->allocator, sizeof *h, alignof(tn_model));
    if (!h) return TN_OUT_OF_MEMORY;
    atomic_init(&h->references, 1);
    h->ctx = context_ref(ctx);
    h->ir = ir;
    h->read_edits = model_edits(ir);
    init_lock(&h->lock);
    *out = h;
    return TN_OK;
}

tn_status model_handle(Context *ctx, Model *ir, tn_model **out) {
    tn_status status = model_handle_lent(ctx, ir, out);
    if (status != TN_OK) model_free(ir);
    return status;
}

void model_handle_return(tn_model *model) {
    if (!model) return;
    Context *ctx = model->ctx;
    optimized_free(model);
    pthread_mutex_destroy(&model->lock);
    mem_free(&ctx->allocator, model, sizeof *model);
    context_unref(ctx);
}

tn_status tn_model_load(tn_context *context, const char *path, tn_model **model) {
    if (!context || !path || !model) return fail(TN_INVALID_ARGUMENT, "context, path or model is NULL");
    Context *ctx = context_of(context);
    Buffer *bytes;
    Arena arena;
    TRY(file_map(&ctx->allocator, path, &bytes));
    arena_init(&arena, &ctx->allocator);
    const char *folder = path_dirname(&arena, path);
    tn_status status = folder ? read_model(ctx, bytes, path, folder, model) : TN_OUT_OF_MEMORY;
    if (status != TN_OK) diag_set_file(path);
    else model_offer_packed(*model, path);
    arena_free(&arena);
    buffer_unref(bytes);
    return status;
}

tn_status tn_model_load_memory(tn_context *context, const void *data, size_t size, const char *folder,
                               void (*release)(void *user, void *data, size_t size), void *user, tn_model **model) {
    Context *ctx = context_of(context);
    Buffer *bytes = NULL;
    tn_status status = !context || (size && !data) || !model
                           ? fail(TN_INVALID_ARGUMENT, "context, data or model is NULL")
                           : TN_OK;
    if (status == TN_OK) status = buffer_borrow(&ctx->allocator, (void *)data, size, release, user, &bytes);
    if (status != TN_OK) {
        if (release) release(user, (void *)data, size);
        return status;
    }
    status = read_model(ctx, bytes, NULL, folder, model);
    buffer_unref(bytes);
    return status;
}

tn_model *tn_model_retain(tn_model *model) {
    if (model) atomic_fetch_add(&model->references, 1);
    return model;
}

void tn_model_release(tn_model *model) {
    if (!model || atomic_fetch_sub(&model->references, 1) != 1) return;
    model_drop_packed(model);
    model_free(model->ir);
    model_handle_return(model);
}

tn_status tn_model_save(const tn_model *model, const char *path) {
    if (!model || !path) return fail(TN_INVALID_ARGUMENT, "model or path is NULL");
    return model_write(model->ir, path);
}

tn_status model_write(const Model *ir, const char *path) {
    size_t n = strlen(path);
    for (size_t i = 0; i < N_FORMATS; i++) {
        size_t k = strlen(formats[i]->extension);
        if (n > k && strcmp(path + n - k, formats[i]->extension) == 0 && formats[i]->write)
            return formats[i]->write(ir, path);
    }
    return unknown_format("the path's ending names no model format");
}

/* ---- inputs, outputs, metadata -------------------------------------------------------------------------------- */

/* Text for a caller to keep: interned, under a lock since threads may ask a shared model at once. */
static const char *interned(const Model *model, Text *text) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    Str kept = text->s ? model_str((Model *)model, (Str){text->s, text->n}) : STR("?");
    pthread_mutex_unlock(&lock);
    text_free(text);
    return kept.s ? kept.s : "?";
}

static void fill_dims(const Model *model, const Shape *shape, tn_value_info *info) {
    info->rank = shape->rank;
    for (int i = 0; i < shape->rank; i++) {
        Text text;
        text_init(&text, &model->ctx->allocator);
        dim_print(&model->dims, shape->dims[i], &text);
        info->dims[i] = dim_is_const(shape->dims[i]) ? shape->dims[i] : -1;
        info->dim_text[i] = interned(model, &text);
    }
}

void fill_value_info(const Model *model, Str name, const Type *type, tn_value_info *info) {
    *info = (tn_value_info){
        .name = name.s ? name.s : "", .kind = (tn_value_kind)type->kind, .dtype = type->dtype, .rank = -1};
    if (type->kind == TYPE_TENSOR) fill_dims(model, &type->shape, info);
    Text text;
    text_init(&text, &model->ctx->allocator);
    type_print(model, type, &text);
    info->type = interned(model, &text);
}

size_t tn_model_n_inputs(const tn_model *model) { return model ? model->ir->main->inputs.len : 0; }
size_t tn_model_n_outputs(const tn_model *model) { return model ? graph_n_outputs(model->ir->main) : 0; }

tn_status tn_model_input(const tn_model *model, size_t i, tn_value_info *info) {
    if (!model || !info) return fail(TN_INVALID_ARGUMENT, "model or info is NULL");
    const Graph *g = model->ir->main;
    if (i >= g->inputs.len) return fail(TN_OUT_OF_RANGE, "input %zu of %zu", i, g->inputs.len);
    fill_value_info(model->ir, g->inputs.data[i]->name, g->inputs.data[i]->type, info);
    info->has_default = graph_input_default(g, i) != NULL;
    return TN_OK;
}

tn_status tn_model_output(const tn_model *model, size_t i, tn_value_info *info) {
    if (!model || !info) return fail(TN_INVALID_ARGUMENT, "model or info is NULL");
    const Graph *g = model->ir->main;
    if (i >= graph_n_outputs(g)) return fail(TN_OUT_OF_RANGE, "output %zu of %zu", i, graph_n_outputs(g));
    fill_value_info(model->ir, g->output_names.data[i], graph_output(g, i)->type, info);
    return TN_OK;
}

const char *tn_model_metadata(const tn_model *model, const char *key) {
    return model && key ? model_metadata(model->ir, str_of(key)).s : NULL;
}

size_t tn_model_n_metadata(const tn_model *model) { return model ? model->ir->metadata.len / 2 : 0; }

tn_status tn_model_metadata_at(const tn_model *model, size_t i, const char **key, const char **value) {
    if (i >= tn_model_n_metadata(model))
        return fail(TN_OUT_OF_RANGE, "entry %zu of %zu", i, tn_model_n_metadata(model));
    *key = model->ir->metadata.data[2 * i].s;
    *value = model->ir->metadata.data[2 * i + 1].s;
    return TN_OK;
}
