"""The one loop: fit estimators to distances, predict rows that they have not seen, cross-validate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.errors import DataError
from twoafc.estimators import Estimator
from twoafc.evaluation.settings import Settings
from twoafc.results import Run, known_name
from twoafc.table import Votes


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
        train = self.train[name]
        test = train if self.test is self.train else None if self.test is None else self.test[name]
        return self._replace(train=train, test=test)

    @property
    def tables(self) -> dict[str, Votes]:
        """The tables by their roles."""
        return {"train": self.train} if self.test is None else {"train": self.train, "test": self.test}

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
    """Which estimators are fitted to which distances of a table, and which distances are learned from the votes."""

    names: Sequence[str]
    estimators: Mapping[str, Estimator]
    learned: Learned = field(default_factory=dict)

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
    train: Mapping[str, Any], test: Mapping[str, Any] | None, asked: str | Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Choose the distances to evaluate from those of the tables, by name; a note lists those in one table only."""
    notes = []
    asked = [asked] if isinstance(asked, str) else asked
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


@dataclass(frozen=True, eq=False)
class Prediction:
    """P of one fit on the rows of one split; the table has the one distance.

    ``floor`` is the constant P to beat: 1/2 for triplets, the share of "same" in the fitted votes for pairs.
    """

    run: Run
    split: str
    table: Votes
    P: FloatArray
    diverged: bool
    floor: FloatArray


def predictions(task: Task, run: Run, data: Data) -> Iterator[Prediction]:
    """Yield P on the training table and on the tested rows: see `unseen_predictions`."""
    data = data.of(run.distance)
    train = predicted(run, "train", data.train, data.train)
    yield train
    if data.test is data.train:
        yield replace(train, split="test")
    else:
        yield from unseen_predictions(task, run, data)


def unseen_predictions(task: Task, run: Run, data: Data) -> Iterator[Prediction]:
    """Yield P on rows that the fit has not seen: the test table or, by cross-validation, each fold, then all."""
    data = data.of(run.distance)
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
