/* SPDX-License-Identifier: Apache-2.0 */
/* Multinomial (ONNX 22): classes drawn with the probabilities whose logarithms a row holds, up to a factor. */
#include "ops/random_int.h"

static tn_status multinomial_infer(InferCtx *c) {
    int64_t dtype = attr_int(c->node, "dtype"), samples = attr_int(c->node, "sample_size");
    TRY(want_rank(c, 0, 2));
    if (dtype != TN_I32 && dtype != TN_I64)
        return fail(TN_INVALID_MODEL, "dtype is %lld; i32 or i64 is wanted", (long long)dtype);
    if (samples < 0) return fail(TN_OUT_OF_RANGE, "sample_size is %lld", (long long)samples);
    if (in_dim(c, 0, 1) == 0) return fail(TN_SHAPE, "there is no class to draw");
    Shape y = {.rank = 2, .dims = {in_dim(c, 0, 0), samples}};
    set_type(c, 0, (tn_dtype)dtype, &y);
    return TN_OK;
}

/* The first class whose running sum exceeds `at`; rounding must not lead beyond the last class that can be drawn. */
static int64_t find_class(const double *sums, int64_t n, double at) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sums[middle] > at) high = middle;
        else low = middle + 1;
    }
    while (low > 0 && sums[low] == sums[low - 1]) low--;
    return low;
}

static tn_status multinomial_reference(KernelCtx *c) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    int64_t classes = x->dims[1], samples = y->dims[1];
    Random random = random_of(c->node, TN_F64);
    const double *logs;
    int64_t *out;
    if (tensor_count(y) == 0) return TN_OK;
    double *sums = kernel_scratch(c, double, (size_t)classes);
    if (!sums) return TN_OUT_OF_MEMORY;
    TRY(dense_f64(c, 0, &logs));
    TRY(result_i64(c, 0, &out));
    for (int64_t row = 0; row < x->dims[0]; row++) {
        const double *from = logs + row * classes;
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < classes; i++) top = fmax(top, from[i]);
        for (int64_t i = 0; i < classes; i++) sums[i] = sum += exp(from[i] - top);
        if (!(sum > 0))
            return fail(TN_INVALID_ARGUMENT, "the probabilities of row %lld are no numbers", (long long)row);
        for (int64_t i = row * samples; i < (row + 1) * samples; i++)
            out[i] = find_class(sums, classes, random_uniform(&random, i) * sum);
    }
    result_i64_done(c, 0, out);
    return TN_OK;
}

const OpSchema op_Multinomial = {
    .name = "Multinomial",
    .summary = "Draws classes by their log-probabilities (ONNX 22)",
    .kind = OP_ATOMIC,
    .flags = OP_RANDOM,
    .inputs = OPERANDS({"input", TS_FLOAT}),
    .outputs = OPERANDS({"output", TS(TN_I32) | TS(TN_I64)}),
    .attrs = ATTRIBUTES({"dtype", ATTR_INT, .i = TN_I32}, {"sample_size", ATTR_INT, .i = 1}, {"seed", ATTR_FLOAT}),
    .infer = multinomial_infer,
    .reference = multinomial_reference,
};
