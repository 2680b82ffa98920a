/* SPDX-License-Identifier: Apache-2.0 */
/* Pools for one float type. Sums are kept in double: a global mean has many summands. */

typedef struct FN(PoolJob) {
    const Pooling *pool;
    const T *x;
    T *y;
} FN(PoolJob);

/* |v|^p for the sum of LpPool, v for that of AveragePool */
static double FN(term)(const Pooling *pool, T v) {
    if (pool->kind == POOL_AVERAGE) return (double)v;
    if (pool->p == 1) return fabs((double)v);
    return pool->p == 2 ? (double)v * (double)v : pow(fabs((double)v), (double)pool->p);
}

/* One window: its largest element (the first of equals; NaN only where there is nothing else) or its sum. */
static T FN(pool_window)(const Pooling *pool, const Inside *in, const T *x, int64_t *where) {
    const Window *w = &pool->window;
    int last = w->rank - 1;
    int64_t tap[TN_MAX_RANK];
    double sum = 0;
    T best = 0;
    *where = -1;
    if (in->taps == 0) return pool->kind == POOL_MAX ? (T)(sizeof(T) == 8 ? -DBL_MAX : -(double)FLT_MAX) : 0;
    memcpy(tap, in->lo, sizeof tap);
    for (;;) {
        int64_t offset = 0;
        for (int d = 0; d < last; d++) offset = offset * pool->in[d] + in->start[d] + tap[d] * w->dilation[d];
        offset = offset * pool->in[last] + in->start[last];
        for (int64_t t = in->lo[last]; t < in->hi[last]; t++) {
            int64_t place = offset + t * w->dilation[last];
            T v = x[place];
            if (pool->kind != POOL_MAX) {
                sum += FN(term)(pool, v);
            } else if (*where < 0 || v > best || best != best) {
                best = v;
                *where = place;
            }
        }
        int d = last - 1;
        for (; d >= 0 && ++tap[d] == in->hi[d]; d--) tap[d] = in->lo[d];
        if (d < 0) break;
    }
    if (pool->kind == POOL_MAX) return best;
    if (pool->kind == POOL_AVERAGE) return (T)(sum / (double)in->divisor);
    return (T)(pool->p == 1 ? sum : pool->p == 2 ? sqrt(sum) : pow(sum, 1.0 / (double)pool->p));
}

/* One item is one plane. */
static void FN(pool_range)(void *arg, int64_t begin, int64_t end) {
    const FN(PoolJob) *job = arg;
    const Pooling *pool = job->pool;
    for (int64_t plane = begin; plane < end; plane++) {
        const T *x = job->x + plane * pool->in_plane;
        int64_t position[TN_MAX_RANK] = {0}, at = plane * pool->out_plane;
        do {
            Inside in;
            int64_t where;
            find_inside(pool, position, &in);
            job->y[at] = FN(pool_window)(pool, &in, x, &where);
            if (pool->indices) {
                if (pool->column_major) where = column_major_place(pool->window.rank, pool->in, where);
                pool->indices[at] = where < 0 ? -1 : plane * pool->in_plane + where;
            }
            at++;
        } while (next_index(pool->window.rank, pool->out, position));
    }
}

tn_status FN(pool_planes)(KernelCtx *c, const Pooling *pool, const T *x, T *y) {
    FN(PoolJob) job = {.pool = pool, .x = x, .y = y};
    double taps = 5;
    for (int d = 0; d < pool->window.rank; d++) taps *= (double)pool->window.kernel[d];
    if (pool->out_plane == 0) return TN_OK;
    return kernel_parallel(c, pool->planes, (double)pool->out_plane * (taps + 20), FN(pool_range), &job);
}

static tn_status FN(run_pool)(KernelCtx *c, const Pooling *pool) {
    const T *x;
    T *y;
    TRY(FN(dense)(c, 0, &x));
    TRY(FN(result)(c, 0, &y));
    TRY(FN(pool_planes)(c, pool, x, y));
    FN_DONE(c, 0, y);
    return TN_OK;
}

static tn_status FN(max_pool)(KernelCtx *c) {
    Pooling pool;
    TRY(pool_read(c, POOL_MAX, c->in[0], &c->out[0], &pool));
    if (kernel_wants(c, 1)) TRY(result_i64(c, 1, &pool.indices));
    return FN(run_pool)(c, &pool);
}

static tn_status FN(average_pool)(KernelCtx *c) {
    Pooling pool;
    TRY(pool_read(c, POOL_AVERAGE, c->in[0], &c->out[0], &pool));
    return FN(run_pool)(c, &pool);
}

static tn_status FN(lp_pool)(KernelCtx *c) {
    Pooling pool;
    TRY(pool_read(c, POOL_LP, c->in[0], &c->out[0], &pool));
    return FN(run_pool)(c, &pool);
}

static tn_status FN(global_pool)(KernelCtx *c, PoolKind kind, int64_t p) {
    Pooling pool;
    pool_whole(kind, c->in[0], &c->out[0], &pool);
    pool.p = p;
    return FN(run_pool)(c, &pool);
}
static tn_status FN(global_max_pool)(KernelCtx *c) { return FN(global_pool)(c, POOL_MAX, 1); }
static tn_status FN(global_average_pool)(KernelCtx *c) { return FN(global_pool)(c, POOL_AVERAGE, 1); }
static tn_status FN(global_lp_pool)(KernelCtx *c) { return FN(global_pool)(c, POOL_LP, attr_int(c->node, "p")); }
