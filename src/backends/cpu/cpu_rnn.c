/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU and RNN of float32 with their usual activations: weights packed once, the input of all steps multiplied at once,
   then step by step a product with the state and the gates. Directions and blocks of sequences are apart from each other, so
   threads take those; a single one shares the columns of its products out. */
#include <strings.h>

#include "backends/cpu/gemm_int.h"
#include "backends/cpu/rnn_int.h"
#include "kernel/kernel.h"
#include "ops/op.h"

typedef enum CellKind { CELL_LSTM, CELL_GRU, CELL_RNN } CellKind;
enum { IN_X, IN_W, IN_R, IN_B, IN_LENS, IN_H, IN_C, IN_P };
enum { FEWEST = 4 /* sequences of a block */, MOST_OUT = 3 };

/* ---- what it takes -------------------------------------------------------------------------------------------------- */

static CellKind kind_of(const Node *node) {
    return strcmp(node->op->name, "GRU") == 0 ? CELL_GRU : strcmp(node->op->name, "RNN") == 0 ? CELL_RNN : CELL_LSTM;
}

static int gates_of(CellKind kind) { return kind == CELL_LSTM ? 4 : kind == CELL_GRU ? 3 : 1; }

static bool is_usual(const Node *node, CellKind kind) {
    static const char *const usual[3][3] = {
        [CELL_LSTM] = {"Sigmoid", "Tanh", "Tanh"}, [CELL_GRU] = {"Sigmoid", "Tanh"}, [CELL_RNN] = {"Tanh"}};
    const Attr *names = attr_get(node, "activations");
    size_t each = kind == CELL_LSTM ? 3 : kind == CELL_GRU ? 2 : 1;
    if (!names) return true;
    if (names->kind != ATTR_STRINGS) return false;
    for (size_t i = 0; i < names->n; i++) {
        const char *want = usual[kind][i % each];
        if (names->strings[i].n != strlen(want) || strncasecmp(names->strings[i].s, want, strlen(want)) != 0)
            return false;
    }
    return true;
}

static bool asks(const Node *node, const char *name) {
    return op_attr_spec(node->op, str_of(name)) && attr_int(node, name) != 0;
}

static bool matches(const KernelQuery *q) {
    if (!is_usual(q->node, kind_of(q->node)) || asks(q->node, "input_forget")) return false;
    if (attr_present(q->node, "clip") && attr_float(q->node, "clip") > 0) return false;
    if (q->n_in > IN_P && q->in[IN_P]) return false;
    for (int i = 0; i < q->n_in; i++)
        if (q->in[i] && i != IN_LENS && q->in[i]->dtype != TN_F32) return false;
    return q->in[IN_X] && q->in[IN_W] && q->in[IN_R];
}

/* ---- weights -------------------------------------------------------------------------------------------------------- */

/* Products with weights [rows, k], of which those of all directions are packed one behind the other. */
typedef struct Weights {
    const float *packed;
    int64_t k, rows, step; /* floats from one direction to the next */
    /* GRU's state is multiplied by the hidden gate's rows in a product of their own: so they are packed apart. */
    int64_t first_rows, second_at;
} Weights;

static Weights weights_of(const Tensor *t, bool two) {
    Weights w = {.k = t->dims[2], .rows = t->dims[1]};
    w.first_rows = two ? w.rows / 3 * 2 : w.rows;
    w.second_at = (int64_t)(gemm_packed_size(w.k, w.first_rows) / sizeof(float));
    w.step = w.second_at;
    if (two) w.step += (int64_t)(gemm_packed_size(w.k, w.rows - w.first_rows) / sizeof(float));
    return w;
}

typedef struct Packing {
    const Weights *w;
    const Tensor *t;
} Packing;

static tn_status pack_weights(void *arg, void *dst) {
    const Packing *p = arg;
    const Weights *w = p->w;
    const int64_t *s = p->t->strides;
    for (int64_t d = 0; d < p->t->dims[0]; d++) {
        const char *from = (const char *)tensor_bytes(p->t) + d * s[0] * (int64_t)sizeof(float);
        float *to = (float *)dst + d * w->step;
        gemm_pack_b(to, from, s[2], s[1], w->k, w->first_rows, NULL);
        if (w->first_rows < w->rows)
            gemm_pack_b(to + w->second_at, from + w->first_rows * s[1] * (int64_t)sizeof(float), s[2], s[1], w->k,
                        w->rows - w->first_rows, NULL);
    }
    return TN_OK;
}

static size_t packed_bytes(const Weights *w, const Tensor *t) { return (size_t)(w->step * t->dims[0]) * sizeof(float); }

/* What is made of a node: W and R packed, where they are constants. */
typedef struct Made {
    const Packed *packed[2];
} Made;

static void release(Prepared *prepared, const Allocator *allocator) {
    Made *made = prepared->data;
    for (int i = 0; i < 2; i++) packed_put(made->packed[i]);
    mem_free(allocator, made, sizeof *made);
}

static bool splits(const Node *node, int i) { return i == IN_R && kind_of(node) == CELL_GRU; }

static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    Made *made = mem_alloc(&context->allocator, sizeof *made, alignof(Made));
    if (!made) return TN_OUT_OF_MEMORY;
    *out = (Prepared){.data = made, .size = sizeof *made, .release = release};
    *made = (Made){{NULL, NULL}};
    tn_status status = TN_OK;
    for (int i = IN_W; i <= IN_R && status == TN_OK; i++) {
        const Tensor *t = q->in[i];
        if (!t->data || !tensor_is_dense(t) || tensor_count(t) == 0) continue;
        Weights w = weights_of(t, splits(q->node, i));
        Packing packing = {&w, t};
        PackKey key = {tensor_bytes(t),
                       "rnn",
                       {w.k, w.rows, t->dims[0], w.first_rows, gemm_nr()},
                       (size_t)tensor_count(t) * sizeof(float)};
        status = packed_get(context, &key, packed_bytes(&w, t), pack_weights, &packing, &made->packed[i - IN_W]);
        if (status == TN_OK) out->replaces |= 1u << i;
    }
    if (status == TN_OK) return TN_OK;
    release(out, &context->allocator);
    *out = (Prepared){0};
    return status;
}

static tn_status find_weights(KernelCtx *c, const Made *made, int i, Weights *w) {
    const Packed *packed = made ? made->packed[i - IN_W] : NULL;
    *w = weights_of(c->in[i], splits(c->node, i));
    if (packed) {
        w->packed = packed->data;
        return TN_OK;
    }
    float *own = arena_alloc(c->scratch, packed_bytes(w, c->in[i]) + 1, 64);
    if (!own) return TN_OUT_OF_MEMORY;
    w->packed = own;
    return pack_weights(&(Packing){w, c->in[i]}, own);
}

/* ---- a layer -------------------------------------------------------------------------------------------------------- */

typedef struct Layer {
    CellKind kind;
    int directions;
    bool backward, batch_first, linear;
    int64_t steps, batch, input, hidden, gates; /* gates: of all of them together */
    const int64_t *lens;                        /* of each sequence; NULL: all steps */
    Weights w, r;
    const float *bias;                    /* [directions, 2 * gates], or NULL */
    float *from_x;                        /* [directions, rows of X, gates] */
    float *from_h, *state, *cell, *reset; /* [directions, batch, ...] */
    const float *x, *h0, *c0;             /* states may be NULL */
    Tensor *out[MOST_OUT];                /* NULL: not wanted */
    const GemmTable *gemm;
    const RnnTable *table;
    Pool *pool; /* to share products; NULL: threads are taken by directions and blocks */
    int64_t blocks;
} Layer;

static tn_status read_layer(KernelCtx *c, Layer *l) {
    const Tensor *x = c->in[IN_X];
    *l = (Layer){.kind = kind_of(c->node), .directions = 1, .gemm = ISA_PICK(gemm_table), .table = ISA_PICK(rnn_table)};
    if (attr_string_is(c->node, "direction", "bidirectional")) l->directions = 2;
    l->backward = attr_string_is(c->node, "direction", "reverse");
    l->batch_first = asks(c->node, "layout");
    l->linear = asks(c->node, "linear_before_reset");
    l->steps = x->dims[l->batch_first], l->batch = x->dims[!l->batch_first], l->input = x->dims[2];
    l->hidden = c->in[IN_R]->dims[2];
    l->gates = l->hidden * gates_of(l->kind);
    /* How sequences are cut decides no answer: a product's element is the same sum in every tile. */
    int64_t shares = (pool_threads(c->pool) + l->directions - 1) / l->directions;
    l->blocks = max_i64(1, min_i64(shares, l->batch / FEWEST));
    if (l->directions * l->blocks == 1) l->pool = c->pool;
    TRY(dense_f32(c, IN_X, &l->x));
    if (kernel_has_input(c, IN_B)) TRY(dense_f32(c, IN_B, &l->bias));
    if (kernel_has_input(c, IN_H)) TRY(dense_f32(c, IN_H, &l->h0));
    if (kernel_has_input(c, IN_C)) TRY(dense_f32(c, IN_C, &l->c0));
    for (int i = 0; i < c->n_out && i < MOST_OUT; i++)
        if (output_wanted(c, i) && c->out[i].data) l->out[i] = &c->out[i];
    if (!kernel_has_input(c, IN_LENS)) return TN_OK;
    TRY(dense_i64(c, IN_LENS, &l->lens));
    for (int64_t b = 0; b < l->batch; b++)
        if (l->lens[b] < 0 || l->lens[b] > l->steps)
            return fail(TN_OUT_OF_RANGE, "sequence %lld has length %lld; at most %lld steps are there", (long long)b,
                        (long long)l->lens[b], (long long)l->steps);
    return TN_OK;
}

static tn_status take_scratch(KernelCtx *c, Layer *l) {
    int64_t all[2];
    TRY(checked_count(4, (int64_t[]){l->directions, l->steps, l->batch, l->gates}, &all[0]));
    TRY(checked_count(3, (int64_t[]){l->directions, l->batch, l->gates}, &all[1]));
    l->from_x = arena_raw(c->scratch, (size_t)(all[0] + 1) * sizeof(float), 64);
    l->from_h = arena_raw(c->scratch, (size_t)(all[1] + 1) * sizeof(float), 64);
    float *states = arena_raw(c->scratch, (size_t)(3 * all[1] + 1) * sizeof(float), 64);
    if (!l->from_x || !l->from_h || !states) return TN_OUT_OF_MEMORY;
    int64_t n = l->directions * l->batch * l->hidden;
    l->state = states, l->cell = states + n, l->reset = states + 2 * n;
    return TN_OK;
}

/* The input's part of the gates of all steps, with what of the biases is added to it: both, but for GRU's hidden gate, where
   R's bias belongs to the state's part. */
static tn_status multiply_input(KernelCtx *c, const Layer *l) {
    int64_t rows = l->steps * l->batch, both = l->kind == CELL_GRU ? 2 * l->hidden : l->gates;
    for (int d = 0; d < l->directions; d++) {
        GemmArgs g = {.m = rows,
                      .n = l->gates,
                      .k = l->input,
                      .batch = 1,
                      .a = l->x,
                      .a_row = l->input,
                      .a_col = 1,
                      .packed = l->w.packed + d * l->w.step,
                      .c = l->from_x + d * rows * l->gates,
                      .c_row = l->gates,
                      .tail = GEMM_PLAIN,
                      .pool = c->pool,
                      .scratch = c->scratch};
        if (l->bias) {
            const float *wb = l->bias + d * 2 * l->gates;
            float *sum = arena_array(c->scratch, float, (size_t)l->gates + 1);
            if (!sum) return TN_OUT_OF_MEMORY;
            for (int64_t k = 0; k < l->gates; k++) sum[k] = wb[k] + (k < both ? wb[l->gates + k] : 0);
            g.tail.bias = sum;
        }
        TRY(gemm_run(&g));
    }
    return TN_OK;
}

/* ---- products with the state ---------------------------------------------------------------------------------------- */

typedef struct Product {
    const Layer *l;
    const float *a, *packed; /* [m, hidden] and the panels */
    float *y;                /* gates apart */
    int64_t m, n;
} Product;

static void multiply_panels(void *arg, int64_t begin, int64_t end) {
    const Product *p = arg;
    const GemmTail plain = GEMM_PLAIN;
    int64_t k = p->l->hidden, nr = p->l->gemm->nr;
    for (int64_t i = begin; i < end; i++) {
        GemmPanel panel = {.m = p->m,
                           .k = k,
                           .a = p->a,
                           .a_row = k,
                           .b = p->packed + i * k * nr,
                           .b_row = gemm_panel_width(p->n, i),
                           .c = p->y + i * nr,
                           .c_row = p->l->gates,
                           .cols = (int)min_i64(nr, p->n - i * nr),
                           .tail = &plain};
        p->l->gemm->panel(&panel);
    }
}

/* y = a times the first or the second rows of R, for m sequences. */
static void multiply_state(const Layer *l, int d, const float *a, int64_t m, bool second, float *y) {
    const float *packed = l->r.packed + d * l->r.step + (second ? l->r.second_at : 0);
    int64_t n = second ? l->gates - l->r.first_rows : l->r.first_rows, nr = l->gemm->nr;
    Product p = {l, a, packed, second ? y + l->r.first_rows : y, m, n};
    parallel_for(l->pool, (n + nr - 1) / nr, (double)(m * l->hidden * nr) * 0.02, multiply_panels, &p);
}

/* ---- steps ---------------------------------------------------------------------------------------------------------- */

/* Sequences [begin, end) of one direction. */
typedef struct Block {
    const Layer *l;
    int d;
    bool backward;
    int64_t begin, end;
    float *from_h, *state, *cell, *reset; /* of sequence `begin` */
} Block;

/* Which time step sequence b is at; -1: it has ended. */
static int64_t time_of(const Block *k, int64_t step, int64_t b) {
    int64_t len = k->l->lens ? k->l->lens[b] : k->l->steps;
    return step >= len ? -1 : k->backward ? len - 1 - step : step;
}

static RnnStep step_of(const Block *k, int64_t b, int64_t time) {
    const Layer *l = k->l;
    int64_t row = l->batch_first ? b * l->steps + time : time * l->batch + b, at = b - k->begin;
    return (RnnStep){.n = l->hidden,
                     .x = l->from_x + (k->d * l->steps * l->batch + row) * l->gates,
                     .h = k->from_h + at * l->gates,
                     .hidden_bias = l->bias && l->kind == CELL_GRU ? l->bias + (2 * k->d + 1) * l->gates + 2 * l->hidden
                                                                   : NULL,
                     .state = k->state + at * l->hidden,
                     .cell = k->cell + at * l->hidden,
                     .reset = k->reset + at * l->hidden};
}

/* The gates of all sequences that have not ended. */
static void apply(const Block *k, int64_t step, void (*fn)(const RnnStep *s)) {
    for (int64_t b = k->begin; b < k->end; b++) {
        int64_t time = time_of(k, step, b);
        if (time < 0) continue;
        RnnStep s = step_of(k, b, time);
        fn(&s);
    }
}

static void copy_row(float *to, int64_t stride, const float *from, int64_t n) {
    if (stride == 1) memcpy(to, from, (size_t)n * sizeof *to);
    for (int64_t i = 0; stride != 1 && i < n; i++) to[i * stride] = from[i];
}

static void zero_row(float *to, int64_t stride, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i * stride] = 0;
}

/* Y is [steps, directions, batch, hidden], or [batch, steps, directions, hidden]. */
static void write_y(const Block *k, int64_t step) {
    const Layer *l = k->l;
    const Tensor *y = l->out[0];
    const int64_t *s = y->strides;
    for (int64_t b = k->begin; b < k->end; b++) {
        int64_t time = time_of(k, step, b), t = time < 0 ? step : time;
        float *to = (float *)y->data + y->offset;
        to += l->batch_first ? b * s[0] + t * s[1] + k->d * s[2] : t * s[0] + k->d * s[1] + b * s[2];
        if (time < 0) zero_row(to, s[3], l->hidden); /* past the end of the sequence */
        else copy_row(to, s[3], k->state + (b - k->begin) * l->hidden, l->hidden);
    }
}

static void write_state(const Block *k, const Tensor *y, const float *from) {
    const int64_t *s = y->strides, n = k->l->hidden;
    for (int64_t b = k->begin; b < k->end; b++) {
        int64_t at = k->l->batch_first ? b * s[0] + k->d * s[1] : k->d * s[0] + b * s[1];
        copy_row((float *)y->data + y->offset + at, s[2], from + (b - k->begin) * n, n);
    }
}

static void read_states(const Block *k) {
    const Layer *l = k->l;
    int64_t n = l->hidden;
    for (int64_t b = k->begin; b < k->end; b++) {
        int64_t at = (l->batch_first ? b * l->directions + k->d : k->d * l->batch + b) * n, row = (b - k->begin) * n;
        if (l->h0) memcpy(k->state + row, l->h0 + at, (size_t)n * sizeof(float));
        else zero_row(k->state + row, 1, n);
        if (l->c0) memcpy(k->cell + row, l->c0 + at, (size_t)n * sizeof(float));
        else zero_row(k->cell + row, 1, n);
    }
}

static void run_step(const Block *k, int64_t step) {
    const Layer *l = k->l;
    int64_t m = k->end - k->begin;
    multiply_state(l, k->d, k->state, m, false, k->from_h);
    if (l->kind == CELL_LSTM) {
        apply(k, step, l->table->lstm);
    } else if (l->kind == CELL_RNN) {
        apply(k, step, l->table->rnn);
    } else if (l->linear) {
        multiply_state(l, k->d, k->state, m, true, k->from_h);
        apply(k, step, l->table->gru_linear);
    } else {
        apply(k, step, l->table->gru_reset);
        multiply_state(l, k->d, k->reset, m, true, k->from_h);
        apply(k, step, l->table->gru_finish);
    }
}

/* One item is one block of one direction. */
static void run_blocks(void *arg, int64_t begin, int64_t end) {
    const Layer *l = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t block = i % l->blocks;
        Block k = {.l = l, .d = (int)(i / l->blocks), .begin = l->batch * block / l->blocks};
        k.end = l->batch * (block + 1) / l->blocks;
        k.backward = l->backward || k.d == 1;
        int64_t row = k.d * l->batch + k.begin;
        k.from_h = l->from_h + row * l->gates, k.state = l->state + row * l->hidden;
        k.cell = l->cell + row * l->hidden, k.reset = l->reset + row * l->hidden;
        read_states(&k);
        /* Rows of sequences that have ended are multiplied too, and of GRU by what reset holds. */
        memset(k.reset, 0, (size_t)((k.end - k.begin) * l->hidden) * sizeof(float));
        for (int64_t step = 0; step < l->steps; step++) {
            run_step(&k, step);
            if (l->out[0]) write_y(&k, step);
        }
        if (l->out[1]) write_state(&k, l->out[1], k.state);
        if (l->out[2]) write_state(&k, l->out[2], k.cell);
    }
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    Layer l;
    TRY(read_layer(c, &l));
    if (l.batch == 0 || l.hidden == 0) return TN_OK;
    TRY(find_weights(c, prepared ? prepared->data : NULL, IN_W, &l.w));
    TRY(find_weights(c, prepared ? prepared->data : NULL, IN_R, &l.r));
    TRY(take_scratch(c, &l));
    TRY(multiply_input(c, &l));
    double cost = 0.02 * (double)l.steps * (double)l.batch / (double)l.blocks * (double)l.gates * (double)l.hidden;
    return kernel_parallel(c, l.directions * l.blocks, cost, run_blocks, &l);
}

const KernelDesc kernel_cpu_rnn = {
    .name = "cpu_rnn",
    .op = "LSTM GRU RNN",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .pack_format = "rnn",
    .prepare = prepare,
    .launch = launch,
};
