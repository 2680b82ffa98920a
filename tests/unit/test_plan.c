/* SPDX-License-Identifier: Apache-2.0 */
/* The planner on random lifetimes: nothing that lives at the same time overlaps, the result is no larger than the sum of
   all sizes and no smaller than the bound, it is the same each time, and a million items take little more than a
   thousand times what a thousand take. */
#include "test_ir_common.h"

#include <time.h>

#include "plan/plan.h"

typedef struct Problem {
    PlanItem *items;
    int64_t *offsets;
    size_t n;
    int32_t n_steps;
} Problem;

static int32_t below(uint64_t *state, int32_t n) { return (int32_t)(next_random(state) % (uint64_t)n); }

static int64_t random_size(uint64_t *state) {
    switch (below(state, 6)) {
    case 0: return 0;
    case 1: return 1 + below(state, 64);
    case 2: return PLAN_ALIGN * (1 + below(state, 4));
    case 3: return 1 + below(state, 1 << 20);
    default: return 1 + below(state, 4000);
    }
}

static Problem problem_new(size_t n) {
    Problem p = {.n = n};
    p.items = test_calloc(n + 1, sizeof *p.items);
    p.offsets = test_calloc(n + 1, sizeof *p.offsets);
    return p;
}

static void problem_free(Problem *p) {
    test_free(p->items);
    test_free(p->offsets);
}

/* The item whose memory an item lies in. */
static size_t owner(const Problem *p, size_t i) {
    while (p->items[i].alias >= 0) i = (size_t)p->items[i].alias;
    return i;
}

static Problem random_problem(uint64_t *state, bool aliases, bool fixed) {
    Problem p = problem_new((size_t)(1 + below(state, 60)));
    p.n_steps = 1 + below(state, 40);
    int64_t end = 0;
    size_t n_fixed = fixed ? (size_t)below(state, (int32_t)p.n + 1) / 3 : 0;
    for (size_t i = 0; i < p.n; i++) {
        PlanItem *item = &p.items[i];
        *item = (PlanItem){.size = random_size(state), .fixed = -1, .alias = -1};
        item->first = below(state, p.n_steps);
        item->last = item->first + below(state, p.n_steps - item->first);
        if (i < n_fixed) { /* as an earlier plan left them: side by side, with gaps */
            item->first = 0;
            item->last = below(state, p.n_steps);
            item->fixed = end + PLAN_ALIGN * below(state, 3);
            end = (item->fixed + item->size + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
        } else if (aliases && i > 0 && below(state, 4) == 0) {
            /* Of an item with memory of its own, and made once that lives. */
            size_t of = owner(&p, (size_t)below(state, (int32_t)i));
            item->alias = (int32_t)of;
            if (item->size > p.items[of].size) item->size = p.items[of].size;
        }
    }
    return p;
}

/* Lifetimes with those of the aliases in them. */
static void lifetimes(const Problem *p, int32_t *first, int32_t *last) {
    for (size_t i = 0; i < p->n; i++) first[i] = p->items[i].first, last[i] = p->items[i].last;
    for (size_t i = 0; i < p->n; i++) {
        size_t k = owner(p, i);
        if (first[i] < first[k]) first[k] = first[i];
        if (last[i] > last[k]) last[k] = last[i];
    }
}

static int64_t rounded(int64_t size) { return (size + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN; }

static void check_plan(const Problem *p, const PlanResult *result) {
    int32_t *first = test_calloc(p->n, sizeof *first), *last = test_calloc(p->n, sizeof *last);
    lifetimes(p, first, last);
    int64_t sum = 0, bound = 0, fixed_end = 0;
    for (size_t i = 0; i < p->n; i++) {
        const PlanItem *item = &p->items[i];
        assert_true(p->offsets[i] >= 0 && p->offsets[i] % PLAN_ALIGN == 0);
        assert_true(item->size == 0 || p->offsets[i] + item->size <= result->size);
        if (item->alias >= 0) {
            assert_int_equal(p->offsets[i], p->offsets[item->alias]);
            continue;
        }
        if (item->fixed >= 0) {
            assert_int_equal(p->offsets[i], item->fixed);
            fixed_end = max_i64(fixed_end, item->fixed + rounded(item->size));
        }
        sum += rounded(item->size);
        for (size_t k = 0; k < i; k++) {
            const PlanItem *other = &p->items[k];
            if (other->alias >= 0 || item->size == 0 || other->size == 0 || (item->fixed >= 0 && other->fixed >= 0))
                continue;
            bool together = first[i] <= last[k] && first[k] <= last[i];
            bool overlap = p->offsets[i] < p->offsets[k] + other->size && p->offsets[k] < p->offsets[i] + item->size;
            assert_false(together && overlap);
        }
    }
    for (int32_t s = 0; s < p->n_steps; s++) {
        int64_t live = 0;
        for (size_t i = 0; i < p->n; i++)
            if (p->items[i].alias < 0 && first[i] <= s && s <= last[i]) live += rounded(p->items[i].size);
        bound = max_i64(bound, live);
    }
    assert_int_equal(result->bound, bound);
    assert_true(result->size >= bound);
    assert_true(result->size <= fixed_end + sum);
    test_free(first);
    test_free(last);
}

static void run_random(bool aliases, bool fixed, uint64_t seed) {
    TestHeap heap;
    test_heap_init(&heap);
    Arena scratch;
    arena_init(&scratch, &heap.allocator);
    int64_t reached = 0, bound = 0;
    for (int i = 0; i < 1500; i++) {
        PlanResult result, again;
        Problem p = random_problem(&seed, aliases, fixed);
        OK(plan_offsets(&scratch, p.items, p.n, p.offsets, &result));
        check_plan(&p, &result);
        reached += result.size;
        bound += result.bound;
        int64_t *before = test_calloc(p.n, sizeof *before);
        memcpy(before, p.offsets, p.n * sizeof *before);
        OK(plan_offsets(&scratch, p.items, p.n, p.offsets, &again));
        assert_memory_equal(before, p.offsets, p.n * sizeof *before);
        assert_int_equal(result.size, again.size);
        test_free(before);
        problem_free(&p);
    }
    if (!fixed) assert_true((double)reached <= 1.03 * (double)bound);
    assert_int_equal(scratch.used, 0);
    arena_free(&scratch);
    assert_int_equal(heap.living, 0);
}

static void test_lifetimes(void **state) {
    (void)state;
    run_random(false, false, 1);
}

static void test_aliases(void **state) {
    (void)state;
    run_random(true, false, 2);
}

static void test_fixed(void **state) {
    (void)state;
    run_random(false, true, 3);
    run_random(true, true, 4);
}

/* A chain in which each item lives for two steps needs two of them. */
static void test_chain(void **state) {
    (void)state;
    Arena scratch;
    arena_init(&scratch, &allocator_default);
    Problem p = problem_new(1000);
    p.n_steps = 1001;
    for (size_t i = 0; i < p.n; i++)
        p.items[i] = (PlanItem){.size = 640, .fixed = -1, .first = (int32_t)i, .last = (int32_t)i + 1, .alias = -1};
    PlanResult result;
    OK(plan_offsets(&scratch, p.items, p.n, p.offsets, &result));
    check_plan(&p, &result);
    assert_int_equal(result.size, 1280);
    assert_int_equal(result.bound, 1280);
    OK(plan_offsets(&scratch, p.items, 0, p.offsets, &result));
    assert_int_equal(result.size, 0);
    problem_free(&p);
    arena_free(&scratch);
}

static double plan_seconds(size_t n) {
    uint64_t state = 5;
    Arena scratch;
    arena_init(&scratch, &allocator_default);
    Problem p = problem_new(n);
    for (size_t i = 0; i < n; i++) {
        int32_t last = (int32_t)i + (below(&state, 50) ? 1 + below(&state, 8) : below(&state, 2000));
        p.items[i] = (PlanItem){
            .size = 64 * (1 + below(&state, 300)), .fixed = -1, .first = (int32_t)i, .last = last, .alias = -1};
    }
    struct timespec begin, end;
    PlanResult result;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    OK(plan_offsets(&scratch, p.items, n, p.offsets, &result));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    assert_true(result.size >= result.bound && result.size < 2 * result.bound);
    problem_free(&p);
    arena_free(&scratch);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

static void test_a_million(void **state) {
    (void)state;
    double small = plan_seconds(100000), large = plan_seconds(1000000);
    printf("100,000 items: %.3f s, 1,000,000 items: %.3f s\n", small, large);
    assert_true(large < 40 * small + 0.5); /* what is quadratic takes 100 times as long */
    assert_true(large < 60);
}

static void test_no_memory(void **state) {
    (void)state;
    uint64_t seed = 6;
    Problem p = random_problem(&seed, true, true);
    tn_status status = TN_OUT_OF_MEMORY;
    for (int64_t n = 1; status != TN_OK; n++) {
        TestHeap heap;
        Arena scratch;
        PlanResult result;
        test_heap_init(&heap);
        heap.fail_at = n;
        arena_init(&scratch, &heap.allocator);
        status = plan_offsets(&scratch, p.items, p.n, p.offsets, &result);
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        arena_free(&scratch);
        assert_int_equal(heap.living, 0);
    }
    problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lifetimes), cmocka_unit_test(test_aliases),   cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_chain),     cmocka_unit_test(test_a_million), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
