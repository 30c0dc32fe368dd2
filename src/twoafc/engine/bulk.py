"""Counting with polars in a fraction of a group-by's time: most rows are added to an array at their own place.

A sample says where the bulk of the distances lies; rows of that window go to a dense array, one addition each, while
polars reads on. All other rows, and any that break a rule, are set aside and counted by the plain version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.counts.cells import KEY, gathered
from twoafc.counts.counts import renumbered
from twoafc.counts.lattice import Lattice
from twoafc.engine.found import Found
from twoafc.engine.unfolding import unfolded
from twoafc.engine.window import NOWHERE, STEP, Kinds, Window
from twoafc.table import MOST_VOTES

ROOM = 48_000_000
"""Places of all dense arrays together, two or four bytes each."""
ASIDE = 2_000_000
"""Rows set aside before they are counted."""
FULL = 2**31 - 2**26
"""Rows after which an array of long numbers is emptied, so that no place can run over."""
NARROW = np.iinfo(np.uint16).max
"""Rows of one place that an array of short numbers can count."""
SPARE = 4
"""How many times as full a place may get as a sample says."""
GROUP = "\0group"

Pairs = Mapping[str, tuple[str, str]]
Progress = Callable[[int, int, str], None]
ShortArray = NDArray[np.int32]
Kind = type[np.uint16] | type[np.int32]


class _Tally:
    """One distance's array, and the rows that have no place in it."""

    def __init__(self, d: tuple[str, str], window: Window, kind: Kind) -> None:
        self.d, self.window = d, window
        self.dense = np.zeros(window.places, dtype=kind)
        self.one = kind(1)  # of the array's own type: numpy adds any other thirty times slower
        self.since = self.seen = 0
        self.aside: list[pl.DataFrame] = []
        self.found: list[Found] = []

    def add(self, batch: pl.DataFrame, pair: ShortArray, group: ShortArray | None) -> None:
        d0, d1 = _floats(batch, self.d)
        for start in range(0, len(batch), STEP):
            some = slice(start, start + STEP)
            place = self.window.place(d0[some], d1[some], pair[some], None if group is None else group[some])
            if place.min() < 0:
                self._set_aside(batch[some].filter(pl.Series(place == NOWHERE)))
                place = place[place >= 0]
            np.add.at(self.dense, place, self.one)
        self.since += len(batch)
        self.seen += len(batch)
        if sum(map(len, self.aside)) > ASIDE or self.since > FULL:
            self.settle()

    def _set_aside(self, rows: pl.DataFrame) -> None:
        self.aside.append(rows.select(name for name in ("n", "M", "group", *self.d) if name in rows.columns))

    def settle(self) -> None:
        """Turn what was set aside, and an array that may be full, into rows."""
        if self.aside:
            self.found.append(Found.of(plainly(self.aside, self.d, self.window.lattice)))
            self.aside = []
        if self.since > FULL:
            groups = list(self.window.kinds.groups)
            self.found.append(Found(unfolded(self.window, self.dense, gathered(KEY), groups), groups))
            self.dense[:] = 0
            self.since = 0

    def rows(self) -> Found | None:
        """Give all rows, in order; after an array was emptied, a key may stand in several. None if a place ran over."""
        self.settle()
        groups = sorted({*self.window.kinds.groups, *(name for each in self.found for name in each.groups)})
        more = gathered(KEY, *(renumbered(each.rows, each.groups, groups) for each in self.found))
        found = Found(unfolded(self.window, self.dense, more, groups), groups)
        return found if found.rows["count"].sum() == self.seen else None


def bulk(
    frame: pl.LazyFrame,
    sample: pl.DataFrame,
    pairs: Pairs,
    lattice: Lattice,
    rows: int | None,
    progress: Progress | None = None,
) -> dict[str, Found]:
    """Count all distances of a polars frame in one pass.

    Short numbers are added quicker than long ones. They are taken where the sample says that no place will run over;
    should one do so all the same, which the sum of all tells, that distance is counted again.

    Parameters
    ----------
    frame, sample
        All rows, and some of them; with n, M, the columns of the distances and maybe group.
    rows : int or None
        How many there are, where that is known.
    """
    kinds = Kinds.of(sample)
    if kinds.groups:
        numbers = range(len(kinds.groups))
        numbered = pl.col("group").replace_strict(list(kinds.groups), numbers, default=NOWHERE, return_dtype=pl.Int32)
        frame = frame.with_columns(numbered.alias(GROUP))
    windows = {name: Window.of(sample, d, lattice, kinds, ROOM // len(pairs)) for name, d in pairs.items()}
    tallies = {name: _Tally(d, windows[name], _kind(windows[name], sample, d, rows)) for name, d in pairs.items()}
    _tally(frame, kinds, tallies.values(), rows, progress)
    found = {name: each for name in pairs if (each := tallies.pop(name).rows())}
    again = {name: _Tally(d, windows[name], np.int32) for name, d in pairs.items() if name not in found}
    if again:
        _tally(frame, kinds, again.values(), rows, progress)
    return found | {name: each for name, tally in again.items() if (each := tally.rows())}


def _kind(window: Window, sample: pl.DataFrame, d: tuple[str, str], rows: int | None) -> Kind:
    """Choose the numbers that a place is counted in: short ones, unless some may well get more rows than these hold."""
    if rows is None or sample.is_empty():
        return np.int32
    pair = window.kinds.pair(_whole(sample["n"]), _whole(sample["M"]))
    place = np.sort(window.place(*_floats(sample, d), pair, None))
    runs = np.diff(np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1], [True]])))
    likely = runs.max(initial=0) / max(len(sample), 1) * rows
    return np.uint16 if rows <= NARROW or likely < NARROW / SPARE else np.int32


def _tally(
    frame: pl.LazyFrame, kinds: Kinds, tallies: Collection[_Tally], rows: int | None, progress: Progress | None
) -> None:
    """Go through all rows once."""
    done = 0
    for batch in frame.collect_batches(maintain_order=False, engine="streaming"):
        pair = kinds.pair(_whole(batch["n"]), _whole(batch["M"]))
        group = _filled(batch[GROUP], NOWHERE) if kinds.groups else None
        for tally in tallies:
            tally.add(batch, pair, group)
        done += len(batch)
        if progress:
            progress(done, max(rows or 0, done), "rows")


def _whole(votes: pl.Series) -> ShortArray:
    """Numbers of votes; -1, which is none, for what is missing, broken or too large."""
    whole = votes.cast(pl.Int32, strict=False)
    if not votes.dtype.is_integer():
        whole = whole.set(whole != votes, -1)
    return _filled(whole, -1)


def _floats(batch: pl.DataFrame, names: tuple[str, str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = (_filled(batch[name].cast(pl.Float64), np.nan) for name in names)
    return one, other


def _filled(column: pl.Series, instead: float) -> NDArray[Any]:
    """Values of a column; where one is missing, another that is none."""
    # Asked first: polars takes long to fill nothing.
    return (column.fill_null(instead) if column.null_count() else column).to_numpy()


def plainly(frames: list[pl.DataFrame], d: tuple[str, str], lattice: Lattice) -> pl.DataFrame:
    """Count rows by the plain version; those that break a rule of the table stand under bin0 = -1."""
    rows = pl.concat(frames)
    (d0, d1), (n, M) = _floats(rows, d), _floats(rows, ("n", "M"))
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
