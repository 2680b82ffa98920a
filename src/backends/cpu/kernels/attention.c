/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, two ways. With enough queries each lane of a vector is a query: keys and values are then read one element at
   a time as they lie, the softmax is arithmetic between whole vectors, and queries and results are turned once. With few
   queries, as when a decoder adds one token, vectors run along the elements of a head. */
#include "backends/cpu/attention_int.h"
#include "backends/cpu/kernels/math_int.h"
#include "backends/cpu/kernels/shuffle_int.h"

#if defined(__AVX512F__) || defined(__aarch64__)
enum { ROWS = 6, COLS = 4 }; /* a tile of sums: 24 of 32 registers */
#else
enum { ROWS = 6, COLS = 2 }; /* 12 of 16 */
#endif
enum { LANES = COLS * VF, KEYS = ATTN_KEYS };

/* ---- vectors ------------------------------------------------------------------------------------------------------ */

/* Rows to columns: each step interleaves the first half of the rows with the second. */
INLINE void turn(vf x[VF]) {
    for (int step = 1; step < VF; step *= 2) {
        vf y[VF];
        for (int i = 0; i < VF / 2; i++) {
            y[2 * i] = __builtin_shufflevector(x[i], x[i + VF / 2], LOW_HALVES);
            y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + VF / 2], HIGH_HALVES);
        }
        for (int i = 0; i < VF; i++) x[i] = y[i];
    }
}

/* The sum of each of VF vectors: neighbours are added until one is left of each. */
INLINE vf sum_each(vf x[VF]) {
    for (int n = VF / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            x[i] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], EVENS) +
                   __builtin_shufflevector(x[2 * i], x[2 * i + 1], ODDS);
    return x[0];
}

INLINE float max_of(vf v) {
    for (int n = VF; n > 1; n /= 2)
        v = vf_max(__builtin_shufflevector(v, v, EVENS), __builtin_shufflevector(v, v, ODDS));
    return v[0];
}

/* ---- turning ------------------------------------------------------------------------------------------------------ */

/* y[c][lane] = rows[lane][c] * factor; there are whole vectors of lanes. */
static void turn_in(const float *const *rows, int64_t n_vectors, int64_t cols, int64_t stride, float factor, float *y) {
    int64_t wide = n_vectors * VF;
    for (int64_t c = 0; stride != 1 && c < cols; c++)
        for (int64_t i = 0; i < wide; i++) y[c * wide + i] = rows[i][c * stride] * factor;
    for (int64_t v = 0; stride == 1 && v < n_vectors; v++)
        for (int64_t c = 0; c < cols; c += VF) {
            vf x[VF];
            int64_t n = cols - c < VF ? cols - c : VF;
            for (int i = 0; i < VF; i++) {
                const float *from = rows[v * VF + i] + c;
                x[i] = (n == VF ? vf_load(from) : vf_load_n(from, n)) * factor;
            }
            turn(x);
            for (int i = 0; i < n; i++) vf_store(y + (c + i) * wide + v * VF, x[i]);
        }
}

/* The way back, for the first n lanes; x has VF rows more than cols to be read. */
static void turn_out(const float *x, int64_t n_vectors, int64_t cols, int64_t stride, int64_t lanes,
                     float *const *rows) {
    int64_t wide = n_vectors * VF;
    for (int64_t c = 0; stride != 1 && c < cols; c++)
        for (int64_t i = 0; i < lanes; i++) rows[i][c * stride] = x[c * wide + i];
    for (int64_t v = 0; stride == 1 && v < n_vectors; v++)
        for (int64_t c = 0; c < cols; c += VF) {
            vf t[VF];
            int64_t n = cols - c < VF ? cols - c : VF;
            for (int i = 0; i < VF; i++) t[i] = vf_load(x + (c + i) * wide + v * VF);
            turn(t);
            for (int i = 0; i < VF && v * VF + i < lanes; i++) {
                float *to = rows[v * VF + i] + c;
                if (n == VF) vf_store(to, t[i]);
                else vf_store_n(to, t[i], n);
            }
        }
}

/* ---- products ----------------------------------------------------------------------------------------------------- */

/* y[r] = the sum over i of a[r * row + i * col] times the vectors b[i], for the rows and vectors of one tile. What y had is
   multiplied by keep and added, where there is one. */
INLINE void product_tile(const int rows, const int cols, const float *a, int64_t row, int64_t col, const float *b,
                         int64_t k, const vf *keep, float *y) {
    vf sum[ROWS][COLS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) sum[r][v] = (vf){0};
    for (int64_t i = 0; i < k; i++, a += col, b += cols * VF) {
        vf x[COLS];
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) x[v] = vf_load(b + v * VF);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int v = 0; v < cols; v++) sum[r][v] += vf_set(a[r * row]) * x[v];
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) {
            float *to = y + (r * cols + v) * VF;
            vf_store(to, keep ? vf_load(to) * keep[v] + sum[r][v] : sum[r][v]);
        }
}

/* All rows, in tiles of about one size. */
INLINE void product(const int cols, int64_t rows, const float *a, int64_t row, int64_t col, const float *b, int64_t k,
                    const vf *keep, float *y) {
    int64_t tiles = (rows + ROWS - 1) / ROWS;
    for (int64_t t = 0, r = 0; t < tiles; t++) {
        int64_t n = rows / tiles + (t < rows % tiles);
        const float *from = a + r * row;
        float *to = y + r * cols * VF;
        switch (n) {
        case 1: product_tile(1, cols, from, row, col, b, k, keep, to); break;
        case 2: product_tile(2, cols, from, row, col, b, k, keep, to); break;
        case 3: product_tile(3, cols, from, row, col, b, k, keep, to); break;
        case 4: product_tile(4, cols, from, row, col, b, k, keep, to); break;
        case 5: product_tile(5, cols, from, row, col, b, k, keep, to); break;
        default: product_tile(6, cols, from, row, col, b, k, keep, to); break;
        }
        r += n;
    }
}

/* ---- masks -------------------------------------------------------------------------------------------------------- */

typedef struct Masked {
    bool bias, one_row, window; /* one_row: the mask is the same for all queries */
    int64_t mask_step;          /* from key to key */
} Masked;

static Masked masks_of(const AttnJob *job, const AttnUnit *u) {
    Masked m = {.bias = job->added || job->seen || u->key_bias, .one_row = true, .mask_step = job->mask_stride[3]};
    for (int64_t i = 1; i < u->n; i++) m.one_row &= u->mask[i] == u->mask[0];
    return m;
}

/* One query's summands for keys [at, at + n). */
static void read_bias(const AttnJob *job, const AttnUnit *u, int64_t lane, int64_t at, int64_t n, float *y) {
    int64_t step = job->mask_stride[3];
    const float *added = job->added ? (const float *)u->mask[lane] + at * step : NULL;
    const uint8_t *seen = job->seen ? (const uint8_t *)u->mask[lane] + at * step : NULL;
    for (int64_t j = 0; j < n; j++) {
        float x = added ? added[j * step] : !seen || seen[j * step] ? 0 : -INFINITY;
        y[j] = u->key_bias ? x + u->key_bias[at + j] : x;
    }
}

/* Summands of a tile, key by key; `rows`: room for as many. */
static void read_biases(const AttnJob *job, const AttnUnit *u, int64_t n_vectors, int64_t at, int64_t n, float *rows,
                        float *y) {
    const float *from[LANES];
    bool direct = job->added && job->mask_stride[3] == 1 && !u->key_bias;
    for (int64_t i = 0; i < n_vectors * VF; i++) {
        int64_t lane = i < u->n ? i : u->n - 1;
        from[i] = direct ? (const float *)u->mask[lane] + at : rows + lane * KEYS;
        if (!direct && lane == i) read_bias(job, u, i, at, n, rows + i * KEYS);
    }
    turn_in(from, n_vectors, n, 1, 1, y);
}

/* ---- many queries --------------------------------------------------------------------------------------------------- */

/* One lane is one query. */
typedef struct Lanes {
    int64_t n_vectors;
    vf top[COLS], sum[COLS]; /* the highest score yet, and the sum of powers relative to it */
    vi seen[COLS];           /* whether some key is seen */
    vi first[COLS], end[COLS];
    float *q, *scores, *y; /* [size], [KEYS] and [v_size] rows of lanes */
    float *bias, *rows;
} Lanes;

static void apply_cap(const Lanes *l, float cap, int64_t n) {
    for (int64_t i = 0; i < n * l->n_vectors; i++)
        vf_store(l->scores + i * VF, vf_tanh(vf_load(l->scores + i * VF) / cap) * cap);
}

/* One mask for all queries, which see the keys otherwise. */
INLINE void add_row(const int cols, Lanes *l, int64_t n) {
    bool any = false;
    for (int64_t j = 0; j < n; j++) {
        float bias = l->bias[j];
        any |= bias != -INFINITY;
        if (bias == 0) continue;
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) {
            float *s = l->scores + (j * cols + v) * VF;
            vf_store(s, vf_load(s) + bias);
        }
    }
    for (int v = 0; any && v < cols; v++) l->seen[v] = ~(vi){0};
}

/* Adds to the scores of keys [at, at + n) what masks say. */
INLINE void apply_masks(const int cols, const AttnJob *job, const AttnUnit *u, Lanes *l, const Masked *m, int64_t at,
                        int64_t n) {
    const vf low = vf_set(-INFINITY);
    if (m->bias && m->one_row) read_bias(job, u, 0, at, n, l->bias);
    else if (m->bias) read_biases(job, u, cols, at, n, l->rows, l->bias);
    if (m->one_row && !m->window) {
        add_row(cols, l, n);
        return;
    }
    for (int64_t j = 0; j < n; j++)
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) {
            float *s = l->scores + (j * cols + v) * VF;
            vf bias = {0};
            if (m->bias) bias = m->one_row ? vf_set(l->bias[j]) : vf_load(l->bias + (j * cols + v) * VF);
            vi key = (int32_t)(at + j) - (vi){0};
            vi within = m->window ? (key >= l->first[v]) & (key < l->end[v]) : ~(vi){0};
            l->seen[v] |= within & (bias != low);
            vf_store(s, vf_select(within, vf_load(s) + bias, low));
        }
}

/* Scores to powers; keep: what the sums before are multiplied by. */
INLINE void weigh(const int cols, Lanes *l, int64_t n, vf *keep) {
    vf top[COLS], sum[COLS];
#pragma GCC unroll 8
    for (int v = 0; v < cols; v++) top[v] = l->top[v];
    for (int64_t j = 0; j < n; j++)
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) top[v] = vf_max(vf_load(l->scores + (j * cols + v) * VF), top[v]);
#pragma GCC unroll 8
    for (int v = 0; v < cols; v++) {
        vf base = vf_select(top[v] == -INFINITY, (vf){0}, top[v]);
        keep[v] = vf_exp(l->top[v] - base);
        l->top[v] = top[v];
        sum[v] = l->sum[v] * keep[v];
        top[v] = base;
    }
    for (int64_t j = 0; j < n; j++)
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) {
            float *s = l->scores + (j * cols + v) * VF;
            vf e = vf_exp(vf_load(s) - top[v]);
            vf_store(s, e);
            sum[v] += e;
        }
#pragma GCC unroll 8
    for (int v = 0; v < cols; v++) l->sum[v] = sum[v];
}

/* Keys [at, end) of one tile. */
INLINE void run_tile(const int cols, const AttnJob *job, const AttnUnit *u, Lanes *l, const Masked *m, int64_t at,
                     int64_t end, bool fresh) {
    vf keep[COLS];
    for (int p = 0; p < u->n_parts; p++) {
        int64_t from = at > u->part[p].begin ? at : u->part[p].begin, to = end < u->part[p].end ? end : u->part[p].end;
        if (from < to)
            product(cols, to - from, u->part[p].k + (from - u->part[p].begin) * u->part[p].k_row, u->part[p].k_row,
                    u->part[p].k_col, l->q, job->size, NULL, l->scores + (from - at) * cols * VF);
    }
    if (job->softcap > 0) apply_cap(l, job->softcap, end - at);
    if (m->bias || m->window) apply_masks(cols, job, u, l, m, at, end - at);
    weigh(cols, l, end - at, keep);
    for (int p = 0; p < u->n_parts; p++) {
        int64_t from = at > u->part[p].begin ? at : u->part[p].begin, to = end < u->part[p].end ? end : u->part[p].end;
        if (from >= to) continue;
        product(cols, job->v_size, u->part[p].v + (from - u->part[p].begin) * u->part[p].v_row, u->part[p].v_col,
                u->part[p].v_row, l->scores + (from - at) * cols * VF, to - from, fresh ? NULL : keep, l->y);
        fresh = false;
        for (int v = 0; v < cols; v++) keep[v] = vf_set(1);
    }
}

/* Keys that some query of the unit sees, and those that all see. */
typedef struct Span {
    int64_t first, end, all_first, all_end;
} Span;

static Span span_of(const AttnUnit *u) {
    Span s = {INT32_MAX, 0, 0, INT32_MAX};
    for (int64_t i = 0; i < u->n; i++) {
        if (u->first[i] < s.first) s.first = u->first[i];
        if (u->end[i] > s.end) s.end = u->end[i];
        if (u->first[i] > s.all_first) s.all_first = u->first[i];
        if (u->end[i] < s.all_end) s.all_end = u->end[i];
    }
    s.first = s.first / KEYS * KEYS;
    return s;
}

static void start_lanes(const AttnJob *job, const AttnUnit *u, Lanes *l, float *scratch) {
    const float *q[LANES];
    l->n_vectors = (u->n + VF - 1) / VF;
    l->q = scratch;
    l->scores = l->q + job->size * LANES;
    l->bias = l->scores + KEYS * LANES;
    l->rows = l->bias + KEYS * LANES;
    l->y = l->rows + KEYS * LANES;
    for (int64_t i = 0; i < l->n_vectors * VF; i++) {
        int64_t lane = i < u->n ? i : u->n - 1; /* lanes behind the last query do as it does */
        q[i] = u->q[lane];
        l->first[i / VF][i % VF] = u->first[lane];
        l->end[i / VF][i % VF] = u->end[lane];
        l->top[i / VF][i % VF] = job->has_sink ? u->sink[lane] : -INFINITY;
        l->sum[i / VF][i % VF] = job->has_sink;
        l->seen[i / VF][i % VF] = 0;
    }
    turn_in(q, l->n_vectors, job->size, job->q.stride[BY_ELEMENT], job->scale, l->q);
}

static void finish_lanes(const AttnJob *job, const AttnUnit *u, Lanes *l, bool masked) {
    for (int64_t v = 0; v < l->n_vectors; v++) {
        vi blind = l->sum[v] == 0;
        if (masked) blind |= ~l->seen[v];
        vf share = vf_select(blind, (vf){0}, 1 / l->sum[v]);
        for (int64_t r = 0; r < job->v_size; r++) {
            float *y = l->y + (r * l->n_vectors + v) * VF;
            vf_store(y, vf_select(blind, (vf){0}, vf_load(y) * share));
        }
    }
    turn_out(l->y, l->n_vectors, job->v_size, job->y_stride[BY_ELEMENT], u->n, u->y);
}

static void run_lanes(const AttnJob *job, const AttnUnit *u, float *scratch) {
    Lanes l;
    Masked m = masks_of(job, u);
    Span span = span_of(u);
    start_lanes(job, u, &l, scratch);
    bool fresh = true;
    for (int64_t at = span.first; at < span.end; at += KEYS, fresh = false) {
        int64_t end = at + KEYS < span.end ? at + KEYS : span.end;
        m.window = at < span.all_first || end > span.all_end;
        switch (l.n_vectors) {
        case 1: run_tile(1, job, u, &l, &m, at, end, fresh); break;
        case 2: run_tile(2, job, u, &l, &m, at, end, fresh); break;
#if defined(__AVX512F__) || defined(__aarch64__)
        case 3: run_tile(3, job, u, &l, &m, at, end, fresh); break;
        case 4: run_tile(4, job, u, &l, &m, at, end, fresh); break;
#endif
        }
    }
    if (fresh) memset(l.y, 0, (size_t)(job->v_size * l.n_vectors * VF) * sizeof *l.y);
    finish_lanes(job, u, &l, m.bias);
}

/* ---- few queries ---------------------------------------------------------------------------------------------------- */

enum { SHARE = ROWS * COLS >= 24 ? 4 : 2 /* queries that read a row together */ };

/* A tile's keys and its values are read in turn. What is read after the rows at hand, rows of `next`, is asked for meanwhile, so
   that memory does not wait for the softmax in between; a processor's own guesses end with a page. */

/* Scores of n keys from `a` on with some queries, q_wide apart, whose elements behind the last are 0; y: their rows, KEYS + VF
   apart. */
INLINE void dot_rows(const int queries, const float *a, int64_t row, const float *next, int64_t next_row,
                     const float *q, int64_t q_wide, int64_t size, int64_t n, float *y) {
    int64_t whole = size / VF * VF;
    for (int64_t j = 0; j < n; j += VF) {
        vf sum[SHARE][VF];
        int64_t most = n - j < VF ? n - j : VF;
        for (int64_t g = 0; g < VF; g += 4) {
            const float *k[4], *then[4];
            vf s[SHARE][4];
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                k[i] = a + (j + (g + i < most ? g + i : 0)) * row;
                then[i] = next + (j + g + i) * next_row;
#pragma GCC unroll 4
                for (int t = 0; t < queries; t++) s[t][i] = (vf){0};
            }
            for (int64_t e = 0; e < whole; e += VF)
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) {
                    vf x = vf_load(k[i] + e);
                    __builtin_prefetch(then[i] + e, 0, 2);
#pragma GCC unroll 4
                    for (int t = 0; t < queries; t++) s[t][i] += x * vf_load(q + t * q_wide + e);
                }
#pragma GCC unroll 4
            for (int i = 0; whole < size && i < 4; i++)
#pragma GCC unroll 4
                for (int t = 0; t < queries; t++)
                    s[t][i] += vf_load_n(k[i] + whole, size - whole) * vf_load(q + t * q_wide + whole);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
                for (int t = 0; t < queries; t++) sum[t][g + i] = s[t][i];
        }
        for (int t = 0; t < queries; t++) vf_store(y + t * (KEYS + VF) + j, sum_each(sum[t]));
    }
}

/* For each query y = y * keep + the sum over j of p[j] times row j of a; `cols` vectors of it, the last one with `last`
   elements. Queries are apart as in dot_rows, their results by y_wide. */
INLINE void add_rows(const int queries, const int cols, const float *a, int64_t row, const float *next,
                     int64_t next_row, const float *p, int64_t n, const float *keep, int64_t last, float *y,
                     int64_t y_wide) {
    vf sum[SHARE][8];
#pragma GCC unroll 4
    for (int t = 0; t < queries; t++)
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) sum[t][v] = vf_load(y + t * y_wide + v * VF) * keep[t];
    for (int64_t j = 0; j < n; j++, a += row, next += next_row)
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) {
            vf x = v < cols - 1 || last == VF ? vf_load(a + v * VF) : vf_load_n(a + v * VF, last);
            __builtin_prefetch(next + v * VF, 0, 2);
#pragma GCC unroll 4
            for (int t = 0; t < queries; t++) sum[t][v] += p[t * (KEYS + VF) + j] * x;
        }
#pragma GCC unroll 4
    for (int t = 0; t < queries; t++)
#pragma GCC unroll 8
        for (int v = 0; v < cols; v++) vf_store(y + t * y_wide + v * VF, sum[t][v]);
}

INLINE void add_values(const int queries, const float *a, int64_t row, const float *next, int64_t next_row,
                       const float *p, int64_t n, const float *keep, int64_t size, float *y, int64_t y_wide) {
    int64_t c = 0;
    for (; queries == 1 && size - c >= 8 * VF; c += 8 * VF) /* whole rows, as far as may be */
        add_rows(queries, 8, a + c, row, next + c, next_row, p, n, keep, VF, y + c, y_wide);
    for (; c < size; c += 4 * VF) {
        int64_t left = size - c;
        if (left >= 4 * VF) add_rows(queries, 4, a + c, row, next + c, next_row, p, n, keep, VF, y + c, y_wide);
        else if (left > 3 * VF)
            add_rows(queries, 4, a + c, row, next + c, next_row, p, n, keep, left - 3 * VF, y + c, y_wide);
        else if (left > 2 * VF)
            add_rows(queries, 3, a + c, row, next + c, next_row, p, n, keep, left - 2 * VF, y + c, y_wide);
        else if (left > VF) add_rows(queries, 2, a + c, row, next + c, next_row, p, n, keep, left - VF, y + c, y_wide);
        else add_rows(queries, 1, a + c, row, next + c, next_row, p, n, keep, left, y + c, y_wide);
    }
}

/* One query. */
typedef struct Single {
    float top, sum;
    bool seen;
} Single;

typedef struct Few {
    Single one[LANES];
    float *q, *y, *scores, *bias; /* rows of the queries: `wide`, `v_wide` and KEYS + VF apart */
    int64_t wide, v_wide;
    bool masked;
} Few;

/* Scores of keys [at, at + n) to powers; there is room for a vector behind them. Returns what the sums before are multiplied
   by. */
static float weigh_row(const AttnJob *job, const AttnUnit *u, int64_t lane, Single *s, bool masked, int64_t at,
                       int64_t n, float *x, float *bias) {
    for (int64_t j = 0; job->softcap > 0 && j < n; j += VF)
        vf_store(x + j, vf_tanh(vf_load(x + j) / job->softcap) * job->softcap);
    if (masked) read_bias(job, u, lane, at, n, bias);
    for (int64_t j = 0; j < n && (masked || at < u->first[lane] || at + n > u->end[lane]); j++) {
        bool within = at + j >= u->first[lane] && at + j < u->end[lane];
        if (masked) {
            s->seen |= within && bias[j] != -INFINITY;
            x[j] += bias[j];
        }
        if (!within) x[j] = -INFINITY;
    }
    for (int i = 0; i < VF; i++) x[n + i] = -INFINITY;
    vf most = vf_load(x);
    for (int64_t j = VF; j < n; j += VF) most = vf_max(vf_load(x + j), most);
    float old = s->top, top = max_of(most);
    s->top = top > old ? top : old;
    float base = s->top == -INFINITY ? 0 : s->top;
    vf sum = {0};
    for (int64_t j = 0; j < n; j += VF) {
        vf e = vf_exp(vf_load(x + j) - base);
        vf_store(x + j, e);
        sum += e;
    }
    float keep = vf_exp(vf_set(old - base))[0];
    s->sum = s->sum * keep + vf_sum(sum);
    return keep;
}

static void start_rows(const AttnJob *job, const AttnUnit *u, Few *f, float *scratch) {
    f->wide = (job->size + VF - 1) / VF * VF, f->v_wide = (job->v_size + VF - 1) / VF * VF;
    f->masked = job->added || job->seen || u->key_bias;
    f->q = scratch;
    f->y = f->q + u->n * f->wide;
    f->scores = f->y + u->n * f->v_wide;
    f->bias = f->scores + u->n * (KEYS + VF);
    memset(f->q, 0, (size_t)(u->n * (f->wide + f->v_wide)) * sizeof *f->q);
    for (int64_t i = 0; i < u->n; i++) {
        f->one[i] = (Single){.top = job->has_sink ? u->sink[i] : -INFINITY, .sum = job->has_sink};
        for (int64_t e = 0; e < job->size; e++)
            f->q[i * f->wide + e] = u->q[i][e * job->q.stride[BY_ELEMENT]] * job->scale;
    }
}

static void finish_rows(const AttnJob *job, const AttnUnit *u, const Few *f) {
    for (int64_t i = 0; i < u->n; i++) {
        const Single *s = &f->one[i];
        bool blind = s->sum == 0 || (f->masked && !s->seen);
        float share = blind ? 0 : 1 / s->sum;
        for (int64_t e = 0; e < job->v_size; e++)
            u->y[i][e * job->y_stride[BY_ELEMENT]] = blind ? 0 : f->y[i * f->v_wide + e] * share;
    }
}

/* Queries [i, i + queries) and the keys [at, end) of one tile. */
INLINE void run_few(const int queries, const AttnJob *job, const AttnUnit *u, Few *f, int64_t i, int64_t at,
                    int64_t end) {
    float keep[SHARE], *scores = f->scores + i * (KEYS + VF);
    for (int p = 0; p < u->n_parts; p++) {
        int64_t begin = u->part[p].begin, from = at > begin ? at : begin;
        int64_t to = end < u->part[p].end ? end : u->part[p].end, row = u->part[p].k_row;
        if (from < to)
            dot_rows(queries, u->part[p].k + (from - begin) * row, row,
                     u->part[p].v + (from - begin) * u->part[p].v_row, u->part[p].v_row, f->q + i * f->wide, f->wide,
                     job->size, to - from, scores + from - at);
    }
    for (int t = 0; t < queries; t++)
        keep[t] = weigh_row(job, u, i + t, &f->one[i + t], f->masked, at, end - at, scores + t * (KEYS + VF), f->bias);
    for (int p = 0; p < u->n_parts; p++) {
        int64_t begin = u->part[p].begin, from = at > begin ? at : begin;
        int64_t to = end < u->part[p].end ? end : u->part[p].end, row = u->part[p].v_row;
        if (from >= to) continue;
        add_values(queries, u->part[p].v + (from - begin) * row, row, u->part[p].k + (to - begin) * u->part[p].k_row,
                   u->part[p].k_row, scores + from - at, to - from, keep, job->v_size, f->y + i * f->v_wide, f->v_wide);
        for (int t = 0; t < queries; t++) keep[t] = 1;
    }
}

static void run_rows(const AttnJob *job, const AttnUnit *u, float *scratch) {
    Few f;
    Span span = span_of(u);
    start_rows(job, u, &f, scratch);
    for (int64_t at = span.first; at < span.end; at += KEYS) {
        int64_t end = at + KEYS < span.end ? at + KEYS : span.end, i = 0;
        for (; i + SHARE <= u->n; i += SHARE) run_few(SHARE, job, u, &f, i, at, end);
        for (; i + 2 <= u->n; i += 2) run_few(2, job, u, &f, i, at, end);
        for (; i < u->n; i++) run_few(1, job, u, &f, i, at, end);
    }
    finish_rows(job, u, &f);
}

static void run_unit(const AttnJob *job, const AttnUnit *u, float *scratch) {
    bool along = true;
    for (int p = 0; p < u->n_parts; p++) along &= u->part[p].k_col == 1 && u->part[p].v_col == 1;
    if (along && u->n <= VF / 2) run_rows(job, u, scratch);
    else run_lanes(job, u, scratch);
}

const AttnTable ISA_NAME(attention_table) = {LANES, VF, run_unit};
