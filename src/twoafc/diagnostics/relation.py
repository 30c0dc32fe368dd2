"""How a distance relates to the votes, without a fit: its bare 2AFC score, and whether anything of it explains them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc, stdtr

from twoafc.arrays import FloatArray, IntArray

FEWEST_UNITS = 20
"""Fewer references say nothing sure of their own spread: rows stand for themselves then, and effects must be large."""


@dataclass(frozen=True)
class Relation:
    """The bare 2AFC score with its error, and the chance of the votes if the distance said nothing about them.

    Parameters
    ----------
    score, se : float
        2AFC score of the bare distance in per cent, and its standard error over units.
    low, high : float
        Chance of a score so low, and so high, at a true 50 %.
    effect, effect_se : float
        What the score gains from the rows' order, in per cent: the score less that of the same votes shuffled. In a
        table where x1 is mostly better, shuffled votes too score above 50 %, and this is still 0.
    p : float
        Chance of the votes if they had nothing to do with any of five antisymmetric functions of the ranks.
    units : int
        Rows, or references where these repeat and are not too few.
    coarse : bool
        Whether references repeat but are too few, so that rows stood for themselves.
    """

    score: float
    se: float
    low: float
    high: float
    effect: float
    effect_se: float
    p: float
    units: int
    coarse: bool

    def bound(self) -> float:
        """Largest effect, in per cent, that the votes leave likely."""
        return abs(self.effect) + 2.33 * self.effect_se

    def text(self) -> str:
        """Write the score with its error."""
        return f"2AFC {self.score:.1f} ± {self.se:.1f} %"


def relate(share: FloatArray, u0: FloatArray, u1: FloatArray, unit: IntArray | None) -> Relation:
    """Relate votes to the ranks of a distance.

    Parameters
    ----------
    share : array, shape (T,)
        n / M.
    u0, u1 : array, shape (T,)
        The distances, uniformised.
    unit : array of int or None
        The reference of each row where they repeat.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> u0, u1 = rng.random((2, 1000))
    >>> found = relate(rng.binomial(2, u1) / 2, u0, u1, None)
    >>> found.score < 40, found.low < 1e-9, found.p < 1e-9
    (True, True, True)
    """
    coarse = unit is not None and int(unit.max()) + 1 < FEWEST_UNITS
    if coarse:
        unit = None
    difference, total = u0 - u1, u0 + u1 - 1
    side = np.sign(difference)
    units = len(share) if unit is None else int(unit.max()) + 1
    (score,), (se,) = _mean((side * (share - 0.5))[None], unit)
    # Votes that all agree leave no spread to see; the next one could still be another.
    least = 0.15 / np.sqrt(len(share))
    t = float(score / max(se, least))
    features = np.stack(
        [side, difference, difference * total, difference * (difference * difference), difference * (total * total)]
    )
    features -= features.mean(axis=1, keepdims=True)
    features *= share - share.mean()
    (effect,), (effect_se,) = _mean(features[:1], unit)
    return Relation(
        score=50 + 100 * float(score),
        se=100 * float(se),
        low=float(stdtr(units - 1, t)) if units > 1 else 1.0,
        high=float(stdtr(units - 1, -t)) if units > 1 else 1.0,
        effect=100 * float(effect),
        effect_se=100 * max(float(effect_se), least),
        p=_chance(features, unit),
        units=units,
        coarse=coarse,
    )


def _sums(values: FloatArray, unit: IntArray | None) -> FloatArray:
    """Sum each row of values within units."""
    return values if unit is None else np.stack([np.bincount(unit, weights=row) for row in values])


def _mean(values: FloatArray, unit: IntArray | None) -> tuple[FloatArray, FloatArray]:
    """Mean of each row of values, and its standard error over units."""
    mean = values.mean(axis=1)
    sums = _sums(values - mean[:, None], unit)
    units = sums.shape[1]
    return mean, np.sqrt(units / max(units - 1, 1) * (sums * sums).sum(axis=1)) / values.shape[1]


def _chance(features: FloatArray, unit: IntArray | None) -> float:
    """Hotelling's test that all rows of features have mean zero, over units."""
    sums = _sums(features, unit)
    groups = sums.shape[1]
    total, scatter = sums.sum(axis=1), sums @ sums.T
    # Few distinct distances make some of the functions copies of others.
    scale = np.sqrt(np.maximum(np.diag(scatter), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(scatter / np.outer(scale, scale))
    kept = values > 1e-9
    rank = int(kept.sum())
    if rank == 0 or groups <= 2 * rank:
        return 1.0
    along = vectors[:, kept].T @ (total / scale)
    ratio = float((along**2 / values[kept]).sum()) / groups
    # `scatter` is about zero, not about the mean: this is Hotelling's statistic in those terms.
    statistic = ratio / max(1 - ratio, 1e-300) * (groups - rank) / rank
    return float(fdtrc(rank, groups - rank, statistic))
