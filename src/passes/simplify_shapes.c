/* SPDX-License-Identifier: Apache-2.0 */
/* simplify-shapes: arithmetic on sizes that inference sees through. What are numbers for certain becomes a constant; two
   lists of the same sizes become one, read from a graph input where it has them; the target of a Reshape becomes a
   constant where 0 (as the operand has it) and -1 (what is left) say the same. All from infer_facts: what is only declared
   of a value is never relied on. */
#include "ops/op.h"
#include "pass/pass.h"

#include <stdlib.h>

/* A size of a graph input. */
typedef struct DimPlace {
    Dim dim;
    uint32_t input;
    int axis;
} DimPlace;

/* A value of known contents. */
typedef struct Entry {
    const InferValue *facts; /* NULL: free */
    Value *value;
} Entry;

typedef struct Simplify {
    PassRun *run;
    Model *model;
    InferFacts facts;
    VEC(Node *) nodes; /* those that may be simplified, in program order */
    uint8_t *vague;    /* by value id: some number of its contents may be another, see is_vague_number */
    Entry *table;      /* by contents */
    size_t n_slots;
    DimPlace *places; /* sorted */
    size_t n_places;
    int64_t n_constants, n_shared, n_targets, n_removed;
} Simplify;

/* Of values that the pass made itself there are none. */
static const InferValue *facts_of(const Simplify *s, const Value *v) {
    return v && v->id < s->facts.n ? &s->facts.values[v->id] : NULL;
}

/* ---- collecting ---------------------------------------------------------------------------------------------- */

/* Inference has one number for all near INT64_MIN, where the space of numbers is taken by expressions. */
static bool is_vague_number(int64_t v) { return dim_is_const(v) && v < -((int64_t)1 << 62); }

static bool is_vague_content(const InferValue *f) {
    for (int k = 0; k < f->n_content; k++)
        if (is_vague_number(f->content[k])) return true;
    return false;
}

static tn_status on_constant(Visitor *v, Node *node) {
    Simplify *s = v->user;
    int64_t values[CONTENT_MAX], n = 0;
    const Tensor *t = value_payload(node->results[0]);
    bool integers = t->dtype == TN_I64 && tensor_count(t) <= CONTENT_MAX && (t->data || tensor_count(t) == 0);
    if (!integers || tensor_ints(t, values, CONTENT_MAX, &n) != TN_OK) return TN_OK;
    for (int64_t i = 0; i < n; i++)
        if (values[i] < -((int64_t)1 << 62)) s->vague[node->results[0]->id] = 1;
    return TN_OK;
}

/* Where a Slice begins and ends all numbers that low mean the same. */
static void mark_vague(Simplify *s, const Node *node) {
    bool vague = false;
    uint32_t n = node_is_onnx(node, "Slice") ? 1 : node->n_operands;
    for (uint32_t i = 0; i < n; i++) {
        const Value *v = node->operands[i].value;
        vague |= v && v->id < s->facts.n && s->vague[v->id];
    }
    for (uint32_t i = 0; i < node->n_results; i++) {
        const InferValue *f = facts_of(s, node->results[i]);
        s->vague[node->results[i]->id] = f->content && (vague || is_vague_content(f));
    }
}

static tn_status on_node(Visitor *v, Node *node) {
    Simplify *s = v->user;
    bool wanted = node_is_onnx(node, "Reshape") || node_is_onnx(node, "Expand") || node_is_onnx(node, "Flatten");
    mark_vague(s, node);
    for (uint32_t i = 0; i < node->n_results; i++) wanted |= facts_of(s, node->results[i])->content != NULL;
    return wanted && op_is_pure(node->op) ? vec_push(&s->run->ctx->allocator, &s->nodes, node) : TN_OK;
}

static int by_dim(const void *x, const void *y) {
    const DimPlace *a = x, *b = y;
    if (a->dim != b->dim) return a->dim > b->dim ? 1 : -1;
    return a->input != b->input ? (a->input > b->input ? 1 : -1) : a->axis - b->axis;
}

static tn_status collect_places(Simplify *s) {
    const Graph *main = s->model->main;
    s->places = arena_array(s->run->scratch, DimPlace, main->inputs.len * TN_MAX_RANK + 1);
    if (!s->places) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < main->inputs.len; i++) {
        const InferValue *f = facts_of(s, main->inputs.data[i]);
        for (int k = 0; f->kind == TYPE_TENSOR && k < f->shape.rank; k++)
            if (!dim_is_const(f->shape.dims[k]))
                s->places[s->n_places++] = (DimPlace){f->shape.dims[k], (uint32_t)i, k};
    }
    qsort(s->places, s->n_places, sizeof *s->places, by_dim);
    return TN_OK;
}

static tn_status collect(Simplify *s) {
    Visitor v = {.node = on_node, .constant = on_constant, .user = s};
    s->vague = arena_array(s->run->scratch, uint8_t, s->facts.n + 1);
    if (!s->vague) return TN_OUT_OF_MEMORY;
    TRY(visit_model(s->model, &v));
    size_t results = 0;
    for (size_t i = 0; i < s->nodes.len; i++) results += s->nodes.data[i]->n_results;
    for (s->n_slots = 16; s->n_slots < 2 * results + 2;) s->n_slots *= 2;
    s->table = arena_array(s->run->scratch, Entry, s->n_slots);
    return s->table ? collect_places(s) : TN_OUT_OF_MEMORY;
}

/* ---- values of the same contents ----------------------------------------------------------------------------- */

typedef enum Known { NOT_ALL, AS_SIZES, AS_NUMBERS } Known;

static Known known_content(const Simplify *s, const Value *v) {
    const InferValue *f = facts_of(s, v);
    int64_t count;
    if (!f || !f->content || s->vague[v->id] || !shape_is_known(&f->shape)) return NOT_ALL;
    if (checked_count(f->shape.rank, f->shape.dims, &count) != TN_OK || count != f->n_content) return NOT_ALL;
    Known known = AS_NUMBERS;
    for (int k = 0; k < f->n_content; k++) {
        if (f->content[k] == DIM_UNKNOWN) return NOT_ALL;
        if (!dim_is_const(f->content[k])) known = AS_SIZES;
    }
    return known;
}

static bool same_content(const InferValue *a, const InferValue *b) {
    return a->dtype == b->dtype && shape_equal(&a->shape, &b->shape) && a->n_content == b->n_content &&
           memcmp(a->content, b->content, (size_t)a->n_content * sizeof *a->content) == 0;
}

static Entry *find_entry(const Simplify *s, const InferValue *f) {
    size_t at = (size_t)hash_bytes(f->content, (size_t)f->n_content * sizeof *f->content);
    for (;; at++) {
        Entry *e = &s->table[at & (s->n_slots - 1)];
        if (!e->facts || same_content(e->facts, f)) return e;
    }
}

static bool is_input_shape(const Value *v) {
    if (!v->def || !node_is_onnx(v->def, "Shape")) return false;
    const Value *x = node_operand(v->def, 0);
    return !x->def && x->graph == x->graph->model->main;
}

static size_t first_place(const Simplify *s, Dim dim) {
    size_t low = 0, high = s->n_places;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->places[middle].dim < dim) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The graph input that has these sizes one after the other, from dimension *from on. Of many that have one of them a few
   are looked at. */
static Value *input_with(const Simplify *s, const InferValue *f, int *from) {
    enum { TRIES = 16 };
    int first = 0;
    while (dim_is_const(f->content[first])) first++;
    size_t at = first_place(s, f->content[first]), end = at + TRIES < s->n_places ? at + TRIES : s->n_places;
    for (; at < end && s->places[at].dim == f->content[first]; at++) {
        Value *input = s->model->main->inputs.data[s->places[at].input];
        const Shape *shape = &facts_of(s, input)->shape;
        *from = s->places[at].axis - first;
        if (*from < 0 || *from + f->n_content > shape->rank) continue;
        if (memcmp(shape->dims + *from, f->content, (size_t)f->n_content * sizeof(Dim)) == 0) return input;
    }
    return NULL;
}

static tn_status add_before(Node *place, const char *op, Value *operand, Str loc, Node **out) {
    TRY(node_new(place->graph, op_find(STR(""), str_of(op)), &operand, 1, 1, out));
    (*out)->loc = loc;
    node_insert_before(*out, place);
    return TN_OK;
}

/* Whether `v` is read from an input already, as directly as can be. */
static bool reads_input(const Value *v) {
    const Value *from = node_operand(v->def, 0);
    return is_input_shape(v) || (v->type->shape.rank == 0 && from && is_input_shape(from));
}

/* At the graph's beginning, where all may use them. *out stays NULL where no input has these sizes. */
static tn_status read_from_input(Simplify *s, const Value *v, const InferValue *f, Value **out) {
    int from;
    Node *shape, *result, *place = s->model->main->first;
    bool plain = f->dtype == TN_I64 && (f->shape.rank == 1 || (f->shape.rank == 0 && f->n_content == 1));
    Value *input = plain && !reads_input(v) ? input_with(s, f, &from) : NULL;
    if (!input || !pass_may_change(s->run)) return TN_OK;
    TRY(add_before(place, "Shape", input, v->def->loc, &shape));
    if (from > 0) TRY(node_set_int(shape, "start", from));
    if (from + f->n_content < input->type->shape.rank) TRY(node_set_int(shape, "end", from + f->n_content));
    TRY(infer_node(shape));
    result = shape;
    if (f->shape.rank == 0) TRY(add_before(place, "Squeeze", shape->results[0], v->def->loc, &result));
    if (result != shape) TRY(infer_node(result));
    *out = result->results[0];
    return TN_OK;
}

static tn_status share(Simplify *s, Value *v) {
    const InferValue *f = facts_of(s, v);
    Value *other = NULL;
    if (!v->uses || known_content(s, v) != AS_SIZES) return TN_OK;
    Entry *e = find_entry(s, f);
    if (e->facts && value_visible_in(e->value, v->graph)) {
        if (pass_may_change(s->run)) other = e->value;
    } else {
        TRY(read_from_input(s, v, f, &other));
        *e = (Entry){f, other ? other : v};
    }
    if (!other) return TN_OK;
    s->n_shared++;
    return value_take_over(v, other);
}

/* ---- targets of Reshape -------------------------------------------------------------------------------------- */

static bool same_sizes(const InferValue *a, const InferValue *b) {
    if (a->kind != TYPE_TENSOR || b->kind != TYPE_TENSOR || a->shape.rank < 0) return false;
    for (int k = 0; k < a->shape.rank; k++)
        if (a->shape.dims[k] == DIM_UNKNOWN) return false;
    return shape_equal(&a->shape, &b->shape);
}

/* Whether the node's result has the sizes that it has also for this target. */
static tn_status proves(Simplify *s, Node *node, const Dim *target, int n, bool *same) {
    InferValue in[2] = {*facts_of(s, node_operand(node, 0)), *facts_of(s, node_operand(node, 1))}, out;
    in[1].value = NULL;
    in[1].content = target;
    in[1].n_content = n;
    tn_status status = op_infer(node, s->model, in, &out, NULL);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) diag_clear();
    *same = status == TN_OK && same_sizes(&out, facts_of(s, node->results[0]));
    return TN_OK;
}

/* 0 is always right where the operand has the same size at that place; -1 is for what remains, once, where the rest can
   be told from the operand's size. *n is -1 where it cannot be done. */
static tn_status constant_target(Simplify *s, Node *node, Dim *target, int *n) {
    const InferValue *x = facts_of(s, node_operand(node, 0)), *wanted = facts_of(s, node_operand(node, 1));
    bool allow_zero = attr_int(node, "allowzero") != 0, same = true;
    int rest = -1, own = -1;
    *n = -1;
    for (int k = 0; k < wanted->n_content; k++) {
        Dim d = target[k] = wanted->content[k];
        if (dim_is_const(d) && d != -1) continue;
        if (!dim_is_const(d) && !allow_zero && x->kind == TYPE_TENSOR && k < x->shape.rank && x->shape.dims[k] == d) {
            target[k] = 0;
            continue;
        }
        if (rest >= 0) return TN_OK;
        rest = k;
        target[k] = -1;
        if (d != -1) own = k;
    }
    if (own >= 0) TRY(proves(s, node, target, wanted->n_content, &same));
    if (same) *n = wanted->n_content;
    return TN_OK;
}

static tn_status simplify_target(Simplify *s, Node *node) {
    Value *operand = node_operand(node, 1), *made;
    Dim target[CONTENT_MAX];
    int n;
    if (value_payload(operand) || known_content(s, operand) != AS_SIZES || !facts_of(s, node_operand(node, 0)))
        return TN_OK;
    TRY(constant_target(s, node, target, &n));
    if (n < 0 || !pass_may_change(s->run)) return TN_OK;
    TRY(const_ints(node->graph, target, n, false, &made));
    made->def->loc = node->loc;
    node_move_before(made->def, node);
    s->n_targets++;
    return node_set_operand(node, 1, made);
}

/* A node that only gives other sizes, but the same. */
static tn_status skip_same(Simplify *s, Node *node, bool *skipped) {
    Value *x = node_operand(node, 0), *y = node->results[0];
    const InferValue *a = facts_of(s, x), *b = facts_of(s, y);
    *skipped = y->uses && a && b && same_sizes(a, b) && pass_may_change(s->run);
    if (!*skipped) return TN_OK;
    s->n_shared++;
    return value_take_over(y, x);
}

/* ---- the pass ------------------------------------------------------------------------------------------------ */

static tn_status simplify_sizes(Simplify *s, Node *node) {
    bool reshape = node_is_onnx(node, "Reshape"), skipped = false;
    if (reshape || node_is_onnx(node, "Expand") || node_is_onnx(node, "Flatten")) TRY(skip_same(s, node, &skipped));
    return reshape && !skipped ? simplify_target(s, node) : TN_OK;
}

static bool holds(const InferValue *f) {
    tn_dtype dtype = f->dtype;
    int bits = dtype == TN_BOOL ? 1 : dtype_bits(dtype);
    bool sign = dtype_is_signed_int(dtype);
    if (!sign && !dtype_is_unsigned_int(dtype) && dtype != TN_BOOL) return false;
    for (int k = 0; k < f->n_content && bits < 64; k++) {
        int64_t low = sign ? -((int64_t)1 << (bits - 1)) : 0, high = low + (((int64_t)1 << bits) - 1);
        if (f->content[k] < low || f->content[k] > high) return false;
    }
    return true;
}

static tn_status make_constant(Simplify *s, Value *v) {
    const InferValue *f = facts_of(s, v);
    Tensor *payload;
    Node *node;
    if (!v->uses || known_content(s, v) != AS_NUMBERS || !holds(f)) return TN_OK;
    if (!pass_may_change(s->run)) return TN_OK;
    TRY(model_tensor(s->model, &payload));
    TRY(tensor_new(s->run->ctx, f->dtype, f->shape.rank, f->shape.dims, payload));
    if (f->n_content) store_i64(f->dtype, payload->data, 0, 1, f->content, f->n_content);
    TRY(const_new(v->graph, payload, (Str){NULL, 0}, &node));
    node->loc = v->def->loc;
    node_insert_before(node, v->def);
    s->n_constants++;
    return value_take_over(v, node->results[0]);
}

static bool is_dead(const Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++)
        if (node->results[i]->uses) return false;
    return true;
}

/* From the last to the first: what only fed what became a constant is gone before its turn comes. */
static tn_status make_constants(Simplify *s) {
    for (size_t i = s->nodes.len; i-- > 0;) {
        Node *node = s->nodes.data[i];
        if (!node->graph) continue;
        for (uint32_t k = 0; k < node->n_results; k++) TRY(make_constant(s, node->results[k]));
        if (!is_dead(node) || !pass_may_change(s->run)) continue;
        node_erase(node);
        s->n_removed++;
    }
    return TN_OK;
}

static tn_status share_sizes(Simplify *s) {
    for (size_t i = 0; i < s->nodes.len; i++) {
        Node *node = s->nodes.data[i];
        for (uint32_t k = 0; node->graph && k < node->n_results; k++) TRY(share(s, node->results[k]));
    }
    return TN_OK;
}

static tn_status simplify(Simplify *s) {
    TRY(collect(s));
    for (size_t i = 0; i < s->nodes.len; i++) TRY(simplify_sizes(s, s->nodes.data[i]));
    TRY(make_constants(s));
    TRY(share_sizes(s));
    TRY(make_constants(s));
    TRY(pass_count(s->run, "constants", s->n_constants));
    TRY(pass_count(s->run, "shared", s->n_shared));
    TRY(pass_count(s->run, "targets", s->n_targets));
    return pass_count(s->run, "removed", s->n_removed);
}

/* Without a Shape or Size there are only sizes that constants give, and folding them is for another pass. */
static tn_status reads_sizes(PassRun *run, bool *found) {
    Graph **graphs;
    size_t n;
    *found = false;
    TRY(model_graphs(run->model, run->scratch, &graphs, &n));
    const OpSchema *shape = op_find(STR(""), STR("Shape")), *size = op_find(STR(""), STR("Size"));
    for (size_t i = 0; i < n && !*found; i++)
        for (const Node *node = graphs[i]->first; node && !*found; node = node->next)
            *found = node->op == shape || node->op == size;
    return TN_OK;
}

static tn_status run(PassRun *run, Graph *graph) {
    bool found;
    (void)graph;
    Simplify s = {.run = run, .model = run->model};
    TRY(reads_sizes(run, &found));
    if (!found) return TN_OK;
    tn_status status = infer_facts(run->model, &s.facts);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) {
        log_message(run->ctx, TN_LOG_INFO, "simplify-shapes does nothing: %s", diag_text());
        diag_clear();
        return TN_OK;
    }
    status = simplify(&s);
    vec_free(&run->ctx->allocator, &s.nodes);
    infer_facts_free(&s.facts);
    return status;
}

const Pass pass_simplify_shapes = {.name = "simplify-shapes",
                                   .summary = "replace arithmetic on sizes by what is known of it",
                                   .phase = PHASE_PRE_PLACEMENT,
                                   .order = 25,
                                   .opt_level = 1,
                                   .keeps = {"infer-shapes"},
                                   .run = run};
