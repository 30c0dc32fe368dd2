"""Error bars of scores: of each group, of the mean of groups, of all triplets pooled.

A score is a mean over triplets of values that the fitted surface is given for: its error is that of asking about other
triplets, not that of fitting another surface. `twoafc.inference.bootstrap` can add the latter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twoafc import metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.dependence import Dependence, find_dependence
from twoafc.inference.intervals import LEVEL, Interval, share_interval, t_interval
from twoafc.inference.observers import Ballots, Score, ballots, moves
from twoafc.inference.precision import Ranking
from twoafc.inference.scores import MEASURES, PER_VOTE, Record, over_votes, parts_of, side_by_side
from twoafc.table import Votes


class Error(NamedTuple):
    """Standard errors of the measures, then of those per vote, their skewness, and the number of independent units."""

    se: FloatArray
    skew: FloatArray
    units: float


Errors = dict[str, Error]
"""By group."""

LEAST = 0.5
"""Votes of one observer may take at most this share off the variance, by chance."""


@dataclass(frozen=True, eq=False)
class Clustering:
    """How the triplets of a table are clustered: by images, and by observers where single votes are known."""

    rows: Dependence
    votes: Ballots | None = None
    few_observers: bool = False

    @property
    def drawable(self) -> Dependence:
        """The dependence of rows that are single triplets, from which tables can be drawn."""
        assert self.rows.count is None
        return self.rows

    @property
    def description(self) -> str:
        """The same in words."""
        if self.votes is not None:
            return f"{self.rows.description}; votes by observer too"
        return (
            f"{self.rows.description}; the few observers are taken as given"
            if self.few_observers
            else self.rows.description
        )

    def standard_errors(
        self,
        influence: FloatArray,
        weight: FloatArray,
        moved: FloatArray | None = None,
        strata: IntArray | None = None,
        count: int = 1,
    ) -> FloatArray:
        """Standard errors of weighted means, shape (count, k): see `Dependence.variance` and `Ballots.variance`."""
        variance = self.rows.variance(influence, weight, strata, count)
        if self.votes is not None and moved is not None:
            stratum = np.zeros(len(weight), dtype=np.int64) if strata is None else strata
            added = self.votes.variance(moved, weight, self.rows, stratum, count)
            # Less than nothing is added by chance alone; much less is not believed.
            variance = variance + np.maximum(added, -LEAST * variance)
        return np.sqrt(variance)

    def linear_errors(
        self,
        coefficient: FloatArray,
        residual: FloatArray,
        centre: FloatArray,
        weight: FloatArray,
        strata: IntArray | None = None,
        count: int = 1,
    ) -> FloatArray:
        """Standard errors of sums of coefficient times residual votes, shape (count,).

        Parameters
        ----------
        residual : array, shape (T,)
            n - M centre of each triplet, where centre, shape (T,), is what each of its votes is compared with.
        """
        moved = None
        if self.votes is not None:
            row = self.votes.row
            moved = (coefficient[row] * (self.votes.chosen - centre[row]))[:, None]
        return self.standard_errors((coefficient * residual)[:, None], weight, moved, strata, count)[:, 0]

    def units(self, weight: FloatArray, strata: IntArray | None = None, count: int = 1) -> FloatArray:
        """Effective number of independent units in each stratum, shape (count,)."""
        units = self.rows.units(weight, strata, count)
        if self.votes is None:
            return units
        stratum = np.zeros(len(weight), dtype=np.int64) if strata is None else strata
        return np.minimum(units, self.votes.units(weight, stratum, count))


def clustering_of(table: Votes) -> Clustering:
    """Find how the triplets of a table are clustered."""
    votes = ballots(table)
    few = votes is None and table.votes is not None and "observer" in table.votes.columns
    return Clustering(find_dependence(table.labels, table.count), votes, few)


@dataclass(frozen=True, eq=False)
class Values:
    """Values of every triplet, one column for each measure, and what a vote moves them by where observers are known.

    With `count` every row stands for so many triplets.
    """

    measures: tuple[str, ...]
    columns: FloatArray
    M: IntArray
    moved: FloatArray | None = None
    count: IntArray | None = None

    @property
    def per_vote(self) -> list[str]:
        """Measures that have a mean over votes too."""
        return [name for name in PER_VOTE.values() if name in self.measures]

    @property
    def over_votes(self) -> FloatArray:
        """Sums of those over the votes of each triplet, shape (T, v)."""
        columns = (over_votes(name, self.columns[:, self.measures.index(name)], self.M) for name in self.per_vote)
        return np.stack([*columns], axis=1)


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
    measures, moved = MEASURES[table.k], None
    if clustering.votes is not None:
        moved = np.zeros((len(clustering.votes.row), len(measures)))
        for name, score in _scores(table, P, ties, group).items():
            moved[:, measures.index(name)] = moves(score, clustering.votes, table.n, table.M, P)
    return Values(measures, side_by_side(values, table.k), table.M, moved, table.count)


def mean_values(each: Sequence[Values]) -> Values:
    """Average the values of several runs on the same triplets."""
    first = each[0]
    if len(each) == 1:
        return first
    moved = None if first.moved is None else np.mean([one.moved for one in each if one.moved is not None], axis=0)
    return Values(first.measures, np.mean([one.columns for one in each], axis=0), first.M, moved, first.count)


def _scores(table: Votes, P: FloatArray, ties: metrics.Ties, group: IntArray | None) -> dict[str, Score]:
    """Scores as functions of n, M, P, with the choice of each triplet, or the order of pairs, fixed."""
    scores: dict[str, Score] = {
        "nll": lambda row, n, M, p: -metrics.log_likelihood(n, M, p),
        "agreement": lambda row, n, M, p: metrics.agreement_per_triplet(n, M, p),
    }
    if table.k == 1:
        gain = np.empty(len(table))
        for rows in parts_of(group, len(table)):
            share = table.n[rows] / table.M[rows]
            gain[rows] = len(rows) * Ranking.by(table.columns[0][rows]).influence(share)[1]
        return scores | {"average_precision": lambda row, n, M, p: gain[row] * n / M}
    d0, d1 = table.columns
    for name, margin in {"score_2afc": P - 0.5, "score_2afc_distance": d0 - d1}.items():
        chosen = metrics.choice(margin, ties=ties)
        scores[name] = lambda row, n, M, p, chosen=chosen: metrics.score_2afc_per_triplet(n, M, chosen[row])  # type: ignore[misc]
    return scores


def errors(
    values: Values, codes: tuple[list[str], IntArray] | None, clustering: Clustering, grouped: Values | None = None
) -> Errors:
    """Standard errors of every measure: of each group, of the mean of groups and of all rows pooled.

    Parameters
    ----------
    codes : pair of group names and each row's number among them, or None where the table has no groups
    grouped : Values, optional
        Those of each group by itself, where they differ: see `values_per_row`.
    """
    T = len(values.M) if values.count is None else values.count.sum()
    with np.errstate(invalid="ignore"):  # an infinite NLL has no error bar
        found = {"all": _errors(values, np.full(len(values.M), 1 / T), None, 1, clustering)[0]}
        if codes is not None:
            names, group = codes
            each = 1 / np.bincount(group, values.count)[group]
            own = grouped or values
            found |= dict(zip(names, _errors(own, each, group, len(names), clustering), strict=True))
            found["mean"] = _errors(own, each / len(names), group, len(names), clustering, across=True)[0]
    return found


def _errors(
    values: Values,
    weight: FloatArray,
    group: IntArray | None,
    count: int,
    clustering: Clustering,
    *,
    across: bool = False,
) -> list[Error]:
    """Errors of each measure and of those per vote, for each group."""
    code = np.zeros(len(values.M), dtype=np.int64) if group is None else group
    k, M = len(values.measures), values.M
    times = np.ones(len(M)) if values.count is None else values.count.astype(np.float64)
    votes, total = (np.bincount(code, times * each, minlength=count)[code] for each in (M, weight))
    shares = times * weight
    sums = np.stack([np.bincount(code, shares * column, minlength=count) for column in values.columns.T], axis=1)
    means = (sums if group is None else sums[code]) / (total[:1] if group is None else total)[:, None]
    of_votes = values.over_votes
    influence = np.empty((len(M), k + of_votes.shape[1]))
    np.subtract(values.columns, means, out=influence[:, :k])
    influence[:, :k] *= weight[:, None]
    for place, column in enumerate(of_votes.T, start=k):
        ratio = np.bincount(code, times * column, minlength=count)[code] / votes
        influence[:, place] = (column - ratio * M) / votes * total
    if across:
        # Each row was held against the mean of its own group, and moved that, not the mean of groups.
        influence = influence * clustering.rows.own_share(weight / total, code)[:, None]
    moved = None
    if values.moved is not None and clustering.votes is not None:
        row = clustering.votes.row
        by_vote = [over_votes(name, values.moved[:, values.measures.index(name)], M[row]) for name in values.per_vote]
        moved = np.column_stack([values.moved * weight[row, None], *(each * (total / votes)[row] for each in by_vote)])
    strata, strata_count = (None, 1) if across or group is None else (code, count)
    found = clustering.standard_errors(influence, weight, moved, strata, strata_count)
    # Of the NLL alone: scores in % are too little skewed, and have intervals that do not leave their range.
    skew = np.zeros(found.shape)
    skew[:, [0, k]] = clustering.rows.skewness(influence[:, [0, k]], strata, strata_count)
    freedom = np.median(
        clustering.rows.freedom(
            influence[:, [i for i, name in enumerate(values.measures) if not name.endswith("_simulated")]],
            strata,
            strata_count,
        ),
        axis=1,
    )
    units = np.minimum(clustering.units(weight, strata, strata_count), 1 + freedom)
    return [Error(*each) for each in zip(found, skew, units.tolist(), strict=True)]


def bar(name: str, value: float | None, se: float, units: float, *, skew: float = 0.0, level: float = LEVEL) -> Record:
    """Give the error bar of one measure as the fields of a record; None where it cannot be known.

    Examples
    --------
    >>> bar("nll", 1.0, float("nan"), 1.0)
    {'nll_se': None, 'nll_low': None, 'nll_high': None}
    """
    if value is None or not np.isfinite(value) or not np.isfinite(se) or units <= 1:
        return {f"{name}_{end}": None for end in ("se", "low", "high")}
    found = interval(name, value, se, units, skew=skew, level=level)
    return {f"{name}_se": found.se, f"{name}_low": found.low, f"{name}_high": found.high}


def interval(name: str, value: float, se: float, units: float, *, skew: float = 0.0, level: float = LEVEL) -> Interval:
    """Interval of a measure: scores in % stay between 0 and 100, an NLL at or above 0."""
    if name.startswith("nll"):
        found = t_interval(value, se, units, skew=skew, level=level)
        return found._replace(low=max(found.low, 0.0))
    return share_interval(value, se, units, level=level)
