"""The ceiling of an evaluation, and the share of it that each score explains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.evaluation.records import Scored, with_fields
from twoafc.inference import (
    MEASURES,
    Ceiling,
    Clustering,
    Record,
    Values,
    best_of,
    errors,
    estimate_ceiling,
    share_explained,
    t_interval,
)
from twoafc.metrics import log_likelihood


def ceiling_of(tested: Sequence[Scored], clustering: Clustering, among: int = 1) -> Ceiling:
    """Floor and ceiling of the tested votes; every scored function shows what can be reached."""
    table = tested[0].prediction.table
    scored: dict[str, list[FloatArray]] = {"nll": [], "score_2afc": []}
    alone: dict[str, FloatArray] = {}
    for one in tested:
        if one.values is not None:
            columns = dict(zip(one.values.measures, one.values.columns.T, strict=True))
            scored["nll"].append(columns["nll"])
            scored["score_2afc"].append(columns["score_2afc"])
            alone[one.prediction.run.distance] = columns["score_2afc_distance"]
    scored["score_2afc"] += alone.values()
    return estimate_ceiling(table.n, table.M, clusters=clustering.rows, scored=scored, among=among)


def with_explained(
    scores: Sequence[Record], tested: Sequence[Scored], clustering: Clustering, ceiling: Ceiling
) -> list[Record]:
    """Add to the tested scores, all triplets pooled, the share of the explainable that they explain: an interval in %.

    For several seeds it is the mean of their ends.
    """
    shares: dict[tuple[str, str], list[tuple[float | None, float | None]]] = {one.key: [] for one in tested}
    for one in tested:
        if one.values is not None and not one.prediction.diverged:
            shares[one.key].append(_explained(one, one.values, clustering, ceiling))
    explained: dict[tuple[str, str], Record] = {}
    for key, intervals in shares.items():
        for side, name in enumerate(("explained_low", "explained_high")):
            ends = [interval[side] for interval in intervals]
            known = [end for end in ends if end is not None]
            explained.setdefault(key, {})[name] = float(np.mean(known)) if known and known == ends else None
    return with_fields(scores, explained)


def with_common_ceiling(
    scores: Sequence[Sequence[Record]], ceilings: Sequence[Ceiling]
) -> tuple[list[Record], Ceiling]:
    """Join the scores of tables with the same votes, with the share that each explains of what all of them show."""
    common = best_of(ceilings)
    parts = zip(scores, ceilings, strict=True)
    return [_explained_by(record, own, common) for records, own in parts for record in records], common


def _explained_by(record: Record, own: Ceiling, common: Ceiling) -> Record:
    """Return a record with the share that it explains of a common ceiling, instead of its own."""
    shares = {}
    for end, sides in {"low": ("gain_highest", "gain_lowest"), "high": ("gain_lowest", "gain_highest")}.items():
        share = record.get(f"explained_{end}")
        if share is not None:
            gain = sides[share < 0]
            shares[f"explained_{end}"] = share * getattr(own, gain) / getattr(common, gain)
    return record | shares


def _explained(
    one: Scored, values: Values, clustering: Clustering, ceiling: Ceiling
) -> tuple[float | None, float | None]:
    """Interval of the share explained; the gain over P = 1/2 is paired, triplet by triplet."""
    table, nll = one.prediction.table, MEASURES[2].index("nll")
    weight = clustering.rows.shares()
    gain = -log_likelihood(table.n, table.M, 0.5) - values.columns[:, nll]
    mean = float(np.average(gain, weights=table.mass))
    if not np.isfinite(mean):
        return None, None
    effects = None
    if clustering.ballots is not None and values.vote_effects is not None:
        effects = -values.vote_effects[:, [nll]] * weight[clustering.ballots.row, None]
    se = float(clustering.standard_errors(((gain - mean) * weight)[:, None], weight, effects)[0, 0])
    units = float(clustering.units(weight)[0])
    if values.halves is not None:
        error = errors(values, None, clustering)["all"]
        se, units = float(np.sqrt(se**2 + error.training[nll])), float(error.units[nll])
    ends = t_interval(mean, se, units)
    if not np.isfinite(ends.low):
        return None, None
    low, high = share_explained(ceiling, *(ceiling.floor_nll - value for value in (mean, ends.high, ends.low)))
    return None if low is None else 100 * low, None if high is None else 100 * high
