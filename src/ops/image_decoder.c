/* SPDX-License-Identifier: Apache-2.0 */
/* ImageDecoder (ONNX 20): the pixels of a file in memory. A damaged file, or one of no format that ONNX
   names, is an empty picture. */
#include "ops/image_int.h"
#include "ops/move_int.h"

typedef enum Pixels { PIXELS_RGB, PIXELS_BGR, PIXELS_GRAY } Pixels;

static tn_status read_pixels(const Node *node, Pixels *out) {
    static const char *const names[] = {"RGB", "BGR", "Grayscale"};
    for (int i = 0; i < 3; i++) {
        *out = (Pixels)i;
        if (attr_string_is(node, "pixel_format", names[i])) return TN_OK;
    }
    Str s = attr_string(node, "pixel_format");
    return fail(TN_INVALID_MODEL, "pixel_format is \"%.*s\"; RGB, BGR or Grayscale is wanted", (int)s.n, s.s);
}

static tn_status image_infer(InferCtx *c) {
    Pixels pixels;
    const Shape *x = in_shape(c, 0);
    TRY(read_pixels(c->node, &pixels));
    if (x->rank >= 0 && x->rank != 1) return fail(TN_SHAPE, "the file has %d dimensions; 1 is wanted", x->rank);
    Shape y = {.rank = 3, .dims = {DIM_UNKNOWN, DIM_UNKNOWN, pixels == PIXELS_GRAY ? 1 : 3}};
    set_type(c, 0, TN_U8, &y);
    return TN_OK;
}

/* What a file of the format begins with, a dot for any byte. */
static const struct Format {
    const char *magic;
    size_t n;
    tn_status (*decode)(Arena *arena, Str file, Image *image);
} formats[] = {
    {"\x89PNG\r\n\x1a\n", 8, decode_png},
    {"\xff\xd8\xff", 3, decode_jpeg},
    {"BM", 2, decode_bmp},
    {"P1", 2, decode_pnm},
    {"P2", 2, decode_pnm},
    {"P3", 2, decode_pnm},
    {"P4", 2, decode_pnm},
    {"P5", 2, decode_pnm},
    {"P6", 2, decode_pnm},
    {"\0\0\0\x0cjP  ", 8, decode_jpeg2000},
    {"\xff\x4f\xff\x51", 4, decode_jpeg2000},
    {"II*\0", 4, decode_tiff},
    {"MM\0*", 4, decode_tiff},
    {"II+\0", 4, decode_tiff},
    {"MM\0+", 4, decode_tiff},
    {"RIFF....WEBP", 12, decode_webp},
};

static bool has_magic(Str file, const struct Format *f) {
    if (file.n < f->n) return false;
    for (size_t i = 0; i < f->n; i++)
        if (f->magic[i] != '.' && f->magic[i] != file.s[i]) return false;
    return true;
}

static tn_status decode(Arena *arena, Str file, Image *image) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (has_magic(file, &formats[i])) return formats[i].decode(arena, file, image);
    return TN_OK;
}

static void convert(const uint8_t *from, Pixels pixels, uint8_t *to) {
    if (pixels == PIXELS_GRAY) { /* ITU-R 601, as most decoders have it: 16 bits of fraction, rounded */
        to[0] = (uint8_t)((from[0] * 19595 + from[1] * 38470 + from[2] * 7471 + 0x8000) >> 16);
        return;
    }
    for (int k = 0; k < 3; k++) to[k] = from[pixels == PIXELS_BGR ? 2 - k : k];
}

static tn_status image_reference(KernelCtx *c) {
    const void *bytes;
    Image image = {.most_bytes = c->context ? c->context->limits.max_bytes : UINT64_MAX};
    Pixels pixels;
    TRY(read_pixels(c->node, &pixels));
    TRY(dense_bytes(c, 0, &bytes));
    TRY(decode(c->scratch, (Str){bytes, (size_t)tensor_count(c->in[0])}, &image));
    if (!image.pixels) image.width = image.height = 0;
    int64_t parts = pixels == PIXELS_GRAY ? 1 : 3, dims[] = {image.height, image.width, parts};
    TRY(output_ready(c, 0, 3, dims));
    uint8_t *y = tensor_bytes(&c->out[0]);
    for (int64_t i = 0; i < image.width * image.height; i++) convert(image.pixels + 3 * i, pixels, y + parts * i);
    return TN_OK;
}

const OpSchema op_ImageDecoder = {
    .name = "ImageDecoder",
    .summary = "The pixels of a PNG, JPEG, JPEG 2000, WebP, TIFF, BMP or PNM file (ONNX 20)",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"encoded_stream", TS(TN_U8)}),
    .outputs = OPERANDS({"image", TS(TN_U8)}),
    .attrs = ATTRIBUTES({"pixel_format", ATTR_STRING, .s = "RGB"}),
    .infer = image_infer,
    .reference = image_reference,
};
