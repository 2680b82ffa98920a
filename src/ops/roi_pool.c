/* SPDX-License-Identifier: Apache-2.0 */
/* RoiAlign and MaxRoiPool (ONNX 22): parts of images brought to one size. */
#include "ops/nn_int.h"

static tn_status set_result(InferCtx *c, Dim n, int64_t height, int64_t width) {
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
        return fail(TN_INVALID_MODEL, "the result's size %lldx%lld is not positive", (long long)height,
                    (long long)width);
    TRY(want_rank(c, 0, 4));
    Shape y = {.rank = 4, .dims = {n, in_dim(c, 0, 1), height, width}};
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status roi_align_infer(InferCtx *c) {
    Dim n = in_dim(c, 1, 0), same;
    TRY(want_rank(c, 1, 2));
    TRY(want_rank(c, 2, 1));
    TRY(dims_must_match(in_dim(c, 1, 1), 4, "columns of rois", &same));
    TRY(dims_must_match(n, in_dim(c, 2, 0), "rois and batch_indices", &n));
    if (!attr_string_is(c->node, "mode", "avg") && !attr_string_is(c->node, "mode", "max"))
        return fail(TN_INVALID_MODEL, "mode is neither avg nor max");
    if (!attr_string_is(c->node, "coordinate_transformation_mode", "half_pixel") &&
        !attr_string_is(c->node, "coordinate_transformation_mode", "output_half_pixel"))
        return fail(TN_INVALID_MODEL, "coordinate_transformation_mode is neither half_pixel nor output_half_pixel");
    return set_result(c, n, attr_int(c->node, "output_height"), attr_int(c->node, "output_width"));
}

static tn_status max_roi_pool_infer(InferCtx *c) {
    IntList shape = attr_ints(c->node, "pooled_shape");
    Dim same;
    if (shape.n != 2) return fail(TN_INVALID_MODEL, "pooled_shape has %zu values where 2 are wanted", shape.n);
    TRY(want_rank(c, 1, 2));
    TRY(dims_must_match(in_dim(c, 1, 1), 5, "columns of rois", &same));
    return set_result(c, in_dim(c, 1, 0), shape.data[0], shape.data[1]);
}

#define POINTS_MAX 256 /* of sampling_ratio */

typedef struct RoiJob {
    int64_t channels, height, width, out_height, out_width;
    double scale, offset; /* from the rois' coordinates to elements */
    int64_t sampling;
    bool largest, at_least_one;
    const double *rois;
    const int64_t *batch;
    const void *x; /* floats or doubles, as the body that runs has them */
    void *y;
} RoiJob;

static tn_status check_batch(const RoiJob *job, int64_t n, int64_t batches) {
    for (int64_t i = 0; i < n; i++)
        if (job->batch[i] < 0 || job->batch[i] >= batches)
            return fail(TN_OUT_OF_RANGE, "batch index %lld is not in 0..%lld", (long long)job->batch[i],
                        (long long)batches - 1);
    return TN_OK;
}

/* A bin's sampling points along one dimension: start + (i + 0.5) * step. Those from first to last may be inside. */
typedef struct Points {
    double count, start, step;
    int64_t first, last;
} Points;

/* The two elements around a coordinate along one dimension, and the weight of the second. */
typedef struct Between {
    int64_t low, high;
    double weight;
} Between;

/* Around point number i. False: it is outside. */
static bool neighbours(const Points *points, int64_t i, int64_t size, Between *b) {
    double v = points->start + ((double)i + 0.5) * points->step;
    if (!(v >= -1 && v <= (double)size)) return false;
    if (v < 0) v = 0;
    b->low = (int64_t)v;
    if (b->low >= size - 1) {
        b->low = b->high = size - 1;
        b->weight = 0;
    } else {
        b->high = b->low + 1;
        b->weight = v - (double)b->low;
    }
    return true;
}

static double points_of(const RoiJob *job, double bin) {
    double count = job->sampling > 0 ? (double)job->sampling : ceil(bin);
    return count > 0 ? count : 0;
}

static Points points_in(const RoiJob *job, double start, double bin, int64_t size) {
    Points p = {.count = points_of(job, bin), .start = start, .last = -1};
    if (p.count == 0) return p;
    p.step = bin / p.count;
    double low = (-1 - start) / p.step - 1.5, high = ((double)size - start) / p.step + 0.5;
    if (!(p.step > 0)) low = 0, high = p.count; /* all at one place, or the other way round */
    p.first = (int64_t)fmin(fmax(low, 0), p.count);
    p.last = (int64_t)fmin(fmax(high, -1), p.count - 1);
    return p;
}

typedef struct Region2d {
    double x, y, bin_w, bin_h;
} Region2d;

static Region2d region_of(const RoiJob *job, int64_t n) {
    double box[4];
    for (int k = 0; k < 4; k++) box[k] = job->rois[n * 4 + k] * job->scale - job->offset;
    double width = box[2] - box[0], height = box[3] - box[1];
    if (job->at_least_one) width = fmax(width, 1), height = fmax(height, 1);
    return (Region2d){box[0], box[1], width / (double)job->out_width, height / (double)job->out_height};
}

/* A sampling point between four elements. */
typedef struct Sample {
    int64_t element[4];
    double weight[4];
} Sample;

static Sample sample_between(const RoiJob *job, const Between *y, const Between *x) {
    return (Sample){{y->low * job->width + x->low, y->low * job->width + x->high, y->high * job->width + x->low,
                     y->high * job->width + x->high},
                    {(1 - y->weight) * (1 - x->weight), (1 - y->weight) * x->weight, y->weight * (1 - x->weight),
                     y->weight * x->weight}};
}

enum { MOST_SAMPLES = 512, MOST_BINS = 64 };

/* Bins that follow each other, and their samples one behind the other. */
typedef struct Bins {
    int n;
    int end[MOST_BINS];      /* of each one's samples */
    double count[MOST_BINS]; /* points, those outside of the image, too */
    Sample samples[MOST_SAMPLES];
} Bins;

static int n_samples(const Bins *bins) { return bins->n > 0 ? bins->end[bins->n - 1] : 0; }

/* False: there is no room for one more. */
static bool add_bin(const RoiJob *job, const Points *rows, const Points *columns, Bins *bins) {
    int n = n_samples(bins);
    double most = (double)(rows->last - rows->first + 1) * (double)(columns->last - columns->first + 1);
    if (bins->n == MOST_BINS || most > MOST_SAMPLES - n) return false;
    for (int64_t i = rows->first; i <= rows->last; i++) {
        Between y, x;
        if (!neighbours(rows, i, job->height, &y)) continue;
        for (int64_t j = columns->first; j <= columns->last; j++)
            if (neighbours(columns, j, job->width, &x)) bins->samples[n++] = sample_between(job, &y, &x);
    }
    bins->end[bins->n] = n;
    bins->count[bins->n++] = rows->count * columns->count;
    return true;
}

static void bin_points(const RoiJob *job, const Region2d *r, int64_t bin, Points *rows, Points *columns) {
    int64_t i = bin / job->out_width, j = bin % job->out_width;
    *rows = points_in(job, r->y + (double)i * r->bin_h, r->bin_h, job->height);
    *columns = points_in(job, r->x + (double)j * r->bin_w, r->bin_w, job->width);
}

#define BODY "ops/roi_pool_body.h"
#include "ops/each_float_int.h"

/* Points are counted in integers, and a region decides how many there are. */
static tn_status check_regions(const RoiJob *job, int64_t n) {
    if (job->sampling > POINTS_MAX)
        return fail(TN_LIMIT, "sampling_ratio is %lld; %d is the most", (long long)job->sampling, POINTS_MAX);
    for (int64_t i = 0; i < n; i++) {
        Region2d r = region_of(job, i);
        if (points_of(job, r.bin_h) > INT32_MAX || points_of(job, r.bin_w) > INT32_MAX)
            return fail(TN_LIMIT, "region %lld is too large", (long long)i);
    }
    return TN_OK;
}

static void read_job(const KernelCtx *c, RoiJob *job) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    *job = (RoiJob){.channels = x->dims[1],
                    .height = x->dims[2],
                    .width = x->dims[3],
                    .out_height = y->dims[2],
                    .out_width = y->dims[3],
                    .scale = attr_float(c->node, "spatial_scale")};
}

static tn_status roi_align_reference(KernelCtx *c) {
    RoiJob job;
    read_job(c, &job);
    bool half = attr_string_is(c->node, "coordinate_transformation_mode", "half_pixel");
    job.offset = half ? 0.5 : 0;
    job.at_least_one = !half;
    job.largest = attr_string_is(c->node, "mode", "max");
    job.sampling = attr_int(c->node, "sampling_ratio");
    TRY(dense_f64(c, 1, &job.rois));
    TRY(dense_i64(c, 2, &job.batch));
    int64_t n = c->in[1]->dims[0];
    TRY(check_batch(&job, n, c->in[0]->dims[0]));
    TRY(check_regions(&job, n));
    if (job.height * job.width == 0 && tensor_count(&c->out[0]) > 0) return fail(TN_SHAPE, "the images are empty");
    return class_of(c->in[0]->dtype) == CLASS_F64 ? roi_align_f64(c, &job, n) : roi_align_f32(c, &job, n);
}

/* The rows (or columns) of bin i: a region of `size` that begins at `start` cut into n, kept inside the image. */
static void bin_range(double start, double size, int64_t i, int64_t n, int64_t limit, int64_t *from, int64_t *to) {
    double step = size / (double)n, low = floor((double)i * step) + start, high = ceil((double)(i + 1) * step) + start;
    *from = low > 0 ? (int64_t)fmin(low, (double)limit) : 0;
    *to = high > 0 ? (int64_t)fmin(high, (double)limit) : 0;
}

static double largest_of(const double *plane, int64_t width, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
    double top = -INFINITY;
    if (y0 >= y1 || x0 >= x1) return 0; /* an empty bin */
    for (int64_t y = y0; y < y1; y++)
        for (int64_t x = x0; x < x1; x++) top = plane[y * width + x] > top ? plane[y * width + x] : top;
    if (top > -INFINITY) return top;
    top = NAN; /* which counts where there is nothing else */
    for (int64_t y = y0; y < y1; y++)
        for (int64_t x = x0; x < x1; x++) top = fmax(top, plane[y * width + x]);
    return top;
}

static tn_status max_roi_pool_reference(KernelCtx *c) {
    RoiJob job;
    read_job(c, &job);
    const double *x;
    double *result;
    TRY(dense_f64(c, 0, &x));
    TRY(dense_f64(c, 1, &job.rois));
    TRY(result_f64(c, 0, &result));
    double *y = result;
    for (int64_t n = 0; n < c->in[1]->dims[0]; n++) {
        const double *roi = job.rois + n * 5;
        if (!(roi[0] >= 0 && roi[0] < (double)c->in[0]->dims[0]))
            return fail(TN_OUT_OF_RANGE, "batch index %g is not in 0..%lld", roi[0], (long long)c->in[0]->dims[0] - 1);
        double x0 = round(roi[1] * job.scale), y0 = round(roi[2] * job.scale);
        double width = fmax(round(roi[3] * job.scale) - x0 + 1, 1),
               height = fmax(round(roi[4] * job.scale) - y0 + 1, 1);
        for (int64_t ch = 0; ch < job.channels; ch++) {
            const double *plane = x + ((int64_t)roi[0] * job.channels + ch) * job.height * job.width;
            for (int64_t i = 0; i < job.out_height; i++) {
                for (int64_t j = 0; j < job.out_width; j++) {
                    int64_t top, bottom, left, right;
                    bin_range(y0, height, i, job.out_height, job.height, &top, &bottom);
                    bin_range(x0, width, j, job.out_width, job.width, &left, &right);
                    *y++ = largest_of(plane, job.width, top, bottom, left, right);
                }
            }
        }
    }
    result_f64_done(c, 0, result);
    return TN_OK;
}

const OpSchema op_RoiAlign = {
    .name = "RoiAlign",
    .summary = "Regions of images, sampled to one size (ONNX 22)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"rois", TS_FLOAT, 'T'}, {"batch_indices", TS(TN_I64)}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"coordinate_transformation_mode", ATTR_STRING, .s = "half_pixel"},
                        {"mode", ATTR_STRING, .s = "avg"}, {"output_height", ATTR_INT, .i = 1},
                        {"output_width", ATTR_INT, .i = 1}, {"sampling_ratio", ATTR_INT},
                        {"spatial_scale", ATTR_FLOAT, .f = 1}),
    .infer = roi_align_infer,
    .reference = roi_align_reference,
};

const OpSchema op_MaxRoiPool = {
    .name = "MaxRoiPool",
    .summary = "Regions of images, pooled to one size (ONNX 22)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS_FLOAT, 'T'}, {"rois", TS_FLOAT, 'T'}),
    .outputs = OPERANDS({"Y", TS_FLOAT, 'T'}),
    .attrs = ATTRIBUTES({"pooled_shape", ATTR_INTS, ATTR_REQUIRED}, {"spatial_scale", ATTR_FLOAT, .f = 1}),
    .infer = max_roi_pool_infer,
    .reference = max_roi_pool_reference,
};
