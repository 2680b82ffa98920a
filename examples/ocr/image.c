/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, sampling and writing pictures. */
#include "ocr.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

/* ---- files ---------------------------------------------------------------------------------------------------- */

static bool read_png(const char *path, Image *image) {
    png_image png = {.version = PNG_IMAGE_VERSION};
    png_color white = {255, 255, 255};
    if (!png_image_begin_read_from_file(&png, path)) {
        fprintf(stderr, "ocr: %s: %s\n", path, png.message);
        return false;
    }
    png.format = PNG_FORMAT_RGB;
    *image = (Image){(int)png.width, (int)png.height, malloc(PNG_IMAGE_SIZE(png))};
    if (image->rgb && png_image_finish_read(&png, &white, image->rgb, 0, NULL)) return true;
    fprintf(stderr, "ocr: %s: %s\n", path, png.message[0] ? png.message : "out of memory");
    png_image_free(&png);
    image_free(image);
    return false;
}

typedef struct JpegErrors {
    struct jpeg_error_mgr manager;
    jmp_buf jump;
} JpegErrors;

/* libjpeg's errors must not return. */
static void jpeg_failed(j_common_ptr info) {
    (*info->err->output_message)(info);
    longjmp(((JpegErrors *)info->err)->jump, 1);
}

static bool read_jpeg(FILE *file, Image *image) {
    struct jpeg_decompress_struct jpeg;
    JpegErrors errors;
    jpeg.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = jpeg_failed;
    jpeg_create_decompress(&jpeg);
    if (setjmp(errors.jump)) {
        jpeg_destroy_decompress(&jpeg);
        image_free(image);
        return false;
    }
    jpeg_stdio_src(&jpeg, file);
    jpeg_read_header(&jpeg, TRUE);
    jpeg.out_color_space = JCS_RGB;
    jpeg_start_decompress(&jpeg);
    size_t row = 3 * (size_t)jpeg.output_width;
    *image = (Image){(int)jpeg.output_width, (int)jpeg.output_height, malloc(row * jpeg.output_height)};
    while (image->rgb && jpeg.output_scanline < jpeg.output_height) {
        JSAMPROW line = image->rgb + row * jpeg.output_scanline;
        jpeg_read_scanlines(&jpeg, &line, 1);
    }
    if (image->rgb) jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    return image->rgb != NULL;
}

bool image_read(const char *path, Image *image) {
    const char *dot = strrchr(path, '.');
    *image = (Image){0};
    if (dot && strcmp(dot, ".png") == 0) return read_png(path, image);
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return false;
    }
    bool done = read_jpeg(file, image);
    fclose(file);
    return done;
}

bool image_write(const char *path, const Image *image) {
    png_image png = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB};
    png.width = (png_uint_32)image->width;
    png.height = (png_uint_32)image->height;
    if (png_image_write_to_file(&png, path, 0, image->rgb, 0, NULL)) return true;
    fprintf(stderr, "ocr: %s: %s\n", path, png.message);
    return false;
}

void image_free(Image *image) {
    free(image->rgb);
    image->rgb = NULL;
}

/* ---- pixels --------------------------------------------------------------------------------------------------- */

static int clamp(int value, int size) { return value < 0 ? 0 : value >= size ? size - 1 : value; }

static const uint8_t *pixel(const Image *image, int x, int y) {
    size_t row = (size_t)clamp(y, image->height), column = (size_t)clamp(x, image->width);
    return image->rgb + 3 * (row * (size_t)image->width + column);
}

/* The colour at a place between pixels; beyond the edge, the edge's. */
static void image_sample(const Image *image, double x, double y, double rgb[3]) {
    int left = (int)floor(x), top = (int)floor(y);
    double fx = x - left, fy = y - top;
    const uint8_t *a = pixel(image, left, top), *b = pixel(image, left + 1, top), *c = pixel(image, left, top + 1),
                  *d = pixel(image, left + 1, top + 1);
    for (int i = 0; i < 3; i++) rgb[i] = (1 - fy) * ((1 - fx) * a[i] + fx * b[i]) + fy * ((1 - fx) * c[i] + fx * d[i]);
}

void image_draw_line(Image *image, Point a, Point b) {
    int steps = (int)ceil(fmax(fabs(b.x - a.x), fabs(b.y - a.y))) + 1;
    for (int i = 0; i <= steps; i++) {
        int x = (int)lround(a.x + (b.x - a.x) * i / steps), y = (int)lround(a.y + (b.y - a.y) * i / steps);
        for (int k = 0; k < 4; k++) { /* two pixels thick */
            uint8_t *at = (uint8_t *)pixel(image, x + k % 2, y + k / 2);
            at[0] = 220;
            at[1] = at[2] = 30;
        }
    }
}

/* Between a and b, both being quarters of a quadrilateral's edge. */
static Point between(Point a, Point b, double t) { return (Point){a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t}; }

void image_fill_tensor(const Image *image, const Point corners[4], int width, tn_tensor *tensor) {
    const int64_t *dims = tn_tensor_dims(tensor);
    int64_t height = dims[2], stride = dims[3], plane = height * stride;
    float *data = tn_tensor_data(tensor);
    for (int64_t y = 0; y < height; y++) {
        double v = ((double)y + 0.5) / (double)height;
        Point left = between(corners[0], corners[3], v), right = between(corners[1], corners[2], v);
        for (int64_t x = 0; x < stride; x++) {
            double rgb[3] = {127.5, 127.5, 127.5};
            Point p = between(left, right, ((double)x + 0.5) / width);
            if (x < width) image_sample(image, p.x - 0.5, p.y - 0.5, rgb);
            for (int c = 0; c < 3; c++) data[c * plane + y * stride + x] = (float)(rgb[2 - c] / 127.5 - 1);
        }
    }
}
