/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: coalescing and merging keep the map of reads and writes; views agree with it; bounds are checked. */
#include "geom/geom.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* last: it has a macro `fail` */

static uint64_t seed;
static int64_t pick(int64_t lo, int64_t hi) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

#define SPACE 4096
static int64_t owner[2][SPACE];

/* Source element (and source) that each destination element gets last. */
static void map_list(const Region *data, size_t len, int64_t *to) {
    for (int i = 0; i < SPACE; i++) to[i] = -1;
    for (size_t i = 0; i < len; i++) {
        const Region *r = &data[i];
        for (int64_t flat = 0; flat < region_count(r); flat++) {
            int64_t at = flat, src = r->src_offset, dst = r->dst_offset;
            for (int k = r->rank - 1; k >= 0; k--) {
                src += at % r->size[k] * r->src_stride[k];
                dst += at % r->size[k] * r->dst_stride[k];
                at /= r->size[k];
            }
            assert_in_range(dst, 0, SPACE - 1);
            to[dst] = src * 8 + r->source;
        }
    }
}

static Region random_box(int rank) {
    Region r = {.source = (int32_t)pick(0, 2), .rank = rank, .dst_offset = SPACE / 2};
    r.src_offset = pick(-100, 100);
    for (int k = 0; k < rank; k++) {
        r.size[k] = pick(1, 3);
        r.src_stride[k] = pick(-3, 5);
        r.dst_stride[k] = pick(-20, 20);
    }
    for (int k = rank - 2; k >= 0; k--)
        if (pick(0, 2) == 0) {
            r.src_stride[k] = r.src_stride[k + 1] * r.size[k + 1];
            r.dst_stride[k] = r.dst_stride[k + 1] * r.size[k + 1];
            if (llabs(r.dst_stride[k]) > 100) r.dst_stride[k] = 1;
        }
    return r;
}

static void test_coalesce(void **state) {
    (void)state;
    seed = 1;
    for (int i = 0; i < 3000; i++) {
        Region r = random_box((int)pick(0, 8));
        map_list(&r, 1, owner[0]);
        int rank = r.rank;
        region_coalesce(&r);
        assert_true(r.rank <= rank);
        for (int k = 0; k < r.rank; k++) assert_int_not_equal(r.size[k], 1);
        map_list(&r, 1, owner[1]);
        assert_memory_equal(owner[0], owner[1], sizeof owner[0]);
    }
}

static void test_merge(void **state) {
    (void)state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    seed = 2;
    for (int i = 0; i < 1000; i++) {
        RegionList list = {.arena = &arena};
        Region r = random_box((int)pick(0, 3));
        int64_t n = pick(1, 12);
        for (int64_t k = 0; k < n; k++) {
            assert_int_equal(region_push(&list, &r), TN_OK);
            if (pick(0, 5) == 0) r = random_box((int)pick(0, 3));
            r.src_offset += r.rank && pick(0, 1) ? r.size[0] * r.src_stride[0] : 7;
            r.dst_offset += r.rank && pick(0, 1) ? r.size[0] * r.dst_stride[0] : 5;
        }
        map_list(list.data, list.len, owner[0]);
        region_list_merge(&list);
        map_list(list.data, list.len, owner[1]);
        assert_memory_equal(owner[0], owner[1], sizeof owner[0]);
        arena_reset(&arena);
    }
    /* A gather of rows 4..7 and then 0, 2, 4: two boxes. */
    RegionList list = {.arena = &arena, .covers = true};
    static const int64_t rows[] = {4, 5, 6, 7, 0, 2, 4};
    for (int k = 0; k < 7; k++) {
        Region r = {.rank = 1, .size = {10}, .src_stride = {1}, .dst_stride = {1}};
        r.src_offset = rows[k] * 10;
        r.dst_offset = k * 10;
        assert_int_equal(region_push(&list, &r), TN_OK);
    }
    region_list_merge(&list);
    assert_int_equal(list.len, 2);
    assert_int_equal(list.data[0].rank, 1);
    assert_int_equal(list.data[0].size[0], 40);
    Region empty = {.rank = 2, .size = {3, 0}};
    assert_int_equal(region_push(&list, &empty), TN_OK);
    assert_int_equal(list.len, 2);
    arena_free(&arena);
}

/* Every new index must read what the same flat position of the old reading reads. */
static void check_reshape(int rank, const int64_t *dims, const int64_t *strides, int new_rank, const int64_t *new_dims,
                          const int64_t *new_strides, int64_t count) {
    for (int64_t flat = 0; flat < count; flat++) {
        int64_t a = 0, b = 0, at = flat;
        for (int k = rank - 1; k >= 0; k--) {
            a += at % dims[k] * strides[k];
            at /= dims[k];
        }
        at = flat;
        for (int k = new_rank - 1; k >= 0; k--) {
            b += at % new_dims[k] * new_strides[k];
            at /= new_dims[k];
        }
        assert_int_equal(a, b);
    }
}

static int random_factors(int64_t count, int64_t *dims) {
    int n = 0;
    while (n < TN_MAX_RANK && (count > 1 || pick(0, 2) == 0)) {
        int64_t f = pick(1, 6);
        if (n == TN_MAX_RANK - 1) f = count;
        if (count % f) continue;
        dims[n++] = f;
        count /= f;
    }
    return n;
}

/* Whether any strides at all do: those that follow from single steps along each dimension are the only candidate. */
static bool reshape_exists(int rank, const int64_t *dims, const int64_t *strides, int new_rank, const int64_t *new_dims,
                           int64_t count) {
    int64_t step = 1, found[TN_MAX_RANK];
    for (int k = new_rank - 1; k >= 0; k--) {
        int64_t at = step % count;
        found[k] = 0;
        for (int j = rank - 1; j >= 0; j--) {
            found[k] += at % dims[j] * strides[j];
            at /= dims[j];
        }
        step *= new_dims[k];
    }
    for (int64_t flat = 0; flat < count; flat++) {
        int64_t a = 0, b = 0, at = flat;
        for (int k = rank - 1; k >= 0; k--) {
            a += at % dims[k] * strides[k];
            at /= dims[k];
        }
        at = flat;
        for (int k = new_rank - 1; k >= 0; k--) {
            if (new_dims[k] > 1) b += at % new_dims[k] * found[k];
            at /= new_dims[k];
        }
        if (a != b) return false;
    }
    return true;
}

static void test_view_reshape(void **state) {
    (void)state;
    seed = 3;
    int found = 0;
    for (int i = 0; i < 20000; i++) {
        int64_t dims[8], new_dims[8], strides[8], new_strides[8];
        static const int64_t counts[] = {1, 2, 6, 12, 24, 60, 64};
        int64_t count = counts[pick(0, 6)];
        int rank = random_factors(count, dims), new_rank = random_factors(count, new_dims);
        int64_t step = pick(0, 3) ? 1 : pick(-3, 3);
        for (int k = rank - 1; k >= 0; k--) {
            strides[k] = step;
            step = pick(0, 3) ? step * dims[k] : pick(-5, 20);
        }
        bool ok = view_reshape(rank, dims, strides, new_rank, new_dims, new_strides);
        assert_int_equal(ok, reshape_exists(rank, dims, strides, new_rank, new_dims, count));
        if (ok) check_reshape(rank, dims, strides, new_rank, new_dims, new_strides, count);
        found += ok;
    }
    assert_true(found > 1000);
    int64_t strides[8];
    assert_true(view_reshape(2, (int64_t[]){0, 3}, (int64_t[]){7, 1}, 3, (int64_t[]){5, 0, 2}, strides));
    assert_false(view_reshape(1, (int64_t[]){6}, (int64_t[]){1}, 1, (int64_t[]){5}, strides));
    assert_false(view_reshape(1, (int64_t[]){0}, (int64_t[]){1}, 1, (int64_t[]){1}, strides));
}

static void test_region_as_view(void **state) {
    (void)state;
    seed = 4;
    int found = 0;
    for (int i = 0; i < 5000; i++) {
        int64_t box[8], dims[8], strides[8], offset, count = 24;
        int rank = random_factors(count, box), new_rank = random_factors(count, dims);
        Region r = region_dense(0, rank, box);
        r.src_offset = pick(-9, 9);
        for (int k = 0; k < rank; k++) r.src_stride[k] = pick(0, 1) ? r.dst_stride[k] : pick(-4, 4);
        for (int k = 0; k < rank; k++)
            if (pick(0, 4) == 0) { /* the same box walked backwards */
                r.dst_offset += r.dst_stride[k] * (r.size[k] - 1);
                r.src_offset += r.src_stride[k] * (r.size[k] - 1);
                r.dst_stride[k] = -r.dst_stride[k];
                r.src_stride[k] = -r.src_stride[k];
            }
        if (!region_as_view(&r, new_rank, dims, strides, &offset)) continue;
        found++;
        map_list(&r, 1, owner[0]);
        Region v = region_dense(0, new_rank, dims);
        memcpy(v.src_stride, strides, sizeof strides);
        v.src_offset = offset;
        map_list(&v, 1, owner[1]);
        assert_memory_equal(owner[0], owner[1], sizeof owner[0]);
    }
    assert_true(found > 500);
    int64_t strides[8], offset, dims[] = {4, 6};
    Region part = region_dense(0, 2, (int64_t[]){3, 6}), fill = region_dense(REGION_FILL, 2, dims);
    assert_false(region_as_view(&part, 2, dims, strides, &offset));
    assert_false(region_as_view(&fill, 2, dims, strides, &offset));
    Region turned = {.rank = 2, .size = {4, 6}, .src_stride = {1, 4}, .dst_stride = {6, 1}};
    assert_true(region_as_view(&turned, 2, dims, strides, &offset));
    assert_int_equal(strides[0], 1);
    assert_int_equal(strides[1], 4);
    assert_false(region_as_view(&turned, 1, (int64_t[]){24}, strides, &offset));
}

static void test_check(void **state) {
    (void)state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    int64_t lo[] = {0}, hi[] = {9};
    struct {
        Region r;
        tn_status want;
    } rows[] = {
        {{.rank = 1, .size = {10}, .src_stride = {1}, .dst_stride = {1}}, TN_OK},
        {{.rank = 1, .size = {10}, .src_offset = 9, .src_stride = {-1}, .dst_stride = {1}}, TN_OK},
        {{.rank = 1, .size = {10}, .src_offset = 1, .src_stride = {1}, .dst_stride = {1}}, TN_OUT_OF_RANGE},
        {{.rank = 1, .size = {10}, .src_stride = {-1}, .dst_stride = {1}}, TN_OUT_OF_RANGE},
        {{.rank = 1, .size = {10}, .src_stride = {0}, .dst_stride = {2}}, TN_OUT_OF_RANGE},
        {{.rank = 1, .size = {10}, .src_stride = {0}, .dst_offset = 5, .dst_stride = {-1}}, TN_OUT_OF_RANGE},
        {{.rank = 1, .size = {INT64_MAX}, .src_stride = {INT64_MAX}, .dst_stride = {1}}, TN_OUT_OF_RANGE},
        {{.rank = 1, .size = {3}, .src_stride = {INT64_MIN}, .dst_stride = {INT64_MIN}}, TN_OUT_OF_RANGE},
        {{.source = REGION_FILL, .rank = 1, .size = {11}, .dst_stride = {0}}, TN_OUT_OF_RANGE},
        {{.source = 1, .rank = 0}, TN_OUT_OF_RANGE},
        {{.source = -2, .rank = 0}, TN_OUT_OF_RANGE},
        {{.source = REGION_FILL, .rank = 0, .src_offset = 99}, TN_OK},
        {{.rank = 9}, TN_INVALID_MODEL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RegionList list = {.arena = &arena, .data = &rows[i].r, .len = 1};
        assert_int_equal(regions_check(&list, 1, lo, hi, 10), rows[i].want);
    }
    arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coalesce),       cmocka_unit_test(test_merge), cmocka_unit_test(test_view_reshape),
        cmocka_unit_test(test_region_as_view), cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
