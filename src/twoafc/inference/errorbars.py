"""Error bars of scores: of each group, of the mean of groups, of all triplets pooled.

A score is a mean over test triplets by a surface fitted to training triplets. Its error is that of other test triplets
and, where fits to halves of the training table are given, that of other training triplets (`training`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from twoafc import metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.dependence import NOT_KEPT, Ballots, Dependence, Strata, ballots, find_dependence, vote_effects
from twoafc.inference.intervals import share_interval, t_interval
from twoafc.inference.scores import PER_VOTE, Record, all_measures, score_functions, with_sums
from twoafc.inference.training import HalfScores, combined_units, training_variance
from twoafc.table import Votes


class Error(NamedTuple):
    """Standard errors of the measures, their skewness, and their numbers of units.

    ``training`` is the part of the variances that comes from the noise of training.
    """

    se: FloatArray
    skew: FloatArray
    units: FloatArray
    training: FloatArray


Errors = dict[str, Error]  # of each group


FEW, FEW_IMAGES = 15, 30  # fewer references or observers, or images where these recur, get a caveat
FEW_TESTED = 30  # fewer tested rows get a caveat too


@dataclass(frozen=True, eq=False)
class Clustering:
    """How the triplets of a table are clustered: by images, and by observers where single votes are known."""

    rows: Dependence
    ballots: Ballots | None = None
    one_observer: bool = False

    @property
    def description(self) -> str:
        """The clustering in words."""
        words = [self.rows.description]
        if self.ballots is not None:
            words.append(f"votes by observer too ({self.ballots.observers} observers)")
        elif self.one_observer:
            words.append("for this one observer alone")
        if self.ballots is not None or len(self.rows.kinds) > 1:
            words.append("tests may be a little cautious")  # the variance is a sum, or the largest, of several
        return "; ".join(words)

    @property
    def weighting(self) -> list[str]:
        """A note that scores are weighted, with the effective number of triplets; empty without weights."""
        if self.rows.sampling is None:
            return []
        rows = f"{self.rows.size} triplets, effective number {self.rows.sampling.sum():.0f}"
        return [f"scores are weighted (column weight): {rows}"]

    def caveats(self) -> list[str]:
        """Explain what few references, images or observers mean for the error bars."""
        weight = self.rows.shares()
        families = self.rows.units_by_family(weight)
        if self.ballots is not None:
            families["observers"] = self.ballots.observers, float(self.ballots.units(weight, self.rows.whole)[0])
        sentences = []
        for family, (number, units) in families.items():
            if units >= (FEW_IMAGES if family == "images" else FEW):
                continue
            count, more = f"only {number} {family}", ""
            if units < 0.8 * number:
                count = f"a few of the {number} {family} have most of the triplets: the effective number is {units:.0f}"
                more = "; ± is somewhat too small (by up to a quarter in simulations), though intervals hold"
            if family == "images":
                more = "; intervals of large differences are too narrow (coverage 87 to 91 % in simulations)"
            rule = f"other {family} could give quite different scores, and tests may miss real differences"
            sentences.append(f"{count}: {rule}{more}")
        only = [part for part in (self.rows.only, "this one observer" if self.one_observer else "") if part]
        if only:
            sentences.append(
                f"error bars and tests are for {' and '.join(only)} alone: others could give quite different scores"
            )
        if self.rows.unknown:
            remedy = ", so count with --keep-refs" if self.rows.unknown == NOT_KEPT else ""
            sentences.append(
                f"error bars take triplets as independent: {self.rows.unknown}; they are too small where references "
                f"recur{remedy}"
            )
        if self.rows.times.sum() < FEW_TESTED:
            sentences.append(f"only {self.rows.times.sum()} tested triplets: their error bars are rough")
        sentences += self.weighting
        return sentences

    def standard_errors(
        self, influence: FloatArray, weight: FloatArray, effects: FloatArray | None = None, strata: Strata | None = None
    ) -> FloatArray:
        """Standard errors of weighted means, shape (strata, k): see `Dependence.variance` and `Ballots.variance`."""
        variance = self.rows.variance(influence, weight, strata)
        if self.ballots is not None and effects is not None:
            variance = variance + self.ballots.variance(effects, weight, self.rows, strata or self.rows.whole)
        return np.sqrt(variance)

    def linear_errors(
        self,
        coefficient: FloatArray,
        residual: FloatArray,
        centre: FloatArray,
        weight: FloatArray,
        strata: Strata | None = None,
    ) -> FloatArray:
        """Standard errors of sums of coefficient times residual votes, shape (strata,).

        The residual is n - M centre of each triplet, where centre, shape (T,), is what its votes are compared with.
        """
        effects = None
        if self.ballots is not None:
            row = self.ballots.row
            effects = (coefficient[row] * (self.ballots.chosen - centre[row]))[:, None]
        return self.standard_errors((coefficient * residual)[:, None], weight, effects, strata)[:, 0]

    def units(self, weight: FloatArray, strata: Strata | None = None) -> FloatArray:
        """Effective number of independent units in each stratum, shape (strata,)."""
        units = self.rows.units(weight, strata)
        if self.ballots is None:
            return units
        return np.minimum(units, self.ballots.units(weight, strata or self.rows.whole))


def clustering_of(table: Votes) -> Clustering:
    """Find how the triplets of a table are clustered."""
    votes = ballots(table)
    one = votes is None and table.votes is not None and "observer" in table.votes.columns
    return Clustering(find_dependence(table.labels, table.count, table.scaled_weight, table.by_ref), votes, one)


@dataclass(frozen=True, eq=False)
class Values:
    """Values of every triplet, one column for each measure.

    A score is the sum of a column over that of the rows' `sizes`: a mean over rows, or over votes. ``vote_effects`` has
    the effect of each vote on the columns, where observers are known; ``halves``, the fits from which the noise of
    training is estimated.
    """

    measures: tuple[str, ...]
    columns: FloatArray
    M: IntArray
    vote_effects: FloatArray | None = None
    halves: HalfScores | None = None
    runs: tuple[FloatArray, ...] = ()  # columns of each seed, where these are means over seeds

    def size(self, k: int) -> FloatArray:
        """What each row counts for in the mean of measure k, shape (T,): 1, or its votes for means over votes."""
        return self.M.astype(np.float64) if self.measures[k] in PER_VOTE else np.ones(len(self.M))

    @property
    def sizes(self) -> FloatArray:
        """The size of each row for every measure, shape (T, measures)."""
        return np.stack([self.size(k) for k in range(len(self.measures))]).T


def values_of(
    table: Votes,
    P: FloatArray,
    values: Mapping[str, FloatArray],
    clustering: Clustering,
    *,
    ties: metrics.Ties = "half",
    group: IntArray | None = None,
) -> Values:
    """Put the measures of a table with one distance side by side; `group` as for `values_per_row`."""
    measures, effects = all_measures(table.k), None
    if clustering.ballots is not None:
        row, functions = clustering.ballots.row, score_functions(table, P, ties=ties, group=group)
        of_votes = {
            name: vote_effects(score, clustering.ballots, table.n, table.M, P) for name, score in functions.items()
        }
        known, none = with_sums(of_votes, table.M[row]), np.zeros(len(row))
        effects = np.stack([known.get(name, none) for name in measures]).T
    return Values(measures, np.stack([values[name] for name in measures]).T, table.M, effects)


def mean_values(runs: Sequence[Values]) -> Values:
    """Average the values of several runs on the same triplets."""
    first = runs[0]
    if len(runs) == 1:
        return first
    effects = None
    if first.vote_effects is not None:
        effects = np.mean([run.vote_effects for run in runs if run.vote_effects is not None], axis=0)
    columns = tuple(run.columns for run in runs)
    return replace(first, columns=np.mean(columns, axis=0), vote_effects=effects, halves=None, runs=columns)


def errors(
    values: Values, codes: tuple[list[str], IntArray] | None, clustering: Clustering, grouped: Values | None = None
) -> Errors:
    """Standard errors of every measure: of each group, of the mean of groups and of all rows pooled.

    `codes` are the names of the groups and each row's number among them, `grouped` the values of each group by itself
    where they differ: see `values_per_row`.
    """
    rows, sizes = clustering.rows, values.sizes
    with np.errstate(invalid="ignore"):  # an infinite NLL has no error bar
        by_group = {"all": _errors(values, Means(clustering, sizes, rows.shares(), rows.whole))[0]}
        if codes is not None:
            names, own, groups = codes[0], grouped or values, Strata(codes[1], len(codes[0]))
            means = Means(clustering, sizes, rows.shares(groups), groups)
            by_group |= dict(zip(names, _errors(own, means), strict=True))
            across = replace(means, weight=means.weight / groups.size, across=True)
            by_group["mean"] = _errors(own, across)[0]
    return by_group


def _errors(values: Values, means: Means) -> list[Error]:
    """Errors of each measure, for each group or, across them, for their mean."""
    influence = means.influence(values.columns)
    over_rows = means.variance(influence, values.vote_effects)
    units, training = np.broadcast_to(means.units()[:, None], over_rows.shape), np.zeros(over_rows.shape)
    # Of the NLL alone: scores in % are too little skewed, and have intervals that do not leave their range.
    skewed = [k for k, name in enumerate(values.measures) if name in ("nll", "nll_per_vote")]
    skew = np.zeros(over_rows.shape)
    skew[:, skewed] = means.skewness(influence[:, skewed])
    if values.halves is not None:
        averages, variances = zip(*map(means.estimate, values.halves.apart), strict=True)
        crossed = values.halves.crossed
        training = training_variance(np.stack(averages), np.stack(variances), values.measures, crossed=crossed)
        whole = over_rows + training
        skew = skew * np.divide(over_rows, whole, out=np.zeros(over_rows.shape), where=whole > 0) ** 1.5
        units = combined_units(over_rows, units, training, values.halves.df)
    return [Error(*figures) for figures in zip(np.sqrt(over_rows + training), skew, units, training, strict=True)]


@dataclass(frozen=True, eq=False)
class Means:
    """Means of columns over the rows of each group or, ``across`` groups, the mean of these; and their variances.

    The mean of a column is its weighted sum over that of its sizes, shape (T, k). The weights of triplets sum to 1 in
    each group, or over all of them for the mean of groups.
    """

    clustering: Clustering
    sizes: FloatArray
    weight: FloatArray
    groups: Strata
    across: bool = False

    @cached_property
    def _mean_sizes(self) -> FloatArray:
        return self._averages(self.sizes)

    @cached_property
    def _shares(self) -> FloatArray:
        """Weight of each row for a size of 1, shape (T, k)."""
        return (self.weight / self.groups.of_rows(self._mean_sizes).T).T  # in the order of the columns in memory

    def _averages(self, columns: FloatArray) -> FloatArray:
        """Weighted means of columns over the rows of each group, shape (groups, k)."""
        weight = self.clustering.rows.times * self.weight
        return self.groups.total(columns, weight=weight) / self.groups.total(weight[:, None])

    def influence(self, columns: FloatArray) -> FloatArray:
        """Influence of each row on the mean of each column in the row's group, shape (T, k)."""
        means = self._averages(columns) / self._mean_sizes
        return (columns - self.groups.of_rows(means) * self.sizes) * self._shares

    def variance(self, influence: FloatArray, vote_effects: FloatArray | None = None) -> FloatArray:
        """Variance of each mean over rows and, where effects of votes are given, over observers."""
        rows, ballots = self.clustering.rows, self.clustering.ballots
        over_rows = rows.variance_of_mean if self.across else rows.variance
        variance = over_rows(influence, self.weight, self.groups)
        if vote_effects is not None and ballots is not None:
            effects, groups = vote_effects * self._shares[ballots.row], rows.whole if self.across else self.groups
            variance = variance + ballots.variance(effects, self.weight, rows, groups)
        return variance

    def estimate(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean of each column, shape (groups, k), or (1, k) for the mean of groups, and its variance over rows."""
        means = self._averages(columns) / self._mean_sizes
        variance = self.variance(self.influence(columns))
        return means.mean(axis=0, keepdims=True) if self.across else means, variance

    def skewness(self, influence: FloatArray) -> FloatArray:
        """Skewness of each mean, shape as of the means."""
        return self.clustering.rows.skewness(influence, None if self.across else self.groups)

    def units(self) -> FloatArray:
        """Effective number of independent units of each mean, shape (groups,) or (1,)."""
        return self.clustering.units(self.weight, None if self.across else self.groups)


def independent_rows(values: Values, clustering: Clustering) -> float:
    """Effective number of independent rows: the number of rows over the design effect of the NLL."""
    rows = clustering.rows
    nll, weight = values.columns[:, [values.measures.index("nll")]], rows.shares()
    T = float(rows.times.sum() if rows.sampling is None else 1 / (weight @ weight))
    with np.errstate(invalid="ignore"):
        influence = (nll - np.average(nll, axis=0, weights=rows.times * rows.weights)) * weight[:, None]
        clustered, alone = (
            float(dependence.variance(influence, weight)[0, 0])
            for dependence in (rows, Dependence(rows.size, (), "", rows.count))
        )
    return T * min(1.0, alone / clustered) if clustered > 0 and np.isfinite(clustered) else T


def bar(name: str, value: float | None, se: float, units: float, *, skew: float = 0.0) -> Record:
    """Return the error bar of one measure as the fields of a record; None where it cannot be estimated."""
    if value is None or not np.isfinite(value) or not np.isfinite(se) or units <= 1:
        return {f"{name}_{end}": None for end in ("se", "low", "high")}
    # Scores in % stay between 0 and 100, an NLL at or above 0.
    nll = name.startswith("nll")
    ends = t_interval(value, se, units, skew=skew) if nll else share_interval(value, se, units)
    return {f"{name}_se": se, f"{name}_low": max(ends.low, 0.0), f"{name}_high": ends.high}
