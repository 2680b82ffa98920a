/* SPDX-License-Identifier: Apache-2.0 */
/* Resize of images by the nearest element or linearly, of planes one after the other or with channels last: a row of the result
   at a time, first down, then along. */
#include <math.h>

#include "backends/cpu/epilogue_int.h"
#include "backends/cpu/resize_int.h"

typedef enum Coord { HALF_PIXEL, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, COORDS } Coord;
typedef enum Nearest { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, NEARESTS } Nearest;

static int named(const Node *node, const char *attr, const char *const *names, int n) {
    int i = 0;
    while (i < n && !attr_string_is(node, attr, names[i])) i++;
    return i;
}
static Coord coord_of(const Node *node) {
    static const char *const names[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"};
    return (Coord)named(node, "coordinate_transformation_mode", names, COORDS);
}
static Nearest nearest_of(const Node *node) {
    static const char *const names[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    return (Nearest)named(node, "nearest_mode", names, NEARESTS);
}
static bool is_nearest(const Node *node) { return attr_string_is(node, "mode", "nearest"); }

/* Where scales are given, they and not the sizes say how coordinates go over into one another. */
static bool read_scales(const Node *node, const Tensor *x, const Tensor *y, const Tensor *scales, float *out) {
    float list[TN_MAX_RANK];
    IntList axes = attr_ints(node, "axes");
    int64_t n = axes.n ? (int64_t)axes.n : x->rank;
    for (int d = 0; d < x->rank; d++) out[d] = x->dims[d] ? (float)y->dims[d] / (float)x->dims[d] : 1;
    if (!scales || tensor_count(scales) == 0) return true;
    if (!scales->data || scales->dtype != TN_F32 || scales->rank != 1 || tensor_count(scales) != n) return false;
    load_f32(list, TN_F32, scales->data, scales->offset, scales->strides[0], n);
    for (int64_t i = 0; i < n; i++) {
        int64_t axis = axes.n ? axes.data[i] : i;
        if (axis < 0) axis += x->rank;
        if (axis < 0 || axis >= x->rank) return false;
        out[axis] = list[i];
    }
    return true;
}

static bool matches(const KernelQuery *q) {
    const Node *node = q->node;
    const Tensor *x = q->in[0], *y = &q->out[0];
    float scales[TN_MAX_RANK];
    if (!x || x->dtype != TN_F32 || y->dtype != TN_F32 || x->rank < 3 || x->rank > 4) return false;
    if (!is_nearest(node) && !attr_string_is(node, "mode", "linear")) return false;
    if (coord_of(node) == COORDS || nearest_of(node) == NEARESTS || attr_int(node, "antialias") != 0 ||
        attr_int(node, "exclude_outside") != 0 || !attr_string_is(node, "keep_aspect_ratio_policy", "stretch"))
        return false;
    for (int d = 0; d < x->rank; d++)
        if (x->dims[d] >= INT32_MAX || y->dims[d] >= INT32_MAX) return false;
    if (!read_scales(node, x, y, q->n_in > 2 ? q->in[2] : NULL, scales)) return false;
    return x->dims[0] == y->dims[0] && x->dims[1] == y->dims[1] && scales[0] == 1 && scales[1] == 1;
}

static bool is_channels_last(const Tensor *t) { return t->dims[1] > 1 && t->strides[1] == 1; }

/* Channels stay last. */
static void order(const KernelQuery *q, int k, Tensor *out) {
    int64_t size = out->dims[1];
    (void)k;
    if (!is_channels_last(q->in[0])) return;
    out->strides[1] = 1;
    for (int d = out->rank; d-- > 2; size *= out->dims[d]) out->strides[d] = size;
    out->strides[0] = size;
}

/* ---- taps -------------------------------------------------------------------------------------------------------- */

/* In float, as the op has it: which element is nearest depends on it. */
static float coordinate(Coord coord, float scale, int64_t in, int64_t out, int64_t i) {
    float x = (float)i, whole = (float)out, length = scale * (float)in;
    if (fabsf(length - whole) < 1e-3f) length = whole;
    switch (coord) {
    case PYTORCH_HALF_PIXEL: return out > 1 ? (x + 0.5f) / scale - 0.5f : 0;
    case ALIGN_CORNERS: return out > 1 && length > 1 ? x * ((float)in - 1) / (length - 1) : 0;
    case ASYMMETRIC: return x / scale;
    default: return (x + 0.5f) / scale - 0.5f;
    }
}

static double nearest_place(Nearest how, double x) {
    bool tie = fabs(x - floor(x) - 0.5) <= 1e-6;
    switch (how) {
    case PREFER_FLOOR: return tie ? floor(x) : round(x);
    case PREFER_CEIL: return tie ? ceil(x) : round(x);
    case FLOOR: return floor(x);
    default: return ceil(x);
    }
}

static int32_t within(double x, int64_t size) {
    return !(x > 0) ? 0 : x >= (double)size ? (int32_t)(size - 1) : (int32_t)x;
}

static tn_status make_taps(KernelCtx *c, float scale, int64_t in, int64_t out, ResizeTaps *taps) {
    int32_t *first = arena_array(c->scratch, int32_t, (size_t)out * 2), *second = first + out;
    float *of_first = arena_array(c->scratch, float, (size_t)out * 2), *of_second = of_first + out;
    bool nearest = is_nearest(c->node), same = in == out && scale == 1;
    Coord coord = coord_of(c->node);
    Nearest how = nearest_of(c->node);
    if (!first || !of_first) return TN_OUT_OF_MEMORY;
    *taps = (ResizeTaps){out, first, second, of_first, of_second};
    for (int64_t i = 0; i < out; i++) {
        double x = same && !nearest ? (double)i : (double)coordinate(coord, scale, in, out, i), base = floor(x);
        first[i] = within(nearest ? nearest_place(how, x) : base, in);
        second[i] = within(base + 1, in);
        of_first[i] = (float)(1 - (x - base));
        of_second[i] = (float)(x - base);
    }
    return TN_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct Job {
    ResizeTaps down, along;
    bool nearest, last; /* channels last */
    bool doubles;       /* along a row, each number becomes two */
    int64_t planes, channels, in_w;
    int64_t x_batch, x_plane, x_row, x_col, y_batch, y_plane, y_row, y_col; /* strides */
    const float *x;
    float *y;
} Job;

enum { MOST_COLUMNS = 8192 /* of a row that is kept while it is resized along */ };

/* Blended rows of the operand; where they are too long, columns as they are wanted. */
static void run_plane_row(const Job *job, const ResizeTable *table, const float *x, float *y, int64_t row) {
    const float *first = x + job->down.first[row] * job->x_row, *second = x + job->down.second[row] * job->x_row;
    float work[MOST_COLUMNS + RESIZE_ROOM];
    if (job->nearest) {
        if (job->doubles) table->double_row(y, first, job->in_w);
        else table->pick_row(y, first, &job->along);
        return;
    }
    float of_first = job->down.of_first[row], of_second = job->down.of_second[row];
    if (job->in_w <= MOST_COLUMNS) {
        table->blend(work, first, second, of_first, of_second, job->in_w);
        memset(work + job->in_w, 0, RESIZE_ROOM * sizeof *work);
        table->blend_row(y, work, &job->along);
        return;
    }
    for (int64_t i = 0; i < job->along.n; i++) { /* two numbers of that row */
        int64_t a = job->along.first[i], b = job->along.second[i];
        table->blend(work, first + a, second + a, of_first, of_second, 1);
        table->blend(work + 1, first + b, second + b, of_first, of_second, 1);
        table->blend(y + i, work, work + 1, job->along.of_first[i], job->along.of_second[i], 1);
    }
}

/* Where channels are last: the row that lies between two, if it is short and without gaps, then each pixel; else, for each
   pixel, blocks of channels of the four around it. */
static void run_pixel_row(const Job *job, const ResizeTable *table, const float *x, float *y, int64_t row) {
    const float *first = x + job->down.first[row] * job->x_row, *second = x + job->down.second[row] * job->x_row;
    float of_first = job->down.of_first[row], of_second = job->down.of_second[row];
    float work[MOST_COLUMNS], *left = work, *right = work + MOST_COLUMNS / 2;
    bool whole = job->x_col == job->channels && job->in_w * job->channels <= MOST_COLUMNS;
    if (whole && !job->nearest) {
        table->blend(work, first, second, of_first, of_second, job->in_w * job->channels);
        table->blend_pixels(y, job->y_col, work, job->channels, &job->along);
        return;
    }
    for (int64_t i = 0; i < job->along.n; i++) {
        int64_t a = job->along.first[i] * job->x_col, b = job->along.second[i] * job->x_col;
        float *to = y + i * job->y_col, wa = job->along.of_first[i], wb = job->along.of_second[i];
        if (job->nearest) memcpy(to, first + a, (size_t)job->channels * sizeof *to);
        for (int64_t ch = 0; ch < job->channels && !job->nearest; ch += MOST_COLUMNS / 2) {
            int64_t n = min_i64(MOST_COLUMNS / 2, job->channels - ch);
            table->blend(left, first + a + ch, second + a + ch, of_first, of_second, n);
            table->blend(right, first + b + ch, second + b + ch, of_first, of_second, n);
            table->blend(to + ch, left, right, wa, wb, n);
        }
    }
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    const ResizeTable *table = ISA_PICK(resize_table);
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i % job->down.n, plane = i / job->down.n;
        int64_t batch = plane / job->planes, channel = plane % job->planes;
        const float *x = job->x + batch * job->x_batch + channel * job->x_plane;
        float *y = job->y + batch * job->y_batch + channel * job->y_plane + row * job->y_row;
        bool again = job->nearest && i > begin && row > 0 && job->down.first[row] == job->down.first[row - 1];
        if (again && (!job->last || job->y_col == job->channels))
            memcpy(y, y - job->y_row, (size_t)job->along.n * sizeof *y * (size_t)(job->last ? job->channels : 1));
        else if (job->last) run_pixel_row(job, table, x, y, row);
        else run_plane_row(job, table, x, y, row);
    }
}

static bool has_rows(const Tensor *t) { return t->dims[t->rank - 1] == 1 || t->strides[t->rank - 1] == 1; }

/* Whether rows of both are neighbours, or channels of both. */
static bool set_way(const Tensor *x, const Tensor *y, Job *job) {
    int w = x->rank - 1;
    job->last = is_channels_last(x) && is_channels_last(y);
    job->planes = job->last ? 1 : x->dims[1];
    job->channels = x->dims[1];
    job->in_w = x->dims[w];
    job->x_batch = x->strides[0], job->x_plane = x->strides[1], job->x_col = x->strides[w];
    job->y_batch = y->strides[0], job->y_plane = y->strides[1], job->y_col = y->strides[w];
    job->x_row = w > 2 ? x->strides[2] : 0, job->y_row = w > 2 ? y->strides[2] : 0;
    job->x = floats_of(x), job->y = floats_of(y);
    return job->last || (has_rows(x) && has_rows(y));
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const Tensor *x = c->in[0], *to = &c->out[0];
    Tensor from = *x, buffer = *to;
    float scales[TN_MAX_RANK];
    int w = x->rank - 1;
    (void)prepared;
    if (tensor_count(to) == 0) return TN_OK;
    if (!read_scales(c->node, x, to, kernel_has_input(c, 2) ? c->in[2] : NULL, scales))
        return fail(TN_SHAPE, "the scales are not those that the kernel was chosen for");
    Job job = {.nearest = is_nearest(c->node)};
    int64_t in_h = w > 2 ? x->dims[2] : 1, out_h = w > 2 ? to->dims[2] : 1;
    TRY(make_taps(c, w > 2 ? scales[2] : 1, in_h, out_h, &job.down));
    TRY(make_taps(c, scales[w], x->dims[w], to->dims[w], &job.along));
    if (!set_way(x, to, &job)) {
        if (!has_rows(x)) TRY(dense_reading(c, x, &from));
        if (!has_rows(to)) TRY(float_buffer(c, to->rank, to->dims, &buffer));
        set_way(&from, &buffer, &job);
    }
    job.doubles = job.along.n == 2 * x->dims[w];
    for (int64_t i = 0; i < job.along.n && job.doubles; i++) job.doubles = job.along.first[i] == i / 2;
    double row = (double)job.along.n * (job.last ? (double)job.channels * 0.4 : 1) + 50;
    TRY(kernel_parallel(c, to->dims[0] * job.planes * out_h, row, run_rows, &job));
    if (buffer.data != to->data) copy_floats(&buffer, to);
    return TN_OK;
}

const KernelDesc kernel_cpu_resize = {
    .name = "cpu_resize",
    .op = "Resize",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .order = order,
    .strided = strided_all,
    .gaps = true,
    .launch = launch,
};
