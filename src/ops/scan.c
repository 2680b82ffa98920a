/* SPDX-License-Identifier: Apache-2.0 */
/* Scan (ONNX 25): a nested graph over the slices of its operands, with states carried along. */
#include "ops/control_int.h"

/* Bodies take (states..., slices...) and give (states..., slices...). */
typedef struct Parts {
    Graph *body;
    int states, scanned, stacked;
} Parts;

static tn_status check_list(const Node *node, const char *name, int n, bool direction) {
    IntList list = attr_ints(node, name);
    if (list.n != 0 && list.n != (size_t)n)
        return fail(TN_INVALID_ARGUMENT, "%s has %zu entries, not %d", name, list.n, n);
    for (size_t k = 0; direction && k < list.n; k++)
        if (list.data[k] != 0 && list.data[k] != 1)
            return fail(TN_INVALID_ARGUMENT, "%s[%zu] is neither 0 nor 1", name, k);
    return TN_OK;
}

static int64_t entry(const Node *node, const char *name, int k) {
    IntList list = attr_ints(node, name);
    return list.n ? list.data[k] : 0;
}

static tn_status parts_of(const Node *node, Parts *p) {
    int64_t scanned = attr_int(node, "num_scan_inputs");
    p->body = attr_graph(node, "body");
    if (!p->body) return fail(TN_INVALID_MODEL, "the body is missing");
    if (scanned < 1 || scanned > node->n_operands)
        return fail(TN_INVALID_ARGUMENT, "num_scan_inputs is %lld, of %u operands", (long long)scanned,
                    node->n_operands);
    p->scanned = (int)scanned;
    p->states = (int)(node->n_operands - scanned);
    p->stacked = (int)node->n_results - p->states;
    if (p->stacked < 0 || p->body->inputs.len != node->n_operands || graph_n_outputs(p->body) != node->n_results)
        return fail(TN_INVALID_MODEL, "the body has %zu inputs and %zu outputs, but the node %u and %u",
                    p->body->inputs.len, graph_n_outputs(p->body), node->n_operands, node->n_results);
    TRY(check_list(node, "scan_input_axes", p->scanned, false));
    TRY(check_list(node, "scan_input_directions", p->scanned, true));
    TRY(check_list(node, "scan_output_axes", p->stacked, false));
    return check_list(node, "scan_output_directions", p->stacked, true);
}

static tn_status infer(InferCtx *c) {
    Parts p;
    Dim length = DIM_UNKNOWN;
    TRY(parts_of(c->node, &p));
    for (int k = 0; k < p.scanned; k++) {
        const Shape *x = in_shape(c, p.states + k);
        int axis;
        if (x->rank < 0) continue;
        TRY(normal_axis(entry(c->node, "scan_input_axes", k), x->rank, "scan_input_axes", &axis));
        TRY(dims_must_match(length, x->dims[axis], "the lengths of what is scanned", &length));
    }
    for (int i = 0; i < c->n_out; i++) {
        InferValue v = body_output(c, p.body, (size_t)i);
        if (i < p.states) TRY(either_of(&c->in[i], &v, i, &v));
        else TRY(insert_dim(&v.shape, entry(c->node, "scan_output_axes", i - p.states), length, "scan_output_axes"));
        set_result(c, i, &v);
    }
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

typedef struct Run {
    Parts parts;
    int64_t length;
    Carried *states;
    Stack *stacks;
    int *axes; /* of what is scanned */
    Tensor *in, *out;
} Run;

static tn_status prepare(KernelCtx *c, Run *r) {
    TRY(parts_of(c->node, &r->parts));
    const Parts *p = &r->parts;
    r->states = kernel_scratch(c, Carried, (size_t)p->states + 1);
    r->stacks = kernel_scratch(c, Stack, (size_t)p->stacked + 1);
    r->axes = kernel_scratch(c, int, (size_t)p->scanned);
    r->in = kernel_scratch(c, Tensor, (size_t)c->n_in + 1);
    r->out = kernel_scratch(c, Tensor, (size_t)c->n_out + 1);
    if (!r->states || !r->stacks || !r->axes || !r->in || !r->out) return TN_OUT_OF_MEMORY;
    for (int i = 0; i < c->n_in; i++)
        if (!c->in[i]) return fail(TN_INVALID_MODEL, "operand %d is missing", i);
    for (int i = 0; i < p->states; i++) r->states[i] = (Carried){.now = *c->in[i], .used = 1};
    for (int k = 0; k < p->scanned; k++) {
        const Tensor *x = c->in[p->states + k];
        TRY(normal_axis(entry(c->node, "scan_input_axes", k), x->rank, "scan_input_axes", &r->axes[k]));
        if (k > 0 && x->dims[r->axes[k]] != r->length)
            return fail(TN_SHAPE, "what is scanned differs in length: %lld and %lld", (long long)r->length,
                        (long long)x->dims[r->axes[k]]);
        r->length = x->dims[r->axes[k]];
    }
    if ((uint64_t)r->length > c->context->limits.max_loop_trips)
        return fail(TN_LIMIT, "a scan over %lld slices (max_loop_trips)", (long long)r->length);
    for (int i = 0; i < p->stacked; i++)
        r->stacks[i] = (Stack){.index = p->states + i,
                               .axis = entry(c->node, "scan_output_axes", i),
                               .backwards = entry(c->node, "scan_output_directions", i) != 0,
                               .length = r->length};
    return TN_OK;
}

static Tensor slice_of(const Tensor *x, int axis, int64_t at) {
    Tensor t = *x;
    t.offset += at * x->strides[axis];
    t.buffer = NULL; /* the operand keeps it */
    t.rank--;
    for (int k = axis; k < t.rank; k++) {
        t.dims[k] = t.dims[k + 1];
        t.strides[k] = t.strides[k + 1];
    }
    return t;
}

static tn_status turn(KernelCtx *c, Run *r, int64_t iteration) {
    const Parts *p = &r->parts;
    for (int i = 0; i < p->states; i++) r->in[i] = r->states[i].now;
    for (int k = 0; k < p->scanned; k++) {
        bool backwards = entry(c->node, "scan_input_directions", k) != 0;
        r->in[p->states + k] = slice_of(c->in[p->states + k], r->axes[k],
                                        backwards ? r->length - 1 - iteration : iteration);
    }
    TRY(c->host->run_graph(c->host, p->body, r->in, (size_t)c->n_in, r->out, (size_t)c->n_out));
    for (int i = 0; i < p->stacked; i++) TRY(stack_push(c, &r->stacks[i], &r->out[p->states + i]));
    for (int i = 0; i < p->states; i++) TRY(carry(c, &r->states[i], &r->out[i]));
    return TN_OK;
}

static tn_status run(KernelCtx *c, Run *r) {
    TRY(prepare(c, r));
    for (int64_t i = 0; i < r->length; i++) {
        TRY(kernel_poll(c));
        TRY(turn(c, r, i));
    }
    for (int i = 0; i < r->parts.states; i++) TRY(give_result(c, i, &r->states[i].now));
    for (int i = 0; i < r->parts.stacked; i++)
        TRY(stack_finish(c, &r->stacks[i], graph_output(r->parts.body, (size_t)(r->parts.states + i))));
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    Run r = {0};
    tn_status status = run(c, &r);
    for (int i = 0; r.states && i < r.parts.states; i++) carried_release(&r.states[i]);
    for (int i = 0; r.stacks && i < r.parts.stacked; i++) slot_release(&r.stacks[i].slot);
    return status;
}

const OpSchema op_Scan = {
    .name = "Scan",
    .summary = "Scan (ONNX 25): a nested graph over slices",
    .kind = OP_ATOMIC,
    .flags = OP_CONTROL | OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"initial_state_and_scan_inputs", TS_ALL_TENSOR, 0, OPERAND_VARIADIC}),
    .outputs = OPERANDS({"final_state_and_scan_outputs", TS_ALL_TENSOR, 0, OPERAND_VARIADIC}),
    .attrs = ATTRIBUTES(
        {"body", ATTR_GRAPH, ATTR_REQUIRED, 0, 0, NULL}, {"num_scan_inputs", ATTR_INT, ATTR_REQUIRED, 0, 0, NULL},
        {"scan_input_axes", ATTR_INTS, 0, 0, 0, NULL}, {"scan_input_directions", ATTR_INTS, 0, 0, 0, NULL},
        {"scan_output_axes", ATTR_INTS, 0, 0, 0, NULL}, {"scan_output_directions", ATTR_INTS, 0, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
};
