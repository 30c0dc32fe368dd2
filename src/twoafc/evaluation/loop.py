"""The one loop: fit estimators to distances, predict rows that they have not seen, cross-validate, refit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.errors import DataError
from twoafc.estimators import Estimator
from twoafc.evaluation.settings import FOLDS, Progress, Settings
from twoafc.inference import Record, all_measures, clustering_of, drawn_rows
from twoafc.results import Run, known_name
from twoafc.table import Votes, assign_folds, most_folds


class Data(NamedTuple):
    """The tables of an evaluation; without a test table, each row of the training table has a fold, shape (T,).

    ``kept`` are the training rows that may be fitted, shape (T,), if not all.
    """

    train: Votes
    test: Votes | None
    fold: IntArray | None = None
    kept: BoolArray | None = None

    def of(self, name: str) -> Data:
        """Return the tables with one distance."""
        return self._replace(train=self.train[name], test=None if self.test is None else self.test[name])

    @property
    def tested(self) -> Votes:
        """The table whose rows are predicted."""
        return self.train if self.test is None else self.test

    def parts(self) -> Iterator[tuple[BoolArray, IntArray]]:
        """Yield the training rows to fit and the tested rows to predict: once, or for each fold."""
        kept = np.ones(len(self.train), dtype=np.bool_) if self.kept is None else self.kept
        if self.fold is None:
            yield kept, np.arange(len(self.tested))
            return
        for k in range(self.fold.max() + 1):
            yield kept & (self.fold != k), np.flatnonzero(self.fold == k)

    @property
    def fitted_rows(self) -> int:
        """Effective number of rows of the smallest table that is fitted."""
        rows = self.train.mass
        return int(rows.sum() - (0 if self.fold is None else np.bincount(self.fold, rows).max()))


@dataclass(frozen=True, eq=False)
class Task:
    """A fit to be made: the estimator with its seed, under the name that the user gave it."""

    distance: str
    estimator: str
    seed: int | None
    settings: Estimator

    def __str__(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.distance}, {self.estimator}{seed}"

    def run(self, train: Votes) -> Run:
        """Fit to a table that has the distance."""
        return Run(self.distance, self.estimator, self.seed, self.settings.fit(train[self.distance]))


Learned = Mapping[str, Estimator]
"""Distances of which a table has many numbers for each image pair, columns of shape (T, K), by name. The estimator of
each learns how to reduce them to one: its fits have a method ``reduce``, from (T, K) to (T,)."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Which estimators are fitted to which distances of a table, and which distances are learned from the votes.

    ``comparisons`` are the pairs of distances to compare, each with the ``baseline`` if there is one; default all.
    """

    names: Sequence[str]
    estimators: Mapping[str, Estimator]
    learned: Learned = field(default_factory=dict)
    baseline: str | None = None
    comparisons: Sequence[tuple[str, str]] = ()

    def tasks(self, settings: Settings) -> list[Task]:
        """List the fits: each estimator on each distance, once per seed if it has one, then the learned distances."""
        single = [
            Task(distance, label, seed, seeded)
            for distance in self.names
            for label, estimator in self.estimators.items()
            for seed, seeded in _seeded(estimator, settings)
        ]
        return single + [
            Task(name, label, None, estimator) for name, estimator in self.learned.items() for label in self.estimators
        ]


def _seeded(estimator: Estimator, settings: Settings) -> list[tuple[int | None, Estimator]]:
    """Return an estimator once per seed; once, with seed None, if it has no seed."""
    if not (is_dataclass(estimator) and hasattr(estimator, "seed")):
        return [(None, estimator)]
    seeds = range(settings.seed, settings.seed + settings.seeds)
    return [(seed, replace(estimator, seed=seed)) for seed in seeds]


def shared_distances(
    train: Mapping[str, Any], test: Mapping[str, Any] | None, asked: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Choose the distances to evaluate from those of the tables, by name; a note lists those in one table only."""
    notes = []
    if asked is None and test is not None:
        asked = [name for name in train if name in test]
        lone = [name for name in (*train, *test) if name not in asked]
        if not asked:
            names_of = [", ".join(table) or "none" for table in (train, test)]
            raise DataError(f"train and test must share a distance; train has {names_of[0]}, test has {names_of[1]}")
        if lone:
            notes.append(f"left out, since only one of the two tables has them: {', '.join(lone)}")
    names = [known_name(name, train) for name in (train if asked is None else asked)]
    for role, table in (("train", train), ("test", test)):
        missing = [name for name in names if table is not None and name not in table]
        if table is not None and missing:
            raise DataError(f"the {role} table has no distance {missing[0]}; it has {', '.join(table)}")
    return names, notes


class HalfPredictions(NamedTuple):
    """P by fits to complementary halves of the training table, on the rows that are tested."""

    P: FloatArray  # shape (splits, 2, T)
    crossed: bool  # whether the training table was cross-validated
    df: float  # degrees of freedom of the noise of training: the splits, or fewer where there are few references


@dataclass(frozen=True, eq=False)
class Prediction:
    """P of one fit on the rows of one split; the table has the one distance.

    ``floor`` is the constant P to beat: 1/2 for triplets, the share of "same" in the fitted votes for pairs.
    ``halves`` are predictions by fits to complementary halves of the training table, if they were made.
    """

    run: Run
    split: str
    table: Votes
    P: FloatArray
    diverged: bool
    floor: FloatArray
    halves: HalfPredictions | None = None


def predictions(task: Task, run: Run, data: Data) -> Iterator[Prediction]:
    """Yield P on the training table and on rows that the fit has not seen: the test table, or each fold, then all."""
    data = data.of(run.distance)
    yield predicted(run, "train", data.train, data.train)
    if data.test is not None:
        yield predicted(run, "test", data.train, data.test)
        return
    parts = []
    for rows, part in crossed(task.run, data):
        parts.append((rows, part))
        yield part
    yield replace(joined(parts, data.tested), run=run)


def crossed(fit: Callable[[Votes], Run], data: Data) -> Iterator[tuple[IntArray, Prediction]]:
    """Yield the tested rows of one distance part by part, each predicted by a fit to other rows."""
    for k, (fitted, rows) in enumerate(data.parts()):
        others = data.train if fitted.all() else data.train.where(fitted)
        part = data.tested if data.fold is None else data.tested.where(rows)
        yield rows, predicted(fit(others), f"fold-{k}", others, part)


def joined(parts: Iterable[tuple[IntArray, Prediction]], tested: Votes) -> Prediction:
    """Put the parts of the tested rows together, under the run of the last."""
    P, floor, *columns = np.empty((2 + tested.k, len(tested)))
    diverged = False
    for rows, part in parts:
        for whole, own in zip((P, floor, *columns), (part.P, part.floor, *part.table.columns), strict=True):
            whole[rows] = own
        diverged = diverged or part.diverged
    table = replace(tested, distances={part.run.distance: tuple(columns)})
    return Prediction(part.run, "test", table, P, diverged, floor)


def predicted(run: Run, split: str, seen: Votes, table: Votes) -> Prediction:
    """Predict a table by a fit; a learned distance is reduced to one number per image pair."""
    reduce = getattr(run.fit, "reduce", None)
    if reduce is not None:
        table = replace(table, distances={run.distance: tuple(map(reduce, table.columns))})
    floor = np.full(len(table), 0.5 if seen.k == 2 else seen.share)
    return Prediction(run, split, table, probability(run, table.columns), run.diverged, floor)


def probability(run: Run, columns: tuple[FloatArray, ...]) -> FloatArray:
    """Return P at the columns of a distance; it must be one number in [0, 1] per row unless the fit diverged."""
    P = np.asarray(run.fit.probability(*columns), dtype=np.float64)
    if P.shape != columns[0].shape:
        raise DataError(f"{run.estimator} must give one P per row, {columns[0].shape}; found {P.shape}")
    wrong = ~((P >= 0) & (P <= 1))
    if wrong.any() and not run.diverged:
        row = int(np.argmax(wrong))
        raise DataError(f"{run.estimator} must give P in [0, 1]; row {row} has P={P[row]} ({wrong.sum()} of {P.size})")
    return P


Key = tuple[str, str, str, str]
"""Distance, estimator, split, group."""


def bootstrap_refits(
    data: Data,
    fits: Fits,
    score: Callable[[Prediction], list[Record]],
    settings: Settings,
    progress: Progress | None = None,
) -> dict[Key, FloatArray]:
    """Fit to bootstrap samples of the training table and score again: shape (draws, measures) for each score.

    With a test table, all draws are scored on the same test rows: their spread is the error of the fit alone, to which
    that of the rows is added. Without one, the drawn table is cross-validated and the spread is the whole error. The
    mean over draws is not used: a drawn table has fewer different rows, so fits to it are a little worse. `score`
    turns a prediction into its records, without error bars.
    """
    rng = np.random.default_rng(settings.seed)
    rows, measures = clustering_of(data.train).rows, all_measures(data.train.k)
    replicates: dict[Key, FloatArray] = {}
    for draw in range(settings.draws):
        if progress:
            progress(draw, settings.draws, "fitting to drawn tables")
        drawn = _redrawn(data.train, drawn_rows(rows, rng))
        # Another seed for each draw: what a seed decides is part of the error.
        current = replace(settings, seeds=1, seed=settings.seed + draw)
        fold = None if data.test is not None else _folds(drawn, current)
        if data.test is None and fold is None:
            continue
        for task in fits.tasks(current):
            for prediction in predictions(task, task.run(drawn), Data(drawn, data.test, fold)):
                if prediction.diverged:
                    continue
                for record in score(prediction):
                    key = (record["distance"], record["estimator"], record["split"], record["group"])
                    drawn_scores = replicates.setdefault(key, np.full((settings.draws, len(measures)), np.nan))
                    drawn_scores[draw] = [np.nan if record[name] is None else record[name] for name in measures]
    return replicates


def _folds(drawn: Votes, settings: Settings) -> IntArray | None:
    """Folds of a drawn table, fewer if it has fewer references than folds; None if it has only one."""
    most = most_folds(drawn)
    if most < 2:
        return None
    return assign_folds(drawn, min(FOLDS if settings.folds is None else settings.folds, most), seed=settings.seed)


def _redrawn(table: Votes, rows: IntArray) -> Votes:
    """Take rows as often as they were drawn; copies of a row share a reference, so that they share a fold."""
    drawn = table.at(rows)
    labels = drawn.labels
    if "ref0" not in labels.columns and ("ref" not in labels.columns or labels["ref"].n_unique() == 1):
        labels = labels.with_columns(ref=pl.col(table.row))
    copies = pl.Series(table.row, np.arange(len(rows))).cast(pl.String)
    return replace(drawn, labels=labels.with_columns(copies))
