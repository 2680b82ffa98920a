/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds a model node by node; where no call-back changes anything, the model stays the one it was. */
#include "ir/ir_int.h"

typedef struct Mutation {
    Mutator *mutator;
    Model *model; /* the new one */
    const Allocator *allocator;
    PtrMap by_op; /* schema -> row of the mutator's table */
    PtrMap types; /* what each became */
    bool changed;
    VEC(Value *) results;
} Mutation;

/* A call-back may have erased the node that holds the graph that is being filled. */
static tn_status check_alive(const Graph *graph) {
    return graph_is_alive(graph)
               ? TN_OK
               : fail(TN_STATE, "the mutator erased the node that holds the graph under construction");
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

static tn_status refuse(const Node *node, tn_status status) {
    node_blame(node);
    return status;
}

/* A replacement inherits a name, so that messages and dumps stay readable. */
static tn_status bind_result(Copier *c, const Value *old, Value *value, const Node *node, const Graph *into) {
    if (!value && old->uses)
        return refuse(node,
                      fail(TN_INVALID_ARGUMENT, "result %u is read, but the mutator gave nothing for it", old->index));
    if (value && (!value_visible_in(value, into) || (value->def && !node_is_placed(value->def))))
        return refuse(node, fail(TN_INVALID_ARGUMENT,
                                 "what the mutator gave for result %u is no value of the graph under construction",
                                 old->index));
    if (value && value->def && value->name.n == 0) TRY(value_set_name(value, old->name));
    return copier_bind(c, old, value);
}

static MutateNodeFn function_for(const Mutation *m, const Node *node) {
    Mutator *mutator = m->mutator;
    if (mutator->constant && op_is_constant(node->op)) return mutator->constant;
    return find_op_row(&m->by_op, node->op, &mutator->row) ? mutator->ops[mutator->row].fn : mutator->node;
}

static tn_status mutate_node(void *user, Copier *c, const Node *node, Graph *into, bool *done) {
    Mutation *m = user;
    bool changed = false;
    MutateNodeFn fn = function_for(m, node);
    if (!fn) return TN_OK;
    m->results.len = 0;
    TRY(vec_reserve(c->allocator, &m->results, node->n_results));
    for (uint32_t i = 0; i < node->n_results; i++) m->results.data[i] = NULL;
    TRY(fn(m->mutator, node, into, c->operands.data, m->results.data, &changed));
    TRY(check_alive(into));
    if (!changed) return TN_OK;
    for (uint32_t i = 0; i < node->n_results; i++)
        TRY(bind_result(c, node->results[i], m->results.data[i], node, into));
    m->changed = true;
    *done = true;
    return TN_OK;
}

/* ---- inputs, graphs, locations, types ------------------------------------------------------------------------ */

static tn_status mutate_input(void *user, const Value *old, Value **value) {
    Mutation *m = user;
    const Value *fresh = *value;
    TRY(m->mutator->input(m->mutator, old, value));
    TRY(check_alive(fresh->graph));
    if (!*value || !value_visible_in(*value, fresh->graph))
        return fail(TN_INVALID_ARGUMENT,
                    "what the mutator gave for an input is no value of the graph under construction");
    m->changed |= *value != fresh;
    return TN_OK;
}

static tn_status mutate_graph(void *user, const Graph *old, Graph *graph) {
    Mutation *m = user;
    bool changed = false;
    TRY(m->mutator->graph(m->mutator, old, graph, &changed));
    m->changed |= changed;
    return check_alive(graph);
}

static tn_status mutate_location(void *user, Str *loc) {
    Mutation *m = user;
    Str before = *loc;
    TRY(m->mutator->location(m->mutator, loc));
    m->changed |= !str_equal(*loc, before);
    return TN_OK;
}

static tn_status mutate_type(void *user, const Value *old, const Type **type) {
    Mutation *m = user;
    const Type *before = *type;
    if (old->def && op_is_constant(old->def->op)) return TN_OK;
    const PtrMapSlot *slot = ptrmap_find(&m->types, before);
    if (slot) {
        *type = slot->value;
        return TN_OK;
    }
    TRY(m->mutator->type(m->mutator, m->model, type));
    m->changed |= *type != before;
    return ptrmap_set(&m->types, before, (void *)*type);
}

/* ---- models -------------------------------------------------------------------------------------------------- */

static tn_status rebuild(Mutation *m, const Model *model) {
    Copier c;
    const Mutator *mutator = m->mutator;
    for (size_t i = 0; mutator->ops && mutator->ops[i].op; i++)
        TRY(add_op_row(&m->by_op, "mutator", mutator->ops[i].op, i));
    copier_init(&c, model, m->model);
    c.node = mutate_node;
    c.input = mutator->input ? mutate_input : NULL;
    c.graph = mutator->graph ? mutate_graph : NULL;
    c.location = mutator->location ? mutate_location : NULL;
    c.type = mutator->type ? mutate_type : NULL;
    c.user = m;
    tn_status status = copy_model_shell(&c);
    if (status == TN_OK) status = copy_graph(&c, model->main, m->model->main);
    copier_free(&c);
    return status;
}

tn_status mutate_model(Model *model, Mutator *mutator, Model **out) {
    Mutation m = {.mutator = mutator, .allocator = model_allocator(model)};
    m.by_op.allocator = m.types.allocator = m.allocator;
    TRY(model_new(model->ctx, &m.model));
    tn_status status = rebuild(&m, model);
    ptrmap_free(&m.by_op);
    ptrmap_free(&m.types);
    vec_free(m.allocator, &m.results);
    if (status == TN_OK) *out = m.changed ? m.model : model;
    if (status != TN_OK || !m.changed) model_free(m.model);
    return status;
}
