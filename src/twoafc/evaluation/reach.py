"""How far scores could go: floor and ceiling of the tested votes, and the share of the way that each distance goes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twoafc.evaluation.records import Scored
from twoafc.inference import MEASURES, Ceiling, Clustering, Record, estimate_ceiling, share_explained, t_interval
from twoafc.metrics import log_likelihood
from twoafc.results import is_shown


def ceiling_of(tested: Scored, clustering: Clustering) -> Ceiling:
    """Floor and ceiling of the votes that were tested on, whatever the distance."""
    table = tested.prediction.table
    return estimate_ceiling(table.n, table.M, clusters=clustering.rows)


def with_explained(
    scores: Sequence[Record], tested: Sequence[tuple[Scored, Clustering]], found: Ceiling
) -> list[Record]:
    """Give the tested scores, all triplets pooled, the share of the explainable that they explain: an interval in %.

    Parameters
    ----------
    tested : sequence of pairs
        What was tested, and how its triplets are clustered.
    """
    shares: dict[tuple[str, str], list[tuple[float | None, float | None]]] = {}
    for one, clustering in tested:
        if one.values is not None and not one.prediction.diverged:
            # Of several seeds the mean stands in the tables; their ends differ by less than they are apart.
            shares.setdefault(one.key, []).append(_explained(one, clustering, found))
    told = {key: tuple(_mean(ends) for ends in zip(*each, strict=True)) for key, each in shares.items()}
    nothing = (None, None)
    return [
        record | dict(zip(("explained_low", "explained_high"), told.get(_key(record), nothing), strict=True))
        if is_shown(record, scores)
        else record
        for record in scores
    ]


def _key(record: Record) -> tuple[str, str]:
    return record["distance"], record["estimator"]


def _mean(ends: tuple[float | None, ...]) -> float | None:
    known = [end for end in ends if end is not None]
    return float(np.mean(known)) if len(known) == len(ends) else None


def _explained(one: Scored, clustering: Clustering, found: Ceiling) -> tuple[float | None, float | None]:
    """Interval of the share explained; the gain on P = 1/2 is paired, triplet by triplet."""
    assert one.values is not None
    table = one.prediction.table
    T = len(table) if table.count is None else table.count.sum()
    weight = np.full(len(table), 1 / T)
    gain = -log_likelihood(table.n, table.M, 0.5) - one.values.columns[:, MEASURES[2].index("nll")]
    mean = float(np.average(gain, weights=table.count))
    if not np.isfinite(mean):
        return None, None
    moved = None
    if clustering.votes is not None and one.values.moved is not None:
        moved = -one.values.moved[:, [MEASURES[2].index("nll")]] * weight[clustering.votes.row, None]
    se = float(clustering.standard_errors(((gain - mean) * weight)[:, None], weight, moved)[0, 0])
    ends = t_interval(mean, se, float(clustering.units(weight)[0]))
    if not np.isfinite(ends.low):
        return None, None
    low, high = share_explained(found, *(found.floor_nll - each for each in (mean, ends.high, ends.low)))
    return None if low is None else 100 * low, None if high is None else 100 * high
