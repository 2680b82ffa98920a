/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences, optionals and maps while a program runs: counted lists of tensors. */
#include "ir/ir.h"

/* `user` is the allocator. */
static void release_object(void *user, void *data, size_t size) {
    Object *object = data;
    for (size_t i = 0; i < object->n; i++) tensor_release(&object->items[i]);
    mem_free(user, data, size);
}

tn_status object_new(Context *ctx, TypeKind kind, size_t n, Tensor *out) {
    if (n > (SIZE_MAX - sizeof(Object)) / sizeof(Tensor)) return fail_memory(SIZE_MAX);
    size_t size = sizeof(Object) + n * sizeof(Tensor);
    if (size > ctx->limits.max_bytes) return fail(TN_LIMIT, "a sequence of %zu elements is larger than the limit", n);
    Object *object = mem_alloc(&ctx->allocator, size, alignof(Object));
    if (!object) return TN_OUT_OF_MEMORY;
    object->n = n;
    *out = (Tensor){.kind = kind, .data = object};
    tn_status status = buffer_borrow(&ctx->allocator, object, size, release_object, (void *)&ctx->allocator,
                                     &out->buffer);
    if (status != TN_OK) {
        mem_free(&ctx->allocator, object, size);
        *out = (Tensor){0};
    }
    return status;
}

tn_status tensor_keep(Context *ctx, const Tensor *from, Tensor *out) {
    if (from->buffer && (from->kind != TYPE_TENSOR || (from->offset == 0 && tensor_is_dense(from)))) {
        *out = *from;
        buffer_ref(out->buffer);
        return TN_OK;
    }
    if (from->kind != TYPE_TENSOR) return fail(TN_INTERNAL, "a sequence without an owner cannot be kept");
    TRY(tensor_new(ctx, from->dtype, from->rank, from->dims, out));
    tensor_gather(from, out->data);
    return TN_OK;
}
