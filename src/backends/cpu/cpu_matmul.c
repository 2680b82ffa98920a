/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul, Gemm and FusedMatMul of float32: sizes and strides of what gemm_run multiplies, and constants packed once. */
#include "backends/cpu/gemm_int.h"
#include "kernel/kernel.h"
#include "ops/op.h"

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

enum { OF_A, OF_B, OF_C, N_OPERANDS };

/* Products of one size, stacked along `n` dimensions. */
typedef struct Product {
    int64_t m, n, k;
    int64_t row[N_OPERANDS], col[N_OPERANDS];
    int depth;
    int64_t dims[TN_MAX_RANK], step[N_OPERANDS][TN_MAX_RANK];
} Product;

static Product product_of(const Node *node, const Tensor *ta, const Tensor *tb, const Tensor *y) {
    Stack a = stack_of(node, false, ta), b = stack_of(node, true, tb);
    Product p = {.m = a.dims[a.rank - 2], .k = a.dims[a.rank - 1], .n = b.dims[b.rank - 1]};
    p.row[OF_A] = a.strides[a.rank - 2], p.col[OF_A] = a.strides[a.rank - 1];
    p.row[OF_B] = b.strides[b.rank - 2], p.col[OF_B] = b.strides[b.rank - 1];
    int end = y->rank;
    p.col[OF_C] = tb->rank > 1 ? y->strides[--end] : 1;
    p.row[OF_C] = ta->rank > 1 ? y->strides[--end] : 0;
    p.depth = end;
    for (int d = 0; d < end; d++) {
        p.dims[d] = y->dims[d];
        p.step[OF_A][d] = stack_step(&a, d, end);
        p.step[OF_B][d] = stack_step(&b, d, end);
        p.step[OF_C][d] = y->strides[d];
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

/* ---- constants ----------------------------------------------------------------------------------------------- */

/* A constant on the right, packed: one matrix after the other. */
typedef struct PackedRight {
    const Packed *packed;
    int nr; /* of the instruction set that it is for */
} PackedRight;

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
                    b->strides[b->rank - 1], b->dims[b->rank - 2], b->dims[b->rank - 1]);
    }
    return TN_OK;
}

static void release(Prepared *prepared, const Allocator *allocator) {
    PackedRight *right = prepared->data;
    if (!right) return;
    packed_put(right->packed);
    mem_free(allocator, right, sizeof *right);
}

static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    const Tensor *t = q->in[1];
    *out = (Prepared){0};
    if (!t->data || tensor_count(t) == 0) return TN_OK;
    Packing packing = {stack_of(q->node, true, t), tensor_bytes(t)};
    const Stack *b = &packing.b;
    int64_t n = n_matrices(b);
    if (n > 1 && (!tensor_is_dense(t) || asks(q->node, "transBatchB"))) return TN_OK; /* more than a key tells */
    int64_t k = b->dims[b->rank - 2], cols = b->dims[b->rank - 1];
    if (cols == 1) return TN_OK; /* one column is read as it is */
    PackKey key = {packing.bytes,
                   "gemm_b",
                   {k, cols, b->strides[b->rank - 2], b->strides[b->rank - 1], gemm_nr(), n},
                   tensor_is_dense(t) ? (size_t)tensor_count(t) * sizeof(float) : 0};
    PackedRight *right = mem_alloc(&context->allocator, sizeof *right, alignof(PackedRight));
    if (!right) return TN_OUT_OF_MEMORY;
    *out = (Prepared){right, sizeof *right, release, .replaces = 1u << 1};
    right->nr = gemm_nr();
    tn_status status = packed_get(context, &key, (size_t)(n * packed_step(b)) * sizeof(float), pack_matrices, &packing,
                                  &right->packed);
    if (status != TN_OK) release(out, &context->allocator), *out = (Prepared){0};
    return status;
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
static tn_status take_summand(KernelCtx *c, const Tensor *t, float beta, GemmArgs *g) {
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

/* ---- the kernel ---------------------------------------------------------------------------------------------- */

static bool is_f32(const Tensor *t) { return t && t->kind == TYPE_TENSOR && t->dtype == TN_F32; }

static bool matches(const KernelQuery *q) {
    const Tensor *y = q->n_out == 1 ? &q->out[0] : NULL;
    if (q->n_in < 2 || !is_f32(q->in[0]) || !is_f32(q->in[1]) || !is_f32(y)) return false;
    if (q->n_in > 2 && q->in[2] && !is_f32(q->in[2])) return false;
    return q->in[1]->rank < 2 || y->rank == 0 || y->dims[y->rank - 1] <= 1 || y->strides[y->rank - 1] == 1;
}

static uint32_t strided(const Node *node) {
    (void)node;
    return UINT32_MAX;
}

static const float *first_of(const Tensor *t, const Tensor *empty) {
    const Tensor *from = tensor_count(t) ? t : empty; /* of nothing there may be no memory */
    return (const float *)tensor_bytes(from);
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const Node *node = c->node;
    const Tensor *ta = c->in[0], *tb = c->in[1], *y = &c->out[0];
    const PackedRight *right = prepared ? prepared->data : NULL;
    if (tensor_count(y) == 0) return TN_OK;
    Product p = product_of(node, ta, tb, y);
    int n_stacked = p.depth;
    join_rows(&p);
    GemmArgs g = {.m = p.m, .n = p.n, .k = p.k, .tail = GEMM_PLAIN, .pool = c->pool, .scratch = c->scratch};
    g.batch = n_products(&p);
    g.a = first_of(ta, y), g.a_row = p.row[OF_A], g.a_col = p.col[OF_A];
    g.b = first_of(tb, y), g.b_row = p.row[OF_B], g.b_col = p.col[OF_B];
    g.c = tensor_bytes(y), g.c_row = p.row[OF_C];
    if (right && right->nr == gemm_nr()) {
        Stack b = stack_of(node, true, tb);
        g.packed = right->packed->data;
        use_packed(&b, n_stacked, &p);
    }
    TRY(find_places(&p, p.step[OF_A], c->scratch, &g.a_at));
    TRY(find_places(&p, p.step[OF_B], c->scratch, &g.b_at));
    TRY(find_places(&p, p.step[OF_C], c->scratch, &g.c_at));
    if (op_attr_spec(node->op, STR("alpha"))) g.tail.alpha = (float)attr_float(node, "alpha");
    float beta = op_attr_spec(node->op, STR("beta")) ? (float)attr_float(node, "beta") : 0;
    if (kernel_has_input(c, 2) && beta != 0) TRY(take_summand(c, c->in[2], beta, &g));
    return gemm_run(&g);
}

const KernelDesc kernel_cpu_matmul = {
    .name = "cpu_matmul",
    .op = "MatMul Gemm com.microsoft.FusedMatMul",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .strided = strided,
    .pack_format = "gemm_b",
    .prepare = prepare,
    .launch = launch,
};
