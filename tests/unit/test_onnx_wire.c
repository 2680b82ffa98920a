/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX as hostile bytes: cut off anywhere, mutated, with lying lengths, wrong wire types, endless nesting. */
#include "test_onnx_sample.h"

static void reads_the_sample(void **state) {
    (void)state;
    OnnxTest t;
    onnx_begin(&t, NULL);
    OK(read_model(&t, sample_model()));
    assert_string_equal(ops_of(t.model->main), "Mul Add Flatten Softmax Reshape Clip ReduceMean If");
    assert_true(str_equal(model_metadata(t.model, STR("key")), STR("value")));
    onnx_end(&t);
}

/* Every prefix is read to its end or refused; where it is refused the message has a place or a name. */
static void survives_truncation(void **state) {
    (void)state;
    OnnxTest t;
    Bytes b = sample_model();
    onnx_begin(&t, NULL);
    for (size_t n = 0; n < b.n; n++) {
        if (read_bytes(&t, b.s, n, NULL) != TN_OK) assert_true(diag_text()[0]);
    }
    onnx_end(&t);
    free(b.s);
}

static void survives_mutation(void **state) {
    (void)state;
    survive_mutations(20000, 88172645463325252u);
}

/* Each failing allocation is a clean error. */
static void survives_lack_of_memory(void **state) {
    (void)state;
    Bytes b = sample_model();
    bool done = false;
    for (int64_t n = 1; !done; n++) {
        OnnxTest t;
        onnx_begin(&t, NULL);
        t.heap.fail_at = t.heap.calls + n;
        tn_status status = read_bytes(&t, b.s, b.n, NULL);
        if (status != TN_OK && status != TN_OUT_OF_MEMORY)
            print_error("allocation %lld: %s\n", (long long)n, diag_text());
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        done = status == TN_OK;
        t.heap.fail_at = 0;
        onnx_end(&t);
    }
    free(b.s);
}

static void refuses_what_is_no_model(void **state) {
    (void)state;
    OnnxTest t;
    onnx_begin(&t, NULL);
    refuse(&t, (Bytes){0}, TN_MALFORMED, "no graph");
    Bytes text = {0};
    put(&text, "hello, world: not a model\n", 26);
    assert_false(format_onnx.probe(text.s, text.n));
    refuse(&t, text, TN_MALFORMED, "damaged");
    onnx_end(&t);
}

static void refuses_bad_varints(void **state) {
    (void)state;
    OnnxTest t;
    onnx_begin(&t, NULL);
    Bytes b = {0};
    put(&b, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12); /* 11 bytes */
    refuse(&t, b, TN_MALFORMED, "byte 0");
    b = (Bytes){0};
    put(&b, "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10); /* a graph of 2^63 - 1 bytes */
    refuse(&t, b, TN_MALFORMED, "length");
    b = (Bytes){0};
    put(&b, "\x00\x00", 2); /* field number 0 */
    refuse(&t, b, TN_MALFORMED, "number");
    onnx_end(&t);
}

static void refuses_wrong_wire_types(void **state) {
    (void)state;
    OnnxTest t;
    onnx_begin(&t, NULL);
    Bytes b = {0};
    put_int(&b, 7, 5); /* the graph as a number */
    refuse(&t, b, TN_MALFORMED, "wire type");
    b = (Bytes){0};
    put_str(&b, 1, "8"); /* the version as text */
    refuse(&t, b, TN_MALFORMED, "wire type");
    Bytes relu = node_of("Relu", "x", "y"), a = {0};
    put_str(&a, 1, "axes");
    put_float(&a, 8, 1.0f); /* integers as floats */
    put_sub(&relu, 5, a);
    refuse(&t, unary_model(relu, 13), TN_MALFORMED, "wire type");
    onnx_end(&t);
}

static void skips_unknown_fields(void **state) {
    (void)state;
    OnnxTest t;
    onnx_begin(&t, NULL);
    Bytes b = unary_model(node_of("Relu", "x", "y"), 13);
    for (int i = 0; i < 100000; i++) put_int(&b, 500 + (uint32_t)(i % 7), i);
    size_t before = t.heap.living;
    OK(read_model(&t, b));
    assert_true(t.heap.living - before < 1 << 20);
    b = unary_model(node_of("Relu", "x", "y"), 13);
    for (int i = 0; i < 1000; i++) put(&b, "\x9b\x3e", 2); /* groups within groups */
    refuse(&t, b, TN_MALFORMED, "wire");
    onnx_end(&t);
}

static Bytes deep_graph(int depth) {
    Bytes graph = {0};
    put_sub(&graph, 1, node_of("Identity", "x", "y0"));
    add_output(&graph, "y0");
    for (int i = 0; i < depth; i++) {
        Bytes node = node_of("If", "c", "y"), other = {0}, outer = {0};
        put_sub(&other, 1, node_of("Identity", "x", "e"));
        add_output(&other, "e");
        with_graph(&node, "then_branch", graph);
        with_graph(&node, "else_branch", other);
        put_sub(&outer, 1, node);
        add_output(&outer, "y");
        graph = outer;
    }
    return graph;
}

static void bounds_nesting(void **state) {
    (void)state;
    OnnxTest t;
    onnx_begin(&t, NULL);
    for (int depth = 3; depth <= 3000; depth *= 10) {
        Bytes graph = deep_graph(depth);
        add_input(&graph, "x", 1, (int64_t[]){1}, 1);
        add_input(&graph, "c", 9, NULL, 0);
        if (depth < 60) OK(read_model(&t, model_of(graph, 13)));
        else refuse(&t, model_of(graph, 13), TN_LIMIT, "nested");
    }
    /* a type within a type */
    Bytes type = {0}, info = {0}, graph = {0};
    for (int i = 0; i < 5000; i++) {
        Bytes wrapper = {0}, outer = {0};
        put_sub(&wrapper, 1, type);
        put_sub(&outer, 4, wrapper);
        type = outer;
    }
    put_str(&info, 1, "x");
    put_sub(&info, 2, type);
    put_sub(&graph, 11, info);
    refuse(&t, model_of(graph, 13), TN_LIMIT, "nested");
    onnx_end(&t);
}

static void refuses_names_that_are_no_text(void **state) {
    (void)state;
    OnnxTest t;
    onnx_begin(&t, NULL);
    refuse(&t, unary_model(node_of("Relu", "x", "y\xff"), 13), TN_MALFORMED, "not text");
    Bytes node = {0};
    put_str(&node, 1, "x");
    put_bytes(&node, 2, "y\0z", 3);
    put_str(&node, 4, "Relu");
    refuse(&t, unary_model(node, 13), TN_MALFORMED, "not text");
    onnx_end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_sample),         cmocka_unit_test(survives_truncation),
        cmocka_unit_test(survives_mutation),        cmocka_unit_test(survives_lack_of_memory),
        cmocka_unit_test(refuses_what_is_no_model), cmocka_unit_test(refuses_bad_varints),
        cmocka_unit_test(refuses_wrong_wire_types), cmocka_unit_test(skips_unknown_fields),
        cmocka_unit_test(bounds_nesting),           cmocka_unit_test(refuses_names_that_are_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
