"""The reproducibility card of an evaluation of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twoafc import card
from twoafc.evaluation import Settings
from twoafc.jnd.density import DensityCurve
from twoafc.jnd.pairs import Pairs
from twoafc.jnd.runs import CurveRun
from twoafc.jnd.scores import DRAWS
from twoafc.jnd.spline import SplineCurve
from twoafc.triplets import Triplets


def describe(table: Pairs, *paths: str | Path) -> dict[str, Any]:
    """Tell which table it was: its size, a hash of its contents and, where it came from files, of these."""
    rows, nothing = table.rows(), np.empty(0)
    distances = {name: (d, nothing) for name, d in table.distances.items()}
    told = card.describe(Triplets(rows.n, rows.M, distances, rows.labels), *paths)
    return {"pairs": told.pop("triplets"), "same": table.share, **told}


def of_evaluation(
    data: Mapping[str, Mapping[str, Any]], estimators: Mapping[str, Any], settings: Settings, runs: Sequence[CurveRun]
) -> dict[str, Any]:
    """Put together the card: versions, machine and time, tables, settings, and what each fit chose."""
    drawn = "exact expectation; of the average precision the mean over"
    simulated = f"{drawn} {DRAWS} draws" if settings.simulated_seed is None else f"seed {settings.simulated_seed}"
    return {
        "kind": "pairs",
        **card.of_evaluation(data, estimators, settings, []),
        "tie_rule": "pairs at one distance enter the ranking of the average precision together",
        "simulated": simulated,
        "fits": [_fit(run) for run in runs],
    }


def _fit(run: CurveRun) -> dict[str, Any]:
    told: dict[str, Any] = {"distance": run.distance, "estimator": run.estimator}
    if isinstance(run.fit, DensityCurve):
        told |= {"sigma": run.fit.settings.sigma, "grid_size": run.fit.settings.grid_size}
    if isinstance(run.fit, SplineCurve):
        told |= {"link": run.fit.link, "lapse": run.fit.lapse, "dispersion": run.fit.dispersion}
    return told
