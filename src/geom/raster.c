/* SPDX-License-Identifier: Apache-2.0 */
/* Runs regions: copies of contiguous runs, blocked transposes, and strided loops by element size. */
#include "geom/geom_int.h"

#define LINE 64
#define CHUNK_BYTES 65536 /* what threads share is about this much */
/* A block of a transpose, in bytes on each side: what it touches stays in the cache, and runs are long enough to be
   seen coming. */
#define TILE_A 1024
#define TILE_B 512
#define STREAM_BYTES (6 << 20)  /* a result that is not found in the caches anyway, or pushes out all else */
#define STAGE_BYTES (128 << 10) /* where rows of such a result that are no whole lines are put together first */
#define THIN_STAGE_BYTES (16 << 10)
#define STAGE_RUN 256    /* of the source's bytes, and of each row of a block that is carried on */
#define STAGE_ROWS 128   /* in such a block, at most */
#define CARRIED_PARTS 16 /* blocks one after the other, at most; each first one begins with lines in part */
#define LONG_RUN 128     /* bytes: two lines */
#define LONGEST_RUN 4096 /* which memcpy does as well */
#define SHORT_ROW 8      /* shorter rows cost more for being started than for being moved */
#define BYTE_NS 0.15     /* nanoseconds to move one contiguous byte */
#define ELEMENT_NS 0.6   /* ... and one element with strides */

/* A box in bytes, ready to run. Its two inner dimensions, b and a, are cut into parts, which are what threads share:
   rows to copy or to gather along a, or blocks to transpose. */
typedef enum Mode { MODE_COPY, MODE_TILES, MODE_ROWS } Mode;
typedef struct Plan {
    Mode mode;
    int rank; /* at least 2 */
    int64_t size[TN_MAX_RANK + 2], src[TN_MAX_RANK + 2], dst[TN_MAX_RANK + 2];
    int64_t element; /* bytes of what is moved at once: an element, or a short run of them */
    int log;         /* of `element`, base 2 */
    bool stream;     /* far more than the caches hold is written: past them */
    bool staged;     /* by way of memory for a part of a part, stage_a of a and stage_b of b */
    bool carried;    /* what is no whole line of one part's part goes with the next */
    int64_t stage_a, stage_b;
    int64_t step_a, step_b, parts_a, parts_b, per_outer, items;
    const RasterMoves *moves;
    const char *from;
    char *to;
} Plan;

/* ---- planning ------------------------------------------------------------------------------------------------ */

static void plan_remove_dim(Plan *p, int k) {
    p->rank--;
    for (int j = k; j < p->rank; j++) {
        p->size[j] = p->size[j + 1];
        p->src[j] = p->src[j + 1];
        p->dst[j] = p->dst[j + 1];
    }
}

/* Dimension k as the last but `places`. */
static void plan_move(Plan *p, int k, int places) {
    int64_t size = p->size[k], src = p->src[k], dst = p->dst[k];
    int at = p->rank - 1 - places;
    plan_remove_dim(p, k);
    for (int j = p->rank++; j > at; j--) {
        p->size[j] = p->size[j - 1];
        p->src[j] = p->src[j - 1];
        p->dst[j] = p->dst[j - 1];
    }
    p->size[at] = size;
    p->src[at] = src;
    p->dst[at] = dst;
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

/* Two inner dimensions, also where there is less. */
static void plan_pad(Plan *p) {
    while (p->rank < 2) {
        int last = p->rank++;
        p->size[last] = 1;
        p->src[last] = p->dst[last] = 0;
        plan_move(p, last, last);
    }
}

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Whether dimension k makes a better row than j: a long one, and among those one that reads without gaps. */
static bool longer_row(const Plan *p, int k, int j) {
    bool short_k = p->size[k] < SHORT_ROW, short_j = p->size[j] < SHORT_ROW;
    if (short_k != short_j) return short_j;
    return short_k ? p->size[k] > p->size[j] : p->src[k] == p->element && p->src[j] != p->element;
}

/* Rows along the last dimension, or along a longer one; beside it the one that steps least in the source, so that a
   block reads what it reads once. */
static void plan_rows(Plan *p) {
    int best = p->rank - 1;
    if (p->size[best] < SHORT_ROW)
        for (int k = p->rank - 2; k >= 0; k--)
            if (longer_row(p, k, best)) best = k;
    plan_move(p, best, 0);
    best = p->rank - 2;
    for (int k = p->rank - 3; k >= 0; k--)
        if (magnitude(p->src[k]) < magnitude(p->src[best]) && p->size[k] > 1) best = k;
    plan_move(p, best, 1);
}

/* A dimension that is contiguous in the source, when the last is contiguous in the result only; else -1. */
static int tile_dim(const Plan *p) {
    int last = p->rank - 1;
    if (p->dst[last] != p->element || p->src[last] == 0) return -1;
    for (int k = last - 1; k >= 0; k--)
        if (p->src[k] == p->element && p->size[k] > 1) return k;
    return -1;
}

/* Runs of whole lines are written well in any order, but read better in the order of the source. */
static void plan_source_order(Plan *p) {
    for (int i = 1; i < p->rank - 1; i++)
        for (int k = i; k > 0 && magnitude(p->src[k - 1]) < magnitude(p->src[k]); k--)
            plan_move(p, k - 1, p->rank - 1 - k);
}

static void plan_mode(Plan *p, bool reorder) {
    int last = p->rank - 1, k;
    p->mode = MODE_ROWS;
    if (p->dst[last] == p->element && p->src[last] == p->element) {
        p->mode = MODE_COPY;
        if (reorder && p->size[last] * p->element >= LONG_RUN) plan_source_order(p);
    } else if (reorder && (k = tile_dim(p)) >= 0) {
        plan_move(p, k, 1);
        p->mode = MODE_TILES;
    } else if (reorder) {
        plan_rows(p);
    }
}

/* Whether all rows of the result are whole lines, or (joined) all that lies one behind the other. */
static bool writes_whole_lines(const Plan *p, bool joined) {
    int last = p->rank - (joined ? 2 : 1);
    uintptr_t at = (uintptr_t)p->to | (uintptr_t)(p->size[last] * (joined ? p->dst[last] : p->element));
    for (int k = 0; k < last; k++) at |= (uintptr_t)p->dst[k];
    return at % LINE == 0;
}

/* Three streams of 32 bits, which vectors weave together or take apart. */
static bool goes_by_threes(const Plan *p) {
    int a = p->rank - 1, b = p->rank - 2;
    if (p->element != 4) return false;
    if (p->size[a] == 3) return p->dst[b] == 12 && writes_whole_lines(p, true);
    return p->size[b] == 3 && p->src[a] == 12 && writes_whole_lines(p, false);
}

static void plan_stream(Plan *p) {
    int64_t count = p->element, a = p->size[p->rank - 1], b = p->size[p->rank - 2];
    for (int k = 0; k < p->rank; k++) count = mul_overflows(count, p->size[k], &count) ? INT64_MAX : count;
    if (count < STREAM_BYTES || p->mode == MODE_ROWS) return;
    p->stream = p->mode == MODE_TILES || (a * p->element >= LONG_RUN && a * p->element < LONGEST_RUN);
    bool thin = a * p->element < LINE || b * p->element < LINE;
    if (p->mode == MODE_COPY || (thin ? goes_by_threes(p) : writes_whole_lines(p, false))) return;
    p->staged = true;
    /* Whole rows that lie one behind the other in the result are one run; else there is a line between them. */
    int64_t bytes = thin ? THIN_STAGE_BYTES : STAGE_BYTES;
    for (int64_t run = STAGE_RUN; run >= (thin ? LINE : STAGE_RUN); run /= 2) {
        p->stage_b = min_i64(b, a * p->element < run ? bytes / (a * p->element) : run / p->element);
        p->stage_a = a;
        if (p->dst[p->rank - 2] == a * p->element && p->stage_b * p->dst[p->rank - 2] <= bytes) return;
    }
    p->carried = !thin;
    p->stage_b = min_i64(b, thin ? STAGE_RUN / p->element : min_i64(STAGE_ROWS, STAGE_RUN / p->element));
    p->stage_a = min_i64(a, (thin ? (bytes / p->stage_b - LINE) / LINE * LINE : STAGE_RUN) / p->element);
}

/* Parts of whole steps, the last one longer: no part is short but where all is. */
static void plan_parts(Plan *p, bool reorder) {
    int64_t a = p->size[p->rank - 1], b = p->size[p->rank - 2], whole = max_i64(1, CHUNK_BYTES / p->element);
    if (p->staged) {
        p->step_a = p->carried ? min_i64(a, CARRIED_PARTS * p->stage_a) : p->stage_a;
        p->step_b = p->stage_b;
    } else if (p->mode == MODE_TILES) {
        int64_t tile_a = TILE_A / p->element, tile_b = TILE_B / p->element;
        p->step_a = min_i64(a, b < tile_b ? max_i64(tile_a, whole / 4 / b & -LINE) : tile_a);
        p->step_b = min_i64(b, a < tile_a ? max_i64(tile_b, whole / a & -LINE) : tile_b);
    } else {
        p->step_a = min_i64(a, p->mode == MODE_COPY ? whole : max_i64(64, whole / 16));
        p->step_b = min_i64(b, max_i64(1, whole / p->step_a));
    }
    if (!reorder) { /* in the order of the box: whole rows, one after the other */
        p->step_a = a;
        p->step_b = b;
    }
    p->parts_a = a / max_i64(1, p->step_a);
    p->parts_b = b / max_i64(1, p->step_b);
    p->items = p->per_outer = p->parts_a * p->parts_b;
    for (int k = 0; k < p->rank - 2; k++) p->items *= p->size[k];
}

static void plan_make(Plan *p, const Region *r, bool reorder, int64_t element, const char *from, char *to) {
    *p = (Plan){.rank = r->rank, .element = element, .moves = raster_moves()};
    p->from = from + r->src_offset * element;
    p->to = to + r->dst_offset * element;
    for (int k = 0; k < r->rank; k++) {
        p->size[k] = r->size[k];
        p->src[k] = r->src_stride[k] * element;
        p->dst[k] = r->dst_stride[k] * element;
    }
    plan_widen(p);
    plan_pad(p);
    while (1 << p->log < p->element) p->log++;
    plan_mode(p, reorder);
    if (reorder) plan_stream(p);
    plan_parts(p, reorder);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static int64_t part_size(int64_t part, int64_t parts, int64_t step, int64_t size) {
    return part + 1 == parts ? size - part * step : step;
}

/* What is read next is asked for while lines go past the caches: they wait for memory, and no processor foresees places that
   lie so far from each other. */
static void ask_for(const char *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes + LINE; i += LINE) __builtin_prefetch(from + min_i64(i, bytes - 1), 0, 2);
}

/* A block of a transpose is put together in the cache, and goes past it: here rows that are no whole lines, block after block
   along them. They lie in the cache as far from the beginnings of lines as in the result; what is left of the last line of
   each begins the next block's. */
static void run_carried(const Plan *p, char *to, const char *from, int64_t an, int64_t rows) {
    int a = p->rank - 1, b = p->rank - 2;
    alignas(LINE) char stage[STAGE_ROWS * (2 * STAGE_RUN + 2 * LINE) + LINE];
    int64_t ld = 2 * STAGE_RUN + LINE + (p->dst[b] & (LINE - 1)), blocks = max_i64(1, an / p->stage_a);
    char *begin = stage + ((uintptr_t)to & (LINE - 1));
    for (int64_t i = 0; i < blocks; i++) {
        int64_t a0 = i * p->stage_a, n = part_size(i, blocks, p->stage_a, an), bytes = n * p->element;
        bool more = i + 1 < blocks;
        p->moves->transpose[p->log](begin, ld, from + a0 * p->src[a], p->src[a], n, rows, STORE_NEAR);
        for (int64_t r = 0; r < rows; r++) {
            char *row = begin + r * ld, *at = to + r * p->dst[b] + a0 * p->element;
            int64_t before = i > 0 ? (int64_t)((uintptr_t)row & (LINE - 1)) : 0;
            int64_t after = more ? (int64_t)((uintptr_t)(row + bytes) & (LINE - 1)) : 0;
            if (more && r < p->stage_a) ask_for(from + (a0 + p->stage_a + r) * p->src[a], rows * p->element);
            p->moves->stream_rows(at - before, 0, row - before, 0, 1, before + bytes - after);
            if (after > 0) memcpy(row - after, row + bytes - after, LINE); /* as far into a line */
        }
    }
}

/* The same of whole rows, or of thin blocks. */
static void run_staged(const Plan *p, char *to, const char *from, int64_t an, int64_t bn) {
    int a = p->rank - 1, b = p->rank - 2;
    alignas(LINE) char stage[STAGE_BYTES];
    for (int64_t b0 = 0; b0 < bn; b0 += p->stage_b)
        for (int64_t a0 = 0; a0 < an; a0 += p->stage_a) {
            int64_t rows = min_i64(p->stage_b, bn - b0), n = min_i64(p->stage_a, an - a0), row = n * p->element;
            bool joined = p->dst[b] == row;
            int64_t ld = joined ? row : (row + 2 * LINE - 1) / LINE * LINE;
            char *at = to + b0 * p->dst[b] + a0 * p->element;
            p->moves->transpose[p->log](stage, ld, from + a0 * p->src[a] + b0 * p->element, p->src[a], n, rows,
                                        STORE_NEAR);
            if (joined) p->moves->stream_rows(at, 0, stage, 0, 1, rows * row);
            else p->moves->stream_rows(at, p->dst[b], stage, ld, rows, row);
        }
}

static void run_part(const Plan *p, int64_t part_b, int64_t part_a, int64_t n_parts_a, char *to, const char *from) {
    int a = p->rank - 1, b = p->rank - 2;
    int64_t a0 = part_a * p->step_a, b0 = part_b * p->step_b;
    int64_t an = (n_parts_a - 1) * p->step_a + part_size(part_a + n_parts_a - 1, p->parts_a, p->step_a, p->size[a]);
    int64_t bn = part_size(part_b, p->parts_b, p->step_b, p->size[b]);
    to += a0 * p->dst[a] + b0 * p->dst[b];
    from += a0 * p->src[a] + b0 * p->src[b];
    if (p->carried) {
        for (int64_t i = 0; i < bn; i += p->stage_b)
            run_carried(p, to + i * p->dst[b], from + i * p->element, an, min_i64(p->stage_b, bn - i));
    } else if (p->staged) {
        run_staged(p, to, from, an, bn);
    } else if (p->mode == MODE_COPY && p->stream) {
        p->moves->stream_rows(to, p->dst[b], from, p->src[b], bn, an * p->element);
    } else if (p->mode == MODE_COPY) {
        raster_copy_rows(to, p->dst[b], from, p->src[b], bn, an * p->element);
    } else if (p->mode == MODE_TILES) {
        p->moves->transpose[p->log](to, p->dst[b], from, p->src[a], an, bn, p->stream ? STORE_PAST : STORE_AWAY);
    } else {
        for (int64_t i = 0; i < bn; i++)
            p->moves->row[p->log](to + i * p->dst[b], p->dst[a], from + i * p->src[b], p->src[a], an);
    }
}

static void run_items(void *arg, int64_t begin, int64_t end) {
    const Plan *p = arg;
    int outer = p->rank - 2;
    int64_t index[TN_MAX_RANK + 2], step = begin / p->per_outer, part = begin % p->per_outer;
    const char *from = p->from;
    char *to = p->to;
    for (int k = outer - 1; k >= 0; k--) {
        index[k] = step % p->size[k];
        step /= p->size[k];
        from += index[k] * p->src[k];
        to += index[k] * p->dst[k];
    }
    for (int64_t i = begin, n; i < end; i += n) {
        int64_t part_a = part % p->parts_a;
        /* Parts of one long run are copied at once. */
        n = p->mode == MODE_COPY ? min_i64(end - i, p->parts_a - part_a) : 1;
        run_part(p, part / p->parts_a, part_a, n, to, from);
        part += n;
        if (part < p->per_outer) continue;
        part = 0;
        for (int k = outer - 1; k >= 0; k--) {
            from += p->src[k];
            to += p->dst[k];
            if (++index[k] < p->size[k]) break;
            from -= p->src[k] * p->size[k];
            to -= p->dst[k] * p->size[k];
            index[k] = 0;
        }
    }
    if (p->stream) p->moves->fence();
}

static double plan_item_cost(const Plan *p) {
    double n = (double)p->step_a * (double)p->step_b;
    return p->mode == MODE_ROWS ? 2 * (double)p->step_b + ELEMENT_NS * n
                                : 4 * (double)p->step_b + BYTE_NS * (double)p->element * n;
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
    if (region_count(&r) == 0) return;
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
