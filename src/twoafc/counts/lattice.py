"""A fixed lattice of raw distances, agreed on without seeing any data, so that counts of any parts add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

OCTAVES = 80
"""Doublings that the bins span, half of them below 1: from 9e-13 to 1e12, so that any unit of a distance will do."""
LOWEST = 2.0 ** (-OCTAVES // 2)
HIGHEST = 2.0 ** (OCTAVES // 2)
FINEST = 4096


@dataclass(frozen=True)
class Lattice:
    """Bins of a distance: each doubling of it, from one power of two to the next, is cut into so many of one width.

    A bin is the exponent of a float and the first bits after its point: no edge is rounded, so that every engine and
    every machine agrees on it. Bin 0 holds d = 0 alone, bin 1 what lies between 0 and 9e-13, the last bin 1.1e12 and
    more; bins that no distance falls into cost nothing, for counts are sparse.

    Parameters
    ----------
    per_octave : int
        Bins for each doubling of the distance, a power of two up to 4096. 128 gives a distance whose bulk spans a
        factor of 50 some 700 bins; one that varies by less (0.8 to 1, say) wants more, 512 or 1024.

    Examples
    --------
    >>> Lattice(2).index([0.0, 1e-13, 1.0, 1.4, 1.5, 2.0, 1e300])
    array([  0,   1,  82,  82,  83,  84, 162], dtype=int32)
    """

    per_octave: int = 128

    def __post_init__(self) -> None:
        p = self.per_octave
        if isinstance(p, bool) or not isinstance(p, int) or not 1 <= p <= FINEST or p & (p - 1):
            raise ValueError(f"per_octave must be a power of two from 1 to {FINEST}; found {p}")

    @property
    def bins(self) -> int:
        """Number of bins, with the three at the ends."""
        return self.per_octave * OCTAVES + 3

    @property
    def shift(self) -> int:
        """Bits of a 64-bit float that lie behind those of its bin."""
        return 53 - self.per_octave.bit_length()

    @property
    def first(self) -> int:
        """What the bits of a float, shifted, come to in bin 0 if the lattice went on below: bin i has ``first + i``."""
        return int(np.array(LOWEST).view(np.int64) >> self.shift) - 2

    def index(self, d: ArrayLike) -> NDArray[np.int32]:
        """Bin of each distance, finite and at least 0: what every engine must agree with."""
        d = np.asarray(d, dtype=np.float64)
        place = (d.view(np.int64) >> self.shift) - self.first
        return np.where(d > 0, np.clip(place, 1, self.bins - 1), 0).astype(np.int32)

    @property
    def edges(self) -> NDArray[np.float64]:
        """Ends of the bins, shape (bins + 1,): bin i spans edges[i] to edges[i + 1], the upper end left out.

        Examples
        --------
        >>> edges = Lattice(2).edges
        >>> edges[:5] / LOWEST, edges[-2:]
        (array([0. , 0. , 1. , 1.5, 2. ]), array([1.09951163e+12,            inf]))
        """
        spaced = (np.arange(2, self.bins, dtype=np.int64) + self.first) << self.shift
        return np.concatenate([[0.0, 0.0], spaced.view(np.float64), [np.inf]])

    @property
    def centres(self) -> NDArray[np.float64]:
        """A distance that stands for each bin, shape (bins,): its middle, at the ends 0 and the edge."""
        edges = self.edges[1:-1]
        return np.concatenate([[0.0], (edges[:-1] + edges[1:]) / 2, [HIGHEST]])

    def coarser(self, times: int = 2) -> Lattice:
        """Give the lattice whose bins are this one's taken together, `times` at a time.

        Examples
        --------
        >>> Lattice(128).coarser(16)
        Lattice(per_octave=8)
        """
        return Lattice(self.per_octave // times)

    def merged(self, index: ArrayLike, times: int = 2) -> NDArray[np.int32]:
        """Bins of the coarser lattice that bins of this one lie in."""
        index = np.asarray(index)
        return np.where(index > 0, (index - 2) // times + 2, 0).astype(np.int32)
