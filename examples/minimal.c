/* SPDX-License-Identifier: Apache-2.0 */
/* minimal MODEL: runs a model on zeros, sizes that it leaves open being 1, and prints how each output begins. */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

static void check(tn_status status) {
    if (status == TN_OK) return;
    fprintf(stderr, "minimal: %s\n", tn_last_error());
    exit(1);
}

static tn_tensor *make_input(tn_context *context, const tn_model *model, size_t i) {
    tn_value_info info;
    tn_tensor *tensor;
    check(tn_model_input(model, i, &info));
    for (int d = 0; d < info.rank; d++)
        if (info.dims[d] < 0) info.dims[d] = 1;
    check(tn_tensor_create(context, info.dtype, info.rank < 0 ? 0 : info.rank, info.dims, &tensor));
    return tensor;
}

static void print_output(const tn_session *session, size_t i, const tn_tensor *tensor) {
    tn_value_info info;
    check(tn_session_output(session, i, &info));
    printf("%s: %s[", info.name, tn_dtype_name(tn_tensor_dtype(tensor)));
    for (int d = 0; d < tn_tensor_rank(tensor); d++)
        printf("%s%lld", d ? "," : "", (long long)tn_tensor_dims(tensor)[d]);
    printf("] =");
    for (int64_t k = 0; k < 5 && k < tn_tensor_count(tensor); k++) printf(" %g", tn_tensor_get_double(tensor, k));
    printf("%s\n", tn_tensor_count(tensor) > 5 ? " ..." : "");
}

int main(int argc, char **argv) {
    tn_context *context;
    tn_model *model;
    tn_session *session;
    tn_tensor *inputs[16] = {0}, *outputs[16] = {0};
    if (argc != 2) return fprintf(stderr, "usage: minimal MODEL\n"), 2;
    check(tn_context_create(NULL, &context));
    check(tn_model_load(context, argv[1], &model));
    check(tn_session_create(model, NULL, &session));
    size_t n_inputs = tn_session_n_inputs(session), n_outputs = tn_session_n_outputs(session);
    if (n_inputs > 16 || n_outputs > 16) return fprintf(stderr, "minimal: more than 16 inputs or outputs\n"), 1;
    for (size_t i = 0; i < n_inputs; i++) inputs[i] = make_input(context, model, i);
    check(tn_session_run(session, NULL, (const tn_tensor *const *)inputs, n_inputs, outputs, n_outputs));
    for (size_t i = 0; i < n_outputs; i++) print_output(session, i, outputs[i]);
    for (size_t i = 0; i < 16; i++) tn_tensor_release(inputs[i]), tn_tensor_release(outputs[i]);
    tn_session_release(session);
    tn_model_release(model);
    tn_context_release(context);
}
