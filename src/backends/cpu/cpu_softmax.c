/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and LogSoftmax over any axis: rows where the axis is the innermost in memory, else many columns at once; where there
   are few columns, or none that are neighbours, lines are gathered into rows. */
#include <math.h>

#include "backends/cpu/epilogue_int.h"
#include "backends/cpu/rows_int.h"

enum {
    WORK = 16384, /* floats of a block of columns, within the second-level cache */
    NARROW = 8,   /* columns: fewer leave most of a vector empty */
    TOGETHER = 16 /* lines that are gathered at once */
};

bool is_softmax(const Node *node) {
    bool named = node_is_onnx(node, "Softmax") || node_is_onnx(node, "LogSoftmax");
    const Value *x = node_operand(node, 0);
    return named && x && x->type->kind == TYPE_TENSOR && x->type->dtype == TN_F32;
}

static bool matches(const KernelQuery *q) {
    Heavy heavy;
    if (!heavy_open(q->node, is_softmax, &heavy)) return false;
    const Tensor *x = heavy_operand(&heavy, q->in, 0);
    return x && x->dtype == TN_F32 && x->rank > 0 && same_sizes(x, &q->out[0]);
}

static double cost(const KernelQuery *q) { return 0.5 * (double)tensor_count(&q->out[0]); }

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Dimensions beside the axis, as x and y are walked. */
typedef struct Lines {
    int rank;
    int64_t dims[TN_MAX_RANK], x_strides[TN_MAX_RANK], y_strides[TN_MAX_RANK];
    const float *x;
    float *y;
    int64_t n, x_step, y_step; /* along the axis */
    int64_t cols, width;       /* of the innermost of the dimensions, when columns are done; at once */
    bool log;
} Lines;

/* From the outermost in y to the innermost; neighbours that are one are merged. */
static void add_dims(Lines *l, const Tensor *x, const Tensor *y, int axis) {
    int axes[TN_MAX_RANK], n = 0;
    for (int k = 0; k < y->rank; k++) {
        int at = n;
        if (k == axis || y->dims[k] == 1) continue;
        for (; at > 0 && y->strides[axes[at - 1]] < y->strides[k]; at--) axes[at] = axes[at - 1];
        axes[at] = k;
        n++;
    }
    for (int i = 0; i < n; i++) {
        int64_t size = y->dims[axes[i]], xs = x->strides[axes[i]], ys = y->strides[axes[i]];
        int last = l->rank - 1;
        bool merges = last >= 0 && l->x_strides[last] == xs * size && l->y_strides[last] == ys * size;
        if (!merges) l->dims[++last] = 1;
        l->rank = last + 1;
        l->dims[last] *= size;
        l->x_strides[last] = xs;
        l->y_strides[last] = ys;
    }
}

/* Offsets of place `index` of the first `rank` dimensions. */
static void seek(const Lines *l, int rank, int64_t index, int64_t *x, int64_t *y) {
    *x = *y = 0;
    for (int k = rank; k-- > 0; index /= l->dims[k]) {
        int64_t at = index % l->dims[k];
        *x += at * l->x_strides[k];
        *y += at * l->y_strides[k];
    }
}

static void run_log_row(const Lines *l, const RowsTable *table, const float *x, float *y) {
    float top = table->top(x, l->n), part[2048]; /* y may be x, which is wanted once more */
    double sum = 0;
    for (int64_t i = 0; i < l->n; i += 2048) sum += table->exp_sum(part, x + i, top, min_i64(2048, l->n - i));
    table->shift_scale(y, x, top, 1, (float)log(sum), l->n);
}

/* As many lines at once as the innermost dimension has. */
static void run_rows(void *arg, int64_t begin, int64_t end) {
    const Lines *l = arg;
    const RowsTable *table = ISA_PICK(rows_table);
    int last = l->rank - 1;
    int64_t inner = last >= 0 ? l->dims[last] : 1, n;
    int64_t x_ld = last >= 0 ? l->x_strides[last] : 0, y_ld = last >= 0 ? l->y_strides[last] : 0;
    for (int64_t i = begin; i < end; i += n) {
        int64_t x, y;
        n = min_i64(end - i, inner - i % inner);
        seek(l, l->rank, i, &x, &y);
        if (!l->log) table->softmax_rows(l->y + y, y_ld, l->x + x, x_ld, n, l->n);
        for (int64_t r = 0; r < n && l->log; r++) run_log_row(l, table, l->x + x + r * x_ld, l->y + y + r * y_ld);
    }
}

static void run_columns(void *arg, int64_t begin, int64_t end) {
    const Lines *l = arg;
    const RowsTable *table = ISA_PICK(rows_table);
    int64_t blocks = (l->cols + l->width - 1) / l->width;
    alignas(64) float work[WORK];
    for (int64_t i = begin; i < end; i++) {
        int64_t x, y, col = i % blocks * l->width, cols = min_i64(l->width, l->cols - col);
        seek(l, l->rank - 1, i / blocks, &x, &y);
        x += col, y += col;
        bool fits = l->n * cols <= WORK;
        table->softmax_columns(l->y + y, l->y_step, l->x + x, l->x_step, fits ? work : l->y + y,
                               fits ? cols : l->y_step, l->n, cols, l->log);
    }
}

/* Lines begin..end of the innermost of the dimensions, as rows of a block that is theirs. */
static void run_gathered(void *arg, int64_t begin, int64_t end) {
    const Lines *l = arg;
    const RowsTable *table = ISA_PICK(rows_table);
    int last = l->rank - 1;
    int64_t inner = last >= 0 ? l->dims[last] : 1, most = max_i64(1, min_i64(TOGETHER, WORK / l->n)), m;
    int64_t xs = last >= 0 ? l->x_strides[last] : 0, ys = last >= 0 ? l->y_strides[last] : 0;
    alignas(64) float work[WORK];
    for (int64_t line = begin; line < end; line += m) {
        int64_t x, y, n = l->n;
        m = min_i64(most, min_i64(end - line, inner - line % inner));
        seek(l, l->rank, line, &x, &y);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < m; k++) work[k * n + i] = l->x[x + i * l->x_step + k * xs];
        if (!l->log) table->softmax_rows(work, n, work, n, m, n);
        for (int64_t k = 0; k < m && l->log; k++) run_log_row(l, table, work + k * n, work + k * n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < m; k++) l->y[y + i * l->y_step + k * ys] = work[k * n + i];
    }
}

static tn_status run_lines(KernelCtx *c, const Tensor *x, const Tensor *y, int axis, bool log, bool *done) {
    Lines l = {.log = log, .n = x->dims[axis], .x_step = x->strides[axis], .y_step = y->strides[axis]};
    l.x = floats_of(x);
    l.y = floats_of(y);
    add_dims(&l, x, y, axis);
    int64_t lines = 1;
    int last = l.rank - 1;
    for (int k = 0; k < l.rank; k++) lines *= l.dims[k];
    *done = true;
    if ((l.x_step == 1 && l.y_step == 1) || l.n == 1)
        return kernel_parallel(c, lines, (double)l.n * 0.5 + 20, run_rows, &l);
    bool columns = last >= 0 && l.x_strides[last] == 1 && l.y_strides[last] == 1;
    if (l.n <= WORK && (!columns || (l.dims[last] < NARROW && l.n >= NARROW)))
        return kernel_parallel(c, lines, (double)l.n * 1.0 + 20, run_gathered, &l);
    if (!columns) {
        *done = false;
        return TN_OK;
    }
    l.cols = l.dims[last];
    l.width = max_i64(16, min_i64(ROWS_MOST_COLUMNS, WORK / l.n & ~(int64_t)15));
    int64_t blocks = (l.cols + l.width - 1) / l.width;
    double each = (double)l.n * (double)min_i64(l.width, l.cols) * 0.5 + 20;
    return kernel_parallel(c, lines / l.cols * blocks, each, run_columns, &l);
}

/* Into `y`, which has x's sizes. */
static tn_status softmax(KernelCtx *c, const Node *node, const Tensor *x, const Tensor *y) {
    int axis;
    bool done, log = node_is_onnx(node, "LogSoftmax");
    Tensor dense, buffer;
    TRY(normal_axis(attr_int(node, "axis"), x->rank, "axis", &axis));
    TRY(run_lines(c, x, y, axis, log, &done));
    if (done) return TN_OK;
    TRY(dense_reading(c, x, &dense));
    TRY(float_buffer(c, x->rank, x->dims, &buffer));
    TRY(run_lines(c, &dense, &buffer, axis, log, &done));
    copy_floats(&buffer, y);
    return TN_OK;
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const Epilogue *e = epilogue_of(prepared);
    const Tensor *x = heavy_operand(&e->heavy, c->in, 0);
    Tensor values = c->out[0];
    if (tensor_count(x) == 0) return TN_OK;
    if (e->body && values.dtype != TN_F32) TRY(float_buffer(c, x->rank, x->dims, &values));
    TRY(softmax(c, e->heavy.node, x, &values));
    return e->body ? epilogue_run(c, e, &values) : TN_OK;
}

const KernelDesc kernel_cpu_softmax = {
    .name = "cpu_softmax",
    .op = "Softmax LogSoftmax tn.Fused",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .fuses = is_softmax,
    .order = epilogue_order,
    .strided = strided_all,
    .in_place = epilogue_in_place,
    .cost = cost,
    .prepare = epilogue_prepare,
    .keeps = prepared_of_node,
    .launch = launch,
};
