"""Intervals from a standard error, and the p-value of a difference."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from twoafc.arrays import FloatArray

LEVEL = 0.95
ROUNDING_SHARE = 1e-12
"""Up to this share of a difference its standard error is rounding: it is the same in every unit."""


class Interval(NamedTuple):
    """A value with its standard error and the ends of an interval; NaN where they cannot be known."""

    value: float
    se: float
    low: float
    high: float


def t_interval(value: float, se: float, units: float, *, skew: float = 0.0, level: float = LEVEL) -> Interval:
    """Interval of a mean over some number of independent units, by Student's t.

    The mean of few units that are skewed, as NLLs are, is skewed itself; both ends are then moved by the transformation
    of Hall (Journal of the Royal Statistical Society B 54, 1992), given the skewness of the mean.
    """
    quantile = _quantile(units, level)
    return Interval(value, se, value - _unskewed(quantile, skew) * se, value - _unskewed(-quantile, skew) * se)


def _unskewed(t: float, skew: float) -> float:
    """Undo the skewness in a quantile of Student's t: the inverse of t + skew (t^2 / 3 + 1 / 6) + skew^2 t^3 / 27."""
    if abs(skew) < 1e-6:
        return t
    # A larger skewness of few units is not reliable.
    skew = float(np.clip(skew, -0.3, 0.3))
    return float(3 / skew * (np.cbrt(1 + skew * (t - skew / 6)) - 1))


def share_interval(value: float, se: float, units: float, *, level: float = LEVEL) -> Interval:
    """Interval of a mean of numbers between 0 and 100 (a score in %), which does not leave that range.

    Wilson's interval for a proportion, on the number of coin tosses that would have the same standard error; at 0 and
    100, or where the standard error is 0 because all values are alike, on the number of units.
    """
    p = value / 100
    spread = p * (1 - p)
    tosses = units if se < 1e-9 or spread <= 0 else max(spread / (se / 100) ** 2, 1.0)
    q = _quantile(units, level) ** 2
    centre = (p + q / (2 * tosses)) / (1 + q / tosses)
    margin = np.sqrt(q * (max(spread, 0.0) / tosses + q / (4 * tosses**2))) / (1 + q / tosses)
    return Interval(value, se, float(100 * max(centre - margin, 0.0)), float(100 * min(centre + margin, 1.0)))


def difference_interval(difference: float, se: float, units: float, *, level: float = LEVEL) -> Interval:
    """Interval of a difference that excludes 0 exactly where `p_value` is below 1 - level.

    It is that of Student's t. Where the difference is the same in every unit, it ends at 0 unless the chance that all
    signs agree is small enough.

    Examples
    --------
    >>> difference_interval(0.5, 0.0, units=3.0), difference_interval(0.5, 0.0, units=9.0)
    (Interval(value=0.5, se=0.0, low=0.0, high=0.5), Interval(value=0.5, se=0.0, low=0.5, high=0.5))
    """
    if se <= ROUNDING_SHARE * abs(difference) and p_value(difference, se, units) >= 1 - level:
        return Interval(difference, se, min(difference, 0.0), max(difference, 0.0))
    return t_interval(difference, se, units, level=level)


def p_value(difference: float, se: float, units: float) -> float:
    """Two-sided p-value of a difference that is 0 under the hypothesis, by Student's t."""
    if se <= ROUNDING_SHARE * abs(difference):
        # The same difference in every unit: the chance that all signs agree.
        return 1.0 if difference == 0 else float(min(1.0, 2.0 ** (1 - units)))
    if units <= 1 or not np.isfinite(se):
        return float("nan")
    return float(2 * stdtr(units - 1, -abs(difference) / se))


def p_text(p: float) -> str:
    """Write a p-value, with so many digits that it is below 0.05 as written where it is.

    Examples
    --------
    >>> p_text(1e-9), p_text(0.0312), p_text(0.6), p_text(0.0497), p_text(0.0503)
    ('p < 0.0001', 'p = 0.031', 'p = 0.60', 'p = 0.0497', 'p = 0.05')
    """
    if p < 1e-4 or not p < 0.1:
        return "p < 0.0001" if p < 1e-4 else f"p = {p:.2f}"
    limit = round(1 - LEVEL, 9)
    digits = next((digits for digits in range(2, 9) if (float(f"{p:.{digits}g}") < limit) == (p < limit)), 9)
    return f"p = {p:.{digits}g}"


def places(error: float, *, least: int = 0, most: int = 9) -> int:
    """Decimals that show two digits of an error; the least where there is none.

    Examples
    --------
    >>> places(0.0526), places(1.57), places(25.0)
    (3, 1, 0)
    """
    return min(max(1 - math.floor(math.log10(error)), least), most) if error > 0 else least


def holm(p: ArrayLike) -> FloatArray:
    """Holm's correction for several tests: p-values to compare with the level one by one; NaN stays NaN."""
    return np.minimum(np.asarray(p, dtype=np.float64) * holm_factors(p), 1.0)


def holm_factors(p: ArrayLike) -> FloatArray:
    """Return the factor of Holm's correction for every p-value, from 1 to the number of tests; NaN stays NaN."""
    p = np.asarray(p, dtype=np.float64)
    factors = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    left = np.arange(len(order), 0, -1)
    largest = np.maximum.accumulate(p[order] * left)
    factors[order] = np.divide(largest, p[order], out=left.astype(np.float64), where=p[order] > 0)
    return factors


def _quantile(units: float, level: float) -> float:
    return float(stdtrit(units - 1, 0.5 + level / 2)) if units > 1 else float("nan")
