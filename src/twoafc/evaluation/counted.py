"""Fit every estimator to the counts of one table and score it on those of another: as `evaluate`, at any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np

from twoafc.counted import CountedTriplets
from twoafc.counts import Counts
from twoafc.diagnostics import Finding
from twoafc.estimators import AUTO, Density, Estimator, Loaded, Network, Ours, Spline, estimator
from twoafc.estimators.origin import asked, fit_counts
from twoafc.evaluation.bars import Analytic
from twoafc.evaluation.bin_notes import bin_notes
from twoafc.evaluation.binning import binning
from twoafc.evaluation.by_reference import by_reference, with_hidden
from twoafc.evaluation.gathering import gathered
from twoafc.evaluation.left_out import left_out
from twoafc.evaluation.loop import Job, Prediction, floor_of, jobs, probability_at, shared_distances
from twoafc.evaluation.reach import ceiling_of, with_explained
from twoafc.evaluation.records import Scored, scored, summaries, warnings, with_bars, without_bars
from twoafc.evaluation.settings import Progress, Settings
from twoafc.inference import Record, Together
from twoafc.inference.counted import alone
from twoafc.results import Result, Run, describe_counts, make_card

ABSENT = (
    "from counts: paired comparisons, goodness of fit and whatever is told of single triplets need the triplets "
    "themselves and are left out"
)
UNCHECKED = Finding(
    "unchecked",
    "note",
    "both",
    None,
    "the tables were counted, not checked",
    "what twoafc check looks at is in single triplets",
    "run it on a part of them",
)
BY_LBFGS = "network on counts: L-BFGS on all votes at once, since Adam takes triplets one at a time"


@dataclass(frozen=True)
class _Counted:
    """Counts by distance, as `shared_distances` looks at tables."""

    distances: Mapping[str, Counts]


def evaluate_counts(
    train: Mapping[str, Counts],
    test: Mapping[str, Counts] | None = None,
    *,
    distances: Sequence[str] | None = None,
    estimators: Sequence[str] | Mapping[str, Estimator] = ("density",),
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Result:
    """Fit every estimator to every distance of the training counts and score it on the test counts.

    Without these the training counts are cross-validated, single triplets in folds: references are not kept apart.

    Scores are those of `evaluate` but for the width of the bins; each run says what that costs it (`Run.binning`).
    Error bars are clustered by reference where the test counts kept theirs. What needs single triplets is absent:
    comparisons, goodness of fit, findings, triplets.

    Parameters
    ----------
    train, test : mapping of distance to Counts
        As `twoafc.engine.count` gives them.
    distances, estimators, settings, progress
        As for `evaluate`; an estimator of your own cannot be told of counts, and error bars are analytic.

    Examples
    --------
    >>> from twoafc import Triplets, worlds
    >>> from twoafc.counts import tally
    >>> votes = [Triplets.from_frame(worlds.simulate("weber", triplets=2000, votes=2, seed=seed)) for seed in (1, 2)]
    >>> train, test = ({"distance": tally(table)} for table in votes)
    >>> result = evaluate_counts(train, test)
    >>> result.frame().filter(split="test")["triplets"].item(), result.error_bars.split("; ")[-1]
    (2000, 'not clustered: the counts keep no references')
    """
    settings = settings or Settings()
    _check(settings)
    chosen = estimators if isinstance(estimators, Mapping) else {name: estimator(name) for name in estimators}
    names, notes = shared_distances(_Counted(train), None if test is None else _Counted(test), distances)
    ours, told = _ours(chosen)
    if test is None:
        notes.append(f"no test table: {settings.folds}-fold cross-validation; folds split triplets, not references")
    said = (each for table in (train, test) if table for name in names for each in table[name].notes)
    notes += [*told, ABSENT, *dict.fromkeys(said)]
    todo = jobs(names, ours, settings)
    scores: list[Record] = []
    units: dict[tuple[str, str], float] = {}
    runs: list[Run] = []
    unseen: list[tuple[Scored, Together]] = []
    tables: dict[tuple[str, int], CountedTriplets] = {}
    for done, job in enumerate(todo):
        if progress:
            progress(done, len(todo), str(job))
        both = {"train": train[job.distance]} | ({} if test is None else {"test": test[job.distance]})
        tables = {key: each for key, each in tables.items() if key[0] == job.distance}  # others are done with
        for counts in both.values():
            if (job.distance, id(counts)) not in tables:
                fitted = tables.get((job.distance, id(both["train"])))
                tables[job.distance, id(counts)] = CountedTriplets.of(counts, fitted)
        splits = {split: tables[job.distance, id(counts)] for split, counts in both.items()}
        runs.append(_run(job, both["train"], splits["train"]))
        for one in _splits(job, runs[-1], both["train"], splits, settings):
            split = one.prediction.split
            held, link = by_reference(one)
            # A fold does not know its references, so that where there are any its errors are not known.
            lost = split.startswith("fold") and splits["train"].references is not None
            bars = {} if lost else Analytic().of_scores(held, link)
            if bars and held is not one:
                bars = with_hidden(one, bars)
            scores += with_bars(one.records, bars) if bars else without_bars(one.records)
            units |= {(split, group): error.units for group, error in bars.items()}
            if split == "test":
                unseen.append((held, link))
    if progress:
        progress(len(todo), len(todo), "scores")
    notes += [*dict.fromkeys(warnings(scores)), *bin_notes(runs)]
    if settings.seeds > 1:
        scores += summaries(scores, units)
    reach = ceiling_of(*unseen[0])
    counted = {"train": train} | ({} if test is None else {"test": test})
    data = {role: describe_counts(counts) for role, counts in counted.items()}
    used = {run.estimator: asked(cast(Loaded, run.fit)) for run in runs}
    return Result(
        scores=with_explained(scores, unseen, reach),
        runs=runs,
        notes=notes,
        error_bars=f"{Analytic().told}; {unseen[0][1].told}",
        ceiling=reach,
        findings=[UNCHECKED if test is not None else replace(UNCHECKED, table="train")],
        card=make_card(data, used, asdict(settings), runs),
    )


def _check(settings: Settings) -> None:
    none = "draws triplets, and counts have none"
    if settings.error_bars != "analytic":
        raise ValueError(f"error bars of counts are analytic; {settings.error_bars} {none}")


def _ours(chosen: Mapping[str, Estimator]) -> tuple[dict[str, Ours], list[str]]:
    """Estimators that know of counts, with Adam's place taken by L-BFGS; and what a reader should know of that."""
    ours: dict[str, Ours] = {}
    notes = []
    for name, each in chosen.items():
        if not isinstance(each, Density | Network | Spline):
            raise ValueError(f"counts can be fitted by density, spline and network; {name} takes triplets")
        if isinstance(each, Network) and each.solver == "adam":
            each = replace(each, solver="lbfgs")
            notes.append(BY_LBFGS)
        if name == "auto":
            notes.append(AUTO)
        ours[name] = each
    return ours, notes


def _run(job: Job, counts: Counts, table: CountedTriplets) -> Run:
    assert isinstance(job.settings, Density | Network | Spline)
    fit = fit_counts(job.settings, counts, table)
    return Run(job.distance, job.estimator, job.seed, fit, binning(fit, table))


def _splits(
    job: Job, run: Run, counts: Counts, splits: Mapping[str, CountedTriplets], settings: Settings
) -> Iterator[Scored]:
    """Score a fit on the training counts and on what it has not seen: test counts, or the folds."""
    one = _scored(run, "train", splits["train"], settings)
    yield one
    if "test" not in splits:
        for prediction in left_out(job, run, counts, splits["train"], settings):
            assert isinstance(prediction.table, CountedTriplets)
            yield scored(prediction, settings, Together(alone(prediction.table)))
    elif splits["test"] is splits["train"]:
        yield _renamed(one, "test")
    else:
        yield _scored(run, "test", splits["test"], settings)


def _scored(run: Run, split: str, table: CountedTriplets, settings: Settings) -> Scored:
    """Score a fit on counts; P is asked for once at every place."""
    P = probability_at(run, table.places.d0, table.places.d1)
    if table.references is None and np.isfinite(P).all():
        table, P = gathered(table, P)
    else:
        P = P[table.place]
    return scored(
        Prediction(run, split, table, P, run.diverged, floor_of(table, len(P))), settings, Together(alone(table))
    )


def _renamed(one: Scored, split: str) -> Scored:
    """Give the scores of one split as those of another that has the same counts."""
    records = [record | {"split": split} for record in one.records]
    return replace(one, prediction=replace(one.prediction, split=split), records=records)
