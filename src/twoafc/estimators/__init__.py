"""Estimators of P: settings with `fit(table)` give fits with `probability(d0, d1)`."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from twoafc.errors import DataError
from twoafc.estimators.density import Density, DensityFit
from twoafc.estimators.density_curve import DensityCurve
from twoafc.estimators.network import Network, NetworkFit
from twoafc.estimators.spline import Spline, SplineFit
from twoafc.estimators.spline_curve import SplineCurve
from twoafc.files import read_archive

__all__ = [
    "Curve",
    "Density",
    "DensityCurve",
    "DensityFit",
    "Estimator",
    "Fit",
    "Network",
    "NetworkFit",
    "Spline",
    "SplineCurve",
    "SplineFit",
    "Surface",
    "estimator",
    "load",
]


class Fit(Protocol):
    """What fitting gives: the chance of x1 as a function of d0 and d1, or that of "same" as a function of d."""

    @property
    def probability(self) -> Callable[..., NDArray[np.float64]]:
        """Chance of a vote for x1 (triplets, from d0 and d1) or "same" (pairs, from d)."""
        ...


class Estimator(Protocol):
    """What any estimator, a user's own too, must do."""

    def fit(self, table: Any) -> Fit:
        """Fit P to a table with one distance."""
        ...


Ours = Density | Network | Spline
Surface = DensityFit | NetworkFit | SplineFit
Curve = DensityCurve | SplineCurve
Loaded = Surface
CARRIED = "counts_"
"""How the names begin of arrays that a model carries beside its own: those of the counts that it was fitted to."""
SETTINGS: dict[str, Any] = {"auto": Spline, "density": Density, "network": Network, "spline": Spline}
AUTO = "auto is spline, whose own error is the smallest here wherever a distance says anything (docs/estimators.md)"
FITS: dict[str, Callable[[dict[str, Any], dict[str, NDArray[Any]]], Surface | Curve]] = {
    "density": DensityFit.restore,
    "network": NetworkFit.restore,
    "spline": SplineFit.restore,
    "pairs-density": DensityCurve.restore,
    "pairs-spline": SplineCurve.restore,
}


def estimator(name: str) -> Estimator:
    """Find an estimator by its name, or a user's own by ``package.module:Name``.

    Examples
    --------
    >>> estimator("density")
    Density(sigma=0.022727272727272728, grid_size=20, prior=0.001, sigma_along=None)
    """
    if name in SETTINGS:
        named: Estimator = SETTINGS[name]()
        return named
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise ValueError(f"no estimator {name!r}; there are {', '.join(SETTINGS)}, or your own as package.module:Name")
    # Looked for where the command is given, too, but last: a user's file must not stand in for a library.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"no estimator {name!r}; {error}") from error
    found = found() if isinstance(found, type) else found
    if not callable(getattr(found, "fit", None)):
        raise ValueError(f"an estimator needs a method fit(table); {name} has none")
    estimator: Estimator = found
    return estimator


def load(path: str | Path) -> Surface | Curve:
    """Read a saved model; a file that is not one, or was changed, is refused with a `DataError`."""
    name, settings, arrays = read_archive(path)
    if name not in FITS:
        raise DataError(f"{path} holds a model of kind {name!r}; this version reads {', '.join(FITS)}")
    missing = {field.name for field in dataclasses.fields(SETTINGS[name.removeprefix("pairs-")])} - set(settings)
    if missing:
        raise DataError(f"{path} is not a whole model; its settings have no {sorted(missing)[0]}")
    try:
        own = {key: each for key, each in arrays.items() if not key.startswith(CARRIED)}
        carried = {key: each for key, each in arrays.items() if key not in own}
        fit = FITS[name](settings, own)
        foreign = set(own) - set(fit.arrays())
        if foreign:
            raise DataError(f"{path} is not a usable model; it holds {sorted(foreign)[0]}, which no {name} model has")
        return fit if isinstance(fit, Curve) else dataclasses.replace(fit, carried=carried)
    except KeyError as error:
        raise DataError(f"{path} is not a whole model; it has no {error.args[0]}") from error
    except (TypeError, ValueError) as error:
        told = str(error)
        raise DataError(told if told.startswith(str(path)) else f"{path} is not a usable model; {told}") from error
