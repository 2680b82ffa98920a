/* SPDX-License-Identifier: Apache-2.0 */
/* tn.Fused: a small graph that is run as one node, so that what lies between its nodes need not reach memory. Its body reads
   the operands only, and none of its nodes has a nested graph itself. This kernel runs the body node by node. */
#include "ops/control_int.h"

static tn_status body_of(const Node *node, Graph **body) {
    *body = attr_graph(node, "body");
    if (!*body) return fail(TN_INVALID_MODEL, "the body is missing");
    if ((*body)->inputs.len != node->n_operands || graph_n_outputs(*body) != node->n_results)
        return fail(TN_INVALID_MODEL, "the body has %zu inputs and %zu outputs, but the node %u and %u",
                    (*body)->inputs.len, graph_n_outputs(*body), node->n_operands, node->n_results);
    for (uint32_t i = 0; i < node->n_operands; i++)
        if (!node_operand(node, i)) return fail(TN_INVALID_MODEL, "operand %u is missing", i);
    return TN_OK;
}

/* ---- inference ----------------------------------------------------------------------------------------------- */

/* What is known of the body's values. It is asked anew each time, since sizes that are known while the program runs need
   not have been when the body's types were found. */
typedef struct Known {
    const Value *value;
    InferValue known;
} Known;
typedef struct Body {
    const Graph *graph;
    Model *model; /* NULL while a program runs */
    Arena arena;
    bool counts;
    double flops; /* where it counts: of nodes whose sizes are known */
    Known *known; /* in the order in which values were found */
    size_t n, cap;
    Known few[24]; /* most bodies ask for no memory */
} Body;

static tn_status know(Body *b, const Value *v, const InferValue *known) {
    if (b->n == b->cap) {
        Known *more = arena_array(&b->arena, Known, 2 * b->cap);
        if (!more) return TN_OUT_OF_MEMORY;
        memcpy(more, b->known, b->n * sizeof *more);
        b->known = more;
        b->cap *= 2;
    }
    b->known[b->n++] = (Known){v, *known};
    return TN_OK;
}

/* What is read was mostly made just before. */
static tn_status look_up(const Body *b, const Value *v, InferValue *out) {
    *out = (InferValue){0};
    if (!v) return TN_OK;
    for (size_t i = b->n; i-- > 0;) {
        if (b->known[i].value != v) continue;
        *out = b->known[i].known;
        return TN_OK;
    }
    return fail(TN_INVALID_MODEL, "the body reads \"%s\", which is not its own; make it an operand",
                v->name.n ? v->name.s : "a value without a name");
}

static tn_status add_flops(Body *b, const Node *node, const InferValue *in, const InferValue *out) {
    if (!b->counts) return TN_OK;
    Shape *sizes = arena_array(&b->arena, Shape, node->n_operands + node->n_results + OP_MAX_INPUTS);
    if (!sizes) return TN_OUT_OF_MEMORY;
    Shape *results = sizes + node->n_operands + 1;
    for (uint32_t i = 0; i < node->n_operands; i++) sizes[i] = in[i].present ? in[i].shape : shape_unknown();
    for (uint32_t i = 0; i < node->n_results; i++) results[i] = out[i].shape;
    if (node->n_results && shape_is_known(&results[0])) b->flops += op_flops(node, sizes, results);
    return TN_OK;
}

enum { FEW = 6 };

static tn_status infer_one(Body *b, const Node *node) {
    InferValue few[FEW], *in = few;
    const Tensor *payload = value_payload(node_result(node, 0));
    if (payload) {
        few[0] = infer_concrete(payload, true);
        return know(b, node->results[0], few);
    }
    if (node->op->flags & OP_CONTROL)
        return fail(TN_INVALID_MODEL, "the body holds %s, which has nested graphs", node->op->name);
    Dim(*contents)[CONTENT_MAX] = NULL;
    if (b->model) contents = arena_alloc(&b->arena, (node->n_results + 1) * sizeof *contents, alignof(Dim));
    if (node->n_operands + node->n_results > FEW)
        in = arena_array(&b->arena, InferValue, node->n_operands + node->n_results);
    if (!in || (b->model && !contents)) return TN_OUT_OF_MEMORY;
    InferValue *out = in + node->n_operands;
    for (uint32_t i = 0; i < node->n_operands; i++) TRY(look_up(b, node_operand(node, i), &in[i]));
    TRY(op_infer(node, b->model, in, out, contents));
    for (uint32_t i = 0; i < node->n_results; i++) TRY(know(b, node->results[i], &out[i]));
    return add_flops(b, node, in, out);
}

static tn_status infer_body(Body *b, const InferValue *in, InferValue *out) {
    for (size_t i = 0; i < b->graph->inputs.len; i++) TRY(know(b, b->graph->inputs.data[i], &in[i]));
    for (const Node *node = b->graph->first; node; node = node->next) TRY(infer_one(b, node));
    for (size_t i = 0; i < graph_n_outputs(b->graph); i++) TRY(look_up(b, graph_output(b->graph, i), &out[i]));
    return TN_OK;
}

static void body_open(Body *b, const Graph *graph, Model *model) {
    b->graph = graph;
    b->model = model;
    b->counts = false;
    b->flops = 0;
    b->known = b->few;
    b->n = 0;
    b->cap = sizeof b->few / sizeof *b->few;
    arena_init(&b->arena, &graph->model->ctx->allocator);
}

static void body_close(Body *b) { arena_free(&b->arena); }

static tn_status infer_through(InferCtx *c, Body *b) {
    InferValue few[FEW], *out = few;
    if (c->n_out > FEW && !(out = arena_array(&b->arena, InferValue, (size_t)c->n_out))) return TN_OUT_OF_MEMORY;
    TRY(infer_body(b, c->in, out));
    for (int i = 0; i < c->n_out; i++) {
        set_result(c, i, &out[i]);
        if (out[i].content && out[i].kind == TYPE_TENSOR) set_content(c, i, out[i].content, out[i].n_content);
    }
    return TN_OK;
}

static tn_status infer(InferCtx *c) {
    Graph *graph;
    Body b;
    TRY(body_of(c->node, &graph));
    body_open(&b, graph, c->model);
    tn_status status = infer_through(c, &b);
    body_close(&b);
    return status;
}

/* Sums of what the nodes take; they are known where sizes are, so nothing is said where a size depends on contents. */
static double sum_flops(Body *b, const Node *node, const Shape *in) {
    InferValue *known = arena_array(&b->arena, InferValue, (size_t)node->n_operands + node->n_results + 1);
    if (!known) return 0;
    for (uint32_t i = 0; i < node->n_operands; i++)
        known[i] = (InferValue){.present = true, .dtype = node->operands[i].value->type->dtype, .shape = in[i]};
    return infer_body(b, known, known + node->n_operands) == TN_OK ? b->flops : 0;
}

static double flops(const Node *node, const Shape *in, const Shape *out) {
    (void)out;
    Graph *graph;
    Body b;
    if (body_of(node, &graph) != TN_OK) {
        diag_clear();
        return 0;
    }
    body_open(&b, graph, NULL);
    b.counts = true;
    double sum = sum_flops(&b, node, in);
    body_close(&b);
    diag_clear();
    return sum;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

static tn_status reference(KernelCtx *c) {
    Graph *body;
    TRY(body_of(c->node, &body));
    Tensor *in = kernel_scratch(c, Tensor, (size_t)c->n_in + 1), *out = kernel_scratch(c, Tensor, (size_t)c->n_out + 1);
    if (!in || !out) return TN_OUT_OF_MEMORY;
    for (int i = 0; i < c->n_in; i++) in[i] = *c->in[i];
    TRY(c->host->run_graph(c->host, body, in, (size_t)c->n_in, out, (size_t)c->n_out));
    for (int i = 0; i < c->n_out; i++) TRY(give_result(c, i, &out[i]));
    return TN_OK;
}

/* Whoever runs nested graphs asks for OP_CONTROL. It also says that the node is neither computed ahead of time nor shared with
   an equal one, which should have been done with its parts. */
const OpSchema op_tn_Fused = {
    .domain = "tn",
    .name = "Fused",
    .summary = "a small graph run as one node",
    .kind = OP_COMPOSITE,
    .flags = OP_CONTROL | OP_CLOSED | OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"operands", TS_ANY, 0, OPERAND_VARIADIC | OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"results", TS_ANY, 0, OPERAND_VARIADIC}),
    .attrs = ATTRIBUTES({"body", ATTR_GRAPH, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
    .lowering = "its body's nodes",
    .flops = flops,
};

/* ---- taking it apart ----------------------------------------------------------------------------------------- */

bool node_is_fused(const Node *node) { return node->op == &op_tn_Fused; }

tn_status fused_inline(Node *fused) {
    Graph *body;
    tn_status status = body_of(fused, &body);
    if (status != TN_OK) {
        node_blame(fused);
        return status;
    }
    for (uint32_t i = 0; i < fused->n_operands; i++) value_replace(body->inputs.data[i], node_operand(fused, i));
    while (body->first) node_move_before(body->first, fused);
    for (uint32_t i = 0; i < fused->n_results; i++) TRY(value_take_over(fused->results[i], graph_output(body, i)));
    node_erase(fused);
    return TN_OK;
}
