"""Counts as a table to fit and score: rows at distances that stand for their bins, each for several triplets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.counts import Counts, Lattice
from twoafc.rows import Groups
from twoafc.uniform import Uniform

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SIXTH = 1 / 6
"""Of two distances spread evenly over one bin the larger lies two thirds up it on average, a sixth above the middle."""


class ByReference(NamedTuple):
    """Triplets by reference: entry k says that ``times[k]`` triplets of the reference ``ref[k]`` are like one row.

    They were counted on wider bins than the rows: ``wide[k]`` is the number of the entry's wide cell, and ``row[k]``
    the row in that cell that has the most triplets.
    """

    ref: IntArray
    wide: IntArray
    row: IntArray
    times: IntArray


@dataclass(frozen=True, eq=False)
class CountedTriplets:
    """Triplets of one distance, of which each row stands for several with like distances, n, M and group.

    Attributes
    ----------
    d0, d1 : arrays, shape (C,)
        Distances that stand for the bins of each row; equal where all of its triplets are ties, else d0 > d1 where
        theirs are.
    n, M : arrays of int, shape (C,)
        Votes on each of the row's triplets.
    count : array of int, shape (C,)
        Number of them.
    uniform : Uniform
        The map of the distances to [0, 1]: the middle of a bin goes to that of its step, and from one bin that holds
        any distances to the next the map is linear.
    groups : pair of names and array of int, shape (C,), or None
    wide : array of int, shape (C,), or None
        Number of each row's wide cell, where references were kept.
    references : ByReference or None

    Examples
    --------
    >>> from twoafc.counts import tally
    >>> from twoafc.triplets import Triplets
    >>> counts = tally(Triplets.from_frame({"n": [1, 1, 0], "M": [2, 2, 1], "d0": [4, 4, 2], "d1": [1, 1, 2]}))
    >>> table = CountedTriplets.of(counts)
    >>> table.d0.round(2), table.d1.round(2), table.count
    (array([2., 4.]), array([2., 1.]), array([1, 2]))
    >>> table.uniform(table.d0).round(2)
    array([0.5 , 0.83])
    """

    d0: FloatArray
    d1: FloatArray
    n: IntArray
    M: IntArray
    count: IntArray
    uniform: Uniform
    groups: Groups | None = None
    wide: IntArray | None = None
    references: ByReference | None = None

    @classmethod
    def of(cls, counts: Counts) -> CountedTriplets:
        """Place counts on the plane of the two distances."""
        bin0, bin1, sign, n, M, count, group = (
            counts.cells[name].to_numpy() for name in ("bin0", "bin1", "sign", "n", "M", "count", "group")
        )
        held = _held(counts.lattice, bin0, bin1, count)
        middles, used = _middles(counts.lattice, held), np.flatnonzero(held)
        d0, d1 = _placed(middles, SIXTH / counts.lattice.per_octave, bin0, bin1, sign)
        groups = (list(counts.groups), group.astype(np.int64)) if counts.groups else None
        wide, references = _by_reference(counts) or (None, None)
        uniform = Uniform(middles[used], np.cumsum(held[used]))
        return cls(d0, d1, n, M, count, uniform, groups, wide, references)

    def __len__(self) -> int:
        return len(self.n)

    @cached_property
    def places(self) -> tuple[IntArray, IntArray]:
        """Rows that differ in place, one of each, and the number of each row's place among them."""
        if self.groups is None:  # in order, so that equal places are neighbours
            new = np.ones(len(self), dtype=np.bool_)
            new[1:] = (self.d0[1:] != self.d0[:-1]) | (self.d1[1:] != self.d1[:-1])
            return np.flatnonzero(new), np.cumsum(new) - 1
        _, first, place = np.unique(self.d0 + 1j * self.d1, return_index=True, return_inverse=True)
        return first, place

    def uniformised(self) -> tuple[Uniform, FloatArray, FloatArray]:
        """Give the map of the distances to [0, 1], and d0 and d1 under it."""
        return self.uniform, self.uniform(self.d0), self.uniform(self.d1)


def _held(lattice: Lattice, bin0: NDArray[np.int32], bin1: NDArray[np.int32], count: IntArray) -> IntArray:
    """Count the distances in each bin, d0 and d1 pooled."""
    held = np.bincount(bin0, count, lattice.bins) + np.bincount(bin1, count, lattice.bins)
    return np.asarray(held, dtype=np.int64)


def _middles(lattice: Lattice, held: IntArray) -> FloatArray:
    """Give a distance that stands for each bin: its middle, of the outermost ones that of the part which is filled.

    Where distances end, at 1 say, they fill part of their last bin: about the share that it holds of what the bin
    before it does.
    """
    middles, used = lattice.centres.copy(), np.flatnonzero(held)
    for end, inwards in ((used[0], 1), (used[-1], -1)):
        if min(end, end + inwards) >= 2 and max(end, end + inwards) < lattice.bins - 1:
            filled = min(1.0, held[end] / max(held[end + inwards], 1))
            middles[end] *= np.exp2(inwards * (1 - filled) / (2 * lattice.per_octave))
    return middles


def _placed(
    middles: FloatArray, apart: float, bin0: NDArray[np.int32], bin1: NDArray[np.int32], sign: NDArray[np.int8]
) -> tuple[FloatArray, FloatArray]:
    """Give each cell its distances: the middles of its bins, drawn apart where both are one bin but d0 is not d1."""
    octaves = np.where(bin0 == bin1, sign * apart, 0.0)
    return middles[bin0] * np.exp2(octaves), middles[bin1] * np.exp2(-octaves)


def _by_reference(counts: Counts) -> tuple[IntArray, ByReference] | None:
    """Number the wide cells of the rows, and find them among the counts by reference."""
    if counts.clusters is None:
        return None
    lattice, key = counts.lattice, ("group", "bin0", "bin1", "sign", "n", "M")
    times = lattice.per_octave // counts.cluster_lattice.per_octave
    cells, clusters = counts.cells, counts.clusters
    widened = [
        lattice.merged(cells[name].to_numpy(), times) if name.startswith("bin") else cells[name].to_numpy()
        for name in key
    ]
    stacked = np.concatenate(
        [np.stack(widened, axis=1), np.stack([clusters[name].to_numpy() for name in key], axis=1)]
    ).astype(np.int64)
    wide = np.unique(stacked, axis=0, return_inverse=True)[1].ravel()
    of_rows, of_entries = wide[: len(cells)], wide[len(cells) :]
    count = cells["count"].to_numpy()
    fullest = np.empty(int(wide.max()) + 1, dtype=np.int64)
    order = np.argsort(count, kind="stable")
    fullest[of_rows[order]] = order
    ref = np.unique(clusters["ref"].to_numpy(), return_inverse=True)[1]
    found = ByReference(ref, of_entries, fullest[of_entries], clusters["count"].to_numpy())
    return np.asarray(of_rows), found
