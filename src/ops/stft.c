/* SPDX-License-Identifier: Apache-2.0 */
/* STFT (ONNX 17): Fourier transforms of frames of a signal, each multiplied by a window. */
#include "ops/fourier_int.h"

enum { IN_SIGNAL, IN_STEP, IN_WINDOW, IN_LENGTH };

static tn_status positive_scalar(InferCtx *c, int i, Dim *out) {
    int n;
    *out = DIM_UNKNOWN;
    if (!in_content(c, i, out, 1, &n)) return TN_OK;
    if (n == 1 && !(dim_is_const(*out) && *out < 1)) return TN_OK;
    return fail(TN_OUT_OF_RANGE, "\"%.*s\" must be one positive number", IN_NAME(c, i));
}

static tn_status stft_infer(InferCtx *c) {
    bool onesided = attr_int(c->node, "onesided") != 0;
    Dim step, length = DIM_UNKNOWN, signal = in_dim(c, IN_SIGNAL, 1), parts = in_dim(c, IN_SIGNAL, 2);
    if (in_shape(c, IN_SIGNAL)->rank != 2) TRY(want_rank(c, IN_SIGNAL, 3));
    if (dim_is_const(parts) && parts != 1 && parts != 2)
        return fail(TN_SHAPE, "the last dimension is %lld; 1 (real) or 2 (complex) is wanted", (long long)parts);
    if (onesided && parts == 2) return fail(TN_SHAPE, "a one-sided transform is of real signals only");
    TRY(positive_scalar(c, IN_STEP, &step));
    if (has_input(c, IN_LENGTH)) TRY(positive_scalar(c, IN_LENGTH, &length));
    else if (!has_input(c, IN_WINDOW)) length = signal;
    if (has_input(c, IN_WINDOW)) {
        TRY(want_rank(c, IN_WINDOW, 1));
        TRY(dims_must_match(length, in_dim(c, IN_WINDOW, 0), "lengths of frame and window", &length));
    }
    if (dim_is_const(length) && dim_is_const(signal) && (length > signal || length < 1))
        return fail(TN_SHAPE, "frames of length %lld in a signal of %lld", (long long)length, (long long)signal);
    Dim frames = dim_add(c->dims, dim_floordiv(c->dims, dim_sub(c->dims, signal, length), step), 1);
    Dim bins = onesided ? dim_add(c->dims, dim_floordiv(c->dims, length, 2), 1) : length;
    Shape y = {.rank = 4, .dims = {in_dim(c, IN_SIGNAL, 0), frames, bins, 2}};
    set_shape(c, 0, &y);
    return TN_OK;
}

typedef struct Job {
    Fourier fourier;
    int64_t frames, bins, step, signal, first, frame_work;
    int parts;
    const double *x, *window; /* window: NULL, all ones */
    double *y, *work;
} Job;

/* One item is a frame. */
static void run_frames(void *arg, int64_t begin, int64_t end) {
    const Job *j = arg;
    int64_t n = j->fourier.n;
    for (int64_t k = begin; k < end; k++) {
        int64_t frame = j->first + k, start = frame / j->frames * j->signal + frame % j->frames * j->step;
        const double *from = j->x + start * j->parts;
        double *x = j->work + k * j->frame_work;
        for (int64_t i = 0; i < n; i++) {
            double w = j->window ? j->window[i] : 1;
            x[2 * i] = from[i * j->parts] * w;
            x[2 * i + 1] = j->parts == 2 ? from[i * j->parts + 1] * w : 0;
        }
        fourier_run(&j->fourier, x, false, x + 2 * n);
        memcpy(j->y + frame * j->bins * 2, x, (size_t)j->bins * 2 * sizeof *x);
    }
}

/* Frames are transformed some at a time, so that the memory for them is bounded. */
enum { FRAMES_AT_ONCE = 64 };

static tn_status stft_reference(KernelCtx *c) {
    const Tensor *x = c->in[IN_SIGNAL], *y = &c->out[0];
    Job job = {.frames = y->dims[1], .bins = y->dims[2], .signal = x->dims[1]};
    int64_t frames = y->dims[0] * y->dims[1], length = x->dims[1], n;
    job.parts = x->rank == 3 ? (int)x->dims[2] : 1;
    if (tensor_count(y) == 0) return TN_OK;
    TRY(kernel_ints(c, IN_STEP, &job.step, 1, &n));
    if (kernel_has_input(c, IN_WINDOW)) {
        length = c->in[IN_WINDOW]->dims[0];
        TRY(dense_f64(c, IN_WINDOW, &job.window));
    }
    if (kernel_has_input(c, IN_LENGTH)) TRY(kernel_ints(c, IN_LENGTH, &length, 1, &n));
    TRY(fourier_init(c, length, &job.fourier));
    TRY(dense_f64(c, IN_SIGNAL, &job.x));
    TRY(result_f64(c, 0, &job.y));
    job.frame_work = 2 * job.fourier.n + job.fourier.work;
    job.work = kernel_scratch(c, double, (size_t)(min_i64(frames, FRAMES_AT_ONCE) * job.frame_work));
    if (!job.work) return TN_OUT_OF_MEMORY;
    for (; job.first < frames; job.first += FRAMES_AT_ONCE)
        TRY(kernel_parallel(c, min_i64(frames - job.first, FRAMES_AT_ONCE), (double)job.fourier.plan.n * 40, run_frames,
                            &job));
    result_f64_done(c, 0, job.y);
    return TN_OK;
}

#define LENGTHS (TS(TN_I32) | TS(TN_I64))

const OpSchema op_STFT = {
    .name = "STFT",
    .summary = "Fourier transforms of frames of a signal (ONNX 17)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"signal", TS_FLOAT, 'T'}, {"frame_step", LENGTHS, 'L'},
                       {"window", TS_FLOAT, 'T', OPERAND_OPTIONAL}, {"frame_length", LENGTHS, 'L', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"output", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"onesided", ATTR_INT, .i = 1}),
    .content_inputs = 1 << IN_STEP | 1 << IN_LENGTH,
    .infer = stft_infer,
    .reference = stft_reference,
};
