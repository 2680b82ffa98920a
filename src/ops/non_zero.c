/* SPDX-License-Identifier: Apache-2.0 */
/* NonZero (ONNX 13): positions of what is not zero (or not empty text), one row a dimension. */
#include "ops/move_int.h"

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Shape y = {.rank = 2, .dims = {x->rank >= 0 ? x->rank : DIM_UNKNOWN, DIM_UNKNOWN}};
    set_shape(c, 0, &y);
    return TN_OK;
}

/* One byte for each element. */
static tn_status mark(KernelCtx *c, uint8_t **out, int64_t *found) {
    const Tensor *x = c->in[0];
    int64_t n = tensor_count(x);
    uint8_t *marks = kernel_scratch(c, uint8_t, (size_t)max_i64(n, 1));
    if (!marks) return TN_OUT_OF_MEMORY;
    if (class_of(x->dtype) == CLASS_F32 || class_of(x->dtype) == CLASS_F64) {
        const double *v;
        TRY(dense_f64(c, 0, &v));
        for (int64_t k = 0; k < n; k++) marks[k] = v[k] != 0;
    } else if (class_of(x->dtype) == CLASS_INT) {
        const int64_t *v;
        TRY(dense_i64(c, 0, &v));
        for (int64_t k = 0; k < n; k++) marks[k] = v[k] != 0;
    } else {
        const void *v;
        TRY(dense_bytes(c, 0, &v));
        for (int64_t k = 0; k < n; k++) {
            double z[2];
            if (x->dtype == TN_STRING) {
                marks[k] = rc_string_get(((RcString *const *)v)[k]).n > 0;
            } else {
                load_c128(z, x->dtype, v, k, 1, 1);
                marks[k] = z[0] != 0 || z[1] != 0;
            }
        }
    }
    *found = 0;
    for (int64_t k = 0; k < n; k++) *found += marks[k];
    *out = marks;
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    uint8_t *marks;
    int64_t found, at[TN_MAX_RANK] = {0}, n = tensor_count(x), k = 0;
    TRY(mark(c, &marks, &found));
    int64_t dims[2] = {x->rank, found};
    TRY(kernel_alloc_output(c, 0, 2, dims));
    int64_t *y = tensor_bytes(&c->out[0]);
    for (int64_t i = 0; i < n; i++) {
        if (marks[i]) {
            for (int d = 0; d < x->rank; d++) y[d * found + k] = at[d];
            k++;
        }
        for (int d = x->rank - 1; d >= 0 && ++at[d] == x->dims[d]; d--) at[d] = 0;
    }
    return TN_OK;
}

const OpSchema op_NonZero = {
    .name = "NonZero",
    .summary = "NonZero (ONNX 13): positions of what is not zero",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"X", TS_ALL_TENSOR, 0, 0}),
    .outputs = OPERANDS({"Y", TS(TN_I64), 0, 0}),
    .infer = infer,
    .reference = reference,
};
