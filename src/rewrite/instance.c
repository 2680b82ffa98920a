/* SPDX-License-Identifier: Apache-2.0 */
/* Instances become models. */
#include "rewrite/prove_int.h"

#include <stdio.h>

void instance_free(Instance *x) {
    for (int i = 0; i < x->n_leaves; i++) tensor_release(&x->leaves[i].data);
    x->n_leaves = 0;
}

int64_t instance_weight(const Instance *x) {
    int64_t weight = 0;
    for (int i = 0; i < x->n_leaves; i++) {
        const Leaf *l = &x->leaves[i];
        weight += 1 + tensor_count(&l->data) + (l->data.dtype != TN_F64 && l->data.dtype != TN_I64);
        for (int k = 0; k < l->data.rank; k++) weight += 1 + 4 * (l->symbol[k] != 0) + 20 * (l->data.dims[k] == 0);
        weight += 8 * l->no_shape;
    }
    for (int i = 0; i < x->n_pieces; i++) {
        weight += 4;
        for (size_t k = 0; k < x->pieces[i].n_attrs; k++) weight += 2 + (int64_t)x->pieces[i].attrs[k].n;
    }
    for (int i = 0; i < x->n_values; i++) weight += 2 * x->output[i] + 6 * x->reread[i];
    return weight;
}

/* ---- building ------------------------------------------------------------------------------------------------ */

typedef struct Building {
    const Instance *x;
    Model *model;
    Graph *graph;
    Value *values[INSTANCE_VALUES];
} Building;

/* Numbers up to 99 stand for sizes, those above for themselves: two sizes may be equal and nobody know it. */
static Dim symbol_of(Model *model, uint8_t number) {
    char name[8];
    int n = snprintf(name, sizeof name, "%c%d", number < 100 ? 's' : 'u', number);
    return dim_symbol(&model->dims, (Str){name, (size_t)n});
}

static const Type *declared_type(Model *model, const Leaf *leaf) {
    Shape shape = shape_make(leaf->data.rank, leaf->data.dims);
    for (int i = 0; i < shape.rank; i++)
        if (leaf->symbol[i]) shape.dims[i] = symbol_of(model, leaf->symbol[i]);
    if (leaf->no_shape) shape = shape_unknown();
    return type_tensor(model, leaf->data.dtype, &shape);
}

static tn_status add_constant(Building *b, int v, const Leaf *leaf) {
    Tensor *payload;
    Node *node;
    TRY(model_tensor(b->model, &payload));
    *payload = leaf->data;
    buffer_ref(payload->buffer);
    TRY(const_new(b->graph, payload, b->x->values[v].name, &node));
    node_append(node);
    b->values[v] = node->results[0];
    return TN_OK;
}

static tn_status add_leaf(Building *b, int v) {
    const Leaf *leaf = &b->x->leaves[b->x->values[v].leaf];
    if (leaf->constant) return add_constant(b, v, leaf);
    char name[16];
    int n = snprintf(name, sizeof name, "in%d", v);
    const Type *type = declared_type(b->model, leaf);
    if (!type) return TN_OUT_OF_MEMORY;
    Str known = b->x->values[v].name;
    return graph_add_input(b->graph, known.n ? known : (Str){name, (size_t)n}, type, &b->values[v]);
}

static bool comes_first(const Building *b, int v) {
    int leaf = b->x->values[v].leaf;
    return leaf >= 0 && (b->x->constants_first || !b->x->leaves[leaf].constant);
}

static tn_status add_piece(Building *b, const Piece *piece, Node **out) {
    Value *in[OP_MAX_INPUTS];
    for (int i = 0; i < piece->n_in; i++) {
        int v = piece->in[i];
        if (v >= 0 && !b->values[v]) TRY(add_leaf(b, v));
        in[i] = v < 0 ? NULL : b->values[v];
    }
    TRY(node_new(b->graph, piece->op, in, (size_t)piece->n_in, (size_t)piece->n_out, out));
    for (size_t i = 0; i < piece->n_attrs; i++) TRY(node_set_attr(*out, &piece->attrs[i]));
    for (int i = 0; i < piece->n_out; i++) {
        b->values[piece->out + i] = (*out)->results[i];
        Str name = b->x->values[piece->out + i].name;
        if (name.n) TRY(value_set_name((*out)->results[i], name));
    }
    node_append(*out);
    return TN_OK;
}

static tn_status add_output(Building *b, Value *value) {
    char name[24];
    int n = snprintf(name, sizeof name, "out%zu", graph_n_outputs(b->graph));
    return graph_add_output(b->graph, value, value->name.n ? value->name : (Str){name, (size_t)n});
}

static tn_status add_outputs(Building *b) {
    const OpSchema *identity = op_find((Str){NULL, 0}, STR("Identity"));
    for (int v = 0; v < b->x->n_values; v++) {
        Node *reader;
        if (b->x->output[v]) TRY(add_output(b, b->values[v]));
        if (!b->x->reread[v]) continue;
        TRY(node_new(b->graph, identity, &b->values[v], 1, 1, &reader));
        node_append(reader);
        TRY(add_output(b, reader->results[0]));
    }
    return TN_OK;
}

static tn_status build(Building *b, Node **root) {
    Node *node;
    TRY(graph_new(b->model, NULL, STR("left"), &b->graph));
    b->model->main = b->graph;
    for (int v = 0; v < b->x->n_values; v++)
        if (comes_first(b, v)) TRY(add_leaf(b, v));
    for (int i = 0; i < b->x->n_pieces; i++) {
        TRY(add_piece(b, &b->x->pieces[i], &node));
        if (i == b->x->root && root) *root = node;
    }
    return add_outputs(b);
}

tn_status instance_model(Context *ctx, const Instance *x, Model **model, Node **root) {
    Building b = {.x = x};
    TRY(model_new(ctx, &b.model));
    tn_status status = build(&b, root);
    if (status == TN_OK) *model = b.model;
    else model_free(b.model);
    return status;
}
