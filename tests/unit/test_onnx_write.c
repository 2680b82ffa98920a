/* SPDX-License-Identifier: Apache-2.0 */
/* Writing ONNX: what is written reads back as the same graph. */
#include <sys/stat.h>
#include <unistd.h>

#include "test_onnx_sample.h"

static OnnxTest t;
static char path[64];

static int begin(void **state) {
    (void)state;
    onnx_begin(&t, NULL);
    snprintf(path, sizeof path, "/tmp/tenon-onnx-write-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    return close(fd);
}

static int end(void **state) {
    (void)state;
    onnx_end(&t);
    return remove(path);
}

static char *text_of(const Model *model) {
    Text text;
    text_init(&text, &model->ctx->allocator);
    OK(model_print(model, NULL, &text));
    char *copy = strdup(text.s);
    text_free(&text);
    return copy;
}

static void read_back(void) {
    Buffer *buffer;
    OK(file_map(&t.ctx->allocator, path, &buffer));
    model_free(t.model);
    t.model = NULL;
    OK(format_onnx.read(t.ctx, buffer, path, NULL, &t.model));
    buffer_unref(buffer);
    OK(model_verify(t.model));
}

/* The graph's text is the same after writing and reading once more. */
static void round_trip(Bytes model) {
    OK(read_model(&t, model));
    OK(format_onnx.write(t.model, path));
    read_back();
    char *once = text_of(t.model);
    OK(format_onnx.write(t.model, path));
    read_back();
    char *twice = text_of(t.model);
    assert_string_equal(once, twice);
    free(once);
    free(twice);
}

static void writes_the_sample(void **state) {
    (void)state;
    round_trip(sample_model());
    assert_string_equal(ops_of(t.model->main), "Mul Add Flatten Softmax Reshape Clip ReduceMean If");
    assert_true(str_equal(model_metadata(t.model, STR("key")), STR("value")));
    assert_true(str_equal(model_metadata(t.model, STR("producer_name")), STR("test")));
    assert_true(str_equal(model_metadata(t.model, STR("opset")), STR("23")));
}

/* Outputs that are an input, a constant, one value twice. */
static void writes_odd_outputs(void **state) {
    (void)state;
    static const float k[] = {1, 2, 3};
    Bytes graph = {0};
    add_input(&graph, "x", 1, (int64_t[]){3}, 1);
    put_sub(&graph, 5, floats_of("k", k, 3));
    put_sub(&graph, 1, node_of("Relu", "x", "r"));
    add_output(&graph, "r");
    add_output(&graph, "x");
    add_output(&graph, "k");
    OK(read_model(&t, model_of(graph, 13)));
    OK(graph_add_output(t.model->main, graph_output(t.model->main, 0), STR("again")));
    OK(graph_add_output(t.model->main, t.model->main->inputs.data[0], STR("renamed")));
    OK(format_onnx.write(t.model, path));
    read_back();
    static const char *const names[] = {"r", "x", "k", "again", "renamed"};
    assert_int_equal(graph_n_outputs(t.model->main), 5);
    for (size_t i = 0; i < 5; i++) assert_true(str_equal(t.model->main->output_names.data[i], str_of(names[i])));
    assert_string_equal(ops_of(t.model->main), "Relu Identity Identity");
    assert_non_null(value_constant(graph_output(t.model->main, 2)));
}

static void keeps_defaults_of_inputs(void **state) {
    (void)state;
    static const float k[] = {1, 2, 3};
    Bytes graph = {0};
    add_input(&graph, "x", 1, (int64_t[]){3}, 1);
    add_input(&graph, "k", 1, (int64_t[]){3}, 1);
    put_sub(&graph, 5, floats_of("k", k, 3));
    put_sub(&graph, 1, node_of("Add", "x k", "y"));
    add_output(&graph, "y");
    round_trip(model_of(graph, 13));
    assert_int_equal(t.model->main->inputs.len, 2);
    assert_memory_equal(graph_input_default(t.model->main, 1)->data, k, sizeof k);
}

static void names_what_onnx_lacks(void **state) {
    (void)state;
    const OpSchema *view = op_find(STR("tn"), STR("View"));
    OK(read_model(&t, unary_model(node_of("Relu", "x", "y"), 13)));
    Graph *g = t.model->main;
    Node *node;
    if (!view) skip();
    OK(node_new(g, view, g->inputs.data, 1, 1, &node));
    node_append(node);
    assert_int_equal(format_onnx.write(t.model, path), TN_UNSUPPORTED);
    assert_says("tn.View");
}

static void survives_lack_of_memory(void **state) {
    (void)state;
    OK(read_model(&t, sample_model()));
    tn_status status = TN_OUT_OF_MEMORY;
    for (int64_t n = 1; status != TN_OK; n++) {
        t.heap.fail_at = t.heap.calls + n;
        status = format_onnx.write(t.model, path);
        t.heap.fail_at = 0;
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(writes_the_sample),     TEST(writes_odd_outputs),      TEST(keeps_defaults_of_inputs),
        TEST(names_what_onnx_lacks), TEST(survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
