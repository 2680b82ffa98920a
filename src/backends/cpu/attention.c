/* SPDX-License-Identifier: Apache-2.0 */
/* Attention cut into units, for threads to take; and what is cached put together with what is new. */
#include "backends/cpu/attention_int.h"

#include <math.h>

typedef struct Run {
    const AttnJob *job;
    const AttnTable *table;
    int64_t group, rows;    /* heads that share keys; queries of all of them */
    int64_t units, vectors; /* of rows */
    bool join_first;        /* each unit joins its head's keys and values itself */
    int64_t scratch_size;
    float *scratch;
    atomic_llong next;
} Run;

/* ---- the cache ------------------------------------------------------------------------------------------------------ */

static bool same_reading(const int64_t a[4], const int64_t b[4]) { return memcmp(a, b, 4 * sizeof *a) == 0; }

static void copy_rows(const float *from, int64_t from_row, int64_t from_col, int64_t rows, int64_t cols, float *to,
                      int64_t to_row, int64_t to_col) {
    bool whole = from_col == 1 && to_col == 1;
    if (whole && from_row == cols && to_row == cols) {
        memcpy(to, from, (size_t)(rows * cols) * sizeof *to);
        return;
    }
    for (int64_t r = 0; r < rows; r++, from += from_row, to += to_row) {
        if (whole) memcpy(to, from, (size_t)cols * sizeof *to);
        for (int64_t k = 0; !whole && k < cols; k++) to[k * to_col] = from[k * from_col];
    }
}

/* One head of what was cached and what is new into the result that keeps both. */
static void join_one(const AttnJob *job, const AttnPresent *p, bool values, int64_t b, int64_t h) {
    int64_t size = values ? job->v_size : job->size, at = 0;
    const int64_t *ps = p->stride;
    for (int i = 0; p->data && i < job->n_parts; at += job->part[i++].steps) {
        const AttnHeads *from = values ? &job->part[i].v : &job->part[i].k;
        if (i == 0 && from->data == p->data && same_reading(from->stride, ps)) continue;
        copy_rows(from->data + b * from->stride[BY_BATCH] + h * from->stride[BY_HEAD], from->stride[BY_STEP],
                  from->stride[BY_ELEMENT], job->part[i].steps, size,
                  p->data + b * ps[BY_BATCH] + h * ps[BY_HEAD] + at * ps[BY_STEP], ps[BY_STEP], ps[BY_ELEMENT]);
    }
}

static void join_head(const AttnJob *job, int64_t index) {
    int64_t b = index / job->kv_heads, h = index % job->kv_heads;
    join_one(job, &job->present_k, false, b, h);
    join_one(job, &job->present_v, true, b, h);
}

static void join_range(void *arg, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) join_head(arg, i);
}

/* ---- units ---------------------------------------------------------------------------------------------------------- */

static void add_part(AttnUnit *u, const AttnHeads *k, const AttnHeads *v, int64_t b, int64_t h, int64_t begin,
                     int64_t end) {
    int p = u->n_parts++;
    u->part[p].k = k->data + b * k->stride[BY_BATCH] + h * k->stride[BY_HEAD];
    u->part[p].v = v->data + b * v->stride[BY_BATCH] + h * v->stride[BY_HEAD];
    u->part[p].k_row = k->stride[BY_STEP], u->part[p].k_col = k->stride[BY_ELEMENT];
    u->part[p].v_row = v->stride[BY_STEP], u->part[p].v_col = v->stride[BY_ELEMENT];
    u->part[p].begin = begin, u->part[p].end = end;
}

static AttnHeads present_heads(const AttnPresent *p) {
    AttnHeads h = {.data = p->data};
    memcpy(h.stride, p->stride, sizeof h.stride);
    return h;
}

/* Where the keys of a head are: together in the results that keep them, where those are made, else part by part. */
static void find_keys(const AttnJob *job, AttnUnit *u, int64_t b, int64_t h) {
    AttnHeads all_k = present_heads(&job->present_k), all_v = present_heads(&job->present_v);
    int64_t at = 0;
    u->n_parts = 0;
    if (all_k.data && all_v.data) {
        add_part(u, &all_k, &all_v, b, h, 0, job->keys);
        return;
    }
    for (int p = 0; p < job->n_parts; at += job->part[p++].steps) {
        if (job->part[p].steps == 0) continue;
        AttnHeads k = job->part[p].k, v = job->part[p].v;
        if (all_k.data) k = all_k, k.data += at * k.stride[BY_STEP];
        if (all_v.data) v = all_v, v.data += at * v.stride[BY_STEP];
        add_part(u, &k, &v, b, h, at, at + job->part[p].steps);
    }
}

/* The keys that query i of batch entry b sees. */
static void find_span(const AttnJob *job, AttnUnit *u, int64_t lane, int64_t b, int64_t i) {
    int64_t at = i + (job->offsets ? job->offsets[b] : job->offset), first = 0;
    int64_t end = min_i64(job->length, job->lengths ? job->lengths[b] : job->keys);
    if (job->left >= 0) first = max_i64(0, at - job->left);
    if (job->right >= 0 && at + job->right < end) end = at + job->right + 1;
    u->first[lane] = (int32_t)min_i64(first, job->keys);
    u->end[lane] = (int32_t)max_i64(end, 0);
}

/* Row r of a head of keys is query r % steps of the r / steps-th head that reads them. */
static void run_one(const Run *run, int64_t index, float *scratch) {
    const AttnJob *job = run->job;
    int64_t head = index / run->units, unit = index % run->units, b = head / job->kv_heads, h = head % job->kv_heads;
    int64_t begin = run->vectors * unit / run->units * run->table->width;
    int64_t end = min_i64(run->rows, run->vectors * (unit + 1) / run->units * run->table->width);
    const int64_t *qs = job->q.stride, *ys = job->y_stride, *ms = job->mask_stride;
    AttnUnit u;
    if (run->join_first) join_head(job, head);
    u.n = end - begin;
    u.key_bias = job->key_bias ? job->key_bias + b * job->keys : NULL;
    for (int64_t r = begin; r < end; r++) {
        int64_t lane = r - begin, i = r % job->steps, q_head = h * run->group + r / job->steps;
        u.q[lane] = job->q.data + b * qs[BY_BATCH] + q_head * qs[BY_HEAD] + i * qs[BY_STEP];
        u.y[lane] = job->y + b * ys[BY_BATCH] + q_head * ys[BY_HEAD] + i * ys[BY_STEP];
        int64_t at = b * ms[BY_BATCH] + q_head * ms[BY_HEAD] + i * ms[BY_STEP];
        u.mask[lane] = job->added ? (const void *)(job->added + at) : job->seen ? (const void *)(job->seen + at) : NULL;
        u.sink[lane] = job->sink ? job->sink[q_head] : 0;
        find_span(job, &u, lane, b, i);
    }
    find_keys(job, &u, b, h);
    run->table->run(job, &u, scratch);
}

typedef struct Worker {
    Run *run;
    int64_t first, count; /* units of this call */
} Worker;

/* One item is one worker, which takes units until none is left. */
static void work(void *arg, int64_t begin, int64_t end) {
    Worker *w = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t index;
        while ((index = atomic_fetch_add_explicit(&w->run->next, 1, memory_order_relaxed)) < w->first + w->count)
            run_one(w->run, index, w->run->scratch + i * w->run->scratch_size);
    }
}

/* Some milliseconds of work at a time, so that a run can be ended. */
static tn_status run_units(KernelCtx *c, Run *run, int64_t units, int64_t workers) {
    const AttnJob *job = run->job;
    double span = job->right == 0 ? 0.6 : 1;
    double cost = 2e-2 * (double)(run->rows / run->units + 1) * (double)(job->keys + 1) *
                      (double)(job->size + job->v_size + 8) * span +
                  200;
    int64_t most = max_i64(workers, (int64_t)(10e6 * (double)workers / cost));
    for (int64_t first = 0; first < units; first += most) {
        Worker w = {run, first, min_i64(most, units - first)};
        atomic_store(&run->next, first);
        TRY(kernel_parallel(c, workers, cost * (double)w.count / (double)workers, work, &w));
    }
    return TN_OK;
}

/* ---- a run ---------------------------------------------------------------------------------------------------------- */

static void zero_results(const AttnJob *job) {
    for (int64_t k = 0; k < job->batch * job->heads * job->steps; k++) {
        int64_t i = k % job->steps, h = k / job->steps % job->heads, b = k / job->steps / job->heads;
        float *y = job->y + b * job->y_stride[BY_BATCH] + h * job->y_stride[BY_HEAD] + i * job->y_stride[BY_STEP];
        for (int64_t e = 0; e < job->v_size; e++) y[e * job->y_stride[BY_ELEMENT]] = 0;
    }
}

tn_status attention_run(KernelCtx *c, AttnJob *job) {
    Run run = {.job = job, .table = ISA_PICK(attention_table)};
    bool joins = (job->present_k.data || job->present_v.data) && job->keys > 0;
    int64_t heads = job->batch * job->kv_heads;
    if (heads == 0) return TN_OK;
    run.group = job->heads / job->kv_heads;
    run.rows = run.group * job->steps;
    run.vectors = (run.rows + run.table->width - 1) / run.table->width;
    run.units = (run.rows + run.table->lanes - 1) / run.table->lanes;
    run.join_first = joins && run.units == 1 && job->v_size > 0;
    if (joins && !run.join_first)
        TRY(kernel_parallel(c, heads, (double)job->keys * (double)(job->size + job->v_size) / 8, join_range, job));
    if (run.rows == 0 || job->keys == 0 || job->v_size == 0) {
        zero_results(job);
        return TN_OK;
    }
    int64_t workers = min_i64(pool_threads(c->pool), heads * run.units);
    run.scratch_size = attention_scratch(job->size, job->v_size);
    run.scratch = arena_raw(c->scratch, (size_t)(workers * run.scratch_size) * sizeof(float), 64);
    if (!run.scratch) return TN_OUT_OF_MEMORY;
    return run_units(c, &run, heads * run.units, workers);
}
