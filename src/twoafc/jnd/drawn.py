"""Scores of tables of pairs drawn anew: of the same curves, or of curves fitted anew as well."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray, IntArray
from twoafc.evaluation import Progress, Settings
from twoafc.inference.bootstrap import drawn_rows, drawn_weights
from twoafc.inference.errorbars import Together, together
from twoafc.jnd.curves import fit_curve
from twoafc.jnd.pairs import Pairs
from twoafc.jnd.precision import Ranking
from twoafc.jnd.runs import CurveRun, folds_of, predictions
from twoafc.jnd.scores import ALL_MEASURES, MEANS, Prediction, groups_of, means_per_pair, records

Drawn = Mapping[str, FloatArray]
"""By group: the scores of drawn tables, shape (draws, measures)."""
Key = tuple[str, str, str]
"""Distance, estimator, split."""


def reweighted(one: Prediction, link: Together, settings: Settings) -> Drawn:
    """Score the same curve on tables drawn anew, by pair or by what goes together."""
    names, group = groups_of(one.table) or ([], None)
    every = np.arange(len(one.table))
    parts = {name: np.flatnonzero(group == g) for g, name in enumerate(names)} | {"all": every}
    ranked = {name: (rows, Ranking.by(one.table.d[rows])) for name, rows in parts.items()}
    means = means_per_pair(one, settings.simulated_seed)
    columns = np.stack([means[name] for name in MEANS], axis=1)
    found: dict[str, list[list[float]]] = {name: [] for name in ranked}
    for weights in drawn_weights(link.drawable, settings.draws, settings.seed):
        for weight in weights:
            for name, (rows, ranking) in ranked.items():
                with np.errstate(invalid="ignore"):  # an infinite NLL has no error
                    found[name].append(_weighted(one, columns, weight, rows, ranking))
    drawn = {name: np.array(scores) for name, scores in found.items()}
    return drawn | ({"mean": np.mean([drawn[name] for name in names], axis=0)} if names else {})


def _weighted(
    one: Prediction, columns: FloatArray, weight: FloatArray, rows: IntArray, ranking: Ranking
) -> list[float]:
    """Every score of some rows, each counted so many times; NaN where none is counted."""
    some, M, n = weight[rows], one.table.M[rows], one.table.n[rows]
    if not some.any():
        return [np.nan] * len(ALL_MEASURES)
    scores = dict(zip(MEANS, some @ columns[rows] / some.sum(), strict=True))
    scores["average_precision"] = ranking.average_precision(n / M, some)
    scores["average_precision_simulated"] = ranking.average_precision(one.P[rows], some)
    scores["nll_per_vote"] = some @ columns[rows, MEANS.index("nll")] / (some @ M)
    return [float(scores[name]) for name in ALL_MEASURES]


def refitted(
    train: Pairs, test: Pairs | None, estimators: Mapping[str, Any], settings: Settings, progress: Progress | None
) -> dict[Key, dict[str, FloatArray]]:
    """Draw the tables anew, fit every estimator to every distance and score again, as often as the settings say."""
    rng = np.random.default_rng(settings.seed)
    links = {
        role: together(table.rows()).drawable for role, table in (("train", train), ("test", test)) if table is not None
    }
    found: dict[Key, dict[str, FloatArray]] = {}
    for draw in range(settings.draws):
        if progress:
            progress(draw, settings.draws, "fitting to drawn tables")
        seen = _redrawn(train, drawn_rows(links["train"], rng))
        unseen = None if test is None else _redrawn(test, drawn_rows(links["test"], rng))
        fold = None if test is not None else folds_of(seen, dataclasses.replace(settings, seed=settings.seed + draw))
        for name in train.distances:
            for label, estimator in estimators.items():
                run = CurveRun(name, label, fit_curve(seen[name], estimator))
                unknown = None if unseen is None else unseen[name]
                for one in predictions(run, estimator, seen[name], unknown, fold):
                    groups = found.setdefault((name, label, one.split), {})
                    # Drawn votes would add a noise of their own to the spread.
                    for record in records(one, settings.simulated_seed, draws=0):
                        empty = np.full((settings.draws, len(ALL_MEASURES)), np.nan)
                        scores = [np.nan if record[each] is None else record[each] for each in ALL_MEASURES]
                        groups.setdefault(record["group"], empty)[draw] = scores
    return found


def _redrawn(table: Pairs, rows: IntArray) -> Pairs:
    """Take rows as often as they were drawn; copies of a pair share a reference, and are left out together."""
    labels = table.labels[rows]
    if "ref" not in labels.columns:
        labels = labels.with_columns(ref=pl.col("pair"))
    copies = pl.Series(np.arange(len(rows))).cast(pl.String)
    distances = {name: d[rows] for name, d in table.distances.items()}
    return Pairs(table.n[rows], table.M[rows], distances, labels.with_columns(pair=copies))


def spread(drawn: FloatArray) -> FloatArray:
    """Standard deviation over draws; NaN of what hardly any of them has."""
    known = np.isfinite(drawn)
    enough = known.mean(axis=0) > 0.5
    found = np.full(drawn.shape[1:], np.nan)
    found[enough] = np.std(drawn[:, enough], axis=0, ddof=1, where=known[:, enough])
    return found
