/* SPDX-License-Identifier: Apache-2.0 */
/* MelWeightMatrix (ONNX 17): triangles over the bins of a spectrum, evenly spaced on the mel scale. */
#include "ops/nn_int.h"

enum { IN_BANDS, IN_LENGTH, IN_RATE, IN_LOW, IN_HIGH };

static tn_status mel_infer(InferCtx *c) {
    int64_t to = attr_int(c->node, "output_datatype");
    Dim sizes[2] = {DIM_UNKNOWN, DIM_UNKNOWN};
    if (to < 1 || to >= TN_DTYPE_END || !(TS_NUMERIC & TS(to)))
        return fail(TN_INVALID_MODEL, "output_datatype is %lld, no number type", (long long)to);
    for (int i = IN_BANDS; i <= IN_LENGTH; i++) {
        int n;
        if (!in_content(c, i, &sizes[i], 1, &n)) continue;
        if (n != 1) return fail(TN_SHAPE, "\"%.*s\" must have one element", IN_NAME(c, i));
        if (dim_is_const(sizes[i]) && sizes[i] < 0)
            return fail(TN_OUT_OF_RANGE, "\"%.*s\" is %lld", IN_NAME(c, i), (long long)sizes[i]);
    }
    Shape y = {.rank = 2, .dims = {dim_add(c->dims, dim_floordiv(c->dims, sizes[IN_LENGTH], 2), 1), sizes[IN_BANDS]}};
    set_type(c, 0, (tn_dtype)to, &y);
    return TN_OK;
}

static tn_status scalar(KernelCtx *c, int i, double *out) {
    const double *x;
    if (tensor_count(c->in[i]) != 1) return fail(TN_SHAPE, "operand %d must have one element", i);
    TRY(dense_f64(c, i, &x));
    *out = *x;
    return TN_OK;
}

static double mel_of(double hertz) { return 2595 * log1p(hertz / 700) / log(10); }
static double hertz_of(double mel) { return 700 * expm1(mel / 2595 * log(10)); }

/* Bins of the corners of the triangles: bands + 2 of them. */
static tn_status find_corners(KernelCtx *c, int64_t bands, int64_t bins, int64_t **out) {
    double length, rate, low, high;
    int64_t *corner = kernel_scratch(c, int64_t, (size_t)bands + 2);
    if (!corner) return TN_OUT_OF_MEMORY;
    TRY(scalar(c, IN_LENGTH, &length));
    TRY(scalar(c, IN_RATE, &rate));
    TRY(scalar(c, IN_LOW, &low));
    TRY(scalar(c, IN_HIGH, &high));
    double first = mel_of(low), step = (mel_of(high) - first) / ((double)bands + 2);
    for (int64_t i = 0; i < bands + 2; i++) {
        double bin = floor((length + 1) * hertz_of((double)i * step + first) / rate);
        bool last = i == bands + 1; /* no weight stands there */
        if (!(bin >= 0 && bin < (double)bins + last) || (i > 0 && bin < (double)corner[i - 1]))
            return fail(TN_OUT_OF_RANGE, "the range from %g to %g hertz does not fit a spectrum of %lld bins up to %g",
                        low, high, (long long)bins, rate / 2);
        corner[i] = (int64_t)bin;
    }
    *out = corner;
    return TN_OK;
}

static tn_status mel_reference(KernelCtx *c) {
    Tensor *y = &c->out[0];
    int64_t bins = y->dims[0], bands = y->dims[1], *corner;
    double *out;
    TRY(find_corners(c, bands, bins, &corner));
    TRY(result_f64(c, 0, &out));
    for (int64_t i = 0; i < bins * bands; i++) out[i] = 0;
    for (int64_t i = 0; i < bands; i++) {
        int64_t left = corner[i], middle = corner[i + 1], right = corner[i + 2];
        if (left == middle) out[middle * bands + i] = 1;
        else
            for (int64_t j = left; j <= middle; j++) out[j * bands + i] = (double)(j - left) / (double)(middle - left);
        for (int64_t j = middle; j < right; j++) out[j * bands + i] = (double)(right - j) / (double)(right - middle);
    }
    result_f64_done(c, 0, out);
    return TN_OK;
}

#define SIZES (TS(TN_I32) | TS(TN_I64))

const OpSchema op_MelWeightMatrix = {
    .name = "MelWeightMatrix",
    .summary = "From bins of a spectrum to bands of the mel scale (ONNX 17)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"num_mel_bins", SIZES, 'S'}, {"dft_length", SIZES, 'S'}, {"sample_rate", SIZES, 'S'},
                       {"lower_edge_hertz", TS_FLOAT, 'E'}, {"upper_edge_hertz", TS_FLOAT, 'E'}),
    .outputs = OPERANDS({"output", TS_NUMERIC}),
    .attrs = ATTRIBUTES({"output_datatype", ATTR_INT, .i = TN_F32}),
    .content_inputs = 1 << IN_BANDS | 1 << IN_LENGTH,
    .infer = mel_infer,
    .reference = mel_reference,
};
