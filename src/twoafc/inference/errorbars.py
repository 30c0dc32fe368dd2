"""Error bars of scores: of each group, of the mean of groups, of all triplets pooled.

A score is a mean over test triplets by a surface fitted to training triplets. Its error is that of other test triplets
and, where fits to halves of the training table are given, that of other training triplets (`training`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from twoafc import metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.dependence import NOT_KEPT, Ballots, Dependence, ballots, find_dependence, vote_effects
from twoafc.inference.intervals import share_interval, t_interval
from twoafc.inference.scores import MEASURES, PER_VOTE, Record, over_votes, score_functions
from twoafc.inference.training import HalfScores, combined_units
from twoafc.table import Votes


class Error(NamedTuple):
    """Standard errors of the measures, then of those per vote, their skewness, and their numbers of units.

    ``training`` is the part of the variances that comes from the noise of training.
    """

    se: FloatArray
    skew: FloatArray
    units: FloatArray
    training: FloatArray


Errors = dict[str, Error]
"""By group."""


FEW, FEW_IMAGES = 15, 30
"""Fewer references or observers, or images where these recur, get a caveat."""
FEW_TESTED = 30
"""Fewer tested rows get one too."""


@dataclass(frozen=True, eq=False)
class Clustering:
    """How the triplets of a table are clustered: by images, and by observers where single votes are known."""

    rows: Dependence
    votes: Ballots | None = None
    one_observer: bool = False

    @property
    def description(self) -> str:
        """The clustering in words."""
        words = [self.rows.description]
        if self.votes is not None:
            words.append(f"votes by observer too ({self.votes.observers} observers)")
        elif self.one_observer:
            words.append("for this one observer alone")
        if self.votes is not None or len(self.rows.kinds) > 1:
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
        if self.votes is not None:
            families["observers"] = self.votes.observers, float(self.votes.units(weight, self.rows.together, 1)[0])
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
        self,
        influence: FloatArray,
        weight: FloatArray,
        effects: FloatArray | None = None,
        stratum: IntArray | None = None,
        strata: int = 1,
    ) -> FloatArray:
        """Standard errors of weighted means, shape (strata, k): see `Dependence.variance` and `Ballots.variance`."""
        variance = self.rows.variance(influence, weight, stratum, strata)
        if self.votes is not None and effects is not None:
            stratum = self.rows.together if stratum is None else stratum
            variance = variance + self.votes.variance(effects, weight, self.rows, stratum, strata)
        return np.sqrt(variance)

    def variance_of_mean(
        self, influence: FloatArray, weight: FloatArray, effects: FloatArray | None, stratum: IntArray, strata: int
    ) -> FloatArray:
        """Variance of the mean of groups, shape (1, k): see `Dependence.variance_of_mean`."""
        variance = self.rows.variance_of_mean(influence, weight, stratum, strata)
        if self.votes is not None and effects is not None:
            variance = variance + self.votes.variance(effects, weight, self.rows, self.rows.together, 1)
        return variance

    def linear_errors(
        self,
        coefficient: FloatArray,
        residual: FloatArray,
        centre: FloatArray,
        weight: FloatArray,
        stratum: IntArray | None = None,
        strata: int = 1,
    ) -> FloatArray:
        """Standard errors of sums of coefficient times residual votes, shape (strata,).

        The residual is n - M centre of each triplet, where centre, shape (T,), is what its votes are compared with.
        """
        effects = None
        if self.votes is not None:
            row = self.votes.row
            effects = (coefficient[row] * (self.votes.chosen - centre[row]))[:, None]
        return self.standard_errors((coefficient * residual)[:, None], weight, effects, stratum, strata)[:, 0]

    def units(self, weight: FloatArray, stratum: IntArray | None = None, strata: int = 1) -> FloatArray:
        """Effective number of independent units in each stratum, shape (strata,)."""
        units = self.rows.units(weight, stratum, strata)
        if self.votes is None:
            return units
        stratum = self.rows.together if stratum is None else stratum
        return np.minimum(units, self.votes.units(weight, stratum, strata))


def clustering_of(table: Votes) -> Clustering:
    """Find how the triplets of a table are clustered."""
    votes = ballots(table)
    one = votes is None and table.votes is not None and "observer" in table.votes.columns
    return Clustering(find_dependence(table.labels, table.count, table.scaled_weight, table.by_ref), votes, one)


@dataclass(frozen=True, eq=False)
class Values:
    """Values of every triplet, one column for each measure.

    ``vote_effects`` has the effect of each vote on them, where observers are known; ``halves``, the fits from which the
    noise of training is estimated.
    """

    measures: tuple[str, ...]
    columns: FloatArray
    M: IntArray
    vote_effects: FloatArray | None = None
    halves: HalfScores | None = None
    runs: tuple[FloatArray, ...] = ()  # columns of each seed, where these are means over seeds

    @property
    def per_vote(self) -> list[str]:
        """Measures that have a mean over votes too."""
        return [name for name in PER_VOTE.values() if name in self.measures]

    def sums_over_votes(self, columns: FloatArray, M: IntArray) -> FloatArray:
        """Sum columns of the measures that have a mean over votes over the M votes of each row, shape (rows, v)."""
        sums = (over_votes(name, columns[:, self.measures.index(name)], M) for name in self.per_vote)
        return np.stack([*sums]).T


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
    measures, effects = MEASURES[table.k], None
    if clustering.votes is not None:
        effects = np.zeros((len(clustering.votes.row), len(measures)))
        for name, score in score_functions(table, P, ties=ties, group=group).items():
            effects[:, measures.index(name)] = vote_effects(score, clustering.votes, table.n, table.M, P)
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
    rows = clustering.rows
    with np.errstate(invalid="ignore"):  # an infinite NLL has no error bar
        by_group = {"all": _errors(values, rows.shares(), None, 1, clustering)[0]}
        if codes is not None:
            names, group = codes
            shares = rows.shares(group)
            own = grouped or values
            by_group |= dict(zip(names, _errors(own, shares, group, len(names), clustering), strict=True))
            by_group["mean"] = _errors(own, shares / len(names), group, len(names), clustering, across=True)[0]
    return by_group


def _errors(
    values: Values,
    weight: FloatArray,
    group: IntArray | None,
    count: int,
    clustering: Clustering,
    *,
    across: bool = False,
) -> list[Error]:
    """Errors of each measure and of those per vote, for each group or, `across` them, for their mean."""
    code = np.zeros(len(values.M), dtype=np.int64) if group is None else group
    _, influence = _influence(values, values.columns, weight, code, count, clustering.rows)
    effects = None
    if values.vote_effects is not None and clustering.votes is not None:
        row, M, own = clustering.votes.row, values.M, clustering.rows.weights
        votes, total = (np.bincount(code, amount, minlength=count)[code] for amount in (own * M, weight))
        per_vote = values.sums_over_votes(values.vote_effects, M[row]) * (own * (total / votes))[row, None]
        effects = np.column_stack([values.vote_effects * weight[row, None], per_vote])

    def variance(influence: FloatArray, effects: FloatArray | None = None) -> FloatArray:
        if across:
            return clustering.variance_of_mean(influence, weight, effects, code, count)
        return clustering.standard_errors(influence, weight, effects, group, count) ** 2

    strata, groups = (None, 1) if across else (group, count)
    rows = variance(influence, effects)
    # Of the NLL alone: scores in % are too little skewed, and have intervals that do not leave their range.
    skew, nll = np.zeros(rows.shape), [0, len(values.measures)]
    skew[:, nll] = clustering.rows.skewness(influence[:, nll], strata, groups)
    units = np.broadcast_to(clustering.units(weight, strata, groups)[:, None], rows.shape)
    if values.halves is None:
        return [Error(*figures) for figures in zip(np.sqrt(rows), skew, units, np.zeros(rows.shape), strict=True)]

    def estimate(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        means, influence = _influence(values, columns, weight, code, count, clustering.rows)
        return means.mean(axis=0, keepdims=True) if across else means, variance(influence)

    training = values.halves.variance(estimate, [*values.measures, *values.per_vote])
    whole = rows + training
    skew = skew * np.divide(rows, whole, out=np.zeros(rows.shape), where=whole > 0) ** 1.5
    units = combined_units(rows, units, training, values.halves.df)
    return [Error(*figures) for figures in zip(np.sqrt(whole), skew, units, training, strict=True)]


def _influence(
    values: Values, columns: FloatArray, weight: FloatArray, code: IntArray, count: int, rows: Dependence
) -> tuple[FloatArray, FloatArray]:
    """Means of columns, then of those per vote, in each group, and the influence of each row on them."""
    k, M, own, times = len(values.measures), values.M, rows.weights, rows.times.astype(np.float64)
    votes, total = (np.bincount(code, times * amount, minlength=count) for amount in (own * M, weight))
    of_votes = values.sums_over_votes(columns, M)
    influence, means = np.empty((k + of_votes.shape[1], len(M))), np.empty((count, k + of_votes.shape[1]))
    share = times * weight
    for place, column in enumerate(columns.T):
        means[:, place] = np.bincount(code, share * column, minlength=count) / total
        influence[place] = (column - means[code, place]) * weight
    share, per_vote = times * own, own * (total / votes)[code]
    for place, column in enumerate(of_votes.T, start=k):
        means[:, place] = np.bincount(code, share * column, minlength=count) / votes
        influence[place] = (column - means[code, place] * M) * per_vote
    return means, influence.T


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
    """Return the error bar of one measure as the fields of a record; None where it cannot be estimated.

    Examples
    --------
    >>> bar("nll", 1.0, float("nan"), 1.0)
    {'nll_se': None, 'nll_low': None, 'nll_high': None}
    """
    if value is None or not np.isfinite(value) or not np.isfinite(se) or units <= 1:
        return {f"{name}_{end}": None for end in ("se", "low", "high")}
    # Scores in % stay between 0 and 100, an NLL at or above 0.
    nll = name.startswith("nll")
    ends = t_interval(value, se, units, skew=skew) if nll else share_interval(value, se, units)
    return {f"{name}_se": se, f"{name}_low": max(ends.low, 0.0), f"{name}_high": ends.high}
