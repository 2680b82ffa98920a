/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting boxes where an affine function of their index crosses a border, so that on each piece its quotient and
   remainder are affine too. That is all that matching a box that reads with a box that writes takes: positions are
   decoded stride by stride as the writer's index. */
#include "geom/geom_int.h"

/* ---- small things --------------------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t floor_mod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* Values stay within what the box reaches: those extents were checked when the piece was opened. */
static void map_range(const Piece *p, const Affine *map, int skip, int64_t *lo, int64_t *hi) {
    *lo = *hi = map->c;
    for (int k = 0; k < p->rank; k++) {
        if (k == skip) continue;
        int64_t reach = (p->size[k] - 1) * map->t[k];
        if (reach < 0) *lo += reach;
        else *hi += reach;
    }
}

static void piece_drop_dim(Piece *p, int k) {
    p->rank--;
    for (int j = k; j < p->rank; j++) {
        p->size[j] = p->size[j + 1];
        for (int m = 0; m < N_MAPS; m++) p->map[m].t[j] = p->map[m].t[j + 1];
    }
}

enum { USUAL_RANK = 4 };

static inline void copy_dims(Piece *to, const Piece *from, size_t n) {
    to->rank = from->rank;
    memcpy(to->size, from->size, n * sizeof *to->size);
    for (int m = 0; m < N_MAPS; m++) {
        to->map[m].c = from->map[m].c;
        memcpy(to->map[m].t, from->map[m].t, n * sizeof *to->size);
    }
}

/* Pieces have room for many more dimensions than most need; of few a fixed number is copied, which takes no calls. */
static inline void piece_copy(Piece *to, const Piece *from) {
    if (from->rank <= USUAL_RANK) copy_dims(to, from, USUAL_RANK);
    else *to = *from;
}

/* The part of dimension k from `begin` on, `n` long; one index is no dimension. */
static Piece piece_part(const Piece *p, int k, int64_t begin, int64_t n) {
    Piece part;
    piece_copy(&part, p);
    for (int m = 0; m < N_MAPS; m++) part.map[m].c += begin * part.map[m].t[k];
    part.size[k] = n;
    if (n == 1) piece_drop_dim(&part, k);
    return part;
}

static void piece_flip(Piece *p, int k) {
    for (int m = 0; m < N_MAPS; m++) {
        p->map[m].c += (p->size[k] - 1) * p->map[m].t[k];
        p->map[m].t[k] = -p->map[m].t[k];
    }
}

static void piece_swap(Piece *p, int a, int b) {
    int64_t t = p->size[a];
    p->size[a] = p->size[b];
    p->size[b] = t;
    for (int m = 0; m < N_MAPS; m++) {
        t = p->map[m].t[a];
        p->map[m].t[a] = p->map[m].t[b];
        p->map[m].t[b] = t;
    }
}

/* In the order of one map, with neighbours merged that go on from each other in it and in another. */
static void piece_tidy(Piece *p, int by, int with) {
    Affine *a = &p->map[by], *b = &p->map[with];
    for (int k = 0; k < p->rank; k++)
        if (a->t[k] < 0) piece_flip(p, k);
    for (int i = 1; i < p->rank; i++)
        for (int k = i; k > 0 && a->t[k - 1] < a->t[k]; k--) piece_swap(p, k - 1, k);
    for (int k = p->rank - 1; k > 0; k--) {
        int64_t next_a, next_b;
        if (mul_overflows(a->t[k], p->size[k], &next_a) || mul_overflows(b->t[k], p->size[k], &next_b)) continue;
        if (next_a != a->t[k - 1] || next_b != b->t[k - 1]) continue;
        int64_t size = p->size[k] * p->size[k - 1];
        piece_swap(p, k - 1, k);
        piece_drop_dim(p, k);
        p->size[k - 1] = size;
    }
}

static bool grow(Cutter *c, PieceList *list) {
    size_t old = list->cap * sizeof(Piece);
    bool zero;
    Piece *data = mem_raw(c->allocator, 2 * old, alignof(Piece), &zero);
    if (!data) {
        c->status = TN_OUT_OF_MEMORY;
        return false;
    }
    memcpy(data, list->data, old);
    if (list->cap > NEAR_PIECES) mem_free(c->allocator, list->data, old);
    list->data = data;
    list->cap *= 2;
    return true;
}

static bool push(Cutter *c, PieceList *list, const Piece *p) {
    if (--c->left < 0 || (list->len == list->cap && !grow(c, list))) return false;
    piece_copy(&list->data[list->len++], p);
    return true;
}

void cutter_init(Cutter *c, const Allocator *allocator, int64_t left) {
    c->allocator = allocator;
    c->left = left;
    c->status = TN_OK;
    PieceList *const lists[N_LISTS] = {&c->open, &c->next, &c->found, &c->todo, &c->done, &c->a, &c->b};
    for (int i = 0; i < N_LISTS; i++) {
        lists[i]->data = c->near[i];
        lists[i]->len = 0;
        lists[i]->cap = NEAR_PIECES;
    }
}

void cutter_free(Cutter *c) {
    PieceList *const lists[N_LISTS] = {&c->open, &c->next, &c->found, &c->todo, &c->done, &c->a, &c->b};
    for (int i = 0; i < N_LISTS; i++)
        if (lists[i]->cap > NEAR_PIECES) mem_free(c->allocator, lists[i]->data, lists[i]->cap * sizeof(Piece));
}

bool cutter_open(Cutter *c, const Region *r, int64_t at_offset, const int64_t *at_stride) {
    Piece p = {.rank = r->rank};
    memcpy(p.size, r->size, (size_t)r->rank * sizeof *p.size);
    memcpy(p.map[MAP_TO].t, r->dst_stride, (size_t)r->rank * sizeof *p.size);
    memcpy(p.map[MAP_AT].t, at_stride, (size_t)r->rank * sizeof *p.size);
    p.map[MAP_TO].c = r->dst_offset;
    p.map[MAP_AT].c = at_offset;
    for (int k = p.rank - 1; k >= 0; k--) {
        if (p.size[k] == 1) piece_drop_dim(&p, k);
        else if (p.map[MAP_AT].t[k] < 0) piece_flip(&p, k);
    }
    return push(c, &c->open, &p);
}

/* ---- cutting -------------------------------------------------------------------------------------------------- */

/* Classes of integers: multiples of `size` from each other (periodic), or below, within and beyond 0 .. size-1. */
typedef struct Cuts {
    int64_t size;
    bool periodic;
} Cuts;

static int64_t class_of(Cuts cuts, int64_t v) {
    if (cuts.periodic) return floor_div(v, cuts.size);
    return v < 0 ? -1 : v >= cuts.size;
}

static int64_t class_end(Cuts cuts, int64_t class) {
    if (cuts.periodic) return class * cuts.size + (cuts.size - 1);
    return class < 0 ? -1 : class == 0 ? cuts.size - 1 : INT64_MAX;
}

static int steepest(const Piece *p, const Affine *map) {
    int best = 0;
    int64_t steep = -1;
    for (int k = 0; k < p->rank; k++) {
        int64_t t = map->t[k] < 0 ? -map->t[k] : map->t[k];
        if (t < steep || (t == steep && p->size[k] <= p->size[best])) continue;
        best = k;
        steep = t;
    }
    return best;
}

/* Where dimension k runs over many periods: one box of whole periods with a dimension more, and what is left at both
   ends. False when it does not pay. MAP_REST is the function, MAP_QUOT takes the whole periods. */
static bool cut_periods(Cutter *c, const Piece *p, int k, int64_t size, PieceList *todo, bool *ok) {
    int64_t step = p->map[MAP_REST].t[k], period = size / gcd(size, step), n = p->size[k], lo, hi;
    if (n / 2 < period || p->rank == PIECE_RANK) return false;
    map_range(p, &p->map[MAP_REST], k, &lo, &hi);
    int64_t phase = floor_mod(lo, size), head = phase < step ? 0 : (size - phase - 1) / step + 1;
    int64_t whole = (n - head) / period;
    if (whole < 2) return false;
    Piece part;
    if (head > 0) {
        part = piece_part(p, k, 0, head);
        *ok = push(c, todo, &part);
    }
    if (*ok && head + whole * period < n) {
        part = piece_part(p, k, head + whole * period, n - head - whole * period);
        *ok = push(c, todo, &part);
    }
    part = piece_part(p, k, head, whole * period);
    int inner = part.rank++;
    part.size[inner] = period;
    part.size[k] = whole;
    for (int m = 0; m < N_MAPS; m++) {
        part.map[m].t[inner] = part.map[m].t[k];
        part.map[m].t[k] *= period;
    }
    part.map[MAP_QUOT].t[k] += part.map[MAP_REST].t[k] / size;
    part.map[MAP_REST].t[k] = 0;
    *ok = *ok && push(c, todo, &part);
    return true;
}

/* Along dimension k: runs on which the whole cross-section lies in one class, and single cross-sections that do not. */
static bool cut_runs(Cutter *c, const Piece *p, int k, const Affine *map, Cuts cuts, PieceList *todo) {
    int64_t step = map->t[k], lo, hi;
    map_range(p, map, k, &lo, &hi);
    for (int64_t i = 0, n; i < p->size[k]; i += n) {
        int64_t class = class_of(cuts, lo + i * step);
        n = 1;
        if (class == class_of(cuts, hi + i * step)) {
            int64_t end = class_end(cuts, class);
            n = end == INT64_MAX ? p->size[k] - i : min_i64(p->size[k] - i, (end - hi) / step - i + 1);
        }
        Piece part = piece_part(p, k, i, n);
        if (!push(c, todo, &part)) return false;
    }
    return true;
}

static bool in_one_class(const Piece *p, const Affine *map, Cuts cuts) {
    int64_t lo, hi;
    map_range(p, map, -1, &lo, &hi);
    return class_of(cuts, lo) == class_of(cuts, hi);
}

/* Cuts a piece until each part lies in one class of map m; the parts go to c->done. */
static bool cut(Cutter *c, const Piece *piece, int m, Cuts cuts) {
    PieceList *todo = &c->todo;
    todo->len = 0;
    c->done.len = 0;
    if (!push(c, in_one_class(piece, &piece->map[m], cuts) ? &c->done : todo, piece)) return false;
    while (todo->len > 0) {
        Piece p;
        piece_copy(&p, &todo->data[--todo->len]);
        if (in_one_class(&p, &p.map[m], cuts)) {
            if (!push(c, &c->done, &p)) return false;
            continue;
        }
        int k = steepest(&p, &p.map[m]);
        bool ok = true;
        if (p.map[m].t[k] < 0) piece_flip(&p, k);
        if (cuts.periodic && cut_periods(c, &p, k, cuts.size, todo, &ok)) {
            if (!ok) return false;
        } else if (!cut_runs(c, &p, k, &p.map[m], cuts, todo)) {
            return false;
        }
    }
    return true;
}

/* ---- decoding positions --------------------------------------------------------------------------------------- */

/* MAP_REST = MAP_QUOT * d + rest by dimension; where a small step backwards does, rather than a large one forwards. */
static void reduce(Piece *p, int64_t d) {
    Affine *rest = &p->map[MAP_REST], *quot = &p->map[MAP_QUOT];
    quot->c = 0;
    for (int k = 0; k < p->rank; k++) {
        int64_t t = rest->t[k], u = floor_mod(t, d);
        if (u > (d - 1) / (p->size[k] - 1) && u > d - u) u -= d;
        quot->t[k] = (t - u) / d;
        rest->t[k] = u;
    }
}

/* Pieces of c->a, each cut so that MAP_QUOT and MAP_REST are quotient and remainder by d, go to c->b. Remainders from
   `span` on are never written, so the borders may lie anywhere among those: best where the piece begins. */
static bool divide(Cutter *c, int64_t d, int64_t span) {
    c->b.len = 0;
    for (size_t i = 0; i < c->a.len; i++) {
        Piece p;
        int64_t lo, hi, shift = 0;
        piece_copy(&p, &c->a.data[i]);
        reduce(&p, d);
        map_range(&p, &p.map[MAP_REST], -1, &lo, &hi);
        if (floor_div(lo, d) != floor_div(hi, d)) shift = floor_mod(-lo, d);
        if (shift > d - span) shift = 0;
        p.map[MAP_REST].c += shift;
        if (!cut(c, &p, MAP_REST, (Cuts){d, true})) return false;
        for (size_t j = 0; j < c->done.len; j++) {
            Piece *q = &c->done.data[j];
            map_range(q, &q->map[MAP_REST], -1, &lo, &hi);
            q->map[MAP_QUOT].c += floor_div(lo, d);
            q->map[MAP_REST].c -= floor_div(lo, d) * d + shift;
            if (!push(c, &c->b, q)) return false;
        }
    }
    return true;
}

/* Pieces of `from` whose map m lies within 0 .. size-1 go to `to`, what is outside stays open. */
static bool keep_within(Cutter *c, const PieceList *from, int m, int64_t size, PieceList *to) {
    to->len = 0;
    for (size_t i = 0; i < from->len; i++) {
        const Piece *p = &from->data[i];
        int64_t p_lo, p_hi;
        map_range(p, &p->map[m], -1, &p_lo, &p_hi);
        if (p_lo >= 0 && p_hi < size) { /* most often */
            if (!push(c, to, p)) return false;
            continue;
        }
        if (!cut(c, p, m, (Cuts){size, false})) return false;
        for (size_t j = 0; j < c->done.len; j++) {
            Piece *q = &c->done.data[j];
            int64_t lo, hi;
            map_range(q, &q->map[m], -1, &lo, &hi);
            bool within = lo >= 0 && hi < size;
            if (!within) piece_tidy(q, MAP_AT, MAP_TO);
            if (!push(c, within ? to : &c->next, q)) return false;
        }
    }
    return true;
}

static void add_source(Piece *p, int64_t stride) {
    Affine *from = &p->map[MAP_FROM], *quot = &p->map[MAP_QUOT];
    from->c += quot->c * stride;
    for (int k = 0; k < p->rank; k++) from->t[k] += quot->t[k] * stride;
}

/* Whether a cut below value v falls between cross-sections of the steepest dimension, through none. */
static bool cuts_cleanly(const Piece *p, const Affine *map, int64_t v) {
    int k = steepest(p, map);
    int64_t step = map->t[k], lo, hi;
    map_range(p, map, k, &lo, &hi);
    if (step <= 0) return false;
    int64_t first = floor_div(v - 1 - lo, step) + 1, after = floor_div(v - 1 - hi, step) + 1;
    return first == after || first <= 0 || after >= p->size[k];
}

/* Starts c->a with a piece, cut to the writer's extent where that is cheap. The extent is whole outermost steps, with
   the gap between two of them divided so that a piece which counts through such steps is cut between them. */
static bool select_part(Cutter *c, const Piece *piece, const Region *w, int64_t lo, int64_t hi, int64_t at_lo) {
    int64_t step = w->rank > 0 ? w->dst_stride[0] : 1, gap = 0;
    if (w->rank > 0) gap = step - (hi - lo - (w->size[0] - 1) * step + 1);
    int64_t before = min_i64(floor_mod(lo - at_lo, step), gap), extent = hi - lo + 1 + gap;
    c->a.len = c->b.len = 0;
    if (!push(c, &c->b, piece)) return false;
    Piece *p = &c->b.data[0];
    p->map[MAP_REST] = p->map[MAP_AT];
    p->map[MAP_REST].c -= lo - before;
    p->map[MAP_QUOT] = (Affine){0};
    p->map[MAP_FROM] = (Affine){.c = w->src_offset};
    bool cheap = p->rank > 0 && cuts_cleanly(p, &p->map[MAP_REST], 0) && cuts_cleanly(p, &p->map[MAP_REST], extent);
    if (cheap ? !keep_within(c, &c->b, MAP_REST, extent, &c->a) : !push(c, &c->a, p)) return false;
    for (size_t i = 0; i < c->a.len; i++) c->a.data[i].map[MAP_REST].c = c->a.data[i].map[MAP_AT].c - w->dst_offset;
    return true;
}

/* c->a's pieces against the writer, stride by stride. */
static bool decode(Cutter *c, const Region *w, int64_t span) {
    for (int k = 0; k < w->rank && c->a.len > 0; k++) {
        span -= (w->size[k] - 1) * w->dst_stride[k];
        if (!divide(c, w->dst_stride[k], span) || !keep_within(c, &c->b, MAP_QUOT, w->size[k], &c->a)) return false;
        for (size_t i = 0; i < c->a.len; i++) add_source(&c->a.data[i], w->src_stride[k]);
    }
    if (!keep_within(c, &c->a, MAP_REST, 1, &c->b)) return false;
    for (size_t i = 0; i < c->b.len; i++)
        if (!push(c, &c->found, &c->b.data[i])) return false;
    return true;
}

/* A piece of which nothing is found stays as it was, uncut. */
bool cutter_match(Cutter *c, const Region *w) {
    int64_t lo, hi;
    if (!region_extent(w, w->dst_offset, w->dst_stride, &lo, &hi)) return false;
    c->next.len = 0;
    for (size_t i = 0; i < c->open.len; i++) {
        const Piece *p = &c->open.data[i];
        int64_t at_lo, at_hi;
        size_t n_next = c->next.len, n_found = c->found.len;
        map_range(p, &p->map[MAP_AT], -1, &at_lo, &at_hi);
        if (at_hi >= lo && at_lo <= hi && (!select_part(c, p, w, lo, hi, at_lo) || !decode(c, w, hi - lo + 1)))
            return false;
        if (c->found.len > n_found) continue;
        c->next.len = n_next;
        if (!push(c, &c->next, p)) return false;
    }
    PieceList swap = c->open;
    c->open = c->next;
    c->next = swap;
    return true;
}

/* ---- pieces as regions ---------------------------------------------------------------------------------------- */

bool cutter_push(Cutter *c, const Piece *piece, int32_t source, RegionList *list) {
    PieceList *todo = &c->todo;
    todo->len = 0;
    if (!push(c, todo, piece)) return false;
    while (todo->len > 0) {
        Piece p;
        piece_copy(&p, &todo->data[--todo->len]);
        if (source == REGION_FILL) p.map[MAP_FROM] = (Affine){0};
        piece_tidy(&p, MAP_TO, MAP_FROM);
        if (p.rank > TN_MAX_RANK) { /* too many dimensions: one index of the smallest each */
            int small = 0;
            for (int k = 1; k < p.rank; k++)
                if (p.size[k] < p.size[small]) small = k;
            for (int64_t i = 0; i < p.size[small]; i++) {
                Piece part = piece_part(&p, small, i, 1);
                if (!push(c, todo, &part)) return false;
            }
            continue;
        }
        Region r = {.source = source, .rank = p.rank, .src_offset = p.map[MAP_FROM].c, .dst_offset = p.map[MAP_TO].c};
        memcpy(r.size, p.size, (size_t)p.rank * sizeof *r.size);
        memcpy(r.src_stride, p.map[MAP_FROM].t, (size_t)p.rank * sizeof *r.size);
        memcpy(r.dst_stride, p.map[MAP_TO].t, (size_t)p.rank * sizeof *r.size);
        c->status = region_push(list, &r);
        if (c->status != TN_OK) return false;
    }
    return true;
}
