/* SPDX-License-Identifier: Apache-2.0 */
/* Col2Im (ONNX 18): blocks put back into an image; where they overlap they are added. */
#include "ops/complex_int.h"
#include "ops/move_int.h"
#include "ops/nn_int.h"

enum { IN_X, IN_IMAGE, IN_BLOCK };

static tn_status col2im_infer(InferCtx *c) {
    Dim image[TN_MAX_RANK], block[TN_MAX_RANK], taps = 1, blocks = 1, same;
    Window w;
    int n, m;
    TRY(want_rank(c, IN_X, 3));
    TRY(expect_list(c, IN_IMAGE, TN_MAX_RANK - 2));
    TRY(expect_list(c, IN_BLOCK, TN_MAX_RANK - 2));
    bool known = in_content(c, IN_IMAGE, image, TN_MAX_RANK - 2, &n);
    if (!known) {
        n = (int)known_length(c, IN_IMAGE);
        set_unknown_rank(c, 0, n < 0 ? -1 : n + 2);
        return TN_OK;
    }
    Shape y = {.rank = n + 2, .dims = {in_dim(c, IN_X, 0), DIM_UNKNOWN}};
    for (int d = 0; d < n; d++) y.dims[2 + d] = image[d];
    if (in_content(c, IN_BLOCK, block, TN_MAX_RANK - 2, &m)) {
        if (n != m) return fail(TN_SHAPE, "image_shape has %d values, but block_shape has %d", n, m);
        TRY(window_read(c->node, n, &w));
        bool known_sizes = true;
        for (int d = 0; d < n; d++) {
            Dim out;
            if (dim_is_const(block[d]) && (block[d] < 1 || block[d] > INT32_MAX))
                return fail(TN_OUT_OF_RANGE, "block_shape has the value %lld", (long long)block[d]);
            TRY(window_out(c->dims, &w, d, image[d], block[d], &out));
            taps = dim_mul(c->dims, taps, block[d]);
            blocks = dim_mul(c->dims, blocks, out);
            known_sizes = known_sizes && dim_is_const(block[d]) && dim_is_const(out);
        }
        if (known_sizes && (taps == DIM_UNKNOWN || blocks == DIM_UNKNOWN))
            return fail(TN_LIMIT, "the blocks are too many or too large");
        TRY(dims_must_match(in_dim(c, IN_X, 2), blocks, "blocks given and blocks in the image", &same));
        Dim rows = in_dim(c, IN_X, 1);
        if (dim_is_const(rows) && dim_is_const(taps) && rows % taps)
            return fail(TN_SHAPE, "%lld rows are no multiple of a block's %lld elements", (long long)rows,
                        (long long)taps);
        y.dims[1] = dim_floordiv(c->dims, rows, taps);
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

/* Sums in double or in integers modulo 2^64: exactly one of the arrays is there. */
typedef struct Job {
    Window window;
    int64_t image[TN_MAX_RANK], grid[TN_MAX_RANK];
    int64_t taps, plane, blocks;
    int parts; /* doubles that an element is made of */
    const double *x;
    const uint64_t *ints;
    double *y;
    uint64_t *int_y;
} Job;

/* Adds n elements that follow each other to ones `step` apart. */
static void add_row(const Job *job, int64_t to, int64_t step, int64_t from, int64_t n) {
    int parts = job->parts;
    if (job->ints)
        for (int64_t i = 0; i < n; i++) job->int_y[to + i * step] += job->ints[from + i];
    else if (parts == 1 && step == 1) EACH(i, n) job->y[to + i] += job->x[from + i];
    else
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < parts; k++) job->y[(to + i * step) * parts + k] += job->x[(from + i) * parts + k];
}

/* Rows of blocks: those in which a tap lies inside of the image are a range. */
static void add_tap(const Job *job, int64_t plane, const int64_t *tap, int64_t from) {
    const Window *w = &job->window;
    int last = w->rank - 1;
    int64_t at[TN_MAX_RANK] = {0}, row = job->grid[last], step = w->stride[last];
    int64_t first = tap[last] * w->dilation[last] - w->begin[last]; /* where the first block's element lies */
    int64_t begin = first < 0 ? (-first + step - 1) / step : 0;
    int64_t end = job->image[last] > first ? min_i64(row, (job->image[last] - first + step - 1) / step) : 0;
    for (int64_t b = 0; b < job->blocks; b += row, next_index(last, job->grid, at)) {
        int64_t to = 0;
        bool inside = begin < end;
        for (int d = 0; d < last; d++) {
            int64_t i = at[d] * w->stride[d] + tap[d] * w->dilation[d] - w->begin[d];
            inside = inside && i >= 0 && i < job->image[d];
            to = to * job->image[d] + i;
        }
        to = plane + to * job->image[last] + first + begin * step;
        if (inside) add_row(job, to, step, from + b + begin, end - begin);
    }
}

/* One item is a channel of a batch entry. */
static void add_planes(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    for (int64_t p = begin; p < end; p++) {
        for (int64_t i = p * job->plane * job->parts; i < (p + 1) * job->plane * job->parts; i++)
            if (job->y) job->y[i] = 0;
            else job->int_y[i] = 0;
        int64_t tap[TN_MAX_RANK] = {0};
        for (int64_t t = 0; t < job->taps; t++, next_index(job->window.rank, job->window.kernel, tap))
            if (job->blocks > 0) add_tap(job, p * job->plane, tap, (p * job->taps + t) * job->blocks);
    }
}

static tn_status col2im_reference(KernelCtx *c) {
    const Tensor *x = c->in[IN_X], *y = &c->out[0];
    bool ints = class_of(x->dtype) == CLASS_INT, pairs = dtype_is_complex(x->dtype);
    Job job = {.taps = 1, .plane = 1, .blocks = 1, .parts = pairs ? 2 : 1};
    int64_t block[TN_MAX_RANK], n;
    if (tensor_count(y) == 0) return TN_OK;
    TRY(kernel_ints(c, IN_BLOCK, block, TN_MAX_RANK - 2, &n));
    TRY(window_read(c->node, (int)n, &job.window));
    for (int d = 0; d < n; d++) {
        job.window.kernel[d] = block[d];
        job.image[d] = y->dims[2 + d];
        TRY(window_out(NULL, &job.window, d, job.image[d], block[d], &job.grid[d]));
        job.taps *= block[d], job.plane *= job.image[d], job.blocks *= job.grid[d];
    }
    TRY(ints ? dense_u64(c, IN_X, &job.ints) : pairs ? dense_pairs(c, IN_X, &job.x) : dense_f64(c, IN_X, &job.x));
    TRY(ints ? result_u64(c, 0, &job.int_y) : pairs ? result_pairs(c, 0, &job.y) : result_f64(c, 0, &job.y));
    TRY(kernel_parallel(c, y->dims[0] * y->dims[1], (double)(job.taps * job.blocks) * 5, add_planes, &job));
    if (ints) result_u64_done(c, 0, job.int_y);
    else if (pairs) result_pairs_done(c, 0, job.y);
    else result_f64_done(c, 0, job.y);
    return TN_OK;
}

const OpSchema op_Col2Im = {
    .name = "Col2Im",
    .summary = "Adds blocks up to an image (ONNX 18)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"input", TS_NUMERIC | TS_COMPLEX, 'T'}, {"image_shape", TS(TN_I64)},
                       {"block_shape", TS(TN_I64)}),
    .outputs = OPERANDS({"output", TS_NUMERIC | TS_COMPLEX, 'T'}),
    .attrs = ATTRIBUTES({"dilations", ATTR_INTS}, {"pads", ATTR_INTS}, {"strides", ATTR_INTS}),
    .content_inputs = 1 << IN_IMAGE | 1 << IN_BLOCK,
    .infer = col2im_infer,
    .reference = col2im_reference,
};
