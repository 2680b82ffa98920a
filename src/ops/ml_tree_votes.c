/* SPDX-License-Identifier: Apache-2.0 */
/* TreeEnsembleClassifier and TreeEnsembleRegressor (ONNX ML 3): nodes named by tree and number, votes by the leaf. */
#include <stdlib.h>

#include "ops/ml_forest_int.h"

/* ---- reading the trees --------------------------------------------------------------------------------------- */

/* The names of what the two ops call differently. */
typedef struct VoteNames {
    const char *ids, *nodes, *trees, *weights, *weight_tensor;
} VoteNames;

typedef struct NodeName {
    int64_t tree, id, index;
} NodeName;

static int compare_names(const void *a, const void *b) {
    const NodeName *x = a, *y = b;
    if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* The index of a node; -1: there is none. */
static int64_t find_node(const NodeName *names, int64_t n, int64_t tree, int64_t id) {
    NodeName key = {tree, id, 0};
    const NodeName *found = n ? bsearch(&key, names, (size_t)n, sizeof key, compare_names) : NULL;
    return found ? found->index : -1;
}

/* Floats from a list, or doubles from a tensor. */
static tn_status read_numbers(KernelCtx *c, const char *list, const char *tensor, const double **out, int64_t *n) {
    FloatList floats = attr_float_list(c->node, list);
    TRY(attr_doubles(c, tensor, out, n));
    if (*n > 0 && floats.n) return fail(TN_INVALID_MODEL, "%s and %s exclude each other", list, tensor);
    if (*n > 0) return TN_OK;
    double *copy = kernel_scratch(c, double, (size_t)floats.n + 1);
    if (!copy) return TN_OUT_OF_MEMORY;
    for (int64_t i = 0; i < floats.n; i++) copy[i] = (double)floats.data[i];
    *out = copy, *n = floats.n;
    return TN_OK;
}

static tn_status read_mode(Str s, NodeMode *out) {
    static const char *const names[] = {
        [MODE_LEQ] = "BRANCH_LEQ", [MODE_LT] = "BRANCH_LT",   [MODE_GTE] = "BRANCH_GTE", [MODE_GT] = "BRANCH_GT",
        [MODE_EQ] = "BRANCH_EQ",   [MODE_NEQ] = "BRANCH_NEQ", [MODE_MEMBER] = NULL,      [MODE_LEAF] = "LEAF"};
    for (int i = 0; i <= MODE_LEAF; i++) {
        *out = (NodeMode)i;
        if (names[i] && str_equal(s, str_of(names[i]))) return TN_OK;
    }
    return fail(TN_INVALID_MODEL, "nodes_modes has the value \"%.*s\"", (int)s.n, s.s);
}

/* Names sorted by tree and number; roots are the first nodes of each run of one tree. */
static tn_status read_names(KernelCtx *c, Forest *f, NodeName **out) {
    IntList trees = attr_ints(c->node, "nodes_treeids"), ids = attr_ints(c->node, "nodes_nodeids");
    size_t n = trees.n;
    NodeName *names = kernel_scratch(c, NodeName, n + 1);
    f->nodes = kernel_scratch(c, TreeNode, n + 1);
    f->roots = kernel_scratch(c, int64_t, n + 1);
    if (!names || !f->nodes || !f->roots) return TN_OUT_OF_MEMORY;
    if (ids.n != n) return fail(TN_INVALID_MODEL, "the nodes_ attributes are not equally long");
    f->n_nodes = (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        names[i] = (NodeName){trees.data[i], ids.data[i], (int64_t)i};
        if (i == 0 || trees.data[i] != trees.data[i - 1]) f->roots[f->n_roots++] = (int64_t)i;
    }
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0)
            return fail(TN_INVALID_MODEL, "node %lld of tree %lld stands twice", (long long)names[i].id,
                        (long long)names[i].tree);
    *out = names;
    return TN_OK;
}

static tn_status read_nodes(KernelCtx *c, Forest *f, const NodeName *names) {
    const Node *node = c->node;
    IntList features = attr_ints(node, "nodes_featureids"), yes = attr_ints(node, "nodes_truenodeids");
    IntList no = attr_ints(node, "nodes_falsenodeids"), missing = attr_ints(node, "nodes_missing_value_tracks_true");
    IntList trees = attr_ints(node, "nodes_treeids");
    const Attr *modes = attr_get(node, "nodes_modes");
    const double *splits;
    int64_t n_splits;
    TRY(read_numbers(c, "nodes_values", "nodes_values_as_tensor", &splits, &n_splits));
    size_t n = (size_t)f->n_nodes;
    if (features.n != n || yes.n != n || no.n != n || (modes ? modes->n : 0) != n || (size_t)n_splits != n)
        return fail(TN_INVALID_MODEL, "the nodes_ attributes are not equally long");
    for (size_t i = 0; i < n; i++) {
        TreeNode *t = &f->nodes[i];
        *t = (TreeNode){
            .missing_yes = i < missing.n && missing.data[i] == 1, .feature = features.data[i], .split = splits[i]};
        TRY(read_mode(modes->strings[i], &t->mode));
        if (t->mode == MODE_LEAF) continue;
        t->yes = find_node(names, f->n_nodes, trees.data[i], yes.data[i]);
        t->no = find_node(names, f->n_nodes, trees.data[i], no.data[i]);
    }
    return TN_OK;
}

/* Votes sorted by leaf, those of one leaf in their order. Votes of inner nodes never count. */
static tn_status read_votes(KernelCtx *c, Forest *f, const NodeName *names, const VoteNames *called) {
    IntList ids = attr_ints(c->node, called->ids), nodes = attr_ints(c->node, called->nodes);
    IntList trees = attr_ints(c->node, called->trees);
    const double *weights;
    int64_t n = (int64_t)ids.n, n_weights;
    TRY(read_numbers(c, called->weights, called->weight_tensor, &weights, &n_weights));
    if (nodes.n != ids.n || trees.n != ids.n || n_weights != n)
        return fail(TN_INVALID_MODEL, "%s, %s, %s and %s are not equally long", called->ids, called->nodes,
                    called->trees, called->weights);
    int64_t *owner = kernel_scratch(c, int64_t, (size_t)n + 1);
    f->votes = kernel_scratch(c, Vote, (size_t)n + 1);
    if (!owner || !f->votes) return TN_OUT_OF_MEMORY;
    f->n_votes = n;
    for (int64_t i = 0; i < n; i++) {
        owner[i] = find_node(names, f->n_nodes, trees.data[i], nodes.data[i]);
        if (owner[i] < 0)
            return fail(TN_INVALID_MODEL, "a vote of node %lld in tree %lld, which is not there",
                        (long long)nodes.data[i], (long long)trees.data[i]);
        f->nodes[owner[i]].n++;
    }
    int64_t at = 0;
    for (int64_t i = 0; i < f->n_nodes; at += f->nodes[i++].n) f->nodes[i].first = at;
    for (int64_t i = 0; i < f->n_nodes; i++) f->nodes[i].n = 0;
    for (int64_t i = 0; i < n; i++) {
        TreeNode *t = &f->nodes[owner[i]];
        f->votes[t->first + t->n++] = (Vote){ids.data[i], weights[i]};
    }
    return TN_OK;
}

/* What follows from attributes: trees, and numbers that are added to all scores. */
typedef struct Trees {
    Forest forest;
    const double *base;
    int64_t n_base;
} Trees;

static tn_status read_trees(KernelCtx *c, const VoteNames *called, int64_t targets, Aggregate aggregate,
                            const void **out) {
    Trees *t = kernel_scratch(c, Trees, 1);
    NodeName *names;
    if (!t) return TN_OUT_OF_MEMORY;
    t->forest.targets = targets, t->forest.aggregate = aggregate;
    TRY(read_names(c, &t->forest, &names));
    TRY(read_nodes(c, &t->forest, names));
    TRY(read_votes(c, &t->forest, names, called));
    TRY(read_numbers(c, "base_values", "base_values_as_tensor", &t->base, &t->n_base));
    *out = t;
    return forest_check(c, &t->forest);
}

/* ---- classifier ---------------------------------------------------------------------------------------------- */

static tn_status classifier_infer(InferCtx *c) {
    PostTransform post;
    Labels labels;
    TRY(read_post_transform(c->node, &post));
    TRY(read_labels(c->node, "classlabels_int64s", "classlabels_strings", &labels));
    TRY(want_rows(c, 0));
    Shape y = {.rank = 1, .dims = {rows_of(c, 0)}}, z = {.rank = 2, .dims = {y.dims[0], labels.n}};
    set_type(c, 0, labels_dtype(&labels), &y);
    set_type(c, 1, TN_F32, &z);
    return TN_OK;
}

/* Two classes and votes for one of them only: that one's score tells both. */
typedef struct Binary {
    bool is;
    int64_t voted; /* the class with votes */
    bool positive; /* no weight is negative: a score is a probability */
    double base;
} Binary;

static Binary find_binary(const Forest *f, const double *base, int64_t n_base) {
    Binary b = {.is = f->targets == 2 && f->n_votes > 0 && n_base < 2, .positive = true};
    if (b.is) b.voted = f->votes[0].target;
    for (int64_t i = 0; i < f->n_votes; i++) {
        b.is = b.is && f->votes[i].target == b.voted;
        b.positive = b.positive && f->votes[i].weight >= 0;
    }
    if (n_base == 1 && b.voted == 0) b.base = base[0];
    return b;
}

/* A single score as both classes' in `scores`, which has room for two; the class. */
static int64_t binary_scores(const Binary *b, PostTransform post, double sum, float *scores) {
    double v = sum + b->base;
    int64_t class = b->positive ? v > 0.5 : v > 0;
    scores[0] = (float)v;
    if (b->voted == 0) {
        transform_scores(post, b->positive ? SECOND_COMPLEMENT : SECOND_OPPOSITE, scores, 1);
        return class;
    }
    scores[0] = 0, scores[1] = (float)v;
    transform_scores(post, SECOND_NONE, scores, 2);
    return class;
}

/* The best of the classes that have a score. */
static int64_t best_class(const double *sums, const bool *has, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (has[i] && (best < 0 || sums[i] > sums[best])) best = i;
    return max_i64(best, 0);
}

/* One row's label and transformed scores. */
static tn_status classify(KernelCtx *c, const Forest *f, const Binary *b, const Labels *labels, PostTransform post,
                          int64_t row, const double *sums, const bool *has, float *scores) {
    int64_t n = f->targets, class;
    if (b->is) {
        class = binary_scores(b, post, sums[b->voted], scores);
    } else {
        class = best_class(sums, has, n);
        for (int64_t i = 0; i < n; i++) scores[i] = (float)sums[i];
        transform_scores(post, SECOND_NONE, scores, n);
    }
    if (!kernel_wants(c, 0)) return TN_OK;
    if (n == 1) return put_default_label(c, 0, row, labels, sums[0] > 0);
    return put_label(c, 0, row, labels, class);
}

static tn_status classifier_keep(KernelCtx *c, const void **out) {
    static const VoteNames names = {"class_ids", "class_nodeids", "class_treeids", "class_weights",
                                    "class_weights_as_tensor"};
    Labels labels;
    TRY(read_labels(c->node, "classlabels_int64s", "classlabels_strings", &labels));
    return read_trees(c, &names, labels.n, AGGREGATE_SUM, out);
}

static tn_status classifier_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    const void *kept = c->kept;
    PostTransform post;
    Labels labels;
    const double *in;
    float *z = NULL;
    TRY(read_post_transform(c->node, &post));
    TRY(read_labels(c->node, "classlabels_int64s", "classlabels_strings", &labels));
    if (!kept) TRY(classifier_keep(c, &kept));
    const Trees *trees = kept;
    const double *base = trees->base;
    int64_t n_base = trees->n_base;
    Forest f = trees->forest;
    TRY(forest_fits(&f, row_width(x)));
    if (n_base && n_base != f.targets && !(n_base == 1 && f.targets == 2))
        return fail(TN_INVALID_MODEL, "%lld base values for %lld classes", (long long)n_base, (long long)f.targets);
    Binary binary = find_binary(&f, base, n_base);
    double both[2] = {n_base == 1 ? base[0] : 0, 0}; /* a single one counts for the first class */
    if (n_base && !binary.is) f.base = n_base == f.targets ? base : both;
    double *sums = kernel_scratch(c, double, (size_t)f.targets);
    bool *has = kernel_scratch(c, bool, (size_t)f.targets);
    float *scores = kernel_scratch(c, float, (size_t)f.targets + 1);
    if (!sums || !has || !scores) return TN_OUT_OF_MEMORY;
    TRY(dense_f64(c, 0, &in));
    if (kernel_wants(c, 1)) TRY(result_f32(c, 1, &z));
    for (int64_t row = 0; row < row_count(x); row++) {
        TRY(kernel_poll(c));
        forest_sums(&f, x->dtype != TN_F64, in + row * row_width(x), sums, has);
        TRY(classify(c, &f, &binary, &labels, post, row, sums, has, scores));
        if (z) memcpy(z + row * f.targets, scores, (size_t)f.targets * sizeof *z);
    }
    return TN_OK;
}

/* ---- regressor ----------------------------------------------------------------------------------------------- */

static tn_status read_aggregate(const Node *node, Aggregate *out) {
    static const char *const names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    for (int i = 0; i < 4; i++) {
        *out = (Aggregate)i;
        if (attr_string_is(node, "aggregate_function", names[i])) return TN_OK;
    }
    Str s = attr_string(node, "aggregate_function");
    return fail(TN_INVALID_MODEL, "aggregate_function is \"%.*s\"; AVERAGE, SUM, MIN or MAX is wanted", (int)s.n, s.s);
}

static tn_status regressor_infer(InferCtx *c) {
    PostTransform post;
    Aggregate aggregate;
    int64_t targets = attr_int(c->node, "n_targets");
    TRY(read_post_transform(c->node, &post));
    TRY(read_aggregate(c->node, &aggregate));
    TRY(want_rows(c, 0));
    if (targets < 1) return fail(TN_INVALID_MODEL, "n_targets is %lld", (long long)targets);
    Shape y = {.rank = 2, .dims = {rows_of(c, 0), targets}};
    set_type(c, 0, TN_F32, &y);
    return TN_OK;
}

static tn_status regressor_keep(KernelCtx *c, const void **out) {
    static const VoteNames names = {"target_ids", "target_nodeids", "target_treeids", "target_weights",
                                    "target_weights_as_tensor"};
    Aggregate aggregate;
    TRY(read_aggregate(c->node, &aggregate));
    return read_trees(c, &names, attr_int(c->node, "n_targets"), aggregate, out);
}

static tn_status regressor_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    const void *kept = c->kept;
    PostTransform post;
    const double *in;
    float *y;
    TRY(read_post_transform(c->node, &post));
    if (!kept) TRY(regressor_keep(c, &kept));
    const Trees *trees = kept;
    Forest f = trees->forest;
    TRY(forest_fits(&f, row_width(x)));
    if (trees->n_base && trees->n_base != f.targets)
        return fail(TN_INVALID_MODEL, "%lld base values for %lld targets", (long long)trees->n_base,
                    (long long)f.targets);
    if (trees->n_base) f.base = trees->base;
    double *sums = kernel_scratch(c, double, (size_t)f.targets);
    bool *has = kernel_scratch(c, bool, (size_t)f.targets);
    if (!sums || !has) return TN_OUT_OF_MEMORY;
    TRY(dense_f64(c, 0, &in));
    TRY(result_f32(c, 0, &y));
    for (int64_t row = 0; row < row_count(x); row++) {
        float *to = y + row * f.targets;
        TRY(kernel_poll(c));
        forest_sums(&f, x->dtype != TN_F64, in + row * row_width(x), sums, has);
        for (int64_t t = 0; t < f.targets; t++) to[t] = (float)sums[t];
        transform_scores(post, SECOND_NONE, to, f.targets);
    }
    return TN_OK;
}

#define NODE_ATTRS                                                                                                   \
    {"base_values", ATTR_FLOATS}, {"base_values_as_tensor", ATTR_TENSOR}, {"nodes_falsenodeids", ATTR_INTS},         \
        {"nodes_featureids", ATTR_INTS}, {"nodes_hitrates", ATTR_FLOATS}, {"nodes_hitrates_as_tensor", ATTR_TENSOR}, \
        {"nodes_missing_value_tracks_true", ATTR_INTS}, {"nodes_modes", ATTR_STRINGS}, {"nodes_nodeids", ATTR_INTS}, \
        {"nodes_treeids", ATTR_INTS}, {"nodes_truenodeids", ATTR_INTS}, {"nodes_values", ATTR_FLOATS},               \
        {"nodes_values_as_tensor", ATTR_TENSOR}, {                                                                   \
        "post_transform", ATTR_STRING, .s = "NONE"                                                                   \
    }

const OpSchema op_ml_TreeEnsembleClassifier = {
    .domain = "ai.onnx.ml",
    .name = "TreeEnsembleClassifier",
    .summary = "Classes by votes of decision trees (ONNX ML 3)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", ML_NUMBERS}),
    .outputs = OPERANDS({"Y", TS(TN_STRING) | TS(TN_I64)}, {"Z", TS(TN_F32), 0, OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES(NODE_ATTRS, {"class_ids", ATTR_INTS}, {"class_nodeids", ATTR_INTS},
                        {"class_treeids", ATTR_INTS}, {"class_weights", ATTR_FLOATS},
                        {"class_weights_as_tensor", ATTR_TENSOR}, {"classlabels_int64s", ATTR_INTS},
                        {"classlabels_strings", ATTR_STRINGS}),
    .infer = classifier_infer,
    .reference = classifier_reference,
    .keep = classifier_keep,
};

const OpSchema op_ml_TreeEnsembleRegressor = {
    .domain = "ai.onnx.ml",
    .name = "TreeEnsembleRegressor",
    .summary = "Sums of decision trees (ONNX ML 3)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", ML_NUMBERS}),
    .outputs = OPERANDS({"Y", TS(TN_F32)}),
    .attrs = ATTRIBUTES(NODE_ATTRS, {"aggregate_function", ATTR_STRING, .s = "SUM"}, {"n_targets", ATTR_INT},
                        {"target_ids", ATTR_INTS}, {"target_nodeids", ATTR_INTS}, {"target_treeids", ATTR_INTS},
                        {"target_weights", ATTR_FLOATS}, {"target_weights_as_tensor", ATTR_TENSOR}),
    .infer = regressor_infer,
    .reference = regressor_reference,
    .keep = regressor_keep,
};
