/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX at length: many mutations, and a model of more weights than one file can hold. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test_onnx_sample.h"

static void survives_many_mutations(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) survive_mutations(20000, seed * 0x9e3779b97f4a7c15u);
}

static void unmap(void *user, void *data, size_t size) {
    (void)user;
    munmap(data, size);
}

/* y = x + w0 + w1 ..., each w of `bytes` bytes of zeros that end in a number of its own. */
static void add_weight(Model *model, Value **sum, int64_t n, float last) {
    size_t bytes = (size_t)n * sizeof(float);
    Tensor *payload;
    Node *weight, *add;
    OK(model_tensor(model, &payload));
    tensor_set_dense(payload, TN_F32, 1, &n);
    payload->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(payload->data != MAP_FAILED);
    OK(buffer_borrow(&model->ctx->allocator, payload->data, bytes, unmap, NULL, &payload->buffer));
    ((float *)payload->data)[n - 1] = last;
    OK(const_new(model->main, payload, STR("w"), &weight));
    node_append(weight);
    OK(node_new(model->main, op_find(STR(""), STR("Add")), (Value *[]){*sum, weight->results[0]}, 2, 1, &add));
    node_append(add);
    *sum = add->results[0];
}

static void make_big_model(OnnxTest *t) {
    int64_t n = (int64_t)150 << 20;
    Shape shape = shape_make(1, &n);
    Value *sum;
    OK(model_new(t->ctx, &t->model));
    if (!t->model->main) OK(graph_new(t->model, NULL, STR("big"), &t->model->main));
    OK(graph_add_input(t->model->main, STR("x"), type_tensor(t->model, TN_F32, &shape), &sum));
    add_weight(t->model, &sum, n, 1);
    add_weight(t->model, &sum, n, 2);
    add_weight(t->model, &sum, 1, 3);
    sum->type = t->model->main->inputs.data[0]->type;
    OK(graph_add_output(t->model->main, sum, STR("y")));
}

static void writes_big_models_in_two_files(void **state) {
    (void)state;
    OnnxTest t;
    char folder[] = "/tmp/tenon-onnx-big-XXXXXX", path[128], data[128];
    struct stat model_file, data_file;
    Buffer *buffer;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/big.onnx", folder);
    snprintf(data, sizeof data, "%s/big.onnx.data", folder);
    onnx_begin(&t, NULL);
    make_big_model(&t);
    OK(format_onnx.write(t.model, path));
    assert_int_equal(stat(path, &model_file) | stat(data, &data_file), 0);
    assert_true(model_file.st_size < 4096 && data_file.st_size >= (off_t)1200 << 20);
    model_free(t.model);
    OK(file_map(&t.ctx->allocator, path, &buffer));
    OK(format_onnx.read(t.ctx, buffer, path, folder, &t.model));
    buffer_unref(buffer);
    for (int i = 0; i < 3; i++) {
        const Tensor *w = value_constant(node_operand(node_at(t.model->main, i), 1));
        float last;
        load_f32(&last, w->dtype, w->data, tensor_count(w) - 1, 1, 1);
        assert_true(last == (float)(i + 1));
    }
    onnx_end(&t);
    remove(path);
    remove(data);
    remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_many_mutations),
        cmocka_unit_test(writes_big_models_in_two_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
