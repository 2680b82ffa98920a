/* SPDX-License-Identifier: Apache-2.0 */
/* DFT (ONNX 20): Fourier transforms along an axis. One-sided ones take or give the half that tells all of a real
   signal. */
#include "ops/fourier_int.h"

enum { IN_X, IN_LENGTH, IN_AXIS };

/* A scalar operand: DIM_UNKNOWN when it is not known; `missing` when it is absent. */
static tn_status scalar_of(InferCtx *c, int i, Dim missing, Dim *out) {
    int n;
    *out = has_input(c, i) ? DIM_UNKNOWN : missing;
    if (in_content(c, i, out, 1, &n) && n != 1) *out = DIM_UNKNOWN;
    if (!has_input(c, i)) return TN_OK;
    Dim count = in_shape(c, i)->rank == 1 ? in_dim(c, i, 0) : 1;
    if (in_shape(c, i)->rank > 1 || (dim_is_const(count) && count != 1))
        return fail(TN_SHAPE, "\"%.*s\" must have one element", IN_NAME(c, i));
    return TN_OK;
}

static tn_status signal_axis(int64_t axis, int rank, int *out) {
    TRY(normal_axis(axis, rank, "axis", out));
    return *out < rank - 1 ? TN_OK : fail(TN_OUT_OF_RANGE, "axis is that of real and imaginary parts");
}

static tn_status dft_infer(InferCtx *c) {
    const Shape *x = in_shape(c, IN_X);
    bool inverse = attr_int(c->node, "inverse") != 0, onesided = attr_int(c->node, "onesided") != 0;
    Dim axis_given, length;
    int axis;
    TRY(scalar_of(c, IN_AXIS, -2, &axis_given));
    if (x->rank < 0) return TN_OK;
    if (x->rank < 2) return fail(TN_SHAPE, "the input has %d dimensions; 2 or more are wanted", x->rank);
    Dim parts = x->dims[x->rank - 1];
    if (dim_is_const(parts) && parts != 1 && parts != 2)
        return fail(TN_SHAPE, "the last dimension is %lld; 1 (real) or 2 (complex) is wanted", (long long)parts);
    if (onesided && !inverse && parts == 2) return fail(TN_SHAPE, "a one-sided transform is of real signals only");
    if (!dim_is_const(axis_given)) {
        set_unknown_rank(c, 0, x->rank);
        return TN_OK;
    }
    TRY(signal_axis(axis_given, x->rank, &axis));
    Dim size = x->dims[axis];
    Dim usual = onesided && inverse ? dim_mul(c->dims, dim_sub(c->dims, size, 1), 2) : size;
    TRY(scalar_of(c, IN_LENGTH, usual, &length));
    if (dim_is_const(length) && length < 1)
        return fail(TN_OUT_OF_RANGE, "a transform of length %lld", (long long)length);
    Shape y = *x;
    y.dims[axis] = onesided && !inverse ? dim_add(c->dims, dim_floordiv(c->dims, length, 2), 1) : length;
    y.dims[y.rank - 1] = onesided && inverse ? 1 : 2;
    set_shape(c, 0, &y);
    return TN_OK;
}

typedef struct Job {
    Fourier fourier;
    bool inverse, half_in;            /* half_in: the operand is one-sided */
    int64_t in_size, out_size, inner; /* along the axis; elements of the dimensions behind it */
    int in_parts, out_parts;
    const double *x;
    const float *single_x; /* in place of x and y where elements are f32 */
    float *single_y;
    double *y, *work; /* work: one line and what fourier_run wants, for each line */
    int64_t line_work, first;
} Job;

static double number_at(const Job *j, int64_t i) { return j->single_x ? (double)j->single_x[i] : j->x[i]; }

/* Line number `line` of the operand, zeros behind its end; of a half, the other half mirrored. */
static void load_line(const Job *j, int64_t line, double *to) {
    int64_t n = j->fourier.n, stored = min_i64(j->half_in ? n / 2 + 1 : n, n), step = j->inner * j->in_parts;
    int64_t from = (line / j->inner * j->in_size * j->inner + line % j->inner) * j->in_parts;
    int64_t there = min_i64(stored, j->in_size);
    for (int64_t i = 0; i < there; i++, from += step) {
        to[2 * i] = number_at(j, from);
        to[2 * i + 1] = j->in_parts == 2 ? number_at(j, from + 1) : 0;
    }
    for (int64_t i = 2 * there; i < 2 * stored; i++) to[i] = 0;
    for (int64_t i = stored; i < n; i++) {
        to[2 * i] = to[2 * (n - i)];
        to[2 * i + 1] = -to[2 * (n - i) + 1];
    }
}

static void store_line(const Job *j, int64_t line, const double *x) {
    int64_t to = (line / j->inner * j->out_size * j->inner + line % j->inner) * j->out_parts;
    for (int64_t i = 0; i < j->out_size; i++, to += j->inner * j->out_parts)
        for (int p = 0; p < j->out_parts; p++) {
            if (j->single_y) j->single_y[to + p] = (float)x[2 * i + p];
            else j->y[to + p] = x[2 * i + p];
        }
}

static void run_lines(void *arg, int64_t begin, int64_t end) {
    const Job *j = arg;
    for (int64_t k = begin; k < end; k++) {
        double *x = j->work + k * j->line_work;
        load_line(j, j->first + k, x);
        fourier_run(&j->fourier, x, j->inverse, x + 2 * j->fourier.n);
        store_line(j, j->first + k, x);
    }
}

/* Lines are transformed some at a time, so that the memory for them is bounded. */
enum { LINES_AT_ONCE = 64 };

static tn_status read_axis(KernelCtx *c, int *axis) {
    int64_t n, given = -2;
    if (kernel_has_input(c, IN_AXIS)) TRY(kernel_ints(c, IN_AXIS, &given, 1, &n));
    return signal_axis(given, c->in[IN_X]->rank, axis);
}

static tn_status dft_reference(KernelCtx *c) {
    const Tensor *x = c->in[IN_X], *y = &c->out[0];
    bool onesided = attr_int(c->node, "onesided") != 0;
    Job job = {.inverse = attr_int(c->node, "inverse") != 0, .inner = 1};
    int64_t lines = 1, length, n;
    int axis;
    if (tensor_count(y) == 0) return TN_OK;
    TRY(read_axis(c, &axis));
    job.in_size = x->dims[axis], job.out_size = y->dims[axis];
    job.in_parts = (int)x->dims[x->rank - 1], job.out_parts = (int)y->dims[y->rank - 1];
    job.half_in = onesided && job.inverse;
    length = job.half_in ? 2 * (job.in_size - 1) : job.in_size;
    if (kernel_has_input(c, IN_LENGTH)) TRY(kernel_ints(c, IN_LENGTH, &length, 1, &n));
    for (int d = 0; d < x->rank - 1; d++) lines *= d == axis ? 1 : x->dims[d];
    for (int d = axis + 1; d < x->rank - 1; d++) job.inner *= x->dims[d];
    TRY(fourier_init(c, length, &job.fourier));
    bool single = x->dtype == TN_F32;
    TRY(single ? dense_f32(c, IN_X, &job.single_x) : dense_f64(c, IN_X, &job.x));
    TRY(single ? result_f32(c, 0, &job.single_y) : result_f64(c, 0, &job.y));
    job.line_work = 2 * job.fourier.n + job.fourier.work;
    job.work = kernel_scratch(c, double, (size_t)(min_i64(lines, LINES_AT_ONCE) * job.line_work));
    if (!job.work) return TN_OUT_OF_MEMORY;
    for (; job.first < lines; job.first += LINES_AT_ONCE)
        TRY(kernel_parallel(c, min_i64(lines - job.first, LINES_AT_ONCE), (double)job.fourier.plan.n * 40, run_lines,
                            &job));
    if (!single) result_f64_done(c, 0, job.y);
    return TN_OK;
}

#define LENGTHS (TS(TN_I32) | TS(TN_I64))

const OpSchema op_DFT = {
    .name = "DFT",
    .summary = "Fourier transform along an axis (ONNX 20)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"input", TS_FLOAT, 'T'}, {"dft_length", LENGTHS, 0, OPERAND_OPTIONAL},
                       {"axis", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"inverse", ATTR_INT}, {"onesided", ATTR_INT}),
    .content_inputs = 1 << IN_LENGTH | 1 << IN_AXIS,
    .infer = dft_infer,
    .reference = dft_reference,
};
