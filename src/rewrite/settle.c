/* SPDX-License-Identifier: Apache-2.0 */
/* Constant parts of a right side are computed when the rule is applied: in float64, and rounded once where the rest of the
   graph reads them, so that folding a few constants into weights costs them no more than that. What is large and only
   scaled or shifted is computed a few rows at a time, so that weights are not copied twice in another type. Reshapes of
   constants, and of what is computed so, are other readings of the same elements. */
#include "eval/eval.h"
#include "rewrite/rewrite_int.h"

/* A part that would take more is left to whoever folds constants, with its budget. */
enum { MOST_BYTES = 256 << 20 };
enum { FEW = 256, ROWS_OF = 1 << 12, MOST_FACTORS = 1 << 14 /* elements */ };

typedef struct Settling {
    const Match *match;
    Built *built;
    Context *ctx;
    Arena arena;
    Tensor *wide;  /* by new node: its result in float64 */
    bool *have;    /* that there is one */
    bool *by_rows; /* likewise, but computed when it is rounded */
    Tensor *view;  /* of a reshaped constant: that constant in its own type, not counted */
    bool *is_view;
} Settling;

static bool is_wide_enough(tn_dtype t) { return t == TN_F32 || t == TN_F64 || t == TN_F16 || t == TN_BF16; }

static int index_of(const Settling *s, const Node *node) {
    for (size_t i = 0; i < s->built->n; i++)
        if (s->built->nodes[i] == node) return (int)i;
    return -1;
}

/* The constant that a value is, or is another reading of; NULL: it is none. */
static const Tensor *given(const Settling *s, const Value *v) {
    int i = v && v->def ? index_of(s, v->def) : -1;
    return i >= 0 && s->is_view[i] ? &s->view[i] : value_payload(v);
}

static bool is_reshape(const Node *node) { return node_is_onnx(node, "Reshape") && node->n_operands > 0; }

/* One result, of a known size, in a type that float64 holds. */
static bool may_settle(const Node *node) {
    int64_t count;
    const Type *type = node->n_results == 1 ? node->results[0]->type : NULL;
    if (!type || type->kind != TYPE_TENSOR || !is_wide_enough(type->dtype) || !shape_is_known(&type->shape))
        return false;
    if (checked_count(type->shape.rank, type->shape.dims, &count) != TN_OK || count > MOST_BYTES / 8) return false;
    return !value_payload(node->results[0]) && node_is_constant(node) && !(node->op->flags & OP_CONTROL);
}

static void load_wide(const Tensor *t, Tensor *out) {
    int64_t k = 0;
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r); k += r.n)
        load_f64((double *)out->data + k, t->dtype, t->data, r.offset, r.stride, r.n);
}

static tn_status widen(Settling *s, const Tensor *t, Tensor *out) {
    TRY(tensor_new(s->ctx, TN_F64, t->rank, t->dims, out));
    load_wide(t, out);
    return TN_OK;
}

/* The same for a moment: in the arena, and not cleared before. */
static tn_status widen_here(Settling *s, const Tensor *t, Tensor *out) {
    tensor_set_dense(out, TN_F64, t->rank, t->dims);
    out->data = arena_raw(&s->arena, (size_t)tensor_count(t) * sizeof(double), 64);
    if (!out->data) return TN_OUT_OF_MEMORY;
    load_wide(t, out);
    return TN_OK;
}

/* *ok false: some operand is not there in a form that can be read. `fresh` is what has to be released. */
static tn_status read_operand(Settling *s, const Value *v, const Tensor **out, Tensor *fresh, bool *ok) {
    const Tensor *t = given(s, v);
    int i = v && v->def ? index_of(s, v->def) : -1;
    *out = NULL;
    if (!v) return TN_OK;
    if (!t) {
        *ok &= i >= 0 && s->have[i];
        if (*ok) *out = &s->wide[i];
        return TN_OK;
    }
    *ok &= t->kind == TYPE_TENSOR && (t->data || tensor_count(t) == 0);
    if (!*ok) return TN_OK;
    *out = t;
    if (!dtype_is_float(t->dtype)) return TN_OK; /* shapes and axes */
    *ok = is_wide_enough(t->dtype);
    *out = fresh;
    if (!*ok) return TN_OK;
    TRY(bytes_hold(t->data, s->ctx->pool));
    tn_status status = widen(s, t, fresh);
    bytes_let_go(t->data);
    return status;
}

/* Whether no other constant node reads the result, unless to reshape it for those that are none. */
static bool is_last(const Settling *s, const Node *node) {
    for (const Use *u = node->results[0]->uses; u; u = u->next) {
        const Node *user = u->user;
        bool reshapes = index_of(s, user) >= 0 && is_reshape(user) && u == &user->operands[0] && may_settle(user);
        if (node_is_constant(user) && !(reshapes && is_last(s, user))) return false;
    }
    return true;
}

/* Element-wise, of many rows, with a result of its operands' type, all of which can be read. */
static bool has_many_rows(const Settling *s, const Node *node) {
    char group = op_outputs(node->op)[0].group;
    const Shape *y = &node->results[0]->type->shape;
    int64_t count = 1;
    for (int k = 0; k < y->rank; k++) count *= y->dims[k];
    if (!(node->op->flags & OP_ELEMENTWISE) || !group || group != op_inputs(node->op)[0].group || y->rank == 0 ||
        count < FEW)
        return false;
    for (uint32_t k = 0; k < node->n_operands; k++) {
        const Value *v = node->operands[k].value;
        const Tensor *t = given(s, v);
        int i = v && v->def ? index_of(s, v->def) : -1;
        if (!v) continue;
        if (t ? t->kind != TYPE_TENSOR || !t->data || !is_wide_enough(t->dtype) : i < 0 || !s->have[i]) return false;
    }
    return node->n_operands <= OP_MAX_INPUTS;
}

static bool may_go_by_rows(const Settling *s, const Node *node) { return has_many_rows(s, node) && is_last(s, node); }

/* Rows are along the first axis that is longer than 1. */
static int row_axis(const Tensor *y) {
    int axis = 0;
    while (axis < y->rank - 1 && y->dims[axis] == 1) axis++;
    return axis;
}

/* What of an operand the result's rows [from, from + n) read. */
static Tensor rows_of(const Tensor *t, const Tensor *y, int64_t from, int64_t n) {
    Tensor rows = *t;
    int axis = row_axis(y) - (y->rank - t->rank);
    rows.buffer = NULL;
    if (axis < 0 || t->dims[axis] == 1) return rows;
    rows.offset += from * rows.strides[axis];
    rows.dims[axis] = n;
    return rows;
}

/* In float64. */
static tn_status eval_rows(Settling *s, const Node *node, const Tensor *y, int64_t from, int64_t n, Tensor *out) {
    const Tensor *in[OP_MAX_INPUTS] = {NULL};
    Tensor rows[OP_MAX_INPUTS], fresh[OP_MAX_INPUTS] = {{0}};
    ArenaMark mark = arena_mark(&s->arena);
    tn_status status = TN_OK;
    for (uint32_t k = 0; k < node->n_operands && status == TN_OK; k++) {
        const Value *v = node->operands[k].value;
        const Tensor *t = given(s, v);
        if (!v) continue;
        rows[k] = rows_of(t ? t : &s->wide[index_of(s, v->def)], y, from, n);
        in[k] = &rows[k];
        if (!t) continue;
        status = widen_here(s, &rows[k], &fresh[k]);
        in[k] = &fresh[k];
    }
    if (status == TN_OK) status = eval_node(s->ctx, &s->arena, node, in, out);
    arena_release(&s->arena, mark);
    return status;
}

static tn_status compute_rows(Settling *s, const Node *node, Tensor *y, int64_t from, int64_t n) {
    Tensor out = {0};
    int64_t row = tensor_count(y) / y->dims[row_axis(y)];
    TRY(eval_rows(s, node, y, from, n, &out));
    store_f64(y->dtype, y->data, from * row, 1, out.data, n * row);
    tensor_release(&out);
    return TN_OK;
}

/* Of the model's file, which whoever packs the result will not read again. */
static void forget_operands(const Settling *s, const Node *node) {
    for (uint32_t k = 0; k < node->n_operands; k++) {
        const Tensor *t = given(s, node->operands[k].value);
        if (t && tensor_is_dense(t)) file_forget(tensor_bytes(t), (size_t)(tensor_count(t) * dtype_size(t->dtype)));
    }
}

static tn_status hold_operands(const Settling *s, const Node *node) {
    for (uint32_t k = 0; k < node->n_operands; k++) {
        const Tensor *t = given(s, node->operands[k].value);
        if (t) TRY(bytes_hold(t->data, s->ctx->pool));
    }
    return TN_OK;
}

static void let_operands_go(const Settling *s, const Node *node) {
    for (uint32_t k = 0; k < node->n_operands; k++) {
        const Tensor *t = given(s, node->operands[k].value);
        if (t) bytes_let_go(t->data);
    }
}

static tn_status compute_by_rows(Settling *s, const Node *node, Tensor *y) {
    int64_t rows = y->dims[row_axis(y)], step = max_i64(1, ROWS_OF / (tensor_count(y) / rows));
    tn_status status = TN_OK;
    TRY(hold_operands(s, node));
    for (int64_t from = 0; from < rows && status == TN_OK; from += step)
        status = compute_rows(s, node, y, from, min_i64(step, rows - from));
    let_operands_go(s, node);
    forget_operands(s, node);
    return status;
}

/* What cannot be computed in float64 is left as it is. */
static tn_status compute(Settling *s, size_t i) {
    const Node *node = s->built->nodes[i];
    const Tensor *in[OP_MAX_INPUTS];
    Tensor fresh[OP_MAX_INPUTS] = {{0}};
    bool ok = node->n_operands <= OP_MAX_INPUTS;
    tn_status status = TN_OK;
    for (uint32_t k = 0; ok && k < node->n_operands && status == TN_OK; k++)
        status = read_operand(s, node->operands[k].value, &in[k], &fresh[k], &ok);
    if (status == TN_OK && ok) {
        ok = eval_node(s->ctx, &s->arena, node, in, &s->wide[i]) == TN_OK;
        if (!ok) diag_clear();
        s->have[i] = ok && s->wide[i].dtype == TN_F64;
        if (ok && !s->have[i]) tensor_release(&s->wide[i]);
    }
    for (uint32_t k = 0; k < node->n_operands && k < OP_MAX_INPUTS; k++) tensor_release(&fresh[k]);
    return status;
}

/* ---- sums of rows ------------------------------------------------------------------------------------------------ */

/* Whether a sum leaves the rows of what it sums apart. */
static bool keeps_rows(const Settling *s, const Node *sum, const Tensor *x) {
    const Tensor *axes = sum->n_operands > 1 ? given(s, sum->operands[1].value) : NULL;
    if (!axes || axes->dtype != TN_I64 || !axes->data || axes->rank != 1 || axes->dims[0] == 0) return false;
    for (int64_t i = 0, axis; i < axes->dims[0]; i++) {
        load_i64(&axis, TN_I64, axes->data, axes->offset + i * axes->strides[0], 1, 1);
        if ((axis < 0 ? axis + x->rank : axis) == row_axis(x)) return false;
    }
    return true;
}

/* Whether its result is what a matched value becomes, which all its readers then read. */
static bool stands_for_matched(const Settling *s, const Node *node) {
    const Rule *r = s->match->rule;
    for (size_t k = 0; k < r->n_values; k++)
        if (r->replaced[k] >= 0 && s->built->values[r->replaced[k]] == node->results[0]) return true;
    return false;
}

/* The sum that alone reads a product of many elements, which then need not all be there at once; NULL: there is none. */
static const Node *sum_of(const Settling *s, const Node *node) {
    const Use *use = node->results[0]->uses;
    const Node *sum = use && !use->next ? use->user : NULL;
    const Shape *shape = &node->results[0]->type->shape;
    Tensor x;
    if (!sum || index_of(s, sum) < 0 || stands_for_matched(s, node) || !node_is_onnx(sum, "ReduceSum") ||
        use != &sum->operands[0] || !may_settle(sum) || !has_many_rows(s, node))
        return NULL;
    tensor_set_dense(&x, TN_F64, shape->rank, shape->dims);
    return keeps_rows(s, sum, &x) ? sum : NULL;
}

static tn_status sum_rows(Settling *s, const Node *sum, const Tensor *x, int64_t from, int64_t n, Tensor *y) {
    const Node *node = sum->operands[0].value->def;
    Tensor rows = {0}, out = {0};
    int64_t one = tensor_count(y) / x->dims[row_axis(x)];
    TRY(eval_rows(s, node, x, from, n, &rows));
    const Tensor *in[OP_MAX_INPUTS] = {&rows, given(s, sum->operands[1].value)};
    tn_status status = eval_node(s->ctx, &s->arena, sum, in, &out);
    if (status == TN_OK) memcpy((double *)y->data + from * one, out.data, (size_t)(n * one) * sizeof(double));
    tensor_release(&rows);
    tensor_release(&out);
    return status;
}

static tn_status sum_by_rows(Settling *s, size_t i) {
    const Node *sum = s->built->nodes[i], *node = sum->operands[0].value->def;
    const Shape *from_shape = &node->results[0]->type->shape, *to = &sum->results[0]->type->shape;
    Tensor x;
    tensor_set_dense(&x, TN_F64, from_shape->rank, from_shape->dims);
    int64_t rows = x.dims[row_axis(&x)], step = max_i64(1, ROWS_OF / (tensor_count(&x) / rows));
    TRY(tensor_new(s->ctx, TN_F64, to->rank, to->dims, &s->wide[i]));
    tn_status status = hold_operands(s, node);
    if (status != TN_OK) return status;
    for (int64_t from = 0; from < rows && status == TN_OK; from += step)
        status = sum_rows(s, sum, &x, from, min_i64(step, rows - from), &s->wide[i]);
    let_operands_go(s, node);
    s->have[i] = s->have[index_of(s, node)] = status == TN_OK; /* nobody reads the product any more */
    return status;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

/* A value in float64, few of them; *out is to be released. *ok false: it is none. */
static tn_status read_factors(Settling *s, const Value *v, Tensor *out, bool *ok) {
    const Tensor *t = given(s, v);
    int i = v->def ? index_of(s, v->def) : -1;
    *ok = t ? t->kind == TYPE_TENSOR && t->data && is_wide_enough(t->dtype) && tensor_count(t) < MOST_FACTORS
            : i >= 0 && s->have[i] && s->wide[i].data;
    if (!*ok) return TN_OK;
    if (t) return widen(s, t, out);
    *out = s->wide[i];
    buffer_ref(out->buffer);
    return TN_OK;
}

/* *ok false: it is no product of weights and factors. */
static tn_status put_off(Settling *s, const Node *node, Tensor *y, bool *ok) {
    *ok = false;
    if (node->op->domain || strcmp(node->op->name, "Mul") != 0) return TN_OK;
    for (uint32_t k = 0; k < 2 && !*ok; k++) {
        const Tensor *x = given(s, node->operands[k].value);
        Tensor factors = {0};
        if (x) TRY(read_factors(s, node->operands[1 - k].value, &factors, ok));
        if (!*ok) continue;
        tn_status status = scaled_constant(s->ctx, x, &factors, y, ok);
        tensor_release(&factors);
        TRY(status);
    }
    return TN_OK;
}

static bool is_read_beyond(const Settling *s, const Node *node) {
    if (stands_for_matched(s, node)) return true;
    for (const Use *u = node->results[0]->uses; u; u = u->next) {
        int reader = index_of(s, u->user);
        if (reader < 0 || !s->have[reader]) return true;
    }
    return false;
}

/* What is computed by rows, into `payload`, which may have other sizes of as many elements. */
static tn_status fill_by_rows(Settling *s, const Node *node, Tensor *payload) {
    Tensor y;
    bool put;
    while (is_reshape(node)) node = node->operands[0].value->def;
    const Shape *shape = &node->results[0]->type->shape;
    tensor_set_dense(&y, payload->dtype, shape->rank, shape->dims);
    TRY(put_off(s, node, &y, &put));
    if (!put) TRY(tensor_new(s->ctx, y.dtype, shape->rank, shape->dims, &y));
    payload->data = y.data;
    payload->buffer = y.buffer;
    return put ? TN_OK : compute_by_rows(s, node, &y);
}

static tn_status fill(Settling *s, size_t i, Tensor *payload) {
    const Node *node = s->built->nodes[i];
    const Tensor *wide = &s->wide[i];
    if (s->is_view[i]) {
        *payload = s->view[i];
        buffer_ref(payload->buffer);
        return TN_OK;
    }
    if (s->by_rows[i]) return fill_by_rows(s, node, payload);
    const Shape *shape = &node->results[0]->type->shape;
    TRY(tensor_new(s->ctx, payload->dtype, shape->rank, shape->dims, payload));
    store_f64(payload->dtype, payload->data, 0, 1, wide->data, tensor_count(wide));
    return TN_OK;
}

/* The node becomes a constant of the type that it had. */
static tn_status narrow(Settling *s, size_t i) {
    Node *node = s->built->nodes[i], *constant;
    Value *old = node->results[0];
    Model *model = node->graph->model;
    Tensor *payload;
    const Shape *shape = &old->type->shape;
    TRY(model_tensor(model, &payload));
    tensor_set_dense(payload, old->type->dtype, shape->rank, shape->dims);
    TRY(fill(s, i, payload));
    TRY(const_new(node->graph, payload, STR(""), &constant));
    constant->loc = node->loc;
    node_insert_before(constant, node);
    value_replace(old, constant->results[0]);
    for (size_t k = 0; k < RULE_VALUES; k++)
        if (s->built->values[k] == old) s->built->values[k] = constant->results[0];
    s->built->nodes[i] = constant;
    node_erase(node);
    return TN_OK;
}

static void drop(Settling *s, size_t i) {
    size_t behind = --s->built->n - i;
    node_erase(s->built->nodes[i]);
    tensor_release(&s->wide[i]);
    memmove(&s->built->nodes[i], &s->built->nodes[i + 1], behind * sizeof *s->built->nodes);
    memmove(&s->wide[i], &s->wide[i + 1], behind * sizeof *s->wide);
    memmove(&s->have[i], &s->have[i + 1], behind * sizeof *s->have);
    memmove(&s->by_rows[i], &s->by_rows[i + 1], behind * sizeof *s->by_rows);
    memmove(&s->view[i], &s->view[i + 1], behind * sizeof *s->view);
    memmove(&s->is_view[i], &s->is_view[i + 1], behind * sizeof *s->is_view);
    s->wide[s->built->n] = (Tensor){0};
    s->have[s->built->n] = s->by_rows[s->built->n] = s->is_view[s->built->n] = false;
}

/* A constant of the model, or what is computed by rows, read in other sizes. */
static void see_through(Settling *s, size_t i) {
    const Node *node = s->built->nodes[i];
    const Value *x = node->operands[0].value;
    const Tensor *t = given(s, x);
    const Shape *shape = &node->results[0]->type->shape;
    int from = x && x->def ? index_of(s, x->def) : -1;
    s->by_rows[i] = from >= 0 && s->by_rows[from];
    s->is_view[i] = t && t->kind == TYPE_TENSOR && t->buffer && t->dtype == node->results[0]->type->dtype &&
                    tensor_is_dense(t) && dtype_size(t->dtype) > 0;
    s->have[i] = s->by_rows[i] || s->is_view[i];
    if (!s->is_view[i]) return;
    s->view[i] = *t;
    tensor_set_dense(&s->view[i], t->dtype, shape->rank, shape->dims);
    s->view[i].data = tensor_bytes(t);
    s->view[i].buffer = t->buffer;
}

static tn_status settle(Settling *s) {
    for (size_t i = 0; i < s->built->n; i++) {
        const Node *node = s->built->nodes[i];
        if (!may_settle(node)) continue;
        if (is_reshape(node)) see_through(s, i);
        if (!s->have[i]) s->have[i] = s->by_rows[i] = may_go_by_rows(s, node);
        if (s->have[i] || sum_of(s, node)) continue;
        const Value *x = node->n_operands > 0 ? node->operands[0].value : NULL;
        bool sums = x && x->def && index_of(s, x->def) >= 0 && sum_of(s, x->def) == node;
        TRY(sums ? sum_by_rows(s, i) : compute(s, i));
    }
    /* From the last to the first, so that what is read no more goes with its reader. */
    for (size_t i = s->built->n; i-- > 0;) {
        if (!s->have[i]) continue;
        if (is_read_beyond(s, s->built->nodes[i])) {
            TRY(narrow(s, i));
            continue;
        }
        if (!s->built->nodes[i]->results[0]->uses) drop(s, i);
    }
    return TN_OK;
}

static tn_status settle_all(Settling *s, size_t n) {
    s->wide = arena_array(&s->arena, Tensor, n);
    s->view = arena_array(&s->arena, Tensor, n);
    s->have = arena_array(&s->arena, bool, n);
    s->by_rows = arena_array(&s->arena, bool, n);
    s->is_view = arena_array(&s->arena, bool, n);
    if (!s->wide || !s->view || !s->have || !s->by_rows || !s->is_view) return TN_OUT_OF_MEMORY;
    tn_status status = settle(s);
    for (size_t i = 0; i < n; i++) tensor_release(&s->wide[i]);
    return status;
}

tn_status built_settle(const Match *m, Built *built) {
    if (built->n == 0) return TN_OK;
    Context *ctx = built->nodes[0]->graph->model->ctx;
    Settling s = {.match = m, .built = built, .ctx = ctx};
    arena_init(&s.arena, &ctx->allocator);
    tn_status status = settle_all(&s, built->n);
    arena_free(&s.arena);
    return status;
}
