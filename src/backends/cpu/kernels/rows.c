/* SPDX-License-Identifier: Apache-2.0 */
/* Reducing and rescaling rows and columns. */
#include "backends/cpu/kernels/math_int.h"
#include "backends/cpu/kernels/shuffle_int.h"
#include "backends/cpu/rows_int.h"

enum {
    BLOCK = 2048, /* elements of a row whose sum is a float's; 4 * VF lanes share them */
    DEPTH = 32    /* rows of columns for which that is so */
};

INLINE vf most(vf a, vf x) { return vf_select((a > x) | (a != a), a, x); } /* NaN stays */
INLINE vf least(vf a, vf x) { return vf_select((a < x) | (a != a), a, x); }
INLINE vf fold(RowsKind kind, vf acc, vf x) {
    switch (kind) {
    case ROWS_SUM: return acc + x;
    case ROWS_ABS: return acc + vf_abs(x);
    case ROWS_SQUARE: return vf_fma(x, x, acc);
    case ROWS_MAX: return most(acc, x);
    case ROWS_MIN: return least(acc, x);
    default: return vf_max(x, acc);
    }
}
INLINE vf first_of(RowsKind kind) { return vf_set(kind == ROWS_MAX ? -INFINITY : kind == ROWS_MIN ? INFINITY : 0.0f); }
INLINE double join(RowsKind kind, double a, double x) {
    switch (kind) {
    case ROWS_MAX: return a > x || a != a ? a : x;
    case ROWS_MIN: return a < x || a != a ? a : x;
    default: return a + x;
    }
}

/* The lower half with the upper half taken in, `n` lanes being left: in the same order on every level of that width. */
#define FOLD_HALVES(t, op)                          \
    for (int width = VF / 2; width > 0; width /= 2) \
        for (int k = 0; k < width; k++) t[k] = op(t[k], t[k + width])
#define PLUS(a, b) ((a) + (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))
INLINE float sum_lanes(vf v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#else
    float t[VF];
    vf_store(t, v);
    FOLD_HALVES(t, PLUS);
    return t[0];
#endif
}
/* NaN need not be seen. */
INLINE float top_lane(vf v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float t[VF];
    vf_store(t, v);
    FOLD_HALVES(t, MORE);
    return t[0];
#endif
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Where the first n lanes are. */
INLINE vi lanes_below(int64_t n) {
    vi lane;
    for (int i = 0; i < VF; i++) lane[i] = i;
    return lane < (int32_t)n;
}
/* The lanes that the rest of a row does not fill stay as they are. */
INLINE vf fold_rest(RowsKind kind, vf acc, const float *x, int64_t n) {
    return vf_select(lanes_below(n), fold(kind, acc, vf_load_n(x, n)), acc);
}

INLINE double reduce_block(RowsKind kind, const float *x, int64_t n) {
    vf a = first_of(kind), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * VF <= n; i += 4 * VF) {
        a = fold(kind, a, vf_load(x + i));
        b = fold(kind, b, vf_load(x + i + VF));
        c = fold(kind, c, vf_load(x + i + 2 * VF));
        d = fold(kind, d, vf_load(x + i + 3 * VF));
    }
    for (; i + VF <= n; i += VF) a = fold(kind, a, vf_load(x + i));
    if (i < n) b = fold_rest(kind, b, x + i, n - i);
    if (kind != ROWS_MAX && kind != ROWS_MIN) return (double)sum_lanes((a + b) + (c + d));
    vf all = fold(kind, fold(kind, a, b), fold(kind, c, d));
    float nan = sum_lanes(vf_select(all != all, all, (vf){0}));
    float top = kind == ROWS_MAX ? top_lane(all) : -top_lane(-all);
    return (double)(nan != nan ? nan : top);
}

/* A function for each kind. */
#define EACH_KIND(DEFINE) \
    DEFINE(sum, ROWS_SUM) DEFINE(abs, ROWS_ABS) DEFINE(square, ROWS_SQUARE) DEFINE(max, ROWS_MAX) DEFINE(min, ROWS_MIN)
#define REDUCE(name, kind)                                                                 \
    static double reduce_##name(const float *x, int64_t n) {                               \
        double result = (double)first_of(kind)[0];                                         \
        for (int64_t i = 0; i < n; i += BLOCK)                                             \
            result = join(kind, result, reduce_block(kind, x + i, min_i64(BLOCK, n - i))); \
        return result;                                                                     \
    }
EACH_KIND(REDUCE)

/* ---- short rows -------------------------------------------------------------------------------------------------- */

INLINE vf plus(vf a, vf b) { return a + b; }

/* Each row in the lanes of a vector first, then the lanes of as many rows as one has. */
INLINE void reduce_short(RowsKind kind, float *y, const float *x, int64_t x_ld, int64_t rows, int64_t n) {
    const int64_t rest = n % VF, whole = n - rest;
    const vi there = lanes_below(rest);
    for (int64_t r = 0; r < rows; r += VF) {
        vf v[VF];
        for (int i = 0; i < VF; i++) {
            const float *row = x + min_i64(r + i, rows - 1) * x_ld;
            vf all = first_of(kind);
            for (int64_t k = 0; k < whole; k += VF) all = fold(kind, all, vf_load(row + k));
            v[i] = rest ? vf_select(there, fold(kind, all, vf_load_n(row + whole, rest)), all) : all;
        }
        if (kind == ROWS_MAX) {
            LANES_TOGETHER(most, v);
        } else if (kind == ROWS_MIN) {
            LANES_TOGETHER(least, v);
        } else {
            LANES_TOGETHER(plus, v);
        }
        if (rows - r >= VF) vf_store(y + r, v[0]);
        else vf_store_n(y + r, v[0], rows - r);
    }
}

#define REDUCE_SHORT(name, kind)                                                                \
    static void short_##name(float *y, const float *x, int64_t x_ld, int64_t rows, int64_t n) { \
        reduce_short(kind, y, x, x_ld, rows, n);                                                \
    }
EACH_KIND(REDUCE_SHORT)

/* ---- rows of any length ------------------------------------------------------------------------------------------ */

static void moments(const float *x, int64_t n, float about, double *sum, double *squares) {
    vf m = vf_set(about);
    *sum = *squares = 0;
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t end = min_i64(n, from + BLOCK), i = from;
        vf a = {0}, b = {0}, p = {0}, q = {0};
        for (; i + 2 * VF <= end; i += 2 * VF) {
            vf v = vf_load(x + i) - m, w = vf_load(x + i + VF) - m;
            a += v;
            b += w;
            p = vf_fma(v, v, p);
            q = vf_fma(w, w, q);
        }
        for (; i < end; i += VF) {
            int64_t k = min_i64(VF, end - i);
            vf v = vf_select(lanes_below(k), vf_load_n(x + i, k) - m, (vf){0});
            a += v;
            p = vf_fma(v, v, p);
        }
        *sum += (double)sum_lanes(a + b);
        *squares += (double)sum_lanes(p + q);
    }
}

/* The largest; NaNs are passed over. */
INLINE float top_of(const float *x, int64_t n) {
    vf a = vf_set(-INFINITY), b = a;
    int64_t i = 0;
    for (; i + 2 * VF <= n; i += 2 * VF) {
        a = vf_max(vf_load(x + i), a);
        b = vf_max(vf_load(x + i + VF), b);
    }
    for (; i + VF <= n; i += VF) a = vf_max(vf_load(x + i), a);
    if (i < n) b = fold_rest(ROWS_KINDS, b, x + i, n - i);
    return top_lane(vf_max(a, b));
}

INLINE double exp_sum_of(float *y, const float *x, float top, int64_t n) {
    vf t = vf_set(top);
    double sum = 0;
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t end = min_i64(n, from + BLOCK), i = from;
        vf a = {0}, b = {0};
        for (; i + 2 * VF <= end; i += 2 * VF) {
            vf p = vf_exp(vf_load(x + i) - t), q = vf_exp(vf_load(x + i + VF) - t);
            vf_store(y + i, p);
            vf_store(y + i + VF, q);
            a += p;
            b += q;
        }
        for (; i < end; i += VF) {
            int64_t m = min_i64(VF, end - i);
            vf p = vf_exp(vf_load_n(x + i, m) - t);
            vf_store_n(y + i, p, m);
            a += vf_select(lanes_below(m), p, (vf){0});
        }
        sum += (double)sum_lanes(a + b);
    }
    return sum;
}

static double exp_sum(float *y, const float *x, float top, int64_t n) { return exp_sum_of(y, x, top, n); }
static float top(const float *x, int64_t n) { return top_of(x, n); }

/* A row of up to 4 vectors, of which `full` are full, stays in registers. Lanes that are not there are as -inf. */
INLINE void softmax_short(float *y, const float *x, int64_t n, int full) {
    vf v[4], a = vf_set(-INFINITY), sum = {0};
    int64_t rest = n - full * VF;
    for (int k = 0; k < 4; k++) {
        v[k] = vf_set(-INFINITY);
        if (k < full) v[k] = vf_load(x + k * VF);
        if (k == full) v[k] = vf_select(lanes_below(rest), vf_load_n(x + k * VF, rest), v[k]);
        if (k <= full) a = vf_max(v[k], a);
    }
    vf top = vf_set(top_lane(a));
    for (int k = 0; k <= full; k++) sum += v[k] = vf_exp(v[k] - top);
    vf f = vf_set(1 / sum_lanes(sum));
    for (int k = 0; k < full; k++) vf_store(y + k * VF, v[k] * f);
    vf_store_n(y + full * VF, v[full] * f, rest);
}

static void softmax_short_rows(float *y, int64_t y_ld, const float *x, int64_t x_ld, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++, x += x_ld, y += y_ld) {
        if (n < VF) softmax_short(y, x, n, 0);
        else if (n < 2 * VF) softmax_short(y, x, n, 1);
        else if (n < 3 * VF) softmax_short(y, x, n, 2);
        else softmax_short(y, x, n, 3);
    }
}

static void softmax_rows(float *y, int64_t y_ld, const float *x, int64_t x_ld, int64_t rows, int64_t n) {
    if (n < 4 * VF) {
        softmax_short_rows(y, y_ld, x, x_ld, rows, n);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r * x_ld;
        float *to = y + r * y_ld;
        vf f = vf_set(1 / (float)exp_sum_of(to, from, top_of(from, n), n));
        int64_t i = 0;
        for (; i + VF <= n; i += VF) vf_store(to + i, vf_load(to + i) * f);
        if (i < n) vf_store_n(to + i, vf_load_n(to + i, n - i) * f, n - i);
    }
}

static void shift_scale(float *y, const float *x, float top, float factor, float less, int64_t n) {
    vf t = vf_set(top), f = vf_set(factor), l = vf_set(less);
    int64_t i = 0;
    for (; i + VF <= n; i += VF) vf_store(y + i, (vf_load(x + i) - t) * f - l);
    if (i < n) vf_store_n(y + i, (vf_load_n(x + i, n - i) - t) * f - l, n - i);
}

#define NORMALISE(scaled, shifted)                                                \
    for (int64_t i = 0; i < n; i += VF) {                                         \
        bool all = i + VF <= n;                                                   \
        vf v = ((all ? vf_load(x + i) : vf_load_n(x + i, n - i)) - high) - low;   \
        v *= inverse_of_all;                                                      \
        if (scaled) v *= all ? vf_load(scale + i) : vf_load_n(scale + i, n - i);  \
        if (shifted) v += all ? vf_load(shift + i) : vf_load_n(shift + i, n - i); \
        if (all) vf_store(y + i, v);                                              \
        else vf_store_n(y + i, v, n - i);                                         \
    }
static void normalise(float *y, const float *x, Centre centre, float inverse, const float *scale, const float *shift,
                      int64_t n) {
    vf high = vf_set(centre.high), low = vf_set(centre.low), inverse_of_all = vf_set(inverse);
    if (scale && shift) {
        NORMALISE(true, true)
    } else if (scale) {
        NORMALISE(true, false)
    } else if (shift) {
        NORMALISE(false, true)
    } else {
        NORMALISE(false, false)
    }
}

static void add(float *y, const float *a, const float *b, const float *c, int64_t n) {
    int64_t i = 0;
    for (; i + VF <= n; i += VF) {
        vf v = vf_load(a + i) + vf_load(b + i);
        vf_store(y + i, c ? v + vf_load(c + i) : v);
    }
    if (i < n) {
        vf v = vf_load_n(a + i, n - i) + vf_load_n(b + i, n - i);
        vf_store_n(y + i, c ? v + vf_load_n(c + i, n - i) : v, n - i);
    }
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

INLINE void columns(RowsKind kind, double *acc, const float *x, int64_t ld, int64_t rows, int64_t cols) {
    float part[ROWS_MOST_COLUMNS + VF];
    for (int64_t r = 0; r < rows; r += DEPTH) {
        int64_t end = min_i64(rows, r + DEPTH), i = 0;
        for (; i + 4 * VF <= cols; i += 4 * VF) {
            vf a = first_of(kind), b = a, c = a, d = a;
            for (int64_t k = r; k < end; k++) {
                const float *p = x + k * ld + i;
                a = fold(kind, a, vf_load(p));
                b = fold(kind, b, vf_load(p + VF));
                c = fold(kind, c, vf_load(p + 2 * VF));
                d = fold(kind, d, vf_load(p + 3 * VF));
            }
            vf_store(part + i, a);
            vf_store(part + i + VF, b);
            vf_store(part + i + 2 * VF, c);
            vf_store(part + i + 3 * VF, d);
        }
        for (; i < cols; i += VF) {
            int64_t n = min_i64(VF, cols - i);
            vf a = first_of(kind);
            for (int64_t k = r; k < end; k++) a = fold(kind, a, vf_load_n(x + k * ld + i, n));
            vf_store(part + i, a);
        }
        for (i = 0; i < cols; i++) acc[i] = join(kind, acc[i], (double)part[i]);
    }
}

#define COLUMNS(name, kind)                                                                           \
    static void columns_##name(double *acc, const float *x, int64_t ld, int64_t rows, int64_t cols) { \
        columns(kind, acc, x, ld, rows, cols);                                                        \
    }
EACH_KIND(COLUMNS)

static void moments_columns(double *sums, double *squares, const float *x, int64_t ld, int64_t rows, int64_t cols,
                            const float *about) {
    for (int64_t r = 0; r < rows; r += DEPTH) {
        int64_t end = min_i64(rows, r + DEPTH);
        for (int64_t i = 0; i < cols; i += VF) {
            int64_t n = min_i64(VF, cols - i);
            vf a = {0}, b = {0}, m = vf_load_n(about + i, n);
            for (int64_t k = r; k < end; k++) {
                vf v = vf_load_n(x + k * ld + i, n) - m;
                a += v;
                b = vf_fma(v, v, b);
            }
            for (int64_t k = 0; k < n; k++) {
                sums[i + k] += (double)a[k];
                squares[i + k] += (double)b[k];
            }
        }
    }
}

/* Centres as two vectors of floats. */
INLINE void split_centres(const Centre *centres, float *high, float *low, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        high[i] = centres[i].high;
        low[i] = centres[i].low;
    }
}

static void softmax_columns(float *y, int64_t y_ld, const float *x, int64_t x_ld, float *work, int64_t work_ld,
                            int64_t rows, int64_t cols, bool log) {
    float top[ROWS_MOST_COLUMNS + VF], sum[ROWS_MOST_COLUMNS + VF], part[ROWS_MOST_COLUMNS + VF];
    for (int64_t i = 0; i < cols; i += VF) {
        vf_store(top + i, vf_set(-INFINITY));
        vf_store(sum + i, vf_set(0));
        vf_store(part + i, vf_set(0));
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cols; i += VF) {
            int64_t n = min_i64(VF, cols - i);
            vf v = n == VF ? vf_load(x + r * x_ld + i) : vf_load_n(x + r * x_ld + i, n);
            vf_store(top + i, vf_max(v, vf_load(top + i)));
        }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cols; i += VF) {
            int64_t n = min_i64(VF, cols - i);
            vf v = n == VF ? vf_load(x + r * x_ld + i) : vf_load_n(x + r * x_ld + i, n);
            v -= vf_load(top + i);
            vf e = vf_exp(v), p = vf_load(part + i) + e;
            if (n == VF) vf_store(work + r * work_ld + i, log ? v : e);
            else vf_store_n(work + r * work_ld + i, log ? v : e, n);
            bool flush = r % DEPTH == DEPTH - 1 || r == rows - 1;
            if (flush) vf_store(sum + i, vf_load(sum + i) + p);
            vf_store(part + i, flush ? vf_set(0) : p);
        }
    for (int64_t i = 0; i < cols; i += VF) {
        vf s = vf_load(sum + i);
        vf_store(sum + i, log ? vf_log(s) : 1 / s);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cols; i += VF) {
            int64_t n = min_i64(VF, cols - i);
            vf v = n == VF ? vf_load(work + r * work_ld + i) : vf_load_n(work + r * work_ld + i, n);
            v = log ? v - vf_load(sum + i) : v * vf_load(sum + i);
            if (n == VF) vf_store(y + r * y_ld + i, v);
            else vf_store_n(y + r * y_ld + i, v, n);
        }
}

static void normalise_columns(float *y, int64_t y_ld, const float *x, int64_t x_ld, const Centre *centres,
                              const float *factors, const float *shift, int64_t rows, int64_t cols) {
    float high[ROWS_MOST_COLUMNS + VF], low[ROWS_MOST_COLUMNS + VF];
    split_centres(centres, high, low, cols);
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r * x_ld;
        float *to = y + r * y_ld;
        int64_t i = 0;
        for (; i + VF <= cols; i += VF) {
            vf v = (vf_load(from + i) - vf_load(high + i)) - vf_load(low + i);
            vf_store(to + i, vf_fma(v, vf_load(factors + i), vf_load(shift + i)));
        }
        if (i < cols) {
            int64_t n = cols - i;
            vf v = (vf_load_n(from + i, n) - vf_load_n(high + i, n)) - vf_load_n(low + i, n);
            vf_store_n(to + i, vf_fma(v, vf_load_n(factors + i, n), vf_load_n(shift + i, n)), n);
        }
    }
}

const RowsTable ISA_NAME(rows_table) = {
    .reduce = {reduce_sum, reduce_abs, reduce_square, reduce_max, reduce_min},
    .reduce_short = {short_sum, short_abs, short_square, short_max, short_min},
    .reduce_columns = {columns_sum, columns_abs, columns_square, columns_max, columns_min},
    .moments = moments,
    .moments_columns = moments_columns,
    .top = top,
    .softmax_rows = softmax_rows,
    .exp_sum = exp_sum,
    .shift_scale = shift_scale,
    .softmax_columns = softmax_columns,
    .normalise = normalise,
    .normalise_columns = normalise_columns,
    .add = add,
};
