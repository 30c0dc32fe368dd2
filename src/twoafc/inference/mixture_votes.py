"""Votes folded into histograms, k = min(n, M - n), and what a chance q = max(p, 1 - p) leads to expect of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import comb

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import pmf_table


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
    return np.asarray(folding(M, M, np.arange(M + 1)).T @ pmf_table(M, q).T)


def folding(M: int, kept: int, n: IntArray) -> FloatArray:
    """Chance that `kept` of the M votes on each triplet, drawn at random, show k = 0..floor(kept/2) folded, (T, k).

    Examples
    --------
    >>> folding(3, 3, np.arange(4))
    array([[1., 0.],
           [0., 1.],
           [0., 1.],
           [1., 0.]])
    >>> folding(4, 2, np.array([2])).round(4)
    array([[0.3333, 0.6667]])
    """
    drawn = np.arange(kept + 1)
    chance = _hypergeometric(M, kept, n) if kept < M else (n[:, None] == drawn).astype(np.float64)
    folded = np.minimum(drawn, kept - drawn)[:, None] == np.arange(kept // 2 + 1)
    return np.asarray(chance @ folded)


def _hypergeometric(M: int, kept: int, n: IntArray) -> FloatArray:
    """Chance that of n among M votes k = 0..kept are drawn, (T, kept + 1); a product of ratios, exact whatever M.

    Not scipy.stats.hypergeom, which takes twenty microseconds for each.
    """
    steps = np.arange(kept)[:, None]
    one = np.ones((1, len(n)))
    # The chance that the first 0, 1, 2, ... that are drawn are all for x1, and that they are all for x0.
    for_x1, for_x0 = (
        np.concatenate([one, np.cumprod(np.maximum(votes - steps, 0) / (M - steps), axis=0)]) for votes in (n, M - n)
    )
    # Those for x0 are drawn after those for x1, from fewer.
    left = np.concatenate([[1.0], np.cumprod((M - steps[:, 0]) / M)])
    k = np.arange(kept + 1)
    among = comb(kept, k) * left[k] * left[kept - k] / left[kept]
    return np.asarray((among[:, None] * for_x1 * for_x0[::-1]).T)


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

    def rows(self, n: IntArray) -> FloatArray:
        """What triplets with n votes for x1 add to each cell, shape (len(n), cells)."""
        return folding(self.M, self.kept, n)

    @property
    def observed(self) -> FloatArray:
        """Number of triplets in each cell."""
        # Folded as whole numbers, so that no bit depends on which image was called x1.
        values, place = np.unique(np.minimum(self.n, self.M - self.n), return_inverse=True)
        return np.asarray(np.bincount(place, self.times) @ self.rows(values))

    def expected(self, q: FloatArray) -> FloatArray:
        """Number to expect in each cell if all triplets had the chance q, shape (cells, len(q))."""
        return self.triplets * folded_pmf(self.kept, q)
