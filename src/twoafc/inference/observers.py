"""What votes of one observer share: the variance that a score owes to who was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoafc.binomial import pmf_table
from twoafc.inference.dependence import FEWEST, Dependence, FloatArray, IntArray
from twoafc.triplets import Triplets

BoolArray = NDArray[np.bool_]
Score = Callable[[IntArray, IntArray, FloatArray], FloatArray]
"""Values of some triplets, one each, from n, M and P."""


@dataclass(frozen=True, eq=False)
class Ballots:
    """Single votes with their observers.

    Parameters
    ----------
    row : array of int, shape (votes,)
        Row of the table that the vote belongs to.
    chosen : array of bool, shape (votes,)
        Whether x1 of that row was chosen.
    observer : array of int, shape (votes,)
        Number of the observer.
    """

    row: IntArray
    chosen: BoolArray
    observer: IntArray

    def variance(
        self, moved: FloatArray, weight: FloatArray, rows: Dependence, strata: IntArray, count: int
    ) -> FloatArray:
        """Variance that votes of one observer on different images add to weighted means, shape (count, k).

        Parameters
        ----------
        moved : array, shape (2, T, k)
            What a vote for x0 and one for x1 moves each mean by: see `projection`.
        weight, strata, count
            Of the rows of the table, as for `Dependence.variance`.
        rows : Dependence
            How rows go together: pairs of votes on rows that do have been counted already.
        """
        influence = moved[self.chosen.astype(np.int64), self.row]
        share, stratum = weight[self.row] / np.bincount(self.row)[self.row], strata[self.row]
        together = Dependence(len(self.row), (self.observer,), "").variance(influence, share, stratum, count)
        apart = int(self.observer.max()) + 1
        both = rows.at(self.row).variance(influence, share, self.observer * count + stratum, apart * count)
        added: FloatArray = together - np.nansum(both.reshape(apart, count, -1), axis=0)
        return np.maximum(added, 0.0)

    def units(self, weight: FloatArray, strata: IntArray, count: int) -> FloatArray:
        """Effective number of observers in each stratum, shape (count,)."""
        share = weight[self.row] / np.bincount(self.row)[self.row]
        return Dependence(len(self.row), (self.observer,), "").units(share, strata[self.row], count)


def ballots(table: Triplets) -> Ballots | None:
    """Take the votes of a table whose observers are known; None where they are not, or fewer than six."""
    votes = table.votes
    if votes is None or "observer" not in votes.columns or votes["observer"].n_unique() < FEWEST:
        return None
    observer = votes["observer"].rank("dense").to_numpy().astype(np.int64) - 1
    chosen = votes["choice"].to_numpy().astype(np.bool_) ^ votes["swapped"].to_numpy()
    return Ballots(votes["row"].to_numpy(), chosen, observer)


def projection(score: Score, M: IntArray, P: FloatArray) -> FloatArray:
    """What one vote for x0, or one for x1, moves the expected score of its triplet by, shape (2, T).

    The other votes are Binomial(M - 1, P). Of a score that is not a sum over votes this is the part that is: Hajek's
    projection, which carries the covariance of triplets that share an observer.
    """
    P = np.clip(P, 1e-9, 1 - 1e-9)
    moved = np.empty((2, len(P)))
    for m in np.unique(M):
        rows = np.flatnonzero(m == M)
        p = P[rows]
        values = np.stack([score(np.full(len(rows), j), M[rows], p) for j in range(m + 1)], axis=1)
        others = pmf_table(int(m) - 1, p)
        without, with_ = np.sum(others * values[:, :-1], axis=1), np.sum(others * values[:, 1:], axis=1)
        mean = (1 - p) * without + p * with_
        moved[:, rows] = without - mean, with_ - mean
    return moved
