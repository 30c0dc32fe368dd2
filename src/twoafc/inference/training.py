"""The noise of training: the variance that another training table would add to scores and differences.

A score is a mean over test rows by a surface fitted to training rows, and its error over test rows, V, leaves out that
of the fit. To estimate it, the training table is split at random into complementary halves, whole references at a time,
and fitted to both. D is the score of a tested row, or the difference of two distances' scores, by the fit to one half
less that by the other. Over K splits,

    R = mean of (mean D)^2 / 2,    I = mean of (variance of mean D over test rows) / 2,

and the variance that training adds is

    V_train = f max(R - I, 0),    or f R where the training table is cross-validated.

I is the interaction of row and fit, which V already has. f is 1/4 for the NLL (half a table has twice the noise, and
the NLL, flat around its best surface, changes with it to second order), 0.4 for other scores and, for differences of
these, I / 2V within 1/4 and 0.4. In cross-validation fits share rows with each other and with the rows tested: f is 1/8
for the NLL and 1/2 for the others. All but the first were chosen by simulation and confirmed on other simulated tables
(`benchmarks/verdicts.py`). V_train is added to V of scores and differences, with degrees of freedom by Satterthwaite's
formula; it is 0 for the distance alone.

Here are the formulas. Whether the noise counts, and the fits to halves, are in `twoafc.evaluation.halves`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from twoafc import metrics
from twoafc.arrays import FloatArray
from twoafc.inference.scores import all_measures, score_functions, with_sums
from twoafc.table import Votes

SPLITS = 10  # splits into halves with a test table; half as many when cross-validated


@dataclass(frozen=True, eq=False)
class HalfScores:
    """Scores of tested rows by fits to complementary halves of the training table."""

    apart: FloatArray  # D, those by the fits to the first halves less those by the second, shape (K, T, measures)
    crossed: bool  # whether the training table was cross-validated
    df: float  # of V_train: see `degrees_of_freedom`


def halves_of(table: Votes, P: FloatArray, *, ties: metrics.Ties = "half", crossed: bool, df: float) -> HalfScores:
    """Score fits to halves of the training table on a table with one distance, P of shape (K, 2, T).

    Measures that do not depend on the fit, and expected ones, are 0.
    """
    measures, rows = all_measures(table.k), np.arange(len(table))
    apart = np.zeros((len(P), len(table), len(measures)))
    for split, (first, second) in enumerate(P):
        if not np.isfinite(P[split]).all():
            apart[split] = np.nan  # a fit diverged
            continue
        one, other = (score_functions(table, half, ties=ties) for half in (first, second))
        columns = {}
        for name in ("nll", "agreement", "score_2afc")[: table.k + 1]:
            with np.errstate(invalid="ignore"):  # two infinite NLLs
                scores = (fit[name](rows, table.n, table.M, half) for fit, half in ((one, first), (other, second)))
                columns[name] = np.subtract(*scores)
        for name, column in with_sums(columns, table.M).items():
            apart[split, :, measures.index(name)] = column
    return HalfScores(apart, crossed, df)


def training_variance(
    means: FloatArray,
    variances: FloatArray,
    measures: Sequence[str],
    *,
    crossed: bool,
    over_rows: float | None = None,
) -> FloatArray:
    """V_train, shape (..., measures), from the mean of D over test rows and its variance over them.

    Both have shape (K, ..., measures); splits in which they are not finite are left out. `over_rows` is V of a
    difference.

    Examples
    --------
    >>> training_variance(np.array([[0.2], [-0.4]]), np.array([[0.02], [0.02]]), ["nll"], crossed=False)
    array([0.01])
    """
    known = np.isfinite(means) & np.isfinite(variances)
    splits = known.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        R, interaction = (np.where(known, part, 0.0).sum(axis=0) / (2 * splits) for part in (means**2, variances))
        of_choice = np.clip(interaction / (2 * over_rows), 0.25, 0.4) if over_rows else 0.4
    nll = np.array([name.startswith("nll") for name in measures])
    f = np.where(nll, 0.125, 0.5) if crossed else np.where(nll, 0.25, of_choice)
    return np.asarray(f * np.where(splits > 0, R if crossed else np.maximum(R - interaction, 0.0), np.nan))


def degrees_of_freedom(splits: int, units: float) -> float:
    """Degrees of freedom of V_train; `units` is the effective number of references of the training table."""
    return max(1.0, min(float(splits), units - 1))


def combined_units(over_rows: ArrayLike, units: ArrayLike, added: ArrayLike, df: float) -> FloatArray:
    """Effective number of units of a sum of two variances, over test rows and an added one (Satterthwaite).

    Examples
    --------
    >>> combined_units(np.array([1.0]), 41.0, np.array([1.0]), 10.0)
    array([33.])
    """
    over_rows, units, added = (np.asarray(values, dtype=np.float64) for values in (over_rows, units, added))
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = (over_rows + added) ** 2 / (over_rows**2 / (units - 1) + added**2 / df)
    return np.asarray(np.where(added > 0, 1 + whole, units))
