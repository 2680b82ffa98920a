/* SPDX-License-Identifier: Apache-2.0 */
/* What is added to a tile's sums c[ROWS][ALL], of which the last vector has `last` channels. */

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
