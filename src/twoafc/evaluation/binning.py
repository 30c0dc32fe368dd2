"""What counting in bins costs a fit: an estimate of its error, from the same fit on bins that are wider."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import FloatArray
from twoafc.core import Uniform
from twoafc.counted import CountedTriplets
from twoafc.estimators import Density, DensityFit, Network, SplineFit, Surface, fit_alike
from twoafc.evaluation.unresolved import Unresolved, unresolved

BLOCKS = 20
"""The plane of uniformised distances is looked at in so many blocks each way, those that hold triplets."""
FALL = 4
"""By so much an error that comes of the bend of a surface falls where bins are halved; one that is noise, by two."""

COARSE = 0.05
"""What a network's surface does not change much within."""


@dataclass(frozen=True)
class Binning:
    """The error that bins bring to P.

    Attributes
    ----------
    per_octave : int
        Bins for each doubling of the distance.
    bins : int
        Bins that hold distances of the training triplets.
    error_P : float
        Root mean square error of P over the training triplets, about.
    error_P_in_se : float or None
        The same in standard errors of P, place by place; None where the fit has none.
    largest_P, largest_P_in_se : float or None
        The largest errors of any place that has triplets: mostly those of a corner with few.
    widest : float
        The largest share of all distances that one bin holds, of bins that hold several values.
    beyond : float
        The share of all distances that are so small or large that the lattice has one bin for them.
    """

    per_octave: int
    bins: int
    error_P: float
    error_P_in_se: float | None
    largest_P: float
    largest_P_in_se: float | None
    widest: float
    beyond: float


def binning(fit: Surface, table: CountedTriplets) -> Binning:
    """Estimate the error that bins bring to a fit to counts: from wider bins, and from what the bins themselves hide.

    What the step from bins four times as wide to two changes, divided by `FALL`, and what that from two to one does
    bound the error about. So does the slope of P times what distances lie off the places that stand for them, where
    bins are so wide that wider ones would tell nothing. Of the three the largest is taken at every place.

    Examples
    --------
    >>> from twoafc import Density, Triplets, worlds
    >>> from twoafc.counts import tally
    >>> table = CountedTriplets.of(tally(Triplets.from_frame(worlds.simulate("weber", triplets=3000, votes=2))))
    >>> found = binning(Density().fit(table), table)
    >>> found.error_P < 0.01, found.error_P_in_se < 1
    (True, True)
    """
    axis = table.places.axis
    assert axis is not None
    hidden, places = unresolved(table, _scale(fit)), _looked_at(table)
    d0, d1, triplets = places.d0, places.d1, places.triplets
    error = np.maximum(_by_slope(fit, table, places, hidden), _by_widening(fit, table, d0, d1))
    told = _summed(error, triplets)
    in_se: tuple[float | None, float | None] = (None, None)
    if hasattr(fit, "standard_error"):
        se = fit.standard_error(d0, d1)
        # Where all lie in one bin some fits know of no error: then that of a mean of all votes.
        se = np.where(se > 0, se, 1 / (2 * np.sqrt(table.votes.M.sum())))
        in_se = _summed(error / se, triplets)
    beyond = hidden.share[(axis.bins == 1) | (axis.bins == axis.lattice.bins - 1)].sum()
    inside = (axis.lattice.per_octave, len(axis.bins))
    return Binning(
        *inside, told[0], in_se[0], told[1], in_se[1], float((hidden.share * hidden.several).max()), float(beyond)
    )


def _by_widening(fit: Surface, table: CountedTriplets, d0: FloatArray, d1: FloatArray) -> FloatArray:
    """Compare with the same fit on wider bins; 0 where there are none."""
    axis = table.places.axis
    assert axis is not None
    if axis.lattice.per_octave < 4:
        return np.zeros(d0.shape)
    wider = table.wider()
    P, of_two, of_four = (
        each.probability(d0, d1) for each in (fit, *(alike(fit, each) for each in (wider, wider.wider())))
    )
    return np.asarray(np.maximum(np.abs(P - of_two), np.abs(of_two - of_four) / FALL))


def _by_slope(fit: Surface, table: CountedTriplets, places: _Places, hidden: Unresolved) -> FloatArray:
    """Slope of P at every place times what distances there lie off: the fit's slope, or that of a bin's own votes."""
    U, squares, centre = table.uniform, np.zeros(places.d0.shape), (places.u0, places.u1)
    for axis, off in enumerate(places.means(hidden.off**2)):
        half = (_edge(_block(centre[axis]) + 1) - _edge(_block(centre[axis]))) / 2
        half = np.maximum(half, np.sqrt(off))
        ends = [_inverse(U, centre[axis] + each) for each in (-half, half)]
        other = U.inverse(centre[1 - axis])
        P = [fit.probability(*((d, other) if axis == 0 else (other, d))) for d in ends]
        step = U(ends[1]) - U(ends[0])
        squares += off * np.divide(P[1] - P[0], step, out=np.zeros(step.shape), where=step > 0) ** 2
    votes = sum(places.means((hidden.off * hidden.slope) ** 2))
    return np.asarray(np.minimum(np.sqrt(np.maximum(squares, votes)), 0.5))


def _inverse(uniform: Uniform, u: FloatArray) -> FloatArray:
    """Give the distances that map to u; beyond the first and the last level, such as go to 0 and to 1."""
    values, levels = uniform.values, uniform.levels
    outside = np.maximum(np.nextafter(values[0], 0), 0), np.nextafter(values[-1], np.inf)
    return np.where(u < levels[0], outside[0], np.where(u > levels[-1], outside[1], uniform.inverse(u)))


def _scale(fit: Surface) -> float:
    """Width on [0, 1] within which an estimator takes votes together."""
    if isinstance(fit, DensityFit):
        return float(fit.settings.sigma)
    return 1 / fit.settings.size if isinstance(fit, SplineFit) else COARSE


def _summed(error: FloatArray, triplets: FloatArray) -> tuple[float, float]:
    """Root mean square over the triplets, and the largest; 0 where all triplets are ties."""
    if not len(error):
        return 0.0, 0.0
    return float(np.sqrt(np.average(error**2, weights=triplets))), float(error.max())


def alike(fit: Surface, table: CountedTriplets) -> Surface:
    """Fit a table as another was, with what that fit chose by itself: another choice is no error of the bins."""
    if isinstance(fit, SplineFit):
        return fit_alike(fit, table)
    settings = fit.settings
    assert isinstance(settings, Density | Network)
    return settings.fit(table)


class _Places(NamedTuple):
    """Places with data: the mean of the triplets in each block of the plane that has any, and their number."""

    u0: FloatArray
    u1: FloatArray
    d0: FloatArray
    d1: FloatArray
    triplets: FloatArray
    means: Callable[[FloatArray], list[FloatArray]]
    """Of a value for each bin, the means over the triplets of a place: by the bin of d0, and by that of d1."""


def _block(u: FloatArray) -> NDArray[np.int64]:
    """Number of the block on one axis; blocks are narrower towards 0 and 1, where P is steep under a normal score."""
    return np.minimum((np.arcsin(np.sqrt(u)) * (2 * BLOCKS / np.pi)).astype(np.int64), BLOCKS - 1)


def _edge(block: NDArray[np.int64]) -> FloatArray:
    """Lower end of a block."""
    return np.asarray(np.sin(block * (np.pi / (2 * BLOCKS))) ** 2)


def _looked_at(table: CountedTriplets) -> _Places:
    """Choose places on the side d0 > d1: the other has the same errors by symmetry, and the diagonal has none."""
    uniform, axis = table.uniform, table.places.axis
    assert axis is not None
    u0, u1 = table.places.under(uniform)
    upper = u0 > u1
    high, low = np.maximum(u0, u1), np.minimum(u0, u1)
    i, j = _block(high), _block(low)
    block, count = i * BLOCKS + j, np.where(high > low, table.votes.triplets, 0)
    total = np.bincount(block, count, BLOCKS**2)
    used = total > 0

    def mean(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(block, count * values, BLOCKS**2)[used] / total[used])

    def means(values: FloatArray) -> list[FloatArray]:
        return [mean(values[np.where(upper == first, axis.i, axis.j)]) for first in (True, False)]

    u0, u1 = mean(high), mean(low)
    d0, d1 = uniform.inverse(u0), uniform.inverse(u1)
    # Where all lie in one bin the map has no inverse.
    one = d0 <= d1
    d0[one], d1[one] = (
        mean(each)[one]
        for each in (np.maximum(table.places.d0, table.places.d1), np.minimum(table.places.d0, table.places.d1))
    )
    return _Places(u0, u1, d0, d1, np.asarray(total[used], dtype=np.float64), means)
