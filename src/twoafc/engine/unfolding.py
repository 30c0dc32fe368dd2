"""A dense array back to rows of counts, in order, with the rows that had no place in it put in between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.counts.cells import KEY, Spans, fits, numbers_of
from twoafc.engine.window import ShortArray, Window

SPAN = 2**18
"""Places of the array looked at together, so that what is made of them stays in the processor's cache."""

SIGNS = np.array([1, -1, 0, 1, -1], dtype=np.int8)
"""Sign of d0 - d1 by how far a column is ahead of its line: behind it, the three of equal slots, and beyond these."""

Columns = dict[str, NDArray[np.integer]]


def unfolded(window: Window, dense: NDArray[np.integer], more: pl.DataFrame, groups: Sequence[str]) -> pl.DataFrame:
    """Give what an array counted as rows of bins, sign, n, M, group and count, in the order of counts, with some more.

    Memory that was never used costs as much time as the counting itself: rows are written to their last place at once.

    Parameters
    ----------
    more : frame
        Other rows, in order and each key once. One that has a place in the array stands twice among the rows; and where
        the numbers of votes are so large that keys are not quickly compared, all stand at the end.
    groups : sequence of str
        Names of the groups in order, those of the window's among them; `more` has their numbers.
    """
    size = np.count_nonzero(dense) + len(more)
    kinds: dict[str, type[np.signedinteger]] = dict.fromkeys(KEY, np.int32)
    kinds |= {"sign": np.int8, "count": np.int64}
    columns: Columns = {name: np.empty(size, dtype=kind) for name, kind in kinds.items()}
    others: Columns = {name: more[name].to_numpy().astype(kind) for name, kind in kinds.items()}
    spans = _spans(window, others, groups)
    later = numbers_of(others, spans) if fits(spans) else np.empty(0, dtype=np.int64)
    numbers = np.array([groups.index(name) for name in window.kinds.groups], dtype=np.int32)
    first = 0
    for start in range(0, len(dense), SPAN):
        found = _rows(window, dense[start : start + SPAN], start, numbers)
        if len(later) and len(found["count"]):
            order = numbers_of(found, spans)
            between = int(np.searchsorted(later, order[-1]))
            at = np.searchsorted(order, later[:between])
            found = {name: np.insert(each, at, others[name][:between]) for name, each in found.items()}
            later, others = later[between:], {name: each[between:] for name, each in others.items()}
        last = first + len(found["count"])
        for name, each in found.items():
            columns[name][first:last] = each
        first = last
    for name, each in others.items():
        columns[name][first:] = each
    return pl.DataFrame(columns) if groups else pl.DataFrame(columns).with_columns(group=pl.lit(0, dtype=pl.Int32))


def _rows(window: Window, dense: NDArray[np.integer], start: int, numbers: ShortArray) -> Columns:
    """Rows of some places of the array, the first of which is `start`."""
    held = np.flatnonzero(dense != 0)  # quicker than of the numbers themselves
    cell, pair = _divided(held.astype(np.int32) + np.int32(start), len(window.kinds.pairs))
    line, column = _divided(cell, window.width + 2)
    group, s0 = _divided(line, window.width) if len(numbers) else (None, line)
    ahead = column - s0
    column -= np.clip(ahead, 0, 2)
    np.clip(ahead, -1, 3, out=ahead)
    found: Columns = {
        "bin0": window.bins.take(s0),
        "bin1": window.bins.take(column),
        "sign": SIGNS.take(ahead + 1),
        "n": window.kinds.pairs[:, 0].take(pair),
        "M": window.kinds.pairs[:, 1].take(pair),
        "count": dense.take(held).astype(np.int64),
    }
    return found if group is None else {"group": numbers.take(group), **found}


def _spans(window: Window, others: Columns, groups: Sequence[str]) -> Spans:
    """The numbers that the key of any row lies among; bin -1 is that of what broke a rule."""
    bins, votes = (-1, window.lattice.bins - 1), (0, max(window.kinds.most, int(others["M"].max(initial=0))))
    return {"group": (0, max(len(groups) - 1, 0)), "bin0": bins, "bin1": bins, "sign": (-1, 1), "n": votes, "M": votes}


def _divided(x: ShortArray, by: int) -> tuple[ShortArray, ShortArray]:
    """Quotient and remainder, many times quicker than numpy's divmod."""
    quotient = x // np.int32(by)
    return quotient, x - quotient * np.int32(by)
