/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences, optionals and maps from files of their own and into them: what they hold, what is wrong with them, any
   bytes at all. */
#include <unistd.h>

#include "test_onnx_common.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

enum { TENSOR = 1, SPARSE, SEQUENCE, MAP, OPTIONAL }; /* elem_type */

/* f32[n] of first, first + 1, ...; a scalar for n = -1. */
static Bytes numbers_of(int n, float first) {
    Bytes b = {0};
    if (n >= 0) put_int(&b, 1, n);
    put_int(&b, 2, TN_F32);
    for (int i = 0; i < (n < 0 ? 1 : n); i++) put_float(&b, 4, first + (float)i);
    return b;
}

/* Elements of 1, 2, ... numbers, or scalars. */
static Bytes sequence_of(int n, bool scalars) {
    Bytes b = {0};
    put_str(&b, 1, "s");
    put_int(&b, 2, TENSOR);
    for (int i = 0; i < n; i++) put_sub(&b, 3, numbers_of(scalars ? -1 : i + 1, (float)(10 * i)));
    return b;
}

static Bytes optional_of(int elem_type, uint32_t tag, Bytes value) {
    Bytes b = {0};
    put_str(&b, 1, "o");
    put_int(&b, 2, elem_type);
    put_sub(&b, tag, value);
    return b;
}

static Bytes map_of(const char *words, Bytes values) {
    Bytes b = {0};
    put_int(&b, 2, TN_STRING);
    put_words(&b, 4, words);
    put_sub(&b, 5, values);
    return b;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* From an exact copy of the bytes, so that reading past them is seen; they are gone when the value is looked at. */
static tn_status read_on(Context *ctx, const Bytes *bytes, TypeKind kind, Tensor *out, char name[16]) {
    Buffer *copy;
    Text text;
    TRY(buffer_new(&ctx->allocator, bytes->n, &copy));
    if (bytes->n) memcpy(copy->data, bytes->s, bytes->n);
    text_init(&text, &ctx->allocator);
    tn_status status = onnx_value_read(ctx, copy, kind, out, &text);
    if (name) snprintf(name, 16, "%s", text.s ? text.s : "");
    text_free(&text);
    buffer_unref(copy);
    return status;
}

typedef struct Reading {
    Context *ctx;
    Tensor value;
    char name[16];
} Reading;

static void begin(Reading *r) {
    OK(context_new(NULL, NULL, &r->ctx));
    r->value = (Tensor){0};
}

/* Takes the bytes. */
static tn_status read_as(Reading *r, Bytes bytes, TypeKind kind) {
    tensor_release(&r->value);
    diag_clear();
    tn_status status = read_on(r->ctx, &bytes, kind, &r->value, r->name);
    free(bytes.s);
    return status;
}

static void end(Reading *r) {
    tensor_release(&r->value);
    context_unref(r->ctx);
}

static void expect_error(Reading *r, Bytes bytes, TypeKind kind, tn_status status, const char *says) {
    assert_int_equal(read_as(r, bytes, kind), status);
    if (!strstr(diag_text(), says)) print_error("\"%s\" does not say \"%s\"\n", diag_text(), says);
    assert_non_null(strstr(diag_text(), says));
}

static const Tensor *item(const Tensor *t, size_t i) {
    assert_true(t->kind != TYPE_TENSOR && i < object_of(t)->n);
    return &object_of(t)->items[i];
}

static void test_sequences(void **state) {
    (void)state;
    Reading r;
    begin(&r);
    OK(read_as(&r, sequence_of(3, false), TYPE_SEQUENCE));
    assert_string_equal(r.name, "s");
    assert_int_equal(object_of(&r.value)->n, 3);
    assert_int_equal(item(&r.value, 2)->dims[0], 3);
    assert_true(((float *)item(&r.value, 2)->data)[2] == 22);
    OK(read_as(&r, sequence_of(0, false), TYPE_SEQUENCE));
    assert_int_equal(object_of(&r.value)->n, 0);
    OK(read_as(&r, (Bytes){0}, TYPE_SEQUENCE)); /* of nothing said */
    Bytes nested = {0};
    put_int(&nested, 2, SEQUENCE);
    put_sub(&nested, 5, sequence_of(2, true));
    OK(read_as(&r, nested, TYPE_SEQUENCE));
    assert_int_equal(item(item(&r.value, 0), 1)->rank, 0);
    Bytes mixed = sequence_of(1, false), unknown = sequence_of(1, false);
    put_sub(&mixed, 5, sequence_of(1, false));
    expect_error(&r, mixed, TYPE_SEQUENCE, TN_MALFORMED, "not of its own type");
    put_int(&unknown, 2, 9);
    expect_error(&r, unknown, TYPE_SEQUENCE, TN_UNSUPPORTED, "type 9");
    end(&r);
}

static void test_optionals(void **state) {
    (void)state;
    Reading r;
    begin(&r);
    OK(read_as(&r, optional_of(TENSOR, 3, numbers_of(2, 5)), TYPE_OPTIONAL));
    assert_string_equal(r.name, "o");
    assert_true(((float *)item(&r.value, 0)->data)[1] == 6);
    OK(read_as(&r, optional_of(SEQUENCE, 5, sequence_of(2, false)), TYPE_OPTIONAL));
    assert_int_equal(item(&r.value, 0)->kind, TYPE_SEQUENCE);
    OK(read_as(&r, optional_of(OPTIONAL, 7, optional_of(MAP, 6, map_of("a", sequence_of(1, true)))), TYPE_OPTIONAL));
    assert_int_equal(item(item(&r.value, 0), 0)->kind, TYPE_MAP);
    Bytes empty = {0};
    put_int(&empty, 2, 0);
    OK(read_as(&r, empty, TYPE_OPTIONAL));
    assert_int_equal(object_of(&r.value)->n, 0);
    Bytes typed = {0}; /* empty, but of a type */
    put_int(&typed, 2, TENSOR);
    OK(read_as(&r, typed, TYPE_OPTIONAL));
    assert_int_equal(object_of(&r.value)->n, 0);
    expect_error(&r, optional_of(SPARSE, 4, numbers_of(1, 0)), TYPE_OPTIONAL, TN_UNSUPPORTED, "sparse");
    Bytes deep = sequence_of(1, false);
    for (int i = 0; i < 100; i++) {
        Bytes around = {0};
        put_int(&around, 2, i ? OPTIONAL : SEQUENCE);
        put_sub(&around, i ? 7 : 5, deep);
        deep = around;
    }
    expect_error(&r, deep, TYPE_OPTIONAL, TN_LIMIT, "nested");
    end(&r);
}

static void test_maps(void **state) {
    (void)state;
    Reading r;
    begin(&r);
    OK(read_as(&r, map_of("b c a", sequence_of(3, true)), TYPE_MAP)); /* keys are sorted */
    Str first = rc_string_get(((RcString **)item(&r.value, 0)->data)[0]);
    assert_true(str_equal(first, STR("a")));
    assert_true(((float *)item(&r.value, 1)->data)[0] == 20 && ((float *)item(&r.value, 1)->data)[1] == 0);
    OK(read_as(&r, map_of("b a", sequence_of(2, false)), TYPE_MAP)); /* values of several sizes stay apart */
    assert_int_equal(item(&r.value, 1)->kind, TYPE_SEQUENCE);
    assert_int_equal(item(item(&r.value, 1), 0)->dims[0], 2);
    Bytes numbers = {0};
    put_int(&numbers, 2, TN_I32);
    put_int(&numbers, 3, 7);
    put_int(&numbers, 3, -7);
    put_sub(&numbers, 5, sequence_of(2, true));
    OK(read_as(&r, numbers, TYPE_MAP));
    assert_int_equal(((int32_t *)item(&r.value, 0)->data)[0], -7);
    Bytes floats = map_of("a", sequence_of(1, true)), none = {0};
    put_int(&floats, 2, TN_F32);
    expect_error(&r, floats, TYPE_MAP, TN_UNSUPPORTED, "keys");
    put_int(&none, 2, TN_STRING);
    expect_error(&r, none, TYPE_MAP, TN_MALFORMED, "no values");
    expect_error(&r, map_of("a b", sequence_of(1, true)), TYPE_MAP, TN_MALFORMED, "2 keys and 1 values");
    end(&r);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The file's bytes when it could be written. */
static tn_status write_value(Context *ctx, const Tensor *value, const char *name, Buffer **bytes) {
    char path[] = "/tmp/tenon-value-XXXXXX";
    FileWriter *writer;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tn_status status = file_writer_open(&ctx->allocator, path, &writer);
    if (status == TN_OK) {
        status = onnx_value_write(ctx, value, str_of(name), writer);
        if (status == TN_OK) status = file_writer_commit(writer);
        else file_writer_abort(writer);
    }
    if (status == TN_OK && bytes) status = file_map(&ctx->allocator, path, bytes);
    remove(path);
    return status;
}

static bool same_value(const Tensor *a, const Tensor *b) {
    if (a->kind != b->kind) return false;
    if (a->kind != TYPE_TENSOR) {
        bool same = object_of(a)->n == object_of(b)->n;
        for (size_t i = 0; same && i < object_of(a)->n; i++) same = same_value(item(a, i), item(b, i));
        return same;
    }
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims))
        return false;
    for (int64_t i = 0; a->dtype == TN_STRING && i < tensor_count(a); i++) {
        if (!str_equal(rc_string_get(((RcString **)a->data)[i]), rc_string_get(((RcString **)b->data)[i])))
            return false;
    }
    size_t bytes = a->dtype == TN_STRING ? 0 : (size_t)(tensor_count(a) * dtype_size(a->dtype));
    return bytes == 0 || memcmp(a->data, b->data, bytes) == 0;
}

/* Takes the bytes: what is read from them is written and read again. */
static void expect_round_trip(Reading *r, Bytes bytes, TypeKind kind) {
    Buffer *written;
    Tensor again;
    Text name;
    OK(read_as(r, bytes, kind));
    OK(write_value(r->ctx, &r->value, "again", &written));
    text_init(&name, &r->ctx->allocator);
    OK(onnx_value_read(r->ctx, written, kind, &again, &name));
    assert_string_equal(name.s, "again");
    assert_true(same_value(&r->value, &again));
    text_free(&name);
    tensor_release(&again);
    buffer_unref(written);
}

static Bytes everything(void) {
    Bytes b = {0};
    put_int(&b, 2, MAP);
    put_sub(&b, 6, map_of("one two", sequence_of(2, true)));
    put_sub(&b, 6, map_of("b a", sequence_of(2, false)));
    return optional_of(SEQUENCE, 5, b);
}

static void test_writing(void **state) {
    (void)state;
    Reading r;
    Bytes nested = {0}, numbers = {0}, empty = {0};
    begin(&r);
    expect_round_trip(&r, numbers_of(3, 1), TYPE_TENSOR);
    expect_round_trip(&r, sequence_of(0, false), TYPE_SEQUENCE);
    expect_round_trip(&r, sequence_of(3, false), TYPE_SEQUENCE);
    put_int(&nested, 2, OPTIONAL);
    put_sub(&nested, 7, optional_of(TENSOR, 3, numbers_of(2, 5)));
    put_sub(&nested, 7, (Bytes){0});
    expect_round_trip(&r, nested, TYPE_SEQUENCE);
    put_int(&empty, 2, 0);
    expect_round_trip(&r, empty, TYPE_OPTIONAL);
    expect_round_trip(&r, optional_of(OPTIONAL, 7, optional_of(SEQUENCE, 5, sequence_of(1, true))), TYPE_OPTIONAL);
    expect_round_trip(&r, map_of("b c a", sequence_of(3, true)), TYPE_MAP);
    expect_round_trip(&r, map_of("b a", sequence_of(2, false)), TYPE_MAP);
    put_int(&numbers, 2, TN_I32);
    put_int(&numbers, 3, 7);
    put_int(&numbers, 3, -7);
    put_sub(&numbers, 5, sequence_of(2, true));
    expect_round_trip(&r, numbers, TYPE_MAP);
    expect_round_trip(&r, everything(), TYPE_OPTIONAL);
    end(&r);
}

/* An object of n items, each a reference to `each`. */
static Tensor repeat(Context *ctx, TypeKind kind, const Tensor *each, size_t n) {
    Tensor out;
    OK(object_new(ctx, kind, n, &out));
    for (size_t i = 0; i < n; i++) OK(tensor_keep(ctx, each, &object_of(&out)->items[i]));
    return out;
}

static void refuse_to_write(Context *ctx, Tensor value, tn_status status, const char *says) {
    diag_clear();
    assert_int_equal(write_value(ctx, &value, "", NULL), status);
    assert_non_null(strstr(diag_text(), says));
    tensor_release(&value);
}

static void test_refused(void **state) {
    (void)state;
    Reading r;
    begin(&r);
    OK(read_as(&r, numbers_of(2, 1), TYPE_TENSOR));
    Tensor mixed = repeat(r.ctx, TYPE_SEQUENCE, &r.value, 2), *second = &object_of(&mixed)->items[1];
    tensor_release(second);
    *second = repeat(r.ctx, TYPE_OPTIONAL, &r.value, 1);
    refuse_to_write(r.ctx, mixed, TN_UNSUPPORTED, "several kinds");
    refuse_to_write(r.ctx, repeat(r.ctx, TYPE_MAP, &r.value, 2), TN_UNSUPPORTED, "strings or integers");
    OK(read_as(&r, map_of("a b", sequence_of(2, true)), TYPE_MAP));
    Tensor uneven = repeat(r.ctx, TYPE_MAP, item(&r.value, 0), 2), *values = &object_of(&uneven)->items[1];
    tensor_release(values);
    *values = repeat(r.ctx, TYPE_SEQUENCE, item(&r.value, 0), 3);
    refuse_to_write(r.ctx, uneven, TN_UNSUPPORTED, "each of its 2 keys");
    /* each level holds the one below twice: 2^60 values in a few objects */
    Tensor wide = repeat(r.ctx, TYPE_SEQUENCE, item(&r.value, 1), 1);
    for (int i = 0; i < 60; i++) {
        Tensor above = repeat(r.ctx, TYPE_SEQUENCE, &wide, 2);
        tensor_release(&wide);
        wide = above;
    }
    refuse_to_write(r.ctx, wide, TN_LIMIT, "more than");
    Tensor deep = repeat(r.ctx, TYPE_SEQUENCE, item(&r.value, 1), 1);
    for (int i = 0; i < 100; i++) {
        Tensor above = repeat(r.ctx, TYPE_SEQUENCE, &deep, 1);
        tensor_release(&deep);
        deep = above;
    }
    refuse_to_write(r.ctx, deep, TN_LIMIT, "nested");
    end(&r);
}

/* ---- any bytes --------------------------------------------------------------------------------------------------- */

static void test_damaged(void **state) {
    (void)state;
    Context *ctx;
    Bytes good = everything();
    OK(context_new(NULL, NULL, &ctx));
    for (size_t i = 0; i < good.n * 8 + good.n; i++) { /* each bit turned, each length */
        Bytes bad = {0};
        put(&bad, good.s, i < good.n ? i : good.n);
        if (i >= good.n) bad.s[(i - good.n) / 8] ^= (uint8_t)(1 << (i - good.n) % 8);
        for (TypeKind kind = TYPE_TENSOR; kind <= TYPE_MAP; kind++) {
            Tensor value = {0};
            if (read_on(ctx, &bad, kind, &value, NULL) == TN_OK) tensor_release(&value);
        }
        free(bad.s);
    }
    free(good.s);
    context_unref(ctx);
}

static void test_no_memory(void **state) {
    (void)state;
    Bytes good = everything();
    for (int64_t at = 1;; at++) {
        TestHeap heap;
        Context *ctx = NULL;
        Tensor value = {0};
        test_heap_init(&heap);
        heap.fail_at = at;
        tn_status status = context_new(&heap.allocator, NULL, &ctx);
        if (status == TN_OK) status = read_on(ctx, &good, TYPE_OPTIONAL, &value, NULL);
        tensor_release(&value);
        if (ctx) context_unref(ctx);
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        assert_int_equal(heap.living, 0);
        if (status == TN_OK) break;
    }
    free(good.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequences), cmocka_unit_test(test_optionals), cmocka_unit_test(test_maps),
        cmocka_unit_test(test_writing),   cmocka_unit_test(test_refused),   cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
