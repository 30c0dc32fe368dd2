"""The part of the lattice that most rows of a table fall into, as places of a dense array."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.counts.lattice import Lattice

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_M = 30
"""Values of M that there is room for, from the smallest of the sample on."""
MOST_FEWEST = 1000
"""Where every M of a sample is larger, no row has a place: there are too many values of n."""
MOST_PAIRS = 2**16
"""Pairs of n and M that there is room for; where triplets have more votes than that allows, none has a place."""
MOST_GROUPS = 64
STEP = 32768
"""Rows taken at once, so that what is made of them stays in the processor's cache."""
NOWHERE = -1
"""The place of a row that has none."""


@dataclass(frozen=True)
class Kinds:
    """The votes and groups that have a place: M from `fewest` to `most` with any n, and the named groups."""

    fewest: int
    most: int
    groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, sample: pl.DataFrame) -> Kinds:
        """Choose them from some rows of a table, which need not be lawful."""
        M = sample["M"].cast(pl.Int64, strict=False).drop_nulls().to_numpy()
        fewest = max(int(M.min()), 1) if len(M) else 1
        if fewest > MOST_FEWEST:
            M, fewest = M[:0], 1
        groups: tuple[str, ...] = ()
        if "group" in sample.columns:
            named = sample["group"].drop_nulls().value_counts(sort=True)["group"]
            groups = tuple(sorted(named.head(MOST_GROUPS)))
        most = min(int(M.max(initial=fewest)), fewest + MOST_M)
        if (most - fewest + 1) * (most + 1) > MOST_PAIRS:
            return cls(1, 1, groups)
        return cls(fewest, most, groups)

    @cached_property
    def pairs(self) -> IntArray:
        """Each n and M, shape (., 2), in the order of their numbers."""
        found = [(n, M) for n in range(self.most + 1) for M in range(max(n, self.fewest), self.most + 1)]
        return np.array(found, dtype=np.int64)

    @cached_property
    def _start(self) -> IntArray:
        """What M comes after in the numbers of the pairs, for each n."""
        M_least = np.maximum(np.arange(self.most + 1), self.fewest)
        return np.cumsum(np.concatenate([[0], self.most + 1 - M_least[:-1]])) - M_least

    @property
    def groups_count(self) -> int:
        """Number of groups, of a table without any 1."""
        return max(len(self.groups), 1)

    def pair(self, n: IntArray, M: IntArray) -> IntArray:
        """Number of each row's n and M among the pairs, or `NOWHERE`."""
        code = self._start.take(n, mode="clip")
        code += M
        if n.min() < 0 or M.min() < self.fewest or M.max() > self.most or not (n <= M).all():
            code[(n < 0) | (n > M) | (self.fewest > M) | (self.most < M)] = NOWHERE
        return code


@dataclass(frozen=True)
class Window:
    """The rows that have a place in the dense array: bins `low` on and d = 0, with votes and groups of some kinds.

    Slot 0 of each axis is d = 0, slot s from 1 to width - 1 is bin low + s - 1. Places are in the order of counts:
    group, bin of d0, bin of d1, sign, n, M. Slots that differ say the sign; of equal ones the three signs stand side
    by side.
    """

    lattice: Lattice
    low: int
    width: int
    kinds: Kinds

    @classmethod
    def of(cls, sample: pl.DataFrame, d: tuple[str, str], lattice: Lattice, kinds: Kinds, room: int) -> Window:
        """Choose the window that holds most of a sample within some room; its rows need not be lawful."""
        pooled = np.concatenate([sample[name].cast(pl.Float64).drop_nulls().to_numpy() for name in d])
        bins = lattice.index(pooled[np.isfinite(pooled) & (pooled >= 0)])
        bins = bins[(bins >= 2) & (bins < lattice.bins - 1)]
        # A small table is not worth a large array.
        room = min(room, 400 * len(sample)) // (len(kinds.pairs) * kinds.groups_count)
        widest = max(math.isqrt(room) - 3, 2)
        if not len(bins):
            return cls(lattice, 2, 2, kinds)
        # Room for the tails, which a sample does not show.
        spare = int(bins.max() - bins.min()) // 10
        low = max(int(bins.min()) - spare, 2)
        reach = min(int(bins.max()) + spare, lattice.bins - 2) - low + 1
        if reach < widest:
            return cls(lattice, low, reach + 1, kinds)
        held = np.cumsum(np.concatenate([[0], np.bincount(bins - low, minlength=reach)]))
        low += int(np.argmax(held[widest - 1 :] - held[: len(held) - widest + 1]))
        return cls(lattice, low, widest, kinds)

    @property
    def places(self) -> int:
        """Size of the dense array."""
        return self.kinds.groups_count * self.width * (self.width + 2) * len(self.kinds.pairs)

    def place(self, d0: FloatArray, d1: FloatArray, pair: IntArray, group: IntArray | None) -> IntArray:
        """Place of each row in the dense array, or `NOWHERE`; `pair` and `group` are the numbers of its kind."""
        s0, s1 = self._slot(d0), self._slot(d1)
        odd = min(int(s0.min()), int(s1.min()), int(pair.min())) < 0
        odd |= max(int(s0.max()), int(s1.max())) >= self.width
        if group is not None:
            odd |= int(group.min()) < 0
        place = s0 * (self.width + 2)
        if group is not None:
            place += group * (self.width * (self.width + 2))
        place += s1
        apart = s0 - s1
        same = np.flatnonzero(apart == 0)
        apart >>= 63  # -1 where s1 is the larger: quicker than to compare and cast
        place -= apart
        place -= apart
        place[same] += 1 + np.sign(d0[same] - d1[same]).astype(np.int64)
        place *= len(self.kinds.pairs)
        place += pair
        if odd:
            nowhere = (s0 < 0) | (s1 < 0) | (s0 >= self.width) | (s1 >= self.width) | (pair < 0)
            place[nowhere if group is None else nowhere | (group < 0)] = NOWHERE
        return place

    def _slot(self, d: FloatArray) -> IntArray:
        """Slot of each distance; outside the window's slots where it has none."""
        slot = d.view(np.int64) >> self.lattice.shift
        slot -= self.lattice.first + self.low - 1
        if slot.min() < 1:
            slot[slot == 0] = NOWHERE  # the bin below the window
            slot[d == 0] = 0
        return slot

    def rows(self, dense: NDArray[np.int32]) -> pl.DataFrame:
        """Give what the array counted as rows of bins, sign, n, M, group and count, in the order of counts."""
        held = np.flatnonzero(dense != 0)  # three times as quick as of the numbers themselves
        columns = {name: np.empty(len(held), dtype=np.int32) for name in ("group", "bin0", "bin1", "n", "M")}
        sign, count = np.empty(len(held), dtype=np.int8), np.empty(len(held), dtype=np.int64)
        bins = np.concatenate([[0], np.arange(self.width - 1) + self.low])
        n, M = self.kinds.pairs.T
        # Some at a time: all numbers on the way together would be several times as large as the counts.
        for start in range(0, len(held), STEP):
            some = slice(start, start + STEP)
            cell, pair = _divided(held[some].astype(np.int32), len(self.kinds.pairs))
            line, column = _divided(cell, self.width + 2)
            columns["group"][some], s0 = _divided(line, self.width)
            ahead = column - s0
            sign[some] = np.where(ahead < 0, 1, np.where(ahead > 2, -1, ahead - 1))
            columns["bin0"][some], columns["bin1"][some] = bins[s0], bins[column - np.clip(ahead, 0, 2)]
            columns["n"][some], columns["M"][some] = n[pair], M[pair]
            count[some] = dense[held[some]]
        frame = pl.DataFrame({**columns, "sign": sign, "count": count})
        if not self.kinds.groups:
            return frame.drop("group")
        return frame.with_columns(group=pl.Series(self.kinds.groups, dtype=pl.String).gather(columns["group"]))


def _divided(x: NDArray[np.int32], by: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Quotient and remainder, many times quicker than numpy's divmod."""
    quotient = x // np.int32(by)
    return quotient, x - quotient * np.int32(by)
