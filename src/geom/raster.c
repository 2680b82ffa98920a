/* SPDX-License-Identifier: Apache-2.0 */
/* Runs regions: copies of contiguous runs, blocked transposes, and strided loops by element size. */
#include "geom/geom_int.h"

#define CHUNK_BYTES 65536 /* a contiguous run is cut into pieces of this size, so that one long run can be shared out */
/* A tile of a transpose: long where it is written without gaps, so that whole lines are; both sides fit the cache. */
#define TILE_A 64
#define TILE_B 16
#define SHORT_ROW 8    /* shorter rows cost more for being started than for being moved */
#define BYTE_NS 0.15   /* nanoseconds to move one contiguous byte */
#define ELEMENT_NS 0.6 /* ... and one element with strides */

/* A box in bytes, ready to run. Items are what threads share: chunks of runs, tiles, or rows. */
typedef enum Mode { MODE_COPY, MODE_TILES, MODE_ROWS } Mode;
typedef struct Plan {
    Mode mode;
    int outer; /* dimensions 0 .. outer-1 are stepped over, the rest is an item's */
    int rank;
    int64_t size[TN_MAX_RANK], src[TN_MAX_RANK], dst[TN_MAX_RANK];
    int64_t element;   /* bytes of what is moved at once: an element, or a short run of them */
    int64_t per_outer; /* items for each step of the outer dimensions */
    int64_t items, tiles_a, tiles_b;
    const char *from;
    char *to;
} Plan;

/* ---- moving one row, by element size ------------------------------------------------------------------------- */

typedef struct Wide {
    uint64_t a, b;
} Wide;

/* Elements may be misaligned (mapped constants), so they move through memcpy, which is one instruction here. */
#define ROW(name, T)                                                                              \
    static void row_##name(char *to, int64_t dst, const char *from, int64_t src, int64_t n) {     \
        T v;                                                                                      \
        if (src == 0) {                                                                           \
            memcpy(&v, from, sizeof v);                                                           \
            if (dst == (int64_t)sizeof v)                                                         \
                for (int64_t i = 0; i < n; i++) memcpy(to + i * (int64_t)sizeof v, &v, sizeof v); \
            else                                                                                  \
                for (int64_t i = 0; i < n; i++) memcpy(to + i * dst, &v, sizeof v);               \
        } else if (dst == (int64_t)sizeof v) {                                                    \
            for (int64_t i = 0; i < n; i++) {                                                     \
                memcpy(&v, from + i * src, sizeof v);                                             \
                memcpy(to + i * (int64_t)sizeof v, &v, sizeof v);                                 \
            }                                                                                     \
        } else {                                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                     \
                memcpy(&v, from + i * src, sizeof v);                                             \
                memcpy(to + i * dst, &v, sizeof v);                                               \
            }                                                                                     \
        }                                                                                         \
    }
ROW(1, uint8_t)
ROW(2, uint16_t)
ROW(4, uint32_t)
ROW(8, uint64_t)
ROW(16, Wide)

static void move_row(int64_t element, char *to, int64_t dst, const char *from, int64_t src, int64_t n) {
    switch (element) {
    case 1: row_1(to, dst, from, src, n); return;
    case 2: row_2(to, dst, from, src, n); return;
    case 4: row_4(to, dst, from, src, n); return;
    case 8: row_8(to, dst, from, src, n); return;
    default: row_16(to, dst, from, src, n); return;
    }
}

/* ---- planning ------------------------------------------------------------------------------------------------ */

static void plan_remove_dim(Plan *p, int k) {
    for (int j = k; j + 1 < p->rank; j++) {
        p->size[j] = p->size[j + 1];
        p->src[j] = p->src[j + 1];
        p->dst[j] = p->dst[j + 1];
    }
    p->rank--;
}

static void plan_move_last(Plan *p, int k) {
    int64_t size = p->size[k], src = p->src[k], dst = p->dst[k];
    plan_remove_dim(p, k);
    p->size[p->rank] = size;
    p->src[p->rank] = src;
    p->dst[p->rank++] = dst;
}

/* A short contiguous innermost run of 2, 4, 8 or 16 bytes is one wider element. */
static void plan_widen(Plan *p) {
    if (p->rank == 0) return;
    int last = p->rank - 1;
    int64_t bytes = p->size[last] * p->element;
    if (p->src[last] != p->element || p->dst[last] != p->element || bytes > 16 || (bytes & (bytes - 1))) return;
    p->element = bytes;
    p->rank--;
}

/* Whether dimension k makes a better row than j: a long one, and among those one that reads without gaps. */
static bool longer_row(const Plan *p, int k, int j) {
    bool short_k = p->size[k] < SHORT_ROW, short_j = p->size[j] < SHORT_ROW;
    if (short_k != short_j) return short_j;
    return short_k ? p->size[k] > p->size[j] : p->src[k] == p->element && p->src[j] != p->element;
}

/* Rows along the last dimension, or along a longer one where the order of writes is free. */
static void plan_rows(Plan *p, bool reorder) {
    int best = p->rank - 1;
    if (best >= 0 && p->size[best] < SHORT_ROW && reorder) {
        for (int k = p->rank - 2; k >= 0; k--)
            if (longer_row(p, k, best)) best = k;
        if (best != p->rank - 1) plan_move_last(p, best);
    }
    p->mode = MODE_ROWS;
    p->outer = max_i64(p->rank - 1, 0);
    p->per_outer = 1;
}

static void plan_mode(Plan *p, bool reorder) {
    int last = p->rank - 1;
    if (last >= 0 && p->dst[last] == p->element && p->src[last] == p->element) {
        int64_t chunk = CHUNK_BYTES / p->element;
        p->mode = MODE_COPY;
        p->outer = last;
        p->per_outer = (p->size[last] + chunk - 1) / chunk;
        return;
    }
    bool tiles = reorder && last > 0 && p->dst[last] == p->element && p->src[last] != 0;
    for (int k = 0; tiles && k < last; k++) {
        if (p->src[k] != p->element || p->size[k] < SHORT_ROW || p->size[last] < SHORT_ROW) continue;
        plan_move_last(p, k); /* now: last-1 is contiguous in the result, last in the source */
        p->mode = MODE_TILES;
        p->outer = p->rank - 2;
        p->tiles_a = (p->size[p->rank - 2] + TILE_A - 1) / TILE_A;
        p->tiles_b = (p->size[p->rank - 1] + TILE_B - 1) / TILE_B;
        p->per_outer = p->tiles_a * p->tiles_b;
        return;
    }
    plan_rows(p, reorder);
}

static void plan_make(Plan *p, const Region *r, bool reorder, int64_t element, const char *from, char *to) {
    *p = (Plan){.rank = r->rank, .element = element};
    p->from = from + r->src_offset * element;
    p->to = to + r->dst_offset * element;
    for (int k = 0; k < r->rank; k++) {
        p->size[k] = r->size[k];
        p->src[k] = r->src_stride[k] * element;
        p->dst[k] = r->dst_stride[k] * element;
    }
    plan_widen(p);
    plan_mode(p, reorder);
    p->items = p->per_outer;
    for (int k = 0; k < p->outer; k++) p->items *= p->size[k];
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static void run_tile(const Plan *p, int64_t tile, char *to, const char *from) {
    int a = p->rank - 2, b = p->rank - 1;
    int64_t a0 = tile / p->tiles_b * TILE_A, b0 = tile % p->tiles_b * TILE_B;
    int64_t an = min_i64(TILE_A, p->size[a] - a0), bn = min_i64(TILE_B, p->size[b] - b0);
    to += a0 * p->dst[a] + b0 * p->dst[b];
    from += a0 * p->src[a] + b0 * p->src[b];
    for (int64_t i = 0; i < bn; i++)
        move_row(p->element, to + i * p->dst[b], p->dst[a], from + i * p->src[b], p->src[a], an);
}

static void run_item(const Plan *p, int64_t part, char *to, const char *from) {
    int last = p->rank - 1;
    if (p->mode == MODE_TILES) {
        run_tile(p, part, to, from);
    } else if (p->mode == MODE_COPY) {
        int64_t chunk = CHUNK_BYTES / p->element, begin = part * chunk;
        int64_t n = min_i64(chunk, p->size[last] - begin);
        memcpy(to + begin * p->element, from + begin * p->element, (size_t)(n * p->element));
    } else if (last < 0) {
        move_row(p->element, to, 0, from, 0, 1);
    } else {
        move_row(p->element, to, p->dst[last], from, p->src[last], p->size[last]);
    }
}

static void run_items(void *arg, int64_t begin, int64_t end) {
    const Plan *p = arg;
    int64_t index[TN_MAX_RANK], step = begin / p->per_outer, part = begin % p->per_outer;
    const char *from = p->from;
    char *to = p->to;
    for (int k = p->outer - 1; k >= 0; k--) {
        index[k] = step % p->size[k];
        step /= p->size[k];
        from += index[k] * p->src[k];
        to += index[k] * p->dst[k];
    }
    for (int64_t i = begin; i < end; i++) {
        run_item(p, part, to, from);
        if (++part < p->per_outer) continue;
        part = 0;
        for (int k = p->outer - 1; k >= 0; k--) {
            from += p->src[k];
            to += p->dst[k];
            if (++index[k] < p->size[k]) break;
            from -= p->src[k] * p->size[k];
            to -= p->dst[k] * p->size[k];
            index[k] = 0;
        }
    }
}

static double plan_item_cost(const Plan *p) {
    int last = p->rank - 1;
    if (p->mode == MODE_TILES) return TILE_A * TILE_B * ELEMENT_NS;
    if (p->mode == MODE_COPY) return 4 + BYTE_NS * (double)min_i64(CHUNK_BYTES, p->size[last] * p->element);
    return last < 0 ? 2 : 2 + ELEMENT_NS * (double)p->size[last];
}

/* ---- types that are no whole bytes, and strings -------------------------------------------------------------- */

/* Row by row on this thread: neighbours of a sub-byte type share bytes, and strings count references. */
static void run_rows(const Region *r, tn_dtype dtype, const void *src, int64_t src_offset, void *dst,
                     int64_t dst_offset) {
    int64_t index[TN_MAX_RANK] = {0}, from = src_offset + r->src_offset, to = dst_offset + r->dst_offset;
    int last = r->rank - 1;
    int64_t n = last < 0 ? 1 : r->size[last];
    int64_t src_stride = last < 0 ? 0 : r->src_stride[last], dst_stride = last < 0 ? 0 : r->dst_stride[last];
    for (;;) {
        copy_elements(dtype, dst, to, dst_stride, src, from, src_stride, n);
        int k = last - 1;
        for (; k >= 0; k--) {
            from += r->src_stride[k];
            to += r->dst_stride[k];
            if (++index[k] < r->size[k]) break;
            from -= r->src_stride[k] * r->size[k];
            to -= r->dst_stride[k] * r->size[k];
            index[k] = 0;
        }
        if (k < 0) return;
    }
}

/* ---- lists --------------------------------------------------------------------------------------------------- */

static const _Alignas(16) uint8_t zero_element[16];

/* The fill value all over the result. String results hold references (or NULL) before and after. */
static void raster_fill(tn_dtype dtype, void *dst, int64_t dst_offset, int64_t count, const void *fill) {
    int element = dtype_size(dtype);
    if (element > 0 && dtype != TN_STRING && !fill)
        memset((char *)dst + dst_offset * element, 0, (size_t)(count * element));
    else copy_elements(dtype, dst, dst_offset, 1, fill ? fill : zero_element, 0, 0, count);
}

/* What the threads share when there are many small boxes. */
typedef struct Job {
    const RegionList *list;
    tn_dtype dtype;
    const RasterOperand *sources;
    void *dst;
    int64_t dst_offset;
    const void *fill;
    Pool *pool; /* for the items of one box */
} Job;

static void run_region(const Job *job, const Region *region) {
    Region r = *region, sorted = *region;
    bool is_fill = r.source == REGION_FILL;
    if (is_fill) memset(sorted.src_stride, 0, sizeof sorted.src_stride);
    bool once = region_normalise(&sorted);
    if (once) {
        r = sorted;
    } else {
        r = *region;
        region_coalesce(&r);
    }
    if (is_fill) {
        r.src_offset = 0;
        memset(r.src_stride, 0, sizeof r.src_stride);
    }
    const void *data = is_fill ? (job->fill ? job->fill : zero_element) : job->sources[r.source].data;
    int64_t offset = is_fill ? 0 : job->sources[r.source].offset;
    int element = dtype_size(job->dtype);
    if (element == 0 || job->dtype == TN_STRING) {
        run_rows(&r, job->dtype, data, offset, job->dst, job->dst_offset);
        return;
    }
    Plan plan;
    plan_make(&plan, &r, once, element, (const char *)data + offset * element,
              (char *)job->dst + job->dst_offset * element);
    if (once) parallel_for(job->pool, plan.items, plan_item_cost(&plan), run_items, &plan);
    else run_items(&plan, 0, plan.items);
}

static void run_regions(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    for (int64_t i = begin; i < end; i++) run_region(job, &job->list->data[i]);
}

tn_status raster_run(const RegionList *list, tn_dtype dtype, const RasterOperand *sources, void *dst,
                     int64_t dst_offset, int64_t count, const void *fill, Pool *pool) {
    Job job = {list, dtype, sources, dst, dst_offset, fill, pool};
    bool shareable = list->covers && dtype_size(dtype) > 0 && dtype != TN_STRING;
    int64_t each = list->len ? count / (int64_t)list->len * dtype_size(dtype) : 0;
    if (count == 0) return TN_OK;
    if (!list->covers) raster_fill(dtype, dst, dst_offset, count, fill);
    if (shareable && list->len >= 8 && each < CHUNK_BYTES) {
        job.pool = NULL; /* the boxes are shared out, not their parts */
        parallel_for(pool, (int64_t)list->len, 50 + BYTE_NS * (double)each, run_regions, &job);
    } else {
        run_regions(&job, 0, (int64_t)list->len);
    }
    return TN_OK;
}
