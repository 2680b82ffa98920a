/* SPDX-License-Identifier: Apache-2.0 */
/* Random lists of regions, composed, resolved and proved, against doing the same index by index. The long test
   includes this file with more rounds. */
#include "geom/geom.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* last: it has a macro `fail` */

#include "geom_random.h"

#define SPACE 400
#define VIRTUAL 2

#ifndef ROUNDS
#define ROUNDS 20000
#endif

/* A random composition: two virtual values over real sources 0 .. 2, of which 2 is their fill value for one of them. */
typedef struct Trial {
    RegionList made[VIRTUAL], reader, result;
    int64_t count[VIRTUAL], out_count;
    ComposeSource sources[VIRTUAL + 1];
} Trial;

static const int32_t same[] = {0, 1, 2};

static bool random_trial(Trial *t, Arena *arena) {
    for (int v = 0; v < VIRTUAL; v++) {
        t->count[v] = pick(1, SPACE);
        t->made[v] = (RegionList){.arena = arena};
        for (int64_t n = pick(0, 3); n > 0; n--)
            if (!random_region(&t->made[v], (int32_t)pick(-1, 1), SPACE, t->count[v])) return false;
        t->sources[v] = (ComposeSource){&t->made[v], t->count[v], same, pick(0, 1) ? 2 : REGION_FILL};
    }
    t->sources[VIRTUAL] = (ComposeSource){.map = same + 1};
    t->out_count = pick(1, SPACE);
    t->reader = (RegionList){.arena = arena};
    for (int64_t n = pick(1, 3); n > 0; n--) {
        int32_t source = (int32_t)pick(-1, VIRTUAL);
        int64_t space = source >= 0 && source < VIRTUAL ? t->count[source] : SPACE;
        if (!random_region(&t->reader, source, space, t->out_count)) return false;
    }
    t->result = (RegionList){.arena = arena};
    return true;
}

/* What each element is: 1000 * source + element, or -1 for the reader's fill. */
static void expect(const Trial *t, int64_t *to) {
    static int64_t inner[VIRTUAL + 1][SPACE];
    const int64_t *from[VIRTUAL + 1];
    for (int v = 0; v < VIRTUAL; v++) {
        map_list(&t->made[v], t->count[v], t->sources[v].fill == REGION_FILL ? -1 : 2000, NULL, inner[v]);
        from[v] = inner[v];
    }
    for (int i = 0; i < SPACE; i++) inner[VIRTUAL][i] = 1000 + i;
    from[VIRTUAL] = inner[VIRTUAL];
    map_list(&t->reader, t->out_count, -1, from, to);
}

static void test_compose(void **state) {
    (void)state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    seed = 21;
    int64_t declined_count = 0, tried = 0, regions = 0, pieces = 0;
    static int64_t want[SPACE], got[SPACE];
    for (int64_t i = 0; i < ROUNDS;) {
        Trial t;
        bool declined;
        arena_reset(&arena);
        if (!random_trial(&t, &arena)) continue;
        i++;
        tried++;
        assert_int_equal(regions_compose(&t.reader, t.sources, VIRTUAL + 1, 1000, &t.result, &declined), TN_OK);
        declined_count += declined;
        if (declined) continue;
        expect(&t, want);
        map_list(&t.result, t.out_count, -1, NULL, got);
        assert_memory_equal(want, got, (size_t)t.out_count * sizeof *got);
        regions += (int64_t)t.reader.len;
        pieces += (int64_t)t.result.len;
    }
    print_message("%lld compositions: %lld regions became %lld, %lld declined\n", (long long)tried, (long long)regions,
                  (long long)pieces, (long long)declined_count);
    assert_true(declined_count * 1000 < tried);
    arena_free(&arena);
}

/* Resolving gives each element once; proofs of cover and disjointness never say too much. */
static void test_resolve(void **state) {
    (void)state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    seed = 22;
    int64_t covering = 0, disjoint = 0, truly_disjoint = 0;
    static int64_t want[SPACE], got[SPACE], times[SPACE];
    for (int64_t i = 0; i < ROUNDS; i++) {
        RegionList list = {.arena = &arena}, out = {.arena = &arena};
        int64_t count = pick(1, SPACE), n = pick(0, 3), total = 0, most = 0, least = INT64_MAX;
        bool declined;
        while (n > 0) n -= random_region(&list, (int32_t)pick(-1, 1), SPACE, count);
        map_list(&list, count, -1, NULL, want);
        count_writes(&list, count, times);
        for (int64_t k = 0; k < count; k++) {
            most = max_i64(most, times[k]);
            least = min_i64(least, times[k]);
            total += times[k];
        }
        bool proved = regions_disjoint(&list);
        if (proved) assert_true(most <= 1);
        disjoint += proved;
        truly_disjoint += most <= 1;
        assert_int_equal(regions_cover(&list, count), most == 1 && least == 1);
        covering += most == 1 && least == 1;
        assert_int_equal(regions_resolve(&list, count, 1000, &out, &declined), TN_OK);
        assert_false(declined);
        map_list(&out, count, -1, NULL, got);
        assert_memory_equal(want, got, (size_t)count * sizeof *got);
        count_writes(&out, count, times);
        for (int64_t k = 0; k < count; k++) assert_int_equal(times[k], 1);
        assert_true(out.covers);
        assert_true(regions_cover(&out, count));
        arena_reset(&arena);
    }
    print_message("%lld of %lld disjoint lists proved, %lld cover\n", (long long)disjoint, (long long)truly_disjoint,
                  (long long)covering);
    assert_true(disjoint * 100 >= truly_disjoint * 99);
    arena_free(&arena);
}

/* Numbers that do not fit, sizes that are hostile: declined, never wrong, never slow. */
static void test_hostile(void **state) {
    (void)state;
    Arena arena;
    arena_init(&arena, &allocator_default);
    static const int64_t odd[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1, -1, 0, 1, 2, 1 << 20, INT64_C(1) << 40};
    seed = 23;
    int64_t declined_count = 0;
    for (int i = 0; i < 20000; i++) {
        RegionList lists[2] = {{.arena = &arena}, {.arena = &arena}}, out = {.arena = &arena};
        for (int64_t n = 2 * pick(1, 3); n > 0; n--) {
            Region r = {.source = 0, .rank = (int32_t)pick(0, 4)};
            for (int k = 0; k < r.rank; k++) {
                r.size[k] = pick(0, 1) ? odd[pick(1, 8)] : pick(1, 5);
                r.src_stride[k] = odd[pick(0, 8)];
                r.dst_stride[k] = odd[pick(0, 8)];
            }
            r.src_offset = odd[pick(0, 8)];
            r.dst_offset = odd[pick(4, 8)];
            assert_int_equal(region_push(&lists[n & 1], &r), TN_OK);
        }
        bool declined;
        ComposeSource source = {&lists[0], odd[pick(4, 8)], same, REGION_FILL};
        assert_int_equal(regions_compose(&lists[1], &source, 1, 100, &out, &declined), TN_OK);
        declined_count += declined;
        assert_true(out.len <= 100);
        (void)regions_disjoint(&lists[0]);
        (void)regions_moved(&lists[0], true);
        arena_reset(&arena);
    }
    assert_true(declined_count > 0);
    arena_free(&arena);
}

/* Thousands of regions on both sides: concatenated, and split elsewhere. */
static void test_many(void **state) {
    (void)state;
    enum { PARTS = 3000, ROWS = 4 };
    Arena arena;
    arena_init(&arena, &allocator_default);
    static int32_t map[PARTS];
    RegionList joined = {.arena = &arena, .covers = true}, reader = joined, out = {.arena = &arena};
    const int64_t width = PARTS * 6;
    for (int64_t k = 0; k < PARTS; k++) {
        Region r = {.source = (int32_t)k, .rank = 2, .size = {ROWS, 6}, .src_stride = {6, 1}, .dst_stride = {width, 1}};
        r.dst_offset = k * 6;
        assert_int_equal(region_push(&joined, &r), TN_OK);
        map[k] = (int32_t)k;
        r.source = 0;
        r.src_offset = (k * 6 + 3) % (width - 6);
        memcpy(r.src_stride, r.dst_stride, sizeof r.src_stride);
        assert_int_equal(region_push(&reader, &r), TN_OK);
    }
    assert_true(regions_cover(&joined, width * ROWS));
    assert_true(regions_disjoint(&joined));
    bool declined;
    ComposeSource source = {&joined, width * ROWS, map, COMPOSE_NO_FILL};
    Region whole = {.rank = 2, .size = {width, ROWS}, .src_stride = {1, width}, .dst_stride = {ROWS, 1}};
    RegionList turned = {.arena = &arena, .data = &whole, .len = 1, .covers = true};
    assert_int_equal(regions_compose(&turned, &source, 1, PARTS, &out, &declined), TN_OK);
    assert_false(declined);
    assert_int_equal(out.len, PARTS);
    assert_true(regions_cover(&out, width * ROWS));
    out = (RegionList){.arena = &arena};
    assert_int_equal(regions_compose(&reader, &source, 1, 2 * PARTS, &out, &declined), TN_OK);
    assert_true(declined || out.len == 2 * PARTS);
    arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compose),
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
