"""How far from the most likely mixture the true one may lie, where rows of the table go together.

If every triplet stood alone, the likelihood-ratio statistic at the truth would be at most chi-squared, with one degree
of freedom for each number that the votes identify. Where rows go together it is a weighted sum of such terms; their
weights, the design effects, come from the variance of the scores between clusters, and the sum is taken for a scaled F
(Rao and Scott, Annals of Statistics 12, 1984; Satterthwaite's degrees of freedom).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, f

from twoafc.arrays import FloatArray
from twoafc.inference.dependence import Dependence
from twoafc.inference.mixture_votes import Histogram


@dataclass(frozen=True)
class Reach:
    """Distribution of the likelihood-ratio statistic: chi-squared, or a scaled F where rows go together."""

    freedom: float
    scale: float = 1.0
    units: float = np.inf

    def limit(self, level: float) -> float:
        """Value that the statistic stays below with this probability; infinite where one cluster holds everything."""
        alone = float(chi2.ppf(level, self.freedom))
        if not np.isfinite(self.units):
            return alone
        if self.units <= 1 or not np.isfinite(self.scale):
            return np.inf
        # Rows that seem to repel each other are chance.
        return max(alone, self.scale * self.freedom * float(f.ppf(level, self.freedom, self.units - 1)))

    def p_value(self, statistic: float) -> float:
        """Chance of a statistic at least so large."""
        alone = float(chi2.sf(statistic, self.freedom))
        if not np.isfinite(self.units):
            return alone
        if self.units <= 1 or not np.isfinite(self.scale):
            return 1.0
        return max(alone, float(f.sf(statistic / (self.scale * self.freedom), self.freedom, self.units - 1)))


def within(histogram: Histogram, fitted: FloatArray, together: Dependence) -> Reach:
    """Distribution of one histogram's statistic; `together` says which of its triplets go together."""
    directions = np.eye(len(fitted))[:, 1:] - 1 / len(fitted)
    return _reach([histogram], fitted, directions, together)


def across(histograms: list[Histogram], fitted: FloatArray, together: Dependence, *, common: bool) -> Reach:
    """Distribution of the statistic of several histograms: around one common mixture, or cell by cell.

    Around a common mixture the votes can move as far as the largest number of them identifies, floor(M/2) numbers.
    """
    if common:
        most = max(each.kept for each in histograms) // 2
        # As many values of (2q - 1)^2 as there are numbers, and one: their differences span what a mixture can change.
        spread = np.sqrt((1 - np.cos(np.pi * (np.arange(most + 1) + 0.5) / (most + 1))) / 2)
        at = np.concatenate([each.expected((1 + spread) / 2) for each in histograms])
        return _reach(histograms, fitted, at[:, 1:] - at[:, :1], together)
    sizes = [each.kept // 2 + 1 for each in histograms]
    parts = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    directions = np.concatenate([part[:, 1:] - part.mean(axis=1, keepdims=True) for part in parts], axis=1)
    return _reach(histograms, fitted, directions, together)


def _reach(histograms: list[Histogram], fitted: FloatArray, directions: FloatArray, together: Dependence) -> Reach:
    freedom = directions.shape[1]
    if not together.kinds or not freedom:
        return Reach(max(freedom, 1))
    # Scores of the triplets along the directions, so scaled that they would have unit variance if each stood alone.
    sure = np.maximum(fitted, 0.5)
    whitened = np.linalg.qr(directions / np.sqrt(sure)[:, None])[0] / np.sqrt(sure)[:, None]
    offset, scores = 0, []
    for each in histograms:
        cells = slice(offset, offset + each.kept // 2 + 1)
        values, place = np.unique(each.n, return_inverse=True)
        scores.append(((each.rows(values) - each.observed / each.triplets) @ whitened[cells])[place])
        offset = cells.stop
    units = float(together.units(np.full(together.size, 1 / together.times.sum()))[0])
    covariance = _covariance(np.concatenate(scores), together)
    if not np.isfinite(covariance).all():
        return Reach(freedom, np.inf, units)
    effects = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
    total, squares = float(effects.sum()), float(np.sum(effects**2))
    # Votes that are all alike show no spread at all.
    return Reach(total**2 / squares, squares / total, units) if squares > 0 else Reach(freedom, 1.0, units)


def _covariance(scores: FloatArray, together: Dependence) -> FloatArray:
    """Covariance of the sums of some scores over rows that go together, from the variances of sums of two of them."""
    first, second = np.triu_indices(scores.shape[1])
    weight = np.full(len(scores), 1 / together.times.sum())
    variance = together.variance(scores[:, first] + scores[:, second], weight)[0] / 4
    covariance = np.zeros((scores.shape[1],) * 2)
    covariance[first, second] = covariance[second, first] = variance
    own = np.diag(covariance).copy()
    # var((a + b) / 2) = (var a + var b + 2 cov) / 4, and var((a + a) / 2) = var a
    return 2 * covariance - (own[:, None] + own) / 2
