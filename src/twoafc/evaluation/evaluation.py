"""Fit every estimator to every distance of one table and score it on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from difflib import get_close_matches
from typing import Any, cast

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray, Progress
from twoafc.diagnostics import check
from twoafc.errors import DataError
from twoafc.estimators import AUTO, CountsEstimator, Density, Estimator, Model, Network, Spline, estimator
from twoafc.evaluation.halves import find_noise, training_card, training_caveats, training_words, with_noise
from twoafc.evaluation.loop import Data, Fits, Learned, Task, predictions, shared_distances, unseen_predictions
from twoafc.evaluation.records import (
    ErrorBarMethod,
    Scored,
    bootstrap_refits,
    ceiling_of,
    score,
    summaries,
    tested_rows,
    warnings,
    with_bars,
    with_common_ceiling,
    with_explained,
    with_letters,
)
from twoafc.evaluation.settings import FOLDS, Settings
from twoafc.inference import (
    COMPARED,
    Clustering,
    Goodness,
    Record,
    Values,
    clustering_of,
    compare,
    goodness_of_fit,
    keep_planned,
    mean_values,
    planned_pairs,
)
from twoafc.metrics import log_likelihood
from twoafc.results import Result, Run, describe_counts, describe_table, known_names, make_card
from twoafc.scale import Counts, carrying, share_votes
from twoafc.table import Votes, as_votes, most_folds, native_kind, require_single, split_note, split_rows

SEEN_VOTES = "votes of test are in train too: the scores are for votes that were fitted, not for new ones"
ABSENT = (
    "from counts: paired comparisons, goodness of fit, checks and results of single triplets need the triplets "
    "themselves and are left out; run twoafc check on a part of them"
)
LEAST_ROWS = 5
"""Fewer rows than this are refused."""
PAPERS_DENSITY = "the paper's density"
BY_LBFGS = "network on counts: Adam needs single triplets, so L-BFGS is used"


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
    if test is not None and changes.get("folds") is not None:
        raise ValueError("folds cross-validate a single table; there is a test table too")
    settings = changed_settings("evaluate", settings, changes)
    chosen = _estimators(estimators)
    train, test = ({given.distance: given} if isinstance(given, Counts) else given for given in (train, test))
    if _are_counts(train) or _are_counts(test):
        if not _are_counts(train) or not (test is None or _are_counts(test)):
            raise TypeError("train and test must both be tables, or both counts of distances")
        if baseline is not None or pairs:
            raise ValueError("comparisons need single triplets, which counts do not have")
        return _evaluate_counts(train, test, distances, chosen, settings, progress)
    tables = as_votes(train), None if test is None else as_votes(test)
    result = evaluate_tables(*tables, distances, chosen, settings, progress, baseline=baseline, pairs=pairs)
    result.card["frames"] = native_kind(train)
    return result


def evaluate_tables(
    train: Votes,
    test: Votes | None,
    distances: str | Sequence[str] | None,
    estimators: Mapping[str, Estimator],
    settings: Settings,
    progress: Progress | None,
    *,
    baseline: str | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    learned: Learned | None = None,
    among: int = 1,
) -> Result:
    """Evaluate the distances of tables, and `learned` ones that are fitted to the votes on the way.

    `among` is the number of tables with the same votes, each with distances of its own.
    """
    check_tables(train, test, settings)
    names, notes = shared_distances(train.distances, None if test is None else test.distances, distances)
    known = [*names, *(learned or {})]
    baseline, pairs = known_names(known, baseline, pairs)
    planned = planned_pairs(known, baseline, pairs)
    fits = Fits(names, estimators, learned or {})
    data, settings = _split(train, test, settings)
    train, counted = data.train, data.train.count is not None

    # Fit, predict and score; fit to halves of the training table where its noise counts.
    refits = bootstrap_refits(data, fits, settings, progress) if settings.error_bars == "refit" else {}
    method = ErrorBarMethod(settings, refits, on_test=data.test is not None)
    parts, clusterings = _fit_and_score(fits.tasks(settings), data, settings, progress)
    noise = find_noise([one for _, one in parts], fits, data, clusterings, settings)
    scored, splits = with_noise(parts, noise, data, settings, progress)
    runs = [one.prediction.run for one in scored if one.split == "train"]
    unseen, clustering = [one for one in scored if one.split == "test"], clusterings["test"]
    if progress:
        progress(len(runs), len(runs), "scores")

    # Records of the scores with their error bars, then what needs several of them.
    scores, means_over_seeds = _with_error_bars(scored, method, clusterings, settings)
    papers = _papers_density(fits, data)
    notes += [*_notes_on_fits(data, fits), *_notes_on_scores(data, scores), *_density_note(scores, papers)]
    scores += means_over_seeds
    comparisons = [] if counted else keep_planned(_comparisons(unseen, clustering, method), planned, COMPARED[train.k])
    if not planned:
        scores = with_letters(scores, comparisons)
    ceiling = ceiling_of(unseen, clustering, among) if train.k == 2 else None
    if ceiling is not None:
        scores = with_explained(scores, unseen, clustering, ceiling)

    training = training_words(train, estimators, noise, settings)
    described = {} if counted else _described(data, fits)
    card = make_card(described, estimators, asdict(settings), runs) | training_card(unseen)
    card["caveats"] = [worded(caveat, train.row) for caveat in clustering.caveats()]
    card["caveats"] += training_caveats(unseen, noise, data, settings)
    card["paper_density_nll"] = papers
    if planned:
        card |= {"baseline": baseline, "planned": [list(pair) for pair in planned]}
    return Result(
        row=train.row,
        scores=scores,
        triplets=None if counted else pl.concat([tested_rows(one, splits) for one in unseen]),
        runs=runs,
        notes=notes,
        comparisons=comparisons,
        goodness={} if counted else _goodness(unseen, clustering),
        error_bars=worded(f"{method.description}; {training}{clustering.description}", train.row),
        ceiling=ceiling,
        votes=_named_votes(data.tested),
        findings=[] if counted else check(*(only(table, names) for table in data.tables.values())),
        card=card,
    )


def check_tables(train: Votes, test: Votes | None, settings: Settings) -> None:
    """Raise an error for tables that do not match each other or the settings, or have few rows."""
    if test is not None and test.k != train.k:
        raise DataError(f"train and test must have rows of one kind; train has {train.row}s, test {test.row}s")
    if test is not None and (train.count is None) != (test.count is None):
        raise DataError("train and test must both be counts, or both tables of single triplets")
    if settings.error_bars not in ("analytic", "fixed"):
        require_single(train, f"error_bars={settings.error_bars!r}")
    if train.k == 1 and settings.ties != "half":
        raise ValueError(f"ties concerns 2AFC scores, which pairs do not have; found ties={settings.ties!r}")
    for role, table in (("train", train), ("test", test)):
        if table is not None and table.count is None and len(table) < LEAST_ROWS:
            count = f"{len(table)} {train.row}{'s' if len(table) != 1 else ''}"
            raise DataError(f"{role} has {count}; at least {LEAST_ROWS} are needed, and some hundreds for a verdict")


def _split(train: Votes, test: Votes | None, settings: Settings) -> tuple[Data, Settings]:
    """Cut the training table into folds if there is no test table; return also the settings with their number."""
    if test is not None:
        return Data(train, test), settings
    if settings.folds is None:
        settings = replace(settings, folds=max(2, min(FOLDS, most_folds(train))))
    train, fold = split_rows(train, settings.folds or 0, seed=settings.seed)
    return Data(train, None, fold), settings


def _fit_and_score(
    tasks: Sequence[Task], data: Data, settings: Settings, progress: Progress | None
) -> tuple[list[tuple[Task, Scored]], dict[str, Clustering]]:
    """Fit all tasks and score them on every split; return also how the rows of each split are clustered."""
    parts: list[tuple[Task, Scored]] = []
    clusterings: dict[str, Clustering] = {}
    for done, task in enumerate(tasks):
        if progress:
            progress(done, len(tasks), str(task))
        one: Scored | None = None
        for prediction in predictions(task, task.run(data.train), data):
            if prediction.split not in clusterings:
                clusterings[prediction.split] = clustering_of(prediction.table)
            if one is not None and one.prediction.table is prediction.table:  # the training table is the test table
                one = one.of_split(prediction)
            else:
                one = score(prediction, settings, clusterings[prediction.split])
            parts.append((task, one))
    return parts, clusterings


def _with_error_bars(
    scored: Sequence[Scored], method: ErrorBarMethod, clusterings: Mapping[str, Clustering], settings: Settings
) -> tuple[list[Record], list[Record]]:
    """Records of all scores with their error bars, and of their means over seeds if there are several."""
    scores: list[Record] = []
    units: dict[tuple[str, ...], FloatArray] = {}
    for one in scored:
        errors = {} if one.values is None else method.errors(one, clusterings[one.split])
        scores += with_bars(one.records, errors)
        units |= {(*one.key, one.split, group): error.units for group, error in errors.items()}
    return scores, summaries(scores, units) if settings.seeds > 1 else []


def _comparisons(unseen: Sequence[Scored], clustering: Clustering, method: ErrorBarMethod) -> list[Record]:
    """Compare the distances under each estimator; of several seeds, the means over those that did not diverge.

    This is where p-values come from: `compare` takes the difference of two distances' values on each row, its mean and
    clustered standard error (`clustering`), and Student's t.
    """
    records: list[Record] = []
    for label in dict.fromkeys(one.key[1] for one in unseen):
        runs: dict[str, list[Values]] = {}
        for one in unseen:
            if one.key[1] == label and one.values is not None and not one.prediction.diverged:
                runs.setdefault(one.key[0], []).append(one.values)
        values = {name: mean_values(of_seeds) for name, of_seeds in runs.items()}
        replicates = method.replicates(values, clustering, label)
        records += compare(values, clustering, estimator=label, **replicates)
    return records


def _goodness(unseen: Sequence[Scored], clustering: Clustering) -> dict[tuple[str, str], Goodness]:
    """Compare P with the votes, for the first run of each distance and estimator that did not diverge."""
    goodness: dict[tuple[str, str], Goodness] = {}
    for one in unseen:
        if one.key not in goodness and one.values is not None and not one.prediction.diverged:
            goodness[one.key] = goodness_of_fit(one.prediction.table, one.prediction.P, clustering)
    return goodness


def _papers_density(fits: Fits, data: Data) -> dict[str, float]:
    """NLL of the paper's density on the tested rows, by distance, where splines were asked for and it was not."""
    kinds = set(map(type, fits.estimators.values()))
    if Spline not in kinds or Density in kinds:
        return {}
    nll: dict[str, float] = {}
    for name in fits.names:
        task = Task(name, "density", None, Density())
        *_, last = unseen_predictions(task, task.run(data.train), data)
        values = -log_likelihood(last.table.n, last.table.M, last.P)
        nll[name] = float(np.average(values, weights=last.table.mass))
    return nll


# What is written beside the scores: notes, findings, the card


def _notes_on_fits(data: Data, fits: Fits) -> list[str]:
    """Weights, the automatic estimator, and folds."""
    notes, (train, test, fold, _) = [], data
    if test is not None and (train.weight is None) != (test.weight is None):
        weighted, alike = ("test", "train") if train.weight is None else ("train", "test")
        notes.append(f"only {weighted} has a column weight: {alike} rows are unweighted")
    if train.weight is not None:
        own = [name for name, given in fits.estimators.items() if not isinstance(given, CountsEstimator)]
        notes += [f"{name}: its fit is weighted only if it uses table.mass" for name in own]
    if isinstance(fits.estimators.get("auto"), Spline):
        notes.append(AUTO)
    if fold is not None:
        notes.append(f"no test table: {split_note(train, fold)}")
    return notes


def _notes_on_scores(data: Data, scores: Sequence[Record]) -> list[str]:
    """The floor of pairs, and what is unknown or infinite."""
    notes = []
    if data.train.k == 1:
        record = next(record for record in scores if (record["split"], record["group"]) == ("test", "all"))
        precision = record["average_precision_floor"]
        ranked = "" if precision is None else f", and a random order has an average precision of {precision:.2f} %"
        share = f"{data.train.share:.3f}"
        constant = f"the constant P = {share}, the share of same in the training votes,"
        if data.test is None:
            constant = f"a constant P, the share of same in the votes of the other folds ({share} in all),"
        nll = f"{record['nll_floor']:.4f} ({record['nll_per_vote_floor']:.4f} per vote)"
        notes.append(f"floor: {constant} has an NLL of {nll}{ranked}")
    return [*notes, *dict.fromkeys(warnings(scores))]


def _density_note(scores: Sequence[Record], papers: Mapping[str, float]) -> list[str]:
    """Report whether the paper's density gives the same order of the distances."""
    if len(papers) < 2:
        return [f"{PAPERS_DENSITY} gives {name} an NLL of {nll:.4f}" for name, nll in papers.items()]
    tested = [record for record in scores if (record["split"], record["group"]) == ("test", "all")]
    label = tested[0]["estimator"]
    ours = {r["distance"]: r["nll"] for r in tested if r["estimator"] == label and r["distance"] in papers}
    order, other = (sorted(nll, key=lambda name: nll[name]) for nll in (ours, papers))
    if order == other:
        return [f"{PAPERS_DENSITY} gives the same order of the distances"]
    listed = ", ".join(other[:5]) + (", ..." if len(other) > 5 else "")
    return [f"{PAPERS_DENSITY} gives another order, the best first: {listed} (--estimator density)"]


def worded(text: str, row: str) -> str:
    """Replace triplets and surfaces by pairs and curves, for tables of pairs."""
    return text if row == "triplet" else text.replace("surfaces", "curves").replace("triplet", row)


def _described(data: Data, fits: Fits) -> dict[str, dict[str, Any]]:
    """The tables for the card, with all distances that were read, used or not: the explorer finds them by contents."""
    return {
        role: describe_table(only(table, [name for name in table.distances if name not in fits.learned]))
        for role, table in data.tables.items()
    }


def only(table: Votes, names: Sequence[str]) -> Votes:
    """Keep some distances of a table."""
    return replace(table, distances={name: table.distances[name] for name in names})


def _named_votes(table: Votes) -> pl.DataFrame | None:
    """Single votes by the name of their triplet."""
    if table.votes is None or "observer" not in table.votes.columns:
        return None
    named = table.labels[table.row].gather(table.votes["row"])
    return table.votes.select(named.alias(table.row), "choice", "swapped", "observer")


# Arguments


def changed_settings(function: str, settings: Settings | None, changes: Mapping[str, Any]) -> Settings:
    """Settings with changes by name; the error for a wrong name of `function` suggests the likely one."""
    if not isinstance(settings, Settings | None):
        raise TypeError(f"settings must be twoafc.Settings(...); got {type(settings).__name__}")
    known = [field.name for field in fields(Settings)]
    for name in changes:
        if name not in known:
            arguments = ["train", "test", "distances", "estimators", "baseline", "pairs", "settings", "progress"]
            likely = get_close_matches(name, [*arguments, *known], 1)
            hint = f"; perhaps {likely[0]}" if likely else ""
            raise TypeError(f"{function} has no argument {name!r}{hint}")
    return replace(settings or Settings(), **changes)


def _estimators(asked: Any) -> dict[str, Estimator]:
    """Estimators by the name that results give them: the user's, or that of their class."""
    if not isinstance(asked, Mapping):
        several = asked if isinstance(asked, list | tuple) else [asked]
        asked = {item if isinstance(item, str) else type(item).__name__.lower(): item for item in several}
    chosen = {name: estimator(given) if isinstance(given, str) else given for name, given in asked.items()}
    for name, made in chosen.items():
        if not callable(getattr(made, "fit", None)):
            raise TypeError(f"an estimator has a method fit(table); {name} is {type(made).__name__}")
    return chosen


def _are_counts(table: Any) -> bool:
    return isinstance(table, Mapping) and all(isinstance(counts, Counts) for counts in table.values())


# Counts


def _evaluate_counts(
    train: Mapping[str, Counts],
    test: Mapping[str, Counts] | None,
    distances: str | Sequence[str] | None,
    estimators: Mapping[str, Estimator],
    settings: Settings,
    progress: Progress | None,
) -> Result:
    """Evaluate counts distance by distance, since each has its own rows; fits carry their counts."""
    names, notes = shared_distances(train, test, distances)
    chosen, notes_of_estimators = _for_counts(estimators)
    results: list[Result] = []
    runs: list[Run] = []
    for name in names:
        table = replace(train[name], distance=name).table()
        other = test and (table if test[name] is train[name] else replace(test[name], distance=name).table())
        results.append(evaluate_tables(table, other or None, None, chosen, settings, progress, among=len(names)))
        for run in results[-1].runs:
            asked = chosen[run.estimator] if run.seed is None else replace(chosen[run.estimator], seed=run.seed)
            runs.append(replace(run, fit=carrying(cast("Model", run.fit), asked, train[name])))
    papers = {name: nll for result in results for name, nll in result.card["paper_density_nll"].items()}
    notes += [note for result in results for note in result.notes if not note.startswith(PAPERS_DENSITY)]
    notes += _density_note([record for result in results for record in result.scores], papers)
    of_counts, caveats = _notes_on_counts(train, test, names)
    caveats += [text for result in results for text in result.card["caveats"]]
    data = {"train": describe_counts(train)} | ({} if test is None else {"test": describe_counts(test)})
    scores, ceiling = with_common_ceiling(
        [result.scores for result in results], [result.ceiling for result in results if result.ceiling is not None]
    )
    bars = [result.error_bars for result in results]
    return results[0].replace(
        scores=scores,
        runs=runs,
        ceiling=ceiling,
        error_bars=next((words for words in bars if "left out" in words), bars[0]),
        notes=[*dict.fromkeys([*notes, *notes_of_estimators, ABSENT, *of_counts])],
        card=make_card(data, chosen, results[0].card["settings"], runs)
        | {"caveats": [*dict.fromkeys(caveats)], "paper_density_nll": papers},
    )


def _notes_on_counts(
    train: Mapping[str, Counts], test: Mapping[str, Counts] | None, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Notes on votes and on bins, and cautions: votes of test that are in train too, and wide bins."""
    tables = [table for table in (train, test) if table]
    of_votes = [note for table in tables for name in names for note in table[name].vote_notes]
    # Of the two tables the one whose bins are wider for its distances.
    widest = [max((table[name] for table in tables), key=lambda each: max(each.widest, each.beyond)) for name in names]
    of_bins = [note for counts in widest for note in counts.bin_notes]
    seen = [SEEN_VOTES] if test is not None and any(share_votes(train[name], test[name]) for name in names) else []
    wide = [note.removeprefix("warning: ") for note in of_bins if note.startswith("warning: ")]
    return [*of_votes, *of_bins], [*seen, *wide]


def _for_counts(estimators: Mapping[str, Estimator]) -> tuple[dict[str, CountsEstimator], list[str]]:
    """Check that estimators can be fitted to counts; a network then takes L-BFGS instead of Adam, with a note."""
    chosen: dict[str, CountsEstimator] = {}
    notes = []
    for name, given in estimators.items():
        if not isinstance(given, CountsEstimator):
            raise ValueError(f"only estimators with takes_counts = True can be fitted to counts; {name} takes triplets")
        if isinstance(given, Network) and given.solver == "adam":
            given = replace(given, solver="lbfgs")
            notes.append(BY_LBFGS)
        chosen[name] = given
    return chosen, notes
