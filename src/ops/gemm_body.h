/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products for one type: T of the factors, TC of the result. The columns of b are cut into panels as wide as
   two vectors; a panel is packed in blocks of GEMM_BLOCK rows, and each block is multiplied by all rows of a, four at a
   time. The order in which an element's products are summed depends on k alone. */

typedef T FN(Vec) __attribute__((vector_size(16)));
#define V FN(Vec)
#define LANES ((int)(16 / sizeof(T)))
#define PANEL (2 * LANES)

/* Adds `columns` sums to a row of y, or sets it. */
static void FN(put_row)(const V *sum, TC *y, int64_t col, int columns, bool first) {
    T s[PANEL];
    memcpy(s, sum, sizeof s);
    for (int j = 0; j < columns; j++) y[j * col] = first ? FROM_SUM(s[j]) : y[j * col] + FROM_SUM(s[j]);
}

static void FN(tile4)(int64_t k, const T *a, int64_t a_row, int64_t a_col, const V *panel, V sum[4][2]) {
    V s00 = {0}, s01 = {0}, s10 = {0}, s11 = {0}, s20 = {0}, s21 = {0}, s30 = {0}, s31 = {0};
    for (int64_t p = 0; p < k; p++, a += a_col, panel += 2) {
        V b0 = panel[0], b1 = panel[1];
        s00 += a[0] * b0, s01 += a[0] * b1;
        s10 += a[a_row] * b0, s11 += a[a_row] * b1;
        s20 += a[2 * a_row] * b0, s21 += a[2 * a_row] * b1;
        s30 += a[3 * a_row] * b0, s31 += a[3 * a_row] * b1;
    }
    sum[0][0] = s00, sum[0][1] = s01, sum[1][0] = s10, sum[1][1] = s11;
    sum[2][0] = s20, sum[2][1] = s21, sum[3][0] = s30, sum[3][1] = s31;
}

static void FN(tile1)(int64_t k, const T *a, int64_t a_col, const V *panel, V sum[2]) {
    V s0 = {0}, s1 = {0};
    for (int64_t p = 0; p < k; p++, a += a_col, panel += 2) s0 += *a * panel[0], s1 += *a * panel[1];
    sum[0] = s0, sum[1] = s1;
}

/* y[m, columns] (+)= a[m, k] * panel[k, PANEL] */
static void FN(multiply_panel)(int64_t m, int64_t k, const T *a, int64_t a_row, int64_t a_col, const V *panel, TC *y,
                               int64_t y_row, int64_t y_col, int columns, bool first) {
    V sum[4][2];
    int64_t i = 0;
    for (; i + 4 <= m; i += 4) {
        FN(tile4)(k, a + i * a_row, a_row, a_col, panel, sum);
        for (int r = 0; r < 4; r++) FN(put_row)(sum[r], y + (i + r) * y_row, y_col, columns, first);
    }
    for (; i < m; i++) {
        FN(tile1)(k, a + i * a_row, a_col, panel, sum[0]);
        FN(put_row)(sum[0], y + i * y_row, y_col, columns, first);
    }
}

static void FN(pack_panel)(int64_t k, const T *b, int64_t row, int64_t col, int columns, T *panel) {
    for (int64_t p = 0; p < k; p++, b += row, panel += PANEL) {
        if (columns == PANEL && col == 1) {
            memcpy(panel, b, PANEL * sizeof(T));
            continue;
        }
        for (int j = 0; j < PANEL; j++) panel[j] = j < columns ? b[j * col] : 0;
    }
}

static V FN(vector_at)(const T *p) {
    V v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* sum[j] += a[0] * b[0, j] + ... over k rows of b, in that order */
static void FN(add_rows)(int64_t k, const T *a, int64_t a_col, const T *b, int64_t b_row, int columns, T *sum) {
    for (; k > 0; k -= 4, a += 4 * a_col, b += 4 * b_row) {
        int rows = (int)min_i64(k, 4), j = 0;
        for (; rows == 4 && j + LANES <= columns; j += LANES) {
            V s = FN(vector_at)(sum + j) + a[0] * FN(vector_at)(b + j);
            s += a[a_col] * FN(vector_at)(b + b_row + j);
            s += a[2 * a_col] * FN(vector_at)(b + 2 * b_row + j);
            s += a[3 * a_col] * FN(vector_at)(b + 3 * b_row + j);
            memcpy(sum + j, &s, sizeof s);
        }
        for (; j < columns; j++)
            for (int r = 0; r < rows; r++) sum[j] += a[r * a_col] * b[r * b_row + j];
    }
}

typedef struct FN(ProductJob) {
    MatrixProduct p;
    int64_t y_col, panels, chunks;
    const T *a, *b;
    TC *y;
} FN(ProductJob);

/* One item is a panel of one chunk of rows of one product. */
static void FN(product_range)(void *arg, int64_t begin, int64_t end) {
    const FN(ProductJob) *job = arg;
    const MatrixProduct *p = &job->p;
    V panel[2 * GEMM_BLOCK];
    for (int64_t item = begin; item < end; item++) {
        int64_t j = item % job->panels * PANEL, rest = item / job->panels;
        int64_t i = rest % job->chunks * GEMM_CHUNK, one = rest / job->chunks;
        int columns = (int)min_i64(PANEL, p->n - j);
        const T *a = job->a + (p->a_offset ? p->a_offset[one] : 0) + i * p->a_row;
        const T *b = p->pack ? NULL : job->b + (p->b_offset ? p->b_offset[one] : 0) + j * p->b_col;
        TC *y = job->y + one * p->y_step + i * p->y_row + j * job->y_col;
        for (int64_t q = 0; q < max_i64(p->k, 1); q += GEMM_BLOCK) {
            int64_t k = min_i64(GEMM_BLOCK, p->k - q);
            if (p->pack) p->pack(p->pack_user, one, q, k, j, columns, PANEL, panel);
            else FN(pack_panel)(k, b + q * p->b_row, p->b_row, p->b_col, columns, (T *)panel);
            FN(multiply_panel)
            (min_i64(GEMM_CHUNK, p->m - i), k, a + q * p->a_col, p->a_row, p->a_col, panel, y, p->y_row, job->y_col,
             columns, q == 0);
        }
    }
}

/* The same without packing, which few rows of a do not pay for: one item is ROW_COLUMNS columns of one row. */
static void FN(thin_range)(void *arg, int64_t begin, int64_t end) {
    const FN(ProductJob) *job = arg;
    const MatrixProduct *p = &job->p;
    T sum[ROW_COLUMNS];
    for (int64_t item = begin; item < end; item++) {
        int64_t j = item % job->panels * ROW_COLUMNS, i = item / job->panels % p->m, one = item / job->panels / p->m;
        int columns = (int)min_i64(ROW_COLUMNS, p->n - j);
        const T *a = job->a + (p->a_offset ? p->a_offset[one] : 0) + i * p->a_row;
        const T *b = job->b + (p->b_offset ? p->b_offset[one] : 0) + j;
        TC *y = job->y + one * p->y_step + i * p->y_row + j * job->y_col;
        for (int64_t q = 0; q < max_i64(p->k, 1); q += GEMM_BLOCK) {
            memset(sum, 0, sizeof sum);
            FN(add_rows)
            (min_i64(GEMM_BLOCK, p->k - q), a + q * p->a_col, p->a_col, b + q * p->b_row, p->b_row, columns, sum);
            for (int u = 0; u < columns; u++)
                y[u * job->y_col] = q == 0 ? FROM_SUM(sum[u]) : y[u * job->y_col] + FROM_SUM(sum[u]);
        }
    }
}

static tn_status FN(run_product)(KernelCtx *c, const MatrixProduct *product, const T *a, const T *b, TC *y) {
    FN(ProductJob) job = {.p = *product, .y_col = 1, .a = a, .b = b, .y = y};
    MatrixProduct *p = &job.p;
    if (!p->pack && p->n < LANES && p->m > p->n) { /* tall and thin: the transposed product fills the panels better */
        const MatrixProduct *t = product;
        *p = (MatrixProduct){.m = t->n,
                             .n = t->m,
                             .k = t->k,
                             .a_row = t->b_col,
                             .a_col = t->b_row,
                             .b_row = t->a_col,
                             .b_col = t->a_row,
                             .y_row = 1,
                             .batch = t->batch,
                             .a_offset = t->b_offset,
                             .b_offset = t->a_offset,
                             .y_step = t->y_step};
        job.y_col = t->y_row, job.a = b, job.b = a;
    }
    if (p->m == 0 || p->n == 0 || p->batch == 0) return TN_OK;
    if (p->m < 4 && p->b_col == 1 && !p->pack) {
        job.panels = (p->n + ROW_COLUMNS - 1) / ROW_COLUMNS;
        return kernel_parallel(c, job.panels * p->m * p->batch, (double)p->k * ROW_COLUMNS * 0.25, FN(thin_range),
                               &job);
    }
    job.panels = (p->n + PANEL - 1) / PANEL;
    job.chunks = (p->m + GEMM_CHUNK - 1) / GEMM_CHUNK;
    double cost = (double)(min_i64(p->m, GEMM_CHUNK) + 8) * (double)p->k * PANEL * 0.2;
    return kernel_parallel(c, job.panels * job.chunks * p->batch, cost, FN(product_range), &job);
}

#undef V
#undef LANES
#undef PANEL
