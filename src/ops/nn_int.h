/* SPDX-License-Identifier: Apache-2.0 */
/* What the neural-network ops share: sliding-window geometry, matrix products, activations, requantisation. */
#ifndef TENON_OPS_NN_INT_H
#define TENON_OPS_NN_INT_H

#include <math.h>

#include "ops/op_int.h"

/* ---- attributes and operands --------------------------------------------------------------------------------- */

/* The name of operand i for a message, as arguments of "%.*s". */
#define IN_NAME(c, i) (int)operand_name((c)->node, (i)).n, operand_name((c)->node, (i)).s
Str operand_name(const Node *node, int i);

/* Operand i has this rank, where its rank is known; else TN_SHAPE. */
tn_status want_rank(const InferCtx *c, int i, int rank);
/* Operand i, where present and of known rank, is [n], or a scalar where `scalar` allows it. */
tn_status want_vector(const InferCtx *c, int i, Dim n, bool scalar);
/* Dimension d of operand i; DIM_UNKNOWN when nothing is known. */
static inline Dim in_dim(const InferCtx *c, int i, int d) {
    const Shape *s = in_shape(c, i);
    return has_input(c, i) && s->rank > d ? s->dims[d] : DIM_UNKNOWN;
}
/* Whether a kernel is to write result i, whose memory inference knew how to make. */
static inline bool kernel_wants(const KernelCtx *c, int i) {
    return output_wanted(c, i) && (c->out[i].data || tensor_count(&c->out[i]) == 0);
}

/* ---- types --------------------------------------------------------------------------------------------------- */

/* Runs the f32 or f64 version of a kernel by the element type of operand 0. */
#define RUN_FLOAT(c, name) (class_of((c)->in[0]->dtype) == CLASS_F64 ? name##_f64(c) : name##_f32(c))
/* The same with a version for all integers, in arithmetic modulo 2^64. */
#define RUN_NUMBER(c, name) (class_of((c)->in[0]->dtype) == CLASS_INT ? name##_u64(c) : RUN_FLOAT(c, name))

static inline tn_status dense_u64(KernelCtx *c, int i, const uint64_t **out) {
    const int64_t *data = NULL;
    tn_status status = dense_i64(c, i, &data);
    *out = (const uint64_t *)data;
    return status;
}
static inline tn_status result_u64(KernelCtx *c, int i, uint64_t **out) {
    int64_t *data = NULL;
    tn_status status = result_i64(c, i, &data);
    *out = (uint64_t *)data;
    return status;
}
static inline void result_u64_done(KernelCtx *c, int i, const uint64_t *data) {
    result_i64_done(c, i, (const int64_t *)data);
}

/* Integers from averages: towards zero as in onnxruntime, or to nearest, within what the type holds. What rounding left
   just short of an integer is that one: a picture of one colour keeps it. */
typedef struct WholeRange {
    double low, high;
} WholeRange;
static inline WholeRange whole_range(tn_dtype dtype) {
    double bits = dtype_bits(dtype), low = dtype_is_unsigned_int(dtype) ? 0 : -exp2(bits - 1);
    return (WholeRange){low, exp2(low < 0 ? bits - 1 : bits) - 1};
}
static inline double whole_average(double v, bool nearest, const WholeRange *range) {
    double whole = rint(v);
    if (!nearest && !(fabs(v - whole) < 1e-4 + 1e-6 * fabs(whole))) whole = trunc(v);
    return whole > range->low ? whole < range->high ? whole : range->high : range->low;
}

/* ---- windows (window.c) -------------------------------------------------------------------------------------- */

typedef enum AutoPad { PAD_NOTSET, PAD_VALID, PAD_SAME_UPPER, PAD_SAME_LOWER } AutoPad;

/* A window sliding over the spatial dimensions, as the attributes of convolutions and pools say. */
typedef struct Window {
    int rank; /* spatial dimensions */
    AutoPad auto_pad;
    bool ceil; /* ceil_mode */
    int64_t kernel[TN_MAX_RANK], stride[TN_MAX_RANK], dilation[TN_MAX_RANK];
    int64_t begin[TN_MAX_RANK], end[TN_MAX_RANK]; /* pads */
} Window;

/* Reads strides, dilations, pads, auto_pad and kernel_shape where the node has them; checks lengths and signs. A kernel
   size that no attribute gives is 0. */
tn_status window_read(const Node *node, int rank, Window *w);
/* The size of one spatial dimension of the result. The kernel may be known only as a dim (of the weights). */
tn_status window_out(DimTable *dims, const Window *w, int d, Dim in, Dim kernel, Dim *out);
/* The window of a kernel: attributes, and pads fixed by the sizes of x and y (dims from 2 on); kernel sizes from
   `weights` (NULL: attributes only). */
tn_status window_for_kernel(const KernelCtx *c, const Tensor *weights, const Tensor *x, const Tensor *y, Window *w);

/* The same from types, for lowerings. */
tn_status window_for_shapes(const Node *node, const Shape *weights, const Shape *x, const Shape *y, Window *w);

/* Positions of an index space, counted up in row-major order. False: back at the start. */
static inline bool next_index(int rank, const int64_t *dims, int64_t *index) {
    for (int d = rank - 1; d >= 0; d--) {
        if (++index[d] < dims[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* ---- matrix products (gemm_core.c) --------------------------------------------------------------------------- */

/* y[i,j] = sum over p of a[i,p] * b[p,j] for each of `batch` products. Strides in elements. */
typedef struct MatrixProduct {
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, y_row;
    int64_t batch;
    const int64_t *a_offset, *b_offset; /* one for each product; NULL: 0 */
    int64_t y_step;                     /* from one product's result to the next one's */
    /* Packs rows [row, row + k) of columns [col, col + columns) of product number `one`'s b, `width` elements a row,
       the missing ones zero. NULL: b is memory. */
    void (*pack)(const void *user, int64_t one, int64_t row, int64_t k, int64_t col, int columns, int width,
                 void *panel);
    const void *pack_user;
} MatrixProduct;

tn_status matrix_product_f32(KernelCtx *c, const MatrixProduct *p, const float *a, const float *b, float *y);
tn_status matrix_product_f64(KernelCtx *c, const MatrixProduct *p, const double *a, const double *b, double *y);
tn_status matrix_product_u64(KernelCtx *c, const MatrixProduct *p, const uint64_t *a, const uint64_t *b, uint64_t *y);
/* Integers of at most 9 bits in floats, summed modulo 2^32: each partial sum of 256 products is exact in a float. */
tn_status matrix_product_i32(KernelCtx *c, const MatrixProduct *p, const float *a, const float *b, int32_t *y);

/* ---- convolution (conv.c) ------------------------------------------------------------------------------------ */

/* Shapes of a convolution whose data, weights and bias are operands x, w, b (b < 0: none). */
tn_status conv_infer_operands(InferCtx *c, int x, int w, int b);
double conv_flops(const Node *node, const Shape *in, const Shape *out);
tn_status conv_reference(KernelCtx *c); /* data, weights and bias are operands 0 to 2 */
#define CONV_ATTRS                                                                                   \
    {"auto_pad", ATTR_STRING, .s = "NOTSET"}, {"dilations", ATTR_INTS}, {"group", ATTR_INT, .i = 1}, \
        {"kernel_shape", ATTR_INTS}, {"pads", ATTR_INTS}, {                                          \
        "strides", ATTR_INTS                                                                         \
    }
/* y = x * w on dense data, without bias. */
typedef struct ConvShape {
    Window window;
    int64_t batch, group, in_channels, out_channels; /* channels of one group */
    int64_t in[TN_MAX_RANK], out[TN_MAX_RANK];       /* spatial sizes */
    int64_t taps, in_plane, out_plane;               /* elements of the kernel and of the spatial sizes */
} ConvShape;
tn_status conv_shape(const KernelCtx *c, int x, int w, ConvShape *s);
tn_status convolve_f32(KernelCtx *c, const ConvShape *s, const float *x, const float *w, float *y);
tn_status convolve_f64(KernelCtx *c, const ConvShape *s, const double *x, const double *w, double *y);
/* As matrix_product_i32: x and w hold integers of at most 9 bits. */
tn_status convolve_i32(KernelCtx *c, const ConvShape *s, const float *x, const float *w, int32_t *y);

/* ---- channels last (channels_last.c) ------------------------------------------------------------------------- */

/* Inference and a kernel for operands whose channels stand behind the batch, on ones whose first n operands and result 0
   have them last. */
tn_status infer_channels_last(InferCtx *c, int n, tn_status (*infer)(InferCtx *c));
tn_status run_channels_last(KernelCtx *c, int n, tn_status (*kernel)(KernelCtx *c));

/* ---- pools (pool.c) ------------------------------------------------------------------------------------------ */

typedef enum PoolKind { POOL_MAX, POOL_AVERAGE, POOL_LP } PoolKind;
typedef struct Pooling {
    PoolKind kind;
    Window window;
    int64_t in[TN_MAX_RANK], out[TN_MAX_RANK]; /* spatial sizes */
    int64_t planes, in_plane, out_plane;
    int64_t p;          /* of LpPool */
    bool count_padding; /* AveragePool's count_include_pad */
    bool column_major;  /* MaxPool's storage_order */
    int64_t *indices;   /* MaxPool's second result, or NULL */
} Pooling;
tn_status pool_infer(InferCtx *c);
/* Reads the attributes of a pool over x with result y. */
tn_status pool_read(const KernelCtx *c, PoolKind kind, const Tensor *x, const Tensor *y, Pooling *pool);
tn_status pool_planes_f32(KernelCtx *c, const Pooling *pool, const float *x, float *y);
tn_status pool_planes_f64(KernelCtx *c, const Pooling *pool, const double *x, double *y);

/* ---- normalisation (layer_norm.c) ---------------------------------------------------------------------------- */

/* Mean and variance (of the population) of n elements; two passes in double. */
void moments_f32(const float *x, int64_t n, double *mean, double *variance);
void moments_f64(const double *x, int64_t n, double *mean, double *variance);

/* ---- activations (activation.c) ------------------------------------------------------------------------------ */

typedef enum ActivationKind {
    ACT_NONE,
    ACT_RELU,
    ACT_TANH,
    ACT_SIGMOID,
    ACT_AFFINE,
    ACT_LEAKY_RELU,
    ACT_THRESHOLDED_RELU,
    ACT_SCALED_TANH,
    ACT_HARD_SIGMOID,
    ACT_ELU,
    ACT_SOFTSIGN,
    ACT_SOFTPLUS,
    ACT_CLIP
} ActivationKind;
typedef struct Activation {
    ActivationKind kind;
    double alpha, beta;
} Activation;
/* By ONNX's name, in any case of letters, with the name's default alpha and beta; TN_INVALID_MODEL when unknown. */
tn_status activation_named(Str name, Activation *out);
void activate_f32(const Activation *a, float *x, int64_t n);
void activate_f64(const Activation *a, double *x, int64_t n);
/* What FusedConv's attributes say; none of other ops. */
tn_status conv_activation(const Node *node, Activation *act);
Value *lower_activation(LowerCtx *c, const Activation *a, Value *x); /* the same of a value, as nodes */

/* ---- quantised operands (quantised.c) ------------------------------------------------------------------------ */

/* The integers of operand i, less its zero point, as floats (exact). The zero point is operand `zero` (< 0 or absent:
   0): a scalar, or one for each index of dimension `axis`. */
tn_status dense_centred(KernelCtx *c, int i, int zero, int axis, float **out);
/* The element of a one-element float operand. */
tn_status scalar_f32(KernelCtx *c, int i, float *out);
/* A float vector of `n`, from an operand of n elements or one, which is repeated. */
tn_status vector_f32(KernelCtx *c, int i, int64_t n, const float **out);
/* The integer of a one-element operand; 0 when absent. */
tn_status scalar_zero(KernelCtx *c, int i, int64_t *out);
/* y = a * b where a is quantised to 8 bits first, all of it alike, and b holds centred integers with one scale, or one
   for each column. */
tn_status dynamic_product(KernelCtx *c, const MatrixProduct *p, const float *a, const float *b, const float *scale,
                          int64_t n_scale, float *y);
/* saturate(round to even(v * scale) + zero) of n sums into 8-bit integers. */
void requantise(tn_dtype dtype, void *y, int64_t offset, const int32_t *v, float scale, int64_t zero, int64_t n);
/* The same of floats that are scaled already. */
void quantise_row(tn_dtype dtype, void *y, int64_t offset, const float *v, int64_t zero, int64_t n);

#endif
