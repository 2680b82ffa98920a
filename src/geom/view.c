/* SPDX-License-Identifier: Apache-2.0 */
/* Readings without moving data: regions as views, and reshapes of strided readings. */
#include "geom/geom_int.h"

static void dense_strides(int rank, const int64_t *dims, int64_t *strides) {
    Region r = region_dense(0, rank, dims);
    memcpy(strides, r.dst_stride, (size_t)rank * sizeof *strides);
}

static bool has_zero(int rank, const int64_t *dims) {
    for (int k = 0; k < rank; k++)
        if (dims[k] == 0) return true;
    return false;
}

/* The old sizes as few runs as their strides allow, from the innermost out: merging first makes the rest a matter of
   dividing each run. */
static int merge_runs(int rank, const int64_t *dims, const int64_t *strides, int64_t *sizes, int64_t *steps) {
    int n = 0;
    for (int k = rank - 1; k >= 0; k--) {
        int64_t next;
        if (dims[k] == 1) continue;
        if (n > 0 && !mul_overflows(steps[n - 1], sizes[n - 1], &next) && next == strides[k] &&
            !mul_overflows(sizes[n - 1], dims[k], &next)) {
            sizes[n - 1] = next;
        } else {
            sizes[n] = dims[k];
            steps[n++] = strides[k];
        }
    }
    return n;
}

bool view_reshape(int rank, const int64_t *dims, const int64_t *strides, int new_rank, const int64_t *new_dims,
                  int64_t *new_strides) {
    int64_t old_count, new_count, sizes[TN_MAX_RANK], steps[TN_MAX_RANK];
    if (has_zero(rank, dims) || has_zero(new_rank, new_dims)) {
        if (!has_zero(rank, dims) || !has_zero(new_rank, new_dims)) return false;
        dense_strides(new_rank, new_dims, new_strides);
        return true;
    }
    old_count = new_count = 1;
    for (int k = 0; k < rank; k++)
        if (dims[k] < 0 || mul_overflows(old_count, dims[k], &old_count)) return false;
    for (int k = 0; k < new_rank; k++)
        if (new_dims[k] < 0 || mul_overflows(new_count, new_dims[k], &new_count)) return false;
    if (old_count != new_count) return false;

    int n = merge_runs(rank, dims, strides, sizes, steps), run = 0;
    int64_t left = n > 0 ? sizes[0] : 1, step = n > 0 ? steps[0] : 1;
    for (int k = new_rank - 1; k >= 0; k--) {
        new_strides[k] = step;
        if (new_dims[k] == 1) continue;
        if (left == 1 && ++run < n) {
            left = sizes[run];
            step = steps[run];
            new_strides[k] = step;
        }
        if (left % new_dims[k] != 0) return false;
        left /= new_dims[k];
        if (mul_overflows(step, new_dims[k], &step)) return false;
    }
    return true;
}

bool region_as_view(const Region *r, int rank, const int64_t *dims, int64_t *strides, int64_t *offset) {
    if (r->source == REGION_FILL) return false;
    Region t = *r;
    int64_t count = 1;
    for (int k = 0; k < rank; k++)
        if (dims[k] <= 0 || mul_overflows(count, dims[k], &count)) return false;
    /* In the order of its writes the box must count through 0 .. count-1. Dimensions are kept apart here as merging
       needs both sides to continue: only the destination matters. */
    if (region_count(&t) != count || !region_normalise(&t) || t.dst_offset != 0) return false;
    int64_t next = 1;
    for (int k = t.rank - 1; k >= 0; k--) {
        if (t.dst_stride[k] != next) return false;
        next *= t.size[k];
    }
    *offset = t.src_offset;
    return view_reshape(t.rank, t.size, t.src_stride, rank, dims, strides);
}

bool regions_as_view(RegionList *list, int rank, const int64_t *dims, int64_t *strides, int64_t *offset,
                     int32_t *source) {
    region_list_merge(list);
    if (list->len != 1 || !region_as_view(&list->data[0], rank, dims, strides, offset)) return false;
    *source = list->data[0].source;
    return true;
}
