"""The card of a result, its provenance: versions, tables with their hashes, settings and fits."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twoafc.estimators import Estimator, Model
from twoafc.inference import DRAWS
from twoafc.scale import Counts
from twoafc.table import Votes

if TYPE_CHECKING:
    from twoafc.results.result import Run

LIBRARIES = ("twoafc", "numpy", "scipy", "polars")


def describe_table(table: Votes, *paths: str | Path) -> dict[str, Any]:
    """Describe a table: its size, a hash of its contents and of the files that it came from, if any."""
    digest = hashlib.sha256()
    own = {} if table.weight is None else {"weight": table.weight}
    for name, column in ({"n": table.n, "M": table.M} | own).items():
        digest.update(name.encode() + column.tobytes())
    for name in sorted(table.distances):
        digest.update(name.encode() + b"".join(column.tobytes() for column in table.distances[name]))
    for name in table.labels.columns:
        digest.update("\0".join([name, *table.labels[name]]).encode())
    return {
        f"{table.row}s": len(table),
        **({"effective": table.effective_rows} if own else {}),
        **({"same": table.share} if table.k == 1 else {}),
        "votes": int(table.M.sum()),
        "M": [int(m) for m in np.unique(table.M)],
        "contents_sha256": digest.hexdigest(),
        **describe_files(*paths),
    }


def describe_files(*paths: str | Path) -> dict[str, Any]:
    """Describe the files of a table by their names and hashes, one file also by its path.

    The folder of a result keeps the path relative to itself.
    """
    if len(paths) == 1:
        path = Path(paths[0])
        return {"file": path.name, "file_sha256": _digest(path), "path": str(path.absolute())}
    return {"files_sha256": {str(path): _digest(path) for path in paths}} if paths else {}


def _digest(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_counts(counts: Mapping[str, Counts]) -> dict[str, Any]:
    """Describe counts by distance: their size, the bins, and a digest for each distance."""
    first = next(iter(counts.values()))
    return {
        "triplets": first.triplets,
        "votes": first.votes,
        "M": first.cells["M"].unique().sort().to_list(),
        "bins_per_octave": first.lattice.per_octave,
        "rows": " and ".join(first.rows),
        "references": "kept" if first.refs_kept else "not kept",
        "widest_bin": {name: counted.widest for name, counted in counts.items()},
        "counts_sha256": {name: counted.digest for name, counted in counts.items()},
    }


def make_card(
    data: Mapping[str, Mapping[str, Any]],
    estimators: Mapping[str, Estimator],
    settings: Mapping[str, Any],
    runs: Sequence[Run],
) -> dict[str, Any]:
    """Make the card of an evaluation: versions, machine and time, tables, settings, and the summary of each fit.

    ``data`` describes the table of each role, train and test; ``settings`` are those of the evaluation, with ``ties``
    and ``seed``.
    """
    pairs = any("pairs" in table for table in data.values())
    tie_rule = {"half": "a tie counts one half", "x0": "a tie counts as a choice of x0"}[settings["ties"]]
    simulated = "exact expectation"
    if pairs:
        tie_rule = "pairs at one distance enter the ranking of the average precision together"
        simulated += f"; of the average precision the mean over {DRAWS} draws"
    return {
        **({"kind": "pairs"} if pairs else {}),
        "versions": {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()},
        "machine": platform.platform(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {role: dict(described) for role, described in data.items()},
        "estimators": {
            name: asdict(estimator) if is_dataclass(estimator) and not isinstance(estimator, type) else repr(estimator)
            for name, estimator in estimators.items()
        },
        "settings": dict(settings),
        "tie_rule": tie_rule,
        "seed": settings["seed"],
        "simulated": simulated,
        "fits": [
            {"distance": run.distance, "estimator": run.estimator, "seed": run.seed}
            | (run.fit.summary() if isinstance(run.fit, Model) else {})
            for run in runs
        ],
    }
