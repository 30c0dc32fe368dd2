"""P as a smooth surface (triplets) or curve (pairs) whose smoothness the data choose."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform, one_thread, require_numbers
from twoafc.estimators.basis import DOUBT, PARTS, Scores, functions, normal_scores, parts, slopes
from twoafc.estimators.density import GUESS
from twoafc.estimators.penalised import (
    LINKS,
    MARGIN,
    PRECISE,
    SPREAD_LAPSE,
    VAGUE,
    WIDE,
    Cells,
    Dispersion,
    Problem,
    Solution,
    between_clusters,
    between_rows,
    chances,
    gather,
    lapse_of,
    nearest,
    normal,
    solve,
    surface_slopes,
)
from twoafc.estimators.saved import Model, of_rows
from twoafc.public import public
from twoafc.table import Votes, as_votes, repeated_units

LEAST_FREEDOM = 1.5
"""Least degrees of freedom of each part in the standard error, even of one without effect: a smaller departure could
not have been detected."""
CHUNK = 16384
ROUGHNESS = 0.02
"""Variance of a sample's distribution function about its smooth part, times the size of the sample: a Brownian bridge
less its first five components. With it 95 % intervals of P cover 90 to 96 % in eight simulated worlds, without it 88 to
95 %."""


@public
@dataclass(frozen=True)
class Spline:
    """Settings of the spline estimator.

    P = lapse / 2 + (1 - lapse) link(f), where f(z0, z1) = -f(z1, z0) is a smooth function of the normal scores of the
    two distances, or f(z) of one. Its smoothness, part by part (`PARTS`), the lapse rate and the link are chosen by the
    marginal likelihood of the votes, divided by their dispersion: variation beyond the binomial between triplets, or
    between references where these repeat.

    Parameters
    ----------
    size : int, at least 4
        Smooth functions of each distance, from which f is made.
    link : "auto", "logit" or "probit"
        Turns f into a probability; auto takes the one under which the votes are more likely.
    monotone : bool
        Let P never fall where d0 grows; for triplets only.

    Examples
    --------
    >>> from twoafc import Triplets, worlds
    >>> fit = Spline().fit(Triplets.from_frame(worlds.simulate("weber", triplets=2000, votes=2)))
    >>> fit.probability(2.0, 1.0).round(2), worlds.true_probability("weber", 2.0, 1.0).round(2)
    (np.float64(0.84), np.float64(0.85))
    """

    size: int = 10
    link: Literal["auto", "logit", "probit"] = "auto"
    monotone: bool = False

    training_noise: ClassVar[float] = 20.0
    """Variance of scores by training over that by test triplets, times T_train^2 / T_test; of the density 80."""
    crossed_rows: ClassVar[int] = 1000
    """Rows up to which the noise of training counts when cross-validated; of the density 8000."""
    takes_counts: ClassVar[Literal[True]] = True

    def __post_init__(self) -> None:
        if not np.isfinite(self.size) or int(self.size) != self.size or self.size < 4:
            raise ValueError(f"size must be a whole number, at least 4; found {self.size}")
        if self.link not in ("auto", *LINKS):
            raise ValueError(f"link must be auto, logit or probit; found {self.link!r}")
        if not isinstance(self.monotone, bool):
            raise ValueError(f"monotone must be True or False; found {self.monotone!r}")
        object.__setattr__(self, "size", int(self.size))

    @one_thread()
    def fit(self, table: Any) -> SplineFit:
        """Fit P to a table, path or frame with one distance."""
        table = as_votes(table)
        if table.k == 1 and self.monotone:
            raise ValueError("monotone does not support pairs")
        uniform, scores, cells, dispersion_of = _gathered(table)
        size = round(self.size * scores.more)
        part, roughness = parts(size, table.k)
        first, *others = LINKS if self.link == "auto" else (self.link,)
        problem = Problem(cells, functions(cells.z, size), part, roughness, first, DOUBT[table.k])
        solutions = {first: solve(problem, dispersion_of)}
        # One dispersion for all links: a larger one would favour the worse link.
        shared = solutions[first].dispersion
        for link in others:
            solutions[link] = solve(replace(problem, link=link), dispersion=shared)
        link = max(solutions, key=lambda name: solutions[name].evidence)
        solution = solutions[link]
        theta, precision = solution.theta, solution.precision
        if self.monotone:
            fitted = np.diag(precision[part] * roughness) + solution.information[:-1, :-1]
            theta = np.append(nearest(theta[:-1], fitted, surface_slopes(size), MARGIN), theta[-1])
        prior = (_surface_prior if table.k == 2 else _curve_prior)(solution, part, roughness)
        inverse = np.linalg.inv(solution.information + np.diag(prior))
        covariance = np.asarray((inverse + inverse.T) / 2)
        return SplineFit(self, uniform, scores.values, link, theta, covariance, precision, solution.dispersion)


def _gathered(table: Votes) -> tuple[Uniform, Scores, Cells, Dispersion]:
    """Gather the rows of a table in cells; return also the map, the scores, and how to measure the dispersion."""
    uniform, *u = table.uniformised()
    if table.uniform is None:
        place = [uniform.places(x) for x in u]
        scores = normal_scores(uniform, *place, mass=table.mass)
        z = tuple(scores.values[index] for index in place)
    else:
        # Distances of rows that stand for several triplets need not be among the values of the map: by rank.
        place = [np.searchsorted(uniform.at_most[:-1], x * uniform.at_most[-1]) for x in u]
        scores = normal_scores(uniform, *place, mass=table.mass)
        z = tuple(np.interp(d, uniform.values, scores.values) for d in table.columns)
    cells, cell = gather(z, table.n, table.M, table.mass, table.squared_mass)
    clusters = repeated_units(table)
    if clusters is None:
        return uniform, scores, cells, between_rows(cells)
    n = np.where(z[0] < z[1], table.M - table.n, table.n) if table.k == 2 else table.n
    row, mass = table.parts
    return uniform, scores, cells, between_clusters(cell[row], clusters, n[row], table.M[row], mass)


def _surface_prior(solution: Solution, part: IntArray, roughness: FloatArray) -> FloatArray:
    """Prior precision of the parameters of a surface, lowered until each part has its least freedom, if it can."""
    precision, information = solution.precision.copy(), np.diag(solution.information)[:-1]
    for p in range(1, len(PARTS[2])):
        own, rough = information[part == p], roughness[part == p]
        if (own / (own + precision[p] * rough)).sum() >= LEAST_FREEDOM:
            continue
        low, high = -20.0, float(np.log(precision[p]))
        for _ in range(50):
            middle = (low + high) / 2
            enough = (own / (own + np.exp(middle) * rough)).sum() > LEAST_FREEDOM
            low, high = (middle, high) if enough else (low, middle)
        precision[p] = np.exp(low)
    return np.append(precision[part] * roughness, 1.0)


def _curve_prior(solution: Solution, part: IntArray, roughness: FloatArray) -> FloatArray:
    """The same for a curve: the first of some precisions that is low enough for its one smooth part."""
    # Not by bisection, as a surface: that would change the standard errors of pairs by up to 0.5 %.
    own, rough = np.diag(solution.information)[:-1][part == 1], roughness[part == 1]
    looser = np.geomspace(PRECISE, VAGUE, 601)
    freedom = (own / (own + looser[:, None] * rough)).sum(axis=1)
    enough = looser[min(int(np.searchsorted(freedom, LEAST_FREEDOM)), len(looser) - 1)]
    precision = min(solution.precision[1], enough)
    return np.append(np.where(part == 0, WIDE, precision * roughness), SPREAD_LAPSE**-2)


@dataclass(frozen=True, eq=False, repr=False)
class SplineFit(Model):
    """A fitted spline: a surface over two distances for triplets, a curve over one for pairs."""

    settings: Spline
    uniform: Uniform
    scores: FloatArray  # normal scores of the distinct training distances, increasing, shape (K,)
    link: str  # the one that was chosen
    theta: FloatArray  # coefficients of the functions, and last the lapse's parameter, shape (p + 1,)
    covariance: FloatArray  # of theta, for the standard error, shape (p + 1, p + 1)
    precision: FloatArray  # of the prior of each of the `PARTS`: large where the data show no sign of it
    dispersion: float  # variation of the votes beyond the binomial; 1 at least

    name: ClassVar[str] = "spline"

    @property
    def k(self) -> int:
        """Distances of a row: 2 for triplets, 1 for pairs."""
        return 2 if len(self.precision) == len(PARTS[2]) else 1

    def __repr__(self) -> str:
        chosen = f"{self.link}, lapse={self.lapse:.2g}, dispersion={self.dispersion:.3g}"
        rows = f"{self.uniform.at_most[-1] / self.k:.0f} {'triplets' if self.k == 2 else 'pairs'}"
        return f"SplineFit({chosen}, {rows})"

    @property
    def chosen_settings(self) -> Spline:
        """The settings with the link that was chosen."""
        return replace(self.settings, link=self.link)  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        """Smooth functions of each distance: more than the settings ask for where triplets have several scales."""
        coefficients = len(self.theta) - 1
        return coefficients if self.k == 1 else round((1 + math.sqrt(1 + 8 * coefficients)) / 2)

    @property
    def lapse(self) -> float:
        """Share of votes that are estimated to be cast at random."""
        return lapse_of(self.theta[-1])[0]

    @property
    def probability(self) -> Callable[..., FloatArray]:
        """Chance that x1 is chosen, a function of d0 and d1; for pairs, chance of "same", a function of d."""
        return of_rows(partial(self._by_chunks, self._chance), self.k)

    @property
    def standard_error(self) -> Callable[..., FloatArray]:
        """Standard error of P, from d0 and d1, or from d; smoothness, lapse rate and ranks are taken as estimated."""
        return of_rows(self._error, self.k)

    def _error(self, *d: ArrayLike) -> FloatArray:
        error = np.sqrt(self._by_chunks(self._variance, *d))
        if self.k == 1:
            return error
        # Where both distances lie beyond the training range, P = 1/2 is a guess.
        lowest, highest = self.uniform.values[[0, -1]]
        within = [np.clip(np.asarray(x, dtype=np.float64), lowest, highest) for x in d]
        beyond = (within[0] == within[1]) & (np.asarray(d[0]) != np.asarray(d[1]))
        return np.where(beyond, np.sqrt(GUESS), error)

    def _by_chunks(self, value: Callable[..., FloatArray], *d: ArrayLike) -> FloatArray:
        """Apply a function of the scores to distances of any shape."""
        z = np.broadcast_arrays(*(np.interp(require_numbers(x), self.uniform.values, self.scores) for x in d))
        flat = [x.ravel() for x in z]
        values = np.empty(flat[0].shape)
        for start in range(0, len(values), CHUNK):
            values[start : start + CHUNK] = value(*(x[start : start + CHUNK] for x in flat))
        return values.reshape(z[0].shape)

    @one_thread()
    def _chance(self, *z: FloatArray) -> FloatArray:
        return chances(self.theta, functions(z, self.size), self.link)[0]

    def _variance(self, *z: FloatArray) -> FloatArray:
        _, jacobian = chances(self.theta, functions(z, self.size), self.link)
        variance = np.asarray(np.einsum("ti,ti->t", jacobian @ self.covariance, jacobian))
        if self.k == 1:
            return variance
        # The roughness of the ranks moves z0 and z1, and both alike where they are close.
        z0, z1 = z
        moved0 = self._slope(z0, z1) * self._rank_error(z0)
        moved1 = self._slope(z1, z0) * self._rank_error(z1)
        alike = np.exp(-np.abs(ndtr(z0) - ndtr(z1)) * self.settings.size)
        return np.asarray(variance + (moved0**2 + moved1**2 - 2 * alike * moved0 * moved1))

    def _slope(self, z: FloatArray, other: FloatArray) -> FloatArray:
        """Derivative of P by the first score; by the second it is minus that at the mirrored place."""
        f = functions((z, other), self.size) @ self.theta[:-1]
        rise = slopes(z, other, self.size) @ self.theta[:-1]
        return np.asarray((1 - self.lapse) * LINKS[self.link](f)[1] * rise)

    def _rank_error(self, z: FloatArray) -> FloatArray:
        """Standard error of a normal score from the roughness of ranks, which no smooth surface follows."""
        u = ndtr(z)
        return np.asarray(np.sqrt(np.minimum(ROUGHNESS, u * (1 - u)) / self.uniform.at_most[-1]) / normal(z)[1])

    def summary(self) -> dict[str, Any]:
        """Describe the fit on the card of a result."""
        return {} if self.k == 2 else {"link": self.link, "lapse": self.lapse, "dispersion": self.dispersion}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a saved model."""
        own = {
            name: np.asarray(getattr(self, name))
            for name in ("scores", "theta", "covariance", "precision", "dispersion")
        }
        link = np.array(list(LINKS).index(self.link))
        return {**self.uniform.arrays(), **own, "link": link}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SplineFit:
        """Build a fit from the settings and arrays of a saved model."""
        own = (arrays["theta"], arrays["covariance"], arrays["precision"], float(arrays["dispersion"]))
        link = list(LINKS)[int(arrays["link"])]
        return cls(Spline(**settings), Uniform.restore(arrays), arrays["scores"], link, *own)
