/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise nodes and groups of them. The result's dimensions are put in the order in which they lie in memory and
   neighbours merged where no operand tells them apart; then the innermost one is columns, the next rows. */
#include "backends/cpu/body_program_int.h"
#include "backends/cpu/epilogue_int.h"

enum {
    ITEM = 16384,
    MOST_ITEM = 8 * ITEM, /* elements that a thread takes at once: with few threads many */
    ITEMS_EACH = 4,       /* for a thread at least, where there are several */
    EDGE = 32             /* of the squares in which operands are read that lie across */
};

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static bool is_like(const Tensor *t, const Tensor *out) { return t->kind == TYPE_TENSOR && same_sizes(t, out); }

/* Types that bodies were looked at with are those of the graph. */
static bool same_type(const Value *v, const Tensor *t) {
    return v->type->kind == TYPE_TENSOR && t->kind == TYPE_TENSOR && v->type->dtype == t->dtype;
}

/* Vectors along the channels of a normalisation are checked when they are read. */
static bool broadcasts(const Tensor *t, const Tensor *out) {
    if (t->rank == 1 && out->rank > 1) return true;
    for (int k = 0; k < t->rank; k++) {
        int at = out->rank - t->rank + k;
        if (at < 0 || (t->dims[k] != 1 && t->dims[k] != out->dims[at])) return false;
    }
    return true;
}

static bool runs(const OpSchema *op) { return body_knows(op) || kernel_runs_op(&(KernelDesc){.op = "tn.Fused"}, op); }

static bool matches(const KernelQuery *q) {
    const Node *node = q->node;
    if (q->n_in > OP_MAX_INPUTS || q->n_out < 1 || q->n_out > OP_MAX_OUTPUTS || !body_is_light(node)) return false;
    for (int i = 0; i < q->n_in; i++)
        if (q->in[i] && (!same_type(node->operands[i].value, q->in[i]) || !broadcasts(q->in[i], &q->out[0])))
            return false;
    for (int i = 0; i < q->n_out; i++)
        if (!is_like(&q->out[i], &q->out[0]) || !same_type(node->results[i], &q->out[i])) return false;
    return true;
}

static bool fuses(const Node *inner) { return body_takes(inner); }

/* A block is read before it is written, but only while there is one result. */
static uint32_t in_place(const Node *node) { return node->n_results == 1 ? UINT32_MAX : 0; }

static void order(const KernelQuery *q, int k, Tensor *out) {
    (void)k;
    for (int i = 0; i < q->n_in; i++)
        if (q->in[i] && is_like(q->in[i], out) && tensor_count(out) > 1 && order_like(q->in[i], out)) return;
}

/* ---- preparing --------------------------------------------------------------------------------------------------- */

typedef struct Elementwise {
    Arena arena;
    Body *body;
} Elementwise;

static void discard(Prepared *prepared, const Allocator *allocator) {
    Elementwise *e = prepared->data;
    arena_free(&e->arena);
    mem_free(allocator, e, sizeof *e);
}

static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    Elementwise *e = mem_alloc(&context->allocator, sizeof *e, alignof(Elementwise));
    if (!e) return TN_OUT_OF_MEMORY;
    arena_init(&e->arena, &context->allocator);
    tn_status status = body_compile(q->node, NULL, &e->arena, &e->body);
    *out = (Prepared){.data = e, .size = sizeof *e, .release = discard};
    if (status != TN_OK) {
        discard(out, &context->allocator);
        *out = (Prepared){0};
    }
    return status;
}

static double cost(const KernelQuery *q) {
    double each = 0.2;
    for (int i = 0; i < q->n_in; i++) each += q->in[i] ? 0.05 : 0;
    return each * (double)tensor_count(&q->out[0]);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct Run {
    BodyMap map; /* over merged dimensions */
    int n_out;
    char *out[OP_MAX_OUTPUTS];
    int64_t out_size[OP_MAX_OUTPUTS], out_strides[OP_MAX_OUTPUTS][BODY_MOST_RANK];
    int64_t rows, cols;           /* of the last two dimensions */
    int64_t item_rows, item_cols; /* that are done at once */
    int64_t down, across;         /* how many such there are in rows and columns */
} Run;

/* Whether dimension k continues the one put last, for every operand and result. */
static bool continues(const Run *run, const int64_t (*strides)[TN_MAX_RANK], const KernelCtx *c, int axis) {
    const BodyMap *map = &run->map;
    int last = map->rank - 1;
    int64_t size = c->out[0].dims[axis];
    for (int i = 0; i < map->n_in; i++)
        if (map->strides[i][last] != strides[i][axis] * size) return false;
    for (int i = 0; i < run->n_out; i++)
        if (run->out_strides[i][last] != c->out[i].strides[axis] * size) return false;
    return true;
}

static void add_dim(Run *run, const int64_t (*strides)[TN_MAX_RANK], const KernelCtx *c, int axis) {
    BodyMap *map = &run->map;
    bool merges = map->rank > 0 && continues(run, strides, c, axis);
    if (!merges) map->dims[map->rank++] = 1;
    int last = map->rank - 1;
    map->dims[last] *= c->out[0].dims[axis];
    for (int i = 0; i < map->n_in; i++) map->strides[i][last] = strides[i][axis];
    for (int i = 0; i < run->n_out; i++) run->out_strides[i][last] = c->out[i].strides[axis];
}

/* One more dimension of size 1 behind, which is columns where those of a result are no neighbours. */
static void add_behind(Run *run) {
    BodyMap *map = &run->map;
    map->dims[map->rank] = 1;
    for (int i = 0; i < map->n_in; i++) map->strides[i][map->rank] = 0;
    for (int i = 0; i < run->n_out; i++) run->out_strides[i][map->rank] = 1;
    map->rank++;
}

/* The same in front. */
static void add_front(Run *run) {
    BodyMap *map = &run->map;
    for (int k = map->rank; k > 0; k--) {
        map->dims[k] = map->dims[k - 1];
        for (int i = 0; i < map->n_in; i++) map->strides[i][k] = map->strides[i][k - 1];
        for (int i = 0; i < run->n_out; i++) run->out_strides[i][k] = run->out_strides[i][k - 1];
    }
    map->dims[0] = 1;
    for (int i = 0; i < map->n_in; i++) map->strides[i][0] = 0;
    for (int i = 0; i < run->n_out; i++) run->out_strides[i][0] = 0;
    map->rank++;
}

static tn_status merge_dims(Run *run, const Body *body, KernelCtx *c) {
    const Tensor *out = &c->out[0];
    BodyMap *map = &run->map;
    int64_t strides[BODY_MOST_INPUTS][TN_MAX_RANK];
    int axes[TN_MAX_RANK];
    map->body = body;
    map->rank = 0;
    map->stream = false;
    map->n_in = body->n_inputs;
    run->n_out = c->n_out;
    for (int i = 0; i < body->n_inputs; i++) {
        const BodyInput *in = &body->inputs[i];
        Tensor own;
        const Tensor *t = body_input_tensor(in, c->in, &own);
        map->data[i] = (const float *)((const char *)t->data + t->offset * dtype_size(t->dtype));
        memset(strides[i], 0, sizeof strides[i]);
        TRY(body_input_strides(in, t, out->rank, out->dims, strides[i]));
    }
    for (int i = 0; i < c->n_out; i++) {
        run->out_size[i] = dtype_size(c->out[i].dtype);
        run->out[i] = (char *)c->out[i].data + c->out[i].offset * run->out_size[i];
    }
    axes_by_stride(out, axes);
    for (int k = 0; k < out->rank; k++)
        if (out->dims[axes[k]] != 1) add_dim(run, (const int64_t(*)[TN_MAX_RANK])strides, c, axes[k]);
    return TN_OK;
}

/* Whether a result is larger than the caches, so that nobody finds it there anyway. */
static bool streams(const Run *run) {
    int64_t bytes = sizeof(float);
    for (int k = 0; k < run->map.rank; k++) bytes *= run->map.dims[k];
    return bytes > cpu_caches()->l3 && run->cols >= 256;
}

static void set_items(Run *run, int threads) {
    BodyMap *map = &run->map;
    bool neighbours = true;
    for (int i = 0; i < run->n_out && map->rank > 0; i++) neighbours &= run->out_strides[i][map->rank - 1] == 1;
    if (!neighbours) add_behind(run);
    while (map->rank < 2) add_front(run);
    map->row_axis = map->rank - 2, map->n_row_axes = 1, map->col_axis = map->rank - 1;
    map->rows_walk = true;
    run->rows = map->dims[map->row_axis], run->cols = map->dims[map->col_axis];
    bool crosses = false;
    for (int i = 0; i < map->n_in; i++) {
        map->row[i] = map->strides[i][map->row_axis];
        map->col[i] = map->strides[i][map->col_axis];
        crosses |= map->col[i] > EDGE && map->row[i] > 0 && map->row[i] < map->col[i];
    }
    body_map_finish(map);
    map->stream = streams(run);
    int64_t item = MOST_ITEM;
    if (threads > 1) item = max_i64(ITEM, min_i64(item, run->rows * run->cols / (ITEMS_EACH * threads)));
    run->item_cols = min_i64(run->cols, crosses ? EDGE : item);
    run->item_rows = min_i64(run->rows, crosses ? EDGE : max_i64(1, item / run->item_cols));
    run->down = (run->rows + run->item_rows - 1) / run->item_rows;
    run->across = (run->cols + run->item_cols - 1) / run->item_cols;
}

static void run_items(void *arg, int64_t begin, int64_t end) {
    const Run *run = arg;
    const BodyMap *map = &run->map;
    for (int64_t item = begin; item < end; item++) {
        int64_t at[BODY_MOST_RANK], out_ld[OP_MAX_OUTPUTS];
        void *out[OP_MAX_OUTPUTS];
        int64_t row = item / run->across % run->down * run->item_rows, col = item % run->across * run->item_cols;
        int64_t left = item / run->across / run->down;
        at[map->col_axis] = col;
        at[map->row_axis] = row;
        for (int k = map->row_axis; k-- > 0;) {
            at[k] = left % map->dims[k];
            left /= map->dims[k];
        }
        for (int i = 0; i < run->n_out; i++) {
            int64_t offset = 0;
            for (int k = 0; k < map->rank; k++) offset += at[k] * run->out_strides[i][k];
            out[i] = run->out[i] + offset * run->out_size[i];
            out_ld[i] = run->out_strides[i][map->row_axis];
        }
        body_run_tiles(map, at, NULL, 0, out, out_ld, min_i64(run->item_rows, run->rows - row),
                       min_i64(run->item_cols, run->cols - col));
    }
    if (map->stream) ISA_PICK(body_table)->fence();
}

/* Sharing less, even with threads that are awake, takes longer than it saves: data move from one core's caches to another's. */
static const double LEAST_SHARED_NS = 20e3;

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const Elementwise *e = prepared->data;
    if (tensor_count(&c->out[0]) == 0) return TN_OK;
    Run run; /* large, and of a small node little of it is used */
    TRY(merge_dims(&run, e->body, c));
    set_items(&run, pool_threads(c->pool));
    int64_t items = run.down * run.across;
    for (int k = 0; k < run.map.row_axis; k++) items *= run.map.dims[k];
    double each = (double)run.item_rows * (double)run.item_cols * (body_cost(e->body) + 0.05 * run.map.n_in);
    if ((double)items * each < LEAST_SHARED_NS) each = 0;
    return kernel_parallel(c, items, each, run_items, &run);
}

const KernelDesc kernel_cpu_elementwise = {
    .name = "cpu_elementwise",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 90,
    .runs = runs,
    .match = matches,
    .fuses = fuses,
    .order = order,
    .strided = strided_all,
    .in_place = in_place,
    .cost = cost,
    .prepare = prepare,
    .keeps = prepared_of_node,
    .gaps = true,
    .launch = launch,
};
