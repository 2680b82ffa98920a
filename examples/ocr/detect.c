/* SPDX-License-Identifier: Apache-2.0 */
/* Where the text is: a map of probabilities, its connected parts, and a rectangle around each. */
#include "ocr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_SIDE = 960, SIDE_STEP = 32, SHORTEST_BOX = 3 };
static const double TEXT = 0.3, BOX = 0.5, GROW = 1.6; /* what counts as text, as a box; how much boxes grow */

/* The model's answer, and which of its pixels were seen. */
typedef struct Map {
    int width, height;
    const float *probability;
    uint8_t *text;
} Map;

typedef struct Boxes {
    Box *list;
    size_t n;
} Boxes;

/* ---- running the model ---------------------------------------------------------------------------------------- */

static int64_t round_side(double side) {
    int64_t steps = (int64_t)nearbyint(floor(side) / SIDE_STEP);
    return SIDE_STEP * (steps > 0 ? steps : 1);
}

static bool run_model(tn_context *context, tn_session *session, const Image *image, tn_tensor **output) {
    int longest = image->width > image->height ? image->width : image->height;
    double scale = longest > LONGEST_SIDE ? (double)LONGEST_SIDE / longest : 1;
    int64_t dims[] = {1, 3, round_side(image->height * scale), round_side(image->width * scale)};
    Point corners[4] = {{0, 0}, {image->width, 0}, {image->width, image->height}, {0, image->height}};
    tn_tensor *input;
    if (tn_tensor_create(context, TN_F32, 4, dims, &input) != TN_OK) return failed("detector");
    image_fill_tensor(image, corners, (int)dims[3], input);
    tn_status status = tn_session_run(session, NULL, (const tn_tensor *[]){input}, 1, output, 1);
    tn_tensor_release(input);
    return status == TN_OK || failed("detector");
}

/* ---- geometry ------------------------------------------------------------------------------------------------- */

static double cross(Point o, Point a, Point b) { return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x); }
static double distance(Point a, Point b) { return hypot(b.x - a.x, b.y - a.y); }

/* The convex hull of points that are sorted by y, then by x (Andrew's chains). `hull` has room for n + 1. */
static size_t convex_hull(const Point *points, size_t n, Point *hull) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        while (k >= 2 && cross(hull[k - 2], hull[k - 1], points[i]) <= 0) k--;
        hull[k++] = points[i];
    }
    for (size_t i = n - 1, lower = k + 1; i > 0; i--) {
        while (k >= lower && cross(hull[k - 2], hull[k - 1], points[i - 1]) <= 0) k--;
        hull[k++] = points[i - 1];
    }
    return k > 1 ? k - 1 : k;
}

/* A rectangle: its middle, the direction of its first side, half of both sides. */
typedef struct Rectangle {
    Point middle, along;
    double half_along, half_across;
} Rectangle;

static Rectangle rectangle_along(Point u, const Point *hull, size_t n) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++) {
        double p[2] = {hull[i].x * u.x + hull[i].y * u.y, hull[i].y * u.x - hull[i].x * u.y};
        for (int k = 0; k < 2; k++) {
            low[k] = fmin(low[k], p[k]);
            high[k] = fmax(high[k], p[k]);
        }
    }
    double a = (low[0] + high[0]) / 2, b = (low[1] + high[1]) / 2;
    return (Rectangle){{a * u.x - b * u.y, a * u.y + b * u.x}, u, (high[0] - low[0]) / 2, (high[1] - low[1]) / 2};
}

/* The smallest rectangle around a hull has a side along one of its edges. */
static Rectangle smallest_rectangle(const Point *hull, size_t n) {
    Rectangle best = rectangle_along((Point){1, 0}, hull, n);
    for (size_t i = 0; i < n; i++) {
        Point a = hull[i], b = hull[(i + 1) % n];
        double length = distance(a, b);
        if (length == 0) continue;
        Rectangle r = rectangle_along((Point){(b.x - a.x) / length, (b.y - a.y) / length}, hull, n);
        if (r.half_along * r.half_across < best.half_along * best.half_across - 1e-9) best = r;
    }
    return best;
}

static int by_x(const void *a, const void *b) {
    const Point *p = a, *q = b;
    return (p->x > q->x) - (p->x < q->x);
}

/* Of the two left corners the upper is the first; of the two right ones the second. */
static void corners_of(const Rectangle *r, Point corners[4]) {
    static const int signs[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
    Point p[4];
    for (int i = 0; i < 4; i++) {
        double a = signs[i][0] * r->half_along, b = signs[i][1] * r->half_across;
        p[i] = (Point){r->middle.x + a * r->along.x - b * r->along.y, r->middle.y + a * r->along.y + b * r->along.x};
    }
    qsort(p, 4, sizeof *p, by_x);
    bool left = p[0].y <= p[1].y, right = p[2].y <= p[3].y;
    corners[0] = p[left ? 0 : 1];
    corners[3] = p[left ? 1 : 0];
    corners[1] = p[right ? 2 : 3];
    corners[2] = p[right ? 3 : 2];
}

/* ---- from the map to boxes ------------------------------------------------------------------------------------ */

/* Text, and the pixels right of and below it. */
static bool make_mask(Map *map) {
    size_t width = (size_t)map->width, n = width * (size_t)map->height;
    map->text = calloc(n, 1);
    if (!map->text) return false;
    for (size_t i = 0; i < n; i++) {
        if (!(map->probability[i] > TEXT)) continue;
        bool right = (i + 1) % width != 0, below = i + width < n;
        map->text[i] = 1;
        if (right) map->text[i + 1] = 1;
        if (below) map->text[i + width] = 1;
        if (right && below) map->text[i + width + 1] = 1;
    }
    return true;
}

static double mean_inside(const Map *map, const Rectangle *r) {
    double sum = 0, n = 0, reach = hypot(r->half_along, r->half_across);
    for (int y = (int)fmax(0, r->middle.y - reach); y <= r->middle.y + reach && y < map->height; y++)
        for (int x = (int)fmax(0, r->middle.x - reach); x <= r->middle.x + reach && x < map->width; x++) {
            double dx = x - r->middle.x, dy = y - r->middle.y;
            if (fabs(dx * r->along.x + dy * r->along.y) > r->half_along + 0.5) continue;
            if (fabs(dy * r->along.x - dx * r->along.y) > r->half_across + 0.5) continue;
            sum += map->probability[(size_t)y * (size_t)map->width + (size_t)x];
            n++;
        }
    return n > 0 ? sum / n : 0;
}

/* Takes a part's pixels out of the mask; the first and last of each row go to `ends`, which is sorted as convex_hull
   wants it. `stack` has room for all pixels. */
static size_t take_part(Map *map, int start, int *stack, Point *ends, int *first, int *last) {
    int n = 0, top = map->height, bottom = -1, width = map->width;
    size_t n_ends = 0;
    stack[n++] = start;
    map->text[start] = 0;
    while (n > 0) {
        int at = stack[--n], x = at % width, y = at / width;
        if (y < top) top = y;
        for (; bottom < y; bottom++) {
            first[bottom + 1] = width;
            last[bottom + 1] = -1;
        }
        if (x < first[y]) first[y] = x;
        if (x > last[y]) last[y] = x;
        for (int k = 0; k < 9; k++) {
            int nx = x + k % 3 - 1, ny = y + k / 3 - 1;
            if (nx < 0 || ny < 0 || nx >= width || ny >= map->height || !map->text[ny * width + nx]) continue;
            map->text[ny * width + nx] = 0;
            stack[n++] = ny * width + nx;
        }
    }
    for (int y = top; y <= bottom; y++) {
        ends[n_ends++] = (Point){first[y], y};
        if (last[y] != first[y]) ends[n_ends++] = (Point){last[y], y};
    }
    return n_ends;
}

static bool add_box(Boxes *boxes, const Map *map, const Rectangle *small, const Image *image) {
    Rectangle r = *small;
    double score = mean_inside(map, &r), grow = GROW * r.half_along * r.half_across / (r.half_along + r.half_across);
    if (2 * fmin(r.half_along, r.half_across) < SHORTEST_BOX || score < BOX) return true;
    r.half_along += grow;
    r.half_across += grow;
    Box box = {.score = score};
    corners_of(&r, box.corners);
    for (int i = 0; i < 4; i++) {
        Point *p = &box.corners[i];
        p->x = fmin(fmax(nearbyint(p->x / map->width * image->width), 0), image->width - 1);
        p->y = fmin(fmax(nearbyint(p->y / map->height * image->height), 0), image->height - 1);
    }
    if (distance(box.corners[0], box.corners[1]) < 4 || distance(box.corners[0], box.corners[3]) < 4) return true;
    Box *longer = realloc(boxes->list, (boxes->n + 1) * sizeof *longer);
    if (!longer) return false;
    boxes->list = longer;
    boxes->list[boxes->n++] = box;
    return true;
}

static bool find_boxes(Map *map, const Image *image, Boxes *boxes) {
    size_t n = (size_t)map->width * (size_t)map->height, rows = (size_t)map->height;
    int *stack = malloc((n + 2 * rows) * sizeof *stack), *first = stack + n, *last = first + rows;
    Point *ends = malloc((4 * rows + 1) * sizeof *ends), *hull = ends + 2 * rows;
    bool fine = stack && ends && make_mask(map);
    for (size_t i = 0; i < n && fine; i++) {
        if (!map->text[i]) continue;
        size_t n_ends = take_part(map, (int)i, stack, ends, first, last);
        size_t n_hull = convex_hull(ends, n_ends, hull);
        Rectangle r = smallest_rectangle(hull, n_hull);
        fine = add_box(boxes, map, &r, image);
    }
    free(stack);
    free(ends);
    free(map->text);
    if (!fine) fprintf(stderr, "ocr: out of memory\n");
    return fine;
}

/* ---- reading order -------------------------------------------------------------------------------------------- */

static int by_row(const void *a, const void *b) {
    Point p = ((const Box *)a)->corners[0], q = ((const Box *)b)->corners[0];
    return p.y != q.y ? (p.y > q.y) - (p.y < q.y) : (p.x > q.x) - (p.x < q.x);
}

/* From top to bottom; what begins within ten pixels of height is one row, from left to right. */
static void sort_boxes(Boxes *boxes) {
    Box *b = boxes->list;
    if (boxes->n) qsort(b, boxes->n, sizeof *b, by_row);
    for (size_t i = 0; i + 1 < boxes->n; i++)
        for (size_t j = i + 1; j > 0; j--) {
            Point p = b[j].corners[0], q = b[j - 1].corners[0];
            if (fabs(p.y - q.y) >= 10 || p.x >= q.x) break;
            Box swapped = b[j];
            b[j] = b[j - 1];
            b[j - 1] = swapped;
        }
}

bool detect(tn_context *context, tn_session *session, const Image *image, Box **list, size_t *n) {
    tn_tensor *output = NULL;
    Boxes boxes = {0};
    if (!run_model(context, session, image, &output)) return false;
    const int64_t *dims = tn_tensor_dims(output);
    bool fine = tn_tensor_rank(output) == 4 && tn_tensor_dtype(output) == TN_F32;
    if (!fine) fprintf(stderr, "ocr: the detector's output is not f32[1,1,H,W]\n");
    Map map = {.probability = tn_tensor_data(output)};
    if (fine) {
        map.height = (int)dims[2];
        map.width = (int)dims[3];
        fine = find_boxes(&map, image, &boxes);
    }
    tn_tensor_release(output);
    sort_boxes(&boxes);
    *list = boxes.list;
    *n = boxes.n;
    return fine;
}
