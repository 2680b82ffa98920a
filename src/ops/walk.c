/* SPDX-License-Identifier: Apache-2.0 */
/* Strided operands of reference kernels walked in the order of a dense result, and element-wise kernels over that. */
#include "ops/op_int.h"

/* ---- walks --------------------------------------------------------------------------------------------------- */

/* The strides of `t` read with the dims of `like`: dimensions are aligned at the last, size 1 is repeated. */
static tn_status broadcast_strides(const Tensor *t, const Tensor *like, int64_t *strides) {
    int lead = like->rank - t->rank;
    if (lead < 0)
        return fail(TN_SHAPE, "an operand of rank %d does not broadcast to a result of rank %d", (int)t->rank,
                    (int)like->rank);
    for (int k = 0; k < like->rank; k++) {
        strides[k] = 0;
        if (k < lead || (t->dims[k - lead] == 1 && like->dims[k] != 1)) continue;
        if (t->dims[k - lead] != like->dims[k])
            return fail(TN_SHAPE, "size %lld of an operand does not broadcast to size %lld of the result",
                        (long long)t->dims[k - lead], (long long)like->dims[k]);
        strides[k] = t->strides[k - lead];
    }
    return TN_OK;
}

/* Whether dimension k continues the one written last: then both are one. */
static bool continues(const Walk *w, int64_t strides[][TN_MAX_RANK], int k, int64_t size) {
    for (int i = 0; i < w->n; i++)
        if (w->strides[i][w->rank - 1] != strides[i][k] * size) return false;
    return true;
}

tn_status walk_operands(Walk *w, int n, const Tensor *const *operands) {
    const Tensor *like = operands[n - 1];
    int64_t strides[WALK_MAX][TN_MAX_RANK];
    assert(n >= 1 && n <= WALK_MAX);
    *w = (Walk){.n = n, .inner = 1, .outer = 1};
    for (int i = 0; i < n; i++) {
        TRY(broadcast_strides(operands[i], like, strides[i]));
        w->base[i] = operands[i]->offset;
    }
    for (int k = 0; k < like->rank; k++) {
        int64_t size = like->dims[k];
        if (size == 1) continue;
        bool merge = w->rank > 0 && continues(w, strides, k, size);
        if (!merge) w->dims[w->rank++] = 1;
        w->dims[w->rank - 1] *= size;
        for (int i = 0; i < n; i++) w->strides[i][w->rank - 1] = strides[i][k];
    }
    if (w->rank == 0) w->dims[w->rank++] = 1;
    w->inner = w->dims[w->rank - 1];
    for (int k = 0; k < w->rank - 1; k++) w->outer *= w->dims[k];
    if (w->inner == 0) w->outer = 0;
    return TN_OK;
}

void walk_offsets(const Walk *w, int64_t run, int64_t *offsets) {
    for (int i = 0; i < w->n; i++) offsets[i] = w->base[i];
    for (int k = w->rank - 2; k >= 0 && run > 0; k--) {
        int64_t at = run % w->dims[k];
        run /= w->dims[k];
        for (int i = 0; i < w->n; i++) offsets[i] += at * w->strides[i][k];
    }
}

/* ---- classes ------------------------------------------------------------------------------------------------- */

Class class_of(tn_dtype dtype) {
    if (dtype == TN_F64) return CLASS_F64;
    if (dtype == TN_STRING) return CLASS_STRING;
    if (dtype_is_complex(dtype)) return CLASS_COMPLEX;
    return dtype_is_float(dtype) ? CLASS_F32 : CLASS_INT;
}

int class_size(Class class) {
    static const int sizes[] = {[CLASS_F32] = sizeof(float),
                                [CLASS_F64] = sizeof(double),
                                [CLASS_INT] = sizeof(int64_t),
                                [CLASS_COMPLEX] = 2 * sizeof(double),
                                [CLASS_STRING] = sizeof(RcString *)};
    return sizes[class];
}

/* Chunks borrow strings: who stores them takes the references. */
static void load_strings(RcString **dst, const void *data, int64_t offset, int64_t stride, int64_t n) {
    RcString *const *src = data;
    for (int64_t i = 0; i < n; i++) dst[i] = src[offset + i * stride];
}

void class_load(Class class, void *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n) {
    switch (class) {
    case CLASS_F32: load_f32(dst, dtype, data, offset, stride, n); break;
    case CLASS_F64: load_f64(dst, dtype, data, offset, stride, n); break;
    case CLASS_INT: load_i64(dst, dtype, data, offset, stride, n); break;
    case CLASS_COMPLEX: load_c128(dst, dtype, data, offset, stride, n); break;
    case CLASS_STRING: load_strings(dst, data, offset, stride, n); break;
    }
}

void class_store(Class class, tn_dtype dtype, void *data, int64_t offset, int64_t stride, const void *src, int64_t n) {
    switch (class) {
    case CLASS_F32: store_f32(dtype, data, offset, stride, src, n); break;
    case CLASS_F64: store_f64(dtype, data, offset, stride, src, n); break;
    case CLASS_INT: store_i64(dtype, data, offset, stride, src, n); break;
    case CLASS_COMPLEX: store_c128(dtype, data, offset, stride, src, n); break;
    case CLASS_STRING: copy_elements(TN_STRING, data, offset, stride, src, 0, 1, n); break;
    }
}

/* The element type whose memory is the compute type's array. */
static tn_dtype direct_dtype(Class class, tn_dtype dtype) {
    switch (class) {
    case CLASS_F32: return TN_F32;
    case CLASS_F64: return TN_F64;
    case CLASS_INT: return dtype == TN_U64 ? TN_U64 : TN_I64;
    case CLASS_COMPLEX: return TN_C128;
    case CLASS_STRING: return TN_STRING;
    }
    return TN_UNDEFINED;
}

/* ---- streams ------------------------------------------------------------------------------------------------- */

tn_status stream_init(Stream *s, const Tensor *tensor, const Tensor *like, Class class) {
    Tensor dense = {0};
    tensor_set_dense(&dense, like->dtype, like->rank, like->dims);
    s->tensor = tensor;
    s->class = class;
    s->direct = direct_dtype(class, tensor->dtype);
    return walk_operands(&s->walk, 2, (const Tensor *const[]){tensor, &dense});
}

/* The next run of a walk, `at` holding its place in each outer dimension. */
static void advance(const Walk *w, int64_t *at, int64_t *offset) {
    for (int k = w->rank - 2; k >= 0; k--) {
        *offset += w->strides[0][k];
        if (++at[k] < w->dims[k]) return;
        *offset -= at[k] * w->strides[0][k];
        at[k] = 0;
    }
}

const void *stream_read(const Stream *s, int64_t at, int64_t n, void *buffer) {
    const Walk *w = &s->walk;
    const Tensor *t = s->tensor;
    int64_t stride = w->strides[0][w->rank - 1], offset = w->base[0], place[TN_MAX_RANK];
    int64_t run = at / w->inner, begin = at % w->inner;
    for (int k = w->rank - 2; k >= 0; k--) {
        place[k] = run % w->dims[k];
        run /= w->dims[k];
        offset += place[k] * w->strides[0][k];
    }
    size_t size = (size_t)class_size(s->class);
    if (t->dtype == s->direct && stride == 1 && begin + n <= w->inner)
        return (const char *)t->data + (size_t)(offset + begin) * size;
    for (int64_t done = 0; done < n; begin = 0) {
        int64_t length = min_i64(w->inner - begin, n - done);
        class_load(s->class, (char *)buffer + (size_t)done * size, t->dtype, t->data, offset + begin * stride, stride,
                   length);
        done += length;
        if (done < n) advance(w, place, &offset);
    }
    return buffer;
}

/* ---- element-wise kernels ------------------------------------------------------------------------------------ */

/* One chunk in the largest compute type. */
typedef struct Chunk {
    alignas(64) char bytes[CHUNK * 2 * sizeof(double)];
} Chunk;

typedef struct Elementwise {
    int n;
    Stream in[WALK_MAX];
    bool present[WALK_MAX];
    const Tensor *out;
    Class out_class;
    ChunkFn fn;
    const void *user;
    int64_t count;
} Elementwise;

/* Where chunk `at` of a dense result is made: in place when its memory is the compute type's. */
static void *result_at(const Tensor *out, Class class, int64_t at, void *buffer) {
    if (out->dtype != direct_dtype(class, out->dtype) || class == CLASS_STRING) return buffer;
    return (char *)out->data + (size_t)(out->offset + at) * (size_t)class_size(class);
}

static void store_result(const Tensor *out, Class class, int64_t at, const void *y, const void *buffer, int64_t n) {
    if (y == buffer) class_store(class, out->dtype, out->data, out->offset + at, 1, y, n);
}

static void elementwise_range(void *arg, int64_t begin, int64_t end) {
    const Elementwise *e = arg;
    Chunk in[WALK_MAX - 1], out;
    const void *x[WALK_MAX] = {0};
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t at = chunk * CHUNK, n = min_i64(CHUNK, e->count - at);
        for (int k = 0; k < e->n; k++) x[k] = e->present[k] ? stream_read(&e->in[k], at, n, in[k].bytes) : NULL;
        void *y = result_at(e->out, e->out_class, at, out.bytes);
        e->fn(e->user, y, x, n);
        store_result(e->out, e->out_class, at, y, out.bytes, n);
    }
}

/* Chunks are whole numbers of bytes of every element type, so two threads never write to one byte. */
static_assert(CHUNK % 8 == 0, "sub-byte results are split at byte boundaries");

tn_status run_elementwise_on(KernelCtx *c, int n, const Tensor *const *in, const Class *in_class, const Tensor *out,
                             Class out_class, ChunkFn fn, const void *user, double cost) {
    assert(n < WALK_MAX);
    if (!fn) return fail(TN_UNSUPPORTED, "does not work on %s", dtype_name(in[0]->dtype));
    Elementwise e = {.n = n, .out = out, .out_class = out_class, .fn = fn, .user = user, .count = tensor_count(out)};
    for (int k = 0; k < n; k++) {
        e.present[k] = in[k] != NULL;
        if (in[k]) TRY(stream_init(&e.in[k], in[k], out, in_class[k]));
    }
    if (e.count == 0) return TN_OK;
    return kernel_parallel(c, (e.count + CHUNK - 1) / CHUNK, cost * CHUNK, elementwise_range, &e);
}

tn_status run_elementwise(KernelCtx *c, int n, Class in, Class out, ChunkFn fn, const void *user, double cost) {
    const Tensor *operands[WALK_MAX];
    Class classes[WALK_MAX];
    for (int k = 0; k < n; k++) {
        operands[k] = kernel_has_input(c, k) ? c->in[k] : NULL;
        classes[k] = in;
    }
    return run_elementwise_on(c, n, operands, classes, &c->out[0], out, fn, user, cost);
}

static ChunkFn pick(const ElementwiseFns *fns, tn_dtype dtype) {
    switch (class_of(dtype)) {
    case CLASS_F32: return fns->f32;
    case CLASS_F64: return fns->f64;
    case CLASS_INT: return dtype == TN_U64 && fns->u64 ? fns->u64 : fns->i64;
    default: return NULL;
    }
}

tn_status run_by_class(KernelCtx *c, int n, const ElementwiseFns *fns, const void *user, double cost) {
    Class class = class_of(c->in[0]->dtype);
    return run_elementwise(c, n, class, class, pick(fns, c->in[0]->dtype), user, cost);
}

tn_status run_to_int(KernelCtx *c, int n, const ElementwiseFns *fns, const void *user, double cost) {
    return run_elementwise(c, n, class_of(c->in[0]->dtype), CLASS_INT, pick(fns, c->in[0]->dtype), user, cost);
}

/* ---- folds --------------------------------------------------------------------------------------------------- */

typedef struct Fold {
    int n;
    Stream *in;
    const Tensor *out;
    Class class;
    ChunkFn fn, finish;
    const void *user;
    int64_t count;
} Fold;

/* The accumulator is never the result's memory: that may be an operand's which is still to be read. */
static void fold_range(void *arg, int64_t begin, int64_t end) {
    const Fold *f = arg;
    Chunk acc, next;
    size_t size = (size_t)class_size(f->class);
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t at = chunk * CHUNK, n = min_i64(CHUNK, f->count - at);
        const void *first = stream_read(&f->in[0], at, n, acc.bytes);
        if (first != acc.bytes) memcpy(acc.bytes, first, (size_t)n * size);
        for (int k = 1; k < f->n; k++)
            f->fn(f->user, acc.bytes, (const void *const[]){acc.bytes, stream_read(&f->in[k], at, n, next.bytes)}, n);
        if (f->finish) f->finish(f->user, acc.bytes, (const void *const[]){acc.bytes}, n);
        class_store(f->class, f->out->dtype, f->out->data, f->out->offset + at, 1, acc.bytes, n);
    }
}

tn_status run_fold(KernelCtx *c, const ElementwiseFns *fns, const ElementwiseFns *finish, const void *user,
                   double cost) {
    tn_dtype dtype = c->in[0]->dtype;
    Fold f = {.n = c->n_in, .out = &c->out[0], .class = class_of(dtype), .user = user};
    f.fn = pick(fns, dtype);
    f.finish = finish ? pick(finish, dtype) : NULL;
    f.count = tensor_count(f.out);
    if (!f.fn) return fail(TN_UNSUPPORTED, "does not work on %s", dtype_name(dtype));
    f.in = kernel_scratch(c, Stream, c->n_in);
    if (!f.in) return TN_OUT_OF_MEMORY;
    for (int k = 0; k < c->n_in; k++) TRY(stream_init(&f.in[k], c->in[k], f.out, f.class));
    if (f.count == 0) return TN_OK;
    return kernel_parallel(c, (f.count + CHUNK - 1) / CHUNK, cost * c->n_in * CHUNK, fold_range, &f);
}
