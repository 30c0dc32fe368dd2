"""Counting with polars in a fraction of a group-by's time: most rows are counted in an array.

A sample shows where most distances lie: the window. A row inside the window has a place, the index of its cell in a
dense array, and adds one there. Rows outside it, and any that break a rule, are set aside and counted by a group-by.
With references there are too many places for an array, so the places are listed, sorted and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import FloatArray, IntArray, Progress
from twoafc.scale.lattice import BIN_KEY, FINE, KEY, Lattice, ShortArray, summed
from twoafc.scale.program import Pairs, Tally, cells_of

ROOM = 48_000_000
"""Places of all dense arrays together, two or four bytes each."""
ASIDE = 2_000_000
"""Rows set aside before they are counted."""
FULL = 2**31 - 2**26
"""Rows after which an array is emptied, so that no place can overflow."""
SHORT, SPARE = 2**16 - 1, 4
"""Rows that two bytes can count, and how many times as many rows as in a sample a place may have."""
LISTED = 2**24
"""Places that are listed before they are sorted and counted."""
STEP = 65536
"""Rows handled at once, so that intermediate arrays stay in the processor's cache."""
MOST_M, MOST_PAIRS, MOST_GROUPS = 30, 2**12, 64
"""Values of M, pairs of n and M, and groups that there is room for."""
SPAN = 2**18
"""Places turned into cells at once, for the same reason."""
NOWHERE = -1
"""The place of a row that has none."""
GROUP, REF = "\0group", "\0ref"
Integer = type[np.uint16] | type[np.int32]


class PlaceOverflowError(Exception):
    """A place has more rows than its number can count."""


@dataclass(frozen=True)
class Window:
    """Which rows have a place in the dense array: `width` bins from `low` on, M from `fewest` to `most`, some groups.

    Places are in the order of the cells of counts: group, bin of d0, bin of d1, sign, n, M. Bins that differ determine
    the sign; for equal bins there are three places side by side.
    """

    lattice: Lattice
    low: int
    width: int
    fewest: int
    most: int
    groups: tuple[str, ...]

    @classmethod
    def of(cls, sample: pl.DataFrame, d: tuple[str, str], lattice: Lattice, room: int) -> Window:
        """Choose the window of at most `room` places that has most rows of a sample, which may break rules."""
        M = sample["M"].cast(pl.Int64, strict=False).drop_nulls().clip(1).to_numpy()
        fewest = int(M.min()) if len(M) else 1
        most = min(int(M.max()), fewest + MOST_M) if len(M) else 1
        if (most - fewest + 1) * (most + 1) > MOST_PAIRS:
            fewest = most = 1
        groups: tuple[str, ...] = ()
        if "group" in sample.columns:
            groups = tuple(sorted(sample["group"].drop_nulls().value_counts(sort=True)["group"].head(MOST_GROUPS)))
        window = cls(lattice, 2, 1, fewest, most, groups)
        bins = np.concatenate([lattice.index(_floats(sample[name])) for name in d])
        bins = bins[(bins >= 2) & (bins < lattice.bins - 1)]
        # A small table is not worth a large array.
        room = min(room, 400 * len(sample)) // (len(window.pairs) * max(len(groups), 1))
        widest = max(math.isqrt(room) - 2, 1)
        if not len(bins):
            return window
        # The tails of the table reach further than those of the sample.
        spare = int(bins.max() - bins.min()) // 10
        low = max(int(bins.min()) - spare, 2)
        width = min(int(bins.max()) + spare, lattice.bins - 2) - low + 1
        if width > widest:
            below = np.cumsum(np.concatenate([[0], np.bincount(bins - low, minlength=width)]))
            low += int(np.argmax(below[widest:] - below[: len(below) - widest]))
        return cls(lattice, low, min(width, widest), fewest, most, groups)

    @cached_property
    def pairs(self) -> ShortArray:
        """Each n and M, shape (., 2), in the order of their numbers."""
        pairs = [(n, M) for n in range(self.most + 1) for M in range(max(n, self.fewest), self.most + 1)]
        return np.array(pairs, dtype=np.int32)

    @cached_property
    def _start(self) -> ShortArray:
        """Number of the pair (n, M) less M, for each n."""
        least = np.maximum(np.arange(self.most + 1), self.fewest)
        return (np.cumsum(np.concatenate([[0], self.most + 1 - least[:-1]])) - least).astype(np.int32)

    @property
    def places(self) -> int:
        """Size of the dense array."""
        return max(len(self.groups), 1) * self.width * (self.width + 2) * len(self.pairs)

    def pair(self, n: ShortArray, M: ShortArray) -> ShortArray:
        """Number of each row's n and M among the pairs, or `NOWHERE`."""
        code = self._start.take(n, mode="clip")
        code += M
        if n.min(initial=0) < 0 or M.min() < self.fewest or M.max() > self.most or not (n <= M).all():
            code[(n < 0) | (n > M) | (self.fewest > M) | (self.most < M)] = NOWHERE
        return code

    def offset(self, fine: ShortArray) -> ShortArray:
        """Offset of each distance's bin from `low`, from its bin on the finest lattice; out of range if not inside."""
        offset = fine - np.int32(2)
        offset >>= np.int32((FINE.per_octave // self.lattice.per_octave).bit_length() - 1)
        offset -= np.int32(self.low - 2)
        return offset

    def place(
        self, fine: tuple[ShortArray, ShortArray], d: tuple[FloatArray, FloatArray], pair: ShortArray
    ) -> IntArray:
        """Place of each row within the part of its group, or `NOWHERE`; `fine` are bins of the finest lattice."""
        s0, s1 = map(self.offset, fine)
        apart = s0 - s1
        same = np.flatnonzero(apart == 0)
        apart >>= np.int32(31)  # -1 where s1 is the larger: quicker than to compare and cast
        line = s0 * np.int32(self.width + 2)
        line += s1
        line -= apart
        line -= apart
        line[same] += 1 + (d[0][same] > d[1][same]).astype(np.int32) - (d[0][same] < d[1][same])
        line *= np.int32(len(self.pairs))  # too large for its type only where a row has no place
        line += pair
        place = line.astype(np.int64)
        most = max(s0.view(np.uint32).max(), s1.view(np.uint32).max())  # negative numbers are large
        if most >= self.width or pair.min() < 0:
            place[(s0 < 0) | (s1 < 0) | (s0 >= self.width) | (s1 >= self.width) | (pair < 0)] = NOWHERE
        return place

    def most_at_a_place(self, sample: pl.DataFrame, d: tuple[str, str]) -> int:
        """Most rows of a sample that have one place, whatever their group."""
        d0, d1 = (_floats(sample[name]) for name in d)
        pair = self.pair(_whole(sample["n"]), _whole(sample["M"]))
        place = self.place((FINE.index(d0), FINE.index(d1)), (d0, d1), pair)
        return int(np.unique(place[place >= 0], return_counts=True)[1].max(initial=0))

    def unfolded(self, counted: Iterable[tuple[ShortArray, NDArray[Any]]], size: int) -> pl.DataFrame:
        """Turn places, in order, and the number of rows at each of them into cells; `size` in all, some at a time."""
        names = [*KEY, "count"] if self.groups else [*KEY, "count"][1:]
        types = {"sign": np.int8, "count": np.int64}
        columns = {name: np.empty(size, dtype=types.get(name, np.int32)) for name in names}
        end = 0
        for place, count in counted:
            some = slice(end, end + len(place))
            cells = self._cells(place) | {"count": count}
            for name in names:
                columns[name][some] = cells[name]
            end = some.stop
        frame = pl.DataFrame(columns)
        return frame.with_columns(pl.Series("group", self.groups).gather(frame["group"])) if self.groups else frame

    def _cells(self, place: ShortArray) -> dict[str, NDArray[Any]]:
        """Keys of the cells at some places."""
        cell, pair = _divided(place, len(self.pairs))
        line, column = _divided(cell, self.width + 2)
        group, s0 = _divided(line, self.width)
        ahead = column - s0
        return {
            "group": group,
            "bin0": s0 + np.int32(self.low),
            "bin1": column - np.clip(ahead, 0, 2) + np.int32(self.low),
            "sign": np.array([1, -1, 0, 1, -1], dtype=np.int8).take(np.clip(ahead, -1, 3) + 1),
            "n": self.pairs[:, 0].take(pair),
            "M": self.pairs[:, 1].take(pair),
        }


def _divided(x: ShortArray, by: int) -> tuple[ShortArray, ShortArray]:
    """Quotient and remainder, many times quicker than numpy's divmod."""
    quotient = x // np.int32(by)
    return quotient, x - quotient * np.int32(by)


class _Array:
    """The number of rows at each place, in an array of all places; two bytes each are quicker than four."""

    def __init__(self, window: Window, integer: Integer) -> None:
        self.window, self.full, self.integer = window, FULL, integer
        self.rows, self.added = np.zeros(window.places, dtype=integer), 0

    def add(self, place: IntArray) -> None:
        np.add.at(self.rows, place, self.integer(1))  # a number of another type is added thirty times slower
        self.added += len(place)

    def emptied(self) -> pl.DataFrame:
        """Return the cells that were counted, in order, and start again."""
        if int(self.rows.sum()) < self.added:
            raise PlaceOverflowError
        cells = self.window.unfolded(self._by_span(), int(np.count_nonzero(self.rows)))
        self.rows, self.added = np.zeros(self.window.places, dtype=self.integer), 0
        return cells

    def _by_span(self) -> Iterator[tuple[ShortArray, NDArray[Any]]]:
        """Places with rows, in order, and their number of rows."""
        for start in range(0, len(self.rows), SPAN):
            rows = self.rows[start : start + SPAN]
            place = np.flatnonzero(rows != 0).astype(np.int32)  # quicker than of the numbers themselves
            yield place + np.int32(start), rows[place]


class _List:
    """The place of each row, where every reference has as many places as the window."""

    def __init__(self, window: Window) -> None:
        self.window, self.full = window, LISTED
        self.places: list[IntArray] = []

    def add(self, place: IntArray) -> None:
        self.places.append(place)

    def emptied(self) -> pl.DataFrame:
        """Return the cells that were counted, in order, and start again."""
        place = np.concatenate([np.zeros(0, dtype=np.int64), *self.places])
        self.places = []
        place.sort()
        first = np.flatnonzero(np.diff(place, prepend=NOWHERE))
        count, place = np.diff(first, append=len(place)), place[first]
        ref = place // self.window.places
        own = (place - ref * self.window.places).astype(np.int32)
        parts = (slice(start, start + SPAN) for start in range(0, len(own), SPAN))
        cells = self.window.unfolded(((own[some], count[some]) for some in parts), len(own))
        return cells.with_columns(pl.Series("ref", ref.astype(np.int32)))


class _Tally:
    """One distance's rows by place, the rows without a place, and the fine histogram."""

    def __init__(self, d: tuple[str, str], window: Window, placed: _Array | _List) -> None:
        self.d, self.window, self.placed = d, window, placed
        self.fine = np.zeros(FINE.bins + 1, dtype=np.int64)  # the last for invalid distances
        self.ends = (np.inf, -np.inf)
        self.since = 0
        self.aside: list[pl.DataFrame] = []
        self.cells: list[pl.DataFrame] = []

    def add(self, batch: pl.DataFrame, pair: ShortArray, labels: Mapping[str, ShortArray]) -> None:
        """Count some rows: bin their distances, find the place of each row, and set aside rows without a place."""
        d0, d1 = (_floats(batch[name]) for name in self.d)
        places = {GROUP: self.window.places // max(len(self.window.groups), 1), REF: self.window.places}  # of a label
        for start in range(0, len(batch), STEP):
            some = slice(start, start + STEP)
            d = d0[some], d1[some]
            fine = FINE.index(d[0]), FINE.index(d[1])
            for index in fine:
                np.add.at(self.fine, index.astype(np.intp), np.int64(1))  # other types are slower
            place = self.window.place(fine, d, pair[some])
            for name, label in labels.items():
                number = label[some].astype(np.int64)
                place = np.where((place < 0) | (number < 0), NOWHERE, place + places[name] * number)
            if place.min() < 0:
                self.aside.append(batch[some].filter(pl.Series(place == NOWHERE)))
                place = place[place >= 0]
            self.placed.add(place)
        lows, highs = zip(*((column.min(), column.max()) for column in (d0, d1)), strict=True)
        self.ends = (min(self.ends[0], *lows), max(self.ends[1], *highs))
        self.since += len(batch)
        if sum(map(len, self.aside)) > ASIDE or self.since > self.placed.full:
            self.settle()

    def settle(self) -> None:
        """Turn the rows that were set aside into cells, and those by place before they overflow."""
        if self.aside:
            rows = pl.concat(self.aside)
            by = [name for name in ("group", REF) if name in rows.columns]
            cells = cells_of(nw.from_native(rows.lazy()), self.d, self.window.lattice, by)
            self.cells.append(cells.rename({REF: "ref"}, strict=False))
            self.aside = []
        if self.since > self.placed.full:
            self.cells.append(self.placed.emptied())
            self.since = 0

    def result(self, refs: pl.DataFrame | None) -> Tally:
        """Return what was counted."""
        self.settle()
        parts = [self.placed.emptied(), *self.cells]
        del self.placed  # its memory is needed
        bins = np.flatnonzero(self.fine[:-1])
        histogram = pl.DataFrame({"bin": bins, "count": self.fine[bins]})
        cells = pl.concat(part.select(parts[0].columns) for part in parts)
        if refs is not None:
            cells = cells.with_columns(ref=refs["digest"].gather(cells["ref"]))
        return Tally(cells, summed(BIN_KEY, histogram), (float(self.ends[0]), float(self.ends[1])))


def count_densely(
    frame: pl.LazyFrame,
    sample: pl.DataFrame,
    pairs: Pairs,
    lattice: Lattice,
    rows: int | None,
    progress: Progress | None = None,
    *,
    refs: pl.DataFrame | None = None,
) -> dict[str, Tally]:
    """Count all distances of a polars frame in one pass; `sample` has some of its `rows`, whose number may be unknown.

    `refs` has the names (``ref``) and digests (``digest``) of the references to keep, by rising digest. If a place gets
    far more rows than in the sample, there is a second pass.
    """
    windows = {name: Window.of(sample, d, lattice, ROOM // len(pairs)) for name, d in pairs.items()}

    def tallies(integer: Integer) -> dict[str, _Tally]:
        placed = {name: _Array(window, integer) if refs is None else _List(window) for name, window in windows.items()}
        return {name: _Tally(d, windows[name], placed[name]) for name, d in pairs.items()}

    if refs is None and rows and len(sample):
        most = max(windows[name].most_at_a_place(sample, d) for name, d in pairs.items())
        if SPARE * most * rows <= SHORT * len(sample):
            with suppress(PlaceOverflowError):
                return _counted(frame, tallies(np.uint16), rows, progress, refs)
    return _counted(frame, tallies(np.int32), rows, progress, refs)


def _counted(
    frame: pl.LazyFrame,
    tallies: dict[str, _Tally],
    rows: int | None,
    progress: Progress | None,
    refs: pl.DataFrame | None,
) -> dict[str, Tally]:
    """Count all rows in one pass."""
    window = next(iter(tallies.values())).window  # all have the same groups and pairs of n and M
    groups, numbers = list(window.groups), {}
    if groups:
        number = pl.col("group").replace_strict(groups, range(len(groups)), default=NOWHERE, return_dtype=pl.Int32)
        numbers[GROUP] = number
    if refs is not None:
        numbers[REF] = pl.col("ref").cast(pl.Enum(refs["ref"]), strict=False).to_physical().cast(pl.Int32)
    done = 0
    for batch in frame.with_columns(**numbers).collect_batches(maintain_order=False, engine="streaming"):
        if batch.is_empty():
            continue
        pair = window.pair(_whole(batch["n"]), _whole(batch["M"]))
        labels = {name: _filled(batch[name], NOWHERE) for name in numbers}
        for tally in tallies.values():
            tally.add(batch, pair, labels)
        done += len(batch)
        if progress:
            progress(done, max(rows or 0, done), "rows")
    return {name: tallies.pop(name).result(refs) for name in list(tallies)}


def _whole(votes: pl.Series) -> ShortArray:
    """Numbers of votes; -1 for what is missing, fractional or too large."""
    whole = votes.cast(pl.Int32, strict=False)
    if not votes.dtype.is_integer():
        whole = whole.set(whole != votes, -1)
    return _filled(whole, -1)


def _floats(column: pl.Series) -> FloatArray:
    return _filled(column.cast(pl.Float64), np.nan)


def _filled(column: pl.Series, instead: float) -> NDArray[Any]:
    """Values of a column, with `instead` where they are missing."""
    # polars takes long to fill nothing.
    return (column.fill_null(instead) if column.null_count() else column).to_numpy()
