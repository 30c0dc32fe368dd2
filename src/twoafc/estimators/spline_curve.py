"""P(same | d) as a smooth curve whose smoothness the data choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoafc.arrays import FloatArray
from twoafc.core import Uniform, require_numbers
from twoafc.errors import DataError
from twoafc.estimators.basis import basis
from twoafc.estimators.cells import gather
from twoafc.estimators.dispersion import between_clusters, between_triplets
from twoafc.estimators.normal_scores import normal_scores
from twoafc.estimators.penalised import LINKS, PRECISE, SPREAD_LAPSE, VAGUE, Problem, Solution, chances, lapse_of, solve
from twoafc.estimators.spline import LEAST_FREEDOM, Spline
from twoafc.files import save_archive
from twoafc.table import Pairs, repeated_units

KIND = "pairs-spline"
STRAIGHT = 2
"""The first functions of the basis, the constant and the line, are not held back."""
WIDE = 1e-2
"""Their precision all the same: a constant beyond 20 in either direction is no better than one of 20."""
FAR = -100.0
"""A normal score below all others: of a triplet with such a second distance, the cell depends on the first alone."""


class CurveProblem(Problem):
    """Votes of pairs in cells; the constant and the line have a wide prior, whatever the smoothness of the rest."""

    def penalty(self, precision: FloatArray) -> FloatArray:
        """Diagonal of the prior's precision matrix, the lapse's last."""
        held = np.where(self.roughness > 0, precision[self.part] * self.roughness, WIDE)
        return np.append(held, SPREAD_LAPSE**-2)


def fit_spline(settings: Spline, table: Pairs) -> SplineCurve:
    """Fit the curve to a table with one distance."""
    if settings.monotone:
        raise ValueError("monotone is a setting of surfaces; the curve of pairs is not held to fall")
    uniform = Uniform.learn(table.d)
    z = _score(uniform, table.d)
    cells, cell = gather(z, np.full(len(z), FAR), table.n, table.M)
    clusters = repeated_units(table)
    dispersion_of = between_triplets(cells) if clusters is None else between_clusters(cell, clusters, table.n, table.M)
    X, part, roughness = basis(settings.size)(cells.z0), *_parts(settings.size)
    first, *others = LINKS if settings.link == "auto" else (settings.link,)
    solutions = {first: solve(CurveProblem(cells, X, part, roughness, first), dispersion_of)}
    # One dispersion for all links, or that of the worse one would flatter it.
    shared = solutions[first].dispersion
    for link in others:
        solutions[link] = solve(CurveProblem(cells, X, part, roughness, link), dispersion=shared)
    link = max(solutions, key=lambda name: solutions[name].evidence)
    return _finished(settings, uniform, link, solutions[link])


def _score(uniform: Uniform, d: ArrayLike) -> FloatArray:
    scores = normal_scores(uniform, uniform.values, uniform.values[:0])
    return np.interp(require_numbers(d), uniform.values, scores.values)


def _parts(size: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Part 0, the straight line, without roughness; part 1, the bends, with theirs, at least 1."""
    roughness = basis(size).roughness.copy()
    roughness[STRAIGHT:] /= roughness[STRAIGHT]
    return (np.arange(size) >= STRAIGHT).astype(np.int64), roughness


def _finished(settings: Spline, uniform: Uniform, link: str, solution: Solution) -> SplineCurve:
    """Put a solution in its final form, with the covariance for standard errors."""
    part, roughness = _parts(settings.size)
    bends = slice(STRAIGHT, -1)
    # A bend worth less than the least freedom could not have been seen: errors allow for it.
    looser = np.geomspace(PRECISE, VAGUE, 601)[:, None]
    own = np.diag(solution.information)[bends]
    freedom = (own / (own + looser * roughness[STRAIGHT:])).sum(axis=1)
    enough = looser[min(int(np.searchsorted(freedom, LEAST_FREEDOM)), len(looser) - 1), 0]
    precision = min(float(solution.precision[1]), float(enough))
    prior = np.append(np.where(part == 0, WIDE, precision * roughness), SPREAD_LAPSE**-2)
    inverse = np.linalg.inv(solution.information + np.diag(prior))
    covariance: FloatArray = np.asarray((inverse + inverse.T) / 2, dtype=np.float64)
    chosen = float(solution.precision[1])
    return SplineCurve(settings, uniform, link, solution.theta, covariance, chosen, solution.dispersion)


@dataclass(frozen=True, eq=False)
class SplineCurve:
    """A fitted curve: P = lapse / 2 + (1 - lapse) link(f(z)), f a spline of the normal score z of the distance.

    Parameters
    ----------
    settings : Spline
    uniform : Uniform
    link : "logit" or "probit"
        The one that was taken.
    theta : array, shape (size + 1,)
        Coefficients of the functions, and last the lapse's parameter.
    covariance : array, shape (size + 1, size + 1)
        Of theta, as the standard error takes it.
    precision : float
        Prior precision of the bends: large where the data show no sign of any.
    dispersion : float
        Variation of the votes beyond the binomial; 1 at least.
    """

    settings: Spline
    uniform: Uniform
    link: str
    theta: FloatArray
    covariance: FloatArray
    precision: float
    dispersion: float

    @property
    def lapse(self) -> float:
        """Share of votes that the curve takes to be cast at random."""
        return lapse_of(self.theta[-1])[0]

    def probability(self, d: ArrayLike) -> FloatArray:
        """Chance of "same", for distances of any shape; outside the training range, that at its ends."""
        return self._chances(d)[0].reshape(np.shape(d))

    def standard_error(self, d: ArrayLike) -> FloatArray:
        """Give the standard error of P, smoothness and lapse rate taken as unknown."""
        jacobian = self._chances(d)[1]
        variance = np.einsum("ti,ti->t", jacobian @ self.covariance, jacobian)
        return np.asarray(np.sqrt(variance)).reshape(np.shape(d))

    def _chances(self, d: ArrayLike) -> tuple[FloatArray, FloatArray]:
        return chances(self.theta, basis(self.settings.size)(_score(self.uniform, d).ravel()), self.link)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that a saved model holds."""
        own = {name: np.array(getattr(self, name)) for name in ("theta", "covariance", "precision", "dispersion")}
        return {**self.uniform.arrays(), **own, "link": np.array(list(LINKS).index(self.link))}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SplineCurve:
        """Build a fit from the settings and arrays of a saved model, checking all of them."""
        spline = Spline(**settings)
        p = spline.size + 1
        for name, shape in {"theta": (p,), "covariance": (p, p), "precision": (), "dispersion": ()}.items():
            array = arrays[name]
            if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
                raise DataError(f"{name} must be finite numbers of shape {shape}; found {array.dtype} {array.shape}")
        covariance, link = arrays["covariance"], arrays["link"]
        if (covariance != covariance.T).any() or np.linalg.eigvalsh(covariance)[0] < -1e-9 * abs(covariance).max():
            raise DataError("the covariance must be symmetric and positive; that of the model is not")
        if arrays["dispersion"] < 1 or arrays["precision"] <= 0:
            raise DataError("dispersion must be at least 1 and precision positive; those of the model are not")
        if link.shape != () or link.dtype != np.int64 or not 0 <= link < len(LINKS):
            raise DataError(f"link must be 0 or 1; found {link}")
        if spline.link not in ("auto", list(LINKS)[int(link)]):
            raise DataError(f"the link must be the one asked for, {spline.link}; that of the model is another")
        own = (arrays["theta"], covariance, float(arrays["precision"]), float(arrays["dispersion"]))
        return cls(spline, Uniform.restore(arrays), list(LINKS)[int(link)], *own)

    def save(self, path: str | Path) -> None:
        """Write the model; `twoafc.load` reads it."""
        save_archive(path, KIND, asdict(self.settings), self.arrays())
