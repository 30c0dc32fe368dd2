"""Fit every estimator to every distance of one table and score it on another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from twoafc import folds as cross_validation
from twoafc.diagnostics import Finding, check
from twoafc.estimators import AUTO, Estimator, Spline, estimator
from twoafc.evaluation.bars import Analytic, Bars, Bootstrap, Refit
from twoafc.evaluation.reach import ceiling_of, told_ceiling, with_explained
from twoafc.evaluation.records import (
    Scored,
    scored,
    summaries,
    tested,
    warnings,
    with_bars,
    with_letters,
    without_bars,
)
from twoafc.evaluation.refits import refits
from twoafc.evaluation.runs import Job, Run, jobs, predictions, shared_distances
from twoafc.evaluation.settings import Progress, Settings
from twoafc.inference.ceiling import Ceiling
from twoafc.inference.errorbars import Together, Values, mean_values, together
from twoafc.inference.goodness import Goodness, goodness_of_fit
from twoafc.scores import Record
from twoafc.triplets import Triplets


@dataclass(frozen=True)
class Evaluation:
    """Scores of distances on votes, with what they were made from.

    Attributes
    ----------
    scores : list of records
        One per distance, estimator, seed, split and group, each measure with its error bar.
    triplets : polars.DataFrame or None
        P and NLL of every tested triplet, for each distance and estimator, in long form; None of counts.
    runs : list of Run
        The fits to the whole training table.
    notes : list of str
        What a reader should know: how the test was made, what was left out, which runs diverged.
    comparisons : list of records
        Paired differences between distances on the tested triplets: see `twoafc.inference.comparisons`.
    goodness : mapping of (distance, estimator) to Goodness
        How P suits the votes that it was tested on; of seeds, the first that did not diverge.
    error_bars : str
        What the error bars are of, in words, and which triplets were taken to go together.
    ceiling : Ceiling
        Floor and ceiling that the tested votes imply, whatever the distance.
    findings : list of Finding
        What is wrong, or worth knowing, about the tables: see `twoafc.check`.
    votes : polars.DataFrame or None
        The single votes on the tested triplets, where their observers are known.
    """

    scores: list[Record]
    triplets: pl.DataFrame | None
    runs: list[Run]
    notes: list[str]
    comparisons: list[Record] = field(default_factory=list)
    goodness: dict[tuple[str, str], Goodness] = field(default_factory=dict)
    error_bars: str = ""
    ceiling: Ceiling | None = None
    findings: list[Finding] = field(default_factory=list)
    votes: pl.DataFrame | None = None

    def remarks(self) -> list[str]:
        """Say what a reader of the tables should know: floor and ceiling, notes, and findings about the tables."""
        reach = [] if self.ceiling is None else told_ceiling(self.ceiling)
        return [*reach, *self.notes, *map(str, self.findings)]

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
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> d0, d1 = rng.random((2, 500))
    >>> table = Triplets.from_frame({"n": rng.binomial(2, d0 / (d0 + d1)), "M": [2] * 500, "d0": d0, "d1": d1})
    >>> result = evaluate(table, settings=Settings(folds=2))
    >>> result.frame().filter(split="test", group="all")["triplets"].item()
    500
    """
    settings = settings or Settings()
    chosen = estimators if isinstance(estimators, Mapping) else {name: estimator(name) for name in estimators}
    names, notes = shared_distances(train, test, distances)
    if isinstance(chosen.get("auto"), Spline):
        notes.append(AUTO)
    fold = None if test is not None else cross_validation.assign(train, settings.folds, seed=settings.seed)
    if test is None:
        key = cross_validation.split_key(train)
        notes.append(f"no test table: {settings.folds}-fold cross-validation, split by {key}")
    way = _way(train, test, lambda drawn: jobs(names, chosen, drawn), settings, progress)
    links: dict[str, Together] = {}
    scores: list[Record] = []
    units: dict[tuple[str, str], float] = {}
    runs: list[Run] = []
    unseen: list[Scored] = []
    todo = jobs(names, chosen, settings)
    for done, job in enumerate(todo):
        if progress:
            progress(done, len(todo), str(job))
        runs.append(job.run(train))
        for prediction in predictions(job, runs[-1], train, test, fold):
            split = prediction.split
            link = links.get(split) or links.setdefault(split, together(prediction.triplets))
            one = scored(prediction, settings, link)
            bars = way.of_scores(one, link)
            scores += with_bars(one.records, bars) if bars else without_bars(one.records)
            units |= {(split, group): error.units for group, error in bars.items()}
            if split == "test":
                unseen.append(one)
    if progress:
        progress(len(todo), len(todo), "scores")
    notes += dict.fromkeys(warnings(scores))
    if settings.seeds > 1:
        scores += summaries(scores, units)
    comparisons = _comparisons(unseen, links["test"], way)
    scores = with_letters(scores, comparisons)
    held = _goodness(unseen, links["test"])
    reach = ceiling_of(unseen[0], links["test"])
    return Evaluation(
        scores=with_explained(scores, [(one, links["test"]) for one in unseen], reach),
        triplets=pl.concat([tested(one) for one in unseen]),
        runs=runs,
        notes=notes,
        comparisons=comparisons,
        goodness=held,
        error_bars=f"{way.told}; {links['test'].told}",
        ceiling=reach,
        votes=_ballots(unseen[0].prediction.triplets),
        findings=check(*(_only(table, names) for table in (train, test) if table is not None)),
    )


def _ballots(table: Triplets) -> pl.DataFrame | None:
    """Single votes by the name of their triplet."""
    if table.votes is None or "observer" not in table.votes.columns:
        return None
    named = table.labels["triplet"].gather(table.votes["row"])
    return table.votes.select(named.alias("triplet"), "choice", "swapped", "observer")


def _only(table: Triplets, names: Sequence[str]) -> Triplets:
    """Keep the distances that were evaluated."""
    return replace(table, distances={name: table.distances[name] for name in names})


def _way(
    train: Triplets,
    test: Triplets | None,
    plan: Callable[[Settings], Sequence[Job]],
    settings: Settings,
    progress: Progress | None,
) -> Bars:
    if settings.error_bars == "bootstrap":
        return Bootstrap(settings.draws, settings.seed)
    if settings.error_bars == "refit":
        return Refit(refits(train, test, plan, settings, progress), on_test=test is not None)
    return Analytic()


def _comparisons(unseen: Sequence[Scored], link: Together, way: Bars) -> list[Record]:
    """Compare the distances under each estimator; where there are seeds, the means over those that did not diverge."""
    found: list[Record] = []
    for label in dict.fromkeys(one.key[1] for one in unseen):
        kept: dict[str, list[Values]] = {}
        for one in unseen:
            if one.key[1] == label and one.values is not None and not one.prediction.diverged:
                kept.setdefault(one.key[0], []).append(one.values)
        found += way.compared({name: mean_values(each) for name, each in kept.items()}, link, label)
    return found


def _goodness(unseen: Sequence[Scored], link: Together) -> dict[tuple[str, str], Goodness]:
    held: dict[tuple[str, str], Goodness] = {}
    for one in unseen:
        if one.key not in held and one.values is not None and not one.prediction.diverged:
            held[one.key] = goodness_of_fit(one.prediction.triplets, one.prediction.P, link)
    return held
