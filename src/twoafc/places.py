"""Where counts stand on the plane of the two distances: a distance for each bin, and the map of distances to [0, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform
from twoafc.counts import Lattice
from twoafc.counts.atoms import MANY, Atoms, crowded, marginals

SIXTH = 1 / 6
"""Of two distances spread evenly over one bin the larger lies two thirds up it on average, a sixth above the middle."""
NEAR = 1 / 4
"""How near a value that many share others come at least, in mean distances between two of them."""
MOSTLY = 1 / 2
"""Share of a bin's distances that one value has where it stands for all of them."""
LEAST_FILLED = 1 / 64
"""Part of a bin that is taken to be filled at least."""


class Axis(NamedTuple):
    """The bins in use, shape (B,), which both distances share, and the places on it.

    ``d`` has a distance for each bin. A place k has the bins ``i[k]`` and ``j[k]`` of the axis, and their distances,
    but where it is ``apart[k]``: both in one bin, yet not equal. ``single`` tells the bins that are taken for one
    value, ``known`` those of them whose value is known.
    """

    lattice: Lattice
    bins: IntArray
    d: FloatArray
    i: IntArray
    j: IntArray
    apart: NDArray[np.bool_]
    single: NDArray[np.bool_]
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Places:
    """Pairs of distances, shape (K,) each, and the axis that they lie on, where they do."""

    d0: FloatArray
    d1: FloatArray
    axis: Axis | None = None

    def under(self, uniform: Uniform) -> tuple[FloatArray, FloatArray]:
        """Map the distances to [0, 1]."""
        if self.axis is None:
            return uniform(self.d0), uniform(self.d1)
        d, i, j, apart = self.axis.d, self.axis.i, self.axis.j, self.axis.apart
        u = uniform(d)
        u0, u1 = u[i], u[j]
        u0[apart], u1[apart] = uniform(self.d0[apart]), uniform(self.d1[apart])
        return u0, u1


def placed(
    lattice: Lattice,
    bin0: NDArray[np.int32],
    bin1: NDArray[np.int32],
    sign: NDArray[np.int8],
    count: FloatArray,
    atoms: Atoms,
    onto: Axis | None = None,
) -> tuple[Places, Uniform]:
    """Give distances that stand for pairs of bins, and the map that their counts make.

    Parameters
    ----------
    bin0, bin1, sign, count : arrays, shape (K,)
        Pairs of bins, the sign of d0 - d1, and the number of triplets there.
    atoms : mapping of float to int
        Values that many distances share, and how many do.
    onto : Axis, optional
        Of the table that was fitted, to which these counts are to be compared: where both have a bin, or a value, it is
        where that table has it.
    """
    held, tied = marginals(lattice, bin0, bin1, sign, count)
    bins = np.flatnonzero(held)
    value = _values(lattice, bins, held[bins], atoms, onto)
    known = value > 0
    single = known | np.isin(bins, _towers(lattice, held, tied))
    low, high = _filled(lattice, bins, held)
    low[single] = [roundest(*lattice.edges[each : each + 2]) for each in bins[single]]
    low[known] = value[known]
    high[single] = low[single]
    if onto is not None and onto.lattice == lattice:
        off = _moved(bins, (low + high) / 2, onto)
        low, high = low + off, high + off
    d = (low + high) / 2
    number = np.zeros(lattice.bins, dtype=np.int64)
    number[bins] = np.arange(len(bins))
    i, j = number[bin0], number[bin1]
    apart = (bin0 == bin1) & (sign != 0)
    d0, d1, both = d[i], d[j], i[apart]
    off = SIXTH * np.maximum(high - low, d / (1 / LEAST_FILLED * lattice.per_octave))
    above, below = off, np.minimum(off, d - lattice.edges[bins])
    # Where distances end at one value, what lies beside that is on the inner side.
    above[-1:][single[-1:]] = below[:1][single[:1]] = 0.0
    upper, lower = (d + above)[both], (d - below)[both]
    d0[apart], d1[apart] = np.where(sign[apart] > 0, (upper, lower), (lower, upper))
    uniform = _mapped(lattice, bins, d, held[bins].astype(np.int64), single)
    return Places(d0, d1, Axis(lattice, bins, d, i, j, apart, single, known)), uniform


def _towers(lattice: Lattice, held: FloatArray, tied: NDArray[np.bool_]) -> IntArray:
    """Find the bins that must have one value for the most part, though it may not be known which."""
    found = crowded(lattice, held, tied, MANY)
    return np.asarray(found[(held[found - 1] > 0) | (held[found + 1] > 0)])


def _moved(bins: IntArray, d: FloatArray, onto: Axis) -> FloatArray:
    """How far each bin is from where another axis of the same lattice has it; 0 where that has none."""
    place = np.searchsorted(onto.bins, bins).clip(0, len(onto.bins) - 1)
    return np.where(onto.bins[place] == bins, onto.d[place] - d, 0.0)


def _values(lattice: Lattice, bins: IntArray, held: FloatArray, atoms: Atoms, onto: Axis | None) -> FloatArray:
    """Give the value of each bin that is one value, for the most part; 0 of all others.

    Values that fewer share are noted too, for they add up to many where parts are added.
    """
    value, most = np.zeros(len(bins)), np.zeros(len(bins))
    place = dict(zip(bins.tolist(), range(len(bins)), strict=True))
    for each, times in atoms.items():
        at = place.get(int(lattice.index(each)))
        if at is not None and times > most[at] and times >= max(MANY, MOSTLY * float(held[at])):
            value[at], most[at] = each, times
    for each in onto.d[onto.known].tolist() if onto is not None else ():
        at = place.get(int(lattice.index(each)))
        if at is not None:
            value[at] = each
    return value


def _mapped(lattice: Lattice, bins: IntArray, d: FloatArray, held: IntArray, single: NDArray[np.bool_]) -> Uniform:
    """Map the distances of bins to [0, 1], given which bins are single values: just beside those the map jumps.

    One distance of the bin before such a value is put below it, and one of the bin after it above: nearer than most
    nearest ones would be, yet not so near that a smooth map could not tell them apart. Where the bin beside it is
    empty, or a single value too, there is no jump.
    """
    width = np.diff(lattice.edges)[bins]
    beside = (np.diff(bins) == 1) & (held[:-1] > 1) & (held[1:] > 1)
    before = np.flatnonzero(beside & single[1:] & ~single[:-1]) + 1
    after = np.flatnonzero(beside & single[:-1] & ~single[1:])
    gaps = [
        np.minimum(NEAR * width[other] / held[other], np.abs(d[one] - d[other]) / 2)
        for one, other in ((before, before - 1), (after, after + 1))
    ]
    held = held.copy()
    np.subtract.at(held, np.concatenate([before - 1, after + 1]), 1)
    kept = held > 0  # a bin between two such values may have had but two
    values = np.concatenate([d[kept], d[before] - gaps[0], d[after] + gaps[1]])
    order = np.argsort(values)
    counts = np.concatenate([held[kept], np.ones(len(before) + len(after), dtype=np.int64)])
    return Uniform(values[order], np.cumsum(counts[order]))


def _filled(lattice: Lattice, bins: IntArray, held: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the ends of the part of each bin that is taken to be filled: all of it, but where distances end.

    There they fill part of their last bin: about the share that it holds of what one like that before it would.
    """
    edges = lattice.edges
    low, high = edges[bins], edges[bins + 1]
    high[~np.isfinite(high)] = low[~np.isfinite(high)] * (1 + 1 / lattice.per_octave)
    width = np.diff(edges)
    for end, inwards in ((0, 1), (-1, -1)):
        place = bins[end]
        if 2 < place < lattice.bins - 2:
            share = held[place] / max(held[place + inwards], 1.0) * width[place + inwards] / width[place]
            left = width[place] * (1 - np.clip(share, LEAST_FILLED, 1.0))
            low[end], high[end] = (low[end] + left, high[end]) if inwards > 0 else (low[end], high[end] - left)
    return low, high


def roundest(low: float, high: float) -> float:
    """Find the number from `low` on, below `high`, that has the fewest decimal digits, of several the smallest.

    Examples
    --------
    >>> roundest(0.8984375, 0.90234375), roundest(1.0, 1.0078125), roundest(255.0, 256.0)
    (0.9, 1.0, 255.0)
    """
    for place in range(math.floor(math.log10(high)), -400, -1):
        first = math.ceil(low / 10.0**place)
        for digits in (first - 1, first, first + 1):  # a quotient is rounded
            number = float(f"{digits}e{place}")
            if low <= number < high:
                return number
    return low
