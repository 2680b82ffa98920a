/* SPDX-License-Identifier: Apache-2.0 */
/* unroll-loops: a Loop that makes few turns, always as many, becomes its body as often, one after the other; so does a
   Scan over few slices. What turns add slice by slice is put together by Concat. A Loop without a turn gives what it
   began with. Bodies with random ops stay loops: the numbers that a node draws follow from its name. */
#include "ops/op.h"
#include "pass/pass.h"

typedef struct Unroll {
    PassRun *run;
    Model *model;
    int64_t max_trips, budget;
    InferFacts facts; /* for the lengths that Scans go over */
    bool asked;       /* for them */
    Node *resume;     /* the next node to look at: the copies may hold loops of which more is known now */
    int64_t n_unrolled, n_copied;
} Unroll;

/* A Loop or a Scan, and how its operands and results go with those of its body. */
typedef struct Turns {
    Node *node;
    Graph *body;
    bool scan;
    int64_t trips;
    size_t carried, stacked, scanned; /* numbers of values */
    size_t in, out;                   /* the first operand that is carried; the body's first output that is */
    Node *last;                       /* of the graph, before anything was added; at least the loop */
    Value **now;                      /* what is carried; then what is bound to the body's other inputs */
    Value **given;                    /* outputs of one turn */
    Value **slices;                   /* [stacked][trips] */
} Turns;

/* ---- what the body is made of -------------------------------------------------------------------------------- */

/* Recursion is bounded by how deep graphs may be nested. */
static int64_t count_nodes(const Graph *graph, bool *random) {
    int64_t n = (int64_t)graph->n_nodes;
    for (const Node *node = graph->first; node; node = node->next) {
        const Graph *nested;
        *random |= (node->op->flags & OP_RANDOM) != 0;
        for (size_t k = 0; node->op->flags & OP_CONTROL && (nested = node_graph(node, k)); k++)
            n += count_nodes(nested, random);
    }
    return n;
}

/* Whether so many copies are within the limits; the budget shrinks by them. */
static bool afford(Unroll *u, const Turns *t) {
    bool random = false;
    int64_t nodes = count_nodes(t->body, &random), added;
    int64_t each = (int64_t)(2 * t->stacked + t->scanned + 2);
    if (random || t->trips > u->max_trips || (uint64_t)t->trips > u->run->ctx->limits.max_loop_trips) return false;
    if (mul_overflows(nodes + each, t->trips, &added)) return false;
    if (added - nodes > u->budget) return false;
    if (model_node_count(u->model) + (uint64_t)added > u->run->ctx->limits.max_nodes) return false;
    u->budget -= max_i64(added - nodes, 0);
    return true;
}

static bool fits(const Turns *t, size_t n_inputs, size_t n_outputs) {
    if (t->body->inputs.len != n_inputs || graph_n_outputs(t->body) != n_outputs) return false;
    for (size_t i = t->in; i < t->node->n_operands; i++)
        if (!node_operand(t->node, i)) return false;
    for (size_t i = 0; i < t->stacked; i++)
        if (graph_output(t->body, t->out + t->carried + i)->type->kind != TYPE_TENSOR) return false;
    return true;
}

static bool read_loop(Node *node, Turns *t) {
    *t = (Turns){.node = node, .body = attr_graph(node, "body"), .in = 2, .out = 1};
    if (!t->body || node->n_operands < 2) return false;
    LoopTrips trips = loop_trips(node);
    t->carried = node->n_operands - 2;
    t->trips = trips.least;
    if (trips.least != trips.most || node->n_results < t->carried) return false;
    t->stacked = node->n_results - t->carried;
    return fits(t, t->carried + 2, node->n_results + 1u);
}

/* The length of what is scanned must follow from the graph: a declared size may be wrong. */
static bool read_scan(const Unroll *u, Node *node, Turns *t) {
    int64_t scanned = attr_int(node, "num_scan_inputs");
    IntList axes = attr_ints(node, "scan_input_axes");
    *t = (Turns){.node = node, .body = attr_graph(node, "body"), .scan = true, .trips = -1};
    if (!t->body || scanned < 1 || scanned > node->n_operands) return false;
    t->scanned = (size_t)scanned;
    t->carried = node->n_operands - t->scanned;
    if (node->n_results < t->carried) return false;
    t->stacked = node->n_results - t->carried;
    if (!fits(t, node->n_operands, node->n_results)) return false;
    for (size_t k = 0; k < t->scanned; k++) {
        uint32_t id = node_operand(node, t->carried + k)->id;
        const Shape *s = id < u->facts.n ? &u->facts.values[id].shape : NULL;
        int64_t axis = k < axes.n ? axes.data[k] : 0;
        if (!s || s->rank < 0) return false;
        if (axis < 0) axis += s->rank;
        if (axis < 0 || axis >= s->rank || !dim_is_const(s->dims[axis])) return false;
        if (k > 0 && s->dims[axis] != t->trips) return false;
        t->trips = s->dims[axis];
    }
    return t->trips > 0;
}

/* ---- new nodes ----------------------------------------------------------------------------------------------- */

static tn_status add_node(Turns *t, const char *op, Value *const *operands, size_t n, Node **out) {
    Graph *graph = t->node->graph;
    TRY(node_new(graph, op_find(STR(""), str_of(op)), operands, n, 1, out));
    node_append(*out);
    (*out)->loc = t->node->loc;
    return TN_OK;
}

/* Not only to go on by. */
static bool is_read(const Graph *body, const Value *input) {
    for (const Use *use = input->uses; use; use = use->next)
        if (use != &body->ret->operands[0]) return true;
    return false;
}

/* The iteration or the condition, as [1] where the body declares it so. */
static tn_status add_number(Turns *t, const Value *input, tn_dtype dtype, int64_t number, Value **out) {
    const int64_t one = 1;
    Tensor *payload;
    Node *node;
    *out = NULL;
    if (!is_read(t->body, input)) return TN_OK;
    TRY(model_tensor(t->body->model, &payload));
    TRY(tensor_new(t->body->model->ctx, dtype, input->type->shape.rank == 1, &one, payload));
    store_i64(dtype, payload->data, 0, 1, &number, 1);
    TRY(const_new(t->node->graph, payload, (Str){NULL, 0}, &node));
    node->loc = t->node->loc;
    node_append(node);
    *out = node->results[0];
    return TN_OK;
}

static int64_t entry(const Node *node, const char *name, size_t k) {
    IntList list = attr_ints(node, name);
    return k < list.n ? list.data[k] : 0;
}

/* Slice number `turn` of what is scanned. */
static tn_status add_slice(Turns *t, size_t k, int64_t turn, Value **out) {
    bool backwards = entry(t->node, "scan_input_directions", k) != 0;
    Value *operands[2] = {node_operand(t->node, t->carried + k), NULL};
    Node *gather;
    TRY(const_ints(t->node->graph, &(int64_t){backwards ? t->trips - 1 - turn : turn}, 1, true, &operands[1]));
    TRY(add_node(t, "Gather", operands, 2, &gather));
    TRY(node_set_int(gather, "axis", entry(t->node, "scan_input_axes", k)));
    *out = gather->results[0];
    return TN_OK;
}

/* Result `k` of those that grow: slices side by side along a dimension of their own. */
static tn_status add_stack(Turns *t, size_t k) {
    Value *result = t->node->results[t->carried + k], **slices = t->slices + k * (size_t)t->trips, *operands[2];
    int64_t axis = t->scan ? entry(t->node, "scan_output_axes", k) : 0;
    bool backwards = t->scan && entry(t->node, "scan_output_directions", k) != 0;
    Node *node = NULL;
    if (!result->uses) return TN_OK;
    TRY(const_ints(t->node->graph, &axis, 1, false, &operands[1]));
    for (int64_t i = 0; i < t->trips; i++) {
        operands[0] = slices[i];
        TRY(add_node(t, "Unsqueeze", operands, 2, &node));
        slices[i] = node->results[0];
    }
    for (int64_t i = 0; backwards && i < t->trips / 2; i++) {
        Value *other = slices[t->trips - 1 - i];
        slices[t->trips - 1 - i] = slices[i];
        slices[i] = other;
    }
    if (t->trips > 1) {
        TRY(add_node(t, "Concat", slices, (size_t)t->trips, &node));
        TRY(node_set_int(node, "axis", axis));
    }
    slices[0] = node->results[0];
    return TN_OK;
}

/* ---- turns --------------------------------------------------------------------------------------------------- */

/* Which turn a copy is of stands behind its location. */
static tn_status mark_turn(Turns *t, Node *first, int64_t turn) {
    Model *model = t->body->model;
    for (Node *node = first; node; node = node->next) {
        Text text;
        if (!node->loc.n) continue;
        text_init(&text, &model->ctx->allocator);
        text_printf(&text, "%.*s#%lld", (int)node->loc.n, node->loc.s, (long long)turn);
        if (text.status == TN_OK) node->loc = model_str(model, (Str){text.s, text.n});
        text_free(&text);
        if (!node->loc.s) return TN_OUT_OF_MEMORY;
    }
    return TN_OK;
}

static tn_status add_turn(Turns *t, int64_t turn) {
    const Graph *body = t->body;
    Graph *graph = t->node->graph;
    Value **bind = t->scan ? t->now : t->now - 2;
    if (!t->scan) TRY(add_number(t, body->inputs.data[0], TN_I64, turn, &bind[0]));
    if (!t->scan) TRY(add_number(t, body->inputs.data[1], TN_BOOL, 1, &bind[1]));
    for (size_t k = 0; k < t->scanned; k++) TRY(add_slice(t, k, turn, &t->now[t->carried + k]));
    Node *last = graph->last;
    TRY(graph_inline(body, graph, bind, t->given));
    TRY(mark_turn(t, last->next, turn));
    for (size_t i = 0; i < t->carried; i++) t->now[i] = t->given[t->out + i];
    for (size_t k = 0; k < t->stacked; k++)
        t->slices[k * (size_t)t->trips + (size_t)turn] = t->given[t->out + t->carried + k];
    return TN_OK;
}

static tn_status make_room(Unroll *u, Turns *t) {
    size_t trips = (size_t)t->trips;
    Value **bind = arena_array(u->run->scratch, Value *, t->body->inputs.len + 3);
    t->given = arena_array(u->run->scratch, Value *, graph_n_outputs(t->body) + 1);
    t->slices = arena_array(u->run->scratch, Value *, t->stacked * (trips ? trips : 1) + 1);
    if (!bind || !t->given || !t->slices) return TN_OUT_OF_MEMORY;
    t->now = bind + 2;
    for (size_t i = 0; i < t->carried; i++) t->now[i] = node_operand(t->node, t->in + i);
    return TN_OK;
}

/* What was added is at the end of the graph: it goes before the loop, or away again. */
static void take_back(Turns *t) {
    for (Node *node = t->node->graph->last, *prev; node != t->last; node = prev) {
        prev = node->prev;
        node_erase(node);
    }
}

/* What the body says of sizes is meant for all turns. */
static tn_status forget_sizes(Node *node) {
    Model *model = node->graph->model;
    for (uint32_t i = 0; i < node->n_results; i++) {
        const Type *t = node->results[i]->type;
        Type type = {.kind = t->kind, .dtype = t->dtype, .shape = shape_unknown(), .elem = t->elem};
        const Type *interned = type_intern(model, &type);
        if (!interned) return TN_OUT_OF_MEMORY;
        value_set_type(node->results[i], interned);
    }
    return TN_OK;
}

/* A turn that cannot be, of a loop that is perhaps never reached, stays where it fails when it runs. */
static tn_status find_types(Turns *t, bool *good) {
    *good = true;
    for (Node *node = t->last->next; node; node = node->next) {
        if (value_payload(node_result(node, 0))) continue;
        TRY(forget_sizes(node));
        if (node->op->flags & OP_CONTROL) continue;
        tn_status status = infer_node(node);
        if (status == TN_OUT_OF_MEMORY) return status;
        *good &= status == TN_OK;
        if (status != TN_OK) diag_clear();
    }
    return TN_OK;
}

static tn_status replace_loop(Unroll *u, Turns *t) {
    if (t->last->next) u->resume = t->last->next;
    for (Node *node = t->last->next, *next; node; node = next) {
        next = node->next;
        node_move_before(node, t->node);
        u->n_copied++;
    }
    for (size_t i = 0; i < t->carried; i++) TRY(value_take_over(t->node->results[i], t->now[i]));
    for (size_t k = 0; k < t->stacked; k++) {
        Value *result = t->node->results[t->carried + k];
        if (result->uses) TRY(value_take_over(result, t->slices[k * (size_t)t->trips]));
    }
    node_erase(t->node);
    u->n_unrolled++;
    return TN_OK;
}

/* All turns read the same constants. */
static void share_constants(Turns *t) {
    for (Node *node = t->body->first, *next; node; node = next) {
        next = node->next;
        if (value_payload(node_result(node, 0))) node_move_before(node, t->node);
    }
}

static tn_status unroll(Unroll *u, Turns *t) {
    bool good;
    if (!afford(u, t) || !pass_may_change(u->run)) return TN_OK;
    TRY(make_room(u, t));
    share_constants(t);
    t->last = t->node->graph->last;
    for (int64_t turn = 0; turn < t->trips; turn++) TRY(add_turn(t, turn));
    for (size_t k = 0; k < t->stacked; k++) TRY(add_stack(t, k));
    TRY(find_types(t, &good));
    if (good) return replace_loop(u, t);
    take_back(t);
    return TN_OK;
}

/* ---- no turn ------------------------------------------------------------------------------------------------- */

static bool is_known_when_empty(const Turns *t) {
    for (size_t k = 0; k < t->stacked; k++) {
        const Type *slice = graph_output(t->body, t->out + t->carried + k)->type;
        if (!t->node->results[t->carried + k]->uses) continue;
        if (!slice->dtype || !shape_is_known(&slice->shape) || slice->shape.rank >= TN_MAX_RANK) return false;
    }
    return true;
}

static tn_status put_empty(Turns *t, size_t k) {
    const Type *slice = graph_output(t->body, t->out + t->carried + k)->type;
    Value *result = t->node->results[t->carried + k];
    int64_t dims[TN_MAX_RANK] = {0};
    Tensor *payload;
    Node *node;
    if (!result->uses) return TN_OK;
    memcpy(dims + 1, slice->shape.dims, (size_t)slice->shape.rank * sizeof *dims);
    TRY(model_tensor(t->body->model, &payload));
    TRY(tensor_new(t->body->model->ctx, slice->dtype, slice->shape.rank + 1, dims, payload));
    TRY(const_new(t->node->graph, payload, (Str){NULL, 0}, &node));
    node->loc = t->node->loc;
    node_insert_before(node, t->node);
    return value_take_over(result, node->results[0]);
}

static tn_status skip_loop(Unroll *u, Turns *t) {
    if (!is_known_when_empty(t) || !pass_may_change(u->run)) return TN_OK;
    for (size_t i = 0; i < t->carried; i++) TRY(value_take_over(t->node->results[i], node_operand(t->node, t->in + i)));
    for (size_t k = 0; k < t->stacked; k++) TRY(put_empty(t, k));
    node_erase(t->node);
    u->n_unrolled++;
    return TN_OK;
}

/* ---- the pass ------------------------------------------------------------------------------------------------ */

static tn_status find_facts(Unroll *u) {
    if (u->asked) return TN_OK;
    u->asked = true;
    tn_status status = infer_facts(u->model, &u->facts);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) diag_clear(); /* then no length is known */
    return TN_OK;
}

static tn_status look_at(Unroll *u, Node *node) {
    Turns t;
    if (node->op->domain || !(node->op->flags & OP_CONTROL)) return TN_OK;
    if (strcmp(node->op->name, "Loop") == 0 && read_loop(node, &t)) return t.trips ? unroll(u, &t) : skip_loop(u, &t);
    if (strcmp(node->op->name, "Scan") != 0) return TN_OK;
    TRY(find_facts(u));
    return read_scan(u, node, &t) ? unroll(u, &t) : TN_OK;
}

/* Inner loops first: the outer one then copies what became of them. */
static tn_status unroll_all(Unroll *u) {
    Graph **graphs;
    size_t n;
    TRY(model_graphs(u->model, u->run->scratch, &graphs, &n));
    for (size_t i = 0; i < n; i++) {
        for (Node *node = graphs[i]->first; node; node = u->resume) {
            u->resume = node->next;
            TRY(look_at(u, node));
        }
    }
    TRY(pass_count(u->run, "loops", u->n_unrolled));
    return pass_count(u->run, "copied", u->n_copied);
}

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    Unroll u = {
        .run = run, .model = run->model, .max_trips = pass_int(run, "max_trips"), .budget = pass_int(run, "max_nodes")};
    tn_status status = unroll_all(&u);
    if (u.facts.n) infer_facts_free(&u.facts);
    return status;
}

const Pass pass_unroll_loops = {.name = "unroll-loops",
                                .summary = "put the turns of short loops one after the other",
                                .phase = PHASE_PRE_PLACEMENT,
                                .order = 60,
                                .opt_level = 1,
                                .requires = {"infer-shapes"},
                                .options = {{"max_trips", OPTION_INT, "8", "loops that make more turns stay"},
                                            {"max_nodes", OPTION_INT, "1000", "how many nodes may be added in all"}},
                                .run = run};
