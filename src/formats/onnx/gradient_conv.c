/* SPDX-License-Identifier: Apache-2.0 */
/* The derivatives of Conv and ConvTranspose. What comes back to the operand is the other of the two; to the weights a
   Conv in which batch and channels, strides and dilations have changed places. Sizes must be known, as what strides skip
   has to be found. */
#include "formats/onnx/gradient_int.h"

/* Conv makes a narrow tensor of a wide one, ConvTranspose a wide one of a narrow one. */
typedef struct Window {
    int dims; /* of space */
    int64_t group;
    const Shape *wide, *narrow, *weights;
    int64_t strides[TN_MAX_RANK], dilations[TN_MAX_RANK];
    int64_t pads[2 * TN_MAX_RANK];
    int64_t rest[TN_MAX_RANK]; /* of the wide one, behind the last place of the window */
} Window;

static tn_status read_list(const Rule *r, const char *name, int64_t *out, size_t n, int64_t otherwise) {
    IntList list = attr_ints(r->node, name);
    if (list.n && list.n != n) return fail(TN_INVALID_MODEL, "%s has %zu numbers, not %zu", name, list.n, n);
    for (size_t i = 0; i < n; i++) out[i] = list.n ? list.data[i] : otherwise;
    return TN_OK;
}

/* How much of the wide tensor the windows span along dimension i of space. */
static int64_t reach(const Window *w, int i) {
    return (w->narrow->dims[i + 2] - 1) * w->strides[i] + (w->weights->dims[i + 2] - 1) * w->dilations[i] + 1;
}

/* SAME_UPPER and SAME_LOWER pad so that there is a result for each stride. */
static void pad_same(const Rule *r, Window *w) {
    bool lower = attr_string_is(r->node, "auto_pad", "SAME_LOWER");
    if (!lower && !attr_string_is(r->node, "auto_pad", "SAME_UPPER")) return;
    for (int i = 0; i < w->dims; i++) {
        int64_t all = max_i64(reach(w, i) - w->wide->dims[i + 2], 0);
        w->pads[i] = lower ? all - all / 2 : all / 2;
        w->pads[w->dims + i] = all - w->pads[i];
    }
}

static bool space_is_known(const Shape *s, int rank) {
    bool known = s->rank == rank;
    for (int i = 1; i < s->rank; i++) known = known && dim_is_const(s->dims[i]);
    return known;
}

static tn_status read_window(const Rule *r, const Value *wide, const Value *narrow, Window *w) {
    const Shape *k = &r->in[1]->type->shape;
    *w = (Window){.dims = k->rank - 2, .group = attr_int(r->node, "group"), .weights = k};
    w->wide = &wide->type->shape;
    w->narrow = &narrow->type->shape;
    if (k->rank < 3 || !shape_is_known(k) || !space_is_known(w->wide, k->rank) || !space_is_known(w->narrow, k->rank))
        return fail(TN_UNSUPPORTED, "Gradient: the derivative of %s needs operands of known sizes", r->node->op->name);
    size_t n = (size_t)w->dims;
    TRY(read_list(r, "strides", w->strides, n, 1));
    TRY(read_list(r, "dilations", w->dilations, n, 1));
    TRY(read_list(r, "pads", w->pads, 2 * n, 0));
    pad_same(r, w);
    for (int i = 0; i < w->dims; i++)
        w->rest[i] = w->wide->dims[i + 2] + w->pads[i] + w->pads[w->dims + i] - reach(w, i);
    return TN_OK;
}

static Attr list_attr(const char *name, const int64_t *values, int n) {
    return (Attr){.name = str_of(name), .kind = ATTR_INTS, .n = (size_t)n, .ints = values};
}

/* Only ConvTranspose has output_padding. */
static tn_status back_to_operand(Rule *r, const char *op, const Window *w) {
    Attr attrs[] = {list_attr("strides", w->strides, w->dims), list_attr("dilations", w->dilations, w->dims),
                    list_attr("pads", w->pads, 2 * w->dims), onnx_int_attr("group", w->group),
                    list_attr("output_padding", w->rest, w->dims)};
    size_t n_attrs = strcmp(op, "Conv") == 0 ? 4 : 5;
    return make_op(r, op, (Value *[]){r->back[0], r->in[1]}, 2, attrs, n_attrs, &r->grads[0]);
}

static tn_status swap_first(const Rule *r, Value *value, int rank, Value **out) {
    int64_t perm[TN_MAX_RANK];
    for (int i = 0; i < rank; i++) perm[i] = i;
    perm[0] = 1;
    perm[1] = 0;
    return make_transpose(r, value, perm, rank, out);
}

/* [batch, group * c, ...] to [c, group * batch, ...]: one group for the batch of each group. */
static tn_status channels_first(const Rule *r, const Window *w, Value *x, Value **out) {
    int64_t channels = w->wide->dims[1];
    int64_t dims[TN_MAX_RANK + 1], perm[TN_MAX_RANK + 1];
    int n = w->dims;
    Value *split, *merged;
    if (w->group == 1) return swap_first(r, x, n + 2, out);
    dims[0] = -1;
    dims[1] = w->group;
    dims[2] = channels / w->group;
    for (int i = 0; i < n; i++) dims[i + 3] = w->wide->dims[i + 2];
    for (int i = 0; i < n + 3; i++) perm[i] = i;
    perm[0] = 2;
    perm[2] = 0;
    TRY(onnx_make_ints(r->d, dims, (size_t)n + 3, false, &split));
    TRY(MAKE(r, "Reshape", &split, x, split));
    TRY(make_transpose(r, split, perm, n + 3, &split));
    dims[1] = dims[2];
    dims[2] = -1;
    TRY(onnx_make_ints(r->d, dims + 1, (size_t)n + 2, false, &merged));
    return MAKE(r, "Reshape", out, split, merged);
}

static tn_status back_to_weights(Rule *r, const Window *w, Value *wide, Value *narrow) {
    Attr attrs[] = {list_attr("strides", w->dilations, w->dims), list_attr("dilations", w->strides, w->dims),
                    list_attr("pads", w->pads, 2 * w->dims), onnx_int_attr("group", w->group)};
    int64_t starts[TN_MAX_RANK] = {0}, axes[TN_MAX_RANK];
    size_t n = (size_t)w->dims;
    Value *from, *to, *along, *all;
    TRY(channels_first(r, w, wide, &wide));
    TRY(swap_first(r, narrow, w->dims + 2, &narrow));
    TRY(make_op(r, "Conv", (Value *[]){wide, narrow}, 2, attrs, 4, &all));
    for (int i = 0; i < w->dims; i++) axes[i] = i + 2;
    TRY(onnx_make_ints(r->d, starts, n, false, &from)); /* what strides skipped makes it bigger than the kernel */
    TRY(onnx_make_ints(r->d, w->weights->dims + 2, n, false, &to));
    TRY(onnx_make_ints(r->d, axes, n, false, &along));
    TRY(MAKE(r, "Slice", &all, all, from, to, along));
    return swap_first(r, all, w->dims + 2, &r->grads[1]);
}

static tn_status back_to_bias(Rule *r, const Window *w) {
    int64_t axes[TN_MAX_RANK] = {0};
    if (!rule_in(r, 2) || !r->wanted[2]) return TN_OK;
    for (int i = 0; i < w->dims; i++) axes[i + 1] = i + 2;
    return make_sum(r, r->back[0], axes, (size_t)w->dims + 1, false, &r->grads[2]);
}

tn_status derive_conv(Rule *r) {
    Window w;
    TRY(read_window(r, r->in[0], r->out[0], &w));
    if (r->wanted[0]) TRY(back_to_operand(r, "ConvTranspose", &w));
    if (r->wanted[1]) TRY(back_to_weights(r, &w, r->in[0], r->back[0]));
    return back_to_bias(r, &w);
}

tn_status derive_conv_transpose(Rule *r) {
    Window w;
    if (attr_ints(r->node, "output_shape").n || attr_string_is(r->node, "auto_pad", "SAME_UPPER") ||
        attr_string_is(r->node, "auto_pad", "SAME_LOWER"))
        return fail(TN_UNSUPPORTED, "Gradient: there is no derivative of ConvTranspose that finds its pads itself");
    TRY(read_window(r, r->out[0], r->in[0], &w));
    for (int i = 0; i < w.dims; i++) {
        if (w.rest[i] >= w.strides[i])
            return fail(TN_UNSUPPORTED, "Gradient: the derivative of ConvTranspose needs output_padding below strides");
    }
    if (r->wanted[0]) TRY(back_to_operand(r, "Conv", &w));
    if (r->wanted[1]) TRY(back_to_weights(r, &w, r->back[0], r->in[0]));
    return back_to_bias(r, &w);
}
