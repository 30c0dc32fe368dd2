"""Compare distances of one result or of several, on the rows they share."""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from twoafc.arrays import BoolArray, FloatArray
from twoafc.errors import DataError
from twoafc.inference import (
    COMPARED,
    Clustering,
    Record,
    Values,
    clustering_of,
    compare,
    halves_of,
    keep_planned,
    lettered,
    mean_values,
    planned_pairs,
    values_of,
    values_per_row,
)
from twoafc.results.folder import HALVES
from twoafc.results.tables import Table, column_of, key_of, shown
from twoafc.table import ENDS, LABELS, PAIR_LABELS, Pairs, Triplets, Votes, to_native

if TYPE_CHECKING:
    from twoafc.results.result import Result


@dataclass(frozen=True)
class Comparison:
    """Distances compared on the same triplets, or pairs.

    Attributes
    ----------
    comparisons : list of records
        One for each pair of distances, estimator and measure: see `twoafc.inference.comparisons.compare`.
    letters : list of records
        ``distance``, ``estimator``, ``measure``, ``value``, ``letters`` (None if comparisons were planned), the best
        first.
    notes : list of str
        Which rows were left out, and by what they are clustered.
    planned : bool
        Whether only some comparisons were requested.
    native : str or None
        Library of the frame that `frame` returns; default polars.
    """

    comparisons: list[Record]
    letters: list[Record]
    notes: list[str]
    planned: bool = False
    native: str | None = None

    def __repr__(self) -> str:
        return "\n".join(line for measure in self.shown for line in self.sentences(measure))

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(line)}</p>" for line in repr(self).splitlines())

    @property
    def shown(self) -> list[str]:
        """Measures to show by default: the NLL and, if comparisons were planned, the score of the bare distance."""
        measures = list(dict.fromkeys(r["measure"] for r in self.comparisons if r["measure"] != "score_2afc"))
        return measures if self.planned else measures[:1]

    def frame(self) -> Any:
        """Return the comparisons as a frame, one row each."""
        return to_native(pl.DataFrame(self.comparisons, infer_schema_length=None), self.native)

    def sentences(self, measure: str = "nll") -> list[str]:
        """Return sentences that compare the leader with all others, or the planned pairs; the best distance first."""
        records = [record for record in self.comparisons if record["measure"] == measure]
        labels = dict.fromkeys(record["estimator"] for record in records)
        sentences = []
        for label in labels:
            order = self._order(measure, label)
            place = {name: number for number, (name, _) in enumerate(order)}
            own = [record for record in records if record["estimator"] == label]
            if not self.planned and order:
                own = [record for record in own if order[0][0] in (record["a"], record["b"])]
            own.sort(key=lambda record: (place.get(record["a"], 0), place.get(record["b"], 0)))
            lead = f"{label}: " if len(labels) > 1 else ""
            sentences += [f"{lead}{record['sentence']}" for record in own]
        return sentences

    def matrices(self, measure: str) -> list[Table]:
        """Tabulate how far every distance is behind those above it, one table for each estimator."""
        column = column_of(measure)
        places = 3 if measure == "nll" else 1
        matrices = []
        labels = dict.fromkeys(record["estimator"] for record in self.comparisons)
        for label in labels:
            order = self._order(measure, label)
            behind = {
                frozenset((r["a"], r["b"])): f"{abs(r['difference']):.{places}f}{'*' if r['different'] else ' '}"
                for r in self.comparisons
                if (r["measure"], r["estimator"]) == (measure, label) and r["difference"] is not None
            }
            rows = tuple(
                (
                    f"{number + 1} {name}",
                    f"{value:.{column.decimals}f}",
                    *(behind.get(frozenset((name, other)), "–") for other, _ in order[:number]),
                    *[""] * (len(order) - 1 - number),
                )
                for number, (name, value) in enumerate(order)
            )
            caption = f"{column.heading}{f', {label}' if len(labels) > 1 else ''}"
            header = ("distance", "mean", *(str(number) for number in range(1, len(order))))
            matrices.append(Table(caption, header, rows))
        return matrices

    def _order(self, measure: str, estimator: str) -> list[tuple[str, float]]:
        """Return distances with their scores, the best first."""
        wanted = (measure, estimator)
        return [(r["distance"], r["value"]) for r in self.letters if (r["measure"], r["estimator"]) == wanted]


def known_name(name: str, known: Collection[str]) -> str:
    """Resolve a short name of a distance, such as lpips, to the full one if that is known, or the reverse."""
    if name in known:
        return name
    from twoafc.distances import ALIASES  # here, since results need no distances of images

    other = ALIASES.get(name) or next((short for short, full in ALIASES.items() if full == name), name)
    return other if other in known else name


def look_up(what: str, name: str, known: Collection[str], where: str) -> str:
    """Resolve a name as `known_name` does; a `DataError` that lists the known ones if it is none of them."""
    name = known_name(name, known)
    if name not in known:
        raise DataError(f"no {what} {name!r} in {where}; it has {', '.join(known)}")
    return name


def known_names(known: Collection[str], baseline: str | None, pairs: Sequence[Any]) -> tuple[str | None, list[Any]]:
    """Apply `known_name` to the names of planned comparisons."""
    named = [pair if isinstance(pair, str) else [known_name(name, known) for name in pair] for pair in pairs]
    return None if baseline is None else known_name(baseline, known), named


def compare_results(
    results: Sequence[Result], *, baseline: str | None = None, pairs: Sequence[tuple[str, str]] = ()
) -> Comparison:
    """Compare the distances of some results under each estimator, on the rows that all of them have.

    For a single result these are the comparisons that it already has, if possible. Between results, standard errors
    are computed by formula, with the noise of training if the results have fits to halves. With a baseline or pairs,
    p-values and intervals are corrected for these comparisons only.
    """
    measures = COMPARED[results[0].k]
    places = {result if result.folder is None else os.path.realpath(result.folder) for result in results}
    if len(places) < len(results):
        raise DataError("a folder of results is given twice")
    own = _own(results[0], baseline, pairs) if len(results) == 1 else None
    if own is not None:
        return own
    shared = shared_rows(results)
    if len({result.ties for result in results}) > 1:
        raise DataError("folders must have the same rule for ties; found half and x0: use the same --ties")
    names = [*dict.fromkeys(name for name, _ in shared.parts)]
    planned = planned_pairs(names, *known_names(names, baseline, pairs))
    notes = [*shared.notes, shared.description, *_training_sizes(results), *shared.dependence.caveats()]
    notes += [
        f"a folder has its error bars by {method}; these are by formula, of the fitted surfaces"
        for method in dict.fromkeys(result.error_bar_method for result in results)
        if method in ("bootstrap", "refit")
    ]
    comparisons: list[Record] = []
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for label in dict.fromkeys(estimator for _, estimator in shared.parts):
        values = {name: shared.values(name, label) for name, estimator in shared.parts if estimator == label}
        comparisons += keep_planned(compare(values, shared.dependence, estimator=label), planned, measures)
        for measure in measures:
            scores[label, measure] = {
                name: float(np.average(value.columns[:, value.measures.index(measure)], weights=shared.table.weight))
                for name, value in values.items()
            }
    return _comparison(results[0], comparisons, scores, notes, bool(planned), shared.parts)


def _training_sizes(results: Sequence[Result]) -> list[str]:
    """Note that training tables differ in size, because a difference of NLLs then depends on that too."""
    sizes = [result.card.get("data", {}).get("train", {}).get(f"{result.row}s") for result in results]
    if None in sizes or len(set(sizes)) == 1:
        return []
    listed = " and ".join(str(size) for size in sizes)
    return [f"fitted to {listed} training {results[0].row}s: differences of NLL are also those of the training tables"]


def _own(result: Result, baseline: str | None, pairs: Sequence[tuple[str, str]]) -> Comparison | None:
    """Return the requested comparisons of a result; None if it lacks some that can be computed."""
    asked = planned_pairs(result.distances, *known_names(result.distances, baseline, pairs))
    compared = {frozenset((record["a"], record["b"])) for record in result.comparisons}
    if not {frozenset(pair) for pair in asked} <= compared:
        if result.error_bar_method in ("bootstrap", "refit"):
            raise DataError(
                f"{result.name} lacks some of these comparisons; with error bars by {result.error_bar_method} they "
                "must be requested in twoafc evaluate"
            )
        return None
    comparisons = keep_planned(result.comparisons, asked, COMPARED[result.k])
    scores = {
        (label, measure): {
            r["distance"]: r[measure]
            for r in shown(result.scores)
            if r["estimator"] == label and r["distance"] in set().union(*compared) and r[measure] is not None
        }
        for label in dict.fromkeys(record["estimator"] for record in comparisons)
        for measure in COMPARED[result.k]
    }
    notes = [f"{result.rows.select(result.row).n_unique()} {result.row}s; {result.error_bars}", *result.caveats]
    known = dict.fromkeys(map(key_of, result.scores))
    return _comparison(result, comparisons, scores, notes, bool(asked or result.card.get("planned")), known)


def _comparison(
    first: Result,
    comparisons: list[Record],
    scores: Mapping[tuple[str, str], Mapping[str, float]],
    notes: list[str],
    planned: bool,
    known: Iterable[tuple[str, str]],
) -> Comparison:
    """Order the scores of every estimator and measure, the best first, with letters if all pairs were compared."""
    if not comparisons:
        listed = ", ".join(f"{name} ({estimator})" for name, estimator in known)
        raise DataError(f"two distances under one estimator are needed to compare; found {listed}")
    letters = []
    for (label, measure), values in scores.items():
        own = [] if planned else [record for record in comparisons if record["estimator"] == label]
        for name, letter in lettered(own, values, measure, better=COMPARED[first.k][measure].better).items():
            named = {"distance": name, "estimator": label, "measure": measure, "value": values[name]}
            letters.append(named | {"letters": letter if own else None})
    return Comparison(comparisons, letters, notes, planned, first.card.get("frames"))


def compare_rows(
    result: Result, P: Mapping[str, FloatArray], keep: BoolArray, *, estimator: str | None = None
) -> Record:
    """Compare two distances of a result by NLL on the rows to keep; the noise of training is not included.

    ``P`` has the predictions of the two distances, and ``estimator`` one that did not diverge. The record is that of
    `twoafc.inference.compare`, with ``rows``, how many were kept.
    """
    tested = result.outcome_rows(next(iter(P)), estimator).filter(pl.Series(keep))
    count = {"rows": len(tested)}
    if len(tested) < 2:
        return count | {"sentence": f"two {result.row}s at least are needed to compare"}
    table = _table(tested, result.votes, result.k)
    dependence = clustering_of(table)
    ties, values = result.ties, {}
    for name, chances in P.items():
        columns = values_per_row(table, chances[keep], ties=ties, draws=0)
        values[name] = values_of(table, chances[keep], columns, dependence, ties=ties)
    measure = {"nll": COMPARED[result.k]["nll"]}
    return compare(values, dependence, estimator="", measures=measure)[0] | count


@dataclass(frozen=True, eq=False)
class SharedRows:
    """The rows that some results share, in one order.

    ``parts`` has a frame for each seed, by name and estimator; distances of one name in several folders have their
    folder's name behind it (see `named`). ``training`` is what the folder's card says of the noise of training, and
    ``votes`` are the single votes, where all results have them. ``notes`` say which rows were left out.
    """

    results: Sequence[Result]
    parts: Mapping[tuple[str, str], list[pl.DataFrame]]
    training: Mapping[tuple[str, str], Record]
    votes: pl.DataFrame | None
    notes: list[str]

    @cached_property
    def table(self) -> Votes:
        """The rows with their labels and votes."""
        return _table(next(iter(self.parts.values()))[0], self.votes, self.results[0].k)

    @cached_property
    def dependence(self) -> Clustering:
        """By what the rows are clustered."""
        return clustering_of(self.table)

    @property
    def description(self) -> str:
        """How many rows there are, whether the noise of training is included, and by what they are clustered."""
        words = [
            next((part for part in result.error_bars.split("; ") if part.startswith("noise of training")), None)
            for result in self.results
        ]
        if len(set(words)) > 1:
            named = zip(_short_names(self.results), words, strict=True)
            words = [f"{name}: {word or 'noise of training left out here'}" for name, word in named]
        training = dict.fromkeys(word for word in words if word)
        return "; ".join([f"{len(self.table)} {self.table.row}s", *training, self.dependence.description])

    def values(self, name: str, estimator: str) -> Values:
        """Values of every row by one distance, over the seeds that did not diverge."""
        runs, training, ties = self.parts[name, estimator], self.training[name, estimator], self.results[0].ties
        table = _table(runs[0], self.votes, self.results[0].k)
        finite = [run for run in runs if not run["diverged"][0] and np.isfinite(run["P"].to_numpy()).all()]
        if not finite:
            raise DataError(f"every run of {runs[0]['distance'][0]} diverged; there is nothing to compare")
        values = []
        for run in finite:
            P, halves = run["P"].to_numpy(), None
            if HALVES in run.columns and not run[HALVES].has_nulls():
                split = run[HALVES].to_numpy().T.reshape(training["splits"], 2, len(run))
                halves = halves_of(table, split, ties=ties, crossed=training["cross_validated"], df=training["df"])
            own = values_of(table, P, values_per_row(table, P, ties=ties, draws=0), self.dependence, ties=ties)
            values.append(replace(own, halves=halves))
        return mean_values(values)

    def named(self, distance: str, result: Result) -> str:
        """Name of a result's distance among all of them."""
        return _named(self.results)[self.results.index(result)][distance]


def shared_rows(results: Sequence[Result]) -> SharedRows:
    """Reduce results to the rows that all of them have; a `DataError` if their votes differ or no row is shared."""
    first, row = results[0], results[0].row
    other = next((result for result in results if result.row != row), None)
    if other is not None:
        raise DataError(f"folders must have rows of one kind; {first.name} has {row}s, {other.name} {other.row}s")
    weighted = [result for result in results if "weight" in result.rows.columns]
    plain = next((result for result in results if result not in weighted), None)
    if weighted and plain is not None:
        raise DataError(f"{weighted[0].name} has weights and {plain.name} has none; evaluate them on the same table")
    labels = PAIR_LABELS if row == "pair" else LABELS
    keys = [name for name in labels if all(name in result.rows.columns for result in results)]
    images = [name for name in keys if name != row and name != "group"]
    if row in keys and images and all(_numbered(result.rows, row, images) for result in results):
        keys.remove(row)
    shared, sizes = _common_rows(results, keys, ["n", "M", *["weight"] * bool(weighted)])
    notes = [
        f"{name}: {size - len(shared)} of {size} {row}s are not in the others and are left out"
        for name, size in zip(_short_names(results), sizes, strict=True)
        if size > len(shared)
    ]
    # Rows that are only numbered have the numbers of the first result, whose votes are used.
    numbers = first.rows.select(*keys, row).unique() if row not in keys else shared.select(keys)
    shared = shared.select(keys).join(numbers, on=keys, maintain_order="left")
    parts: dict[tuple[str, str], list[pl.DataFrame]] = {}
    training: dict[tuple[str, str], Record] = {}
    for result, named in zip(results, _named(results), strict=True):
        for key, part in result.rows.group_by("distance", "estimator", "seed", maintain_order=True):
            name, estimator = named[str(key[0])], str(key[1])
            own = part if row in keys else part.drop(row)
            rows = shared.join(own, on=keys, maintain_order="left")
            parts.setdefault((name, estimator), []).append(rows)
            training[name, estimator] = result.card.get("training") or {}
    votes = first.votes if all(result.votes is not None for result in results) else None
    return SharedRows(results, parts, training, votes, notes)


def _numbered(rows: pl.DataFrame, row: str, images: Sequence[str]) -> bool:
    """Whether rows are only numbered, as those of a table without names are, while their images identify them."""
    named = rows.select(row, *images).unique(maintain_order=True)
    numbers = [str(number) for number in range(len(named))]
    return named[row].to_list() == numbers and not named.select(images).is_duplicated().any()


def _common_rows(
    results: Sequence[Result], keys: Sequence[str], votes: Sequence[str]
) -> tuple[pl.DataFrame, list[int]]:
    """Return the rows that all results have, in the order of the first, and the number of rows of each result.

    The columns ``keys`` identify a row, and the columns ``votes`` must be the same in all results.
    """
    row, shared, sizes = results[0].row, None, list[int]()
    for result in results:
        rows = result.rows.select(*keys, *votes).unique(maintain_order=True)
        if rows.select(keys).is_duplicated().any():
            raise DataError(f"{result.name} has {row}s of one name; give them a column {row} with a name for each")
        sizes.append(len(rows))
        if shared is None:
            shared = rows
            continue
        both = shared.join(rows, on=keys, suffix="_other", maintain_order="left")
        unlike = both.filter(pl.any_horizontal(pl.col(name) != pl.col(f"{name}_other") for name in votes))
        if len(unlike):
            own, others = (", ".join(f"{name}={unlike[name + end][0]}" for name in votes) for end in ("", "_other"))
            named = unlike[row][0] if row in keys else " ".join(map(str, unlike.select(keys).row(0)))
            raise DataError(
                f"folders are compared on the same test table; {row} {named} has {own} and, in {result.name}, "
                f"{others} ({len(unlike)} of {len(both)} {row}s); rows of different tables need different names"
            )
        shared = both.select(*keys, *votes)
    assert shared is not None
    if shared.is_empty():
        raise DataError(f"the folders share no {row}, by {', '.join(keys)}; compare results on the same test table")
    return shared, sizes


def _named(results: Sequence[Result]) -> list[dict[str, str]]:
    """Name the distances of each result, with the name of its folder if several results have one of this name."""
    distances = [result.distances for result in results]
    times = Counter(name for names in distances for name in names)
    return [
        {name: name if times[name] == 1 else f"{name} ({folder})" for name in names}
        for names, folder in zip(distances, _short_names(results), strict=True)
    ]


def _short_names(results: Sequence[Result]) -> list[str]:
    """Name results by the last part of their folder, or all of it if two share that; those in memory by number."""
    names = [
        f"result {number}" if result.folder is None else result.name for number, result in enumerate(results, start=1)
    ]
    last = [Path(name).resolve().name for name in names]
    return [short if last.count(short) == 1 else name for short, name in zip(last, names, strict=True)]


def _table(run: pl.DataFrame, votes: pl.DataFrame | None, k: int) -> Votes:
    """Return the tested rows as a table, with their single votes if these are known."""
    labels = [name for name in run.columns if name in (LABELS if k == 2 else PAIR_LABELS)]
    weight = ["weight"] * ("weight" in run.columns)
    table: Votes = (Triplets if k == 2 else Pairs).from_frame(run.select(*labels, "n", "M", *weight, *ENDS[k]))
    if votes is None:
        return table
    place = run.select(table.row).with_row_index("row")
    joined = votes.join(place, on=table.row, maintain_order="left").filter(pl.col("row").is_not_null())
    return replace(table, votes=joined.with_columns(pl.col("row").cast(pl.Int64)).drop(table.row))
