/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and pools of float32. Data and results have their channels last, which strides alone say: a tensor is still
   [N, C, ...]. Sizes: conv_geom.c; data and results brought into that order: conv_layout.c. */
#ifndef TENON_BACKENDS_CPU_CONV_INT_H
#define TENON_BACKENDS_CPU_CONV_INT_H

#include "backends/cpu/body_int.h"
#include "backends/cpu/conv_tile_int.h"
#include "backends/cpu/winograd_int.h"

enum { CONV_DIMS = TN_MAX_RANK - 2 };

/* A window sliding over the spatial dimensions. */
typedef struct ConvWindow {
    int rank; /* spatial dimensions */
    int64_t kernel[CONV_DIMS], stride[CONV_DIMS], dilation[CONV_DIMS];
    int64_t begin[CONV_DIMS], end[CONV_DIMS]; /* pads */
} ConvWindow;

/* A convolution's sizes and attributes; or a pool's, then with c = m = 1 in as many groups as there are channels. */
typedef struct ConvGeom {
    ConvWindow win;
    int64_t batch, group, c, m; /* channels of one group */
    int64_t in[CONV_DIMS], out[CONV_DIMS];
    int64_t taps, in_px, out_px; /* elements of the kernel and of one plane */
} ConvGeom;

/* From attributes, which inference has checked. Kernel sizes from `weights`, or (NULL) from attributes. Of the pads that
   sizes decide (auto_pad) none are set yet: window_fix does that. */
void window_of(const Node *node, int rank, const Tensor *weights, ConvWindow *win);
void window_fix(const Node *node, const int64_t *in, const int64_t *out, ConvWindow *win);
/* The result's size along spatial dimension d, for data of `in`. Not of pools with ceil_mode. */
int64_t window_size(const Node *node, const ConvWindow *win, int d, int64_t in);
/* Of Conv and its like. */
void conv_geom(const Node *node, const Tensor *x, const Tensor *w, const Tensor *y, ConvGeom *g);

/* ---- order of elements (conv_layout.c) ----------------------------------------------------------------------- */

/* Data or a result with neighbouring channels. Strides count floats. */
typedef struct ConvData {
    float *data; /* of channel 0 of the first pixel */
    int64_t image, stride[CONV_DIMS];
} ConvData;

/* Strides of [N, C, ...] with its channels last; rank 2 and more. */
void channels_last(int rank, const int64_t *dims, int64_t *strides);
/* Whether one distance (*ld) leads from each pixel of an image to the next. */
bool pixels_follow(const Tensor *t, int64_t *ld);
/* For KernelDesc.order: results of three dimensions and more. */
void order_channels_last(const KernelQuery *q, int k, Tensor *out);
/* A tensor as it is, whose channels may be no neighbours. */
void conv_data(const Tensor *t, ConvData *out);
/* The operand as it is, where its channels are neighbours, else a copy on scratch. `pad`: where a copy is made (and always
   when `must_pad`), with the zeros around it that the window reads; then *padded, and g's pads are 0 and its sizes larger. */
tn_status conv_input(KernelCtx *c, const Tensor *x, ConvGeom *g, bool pad, ConvData *out);
/* Where to write a result: the tensor itself when its pixels follow each other at one distance (*ld), else scratch. */
tn_status conv_output(KernelCtx *c, const Tensor *y, ConvData *out, int64_t *ld);
/* Copies scratch to where the result is to be. */
tn_status conv_output_done(KernelCtx *c, const Tensor *y, const ConvData *data);
/* An operand with the result's sizes, as conv_output wants them. */
tn_status conv_like_output(KernelCtx *c, const Tensor *t, ConvData *out, int64_t *ld);
/* n floats of an operand that has no more dimensions but of size 1, and zeros up to `room`, on scratch. */
tn_status conv_vector(KernelCtx *c, const Tensor *t, int64_t n, int64_t room, const float **out);

/* ---- panels of weights (conv_pack.c) ------------------------------------------------------------------------- */

/* [group][panel][taps * c][width]: panels are as wide as registers hold (`full`), the last one no wider than it must be.
   `few` output channels are one panel, which lies the other way round: [group][m][taps * c]. */
typedef struct ConvPanels {
    bool few;
    int64_t full, n, k;    /* floats of a full panel's row, panels of a group, rows of a panel */
    int64_t last;          /* floats of the last panel's row */
    int64_t group, floats; /* from group to group, and in all */
} ConvPanels;
void conv_panels(const ConvGeom *g, int64_t taps, ConvPanels *p);
static inline int64_t panel_width(const ConvPanels *p, int64_t panel) { return panel == p->n - 1 ? p->last : p->full; }
/* Any reading of [M, C / group, ...], or of [C, M / group, ...]. `pool` NULL: on this thread. */
void conv_pack(const ConvGeom *g, const ConvPanels *p, const Tensor *w, bool c_first, float *dst, Pool *pool);

/* ---- nodes (conv_node.c) ------------------------------------------------------------------------------------- */

typedef struct ConvPrepared {
    Heavy heavy;
    Arena arena;          /* of the body */
    Body *body;           /* NULL: none */
    const Packed *packed; /* weights; NULL: they are packed when it runs */
    int way;              /* that they are packed for, as the kernel has it */
    bool wants_weights;   /* the operand too */
} ConvPrepared;

/* Operand i of the heavy node; NULL: absent. */
const Tensor *conv_operand(const Heavy *h, const Tensor *const *in, int i);
/* Makes a ConvPrepared. `pack` is asked to set `packed`, where weights are dense constants: sizes then say how they lie. */
typedef tn_status (*ConvPackFn)(const KernelQuery *q, Context *context, ConvPrepared *p);
tn_status conv_prepare(const KernelQuery *q, Context *context, bool (*is_heavy)(const Node *node), ConvPackFn pack,
                       Prepared *out);

/* ---- running (conv_direct.c ...) ----------------------------------------------------------------------------- */

/* What follows the sums. */
typedef struct ConvEpilogue {
    const float *bias; /* of all channels and as many zeros as a panel may be longer; NULL: none */
    ConvData residual; /* with data NULL: none */
    int64_t residual_ld;
    float lo, hi;
    const BodyMap *body; /* run on what the above has made; NULL: there is none */
} ConvEpilogue;

typedef struct ConvRunArgs {
    const ConvGeom *g;
    ConvData x, y;
    int64_t y_ld;
    bool y_apart; /* only the last dimension's pixels of y and of the residual follow each other at one distance */
    /* Which tap of the weights each tap is, and how many the weights have; NULL: they are the same. */
    const int32_t *taps;
    int64_t n_taps;
    /* Tiles, or blocks of Winograd's algorithm, that go through the weights together, about; 0: as many as usual. No answer
       depends on it. */
    int64_t together;
    ConvEpilogue after;
} ConvRunArgs;
/* What follows the sums, as far as registers can hold it; the rest is the body's. lo and hi are the op's own clip. */
tn_status conv_epilogue(KernelCtx *c, const ConvPrepared *p, const ConvGeom *g, float lo, float hi, BodyMap *map,
                        ConvEpilogue *e);
/* The body on pixels [first, end) of an image and channels [channel, channel + n) of y. */
int64_t conv_body_pixels(int64_t n); /* that it does at a time */
void conv_body(const ConvRunArgs *run, int64_t image, int64_t first, int64_t end, int64_t channel, int64_t n);
/* n of them with the same weights, at once. */
tn_status conv_direct(KernelCtx *c, const ConvRunArgs *runs, int64_t n, const float *panels);

/* The same weights with short sums over a row of some pixels, for one dimension or two. Channels of x may lie apart, at the
   distance x_channel. */
bool conv_lines_take(const ConvGeom *g);
tn_status conv_lines(KernelCtx *c, const ConvRunArgs *run, int64_t x_channel, const float *panels);

/* Winograd's algorithm. Weights lie in panels as wide as those of others, or (narrow) half of that, with which few blocks make
   higher tiles. */
typedef struct WinogradForm {
    WinogradKind kind;
    bool narrow;
} WinogradForm;
/* Where it is to be had; the form that pays most, which may be none. */
bool winograd_takes(const ConvGeom *g, WinogradForm form);
WinogradForm winograd_form(const ConvGeom *g);
int64_t winograd_floats(const ConvGeom *g, WinogradForm form);
void winograd_pack(const ConvGeom *g, WinogradForm form, const Tensor *w, float *dst, Pool *pool);
/* Input channels of a group that the algorithm sees; panels for so many. */
int64_t winograd_channels(const ConvGeom *g, WinogradKind kind);
void winograd_panels(const ConvGeom *g, int64_t c, WinogradForm form, ConvPanels *p);
/* !*finite: some sum is no number that the algorithm can give, so all has to be done directly. The weights for that can be had
   from those that are packed (`keeps`), unless some are not finite themselves. */
tn_status conv_winograd(KernelCtx *c, const ConvRunArgs *run, WinogradForm form, const float *weights, bool *finite);
bool winograd_keeps_weights(const ConvGeom *g, WinogradForm form, const float *packed);
void winograd_unpack(const ConvGeom *g, WinogradForm form, const float *packed, float *dst); /* as conv_pack does */
/* The data of a convolution in steps of 2 as WINOGRAD_PHASES takes it: what conv_winograd is to be given for g and x. */
tn_status conv_phases(KernelCtx *c, const ConvGeom *g, const Tensor *x, ConvGeom *phases, ConvData *out);

/* Groups of one channel, or of a few that become as many; see depthwise_int.h. */
bool depthwise_takes(const ConvGeom *g);
int64_t depthwise_floats(const ConvGeom *g);
void depthwise_pack(const ConvGeom *g, const Tensor *w, float *dst);
tn_status conv_depthwise(KernelCtx *c, const ConvRunArgs *run, const float *weights);

#endif
