"""Fit every estimator to the counts of one table and score it on those of another: as `evaluate`, at any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twoafc.counted import CountedTriplets
from twoafc.counts import Counts
from twoafc.diagnostics import Finding
from twoafc.estimators import AUTO, Density, Estimator, Network, Ours, Spline, estimator
from twoafc.estimators.origin import fit_counts
from twoafc.evaluation.bars import Analytic
from twoafc.evaluation.binning import binning
from twoafc.evaluation.evaluation import Evaluation
from twoafc.evaluation.reach import ceiling_of, with_explained
from twoafc.evaluation.records import Scored, scored, summaries, warnings, with_bars, without_bars
from twoafc.evaluation.runs import Job, Prediction, Run, jobs, probability, shared_distances
from twoafc.evaluation.settings import Progress, Settings
from twoafc.inference.counted import alone, by_reference
from twoafc.inference.errorbars import Together
from twoafc.scores import Record

FloatArray = NDArray[np.float64]

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
    test: Mapping[str, Counts],
    *,
    distances: Sequence[str] | None = None,
    estimators: Sequence[str] | Mapping[str, Estimator] = ("density",),
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Fit every estimator to every distance of the training counts and score it on the test counts.

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
    names, notes = shared_distances(_Counted(train), _Counted(test), distances)
    ours, told = _ours(chosen)
    notes += [*told, ABSENT]
    todo = jobs(names, ours, settings)
    scores: list[Record] = []
    units: dict[tuple[str, str], float] = {}
    runs: list[Run] = []
    unseen: list[tuple[Scored, Together]] = []
    tables: dict[tuple[str, str], CountedTriplets] = {}
    for done, job in enumerate(todo):
        if progress:
            progress(done, len(todo), str(job))
        for split, counts in (("train", train), ("test", test)):
            if (split, job.distance) not in tables:
                tables = {key: each for key, each in tables.items() if key[1] == job.distance}  # others are done with
                tables[split, job.distance] = CountedTriplets.of(counts[job.distance])
        runs.append(_run(job, train[job.distance], tables["train", job.distance]))
        for split in ("train", "test"):
            one = _scored(runs[-1], split, tables[split, job.distance], settings)
            held, link = _by_reference(one)
            bars = Analytic().of_scores(held, link)
            scores += with_bars(one.records, bars) if bars else without_bars(one.records)
            units |= {(split, group): error.units for group, error in bars.items()}
            if split == "test":
                unseen.append((held, link))
    if progress:
        progress(len(todo), len(todo), "scores")
    notes += [*dict.fromkeys(warnings(scores)), *_told(runs)]
    if settings.seeds > 1:
        scores += summaries(scores, units)
    reach = ceiling_of(*unseen[0])
    return Evaluation(
        scores=with_explained(scores, unseen, reach),
        triplets=None,
        runs=runs,
        notes=notes,
        error_bars=f"{Analytic().told}; {unseen[0][1].told}",
        ceiling=reach,
        findings=[UNCHECKED],
    )


def _check(settings: Settings) -> None:
    none = "draws triplets, and counts have none"
    if settings.error_bars != "analytic":
        raise ValueError(f"error bars of counts are analytic; {settings.error_bars} {none}")
    if settings.simulated_seed is not None:
        raise ValueError(f"simulated scores of counts are exact expectations; a seed {none}")


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
    return Run(job.distance, job.estimator, job.seed, fit, binning(fit, counts, table))


def _scored(run: Run, split: str, table: CountedTriplets, settings: Settings) -> Scored:
    """Score a fit on counts; P is asked for once at every place."""
    first, place = table.places
    P = probability(run, table.d0[first], table.d1[first])[place]
    return scored(Prediction(run, split, table, P, run.diverged), settings, Together(alone(table)))


def _by_reference(one: Scored) -> tuple[Scored, Together]:
    """Give what error bars rest on: the scores by reference where the counts kept references, else as they are.

    References were counted on wider bins: a value there is the mean over the triplets in them, so that all means stay.
    """
    table = one.prediction.table
    assert isinstance(table, CountedTriplets)
    kept = table.references
    if kept is None or table.wide is None:
        return one, Together(alone(table))
    row = kept.row
    groups = None if table.groups is None else (table.groups[0], table.groups[1][row])
    entries = CountedTriplets(
        table.d0[row], table.d1[row], table.n[row], table.M[row], kept.times, table.uniform, groups
    )
    values = one.values
    if values is not None:
        total = np.bincount(table.wide, table.count)
        means = [np.bincount(table.wide, table.count * column) / total for column in values.columns.T]
        columns = np.stack([mean[kept.wide] for mean in means], axis=1)
        values = replace(values, columns=columns, M=entries.M, count=kept.times)
    prediction = replace(one.prediction, table=entries, P=one.prediction.P[row])
    return replace(one, prediction=prediction, values=values), Together(by_reference(table))


def _told(runs: Sequence[Run]) -> Iterator[str]:
    """Say what the bins cost: of all runs the most, and a warning for each in which it is a standard error of P."""
    known = [(run, run.binning) for run in runs if run.binning is not None and run.binning.error_P_in_se is not None]
    if known:
        run, worst = max(known, key=lambda pair: pair[1].error_P_in_se or 0.0)
        yield (
            f"counted in bins, {worst.per_octave} for each doubling of a distance: P is moved by about "
            f"{worst.error_P:.2g}, {worst.error_P_in_se:.2g} of its standard error, in the worst fit "
            f"({run.distance}, {run.estimator})"
        )
    for run, found in known:
        if (found.error_P_in_se or 0.0) >= 1:
            yield (
                f"warning: {run.distance}, {run.estimator}: the bins cost more than a standard error of P; "
                f"count again with more than {found.per_octave} of them for each doubling"
            )
