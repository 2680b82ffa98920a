/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in ONNX files: every way to give data, data in other files, and what lies about itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test_onnx_common.h"

static OnnxTest t;

static int begin(void **state) {
    (void)state;
    onnx_begin(&t, NULL);
    return 0;
}

static int end(void **state) {
    (void)state;
    onnx_end(&t);
    return 0;
}

/* A model whose one initialiser "k" is its output. */
static Bytes model_with(uint32_t tag, Bytes tensor) {
    Bytes graph = {0};
    put_sub(&graph, tag, tensor);
    put_sub(&graph, 1, node_of("Identity", "k", "y"));
    add_output(&graph, "y");
    return model_of(graph, 21);
}

static const Tensor *read_tensor(Bytes tensor) {
    OK(read_model(&t, model_with(5, tensor)));
    return value_constant(node_operand(node_at(t.model->main, 0), 0));
}

static void refuse_tensor(Bytes tensor, tn_status status, const char *part) {
    refuse(&t, model_with(5, tensor), status, part);
}

static Bytes vector_of(int dtype, int64_t n) { return tensor_of("k", dtype, &n, 1); }

static void put_packed(Bytes *b, uint32_t tag, const int64_t *v, size_t n) {
    Bytes all = {0};
    for (size_t i = 0; i < n; i++) put_varint(&all, (uint64_t)v[i]);
    put_sub(b, tag, all);
}

static void reads_integers_packed_and_not(void **state) {
    (void)state;
    static const int64_t values[] = {-1, 2, INT64_MAX, INT64_MIN};
    Bytes b = vector_of(TN_I64, 4);
    put_packed(&b, 7, values, 2);
    put_int(&b, 7, values[2]);
    put_packed(&b, 7, NULL, 0);
    put_packed(&b, 7, values + 3, 1);
    assert_memory_equal(read_tensor(b)->data, values, sizeof values);
    b = vector_of(TN_U64, 1);
    put_packed(&b, 11, values, 1);
    assert_true(*(const uint64_t *)read_tensor(b)->data == UINT64_MAX);
}

static void reads_small_types_from_int32(void **state) {
    (void)state;
    static const struct {
        int dtype;
        int64_t n, items[3];
        size_t n_items, bytes;
        const char *expected;
    } cases[] = {
        {TN_I8, 3, {-128, 127, 255}, 3, 3, "\x80\x7f\xff"},
        {TN_U8, 2, {0, 255}, 2, 2, "\x00\xff"},
        {TN_I16, 1, {-2}, 1, 2, "\xfe\xff"},
        {TN_F16, 1, {0x3c00}, 1, 2, "\x00\x3c"},
        {TN_BF16, 1, {0x3f80}, 1, 2, "\x80\x3f"},
        {TN_BOOL, 2, {1, 0}, 2, 2, "\x01\x00"},
        {TN_F8E4M3FN, 1, {0x38}, 1, 1, "\x38"},
        {TN_U4, 3, {0x21, 0x03}, 2, 2, "\x21\x03"},
        {TN_I4, 1, {0x0f}, 1, 1, "\x0f"},
        {TN_U2, 5, {0xe4, 0x01}, 2, 2, "\xe4\x01"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes b = vector_of(cases[i].dtype, cases[i].n);
        put_packed(&b, 5, cases[i].items, cases[i].n_items);
        assert_memory_equal(read_tensor(b)->data, cases[i].expected, cases[i].bytes);
    }
}

static void reads_floats(void **state) {
    (void)state;
    static const float values[] = {1, -2, 0.5f, 4};
    static const double doubles[] = {1, -2};
    Bytes b = vector_of(TN_F32, 4);
    put_bytes(&b, 4, values, 8);
    put_float(&b, 4, values[2]);
    put_float(&b, 4, values[3]);
    assert_memory_equal(read_tensor(b)->data, values, sizeof values);
    b = vector_of(TN_C64, 2);
    put_bytes(&b, 4, values, 16);
    assert_memory_equal(read_tensor(b)->data, values, sizeof values);
    b = vector_of(TN_F64, 2);
    put_bytes(&b, 10, doubles, 16);
    assert_memory_equal(read_tensor(b)->data, doubles, sizeof doubles);
}

static void reads_strings(void **state) {
    (void)state;
    Bytes b = vector_of(TN_STRING, 2);
    put_str(&b, 6, "one");
    put_bytes(&b, 6, "t\0o", 3);
    const Tensor *k = read_tensor(b);
    assert_true(str_equal(rc_string_get(((RcString **)k->data)[1]), (Str){"t\0o", 3}));
    b = vector_of(TN_STRING, 2);
    put_str(&b, 6, "one");
    refuse_tensor(b, TN_INVALID_MODEL, "\"k\" has 1 strings");
    b = vector_of(TN_STRING, 1);
    put_bytes(&b, 9, "12345678", 8);
    refuse_tensor(b, TN_INVALID_MODEL, "\"k\"");
}

static void points_at_raw_data(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3};
    const Tensor *k = read_tensor(floats_of("k", values, 3));
    assert_memory_equal(k->data, values, sizeof values);
    assert_ptr_equal(k->buffer->release, release_copy); /* the file itself, not a copy */
}

static void refuses_wrong_sizes(void **state) {
    (void)state;
    static const int64_t ones[] = {1, 1, 1, 1};
    for (size_t n = 0; n < 20; n++) {
        if (n == 12) continue;
        Bytes b = vector_of(TN_F32, 3);
        put_bytes(&b, 9, "12345678901234567890", n);
        refuse_tensor(b, TN_INVALID_MODEL, "\"k\"");
    }
    Bytes b = vector_of(TN_I64, 3);
    put_packed(&b, 7, ones, 4);
    refuse_tensor(b, TN_INVALID_MODEL, "\"k\" has 4 numbers");
    b = vector_of(TN_I4, 3); /* an odd count takes two bytes */
    put_bytes(&b, 9, "1", 1);
    refuse_tensor(b, TN_INVALID_MODEL, "want 2");
}

static void refuses_wrong_elements(void **state) {
    (void)state;
    static const struct {
        int dtype;
        int64_t item;
    } cases[] = {{TN_I8, 256}, {TN_I8, -129}, {TN_BOOL, 2}, {TN_F16, 65536}, {TN_U16, -40000}, {TN_I4, 300}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes b = vector_of(cases[i].dtype, 1);
        put_int(&b, 5, cases[i].item);
        refuse_tensor(b, TN_INVALID_MODEL, "does not fit");
    }
    Bytes b = vector_of(TN_BOOL, 1);
    put_bytes(&b, 9, "\x02", 1);
    refuse_tensor(b, TN_INVALID_MODEL, "boolean");
}

static void refuses_wrong_fields(void **state) {
    (void)state;
    static const int64_t one = 1;
    Bytes b = vector_of(TN_F32, 1);
    put_packed(&b, 7, &one, 1); /* int64_data of a float tensor */
    refuse_tensor(b, TN_INVALID_MODEL, "float_data");
    b = vector_of(TN_F32, 1);
    put_bytes(&b, 9, "1234", 4);
    put_float(&b, 4, 1);
    refuse_tensor(b, TN_INVALID_MODEL, "more than once");
    b = vector_of(99, 1);
    refuse_tensor(b, TN_UNSUPPORTED, "element type 99");
    b = vector_of(0, 1);
    refuse_tensor(b, TN_UNSUPPORTED, "element type 0");
    b = vector_of(TN_F32, 1);
    put_str(&b, 3, "");
    refuse_tensor(b, TN_UNSUPPORTED, "segments");
}

static void refuses_impossible_shapes(void **state) {
    (void)state;
    static const struct {
        int64_t dims[9];
        int rank;
        tn_status status;
    } cases[] = {
        {{-1}, 1, TN_INVALID_MODEL},
        {{(int64_t)1 << 32, (int64_t)1 << 32}, 2, TN_LIMIT},
        {{(int64_t)1 << 62, 4}, 2, TN_LIMIT},
        {{(int64_t)1 << 62}, 1, TN_LIMIT}, /* fits, but not times four bytes */
        {{(int64_t)1 << 33, (int64_t)1 << 33, 0}, 3, TN_LIMIT},
        {{(int64_t)1 << 40}, 1, TN_LIMIT},
        {{1, 1, 1, 1, 1, 1, 1, 1, 1}, 9, TN_LIMIT},
        {{1 << 20}, 1, TN_INVALID_MODEL}, /* no data: refused before anything is allocated */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_tensor(tensor_of("k", TN_F32, cases[i].dims, cases[i].rank), cases[i].status, "\"k\"");
    assert_int_equal(tensor_count(read_tensor(tensor_of("k", TN_F32, (int64_t[]){3, 0}, 2))), 0);
}

/* ---- sparse --------------------------------------------------------------------------------------------------- */

static Bytes sparse_of(const int64_t *at, int64_t n, int width, const int64_t *dims, int rank) {
    static const float values[] = {5, 6, 7};
    Bytes sparse = {0}, indices = tensor_of("i", TN_I64, width ? (int64_t[]){n, width} : &n, width ? 2 : 1);
    put_packed(&indices, 7, at, (size_t)(n * (width ? width : 1)));
    put_sub(&sparse, 1, floats_of("k", values, n));
    put_sub(&sparse, 2, indices);
    for (int i = 0; i < rank; i++) put_int(&sparse, 3, dims[i]);
    return sparse;
}

static void reads_sparse(void **state) {
    (void)state;
    static const float expected[] = {0, 5, 0, 0, 0, 6};
    static const int64_t dims[] = {2, 3}, huge[] = {1 << 14, 1 << 13};
    OK(read_model(&t, model_with(15, sparse_of((int64_t[]){1, 5}, 2, 0, dims, 2))));
    assert_memory_equal(value_constant(node_operand(node_at(t.model->main, 0), 0))->data, expected, 24);
    OK(read_model(&t, model_with(15, sparse_of((int64_t[]){0, 1, 1, 2}, 2, 2, dims, 2))));
    assert_memory_equal(value_constant(node_operand(node_at(t.model->main, 0), 0))->data, expected, 24);
    refuse(&t, model_with(15, sparse_of((int64_t[]){1, 6}, 2, 0, dims, 2)), TN_INVALID_MODEL, "outside");
    refuse(&t, model_with(15, sparse_of((int64_t[]){1, -1}, 2, 0, dims, 2)), TN_INVALID_MODEL, "outside");
    refuse(&t, model_with(15, sparse_of((int64_t[]){0, 1, 2, 0}, 2, 2, dims, 2)), TN_INVALID_MODEL, "outside");
    refuse(&t, model_with(15, sparse_of((int64_t[]){5, 1}, 2, 0, dims, 2)), TN_INVALID_MODEL, "ascend");
    refuse(&t, model_with(15, sparse_of((int64_t[]){1, 5, 0}, 1, 3, dims, 2)), TN_INVALID_MODEL, "fit");
    refuse(&t, model_with(15, sparse_of((int64_t[]){1, 5}, 2, 0, huge, 2)), TN_LIMIT, "max_fold_bytes");
}

/* ---- data in other files -------------------------------------------------------------------------------------- */

static char folder[64];

static void write_file(const char *name, const void *s, size_t n) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s, 1, n, f), n);
    fclose(f);
}

static int make_folder(void **state) {
    char path[256];
    (void)state;
    onnx_begin(&t, NULL);
    snprintf(folder, sizeof folder, "/tmp/tenon-onnx-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    write_file("secret", "SECRETSECRET", 12);
    write_file("model/weights", "0123456789abcdef", 16);
    snprintf(path, sizeof path, "%s/model/link", folder);
    assert_int_equal(symlink("../secret", path), 0);
    snprintf(path, sizeof path, "%s/model/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"model/link", "model/pipe", "model/weights", "secret", "model", ""};
    onnx_end(&t);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(remove(path), 0);
    }
    return 0;
}

/* n floats at a place in a file; NULL leaves an entry out. */
static Bytes external_of(int64_t n, const char *location, const char *offset, const char *length) {
    const char *const pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    Bytes b = vector_of(TN_F32, n);
    for (int i = 0; i < 3; i++) {
        Bytes entry = {0};
        if (!pairs[i][1]) continue;
        put_str(&entry, 1, pairs[i][0]);
        put_str(&entry, 2, pairs[i][1]);
        put_sub(&b, 13, entry);
    }
    put_int(&b, 14, 1);
    return model_with(5, b);
}

static tn_status read_external(Bytes b) {
    char path[256];
    snprintf(path, sizeof path, "%s/model", folder);
    tn_status status = read_bytes(&t, b.s, b.n, path);
    free(b.s);
    return status;
}

static void reads_other_files(void **state) {
    (void)state;
    OK(read_external(external_of(2, "weights", "4", "8")));
    assert_memory_equal(value_constant(node_operand(node_at(t.model->main, 0), 0))->data, "456789ab", 8);
    OK(read_external(external_of(4, "weights", NULL, NULL)));
    OK(read_external(external_of(1, "./weights", "3", NULL)));
    OK(read_external(external_of(0, "weights", "16", "0")));
}

static void stays_beneath_the_folder(void **state) {
    (void)state;
    char absolute[128];
    snprintf(absolute, sizeof absolute, "%s/secret", folder);
    const char *const places[] = {"../secret",
                                  "a/../../secret",
                                  "./../secret",
                                  absolute,
                                  "link",
                                  "pipe",
                                  ".",
                                  "..",
                                  "/",
                                  "/dev/zero",
                                  "/proc/self/mem",
                                  "C:\\weights",
                                  "..\\secret",
                                  "\\\\host\\weights",
                                  "none",
                                  "weights/",
                                  "weights/x"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        tn_status status = read_external(external_of(1, places[i], NULL, NULL));
        if (status != TN_IO) print_error("%s: %s %s\n", places[i], status_name(status), diag_text());
        assert_int_equal(status, TN_IO);
        assert_says("\"k\"");
    }
    assert_int_equal(read_external(external_of(1, "", NULL, NULL)), TN_INVALID_MODEL);
    assert_int_equal(read_external(external_of(1, NULL, NULL, NULL)), TN_INVALID_MODEL);
    refuse(&t, external_of(1, "weights", NULL, NULL), TN_IO, "not read from a folder");
}

static void refuses_bad_places(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"13", NULL}, {"16", NULL},
        {"17", NULL}, {"18446744073709551615", NULL},
        {"-4", NULL}, {"99999999999999999999", NULL},
        {"", NULL},   {"0x4", NULL},
        {"4", "3"},   {"4", "5"},
        {"4", "-4"},  {"18446744073709551612", "4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_status status = read_external(external_of(1, "weights", cases[i][0], cases[i][1]));
        if (status != TN_INVALID_MODEL) print_error("%s: %s\n", cases[i][0], status_name(status));
        assert_int_equal(status, TN_INVALID_MODEL);
        assert_says("\"k\"");
    }
}

/* ---- files of one tensor -------------------------------------------------------------------------------------- */

static void reads_and_writes_single_tensors(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3, 4, 5, 6};
    static const float turned[] = {1, 4, 2, 5, 3, 6};
    char path[] = "/tmp/tenon-tensor-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    Tensor strided = {.dtype = TN_F32, .rank = 2, .dims = {3, 2}, .strides = {1, 3}, .data = (void *)values}, back;
    FileWriter *writer;
    Buffer *buffer;
    Text name;
    text_init(&name, &t.ctx->allocator);
    OK(file_writer_open(&t.ctx->allocator, path, &writer));
    OK(onnx_tensor_write(&strided, STR("turned"), writer));
    OK(file_writer_commit(writer));
    OK(file_map(&t.ctx->allocator, path, &buffer));
    OK(onnx_tensor_read(t.ctx, buffer, &back, &name));
    assert_string_equal(name.s, "turned");
    assert_memory_equal(back.data, turned, sizeof turned);
    tensor_release(&back);
    buffer_unref(buffer);
    text_free(&name);
    remove(path);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(reads_integers_packed_and_not),
        TEST(reads_small_types_from_int32),
        TEST(reads_floats),
        TEST(reads_strings),
        TEST(points_at_raw_data),
        TEST(refuses_wrong_sizes),
        TEST(refuses_wrong_elements),
        TEST(refuses_wrong_fields),
        TEST(refuses_impossible_shapes),
        TEST(reads_sparse),
        FILE_TEST(reads_other_files),
        FILE_TEST(stays_beneath_the_folder),
        FILE_TEST(refuses_bad_places),
        TEST(reads_and_writes_single_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
