/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays, maps, text, strings. */
#include <stdint.h>
#include <stdio.h>

#include "test_base_alloc.h"

static tn_status fill_vec(const Allocator *a, int n, int64_t *sum) {
    VEC(int) v = {0};
    tn_status status = TN_OK;
    for (int i = 0; i < n && status == TN_OK; i++) status = vec_push(a, &v, i);
    *sum = 0;
    for (size_t i = 0; i < v.len; i++) *sum += v.data[i];
    vec_free(a, &v);
    assert_null(v.data);
    return status;
}

typedef struct Pair {
    int64_t a, b;
} Pair;

static void test_vec(void **state) {
    (void)state;
    TestHeap heap;
    int64_t sum;
    test_heap_init(&heap);
    assert_int_equal(fill_vec(&heap.allocator, 10000, &sum), TN_OK);
    assert_int_equal(sum, 10000 * 9999 / 2);
    assert_int_equal(heap.living, 0);
    VEC(Pair) pairs = {0};
    assert_int_equal(vec_reserve(&heap.allocator, &pairs, SIZE_MAX / 2), TN_OUT_OF_MEMORY);
    assert_int_equal(vec_push(&heap.allocator, &pairs, (Pair){1, 2}), TN_OK);
    assert_int_equal(pairs.data[0].b, 2);
    vec_free(&heap.allocator, &pairs);
}

static Str key_of(char *buffer, int i) { return (Str){buffer, (size_t)sprintf(buffer, "name/%d", i)}; }

enum { KEYS = 2000 };
static char keys[KEYS][16];

/* Sets, replaces and removes; TN_OK only when everything was found as it should be. */
static tn_status exercise_map(Map *map) {
    int values[3];
    for (int i = 0; i < KEYS; i++) TRY(map_set(map, key_of(keys[i], i), &values[i % 3]));
    for (int i = 0; i < KEYS; i += 2) map_remove(map, str_of(keys[i]));
    for (int i = 1; i < KEYS; i += 4) TRY(map_set(map, str_of(keys[i]), &values[0]));
    for (int i = 0; i < KEYS; i += 4) TRY(map_set(map, str_of(keys[i]), &values[1]));
    for (int i = 0; i < KEYS; i++) {
        void *found = map_get(map, str_of(keys[i])), *wanted = &values[i % 3];
        if (i % 4 == 0) wanted = &values[1];
        if (i % 4 == 1) wanted = &values[0];
        if (i % 4 == 2) wanted = NULL;
        assert_ptr_equal(found, wanted);
    }
    return TN_OK;
}

static void test_map(void **state) {
    (void)state;
    TestHeap heap;
    Map map;
    test_heap_init(&heap);
    map_init(&map, &heap.allocator);
    assert_null(map_get(&map, STR("x")));
    map_remove(&map, STR("x"));
    assert_int_equal(exercise_map(&map), TN_OK);
    assert_null(map_get(&map, STR("name/")));
    int at = 0, last = -1, living = 0;
    for (size_t i = 0; i < map.len; i++) {
        if (!map.entries[i].value) continue;
        living++;
        int number = atoi(map.entries[i].key.s + 5);
        if (number % 4 == 0) continue; /* set again, at the end */
        assert_true(number > last);
        last = number;
        at++;
    }
    assert_int_equal(at, KEYS / 2);
    assert_int_equal(living, KEYS / 2 + KEYS / 4);
    map_free(&map);
    assert_int_equal(heap.living, 0);
}

/* A name set and removed for ever must not make the map grow. */
static void test_map_turnover(void **state) {
    (void)state;
    Map map;
    char buffer[16];
    int value;
    map_init(&map, &allocator_default);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(map_set(&map, key_of(buffer, i), &value), TN_OK);
        map_remove(&map, key_of(buffer, i));
    }
    assert_true(map.cap <= 16);
    map_free(&map);
}

static void test_map_odd_keys(void **state) {
    (void)state;
    Map map;
    int a, b, c;
    map_init(&map, &allocator_default);
    assert_int_equal(map_set(&map, (Str){NULL, 0}, &a), TN_OK);
    assert_int_equal(map_set(&map, STR("x\0y"), &b), TN_OK);
    assert_int_equal(map_set(&map, STR("x"), &c), TN_OK);
    assert_ptr_equal(map_get(&map, STR("")), &a);
    assert_ptr_equal(map_get(&map, STR("x\0y")), &b);
    assert_ptr_equal(map_get(&map, STR("x")), &c);
    assert_null(map_get(&map, STR("x\0z")));
    map_free(&map);
}

static tn_status write_text(Text *text) {
    for (int i = 0; i < 1000; i++) {
        text_puts(text, "line ");
        text_printf(text, "%d of %s\n", i, "many");
    }
    text_printf(text, "%2000d", 1);
    text_put(text, "\0", 1);
    return text->status;
}

static void test_text(void **state) {
    (void)state;
    TestHeap heap;
    Text text;
    test_heap_init(&heap);
    text_init(&text, &heap.allocator);
    text_put(&text, NULL, 0);
    assert_string_equal(text.s, "");
    assert_int_equal(write_text(&text), TN_OK);
    assert_memory_equal(text.s, "line 0 of many\nline 1 of many\n", 30);
    assert_int_equal(text.s[text.n], 0);
    assert_int_equal(text.s[text.n - 2], '1');
    assert_int_equal(text.s[text.n - 3], ' ');
    text_free(&text);
    for (size_t n = 250; n < 260; n++) { /* around the size of the small buffer */
        text_printf(&text, "%*d", (int)n, 7);
        assert_int_equal(text.n, n);
        assert_int_equal(strlen(text.s), n);
        text_free(&text);
    }
    assert_int_equal(heap.living, 0);
}

static void test_every_allocation_fails_once(void **state) {
    (void)state;
    for (int what = 0; what < 3; what++)
        for (int64_t at = 1;; at++) {
            TestHeap heap;
            Map map;
            Text text;
            int64_t sum;
            test_heap_init(&heap);
            heap.fail_at = at;
            map_init(&map, &heap.allocator);
            text_init(&text, &heap.allocator);
            diag_clear();
            tn_status status = what == 0   ? exercise_map(&map)
                               : what == 1 ? write_text(&text)
                                           : fill_vec(&heap.allocator, 1000, &sum);
            map_free(&map);
            text_free(&text);
            assert_int_equal(heap.living, 0);
            assert_int_equal(diag_status(), status);
            if (status == TN_OK) break;
            assert_int_equal(status, TN_OUT_OF_MEMORY);
            assert_true(at < 100);
        }
}

static void test_utf8(void **state) {
    (void)state;
    static const Str good[] = {STR(""),
                               STR("a\0b"),
                               STR("\xc2\x80"),
                               STR("\xdf\xbf"),
                               STR("\xe0\xa0\x80"),
                               STR("\xed\x9f\xbf"),
                               STR("\xee\x80\x80"),
                               STR("\xef\xbf\xbf"),
                               STR("\xf0\x90\x80\x80"),
                               STR("\xf4\x8f\xbf\xbf")};
    static const Str bad[] = {STR("\x80"),
                              STR("\xc0\x80"),
                              STR("\xc1\xbf"),
                              STR("\xc2"),
                              STR("\xc2\x41"),
                              STR("\xe0\x9f\xbf"),
                              STR("\xed\xa0\x80"),
                              STR("\xed\xbf\xbf"),
                              STR("\xe2\x82"),
                              STR("\xf0\x8f\xbf\xbf"),
                              STR("\xf4\x90\x80\x80"),
                              STR("\xf5\x80\x80\x80"),
                              STR("\xff"),
                              STR("\xf0\x90\x80"),
                              STR("ok\xc3")};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(str_is_utf8(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(str_is_utf8(bad[i]));
}

static void test_nearest_name(void **state) {
    (void)state;
    static const char *const names[] = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "Add", "And"};
    const size_t n = sizeof names / sizeof *names;
    assert_string_equal(nearest_name(STR("MaxPol"), names, n), "MaxPool");
    assert_string_equal(nearest_name(STR("conv"), names, n), "Conv");
    assert_string_equal(nearest_name(STR("Avrgepool"), names, n), "AveragePool");
    assert_string_equal(nearest_name(STR("Add"), names, n), "Add");
    assert_null(nearest_name(STR("zz"), names, n));
    assert_null(nearest_name(STR("Softmax"), names, n));
    assert_null(nearest_name(STR(""), names, n));
    char *longest = malloc(100000);
    memset(longest, 'x', 100000);
    assert_null(nearest_name((Str){longest, 100000}, names, n));
    free(longest);
}

static void test_hash(void **state) {
    (void)state;
    assert_true(hash_bytes("abc", 3) == hash_bytes("abcd", 3));
    assert_true(hash_bytes("abc", 3) != hash_bytes("abd", 3));
    assert_true(hash_bytes(NULL, 0) == hash_bytes("", 0));
}

static void test_rc_strings(void **state) {
    (void)state;
    TestHeap heap;
    RcString *s;
    test_heap_init(&heap);
    assert_int_equal(rc_string_new(&heap.allocator, STR("a\0b"), &s), TN_OK);
    assert_true(str_equal(rc_string_get(s), STR("a\0b")));
    RcString *from[2] = {s, NULL}, *to[4] = {NULL, NULL, s, NULL};
    rc_string_ref(s); /* for to[2] */
    copy_elements(TN_STRING, to, 0, 2, from, 0, 1, 2);
    assert_ptr_equal(to[0], s);
    assert_null(to[2]);
    rc_string_unref(to[0]);
    assert_true(heap.living > 0);
    rc_string_unref(s);
    assert_int_equal(heap.living, 0);
    assert_int_equal(rc_string_get(NULL).n, 0);
    rc_string_unref(NULL);
    heap.fail_at = heap.calls + 1;
    assert_int_equal(rc_string_new(&heap.allocator, STR("x"), &s), TN_OUT_OF_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vec),          cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_turnover), cmocka_unit_test(test_map_odd_keys),
        cmocka_unit_test(test_text),         cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_utf8),         cmocka_unit_test(test_nearest_name),
        cmocka_unit_test(test_hash),         cmocka_unit_test(test_rc_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
