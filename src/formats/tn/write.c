/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the saved form: the text names what goes into the weights file, which is written first. */
#include <limits.h>
#include <stdio.h>

#include "formats/common/common.h"
#include "formats/tn/tn.h"

/* Constants up to this size stay in the text. */
enum { INLINE_BYTES = 64 };
static const char writer_name[] = "tn";

typedef struct Saver {
    const Allocator *allocator;
    Arena arena;
    char path[PATH_MAX]; /* of the weights */
    Str file;            /* its last part, as the text names it */
    Map names;           /* those taken: name -> item's number + 1 */
    Map payloads;        /* where bytes lie and how they are read -> item's number + 1 */
    VEC(SafeItem) items;
} Saver;

/* What stands for itself between quotes, both in the text and in JSON. */
static bool is_simple(char c) { return (unsigned char)c >= 0x20 && c != 0x7f && c != '"' && c != '\\'; }

/* ---- the weights file's name ----------------------------------------------------------------------------------- */

/* Whether we may write there: nothing is there, or a file that a model was saved to before. A file of weights that
   somebody else put there is not ours to replace. */
static tn_status check_ours(const Saver *s, bool *ours) {
    Buffer *bytes;
    SafeTensors *file;
    *ours = true;
    tn_status status = file_map(s->allocator, s->path, &bytes);
    if (status != TN_OK) return status == TN_OUT_OF_MEMORY ? status : TN_OK;
    status = safetensors_open(s->allocator, bytes, &file);
    *ours = status == TN_OK && str_equal(safetensors_metadata(file, STR("format")), str_of(writer_name));
    safetensors_close(file);
    buffer_unref(bytes);
    return status == TN_OUT_OF_MEMORY ? status : TN_OK;
}

/* model.tn has its weights in model.safetensors, or in model.tn.safetensors where that is somebody else's. */
static tn_status name_weights(Saver *s, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t folder = (size_t)(base - path), length = strlen(base);
    bool has_ending = length > 3 && strcmp(base + length - 3, ".tn") == 0;
    for (int attempt = has_ending ? 0 : 1; attempt < 2; attempt++) {
        int stem = (int)(attempt == 0 ? length - 3 : length);
        int n = snprintf(s->path, sizeof s->path, "%.*s%.*s.safetensors", (int)folder, path, stem, base);
        if (n < 0 || (size_t)n >= sizeof s->path) return fail(TN_IO, "the file name \"%s\" is too long", path);
        for (char *c = s->path + folder; *c; c++)
            if (*c == ':' || !is_simple(*c)) *c = '_'; /* a colon ends the file's name in a reference */
        s->file = str_of(s->path + folder);
        bool ours;
        TRY(check_ours(s, &ours));
        if (ours) return TN_OK;
    }
    return fail(TN_IO, "\"%s\" is there already and was not written by Tenon", s->path);
}

bool tn_packed_path(const char *path, char *out, size_t size) {
    size_t n = strlen(path);
    if (n < 4 || strcmp(path + n - 3, ".tn") != 0) return false;
    int length = snprintf(out, size, "%.*s.packed.safetensors", (int)(n - 3), path);
    return length > 0 && (size_t)length < size;
}

static void remove_packed(const char *path) {
    char packed[PATH_MAX];
    if (tn_packed_path(path, packed, sizeof packed)) (void)remove(packed);
}

/* ---- constants ----------------------------------------------------------------------------------------------- */

/* The same bytes read in the same way are written once. */
typedef struct PayloadKey {
    const void *data;
    int64_t offset, dtype, rank, dims[TN_MAX_RANK], strides[TN_MAX_RANK];
} PayloadKey;

static tn_status payload_key(Saver *s, const Tensor *t, Str *key) {
    PayloadKey *k = arena_new(&s->arena, PayloadKey);
    if (!k) return TN_OUT_OF_MEMORY;
    *k = (PayloadKey){.data = t->data, .offset = t->offset, .dtype = (int64_t)t->dtype, .rank = t->rank};
    for (int i = 0; i < t->rank; i++) {
        k->dims[i] = t->dims[i];
        k->strides[i] = t->strides[i];
    }
    *key = (Str){(const char *)k, sizeof *k};
    return TN_OK;
}

static bool is_free_name(const Saver *s, Str name) {
    bool fits = name.n > 0 && str_is_utf8(name);
    for (size_t i = 0; i < name.n; i++) fits = fits && is_simple(name.s[i]);
    bool reserved = name.n >= 2 && memcmp(name.s, "__", 2) == 0;
    return fits && !reserved && !map_get(&s->names, name);
}

/* The value's own name where it can be one in JSON. */
static tn_status choose_name(Saver *s, const Value *value, Str *name) {
    char text[40];
    *name = value ? value->name : (Str){0};
    for (size_t k = s->items.len; !is_free_name(s, *name); k++) {
        snprintf(text, sizeof text, "tensor.%zu", k);
        *name = str_of(text);
    }
    char *copy = arena_strndup(&s->arena, name->s, name->n);
    *name = (Str){copy, name->n};
    return copy ? TN_OK : TN_OUT_OF_MEMORY;
}

static tn_status add_item(Saver *s, const Tensor *t, const Value *value, Str key, size_t *number) {
    SafeItem item = {.tensor = t};
    TRY(choose_name(s, value, &item.name));
    TRY(vec_push(s->allocator, &s->items, item));
    *number = s->items.len;
    TRY(map_set(&s->names, item.name, (void *)(uintptr_t)*number));
    return map_set(&s->payloads, key, (void *)(uintptr_t)*number);
}

/* i4[3,5] in front of a reference says how to read what the format keeps as plain bytes. */
static void print_reference(Saver *s, const Tensor *t, Str name, Text *out) {
    if (!safetensors_dtype(t->dtype)) {
        text_printf(out, "%s[", dtype_name(t->dtype));
        for (int i = 0; i < t->rank; i++) text_printf(out, i ? ",%lld" : "%lld", (long long)t->dims[i]);
        text_puts(out, "] ");
    }
    text_puts(out, "@\"");
    text_put(out, s->file.s, s->file.n);
    text_puts(out, ":");
    text_put(out, name.s, name.n);
    text_puts(out, "\"");
}

static tn_status save_constant(void *user, const Tensor *t, const Value *value, Text *out) {
    Saver *s = user;
    Str key;
    size_t bytes;
    TRY(checked_bytes(t->dtype, tensor_count(t), &bytes));
    if (bytes <= INLINE_BYTES || t->dtype == TN_STRING) return TN_OK;
    TRY(payload_key(s, t, &key));
    size_t number = (size_t)(uintptr_t)map_get(&s->payloads, key);
    if (number == 0) TRY(add_item(s, t, value, key, &number));
    print_reference(s, t, s->items.data[number - 1].name, out);
    return TN_OK;
}

/* ---- files --------------------------------------------------------------------------------------------------- */

static tn_status write_text(const Allocator *a, const char *path, const Text *text) {
    FileWriter *file;
    TRY(file_writer_open(a, path, &file));
    tn_status status = file_writer_write(file, text->s, text->n);
    if (status == TN_OK) return file_writer_commit(file);
    file_writer_abort(file);
    return status;
}

static tn_status save(Saver *s, const Model *model, const char *path, Text *text) {
    PrintOptions options = {.constant = save_constant, .user = s, .inline_elements = 1};
    TRY(name_weights(s, path));
    TRY(model_print(model, &options, text));
    if (s->items.len > 0) TRY(safetensors_write(s->allocator, s->path, writer_name, s->items.data, s->items.len));
    return write_text(s->allocator, path, text);
}

tn_status tn_format_write(const Model *model, const char *path) {
    const Allocator *a = &model->ctx->allocator;
    Saver *s = mem_alloc(a, sizeof *s, alignof(Saver));
    Text text;
    if (!s) return TN_OUT_OF_MEMORY;
    s->allocator = a;
    arena_init(&s->arena, a);
    map_init(&s->names, a);
    map_init(&s->payloads, a);
    text_init(&text, a);
    tn_status status = save(s, model, path, &text);
    if (status == TN_OK) remove_packed(path);
    text_free(&text);
    vec_free(a, &s->items);
    map_free(&s->names);
    map_free(&s->payloads);
    arena_free(&s->arena);
    mem_free(a, s, sizeof *s);
    return status;
}
