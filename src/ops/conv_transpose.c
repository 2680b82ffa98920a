/* SPDX-License-Identifier: Apache-2.0 */
/* ConvTranspose (ONNX 22): each input element adds its weighted window to the result. */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

/* What the attributes say beyond the window: sizes asked for (0: none) and added at the end. */
typedef struct TransposedWindow {
    Window window;
    int64_t asked[TN_MAX_RANK], extra[TN_MAX_RANK];
} TransposedWindow;

static tn_status read_window(const Node *node, int rank, TransposedWindow *t) {
    *t = (TransposedWindow){0};
    TRY(window_read(node, rank, &t->window));
    IntList shape = attr_ints(node, "output_shape"), extra = attr_ints(node, "output_padding");
    /* Some exporters write batch and channels in front. */
    if (shape.n == (size_t)rank + 2) shape.data += 2, shape.n -= 2;
    if (shape.n && shape.n != (size_t)rank)
        return fail(TN_INVALID_MODEL, "output_shape has %zu values where %d are wanted", shape.n, rank);
    if (extra.n && extra.n != (size_t)rank)
        return fail(TN_INVALID_MODEL, "output_padding has %zu values where %d are wanted", extra.n, rank);
    for (int d = 0; d < rank; d++) {
        if (shape.n) t->asked[d] = shape.data[d];
        if (extra.n) t->extra[d] = extra.data[d];
        if ((shape.n && t->asked[d] < 1) || t->asked[d] > INT32_MAX)
            return fail(TN_INVALID_MODEL, "output_shape has the value %lld; 1 or more is wanted",
                        (long long)t->asked[d]);
        if (t->extra[d] < 0 || t->extra[d] > INT32_MAX)
            return fail(TN_INVALID_MODEL, "output_padding has the value %lld; 0 or more is wanted",
                        (long long)t->extra[d]);
    }
    return TN_OK;
}

/* The size when nothing is cut off: stride * (in - 1) + extra + span of the window. */
static Dim full_size(DimTable *dims, const TransposedWindow *t, int d, Dim in, Dim kernel) {
    Dim steps = dim_mul(dims, dim_sub(dims, in, 1), t->window.stride[d]);
    Dim span = dim_add(dims, dim_mul(dims, dim_sub(dims, kernel, 1), t->window.dilation[d]), 1);
    return dim_add(dims, dim_add(dims, steps, span), t->extra[d]);
}

static tn_status out_size(DimTable *dims, const TransposedWindow *t, int d, Dim in, Dim kernel, Dim *out) {
    if (t->asked[d]) {
        *out = t->asked[d];
    } else if (t->window.auto_pad >= PAD_SAME_UPPER) {
        /* Pads are never negative, so a stride longer than the window leaves less. */
        Dim wanted = dim_mul(dims, in, t->window.stride[d]);
        *out = dim_make(dims, DIM_MIN, wanted, full_size(dims, t, d, in, kernel));
    } else {
        *out = dim_sub(dims, full_size(dims, t, d, in, kernel), t->window.begin[d] + t->window.end[d]);
        if (dim_is_const(*out) && *out < 0)
            return fail(TN_SHAPE, "pads cut off more than there is: size %lld in spatial dimension %d", (long long)*out,
                        d);
    }
    return TN_OK;
}

static tn_status check_operands(InferCtx *c, int rank, int64_t group) {
    if (rank < 3) return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where 3 or more are wanted", IN_NAME(c, 0), rank);
    TRY(want_rank(c, 1, rank));
    if (group < 1) return fail(TN_INVALID_MODEL, "group is %lld; 1 or more is wanted", (long long)group);
    Dim channels = in_dim(c, 0, 1), want = in_dim(c, 1, 0);
    if (dim_is_const(channels) && dim_is_const(want) && channels != want)
        return fail(TN_SHAPE, "weights want %lld input channels, but \"%.*s\" has %lld", (long long)want, IN_NAME(c, 0),
                    (long long)channels);
    if (dim_is_const(want) && want % group)
        return fail(TN_SHAPE, "%lld input channels cannot be divided into %lld groups", (long long)want,
                    (long long)group);
    return TN_OK;
}

static tn_status conv_transpose_infer(InferCtx *c) {
    int rank = rank_known(c, 0) ? in_shape(c, 0)->rank : in_shape(c, 1)->rank;
    if (rank < 0) {
        set_unknown_rank(c, 0, -1);
        return TN_OK;
    }
    int64_t group = attr_int(c->node, "group");
    TRY(check_operands(c, rank, group));
    Dim channels = dim_mul(c->dims, in_dim(c, 1, 1), group);
    TRY(want_vector(c, 2, channels, false));
    TransposedWindow t;
    TRY(read_window(c->node, rank - 2, &t));
    Shape y = {.rank = rank, .dims = {in_dim(c, 0, 0), channels}};
    for (int d = 0; d < rank - 2; d++) {
        Dim kernel = in_dim(c, 1, 2 + d);
        if (t.window.kernel[d])
            TRY(dims_must_match(kernel, t.window.kernel[d], "kernel_shape and the weights", &kernel));
        if (kernel == 0) return fail(TN_SHAPE, "the weights have no elements in spatial dimension %d", d);
        TRY(out_size(c->dims, &t, d, in_dim(c, 0, 2 + d), kernel, &y.dims[2 + d]));
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

static double conv_transpose_flops(const Node *node, const Shape *in, const Shape *out) {
    (void)node, (void)out;
    double n = 2;
    for (int d = 0; d < in[0].rank; d++) n *= (double)in[0].dims[d];
    for (int d = 1; d < in[1].rank; d++) n *= (double)in[1].dims[d];
    return n;
}

/* What is cut off is split evenly; the odd element goes to the end for SAME_UPPER, else to the start. */
static void fix_pads(TransposedWindow *t, const int64_t *in, const int64_t *out) {
    Window *w = &t->window;
    for (int d = 0; d < w->rank; d++) {
        if (!t->asked[d] && w->auto_pad < PAD_SAME_UPPER) continue;
        int64_t total = max_i64(full_size(NULL, t, d, in[d], w->kernel[d]) - out[d], 0);
        w->begin[d] = w->auto_pad == PAD_SAME_UPPER ? total / 2 : total - total / 2;
        w->end[d] = total - w->begin[d];
    }
}

/* Products are made for as many result channels at a time as keep the buffer below so many elements. */
#define COLUMNS_MAX ((int64_t)1 << 22)

#define BODY "ops/conv_transpose_body.h"
#include "ops/each_float_int.h"

static tn_status conv_transpose_reference(KernelCtx *c) { return RUN_FLOAT(c, conv_transpose); }

/* ---- lowering ------------------------------------------------------------------------------------------------ */

/* Regions that lay columns [planes, taps, in..] out as [taps, planes, full..], each tap where it belongs. */
static tn_status tap_regions(LowerCtx *c, const TransposedWindow *t, const int64_t *in, const int64_t *full,
                             int64_t planes, IntList **out, int64_t *taps) {
    const Window *w = &t->window;
    int n = w->rank, rank = n + 1, each = 3 * rank + 3;
    int64_t in_stride[TN_MAX_RANK], full_stride[TN_MAX_RANK], in_plane = 1, full_plane = 1, tap[TN_MAX_RANK] = {0};
    *taps = 1;
    for (int d = 0; d < n; d++) *taps *= w->kernel[d], in_plane *= in[d], full_plane *= full[d];
    lower_strides(n, in, in_stride);
    lower_strides(n, full, full_stride);
    *out = lower_scratch(c, IntList, *taps);
    int64_t *numbers = lower_scratch(c, int64_t, *taps * each);
    if (!*out || !numbers) return c->status;
    for (int64_t k = 0; k < *taps; k++, numbers += each, next_index(n, w->kernel, tap)) {
        int64_t *src = numbers + 1 + rank, *dst = src + 1 + rank;
        numbers[0] = 0;
        numbers[1] = planes;
        src[0] = k * in_plane, src[1] = *taps * in_plane;
        dst[0] = k * planes * full_plane, dst[1] = full_plane;
        for (int d = 0; d < n; d++) {
            numbers[2 + d] = in[d];
            src[2 + d] = in_stride[d];
            dst[0] += tap[d] * w->dilation[d] * full_stride[d];
            dst[2 + d] = w->stride[d] * full_stride[d];
        }
        (*out)[k] = (IntList){numbers, (size_t)each};
    }
    return TN_OK;
}

/* What all taps contribute is laid side by side and added up, then the pads are cut off. */
static Value *add_taps(LowerCtx *c, TransposedWindow *t, Value *columns, const Shape *x, const Shape *y) {
    int n = t->window.rank;
    int64_t full[TN_MAX_RANK], planes = y->dims[0] * y->dims[1], dims[TN_MAX_RANK], pads[2 * TN_MAX_RANK] = {0};
    int64_t taps, first = 0;
    IntList *regions;
    for (int d = 0; d < n; d++) {
        full[d] = full_size(NULL, t, d, x->dims[2 + d], t->window.kernel[d]);
        pads[2 + d] = -t->window.begin[d];
        pads[n + 4 + d] = y->dims[2 + d] - full[d] + t->window.begin[d];
    }
    c->status = tap_regions(c, t, x->dims + 2, full, planes, &regions, &taps);
    if (c->status != TN_OK) return NULL;
    dims[0] = taps, dims[1] = y->dims[0], dims[2] = y->dims[1];
    for (int d = 0; d < n; d++) dims[3 + d] = full[d];
    Attr attr = {.name = STR("regions"), .kind = ATTR_INT_LISTS, .n = (size_t)taps, .lists = regions};
    Value *laid = LOWER_WITH(c, "tn.Raster", ATTRS(attr, attr_l("shape", dims, n + 3)), columns);
    return lower_pad(c, lower_reduce(c, "ReduceSum", laid, &first, 1, false), pads, NULL);
}

tn_status lower_conv_transpose(LowerCtx *c) {
    Value *x = lower_in(c, 0), *w = lower_in(c, 1), *bias = lower_in(c, 2);
    const Shape *s = lower_shape(x), *ws = lower_shape(w), *y = lower_shape(c->node->results[0]);
    TransposedWindow t;
    static const int64_t perm[] = {0, 2, 1};
    if (lower_by_widening(c) || !lower_sizes_known(c)) return TN_OK;
    if (!shape_is_known(y) || s->rank + 1 > TN_MAX_RANK) return lower_decline(c);
    TRY(read_window(c->node, s->rank - 2, &t));
    for (int d = 0; d < s->rank - 2; d++) t.window.kernel[d] = ws->dims[2 + d];
    fix_pads(&t, s->dims + 2, y->dims + 2);
    int64_t group = attr_int(c->node, "group"), in = s->dims[1] / group, rows = lower_product(ws, 1, ws->rank);
    int64_t of_w[] = {group, in, rows}, of_x[] = {s->dims[0], group, in, lower_product(s, 2, s->rank)};
    Value *a = lower_transpose(c, lower_reshape(c, w, of_w, 3), perm);
    Value *columns = LOWER(c, "MatMul", a, lower_reshape(c, x, of_x, 4));
    c->out[0] = add_taps(c, &t, columns, s, y);
    if (bias) c->out[0] = LOWER(c, "Add", c->out[0], lower_along(c, bias, 1, s->rank));
    return TN_OK;
}

const OpSchema op_ConvTranspose = {
    .name = "ConvTranspose",
    .summary = "Transposed convolution (ONNX 22)",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"W", TS_FLOAT, 'T'}, {"B", TS_FLOAT, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"auto_pad", ATTR_STRING, .s = "NOTSET"}, {"dilations", ATTR_INTS}, {"group", ATTR_INT, .i = 1},
                        {"kernel_shape", ATTR_INTS}, {"output_padding", ATTR_INTS}, {"output_shape", ATTR_INTS},
                        {"pads", ATTR_INTS}, {"strides", ATTR_INTS}),
    .infer = conv_transpose_infer,
    .reference = conv_transpose_reference,
    .flops = conv_transpose_flops,
    .lower = lower_conv_transpose,
    .lowering = "MatMul, a raster that lays out the taps, ReduceSum over them",
};
