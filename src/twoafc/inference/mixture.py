"""Mixtures of binomials that vote counts allow: how the chance of a choice may spread over triplets.

M votes a triplet identify no more of that spread than floor(M/2) numbers, however many triplets there are. Which of x0
and x1 is which is arbitrary, so votes are folded, k = min(n, M - n), and a mixture is one over q = max(p, 1 - p) in
[1/2, 1]. Of all mixtures that fit the votes about as well as the best one does, linear programmes find the one with the
least, and the one with the greatest, mean of a function of q.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls
from scipy.special import xlogy

from twoafc.arrays import FloatArray
from twoafc.inference.mixture_votes import Histogram, chances

Function = Callable[[FloatArray], FloatArray]
"""A function of q, the chance that a vote goes with the majority."""

# Mixtures have their atoms among every tenth of these values of q; all values serve to prove the bounds so found.
VALUES, EVERY = 1601, 10
# A solution may lie so much further out than the likelihood allows, relatively: fewer programmes, and no bound is lost.
SLACK = 0.05
ROUNDS = 60
# Few triplets allow nearly every mixture: there the bound hardly rises any more, and what is proven holds.
LATELY, STILL = 4, 1e-4
# What a linear programme takes for equal shares.
EQUAL = 1e-7


class Cut(NamedTuple):
    """A half-plane of expected counts: normal · counts <= limit."""

    normal: FloatArray
    limit: float


class Mixtures:
    """Mixtures over q that vote histograms allow: one histogram, or several that share a mixture.

    Examples
    --------
    >>> votes = Mixtures([Histogram(2, 2, np.repeat([0, 1, 2], [400, 200, 400]))])
    >>> votes.deviance(votes.fitted) < 1e-12
    True

    With M = 2 only the mean of (2q - 1)^2 is known, here 0.6, and that of 2q - 1 lies between it and its square root.

    >>> np.subtract(np.multiply(votes.identified(lambda q: q), 2), 1).round(3)
    array([0.6  , 0.775])
    """

    def __init__(self, histograms: Sequence[Histogram]) -> None:
        self.histograms = tuple(histograms)
        self.q = chances(VALUES)
        self.observed = np.concatenate([each.observed for each in histograms])
        self._expected = np.concatenate([each.expected(self.q) for each in histograms])
        self._total = float(self.observed.sum())
        self.weights = _most_likely(self._expected[:, ::EVERY], self.observed)
        self.fitted: FloatArray = self._expected[:, ::EVERY] @ self.weights

    def deviance(self, expected: FloatArray) -> float:
        """Likelihood-ratio statistic of expected against observed counts.

        An empty cell counts half: the limit for what it may hide is then about the exact one, 3.8 counts at 95 %, where
        the likelihood ratio by itself would stop at 1.9.
        """
        seen = self.observed > 0
        with np.errstate(divide="ignore"):
            log_ratio = xlogy(self.observed, np.where(seen, self.observed, 1) / np.where(seen, expected, 1))
        return float(np.sum(np.where(seen, 2 * (expected - self.observed + log_ratio), expected)))

    def identified(self, function: Function) -> tuple[float, float]:
        """Least and greatest mean of a function over all mixtures with the same counts as the most likely one."""
        share, room = self._expected[:, ::EVERY] / self._total, np.full(len(self.observed), EQUAL)
        rows = np.concatenate([share, -share])
        limits = np.concatenate([self.fitted / self._total + room, room - self.fitted / self._total])
        values = function(self.q[::EVERY])
        found = [_solve(sign * values, rows, limits) for sign in (1, -1)]
        own = float(values @ self.weights)
        # One mixture alone may be left, which rounding puts out of the solver's reach.
        low, high = (own if each is None else sign * each[0] for sign, each in zip((1, -1), found, strict=True))
        return max(min(low, own), float(values.min())), min(max(high, own), float(values.max()))

    def plausible(self, functions: Sequence[Function], reach: float) -> list[tuple[float, float]]:
        """Least and greatest means of some functions over mixtures whose deviance exceeds the least by at most `reach`.

        The region is convex, and half-planes that touch it are added until the linear programme's solution lies in it,
        or nearly. Whatever the half-planes, the programme's multipliers y prove a bound for every mixture: the mean
        of f is at least the minimum over q of f(q) + y·a(q), less y·b. It is taken over more values of q than the
        programme has atoms, so that neither the solver's tolerance nor the atoms cut off anything.
        """
        found, limit = [], self.deviance(self.fitted) + reach
        # Every function goes on with the half-planes of those before it.
        cuts = self._box(limit) if np.isfinite(reach) else []
        for function in functions:
            values = function(self.q)
            low, high = (sign * self._least(sign * values, cuts, limit, SLACK * reach) for sign in (1, -1))
            found.append((max(low, float(values.min())), min(high, float(values.max()))))
        return found

    def _least(self, values: FloatArray, cuts: list[Cut], limit: float, slack: float) -> float:
        """Least mean, proven, over mixtures within the limit; adds to the half-planes."""
        atoms, bounds = self._expected[:, ::EVERY], [float(values.min())]
        # Few triplets may all have the chance that is the very least.
        if self.deviance(self._expected[:, np.argmin(values)]) <= limit:
            return bounds[-1]
        still = STILL * float(np.ptp(values))
        for _ in range(ROUNDS if cuts else 0):
            normals, limits = np.stack([cut.normal for cut in cuts]), np.array([cut.limit for cut in cuts])
            solved = _solve(values[::EVERY], normals @ atoms, limits)
            if solved is None:
                break
            _, weights, multipliers = solved
            proven = (values + (multipliers @ normals) @ self._expected).min() - multipliers @ limits
            bounds.append(max(bounds[-1], float(proven)))
            outer: FloatArray = atoms @ weights
            if self.deviance(outer) <= limit + slack:
                break
            if len(bounds) > LATELY and bounds[-1] - bounds[-1 - LATELY] < still:
                break
            cuts.append(self._tangent(outer, limit))
        return bounds[-1]

    def _box(self, limit: float) -> list[Cut]:
        """Limits of each cell by itself: no other cell makes up for what it adds to the deviance."""
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
        """Half-plane that holds the region and touches it between the best fit and a point outside."""
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
    """Weights of the most likely mixture, by weighted least squares again and again; its fitted counts are unique."""
    weights = np.full(expected.shape[1], 1 / expected.shape[1])
    fitted = expected @ weights
    total = observed.sum()
    for _ in range(200):
        scale = 1 / np.sqrt(np.maximum(fitted, 1e-9 * total))
        try:
            target = nnls(expected * scale[:, None], observed * scale, maxiter=20 * len(weights))[0]
        except RuntimeError:
            # It went round in circles; what is reached so far is a mixture too, and its deviance is what counts.
            break
        before, step = _minus_log_likelihood(fitted, observed), 1.0
        while (
            step > 1e-9 and _minus_log_likelihood(expected @ (weights + step * (target - weights)), observed) > before
        ):
            step /= 2
        if step <= 1e-9:
            break
        weights = weights + step * (target - weights)
        moved, fitted = fitted, expected @ weights
        if np.abs(fitted - moved).max() < 1e-10 * total:
            break
    return np.asarray(weights / weights.sum())


def _minus_log_likelihood(expected: FloatArray, observed: FloatArray) -> float:
    with np.errstate(divide="ignore"):
        return float(np.sum(expected) - np.sum(xlogy(observed, expected)))


def _solve(values: FloatArray, rows: FloatArray, limits: FloatArray) -> tuple[float, FloatArray, FloatArray] | None:
    """Least mean of the values over weights w with rows w <= limits, those weights, and the limits' multipliers."""
    one = np.ones((1, len(values)))
    # Once in some thousand programmes the solver gives up after its own simplifications, and not without them.
    for simplify in (True, False):
        found = linprog(values, rows, limits, one, [1.0], (0, None), method="highs-ds", options={"presolve": simplify})
        if found.status == 0 and found.fun is not None:
            return float(found.fun), np.asarray(found.x), np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return None


def _poisson_limits(seen: float, limit: float) -> tuple[float, float]:
    """Least and greatest expected count whose deviance from the count seen is within the limit."""
    if seen == 0:
        return 0.0, limit

    def beyond(log_ratio: FloatArray) -> NDArray[np.bool_]:
        # No limit is so wide that a ratio beyond e^500 lies within it.
        return np.asarray(2 * seen * (np.expm1(np.minimum(log_ratio, 500.0)) - log_ratio) > limit)

    # Bisection of log(expected / seen) on either side, towards the outside.
    inner = np.zeros(2)
    outer = np.array([-1.0, 1.0]) * (1 + limit / (2 * seen) + np.sqrt(limit / seen))
    for _ in range(60):
        middle = (inner + outer) / 2
        inner, outer = np.where(beyond(middle), inner, middle), np.where(beyond(middle), middle, outer)
    low, high = seen * np.exp(outer)
    return float(low), float(high)
