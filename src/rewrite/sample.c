/* SPDX-License-Identifier: Apache-2.0 */
/* Draws instances of a rule's left side: node by node, operands first, each tried out at once on the reference kernels.
   What does not fit, or breaks a condition that can be asked by then, is drawn anew; what still fails after some turns
   ends the instance. */
#include "rewrite/prove_int.h"

#include <stdio.h>

enum { TURNS = 20 }; /* for one node */

/* What a node that is drawn may have to give back. */
typedef struct Mark {
    int n_values, n_leaves, n_pieces;
    int value_of[RULE_VALUES];
    tn_dtype class_dtype[2 * RULE_VALUES];
    bool bound[RULE_VALUES], var_bound[RULE_VARS];
} Mark;

static void set_mark(const Sampler *s, Mark *m) {
    const Instance *x = s->instance;
    *m = (Mark){.n_values = x->n_values, .n_leaves = x->n_leaves, .n_pieces = x->n_pieces};
    memcpy(m->value_of, s->value_of, sizeof m->value_of);
    memcpy(m->class_dtype, s->class_dtype, sizeof m->class_dtype);
    memcpy(m->bound, s->match.bound, sizeof m->bound);
    memcpy(m->var_bound, s->match.var_bound, sizeof m->var_bound);
}

static void drop_values(Sampler *s, int from) {
    Instance *x = s->instance;
    for (int v = from; v < x->n_values; v++)
        if (x->values[v].piece >= 0) tensor_release(&s->known[v]);
}

static void back_to(Sampler *s, const Mark *m) {
    Instance *x = s->instance;
    drop_values(s, m->n_values);
    for (int i = m->n_leaves; i < x->n_leaves; i++) tensor_release(&x->leaves[i].data);
    x->n_values = m->n_values;
    x->n_leaves = m->n_leaves;
    x->n_pieces = m->n_pieces;
    memcpy(s->value_of, m->value_of, sizeof m->value_of);
    memcpy(s->class_dtype, m->class_dtype, sizeof m->class_dtype);
    memcpy(s->match.bound, m->bound, sizeof m->bound);
    memcpy(s->match.var_bound, m->var_bound, sizeof m->var_bound);
}

static bool grave(Sampler *s, tn_status status) {
    if (status == TN_OUT_OF_MEMORY) s->failed = status;
    return status != TN_OK;
}

/* What the kernel or inference says is kept for the case that nothing ever fits. */
static bool refused(Sampler *s, const OpSchema *op, tn_status status) {
    if (!grave(s, status)) return false;
    s->unmet = NULL;
    snprintf(s->problem, sizeof s->problem, "%s: %s", op->name, diag_text());
    if (s->failed == TN_OK) diag_clear();
    return true;
}

static void bind_value(Sampler *s, int rule_value, int value) {
    s->value_of[rule_value] = value;
    s->match.bound[rule_value] = true;
    s->match.values[rule_value] = value >= 0 ? s->tried[value] : NULL;
}

static void bind_var(Sampler *s, int var, const Val *val) {
    s->match.var_bound[var] = true;
    s->match.vars[var] = *val;
}

/* ---- slots --------------------------------------------------------------------------------------------------- */

static Slot open_slot(const RuleOperand *o, const OperandSpec *spec) {
    Slot slot = {.state = SLOT_FREE, .operand = o, .spec = spec, .value = -1, .rank = -1};
    memset(slot.dims, -1, sizeof slot.dims);
    memset(slot.from_end, -1, sizeof slot.from_end);
    return slot;
}

static void know_slot(const Sampler *s, Slot *slot, int value) {
    const Tensor *t = &s->known[value];
    slot->state = SLOT_KNOWN;
    slot->value = value;
    slot->dtype = t->dtype;
    slot_set(slot, t->rank, t->dims);
}

static bool is_there(Sampler *s, const RuleOperand *o) {
    int8_t want = s->wants[o->value].present;
    return !o->optional || (want >= 0 ? want : dice_chance(&s->dice, 60));
}

static void value_slot(Ask *a, Slot *slot) {
    Sampler *s = a->s;
    int v = slot->operand->value;
    if (s->value_of[v] >= 0) know_slot(s, slot, s->value_of[v]);
    if (s->value_of[v] != UNBORN || (s->value_of[v] == UNBORN && !is_there(s, slot->operand))) {
        if (s->value_of[v] < 0) slot->state = SLOT_ABSENT;
        if (s->value_of[v] == UNBORN) bind_value(s, v, ABSENT);
        return;
    }
    guide_slot(s, v, slot);
    slot->dtype = guide_dtype(s, v);
    for (int i = 0; i < a->n_in; i++) /* the same value twice: the first is drawn */
        if (a->in[i].operand && a->in[i].operand->kind == OPERAND_VALUE && a->in[i].operand->value == v)
            slot->state = SLOT_ABSENT;
}

static void fill_from_val(Slot *slot, const Val *v) {
    slot->filled = true;
    if (v->kind == V_INTS) slot->fill = (Fill){.kind = FILL_INTS, .n = v->n, .ints = v->ints};
    else if (v->kind == V_FLOATS) slot->fill = (Fill){.kind = FILL_FLOATS, .n = v->n, .floats = v->floats};
    else slot->fill = (Fill){.kind = FILL_NUMBER, .number = v->kind == V_FLOAT ? v->f : (double)v->i};
    if (v->kind == V_INTS || v->kind == V_FLOATS) slot_set(slot, 1, &(int64_t){(int64_t)v->n});
}

static bool is_literal(const Expr *e) {
    return e->kind == EXPR_NUMBER || (e->kind == EXPR_NEGATE && e->args[0]->kind == EXPR_NUMBER);
}

/* A number of the rule may be any tensor that is this number all over; what a variable is bound to is a number or a list. */
static bool constant_slot(Ask *a, Slot *slot) {
    Sampler *s = a->s;
    const Expr *e = slot->operand->expr;
    Val v = {.kind = V_NONE};
    if (slot->operand->optional && dice_chance(&s->dice, 35)) {
        slot->state = SLOT_ABSENT;
        if (e->kind == EXPR_VAR && !s->match.var_bound[e->var]) bind_var(s, e->var, &v);
        return true;
    }
    bool ready = guide_ready(s, e), guessed = !ready && e->kind == EXPR_VAR && guide_var(s, e->var, &v);
    if (ready && expr_eval(e, &s->match, &v) != TN_OK) return false;
    slot->number = slot->no_grow = is_literal(e);
    if (v.kind == V_UNKNOWN) return false;
    if (v.kind != V_NONE) fill_from_val(slot, &v);
    else if (ready || guessed) slot->state = SLOT_ABSENT;
    if (is_literal(e)) return true;
    bool list = slot->filled && slot->fill.kind != FILL_NUMBER;
    if (!list && !slot->spec) return false;
    if (!list && a->op->flags & OP_ELEMENTWISE) {
        slot->number = true;
        slot->rank = dice_chance(&s->dice, 75) ? 0 : 1;
        if (slot->rank == 1 && dice_chance(&s->dice, 50)) slot->dims[0] = 1;
    }
    if (slot->filled && !list && slot->rank < 0) slot->rank = 0;
    return true;
}

/* Of alternatives some may have fewer operands. */
static bool leave_out(Ask *a, const RuleOperand *o) {
    static const Val none = {.kind = V_NONE};
    Sampler *s = a->s;
    if (!o || !o->optional) return o && o->kind == OPERAND_NOTHING;
    if (o->kind == OPERAND_VALUE && s->value_of[o->value] == UNBORN) bind_value(s, o->value, ABSENT);
    if (o->kind == OPERAND_VALUE) return s->value_of[o->value] == ABSENT;
    if (o->expr->kind == EXPR_VAR && !s->match.var_bound[o->expr->var]) bind_var(s, o->expr->var, &none);
    return true;
}

static bool push_slot(Ask *a, const RuleOperand *o, const OperandSpec *spec) {
    if (!spec) return leave_out(a, o);
    if (a->n_in == OP_MAX_INPUTS) return false;
    Slot slot = open_slot(o, spec);
    if (o && o->kind == OPERAND_NOTHING) slot.state = SLOT_ABSENT;
    if (o && o->kind == OPERAND_VALUE) value_slot(a, &slot);
    if (o && o->kind == OPERAND_EXPR && !constant_slot(a, &slot)) return false;
    a->in[a->n_in++] = slot;
    return true;
}

static bool push_rest(Ask *a, const RuleOperand *o) {
    int64_t n = dice_int(&a->s->dice, a->n_in == 0, 2);
    while (n-- > 0)
        if (!push_slot(a, NULL, op_input_spec(a->op, (size_t)a->n_in))) return false;
    a->s->match.bound[o->value] = true;
    a->s->value_of[o->value] = ABSENT;
    return true;
}

/* Numbers and rests have the element type of their group. */
static tn_dtype slot_dtype(Ask *a, const Slot *slot) {
    TypeSet types = slot->spec->types;
    for (int i = 0; slot->spec->group && i < a->n_in; i++)
        if (a->in[i].dtype && a->in[i].spec->group == slot->spec->group) return a->in[i].dtype;
    if (slot->fill.kind == FILL_INTS && types & TS(TN_I64) && !(types & TS(a->s->real) && slot->spec->group))
        return TN_I64;
    if (types & TS(a->s->real)) return a->s->real;
    static const tn_dtype order[] = {TN_F64, TN_F32, TN_I64, TN_I32, TN_U8, TN_I8, TN_BOOL};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (types & TS(order[i])) return order[i];
    return TN_UNDEFINED;
}

static bool draw_slots(Ask *a) {
    for (size_t i = 0; i < a->rule->n_operands; i++) {
        const RuleOperand *o = &a->rule->operands[i];
        if (o->kind == OPERAND_REST ? !push_rest(a, o) : !push_slot(a, o, op_input_spec(a->op, i))) return false;
    }
    for (int i = 0; i < a->n_in; i++) {
        if (a->in[i].state == SLOT_FREE && !a->in[i].dtype) a->in[i].dtype = slot_dtype(a, &a->in[i]);
        if (a->in[i].state == SLOT_FREE && !a->in[i].dtype) return false;
    }
    return true;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static const RuleAttr *rule_attr(const RuleNode *node, const char *name) {
    for (size_t i = 0; i < node->n_attrs; i++)
        if (str_equal(node->attrs[i].name, str_of(name))) return &node->attrs[i];
    return NULL;
}

static bool is_preset(const AttrSpec *spec, const Attr *attr) {
    if (spec->flags & ATTR_REQUIRED || attr->kind != spec->kind) return false;
    if (attr->kind == ATTR_INT) return attr->i == spec->i;
    return attr->kind == ATTR_FLOAT && (double)attr->f == (double)(float)spec->f;
}

static bool give_attr(Ask *a, const AttrSpec *spec, const Val *v) {
    Attr attr;
    bool ok;
    if (v->kind == V_UNKNOWN) return false;
    if (grave(a->s, attr_of_val(a->op, str_of(spec->name), v, &a->s->arena, &attr, &ok)) || !ok) return false;
    if (!attr.name.n || (is_preset(spec, &attr) && dice_chance(&a->s->dice, 50))) return true;
    return !grave(a->s, ask_set(a, &attr));
}

static bool given_attr(Ask *a, int i, const RuleAttr *given) {
    Sampler *s = a->s;
    const AttrSpec *spec = &op_attrs(a->op)[i];
    const Expr *e = given->expr;
    Val v;
    if (e && guide_ready(s, e)) return !grave(s, expr_eval(e, &s->match, &v)) && give_attr(a, spec, &v);
    if (e && e->kind == EXPR_VAR && guide_var(s, e->var, &v)) {
        bind_var(s, e->var, &v);
        return give_attr(a, spec, &v);
    }
    bool needed = !e || spec->flags & ATTR_REQUIRED || e->kind != EXPR_VAR;
    if (needed || dice_chance(&s->dice, 75)) a->open |= 1u << i;
    return true;
}

static bool begin_attrs(Ask *a) {
    for (int i = 0; i < INSTANCE_ATTRS && op_attrs(a->op)[i].name; i++) {
        const AttrSpec *spec = &op_attrs(a->op)[i];
        const RuleAttr *given = rule_attr(a->rule, spec->name);
        if (given && !given_attr(a, i, given)) return false;
        if (given) continue;
        if (spec->flags & ATTR_REQUIRED || (a->rule->all_attrs && dice_chance(&a->s->dice, 75))) a->open |= 1u << i;
    }
    return true;
}

/* What conditions say of attributes that are open, now that operands are there. */
static bool guess_attrs(Ask *a) {
    for (int i = 0; i < INSTANCE_ATTRS && op_attrs(a->op)[i].name; i++) {
        const RuleAttr *given = rule_attr(a->rule, op_attrs(a->op)[i].name);
        const Expr *e = given ? given->expr : NULL;
        Val v;
        if (!(a->open >> i & 1) || !e || e->kind != EXPR_VAR || !guide_var(a->s, e->var, &v)) continue;
        a->open &= ~(1u << i);
        bind_var(a->s, e->var, &v);
        if (!give_attr(a, &op_attrs(a->op)[i], &v)) return false;
    }
    return true;
}

/* $variables are bound to what was drawn. */
static bool bind_attrs(Ask *a, const Node *node) {
    for (size_t i = 0; i < a->rule->n_attrs; i++) {
        const RuleAttr *given = &a->rule->attrs[i];
        Val v;
        if (!given->expr || guide_ready(a->s, given->expr)) continue;
        if (grave(a->s, val_of_attr(node, given->name, &a->s->arena, &v)) || !guide_bind(a->s, given->expr, &v))
            return false;
    }
    return true;
}

/* ---- leaves -------------------------------------------------------------------------------------------------- */

static int new_value(Sampler *s, int leaf, int piece, Str name) {
    Instance *x = s->instance;
    if (x->n_values == INSTANCE_VALUES) return -1;
    x->values[x->n_values].leaf = leaf;
    x->values[x->n_values].piece = piece;
    x->values[x->n_values].name = name;
    s->known[x->n_values] = (Tensor){0};
    s->tried[x->n_values] = NULL;
    return x->n_values++;
}

static bool is_constant(const Ask *a, int i) {
    const Slot *slot = &a->in[i];
    if (slot->operand && slot->operand->kind == OPERAND_EXPR) return true;
    int8_t want = slot->operand && slot->operand->kind == OPERAND_VALUE ? a->s->wants[slot->operand->value].constant
                                                                        : -1;
    if (want >= 0) return want;
    return dice_chance(&a->s->dice, a->op->content_inputs >> i & 1 ? 85 : i > 0 ? 40 : 15);
}

static void name_sizes(Sampler *s, Leaf *leaf) {
    leaf->no_shape = dice_chance(&s->dice, 4);
    for (int k = 0; k < leaf->data.rank; k++) {
        int64_t d = leaf->data.dims[k];
        if (!dice_chance(&s->dice, 60)) continue;
        bool unique = dice_chance(&s->dice, 30) || d > 98;
        leaf->symbol[k] = (uint8_t)(unique ? dice_int(&s->dice, 100, 250) : d + 1);
    }
}

/* A symbol stands for one size: the same number is not given twice. */
static void keep_symbols_apart(const Instance *x, Leaf *leaf) {
    for (int k = 0; k < leaf->data.rank; k++) {
        bool taken = false;
        for (int i = 0; i < x->n_leaves; i++)
            for (int j = 0; j < x->leaves[i].data.rank; j++)
                taken |= (&x->leaves[i] != leaf || j != k) && x->leaves[i].symbol[j] == leaf->symbol[k];
        if (leaf->symbol[k] >= 100 && taken) leaf->symbol[k] = 0;
    }
}

static tn_status try_leaf(Sampler *s, const Leaf *leaf, Value **out) {
    Tensor *payload;
    Node *node;
    Shape shape = shape_make(leaf->data.rank, leaf->data.dims);
    const Type *type = type_tensor(s->model, leaf->data.dtype, &shape);
    if (!type) return TN_OUT_OF_MEMORY;
    if (!leaf->constant) return graph_add_input(s->graph, (Str){NULL, 0}, type, out);
    TRY(model_tensor(s->model, &payload));
    *payload = leaf->data;
    buffer_ref(payload->buffer);
    TRY(const_new(s->graph, payload, (Str){NULL, 0}, &node));
    node_append(node);
    *out = node->results[0];
    return TN_OK;
}

/* A value that is there already and would do: rules must bear it. */
static int same_kind(const Ask *a, const Slot *slot, bool constant) {
    const Sampler *s = a->s;
    for (int v = 0; v < s->instance->n_values; v++) {
        const Tensor *t = &s->known[v];
        int leaf = s->instance->values[v].leaf;
        bool is_const = leaf >= 0 && s->instance->leaves[leaf].constant;
        if (t->dtype != slot->dtype || t->rank != slot->rank || is_const != constant) continue;
        if (memcmp(t->dims, slot->dims, (size_t)t->rank * sizeof *t->dims) == 0) return v;
    }
    return -1;
}

static int make_leaf(Ask *a, int i) {
    Sampler *s = a->s;
    Instance *x = s->instance;
    Slot *slot = &a->in[i];
    bool named = slot->operand && slot->operand->kind == OPERAND_VALUE, constant = is_constant(a, i);
    if (named && !slot->filled && dice_chance(&s->dice, s->knobs.plain ? 0 : 5)) {
        int v = same_kind(a, slot, constant);
        if (v >= 0) return v;
    }
    Leaf *leaf = &x->leaves[x->n_leaves];
    *leaf = (Leaf){.constant = constant};
    if (grave(s, leaf_data(s, slot, &leaf->data))) return -1;
    x->n_leaves++;
    if (!constant && s->symbols) name_sizes(s, leaf);
    keep_symbols_apart(x, leaf);
    int v = new_value(s, x->n_leaves - 1, -1, named ? s->rule->values[slot->operand->value] : STR(""));
    if (v < 0) return -1;
    s->known[v] = leaf->data;
    return grave(s, try_leaf(s, leaf, &s->tried[v])) ? -1 : v;
}

/* The constant that a $variable stands for. */
static bool bind_constant(Ask *a, const Slot *slot, int value) {
    Sampler *s = a->s;
    Val v;
    if (slot->operand->kind != OPERAND_EXPR || guide_ready(s, slot->operand->expr)) return true;
    if (grave(s, val_of_constant(&s->known[value], &s->arena, &v))) return false;
    return guide_bind(s, slot->operand->expr, &v);
}

/* What the conditions say may be known only now that other operands are there. */
static void guess_constant(Ask *a, Slot *slot) {
    const Expr *e = slot->operand && slot->operand->kind == OPERAND_EXPR ? slot->operand->expr : NULL;
    Val v;
    if (slot->filled || !slot->operand) return;
    if (slot->operand->kind == OPERAND_VALUE) guide_fill(a->s, -1, slot->operand->value, slot);
    if (!e || e->kind != EXPR_VAR) return;
    if (guide_var(a->s, e->var, &v) && v.kind != V_NONE) fill_from_val(slot, &v);
    else if (slot_shaped(slot)) guide_fill(a->s, e->var, -1, slot);
}

static bool give_leaf(Ask *a, int i) {
    Slot *slot = &a->in[i];
    guess_constant(a, slot);
    if (!ask_contents(a, i)) return false;
    int v = make_leaf(a, i);
    if (v < 0) return false;
    slot->value = v;
    if (!slot->operand) return true;
    if (slot->operand->kind == OPERAND_VALUE) bind_value(a->s, slot->operand->value, v);
    return bind_constant(a, slot, v);
}

/* First those that are just numbers, so that conditions on them can be asked. */
static bool make_leaves(Ask *a, bool parts) {
    for (int i = 0; i < a->n_in; i++)
        if (slot_open(a, i) && a->in[i].value < 0 && (parts || (slot_shaped(&a->in[i]) && !has_part(a, i))) &&
            !give_leaf(a, i))
            return false;
    return true;
}

static void read_operands(const Ask *a, Piece *piece) {
    for (int i = 0; i < a->n_in; i++) {
        const Slot *slot = &a->in[i];
        bool named = slot->operand && slot->operand->kind == OPERAND_VALUE;
        int v = named ? a->s->value_of[slot->operand->value] : slot->value;
        piece->in[i] = v < 0 ? -1 : v;
    }
    piece->n_in = a->n_in;
    while (piece->n_in > 0 && piece->in[piece->n_in - 1] < 0) piece->n_in--;
}

/* ---- one node ------------------------------------------------------------------------------------------------ */

static const Shape *known_shape(const Sampler *s, int value, Shape *shape) {
    *shape = shape_make(s->known[value].rank, s->known[value].dims);
    return shape;
}

/* The shape that what reads a value would like it to be of: that of the value beside it. Recursion is bounded by depth. */
static const Shape *wanted_shape(const Sampler *s, int v, int depth, Shape *shape) {
    for (size_t k = 0; depth < 8 && k < s->rule->n_match; k++) {
        const RuleNode *node = &s->rule->match[k];
        bool reads = false;
        int beside = -1;
        if (s->done[k] || !(s->ops[k]->flags & OP_ELEMENTWISE)) continue;
        for (size_t i = 0; i < node->n_operands; i++) {
            const RuleOperand *o = &node->operands[i];
            if (o->kind != OPERAND_VALUE) continue;
            if (o->value == v) reads = true;
            else if (s->value_of[o->value] >= 0) beside = s->value_of[o->value];
        }
        if (!reads) continue;
        if (beside >= 0) return known_shape(s, beside, shape);
        if (node->n_operands == 1 && node->results[0] >= 0) return wanted_shape(s, node->results[0], depth + 1, shape);
    }
    return NULL;
}

/* Conditions may say what a result is to be. */
static void want_result(Ask *a) {
    int v = a->rule->results[0];
    Shape shape;
    if (v < 0) return;
    const Shape *want = wanted_shape(a->s, v, 0, &shape);
    a->ranks = a->s->wants[v].ranks;
    a->aim = open_slot(NULL, NULL);
    if (guide_slot(a->s, v, &a->aim) && slot_shaped(&a->aim)) {
        shape = shape_make(a->aim.rank, a->aim.dims);
        want = &shape;
    }
    a->wanted = want != NULL;
    if (want) a->want = *want;
    if (!want && a->aim.rank >= 0) a->ranks = 1u << a->aim.rank;
}

static tn_status run_piece(Sampler *s, const Piece *piece, Node *node) {
    const Tensor *in[OP_MAX_INPUTS];
    Tensor out[OP_MAX_OUTPUTS];
    for (int i = 0; i < piece->n_in; i++) in[i] = piece->in[i] < 0 ? NULL : &s->known[piece->in[i]];
    arena_reset(&s->scratch);
    TRY(eval_node(s->ctx, &s->scratch, node, in, out));
    for (int i = 0; i < piece->n_out; i++) s->known[piece->out + i] = out[i];
    for (int i = 0; i < piece->n_out; i++) {
        Shape shape = shape_make(out[i].rank, out[i].dims);
        const Type *type = type_tensor(s->model, out[i].dtype, &shape);
        if (!type) return TN_OUT_OF_MEMORY;
        value_set_type(node->results[i], type);
        s->tried[piece->out + i] = node->results[i];
        if (out[i].kind != TYPE_TENSOR) return fail(TN_UNSUPPORTED, "the result is no tensor");
    }
    return TN_OK;
}

static tn_status try_piece(Sampler *s, const Piece *piece, Node **node) {
    Value *in[OP_MAX_INPUTS];
    for (int i = 0; i < piece->n_in; i++) in[i] = piece->in[i] < 0 ? NULL : s->tried[piece->in[i]];
    TRY(node_new(s->graph, piece->op, in, (size_t)piece->n_in, (size_t)piece->n_out, node));
    for (size_t i = 0; i < piece->n_attrs; i++) TRY(node_set_attr(*node, &piece->attrs[i]));
    node_append(*node);
    TRY(node_check(*node));
    return run_piece(s, piece, *node);
}

static void swap_operands(Ask *a, Piece *piece) {
    if (!(a->op->flags & OP_COMMUTATIVE) || piece->n_in != 2 || !dice_chance(&a->s->dice, 40)) return;
    int t = piece->in[0];
    piece->in[0] = piece->in[1];
    piece->in[1] = t;
}

/* Of the rule's values; -1: it has no name for it. */
static int result_of(const Ask *a, int i) { return (size_t)i < a->rule->n_results ? a->rule->results[i] : -1; }

/* Some ops have as many results as there are readers: a rule may name only the first of them. */
static int count_results(Ask *a) {
    size_t n = a->rule->n_results;
    const OperandSpec *more = op_output_spec(a->op, n);
    return (int)n + (more && more->flags & OPERAND_VARIADIC && dice_chance(&a->s->dice, 15));
}

static bool add_results(Ask *a, Piece *piece) {
    Sampler *s = a->s;
    piece->out = s->instance->n_values;
    piece->n_out = a->n_out;
    for (int i = 0; i < a->n_out; i++) {
        int named = result_of(a, i);
        if (new_value(s, -1, s->instance->n_pieces - 1, named < 0 ? STR("") : s->rule->values[named]) < 0) return false;
    }
    return true;
}

static bool finish_node(Ask *a) {
    Sampler *s = a->s;
    Instance *x = s->instance;
    if (x->n_pieces == INSTANCE_NODES) return false;
    Piece *piece = &x->pieces[x->n_pieces];
    *piece = (Piece){.op = a->op, .n_attrs = a->n_attrs};
    memcpy(piece->attrs, a->attrs, sizeof a->attrs);
    read_operands(a, piece);
    swap_operands(a, piece);
    x->n_pieces++;
    Node *node;
    if (!add_results(a, piece) || refused(s, a->op, try_piece(s, piece, &node))) return false;
    for (int i = 0; i < a->n_out; i++)
        if (result_of(a, i) >= 0) bind_value(s, result_of(a, i), piece->out + i);
    return bind_attrs(a, node) && guide_holds(s);
}

static bool draw_node(Sampler *s, int k) {
    static const Ask blank;
    Ask *a = s->ask;
    *a = blank;
    a->s = s;
    a->node = k;
    a->rule = &s->rule->match[k];
    a->op = s->ops[k];
    a->n_out = count_results(a);
    want_result(a);
    s->problem[0] = 0;
    s->unmet = NULL;
    if (!draw_slots(a) || !begin_attrs(a)) return false;
    static const char *const early[] = {"transA", "transB"};
    for (size_t i = 0; i < sizeof early / sizeof *early; i++)
        if (!ask_draw_attr(a, early[i])) return false;
    if (!ask_shapes(a) || !make_leaves(a, false) || !guess_attrs(a)) return false;
    want_result(a); /* conditions may say more, now that operands are there */
    return ask_draw_attrs(a) && make_leaves(a, true) && finish_node(a);
}

static bool draw_node_in_turns(Sampler *s, int k) {
    Mark mark;
    set_mark(s, &mark);
    for (int turn = 0; turn < TURNS && s->failed == TN_OK; turn++) {
        if (draw_node(s, k)) {
            s->done[k] = true;
            return true;
        }
        back_to(s, &mark);
    }
    if (!s->unmet && !s->problem[0])
        snprintf(s->problem, sizeof s->problem, "no operands or attributes of %s were found that fit", s->ops[k]->name);
    return false;
}

/* ---- an instance --------------------------------------------------------------------------------------------- */

static void choose_modes(Sampler *s) {
    static const int64_t common[] = {1, 2, 3, 4, 5, 6};
    Dice *dice = &s->dice;
    int64_t fit = 0;
    while (fit < 6 && common[fit] <= s->knobs.max_size) fit++;
    s->n_sizes = (int)dice_int(dice, 1, 3);
    for (int i = 0; i < s->n_sizes; i++) s->sizes[i] = common[dice_int(dice, i == 0 && fit > 1, fit - 1)];
    if (dice_chance(dice, s->knobs.plain ? 0 : 9)) s->sizes[s->n_sizes - 1] = 0;
    int64_t roll = dice_int(dice, 0, 99);
    s->magnitude = roll < 62 ? NORMAL : roll < 70 ? SMALL : roll < 80 ? LARGE : roll < 88 ? ALL_EQUAL : MANY_ZEROS;
    s->positive = dice_chance(dice, 35);
    s->instance->odd = !s->knobs.plain && dice_chance(dice, 8);
    s->symbols = !s->knobs.plain && dice_chance(dice, 40);
    if (s->symbols && dice_chance(dice, 50)) s->sizes[0] = 1; /* that a size is 1 is what one may not know */
    s->real = dice_chance(dice, s->prefer_f32 ? 50 : 5) ? TN_F32 : TN_F64;
    s->mixed = !s->knobs.plain && dice_chance(&(Dice){~dice->state}, 8);
    /* Means of equal numbers are exact then: no noise that a norm would blow up. */
    s->coarse = s->magnitude == ALL_EQUAL || dice_chance(dice, s->real == TN_F32 ? 75 : 15);
}

static void choose_ops(Sampler *s) {
    const Rule *r = s->rule;
    for (size_t k = 0; k < r->n_match; k++) {
        const RuleNode *node = &r->match[k];
        size_t n = node->n_ops, at = (size_t)dice_int(&s->dice, 0, (int64_t)n - 1);
        if (dice_chance(&s->dice, 60)) at = (size_t)s->turn % n;
        s->ops[k] = node->ops[at];
        if (node->op_var < 0) continue;
        if (s->match.ops[node->op_var]) s->ops[k] = s->match.ops[node->op_var];
        s->match.ops[node->op_var] = s->ops[k];
    }
}

static bool is_ready(const Sampler *s, const RuleNode *node) {
    for (size_t i = 0; i < node->n_operands; i++) {
        const RuleOperand *o = &node->operands[i];
        if (o->kind != OPERAND_VALUE) continue;
        int def = s->rule->value_node[o->value];
        if (def >= 0 && !s->done[def]) return false;
    }
    return true;
}

/* Whether contents that are drawn for it decide a size that others are going to decide. */
static bool should_wait(const Sampler *s, size_t k) {
    const RuleNode *node = &s->rule->match[k];
    return s->ops[k]->content_inputs && node->results[0] >= 0 && guide_awaits(s, node->results[0]);
}

/* Any of the nodes whose operands are there. */
static int next_node(Sampler *s) {
    int ready[RULE_NODES];
    int64_t n = 0, n_waiting = 0;
    bool hasty = dice_chance(&s->dice, 15);
    for (size_t k = 0; k < s->rule->n_match; k++)
        if (!s->done[k] && is_ready(s, &s->rule->match[k])) ready[n++] = (int)k;
    for (int64_t i = 0; i < n; i++) { /* those that should wait behind the others */
        if (hasty || !should_wait(s, (size_t)ready[i])) continue;
        int k = ready[i];
        ready[i--] = ready[--n];
        ready[n] = k;
        n_waiting++;
    }
    int64_t choice = n ? n : n_waiting;
    return choice ? ready[dice_int(&s->dice, 0, choice - 1)] : -1;
}

static bool wants_one_use(const Sampler *s, int value) {
    for (size_t v = 0; v < s->rule->n_values; v++)
        if (s->value_of[v] == value && s->wants[v].one_use) return true;
    return false;
}

/* What nobody reads is an output, and now and then so is what somebody does. */
static void choose_outputs(Sampler *s) {
    Instance *x = s->instance;
    bool read[INSTANCE_VALUES] = {0};
    for (int i = 0; i < x->n_pieces; i++)
        for (int k = 0; k < x->pieces[i].n_in; k++)
            if (x->pieces[i].in[k] >= 0) read[x->pieces[i].in[k]] = true;
    bool lonely = s->knobs.plain || dice_chance(&s->dice, 60);
    for (int v = 0; v < x->n_values; v++) {
        bool made = x->values[v].piece >= 0, free = made && read[v] && !lonely && !wants_one_use(s, v);
        x->output[v] = made && (!read[v] || (free && dice_chance(&s->dice, 25)));
        x->reread[v] = free && dice_chance(&s->dice, 20);
    }
    for (size_t v = 0; v < s->rule->n_values; v++) /* all that is replaced is to be looked at */
        if (s->rule->replaced[v] >= 0 && s->value_of[v] >= 0 && !s->wants[v].one_use) x->output[s->value_of[v]] = true;
}

static tn_status begin(Sampler *s, uint64_t seed, Knobs knobs) {
    s->dice = (Dice){seed};
    s->knobs = knobs;
    s->unmet = NULL;
    s->problem[0] = 0;
    s->failed = TN_OK;
    memset(s->done, 0, sizeof s->done);
    memset(s->match.bound, 0, sizeof s->match.bound);
    memset(s->match.var_bound, 0, sizeof s->match.var_bound);
    memset(s->match.ops, 0, sizeof s->match.ops);
    for (size_t v = 0; v < RULE_VALUES; v++) s->value_of[v] = UNBORN;
    s->instance = arena_new(&s->arena, Instance);
    s->ask = arena_new(&s->arena, Ask);
    if (!s->instance || !s->ask) return TN_OUT_OF_MEMORY;
    TRY(model_new(s->ctx, &s->model));
    TRY(graph_new(s->model, NULL, STR("tried"), &s->graph));
    s->model->main = s->graph;
    choose_modes(s);
    choose_ops(s);
    guide_begin(s);
    s->instance->constants_first = dice_chance(&s->dice, 50);
    return s->failed;
}

static void end_last(Sampler *s) {
    if (s->instance) {
        drop_values(s, 0);
        instance_free(s->instance);
    }
    s->instance = NULL;
    model_free(s->model);
    s->model = NULL;
    arena_reset(&s->arena);
}

tn_status sampler_draw(Sampler *s, uint64_t seed, Knobs knobs, bool *drawn) {
    *drawn = false;
    end_last(s);
    TRY(begin(s, seed, knobs));
    s->turn++;
    for (size_t i = 0; i < s->rule->n_match; i++) {
        int k = next_node(s);
        if (k < 0 || !draw_node_in_turns(s, k)) return s->failed;
        if (k == (int)s->rule->n_match - 1) s->instance->root = s->instance->n_pieces - 1;
    }
    choose_outputs(s);
    *drawn = true;
    return s->failed;
}

/* What would grow large is refused before it is computed. */
enum { MAX_BYTES = 1 << 16 };

tn_status sampler_init(Sampler *s, Context *ctx, const Rule *rule) {
    memset(s, 0, sizeof *s);
    s->rule = rule;
    arena_init(&s->arena, &ctx->allocator);
    arena_init(&s->scratch, &ctx->allocator);
    s->match.rule = rule;
    s->match.arena = &s->arena;
    return context_new(&ctx->allocator, &(tn_limits){.max_bytes = MAX_BYTES}, &s->ctx);
}

void sampler_free(Sampler *s) {
    end_last(s);
    arena_free(&s->arena);
    arena_free(&s->scratch);
    context_unref(s->ctx);
}
