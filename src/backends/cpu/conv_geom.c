/* SPDX-License-Identifier: Apache-2.0 */
/* What the attributes of convolutions and pools say. */
#include "backends/cpu/conv_int.h"

static void read_list(const Node *node, const char *name, int n, int64_t missing, int64_t *out) {
    IntList list = attr_ints(node, name);
    for (int i = 0; i < n; i++) out[i] = (size_t)i < list.n ? list.data[i] : missing;
}

/* Where pads come from: asked for at every plan, of nodes that mostly do not say. */
typedef enum Pads { PADS_GIVEN, PADS_NONE, PADS_UPPER, PADS_LOWER } Pads;

static Pads pads_of(const Node *node) {
    const Attr *a = attr_get(node, "auto_pad");
    if (!a || a->kind != ATTR_STRING) return PADS_GIVEN;
    if (str_equal(a->s, STR("SAME_UPPER"))) return PADS_UPPER;
    if (str_equal(a->s, STR("SAME_LOWER"))) return PADS_LOWER;
    return str_equal(a->s, STR("VALID")) ? PADS_NONE : PADS_GIVEN;
}

static bool pads_follow(Pads pads) { return pads == PADS_UPPER || pads == PADS_LOWER; }

void window_of(const Node *node, int rank, const Tensor *weights, ConvWindow *win) {
    int64_t pads[2 * CONV_DIMS] = {0};
    *win = (ConvWindow){.rank = rank};
    read_list(node, "kernel_shape", rank, 1, win->kernel);
    read_list(node, "strides", rank, 1, win->stride);
    read_list(node, "dilations", rank, 1, win->dilation);
    if (pads_of(node) == PADS_GIVEN) read_list(node, "pads", 2 * rank, 0, pads);
    for (int d = 0; d < rank; d++) {
        if (weights) win->kernel[d] = weights->dims[2 + d];
        win->begin[d] = pads[d];
        win->end[d] = pads[rank + d];
    }
}

void window_fix(const Node *node, const int64_t *in, const int64_t *out, ConvWindow *win) {
    Pads pads = pads_of(node);
    if (!pads_follow(pads)) return;
    for (int d = 0; d < win->rank; d++) {
        int64_t span = (win->kernel[d] - 1) * win->dilation[d] + 1;
        int64_t total = max_i64((out[d] - 1) * win->stride[d] + span - in[d], 0);
        win->begin[d] = pads == PADS_UPPER ? total / 2 : total - total / 2;
        win->end[d] = total - win->begin[d];
    }
}

int64_t window_size(const Node *node, const ConvWindow *win, int d, int64_t in) {
    int64_t stride = win->stride[d], span = (win->kernel[d] - 1) * win->dilation[d] + 1;
    if (pads_follow(pads_of(node))) return (in + stride - 1) / stride;
    int64_t room = in + win->begin[d] + win->end[d] - span;
    return room < 0 ? 0 : room / stride + 1;
}

void conv_geom(const Node *node, const Tensor *x, const Tensor *w, const Tensor *y, ConvGeom *g) {
    int rank = x->rank - 2;
    *g = (ConvGeom){.batch = x->dims[0], .group = attr_int(node, "group"), .taps = 1, .in_px = 1, .out_px = 1};
    window_of(node, rank, w, &g->win);
    window_fix(node, x->dims + 2, y->dims + 2, &g->win);
    g->c = w->dims[1];
    g->m = w->dims[0] / g->group;
    for (int d = 0; d < rank; d++) {
        g->taps *= g->win.kernel[d];
        g->in_px *= g->in[d] = x->dims[2 + d];
        g->out_px *= g->out[d] = y->dims[2 + d];
    }
}

enum { BODY_FLOATS = 4096, BODY_PIXELS = 8 }; /* at a time: a tile stays in the first-level cache; and at least */

int64_t conv_body_pixels(int64_t n) { return max_i64(BODY_PIXELS, BODY_FLOATS / n); }

void conv_body(const ConvRunArgs *run, int64_t image, int64_t first, int64_t end, int64_t channel, int64_t n) {
    const ConvGeom *g = run->g;
    int64_t row = run->after.body->rows_walk ? g->out_px : g->out[g->win.rank - 1];
    for (int64_t px = first, pixels; px < end; px += pixels) {
        pixels = min_i64(min_i64(end - px, row - px % row), conv_body_pixels(n));
        int64_t at[TN_MAX_RANK] = {image, channel}, rest = px;
        for (int d = g->win.rank - 1; d >= 0; d--) {
            at[2 + d] = rest % g->out[d];
            rest /= g->out[d];
        }
        float *y = run->y.data + image * run->y.image + px * run->y_ld + channel;
        body_run_tile(run->after.body, at, y, run->y_ld, y, run->y_ld, pixels, n);
    }
}
