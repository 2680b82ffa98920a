/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise programs: the light nodes of a tn.Fused, or one element-wise node, as a list of vector operations that are
   done on a tile at a time while it is in the first-level cache. See body.c and body_run.c. */
#ifndef TENON_BACKENDS_CPU_BODY_INT_H
#define TENON_BACKENDS_CPU_BODY_INT_H

#include "kernel/kernel.h"
#include "ops/op.h"

typedef struct Body Body; /* immutable once made, so any number of threads may run it */

/* Whether bodies can hold the node: by its op, attributes and element types; sizes do not matter. */
bool body_takes(const Node *node);
bool body_knows(const OpSchema *op); /* whether it takes some nodes of this op */
/* Whether the node is element-wise as body_takes has it, or a tn.Fused of such nodes alone. */
bool body_is_light(const Node *node);

/* A node that a kernel of a heavy op runs: the op itself, or a tn.Fused with one such node, which reads operands of the
   tn.Fused only, and element-wise nodes behind it. */
typedef struct Heavy {
    const Node *node;      /* the heavy node, to ask for attributes */
    int in[OP_MAX_INPUTS]; /* of each of its operands: which operand of the node that is run; -1: absent */
    const Tensor *constant[OP_MAX_INPUTS]; /* of an operand that is a constant of the body; else NULL */
    bool fused;                            /* there is a body behind it */
} Heavy;
/* False when `node` is neither. For a tn.Fused with one node of that op (`is_heavy` says), whose results beside the first are
   not read, and others that body_takes. The kernel sees to it that the heavy node's sizes are those of the result. */
bool heavy_open(const Node *node, bool (*is_heavy)(const Node *inner), Heavy *out);

/* What a body reads beside the tile. The same operand may be read along different axes. */
enum { BODY_MOST_INPUTS = 2 * OP_MAX_INPUTS, BODY_MOST_VALUES = 1024, BODY_MOST_RANK = TN_MAX_RANK + 1 };

/* The program of a fused heavy node, or (heavy NULL) of an element-wise node or an all-light tn.Fused. On `arena`, which
   must outlive it. Only for what heavy_open, body_takes or body_is_light accepted. */
tn_status body_compile(const Node *node, const Node *heavy, Arena *arena, Body **out);

/* For `keeps`, of kernels that prepare a body and nothing else: it follows from the node. */
bool prepared_of_node(const KernelQuery *q, const Prepared *prepared);

/* The common short ones, which a heavy kernel does with the tile still in registers:
       y = min(max(x [+ bias along columns] [+ residual], lo), hi)
   in that order of operations, where residual is an operand of the node with the result's sizes. NaN stays: vf_max(lo, x) and
   vf_min(hi, x), in this order of operands. */
typedef struct BodyShort {
    int bias;     /* the operand of the node, whose size is that of the channels (or columns); -1: none */
    int residual; /* -1: none */
    float lo, hi; /* -inf, inf where there is no clip */
} BodyShort;
/* Whether the body is one of these. `columns` is the axis of the result that runs along the columns of a tile. */
bool body_as_short(const Body *body, const KernelQuery *q, int columns, BodyShort *out);

/* How tiles lie in the result and in each operand: found once before tiles are run. Rows run along the result's dimensions
   `row_axes` (one or more neighbours, which every operand must allow to be walked with one stride), columns along one. */
typedef struct BodyMap {
    const Body *body;
    int rank;
    int64_t dims[BODY_MOST_RANK]; /* of the result */
    int row_axis, n_row_axes, col_axis;
    int n_in;                                          /* readings of operands, not operands */
    const float *data[BODY_MOST_INPUTS];               /* at element 0; other element types by their bytes */
    int64_t strides[BODY_MOST_INPUTS][BODY_MOST_RANK]; /* 0 where broadcast */
    int64_t row[BODY_MOST_INPUTS], col[BODY_MOST_INPUTS];
    bool rows_walk; /* false: some operand cannot be walked over all row axes at once; map rows of the last one only */
    bool stream;    /* results are to go past the caches */
    uint8_t varies[BODY_MOST_VALUES]; /* each value of the program: along rows (1), along columns (2) */
} BodyMap;
/* Operands as the node's KernelCtx has them; those that heavy reads alone are not looked at. */
tn_status body_map(const Body *body, const KernelCtx *c, int row_axis, int n_row_axes, int col_axis, BodyMap *map);

/* Runs the body on the heavy node's values `tile` (rows x cols, `tile_ld` floats from row to row, columns contiguous), whose
   first element is element `at` (an index over the result's dimensions) of the result, and writes to `out` (`out_ld`
   elements from row to row), which may be the tile itself. A result of BOOL is bytes. */
void body_run_tile(const BodyMap *map, const int64_t *at, const float *tile, int64_t tile_ld, void *out, int64_t out_ld,
                   int64_t rows, int64_t cols);
/* The same for a body with several results, or without a heavy node (tile NULL). */
void body_run_tiles(const BodyMap *map, const int64_t *at, const float *tile, int64_t tile_ld, void *const *out,
                    const int64_t *out_ld, int64_t rows, int64_t cols);

/* How many results there are, and the nanoseconds that one element of them takes on one thread, roughly. */
int body_n_results(const Body *body);
double body_cost(const Body *body);

#endif
