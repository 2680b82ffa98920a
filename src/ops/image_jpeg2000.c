/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG 2000 files in memory (JP2 or a bare codestream), by OpenJPEG; what shows through is black. OpenJPEG has no limit
   of its own, and a few bytes of a header can make it allocate terabytes: the file is measured before it sees it. */
#include <openjpeg.h>

#include "ops/image_int.h"

static uint32_t big(const uint8_t *p, int bytes) {
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | p[i];
    return v;
}

/* ---- measuring ----------------------------------------------------------------------------------------------- */

/* Where the codestream begins; file.n: nowhere. Boxes that OpenJPEG could see otherwise than we do are refused. */
static size_t find_codestream(Str file) {
    const uint8_t *p = (const uint8_t *)file.s;
    if (p[0] == 0xff) return 0;
    for (size_t at = 0; file.n - at >= 16;) {
        size_t length = big(p + at, 4), header = 8;
        if (length == 1) {
            if (big(p + at + 8, 4)) break;
            length = big(p + at + 12, 4);
            header = 16;
        }
        if (!memcmp(p + at + 4, "jp2c", 4)) return at + header;
        if (length < header || length > file.n - at) break;
        at += length;
    }
    return file.n;
}

/* The channels that palettes make of one component; 1 without any. */
static uint32_t palette_channels(Str file) {
    uint32_t most = 1;
    for (size_t i = 0; i + 7 <= file.n; i++)
        if (file.s[i] == 'p' && !memcmp(file.s + i, "pclr", 4) && (uint8_t)file.s[i + 6] > most)
            most = (uint8_t)file.s[i + 6];
    return most;
}

/* The SIZ marker: the grid of pixels, the grid of tiles, and how the components lie on them. False: damaged. */
typedef struct Grid {
    uint32_t x0, y0, x1, y1, tile_x0, tile_y0, tile_w, tile_h, parts;
    uint64_t tiles, samples;
} Grid;

static uint64_t ceil_over(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

static bool read_grid(Str file, Grid *g) {
    size_t at = find_codestream(file);
    const uint8_t *p = (const uint8_t *)file.s + at;
    if (file.n - at < 45 || big(p, 4) != 0xff4fff51u) return false;
    *g = (Grid){
        .x1 = big(p + 8, 4),
        .y1 = big(p + 12, 4),
        .x0 = big(p + 16, 4),
        .y0 = big(p + 20, 4),
        .tile_w = big(p + 24, 4),
        .tile_h = big(p + 28, 4),
        .tile_x0 = big(p + 32, 4),
        .tile_y0 = big(p + 36, 4),
        .parts = big(p + 40, 2),
    };
    if (g->x1 <= g->x0 || g->y1 <= g->y0 || !g->tile_w || !g->tile_h || g->tile_x0 > g->x0 || g->tile_y0 > g->y0)
        return false;
    if (!g->parts || file.n - at < 42 + 3 * (size_t)g->parts) return false;
    g->tiles = ceil_over(g->x1 - g->tile_x0, g->tile_w) * ceil_over(g->y1 - g->tile_y0, g->tile_h);
    for (uint32_t i = 0; i < g->parts; i++) {
        const uint8_t *part = p + 42 + 3 * (size_t)i;
        if (!part[1] || !part[2]) return false;
        g->samples += ceil_over(g->x1 - g->x0, part[1]) * ceil_over(g->y1 - g->y0, part[2]);
        if (g->samples > (uint64_t)1 << 40) break; /* beyond any limit, and the sum cannot overflow */
    }
    return true;
}

/* A COD or COC segment whose style stands at p[skip]: small precincts, each of which costs OpenJPEG several hundred
   bytes, are let pass only in the resolutions that are small themselves. */
static bool precincts_bounded(const uint8_t *p, const uint8_t *end, size_t fixed, size_t skip, size_t levels_at) {
    size_t length = big(p + 2, 2), n = length - fixed;
    if (!(p[skip] & 1) || length <= fixed || n > 33 || (size_t)(end - p) < 2 + length || p[levels_at] + 1u != n)
        return true; /* no precincts, or no such segment: these bytes mean something else */
    for (size_t i = 0; i < n; i++) {
        size_t least = 5 > n - i ? 5 - (n - i) : 0, v = p[2 + fixed + i];
        if ((v & 15) < least || v >> 4 < least) return false;
    }
    return true;
}

/* Each packet takes a byte at least, so an intact file has as many bytes as layers times resolutions. */
static bool layers_bounded(const uint8_t *p, size_t bytes) {
    size_t length = big(p + 2, 2), levels = p[9];
    if (length != ((p[4] & 1) ? 13 + levels : 12) || levels > 32) return true;
    return big(p + 6, 2) * (levels + 1) <= bytes;
}

/* Looks at whatever could be such a marker, so that none is missed. */
static bool coding_bounded(Str file) {
    const uint8_t *p = (const uint8_t *)file.s, *end = p + file.n;
    for (; end - p >= 14; p++) {
        if (p[0] != 0xff) continue;
        if (p[1] == 0x52 && !(precincts_bounded(p, end, 12, 4, 9) && layers_bounded(p, file.n))) return false;
        if (p[1] == 0x53 && !precincts_bounded(p, end, 9, 5, 6)) return false;
    }
    return true;
}

/* TN_OK with *sound false: damaged. A tile takes 14 bytes at least in the file, and 4 for each sample in the picture, 4
   in its tile, 16 at most for the tables of its blocks. */
static tn_status measure(Str file, const Image *image, bool *sound) {
    Grid g;
    *sound = false;
    if (!read_grid(file, &g)) return TN_OK;
    if (g.parts > 4) return fail(TN_UNSUPPORTED, "the JPEG 2000 file has %u components; 1 to 4 are read", g.parts);
    if (g.tiles > file.n / 14 || !coding_bounded(file)) return TN_OK;
    uint64_t bytes = g.samples * (24 + 4 * (uint64_t)palette_channels(file)) + g.tiles * 16384;
    if (bytes > image->most_bytes)
        return fail(TN_LIMIT, "a JPEG 2000 picture of %u x %u takes more memory than the limit (tn_limits.max_bytes)",
                    g.x1 - g.x0, g.y1 - g.y0);
    *sound = true;
    return TN_OK;
}

/* ---- the file as a stream ------------------------------------------------------------------------------------ */

typedef struct Source {
    Str bytes;
    size_t at;
} Source;

static OPJ_SIZE_T source_read(void *to, OPJ_SIZE_T n, void *user) {
    Source *s = user;
    size_t left = s->bytes.n - s->at, take = n < left ? n : left;
    if (!take) return (OPJ_SIZE_T)-1;
    memcpy(to, s->bytes.s + s->at, take);
    s->at += take;
    return take;
}

static OPJ_OFF_T source_skip(OPJ_OFF_T n, void *user) {
    Source *s = user;
    size_t left = s->bytes.n - s->at;
    if (n < 0 || !left) return -1;
    size_t take = (uint64_t)n < left ? (size_t)n : left;
    s->at += take;
    return (OPJ_OFF_T)take;
}

static OPJ_BOOL source_seek(OPJ_OFF_T at, void *user) {
    Source *s = user;
    if (at < 0 || (uint64_t)at > s->bytes.n) return OPJ_FALSE;
    s->at = (size_t)at;
    return OPJ_TRUE;
}

static opj_stream_t *open_source(Source *source) {
    opj_stream_t *stream = opj_stream_create((OPJ_SIZE_T)1 << 16, OPJ_TRUE);
    if (!stream) return NULL;
    opj_stream_set_read_function(stream, source_read);
    opj_stream_set_skip_function(stream, source_skip);
    opj_stream_set_seek_function(stream, source_seek);
    opj_stream_set_user_data(stream, source, NULL);
    opj_stream_set_user_data_length(stream, source->bytes.n);
    return stream;
}

/* ---- pixels -------------------------------------------------------------------------------------------------- */

/* The sample for a place on the grid of the first component, as a byte. */
static uint8_t sample(const opj_image_t *from, const opj_image_comp_t *part, int64_t x, int64_t y) {
    int64_t column = x * from->comps[0].dx / part->dx, row = y * from->comps[0].dy / part->dy;
    if (column >= part->w) column = part->w - 1;
    if (row >= part->h) row = part->h - 1;
    int64_t most = ((int64_t)1 << part->prec) - 1;
    int64_t v = (int64_t)part->data[row * part->w + column] + (part->sgnd ? (int64_t)1 << (part->prec - 1) : 0);
    v = v < 0 ? 0 : v > most ? most : v;
    return (uint8_t)(most == 255 ? v : (v * 255 + most / 2) / most);
}

static uint8_t clamp_byte(int32_t v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

/* Full-range YCbCr (ITU-R 601) in 16 bits of fraction. */
static void from_ycc(uint8_t *p) {
    int32_t y = p[0] * 65536 + 32768, b = p[1] - 128, r = p[2] - 128;
    p[0] = clamp_byte((y + 91881 * r) >> 16);
    p[1] = clamp_byte((y - 22554 * b - 46802 * r) >> 16);
    p[2] = clamp_byte((y + 116130 * b) >> 16);
}

/* Which components are the colours, which the alpha (NULL: none); false: the picture cannot be read. */
static bool pick_parts(const opj_image_t *from, const opj_image_comp_t *colours[3], const opj_image_comp_t **alpha) {
    int n = 0;
    *alpha = NULL;
    for (uint32_t i = 0; i < from->numcomps; i++) {
        const opj_image_comp_t *part = &from->comps[i];
        if (!part->data || !part->w || !part->h || !part->dx || !part->dy || !part->prec || part->prec > 31)
            return false;
        if (part->alpha) *alpha = part;
        else if (n < 3) colours[n++] = part;
    }
    if (!n) return false;
    if (n < 3) colours[1] = colours[2] = colours[0];
    return true;
}

static void copy_pixels(const opj_image_t *from, Image *image) {
    const opj_image_comp_t *colours[3], *alpha;
    if (!pick_parts(from, colours, &alpha) || from->comps[0].w != image->width || from->comps[0].h != image->height) {
        image->pixels = NULL;
        return;
    }
    bool ycc = colours[1] != colours[0] && (from->color_space == OPJ_CLRSPC_SYCC || colours[1]->dx != colours[0]->dx);
    uint8_t *to = image->pixels;
    for (int64_t y = 0; y < image->height; y++) {
        for (int64_t x = 0; x < image->width; x++, to += 3) {
            for (int k = 0; k < 3; k++) to[k] = sample(from, colours[k], x, y);
            if (ycc) from_ycc(to);
            int through = alpha ? sample(from, alpha, x, y) : 255;
            for (int k = 0; k < 3; k++) to[k] = (uint8_t)((to[k] * through + 127) / 255);
        }
    }
}

/* `*out` is the caller's to free, whatever is returned. */
static tn_status read_codestream(opj_codec_t *codec, opj_stream_t *stream, Arena *arena, opj_image_t **out,
                                 Image *image) {
    opj_dparameters_t how;
    opj_set_default_decoder_parameters(&how);
    if (!opj_setup_decoder(codec, &how) || !opj_read_header(stream, codec, out)) return TN_OK;
    const opj_image_t *from = *out;
    if (from->color_space == OPJ_CLRSPC_CMYK || from->color_space == OPJ_CLRSPC_EYCC)
        return fail(TN_UNSUPPORTED, "the colours of the JPEG 2000 file are CMYK or e-YCC");
    if (!from->numcomps || !from->comps[0].w || !from->comps[0].h) return TN_OK;
    TRY(image_room(image, from->comps[0].w, from->comps[0].h, 3));
    if (!opj_decode(codec, stream, *out)) return TN_OK;
    TRY(image_new(arena, from->comps[0].w, from->comps[0].h, image));
    copy_pixels(from, image);
    return TN_OK;
}

tn_status decode_jpeg2000(Arena *arena, Str file, Image *image) {
    bool sound;
    TRY(measure(file, image, &sound));
    if (!sound) return TN_OK;
    Source source = {.bytes = file};
    opj_image_t *from = NULL;
    opj_stream_t *stream = open_source(&source);
    opj_codec_t *codec = opj_create_decompress((uint8_t)file.s[0] == 0xff ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    tn_status status = stream && codec ? read_codestream(codec, stream, arena, &from, image) : fail_memory(0);
    opj_image_destroy(from);
    if (codec) opj_destroy_codec(codec);
    if (stream) opj_stream_destroy(stream);
    return status;
}
