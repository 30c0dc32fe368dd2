"""Votes made ready for floors and ceilings: checked, told apart by M, and what they say of people's agreement."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from twoafc.arrays import IntArray
from twoafc.inference.dependence import Dependence
from twoafc.inference.mixture_votes import Histogram

# Numbers that the programmes identify, of one M and about so many of all together, and triplets that each must rest on:
# more make them slow, and hardly sharper.
NUMBERS, ALL_NUMBERS, TRIPLETS = 8, 60, 50


def checked(n: ArrayLike, M: ArrayLike) -> tuple[IntArray, IntArray]:
    """Refuse counts that are not votes."""
    n, M = np.asarray(n), np.asarray(M)
    if n.ndim != 1 or n.shape != M.shape or not n.size:
        raise ValueError(f"n and M must be two lists of equal length, not empty; found shapes {n.shape} and {M.shape}")
    wrong = ~((M >= 1) & (n >= 0) & (n <= M) & (n == np.round(n)) & (np.round(M) == M))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"n and M must be whole numbers with 0 <= n <= M and M >= 1; row {row} has n={n[row]}, M={M[row]} "
            f"({wrong.sum()} of {n.size} rows)"
        )
    return n.astype(np.int64), M.astype(np.int64)


def dependence_of(clusters: ArrayLike | Dependence | None, size: int) -> Dependence:
    """Make clusters, as an array of labels, the dependence that they are."""
    if clusters is None:
        return Dependence(size, (), "each triplet stands alone")
    if not isinstance(clusters, Dependence):
        labels = np.asarray(clusters)
        if labels.shape != (size,):
            raise ValueError(f"clusters must have one label per row, {(size,)}; found {labels.shape}")
        return Dependence(size, (np.unique(labels, return_inverse=True)[1],), "clustered")
    if clusters.size != size:
        raise ValueError(f"clusters must have one label per row, {(size,)}; found {(clusters.size,)}")
    return clusters


def by_number_of_votes(
    n: IntArray, M: IntArray, times: IntArray | None = None
) -> tuple[list[Histogram], list[IntArray]]:
    """Give one histogram for each M, with the rows it is made of; `times` says how many triplets each row is."""
    several, place = np.unique(M, return_inverse=True)
    triplets = np.bincount(place, times)
    most = min(NUMBERS, max(2, ALL_NUMBERS // len(several)))
    rows = [np.flatnonzero(each == M) for each in several]
    # By the numbers of triplets and of votes alone, never by what was voted.
    kept = [min(int(m), 2 * min(most, max(1, int(T) // TRIPLETS)) + 1) for m, T in zip(several, triplets, strict=True)]
    of_each = [None if times is None else times[at] for at in rows]
    made = [Histogram(int(m), k, n[at], t) for m, k, at, t in zip(several, kept, rows, of_each, strict=True)]
    return made, rows


def part(together: Dependence, rows: IntArray) -> Dependence:
    """Say which of some rows go together."""
    if together.count is not None or together.kinds:
        return together.at(rows)
    return Dependence(len(rows), (), together.told)


def people_agree(n: IntArray, M: IntArray, together: Dependence, *, pooled: bool = False) -> tuple[float, float]:
    """How often two people agree on a triplet, per cent, with its standard error: unbiased from M = 2 on.

    The mean over triplets, or over all pairs of votes (pooled).

    Examples
    --------
    >>> people_agree(np.array([1, 3, 1]), np.array([2, 3, 1]), Dependence(3, (), ""))[0]
    50.0
    >>> people_agree(np.array([1, 3, 1]), np.array([2, 3, 1]), Dependence(3, (), ""), pooled=True)[0]
    75.0
    """
    rows = np.flatnonzero(M > 1)
    if not len(rows):
        return float("nan"), float("nan")
    n, M, theirs = n[rows], M[rows], part(together, rows)
    pairs, times = M * (M - 1), theirs.times
    share = 100 * (n * (n - 1) + (M - n) * (M - n - 1)) / pairs
    weight = pairs / (pairs @ times) if pooled else np.full(len(rows), 1 / times.sum())
    mean = float((weight * times) @ share)
    variance = theirs.variance((weight * (share - mean))[:, None], weight)
    return mean, float(np.sqrt(variance[0, 0]))
