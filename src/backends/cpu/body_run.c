/* SPDX-License-Identifier: Apache-2.0 */
/* Running bodies: a tile is cut into blocks that fit the first-level cache, and each step of the program is done on a whole
   block before the next. What does not vary along rows or along columns is computed once for a block. */
#include "backends/cpu/body_program_int.h"

enum {
    BLOCK = 1024,      /* floats of a buffer */
    AREA = 16 * BLOCK, /* of all buffers; with more of them each is smaller */
    SHORT = 16         /* columns: below, rows are put one behind the other first, to be one long row */
};
enum { ALONG_ROWS = 1, ALONG_COLS = 2, ALONG_BOTH = 3 };

/* ---- mapping ----------------------------------------------------------------------------------------------------- */

const Tensor *body_input_tensor(const BodyInput *in, const Tensor *const *operands, Tensor *own) {
    if (!in->array) return operands[in->operand];
    *own = (Tensor){.kind = TYPE_TENSOR};
    tensor_set_dense(own, TN_F32, 1, &in->n);
    own->data = (void *)in->array;
    return own;
}

/* Strides of an operand over the result's dimensions. */
tn_status body_input_strides(const BodyInput *in, const Tensor *t, int rank, const int64_t *dims, int64_t *strides) {
    bool alone = in->from_end == AXIS_1 && rank < 2; /* one channel */
    if (alone && t->rank == 1 && t->dims[0] == 1) return TN_OK;
    if (in->from_end) {
        int axis = in->from_end == AXIS_1 ? 1 : rank - in->from_end;
        if (t->rank != 1 || axis < 0 || axis >= rank || (t->dims[0] != dims[axis] && t->dims[0] != 1))
            return fail(TN_SHAPE, "a vector does not lie along its axis of the result");
        if (t->dims[0] != 1) strides[axis] = t->strides[0];
        return TN_OK;
    }
    int lead = rank - t->rank;
    if (lead < 0) return fail(TN_SHAPE, "an operand has more dimensions than the result");
    for (int k = lead; k < rank; k++) {
        int64_t size = t->dims[k - lead];
        if (size != dims[k] && size != 1)
            return fail(TN_SHAPE, "size %lld of an operand does not broadcast to size %lld of the result",
                        (long long)size, (long long)dims[k]);
        if (size != 1) strides[k] = t->strides[k - lead];
    }
    return TN_OK;
}

/* Whether `n` dimensions from `first` on are walked with one stride. */
static bool one_stride(const BodyMap *map, const int64_t *strides, int first, int n, int64_t *step) {
    int64_t size = 0;
    *step = 0;
    for (int k = first + n; k-- > first;) {
        if (map->dims[k] == 1) continue;
        if (size == 0) {
            *step = strides[k];
            size = map->dims[k];
        } else {
            if (strides[k] != *step * size) return false;
            size *= map->dims[k];
        }
    }
    return true;
}

void body_map_finish(BodyMap *map) {
    const Body *b = map->body;
    for (int i = 0; i < b->n_values; i++) {
        const BodyValue *v = &b->values[i];
        map->varies[i] = 0;
        if (v->kind == BODY_TILE) map->varies[i] = ALONG_BOTH;
        if (v->kind == BODY_INPUT)
            map->varies[i] = (uint8_t)((map->row[v->index] ? ALONG_ROWS : 0) | (map->col[v->index] ? ALONG_COLS : 0));
    }
    for (int s = 0; s < b->n_steps; s++)
        for (int k = 0; k < b->steps[s].n; k++) map->varies[b->steps[s].dst] |= map->varies[b->steps[s].src[k]];
}

tn_status body_map(const Body *body, const KernelCtx *c, int row_axis, int n_row_axes, int col_axis, BodyMap *map) {
    const Tensor *out = &c->out[0];
    map->body = body;
    map->rank = out->rank;
    memcpy(map->dims, out->dims, sizeof out->dims);
    map->row_axis = row_axis, map->n_row_axes = n_row_axes, map->col_axis = col_axis;
    map->n_in = body->n_inputs;
    map->rows_walk = true;
    map->stream = false;
    memset(map->strides, 0, (size_t)body->n_inputs * sizeof *map->strides);
    for (int i = 0; i < body->n_inputs; i++) {
        const BodyInput *in = &body->inputs[i];
        Tensor own;
        const Tensor *t = body_input_tensor(in, c->in, &own);
        if (!t || t->dtype != in->dtype) return fail(TN_INTERNAL, "an operand is not what its body was made for");
        map->data[i] = (const float *)((const char *)t->data + t->offset * dtype_size(t->dtype));
        TRY(body_input_strides(in, t, map->rank, map->dims, map->strides[i]));
        map->rows_walk &= one_stride(map, map->strides[i], row_axis, n_row_axes, &map->row[i]);
        map->col[i] = col_axis >= 0 && map->dims[col_axis] != 1 ? map->strides[i][col_axis] : 0;
    }
    int last = row_axis + n_row_axes - 1;
    for (int i = 0; i < body->n_inputs && !map->rows_walk; i++)
        map->row[i] = map->dims[last] != 1 ? map->strides[i][last] : 0;
    body_map_finish(map);
    return TN_OK;
}

/* ---- a block ----------------------------------------------------------------------------------------------------- */

/* Where a value is: columns are neighbours, or (spread) there is one number a row. */
typedef struct View {
    const float *p;
    int64_t ld;
    bool spread;
} View;

typedef struct Block {
    const BodyMap *map;
    const BodyTable *table;
    View *views;
    float *area;
    int64_t size; /* of a buffer */
    int64_t rows, cols;
    const char *at[BODY_MOST_INPUTS]; /* each operand's first element */
    View tile;
    char *out[OP_MAX_OUTPUTS];
    int64_t out_ld[OP_MAX_OUTPUTS];
} Block;

static float *buffer_of(const Block *k, int value) {
    return k->area + (size_t)k->map->body->values[value].reg * (size_t)k->size;
}

/* What is in memory as it is in buffers. */
static bool is_raw(tn_dtype dtype) { return dtype == TN_F32 || dtype == TN_I32; }

/* Numbers of another type, `step` elements apart. */
static void read_row(const Block *k, tn_dtype dtype, float *dst, const char *src, int64_t step, int64_t n) {
    if (is_raw(dtype)) k->table->gather(dst, (const float *)src, step, n);
    else if (dtype == TN_BOOL) k->table->from_bytes(dst, (const uint8_t *)src, step, n);
    else if (dtype == TN_F16 && step == 1 && k->table->from_f16) k->table->from_f16(dst, (const uint16_t *)src, n);
    else if (dtype == TN_U8 && step == 1) k->table->from_u8(dst, (const uint8_t *)src, n);
    else if (dtype == TN_I8 && step == 1) k->table->from_i8(dst, (const int8_t *)src, n);
    else load_f32(dst, dtype, src, 0, step, n);
}

/* Copies an operand into its buffer, one row behind the other. */
static void gather_block(const Block *k, int value, const BodyInput *in, int64_t row, int64_t col) {
    float *dst = buffer_of(k, value);
    const char *src = k->at[k->map->body->values[value].index];
    int64_t size = dtype_size(in->dtype), rows = row ? k->rows : 1, cols = col ? k->cols : 1;
    bool down = is_raw(in->dtype) && rows > 1 && cols > 1 && row * row < col * col;
    if (cols == 1) read_row(k, in->dtype, dst, src, row, rows);
    else if (down) /* along what lies closest in memory; mapped constants may lie askew */
        for (int64_t c = 0; c < cols; c++)
            for (int64_t r = 0; r < rows; r++)
                memcpy(dst + r * cols + c, src + (r * row + c * col) * size, sizeof *dst);
    else
        for (int64_t r = 0; r < rows; r++) read_row(k, in->dtype, dst + r * cols, src + r * row * size, col, cols);
    k->views[value] = (View){dst, cols == 1 && !col ? (row != 0) : rows > 1 ? cols : 0, !col};
}

/* A view as rows one behind the other, without gaps and repeated where it does not vary. */
static void pack_block(const Block *k, int value, View from) {
    float *dst = buffer_of(k, value);
    BodyArgs a = {k->rows, k->cols, dst, k->cols, {from.p}, {from.ld}, from.spread, {0}};
    k->table->run[BODY_COPY](&a);
    k->views[value] = (View){dst, k->cols, false};
}

static void load_value(const Block *k, int value) {
    const BodyValue *v = &k->map->body->values[value];
    bool packs = k->cols < SHORT && k->rows > 1;
    if (v->kind == BODY_TILE) {
        if (packs && k->tile.ld != k->cols) pack_block(k, value, k->tile);
        else k->views[value] = k->tile;
        return;
    }
    const BodyInput *in = &k->map->body->inputs[v->index];
    int64_t row = k->map->row[v->index], col = k->map->col[v->index];
    bool plain = is_raw(in->dtype) && (col == 1 || (col == 0 && (row == 0 || row == 1)));
    if (!plain) {
        gather_block(k, value, in, row, col);
        return;
    }
    View view = {(const float *)k->at[v->index], row, col == 0};
    if (packs && col && row != k->cols) pack_block(k, value, view);
    else k->views[value] = view;
}

/* Which result a step makes where it is to go, or -1. */
static int direct_result(const Block *k, int value) {
    const Body *b = k->map->body;
    for (int i = 0; i < b->n_results; i++)
        if (b->results[i] == value && b->types[i] == TN_F32 && !b->read_later[i] && !k->map->stream) return i;
    return -1;
}

/* Sources that are rows behind one another are one long row. */
static void join_rows(BodyArgs *a, int n) {
    bool joined = a->dst_ld == a->cols;
    for (int k = 0; k < n; k++) joined &= a->spread & 1 << k ? a->ld[k] == 0 : a->ld[k] == a->cols;
    if (!joined) return;
    a->cols *= a->rows;
    a->rows = 1;
}

static void run_step(const Block *k, const BodyStep *step) {
    int varies = k->map->varies[step->dst];
    bool along_rows = varies & ALONG_ROWS, along_cols = varies & ALONG_COLS;
    bool whole = (along_rows || k->rows == 1) && (along_cols || k->rows * k->cols == 1);
    int result = whole ? direct_result(k, step->dst) : -1;
    BodyArgs a = {.rows = along_rows ? k->rows : 1, .cols = along_cols ? k->cols : 1, .p = {step->p[0], step->p[1]}};
    a.dst = result >= 0 ? (float *)k->out[result] : buffer_of(k, step->dst);
    a.dst_ld = result >= 0 ? k->out_ld[result] : a.cols;
    for (int i = 0; i < step->n; i++) {
        View v = k->views[step->src[i]];
        a.src[i] = v.p;
        a.ld[i] = v.ld;
        a.spread |= v.spread << i;
    }
    k->views[step->dst] = (View){a.dst, along_rows ? a.dst_ld : 0, !along_cols};
    if (along_rows && !along_cols) { /* one number a row: as one row of them */
        for (int i = 0; i < step->n; i++)
            if (a.ld[i] == 1) a.spread &= ~(1 << i);
        a.cols = a.rows;
        a.rows = 1;
    } else if (a.rows > 1) join_rows(&a, step->n);
    k->table->run[step->code](&a);
}

static void write_row(const Block *k, tn_dtype dtype, char *dst, const float *src, int64_t n) {
    if (dtype == TN_F32) k->table->stream((float *)dst, src, n);
    else if (dtype == TN_BOOL) k->table->to_bytes((uint8_t *)dst, src, n);
    else if (dtype == TN_F16 && k->table->to_f16) k->table->to_f16((uint16_t *)dst, src, n);
    else if (dtype == TN_U8 || dtype == TN_I8) k->table->to_whole((uint8_t *)dst, src, n);
    else store_f32(dtype, dst, 0, 1, src, n);
}

/* A result that lies in a buffer, or is an operand, is copied. */
static void put_result(const Block *k, int i) {
    const Body *b = k->map->body;
    View v = k->views[b->results[i]];
    int64_t ld = k->out_ld[i];
    if (b->types[i] == TN_F32 && v.p == (const float *)k->out[i] && (v.ld == ld || k->rows == 1)) return;
    if (b->types[i] == TN_F32 && !k->map->stream) {
        BodyArgs a = {k->rows, k->cols, (float *)k->out[i], ld, {v.p}, {v.ld}, v.spread, {0}};
        join_rows(&a, 1);
        k->table->run[BODY_COPY](&a);
        return;
    }
    float row[BLOCK];
    for (int64_t r = 0; r < k->rows; r++) {
        const float *from = v.p + r * v.ld;
        if (v.spread) {
            BodyArgs a = {1, k->cols, row, 0, {from}, {0}, 1, {0}};
            k->table->run[BODY_COPY](&a);
            from = row;
        }
        write_row(k, b->types[i], k->out[i] + r * ld * dtype_size(b->types[i]), from, k->cols);
    }
}

static void run_block(const Block *k) {
    const Body *b = k->map->body;
    for (int s = 0; s < b->n_steps; s++) {
        if (b->steps[s].code == BODY_LOAD) load_value(k, b->steps[s].dst);
        else run_step(k, &b->steps[s]);
    }
    for (int i = 0; i < b->n_results; i++) put_result(k, i);
}

/* ---- a tile ------------------------------------------------------------------------------------------------------ */

static int64_t offset_at(const BodyMap *map, int i, const int64_t *at) {
    int64_t offset = 0;
    for (int k = 0; k < map->rank; k++) offset += at[k] * map->strides[i][k];
    return offset;
}

/* One step from memory to memory needs no blocks. */
static bool needs_no_buffer(const BodyMap *map, int64_t rows, int64_t cols) {
    const Body *b = map->body;
    int steps = 0;
    for (int s = 0; s < b->n_steps; s++) steps += b->steps[s].code != BODY_LOAD;
    if (steps != 1 || b->n_results != 1 || b->types[0] != TN_F32 || b->read_later[0] || map->stream || cols < SHORT)
        return false;
    for (int i = 0; i < map->n_in; i++)
        if (!is_raw(b->inputs[i].dtype) || (map->col[i] != 1 && (map->col[i] != 0 || (map->row[i] & ~1)))) return false;
    int varies = map->varies[b->results[0]];
    return varies & ALONG_COLS && (varies & ALONG_ROWS || rows == 1);
}

/* The elements of a block, all in all. */
static int64_t block_size(const BodyMap *map, int64_t rows, int64_t cols) {
    if (needs_no_buffer(map, rows, cols)) return INT64_MAX / 2;
    return min_i64(BLOCK, AREA / max_i64(map->body->n_regs, 1) & ~(int64_t)15);
}

void body_run_tiles(const BodyMap *map, const int64_t *at, const float *tile, int64_t tile_ld, void *const *out,
                    const int64_t *out_ld, int64_t rows, int64_t cols) {
    const Body *b = map->body;
    View views[BODY_MOST_VALUES];
    alignas(64) float area[AREA];
    Block k; /* large, and little of it is used */
    const char *first[BODY_MOST_INPUTS];
    int64_t bytes[BODY_MOST_INPUTS];
    if (rows <= 0 || cols <= 0) return;
    k.map = map, k.table = ISA_PICK(body_table), k.views = views, k.area = area;
    k.size = block_size(map, rows, cols);
    for (int i = 0; i < b->n_values; i++)
        if (b->values[i].kind == BODY_CONST) views[i] = (View){&b->values[i].constant, 0, true};
    for (int i = 0; i < map->n_in; i++) {
        bytes[i] = dtype_size(b->inputs[i].dtype);
        first[i] = (const char *)map->data[i] + offset_at(map, i, at) * bytes[i];
    }
    int64_t parts = (cols + k.size - 1) / k.size,
            most_cols = min_i64(cols, ((cols + parts - 1) / parts + 15) & ~(int64_t)15);
    int64_t most_rows = max_i64(1, k.size / most_cols);
    for (int64_t r = 0; r < rows; r += most_rows)
        for (int64_t c = 0; c < cols; c += most_cols) {
            k.rows = min_i64(most_rows, rows - r);
            k.cols = min_i64(most_cols, cols - c);
            for (int i = 0; i < map->n_in; i++) k.at[i] = first[i] + (r * map->row[i] + c * map->col[i]) * bytes[i];
            if (tile) k.tile = (View){tile + r * tile_ld + c, tile_ld, false};
            for (int i = 0; i < b->n_results; i++) {
                k.out[i] = (char *)out[i] + (r * out_ld[i] + c) * dtype_size(b->types[i]);
                k.out_ld[i] = out_ld[i];
            }
            run_block(&k);
        }
}

void body_run_tile(const BodyMap *map, const int64_t *at, const float *tile, int64_t tile_ld, void *out, int64_t out_ld,
                   int64_t rows, int64_t cols) {
    body_run_tiles(map, at, tile, tile_ld, &out, &out_ld, rows, cols);
}
