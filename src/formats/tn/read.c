/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the saved form. */
#include "formats/common/common.h"
#include "formats/tn/tn.h"
#include "ops/op.h"

/* The files that constants are read from, by name. */
typedef struct Weights {
    const Allocator *allocator;
    const char *folder;
    Arena arena;
    Map files;
} Weights;

static tn_status open_weights(Weights *w, Str name, SafeTensors **out) {
    Buffer *bytes;
    char *key = arena_strndup(&w->arena, name.s, name.n);
    if (!key) return TN_OUT_OF_MEMORY;
    TRY(file_map_beneath(w->allocator, w->folder, name, &bytes));
    tn_status status = safetensors_open(w->allocator, bytes, out);
    buffer_unref(bytes);
    if (status != TN_OK) {
        diag_set_file(key);
        return status;
    }
    status = map_set(&w->files, (Str){key, name.n}, *out);
    if (status != TN_OK) safetensors_close(*out);
    return status;
}

static tn_status read_constant(void *user, Model *model, Str file, Str key, Tensor *payload) {
    Weights *w = user;
    SafeTensors *weights = map_get(&w->files, file);
    (void)model;
    if (!w->folder) return fail(TN_IO, "the model's folder is not known, so its weights cannot be read");
    if (!weights) TRY(open_weights(w, file, &weights));
    const SafeEntry *entry = safetensors_find(weights, key);
    if (entry) return safetensors_tensor(weights, entry, payload);
    return fail(TN_NOT_FOUND, "\"%.*s\" holds no tensor \"%.*s\"", (int)file.n, file.s, (int)key.n, key.s);
}

static void weights_free(Weights *w) {
    for (size_t i = 0; i < w->files.len; i++) safetensors_close(w->files.entries[i].value);
    map_free(&w->files);
    arena_free(&w->arena);
}

tn_status tn_format_read(Context *ctx, Buffer *bytes, const char *path, const char *folder, Model **out) {
    Weights weights = {.allocator = &ctx->allocator, .folder = folder};
    ParseOptions options = {.constant = read_constant, .user = &weights};
    Str text = {(const char *)bytes->data, bytes->size};
    Model *model = NULL;
    *out = NULL;
    arena_init(&weights.arena, &ctx->allocator);
    map_init(&weights.files, &ctx->allocator);
    tn_status status = model_parse(ctx, text, &options, str_of(path), &model);
    if (status == TN_OK) status = infer_model(model);
    weights_free(&weights);
    if (status == TN_OK) {
        *out = model;
        return TN_OK;
    }
    if (path) diag_set_file(path);
    model_free(model);
    return status;
}

bool tn_format_probe(const uint8_t *data, size_t size) {
    size_t i = 0;
    for (; i < size; i++) {
        if (data[i] == '#')
            while (i + 1 < size && data[i + 1] != '\n') i++;
        else if (!data[i] || !strchr(" \t\r\n", data[i])) break;
    }
    if (size - i < 4 || memcmp(data + i, "tn", 2) != 0 || (data[i + 2] != ' ' && data[i + 2] != '\t')) return false;
    for (i += 2; i < size && (data[i] == ' ' || data[i] == '\t');) i++;
    return i < size && data[i] >= '0' && data[i] <= '9';
}

const FormatDesc format_tn = {
    .name = "tn",
    .extension = ".tn",
    .summary = "Tenon's own text form, with weights in a safetensors file beside it",
    .probe = tn_format_probe,
    .read = tn_format_read,
    .write = tn_format_write,
};
