/* SPDX-License-Identifier: Apache-2.0 */
/* Reshape (ONNX 25): the same elements under other dimensions. */
#include "ops/move_int.h"

/* The dimension -1 stands for what is left. Dimensions that stand on both sides are struck out first, so that symbols
   (and unknown sizes and zeros copied by 0) cancel; what then remains is divided. */
static tn_status solve_rest(InferCtx *c, const Shape *x, Shape *y, int rest, uint32_t copied) {
    uint32_t used = copied;
    int64_t have = 1, want = 1;
    Dim have_dims = 1, want_dims = 1;
    for (int k = 0; k < y->rank; k++) {
        Dim d = y->dims[k];
        if (k == rest || (copied & 1u << k)) continue;
        if (dim_is_const(d)) {
            if (mul_overflows(want, d, &want)) return fail(TN_LIMIT, "the shape has more than 2^63 elements");
            continue;
        }
        int from = 0;
        while (from < x->rank && ((used & 1u << from) || x->dims[from] != d || d == DIM_UNKNOWN)) from++;
        if (from < x->rank) used |= 1u << from;
        else want_dims = dim_mul(c->dims, want_dims, d);
    }
    for (int k = 0; k < x->rank; k++) {
        if (used & 1u << k) continue;
        if (!dim_is_const(x->dims[k])) have_dims = dim_mul(c->dims, have_dims, x->dims[k]);
        else if (mul_overflows(have, x->dims[k], &have))
            return fail(TN_LIMIT, "the operand has more than 2^63 elements");
    }
    if (want == 0) return fail(TN_SHAPE, "shape has both -1 and a size of 0: -1 could be anything");
    if (want_dims == 1 && have % want == 0) {
        y->dims[rest] = dim_mul(c->dims, have_dims, have / want);
    } else if (want_dims == 1 && have_dims == 1) {
        return fail(TN_SHAPE, "%lld elements cannot be divided into %lld for the size that is -1", (long long)have,
                    (long long)want);
    } else {
        y->dims[rest] = dim_floordiv(c->dims, dim_mul(c->dims, have_dims, have), dim_mul(c->dims, want_dims, want));
    }
    return TN_OK;
}

static tn_status check_counts(const Shape *x, const Shape *y) {
    if (!shape_is_known(x) || !shape_is_known(y)) return TN_OK;
    int64_t have, want;
    TRY(checked_count(x->rank, x->dims, &have));
    TRY(checked_count(y->rank, y->dims, &want));
    if (have != want)
        return fail(TN_SHAPE, "%lld elements do not fit a shape of %lld", (long long)have, (long long)want);
    return TN_OK;
}

static tn_status shape_from_content(InferCtx *c, const Dim *content, int n, Shape *y) {
    const Shape *x = in_shape(c, 0);
    bool allow_zero = attr_int(c->node, "allowzero") != 0, has_zero = false;
    int rest = -1;
    uint32_t copied = 0; /* dimensions of the operand that stand at the same place in the result */
    *y = (Shape){.rank = n};
    for (int k = 0; k < n; k++) {
        Dim d = content[k];
        if (d == 0 && !allow_zero) {
            if (x->rank >= 0 && k >= x->rank)
                return fail(TN_SHAPE, "shape[%d] is 0 (copy), but the operand has %d dimensions", k, x->rank);
            d = x->rank >= 0 ? x->dims[k] : DIM_UNKNOWN;
            copied |= 1u << k;
        } else if (d == -1) {
            if (rest >= 0) return fail(TN_SHAPE, "shape has -1 more than once");
            rest = k;
            d = DIM_UNKNOWN;
        } else if (dim_is_const(d) && d < 0) {
            return fail(TN_SHAPE, "shape[%d] is %lld", k, (long long)d);
        } else if (!dim_is_const(d) && !dim_not_negative(c->dims, d)) {
            d = DIM_UNKNOWN; /* may turn out to be -1 or 0 */
        }
        has_zero = has_zero || (content[k] == 0 && allow_zero);
        y->dims[k] = d;
    }
    if (rest >= 0 && has_zero) return fail(TN_SHAPE, "shape has both -1 and 0, with allowzero");
    if (rest >= 0 && x->rank >= 0) TRY(solve_rest(c, x, y, rest, copied));
    return check_counts(x, y);
}

static tn_status infer(InferCtx *c) {
    Dim content[TN_MAX_RANK];
    int n;
    int64_t rank = known_length(c, 1);
    TRY(expect_list(c, 1, TN_MAX_RANK));
    if (in_content(c, 1, content, TN_MAX_RANK, &n)) {
        Shape y;
        TRY(shape_from_content(c, content, n, &y));
        set_shape(c, 0, &y);
        pass_content(c, 0, 0);
    } else {
        set_unknown_rank(c, 0, (int)rank);
    }
    return TN_OK;
}

static tn_status regions(RegionCtx *c) { return region_whole(c, 0, 0); }

const OpSchema op_Reshape = {
    .name = "Reshape",
    .summary = "Reshape (ONNX 25): the same elements under other dimensions",
    .kind = OP_DEFORMABLE,
    .inputs = OPERANDS({"data", TS_ALL_TENSOR, 'T', 0}, {"shape", TS(TN_I64), 0, 0}),
    .outputs = OPERANDS({"reshaped", TS_ALL_TENSOR, 'T', 0}),
    .attrs = ATTRIBUTES({"allowzero", ATTR_INT, 0, 0, 0, NULL}),
    .content_inputs = 1 << 1,
    .infer = infer,
    .regions = regions,
};
