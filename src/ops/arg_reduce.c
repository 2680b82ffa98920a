/* SPDX-License-Identifier: Apache-2.0 */
/* ArgMax, ArgMin (ONNX 13): the place of the largest or smallest element along one dimension. NaN counts as more
   extreme than any number, as in numpy. */
#include "ops/move_int.h"

enum { WIDTH = 256 };

/* Elements are compared as whole numbers in the order of their values, which vectors are good at: of 32 bits where those are
   enough, with all NaN the largest and -0 as 0. ArgMin looks for the largest of the inverted ones. */
typedef struct ArgReduce {
    const Tensor *in, *out;
    bool narrow;          /* keys of 32 bits */
    bool invert, last;    /* ArgMin; the last of equal ones */
    int64_t size, stride; /* of the axis */
    Tensor kept;          /* the operand without the axis */
    Stream stream;
} ArgReduce;

static void load_32(const ArgReduce *a, int32_t *x, int64_t offset, int64_t stride, int64_t n) {
    order_keys(a->in->dtype, a->in->data, offset, stride, n, x);
    int32_t stays = dtype_is_float(a->in->dtype) ? INT32_MAX : INT32_MIN; /* NaN; the least is the largest inverted */
    if (!a->invert) return;
    EACH(i, n) x[i] = x[i] == stays ? INT32_MAX : ~x[i];
}

static void load_64(const ArgReduce *a, int64_t *x, int64_t offset, int64_t stride, int64_t n) {
    if (dtype_is_float(a->in->dtype)) {
        sort_keys(a->in->dtype, a->in->data, offset, stride, n, (uint64_t *)x);
        for (int64_t i = 0; i < n; i++) x[i] = a->invert && x[i] != -1 ? ~(x[i] ^ INT64_MIN) : x[i] ^ INT64_MIN;
        return;
    }
    load_i64(x, a->in->dtype, a->in->data, offset, stride, n);
    int64_t mask = (a->in->dtype == TN_U64 ? INT64_MIN : 0) ^ (a->invert ? -1 : 0);
    for (int64_t i = 0; mask && i < n; i++) x[i] ^= mask;
}

/* The best of elements that lie `stride` apart from `offset` on: the largest of a block, and only where it is better than what
   came before its place. */
#define ALONG(bits)                                                            \
    static int64_t along_##bits(const ArgReduce *a, int64_t offset) {          \
        int##bits##_t x[WIDTH], best = 0;                                      \
        int64_t place = 0;                                                     \
        for (int64_t at = 0; at < a->size; at += WIDTH) {                      \
            int64_t n = min_i64(WIDTH, a->size - at), i;                       \
            load_##bits(a, x, offset + at * a->stride, a->stride, n);          \
            int##bits##_t top = x[0];                                          \
            for (i = 1; i < n; i++) top = x[i] > top ? x[i] : top;             \
            if (at > 0 && (top < best || (top == best && !a->last))) continue; \
            best = top;                                                        \
            if (a->last)                                                       \
                for (i = n - 1; x[i] != top;) i--;                             \
            else                                                               \
                for (i = 0; x[i] != top;) i++;                                 \
            place = at + i;                                                    \
        }                                                                      \
        return place;                                                          \
    }
ALONG(32)
ALONG(64)

/* n results side by side, whose elements lie `step` apart: one row of the data after the other. Places are counted in numbers
   as wide as the keys, from the beginning of the axis or of a part of it. */
#define ACROSS(bits)                                                                                          \
    static void across_##bits(const ArgReduce *a, int64_t offset, int64_t step, int64_t n, int64_t *places) { \
        int##bits##_t x[WIDTH], best[WIDTH], at[WIDTH];                                                       \
        load_##bits(a, best, offset, step, n);                                                                \
        memset(at, 0, sizeof at);                                                                             \
        for (int64_t k = 1; k < a->size; k++) {                                                               \
            load_##bits(a, x, offset + k * a->stride, step, n);                                               \
            int##bits##_t here = (int##bits##_t)k;                                                            \
            if (a->last) EACH(i, n) {                                                                         \
                    at[i] = x[i] >= best[i] ? here : at[i];                                                   \
                    best[i] = x[i] > best[i] ? x[i] : best[i];                                                \
                }                                                                                             \
            else EACH(i, n) {                                                                                 \
                    at[i] = x[i] > best[i] ? here : at[i];                                                    \
                    best[i] = x[i] > best[i] ? x[i] : best[i];                                                \
                }                                                                                             \
        }                                                                                                     \
        for (int64_t i = 0; i < n; i++) places[i] = at[i];                                                    \
    }
ACROSS(32)
ACROSS(64)

/* Runs of results that are evenly spaced in the operand, in pieces. */
static void arg_range(void *arg, int64_t begin, int64_t end) {
    const ArgReduce *a = arg;
    const Walk *w = &a->stream.walk;
    int64_t step = w->strides[0][w->rank - 1], pieces = (w->inner + WIDTH - 1) / WIDTH;
    int64_t *out = (int64_t *)a->out->data + a->out->offset;
    for (int64_t task = begin; task < end; task++) {
        int64_t run = task / pieces, at = task % pieces * WIDTH, n = min_i64(WIDTH, w->inner - at), offsets[WALK_MAX];
        int64_t *places = out + run * w->inner + at;
        walk_offsets(w, run, offsets);
        int64_t offset = offsets[0] + at * step;
        bool rows = step < a->stride && n > 1; /* what lies nearer is walked first */
        if (rows && a->narrow) across_32(a, offset, step, n, places);
        else if (rows) across_64(a, offset, step, n, places);
        else
            for (int64_t i = 0; i < n; i++)
                places[i] = a->narrow ? along_32(a, offset + i * step) : along_64(a, offset + i * step);
    }
}

/* The operand with one element along the axis, in the result's dims. */
static tn_status drop_axis(ArgReduce *a, int axis) {
    Tensor like;
    a->kept = *a->in;
    a->kept.dims[axis] = 1;
    tensor_set_dense(&like, TN_I64, a->kept.rank, a->kept.dims);
    return stream_init(&a->stream, &a->kept, &like, CLASS_INT); /* of which the strides are wanted */
}

static tn_status run_arg(KernelCtx *c, bool smallest) {
    const Tensor *in = c->in[0];
    int axis = 0;
    if (in->rank > 0) TRY(normal_axis(attr_int(c->node, "axis"), in->rank, "axis", &axis));
    ArgReduce a = {.in = in, .out = &c->out[0], .invert = smallest, .size = 1, .stride = 1};
    a.narrow = has_order_keys(in->dtype);
    if (in->rank > 0 && in->dims[axis] > INT32_MAX) a.narrow = false;
    a.last = attr_int(c->node, "select_last_index") != 0;
    if (in->rank > 0) {
        a.size = in->dims[axis];
        a.stride = in->strides[axis];
        TRY(drop_axis(&a, axis));
    } else {
        TRY(stream_init(&a.stream, in, in, CLASS_INT));
    }
    const Walk *w = &a.stream.walk;
    if (w->outer == 0) return TN_OK;
    if (a.size == 0) return fail(TN_OUT_OF_RANGE, "dimension %d is empty: it has no largest or smallest element", axis);
    int64_t tasks = w->outer * ((w->inner + WIDTH - 1) / WIDTH);
    return kernel_parallel(c, tasks, (double)min_i64(w->inner, WIDTH) * (double)a.size + 20, arg_range, &a);
}

static tn_status arg_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    bool keep = attr_int(c->node, "keepdims") != 0;
    Shape s = {.rank = 0};
    int axis = -1;
    set_dtype(c, 0, TN_I64);
    if (x->rank < 0) return TN_OK;
    if (x->rank > 0) TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    for (int k = 0; k < x->rank; k++)
        if (k != axis || keep) s.dims[s.rank++] = k == axis ? 1 : x->dims[k];
    set_shape(c, 0, &s);
    return TN_OK;
}

static tn_status arg_max_reference(KernelCtx *c) { return run_arg(c, false); }
static tn_status arg_min_reference(KernelCtx *c) { return run_arg(c, true); }

#define ARG_OP(id, reference_fn, text)                                                                \
    const OpSchema op_##id = {                                                                        \
        .name = #id,                                                                                  \
        .summary = #id " (ONNX 13): the place of the " text " element along a dimension",             \
        .kind = OP_ATOMIC,                                                                            \
        .inputs = OPERANDS({"data", TS_NUMERIC, 'T', 0}),                                             \
        .outputs = OPERANDS({"reduced", TS(TN_I64), 0, 0}),                                           \
        .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 0, 0, NULL}, {"keepdims", ATTR_INT, 0, 1, 0, NULL}, \
                            {"select_last_index", ATTR_INT, 0, 0, 0, NULL}),                          \
        .infer = arg_infer,                                                                           \
        .reference = reference_fn,                                                                    \
    };
ARG_OP(ArgMax, arg_max_reference, "largest")
ARG_OP(ArgMin, arg_min_reference, "smallest")
