/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds a model node by node; where no call-back changes anything, the model stays the one it was. */
#include "ir/ir_int.h"

typedef struct Mutation {
    Mutator *mutator;
    bool changed;
    VEC(Value *) results;
} Mutation;

/* The replacement inherits a name, so that messages and dumps stay readable. */
static tn_status bind_result(Copier *c, const Value *old, Value *value, const Node *node) {
    if (!value && old->uses) {
        tn_status status = fail(TN_INTERNAL, "result %u is read, but the mutator gave nothing for it", old->index);
        node_blame(node);
        return status;
    }
    if (value && value->def && value->name.n == 0) TRY(value_set_name(value, old->name));
    return copier_bind(c, old, value);
}

static tn_status mutate_node(void *user, Copier *c, const Node *node, Graph *into, bool *done) {
    Mutation *m = user;
    bool changed = false;
    m->results.len = 0;
    TRY(vec_reserve(c->allocator, &m->results, node->n_results));
    for (uint32_t i = 0; i < node->n_results; i++) m->results.data[i] = NULL;
    TRY(m->mutator->node(m->mutator, node, into, c->operands.data, m->results.data, &changed));
    if (!changed) return TN_OK;
    for (uint32_t i = 0; i < node->n_results; i++) TRY(bind_result(c, node->results[i], m->results.data[i], node));
    m->changed = true;
    *done = true;
    return TN_OK;
}

tn_status mutate_model(Model *model, Mutator *mutator, Model **out) {
    Model *copy;
    TRY(model_new(model->ctx, &copy));
    Mutation m = {.mutator = mutator};
    Copier c;
    copier_init(&c, model, copy);
    c.node = mutate_node;
    c.user = &m;
    tn_status status = copy_model_shell(&c);
    if (status == TN_OK) status = copy_graph(&c, model->main, copy->main);
    vec_free(c.allocator, &m.results);
    copier_free(&c);
    if (status == TN_OK) *out = m.changed ? copy : model;
    if (status != TN_OK || !m.changed) model_free(copy);
    return status;
}
