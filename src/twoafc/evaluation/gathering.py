"""Rows of counts that score alike taken together, so that millions of them are scored as some thousands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import blocks_of
from twoafc.counted import CountedTriplets

STEPS = 128
"""Levels of P for each unit of its logit."""
REACH = 24
"""Logits up to which P has levels; beyond them it is next to 0 or 1."""
LEVELS = 2 * REACH * STEPS + 3
MOST = 2**22
"""Places of an array that sums are made in; where it would be larger, rows are sorted."""


def gathered(table: CountedTriplets, P: FloatArray) -> tuple[CountedTriplets, FloatArray]:
    """Take rows together that have the same n, M, group, sign of d0 - d1 and most likely count, and nearly the same P.

    A score is either the same for all of them or a smooth function of P: at their mean P it is the mean of theirs to
    within M times 1e-6. Chances of exactly 0, 1/2 and 1 stay apart.

    Parameters
    ----------
    P : array, shape (K,)
        At the places of the table.

    Examples
    --------
    >>> from twoafc import Density, Triplets, worlds
    >>> from twoafc.counts import tally
    >>> table = CountedTriplets.of(tally(Triplets.from_frame(worlds.simulate("weber", triplets=3000, votes=2))))
    >>> fit = Density(sigma=0.1).fit(table)
    >>> fewer, P = gathered(table, fit.probability(table.places.d0, table.places.d1))
    >>> len(fewer) < len(table), fewer.count.sum()
    (True, np.int64(3000))
    """
    at = _levels(P) * 3 + np.sign(table.places.d0 - table.places.d1).astype(np.int64) + 1
    kinds = table.kinds.row
    size = len(kinds) * 6 * LEVELS
    if size <= MOST:
        count, total, place = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int32)
        for some in blocks_of(len(table)):
            code, weight = _keys(table, P, at, some), table.count[some].astype(np.float64)
            np.add.at(count, code, weight)
            np.add.at(total, code, weight * P[table.place[some]])
            place[code] = table.place[some]
        held = np.flatnonzero(count)
        count, total, place = count[held], total[held], place[held]
    else:
        codes = np.concatenate([_keys(table, P, at, some) for some in blocks_of(len(table))])
        held, first, code = np.unique(codes, return_index=True, return_inverse=True)
        weights = (table.count, table.count * P[table.place])
        count, total = (np.asarray(np.bincount(code, each), dtype=np.float64) for each in weights)
        place = table.place[first]
    row = kinds[held // (6 * LEVELS)]
    groups = None if table.groups is None else (table.groups[0], table.groups[1][row])
    fewer = replace(table, place=place, n=table.n[row], M=table.M[row], count=count.astype(np.int64), groups=groups)
    # Where a mean leaves its kind by a rounding, one of those that it is of stands for it.
    one, mean = P[place], total / count
    left = (one == 0) | (one == 0.5) | (one == 1)
    left |= np.floor((fewer.M + 1) * one) != np.floor((fewer.M + 1) * mean)
    return fewer, np.where(left, one, mean)


def _levels(P: FloatArray) -> IntArray:
    """Number of each chance's level: even steps of its logit; 0, 1/2 and 1 have levels of their own."""
    with np.errstate(divide="ignore"):
        logit = np.log(P / (1 - P))
    level = np.clip(np.floor((logit + REACH) * STEPS), 0, 2 * REACH * STEPS - 1).astype(np.int64) + 1
    level[P == 0] = 0
    level[P == 0.5] = LEVELS - 1
    level[P == 1] = LEVELS - 2
    return np.asarray(level)


def _keys(table: CountedTriplets, P: FloatArray, at: IntArray, some: slice) -> IntArray:
    """Give the keys of some rows.

    Of the most likely count the last bit says enough: a level of P is narrower than the step from one to the next.
    """
    place = table.place[some]
    odd = ((table.M[some] + 1) * P[place]).astype(np.int64) & 1
    return np.asarray((table.kinds.number[some].astype(np.int64) * (3 * LEVELS) + at[place]) * 2 + odd)
