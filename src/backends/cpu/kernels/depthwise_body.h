/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise tiles for windows of COLUMNS columns in steps of STEP, for a V, a vector of channels. Each element of the data is
   read once a row of the window and meets all weights while it is in a register. */

#define SPAN ((DEPTHWISE_PIXELS - 1) * STEP + COLUMNS)

/* One vector of channels, c the first. */
INLINE void OF_V(tile, COLUMNS, STEP)(const DepthwiseTile *t, int64_t c) {
    const int64_t x_ld = t->x_ld, w_ld = t->w_ld;
    uint32_t inside = t->to > t->from ? (1u << t->to) - (1u << t->from) : 0; /* columns, as bits */
    V sum[DEPTHWISE_PIXELS];
    for (int i = 0; i < DEPTHWISE_PIXELS; i++) sum[i] = (V){0};
    for (int64_t r = 0; r < t->n_rows; r++) {
        const float *x = t->x[r] + c, *w = t->w[r] + c;
        V tap[COLUMNS];
        for (int k = 0; k < COLUMNS; k++, w += w_ld) tap[k] = V_OP(load)(w);
        KEEP_BITS(inside);
#pragma GCC unroll 20
        for (int j = 0; j < SPAN; j++, x += x_ld) {
            if (!(inside & 1u << j)) continue;
            V v = V_OP(load)(x);
            VF_KEEP(v); /* or each of its uses loads it again */
#pragma GCC unroll 8
            for (int k = 0; k < COLUMNS; k++)
                if (j >= k && (j - k) % STEP == 0 && (j - k) / STEP < DEPTHWISE_PIXELS)
                    sum[(j - k) / STEP] = V_OP(fma)(v, tap[k], sum[(j - k) / STEP]);
        }
    }
    const ConvFinish *f = t->finish;
    const V lo = V_OP(set)(f->lo), hi = V_OP(set)(f->hi), bias = f->bias ? V_OP(load)(f->bias + c) : (V){0};
#pragma GCC unroll 8
    for (int i = 0; i < DEPTHWISE_PIXELS; i++) {
        if (i >= t->n) continue;
        V y = f->bias ? sum[i] + bias : sum[i];
        if (f->residual) y += V_OP(load)(f->residual + i * f->residual_ld + c);
        V_OP(store)(t->y + i * t->y_ld + c, V_OP(min)(hi, V_OP(max)(lo, y)));
    }
}

#undef SPAN
