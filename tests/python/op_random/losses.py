# SPDX-License-Identifier: Apache-2.0
"""What training needs: losses, and steps of optimisers."""
import numpy as np

from .core import ANY, generator, oracle
from .types import NUMPY

# ---- losses ---------------------------------------------------------------------------------------------------------


@generator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", ignore_index=ANY, reduction=("none", "sum", "mean"))
def loss(r):
    n, classes, space = r.integer(1, 3), r.integer(1, 4), r.shape(high=2, smallest=1)
    r.draw("reduction")
    ignored = r.draw("ignore_index", None, 0, -1, 7)
    target = r.rng.integers(0, classes, [n, *space])
    if ignored is not None:
        target = np.where(r.rng.random(target.shape) < 0.3, ignored, target)
        target.flat[0] = 0 if ignored else classes - 1  # a mean of nothing is none
        assert target.flat[0] != ignored
    weight = r.values([classes], low=0.2, high=2) if r.chance(0.5) else None
    r.results = r.integer(1, 2) if r.op == "SoftmaxCrossEntropyLoss" else 1
    return [r.values([n, classes, *space]), target.astype(NUMPY[r.types["Tind"]]), weight]


@oracle("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss_oracle(r, x, target, weight=None):
    """Ignored elements weigh nothing: "the sum of the output will be divided by the sum of applied weights"."""
    x = log_probabilities = x.astype(np.float64)
    if r.op == "SoftmaxCrossEntropyLoss":
        x = x - x.max(1, keepdims=True)
        x = log_probabilities = x - np.log(np.exp(x).sum(1, keepdims=True))
    ignored = r.attributes.get("ignore_index")
    counts = np.ones(target.shape, bool) if ignored is None else target != ignored
    classes = np.where(counts, target, 0).astype(int)
    weights = counts * (1.0 if weight is None else weight.astype(np.float64)[classes])
    each = -np.take_along_axis(x, np.expand_dims(classes, 1), 1)[:, 0] * weights
    how = r.attributes.get("reduction", "mean")
    y = each if how == "none" else each.sum() if how == "sum" else each.sum() / weights.sum()
    return [y, log_probabilities][: r.results]


# ---- optimisers -----------------------------------------------------------------------------------------------------

TRAINING = "ai.onnx.preview.training."


def tensors(r, n):
    """The rate, the turn, then n groups of one tensor each for as many tensors as are trained."""
    shapes = [r.shape(high=3) for _ in range(r.integer(1, 2))]
    rate = np.asarray(r.values([], "T1", low=0.01, high=0.5))
    turn = np.asarray(r.integer(0, 3), np.int64)
    r.results = len(shapes) * (n - 1)
    r.shapes = shapes
    return [rate, turn], shapes


@generator(TRAINING + "Adagrad", decay_factor=ANY, epsilon=ANY, norm_coefficient=ANY)
def adagrad(r):
    r.draw("decay_factor", None, 0.1)
    r.draw("epsilon", None, 0.01)
    r.draw("norm_coefficient", None, 0.3)
    head, shapes = tensors(r, 3)
    values = lambda **kwargs: [r.values(shape, "T3", **kwargs) for shape in shapes]  # noqa: E731
    return head + values() + values() + values(low=0.1)


@generator(TRAINING + "Adam", alpha=ANY, beta=ANY, epsilon=ANY, norm_coefficient=ANY, norm_coefficient_post=ANY)
def adam(r):
    for name, value in (("alpha", 0.7), ("beta", 0.8), ("epsilon", 0.01), ("norm_coefficient", 0.3), ("norm_coefficient_post", 0.2)):
        r.draw(name, None, value)
    head, shapes = tensors(r, 4)
    values = lambda **kwargs: [r.values(shape, "T3", **kwargs) for shape in shapes]  # noqa: E731
    return head + values() + values() + values() + values(low=0.1)


@generator(TRAINING + "Momentum", alpha=ANY, beta=ANY, mode=("standard", "nesterov"), norm_coefficient=ANY)
def momentum(r):
    for name in ("alpha", "beta", "norm_coefficient"):
        r.draw(name, 0.3, 0.7)
    r.draw("mode")
    head, shapes = tensors(r, 3)
    values = lambda **kwargs: [r.values(shape, "T3", **kwargs) for shape in shapes]  # noqa: E731
    return head + values() + values() + values()


@oracle(TRAINING + "Adagrad")
def adagrad_oracle(r, rate, turn, *operands):
    a, n = r.attributes, len(operands) // 3
    rate = float(rate) / (1 + int(turn) * a.get("decay_factor", 0.0))
    new = []
    for x, g, h in zip(operands[:n], operands[n : 2 * n], operands[2 * n :]):
        g = g.astype(np.float64) + a.get("norm_coefficient", 0.0) * x
        h = h + g * g
        new.append((x - rate * g / (np.sqrt(h) + a.get("epsilon", np.float32(1e-6))), h))
    return [x for x, _ in new] + [h for _, h in new]


@oracle(TRAINING + "Adam")
def adam_oracle(r, rate, turn, *operands):
    a, n, rate, turn = r.attributes, len(operands) // 4, float(rate), int(turn)
    alpha, beta = float(a.get("alpha", np.float32(0.9))), float(a.get("beta", np.float32(0.999)))
    new = []
    for x, g, v, h in zip(*(operands[k * n : (k + 1) * n] for k in range(4))):
        g = g.astype(np.float64) + a.get("norm_coefficient", 0.0) * x
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        step = rate * np.sqrt(1 - beta**turn) / (1 - alpha**turn) if turn > 0 else rate
        x = (1 - a.get("norm_coefficient_post", 0.0)) * (x - step * v / (np.sqrt(h) + a.get("epsilon", np.float32(1e-6))))
        new.append((x, v, h))
    return [part[k] for k in range(3) for part in new]


@oracle(TRAINING + "Momentum")
def momentum_oracle(r, rate, turn, *operands):
    a, n = r.attributes, len(operands) // 3
    new = []
    for x, g, v in zip(operands[:n], operands[n : 2 * n], operands[2 * n :]):
        g = g.astype(np.float64) + a["norm_coefficient"] * x
        v = a["alpha"] * v + (a["beta"] if int(turn) > 0 else 1) * g
        new.append((x - float(rate) * (g + a["alpha"] * v if a["mode"] == "nesterov" else v), v))
    return [x for x, _ in new] + [v for _, v in new]
