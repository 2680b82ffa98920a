/* SPDX-License-Identifier: Apache-2.0 */
/* NonMaxSuppression (ONNX 11): boxes by falling score, without those that overlap a chosen one too much. */
#include "ops/move_int.h"

enum { BOXES, SCORES, MAX_BOXES, IOU, THRESHOLD };

static tn_status infer(InferCtx *c) {
    const Shape *boxes = in_shape(c, BOXES), *scores = in_shape(c, SCORES);
    Shape y = {.rank = 2, .dims = {DIM_UNKNOWN, 3}};
    Dim same;
    if (boxes->rank >= 0 && (boxes->rank != 3 || (dim_is_const(boxes->dims[2]) && boxes->dims[2] != 4)))
        return fail(TN_SHAPE, "boxes must be [batch, boxes, 4]");
    if (scores->rank >= 0 && scores->rank != 3) return fail(TN_SHAPE, "scores must be [batch, classes, boxes]");
    if (boxes->rank == 3 && scores->rank == 3) {
        TRY(dims_must_match(boxes->dims[0], scores->dims[0], "the batch sizes of boxes and scores", &same));
        TRY(dims_must_match(boxes->dims[1], scores->dims[2], "the box counts of boxes and scores", &same));
    }
    set_shape(c, 0, &y);
    return TN_OK;
}

typedef struct Rect {
    float x0, x1, y0, y1;
} Rect;

static Rect rect_of(const float *b, bool center) {
    if (center) return (Rect){b[0] - b[2] / 2, b[0] + b[2] / 2, b[1] - b[3] / 2, b[1] + b[3] / 2};
    Rect r = {b[1], b[3], b[0], b[2]};
    if (r.x0 > r.x1) r = (Rect){r.x1, r.x0, r.y0, r.y1};
    if (r.y0 > r.y1) r = (Rect){r.x0, r.x1, r.y1, r.y0};
    return r;
}

static bool overlaps(const Rect *a, const Rect *b, float threshold) {
    float x0 = a->x0 > b->x0 ? a->x0 : b->x0, x1 = a->x1 < b->x1 ? a->x1 : b->x1;
    float y0 = a->y0 > b->y0 ? a->y0 : b->y0, y1 = a->y1 < b->y1 ? a->y1 : b->y1;
    if (x1 <= x0 || y1 <= y0) return false;
    float both = (x1 - x0) * (y1 - y0);
    float area_a = (a->x1 - a->x0) * (a->y1 - a->y0), area_b = (b->x1 - b->x0) * (b->y1 - b->y0);
    float either = area_a + area_b - both;
    if (both <= 0 || area_a <= 0 || area_b <= 0 || either <= 0) return false;
    return both / either > threshold;
}

/* Candidates are a heap of 64-bit numbers, the best at the root: the score's place in the order of all scores, and below it
   the box, inverted, so that of equal scores the first box comes first. NaN, which no comparison ranks, comes last. */
static uint64_t candidate(float score, int64_t box) {
    uint32_t bits, key;
    score += 0.0F; /* -0 becomes 0 */
    memcpy(&bits, &score, sizeof bits);
    key = bits >> 31 ? ~bits : bits | 1U << 31;
    if (score != score) key = 0;
    return (uint64_t)key << 32 | (uint32_t) ~(uint32_t)box;
}

static int64_t box_of(uint64_t candidate) { return (int64_t)(uint32_t) ~(uint32_t)candidate; }

static void sift_down(uint64_t *heap, int64_t n, int64_t i) {
    uint64_t moved = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child + 1] > heap[child];
        if (heap[child] <= moved) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

static uint64_t pop_best(uint64_t *heap, int64_t *n) {
    uint64_t best = heap[0];
    heap[0] = heap[--*n];
    if (*n > 0) sift_down(heap, *n, 0);
    return best;
}

typedef struct Job {
    const float *boxes, *scores;
    int64_t batches, classes, n, most;
    float iou, threshold;
    bool center, has_threshold;
    uint64_t *candidates;
    Rect *rects;   /* of the chosen of one class */
    int64_t *rows; /* chosen (batch, class, box) */
    int64_t n_rows, cap_rows;
} Job;

static tn_status choose(KernelCtx *c, Job *j, int64_t batch, int64_t class, int64_t box) {
    if (j->n_rows == j->cap_rows) {
        int64_t cap = j->cap_rows ? j->cap_rows * 2 : 64;
        int64_t *rows = kernel_scratch(c, int64_t, (size_t)cap * 3);
        if (!rows) return TN_OUT_OF_MEMORY;
        if (j->n_rows) memcpy(rows, j->rows, (size_t)j->n_rows * 3 * sizeof *rows);
        j->rows = rows;
        j->cap_rows = cap;
    }
    int64_t *row = j->rows + 3 * j->n_rows++;
    row[0] = batch;
    row[1] = class;
    row[2] = box;
    return TN_OK;
}

static tn_status one_class(KernelCtx *c, Job *j, int64_t batch, int64_t class) {
    const float *boxes = j->boxes + batch * j->n * 4, *scores = j->scores + (batch * j->classes + class) * j->n;
    int64_t n = 0, chosen = 0;
    for (int64_t i = 0; i < j->n; i++) {
        if (j->has_threshold && !(scores[i] > j->threshold)) continue;
        j->candidates[n++] = candidate(scores[i], i);
    }
    for (int64_t i = n / 2; i-- > 0;) sift_down(j->candidates, n, i);
    while (n > 0 && chosen < j->most) {
        int64_t box = box_of(pop_best(j->candidates, &n));
        Rect r = rect_of(boxes + box * 4, j->center);
        bool hidden = false;
        for (int64_t k = 0; k < chosen && !hidden; k++) hidden = overlaps(&r, &j->rects[k], j->iou);
        if (hidden) continue;
        j->rects[chosen++] = r;
        TRY(choose(c, j, batch, class, box));
    }
    return kernel_poll(c);
}

static tn_status read_scalar(KernelCtx *c, int i, float *out) {
    const float *v;
    *out = 0;
    if (!kernel_has_input(c, i)) return TN_OK;
    if (tensor_count(c->in[i]) != 1)
        return fail(TN_SHAPE, "%s must have one element", op_input_spec(c->node->op, (size_t)i)->name);
    TRY(dense_f32(c, i, &v));
    *out = v[0];
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *boxes = c->in[BOXES], *scores = c->in[SCORES];
    Job j = {.batches = boxes->dims[0], .n = boxes->dims[1], .classes = scores->dims[1]};
    int count = 1;
    j.center = attr_int(c->node, "center_point_box") != 0;
    j.has_threshold = kernel_has_input(c, THRESHOLD);
    TRY(dense_f32(c, BOXES, &j.boxes));
    TRY(dense_f32(c, SCORES, &j.scores));
    TRY(read_scalar(c, IOU, &j.iou));
    TRY(read_scalar(c, THRESHOLD, &j.threshold));
    if (kernel_has_input(c, MAX_BOXES))
        TRY(tensor_few_ints(c->in[MAX_BOXES], "max_output_boxes_per_class", &j.most, 1, &count));
    if (count != 1) return fail(TN_SHAPE, "max_output_boxes_per_class must have one element");
    if (!(j.iou >= 0 && j.iou <= 1)) return fail(TN_OUT_OF_RANGE, "iou_threshold is %g, outside [0, 1]", (double)j.iou);
    if (j.n > UINT32_MAX) return fail(TN_LIMIT, "%lld boxes", (long long)j.n);
    if (j.most > 0 && j.n > 0) {
        j.candidates = kernel_scratch(c, uint64_t, (size_t)j.n);
        j.rects = kernel_scratch(c, Rect, (size_t)j.n);
        if (!j.candidates || !j.rects) return TN_OUT_OF_MEMORY;
        for (int64_t b = 0; b < j.batches; b++)
            for (int64_t k = 0; k < j.classes; k++) TRY(one_class(c, &j, b, k));
    }
    int64_t dims[2] = {j.n_rows, 3};
    TRY(output_ready(c, 0, 2, dims));
    if (j.n_rows) memcpy(tensor_bytes(&c->out[0]), j.rows, (size_t)j.n_rows * 3 * sizeof *j.rows);
    return TN_OK;
}

const OpSchema op_NonMaxSuppression = {
    .name = "NonMaxSuppression",
    .summary = "NonMaxSuppression (ONNX 11): boxes that do not overlap better ones",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"boxes", TS(TN_F32), 0, 0}, {"scores", TS(TN_F32), 0, 0},
                       {"max_output_boxes_per_class", TS(TN_I64), 0, OPERAND_OPTIONAL},
                       {"iou_threshold", TS(TN_F32), 0, OPERAND_OPTIONAL},
                       {"score_threshold", TS(TN_F32), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"selected_indices", TS(TN_I64), 0, 0}),
    .attrs = ATTRIBUTES({"center_point_box", ATTR_INT, 0, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
};
