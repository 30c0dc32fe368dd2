"""Saved models of either kind, and questions to a curve."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from twoafc import estimators, modelfile
from twoafc.errors import DataError
from twoafc.estimators import SETTINGS, Loaded
from twoafc.jnd.curves import CURVES, FittedCurve
from twoafc.query import ask


def load(path: str | Path) -> Loaded | FittedCurve:
    """Read a saved model, of triplets or of pairs; a file that is not one, or was changed, is refused."""
    name, settings, arrays = modelfile.read(path)
    if name not in CURVES:
        return estimators.load(path)
    missing = {field.name for field in dataclasses.fields(SETTINGS[name.removeprefix("pairs-")])} - set(settings)
    if missing:
        raise DataError(f"{path} is not a whole model; its settings have no {sorted(missing)[0]}")
    try:
        fit = CURVES[name](settings, arrays)
    except KeyError as error:
        raise DataError(f"{path} is not a whole model; it has no {error.args[0]}") from error
    except (TypeError, ValueError) as error:
        raise DataError(f"{path} is not a usable model; {error}") from error
    foreign = set(arrays) - set(fit.arrays())
    if foreign:
        raise DataError(f"{path} is not a usable model; it holds {sorted(foreign)[0]}, which no {name} model has")
    return fit


@dataclasses.dataclass(frozen=True)
class _AtOne:
    """A curve as a function of two distances, of which the second is not looked at."""

    curve: FittedCurve

    def probability(self, d0: ArrayLike, d1: ArrayLike) -> Any:
        return self.curve.probability(d0)

    def standard_error(self, d0: ArrayLike, d1: ArrayLike) -> Any:
        return self.curve.standard_error(d0)


def ask_curve(fit: FittedCurve, d: float, votes: int, observed: int | None = None) -> dict[str, Any]:
    """Give P(same | d) with its standard error and, for each j = 0..M, its probability and NLL.

    Examples
    --------
    >>> from twoafc.estimators import Density
    >>> from twoafc.jnd.density import fit_density
    >>> from twoafc.jnd.pairs import Pairs
    >>> fit = fit_density(Density(), Pairs.from_frame({"n": [1, 1], "M": [2, 2], "d": [0.1, 0.2]}))
    >>> answer = ask_curve(fit, 0.1, votes=2)
    >>> answer["P"], [count["probability"] for count in answer["counts"]]
    (0.5, [0.25, 0.5, 0.25])
    """
    if not np.isfinite(d):
        raise ValueError(f"a distance must be finite; found d={d}")
    answer = ask(_AtOne(fit), d, d, votes, observed)
    return {"d": d, **{name: value for name, value in answer.items() if name not in ("d0", "d1")}}
