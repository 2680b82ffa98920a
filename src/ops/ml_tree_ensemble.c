/* SPDX-License-Identifier: Apache-2.0 */
/* TreeEnsemble (ONNX ML 5): regression trees whose inner nodes and leaves are lists of their own. */
#include "ops/ml_forest_int.h"

static tn_status read_choices(const Node *node, Aggregate *aggregate, PostTransform *post) {
    int64_t a = attr_int(node, "aggregate_function"), p = attr_int(node, "post_transform");
    if (a < AGGREGATE_AVERAGE || a > AGGREGATE_MAX || p < POST_NONE || p > POST_PROBIT)
        return fail(TN_INVALID_MODEL, "aggregate_function is %lld and post_transform %lld", (long long)a, (long long)p);
    *aggregate = (Aggregate)a, *post = (PostTransform)p;
    return TN_OK;
}

static tn_status ensemble_infer(InferCtx *c) {
    Aggregate aggregate;
    PostTransform post;
    int64_t targets = attr_int(c->node, "n_targets");
    TRY(read_choices(c->node, &aggregate, &post));
    TRY(want_rows(c, 0));
    if (targets < 1) return fail(TN_INVALID_MODEL, "n_targets is %lld", (long long)targets);
    Shape y = {.rank = 2, .dims = {rows_of(c, 0), targets}};
    set_shape(c, 0, &y);
    return TN_OK;
}

/* Leaves follow the inner nodes; each has one vote. */
static tn_status read_leaves(KernelCtx *c, Forest *f, int64_t inner) {
    IntList targets = attr_ints(c->node, "leaf_targetids");
    const double *weights;
    int64_t n;
    TRY(attr_doubles(c, "leaf_weights", &weights, &n));
    if (n != (int64_t)targets.n)
        return fail(TN_INVALID_MODEL, "%lld leaf_weights, but %zu leaf_targetids", (long long)n, targets.n);
    f->n_nodes = inner + n, f->n_votes = n;
    f->nodes = kernel_scratch(c, TreeNode, (size_t)f->n_nodes + 1);
    f->votes = kernel_scratch(c, Vote, (size_t)n + 1);
    if (!f->nodes || !f->votes) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        f->nodes[inner + i] = (TreeNode){.mode = MODE_LEAF, .first = i, .n = 1};
        f->votes[i] = (Vote){targets.data[i], weights[i]};
    }
    return TN_OK;
}

/* A child, numbered among the leaves or the inner nodes; -1: it is neither. */
static int64_t child_of(IntList ids, IntList is_leaf, int64_t i, int64_t inner, int64_t leaves) {
    int64_t id = ids.data[i];
    if (id < 0 || id >= (is_leaf.data[i] ? leaves : inner)) return -1;
    return is_leaf.data[i] ? inner + id : id;
}

static tn_status read_inner(KernelCtx *c, Forest *f) {
    const Node *node = c->node;
    IntList features = attr_ints(node, "nodes_featureids"), yes = attr_ints(node, "nodes_truenodeids");
    IntList no = attr_ints(node, "nodes_falsenodeids"), yes_leaf = attr_ints(node, "nodes_trueleafs");
    IntList no_leaf = attr_ints(node, "nodes_falseleafs"), missing = attr_ints(node, "nodes_missing_value_tracks_true");
    const double *splits, *modes;
    int64_t n = (int64_t)features.n, n_splits, n_modes;
    TRY(attr_doubles(c, "nodes_splits", &splits, &n_splits));
    TRY(attr_doubles(c, "nodes_modes", &modes, &n_modes));
    if (n_splits != n || n_modes != n || yes.n != features.n || no.n != features.n || yes_leaf.n != features.n ||
        no_leaf.n != features.n || (missing.n && missing.n != features.n))
        return fail(TN_INVALID_MODEL, "the nodes_ attributes are not equally long");
    TRY(read_leaves(c, f, n));
    TRY(attr_doubles(c, "membership_values", &f->members, &f->n_members));
    f->n_members = max_i64(f->n_members, 0);
    for (int64_t i = 0, member = 0; i < n; i++) {
        TreeNode *t = &f->nodes[i];
        if (!(modes[i] >= MODE_LEQ && modes[i] <= MODE_MEMBER))
            return fail(TN_INVALID_MODEL, "node %lld has mode %g", (long long)i, modes[i]);
        *t = (TreeNode){.mode = (NodeMode)modes[i],
                        .missing_yes = missing.n && missing.data[i] == 1,
                        .feature = features.data[i],
                        .split = splits[i],
                        .yes = child_of(yes, yes_leaf, i, n, f->n_votes),
                        .no = child_of(no, no_leaf, i, n, f->n_votes)};
        if (t->mode != MODE_MEMBER) continue;
        t->first = member; /* up to the next NaN */
        while (member < f->n_members && f->members[member] == f->members[member]) member++;
        t->n = member - t->first;
        member += member < f->n_members;
    }
    return TN_OK;
}

static tn_status ensemble_keep(KernelCtx *c, const void **out) {
    IntList roots = attr_ints(c->node, "tree_roots");
    PostTransform post;
    Forest *f = kernel_scratch(c, Forest, 1);
    if (!f) return TN_OUT_OF_MEMORY;
    f->targets = attr_int(c->node, "n_targets"), f->n_roots = (int64_t)roots.n;
    TRY(read_choices(c->node, &f->aggregate, &post));
    TRY(read_inner(c, f));
    f->roots = kernel_scratch(c, int64_t, roots.n + 1);
    if (!f->roots) return TN_OUT_OF_MEMORY;
    if (roots.n) memcpy(f->roots, roots.data, roots.n * sizeof *f->roots);
    *out = f;
    return forest_check(c, f);
}

static tn_status ensemble_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    const void *kept = c->kept;
    PostTransform post;
    Aggregate aggregate;
    const double *in;
    double *y;
    if (!kept) TRY(ensemble_keep(c, &kept));
    const Forest *f = kept;
    TRY(read_choices(c->node, &aggregate, &post));
    TRY(forest_fits(f, row_width(x)));
    double *sums = kernel_scratch(c, double, (size_t)f->targets);
    bool *has = kernel_scratch(c, bool, (size_t)f->targets);
    float *scores = kernel_scratch(c, float, (size_t)f->targets + 1);
    if (!sums || !has || !scores) return TN_OUT_OF_MEMORY;
    TRY(dense_f64(c, 0, &in));
    TRY(result_f64(c, 0, &y));
    for (int64_t row = 0; row < row_count(x); row++) {
        TRY(kernel_poll(c));
        forest_sums(f, x->dtype != TN_F64, in + row * row_width(x), sums, has);
        for (int64_t t = 0; t < f->targets; t++) scores[t] = (float)sums[t];
        if (post != POST_NONE) transform_scores(post, SECOND_NONE, scores, f->targets);
        for (int64_t t = 0; t < f->targets; t++)
            y[row * f->targets + t] = post == POST_NONE ? sums[t] : (double)scores[t];
    }
    result_f64_done(c, 0, y);
    return TN_OK;
}

#define TYPES (TS(TN_F32) | TS(TN_F64) | TS(TN_F16))
#define LIST(name) \
    { name, ATTR_INTS, ATTR_REQUIRED }

const OpSchema op_ml_TreeEnsemble = {
    .domain = "ai.onnx.ml",
    .name = "TreeEnsemble",
    .summary = "Sums of decision trees (ONNX ML 5)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TYPES, 'T'}),
    .outputs = OPERANDS({"Y", TYPES, 'T'}),
    .attrs = ATTRIBUTES({"aggregate_function", ATTR_INT, .i = AGGREGATE_SUM}, LIST("leaf_targetids"),
                        {"leaf_weights", ATTR_TENSOR, ATTR_REQUIRED}, {"membership_values", ATTR_TENSOR},
                        {"n_targets", ATTR_INT}, LIST("nodes_falseleafs"), LIST("nodes_falsenodeids"),
                        LIST("nodes_featureids"), {"nodes_hitrates", ATTR_TENSOR},
                        {"nodes_missing_value_tracks_true", ATTR_INTS}, {"nodes_modes", ATTR_TENSOR, ATTR_REQUIRED},
                        {"nodes_splits", ATTR_TENSOR, ATTR_REQUIRED}, LIST("nodes_trueleafs"),
                        LIST("nodes_truenodeids"), {"post_transform", ATTR_INT}, LIST("tree_roots")),
    .infer = ensemble_infer,
    .reference = ensemble_reference,
    .keep = ensemble_keep,
};
