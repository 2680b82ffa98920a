/* SPDX-License-Identifier: Apache-2.0 */
/* Upgrades of ops on images: Upsample and the versions of Resize. */
#include "formats/onnx/upgrade_int.h"

/* What Upsample and Resize 10 did: source position = position / scale, nearest rounded down. */
static tn_status as_asymmetric(Draft *d, const char *nearest) {
    Attr *mode = onnx_attr(d, "mode");
    if (mode && mode->kind == ATTR_STRING && str_equal(mode->s, STR("bilinear"))) mode->s = STR("linear");
    TRY(onnx_set_attr(d, onnx_text_attr("coordinate_transformation_mode", "asymmetric")));
    TRY(onnx_set_attr(d, onnx_text_attr("nearest_mode", nearest)));
    return onnx_rename(d, "Resize");
}

tn_status upgrade_upsample(Draft *d) {
    Attr scales, height = {.f = 1}, width = {.f = 1};
    Value *list;
    tn_status status;
    TRY(need_operands(d, 1));
    if (take_attr(d, "scales", ATTR_FLOATS, &scales, &status)) {
        TRY(onnx_make_floats(d, scales.floats, scales.n, &list));
    } else if (draft_operand(d, 1)) {
        list = d->operands[1];
    } else {
        TRY(status);
        take_attr(d, "height_scale", ATTR_FLOAT, &height, &status);
        TRY(status);
        take_attr(d, "width_scale", ATTR_FLOAT, &width, &status);
        TRY(status);
        TRY(onnx_make_floats(d, (float[]){1, 1, height.f, width.f}, 4, &list));
    }
    TRY(onnx_set_operand(d, 1, NULL));
    TRY(onnx_set_operand(d, 2, list));
    return as_asymmetric(d, "floor");
}

/* Whether a constant list of scales has one below 1, and one above. */
static void look_at_scales(const Value *scales, bool *down, bool *up) {
    const Tensor *t = value_constant(scales);
    *down = *up = false;
    if (!t || t->dtype != TN_F32 || !t->data) return;
    for (int64_t i = 0; i < tensor_count(t); i++) {
        float s;
        load_f32(&s, t->dtype, t->data, t->offset + i, 1, 1);
        *down = *down || s < 1;
        *up = *up || s > 1;
    }
}

/* Operands were data and scales. Where it makes an image smaller the reference of those days rounded up. */
tn_status upgrade_resize_10(Draft *d) {
    bool down, up;
    TRY(need_operands(d, 2));
    Value *scales = d->operands[1];
    look_at_scales(scales, &down, &up);
    TRY(onnx_set_operand(d, 1, NULL));
    TRY(onnx_set_operand(d, 2, scales));
    return as_asymmetric(d, down && !up ? "ceil" : "floor");
}

static void drop_empty(Draft *d, size_t i) {
    const Tensor *t = draft_operand(d, i) ? value_constant(d->operands[i]) : NULL;
    if (t && tensor_count(t) == 0) d->operands[i] = NULL;
}

/* 11 had a mode of TensorFlow's: nearest at (x + 0.5) / scale, not moved back by a half. Rounded down, that is the
   middle of the pixel rounded. */
static tn_status replace_tf_half_pixel(Draft *d) {
    Attr *mode = onnx_attr(d, "coordinate_transformation_mode");
    Attr *nearest = onnx_attr(d, "nearest_mode");
    if (!mode || mode->kind != ATTR_STRING || !str_equal(mode->s, STR("tf_half_pixel_for_nn"))) return TN_OK;
    if (!nearest || nearest->kind != ATTR_STRING || !str_equal(nearest->s, STR("floor")))
        return fail(TN_UNSUPPORTED, "tf_half_pixel_for_nn is supported with nearest_mode \"floor\" only");
    mode->s = STR("half_pixel");
    nearest->s = STR("round_prefer_ceil");
    return TN_OK;
}

/* Operands that are not wanted used to be, and still are, given as empty constants. */
tn_status upgrade_resize(Draft *d) {
    for (size_t i = 1; i < 4; i++) drop_empty(d, i);
    while (d->n_operands && !d->operands[d->n_operands - 1]) d->n_operands--;
    return replace_tf_half_pixel(d);
}

tn_status upgrade_roi_align(Draft *d) {
    if (onnx_attr(d, "coordinate_transformation_mode")) return TN_OK;
    return onnx_set_attr(d, onnx_text_attr("coordinate_transformation_mode", "output_half_pixel"));
}

tn_status upgrade_grid_sample(Draft *d) {
    Attr *mode = onnx_attr(d, "mode");
    if (!mode || mode->kind != ATTR_STRING) return TN_OK;
    if (str_equal(mode->s, STR("bilinear"))) mode->s = STR("linear");
    if (str_equal(mode->s, STR("bicubic"))) mode->s = STR("cubic");
    return TN_OK;
}
