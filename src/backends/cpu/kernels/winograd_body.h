/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's transforms of a block of OUT x OUT pixels: first along rows, then along columns. */

#define SIZE (OUT + 2)

INLINE void NAMED(in_vector, OUT)(const WinogradIn *t, int64_t c, int64_t n, const bool whole) {
    vf half[SIZE][SIZE];
    for (int i = 0; i < SIZE; i++) {
        vf d[SIZE];
        for (int j = 0; j < SIZE; j++) {
            const float *x = t->px[i * SIZE + j] + c;
            d[j] = whole ? vf_load(x) : vf_load_n(x, n);
        }
        NAMED(in_line, OUT)(d, half[i]);
    }
    for (int j = 0; j < SIZE; j++) {
        vf d[SIZE], v[SIZE];
        for (int i = 0; i < SIZE; i++) d[i] = half[i][j];
        NAMED(in_line, OUT)(d, v);
        for (int i = 0; i < SIZE; i++) vf_store(t->v + (i * SIZE + j) * t->v_step + c, v[i]);
    }
}

static void NAMED(in, OUT)(const WinogradIn *t) {
    int64_t c = 0;
    for (; c + VF <= t->channels; c += VF) NAMED(in_vector, OUT)(t, c, VF, true);
    if (c < t->channels) NAMED(in_vector, OUT)(t, c, t->channels - c, false);
}

/* Adds to `odd` what is 0 times each sum: 0 as long as all are finite. */
INLINE void NAMED(out_vector, OUT)(const WinogradOut *t, int64_t c, int64_t n, const bool whole, vf *odd) {
    vf half[OUT][SIZE];
    for (int j = 0; j < SIZE; j++) {
        vf m[SIZE], y[OUT];
        for (int i = 0; i < SIZE; i++) m[i] = vf_load(t->m + (i * SIZE + j) * t->m_step + c);
        NAMED(out_line, OUT)(m, y);
        for (int i = 0; i < OUT; i++) half[i][j] = y[i];
    }
    const ConvFinish *f = t->finish;
    const vf lo = vf_set(f->lo), hi = vf_set(f->hi), bias = f->bias ? vf_load(f->bias + c) : (vf){0};
    for (int i = 0; i < OUT; i++) {
        if (i >= t->rows) break;
        vf y[OUT];
        NAMED(out_line, OUT)(half[i], y);
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

static bool NAMED(out, OUT)(const WinogradOut *t) {
    vf odd = {0};
    int64_t c = 0;
    for (; c + VF <= t->channels; c += VF) NAMED(out_vector, OUT)(t, c, VF, true, &odd);
    if (c < t->channels) NAMED(out_vector, OUT)(t, c, t->channels - c, false, &odd);
    return vf_sum(odd) == 0;
}

/* Of half a vector of channels: columns of the window, then rows. */
INLINE void NAMED(weights_vector, OUT)(const float *w, int64_t width, vd points[SIZE][SIZE]) {
    const double(*g)[3] = NAMED(g, OUT);
    vd k[9], half[SIZE][3];
    for (int t = 0; t < 9; t++) {
        vh x;
        memcpy(&x, w + t * width, sizeof x);
        k[t] = __builtin_convertvector(x, vd);
    }
    for (int i = 0; i < SIZE; i++)
        for (int t = 0; t < 3; t++) half[i][t] = g[i][0] * k[t] + g[i][1] * k[3 + t] + g[i][2] * k[6 + t];
    for (int i = 0; i < SIZE; i++)
        for (int l = 0; l < SIZE; l++)
            points[i][l] = g[l][0] * half[i][0] + g[l][1] * half[i][1] + g[l][2] * half[i][2];
}

static void NAMED(weights, OUT)(const float *w, int64_t width, float *dst, int64_t step) {
    for (int64_t j = 0; j < width; j += VF) {
        vd low[SIZE][SIZE], high[SIZE][SIZE];
        NAMED(weights_vector, OUT)(w + j, width, low);
        NAMED(weights_vector, OUT)(w + j + VD, width, high);
        for (int i = 0; i < SIZE; i++)
            for (int l = 0; l < SIZE; l++)
                vf_store(dst + (i * SIZE + l) * step + j, vf_of_halves(low[i][l], high[i][l]));
    }
}

#undef SIZE
