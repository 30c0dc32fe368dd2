"""Compare distances of finished evaluations, in one folder of results or in several, on the triplets they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from twoafc.columns import LABELS
from twoafc.errors import DataError
from twoafc.inference.comparisons import COMPARED, compare, lettered
from twoafc.inference.errorbars import Values, mean_values, together, values_of
from twoafc.scores import Record, per_triplet
from twoafc.triplets import Triplets


@dataclass(frozen=True)
class Comparison:
    """Distances compared on the same triplets.

    Attributes
    ----------
    comparisons : list of records
        One for each pair, estimator and measure: see `twoafc.inference.comparisons.compare`.
    letters : list of records
        ``distance``, ``estimator``, ``measure``, ``value``, ``letters``; the best first.
    notes : list of str
        Which triplets were left out, and which were taken to go together.
    """

    comparisons: list[Record]
    letters: list[Record]
    notes: list[str]


def compare_results(folders: Sequence[str | Path]) -> Comparison:
    """Compare all distances of some folders of results under each estimator, on the triplets that all of them have."""
    frames = {str(folder): _read(Path(folder)) for folder in folders}
    if len(frames) < len(folders):
        raise DataError("a folder of results is given twice")
    parts, notes = _common(frames)
    table = _table(next(iter(parts.values())))
    link = together(table)
    notes.append(f"{len(table)} triplets; {link.told}")
    comparisons: list[Record] = []
    letters: list[Record] = []
    for label in dict.fromkeys(estimator for _, estimator in parts):
        values = {name: _values(part) for (name, estimator), part in parts.items() if estimator == label}
        found = compare(values, link, estimator=label)
        comparisons += found
        for measure in COMPARED:
            means = {name: float(each.columns[:, each.measures.index(measure)].mean()) for name, each in values.items()}
            for name, letter in lettered(found, means, measure).items():
                head = {"distance": name, "estimator": label, "measure": measure}
                letters.append({**head, "value": means[name], "letters": letter})
    if not comparisons:
        known = ", ".join(f"{name} ({estimator})" for name, estimator in parts)
        raise DataError(f"two distances under one estimator are needed to compare; found {known}")
    return Comparison(comparisons, letters, notes)


def _read(folder: Path) -> pl.DataFrame:
    path = folder / "triplets.parquet"
    if (folder / "pairs.parquet").is_file():
        raise DataError(f"{folder} holds results of pairs; how they compare is told in its comparisons.csv")
    if not path.is_file():
        raise DataError(f"{folder} is not a folder of results; it has no triplets.parquet")
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {str(error).splitlines()[0]}") from error
    wanted = {"triplet", "n", "M", "distance", "estimator", "seed", "d0", "d1", "P", "nll"}
    if not wanted <= set(frame.columns):
        missing = ", ".join(sorted(wanted - set(frame.columns)))
        raise DataError(f"{path} lacks {missing}; it was not written by twoafc evaluate")
    return frame


Parts = dict[tuple[str, str], list[pl.DataFrame]]


def _common(frames: dict[str, pl.DataFrame]) -> tuple[Parts, list[str]]:
    """Cut all folders down to the triplets that they share, in one order; distances of one name are told apart."""
    keys = [name for name in LABELS if all(name in frame.columns for frame in frames.values())]
    shared = None
    sizes = {}
    for folder, frame in frames.items():
        rows = frame.select(*keys, "n", "M").unique(maintain_order=True)
        if rows.select(keys).is_duplicated().any():
            raise DataError(f"{folder} has triplets of one name; give them a column triplet with a name for each")
        sizes[folder] = len(rows)
        if shared is None:
            shared = rows
            continue
        both = shared.join(rows, on=keys, suffix="_other", maintain_order="left")
        unlike = both.filter((pl.col("n") != pl.col("n_other")) | (pl.col("M") != pl.col("M_other")))
        if len(unlike):
            raise DataError(
                f"the same triplet must have the same votes; {unlike['triplet'][0]} has n={unlike['n'][0]}, "
                f"M={unlike['M'][0]} and, in {folder}, n={unlike['n_other'][0]}, M={unlike['M_other'][0]} "
                f"({len(unlike)} of {len(both)} triplets)"
            )
        shared = both.select(*keys, "n", "M")
    assert shared is not None
    if shared.is_empty():
        raise DataError(f"the folders share no triplet, by {', '.join(keys)}; compare results on the same test table")
    notes = [
        f"{folder}: {size - len(shared)} of {size} triplets are not in the others and are left out"
        for folder, size in sizes.items()
        if size > len(shared)
    ]
    parts: Parts = {}
    names = [name for frame in frames.values() for name in frame["distance"].unique()]
    for folder, frame in frames.items():
        for (distance, estimator, _), part in frame.group_by("distance", "estimator", "seed", maintain_order=True):
            name = str(distance) if names.count(str(distance)) == 1 else f"{distance} ({Path(folder).name})"
            rows = shared.select(keys).join(part, on=keys, maintain_order="left")
            parts.setdefault((name, str(estimator)), []).append(rows)
    return parts, notes


def _table(runs: list[pl.DataFrame]) -> Triplets:
    labels = [name for name in runs[0].columns if name in LABELS]
    return Triplets.from_frame(runs[0].select(*labels, "n", "M", "d0", "d1"))


def _values(runs: list[pl.DataFrame]) -> Values:
    """Values of a distance's triplets, over the seeds that did not diverge."""
    table = _table(runs)
    link = together(table)
    finite = [run["P"].to_numpy() for run in runs if np.isfinite(run["P"].to_numpy()).all()]
    if not finite:
        raise DataError(f"every run of {runs[0]['distance'][0]} diverged; there is nothing to compare")
    return mean_values([values_of(table, P, per_triplet(table, P), link) for P in finite])
