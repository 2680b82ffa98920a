/* SPDX-License-Identifier: Apache-2.0 */
/* Rules by the op of their root, and those of them that the ops around a node let through. A node meets only rules that
   begin with its op, and of those mostly the ones that fit, however many there are. */
#include "rewrite/index_int.h"

static IndexSlot *slot_of(const Matcher *m, const OpSchema *op) {
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

enum { ANY_RANK = 0xFFFF };

/* Ranks for which a comparison with numbers holds. */
static uint16_t ranks_by(char op, const Expr *with) {
    uint16_t ranks = 0;
    bool list = op == 'i' && with->kind == EXPR_LIST;
    for (size_t i = 0; list && i < with->n; i++) ranks |= ranks_by('=', with->args[i]);
    if (list) return ranks;
    if (op == 'i' || with->kind != EXPR_NUMBER || with->is_float) return ANY_RANK;
    for (int64_t r = 0; r <= TN_MAX_RANK; r++) {
        bool in = op == '='   ? r == with->i
                  : op == '!' ? r != with->i
                  : op == '<' ? r < with->i
                  : op == '>' ? r > with->i
                  : op == 'l' ? r <= with->i
                              : r >= with->i;
        if (in) ranks |= (uint16_t)(1u << r);
    }
    return ranks;
}

/* What rank(%x) is compared with, also in what `and` joins. Recursion is bounded by RULE_DEPTH. */
static void ask_ranks(const Expr *e, uint16_t *ranks, bool *any) {
    if (e->kind != EXPR_BINARY) return;
    const Expr *left = e->args[0];
    if (e->op == '&') {
        ask_ranks(left, ranks, any);
        ask_ranks(e->args[1], ranks, any);
    } else if (strchr("=!<>lgi", e->op) && left->kind == EXPR_CALL && function_is_rank(left->function)) {
        ranks[left->args[0]->var] &= ranks_by(e->op, e->args[1]);
        *any = true;
    }
}

static tn_status find_ranks(Matcher *m, const Rule *rule, Entry *e) {
    bool any = false;
    uint16_t *ranks = arena_array(&m->arena, uint16_t, rule->n_values + 1);
    if (!ranks) return TN_OUT_OF_MEMORY;
    for (size_t v = 0; v < rule->n_values; v++) ranks[v] = ANY_RANK;
    for (size_t i = 0; i < rule->n_where; i++) ask_ranks(rule->where[i], ranks, &any);
    if (any) e->ranks = ranks;
    return TN_OK;
}

static tn_status add_entry(Matcher *m, Entry ***last, const Rule *rule) {
    Entry *e = arena_new(&m->arena, Entry);
    if (!e) return TN_OUT_OF_MEMORY;
    e->rule = rule;
    e->constant = constant_in(rule);
    TRY(find_ranks(m, rule, e));
    if (rule->depth > m->depth) m->depth = rule->depth;
    **last = e;
    *last = &e->next;
    return TN_OK;
}

static tn_status fill(Matcher *m, IndexSlot *slot) {
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
    m->slots = arena_array(&m->arena, IndexSlot, m->n_slots);
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
    IndexSlot *slot = slot_of(m, op);
    slot->op = op;
    if (slot->age != m->age) TRY(fill(m, slot));
    *first = slot->first;
    return TN_OK;
}

void matcher_meet(Matcher *m, const OpSchema *op) {
    OpSet one = {{0}};
    IndexSlot *slot = m->choosy ? slot_of(m, op) : NULL;
    if (!slot || slot->met) return;
    slot->op = op;
    slot->met = true;
    opset_add(&one, str_of(op->name));
    if (opset_within(&one, &m->met)) return;
    opset_add(&m->met, str_of(op->name));
    m->age++;
}

/* ---- shortlists ---------------------------------------------------------------------------------------------- */

static inline uintptr_t made_by(const Varying *varying, const Node *node, uint32_t i) {
    const Value *v = i < node->n_operands ? node->operands[i].value : NULL;
    uintptr_t op = v && v->def ? (uintptr_t)v->def->op : 0;
    return op | (value_varies(varying->data, varying->len, v) ? VARIES : 0);
}

static void look_around(const Varying *varying, const Node *root, Surroundings *out) {
    out->ops[0] = (uintptr_t)root->op;
    for (uint32_t i = 0; i < AROUND; i++) out->ops[OF_OPERANDS + i] = made_by(varying, root, i);
    out->n = OF_ABOVE;
    out->ranks = UINT64_MAX;
}

static uint64_t rank_bits(const Node *node, uint32_t i) {
    const Value *v = i < node->n_operands ? node->operands[i].value : NULL;
    return v && v->type->kind == TYPE_TENSOR ? (uint64_t)(v->type->shape.rank + 1) : 0;
}

/* More of it: above the operands that are asked for, which have makers, or no rule would ask. */
static void look_further(const Varying *varying, const Node *root, uint32_t wanted, Surroundings *out) {
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < AROUND; i++) {
        const Node *maker = wanted >> i & 1 ? root->operands[i].value->def : NULL;
        uint32_t place = AROUND + i * ABOVE;
        ranks |= rank_bits(root, i) << RANK_BITS * i;
        for (uint32_t k = 0; maker && k < ABOVE; k++) {
            out->ops[out->n++] = made_by(varying, maker, k);
            ranks |= rank_bits(maker, k) << RANK_BITS * (place + k);
        }
    }
    if (wanted & RANKS) out->ranks = ranks;
}

/* Rotations are fast, and there are few surroundings. */
static size_t place_of(const Surroundings *x) {
    uint64_t h = x->n ^ x->ranks;
    for (size_t i = 0; i < x->n; i++) h = (h << 11 | h >> 53) ^ x->ops[i];
    return (h * 0x9E3779B97F4A7C15u >> 32) % SHORTLISTS;
}

static const OpSchema *op_of(uintptr_t around) { return (const OpSchema *)(around & ~(uintptr_t)VARIES); }

static bool is_among(const RuleNode *node, const OpSchema *op) {
    for (size_t i = 0; i < node->n_ops; i++)
        if (node->ops[i] == op) return true;
    return false;
}

static bool is_const(const OpSchema *op) { return op->domain && strcmp(op->name, "Const") == 0; }

/* One of the operands that are there, if anything is: what makes it, its rank. */
static bool operand_may_be(const Entry *e, const RuleOperand *o, uintptr_t around, uint64_t rank) {
    const OpSchema *op = op_of(around);
    bool value = o->kind == OPERAND_VALUE;
    if (o->kind == OPERAND_NOTHING) return !around;
    if (value && around & VARIES && e->constant >> o->value & 1) return false;
    if (value && rank != UNSAID && e->ranks && e->ranks[o->value] != ANY_RANK)
        if (!rank || !(e->ranks[o->value] >> (rank - 1) & 1)) return false;
    if (o->optional || o->kind == OPERAND_REST) return true;
    if (!around) return false;
    if (o->kind == OPERAND_EXPR) return op && is_const(op);
    int def = value ? e->rule->value_node[o->value] : -1;
    return def < 0 || (op && is_among(&e->rule->match[def], op));
}

static bool takes_rest(const RuleNode *node) {
    return node->n_operands && node->operands[node->n_operands - 1].kind == OPERAND_REST;
}

/* The first n operands that are there. */
typedef struct Operands {
    const uintptr_t *made_by;
    size_t n;
    uint64_t ranks;
} Operands;

/* Whether they may be a node's, in one order. There must not be any more. */
static bool operands_may_be(const Entry *e, const RuleNode *node, const Operands *x, bool swap) {
    for (size_t i = 0; i < node->n_operands && i < x->n; i++) {
        size_t at = swap ? 1 - i : i;
        if (!operand_may_be(e, &node->operands[i], x->made_by[at], x->ranks >> RANK_BITS * at & UNSAID)) return false;
    }
    for (size_t i = node->n_operands; i < x->n && !takes_rest(node); i++)
        if (x->made_by[i]) return false;
    return true;
}

static bool may_swap(const RuleNode *node, const OpSchema *op) {
    return op->flags & OP_COMMUTATIVE && node->n_operands == 2;
}

static bool node_may_be(const Entry *e, const RuleNode *node, const OpSchema *op, const Operands *x) {
    return operands_may_be(e, node, x, false) || (may_swap(node, op) && operands_may_be(e, node, x, true));
}

/* What a key says of what is above operand i. False: nothing. */
static bool operands_above(const Surroundings *x, uint32_t said, size_t i, Operands *out) {
    if (!(said >> i & 1)) return false;
    size_t before = (size_t)__builtin_popcount(said & ((1u << i) - 1));
    uint64_t all = x->ranks == UINT64_MAX ? x->ranks : x->ranks >> RANK_BITS * (AROUND + i * ABOVE);
    *out = (Operands){x->ops + OF_ABOVE + before * ABOVE, ABOVE, all};
    return true;
}

/* The node of the left side that makes an operand for certain; NULL. */
static const RuleNode *maker_of(const Entry *e, const RuleOperand *o) {
    int def = o->kind == OPERAND_VALUE && !o->optional ? e->rule->value_node[o->value] : -1;
    return def < 0 ? NULL : &e->rule->match[def];
}

static bool root_may_be(const Entry *e, const Surroundings *x, uint32_t said, bool swap) {
    const RuleNode *root = &e->rule->match[e->rule->n_match - 1];
    Operands own = {x->ops + OF_OPERANDS, AROUND, x->ranks}, above;
    if (!operands_may_be(e, root, &own, swap)) return false;
    for (size_t i = 0; i < root->n_operands && i < AROUND; i++) {
        size_t at = swap ? 1 - i : i;
        const RuleNode *maker = maker_of(e, &root->operands[i]);
        if (maker && operands_above(x, said, at, &above) &&
            !node_may_be(e, maker, op_of(x->ops[OF_OPERANDS + at]), &above))
            return false;
    }
    return true;
}

/* Whether a rank is asked of one of a node's first operands. */
static bool asks_ranks(const Entry *e, const RuleNode *node, size_t n) {
    for (size_t i = 0; e->ranks && node && i < node->n_operands && i < n; i++)
        if (node->operands[i].kind == OPERAND_VALUE && e->ranks[node->operands[i].value] != ANY_RANK) return true;
    return false;
}

/* Whether something of an operand's operands could keep the rule from matching. */
static bool asks_above(const Entry *e, const RuleNode *node) {
    for (size_t i = 0; node && i < node->n_operands && i < ABOVE; i++) {
        const RuleOperand *o = &node->operands[i];
        bool constant = o->kind == OPERAND_VALUE && e->constant >> o->value & 1;
        if (constant || (!o->optional && (o->kind == OPERAND_EXPR || maker_of(e, o)))) return true;
    }
    return asks_ranks(e, node, ABOVE);
}

/* What more a rule that may match in this order wants to know. */
static uint32_t wants_of(const Entry *e, bool swap) {
    const RuleNode *root = &e->rule->match[e->rule->n_match - 1];
    uint32_t bits = asks_ranks(e, root, AROUND) ? RANKS : 0;
    for (size_t i = 0; i < root->n_operands && i < AROUND; i++) {
        const RuleNode *maker = maker_of(e, &root->operands[i]);
        if (asks_above(e, maker)) bits |= 1u << (swap ? 1 - i : i);
        if (asks_ranks(e, maker, ABOVE)) bits |= RANKS;
    }
    return bits;
}

static bool may_match_around(const Entry *e, const Surroundings *x, uint32_t said, uint32_t *wanted) {
    bool first = root_may_be(e, x, said, false),
         second = may_swap(&e->rule->match[e->rule->n_match - 1], op_of(x->ops[0])) && root_may_be(e, x, said, true);
    if (first) *wanted |= wants_of(e, false);
    if (second) *wanted |= wants_of(e, true);
    return first || second;
}

static void shortlists_reset(Shortlists *s) {
    memset(s->lists, 0, sizeof s->lists);
    arena_reset(&s->arena);
}

/* `said`: what of that which lists may want the key says. All lists are dropped when they have come to take much room. */
static tn_status shortlist_make(Shortlists *s, const Entry *first, const Surroundings *key, uint32_t said,
                                Shortlist *list) {
    enum { MOST_BYTES = 1 << 20 };
    size_t n = 0;
    uint32_t wanted = 0;
    if (s->arena.used > MOST_BYTES) shortlists_reset(s);
    for (const Entry *e = first; e; e = e->next) n += may_match_around(e, key, said, &wanted);
    const Rule **rules = arena_array(&s->arena, const Rule *, n + 1);
    if (!rules) return TN_OUT_OF_MEMORY;
    n = 0;
    for (const Entry *e = first; e; e = e->next)
        if (may_match_around(e, key, said, &wanted)) rules[n++] = e->rule;
    rules[n] = NULL;
    *list = (Shortlist){.key = *key, .rules = rules, .wanted = wanted & ~said};
    return TN_OK;
}

static bool same_surroundings(const Surroundings *a, const Surroundings *b) {
    if (a->n != b->n || a->ranks != b->ranks) return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->ops[i] != b->ops[i]) return false;
    return true;
}

/* One of some places that follow each other; the first is given to another list where all are taken. */
static tn_status look_up(Shortlists *s, const Entry *first, const Surroundings *key, uint32_t said,
                         const Shortlist **out) {
    size_t place = place_of(key), i = 0;
    Shortlist *list = &s->lists[place];
    for (; i < PROBES && list->rules; list = &s->lists[(place + ++i) % SHORTLISTS])
        if (same_surroundings(&list->key, key)) {
            *out = list;
            return TN_OK;
        }
    if (i == PROBES) list = &s->lists[place];
    *out = list;
    return shortlist_make(s, first, key, said, list);
}

tn_status shortlist_find(Shortlists *s, Matcher *m, const Varying *varying, const Node *root,
                         const Rule *const **rules) {
    static const Rule *const none[] = {NULL};
    const Entry *first;
    const Shortlist *list;
    Surroundings key;
    *rules = none;
    if (s->age != m->age) shortlists_reset(s);
    s->age = m->age;
    TRY(matcher_rules(m, root->op, &first));
    if (!first) return TN_OK;
    look_around(varying, root, &key);
    TRY(look_up(s, first, &key, 0, &list));
    uint32_t wanted = list->wanted;
    if (wanted) {
        look_further(varying, root, wanted, &key);
        TRY(look_up(s, first, &key, wanted, &list));
    }
    *rules = list->rules;
    return TN_OK;
}
