/* SPDX-License-Identifier: Apache-2.0 */
/* Upgrades of ops that shape and select: what was an attribute is an operand now. */
#include "formats/onnx/upgrade_int.h"

/* Has the value of an INTS attribute given as operand i instead; nothing when there is no such attribute. An empty list
   is left out if `skip_empty`. */
static tn_status ints_to_operand(Draft *d, const char *name, size_t i, bool skip_empty) {
    Attr list;
    Value *value;
    tn_status status;
    if (!take_attr(d, name, ATTR_INTS, &list, &status)) return status;
    if (list.n == 0 && skip_empty) return TN_OK;
    TRY(onnx_make_ints(d, list.ints, list.n, false, &value));
    return onnx_set_operand(d, i, value);
}

tn_status upgrade_reshape(Draft *d) { return ints_to_operand(d, "shape", 1, false); }

tn_status upgrade_concat(Draft *d) { return onnx_attr(d, "axis") ? TN_OK : onnx_set_attr(d, onnx_int_attr("axis", 1)); }

tn_status upgrade_axes(Draft *d) { return ints_to_operand(d, "axes", 1, !str_equal(d->type, STR("Unsqueeze"))); }

tn_status upgrade_pad(Draft *d) {
    Attr value;
    Value *constant;
    tn_status status;
    TRY(need_operands(d, 1));
    TRY(ints_to_operand(d, "paddings", 1, false)); /* the name until 2 */
    TRY(ints_to_operand(d, "pads", 1, false));
    if (!take_attr(d, "value", ATTR_FLOAT, &value, &status)) return status;
    if (value.f == 0) return TN_OK;
    TRY(onnx_make_scalar(d, value.f, d->operands[0], &constant));
    return onnx_set_operand(d, 2, constant);
}

tn_status upgrade_slice(Draft *d) {
    TRY(ints_to_operand(d, "starts", 1, false));
    TRY(ints_to_operand(d, "ends", 2, false));
    return ints_to_operand(d, "axes", 3, false);
}

/* The sizes could be a second operand already, of the data's element type. */
tn_status upgrade_split_1(Draft *d) {
    Attr to = onnx_int_attr("to", TN_I64);
    if (!onnx_attr(d, "axis")) TRY(onnx_set_attr(d, onnx_int_attr("axis", 0)));
    if (!draft_operand(d, 1)) return TN_OK;
    return onnx_make(d, "Cast", &d->operands[1], 1, &to, 1, &d->operands[1]);
}

tn_status upgrade_split_sizes(Draft *d) { return ints_to_operand(d, "split", 1, true); }

/* Without sizes there are as many parts as results. */
tn_status upgrade_split_count(Draft *d) {
    if (draft_operand(d, 1) || onnx_attr(d, "num_outputs")) return TN_OK;
    return onnx_set_attr(d, onnx_int_attr("num_outputs", (int64_t)d->n_outputs));
}

/* The first element of a constant of any number type. */
static bool constant_number(const Value *value, int64_t *out) {
    const Tensor *t = value ? value_constant(value) : NULL;
    double number;
    if (!t || tensor_count(t) != 1 || !t->data) return false;
    if (!dtype_is_float(t->dtype)) {
        int64_t n;
        bool ok = tensor_ints(t, out, 1, &n) == TN_OK;
        if (!ok) diag_clear();
        return ok;
    }
    load_f64(&number, t->dtype, t->data, t->offset, 1, 1);
    if (!(number >= -1e15 && number <= 1e15)) return false;
    *out = (int64_t)number;
    return true;
}

/* `tiles` copies along one `axis`. */
tn_status upgrade_tile(Draft *d) {
    int64_t repeats[TN_MAX_RANK], tiles, axis;
    Value *list;
    if (!draft_operand(d, 2)) return TN_OK; /* the form of today */
    int rank = onnx_rank(d->operands[0]);
    if (rank < 0 || !constant_number(d->operands[1], &tiles) || !constant_number(d->operands[2], &axis))
        return fail(TN_UNSUPPORTED, "Tile of opset 1 needs constant tiles and axis, and an operand of known rank");
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return fail(TN_INVALID_MODEL, "axis %lld is out of range", (long long)axis);
    for (int i = 0; i < rank; i++) repeats[i] = i == axis ? tiles : 1;
    TRY(onnx_make_ints(d, repeats, (size_t)rank, false, &list));
    d->operands[1] = list;
    d->n_operands = 2;
    return TN_OK;
}

tn_status upgrade_topk(Draft *d) {
    Attr k;
    Value *value;
    tn_status status;
    if (!take_attr(d, "k", ATTR_INT, &k, &status)) return status;
    TRY(onnx_make_ints(d, &k.i, 1, false, &value));
    return onnx_set_operand(d, 1, value);
}

tn_status upgrade_scatter(Draft *d) { return onnx_rename(d, "ScatterElements"); }

/* An experimental op of the first opsets: a constant of the shape in `shape`, or of the operand, `extra_shape` added. */
tn_status upgrade_constant_fill(Draft *d) {
    Attr value = {.f = 0}, dtype = {.i = TN_F32}, as_shape = {0}, extra = {0};
    tn_status status;
    Value *shape = NULL, *more, *scalar;
    take_attr(d, "value", ATTR_FLOAT, &value, &status);
    TRY(status);
    take_attr(d, "dtype", ATTR_INT, &dtype, &status);
    TRY(status);
    take_attr(d, "input_as_shape", ATTR_INT, &as_shape, &status);
    TRY(status);
    take_attr(d, "extra_shape", ATTR_INTS, &extra, &status);
    TRY(status);
    if (draft_operand(d, 0)) {
        Attr to = onnx_int_attr("to", TN_I64);
        if (as_shape.i) TRY(onnx_make(d, "Cast", d->operands, 1, &to, 1, &shape));
        else TRY(onnx_make(d, "Shape", d->operands, 1, NULL, 0, &shape));
        d->n_operands = 0;
    } else {
        Attr list = {0};
        take_attr(d, "shape", ATTR_INTS, &list, &status);
        TRY(status);
        TRY(onnx_make_ints(d, list.ints, list.n, false, &shape));
    }
    if (extra.n) {
        Attr axis = onnx_int_attr("axis", 0);
        TRY(onnx_make_ints(d, extra.ints, extra.n, false, &more));
        TRY(onnx_make(d, "Concat", (Value *[]){shape, more}, 2, &axis, 1, &shape));
    }
    Attr to = onnx_int_attr("to", dtype.i);
    TRY(onnx_make_scalar(d, value.f, NULL, &scalar));
    TRY(onnx_make(d, "Cast", &scalar, 1, &to, 1, &scalar));
    TRY(onnx_set_operand(d, 0, scalar));
    TRY(onnx_set_operand(d, 1, shape));
    return onnx_rename(d, "Expand");
}
