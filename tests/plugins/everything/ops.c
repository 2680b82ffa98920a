/* SPDX-License-Identifier: Apache-2.0 */
/* All that an op and a kernel from outside may say and ask. */
#include <string.h>
#include <tenon/plugin.h>

#define TRY(expr)                             \
    do {                                      \
        tn_status status_ = (expr);           \
        if (status_ != TN_OK) return status_; \
    } while (0)

static int64_t count(const tn_view *view) {
    int64_t n = 1;
    for (int i = 0; i < view->rank; i++) n *= view->dims[i];
    return n;
}

/* ---- Repeat(x, times): the last dimension times over, by the contents of an operand; sizes may be symbols ---- */

static tn_status repeat_infer(tn_infer *infer) {
    int64_t dims[TN_MAX_RANK], times = -1;
    size_t n;
    int rank = tn_infer_input_rank(infer, 0);
    if (tn_infer_n_inputs(infer) != 2 || tn_infer_n_outputs(infer) < 1 || !tn_infer_has_input(infer, 1))
        return tn_fail(TN_INTERNAL, "the engine did not check the operands");
    if (rank < 0) return tn_infer_set_output(infer, 0, TN_UNDEFINED, -1, NULL);
    if (rank == 0) return tn_fail(TN_SHAPE, "x needs a dimension");
    for (int i = 0; i < rank; i++) dims[i] = tn_infer_input_dim(infer, 0, i);
    if (!tn_infer_input_ints(infer, 1, &times, 1, &n)) times = -1;
    if (times == 1) return tn_infer_set_like(infer, 0, 0);
    dims[rank - 1] = times >= 0 && dims[rank - 1] >= 0 ? dims[rank - 1] * times : -1;
    return tn_infer_set_output(infer, 0, TN_UNDEFINED, rank, dims);
}

static tn_status repeat_run(tn_call *call) {
    tn_view x, times, y;
    if (!tn_call_input(call, 0, &x) || !tn_call_input(call, 1, &times) || !tn_call_output(call, 0, &y))
        return TN_INTERNAL;
    int64_t n = x.dims[x.rank - 1], m = *(int64_t *)times.data, rows = n ? count(&x) / n : 0;
    size_t row = (size_t)n * (size_t)(tn_dtype_bits(x.dtype) / 8);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < m; k++)
            memcpy((char *)y.data + (size_t)(r * m + k) * row, (char *)x.data + (size_t)r * row, row);
    return TN_OK;
}

static const tn_op_desc repeat = {.size = sizeof(tn_op_desc),
                                  .domain = "com.example",
                                  .name = "Repeat",
                                  .summary = "The last dimension, again and again",
                                  .inputs = {{"x", "numeric|T"}, {"times", "i64"}},
                                  .outputs = {{"y", "T"}},
                                  .content_inputs = 1 << 1,
                                  .infer = repeat_infer,
                                  .run = repeat_run};
TN_REGISTER_OP(repeat);

/* ---- Positive(x): those above 0, of which nobody knows before how many there are; and where they stood ---- */

static tn_status positive_infer(tn_infer *infer) {
    int64_t unknown = -1;
    TRY(tn_infer_set_output(infer, 0, TN_UNDEFINED, 1, &unknown));
    return tn_infer_set_output(infer, 1, TN_I64, 1, &unknown);
}

static tn_status positive_run(tn_call *call) {
    tn_view x, y, at;
    if (!tn_call_input(call, 0, &x)) return TN_INTERNAL;
    int64_t n = 0, all = count(&x);
    for (int64_t i = 0; i < all; i++) n += ((float *)x.data)[i] > 0;
    float *kept = tn_call_scratch(call, (size_t)(n + 1) * sizeof *kept);
    if (!kept) return TN_OUT_OF_MEMORY;
    TRY(tn_call_poll(call));
    TRY(tn_call_alloc_output(call, 0, 1, &n, &y));
    bool where = tn_call_output(call, 1, &at);
    if (where) TRY(tn_call_alloc_output(call, 1, 1, &n, &at));
    for (int64_t i = 0, k = 0; i < all; i++) {
        if (!(((float *)x.data)[i] > 0)) continue;
        if (where) ((int64_t *)at.data)[k] = i;
        kept[k++] = ((float *)x.data)[i];
    }
    if (n) memcpy(y.data, kept, (size_t)n * sizeof *kept);
    return TN_OK;
}

static const tn_op_desc positive = {.size = sizeof(tn_op_desc),
                                    .domain = "com.example",
                                    .name = "Positive",
                                    .summary = "The elements above 0",
                                    .flags = TN_OP_DYNAMIC,
                                    .inputs = {{"x", "f32"}},
                                    .outputs = {{"y", "f32"}, {.name = "at", .types = "i64", .optional = true}},
                                    .infer = positive_infer,
                                    .run = positive_run};
TN_REGISTER_OP(positive);

/* ---- Total(xs...) {weights, kind}: the sum of any number of operands, read where they lie ---- */

static tn_status total_infer(tn_infer *infer) { return tn_infer_set_broadcast(infer, 0); }

static float element(const tn_view *x, const tn_view *y, int64_t i) {
    int64_t at = 0;
    for (int k = y->rank - 1; k >= 0; k--) {
        int own = k - (y->rank - x->rank);
        if (own >= 0 && x->dims[own] > 1) at += i % y->dims[k] * x->strides[own];
        i /= y->dims[k];
    }
    return ((const float *)x->data)[at];
}

static tn_status total_run(tn_call *call) {
    tn_view x, y;
    const float *weights;
    const char *kind;
    size_t n, length;
    if (!tn_call_output(call, 0, &y)) return TN_INTERNAL;
    TRY(tn_node_get_floats(tn_call_node(call), "weights", &weights, &n));
    TRY(tn_node_get_string(tn_call_node(call), "kind", &kind, &length));
    if (n && n != tn_call_n_inputs(call)) return tn_fail(TN_SHAPE, "there are %zu weights", n);
    for (int64_t i = 0; i < count(&y); i++) {
        double sum = 0;
        for (size_t k = 0; k < tn_call_n_inputs(call); k++)
            if (tn_call_input(call, k, &x)) sum += (double)element(&x, &y, i) * (n ? (double)weights[k] : 1);
        ((float *)y.data)[i] = (float)(length == 4 && memcmp(kind, "mean", 4) == 0
                                           ? sum / (double)tn_call_n_inputs(call)
                                           : sum);
    }
    return TN_OK;
}

static const tn_op_desc total = {
    .size = sizeof(tn_op_desc),
    .domain = "com.example",
    .name = "Total",
    .summary = "The sum of all",
    .flags = TN_OP_STRIDED | TN_OP_COMMUTATIVE,
    .inputs = {{.name = "xs", .types = "f32|T", .variadic = true}},
    .outputs = {{"y", "T"}},
    .attrs = {{.name = "weights", .kind = TN_ATTR_FLOATS}, {.name = "kind", .kind = TN_ATTR_STRING, .s = "sum"}},
    .infer = total_infer,
    .run = total_run};
TN_REGISTER_OP(total);

/* ---- another kernel for one of ONNX's ops, where its second operand is a constant 2 ---- */

static bool by_two(const tn_call *call) {
    tn_view two, y;
    if (!tn_call_input(call, 1, &two) || !tn_call_output(call, 0, &y) || y.data) return false;
    return two.data && count(&two) == 1 && *(const float *)two.data == 2;
}

static tn_status double_run(tn_call *call) {
    tn_view x, y;
    if (!tn_call_input(call, 0, &x) || !tn_call_output(call, 0, &y)) return TN_INTERNAL;
    for (int64_t i = 0; i < count(&y); i++)
        ((float *)y.data)[i] = ((const float *)x.data)[i] + ((const float *)x.data)[i];
    return TN_OK;
}

static const tn_kernel_desc mul_by_two = {.size = sizeof(tn_kernel_desc),
                                          .name = "mul_by_two",
                                          .priority = 200,
                                          .op = "Mul",
                                          .target = "cpu",
                                          .precision = TN_F32,
                                          .match = by_two,
                                          .run = double_run};
TN_REGISTER_KERNEL(mul_by_two);

/* ---- what an op may do wrong ---- */

static tn_status fail_run(tn_call *call) {
    tn_view x, y;
    int64_t n = 1;
    if (!tn_call_input(call, 0, &x)) return TN_INTERNAL;
    if (x.rank == 0) return TN_LIMIT;
    return tn_call_alloc_output(call, 0, 1, &n, &y);
}

static tn_status fail_infer(tn_infer *infer) {
    if (tn_infer_input_rank(infer, 0) == 3) return tn_fail(TN_SHAPE, "three dimensions are too many");
    return tn_infer_set_like(infer, 0, 0);
}

static const tn_op_desc failing = {.size = sizeof(tn_op_desc),
                                   .domain = "com.example",
                                   .name = "Failing",
                                   .inputs = {{"x", "any|T"}},
                                   .outputs = {{"y", "T"}},
                                   .infer = fail_infer,
                                   .run = fail_run};
TN_REGISTER_OP(failing);

TN_PLUGIN("everything");
