"""What counting in bins costs a fit: an estimate of its error, from the same fit on bins that are wider."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twoafc.counted import CountedTriplets
from twoafc.counts import Counts
from twoafc.estimators import Density, Loaded, Network, Spline, SplineFit

FloatArray = NDArray[np.float64]

BLOCKS = 20
"""The plane of uniformised distances is looked at in so many blocks each way, those that hold triplets."""
FALL = 4
"""By so much an error that comes of the bend of a surface falls where bins are halved; one that is noise, by two."""


@dataclass(frozen=True)
class Binning:
    """The error that bins bring to P.

    Attributes
    ----------
    per_octave : int
        Bins for each doubling of the distance.
    bins : int
        Bins that hold distances of the training triplets.
    error_P : float or None
        Root mean square error of P over the training triplets, about; None where the bins cannot be made wider.
    error_P_in_se : float or None
        The same in standard errors of P, place by place; None where the fit has none.
    largest_P, largest_P_in_se : float or None
        The largest errors of any place that has triplets: mostly those of a corner with few.
    """

    per_octave: int
    bins: int
    error_P: float | None = None
    error_P_in_se: float | None = None
    largest_P: float | None = None
    largest_P_in_se: float | None = None


def binning(fit: Loaded, counts: Counts, table: CountedTriplets) -> Binning:
    """Estimate the error that bins bring to a fit to counts, by fitting bins twice and four times as wide.

    What the step from four to two changes, divided by `FALL`, and what that from two to one does bound the error about:
    two independent estimates, of which the larger is taken at every place.

    Examples
    --------
    >>> from twoafc import Density, Triplets, worlds
    >>> from twoafc.counts import tally
    >>> counts = tally(Triplets.from_frame(worlds.simulate("weber", triplets=3000, votes=2)))
    >>> table = CountedTriplets.of(counts)
    >>> found = binning(Density().fit(table), counts, table)
    >>> found.error_P < 0.01, found.error_P_in_se < 1
    (True, True)
    """
    held = np.union1d(counts.cells["bin0"].unique().to_numpy(), counts.cells["bin1"].unique().to_numpy())
    if counts.lattice.per_octave < 4:
        return Binning(counts.lattice.per_octave, len(held))
    d0, d1, triplets = _places(table)
    # References matter to a spline alone, which finds in them how much votes vary.
    wider = (counts if isinstance(fit, SplineFit) else replace(counts, clusters=None)).coarser()
    P, of_two, of_four = (
        each.probability(d0, d1)
        for each in (fit, *(_same(fit).fit(CountedTriplets.of(each)) for each in (wider, wider.coarser())))
    )
    error = np.maximum(np.abs(P - of_two), np.abs(of_two - of_four) / FALL)
    told = _summed(error, triplets)
    in_se: tuple[float | None, float | None] = (None, None)
    if hasattr(fit, "standard_error"):
        se = fit.standard_error(d0, d1)
        in_se = _summed(np.divide(error, se, out=np.zeros(error.shape), where=se > 0), triplets)
    return Binning(counts.lattice.per_octave, len(held), told[0], in_se[0], told[1], in_se[1])


def _summed(error: FloatArray, triplets: FloatArray) -> tuple[float, float]:
    """Root mean square over the triplets, and the largest; 0 where all triplets are ties."""
    if not len(error):
        return 0.0, 0.0
    return float(np.sqrt(np.average(error**2, weights=triplets))), float(error.max())


def _same(fit: Loaded) -> Density | Network | Spline:
    """Settings of a fit with what it chose by itself: another choice is no error of the bins."""
    return replace(fit.settings, link=fit.link) if isinstance(fit, SplineFit) else fit.settings  # type: ignore[arg-type]


def _places(table: CountedTriplets) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Places with data: the mean of the triplets in each block of the plane that has any; and their number.

    All are on the side d0 > d1: the other has the same errors by symmetry, and the diagonal has none.
    """
    uniform, u0, u1 = table.uniformised()
    high, low = np.maximum(u0, u1), np.minimum(u0, u1)
    i, j = (np.minimum((u * BLOCKS).astype(np.int64), BLOCKS - 1) for u in (high, low))
    block, count = i * BLOCKS + j, np.where(high > low, table.count, 0)
    total = np.bincount(block, count, BLOCKS**2)
    used = total > 0
    means = [np.bincount(block, count * u, BLOCKS**2)[used] / total[used] for u in (high, low)]
    return uniform.inverse(means[0]), uniform.inverse(means[1]), np.asarray(total[used], dtype=np.float64)
