"""The bootstrap: scores of tables drawn anew from the table at hand, by triplet or by cluster.

It checks the analytic error bars and can stand in for them; with the surfaces fitted anew to drawn training tables it
adds what the analytic ones leave out, the error of the fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.dependence import Dependence
from twoafc.inference.errorbars import Values

AT_ONCE = 2**22  # numbers in memory at once


def drawn_weights(dependence: Dependence, draws: int, seed: int) -> Iterator[FloatArray]:
    """Yield the weights of rows in drawn tables, times their sampling weights: shape (some draws, T) at a time.

    Triplets, or clusters, are drawn with replacement. Where rows share labels of several kinds, all labels are drawn
    and their excesses are added: a row of which two labels are drawn more often than expected weighs that much more.
    Pairs of rows that share several labels are then counted more than once, which is conservative: standard errors are
    too large by up to the root of the number of kinds.
    """
    rng = np.random.default_rng(seed)
    kinds = np.stack(dependence.kinds or (np.arange(dependence.size),))
    labels, place = np.unique(kinds, return_inverse=True)
    step = max(1, AT_ONCE // max(dependence.size, 1))
    for start in range(0, draws, step):
        beyond = _counts(len(labels), min(step, draws - start), rng) - 1
        yield (1 + beyond[:, place.reshape(kinds.shape)].sum(axis=1)) * dependence.weights


def _counts(things: int, draws: int, rng: np.random.Generator) -> FloatArray:
    drawn = [np.bincount(rng.integers(things, size=things), minlength=things) for _ in range(draws)]
    return np.array(drawn, dtype=np.float64)


def bootstrap_errors(
    values: Values,
    codes: tuple[list[str], IntArray] | None,
    dependence: Dependence,
    *,
    grouped: Values | None = None,
    draws: int,
    seed: int,
) -> dict[str, FloatArray]:
    """Standard errors by group, as `errors` gives them, from tables drawn anew."""
    scores: dict[str, list[FloatArray]] = {}
    for weights in drawn_weights(dependence, draws, seed):
        with np.errstate(divide="ignore", invalid="ignore"):  # a group may be missing, an NLL infinite
            scores.setdefault("all", []).append(_means(values, weights))
            if codes is not None:
                names, group = codes
                of_groups = [_means(grouped or values, weights * (group == g)) for g in range(len(names))]
                for name, mean in zip((*names, "mean"), (*of_groups, np.mean(of_groups, axis=0)), strict=True):
                    scores.setdefault(name, []).append(mean)
    return {name: spread(np.concatenate(parts)) for name, parts in scores.items()}


def bootstrap_means(values: Values, dependence: Dependence, *, draws: int, seed: int) -> FloatArray:
    """Means of the measures over drawn tables, shape (draws, measures)."""
    return np.concatenate([_means(values, weights) for weights in drawn_weights(dependence, draws, seed)])


def _means(values: Values, weights: FloatArray) -> FloatArray:
    """Means of the measures in tables with such weights, shape (draws, measures)."""
    return np.asarray((weights @ values.columns) / (weights @ values.sizes))


def spread(replicates: FloatArray) -> FloatArray:
    """Standard deviation over draws that are finite; NaN unless two of them are, and more than half.

    Examples
    --------
    >>> spread(np.array([[1.0, 1.0], [3.0, np.nan], [np.nan, np.nan]]))
    array([1.41421356,        nan])
    """
    known = np.isfinite(replicates)
    enough = (known.mean(axis=0) > 0.5) & (known.sum(axis=0) > 1)
    return np.where(enough, np.std(np.where(known, replicates, 0.0), axis=0, ddof=1, where=known | ~enough), np.nan)


def drawn_rows(dependence: Dependence, rng: np.random.Generator) -> IntArray:
    """Rows of one drawn table, as often as they are in it: whole clusters by the first kind of label, or rows."""
    of = np.unique(dependence.kinds[0], return_inverse=True)[1] if dependence.kinds else np.arange(dependence.size)
    drawn = _counts(int(of.max()) + 1, 1, rng)[0].astype(np.int64)
    return np.repeat(np.arange(dependence.size), drawn[of])
