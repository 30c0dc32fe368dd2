"""Score perceptual distances on two-alternative forced-choice (2AFC) votes, by likelihood.

>>> import twoafc
>>> train = twoafc.Triplets.from_frame(twoafc.worlds.simulate("weber", triplets=5000, votes=2, seed=1))
>>> test = twoafc.Triplets.from_frame(twoafc.worlds.simulate("weber", triplets=1000, votes=5, seed=2))
>>> P = twoafc.Density().fit(train).probability(test.d0, test.d1)
>>> round(twoafc.metrics.nll(test.n, test.M, P), 2)
1.13
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twoafc import datasets, fetch, metrics, planning, plots, reproduce, worlds
    from twoafc.diagnostics import Finding, check
    from twoafc.distances import distance
    from twoafc.errors import DataError
    from twoafc.estimators import Density, Fusion, Network, Spline, load
    from twoafc.evaluation import Settings, evaluate, fuse
    from twoafc.measurement import check_distance, measure
    from twoafc.planning import gate
    from twoafc.results import Result
    from twoafc.scale import Counts, count
    from twoafc.table import Pairs, Triplets, join_columns

__version__ = "0.1.0"
__all__ = [
    "Counts",
    "DataError",
    "Density",
    "Finding",
    "Fusion",
    "Network",
    "Pairs",
    "Result",
    "Settings",
    "Spline",
    "Triplets",
    "check",
    "check_distance",
    "count",
    "datasets",
    "distance",
    "evaluate",
    "fetch",
    "fuse",
    "gate",
    "join_columns",
    "load",
    "measure",
    "metrics",
    "planning",
    "plots",
    "reproduce",
    "worlds",
]

# Not among these is "torch": `from twoafc import *` must not hide the library of that name.

# Found on first use, so that `import twoafc` is quick whatever the rest needs.
_HOMES = {
    "Counts": "twoafc.scale",
    "DataError": "twoafc.errors",
    "Density": "twoafc.estimators",
    "Finding": "twoafc.diagnostics",
    "Fusion": "twoafc.estimators",
    "Network": "twoafc.estimators",
    "Pairs": "twoafc.table",
    "Result": "twoafc.results",
    "Settings": "twoafc.evaluation",
    "Spline": "twoafc.estimators",
    "Triplets": "twoafc.table",
    "check": "twoafc.diagnostics",
    "check_distance": "twoafc.measurement",
    "count": "twoafc.scale",
    "distance": "twoafc.distances",
    "evaluate": "twoafc.evaluation",
    "fuse": "twoafc.evaluation",
    "gate": "twoafc.planning",
    "join_columns": "twoafc.table",
    "load": "twoafc.estimators",
    "measure": "twoafc.measurement",
}


def __getattr__(name: str) -> Any:
    if name not in (*__all__, "torch"):
        raise AttributeError(f"module 'twoafc' has no attribute {name!r}")
    home = importlib.import_module(_HOMES.get(name, f"twoafc.{name}"))
    value = getattr(home, name) if name in _HOMES else home
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "torch", "__version__"]
