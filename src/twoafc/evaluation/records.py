"""Predictions to score records: with error bars, and summed up over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import FloatArray
from twoafc.evaluation.loop import HalfFits, Prediction
from twoafc.evaluation.settings import Settings
from twoafc.inference import (
    COMPARED,
    DRAWS,
    MEASURES,
    Ceiling,
    Clustering,
    Columns,
    Error,
    Errors,
    Record,
    Values,
    all_measures,
    bar,
    by_group,
    errors,
    estimate_ceiling,
    halves_of,
    lettered,
    over_seeds,
    share_explained,
    t_interval,
    values_of,
    values_per_row,
)
from twoafc.metrics import log_likelihood
from twoafc.results import HALVES, is_shown
from twoafc.table import ENDS


@dataclass(frozen=True, eq=False)
class Scored:
    """A prediction with the values of its rows; `values` is None where P is not finite (a run that diverged).

    ``grouped`` has the values of each group by itself, where they differ from those of all rows.
    """

    prediction: Prediction
    values: Values | None
    grouped: Values | None
    records: list[Record]

    @property
    def codes(self) -> tuple[list[str], NDArray[np.int64]] | None:
        """Names of the groups and each row's number among them; None where the table has none."""
        return self.prediction.table.groups

    @property
    def key(self) -> tuple[str, str]:
        """Distance and estimator."""
        return self.prediction.run.distance, self.prediction.run.estimator


def scored(prediction: Prediction, settings: Settings, clustering: Clustering) -> Scored:
    """Score a prediction by group, without error bars."""
    table, P = prediction.table, prediction.P
    if not np.isfinite(P).all():
        return Scored(prediction, None, None, records_of(prediction, settings))
    columns, grouped = _columns(prediction, settings)
    values = values_of(table, P, columns, clustering, ties=settings.ties)
    by_itself = None
    if grouped is not None and table.groups is not None:
        by_itself = values_of(table, P, grouped, clustering, ties=settings.ties, group=table.groups[1])
    return Scored(prediction, values, by_itself, _records(prediction, columns, grouped))


def with_halves(one: Scored, fits: HalfFits, settings: Settings) -> Scored:
    """Add the scores of fits to halves of the training table, from which the noise of training is estimated."""
    if one.values is None:
        return one
    table = one.prediction.table
    halves = halves_of(table, fits.P, ties=settings.ties, crossed=fits.crossed, freedom=fits.freedom)
    values, grouped = (None if part is None else replace(part, halves=halves) for part in (one.values, one.grouped))
    return replace(one, prediction=replace(one.prediction, halves=fits), values=values, grouped=grouped)


def records_of(prediction: Prediction, settings: Settings, *, draws: int = DRAWS) -> list[Record]:
    """Score a prediction by group; of a run that diverged nothing is known but its size."""
    if np.isfinite(prediction.P).all():
        return _records(prediction, *_columns(prediction, settings, draws))
    half = replace(prediction, P=np.full(len(prediction.table), 0.5))
    unknown = dict.fromkeys((*all_measures(prediction.table.k), "ties_model"))
    return [record | unknown for record in _records(half, *_columns(half, settings, draws))]


def _columns(prediction: Prediction, settings: Settings, draws: int = DRAWS) -> tuple[Columns, Columns | None]:
    """Values of every row: of all rows together and, of pairs in groups, of each group by itself."""
    table, P = prediction.table, prediction.P
    values = values_per_row(table, P, ties=settings.ties, floor=prediction.floor, draws=draws)
    if table.k == 2 or table.groups is None:
        return values, None
    return values, values_per_row(table, P, floor=prediction.floor, group=table.groups[1], draws=draws)


def _records(prediction: Prediction, values: Columns, grouped: Columns | None) -> list[Record]:
    run, split = prediction.run, prediction.split
    head = {"distance": run.distance, "estimator": run.estimator, "split": split}
    tail = {"seed": run.seed, "diverged": int(prediction.diverged)}
    records = [{**head, **record, **tail} for record in by_group(prediction.table, values, grouped)]
    return [record for record in records if not split.startswith("fold") or record["group"] == "all"]


def with_bars(records: Sequence[Record], errors: Errors) -> list[Record]:
    """Give every measure of some records its error bar; their errors are given by group."""
    return [record | _bars(record, errors[record["group"]]) for record in records]


def without_bars(records: Sequence[Record]) -> list[Record]:
    """Say of every measure that its error cannot be known."""
    unknown = np.full(len(_measured(records[0])), np.nan)
    return with_bars(records, {record["group"]: Error(unknown, unknown, unknown) for record in records})


def _measured(record: Record) -> list[str]:
    """Measures of a record that have error bars."""
    return all_measures(1 if "pairs" in record else 2)


def _bars(record: Record, error: Error) -> Record:
    bars: Record = {}
    for name, se, skew, units in zip(_measured(record), *error, strict=True):
        bars |= bar(name, record[name], float(se), float(units), skew=float(skew))
    return bars


def summaries(scores: Sequence[Record], units: Mapping[tuple[str, str], FloatArray]) -> list[Record]:
    """Mean and spread over seeds, one record for each distance, estimator, split and group that has seeds.

    The error of the mean is that of its triplets, about the same in every run, and that of its seeds, which are drawn.

    Parameters
    ----------
    units : mapping of split and group to the numbers of independent units there, by measure
    """
    runs: dict[tuple[Any, ...], list[Record]] = {}
    for record in scores:
        if record["seed"] is not None:
            key = tuple(record[name] for name in ("distance", "estimator", "split", "group"))
            runs.setdefault(key, []).append(record)
    return [_summary(group, units.get(key[2:])) for key, group in runs.items()]


def _summary(runs: Sequence[Record], units: FloatArray | None) -> Record:
    plain = [{name: value for name, value in run.items() if not _is_bar(name)} for run in runs]
    summary = over_seeds(plain)
    finished = [run for run in runs if not run["diverged"]]
    for place, name in enumerate(_measured(summary)):
        errors = [run[f"{name}_se"] for run in finished if run.get(f"{name}_se") is not None]
        spread = summary.get(f"{name}_sd") or 0.0
        se = float(np.sqrt(np.mean(np.square(errors)) + spread**2 / len(finished))) if errors else np.nan
        summary |= bar(name, summary.get(name), se, 0.0 if units is None else float(units[place]))
    return summary


def with_letters(scores: Sequence[Record], comparisons: Sequence[Record]) -> list[Record]:
    """Give the tested scores, all rows pooled, their letters: MEASURE_letters, within each estimator."""
    measures = COMPARED[1 if "pairs" in scores[0] else 2]
    letters: dict[tuple[str, str, str], str] = {}
    for label in dict.fromkeys(record["estimator"] for record in comparisons):
        pairs = [record for record in comparisons if record["estimator"] == label]
        shown = {r["distance"]: r for r in scores if r["estimator"] == label and is_shown(r, scores)}
        for measure, how in measures.items():
            means = {name: r[measure] for name, r in shown.items() if r[measure] is not None}
            by_name = lettered(pairs, means, measure, better=how.better)
            letters |= {(label, name, measure): text for name, text in by_name.items()}
    return [
        record
        | {
            f"{measure}_letters": letters[record["estimator"], record["distance"], measure]
            for measure in measures
            if is_shown(record, scores) and (record["estimator"], record["distance"], measure) in letters
        }
        for record in scores
    ]


def _is_bar(name: str) -> bool:
    return name.endswith(("_se", "_low", "_high"))


def warnings(records: Sequence[Record]) -> Iterator[str]:
    """Say of scores what their numbers alone would not make plain."""
    for record in records:
        seed = "" if record["seed"] is None else f", seed {record['seed']}"
        name = f"{record['distance']}, {record['estimator']}{seed}"
        if record["diverged"] and record["split"] != "test":
            where = "" if record["split"] == "train" else f" on {record['split']}"
            yield f"{name}: the run{where} diverged"
        elif record["nll"] == np.inf and record["split"] == "test" and record["group"] == "all":
            yield f"{name}: the NLL on test is infinite; votes were cast to which it gives no chance"
        if "average_precision" in record and record["average_precision"] is None and record["group"] == "all":
            yield f"nobody said same on {record['split']}: there is no average precision"


def tested(scored: Scored, splits: int) -> pl.DataFrame:
    """P and NLL of every tested row, with its labels, votes and distances, and P by the fits to halves."""
    prediction, run, table = scored.prediction, scored.prediction.run, scored.prediction.table
    nll = np.full(len(table), np.nan)
    if scored.values is not None:
        nll = scored.values.columns[:, scored.values.measures.index("nll")]
    return table.labels.with_columns(
        n=pl.Series(table.n),
        M=pl.Series(table.M),
        **({} if table.weight is None else {"weight": pl.Series(table.weight)}),
        distance=pl.lit(run.distance),
        estimator=pl.lit(run.estimator),
        seed=pl.lit(run.seed, dtype=pl.Int64),
        diverged=pl.lit(prediction.diverged),
        **{end: pl.Series(column) for end, column in zip(ENDS[table.k], table.columns, strict=True)},
        P=pl.Series(prediction.P),
        nll=pl.Series(nll),
        **({HALVES: _halves_column(prediction, splits)} if splits else {}),
    )


def _halves_column(prediction: Prediction, splits: int) -> pl.Series:
    """P by the fits to halves, first and second of each split in turn; null where there are none."""
    dtype = pl.Array(pl.Float64, 2 * splits)
    if prediction.halves is None:
        return pl.Series([None] * len(prediction.table), dtype=dtype)
    return pl.Series(prediction.halves.P.reshape(2 * splits, -1).T.copy(), dtype=dtype)


def ceiling_of(tested: Sequence[Scored], clustering: Clustering) -> Ceiling:
    """Floor and ceiling of the votes that were tested on; every scored function shows what can be reached."""
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
    return estimate_ceiling(table.n, table.M, clusters=clustering.rows, scored=scored)


def with_explained(
    scores: Sequence[Record], tested: Sequence[tuple[Scored, Clustering]], ceiling: Ceiling
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
            shares.setdefault(one.key, []).append(_explained(one, clustering, ceiling))
    explained = {key: tuple(_mean(ends) for ends in zip(*pairs, strict=True)) for key, pairs in shares.items()}
    nothing = (None, None)
    return [
        record | dict(zip(("explained_low", "explained_high"), explained.get(_key(record), nothing), strict=True))
        if is_shown(record, scores)
        else record
        for record in scores
    ]


def _key(record: Record) -> tuple[str, str]:
    return record["distance"], record["estimator"]


def _mean(ends: tuple[float | None, ...]) -> float | None:
    known = [end for end in ends if end is not None]
    return float(np.mean(known)) if len(known) == len(ends) else None


def _explained(one: Scored, clustering: Clustering, ceiling: Ceiling) -> tuple[float | None, float | None]:
    """Interval of the share explained; the gain on P = 1/2 is paired, triplet by triplet."""
    assert one.values is not None
    table = one.prediction.table
    weight = clustering.rows.shares()
    gain = -log_likelihood(table.n, table.M, 0.5) - one.values.columns[:, MEASURES[2].index("nll")]
    mean = float(np.average(gain, weights=table.mass))
    if not np.isfinite(mean):
        return None, None
    moved = None
    if clustering.votes is not None and one.values.moved is not None:
        moved = -one.values.moved[:, [MEASURES[2].index("nll")]] * weight[clustering.votes.row, None]
    se = float(clustering.standard_errors(((gain - mean) * weight)[:, None], weight, moved)[0, 0])
    units = float(clustering.units(weight)[0])
    if one.values.halves is not None:
        whole = errors(one.values, None, clustering)["all"]
        rows = errors(replace(one.values, halves=None), None, clustering)["all"]
        se, units = float(np.sqrt(se**2 + whole.se[0] ** 2 - rows.se[0] ** 2)), float(whole.units[0])
    ends = t_interval(mean, se, units)
    if not np.isfinite(ends.low):
        return None, None
    low, high = share_explained(ceiling, *(ceiling.floor_nll - value for value in (mean, ends.high, ends.low)))
    return None if low is None else 100 * low, None if high is None else 100 * high
