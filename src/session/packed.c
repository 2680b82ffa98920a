/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights in a file of their own beside a saved model. Each is named after where in the weights file its constant
   lies and how it was packed; the file's metadata say of which weights they are, so that they are never taken for others. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "formats/common/common.h"
#include "formats/tn/tn.h"
#include "session/session_int.h"

enum { N_PARAMS = sizeof((PackKey){0}.params) / sizeof(int64_t), FORMAT_LENGTH = 32 };

/* ---- which weights --------------------------------------------------------------------------------------------- */

/* Of the file's size and of pieces all over it: reading all of it would bring in what packing has spared us. */
static uint64_t fingerprint(const Buffer *weights) {
    enum { PIECES = 64, WORDS = 512 };
    const uint8_t *data = weights->data;
    size_t n = weights->size / (PIECES * sizeof(uint64_t));
    uint64_t h = weights->size * 0x9e3779b97f4a7c15u + 1;
    for (size_t k = 0; k < PIECES; k++)
        for (size_t i = 0; i < WORDS && i < n; i++) {
            uint64_t word;
            memcpy(&word, data + (k * n + i) * sizeof word, sizeof word);
            h = (h ^ word) * 0x100000001b3u;
            h ^= h >> 29;
        }
    file_forget(data, weights->size); /* in whole huge pages, these may be most of the file */
    return h;
}

static void mark_of(const Buffer *weights, char text[64]) {
    snprintf(text, 64, "tn-packed-1 %016" PRIx64, fingerprint(weights));
}

/* What most constants lie in: the file of weights. */
static const Buffer *largest_buffer(const Model *ir) {
    const Buffer *largest = NULL;
    for (size_t i = 0; i < ir->tensors.len; i++) {
        const Buffer *buffer = ir->tensors.data[i]->buffer;
        if (buffer && (!largest || buffer->size > largest->size)) largest = buffer;
    }
    return largest;
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

static void print_key(const PackKey *key, const Buffer *weights, Text *out) {
    text_printf(out, "%td:%zu:%s", (const char *)key->source - (const char *)weights->data, key->n_bytes, key->format);
    for (int i = 0; i < N_PARAMS; i++) text_printf(out, ":%" PRId64, key->params[i]);
}

static bool take_number(const char **at, int64_t *out) {
    char *end;
    *out = strtoll(*at, &end, 10);
    bool ok = end != *at && (*end == ':' || *end == 0);
    *at = *end ? end + 1 : end;
    return ok;
}

static bool read_key(Str name, const Buffer *weights, char format[FORMAT_LENGTH], PackKey *key) {
    char text[256];
    int64_t offset, n_bytes;
    if (name.n >= sizeof text) return false;
    memcpy(text, name.s, name.n);
    text[name.n] = 0;
    const char *at = text;
    if (!take_number(&at, &offset) || !take_number(&at, &n_bytes)) return false;
    size_t n = strcspn(at, ":");
    if (n == 0 || n >= FORMAT_LENGTH || at[n] == 0) return false;
    memcpy(format, at, n);
    format[n] = 0;
    at += n + 1;
    for (int i = 0; i < N_PARAMS; i++)
        if (!take_number(&at, &key->params[i])) return false;
    if (offset < 0 || n_bytes < 0 || (size_t)offset > weights->size || (size_t)n_bytes > weights->size - (size_t)offset)
        return false;
    key->source = (const char *)weights->data + offset;
    key->n_bytes = (size_t)n_bytes;
    key->format = format;
    return *at == 0;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static tn_status offer(tn_model *model, const Buffer *weights, const SafeTensors *file, Buffer *bytes) {
    size_t n = safetensors_count(file);
    model->packed = mem_alloc(&model->ctx->allocator, (n + 1) * sizeof *model->packed, alignof(void *));
    if (!model->packed) return TN_OUT_OF_MEMORY;
    model->n_packed = n;
    for (size_t i = 0; i < n; i++) {
        const SafeEntry *entry = safetensors_entry(file, i);
        char format[FORMAT_LENGTH];
        PackKey key = {0};
        if (!read_key(entry->name, weights, format, &key)) continue; /* padding */
        TRY(packed_offer(model->ctx, &key, (const char *)bytes->data + entry->begin, entry->end - entry->begin, bytes,
                         &model->packed[i]));
    }
    return TN_OK;
}

static tn_status offer_file(tn_model *model, const Buffer *weights, Buffer *bytes) {
    SafeTensors *file;
    char mark[64];
    mark_of(weights, mark);
    TRY(safetensors_open(&model->ctx->allocator, bytes, &file));
    tn_status status = str_equal(safetensors_metadata(file, STR("format")), str_of(mark))
                           ? offer(model, weights, file, bytes)
                           : fail(TN_MALFORMED, "these are packed of other weights");
    safetensors_close(file);
    return status;
}

void model_offer_packed(tn_model *model, const char *path) {
    char name[PATH_MAX];
    Buffer *bytes;
    const Buffer *weights = largest_buffer(model->ir);
    if (!weights || !tn_packed_path(path, name, sizeof name) || access(name, R_OK) != 0) return;
    tn_status status = file_map(&model->ctx->allocator, name, &bytes);
    if (status == TN_OK) {
        status = offer_file(model, weights, bytes);
        buffer_unref(bytes);
    }
    if (status != TN_OK) log_message(model->ctx, TN_LOG_WARNING, "%s is not used: %s", name, diag_text());
    diag_clear();
}

void model_drop_packed(tn_model *model) {
    for (size_t i = 0; i < model->n_packed; i++) packed_put(model->packed[i]);
    mem_free(&model->ctx->allocator, model->packed, (model->n_packed + 1) * sizeof *model->packed);
    model->packed = NULL;
    model->n_packed = 0;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

typedef struct Collection {
    const Allocator *allocator;
    const Buffer *weights;
    Arena arena;
    VEC(SafeItem) items;
} Collection;

static tn_status collect(void *user, const PackKey *key, const Packed *packed) {
    Collection *c = user;
    Text name;
    Tensor *t = arena_new(&c->arena, Tensor);
    if (!t) return TN_OUT_OF_MEMORY;
    tensor_set_dense(t, TN_U8, 1, (int64_t[]){(int64_t)packed->size});
    t->data = packed->data;
    text_init(&name, c->allocator);
    print_key(key, c->weights, &name);
    char *kept = name.status == TN_OK ? arena_strndup(&c->arena, name.s, name.n) : NULL;
    SafeItem item = {{kept, name.n}, t};
    text_free(&name);
    return kept ? vec_push(c->allocator, &c->items, item) : TN_OUT_OF_MEMORY;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const SafeItem *)a)->name.s, ((const SafeItem *)b)->name.s);
}

static tn_status write_packed(const tn_model *model, const char *path) {
    char name[PATH_MAX], mark[64];
    const Buffer *weights = largest_buffer(model->ir);
    const Allocator *a = &model->ctx->allocator;
    if (!weights || !tn_packed_path(path, name, sizeof name)) return TN_OK;
    Collection c = {.allocator = a, .weights = weights};
    arena_init(&c.arena, a);
    mark_of(weights, mark);
    tn_status status = packed_each(model->ctx, weights->data, weights->size, collect, &c);
    if (c.items.len > 1) qsort(c.items.data, c.items.len, sizeof *c.items.data, by_name);
    if (status == TN_OK) status = safetensors_write(a, name, mark, c.items.data, c.items.len);
    vec_free(a, &c.items);
    arena_free(&c.arena);
    return status;
}

/* The saved model is planned as the session is, and what its kernels have packed then is written. */
static tn_status pack_saved(tn_session *s, tn_model *saved, const char *path) {
    tn_place places[16];
    tn_shape shapes[64];
    tn_session *again;
    size_t n = s->ir->main->inputs.len, n_places = s->passes->setup.n_places;
    if (n > sizeof shapes / sizeof *shapes || n_places > sizeof places / sizeof *places)
        return fail(TN_UNSUPPORTED, "cannot pack for %zu inputs and %zu places", n, n_places);
    for (size_t i = 0; i < n; i++) shapes[i] = (tn_shape){s->inputs[i].rank, s->inputs[i].dims};
    for (size_t i = 0; i < n_places; i++)
        places[i] = (tn_place){s->passes->setup.places[i].target, s->passes->setup.places[i].precision};
    const tn_pass_settings nothing = {
        .pipeline = "", .places = places, .n_places = n_places, .accuracy = s->passes->accuracy};
    TRY(tn_session_create(saved, &(tn_session_options){.passes = &nothing, .defer_plan = true}, &again));
    again->runner.tuning = s->runner.tuning; /* lent */
    tn_status status = tn_session_resize(again, shapes, n);
    if (status == TN_OK) status = write_packed(saved, path);
    again->runner.tuning = NULL;
    tn_session_release(again);
    return status;
}

/* Marked as optimised, which the session's own graph, that others share, must not be while they run. */
static tn_status write_optimized(tn_session *s, const char *path) {
    const char *key = pass_plan_key(s->passes);
    Model *copy;
    if (!key) return TN_OUT_OF_MEMORY;
    TRY(model_clone(s->ir, &copy));
    tn_status status = mark_optimized(copy, key);
    if (status == TN_OK) status = model_write(copy, path);
    model_free(copy);
    return status;
}

static tn_status save(tn_session *s, const char *path) {
    char name[PATH_MAX];
    tn_model *saved;
    if (!tn_packed_path(path, name, sizeof name)) return fail(TN_INVALID_ARGUMENT, "\"%s\" does not end in .tn", path);
    if (!session_fits(s)) return fail(TN_STATE, "the session is not planned: resize it first");
    TRY(write_optimized(s, path));
    TRY(tn_model_load((tn_context *)s->ctx, path, &saved));
    tn_status status = pack_saved(s, saved, path);
    tn_model_release(saved);
    return status;
}

tn_status tn_session_save(tn_session *s, const char *path) {
    if (!s || !path) return fail(TN_INVALID_ARGUMENT, "session or path is NULL");
    TRY(session_enter(s));
    return session_leave(s, save(s, path));
}
