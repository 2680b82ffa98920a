/* SPDX-License-Identifier: Apache-2.0 */
/* ocr DETECTOR RECOGNISER PICTURE OUTPUT.png: prints the text in a picture and draws where it stands. */
#include "ocr.h"

#include <stdlib.h>
#include <time.h>

static const double LEAST_CONFIDENCE = 0.5;

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

typedef struct Network {
    tn_model *model;
    tn_session *session;
} Network;

static bool open_network(tn_context *context, const char *path, Network *network) {
    if (tn_model_load(context, path, &network->model) != TN_OK) return failed("cannot load");
    return tn_session_create(network->model, NULL, &network->session) == TN_OK || failed(path);
}

static void close_network(Network *network) {
    tn_session_release(network->session);
    tn_model_release(network->model);
}

/* Prints a line of text a box: confidence, time, text. */
static bool read_boxes(const Recogniser *recogniser, const Image *image, const Box *boxes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        Line line;
        double start = milliseconds();
        if (!recognise(recogniser, image, &boxes[i], &line)) return false;
        if (line.confidence >= LEAST_CONFIDENCE)
            printf("%6.1f %% %8.1f ms  %s\n", 100 * line.confidence, milliseconds() - start, line.text);
        fflush(stdout);
        free(line.text);
    }
    return true;
}

static bool read_picture(tn_context *context, const Network networks[2], const char *path, const char *output) {
    Image image;
    Recogniser recogniser;
    Box *boxes = NULL;
    size_t n = 0;
    double start = milliseconds();
    if (!image_read(path, &image)) return false;
    bool fine = recogniser_open(context, networks[1].model, networks[1].session, &recogniser);
    if (fine) {
        fine = detect(context, networks[0].session, &image, &boxes, &n);
        double found = milliseconds();
        fine = fine && read_boxes(&recogniser, &image, boxes, n);
        if (fine)
            printf("%s: %zu lines of text in %.0f ms, of which %.0f ms to find them\n", path, n, milliseconds() - start,
                   found - start);
        recogniser_close(&recogniser);
    }
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++) image_draw_line(&image, boxes[i].corners[k], boxes[i].corners[(k + 1) % 4]);
    fine = fine && image_write(output, &image);
    free(boxes);
    image_free(&image);
    return fine;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: ocr DETECTOR.onnx RECOGNISER.onnx PICTURE OUTPUT.png\n");
        return 2;
    }
    tn_context *context;
    Network networks[2] = {0};
    if (tn_context_create(NULL, &context) != TN_OK) return failed("cannot start"), 1;
    bool fine = open_network(context, argv[1], &networks[0]) && open_network(context, argv[2], &networks[1]) &&
                read_picture(context, networks, argv[3], argv[4]);
    close_network(&networks[1]);
    close_network(&networks[0]);
    tn_context_release(context);
    return fine ? 0 : 1;
}
