/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels and the lowering of recurrent layers share: operands and attributes. */
#ifndef TENON_OPS_RNN_INT_H
#define TENON_OPS_RNN_INT_H

#include "ops/nn_int.h"

typedef enum CellKind { CELL_LSTM, CELL_GRU, CELL_RNN } CellKind;

/* Where each op has its operands; -1: nowhere. */
typedef struct CellOperands {
    CellKind kind;
    int gates, activations;
    bool quantised; /* W and R are integers, transposed: [directions, input, gates * hidden] */
} CellOperands;
enum { IN_X, IN_W, IN_R, IN_B, IN_LENS, IN_H, IN_C, IN_P, IN_W_SCALE, IN_W_ZERO, IN_R_SCALE, IN_R_ZERO };

/* What the attributes say. */
typedef struct CellAttrs {
    CellOperands o;
    int directions;
    bool backward, batch_first, input_forget, linear_before_reset;
    bool clips;
    double clip;
    Activation act[2][3];
} CellAttrs;

tn_status read_cell(const Node *node, CellAttrs *a);

#endif
