# SPDX-License-Identifier: Apache-2.0
"""ai.onnx.ml's tree ensembles and support vector machines."""
import numpy as np

from .core import ALWAYS, ANY, generator, ml, oracle
from .ml import POST, clear_winner, draw_labels, floats, label_array, rows_of, transformed
from .rows import Tensor
from .types import FLOATS, NUMPY

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

# ---- random trees ---------------------------------------------------------------------------------------------------


def some_split(r):
    """Halves, which features that are integers and halves meet exactly."""
    return r.integer(-4, 4) / 2


def some_tree(r, width, modes, depth):
    """Nodes as lists: [mode, feature, split, missing goes right, yes, no], or the number of a leaf."""
    nodes, leaves = [], 0

    def grow(depth):
        nonlocal leaves
        if depth == 0 or nodes and r.chance(0.2):
            leaves += 1
            return ("leaf", leaves - 1)
        node = [r.one_of(*modes), r.integer(0, width - 1), some_split(r), r.integer(0, 1), None, None]
        nodes.append(node)
        at = len(nodes) - 1
        node[4], node[5] = grow(depth - 1), grow(depth - 1)
        return ("node", at)

    grow(depth)
    return nodes, leaves


def says_yes(node, v):
    mode, split = node[0], node[2]
    if np.isnan(v) and node[3]:
        return True
    if mode == "BRANCH_MEMBER":
        return v in split
    return {"BRANCH_LEQ": v <= split, "BRANCH_LT": v < split, "BRANCH_GTE": v >= split, "BRANCH_GT": v > split,
            "BRANCH_EQ": v == split, "BRANCH_NEQ": v != split}[mode]  # fmt: skip


def leaf_of(nodes, row):
    at = ("node", 0)
    while at[0] == "node":
        node = nodes[at[1]]
        at = node[4] if says_yes(node, row[node[1]]) else node[5]
    return at[1]


def tree_features(r, width):
    n = r.integer(1, 4)
    x = (r.rng.integers(-5, 6, (n, width)) / 2).astype(np.float64)
    if r.dtype in FLOATS:
        x = np.where(r.rng.random(x.shape) < 0.15, np.nan, x)
    else:
        x = np.trunc(x)
    return x.astype(NUMPY[r.dtype])


# ---- nodes named by tree and number ---------------------------------------------------------------------------------


def number_list(r, name, values):
    """A list of floats, or the same as a tensor of doubles, which those over doubles may have."""
    tensor = f"{name}_as_tensor"
    if r.fixed.get(tensor) == ANY or r.dtype == "f64" and name not in r.fixed and r.chance(0.3):
        r.set(tensor, Tensor(np.array(values), "f64"))
    else:
        r.set(name, [float(v) for v in values])


def write_trees(r, trees):
    """The nodes_ attributes; ids of leaves come behind those of inner nodes."""
    columns = {name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing")}
    for t, (nodes, leaves) in enumerate(trees):
        name = lambda at, n=len(nodes): at[1] if at[0] == "node" else n + at[1]  # noqa: E731
        for i, node in enumerate(nodes):
            rows = t, i, node[1], node[0], node[2], name(node[4]), name(node[5]), node[3]
            for column, value in zip(columns.values(), rows):
                column.append(value)
        for i in range(leaves):
            for column, value in zip(columns.values(), (t, len(nodes) + i, 0, "LEAF", 0.0, 0, 0, 0)):
                column.append(value)
    missing, values = columns.pop("missing"), columns.pop("values")
    for name, column in columns.items():
        r.set(f"nodes_{name}", column)
    number_list(r, "nodes_values", values)
    if r.draw("nodes_missing_value_tracks_true", None, missing) is None:
        for nodes, _ in trees:
            for node in nodes:
                node[3] = 0
    hits = [1.0] * len(missing)
    if r.fixed.get("nodes_hitrates_as_tensor") == ANY:
        r.set("nodes_hitrates_as_tensor", Tensor(np.array(hits), "f64"))
    elif "nodes_hitrates_as_tensor" not in r.fixed or r.fixed.get("nodes_hitrates"):
        r.draw("nodes_hitrates", None, hits)


def write_votes(r, trees, prefix, targets, votes, low, high):
    """votes: of how many targets a leaf speaks. The weights: [tree][leaf] -> [(target, weight)]"""
    ids, nodes, owners, weights, found = [], [], [], [], []
    for t, (inner, leaves) in enumerate(trees):
        found.append([])
        for leaf in range(leaves):
            found[-1].append([])
            for target in r.rng.permutation(targets)[:votes]:
                weight = float(np.float32(r.rng.uniform(low, high)))
                found[-1][-1].append((int(target), weight))
                ids.append(int(target))
                nodes.append(len(inner) + leaf)
                owners.append(t)
                weights.append(weight)
    r.set(f"{prefix}_ids", ids)
    r.set(f"{prefix}_nodeids", nodes)
    r.set(f"{prefix}_treeids", owners)
    number_list(r, f"{prefix}_weights", weights)
    return found


def draw_base(r, n):
    base = floats(r, n, 0.01, 0.1)
    if r.fixed.get("base_values_as_tensor") == ANY:
        return r.set("base_values_as_tensor", Tensor(np.array(base), "f64")).array.tolist()
    return r.draw("base_values", None, base) or [0.0] * n


NODES = {f"nodes_{name}": ALWAYS for name in ("falsenodeids", "featureids", "modes", "nodeids", "treeids", "truenodeids")}
NODES |= {"base_values": ANY, "base_values_as_tensor": ANY, "nodes_hitrates": ANY, "nodes_hitrates_as_tensor": ANY,
          "nodes_missing_value_tracks_true": ANY, "nodes_values": ANY, "nodes_values_as_tensor": ANY, "post_transform": POST}  # fmt: skip


def draw_trees(r):
    width, post = r.integer(1, 3), r.draw("post_transform")
    for name in ("nodes_values", "nodes_hitrates", "base_values", "class_weights", "target_weights"):
        if r.fixed.get(f"{name}_as_tensor") == ANY or name in r.fixed and r.fixed[name] is None:
            r.types[r.schema.inputs[0].parameter] = "f64"
            if name in r.fixed and name not in ("nodes_hitrates", "base_values"):
                r.fixed[f"{name}_as_tensor"] = ANY
    trees = [some_tree(r, width, MODES, r.integer(1, 3)) for _ in range(r.integer(1, 3))]
    write_trees(r, trees)
    r.trees = trees
    r.tolerance = 1e-2 if post == "PROBIT" else 1e-4
    return width, trees, (0.01, 0.2) if post in ("PROBIT", "SOFTMAX_ZERO") else (-1, 1)


@generator(*ml("TreeEnsembleRegressor"), aggregate_function=("AVERAGE", "SUM", "MIN", "MAX"), n_targets=ALWAYS, target_ids=ALWAYS,
           target_nodeids=ALWAYS, target_treeids=ALWAYS, target_weights=ANY, target_weights_as_tensor=ANY, **NODES)
def tree_regressor(r):
    width, trees, (low, high) = draw_trees(r)
    targets = r.draw("n_targets", 1, 2, 3)
    how = r.draw("aggregate_function")
    votes = targets if how in ("MIN", "MAX") else r.integer(1, targets)
    r.votes = write_votes(r, trees, "target", targets, votes, low, high)
    r.base = draw_base(r, targets)
    return [tree_features(r, width)]


def aggregated(r, row, targets, how="SUM"):
    """Sums of a row's leaves by target, and how many votes each target had."""
    found = [[] for _ in range(targets)]
    for (nodes, _), votes in zip(r.trees, r.votes):
        for target, weight in votes[leaf_of(nodes, row)]:
            found[target].append(weight)
    by = {"SUM": sum, "AVERAGE": lambda v: sum(v) / len(r.trees), "MIN": lambda v: min(v, default=0), "MAX": lambda v: max(v, default=0)}
    return np.array([by[how](v) for v in found], np.float64), [len(v) for v in found]


@oracle(*ml("TreeEnsembleRegressor"))
def tree_regressor_oracle(r, x):
    a = r.attributes
    scores = [aggregated(r, row, a.get("n_targets", 1), a.get("aggregate_function", "SUM"))[0] + r.base for row in rows_of(x)]
    y = np.array([transformed(a.get("post_transform", "NONE"), row) for row in scores])
    assert np.isfinite(y).all()
    return [y]


@generator(*ml("TreeEnsembleClassifier"), class_ids=ALWAYS, class_nodeids=ALWAYS, class_treeids=ALWAYS, class_weights=ANY,
           class_weights_as_tensor=ANY, classlabels_int64s=ANY, classlabels_strings=ANY, **NODES)  # fmt: skip
def tree_classifier(r):
    width, trees, (low, high) = draw_trees(r)
    classes = r.integer(2, 4)
    draw_labels(r, classes, "classlabels_int64s")
    r.votes = write_votes(r, trees, "class", classes, classes, low, high)
    r.base = draw_base(r, classes)
    r.results = r.integer(1, 2)
    return [tree_features(r, width)]


@oracle(*ml("TreeEnsembleClassifier"))
def tree_classifier_oracle(r, x):
    """With votes for each class; what a single one's mean for two classes stands in ops/ml_tree_ensemble.case."""
    a = r.attributes
    labels = a.get("classlabels_int64s") or a["classlabels_strings"]
    scores = [aggregated(r, row, len(labels))[0] + r.base for row in rows_of(x)]
    z = np.array([transformed(a.get("post_transform", "NONE"), row) for row in scores])
    assert np.isfinite(z).all()
    return [label_array(labels)[[clear_winner(row) for row in scores]], z][: r.results]


# ---- TreeEnsemble ---------------------------------------------------------------------------------------------------

BRANCHES = [*MODES, "BRANCH_MEMBER"]


@generator(*ml("TreeEnsemble"), aggregate_function=(0, 1, 2, 3), leaf_targetids=ANY, leaf_weights=ANY, membership_values=ANY,
           n_targets=ALWAYS, nodes_falseleafs=ANY, nodes_falsenodeids=ANY, nodes_featureids=ANY, nodes_hitrates=ANY,
           nodes_missing_value_tracks_true=ANY, nodes_modes=ANY, nodes_splits=ANY, nodes_trueleafs=ANY, nodes_truenodeids=ANY,
           post_transform=(0, 1, 2, 3, 4), tree_roots=ANY)  # fmt: skip
def tree_ensemble(r):
    width, targets, dtype = r.integer(1, 3), r.draw("n_targets", 1, 2, 3), r.dtype
    members = r.fixed.get("membership_values", ANY) and r.chance(0.7) or r.fixed.get("membership_values") == ANY
    trees = [some_tree(r, width, BRANCHES if members else MODES, r.integer(1, 3)) for _ in range(r.integer(1, 3))]
    how, post = r.draw("aggregate_function"), r.draw("post_transform")
    flat, splits, sets, roots, leaves = [], [], [], [], []
    low, high = (0.01, 0.2) if post in (3, 4) else (-1, 1)
    r.votes = []
    for nodes, n in trees:
        first, first_leaf = len(flat), len(leaves)
        roots.append(first)
        r.votes.append([[(r.integer(0, targets - 1) if how in (0, 1, None) else 0, float(r.values([], low=low, high=high)))] for _ in range(n)])
        leaves += [votes[0] for votes in r.votes[-1]]
        for node in nodes:
            if node[0] == "BRANCH_MEMBER":
                node[2] = sorted({some_split(r) for _ in range(r.integer(1, 3))})
                sets += [*node[2], float("nan")]
            splits.append(0.0 if node[0] == "BRANCH_MEMBER" else node[2])
            flat.append((node, [at[1] + (first if at[0] == "node" else first_leaf) for at in node[4:]]))
    if how in (2, 3):  # a least of nothing is none
        r.set("n_targets", 1)
    tensor = lambda values, kind=dtype: Tensor(np.array(values, NUMPY[kind]), kind)  # noqa: E731
    r.set("tree_roots", roots)
    r.set("nodes_featureids", [node[1] for node, _ in flat])
    r.set("nodes_modes", tensor([BRANCHES.index(node[0]) for node, _ in flat], "u8"))
    r.set("nodes_splits", tensor(splits))
    for side, k in (("true", 0), ("false", 1)):
        r.set(f"nodes_{side}nodeids", [ids[k] for _, ids in flat])
        r.set(f"nodes_{side}leafs", [int(node[4 + k][0] == "leaf") for node, _ in flat])
    if r.draw("nodes_missing_value_tracks_true", None, [node[3] for node, _ in flat]) is None:
        for node, _ in flat:
            node[3] = 0
    r.draw("nodes_hitrates", None, tensor([1.0] * len(flat)))
    r.set("leaf_targetids", [target for target, _ in leaves])
    r.set("leaf_weights", tensor([weight for _, weight in leaves]))
    if sets or r.fixed.get("membership_values") == ANY:
        r.set("membership_values", tensor(sets))
    assert sets or r.fixed.get("membership_values") != ANY
    r.trees = trees
    r.tolerance = 1e-2 if post == 4 else 1e-4
    return [tree_features(r, width)]


@oracle(*ml("TreeEnsemble"))
def tree_ensemble_oracle(r, x):
    a = r.attributes
    how = ("AVERAGE", "SUM", "MIN", "MAX")[a.get("aggregate_function", 1)]
    scores = [aggregated(r, row, a.get("n_targets", 1), how)[0] for row in x.astype(np.float64)]
    y = np.array([transformed(POST[a.get("post_transform", 0)], row) for row in scores])
    assert np.isfinite(y).all()
    return [y]


# ---- support vectors ------------------------------------------------------------------------------------------------

SVM = {"coefficients": ALWAYS, "kernel_params": ANY, "kernel_type": ("LINEAR", "POLY", "RBF", "SIGMOID"), "post_transform": POST,
       "rho": ALWAYS}  # fmt: skip


def draw_kernel(r):
    kind = r.draw("kernel_type")
    if kind not in (None, "LINEAR") or r.fixed.get("kernel_params") == ANY:
        r.draw("kernel_params", [0.3, 0.5, 2.0])
    if r.fixed.get("kernel_params", 0) is None:
        r.set("kernel_type", "LINEAR")
    return kind


def similarity(attributes, x, vectors):
    """[rows, vectors]"""
    gamma, coef0, degree = attributes.get("kernel_params", (0.0, 0.0, 0.0))
    kind = attributes.get("kernel_type", "LINEAR")
    if kind == "RBF":
        return np.exp(-gamma * ((x[:, None] - vectors) ** 2).sum(-1))
    dots = x @ vectors.T
    return {"LINEAR": dots, "POLY": (gamma * dots + coef0) ** degree, "SIGMOID": np.tanh(gamma * dots + coef0)}[kind]


def draw_vectors(r, n, width):
    return floats(r, n * width)


@generator(*ml("SVMRegressor"), n_supports=ANY, one_class=(0, 1), support_vectors=ANY, **SVM)
def svm_regressor(r):
    width, n = r.integer(1, 3), r.integer(1, 4)
    draw_kernel(r)
    r.draw("one_class")
    post = r.draw("post_transform")
    few = 0.02 if post == "PROBIT" else 1.0
    linear = r.fixed.get("n_supports", 0) is None or r.fixed.get("support_vectors", 0) is None
    if linear:
        r.set("kernel_type", "LINEAR")
    else:
        r.set("n_supports", n)
        r.set("support_vectors", draw_vectors(r, n, width))
    r.set("coefficients", floats(r, width if linear else n, -few, few))
    r.set("rho", [r.one_of(0.25, 0.75) if post == "PROBIT" else floats(r, 1)[0]])
    r.tolerance = 1e-2 if post == "PROBIT" else 1e-4
    x = r.values([r.integer(1, 3), width], low=-1, high=1)
    return [x]


@oracle(*ml("SVMRegressor"))
def svm_regressor_oracle(r, x):
    a, x = r.attributes, rows_of(x)
    weights = np.array(a["coefficients"])
    vectors = np.reshape(a["support_vectors"], (-1, x.shape[1])) if a.get("n_supports") else None
    scores = (x @ weights if vectors is None else similarity(a, x, vectors) @ weights) + a["rho"][0]
    if a.get("one_class"):
        assert (abs(scores) > 1e-4).all(), "depends on rounding"
        return [np.where(scores > 0, 1.0, -1.0)[:, None]]
    y = np.array([transformed(a.get("post_transform", "NONE"), [v]) for v in scores])
    assert np.isfinite(y).all()
    return [y]


@generator(*ml("SVMClassifier"), classlabels_ints=ANY, classlabels_strings=ANY, prob_a=ANY, prob_b=ANY, support_vectors=ANY,
           vectors_per_class=ANY, **SVM)  # fmt: skip
def svm_classifier(r):
    width, classes = r.integer(1, 3), r.integer(2, 4)
    draw_labels(r, classes)
    draw_kernel(r)
    post = r.draw("post_transform")
    few = 0.02 if post == "PROBIT" else 1.0
    linear = any(r.fixed.get(name, 0) is None for name in ("support_vectors", "vectors_per_class"))
    likely = not linear and (r.fixed.get("prob_a") == ANY or r.fixed.get("prob_b") == ANY or "prob_a" not in r.fixed and r.chance(0.4))
    likely = likely and r.fixed.get("prob_a", 0) is not None and r.fixed.get("prob_b", 0) is not None
    if linear:
        classes = max(classes, 3)  # of two, what a score says depends on its sign and on others
        for name in ("classlabels_ints", "classlabels_strings"):
            r.attributes.pop(name, None)
        draw_labels(r, classes)
        r.set("kernel_type", "LINEAR")
        r.set("coefficients", floats(r, classes * width, -few, few))
        r.set("rho", [r.one_of(0.25, 0.75) if post == "PROBIT" else floats(r, 1)[0]])
    else:
        counts = [r.integer(1, 3) for _ in range(classes)]
        n, pairs = sum(counts), classes * (classes - 1) // 2
        r.set("vectors_per_class", counts)
        r.set("support_vectors", draw_vectors(r, n, width))
        r.set("coefficients", floats(r, n * (classes - 1), -few, few))
        r.set("rho", floats(r, pairs, 0.6, 0.8) if post == "PROBIT" else floats(r, pairs))
        if likely:
            r.set("prob_a", floats(r, pairs, -2, -0.5))
            r.set("prob_b", floats(r, pairs, -0.3, 0.3))
    r.results = r.integer(1, 2)
    r.tolerance = 5e-2 if post == "PROBIT" else 1e-2 if likely else 1e-4  # coupling stops when it is near enough
    return [r.values([r.integer(1, 3), width], low=-1, high=1)]


def coupled(pairwise):
    """Probabilities of classes: the least disagreement with those of pairs (Wu, Lin and Weng 2004)."""
    n = len(pairwise)
    q = -pairwise.T * pairwise
    q[range(n), range(n)] = (pairwise.T**2).sum(1) - np.diag(pairwise) ** 2
    system = np.block([[q, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    return np.linalg.solve(system, np.array([0.0] * n + [1.0]))[:n]


def pair_scores(a, kernels):
    """Of one row, the machine of each pair of classes, and the votes."""
    counts = a["vectors_per_class"]
    starts, n = np.cumsum([0, *counts]), sum(counts)
    rows = np.reshape(a["coefficients"], (-1, n))
    scores, votes = [], [0] * len(counts)
    for i in range(len(counts)):
        for j in range(i + 1, len(counts)):
            of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            score = rows[j - 1][of_i] @ kernels[of_i] + rows[i][of_j] @ kernels[of_j] + a["rho"][len(scores)]
            assert abs(score) > 1e-4, "depends on rounding"
            votes[i if score > 0 else j] += 1
            scores.append(score)
    return scores, votes


@oracle(*ml("SVMClassifier"))
def svm_classifier_oracle(r, x):
    a, x = r.attributes, rows_of(x)
    labels, post = a.get("classlabels_ints") or a["classlabels_strings"], a.get("post_transform", "NONE")
    classes, chosen, z = len(labels), [], []
    if "support_vectors" not in a:
        scores = x @ np.reshape(a["coefficients"], (classes, -1)).T + a["rho"][0]
        chosen = [clear_winner(row) for row in scores]
        z = [transformed(post, row) for row in scores]
    else:
        vectors = np.reshape(a["support_vectors"], (-1, x.shape[1]))
        for kernels in similarity(a, x, vectors):
            scores, votes = pair_scores(a, kernels)
            chosen.append(int(np.argmax(votes)))  # of those with most votes the first
            if "prob_a" in a:
                pairwise = np.zeros((classes, classes))
                for k, (i, j) in enumerate((i, j) for i in range(classes) for j in range(i + 1, classes)):
                    pairwise[i, j] = 1 / (1 + np.exp(scores[k] * a["prob_a"][k] + a["prob_b"][k]))
                    pairwise[j, i] = 1 - pairwise[i, j]
                assert ((pairwise > 1e-3).sum() == classes * (classes - 1)), "depends on where coupling stops"
                scores = coupled(pairwise)
            single = len(scores) == 1
            z.append(transformed(post, scores, ("opposite" if post == "NONE" else "complement") if single else None))
    assert np.isfinite(z).all()
    return [label_array(labels)[chosen], np.array(z)][: r.results]
