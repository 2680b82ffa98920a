/* SPDX-License-Identifier: Apache-2.0 */
/* The first picture of a TIFF file in memory, by libtiff; what shows through is black. */
#include <stdarg.h>
#include <stdio.h> /* SEEK_SET */

#include <tiffio.h>

#include "ops/image_int.h"

typedef struct TiffFile {
    Str bytes;
    size_t at;
} TiffFile;

static tmsize_t tiff_read(thandle_t handle, void *to, tmsize_t n) {
    TiffFile *f = handle;
    size_t left = f->at < f->bytes.n ? f->bytes.n - f->at : 0, take = (size_t)n < left ? (size_t)n : left;
    if (n <= 0 || !take) return 0;
    memcpy(to, f->bytes.s + f->at, take);
    f->at += take;
    return (tmsize_t)take;
}

static tmsize_t tiff_write(thandle_t handle, void *from, tmsize_t n) {
    (void)handle, (void)from, (void)n;
    return 0;
}

static toff_t tiff_seek(thandle_t handle, toff_t offset, int whence) {
    TiffFile *f = handle;
    f->at = (size_t)offset + (whence == SEEK_CUR ? f->at : whence == SEEK_END ? f->bytes.n : 0);
    return f->at;
}

static int tiff_close(thandle_t handle) {
    (void)handle;
    return 0;
}

static toff_t tiff_size(thandle_t handle) { return ((TiffFile *)handle)->bytes.n; }

/* Non-zero: the handlers that the whole process shares are not called. */
static int tiff_says(TIFF *tiff, void *user, const char *module, const char *format, va_list values) {
    (void)tiff, (void)user, (void)module, (void)format, (void)values;
    return 1;
}

static TIFF *open_tiff(TiffFile *f, uint64_t most_bytes) {
    const uint64_t most = (uint64_t)1 << 31;
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options) return NULL;
    TIFFOpenOptionsSetErrorHandlerExtR(options, tiff_says, NULL);
    TIFFOpenOptionsSetWarningHandlerExtR(options, tiff_says, NULL);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)(most_bytes < most ? most_bytes : most));
    TIFF *tiff = TIFFClientOpenExt("", "rm", f, tiff_read, tiff_write, tiff_seek, tiff_close, tiff_size, NULL, NULL,
                                   options);
    TIFFOpenOptionsFree(options);
    return tiff;
}

/* The ways to compress that keep to the sizes which the file's header names; the rest bring a header of their own, and
   with it sizes that nobody checks. */
static tn_status check_compression(TIFF *tiff) {
    static const uint16_t known[] = {
        COMPRESSION_NONE,      COMPRESSION_CCITTRLE, COMPRESSION_CCITTRLEW, COMPRESSION_CCITTFAX3,
        COMPRESSION_CCITTFAX4, COMPRESSION_LZW,      COMPRESSION_PACKBITS,  COMPRESSION_ADOBE_DEFLATE,
        COMPRESSION_DEFLATE,   COMPRESSION_JPEG,     COMPRESSION_ZSTD,
    };
    uint16_t compression = COMPRESSION_NONE;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] == compression) return TN_OK;
    return fail(TN_UNSUPPORTED, "the TIFF file is compressed in a way (%u) that is not read", compression);
}

/* libtiff turns every kind of picture that it knows into words of red, green, blue, alpha, multiplied by alpha. */
static tn_status read_tiff(TIFF *tiff, Arena *arena, Image *image) {
    TIFFRGBAImage rgba;
    char message[1024] = "";
    uint32_t width = 0, height = 0;
    TRY(check_compression(tiff));
    if (!TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width) || !TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height) ||
        !width || !height)
        return TN_OK;
    TRY(image_room(image, width, height, 3 + 4 + 4)); /* ours, the raster, a strip of the whole picture */
    if (!TIFFRGBAImageOK(tiff, message)) return fail(TN_UNSUPPORTED, "the TIFF file is not read: %.200s", message);
    uint32_t *raster = arena_array(arena, uint32_t, (size_t)width * height);
    if (!raster) return TN_OUT_OF_MEMORY;
    if (!TIFFRGBAImageBegin(&rgba, tiff, 1, message)) return TN_OK;
    rgba.req_orientation = ORIENTATION_TOPLEFT;
    bool done = TIFFRGBAImageGet(&rgba, raster, width, height) != 0;
    TIFFRGBAImageEnd(&rgba);
    if (!done) return TN_OK;
    TRY(image_new(arena, width, height, image));
    for (size_t i = 0; i < (size_t)width * height; i++) {
        image->pixels[3 * i] = TIFFGetR(raster[i]);
        image->pixels[3 * i + 1] = TIFFGetG(raster[i]);
        image->pixels[3 * i + 2] = TIFFGetB(raster[i]);
    }
    return TN_OK;
}

tn_status decode_tiff(Arena *arena, Str file, Image *image) {
    TiffFile f = {.bytes = file};
    TIFF *tiff = open_tiff(&f, image->most_bytes);
    if (!tiff) return TN_OK;
    tn_status status = read_tiff(tiff, arena, image);
    TIFFClose(tiff);
    return status;
}
