/* SPDX-License-Identifier: Apache-2.0 */
/* GroupNormalization and InstanceNormalization, where each channel is a group: planes one after the other, or channels last. */
#include <math.h>

#include "backends/cpu/epilogue_int.h"
#include "backends/cpu/rows_int.h"

enum { BLOCK = 32 /* channels that are done at once where they are neighbours, unless a group has more */ };

bool is_group_norm(const Node *node) {
    if (!node_is_onnx(node, "GroupNormalization") && !node_is_onnx(node, "InstanceNormalization")) return false;
    for (int i = 0; i < 3; i++) {
        const Value *v = node_operand(node, (size_t)i);
        if (!v || v->type->kind != TYPE_TENSOR || v->type->dtype != TN_F32) return false;
    }
    return true;
}

static bool matches(const KernelQuery *q) {
    Heavy heavy;
    if (!heavy_open(q->node, is_group_norm, &heavy)) return false;
    for (int i = 0; i < 3; i++)
        if (heavy_operand(&heavy, q->in, i)->dtype != TN_F32) return false;
    const Tensor *x = heavy_operand(&heavy, q->in, 0);
    return x->rank >= 2 && same_sizes(x, &q->out[0]);
}

static double cost(const KernelQuery *q) { return 0.5 * (double)tensor_count(&q->out[0]); }

/* ---- a group ----------------------------------------------------------------------------------------------------- */

typedef struct Job {
    int64_t batch, channels, plane, of_group; /* channels of a group */
    int64_t x_batch, y_batch, x_ld, y_ld;     /* strides; of planes' elements where channels are last */
    int64_t blocks, groups_at_once;
    double epsilon;
    const float *x, *scale, *shift;
    float *y;
    const EpilogueTiles *tiles; /* of planes; NULL: none */
    const BodyMap *body;        /* of channels, in place */
} Job;

static Centre centre_of(double mean) { return (Centre){(float)mean, (float)(mean - (double)(float)mean)}; }

/* Where squares leave the range of floats: `n` runs of `run` neighbours, `step` apart. */
static double exact_moments(const float *x, int64_t n, int64_t step, int64_t run, double *mean) {
    double sum = 0, squares = 0, count = (double)n * (double)run;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < run; k++) sum += (double)x[i * step + k];
    *mean = sum / count;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < run; k++) {
            double v = (double)x[i * step + k] - *mean;
            squares += v * v;
        }
    return squares / count;
}

static bool leaves_range(double variance, double epsilon) {
    return !isfinite(variance) || (variance < 1e-30 && epsilon < 1e-20);
}

/* From sums of differences to a mean that is nearly right, and of their squares: the mean, and the variance. */
static double correct(double sum, double squares, double n, double *mean) {
    double off = sum / n, variance = squares / n - off * off;
    *mean += off;
    return variance < 0 ? 0 : variance; /* NaN stays */
}

/* Planes one after the other: a group is one run. */
static void run_planes(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    const RowsTable *table = ISA_PICK(rows_table);
    int64_t groups = job->channels / job->of_group, n = job->of_group * job->plane;
    for (int64_t i = begin; i < end; i++) {
        int64_t channel = i % groups * job->of_group, at = channel * job->plane;
        const float *x = job->x + i / groups * job->x_batch + at;
        float *y = job->y + i / groups * job->y_batch + at;
        double sum, squares, about = (double)(float)(table->reduce[ROWS_SUM](x, n) / (double)n);
        table->moments(x, n, (float)about, &sum, &squares);
        double mean = about, variance = correct(sum, squares, (double)n, &mean);
        if (leaves_range(variance, job->epsilon)) variance = exact_moments(x, 1, 0, n, &mean);
        double inverse = 1 / sqrt(variance + job->epsilon);
        for (int64_t k = 0; k < job->of_group; k++, channel++) {
            double factor = inverse * (double)job->scale[channel];
            Centre c = centre_of(mean);
            double less = (double)c.low * factor - (double)job->shift[channel];
            table->shift_scale(y + k * job->plane, x + k * job->plane, c.high, (float)factor, (float)less, job->plane);
            int64_t place = i * job->of_group + k, lines = job->tiles ? job->plane / job->tiles->cols : 0;
            if (lines > 0) epilogue_lines(job->tiles, place * lines, (place + 1) * lines);
        }
    }
}

/* Moments of whole groups among `n` channels from x on, up to ROWS_MOST_COLUMNS. */
static void block_moments(const Job *job, const RowsTable *table, const float *x, int64_t n, double *mean,
                          double *inverse) {
    double sums[ROWS_MOST_COLUMNS] = {0}, off[ROWS_MOST_COLUMNS] = {0}, squares[ROWS_MOST_COLUMNS] = {0};
    float about[ROWS_MOST_COLUMNS];
    int64_t of = job->of_group;
    double count = (double)of * (double)job->plane;
    table->reduce_columns[ROWS_SUM](sums, x, job->x_ld, job->plane, n);
    for (int64_t g = 0; g < n; g += of) {
        double sum = 0;
        for (int64_t k = 0; k < of; k++) sum += sums[g + k];
        for (int64_t k = 0; k < of; k++) about[g + k] = (float)(sum / count);
    }
    table->moments_columns(off, squares, x, job->x_ld, job->plane, n, about);
    for (int64_t g = 0; g < n; g += of) {
        double sum = 0, square = 0, m = (double)about[g];
        for (int64_t k = 0; k < of; k++) sum += off[g + k], square += squares[g + k];
        double variance = correct(sum, square, count, &m);
        if (leaves_range(variance, job->epsilon)) variance = exact_moments(x + g, job->plane, job->x_ld, of, &m);
        for (int64_t k = 0; k < of; k++) {
            mean[g + k] = m;
            inverse[g + k] = 1 / sqrt(variance + job->epsilon);
        }
    }
}

static void rescale_block(const Job *job, const RowsTable *table, const float *x, float *y, int64_t channel, int64_t n,
                          const double *mean, const double *inverse) {
    Centre centres[ROWS_MOST_COLUMNS];
    float factors[ROWS_MOST_COLUMNS], shift[ROWS_MOST_COLUMNS];
    for (int64_t k = 0; k < n; k++) {
        centres[k] = centre_of(mean[k]);
        factors[k] = (float)(inverse[k] * (double)job->scale[channel + k]);
        shift[k] = job->shift[channel + k];
    }
    table->normalise_columns(y, job->y_ld, x, job->x_ld, centres, factors, shift, job->plane, n);
}

static void run_channels(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    const RowsTable *table = ISA_PICK(rows_table);
    double mean[ROWS_MOST_COLUMNS], inverse[ROWS_MOST_COLUMNS];
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % job->blocks * job->groups_at_once * job->of_group;
        int64_t n = min_i64(job->groups_at_once * job->of_group, job->channels - first);
        const float *x = job->x + i / job->blocks * job->x_batch + first;
        float *y = job->y + i / job->blocks * job->y_batch + first;
        block_moments(job, table, x, n, mean, inverse);
        rescale_block(job, table, x, y, first, n, mean, inverse);
        int64_t place[TN_MAX_RANK] = {i / job->blocks, first};
        if (job->body) body_run_tile(job->body, place, y, job->y_ld, y, job->y_ld, job->plane, n);
    }
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

/* Whether dimensions from 2 on are walked with one stride, which is *step. */
static bool one_plane(const Tensor *t, int64_t *step) {
    int64_t size = 0;
    *step = 1;
    for (int k = t->rank; k-- > 2;) {
        if (t->dims[k] == 1) continue;
        if (size == 0) *step = t->strides[k], size = t->dims[k];
        else if (t->strides[k] != *step * size) return false;
        else size *= t->dims[k];
    }
    return true;
}

static bool is_planes(const Tensor *t, int64_t plane) {
    int64_t step;
    return one_plane(t, &step) && (step == 1 || plane == 1) && (t->dims[1] == 1 || t->strides[1] == plane);
}

static bool is_channels_last(const Tensor *t, int64_t *step) {
    return one_plane(t, step) && (t->dims[1] == 1 || t->strides[1] == 1);
}

static tn_status run_by_planes(KernelCtx *c, const Epilogue *e, Job *job, const Tensor *y, double cost, bool *tiled) {
    EpilogueTiles tiles;
    if (y->rank > 2) TRY(epilogue_open(c, e, y, &tiles, tiled));
    if (*tiled) job->tiles = &tiles;
    return kernel_parallel(c, job->batch * (job->channels / job->of_group), cost, run_planes, job);
}

/* With a body behind, where it is in place and all its operands can be walked from pixel to pixel. */
static tn_status run_by_channels(KernelCtx *c, const Epilogue *e, Job *job, const Tensor *y, double cost, bool *tiled) {
    BodyMap map;
    if (e->body && y->data == c->out[0].data) {
        TRY(body_map(e->body, c, 2, y->rank - 2, 1, &map));
        *tiled = map.rows_walk;
    }
    if (*tiled) job->body = &map;
    return kernel_parallel(c, job->batch * job->blocks, cost, run_channels, job);
}

static tn_status normalise(KernelCtx *c, const Epilogue *e, const Tensor *x, const Tensor *const *vectors,
                           const Tensor *y, bool *done, bool *tiled) {
    const Node *node = e->heavy.node;
    Tensor scale, shift;
    Job job = {.batch = x->dims[0], .channels = x->dims[1], .plane = 1, .epsilon = attr_float(node, "epsilon")};
    bool each = node_is_onnx(node, "InstanceNormalization");
    job.of_group = each ? 1 : job.channels / attr_int(node, "num_groups");
    for (int k = 2; k < x->rank; k++) job.plane *= x->dims[k];
    TRY(dense_reading(c, vectors[0], &scale));
    TRY(dense_reading(c, vectors[1], &shift));
    job.scale = floats_of(&scale), job.shift = floats_of(&shift);
    job.x = floats_of(x), job.y = floats_of(y);
    job.x_batch = x->strides[0], job.y_batch = y->strides[0];
    *done = true;
    double each_cost = (double)job.of_group * (double)job.plane * (e->body ? 0.4 + body_cost(e->body) : 0.4) + 50;
    if (is_planes(x, job.plane) && is_planes(y, job.plane)) return run_by_planes(c, e, &job, y, each_cost, tiled);
    if (!is_channels_last(x, &job.x_ld) || !is_channels_last(y, &job.y_ld) || job.of_group > ROWS_MOST_COLUMNS) {
        *done = false;
        return TN_OK;
    }
    job.groups_at_once = max_i64(1, BLOCK / job.of_group);
    int64_t at_once = job.groups_at_once * job.of_group;
    job.blocks = (job.channels + at_once - 1) / at_once;
    return run_by_channels(c, e, &job, y, each_cost * (double)job.groups_at_once, tiled);
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const Epilogue *e = epilogue_of(prepared);
    const Tensor *x = heavy_operand(&e->heavy, c->in, 0);
    const Tensor *vectors[] = {heavy_operand(&e->heavy, c->in, 1), heavy_operand(&e->heavy, c->in, 2)};
    Tensor values = c->out[0], dense;
    bool done, tiled = false;
    if (tensor_count(x) == 0) return TN_OK;
    if (values.dtype != TN_F32) TRY(float_buffer(c, x->rank, x->dims, &values));
    TRY(normalise(c, e, x, vectors, &values, &done, &tiled));
    if (!done) {
        TRY(dense_reading(c, x, &dense));
        TRY(float_buffer(c, x->rank, x->dims, &values));
        TRY(normalise(c, e, &dense, vectors, &values, &done, &tiled));
    }
    if (e->body) return tiled ? TN_OK : epilogue_run(c, e, &values);
    if (values.data != c->out[0].data) copy_floats(&values, &c->out[0]);
    return TN_OK;
}

const KernelDesc kernel_cpu_group_norm = {
    .name = "cpu_group_norm",
    .op = "GroupNormalization InstanceNormalization tn.Fused",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .fuses = is_group_norm,
    .order = epilogue_order,
    .strided = strided_all,
    .in_place = epilogue_in_place,
    .cost = cost,
    .prepare = epilogue_prepare,
    .keeps = prepared_of_node,
    .launch = launch,
};
