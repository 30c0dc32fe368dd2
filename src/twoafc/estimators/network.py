"""P over the plane of the two distances, by a small neural network: section 3.2 of the paper, in numpy.

Its training data are rows of eight numbers: the five inputs, a constant one, n and M.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform, log_coefficient, one_thread, require_numbers
from twoafc.errors import DataError
from twoafc.estimators.saved import Model
from twoafc.public import public
from twoafc.table import as_votes

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
"""Rows handled at once: beyond some 250 BLAS starts threads, at many times the cost on a busy machine."""
TOLERANCE = 0.01
"""Share by which a training NLL may exceed that of P = 1/2.

If the distance is useless, Adam ends near it on either side, within 0.007 for 300 triplets and more: not a failure.
"""


@public
@dataclass(frozen=True)
class Network:
    """Settings of the network estimator; the defaults are the paper's.

    Five inputs d0, d1, d0 - d1, d0 / (d1 + 0.1), d1 / (d0 + 0.1), two layers of 32 leaky rectifiers (slope 0.2) and a
    sigmoid minimise the binomial NLL (eq. 3) of the training triplets and their mirrors (d1, d0, M - n). The symmetry
    P(d0, d1) = 1 - P(d1, d0) is thus learnt, not exact.

    Parameters
    ----------
    solver : {"adam", "lbfgs"}
        Adam on shuffled batches, as in the paper; or L-BFGS on all votes at once, counted on a 64 x 64 lattice, which
        is faster and ends at a lower NLL.
    inputs : {"uniform", "raw"}
        Distances mapped to [0, 1] by their own distribution function, or as they are: 0.1 suits values of order one.
    epochs, batch_size : int, at least 1
        Schedule of Adam, in passes over the mirrored triplets and in triplets per step.
    learning_rate : float, above 0
        Step of Adam.
    seed : int, at least 0
        Decides the initial parameters and, for Adam, the order of the triplets.

    Examples
    --------
    >>> from twoafc.table import Triplets
    >>> table = Triplets.from_frame({"n": [2, 0], "M": [2, 2], "d0": [0.9, 0.1], "d1": [0.2, 0.6]})
    >>> fit = Network(solver="lbfgs").fit(table)
    >>> fit.probability([0.9, 0.2], [0.2, 0.9]).round(3)
    array([1., 0.])
    """

    solver: Literal["adam", "lbfgs"] = "adam"
    inputs: Literal["uniform", "raw"] = "uniform"
    epochs: int = 5
    batch_size: int = 128
    learning_rate: float = 1e-3
    seed: int = 0

    training_noise: ClassVar[None] = None
    """Not estimated: fits to halves of the training table would take minutes."""
    takes_counts: ClassVar[Literal[True]] = True

    def __post_init__(self) -> None:
        if self.solver not in ("adam", "lbfgs"):
            raise ValueError(f"solver must be 'adam' or 'lbfgs'; found {self.solver!r}")
        if self.inputs not in ("uniform", "raw"):
            raise ValueError(f"inputs must be 'uniform' or 'raw'; found {self.inputs!r}")
        for name, least in {"epochs": 1, "batch_size": 1, "seed": 0}.items():
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be a whole number, at least {least}; found {value!r}")
            object.__setattr__(self, name, int(value))  # numpy's integers cannot be saved as settings
        if not isinstance(self.learning_rate, Real) or not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be a positive number; found {self.learning_rate!r}")

    @one_thread()
    def fit(self, table: Any) -> NetworkFit:
        """Fit P to a table, path or frame with one distance; a run that diverges raises nothing, the fit reports it."""
        table = as_votes(table)
        if table.k == 1:
            raise ValueError("network does not support pairs; use density or spline")
        if len(table.n) == 0:
            raise DataError("the network needs at least one triplet to learn from; the table has none")
        mass = table.mass
        if table.count is not None and self.solver == "adam":
            raise ValueError("Adam needs single triplets, not counts; use Network(solver='lbfgs')")
        uniform, u0, u1 = table.uniformised()
        x0, x1 = (u0, u1) if self.inputs == "uniform" else table.columns
        rows = mirrored_rows(x0, x1, table.n, table.M)
        with np.errstate(all="ignore"):
            if self.solver == "adam":
                # Of mean one, so that the mean loss is the weighted mean.
                rows[:, 6:] *= np.tile(mass / mass.mean(), 2)[:, None]
                parameters, history = descend_adam(rows, self)
            else:
                counted = counted_rows((u0, u1), (x0, x1), table.n, table.M, mass)
                parameters = descend_lbfgs(counted, self.seed)
                history = [mean_loss(parameters, rows, np.tile(mass, 2))]
        coefficient = float(np.average(log_coefficient(table.n, table.M), weights=mass))
        return NetworkFit(
            settings=self,
            uniform=uniform if self.inputs == "uniform" else None,
            parameters=parameters,
            training_nll=np.array(history) - coefficient,
            chance_nll=math.log(2) * float(np.average(table.M, weights=mass)) - coefficient,
        )


@dataclass(frozen=True, eq=False, repr=False)
class NetworkFit(Model):
    """A fitted network."""

    settings: Network
    uniform: Uniform | None  # the map of the distances; None for raw inputs
    parameters: FloatArray  # layer by layer and unit by unit: the weights, then the bias, shape (1281,)
    training_nll: FloatArray  # of triplets and mirrors after each epoch, until it is not finite; of L-BFGS the last
    chance_nll: float  # the same for P = 1/2

    name: ClassVar[str] = "network"

    def __repr__(self) -> str:
        inputs = f"{self.settings.inputs} inputs, seed {self.settings.seed}"
        return f"NetworkFit({self.settings.solver}, {inputs}, training NLL {self.training_nll[-1]:.4g})"

    @property
    def diverged(self) -> bool:
        """Whether the run failed: a number is not finite, or the last NLL is worse than that of P = 1/2."""
        finite = np.isfinite(self.training_nll).all() and np.isfinite(self.parameters).all()
        return not (finite and self.training_nll[-1] <= (1 + TOLERANCE) * self.chance_nll)

    def probability(self, d0: ArrayLike, d1: ArrayLike) -> FloatArray:
        """Chance that x1 is chosen, for distances of any shape; NaN where the run gave no number."""
        d0, d1 = np.broadcast_arrays(require_numbers(d0), require_numbers(d1))
        x0, x1 = (d0, d1) if self.uniform is None else (self.uniform(d0), self.uniform(d1))
        X = np.empty((d0.size, 6))
        with np.errstate(all="ignore"):
            write_inputs(X, x0.ravel(), x1.ravel())
            P = expit(logits(self.parameters, X))
        return np.asarray(P.reshape(d0.shape))

    def summary(self) -> dict[str, Any]:
        """Describe the fit on the card of a result."""
        return {"training_nll": self.training_nll.tolist(), "diverged": self.diverged}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a saved model."""
        own = {name: np.asarray(getattr(self, name)) for name in ("parameters", "training_nll", "chance_nll")}
        return own | ({} if self.uniform is None else self.uniform.arrays())

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NetworkFit:
        """Build a fit from the settings and arrays of a saved model."""
        network = Network(**settings)
        uniform = Uniform.restore(arrays) if network.inputs == "uniform" else None
        return cls(network, uniform, arrays["parameters"], arrays["training_nll"], float(arrays["chance_nll"]))


def layers(parameters: RealArray) -> list[RealArray]:
    """The matrices of the layers, as views of all parameters."""
    ends = np.cumsum([units * columns for units, columns in LAYERS])
    return [part.reshape(shape) for part, shape in zip(np.split(parameters, ends[:-1]), LAYERS, strict=True)]


def forward(weights: Sequence[RealArray], X: RealArray) -> tuple[list[RealArray], RealArray]:
    """Compute what enters each layer, shape (columns, B), and the logits, shape (B,), of inputs of shape (B, 6)."""
    entering = [X.T]
    for matrix in weights[:-1]:
        hidden = np.empty((len(matrix) + 1, len(X)), X.dtype)
        z = np.matmul(matrix, entering[-1], out=hidden[:-1])
        np.maximum(z, SLOPE * z, out=z)
        hidden[-1] = 1  # for the biases
        entering.append(hidden)
    return entering, (weights[-1] @ entering[-1])[0]


def backward(weights: Sequence[RealArray], entering: Sequence[RealArray], error: RealArray) -> RealArray:
    """Compute the gradient by the parameters from that by the logits, after `forward`."""
    above, gradients = error[None], []
    for matrix, x in zip(weights[:0:-1], entering[:0:-1], strict=True):
        gradients.append((above @ x.T).ravel())
        above = matrix[:, :-1].T @ above
        above *= np.maximum(np.sign(x[:-1]), SLOPE)
    gradients.append((above @ entering[0].T).ravel())
    return np.concatenate(gradients[::-1])


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
    mass: FloatArray,
) -> RealArray:
    """Add up the mirrored rows in each cell of a lattice over u = (u0, u1) in [0, 1]^2, at its votes' mean x."""
    (u0, u1), (x0, x1) = u, x
    i, j = (np.minimum(u * LATTICE, LATTICE - 1).astype(np.intp) for u in (u0, u1))

    def total(weights: FloatArray | IntArray) -> FloatArray:
        sums = np.bincount(i * LATTICE + j, weights * mass, LATTICE**2)
        return np.asarray(sums.reshape(LATTICE, LATTICE), np.float64)

    N, D, sum0, sum1 = total(n), total(M), total(M * x0), total(M * x1)
    N, D, sum0, sum1 = N + (D - N).T, D + D.T, sum0 + sum1.T, sum1 + sum0.T
    seen = D > 0
    rows = np.empty((np.count_nonzero(seen), 8))
    write_inputs(rows, sum0[seen] / D[seen], sum1[seen] / D[seen])
    rows[:, 6], rows[:, 7] = N[seen], D[seen]
    return rows


def logits(parameters: RealArray, X: RealArray) -> FloatArray:
    """Compute the logit of P for any number of inputs."""
    weights = layers(parameters.astype(X.dtype))
    parts = [forward(weights, X[start : start + CHUNK])[1] for start in range(0, len(X), CHUNK)]
    return np.concatenate([np.empty(0), *parts])


def losses(z: RealArray, rows: RealArray) -> RealArray:
    """Compute -n log P - (M - n) log(1 - P), from the logits so that no logarithm meets a zero."""
    return np.asarray(rows[:, 7] * np.logaddexp(0, z) - rows[:, 6] * z)


def errors(z: RealArray, rows: RealArray) -> RealArray:
    """Compute the derivative of each row's loss by its logit, M P - n."""
    return np.asarray(rows[:, 7] * expit(z) - rows[:, 6])


def mean_loss(parameters: RealArray, rows: RealArray, mass: FloatArray | None = None) -> float:
    """Average the loss over the rows, each of which counts for its `mass`."""
    return float(np.average(losses(logits(parameters, rows[:, :6]), rows), weights=mass))


def descend_adam(rows: RealArray, settings: Network) -> tuple[FloatArray, list[float]]:
    """Minimise the mean loss in small batches (Kingma and Ba, 2015); return the parameters, and each epoch's mean loss.

    The run ends early once that is no longer finite.
    """
    rng = np.random.default_rng(settings.seed)
    parameters: RealArray = initial(rng).astype(rows.dtype)
    weights, size, steps = layers(parameters), min(settings.batch_size, len(rows)), 0
    first, second = np.zeros((2, PARAMETERS), rows.dtype)
    history: list[float] = []
    while len(history) < settings.epochs and all(map(math.isfinite, history)):
        order = rng.permutation(len(rows))
        for start in range(0, len(rows), size):
            batch = rows.take(order[start : start + size], axis=0)
            entering, z = forward(weights, batch[:, :6])
            gradient = backward(weights, entering, errors(z, batch) / len(batch))
            # The moments are kept without their factors 1 - beta, which join the corrections for bias.
            steps += 1
            first *= BETA1
            first += gradient
            second *= BETA2
            second += gradient**2
            usual = np.sqrt(second) * math.sqrt((1 - BETA2) / (1 - BETA2**steps)) + ADAM_EPS
            parameters -= first / usual * (settings.learning_rate * (1 - BETA1) / (1 - BETA1**steps))
        history.append(mean_loss(parameters, rows))
    return parameters.astype(np.float64), history


def descend_lbfgs(rows: RealArray, seed: int) -> FloatArray:
    """Minimise the loss of all rows at once; return the parameters."""
    from scipy.optimize import minimize  # slow to import, and Adam does without

    # Per vote, so that the first step and the rule for stopping do not depend on the size of the table.
    votes = rows[:, 7].sum()

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        weights = layers(parameters)
        total, gradient = 0.0, np.zeros(PARAMETERS)
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            entering, z = forward(weights, chunk[:, :6])
            total += float(losses(z, chunk).sum())
            gradient += backward(weights, entering, errors(z, chunk))
        return total / votes, gradient / votes

    first = initial(np.random.default_rng(seed))
    result = minimize(loss, first, method="L-BFGS-B", jac=True, options={"maxiter": ITERATIONS})
    return np.asarray(result.x)
