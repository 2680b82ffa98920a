/* SPDX-License-Identifier: Apache-2.0 */
/* Rules by the op of their root, and those of them that the ops around a node let through. A node meets only rules that
   begin with its op, and of those mostly the ones that fit, however many there are. */
#include "rewrite/index_int.h"

static Slot *slot_of(const Matcher *m, const OpSchema *op) {
    size_t mask = m->n_slots - 1, i = (((uintptr_t)op >> 5) * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (m->slots[i].op && m->slots[i].op != op) i = (i + 1) & mask;
    return &m->slots[i];
}

/* What const(...) says, also of what `and` joins, and comparisons of splat(...), which is unknown of others. Recursion is
   bounded by RULE_DEPTH. */
static uint64_t constant_by(const Expr *e) {
    uint64_t bits = 0;
    if (e->kind == EXPR_BINARY && e->op == '&') return constant_by(e->args[0]) | constant_by(e->args[1]);
    if (e->kind == EXPR_BINARY && strchr("=!<>lgi", e->op)) {
        const Expr *left = e->args[0];
        bool splat = left->kind == EXPR_CALL && function_is_splat(left->function);
        return splat ? (uint64_t)1 << left->args[0]->var : 0;
    }
    if (e->kind != EXPR_CALL || !function_is_const(e->function)) return 0;
    for (size_t i = 0; i < e->n; i++) bits |= (uint64_t)1 << e->args[i]->var;
    return bits;
}

static uint64_t constant_in(const Rule *rule) {
    uint64_t bits = 0;
    for (size_t i = 0; i < rule->n_where; i++) bits |= constant_by(rule->where[i]);
    return bits;
}

static tn_status add_entry(Matcher *m, Entry ***last, const Rule *rule) {
    Entry *e = arena_new(&m->arena, Entry);
    if (!e) return TN_OUT_OF_MEMORY;
    e->rule = rule;
    e->constant = constant_in(rule);
    if (rule->depth > m->depth) m->depth = rule->depth;
    **last = e;
    *last = &e->next;
    return TN_OK;
}

static tn_status fill(Matcher *m, Slot *slot) {
    OpSet op = {{0}};
    Entry **last = &slot->first;
    slot->first = NULL;
    opset_add(&op, str_of(slot->op->name));
    for (size_t i = 0; i < m->n_rules; i++) {
        const Rule *rule = m->rules[i];
        if (!opset_within(&op, &rule->roots) || (m->choosy && !opset_within(&rule->needs, &m->met))) continue;
        TRY(rule_read(rule));
        if (rule_begins_at(rule, slot->op)) TRY(add_entry(m, &last, rule));
    }
    slot->age = m->age;
    return TN_OK;
}

static tn_status prepare(Matcher *m, const Rule *const *rules, size_t n) {
    size_t n_ops;
    op_table(&n_ops);
    for (m->n_slots = 16; m->n_slots < 2 * n_ops + 2;) m->n_slots *= 2;
    m->slots = arena_array(&m->arena, Slot, m->n_slots);
    m->rules = arena_array(&m->arena, const Rule *, n + 1);
    if (!m->slots || !m->rules) return TN_OUT_OF_MEMORY;
    memcpy(m->rules, rules, n * sizeof *rules);
    m->n_rules = n;
    m->age = 1;
    m->depth = RULES_REACH;
    return TN_OK;
}

tn_status matcher_new(const Allocator *allocator, const Rule *const *rules, size_t n, Matcher **out) {
    Matcher *m = mem_alloc(allocator, sizeof *m, alignof(Matcher));
    if (!m) return TN_OUT_OF_MEMORY;
    arena_init(&m->arena, allocator);
    tn_status status = prepare(m, rules, n);
    if (status == TN_OK) *out = m;
    else matcher_free(m);
    return status;
}

void matcher_free(Matcher *m) {
    if (!m) return;
    const Allocator *a = m->arena.allocator;
    arena_free(&m->arena);
    mem_free(a, m, sizeof *m);
}

tn_status matcher_rules(Matcher *m, const OpSchema *op, const Entry **first) {
    Slot *slot = slot_of(m, op);
    slot->op = op;
    if (slot->age != m->age) TRY(fill(m, slot));
    *first = slot->first;
    return TN_OK;
}

void matcher_meet(Matcher *m, const OpSchema *op) {
    OpSet one = {{0}};
    if (!m->choosy) return;
    opset_add(&one, str_of(op->name));
    if (opset_within(&one, &m->met)) return;
    opset_add(&m->met, str_of(op->name));
    m->age++;
}

/* ---- shortlists ---------------------------------------------------------------------------------------------- */

static uintptr_t made_by(const Varying *varying, const Node *node, uint32_t i) {
    const Value *v = i < node->n_operands ? node->operands[i].value : NULL;
    uintptr_t op = v && v->def ? (uintptr_t)v->def->op : 0;
    return op | (value_varies(varying->data, varying->len, v) ? VARIES : 0);
}

static void look_around(const Varying *varying, const Node *root, Surroundings *out) {
    memset(out, 0, sizeof *out);
    out->ops[0] = (uintptr_t)root->op;
    for (uint32_t i = 0; i < AROUND && i < root->n_operands; i++) {
        const Value *v = root->operands[i].value;
        out->ops[OF_OPERANDS + i] = made_by(varying, root, i);
        for (uint32_t k = 0; v && v->def && k < ABOVE; k++)
            out->ops[OF_ABOVE + i * ABOVE + k] = made_by(varying, v->def, k);
    }
}

/* Rotations are fast, and there are few surroundings. */
static size_t place_of(const Surroundings *x) {
    uint64_t h = 0;
    for (size_t i = 0; i < ALL_AROUND; i++) h = (h << 11 | h >> 53) ^ x->ops[i];
    return (h * 0x9E3779B97F4A7C15u >> 32) % SHORTLISTS;
}

static const OpSchema *op_of(uintptr_t around) { return (const OpSchema *)(around & ~(uintptr_t)VARIES); }

static bool is_among(const RuleNode *node, const OpSchema *op) {
    for (size_t i = 0; i < node->n_ops; i++)
        if (node->ops[i] == op) return true;
    return false;
}

static bool is_const(const OpSchema *op) { return op->domain && strcmp(op->name, "Const") == 0; }

/* Whether what is there may be that operand. */
static bool operand_may_be(const Entry *e, const RuleOperand *o, uintptr_t around) {
    const OpSchema *op = op_of(around);
    bool value = o->kind == OPERAND_VALUE;
    if (value && around & VARIES && e->constant >> o->value & 1) return false;
    if (o->optional) return true;
    if (o->kind == OPERAND_EXPR) return op && is_const(op);
    int def = value ? e->rule->value_node[o->value] : -1;
    return def < 0 || (op && is_among(&e->rule->match[def], op));
}

/* The same of a node's operands in one order, so far as they are known. */
static bool operands_may_be(const Entry *e, const RuleNode *node, const uintptr_t *around, size_t n, bool swap) {
    for (size_t i = 0; i < node->n_operands && i < n; i++)
        if (!operand_may_be(e, &node->operands[i], around[swap ? 1 - i : i])) return false;
    return true;
}

static bool may_swap(const RuleNode *node, const OpSchema *op) {
    return op->flags & OP_COMMUTATIVE && node->n_operands == 2;
}

static bool node_may_be(const Entry *e, const RuleNode *node, const OpSchema *op, const uintptr_t *above) {
    return operands_may_be(e, node, above, ABOVE, false) ||
           (may_swap(node, op) && operands_may_be(e, node, above, ABOVE, true));
}

static bool root_may_be(const Entry *e, const Surroundings *x, bool swap) {
    const Rule *rule = e->rule;
    const RuleNode *root = &rule->match[rule->n_match - 1];
    if (!operands_may_be(e, root, x->ops + OF_OPERANDS, AROUND, swap)) return false;
    for (size_t i = 0; i < root->n_operands && i < AROUND; i++) {
        const RuleOperand *o = &root->operands[i];
        size_t at = swap ? 1 - i : i;
        int def = o->kind == OPERAND_VALUE && !o->optional ? rule->value_node[o->value] : -1;
        if (def < 0) continue;
        const OpSchema *op = op_of(x->ops[OF_OPERANDS + at]);
        if (!node_may_be(e, &rule->match[def], op, x->ops + OF_ABOVE + at * ABOVE)) return false;
    }
    return true;
}

static bool may_match_around(const Entry *e, const Surroundings *x) {
    return root_may_be(e, x, false) ||
           (may_swap(&e->rule->match[e->rule->n_match - 1], op_of(x->ops[0])) && root_may_be(e, x, true));
}

static void shortlists_reset(Shortlists *s) {
    memset(s->lists, 0, sizeof s->lists);
    arena_reset(&s->arena);
}

static tn_status shortlist_make(Shortlists *s, const Entry *first, Shortlist *list) {
    enum { MOST_BYTES = 1 << 20 };
    if (s->arena.used > MOST_BYTES) {
        Surroundings key = list->key;
        shortlists_reset(s);
        list->key = key;
    }
    size_t n = 0;
    for (const Entry *e = first; e; e = e->next) n += may_match_around(e, &list->key);
    const Rule **rules = arena_array(&s->arena, const Rule *, n + 1);
    if (!rules) return TN_OUT_OF_MEMORY;
    n = 0;
    for (const Entry *e = first; e; e = e->next)
        if (may_match_around(e, &list->key)) rules[n++] = e->rule;
    rules[n] = NULL;
    list->rules = rules;
    return TN_OK;
}

tn_status shortlist_find(Shortlists *s, Matcher *m, const Varying *varying, const Node *root,
                         const Rule *const **rules) {
    static const Rule *const none[] = {NULL};
    const Entry *first;
    Surroundings key;
    *rules = none;
    if (s->age != m->age) shortlists_reset(s);
    s->age = m->age;
    TRY(matcher_rules(m, root->op, &first));
    if (!first) return TN_OK;
    look_around(varying, root, &key);
    Shortlist *list = &s->lists[place_of(&key)];
    if (!list->rules || memcmp(&list->key, &key, sizeof key) != 0) {
        list->key = key;
        list->rules = NULL;
        TRY(shortlist_make(s, first, list));
    }
    *rules = list->rules;
    return TN_OK;
}
