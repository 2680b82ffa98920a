/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzz target: bytes as a model of any format. What loads is verified, printed, and run on zeros within limits. Built
   with clang's -fsanitize=fuzzer, or with driver.c. */
#include <stdlib.h>
#include <string.h>

#include <tenon/graph.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_INPUTS = 16, MOST_ELEMENTS = 4096 };

/* Shapes as declared, 2 for what is not. */
static tn_status make_input(tn_context *context, const tn_model *model, size_t i, tn_tensor **tensor) {
    tn_value_info info;
    int64_t count = 1;
    tn_status status = tn_model_input(model, i, &info);
    if (status != TN_OK) return status;
    if (info.kind != TN_TENSOR || !info.dtype || info.rank < 0) return TN_UNSUPPORTED;
    for (int k = 0; k < info.rank; k++) {
        if (info.dims[k] < 0) info.dims[k] = 2;
        if (info.dims[k] > MOST_ELEMENTS || (count *= info.dims[k]) > MOST_ELEMENTS) return TN_LIMIT;
    }
    return tn_tensor_create(context, info.dtype, info.rank, info.dims, tensor);
}

static void run(tn_context *context, tn_model *model) {
    tn_tensor *inputs[MOST_INPUTS] = {NULL}, *outputs[MOST_INPUTS] = {NULL};
    tn_session *session = NULL;
    size_t n_in = tn_model_n_inputs(model), n_out = tn_model_n_outputs(model);
    if (n_in > MOST_INPUTS || n_out > MOST_INPUTS) return;
    tn_status status = TN_OK;
    for (size_t i = 0; i < n_in && status == TN_OK; i++) status = make_input(context, model, i, &inputs[i]);
    if (status == TN_OK) status = tn_session_create(model, NULL, &session);
    tn_run_options options = {.timeout_ns = 200000000};
    if (status == TN_OK)
        status = tn_session_run(session, &options, (const tn_tensor *const *)inputs, n_in, outputs, n_out);
    for (size_t i = 0; i < n_out && status == TN_OK; i++) tn_tensor_get_double(outputs[i], 0);
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        tn_tensor_release(inputs[i]);
        tn_tensor_release(outputs[i]);
    }
    tn_session_release(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tn_context *context;
    tn_context_options options = {.threads = 1};
    options.limits = (tn_limits){.max_bytes = 64 << 20,
                                 .max_nodes = 100000,
                                 .max_nesting = 64,
                                 .max_fold_bytes = 1 << 20,
                                 .max_loop_trips = 1000};
    if (!context && tn_context_create(&options, &context) != TN_OK) abort();
    tn_model *model;
    char *text;
    if (tn_model_load_memory(context, data, size, NULL, NULL, NULL, &model) != TN_OK) {
        if (!*tn_last_error()) abort(); /* an error says what is wrong */
        return 0;
    }
    if (tn_model_verify(model) != TN_OK) abort(); /* what loads is sound */
    if (tn_model_text(model, &text) == TN_OK) tn_free_text(text);
    run(context, model);
    tn_model_release(model);
    return 0;
}
