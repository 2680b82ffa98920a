/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of float32 over any axes: rows where the innermost dimension in memory goes, columns where it stays. Few long
   ones are cut into pieces, whose number follows from sizes. What leaves the range of floats on the way is done again in
   double, as the op has it. */
#include <math.h>

#include "backends/cpu/epilogue_int.h"
#include "backends/cpu/rows_int.h"

enum {
    UNIT = 16384,  /* neighbours of a row that are reduced at once */
    DEEP = 256,    /* rows of columns */
    PIECE = 65536, /* elements of a piece */
    MANY = 16,     /* tasks: no need for pieces */
    FEW = 8,       /* elements that are not worth a call */
    TOGETHER = 128 /* short rows */
};

typedef enum Finish { FINISH_NONE, FINISH_MEAN, FINISH_ROOT, FINISH_LOG } Finish;
static const struct Form {
    const char *name;
    RowsKind kind;
    Finish finish;
} forms[] = {
    {"ReduceL1", ROWS_ABS, FINISH_NONE},    {"ReduceL2", ROWS_SQUARE, FINISH_ROOT},
    {"ReduceLogSum", ROWS_SUM, FINISH_LOG}, {"ReduceMax", ROWS_MAX, FINISH_NONE},
    {"ReduceMean", ROWS_SUM, FINISH_MEAN},  {"ReduceMin", ROWS_MIN, FINISH_NONE},
    {"ReduceSum", ROWS_SUM, FINISH_NONE},   {"ReduceSumSquare", ROWS_SQUARE, FINISH_NONE},
};

static const struct Form *form_of(const Node *node) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (node_is_onnx(node, forms[i].name)) return &forms[i];
    return NULL;
}

bool is_reduce(const Node *node) {
    const Value *x = node_operand(node, 0);
    return form_of(node) && x && x->type->kind == TYPE_TENSOR && x->type->dtype == TN_F32;
}

/* Sizes of what the heavy node of a body gives are those of the result. */
static bool has_sizes(const Node *node, const Tensor *x, const Tensor *axes, const Tensor *y) {
    int64_t list[TN_MAX_RANK], n = 0;
    uint32_t mask = 0;
    bool known = !axes || (axes->data && tensor_ints(axes, list, TN_MAX_RANK, &n) == TN_OK);
    if (!known || (n > 0 && normal_axes(list, (size_t)n, x->rank, "axes", &mask) != TN_OK)) {
        diag_clear();
        return false;
    }
    if (n == 0 && !attr_int(node, "noop_with_empty_axes")) mask = (1u << x->rank) - 1;
    bool keep = attr_int(node, "keepdims") != 0;
    int rank = 0;
    for (int k = 0; k < x->rank; k++) {
        bool gone = mask >> k & 1;
        if (gone && !keep) continue;
        if (rank >= y->rank || y->dims[rank] != (gone ? 1 : x->dims[k])) return false;
        rank++;
    }
    return rank == y->rank;
}

static bool matches(const KernelQuery *q) {
    Heavy heavy;
    if (!heavy_open(q->node, is_reduce, &heavy)) return false;
    const Tensor *x = heavy_operand(&heavy, q->in, 0), *axes = heavy_operand(&heavy, q->in, 1);
    if (!x || x->dtype != TN_F32) return false;
    if (!heavy.fused) return q->out[0].dtype == TN_F32;
    return has_sizes(heavy.node, x, axes, &q->out[0]);
}

static bool fuses(const Node *inner) {
    const Value *axes = node_operand(inner, 1);
    return is_reduce(inner) && (!axes || value_payload(axes));
}

static double cost(const KernelQuery *q) { return q->in[0] ? 0.15 * (double)tensor_count(q->in[0]) : 0; }

/* ---- dimensions -------------------------------------------------------------------------------------------------- */

typedef struct Dims {
    int rank;
    int64_t dims[TN_MAX_RANK], x[TN_MAX_RANK], y[TN_MAX_RANK]; /* strides */
} Dims;

typedef struct Job {
    const float *x;
    float *y;
    Dims kept, gone; /* from the outermost in x to the innermost */
    RowsKind kind;
    Finish finish;
    int64_t results, count;
    bool columns;
    int64_t inner, step; /* of the innermost dimension that goes: rows, or elements of a row, `step` apart */
    int64_t unit;        /* how many of those are done at once */
    int64_t per_outer;   /* units in them */
    int64_t units, units_of_piece, pieces;
    int64_t width, blocks; /* columns that are done at once, and how many times */
    double *parts;         /* of results and pieces, where there are more than one */
} Job;

static void add_dim(Dims *d, int64_t size, int64_t x, int64_t y) {
    int last = d->rank - 1;
    bool merges = last >= 0 && d->x[last] == x * size && d->y[last] == y * size;
    if (!merges) {
        last = d->rank++;
        d->dims[last] = 1;
    }
    d->dims[last] *= size;
    d->x[last] = x;
    d->y[last] = y;
}

static int64_t count_of(const Dims *d, int rank) {
    int64_t n = 1;
    for (int k = 0; k < rank; k++) n *= d->dims[k];
    return n;
}

static int64_t seek(const Dims *d, int rank, int64_t index, int64_t *y) {
    int64_t x = 0;
    for (int k = rank; k-- > 0; index /= d->dims[k]) {
        x += index % d->dims[k] * d->x[k];
        if (y) *y += index % d->dims[k] * d->y[k];
    }
    return x;
}

static void split_dims(Job *job, const Tensor *x, const Tensor *y, uint32_t mask, bool keep) {
    int axes[TN_MAX_RANK], own[TN_MAX_RANK], n = 0, at_y = 0;
    for (int k = 0; k < x->rank; k++) {
        own[k] = mask >> k & 1 && !keep ? 0 : at_y++;
        if (x->dims[k] == 1) continue;
        int at = n++;
        for (; at > 0 && x->strides[axes[at - 1]] < x->strides[k]; at--) axes[at] = axes[at - 1];
        axes[at] = k;
    }
    for (int i = 0; i < n; i++) {
        int k = axes[i];
        if (mask >> k & 1) add_dim(&job->gone, x->dims[k], x->strides[k], 0);
        else add_dim(&job->kept, x->dims[k], x->strides[k], y->strides[own[k]]);
    }
}

/* ---- a unit ------------------------------------------------------------------------------------------------------ */

static double join(RowsKind kind, double a, double b) {
    switch (kind) {
    case ROWS_MAX: return a > b || a != a ? a : b;
    case ROWS_MIN: return a < b || a != a ? a : b;
    default: return a + b;
    }
}
static double neutral(RowsKind kind) { return kind == ROWS_MAX ? -INFINITY : kind == ROWS_MIN ? INFINITY : 0; }

static bool leaves_range(RowsKind kind, double value) {
    return kind < ROWS_MAX && (!isfinite(value) || (kind == ROWS_SQUARE && value < 1e-30));
}

static double exact(RowsKind kind, const float *x, int64_t step, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i * step];
        sum += kind == ROWS_SQUARE ? v * v : kind == ROWS_ABS ? fabs(v) : v;
    }
    return sum;
}

static double few(RowsKind kind, const float *x, int64_t n) {
    double value = (double)x[0];
    if (kind < ROWS_MAX) return exact(kind, x, 1, n);
    for (int64_t i = 1; i < n; i++) value = join(kind, value, (double)x[i]);
    return value;
}

static double finish(const Job *job, double value) {
    switch (job->finish) {
    case FINISH_MEAN: return value / (double)job->count;
    case FINISH_ROOT: return sqrt(value);
    case FINISH_LOG: return log(value);
    default: return value;
    }
}

/* Place and length of a unit. */
static int64_t find_unit(const Job *job, int64_t u, int64_t *n) {
    int64_t from = u % job->per_outer * job->unit;
    *n = min_i64(job->unit, job->inner - from);
    return seek(&job->gone, job->gone.rank - 1, u / job->per_outer, NULL) + from * job->step;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static double reduce_row(const Job *job, const RowsTable *table, const float *x, int64_t n) {
    if (n <= FEW) return few(job->kind, x, n);
    double value = table->reduce[job->kind](x, n);
    return leaves_range(job->kind, value) ? exact(job->kind, x, 1, n) : value;
}

/* Each result is of one unit: from one to the next without a division. */
static void run_single_rows(const Job *job, const RowsTable *table, int64_t begin, int64_t end) {
    const Dims *kept = &job->kept;
    int64_t at[TN_MAX_RANK], left = begin, to = 0, from = seek(kept, kept->rank, begin, &to);
    for (int k = kept->rank; k-- > 0; left /= kept->dims[k]) at[k] = left % kept->dims[k];
    for (int64_t i = begin; i < end; i++) {
        job->y[to] = (float)finish(job, reduce_row(job, table, job->x + from, job->inner));
        for (int k = kept->rank; k-- > 0;) {
            from += kept->x[k];
            to += kept->y[k];
            if (++at[k] < kept->dims[k]) break;
            from -= at[k] * kept->x[k];
            to -= at[k] * kept->y[k];
            at[k] = 0;
        }
    }
}

/* The same of short rows, many at once. */
static void run_short_rows(const Job *job, const RowsTable *table, int64_t begin, int64_t end) {
    const Dims *kept = &job->kept;
    int64_t across = kept->dims[kept->rank - 1], x_ld = kept->x[kept->rank - 1], y_ld = kept->y[kept->rank - 1];
    float part[TOGETHER];
    for (int64_t i = begin, n; i < end; i += n) {
        n = min_i64(min_i64(end - i, across - i % across), TOGETHER);
        int64_t to = 0, from = seek(kept, kept->rank, i, &to);
        table->reduce_short[job->kind](part, job->x + from, x_ld, n, job->inner);
        for (int64_t k = 0; k < n; k++) {
            double value = (double)part[k];
            if (leaves_range(job->kind, value)) value = exact(job->kind, job->x + from + k * x_ld, 1, job->inner);
            job->y[to + k * y_ld] = (float)finish(job, value);
        }
    }
}

/* Whether rows are short, and enough of them lie at one distance. */
static bool are_short(const Job *job) {
    int last = job->kept.rank - 1;
    return !job->columns && job->units == 1 && job->inner <= ROWS_SHORT && last >= 0 && job->kept.dims[last] >= MANY;
}

static void run_rows(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    const RowsTable *table = ISA_PICK(rows_table);
    if (are_short(job)) {
        run_short_rows(job, table, begin, end);
        return;
    }
    if (job->units == 1 && job->pieces == 1) {
        run_single_rows(job, table, begin, end);
        return;
    }
    for (int64_t task = begin; task < end; task++) {
        int64_t piece = task % job->pieces, result = task / job->pieces, to = 0, n;
        const float *x = job->x + seek(&job->kept, job->kept.rank, result, &to);
        double value = neutral(job->kind);
        int64_t first = piece * job->units_of_piece, last = min_i64(job->units, first + job->units_of_piece);
        for (int64_t u = first; u < last; u++) {
            const float *at = x + find_unit(job, u, &n);
            double part = reduce_row(job, table, at, n);
            value = join(job->kind, value, part);
        }
        if (job->parts) job->parts[task] = value;
        else job->y[to] = (float)finish(job, value);
    }
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static void run_unit(const Job *job, const RowsTable *table, const float *x, int64_t n, int64_t cols, double *acc) {
    double before[ROWS_MOST_COLUMNS];
    memcpy(before, acc, (size_t)cols * sizeof *acc);
    table->reduce_columns[job->kind](acc, x, job->step, n, cols);
    for (int64_t i = 0; i < cols && job->kind < ROWS_MAX; i++)
        if (leaves_range(job->kind, acc[i])) acc[i] = before[i] + exact(job->kind, x + i, job->step, n);
}

static void run_columns(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    const RowsTable *table = ISA_PICK(rows_table);
    int outer = job->kept.rank - 1;
    int64_t all = job->kept.dims[outer], step = job->kept.y[outer];
    double acc[ROWS_MOST_COLUMNS];
    for (int64_t task = begin; task < end; task++) {
        int64_t piece = task % job->pieces, block = task / job->pieces % job->blocks, to = 0, n;
        int64_t line = task / job->pieces / job->blocks, col = block * job->width;
        int64_t cols = min_i64(job->width, all - col);
        const float *x = job->x + seek(&job->kept, outer, line, &to) + col;
        for (int64_t i = 0; i < cols; i++) acc[i] = neutral(job->kind);
        int64_t first = piece * job->units_of_piece, last = min_i64(job->units, first + job->units_of_piece);
        for (int64_t u = first; u < last; u++) {
            const float *at = x + find_unit(job, u, &n);
            run_unit(job, table, at, n, cols, acc);
        }
        if (job->parts) {
            for (int64_t i = 0; i < cols; i++) job->parts[(line * all + col + i) * job->pieces + piece] = acc[i];
            continue;
        }
        for (int64_t i = 0; i < cols; i++) job->y[to + (col + i) * step] = (float)finish(job, acc[i]);
    }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* False where neither rows nor columns are neighbours. */
static bool choose_way(Job *job) {
    if (job->count == 0) return true;
    int kept = job->kept.rank - 1, gone = job->gone.rank - 1;
    bool rows = gone >= 0 && job->gone.x[gone] == 1;
    job->columns = !rows && kept >= 0 && job->kept.x[kept] == 1;
    if (gone < 0) { /* what is reduced is one element */
        add_dim(&job->gone, 1, 1, 0);
        gone = 0;
        rows = !job->columns;
    }
    job->inner = job->gone.dims[gone];
    job->step = job->gone.x[gone];
    return rows || job->columns;
}

static void choose_sizes(Job *job) {
    int kept = job->kept.rank - 1;
    job->unit = job->columns ? DEEP : UNIT;
    job->per_outer = (job->inner + job->unit - 1) / job->unit;
    job->units = count_of(&job->gone, job->gone.rank - 1) * job->per_outer;
    job->width = !job->columns ? 1 : job->kept.dims[kept] >= 8 * ROWS_MOST_COLUMNS ? ROWS_MOST_COLUMNS : 64;
    job->blocks = job->columns ? (job->kept.dims[kept] + job->width - 1) / job->width : 1;
    int64_t tasks = job->columns ? job->results / job->kept.dims[kept] * job->blocks : job->results;
    int64_t elements = min_i64(job->unit, job->inner) * job->width;
    bool cuts = tasks < MANY && job->count > 0;
    job->units_of_piece = cuts ? max_i64(1, PIECE / max_i64(elements, 1)) : max_i64(job->units, 1);
    job->pieces = max_i64(1, (job->units + job->units_of_piece - 1) / job->units_of_piece);
}

static void join_pieces(const Job *job) {
    for (int64_t i = 0; job->parts && i < job->results; i++) {
        double value = neutral(job->kind);
        int64_t to = 0;
        for (int64_t p = 0; p < job->pieces; p++) value = join(job->kind, value, job->parts[i * job->pieces + p]);
        seek(&job->kept, job->kept.rank, i, &to);
        job->y[to] = (float)finish(job, value);
    }
}

static tn_status run_job(KernelCtx *c, Job *job) {
    choose_sizes(job);
    if (job->pieces > 1) {
        job->parts = arena_array(c->scratch, double, (size_t)(job->results * job->pieces));
        if (!job->parts) return TN_OUT_OF_MEMORY;
    }
    int64_t tasks = job->results * job->pieces;
    if (job->columns) tasks = tasks / job->kept.dims[job->kept.rank - 1] * job->blocks;
    double all = (double)job->results * (double)job->count * 0.12 + (double)tasks * (are_short(job) ? 3 : 30);
    TRY(kernel_parallel(c, tasks, all / (double)tasks, job->columns ? run_columns : run_rows, job));
    join_pieces(job);
    return TN_OK;
}

static tn_status reduce(KernelCtx *c, const Node *node, const Tensor *x, const Tensor *axes, const Tensor *y) {
    int64_t list[TN_MAX_RANK], n = 0;
    uint32_t mask = 0;
    Tensor dense;
    if (axes) TRY(tensor_ints(axes, list, TN_MAX_RANK, &n));
    if (n > 0) TRY(normal_axes(list, (size_t)n, x->rank, "axes", &mask));
    else if (!attr_int(node, "noop_with_empty_axes")) mask = (1u << x->rank) - 1;
    for (int again = 0; again < 2; again++) {
        Job job = {.kind = form_of(node)->kind, .finish = form_of(node)->finish, .x = floats_of(x), .y = floats_of(y)};
        split_dims(&job, x, y, mask, attr_int(node, "keepdims") != 0);
        job.results = count_of(&job.kept, job.kept.rank);
        job.count = count_of(&job.gone, job.gone.rank);
        if (job.results == 0) return TN_OK;
        if (choose_way(&job)) return run_job(c, &job);
        TRY(dense_reading(c, x, &dense));
        x = &dense;
    }
    return fail(TN_INTERNAL, "a dense tensor has no innermost dimension");
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const Epilogue *e = epilogue_of(prepared);
    const Tensor *x = heavy_operand(&e->heavy, c->in, 0), *axes = heavy_operand(&e->heavy, c->in, 1);
    Tensor values = c->out[0];
    if (values.dtype != TN_F32) TRY(float_buffer(c, values.rank, values.dims, &values));
    TRY(reduce(c, e->heavy.node, x, axes, &values));
    return e->body ? epilogue_run(c, e, &values) : TN_OK;
}

const KernelDesc kernel_cpu_reduce = {
    .name = "cpu_reduce",
    .op = "ReduceL1 ReduceL2 ReduceLogSum ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare tn.Fused",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .fuses = fuses,
    .strided = strided_all,
    .cost = cost,
    .prepare = epilogue_prepare,
    .keeps = prepared_of_node,
    .launch = launch,
};
