"""P over the plane of the two distances, by a small neural network: section 3.2 of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from twoafc.arrays import FloatArray
from twoafc.core import Uniform, log_coefficient, require_numbers
from twoafc.errors import DataError
from twoafc.estimators.perceptron import (
    PARAMETERS,
    counted_rows,
    descend_adam,
    descend_lbfgs,
    logits,
    mean_loss,
    mirrored_rows,
    write_inputs,
)
from twoafc.files import save_archive
from twoafc.table import Rows

TOLERANCE = 0.01
"""Share by which a training NLL may exceed that of P = 1/2.

Where the distance says nothing of the votes a sound run of Adam ends near it on either side, within 0.007 of it for 300
triplets and more: that is no failure.
"""


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

    def fit(self, table: Rows) -> NetworkFit:
        """Fit P to a table with one distance; a run that explodes gives no warning but a fit that says so."""
        if table.k == 1:
            raise ValueError("network has no form for pairs; use density or spline")
        if len(table.n) == 0:
            raise DataError("the network needs at least one triplet to learn from; the table has none")
        count = table.count
        if count is not None and self.solver == "adam":
            raise ValueError("Adam takes triplets one at a time, and counts have none; use Network(solver='lbfgs')")
        uniform, u0, u1 = table.uniformised()
        x0, x1 = (u0, u1) if self.inputs == "uniform" else table.columns
        rows = mirrored_rows(x0, x1, table.n, table.M)
        with np.errstate(all="ignore"):
            if self.solver == "adam":
                schedule = {"epochs": self.epochs, "batch_size": self.batch_size}
                parameters, history = descend_adam(rows, **schedule, learning_rate=self.learning_rate, seed=self.seed)
            else:
                counted = counted_rows((u0, u1), (x0, x1), table.n, table.M, count)
                parameters = descend_lbfgs(counted, seed=self.seed)
                history = [mean_loss(parameters, rows, None if count is None else np.tile(count, 2))]
        coefficient = float(np.average(log_coefficient(table.n, table.M), weights=count))
        return NetworkFit(
            settings=self,
            uniform=uniform if self.inputs == "uniform" else None,
            parameters=parameters,
            training_nll=np.array(history) - coefficient,
            chance_nll=math.log(2) * float(np.average(table.M, weights=count)) - coefficient,
        )


@dataclass(frozen=True, eq=False)
class NetworkFit:
    """A fitted network.

    Parameters
    ----------
    settings : Network
        What it was fitted with.
    uniform : Uniform or None
        The map of the distances; None for raw inputs.
    parameters : array, shape (1281,)
        Layer by layer and unit by unit: the weights, then the bias.
    training_nll : array, shape (E,)
        Mean NLL of the training triplets and their mirrors after each epoch, up to the first that is not finite; for
        L-BFGS the last one alone.
    chance_nll : float
        The same for P = 1/2.
    carried : mapping of name to array
        What a saved model holds beside its own arrays: see `twoafc.scale.carrying`.

    Examples
    --------
    >>> fit = NetworkFit(Network(), None, np.zeros(1281), np.array([1.5]), chance_nll=1.2)
    >>> fit.probability(0.3, [0.3, 0.5])
    array([0.5, 0.5])
    >>> fit.reason
    'the training NLL is worse than that of P = 1/2; 1.5 against 1.2'
    """

    settings: Network
    uniform: Uniform | None
    parameters: FloatArray
    training_nll: FloatArray
    chance_nll: float
    carried: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("parameters", "training_nll"):
            array = np.array(getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def reason(self) -> str | None:
        """Why the run counts as diverged; None where it does not."""
        reached = self.training_nll[-1]
        if not (np.isfinite(self.training_nll).all() and np.isfinite(self.parameters).all()):
            return f"the run left the finite numbers; its training NLL became {reached}"
        if reached > (1 + TOLERANCE) * self.chance_nll:
            return f"the training NLL is worse than that of P = 1/2; {reached:.5g} against {self.chance_nll:.5g}"
        return None

    @property
    def diverged(self) -> bool:
        """Whether the run failed; its scores are shown with that mark, never dropped."""
        return self.reason is not None

    def probability(self, d0: ArrayLike, d1: ArrayLike) -> FloatArray:
        """Chance that x1 is chosen, for distances of any shape; NaN where the run gave no number."""
        d0, d1 = np.broadcast_arrays(require_numbers(d0), require_numbers(d1))
        x0, x1 = (d0, d1) if self.uniform is None else (self.uniform(d0), self.uniform(d1))
        X = np.empty((d0.size, 6))
        with np.errstate(all="ignore"):
            write_inputs(X, x0.ravel(), x1.ravel())
            P = expit(logits(self.parameters, X))
        return np.asarray(P.reshape(d0.shape))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that a saved model holds."""
        own = {name: np.asarray(getattr(self, name)) for name in ("parameters", "training_nll", "chance_nll")}
        return own | dict(self.carried) | ({} if self.uniform is None else self.uniform.arrays())

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NetworkFit:
        """Build a fit from the settings and arrays of a saved model, checking all of them."""
        try:
            network = Network(**settings)
        except (TypeError, ValueError) as error:
            raise DataError(f"the model's settings are not those of a network; {error}") from error
        _check(arrays, network)
        uniform = Uniform.restore(arrays) if network.inputs == "uniform" else None
        return cls(network, uniform, arrays["parameters"], arrays["training_nll"], float(arrays["chance_nll"]))

    def save(self, path: str | Path) -> None:
        """Write the model; `twoafc.load` reads it."""
        save_archive(path, "network", asdict(self.settings), self.arrays())


def _check(arrays: Mapping[str, NDArray[Any]], network: Network) -> None:
    """Raise DataError unless the arrays can be those of a fitted network; the map checks its own."""
    own = ("parameters", "training_nll", "chance_nll")
    for name in own if network.inputs == "raw" else (*own, "values", "at_most"):
        if name not in arrays:
            raise DataError(f"a network's model must hold {name}; found {', '.join(sorted(arrays)) or 'nothing'}")
    parameters, history, chance = (arrays[name] for name in own)
    for name, shape in {"parameters": (PARAMETERS,), "training_nll": (history.size,), "chance_nll": ()}.items():
        if arrays[name].dtype != np.float64 or arrays[name].shape != shape:
            found = f"{arrays[name].dtype} {arrays[name].shape}"
            raise DataError(f"{name} must be float64 of shape {shape}; found {found}")
    if not 1 <= len(history) <= network.epochs:
        raise DataError(f"training_nll must have 1 to {network.epochs} values, one per epoch; found {len(history)}")
    # The numbers of an exploded run are kept as they are, but only where its NLL tells of it.
    if not np.isfinite(chance) or (np.isfinite(history).all() and not np.isfinite(parameters).all()):
        raise DataError("parameters and chance_nll must be finite; those of the model are not")
