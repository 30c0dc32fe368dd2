"""The one loop: fit estimators to distances, predict rows that they have not seen, cross-validate, refit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray, IntArray
from twoafc.errors import DataError
from twoafc.estimators import Estimator
from twoafc.evaluation.settings import FOLDS, Progress, Settings
from twoafc.inference import Record, all_measures, clustering_of, drawn_rows
from twoafc.results import Run, known_name
from twoafc.table import Votes, assign_folds, most_folds


class Measured(Protocol):
    """A table with distances: of triplets, or of pairs."""

    @property
    def distances(self) -> Mapping[str, Any]:
        """Values by the name of the distance."""


@dataclass(frozen=True, eq=False)
class Job:
    """A fit that is to be made: the settings with their seed, under the name that the user gave them."""

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


class HalfFits(NamedTuple):
    """P by fits to complementary halves of the training table, on the rows that are tested.

    Parameters
    ----------
    P : array, shape (splits, 2, T)
    crossed : bool
        Whether the training table was cross-validated.
    freedom : float
        Degrees of freedom of the noise of training: the splits, or fewer where there are few references.
    """

    P: FloatArray
    crossed: bool
    freedom: float


@dataclass(frozen=True, eq=False)
class Prediction:
    """P of one fit on the rows of one split; the table has the one distance.

    ``floor`` is the constant P to beat: 1/2 of triplets, of pairs the share of "same" in the votes that were fitted.
    ``halves`` are predictions by fits to complementary halves of the training table, where they were made.
    """

    run: Run
    split: str
    table: Votes
    P: FloatArray
    diverged: bool
    floor: FloatArray
    halves: HalfFits | None = None


def shared_distances(
    train: Measured, test: Measured | None, asked: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Choose the distances to evaluate; say which are left out for want of columns in the other table."""
    notes = []
    if asked is None and test is not None:
        asked = [name for name in train.distances if name in test.distances]
        lone = [name for name in (*train.distances, *test.distances) if name not in asked]
        if not asked:
            names_of = [", ".join(table.distances) or "none" for table in (train, test)]
            raise DataError(f"train and test must share a distance; train has {names_of[0]}, test has {names_of[1]}")
        if lone:
            notes.append(f"left out, since only one of the two tables has them: {', '.join(lone)}")
    names = [known_name(name, train.distances) for name in (train.distances if asked is None else asked)]
    for role, table in (("train", train), ("test", test)):
        missing = [name for name in names if table is not None and name not in table.distances]
        if table is not None and missing:
            raise DataError(f"the {role} table has no distance {missing[0]}; it has {', '.join(table.distances)}")
    return names, notes


Learned = Mapping[str, Estimator]
"""Distances of which a table has many numbers for each image pair, columns of shape (T, K), by name. The estimator of
each learns how to reduce them to one: its fits have a method ``reduce``, from (T, K) to (T,)."""


def jobs(
    distances: Sequence[str], estimators: Mapping[str, Estimator], settings: Settings, learned: Learned | None = None
) -> list[Job]:
    """List the fits to make: each estimator on each distance, once per seed where it has one; then learned ones."""
    single = [
        Job(distance, label, seed, seeded)
        for distance in distances
        for label, estimator in estimators.items()
        for seed, seeded in _seeded(estimator, settings)
    ]
    return single + [
        Job(name, label, None, estimator) for name, estimator in (learned or {}).items() for label in estimators
    ]


def reduced(run: Run, table: Votes) -> Votes:
    """Return a table with one number for each image pair: of a learned distance, what its fit makes of many."""
    columns = _reduced(run, table.columns)
    return table if columns is table.columns else dataclasses.replace(table, distances={run.distance: columns})


def _reduced(run: Run, columns: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    reduce = getattr(run.fit, "reduce", None)
    return columns if reduce is None else tuple(map(reduce, columns))


def _seeded(each: Estimator, settings: Settings) -> list[tuple[int | None, Estimator]]:
    """Give an estimator that has a seed one setting per seed; one that has none is run once."""
    if not (dataclasses.is_dataclass(each) and hasattr(each, "seed")):
        return [(None, each)]
    seeds = range(settings.seed, settings.seed + settings.seeds)
    return [(seed, dataclasses.replace(each, seed=seed)) for seed in seeds]


def predictions(job: Job, run: Run, train: Votes, test: Votes | None, fold: IntArray | None) -> Iterator[Prediction]:
    """Yield P on the training table and on rows that the fit has not seen: a test table, or the folds."""
    seen = train[run.distance]
    for split, table in (("train", seen), ("test", None if test is None else test[run.distance])):
        if table is not None:
            P, floor = probability(run, table), floor_of(seen, len(table))
            yield Prediction(run, split, reduced(run, table), P, run.diverged, floor)
    if fold is None:
        return
    P, floor, failed, parts = np.empty(len(train)), np.empty(len(train)), False, []
    for k in range(fold.max() + 1):
        rows, others = np.flatnonzero(fold == k), seen.where(fold != k)
        part, refit = seen.where(rows), dataclasses.replace(run, fit=job.settings.fit(others))
        P[rows], floor[rows] = probability(refit, part), floor_of(others, len(rows))
        failed = failed or refit.diverged
        parts.append((rows, reduced(refit, part)))
        yield Prediction(run, f"fold-{k}", parts[-1][1], P[rows], refit.diverged, floor[rows])
    yield Prediction(run, "test", rejoined(seen, parts), P, failed, floor)


def rejoined(table: Votes, parts: Sequence[tuple[IntArray, Votes]]) -> Votes:
    """Give a table the distances of its folds: of learned ones, those by the fit to the other folds."""
    if all(column.ndim == 1 for column in table.columns):
        return table
    columns = tuple(np.empty(len(table)) for _ in range(table.k))
    for rows, part in parts:
        for column, own in zip(columns, part.columns, strict=True):
            column[rows] = own
    return dataclasses.replace(table, distances={next(iter(table.distances)): columns})


def floor_of(train: Votes, rows: int) -> FloatArray:
    """Constant P that any fit to a table has to beat."""
    return np.full(rows, 0.5 if train.k == 2 else train.share)


def probability(run: Run, table: Votes) -> FloatArray:
    """Ask a fit for P on the rows of a table: see `probability_at`."""
    return probability_at(run, *table.columns)


def probability_at(run: Run, *columns: FloatArray) -> FloatArray:
    """Ask a fit for P and check its promise: one number in [0, 1] per row, unless it diverged."""
    columns = _reduced(run, columns)
    P = np.asarray(run.fit.probability(*columns), dtype=np.float64)
    if P.shape != columns[0].shape:
        raise DataError(f"{run.estimator} must give one P per row, {columns[0].shape}; found {P.shape}")
    wrong = ~((P >= 0) & (P <= 1))
    if wrong.any() and not run.diverged:
        row = int(np.argmax(wrong))
        raise DataError(f"{run.estimator} must give P in [0, 1]; row {row} has P={P[row]} ({wrong.sum()} of {P.size})")
    return P


Scorer = Callable[[Prediction], list[Record]]
Key = tuple[str, str, str, str]
"""Distance, estimator, split, group."""


def refits(
    train: Votes,
    test: Votes | None,
    plan: Callable[[Settings], Sequence[Job]],
    score: Scorer,
    settings: Settings,
    progress: Progress | None = None,
) -> dict[Key, FloatArray]:
    """Draw the training table anew, fit and score again, as often as the settings say: (draws, measures) a score.

    Scores on a test table are those of the same test rows: their spread is the error of the fit alone, to which that of
    the rows is added. Without one the drawn table is cross-validated, and the spread is all there is. The mean of the
    draws is not used: a drawn table has fewer different rows, so that fits to it are a little worse.

    Parameters
    ----------
    plan : callable
        Lists the fits to make.
    score : callable
        Turns a prediction into its records, without error bars.
    """
    rng = np.random.default_rng(settings.seed)
    rows, measures = clustering_of(train).drawable, all_measures(train.k)
    replicates: dict[Key, FloatArray] = {}
    for draw in range(settings.draws):
        if progress:
            progress(draw, settings.draws, "fitting to drawn tables")
        drawn = _redrawn(train, drawn_rows(rows, rng))
        # Another seed for each draw: what a seed decides is part of the error.
        current = dataclasses.replace(settings, seeds=1, seed=settings.seed + draw)
        fold = None if test is not None else _folds(drawn, current)
        if test is None and fold is None:
            continue
        for job in plan(current):
            for prediction in predictions(job, job.run(drawn), drawn, test, fold):
                if prediction.diverged:
                    continue
                for record in score(prediction):
                    key = (record["distance"], record["estimator"], record["split"], record["group"])
                    drawn_scores = replicates.setdefault(key, np.full((settings.draws, len(measures)), np.nan))
                    drawn_scores[draw] = [np.nan if record[name] is None else record[name] for name in measures]
    return replicates


def _folds(drawn: Votes, settings: Settings) -> IntArray | None:
    """Folds of a drawn table, fewer where it has fewer references than that; None where it has one."""
    most = most_folds(drawn)
    if most < 2:
        return None
    return assign_folds(drawn, min(FOLDS if settings.folds is None else settings.folds, most), seed=settings.seed)


def _redrawn(table: Votes, rows: IntArray) -> Votes:
    """Take rows as often as they were drawn; copies of a row share a reference, and are left out together."""
    drawn = table.at(rows)
    labels = drawn.labels
    if "ref0" not in labels.columns and ("ref" not in labels.columns or labels["ref"].n_unique() == 1):
        labels = labels.with_columns(ref=pl.col(table.row))
    copies = pl.Series(table.row, np.arange(len(rows))).cast(pl.String)
    return dataclasses.replace(drawn, labels=labels.with_columns(copies))
