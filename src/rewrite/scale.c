/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of the model times factors, as folding a normalisation into them makes them: the product is computed whenever its
   bytes are needed, which is while a kernel packs them. So it never stands beside both the model's and the packed weights.
   Of few weights it is computed at once. */
#include "rewrite/rewrite_int.h"

enum { FEWEST = (1 << 14) + 1 /* elements: what is smaller is read while plans are made */ };

typedef struct Scaled {
    const Allocator *allocator;
    Tensor x, factors;
    int64_t rows, cols;
    int64_t period, inner, step; /* row r goes by factor r / period * step + r % inner */
    int64_t col_step;            /* of the factors */
} Scaled;

typedef struct Making {
    const Scaled *scaled;
    float *y;
} Making;

static void make_rows(void *arg, int64_t begin, int64_t end) {
    const Making *m = arg;
    const Scaled *s = m->scaled;
    const char *x = tensor_bytes(&s->x);
    const double *factors = (const double *)tensor_bytes(&s->factors) + begin / s->period * s->step;
    int64_t phase = begin % s->period, at = begin % s->inner;
    for (int64_t i = begin; i < end; i++) {
        scale_f32(m->y + i * s->cols, x + i * s->cols * (int64_t)sizeof(float), factors + at, s->col_step, s->cols);
        if (++at == s->inner) at = 0;
        if (++phase == s->period) phase = 0, factors += s->step;
    }
}

static void make(void *user, void *data, Pool *pool) {
    const Scaled *s = user;
    Making m = {s, data};
    parallel_for(pool, s->rows, (double)s->cols / 2, make_rows, &m);
    file_forget(tensor_bytes(&s->x), (size_t)(s->rows * s->cols) * sizeof(float));
}

static void drop(void *user) {
    Scaled *s = user;
    tensor_release(&s->x);
    tensor_release(&s->factors);
    mem_free(s->allocator, s, sizeof *s);
}

/* Rows of one element that change their factor are columns, the factors' last axis. */
static void see_columns(Scaled *s) {
    s->cols = s->inner;
    s->rows /= s->inner;
    s->period /= s->inner;
    s->inner = s->col_step = 1;
}

/* One factor, one for each column, or one for each row, also of several axes with one between that all share: the channels of
   each group. */
static bool find_steps(const Tensor *factors, const Tensor *y, Scaled *s) {
    int shift = y->rank - factors->rank, last = -1, n = 0;
    int64_t shared = 1;
    for (int d = 0; d < factors->rank; d++)
        if (factors->dims[d] != 1) last = d + shift, n++;
    if (shift < 0 || y->rank == 0) return false;
    bool columns = n == 1 && last == y->rank - 1 && last > 0;
    if (!columns && last == y->rank - 1 && last > 0) return false;
    s->rows = s->inner = 1;
    for (int d = 0; d <= (columns ? y->rank - 2 : max_i64(last, 0)); d++) {
        bool alike = d < shift || factors->dims[d - shift] == 1;
        s->rows *= y->dims[d];
        if (alike && s->inner > 1 && y->dims[d] > 1) return false;
        if (alike) shared *= y->dims[d];
        else if (shared > 1) s->inner *= y->dims[d];
    }
    s->cols = tensor_count(y) / s->rows;
    s->period = shared * s->inner;
    s->step = s->inner;
    s->col_step = columns;
    if (s->cols == 1 && s->inner > 1) see_columns(s);
    return true;
}

static bool same_sizes(const Tensor *a, const Tensor *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static tn_status scale_now(Context *ctx, const Scaled *s, Tensor *y) {
    Tensor like = *y;
    TRY(tensor_new(ctx, TN_F32, like.rank, like.dims, y));
    make_rows(&(Making){s, y->data}, 0, s->rows);
    return TN_OK;
}

tn_status scaled_constant(Context *ctx, const Tensor *x, const Tensor *factors, Tensor *y, bool *ok) {
    Scaled s = {.allocator = &ctx->allocator, .x = *x, .factors = *factors};
    *ok = x->dtype == TN_F32 && y->dtype == TN_F32 && factors->dtype == TN_F64 && same_sizes(x, y) && x->buffer &&
          !buffer_is_lazy(x->buffer) && tensor_is_dense(x) && tensor_count(x) > 0 && tensor_is_dense(factors) &&
          factors->buffer && find_steps(factors, y, &s);
    if (!*ok) return TN_OK;
    if (tensor_count(x) < FEWEST) return scale_now(ctx, &s, y);
    Scaled *kept = mem_alloc(s.allocator, sizeof *kept, alignof(Scaled));
    if (!kept) return TN_OUT_OF_MEMORY;
    *kept = s;
    Tensor like = *y;
    tn_status status = tensor_new_lazy(ctx, TN_F32, like.rank, like.dims, &(BytesMaker){make, drop, kept}, y);
    if (status != TN_OK) {
        mem_free(s.allocator, kept, sizeof *kept);
        return status;
    }
    buffer_ref(x->buffer);
    buffer_ref(factors->buffer);
    return TN_OK;
}
