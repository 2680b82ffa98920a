/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors and the saved form that uses them: round trips, alignment, hostile files. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test_ir_common.h"

#include "formats/common/common.h"
#include "formats/tn/tn.h"

/* ---- helpers ------------------------------------------------------------------------------------------------- */

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/tenon_safe.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const char *path_of(const char *name) {
    static char paths[4][300];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool exists(const char *name) { return access(path_of(name), F_OK) == 0; }

static void write_bytes(const char *name, const void *data, size_t n) {
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    fclose(file);
}

static Buffer *map_file(const Allocator *a, const char *name) {
    Buffer *bytes;
    OK(file_map(a, path_of(name), &bytes));
    return bytes;
}

/* A safetensors file in memory: `head`, then `n` bytes. */
static tn_status open_text(const Allocator *a, const char *head, size_t n, SafeTensors **file) {
    Buffer *bytes;
    size_t length = strlen(head);
    OK(buffer_new(a, 8 + length + n, &bytes));
    for (int i = 0; i < 8; i++) bytes->data[i] = (uint8_t)((uint64_t)length >> 8 * i);
    memcpy(bytes->data + 8, head, length);
    tn_status status = safetensors_open(a, bytes, file);
    buffer_unref(bytes);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

static void test_read(void **state) {
    (void)state;
    TestHeap heap;
    SafeTensors *file;
    Tensor t;
    test_heap_init(&heap);
    OK(open_text(
        &heap.allocator,
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
        "\"b\\u00e9\":{\"data_offsets\":[8,9],\"shape\":[],\"dtype\":\"BOOL\"},"
        "\"empty\":{\"dtype\":\"I64\",\"shape\":[0,3],\"data_offsets\":[9,9]},"
        "\"odd\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[9,12]}}   ",
        12, &file));
    assert_int_equal(safetensors_count(file), 4);
    assert_true(str_equal(safetensors_metadata(file, STR("format")), STR("pt")));
    assert_null(safetensors_metadata(file, STR("none")).s);
    assert_null(safetensors_find(file, STR("none")));
    assert_non_null(safetensors_find(file, STR("b\xc3\xa9")));
    OK(safetensors_tensor(file, safetensors_find(file, STR("a")), &t));
    assert_int_equal(t.dtype, TN_F32);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.dims[0], 2);
    Tensor unknown = {0};
    assert_int_equal(safetensors_tensor(file, safetensors_find(file, STR("odd")), &unknown), TN_UNSUPPORTED);
    safetensors_close(file);
    assert_int_equal(((const uint8_t *)t.data)[7], 0); /* the tensor keeps the bytes */
    tensor_release(&t);
    assert_int_equal(heap.living, 0);
}

#define ENTRY(dtype, shape, offsets) "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

#define TWO(a, shape_a, place_a, b, shape_b, place_b)                                    \
    ("{\"" a "\":{\"dtype\":\"U8\",\"shape\":" shape_a ",\"data_offsets\":" place_a "}," \
     "\"" b "\":{\"dtype\":\"U8\",\"shape\":" shape_b ",\"data_offsets\":" place_b "}}")

static void test_hostile_heads(void **state) {
    (void)state;
    static const char *const heads[] = {
        "",
        "[]",
        "1",
        "{",
        "{\"a\":1}",
        "{\"a\":{}}",
        "nonsense",
        "{\"a\":[]}",
        "{}{}",
        "{} x",
        "{\"\\ud800\":{}}",
        ENTRY("\"F32\"", "[2]", "[0,7]"),
        ENTRY("\"F32\"", "[2]", "[0,9]"),
        ENTRY("\"F32\"", "[2]", "[0,16]"),
        ENTRY("\"F32\"", "[2]", "[8,16]"),
        ENTRY("\"F32\"", "[2]", "[8,0]"),
        ENTRY("\"F32\"", "[2]", "[-8,0]"),
        ENTRY("\"F32\"", "[-2]", "[0,8]"),
        ENTRY("\"F32\"", "[2.0]", "[0,8]"),
        ENTRY("\"F32\"", "[\"2\"]", "[0,8]"),
        ENTRY("\"F32\"", "2", "[0,8]"),
        ENTRY("\"F32\"", "[2]", "[0]"),
        ENTRY("\"F32\"", "[2]", "[0,8,8]"),
        ENTRY("\"F32\"", "[2]", "[0.0,8]"),
        ENTRY("\"F32\"", "[2]", "{}"),
        ENTRY("1", "[2]", "[0,8]"),
        ENTRY("null", "[2]", "[0,8]"),
        ENTRY("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"),
        ENTRY("\"F32\"", "[9223372036854775807,9223372036854775807]", "[0,8]"),
        ENTRY("\"F32\"", "[4611686018427387906]", "[0,8]"),
        ENTRY("\"F32\"", "[99999999999999999999]", "[0,8]"),
        ENTRY("\"F32\"", "[0,9223372036854775807,9223372036854775807]", "[0,0]"),
        ENTRY("\"F32\"", "[2]", "[0,18446744073709551615]"),
        ENTRY("\"F32\"", "[2]", "[9223372036854775800,9223372036854775807]"),
        ENTRY("\"FOO\"", "[2]", "[0,80]"),
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[[[[[2]]]]],\"data_offsets\":[0,2]}}",
        "{\"__metadata__\":1}",
        "{\"__metadata__\":{\"a\":1}}",
        TWO("a", "[2]", "[0,2]", "a", "[2]", "[2,4]"),
        TWO("a", "[4]", "[0,4]", "b", "[4]", "[3,7]"),
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        SafeTensors *file = (SafeTensors *)&heads;
        tn_status status = open_text(&allocator_default, heads[i], 8, &file);
        if (status == TN_OK) print_error("accepted: %s\n", heads[i]);
        assert_int_not_equal(status, TN_OK);
        assert_null(file);
    }
}

static void test_hostile_lengths(void **state) {
    (void)state;
    for (size_t size = 0; size < 12; size++)
        for (int fill = 0; fill < 256; fill += 51) {
            Buffer *bytes;
            SafeTensors *file;
            OK(buffer_new(&allocator_default, size, &bytes));
            if (size > 0) memset(bytes->data, fill, size);
            assert_int_not_equal(safetensors_open(&allocator_default, bytes, &file), TN_OK);
            buffer_unref(bytes);
        }
    char *deep = calloc(1, 1000001);
    SafeTensors *file;
    memset(deep, '[', 1000000);
    assert_int_equal(open_text(&allocator_default, deep, 8, &file), TN_MALFORMED);
    free(deep);
    deep = calloc(1, (33 << 20) + 1);
    memset(deep, ' ', 33 << 20);
    assert_int_equal(open_text(&allocator_default, deep, 8, &file), TN_LIMIT);
    free(deep);
}

static void test_mutations(void **state) {
    (void)state;
    static const char head[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"__metadata__\":{\"k\":\"v\"},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[8,12]}}";
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 50000; round++) {
        char text[sizeof head];
        SafeTensors *file;
        memcpy(text, head, sizeof head);
        for (int k = 0; k <= round % 3; k++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            char fresh = "{}[]\",:0123456789-\\e \x80"[random % 22];
            text[(random >> 32) % (sizeof head - 1)] = fresh ? fresh : ' ';
        }
        if (open_text(&allocator_default, text, 12, &file) != TN_OK) continue;
        for (size_t i = 0; i < safetensors_count(file); i++) {
            Tensor t;
            if (safetensors_tensor(file, safetensors_entry(file, i), &t) != TN_OK) continue;
            size_t bytes;
            OK(checked_bytes(t.dtype, tensor_count(&t), &bytes));
            for (size_t k = 0; k < bytes; k++) (void)((const volatile uint8_t *)t.data)[k];
            tensor_release(&t);
        }
        safetensors_close(file);
    }
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

static void fill_tensor(Tensor *t) {
    size_t bytes;
    OK(checked_bytes(t->dtype, tensor_count(t), &bytes));
    for (size_t i = 0; i < bytes; i++) ((uint8_t *)t->data)[i] = (uint8_t)(i * 7 + t->dtype);
}

static void test_write_every_type(void **state) {
    (void)state;
    Context *ctx;
    Tensor tensors[TN_DTYPE_END] = {0};
    SafeItem items[TN_DTYPE_END];
    char names[TN_DTYPE_END][32];
    size_t n = 0;
    OK(context_new(NULL, NULL, &ctx));
    for (int dtype = 1; dtype < TN_DTYPE_END; dtype++) {
        if (dtype == TN_STRING) continue;
        OK(tensor_new(ctx, dtype, 2, (int64_t[]){3, dtype}, &tensors[n]));
        fill_tensor(&tensors[n]);
        snprintf(names[n], sizeof names[n], "t\"\\\xc3\xa9 %d", dtype);
        items[n] = (SafeItem){str_of(names[n]), &tensors[n]};
        n++;
    }
    OK(safetensors_write(&ctx->allocator, path_of("all.safetensors"), "test", items, n));
    Buffer *bytes = map_file(&ctx->allocator, "all.safetensors");
    SafeTensors *file;
    OK(safetensors_open(&ctx->allocator, bytes, &file));
    assert_true(str_equal(safetensors_metadata(file, STR("format")), STR("test")));
    for (size_t i = 0; i < n; i++) {
        Tensor t;
        size_t size;
        const SafeEntry *entry = safetensors_find(file, items[i].name);
        assert_non_null(entry);
        OK(safetensors_tensor(file, entry, &t));
        OK(checked_bytes(tensors[i].dtype, tensor_count(&tensors[i]), &size));
        bool native = safetensors_dtype(tensors[i].dtype) != NULL;
        assert_int_equal(t.dtype, native ? tensors[i].dtype : TN_U8);
        assert_int_equal(tensor_count(&t), native ? tensor_count(&tensors[i]) : (int64_t)size);
        assert_memory_equal(t.data, tensors[i].data, size);
        assert_int_equal((uintptr_t)t.data % 64, 0);
        tensor_release(&t);
        tensor_release(&tensors[i]);
    }
    safetensors_close(file);
    buffer_unref(bytes);
    context_unref(ctx);
}

/* Transposed, broadcast, shifted and packed readings become dense. */
static void test_write_strided(void **state) {
    (void)state;
    Context *ctx;
    Tensor base, packed;
    OK(context_new(NULL, NULL, &ctx));
    OK(tensor_new(ctx, TN_I16, 2, (int64_t[]){2, 3}, &base));
    OK(tensor_new(ctx, TN_I4, 1, (int64_t[]){6}, &packed));
    for (int i = 0; i < 6; i++) ((int16_t *)base.data)[i] = (int16_t)i;
    memcpy(packed.data, "\x21\x43\x65", 3);
    Tensor turned = base, repeated = base, shifted = packed;
    turned.dims[0] = 3, turned.dims[1] = 2, turned.strides[0] = 1, turned.strides[1] = 3;
    repeated.offset = 3, repeated.strides[0] = 0;
    shifted.offset = 1, shifted.dims[0] = 4;
    const SafeItem items[] = {{STR("turned"), &turned}, {STR("repeated"), &repeated}, {STR("shifted"), &shifted}};
    OK(safetensors_write(&ctx->allocator, path_of("strided.safetensors"), "test", items, 3));
    Buffer *bytes = map_file(&ctx->allocator, "strided.safetensors");
    SafeTensors *file;
    OK(safetensors_open(&ctx->allocator, bytes, &file));
    static const int16_t want_turned[] = {0, 3, 1, 4, 2, 5}, want_repeated[] = {3, 4, 5, 3, 4, 5};
    assert_memory_equal(bytes->data + safetensors_find(file, STR("turned"))->begin, want_turned, 12);
    assert_memory_equal(bytes->data + safetensors_find(file, STR("repeated"))->begin, want_repeated, 12);
    assert_memory_equal(bytes->data + safetensors_find(file, STR("shifted"))->begin, "\x32\x54", 2);
    safetensors_close(file);
    buffer_unref(bytes);
    tensor_release(&base);
    tensor_release(&packed);
    context_unref(ctx);
}

/* ---- the saved form ------------------------------------------------------------------------------------------ */

/* Constants of 100 elements of every type, one of them twice. */
static Model *make_model(Context *ctx) {
    Model *model;
    Node *node;
    Tensor *t = NULL;
    OK(model_new(ctx, &model));
    for (int dtype = 1; dtype < TN_DTYPE_END; dtype++) {
        char name[32];
        if (dtype == TN_STRING) continue;
        OK(model_tensor(model, &t));
        OK(tensor_new(ctx, dtype, 2, (int64_t[]){10, 30}, t));
        fill_tensor(t);
        snprintf(name, sizeof name, dtype % 2 ? "w:\"%d" : "__%d", dtype);
        OK(const_new(model->main, t, dtype == TN_F32 ? STR("plain") : str_of(name), &node));
        node_append(node);
    }
    OK(const_new(model->main, t, STR("same"), &node));
    node_append(node);
    OK(model_tensor(model, &t));
    OK(tensor_new(ctx, TN_STRING, 1, (int64_t[]){40}, t));
    OK(rc_string_new(&ctx->allocator, STR("text"), (RcString **)t->data + 39));
    OK(const_new(model->main, t, STR("strings"), &node));
    node_append(node);
    OK(graph_add_output(model->main, node->results[0], STR("out")));
    return model;
}

static void assert_same_constants(const Model *a, const Model *b) {
    const Node *x = a->main->first, *y = b->main->first;
    for (; x && y; x = x->next, y = y->next) {
        const Tensor *t = value_constant(x->results[0]), *u = value_constant(y->results[0]);
        size_t bytes;
        assert_int_equal(t->dtype, u->dtype);
        assert_int_equal(t->rank, u->rank);
        assert_true(str_equal(x->results[0]->name, y->results[0]->name));
        if (t->dtype == TN_STRING) continue;
        OK(checked_bytes(t->dtype, tensor_count(t), &bytes));
        assert_memory_equal(t->data, u->data, bytes);
    }
    assert_true(!x && !y);
}

static tn_status read_model(Context *ctx, const char *name, Model **out) {
    Buffer *bytes = map_file(&ctx->allocator, name);
    assert_true(tn_format_probe(bytes->data, bytes->size));
    tn_status status = tn_format_read(ctx, bytes, path_of(name), folder, out);
    buffer_unref(bytes);
    return status;
}

static void test_saved_form(void **state) {
    (void)state;
    TestHeap heap;
    Context *ctx;
    Model *again, *third;
    test_heap_init(&heap);
    OK(context_new(&heap.allocator, NULL, &ctx));
    Model *model = make_model(ctx);
    OK(tn_format_write(model, path_of("m.tn")));
    assert_true(exists("m.safetensors"));
    OK(read_model(ctx, "m.tn", &again));
    assert_same_constants(model, again);
    const Tensor *last = value_constant(again->main->last->prev->results[0]);
    assert_ptr_equal(last->data, value_constant(again->main->last->prev->prev->results[0])->data);
    /* Saved over itself while its weights are mapped. */
    OK(tn_format_write(again, path_of("m.tn")));
    OK(read_model(ctx, "m.tn", &third));
    assert_same_constants(model, third);
    model_free(model);
    model_free(again);
    model_free(third);
    context_unref(ctx);
    assert_int_equal(heap.living, 0);
}

/* Weights that somebody else put there stay. */
static void test_foreign_weights(void **state) {
    (void)state;
    Context *ctx;
    Model *again;
    struct stat info;
    OK(context_new(NULL, NULL, &ctx));
    Model *model = make_model(ctx);
    write_bytes("f:1.safetensors", "something else", 14);
    write_bytes("f_1.safetensors", "something else", 14);
    OK(tn_format_write(model, path_of("f:1.tn")));
    assert_int_equal(stat(path_of("f_1.safetensors"), &info), 0);
    assert_int_equal(info.st_size, 14);
    assert_true(exists("f_1.tn.safetensors"));
    OK(read_model(ctx, "f:1.tn", &again));
    assert_same_constants(model, again);
    model_free(again);
    write_bytes("f_1.tn.safetensors", "{}", 2);
    assert_int_equal(tn_format_write(model, path_of("f:1.tn")), TN_IO);
    model_free(model);
    context_unref(ctx);
}

static void test_small_model_is_one_file(void **state) {
    (void)state;
    Context *ctx;
    Model *model;
    OK(context_new(NULL, NULL, &ctx));
    OK(model_parse(ctx, STR("tn 1 graph(%x: f32[2]) -> (%y) { %y = Add(%x, f32[16] 1.0) }"), NULL, (Str){0}, &model));
    OK(tn_format_write(model, path_of("small.tn")));
    assert_false(exists("small.safetensors"));
    model_free(model);
    context_unref(ctx);
}

static void test_bad_references(void **state) {
    (void)state;
    static const char *const references[][2] = {
        {"m.safetensors:none", "holds no tensor"},
        {"../m.safetensors:plain", "m.safetensors"},
        {"/etc/passwd:x", "passwd"},
        {"none.safetensors:x", "none.safetensors"},
        {"bad.safetensors:x", "bad.safetensors"},
    };
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    Model *model = make_model(ctx);
    OK(tn_format_write(model, path_of("m.tn")));
    model_free(model);
    write_bytes("bad.safetensors", "\1\0\0\0\0\0\0\0[", 9);
    for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
        char text[200];
        int n = snprintf(text, sizeof text, "# c\ntn 1\ngraph() -> () { %%c = Const {data = @\"%s\"} }",
                         references[i][0]);
        write_bytes("r.tn", text, (size_t)n);
        assert_int_not_equal(read_model(ctx, "r.tn", &model), TN_OK);
        assert_says(references[i][1]);
    }
    Buffer *bytes = map_file(&ctx->allocator, "m.tn");
    assert_int_equal(tn_format_read(ctx, bytes, NULL, NULL, &model), TN_IO);
    assert_says("folder is not known");
    buffer_unref(bytes);
    context_unref(ctx);
}

static void test_probe(void **state) {
    (void)state;
    static const char *const good[] = {"tn 1\n", "  # c\n\n#\ntn\t12", "tn 1"};
    static const char *const bad[] = {"", "tn", "tn ", "tnx 1", "# tn 1", "\0tn 1", "graph", "tn\n1", "tn x"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(tn_format_probe((const uint8_t *)good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(tn_format_probe((const uint8_t *)bad[i], strlen(bad[i])));
}

/* The n-th allocation fails, in writing and in reading; and no half of a model is left under its name. */
static void test_failing_memory(void **state) {
    (void)state;
    int64_t fail_at = 1;
    for (bool done = false; !done; fail_at += 1 + fail_at / 50) {
        TestHeap heap;
        Context *ctx;
        Model *again = NULL;
        test_heap_init(&heap);
        OK(context_new(&heap.allocator, NULL, &ctx));
        Model *model = make_model(ctx);
        heap.fail_at = heap.calls + fail_at;
        tn_status status = tn_format_write(model, path_of("oom.tn"));
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        Buffer *bytes = NULL;
        if (status == TN_OK) status = file_map(&ctx->allocator, path_of("oom.tn"), &bytes);
        if (status == TN_OK) status = tn_format_read(ctx, bytes, path_of("oom.tn"), folder, &again);
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        done = status == TN_OK;
        buffer_unref(bytes);
        model_free(again);
        model_free(model);
        context_unref(ctx);
        assert_int_equal(heap.living, 0);
    }
    assert_true(fail_at > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_hostile_heads),
        cmocka_unit_test(test_hostile_lengths),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_write_every_type),
        cmocka_unit_test(test_write_strided),
        cmocka_unit_test(test_saved_form),
        cmocka_unit_test(test_foreign_weights),
        cmocka_unit_test(test_small_model_is_one_file),
        cmocka_unit_test(test_bad_references),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_failing_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
