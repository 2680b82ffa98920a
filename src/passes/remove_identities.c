/* SPDX-License-Identifier: Apache-2.0 */
/* remove-identities: nodes whose result is one of their operands, or of what these were made from, bit for bit; and two
   movements or conversions that are one. A table of small functions, each for one reason. A node that could still fail
   when it runs stays, so that what is wrong with a model is said as before. */
#include "ops/op.h"
#include "pass/pass.h"
#include "rewrite/rewrite.h"

typedef struct Sweep {
    PassRun *run;
    OpRows same, joined;
    bool stopped;
    int64_t n_removed, n_joined;
} Sweep;

/* The value that result 0 is, or NULL. */
typedef Value *(*SameFn)(const Node *node);
typedef struct SameRow {
    const char *op;
    SameFn fn;
} SameRow;

/* Makes the node read what its operand's node reads, where it can do the work of both. */
typedef tn_status (*JoinFn)(Sweep *s, Node *node, Node *inner);
typedef struct JoinRow {
    const char *op;
    JoinFn fn;
} JoinRow;

static bool may_change(Sweep *s) {
    if (!s->stopped) s->stopped = !pass_may_change(s->run);
    return !s->stopped;
}

static Node *maker(const Node *node, uint32_t i) {
    const Value *value = node_operand(node, i);
    return value ? value->def : NULL;
}

static tn_dtype dtype_of(const Value *value) {
    return value && value->type->kind == TYPE_TENSOR ? value->type->dtype : TN_UNDEFINED;
}

/* Whether a truth value is 0 or 1 for certain: computed here, and not a caller's byte that is only not zero. */
static bool is_clean(const Value *value) {
    static const char *const ops[] = {
        "And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"};
    if (dtype_of(value) != TN_BOOL) return true;
    for (size_t i = 0; value->def && i < sizeof ops / sizeof *ops; i++)
        if (node_is_onnx(value->def, ops[i])) return true;
    return false;
}

static Value *clean(Value *value) { return value && is_clean(value) ? value : NULL; }

static bool is_constant_or_absent(const Node *node, uint32_t i) {
    return !node_operand(node, i) || value_payload(node_operand(node, i));
}

/* ---- movements ----------------------------------------------------------------------------------------------- */

static Value *operand(const Node *node) { return node_operand(node, 0); }

static Value *only_operand(const Node *node) { return node->n_operands == 1 ? operand(node) : NULL; }

/* Of ops that keep the order of elements, and those that repeat them. That a number stays one tells nothing about operands
   that are not known. */
static Value *same_sizes(const Node *node) {
    Value *x = operand(node);
    for (uint32_t i = 1; value_rank(x) == 0 && i < node->n_operands; i++)
        if (!is_constant_or_absent(node, i)) return NULL;
    return x && same_tensor_type(x->type, node->results[0]->type) ? x : NULL;
}

/* Where the rank is known, inference has looked at the axis. */
static Value *only_piece(const Node *node) { return value_rank(operand(node)) > 0 ? only_operand(node) : NULL; }

static Value *only_part(const Node *node) {
    return node->n_results == 1 && is_constant_or_absent(node, 1) ? same_sizes(node) : NULL;
}

static bool keeps_order(const Node *node) {
    return node_is_onnx(node, "Reshape") || node_is_onnx(node, "Squeeze") || node_is_onnx(node, "Unsqueeze") ||
           node_is_onnx(node, "Flatten");
}

/* Whether as many elements come out as go in for certain, so that it cannot fail. */
static bool keeps_count(const Node *node) {
    DimTable *dims = &node->graph->model->dims;
    const Shape *x = &operand(node)->type->shape, *y = &node->results[0]->type->shape;
    if (value_rank(operand(node)) < 0 || value_rank(node->results[0]) < 0) return false;
    Dim before = dims_product(dims, x, 0, x->rank), after = dims_product(dims, y, 0, y->rank);
    return before == after && before != DIM_UNKNOWN;
}

/* There and back. */
static Value *undone(const Node *node) {
    const Node *inner = maker(node, 0);
    if (!inner || !keeps_order(inner) || !operand(inner) || !keeps_count(inner)) return NULL;
    return same_tensor_type(operand(inner)->type, node->results[0]->type) ? operand(inner) : NULL;
}

static Value *same_order(const Node *node) {
    IntList perm = attr_ints(node, "perm");
    int rank = value_rank(operand(node));
    if (rank < 0 || (rank > 1 && perm.n == 0)) return NULL;
    for (size_t k = 0; k < perm.n; k++)
        if (perm.data[k] != (int64_t)k) return NULL;
    return operand(node);
}

static bool all_ints_are(const Value *value, int64_t wanted) {
    int64_t list[64];
    int n;
    if (!constant_ints(value, list, 64, &n)) return false;
    for (int i = 0; i < n; i++)
        if (list[i] != wanted) return false;
    return true;
}

static bool is_one_or_absent(const Node *node, uint32_t i) {
    const Value *value = node_operand(node, i);
    if (!value) return true;
    if (value->type->kind != TYPE_TENSOR || value->type->shape.rank < 0) return false;
    return dims_product(&node->graph->model->dims, &value->type->shape, 0, value->type->shape.rank) == 1;
}

static Value *no_pads(const Node *node) {
    if (!all_ints_are(node_operand(node, 1), 0) || !is_one_or_absent(node, 2) || !is_constant_or_absent(node, 3))
        return NULL;
    return same_sizes(node);
}

/* With steps of 1 what has all sizes has all elements. */
static Value *whole_slice(const Node *node) {
    const Value *steps = node_operand(node, 4);
    for (uint32_t i = 1; i <= 4; i++)
        if (!is_constant_or_absent(node, i)) return NULL;
    return !steps || all_ints_are(steps, 1) ? same_sizes(node) : NULL;
}

/* ---- conversions --------------------------------------------------------------------------------------------- */

static Value *same_cast(const Node *node) {
    tn_dtype from = dtype_of(operand(node));
    return from && attr_int(node, "to") == (int64_t)from ? clean(operand(node)) : NULL;
}

static Value *same_cast_like(const Node *node) {
    tn_dtype from = dtype_of(operand(node));
    return from && dtype_of(node_operand(node, 1)) == from ? clean(operand(node)) : NULL;
}

/* ---- computations -------------------------------------------------------------------------------------------- */

static bool all_floats_are(const Tensor *t, double wanted) {
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);)
        for (int64_t i = 0; i < r.n; i++) {
            double x;
            load_f64(&x, t->dtype, t->data, r.offset + i * r.stride, 1, 1);
            if (memcmp(&x, &wanted, sizeof x) != 0) return false;
        }
    return true;
}

static bool all_whole_are(const Tensor *t, int64_t wanted) {
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);)
        for (int64_t i = 0; i < r.n; i++) {
            int64_t x;
            load_i64(&x, t->dtype, t->data, r.offset + i * r.stride, 1, 1);
            if (x != wanted) return false;
        }
    return true;
}

/* The sign of a float zero matters. `all_bits`: of integers, the number with all bits set. */
typedef struct Neutral {
    const char *op;
    double real;
    int64_t whole;
    bool first_too, all_bits;
} Neutral;

static const Neutral neutrals[] = {
    {"Add", -0.0, 0, true, false},    {"Sub", 0.0, 0, false, false},     {"Mul", 1, 1, true, false},
    {"Div", 1, 1, false, false},      {"Pow", 1, 1, false, false},       {"And", 1, 1, true, false},
    {"Or", 0, 0, true, false},        {"Xor", 0, 0, true, false},        {"BitwiseAnd", 0, 0, true, true},
    {"BitwiseOr", 0, 0, true, false}, {"BitwiseXor", 0, 0, true, false}, {"BitShift", 0, 0, false, false},
};

static int64_t all_bits_of(tn_dtype dtype) {
    int bits = dtype_bits(dtype);
    return dtype_is_signed_int(dtype) || bits == 64 ? -1 : ((int64_t)1 << bits) - 1;
}

static bool is_neutral(const Neutral *neutral, const Tensor *t) {
    bool whole = t->dtype == TN_BOOL || dtype_is_signed_int(t->dtype) || dtype_is_unsigned_int(t->dtype);
    if (!t->data && tensor_count(t) > 0) return false;
    if (whole) return all_whole_are(t, neutral->all_bits ? all_bits_of(t->dtype) : neutral->whole);
    return dtype_is_float(t->dtype) && all_floats_are(t, neutral->real);
}

/* Whether broadcasting the constant leaves the sizes of x. */
static bool keeps_sizes(const Tensor *t, const Value *x, const Value *result) {
    bool small = t->rank == 0 || (value_rank(x) >= t->rank && tensor_count(t) == 1);
    return small || same_tensor_type(x->type, result->type);
}

static Value *beside_neutral(const Neutral *neutral, const Node *node, uint32_t constant) {
    const Tensor *t = value_constant(node_operand(node, constant));
    Value *x = node_operand(node, 1 - constant);
    if (!t || !x || x->type->kind != TYPE_TENSOR || !keeps_sizes(t, x, node->results[0])) return NULL;
    return is_neutral(neutral, t) ? x : NULL;
}

static Value *neutral_operand(const Node *node) {
    const Neutral *row = neutrals;
    while (strcmp(row->op, node->op->name) != 0) row++;
    Value *x = beside_neutral(row, node, 1);
    return clean(!x && row->first_too ? beside_neutral(row, node, 0) : x);
}

static Value *no_bounds(const Node *node) {
    return !node_operand(node, 1) && !node_operand(node, 2) ? operand(node) : NULL;
}

static Value *no_training(const Node *node) { return node_is_random(node) ? NULL : operand(node); }

/* Over dimensions of size 1, or none. */
static Value *reduces_nothing(const Node *node) {
    const Tensor *axes = value_constant(node_operand(node, 1));
    bool none = attr_int(node, "noop_with_empty_axes") != 0 && (!axes || tensor_count(axes) == 0);
    if (!is_constant_or_absent(node, 1)) return NULL;
    return clean(none && value_rank(operand(node)) >= 0 ? operand(node) : same_sizes(node));
}

/* A sum begins with 0, which turns -0 into 0. */
static Value *adds_nothing(const Node *node) {
    tn_dtype dtype = dtype_of(operand(node));
    bool whole = dtype_is_signed_int(dtype) || dtype_is_unsigned_int(dtype);
    return whole ? reduces_nothing(node) : NULL;
}

static Value *chosen(const Node *node) {
    static const Neutral yes = {"", 0, 1, false, false}, no = {"", 0, 0, false, false};
    const Tensor *t = value_constant(node_operand(node, 0));
    if (!t || t->dtype != TN_BOOL || tensor_count(t) == 0) return NULL;
    Value *x = is_neutral(&yes, t) ? node_operand(node, 1) : is_neutral(&no, t) ? node_operand(node, 2) : NULL;
    return x && same_tensor_type(x->type, node->results[0]->type) ? clean(x) : NULL;
}

/* The same op twice is none at all. */
static Value *twice_is_none(const Node *node) {
    const Node *inner = maker(node, 0);
    return inner && inner->op == node->op ? clean(operand(inner)) : NULL;
}

/* The same op twice is as good as once. */
static Value *twice_is_once(const Node *node) {
    const Node *inner = maker(node, 0);
    return inner && inner->op == node->op ? operand(node) : NULL;
}

/* Positions are exact where nothing is added and taken away again; other modes would add 0 times a neighbour. */
static bool takes_nearest(const Node *node) {
    static const char *const exact[] = {"half_pixel", "pytorch_half_pixel", "asymmetric"};
    if (!attr_string_is(node, "mode", "nearest")) return false;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (attr_string_is(node, "coordinate_transformation_mode", exact[i])) return true;
    return false;
}

static Value *same_scale(const Node *node) {
    static const Neutral one = {"", 1, 1, false, false};
    const Value *sizes = node_operand(node, 3);
    const Tensor *scales = value_constant(node_operand(node, 2));
    if (!takes_nearest(node)) return NULL;
    if (scales && tensor_count(scales) > 0) return is_neutral(&one, scales) ? same_sizes(node) : NULL;
    bool stretches = sizes && attr_string_is(node, "keep_aspect_ratio_policy", "stretch");
    return stretches && (!node_operand(node, 2) || scales) ? same_sizes(node) : NULL;
}

/* ---- erasing ------------------------------------------------------------------------------------------------- */

/* With the constants that only it read. */
static void erase_unread(Node *node) {
    Value *operands[5];
    if (!node->graph || node_is_read(node)) return;
    for (uint32_t i = 0; i < 5; i++) operands[i] = node_operand(node, i);
    node_erase(node);
    for (uint32_t i = 0; i < 5; i++)
        if (value_payload(operands[i]) && operands[i]->def->graph && !operands[i]->uses) node_erase(operands[i]->def);
}

/* ---- two that are one ---------------------------------------------------------------------------------------- */

/* The bits that a number has, the sign of an integer included. */
static int precision_of(tn_dtype dtype) {
    switch (dtype) {
    case TN_F16: return 11;
    case TN_BF16: return 8;
    case TN_F32: return 24;
    case TN_F64: return 53;
    case TN_BOOL: return 1;
    default: return dtype_is_signed_int(dtype) ? dtype_bits(dtype) - 1 : dtype_bits(dtype);
    }
}

static bool is_plain(tn_dtype dtype) { return TS(dtype) & (TS_NUMERIC | TS(TN_BOOL)) && dtype != TN_UNDEFINED; }

/* Whether each value of one type is one of the other, too. */
static bool holds(tn_dtype to, tn_dtype from) {
    if (from == to) return true;
    if (to == TN_BOOL || !is_plain(from) || !is_plain(to)) return false;
    if (dtype_is_float(from) && !dtype_is_float(to)) return false;
    if (from == TN_BF16 && to == TN_F16) return false;
    if (dtype_is_signed_int(from) && dtype_is_unsigned_int(to)) return false;
    return precision_of(to) >= precision_of(from);
}

/* Floats become integers in several ways, which agree on numbers that 32 bits hold. */
static bool same_either_way(tn_dtype from, tn_dtype middle, tn_dtype to) {
    bool to_float = dtype_is_float(to), through_float = dtype_is_float(middle);
    if (!is_plain(to)) return false;
    if (dtype_is_float(from)) return to_float;
    return to_float || !through_float || (to != TN_U64 && holds(TN_I32, from));
}

static tn_status join_casts(Sweep *s, Node *node, Node *inner) {
    Value *x = operand(inner);
    tn_dtype from = dtype_of(x), middle = dtype_of(inner->results[0]), to = dtype_of(node->results[0]);
    if (!node_is_onnx(inner, "Cast") || !from || !middle || !to || !holds(middle, from) ||
        !same_either_way(from, middle, to) || !may_change(s))
        return TN_OK;
    s->n_joined++;
    return node_set_operand(node, 0, x);
}

static tn_status join_transposes(Sweep *s, Node *node, Node *inner) {
    IntList outer_perm = attr_ints(node, "perm"), inner_perm = attr_ints(inner, "perm");
    int64_t perm[TN_MAX_RANK];
    size_t n = outer_perm.n;
    if (!node_is_onnx(inner, "Transpose") || n == 0 || n > TN_MAX_RANK || inner_perm.n != n) return TN_OK;
    for (size_t k = 0; k < n; k++) {
        if (outer_perm.data[k] < 0 || (size_t)outer_perm.data[k] >= n) return TN_OK;
        perm[k] = inner_perm.data[outer_perm.data[k]];
    }
    if (!may_change(s)) return TN_OK;
    s->n_joined++;
    TRY(node_set_ints(node, "perm", perm, n));
    return node_set_operand(node, 0, operand(inner));
}

/* A shape in which 0 stands for a size of the operand depends on which operand that is. */
static tn_status join_reshapes(Sweep *s, Node *node, Node *inner) {
    int64_t shape[TN_MAX_RANK];
    int n;
    if (!keeps_order(inner) || !keeps_count(inner)) return TN_OK;
    if (!constant_ints(node_operand(node, 1), shape, TN_MAX_RANK, &n)) return TN_OK;
    for (int k = 0; k < n; k++)
        if (shape[k] == 0) return TN_OK;
    if (!may_change(s)) return TN_OK;
    s->n_joined++;
    return node_set_operand(node, 0, operand(inner));
}

static bool axes_of(const Node *node, int rank, uint32_t *mask) {
    int64_t axes[TN_MAX_RANK];
    int n;
    if (rank < 0 || !constant_ints(node_operand(node, 1), axes, TN_MAX_RANK, &n)) return false;
    if (normal_axes(axes, (size_t)n, rank, "axes", mask) == TN_OK) return true;
    diag_clear();
    return false;
}

/* Positions among those of `rank` dimensions that are not in `gone`, as positions among all. */
static uint32_t spread_mask(uint32_t mask, uint32_t gone, int rank) {
    uint32_t spread = 0;
    for (int k = 0, place = 0; k < rank; k++) {
        if (gone & 1u << k) continue;
        if (mask & 1u << place) spread |= 1u << k;
        place++;
    }
    return spread;
}

static tn_status join_axes(Sweep *s, Node *node, Node *inner, uint32_t mask) {
    int64_t axes[TN_MAX_RANK];
    int n = 0;
    Value *list, *before = node_operand(node, 1);
    if (!may_change(s)) return TN_OK;
    for (int k = 0; k < TN_MAX_RANK; k++)
        if (mask & 1u << k) axes[n++] = k;
    TRY(insert_ints(node, axes, n, &list));
    s->n_joined++;
    TRY(node_set_operand(node, 0, operand(inner)));
    TRY(node_set_operand(node, 1, list));
    erase_unread(before->def);
    return TN_OK;
}

static tn_status join_squeezes(Sweep *s, Node *node, Node *inner) {
    uint32_t first, second;
    int rank = value_rank(operand(inner));
    if (!node_is_onnx(inner, "Squeeze") || !axes_of(inner, rank, &first)) return TN_OK;
    if (!axes_of(node, value_rank(operand(node)), &second)) return TN_OK;
    return join_axes(s, node, inner, first | spread_mask(second, first, rank));
}

static tn_status join_unsqueezes(Sweep *s, Node *node, Node *inner) {
    uint32_t first, second;
    int rank = value_rank(node->results[0]);
    if (!node_is_onnx(inner, "Unsqueeze") || !axes_of(inner, value_rank(inner->results[0]), &first)) return TN_OK;
    if (!axes_of(node, rank, &second)) return TN_OK;
    return join_axes(s, node, inner, second | spread_mask(first, second, rank));
}

/* ---- the tables ---------------------------------------------------------------------------------------------- */

static const SameRow same_table[] = {
    {"Abs", twice_is_once},
    {"Add", neutral_operand},
    {"And", neutral_operand},
    {"BitShift", neutral_operand},
    {"BitwiseAnd", neutral_operand},
    {"BitwiseNot", twice_is_none},
    {"BitwiseOr", neutral_operand},
    {"BitwiseXor", neutral_operand},
    {"Cast", same_cast},
    {"CastLike", same_cast_like},
    {"Ceil", twice_is_once},
    {"Clip", no_bounds},
    {"Concat", only_piece},
    {"Div", neutral_operand},
    {"Dropout", no_training},
    {"Expand", same_sizes},
    {"Flatten", same_sizes},
    {"Flatten", undone},
    {"Floor", twice_is_once},
    {"Identity", operand},
    {"Max", only_operand},
    {"Mean", only_operand},
    {"Min", only_operand},
    {"Mul", neutral_operand},
    {"Neg", twice_is_none},
    {"Not", twice_is_none},
    {"Or", neutral_operand},
    {"Pad", no_pads},
    {"Pow", neutral_operand},
    {"ReduceMax", reduces_nothing},
    {"ReduceMean", adds_nothing},
    {"ReduceMin", reduces_nothing},
    {"ReduceProd", reduces_nothing},
    {"ReduceSum", adds_nothing},
    {"Relu", twice_is_once},
    {"Reshape", same_sizes},
    {"Reshape", undone},
    {"Resize", same_scale},
    {"Round", twice_is_once},
    {"Slice", whole_slice},
    {"Split", only_part},
    {"Squeeze", same_sizes},
    {"Squeeze", undone},
    {"Sub", neutral_operand},
    {"Sum", only_operand},
    {"Tile", same_sizes},
    {"Transpose", same_order},
    {"Unsqueeze", same_sizes},
    {"Unsqueeze", undone},
    {"Where", chosen},
    {"Xor", neutral_operand},
};

static const JoinRow join_table[] = {
    {"Cast", join_casts},           {"Reshape", join_reshapes},     {"Squeeze", join_squeezes},
    {"Transpose", join_transposes}, {"Unsqueeze", join_unsqueezes},
};

/* ---- the walk ------------------------------------------------------------------------------------------------ */

/* Few steps up, since nodes further up have been joined themselves. */
static tn_status join(Sweep *s, Node *node) {
    enum { MOST_STEPS = 8 };
    const OpRow *r = op_rows_of(&s->joined, node->op);
    for (int step = 0; r && step < MOST_STEPS; step++) {
        Node *inner = maker(node, 0);
        int64_t before = s->n_joined;
        if (inner) TRY(((const JoinRow *)r->row)->fn(s, node, inner));
        if (s->n_joined == before) return TN_OK;
        erase_unread(inner);
    }
    return TN_OK;
}

static Value *same_value(const Sweep *s, const Node *node) {
    Value *same = NULL;
    for (const OpRow *r = op_rows_of(&s->same, node->op); r && r->op == node->op && !same; r++)
        same = ((const SameRow *)r->row)->fn(node);
    return same && (dtype_of(same) || node_is_onnx(node, "Identity")) ? same : NULL;
}

/* What is known of the result holds for the value that takes its place. What is said of an input is its caller's. */
static tn_status adopt_type(Value *value, const Type *type) {
    const Type *merged;
    if (!value->def) return TN_OK;
    tn_status status = type_merge(value->graph->model, value->type, type, &merged);
    if (status == TN_OK) value_set_type(value, merged);
    else if (status != TN_OUT_OF_MEMORY) diag_clear();
    return status == TN_OUT_OF_MEMORY ? status : TN_OK;
}

static tn_status remove_node(Sweep *s, Node *node, Value *same) {
    TRY(adopt_type(same, node->results[0]->type));
    TRY(replace_value(node->results[0], same));
    s->n_removed++;
    Node *before = maker(node, 0);
    if (node_is_read(node)) return TN_OK;
    erase_unread(node);
    if (before) erase_unread(before);
    return TN_OK;
}

static tn_status visit(Sweep *s, Node *node) {
    if (node->n_results == 0 || !node->results[0]->uses) return TN_OK;
    TRY(join(s, node));
    Value *same = same_value(s, node);
    return same && may_change(s) ? remove_node(s, node, same) : TN_OK;
}

/* Those around come first: what becomes of their values is what nested graphs read. */
static tn_status sweep(Sweep *s) {
    Graph **graphs;
    size_t n;
    TRY(model_graphs(s->run->model, s->run->scratch, &graphs, &n));
    for (size_t i = n; i-- > 0;)
        for (Node *node = graphs[i]->first, *next; node && !s->stopped; node = next) {
            next = node->next;
            TRY(visit(s, node));
        }
    return TN_OK;
}

static tn_status run(PassRun *run, Graph *graph) {
    Sweep s = {.run = run};
    (void)graph;
    TRY(op_rows(run->scratch, same_table, sizeof same_table / sizeof *same_table, sizeof *same_table, &s.same));
    TRY(op_rows(run->scratch, join_table, sizeof join_table / sizeof *join_table, sizeof *join_table, &s.joined));
    TRY(sweep(&s));
    TRY(pass_count(run, "removed", s.n_removed));
    return pass_count(run, "joined", s.n_joined);
}

const Pass pass_remove_identities = {.name = "remove-identities",
                                     .summary = "remove nodes that change nothing; make one of two movements",
                                     .phase = PHASE_PRE_PLACEMENT,
                                     .order = 50,
                                     .opt_level = 1,
                                     .requires = {"infer-shapes"},
                                     .keeps = {"infer-shapes"},
                                     .run = run};
