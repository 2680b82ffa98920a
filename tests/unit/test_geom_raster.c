/* SPDX-License-Identifier: Apache-2.0 */
/* raster_run against the index-by-index oracle, and regions_cover against counting. */
#include "geom/geom_int.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* last: it has a macro `fail` */

static uint64_t seed;
static int64_t pick(int64_t lo, int64_t hi) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

#define SOURCES 2
#define SOURCE_COUNT 2000

typedef struct Fixture {
    Pool *pool;
    uint8_t *source[SOURCES];
    RcString *strings[SOURCES][SOURCE_COUNT];
} Fixture;

static int setup(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    seed = 11;
    if (pool_new(&allocator_default, 4, &f->pool)) return 1;
    for (int k = 0; k < SOURCES; k++) {
        f->source[k] = malloc(SOURCE_COUNT * 16);
        for (int i = 0; i < SOURCE_COUNT * 16; i++) f->source[k][i] = (uint8_t)pick(0, 255);
        for (int i = 0; i < SOURCE_COUNT; i++) {
            char text[32];
            int n = snprintf(text, sizeof text, "s%d.%d", k, i);
            if (rc_string_new(&allocator_default, (Str){text, (size_t)n}, &f->strings[k][i])) return 1;
        }
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    Fixture *f = *state;
    for (int k = 0; k < SOURCES; k++) {
        free(f->source[k]);
        for (int i = 0; i < SOURCE_COUNT; i++) rc_string_unref(f->strings[k][i]);
    }
    pool_free(f->pool);
    free(f);
    return 0;
}

/* Moves the offset so that what the strides reach lies in 0 .. count-1; false when it is too far. */
static bool place(int rank, const int64_t *size, const int64_t *stride, int64_t count, int64_t *offset) {
    int64_t lo = 0, hi = 0;
    for (int k = 0; k < rank; k++) {
        int64_t reach = (size[k] - 1) * stride[k];
        if (reach < 0) lo += reach;
        else hi += reach;
    }
    if (hi - lo >= count) return false;
    *offset = pick(-lo, count - 1 - hi);
    return true;
}

static bool random_region(Region *r, int64_t count) {
    *r = (Region){.source = (int32_t)pick(-1, SOURCES - 1), .rank = (int32_t)pick(0, 8)};
    int64_t step = 1;
    for (int k = r->rank - 1; k >= 0; k--) {
        r->size[k] = pick(0, 30) ? pick(1, r->rank > 4 ? 3 : 9) : 0;
        r->src_stride[k] = pick(0, 1) ? step : pick(-9, 9);
        r->dst_stride[k] = pick(0, 3) ? step : pick(-3, 12);
        step *= max_i64(1, r->size[k]);
    }
    for (int k = 1; k < r->rank; k++)
        if (pick(0, 2) == 0) { /* transposes */
            int64_t t = r->dst_stride[k];
            r->dst_stride[k] = r->dst_stride[k - 1];
            r->dst_stride[k - 1] = t;
        }
    for (int k = 0; k < r->rank; k++)
        if (r->size[k] == 0) return true;
    return place(r->rank, r->size, r->src_stride, SOURCE_COUNT - 3, &r->src_offset) &&
           place(r->rank, r->size, r->dst_stride, count, &r->dst_offset);
}

static void free_strings(RcString **s, int64_t n) {
    for (int64_t i = 0; i < n; i++) rc_string_unref(s[i]);
}

static void compare(Fixture *f, const RegionList *list, tn_dtype dtype, int64_t count) {
    size_t bytes = (size_t)(count + 8) * 16;
    uint8_t *a = calloc(1, bytes), *b = calloc(1, bytes), fill[16];
    RasterOperand sources[SOURCES];
    for (int k = 0; k < SOURCES; k++)
        sources[k] = (RasterOperand){dtype == TN_STRING ? (void *)f->strings[k] : f->source[k], k * 3};
    for (int i = 0; i < 16; i++) fill[i] = (uint8_t)pick(0, 255);
    if (dtype == TN_STRING) memcpy(fill, &f->strings[0][1], sizeof(RcString *));
    int64_t offset = pick(0, 5);
    const void *filling = pick(0, 1) ? fill : NULL;
    Pool *pool = pick(0, 1) ? f->pool : NULL;
    assert_int_equal(raster_run(list, dtype, sources, a, offset, count, filling, pool), TN_OK);
    assert_int_equal(raster_oracle(list, dtype, sources, b, offset, count, filling), TN_OK);
    assert_memory_equal(a, b, bytes);
    if (dtype == TN_STRING) {
        free_strings((RcString **)a, count + 8);
        free_strings((RcString **)b, count + 8);
    }
    free(a);
    free(b);
}

static const tn_dtype dtypes[] = {TN_F32, TN_U8, TN_F16, TN_I64, TN_C128, TN_U4, TN_I2, TN_F4E2M1, TN_STRING, TN_BOOL};
#define N_DTYPES (sizeof dtypes / sizeof *dtypes)

static void test_random(void **state) {
    Fixture *f = *state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    seed = 5;
    int done = 0;
    for (int i = 0; i < 6000; i++) {
        RegionList list = {.arena = &arena};
        int64_t count = pick(0, 3) ? pick(1, 60) : pick(500, 3000), n = pick(0, 4);
        for (int64_t k = 0; k < n; k++) {
            Region r;
            if (random_region(&r, count)) assert_int_equal(region_push(&list, &r), TN_OK);
        }
        done += (int)list.len;
        compare(f, &list, dtypes[pick(0, N_DTYPES - 1)], count);
        list.covers = regions_cover(&list, count);
        compare(f, &list, dtypes[pick(0, N_DTYPES - 1)], count);
        if (pick(0, 1)) {
            region_list_merge(&list);
            compare(f, &list, dtypes[pick(0, N_DTYPES - 1)], count);
        }
        arena_reset(&arena);
    }
    assert_true(done > 1500);
    arena_free(&arena);
}

/* Big boxes that take every fast path: one run, rows, transposes with odd edges, broadcasts. */
static void test_fast_paths(void **state) {
    Fixture *f = *state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    int64_t count = 37 * 129 * 10;
    const int64_t limit = count + 100;
    for (int k = 0; k < SOURCES; k++) {
        f->source[k] = realloc(f->source[k], (size_t)limit * 16);
        for (int64_t i = 0; i < limit * 16; i++) f->source[k][i] = (uint8_t)pick(0, 255);
    }
    const Region boxes[] = {
        {.rank = 1, .size = {count}, .src_stride = {1}, .dst_stride = {1}},
        {.rank = 1, .size = {count}, .src_offset = count - 1, .src_stride = {-1}, .dst_stride = {1}},
        {.rank = 1, .size = {count}, .src_stride = {0}, .dst_stride = {1}},
        {.rank = 2, .size = {370, 129}, .src_stride = {1, 370}, .dst_stride = {129, 1}},
        {.rank = 3, .size = {10, 37, 129}, .src_stride = {37 * 129, 1, 37}, .dst_stride = {37 * 129, 129, 1}},
        {.rank = 3, .size = {10, 37, 129}, .src_stride = {1, 10, 370}, .dst_stride = {37 * 129, 129, 1}},
        {.rank = 3, .size = {370, 129, 1}, .src_stride = {1, 370, 1}, .dst_stride = {129, 1, 1}},
        {.rank = 3, .size = {129, 185, 2}, .src_stride = {2, 258, 1}, .dst_stride = {370, 2, 1}},
        {.rank = 2, .size = {370, 129}, .src_stride = {129, 1}, .dst_stride = {1, 370}},
        {.rank = 2, .size = {370, 129}, .src_stride = {0, 1}, .dst_stride = {129, 1}},
        {.rank = 2, .size = {370, 129}, .src_stride = {1, 0}, .dst_stride = {129, 1}},
        {.source = REGION_FILL, .rank = 2, .size = {370, 129}, .dst_stride = {129, 1}},
    };
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
        for (size_t d = 0; d < N_DTYPES; d++) {
            if (dtypes[d] == TN_STRING) continue;
            RegionList list = {.arena = &arena, .data = (Region *)&boxes[i], .len = 1};
            list.covers = regions_cover(&list, count);
            assert_true(list.covers);
            compare(f, &list, dtypes[d], count);
        }
    /* Many small boxes, shared out among threads. */
    RegionList list = {.arena = &arena};
    for (int64_t i = 0; i < 370; i++) {
        Region r = {.rank = 1, .size = {129}, .src_stride = {1}, .dst_stride = {1}};
        r.src_offset = (369 - i) * 129;
        r.dst_offset = i * 129;
        assert_int_equal(region_push(&list, &r), TN_OK);
    }
    list.covers = regions_cover(&list, count);
    assert_true(list.covers);
    for (size_t d = 0; d < N_DTYPES; d++)
        if (dtypes[d] != TN_STRING) compare(f, &list, dtypes[d], count);
    arena_free(&arena);
}

/* Dimensions around what vectors and blocks take, in any order on both sides, sometimes with gaps or backwards. */
static void test_permuted(void **state) {
    Fixture *f = *state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 70, 130, 257};
    const int64_t most = 47000;
    seed = 6;
    for (int i = 0; i < 1500;) {
        Region r = {.rank = (int32_t)pick(1, 5)};
        int64_t count = 1, src[5], step = pick(0, 4) ? 1 : 2;
        for (int k = 0; k < r.rank; k++) count *= r.size[k] = sizes[pick(0, r.rank > 3 ? 8 : 18)];
        if (count * step > most) continue;
        for (int k = 0; k < r.rank; k++) src[k] = k;
        for (int k = r.rank - 1; k > 0; k--) {
            int64_t j = pick(0, k), t = src[k];
            src[k] = src[j];
            src[j] = t;
        }
        Region dense = region_dense(0, r.rank, r.size);
        memcpy(r.dst_stride, dense.dst_stride, sizeof r.dst_stride);
        for (int k = 0; k < r.rank; k++) {
            int64_t d = src[k];
            r.src_stride[d] = step;
            if (pick(0, 7) == 0) { /* backwards */
                r.src_stride[d] = -step;
                r.src_offset += (r.size[d] - 1) * step;
            }
            step *= r.size[d];
        }
        RegionList list = {.arena = &arena, .data = &r, .len = 1, .covers = true};
        compare(f, &list, dtypes[i % (int)(N_DTYPES - 1) == 8 ? 9 : i % (int)(N_DTYPES - 1)], count);
        i++;
    }
    arena_free(&arena);
}

/* Results that go past the caches: rows of whole lines and others, behind one another and with gaps, few streams, runs. */
static void test_large(void **state) {
    Fixture *f = *state;
    static const struct {
        tn_dtype dtype;
        Region box;
        int64_t count;
    } rows[] = {
        {TN_F32, {.rank = 2, .size = {1024, 1616}, .src_stride = {1, 1024}, .dst_stride = {1616, 1}}, 1024 * 1616},
        {TN_F32, {.rank = 2, .size = {1999, 801}, .src_stride = {1, 1999}, .dst_stride = {801, 1}}, 1999 * 801},
        {TN_F32, {.rank = 2, .size = {33, 48001}, .src_stride = {1, 33}, .dst_stride = {48001, 1}}, 33 * 48001},
        {TN_F32, {.rank = 2, .size = {1024, 1567}, .src_stride = {1, 1024}, .dst_stride = {1600, 1}}, 1024 * 1600},
        {TN_F32,
         {.rank = 3, .size = {4, 768, 517}, .src_stride = {397056, 1, 768}, .dst_stride = {397056, 517, 1}},
         1588224},
        {TN_F32, {.rank = 2, .size = {524304, 3}, .src_stride = {1, 524304}, .dst_stride = {3, 1}}, 1572912},
        {TN_F32, {.rank = 2, .size = {3, 524304}, .src_stride = {1, 3}, .dst_stride = {524304, 1}}, 1572912},
        {TN_F32, {.rank = 2, .size = {5, 320003}, .src_stride = {1, 5}, .dst_stride = {320003, 1}}, 1600015},
        {TN_U8, {.rank = 2, .size = {2100003, 3}, .src_stride = {1, 2100003}, .dst_stride = {3, 1}}, 6300009},
        {TN_U8, {.rank = 2, .size = {2501, 2600}, .src_stride = {1, 2501}, .dst_stride = {2600, 1}}, 2501 * 2600},
        {TN_F16, {.rank = 2, .size = {1600, 2016}, .src_stride = {1, 1600}, .dst_stride = {2016, 1}}, 1600 * 2016},
        {TN_F16, {.rank = 2, .size = {1601, 2017}, .src_stride = {1, 1601}, .dst_stride = {2017, 1}}, 1601 * 2017},
        {TN_I64, {.rank = 2, .size = {901, 1001}, .src_stride = {1, 901}, .dst_stride = {1003, 1}}, 901 * 1003},
        {TN_C128, {.rank = 2, .size = {131, 3207}, .src_stride = {1, 131}, .dst_stride = {3209, 1}}, 131 * 3209},
        {TN_I64, {.rank = 2, .size = {901, 1000}, .src_stride = {1, 901}, .dst_stride = {1000, 1}}, 901 * 1000},
        {TN_C128, {.rank = 2, .size = {801, 500}, .src_stride = {1, 801}, .dst_stride = {500, 1}}, 801 * 500},
        {TN_F32,
         {.rank = 3, .size = {12, 2050, 65}, .src_stride = {65, 780, 1}, .dst_stride = {133250, 65, 1}},
         1599000},
        {TN_F32,
         {.rank = 3, .size = {64, 5, 5000}, .src_stride = {5000, 320000, 1}, .dst_stride = {25000, 5000, 1}},
         1600000},
    };
    seed = 9;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t bytes = (size_t)rows[i].count * (size_t)dtype_size(rows[i].dtype), beside = 64;
        uint8_t *source = malloc(bytes), *got = calloc(1, bytes + 2 * beside), *want = calloc(1, bytes + 2 * beside);
        uint8_t *at = got + (64 - (uintptr_t)got % 64);
        RasterOperand operand = {source, 0};
        for (size_t k = 0; k < bytes; k++) source[k] = (uint8_t)pick(0, 255);
        for (int shifted = 0; shifted < 2; shifted++) {
            RegionList list = {.data = (Region *)&rows[i].box, .len = 1, .covers = false};
            assert_int_equal(raster_run(&list, rows[i].dtype, &operand, at, shifted, rows[i].count, NULL, f->pool),
                             TN_OK);
            assert_int_equal(raster_oracle(&list, rows[i].dtype, &operand, want, shifted, rows[i].count, NULL), TN_OK);
            assert_memory_equal(at, want, bytes + (size_t)(shifted * dtype_size(rows[i].dtype)));
        }
        free(source);
        free(got);
        free(want);
    }
}

/* Each set of inner loops, whatever this processor takes, at any alignment. */
static void test_transposes(void **state) {
    Fixture *f = *state;
    const RasterMoves *sets[] = {raster_moves(), &raster_moves_any};
    seed = 7;
    for (int i = 0; i < 3000; i++) {
        int log = i % 5;
        int64_t size = 1 << log, an = pick(1, pick(0, 1) ? 9 : 70), bn = pick(1, pick(0, 1) ? 9 : 70);
        int64_t sa = (bn + pick(0, 3)) * size, db = pick(0, 1) ? an * size : (an + 63) / 64 * 64 * size;
        int64_t bytes = db * bn + 64;
        char *want = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64), *got = calloc(1, (size_t)bytes + 64);
        char *to = got + (64 - (uintptr_t)got % 64) + (pick(0, 1) ? 0 : 1);
        memset(want, 0, (size_t)bytes);
        const char *from = (char *)f->source[0] + pick(0, 3);
        for (int64_t a = 0; a < an; a++)
            for (int64_t b = 0; b < bn; b++) memcpy(want + b * db + a * size, from + a * sa + b * size, (size_t)size);
        sets[i / 5 % 2]->transpose[log](to, db, from, sa, an, bn, (RasterStore)pick(STORE_NEAR, STORE_PAST));
        assert_memory_equal(to, want, (size_t)(db * bn));
        free(want);
        free(got);
    }
}

/* Rows past the caches, at any alignment, and nothing beside them. */
static void test_streamed_rows(void **state) {
    Fixture *f = *state;
    const RasterMoves *sets[] = {raster_moves(), &raster_moves_any};
    seed = 8;
    for (int i = 0; i < 1000; i++) {
        int64_t rows = pick(1, 5), bytes = pick(0, 400), dst = bytes + pick(0, 70), src = bytes + pick(0, 9);
        uint8_t got[4096] = {0}, want[4096] = {0};
        int64_t at = pick(0, 130);
        for (int64_t r = 0; r < rows; r++) memcpy(want + at + r * dst, f->source[0] + r * src, (size_t)bytes);
        sets[i % 2]->stream_rows((char *)got + at, dst, (const char *)f->source[0], src, rows, bytes);
        sets[i % 2]->fence();
        assert_memory_equal(got, want, sizeof want);
    }
}

static bool cover_by_counting(const RegionList *list, int64_t count) {
    int *hits = calloc((size_t)count + 1, sizeof *hits);
    bool ok = true;
    for (size_t i = 0; i < list->len; i++) {
        const Region *r = &list->data[i];
        for (int64_t flat = 0; flat < region_count(r); flat++) {
            int64_t at = flat, dst = r->dst_offset;
            for (int k = r->rank - 1; k >= 0; k--) {
                dst += at % r->size[k] * r->dst_stride[k];
                at /= r->size[k];
            }
            if (dst < 0 || dst >= count) ok = false;
            else hits[dst]++;
        }
    }
    for (int64_t i = 0; i < count; i++) ok = ok && hits[i] == 1;
    free(hits);
    return ok;
}

/* Cuts a box in two at random, again and again: the parts cover. Then perhaps one part is moved. */
static void test_cover(void **state) {
    (void)state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    seed = 6;
    int covering = 0;
    for (int i = 0; i < 6000; i++) {
        RegionList list = {.arena = &arena};
        int rank = (int)pick(0, 5);
        int64_t dims[8], count = 1;
        for (int k = 0; k < rank; k++) count *= dims[k] = pick(1, 5);
        Region whole = region_dense(0, rank, dims);
        if (rank && pick(0, 3) == 0) { /* interleave: one dimension is cut by parity */
            int k = (int)pick(0, rank - 1);
            if (dims[k] % 2 == 0) {
                Region odd = whole;
                whole.size[k] = odd.size[k] = dims[k] / 2;
                whole.dst_stride[k] = odd.dst_stride[k] *= 2;
                odd.dst_offset += whole.dst_stride[k] / 2;
                assert_int_equal(region_push(&list, &odd), TN_OK);
            }
        }
        assert_int_equal(region_push(&list, &whole), TN_OK);
        for (int64_t cuts = pick(0, 6); cuts > 0 && rank > 0; cuts--) {
            Region *r = &list.data[pick(0, (int64_t)list.len - 1)];
            int k = (int)pick(0, rank - 1);
            if (r->size[k] < 2) continue;
            Region b = *r;
            int64_t at = pick(1, r->size[k] - 1);
            r->size[k] = at;
            b.size[k] -= at;
            b.dst_offset += at * b.dst_stride[k];
            if (pick(0, 3) == 0) {
                b.dst_offset += (b.size[k] - 1) * b.dst_stride[k];
                b.dst_stride[k] = -b.dst_stride[k];
            }
            assert_int_equal(region_push(&list, &b), TN_OK);
        }
        for (size_t k = 0; k < list.len; k++)
            if (pick(0, 2) == 0) region_coalesce(&list.data[k]);
        if (pick(0, 2) == 0) list.data[pick(0, (int64_t)list.len - 1)].dst_offset += pick(-1, 1);
        if (pick(0, 9) == 0 && list.data[0].rank) list.data[0].dst_stride[0] = pick(-6, 6);
        bool want = cover_by_counting(&list, count);
        assert_int_equal(regions_cover(&list, count), want);
        covering += want;
        arena_reset(&arena);
    }
    assert_true(covering > 1000);
    RegionList none = {.arena = &arena};
    assert_true(regions_cover(&none, 0));
    assert_false(regions_cover(&none, 1));
    arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_fast_paths), cmocka_unit_test(test_permuted),
        cmocka_unit_test(test_large),  cmocka_unit_test(test_transposes), cmocka_unit_test(test_streamed_rows),
        cmocka_unit_test(test_cover),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
