/* SPDX-License-Identifier: Apache-2.0 */
/* Where scales and zero points stand: one for a tensor, one for each slice of a dimension, or one for each block. */
#include "ops/quant_int.h"

void int_range(tn_dtype dtype, int64_t *low, int64_t *high) {
    int64_t values = (int64_t)1 << dtype_bits(dtype);
    bool is_signed = dtype_is_signed_int(dtype);
    *low = is_signed ? -values / 2 : 0;
    *high = is_signed ? values / 2 - 1 : values - 1;
}

/* Neither is negative; blocks may be as long as they like. */
static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* Cuts x at `axis` into (outer, size of axis, inner). A run has one scale where the inner part is long, else a scale an
   element. */
static void map_axis(QuantMap *map, int64_t count, int64_t size, int64_t inner) {
    map->length = inner > 1 ? inner : size;
    map->by_element = inner == 1;
    map->group = 1;
    map->size = map->length;
    map->runs = map->length ? count / map->length : 0;
    map->axis_size = size;
}

/* Blocks along the innermost dimension: runs are blocks. Else a run is a row of the inner part, with the scales of the
   same row of the block. */
static void map_blocks(QuantMap *map, int64_t count, int64_t size, int64_t inner, int64_t block) {
    map->block = block;
    map->axis_size = size;
    map->inner = inner;
    map->by_element = inner > 1;
    map->length = inner > 1 ? inner : block;
    map->group = inner > 1 ? 1 : ceil_div(size, block);
    map->size = inner > 1 ? inner : size;
    map->runs = map->size ? count / map->size * map->group : 0;
}

static tn_status check_blocks(const Tensor *x, const Tensor *scale, int axis, int64_t block) {
    for (int k = 0; k < x->rank; k++) {
        int64_t want = k == axis ? ceil_div(x->dims[k], block) : x->dims[k];
        if (scale->dims[k] != want)
            return fail(TN_SHAPE, "dimension %d of the scale is %lld where blocks of %lld ask for %lld", k,
                        (long long)scale->dims[k], (long long)block, (long long)want);
    }
    return TN_OK;
}

tn_status quant_map(const Node *node, bool blocked, const Tensor *x, const Tensor *scale, QuantMap *map) {
    int64_t block = blocked ? attr_int(node, "block_size") : 0, count = tensor_count(x), inner = 1;
    int axis;
    *map = (QuantMap){.group = 1};
    if (block < 0) return fail(TN_INVALID_MODEL, "block_size is negative");
    if (block == 0 && scale->rank <= 1 && tensor_count(scale) == 1) {
        *map = (QuantMap){.shared = true, .length = CHUNK, .size = count, .runs = 1};
        map->runs = map->group = (count + CHUNK - 1) / CHUNK;
        return TN_OK;
    }
    TRY(normal_axis(attr_int(node, "axis"), x->rank, "axis", &axis));
    for (int k = axis + 1; k < x->rank; k++) inner *= x->dims[k];
    if (block > 0) {
        if (scale->rank != x->rank) return fail(TN_SHAPE, "scales of blocks must have as many dimensions as the input");
        TRY(check_blocks(x, scale, axis, block));
        map_blocks(map, count, x->dims[axis], inner, block);
        return TN_OK;
    }
    if (scale->rank != 1 || scale->dims[0] != x->dims[axis])
        return fail(TN_SHAPE, "the scale must be one number, or %lld of them for dimension %d",
                    (long long)x->dims[axis], axis);
    map_axis(map, count, x->dims[axis], inner);
    return TN_OK;
}

QuantRun quant_run(const QuantMap *map, int64_t run) {
    QuantRun r = {.scale_step = map->by_element};
    int64_t group = run / map->group, part = run % map->group;
    r.at = group * map->size + part * map->length;
    r.n = min_i64(map->length, map->size - part * map->length);
    if (map->shared) r.scale = 0;
    else if (map->block == 0) r.scale = map->by_element ? 0 : run % map->axis_size;
    else if (!map->by_element) r.scale = run;
    else {
        int64_t blocks = ceil_div(map->axis_size, map->block);
        int64_t outer = run / map->axis_size, at = run % map->axis_size;
        r.scale = (outer * blocks + at / map->block) * map->inner;
    }
    return r;
}

tn_status quant_check(InferCtx *c, bool blocked) {
    const Shape *x = in_shape(c, 0), *scale = in_shape(c, 1);
    if (has_input(c, 2) && rank_known(c, 1) && rank_known(c, 2)) {
        const Shape *zero = in_shape(c, 2);
        Dim size;
        bool both_single = scale->rank + zero->rank <= 1; /* a scalar goes with a list of one */
        if (scale->rank != zero->rank && !both_single)
            return fail(TN_SHAPE, "scale and zero point must have the same shape");
        for (int k = 0; k < scale->rank && k < zero->rank; k++)
            TRY(dims_must_match(scale->dims[k], zero->dims[k], "sizes of scale and zero point", &size));
    }
    bool listed = scale->rank == 1 && dim_is_const(scale->dims[0]) && scale->dims[0] != 1;
    if (x->rank < 0 || !listed || (blocked && attr_int(c->node, "block_size"))) return TN_OK;
    int axis;
    Dim size;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    return dims_must_match(x->dims[axis], scale->dims[0], "sizes of the quantised dimension and of the scale", &size);
}
