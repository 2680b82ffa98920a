/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures out of files in memory, for ImageDecoder: image_decoder.c knows which format it is, image_files.c reads what
   libpng and libjpeg read, image_plain.c the formats that are little more than bytes. */
#ifndef TENON_OPS_IMAGE_INT_H
#define TENON_OPS_IMAGE_INT_H

#include "ops/op_int.h"

/* Rows of red, green, blue bytes, on the arena; no pixels where the file is damaged. */
typedef struct Image {
    int64_t width, height;
    uint8_t *pixels;
} Image;
/* A picture of at most 2^28 pixels with room for them; TN_LIMIT beyond. */
tn_status image_new(Arena *arena, int64_t width, int64_t height, Image *image);

/* Each leaves image->pixels NULL where the file is damaged; an error is one of memory or size. */
tn_status decode_png(Arena *arena, Str file, Image *image);
tn_status decode_jpeg(Arena *arena, Str file, Image *image);
tn_status decode_bmp(Arena *arena, Str file, Image *image);
tn_status decode_pnm(Arena *arena, Str file, Image *image);

#endif
