"""How far a distance may lie, on [0, 1], from where its bin puts it: what bins hide that are too wide to be compared.

Wider bins show what bins cost only as long as there is something left to lose: once most distances lie in one bin,
wider ones give the same fit. So the bins themselves are looked at too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import FloatArray
from twoafc.counted import CountedTriplets
from twoafc.places import Axis

EXPECTED = 3
"""Pairs in one bin that tell what it holds: as many that are no ties, several values; as many due, and none, one."""


class Unresolved(NamedTuple):
    """What each bin in use hides, shape (B,) each.

    ``share`` is the part of all distances that it holds, the less the more of them are one value; ``off`` how far
    these lie from where the bin puts them, on [0, 1], root mean square; ``slope`` that of P which its own votes show.
    ``several`` tells the bins whose own pairs show that they hold several values.
    """

    share: FloatArray
    off: FloatArray
    slope: FloatArray
    several: NDArray[np.bool_]


def unresolved(table: CountedTriplets, scale: float) -> Unresolved:
    """Look at the bins of a table.

    Parameters
    ----------
    scale : float
        Width on [0, 1] below which the estimator smooths, so that it does not matter how distances lie.

    Examples
    --------
    >>> from twoafc import Triplets
    >>> from twoafc.counts import tally
    >>> votes = {"n": [1, 2, 2], "M": [2, 2, 2], "d0": [1.0001, 1.0003, 3.0], "d1": [1.0002, 1.0001, 3.0]}
    >>> found = unresolved(CountedTriplets.of(tally(Triplets.from_frame(votes))), 0.02)
    >>> found.share.round(2), found.off.round(2)
    (array([0.67, 0.  ]), array([0.19, 0.  ]))
    """
    axis, votes = table.places.axis, table.votes
    assert axis is not None
    size, same = len(axis.bins), axis.i == axis.j
    held0, held1 = (np.bincount(each, votes.triplets, size) for each in (axis.i, axis.j))
    within, apart = (np.bincount(axis.i[some], votes.triplets[some], size) for some in (same, axis.apart))
    # Of K values alike in number one pair in K is a tie.
    few = held0 * held1 / votes.triplets.sum() < EXPECTED
    ties = 1 - np.divide(apart, within, out=np.where(few, 1.0, 0.0), where=within > 0)
    share = (held0 + held1) / (2 * votes.triplets.sum())
    several = np.where(axis.single, 0.0, share * np.sqrt((1 - ties**2) / 12))
    hidden = np.minimum(np.maximum(_unevenness(axis, share), (share / (2 * scale)) ** 2), 1)
    # Where distances end the map does too: all beyond go to 0 or 1, twice as far off.
    outer = np.where((axis.bins == 1) | (axis.bins == axis.lattice.bins - 1), 2, 1)
    off = np.hypot(several * hidden * outer, ties * _single(axis, share))
    share_apart = np.where(axis.single, 0.0, share * np.sqrt(1 - ties**2))
    return Unresolved(share_apart, off, _slopes(table, share), apart >= EXPECTED)


def _single(axis: Axis, share: FloatArray) -> FloatArray:
    """How far off one value is that lies anywhere in its bin: the less, the further away the next bins in use are.

    The map jumps beside a bin that towers over the others. Where its value is known it is not off at all; else it may
    be taken for what comes before or after.
    """
    width = np.where(axis.bins > 0, np.diff(axis.lattice.edges)[axis.bins], 0.0).clip(max=np.finfo(np.float64).max)
    steep = np.zeros(len(share) + 1)
    steep[1:-1] = (share[:-1] + share[1:]) / 2 / np.diff(axis.d)
    anywhere = np.minimum(width * np.maximum(steep[:-1], steep[1:]), share) / np.sqrt(12)
    return np.where(axis.known, 0.0, np.where(axis.single, share / 2, anywhere))


def _unevenness(axis: Axis, share: FloatArray) -> FloatArray:
    """How unevenly each bin may be filled, from 0 to 1: as its neighbours differ from it.

    A bin that is filled evenly moves nothing, for the map is linear from bin to bin. Those at the ends of the lattice,
    and those beside an empty one, may be filled in any way.
    """
    lattice = axis.lattice
    dense = np.zeros(lattice.bins + 2)
    dense[axis.bins + 1] = share / np.diff(lattice.edges)[axis.bins].clip(np.finfo(np.float64).tiny)
    own, below, above = (dense[axis.bins + k] for k in (1, 0, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        step = np.maximum(np.abs(own - below), np.abs(own - above)) / own
    step[(axis.bins <= 1) | (axis.bins == lattice.bins - 1)] = 1.0
    return np.asarray(step / 2 + step**2)


def _slopes(table: CountedTriplets, share: FloatArray) -> FloatArray:
    """Slope of P across each bin, from the votes on triplets that lie in it with both distances: 0 where noise is more.

    Were P - 1/2 proportional to the difference of the two, its mean over a bin would be a third of what it is across.
    """
    axis, votes = table.places.axis, table.votes
    assert axis is not None
    upper = table.places.d0 > table.places.d1
    turned = np.where(upper, votes.n - votes.M / 2, votes.M / 2 - votes.n)
    sums = [np.bincount(axis.i[axis.apart], each[axis.apart], len(share)) for each in (turned, votes.M, votes.MM)]
    surplus = np.maximum(sums[0] - np.sqrt(sums[2]), 0.0)
    return np.asarray(np.divide(3 * surplus, sums[1] * share, out=np.zeros(len(share)), where=sums[1] > 0))
