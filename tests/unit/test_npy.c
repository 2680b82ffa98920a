/* SPDX-License-Identifier: Apache-2.0 */
/* .npy: what numpy writes is read, what is written reads back, hostile headers are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "formats/npy/npy.h"

#undef fail
#include <cmocka.h>

static Context *ctx;

/* ---- making files --------------------------------------------------------------------------------------------- */

/* A file of a version with that dictionary and those elements. */
typedef struct File {
    uint8_t bytes[4096];
    size_t n;
} File;

static File make_file(int version, const char *dictionary, const void *elements, size_t size) {
    File f = {{0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)version, 0}, 8};
    size_t length = strlen(dictionary);
    for (int i = 0; i < (version == 1 ? 2 : 4); i++) f.bytes[f.n++] = (uint8_t)(length >> (8 * i));
    memcpy(f.bytes + f.n, dictionary, length);
    memcpy(f.bytes + f.n + length, elements, size);
    f.n += length + size;
    return f;
}

static tn_status read_file(const File *f, Tensor *out) {
    /* A copy of exactly its size, so that a sanitizer sees a read beyond the end. */
    uint8_t *exact = malloc(f->n ? f->n : 1);
    assert_non_null(exact);
    memcpy(exact, f->bytes, f->n);
    tn_status status = npy_read(ctx, exact, f->n, out);
    free(exact);
    return status;
}

static tn_status read_array(const char *dictionary, const void *elements, size_t size, Tensor *out) {
    File f = make_file(1, dictionary, elements, size);
    return read_file(&f, out);
}

static void refuse(tn_status status, const char *dictionary, const void *elements, size_t size) {
    Tensor t;
    tn_status got = read_array(dictionary, elements, size, &t);
    if (got != status) print_error("%s: %s\n", dictionary, diag_text());
    assert_int_equal(got, status);
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

static void reads_plain_arrays(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6};
    for (int version = 1; version <= 3; version++) {
        Tensor t;
        File f = make_file(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", x, sizeof x);
        assert_int_equal(read_file(&f, &t), TN_OK);
        assert_int_equal(t.dtype, TN_F32);
        assert_int_equal(t.rank, 2);
        assert_int_equal(t.dims[0], 2);
        assert_int_equal(t.dims[1], 3);
        assert_memory_equal(t.data, x, sizeof x);
        tensor_release(&t);
    }
}

static void reads_scalars_and_vectors(void **state) {
    (void)state;
    Tensor t;
    const int64_t x[] = {-7, 9};
    assert_int_equal(read_array("{\"shape\":(),\"fortran_order\":False,\"descr\":\"<i8\"}", x, 8, &t), TN_OK);
    assert_int_equal(t.rank, 0);
    assert_int_equal(*(int64_t *)t.data, -7);
    tensor_release(&t);
    assert_int_equal(read_array("{'descr': '=i8', 'fortran_order': True, 'shape': (2L,)}", x, 16, &t), TN_OK);
    assert_int_equal(t.rank, 1);
    assert_memory_equal(t.data, x, sizeof x);
    tensor_release(&t);
    assert_int_equal(read_array("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 3)}", x, 0, &t), TN_OK);
    assert_int_equal(tensor_count(&t), 0);
    tensor_release(&t);
}

static void transposes_fortran_order(void **state) {
    (void)state;
    Tensor t;
    const uint8_t columns[] = {1, 4, 2, 5, 3, 6};
    assert_int_equal(read_array("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", columns, 6, &t), TN_OK);
    assert_memory_equal(t.data, ((const uint8_t[]){1, 2, 3, 4, 5, 6}), 6);
    assert_true(tensor_is_dense(&t));
    tensor_release(&t);
}

static void swaps_big_endian(void **state) {
    (void)state;
    Tensor t;
    const uint8_t x[] = {0, 1, 0x12, 0x34};
    assert_int_equal(read_array("{'descr': '>u2', 'fortran_order': False, 'shape': (2,)}", x, 4, &t), TN_OK);
    assert_int_equal(((uint16_t *)t.data)[0], 1);
    assert_int_equal(((uint16_t *)t.data)[1], 0x1234);
    tensor_release(&t);
    /* A complex number is two numbers. */
    const uint8_t c[] = {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0};
    assert_int_equal(read_array("{'descr': '>c8', 'fortran_order': False, 'shape': ()}", c, 8, &t), TN_OK);
    assert_true(((float *)t.data)[0] == 1 && ((float *)t.data)[1] == 2);
    tensor_release(&t);
}

static void reads_booleans(void **state) {
    (void)state;
    Tensor t;
    const uint8_t x[] = {0, 1, 255};
    assert_int_equal(read_array("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", x, 3, &t), TN_OK);
    assert_memory_equal(t.data, ((const uint8_t[]){0, 1, 1}), 3);
    tensor_release(&t);
}

static Str string_at(const Tensor *t, int i) { return rc_string_get(((RcString **)t->data)[i]); }

static void reads_strings(void **state) {
    (void)state;
    Tensor t;
    assert_int_equal(read_array("{'descr': '|S3', 'fortran_order': False, 'shape': (2,)}", "abcd\0\0", 6, &t), TN_OK);
    assert_true(str_equal(string_at(&t, 0), STR("abc")));
    assert_true(str_equal(string_at(&t, 1), STR("d")));
    tensor_release(&t);
    const uint32_t u[] = {0xe9, 0x4e2d, 0x1f600, 'x', 0, 0};
    assert_int_equal(read_array("{'descr': '<U3', 'fortran_order': False, 'shape': (2,)}", u, 24, &t), TN_OK);
    assert_true(str_equal(string_at(&t, 0), STR("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80")));
    assert_true(str_equal(string_at(&t, 1), STR("x")));
    tensor_release(&t);
    const uint32_t lone[] = {0xd800};
    refuse(TN_MALFORMED, "{'descr': '<U1', 'fortran_order': False, 'shape': ()}", lone, 4);
}

/* ---- refusing ------------------------------------------------------------------------------------------------- */

static void refuses_hostile_headers(void **state) {
    (void)state;
    const uint8_t x[64] = {0};
    refuse(TN_MALFORMED, "", x, 0);
    refuse(TN_MALFORMED, "{", x, 0);
    refuse(TN_MALFORMED, "{'descr': '<f4", x, 0);
    refuse(TN_MALFORMED, "{'descr': '<f4', 'fortran_order': False}", x, 4);
    refuse(TN_MALFORMED, "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", x, 4);
    refuse(TN_MALFORMED, "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", x, 4);
    refuse(TN_MALFORMED, "{'descr': '<f4', 'fortran_order': False, 'shape': (1", x, 0);
    refuse(TN_MALFORMED, "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}", x, 4);
    refuse(TN_MALFORMED, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", x, 4);
    refuse(TN_MALFORMED, "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", x, 4);
    refuse(TN_MALFORMED, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", x, 4);
    refuse(TN_MALFORMED, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", x, 5);
    refuse(TN_UNSUPPORTED, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", x, 4);
    refuse(TN_LIMIT, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", x, 4);
    refuse(TN_LIMIT, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0)}", x, 0);
    refuse(TN_MALFORMED, "{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,)}", x, 0);
}

static void refuses_other_types(void **state) {
    (void)state;
    const uint8_t x[64] = {0};
    const char *const types[] = {"|O", "<f16", "|V2", "<M8[ns]", "<U0", "<U-1", "<U4x", "<S99999999999", "f4", "", "<"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[128];
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': ()}", types[i]);
        Tensor t;
        tn_status status = read_array(text, x, 2, &t);
        assert_true(status == TN_UNSUPPORTED || status == TN_MALFORMED);
    }
    refuse(TN_UNSUPPORTED, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", x, 4);
}

static void refuses_cut_files(void **state) {
    (void)state;
    const float x[] = {1, 2};
    File whole = make_file(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", x, sizeof x);
    for (size_t n = 0; n < whole.n; n++) {
        File cut = whole;
        Tensor t;
        cut.n = n;
        assert_int_equal(read_file(&cut, &t), TN_MALFORMED);
    }
    File changed = whole;
    Tensor t;
    changed.bytes[6] = 4;
    assert_int_equal(read_file(&changed, &t), TN_UNSUPPORTED);
    changed.bytes[0] = 0;
    assert_int_equal(read_file(&changed, &t), TN_MALFORMED);
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

/* Writes, checks that the elements start at a multiple of 64, reads back. */
static void write_and_read(const Tensor *t, Tensor *out) {
    char path[64];
    FileWriter *w;
    Buffer *buffer;
    snprintf(path, sizeof path, "/tmp/test_npy_%d.npy", (int)getpid());
    assert_int_equal(file_writer_open(&ctx->allocator, path, &w), TN_OK);
    assert_int_equal(npy_write(t, w), TN_OK);
    assert_int_equal(file_writer_commit(w), TN_OK);
    assert_int_equal(file_map(&ctx->allocator, path, &buffer), TN_OK);
    assert_int_equal((10 + buffer->data[8] + 256 * buffer->data[9]) % 64, 0);
    assert_int_equal(npy_read(ctx, buffer->data, buffer->size, out), TN_OK);
    buffer_unref(buffer);
    unlink(path);
}

static void writes_every_type(void **state) {
    (void)state;
    const int64_t dims[] = {3, 2};
    for (int dtype = 1; dtype < TN_DTYPE_END; dtype++) {
        Tensor t, back;
        if (dtype == TN_STRING) continue;
        assert_int_equal(tensor_new(ctx, (tn_dtype)dtype, 2, dims, &t), TN_OK);
        size_t bytes;
        assert_int_equal(checked_bytes((tn_dtype)dtype, 6, &bytes), TN_OK);
        for (size_t i = 0; i < bytes; i++) ((uint8_t *)t.data)[i] = dtype == TN_BOOL ? i & 1 : (uint8_t)(37 * i + 11);
        write_and_read(&t, &back);
        assert_int_equal(back.rank, 2);
        if (dtype_bits((tn_dtype)dtype) >= 8) {
            assert_int_equal(dtype_size(back.dtype), dtype_size((tn_dtype)dtype));
            assert_memory_equal(back.data, t.data, bytes);
        } else {
            assert_int_equal(back.dtype, TN_U8);
            int bits = dtype_bits((tn_dtype)dtype);
            for (int i = 0; i < 6; i++)
                assert_int_equal(((uint8_t *)back.data)[i],
                                 ((uint8_t *)t.data)[i * bits / 8] >> i * bits % 8 & ((1 << bits) - 1));
        }
        tensor_release(&t);
        tensor_release(&back);
    }
}

static void writes_strided_tensors(void **state) {
    (void)state;
    const int64_t dims[] = {2, 3};
    Tensor t, back;
    assert_int_equal(tensor_new(ctx, TN_I32, 2, dims, &t), TN_OK);
    for (int i = 0; i < 6; i++) ((int32_t *)t.data)[i] = i;
    t.dims[0] = 3; /* transposed */
    t.dims[1] = 2;
    t.strides[0] = 1;
    t.strides[1] = 3;
    write_and_read(&t, &back);
    assert_memory_equal(back.data, ((const int32_t[]){0, 3, 1, 4, 2, 5}), 24);
    tensor_release(&back);
    tensor_release(&t);
    assert_int_equal(tensor_new(ctx, TN_F64, 0, NULL, &t), TN_OK);
    *(double *)t.data = 1.5;
    write_and_read(&t, &back);
    assert_int_equal(back.rank, 0);
    assert_true(*(double *)back.data == 1.5);
    tensor_release(&back);
    tensor_release(&t);
}

static void writes_strings(void **state) {
    (void)state;
    const Str texts[2][3] = {{STR("na\xc3\xafve"), STR(""), STR("\xf0\x9f\x98\x80")},
                             {STR("\xff\xfe"), STR("ab"), STR("")}};
    const int64_t dims[] = {3};
    for (int k = 0; k < 2; k++) {
        Tensor t, back;
        assert_int_equal(tensor_new(ctx, TN_STRING, 1, dims, &t), TN_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(rc_string_new(&ctx->allocator, texts[k][i], (RcString **)t.data + i), TN_OK);
        write_and_read(&t, &back);
        for (int i = 0; i < 3; i++) assert_true(str_equal(string_at(&back, i), texts[k][i]));
        tensor_release(&t);
        tensor_release(&back);
    }
}

static int set_up(void **state) {
    (void)state;
    return context_new(NULL, NULL, &ctx) == TN_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    context_unref(ctx);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_plain_arrays),       cmocka_unit_test(reads_scalars_and_vectors),
        cmocka_unit_test(transposes_fortran_order), cmocka_unit_test(swaps_big_endian),
        cmocka_unit_test(reads_booleans),           cmocka_unit_test(reads_strings),
        cmocka_unit_test(refuses_hostile_headers),  cmocka_unit_test(refuses_other_types),
        cmocka_unit_test(refuses_cut_files),        cmocka_unit_test(writes_every_type),
        cmocka_unit_test(writes_strided_tensors),   cmocka_unit_test(writes_strings),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
