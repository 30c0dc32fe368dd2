"""The bootstrap: scores of tables drawn anew from the table at hand, by triplet or by what goes together.

It checks the analytic error bars and can stand in for them; with the surfaces fitted anew to drawn training tables it
adds what the analytic ones leave out, the error of the fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from twoafc.inference.dependence import Dependence
from twoafc.inference.errorbars import Values

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

AT_ONCE = 2**22
"""Numbers held in memory for some of the draws."""


def row_weights(together: Dependence, draws: int, rng: np.random.Generator) -> FloatArray:
    """How often each row is in each drawn table, shape (draws, T).

    Triplets, or clusters, are drawn with replacement. Where rows share labels of several kinds, every label is drawn
    and a row counts as often as the product of its labels says (the pigeonhole bootstrap of Owen, Annals of Applied
    Statistics 1, 2007), which is a little too cautious.
    """
    if not together.kinds:
        return _counts(together.size, draws, rng)
    if len(together.kinds) == 1:
        cluster = np.unique(together.kinds[0], return_inverse=True)[1]
        return _counts(int(cluster.max()) + 1, draws, rng)[:, cluster]
    labels, place = np.unique(np.stack(together.kinds), return_inverse=True)
    counts = _counts(len(labels), draws, rng)
    kinds = place.reshape(len(together.kinds), -1)
    return np.asarray(np.prod([counts[:, kind] for kind in kinds], axis=0))


def _counts(things: int, draws: int, rng: np.random.Generator) -> FloatArray:
    drawn = [np.bincount(rng.integers(things, size=things), minlength=things) for _ in range(draws)]
    return np.array(drawn, dtype=np.float64)


def bootstrap_errors(
    values: Values, codes: tuple[list[str], IntArray] | None, together: Dependence, *, draws: int, seed: int
) -> dict[str, FloatArray]:
    """Standard errors by group, as `twoafc.inference.errorbars.errors` gives them, from tables drawn anew."""
    names, group = codes if codes is not None else (["all"], np.zeros(len(values.M), dtype=np.int64))
    nll, rows = values.columns[:, values.measures.index("nll")], [np.flatnonzero(group == g) for g in range(len(names))]
    sums = np.column_stack([values.columns, nll])
    found: dict[str, list[FloatArray]] = {name: [] for name in dict.fromkeys((*names, "mean", "all"))}
    for weights in drawn_weights(together, draws, seed):
        totals = np.stack([weights[:, part] @ sums[part] for part in rows])
        per = np.stack([_counted(weights[:, part], values.M[part], sums.shape[1]) for part in rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            means = totals / per
            for name, mean in zip(names, means, strict=True):
                found[name].append(mean)
            found["mean"].append(means.mean(axis=0))
            if codes is not None:
                found["all"].append(totals.sum(axis=0) / per.sum(axis=0))
    return {name: _spread(np.concatenate(parts)) for name, parts in found.items()}


def _counted(weights: FloatArray, M: IntArray, columns: int) -> FloatArray:
    """What sums are divided by: the triplets drawn; for the last column, NLL per vote, their votes."""
    counted = np.repeat(weights.sum(axis=1)[:, None], columns, axis=1)
    counted[:, -1] = weights @ M
    return counted


def bootstrap_means(columns: FloatArray, together: Dependence, *, draws: int, seed: int) -> FloatArray:
    """Means of columns (T, k) over drawn tables, shape (draws, k).

    Examples
    --------
    >>> values = np.arange(100.0)[:, None]
    >>> means = bootstrap_means(values, Dependence(100, (), ""), draws=2000, seed=1)
    >>> round(float(means.std() / (values.std() / 10)), 1)
    1.0
    """
    drawn = [(weights @ columns) / weights.sum(axis=1)[:, None] for weights in drawn_weights(together, draws, seed)]
    return np.concatenate(drawn)


def drawn_weights(together: Dependence, draws: int, seed: int) -> Iterator[FloatArray]:
    """Give the rows' weights in drawn tables, some tables at a time; those without a single row are left out."""
    rng = np.random.default_rng(seed)
    step = max(1, AT_ONCE // max(together.size, 1))
    for start in range(0, draws, step):
        weights = row_weights(together, min(step, draws - start), rng)
        yield weights[weights.any(axis=1)]


def _spread(replicates: FloatArray) -> FloatArray:
    """Standard deviation over draws; those in which a group had no triplet are left out."""
    known = np.isfinite(replicates)
    with np.errstate(invalid="ignore"):
        spread = np.nanstd(np.where(known, replicates, np.nan), axis=0, ddof=1)
    return np.where(known.mean(axis=0) > 0.5, spread, np.nan)


def drawn_rows(together: Dependence, rng: np.random.Generator) -> IntArray:
    """Rows of one drawn table, as often as they are in it."""
    weights = row_weights(together, 1, rng)[0].astype(np.int64)
    return np.repeat(np.arange(together.size), weights)
