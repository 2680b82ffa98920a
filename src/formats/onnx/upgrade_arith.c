/* SPDX-License-Identifier: Apache-2.0 */
/* Upgrades of arithmetic ops. */
#include "formats/onnx/upgrade_int.h"

bool take_attr(Draft *d, const char *name, AttrKind kind, Attr *out, tn_status *status) {
    Attr *attr = onnx_attr(d, name);
    *status = TN_OK;
    if (!attr) return false;
    if (attr->kind != kind) {
        *status = fail(TN_INVALID_MODEL, "attribute \"%s\" is of the wrong kind", name);
        return false;
    }
    *out = *attr;
    onnx_remove_attr(d, name);
    return true;
}

Value *draft_operand(const Draft *d, size_t i) { return i < d->n_operands ? d->operands[i] : NULL; }

tn_status need_operands(const Draft *d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!draft_operand(d, i)) return fail(TN_INVALID_MODEL, "operand %zu is missing", i);
    }
    return TN_OK;
}

/* Adds dimensions of size 1 behind the last until the value has rank `rank`. */
static tn_status unsqueeze_behind(Draft *d, size_t operand, int rank) {
    int64_t axes[TN_MAX_RANK];
    size_t n = 0;
    Value *list;
    for (int i = onnx_rank(d->operands[operand]); i < rank && n < TN_MAX_RANK; i++) axes[n++] = i;
    if (n == 0) return TN_OK;
    TRY(onnx_make_ints(d, axes, n, false, &list));
    return onnx_make(d, "Unsqueeze", (Value *[]){d->operands[operand], list}, 2, NULL, 0, &d->operands[operand]);
}

/* `axis` said with which dimension of the first operand the second one begins. */
tn_status upgrade_broadcast(Draft *d) {
    Attr on = {0}, axis = {0};
    tn_status status;
    bool asked = take_attr(d, "broadcast", ATTR_INT, &on, &status) && on.i;
    TRY(status);
    bool has_axis = take_attr(d, "axis", ATTR_INT, &axis, &status);
    TRY(status);
    if (!asked || !has_axis) return TN_OK;
    TRY(need_operands(d, 2));
    int a = onnx_rank(d->operands[0]), b = onnx_rank(d->operands[1]);
    if (a < 0 || b < 0) return fail(TN_UNSUPPORTED, "broadcasting along an axis needs operands of known rank");
    if (axis.i < 0) axis.i += a;
    if (axis.i < 0 || axis.i > a - b)
        return fail(TN_INVALID_MODEL, "axis %lld does not fit operands of rank %d and %d", (long long)axis.i, a, b);
    return unsqueeze_behind(d, 1, a - (int)axis.i);
}

/* One slope for each channel, dimension 1. */
tn_status upgrade_prelu(Draft *d) {
    TRY(need_operands(d, 2));
    int x = onnx_rank(d->operands[0]);
    const Type *slope = d->operands[1]->type;
    if (slope->shape.rank != 1 || slope->shape.dims[0] == 1) return TN_OK;
    if (x < 0) return fail(TN_UNSUPPORTED, "a slope for each channel needs an operand of known rank");
    return x > 2 ? unsqueeze_behind(d, 1, x - 1) : TN_OK;
}

tn_status upgrade_gemm(Draft *d) {
    onnx_remove_attr(d, "broadcast"); /* of C, as is done now without being asked */
    return TN_OK;
}

/* The type stood as text: "FLOAT". */
tn_status upgrade_cast(Draft *d) {
    static const char *const names[] = {
        "UNDEFINED", "FLOAT",   "UINT8",  "INT8",   "UINT16", "INT16",     "INT32",      "INT64",    "STRING",
        "BOOL",      "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16",
    };
    Attr *to = onnx_attr(d, "to");
    if (!to || to->kind != ATTR_STRING) return TN_OK;
    for (size_t i = 1; i < sizeof names / sizeof *names; i++) {
        if (!str_equal(to->s, str_of(names[i]))) continue;
        *to = onnx_int_attr("to", (int64_t)i);
        return TN_OK;
    }
    return fail(TN_INVALID_MODEL, "cast to the unknown type \"%.*s\"", (int)to->s.n, to->s.s);
}

tn_status upgrade_clip(Draft *d) {
    TRY(need_operands(d, 1));
    for (int i = 0; i < 2; i++) {
        Attr bound;
        Value *value;
        tn_status status;
        if (!take_attr(d, i ? "max" : "min", ATTR_FLOAT, &bound, &status)) {
            TRY(status);
            continue;
        }
        TRY(onnx_make_scalar(d, bound.f, d->operands[0], &value));
        TRY(onnx_set_operand(d, 1 + (size_t)i, value));
    }
    return TN_OK;
}

/* The constants had fewer digits. */
tn_status upgrade_selu(Draft *d) {
    Attr alpha = {.name = STR("alpha"), .kind = ATTR_FLOAT, .f = 1.6732f};
    Attr gamma = {.name = STR("gamma"), .kind = ATTR_FLOAT, .f = 1.0507f};
    if (!onnx_attr(d, "alpha")) TRY(onnx_set_attr(d, alpha));
    if (!onnx_attr(d, "gamma")) TRY(onnx_set_attr(d, gamma));
    return TN_OK;
}

/* ---- experimental ops of the first opsets, removed since ------------------------------------------------------ */

static tn_status take_scalar(Draft *d, const char *name, double otherwise, Value **out) {
    Attr attr = {.f = (float)otherwise};
    tn_status status;
    take_attr(d, name, ATTR_FLOAT, &attr, &status);
    TRY(status);
    return onnx_make_scalar(d, attr.f, d->operands[0], out);
}

/* y = alpha x + beta */
tn_status upgrade_affine(Draft *d) {
    Value *alpha, *beta, *product;
    TRY(need_operands(d, 1));
    TRY(take_scalar(d, "alpha", 1, &alpha));
    TRY(take_scalar(d, "beta", 0, &beta));
    TRY(onnx_make(d, "Mul", (Value *[]){d->operands[0], alpha}, 2, NULL, 0, &product));
    d->operands[0] = product;
    TRY(onnx_set_operand(d, 1, beta));
    return onnx_rename(d, "Add");
}

/* y = scale x + bias[channel] */
tn_status upgrade_image_scaler(Draft *d) {
    Value *scale, *bias, *product;
    Attr list = {0};
    tn_status status;
    TRY(need_operands(d, 1));
    TRY(take_scalar(d, "scale", 1, &scale));
    take_attr(d, "bias", ATTR_FLOATS, &list, &status);
    TRY(status);
    TRY(onnx_make(d, "Mul", (Value *[]){d->operands[0], scale}, 2, NULL, 0, &product));
    TRY(onnx_make_floats(d, list.floats, list.n, &bias));
    TRY(onnx_make(d, "CastLike", (Value *[]){bias, product}, 2, NULL, 0, &bias));
    d->operands[0] = product;
    TRY(onnx_set_operand(d, 1, bias));
    TRY(unsqueeze_behind(d, 1, 3));
    return onnx_rename(d, "Add");
}

/* y = alpha log(exp(beta x) + 1) */
tn_status upgrade_parametric_softplus(Draft *d) {
    Value *alpha, *beta, *y;
    TRY(need_operands(d, 1));
    TRY(take_scalar(d, "alpha", 1, &alpha));
    TRY(take_scalar(d, "beta", 1, &beta));
    TRY(onnx_make(d, "Mul", (Value *[]){d->operands[0], beta}, 2, NULL, 0, &y));
    TRY(onnx_make(d, "Softplus", &y, 1, NULL, 0, &y));
    d->operands[0] = y;
    TRY(onnx_set_operand(d, 1, alpha));
    return onnx_rename(d, "Mul");
}

/* y = alpha tanh(beta x) */
tn_status upgrade_scaled_tanh(Draft *d) {
    Value *alpha, *beta, *y;
    TRY(need_operands(d, 1));
    TRY(take_scalar(d, "alpha", 1, &alpha));
    TRY(take_scalar(d, "beta", 1, &beta));
    TRY(onnx_make(d, "Mul", (Value *[]){d->operands[0], beta}, 2, NULL, 0, &y));
    TRY(onnx_make(d, "Tanh", &y, 1, NULL, 0, &y));
    d->operands[0] = y;
    TRY(onnx_set_operand(d, 1, alpha));
    return onnx_rename(d, "Mul");
}
