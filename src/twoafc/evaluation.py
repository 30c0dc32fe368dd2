"""Fit on one table, score on another: by distance, estimator, seed and group."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc import folds as cross_validation
from twoafc.errors import DataError
from twoafc.estimators import AUTO, Estimator, Fit, Spline, estimator
from twoafc.metrics import Ties
from twoafc.scores import MEASURES, Record, by_group, over_seeds, per_triplet
from twoafc.triplets import Triplets

FloatArray = NDArray[np.float64]
Split = Literal["train", "test"]
Progress = Callable[[int, int, str], None]
"""Called with the fits done, the fits in all, and what comes next."""


@dataclass(frozen=True)
class Settings:
    """What an evaluation depends on beside its tables.

    Parameters
    ----------
    folds : int
        Parts of the training table for cross-validation, where there is no test table.
    seeds : int
        Runs of an estimator that has a seed; their mean and spread are reported.
    seed : int
        Seed of the folds, and the first of the estimators' seeds.
    ties : "half" or "x0"
        What a tie is worth in a 2AFC score.
    simulated_seed : int or None
        Draw the simulated scores with this seed, as the paper does; None gives their exact expectation.
    """

    folds: int = 5
    seeds: int = 1
    seed: int = 0
    ties: Ties = "half"
    simulated_seed: int | None = None

    def __post_init__(self) -> None:
        for name, least in {"seeds": 1, "seed": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}; found {getattr(self, name)}")
        if self.ties not in ("half", "x0"):
            raise ValueError(f"ties must be half or x0; found {self.ties!r}")


@dataclass(frozen=True)
class Run:
    """One fit of one estimator, with one seed, on one distance."""

    distance: str
    estimator: str
    seed: int | None
    fit: Fit

    @property
    def diverged(self) -> bool:
        """Whether the fit says of itself that it failed."""
        return bool(getattr(self.fit, "diverged", False))


@dataclass(frozen=True)
class Evaluation:
    """Scores of distances on votes, with what they were made from.

    Attributes
    ----------
    scores : list of records
        One per distance, estimator, seed, split and group.
    triplets : polars.DataFrame
        P and NLL of every tested triplet, for each distance and estimator, in long form.
    runs : list of Run
        The fits to the whole training table.
    notes : list of str
        What a reader should know: how the test was made, what was left out, which runs diverged.
    """

    scores: list[Record]
    triplets: pl.DataFrame
    runs: list[Run]
    notes: list[str]

    def frame(self) -> pl.DataFrame:
        """Give the scores as a frame."""
        return pl.DataFrame(self.scores, infer_schema_length=None)


def evaluate(
    train: Triplets,
    test: Triplets | None = None,
    *,
    distances: Sequence[str] | None = None,
    estimators: Sequence[str] | Mapping[str, Estimator] = ("density",),
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Fit every estimator to every distance of the training table and score it on the test table.

    Parameters
    ----------
    train, test : Triplets
        P is fitted on `train`. Without `test` the training table is cross-validated, whole references at a time where
        they are known, and the scores of the split "test" are those of triplets left out.
    distances : names, default all that both tables have
    estimators : names, or a mapping of a name of your own to an estimator

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> d0, d1 = rng.random((2, 500))
    >>> table = Triplets.from_frame({"n": rng.binomial(2, d0 / (d0 + d1)), "M": [2] * 500, "d0": d0, "d1": d1})
    >>> result = evaluate(table, settings=Settings(folds=2))
    >>> result.frame().filter(split="test", group="all")["triplets"].item()
    500
    """
    settings = settings or Settings()
    chosen = estimators if isinstance(estimators, Mapping) else {name: estimator(name) for name in estimators}
    names, notes = _distances(train, test, distances)
    if isinstance(chosen.get("auto"), Spline):
        notes.append(AUTO)
    fold = None if test is not None else cross_validation.assign(train, settings.folds, seed=settings.seed)
    if test is None:
        key = cross_validation.split_key(train)
        notes.append(f"no test table: {settings.folds}-fold cross-validation, split by {key}")
    jobs = [(name, label, run) for name in names for label, each in chosen.items() for run in _seeded(each, settings)]
    scores: list[Record] = []
    tested: list[pl.DataFrame] = []
    runs: list[Run] = []
    for done, (name, label, (seed, each)) in enumerate(jobs):
        if progress:
            progress(done, len(jobs), f"{name}, {label}" if seed is None else f"{name}, {label}, seed {seed}")
        run = Run(name, label, seed, each.fit(train[name]))
        runs.append(run)
        for split, table, P, diverged in _predictions(run, each, train, test, fold):
            scores.extend(_records(run, split, table, P, diverged, settings))
            if split == "test":
                tested.append(_tested(run, table, P))
    if progress:
        progress(len(jobs), len(jobs), "scores")
    notes.extend(_warnings(scores))
    if settings.seeds > 1:
        scores = [*scores, *_summaries(scores)]
    return Evaluation(scores, pl.concat(tested), runs, notes)


def _distances(train: Triplets, test: Triplets | None, asked: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Choose the distances to evaluate; say which are left out for want of columns in the other table."""
    notes = []
    if asked is None and test is not None:
        asked = [name for name in train.distances if name in test.distances]
        lone = [name for name in (*train.distances, *test.distances) if name not in asked]
        if not asked:
            raise DataError(
                f"train and test must share a distance; train has {', '.join(train.distances)}, "
                f"test has {', '.join(test.distances)}"
            )
        if lone:
            notes.append(f"left out, since only one of the two tables has them: {', '.join(lone)}")
    names = list(train.distances if asked is None else asked)
    for role, table in (("train", train), ("test", test)):
        missing = [name for name in names if table is not None and name not in table.distances]
        if table is not None and missing:
            raise DataError(f"the {role} table has no distance {missing[0]}; it has {', '.join(table.distances)}")
    return names, notes


def _seeded(each: Estimator, settings: Settings) -> list[tuple[int | None, Estimator]]:
    """Give an estimator that has a seed one setting per seed; one that has none is run once."""
    if not (dataclasses.is_dataclass(each) and hasattr(each, "seed")):
        return [(None, each)]
    seeds = range(settings.seed, settings.seed + settings.seeds)
    return [(seed, dataclasses.replace(each, seed=seed)) for seed in seeds]


def _predictions(
    run: Run, each: Estimator, train: Triplets, test: Triplets | None, fold: NDArray[np.int64] | None
) -> Iterator[tuple[str, Triplets, FloatArray, bool]]:
    """Give P on the training table and on triplets that the fit has not seen: (split, table, P, diverged)."""
    seen = train[run.distance]
    yield "train", seen, _probability(run, seen), run.diverged
    if test is not None:
        unseen = test[run.distance]
        yield "test", unseen, _probability(run, unseen), run.diverged
    if fold is not None:
        P, failed = np.empty(len(train)), False
        for k in range(fold.max() + 1):
            part, rows = seen.where(fold == k), fold == k
            refit = dataclasses.replace(run, fit=each.fit(seen.where(fold != k)))
            P[rows], failed = _probability(refit, part), failed or refit.diverged
            yield f"fold-{k}", part, P[rows], refit.diverged
        yield "test", seen, P, failed


def _probability(run: Run, table: Triplets) -> FloatArray:
    """Ask a fit for P and hold it to its promise: one number in [0, 1] per triplet, unless it diverged."""
    P = np.asarray(run.fit.probability(table.d0, table.d1), dtype=np.float64)
    if P.shape != table.d0.shape:
        raise DataError(f"{run.estimator} must give one P per triplet, {table.d0.shape}; found {P.shape}")
    wrong = ~((P >= 0) & (P <= 1))
    if wrong.any() and not run.diverged:
        row = int(np.argmax(wrong))
        raise DataError(f"{run.estimator} must give P in [0, 1]; row {row} has P={P[row]} ({wrong.sum()} of {P.size})")
    return P


def _records(
    run: Run, split: str, table: Triplets, P: FloatArray, diverged: bool, settings: Settings
) -> Iterator[Record]:
    head = {"distance": run.distance, "estimator": run.estimator, "split": split}
    tail = {"seed": run.seed, "diverged": int(diverged)}
    unscored = not np.isfinite(P).all()
    given = np.full(len(table), 0.5) if unscored else P
    values = per_triplet(table, given, ties=settings.ties, simulated_seed=settings.simulated_seed)
    for record in by_group(table, values):
        if unscored:
            record |= dict.fromkeys((*MEASURES, "nll_per_vote", "ties_model"))
        if not split.startswith("fold") or record["group"] == "all":
            yield {**head, **record, **tail}


def _summaries(scores: Sequence[Record]) -> list[Record]:
    """Mean and spread over seeds, one record for each distance, estimator, split and group that has seeds."""
    runs: dict[tuple[Any, ...], list[Record]] = {}
    for record in scores:
        if record["seed"] is not None:
            runs.setdefault(tuple(record[name] for name in ("distance", "estimator", "split", "group")), []).append(
                record
            )
    return [over_seeds(group) for group in runs.values()]


def _warnings(records: Sequence[Record]) -> list[str]:
    """Say of scores what their numbers alone would not make plain."""
    told: dict[str, None] = {}
    for record in records:
        seed = "" if record["seed"] is None else f", seed {record['seed']}"
        name = f"{record['distance']}, {record['estimator']}{seed}"
        if record["diverged"] and record["split"] != "test":
            where = "" if record["split"] == "train" else f" on {record['split']}"
            told[f"{name}: the run{where} diverged"] = None
        elif record["nll"] == np.inf and record["split"] == "test" and record["group"] == "all":
            told[f"{name}: the NLL on test is infinite; votes were cast to which it gives no chance"] = None
    return list(told)


def _tested(run: Run, table: Triplets, P: FloatArray) -> pl.DataFrame:
    nll = per_triplet(table, P)["nll"] if np.isfinite(P).all() else np.full(len(table), np.nan)
    return table.labels.with_columns(
        n=pl.Series(table.n),
        M=pl.Series(table.M),
        distance=pl.lit(run.distance),
        estimator=pl.lit(run.estimator),
        seed=pl.lit(run.seed, dtype=pl.Int64),
        d0=pl.Series(table.d0),
        d1=pl.Series(table.d1),
        P=pl.Series(P),
        nll=pl.Series(nll),
    )
