"""Where a distance fails: the triplets that surprise it most, or on which two distances disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from twoafc import plots
from twoafc.arrays import FloatArray, IntArray
from twoafc.core import log_pmf
from twoafc.errors import DataError
from twoafc.files import OutputFolder
from twoafc.results.image_folder import Pictures
from twoafc.results.query import DPI, TELLING, failure_cards, save_card
from twoafc.table import ENDS, write_frame

if TYPE_CHECKING:
    from twoafc.results.result import Result

AT_ONCE = 2**20
MANY = 10_000
"""Above so many votes on a triplet, mid p-values are those of the normal distribution of the deviance's signed root."""
LEAST = -1e300
"""Below the logarithm of any probability other than 0."""
ALIKE = 1e-7
"""Counts whose log-likelihoods differ by less than this are equally likely, such as j and M - j at P = 1/2."""
FOLDER = OutputFolder("failures.json", "failures")


def surprise(n: ArrayLike, M: ArrayLike, P: ArrayLike) -> FloatArray:
    """Return the surprise of the votes of each triplet in bits: ten are as surprising as ten heads in a row.

    It is -log2 of the mid p-value: the probability of a count that is less likely than the observed one under
    Binomial(M, P), plus half that of a count that is as likely. If P is true, the mid p-value is 1/2 on average,
    whatever M and P. The NLL would not serve: it is large if M is large, or if P is near 1/2.

    Examples
    --------
    >>> surprise([0, 1, 0], [1, 2, 10], [0.5, 0.5, 0.5]).round(2)
    array([ 1. , 0.42, 10. ])
    """
    n, M, P = np.broadcast_arrays(np.asarray(n), np.asarray(M), np.asarray(P, dtype=np.float64))
    bits = np.empty(P.shape)
    many = np.flatnonzero(M > MANY)
    if len(many):
        deviance = 2 * (log_pmf(n, M, n / M) - log_pmf(n, M, P)).flat[many]
        bits.flat[many] = -1 - log_ndtr(-np.sqrt(np.maximum(deviance, 0))) / np.log(2)
    for rows, every, _ in _outcomes(M, P):
        bits.flat[rows] = np.take_along_axis(every, n.flat[rows][:, None], axis=1)[:, 0]
    return bits


def _by_surprise(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort rows of `Result.outcomes` by the ``surprise`` of their votes in bits, which is added, the largest first."""
    bits = surprise(*(rows[name].to_numpy() for name in ("n", "M", "P")))
    return rows.with_columns(surprise=pl.Series(bits)).sort("surprise", "nll", descending=True, maintain_order=True)


def most_surprising(rows: pl.DataFrame) -> dict[str, Any]:
    """Return the row of `Result.outcomes` whose votes surprise most, with ``surprise``."""
    return _by_surprise(rows).row(0, named=True)


def by_chance(bits: ArrayLike, M: ArrayLike, P: ArrayLike) -> FloatArray:
    """Return the expected number of triplets of a table that surprise by at least so many bits, if P is true.

    Examples
    --------
    >>> by_chance([1.0, 3.0], M=[1, 3], P=[0.5, 0.5])
    array([1.25, 0.25])
    """
    order = np.argsort(bits)
    levels = np.asarray(bits, dtype=np.float64)[order]
    counted = np.zeros(len(levels) + 1)
    many = int(np.sum(np.asarray(M) > MANY))
    for _, every, chance in _outcomes(np.asarray(M), np.asarray(P, dtype=np.float64)):
        reached = np.searchsorted(levels, every.ravel(), side="right")
        counted += np.bincount(reached, chance.ravel(), len(counted))
    expected = np.empty(len(levels))
    expected[order] = np.cumsum(counted[::-1])[::-1][1:] + many * np.exp2(-levels)
    return expected


def _outcomes(M: IntArray, P: FloatArray) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Yield rows with the same M, up to `MANY`, in blocks that fit in memory, with surprise and chance of every j."""
    for m in np.unique(M[M <= MANY]):
        rows = np.flatnonzero(m == M)
        step = max(1, AT_ONCE // (int(m) + 1))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            log_p = log_pmf(np.arange(m + 1), m, P.flat[some][:, None])
            yield some, _bits(log_p), np.exp(log_p)


def _bits(log_p: FloatArray) -> FloatArray:
    """Return the surprise of each count of each row from their log-probabilities, both of shape (rows, M + 1)."""
    order = np.argsort(log_p, axis=1, kind="stable")
    ordered = np.take_along_axis(log_p, order, axis=1)
    # Cumulative sums in logarithms, so that very small probabilities do not become 0; the first sum is 0.
    below = np.logaddexp.accumulate(np.pad(ordered, ((0, 0), (1, 0)), constant_values=-np.inf), axis=1)
    place = np.arange(ordered.shape[1])
    new = np.diff(np.maximum(ordered, LEAST), axis=1, prepend=2 * LEAST) > ALIKE
    first = np.maximum.accumulate(np.where(new, place, 0), axis=1)
    ends = np.roll(new, -1, axis=1)
    ends[:, -1] = True
    last = np.minimum.accumulate(np.where(ends, place, len(place))[:, ::-1], axis=1)[:, ::-1]
    # Half the sum of P(less likely) and P(no more likely).
    less, no_likelier = (np.take_along_axis(below, at, axis=1) for at in (first, last + 1))
    bits = np.empty_like(log_p)
    np.put_along_axis(bits, order, 1 - np.logaddexp(less, no_likelier) / np.log(2), axis=1)
    return bits


def surprising(
    result: Result, distance: str | None = None, *, estimator: str | None = None, top: int = 20
) -> pl.DataFrame:
    """List the tested triplets whose votes surprise a distance most, the most surprising first.

    Parameters
    ----------
    distance, estimator : str, default the first of the results
    top : int
        How many to list.

    Returns
    -------
    polars.DataFrame
        The columns of `Result.outcomes`, with ``surprise`` in bits (see `surprise`) and ``by_chance``: how
        many of the tested triplets would surprise at least as much, on average, if P were true.
    """
    _require(top)
    rows = result.outcome_rows(distance, estimator)
    first = _by_surprise(rows).head(top)
    expected = by_chance(first["surprise"].to_numpy(), rows["M"].to_numpy(), rows["P"].to_numpy())
    return first.with_columns(by_chance=pl.Series(expected))


def disagreements(result: Result, a: str, b: str, *, estimator: str | None = None, top: int = 20) -> pl.DataFrame:
    """List the tested triplets, or pairs, on which P differs most between two distances, and which one was right.

    They are chosen by P only: the votes, which decide which one was right, have no influence on the choice, so that the
    list favours neither distance.

    Parameters
    ----------
    a, b : str
        The two distances.
    estimator : str, default the first of the results
    top : int
        How many to list.

    Returns
    -------
    polars.DataFrame
        Labels, ``n``, ``M``, ``estimator``, then ``a``, ``b`` (names), ``d0_a``, ``d1_a``, ``P_a``, ``nll_a`` and the
        same of b, ``apart``: ``|P_a - P_b|``, ``ratio``: how many times as likely the votes are under the one that
        explains them better, and ``right``: its name, or null if the ratio is below `TELLING`.
    """
    _require(top)
    if a == b:
        raise ValueError(f"a disagreement needs two distances; found {a} twice")
    one, other = (result.outcome_rows(name, estimator) for name in (a, b))
    own = ["distance", *ENDS[result.k], "P", "nll"]
    if not one.drop(own).equals(other.drop(own)):
        raise DataError(f"{a} and {b} must be tested on the same {result.row}s; those of {result.name} differ")
    with np.errstate(over="ignore", invalid="ignore"):  # votes may be impossible under one of the two, or under both
        gap = other["nll"].to_numpy() - one["nll"].to_numpy()
        ratio = np.exp(np.abs(gap))
    listed = one.drop(own).with_columns(
        **{"a": pl.lit(a), "b": pl.lit(b)},
        **{f"{name}_{side}": rows[name] for side, rows in (("a", one), ("b", other)) for name in own[1:]},
        apart=(one["P"] - other["P"]).abs(),
        ratio=pl.Series(ratio),
        # If the votes are impossible under both, the ratio is NaN and the votes decide nothing.
        right=pl.when(pl.Series(ratio >= TELLING)).then(pl.Series(np.where(gap > 0, a, b))),
    )
    return listed.sort("apart", descending=True, maintain_order=True).head(top)


def _require(top: int) -> None:
    if top < 1:
        raise ValueError(f"top must be at least 1; found {top}")


def check_failures_folder(folder: Path, results: Path) -> None:
    """Raise a `DataError` if a folder contains anything but an earlier list, or is inside the results."""
    if folder.resolve().is_relative_to(results.resolve()):
        raise DataError(
            f"{folder} lies in {results}, which is replaced as a whole by twoafc evaluate; name another folder"
        )
    FOLDER.check(folder, [results])


def write_failures(
    result: Result,
    rows: pl.DataFrame,
    folder: str | Path,
    *,
    pictures: Pictures | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write a list of failures as a table, each card as SVG, and all cards as one PDF; an earlier list is replaced."""
    from matplotlib.backends.backend_pdf import PdfPages

    with FOLDER.whole(folder) as partial:
        write_frame(rows, partial / "failures.csv")
        with plots.reproducible(), PdfPages(partial / "cards.pdf", metadata={"CreationDate": None}) as pages:
            for done, (name, figure) in enumerate(failure_cards(result, rows, pictures)):
                if progress:
                    progress(done, len(rows), name)
                save_card(figure, partial / "figures" / f"{name}.svg")
                pages.savefig(figure, dpi=DPI)
        FOLDER.write_card(partial, {"kind": "failures", "results": result.card}, {"failures": rows.to_dicts()})
