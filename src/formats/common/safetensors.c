/* SPDX-License-Identifier: Apache-2.0 */
/* Reads safetensors: eight bytes of length, a head of JSON that names tensors, their bytes. */
#include <jansson.h>
#include <stdlib.h>

#include "formats/common/common.h"

/* The format's own bound is 100 MB; a head of this size names some hundred thousand tensors. */
enum { LENGTH_BYTES = 8, LARGEST_HEAD = 32 << 20, DEEPEST_HEAD = 4 };

struct SafeTensors {
    const Allocator *allocator;
    Buffer *bytes;
    Arena arena;
    SafeEntry *entries;
    size_t n;
    Map by_name, metadata;
};

static const struct DtypeName {
    const char *name;
    tn_dtype dtype;
} dtype_names[] = {
    {"F32", TN_F32},        {"F16", TN_F16}, {"BF16", TN_BF16}, {"I64", TN_I64},          {"I32", TN_I32},
    {"I16", TN_I16},        {"I8", TN_I8},   {"U8", TN_U8},     {"BOOL", TN_BOOL},        {"F64", TN_F64},
    {"U16", TN_U16},        {"U32", TN_U32}, {"U64", TN_U64},   {"F8_E4M3", TN_F8E4M3FN}, {"F8_E5M2", TN_F8E5M2},
    {"F8_E8M0", TN_F8E8M0}, {"C64", TN_C64}, {"F4", TN_F4E2M1},
};

static tn_dtype dtype_of_name(const char *name) {
    for (size_t i = 0; i < sizeof dtype_names / sizeof *dtype_names; i++)
        if (strcmp(dtype_names[i].name, name) == 0) return dtype_names[i].dtype;
    return TN_UNDEFINED;
}

/* Complex numbers and 4-bit floats are not written as such: older readers refuse them. */
const char *safetensors_dtype(tn_dtype dtype) {
    if (dtype == TN_C64 || dtype == TN_F4E2M1) return NULL;
    for (size_t i = 0; i < sizeof dtype_names / sizeof *dtype_names; i++)
        if (dtype_names[i].dtype == dtype) return dtype_names[i].name;
    return NULL;
}

/* ---- the head ------------------------------------------------------------------------------------------------ */

static tn_status find_head(Buffer *bytes, Str *head) {
    uint64_t length = 0;
    if (bytes->size < LENGTH_BYTES) return fail(TN_MALFORMED, "this is no safetensors file: it is too short");
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | bytes->data[i];
    if (length > bytes->size - LENGTH_BYTES)
        return fail(TN_MALFORMED, "the head of this safetensors file is said to be longer than the file");
    if (length > LARGEST_HEAD)
        return fail(TN_LIMIT, "the head of this safetensors file is longer than %d bytes", (int)LARGEST_HEAD);
    *head = (Str){(const char *)bytes->data + LENGTH_BYTES, (size_t)length};
    return TN_OK;
}

/* The parser of JSON calls itself for each bracket, so there must not be many. */
static tn_status check_depth(Str head) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < head.n; i++) {
        char c = head.s[i];
        if (in_string && c == '\\') i++;
        else if (c == '"') in_string = !in_string;
        else if (!in_string && (c == '{' || c == '[')) depth++;
        else if (!in_string && (c == '}' || c == ']')) depth--;
        if (depth > DEEPEST_HEAD) return fail(TN_MALFORMED, "the head of this safetensors file is nested too deeply");
    }
    return TN_OK;
}

static tn_status parse_head(Str head, json_t **out) {
    json_error_t error;
    TRY(check_depth(head));
    *out = json_loadb(head.s, head.n, JSON_REJECT_DUPLICATES, &error);
    if (!*out && json_error_code(&error) == json_error_out_of_memory) return fail_memory(head.n);
    if (!*out) return fail(TN_MALFORMED, "the head of this safetensors file is no JSON: %s", error.text);
    if (json_is_object(*out)) return TN_OK;
    return fail(TN_MALFORMED, "the head of this safetensors file is no JSON object");
}

/* ---- entries ------------------------------------------------------------------------------------------------- */

static tn_status bad_entry(Str name, const char *what) {
    return fail(TN_MALFORMED, "tensor \"%.*s\" of this safetensors file %s", (int)(name.n < 200 ? name.n : 200), name.s,
                what);
}

static tn_status read_dims(const json_t *shape, SafeEntry *entry) {
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape)) return bad_entry(entry->name, "has no shape");
    if (rank > TN_MAX_RANK) return bad_entry(entry->name, "has more dimensions than Tenon allows");
    entry->rank = (int32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        entry->dims[i] = json_integer_value(dim);
        if (!json_is_integer(dim) || entry->dims[i] < 0) return bad_entry(entry->name, "has a shape that is no shape");
    }
    return TN_OK;
}

static tn_status read_offsets(const json_t *offsets, size_t data_begin, size_t file_size, SafeEntry *entry) {
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    json_int_t from = json_integer_value(begin), to = json_integer_value(end);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad_entry(entry->name, "has no place");
    if (from < 0 || to < from || (uint64_t)to > file_size - data_begin)
        return bad_entry(entry->name, "has its place outside of the file");
    entry->begin = data_begin + (size_t)from;
    entry->end = data_begin + (size_t)to;
    return TN_OK;
}

static tn_status check_size(const SafeEntry *entry) {
    int64_t count;
    size_t bytes;
    if (entry->dtype == TN_UNDEFINED) return TN_OK;
    TRY(checked_count(entry->rank, entry->dims, &count));
    TRY(checked_bytes(entry->dtype, count, &bytes));
    if (bytes == entry->end - entry->begin) return TN_OK;
    return bad_entry(entry->name, "has a place of another size than its shape");
}

static tn_status copy_text(SafeTensors *file, const char *s, size_t n, Str *out) {
    out->s = arena_strndup(&file->arena, s, n);
    out->n = n;
    return out->s ? TN_OK : TN_OUT_OF_MEMORY;
}

static tn_status read_entry(SafeTensors *file, Str name, size_t data_begin, const json_t *json) {
    SafeEntry *entry = &file->entries[file->n];
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    TRY(copy_text(file, name.s, name.n, &entry->name));
    if (!dtype) return bad_entry(name, "has no dtype");
    entry->dtype = dtype_of_name(dtype);
    TRY(read_dims(json_object_get(json, "shape"), entry));
    TRY(read_offsets(json_object_get(json, "data_offsets"), data_begin, file->bytes->size, entry));
    TRY(check_size(entry));
    file->n++;
    return map_set(&file->by_name, entry->name, entry);
}

static tn_status read_metadata(SafeTensors *file, json_t *json) {
    const char *key;
    json_t *value;
    if (!json_is_object(json)) return fail(TN_MALFORMED, "the metadata of this safetensors file are no JSON object");
    json_object_foreach(json, key, value) {
        Str name, *text = arena_new(&file->arena, Str);
        if (!text) return TN_OUT_OF_MEMORY;
        if (!json_is_string(value)) return fail(TN_MALFORMED, "the metadata of this safetensors file are not all text");
        TRY(copy_text(file, key, strlen(key), &name));
        TRY(copy_text(file, json_string_value(value), json_string_length(value), text));
        TRY(map_set(&file->metadata, name, text));
    }
    return TN_OK;
}

static tn_status read_entries(SafeTensors *file, json_t *json, size_t data_begin) {
    const char *key;
    json_t *value;
    file->entries = arena_array(&file->arena, SafeEntry, json_object_size(json));
    if (!file->entries) return TN_OUT_OF_MEMORY;
    json_object_foreach(json, key, value) {
        if (strcmp(key, "__metadata__") == 0) TRY(read_metadata(file, value));
        else TRY(read_entry(file, str_of(key), data_begin, value));
    }
    return TN_OK;
}

static int by_place(const void *a, const void *b) {
    const SafeEntry *x = *(const SafeEntry *const *)a, *y = *(const SafeEntry *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* As the format demands: otherwise two readers might see different things. */
static tn_status check_overlap(SafeTensors *file) {
    SafeEntry **sorted = mem_alloc(file->allocator, file->n * sizeof *sorted, alignof(SafeEntry *));
    tn_status status = TN_OK;
    if (!sorted) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < file->n; i++) sorted[i] = &file->entries[i];
    qsort(sorted, file->n, sizeof *sorted, by_place);
    for (size_t i = 1; i < file->n && status == TN_OK; i++)
        if (sorted[i]->begin < sorted[i - 1]->end) status = bad_entry(sorted[i]->name, "overlaps with another");
    mem_free(file->allocator, sorted, file->n * sizeof *sorted);
    return status;
}

/* ---- files --------------------------------------------------------------------------------------------------- */

static tn_status read_file(SafeTensors *file) {
    Str head;
    json_t *json = NULL;
    TRY(find_head(file->bytes, &head));
    tn_status status = parse_head(head, &json);
    if (status == TN_OK) status = read_entries(file, json, LENGTH_BYTES + head.n);
    if (status == TN_OK) status = check_overlap(file);
    json_decref(json);
    return status;
}

tn_status safetensors_open(const Allocator *a, Buffer *bytes, SafeTensors **out) {
    SafeTensors *file = mem_alloc(a, sizeof *file, alignof(SafeTensors));
    *out = NULL;
    if (!file) return TN_OUT_OF_MEMORY;
    file->allocator = a;
    file->bytes = buffer_ref(bytes);
    arena_init(&file->arena, a);
    map_init(&file->by_name, a);
    map_init(&file->metadata, a);
    tn_status status = read_file(file);
    if (status == TN_OK) *out = file;
    else safetensors_close(file);
    return status;
}

void safetensors_close(SafeTensors *file) {
    if (!file) return;
    map_free(&file->by_name);
    map_free(&file->metadata);
    arena_free(&file->arena);
    buffer_unref(file->bytes);
    mem_free(file->allocator, file, sizeof *file);
}

size_t safetensors_count(const SafeTensors *file) { return file->n; }
const SafeEntry *safetensors_entry(const SafeTensors *file, size_t i) { return &file->entries[i]; }
const SafeEntry *safetensors_find(const SafeTensors *file, Str name) { return map_get(&file->by_name, name); }

Str safetensors_metadata(const SafeTensors *file, Str key) {
    const Str *text = map_get(&file->metadata, key);
    return text ? *text : (Str){NULL, 0};
}

tn_status safetensors_tensor(const SafeTensors *file, const SafeEntry *entry, Tensor *out) {
    if (entry->dtype == TN_UNDEFINED)
        return fail(TN_UNSUPPORTED, "tensor \"%.*s\" of this safetensors file has a type that Tenon does not know",
                    (int)(entry->name.n < 200 ? entry->name.n : 200), entry->name.s);
    tensor_set_dense(out, entry->dtype, entry->rank, entry->dims);
    out->data = file->bytes->data + entry->begin;
    out->buffer = buffer_ref(file->bytes);
    return TN_OK;
}
