/* SPDX-License-Identifier: Apache-2.0 */
/* Ensembles of decision trees: checked once, then walked. */
#include "ops/ml_forest_int.h"

/* ---- checking ------------------------------------------------------------------------------------------------ */

static bool in_range(int64_t first, int64_t n, int64_t size) {
    return first >= 0 && n >= 0 && first <= size && n <= size - first;
}

static tn_status check_node(Forest *f, int64_t i) {
    const TreeNode *node = &f->nodes[i];
    int64_t size = node->mode == MODE_LEAF ? f->n_votes : f->n_members;
    if (node->mode < MODE_LEQ || node->mode > MODE_LEAF)
        return fail(TN_INVALID_MODEL, "node %lld has no mode", (long long)i);
    if ((node->mode == MODE_LEAF || node->mode == MODE_MEMBER) && !in_range(node->first, node->n, size))
        return fail(TN_INVALID_MODEL, "node %lld has no leaf or members of its own", (long long)i);
    if (node->mode == MODE_LEAF) return TN_OK;
    if (node->yes < 0 || node->yes >= f->n_nodes || node->no < 0 || node->no >= f->n_nodes)
        return fail(TN_INVALID_MODEL, "node %lld has a child that is no node", (long long)i);
    if (node->feature < 0)
        return fail(TN_INVALID_MODEL, "node %lld asks for feature %lld", (long long)i, (long long)node->feature);
    if (node->feature > f->last_feature) f->last_feature = node->feature, f->asks_last = i;
    return TN_OK;
}

/* Depth first from each root; a node that is open when it is reached again closes a circle. */
static tn_status check_circles(KernelCtx *c, const Forest *f) {
    enum { NEW, OPEN, DONE };
    uint8_t *state = kernel_scratch(c, uint8_t, (size_t)f->n_nodes + 1);
    int64_t *stack = kernel_scratch(c, int64_t, 2 * (size_t)f->n_nodes + 2);
    if (!state || !stack) return TN_OUT_OF_MEMORY;
    for (int64_t r = 0; r < f->n_roots; r++) {
        int64_t top = 0;
        stack[top++] = f->roots[r];
        while (top > 0) {
            int64_t i = stack[top - 1];
            const TreeNode *node = &f->nodes[i];
            if (state[i] != NEW) {
                state[i] = DONE;
                top--;
                continue;
            }
            state[i] = OPEN;
            for (int k = 0; k < 2 && node->mode != MODE_LEAF; k++) {
                int64_t child = k ? node->yes : node->no;
                if (state[child] == OPEN)
                    return fail(TN_INVALID_MODEL, "node %lld leads back to node %lld", (long long)i, (long long)child);
                if (state[child] == NEW) stack[top++] = child;
            }
        }
    }
    return TN_OK;
}

tn_status forest_check(KernelCtx *c, Forest *f) {
    f->last_feature = f->asks_last = -1;
    for (int64_t i = 0; i < f->n_nodes; i++) TRY(check_node(f, i));
    for (int64_t i = 0; i < f->n_roots; i++)
        if (f->roots[i] < 0 || f->roots[i] >= f->n_nodes)
            return fail(TN_INVALID_MODEL, "root %lld is no node", (long long)f->roots[i]);
    for (int64_t i = 0; i < f->n_votes; i++)
        if (f->votes[i].target < 0 || f->votes[i].target >= f->targets)
            return fail(TN_INVALID_MODEL, "a leaf votes for target %lld of %lld", (long long)f->votes[i].target,
                        (long long)f->targets);
    return check_circles(c, f);
}

tn_status forest_fits(const Forest *f, int64_t width) {
    if (f->last_feature < width) return TN_OK;
    return fail(TN_INVALID_MODEL, "node %lld asks for feature %lld of %lld", (long long)f->asks_last,
                (long long)f->last_feature, (long long)width);
}

/* ---- walking ------------------------------------------------------------------------------------------------- */

static bool is_member(const Forest *f, const TreeNode *node, double v) {
    for (int64_t i = node->first; i < node->first + node->n; i++)
        if (f->members[i] == v) return true;
    return false;
}

static bool says_yes(const Forest *f, const TreeNode *node, double v) {
    if (v != v && node->missing_yes) return true;
    switch (node->mode) {
    case MODE_LEQ: return v <= node->split;
    case MODE_LT: return v < node->split;
    case MODE_GTE: return v >= node->split;
    case MODE_GT: return v > node->split;
    case MODE_EQ: return v == node->split;
    case MODE_NEQ: return v != node->split;
    case MODE_MEMBER: return is_member(f, node, v);
    case MODE_LEAF: break;
    }
    return false;
}

static void add_vote(const Forest *f, bool narrow, const Vote *vote, double *sum, bool *has) {
    bool first = !*has;
    *has = true;
    switch (f->aggregate) {
    case AGGREGATE_MIN: *sum = first || vote->weight < *sum ? vote->weight : *sum; break;
    case AGGREGATE_MAX: *sum = first || vote->weight > *sum ? vote->weight : *sum; break;
    default: *sum = narrow ? (double)((float)*sum + (float)vote->weight) : *sum + vote->weight;
    }
}

void forest_sums(const Forest *f, bool narrow, const double *row, double *sums, bool *has) {
    for (int64_t t = 0; t < f->targets; t++) sums[t] = 0, has[t] = false;
    for (int64_t r = 0; r < f->n_roots; r++) {
        const TreeNode *node = &f->nodes[f->roots[r]];
        while (node->mode != MODE_LEAF) node = &f->nodes[says_yes(f, node, row[node->feature]) ? node->yes : node->no];
        for (int64_t i = node->first; i < node->first + node->n; i++)
            add_vote(f, narrow, &f->votes[i], &sums[f->votes[i].target], &has[f->votes[i].target]);
    }
    for (int64_t t = 0; t < f->targets; t++) {
        if (f->aggregate == AGGREGATE_AVERAGE) sums[t] /= (double)f->n_roots;
        if (f->base) sums[t] += f->base[t], has[t] = true;
    }
}

tn_status attr_doubles(KernelCtx *c, const char *name, const double **out, int64_t *n) {
    const Tensor *t = attr_tensor(c->node, name);
    *out = NULL, *n = -1;
    if (!t) return TN_OK;
    *n = tensor_count(t);
    if (t->dtype == TN_STRING || !tensor_is_dense(t)) return fail(TN_INVALID_MODEL, "%s holds no numbers", name);
    double *copy = kernel_scratch(c, double, (size_t)*n + 1);
    if (!copy) return TN_OUT_OF_MEMORY;
    if (*n) load_f64(copy, t->dtype, t->data, t->offset, 1, *n);
    *out = copy;
    return TN_OK;
}
