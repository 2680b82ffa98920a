/* SPDX-License-Identifier: Apache-2.0 */
/* Sliding windows: what the attributes of convolutions and pools say, and the sizes that follow. */
#include "ops/nn_int.h"

Str operand_name(const Node *node, int i) {
    const Value *value = node_operand(node, (size_t)i);
    if (value && value->name.n) return value->name;
    const OperandSpec *spec = op_input_spec(node->op, (size_t)i);
    return str_of(spec ? spec->name : "operand");
}

tn_status want_rank(const InferCtx *c, int i, int rank) {
    if (!has_input(c, i) || !rank_known(c, i) || in_shape(c, i)->rank == rank) return TN_OK;
    return fail(TN_SHAPE, "\"%.*s\" has %d dimensions where %d are wanted", IN_NAME(c, i), in_shape(c, i)->rank, rank);
}

tn_status want_vector(const InferCtx *c, int i, Dim n, bool scalar) {
    if (!has_input(c, i) || !rank_known(c, i)) return TN_OK;
    const Shape *s = in_shape(c, i);
    if (scalar && (s->rank == 0 || (s->rank == 1 && s->dims[0] == 1))) return TN_OK;
    TRY(want_rank(c, i, 1));
    if (dim_is_const(n) && dim_is_const(s->dims[0]) && n != s->dims[0])
        return fail(TN_SHAPE, "\"%.*s\" has %lld elements where %lld are wanted", IN_NAME(c, i), (long long)s->dims[0],
                    (long long)n);
    return TN_OK;
}

/* Windows reach no further than this in any one attribute, so that sums and products of two fit 64 bits. */
#define WINDOW_LIMIT INT32_MAX

static tn_status read_list(const Node *node, const char *name, int n, int64_t least, int64_t missing, int64_t *out) {
    IntList list = {0};
    if (op_attr_spec(node->op, str_of(name))) list = attr_ints(node, name);
    if (list.n && list.n != (size_t)n)
        return fail(TN_INVALID_MODEL, "%s has %zu values where %d are wanted", name, list.n, n);
    for (int i = 0; i < n; i++) {
        out[i] = list.n ? list.data[i] : missing;
        if (list.n && (out[i] < least || out[i] > WINDOW_LIMIT))
            return fail(TN_INVALID_MODEL, "%s has the value %lld; %lld or more is wanted", name, (long long)out[i],
                        (long long)least);
    }
    return TN_OK;
}

static tn_status read_auto_pad(const Node *node, AutoPad *out) {
    static const char *const names[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
    *out = PAD_NOTSET;
    if (!op_attr_spec(node->op, STR("auto_pad"))) return TN_OK;
    Str s = attr_string(node, "auto_pad");
    if (s.n == 0) return TN_OK;
    for (int i = 0; i < 4; i++) {
        *out = (AutoPad)i;
        if (str_equal(s, str_of(names[i]))) return TN_OK;
    }
    return fail(TN_INVALID_MODEL, "auto_pad is \"%.*s\"; NOTSET, VALID, SAME_UPPER or SAME_LOWER is wanted", (int)s.n,
                s.s);
}

tn_status window_read(const Node *node, int rank, Window *w) {
    int64_t pads[2 * TN_MAX_RANK];
    *w = (Window){.rank = rank};
    TRY(read_auto_pad(node, &w->auto_pad));
    TRY(read_list(node, "kernel_shape", rank, 1, 0, w->kernel));
    TRY(read_list(node, "strides", rank, 1, 1, w->stride));
    TRY(read_list(node, "dilations", rank, 1, 1, w->dilation));
    TRY(read_list(node, "pads", 2 * rank, 0, 0, pads));
    for (int d = 0; d < rank; d++) {
        w->begin[d] = w->auto_pad == PAD_NOTSET ? pads[d] : 0;
        w->end[d] = w->auto_pad == PAD_NOTSET ? pads[rank + d] : 0;
    }
    w->ceil = op_attr_spec(node->op, STR("ceil_mode")) && attr_int(node, "ceil_mode") != 0;
    return TN_OK;
}

/* Elements that a window spans, holes included. */
static Dim window_span(DimTable *dims, Dim kernel, int64_t dilation) {
    return dim_add(dims, dim_mul(dims, dim_sub(dims, kernel, 1), dilation), 1);
}

tn_status window_out(DimTable *dims, const Window *w, int d, Dim in, Dim kernel, Dim *out) {
    int64_t stride = w->stride[d];
    if (w->auto_pad >= PAD_SAME_UPPER) {
        *out = dim_ceildiv(dims, in, stride);
        return TN_OK;
    }
    Dim span = window_span(dims, kernel, w->dilation[d]);
    Dim padded = dim_add(dims, in, w->begin[d] + w->end[d]);
    Dim room = dim_sub(dims, padded, span);
    /* a window that hangs over the end may be the only one */
    if (dim_is_const(room) && room < 0 && !(w->ceil && room > -stride))
        return fail(TN_SHAPE, "a window over %lld elements does not fit into %lld (padding included)", (long long)span,
                    (long long)padded);
    *out = dim_add(dims, dim_floordiv(dims, room, stride), 1);
    if (!w->ceil) return TN_OK;
    /* The last window may hang over the end, but one that would begin in the end padding is dropped. */
    Dim hanging = dim_add(dims, dim_ceildiv(dims, room, stride), 1);
    Dim starts = dim_ceildiv(dims, dim_add(dims, in, w->begin[d]), stride);
    *out = dim_make(dims, DIM_MIN, hanging, starts);
    return TN_OK;
}

/* Turns auto_pad into pads, once all sizes are known. */
static void fix_pads(Window *w, const int64_t *in, const int64_t *out) {
    if (w->auto_pad < PAD_SAME_UPPER) return;
    for (int d = 0; d < w->rank; d++) {
        int64_t total = (out[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 - in[d];
        total = max_i64(total, 0);
        w->begin[d] = w->auto_pad == PAD_SAME_UPPER ? total / 2 : total - total / 2;
        w->end[d] = total - w->begin[d];
    }
}

tn_status window_for_shapes(const Node *node, const Shape *weights, const Shape *x, const Shape *y, Window *w) {
    int rank = x->rank - 2;
    if (rank < 0) return fail(TN_SHAPE, "the input has %d dimensions where 3 or more are wanted", x->rank);
    TRY(window_read(node, rank, w));
    for (int d = 0; weights && d < rank; d++) w->kernel[d] = weights->dims[2 + d];
    fix_pads(w, x->dims + 2, y->dims + 2);
    return TN_OK;
}

tn_status window_for_kernel(const KernelCtx *c, const Tensor *weights, const Tensor *x, const Tensor *y, Window *w) {
    Shape of_weights = {.rank = -1}, of_x = shape_make(x->rank, x->dims), of_y = shape_make(y->rank, y->dims);
    if (weights) of_weights = shape_make(weights->rank, weights->dims);
    return window_for_shapes(c->node, weights ? &of_weights : NULL, &of_x, &of_y, w);
}
