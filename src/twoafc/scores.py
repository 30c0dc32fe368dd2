"""Scores of one fit on one table as records: by group, pooled over triplets, and as the mean of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twoafc import metrics
from twoafc.arrays import FloatArray, IntArray
from twoafc.rows import Rows

Record = dict[str, Any]

MEASURES = (
    "nll",
    "agreement",
    "score_2afc",
    "score_2afc_distance",
    "nll_simulated",
    "agreement_simulated",
    "score_2afc_simulated",
    "score_2afc_distance_simulated",
)
"""Means over triplets."""
PER_VOTE = {
    "nll_per_vote": "nll",
    "score_2afc_votes": "score_2afc",
    "score_2afc_distance_votes": "score_2afc_distance",
}
"""Means over votes, and the measure whose mean over triplets each stands beside."""
ALL_MEASURES = (*MEASURES, *PER_VOTE)
COUNTS = ("triplets", "votes", "ties", "ties_model")


def per_triplet(
    table: Rows, P: FloatArray, *, ties: metrics.Ties = "half", simulated_seed: int | None = None
) -> dict[str, FloatArray]:
    """Every measure of every triplet of a table with one distance, row by row.

    The simulated ones are expectations over votes drawn from Binomial(M, P); with a seed they are one draw, as in the
    paper.
    """
    n, M = table.n, table.M
    c, c_distance = metrics.choice(P - 0.5, ties=ties), metrics.choice(table.d0 - table.d1, ties=ties)
    if simulated_seed is None:
        share = P
        nll_simulated = metrics.expected_nll_per_triplet(M, P)
        agreement_simulated = metrics.expected_agreement_per_triplet(M, P)
    else:
        drawn = metrics.simulate(M, P, seed=simulated_seed)
        share = drawn / M
        nll_simulated = -metrics.log_likelihood(drawn, M, P)
        agreement_simulated = metrics.agreement_per_triplet(drawn, M, P)
    return {
        "nll": -metrics.log_likelihood(n, M, P),
        "agreement": metrics.agreement_per_triplet(n, M, P),
        "score_2afc": metrics.score_2afc_per_triplet(n, M, c),
        "score_2afc_distance": metrics.score_2afc_per_triplet(n, M, c_distance),
        "nll_simulated": nll_simulated,
        "agreement_simulated": agreement_simulated,
        "score_2afc_simulated": metrics.score_2afc_per_triplet(share, 1, c),
        "score_2afc_distance_simulated": metrics.score_2afc_per_triplet(share, 1, c_distance),
        "ties": (table.d0 == table.d1).astype(np.float64),
        "ties_model": (P == 0.5).astype(np.float64),
    }


def over_votes(name: str, column: FloatArray, M: IntArray) -> FloatArray:
    """Sum a measure over the votes of each triplet: an NLL is such a sum, a score in % a mean."""
    return column if name == "nll" else column * M


def by_group(table: Rows, values: dict[str, FloatArray]) -> list[Record]:
    """Make one record per group, then ``mean`` (of groups, where several), then ``all`` (pooled over triplets)."""
    grouped, times = table.groups, table.count
    groups, code = grouped or (["all"], np.zeros(len(table), dtype=np.int64))
    triplets, votes = np.bincount(code, times), np.bincount(code, table.M if times is None else table.M * times)
    sums = {name: np.bincount(code, column if times is None else column * times) for name, column in values.items()}
    of_votes = {
        name: np.bincount(code, over_votes(of, values[of], table.M) * (1 if times is None else times))
        for name, of in PER_VOTE.items()
    }
    records = [
        {
            "triplets": int(triplets[g]),
            "votes": int(votes[g]),
            **{name: float(sums[name][g] / triplets[g]) for name in MEASURES},
            **{name: float(total[g] / votes[g]) for name, total in of_votes.items()},
            **{name: int(sums[name][g]) for name in ("ties", "ties_model")},
        }
        for g in range(len(triplets))
    ]
    named = [{"group": group, **record} for group, record in zip(groups, records, strict=True)]
    if grouped is None:
        return named
    mean = [mean_of_groups(named)] if len(named) > 1 else []
    return [*named, *mean, pooled(named)]


def pooled(records: Sequence[Record]) -> Record:
    """Pool groups over their triplets: measures are weighted by triplets, NLL per vote by votes, counts are summed.

    Examples
    --------
    >>> pooled([{"triplets": 1, "nll": 1.0}, {"triplets": 3, "nll": 2.0}])
    {'group': 'all', 'triplets': 4, 'nll': 1.75}
    """
    weights = dict.fromkeys(PER_VOTE, "votes")
    return _combined("all", records, lambda name: [record[weights.get(name, "triplets")] for record in records])


def mean_of_groups(records: Sequence[Record]) -> Record:
    """Mean of groups, each counted once whatever its size; counts are summed.

    Examples
    --------
    >>> mean_of_groups([{"triplets": 1, "nll": 1.0}, {"triplets": 3, "nll": 2.0}])
    {'group': 'mean', 'triplets': 4, 'nll': 1.5}
    """
    return _combined("mean", records, lambda name: [1] * len(records))


def _combined(group: str, records: Sequence[Record], weights: Any) -> Record:
    combined: Record = {"group": group}
    for name in records[0]:
        values = [record[name] for record in records]
        if name in COUNTS:
            combined[name] = sum(values)
        elif name != "group":
            combined[name] = float(np.average(values, weights=weights(name)))
    return combined


def over_seeds(runs: Sequence[Record]) -> Record:
    """Mean and standard deviation (``_sd``) over the seeds of one score; runs that diverged are counted, not averaged.

    Examples
    --------
    >>> over_seeds([{"nll": 1.0, "seed": 0, "diverged": 0}, {"nll": 3.0, "seed": 1, "diverged": 0}])
    {'nll': 2.0, 'seed': None, 'diverged': 0, 'nll_sd': 1.4142135623730951, 'runs': 2}
    """
    finished = [run for run in runs if not run["diverged"]]
    summary: Record = dict(runs[0]) | {"seed": None, "diverged": len(runs) - len(finished)}
    for name in (*ALL_MEASURES, "ties_model"):
        if name in summary:
            values = [float(run[name]) for run in finished]
            summary[name] = float(np.mean(values)) if finished else None
            if name != "ties_model":
                summary[f"{name}_sd"] = float(np.std(values, ddof=1)) if len(finished) > 1 else None
    return summary | {"runs": len(runs)}
