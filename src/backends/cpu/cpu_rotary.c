/* SPDX-License-Identifier: Apache-2.0 */
/* RotaryEmbedding, ONNX's and com.microsoft's, in float32. */
#include "backends/cpu/rotary_int.h"
#include "kernel/kernel.h"
#include "ops/op.h"

/* Where each of the two has its operands. */
typedef struct Places {
    int cosines, sines, positions;
} Places;
static Places places_of(const Node *node) { return node->op->domain ? (Places){2, 3, 1} : (Places){1, 2, 3}; }

static bool matches(const KernelQuery *q) {
    Places at = places_of(q->node);
    return q->in[0]->dtype == TN_F32 && q->in[at.cosines]->dtype == TN_F32 && q->in[at.sines]->dtype == TN_F32;
}

/* X in any reading. */
static uint32_t strided(const Node *node) {
    (void)node;
    return 1;
}

static uint32_t in_place(const Node *node) {
    (void)node;
    return 1;
}

/* ---- a call --------------------------------------------------------------------------------------------------------- */

typedef struct Turn {
    int64_t heads, steps, size, half;
    bool interleaved;
    const float *x, *cosines, *sines;
    float *y;
    int64_t x_stride[3], y_stride[3]; /* batch, head, step */
    const int64_t *positions;         /* NULL: each step of each batch entry has a row of its own */
    bool one_offset;                  /* one position, of all first steps */
    void (*turn)(const float *x, int64_t size, int64_t half, const float *cosines, const float *sines, bool interleaved,
                 float *y);
} Turn;

static void heads_of(const Tensor *t, int64_t size, int64_t stride[3]) {
    bool split = t->rank == 4;
    stride[0] = t->strides[0];
    stride[1] = split ? t->strides[1] : size;
    stride[2] = t->strides[split ? 2 : 1];
}

/* Heads of three dimensions by number, or else by the size that the caches tell. */
static tn_status read_heads(const Node *node, const Tensor *x, Turn *t) {
    int64_t given = attr_int(node, "num_heads"), turns = attr_int(node, "rotary_embedding_dim");
    if (x->rank == 4) {
        t->heads = x->dims[1], t->size = x->dims[3];
        return TN_OK;
    }
    t->size = given > 0 ? x->dims[2] / given : 2 * t->half;
    if (t->size == 0 && x->dims[2] == 0) {
        t->heads = given;
        return TN_OK;
    }
    t->heads = given > 0 ? given : t->size ? x->dims[2] / t->size : 0;
    if (t->size < 2 * t->half || t->heads * t->size != x->dims[2] || (turns && turns != 2 * t->half))
        return fail(TN_INVALID_MODEL, "a hidden size of %lld, %lld heads and %lld elements that turn do not fit",
                    (long long)x->dims[2], (long long)given, (long long)(turns ? turns : 2 * t->half));
    return TN_OK;
}

static tn_status check_positions(const Turn *t, int64_t batch, int64_t rows) {
    int64_t n = t->one_offset ? 1 : batch * t->steps;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = t->positions[i];
        if (at < 0 || at >= rows || (t->one_offset && at > rows - t->steps))
            return fail(TN_OUT_OF_RANGE, "position %lld is not in 0..%lld", (long long)at, (long long)rows - 1);
    }
    return TN_OK;
}

/* One item is one step of a batch entry. */
static void turn_steps(void *arg, int64_t begin, int64_t end) {
    const Turn *t = arg;
    for (int64_t k = begin; k < end; k++) {
        int64_t b = k / t->steps, step = k % t->steps;
        int64_t row = !t->positions ? k : t->one_offset ? t->positions[0] + step : t->positions[k];
        const float *x = t->x + b * t->x_stride[0] + step * t->x_stride[2];
        float *y = t->y + b * t->y_stride[0] + step * t->y_stride[2];
        for (int64_t h = 0; h < t->heads; h++)
            t->turn(x + h * t->x_stride[1], t->size, t->half, t->cosines + row * t->half, t->sines + row * t->half,
                    t->interleaved, y + h * t->y_stride[1]);
    }
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    const Tensor *x = c->in[0], *y = &c->out[0];
    Places at = places_of(c->node);
    const Tensor *cache = c->in[at.cosines];
    (void)prepared;
    if (tensor_count(x) == 0) return TN_OK;
    Turn t = {.steps = x->dims[x->rank - 2],
              .half = cache->dims[cache->rank - 1],
              .interleaved = attr_int(c->node, "interleaved") != 0,
              .turn = ISA_PICK(rotary_table)->turn,
              .y = (float *)y->data + y->offset};
    TRY(read_heads(c->node, x, &t));
    if (x->strides[x->rank - 1] == 1) {
        t.x = (const float *)x->data + x->offset;
        heads_of(x, t.size, t.x_stride);
    } else {
        Tensor dense;
        TRY(dense_f32(c, 0, &t.x));
        tensor_set_dense(&dense, TN_F32, x->rank, x->dims);
        heads_of(&dense, t.size, t.x_stride);
    }
    heads_of(y, t.size, t.y_stride);
    TRY(dense_f32(c, at.cosines, &t.cosines));
    TRY(dense_f32(c, at.sines, &t.sines));
    if (kernel_has_input(c, at.positions)) {
        const Tensor *p = c->in[at.positions];
        t.one_offset = p->rank != 2;
        if (t.one_offset && tensor_count(p) != 1) return fail(TN_SHAPE, "position_ids must be one offset or a matrix");
        TRY(dense_i64(c, at.positions, &t.positions));
        TRY(check_positions(&t, x->dims[0], cache->dims[0]));
    }
    return kernel_parallel(c, x->dims[0] * t.steps, 0.15 * (double)(t.heads * t.size), turn_steps, &t);
}

const KernelDesc kernel_cpu_rotary = {
    .name = "cpu_rotary",
    .op = "RotaryEmbedding com.microsoft.RotaryEmbedding",
    .place = {.target = TARGET_CPU, .precision = TN_F32},
    .priority = 100,
    .match = matches,
    .strided = strided,
    .in_place = in_place,
    .launch = launch,
};
