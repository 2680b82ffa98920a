/* SPDX-License-Identifier: Apache-2.0 */
/* ArgMax, ArgMin (ONNX 13): the place of the largest or smallest element along one dimension. NaN counts as more
   extreme than any number, as in numpy. */
#include "ops/op_int.h"

#include <math.h>

#define WIDTH 256

typedef struct ArgReduce {
    const Tensor *in, *out;
    Class class;
    int64_t flip;         /* u64 compare as signed once the top bit is flipped */
    bool negate, last;    /* ArgMin; the last of equal ones */
    int64_t size, stride; /* of the axis */
    Tensor kept;          /* the operand without the axis */
    Stream stream;
} ArgReduce;

/* ArgMin looks for the largest of the negated (for integers: inverted) elements. */
static void prepare_f64(const ArgReduce *a, double *x, int64_t n) {
    for (int64_t i = 0; a->negate && i < n; i++) x[i] = -x[i];
}

static void prepare_i64(const ArgReduce *a, int64_t *x, int64_t n) {
    int64_t mask = a->flip ^ (a->negate ? -1 : 0);
    for (int64_t i = 0; mask && i < n; i++) x[i] ^= mask;
}

static void load(const ArgReduce *a, void *x, int64_t offset, int64_t stride, int64_t n) {
    class_load(a->class, x, a->in->dtype, a->in->data, offset, stride, n);
    if (a->class == CLASS_F64) prepare_f64(a, x, n);
    else prepare_i64(a, x, n);
}

static inline bool beats_f64(double x, double best, bool last) {
    if (isnan(best)) return last && isnan(x);
    return x > best || isnan(x) || (last && x == best);
}
static inline bool beats_i64(int64_t x, int64_t best, bool last) { return x > best || (last && x == best); }

/* The best of elements that lie `stride` apart from `offset` on. */
#define ALONG(suffix, X)                                                          \
    static int64_t along_##suffix(const ArgReduce *a, int64_t offset) {           \
        X x[CHUNK], best = 0;                                                     \
        int64_t place = 0;                                                        \
        for (int64_t at = 0; at < a->size; at += CHUNK) {                         \
            int64_t n = min_i64(CHUNK, a->size - at);                             \
            load(a, x, offset + at * a->stride, a->stride, n);                    \
            for (int64_t i = 0; i < n; i++) {                                     \
                if (at + i > 0 && !beats_##suffix(x[i], best, a->last)) continue; \
                best = x[i];                                                      \
                place = at + i;                                                   \
            }                                                                     \
        }                                                                         \
        return place;                                                             \
    }
ALONG(f64, double)
ALONG(i64, int64_t)

/* n results side by side, whose elements lie `step` apart: one row of the data after the other. */
#define ACROSS(suffix, X)                                                                                       \
    static void across_##suffix(const ArgReduce *a, int64_t offset, int64_t step, int64_t n, int64_t *places) { \
        X x[WIDTH], best[WIDTH];                                                                                \
        for (int64_t k = 0; k < a->size; k++) {                                                                 \
            load(a, x, offset + k * a->stride, step, n);                                                        \
            for (int64_t i = 0; i < n; i++) {                                                                   \
                if (k > 0 && !beats_##suffix(x[i], best[i], a->last)) continue;                                 \
                best[i] = x[i];                                                                                 \
                places[i] = k;                                                                                  \
            }                                                                                                   \
        }                                                                                                       \
    }
ACROSS(f64, double)
ACROSS(i64, int64_t)

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
        if (rows && a->class == CLASS_F64) across_f64(a, offset, step, n, places);
        else if (rows) across_i64(a, offset, step, n, places);
        else
            for (int64_t i = 0; i < n; i++)
                places[i] = a->class == CLASS_F64 ? along_f64(a, offset + i * step) : along_i64(a, offset + i * step);
    }
}

/* The operand with one element along the axis, in the result's dims. */
static tn_status drop_axis(ArgReduce *a, int axis) {
    Tensor like;
    a->kept = *a->in;
    a->kept.dims[axis] = 1;
    tensor_set_dense(&like, TN_I64, a->kept.rank, a->kept.dims);
    return stream_init(&a->stream, &a->kept, &like, a->class);
}

static tn_status run_arg(KernelCtx *c, bool negate) {
    const Tensor *in = c->in[0];
    int axis = 0;
    if (in->rank > 0) TRY(normal_axis(attr_int(c->node, "axis"), in->rank, "axis", &axis));
    ArgReduce a = {.in = in, .out = &c->out[0], .negate = negate, .size = 1, .stride = 1};
    a.class = class_of(in->dtype) == CLASS_INT ? CLASS_INT : CLASS_F64;
    a.flip = in->dtype == TN_U64 ? INT64_MIN : 0;
    a.last = attr_int(c->node, "select_last_index") != 0;
    if (in->rank > 0) {
        a.size = in->dims[axis];
        a.stride = in->strides[axis];
        TRY(drop_axis(&a, axis));
    } else {
        TRY(stream_init(&a.stream, in, in, a.class));
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
