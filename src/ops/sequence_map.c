/* SPDX-License-Identifier: Apache-2.0 */
/* SequenceMap (ONNX 17): a nested graph for each element of a sequence. */
#include "ops/control_int.h"
#include "ops/object_int.h"

static tn_status body_of(const Node *node, Graph **body) {
    *body = attr_graph(node, "body");
    if (!*body) return fail(TN_INVALID_MODEL, "the body is missing");
    if ((*body)->inputs.len != node->n_operands || graph_n_outputs(*body) != node->n_results)
        return fail(TN_INVALID_MODEL, "the body has %zu inputs and %zu outputs, but the node %u and %u",
                    (*body)->inputs.len, graph_n_outputs(*body), node->n_operands, node->n_results);
    return TN_OK;
}

static tn_status infer(InferCtx *c) {
    Graph *body;
    TRY(body_of(c->node, &body));
    for (int i = 0; i < c->n_out; i++) {
        InferValue item = body_output(c, body, (size_t)i);
        TRY(set_object_of(c, i, TYPE_SEQUENCE, &item));
    }
    return TN_OK;
}

/* ---- kernel ---------------------------------------------------------------------------------------------------- */

typedef struct Run {
    Graph *body;
    size_t n;   /* elements */
    Tensor *in; /* of the body */
    Tensor *out;
    Tensor *made; /* the results; those that nobody wants stay empty */
} Run;

static tn_status prepare(KernelCtx *c, Run *r) {
    const Object *first;
    TRY(body_of(c->node, &r->body));
    for (int i = 0; i < c->n_in; i++)
        if (!c->in[i]) return fail(TN_INVALID_MODEL, "operand %d is missing", i);
    TRY(operand_items(c, 0, TYPE_SEQUENCE, &first));
    r->n = first->n;
    for (int i = 1; i < c->n_in; i++)
        if (c->in[i]->kind == TYPE_SEQUENCE && object_of(c->in[i])->n != r->n)
            return fail(TN_SHAPE, "the sequences differ in length: %zu and %zu", r->n, object_of(c->in[i])->n);
    r->in = kernel_scratch(c, Tensor, (size_t)c->n_in + 1);
    r->out = kernel_scratch(c, Tensor, (size_t)c->n_out + 1);
    r->made = kernel_scratch(c, Tensor, (size_t)c->n_out + 1);
    if (!r->in || !r->out || !r->made) return TN_OUT_OF_MEMORY;
    for (int k = 0; k < c->n_out; k++)
        if (output_wanted(c, k)) TRY(object_new(c->context, TYPE_SEQUENCE, r->n, &r->made[k]));
    return TN_OK;
}

static tn_status turn(KernelCtx *c, Run *r, size_t at) {
    for (int i = 0; i < c->n_in; i++)
        r->in[i] = c->in[i]->kind == TYPE_SEQUENCE ? object_of(c->in[i])->items[at] : *c->in[i];
    TRY(c->host->run_graph(c->host, r->body, r->in, (size_t)c->n_in, r->out, (size_t)c->n_out));
    for (int k = 0; k < c->n_out; k++) {
        if (!r->made[k].data) continue;
        if (r->out[k].kind != TYPE_TENSOR) return fail(TN_SHAPE, "result %d of the body is no tensor", k);
        TRY(tensor_keep(c->context, &r->out[k], &object_of(&r->made[k])->items[at]));
    }
    return TN_OK;
}

static tn_status run(KernelCtx *c, Run *r) {
    TRY(prepare(c, r));
    for (size_t i = 0; i < r->n; i++) {
        TRY(kernel_poll(c));
        TRY(turn(c, r, i));
    }
    for (int k = 0; k < c->n_out; k++) {
        Tensor given = r->made[k];
        if (!given.data) continue;
        r->made[k] = (Tensor){0}; /* its reference goes with it */
        TRY(kernel_give_output(c, k, &given));
    }
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    Run r = {0};
    tn_status status = run(c, &r);
    for (int k = 0; r.made && k < c->n_out; k++) tensor_release(&r.made[k]);
    return status;
}

const OpSchema op_SequenceMap = {
    .name = "SequenceMap",
    .summary = "SequenceMap (ONNX 17): a nested graph for each element",
    .kind = OP_ATOMIC,
    .flags = OP_CONTROL | OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"input_sequence", TS_SEQUENCE, 0, 0},
                       {"additional_inputs", TS_ALL_TENSOR | TS_SEQUENCE, 0, OPERAND_VARIADIC | OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"out_sequence", TS_SEQUENCE, 0, OPERAND_VARIADIC}),
    .attrs = ATTRIBUTES({"body", ATTR_GRAPH, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
};
