"""Compare distances of finished evaluations, in one folder of results or in several, on the rows they share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from twoafc.errors import DataError
from twoafc.inference import (
    COMPARED,
    Record,
    Values,
    clustering_of,
    compare,
    halves_of,
    lettered,
    mean_values,
    values_of,
    values_per_row,
)
from twoafc.metrics import Ties
from twoafc.results.result import HALVES, Result
from twoafc.table import ENDS, LABELS, PAIR_LABELS, Pairs, Triplets, Votes


@dataclass(frozen=True)
class Comparison:
    """Distances compared on the same triplets, or pairs.

    Attributes
    ----------
    comparisons : list of records
        One for each pair of distances, estimator and measure: see `twoafc.inference.comparisons.compare`.
    letters : list of records
        ``distance``, ``estimator``, ``measure``, ``value``, ``letters``; the best first.
    notes : list of str
        Which rows were left out, and by what they are clustered.
    """

    comparisons: list[Record]
    letters: list[Record]
    notes: list[str]


def compare_results(folders: Sequence[str | Path]) -> Comparison:
    """Compare all distances of some folders of results under each estimator, on the rows that all of them have.

    A single folder gives the comparisons that it holds. Between folders errors are computed by formula, with the noise
    of training where the folders hold fits to halves.
    """
    paths = [Path(folder) for folder in folders]
    if len({*map(os.path.realpath, paths)}) < len(paths):
        raise DataError("a folder of results is given twice")
    results = [Result.read(path) for path in paths]
    first = results[0]
    if len(results) == 1:
        return _own(first)
    other = next((each for each in results if each.row != first.row), None)
    if other is not None:
        raise DataError(
            f"folders must have rows of one kind; {first.folder} has {first.row}s, {other.folder} {other.row}s"
        )
    parts, training, notes = _common(results)
    votes = first.votes if all(each.votes is not None for each in results) else None
    table = _table(next(iter(parts.values()))[0], votes, first.k)
    dependence = clustering_of(table)
    notes.append("; ".join([f"{len(table)} {first.row}s", *_training_words(results), dependence.description]))
    notes += [_training_sizes(results)] if _training_sizes(results) else []
    notes += dependence.caveats()
    methods = dict.fromkeys(m for m in (each.error_bar_method for each in results) if m in ("bootstrap", "refit"))
    notes += [
        f"a folder has its error bars by {method}; these are by formula, of the fitted surfaces" for method in methods
    ]
    if len({each.ties for each in results}) > 1:
        raise DataError("folders must have one rule for ties; found half and x0: evaluate them alike")
    comparisons: list[Record] = []
    letters: list[Record] = []
    for label in dict.fromkeys(estimator for _, estimator in parts):
        values = {
            name: _values(part, votes, first.ties, first.k, training[name, each])
            for (name, each), part in parts.items()
            if each == label
        }
        compared = compare(values, dependence, estimator=label)
        comparisons += compared
        for measure in COMPARED[first.k]:
            means = {name: float(each.columns[:, each.measures.index(measure)].mean()) for name, each in values.items()}
            letters += _lettered(compared, means, label, measure, first.k)
    _require(comparisons, list(parts))
    return Comparison(comparisons, letters, notes)


def _training_words(results: Sequence[Result]) -> list[str]:
    """What the folders' error bars say of the noise of training, by folder where they differ."""
    words = {
        each.name: next((part for part in each.error_bars.split("; ") if part.startswith("noise of training")), None)
        for each in results
    }
    if len(set(words.values())) == 1:
        return [word for word in [*words.values()][:1] if word]
    short = _short_names(list(words))
    return [f"{short[name]}: {word or 'noise of training left out here'}" for name, word in words.items()]


def _training_sizes(results: Sequence[Result]) -> str:
    """Say where folders were fitted to training tables of unlike size, which a difference of NLLs then compares too."""
    sizes = [(each.card.get("data") or {}).get("train", {}).get(f"{each.row}s") for each in results]
    if None in sizes or len(set(sizes)) == 1:
        return ""
    listed = " and ".join(str(size) for size in sizes)
    return f"fitted to {listed} training {results[0].row}s: differences of NLL are also those of the training tables"


def _require(comparisons: Sequence[Record], known: Sequence[tuple[str, str]]) -> None:
    if not comparisons:
        listed = ", ".join(f"{name} ({estimator})" for name, estimator in known)
        raise DataError(f"two distances under one estimator are needed to compare; found {listed}")


def _lettered(
    comparisons: Sequence[Record], means: Mapping[str, float], label: str, measure: str, k: int
) -> list[Record]:
    letters = lettered(comparisons, means, measure, better=COMPARED[k][measure].better)
    head = {"estimator": label, "measure": measure}
    return [{"distance": name, **head, "value": means[name], "letters": letter} for name, letter in letters.items()]


def _own(result: Result) -> Comparison:
    """The comparisons that a folder holds."""
    tested = result.rows.select(result.row).n_unique()
    letters: list[Record] = []
    measures = COMPARED[result.k]
    shown = [r for r in result.scores if f"{next(iter(measures))}_letters" in r]
    for label in dict.fromkeys(record["estimator"] for record in result.comparisons):
        pairs = [record for record in result.comparisons if record["estimator"] == label]
        for measure in measures:
            means = {r["distance"]: r[measure] for r in shown if r["estimator"] == label and r[measure] is not None}
            letters += _lettered(pairs, means, label, measure, result.k)
    _require(result.comparisons, list(dict.fromkeys((r["distance"], r["estimator"]) for r in result.scores)))
    notes = [f"{tested} {result.row}s; {result.error_bars}", *result.caveats]
    return Comparison(result.comparisons, letters, notes)


Parts = dict[tuple[str, str], list[pl.DataFrame]]


def _common(results: Sequence[Result]) -> tuple[Parts, dict[tuple[str, str], Record], list[str]]:
    """Reduce all folders to the rows that they share, in one order; distances of one name get their folder's name.

    Return also what the card of each part's folder says of the noise of training.
    """
    row = results[0].row
    labels = PAIR_LABELS if row == "pair" else LABELS
    keys = [name for name in labels if all(name in each.rows.columns for each in results)]
    shared = None
    sizes = {}
    for each in results:
        rows = each.rows.select(*keys, "n", "M").unique(maintain_order=True)
        if rows.select(keys).is_duplicated().any():
            raise DataError(f"{each.folder} has {row}s of one name; give them a column {row} with a name for each")
        sizes[each.name] = len(rows)
        if shared is None:
            shared = rows
            continue
        both = shared.join(rows, on=keys, suffix="_other", maintain_order="left")
        unlike = both.filter((pl.col("n") != pl.col("n_other")) | (pl.col("M") != pl.col("M_other")))
        if len(unlike):
            raise DataError(
                f"the same {row} must have the same votes; {unlike[row][0]} has n={unlike['n'][0]}, "
                f"M={unlike['M'][0]} and, in {each.folder}, n={unlike['n_other'][0]}, M={unlike['M_other'][0]} "
                f"({len(unlike)} of {len(both)} {row}s)"
            )
        shared = both.select(*keys, "n", "M")
    assert shared is not None
    if shared.is_empty():
        raise DataError(f"the folders share no {row}, by {', '.join(keys)}; compare results on the same test table")
    notes = [
        f"{folder}: {size - len(shared)} of {size} {row}s are not in the others and are left out"
        for folder, size in sizes.items()
        if size > len(shared)
    ]
    parts: Parts = {}
    training: dict[tuple[str, str], Record] = {}
    short_names = _short_names([each.name for each in results])
    names = [name for each in results for name in each.distances]
    for each in results:
        for key, part in each.rows.group_by("distance", "estimator", "seed", maintain_order=True):
            distance, estimator = str(key[0]), str(key[1])
            name = distance if names.count(distance) == 1 else f"{distance} ({short_names[each.name]})"
            rows = shared.select(keys).join(part, on=keys, maintain_order="left")
            parts.setdefault((name, estimator), []).append(rows)
            training[name, estimator] = each.card.get("training") or {}
    return parts, training, notes


def _short_names(folders: Sequence[str]) -> dict[str, str]:
    """Name folders by their last part, or by the whole path where two share that."""
    last = [Path(folder).resolve().name for folder in folders]
    return {folder: name if last.count(name) == 1 else folder for folder, name in zip(folders, last, strict=True)}


def _table(run: pl.DataFrame, votes: pl.DataFrame | None, k: int) -> Votes:
    """The tested rows, with their single votes where these are known."""
    labels = [name for name in run.columns if name in (LABELS if k == 2 else PAIR_LABELS)]
    table: Votes = (Triplets if k == 2 else Pairs).from_frame(run.select(*labels, "n", "M", *ENDS[k]))
    if votes is None:
        return table
    place = run.select(table.row).with_row_index("row")
    joined = votes.join(place, on=table.row, maintain_order="left").filter(pl.col("row").is_not_null())
    return replace(table, votes=joined.with_columns(pl.col("row").cast(pl.Int64)).drop(table.row))


def _values(runs: Sequence[pl.DataFrame], votes: pl.DataFrame | None, ties: Ties, k: int, training: Record) -> Values:
    """Values of a distance's rows, over the seeds that did not diverge."""
    table = _table(runs[0], votes, k)
    dependence = clustering_of(table)
    finite = [run for run in runs if not run["diverged"][0] and np.isfinite(run["P"].to_numpy()).all()]
    if not finite:
        raise DataError(f"every run of {runs[0]['distance'][0]} diverged; there is nothing to compare")
    values = []
    for run in finite:
        P, halves = run["P"].to_numpy(), None
        if HALVES in run.columns and not run[HALVES].has_nulls():
            split = run[HALVES].to_numpy().T.reshape(training["splits"], 2, len(run))
            halves = halves_of(table, split, ties=ties, crossed=training["cross_validated"], freedom=training["df"])
        own = values_of(table, P, values_per_row(table, P, ties=ties, draws=0), dependence, ties=ties)
        values.append(replace(own, halves=halves))
    return mean_values(values)
