/* SPDX-License-Identifier: Apache-2.0 */
/* If (ONNX 25): the results of one of two nested graphs. */
#include "ops/control_int.h"

static tn_status branches(const Node *node, Graph **then_branch, Graph **else_branch) {
    *then_branch = attr_graph(node, "then_branch");
    *else_branch = attr_graph(node, "else_branch");
    if (!*then_branch || !*else_branch) return fail(TN_INVALID_MODEL, "a branch is missing");
    if (graph_n_outputs(*then_branch) != node->n_results || graph_n_outputs(*else_branch) != node->n_results)
        return fail(TN_INVALID_MODEL, "the branches have %zu and %zu outputs, but the node %u",
                    graph_n_outputs(*then_branch), graph_n_outputs(*else_branch), node->n_results);
    return TN_OK;
}

static tn_status infer(InferCtx *c) {
    Graph *a, *b;
    int64_t cond;
    int n;
    TRY(branches(c->node, &a, &b));
    bool known = in_ints(c, 0, &cond, 1, &n) && n == 1;
    for (int i = 0; i < c->n_out; i++) {
        InferValue x = body_output(c, a, (size_t)i), y = body_output(c, b, (size_t)i), v;
        TRY(either_of(&x, &y, i, &v));
        set_result(c, i, known ? (cond ? &x : &y) : &v);
    }
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    Graph *a, *b;
    bool cond;
    TRY(branches(c->node, &a, &b));
    TRY(read_bool(c->in[0], "cond", &cond));
    Tensor *out = kernel_scratch(c, Tensor, (size_t)c->n_out + 1);
    if (!out) return TN_OUT_OF_MEMORY;
    TRY(c->host->run_graph(c->host, cond ? a : b, NULL, 0, out, (size_t)c->n_out));
    for (int i = 0; i < c->n_out; i++) TRY(give_result(c, i, &out[i]));
    return TN_OK;
}

const OpSchema op_If = {
    .name = "If",
    .summary = "If (ONNX 25): one of two nested graphs",
    .kind = OP_ATOMIC,
    .flags = OP_CONTROL | OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"cond", TS(TN_BOOL), 0, 0}),
    .outputs = OPERANDS({"outputs", TS_ANY, 0, OPERAND_VARIADIC | OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"then_branch", ATTR_GRAPH, ATTR_REQUIRED, 0, 0, NULL},
                        {"else_branch", ATTR_GRAPH, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
};
