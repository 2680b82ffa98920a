/* SPDX-License-Identifier: Apache-2.0 */
/* What a line of text says: the model gives each column of pixels a class, repeats and blanks fall away. */
#include "ocr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 48, LEAST_WIDTH = 320 };

/* ---- the alphabet --------------------------------------------------------------------------------------------- */

/* A character a line in the model's metadata; blank comes before them and a space after. */
bool recogniser_open(tn_context *context, const tn_model *model, tn_session *session, Recogniser *r) {
    const char *list = tn_model_metadata(model, "character");
    *r = (Recogniser){.context = context, .session = session};
    if (!list) {
        fprintf(stderr, "ocr: the recogniser has no list of characters\n");
        return false;
    }
    size_t size = strlen(list), lines = 2;
    for (const char *c = list; *c; c++) lines += *c == '\n';
    r->characters = malloc(size + 1);
    r->alphabet = malloc((lines + 2) * sizeof *r->alphabet);
    if (!r->characters || !r->alphabet) {
        fprintf(stderr, "ocr: out of memory\n");
        recogniser_close(r);
        return false;
    }
    memcpy(r->characters, list, size + 1);
    r->alphabet[r->n_characters++] = "";
    for (char *line = r->characters; *line;) {
        size_t n = strcspn(line, "\r\n");
        char *next = line + n + strspn(line + n, "\r\n");
        line[n] = '\0';
        r->alphabet[r->n_characters++] = line;
        line = next;
    }
    r->alphabet[r->n_characters++] = " ";
    return true;
}

void recogniser_close(Recogniser *r) {
    free(r->characters);
    free(r->alphabet);
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

static size_t most_likely(const float *probability, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (probability[i] > probability[best]) best = i;
    return best;
}

/* probabilities: [1, steps, classes] */
static bool decode(const Recogniser *r, const tn_tensor *probabilities, Line *line) {
    const int64_t *dims = tn_tensor_dims(probabilities);
    const float *at = tn_tensor_data(probabilities);
    if (tn_tensor_rank(probabilities) != 3 || tn_tensor_dtype(probabilities) != TN_F32 ||
        dims[2] != (int64_t)r->n_characters) {
        fprintf(stderr, "ocr: the recogniser's output does not fit its list of characters\n");
        return false;
    }
    char *end = line->text = malloc(8 * (size_t)dims[1] + 1);
    size_t before = 0, n = 0;
    for (int64_t step = 0; line->text && step < dims[1]; step++, at += dims[2]) {
        size_t class = most_likely(at, r->n_characters), length = strlen(r->alphabet[class]);
        if (class != 0 && class != before && length <= 8) {
            memcpy(end, r->alphabet[class], length);
            end += length;
            line->confidence += at[class];
            n++;
        }
        before = class;
    }
    if (!line->text) return false;
    *end = '\0';
    if (n) line->confidence /= (double)n;
    return true;
}

static double side(Point a, Point b) { return floor(hypot(b.x - a.x, b.y - a.y)); }

bool recognise(const Recogniser *r, const Image *image, const Box *box, Line *line) {
    const Point *c = box->corners;
    double width = fmax(side(c[0], c[1]), side(c[2], c[3])), height = fmax(side(c[0], c[3]), side(c[1], c[2]));
    Point corners[4] = {c[0], c[1], c[2], c[3]};
    *line = (Line){0};
    if (height >= 1.5 * width) { /* a column: turned to the left it is a line */
        for (int i = 0; i < 4; i++) corners[i] = c[(i + 1) % 4];
        double swapped = width;
        width = height;
        height = swapped;
    }
    int columns = (int)ceil(HEIGHT * width / height);
    int64_t dims[] = {1, 3, HEIGHT, columns > LEAST_WIDTH ? columns : LEAST_WIDTH};
    tn_tensor *input = NULL, *output = NULL;
    if (tn_tensor_create(r->context, TN_F32, 4, dims, &input) != TN_OK) return failed("recogniser");
    image_fill_tensor(image, corners, columns, input);
    bool fine = tn_session_run(r->session, NULL, (const tn_tensor *[]){input}, 1, &output, 1) == TN_OK;
    fine = fine ? decode(r, output, line) : failed("recogniser");
    tn_tensor_release(input);
    tn_tensor_release(output);
    return fine;
}
