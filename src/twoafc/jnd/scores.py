"""Scores of one curve on pairs, as records with error bars: by group, pooled over pairs, and as the mean of groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from twoafc import metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.jnd.pairs import Pairs
from twoafc.jnd.precision import Ranking, average_precision
from twoafc.scores import Record

MEASURES = (
    "nll",
    "agreement",
    "average_precision",
    "nll_simulated",
    "agreement_simulated",
    "average_precision_simulated",
)
"""All but the average precision are means over pairs; ``nll_per_vote``, a mean over votes, stands beside them."""
ALL_MEASURES = (*MEASURES, "nll_per_vote")
MEANS = tuple(name for name in MEASURES if not name.startswith("average_precision"))
COUNTS = ("pairs", "votes", "ties")
DRAWS = 64
"""Votes are drawn so often for the average precision that they would have; unlike an NLL's, it has no closed form."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """P of one curve on the pairs of one split, and the constant P that it has to beat.

    Parameters
    ----------
    table : Pairs
        With the one distance.
    P : array, shape (T,)
        Chance of "same".
    floor : array, shape (T,)
        Share of "same" in the votes that the curve was fitted to.
    """

    distance: str
    estimator: str
    split: str
    table: Pairs
    P: FloatArray
    floor: FloatArray

    @property
    def key(self) -> tuple[str, str, str]:
        """Distance, estimator and split."""
        return self.distance, self.estimator, self.split

    def where(self, rows: IntArray) -> Prediction:
        """Keep some rows."""
        some = (self.table.where(rows), self.P[rows], self.floor[rows])
        return Prediction(self.distance, self.estimator, self.split, *some)


def groups_of(table: Pairs) -> tuple[list[str], IntArray] | None:
    """Names of the groups and each row's number among them; None where there are no groups."""
    return table.rows().codes("group") if "group" in table.labels.columns else None


def means_per_pair(one: Prediction, simulated_seed: int | None = None) -> dict[str, FloatArray]:
    """Every measure that is a mean over pairs, of every pair."""
    n, M, P = one.table.n, one.table.M, one.P
    if simulated_seed is None:
        nll_simulated = metrics.expected_nll_per_triplet(M, P)
        agreement_simulated = metrics.expected_agreement_per_triplet(M, P)
    else:
        drawn = metrics.simulate(M, P, seed=simulated_seed)
        nll_simulated = -metrics.log_likelihood(drawn, M, P)
        agreement_simulated = metrics.agreement_per_triplet(drawn, M, P)
    return {
        "nll": -metrics.log_likelihood(n, M, P),
        "agreement": metrics.agreement_per_triplet(n, M, P),
        "nll_simulated": nll_simulated,
        "agreement_simulated": agreement_simulated,
    }


def records(one: Prediction, simulated_seed: int | None = None, *, draws: int = DRAWS) -> list[Record]:
    """Make one record per group, then ``mean`` (of groups, where several), then ``all`` (pooled over pairs).

    Parameters
    ----------
    simulated_seed : int or None
        Draw the simulated scores with this seed; None gives their expectation.
    draws : int
        Draws for the expected average precision; 0 takes that of the shares to expect, n/M = P, which is a little less.
    """
    head = {"distance": one.distance, "estimator": one.estimator, "split": one.split}
    whole = head | {"group": "all"} | _record(one, simulated_seed, draws)
    found = groups_of(one.table)
    if found is None or one.split.startswith("fold"):
        return [whole]
    names, code = found
    parts = [
        head | {"group": name} | _record(one.where(np.flatnonzero(code == g)), simulated_seed, draws)
        for g, name in enumerate(names)
    ]
    mean = [_mean(parts)] if len(parts) > 1 else []
    return [*parts, *mean, whole]


def _record(one: Prediction, simulated_seed: int | None, draws: int) -> Record:
    table, M = one.table, one.table.M
    values = means_per_pair(one, simulated_seed)
    means = {name: float(column.mean()) for name, column in values.items()}
    means["average_precision"] = average_precision(table.n, M, table.d)
    means["average_precision_simulated"] = _simulated_precision(one, simulated_seed, draws)
    ties = len(table) - len(np.unique(table.d))
    return {
        "pairs": len(table),
        "votes": int(M.sum()),
        **{name: means[name] if np.isfinite(means[name]) or name == "nll" else None for name in MEASURES},
        "nll_per_vote": float(values["nll"].sum() / M.sum()),
        "ties": ties,
        **_floor(one),
        "seed": None,
    }


def _floor(one: Prediction) -> Record:
    """Scores of the constant P, and of a distance that puts all pairs at one place."""
    n, M, P = one.table.n, one.table.M, one.floor
    return {
        "nll_floor": metrics.nll(n, M, P),
        "nll_per_vote_floor": metrics.nll_per_vote(n, M, P),
        "agreement_floor": metrics.agreement(n, M, P),
        "average_precision_floor": average_precision(n, M, np.zeros(len(n))) if n.any() else None,
    }


def _simulated_precision(one: Prediction, simulated_seed: int | None, draws: int) -> float:
    """Average precision of votes drawn from Binomial(M, P): one draw with the seed, else the mean over many."""
    ranking = Ranking.by(one.table.d)
    if simulated_seed is None and not draws:
        return ranking.average_precision(one.P)
    seeds = range(draws) if simulated_seed is None else [simulated_seed]
    drawn = [metrics.simulate(one.table.M, one.P, seed=seed) / one.table.M for seed in seeds]
    found = [ranking.average_precision(share) for share in drawn if share.any()]
    return float(np.mean(found)) if found else float("nan")


def _mean(parts: list[Record]) -> Record:
    """Mean of groups, each counted once whatever its size; counts are summed."""
    mean = dict(parts[0]) | {"group": "mean"}
    for name in COUNTS:
        mean[name] = sum(part[name] for part in parts)
    for name in (*ALL_MEASURES, *(name for name in mean if name.endswith("_floor"))):
        values = [part[name] for part in parts]
        mean[name] = None if None in values else float(np.mean(values))
    return mean


def warnings(scores: list[Record]) -> Iterator[str]:
    """Say of scores what their numbers alone would not make plain."""
    for record in scores:
        if record["split"] == "test" and record["group"] == "all":
            name = f"{record['distance']}, {record['estimator']}"
            if record["nll"] == np.inf:
                yield f"{name}: the NLL on test is infinite; votes were cast to which it gives no chance"
            if record["average_precision"] is None:
                yield "nobody said same on test: there is no average precision"
