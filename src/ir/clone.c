/* SPDX-License-Identifier: Apache-2.0 */
/* Whole copies: a graph into another, a model. */
#include "ir/ir_int.h"

tn_status graph_inline(const Graph *source, Graph *into, Value *const *bindings, Value **outputs) {
    assert(source != into);
    Copier c;
    copier_init(&c, source->model, into->model);
    tn_status status = TN_OK;
    for (size_t i = 0; i < source->inputs.len && status == TN_OK; i++)
        status = copier_bind(&c, source->inputs.data[i], bindings[i]);
    if (status == TN_OK) status = copy_body(&c, source, into);
    for (size_t i = 0; i < graph_n_outputs(source) && status == TN_OK; i++)
        status = copier_value(&c, graph_output(source, i), &outputs[i]);
    copier_free(&c);
    return status;
}

tn_status model_clone(const Model *model, Model **out) {
    Model *copy;
    TRY(model_new(model->ctx, &copy));
    Copier c;
    copier_init(&c, model, copy);
    tn_status status = copy_model_shell(&c);
    if (status == TN_OK) status = copy_graph(&c, model->main, copy->main);
    copier_free(&c);
    if (status == TN_OK) *out = copy;
    else model_free(copy);
    return status;
}
