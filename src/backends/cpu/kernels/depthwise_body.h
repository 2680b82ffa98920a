/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise tiles for windows of COLUMNS columns in steps of STEP. Each element of the data is read once a row of the window
   and meets all weights while it is in a register. */

#define SPAN ((DEPTHWISE_PIXELS - 1) * STEP + COLUMNS)

/* One vector of channels, c the first. */
INLINE void TILE_NAME(vector, COLUMNS, STEP)(const DepthwiseTile *t, int64_t c) {
    vf sum[DEPTHWISE_PIXELS];
    for (int i = 0; i < DEPTHWISE_PIXELS; i++) sum[i] = (vf){0};
    for (int64_t r = 0; r < t->n_rows; r++) {
        const float *x = t->x[r] + c, *w = t->w[r] + c;
        vf tap[COLUMNS];
        for (int k = 0; k < COLUMNS; k++) tap[k] = vf_load(w + k * t->w_ld);
#pragma GCC unroll 20
        for (int j = 0; j < SPAN; j++) {
            if (j < t->from || j >= t->to) continue;
            vf v = vf_load(x + j * t->x_ld);
            VF_KEEP(v); /* or each of its uses loads it again */
#pragma GCC unroll 8
            for (int k = 0; k < COLUMNS; k++)
                if (j >= k && (j - k) % STEP == 0 && (j - k) / STEP < DEPTHWISE_PIXELS)
                    sum[(j - k) / STEP] = vf_fma(v, tap[k], sum[(j - k) / STEP]);
        }
    }
    const ConvFinish *f = t->finish;
    const vf lo = vf_set(f->lo), hi = vf_set(f->hi), bias = f->bias ? vf_load(f->bias + c) : (vf){0};
#pragma GCC unroll 8
    for (int i = 0; i < DEPTHWISE_PIXELS; i++) {
        if (i >= t->n) continue;
        vf y = f->bias ? sum[i] + bias : sum[i];
        if (f->residual) y += vf_load(f->residual + i * f->residual_ld + c);
        vf_store(t->y + i * t->y_ld + c, vf_min(hi, vf_max(lo, y)));
    }
}

/* The last channels once more rather than fewer at a time. */
static void TILE_NAME(tile, COLUMNS, STEP)(const DepthwiseTile *t) {
    const int64_t last = t->channels - VF;
    for (int64_t c = 0; c < last + VF; c += VF) TILE_NAME(vector, COLUMNS, STEP)(t, c < last ? c : last);
}

#undef SPAN
