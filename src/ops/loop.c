/* SPDX-License-Identifier: Apache-2.0 */
/* Loop (ONNX 25): a nested graph again and again, at most M times and while its condition holds. With M and without a
   first condition it is M times: the body's condition is then ignored, and the body always sees true. */
#include "ops/control_int.h"

enum { TRIPS, COND, FIRST };

/* Bodies take (iteration, condition, carried...) and give (condition, carried..., slices...). */
typedef struct Parts {
    Graph *body;
    int carried, stacked;
} Parts;

static tn_status parts_of(const Node *node, Parts *p) {
    p->body = attr_graph(node, "body");
    if (!p->body) return fail(TN_INVALID_MODEL, "the body is missing");
    p->carried = node->n_operands > FIRST ? (int)node->n_operands - FIRST : 0;
    p->stacked = (int)node->n_results - p->carried;
    if (p->stacked < 0 || p->body->inputs.len != (size_t)(2 + p->carried) ||
        graph_n_outputs(p->body) != 1 + (size_t)node->n_results)
        return fail(TN_INVALID_MODEL, "the body has %zu inputs and %zu outputs, but %d and %u are wanted",
                    p->body->inputs.len, graph_n_outputs(p->body), 2 + p->carried, 1 + node->n_results);
    return TN_OK;
}

static bool constant_number(const Value *v, int64_t *value) {
    int64_t n = 0;
    const Tensor *t = value_constant(v);
    return t && tensor_count(t) == 1 && tensor_ints(t, value, 1, &n) == TN_OK && n == 1;
}

/* What the body's condition is at every turn when it was true at first, whatever is computed. */
static bool constant_condition(const Graph *body, bool *goes_on) {
    int64_t value = 1;
    const Value *v = graph_output(body, 0);
    while (v->def && v->def->op == op_find(STR(""), STR("Identity"))) v = node_operand(v->def, 0);
    bool known = v == body->inputs.data[1] || constant_number(v, &value);
    *goes_on = value != 0;
    return known;
}

static bool counts_only(const Node *node) { return node_operand(node, TRIPS) && !node_operand(node, COND); }

/* What `node` does after a turn, where it always does the same. */
static bool always(const Node *node, const Graph *body, bool *goes_on) {
    *goes_on = true;
    return counts_only(node) || constant_condition(body, goes_on);
}

static bool never_stops(const Node *node, const Graph *body) {
    bool goes_on;
    return always(node, body, &goes_on) && goes_on;
}

bool is_loop_condition(const Value *v) { return !v->def && v->index == COND && control_is_loop(v->graph->owner); }

LoopTrips loop_trips(const Node *node) {
    Parts p;
    bool goes_on;
    int64_t m, cond = 1;
    LoopTrips t = {0, INT64_MAX};
    if (parts_of(node, &p) != TN_OK) {
        diag_clear();
        return t;
    }
    const Value *limit = node_operand(node, TRIPS), *first = node_operand(node, COND);
    bool limited = limit && constant_number(limit, &m);
    bool starts = !first || is_loop_condition(first) || constant_number(first, &cond);
    if (limited) t.most = max_i64(m, 0);
    if (starts && !cond) t.most = 0;
    if (!starts || (limit && !limited) || t.most == 0) return t;
    t.least = 1;
    if (!always(node, p.body, &goes_on)) return t;
    if (goes_on) t.least = limited ? t.most : 1;
    else t.most = 1;
    return t;
}

static Dim known_trips(InferCtx *c, const Graph *body) {
    Dim trips = DIM_UNKNOWN;
    int64_t cond = 1;
    int n = 1;
    if (!in_content(c, TRIPS, &trips, 1, &n) || n != 1) return DIM_UNKNOWN;
    if (has_input(c, COND) && (!in_ints(c, COND, &cond, 1, &n) || n != 1)) return DIM_UNKNOWN;
    if (!cond) return 0;
    if (!never_stops(c->node, body)) return DIM_UNKNOWN;
    if (dim_is_const(trips)) return max_i64(trips, 0);
    return dim_not_negative(c->dims, trips) ? trips : DIM_UNKNOWN;
}

static tn_status infer(InferCtx *c) {
    Parts p;
    TRY(parts_of(c->node, &p));
    Dim trips = known_trips(c, p.body);
    for (int i = 0; i < c->n_out; i++) {
        InferValue v = body_output(c, p.body, (size_t)i + 1);
        if (i < p.carried) TRY(either_of(&c->in[FIRST + i], &v, i, &v)); /* no turn at all: what it was at first */
        else TRY(insert_dim(&v.shape, 0, trips, "axis"));
        set_result(c, i, &v);
    }
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

typedef struct Run {
    Parts parts;
    int64_t trips; /* at most; -1: no bound */
    bool cond;
    Carried *carried;
    Stack *stacks;
    Tensor *in, *out; /* of the body */
} Run;

static tn_status prepare(KernelCtx *c, Run *r) {
    int n;
    TRY(parts_of(c->node, &r->parts));
    const Parts *p = &r->parts;
    r->trips = -1;
    r->cond = true;
    if (kernel_has_input(c, TRIPS)) {
        TRY(tensor_few_ints(c->in[TRIPS], "M", &r->trips, 1, &n));
        if (n != 1) return fail(TN_SHAPE, "M must have one element");
        r->trips = max_i64(r->trips, 0);
    }
    if (kernel_has_input(c, COND)) TRY(read_bool(c->in[COND], "cond", &r->cond));
    r->carried = kernel_scratch(c, Carried, (size_t)p->carried + 1);
    r->stacks = kernel_scratch(c, Stack, (size_t)p->stacked + 1);
    r->in = kernel_scratch(c, Tensor, (size_t)p->carried + 2);
    r->out = kernel_scratch(c, Tensor, (size_t)c->n_out + 1);
    if (!r->carried || !r->stacks || !r->in || !r->out) return TN_OUT_OF_MEMORY;
    for (int i = 0; i < p->carried; i++) {
        if (!kernel_has_input(c, FIRST + i)) return fail(TN_INVALID_MODEL, "carried value %d has no first value", i);
        r->carried[i] = (Carried){.now = *c->in[FIRST + i], .used = 1};
    }
    /* With a known number of turns the results are made at the first one, else slices wait for the last. A bound beyond
       the limit on turns is none. */
    bool exact = r->trips >= 0 && r->cond && never_stops(c->node, p->body);
    if (exact && (uint64_t)r->trips > c->context->limits.max_loop_trips) exact = false;
    for (int i = 0; i < p->stacked; i++)
        r->stacks[i] = (Stack){.index = p->carried + i, .length = exact ? r->trips : -1};
    return TN_OK;
}

/* A scalar operand of the body, as [1] where the body declares it so. */
static void scalar(Tensor *t, tn_dtype dtype, const Value *input, void *data) {
    const int64_t one = 1;
    tensor_set_dense(t, dtype, input->type->shape.rank == 1, &one);
    t->data = data;
}

static tn_status turn(KernelCtx *c, Run *r, int64_t iteration) {
    const Parts *p = &r->parts;
    uint8_t cond = r->cond;
    scalar(&r->in[0], TN_I64, p->body->inputs.data[0], &iteration);
    scalar(&r->in[1], TN_BOOL, p->body->inputs.data[1], &cond);
    for (int i = 0; i < p->carried; i++) r->in[2 + i] = r->carried[i].now;
    TRY(c->host->run_graph(c->host, p->body, r->in, (size_t)p->carried + 2, r->out, (size_t)c->n_out + 1));
    TRY(read_bool(&r->out[0], "the body's condition", &r->cond));
    r->cond |= counts_only(c->node);
    for (int i = 0; i < p->stacked; i++) TRY(stack_push(c, &r->stacks[i], &r->out[1 + p->carried + i]));
    /* A carried value may be a reading of this turn's iteration or condition, which end here, or of other carried
       values: each is copied to memory that nobody reads. */
    for (int i = 0; i < p->carried; i++) TRY(carry(c, &r->carried[i], &r->out[1 + i]));
    return TN_OK;
}

static tn_status run(KernelCtx *c, Run *r) {
    TRY(prepare(c, r));
    for (int64_t i = 0; r->cond && (r->trips < 0 || i < r->trips); i++) {
        if ((uint64_t)i >= c->context->limits.max_loop_trips)
            return fail(TN_LIMIT, "the loop has run %lld times and goes on (max_loop_trips)", (long long)i);
        TRY(kernel_poll(c));
        TRY(turn(c, r, i));
    }
    for (int i = 0; i < r->parts.carried; i++) TRY(give_result(c, i, &r->carried[i].now));
    for (int i = 0; i < r->parts.stacked; i++)
        TRY(stack_finish(c, &r->stacks[i], graph_output(r->parts.body, (size_t)(1 + r->parts.carried + i))));
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    Run r = {0};
    tn_status status = run(c, &r);
    for (int i = 0; r.carried && i < r.parts.carried; i++) carried_release(&r.carried[i]);
    for (int i = 0; r.stacks && i < r.parts.stacked; i++) slot_release(&r.stacks[i].slot);
    return status;
}

const OpSchema op_Loop = {
    .name = "Loop",
    .summary = "Loop (ONNX 25): a nested graph again and again",
    .kind = OP_ATOMIC,
    .flags = OP_CONTROL | OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"M", TS(TN_I64), 0, OPERAND_OPTIONAL}, {"cond", TS(TN_BOOL), 0, OPERAND_OPTIONAL},
                       {"v_initial", TS_ANY, 0, OPERAND_VARIADIC | OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"v_final_and_scan_outputs", TS_ANY, 0, OPERAND_VARIADIC | OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"body", ATTR_GRAPH, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = infer,
    .reference = reference,
};
