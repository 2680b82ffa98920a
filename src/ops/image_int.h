/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures out of files in memory, for ImageDecoder: image_decoder.c knows which format it is, image_files.c reads what
   libpng and libjpeg read, image_webp.c, image_tiff.c and image_jpeg2000.c what their libraries do, image_plain.c the
   formats that are little more than bytes. */
#ifndef TENON_OPS_IMAGE_INT_H
#define TENON_OPS_IMAGE_INT_H

#include "ops/op_int.h"

/* Rows of red, green, blue bytes, on the arena; no pixels where the file is damaged. */
typedef struct Image {
    int64_t width, height;
    uint8_t *pixels;
    uint64_t most_bytes; /* that decoding may take; the caller sets it */
} Image;
/* TN_LIMIT for a picture of more than 2^28 pixels, or where `bytes` for each would pass most_bytes. */
tn_status image_room(const Image *image, int64_t width, int64_t height, int64_t bytes);
/* A picture with room for its pixels; TN_LIMIT as above. */
tn_status image_new(Arena *arena, int64_t width, int64_t height, Image *image);

/* Each leaves image->pixels NULL where the file is damaged; an error is one of memory or size, or names a
   kind of picture that is not read. */
tn_status decode_png(Arena *arena, Str file, Image *image);
tn_status decode_jpeg(Arena *arena, Str file, Image *image);
tn_status decode_webp(Arena *arena, Str file, Image *image);
tn_status decode_tiff(Arena *arena, Str file, Image *image);
tn_status decode_jpeg2000(Arena *arena, Str file, Image *image);
tn_status decode_bmp(Arena *arena, Str file, Image *image);
tn_status decode_pnm(Arena *arena, Str file, Image *image);

#endif
