/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to the gates of recurrent layers between two products (kernels/rnn.c). */
#ifndef TENON_BACKENDS_CPU_RNN_INT_H
#define TENON_BACKENDS_CPU_RNN_INT_H

#include "backends/cpu/isa_int.h"

/* One sequence at one step. Gates are n floats each, behind each other. */
typedef struct RnnStep {
    int64_t n;
    const float *x;           /* gates of the input, biases included */
    float *h;                 /* gates of the state; GRU keeps its update gate here */
    const float *hidden_bias; /* GRU: of the state's part of the hidden gate; NULL: none */
    float *state;
    float *cell;  /* LSTM */
    float *reset; /* GRU: the state as far as it is not reset, for the second product */
} RnnStep;

typedef struct RnnTable {
    void (*lstm)(const RnnStep *s);
    void (*gru_reset)(const RnnStep *s); /* the first half, where the state is reset before it is multiplied */
    void (*gru_finish)(const RnnStep *s);
    void (*gru_linear)(const RnnStep *s); /* all of it, where the product is reset */
    void (*rnn)(const RnnStep *s);
} RnnTable;
ISA_TABLE(RnnTable, rnn_table);

#endif
