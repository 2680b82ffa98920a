/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG files in memory, by libpng and libjpeg. */
#include <setjmp.h>
#include <stdio.h> /* jpeglib.h wants it */

#include <jpeglib.h>
#include <png.h>

#include "ops/image_int.h"

tn_status image_room(const Image *image, int64_t width, int64_t height, int64_t bytes) {
    const int64_t most = (int64_t)1 << 28;
    if (width < 1 || height < 1 || width > most || height > most || width * height > most)
        return fail(TN_LIMIT, "a picture of %lld x %lld pixels", (long long)width, (long long)height);
    if ((uint64_t)(width * height) > image->most_bytes / (uint64_t)bytes)
        return fail(TN_LIMIT, "a picture of %lld x %lld pixels takes more memory than the limit (tn_limits.max_bytes)",
                    (long long)width, (long long)height);
    return TN_OK;
}

tn_status image_new(Arena *arena, int64_t width, int64_t height, Image *image) {
    TRY(image_room(image, width, height, 3));
    image->width = width;
    image->height = height;
    image->pixels = arena_array(arena, uint8_t, (size_t)(3 * width * height));
    return image->pixels ? TN_OK : TN_OUT_OF_MEMORY;
}

tn_status decode_png(Arena *arena, Str file, Image *image) {
    png_image png = {.version = PNG_IMAGE_VERSION};
    png_color black = {0, 0, 0};
    if (!png_image_begin_read_from_memory(&png, file.s, file.n)) return TN_OK;
    png.format = PNG_FORMAT_RGB;
    tn_status status = image_new(arena, png.width, png.height, image);
    if (status == TN_OK && !png_image_finish_read(&png, &black, image->pixels, 0, NULL)) image->pixels = NULL;
    png_image_free(&png);
    return status;
}

/* libjpeg wants its errors not to return. */
typedef struct JpegErrors {
    struct jpeg_error_mgr manager;
    jmp_buf jump;
} JpegErrors;

static void jpeg_failed(j_common_ptr info) { longjmp(((JpegErrors *)info->err)->jump, 1); }
static void jpeg_says(j_common_ptr info) { (void)info; }

/* Apart, so that nothing that setjmp could spoil lives across it. A damaged file leaves *done false. */
static tn_status read_jpeg(struct jpeg_decompress_struct *info, JpegErrors *errors, Arena *arena, Str file,
                           Image *image, bool *done) {
    if (setjmp(errors->jump)) return TN_OK;
    jpeg_create_decompress(info);
    jpeg_mem_src(info, (const unsigned char *)file.s, (unsigned long)file.n);
    jpeg_read_header(info, TRUE);
    info->out_color_space = JCS_RGB;
    jpeg_calc_output_dimensions(info);
    TRY(image_new(arena, info->output_width, info->output_height, image));
    jpeg_start_decompress(info);
    while (info->output_scanline < info->output_height) {
        JSAMPROW line = image->pixels + 3 * (size_t)info->output_width * info->output_scanline;
        jpeg_read_scanlines(info, &line, 1);
    }
    jpeg_finish_decompress(info);
    *done = true;
    return TN_OK;
}

tn_status decode_jpeg(Arena *arena, Str file, Image *image) {
    struct jpeg_decompress_struct info = {0};
    JpegErrors errors;
    bool done = false;
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = jpeg_failed;
    errors.manager.output_message = jpeg_says;
    tn_status status = read_jpeg(&info, &errors, arena, file, image, &done);
    jpeg_destroy_decompress(&info);
    if (!done) image->pixels = NULL;
    return status;
}
