/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of up to ROWS pixels by FEW output channels. Lanes run over the data's neighbours, and are added up at the end, in an
   order that is the same for each element of the result. */

/* `whole`: all runs are whole vectors; it is a constant. */
INLINE void TILE_NAME(runs, FEW)(const ConvTile *t, int64_t at, vf *c, const bool whole) {
    const int64_t w_ld = t->w_ld;
    for (int64_t r = 0; r < t->n_runs; r++) {
        const float *const *px = t->px + r * CONV_MOST_ROWS;
        const float *a[ROWS], *w = t->w + t->runs[r].k;
        const int64_t n = t->runs[r].n;
        UNROLL for (int i = 0; i < ROWS; i++) a[i] = px[i] + at;
        for (int64_t k = 0; k < n; k += VF) {
            const int64_t left = n - k < VF ? n - k : VF;
            vf b[FEW];
            UNROLL for (int j = 0; j < FEW; j++) b[j] = whole ? vf_load(w + j * w_ld + k)
                                                              : vf_load_n(w + j * w_ld + k, left);
            UNROLL for (int i = 0; i < ROWS; i++) {
                vf x = whole ? vf_load(a[i] + k) : vf_load_n(a[i] + k, left);
                if (FEW > 1) VF_KEEP(x); /* or each of its uses loads it again */
                UNROLL for (int j = 0; j < FEW; j++) c[i * FEW + j] = vf_fma(x, b[j], c[i * FEW + j]);
            }
        }
    }
}

static void TILE_NAME(ROWS, FEW)(const ConvTile *t) {
    const ConvFinish *f = t->finish;
    for (int64_t tile = 0; tile < t->tiles; tile++) {
        vf c[ROWS * FEW], sum[(ROWS * FEW + VF - 1) / VF];
        UNROLL for (int i = 0; i < ROWS * FEW; i++) c[i] = f && f->bias ? (vf){f->bias[i % FEW]} : (vf){0};
        if (t->whole) TILE_NAME(runs, FEW)(t, tile * t->px_step, c, true);
        else TILE_NAME(runs, FEW)(t, tile * t->px_step, c, false);
        if (t->resume || (f && f->residual)) {
            UNROLL for (int i = 0; i < ROWS * FEW; i++) c[i] += (vf){few_more(t, tile * t->rows, i / FEW, i % FEW)};
        }
        few_sums(c, ROWS * FEW, sum);
        few_finish(t, tile * t->rows, sum, FEW);
    }
}
#undef FEW
#undef ROWS
