/* SPDX-License-Identifier: Apache-2.0 */
/* One tile: MR rows by NV vectors, which stay in registers; AHEAD lines of what comes next are brought in at each step.
   Included with all three defined: array sizes must be literal, else the compiler keeps the sums in memory. */

#define TILE_NAME_(m, n, ahead) tile_##m##_##n##_##ahead
#define TILE_NAME(m, n, ahead) TILE_NAME_(m, n, ahead)

static void TILE_NAME(MR, NV, AHEAD)(const GemmPanel *p, int64_t row, const float *next, int64_t step) {
    const float *a = p->a + row * p->a_row, *b = p->b;
    const int64_t a_row = p->a_row, b_row = p->b_row;
    vf sum[MR][NV];
    UNROLL for (int i = 0; i < MR; i++) { UNROLL for (int j = 0; j < NV; j++) sum[i][j] = (vf){0}; }
    for (int64_t k = p->k; k > 0; k--, a++, b += b_row, next += step) {
        vf v[NV];
        UNROLL for (int j = 0; j < NV; j++) v[j] = vf_load(b + j * VF);
        UNROLL for (int l = 0; l < AHEAD; l++) __builtin_prefetch(next + l * LINE, 0, 2);
        UNROLL for (int i = 0; i < MR; i++) {
            UNROLL for (int j = 0; j < NV; j++) sum[i][j] = vf_fma(v[j], vf_set(a[i * a_row]), sum[i][j]);
        }
    }
    float *c = p->c + row * p->c_row;
    const int64_t c_row = p->c_row, last = p->cols - (NV - 1) * VF;
    if (p->accumulate) {
        UNROLL for (int i = 0; i < MR; i++) {
            UNROLL for (int j = 0; j < NV; j++)
                sum[i][j] += load_columns(c + i * c_row + j * VF, j < NV - 1 ? VF : last);
        }
    }
    if (p->tail) {
        const GemmTail *t = p->tail;
        if (t->alpha != 1) {
            UNROLL for (int i = 0; i < MR; i++) {
                UNROLL for (int j = 0; j < NV; j++) sum[i][j] = rounded(sum[i][j] * t->alpha);
            }
        }
        if (t->bias) {
            UNROLL for (int j = 0; j < NV; j++) {
                vf bias = load_columns(t->bias + j * VF, j < NV - 1 ? VF : last);
                UNROLL for (int i = 0; i < MR; i++) sum[i][j] += bias;
            }
        }
        if (t->residual) {
            const float *r = t->residual + row * t->residual_row;
            UNROLL for (int i = 0; i < MR; i++) {
                UNROLL for (int j = 0; j < NV; j++)
                    sum[i][j] += load_columns(r + i * t->residual_row + j * VF, j < NV - 1 ? VF : last);
            }
        }
        if (t->lo > -__builtin_inff() || t->hi < __builtin_inff()) {
            vf lo = vf_set(t->lo), hi = vf_set(t->hi);
            UNROLL for (int i = 0; i < MR; i++) {
                UNROLL for (int j = 0; j < NV; j++) sum[i][j] = vf_min(hi, vf_max(lo, sum[i][j]));
            }
        }
    }
    UNROLL for (int i = 0; i < MR; i++) {
        float *to = c + i * c_row;
        UNROLL for (int j = 0; j < NV; j++) store_columns(to + j * VF, sum[i][j], j < NV - 1 ? VF : last);
    }
}

#undef TILE_NAME
#undef TILE_NAME_
#undef MR
