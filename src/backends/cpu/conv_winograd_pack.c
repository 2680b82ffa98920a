/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's algorithm: its kinds, where they pay, and their weights. */
#include "backends/cpu/conv_int.h"
#include "backends/cpu/gemm_int.h"
#include "backends/cpu/winograd_int.h"

#include <math.h>

/* ---- kinds --------------------------------------------------------------------------------------------------- */

/* A row of weights at the point x, by the product of x's distances from the other points. */
#define AT(x, n) 1 / (n), (x) / (n), (x) * (x) / (n)
#define S 0.75
#define S3 (S * S * S)
#define S4 (S * S * S * S)

static const double points_2[] = {-1, 0, 0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0, 0, 1};
static const double back_2[] = {-1, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1};

static const double points_4[] = {
    AT(0, 4 * S4), AT(S, -6 * S4), AT(-S, -6 * S4), AT(2 * S, 24 * S4), AT(-2 * S, 24 * S4), 0, 0, 1};
static const double back_4[] = {4 * S4, 0, 0, 0, 0, 0, 0, -3 * S3, 3 * S3, 0, 0, 0, 0, 0, 0, 0, 0, 1};

static const double points_step2_2[] = {1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0};
static const double back_step2_2[] = {1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0};

/* Of two taps, which are the first and the third here. */
#define AT_2(x, n) 1 / (n), 0, (x) / (n)
static const double points_step2_4[] = {
    AT_2(0, 2 * S3), AT_2(S, -2 * S3), AT_2(-S, -6 * S3), AT_2(2 * S, 6 * S3), 0, 0, 1, 0, 1, 0};
static const double back_step2_4[] = {2 * S3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};

#define SEVEN_POINTS(AT_N) \
    AT_N(0, -1.0), AT_N(0.5, 1.40625), AT_N(-0.5, 1.40625), AT_N(1, -4.5), AT_N(-1, -4.5), AT_N(2, 90.0), AT_N(-2, 90.0)
#define AT_4(x, n) AT(x, n), (x) * (x) * (x) / (n)
static const double points_phases[] = {SEVEN_POINTS(AT_4), 0, 0, 0, 1};
#define AT_5(x, n) AT_4(x, n), (x) * (x) * (x) * (x) / (n)
static const double points_wide[] = {SEVEN_POINTS(AT_5), 0, 0, 0, 0, 1};

enum { NEVER = 99 };
const WinogradSpec winograd_spec[N_WINOGRAD] = {
    [WINOGRAD_2] = {2, 4, 4, 3, 1, {{1, 1, 1, 2}, {1, 1, 1, 2}}, 90, 70, points_2, back_2},
    [WINOGRAD_4] = {4, 6, 6, 3, 1, {{1, 1, 1, 1, 1, 4}, {1, 1, 1, NEVER, NEVER, 2}}, 260, 240, points_4, back_4},
    [WINOGRAD_STEP2_2] = {2, 5, 4, 3, 2, {{1, 1, 2, 1, 2}, {1, 1, 2, 1, 2}}, 110, 90, points_step2_2, back_step2_2},
    [WINOGRAD_STEP2_4] = {4,
                          9,
                          6,
                          3,
                          2,
                          {{1, 1, 1, 1, 4, 1, 2, 3, 4}, {1, 1, NEVER, NEVER, 2, 1, 2, NEVER, NEVER}},
                          650,
                          450,
                          points_step2_4,
                          back_step2_4},
    [WINOGRAD_WIDE] =
        {4, 8, 8, 5, 1, {{1, 1, 1, 1, 1, 1, 1, 4}, {1, 1, 1, 1, 1, 1, 1, 4}}, 540, 400, points_wide, NULL},
    [WINOGRAD_PHASES] =
        {5, 8, 8, 4, 1, {{1, 1, 1, 1, 1, 1, 1, 5}, {1, 1, 1, 1, 1, 1, 1, 5}}, 540, 450, points_phases, NULL},
};

int64_t winograd_channels(const ConvGeom *g, WinogradKind kind) { return kind == WINOGRAD_PHASES ? 4 * g->c : g->c; }

/* ---- choosing ------------------------------------------------------------------------------------------------ */

enum { FEW = 24 /* blocks, of which narrow panels make better tiles */ };

static double blocks_of(const ConvGeom *g, const WinogradSpec *s) {
    double blocks = (double)g->batch;
    for (int d = 0; d < 2; d++) blocks *= (double)((g->out[d] + s->out - 1) / s->out);
    return blocks;
}

/* Of all blocks: those at the end may have fewer. */
static double points_of(const ConvGeom *g, const WinogradSpec *s) {
    double points = (double)g->batch;
    for (int d = 0; d < 2; d++) {
        int64_t whole = g->out[d] / s->out, rest = g->out[d] % s->out, n = whole * s->size;
        for (int i = 0; rest && i < s->size; i++) n += s->least[rest <= WINOGRAD_FEW][i] <= rest;
        points *= (double)n;
    }
    return points;
}

/* Multiplications that take as long as a weight's way from memory: the wider vectors are, the more. */
static double weight_cost(void) { return 1.25 * (double)ISA_PICK(conv_table)->vector; }

/* Panels end with whole vectors; those of others with whole units. */
static double whole(int64_t m, int64_t unit) { return (double)((m + unit - 1) / unit * unit); }

enum { TILE = 3 /* input channels that take as long as what a tile does besides */ };

/* Of one group. */
static double cost_of(const ConvGeom *g, WinogradKind kind) {
    const WinogradSpec *s = &winograd_spec[kind];
    double c = (double)winograd_channels(g, kind), m = (double)g->m;
    double products = fmax(points_of(g, s), s->planes * s->planes * weight_cost());
    return products * (c + TILE) * whole(g->m, ISA_PICK(conv_table)->vector) +
           blocks_of(g, s) * (s->in_ops * c + s->out_ops * m);
}

static bool window_fits(const ConvGeom *g, WinogradKind kind) {
    for (int d = 0; d < 2; d++) {
        int64_t kernel = g->win.kernel[d], step = g->win.stride[d];
        if (g->win.dilation[d] != 1) return false;
        if (kind == WINOGRAD_PHASES ? kernel < 5 || kernel > 8 || step != 2
                                    : kernel != winograd_spec[kind].taps || step != winograd_spec[kind].step)
            return false;
    }
    return kind == WINOGRAD_PHASES ? g->group == 1 && g->c >= 1 && g->c <= 8 : g->c >= 8;
}

/* Half of a panel is to be whole vectors, more than one: with one, sums wait for each other. */
bool winograd_takes(const ConvGeom *g, WinogradForm form) {
    if (g->win.rank != 2 || g->m < 8 || !window_fits(g, form.kind)) return false;
    const ConvTable *tiles = ISA_PICK(conv_table);
    return !form.narrow || (tiles->unit * tiles->most >= 4 * tiles->vector && g->m > tiles->vector * 2);
}

WinogradForm winograd_form(const ConvGeom *g) {
    WinogradForm form = {WINOGRAD_NONE, false};
    double pixels = (double)g->batch * (double)g->out_px;
    double columns = whole(g->m, ISA_PICK(conv_table)->unit);
    double least = (double)g->taps * (double)g->c * columns * fmax(pixels, weight_cost());
    for (WinogradKind kind = WINOGRAD_2; kind < N_WINOGRAD; kind++) {
        if (!winograd_takes(g, (WinogradForm){kind, false})) continue;
        double cost = cost_of(g, kind);
        if (cost < least) least = cost, form.kind = kind;
    }
    if (!form.kind || form.kind >= WINOGRAD_WIDE) return form;
    form.narrow = blocks_of(g, &winograd_spec[form.kind]) <= FEW && winograd_takes(g, (WinogradForm){form.kind, true});
    return form;
}

/* ---- weights ------------------------------------------------------------------------------------------------- */

void winograd_panels(const ConvGeom *g, int64_t c, WinogradForm form, ConvPanels *p) {
    const ConvTable *tiles = ISA_PICK(conv_table);
    const int planes = winograd_spec[form.kind].planes, vector = (int)tiles->vector;
    *p = (ConvPanels){.full = tiles->unit * tiles->most / (form.narrow ? 2 : 1), .k = planes * planes * c};
    p->n = (g->m + p->full - 1) / p->full;
    p->last = (g->m - (p->n - 1) * p->full + vector - 1) / vector * vector;
    p->group = ((p->n - 1) * p->full + p->last) * p->k;
    p->floats = g->group * p->group;
}

/* Behind the panels stands whether some weight is not finite, or so large that sums of weights may not be. */
int64_t winograd_floats(const ConvGeom *g, WinogradForm form) {
    ConvPanels p;
    winograd_panels(g, winograd_channels(g, form.kind), form, &p);
    return p.floats + 16;
}

bool winograd_keeps_weights(const ConvGeom *g, WinogradForm form, const float *packed) {
    return winograd_spec[form.kind].back && packed[winograd_floats(g, form) - 16] == 0;
}

/* As numbers of the bits, so that what is not finite is large, too. */
static bool are_small(const float *x, int64_t n) {
    const float large = 1e30f;
    int32_t most, large_bits = 0, any = 0;
    memcpy(&large_bits, &large, sizeof large_bits);
    for (int64_t i = 0; i < n; i++) {
        memcpy(&most, &x[i], sizeof most);
        any |= (most & INT32_MAX) > large_bits;
    }
    return !any;
}

typedef struct Packing {
    const ConvGeom *g;
    const Tensor *w;
    const WinogradSpec *spec;
    bool dense, phases;
    ConvPanels panels;
    float *dst;
    int64_t channels, blocks; /* of the input, as the algorithm has them; of such channels */
    atomic_bool large;
} Packing;

enum { CHANNELS = 16, WIDEST = 64, ROWS = CHANNELS * WINOGRAD_MOST_TAPS * WINOGRAD_MOST_TAPS };

/* Where the first output channel's weight for a tap lies; -1: it is 0, since the phase has no such tap. */
static int64_t weight_at(const Packing *k, int64_t c, int64_t tap) {
    int64_t row = tap / k->spec->taps, col = tap % k->spec->taps;
    const int64_t *s = k->w->strides;
    if (k->phases) {
        row = 2 * row + c % 4 / 2, col = 2 * col + c % 2, c /= 4;
        if (row >= k->g->win.kernel[0] || col >= k->g->win.kernel[1]) return -1;
    }
    return k->w->offset + c * s[1] + row * s[2] + col * s[3];
}

/* Windows of some channels, a row for each tap of each input channel. */
static void gather_windows(const Packing *k, int64_t m, int64_t m_n, int64_t c, int64_t c_n, int64_t width, float *to) {
    const int64_t taps = k->spec->taps * k->spec->taps, row = k->g->c * taps, step = k->w->strides[0];
    if (k->dense && !k->phases) {
        const char *from = (const char *)tensor_bytes(k->w) + (m * row + c * taps) * (int64_t)sizeof(float);
        ISA_PICK(gemm_table)->pack(to, width, from, 1, row, c_n * taps, m_n);
        return;
    }
    memset(to, 0, (size_t)(c_n * taps * width) * sizeof *to);
    for (int64_t i = 0; i < c_n * taps; i++, to += width) {
        const int64_t at = weight_at(k, c + i / taps, i % taps);
        for (int64_t j = 0; at >= 0 && j < m_n; j++)
            memcpy(&to[j], (const char *)k->w->data + 4 * (at + (m + j) * step), sizeof *to);
    }
}

/* One item is some input channels of one panel of one group. */
static void pack_blocks(void *arg, int64_t begin, int64_t end) {
    Packing *k = arg;
    const WinogradSpec *s = k->spec;
    for (int64_t item = begin; item < end; item++) {
        float columns[ROWS * WIDEST];
        int64_t panels = item / k->blocks, group = panels / k->panels.n, panel = panels % k->panels.n;
        int64_t m = panel * k->panels.full, width = panel_width(&k->panels, panel);
        int64_t first = item % k->blocks * CHANNELS, n = min_i64(CHANNELS, k->channels - first);
        gather_windows(k, group * k->g->m + m, min_i64(width, k->g->m - m), first, n, width, columns);
        if (!are_small(columns, n * s->taps * s->taps * width)) atomic_store(&k->large, true);
        WinogradWeights t = {s->points, s->planes, s->taps, columns, width, NULL, k->channels * width};
        for (int64_t c = 0; c < n; c++, t.w += s->taps * s->taps * width) {
            t.to = k->dst + group * k->panels.group + m * k->panels.k + (first + c) * width;
            ISA_PICK(winograd_table)->weights(&t);
        }
    }
}

void winograd_pack(const ConvGeom *g, WinogradForm form, const Tensor *w, float *dst, Pool *pool) {
    Packing k = {.g = g, .w = w, .dst = dst, .spec = &winograd_spec[form.kind], .dense = tensor_is_dense(w)};
    k.phases = form.kind == WINOGRAD_PHASES;
    k.channels = winograd_channels(g, form.kind);
    k.blocks = (k.channels + CHANNELS - 1) / CHANNELS;
    winograd_panels(g, k.channels, form, &k.panels);
    parallel_for(pool, g->group * k.panels.n * k.blocks, (double)(CHANNELS * k.panels.full) * 10, pack_blocks, &k);
    dst[k.panels.floats] = atomic_load(&k.large) ? 1 : 0;
}

/* Planes' weights `step` apart. One that is nothing but the rounding of them was 0, which an infinity tells from others. */
static float weight_of(const WinogradSpec *s, const float *planes, int64_t step, int tap) {
    const double *row = s->back + tap / s->taps * s->planes, *col = s->back + tap % s->taps * s->planes;
    double sum = 0, size = 0;
    for (int i = 0; i < s->planes; i++)
        for (int l = 0; row[i] != 0 && l < s->planes; l++) {
            if (col[l] == 0) continue;
            double term = row[i] * col[l] * (double)planes[(i * s->planes + l) * step];
            sum += term;
            size += fabs(term);
        }
    return fabs(sum) > 4e-7 * size ? (float)sum : 0;
}

void winograd_unpack(const ConvGeom *g, WinogradForm form, const float *packed, float *dst) {
    const WinogradSpec *s = &winograd_spec[form.kind];
    const int taps = s->taps * s->taps;
    ConvPanels from, to;
    winograd_panels(g, g->c, form, &from);
    conv_panels(g, taps, &to);
    for (int64_t item = 0; item < g->group * from.n; item++) {
        int64_t group = item / from.n, panel = item % from.n, m = panel * from.full;
        int64_t width = panel_width(&from, panel), n = g->c * width;
        int64_t panel_to = m / to.full, row = panel_width(&to, panel_to);
        const float *planes = packed + group * from.group + m * from.k;
        float *first = dst + group * to.group + panel_to * to.full * to.k + m % to.full;
        for (int t = 0; t < taps; t++)
            for (int64_t i = 0; i < n; i++)
                if (m % to.full + i % width < row)
                    first[(t * g->c + i / width) * row + i % width] = weight_of(s, planes + i, n, t);
    }
}
