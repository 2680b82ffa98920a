/* SPDX-License-Identifier: Apache-2.0 */
/* Matching one rule at one node. The order of steps is found when the rule is read: from the root down through operands,
   then to nodes that only share an operand with what is matched. A step that may go several ways tries them in turn, and
   what was bound since is undone by the trail. */
#include "rewrite/rewrite_int.h"

typedef enum StepKind {
    STEP_SWAP,    /* the two operands of a commutative op, in the order of the rule or the other */
    STEP_NODE,    /* op, number of operands */
    STEP_ATTRS,   /* attributes, when the ops and operands around fit: to look them up takes longest */
    STEP_OPERAND, /* one operand */
    STEP_USER     /* a node that reads what is bound already: any of them */
} StepKind;
typedef struct Step {
    StepKind kind;
    int node, operand;
} Step;

/* ---- planning ------------------------------------------------------------------------------------------------ */

enum { MAX_STEPS = RULE_NODES * 9 };

typedef struct Planning {
    Rule *rule;
    Step steps[MAX_STEPS];
    size_t n;
    bool seen[RULE_NODES];
    bool bound[RULE_VALUES];
    bool at_once;            /* operands are computed from attributes */
    int waiting[RULE_NODES]; /* nodes of which the attributes are still to be matched */
    size_t n_waiting;
} Planning;

static tn_status add_step(Planning *p, StepKind kind, int node, int operand) {
    if (p->n == MAX_STEPS) return fail(TN_INVALID_ARGUMENT, "the left side has too many operands");
    p->steps[p->n++] = (Step){kind, node, operand};
    return TN_OK;
}

static bool is_commutative(const RuleNode *node) {
    for (size_t i = 0; i < node->n_ops; i++)
        if (node->ops[i]->flags & OP_COMMUTATIVE) return node->n_operands == 2;
    return false;
}

/* Whether an operand takes what is there as it is, or compares it with what the rule says. Recursion is bounded by
   RULE_DEPTH. */
static bool is_plain(const Expr *e) {
    if (e->kind == EXPR_NEGATE) return e->args[0]->kind == EXPR_NUMBER;
    for (size_t i = 0; e->kind == EXPR_LIST && i < e->n; i++)
        if (!is_plain(e->args[i])) return false;
    return e->kind == EXPR_LIST || e->kind == EXPR_VAR || e->kind == EXPR_NUMBER || e->kind == EXPR_STRING;
}

static bool computes_operands(const Rule *rule) {
    for (size_t k = 0; k < rule->n_match; k++)
        for (size_t i = 0; i < rule->match[k].n_operands; i++)
            if (rule->match[k].operands[i].kind == OPERAND_EXPR && !is_plain(rule->match[k].operands[i].expr))
                return true;
    return false;
}

static tn_status plan_attrs(Planning *p) {
    for (size_t i = 0; i < p->n_waiting; i++) TRY(add_step(p, STEP_ATTRS, p->waiting[i], 0));
    p->n_waiting = 0;
    return TN_OK;
}

/* Recursion is bounded by RULE_NODES. */
static tn_status plan_node(Planning *p, int k, size_t depth) {
    const RuleNode *node = &p->rule->match[k];
    p->seen[k] = true;
    if (depth > p->rule->depth) p->rule->depth = depth;
    for (size_t i = 0; i < node->n_results; i++)
        if (node->results[i] >= 0) p->bound[node->results[i]] = true;
    TRY(add_step(p, STEP_NODE, k, 0));
    p->waiting[p->n_waiting++] = k;
    if (p->at_once) TRY(plan_attrs(p));
    if (is_commutative(node)) TRY(add_step(p, STEP_SWAP, k, 0));
    for (size_t i = 0; i < node->n_operands; i++) {
        const RuleOperand *o = &node->operands[i];
        TRY(add_step(p, STEP_OPERAND, k, (int)i));
        if (o->kind != OPERAND_VALUE) continue;
        p->bound[o->value] = true;
        int def = p->rule->value_node[o->value];
        if (def >= 0 && !p->seen[def]) TRY(plan_node(p, def, depth + 1));
    }
    return TN_OK;
}

/* An operand of a node not reached yet that is bound: through it the node is found. */
static bool shared_operand(const Planning *p, int *node, int *operand) {
    for (size_t k = 0; k < p->rule->n_match; k++)
        for (size_t i = 0; !p->seen[k] && i < p->rule->match[k].n_operands; i++) {
            const RuleOperand *o = &p->rule->match[k].operands[i];
            if (o->kind != OPERAND_VALUE || !p->bound[o->value]) continue;
            *node = (int)k;
            *operand = (int)i;
            return true;
        }
    return false;
}

tn_status rule_plan(RuleSet *set, Rule *rule) {
    Planning p = {.rule = rule, .at_once = computes_operands(rule)};
    int node, operand;
    TRY(plan_node(&p, (int)rule->n_match - 1, 1));
    TRY(plan_attrs(&p));
    while (shared_operand(&p, &node, &operand)) {
        rule->joint = true;
        TRY(add_step(&p, STEP_USER, node, operand));
        TRY(plan_node(&p, node, rule->depth));
        TRY(plan_attrs(&p));
    }
    for (size_t k = 0; k < rule->n_match; k++)
        if (!p.seen[k])
            return fail(TN_INVALID_ARGUMENT, "%s on the left side has nothing to do with the last node there",
                        rule->match[k].ops[0]->name);
    rule->steps = arena_array(&set->arena, Step, p.n);
    if (!rule->steps) return TN_OUT_OF_MEMORY;
    memcpy(rule->steps, p.steps, p.n * sizeof *p.steps);
    rule->n_steps = p.n;
    return TN_OK;
}

/* ---- binding ------------------------------------------------------------------------------------------------- */

enum { TRAIL_VARS = RULE_VALUES, TRAIL_OPS = TRAIL_VARS + RULE_VARS, TRAIL_END = TRAIL_OPS + RULE_OPS };

typedef struct Matching {
    Match *m;
    Graph *graph;
    bool swapped[RULE_NODES];
    uint8_t trail[TRAIL_END];
    size_t n_trail;
} Matching;

static void undo(Matching *x, size_t to) {
    while (x->n_trail > to) {
        int what = x->trail[--x->n_trail];
        if (what < TRAIL_VARS) x->m->bound[what] = false;
        else if (what < TRAIL_OPS) x->m->var_bound[what - TRAIL_VARS] = false;
        else x->m->ops[what - TRAIL_OPS] = NULL;
    }
}

static bool is_same(const Matching *x, const Value *a, const Value *b) {
    if (a == b) return true;
    const Classes *c = x->m->classes;
    return c && a && b && value_class(c, a) == value_class(c, b);
}

static bool bind_value(Matching *x, int index, Value *value) {
    if (x->m->bound[index]) return is_same(x, x->m->values[index], value);
    x->m->bound[index] = true;
    x->m->values[index] = value;
    x->trail[x->n_trail++] = (uint8_t)index;
    return true;
}

static bool bind_var(Matching *x, int index, const Val *val) {
    if (val->kind == V_UNKNOWN) return false;
    if (x->m->var_bound[index]) return val_equal(&x->m->vars[index], val);
    x->m->var_bound[index] = true;
    x->m->vars[index] = *val;
    x->trail[x->n_trail++] = (uint8_t)(TRAIL_VARS + index);
    return true;
}

static bool bind_op(Matching *x, int index, const OpSchema *op) {
    if (index < 0) return true;
    if (x->m->ops[index]) return x->m->ops[index] == op;
    x->m->ops[index] = op;
    x->trail[x->n_trail++] = (uint8_t)(TRAIL_OPS + index);
    return true;
}

/* What stands on the left against what is there: a variable takes it, a list is taken apart, all else must be equal. */
static tn_status match_val(Matching *x, const Expr *e, const Val *have, bool *ok) {
    bool ints = have->kind == V_INTS, list = e->kind == EXPR_LIST && (ints || have->kind == V_FLOATS);
    Val want;
    if (e->kind == EXPR_VAR) {
        *ok = bind_var(x, e->var, have);
        return TN_OK;
    }
    *ok = !list || e->n == have->n;
    for (size_t i = 0; list && i < e->n && *ok; i++) {
        Val each = {.kind = ints ? V_INT : V_FLOAT, .dtype = have->dtype};
        if (ints) each.i = have->ints[i];
        else each.f = have->floats[i];
        TRY(match_val(x, e->args[i], &each, ok));
    }
    if (list || !*ok) return TN_OK;
    TRY(expr_eval(e, x->m, &want));
    *ok = have->kind != V_UNKNOWN && val_equal(have, &want);
    return TN_OK;
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

static bool has_op(const RuleNode *node, const OpSchema *op) {
    for (size_t i = 0; i < node->n_ops; i++)
        if (node->ops[i] == op) return true;
    return false;
}

static const RuleAttr *rule_attr(const RuleNode *node, Str name) {
    for (size_t i = 0; i < node->n_attrs; i++)
        if (str_equal(node->attrs[i].name, name)) return &node->attrs[i];
    return NULL;
}

/* Attributes that the rule does not name are as if absent, unless it says `*`. */
static tn_status others_are_presets(Matching *x, const RuleNode *node, const Node *n, bool *ok) {
    for (uint32_t i = 0; i < n->n_attrs && *ok; i++) {
        Val have, preset;
        if (rule_attr(node, n->attrs[i].name)) continue;
        TRY(val_of_attr(n, n->attrs[i].name, x->m->arena, &have));
        const AttrSpec *spec = op_attr_spec(n->op, n->attrs[i].name);
        Node bare = {.op = n->op};
        preset.kind = V_UNKNOWN;
        if (spec) TRY(val_of_attr(&bare, n->attrs[i].name, x->m->arena, &preset));
        *ok = have.kind != V_ATTR && val_equal(&have, &preset);
    }
    return TN_OK;
}

static tn_status match_attrs(Matching *x, int k, bool *ok) {
    const RuleNode *node = &x->m->rule->match[k];
    const Node *n = x->m->nodes[k];
    for (size_t i = 0; i < node->n_attrs && *ok; i++) {
        const RuleAttr *a = &node->attrs[i];
        Val have;
        TRY(val_of_attr(n, a->name, x->m->arena, &have));
        if (!a->expr) *ok = have.kind != V_NONE;
        else TRY(match_val(x, a->expr, &have, ok));
    }
    return node->all_attrs || !*ok ? TN_OK : others_are_presets(x, node, n, ok);
}

/* Operands beyond those of the rule must be absent. */
static bool match_count(const RuleNode *node, const Node *n) {
    bool rest = node->n_operands && node->operands[node->n_operands - 1].kind == OPERAND_REST;
    for (size_t i = node->n_operands; i < n->n_operands && !rest; i++)
        if (n->operands[i].value) return false;
    return true;
}

static bool match_node(Matching *x, int k) {
    const RuleNode *node = &x->m->rule->match[k];
    Node *n = x->m->nodes[k];
    bool ok = n && n->graph == x->graph && has_op(node, n->op) && match_count(node, n) &&
              bind_op(x, node->op_var, n->op);
    for (size_t i = 0; i < node->n_results && ok; i++)
        if (node->results[i] >= 0) ok = i < n->n_results && bind_value(x, node->results[i], n->results[i]);
    return ok;
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

static bool has_dim(const Value *v, int from_end, int64_t size) {
    const Shape *s = v && v->type->kind == TYPE_TENSOR ? &v->type->shape : NULL;
    return s && s->rank > from_end && (size == 1 || s->dims[s->rank - 1 - from_end] == size);
}

/* Whether a number, which may be a tensor of that number, makes the result larger than the other operands would: then it is
   more than a number. */
static bool widens(const Node *n, size_t at) {
    const Tensor *t = value_payload(n->operands[at].value);
    bool wide = false;
    for (int k = 0; n->op->flags & OP_ELEMENTWISE && k < t->rank; k++) {
        bool there = n->n_operands == 1;
        for (size_t i = 0; i < n->n_operands; i++)
            there |= i != at && has_dim(n->operands[i].value, k, t->dims[t->rank - 1 - k]);
        wide |= !there;
    }
    return wide;
}

static tn_status match_constant(Matching *x, const RuleOperand *o, const Node *n, size_t at, bool *ok) {
    Value *value = node_operand(n, at);
    Val have = {.kind = V_NONE};
    const Tensor *t = value_constant(value);
    *ok = value ? t != NULL : o->optional;
    if (!*ok) return TN_OK;
    bool negative = o->expr->kind == EXPR_NEGATE && o->expr->args[0]->kind == EXPR_NUMBER;
    if (t && (negative || o->expr->kind == EXPR_NUMBER)) {
        Expr number = negative ? *o->expr->args[0] : *o->expr;
        if (negative) number.i = -number.i, number.f = -number.f;
        *ok = constant_is(t, &number) && !widens(n, at);
        return TN_OK;
    }
    if (t) TRY(val_of_constant(t, x->m->arena, &have));
    return !t && o->expr->kind != EXPR_VAR ? TN_OK /* optional and absent */ : match_val(x, o->expr, &have, ok);
}

static bool match_rest(Matching *x, const RuleOperand *o, Node *n, uint32_t from) {
    if (x->m->bound[o->value]) return false;
    x->m->bound[o->value] = true;
    x->m->values[o->value] = NULL;
    x->m->rest_node[o->value] = n;
    x->m->rest_from[o->value] = from;
    x->trail[x->n_trail++] = (uint8_t)o->value;
    return true;
}

/* The value is a result of a node of the rule: its definition is that node. */
static bool match_made(Matching *x, int value_index, Value *value) {
    int k = x->m->rule->value_node[value_index];
    const RuleNode *made = &x->m->rule->match[k];
    if (!value || !value->def || value->index >= made->n_results || made->results[value->index] != value_index)
        return false;
    if (x->m->bound[value_index]) return is_same(x, x->m->values[value_index], value);
    x->m->nodes[k] = value->def;
    return bind_value(x, value_index, value);
}

static tn_status match_operand(Matching *x, int k, int i, bool *ok) {
    const RuleNode *node = &x->m->rule->match[k];
    const RuleOperand *o = &node->operands[i];
    Node *n = x->m->nodes[k];
    size_t at = x->swapped[k] ? 1 - (size_t)i : (size_t)i;
    Value *value = node_operand(n, at);
    switch (o->kind) {
    case OPERAND_NOTHING: *ok = value == NULL; return TN_OK;
    case OPERAND_REST: *ok = match_rest(x, o, n, (uint32_t)at); return TN_OK;
    case OPERAND_EXPR: return match_constant(x, o, n, at, ok);
    default: break;
    }
    if (!value) *ok = o->optional && bind_value(x, o->value, NULL);
    else if (x->m->rule->value_node[o->value] >= 0) *ok = match_made(x, o->value, value);
    else *ok = bind_value(x, o->value, value);
    return TN_OK;
}

/* ---- the search ---------------------------------------------------------------------------------------------- */

static tn_status solve(Matching *x, size_t step, bool *ok);

static tn_status try_swap(Matching *x, size_t step, int k, bool *ok) {
    size_t mark = x->n_trail;
    x->swapped[k] = false;
    TRY(solve(x, step + 1, ok));
    if (*ok || !(x->m->nodes[k]->op->flags & OP_COMMUTATIVE) || x->m->nodes[k]->n_operands != 2) return TN_OK;
    undo(x, mark);
    x->swapped[k] = true;
    TRY(solve(x, step + 1, ok));
    if (!*ok) x->swapped[k] = false;
    return TN_OK;
}

/* What is equal to the operand, and made by a node that may be of the rule: any of them. */
static tn_status try_equals(Matching *x, size_t step, const Step *s, bool *ok) {
    const Classes *c = x->m->classes;
    const RuleOperand *o = &x->m->rule->match[s->node].operands[s->operand];
    size_t mark = x->n_trail;
    Value *operand = node_operand(x->m->nodes[s->node],
                                  x->swapped[s->node] ? 1 - (size_t)s->operand : (size_t)s->operand);
    *ok = false;
    if (!operand) return TN_OK;
    uint32_t first = operand->id, id = first;
    do {
        undo(x, mark);
        *ok = match_made(x, o->value, c->values[id]);
        if (*ok) TRY(solve(x, step + 1, ok));
        id = c->next[id];
    } while (!*ok && id != first);
    return TN_OK;
}

static bool may_be_equals(const Matching *x, const Step *s) {
    const RuleOperand *o = &x->m->rule->match[s->node].operands[s->operand];
    return x->m->classes && s->kind == STEP_OPERAND && o->kind == OPERAND_VALUE &&
           x->m->rule->value_node[o->value] >= 0 && !x->m->bound[o->value];
}

/* Products that are to be one, say, are alike: they read one value in one place. Where all matches are wanted, each set of such
   nodes is one of them, whatever their order. */
static bool is_out_of_order(const Matching *x, const Step *s, const Node *user) {
    const Rule *r = x->m->rule;
    const RuleNode *node = &r->match[s->node];
    for (size_t k = 0; x->m->each && r->level >= RULE_VARIES && k < r->n_match; k++) {
        const RuleNode *other = &r->match[k];
        bool alike = (int)k != s->node && x->m->nodes[k] && other->ops[0] == node->ops[0] &&
                     (size_t)s->operand < other->n_operands && other->operands[s->operand].kind == OPERAND_VALUE &&
                     other->operands[s->operand].value == node->operands[s->operand].value;
        if (alike && ((int)k > s->node) != (x->m->nodes[k]->id > user->id)) return true;
    }
    return false;
}

/* Readers of a value that everybody reads are not all tried. */
enum { MAX_USERS = 64 };

static tn_status try_users(Matching *x, size_t step, const Step *s, bool *ok) {
    const RuleOperand *o = &x->m->rule->match[s->node].operands[s->operand];
    Node *users[MAX_USERS];
    size_t n = 0, mark = x->n_trail;
    *ok = false;
    if (!x->m->values[o->value]) return TN_OK;
    for (const Use *u = x->m->values[o->value]->uses; u && n < MAX_USERS; u = u->next) {
        bool taken = false;
        for (size_t k = 0; k < x->m->rule->n_match; k++) taken |= x->m->nodes[k] == u->user;
        if (!taken && u->user->graph == x->graph && !is_out_of_order(x, s, u->user)) users[n++] = u->user;
    }
    for (size_t i = n; i-- > 0 && !*ok;) { /* use lists run backwards: the first reader first */
        undo(x, mark);
        x->m->nodes[s->node] = users[i];
        TRY(solve(x, step + 1, ok));
        if (!*ok) x->m->nodes[s->node] = NULL;
    }
    return TN_OK;
}

static tn_status check_where(Matching *x, bool *ok) {
    const Rule *r = x->m->rule;
    *ok = true;
    for (size_t i = 0; i < r->n_where && *ok; i++) {
        Val v;
        TRY(expr_eval(r->where[i], x->m, &v));
        *ok = v.kind == V_BOOL && v.i;
    }
    return TN_OK;
}

/* Recursion is bounded by the steps that choose. */
static tn_status solve(Matching *x, size_t step, bool *ok) {
    const Rule *r = x->m->rule;
    *ok = !x->m->each || x->m->budget > 0;
    if (x->m->each && *ok) x->m->budget--;
    for (; step < r->n_steps && *ok; step++) {
        const Step *s = &r->steps[step];
        if (s->kind == STEP_SWAP) return try_swap(x, step, s->node, ok);
        if (s->kind == STEP_USER) return try_users(x, step, s, ok);
        if (may_be_equals(x, s)) return try_equals(x, step, s, ok);
        if (s->kind == STEP_NODE) *ok = match_node(x, s->node);
        else if (s->kind == STEP_ATTRS) TRY(match_attrs(x, s->node, ok));
        else TRY(match_operand(x, s->node, s->operand, ok));
    }
    if (*ok) TRY(check_where(x, ok));
    if (!*ok || !x->m->each) return TN_OK;
    *ok = false; /* go on to the next */
    return x->m->each(x->m->user, x->m);
}

tn_status rule_match(const Rule *rule, Node *root, Arena *arena, Match *m, bool *matched) {
    m->rule = rule;
    m->arena = arena;
    memset(m->nodes, 0, rule->n_match * sizeof *m->nodes);
    memset(m->bound, 0, sizeof m->bound);
    memset(m->var_bound, 0, sizeof m->var_bound);
    memset(m->ops, 0, sizeof m->ops);
    m->nodes[rule->n_match - 1] = root;
    Matching x = {.m = m, .graph = root->graph};
    return solve(&x, 0, matched);
}
