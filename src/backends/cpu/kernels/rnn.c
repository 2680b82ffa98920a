/* SPDX-License-Identifier: Apache-2.0 */
/* The gates of LSTM, GRU and RNN, each in one go over vectors. */
#include "backends/cpu/kernels/math_int.h"
#include "backends/cpu/rnn_int.h"

/* The loop over a step's n elements; `take` and `put` are whole vectors or, at the end, the first few elements. */
#define EACH(...)                          \
    int64_t i = 0;                         \
    for (; i + VF <= s->n; i += VF) {      \
        __VA_ARGS__(vf_load, vf_store)     \
    }                                      \
    if (i < s->n) {                        \
        const int64_t left = s->n - i;     \
        __VA_ARGS__(LOAD_LEFT, STORE_LEFT) \
    }
#define LOAD_LEFT(p) vf_load_n((p), left)
#define STORE_LEFT(p, v) vf_store_n((p), (v), left)
/* The sum of both parts of gate k. */
#define GATE(load, k) (load(s->x + (k)*s->n + i) + load(s->h + (k)*s->n + i))

/* Gates in the order input, output, forget, cell. */
#define LSTM(load, store)                                                  \
    vf in = vf_sigmoid(GATE(load, 0)), forget = vf_sigmoid(GATE(load, 2)); \
    vf cell = forget * load(s->cell + i) + in * vf_tanh(GATE(load, 3));    \
    store(s->cell + i, cell);                                              \
    store(s->state + i, vf_sigmoid(GATE(load, 1)) * vf_tanh(cell));
static void lstm(const RnnStep *s) { EACH(LSTM) }

/* Gates in the order update, reset, hidden. */
#define GRU_RESET(load, store)                                           \
    store(s->reset + i, vf_sigmoid(GATE(load, 1)) * load(s->state + i)); \
    store(s->h + i, vf_sigmoid(GATE(load, 0)));
static void gru_reset(const RnnStep *s) { EACH(GRU_RESET) }

#define HIDDEN_BIAS(load) (s->hidden_bias ? load(s->hidden_bias + i) : (vf){0})
#define MIX(load, store, update, hidden) \
    vf u = (update), g = (hidden);       \
    store(s->state + i, (1 - u) * g + u * load(s->state + i));
#define GRU_FINISH(load, store) MIX(load, store, load(s->h + i), vf_tanh(GATE(load, 2) + HIDDEN_BIAS(load)))
static void gru_finish(const RnnStep *s) { EACH(GRU_FINISH) }

#define GRU_LINEAR(load, store)                                             \
    vf inner = load(s->h + 2 * s->n + i) + HIDDEN_BIAS(load);               \
    vf sum = load(s->x + 2 * s->n + i) + vf_sigmoid(GATE(load, 1)) * inner; \
    MIX(load, store, vf_sigmoid(GATE(load, 0)), vf_tanh(sum))
static void gru_linear(const RnnStep *s) { EACH(GRU_LINEAR) }

#define RNN(load, store) store(s->state + i, vf_tanh(GATE(load, 0)));
static void rnn(const RnnStep *s) { EACH(RNN) }

const RnnTable ISA_NAME(rnn_table) = {lstm, gru_reset, gru_finish, gru_linear, rnn};
