/* SPDX-License-Identifier: Apache-2.0 */
/* Types: interning, merging, text. Tensors: sizes, strides, strings. */
#include "test_ir_common.h"

static Shape shape2(Dim a, Dim b) { return (Shape){.rank = 2, .dims = {a, b}}; }

static void assert_type_prints(const Model *model, const Type *type, const char *expected) {
    Text text;
    text_init(&text, &allocator_default);
    type_print(model, type, &text);
    assert_string_equal(text.s, expected);
    text_free(&text);
}

static void test_interned(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Model *m = f.model;
    Shape s = shape2(2, dim_symbol(&m->dims, STR("n"))), any = shape_unknown();
    const Type *t = type_tensor(m, TN_F32, &s);
    s.dims[5] = 99; /* beyond the rank: does not count */
    assert_ptr_equal(type_tensor(m, TN_F32, &s), t);
    assert_ptr_not_equal(type_tensor(m, TN_F16, &s), t);
    assert_ptr_equal(type_tensor(m, TN_UNDEFINED, &any), m->type_any);
    assert_ptr_equal(type_of_kind(m, TYPE_SEQUENCE, t), type_of_kind(m, TYPE_SEQUENCE, t));
    for (int i = 0; i < 5000; i++) {
        Shape big = shape2(i, i + 1);
        const Type *u = type_tensor(m, TN_I8, &big);
        assert_ptr_equal(type_tensor(m, TN_I8, &big), u);
    }
    const Type *deep = t;
    for (int i = 0; i < 100 && deep; i++) deep = type_of_kind(m, TYPE_OPTIONAL, deep);
    assert_null(deep);
    assert_int_equal(diag_status(), TN_LIMIT);
    fixture_end(&f);
}

static void test_printed(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Model *m = f.model;
    Shape s = shape2(dim_symbol(&m->dims, STR("batch")), 3), any = shape_unknown(), scalar = {.rank = 0};
    assert_type_prints(m, type_tensor(m, TN_F32, &s), "f32[batch,3]");
    assert_type_prints(m, type_tensor(m, TN_I64, &scalar), "i64[]");
    assert_type_prints(m, type_tensor(m, TN_I64, &any), "i64[*]");
    assert_type_prints(m, m->type_any, "?");
    assert_type_prints(m, type_of_kind(m, TYPE_SEQUENCE, type_of_kind(m, TYPE_OPTIONAL, m->type_any)), "seq(opt(?))");
    Type map = {.kind = TYPE_MAP, .dtype = TN_STRING, .elem = type_tensor(m, TN_F32, &scalar)};
    assert_type_prints(m, type_intern(m, &map), "map(str, f32[])");
    Layout layout = {.rank = 2, .block_axis = 1, .block = 8, .perm = {1, 0}};
    float scales[] = {0.5f, 2};
    int64_t zeros[] = {0, 3};
    Quant quant = {.axis = 1, .n = 2, .scales = scales, .zeros = zeros};
    Type full = {.kind = TYPE_TENSOR, .dtype = TN_U8, .shape = shape2(4, 2), .layout = &layout, .quant = &quant};
    const Type *t = type_intern(m, &full);
    assert_ptr_not_equal(t->layout, &layout);
    assert_type_prints(m, t, "u8[4,2] @[1,0;1:8] quant(scale=[0.5,2.0], zero=[0,3], axis=1)");
    assert_ptr_equal(type_intern(m, &full), t);
    quant.zeros = NULL;
    const Type *symmetric = type_intern(m, &full);
    zeros[1] = 0;
    quant.zeros = zeros;
    assert_ptr_equal(type_intern(m, &full), symmetric); /* no zero points are zero points of zero */
    assert_int_equal(symmetric->quant->zeros[1], 0);
    fixture_end(&f);
}

static void test_merged(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Model *m = f.model;
    Dim n = dim_symbol(&m->dims, STR("n")), k = dim_symbol(&m->dims, STR("k"));
    Shape a = shape2(n, DIM_UNKNOWN), b = shape2(k, 7), c = shape2(4, 7), d = shape2(5, 7), any = shape_unknown();
    const Type *ta = type_tensor(m, TN_F32, &a), *tb = type_tensor(m, TN_UNDEFINED, &b), *merged;
    OK(type_merge(m, ta, tb, &merged));
    assert_type_prints(m, merged, "f32[n,7]");
    OK(type_merge(m, merged, type_tensor(m, TN_F32, &c), &merged));
    assert_type_prints(m, merged, "f32[4,7]");
    assert_int_equal(type_merge(m, merged, type_tensor(m, TN_F32, &d), &merged), TN_SHAPE);
    assert_says("f32[4,7] and f32[5,7]");
    assert_int_equal(type_merge(m, ta, type_tensor(m, TN_F16, &any), &merged), TN_SHAPE);
    const Type *seq = type_of_kind(m, TYPE_SEQUENCE, ta), *seq_b = type_of_kind(m, TYPE_SEQUENCE, tb);
    OK(type_merge(m, m->type_any, seq, &merged));
    assert_ptr_equal(merged, seq);
    OK(type_merge(m, seq, seq_b, &merged));
    assert_type_prints(m, merged, "seq(f32[n,7])");
    assert_int_equal(type_merge(m, seq, ta, &merged), TN_SHAPE);
    fixture_end(&f);
}

/* ---- tensors ------------------------------------------------------------------------------------------------- */

static void test_new_tensors(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Tensor t;
    int64_t dims[] = {2, 3, 5}, bad[] = {2, -1}, huge[] = {(int64_t)1 << 40, (int64_t)1 << 40},
            large[] = {(int64_t)1 << 35}, empty[] = {0, 4};
    OK(tensor_new(f.ctx, TN_I4, 3, dims, &t));
    assert_int_equal(t.buffer->size, 15);
    assert_int_equal((uintptr_t)t.data % 64, 0);
    assert_int_equal(t.strides[0], 15);
    assert_int_equal(tensor_count(&t), 30);
    assert_true(tensor_is_dense(&t));
    tensor_release(&t);
    assert_int_equal(tensor_new(f.ctx, TN_F32, 2, bad, &t), TN_SHAPE);
    assert_int_equal(tensor_new(f.ctx, TN_F32, 2, huge, &t), TN_LIMIT);
    assert_int_equal(tensor_new(f.ctx, TN_F32, 1, large, &t), TN_LIMIT);
    assert_int_equal(tensor_new(f.ctx, TN_F32, TN_MAX_RANK + 1, dims, &t), TN_SHAPE);
    assert_int_equal(tensor_new(f.ctx, TN_UNDEFINED, 1, dims, &t), TN_INVALID_ARGUMENT);
    OK(tensor_new(f.ctx, TN_F32, 2, empty, &t));
    assert_int_equal(tensor_count(&t), 0);
    assert_true(tensor_is_dense(&t));
    tensor_release(&t);
    fixture_end(&f);
}

/* Elements lose their references with the last reference to the buffer, not before. */
static void test_strings(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Tensor t;
    int64_t dims[] = {3};
    OK(tensor_new(f.ctx, TN_STRING, 1, dims, &t));
    size_t before = f.heap.living;
    RcString **strings = t.data;
    OK(rc_string_new(&f.ctx->allocator, STR("hello"), &strings[0]));
    strings[2] = rc_string_ref(strings[0]);
    Tensor other = t;
    buffer_ref(other.buffer);
    tensor_release(&t);
    assert_true(f.heap.living > before);
    assert_true(str_equal(rc_string_get(((RcString **)other.data)[2]), STR("hello")));
    tensor_release(&other);
    fixture_end(&f);
}

static void test_ints(void **state) {
    (void)state;
    Fixture f;
    fixture_begin(&f);
    Tensor t;
    int64_t dims[] = {2, 3}, out[6], n;
    OK(tensor_new(f.ctx, TN_I16, 2, dims, &t));
    for (int i = 0; i < 6; i++) ((int16_t *)t.data)[i] = (int16_t)(10 * i - 20);
    OK(tensor_ints(&t, out, 6, &n));
    assert_int_equal(n, 6);
    assert_int_equal(out[0], -20);
    assert_int_equal(tensor_ints(&t, out, 5, &n), TN_SHAPE);
    /* Transposed. */
    Tensor turned = t;
    turned.dims[0] = 3, turned.dims[1] = 2, turned.strides[0] = 1, turned.strides[1] = 3;
    assert_false(tensor_is_dense(&turned));
    OK(tensor_ints(&turned, out, 6, &n));
    static const int64_t expected[] = {-20, 10, -10, 20, 0, 30};
    assert_memory_equal(out, expected, sizeof expected);
    t.dtype = TN_F16;
    assert_int_equal(tensor_ints(&t, out, 6, &n), TN_INVALID_ARGUMENT);
    tensor_release(&t);
    tensor_set_dense(&t, TN_BOOL, 1, dims);
    assert_int_equal(tensor_ints(&t, out, 6, &n), TN_INVALID_ARGUMENT); /* no bytes */
    fixture_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interned),    cmocka_unit_test(test_printed), cmocka_unit_test(test_merged),
        cmocka_unit_test(test_new_tensors), cmocka_unit_test(test_strings), cmocka_unit_test(test_ints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
