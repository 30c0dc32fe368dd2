"""Fits of estimators to distances, and P on triplets that they have not seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.errors import DataError
from twoafc.estimators import Estimator, Fit
from twoafc.evaluation.binning import Binning
from twoafc.evaluation.settings import Settings
from twoafc.rows import Rows
from twoafc.triplets import Triplets


class Measured(Protocol):
    """A table with distances: of triplets, or of pairs."""

    @property
    def distances(self) -> Mapping[str, Any]:
        """Values by the name of the distance."""


@dataclass(frozen=True)
class Run:
    """One fit of one estimator, with one seed, on one distance; from counts, with what their bins cost it."""

    distance: str
    estimator: str
    seed: int | None
    fit: Fit
    binning: Binning | None = None

    @property
    def diverged(self) -> bool:
        """Whether the fit says of itself that it failed."""
        return bool(getattr(self.fit, "diverged", False))


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

    def run(self, train: Triplets) -> Run:
        """Fit to a table that has the distance."""
        return Run(self.distance, self.estimator, self.seed, self.settings.fit(train[self.distance]))


@dataclass(frozen=True, eq=False)
class Prediction:
    """P of one fit on the triplets of one split; the table has the one distance."""

    run: Run
    split: str
    table: Rows
    P: FloatArray
    diverged: bool

    @property
    def triplets(self) -> Triplets:
        """The table, of one whose rows are triplets."""
        assert isinstance(self.table, Triplets)
        return self.table


def shared_distances(
    train: Measured, test: Measured | None, asked: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Choose the distances to evaluate; say which are left out for want of columns in the other table."""
    notes = []
    if asked is None and test is not None:
        asked = [name for name in train.distances if name in test.distances]
        lone = [name for name in (*train.distances, *test.distances) if name not in asked]
        if not asked:
            held = [", ".join(table.distances) or "none" for table in (train, test)]
            raise DataError(f"train and test must share a distance; train has {held[0]}, test has {held[1]}")
        if lone:
            notes.append(f"left out, since only one of the two tables has them: {', '.join(lone)}")
    names = list(train.distances if asked is None else asked)
    for role, table in (("train", train), ("test", test)):
        missing = [name for name in names if table is not None and name not in table.distances]
        if table is not None and missing:
            raise DataError(f"the {role} table has no distance {missing[0]}; it has {', '.join(table.distances)}")
    return names, notes


def jobs(distances: Sequence[str], estimators: Mapping[str, Estimator], settings: Settings) -> list[Job]:
    """List the fits to make: each estimator on each distance, once per seed where it has one."""
    return [
        Job(distance, label, seed, each)
        for distance in distances
        for label, estimator in estimators.items()
        for seed, each in _seeded(estimator, settings)
    ]


def _seeded(each: Estimator, settings: Settings) -> list[tuple[int | None, Estimator]]:
    """Give an estimator that has a seed one setting per seed; one that has none is run once."""
    if not (dataclasses.is_dataclass(each) and hasattr(each, "seed")):
        return [(None, each)]
    seeds = range(settings.seed, settings.seed + settings.seeds)
    return [(seed, dataclasses.replace(each, seed=seed)) for seed in seeds]


def predictions(
    job: Job, run: Run, train: Triplets, test: Triplets | None, fold: IntArray | None
) -> Iterator[Prediction]:
    """Give P on the training table and on triplets that the fit has not seen: a test table, or the folds."""
    seen = train[run.distance]
    yield Prediction(run, "train", seen, probability(run, seen.d0, seen.d1), run.diverged)
    if test is not None:
        unseen = test[run.distance]
        yield Prediction(run, "test", unseen, probability(run, unseen.d0, unseen.d1), run.diverged)
    if fold is not None:
        P, failed = np.empty(len(train)), False
        for k in range(fold.max() + 1):
            part, rows = seen.where(fold == k), fold == k
            refit = dataclasses.replace(run, fit=job.settings.fit(seen.where(fold != k)))
            P[rows], failed = probability(refit, part.d0, part.d1), failed or refit.diverged
            yield Prediction(run, f"fold-{k}", part, P[rows], refit.diverged)
        yield Prediction(run, "test", seen, P, failed)


def probability(run: Run, d0: FloatArray, d1: FloatArray) -> FloatArray:
    """Ask a fit for P and hold it to its promise: one number in [0, 1] per triplet, unless it diverged."""
    P = np.asarray(run.fit.probability(d0, d1), dtype=np.float64)
    if P.shape != d0.shape:
        raise DataError(f"{run.estimator} must give one P per triplet, {d0.shape}; found {P.shape}")
    wrong = ~((P >= 0) & (P <= 1))
    if wrong.any() and not run.diverged:
        row = int(np.argmax(wrong))
        raise DataError(f"{run.estimator} must give P in [0, 1]; row {row} has P={P[row]} ({wrong.sum()} of {P.size})")
    return P
