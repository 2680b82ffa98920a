/* SPDX-License-Identifier: Apache-2.0 */
/* Scan of opset 8 ran over a batch: dimension 0 of every state and every scan input. Now it is a Scan over the batch
   whose body is a Scan over the sequence. */
#include "formats/onnx/upgrade_int.h"

/* A type without its first dimension. */
static const Type *without_batch(Model *model, const Type *type) {
    if (type->kind != TYPE_TENSOR || type->shape.rank < 1) return type_tensor(model, type->dtype, &(Shape){.rank = -1});
    Shape shape = {.rank = type->shape.rank - 1};
    memcpy(shape.dims, type->shape.dims + 1, (size_t)shape.rank * sizeof *shape.dims);
    return type_tensor(model, type->dtype, &shape);
}

/* The inner Scan, in the body of the outer one. */
static tn_status make_inner(Draft *d, const OpSchema *scan, Graph *body, const Attr *directions, int64_t n_scanned) {
    OnnxReader *r = d->reader;
    size_t n = d->n_operands;
    Node *node;
    Graph *loop;
    Value **inputs = arena_array(&r->arena, Value *, n);
    if (!inputs) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const Type *type = without_batch(r->model, d->operands[i]->type);
        if (!type) return TN_OUT_OF_MEMORY;
        TRY(graph_add_input(body, (Str){NULL, 0}, type, &inputs[i]));
    }
    TRY(node_new(body, scan, inputs, n, d->n_outputs, &node));
    node->loc = model_str(r->model, d->loc);
    node_append(node);
    TRY(node_set_int(node, "num_scan_inputs", n_scanned));
    if (directions->n) TRY(node_set_ints(node, "scan_input_directions", directions->ints, directions->n));
    TRY(onnx_read_graph(r, d->graphs[0].graphs.data[0], d->graphs[0].scope, node, &loop));
    TRY(node_set_graph(node, "body", loop));
    for (size_t i = 0; i < d->n_outputs; i++) TRY(graph_add_output(body, node->results[i], (Str){NULL, 0}));
    return node_check(node);
}

tn_status upgrade_scan(Draft *d) {
    OnnxReader *r = d->reader;
    Attr scanned, directions = {0};
    Node *node;
    Graph *body;
    tn_status status;
    if (draft_operand(d, 0)) return fail(TN_UNSUPPORTED, "Scan of opset 8 with lengths of sequences");
    if (d->n_operands < 2 || d->n_graphs != 1 || d->graphs[0].list || !str_equal(d->graphs[0].name, STR("body")) ||
        !take_attr(d, "num_scan_inputs", ATTR_INT, &scanned, &status))
        return fail(TN_INVALID_MODEL, "the Scan lacks its body, its operands or num_scan_inputs");
    take_attr(d, "directions", ATTR_INTS, &directions, &status);
    TRY(status);
    d->operands++;
    d->n_operands--;
    d->cap_operands--;
    TRY(need_operands(d, d->n_operands));
    const OpSchema *scan = op_find(STR(""), STR("Scan"));
    if (!scan) return fail(TN_UNSUPPORTED, "op \"Scan\" is not known");
    TRY(node_new(d->scope->graph, scan, d->operands, d->n_operands, d->n_outputs, &node));
    node->loc = model_str(r->model, d->loc);
    node_append(node);
    TRY(node_set_int(node, "num_scan_inputs", (int64_t)d->n_operands));
    TRY(graph_new(r->model, node, STR("batch"), &body));
    TRY(make_inner(d, scan, body, &directions, scanned.i));
    TRY(node_set_graph(node, "body", body));
    TRY(node_check(node));
    d->results = node->results;
    return TN_OK;
}
