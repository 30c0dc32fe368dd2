"""Normal scores of distances, by a smooth map: the axis on which a spline is fitted."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from twoafc.arrays import FloatArray
from twoafc.uniform import Uniform

STEP, REACH = 0.5, 3.0
"""Knots of the map, in normal scores."""


class NormalScores:
    """z(d), increasing and smooth: the distribution function's normal score at a few knots, and a curve through them.

    The exact distribution function is rough, with the noise of every training distance in it; choices that depend
    smoothly on d would depend roughly on it, and no smooth surface could follow. The map need only spread the distances
    well: any bend that it leaves, the surface takes up.

    Examples
    --------
    >>> d = np.exp(np.random.default_rng(0).normal(size=2000))
    >>> z = NormalScores(Uniform.learn(d[:1000], d[1000:]))
    >>> z(np.exp([-1.0, 0.0, 1.0])).round(1)
    array([-1.,  0.,  1.])
    """

    def __init__(self, uniform: Uniform) -> None:
        self.uniform = uniform

    @property
    def peak(self) -> float:
        """The largest distance, by which all are divided first: differences of huge ones would not fit in a float."""
        return float(np.abs(self.uniform.values[[0, -1]]).max()) or 1.0

    @cached_property
    def knots(self) -> tuple[FloatArray, FloatArray]:
        """Distances and their normal scores, both increasing: those training values that come nearest to even steps."""
        levels = self.uniform.levels
        wanted = ndtr(np.arange(-REACH, REACH + STEP / 2, STEP))
        place = np.unique(np.clip(np.searchsorted(levels, wanted), 0, len(levels) - 1))
        values, scores = self.uniform.values[place], ndtri(levels[place])
        # Two values that only rounding keeps apart would make a cliff between them.
        x = values / self.peak
        apart = np.diff(x, prepend=-np.inf) > 1e-9 * (x[-1] - x[0])
        return values[apart], scores[apart]

    def __call__(self, d: ArrayLike) -> FloatArray:
        """Normal scores of distances of any shape; outside the training range, those of its ends."""
        # Here, because it brings scipy.optimize along, which takes longer than the rest of the package.
        from scipy.interpolate import PchipInterpolator

        values, scores = self.knots
        d = np.clip(np.asarray(d, dtype=np.float64), self.uniform.values[0], self.uniform.values[-1]) / self.peak
        values = values / self.peak
        span = values[-1] - values[0]
        if span < np.finfo(np.float64).tiny:
            return np.full(d.shape, scores.mean())
        x, places = (d - values[0]) / span, (values - values[0]) / span
        curve = PchipInterpolator(places, scores)
        inside = np.clip(x, 0.0, 1.0)
        straight = curve(inside) + (x - inside) * curve.derivative()(np.where(x < inside, 0.0, 1.0))
        least, most = ndtri(self.uniform.levels[[0, -1]])
        return np.asarray(np.clip(straight, min(least, scores[0]), max(most, scores[-1])))
