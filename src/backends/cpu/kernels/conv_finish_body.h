/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a tile: what follows its sums c[ROWS][ALL], of which the last vector has `last` channels, and storing them at `to`. */

const ConvFinish *f = t->finish;
if (f && f->bias) { /* not to begin with: sums beside a large bias would be rounded as it is */
    UNROLL for (int j = 0; j < ALL; j++) {
        const vf bias = vf_load(f->bias + j * VF);
        UNROLL for (int i = 0; i < ROWS; i++) c[i][j] += bias;
    }
}
if (f && f->residual) {
    UNROLL for (int i = 0; i < ROWS; i++) {
        const float *residual = f->residual + (tile * ROWS + i) * f->residual_ld;
        UNROLL for (int j = 0; j < ALL - 1; j++) c[i][j] += vf_load(residual + j * VF);
        c[i][ALL - 1] += vf_load_n(residual + (ALL - 1) * VF, last);
    }
}
if (f && f->lo > -INFINITY) { /* a NaN stays one */
    const vf lo = vf_set(f->lo);
    UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < ALL; j++) c[i][j] = vf_max(lo, c[i][j]);
}
if (f && f->hi < INFINITY) {
    const vf hi = vf_set(f->hi);
    UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < ALL; j++) c[i][j] = vf_min(hi, c[i][j]);
}
UNROLL for (int i = 0; i < ROWS; i++) {
    float *y = to + i * y_ld;
    UNROLL for (int j = 0; j < ALL - 1; j++) vf_store(y + j * VF, c[i][j]);
    store_last(y + (ALL - 1) * VF, c[i][ALL - 1], last);
}
