/* SPDX-License-Identifier: Apache-2.0 */
/* Products of float32 matrices: packing, blocking and threads (gemm.c) over tiles of each instruction set
   (kernels/gemm.c). An element's sum over k is taken in one order whatever the tile, block or thread it falls to: so rows
   and columns may be split anywhere. Products with one row or column, unless they are packed, have an order of their own. */
#ifndef TENON_BACKENDS_CPU_GEMM_INT_H
#define TENON_BACKENDS_CPU_GEMM_INT_H

#include "backends/cpu/isa_int.h"

/* ---- packed right operands ----------------------------------------------------------------------------------- */

/* B [k, n] is packed in panels of gemm_nr() columns: panel p begins at float p * k * gemm_nr() and holds k rows of
   gemm_panel_width() floats, one after the other. All panels are gemm_nr() wide but the last one, which is as wide as its
   columns rounded up to whole vectors; what is beyond column n there is zero. The numbers are those of cpu_level(). */
int gemm_nr(void);
int gemm_panel_width(int64_t n, int64_t panel);
size_t gemm_packed_size(int64_t k, int64_t n); /* in bytes */
/* `dst` lies at a multiple of 64 bytes; `b` may lie at any address. Strides count floats. `pool` may be NULL. */
void gemm_pack_b(float *dst, const void *b, int64_t row_stride, int64_t col_stride, int64_t k, int64_t n, Pool *pool);

/* ---- products ------------------------------------------------------------------------------------------------ */

/* What is done with a product while it is in registers:
       y = min(max(alpha * (product [+ what c holds]) [+ bias of the column] [+ residual], lo), hi)
   from left to right, one rounding each; a NaN stays one. */
typedef struct GemmTail {
    float alpha;
    const float *bias;     /* one for each column; NULL: none */
    const float *residual; /* NULL: none */
    int64_t residual_row;  /* floats from row to row */
    float lo, hi;          /* -INFINITY, INFINITY where there is no clip */
} GemmTail;
#define GEMM_PLAIN ((GemmTail){.alpha = 1, .lo = -__builtin_inff(), .hi = __builtin_inff()})

/* Where B is read. */
typedef enum GemmWhere {
    GEMM_USUAL,  /* as sizes say */
    GEMM_PACKED, /* packed by the caller, or here before all else */
    GEMM_DIRECT, /* where it lies, but for a last panel that does not end with a vector; of rows whose elements are neighbours */
    GEMM_EACH /* packed by each block of A's rows, a panel's block at a time */
} GemmWhere;

/* C[i] = A[i] B[i] for each of `batch` products of one size. Matrix i of each operand begins *_at[i] floats behind the
   pointer (NULL: 0). A and B may have any strides; of C columns are neighbours. */
typedef struct GemmArgs {
    int64_t m, n, k, batch;
    const float *a; /* at any address */
    int64_t a_row, a_col;
    const float *packed; /* B as gemm_pack_b made it; b_at counts packed floats. NULL: B is `b` */
    const float *b;      /* at any address */
    int64_t b_row, b_col;
    float *c;
    int64_t c_row;
    const int64_t *a_at, *b_at, *c_at, *residual_at;
    bool accumulate; /* adds to what C holds */
    GemmTail tail;
    /* Called on each block of C once it is finished and while it is in a cache; NULL: not. Blocks do not overlap, and may
       come from several threads at once. */
    void (*finish)(void *arg, int64_t product, int64_t row, int64_t col, float *c, int64_t c_row, int64_t rows,
                   int64_t cols);
    void *arg;
    GemmWhere where; /* what cannot be is as usual */
    Pool *pool;
    Arena *scratch; /* what is taken stays taken: the caller has a mark */
} GemmArgs;
/* What is usual for a product that is not packed, of which data need not be there. */
GemmWhere gemm_usual(const GemmArgs *args);
bool gemm_may_be_direct(const GemmArgs *args);
/* TN_OUT_OF_MEMORY when scratch is out. */
tn_status gemm_run(const GemmArgs *args);

/* ---- tiles of an instruction set (kernels/gemm.c) ------------------------------------------------------------- */

/* Rows of A times the columns of one panel, over one block of k. */
typedef struct GemmPanel {
    int64_t m, k;
    const float *a; /* columns are neighbours */
    int64_t a_row;
    const float *b; /* whole vectors of each row are read */
    int64_t b_row;
    float *c;
    int64_t c_row;
    int cols; /* 1 .. nr */
    bool accumulate;
    const GemmTail *tail; /* bias and residual at c's place; NULL: not the last block of k */
    const float *next;    /* b of the panel that comes next, to be brought into the cache; NULL: none */
} GemmPanel;

typedef struct GemmTable {
    int nr, vector; /* columns of a panel; floats of a vector */
    int mr;         /* rows of a tile of nr columns */
    void (*panel)(const GemmPanel *p);
    /* k rows of `cols` columns into rows of `width` floats, the rest of which becomes zero. */
    void (*pack)(float *dst, int64_t width, const char *b, int64_t row_stride, int64_t col_stride, int64_t k,
                 int64_t cols);
} GemmTable;
ISA_TABLE(GemmTable, gemm_table);

/* A row times B, which is read where it lies (kernels/gemm_vector.c). */
typedef struct GemmVector {
    int64_t k, n;
    const float *a; /* neighbours */
    const float *b;
    int64_t stride; /* of B: floats from row to row where columns are neighbours, or the other way round */
    float *c;       /* neighbours */
    bool accumulate;
    const GemmTail *tail; /* bias and residual at c's place */
} GemmVector;

typedef struct GemmVectorTable {
    void (*add_up)(const GemmVector *p); /* columns of B are neighbours */
    void (*dots)(const GemmVector *p);   /* rows of B are neighbours */
} GemmVectorTable;
ISA_TABLE(GemmVectorTable, gemm_vector_table);
/* Whether gemm_run gives the product to gemm_run_vector (gemm_vector.c), which needs no packing. */
bool gemm_is_vector(const GemmArgs *args);
tn_status gemm_run_vector(const GemmArgs *args);

#endif
