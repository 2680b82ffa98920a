/* SPDX-License-Identifier: Apache-2.0 */
/* What reference kernels share: operands and results as dense arrays of a compute type, threads, nested calls. */
#include "ops/op_int.h"

tn_status kernel_poll(KernelCtx *c) { return c->host && c->host->poll ? c->host->poll(c->host) : TN_OK; }

tn_status kernel_alloc_output(KernelCtx *c, int i, int rank, const int64_t *dims) {
    return c->host->alloc_output(c->host, i, c->out[i].dtype, rank, dims, &c->out[i]);
}

tn_status kernel_give_output(KernelCtx *c, int i, Tensor *value) {
    TRY(c->host->give_output(c->host, i, value));
    c->out[i] = *value;
    return TN_OK;
}

/* The operand's own memory, where that is an array of `as` already. */
static bool borrow(const Tensor *t, tn_dtype as, const void **out) {
    if (t->dtype != as || dtype_size(as) == 0 || !t->data || !tensor_is_dense(t)) return false;
    *out = tensor_bytes(t);
    return true;
}

static tn_status load_all(KernelCtx *c, const Tensor *t, tn_dtype as, Class class, const void **out) {
    size_t size = (size_t)class_size(class);
    if (borrow(t, as, out)) return TN_OK;
    char *dst = arena_alloc(c->scratch, (size_t)max_i64(tensor_count(t), 1) * size, 64);
    if (!dst) return TN_OUT_OF_MEMORY;
    *out = dst;
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r); dst += (size_t)r.n * size)
        class_load(class, dst, t->dtype, t->data, r.offset, r.stride, r.n);
    return TN_OK;
}

tn_status dense_f32(KernelCtx *c, int i, const float **out) {
    return load_all(c, c->in[i], TN_F32, CLASS_F32, (const void **)out);
}

tn_status dense_f64(KernelCtx *c, int i, const double **out) {
    return load_all(c, c->in[i], TN_F64, CLASS_F64, (const void **)out);
}

tn_status dense_i64(KernelCtx *c, int i, const int64_t **out) {
    const Tensor *t = c->in[i];
    if (t->dtype == TN_U64) { /* the same bits */
        Tensor as = *t;
        as.dtype = TN_I64;
        return load_all(c, &as, TN_I64, CLASS_INT, (const void **)out);
    }
    return load_all(c, t, TN_I64, CLASS_INT, (const void **)out);
}

/* Strings are lent: the operand keeps its references, and scratch memory is dropped without giving any back. */
tn_status dense_bytes(KernelCtx *c, int i, const void **out) {
    const Tensor *t = c->in[i];
    size_t bytes;
    if (t->dtype == TN_STRING) return load_all(c, t, TN_STRING, CLASS_STRING, out);
    if (borrow(t, t->dtype, out)) return TN_OK;
    TRY(checked_bytes(t->dtype, tensor_count(t), &bytes));
    void *dst = arena_alloc(c->scratch, bytes ? bytes : 1, 64);
    if (!dst) return TN_OUT_OF_MEMORY;
    tensor_gather(t, dst);
    *out = dst;
    return TN_OK;
}

static tn_status result_array(KernelCtx *c, int i, tn_dtype as, void **out) {
    const Tensor *t = &c->out[i];
    if (t->dtype == as || (as == TN_I64 && t->dtype == TN_U64)) {
        *out = (char *)t->data + t->offset * dtype_size(as);
        return TN_OK;
    }
    int64_t n = tensor_count(t);
    *out = arena_alloc(c->scratch, (size_t)(n ? n : 1) * (size_t)dtype_size(as), 64);
    return *out ? TN_OK : TN_OUT_OF_MEMORY;
}

tn_status result_f32(KernelCtx *c, int i, float **out) { return result_array(c, i, TN_F32, (void **)out); }
tn_status result_f64(KernelCtx *c, int i, double **out) { return result_array(c, i, TN_F64, (void **)out); }
tn_status result_i64(KernelCtx *c, int i, int64_t **out) { return result_array(c, i, TN_I64, (void **)out); }

void result_f32_done(KernelCtx *c, int i, const float *data) {
    const Tensor *t = &c->out[i];
    if (t->dtype != TN_F32) store_f32(t->dtype, t->data, t->offset, 1, data, tensor_count(t));
}

void result_f64_done(KernelCtx *c, int i, const double *data) {
    const Tensor *t = &c->out[i];
    if (t->dtype != TN_F64) store_f64(t->dtype, t->data, t->offset, 1, data, tensor_count(t));
}

void result_i64_done(KernelCtx *c, int i, const int64_t *data) {
    const Tensor *t = &c->out[i];
    if (t->dtype != TN_I64 && t->dtype != TN_U64) store_i64(t->dtype, t->data, t->offset, 1, data, tensor_count(t));
}

tn_status kernel_ints(KernelCtx *c, int i, int64_t *out, int64_t max, int64_t *n) {
    return tensor_ints(c->in[i], out, max, n);
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

typedef struct Polled {
    KernelCtx *c;
    RangeFn fn;
    void *arg;
    int64_t slice;
    atomic_int status;
} Polled;

/* A thread's share in slices, so that a deadline is seen within a long kernel. */
static void run_polled(void *arg, int64_t begin, int64_t end) {
    Polled *p = arg;
    for (int64_t i = begin; i < end; i += p->slice) {
        if (atomic_load_explicit(&p->status, memory_order_relaxed) != TN_OK) return;
        tn_status status = kernel_poll(p->c);
        if (status != TN_OK) {
            atomic_store(&p->status, status);
            return;
        }
        p->fn(p->arg, i, min_i64(end, i + p->slice));
    }
}

tn_status kernel_parallel(KernelCtx *c, int64_t n, double cost, RangeFn fn, void *arg) {
    double slice = cost > 0 ? 2e6 / cost : 1e9; /* about two milliseconds */
    Polled p = {.c = c, .fn = fn, .arg = arg, .slice = slice < 1 ? 1 : slice > 1e9 ? (int64_t)1e9 : (int64_t)slice};
    atomic_init(&p.status, TN_OK);
    parallel_for(c->pool, n, cost, run_polled, &p);
    tn_status status = atomic_load(&p.status);
    return status == TN_OK ? TN_OK : kernel_poll(c); /* again on this thread: diagnostics are per thread */
}
