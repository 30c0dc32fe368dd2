"""Compare distances of finished evaluations, in one folder of results or in several, on the triplets they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from twoafc.errors import DataError
from twoafc.folder import Results
from twoafc.inference import (
    COMPARED,
    Record,
    Values,
    compare,
    lettered,
    mean_values,
    together,
    values_of,
    values_per_row,
)
from twoafc.metrics import Ties
from twoafc.table import LABELS, Triplets


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
    """Compare all distances of some folders of results under each estimator, on the triplets that all of them have.

    What a single folder says of itself is told as it stands. Between folders differences are of the fitted surfaces on
    other triplets, by formula, however the folders' own error bars were made.
    """
    paths = [Path(folder) for folder in folders]
    if len({path.resolve() for path in paths}) < len(paths):
        raise DataError("a folder of results is given twice")
    results = [Results.read(path) for path in paths]
    if len(results) == 1:
        return _own(results[0])
    parts, notes = _common(results)
    votes = results[0].votes if len(results) and all(each.votes is not None for each in results) else None
    first = next(iter(parts.values()))[0]
    table = _table(first, votes)
    link = together(table)
    notes.append(f"{len(table)} triplets; {link.told}")
    ways = dict.fromkeys(each.way for each in results if each.way != "analytic")
    notes += [f"a folder has its error bars by {way}; these are by formula, of the fitted surfaces" for way in ways]
    rules = {each.ties for each in results}
    if len(rules) > 1:
        raise DataError("folders must have one rule for ties; found half and x0: evaluate them alike")
    comparisons: list[Record] = []
    letters: list[Record] = []
    for label in dict.fromkeys(estimator for _, estimator in parts):
        values = {name: _values(part, votes, results[0].ties) for (name, each), part in parts.items() if each == label}
        found = compare(values, link, estimator=label)
        comparisons += found
        for measure in COMPARED[2]:
            means = {name: float(each.columns[:, each.measures.index(measure)].mean()) for name, each in values.items()}
            letters += _lettered(found, means, label, measure)
    _require(comparisons, list(parts))
    return Comparison(comparisons, letters, notes)


def _require(comparisons: Sequence[Record], known: Sequence[tuple[str, str]]) -> None:
    if not comparisons:
        told = ", ".join(f"{name} ({estimator})" for name, estimator in known)
        raise DataError(f"two distances under one estimator are needed to compare; found {told}")


def _lettered(found: Sequence[Record], means: Mapping[str, float], label: str, measure: str) -> list[Record]:
    told = lettered(found, means, measure, better=COMPARED[2][measure].better)
    head = {"estimator": label, "measure": measure}
    return [{"distance": name, **head, "value": means[name], "letters": letter} for name, letter in told.items()]


def _own(results: Results) -> Comparison:
    """What a folder says of itself."""
    tested = results.triplets.select("triplet").n_unique()
    letters: list[Record] = []
    shown = [r for r in results.scores if f"{next(iter(COMPARED[2]))}_letters" in r]
    for label in dict.fromkeys(record["estimator"] for record in results.comparisons):
        pairs = [record for record in results.comparisons if record["estimator"] == label]
        for measure in COMPARED[2]:
            means = {r["distance"]: r[measure] for r in shown if r["estimator"] == label and r[measure] is not None}
            letters += _lettered(pairs, means, label, measure)
    _require(results.comparisons, list(dict.fromkeys((r["distance"], r["estimator"]) for r in results.scores)))
    return Comparison(results.comparisons, letters, [f"{tested} triplets; {results.error_bars}"])


Parts = dict[tuple[str, str], list[pl.DataFrame]]


def _common(results: Sequence[Results]) -> tuple[Parts, list[str]]:
    """Cut all folders down to the triplets that they share, in one order; distances of one name are told apart."""
    keys = [name for name in LABELS if all(name in each.triplets.columns for each in results)]
    shared = None
    sizes = {}
    for each in results:
        rows = each.triplets.select(*keys, "n", "M").unique(maintain_order=True)
        if rows.select(keys).is_duplicated().any():
            raise DataError(f"{each.folder} has triplets of one name; give them a column triplet with a name for each")
        sizes[each.folder] = len(rows)
        if shared is None:
            shared = rows
            continue
        both = shared.join(rows, on=keys, suffix="_other", maintain_order="left")
        unlike = both.filter((pl.col("n") != pl.col("n_other")) | (pl.col("M") != pl.col("M_other")))
        if len(unlike):
            raise DataError(
                f"the same triplet must have the same votes; {unlike['triplet'][0]} has n={unlike['n'][0]}, "
                f"M={unlike['M'][0]} and, in {each.folder}, n={unlike['n_other'][0]}, M={unlike['M_other'][0]} "
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
    named = _told_apart([each.folder for each in results])
    names = [name for each in results for name in each.triplets["distance"].unique()]
    for each in results:
        for key, part in each.triplets.group_by("distance", "estimator", "seed", maintain_order=True):
            distance, estimator = str(key[0]), str(key[1])
            name = distance if names.count(distance) == 1 else f"{distance} ({named[each.folder]})"
            rows = shared.select(keys).join(part, on=keys, maintain_order="left")
            parts.setdefault((name, estimator), []).append(rows)
    return parts, notes


def _told_apart(folders: Sequence[Path]) -> dict[Path, str]:
    """Name folders by their last part, or by all of it where two share that."""
    last = [folder.resolve().name for folder in folders]
    return {folder: name if last.count(name) == 1 else str(folder) for folder, name in zip(folders, last, strict=True)}


def _table(run: pl.DataFrame, votes: pl.DataFrame | None) -> Triplets:
    """The tested triplets, with their single votes where these are known."""
    labels = [name for name in run.columns if name in LABELS]
    table = Triplets.from_frame(run.select(*labels, "n", "M", "d0", "d1"))
    if votes is None:
        return table
    place = run.select("triplet").with_row_index("row")
    joined = votes.join(place, on="triplet", maintain_order="left").filter(pl.col("row").is_not_null())
    return replace(table, votes=joined.with_columns(pl.col("row").cast(pl.Int64)).drop("triplet"))


def _values(runs: Sequence[pl.DataFrame], votes: pl.DataFrame | None, ties: Ties) -> Values:
    """Values of a distance's triplets, over the seeds that did not diverge."""
    table = _table(runs[0], votes)
    link = together(table)
    finite = [run["P"].to_numpy() for run in runs if not run["diverged"][0] and np.isfinite(run["P"].to_numpy()).all()]
    if not finite:
        raise DataError(f"every run of {runs[0]['distance'][0]} diverged; there is nothing to compare")
    return mean_values([values_of(table, P, values_per_row(table, P, ties=ties), link, ties=ties) for P in finite])
