"""Values that many distances share, as where they are held to at most 0.8987: which bins have one, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import blocks_of
from twoafc.counts.lattice import Lattice

Atoms = Mapping[float, int]
"""Values that many distances share, and how many do."""

TOWERING = 4
"""Times as crowded as those beside it a bin is only if many of its distances are one value."""
MANY, LARGE = 100, 10**6
"""Distances of a bin that is looked at in large tables, and triplets from which on a table is large."""
FEW, TWO, SMALL = 10, 2, 200
"""The same of other tables, and of those with fewer triplets than that, which are parts of larger ones most likely."""


def crowded(lattice: Lattice, held: FloatArray, tied: NDArray[np.bool_], many: int) -> IntArray:
    """Find the bins that tower over those beside them, or stand alone, and in which most pairs are ties.

    Parameters
    ----------
    held, tied : arrays, shape (bins,)
        Distances in each bin, and whether at least half of the pairs that both lie in it are ties.
    many : int
        Distances that such a bin has at least.
    """
    width = np.diff(lattice.edges)
    inner = np.flatnonzero(held[2:-1] >= many) + 2
    dense, before, after = (
        np.where((inner + k > 1) & (inner + k < lattice.bins - 1), held[inner + k] / width[inner + k], 0.0)
        for k in (0, -1, 1)
    )
    return np.asarray(inner[(dense > TOWERING * np.maximum(before, after)) & tied[inner]])


def marginals(
    lattice: Lattice,
    bin0: NDArray[np.int32],
    bin1: NDArray[np.int32],
    sign: NDArray[np.int8],
    count: NDArray[Any],
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Count the distances in each bin, d0 and d1 pooled, and tell the bins in which most pairs are ties."""
    held, within, ties = np.zeros((3, lattice.bins))
    for some in blocks_of(len(count)):
        first, second, times = bin0[some], bin1[some], count[some].astype(np.float64)
        new = np.flatnonzero(np.diff(first, prepend=-1))  # mostly in order, so that many of one bin are added at once
        np.add.at(held, first[new], np.add.reduceat(times, new))
        np.add.at(held, second, times)
        same = first == second
        np.add.at(within, first[same], times[same])
        same &= sign[some] == 0
        np.add.at(ties, first[same], times[same])
    return held, 2 * ties >= within


def crowded_of(cells: pl.DataFrame, lattice: Lattice) -> IntArray:
    """Find the bins among the cells of counts that may have such a value."""
    held, tied = marginals(lattice, *(cells[name].to_numpy() for name in ("bin0", "bin1", "sign", "count")))
    triplets = held.sum() / 2
    return crowded(lattice, held, tied, MANY if triplets >= LARGE else noted_from(triplets))


def noted_from(triplets: float) -> int:
    """How many distances of a table must have a value for it to be noted."""
    return FEW if triplets >= SMALL else TWO


def commonest(lattice: Lattice, values: ArrayLike, times: ArrayLike, least: int) -> dict[float, int]:
    """Give the value of each bin that occurs most often, of several the smallest, and how often; none that few have.

    Examples
    --------
    >>> commonest(Lattice(), [0.9, 0.8987, 0.3, 1.0], [12, 20, 1, 70], 10)
    {0.8987: 20, 1.0: 70}
    """
    values, times = np.asarray(values, dtype=np.float64), np.asarray(times, dtype=np.int64)
    place = lattice.index(values)
    order = np.lexsort((values, -times, place))
    first = order[np.flatnonzero(np.diff(place[order], prepend=-1))]
    return {float(values[each]): int(times[each]) for each in first if times[each] >= least}


def joined(parts: Sequence[Atoms]) -> dict[float, int]:
    """Add up how many distances have each value.

    Examples
    --------
    >>> joined([{0.9: 5, 1.0: 20}, {0.9: 7}])
    {0.9: 12, 1.0: 20}
    """
    found: Counter[float] = Counter()
    for part in parts:
        found.update(part)
    return dict(sorted(found.items()))
