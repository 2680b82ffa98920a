/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul, Gemm and FusedMatMul of float32, alone or with element-wise nodes behind them: sizes and strides of what gemm_run
   multiplies, constants packed once, and what is done with the product while it is near. */
#include "backends/cpu/body_int.h"
#include "backends/cpu/gemm_int.h"

/* ---- operands ------------------------------------------------------------------------------------------------ */

/* Matrices, or stacks of them, which broadcast: the last two dimensions are rows and columns. */
typedef struct Stack {
    int rank;
    int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK];
} Stack;

static bool asks(const Node *node, const char *name) {
    return op_attr_spec(node->op, str_of(name)) && attr_int(node, name) != 0;
}

/* Dimension d of the result is dimension order[d] of `t`. FusedMatMul may move the first dimension in front of the last one,
   and both ops may swap the last two after that. */
static void find_order(const Node *node, bool right, int rank, int *order) {
    for (int d = 0; d < rank; d++) order[d] = d;
    if (rank < 2) return;
    if (asks(node, right ? "transBatchB" : "transBatchA")) {
        for (int d = 0; d + 2 < rank; d++) order[d] = d + 1;
        order[rank - 2] = 0;
    }
    if (asks(node, right ? "transB" : "transA")) {
        int swap = order[rank - 1];
        order[rank - 1] = order[rank - 2], order[rank - 2] = swap;
    }
}

/* A vector is one row on the left and one column on the right. */
static Stack stack_of(const Node *node, bool right, const Tensor *t) {
    Stack s = {.rank = t->rank};
    int order[TN_MAX_RANK];
    find_order(node, right, t->rank, order);
    for (int d = 0; d < t->rank; d++) s.dims[d] = t->dims[order[d]], s.strides[d] = t->strides[order[d]];
    if (t->rank > 1) return s;
    return right ? (Stack){2, {s.dims[0], 1}, {s.strides[0], 0}} : (Stack){2, {1, s.dims[0]}, {0, s.strides[0]}};
}

/* How far it is to the next matrix along dimension d of `n` that are stacked in all; 0 where it broadcasts. */
static int64_t stack_step(const Stack *s, int d, int n) {
    int own = d - n + s->rank - 2;
    return own >= 0 && s->dims[own] != 1 ? s->strides[own] : 0;
}

/* ---- products ------------------------------------------------------------------------------------------------ */

enum { OF_A, OF_B, OF_C, OF_R, N_OPERANDS }; /* the result, and what is added to it element by element */

/* Products of one size, stacked along `n` dimensions. */
typedef struct Product {
    int64_t m, n, k;
    int64_t row[N_OPERANDS], col[N_OPERANDS];
    int depth;
    int64_t dims[TN_MAX_RANK], step[N_OPERANDS][TN_MAX_RANK];
} Product;

static Product product_of(const Node *node, const Tensor *ta, const Tensor *tb, const Tensor *y, const Tensor *r) {
    Stack a = stack_of(node, false, ta), b = stack_of(node, true, tb);
    Product p = {.m = a.dims[a.rank - 2], .k = a.dims[a.rank - 1], .n = b.dims[b.rank - 1]};
    p.row[OF_A] = a.strides[a.rank - 2], p.col[OF_A] = a.strides[a.rank - 1];
    p.row[OF_B] = b.strides[b.rank - 2], p.col[OF_B] = b.strides[b.rank - 1];
    int end = y->rank;
    if (tb->rank > 1) p.col[OF_C] = y->strides[--end], p.col[OF_R] = r->strides[end];
    if (ta->rank > 1) p.row[OF_C] = y->strides[--end], p.row[OF_R] = r->strides[end];
    p.depth = end;
    for (int d = 0; d < end; d++) {
        p.dims[d] = y->dims[d];
        p.step[OF_A][d] = stack_step(&a, d, end);
        p.step[OF_B][d] = stack_step(&b, d, end);
        p.step[OF_C][d] = y->strides[d];
        p.step[OF_R][d] = r->strides[d];
    }
    return p;
}

/* Stacks whose right matrix is one and the same are one tall product, as far as their rows follow each other. */
static void join_rows(Product *p) {
    while (p->depth > 0) {
        int d = p->depth - 1;
        if (p->dims[d] != 1) {
            bool follows = p->step[OF_B][d] == 0;
            for (int k = 0; k < N_OPERANDS; k++) follows &= k == OF_B || p->m == 1 || p->step[k][d] == p->m * p->row[k];
            if (!follows) return;
            for (int k = 0; p->m == 1 && k < N_OPERANDS; k++)
                if (k != OF_B) p->row[k] = p->step[k][d];
            p->m *= p->dims[d];
        }
        p->depth--;
    }
}

static int64_t n_products(const Product *p) {
    int64_t n = 1;
    for (int d = 0; d < p->depth; d++) n *= p->dims[d];
    return n;
}

/* Where the matrices of an operand are; NULL where there is one only. */
static tn_status find_places(const Product *p, const int64_t *step, Arena *scratch, const int64_t **out) {
    int64_t n = n_products(p), index[TN_MAX_RANK] = {0}, offset = 0;
    bool moves = false;
    *out = NULL;
    for (int d = 0; d < p->depth; d++) moves |= p->dims[d] > 1 && step[d] != 0;
    if (!moves) return TN_OK;
    int64_t *at = arena_array(scratch, int64_t, (size_t)n);
    if (!at) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        at[i] = offset;
        for (int d = p->depth - 1; d >= 0; d--) {
            offset += step[d];
            if (++index[d] < p->dims[d]) break;
            offset -= index[d] * step[d];
            index[d] = 0;
        }
    }
    *out = at;
    return TN_OK;
}

/* ---- ways ---------------------------------------------------------------------------------------------------- */

/* Where the right operand is read: packed once as a constant, or as GemmWhere has it. */
enum { WAY_PACKED = 1, WAY_DIRECT, WAY_EACH, WAY_FIRST };
static const KernelWay ways[] = {
    {"packed", "gemm_b"}, {"direct", NULL}, {"packed-by-block", NULL}, {"packed-first", NULL}, {NULL, NULL}};

static GemmWhere where_of(int way) {
    return way == WAY_DIRECT ? GEMM_DIRECT : way == WAY_EACH ? GEMM_EACH : way == WAY_FIRST ? GEMM_PACKED : GEMM_USUAL;
}

static int way_of(GemmWhere where) {
    return where == GEMM_DIRECT ? WAY_DIRECT : where == GEMM_EACH ? WAY_EACH : WAY_FIRST;
}

/* ---- constants ----------------------------------------------------------------------------------------------- */

/* What is made of a node. */
typedef struct Made {
    Heavy heavy;
    const Packed *packed; /* a constant on the right: one matrix after the other; NULL: there is none */
    int nr;               /* of the instruction set that it is for */
    Body *body;           /* NULL: none */
    bool is_short;
    BodyShort tail;
    Arena arena;
} Made;

static const Tensor *operand(const Heavy *h, const Tensor *const *in, int n_in, int k) {
    if (k >= (int)h->node->n_operands) return NULL;
    if (h->in[k] < 0) return h->constant[k];
    return h->in[k] < n_in ? in[h->in[k]] : NULL;
}

/* Floats from one matrix to the next, and how many matrices the stack has. */
static int64_t packed_step(const Stack *b) {
    return (int64_t)(gemm_packed_size(b->dims[b->rank - 2], b->dims[b->rank - 1]) / sizeof(float));
}
static int64_t n_matrices(const Stack *b) {
    int64_t n = 1;
    for (int d = 0; d + 2 < b->rank; d++) n *= b->dims[d];
    return n;
}

typedef struct Packing {
    Stack b;
    const char *bytes;
    Pool *pool;
} Packing;

static tn_status pack_matrices(void *arg, void *dst) {
    const Packing *p = arg;
    const Stack *b = &p->b;
    int64_t n = n_matrices(b), step = packed_step(b);
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0, left = i;
        for (int d = b->rank - 3; d >= 0; d--) {
            offset += left % b->dims[d] * b->strides[d];
            left /= b->dims[d];
        }
        gemm_pack_b((float *)dst + i * step, p->bytes + offset * (int64_t)sizeof(float), b->strides[b->rank - 2],
                    b->strides[b->rank - 1], b->dims[b->rank - 2], b->dims[b->rank - 1], p->pool);
    }
    return TN_OK;
}

static bool may_pack(const Heavy *h, const Tensor *t) {
    if (h->in[1] < 0 || !t->data || tensor_count(t) == 0) return false;
    Stack b = stack_of(h->node, true, t);
    if (b.dims[b.rank - 1] == 1) return false; /* one column is read as it is */
    return n_matrices(&b) == 1 ||
           (tensor_is_dense(t) && !asks(h->node, "transBatchB")); /* else more than a key tells */
}

static tn_status pack_right(const KernelQuery *q, Context *context, Made *made) {
    const Tensor *t = operand(&made->heavy, q->in, q->n_in, 1);
    if (q->way > WAY_PACKED || !may_pack(&made->heavy, t)) return TN_OK;
    Packing packing = {stack_of(made->heavy.node, true, t), tensor_bytes(t), context->pool};
    const Stack *b = &packing.b;
    int64_t n = n_matrices(b), k = b->dims[b->rank - 2], cols = b->dims[b->rank - 1];
    made->nr = gemm_nr();
    bool whole = tensor_is_dense(t) || (t->rank == 2 && t->strides[0] == 1 && t->strides[1] == t->dims[0]);
    PackKey key = {packing.bytes,
                   "gemm_b",
                   {k, cols, b->strides[b->rank - 2], b->strides[b->rank - 1], made->nr, n},
                   whole ? (size_t)tensor_count(t) * sizeof(float) : 0};
    return packed_get(context, &key, (size_t)(n * packed_step(b)) * sizeof(float), pack_matrices, &packing,
                      &made->packed);
}

/* Whether the operand that was packed is read by nobody else in the node. */
static bool replaces_right(const Node *node, const Heavy *h) {
    if (h->in[1] < 0 || h->in[1] >= 32) return false;
    return !h->fused || value_has_one_use(attr_graph(node, "body")->inputs.data[h->in[1]]);
}

/* Steps over packed matrices in place of those over B. */
static void use_packed(const Stack *b, int n_stacked, Product *p) {
    int64_t step = packed_step(b);
    for (int d = n_stacked - 1; d >= 0; d--) {
        int own = d - n_stacked + b->rank - 2;
        if (d < p->depth) p->step[OF_B][d] = own >= 0 && b->dims[own] != 1 ? step : 0;
        if (own >= 0) step *= b->dims[own];
    }
}

/* ---- Gemm's C ------------------------------------------------------------------------------------------------ */

/* The sizes and strides of a summand that broadcasts to m by n. */
static void summand_strides(const Tensor *t, int64_t *row, int64_t *col) {
    *col = t->rank > 0 && t->dims[t->rank - 1] != 1 ? t->strides[t->rank - 1] : 0;
    *row = t->rank > 1 && t->dims[t->rank - 2] != 1 ? t->strides[t->rank - 2] : 0;
}

/* beta * C: a row for all rows of the product, or else dense, unless it can be read as it is. */
static tn_status take_summand(const KernelCtx *c, const Tensor *t, float beta, GemmArgs *g) {
    int64_t row, col;
    const char *s = tensor_bytes(t);
    summand_strides(t, &row, &col);
    if (row != 0 && col == 1 && beta == 1 && !tensor_is_misaligned(t)) {
        g->tail.residual = (const float *)(const void *)s;
        g->tail.residual_row = row;
        return TN_OK;
    }
    int64_t rows = row ? g->m : 1, n;
    if (mul_overflows(rows, g->n, &n)) return fail_memory(SIZE_MAX);
    float *scaled = arena_array(c->scratch, float, (size_t)n);
    if (!scaled) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            float v;
            memcpy(&v, s + (i * row + j * col) * (int64_t)sizeof v, sizeof v);
            scaled[i * g->n + j] = beta * v;
        }
    }
    if (row) g->tail.residual = scaled, g->tail.residual_row = g->n;
    else g->tail.bias = scaled;
    return TN_OK;
}

/* ---- what comes behind --------------------------------------------------------------------------------------- */

/* For blocks of the result: which of its dimensions the products are stacked along, and which ones are rows. */
typedef struct Behind {
    BodyMap map;
    int depth;
    int64_t last_rows; /* of the last dimension of rows */
} Behind;

/* Element `index` of the box of dimensions from .. to - 1. */
static void decode(const BodyMap *map, int from, int to, int64_t index, int64_t *at) {
    for (int d = to - 1; d >= from; d--) {
        at[d] = index % map->dims[d];
        index /= map->dims[d];
    }
}

static void run_behind(void *arg, int64_t product, int64_t row, int64_t col, float *c, int64_t c_row, int64_t rows,
                       int64_t cols) {
    const Behind *b = arg;
    int64_t at[TN_MAX_RANK];
    int col_axis = b->map.rank - 1;
    decode(&b->map, 0, b->depth, product, at);
    at[col_axis] = col;
    while (rows > 0) {
        int64_t n = b->map.rows_walk ? rows : min_i64(rows, b->last_rows - row % b->last_rows);
        decode(&b->map, b->depth, col_axis, row, at);
        body_run_tile(&b->map, at, c, c_row, c, c_row, n, cols);
        row += n;
        rows -= n;
        c += n * c_row;
    }
}

/* The bias of a short body, added to what Gemm adds to all rows. */
static tn_status take_bias(const KernelCtx *c, const Tensor *t, GemmArgs *g) {
    int64_t step = t->rank > 0 && t->dims[t->rank - 1] != 1 ? t->strides[t->rank - 1] : 0;
    float *bias = arena_array(c->scratch, float, (size_t)g->n);
    if (!bias) return TN_OUT_OF_MEMORY;
    for (int64_t j = 0; j < g->n; j++) {
        memcpy(&bias[j], (const char *)tensor_bytes(t) + j * step * (int64_t)sizeof(float), sizeof(float));
        if (g->tail.bias) bias[j] += g->tail.bias[j];
    }
    g->tail.bias = bias;
    return TN_OK;
}

/* Whether the short body can be done with the product in registers. */
static bool is_in_registers(const Made *made, const KernelCtx *c, const GemmArgs *g) {
    if (!made->is_short) return false;
    if (made->tail.residual < 0) return true;
    const Tensor *r = c->in[made->tail.residual], *y = &c->out[0];
    return !g->tail.residual && (y->dims[y->rank - 1] == 1 || r->strides[r->rank - 1] == 1);
}

static tn_status add_body(const Made *made, const KernelCtx *c, const Product *p, GemmArgs *g) {
    const Tensor *y = &c->out[0];
    if (is_in_registers(made, c, g)) {
        g->tail.lo = made->tail.lo, g->tail.hi = made->tail.hi;
        if (made->tail.bias >= 0) TRY(take_bias(c, c->in[made->tail.bias], g));
        if (made->tail.residual < 0) return TN_OK;
        g->tail.residual = tensor_bytes(c->in[made->tail.residual]);
        g->tail.residual_row = p->row[OF_R];
        return find_places(p, p->step[OF_R], c->scratch, &g->residual_at);
    }
    Behind *behind = arena_new(c->scratch, Behind);
    if (!behind) return TN_OUT_OF_MEMORY;
    behind->depth = p->depth;
    behind->last_rows = y->dims[y->rank - 2];
    g->finish = run_behind;
    g->arg = behind;
    return body_map(made->body, c, p->depth, y->rank - 1 - p->depth, y->rank - 1, &behind->map);
}

/* ---- the kernel ---------------------------------------------------------------------------------------------- */

static bool is_product(const Node *node) {
    if (node_is_onnx(node, "MatMul") || node_is_onnx(node, "Gemm")) return true;
    return node->op->domain && strcmp(node->op->domain, "com.microsoft") == 0 &&
           strcmp(node->op->name, "FusedMatMul") == 0;
}

/* Of vectors the result has no rows or no columns, along which a body could go. */
static bool fuses(const Node *inner) {
    if (!is_product(inner)) return body_takes(inner);
    for (uint32_t i = 0; i < inner->n_operands; i++) {
        const Value *v = node_operand(inner, i);
        if (v && (v->type->kind != TYPE_TENSOR || v->type->dtype != TN_F32)) return false;
    }
    return value_rank(node_operand(inner, 0)) > 1 && value_rank(node_operand(inner, 1)) > 1;
}

static bool is_f32(const Tensor *t) { return t && t->kind == TYPE_TENSOR && t->dtype == TN_F32; }

/* Whether the product has the sizes of y, which a body may have made more of. */
static bool fills(const Node *node, const Tensor *ta, const Tensor *tb, const Tensor *y) {
    if (ta->rank < 2 || tb->rank < 2 || y->rank != (int)max_i64(ta->rank, tb->rank)) return false;
    Stack a = stack_of(node, false, ta), b = stack_of(node, true, tb);
    for (int d = 0; d + 2 < y->rank; d++) {
        int of_a = d - y->rank + a.rank, of_b = d - y->rank + b.rank;
        int64_t n = of_a >= 0 ? a.dims[of_a] : 1;
        if (n == 1 && of_b >= 0) n = b.dims[of_b];
        if (n != y->dims[d]) return false;
    }
    return a.dims[a.rank - 2] == y->dims[y->rank - 2] && b.dims[b.rank - 1] == y->dims[y->rank - 1];
}

static bool matches(const KernelQuery *q) {
    Heavy h;
    const Tensor *y = q->n_out == 1 ? &q->out[0] : NULL;
    if (!is_f32(y) || !heavy_open(q->node, is_product, &h)) return false;
    const Tensor *a = operand(&h, q->in, q->n_in, 0), *b = operand(&h, q->in, q->n_in, 1);
    const Tensor *c = operand(&h, q->in, q->n_in, 2);
    if (!is_f32(a) || !is_f32(b) || (c && !is_f32(c))) return false;
    if (h.fused && !fills(h.node, a, b, y)) return false;
    return b->rank < 2 || y->dims[y->rank - 1] <= 1 || y->strides[y->rank - 1] == 1;
}

static uint32_t offers(const KernelQuery *q, int *usual) {
    static const int64_t some = 0;
    Heavy h;
    heavy_open(q->node, is_product, &h);
    const Tensor *a = operand(&h, q->in, q->n_in, 0), *b = operand(&h, q->in, q->n_in, 1), *y = &q->out[0];
    Product p = product_of(h.node, a, b, y, y);
    join_rows(&p);
    GemmArgs g = {.m = p.m, .n = p.n, .k = p.k, .batch = n_products(&p), .tail = GEMM_PLAIN};
    g.a_row = p.row[OF_A], g.a_col = p.col[OF_A], g.b_row = p.row[OF_B], g.b_col = p.col[OF_B];
    for (int d = 0; d < p.depth; d++)
        if (p.dims[d] > 1 && p.step[OF_B][d] != 0) g.b_at = &some;
    bool vector = gemm_is_vector(&g), direct = vector || gemm_may_be_direct(&g);
    if (p.k == 0) return 0;
    *usual = may_pack(&h, b) ? WAY_PACKED : way_of(gemm_usual(&g));
    if (*usual == WAY_PACKED) return 1u << (WAY_PACKED - 1) | (uint32_t)direct << (WAY_DIRECT - 1);
    if (vector) return 0;
    return (uint32_t)direct << (WAY_DIRECT - 1) | 1u << (WAY_EACH - 1) | (uint32_t)!g.b_at << (WAY_FIRST - 1);
}

static void release(Prepared *prepared, const Allocator *allocator) {
    Made *made = prepared->data;
    packed_put(made->packed);
    arena_free(&made->arena);
    mem_free(allocator, made, sizeof *made);
}

static tn_status make(const KernelQuery *q, Context *context, Made *made) {
    if (!heavy_open(q->node, is_product, &made->heavy)) return fail(TN_INTERNAL, "the node is no product of matrices");
    TRY(pack_right(q, context, made));
    if (!made->heavy.fused) return TN_OK;
    TRY(body_compile(q->node, made->heavy.node, &made->arena, &made->body));
    made->is_short = body_as_short(made->body, q, q->out[0].rank - 1, &made->tail);
    return TN_OK;
}

static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    *out = (Prepared){0};
    Made *made = mem_alloc(&context->allocator, sizeof *made, alignof(Made));
    if (!made) return TN_OUT_OF_MEMORY;
    arena_init(&made->arena, &context->allocator);
    Prepared prepared = {made, sizeof *made, release};
    tn_status status = make(q, context, made);
    if (made->packed && replaces_right(q->node, &made->heavy)) prepared.replaces = 1u << made->heavy.in[1];
    if (status == TN_OK) *out = prepared;
    else release(&prepared, &context->allocator);
    return status;
}

/* What is packed, and the program of a body, follow from constants; whether the body is a short one from sizes. */
static bool keeps(const KernelQuery *q, const Prepared *prepared) {
    const Made *made = prepared->data;
    const Tensor *right = operand(&made->heavy, q->in, q->n_in, 1);
    BodyShort tail;
    if (!made->packed != !right->data) return false;
    if (!made->body) return true;
    bool is_short = body_as_short(made->body, q, q->out[0].rank - 1, &tail);
    return is_short == made->is_short &&
           (!is_short || (tail.bias == made->tail.bias && tail.residual == made->tail.residual));
}

static const float *first_of(const Tensor *t, const Tensor *empty) {
    const Tensor *from = tensor_count(t) ? t : empty; /* of nothing there may be no memory */
    return (const float *)tensor_bytes(from);
}

/* alpha, beta and Gemm's C. */
static tn_status add_attributes(const KernelCtx *c, const Heavy *h, GemmArgs *g) {
    const OpSchema *op = h->node->op;
    const Tensor *summand = operand(h, c->in, c->n_in, 2);
    if (op_attr_spec(op, STR("alpha"))) g->tail.alpha = (float)attr_float(h->node, "alpha");
    float beta = op_attr_spec(op, STR("beta")) ? (float)attr_float(h->node, "beta") : 0;
    return summand && beta != 0 ? take_summand(c, summand, beta, g) : TN_OK;
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const Made *made = prepared->data;
    const Heavy *h = &made->heavy;
    const Tensor *ta = operand(h, c->in, c->n_in, 0), *tb = operand(h, c->in, c->n_in, 1), *y = &c->out[0];
    if (tensor_count(y) == 0) return TN_OK;
    bool adds = made->is_short && made->tail.residual >= 0;
    Product p = product_of(h->node, ta, tb, y, adds ? c->in[made->tail.residual] : y);
    int n_stacked = p.depth;
    join_rows(&p);
    GemmArgs g = {.m = p.m, .n = p.n, .k = p.k, .tail = GEMM_PLAIN, .pool = c->pool, .scratch = c->scratch};
    g.where = where_of(c->way);
    g.batch = n_products(&p);
    g.a = first_of(ta, y), g.a_row = p.row[OF_A], g.a_col = p.col[OF_A];
    g.b = first_of(tb, y), g.b_row = p.row[OF_B], g.b_col = p.col[OF_B];
    g.c = tensor_bytes(y), g.c_row = p.row[OF_C];
    if (made->packed) {
        if (made->nr != gemm_nr()) return fail(TN_INTERNAL, "the weights were packed for another instruction set");
        Stack b = stack_of(h->node, true, tb);
        g.packed = made->packed->data;
        use_packed(&b, n_stacked, &p);
    }
    TRY(find_places(&p, p.step[OF_A], c->scratch, &g.a_at));
    TRY(find_places(&p, p.step[OF_B], c->scratch, &g.b_at));
    TRY(find_places(&p, p.step[OF_C], c->scratch, &g.c_at));
    TRY(add_attributes(c, h, &g));
    if (made->body) TRY(add_body(made, c, &p, &g));
    return gemm_run(&g);
}

const KernelDesc kernel_cpu_matmul = {
    .name = "cpu_matmul",
    .op = "MatMul Gemm com.microsoft.FusedMatMul tn.Fused",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .fuses = fuses,
    .strided = strided_all,
    .ways = ways,
    .offers = offers,
    .pack_format = "gemm_b",
    .prepare = prepare,
    .keeps = keeps,
    .launch = launch,
};
