"""The part of the lattice that most rows of a table fall into, as places of a dense array."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import FloatArray, IntArray
from twoafc.counts.lattice import Lattice

ShortArray = NDArray[np.int32]

MOST_M = 30
"""Values of M that there is room for, from the smallest of the sample on."""
MOST_FEWEST = 1000
"""Where every M of a sample is larger, no row has a place: there are too many values of n."""
MOST_PAIRS = 2**16
"""Pairs of n and M that there is room for; where triplets have more votes than that allows, none has a place."""
MOST_GROUPS = 64
STEP = 65536
"""Rows taken at once, so that what is made of them stays in the processor's cache."""
NOWHERE = -1
"""The place of a row that has none."""
UPPER = 1 if sys.byteorder == "little" else 0
"""Which half of a 64-bit float has its exponent and the bits of its bin; halves are quicker to work with."""


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
    def pairs(self) -> ShortArray:
        """Each n and M, shape (., 2), in the order of their numbers."""
        found = [(n, M) for n in range(self.most + 1) for M in range(max(n, self.fewest), self.most + 1)]
        return np.array(found, dtype=np.int32)

    @cached_property
    def _start(self) -> ShortArray:
        """What M comes after in the numbers of the pairs, for each n."""
        M_least = np.maximum(np.arange(self.most + 1), self.fewest)
        start = np.cumsum(np.concatenate([[0], self.most + 1 - M_least[:-1]])) - M_least
        return start.astype(np.int32)

    @property
    def groups_count(self) -> int:
        """Number of groups, of a table without any 1."""
        return max(len(self.groups), 1)

    def pair(self, n: ShortArray, M: ShortArray) -> ShortArray:
        """Number of each row's n and M among the pairs, or `NOWHERE`."""
        code = self._start.take(n, mode="clip")
        code += M
        least, most = M.min(initial=self.most), M.max(initial=self.fewest)
        if n.min(initial=0) < 0 or least < self.fewest or most > self.most or not (n <= M).all():
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

    @cached_property
    def bins(self) -> ShortArray:
        """Bin of each slot."""
        return np.concatenate([[0], np.arange(self.width - 1) + self.low]).astype(np.int32)

    @property
    def places(self) -> int:
        """Size of the dense array."""
        return self.kinds.groups_count * self.width * (self.width + 2) * len(self.kinds.pairs)

    def place(self, d0: FloatArray, d1: FloatArray, pair: ShortArray, group: ShortArray | None) -> IntArray:
        """Place of each row in the dense array, or `NOWHERE`; `pair` and `group` are the numbers of its kind."""
        s0, s1 = self._slot(d0), self._slot(d1)
        nowhere = None
        least = min(s0.min(initial=1), s1.min(initial=1))
        if least < 1:
            self._settle(s0, d0)
            self._settle(s1, d1)
        if (
            least < 1
            or max(s0.max(initial=0), s1.max(initial=0)) >= self.width
            or pair.min(initial=0) < 0
            or (group is not None and group.min(initial=0) < 0)
        ):
            nowhere = (s0 < 0) | (s1 < 0) | (s0 >= self.width) | (s1 >= self.width) | (pair < 0)
            nowhere = nowhere if group is None else nowhere | (group < 0)
        apart = s0 - s1
        same = np.flatnonzero(apart == 0)
        apart >>= np.int32(31)  # -1 where s1 is the larger: quicker than to compare and cast
        line = s0 if group is None else s0 + group * np.int32(self.width)
        line *= np.int32(self.width + 2)
        line += s1
        line -= apart
        line -= apart
        # Compared, not subtracted: what is no distance is here too.
        line[same] += 1 + (d0[same] > d1[same]).astype(np.int32) - (d0[same] < d1[same])
        line *= np.int32(len(self.kinds.pairs))
        place = np.add(line, pair, dtype=np.int64)
        if nowhere is not None:
            place[nowhere] = NOWHERE
        return place

    def _slot(self, d: FloatArray) -> ShortArray:
        """Slot of each distance in the bins of the window; below 1, or too large, of all others."""
        slot = d.view(np.int32)[UPPER::2] >> np.int32(self.lattice.shift - 32)
        slot -= np.int32(self.lattice.first + self.low - 1)
        return slot

    @staticmethod
    def _settle(slot: ShortArray, d: FloatArray) -> None:
        """Keep slot 0 for d = 0, and not for the bin below the window."""
        slot[slot == 0] = NOWHERE
        slot[d == 0] = 0
