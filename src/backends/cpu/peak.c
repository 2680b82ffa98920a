/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what kernels are held against. All threads work at the same time, each in short turns of which the best counts:
   what else the machine does can only make a turn slower. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/peak_int.h"

#include <math.h>
#include <time.h>

ISA_TABLE(PeakTable, peak_table);

enum { TURNS = 12, ALIGN = 64, BLOCK = 2 * PEAK_BLOCK /* so that halves are whole blocks */ };
static const double TURN_NS = 2e6; /* long beside the time in which a thread wakes */

typedef struct Lane {
    alignas(ALIGN) double best_ns;
    int64_t at;   /* where in its share the next part begins */
    float result; /* so that no work is for nothing */
} Lane;

typedef struct Measure {
    const PeakTable *table;
    void (*part)(struct Measure *m, int64_t lane);
    int64_t n_lanes, repeats;
    Lane *lanes;
    float *data;          /* `share` floats for each lane, one share behind the other */
    int64_t share, slice; /* a part goes over `slice` of them, `repeats` times; the next part over the next slice */
} Measure;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* ---- what a lane does ------------------------------------------------------------------------------------------ */

static void part_multiply(Measure *m, int64_t lane) {
    static const float factors[] = {0.75f, 0.25f};
    m->lanes[lane].result += m->table->multiply(m->repeats, factors);
}

static float *next_slice(Measure *m, int64_t lane) {
    Lane *l = &m->lanes[lane];
    if (l->at + m->slice > m->share) l->at = 0;
    float *slice = m->data + lane * m->share + l->at;
    l->at += m->slice;
    return slice;
}

static void part_read(Measure *m, int64_t lane) {
    const float *slice = next_slice(m, lane);
    for (int64_t i = 0; i < m->repeats; i++) m->lanes[lane].result += m->table->read(slice, m->slice);
}

/* The first half of the slice goes to the second. */
static void part_copy(Measure *m, int64_t lane) {
    float *from = next_slice(m, lane);
    for (int64_t i = 0; i < m->repeats; i++) m->table->copy(from + m->slice / 2, from, m->slice / 2);
}

/* ---- turns ----------------------------------------------------------------------------------------------------- */

static void run_parts(void *arg, int64_t begin, int64_t end) {
    Measure *m = arg;
    for (int64_t i = begin; i < end; i++) {
        double start = now_ns();
        m->part(m, i);
        m->lanes[i].best_ns = fmin(m->lanes[i].best_ns, now_ns() - start);
    }
}

static void run_turns(int turns, Measure *m, Pool *pool, int64_t n_lanes) {
    for (int64_t i = 0; i < n_lanes; i++) m->lanes[i].best_ns = HUGE_VAL;
    for (int i = 0; i < turns; i++) parallel_for(pool, n_lanes, TURN_NS, run_parts, m);
    for (int64_t i = 0; i < n_lanes; i++) m->lanes[i].best_ns = fmax(m->lanes[i].best_ns, 1);
}

/* How much a part does, found with one lane: a turn's worth. Where one repeat is more than that, parts are slices; each finds
   its slice as far away as all the others have left it. */
static void fit_turn(Measure *m) {
    double t;
    m->slice = m->share;
    for (m->repeats = 1; run_turns(3, m, NULL, 1), (t = m->lanes[0].best_ns) < TURN_NS / 2;)
        m->repeats = (int64_t)((double)m->repeats * fmin(TURN_NS / t, 8)) + 1;
    if (m->repeats == 1 && t > TURN_NS)
        m->slice = max_i64((int64_t)((double)m->share * TURN_NS / t) / BLOCK, 1) * BLOCK;
}

/* How often a second the lanes together do what a part does once. */
static double rate(Measure *m, Pool *pool, void (*part)(Measure *, int64_t)) {
    double sum = 0;
    m->part = part;
    fit_turn(m);
    run_turns(TURNS, m, pool, m->n_lanes);
    for (int64_t i = 0; i < m->n_lanes; i++) sum += 1e9 * (double)m->repeats / m->lanes[i].best_ns;
    return sum;
}

/* Bytes of all lanes a second. */
static double byte_rate(Measure *m, Pool *pool, void (*part)(Measure *, int64_t)) {
    double parts = rate(m, pool, part);
    return parts * (double)m->slice * sizeof(float);
}

/* More than the last cache, but no more than is worth the time that it takes. */
static int64_t beyond_caches(void) { return max_i64(64 << 20, min_i64(4 * cpu_caches()->l3, 128 << 20)); }

tn_status cpu_peak(const Allocator *allocator, Pool *pool, size_t bytes, CpuPeak *out) {
    int64_t n = pool_threads(pool);
    if (bytes > INT64_MAX / 2) return fail_memory(bytes);
    int64_t floats = (bytes ? (int64_t)bytes : beyond_caches()) / (int64_t)sizeof(float);
    Measure m = {.table = ISA_PICK(peak_table), .n_lanes = n, .share = max_i64(floats / n / BLOCK, 1) * BLOCK};
    size_t lanes = (size_t)n * sizeof(Lane), data = (size_t)(m.share * n) * sizeof(float);
    m.lanes = mem_alloc(allocator, lanes + data, ALIGN);
    if (!m.lanes) return TN_OUT_OF_MEMORY;
    m.data = (float *)(m.lanes + n);
    for (int64_t i = 0; i < m.share * n; i++)
        m.data[i] = 1; /* what was never written is one page, read again and again */
    out->isa = cpu_level_name(cpu_level());
    out->flops = (double)m.table->flops_per_turn * rate(&m, pool, part_multiply);
    out->read = byte_rate(&m, pool, part_read);
    out->copy = byte_rate(&m, pool, part_copy);
    mem_free(allocator, m.lanes, lanes + data);
    return TN_OK;
}
