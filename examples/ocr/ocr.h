/* SPDX-License-Identifier: Apache-2.0 */
/* Reading text in pictures with PP-OCRv4: one model finds lines of text, another reads them. */
#ifndef OCR_H
#define OCR_H

#include <stdio.h>
#include <tenon/tenon.h>

/* ---- pictures (image.c) --------------------------------------------------------------------------------------- */

typedef struct Image {
    int width, height;
    uint8_t *rgb; /* rows from the top, three bytes a pixel */
} Image;

typedef struct Point {
    double x, y;
} Point;

/* Each prints why it fails. */
bool image_read(const char *path, Image *image);        /* PNG or JPEG */
bool image_write(const char *path, const Image *image); /* PNG */
void image_free(Image *image);
void image_draw_line(Image *image, Point a, Point b);
/* Fills a float tensor [1,3,H,W] with a quadrilateral of the picture, `width` columns wide, the rest with zeros. The
   models want blue, green, red from -1 to 1. */
void image_fill_tensor(const Image *image, const Point corners[4], int width, tn_tensor *tensor);

/* ---- models (detect.c, recognise.c) --------------------------------------------------------------------------- */

/* Around a line of text: corners clockwise from the top left. */
typedef struct Box {
    Point corners[4];
    double score;
} Box;

typedef struct Line {
    char *text;        /* UTF-8; to be freed */
    double confidence; /* 0 to 1 */
} Line;

typedef struct Recogniser {
    tn_context *context;
    tn_session *session;
    char *characters;      /* the model's list, cut into texts */
    const char **alphabet; /* of each class; class 0 is no character */
    size_t n_characters;
} Recogniser;

/* Each prints why it fails. Boxes are in reading order and to be freed. */
bool detect(tn_context *context, tn_session *session, const Image *image, Box **boxes, size_t *n);
bool recogniser_open(tn_context *context, const tn_model *model, tn_session *session, Recogniser *recogniser);
void recogniser_close(Recogniser *recogniser);
bool recognise(const Recogniser *recogniser, const Image *image, const Box *box, Line *line);

static inline bool failed(const char *what) {
    fprintf(stderr, "ocr: %s: %s\n", what, tn_last_error());
    return false;
}

#endif
