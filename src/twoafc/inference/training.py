"""The noise of training in a score: what another training table would have changed.

The training table is split at random into complementary halves, whole references at a time, and fitted on both. D is
the score of a tested row, or the difference of two distances' scores, by the fit to one half less that by the other.
Over K splits,

    R = mean of (mean D)^2 / 2,    I = mean of (variance of mean D over test rows) / 2,

and the variance that training adds is f (R - I), or f R where the training table is cross-validated. I is the
interaction of row and fit, which the variance over test rows already has. f is 1/4 for the NLL: half a table has
twice the noise, and the NLL, flat around its best surface, feels it to second order. For measures of the choice f
grows with the noise: for a difference with variance V over test rows it is I / 2V, at least 1/4 and at most 0.4; for a
score it is 0.4. In cross-validation fits share rows with each other and with the rows tested: f is 1/8 for the NLL and
1/2 for the others. Apart from the first, these factors were chosen by simulation and confirmed on other simulated
tables (`benchmarks/verdicts.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoafc.arrays import FloatArray

SPLITS = 10
"""Splits into halves with a test table; half as many when cross-validated."""


@dataclass(frozen=True, eq=False)
class HalfScores:
    """Scores of tested rows by fits to complementary halves of the training table."""

    apart: FloatArray  # those by the fits to the first halves less those by the second, shape (K, T, measures)
    crossed: bool  # whether the training table was cross-validated
    df: float  # degrees of freedom of the variance: K, or fewer where the training table has few references


def training_variance(
    means: FloatArray, variances: FloatArray, measures: list[str], *, crossed: bool, rows: float | None = None
) -> FloatArray:
    """Variance of scores that training adds, shape (measures,), from the mean of D over test rows and its variance.

    Both have shape (K, measures); splits in which they are not finite are left out. `rows` is V of a difference.

    Examples
    --------
    >>> training_variance(np.array([[0.2], [-0.4]]), np.array([[0.02], [0.02]]), ["nll"], crossed=False)
    array([0.01])
    """
    known = np.isfinite(means) & np.isfinite(variances)
    splits = known.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        R, interaction = (np.where(known, part, 0.0).sum(axis=0) / (2 * splits) for part in (means**2, variances))
        of_choice = np.clip(interaction / (2 * rows), 0.25, 0.4) if rows else np.full(len(splits), 0.4)
    nll = np.array([name.startswith("nll") for name in measures])
    f = np.where(nll, 0.125, 0.5) if crossed else np.where(nll, 0.25, of_choice)
    return f * np.where(splits > 0, R if crossed else np.maximum(R - interaction, 0.0), np.nan)


def combined_units(rows: FloatArray, units: FloatArray | float, training: FloatArray, df: float) -> FloatArray:
    """Effective number of units of a sum of two variances, over test rows and of training (Satterthwaite).

    Examples
    --------
    >>> combined_units(np.array([1.0]), 41.0, np.array([1.0]), 10.0)
    array([33.])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = (rows + training) ** 2 / (rows**2 / (np.asarray(units) - 1) + training**2 / df)
    return np.asarray(np.where(training > 0, 1 + whole, units))
