/* SPDX-License-Identifier: Apache-2.0 */
/* canonicalize: of two spellings of the same node the same one everywhere, so that what comes after has to know one only.
   Constants go second, axes count from the front and are sorted, attributes that say what holds anyway are left out, the
   axis and the permutation that movements go by are written down, states that start at zero are not given. No bit of any result changes. */
#include "ops/op.h"
#include "pass/pass.h"
#include "rewrite/rewrite.h"

#include <math.h>

typedef struct Tidy {
    PassRun *run;
    OpRows rows;
    bool stopped;
    int64_t n_swapped, n_attrs, n_axes, n_states;
} Tidy;

typedef tn_status (*TidyFn)(Tidy *t, Node *node);
typedef struct TidyRow {
    const char *op;
    TidyFn fn;
} TidyRow;

static bool may_change(Tidy *t) {
    if (!t->stopped) t->stopped = !pass_may_change(t->run);
    return !t->stopped;
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

static tn_status constant_second(Tidy *t, Node *node) {
    Value *a = node_operand(node, 0), *b = node_operand(node, 1);
    if (!node_may_swap(node) || !value_payload(a) || !b || value_payload(b) || !may_change(t)) return TN_OK;
    TRY(node_set_operand(node, 0, b));
    TRY(node_set_operand(node, 1, a));
    t->n_swapped++;
    return TN_OK;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

/* Those of ONNX's ops for which 0 is the default, and not a number that means something else than no number. */
static bool is_flag(Str name) {
    static const char *const flags[] = {"align_corners",
                                        "allowzero",
                                        "antialias",
                                        "batch_dims",
                                        "ceil_mode",
                                        "center_point_box",
                                        "count_include_pad",
                                        "exclude_outside",
                                        "exclusive",
                                        "fmod",
                                        "input_forget",
                                        "interleaved",
                                        "inverse",
                                        "is_causal",
                                        "is_case_sensitive",
                                        "keepdims",
                                        "layout",
                                        "linear_before_reset",
                                        "new_axis",
                                        "noop_with_empty_axes",
                                        "onesided",
                                        "reverse",
                                        "select_last_index",
                                        "storage_order",
                                        "training_mode",
                                        "transA",
                                        "transB"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (str_equal(name, str_of(flags[i]))) return true;
    return false;
}

/* `axis` is written down by the functions below; whether `dtype` is there matters. */
static bool says_default(const Attr *a, const AttrSpec *spec) {
    if (a->kind != spec->kind || str_equal(a->name, STR("axis")) || str_equal(a->name, STR("dtype"))) return false;
    switch (a->kind) {
    case ATTR_INT: return a->i == spec->i && (spec->i != 0 || is_flag(a->name));
    case ATTR_FLOAT: return spec->f != 0 && (double)a->f == spec->f;
    case ATTR_STRING: return spec->s && *spec->s && str_equal(a->s, str_of(spec->s));
    default: return false;
    }
}

static tn_status drop_defaults(Tidy *t, Node *node) {
    if (node->op->domain) return TN_OK;
    for (uint32_t i = node->n_attrs; i-- > 0;) {
        const Attr *a = &node->attrs[i];
        const AttrSpec *spec = op_attr_spec(node->op, a->name);
        if (!spec || spec->flags & ATTR_REQUIRED || !says_default(a, spec) || !may_change(t)) continue;
        node_remove_attr(node, a->name);
        t->n_attrs++;
    }
    return TN_OK;
}

static bool all_are(IntList list, int64_t value) {
    for (size_t i = 0; i < list.n; i++)
        if (list.data[i] != value) return false;
    return true;
}

/* Pads of 0, strides and dilations of 1. */
static tn_status window_lists(Tidy *t, Node *node) {
    static const struct {
        const char *name;
        int64_t usual;
    } lists[] = {{"dilations", 1}, {"pads", 0}, {"strides", 1}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const Attr *a = node_attr(node, str_of(lists[i].name));
        if (!a || a->kind != ATTR_INTS || !all_are((IntList){a->ints, a->n}, lists[i].usual)) continue;
        if (a->n != (size_t)(value_rank(node_operand(node, 0)) - 2) * (lists[i].usual ? 1 : 2) || !may_change(t))
            continue;
        node_remove_attr(node, str_of(lists[i].name));
        t->n_attrs++;
    }
    return TN_OK;
}

/* ---- axes ---------------------------------------------------------------------------------------------------- */

static tn_status set_axis(Tidy *t, Node *node, int64_t axis) {
    int rank = value_rank(node_operand(node, 0));
    const Attr *a = node_attr(node, STR("axis"));
    if (rank < 0 || axis < -rank) return TN_OK;
    if (axis < 0) axis += rank;
    if ((a && a->kind == ATTR_INT && a->i == axis) || !may_change(t)) return TN_OK;
    t->n_axes++;
    return node_set_int(node, "axis", axis);
}

/* Written down also where it is the default, which differs from op to op. */
static tn_status any_axis(Tidy *t, Node *node) { return set_axis(t, node, attr_int(node, "axis")); }

/* Where no axis means none. */
static tn_status given_axis(Tidy *t, Node *node) {
    return attr_present(node, "axis") ? set_axis(t, node, attr_int(node, "axis")) : TN_OK;
}

static tn_status transpose_perm(Tidy *t, Node *node) {
    int rank = value_rank(node_operand(node, 0));
    int64_t perm[TN_MAX_RANK];
    if (rank < 0 || attr_present(node, "perm") || !may_change(t)) return TN_OK;
    for (int k = 0; k < rank; k++) perm[k] = rank - 1 - k;
    t->n_axes++;
    return node_set_ints(node, "perm", perm, (size_t)rank);
}

static tn_status replace_axes(Tidy *t, Node *node, uint32_t i, const int64_t *axes, int n) {
    Value *fresh;
    if (!may_change(t)) return TN_OK;
    TRY(insert_ints(node, axes, n, &fresh));
    t->n_axes++;
    return i < node->n_operands ? node_set_operand(node, i, fresh) : node_add_operand(node, fresh);
}

static int axes_of_mask(uint32_t mask, int64_t *axes) {
    int n = 0;
    for (int k = 0; k < 32; k++)
        if (mask & 1u << k) axes[n++] = k;
    return n;
}

/* Constant axes of a tensor of that rank; false when they are not known, or wrong. */
static bool read_axes(const Node *node, uint32_t i, int rank, int64_t *axes, int *n, uint32_t *mask) {
    const Tensor *t = value_constant(node_operand(node, i));
    if (!t || t->dtype != TN_I64 || rank < 0) return false;
    if (!constant_ints(node->operands[i].value, axes, TN_MAX_RANK, n)) return false;
    if (normal_axes(axes, (size_t)*n, rank, "axes", mask) == TN_OK) return true;
    diag_clear();
    return false;
}

static bool same_ints(const int64_t *a, const int64_t *b, int n) {
    return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Axes whose order does not matter. */
static tn_status sorted_axes(Tidy *t, Node *node, int rank) {
    int64_t axes[TN_MAX_RANK], sorted[32];
    int n;
    uint32_t mask;
    if (!read_axes(node, 1, rank, axes, &n, &mask)) return TN_OK;
    axes_of_mask(mask, sorted);
    return same_ints(axes, sorted, n) ? TN_OK : replace_axes(t, node, 1, sorted, n);
}

/* Those that have pads or bounds beside them keep their order. */
static tn_status listed_axes(Tidy *t, Node *node) {
    int64_t axes[TN_MAX_RANK];
    int n, rank = value_rank(node_operand(node, 0));
    uint32_t mask;
    bool negative = false;
    if (!read_axes(node, 3, rank, axes, &n, &mask)) return TN_OK;
    for (int k = 0; k < n; k++) {
        negative |= axes[k] < 0;
        axes[k] += axes[k] < 0 ? rank : 0;
    }
    return negative ? replace_axes(t, node, 3, axes, n) : TN_OK;
}

/* A reduction over all axes names none. */
static tn_status reduce_axes(Tidy *t, Node *node) {
    int64_t axes[TN_MAX_RANK];
    int n, rank = value_rank(node_operand(node, 0));
    uint32_t mask;
    if (attr_int(node, "noop_with_empty_axes") == 0 && read_axes(node, 1, rank, axes, &n, &mask) &&
        (n == 0 || n == rank)) {
        if (!may_change(t)) return TN_OK;
        node_truncate_operands(node, 1);
        t->n_axes++;
        return TN_OK;
    }
    return sorted_axes(t, node, rank);
}

static tn_status squeeze_axes(Tidy *t, Node *node) {
    const Value *x = node_operand(node, 0);
    int64_t axes[TN_MAX_RANK];
    int n = 0;
    if (node_operand(node, 1)) return sorted_axes(t, node, value_rank(x));
    if (value_rank(x) < 0 || !shape_is_known(&x->type->shape)) return TN_OK;
    for (int k = 0; k < x->type->shape.rank; k++)
        if (x->type->shape.dims[k] == 1) axes[n++] = k;
    return replace_axes(t, node, 1, axes, n);
}

static tn_status unsqueeze_axes(Tidy *t, Node *node) { return sorted_axes(t, node, value_rank(node_result(node, 0))); }

/* ---- states -------------------------------------------------------------------------------------------------- */

static bool all_zero(const Tensor *t) {
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);)
        for (int64_t i = 0; i < r.n; i++) {
            double x;
            load_f64(&x, t->dtype, t->data, r.offset + i * r.stride, 1, 1);
            if (x != 0 || signbit(x)) return false;
        }
    return true;
}

static bool is_zeros(const Tensor *t) {
    return t->kind == TYPE_TENSOR && dtype_is_float(t->dtype) && t->data && all_zero(t);
}

/* Of these the result has no other elements than operand 0. */
static bool only_moves(const OpSchema *op) {
    return OP_IS_ONE_OF(op, "Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose",
                        "Unsqueeze");
}

/* Whether all elements are 0, however many there will be. */
static bool holds_zeros(const Value *value) {
    enum { MOST_STEPS = 16 };
    for (int step = 0; value && step < MOST_STEPS; step++) {
        if (value_constant(value)) return is_zeros(value_constant(value));
        const Node *node = value->def;
        if (!node) return false;
        if (!node->op->domain && strcmp(node->op->name, "ConstantOfShape") == 0) {
            const Tensor *filled = attr_tensor(node, "value");
            return filled ? is_zeros(filled) : true;
        }
        if (!only_moves(node->op)) return false;
        value = node_operand(node, 0);
    }
    return false;
}

/* A state that starts at zero is one that is not given. */
static tn_status zero_states(Tidy *t, Node *node) {
    bool changed = false;
    for (uint32_t i = 5; i < 7 && i < node->n_operands; i++) {
        if (!node_operand(node, i) || !holds_zeros(node_operand(node, i)) || !may_change(t)) continue;
        TRY(node_set_operand(node, i, NULL));
        t->n_states++;
        changed = true;
    }
    while (changed && !node_operand(node, node->n_operands - 1)) node_truncate_operands(node, node->n_operands - 1);
    return TN_OK;
}

/* ---- the table and the walk ---------------------------------------------------------------------------------- */

static const TidyRow table[] = {
    {"ArgMax", any_axis},
    {"ArgMin", any_axis},
    {"AveragePool", window_lists},
    {"Compress", given_axis},
    {"Concat", any_axis},
    {"Conv", window_lists},
    {"DequantizeLinear", given_axis},
    {"Flatten", any_axis},
    {"Gather", any_axis},
    {"GRU", zero_states},
    {"GatherElements", any_axis},
    {"Hardmax", any_axis},
    {"LSTM", zero_states},
    {"LayerNormalization", any_axis},
    {"LogSoftmax", any_axis},
    {"LpNormalization", any_axis},
    {"LpPool", window_lists},
    {"MaxPool", window_lists},
    {"Pad", listed_axes},
    {"QuantizeLinear", given_axis},
    {"RMSNormalization", any_axis},
    {"RNN", zero_states},
    {"ReduceL1", reduce_axes},
    {"ReduceL2", reduce_axes},
    {"ReduceLogSum", reduce_axes},
    {"ReduceLogSumExp", reduce_axes},
    {"ReduceMax", reduce_axes},
    {"ReduceMean", reduce_axes},
    {"ReduceMin", reduce_axes},
    {"ReduceProd", reduce_axes},
    {"ReduceSum", reduce_axes},
    {"ReduceSumSquare", reduce_axes},
    {"ScatterElements", any_axis},
    {"Slice", listed_axes},
    {"Softmax", any_axis},
    {"Split", any_axis},
    {"Squeeze", squeeze_axes},
    {"TopK", any_axis},
    {"Transpose", transpose_perm},
    {"Unique", given_axis},
    {"Unsqueeze", unsqueeze_axes},
};

static tn_status visit(Tidy *t, Node *node) {
    TRY(constant_second(t, node));
    TRY(drop_defaults(t, node));
    for (const OpRow *r = op_rows_of(&t->rows, node->op); r && r->op == node->op; r++)
        TRY(((const TidyRow *)r->row)->fn(t, node));
    return TN_OK;
}

static tn_status run(PassRun *run, Graph *graph) {
    Tidy t = {.run = run};
    TRY(op_rows(run->scratch, table, sizeof table / sizeof *table, sizeof *table, &t.rows));
    for (Node *node = graph->first; node && !t.stopped; node = node->next) TRY(visit(&t, node));
    TRY(pass_count(run, "operands swapped", t.n_swapped));
    TRY(pass_count(run, "attributes left out", t.n_attrs));
    TRY(pass_count(run, "states left out", t.n_states));
    return pass_count(run, "axes written", t.n_axes);
}

const Pass pass_canonicalize = {.name = "canonicalize",
                                .summary = "spell what means the same in the same way",
                                .phase = PHASE_PRE_PLACEMENT,
                                .order = 40,
                                .opt_level = 1,
                                .each_graph = true,
                                .requires = {"infer-shapes"},
                                .keeps = {"infer-shapes"},
                                .run = run};
