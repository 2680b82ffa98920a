/* SPDX-License-Identifier: Apache-2.0 */
/* BMP without compression and the portable formats (PBM, PGM, PPM in text and in bytes), in memory. */
#include "ops/image_int.h"

/* ---- BMP ----------------------------------------------------------------------------------------------------- */

static uint32_t little(const uint8_t *p, int bytes) {
    uint32_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

typedef struct Bmp {
    int64_t width, height, row; /* bytes of a row in the file */
    int bits;
    bool top_down;
    size_t palette, colours, pixels; /* places in the file; entries of the palette */
} Bmp;

/* False: no such file that we can read. */
static bool read_bmp_header(Str file, Bmp *b) {
    const uint8_t *p = (const uint8_t *)file.s;
    if (file.n < 54 || little(p + 14, 4) < 40) return false;
    uint32_t header = little(p + 14, 4), compression = little(p + 30, 4);
    int64_t height = (int32_t)little(p + 22, 4);
    b->bits = (int)little(p + 28, 2);
    b->width = (int32_t)little(p + 18, 4);
    b->height = height < 0 ? -height : height;
    b->top_down = height < 0;
    b->pixels = little(p + 10, 4);
    b->colours = little(p + 46, 4);
    if (b->bits <= 8 && (b->colours == 0 || b->colours > 1u << b->bits)) b->colours = 1u << b->bits;
    b->palette = 14 + (size_t)header;
    if (b->width < 1 || b->height < 1 || (compression != 0 && !(compression == 3 && b->bits == 32))) return false;
    if (b->bits != 1 && b->bits != 4 && b->bits != 8 && b->bits != 24 && b->bits != 32) return false;
    b->row = (b->width * b->bits + 31) / 32 * 4;
    if (b->bits <= 8 && b->palette + 4 * b->colours > file.n) return false;
    return b->pixels <= file.n && b->height <= (int64_t)(file.n - b->pixels) / b->row;
}

/* The bytes blue, green, red of a pixel; NULL: a colour that the palette does not have. */
static const uint8_t *bmp_pixel(const Bmp *b, const uint8_t *file, const uint8_t *row, int64_t x) {
    if (b->bits > 8) return row + x * (b->bits / 8);
    int64_t bit = x * b->bits;
    uint32_t index = row[bit / 8] >> (8 - b->bits - bit % 8) & ((1u << b->bits) - 1);
    return index < b->colours ? file + b->palette + 4 * (size_t)index : NULL;
}

tn_status decode_bmp(Arena *arena, Str file, Image *image) {
    const uint8_t *p = (const uint8_t *)file.s;
    Bmp b;
    if (!read_bmp_header(file, &b)) return TN_OK;
    TRY(image_new(arena, b.width, b.height, image));
    for (int64_t y = 0; y < b.height; y++) {
        const uint8_t *row = p + b.pixels + (b.top_down ? y : b.height - 1 - y) * b.row;
        for (int64_t x = 0; x < b.width; x++) {
            const uint8_t *from = bmp_pixel(&b, p, row, x);
            for (int k = 0; from && k < 3; k++) image->pixels[3 * (y * b.width + x) + k] = from[2 - k];
        }
    }
    return TN_OK;
}

/* ---- portable formats ---------------------------------------------------------------------------------------- */

typedef struct Reader {
    const char *at, *end;
} Reader;

static void skip_blanks(Reader *r) {
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n') r->at++;
        else if (*r->at != ' ' && (*r->at < '\t' || *r->at > '\r')) return;
    }
}

/* -1: there is no number, or one beyond `most`. A bitmap's numbers are single digits. */
static int64_t read_number(Reader *r, int64_t most, bool digit) {
    int64_t v = 0;
    skip_blanks(r);
    if (r->at >= r->end || *r->at < '0' || *r->at > '9') return -1;
    do v = 10 * v + (*r->at++ - '0');
    while (!digit && v <= most && r->at < r->end && *r->at >= '0' && *r->at <= '9');
    return v <= most ? v : -1;
}

/* The next sample as it stands in the file; `index`: its place in the row, of bitmaps. -1: the file ends. */
static int64_t read_sample(Reader *r, int kind, int64_t most, int64_t index) {
    if (kind <= 3) return read_number(r, most, kind == 1);
    if (r->at + (kind != 4 && most > 255 ? 2 : 1) > r->end) return -1;
    const uint8_t *p = (const uint8_t *)r->at;
    if (kind == 4) return p[0] >> (7 - index % 8) & 1; /* the caller moves on, byte by byte */
    r->at += most > 255 ? 2 : 1;
    return most > 255 ? p[0] << 8 | p[1] : p[0];
}

/* False: the file is damaged. */
static bool read_samples(Reader *r, int kind, int64_t most, Image *image) {
    bool colour = kind == 3 || kind == 6, bitmap = kind == 1 || kind == 4;
    for (int64_t y = 0; y < image->height; y++) {
        for (int64_t x = 0; x < image->width; x++) {
            uint8_t *to = image->pixels + 3 * (y * image->width + x);
            for (int k = 0; k < 3; k++) {
                if (k && !colour) {
                    to[k] = to[0];
                    continue;
                }
                int64_t v = read_sample(r, kind, most, x);
                if (v < 0 || v > most) return false;
                to[k] = (uint8_t)(bitmap ? 255 - 255 * v : (v * 255 + most / 2) / most);
            }
            if (kind == 4 && (x % 8 == 7 || x == image->width - 1)) r->at++;
        }
    }
    return true;
}

tn_status decode_pnm(Arena *arena, Str file, Image *image) {
    Reader r = {file.s + 2, file.s + file.n};
    int kind = file.s[1] - '0'; /* P1 to P6 */
    int64_t width = read_number(&r, INT32_MAX, false), height = read_number(&r, INT32_MAX, false);
    int64_t most = kind == 1 || kind == 4 ? 1 : read_number(&r, 65535, false);
    if (width < 1 || height < 1 || most < 1) return TN_OK;
    if (kind > 3 && r.at < r.end) r.at++; /* one blank, whatever it is */
    TRY(image_new(arena, width, height, image));
    if (!read_samples(&r, kind, most, image)) image->pixels = NULL;
    return TN_OK;
}
