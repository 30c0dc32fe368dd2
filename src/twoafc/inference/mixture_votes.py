"""Votes folded into histograms, k = min(n, M - n), and what a chance q = max(p, 1 - p) leads to expect of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from twoafc.binomial import pmf_table

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@lru_cache
def chances(size: int) -> FloatArray:
    """Values of q from 1/2 to 1, denser towards 1, where the entropy falls ever faster."""
    return np.asarray((1 + np.sin(np.linspace(0, np.pi / 2, size))) / 2)


def folded_pmf(M: int, q: FloatArray) -> FloatArray:
    """Chance that k = 0..floor(M/2) of M votes go against the majority's usual choice or, folded, with it.

    Examples
    --------
    >>> folded_pmf(2, np.array([0.5, 1.0]))
    array([[0.5, 1. ],
           [0.5, 0. ]])
    """
    return np.asarray(folding(M, M).T @ pmf_table(M, q).T)


@lru_cache
def folding(M: int, kept: int) -> FloatArray:
    """Chance that of n = 0..M votes, `kept` of them drawn at random show k = 0..floor(kept/2) folded, (M + 1, k).

    Examples
    --------
    >>> folding(3, 3)
    array([[1., 0.],
           [0., 1.],
           [0., 1.],
           [1., 0.]])
    """
    drawn = np.arange(kept + 1)
    n = np.arange(M + 1)[:, None]
    chance = hypergeom.pmf(drawn, M, n, kept) if kept < M else np.eye(M + 1)
    folded = np.minimum(drawn, kept - drawn)[:, None] == np.arange(kept // 2 + 1)
    return np.asarray(chance @ folded)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Folded votes of all triplets with one M.

    Attributes
    ----------
    M : int
        Votes on each of these triplets.
    kept : int
        So many of them count, drawn in expectation: the programme stays small whatever M.
    n : array of int
        Votes for x1 of each triplet.
    times : array of int, optional
        Triplets that each entry of `n` stands for; one where it is not given.
    """

    M: int
    kept: int
    n: IntArray
    times: IntArray | None = None

    @property
    def triplets(self) -> int:
        """Number of triplets."""
        return len(self.n) if self.times is None else int(self.times.sum())

    @property
    def rows(self) -> FloatArray:
        """What a triplet with n = 0..M votes for x1 adds to each cell, shape (M + 1, cells)."""
        return folding(self.M, self.kept)

    @property
    def observed(self) -> FloatArray:
        """Number of triplets in each cell."""
        # Folded as whole numbers, so that no bit depends on which image was called x1.
        half = self.M // 2 + 1
        folded = np.minimum(self.n, self.M - self.n)
        return np.asarray(np.bincount(folded, self.times, minlength=half) @ self.rows[:half])

    def expected(self, q: FloatArray) -> FloatArray:
        """Number to expect in each cell if all triplets had the chance q, shape (cells, len(q))."""
        return self.triplets * folded_pmf(self.kept, q)
