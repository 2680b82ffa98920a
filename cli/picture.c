/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as inputs: scaled to the input's sizes, normalised, in its layout. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where channels, rows and columns of an input lie, and how large they are. */
typedef struct Layout {
    int channels, height, width; /* of the input */
    int64_t channel_step, row_step, column_step;
    double mean[3], inverse_std[3], scale;
    bool bgr;
} Layout;

/* ---- options -------------------------------------------------------------------------------------------------- */

/* One number for all channels, or three. */
static bool parse_channels(const char *text, double fallback, double out[3]) {
    char *end;
    int n = 0;
    for (; text && n < 3; text = *end == ',' ? end + 1 : NULL, n++) {
        out[n] = strtod(text, &end);
        if (end == text || (*end && *end != ',')) return false;
    }
    if (text || n == 2) return false;
    for (int c = 0; c < 3; c++) out[c] = n == 0 ? fallback : n == 1 ? out[0] : out[c];
    return true;
}

static int read_normalisation(const tn_value_info *info, const InputOptions *o, Layout *layout) {
    double std[3];
    if (!parse_channels(o->mean, 0, layout->mean) || !parse_channels(o->std, 1, std)) {
        report("--mean and --std are one number or three, as in 0.485,0.456,0.406");
        return USAGE;
    }
    for (int c = 0; c < 3; c++) layout->inverse_std[c] = 1 / std[c];
    layout->scale = o->scale != 0 ? o->scale : info->dtype == TN_U8 ? 1 : 1.0 / 255;
    layout->bgr = o->bgr;
    return GO_ON;
}

/* [.., C, H, W] or [.., H, W, C] with C 1 or 3 and leading sizes of 1. Unknown sizes become the picture's. */
static bool find_layout(tn_value_info *info, int width, int height, Layout *layout) {
    int r = info->rank;
    if (info->dtype != TN_F32 && info->dtype != TN_U8) return false;
    if (r < 2) return false;
    bool last = r >= 3 && (info->dims[r - 1] == 3 || info->dims[r - 1] == 1);
    int c = last ? r - 1 : r - 3, h = last ? r - 3 : r - 2, w = h + 1;
    for (int d = 0; d < (last ? h : c); d++)
        if (info->dims[d] < 0) info->dims[d] = 1;
    if (c >= 0 && info->dims[c] < 0) info->dims[c] = 3;
    if (info->dims[h] < 0) info->dims[h] = height;
    if (info->dims[w] < 0) info->dims[w] = width;
    layout->channels = c < 0 ? 1 : (int)info->dims[c];
    layout->height = (int)info->dims[h];
    layout->width = (int)info->dims[w];
    int64_t pixels = info->dims[h] * info->dims[w];
    layout->channel_step = last ? 1 : pixels;
    layout->column_step = last ? layout->channels : 1;
    layout->row_step = layout->width * layout->column_step;
    for (int d = 0; d < (last ? h : c); d++)
        if (info->dims[d] != 1) return false;
    return (layout->channels == 1 || layout->channels == 3) && layout->height > 0 && layout->width > 0;
}

/* ---- pixels --------------------------------------------------------------------------------------------------- */

typedef struct Pixels {
    const uint8_t *rgb;
    int width, height;
} Pixels;

static double pixel(const Pixels *p, int x, int y, int channel, int channels) {
    x = x < 0 ? 0 : x >= p->width ? p->width - 1 : x;
    y = y < 0 ? 0 : y >= p->height ? p->height - 1 : y;
    const uint8_t *at = p->rgb + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
    return channels == 1 ? 0.299 * at[0] + 0.587 * at[1] + 0.114 * at[2] : at[channel];
}

/* Between the four pixels around (x, y), whose centres are at halves. */
static double sample(const Pixels *p, double x, double y, int channel, int channels) {
    double left = floor(x - 0.5), top = floor(y - 0.5), fx = x - 0.5 - left, fy = y - 0.5 - top;
    int i = (int)left, j = (int)top;
    return (1 - fy) * ((1 - fx) * pixel(p, i, j, channel, channels) + fx * pixel(p, i + 1, j, channel, channels)) +
           fy * ((1 - fx) * pixel(p, i, j + 1, channel, channels) + fx * pixel(p, i + 1, j + 1, channel, channels));
}

static void put_picture(const Pixels *p, const Layout *l, tn_tensor *t) {
    double sx = (double)p->width / l->width, sy = (double)p->height / l->height;
    bool bytes = tn_tensor_dtype(t) == TN_U8;
    void *data = tn_tensor_data(t);
    for (int c = 0; c < l->channels; c++)
        for (int y = 0; y < l->height; y++)
            for (int x = 0; x < l->width; x++) {
                int channel = l->bgr ? 2 - c : c;
                double v = sample(p, (x + 0.5) * sx, (y + 0.5) * sy, channel, l->channels);
                v = (v * l->scale - l->mean[c]) * l->inverse_std[c];
                int64_t at = c * l->channel_step + y * l->row_step + x * l->column_step;
                if (bytes) ((uint8_t *)data)[at] = (uint8_t)fmin(fmax(nearbyint(v), 0), 255);
                else ((float *)data)[at] = (float)v;
            }
}

int picture_load(tn_context *context, const char *path, const tn_value_info *declared, const InputOptions *options,
                 tn_tensor **tensor) {
    tn_value_info info = *declared;
    Layout layout;
    Pixels pixels = {0};
    int code = read_normalisation(&info, options, &layout);
    if (code != GO_ON) return code;
    uint8_t *rgb = picture_decode(path, &pixels.width, &pixels.height);
    if (!rgb) return FAILED;
    pixels.rgb = rgb;
    if (!find_layout(&info, pixels.width, pixels.height, &layout)) {
        char *type = type_text(declared);
        code = report("input \"%s\" is %s: a picture fits f32 or u8 of [1,3,H,W], [1,1,H,W] or [1,H,W,3]", info.name,
                      type);
        free(type);
    } else if (tn_tensor_create(context, info.dtype, info.rank, info.dims, tensor) != TN_OK) {
        code = report_last_error();
    } else {
        put_picture(&pixels, &layout, *tensor);
    }
    free(rgb);
    return code;
}
