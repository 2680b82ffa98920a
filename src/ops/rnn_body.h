/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers for one float type. All rows of X are multiplied by W at once; then step by step the state is
   multiplied by R and the gates are applied. */

typedef struct FN(Layer) {
    const CellAttrs *attrs;
    const Activation *act; /* of this direction */
    Sizes s;
    const T *w, *r, *wb, *rb, *peephole; /* biases and peephole may be NULL */
    const QuantisedWeights *quantised;   /* instead of w and r, or NULL */
    T *rt;                               /* r transposed: [hidden, gates] */
    T *from_x, *from_h;                  /* [rows of X, gates] and [batch, gates] */
    T *h, *c, *reset;                    /* [batch, hidden] each */
} FN(Layer);

/* y[rows, columns] = a[rows, k] times columns [from, from + columns) of R's transpose. */
static tn_status FN(times_r)(KernelCtx *c, const FN(Layer) * l, const T *a, int64_t from, int64_t columns, T *y) {
    MatrixProduct p = {.m = l->s.batch,
                       .n = columns,
                       .k = l->s.hidden,
                       .a_row = l->s.hidden,
                       .a_col = 1,
                       .b_row = l->s.gates,
                       .b_col = 1,
                       .y_row = l->s.gates,
                       .batch = 1};
    const QuantisedWeights *q = l->quantised;
    if (q) return FN(quantised_product)(c, &p, a, q->r, q->r_scale, q->n_r_scale, y + from);
    return FN(matrix_product)(c, &p, a, l->rt + from, y + from);
}

static tn_status FN(times_w)(KernelCtx *c, const FN(Layer) * l, const T *x) {
    MatrixProduct p = {.m = l->s.steps * l->s.batch,
                       .n = l->s.gates,
                       .k = l->s.input,
                       .a_row = l->s.input,
                       .a_col = 1,
                       .b_row = 1,
                       .b_col = l->s.input,
                       .y_row = l->s.gates,
                       .batch = 1};
    const QuantisedWeights *q = l->quantised;
    if (q) {
        p.b_row = l->s.gates, p.b_col = 1;
        return FN(quantised_product)(c, &p, x, q->w, q->w_scale, q->n_w_scale, l->from_x);
    }
    return FN(matrix_product)(c, &p, x, l->w, l->from_x);
}

static void FN(clip)(const FN(Layer) * l, T *v, int64_t n) {
    const T limit = (T)l->attrs->clip;
    for (int64_t i = 0; l->attrs->clips && i < n; i++) v[i] = v[i] < -limit ? -limit : v[i] > limit ? limit : v[i];
}

static void FN(clip_activate)(const FN(Layer) * l, int which, T *v, int64_t n) {
    FN(clip)(l, v, n);
    FN(activate)(&l->act[which], v, n);
}

/* x: gates from the input, biases included, in the order input, output, forget, cell; h: gates from the state. */
static void FN(lstm_cell)(const FN(Layer) * l, int64_t b, T *x, const T *h) {
    int64_t n = l->s.hidden;
    T *i = x, *o = x + n, *f = x + 2 * n, *g = x + 3 * n, *cell = l->c + b * n, *out = l->h + b * n;
    const T *p = l->peephole;
    for (int64_t k = 0; k < 4 * n; k++) x[k] += h[k];
    for (int64_t k = 0; p && k < n; k++) {
        i[k] += p[k] * cell[k];
        f[k] += p[2 * n + k] * cell[k];
    }
    FN(clip_activate)(l, 0, i, n);
    FN(clip_activate)(l, 0, f, n);
    FN(clip_activate)(l, 1, g, n);
    for (int64_t k = 0; k < n; k++) {
        if (l->attrs->input_forget) f[k] = 1 - i[k];
        cell[k] = f[k] * cell[k] + i[k] * g[k];
        if (p) o[k] += p[n + k] * cell[k];
        out[k] = cell[k];
    }
    FN(clip_activate)(l, 0, o, n);
    FN(clip_activate)(l, 2, out, n); /* "applied to the input of activations": not to the state itself */
    for (int64_t k = 0; k < n; k++) out[k] *= o[k];
}

/* Gates in the order update, reset, hidden; the first half: what the second product needs. */
static void FN(gru_reset)(const FN(Layer) * l, int64_t b, T *x, const T *h) {
    int64_t n = l->s.hidden;
    for (int64_t k = 0; k < 2 * n; k++) x[k] += h[k];
    FN(clip_activate)(l, 0, x, 2 * n);
    for (int64_t k = 0; k < n; k++) l->reset[b * n + k] = x[n + k] * l->h[b * n + k];
}

static void FN(gru_cell)(const FN(Layer) * l, int64_t b, T *x, const T *h) {
    int64_t n = l->s.hidden;
    T *z = x, *r = x + n, *g = x + 2 * n, *state = l->h + b * n;
    for (int64_t k = 0; k < n; k++) {
        T inner = h[2 * n + k] + (l->rb ? l->rb[2 * n + k] : 0);
        g[k] += l->attrs->linear_before_reset ? r[k] * inner : inner;
    }
    FN(clip_activate)(l, 1, g, n);
    for (int64_t k = 0; k < n; k++) state[k] = (1 - z[k]) * g[k] + z[k] * state[k];
}

static void FN(rnn_cell)(const FN(Layer) * l, int64_t b, T *x, const T *h) {
    int64_t n = l->s.hidden;
    for (int64_t k = 0; k < n; k++) x[k] += h[k];
    FN(clip_activate)(l, 0, x, n);
    memcpy(l->h + b * n, x, (size_t)n * sizeof(T));
}

/* Which time step sequence b is at; -1: it has ended. */
static int64_t FN(time_of)(const FN(Layer) * l, int64_t step, int64_t b, bool backward) {
    int64_t len = l->s.lens ? l->s.lens[b] : l->s.steps;
    return step >= len ? -1 : backward ? len - 1 - step : step;
}

static T *FN(gates_of)(const FN(Layer) * l, int64_t time, int64_t b) {
    return l->from_x + (l->attrs->batch_first ? b * l->s.steps + time : time * l->s.batch + b) * l->s.gates;
}

static tn_status FN(run_step)(KernelCtx *c, const FN(Layer) * l, int64_t step, bool backward) {
    CellKind kind = l->attrs->o.kind;
    bool two = kind == CELL_GRU && !l->attrs->linear_before_reset;
    int64_t n = l->s.hidden;
    TRY(FN(times_r)(c, l, l->h, 0, two ? 2 * n : l->s.gates, l->from_h));
    for (int64_t b = 0; kind == CELL_GRU && b < l->s.batch; b++) {
        int64_t t = FN(time_of)(l, step, b, backward);
        if (t >= 0) FN(gru_reset)(l, b, FN(gates_of)(l, t, b), l->from_h + b * l->s.gates);
    }
    if (two) TRY(FN(times_r)(c, l, l->reset, 2 * n, n, l->from_h));
    for (int64_t b = 0; b < l->s.batch; b++) {
        int64_t t = FN(time_of)(l, step, b, backward);
        if (t < 0) continue;
        T *x = FN(gates_of)(l, t, b), *h = l->from_h + b * l->s.gates;
        if (kind == CELL_LSTM) FN(lstm_cell)(l, b, x, h);
        if (kind == CELL_GRU) FN(gru_cell)(l, b, x, h);
        if (kind == CELL_RNN) FN(rnn_cell)(l, b, x, h);
    }
    return TN_OK;
}

/* Biases are added to the input's gates, but for GRU's hidden gate, where R's bias belongs to the state's part. */
static void FN(add_biases)(const FN(Layer) * l) {
    int64_t both = l->attrs->o.kind == CELL_GRU ? 2 * l->s.hidden : l->s.gates;
    for (int64_t row = 0; l->wb && row < l->s.steps * l->s.batch; row++) {
        T *x = l->from_x + row * l->s.gates;
        for (int64_t k = 0; k < l->s.gates; k++) x[k] += l->wb[k] + (k < both ? l->rb[k] : 0);
    }
}

/* Place of (direction, sequence) in a state, and of (time, direction, sequence) in Y. */
static int64_t FN(state_at)(const FN(Layer) * l, int d, int64_t b) {
    return (l->attrs->batch_first ? b * l->attrs->directions + d : d * l->s.batch + b) * l->s.hidden;
}
static int64_t FN(y_at)(const FN(Layer) * l, int64_t t, int d, int64_t b) {
    int64_t n = l->attrs->directions;
    if (l->attrs->batch_first) return ((b * l->s.steps + t) * n + d) * l->s.hidden;
    return ((t * n + d) * l->s.batch + b) * l->s.hidden;
}

static tn_status FN(run_direction)(KernelCtx *c, FN(Layer) * l, int d, const T *x, const T *h0, const T *c0, T *y,
                                   T *y_h, T *y_c) {
    const Sizes *s = &l->s;
    size_t row = (size_t)s->hidden * sizeof(T);
    bool backward = l->attrs->backward || d == 1;
    for (int64_t b = 0; b < s->batch; b++) {
        int64_t at = FN(state_at)(l, d, b);
        for (int64_t k = 0; k < s->hidden; k++) {
            l->h[b * s->hidden + k] = h0 ? h0[at + k] : 0;
            l->c[b * s->hidden + k] = c0 ? c0[at + k] : 0;
        }
    }
    for (int64_t j = 0; !l->quantised && j < s->gates; j++)
        for (int64_t k = 0; k < s->hidden; k++) l->rt[k * s->gates + j] = l->r[j * s->hidden + k];
    TRY(FN(times_w)(c, l, x));
    FN(add_biases)(l);
    for (int64_t step = 0; step < s->steps; step++) {
        TRY(FN(run_step)(c, l, step, backward));
        for (int64_t b = 0; y && b < s->batch; b++) {
            int64_t t = FN(time_of)(l, step, b, backward);
            if (t >= 0) memcpy(y + FN(y_at)(l, t, d, b), l->h + b * s->hidden, row);
            else /* past the end of the sequence */ memset(y + FN(y_at)(l, step, d, b), 0, row);
        }
    }
    for (int64_t b = 0; b < s->batch; b++) {
        if (y_h) memcpy(y_h + FN(state_at)(l, d, b), l->h + b * s->hidden, row);
        if (y_c) memcpy(y_c + FN(state_at)(l, d, b), l->c + b * s->hidden, row);
    }
    return TN_OK;
}

static tn_status FN(layer_scratch)(KernelCtx *c, FN(Layer) * l) {
    int64_t rows, n, all;
    TRY(checked_count(3, (int64_t[]){l->s.steps, l->s.batch, l->s.gates}, &rows));
    TRY(checked_count(2, (int64_t[]){l->s.batch, l->s.gates}, &n));
    TRY(checked_count(2, (int64_t[]){l->s.hidden, l->s.gates}, &all));
    l->from_x = kernel_scratch(c, T, (size_t)rows);
    l->from_h = kernel_scratch(c, T, (size_t)n);
    l->rt = kernel_scratch(c, T, (size_t)all);
    l->h = kernel_scratch(c, T, (size_t)n);
    l->c = kernel_scratch(c, T, (size_t)n);
    l->reset = kernel_scratch(c, T, (size_t)n);
    return l->from_x && l->from_h && l->rt && l->h && l->c && l->reset ? TN_OK : TN_OUT_OF_MEMORY;
}

static tn_status FN(optional)(KernelCtx *c, int i, const T **out) {
    *out = NULL;
    return kernel_has_input(c, i) ? FN(dense)(c, i, out) : TN_OK;
}

static tn_status FN(recurrent)(KernelCtx *c) {
    CellAttrs attrs;
    FN(Layer) l = {.attrs = &attrs};
    const T *x, *w = NULL, *r = NULL, *bias, *h0, *c0 = NULL, *p = NULL;
    T *out[3] = {NULL, NULL, NULL};
    QuantisedWeights q = {0};
    TRY(read_cell(c->node, &attrs));
    TRY(read_sizes(c, &attrs, &l.s));
    TRY(FN(layer_scratch)(c, &l));
    TRY(FN(dense)(c, IN_X, &x));
    TRY(FN(optional)(c, IN_B, &bias));
    TRY(FN(optional)(c, IN_H, &h0));
    if (attrs.o.kind == CELL_LSTM) {
        TRY(FN(optional)(c, IN_C, &c0));
        TRY(FN(optional)(c, IN_P, &p));
    }
    if (!attrs.o.quantised) {
        TRY(FN(dense)(c, IN_W, &w));
        TRY(FN(dense)(c, IN_R, &r));
    }
    for (int i = 0; i < 3; i++)
        if (kernel_wants(c, i)) TRY(FN(result)(c, i, &out[i]));
    for (int d = 0; d < attrs.directions; d++) {
        l.act = attrs.act[d];
        if (attrs.o.quantised) {
            TRY(read_quantised(c, d, &q));
            l.quantised = &q;
        } else {
            l.w = w + d * l.s.gates * l.s.input;
            l.r = r + d * l.s.gates * l.s.hidden;
        }
        l.wb = bias ? bias + d * 2 * l.s.gates : NULL;
        l.rb = bias ? l.wb + l.s.gates : NULL;
        l.peephole = p ? p + d * 3 * l.s.hidden : NULL;
        TRY(FN(run_direction)(c, &l, d, x, h0, c0, out[0], out[1], out[2]));
    }
    for (int i = 0; i < 3; i++)
        if (out[i]) FN_DONE(c, i, out[i]);
    return TN_OK;
}
