/* SPDX-License-Identifier: Apache-2.0 */
/* A counted loop without the loop: where its indices are constants, each turn is one region of a tn.Raster. */
#include "ops/lower_int.h"
#include "ops/nn_int.h"

enum { MOST_BOXES = 256 };

typedef struct Boxes {
    LowerCtx *c;
    const LowerLoop *l;
    int64_t trips[TN_MAX_RANK];
    int64_t n_turns;
    int64_t *from, *to; /* numbers of the indices; NULL: there are none */
    IntList *regions;
    int64_t n_regions;
} Boxes;

/* All of them, as they stand in a constant. NULL with `ready` false where they are not known. */
static int64_t *constant_indices(Boxes *b, const Value *index, int64_t *n, bool *ready) {
    const Tensor *t = index ? value_constant(index) : NULL;
    int64_t *numbers;
    *n = 0;
    if (!index) return NULL;
    *ready = *ready && t && tensor_count(t) <= (int64_t)MOST_BOXES * TN_MAX_RANK;
    if (!*ready || !(numbers = lower_scratch(b->c, int64_t, tensor_count(t) + 1))) return NULL;
    b->c->status = tensor_ints(t, numbers, tensor_count(t), n);
    return numbers;
}

/* How many turns there are; the first of trips may follow from the number of indices. */
static bool count_turns(Boxes *b, int64_t n_from, int64_t n_to) {
    const LowerLoop *l = b->l;
    int64_t rest = 1;
    memcpy(b->trips, l->trips, sizeof b->trips);
    for (int k = 1; k < l->n_trips; k++) rest *= l->trips[k];
    if (l->n_trips && l->trips[0] < 0) {
        int64_t n = l->from.n_index ? n_from / l->from.n_index : l->to.n_index ? n_to / l->to.n_index : -1;
        b->trips[0] = rest ? n / rest : 0;
    }
    b->n_turns = l->n_trips ? b->trips[0] * rest : 1;
    return b->n_turns >= 0 && b->n_turns <= MOST_BOXES;
}

/* Where turn `at` begins; false where an index is out of range, which is for the run to say. */
static bool begin_of(const LowerSide *side, const int64_t *index, const int64_t *at, int n_trips, int64_t *out) {
    *out = side->offset;
    for (int k = 0; k < n_trips; k++) *out += at[k] * side->steps[k];
    for (int k = 0; k < side->n_index; k++) {
        int64_t i = index[k] < 0 ? index[k] + side->bounds[k] : index[k];
        if (side->bounds[k] < 0 || i < 0 || i >= side->bounds[k]) return false;
        *out += i * side->scales[k];
    }
    return true;
}

static int64_t *add_box(Boxes *b, int rank) {
    int64_t *numbers = lower_scratch(b->c, int64_t, 3 * rank + 3);
    if (numbers) b->regions[b->n_regions++] = (IntList){numbers, (size_t)(3 * rank + 3)};
    return numbers;
}

/* What the loop begins with. */
static void add_data(Boxes *b) {
    const Shape *s = lower_shape(b->l->data);
    int64_t *v = add_box(b, 1);
    if (!v) return;
    v[0] = 0;
    v[1] = lower_product(s, 0, s->rank);
    v[3] = v[5] = 1;
}

static bool add_turns(Boxes *b) {
    const LowerLoop *l = b->l;
    int64_t at[TN_MAX_RANK] = {0}, size = 1;
    for (int k = 0; k < l->n_size; k++) size *= l->size[k];
    for (int64_t t = 0; t < b->n_turns && size > 0; t++, next_index(l->n_trips, b->trips, at)) {
        int64_t from, to, *v;
        const int64_t *of_from = b->from ? b->from + t * l->from.n_index : NULL;
        const int64_t *of_to = b->to ? b->to + t * l->to.n_index : NULL;
        if (!begin_of(&l->from, of_from, at, l->n_trips, &from) || !begin_of(&l->to, of_to, at, l->n_trips, &to))
            return false;
        if (!(v = add_box(b, l->n_size))) return true;
        v[0] = l->data != NULL;
        memcpy(v + 1, l->size, (size_t)l->n_size * sizeof *v);
        v[1 + l->n_size] = from;
        memcpy(v + 2 + l->n_size, l->from.strides, (size_t)l->n_size * sizeof *v);
        v[2 + 2 * l->n_size] = to;
        memcpy(v + 3 + 2 * l->n_size, l->to.strides, (size_t)l->n_size * sizeof *v);
    }
    return true;
}

static bool fill(Boxes *b) {
    const LowerLoop *l = b->l;
    bool ready = l->source && (!l->reduction || strcmp(l->reduction, "none") == 0);
    int64_t n_from, n_to;
    b->from = constant_indices(b, l->source_index, &n_from, &ready);
    b->to = constant_indices(b, l->result_index, &n_to, &ready);
    if (!ready || b->c->status != TN_OK || !count_turns(b, n_from, n_to)) return false;
    if (n_from != b->n_turns * l->from.n_index || n_to != b->n_turns * l->to.n_index) return false;
    if (!(b->regions = lower_scratch(b->c, IntList, b->n_turns + 1))) return false;
    if (l->data) add_data(b);
    return add_turns(b);
}

Value *lower_boxes(LowerCtx *c, const LowerLoop *l) {
    Boxes b = {.c = c, .l = l};
    Shape shape = l->data ? *lower_shape(l->data) : l->shape;
    if (!shape_is_known(&shape) || !fill(&b)) {
        c->declined = true;
        return NULL;
    }
    for (int k = 0; k < shape.rank; k++)
        if (shape.dims[k] < 0) return c->declined = true, NULL;
    Attr regions = {.name = STR("regions"), .kind = ATTR_INT_LISTS, .n = (size_t)b.n_regions, .lists = b.regions};
    AttrList attrs = ATTRS(regions, attr_l("shape", shape.dims, shape.rank));
    return l->data ? LOWER_WITH(c, "tn.Raster", attrs, l->data, l->source)
                   : LOWER_WITH(c, "tn.Raster", attrs, l->source);
}
