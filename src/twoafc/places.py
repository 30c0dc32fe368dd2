"""Where counts stand on the plane of the two distances: a distance for each bin, and the map of distances to [0, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.counts import Lattice
from twoafc.uniform import Uniform

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SIXTH = 1 / 6
"""Of two distances spread evenly over one bin the larger lies two thirds up it on average, a sixth above the middle."""
LEAST_FILLED = 1 / 64
"""Part of a bin that is taken to be filled at least."""
TOWERING, MANY = 4, 100
"""Times as many distances as beside it, and distances at all, of which a bin has more only if many are one value."""


class Axis(NamedTuple):
    """The bins in use, shape (B,), which both distances share, and the places on it.

    ``d`` has a distance for each bin. A place k has the bins ``i[k]`` and ``j[k]`` of the axis, and their distances,
    but where it is ``apart[k]``: both in one bin, yet not equal.
    """

    lattice: Lattice
    bins: IntArray
    d: FloatArray
    i: IntArray
    j: IntArray
    apart: NDArray[np.bool_]


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
        _, _, d, i, j, apart = self.axis
        u = uniform(d)
        u0, u1 = u[i], u[j]
        u0[apart], u1[apart] = uniform(self.d0[apart]), uniform(self.d1[apart])
        return u0, u1


def placed(
    lattice: Lattice, bin0: NDArray[np.int32], bin1: NDArray[np.int32], sign: NDArray[np.int8], count: FloatArray
) -> tuple[Places, Uniform]:
    """Give distances that stand for pairs of bins, and the map that their counts make.

    Parameters
    ----------
    bin0, bin1, sign, count : arrays, shape (K,)
        Pairs of bins, the sign of d0 - d1, and the number of triplets there.
    """
    held = np.asarray(np.bincount(bin0, count, lattice.bins) + np.bincount(bin1, count, lattice.bins), np.float64)
    bins = np.flatnonzero(held)
    same = bin0 == bin1
    within, ties = (np.bincount(bin0[some], count[some], lattice.bins) for some in (same, same & (sign == 0)))
    low, high = _filled(lattice, bins, held, 2 * ties >= within)
    d = (low + high) / 2
    number = np.zeros(lattice.bins, dtype=np.int64)
    number[bins] = np.arange(len(bins))
    i, j = number[bin0], number[bin1]
    apart = (bin0 == bin1) & (sign != 0)
    d0, d1, both = d[i], d[j], i[apart]
    off = SIXTH * np.maximum(high - low, d / (1 / LEAST_FILLED * lattice.per_octave))
    upper, lower = (d + off)[both], np.maximum(d - off, lattice.edges[bins])[both]
    d0[apart], d1[apart] = np.where(sign[apart] > 0, (upper, lower), (lower, upper))
    uniform = _mapped(d, held[bins].astype(np.int64), np.flatnonzero((low == high) & (bins > 0)))
    return Places(d0, d1, Axis(lattice, bins, d, i, j, apart)), uniform


def _mapped(d: FloatArray, held: IntArray, single: IntArray) -> Uniform:
    """Map the distances of bins to [0, 1], given which bins are single values: just beside those the map jumps.

    One distance of the bin before such a value is put right below it, and one of the bin after it right above.
    """
    before, after = (single[(near >= 0) & (near < len(d))] for near in (single - 1, single + 1))
    before, after = before[held[before - 1] > 1], after[held[after + 1] > 1]
    held = held.copy()
    np.subtract.at(held, np.concatenate([before - 1, after + 1]), 1)
    kept = held > 0  # a bin between two such values may have had but two
    values = np.concatenate([d[kept], np.nextafter(d[before], 0), np.nextafter(d[after], np.inf)])
    order = np.argsort(values)
    counts = np.concatenate([held[kept], np.ones(len(before) + len(after), dtype=np.int64)])
    return Uniform(values[order], np.cumsum(counts[order]))


def _filled(
    lattice: Lattice, bins: IntArray, held: FloatArray, tied: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Give the ends of the part of each bin that is taken to be filled: all of it, but for two cases.

    Where distances end they fill part of their last bin: about the share that it holds of what one like that before
    it would. And where a bin towers over those beside it, and pairs in it are mostly `tied`, many distances are one
    value, as where they are held to at most 1: that is taken to be the roundest number in the bin.
    """
    edges = lattice.edges
    low, high = edges[bins], edges[bins + 1]
    high[~np.isfinite(high)] = low[~np.isfinite(high)] * (1 + 1 / lattice.per_octave)
    inner = np.flatnonzero((bins > 2) & (bins < lattice.bins - 2))
    width = np.diff(edges)
    crowded, before, after = (held[bins[inner] + k] / width[bins[inner] + k] for k in (0, -1, 1))
    beside = np.maximum(before, after)
    single = inner[(crowded > TOWERING * beside) & (beside > 0) & (held[bins[inner]] > MANY) & tied[bins[inner]]]
    for end, inwards in ((0, 1), (-1, -1)):
        place = bins[end]
        if 2 < place < lattice.bins - 2:
            share = held[place] / max(held[place + inwards], 1.0) * width[place + inwards] / width[place]
            left = width[place] * (1 - np.clip(share, LEAST_FILLED, 1.0))
            low[end], high[end] = (low[end] + left, high[end]) if inwards > 0 else (low[end], high[end] - left)
    low[single] = high[single] = [roundest(*edges[bins[each] : bins[each] + 2]) for each in single]
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
