"""Values that many distances share, as where they are held to at most 0.8987: which bins have one, and what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from twoafc.counts.lattice import Lattice

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Atoms = Mapping[int, float]
"""Bins in which many distances are one value, and that value."""

BLOCK = 2**16
"""Rows taken at once."""
TOWERING, MANY = 4, 100
"""Times as many distances as beside it, and distances at all, of which a bin has more only if many are one value."""


def towers(lattice: Lattice, held: FloatArray, tied: NDArray[np.bool_]) -> IntArray:
    """Find the bins that tower over those beside them, and in which most pairs are ties: many distances are one value.

    Parameters
    ----------
    held, tied : arrays, shape (bins,)
        Distances in each bin, and whether at least half of the pairs that both lie in it are ties.
    """
    width = np.diff(lattice.edges)
    inner = np.flatnonzero(held[3:-2] > MANY) + 3
    crowded, before, after = (held[inner + k] / width[inner + k] for k in (0, -1, 1))
    beside = np.maximum(before, after)
    return np.asarray(inner[(crowded > TOWERING * beside) & (beside > 0) & tied[inner]])


def towers_of(cells: pl.DataFrame, lattice: Lattice) -> IntArray:
    """Find such bins among the cells of counts."""
    held, within, ties = np.zeros((3, lattice.bins))
    columns = [cells[name].to_numpy() for name in ("bin0", "bin1", "sign", "count")]
    for start in range(0, len(cells), BLOCK):
        bin0, bin1, sign, count = (each[start : start + BLOCK] for each in columns)
        count = count.astype(np.float64)
        np.add.at(held, bin0, count)
        np.add.at(held, bin1, count)
        same = bin0 == bin1
        np.add.at(within, bin0[same], count[same])
        same &= sign == 0
        np.add.at(ties, bin0[same], count[same])
    return towers(lattice, held, 2 * ties >= within)


def commonest(values: ArrayLike) -> float:
    """Give the value that occurs most often, of several the smallest.

    Examples
    --------
    >>> commonest([0.9, 0.8987, 0.8987])
    0.8987
    """
    found, times = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    return float(found[np.argmax(times)])


def joined(parts: Sequence[Atoms]) -> dict[int, float]:
    """Put the values of several parts together; where they differ nothing is known.

    Examples
    --------
    >>> joined([{5: 0.9, 7: 1.0}, {5: 0.8987}])
    {7: 1.0}
    """
    found: dict[int, set[float]] = {}
    for part in parts:
        for each, value in part.items():
            found.setdefault(each, set()).add(value)
    return {each: values.pop() for each, values in sorted(found.items()) if len(values) == 1}
