"""Fit every estimator to every distance of one table of pairs and score it on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from twoafc import folds as cross_validation
from twoafc.estimators import AUTO, Spline, estimator
from twoafc.evaluation import Progress, Settings
from twoafc.evaluation.records import with_letters
from twoafc.evaluation.runs import shared_distances
from twoafc.inference.comparisons import compare
from twoafc.inference.errorbars import Together, together
from twoafc.jnd.comparisons import COMPARED
from twoafc.jnd.curves import fit_curve
from twoafc.jnd.drawn import Drawn, Key, refitted, reweighted
from twoafc.jnd.errorbars import values_of, with_bars
from twoafc.jnd.pairs import Pairs
from twoafc.jnd.runs import CurveRun, folds_of, of_pairs, predictions
from twoafc.jnd.scores import Prediction, means_per_pair, records, warnings
from twoafc.scores import Record


@dataclass(frozen=True)
class PairsEvaluation:
    """Scores of distances on pairs, with what they were made from.

    Attributes
    ----------
    scores : list of records
        One per distance, estimator, split and group, each measure with its error bar; ``<measure>_floor`` is the score
        of a constant P, the share of "same" in the training votes.
    pairs : polars.DataFrame
        P and NLL of every tested pair, for each distance and estimator, in long form.
    runs : list of CurveRun
        The fits to the whole training table.
    notes : list of str
        What a reader should know: how the test was made, what was left out, where the floor lies.
    comparisons : list of records
        Paired differences between distances on the tested pairs: see `twoafc.jnd.comparisons`.
    error_bars : str
        What the error bars are of, in words, and which pairs were taken to go together.
    """

    scores: list[Record]
    pairs: pl.DataFrame
    runs: list[CurveRun]
    notes: list[str]
    comparisons: list[Record]
    error_bars: str

    def frame(self) -> pl.DataFrame:
        """Give the scores as a frame."""
        return pl.DataFrame(self.scores, infer_schema_length=None)


def evaluate(
    train: Pairs,
    test: Pairs | None = None,
    *,
    distances: Sequence[str] | None = None,
    estimators: Sequence[str] | Mapping[str, Any] = ("density",),
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> PairsEvaluation:
    """Fit every estimator to every distance of the training pairs and score it on the test pairs.

    Parameters
    ----------
    train, test : Pairs
        P(same | d) is fitted on `train`. Without `test` the training table is cross-validated, whole references at a
        time where they are known, and the scores of the split "test" are those of pairs left out.
    distances : names, default all that both tables have
    estimators : names, or a mapping of a name of your own to an estimator: see `fit_curve`

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> d = rng.random(500)
    >>> table = Pairs.from_frame({"n": rng.binomial(3, 1 - d), "M": [3] * 500, "d": d})
    >>> result = evaluate(table, estimators=["spline"], settings=Settings(folds=2))
    >>> result.frame().filter(split="test", group="all").select("pairs", "votes").row(0)
    (500, 1500)
    """
    settings = settings or Settings()
    if settings.ties != "half":
        raise ValueError(f"ties are a matter of 2AFC scores, which pairs have not; found ties={settings.ties!r}")
    chosen = estimators if isinstance(estimators, Mapping) else {name: estimator(name) for name in estimators}
    names, notes = shared_distances(train, test, distances)
    if isinstance(chosen.get("auto"), Spline):
        notes.append(AUTO)
    fold = None if test is not None else folds_of(train, settings)
    if test is None:
        key = of_pairs(cross_validation.split_key(train.rows()))
        notes.append(f"no test table: {settings.folds}-fold cross-validation, split by {key}")
    drawn: dict[Key, Drawn] = {}
    if settings.error_bars == "refit":
        drawn |= refitted(_only(train, names), None if test is None else _only(test, names), chosen, settings, progress)
    links: dict[str, Together] = {}
    runs: list[CurveRun] = []
    scores: list[Record] = []
    unseen: list[Prediction] = []
    todo = [(name, label) for name in names for label in chosen]
    for done, (name, label) in enumerate(todo):
        if progress:
            progress(done, len(todo), f"{name}, {label}")
        runs.append(CurveRun(name, label, fit_curve(train[name], chosen[label])))
        unknown = None if test is None else test[name]
        for one in predictions(runs[-1], chosen[label], train[name], unknown, fold):
            link = links.get(one.split) or links.setdefault(one.split, together(one.table.rows()))
            if settings.error_bars == "bootstrap":
                drawn[one.key] = reweighted(one, link, settings)
            scores += with_bars(records(one, settings.simulated_seed), one, link, drawn.get(one.key))
            unseen += [one] if one.split == "test" else []
    if progress:
        progress(len(todo), len(todo), "scores")
    notes += [_floor(train, scores), *dict.fromkeys(warnings(scores))]
    comparisons = _comparisons(unseen, links["test"], drawn)
    told = _told(settings, links["test"])
    scores = with_letters(scores, comparisons, COMPARED)
    return PairsEvaluation(scores, pl.concat([_tested(one) for one in unseen]), runs, notes, comparisons, told)


def _floor(train: Pairs, scores: Sequence[Record]) -> str:
    record = next(record for record in scores if (record["split"], record["group"]) == ("test", "all"))
    precision = record["average_precision_floor"]
    ranked = "" if precision is None else f", and {precision:.2f} % average precision comes without any order"
    return (
        f"floor: the constant P = {train.share:.3f}, the share of same in the training votes, has an NLL of "
        f"{record['nll_floor']:.4f} ({record['nll_per_vote_floor']:.4f} per vote){ranked}"
    )


def _comparisons(unseen: Sequence[Prediction], link: Together, drawn: Mapping[Key, Drawn]) -> list[Record]:
    """Compare the distances under each estimator."""
    found: list[Record] = []
    for label in dict.fromkeys(one.estimator for one in unseen):
        those = [one for one in unseen if one.estimator == label]
        values = {one.distance: values_of(one, link) for one in those}
        scores = {one.distance: drawn[one.key]["all"] for one in those} if drawn else None
        found += compare(values, link, estimator=label, measures=COMPARED, instead=scores)
    return found


def _only(table: Pairs, names: Sequence[str]) -> Pairs:
    return replace(table, distances={name: table.distances[name] for name in names})


def _tested(one: Prediction) -> pl.DataFrame:
    """P and NLL of every tested pair, with its labels, votes and distance."""
    table = one.table
    return table.labels.with_columns(
        n=pl.Series(table.n),
        M=pl.Series(table.M),
        distance=pl.lit(one.distance),
        estimator=pl.lit(one.estimator),
        d=pl.Series(table.d),
        P=pl.Series(one.P),
        nll=pl.Series(means_per_pair(one)["nll"]),
    )


def _told(settings: Settings, link: Together) -> str:
    ways = {
        "analytic": "95 % intervals of the fitted curves on other pairs",
        "bootstrap": f"95 % intervals of the fitted curves on other pairs, from {settings.draws} drawn tables",
        "refit": f"95 % intervals of curves fitted to other votes, from {settings.draws} drawn tables",
    }
    return f"{ways[settings.error_bars]}; {of_pairs(link.told)}"
