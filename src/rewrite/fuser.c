/* SPDX-License-Identifier: Apache-2.0 */
/* The fuser: looks for the last row's op and goes up from there, row by row. Where operands may be swapped, both orders are
   tried; a pattern has few rows, so few orders. */
#include "ops/op.h"
#include "rewrite/rewrite.h"

typedef struct Pattern {
    const Fuser *fuser;
    size_t n;
    const OpSchema *ops[FUSER_NODES];
    size_t n_operands[FUSER_NODES];
    uint32_t swappable; /* rows whose first two operands may be swapped */
} Pattern;

/* ---- the pattern --------------------------------------------------------------------------------------------- */

static tn_status read_row(Pattern *p, size_t i) {
    const FuserNode *row = &p->fuser->nodes[i];
    p->ops[i] = op_named(str_of(row->op));
    if (!p->ops[i]) return fail(TN_NOT_FOUND, "a pattern names the op \"%s\", which is not in the table", row->op);
    while (p->n_operands[i] < FUSER_OPERANDS && row->operands[p->n_operands[i]]) p->n_operands[i]++;
    if (p->ops[i]->flags & OP_COMMUTATIVE && p->n_operands[i] >= 2) p->swappable |= 1u << i;
    return TN_OK;
}

static tn_status read_pattern(const Fuser *fuser, Pattern *p) {
    *p = (Pattern){.fuser = fuser};
    for (; p->n < FUSER_NODES && fuser->nodes[p->n].op; p->n++) TRY(read_row(p, p->n));
    return p->n ? TN_OK : fail(TN_INVALID_ARGUMENT, "a pattern without rows matches nothing");
}

static int row_named(const Fuser *fuser, const char *name, size_t before) {
    for (size_t i = 0; i < before; i++)
        if (strcmp(fuser->nodes[i].name, name) == 0) return (int)i;
    return -1;
}

Value *fuser_value(const FuserMatch *m, const char *name) {
    for (size_t i = 0; i < m->n_inputs; i++)
        if (strcmp(m->input_names[i], name) == 0) return m->inputs[i];
    for (size_t i = 0; i < FUSER_NODES && m->nodes[i]; i++)
        if (strcmp(m->fuser->nodes[i].name, name) == 0) return m->nodes[i]->results[0];
    return NULL;
}

/* ---- matching ------------------------------------------------------------------------------------------------ */

/* The first mention of an input binds it; the next must mean the same value. */
static bool bind_input(FuserMatch *m, const char *name, Value *value) {
    for (size_t i = 0; i < m->n_inputs; i++)
        if (strcmp(m->input_names[i], name) == 0) return m->inputs[i] == value;
    if (m->n_inputs == FUSER_INPUTS) return false;
    m->input_names[m->n_inputs] = name;
    m->inputs[m->n_inputs++] = value;
    return true;
}

static bool bind_row(FuserMatch *m, int row, const Value *value, const Graph *graph) {
    Node *node = value->index == 0 ? value->def : NULL;
    if (!node || node->graph != graph || (m->nodes[row] && m->nodes[row] != node)) return false;
    for (int i = 0; i < FUSER_NODES; i++)
        if (i != row && m->nodes[i] == node) return false;
    m->nodes[row] = node;
    return true;
}

static bool bind_operands(const Pattern *p, FuserMatch *m, size_t row, bool swapped) {
    const Node *node = m->nodes[row];
    for (size_t k = 0; k < p->n_operands[row]; k++) {
        Value *value = node->operands[swapped && k < 2 ? 1 - k : k].value;
        const char *name = p->fuser->nodes[row].operands[k];
        int inner = row_named(p->fuser, name, row);
        if (!value) return false;
        if (inner >= 0 ? !bind_row(m, inner, value, node->graph) : !bind_input(m, name, value)) return false;
    }
    return true;
}

/* Rows further down have said by now which node it is. */
static bool match_row(const Pattern *p, FuserMatch *m, size_t row, bool swapped) {
    const Node *node = m->nodes[row];
    const FuserNode *spec = &p->fuser->nodes[row];
    if (!node || node->op != p->ops[row] || node->n_operands != p->n_operands[row] || node->n_results != 1)
        return false;
    return (!spec->fits || spec->fits(node)) && bind_operands(p, m, row, swapped);
}

static bool is_matched(const Pattern *p, const FuserMatch *m, const Node *node) {
    for (size_t i = 0; i < p->n; i++)
        if (m->nodes[i] == node) return true;
    return false;
}

static bool inputs_come_from_outside(const Pattern *p, const FuserMatch *m) {
    for (size_t i = 0; i < m->n_inputs; i++)
        if (m->inputs[i]->def && is_matched(p, m, m->inputs[i]->def)) return false;
    return true;
}

static bool intermediates_are_ours(const Pattern *p, const FuserMatch *m) {
    for (size_t i = 0; i + 1 < p->n; i++)
        for (const Use *use = m->nodes[i]->results[0]->uses; use; use = use->next)
            if (!is_matched(p, m, use->user)) return false;
    return true;
}

static bool match_in_order(const Pattern *p, Node *last, uint32_t swapped, FuserMatch *m) {
    *m = (FuserMatch){.fuser = p->fuser};
    m->nodes[p->n - 1] = last;
    for (size_t i = p->n; i-- > 0;)
        if (!match_row(p, m, i, swapped & 1u << i)) return false;
    return inputs_come_from_outside(p, m) && intermediates_are_ours(p, m) && (!p->fuser->accept || p->fuser->accept(m));
}

/* All subsets of the rows that may be swapped. */
static bool match(const Pattern *p, Node *last, FuserMatch *m) {
    uint32_t swapped = 0;
    if (last->op != p->ops[p->n - 1]) return false;
    do {
        if (match_in_order(p, last, swapped, m)) return true;
        swapped = (swapped - p->swappable) & p->swappable;
    } while (swapped);
    return false;
}

/* ---- fusing -------------------------------------------------------------------------------------------------- */

tn_status fuser_insert(const FuserMatch *m, Node *fresh) {
    size_t n = 0;
    while (n < FUSER_NODES && m->nodes[n]) n++;
    TRY(replace_value(m->nodes[n - 1]->results[0], fresh->results[0]));
    while (n-- > 0) node_erase(m->nodes[n]);
    return TN_OK;
}

/* A node that inference refuses, or finds to give something else, is not what was meant: all stays as it is. */
static tn_status check_fresh(Node *fresh, const Value *old, bool *ok) {
    const Type *merged;
    *ok = false;
    tn_status status = infer_node(fresh);
    if (status == TN_OK) status = type_merge(fresh->graph->model, fresh->results[0]->type, old->type, &merged);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) diag_clear();
    *ok = status == TN_OK;
    if (*ok) value_set_type(fresh->results[0], merged);
    return TN_OK;
}

static tn_status fuse(const Pattern *p, const FuserMatch *m, int64_t *n_fused) {
    Node *fresh, *last = m->nodes[p->n - 1];
    bool ok;
    TRY(p->fuser->make(m, &fresh));
    fresh->loc = last->loc;
    node_insert_before(fresh, last);
    TRY(check_fresh(fresh, last->results[0], &ok));
    if (!ok) {
        node_erase(fresh);
        return TN_OK;
    }
    ++*n_fused;
    return p->fuser->insert ? p->fuser->insert(m, fresh) : fuser_insert(m, fresh);
}

tn_status fuser_run(const Fuser *fuser, Graph *graph, bool (*may_change)(void *user), void *user, int64_t *n_fused) {
    Pattern p;
    FuserMatch m;
    *n_fused = 0;
    TRY(read_pattern(fuser, &p));
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (!match(&p, node, &m)) continue;
        if (!may_change(user)) break;
        TRY(fuse(&p, &m, n_fused));
    }
    return TN_OK;
}
