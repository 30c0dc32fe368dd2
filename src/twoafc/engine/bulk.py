"""Counting with polars in a fraction of a group-by's time: most rows are added to an array at their own place.

A sample says where the bulk of the distances lies; rows of that window go to a dense array, one addition each, while
polars reads on. All other rows, and any that break a rule, are set aside and counted by the plain version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl

from twoafc.counts.lattice import Lattice
from twoafc.engine.window import window_of

ROOM = 48_000_000
"""Places of all dense arrays together, four bytes each."""
ASIDE = 2_000_000
"""Rows set aside before they are counted."""
FULL = 2**31 - 2**26
"""Rows after which an array is emptied, so that no place can run over."""

ONE = np.int32(1)
"""Of the array's own type: numpy adds any other thirty times slower."""

Pairs = Mapping[str, tuple[str, str]]
Progress = Callable[[int, int, str], None]


class _Tally:
    """One distance's array, and the rows that have no place in it."""

    def __init__(self, d: tuple[str, str], lattice: Lattice, sample: pl.DataFrame, room: int) -> None:
        self.lattice, self.d = lattice, d
        self.window = window_of(sample, d, lattice, room)
        self.dense = np.zeros(self.window.places + 1, dtype=np.int32)
        self.since = 0
        self.aside: list[pl.DataFrame] = []
        self.found: list[pl.DataFrame] = []

    def add(self, batch: pl.DataFrame, place: pl.Series) -> None:
        np.add.at(self.dense, place.to_numpy(), ONE)
        self.since += len(batch)
        if self.dense[-1]:
            self.dense[-1] = 0
            held = [name for name in ("n", "M", "group", *self.d) if name in batch.columns]
            self.aside.append(batch.select(held).filter(place == self.window.places))
        if sum(map(len, self.aside)) > ASIDE or self.since > FULL:
            self.settle()

    def settle(self) -> None:
        """Turn what was set aside, and an array that may be full, into rows."""
        if self.aside:
            self.found.append(plainly(self.aside, self.d, self.lattice))
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
    tallies = {name: _Tally(d, lattice, sample, ROOM // len(pairs)) for name, d in pairs.items()}
    for name, tally in tallies.items():
        frame = tally.window.placed(frame, tally.d, lattice, f"\0{name}")
    done = 0
    for batch in frame.collect_batches(maintain_order=False, engine="streaming"):
        for name, tally in tallies.items():
            tally.add(batch, batch[f"\0{name}"])
        done += len(batch)
        if progress:
            progress(done, max(total, done), "rows")
    return {name: tallies.pop(name).rows() for name in pairs}


def plainly(frames: list[pl.DataFrame], d: tuple[str, str], lattice: Lattice) -> pl.DataFrame:
    """Count rows by the plain version; those that break a rule of the table stand under bin0 = -1."""
    rows = pl.concat(frames)
    d0, d1 = (rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in d)
    n, M = (rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("n", "M"))
    lawful = np.isfinite(d0) & (d0 >= 0) & np.isfinite(d1) & (d1 >= 0)
    lawful &= (n >= 0) & (n <= M) & (M >= 1) & (n == np.floor(n)) & (np.floor(M) == M) & np.isfinite(M)
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
