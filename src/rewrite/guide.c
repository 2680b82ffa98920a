/* SPDX-License-Identifier: Apache-2.0 */
/* What a rule's conditions and ops say of its values before there are any. It only guides: whether conditions hold is asked
   of expr.c. So what is not understood here costs tries, not truth. */
#include "rewrite/prove_int.h"

#include <math.h>

static bool is_call(const Expr *e, const char *name) {
    return e->kind == EXPR_CALL && str_equal(e->text, str_of(name));
}
static bool asks_value(const Expr *e, size_t i) { return e->n > i && e->args[i]->kind == EXPR_VALUE; }

/* V_UNKNOWN as long as something in it is not there yet. */
static tn_status evaluate(Sampler *s, const Expr *e, Val *out) {
    *out = (Val){.kind = V_UNKNOWN};
    if (!guide_ready(s, e)) return TN_OK;
    tn_status status = expr_eval(e, &s->match, out);
    if (status != TN_OK) s->failed = status;
    return status;
}

/* ---- conditions, taken apart --------------------------------------------------------------------------------- */

/* Recursion is bounded by RULE_DEPTH. */
static void split_tests(Sampler *s, const Expr *e) {
    if (e->kind == EXPR_BINARY && e->op == '&') {
        split_tests(s, e->args[0]);
        split_tests(s, e->args[1]);
    } else if (s->n_tests < LIST_MAX * 2) s->tests[s->n_tests++] = e;
}

/* Recursion is bounded by RULE_DEPTH. */
static void note_mentions(Hint *hint, const Expr *e) {
    if (e->kind == EXPR_VALUE) hint->values |= (uint64_t)1 << e->var;
    if (e->kind == EXPR_VAR) hint->vars |= 1u << e->var;
    for (size_t i = 0; i < e->n; i++) note_mentions(hint, e->args[i]);
}

/* Of `or` one side. Recursion is bounded by RULE_DEPTH. */
static void split_hints(Sampler *s, const Expr *e) {
    bool either = e->kind == EXPR_BINARY && e->op == '|';
    if (e->kind == EXPR_BINARY && e->op == '&') {
        split_hints(s, e->args[0]);
        split_hints(s, e->args[1]);
    } else if (either) split_hints(s, e->args[dice_int(&s->dice, 0, 1)]);
    else if (s->n_hints < LIST_MAX * 2) {
        Hint *hint = &s->hints[s->n_hints++];
        *hint = (Hint){.e = e};
        note_mentions(hint, e);
    }
}

static void split_all(Sampler *s) {
    s->n_tests = s->n_hints = 0;
    for (size_t i = 0; i < s->rule->n_where; i++) {
        split_tests(s, s->rule->where[i]);
        split_hints(s, s->rule->where[i]);
    }
}

/* ---- wants --------------------------------------------------------------------------------------------------- */

static uint32_t ranks_by(char op, int64_t n, bool turned) {
    uint32_t mask = 0;
    for (int r = 0; r <= INSTANCE_RANK; r++) {
        bool less = turned ? r > n : r < n, more = turned ? r < n : r > n, same = r == n;
        bool in = op == '='   ? same
                  : op == '!' ? !same
                  : op == '<' ? less
                  : op == '>' ? more
                  : op == 'l' ? less || same
                              : more || same;
        mask |= in ? 1u << r : 0;
    }
    return mask;
}

static void want_rank(Sampler *s, const Expr *e) {
    int side = is_call(e->args[0], "rank") && asks_value(e->args[0], 0) ? 0 : 1;
    const Expr *rank = e->args[side], *other = e->args[1 - side];
    uint32_t mask = 0;
    if (!is_call(rank, "rank") || !asks_value(rank, 0)) return;
    if (other->kind == EXPR_NUMBER && !other->is_float) mask = ranks_by(e->op, other->i, side == 1);
    for (size_t i = 0; e->op == 'i' && other->kind == EXPR_LIST && i < other->n; i++)
        if (other->args[i]->kind == EXPR_NUMBER) mask |= ranks_by('=', other->args[i]->i, false);
    if (mask) s->wants[rank->args[0]->var].ranks &= mask;
}

static TypeSet types_named(const Expr *e) {
    TypeSet types = 0;
    if (e->kind == EXPR_STRING) types = TS(dtype_from_name(e->text.s, e->text.n));
    for (size_t i = 0; e->kind == EXPR_LIST && i < e->n; i++)
        if (e->args[i]->kind == EXPR_STRING) types |= TS(dtype_from_name(e->args[i]->text.s, e->args[i]->text.n));
    return types;
}

static void want_dtype(Sampler *s, const Expr *e) {
    if (!is_call(e->args[0], "dtype") || !asks_value(e->args[0], 0)) return;
    TypeSet types = types_named(e->args[1]), *want = &s->wants[e->args[0]->args[0]->var].types;
    if (types && (e->op == '=' || e->op == 'i')) *want &= types;
    if (types && e->op == '!') *want &= ~types;
}

/* Contents are known of constants only. Recursion is bounded by RULE_DEPTH. */
static void want_contents(Sampler *s, const Expr *e, bool of_values) {
    bool direct = is_call(e, "value") || is_call(e, "splat");
    for (size_t i = 0; i < e->n; i++) {
        const Expr *arg = e->args[i];
        bool contents = arg->kind == EXPR_VALUE && (direct || !of_values);
        if (contents) s->wants[arg->var].constant = 1;
        want_contents(s, arg, arg->kind == EXPR_CALL);
    }
}

static void want_call(Sampler *s, const Expr *e, bool yes) {
    for (size_t i = 0; i < e->n; i++) {
        if (!asks_value(e, i)) continue;
        Want *want = &s->wants[e->args[i]->var];
        if (is_call(e, "const") || is_call(e, "is_single") || is_call(e, "repeats") || is_call(e, "is_causal"))
            want->constant = yes;
        if (is_call(e, "present")) want->present = yes;
        if (is_call(e, "is_float")) want->types &= yes ? TS_FLOAT : ~TS_FLOAT;
        if (is_call(e, "one_use")) want->one_use = yes;
    }
}

static void read_hint(Sampler *s, const Expr *e) {
    if (e->kind == EXPR_NOT && e->args[0]->kind == EXPR_CALL) want_call(s, e->args[0], false);
    if (e->kind == EXPR_CALL) want_call(s, e, true);
    want_contents(s, e, e->kind == EXPR_CALL);
    if (e->kind != EXPR_BINARY) return;
    if (strchr("=!<>lgi", e->op)) want_rank(s, e);
    if (strchr("=!i", e->op)) want_dtype(s, e);
}

/* ---- element types ------------------------------------------------------------------------------------------- */

static int class_of(Sampler *s, int v) {
    while (s->classes[v] != v) v = s->classes[v] = s->classes[s->classes[v]];
    return v;
}

static void join(Sampler *s, int a, int b) {
    a = class_of(s, a), b = class_of(s, b);
    if (a == b) return;
    s->class_types[a] &= s->class_types[b];
    s->classes[b] = a;
}

static void restrict_types(Sampler *s, int v, TypeSet types) { s->class_types[class_of(s, v)] &= types; }

static int operand_value(const RuleOperand *o, bool written) {
    if (o->kind != OPERAND_VALUE && o->kind != OPERAND_ELSE) return -1;
    return written && o->written ? RULE_VALUES + o->value : o->value;
}

/* A fraction is no integer. */
static bool is_fraction(const Expr *e) {
    if (e && e->kind == EXPR_NEGATE) e = e->args[0];
    return e && e->kind == EXPR_NUMBER && e->is_float && e->f != floor(e->f);
}

typedef struct Letters {
    int value[128]; /* the first of that group; -1 */
    TypeSet types[128];
} Letters;

static void join_letter(Sampler *s, Letters *l, const OperandSpec *spec, int v) {
    if (!spec) return;
    if (v >= 0) restrict_types(s, v, spec->types);
    int c = (unsigned char)spec->group & 127;
    if (!c || v < 0) return;
    if (l->value[c] >= 0) join(s, l->value[c], v);
    l->value[c] = v;
}

static void join_node(Sampler *s, const RuleNode *node, const OpSchema *op, bool written) {
    Letters l;
    memset(l.value, -1, sizeof l.value);
    for (size_t i = 0; i < node->n_operands; i++)
        join_letter(s, &l, op_input_spec(op, i), operand_value(&node->operands[i], written));
    for (size_t i = 0; i < node->n_results; i++)
        if (node->results[i] >= 0)
            join_letter(s, &l, op_output_spec(op, i), node->results[i] + (written ? RULE_VALUES : 0));
    for (size_t i = 0; !written && i < node->n_operands; i++) {
        const OperandSpec *spec = op_input_spec(op, i);
        int c = spec ? spec->group & 127 : 0;
        if (c && l.value[c] >= 0 && is_fraction(node->operands[i].expr)) restrict_types(s, l.value[c], TS_FLOAT);
    }
}

static void join_written(Sampler *s) {
    const Rule *r = s->rule;
    for (size_t k = 0; k < r->n_write; k++) {
        const RuleNode *node = &r->write[k];
        const OpSchema *op = node->op_var >= 0 ? s->match.ops[node->op_var] : node->n_ops ? node->ops[0] : NULL;
        if (op) join_node(s, node, op, true);
        else if (operand_value(&node->operands[0], true) >= 0)
            join(s, RULE_VALUES + node->results[0], operand_value(&node->operands[0], true));
    }
    for (size_t v = 0; v < r->n_values; v++)
        if (r->replaced[v] >= 0) join(s, (int)v, RULE_VALUES + r->replaced[v]);
}

/* The right side counts as long as it does not rule everything out: what it cannot be made with is no instance. */
static void find_types(Sampler *s, bool both) {
    const Rule *r = s->rule;
    for (int v = 0; v < 2 * RULE_VALUES; v++) {
        s->classes[v] = v;
        s->class_types[v] = v < RULE_VALUES ? s->wants[v].types : ~(TypeSet)0;
        s->class_dtype[v] = TN_UNDEFINED;
    }
    for (size_t k = 0; k < r->n_match; k++) join_node(s, &r->match[k], s->ops[k], false);
    if (!both) return;
    join_written(s);
    bool possible = true;
    for (size_t v = 0; v < r->n_values; v++) possible &= s->class_types[class_of(s, (int)v)] != 0;
    if (!possible) find_types(s, false);
}

static tn_dtype some_int(Sampler *s, TypeSet types) {
    static const tn_dtype ints[] = {TN_I64, TN_I32, TN_U8, TN_I8, TN_I16, TN_U16, TN_U32, TN_U64, TN_BOOL};
    tn_dtype fit[sizeof ints / sizeof *ints];
    int64_t n = 0;
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        if (types & TS(ints[i])) fit[n++] = ints[i];
    return n ? fit[dice_int(&s->dice, 0, n - 1)] : TN_UNDEFINED;
}

/* f64 where it may be, and f32 beside it now and then. */
static tn_dtype some_wide_float(Sampler *s, TypeSet types) {
    tn_dtype other = s->real == TN_F64 ? TN_F32 : TN_F64;
    if (s->mixed && types & TS(other) && dice_chance(&s->dice, 40)) return other;
    return types & TS(s->real) ? s->real : types & TS(TN_F64) ? TN_F64 : types & TS(TN_F32) ? TN_F32 : TN_UNDEFINED;
}

/* Reduced types only where nothing else fits, or numbers are quantised. */
static tn_dtype some_dtype(Sampler *s, TypeSet types) {
    tn_dtype real = some_wide_float(s, types);
    tn_dtype whole = some_int(s, types);
    if (!real && whole && types & TS(TN_F8E4M3FN) && dice_chance(&s->dice, 15)) return TN_F8E4M3FN;
    if (real && (!whole || dice_chance(&s->dice, 70))) return real;
    if (whole) return whole;
    tn_dtype fit[TN_DTYPE_END];
    int64_t n = 0;
    for (int t = 1; t < TN_DTYPE_END; t++)
        if (types & TS(t)) fit[n++] = (tn_dtype)t;
    return n ? fit[dice_int(&s->dice, 0, n - 1)] : TN_UNDEFINED;
}

tn_dtype guide_dtype(Sampler *s, int value) {
    int c = class_of(s, value);
    if (!s->class_dtype[c]) s->class_dtype[c] = some_dtype(s, s->class_types[c]);
    return s->class_dtype[c];
}

bool guide_knows_dtype(Sampler *s, int value) {
    return s->class_dtype[class_of(s, value)] || s->wants[value].types != ~(TypeSet)0;
}

/* ---- ranks --------------------------------------------------------------------------------------------------- */

static uint32_t up_to(uint32_t mask) {
    uint32_t all = 0;
    for (int r = 0; r <= INSTANCE_RANK; r++)
        if (mask >> r) all |= 1u << r;
    return all;
}

static int list_length(const RuleNode *node, const char *attr) {
    for (size_t i = 0; i < node->n_attrs; i++)
        if (str_equal(node->attrs[i].name, str_of(attr)) && node->attrs[i].expr &&
            node->attrs[i].expr->kind == EXPR_LIST)
            return (int)node->attrs[i].expr->n;
    return -1;
}

static bool narrow(uint32_t *mask, uint32_t by) {
    uint32_t fresh = *mask & by;
    bool changed = fresh && fresh != *mask;
    if (changed) *mask = fresh;
    return changed;
}

static bool narrow_node(Sampler *s, const RuleNode *node, const OpSchema *op) {
    static Want any = {.ranks = ~0u};
    bool changed = false;
    Want other = any, *out = node->results[0] >= 0 ? &s->wants[node->results[0]] : &other;
    int perm = list_length(node, "perm");
    for (size_t i = 0; i < node->n_operands; i++) {
        int v = operand_value(&node->operands[i], false);
        if (v < 0) continue;
        uint32_t *ranks = &s->wants[v].ranks;
        changed |= narrow(ranks, op_ranks(op, (int)i));
        if (perm >= 0 && i == 0) changed |= narrow(ranks, 1u << perm);
        if (i == 0 && op_keeps_rank(op)) {
            changed |= narrow(ranks, out->ranks);
            changed |= narrow(&out->ranks, *ranks);
        } else if (op->flags & OP_ELEMENTWISE) changed |= narrow(ranks, up_to(out->ranks));
    }
    return changed;
}

/* rank(%a) == rank(%b) */
static bool narrow_equals(Sampler *s, const Expr *e) {
    if (e->kind != EXPR_BINARY || e->op != '=' || !is_call(e->args[0], "rank") || !is_call(e->args[1], "rank"))
        return false;
    if (!asks_value(e->args[0], 0) || !asks_value(e->args[1], 0)) return false;
    uint32_t *a = &s->wants[e->args[0]->args[0]->var].ranks, *b = &s->wants[e->args[1]->args[0]->var].ranks;
    bool first = narrow(a, *b);
    return narrow(b, *a) || first;
}

static void find_ranks(Sampler *s) {
    bool changed = true;
    for (int turn = 0; changed && turn < 16; turn++) {
        changed = false;
        for (size_t i = 0; i < s->n_hints; i++) changed |= narrow_equals(s, s->hints[i].e);
        for (size_t k = 0; k < s->rule->n_match; k++) changed |= narrow_node(s, &s->rule->match[k], s->ops[k]);
    }
}

void guide_begin(Sampler *s) {
    for (size_t v = 0; v < RULE_VALUES; v++)
        s->wants[v] = (Want){.types = ~(TypeSet)0, .ranks = (2u << INSTANCE_RANK) - 1, .constant = -1, .present = -1};
    split_all(s);
    for (size_t i = 0; i < s->n_hints; i++) read_hint(s, s->hints[i].e);
    find_types(s, true);
    find_ranks(s);
}

/* ---- solving ------------------------------------------------------------------------------------------------- */

/* What an equation is solved for: a $variable, or what can be asked of one value. */
typedef struct Hole {
    Sampler *s;
    int var, value; /* one of them is -1 */
    Slot *slot;     /* of the value */
    Val val;        /* of the variable */
    bool found;
} Hole;

bool guide_ready(const Sampler *s, const Expr *e) {
    if (e->kind == EXPR_VAR && !s->match.var_bound[e->var]) return false;
    if (e->kind == EXPR_VALUE && s->value_of[e->var] == UNBORN) return false;
    for (size_t i = 0; i < e->n; i++)
        if (!guide_ready(s, e->args[i])) return false;
    return true;
}

static bool mentions(const Hole *h, const Expr *e) {
    if (e->kind == EXPR_VAR && e->var == h->var) return true;
    if (e->kind == EXPR_VALUE && e->var == h->value) return true;
    for (size_t i = 0; i < e->n; i++)
        if (mentions(h, e->args[i])) return true;
    return false;
}

static bool is_list(const Val *v) { return v->kind == V_INTS || v->kind == V_FLOATS; }
static bool is_number(const Val *v) { return v->kind == V_INT || v->kind == V_FLOAT || v->kind == V_BOOL; }
static double number_of(const Val *v) { return v->kind == V_FLOAT ? v->f : (double)v->i; }
static Val of_int(int64_t i) { return (Val){.kind = V_INT, .i = i}; }
static Val of_float(double f) { return (Val){.kind = V_FLOAT, .f = f}; }

static Val of_ints(Sampler *s, size_t n, int64_t **data) {
    *data = arena_array(&s->arena, int64_t, n + 1);
    if (!*data) s->failed = TN_OUT_OF_MEMORY;
    return (Val){.kind = *data ? V_INTS : V_UNKNOWN, .n = n, .ints = *data};
}

static void solve(Hole *h, const Expr *e, const Val *want);

static void solve_contents(Hole *h, const Val *want) {
    Slot *slot = h->slot;
    if (want->kind == V_INTS) slot->fill = (Fill){.kind = FILL_INTS, .n = want->n, .ints = want->ints};
    else if (want->kind == V_FLOATS) slot->fill = (Fill){.kind = FILL_FLOATS, .n = want->n, .floats = want->floats};
    else if (is_number(want)) slot->fill = (Fill){.kind = FILL_NUMBER, .number = number_of(want)};
    else return;
    slot->filled = h->found = true;
    if (is_list(want)) slot_set(slot, 1, &(int64_t){(int64_t)want->n});
    else slot_set(slot, 0, NULL);
}

static void solve_dim(Hole *h, const Expr *e, const Val *want) {
    Val at;
    if (want->kind != V_INT || want->i < 0 || evaluate(h->s, e->args[1], &at) != TN_OK || at.kind != V_INT) return;
    Slot *slot = h->slot;
    if (slot->rank >= 0 && at.i < 0) at.i += slot->rank;
    if (at.i >= 0 && at.i < TN_MAX_RANK) slot->dims[at.i] = want->i;
    else if (at.i < 0 && at.i >= -TN_MAX_RANK) slot->from_end[-at.i - 1] = want->i;
    h->found = true;
}

static void solve_property(Hole *h, const Expr *e, const Val *want) {
    Slot *slot = h->slot;
    if (is_call(e, "value")) solve_contents(h, want);
    if (is_call(e, "splat") && is_number(want)) {
        slot->fill = (Fill){.kind = FILL_NUMBER, .number = number_of(want)};
        slot->filled = slot->number = h->found = true;
    }
    if (is_call(e, "dim")) solve_dim(h, e, want);
    if (is_call(e, "rank") && want->kind == V_INT && want->i >= 0 && want->i <= TN_MAX_RANK) {
        slot->rank = (int)want->i;
        h->found = true;
    }
    if (is_call(e, "shape") && want->kind == V_INTS && want->n <= TN_MAX_RANK) {
        slot_set(slot, (int)want->n, want->ints);
        h->found = true;
    }
    if (is_call(e, "count") && want->kind == V_INT && want->i == 1) {
        static const int64_t ones[TN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
        slot_set(slot, (int)dice_int(&h->s->dice, 0, 2), ones);
        h->found = true;
    }
    if (is_call(e, "dtype") && want->kind == V_STRING) {
        tn_dtype dtype = dtype_from_name(want->s.s, want->s.n);
        int c = class_of(h->s, h->value);
        if (!h->s->class_dtype[c] && h->s->class_types[c] & TS(dtype)) h->s->class_dtype[c] = dtype;
        h->found = true;
    }
}

static void solve_inverse(Hole *h, const Expr *e, const Val *want) {
    int64_t *data;
    if (want->kind != V_INTS) return;
    for (size_t i = 0; i < want->n; i++)
        if (want->ints[i] < 0 || want->ints[i] >= (int64_t)want->n) return;
    Val turned = of_ints(h->s, want->n, &data);
    for (size_t i = 0; turned.kind == V_INTS && i < want->n; i++) data[want->ints[i]] = (int64_t)i;
    solve(h, e->args[0], &turned);
}

/* Axes may be written from the end. */
static void solve_axes(Hole *h, const Expr *e, const Val *want) {
    int64_t *data;
    Val rank;
    if (want->kind != V_INTS || evaluate(h->s, e->args[1], &rank) != TN_OK || rank.kind != V_INT) return;
    Val axes = of_ints(h->s, want->n, &data);
    bool negative = dice_chance(&h->s->dice, 50);
    for (size_t i = 0; axes.kind == V_INTS && i < want->n; i++) data[i] = want->ints[i] - (negative ? rank.i : 0);
    solve(h, e->args[0], &axes);
}

/* mod(axis, rank): it may be written from the end. */
static void solve_mod(Hole *h, const Expr *e, const Val *want) {
    Val rank;
    if (want->kind != V_INT || evaluate(h->s, e->args[1], &rank) != TN_OK || rank.kind != V_INT) return;
    Val axis = of_int(want->i - (dice_chance(&h->s->dice, 50) ? rank.i : 0));
    solve(h, e->args[0], &axis);
}

/* prod(shape(%x)) == 0, or of its tail: some size is 0. */
static void solve_nothing(Hole *h, const Expr *e, const Val *want) {
    const Expr *sizes = e->args[0];
    bool own = sizes->kind == EXPR_CALL && asks_value(sizes, 0) && sizes->args[0]->var == h->value;
    if (h->value < 0 || !own || !is_number(want) || number_of(want) != 0) return;
    if (!is_call(sizes, "shape") && !is_call(sizes, "tail")) return;
    h->slot->from_end[0] = 0;
    h->found = true;
}

static void solve_call(Hole *h, const Expr *e, const Val *want) {
    if (h->value >= 0 && asks_value(e, 0) && e->args[0]->var == h->value) solve_property(h, e, want);
    else if (is_call(e, "inverse")) solve_inverse(h, e, want);
    else if (is_call(e, "axes")) solve_axes(h, e, want);
    else if (is_call(e, "mod")) solve_mod(h, e, want);
    else if (is_call(e, "prod")) solve_nothing(h, e, want);
    else if (is_call(e, "or_else")) solve(h, e->args[0], want);
}

/* [2] + $x == [2, 3] */
static void solve_joined(Hole *h, const Expr *e, const Val *want, const Val *known, bool left) {
    if (want->n < known->n) return;
    Val rest = {.kind = V_INTS, .n = want->n - known->n, .ints = want->ints + (left ? 0 : known->n)};
    solve(h, e, &rest);
}

static void solve_sum(Hole *h, const Expr *e, const Val *want) {
    bool left = mentions(h, e->args[0]);
    const Expr *open = e->args[left ? 0 : 1];
    Val known, x;
    if (evaluate(h->s, e->args[left ? 1 : 0], &known) != TN_OK) return;
    if (e->op == '+' && want->kind == V_INTS && known.kind == V_INTS) {
        solve_joined(h, open, want, &known, left);
        return;
    }
    if (!is_number(want) || !is_number(&known)) return;
    double w = number_of(want), k = number_of(&known), r;
    switch (e->op) {
    case '+': r = w - k; break;
    case '-': r = left ? w + k : k - w; break;
    case '*': r = w / k; break;
    default: r = left ? w * k : k / w; break;
    }
    bool whole = want->kind != V_FLOAT && known.kind != V_FLOAT;
    if (!isfinite(r) || (whole && r != floor(r))) return;
    x = whole ? of_int((int64_t)r) : of_float(r);
    solve(h, open, &x);
}

/* Recursion is bounded by RULE_DEPTH. */
static void solve(Hole *h, const Expr *e, const Val *want) {
    if (want->kind == V_UNKNOWN) return;
    switch (e->kind) {
    case EXPR_VAR:
        if (e->var != h->var) return;
        h->val = *want;
        h->found = true;
        return;
    case EXPR_VALUE:
        if (e->var == h->value) solve_contents(h, want);
        return;
    case EXPR_NEGATE: {
        Val x = want->kind == V_FLOAT ? of_float(-want->f) : of_int(-want->i);
        if (is_number(want)) solve(h, e->args[0], &x);
        return;
    }
    case EXPR_LIST:
        for (size_t i = 0; is_list(want) && want->n == e->n && i < e->n; i++) {
            Val x = want->kind == V_INTS ? of_int(want->ints[i]) : of_float(want->floats[i]);
            if (mentions(h, e->args[i])) solve(h, e->args[i], &x);
        }
        return;
    case EXPR_CALL: solve_call(h, e, want); return;
    case EXPR_BINARY:
        if (strchr("+-*/", e->op)) solve_sum(h, e, want);
        return;
    default: return;
    }
}

/* ---- conditions that are aimed at ---------------------------------------------------------------------------- */

static void aim_at_member(Hole *h, const Expr *e) {
    const Expr *list = e->args[1];
    Val want;
    if (is_call(e->args[0], "dtype")) return; /* `want_dtype` has seen to it, and some types are better */
    if (list->kind == EXPR_LIST && list->n) {
        if (evaluate(h->s, list->args[dice_int(&h->s->dice, 0, (int64_t)list->n - 1)], &want) == TN_OK)
            solve(h, e->args[0], &want);
        return;
    }
    if (evaluate(h->s, list, &want) != TN_OK || want.kind != V_INTS || !want.n) return;
    want = of_int(want.ints[dice_int(&h->s->dice, 0, (int64_t)want.n - 1)]);
    solve(h, e->args[0], &want);
}

/* Sizes that are usual in this instance hang together with others more often. */
static bool aim_at_usual_size(Hole *h, const Expr *e, const Expr *open, const Val *bound) {
    Val usual = of_int(some_size(h->s));
    bool left = open == e->args[0], less = e->op == '<' || e->op == 'l', equal = e->op == 'l' || e->op == 'g';
    bool beyond = less == left ? usual.i < bound->i : usual.i > bound->i;
    if (!is_call(open, "dim") || bound->kind != V_INT || !(beyond || (equal && usual.i == bound->i))) return false;
    solve(h, open, &usual);
    return true;
}

static void aim_at_bound(Hole *h, const Expr *e) {
    bool left = mentions(h, e->args[0]);
    Val bound;
    if (evaluate(h->s, e->args[left ? 1 : 0], &bound) != TN_OK || !is_number(&bound)) return;
    if (dice_chance(&h->s->dice, 75) && aim_at_usual_size(h, e, e->args[left ? 0 : 1], &bound)) return;
    bool below = (e->op == '<' || e->op == 'l') == left;
    int64_t step = dice_int(&h->s->dice, e->op == '<' || e->op == '>' ? 1 : 0, 2), next;
    if (below) step = -step;
    if (__builtin_add_overflow(bound.i, step, &next)) next = bound.i; /* no number is beyond */
    Val want = bound.kind == V_FLOAT ? of_float(bound.f + 0.5 * (double)step) : of_int(next);
    solve(h, e->args[left ? 0 : 1], &want);
}

/* As large as what it broadcasts to, in some of the last dimensions. */
static void aim_at_tail(Hole *h, const Tensor *t) {
    Slot *slot = h->slot;
    int64_t n = slot->rank >= 0 && slot->rank < t->rank ? slot->rank : t->rank;
    if (slot->rank < 0) n = dice_int(&h->s->dice, 0, n);
    for (int k = 0; k < n; k++)
        if (slot->from_end[k] < 0 && !dice_chance(&h->s->dice, 20)) slot->from_end[k] = t->dims[t->rank - 1 - k];
}

static void aim_at_shape(Hole *h, const Expr *e) {
    bool same = is_call(e, "same_shape");
    if (e->n != 2 || !(same || is_call(e, "broadcasts")) || h->value < 0 || e->args[0]->var == e->args[1]->var) return;
    bool first = e->args[0]->var == h->value;
    int other = h->s->value_of[e->args[first ? 1 : 0]->var];
    if (other < 0 || (!same && !first)) return;
    const Tensor *t = &h->s->known[other];
    h->found = true;
    if (same) slot_set(h->slot, t->rank, t->dims);
    else h->slot->no_grow = true;
    if (!same && dice_chance(&h->s->dice, 35)) aim_at_tail(h, t);
}

static bool hint_mentions(const Hole *h, const Hint *hint) {
    return (h->value >= 0 && hint->values >> h->value & 1) || (h->var >= 0 && hint->vars >> h->var & 1);
}

static void aim(Hole *h, const Hint *hint) {
    const Expr *e = hint->e;
    if (!hint_mentions(h, hint)) return;
    if (e->kind == EXPR_CALL) {
        aim_at_shape(h, e);
        return;
    }
    if (e->kind != EXPR_BINARY) return;
    bool left = mentions(h, e->args[0]), right = mentions(h, e->args[1]);
    if (left && right) return;
    bool ready = guide_ready(h->s, e->args[left ? 1 : 0]);
    if (e->op == 'i' && left && ready) aim_at_member(h, e);
    else if (strchr("<>lg", e->op) && ready) aim_at_bound(h, e);
    Val want;
    if (e->op != '=' || !ready || evaluate(h->s, e->args[left ? 1 : 0], &want) != TN_OK) return;
    solve(h, e->args[left ? 0 : 1], &want);
}

bool guide_slot(Sampler *s, int value, Slot *slot) {
    Hole h = {.s = s, .var = -1, .value = value, .slot = slot};
    for (size_t i = 0; i < s->n_hints; i++) aim(&h, &s->hints[i]);
    for (int i = 0; slot->rank >= 0 && i < TN_MAX_RANK; i++)
        if (slot->from_end[i] >= 0 && slot->rank > i) slot->dims[slot->rank - 1 - i] = slot->from_end[i];
    return h.found;
}

bool guide_var(Sampler *s, int var, Val *out) {
    Hole h = {.s = s, .var = var, .value = -1};
    for (size_t i = 0; i < s->n_hints && !h.found; i++) aim(&h, &s->hints[i]);
    if (h.found) *out = h.val;
    return h.found;
}

/* is_product(%c, %a, %b) says what %c is, once the other two are there. */
static bool fill_product(Sampler *s, const Expr *e, Slot *slot) {
    int64_t n = slot->rank == 1 ? slot->dims[0] : 1;
    double *data = slot_shaped(slot) && slot->rank <= 1 ? arena_array(&s->arena, double, (size_t)n + 1) : NULL;
    for (int64_t i = 0; data && i < n; i++) data[i] = 1;
    for (size_t k = 1; data && k <= 2; k++) {
        int v = s->value_of[e->args[k]->var];
        const Tensor *t = v >= 0 ? &s->known[v] : NULL;
        bool fits = t && dtype_is_float(t->dtype) && (tensor_count(t) == 1 || tensor_count(t) == n);
        for (int64_t i = 0; fits && i < n; i++) {
            double x;
            load_f64(&x, t->dtype, t->data, tensor_count(t) == 1 ? 0 : i, 1, 1);
            data[i] *= x;
        }
        if (!fits) data = NULL;
    }
    if (!data) return false;
    slot->fill = (Fill){.kind = FILL_FLOATS, .n = (size_t)n, .floats = data};
    return slot->filled = true;
}

/* Numbers of a list or a tensor that is not known further. */
bool guide_fill(Sampler *s, int var, int value, Slot *slot) {
    for (size_t i = 0; i < s->n_hints; i++) {
        const Expr *e = s->hints[i].e, *list = e->n && e->kind == EXPR_BINARY ? e->args[0] : e;
        if (list->kind != EXPR_CALL || !list->n) continue;
        const Expr *arg = list->args[0];
        if (!(arg->kind == EXPR_VAR && arg->var == var) && !(arg->kind == EXPR_VALUE && arg->var == value)) continue;
        const Expr *bound = e == list ? list->args[list->n - 1] : e->args[1];
        int64_t number = bound->kind == EXPR_NUMBER ? bound->i : 0;
        bool above = e != list && (e->op == 'g' || e->op == '>');
        if (is_call(list, "is_product")) return fill_product(s, list, slot);
        if (is_call(list, "is_single")) return slot->number = true; /* not filled: such numbers are drawn */
        if (is_call(list, "repeats")) slot->fill = (Fill){.kind = FILL_HALVES};
        else if (is_call(list, "is_causal")) slot->fill = (Fill){.kind = FILL_TRIANGLE};
        else if (is_call(list, "is_power_of_two")) slot->fill = (Fill){.kind = FILL_SCALE};
        else if (is_call(list, "all") && e == list) slot->fill = (Fill){.kind = FILL_NUMBER, .number = (double)number};
        else if (is_call(list, "least") && above)
            slot->fill = (Fill){.kind = FILL_RANGE, .low = number + (e->op == '>'), .high = number + 3};
        else continue;
        return slot->filled = true;
    }
    return false;
}

bool guide_awaits(const Sampler *s, int value) {
    Hole h = {.var = -1, .value = value};
    for (size_t i = 0; i < s->n_hints; i++) {
        const Expr *e = s->hints[i].e;
        if (e->kind != EXPR_BINARY || e->op != '=' || !hint_mentions(&h, &s->hints[i])) continue;
        const Expr *other = e->args[mentions(&h, e->args[0])];
        if (!mentions(&h, other) && !guide_ready(s, other)) return true;
    }
    return false;
}

static int open_var(const Sampler *s, const Expr *e) {
    if (e->kind == EXPR_VAR && !s->match.var_bound[e->var]) return e->var;
    for (size_t i = 0; i < e->n; i++) {
        int var = open_var(s, e->args[i]);
        if (var >= 0) return var;
    }
    return -1;
}

bool guide_bind(Sampler *s, const Expr *e, const Val *want) {
    for (int var; (var = open_var(s, e)) >= 0;) {
        Hole h = {.s = s, .var = var, .value = -1};
        solve(&h, e, want);
        if (!h.found) return false;
        s->match.vars[var] = h.val;
        s->match.var_bound[var] = true;
    }
    return true;
}

bool guide_holds(Sampler *s) {
    for (size_t i = 0; i < s->n_tests; i++) {
        Val v;
        if (!guide_ready(s, s->tests[i]) || is_call(s->tests[i], "one_use")) continue; /* readers come later */
        if (evaluate(s, s->tests[i], &v) != TN_OK) return false;
        if (v.kind != V_BOOL || v.i) continue;
        s->unmet = s->tests[i];
        return false;
    }
    return true;
}
