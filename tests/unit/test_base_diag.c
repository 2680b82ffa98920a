/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics, statuses, element type facts, checked sizes. */
#include <pthread.h>
#include <stdint.h>

#include "test_base_alloc.h"

static void test_places(void **state) {
    (void)state;
    diag_clear();
    assert_string_equal(diag_text(), "");
    diag_set_node("early", "Add"); /* nothing to add to yet */
    assert_int_equal(fail(TN_SHAPE, "wants %d channels", 64), TN_SHAPE);
    diag_set_node("conv", "Conv");
    diag_set_node("if", "If");
    diag_set_file("resnet.onnx");
    diag_set_file("other.onnx");
    diag_note("x: f32[%d]", 3);
    diag_note("second");
    assert_string_equal(diag_text(), "resnet.onnx: node \"conv\" (Conv): wants 64 channels\n  x: f32[3]\n  second");
    diag_set_offset(10482);
    diag_set_offset(1);
    assert_string_equal(diag_text(), "resnet.onnx: node \"conv\" (Conv): wants 64 channels\n  x: f32[3]\n  second"
                                     "\n  at byte 10482 of the file");
    assert_int_equal(diag_status(), TN_SHAPE);
    fail(TN_IO, "new");
    assert_string_equal(diag_text(), "new");
    diag_clear();
    assert_int_equal(diag_status(), TN_OK);
}

static void test_node_and_op_come_apart(void **state) {
    (void)state;
    fail(TN_SHAPE, "m");
    diag_set_node(NULL, "Conv");
    assert_string_equal(diag_text(), "Conv: m");
    diag_set_node("body", "Conv");
    assert_string_equal(diag_text(), "node \"body\" (Conv): m");
    fail(TN_SHAPE, "m");
    diag_set_node("", "Conv"); /* a node without a name is not the If around it */
    diag_set_node("outer", "If");
    assert_string_equal(diag_text(), "Conv: m");
    fail(TN_SHAPE, "m");
    diag_set_node(NULL, "Conv");
    diag_set_node("outer", "If");
    assert_string_equal(diag_text(), "Conv: m");
    fail(TN_SHAPE, "m");
    diag_set_node("n", NULL);
    assert_string_equal(diag_text(), "node \"n\": m");
}

static void test_own_text_as_argument(void **state) {
    (void)state;
    fail(TN_IO, "first");
    diag_note("note");
    fail(TN_MALFORMED, "second after \"%s\"", diag_text());
    assert_string_equal(diag_text(), "second after \"first\\n  note\"");
    diag_note("%s", diag_text());
    assert_string_equal(diag_text(), "second after \"first\\n  note\"\n  second after \"first\\n  note\"");
}

static void test_hostile_names(void **state) {
    (void)state;
    size_t n = 1 << 20;
    char *huge = malloc(n + 1);
    memset(huge, 0xc3, n); /* escapes grow it fourfold */
    huge[n] = 0;
    fail(TN_INVALID_MODEL, "bad name %s", huge);
    diag_set_node(huge, huge);
    diag_set_file(huge);
    for (int i = 0; i < 100; i++) diag_note("%s", huge);
    diag_set_offset(UINT64_MAX);
    assert_true(strlen(diag_text()) < 4096);
    memset(huge, 'x', n);
    fail(TN_INVALID_MODEL, "%s", huge);
    assert_true(strlen(diag_text()) > 500 && strlen(diag_text()) < 2048);
    assert_string_equal(diag_text() + strlen(diag_text()) - 4, "x...");
    free(huge);
    fail(TN_IO, "a\x1b[31m\n\t\x7f\xc2\x9b é \xff\xed\xa0\x80");
    assert_string_equal(diag_text(), "a\\x1b[31m\\n\\t\\x7f\\xc2\\x9b é \\xff\\xed\\xa0\\x80");
    diag_set_node("q\"\\", NULL);
    assert_non_null(strstr(diag_text(), "node \"q\\\"\\\\\": "));
}

/* A cut within a character must not leave half of it. */
static void test_cut_between_characters(void **state) {
    (void)state;
    char text[4096];
    for (int lead = 0; lead < 4; lead++) {
        memset(text, 'x', (size_t)lead);
        for (int i = lead; i + 4 < (int)sizeof text; i += 3) memcpy(text + i, "\xe2\x82\xac", 4);
        fail(TN_IO, "%s", text);
        assert_true(str_is_utf8(str_of(diag_text())));
        assert_null(strstr(diag_text(), "\\x"));
        diag_set_node(text, NULL);
        assert_null(strstr(diag_text(), "\\x"));
    }
}

static void *fails_elsewhere(void *arg) {
    fail(TN_LIMIT, "theirs");
    return arg;
}

static void test_threads_have_their_own(void **state) {
    (void)state;
    pthread_t thread;
    fail(TN_IO, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fails_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(diag_text(), "mine");
}

static void test_statuses(void **state) {
    (void)state;
    assert_string_equal(status_name(TN_OUT_OF_MEMORY), "TN_OUT_OF_MEMORY");
    assert_string_equal(status_text(TN_CANCELLED), "cancelled");
    assert_string_equal(status_name((tn_status)99), "TN_?");
    assert_string_equal(status_text((tn_status)-1), "unknown status");
    assert_int_equal(fail_memory(123), TN_OUT_OF_MEMORY);
    assert_non_null(strstr(diag_text(), "123"));
}

static void test_dtypes(void **state) {
    (void)state;
    int floats = 0, ints = 0;
    for (int i = 0; i < TN_DTYPE_END; i++) {
        tn_dtype d = (tn_dtype)i;
        assert_int_equal(dtype_from_name(dtype_name(d), strlen(dtype_name(d))), d);
        floats += dtype_is_float(d);
        ints += dtype_is_signed_int(d) + dtype_is_unsigned_int(d);
        assert_int_equal(dtype_size(d), dtype_bits(d) / 8);
    }
    assert_int_equal(floats, 10);
    assert_int_equal(ints, 12);
    assert_int_equal(dtype_bits(TN_U2), 2);
    assert_int_equal(dtype_size(TN_C128), 16);
    assert_int_equal(dtype_bits((tn_dtype)-1), 0);
    assert_int_equal(dtype_bits((tn_dtype)1000000), 0);
    assert_string_equal(dtype_name((tn_dtype)77), "?");
    assert_false(dtype_is_float((tn_dtype)33));
    assert_true(dtype_is_complex(TN_C64));
    assert_false(dtype_is_unsigned_int(TN_BOOL));
    assert_int_equal(dtype_from_name("f3", 2), TN_UNDEFINED);
    assert_int_equal(dtype_from_name("f321", 3), TN_F32);
}

static void test_counts(void **state) {
    (void)state;
    int64_t n = -1;
    const int64_t big = (int64_t)1 << 32;
    assert_int_equal(checked_count(0, NULL, &n), TN_OK);
    assert_int_equal(n, 1);
    assert_int_equal(checked_count(3, (int64_t[]){2, 0, 3}, &n), TN_OK);
    assert_int_equal(n, 0);
    assert_int_equal(checked_count(2, (int64_t[]){big, big}, &n), TN_LIMIT);
    assert_int_equal(checked_count(3, (int64_t[]){big, big, 0}, &n), TN_LIMIT);
    assert_int_equal(checked_count(3, (int64_t[]){0, big, big}, &n), TN_LIMIT);
    assert_int_equal(checked_count(1, (int64_t[]){-1}, &n), TN_INVALID_ARGUMENT);
    assert_int_equal(checked_count(1, (int64_t[]){INT64_MAX}, &n), TN_OK);
    assert_int_equal(n, INT64_MAX);
}

static void test_bytes(void **state) {
    (void)state;
    size_t bytes = 0;
    assert_int_equal(checked_bytes(TN_U4, 3, &bytes), TN_OK);
    assert_int_equal(bytes, 2);
    assert_int_equal(checked_bytes(TN_I2, 9, &bytes), TN_OK);
    assert_int_equal(bytes, 3);
    assert_int_equal(checked_bytes(TN_C128, 2, &bytes), TN_OK);
    assert_int_equal(bytes, 32);
    assert_int_equal(checked_bytes(TN_U8, INT64_MAX, &bytes), TN_OK);
    assert_int_equal(checked_bytes(TN_U2, INT64_MAX, &bytes), TN_OK);
    assert_int_equal(bytes, (size_t)1 << 61);
    assert_int_equal(checked_bytes(TN_F32, (int64_t)1 << 61, &bytes), TN_LIMIT);
    assert_int_equal(checked_bytes(TN_F64, INT64_MAX, &bytes), TN_LIMIT);
    assert_int_equal(checked_bytes(TN_UNDEFINED, 1, &bytes), TN_INVALID_ARGUMENT);
    assert_int_equal(checked_bytes(TN_F32, -1, &bytes), TN_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_node_and_op_come_apart),
        cmocka_unit_test(test_own_text_as_argument),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_cut_between_characters),
        cmocka_unit_test(test_threads_have_their_own),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
