/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of LSTM, GRU and RNN: all steps of X times W at once, then a Scan whose body multiplies the state by R and applies
   the gates. A sequence that has ended keeps its state; backwards it has not begun yet. */
#include "ops/lower_int.h"
#include "ops/rnn_int.h"

/* One direction. What stands outside of the body is read from there. */
typedef struct Cell {
    CellAttrs attrs;
    const Activation *act;
    int64_t steps, batch, hidden;
    Value *x, *lens;            /* [steps, batch, input]; [batch, 1] or NULL */
    Value *w, *r, *wb, *rb, *p; /* of the direction, without its dimension; W and R transposed */
    Value *h, *c;               /* states; those that it begins with, then the body's inputs */
    Value *gates;               /* of one step, from X */
} Cell;

/* Slice d of the first dimension, which goes. */
static Value *of_direction(LowerCtx *c, Value *v, int d) {
    if (c->status != TN_OK || !v) return NULL;
    const Shape *s = lower_shape(v);
    return lower_reshape(c, lower_slice(c, v, 0, d, d + 1), s->dims + 1, s->rank - 1);
}

/* Columns [k * hidden, (k + n) * hidden). */
static Value *gate(LowerCtx *c, const Cell *l, Value *v, int k, int n) {
    if (c->status != TN_OK || !v) return NULL;
    return lower_slice(c, v, lower_shape(v)->rank - 1, k * l->hidden, (k + n) * l->hidden);
}

static Value *activate(LowerCtx *c, const Cell *l, int which, Value *v) {
    if (c->status != TN_OK || !v) return NULL;
    tn_dtype dtype = lower_dtype(v);
    double limit = l->attrs.clip;
    if (l->attrs.clips)
        v = LOWER(c, "Min", LOWER(c, "Max", v, lower_number(c, dtype, -limit)), lower_number(c, dtype, limit));
    return lower_activation(c, &l->act[which], v);
}

/* ---- cells: the next state ----------------------------------------------------------------------------------- */

static Value *peep(LowerCtx *c, const Cell *l, Value *v, int k, Value *cell) {
    return l->p ? LOWER(c, "Add", v, LOWER(c, "Mul", gate(c, l, l->p, k, 1), cell)) : v;
}

static Value *lstm_step(LowerCtx *c, Cell *l, Value **cell) {
    Value *v = LOWER(c, "Add", l->gates, LOWER(c, "MatMul", l->h, l->r));
    Value *i = activate(c, l, 0, peep(c, l, gate(c, l, v, 0, 1), 0, l->c));
    Value *f = activate(c, l, 0, peep(c, l, gate(c, l, v, 2, 1), 2, l->c));
    Value *g = activate(c, l, 1, gate(c, l, v, 3, 1));
    if (l->attrs.input_forget) f = LOWER(c, "Sub", lower_number(c, lower_dtype(l->x), 1), i);
    *cell = LOWER(c, "Add", LOWER(c, "Mul", f, l->c), LOWER(c, "Mul", i, g));
    Value *o = activate(c, l, 0, peep(c, l, gate(c, l, v, 1, 1), 1, *cell));
    return LOWER(c, "Mul", o, activate(c, l, 2, *cell));
}

static Value *gru_step(LowerCtx *c, Cell *l) {
    Value *both = LOWER(c, "MatMul", l->h, gate(c, l, l->r, 0, 2)), *last = gate(c, l, l->r, 2, 1);
    both = activate(c, l, 0, LOWER(c, "Add", gate(c, l, l->gates, 0, 2), both));
    Value *z = gate(c, l, both, 0, 1), *r = gate(c, l, both, 1, 1), *bias = gate(c, l, l->rb, 2, 1), *inner;
    if (l->attrs.linear_before_reset) inner = LOWER(c, "Mul", r, lower_plus(c, LOWER(c, "MatMul", l->h, last), bias));
    else inner = lower_plus(c, LOWER(c, "MatMul", LOWER(c, "Mul", r, l->h), last), bias);
    Value *g = activate(c, l, 1, LOWER(c, "Add", gate(c, l, l->gates, 2, 1), inner));
    Value *rest = LOWER(c, "Sub", lower_number(c, lower_dtype(l->x), 1), z);
    return LOWER(c, "Add", LOWER(c, "Mul", rest, g), LOWER(c, "Mul", z, l->h));
}

static Value *step(LowerCtx *c, Cell *l, Value **cell) {
    if (l->attrs.o.kind == CELL_LSTM) return lstm_step(c, l, cell);
    if (l->attrs.o.kind == CELL_GRU) return gru_step(c, l);
    return activate(c, l, 0, LOWER(c, "Add", l->gates, LOWER(c, "MatMul", l->h, l->r)));
}

/* ---- a direction --------------------------------------------------------------------------------------------- */

/* Gates from X with the biases, but for GRU's hidden gate, where R's bias belongs to the state's part. */
static Value *gates_of_x(LowerCtx *c, const Cell *l) {
    Value *bias = l->wb, *v = LOWER(c, "MatMul", l->x, l->w);
    if (!bias) return v;
    if (l->attrs.o.kind != CELL_GRU) return LOWER(c, "Add", v, LOWER(c, "Add", bias, l->rb));
    int64_t pads[] = {0, l->hidden};
    return LOWER(c, "Add", v, LOWER(c, "Add", bias, lower_pad(c, gate(c, l, l->rb, 0, 2), pads, NULL)));
}

/* One step from the states in `l`, which it moves on; what is stacked. Sequences that are over keep their state. */
static Value *advance(LowerCtx *c, Cell *l, Value *time, Value *zero) {
    bool lstm = l->attrs.o.kind == CELL_LSTM;
    Value *new_cell = NULL, *out = step(c, l, &new_cell), *state = out;
    if (l->lens) {
        Value *runs = LOWER(c, "Less", time, l->lens);
        state = LOWER(c, "Where", runs, out, l->h);
        out = LOWER(c, "Where", runs, out, zero);
        if (lstm) new_cell = LOWER(c, "Where", runs, new_cell, l->c);
    }
    l->h = state;
    l->c = new_cell;
    return out;
}

enum { MOST_STEPS = 32 };

/* One after the other. */
static void unrolled(LowerCtx *c, Cell *l, bool backward, Value **y, Value **h, Value **cell) {
    Value *gates = gates_of_x(c, l), *zero = lower_number(c, lower_dtype(l->x), 0), *outs[MOST_STEPS];
    int64_t front = 0;
    c->declined |= l->steps < 1 || l->steps > MOST_STEPS;
    if (c->status != TN_OK || c->declined) return;
    int64_t of_step[] = {l->batch, lower_shape(gates)->dims[2]};
    for (int64_t k = 0; k < l->steps && c->status == TN_OK; k++) {
        int64_t t = backward ? l->steps - 1 - k : k;
        l->gates = lower_reshape(c, lower_slice(c, gates, 0, t, t + 1), of_step, 2);
        Value *out = advance(c, l, lower_number(c, TN_I64, (double)t), zero);
        outs[t] = LOWER(c, "Unsqueeze", out, lower_ints(c, &front, 1));
    }
    if (c->status != TN_OK) return;
    *y = lower_node(c, "Concat", outs, (size_t)l->steps, ATTRS(attr_i("axis", 0)), 1);
    *h = l->h;
    *cell = l->attrs.o.kind == CELL_LSTM ? l->c : l->h;
}

static void scan(LowerCtx *c, Cell *l, bool backward, Value **y, Value **h, Value **cell) {
    bool lstm = l->attrs.o.kind == CELL_LSTM;
    Value *gates = gates_of_x(c, l), *times = l->lens ? lower_counting(c, l->steps, 0, 1) : NULL;
    Value *zero = lower_number(c, lower_dtype(l->x), 0);
    LowerScan s = {.n_states = 1 + lstm, .backward = backward};
    s.operands[s.n_operands++] = l->h;
    if (lstm) s.operands[s.n_operands++] = l->c;
    s.operands[s.n_operands++] = gates;
    if (l->lens) s.operands[s.n_operands++] = times;
    lower_begin_scan(c);
    if (c->status != TN_OK) return;
    l->h = lower_scan_input(c, l->h, false);
    if (lstm) l->c = lower_scan_input(c, l->c, false);
    l->gates = lower_scan_input(c, gates, true);
    Value *time = l->lens ? lower_scan_input(c, times, true) : NULL;
    Value *out = advance(c, l, time, zero);
    s.outputs[s.n_outputs++] = l->h;
    if (lstm) s.outputs[s.n_outputs++] = l->c;
    s.outputs[s.n_outputs++] = out == l->h ? LOWER(c, "Identity", out) : out;
    Node *node = lower_end_scan(c, &s);
    if (!node) return;
    *h = node->results[0];
    *cell = node->results[lstm];
    *y = node->results[1 + lstm];
}

/* [batch, hidden] of operand i, which may have the batch first; zeros where it is absent. */
static Value *first_state(LowerCtx *c, const Cell *l, int i, int d) {
    static const int64_t perm[] = {1, 0, 2};
    Value *v = lower_in(c, (size_t)i);
    int64_t dims[] = {l->batch, l->hidden};
    if (!v) return LOWER(c, "Expand", lower_number(c, lower_dtype(lower_in(c, IN_X)), 0), lower_ints(c, dims, 2));
    return of_direction(c, l->attrs.batch_first ? lower_transpose(c, v, perm) : v, d);
}

static void open_direction(LowerCtx *c, Cell *l, int d) {
    static const int64_t perm[] = {1, 0};
    int gates = l->attrs.o.gates;
    Value *bias = of_direction(c, lower_in(c, IN_B), d);
    l->act = l->attrs.act[d];
    l->w = lower_transpose(c, of_direction(c, lower_in(c, IN_W), d), perm);
    l->r = lower_transpose(c, of_direction(c, lower_in(c, IN_R), d), perm);
    l->wb = gate(c, l, bias, 0, gates);
    l->rb = gate(c, l, bias, gates, gates);
    l->p = NULL;
    l->h = first_state(c, l, IN_H, d);
    if (l->attrs.o.kind != CELL_LSTM) return;
    l->c = first_state(c, l, IN_C, d);
    l->p = of_direction(c, lower_in(c, IN_P), d);
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

/* Lengths as [batch, 1]. Those that are out of range are looked up where there is nothing, so that the run fails. */
static Value *lengths(LowerCtx *c, const Cell *l) {
    Value *lens = lower_in(c, IN_LENS);
    int64_t column[] = {l->batch, 1};
    if (!lens) return NULL;
    lens = lower_cast(c, lens, TN_I64);
    Value *beyond = lower_number(c, TN_I64, (double)l->steps + 1);
    lens = LOWER(c, "Where", LOWER(c, "Less", lens, lower_number(c, TN_I64, 0)), beyond, lens);
    return lower_reshape(c, LOWER(c, "Gather", lower_counting(c, l->steps + 1, 0, 1), lens), column, 2);
}

/* Results of the directions side by side along `axis`, in another order where the batch comes first. */
static Value *join(LowerCtx *c, const Cell *l, Value *const *parts, int axis, const int64_t *batch_first) {
    Value *each[2];
    int64_t at = axis;
    for (int d = 0; d < l->attrs.directions; d++) each[d] = LOWER(c, "Unsqueeze", parts[d], lower_ints(c, &at, 1));
    Value *all = lower_node(c, "Concat", each, (size_t)l->attrs.directions, ATTRS(attr_i("axis", axis)), 1);
    return l->attrs.batch_first ? lower_transpose(c, all, batch_first) : all;
}

tn_status lower_rnn(LowerCtx *c) {
    static const int64_t of_x[] = {1, 0, 2}, of_y[] = {2, 0, 1, 3};
    Value *y[2] = {0}, *h[2] = {0}, *cell[2] = {0};
    Cell l = {.x = lower_in(c, IN_X)};
    if (lower_by_widening(c) || !lower_sizes_known(c)) return TN_OK;
    TRY(read_cell(c->node, &l.attrs));
    l.steps = lower_shape(l.x)->dims[l.attrs.batch_first];
    l.batch = lower_shape(l.x)->dims[!l.attrs.batch_first];
    l.hidden = lower_shape(lower_in(c, IN_R))->dims[2];
    if (l.attrs.batch_first) l.x = lower_transpose(c, l.x, of_x);
    l.lens = lengths(c, &l);
    for (int d = 0; d < l.attrs.directions && c->status == TN_OK; d++) {
        open_direction(c, &l, d);
        (c->loops ? scan : unrolled)(c, &l, l.attrs.backward || d == 1, &y[d], &h[d], &cell[d]);
    }
    if (c->declined) return TN_OK;
    if (lower_wants(c, 0)) c->out[0] = join(c, &l, y, 1, of_y);
    if (lower_wants(c, 1)) c->out[1] = join(c, &l, h, 0, of_x);
    if (lower_wants(c, 2)) c->out[2] = join(c, &l, cell, 0, of_x);
    return TN_OK;
}
