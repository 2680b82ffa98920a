/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering a node: what makes the new nodes, and puts them in its place. */
#include "ops/lower_int.h"

#include <math.h>

/* ---- nodes --------------------------------------------------------------------------------------------------- */

static Graph *graph_of(const LowerCtx *c) { return c->into ? c->into : c->node->graph; }

static void put_node(LowerCtx *c, Node *node) {
    node->loc = c->node->loc;
    if (c->into) node_append(node);
    else node_insert_before(node, c->node);
}

static tn_status make_node(LowerCtx *c, const char *op, Value *const *operands, size_t n, AttrList attrs,
                           size_t n_results, Node **out) {
    const OpSchema *schema = op_named(str_of(op));
    if (!schema) return fail(TN_INTERNAL, "there is no op \"%s\"", op);
    TRY(node_new(graph_of(c), schema, operands, n, n_results, out));
    for (size_t i = 0; i < attrs.n; i++) TRY(node_set_attr(*out, &attrs.data[i]));
    put_node(c, *out);
    return infer_node(*out);
}

Value *lower_node(LowerCtx *c, const char *op, Value *const *operands, size_t n, AttrList attrs, size_t n_results) {
    Node *node;
    if (c->status != TN_OK || c->declined) return NULL;
    c->status = make_node(c, op, operands, n, attrs, n_results, &node);
    return c->status == TN_OK ? node->results[0] : NULL;
}

Value *lower_like(LowerCtx *c, const char *op, Value *const *operands, size_t n) {
    const OpSchema *schema = op_named(str_of(op));
    Attr attrs[24];
    size_t n_attrs = 0;
    for (uint32_t i = 0; schema && i < c->node->n_attrs && n_attrs < 24; i++)
        if (op_attr_spec(schema, c->node->attrs[i].name)) attrs[n_attrs++] = c->node->attrs[i];
    return lower_node(c, op, operands, n, (AttrList){attrs, n_attrs}, 1);
}

bool lower_sizes_known(LowerCtx *c) {
    for (size_t i = 0; i < c->node->n_operands; i++) {
        const Value *v = lower_in(c, i);
        c->declined |= v && (v->type->kind != TYPE_TENSOR || !lower_dtype(v) || !shape_is_known(lower_shape(v)));
    }
    return !c->declined;
}

Shape lower_counted(const Value *v) {
    Shape s = *lower_shape(v);
    if (s.rank > 0 && !(dim_is_const(s.dims[0]) && s.dims[0] >= 0)) s.dims[0] = -1;
    return s;
}

bool lower_inner_sizes_known(LowerCtx *c) {
    for (size_t i = 0; i < c->node->n_operands; i++) {
        const Value *v = lower_in(c, i);
        if (!v) continue;
        bool tensor = v->type->kind == TYPE_TENSOR && lower_dtype(v) && lower_shape(v)->rank >= 0;
        c->declined |= !tensor;
        for (int d = 1; tensor && d < lower_shape(v)->rank; d++)
            c->declined |= !dim_is_const(lower_shape(v)->dims[d]) || lower_shape(v)->dims[d] < 0;
    }
    return !c->declined;
}

/* ---- constants ----------------------------------------------------------------------------------------------- */

static tn_status make_table(LowerCtx *c, tn_dtype dtype, int rank, const int64_t *dims, const void *from, bool whole,
                            Value **out) {
    Model *model = c->node->graph->model;
    Tensor *payload;
    Node *node;
    TRY(model_tensor(model, &payload));
    TRY(tensor_new(model->ctx, dtype, rank, dims, payload));
    int64_t n = tensor_count(payload);
    if (n == 0 || dtype == TN_STRING) from = NULL; /* empty ones */
    else if (whole) store_i64(dtype, payload->data, 0, 1, from, n);
    else store_f64(dtype, payload->data, 0, 1, from, n);
    TRY(const_new(graph_of(c), payload, (Str){NULL, 0}, &node));
    put_node(c, node);
    *out = node->results[0];
    return TN_OK;
}

Value *lower_constant(LowerCtx *c, Tensor *payload) {
    Node *node = NULL;
    if (c->status == TN_OK) c->status = const_new(graph_of(c), payload, (Str){NULL, 0}, &node);
    if (c->status != TN_OK) return NULL;
    put_node(c, node);
    return node->results[0];
}

Value *lower_ints(LowerCtx *c, const int64_t *values, int64_t n) {
    Value *out = NULL;
    if (c->status == TN_OK) c->status = make_table(c, TN_I64, 1, &n, values, true, &out);
    return out;
}

Value *lower_table(LowerCtx *c, tn_dtype dtype, int rank, const int64_t *dims, const double *values) {
    Value *out = NULL;
    if (c->status == TN_OK) c->status = make_table(c, dtype, rank, dims, values, false, &out);
    return out;
}

void *lower_alloc(LowerCtx *c, int64_t n, size_t size) {
    void *data = c->status == TN_OK ? arena_alloc(&c->scratch, (size_t)(n > 0 ? n : 1) * size, 8) : NULL;
    if (c->status == TN_OK && !data) c->status = TN_OUT_OF_MEMORY;
    return data;
}

Value *lower_counting(LowerCtx *c, int64_t n, int axis, int rank) {
    int64_t dims[TN_MAX_RANK], *numbers = lower_scratch(c, int64_t, n);
    Value *out = NULL;
    if (!numbers) return NULL;
    for (int d = 0; d < rank; d++) dims[d] = d == axis ? n : 1;
    for (int64_t k = 0; k < n; k++) numbers[k] = k;
    c->status = make_table(c, TN_I64, rank, dims, numbers, true, &out);
    return out;
}

Value *lower_number(LowerCtx *c, tn_dtype dtype, double value) {
    bool whole = dtype_is_signed_int(dtype) || dtype_is_unsigned_int(dtype) || dtype == TN_BOOL;
    int64_t number = whole ? (int64_t)value : 0;
    Value *out = NULL;
    if (c->status == TN_OK)
        c->status = make_table(c, dtype, 0, NULL, whole ? (const void *)&number : &value, whole, &out);
    return out;
}

/* ---- common nodes -------------------------------------------------------------------------------------------- */

Value *lower_cast(LowerCtx *c, Value *x, tn_dtype dtype) {
    if (c->status != TN_OK || c->declined || lower_dtype(x) == dtype) return x;
    return LOWER_WITH(c, "Cast", ATTRS(attr_i("to", dtype)), x);
}

Value *lower_reshape(LowerCtx *c, Value *x, const int64_t *dims, int rank) {
    return LOWER_WITH(c, "Reshape", ATTRS(attr_i("allowzero", 1)), x, lower_ints(c, dims, rank));
}

Value *lower_transpose(LowerCtx *c, Value *x, const int64_t *perm) {
    if (c->status != TN_OK) return NULL;
    return LOWER_WITH(c, "Transpose", ATTRS(attr_l("perm", perm, lower_shape(x)->rank)), x);
}

Value *lower_along(LowerCtx *c, Value *x, int axis, int rank) {
    int64_t dims[TN_MAX_RANK];
    if (c->status != TN_OK) return NULL;
    for (int d = 0; d < rank; d++) dims[d] = 1;
    dims[axis] = lower_shape(x)->rank > 0 ? lower_shape(x)->dims[0] : 1;
    return lower_reshape(c, x, dims, rank);
}

Value *lower_view(LowerCtx *c, Value *x, int64_t offset, const int64_t *sizes, const int64_t *strides, int rank) {
    return LOWER_WITH(c, "tn.View",
                      ATTRS(attr_i("offset", offset), attr_l("sizes", sizes, rank), attr_l("strides", strides, rank)),
                      x);
}

Value *lower_slice(LowerCtx *c, Value *x, int axis, int64_t begin, int64_t end) {
    int64_t at = axis;
    return LOWER(c, "Slice", x, lower_ints(c, &begin, 1), lower_ints(c, &end, 1), lower_ints(c, &at, 1));
}

Value *lower_pad(LowerCtx *c, Value *x, const int64_t *pads, Value *fill) {
    bool any = false;
    if (c->status != TN_OK) return NULL;
    int rank = lower_shape(x)->rank;
    for (int d = 0; d < 2 * rank; d++) any |= pads[d] != 0;
    return any ? LOWER(c, "Pad", x, lower_ints(c, pads, 2 * rank), fill) : x;
}

Value *lower_reduce(LowerCtx *c, const char *op, Value *x, const int64_t *axes, int n, bool keep) {
    return LOWER_WITH(c, op, ATTRS(attr_i("keepdims", keep)), x, lower_ints(c, axes, n));
}

Value *lower_less(LowerCtx *c, Value *x, Value *centre) { return centre ? LOWER(c, "Sub", x, centre) : x; }

Value *lower_plus(LowerCtx *c, Value *x, Value *summand) { return summand ? LOWER(c, "Add", x, summand) : x; }

Value *lower_channels(LowerCtx *c, Value *x, bool last) {
    int64_t perm[TN_MAX_RANK] = {0};
    if (c->status != TN_OK) return NULL;
    int rank = lower_shape(x)->rank;
    for (int d = 1; d < rank; d++) perm[d] = last ? (d == rank - 1 ? 1 : d + 1) : (d == 1 ? rank - 1 : d - 1);
    return lower_transpose(c, x, perm);
}

Value *lower_requantised(LowerCtx *c, Value *x, Value *zero) {
    if (c->status != TN_OK) return NULL;
    tn_dtype dtype = lower_dtype(zero), wide = lower_dtype(x);
    double bits = dtype_bits(dtype), low = dtype_is_unsigned_int(dtype) ? 0 : -exp2(bits - 1);
    double high = low + exp2(bits) - 1;
    Value *y = LOWER(c, "Add", LOWER(c, "Round", x), lower_cast(c, zero, wide));
    y = LOWER(c, "Max", y, lower_number(c, wide, low));
    return lower_cast(c, LOWER(c, "Min", y, lower_number(c, wide, high)), dtype);
}

/* ---- tn.Loop ------------------------------------------------------------------------------------------------- */

void lower_strides(int rank, const int64_t *dims, int64_t *strides) {
    for (int d = rank - 1; d >= 0; d--) strides[d] = d == rank - 1 ? 1 : strides[d + 1] * dims[d + 1];
}

int64_t lower_product(const Shape *s, int from, int to) {
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= s->dims[d];
    return n;
}

/* What is as preset is left out. */
static void add_list(Attr *attrs, size_t *n, const char *name, const int64_t *list, int count) {
    if (count) attrs[(*n)++] = attr_l(name, list, count);
}

static void add_side(Attr *attrs, size_t *n, const LowerLoop *l, const LowerSide *side, const char *const names[5]) {
    if (side->offset) attrs[(*n)++] = attr_i(names[0], side->offset);
    add_list(attrs, n, names[1], side->strides, l->n_size);
    add_list(attrs, n, names[2], side->steps, l->n_trips);
    add_list(attrs, n, names[3], side->bounds, side->n_index);
    add_list(attrs, n, names[4], side->scales, side->n_index);
}

Value *lower_loop(LowerCtx *c, const LowerLoop *l) {
    static const char *const from[] = {"from_offset", "from_strides", "from_steps", "from_bounds", "from_scales"};
    static const char *const to[] = {"to_offset", "to_strides", "to_steps", "to_bounds", "to_scales"};
    Value *operands[] = {l->data, l->source, l->source_index, l->result_index};
    Attr attrs[16];
    size_t n = 0, n_operands = 4;
    if (!c->loops) return lower_boxes(c, l);
    add_list(attrs, &n, "trips", l->trips, l->n_trips);
    add_list(attrs, &n, "size", l->size, l->n_size);
    add_side(attrs, &n, l, &l->from, from);
    add_side(attrs, &n, l, &l->to, to);
    if (l->reduction && strcmp(l->reduction, "none") != 0) attrs[n++] = attr_s("reduction", l->reduction);
    add_list(attrs, &n, "shape", l->shape.dims, l->data ? 0 : l->shape.rank);
    while (n_operands > 0 && !operands[n_operands - 1]) n_operands--;
    return lower_node(c, "tn.Loop", operands, n_operands, (AttrList){attrs, n}, 1);
}

/* ---- Scan ---------------------------------------------------------------------------------------------------- */

void lower_begin_scan(LowerCtx *c) {
    if (c->status == TN_OK) c->status = graph_new_nested(c->node->graph, STR("step"), &c->into);
}

Value *lower_scan_input(LowerCtx *c, const Value *from, bool slice) {
    Value *input;
    if (c->status != TN_OK) return NULL;
    Shape s = *lower_shape(from);
    for (int d = 0; slice && d + 1 < s.rank; d++) s.dims[d] = s.dims[d + 1];
    s.rank -= slice;
    const Type *type = type_tensor(c->into->model, lower_dtype(from), &s);
    c->status = type ? graph_add_input(c->into, (Str){NULL, 0}, type, &input) : TN_OUT_OF_MEMORY;
    return c->status == TN_OK ? input : NULL;
}

/* Of a state that of its operand, of what is stacked that of a slice with the length in front. */
static tn_status set_scan_types(Node *scan, const LowerScan *s, int64_t length) {
    for (uint32_t i = 0; i < scan->n_results; i++) {
        const Value *from = (int)i < s->n_states ? s->operands[i] : s->outputs[i];
        Shape shape = *lower_shape(from);
        if ((int)i >= s->n_states) {
            memmove(shape.dims + 1, shape.dims, sizeof *shape.dims * (size_t)shape.rank);
            shape.dims[0] = length;
            shape.rank++;
        }
        const Type *type = type_tensor(scan->graph->model, lower_dtype(from), &shape);
        if (!type) return TN_OUT_OF_MEMORY;
        value_set_type(scan->results[i], type);
    }
    return TN_OK;
}

static tn_status end_scan(LowerCtx *c, const LowerScan *s, Node **out) {
    Graph *body = c->into;
    int64_t directions[] = {s->backward, s->backward, s->backward, s->backward};
    int n_scanned = s->n_operands - s->n_states, n_stacked = s->n_outputs - s->n_states;
    for (int i = 0; i < s->n_outputs; i++) TRY(graph_add_output(body, s->outputs[i], (Str){NULL, 0}));
    c->into = NULL;
    tn_status status = node_new(c->node->graph, op_named(STR("Scan")), s->operands, (size_t)s->n_operands,
                                (size_t)s->n_outputs, out);
    if (status == TN_OK) status = node_set_graph(*out, "body", body);
    if (status != TN_OK) {
        graph_erase(body);
        return status;
    }
    put_node(c, *out);
    TRY(node_set_int(*out, "num_scan_inputs", n_scanned));
    TRY(node_set_ints(*out, "scan_input_directions", directions, (size_t)n_scanned));
    if (n_stacked) TRY(node_set_ints(*out, "scan_output_directions", directions, (size_t)n_stacked));
    return set_scan_types(*out, s, lower_shape(s->operands[s->n_states])->dims[0]);
}

Node *lower_end_scan(LowerCtx *c, const LowerScan *s) {
    Node *node = NULL;
    if (c->status == TN_OK) c->status = end_scan(c, s, &node);
    return c->status == TN_OK ? node : NULL;
}

/* ---- in a node's place --------------------------------------------------------------------------------------- */

static void take_back(Node *node, const Node *before) {
    for (Node *n = node->prev, *prev; n != before; n = prev) {
        prev = n->prev;
        node_erase(n);
    }
}

/* Sizes that the node was known to have are kept where its parts do not tell. */
static tn_status put_in_place(LowerCtx *c) {
    for (uint32_t i = 0; i < c->node->n_results; i++) {
        Value *old = c->node->results[i];
        if (!old->uses) continue;
        if (!c->out[i]) return fail(TN_INTERNAL, "the lowering of %s lacks result %u", c->node->op->name, i);
        if (c->out[i]->def && c->out[i]->type->kind == TYPE_TENSOR && !shape_is_known(lower_shape(c->out[i])))
            value_set_type(c->out[i], old->type);
        TRY(value_take_over(old, c->out[i]));
    }
    node_erase(c->node);
    return TN_OK;
}

/* What cannot be, of a node that is perhaps never reached, stays where it fails when it runs. */
static tn_status finish(LowerCtx *c, const Node *before, tn_status status, bool *lowered) {
    arena_free(&c->scratch);
    if (c->into) graph_erase(c->into);
    if (status == TN_OK) status = c->status;
    *lowered = status == TN_OK && !c->declined;
    if (*lowered) return put_in_place(c);
    take_back(c->node, before);
    if (status == TN_OUT_OF_MEMORY || status == TN_INTERNAL) return status;
    if (status != TN_OK) diag_clear();
    return TN_OK;
}

tn_status op_lower(Node *node, bool loops, bool *lowered) {
    LowerCtx c = {.node = node, .loops = loops};
    const Node *before = node->prev;
    *lowered = node_is_fused(node);
    if (*lowered) return fused_inline(node);
    arena_init(&c.scratch, &node->graph->model->ctx->allocator);
    return node->op->lower ? finish(&c, before, node->op->lower(&c), lowered) : TN_OK;
}

tn_status op_lower_in_f32(Node *node, bool *lowered) {
    LowerCtx c = {.node = node, .in_f32 = true};
    const Node *before = node->prev;
    *lowered = false;
    arena_init(&c.scratch, &node->graph->model->ctx->allocator);
    return node->op->lower ? finish(&c, before, node->op->lower(&c), lowered) : TN_OK;
}

/* ---- 16-bit floats ------------------------------------------------------------------------------------------- */

static bool is_narrow(const Value *v) { return v && v->type->kind == TYPE_TENSOR && dtype_is_half(lower_dtype(v)); }

static tn_status copy_attrs(const Node *from, Node *to) {
    for (uint32_t i = 0; i < from->n_attrs; i++) {
        if (from->attrs[i].kind == ATTR_GRAPH || from->attrs[i].kind == ATTR_GRAPHS) continue;
        TRY(node_set_attr(to, &from->attrs[i]));
    }
    return TN_OK;
}

/* The same op again, in front of the node. */
static tn_status repeat(const Node *node, Value *const *operands, size_t n_results, Node **out) {
    TRY(node_new(node->graph, node->op, operands, node->n_operands, n_results, out));
    TRY(copy_attrs(node, *out));
    (*out)->loc = node->loc;
    node_insert_before(*out, (Node *)node);
    return infer_node(*out);
}

static tn_status widen(LowerCtx *c, Value *const *given) {
    Value *operands[OP_MAX_INPUTS];
    Node *node = c->node, *wide;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        operands[i] = given ? given[i] : lower_in(c, i);
        if (is_narrow(operands[i])) operands[i] = lower_cast(c, operands[i], TN_F32);
    }
    TRY(c->status);
    TRY(repeat(node, operands, node->n_results, &wide));
    for (uint32_t i = 0; i < node->n_results; i++)
        if (node->results[i]->uses) c->out[i] = lower_cast(c, wide->results[i], lower_dtype(node->results[i]));
    return TN_OK;
}

static bool has_type(const Value *v) { return v->type->kind == TYPE_TENSOR && v->type->dtype != TN_UNDEFINED; }

/* Operands that are in a group of their own may stay as they are: all or none of a node's floats are widened. */
bool lower_may_widen(const Node *node) {
    bool any = false;
    if (node->op->flags & OP_CONTROL || node->n_operands > OP_MAX_INPUTS) return false;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node_operand(node, i);
        if (v && !has_type(v)) return false;
        if (!is_narrow(v)) continue;
        any = true;
        if (!(op_input_spec(node->op, i)->types & TS(TN_F32))) return false;
    }
    for (uint32_t i = 0; i < node->n_results; i++)
        if (!has_type(node->results[i])) return false;
    return any;
}

bool lower_by_widening(LowerCtx *c) {
    if (!lower_may_widen(c->node)) return false;
    tn_status status = widen(c, NULL);
    if (c->status == TN_OK) c->status = status;
    return true;
}

tn_status lower_widened(Node *node, Value *const *operands, bool *widened) {
    LowerCtx c = {.node = node};
    const Node *before = node->prev;
    *widened = false;
    if (!lower_may_widen(node)) return TN_OK;
    arena_init(&c.scratch, &node->graph->model->ctx->allocator);
    return finish(&c, before, widen(&c, operands), widened);
}

/* ---- results ------------------------------------------------------------------------------------------------- */

static tn_status complete(LowerCtx *c, size_t n_results) {
    Value *operands[OP_MAX_INPUTS];
    Node *whole;
    for (uint32_t i = 0; i < c->node->n_operands; i++) operands[i] = lower_in(c, i);
    TRY(repeat(c->node, operands, n_results, &whole));
    for (uint32_t i = 0; i < c->node->n_results; i++) c->out[i] = whole->results[i];
    return TN_OK;
}

tn_status lower_completed(Node *node, bool *completed) {
    LowerCtx c = {.node = node};
    size_t n = 0;
    const Node *before = node->prev;
    while (op_outputs(node->op)[n].name) n++;
    *completed = false;
    if (node->n_results < 2 || node->n_results >= n || node->n_operands > OP_MAX_INPUTS) return TN_OK;
    arena_init(&c.scratch, &node->graph->model->ctx->allocator);
    return finish(&c, before, complete(&c, n), completed);
}

static bool is_empty(const Value *v) {
    return v->type->kind == TYPE_TENSOR && lower_dtype(v) && shape_is_known(lower_shape(v)) &&
           lower_product(lower_shape(v), 0, lower_shape(v)->rank) == 0;
}

tn_status lower_empty(Node *node, bool *lowered) {
    LowerCtx c = {.node = node};
    const Node *before = node->prev;
    bool read = false;
    *lowered = false;
    for (uint32_t i = 0; i < node->n_results; i++) {
        if (node->results[i]->uses && !is_empty(node->results[i])) return TN_OK;
        read |= node->results[i]->uses != NULL;
    }
    if (!read) return TN_OK;
    arena_init(&c.scratch, &node->graph->model->ctx->allocator);
    for (uint32_t i = 0; i < node->n_results; i++) {
        const Value *v = node->results[i];
        if (v->uses) c.out[i] = lower_table(&c, lower_dtype(v), lower_shape(v)->rank, lower_shape(v)->dims, NULL);
    }
    return finish(&c, before, TN_OK, lowered);
}
