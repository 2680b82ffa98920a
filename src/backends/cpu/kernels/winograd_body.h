/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's transforms of a block of OUT x OUT pixels from SIZE x SIZE: first along rows, then along columns. Included once
   for each KIND; IN names the first half where it is to be made. */

/* Four lines stay in registers. */
#if SIZE > 4
#define LINES ROLLED
#else
#define LINES
#endif

#ifdef IN
INLINE void NAMED(in_vector, IN)(const WinogradIn *t, int64_t c, int64_t n, const bool whole) {
    vf half[SIZE][SIZE];
    LINES for (int i = 0; i < SIZE; i++) {
        vf d[SIZE];
        for (int j = 0; j < SIZE; j++) {
            const float *x = t->px[i * SIZE + j] + c;
            d[j] = whole ? vf_load(x) : vf_load_n(x, n);
        }
#ifdef HAS_FEW
        if (t->few_cols) NAMED(in_few, IN)(d, half[i]);
        else
#endif
            NAMED(in_line, IN)(d, half[i]);
    }
    LINES for (int j = 0; j < SIZE; j++) {
        vf d[SIZE], v[SIZE];
        for (int i = 0; i < SIZE; i++) d[i] = half[i][j];
#ifdef HAS_FEW
        if (t->few_rows) NAMED(in_few, IN)(d, v);
        else
#endif
            NAMED(in_line, IN)(d, v);
        for (int i = 0; i < SIZE; i++) vf_store(t->v + (i * SIZE + j) * t->v_step + c, v[i]);
    }
}

static void NAMED(in, IN)(const WinogradIn *t) {
    int64_t c = 0;
    for (; !MASKS && c + VF <= t->channels; c += VF) NAMED(in_vector, IN)(t, c, VF, true);
    for (; c < t->channels; c += VF) NAMED(in_vector, IN)(t, c, rest_of(t->channels - c), false);
}
#undef IN
#endif

/* Adds to `odd` what is 0 times each sum: 0 as long as all are finite. */
INLINE void NAMED(out_vector, KIND)(const WinogradOut *t, int64_t c, int64_t n, const bool whole, vf *odd) {
    vf half[OUT][SIZE];
    LINES for (int j = 0; j < SIZE; j++) {
        vf m[SIZE], y[OUT];
        for (int i = 0; i < SIZE; i++) m[i] = vf_load(t->m + (i * SIZE + j) * t->m_step + c);
#ifdef HAS_FEW
        if (t->few_rows) NAMED(out_few, KIND)(m, y);
        else
#endif
            NAMED(out_line, KIND)(m, y);
        for (int i = 0; i < OUT; i++) half[i][j] = y[i];
    }
    const ConvFinish *f = t->finish;
    const vf lo = vf_set(f->lo), hi = vf_set(f->hi), bias = f->bias ? vf_load(f->bias + c) : (vf){0};
    LINES for (int i = 0; i < t->rows; i++) {
        vf y[OUT];
#ifdef HAS_FEW
        if (t->few_cols) NAMED(out_few, KIND)(half[i], y);
        else
#endif
            NAMED(out_line, KIND)(half[i], y);
        for (int j = 0; j < OUT; j++) {
            if (j >= t->cols) break;
            *odd += y[j] * 0;
            if (f->bias) y[j] += bias;
            if (f->residual) {
                const float *r = f->residual + i * t->residual_row + j * f->residual_ld + c;
                y[j] += whole ? vf_load(r) : vf_load_n(r, n);
            }
            y[j] = vf_min(hi, vf_max(lo, y[j]));
            float *to = t->y + i * t->y_row + j * t->y_ld + c;
            if (whole) vf_store(to, y[j]);
            else vf_store_n(to, y[j], n);
        }
    }
}

static bool NAMED(out, KIND)(const WinogradOut *t) {
    vf odd = {0};
    int64_t c = 0;
    for (; !MASKS && c + VF <= t->channels; c += VF) NAMED(out_vector, KIND)(t, c, VF, true, &odd);
    for (; c < t->channels; c += VF) NAMED(out_vector, KIND)(t, c, rest_of(t->channels - c), false, &odd);
    return vf_sum(odd) == 0;
}

#undef HAS_FEW
#undef LINES
#undef KIND
#undef OUT
#undef SIZE
