/* SPDX-License-Identifier: Apache-2.0 */
/* Old opsets: models of each form that has changed are read and run, and must give what they meant then. */
#include <math.h>

#include "test_onnx_common.h"

#include "eval/eval.h"

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

/* A model of one node from x, and constants that the caller has put, to y. */
typedef struct Case {
    Bytes graph, node;
    int64_t opset;
    Tensor x;
    float values[64];
} Case;

static Case case_of(const char *op, const char *operands, int64_t opset, const int64_t *dims, int rank) {
    Case c = {.node = node_of(op, operands, "y"), .opset = opset};
    add_input(&c.graph, "x", 1, dims, rank);
    add_output(&c.graph, "y");
    tensor_set_dense(&c.x, TN_F32, rank, dims);
    for (int i = 0; i < 64; i++) c.values[i] = (float)i;
    return c;
}
#define CASE(op, operands, opset, ...) \
    case_of(op, operands, opset, (int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void with_floats(Case *c, const char *name, const int64_t *dims, int rank, const float *v) {
    Bytes b = tensor_of(name, 1, dims, rank);
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    put_bytes(&b, 9, v, (size_t)n * 4);
    put_sub(&c->graph, 5, b);
}

static void with_vector(Case *c, const char *name, const float *v, int64_t n) { with_floats(c, name, &n, 1, v); }

/* Runs it; result `k` of the node, as floats. */
static Tensor run_case(Case *c, const char *second) {
    Tensor out[2] = {{0}};
    const Tensor *in = &c->x;
    if (second) {
        put_str(&c->node, 2, second);
        add_output(&c->graph, second);
    }
    put_sub(&c->graph, 1, c->node);
    OK(read_model(&t, model_of(c->graph, c->opset)));
    c->x.data = c->values;
    OK(eval_graph(t.ctx, t.model->main, &in, out));
    if (!second) return out[0];
    tensor_release(&out[0]);
    return out[1];
}

static void expect_of(Tensor out, const float *expected, int64_t n) {
    assert_int_equal(tensor_count(&out), n);
    for (int64_t i = 0; i < n; i++) {
        float v;
        load_f32(&v, out.dtype, out.data, out.offset + i, 1, 1);
        if (fabsf(v - expected[i]) > 1e-4f) print_error("element %lld: %g for %g\n", (long long)i, v, expected[i]);
        assert_true(fabsf(v - expected[i]) <= 1e-4f);
    }
    tensor_release(&out);
}
#define EXPECT(c, ...) \
    expect_of(run_case(&(c), NULL), (float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}) / sizeof(float))

static void broadcasts_along_an_axis(void **state) {
    (void)state;
    Case c = CASE("Add", "x b", 6, 2, 3);
    with_vector(&c, "b", (float[]){10, 20}, 2);
    with_int(&c.node, "broadcast", 1);
    with_int(&c.node, "axis", 0);
    EXPECT(c, 10, 11, 12, 23, 24, 25);
    c = CASE("Mul", "x b", 1, 2, 3);
    with_vector(&c, "b", (float[]){1, 2, 3}, 3);
    with_int(&c.node, "broadcast", 1);
    with_ints(&c.node, "consumed_inputs", (int64_t[]){0, 0}, 2);
    EXPECT(c, 0, 2, 6, 3, 8, 15);
    c = CASE("PRelu", "x b", 6, 1, 2, 2);
    with_vector(&c, "b", (float[]){2, 3}, 2);
    for (int i = 0; i < 4; i++) c.values[i] = -1;
    EXPECT(c, -2, -2, -3, -3);
}

static void arithmetic(void **state) {
    (void)state;
    Case c = CASE("Clip", "x", 6, 4);
    with_float(&c.node, "min", 1);
    with_float(&c.node, "max", 2);
    EXPECT(c, 1, 1, 2, 2);
    c = CASE("Cast", "x", 1, 2);
    with_str(&c.node, "to", "INT32");
    EXPECT(c, 0, 1);
    c = CASE("Cast", "x", 1, 2);
    with_str(&c.node, "to", "REAL");
    put_sub(&c.graph, 1, c.node);
    refuse(&t, model_of(c.graph, 1), TN_INVALID_MODEL, "REAL");
    c = CASE("Selu", "x", 1, 2);
    c.values[0] = -1;
    EXPECT(c, 1.0507f * 1.6732f * (expf(-1) - 1), 1.0507f);
    c = CASE("ScaledTanh", "x", 1, 2);
    with_float(&c.node, "alpha", 2);
    with_float(&c.node, "beta", 0.5f);
    EXPECT(c, 0, 2 * tanhf(0.5f));
    c = CASE("ImageScaler", "x", 1, 1, 2, 1, 2);
    with_float(&c.node, "scale", 2);
    Bytes bias = {0};
    put_str(&bias, 1, "bias");
    put_float(&bias, 7, 10);
    put_float(&bias, 7, 20);
    put_int(&bias, 20, 6);
    put_sub(&c.node, 5, bias);
    EXPECT(c, 10, 12, 24, 26);
}

static void attributes_became_operands(void **state) {
    (void)state;
    Case c = CASE("Reshape", "x", 1, 2, 3);
    with_ints(&c.node, "shape", (int64_t[]){3, -1}, 2);
    EXPECT(c, 0, 1, 2, 3, 4, 5);
    assert_int_equal(graph_output(t.model->main, 0)->type->shape.dims[0], 3);
    c = CASE("Pad", "x", 1, 2);
    with_ints(&c.node, "paddings", (int64_t[]){1, 1}, 2);
    with_float(&c.node, "value", 9);
    EXPECT(c, 9, 0, 1, 9);
    c = CASE("Slice", "x", 1, 4);
    with_ints(&c.node, "starts", (int64_t[]){-3}, 1);
    with_ints(&c.node, "ends", (int64_t[]){100}, 1);
    EXPECT(c, 1, 2, 3);
    c = CASE("Squeeze", "x", 11, 1, 2, 1);
    with_ints(&c.node, "axes", (int64_t[]){0}, 1);
    EXPECT(c, 0, 1);
    assert_int_equal(graph_output(t.model->main, 0)->type->shape.rank, 2);
    c = CASE("Unsqueeze", "x", 11, 2);
    with_ints(&c.node, "axes", (int64_t[]){-1, 0}, 2);
    EXPECT(c, 0, 1);
    assert_int_equal(graph_output(t.model->main, 0)->type->shape.rank, 3);
    c = CASE("ReduceSum", "x", 11, 2, 2);
    with_ints(&c.node, "axes", (int64_t[]){0}, 1);
    EXPECT(c, 2, 4);
    c = CASE("ReduceMax", "x", 17, 2, 2);
    with_int(&c.node, "keepdims", 0);
    EXPECT(c, 3);
    c = CASE("Concat", "x x", 1, 1, 2);
    EXPECT(c, 0, 1, 0, 1);
    c = CASE("Tile", "x n a", 1, 1, 2);
    with_vector(&c, "n", (float[]){2}, 1);
    with_vector(&c, "a", (float[]){1}, 1);
    EXPECT(c, 0, 1, 0, 1);
}

static void parts_and_picks(void **state) {
    (void)state;
    Case c = CASE("Split", "x", 2, 4);
    with_ints(&c.node, "split", (int64_t[]){1, 3}, 2);
    expect_of(run_case(&c, "z"), (float[]){1, 2, 3}, 3);
    c = CASE("Split", "x", 13, 4);
    expect_of(run_case(&c, "z"), (float[]){2, 3}, 2);
    c = CASE("TopK", "x", 1, 4);
    with_int(&c.node, "k", 2);
    expect_of(run_case(&c, "z"), (float[]){3, 2}, 2);
    c = CASE("Scatter", "x i u", 9, 3);
    Bytes at = tensor_of("i", TN_I64, (int64_t[]){1}, 1);
    put_int(&at, 7, 2);
    put_sub(&c.graph, 5, at);
    with_vector(&c, "u", (float[]){9}, 1);
    EXPECT(c, 0, 1, 9);
}

/* The columns of the matrix that the operand was taken as. */
static void softmax_over_a_matrix(void **state) {
    (void)state;
    Case c = CASE("Softmax", "x", 11, 1, 2, 2);
    for (int i = 0; i < 4; i++) c.values[i] = logf((float)i + 1);
    EXPECT(c, 0.1f, 0.2f, 0.3f, 0.4f);
    c = CASE("Softmax", "x", 11, 1, 2, 2);
    for (int i = 0; i < 4; i++) c.values[i] = logf((float)i + 1);
    with_int(&c.node, "axis", 2);
    EXPECT(c, 1.0f / 3, 2.0f / 3, 3.0f / 7, 4.0f / 7);
    assert_string_equal(ops_of(t.model->main), "Softmax");
    c = CASE("Hardmax", "x", 9, 2, 2, 1);
    EXPECT(c, 0, 1, 0, 1);
}

static void normalisation(void **state) {
    (void)state;
    Case c = CASE("BatchNormalization", "x s b m v", 6, 1, 2, 1);
    with_vector(&c, "s", (float[]){1, 2}, 2);
    with_vector(&c, "b", (float[]){0, 1}, 2);
    with_vector(&c, "m", (float[]){0, 0}, 2);
    with_vector(&c, "v", (float[]){1, 4}, 2);
    with_float(&c.node, "epsilon", 0);
    with_int(&c.node, "is_test", 1);
    EXPECT(c, 0, 2);
    c = CASE("BatchNormalization", "x s s m v", 7, 1, 1, 2);
    with_floats(&c, "s", (int64_t[]){1, 2}, 2, (float[]){1, 2});
    with_floats(&c, "m", (int64_t[]){1, 2}, 2, (float[]){0, 3});
    with_floats(&c, "v", (int64_t[]){1, 2}, 2, (float[]){1, 4});
    with_float(&c.node, "epsilon", 0);
    with_int(&c.node, "spatial", 0);
    EXPECT(c, 1, 0);
    c = CASE("GroupNormalization", "x s b", 18, 1, 4, 1);
    with_vector(&c, "s", (float[]){1, 2}, 2);
    with_vector(&c, "b", (float[]){0, 10}, 2);
    with_int(&c.node, "num_groups", 2);
    with_float(&c.node, "epsilon", 0);
    EXPECT(c, -1, 1, 8, 12);
    c = CASE("Dropout", "x", 6, 2);
    with_int(&c.node, "is_test", 1);
    with_float(&c.node, "ratio", 0.3f);
    expect_of(run_case(&c, "mask"), (float[]){1, 1}, 2);
    assert_int_equal(graph_output(t.model->main, 1)->type->dtype, TN_F32);
    c = CASE("GlobalLpPool", "x", 1, 1, 1, 2, 1);
    with_float(&c.node, "p", 1);
    EXPECT(c, 1);
}

static void images(void **state) {
    (void)state;
    Case c = CASE("Upsample", "x", 1, 1, 1, 1, 2);
    with_float(&c.node, "height_scale", 2);
    with_float(&c.node, "width_scale", 2);
    EXPECT(c, 0, 0, 1, 1, 0, 0, 1, 1);
    assert_string_equal(ops_of(t.model->main), "Resize");
    c = CASE("Upsample", "x s", 9, 1, 1, 1, 2);
    with_vector(&c, "s", (float[]){1, 1, 1, 2}, 4);
    with_str(&c.node, "mode", "linear");
    EXPECT(c, 0, 0.5f, 1, 1);
    c = CASE("Resize", "x s", 10, 1, 1, 1, 4);
    with_vector(&c, "s", (float[]){1, 1, 1, 0.6f}, 4);
    EXPECT(c, 0, 2);
}

static void scan_over_a_batch(void **state) {
    (void)state;
    Bytes body = {0};
    Case c = CASE("Scan", "- s x", 8, 2, 2, 1); /* batch, sequence, 1 */
    add_input(&body, "sum", 1, (int64_t[]){1}, 1);
    add_input(&body, "each", 1, (int64_t[]){1}, 1);
    put_sub(&body, 1, node_of("Add", "sum each", "next"));
    put_sub(&body, 1, node_of("Identity", "next", "seen"));
    add_output(&body, "next");
    add_output(&body, "seen");
    with_floats(&c, "s", (int64_t[]){2, 1}, 2, (float[]){10, 20});
    with_int(&c.node, "num_scan_inputs", 1);
    with_graph(&c.node, "body", body);
    expect_of(run_case(&c, "z"), (float[]){10, 11, 22, 25}, 4);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(broadcasts_along_an_axis),
        TEST(arithmetic),
        TEST(attributes_became_operands),
        TEST(parts_and_picks),
        TEST(softmax_over_a_matrix),
        TEST(normalisation),
        TEST(images),
        TEST(scan_over_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
