/* SPDX-License-Identifier: Apache-2.0 */
/* What reference kernels share: operands and results as dense arrays of a compute type, threads, nested calls. */
#include "ops/op.h"

tn_status kernel_poll(KernelCtx *c) { return c->host && c->host->poll ? c->host->poll(c->host) : TN_OK; }

tn_status kernel_alloc_output(KernelCtx *c, int i, int rank, const int64_t *dims) {
    return c->host->alloc_output(c->host, i, c->out[i].dtype, rank, dims, &c->out[i]);
}

tn_status kernel_give_output(KernelCtx *c, int i, Tensor *value) {
    TRY(c->host->give_output(c->host, i, value));
    c->out[i] = *value;
    return TN_OK;
}

typedef void (*LoadFn)(void *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n);

static void load_f32_any(void *dst, tn_dtype t, const void *p, int64_t o, int64_t s, int64_t n) {
    load_f32(dst, t, p, o, s, n);
}
static void load_f64_any(void *dst, tn_dtype t, const void *p, int64_t o, int64_t s, int64_t n) {
    load_f64(dst, t, p, o, s, n);
}
static void load_i64_any(void *dst, tn_dtype t, const void *p, int64_t o, int64_t s, int64_t n) {
    load_i64(dst, t, p, o, s, n);
}
/* Strings are lent: the operand keeps its references, and scratch memory is dropped without giving any back. */
static void load_same(void *dst, tn_dtype t, const void *p, int64_t o, int64_t s, int64_t n) {
    if (t == TN_STRING) {
        for (int64_t i = 0; i < n; i++) ((RcString **)dst)[i] = ((RcString *const *)p)[o + i * s];
        return;
    }
    copy_elements(t, dst, 0, 1, p, o, s, n);
}

/* Walks a strided operand in row-major order, one innermost run at a time. */
static void load_strided(const Tensor *t, LoadFn load, char *dst, size_t size) {
    int last = t->rank - 1;
    int64_t index[TN_MAX_RANK] = {0}, inner = t->dims[last], offset = t->offset;
    for (;;) {
        load(dst, t->dtype, t->data, offset, t->strides[last], inner);
        dst += (size_t)inner * size;
        int d = last - 1;
        for (; d >= 0; d--) {
            offset += t->strides[d];
            if (++index[d] < t->dims[d]) break;
            offset -= t->strides[d] * t->dims[d];
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

static tn_status load_all(KernelCtx *c, const Tensor *t, tn_dtype as, LoadFn load, const void **out) {
    int64_t n = tensor_count(t);
    size_t size = (size_t)dtype_size(as);
    if (t->dtype == as && size && tensor_is_dense(t) && t->data) {
        *out = (const char *)t->data + t->offset * (int64_t)size;
        return TN_OK;
    }
    /* Sub-byte elements copied as they are need whole bytes only; rows of strided ones are then not addressable. */
    char *dst = arena_alloc(c->scratch, (size_t)(n ? n : 1) * (size ? size : 1), 64);
    if (!dst) return TN_OUT_OF_MEMORY;
    if (n > 0) {
        if (t->rank == 0 || tensor_is_dense(t))
            load(dst, t->dtype, t->data, t->offset, 1, n);
        else
            load_strided(t, load, dst, size);
    }
    *out = dst;
    return TN_OK;
}

tn_status dense_f32(KernelCtx *c, int i, const float **out) {
    return load_all(c, c->in[i], TN_F32, load_f32_any, (const void **)out);
}

tn_status dense_f64(KernelCtx *c, int i, const double **out) {
    return load_all(c, c->in[i], TN_F64, load_f64_any, (const void **)out);
}

tn_status dense_i64(KernelCtx *c, int i, const int64_t **out) {
    const Tensor *t = c->in[i];
    if (t->dtype == TN_U64) { /* the same bits */
        Tensor as = *t;
        as.dtype = TN_I64;
        return load_all(c, &as, TN_I64, load_i64_any, (const void **)out);
    }
    return load_all(c, t, TN_I64, load_i64_any, (const void **)out);
}

/* Strided sub-byte elements: one at a time, since a row may start within a byte. */
static tn_status pack_subbyte(KernelCtx *c, const Tensor *t, const void **out) {
    int64_t n = tensor_count(t);
    size_t bytes;
    TRY(checked_bytes(t->dtype, n, &bytes));
    char *dst = arena_alloc(c->scratch, bytes ? bytes : 1, 64);
    if (!dst) return TN_OUT_OF_MEMORY;
    int64_t index[TN_MAX_RANK] = {0};
    for (int64_t k = 0; k < n; k++) {
        int64_t at = t->offset;
        for (int d = 0; d < t->rank; d++) at += index[d] * t->strides[d];
        copy_elements(t->dtype, dst, k, 1, t->data, at, 1, 1);
        for (int d = t->rank - 1; d >= 0 && ++index[d] == t->dims[d]; d--) index[d] = 0;
    }
    *out = dst;
    return TN_OK;
}

tn_status dense_bytes(KernelCtx *c, int i, const void **out) {
    const Tensor *t = c->in[i];
    if (dtype_size(t->dtype) == 0) return pack_subbyte(c, t, out);
    return load_all(c, t, t->dtype, load_same, out);
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
