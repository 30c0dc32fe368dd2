"""Mixtures of binomials that agree with vote counts: how the choice probability p may vary over triplets.

M votes per triplet identify only floor(M/2) moments of that distribution, however many triplets there are. Which image
is called x0 or x1 is arbitrary, so votes are folded, k = min(n, M - n), and a mixture is a distribution of
q = max(p, 1 - p) on [1/2, 1]. Among all mixtures that fit the votes about as well as the best one, linear programmes
find the smallest and the largest mean of a function of q.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog, nnls
from scipy.special import comb, xlogy

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.core import pmf_table

Function = Callable[[FloatArray], FloatArray]
"""A function of q, the probability that a vote agrees with the majority."""

# Atoms of the mixtures are every tenth of these values of q; all values are used to prove the bounds.
VALUES, EVERY = 1601, 10
# A solution may exceed the limit of the deviance by this fraction: fewer programmes, and bounds only become wider.
SLACK = 0.05
ROUNDS = 60
# With few triplets nearly every mixture is possible: stop where the last rounds hardly improved the bound.
STALL_ROUNDS, STALL_GAIN = 4, 1e-4
# Tolerance for equal shares in a linear programme.
EQUAL = 1e-7


@lru_cache
def q_grid(size: int) -> FloatArray:
    """Values of q from 1/2 to 1, denser towards 1, where the entropy falls fastest."""
    return np.asarray((1 + np.sin(np.linspace(0, np.pi / 2, size))) / 2)


def folded_pmf(M: int, q: FloatArray) -> FloatArray:
    """Probability of k = min(n, M - n) = 0..floor(M/2), shape (floor(M/2) + 1, len(q)).

    Examples
    --------
    >>> folded_pmf(2, np.array([0.5, 1.0]))
    array([[0.5, 1. ],
           [0.5, 0. ]])
    """
    return np.asarray(folded_draws(M, M, np.arange(M + 1)).T @ pmf_table(M, q).T)


def folded_draws(M: int, kept: int, n: IntArray) -> FloatArray:
    """Probability that `kept` of the M votes, drawn at random, have k = 0..floor(kept/2) when folded, shape (T, k).

    Examples
    --------
    >>> folded_draws(3, 3, np.arange(4))
    array([[1., 0.],
           [0., 1.],
           [0., 1.],
           [1., 0.]])
    >>> folded_draws(4, 2, np.array([2])).round(4)
    array([[0.3333, 0.6667]])
    """
    drawn = np.arange(kept + 1)
    # Hypergeometric; scipy.stats.hypergeom takes twenty microseconds per value.
    probability = comb(n[:, None], drawn) * comb(M - n[:, None], kept - drawn) / comb(M, kept)
    folded = np.minimum(drawn, kept - drawn)[:, None] == np.arange(kept // 2 + 1)
    return np.asarray(probability @ folded)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Folded votes of all triplets with the same M.

    Attributes
    ----------
    M : int
        Votes per triplet.
    kept : int
        Number of these votes that are used, as the expectation over random draws; it limits the programme's size.
    n : array of int
        Votes for x1 of each triplet.
    times : array of int, optional
        Number of triplets that each entry of `n` stands for; default one.
    """

    M: int
    kept: int
    n: IntArray
    times: IntArray | None = None

    @property
    def triplets(self) -> int:
        """Number of triplets."""
        return len(self.n) if self.times is None else int(self.times.sum())

    def cells(self, n: IntArray) -> FloatArray:
        """Contribution of triplets with n votes for x1 to each cell, shape (len(n), cells)."""
        return folded_draws(self.M, self.kept, n)

    @property
    def observed(self) -> FloatArray:
        """Number of triplets in each cell."""
        # Fold the integers first, so that swapping x0 and x1 changes no bit of the result.
        values, index = np.unique(np.minimum(self.n, self.M - self.n), return_inverse=True)
        return np.asarray(np.bincount(index, self.times) @ self.cells(values))

    def expected(self, q: FloatArray) -> FloatArray:
        """Expected number of triplets in each cell if all have the probability q, shape (cells, len(q))."""
        return self.triplets * folded_pmf(self.kept, q)


class Cut(NamedTuple):
    """A half-space of expected counts: normal · counts <= limit."""

    normal: FloatArray
    limit: float


class Mixtures:
    """Mixtures over q that agree with a histogram of votes.

    Examples
    --------
    >>> votes = Mixtures(Histogram(2, 2, np.repeat([0, 1, 2], [400, 200, 400])))
    >>> votes.deviance(votes.fitted) < 1e-12
    True

    With M = 2 only the mean of (2q - 1)^2 is identified, here 0.6; that of 2q - 1 lies between it and its square root.

    >>> np.subtract(np.multiply(votes.identified(lambda q: q), 2), 1).round(3)
    array([0.6  , 0.775])
    """

    def __init__(self, histogram: Histogram) -> None:
        self.histogram = histogram
        self.q = q_grid(VALUES)
        self.observed = histogram.observed
        self._expected = histogram.expected(self.q)
        self._total = float(self.observed.sum())
        self.weights = _most_likely(self._expected[:, ::EVERY], self.observed)
        self.fitted: FloatArray = self._expected[:, ::EVERY] @ self.weights

    def deviance(self, expected: FloatArray) -> float:
        """Likelihood-ratio statistic of expected against observed counts.

        An empty cell counts half: its upper limit is then close to the exact one, 3.8 counts at 95 %, where the
        likelihood ratio alone would give 1.9.
        """
        seen = self.observed > 0
        with np.errstate(divide="ignore"):
            log_ratio = xlogy(self.observed, np.where(seen, self.observed, 1) / np.where(seen, expected, 1))
        return float(np.sum(np.where(seen, 2 * (expected - self.observed + log_ratio), expected)))

    def identified(self, function: Function) -> tuple[float, float]:
        """Smallest and largest mean of a function over all mixtures with the same counts as the most likely one."""
        share, tolerance = self._expected[:, ::EVERY] / self._total, np.full(len(self.observed), EQUAL)
        rows = np.concatenate([share, -share])
        limits = np.concatenate([self.fitted / self._total + tolerance, tolerance - self.fitted / self._total])
        values = function(self.q[::EVERY])
        mean = float(values @ self.weights)
        solutions = [_solve(sign * values, rows, limits) for sign in (1, -1)]
        # Where only one mixture is feasible, rounding may make the programme infeasible.
        low, high = (mean if s is None else sign * s[0] for sign, s in zip((1, -1), solutions, strict=True))
        return max(min(low, mean), float(values.min())), min(max(high, mean), float(values.max()))

    def plausible(self, functions: Sequence[Function], excess: float) -> list[tuple[float, float]]:
        """Smallest and largest mean of each function over mixtures whose deviance exceeds the least by <= `excess`.

        The region is convex. Tangent half-spaces are added until the solution of the linear programme lies in the
        region, or nearly. For any half-spaces, the multipliers y of the programme prove a bound for every mixture: the
        mean of f is at least the minimum over q of f(q) + y·a(q), minus y·b. This minimum is taken over more values of
        q than the programme has atoms, so that neither the solver's tolerance nor the grid makes a bound too narrow.
        """
        bounds, limit = [], self.deviance(self.fitted) + excess
        # Each function reuses the half-spaces of the previous ones.
        cuts = self._box(limit) if np.isfinite(excess) else []
        for function in functions:
            values = function(self.q)
            low, high = (sign * self._least(sign * values, cuts, limit, SLACK * excess) for sign in (1, -1))
            bounds.append((max(low, float(values.min())), min(high, float(values.max()))))
        return bounds

    def _least(self, values: FloatArray, cuts: list[Cut], limit: float, slack: float) -> float:
        """Proven lower bound of the mean over mixtures within the limit; extends `cuts`."""
        atoms, bounds = self._expected[:, ::EVERY], [float(values.min())]
        # With few triplets, all of them may have the q of the minimum.
        if self.deviance(self._expected[:, np.argmin(values)]) <= limit:
            return bounds[-1]
        small_gain = STALL_GAIN * float(np.ptp(values))
        for _ in range(ROUNDS if cuts else 0):
            normals, limits = np.stack([cut.normal for cut in cuts]), np.array([cut.limit for cut in cuts])
            solution = _solve(values[::EVERY], normals @ atoms, limits)
            if solution is None:
                break
            _, weights, multipliers = solution
            proven = (values + (multipliers @ normals) @ self._expected).min() - multipliers @ limits
            bounds.append(max(bounds[-1], float(proven)))
            outer: FloatArray = atoms @ weights
            if self.deviance(outer) <= limit + slack:
                break
            if len(bounds) > STALL_ROUNDS and bounds[-1] - bounds[-1 - STALL_ROUNDS] < small_gain:
                break
            cuts.append(self._tangent(outer, limit))
        return bounds[-1]

    def _box(self, limit: float) -> list[Cut]:
        """Limits of each cell alone: its own deviance must not exceed the limit."""
        cuts = []
        for cell, seen in enumerate(self.observed):
            normal = np.zeros(len(self.observed))
            normal[cell] = 1 / self._total
            low, high = _poisson_limits(float(seen), limit)
            cuts.append(Cut(normal, high / self._total))
            if low > 0:
                cuts.append(Cut(-normal, -low / self._total))
        return cuts

    def _tangent(self, outer: FloatArray, limit: float) -> Cut:
        """Half-space that contains the region and touches it between the best fit and a point outside."""
        inside, outside = 0.0, 1.0
        for _ in range(40):
            middle = (inside + outside) / 2
            within = self.deviance(self.fitted + middle * (outer - self.fitted)) <= limit
            inside, outside = (middle, outside) if within else (inside, middle)
        touch = self.fitted + inside * (outer - self.fitted)
        seen = self.observed > 0
        slope = np.where(seen, 2 * (1 - self.observed / np.where(seen, touch, 1)), 1.0)
        scale = max(float(np.abs(slope).max()), np.finfo(np.float64).tiny) * self._total
        return Cut(slope / scale, float(slope @ touch + limit - self.deviance(touch)) / scale)


def _most_likely(expected: FloatArray, observed: FloatArray) -> FloatArray:
    """Weights of the most likely mixture, by iterated non-negative least squares; its fitted counts are unique."""
    weights = np.full(expected.shape[1], 1 / expected.shape[1])
    fitted = expected @ weights
    total = observed.sum()
    for _ in range(200):
        scale = 1 / np.sqrt(np.maximum(fitted, 1e-9 * total))
        try:
            target = nnls(expected * scale[:, None], observed * scale, maxiter=20 * len(weights))[0]
        except RuntimeError:
            # No convergence; the current weights are a mixture too, and only its deviance matters.
            break
        before, step = _minus_log_likelihood(fitted, observed), 1.0
        while (
            step > 1e-9 and _minus_log_likelihood(expected @ (weights + step * (target - weights)), observed) > before
        ):
            step /= 2
        if step <= 1e-9:
            break
        weights = weights + step * (target - weights)
        previous, fitted = fitted, expected @ weights
        if np.abs(fitted - previous).max() < 1e-10 * total:
            break
    return np.asarray(weights / weights.sum())


def _minus_log_likelihood(expected: FloatArray, observed: FloatArray) -> float:
    with np.errstate(divide="ignore"):
        return float(np.sum(expected) - np.sum(xlogy(observed, expected)))


def _solve(values: FloatArray, rows: FloatArray, limits: FloatArray) -> tuple[float, FloatArray, FloatArray] | None:
    """Least mean of the values over weights w with rows w <= limits, the weights, and the multipliers of the limits."""
    one = np.ones((1, len(values)))
    # About once in a thousand programmes the solver fails with presolve, and not without.
    for presolve in (True, False):
        result = linprog(values, rows, limits, one, [1.0], (0, None), method="highs-ds", options={"presolve": presolve})
        if result.status == 0 and result.fun is not None:
            return float(result.fun), np.asarray(result.x), np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    return None


def _poisson_limits(seen: float, limit: float) -> tuple[float, float]:
    """Smallest and largest expected count whose deviance from the observed count is within the limit."""
    if seen == 0:
        return 0.0, limit

    def beyond(log_ratio: FloatArray) -> BoolArray:
        # No limit is so wide that a ratio above e^500 is within it.
        return np.asarray(2 * seen * (np.expm1(np.minimum(log_ratio, 500.0)) - log_ratio) > limit)

    # Bisection of log(expected / seen) on both sides; the outer ends are returned.
    inner = np.zeros(2)
    outer = np.array([-1.0, 1.0]) * (1 + limit / (2 * seen) + np.sqrt(limit / seen))
    for _ in range(60):
        middle = (inner + outer) / 2
        inner, outer = np.where(beyond(middle), inner, middle), np.where(beyond(middle), middle, outer)
    low, high = seen * np.exp(outer)
    return float(low), float(high)
