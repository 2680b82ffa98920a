# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU and LSTM. The reference knows few of their attributes."""
import numpy as np

from .core import ANY, generator, oracle

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
# By name: the function of x, alpha and beta, and the defaults of those that it takes.
FUNCTIONS = {
    "relu": (lambda x, a, b: x.clip(0), None, None),
    "tanh": (lambda x, a, b: np.tanh(x), None, None),
    "sigmoid": (lambda x, a, b: 1 / (1 + np.exp(-x)), None, None),
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: np.where(x >= 0, x, a * x), float(np.float32(0.01)), None),
    "thresholdedrelu": (lambda x, a, b: np.where(x > a, x, 0), 1.0, None),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: (a * x + b).clip(0, 1), float(np.float32(0.2)), 0.5),
    "elu": (lambda x, a, b: np.where(x >= 0, x, a * (np.exp(x) - 1)), 1.0, None),
    "softsign": (lambda x, a, b: x / (1 + abs(x)), None, None),
    "softplus": (lambda x, a, b: np.log1p(np.exp(x)), None, None),
}  # fmt: skip
NAMES = ("Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu", "Softsign",
         "Softplus")  # fmt: skip
SHARED = {"activation_alpha": ANY, "activation_beta": ANY, "activations": ANY, "clip": ANY,
          "direction": ("forward", "reverse", "bidirectional"), "hidden_size": ANY, "layout": (0, 1)}  # fmt: skip


def draw_activations(r, op, directions):
    names = r.draw("activations", None, [r.one_of(*NAMES) for _ in ACTIVATIONS[op] * directions])
    takers = [sum(FUNCTIONS[name.lower()][k] is not None for name in names or ()) for k in (1, 2)]
    for name, n in zip(("activation_alpha", "activation_beta"), takers):
        most = [float(v) for v in r.rng.uniform(0.2, 0.9, max(n, 1))]
        r.draw(name, None, most[: r.integer(1, max(n, 1))])
        if not n and name not in r.fixed:  # nobody takes it
            r.attributes.pop(name, None)


def draw_layer(r, op):
    steps, batch, size, hidden = r.integer(1, 4), r.integer(1, 3), r.integer(1, 3), r.integer(1, 3)
    directions = 2 if r.draw("direction") == "bidirectional" else 1
    r.draw("hidden_size", hidden, *[None] * ("hidden_size" in r.fixed or r.chance(0.3)))
    r.draw("clip", None, 0.8, 2.0)
    draw_activations(r, op, directions)
    return steps, batch, size, hidden, directions


def states(r, dims, n=1):
    directions, batch, hidden = dims
    shape = [batch, directions, hidden] if r.attributes.get("layout") else [directions, batch, hidden]
    return [r.values(shape, low=-1, high=1) if r.chance(0.5) else None for _ in range(n)]


@generator("RNN", **SHARED)
@generator("GRU", linear_before_reset=(0, 1), **SHARED)
@generator("LSTM", input_forget=(0, 1), **SHARED)
def recurrent(r):
    op = r.schema.name
    for name in ("linear_before_reset", "input_forget", "layout"):
        if name in r.schema.attributes:
            r.draw(name)
    steps, batch, size, hidden, directions = draw_layer(r, op)
    gates = GATES[op] * hidden
    x = r.values([batch, steps, size] if r.attributes.get("layout") else [steps, batch, size], low=-1, high=1)
    weights = [r.values([directions, gates, n], low=-1, high=1) for n in (size, hidden)]
    bias = r.values([directions, 2 * gates], low=-1, high=1) if r.chance(0.6) else None
    lens = r.rng.integers(1, steps + 1, batch).astype(np.int32) if r.chance(0.5) else None
    given = states(r, (directions, batch, hidden), 2 if op == "LSTM" else 1)
    peepholes = [r.values([directions, 3 * hidden], low=-1, high=1)] if op == "LSTM" and r.chance(0.5) else []
    r.results = r.integer(1, 3 if op == "LSTM" else 2)
    return [x, *weights, bias, lens, *given, *peepholes]


def activations_of(attributes, op, directions):
    """Alphas and betas go to those that take one, in order."""
    names = attributes.get("activations") or ACTIVATIONS[op] * directions
    alphas, betas = iter(attributes.get("activation_alpha", ())), iter(attributes.get("activation_beta", ()))
    limit = attributes.get("clip", np.inf)
    found = []
    for name in names:
        function, alpha, beta = FUNCTIONS[name.lower()]
        alpha = alpha if alpha is None else next(alphas, alpha)
        beta = beta if beta is None else next(betas, beta)
        found.append(lambda x, f=function, a=alpha, b=beta: f(np.clip(x, -limit, limit), a, b))
    return found


def one_cell(op, attributes, acts, x, h, c, weights, recurrence, bias, peepholes):
    """The next state of one sequence. bias: [2, gates, hidden]"""
    n = len(h)
    from_x = (weights @ x).reshape(-1, n) + bias[0]
    from_h = (recurrence @ h).reshape(-1, n)
    if op == "RNN":
        return acts[0]((from_x + from_h + bias[1])[0]), c
    if op == "GRU":
        z, r = (acts[0](from_x[k] + from_h[k] + bias[1][k]) for k in (0, 1))
        if attributes.get("linear_before_reset"):
            g = acts[1](from_x[2] + r * (from_h[2] + bias[1][2]))
        else:
            g = acts[1](from_x[2] + recurrence.reshape(3, n, n)[2] @ (r * h) + bias[1][2])
        return (1 - z) * g + z * h, c
    gates = from_x + from_h + bias[1]
    i = acts[0](gates[0] + peepholes[0] * c)
    f = 1 - i if attributes.get("input_forget") else acts[0](gates[2] + peepholes[2] * c)
    c = f * c + i * acts[1](gates[3])
    return acts[0](gates[1] + peepholes[1] * c) * acts[2](c), c


def run_layers(op, attributes, x, w, r, b=None, lens=None, h=None, c=None, p=None, rounded=lambda v: v):
    """Y, Y_h, Y_c in double. rounded: what becomes of inputs and of states before they are multiplied."""
    x, w, r = (np.asarray(v, np.float64) for v in (x, w, r))
    batch_first, direction = attributes.get("layout"), attributes.get("direction", "forward")
    x = x.swapaxes(0, 1) if batch_first else x
    steps, batch, directions, hidden = x.shape[0], x.shape[1], w.shape[0], r.shape[2]
    acts = activations_of(attributes, op, directions)
    b = np.zeros((directions, 2, GATES[op], hidden)) if b is None else b.reshape(directions, 2, GATES[op], hidden).astype(np.float64)
    p = np.zeros((directions, 3, hidden)) if p is None else p.reshape(directions, 3, hidden).astype(np.float64)
    state = [np.zeros((directions, batch, hidden)) if v is None else (v.swapaxes(0, 1) if batch_first else v).astype(np.float64) for v in (h, c)]
    y, n = np.zeros((steps, directions, batch, hidden)), len(ACTIVATIONS[op])
    x, lengths = rounded(x), [steps] * batch if lens is None else [int(length) for length in lens]
    for d, k in np.ndindex(directions, steps):
        before = rounded(state[0][d])
        for s in (s for s in range(batch) if k < lengths[s]):
            t = lengths[s] - 1 - k if direction == "reverse" or d == 1 else k
            cell = acts[d * n : (d + 1) * n], x[t, s], before[s], state[1][d, s], w[d], r[d], b[d], p[d]
            state[0][d, s], state[1][d, s] = one_cell(op, attributes, *cell)
            y[t, d, s] = state[0][d, s]
    if batch_first:
        y, state = y.transpose(2, 0, 1, 3), [v.swapaxes(0, 1) for v in state]
    return [y, *state]


@oracle("RNN", "GRU", "LSTM")
def recurrent_oracle(r, *operands):
    return run_layers(r.schema.name, r.attributes, *operands)[: r.results]
