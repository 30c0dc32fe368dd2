"""A fixed lattice of raw distances, agreed on without seeing any data, so that counts of any parts add up."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

LOWEST = 1e-12
"""Lower end of the log-spaced bins; no plain decimal number, power of two or fraction of 255 lies on an edge."""
OCTAVES = 80
"""Doublings that they span: up to about 1e12, so that no unit of a distance is too small or too large."""
FINEST = 4096


@dataclass(frozen=True)
class Lattice:
    """Log-spaced bins of a distance: a fixed number of them for each doubling, whatever its unit.

    Bin 0 holds d = 0 alone, bin 1 what lies between 0 and 1e-12, the last bin 1.2e12 and more; bins that no distance
    falls into cost nothing, for counts are sparse.

    Parameters
    ----------
    per_octave : int
        Bins for each doubling of the distance, a power of two up to 4096. 128 gives a distance whose bulk spans a
        factor of 50 some 700 bins; one that varies by less (0.8 to 1, say) wants more, 512 or 1024.

    Examples
    --------
    >>> Lattice(2).index([0.0, 1e-13, 1.0, 1.4, 2.0, 1e300])
    array([  0,   1,  81,  82,  83, 162], dtype=int32)
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
    def scale(self) -> float:
        """Bins for each natural logarithm of the distance; exactly twice that of the next coarser lattice."""
        return self.per_octave / math.log(2)

    def index(self, d: ArrayLike) -> NDArray[np.int32]:
        """Bin of each distance, finite and at least 0: what every engine must agree with."""
        d = np.asarray(d, dtype=np.float64)
        # The logarithm first, then the power of two: halving the scale halves the product to the last bit, so that
        # the bins of a coarser lattice are exactly pairs of these.
        k = np.floor((np.log(np.maximum(d, LOWEST / 2)) - math.log(LOWEST)) * self.scale)
        return np.where(d > 0, np.clip(k, -1, self.bins - 3) + 2, 0).astype(np.int32)

    @property
    def edges(self) -> NDArray[np.float64]:
        """Ends of the bins, shape (bins + 1,): bin i spans edges[i] to edges[i + 1].

        Examples
        --------
        >>> edges = Lattice(1).edges
        >>> edges[:4], edges[-2:]
        (array([0.e+00, 0.e+00, 1.e-12, 2.e-12]), array([1.20892582e+12,            inf]))
        """
        spaced = LOWEST * np.exp2(np.arange(self.bins - 2) / self.per_octave)
        return np.concatenate([[0.0, 0.0], spaced, [np.inf]])

    @property
    def centres(self) -> NDArray[np.float64]:
        """A distance that stands for each bin, shape (bins,): the geometric middle, at the ends 0 and the edges."""
        spaced = LOWEST * np.exp2((np.arange(self.bins - 3) + 0.5) / self.per_octave)
        return np.concatenate([[0.0, LOWEST / 2], spaced, [LOWEST * 2.0**OCTAVES]])

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
