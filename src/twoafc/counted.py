"""Counts as a table to fit and score: rows at distances that stand for their bins, each for several triplets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform, blocks_of, log_coefficient
from twoafc.counts import Counts
from twoafc.counts.cells import Spans, coded, numbers_of, widened
from twoafc.kinds import Kinds, kinds
from twoafc.places import Places, placed
from twoafc.table import Groups

ShortArray = NDArray[np.int32]

MANY = 30_000
"""Votes on one triplet whose square is too large for the whole numbers that counts are held in."""


class ByReference(NamedTuple):
    """Triplets by reference: entry k says that ``times[k]`` triplets of the reference ``ref[k]`` are like one row.

    They were counted on wider bins than the rows: ``wide[k]`` is the number of the entry's wide cell, and ``row[k]``
    the row in that cell that has the most triplets.
    """

    ref: IntArray
    wide: IntArray
    row: IntArray
    times: IntArray


class Lines(NamedTuple):
    """Triplets of one reference with one n, M and group: entry k of `ByReference` is among those of ``line[k]``.

    Of each line: the number of its reference, a row with its n, M and group, and the number of its triplets.
    """

    line: IntArray
    ref: IntArray
    row: IntArray
    times: IntArray


class Votes(NamedTuple):
    """Sums over the triplets at each place, shape (K,) each: what every fit needs of them."""

    n: FloatArray
    M: FloatArray
    triplets: FloatArray
    log_coefficient: FloatArray
    nn: FloatArray
    nM: FloatArray
    MM: FloatArray


@dataclass(frozen=True, eq=False)
class CountedTriplets:
    """Triplets of one distance, of which each row stands for several at one place with the same n, M and group.

    Attributes
    ----------
    places : Places
        The pairs of distances that occur: d0 and d1 stand for the bins of their triplets; they are equal where all of
        these are ties, else d0 > d1 where theirs are.
    place : array of int, shape (C,)
        Number of each row's place.
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
    >>> from twoafc.table import Triplets
    >>> counts = tally(Triplets.from_frame({"n": [1, 1, 0], "M": [2, 2, 1], "d0": [5, 5, 3], "d1": [1, 1, 3]}))
    >>> table = CountedTriplets.of(counts)
    >>> table.d0.round(1), table.d1.round(1), table.count
    (array([3., 5.]), array([3., 1.]), array([1, 2]))
    >>> table.uniform(table.d0).round(2)
    array([0.5 , 0.83])
    """

    places: Places
    place: ShortArray
    n: IntArray
    M: IntArray
    count: IntArray
    uniform: Uniform
    groups: Groups | None = None
    wide: IntArray | None = None
    references: ByReference | None = None

    k: ClassVar[int] = 2
    row: ClassVar[str] = "triplet"

    @property
    def columns(self) -> tuple[FloatArray, ...]:
        """Distances of x0 and x1."""
        return self.d0, self.d1

    @classmethod
    def of(cls, counts: Counts, onto: CountedTriplets | None = None) -> CountedTriplets:
        """Place counts on the plane of the two distances; those to be scored where the table that was fitted is."""
        bin0, bin1, sign, n, M, count = (
            counts.cells[name].to_numpy() for name in ("bin0", "bin1", "sign", "n", "M", "count")
        )
        if M.max() > MANY:
            n, M = n.astype(np.int64), M.astype(np.int64)
        first, place = _in_order(bin0, bin1, sign) if not counts.groups else _distinct(bin0, bin1, sign)
        pooled = np.add.reduceat(count, first) if not counts.groups else np.bincount(place, count)
        at = (bin0[first], bin1[first], sign[first], pooled.astype(np.float64))
        places, uniform = placed(counts.lattice, *at, counts.atoms, None if onto is None else onto.places.axis)
        groups = (list(counts.groups), counts.cells["group"].to_numpy().astype(np.int64)) if counts.groups else None
        wide, references = _by_reference(counts) or (None, None)
        return cls(places, place, n, M, count, uniform, groups, wide, references)

    def __len__(self) -> int:
        return len(self.n)

    @property
    def d0(self) -> FloatArray:
        """Distance of x0 that stands for each row's, shape (C,)."""
        return self.places.d0[self.place]

    @property
    def d1(self) -> FloatArray:
        """Distance of x1 that stands for each row's, shape (C,)."""
        return self.places.d1[self.place]

    def uniformised(self) -> tuple[Uniform, FloatArray, FloatArray]:
        """Give the map of the distances to [0, 1], and d0 and d1 under it."""
        u0, u1 = self.places.under(self.uniform)
        return self.uniform, u0[self.place], u1[self.place]

    @cached_property
    def kinds(self) -> Kinds:
        """Kinds of rows: those of one n, M and group."""
        return kinds(self.n, self.M, None if self.groups is None else self.groups[1])

    @cached_property
    def votes(self) -> Votes:
        """Sums over the triplets at each place."""
        number, row = self.kinds
        n, M = (each[row].astype(np.int64) for each in (self.n, self.M))
        columns = (n, M, np.ones(len(row)), log_coefficient(n, M), n * n, n * M, M * M)
        of_kind = np.stack(columns, axis=1, dtype=np.float64)
        sums = np.zeros((len(columns), len(self.places.d0)))
        for some in blocks_of(len(self)):
            place, kind, count = self.place[some], number[some], self.count[some].astype(np.float64)
            low = int(place.min())
            held = np.bincount(place - low)
            if (place[1:] < place[:-1]).any():
                order = np.argsort(place, kind="stable")
                kind, count = kind[order], count[order]
            start = np.concatenate([[0], np.cumsum(held)])
            triplets = csr_array((count, kind.astype(np.int32), start), shape=(len(held), len(row)))
            sums[:, low : low + len(held)] += (triplets @ of_kind).T
        return Votes(*sums)

    @cached_property
    def lines(self) -> Lines | None:
        """The triplets by reference, n, M and group; None where references were not kept."""
        if self.references is None:
            return None
        ref, _, row, times = self.references
        kinds = len(self.kinds.row)
        code = ref * kinds + self.kinds.number[row]
        held, line = np.unique(code, return_inverse=True)
        total = np.bincount(line, times).astype(np.int64)
        return Lines(line, held // kinds, self.kinds.row[held % kinds], total)

    def wider(self) -> CountedTriplets:
        """Give the table on bins twice as wide, the votes at each place taken as those of one triplet."""
        axis = self.places.axis
        assert axis is not None
        sign = np.sign(self.places.d0 - self.places.d1).astype(np.int8)
        bin0, bin1 = (axis.lattice.merged(axis.bins)[each] for each in (axis.i, axis.j))
        first, place = _distinct(bin0, bin1, sign)
        votes = Votes(*(np.asarray(np.bincount(place, column), dtype=np.float64) for column in self.votes))
        held = np.sum([np.bincount(each, self.votes.triplets, len(axis.bins)) for each in (axis.i, axis.j)], axis=0)
        atoms = {d: int(times) for d, times, known in zip(axis.d.tolist(), held, axis.known, strict=True) if known}
        at = (bin0[first], bin1[first], sign[first], votes.triplets)
        places, uniform = placed(axis.lattice.coarser(), *at, atoms)
        n, M = votes.n.astype(np.int64), votes.M.astype(np.int64)
        one = np.ones(len(first), dtype=np.int64)
        made = CountedTriplets(places, np.arange(len(first), dtype=np.int32), n, M, one, uniform)
        made.__dict__["votes"] = votes  # of the triplets themselves, not of those that stand for all of a place
        return made


def _spans(bin0: ShortArray, bin1: ShortArray) -> Spans:
    return {"bin0": (0, int(bin0.max())), "bin1": (0, int(bin1.max())), "sign": (-1, 1)}


def _in_order(bin0: ShortArray, bin1: ShortArray, sign: NDArray[np.int8]) -> tuple[IntArray, ShortArray]:
    """Do what `_distinct` does where rows are in the order of bins and sign, quicker and in less memory."""
    place = np.empty(len(bin0), dtype=np.int32)
    first: list[IntArray] = []
    spans, before, last = _spans(bin0, bin1), 0, -1
    for some in blocks_of(len(bin0)):
        code = numbers_of({"bin0": bin0[some], "bin1": bin1[some], "sign": sign[some]}, spans)
        new = np.concatenate([code[:1] != last, code[1:] != code[:-1]])
        first.append(np.flatnonzero(new) + some.start)
        place[some] = np.cumsum(new) + (before - 1)
        before, last = before + len(first[-1]), code[-1]
    return np.concatenate(first), place


def _distinct(bin0: ShortArray, bin1: ShortArray, sign: NDArray[np.int8]) -> tuple[IntArray, ShortArray]:
    """Find the rows that differ in bins and sign, one of each, and the number of each row's among them."""
    code = numbers_of({"bin0": bin0, "bin1": bin1, "sign": sign}, _spans(bin0, bin1))
    order = np.argsort(code, kind="stable")  # quick, since groups, or pairs of bins, are in order
    code = code[order]
    new = np.concatenate([[True], code[1:] != code[:-1]])
    place = np.empty(len(code), dtype=np.int32)
    place[order] = np.cumsum(new) - 1
    return order[new], place


def _by_reference(counts: Counts) -> tuple[IntArray, ByReference] | None:
    """Number the wide cells of the rows, and find them among the counts by reference."""
    if counts.clusters is None:
        return None
    cells, clusters = widened(counts.cells, counts.lattice, counts.cluster_lattice), counts.clusters
    code, codes = coded(cells, clusters)
    held, of_rows = np.unique(code, return_inverse=True)
    of_entries = np.searchsorted(held, codes)
    count = cells["count"].to_numpy()
    fullest = np.empty(len(held), dtype=np.int64)
    order = np.argsort(count, kind="stable")
    fullest[of_rows[order]] = order
    ref = clusters["ref"].to_numpy()  # in order
    number = np.cumsum(np.concatenate([[False], ref[1:] != ref[:-1]]))
    found = ByReference(number, of_entries, fullest[of_entries], clusters["count"].to_numpy())
    return np.asarray(of_rows), found
