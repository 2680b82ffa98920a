/* SPDX-License-Identifier: Apache-2.0 */
/* Rules by the op of their root, each with a sieve: which ops must make the root's operands. A node meets only rules that
   begin with its op, and of those mostly the ones that fit, however many there are. */
#include "rewrite/index_int.h"

static uint64_t bit_of(const OpSchema *op) { return (uint64_t)1 << (((uintptr_t)op >> 5) * 0x9E3779B97F4A7C15u >> 58); }

static size_t slot_of(const Matcher *m, const OpSchema *op) {
    size_t mask = m->n_slots - 1, i = (((uintptr_t)op >> 5) * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (m->slots[i].op && m->slots[i].op != op) i = (i + 1) & mask;
    return i;
}

/* Bits of the ops that may make operand i of the root; 0: anything. */
static uint64_t sieve_of(const Rule *rule, size_t i) {
    const RuleNode *root = &rule->match[rule->n_match - 1];
    if (i >= root->n_operands || root->operands[i].kind != OPERAND_VALUE || root->operands[i].optional) return 0;
    int def = rule->value_node[root->operands[i].value];
    uint64_t bits = 0;
    for (size_t k = 0; def >= 0 && k < rule->match[def].n_ops; k++) bits |= bit_of(rule->match[def].ops[k]);
    return bits;
}

static tn_status add_entry(Matcher *m, const OpSchema *op, const Rule *rule) {
    Slot *slot = &m->slots[slot_of(m, op)];
    slot->op = op;
    Entry *e = arena_new(&m->arena, Entry);
    if (!e) return TN_OUT_OF_MEMORY;
    e->rule = rule;
    for (size_t i = 0; i < SIEVES; i++) e->sieve[i] = sieve_of(rule, i);
    Entry **last = &slot->first;
    while (*last) last = &(*last)->next;
    *last = e;
    return TN_OK;
}

static tn_status fill(Matcher *m, const Rule *const *rules, size_t n) {
    size_t ops = 1;
    for (size_t i = 0; i < n; i++) ops += rules[i]->match[rules[i]->n_match - 1].n_ops;
    for (m->n_slots = 16; m->n_slots < 2 * ops;) m->n_slots *= 2;
    if (!(m->slots = arena_array(&m->arena, Slot, m->n_slots))) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const RuleNode *root = &rules[i]->match[rules[i]->n_match - 1];
        if (rules[i]->depth > m->depth) m->depth = rules[i]->depth;
        for (size_t k = 0; k < root->n_ops; k++) TRY(add_entry(m, root->ops[k], rules[i]));
    }
    return TN_OK;
}

tn_status matcher_new(const Allocator *allocator, const Rule *const *rules, size_t n, Matcher **out) {
    Matcher *m = mem_alloc(allocator, sizeof *m, alignof(Matcher));
    if (!m) return TN_OUT_OF_MEMORY;
    arena_init(&m->arena, allocator);
    tn_status status = fill(m, rules, n);
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

const Entry *matcher_rules(const Matcher *m, const OpSchema *op) { return m->slots[slot_of(m, op)].first; }

/* With two operands of a commutative op either may be the other. */
bool entry_may_match(const Entry *e, const Node *root) {
    uint64_t made[SIEVES] = {0};
    for (uint32_t i = 0; i < SIEVES && i < root->n_operands; i++) {
        const Value *v = root->operands[i].value;
        if (v && v->def) made[i] = bit_of(v->def->op);
    }
    if (root->op->flags & OP_COMMUTATIVE) {
        uint64_t both = made[0] | made[1];
        return (!e->sieve[0] || e->sieve[0] & both) && (!e->sieve[1] || e->sieve[1] & both);
    }
    for (size_t i = 0; i < SIEVES; i++)
        if (e->sieve[i] && !(e->sieve[i] & made[i])) return false;
    return true;
}
