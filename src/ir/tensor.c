/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: strided readings of memory, and fresh ones. */
#include "ir/ir_int.h"

int64_t tensor_count(const Tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}

bool tensor_is_dense(const Tensor *t) {
    int64_t expected = 1;
    if (tensor_count(t) == 0) return true;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i] != 1 && t->strides[i] != expected) return false;
        expected *= t->dims[i];
    }
    return true;
}

TensorRows tensor_rows(const Tensor *t) {
    int64_t count = tensor_count(t);
    TensorRows r = {.t = t, .n = count, .stride = 1, .left = count > 0};
    if (count > 0 && !tensor_is_dense(t)) { /* then it has a last dimension */
        r.n = t->dims[t->rank - 1];
        r.stride = t->strides[t->rank - 1];
        r.left = count / r.n;
    }
    return r;
}

bool tensor_next_row(TensorRows *r) {
    const Tensor *t = r->t;
    if (r->left == 0) return false;
    r->left--;
    r->offset = t->offset;
    for (int i = 0; i < t->rank - 1; i++) r->offset += r->at[i] * t->strides[i];
    for (int i = t->rank - 2; i >= 0 && ++r->at[i] == t->dims[i]; i--) r->at[i] = 0;
    return true;
}

void tensor_gather(const Tensor *t, void *to) {
    int64_t done = 0;
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r); done += r.n)
        copy_elements(t->dtype, to, done, 1, t->data, r.offset, r.stride, r.n);
}

void tensor_set_dense(Tensor *t, tn_dtype dtype, int rank, const int64_t *dims) {
    *t = (Tensor){.dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        t->dims[i] = dims[i];
        t->strides[i] = stride;
        stride *= max_i64(dims[i], 1);
    }
}

/* `user` is the allocator. */
static void release_strings(void *user, void *data, size_t size) {
    RcString **strings = data;
    for (size_t i = 0; i < size / sizeof *strings; i++) rc_string_unref(strings[i]);
    mem_free(user, data, size);
}

/* Strings drop their references together with the last reference to the buffer. */
static tn_status string_buffer(Context *ctx, size_t size, Buffer **out) {
    void *data = mem_alloc(&ctx->allocator, size, 64);
    if (!data) return TN_OUT_OF_MEMORY;
    tn_status status = buffer_borrow(&ctx->allocator, data, size, release_strings, &ctx->allocator, out);
    if (status != TN_OK) mem_free(&ctx->allocator, data, size);
    return status;
}

static tn_status set_fresh(Context *ctx, tn_dtype dtype, int rank, const int64_t *dims, size_t *bytes, Tensor *out) {
    int64_t count;
    if (dtype_bits(dtype) == 0) return fail(TN_INVALID_ARGUMENT, "a tensor needs an element type");
    if (rank < 0 || rank > TN_MAX_RANK)
        return fail(TN_SHAPE, "a tensor of rank %d was asked for; ranks go from 0 to %d", rank, TN_MAX_RANK);
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0) return fail(TN_SHAPE, "dimension %d of a tensor is negative: %lld", i, (long long)dims[i]);
    TRY(checked_count(rank, dims, &count));
    TRY(checked_bytes(dtype, count, bytes));
    if (*bytes > ctx->limits.max_bytes)
        return fail(TN_LIMIT, "a tensor of %zu bytes is larger than the limit of %llu (tn_limits.max_bytes)", *bytes,
                    (unsigned long long)ctx->limits.max_bytes);
    tensor_set_dense(out, dtype, rank, dims);
    return TN_OK;
}

static tn_status take_buffer(tn_status status, Tensor *t) {
    if (status == TN_OK) t->data = t->buffer->data;
    else t->buffer = NULL;
    return status;
}

tn_status tensor_new(Context *ctx, tn_dtype dtype, int rank, const int64_t *dims, Tensor *out) {
    return tensor_new_on(ctx, NULL, dtype, rank, dims, out);
}

tn_status tensor_new_on(Context *ctx, Shelf *shelf, tn_dtype dtype, int rank, const int64_t *dims, Tensor *out) {
    size_t bytes;
    TRY(set_fresh(ctx, dtype, rank, dims, &bytes, out));
    TRY(take_buffer(dtype == TN_STRING ? string_buffer(ctx, bytes, &out->buffer)
                                       : shelf_take(shelf, &ctx->allocator, bytes, &out->buffer),
                    out));
    if (dtype_size(dtype) == 0 && bytes > 0) ((uint8_t *)out->data)[bytes - 1] = 0; /* part of it may be nobody's */
    return TN_OK;
}

tn_status tensor_new_lazy(Context *ctx, tn_dtype dtype, int rank, const int64_t *dims, const BytesMaker *maker,
                          Tensor *out) {
    size_t bytes;
    TRY(set_fresh(ctx, dtype, rank, dims, &bytes, out));
    return take_buffer(buffer_lazy(&ctx->allocator, bytes, maker, &out->buffer), out);
}

void tensor_release(Tensor *t) {
    buffer_unref(t->buffer);
    t->buffer = NULL;
    t->data = NULL;
}

tn_status tensor_ints(const Tensor *t, int64_t *out, int64_t max, int64_t *n) {
    bool integers = t->dtype == TN_BOOL || dtype_is_signed_int(t->dtype) || dtype_is_unsigned_int(t->dtype);
    int64_t count = tensor_count(t);
    if (!integers) return fail(TN_INVALID_ARGUMENT, "integers are needed here, not %s", dtype_name(t->dtype));
    if (count > max)
        return fail(TN_SHAPE, "at most %lld integers are possible here, not %lld", (long long)max, (long long)count);
    *n = count;
    if (count == 0) return TN_OK;
    if (!t->data) return fail(TN_INVALID_ARGUMENT, "the integers are not known here");
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r); out += r.n)
        load_i64(out, t->dtype, t->data, r.offset, r.stride, r.n);
    return TN_OK;
}
