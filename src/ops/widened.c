/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of few bits as f32. */
#include "ops/op.h"

enum { FEWEST = 1 << 12 /* elements: what is smaller is made at once, since rules and plans read it */ };

typedef struct Narrow {
    const Allocator *allocator;
    Tensor x;
    float less;
} Narrow;
typedef struct Making {
    const Narrow *narrow;
    float *y;
} Making;

static void subtract(float *y, int64_t n, float less) {
    for (int64_t i = 0; less != 0 && i < n; i++) y[i] -= less;
}

static void make_part(void *arg, int64_t begin, int64_t end) {
    const Making *m = arg;
    load_f32(m->y + begin, m->narrow->x.dtype, tensor_bytes(&m->narrow->x), begin, 1, end - begin);
    subtract(m->y + begin, end - begin, m->narrow->less);
}

static void make(void *user, void *data, Pool *pool) {
    const Narrow *w = user;
    int64_t count = tensor_count(&w->x);
    parallel_for(pool, count, 1, make_part, &(Making){w, data});
    file_forget(tensor_bytes(&w->x), (size_t)(count * dtype_size(w->x.dtype)));
}

static void drop(void *user) {
    Narrow *w = user;
    tensor_release(&w->x);
    mem_free(w->allocator, w, sizeof *w);
}

static tn_status make_later(Context *ctx, const Tensor *x, float less, Tensor *y) {
    Narrow *w = mem_alloc(&ctx->allocator, sizeof *w, alignof(Narrow));
    if (!w) return TN_OUT_OF_MEMORY;
    *w = (Narrow){&ctx->allocator, *x, less};
    tn_status status = tensor_new_lazy(ctx, TN_F32, x->rank, x->dims, &(BytesMaker){make, drop, w}, y);
    if (status == TN_OK) buffer_ref(x->buffer);
    else mem_free(&ctx->allocator, w, sizeof *w);
    return status;
}

tn_status widened_constant(Context *ctx, const Value *v, float less, Tensor *y) {
    const Tensor *x = value_payload(v);
    if (x->buffer && !buffer_is_lazy(x->buffer) && tensor_is_dense(x) && tensor_count(x) >= FEWEST)
        return make_later(ctx, x, less, y);
    x = value_constant(v);
    if (!x) return TN_OUT_OF_MEMORY;
    TRY(tensor_new(ctx, TN_F32, x->rank, x->dims, y));
    float *dst = y->data;
    for (TensorRows r = tensor_rows(x); x->data && tensor_next_row(&r); dst += r.n)
        load_f32(dst, x->dtype, x->data, r.offset, r.stride, r.n);
    subtract(y->data, tensor_count(y), less);
    return TN_OK;
}
