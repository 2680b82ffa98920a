/* SPDX-License-Identifier: Apache-2.0 */
/* Resize (ONNX 19): nearest, linear and cubic interpolation, one dimension after another. */
#include "ops/resize_int.h"

static tn_status choose(const Node *node, const char *attr, const char *const *names, int n, int *out) {
    Str s = attr_string(node, attr);
    for (*out = 0; *out < n; ++*out)
        if (str_equal(s, str_of(names[*out]))) return TN_OK;
    return fail(TN_INVALID_MODEL, "%s is \"%.*s\", which is none of its values", attr, (int)s.n, s.s);
}

static tn_status read_attrs(const Node *node, ResizeAttrs *a) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coords[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                         "align_corners", "asymmetric",           "tf_crop_and_resize"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
    int mode, coord, round, policy;
    TRY(choose(node, "mode", modes, 3, &mode));
    TRY(choose(node, "keep_aspect_ratio_policy", policies, 3, &policy));
    TRY(choose(node, "coordinate_transformation_mode", coords, 6, &coord));
    TRY(choose(node, "nearest_mode", nearest, 4, &round));
    *a = (ResizeAttrs){.mode = (ResizeMode)mode, .coord = (ResizeCoord)coord, .nearest = (ResizeNearest)round};
    a->antialias = attr_int(node, "antialias") != 0 && mode != RESIZE_NEAREST;
    a->exclude_outside = attr_int(node, "exclude_outside") != 0;
    a->cubic_a = (float)attr_float(node, "cubic_coeff_a");
    return TN_OK;
}

/* The dimensions that scales, sizes and roi speak of, in that order. */
static tn_status read_axes(const Node *node, int rank, int *axes, int *n) {
    IntList list = attr_ints(node, "axes");
    uint32_t mask;
    TRY(normal_axes(list.data, list.n, rank, "axes", &mask));
    *n = list.n ? (int)list.n : rank;
    for (int i = 0; i < *n; i++) {
        axes[i] = i;
        if (list.n) TRY(normal_axis(list.data[i], rank, "axes", &axes[i]));
    }
    return TN_OK;
}

/* ---- sizes --------------------------------------------------------------------------------------------------- */

static bool is_empty(const Shape *s) { return s->rank == 1 && s->dims[0] == 0; }

static tn_status read_floats(const Tensor *t, int n, const char *what, float *out) {
    if (tensor_count(t) != n || t->rank != 1)
        return fail(TN_SHAPE, "%s has %lld values where %d are wanted", what, (long long)tensor_count(t), n);
    load_f32(out, t->dtype, t->data, t->offset, t->strides[0], n);
    return TN_OK;
}

/* floor(in * scale) in float, as onnxruntime. */
static tn_status scaled_size(int64_t in, float scale, int64_t *out) {
    float size = floorf((float)in * scale);
    if (!(scale > 0) || !(size < 0x1p62f))
        return fail(TN_OUT_OF_RANGE, "the scale %g is not positive or too large", (double)scale);
    *out = (int64_t)size;
    return TN_OK;
}

/* The same of a symbolic size: where the scale is a fraction over a small power of two, as nearly all are. */
static Dim scaled_dim(DimTable *dims, Dim in, float scale) {
    for (int64_t q = 1; q <= 64; q *= 2) {
        float p = scale * (float)q;
        if (p == floorf(p) && p > 0 && p < 0x1p24f) return dim_floordiv(dims, dim_mul(dims, in, (int64_t)p), q);
    }
    return DIM_UNKNOWN;
}

static tn_status infer_by_scales(InferCtx *c, const int *axes, int n, Shape *y) {
    float scales[TN_MAX_RANK];
    const Tensor *value = c->in[2].value;
    if (!value || !value->data) {
        for (int i = 0; i < n; i++) y->dims[axes[i]] = DIM_UNKNOWN;
        return TN_OK;
    }
    TRY(read_floats(value, n, "scales", scales));
    for (int i = 0; i < n; i++) {
        Dim *d = &y->dims[axes[i]];
        if (!(scales[i] > 0)) return fail(TN_OUT_OF_RANGE, "the scale %g is not positive", (double)scales[i]);
        if (dim_is_const(*d)) TRY(scaled_size(*d, scales[i], d));
        else *d = scaled_dim(c->dims, *d, scales[i]);
    }
    return TN_OK;
}

/* keep_aspect_ratio_policy: one scale for all, such that the result is not larger, or not smaller, than asked. */
static bool common_scale(const Node *node, const int64_t *in, const int64_t *sizes, const int *axes, int n,
                         float *scale) {
    bool smaller = attr_string_is(node, "keep_aspect_ratio_policy", "not_larger");
    if (!smaller && !attr_string_is(node, "keep_aspect_ratio_policy", "not_smaller")) return false;
    for (int i = 0; i < n; i++) {
        float s = (float)sizes[i] / (float)in[axes[i]];
        if (i == 0 || (smaller ? s < *scale : s > *scale)) *scale = s;
    }
    return n > 0;
}

static tn_status infer_by_sizes(InferCtx *c, const int *axes, int n, Shape *y) {
    Dim sizes[TN_MAX_RANK];
    int count;
    bool known = in_content(c, 3, sizes, TN_MAX_RANK, &count), concrete = known;
    if (known && count != n) return fail(TN_SHAPE, "sizes has %d values where %d are wanted", count, n);
    for (int i = 0; i < n; i++) {
        if (known && dim_is_const(sizes[i]) && sizes[i] < 0)
            return fail(TN_OUT_OF_RANGE, "the size %lld is negative", (long long)sizes[i]);
        concrete = concrete && dim_is_const(sizes[i]) && dim_is_const(y->dims[axes[i]]);
    }
    bool stretch = attr_string_is(c->node, "keep_aspect_ratio_policy", "stretch");
    float scale;
    if (concrete && common_scale(c->node, y->dims, sizes, axes, n, &scale)) {
        for (int i = 0; i < n; i++) {
            float size = (float)y->dims[axes[i]] * scale + 0.5f;
            if (!(size < 0x1p62f)) return fail(TN_OUT_OF_RANGE, "the scale %g is too large", (double)scale);
            sizes[i] = (int64_t)size;
        }
        stretch = true;
    }
    for (int i = 0; i < n; i++) y->dims[axes[i]] = known && stretch ? sizes[i] : DIM_UNKNOWN;
    return TN_OK;
}

static tn_status resize_infer(InferCtx *c) {
    ResizeAttrs attrs;
    TRY(read_attrs(c->node, &attrs));
    if (!rank_known(c, 0)) {
        set_unknown_rank(c, 0, -1);
        return TN_OK;
    }
    Shape y = *in_shape(c, 0);
    const Shape x = y;
    int axes[TN_MAX_RANK], n;
    TRY(read_axes(c->node, y.rank, axes, &n));
    bool scales = has_input(c, 2) && !is_empty(in_shape(c, 2)), sizes = has_input(c, 3) && !is_empty(in_shape(c, 3));
    if (scales == sizes && (!has_input(c, 2) || rank_known(c, 2)))
        return fail(TN_INVALID_MODEL,
                    scales ? "both scales and sizes are given" : "neither scales nor sizes are given");
    TRY(want_vector(c, sizes ? 3 : 2, n, false));
    if (attrs.coord == COORD_CROP && !has_input(c, 1)) return fail(TN_INVALID_MODEL, "tf_crop_and_resize wants roi");
    TRY(sizes ? infer_by_sizes(c, axes, n, &y) : infer_by_scales(c, axes, n, &y));
    for (int d = 0; d < y.rank; d++)
        if (x.dims[d] == 0 && dim_is_const(y.dims[d]) && y.dims[d] > 0)
            return fail(TN_SHAPE, "dimension %d is empty and cannot become %lld", d, (long long)y.dims[d]);
    set_shape(c, 0, &y);
    return TN_OK;
}

static double resize_flops(const Node *node, const Shape *in, const Shape *out) {
    double n = attr_string_is(node, "mode", "cubic") ? 32 : attr_string_is(node, "mode", "nearest") ? 1 : 8;
    (void)in;
    for (int d = 0; d < out->rank; d++) n *= (double)out->dims[d];
    return n;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

static tn_status read_roi(KernelCtx *c, const int *axes, int n, ResizeAxis *axis) {
    float roi[2 * TN_MAX_RANK];
    if (!kernel_has_input(c, 1)) return fail(TN_INVALID_MODEL, "tf_crop_and_resize wants roi");
    TRY(read_floats(c->in[1], 2 * n, "roi", roi));
    for (int i = 0; i < n; i++) {
        axis[axes[i]].roi_start = roi[i];
        axis[axes[i]].roi_end = roi[n + i];
    }
    return TN_OK;
}

static tn_status read_resize(KernelCtx *c, const ResizeAttrs *attrs, ResizeAxis *axis) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    int axes[TN_MAX_RANK], n;
    TRY(read_axes(c->node, x->rank, axes, &n));
    for (int d = 0; d < x->rank; d++) {
        axis[d] = (ResizeAxis){.in = x->dims[d], .out = y->dims[d], .roi_end = 1};
        axis[d].scale = x->dims[d] ? (float)y->dims[d] / (float)x->dims[d] : 1;
    }
    if (kernel_has_input(c, 2) && tensor_count(c->in[2]) > 0) {
        float scales[TN_MAX_RANK];
        TRY(read_floats(c->in[2], n, "scales", scales));
        for (int i = 0; i < n; i++) axis[axes[i]].scale = scales[i];
    } else if (!attr_string_is(c->node, "keep_aspect_ratio_policy", "stretch")) {
        int64_t sizes[TN_MAX_RANK], count;
        float scale;
        TRY(kernel_ints(c, 3, sizes, TN_MAX_RANK, &count));
        if (count == n && common_scale(c->node, x->dims, sizes, axes, n, &scale))
            for (int i = 0; i < n; i++) axis[axes[i]].scale = scale;
    }
    return attrs->coord == COORD_CROP ? read_roi(c, axes, n, axis) : TN_OK;
}

/* A dimension that stays as it is needs no step. */
static bool is_identity(const ResizeAttrs *attrs, const ResizeAxis *axis) {
    bool whole = attrs->coord != COORD_CROP || (axis->roi_start == 0 && axis->roi_end == 1);
    return axis->in == axis->out && axis->scale == 1 && whole;
}

#define BODY "ops/resize_body.h"
#include "ops/each_float_int.h"

/* Nearest copies elements, whatever they are. */
static tn_status resize_nearest(KernelCtx *c, const ResizeFilter *filters) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    const void *data;
    TRY(dense_bytes(c, 0, &data));
    int64_t index[TN_MAX_RANK] = {0}, at = y->offset;
    const float extrapolation = (float)attr_float(c->node, "extrapolation_value");
    if (tensor_count(y) == 0) return TN_OK;
    do {
        int64_t from = 0;
        bool outside = false;
        for (int d = 0; d < x->rank; d++) {
            from = from * x->dims[d] + filters[d].index[index[d]];
            outside = outside || (filters[d].outside && filters[d].outside[index[d]]);
        }
        if (outside && class_of(y->dtype) <= CLASS_INT) store_f32(y->dtype, y->data, at, 1, &extrapolation, 1);
        else copy_elements(y->dtype, y->data, at, 1, data, from, 1, 1);
        at++;
    } while (next_index(x->rank, y->dims, index));
    return TN_OK;
}

static tn_status resize_reference(KernelCtx *c) {
    ResizeAttrs attrs;
    ResizeAxis axis[TN_MAX_RANK];
    ResizeFilter filters[TN_MAX_RANK] = {0};
    TRY(read_attrs(c->node, &attrs));
    TRY(read_resize(c, &attrs, axis));
    for (int d = 0; d < c->in[0]->rank && tensor_count(&c->out[0]) > 0; d++)
        if (attrs.mode == RESIZE_NEAREST || !is_identity(&attrs, &axis[d]))
            TRY(resize_filter(c, &attrs, &axis[d], &filters[d]));
    if (attrs.mode == RESIZE_NEAREST) return resize_nearest(c, filters);
    Class class = class_of(c->in[0]->dtype);
    if (class > CLASS_INT || c->in[0]->dtype == TN_BOOL)
        return fail(TN_UNSUPPORTED, "%s elements can be resized by nearest only", dtype_name(c->in[0]->dtype));
    /* 32-bit and wider integers need the precision of double. */
    bool wide = class == CLASS_F64 || (class == CLASS_INT && dtype_bits(c->in[0]->dtype) > 16);
    return wide ? resize_f64(c, &attrs, axis, filters) : resize_f32(c, &attrs, axis, filters);
}

const OpSchema op_Resize = {
    .name = "Resize",
    .summary = "Resizes by interpolation (ONNX 19)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS_ALL_TENSOR, 'T'}, {"roi", TS_FLOAT, 0, OPERAND_OPTIONAL},
                       {"scales", TS(TN_F32), 0, OPERAND_OPTIONAL}, {"sizes", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", TS_ALL_TENSOR, 'T'}),
    .attrs = ATTRIBUTES({"antialias", ATTR_INT}, {"axes", ATTR_INTS},
                        {"coordinate_transformation_mode", ATTR_STRING, .s = "half_pixel"},
                        {"cubic_coeff_a", ATTR_FLOAT, .f = -0.75}, {"exclude_outside", ATTR_INT},
                        {"extrapolation_value", ATTR_FLOAT}, {"keep_aspect_ratio_policy", ATTR_STRING, .s = "stretch"},
                        {"mode", ATTR_STRING, .s = "nearest"},
                        {"nearest_mode", ATTR_STRING, .s = "round_prefer_floor"}),
    .content_inputs = 1u << 2 | 1u << 3,
    .infer = resize_infer,
    .reference = resize_reference,
    .flops = resize_flops,
};
