/* SPDX-License-Identifier: Apache-2.0 */
/* ROWS rows of the result at once, under windows of 3 x 3 in steps of STEP both ways. It goes along the columns with a vector of
   channels: each element of the data is read once, meets all weights, which stay in registers, and sums wait in registers for
   the columns that are still to come. */

#define LAST (2 / STEP) /* steps from a window's first column to its last */
#define SUMS (ROWS * (LAST + 1))
#define SPAN ((ROWS - 1) * STEP + 3)

/* Column `phase` of a step meets the windows that began [low, high] steps before. */
INLINE void ROWS_NAME(column, ROWS, STEP)(const float *x, int64_t x_row, uint32_t inside, const vf *w, vf *sum,
                                          const int phase, const int low, const int high) {
    UNROLL for (int r = 0; r < SPAN; r++, x += x_row) {
        if (!(inside & 1u << r)) continue;
        vf v = vf_load(x);
        VF_KEEP(v); /* or each of its uses loads it again */
        UNROLL for (int o = 0; o < ROWS; o++) {
            const int tap = r - o * STEP;
            UNROLL for (int ago = low; ago <= high; ago++) if (tap >= 0 && tap < 3 && phase + ago * STEP < 3)
                sum[o * (LAST + 1) + ago] = vf_fma(v, w[tap * 3 + phase + ago * STEP], sum[o * (LAST + 1) + ago]);
        }
    }
}

INLINE void ROWS_NAME(store, ROWS, STEP)(float *y, int64_t y_row, const float *residual, int64_t residual_row, vf bias,
                                         vf lo, vf hi, const vf *sum) {
    UNROLL for (int o = 0; o < ROWS; o++) {
        vf v = sum[o * (LAST + 1) + LAST] + bias; /* last: sums beside a large one would be rounded as it is */
        if (residual) v += vf_load(residual + o * residual_row);
        vf_store(y + o * y_row, vf_min(hi, vf_max(lo, v)));
    }
}

INLINE void ROWS_NAME(next, ROWS, STEP)(vf *sum) {
    UNROLL for (int o = 0; o < ROWS; o++) {
        UNROLL for (int ago = LAST; ago > 0; ago--) sum[o * (LAST + 1) + ago] = sum[o * (LAST + 1) + ago - 1];
        sum[o * (LAST + 1)] = (vf){0};
    }
}

/* One vector of channels, c the first. The first and the last columns belong to some of their windows only. */
INLINE void ROWS_NAME(vector, ROWS, STEP)(const DepthwiseRows *t, int64_t c) {
    const ConvFinish *f = t->finish;
    const vf bias = f->bias ? vf_load(f->bias + c) : (vf){0}, lo = vf_set(f->lo), hi = vf_set(f->hi);
    const int64_t x_ld = t->x_ld, x_row = t->x_row, y_ld = t->y_ld, y_row = t->y_row, n = t->n, to = t->to;
    const int64_t residual_ld = f->residual_ld, residual_row = t->residual_row;
    const float *x = t->x + c, *residual = f->residual ? f->residual + c : NULL;
    float *y = t->y + c;
    uint32_t inside = t->inside;
    vf w[9], sum[SUMS];
    UNROLL for (int i = 0; i < 9; i++) w[i] = vf_load(t->w + i * t->w_ld + c);
    UNROLL for (int i = 0; i < SUMS; i++) sum[i] = (vf){0};
    UNROLL for (int at = 0; at < LAST * STEP; at++, x += x_ld) {
        if (at >= t->from && at < to) ROWS_NAME(column, ROWS, STEP)(x, x_row, inside, w, sum, at % STEP, 0, at / STEP);
        if (at % STEP == STEP - 1) ROWS_NAME(next, ROWS, STEP)(sum);
    }
    for (int64_t j = LAST; j < n; j++) {
        KEEP_BITS(inside); /* or there is a loop for each of its values */
        ROWS_NAME(column, ROWS, STEP)(x, x_row, inside, w, sum, 0, 0, LAST);
        ROWS_NAME(store, ROWS, STEP)(y, y_row, residual, residual_row, bias, lo, hi, sum);
        y += y_ld;
        if (residual) residual += residual_ld;
        x += x_ld;
        UNROLL for (int phase = 1; phase < STEP; phase++, x += x_ld)
            ROWS_NAME(column, ROWS, STEP)(x, x_row, inside, w, sum, phase, 0, LAST);
        ROWS_NAME(next, ROWS, STEP)(sum);
    }
    UNROLL for (int more = 1; more <= LAST; more++) {
        const int64_t j = n - 1 + more;
        if (j < LAST) continue;
        if (j * STEP < to) ROWS_NAME(column, ROWS, STEP)(x, x_row, inside, w, sum, 0, more, LAST);
        ROWS_NAME(store, ROWS, STEP)(y, y_row, residual, residual_row, bias, lo, hi, sum);
        y += y_ld;
        if (residual) residual += residual_ld;
        x += x_ld;
        ROWS_NAME(next, ROWS, STEP)(sum);
    }
}

/* The last channels once more rather than fewer at a time. */
static void ROWS_NAME(rows, ROWS, STEP)(const DepthwiseRows *t) {
    const int64_t last = t->channels - VF;
    for (int64_t c = 0; c < last + VF; c += VF) ROWS_NAME(vector, ROWS, STEP)(t, c < last ? c : last);
}

#undef LAST
#undef SUMS
#undef SPAN
#undef ROWS
