"""The reproducibility card: what made a result."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from twoafc.estimators import DensityCurve, DensityFit, Estimator, NetworkFit, SplineCurve
from twoafc.evaluation import Run, Settings
from twoafc.inference import DRAWS
from twoafc.scale import Counts
from twoafc.table import Votes

LIBRARIES = ("twoafc", "numpy", "scipy", "polars")


def describe(table: Votes, *paths: str | Path) -> dict[str, Any]:
    """Tell which table it was: its size, a hash of its contents and, where it came from files, of these."""
    digest = hashlib.sha256()
    for name, column in {"n": table.n, "M": table.M}.items():
        digest.update(name.encode() + column.tobytes())
    for name in sorted(table.distances):
        digest.update(name.encode() + b"".join(column.tobytes() for column in table.distances[name]))
    for name in table.labels.columns:
        digest.update("\0".join([name, *table.labels[name]]).encode())
    told: dict[str, Any] = {
        f"{table.row}s": len(table),
        **({"same": table.share} if table.k == 1 else {}),
        "votes": int(table.M.sum()),
        "M": [int(m) for m in np.unique(table.M)],
        "contents_sha256": digest.hexdigest(),
    }
    if len(paths) == 1:
        told |= {"file": Path(paths[0]).name, "file_sha256": _digest(paths[0])}
    elif paths:
        told["files_sha256"] = {str(path): _digest(path) for path in paths}
    return told


def _digest(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_counts(counts: Mapping[str, Counts], source: str | None = None) -> dict[str, Any]:
    """Tell which counts they were: their size, the bins, a digest for each distance and, where known, the source."""
    first = next(iter(counts.values()))
    told: dict[str, Any] = {
        "triplets": first.triplets,
        "votes": first.votes,
        "M": first.cells["M"].unique().sort().to_list(),
        "bins_per_octave": first.lattice.per_octave,
        "rows": " and ".join(first.rows),
        "references": "kept" if first.refs_kept else "not kept",
        "widest_bin": {name: each.widest for name, each in counts.items()},
        "counts_sha256": {name: each.digest for name, each in counts.items()},
    }
    return told if source is None else told | {"source": source}


def of_evaluation(
    data: Mapping[str, Mapping[str, Any]],
    estimators: Mapping[str, Estimator],
    settings: Settings,
    runs: Sequence[Run],
) -> dict[str, Any]:
    """Put together the card of an evaluation: versions, machine and time, tables, settings, and what each fit says."""
    pairs = any("pairs" in table for table in data.values())
    return {
        **({"kind": "pairs"} if pairs else {}),
        "versions": {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()},
        "machine": platform.platform(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": dict(data),
        "estimators": {name: _settings(each) for name, each in estimators.items()},
        "settings": asdict(settings),
        "tie_rule": _tie_rule(settings, pairs),
        "seed": settings.seed,
        "simulated": f"exact expectation; of the average precision the mean over {DRAWS} draws"
        if pairs
        else "exact expectation",
        "fits": [_fit(run) for run in runs],
    }


def _tie_rule(settings: Settings, pairs: bool) -> str:
    if pairs:
        return "pairs at one distance enter the ranking of the average precision together"
    return {"half": "a tie counts one half", "x0": "a tie counts as a choice of x0"}[settings.ties]


def _settings(each: Estimator) -> Any:
    return asdict(each) if is_dataclass(each) and not isinstance(each, type) else repr(each)


def _fit(run: Run) -> dict[str, Any]:
    told: dict[str, Any] = {"distance": run.distance, "estimator": run.estimator, "seed": run.seed}
    if isinstance(run.fit, DensityFit):
        even, by_density = run.fit.plane_log_likelihood
        told |= {"plane_log_likelihood": even, "plane_log_likelihood_by_density": by_density}
    if isinstance(run.fit, NetworkFit):
        told |= {"training_nll": run.fit.training_nll.tolist(), "diverged": run.fit.diverged}
    if isinstance(run.fit, DensityCurve):
        told |= {"sigma": run.fit.settings.sigma, "grid_size": run.fit.settings.grid_size}
    if isinstance(run.fit, SplineCurve):
        told |= {"link": run.fit.link, "lapse": run.fit.lapse, "dispersion": run.fit.dispersion}
    return told
