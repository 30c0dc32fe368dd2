"""What estimators and their fits have in common: their protocols, their names, and saved models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from numpy.typing import NDArray

from twoafc.arrays import FloatArray
from twoafc.errors import DataError, import_named
from twoafc.estimators.density import Density, DensityFit
from twoafc.estimators.fusion import FusionFit
from twoafc.estimators.heads import HeadsFit
from twoafc.estimators.network import Network, NetworkFit
from twoafc.estimators.saved import Model
from twoafc.estimators.spline import Spline, SplineFit
from twoafc.files import read_archive


class Fit(Protocol):
    """What an estimator returns: the chance of a vote for x1 given d0 and d1, or for "same" given d."""

    @property
    def probability(self) -> Callable[..., FloatArray]:
        """Chance of a vote for x1 (triplets, from d0 and d1) or "same" (pairs, from d)."""
        ...


class Estimator(Protocol):
    """What any estimator, including a user's own, must provide.

    Optional attributes: ``training_noise`` and ``crossed_rows``, up to which training tables their noise counts
    (`twoafc.evaluation.halves`; None: it is not estimated), ``takes_counts`` (`CountsEstimator`) and ``seed``. A fit
    may have ``standard_error(*d)``, ``diverged``, and ``chosen_settings``, which refits to parts of the table use.
    """

    def fit(self, table: Any) -> Fit:
        """Fit P to a table with one distance."""
        ...


@runtime_checkable
class CountsEstimator(Protocol):
    """An estimator that honours `table.count`, and so can be fitted to counts: a dataclass of settings."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    takes_counts: ClassVar[Literal[True]]

    def fit(self, table: Any) -> Model:
        """Fit P to a table with one distance."""
        ...


SETTINGS: dict[str, type[CountsEstimator]] = {"auto": Spline, "density": Density, "network": Network, "spline": Spline}
"""Estimators by name."""
READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, NDArray[Any]]], Model]] = {
    "density": DensityFit.restore,
    "fused": FusionFit.restore,
    "heads": HeadsFit.restore,
    "network": NetworkFit.restore,
    "spline": SplineFit.restore,
    "pairs-density": DensityFit.restore,
    "pairs-spline": SplineFit.restore,
}
"""Functions that restore a fit from the settings and arrays of a saved model, by its kind: NAME, or pairs-NAME."""
AUTO = "auto is a smoothing spline; in simulations its P was nearest to the truth (docs/estimators.md)"
CARRIED = "counts_"
"""Prefix of the arrays of the counts that a model was fitted to."""


def estimator(name: str) -> Estimator:
    """Return the estimator of a name with its usual settings, or a user's own by ``package.module:Name``.

    Examples
    --------
    >>> estimator("density")
    Density(sigma=0.022727272727272728, grid_size=20, prior=0.001)
    """
    if name in SETTINGS:
        return SETTINGS[name]()
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise ValueError(f"no estimator {name!r}; there are {', '.join(SETTINGS)}, or your own as package.module:Name")
    own = import_named(name, f"no estimator {name!r}")
    settings: Estimator = own() if isinstance(own, type) else own
    if not callable(getattr(settings, "fit", None)):
        raise ValueError(f"an estimator needs a method fit(table); {name} has none")
    return settings


def load(path: str | Path) -> Model:
    """Read a saved model; a file that is not one, or was changed, is refused with a `DataError`."""
    name, settings, arrays = read_archive(path)
    if name not in READERS:
        if name == "counts":
            raise DataError(f"{path} contains counts, not a model: evaluate them first (twoafc evaluate)")
        raise DataError(f"{path} contains a model of kind {name!r}; this version reads {', '.join(READERS)}")
    own = {key: array for key, array in arrays.items() if not key.startswith(CARRIED)}
    carried = {key: array for key, array in arrays.items() if key not in own}
    try:
        return dataclasses.replace(READERS[name](settings, own), carried=carried)
    except (KeyError, TypeError, ValueError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        raise DataError(f"{path} is not a usable model; {why}") from error
