"""Counting with polars in a fraction of a group-by's time: most rows are added to an array at their own place.

A sample says where the bulk of the distances lies; rows of that window go to a dense array, one addition each, while
polars reads on. All other rows, and any that break a rule, are set aside and counted by the plain version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.columns import MOST_VOTES
from twoafc.counts.lattice import Lattice
from twoafc.engine.window import NOWHERE, STEP, Kinds, Window

ROOM = 48_000_000
"""Places of all dense arrays together, four bytes each."""
ASIDE = 2_000_000
"""Rows set aside before they are counted."""
FULL = 2**31 - 2**26
"""Rows after which an array is emptied, so that no place can run over."""
ONE = np.int32(1)
"""Of the array's own type: numpy adds any other thirty times slower."""
GROUP = "\0group"

Pairs = Mapping[str, tuple[str, str]]
Progress = Callable[[int, int, str], None]
IntArray = NDArray[np.int64]


class _Tally:
    """One distance's array, and the rows that have no place in it."""

    def __init__(self, d: tuple[str, str], window: Window) -> None:
        self.d, self.window = d, window
        self.dense = np.zeros(window.places, dtype=np.int32)
        self.since = 0
        self.aside: list[pl.DataFrame] = []
        self.found: list[pl.DataFrame] = []

    def add(self, batch: pl.DataFrame, pair: IntArray, group: IntArray | None) -> None:
        d0, d1 = (_filled(batch[name].cast(pl.Float64), np.nan) for name in self.d)
        for start in range(0, len(batch), STEP):
            some = slice(start, start + STEP)
            place = self.window.place(d0[some], d1[some], pair[some], None if group is None else group[some])
            if place.min() < 0:
                self._set_aside(batch[some].filter(pl.Series(place == NOWHERE)))
                place = place[place >= 0]
            np.add.at(self.dense, place, ONE)
        self.since += len(batch)
        if sum(map(len, self.aside)) > ASIDE or self.since > FULL:
            self.settle()

    def _set_aside(self, rows: pl.DataFrame) -> None:
        self.aside.append(rows.select(name for name in ("n", "M", "group", *self.d) if name in rows.columns))

    def settle(self) -> None:
        """Turn what was set aside, and an array that may be full, into rows."""
        if self.aside:
            self.found.append(plainly(self.aside, self.d, self.window.lattice))
            self.aside = []
        if self.since > FULL:
            self.found.append(self.window.rows(self.dense))
            self.dense[:] = 0
            self.since = 0

    def rows(self) -> pl.DataFrame:
        self.settle()
        return pl.concat([self.window.rows(self.dense), *self.found], how="diagonal_relaxed")


def bulk(
    frame: pl.LazyFrame,
    sample: pl.DataFrame,
    pairs: Pairs,
    lattice: Lattice,
    progress: Progress | None = None,
    total: int = 0,
) -> dict[str, pl.DataFrame]:
    """Count all distances of a polars frame in one pass; rows as those of `program.counted`, a key maybe in several.

    Parameters
    ----------
    frame, sample
        All rows, and some of them; with n, M, the columns of the distances and maybe group.
    total : int
        How many rows there are, for the progress.
    """
    kinds = Kinds.of(sample)
    tallies = {name: _Tally(d, Window.of(sample, d, lattice, kinds, ROOM // len(pairs))) for name, d in pairs.items()}
    if kinds.groups:
        numbers = range(len(kinds.groups))
        numbered = pl.col("group").replace_strict(list(kinds.groups), numbers, default=NOWHERE, return_dtype=pl.Int64)
        frame = frame.with_columns(numbered.alias(GROUP))
    done = 0
    for batch in frame.collect_batches(maintain_order=False, engine="streaming"):
        pair = kinds.pair(_whole(batch["n"]), _whole(batch["M"]))
        group = _filled(batch[GROUP], NOWHERE) if kinds.groups else None
        for tally in tallies.values():
            tally.add(batch, pair, group)
        done += len(batch)
        if progress:
            progress(done, max(total, done), "rows")
    return {name: tallies.pop(name).rows() for name in pairs}


def _whole(votes: pl.Series) -> IntArray:
    """Numbers of votes; -1, which is none, for what is missing or broken."""
    whole = votes.cast(pl.Int64, strict=False)
    if not votes.dtype.is_integer():
        whole = whole.set(whole != votes, -1)
    return _filled(whole, -1)


def _filled(column: pl.Series, instead: float) -> NDArray[Any]:
    """Values of a column; where one is missing, another that is none."""
    # Asked first: polars takes long to fill nothing.
    return (column.fill_null(instead) if column.null_count() else column).to_numpy()


def plainly(frames: list[pl.DataFrame], d: tuple[str, str], lattice: Lattice) -> pl.DataFrame:
    """Count rows by the plain version; those that break a rule of the table stand under bin0 = -1."""
    rows = pl.concat(frames)
    d0, d1 = (rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in d)
    n, M = (rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("n", "M"))
    lawful = np.isfinite(d0) & (d0 >= 0) & np.isfinite(d1) & (d1 >= 0)
    lawful &= (n >= 0) & (n <= M) & (M >= 1) & (n == np.floor(n)) & (np.floor(M) == M) & (M <= MOST_VOTES)
    a, b = np.where(lawful, d0, 0.0), np.where(lawful, d1, 0.0)
    columns = {
        "bin0": np.where(lawful, lattice.index(a), -1),
        "bin1": np.where(lawful, lattice.index(b), -1),
        "sign": np.sign(a - b).astype(np.int8),
        "n": np.where(lawful, n, 0).astype(np.int64),
        "M": np.where(lawful, M, 0).astype(np.int64),
    }
    counted = pl.DataFrame(columns)
    if "group" in rows.columns:
        counted = counted.with_columns(rows["group"])
    return counted.group_by(counted.columns).agg(count=pl.len().cast(pl.Int64))
