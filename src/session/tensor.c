/* SPDX-License-Identifier: Apache-2.0 */
/* Public tensors: making, reading, files, comparing. */
#include "session/session.h"

#include <math.h>
#include <stdio.h>

#include "formats/npy/npy.h"
#include "formats/onnx/onnx.h"

/* ---- making -------------------------------------------------------------------------------------------------- */

tn_status tensor_handle(Context *ctx, const Tensor *t, tn_tensor **out) {
    tn_tensor *h = mem_alloc(&ctx->allocator, sizeof *h, alignof(tn_tensor));
    if (!h) return TN_OUT_OF_MEMORY;
    atomic_init(&h->references, 1);
    h->ctx = context_ref(ctx);
    h->t = *t;
    *out = h;
    return TN_OK;
}

static tn_status check_shape(const tn_context *context, int rank, const int64_t *dims, tn_tensor **tensor) {
    if (!context || !tensor) return fail(TN_INVALID_ARGUMENT, "context or tensor is NULL");
    if (rank > 0 && !dims) return fail(TN_INVALID_ARGUMENT, "dims is NULL for a tensor of rank %d", rank);
    return TN_OK;
}

tn_status tn_tensor_create(tn_context *context, tn_dtype dtype, int rank, const int64_t *dims, tn_tensor **tensor) {
    Tensor t;
    TRY(check_shape(context, rank, dims, tensor));
    TRY(tensor_new(context_of(context), dtype, rank, dims, &t));
    tn_status status = tensor_handle(context_of(context), &t, tensor);
    if (status != TN_OK) tensor_release(&t);
    return status;
}

tn_status tn_tensor_wrap(tn_context *context, tn_dtype dtype, int rank, const int64_t *dims, void *data, size_t bytes,
                         void (*release)(void *user, void *data, size_t size), void *user, tn_tensor **tensor) {
    Context *ctx = context_of(context);
    int64_t count;
    size_t want;
    TRY(check_shape(context, rank, dims, tensor));
    if (dtype == TN_STRING || dtype_bits(dtype) == 0)
        return fail(TN_INVALID_ARGUMENT, "memory of element type %s cannot be wrapped", dtype_name(dtype));
    if (rank < 0 || rank > TN_MAX_RANK) return fail(TN_SHAPE, "rank %d is outside 0..%d", rank, TN_MAX_RANK);
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0) return fail(TN_SHAPE, "dimension %d is negative: %lld", i, (long long)dims[i]);
    TRY(checked_count(rank, dims, &count));
    TRY(checked_bytes(dtype, count, &want));
    if (want != bytes) return fail(TN_SHAPE, "the shape takes %zu bytes, the memory has %zu", want, bytes);
    if (bytes > 0 && !data) return fail(TN_INVALID_ARGUMENT, "data is NULL");
    if (bytes > 0 && dtype_size(dtype) > 1 &&
        (uintptr_t)data % (uintptr_t)(dtype_size(dtype) > 8 ? 8 : dtype_size(dtype)))
        return fail(TN_INVALID_ARGUMENT, "data is not aligned to its element type");
    Tensor t;
    tensor_set_dense(&t, dtype, rank, dims);
    TRY(buffer_borrow(&ctx->allocator, data, bytes, release, user, &t.buffer));
    t.data = data;
    tn_status status = tensor_handle(ctx, &t, tensor);
    if (status != TN_OK) { /* nothing was taken: the memory stays the caller's */
        t.buffer->release = NULL;
        t.buffer->data = NULL;
        mem_free(&ctx->allocator, t.buffer, sizeof *t.buffer);
    }
    return status;
}

tn_tensor *tn_tensor_retain(tn_tensor *tensor) {
    if (tensor) atomic_fetch_add(&tensor->references, 1);
    return tensor;
}

void tn_tensor_release(tn_tensor *tensor) {
    if (!tensor || atomic_fetch_sub(&tensor->references, 1) != 1) return;
    Context *ctx = tensor->ctx;
    tensor_release(&tensor->t);
    mem_free(&ctx->allocator, tensor, sizeof *tensor);
    context_unref(ctx);
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

static bool is_tensor(const tn_tensor *tensor) { return tensor && tensor->t.kind == TYPE_TENSOR; }

tn_dtype tn_tensor_dtype(const tn_tensor *tensor) { return tensor ? tensor->t.dtype : TN_UNDEFINED; }
int tn_tensor_rank(const tn_tensor *tensor) { return tensor ? tensor->t.rank : 0; }
const int64_t *tn_tensor_dims(const tn_tensor *tensor) { return tensor ? tensor->t.dims : NULL; }
int64_t tn_tensor_count(const tn_tensor *tensor) { return is_tensor(tensor) ? tensor_count(&tensor->t) : 0; }

size_t tn_tensor_bytes(const tn_tensor *tensor) {
    size_t bytes = 0;
    if (is_tensor(tensor) && checked_bytes(tensor->t.dtype, tensor_count(&tensor->t), &bytes) != TN_OK) return 0;
    return bytes;
}

void *tn_tensor_data(const tn_tensor *tensor) {
    if (!is_tensor(tensor) || tensor->t.dtype == TN_STRING || tensor_count(&tensor->t) == 0) return NULL;
    return tensor->t.data;
}

static tn_status string_at(const tn_tensor *tensor, int64_t i, RcString ***place) {
    if (!tensor || tensor->t.dtype != TN_STRING) return fail(TN_INVALID_ARGUMENT, "the tensor holds no strings");
    if (i < 0 || i >= tensor_count(&tensor->t))
        return fail(TN_OUT_OF_RANGE, "element %lld of %lld", (long long)i, (long long)tensor_count(&tensor->t));
    *place = (RcString **)tensor->t.data + i;
    return TN_OK;
}

tn_status tn_tensor_get_string(const tn_tensor *tensor, int64_t i, const char **text, size_t *length) {
    RcString **place;
    TRY(string_at(tensor, i, &place));
    Str s = rc_string_get(*place);
    *text = s.s ? s.s : "";
    *length = s.n;
    return TN_OK;
}

tn_status tn_tensor_set_string(tn_tensor *tensor, int64_t i, const char *text, size_t length) {
    RcString **place, *fresh;
    TRY(string_at(tensor, i, &place));
    TRY(rc_string_new(&tensor->ctx->allocator, (Str){text, length}, &fresh));
    rc_string_unref(*place);
    *place = fresh;
    return TN_OK;
}

static double element(const Tensor *t, int64_t i) {
    double v = 0;
    if (dtype_is_signed_int(t->dtype) || dtype_is_unsigned_int(t->dtype) || t->dtype == TN_BOOL) {
        int64_t n;
        load_i64(&n, t->dtype, t->data, t->offset + i, 1, 1);
        return t->dtype == TN_U64 ? (double)(uint64_t)n : (double)n;
    }
    if (t->dtype != TN_STRING) load_f64(&v, t->dtype, t->data, t->offset + i, 1, 1);
    return v;
}

double tn_tensor_get_double(const tn_tensor *tensor, int64_t i) {
    return i >= 0 && i < tn_tensor_count(tensor) ? element(&tensor->t, i) : 0;
}

/* ---- sequences, optionals, maps -------------------------------------------------------------------------------- */

tn_value_kind tn_tensor_kind(const tn_tensor *tensor) { return tensor ? (tn_value_kind)tensor->t.kind : TN_TENSOR; }

size_t tn_tensor_n_items(const tn_tensor *tensor) {
    return tensor && tensor->t.kind != TYPE_TENSOR ? object_of(&tensor->t)->n : 0;
}

tn_status tn_tensor_item(const tn_tensor *tensor, size_t i, tn_tensor **item) {
    if (!item) return fail(TN_INVALID_ARGUMENT, "the place for the item is NULL");
    if (i >= tn_tensor_n_items(tensor)) return fail(TN_OUT_OF_RANGE, "item %zu of %zu", i, tn_tensor_n_items(tensor));
    Tensor kept;
    TRY(tensor_keep(tensor->ctx, &object_of(&tensor->t)->items[i], &kept));
    tn_status status = tensor_handle(tensor->ctx, &kept, item);
    if (status != TN_OK) tensor_release(&kept);
    return status;
}

static tn_status note_depth(Context *ctx, Object *object) {
    for (size_t i = 0; i < object->n; i++) {
        uint32_t inner = object->items[i].kind == TYPE_TENSOR ? 0 : object_of(&object->items[i])->depth + 1;
        if (inner > object->depth) object->depth = inner;
    }
    if (object->depth <= ctx->limits.max_nesting) return TN_OK;
    return fail(TN_LIMIT, "values are nested more than %u deep (tn_limits.max_nesting)", ctx->limits.max_nesting);
}

tn_status tn_tensor_from_items(tn_context *context, tn_value_kind kind, const tn_tensor *const *items, size_t n,
                               tn_tensor **tensor) {
    if (!context || !tensor || (n && !items)) return fail(TN_INVALID_ARGUMENT, "context, items or tensor is NULL");
    if (kind < TN_SEQUENCE || kind > TN_MAP || (kind == TN_OPTIONAL && n > 1) || (kind == TN_MAP && n != 2))
        return fail(TN_INVALID_ARGUMENT, "%zu items: an optional has none or one, a map keys and values", n);
    Tensor t;
    TRY(object_new(context_of(context), (TypeKind)kind, n, &t));
    tn_status status = TN_OK;
    for (size_t i = 0; i < n && status == TN_OK; i++)
        status = items[i] ? tensor_keep(context_of(context), &items[i]->t, &object_of(&t)->items[i])
                          : fail(TN_INVALID_ARGUMENT, "item %zu is NULL", i);
    if (status == TN_OK) status = note_depth(context_of(context), object_of(&t));
    if (status == TN_OK) status = tensor_handle(context_of(context), &t, tensor);
    if (status != TN_OK) tensor_release(&t);
    return status;
}

/* ---- files --------------------------------------------------------------------------------------------------- */

static tn_status text_copy(const Text *text, char **out) {
    char *copy = mem_alloc(&allocator_default, text->n + 1, 1);
    if (!copy) return TN_OUT_OF_MEMORY;
    if (text->n) memcpy(copy, text->s, text->n);
    *out = copy;
    return TN_OK;
}

static tn_status parse_tensor(Context *ctx, const char *format, TypeKind kind, Buffer *bytes, tn_tensor **tensor,
                              char **name) {
    Tensor t = {0};
    Text found;
    text_init(&found, &ctx->allocator);
    tn_status status;
    if (kind != TYPE_TENSOR && strcmp(format, "pb") == 0) status = onnx_value_read(ctx, bytes, kind, &t, &found);
    else if (kind != TYPE_TENSOR)
        status = fail(TN_UNSUPPORTED, "values that are no tensors are read from pb, not from \"%s\"", format);
    else if (strcmp(format, "npy") == 0) status = npy_read(ctx, bytes->data, bytes->size, &t);
    else if (strcmp(format, "pb") == 0) status = onnx_tensor_read(ctx, bytes, &t, &found);
    else status = fail(TN_UNSUPPORTED, "tensors are read from npy and pb, not from \"%s\"", format);
    if (status == TN_OK && name) status = text_copy(&found, name);
    if (status == TN_OK) {
        status = tensor_handle(ctx, &t, tensor);
        if (status != TN_OK && name) tn_free_text(*name);
    }
    if (status != TN_OK) tensor_release(&t);
    text_free(&found);
    return status;
}

static const char *extension(const char *path) {
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    return dot && (!slash || dot > slash) ? dot + 1 : "";
}

tn_status tn_tensor_load(tn_context *context, const char *path, tn_tensor **tensor, char **name) {
    return tn_tensor_load_as(context, path, TN_TENSOR, tensor, name);
}

tn_status tn_tensor_load_as(tn_context *context, const char *path, tn_value_kind kind, tn_tensor **tensor,
                            char **name) {
    if (!context || !path || !tensor) return fail(TN_INVALID_ARGUMENT, "context, path or tensor is NULL");
    if (kind < TN_TENSOR || kind > TN_MAP) return fail(TN_INVALID_ARGUMENT, "there is no kind %d of values", (int)kind);
    Buffer *bytes;
    TRY(file_map(&context_of(context)->allocator, path, &bytes));
    tn_status status = parse_tensor(context_of(context), extension(path), (TypeKind)kind, bytes, tensor, name);
    buffer_unref(bytes);
    if (status != TN_OK) diag_set_file(path);
    return status;
}

tn_status tn_tensor_parse(tn_context *context, const char *format, const void *data, size_t size, tn_tensor **tensor,
                          char **name) {
    if (!context || !format || !tensor || (size && !data)) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    Buffer *bytes; /* a copy: the caller's memory is only lent for the call */
    TRY(buffer_new(&context_of(context)->allocator, size, &bytes));
    if (size) memcpy(bytes->data, data, size);
    tn_status status = parse_tensor(context_of(context), format, TYPE_TENSOR, bytes, tensor, name);
    buffer_unref(bytes);
    return status;
}

tn_status tn_tensor_save(const tn_tensor *tensor, const char *path, const char *name) {
    if (!tensor || !path) return fail(TN_INVALID_ARGUMENT, "tensor or path is NULL");
    bool npy = strcmp(extension(path), "npy") == 0;
    if (!npy && strcmp(extension(path), "pb") != 0)
        return fail(TN_UNSUPPORTED, "tensors are written as .npy and .pb; \"%s\" ends in neither", path);
    if (npy && !is_tensor(tensor))
        return fail(TN_UNSUPPORTED, "values that are no tensors are written as .pb, not as .npy");
    FileWriter *w;
    TRY(file_writer_open(&tensor->ctx->allocator, path, &w));
    Str label = str_of(name ? name : "");
    tn_status status = npy                 ? npy_write(&tensor->t, w)
                       : is_tensor(tensor) ? onnx_tensor_write(&tensor->t, label, w)
                                           : onnx_value_write(tensor->ctx, &tensor->t, label, w);
    if (status == TN_OK) return file_writer_commit(w);
    file_writer_abort(w);
    return status;
}

void tn_free_text(char *text) {
    if (text) mem_free(&allocator_default, text, strlen(text) + 1);
}
