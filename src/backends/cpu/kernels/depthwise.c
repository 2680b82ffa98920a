/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions: vectors run along the channels. */
#include "backends/cpu/depthwise_int.h"
#include "backends/cpu/kernels/vec_int.h"

/* ---- rows that share data, and tiles ---------------------------------------------------------------------------- */

/* Has the compiler forget what it knows of these bits. */
#define KEEP_BITS(bits) __asm__("" : "+r"(bits))

/* So that sums and weights stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define OF_V_(what, a, b, v) what##_##a##_##b##_##v
#define OF_V_EXPANDED(what, a, b, v) OF_V_(what, a, b, v)
#define OF_V(what, a, b) OF_V_EXPANDED(what, a, b, V_NAME)
#define V_OP_(op, v) v##_##op
#define V_OP_EXPANDED(op, v) V_OP_(op, v)
#define V_OP(op) V_OP_EXPANDED(op, V)

/* Where a channel of the data has several results: which element of a vector of the data each of a vector of results belongs
   to, and how many of the data there are. */
typedef struct Repeated {
    vi from;
    int64_t n;
} Repeated;

#define X_CHANNEL(t, c) (c)
#define X_REPEATED(t, c) ((Repeated){{0}, 0})
#define X_LOAD(x) ((void)repeated, V_OP(load)(x))
#define V vf
#define V_NAME vf
#include "backends/cpu/kernels/depthwise_vectors_body.h"
#undef V
#undef V_NAME
#if defined(VF_HALVES)
#define V vh
#define V_NAME vh
#include "backends/cpu/kernels/depthwise_vectors_body.h"
#undef V
#undef V_NAME
#endif
#undef X_CHANNEL
#undef X_REPEATED
#undef X_LOAD

#if defined(VF_PICKS)
INLINE Repeated repeated_from(int64_t channel, int64_t times) {
    vf lane;
    for (int l = 0; l < VF; l++) lane[l] = (float)l + 0.5f; /* so that no quotient is near an integer */
    const int64_t in = channel % times;
    return (Repeated){__builtin_convertvector((lane + (float)in) / (float)times, vi), (in + VF - 1) / times + 1};
}
#define X_CHANNEL(t, c) (((t)->channel + (c)) / (t)->times)
#define X_REPEATED(t, c) repeated_from((t)->channel + (c), (t)->times)
#define X_LOAD(x) vf_pick(vf_load_n(x, repeated->n), repeated->from)
#define V vf
#define V_NAME repeated
#include "backends/cpu/kernels/depthwise_vectors_body.h"
#undef V
#undef V_NAME
#endif

/* The last channels once more rather than fewer at a time; eight and fewer as half a vector. */
#if defined(VF_HALVES)
#define ALL_CHANNELS(what, a, b, Args)                                                             \
    static void what##_##a##_##b(const Args *t) {                                                  \
        const int64_t n = t->channels, rest = n % VF, whole = n < VF || rest <= VH ? n - rest : n; \
        int64_t c = 0;                                                                             \
        for (; c < whole; c += VF) what##_##a##_##b##_vf(t, c + VF < n ? c : n - VF);              \
        for (; c < n; c += VH) what##_##a##_##b##_vh(t, c + VH < n ? c : n - VH);                  \
    }
#else
#define ALL_CHANNELS(what, a, b, Args)                                                         \
    static void what##_##a##_##b(const Args *t) {                                              \
        const int64_t n = t->channels;                                                         \
        for (int64_t c = 0; c < n; c += VF) what##_##a##_##b##_vf(t, c + VF < n ? c : n - VF); \
    }
#endif

#define ALL_REPEATED(what, a, b, Args)                                                               \
    static void what##_##a##_##b##_of_repeated(const Args *t) {                                      \
        const int64_t n = t->channels;                                                               \
        for (int64_t c = 0; c < n; c += VF) what##_##a##_##b##_repeated(t, c + VF < n ? c : n - VF); \
    }

/* All that there are: windows of so many columns, or rows, by steps. */
#define TILES(each)                                                                                 \
    each(tile, 3, 1, DepthwiseTile) each(tile, 3, 2, DepthwiseTile) each(tile, 5, 1, DepthwiseTile) \
        each(tile, 5, 2, DepthwiseTile) each(tile, 7, 1, DepthwiseTile) each(tile, 7, 2, DepthwiseTile)
#define FEW_ROWS(each)                                                                              \
    each(rows, 1, 1, DepthwiseRows) each(rows, 2, 1, DepthwiseRows) each(rows, 1, 2, DepthwiseRows) \
        each(rows, 2, 2, DepthwiseRows)
#if defined(__AVX512F__)
#define ROWS_OF(each) FEW_ROWS(each) each(rows, 3, 2, DepthwiseRows) each(rows, 4, 2, DepthwiseRows)
#else
#define ROWS_OF(each) FEW_ROWS(each)
#endif
TILES(ALL_CHANNELS)
ROWS_OF(ALL_CHANNELS)
#if defined(VF_PICKS)
TILES(ALL_REPEATED)
ROWS_OF(ALL_REPEATED)
#endif

/* ---- any window ----------------------------------------------------------------------------------------------- */

/* One vector of channels, or the first n of one. */
INLINE vf pixel_sum(const DepthwiseTile *t, const DepthwiseWindow *window, int64_t c, int64_t n, const bool whole) {
    vf sum = {0};
    for (int64_t r = 0; r < window->n; r++) {
        const float *x = window->x[r] + t->x_at + c, *w = window->w[r] + c;
        for (int64_t k = t->from; k < t->to; k++) {
            const vf v = whole ? vf_load(x + k * t->x_ld) : vf_load_n(x + k * t->x_ld, n);
            sum = vf_fma(v, vf_load(w + k * t->w_ld), sum);
        }
    }
    return sum;
}

INLINE void pixel_of(const DepthwiseTile *t, int64_t i) {
    const ConvFinish *f = t->finish;
    const vf lo = vf_set(f->lo), hi = vf_set(f->hi);
    const float *residual = f->residual ? f->residual + i * t->residual_row : NULL;
    float *to = t->y + i * t->y_row;
    for (int64_t c = 0; c < t->channels; c += VF) {
        const int64_t n = t->channels - c;
        const bool whole = n >= VF;
        vf y = whole ? pixel_sum(t, &t->windows[i], c, VF, true) : pixel_sum(t, &t->windows[i], c, n, false);
        if (f->bias) y += vf_load(f->bias + c);
        if (residual) y += whole ? vf_load(residual + c) : vf_load_n(residual + c, n);
        y = vf_min(hi, vf_max(lo, y));
        if (whole) vf_store(to + c, y);
        else vf_store_n(to + c, y, n);
    }
}

static void pixel(const DepthwiseTile *t) {
    for (int64_t i = 0; i < t->n_windows; i++) pixel_of(t, i);
}

/* ---- small groups -------------------------------------------------------------------------------------------- */

#if defined(VF_PICKS)
enum { GROUPED_PIXELS = VF == 16 ? 6 : 4 };

/* One vector of channels. Input channel i of each group meets the weights of all that the group becomes. */
INLINE void grouped_vector(const DepthwiseTile *t, int64_t i_row, int64_t c, const int group) {
    const DepthwiseWindow *window = &t->windows[i_row];
    vf sum[GROUPED_PIXELS];
    vi from[8];
    for (int i = 0; i < GROUPED_PIXELS; i++) sum[i] = (vf){0};
#pragma GCC unroll 8
    for (int i = 0; i < group; i++)
        for (int l = 0; l < VF; l++) from[i][l] = l / group * group + i;
    for (int64_t r = 0; r < window->n; r++) {
        const float *x_row = window->x[r] + t->x_at + c, *w = window->w[r] + c;
        for (int64_t k = 0; k < t->columns; k++, w += group * t->w_ld) {
            vf x[GROUPED_PIXELS];
#pragma GCC unroll 8
            for (int p = 0; p < GROUPED_PIXELS; p++) {
                const int64_t at = p * t->step + k * t->dilation;
                x[p] = p < t->n && at >= t->from && at < t->to ? vf_load(x_row + at * t->x_ld) : (vf){0};
            }
#pragma GCC unroll 8
            for (int i = 0; i < group; i++) {
                const vf tap = vf_load(w + i * t->w_ld);
#pragma GCC unroll 8
                for (int p = 0; p < GROUPED_PIXELS; p++) sum[p] = vf_fma(vf_pick(x[p], from[i]), tap, sum[p]);
            }
        }
    }
    const ConvFinish *f = t->finish;
    const vf lo = vf_set(f->lo), hi = vf_set(f->hi), bias = f->bias ? vf_load(f->bias + c) : (vf){0};
#pragma GCC unroll 8
    for (int p = 0; p < GROUPED_PIXELS; p++) {
        if (p >= t->n) break;
        vf y = f->bias ? sum[p] + bias : sum[p];
        if (f->residual) y += vf_load(f->residual + i_row * t->residual_row + p * f->residual_ld + c);
        vf_store(t->y + i_row * t->y_row + p * t->y_ld + c, vf_min(hi, vf_max(lo, y)));
    }
}

/* The last channels once more rather than fewer at a time: whole groups they are. */
INLINE void grouped_tile(const DepthwiseTile *t, const int group) {
    const int64_t n = t->channels;
    for (int64_t c = 0; c < n; c += VF)
        for (int64_t i = 0; i < t->n_windows; i++) grouped_vector(t, i, c + VF < n ? c : n - VF, group);
}

static void grouped_2(const DepthwiseTile *t) { grouped_tile(t, 2); }
static void grouped_4(const DepthwiseTile *t) { grouped_tile(t, 4); }
#if defined(__AVX512F__)
static void grouped_8(const DepthwiseTile *t) { grouped_tile(t, 8); }
#endif
#endif

/* ---- several results of a channel ----------------------------------------------------------------------------- */

static void repeat(float *y, const float *x, int64_t n, int64_t times) {
    int64_t i = 0;
#if defined(VF_PICKS)
    vi from[DEPTHWISE_REPEATS];
    for (int j = 0, of = 0, left = (int)times; j < times; j++)
        for (int l = 0; l < VF; l++) {
            from[j][l] = of;
            if (--left == 0) of++, left = (int)times;
        }
    for (; i + VF <= n; i += VF) {
        const vf v = vf_load(x + i);
        for (int j = 0; j < times; j++, y += VF) vf_store(y, vf_pick(v, from[j]));
    }
#endif
    for (; i < n; i++)
        for (int64_t j = 0; j < times; j++) *y++ = float_at(x + i);
}

const DepthwiseTable ISA_NAME(depthwise_table) = {
    .vector = VF,
#if defined(VF_HALVES)
    .least = VH,
#else
    .least = VF,
#endif
#define AT_TILE(what, a, b, Args) .tile[a][b] = tile_##a##_##b,
#define AT_ROWS(what, a, b, Args) .rows[b][a] = rows_##a##_##b,
    TILES(AT_TILE) ROWS_OF(AT_ROWS)
#if defined(VF_PICKS)
#define AT_TILE_REPEATED(what, a, b, Args) .tile_repeated[a][b] = tile_##a##_##b##_of_repeated,
#define AT_ROWS_REPEATED(what, a, b, Args) .rows_repeated[b][a] = rows_##a##_##b##_of_repeated,
        TILES(AT_TILE_REPEATED) ROWS_OF(AT_ROWS_REPEATED)
#endif
#if defined(__AVX512F__)
            .most_rows = {0, 2, 4},
#else
        .most_rows = {0, 2, 2},
#endif
    .pixel = pixel,
    .repeat = repeat,
#if defined(__AVX512F__)
    .grouped = {[2] = grouped_2, [4] = grouped_4, [8] = grouped_8},
    .grouped_pixels = GROUPED_PIXELS,
#elif defined(__AVX2__)
    .grouped = {[2] = grouped_2, [4] = grouped_4},
    .grouped_pixels = GROUPED_PIXELS,
#endif
};
