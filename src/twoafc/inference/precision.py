"""The field's score of pairs: average precision of "same" where pairs are taken in the order of their distance.

Zhang et al. (2018) count a pair as "same" by the share n/M of its votes, each pair once whatever its M, and take the
area under the envelope of precision over recall (the rule of the VOC challenge since 2010). Pairs at the same distance
cannot be put in order by it, so they enter together: precision is taken where a distance ends, never between pairs that
share one. The value then does not depend on the order of the rows, and a constant distance has the mean share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from twoafc.arrays import FloatArray, IntArray


def average_precision(n: ArrayLike, M: ArrayLike, d: ArrayLike) -> float:
    """Average precision of "same" by rising distance, in %; NaN where nobody said "same".

    Examples
    --------
    >>> round(average_precision(n=[3, 0, 3, 0], M=[3, 3, 3, 3], d=[0.1, 0.2, 0.3, 0.4]), 2)
    83.33
    >>> average_precision(n=[3, 0, 3, 0], M=[3, 3, 3, 3], d=[1, 1, 1, 1])
    50.0
    """
    share = np.asarray(n, dtype=np.float64) / np.asarray(M)
    return Ranking.by(d).average_precision(share)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Pairs in the order of a distance."""

    order: IntArray  # the pairs, nearest first, shape (T,)
    ends: IntArray  # place of the last pair at each of the K distinct distances, shape (K,)
    weight: FloatArray | None = None  # how many times each pair counts, shape (T,); default once

    @classmethod
    def by(cls, d: ArrayLike, weight: FloatArray | None = None) -> Ranking:
        """Rank pairs by their distance."""
        d = np.asarray(d, dtype=np.float64)
        order = np.argsort(d, kind="stable")
        ordered = d[order]
        return cls(order, np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)), weight)

    def average_precision(self, share: FloatArray) -> float:
        """Average precision in %."""
        hits, envelope, steps, _ = self._curve(share)
        return float(100 * steps @ envelope) if hits[-1] > 0 else float("nan")

    def _curve(self, share: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Up to each distinct distance: "same" found, best precision from there on, recall gained, pairs taken."""
        weight = np.ones(len(self.order)) if self.weight is None else self.weight[self.order]
        hits = np.cumsum(share[self.order] * weight)[self.ends]
        taken = np.cumsum(weight)[self.ends]
        precision = np.divide(hits, taken, out=np.zeros_like(hits), where=taken > 0)
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        return hits, envelope, np.diff(hits, prepend=0.0) / max(hits[-1], np.finfo(np.float64).tiny), taken

    def influence(self, share: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How the average precision moves, in %, with a pair's weight and with its share of "same".

        Moving a pair moves the recall gained at its distance, and the precision at every later place where the envelope
        is attained; where that is does not move to first order. Derivatives by the weight of each pair have a weighted
        sum of 0; those by its share n/M are for a weight of 1.
        """
        hits, envelope, steps, taken = self._curve(share)
        if not hits[-1] > 0:
            return np.full(len(share), np.nan), np.full(len(share), np.nan)
        precision = hits / taken
        # The envelope at k is the precision at the first place from k on that attains it.
        places = np.where(precision == envelope, np.arange(len(hits)), len(hits))
        attained = np.minimum.accumulate(places[::-1])[::-1]
        resting = np.bincount(attained, steps, len(hits)) / taken
        later = np.cumsum(resting[::-1])[::-1]
        drawn = np.cumsum((resting * precision)[::-1])[::-1]
        place = np.repeat(np.arange(len(hits)), np.diff(self.ends, prepend=-1))
        gain = ((envelope - steps @ envelope) / hits[-1] + later)[place]
        by_share, by_weight = np.empty(len(share)), np.empty(len(share))
        by_share[self.order] = 100 * gain
        by_weight[self.order] = 100 * (share[self.order] * gain - drawn[place])
        return by_weight, by_share

    @property
    def total(self) -> float:
        """Sum of the weights; the number of pairs where there are none."""
        return len(self.order) if self.weight is None else float(self.weight.sum())

    @property
    def repeats(self) -> FloatArray:
        """1 for each pair whose distance an earlier pair has, else 0, shape (T,)."""
        again = np.ones(len(self.order))
        again[self.order[np.concatenate([[0], self.ends[:-1] + 1])]] = 0.0
        return again

    def values(self, share: FloatArray) -> FloatArray:
        """One value per pair whose mean is the average precision, and whose spread gives its error, shape (T,)."""
        return self.average_precision(share) + self.total * self.influence(share)[0]
