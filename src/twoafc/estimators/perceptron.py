"""The five-input network of section 3.2 in numpy: its gradient, and the two ways down to a small NLL.

The training data are rows of eight numbers: the five inputs, a constant one, n and M.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from twoafc.arrays import FloatArray, IntArray

# Adam works in float32, which is faster and loses nothing beside the noise of its batches; the rest in float64.
RealArray = NDArray[np.floating[Any]]

LAYERS = ((32, 5 + 1), (32, 32 + 1), (1, 32 + 1))
"""Units and columns of each layer: a unit's weights, then its bias, which multiplies a constant input of one.

A layer is then a single matrix product, forward and backward.
"""
PARAMETERS = sum(units * columns for units, columns in LAYERS)
EPS, SLOPE = 0.1, 0.2
BETA1, BETA2, ADAM_EPS = 0.9, 0.999, 1e-8
LATTICE = 64
"""Cells along each axis of the plane on which L-BFGS counts the votes."""
ITERATIONS = 100
"""Of L-BFGS: more follow the noise of a small table (300 triplets), fewer fall short on a large one (150,000)."""
CHUNK = 192
"""Rows handled at once: beyond some 250 BLAS wakes its other threads, at many times the cost on a busy machine."""


class Net:
    """The network for batches of one size: views into the parameters, and buffers that every batch uses again."""

    def __init__(self, parameters: RealArray, size: int) -> None:
        self.parameters, self.gradient = parameters, np.empty_like(parameters)
        self.weights, self.gradients = _by_layer(self.parameters), _by_layer(self.gradient)
        self.hidden: RealArray = np.ones((2, 32 + 1, size), parameters.dtype)  # the last row stays one
        self.back: RealArray = np.empty((2, 32, size), parameters.dtype)
        self.slope: RealArray = np.empty((32, size), parameters.dtype)
        self.logit: RealArray = np.empty((1, size), parameters.dtype)

    def sized(self, size: int) -> Net:
        """Give the network itself or, for the shorter batch at the end, its like on the same parameters."""
        return self if size == self.logit.size else Net(self.parameters, size)

    def forward(self, X: RealArray) -> RealArray:
        """Compute the logits, shape (B,), of inputs of shape (B, 6); they stand in a buffer."""
        x = X.T
        for weights, hidden in zip(self.weights[:-1], self.hidden, strict=True):
            z = hidden[:-1]
            np.matmul(weights, x, out=z)
            np.maximum(z, np.multiply(z, SLOPE, out=self.slope), out=z)
            x = hidden
        np.matmul(self.weights[-1], x, out=self.logit)
        return np.asarray(self.logit[0])

    def backward(self, X: RealArray, error: RealArray) -> RealArray:
        """Compute the gradient by the parameters from that by the logits, after `forward`; it stands in a buffer."""
        above = error[None]
        for layer in (2, 1):
            x, back = self.hidden[layer - 1], self.back[layer - 1]
            np.matmul(above, x.T, out=self.gradients[layer])
            np.matmul(self.weights[layer][:, :-1].T, above, out=back)
            np.greater(x[:-1], 0, out=self.slope)
            back *= np.maximum(self.slope, SLOPE, out=self.slope)
            above = back
        np.matmul(above, X, out=self.gradients[0])
        return self.gradient


class Adam:
    """The descent of Kingma and Ba (2015), on all parameters as one vector."""

    def __init__(self, parameters: RealArray, rate: float) -> None:
        self.parameters, self.rate, self.steps = parameters, rate, 0
        self.first, self.second, self.move = np.zeros((3, len(parameters)), parameters.dtype)

    def step(self, gradient: RealArray) -> None:
        """Move the parameters, in place."""
        # The moments are kept without their factors 1 - beta, which join the corrections for bias.
        first, second, move = self.first, self.second, self.move
        self.steps += 1
        first *= BETA1
        first += gradient
        second *= BETA2
        second += np.multiply(gradient, gradient, out=move)
        np.sqrt(second, out=move)
        move *= math.sqrt((1 - BETA2) / (1 - BETA2**self.steps))
        move += ADAM_EPS
        np.divide(first, move, out=move)
        move *= self.rate * (1 - BETA1) / (1 - BETA1**self.steps)
        self.parameters -= move


def _by_layer(flat: RealArray) -> list[RealArray]:
    ends = np.cumsum([units * columns for units, columns in LAYERS])
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), LAYERS, strict=True)]


def initial(rng: np.random.Generator) -> FloatArray:
    """Draw weights and biases within 1 / sqrt(number of inputs) of zero, evenly."""
    return np.concatenate([rng.uniform(-1, 1, units * columns) / math.sqrt(columns - 1) for units, columns in LAYERS])


def write_inputs(X: RealArray, x0: FloatArray, x1: FloatArray) -> None:
    """Write the five inputs and the constant into the first six columns of X."""
    X[:, 0], X[:, 1], X[:, 5] = x0, x1, 1
    X[:, 2] = x0 - x1
    X[:, 3] = x0 / (x1 + EPS)
    X[:, 4] = x1 / (x0 + EPS)


def mirrored_rows(x0: FloatArray, x1: FloatArray, n: IntArray, M: IntArray) -> RealArray:
    """Make the training rows: the triplets, then their mirrors."""
    T = len(n)
    rows = np.empty((2 * T, 8), np.float32)
    write_inputs(rows[:T], x0, x1)
    write_inputs(rows[T:], x1, x0)
    rows[:T, 6], rows[T:, 6] = n, M - n
    rows[:T, 7] = rows[T:, 7] = M
    return rows


def counted_rows(
    u: tuple[FloatArray, FloatArray],
    x: tuple[FloatArray, FloatArray],
    n: IntArray,
    M: IntArray,
    count: IntArray | None = None,
) -> RealArray:
    """Add up the mirrored rows in each cell of a lattice over u = (u0, u1) in [0, 1]^2, at its votes' mean x.

    A row is one triplet or `count` that are alike.
    """
    (u0, u1), (x0, x1) = u, x
    i, j = (np.minimum(u * LATTICE, LATTICE - 1).astype(np.intp) for u in (u0, u1))

    def total(weights: FloatArray | IntArray) -> FloatArray:
        weighted = weights if count is None else weights * count
        return np.asarray(np.bincount(i * LATTICE + j, weighted, LATTICE**2).reshape(LATTICE, LATTICE), np.float64)

    N, D, sum0, sum1 = total(n), total(M), total(M * x0), total(M * x1)
    N, D, sum0, sum1 = N + (D - N).T, D + D.T, sum0 + sum1.T, sum1 + sum0.T
    seen = D > 0
    rows = np.empty((np.count_nonzero(seen), 8))
    write_inputs(rows, sum0[seen] / D[seen], sum1[seen] / D[seen])
    rows[:, 6], rows[:, 7] = N[seen], D[seen]
    return rows


def logits(parameters: RealArray, X: RealArray) -> FloatArray:
    """Compute the logit of P for any number of inputs."""
    z = np.empty(len(X))
    whole = Net(parameters.astype(X.dtype), CHUNK)
    for start in range(0, len(X), CHUNK):
        chunk = X[start : start + CHUNK]
        z[start : start + CHUNK] = whole.sized(len(chunk)).forward(chunk)
    return z


def losses(z: RealArray, rows: RealArray) -> RealArray:
    """Compute -n log P - (M - n) log(1 - P), from the logits so that no logarithm meets a zero."""
    return np.asarray(rows[:, 7] * np.logaddexp(0, z) - rows[:, 6] * z)


def errors(z: RealArray, rows: RealArray) -> RealArray:
    """Replace the logits by the derivative of each row's loss by its logit, M P - n."""
    expit(z, out=z)
    z *= rows[:, 7]
    z -= rows[:, 6]
    return z


def mean_loss(parameters: RealArray, rows: RealArray, count: IntArray | None = None) -> float:
    """Average the loss over the rows, each of them taken `count` times."""
    return float(np.average(losses(logits(parameters, rows[:, :6]), rows), weights=count))


def descend_adam(
    rows: RealArray, *, epochs: int, batch_size: int, learning_rate: float, seed: int
) -> tuple[FloatArray, list[float]]:
    """Minimise the mean loss in small batches; give the parameters, and the mean loss after each epoch.

    The run ends early once that is no longer finite.
    """
    rng = np.random.default_rng(seed)
    parameters: RealArray = initial(rng).astype(rows.dtype)
    adam = Adam(parameters, learning_rate)
    size = min(batch_size, len(rows))
    whole, buffer = Net(parameters, size), np.empty((size, 8), rows.dtype)
    history: list[float] = []
    while len(history) < epochs and all(map(math.isfinite, history)):
        order = rng.permutation(len(rows))
        for start in range(0, len(rows), size):
            chosen = order[start : start + size]
            # "clip" because the default, which checks the indices, copies the batch once more.
            batch = rows.take(chosen, axis=0, out=buffer[: len(chosen)], mode="clip")
            net = whole.sized(len(batch))
            error = errors(net.forward(batch[:, :6]), batch)
            error /= len(batch)
            adam.step(net.backward(batch[:, :6], error))
        history.append(mean_loss(parameters, rows))
    return parameters.astype(np.float64), history


def descend_lbfgs(rows: RealArray, *, seed: int) -> FloatArray:
    """Minimise the loss of all rows at once; give the parameters."""
    from scipy.optimize import minimize  # slow to import, and Adam does without

    first = initial(np.random.default_rng(seed))
    whole = Net(first.copy(), CHUNK)
    # Per vote, so that the first step and the rule for stopping do not depend on the size of the table.
    votes = rows[:, 7].sum()

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        whole.parameters[:] = parameters
        total, gradient = 0.0, np.zeros(PARAMETERS)
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            net = whole.sized(len(chunk))
            z = net.forward(chunk[:, :6])
            total += float(losses(z, chunk).sum())
            gradient += net.backward(chunk[:, :6], errors(z, chunk))
        return total / votes, gradient / votes

    found = minimize(loss, first, method="L-BFGS-B", jac=True, options={"maxiter": ITERATIONS})
    return np.asarray(found.x)
