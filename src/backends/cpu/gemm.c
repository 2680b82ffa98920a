/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks and threads of float32 matrix products.

   A product is cut into parts (rows by panels of B), which threads take. Within a part, a block of A's rows that fits the
   second-level cache is multiplied by panel after panel, which come from farther away and are brought in while the one
   before is used. k is cut into blocks by its size alone. */
#include "backends/cpu/gemm_int.h"

enum {
    K_BLOCK = 768,    /* rows of B at most, so that a panel of them stays in the second-level cache */
    DIRECT_ROWS = 48, /* up to so many rows of A, B is read where it lies: packing it would cost more than it saves */
    PARTS = 4         /* for each thread, to even them out */
};
static const double NS_PER_FLOP = 0.01, NS_PER_BYTE = 0.05, NS_PER_PART = 500;

/* ---- packed right operands ----------------------------------------------------------------------------------- */

int gemm_nr(void) { return ISA_PICK(gemm_table)->nr; }

static int64_t width_of(const GemmTable *t, int64_t n, int64_t panel) {
    int64_t cols = min_i64(n - panel * t->nr, t->nr);
    return (cols + t->vector - 1) / t->vector * t->vector;
}

int gemm_panel_width(int64_t n, int64_t panel) { return (int)width_of(ISA_PICK(gemm_table), n, panel); }

size_t gemm_packed_size(int64_t k, int64_t n) {
    int64_t vector = ISA_PICK(gemm_table)->vector;
    return (size_t)(k * ((n + vector - 1) / vector * vector)) * sizeof(float);
}

typedef struct PackJob {
    const GemmTable *t;
    float *dst;
    const char *b;
    int64_t row_stride, col_stride, k, n;
} PackJob;

static void pack_some(void *arg, int64_t begin, int64_t end) {
    const PackJob *p = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t col = i * p->t->nr;
        p->t->pack(p->dst + col * p->k, width_of(p->t, p->n, i), p->b + col * p->col_stride * (int64_t)sizeof(float),
                   p->row_stride, p->col_stride, p->k, min_i64(p->n - col, p->t->nr));
    }
}

void gemm_pack_b(float *dst, const void *b, int64_t row_stride, int64_t col_stride, int64_t k, int64_t n, Pool *pool) {
    const GemmTable *t = ISA_PICK(gemm_table);
    PackJob job = {t, dst, b, row_stride, col_stride, k, n};
    parallel_for(pool, (n + t->nr - 1) / t->nr, (double)(k * t->nr) / 2, pack_some, &job);
}

/* ---- what is to be done -------------------------------------------------------------------------------------- */

/* Scratch of one thread at a time. */
typedef struct Slot {
    atomic_flag taken;
    float *a, *b;
} Slot;

typedef struct Work {
    const GemmArgs *g;
    const GemmTable *t;
    GemmWhere where;
    const float *packed;
    int64_t panels;
    int64_t k_blocks;
    int64_t parts_m, parts_n; /* of each product */
    bool packs_a;
    Slot *slots;
    int n_slots;
} Work;

typedef struct Part {
    int64_t product, row, rows, panel, panels;
} Part;

/* The i-th of n nearly equal pieces of a size. */
static void piece(int64_t size, int64_t n, int64_t i, int64_t *at, int64_t *length) {
    *at = size / n * i + min_i64(i, size % n);
    *length = size / n + (i < size % n);
}

/* Rows are dealt out by whole tiles as far as there are enough of them. */
static void rows_of_part(const Work *w, int64_t i, Part *p) {
    int64_t tiles = w->g->m / w->t->mr, at, n;
    piece(tiles, w->parts_m, i, &at, &n);
    p->row = at * w->t->mr;
    p->rows = i + 1 == w->parts_m ? w->g->m - p->row : n * w->t->mr;
}

static Part part_of(const Work *w, int64_t i) {
    Part p = {.product = i / (w->parts_m * w->parts_n)};
    rows_of_part(w, i / w->parts_n % w->parts_m, &p);
    piece(w->panels, w->parts_n, i % w->parts_n, &p.panel, &p.panels);
    return p;
}

static int64_t at(const int64_t *offsets, int64_t i) { return offsets ? offsets[i] : 0; }

/* ---- one part ------------------------------------------------------------------------------------------------ */

static void pack_rows(const Work *w, float *dst, int64_t offset, int64_t panel, int64_t k0, int64_t k) {
    const GemmArgs *g = w->g;
    int64_t col = panel * w->t->nr;
    w->t->pack(dst, width_of(w->t, g->n, panel), (const char *)(g->b + offset + k0 * g->b_row + col * g->b_col),
               g->b_row, g->b_col, k, min_i64(g->n - col, w->t->nr));
}

/* Rows k0 to k0 + k - 1 of a panel; *row floats lie between them. Where they were not packed they are now, unless they can be
   read where they lie: whole vectors of them. */
static const float *find_panel(const Work *w, const Part *part, float *room, int64_t panel, int64_t k0, int64_t k,
                               int64_t *row) {
    const GemmArgs *g = w->g;
    int64_t nr = w->t->nr, offset = at(g->b_at, part->product);
    *row = width_of(w->t, g->n, panel);
    if (w->where == GEMM_PACKED) return w->packed + (g->packed ? offset : 0) + panel * g->k * nr + k0 * *row;
    if (w->where == GEMM_DIRECT && (panel + 1 < w->panels || g->n % w->t->vector == 0)) {
        *row = g->b_row;
        return g->b + offset + k0 * g->b_row + panel * nr;
    }
    pack_rows(w, room, offset, panel, k0, k);
    return room;
}

/* A block of rows through a group of panels, one block of k after the other. */
static void run_group(const Work *w, const Part *part, const Slot *slot, int64_t row, int64_t rows, int64_t first,
                      int64_t end) {
    const GemmArgs *g = w->g;
    int64_t nr = w->t->nr, next_row;
    const float *a = g->a + at(g->a_at, part->product) + row * g->a_row;
    float *c = g->c + at(g->c_at, part->product) + row * g->c_row;
    for (int64_t b = 0; b < w->k_blocks; b++) {
        int64_t k0, k;
        piece(g->k, w->k_blocks, b, &k0, &k);
        bool last = b + 1 == w->k_blocks;
        GemmPanel p = {.m = rows, .k = k, .a = a + k0, .a_row = g->a_row, .c_row = g->c_row};
        p.accumulate = g->accumulate || b > 0;
        if (w->packs_a) {
            w->t->pack(slot->a, k, (const char *)(a + k0 * g->a_col), g->a_row, g->a_col, rows, k);
            p.a = slot->a;
            p.a_row = k;
        }
        for (int64_t j = first; j < end; j++) {
            int64_t col = j * nr;
            GemmTail tail = g->tail;
            if (tail.bias) tail.bias += col;
            if (tail.residual) tail.residual += at(g->residual_at, part->product) + row * tail.residual_row + col;
            p.b = find_panel(w, part, slot ? slot->b : NULL, j, k0, k, &p.b_row);
            p.c = c + col;
            p.cols = (int)min_i64(g->n - col, nr);
            p.tail = last ? &tail : NULL;
            bool more = j + 1 < end;
            if (w->where == GEMM_PACKED && (more || !last))
                p.next = find_panel(w, part, NULL, more ? j + 1 : first, more ? k0 : k0 + k, 0, &next_row);
            w->t->panel(&p);
            if (last && g->finish) g->finish(g->arg, part->product, row, col, p.c, g->c_row, rows, p.cols);
        }
    }
}

/* How many panels go through a block of k together: one where all of the rows of A stay in the cache meanwhile, else as many
   as their results do. */
static int64_t group_panels(const Work *w, int64_t rows) {
    const GemmArgs *g = w->g;
    int64_t l2 = cpu_caches()->l2, size = (int64_t)sizeof(float);
    if (w->packs_a) return w->panels;
    if (w->k_blocks == 1 || rows * g->k * size <= l2 / 2) return 1;
    return max_i64(1, l2 / 4 / (rows * w->t->nr * size));
}

/* Of a block: A's rows and a panel of results both stay in the second-level cache. */
static int64_t most_rows(const Work *w) {
    int64_t mr = w->t->mr, k = (w->g->k + w->k_blocks - 1) / w->k_blocks,
            l2 = cpu_caches()->l2 / (int64_t)sizeof(float);
    int64_t rows = min_i64(l2 / 2 / max_i64(k, 1), l2 / 4 / w->t->nr);
    return max_i64(4, rows / mr) * mr;
}

static void run_part(const Work *w, const Part *part, const Slot *slot) {
    int64_t mr = w->t->mr, blocks = (part->rows + most_rows(w) - 1) / most_rows(w);
    int64_t step = ((part->rows + blocks - 1) / blocks + mr - 1) / mr * mr;
    int64_t end_row = part->row + part->rows, end = part->panel + part->panels;
    for (int64_t row = part->row; row < end_row; row += step) {
        int64_t rows = min_i64(step, end_row - row), group = group_panels(w, rows);
        for (int64_t j = part->panel; j < end; j += group)
            run_group(w, part, slot, row, rows, j, min_i64(j + group, end));
    }
}

static Slot *take_slot(const Work *w) {
    for (int i = 0;; i = (i + 1) % w->n_slots)
        if (!atomic_flag_test_and_set_explicit(&w->slots[i].taken, memory_order_acquire)) return &w->slots[i];
}

static void run_parts(void *arg, int64_t begin, int64_t end) {
    const Work *w = arg;
    Slot *slot = w->n_slots ? take_slot(w) : NULL;
    for (int64_t i = begin; i < end; i++) {
        Part part = part_of(w, i);
        run_part(w, &part, slot);
    }
    if (slot) atomic_flag_clear_explicit(&slot->taken, memory_order_release);
}

/* ---- parts --------------------------------------------------------------------------------------------------- */

/* Nanoseconds of the thread that has most to do: what it computes, and what it reads. Threads may come late or be held up, so
   some of a part is time in which the others have nothing left to do. */
static double time_of(const Work *w, int64_t parts_m, int64_t parts_n, int threads) {
    const GemmArgs *g = w->g;
    int64_t tiles = (g->m + w->t->mr - 1) / w->t->mr;
    double rows = (double)((tiles + parts_m - 1) / parts_m * w->t->mr);
    double cols = (double)((w->panels + parts_n - 1) / parts_n * w->t->nr);
    double reads = rows + (w->where == GEMM_EACH ? 3 : 1) * cols;
    double one = (2 * rows * cols * NS_PER_FLOP + 4 * reads * NS_PER_BYTE) * (double)g->k;
    double rounds = (double)((parts_m * parts_n * g->batch + threads - 1) / threads);
    return one * (rounds + 0.3) + NS_PER_PART * rounds;
}

static void cut(Work *w) {
    const GemmArgs *g = w->g;
    int threads = pool_threads(g->pool);
    int64_t tiles = max_i64(g->m / w->t->mr, 1), most = (int64_t)threads * PARTS / g->batch;
    double best = time_of(w, 1, 1, threads);
    w->parts_m = w->parts_n = 1;
    if (threads == 1) return;
    for (int64_t m = 1; m <= min_i64(most, tiles); m++) {
        for (int64_t n = 1; n <= min_i64(most / m, w->panels); n++) {
            double time = time_of(w, m, n, threads);
            if (time >= best) continue;
            best = time;
            w->parts_m = m;
            w->parts_n = n;
        }
    }
}

static double cost_of_part(const Work *w) {
    const GemmArgs *g = w->g;
    double flops = 2 * (double)g->m * (double)g->n * (double)g->k, bytes = 4 * (double)g->n * (double)g->k;
    return (flops * NS_PER_FLOP + bytes * NS_PER_BYTE) / (double)(w->parts_m * w->parts_n);
}

/* ---- scratch ------------------------------------------------------------------------------------------------- */

typedef struct Packing {
    const Work *w;
    float *dst;
} Packing;

static void pack_panels(void *arg, int64_t begin, int64_t end) {
    const Packing *p = arg;
    int64_t k = p->w->g->k;
    for (int64_t j = begin; j < end; j++) pack_rows(p->w, p->dst + j * p->w->t->nr * k, 0, j, 0, k);
}

static tn_status pack_first(Work *w) {
    const GemmArgs *g = w->g;
    Packing p = {w, arena_raw(g->scratch, gemm_packed_size(g->k, g->n), 64)};
    if (!p.dst) return TN_OUT_OF_MEMORY;
    parallel_for(g->pool, w->panels, (double)(g->k * w->t->nr), pack_panels, &p);
    w->packed = p.dst;
    return TN_OK;
}

static tn_status make_slots(Work *w) {
    const GemmArgs *g = w->g;
    int64_t block = g->k / w->k_blocks + 1, a = w->packs_a ? most_rows(w) * block : 0;
    bool packs_b = w->where == GEMM_EACH || (w->where == GEMM_DIRECT && g->n % w->t->vector);
    int64_t b = packs_b ? block * w->t->nr : 0;
    if (a + b == 0) return TN_OK;
    w->n_slots = pool_threads(g->pool);
    w->slots = arena_array(g->scratch, Slot, (size_t)w->n_slots);
    if (!w->slots) return TN_OUT_OF_MEMORY;
    for (int i = 0; i < w->n_slots; i++) {
        Slot *slot = &w->slots[i];
        atomic_flag_clear(&slot->taken);
        slot->a = arena_raw(g->scratch, (size_t)a * sizeof(float), 64);
        slot->b = arena_raw(g->scratch, (size_t)b * sizeof(float), 64);
        if (!slot->a || !slot->b) return TN_OUT_OF_MEMORY;
    }
    return TN_OK;
}

static bool is_askew(const float *p) { return (uintptr_t)p % sizeof *p != 0; }

bool gemm_may_be_direct(const GemmArgs *g) { return g->b_col == 1 && !is_askew(g->b); }

/* One matrix for many blocks of rows is packed once; what is used by one or two is not worth going to memory and back. */
static GemmWhere where_is_b(const Work *w) {
    const GemmArgs *g = w->g;
    if (g->packed || g->k == 0) return GEMM_PACKED;
    if (g->where == GEMM_EACH || (g->where == GEMM_PACKED && !g->b_at)) return g->where;
    if (g->where == GEMM_DIRECT && gemm_may_be_direct(g)) return GEMM_DIRECT;
    bool near = g->b_row >= 0 && g->b_row <= 2 * w->t->nr; /* as good as packed */
    if ((near || g->m <= DIRECT_ROWS) && gemm_may_be_direct(g)) return GEMM_DIRECT;
    return g->b_at || g->m <= most_rows(w) ? GEMM_EACH : GEMM_PACKED;
}

static Work work_of(const GemmArgs *g) {
    Work w = {.g = g, .t = ISA_PICK(gemm_table), .packed = g->packed};
    w.panels = (g->n + w.t->nr - 1) / w.t->nr;
    w.k_blocks = max_i64(1, (g->k + K_BLOCK - 1) / K_BLOCK);
    w.packs_a = g->k > 0 && ((g->a_col != 1 && g->k > 1) || is_askew(g->a));
    w.where = where_is_b(&w);
    return w;
}

GemmWhere gemm_usual(const GemmArgs *g) { return work_of(g).where; }

tn_status gemm_run(const GemmArgs *g) {
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return TN_OK;
    if (gemm_is_vector(g)) return gemm_run_vector(g);
    Work w = work_of(g);
    cut(&w);
    if (g->k == 0) w.packed = g->c; /* which nobody reads */
    else if (w.where == GEMM_PACKED && !g->packed) TRY(pack_first(&w));
    TRY(make_slots(&w));
    parallel_for(g->pool, g->batch * w.parts_m * w.parts_n, cost_of_part(&w), run_parts, &w);
    return TN_OK;
}
