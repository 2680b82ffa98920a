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
tn_status epilogue_prepare(const KernelQuery *q, bool (*is_heavy)(const Node *inner), Context *context, Prepared *out);
static inline const Epilogue *epilogue_of(const Prepared *prepared) { return prepared->data; }

/* Operand k of the heavy node, or NULL. */
const Tensor *heavy_operand(const Heavy *heavy, const Tensor *const *in, int k);

/* Whether both have the same rank and sizes. */
bool same_sizes(const Tensor *a, const Tensor *b);
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

#endif
