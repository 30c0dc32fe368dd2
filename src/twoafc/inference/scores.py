"""Scores of one P on one table as records: by group, pooled over rows, and as the mean of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from twoafc import metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.inference.dependence import Score, Strata
from twoafc.table import Votes

Record = dict[str, Any]
Columns = dict[str, FloatArray]
"""Values of every row by measure; the scores are their means over rows, or over votes (`PER_VOTE`)."""

OBSERVED = {2: ("nll", "agreement", "score_2afc", "score_2afc_distance"), 1: ("nll", "agreement", "average_precision")}
MEASURES = {k: (*names, *(f"{name}_simulated" for name in names)) for k, names in OBSERVED.items()}
"""Means over triplets (2) and over pairs (1), each with an error bar."""
PER_VOTE = {
    "nll_per_vote": "nll",
    "score_2afc_votes": "score_2afc",
    "score_2afc_distance_votes": "score_2afc_distance",
    "nll_per_vote_floor": "nll_floor",
}
"""Means over votes, each with the measure whose mean over rows it complements.

The column of a row is then the sum over its votes; the score is the sum of the column over the number of votes."""
COUNTS = ("triplets", "pairs", "votes", "ties", "ties_model")
DRAWS = 64  # draws of votes for the expected average precision, which has no closed form


def all_measures(k: int) -> tuple[str, ...]:
    """Every measure with an error bar: means over rows, then means over votes."""
    return (*MEASURES[k], *(name for name, of in PER_VOTE.items() if of in MEASURES[k]))


def with_sums(columns: Columns, M: IntArray) -> Columns:
    """Add the columns of the means over votes: an NLL is a sum over the votes of a row, a score in % a mean."""
    known = {name: of for name, of in PER_VOTE.items() if of in columns}
    return columns | {name: columns[of] if of.startswith("nll") else columns[of] * M for name, of in known.items()}


def values_per_row(
    table: Votes,
    P: FloatArray,
    *,
    ties: metrics.Ties = "half",
    floor: FloatArray | None = None,
    group: IntArray | None = None,
    draws: int = DRAWS,
) -> Columns:
    """Every measure of every row of a table with one distance.

    Simulated measures are expectations over votes drawn from Binomial(M, P). The average precision of pairs is no mean
    over rows: its column has values whose mean is the average precision and whose spread gives its error.

    For pairs only: `floor` is the constant P to beat, the share of "same" in the training votes; with `group`, the
    number of each row's group, the average precision is that of the group; the expected one is the mean of so many
    `draws`, and without any that of the expected shares, a little less.
    """
    n, M = table.n, table.M
    values = {
        "nll": -metrics.log_likelihood(n, M, P),
        "agreement": metrics.agreement_per_triplet(n, M, P),
        "nll_simulated": metrics.expected_nll_per_triplet(M, P),
        "agreement_simulated": metrics.expected_agreement_per_triplet(M, P),
    }
    if table.k == 2:
        return with_sums(values | _choices(table, P, ties), M)
    if floor is not None:
        values["nll_floor"] = -metrics.log_likelihood(n, M, floor)
        values["agreement_floor"] = metrics.agreement_per_triplet(n, M, floor)
        values["average_precision_floor"] = 100 * n / M if n.any() else np.full(len(n), np.nan)
    return with_sums(values | _precisions(table, P, group, draws), M)


def _chosen(table: Votes, P: FloatArray, ties: metrics.Ties) -> Columns:
    """Share of the choice of each triplet given to x1: by the model, and by the bare distance."""
    d0, d1 = table.columns
    margins = {"score_2afc": P - 0.5, "score_2afc_distance": d0 - d1}
    return {name: metrics.choice(margin, ties=ties) for name, margin in margins.items()}


def _choices(table: Votes, P: FloatArray, ties: metrics.Ties) -> Columns:
    """2AFC scores: of the model, which chooses by P, and of the bare distance, which chooses by d0 - d1."""
    d0, d1 = table.columns
    values: Columns = {}
    for name, chosen in _chosen(table, P, ties).items():
        values[name] = metrics.score_2afc_per_triplet(table.n, table.M, chosen)
        values[f"{name}_simulated"] = metrics.score_2afc_per_triplet(P, 1, chosen)
    return values | {"ties": (d0 == d1).astype(np.float64), "ties_model": (P == 0.5).astype(np.float64)}


def _precisions(table: Votes, P: FloatArray, group: IntArray | None, draws: int) -> Columns:
    """Average precision of "same" by rising distance, group by group."""
    n, M = table.n, table.M
    names = ("average_precision", "average_precision_simulated", "ties")
    values = {name: np.empty(len(n)) for name in names}
    for rows, ranking in rankings(table, group):
        simulated = ranking.average_precision(P[rows])
        if draws:
            drawn = [metrics.simulate(M[rows], P[rows], seed=seed) / M[rows] for seed in range(draws)]
            scores = [ranking.average_precision(share) for share in drawn if share.any()]
            simulated = float(np.mean(scores)) if scores else float("nan")
        values["average_precision"][rows] = ranking.values(n[rows] / M[rows])
        values["average_precision_simulated"][rows] = simulated + ranking.weight.sum() * ranking.influence(P[rows])[0]
        values["ties"][rows] = ranking.repeats
    return values


def score_functions(
    table: Votes, P: FloatArray, *, ties: metrics.Ties = "half", group: IntArray | None = None
) -> dict[str, Score]:
    """Measures of single rows as functions of n, M, P, with the choice of a triplet, or the order of pairs, fixed."""
    scores: dict[str, Score] = {
        "nll": lambda row, n, M, p: -metrics.log_likelihood(n, M, p),
        "agreement": lambda row, n, M, p: metrics.agreement_per_triplet(n, M, p),
    }
    if table.k == 1:
        gain = np.empty(len(table))
        for rows, ranking in rankings(table, group):
            gain[rows] = ranking.weight.sum() * ranking.influence(table.n[rows] / table.M[rows])[1]
        return scores | {"average_precision": lambda row, n, M, p: gain[row] * n / M}
    for name, chosen in _chosen(table, P, ties).items():
        scores[name] = lambda row, n, M, p, chosen=chosen: metrics.score_2afc_per_triplet(n, M, chosen[row])  # type: ignore[misc]
    return scores


def rankings(table: Votes, group: IntArray | None) -> Iterator[tuple[IntArray, Ranking]]:
    """Rows of each group, or all of them, and their order by distance."""
    code, weight = np.zeros(len(table)) if group is None else group, table.scaled_weight
    for rows in (np.flatnonzero(code == g) for g in np.unique(code)):
        yield rows, Ranking.by(table.columns[0][rows], None if weight is None else weight[rows])


def by_group(table: Votes, values: Columns, grouped: Columns | None = None) -> list[Record]:
    """Make one record per group, then ``mean`` (of groups, where several), then ``all`` (pooled over rows).

    `grouped` has the values of each group by itself, where they differ: see `values_per_row`.
    """
    pooled = {"group": "all", **_records(table, values, np.zeros(len(table), dtype=np.int64))[0]}
    if table.groups is None:
        return [pooled]
    names, code = table.groups
    records = _records(table, values if grouped is None else grouped, code)
    named = [{"group": name, **record} for name, record in zip(names, records, strict=True)]
    return [*named, *([mean_of_groups(named)] if len(named) > 1 else []), pooled]


def _records(table: Votes, values: Columns, code: IntArray) -> list[Record]:
    """Means over the rows, and over the votes, of each group: weighted, but for the counts."""
    count, mass = (1 if each is None else each for each in (table.count, table.mass))
    size = {f"{table.row}s": np.ones(len(table)), "votes": table.M.astype(np.float64)}
    ties = {name: values[name] for name in ("ties", "ties_model") if name in values}
    groups = Strata(code, int(code.max()) + 1)
    numbers = {name: groups.sum(column, count) for name, column in (size | ties).items()}
    rows, votes = (groups.sum(column, mass) for column in size.values())
    means = {
        name: groups.sum(column, mass) / (votes if name in PER_VOTE else rows)
        for name, column in values.items()
        if name not in ties
    }
    # A measure that is not finite is not known, but an NLL may be infinite.
    known = {name: np.isfinite(column) | name.startswith("nll") for name, column in means.items()}
    return [
        {
            **{name: round(numbers[name][g]) for name in size},
            **{name: float(column[g]) if known[name][g] else None for name, column in means.items()},
            **{name: round(numbers[name][g]) for name in ties},
        }
        for g in range(len(rows))
    ]


def mean_of_groups(records: Sequence[Record]) -> Record:
    """Mean of groups, each counted once whatever its size; counts are summed."""
    mean: Record = {"group": "mean"}
    for name in records[0]:
        values = [record[name] for record in records]
        if name in COUNTS:
            mean[name] = sum(values)
        elif name != "group":
            mean[name] = None if None in values else float(np.mean(values))
    return mean


def over_seeds(runs: Sequence[Record]) -> Record:
    """Mean and standard deviation (``_sd``) of one score over seeds; runs that diverged are counted, not averaged."""
    finished = [run for run in runs if not run["diverged"]]
    summary: Record = dict(runs[0]) | {"seed": None, "diverged": len(runs) - len(finished)}
    for name in dict.fromkeys((*all_measures(2), *all_measures(1), "ties_model")):
        if name in summary:
            values = [float(run[name]) for run in finished]
            summary[name] = float(np.mean(values)) if finished else None
            if name != "ties_model":
                summary[f"{name}_sd"] = float(np.std(values, ddof=1)) if len(finished) > 1 else None
    return summary | {"runs": len(runs)}


# Average precision of pairs
#
# Average precision: average precision of "same" where pairs are taken in the order of their distance. Zhang et al.
# (2018) count a pair as "same" by the share n/M of its votes, each pair once whatever its M, and take the area under
# the envelope of precision over recall (the rule of the VOC challenge since 2010). Pairs at the same distance cannot
# be put in order by it, so they enter together: precision is taken where a distance ends, never between pairs that
# share one. The value then does not depend on the order of the rows, and a constant distance has the mean share.


def average_precision(n: ArrayLike, M: ArrayLike, d: ArrayLike) -> float:
    """Average precision of "same" by rising distance, in %; NaN where nobody said "same".

    Examples
    --------
    >>> round(average_precision(n=[3, 0, 3, 0], M=[3, 3, 3, 3], d=[0.1, 0.2, 0.3, 0.4]), 2)
    83.33
    >>> average_precision(n=[3, 0, 3, 0], M=[3, 3, 3, 3], d=[1, 1, 1, 1])
    50.0
    """
    share = np.asarray(n, dtype=np.float64) / np.asarray(M)
    return Ranking.by(d).average_precision(share)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Pairs in the order of a distance."""

    order: IntArray  # the pairs, nearest first, shape (T,)
    ends: IntArray  # place of the last pair at each of the K distinct distances, shape (K,)
    weight: FloatArray  # how many times each pair counts, shape (T,)

    @classmethod
    def by(cls, d: ArrayLike, weight: FloatArray | None = None) -> Ranking:
        """Rank pairs by their distance; each counts once where no weights are given."""
        d = np.asarray(d, dtype=np.float64)
        order = np.argsort(d, kind="stable")
        ordered = d[order]
        ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        return cls(order, ends, np.ones(len(d)) if weight is None else weight)

    def average_precision(self, share: FloatArray) -> float:
        """Average precision in %."""
        hits, envelope, steps, _ = self._curve(share)
        return float(100 * steps @ envelope) if hits[-1] > 0 else float("nan")

    def _curve(self, share: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Up to each distinct distance: "same" votes retrieved, best precision from there on, recall gained, pairs."""
        weight = self.weight[self.order]
        hits = np.cumsum(share[self.order] * weight)[self.ends]
        taken = np.cumsum(weight)[self.ends]
        precision = np.divide(hits, taken, out=np.zeros_like(hits), where=taken > 0)
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        return hits, envelope, np.diff(hits, prepend=0.0) / max(hits[-1], np.finfo(np.float64).tiny), taken

    def influence(self, share: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How the average precision moves, in %, with a pair's weight and with its share of "same".

        Moving a pair moves the recall gained at its distance, and the precision at every later place where the envelope
        is attained; where that is does not move to first order. Derivatives by the weight of each pair have a weighted
        sum of 0; those by its share n/M are for a weight of 1.
        """
        hits, envelope, steps, taken = self._curve(share)
        if not hits[-1] > 0:
            return np.full(len(share), np.nan), np.full(len(share), np.nan)
        precision = hits / taken
        # The envelope at k is the precision at the first place from k on that attains it.
        places = np.where(precision == envelope, np.arange(len(hits)), len(hits))
        attained = np.minimum.accumulate(places[::-1])[::-1]
        resting = np.bincount(attained, steps, len(hits)) / taken
        later = np.cumsum(resting[::-1])[::-1]
        drawn = np.cumsum((resting * precision)[::-1])[::-1]
        place = np.repeat(np.arange(len(hits)), np.diff(self.ends, prepend=-1))
        gain = ((envelope - steps @ envelope) / hits[-1] + later)[place]
        by_share, by_weight = np.empty(len(share)), np.empty(len(share))
        by_share[self.order] = 100 * gain
        by_weight[self.order] = 100 * (share[self.order] * gain - drawn[place])
        return by_weight, by_share

    @property
    def repeats(self) -> FloatArray:
        """1 for each pair whose distance an earlier pair has, else 0, shape (T,)."""
        again = np.ones(len(self.order))
        again[self.order[np.concatenate([[0], self.ends[:-1] + 1])]] = 0.0
        return again

    def values(self, share: FloatArray) -> FloatArray:
        """One value per pair whose mean is the average precision, and whose spread gives its error, shape (T,)."""
        return np.asarray(self.average_precision(share) + self.weight.sum() * self.influence(share)[0])
