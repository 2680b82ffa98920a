/* SPDX-License-Identifier: Apache-2.0 */
/* What row-wise kernels share: a heavy node by itself or with element-wise nodes behind it, operands in any reading, and
   results in any order. */
#ifndef TENON_BACKENDS_CPU_EPILOGUE_INT_H
#define TENON_BACKENDS_CPU_EPILOGUE_INT_H

#include "backends/cpu/body_int.h"

/* What such a kernel prepares. */
typedef struct Epilogue {
    Heavy heavy;
    Body *body; /* NULL: none */
    Arena arena;
} Epilogue;
static inline const Epilogue *epilogue_of(const Prepared *prepared) { return prepared->data; }

/* Whether a node is what the kernel of that name runs. */
bool is_softmax(const Node *node);
bool is_norm(const Node *node);
bool is_group_norm(const Node *node);
bool is_reduce(const Node *node);
/* Call-backs of these kernels: what is prepared is an Epilogue; in place where nothing stands behind that may read the operand
   again; in the operand's order. */
tn_status epilogue_prepare(const KernelQuery *q, Context *context, Prepared *out);
uint32_t epilogue_in_place(const Node *node);
void epilogue_order(const KernelQuery *q, int k, Tensor *out);

/* Operand k of the heavy node, or NULL. */
const Tensor *heavy_operand(const Heavy *heavy, const Tensor *const *in, int k);

/* Whether both have the same rank and sizes. */
bool same_sizes(const Tensor *a, const Tensor *b);
/* The axes by descending strides, whatever their signs. */
void axes_by_stride(const Tensor *t, int *axes);
/* Sets the order of `out`, dense and row-major, to that of an operand of the same sizes if that has no gaps. */
bool order_like(const Tensor *like, Tensor *out);

/* A dense row-major copy, or the tensor itself where it is that. On the kernel's scratch memory. */
tn_status dense_reading(KernelCtx *c, const Tensor *t, Tensor *out);
/* Memory for float results that are not to be computed where they go: dense and row-major, on scratch memory. */
tn_status float_buffer(KernelCtx *c, int rank, const int64_t *dims, Tensor *out);
/* Copies floats into a tensor of the same sizes in any order. */
void copy_floats(const Tensor *from, const Tensor *to);
static inline float *floats_of(const Tensor *t) { return (float *)t->data + t->offset; }

/* Runs the body on all of `values`, which are the heavy node's results: into result 0, or in place where that is it. */
tn_status epilogue_run(KernelCtx *c, const Epilogue *e, const Tensor *values);

/* The same bit by bit, as the values are made and while they are in the cache. It pays where the kernel reads what it reads more
   than once from farther than the body does; a body that computes much is better off with a sweep of its own, under whose
   sums the next numbers come. */
typedef struct EpilogueTiles {
    BodyMap map;
    const Tensor *values;
    Tensor out;
    int64_t rows, cols; /* rows: of the dimension before the columns' */
} EpilogueTiles;
/* Columns are along the last dimension. False: there is no body, or values are no neighbours there: epilogue_run it is. */
tn_status epilogue_open(KernelCtx *c, const Epilogue *e, const Tensor *values, EpilogueTiles *tiles, bool *opened);
/* Lines along the columns, counted row-major over the other dimensions. */
void epilogue_lines(const EpilogueTiles *tiles, int64_t begin, int64_t end);

#endif
