/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation over the last dimensions: LayerNormalization, RMSNormalization and ONNX Runtime's forms of them, with a
   residual in front or without. Variances are taken around the mean in a second pass, while a row is in the first cache. */
#include <math.h>

#include "backends/cpu/epilogue_int.h"
#include "backends/cpu/rows_int.h"

/* Operands of one of the ops, and the results that it has; -1: none. */
typedef struct Form {
    const char *name;
    int skip, scale, shift, bias;
    int mean, inverse, sum;
    bool centre, axis; /* takes the mean off; has an attribute that says where rows begin */
} Form;
static const Form forms[] = {
    {"LayerNormalization", -1, 1, 2, -1, 1, 2, -1, true, true},
    {"RMSNormalization", -1, 1, -1, -1, -1, 1, -1, false, true},
    {"SimplifiedLayerNormalization", -1, 1, -1, -1, -1, 1, -1, false, true},
    {"SkipLayerNormalization", 1, 2, 3, 4, 1, 2, 3, true, false},
    {"SkipSimplifiedLayerNormalization", 1, 2, -1, 3, 1, 2, 3, false, false},
};

static const Form *form_of(const Node *node) {
    bool ms = node->op->domain && strcmp(node->op->domain, "com.microsoft") == 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const Form *f = &forms[i];
        bool here = f->skip >= 0 ? ms : ms ? f == &forms[2] : !node->op->domain;
        if (here && strcmp(f->name, node->op->name) == 0) return f;
    }
    return NULL;
}

bool is_norm(const Node *node) {
    const Form *f = form_of(node);
    if (!f || !node_operand(node, 0) || !node_operand(node, (size_t)f->scale)) return false;
    if (f->axis && attr_int(node, "stash_type") != TN_F32) return false;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (v && (v->type->kind != TYPE_TENSOR || v->type->dtype != TN_F32)) return false;
    }
    return f->skip < 0 || node_operand(node, 1);
}

static bool matches(const KernelQuery *q) {
    Heavy heavy;
    if (!heavy_open(q->node, is_norm, &heavy)) return false;
    for (uint32_t i = 0; i < heavy.node->n_operands; i++) {
        const Tensor *t = heavy_operand(&heavy, q->in, (int)i);
        if (t && t->dtype != TN_F32) return false;
    }
    for (int i = heavy.fused ? q->n_out : 0; i < q->n_out; i++)
        if (q->out[i].dtype != TN_F32) return false;
    const Tensor *x = heavy_operand(&heavy, q->in, 0);
    return x->rank > 0 && same_sizes(x, &q->out[0]);
}

static double cost(const KernelQuery *q) { return 0.4 * (double)tensor_count(&q->out[0]); }

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* A tensor with x's dimensions whose rows are neighbours; outer strides are 0 where it is repeated. NULL: absent. */
typedef struct Rows {
    float *p;
    int64_t strides[TN_MAX_RANK];
} Rows;

static bool has_plain_rows(int rank, int axis, const int64_t *dims, const int64_t *strides) {
    int64_t size = 1;
    for (int k = rank; k-- > axis; size *= dims[k])
        if (dims[k] != 1 && strides[k] != size) return false;
    return true;
}

/* The operand as rows of x. What has none in its own memory is copied, repeated along rows but not beside them. */
static tn_status read_rows(KernelCtx *c, const Tensor *t, const Tensor *x, int axis, Rows *out) {
    Tensor r = *t, dense;
    *out = (Rows){0};
    if (t->rank > x->rank) return fail(TN_SHAPE, "an operand has more dimensions than the input");
    r.rank = x->rank;
    for (int k = 0; k < x->rank; k++) {
        int own = k - (x->rank - t->rank);
        bool is_there = own >= 0 && t->dims[own] != 1;
        if (is_there && t->dims[own] != x->dims[k])
            return fail(TN_SHAPE, "an operand does not broadcast to the input's shape");
        r.strides[k] = is_there ? t->strides[own] : 0;
        r.dims[k] = is_there || k >= axis ? x->dims[k] : 1;
    }
    dense = r;
    if (!has_plain_rows(r.rank, axis, r.dims, r.strides)) {
        tensor_set_dense(&dense, TN_F32, r.rank, r.dims);
        dense.data = arena_alloc(c->scratch, (size_t)max_i64(tensor_count(&r), 1) * sizeof(float), 64);
        if (!dense.data) return TN_OUT_OF_MEMORY;
        tensor_gather(&r, dense.data);
    }
    out->p = floats_of(&dense);
    for (int k = 0; k < axis; k++) out->strides[k] = r.dims[k] == 1 ? 0 : dense.strides[k];
    return TN_OK;
}

static tn_status read_operand(KernelCtx *c, const Heavy *heavy, int i, const Tensor *x, int axis, Rows *out) {
    const Tensor *t = i >= 0 && i < OP_MAX_INPUTS ? heavy_operand(heavy, c->in, i) : NULL;
    *out = (Rows){0};
    return t ? read_rows(c, t, x, axis, out) : TN_OK;
}

/* Where a result of x's sizes is written: its own memory where rows are neighbours there. */
static tn_status write_rows(KernelCtx *c, const Tensor *to, int axis, Tensor *memory, Rows *out) {
    *memory = *to;
    if (to->dtype != TN_F32 || !has_plain_rows(to->rank, axis, to->dims, to->strides))
        TRY(float_buffer(c, to->rank, to->dims, memory));
    out->p = floats_of(memory);
    memcpy(out->strides, memory->strides, sizeof out->strides);
    return TN_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

typedef struct Job {
    int axis;
    int64_t dims[TN_MAX_RANK], n;
    double epsilon;
    bool centre;
    Rows x, skip, bias, scale, shift, y, sum, mean, inverse;
} Job;

static float *row_of(const Rows *rows, const int64_t *at, int axis) {
    int64_t offset = 0;
    if (!rows->p) return NULL;
    for (int k = 0; k < axis; k++) offset += at[k] * rows->strides[k];
    return rows->p + offset;
}

/* Where squares leave the range of floats. */
static double exact_variance(const float *x, int64_t n, bool centre, double *mean) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; centre && i < n; i++) sum += (double)x[i];
    *mean = centre ? sum / (double)n : 0;
    for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    return squares / (double)n;
}

/* The mean of floats is nearly right; what is left around it says how far it is off. */
static void find_moments(const RowsTable *table, const float *x, int64_t n, double *mean, double *variance) {
    double sum, squares, about = (double)(float)(table->reduce[ROWS_SUM](x, n) / (double)n);
    table->moments(x, n, (float)about, &sum, &squares);
    double off = sum / (double)n;
    *mean = about + off;
    *variance = squares / (double)n - off * off;
    if (*variance < 0) *variance = 0; /* NaN stays */
}

static void run_row(const Job *job, const RowsTable *table, const int64_t *at) {
    const float *x = row_of(&job->x, at, job->axis);
    float *y = row_of(&job->y, at, job->axis);
    if (job->skip.p) {
        float *sum = row_of(job->sum.p ? &job->sum : &job->y, at, job->axis);
        table->add(sum, x, row_of(&job->skip, at, job->axis), row_of(&job->bias, at, job->axis), job->n);
        x = sum;
    }
    double mean = 0, variance = 0;
    if (job->centre) find_moments(table, x, job->n, &mean, &variance);
    else variance = table->reduce[ROWS_SQUARE](x, job->n) / (double)job->n;
    if (!isfinite(variance) || (variance < 1e-30 && job->epsilon < 1e-20))
        variance = exact_variance(x, job->n, job->centre, &mean);
    Centre centre = {(float)mean, (float)(mean - (double)(float)mean)};
    double inverse = 1 / sqrt(variance + job->epsilon);
    if (job->mean.p) *row_of(&job->mean, at, job->axis) = (float)mean;
    if (job->inverse.p) *row_of(&job->inverse, at, job->axis) = (float)inverse;
    table->normalise(y, x, centre, (float)inverse, row_of(&job->scale, at, job->axis),
                     row_of(&job->shift, at, job->axis), job->n);
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    const RowsTable *table = ISA_PICK(rows_table);
    for (int64_t row = begin; row < end; row++) {
        int64_t at[TN_MAX_RANK], left = row;
        for (int k = job->axis; k-- > 0; left /= job->dims[k]) at[k] = left % job->dims[k];
        run_row(job, table, at);
    }
}

/* A result of one number a row, where somebody reads it. */
static void find_numbers(const KernelCtx *c, const Heavy *heavy, int i, Rows *out) {
    if (heavy->fused || i < 0 || !output_wanted(c, i)) return;
    out->p = floats_of(&c->out[i]);
    memcpy(out->strides, c->out[i].strides, sizeof out->strides);
}

static tn_status norm(KernelCtx *c, const Heavy *heavy, Tensor *values) {
    const Form *f = form_of(heavy->node);
    const Tensor *x = heavy_operand(heavy, c->in, 0);
    Tensor sum;
    int axis = x->rank - 1;
    if (f->axis) TRY(normal_axis(attr_int(heavy->node, "axis"), x->rank, "axis", &axis));
    Job job = {.axis = axis, .n = 1, .epsilon = attr_float(heavy->node, "epsilon"), .centre = f->centre};
    memcpy(job.dims, x->dims, sizeof job.dims);
    for (int k = axis; k < x->rank; k++) job.n *= x->dims[k];
    TRY(read_operand(c, heavy, 0, x, axis, &job.x));
    TRY(read_operand(c, heavy, f->skip, x, axis, &job.skip));
    TRY(read_operand(c, heavy, f->bias, x, axis, &job.bias));
    TRY(read_operand(c, heavy, f->scale, x, axis, &job.scale));
    TRY(read_operand(c, heavy, f->shift, x, axis, &job.shift));
    TRY(write_rows(c, &c->out[0], axis, values, &job.y));
    bool sums = !heavy->fused && f->sum >= 0 && output_wanted(c, f->sum);
    if (sums) TRY(write_rows(c, &c->out[f->sum], axis, &sum, &job.sum));
    find_numbers(c, heavy, f->mean, &job.mean);
    find_numbers(c, heavy, f->inverse, &job.inverse);
    TRY(kernel_parallel(c, tensor_count(x) / job.n, (double)job.n * 0.4 + 50, run_rows, &job));
    if (sums && sum.data != c->out[f->sum].data) copy_floats(&sum, &c->out[f->sum]);
    return TN_OK;
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const Epilogue *e = epilogue_of(prepared);
    Tensor values;
    if (tensor_count(&c->out[0]) == 0) return TN_OK;
    TRY(norm(c, &e->heavy, &values));
    if (e->body) return epilogue_run(c, e, &values);
    if (values.data != c->out[0].data) copy_floats(&values, &c->out[0]);
    return TN_OK;
}

const KernelDesc kernel_cpu_norm = {
    .name = "cpu_norm",
    .op = "LayerNormalization RMSNormalization SimplifiedLayerNormalization "
          "com.microsoft.SimplifiedLayerNormalization com.microsoft.SkipLayerNormalization "
          "com.microsoft.SkipSimplifiedLayerNormalization tn.Fused",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .fuses = is_norm,
    .strided = strided_all,
    .in_place = epilogue_in_place,
    .cost = cost,
    .prepare = epilogue_prepare,
    .keeps = prepared_of_node,
    .launch = launch,
};
