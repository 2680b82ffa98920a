/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG files as red, green, blue bytes. */
#include "cli.h"

#include <jpeglib.h>
#include <jerror.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIXELS = 1 << 28 };

static uint8_t *decode_png(const char *path, int *width, int *height) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    uint8_t *pixels = NULL;
    png_color white = {255, 255, 255};
    if (png_image_begin_read_from_file(&image, path)) {
        image.format = PNG_FORMAT_RGB;
        if ((uint64_t)image.width * image.height <= MOST_PIXELS) pixels = malloc(PNG_IMAGE_SIZE(image));
        if (pixels && !png_image_finish_read(&image, &white, pixels, 0, NULL)) {
            free(pixels);
            pixels = NULL;
        }
    }
    if (!pixels) report("\"%s\": %s", path, image.message[0] ? image.message : "the picture is too large");
    *width = (int)image.width;
    *height = (int)image.height;
    png_image_free(&image);
    return pixels;
}

/* libjpeg wants its errors not to return. */
typedef struct JpegErrors {
    struct jpeg_error_mgr manager;
    jmp_buf jump;
} JpegErrors;

static void jpeg_failed(j_common_ptr info) {
    JpegErrors *errors = (JpegErrors *)info->err;
    longjmp(errors->jump, 1);
}

static uint8_t *decode_jpeg(FILE *file, const char *path, int *width, int *height) {
    struct jpeg_decompress_struct info;
    JpegErrors errors;
    uint8_t *volatile pixels = NULL;
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = jpeg_failed;
    jpeg_create_decompress(&info);
    if (setjmp(errors.jump)) {
        char message[JMSG_LENGTH_MAX];
        errors.manager.format_message((j_common_ptr)&info, message);
        report("\"%s\": %s", path, message);
        jpeg_destroy_decompress(&info);
        free(pixels);
        return NULL;
    }
    jpeg_stdio_src(&info, file);
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    if ((uint64_t)info.output_width * info.output_height > MOST_PIXELS) ERREXIT1(&info, JERR_OUT_OF_MEMORY, 0);
    size_t row = 3 * (size_t)info.output_width;
    pixels = need(malloc(row * info.output_height + 1));
    while (info.output_scanline < info.output_height) {
        JSAMPROW line = pixels + row * info.output_scanline;
        jpeg_read_scanlines(&info, &line, 1);
    }
    *width = (int)info.output_width;
    *height = (int)info.output_height;
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
    return pixels;
}

uint8_t *picture_decode(const char *path, int *width, int *height) {
    if (ends_with(path, ".png")) return decode_png(path, width, height);
    FILE *file = fopen(path, "rb");
    if (!file) {
        report("\"%s\" cannot be opened", path);
        return NULL;
    }
    uint8_t *pixels = decode_jpeg(file, path, width, height);
    fclose(file);
    return pixels;
}
