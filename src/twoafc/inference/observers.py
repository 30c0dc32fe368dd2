"""What votes of one observer share: the variance that a score owes to who was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.inference.dependence import Dependence
from twoafc.table import Votes

Score = Callable[[IntArray, IntArray, IntArray, FloatArray], FloatArray]
"""Values of some triplets, one each, from their rows, n, M and P."""


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

    @property
    def observers(self) -> int:
        """Number of observers."""
        return int(self.observer.max()) + 1

    def variance(
        self, moved: FloatArray, weight: FloatArray, rows: Dependence, strata: IntArray, count: int
    ) -> FloatArray:
        """Variance that votes of one observer on different images add to weighted means, shape (count, k).

        Parameters
        ----------
        moved : array, shape (votes, k)
            What each vote moves the mean by: see `moves`.
        weight, strata, count
            Of the rows of the table, as for `Dependence.variance`.
        rows : Dependence
            How rows depend on each other: pairs of votes on dependent rows have been counted already.
        """
        share, stratum = weight[self.row] / np.bincount(self.row)[self.row], strata[self.row]
        whole = np.bincount(stratum, share, minlength=count)
        mean = np.stack([np.bincount(stratum, column, minlength=count) for column in moved.T], axis=1)
        # A surface that is wrong for all observers alike is no difference between them.
        influence = moved - (share / whole[stratum])[:, None] * mean[stratum]
        by_observer = Dependence(len(self.row), (self.observer,), "").variance(influence, share, stratum, count)
        both = rows.at(self.row).products(influence, self.observer * count + stratum, self.observers * count)
        # Less than nothing is added by chance alone.
        return np.asarray(np.maximum(by_observer - both.reshape(self.observers, count, -1).sum(axis=0), 0.0))

    def units(self, weight: FloatArray, strata: IntArray, count: int) -> FloatArray:
        """Effective number of observers in each stratum, shape (count,)."""
        share = weight[self.row] / np.bincount(self.row)[self.row]
        return Dependence(len(self.row), (self.observer,), "").units(share, strata[self.row], count)


def ballots(table: Votes) -> Ballots | None:
    """Take the votes of a table whose observers are known; None where they are not, or there is one."""
    votes = table.votes
    if votes is None or "observer" not in votes.columns or votes["observer"].n_unique() < 2:
        return None
    observer = votes["observer"].rank("dense").to_numpy().astype(np.int64) - 1
    chosen = votes["choice"].to_numpy().astype(np.bool_) ^ votes["swapped"].to_numpy()
    return Ballots(votes["row"].to_numpy(), chosen, observer)


def moves(score: Score, ballots: Ballots, n: IntArray, M: IntArray, P: FloatArray) -> FloatArray:
    """What each vote moves the score of its triplet by, shape (votes,): (y - P) times the score with it less without.

    The other votes are as they were cast. Of a score that is not a sum over votes the mean of this over them is the
    part that is (Hajek's projection), which carries the covariance of triplets that share an observer.
    """
    row = ballots.row
    p = np.clip(P, 1e-9, 1 - 1e-9)
    others = n[row] - ballots.chosen
    gain = score(row, others + 1, M[row], p[row]) - score(row, others, M[row], p[row])
    return np.asarray((ballots.chosen - p[row]) * gain)
