/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft.MatMulNBits (ONNX Runtime 1): a product with weights of 2 to 8 bits, each block of a column with a
   scale and zero point. Everything is computed in float, whatever accuracy_level allows. */
#include "ops/nn_int.h"

enum { IN_A, IN_B, IN_SCALES, IN_ZEROS, IN_GROUPS, IN_BIAS };

typedef struct Weights {
    int64_t k, n, bits, block, blocks, blob; /* blocks of a column, bytes of a block */
    const uint8_t *data;
    const float *scales;
    const float *zeros;    /* one for each block, or NULL */
    const uint8_t *packed; /* zero points as bits, or NULL; rows of packed_row bytes */
    int64_t packed_row;
    const int64_t *groups; /* the block whose scale each row has, or NULL: row / block */
} Weights;

static tn_status read_sizes(const Node *node, Weights *w) {
    *w = (Weights){.k = attr_int(node, "K"),
                   .n = attr_int(node, "N"),
                   .bits = attr_int(node, "bits"),
                   .block = attr_int(node, "block_size")};
    if (w->k < 1 || w->n < 1 || w->k > INT32_MAX || w->n > INT32_MAX) /* so that products with block sizes fit */
        return fail(TN_INVALID_MODEL, "K is %lld and N %lld", (long long)w->k, (long long)w->n);
    if ((w->bits != 2 && w->bits != 4 && w->bits != 8) || w->block < 16 || w->block > 1 << 20 ||
        (w->block & (w->block - 1)))
        return fail(TN_UNSUPPORTED, "%lld bits in blocks of %lld: 2, 4 or 8 in powers of two from 16 on are supported",
                    (long long)w->bits, (long long)w->block);
    if (attr_int(node, "weight_prepacked")) return fail(TN_UNSUPPORTED, "weight_prepacked is not supported");
    w->blocks = (w->k + w->block - 1) / w->block;
    w->blob = w->block * w->bits / 8;
    w->packed_row = (w->blocks * w->bits + 7) / 8;
    return TN_OK;
}

/* The number of elements of an operand, where it is known. */
static tn_status want_elements(const InferCtx *c, int i, int64_t n) {
    const Shape *s = in_shape(c, i);
    if (!has_input(c, i) || !shape_is_known(s)) return TN_OK;
    int64_t count;
    TRY(checked_count(s->rank, s->dims, &count));
    return count == n ? TN_OK
                      : fail(TN_SHAPE, "\"%.*s\" has %lld elements where %lld are wanted", IN_NAME(c, i),
                             (long long)count, (long long)n);
}

static tn_status matmul_nbits_infer(InferCtx *c) {
    const Shape *a = in_shape(c, IN_A);
    Weights w;
    Dim same;
    TRY(read_sizes(c->node, &w));
    TRY(want_elements(c, IN_B, w.n * w.blocks * w.blob));
    TRY(want_elements(c, IN_SCALES, w.n * w.blocks));
    TRY(want_elements(c, IN_ZEROS, w.n * (in_dtype(c, IN_ZEROS) == TN_U8 ? w.packed_row : w.blocks)));
    TRY(want_vector(c, IN_BIAS, w.n, false));
    if (a->rank < 0) return TN_OK;
    if (a->rank < 1) return fail(TN_SHAPE, "A is a scalar");
    TRY(dims_must_match(a->dims[a->rank - 1], w.k, "columns of A and K", &same));
    Shape y = *a;
    y.dims[y.rank - 1] = w.n;
    set_shape(c, 0, &y);
    return TN_OK;
}

static uint32_t bits_at(const uint8_t *data, int64_t i, int64_t bits) {
    return data[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
}

static float weight_at(const Weights *w, int64_t row, int64_t column) {
    int64_t block = row / w->block, group = w->groups ? w->groups[row] : block;
    uint32_t v = bits_at(w->data + (column * w->blocks + block) * w->blob, row % w->block, w->bits);
    float zero = (float)(1 << (w->bits - 1));
    if (w->zeros) zero = w->zeros[column * w->blocks + group];
    if (w->packed) zero = (float)bits_at(w->packed + column * w->packed_row, group, w->bits);
    return ((float)v - zero) * w->scales[column * w->blocks + group];
}

/* A piece of the weights, row by row, for matrix_product_f32. */
static void pack_weights(const void *user, int64_t one, int64_t row, int64_t k, int64_t column, int columns, int width,
                         void *panel) {
    const Weights *w = user;
    float *to = panel;
    (void)one;
    for (int64_t i = 0; i < k; i++)
        for (int j = 0; j < width; j++) to[i * width + j] = j < columns ? weight_at(w, row + i, column + j) : 0;
}

static tn_status read_weights(KernelCtx *c, Weights *w) {
    const void *bytes;
    TRY(read_sizes(c->node, w));
    TRY(dense_bytes(c, IN_B, &bytes));
    w->data = bytes;
    TRY(dense_f32(c, IN_SCALES, &w->scales));
    if (kernel_has_input(c, IN_ZEROS) && c->in[IN_ZEROS]->dtype == TN_U8) {
        TRY(dense_bytes(c, IN_ZEROS, &bytes));
        w->packed = bytes;
    } else if (kernel_has_input(c, IN_ZEROS)) {
        TRY(dense_f32(c, IN_ZEROS, &w->zeros));
    }
    if (!kernel_has_input(c, IN_GROUPS)) return TN_OK;
    int64_t n = tensor_count(c->in[IN_GROUPS]);
    if (n < w->k) return fail(TN_SHAPE, "g_idx has %lld entries for %lld rows", (long long)n, (long long)w->k);
    TRY(dense_i64(c, IN_GROUPS, &w->groups));
    for (int64_t i = 0; i < w->k; i++)
        if (w->groups[i] < 0 || w->groups[i] >= w->blocks)
            return fail(TN_OUT_OF_RANGE, "g_idx has the value %lld, for %lld blocks", (long long)w->groups[i],
                        (long long)w->blocks);
    return TN_OK;
}

static tn_status matmul_nbits_reference(KernelCtx *c) {
    const Tensor *y = &c->out[0];
    const float *a, *bias = NULL;
    float *out;
    Weights w;
    if (tensor_count(y) == 0) return TN_OK;
    TRY(read_weights(c, &w));
    TRY(dense_f32(c, IN_A, &a));
    if (kernel_has_input(c, IN_BIAS)) TRY(dense_f32(c, IN_BIAS, &bias));
    TRY(result_f32(c, 0, &out));
    MatrixProduct p = {.m = tensor_count(y) / w.n,
                       .n = w.n,
                       .k = w.k,
                       .a_row = w.k,
                       .a_col = 1,
                       .y_row = w.n,
                       .batch = 1,
                       .pack = pack_weights,
                       .pack_user = &w};
    TRY(matrix_product_f32(c, &p, a, NULL, out));
    for (int64_t i = 0; bias && i < p.m * p.n; i++) out[i] += bias[i % p.n];
    result_f32_done(c, 0, out);
    return TN_OK;
}

static double matmul_nbits_flops(const Node *node, const Shape *in, const Shape *out) {
    double n = 2 * (double)attr_int(node, "K");
    (void)in;
    for (int d = 0; d < out->rank; d++) n *= (double)out->dims[d];
    return n;
}

#define FLOATS (TS(TN_F32) | TS(TN_F16) | TS(TN_BF16))

const OpSchema op_ms_MatMulNBits = {
    .domain = "com.microsoft",
    .name = "MatMulNBits",
    .summary = "Product with weights of a few bits (ONNX Runtime 1)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"A", FLOATS, 'T'}, {"B", TS(TN_U8)}, {"scales", FLOATS, 'T'},
                       {"zero_points", TS(TN_U8) | FLOATS, 0, OPERAND_OPTIONAL},
                       {"g_idx", TS(TN_I32), 0, OPERAND_OPTIONAL}, {"bias", FLOATS, 'T', OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"Y", FLOATS, 'T'}),
    .attrs = ATTRIBUTES({"K", ATTR_INT, ATTR_REQUIRED}, {"N", ATTR_INT, ATTR_REQUIRED}, {"accuracy_level", ATTR_INT},
                        {"bits", ATTR_INT, .i = 4}, {"block_size", ATTR_INT, ATTR_REQUIRED},
                        {"weight_prepacked", ATTR_INT}),
    .infer = matmul_nbits_infer,
    .reference = matmul_nbits_reference,
    .flops = matmul_nbits_flops,
};
