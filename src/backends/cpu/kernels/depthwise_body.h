/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise tiles for windows of COLUMNS columns in steps of STEP, for a V, a vector of channels. Each element of the data is
   read once a row of the window and meets all weights while it is in a register. */

#define SPAN ((DEPTHWISE_PIXELS - 1) * STEP + COLUMNS)

/* One vector of channels, c the first, of one row. */
INLINE void OF_V(row, COLUMNS, STEP)(const DepthwiseTile *t, int64_t i_row, int64_t c) {
    const DepthwiseWindow *window = &t->windows[i_row];
    const Repeated repeated_here = X_REPEATED(t, c), *repeated = &repeated_here;
    const int64_t x_at = t->x_at + X_CHANNEL(t, c), n_rows = window->n;
    const int64_t x_ld = t->x_ld, w_ld = t->w_ld;
    uint32_t inside = t->to > t->from ? (1u << t->to) - (1u << t->from) : 0; /* columns, as bits */
    V sum[DEPTHWISE_PIXELS];
    for (int i = 0; i < DEPTHWISE_PIXELS; i++) sum[i] = (V){0};
    for (int64_t r = 0; r < n_rows; r++) {
        const float *x = window->x[r] + x_at, *w = window->w[r] + c;
        V tap[COLUMNS];
        for (int k = 0; k < COLUMNS; k++, w += w_ld) tap[k] = V_OP(load)(w);
        KEEP_BITS(inside);
#pragma GCC unroll 20
        for (int j = 0; j < SPAN; j++, x += x_ld) {
            if (!(inside & 1u << j)) continue;
            V v = X_LOAD(x);
            VF_KEEP(v); /* or each of its uses loads it again */
#pragma GCC unroll 8
            for (int k = 0; k < COLUMNS; k++)
                if (j >= k && (j - k) % STEP == 0 && (j - k) / STEP < DEPTHWISE_PIXELS)
                    sum[(j - k) / STEP] = V_OP(fma)(v, tap[k], sum[(j - k) / STEP]);
        }
    }
    const ConvFinish *f = t->finish;
    const V lo = V_OP(set)(f->lo), hi = V_OP(set)(f->hi), bias = f->bias ? V_OP(load)(f->bias + c) : (V){0};
    const float *residual = f->residual ? f->residual + i_row * t->residual_row + c : NULL;
    float *to = t->y + i_row * t->y_row + c;
#pragma GCC unroll 8
    for (int i = 0; i < DEPTHWISE_PIXELS; i++) {
        if (i >= t->n) continue;
        V y = f->bias ? sum[i] + bias : sum[i];
        if (residual) y += V_OP(load)(residual + i * f->residual_ld);
        V_OP(store)(to + i * t->y_ld, V_OP(min)(hi, V_OP(max)(lo, y)));
    }
}

/* Down the rows: what windows share is in the first cache then. */
INLINE void OF_V(tile, COLUMNS, STEP)(const DepthwiseTile *t, int64_t c) {
    for (int64_t i = 0; i < t->n_windows; i++) OF_V(row, COLUMNS, STEP)(t, i, c);
}

#undef SPAN
