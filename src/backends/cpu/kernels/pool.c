/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of pools: vectors run along the channels, or along one channel where it lies by itself. */
#include "backends/cpu/pool_int.h"
#include "backends/cpu/kernels/vec_int.h"

#include <math.h>

INLINE vf load(const float *x, int64_t n, const bool whole) { return whole ? vf_load(x) : vf_load_n(x, n); }

INLINE void store(float *y, vf v, int64_t n, const bool whole) {
    if (whole) vf_store(y, v);
    else vf_store_n(y, v, n);
}

/* ---- largest ------------------------------------------------------------------------------------------------- */

enum { MOST_VECTORS = 4 /* at a time */ };

/* Where nothing is larger than -infinity, all may be NaN. */
static vf largest_anew(const PoolWindow *w, int64_t at, int64_t n) {
    vf best = vf_set(NAN);
    for (int64_t r = 0; r < w->n_rows; r++)
        for (int64_t i = 0; i < w->n; i++) {
            const vf v = vf_load_n(w->x[r] + i * w->x_ld + at, n < VF ? n : VF);
            best = vf_select((v > best) | (best != best), v, best);
        }
    return best;
}

/* Some neighbouring vectors of one window: `at` is where they lie in each pixel's data. */
INLINE void largest_vectors(const PoolWindow *w, int64_t at, float *y, int64_t n, const bool whole, const int vectors) {
    const vf least = vf_set(-INFINITY);
    vf best[MOST_VECTORS];
    for (int k = 0; k < vectors; k++) best[k] = least;
    for (int64_t r = 0; r < w->n_rows; r++) {
        const float *x = w->x[r] + at;
        for (int64_t i = 0; i < w->n; i++, x += w->x_ld)
            for (int k = 0; k < vectors; k++) best[k] = vf_max(load(x + k * VF, n, whole), best[k]);
    }
    vi low = best[0] == least;
    for (int k = 1; k < vectors; k++) low |= best[k] == least;
    const bool any = vi_any(low);
    for (int k = 0; k < vectors; k++) {
        if (any) best[k] = largest_anew(w, at + k * VF, n);
        store(y + k * VF, best[k], n, whole);
    }
}

static void largest(const PoolWindow *w) {
    for (int64_t i = 0; i < w->windows; i++) {
        const int64_t at = i * w->x_step;
        float *y = w->y + i * w->y_step;
        int64_t c = 0;
        for (; c + MOST_VECTORS * VF <= w->channels; c += MOST_VECTORS * VF)
            largest_vectors(w, at + c, y + c, VF, true, MOST_VECTORS);
        for (; c + VF <= w->channels; c += VF) largest_vectors(w, at + c, y + c, VF, true, 1);
        if (c < w->channels) largest_vectors(w, at + c, y + c, w->channels - c, false, 1);
    }
}

/* ---- sum ----------------------------------------------------------------------------------------------------- */

enum { FLOATS = 16 }; /* so many are added as floats */

typedef struct Sums {
    double of[VF];
} Sums;

INLINE void flush(Sums *sums, vf *part) {
    for (int i = 0; i < VF; i++) sums->of[i] += (double)(*part)[i];
    *part = (vf){0};
}

INLINE void sum_vector(const PoolWindow *w, int64_t at, float *y, int64_t n, const bool whole) {
    Sums sums = {{0}};
    vf part = {0};
    const bool small = w->n_rows * w->n <= FLOATS;
    int64_t added = 0;
    for (int64_t r = 0; r < w->n_rows; r++) {
        const float *x = w->x[r] + at;
        for (int64_t i = 0; i < w->n; i++, x += w->x_ld) {
            part += load(x, n, whole);
            if (!small && ++added % FLOATS == 0) flush(&sums, &part);
        }
    }
    if (!small) {
        flush(&sums, &part);
        for (int i = 0; i < VF; i++) part[i] = (float)sums.of[i];
    }
    store(y, part / vf_set(w->divisor), n, whole);
}

static void sum(const PoolWindow *w) {
    for (int64_t i = 0; i < w->windows; i++) {
        const int64_t at = i * w->x_step;
        float *y = w->y + i * w->y_step;
        int64_t c = 0;
        for (; c + VF <= w->channels; c += VF) sum_vector(w, at + c, y + c, VF, true);
        if (c < w->channels) sum_vector(w, at + c, y + c, w->channels - c, false);
    }
}

/* ---- one channel --------------------------------------------------------------------------------------------- */

static float largest_of(const float *x, int64_t n) {
    vf best = vf_set(-INFINITY);
    int64_t i = 0;
    for (; i + VF <= n; i += VF) best = vf_max(vf_load(x + i), best);
    float top = -INFINITY;
    for (int k = 0; k < VF; k++)
        if (best[k] > top) top = best[k];
    for (; i < n; i++) {
        float v;
        memcpy(&v, x + i, sizeof v);
        if (v > top) top = v;
    }
    if (top > -INFINITY) return top;
    top = NAN;
    for (i = 0; i < n; i++) {
        float v;
        memcpy(&v, x + i, sizeof v);
        if (v > top || top != top) top = v;
    }
    return top;
}

static double sum_of(const float *x, int64_t n) {
    Sums sums = {{0}};
    vf part = {0};
    double total = 0;
    int64_t i = 0, added = 0;
    for (; i + VF <= n; i += VF) {
        part += vf_load(x + i);
        if (++added % FLOATS == 0) flush(&sums, &part);
    }
    flush(&sums, &part);
    for (int k = 0; k < VF; k++) total += sums.of[k];
    for (; i < n; i++) {
        float v;
        memcpy(&v, x + i, sizeof v);
        total += (double)v;
    }
    return total;
}

const PoolTable ISA_NAME(pool_table) = {largest, sum, largest_of, sum_of};
