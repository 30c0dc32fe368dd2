"""The ways to error bars: by formula, from drawn test tables, and from fits to drawn training tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray, IntArray, Progress
from twoafc.evaluation.loop import Data, Fits, predictions
from twoafc.evaluation.records import Scored, records_of
from twoafc.evaluation.settings import FOLDS, Settings
from twoafc.inference import (
    Clustering,
    Errors,
    Values,
    all_measures,
    bootstrap_errors,
    bootstrap_means,
    clustering_of,
    combined_units,
    drawn_rows,
    errors,
    spread,
)
from twoafc.table import Votes, assign_folds, most_folds

BY_FORMULA = "95 % intervals for other test triplets"

Key = tuple[str, str, str, str]
"""Distance, estimator, split, group."""


@dataclass(frozen=True, eq=False)
class ErrorBarMethod:
    """How error bars are made: see `twoafc.Settings`.

    ``refits`` are scores of surfaces fitted to drawn training tables, of `bootstrap_refits`, and ``on_test`` is whether
    they were scored on a test table, which was not drawn: the error over its rows is then added.
    """

    settings: Settings
    refits: Mapping[Key, FloatArray] = field(default_factory=dict)
    on_test: bool = False

    @property
    def description(self) -> str:
        """What the error bars are of."""
        draws = self.settings.draws
        if self.settings.error_bars == "bootstrap":
            return f"95 % intervals of the fitted surfaces on other triplets, from {draws} drawn tables"
        if self.settings.error_bars == "refit":
            return f"95 % intervals of surfaces fitted to other votes, from {draws} drawn training tables"
        return BY_FORMULA

    def errors(self, one: Scored, clustering: Clustering) -> Errors:
        """Return the errors of a prediction's scores, by group."""
        assert one.values is not None
        by_formula = errors(one.values, one.prediction.table.groups, clustering, one.grouped)
        if self.settings.error_bars == "bootstrap":
            return self._bootstrap(one, one.values, clustering, by_formula)
        return self._refit(one, by_formula) if self.settings.error_bars == "refit" else by_formula

    def _bootstrap(self, one: Scored, values: Values, clustering: Clustering, by_formula: Errors) -> Errors:
        """Errors of the fitted surfaces, from drawn test tables."""
        groups, draws, seed = one.prediction.table.groups, self.settings.draws, self.settings.seed
        drawn = bootstrap_errors(values, groups, clustering.rows, grouped=one.grouped, draws=draws, seed=seed)
        if clustering.ballots is None:
            return {
                group: error._replace(se=drawn[group], units=np.minimum(error.units, draws))
                for group, error in by_formula.items()
            }
        # Observers are not drawn: their part of the variance is added by formula.
        rows = errors(values, groups, Clustering(clustering.rows, None), one.grouped)
        return {
            group: error._replace(se=np.sqrt(np.maximum(drawn[group] ** 2 + error.se**2 - rows[group].se ** 2, 0)))
            for group, error in by_formula.items()
        }

    def _refit(self, one: Scored, by_formula: Errors) -> Errors:
        """Errors of surfaces fitted to other votes, on other rows."""
        tested, by_group = self.on_test and one.split == "test", {}
        for group, error in by_formula.items():
            drawn = self.refits.get((*one.key, one.split, group), np.full((2, len(error.se)), np.nan))
            over_rows, training = error.se**2 if tested else np.zeros_like(error.se), spread(drawn) ** 2
            units = np.minimum(error.units, len(drawn))
            if tested:
                units = combined_units(over_rows, error.units, training, len(drawn) - 1)
            by_group[group] = error._replace(se=np.sqrt(over_rows + training), units=units)
        return by_group

    def replicates(self, values: Mapping[str, Values], clustering: Clustering, estimator: str) -> dict[str, Any]:
        """Return replicated scores as arguments of `twoafc.inference.compare`; none for errors by formula."""
        if self.settings.error_bars == "refit":
            refits = {name: self.refits[name, estimator, "test", "all"] for name in values}
            return {"refitted" if self.on_test else "drawn": refits}
        # The part of the observers needs the formula.
        if self.settings.error_bars != "bootstrap" or clustering.ballots is not None:
            return {}
        draws, seed = self.settings.draws, self.settings.seed
        drawn = {name: bootstrap_means(each, clustering.rows, draws=draws, seed=seed) for name, each in values.items()}
        return {"drawn": drawn}


def bootstrap_refits(data: Data, fits: Fits, settings: Settings, progress: Progress | None) -> dict[Key, FloatArray]:
    """Fit to bootstrap samples of the training table and score again: shape (draws, measures) for each score.

    With a test table, all draws are scored on the same test rows: their spread is the error of the fit alone, to which
    that of the rows is added. Without one, the drawn table is cross-validated and the spread is the whole error. The
    mean over draws is not used: a drawn table has fewer different rows, so fits to it are a little worse.
    """
    rng = np.random.default_rng(settings.seed)
    rows, measures = clustering_of(data.train).rows, all_measures(data.train.k)
    replicates: dict[Key, FloatArray] = {}
    for draw in range(settings.draws):
        if progress:
            progress(draw, settings.draws, "fitting to drawn tables")
        drawn = _redrawn(data.train, drawn_rows(rows, rng))
        # Another seed for each draw: what a seed decides is part of the error.
        current = replace(settings, seeds=1, seed=settings.seed + draw)
        fold = None if data.test is not None else _folds(drawn, current)
        if data.test is None and fold is None:
            continue
        for task in fits.tasks(current):
            for prediction in predictions(task, task.run(drawn), Data(drawn, data.test, fold)):
                if prediction.diverged:
                    continue
                # Votes drawn for an expected score would add a noise of their own to the spread.
                for record in records_of(prediction, settings, draws=0):
                    key = (record["distance"], record["estimator"], record["split"], record["group"])
                    drawn_scores = replicates.setdefault(key, np.full((settings.draws, len(measures)), np.nan))
                    drawn_scores[draw] = [np.nan if record[name] is None else record[name] for name in measures]
    return replicates


def _folds(drawn: Votes, settings: Settings) -> IntArray | None:
    """Folds of a drawn table, fewer if it has fewer references than folds; None if it has only one."""
    most = most_folds(drawn)
    if most < 2:
        return None
    return assign_folds(drawn, min(FOLDS if settings.folds is None else settings.folds, most), seed=settings.seed)


def _redrawn(table: Votes, rows: IntArray) -> Votes:
    """Take rows as often as they were drawn; copies of a row share a reference, so that they share a fold."""
    drawn = table.at(rows)
    labels = drawn.labels
    if "ref0" not in labels.columns and ("ref" not in labels.columns or labels["ref"].n_unique() == 1):
        labels = labels.with_columns(ref=pl.col(table.row))
    copies = pl.Series(table.row, np.arange(len(rows))).cast(pl.String)
    return replace(drawn, labels=labels.with_columns(copies))
