"""Estimators of P(same | d): the settings that fit surfaces to triplets fit curves to pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoafc.estimators import Density, Network, Spline
from twoafc.jnd.density import KIND as OF_DENSITY
from twoafc.jnd.density import DensityCurve, fit_density
from twoafc.jnd.pairs import Pairs
from twoafc.jnd.spline import KIND as OF_SPLINE
from twoafc.jnd.spline import SplineCurve, fit_spline


class Curve(Protocol):
    """What fitting pairs gives: the chance of "same" as a function of the distance."""

    def probability(self, d: ArrayLike) -> NDArray[np.float64]:
        """Chance of "same"."""
        ...


FittedCurve = DensityCurve | SplineCurve
CURVES: dict[str, Callable[[Mapping[str, Any], Mapping[str, NDArray[Any]]], FittedCurve]] = {
    OF_DENSITY: DensityCurve.restore,
    OF_SPLINE: SplineCurve.restore,
}
"""Kinds of saved models that are curves, and what reads them."""


def fit_curve(table: Pairs, estimator: Any) -> Curve:
    """Fit P(same | d) to pairs with one distance.

    Parameters
    ----------
    table : Pairs
        With one distance.
    estimator : Density, Spline, or your own with a method ``fit_pairs(table)``
        The settings mean what they mean for triplets: sigma and grid_size on the uniformised distance, size and link.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> d = rng.random(2000)
    >>> table = Pairs.from_frame({"n": rng.binomial(3, 1 - d), "M": [3] * 2000, "d": d})
    >>> fit_curve(table, Spline()).probability([0.2, 0.8]).round(1)
    array([0.8, 0.2])
    """
    if isinstance(estimator, Density):
        return fit_density(estimator, table)
    if isinstance(estimator, Spline):
        return fit_spline(estimator, table)
    if isinstance(estimator, Network):
        raise ValueError("network has no form for pairs; use density or spline")
    if not callable(getattr(estimator, "fit_pairs", None)):
        raise ValueError(f"an estimator of pairs needs a method fit_pairs(table); {estimator!r} has none")
    curve: Curve = estimator.fit_pairs(table)
    return curve
