"""Several distances fused into one by the likelihood of the votes.

The fused distance is F = sum of f_k(d_k), with f_k smooth, increasing and 0 at 0, and

    P = lapse / 2 + (1 - lapse) logistic(F(x0) - F(x1)).

The f_k are splines of the distances' normal scores (`basis`), fitted by penalised likelihood (`penalised`): each has a
slope and bends of its own, with precisions that the data choose. Since no f_k may fall, many of them end at 0: the
distance is not needed. Where the fused distance does not predict votes better than the best of its parts does, by
cross-validation within the training table, it is that part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import one_thread, require_numbers
from twoafc.errors import DataError
from twoafc.estimators.basis import LAST_KNOT, STRAIGHT, normal_scores, spline_basis
from twoafc.estimators.penalised import (
    MARGIN,
    Cells,
    Problem,
    Solution,
    between_clusters,
    between_rows,
    chances,
    lapse_of,
    nearest,
    solve_rising,
)
from twoafc.estimators.saved import Model
from twoafc.estimators.spline import Spline, SplineFit
from twoafc.metrics import log_likelihood
from twoafc.public import public
from twoafc.table import Votes, assign_folds, most_folds, repeated_units

SIZE = 10
"""Smooth functions of each distance."""
KNOTS = 1024
"""Pieces of each f_k in the fused distance, which are straight between knots."""
ENDS = 48
"""Pieces at either end whose mean slope continues f_k, down to 0 and beyond the largest training distance."""
SHOWN = 0.9
"""Share of the pieces, which are even in the normal score, that a figure shows."""
OPEN = 10.0
"""Highest precision of a part to start from where another part is left out."""
NOTHING = 0.02
"""An f_k that rises by less than this, in logits, is left out: it changes no P by more than 0.005."""
SURFACE = "surface_"
"""Prefix of the arrays of a saved fit's surface."""


@dataclass(frozen=True, eq=False)
class Fused:
    """A fused distance: for each part an increasing function of it, straight between knots."""

    parts: tuple[str, ...]  # the distances that it is made of
    knots: tuple[FloatArray, ...]  # values of each part, increasing from 0
    heights: tuple[FloatArray, ...]  # the function of each part there, from 0 on

    def part(self, name: str, d: ArrayLike) -> FloatArray:
        """Contribution of one part at some distances; beyond the last knot it continues with the last slope."""
        at = self.parts.index(name)
        knots, heights = self.knots[at], self.heights[at]
        d = require_numbers(d)
        beyond = np.maximum(d - knots[-1], 0.0)
        return np.asarray(np.interp(d, knots, heights) + last_slope(knots, heights) * beyond)

    def drawn(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Distances and the function of a part there, for a figure: without the rare largest ones."""
        at = self.parts.index(name)
        end = max(round(SHOWN * len(self.knots[at])), 2)
        return self.knots[at][:end], self.heights[at][:end]

    def __call__(self, distances: Mapping[str, ArrayLike]) -> FloatArray:
        """Fused distance of some image pairs, from their distances by name."""
        missing = [name for name in self.parts if name not in distances]
        if missing:
            raise DataError(
                f"the fused distance needs {', '.join(self.parts)}; there is no {missing[0]} in {', '.join(distances)}"
            )
        return np.asarray(sum(self.part(name, distances[name]) for name in self.parts), dtype=np.float64)


def last_slope(knots: FloatArray, heights: FloatArray) -> float:
    """Mean slope of the last pieces."""
    first = max(len(knots) - 1 - ENDS, 0)
    return float((heights[-1] - heights[first]) / (knots[-1] - knots[first])) if len(knots) > 1 else 0.0


@public
@dataclass(frozen=True)
class Fusion:
    """Settings of a fused distance.

    Parameters
    ----------
    parts : sequence of str
        The distances to fuse, in the order of the table's columns.
    folds : int
        Parts of the training table, by reference, in which the fused distance is tested against its best part; 0 for
        no such test.
    seed : int
        Of these folds.
    start : Solution, optional
        Solution of an earlier fit to a similar table, to start from.
    choose : bool
        Whether smoothness, and whether to fuse at all, are chosen by the data; otherwise they are those of the start.
    alone : str, optional
        The part that stands alone, where nothing is chosen.
    """

    parts: tuple[str, ...]
    folds: int = 5
    seed: int = 0
    start: Solution | None = field(default=None, repr=False, compare=False)
    choose: bool = True
    alone: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))

    @one_thread()
    def fit(self, table: Votes) -> FusionFit:
        """Fit to a table with one distance whose columns have shape (T, parts)."""
        design, alone = _Design.of(table), self.alone
        solution = design.solution(self.start, choose=self.choose)
        if self.choose:
            alone = _best_alone(design, solution, self) if self.folds else None
        fused = design.fused(self.parts, solution.theta)
        if not fused.parts:  # votes that no part explains
            alone = alone or self.parts[0]
        chosen = replace(self, start=solution, choose=False, alone=alone)
        if alone is not None:
            return _single(design, chosen, alone)
        return FusionFit(chosen, fused, Chance(lapse_of(solution.theta[-1])[0]))

    def without(self, part: str) -> Fusion:
        """Settings without one of the parts, and without a test against the best part; the start is kept."""
        others = tuple(name for name in self.parts if name != part)
        start = self.start
        if start is not None:
            at, width = self.parts.index(part), SIZE - 1
            theta = np.delete(start.theta, slice(at * width, (at + 1) * width))
            # Low, so that other parts may replace it.
            precision = np.minimum(np.delete(start.precision, [2 * at, 2 * at + 1]), OPEN)
            start = replace(start, theta=theta, precision=precision)
        return replace(self, parts=others, folds=0, start=start, choose=True, alone=None)


def _single(design: _Design, settings: Fusion, alone: str) -> FusionFit:
    """Fit the best part alone, transformed so that logit P is roughly a difference."""
    at = settings.parts.index(alone)
    one = design.part(at)
    theta = one.rising(one.solution())
    fused = one.fused((alone,), theta, least=0.0)
    d = tuple(fused.part(alone, column[:, at]) for column in design.table.columns)
    surface = Spline().fit(replace(design.table, distances={alone: d}))
    return FusionFit(settings, fused, Chance(lapse_of(theta[-1])[0], surface))


@dataclass(frozen=True, eq=False)
class _Design:
    """A table of several distances as a problem for `solve`.

    ``values`` and ``scores`` of each part are its distinct training distances and their normal scores; ``X`` has the
    functions of every part at x0 less those at x1, without the constant.
    """

    table: Votes
    values: tuple[FloatArray, ...]
    scores: tuple[FloatArray, ...]
    X: FloatArray

    @classmethod
    def of(cls, table: Votes) -> _Design:
        basis = spline_basis(SIZE)
        values, scores, X = [], [], []
        for d in np.stack(table.columns).transpose(2, 0, 1):
            one = replace(table, distances={"d": tuple(np.ascontiguousarray(d))})
            uniform, u0, u1 = one.uniformised()
            place = uniform.places(u0), uniform.places(u1)
            z = normal_scores(uniform, *place, mass=table.mass).values
            at = basis(z)[:, 1:]
            values.append(uniform.values)
            scores.append(z)
            X.append(at[place[0]] - at[place[1]])
        return cls(table, tuple(values), tuple(scores), np.hstack(X))

    def part(self, at: int) -> _Design:
        """The design of one part alone."""
        X = self.X[:, at * (SIZE - 1) : (at + 1) * (SIZE - 1)]
        return replace(self, values=(self.values[at],), scores=(self.scores[at],), X=X)

    def where(self, rows: NDArray[np.bool_]) -> _Design:
        """Keep some rows; ranks stay those of all rows, which do not depend on the votes."""
        return replace(self, table=self.table.where(rows), X=self.X[rows])

    @property
    def problem(self) -> Problem:
        """The penalised likelihood of the votes, with slopes of at least 0."""
        table, parts = self.table, len(self.values)
        n, M, mass, squared = table.n, table.M, table.mass, table.squared_mass
        cells = Cells((), n * mass, M * mass, n * n * squared, n * M * squared, M * M * squared)
        rough = spline_basis(SIZE).roughness[1:]
        part = np.concatenate([[2 * k, *[2 * k + 1] * (SIZE - STRAIGHT)] for k in range(parts)])
        roughness = np.tile(np.concatenate([[1.0], rough[1:] / rough[1]]), parts)
        return Problem(cells, self.X, part, roughness, "logit")

    @property
    def rise(self) -> FloatArray:
        """Slopes of all functions, which stay at 0 or above: on a fine grid, beyond which they are constant."""
        own = spline_basis(SIZE).slopes(np.linspace(-LAST_KNOT, LAST_KNOT, 3 * SIZE))[:, 1:]
        return np.asarray(np.kron(np.eye(len(self.values)), own), dtype=np.float64)

    def solution(self, start: Solution | None = None, *, choose: bool = True) -> Solution:
        """Fit, with precisions chosen by the data or as they are at the start."""
        problem, table, unit = self.problem, self.table, repeated_units(self.table)
        if unit is None:
            dispersion = between_rows(problem.cells)
        else:
            dispersion = between_clusters(np.arange(len(table)), unit, table.n, table.M, table.mass)
        return solve_rising(problem, self.rise, dispersion, start, choose=choose)

    def rising(self, solution: Solution) -> FloatArray:
        """Coefficients with which every function increases everywhere, at least a little."""
        curvature = solution.information[:-1, :-1] + np.diag(self.problem.penalty(solution.precision)[:-1])
        return np.append(nearest(solution.theta[:-1], curvature, self.rise, MARGIN), solution.theta[-1])

    def log_likelihood(self, theta: FloatArray) -> float:
        """Of all votes, weighted."""
        values = log_likelihood(self.table.n, self.table.M, chances(theta, self.X, "logit")[0])
        return float(values @ self.table.mass)

    def fused(self, names: Sequence[str], theta: FloatArray, least: float = NOTHING) -> Fused:
        """Turn coefficients into functions of the distances, and leave out parts that contribute nothing."""
        basis, kept = spline_basis(SIZE), {}
        for name, values, z, own in zip(names, self.values, self.scores, np.split(theta[:-1], len(names)), strict=True):
            at = np.unique(np.searchsorted(z, np.linspace(z[0], z[-1], KNOTS + 1)))
            heights = np.maximum.accumulate(basis(z[at])[:, 1:] @ own)
            if heights[-1] - heights[0] > least:
                kept[name] = _from_zero(values[at], heights - heights[0])
        knots, heights_of = zip(*kept.values(), strict=True) if kept else ((), ())
        return Fused(tuple(kept), knots, heights_of)


def _from_zero(knots: FloatArray, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Extend a function to (0, 0) with its first slope, by no more than its whole rise."""
    if knots[0] == 0:
        return knots, heights
    last = min(ENDS, len(knots) - 1)
    slope = heights[last] / (knots[last] - knots[0])
    first = min(slope * knots[0], heights[-1])
    return np.concatenate([[0.0], knots]), np.concatenate([[0.0], heights + first])


def _best_alone(design: _Design, whole: Solution, settings: Fusion) -> str | None:
    """Name the best part, unless fusing predicts votes better by at least one standard error; then None."""
    table, parts = design.table, settings.parts
    designs = [design.part(at) for at in range(len(parts))]
    best = int(np.argmax([one.log_likelihood(one.solution().theta) for one in designs]))
    alone = replace(table, distances={parts[best]: tuple(column[:, best] for column in table.columns)})
    fold = assign_folds(table, min(settings.folds, most_folds(table)), seed=settings.seed)
    fused, single = np.empty(len(table)), np.empty(len(table))
    for k in range(fold.max() + 1):
        rows, others = fold == k, fold != k
        theta = design.where(others).solution(whole).theta
        fused[rows] = chances(theta, design.X[rows], "logit")[0]
        single[rows] = Spline().fit(alone.where(others)).probability(*alone.where(rows).columns)
    gain = log_likelihood(table.n, table.M, fused) - log_likelihood(table.n, table.M, single)
    mean, error = mean_and_error(gain, table)
    return None if mean > error else parts[best]


def lapsing(difference: FloatArray, lapse: float) -> FloatArray:
    """P of a difference of distances in logits, with a share of votes at random; exactly 1/2 where it is 0."""
    return np.asarray(0.5 + (1 - lapse) * (expit(difference) - 0.5))


def mean_and_error(gain: FloatArray, table: Votes) -> tuple[float, float]:
    """Weighted mean over rows, and its standard error between references."""
    unit: IntArray | None = repeated_units(table)
    mean = float(np.average(gain, weights=table.mass))
    sums = np.bincount(np.arange(len(table)) if unit is None else unit, (gain - mean) * table.mass)
    return mean, float(np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1)) / table.mass.sum())


@dataclass(frozen=True, eq=False)
class Chance:
    """P given a learned distance of x0 and of x1: of their difference in logits, with a lapse rate, or by a surface."""

    lapse: float
    surface: SplineFit | None = None

    def __call__(self, d0: ArrayLike, d1: ArrayLike) -> FloatArray:
        """Chance that x1 is chosen; P(d0, d1) + P(d1, d0) = 1."""
        if self.surface is not None:
            return self.surface.probability(d0, d1)
        return lapsing(require_numbers(d0) - require_numbers(d1), self.lapse)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a saved model."""
        inner = {} if self.surface is None else self.surface.arrays()
        return {"lapse": np.array(self.lapse)} | {SURFACE + name: array for name, array in inner.items()}

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]]) -> Chance:
        """Restore it from the arrays of a saved model."""
        inner = {name.removeprefix(SURFACE): array for name, array in arrays.items() if name.startswith(SURFACE)}
        return cls(float(arrays["lapse"]), SplineFit.restore({}, inner) if inner else None)


@dataclass(frozen=True, eq=False, repr=False)
class FusionFit(Model):
    """A fused distance with the chance of a vote given two values of it."""

    settings: Fusion  # with what was chosen inside the training table
    fused: Fused
    probability: Chance  # that x1 is chosen; by a surface where the distance is one part alone
    identities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each part was measured with, where that is known, as the card of a measured table has it."""
    card: Mapping[str, Any] = field(default_factory=dict)  # what the distance was made from and tested on

    name: ClassVar[str] = "fused"
    uniform: ClassVar[None] = None

    def __repr__(self) -> str:
        return f"FusionFit({' + '.join(self.fused.parts) or 'nothing'}, lapse={self.probability.lapse:.2g})"

    @property
    def chosen_settings(self) -> Fusion:
        """The settings with what was chosen inside the training table."""
        return self.settings

    def reduce(self, columns: FloatArray) -> FloatArray:
        """Fused distance of each row, from its distances, shape (T, parts)."""
        return self.fused(dict(zip(self.settings.parts, columns.T, strict=True)))

    def summary(self) -> dict[str, Any]:
        """Describe the fit on the card of a result."""
        rise = {name: float(heights[-1]) for name, heights in zip(self.fused.parts, self.fused.heights, strict=True)}
        chance = self.probability
        return {"parts": rise, "alone": chance.surface is not None, "lapse": chance.lapse}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a saved model."""
        own = self.probability.arrays()
        for at in range(len(self.fused.parts)):
            own |= {f"knots_{at}": self.fused.knots[at], f"heights_{at}": self.fused.heights[at]}
        return own

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FusionFit:
        """Build a fit from the settings and arrays of a saved model."""
        kept = tuple(settings["fused"])
        knots, heights = (tuple(arrays[f"{which}_{at}"] for at in range(len(kept))) for which in ("knots", "heights"))
        own = Fusion(settings["parts"], settings["folds"], settings["seed"])
        fused, chance = Fused(kept, knots, heights), Chance.restore(arrays)
        return cls(own, fused, chance, settings["identities"], settings["card"])

    @property
    def digest(self) -> str:
        """Digest of the fused distance."""
        content = hashlib.sha256(" ".join(self.fused.parts).encode())
        for array in (*self.fused.knots, *self.fused.heights):
            content.update(array.tobytes())
        return content.hexdigest()

    def saved_settings(self) -> dict[str, Any]:
        """Return the settings of a saved model."""
        return {
            "parts": self.settings.parts,
            "fused": self.fused.parts,
            "folds": self.settings.folds,
            "seed": self.settings.seed,
            "identities": {name: dict(identity) for name, identity in self.identities.items()},
            "card": dict(self.card),
        }
