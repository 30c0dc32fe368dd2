"""Fit every estimator to every distance of one table and score it on another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray, IntArray
from twoafc.diagnostics import Finding, check
from twoafc.errors import DataError
from twoafc.estimators import AUTO, CountsEstimator, Density, Estimator, Model, Network, Spline, estimator
from twoafc.evaluation.bars import Analytic, Bars, Bootstrap, Refit
from twoafc.evaluation.halves import (
    fit_to_halves,
    included_estimators,
    noise_is_estimated,
    noisy_estimators,
    split_into_halves,
    training_card,
    training_caveats,
    training_words,
)
from twoafc.evaluation.loop import (
    Job,
    Learned,
    Prediction,
    jobs,
    predictions,
    refits,
    shared_distances,
)
from twoafc.evaluation.records import (
    Scored,
    ceiling_of,
    records_of,
    scored,
    summaries,
    tested,
    warnings,
    with_bars,
    with_explained,
    with_halves,
    with_letters,
    without_bars,
)
from twoafc.evaluation.settings import FOLDS, Progress, Settings
from twoafc.inference import (
    COMPARED,
    Clustering,
    Goodness,
    Record,
    Values,
    clustering_of,
    goodness_of_fit,
    keep_planned,
    mean_values,
    planned_pairs,
)
from twoafc.metrics import log_likelihood
from twoafc.results import Result, Run, describe_counts, describe_table, known_names, make_card
from twoafc.scale import Counts, carrying
from twoafc.table import Votes, as_votes, most_folds, native_kind, split_note, split_rows

ABSENT = (
    "from counts: paired comparisons, goodness of fit and results of single triplets need the triplets themselves and "
    "are left out"
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
LEAST_ROWS = 5
"""Fewer rows than this are refused: there is nothing to say of them."""
PAPERS_DENSITY = "the paper's density"
BY_LBFGS = "network on counts: L-BFGS on all votes at once, since Adam takes triplets one at a time"


def evaluate(
    train: Any,
    test: Any = None,
    *,
    distances: str | Sequence[str] | None = None,
    estimators: str | Estimator | Sequence[str | Estimator] | Mapping[str, Estimator] = "auto",
    baseline: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    settings: Settings | None = None,
    progress: Progress | None = None,
    **changes: Any,
) -> Result:
    """Fit every estimator to every distance of the training table and score it on the test table.

    Parameters
    ----------
    train, test : Triplets or Pairs, both of one kind, a path or a frame of them, or counts (see `twoafc.count`)
        P is fitted on `train`. Without `test` the training table is cross-validated, whole references at a time where
        they are known, and the scores of the split "test" are those of rows left out. Scores of counts are those of the
        triplets but for the width of the bins; what needs single triplets is absent: comparisons, goodness of fit,
        findings, triplets.
    distances : names, default all that both tables have
    estimators : names or estimators, or a mapping of a name of your own to an estimator
        Default "auto", a spline that chooses its smoothness from the data; "density" is the paper's. A note says
        whether the paper's density gives the same order.
    baseline : name of a distance, optional
        Compare every other distance with this one, instead of all with each other.
    pairs : list of two names each, optional
        Compare these pairs, instead of all; p-values and intervals are corrected for what is asked and nothing else.
    settings : Settings, optional
    **changes
        Settings by their names: ``folds=10``, ``error_bars="refit"``; see `Settings`.

    Examples
    --------
    >>> from twoafc import Triplets
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> d0, d1 = rng.random((2, 500))
    >>> table = Triplets.from_frame({"n": rng.binomial(2, d0 / (d0 + d1)), "M": [2] * 500, "d0": d0, "d1": d1})
    >>> result = evaluate(table, folds=2)
    >>> result.frame().filter(split="test", group="all")["triplets"].item()
    500
    """
    settings = changed_settings("evaluate", settings, changes)
    chosen, distances = _estimators(estimators), [distances] if isinstance(distances, str) else distances
    if _are_counts(train) or _are_counts(test):
        if not _are_counts(train) or not (test is None or _are_counts(test)):
            raise TypeError("train and test must both be tables, or both counts of distances")
        if baseline is not None or pairs:
            raise ValueError("comparisons need single triplets, which counts do not have")
        return _evaluate_counts(train, test, distances, chosen, settings, progress)
    tables = as_votes(train), None if test is None else as_votes(test)
    result = evaluate_tables(*tables, distances, chosen, settings, progress, baseline=baseline, pairs=pairs)
    return result.replace(_native=native_kind(train))


def evaluate_tables(
    train: Votes,
    test: Votes | None,
    distances: Sequence[str] | None,
    chosen: Mapping[str, Estimator],
    settings: Settings,
    progress: Progress | None,
    *,
    baseline: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    learned: Learned | None = None,
) -> Result:
    """Evaluate the distances of tables, and distances that are learned of their training table on the way."""
    learned = learned or {}
    _check_kinds(train, test, settings)
    counted = train.count is not None
    names, notes = shared_distances(train, test, distances)
    if not counted:
        _check_sizes(train, test)
    baseline, pairs = known_names([*names, *learned], baseline, pairs)
    planned = planned_pairs([*names, *learned], baseline, pairs)
    if test is not None and (train.weight is None) != (test.weight is None):
        weighted, alike = ("test", "train") if train.weight is None else ("train", "test")
        notes.append(f"only {weighted} has a column weight: rows of {alike} count alike")
    if train.weight is not None:
        own = [name for name, given in chosen.items() if not isinstance(given, CountsEstimator)]
        notes += [f"{name}: its fit is weighted only if it uses table.mass" for name in own]
    if isinstance(chosen.get("auto"), Spline):
        notes.append(AUTO)
    fold = None
    if test is None:
        if settings.folds is None:
            settings = replace(settings, folds=max(2, min(FOLDS, most_folds(train))))
        train, fold = split_rows(train, settings.folds or 0, seed=settings.seed)
        notes.append(f"no test table: {split_note(train, fold)}")

    def plan(current: Settings) -> list[Job]:
        return jobs(names, chosen, current, learned)

    method = _method(train, test, plan, settings, progress)
    todo = plan(settings)
    parts, clusterings = _fit_and_score(todo, train, test, fold, settings, progress)
    single = [part.scored for part in parts if part.job.distance not in learned]
    noisy = noisy_estimators(single, chosen, clusterings, crossed=test is None)
    included = included_estimators(noisy, chosen, train, fold, settings)
    if learned and noise_is_estimated(train, fold, settings):
        noisy, included = [*noisy, *learned], [*included, *learned]
    splits = 0
    if included:
        half = split_into_halves(train, fold, seed=settings.seed)
        parts, splits = [*_with_noise(parts, included, train, test, fold, half, settings, progress)], len(half)
    scores: list[Record] = []
    units: dict[tuple[str, str], FloatArray] = {}
    for _, _, one in parts:
        split = one.prediction.split
        bars = method.of_scores(one, clusterings[split])
        scores += with_bars(one.records, bars) if bars else without_bars(one.records)
        units |= {(split, group): error.units for group, error in bars.items()}
    runs, unseen = _by_split(parts)
    if progress:
        progress(len(todo), len(todo), "scores")
    notes += [*([_floor(train, scores)] if train.k == 1 else []), *dict.fromkeys(warnings(scores))]
    papers = _papers_density(names, chosen, train, test, fold, settings)
    notes += _density_note(scores, papers)
    if settings.seeds > 1:
        scores += summaries(scores, units)
    comparisons = [] if counted else _comparisons(unseen, clusterings["test"], method)
    if planned:
        comparisons = keep_planned(comparisons, planned, COMPARED[train.k])
    else:
        scores = with_letters(scores, comparisons)
    reach = ceiling_of(unseen, clusterings["test"]) if train.k == 2 else None
    if reach is not None:
        scores = with_explained(scores, [(one, clusterings["test"]) for one in unseen], reach)
    words = training_words(train, chosen, noisy, included, settings)
    tables = {} if counted else {"train": train} | ({} if test is None else {"test": test})
    # With all distances that were read, used or not: the explorer finds a table again by its contents.
    data = {
        role: describe_table(only(table, [name for name in table.distances if name not in learned]))
        for role, table in tables.items()
    }
    return Result(
        row=train.row,
        scores=scores,
        triplets=None if counted else pl.concat([tested(one, splits) for one in unseen]),
        runs=runs,
        notes=notes,
        comparisons=comparisons,
        goodness={} if counted else _goodness(unseen, clusterings["test"]),
        error_bars=_worded(f"{method.description}; {words}{clusterings['test'].description}", train.row),
        ceiling=reach,
        votes=_ballots(unseen[0].prediction.table),
        findings=[replace(UNCHECKED, table="both" if test is not None else "train")]
        if counted
        else _checked(names, train, test),
        card=make_card(data, chosen, asdict(settings), runs)
        | training_card(unseen)
        | {
            "caveats": [
                *(_worded(caveat, train.row) for caveat in clusterings["test"].caveats()),
                *training_caveats(unseen, noisy, included, train, fold, settings),
            ],
            "paper_density_nll": _finite(papers),
        }
        | ({"baseline": baseline, "planned": [list(pair) for pair in planned]} if planned else {}),
    )


def changed_settings(function: str, settings: Settings | None, changes: Mapping[str, Any]) -> Settings:
    """Settings with changes by name, for a function; a wrong name gets the likely one."""
    if not isinstance(settings, Settings | None):
        raise TypeError(f"settings must be twoafc.Settings(...); got {type(settings).__name__}")
    known = [field.name for field in fields(Settings)]
    for name in changes:
        if name not in known:
            arguments = [
                "train",
                "test",
                "distances",
                "estimators",
                "baseline",
                "pairs",
                "settings",
                "progress",
                *known,
            ]
            likely = get_close_matches(name, arguments, 1)
            hint = f"; perhaps {likely[0]}" if likely else ""
            raise TypeError(f"{function} has no argument {name!r}{hint}")
    return replace(settings or Settings(), **changes)


def _estimators(asked: Any) -> dict[str, Estimator]:
    """Estimators by the names that results have for them: their own, or that of their kind."""
    if not isinstance(asked, Mapping):
        several = asked if isinstance(asked, list | tuple) else [asked]
        asked = {item if isinstance(item, str) else type(item).__name__.lower(): item for item in several}
    chosen = {name: estimator(given) if isinstance(given, str) else given for name, given in asked.items()}
    for name, made in chosen.items():
        if not callable(getattr(made, "fit", None)):
            raise TypeError(f"an estimator has a method fit(table); {name} is {type(made).__name__}")
    return chosen


def _check_sizes(train: Votes, test: Votes | None) -> None:
    for role, table in (("train", train), ("test", test)):
        if table is not None and len(table) < LEAST_ROWS:
            count = f"{len(table)} {train.row}{'s' if len(table) != 1 else ''}"
            raise DataError(f"{role} has {count}; at least {LEAST_ROWS} are needed, and some hundreds for a verdict")


def _are_counts(table: Any) -> bool:
    return isinstance(table, Mapping) and all(isinstance(counts, Counts) for counts in table.values())


class Part(NamedTuple):
    """One split of one fit, scored."""

    job: Job
    run: Run
    scored: Scored


def _fit_and_score(
    todo: Sequence[Job],
    train: Votes,
    test: Votes | None,
    fold: IntArray | None,
    settings: Settings,
    progress: Progress | None,
) -> tuple[list[Part], dict[str, Clustering]]:
    """Fit all jobs and score them on every split; return also how the rows of each split are clustered."""
    parts: list[Part] = []
    clusterings: dict[str, Clustering] = {}
    for done, job in enumerate(todo):
        if progress:
            progress(done, len(todo), str(job))
        run = job.run(train)
        for prediction in predictions(job, run, train, test, fold):
            split = prediction.split
            clustering = clusterings.get(split) or clusterings.setdefault(split, clustering_of(prediction.table))
            parts.append(Part(job, run, scored(prediction, settings, clustering)))
    return parts, clusterings


def _with_noise(
    parts: Sequence[Part],
    noisy: Sequence[str],
    train: Votes,
    test: Votes | None,
    fold: IntArray | None,
    half: IntArray,
    settings: Settings,
    progress: Progress | None,
) -> Iterator[Part]:
    """Add fits to halves of the training table where its noise counts: of some estimators, or learned distances."""
    tested_parts = [part for part in parts if part.scored.prediction.split == "test"]
    for part in parts:
        job, run, one = part
        counts = job.estimator in noisy or job.distance in noisy
        if one.prediction.split != "test" or not counts or one.prediction.diverged:
            yield part
            continue
        if progress:
            progress(tested_parts.index(part), len(tested_parts), f"{job}: fits to halves")
        yield Part(job, run, with_halves(one, fit_to_halves(job, run, train, test, fold, half), settings))


def _by_split(parts: Sequence[Part]) -> tuple[list[Run], list[Scored]]:
    """Return the fits to the whole training table, and what was scored on rows that they have not seen."""
    runs = [part.run for part in parts if part.scored.prediction.split == "train"]
    return runs, [part.scored for part in parts if part.scored.prediction.split == "test"]


def _papers_density(
    names: Sequence[str],
    estimators: Mapping[str, Estimator],
    train: Votes,
    test: Votes | None,
    fold: IntArray | None,
    settings: Settings,
) -> dict[str, float]:
    """NLL of the paper's density on the tested rows, by distance, where splines were asked for and it was not."""
    if not any(isinstance(given, Spline) for given in estimators.values()):
        return {}
    if any(isinstance(given, Density) for given in estimators.values()):
        return {}
    nll: dict[str, float] = {}
    for job in jobs(names, {"density": Density()}, settings):
        *_, last = predictions(job, job.run(train), train, test, fold)
        values = -log_likelihood(last.table.n, last.table.M, last.P)
        nll[job.distance] = float(np.average(values, weights=last.table.mass))
    return nll


def _finite(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers as JSON can hold them."""
    return {name: number if np.isfinite(number) else None for name, number in numbers.items()}


def _density_note(scores: Sequence[Record], papers: Mapping[str, float]) -> list[str]:
    """Say whether the paper's density gives the same order of the distances."""
    if not papers:
        return []
    tested = [record for record in scores if (record["split"], record["group"]) == ("test", "all")]
    label = next(record["estimator"] for record in tested)
    ours = {r["distance"]: r["nll"] for r in tested if r["estimator"] == label and r["distance"] in papers}
    order, other = (sorted(nll, key=lambda name: nll[name]) for nll in (ours, papers))
    if len(papers) == 1:
        ((name, nll),) = papers.items()
        return [f"{PAPERS_DENSITY} gives {name} an NLL of {nll:.4f}"]
    if order == other:
        return [f"{PAPERS_DENSITY} gives the same order of the distances"]
    listed = ", ".join(other[:5]) + (", ..." if len(other) > 5 else "")
    return [f"{PAPERS_DENSITY} gives another order, the best first: {listed} (--estimator density)"]


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


@dataclass(frozen=True)
class _ByDistance:
    """Counts by distance, as `shared_distances` looks at tables."""

    distances: Mapping[str, Counts]


def _evaluate_counts(
    train: Mapping[str, Counts],
    test: Mapping[str, Counts] | None,
    distances: Sequence[str] | None,
    estimators: Mapping[str, Estimator],
    settings: Settings,
    progress: Progress | None,
) -> Result:
    """Evaluate counts distance by distance, for each has rows of its own; fits carry their counts."""
    names, notes = shared_distances(_ByDistance(train), None if test is None else _ByDistance(test), distances)
    chosen, notes_of_estimators = _for_counts(estimators)
    of_counts = [note for table in (train, test) if table for name in names for note in table[name].vote_notes]
    results: list[Result] = []
    runs: list[Run] = []
    for name in names:
        table = replace(train[name], distance=name).table()
        other = test and (table if test[name] is train[name] else replace(test[name], distance=name).table())
        results.append(evaluate(table, other or None, estimators=chosen, settings=settings, progress=progress))
        for run in results[-1].runs:
            asked = chosen[run.estimator] if run.seed is None else replace(chosen[run.estimator], seed=run.seed)
            runs.append(replace(run, fit=carrying(cast("Model", run.fit), asked, train[name])))
    of_bins = [note for name in names for note in train[name].bin_notes]
    papers = {
        name: np.inf if nll is None else nll
        for result in results
        for name, nll in result.card["paper_density_nll"].items()
    }
    of_results = [note for result in results for note in result.notes if not note.startswith(PAPERS_DENSITY)]
    of_results += _density_note([record for result in results for record in result.scores], papers)
    data = {"train": describe_counts(train)} | ({} if test is None else {"test": describe_counts(test)})
    return results[0].replace(
        scores=[record for result in results for record in result.scores],
        runs=runs,
        notes=[*dict.fromkeys([*notes, *of_results, *notes_of_estimators, ABSENT, *of_counts, *of_bins])],
        card=make_card(data, chosen, results[0].card["settings"], runs)
        | {"caveats": results[0].card["caveats"], "paper_density_nll": _finite(papers)},
    )


def _for_counts(estimators: Mapping[str, Estimator]) -> tuple[dict[str, CountsEstimator], list[str]]:
    """Choose estimators that can be fitted to counts, L-BFGS instead of Adam; and what a reader should know of that."""
    chosen: dict[str, CountsEstimator] = {}
    notes = []
    for name, given in estimators.items():
        if not isinstance(given, CountsEstimator):
            raise ValueError(f"counts can be fitted by density, spline and network; {name} takes triplets")
        if isinstance(given, Network) and given.solver == "adam":
            given = replace(given, solver="lbfgs")
            notes.append(BY_LBFGS)
        chosen[name] = given
    return chosen, notes


def _ballots(table: Votes) -> pl.DataFrame | None:
    """Single votes by the name of their triplet."""
    if table.votes is None or "observer" not in table.votes.columns:
        return None
    named = table.labels[table.row].gather(table.votes["row"])
    return table.votes.select(named.alias(table.row), "choice", "swapped", "observer")


def _check_kinds(train: Votes, test: Votes | None, settings: Settings) -> None:
    if test is not None and test.k != train.k:
        raise DataError(f"train and test must hold rows of one kind; train has {train.row}s, test {test.row}s")
    if test is not None and (train.count is None) != (test.count is None):
        raise DataError("train and test must both be counts, or both tables of single triplets")
    if train.count is not None and settings.error_bars not in ("analytic", "fixed"):
        raise ValueError(
            f"error bars of counts are analytic; {settings.error_bars} draws triplets, and counts have none"
        )
    if train.k == 1 and settings.ties != "half":
        raise ValueError(f"ties are a matter of 2AFC scores, which pairs do not have; found ties={settings.ties!r}")


def _checked(names: Sequence[str], *tables: Votes | None) -> list[Finding]:
    """Check the distances that were evaluated."""
    return check(*(only(table, names) for table in tables if table is not None))


def only(table: Votes, names: Sequence[str]) -> Votes:
    """Keep some distances of a table."""
    return replace(table, distances={name: table.distances[name] for name in names})


def _method(
    train: Votes,
    test: Votes | None,
    plan: Callable[[Settings], list[Job]],
    settings: Settings,
    progress: Progress | None,
) -> Bars:
    if settings.error_bars == "bootstrap":
        return Bootstrap(settings.draws, settings.seed)
    if settings.error_bars == "refit":

        def score(prediction: Prediction) -> list[Record]:
            # Votes drawn for an expected score would add a noise of their own to the spread.
            return records_of(prediction, settings, draws=0)

        drawn = refits(train, test, plan, score, settings, progress)
        return Refit(drawn, on_test=test is not None)
    return Analytic()


def _comparisons(unseen: Sequence[Scored], clustering: Clustering, method: Bars) -> list[Record]:
    """Compare the distances under each estimator; where there are seeds, the means over those that did not diverge."""
    records: list[Record] = []
    for label in dict.fromkeys(one.key[1] for one in unseen):
        kept: dict[str, list[Values]] = {}
        for one in unseen:
            if one.key[1] == label and one.values is not None and not one.prediction.diverged:
                kept.setdefault(one.key[0], []).append(one.values)
        records += method.compared({name: mean_values(values) for name, values in kept.items()}, clustering, label)
    return records


def _goodness(unseen: Sequence[Scored], clustering: Clustering) -> dict[tuple[str, str], Goodness]:
    goodness: dict[tuple[str, str], Goodness] = {}
    for one in unseen:
        table = one.prediction.table
        if one.key not in goodness and one.values is not None and not one.prediction.diverged:
            goodness[one.key] = goodness_of_fit(table, one.prediction.P, clustering)
    return goodness
