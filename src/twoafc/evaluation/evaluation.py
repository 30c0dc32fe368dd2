"""Fit every estimator to every distance of one table and score it on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import polars as pl

from twoafc.diagnostics import Finding, check
from twoafc.errors import DataError
from twoafc.estimators import AUTO, Estimator, Spline, estimator
from twoafc.evaluation.bars import Analytic, Bars, Bootstrap, Refit
from twoafc.evaluation.loop import Prediction, jobs, predictions, refits, shared_distances
from twoafc.evaluation.reach import ceiling_of, with_explained
from twoafc.evaluation.records import (
    Scored,
    records_of,
    scored,
    summaries,
    tested,
    warnings,
    with_bars,
    with_letters,
    without_bars,
)
from twoafc.evaluation.settings import Progress, Settings
from twoafc.inference import Goodness, Record, Together, Values, goodness_of_fit, mean_values, together
from twoafc.results import Result, Run, describe_table, make_card
from twoafc.table import Votes, assign_folds, split_key


def evaluate(
    train: Votes,
    test: Votes | None = None,
    *,
    distances: Sequence[str] | None = None,
    estimators: Sequence[str] | Mapping[str, Estimator] = ("density",),
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Result:
    """Fit every estimator to every distance of the training table and score it on the test table.

    Parameters
    ----------
    train, test : Triplets or Pairs, both of one kind
        P is fitted on `train`. Without `test` the training table is cross-validated, whole references at a time where
        they are known, and the scores of the split "test" are those of rows left out.
    distances : names, default all that both tables have
    estimators : names, or a mapping of a name of your own to an estimator

    Examples
    --------
    >>> from twoafc import Triplets
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> d0, d1 = rng.random((2, 500))
    >>> table = Triplets.from_frame({"n": rng.binomial(2, d0 / (d0 + d1)), "M": [2] * 500, "d0": d0, "d1": d1})
    >>> result = evaluate(table, settings=Settings(folds=2))
    >>> result.frame().filter(split="test", group="all")["triplets"].item()
    500
    """
    settings = settings or Settings()
    _check_kinds(train, test, settings)
    chosen = estimators if isinstance(estimators, Mapping) else {name: estimator(name) for name in estimators}
    names, notes = shared_distances(train, test, distances)
    if isinstance(chosen.get("auto"), Spline):
        notes.append(AUTO)
    fold = None if test is not None else assign_folds(train, settings.folds, seed=settings.seed)
    if test is None:
        key = split_key(train)
        notes.append(f"no test table: {settings.folds}-fold cross-validation, split by {key}")
    way = _way(train, test, names, chosen, settings, progress)
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
            link = links.get(split) or links.setdefault(split, together(prediction.votes))
            one = scored(prediction, settings, link)
            bars = way.of_scores(one, link)
            scores += with_bars(one.records, bars) if bars else without_bars(one.records)
            units |= {(split, group): error.units for group, error in bars.items()}
            if split == "test":
                unseen.append(one)
    if progress:
        progress(len(todo), len(todo), "scores")
    notes += [*([_floor(train, scores)] if train.k == 1 else []), *dict.fromkeys(warnings(scores))]
    if settings.seeds > 1:
        scores += summaries(scores, units)
    comparisons = _comparisons(unseen, links["test"], way)
    scores = with_letters(scores, comparisons)
    reach = ceiling_of(unseen[0], links["test"]) if train.k == 2 else None
    if reach is not None:
        scores = with_explained(scores, [(one, links["test"]) for one in unseen], reach)
    tables = {"train": train} | ({} if test is None else {"test": test})
    data = {role: describe_table(table) for role, table in tables.items()}
    return Result(
        row=train.row,
        scores=scores,
        triplets=pl.concat([tested(one) for one in unseen]),
        runs=runs,
        notes=notes,
        comparisons=comparisons,
        goodness=_goodness(unseen, links["test"]),
        error_bars=_worded(f"{way.told}; {links['test'].told}", train.row),
        ceiling=reach,
        votes=_ballots(unseen[0].prediction.votes),
        findings=_checked(names, train, test),
        card=make_card(data, chosen, asdict(settings), runs),
    )


def _worded(text: str, row: str) -> str:
    """Say of pairs and their curves what is said of triplets and their surfaces."""
    return text if row == "triplet" else text.replace("surfaces", "curves").replace("triplet", row)


def _floor(train: Votes, scores: Sequence[Record]) -> str:
    record = next(record for record in scores if (record["split"], record["group"]) == ("test", "all"))
    precision = record["average_precision_floor"]
    ranked = "" if precision is None else f", and {precision:.2f} % average precision comes without any order"
    return (
        f"floor: the constant P = {train.share:.3f}, the share of same in the training votes, has an NLL of "
        f"{record['nll_floor']:.4f} ({record['nll_per_vote_floor']:.4f} per vote){ranked}"
    )


def _ballots(table: Votes) -> pl.DataFrame | None:
    """Single votes by the name of their triplet."""
    if table.votes is None or "observer" not in table.votes.columns:
        return None
    named = table.labels[table.row].gather(table.votes["row"])
    return table.votes.select(named.alias(table.row), "choice", "swapped", "observer")


def _check_kinds(train: Votes, test: Votes | None, settings: Settings) -> None:
    if test is not None and test.k != train.k:
        raise DataError(f"train and test must hold rows of one kind; train has {train.row}s, test {test.row}s")
    if train.k == 1 and settings.ties != "half":
        raise ValueError(f"ties are a matter of 2AFC scores, which pairs do not have; found ties={settings.ties!r}")


def _checked(names: Sequence[str], *tables: Votes | None) -> list[Finding]:
    """Check the distances that were evaluated."""
    kept = [
        replace(table, distances={name: table.distances[name] for name in names})
        for table in tables
        if table is not None
    ]
    return check(*kept)


def _way(
    train: Votes,
    test: Votes | None,
    names: Sequence[str],
    estimators: Mapping[str, Estimator],
    settings: Settings,
    progress: Progress | None,
) -> Bars:
    if settings.error_bars == "bootstrap":
        return Bootstrap(settings.draws, settings.seed)
    if settings.error_bars == "refit":

        def score(prediction: Prediction) -> list[Record]:
            # Votes drawn for an expected score would add a noise of their own to the spread.
            return records_of(prediction, settings, draws=0)

        drawn = refits(train, test, lambda drawn: jobs(names, estimators, drawn), score, settings, progress)
        return Refit(drawn, on_test=test is not None)
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
        table = one.prediction.votes
        if one.key not in held and one.values is not None and not one.prediction.diverged:
            held[one.key] = goodness_of_fit(table, one.prediction.P, link)
    return held
