/* SPDX-License-Identifier: Apache-2.0 */
/* ROWS rows of the result at once, under windows of 3 x 3 in steps of STEP both ways. It goes along the columns with a V, a
   vector of channels: each element of the data is read once, meets all weights, which stay in registers, and sums wait in
   registers for the columns that are still to come. */

#define LAST (2 / STEP) /* steps from a window's first column to its last */
#define SUMS (ROWS * (LAST + 1))
#define SPAN ((ROWS - 1) * STEP + 3)

/* Column `phase` of a step meets the windows that began [low, high] steps before. */
INLINE void OF_V(column, ROWS, STEP)(const float *x, int64_t x_row, uint32_t inside, const V *w, V *sum,
                                     const Repeated *repeated, const int phase, const int low, const int high) {
    UNROLL for (int r = 0; r < SPAN; r++, x += x_row) {
        if (!(inside & 1u << r)) continue;
        V v = X_LOAD(x);
        VF_KEEP(v); /* or each of its uses loads it again */
        UNROLL for (int o = 0; o < ROWS; o++) {
            const int tap = r - o * STEP;
            UNROLL for (int ago = low; ago <= high; ago++) if (tap >= 0 && tap < 3 && phase + ago * STEP < 3)
                sum[o * (LAST + 1) + ago] = V_OP(fma)(v, w[tap * 3 + phase + ago * STEP], sum[o * (LAST + 1) + ago]);
        }
    }
}

INLINE void OF_V(store, ROWS, STEP)(float *y, int64_t y_row, const float *residual, int64_t residual_row, V bias, V lo,
                                    V hi, const V *sum) {
    UNROLL for (int o = 0; o < ROWS; o++) {
        V v = sum[o * (LAST + 1) + LAST] + bias; /* last: sums beside a large one would be rounded as it is */
        if (residual) v += V_OP(load)(residual + o * residual_row);
        V_OP(store)(y + o * y_row, V_OP(min)(hi, V_OP(max)(lo, v)));
    }
}

INLINE void OF_V(next, ROWS, STEP)(V *sum) {
    UNROLL for (int o = 0; o < ROWS; o++) {
        UNROLL for (int ago = LAST; ago > 0; ago--) sum[o * (LAST + 1) + ago] = sum[o * (LAST + 1) + ago - 1];
        sum[o * (LAST + 1)] = (V){0};
    }
}

/* One vector of channels, c the first. The first and the last columns belong to some of their windows only. */
INLINE void OF_V(rows, ROWS, STEP)(const DepthwiseRows *t, int64_t c) {
    const ConvFinish *f = t->finish;
    const V bias = f->bias ? V_OP(load)(f->bias + c) : (V){0}, lo = V_OP(set)(f->lo), hi = V_OP(set)(f->hi);
    const int64_t x_ld = t->x_ld, x_row = t->x_row, y_ld = t->y_ld, y_row = t->y_row, n = t->n, to = t->to;
    const int64_t residual_ld = f->residual_ld, residual_row = t->residual_row;
    const float *x = t->x + X_CHANNEL(t, c), *residual = f->residual ? f->residual + c : NULL;
    float *y = t->y + c;
    const Repeated repeated = X_REPEATED(t, c);
    uint32_t inside = t->inside;
    V w[9], sum[SUMS];
    UNROLL for (int i = 0; i < 9; i++) w[i] = V_OP(load)(t->w + i * t->w_ld + c);
    UNROLL for (int i = 0; i < SUMS; i++) sum[i] = (V){0};
    UNROLL for (int at = 0; at < LAST * STEP; at++, x += x_ld) {
        if (at >= t->from && at < to)
            OF_V(column, ROWS, STEP)(x, x_row, inside, w, sum, &repeated, at % STEP, 0, at / STEP);
        if (at % STEP == STEP - 1) OF_V(next, ROWS, STEP)(sum);
    }
    for (int64_t j = LAST; j < n; j++) {
        KEEP_BITS(inside); /* or there is a loop for each of its values */
        OF_V(column, ROWS, STEP)(x, x_row, inside, w, sum, &repeated, 0, 0, LAST);
        OF_V(store, ROWS, STEP)(y, y_row, residual, residual_row, bias, lo, hi, sum);
        y += y_ld;
        if (residual) residual += residual_ld;
        x += x_ld;
        UNROLL for (int phase = 1; phase < STEP; phase++, x += x_ld)
            OF_V(column, ROWS, STEP)(x, x_row, inside, w, sum, &repeated, phase, 0, LAST);
        OF_V(next, ROWS, STEP)(sum);
    }
    UNROLL for (int more = 1; more <= LAST; more++) {
        const int64_t j = n - 1 + more;
        if (j < LAST) continue;
        if (j * STEP < to) OF_V(column, ROWS, STEP)(x, x_row, inside, w, sum, &repeated, 0, more, LAST);
        OF_V(store, ROWS, STEP)(y, y_row, residual, residual_row, bias, lo, hi, sum);
        y += y_ld;
        if (residual) residual += residual_ld;
        x += x_ld;
        OF_V(next, ROWS, STEP)(sum);
    }
}

#undef LAST
#undef SUMS
#undef SPAN
#undef ROWS
