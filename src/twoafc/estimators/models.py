"""What estimators and their fits have in common: their protocols, their names, and saved models."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from twoafc.arrays import FloatArray
from twoafc.errors import DataError
from twoafc.estimators.density import Density, DensityCurve, DensityFit
from twoafc.estimators.network import Network, NetworkFit
from twoafc.estimators.spline import Spline, SplineCurve, SplineFit
from twoafc.files import read_archive


class Fit(Protocol):
    """What an estimator returns: the chance of a vote for x1 given d0 and d1, or for "same" given d."""

    @property
    def probability(self) -> Callable[..., FloatArray]:
        """Chance of a vote for x1 (triplets, from d0 and d1) or "same" (pairs, from d)."""
        ...


class Estimator(Protocol):
    """What any estimator, including a user's own, must provide."""

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
FITS: dict[str, type[Surface | Curve]] = {
    fit.kind: fit for fit in (DensityFit, NetworkFit, SplineFit, DensityCurve, SplineCurve)
}


def estimator(name: str) -> Estimator:
    """Return the estimator of a name with its usual settings, or a user's own by ``package.module:Name``.

    Examples
    --------
    >>> estimator("density")
    Density(sigma=0.022727272727272728, grid_size=20, prior=0.001)
    """
    if name in SETTINGS:
        named: Estimator = SETTINGS[name]()
        return named
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise ValueError(f"no estimator {name!r}; there are {', '.join(SETTINGS)}, or your own as package.module:Name")
    # The working folder is searched too, but last: a user's file must not replace a library.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        own = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"no estimator {name!r}; {error}") from error
    settings: Estimator = own() if isinstance(own, type) else own
    if not callable(getattr(settings, "fit", None)):
        raise ValueError(f"an estimator needs a method fit(table); {name} has none")
    return settings


def load(path: str | Path) -> Surface | Curve:
    """Read a saved model; a file that is not one, or was changed, is refused with a `DataError`."""
    name, settings, arrays = read_archive(path)
    if name not in FITS:
        raise DataError(f"{path} holds a model of kind {name!r}; this version reads {', '.join(FITS)}")
    missing = {field.name for field in dataclasses.fields(SETTINGS[name.removeprefix("pairs-")])} - set(settings)
    if missing:
        raise DataError(f"{path} is not a whole model; its settings have no {sorted(missing)[0]}")
    try:
        own = {key: array for key, array in arrays.items() if not key.startswith(CARRIED)}
        carried = {key: array for key, array in arrays.items() if key not in own}
        fit = FITS[name].restore(settings, own)
        foreign = set(own) - set(fit.arrays())
        if foreign:
            raise DataError(f"{path} is not a usable model; it holds {sorted(foreign)[0]}, which no {name} model has")
        return dataclasses.replace(fit, carried=carried)
    except KeyError as error:
        raise DataError(f"{path} is not a whole model; it has no {error.args[0]}") from error
    except (TypeError, ValueError) as error:
        message = str(error)
        named = message.startswith(str(path))
        raise DataError(message if named else f"{path} is not a usable model; {message}") from error
