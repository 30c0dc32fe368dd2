"""The three ways to error bars: by formula, from tables drawn anew, with surfaces fitted anew as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.evaluation.loop import Key
from twoafc.evaluation.records import Scored
from twoafc.inference import (
    Clustering,
    Errors,
    Record,
    Values,
    all_measures,
    bootstrap_errors,
    bootstrap_means,
    compare,
    errors,
)


class Bars(Protocol):
    """A way to error bars of scores, and to comparisons of distances under one estimator."""

    @property
    def description(self) -> str:
        """What the error bars are of."""

    def of_scores(self, one: Scored, clustering: Clustering) -> Errors:
        """Give the errors of a prediction's scores, by group; none of a run that diverged."""

    def compared(self, values: Mapping[str, Values], clustering: Clustering, estimator: str) -> list[Record]:
        """Compare the distances of one estimator on the tested triplets."""


@dataclass(frozen=True)
class Analytic:
    """By formula: other test triplets and, where its noise counts, another training table."""

    description: str = "95 % intervals for other test triplets"

    def of_scores(self, one: Scored, clustering: Clustering) -> Errors:
        """Give the errors of a prediction's scores, by group; none of a run that diverged."""
        return {} if one.values is None else errors(one.values, one.codes, clustering, one.grouped)

    def compared(self, values: Mapping[str, Values], clustering: Clustering, estimator: str) -> list[Record]:
        """Compare the distances of one estimator on the tested triplets."""
        return compare(values, clustering, estimator=estimator)


@dataclass(frozen=True)
class Bootstrap:
    """From drawn tables: the fitted surfaces on other triplets."""

    draws: int
    seed: int

    @property
    def description(self) -> str:
        """What the error bars are of."""
        return f"95 % intervals of the fitted surfaces on other triplets, from {self.draws} drawn tables"

    def of_scores(self, one: Scored, clustering: Clustering) -> Errors:
        """Give the errors of a prediction's scores, by group; none of a run that diverged."""
        if one.values is None:
            return {}
        drawn = bootstrap_errors(
            one.values, one.codes, clustering.drawable, grouped=one.grouped, draws=self.draws, seed=self.seed
        )
        by_formula = errors(one.values, one.codes, clustering, one.grouped)
        if clustering.votes is None:
            return {
                group: error._replace(se=drawn[group], units=np.minimum(error.units, self.draws))
                for group, error in by_formula.items()
            }
        # Observers are not drawn: what their votes add comes by the formula.
        rows = errors(one.values, one.codes, Clustering(clustering.rows, None), one.grouped)
        return {
            group: error._replace(se=np.sqrt(np.maximum(drawn[group] ** 2 + error.se**2 - rows[group].se ** 2, 0)))
            for group, error in by_formula.items()
        }

    def compared(self, values: Mapping[str, Values], clustering: Clustering, estimator: str) -> list[Record]:
        """Compare the distances of one estimator on the tested triplets."""
        drawn = {
            name: bootstrap_means(value.columns, clustering.drawable, draws=self.draws, seed=self.seed)
            for name, value in values.items()
        }
        # Where observers are known their part comes by the formula, which then serves for all of it.
        return compare(values, clustering, estimator=estimator, drawn=drawn if clustering.votes is None else None)


@dataclass(frozen=True, eq=False)
class Refit:
    """With surfaces fitted anew to drawn training tables: surfaces fitted to other votes, on other triplets.

    Parameters
    ----------
    replicates : mapping of (distance, estimator, split, group) to array, shape (draws, measures)
        Of `twoafc.evaluation.loop.refits`.
    on_test : bool
        Whether they were scored on a test table, which was not drawn: the error of its triplets then comes to theirs.
    """

    replicates: Mapping[Key, FloatArray]
    on_test: bool

    @property
    def description(self) -> str:
        """What the error bars are of."""
        draws = len(next(iter(self.replicates.values())))
        return f"95 % intervals of surfaces fitted to other votes, from {draws} drawn training tables"

    def of_scores(self, one: Scored, clustering: Clustering) -> Errors:
        """Give the errors of a prediction's scores, by group; none of a run that diverged."""
        if one.values is None:
            return {}
        by_formula = errors(one.values, one.codes, clustering, one.grouped)
        beside = self.on_test and one.prediction.split == "test"
        return {
            group: error._replace(se=np.hypot(error.se if beside else 0.0, self._spread(one, group)))
            for group, error in by_formula.items()
        }

    def _spread(self, one: Scored, group: str) -> FloatArray:
        drawn = self.replicates.get((*one.key, one.prediction.split, group))
        if drawn is None:
            return np.full(len(all_measures(one.prediction.table.k)), np.nan)
        known = np.isfinite(drawn)
        # Of a group that hardly any drawn table has, nothing is known.
        enough = (known.mean(axis=0) > 0.5) & (known.sum(axis=0) > 1)
        return np.where(enough, np.std(np.where(known, drawn, 0.0), axis=0, ddof=1, where=known | ~enough), np.nan)

    def compared(self, values: Mapping[str, Values], clustering: Clustering, estimator: str) -> list[Record]:
        """Compare the distances of one estimator on the tested triplets."""
        drawn = {name: self.replicates[name, estimator, "test", "all"] for name in values}
        if self.on_test:
            return compare(values, clustering, estimator=estimator, refitted=drawn)
        return compare(values, clustering, estimator=estimator, drawn=drawn)
