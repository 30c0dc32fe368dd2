"""Predictions to score records with error bars, summarised over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray, IntArray, Progress
from twoafc.evaluation.loop import Data, Fits, Prediction, predictions
from twoafc.evaluation.settings import FOLDS, Settings
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
    best_of,
    bootstrap_errors,
    bootstrap_means,
    by_group,
    clustering_of,
    combined_units,
    drawn_rows,
    errors,
    estimate_ceiling,
    lettered,
    over_seeds,
    share_explained,
    spread,
    t_interval,
    values_of,
    values_per_row,
)
from twoafc.metrics import log_likelihood
from twoafc.results import HALVES, shown
from twoafc.table import ENDS, Votes, assign_folds, most_folds

BY_FORMULA = "95 % intervals for other test triplets"

Key = tuple[str, str, str, str]
"""Distance, estimator, split, group."""


# Scores


@dataclass(frozen=True, eq=False)
class Scored:
    """A prediction with the values of its rows; `values` is None where P is not finite (a run that diverged).

    ``grouped`` has the values of each group by itself, where they differ from those of all rows; ``P_halves``, shape
    (splits, 2, T), is P by fits to complementary halves of the training table, if they were made.
    """

    prediction: Prediction
    values: Values | None
    grouped: Values | None
    records: list[Record]
    P_halves: FloatArray | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Distance and estimator."""
        return self.prediction.run.distance, self.prediction.run.estimator

    @property
    def split(self) -> str:
        """Which rows were scored: train, test, or one of the folds."""
        return self.prediction.split

    def of_split(self, prediction: Prediction) -> Scored:
        """Return the same scores for another split of the same rows."""
        records = [record | {"split": prediction.split} for record in self.records]
        return replace(self, prediction=prediction, records=records)


def score(prediction: Prediction, settings: Settings, clustering: Clustering) -> Scored:
    """Score a prediction by group, without error bars; for a run that diverged only its size is known."""
    table, P = prediction.table, prediction.P
    if not np.isfinite(P).all():
        half = replace(prediction, P=np.full(len(table), 0.5))
        unknown = dict.fromkeys((*all_measures(table.k), "ties_model"))
        return Scored(prediction, None, None, [record | unknown for record in records_of(half, settings)])
    columns, grouped = _columns(prediction, settings, DRAWS)
    values = values_of(table, P, columns, clustering, ties=settings.ties)
    by_itself = None
    if grouped is not None and table.groups is not None:
        by_itself = values_of(table, P, grouped, clustering, ties=settings.ties, group=table.groups[1])
    return Scored(prediction, values, by_itself, _records(prediction, columns, grouped))


def records_of(prediction: Prediction, settings: Settings, *, draws: int = DRAWS) -> list[Record]:
    """Score a prediction whose P are numbers by group."""
    return _records(prediction, *_columns(prediction, settings, draws))


def _columns(prediction: Prediction, settings: Settings, draws: int) -> tuple[Columns, Columns | None]:
    """Values of every row: of all rows together and, for pairs in groups, of each group by itself."""
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


# Error bars: by formula, from drawn test tables, and from fits to drawn training tables


@dataclass(frozen=True, eq=False)
class ErrorBarMethod:
    """How error bars are made: see `twoafc.Settings`.

    ``refits`` are scores of surfaces fitted to drawn training tables, of `bootstrap_refits`, and ``on_test`` is whether
    they were scored on a test table, which was not drawn: the error over its rows is then added.
    """

    settings: Settings
    refits: Mapping[Key, FloatArray]
    on_test: bool

    @property
    def description(self) -> str:
        """What the error bars are of."""
        draws = self.settings.draws
        if self.settings.error_bars == "bootstrap":
            return f"95 % intervals of the fitted surfaces on other triplets, from {draws} drawn tables"
        if self.settings.error_bars == "refit":
            return f"95 % intervals of surfaces fitted to other votes, from {draws} drawn training tables"
        return BY_FORMULA

    def errors(self, one: Scored, clustering: Clustering) -> Errors:
        """Return the errors of a prediction's scores, by group."""
        assert one.values is not None
        by_formula = errors(one.values, one.prediction.table.groups, clustering, one.grouped)
        if self.settings.error_bars == "bootstrap":
            return self._bootstrap(one, one.values, clustering, by_formula)
        return self._refit(one, by_formula) if self.settings.error_bars == "refit" else by_formula

    def _bootstrap(self, one: Scored, values: Values, clustering: Clustering, by_formula: Errors) -> Errors:
        """Errors of the fitted surfaces, from drawn test tables."""
        groups, draws, seed = one.prediction.table.groups, self.settings.draws, self.settings.seed
        drawn = bootstrap_errors(values, groups, clustering.rows, grouped=one.grouped, draws=draws, seed=seed)
        if clustering.ballots is None:
            return {
                group: error._replace(se=drawn[group], units=np.minimum(error.units, draws))
                for group, error in by_formula.items()
            }
        # Observers are not drawn: their part of the variance is added by formula.
        rows = errors(values, groups, Clustering(clustering.rows, None), one.grouped)
        return {
            group: error._replace(se=np.sqrt(np.maximum(drawn[group] ** 2 + error.se**2 - rows[group].se ** 2, 0)))
            for group, error in by_formula.items()
        }

    def _refit(self, one: Scored, by_formula: Errors) -> Errors:
        """Errors of surfaces fitted to other votes, on other rows."""
        tested, by_group = self.on_test and one.split == "test", {}
        for group, error in by_formula.items():
            drawn = self.refits.get((*one.key, one.split, group), np.full((2, len(error.se)), np.nan))
            over_rows, training = error.se**2 if tested else np.zeros_like(error.se), spread(drawn) ** 2
            units = np.minimum(error.units, len(drawn))
            if tested:
                units = combined_units(over_rows, error.units, training, len(drawn) - 1)
            by_group[group] = error._replace(se=np.sqrt(over_rows + training), units=units)
        return by_group

    def replicates(self, values: Mapping[str, Values], clustering: Clustering, estimator: str) -> dict[str, Any]:
        """Return replicated scores as arguments of `twoafc.inference.compare`; none for errors by formula."""
        if self.settings.error_bars == "refit":
            refits = {name: self.refits[name, estimator, "test", "all"] for name in values}
            return {"refitted" if self.on_test else "drawn": refits}
        # The part of the observers needs the formula.
        if self.settings.error_bars != "bootstrap" or clustering.ballots is not None:
            return {}
        draws, seed = self.settings.draws, self.settings.seed
        drawn = {name: bootstrap_means(each, clustering.rows, draws=draws, seed=seed) for name, each in values.items()}
        return {"drawn": drawn}


def bootstrap_refits(data: Data, fits: Fits, settings: Settings, progress: Progress | None) -> dict[Key, FloatArray]:
    """Fit to bootstrap samples of the training table and score again: shape (draws, measures) for each score.

    With a test table, all draws are scored on the same test rows: their spread is the error of the fit alone, to which
    that of the rows is added. Without one, the drawn table is cross-validated and the spread is the whole error. The
    mean over draws is not used: a drawn table has fewer different rows, so fits to it are a little worse.
    """
    rng = np.random.default_rng(settings.seed)
    rows, measures = clustering_of(data.train).rows, all_measures(data.train.k)
    replicates: dict[Key, FloatArray] = {}
    for draw in range(settings.draws):
        if progress:
            progress(draw, settings.draws, "fitting to drawn tables")
        drawn = _redrawn(data.train, drawn_rows(rows, rng))
        # Another seed for each draw: what a seed decides is part of the error.
        current = replace(settings, seeds=1, seed=settings.seed + draw)
        fold = None
        if data.test is None:
            most = most_folds(drawn)
            if most < 2:
                continue  # a single reference was drawn
            fold = assign_folds(drawn, min(settings.folds or FOLDS, most), seed=current.seed)
        for task in fits.tasks(current):
            for prediction in predictions(task, task.run(drawn), Data(drawn, data.test, fold)):
                if prediction.diverged:
                    continue
                # Votes drawn for an expected score would add a noise of their own to the spread.
                for record in records_of(prediction, settings, draws=0):
                    key = (record["distance"], record["estimator"], record["split"], record["group"])
                    drawn_scores = replicates.setdefault(key, np.full((settings.draws, len(measures)), np.nan))
                    drawn_scores[draw] = [np.nan if record[name] is None else record[name] for name in measures]
    return replicates


def _redrawn(table: Votes, rows: IntArray) -> Votes:
    """Take rows as often as they were drawn; copies of a row share a reference, so that they share a fold."""
    drawn = table.at(rows)
    labels = drawn.labels
    if "ref0" not in labels.columns and ("ref" not in labels.columns or labels["ref"].n_unique() == 1):
        labels = labels.with_columns(ref=pl.col(table.row))
    copies = pl.Series(table.row, np.arange(len(rows))).cast(pl.String)
    return replace(drawn, labels=labels.with_columns(copies))


def with_bars(records: Sequence[Record], known: Errors) -> list[Record]:
    """Add the error bar of every measure to some records; they are None for groups whose errors are not known."""
    measures = _measures(records[0])
    unknown = Error(*np.full((4, len(measures)), np.nan))
    barred = []
    for record in records:
        bars: Record = {}
        error = known.get(record["group"], unknown)
        for name, se, skew, units in zip(measures, error.se, error.skew, error.units, strict=True):
            bars |= bar(name, record[name], float(se), float(units), skew=float(skew))
        barred.append(record | bars)
    return barred


def _measures(record: Record) -> tuple[str, ...]:
    """Measures of a record that have error bars."""
    return all_measures(1 if "pairs" in record else 2)


# What is added to the records of several scores


def summaries(scores: Sequence[Record], units: Mapping[tuple[str, ...], FloatArray]) -> list[Record]:
    """Mean and spread over seeds, one record for each distance, estimator, split and group that has seeds.

    The variance of the mean is that over triplets, about the same in every run, plus that over seeds, which are drawn.
    `units` are the numbers of independent units by measure, for each distance, estimator, split and group.
    """
    by_key: dict[tuple[Any, ...], list[Record]] = {}
    for record in scores:
        if record["seed"] is not None:
            key = tuple(record[name] for name in ("distance", "estimator", "split", "group"))
            by_key.setdefault(key, []).append(record)
    records = []
    for key, runs in by_key.items():
        bars = ("_se", "_low", "_high")
        summary = over_seeds([{name: run[name] for name in run if not name.endswith(bars)} for run in runs])
        finished, of_units = [run for run in runs if not run["diverged"]], units.get(key)
        for place, name in enumerate(_measures(summary)):
            se_of_runs = [run[f"{name}_se"] for run in finished if run.get(f"{name}_se") is not None]
            rows = float(np.mean(np.square(se_of_runs))) if se_of_runs else np.nan
            of_seeds = (summary.get(f"{name}_sd") or 0.0) ** 2 / max(len(finished), 1)
            known = 0.0 if of_units is None else of_units[place]
            combined = combined_units(rows, known, of_seeds, max(len(finished) - 1, 1))
            summary |= bar(name, summary.get(name), float(np.sqrt(rows + of_seeds)), float(combined))
        records.append(summary)
    return records


def with_letters(scores: Sequence[Record], comparisons: Sequence[Record]) -> list[Record]:
    """Add letters to the tested scores, all rows pooled: MEASURE_letters, within each estimator."""
    measures, tested = COMPARED[1 if "pairs" in scores[0] else 2], shown(scores)
    letters: dict[tuple[str, str], Record] = {}
    for label in dict.fromkeys(record["estimator"] for record in comparisons):
        pairs = [record for record in comparisons if record["estimator"] == label]
        own = {r["distance"]: r for r in tested if r["estimator"] == label}
        for measure, how in measures.items():
            means = {name: r[measure] for name, r in own.items() if r[measure] is not None}
            for name, text in lettered(pairs, means, measure, better=how.better).items():
                letters.setdefault((name, label), {})[f"{measure}_letters"] = text
    return with_fields(scores, letters)


def with_fields(scores: Sequence[Record], fields: Mapping[tuple[str, str], Record]) -> list[Record]:
    """Add the fields of each distance and estimator to its tested score, all rows pooled."""
    tested = shown(scores)
    return [
        record | fields.get((record["distance"], record["estimator"]), {}) if record in tested else record
        for record in scores
    ]


# The ceiling, and the share of it that each score explains


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
            mean = None if not ends or None in ends else float(np.mean(np.array(ends, dtype=np.float64)))
            explained.setdefault(key, {})[name] = mean
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


# What is unknown, and the rows of the result


def warnings(records: Sequence[Record]) -> Iterator[str]:
    """Explain scores that are unknown or infinite."""
    for record in records:
        seed = "" if record["seed"] is None else f", seed {record['seed']}"
        name = f"{record['distance']}, {record['estimator']}{seed}"
        if record["diverged"] and record["split"] != "test":
            where = "" if record["split"] == "train" else f" on {record['split']}"
            yield f"{name}: the run{where} diverged"
        elif record["nll"] == np.inf and record["split"] == "test" and record["group"] == "all":
            yield f"{name}: the NLL on test is infinite; it assigns probability 0 to observed votes"
        if "average_precision" in record and record["average_precision"] is None and record["group"] == "all":
            yield f"nobody said same on {record['split']}: there is no average precision"


def tested_rows(scored: Scored, splits: int) -> pl.DataFrame:
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
        **({HALVES: _halves_column(scored, splits)} if splits else {}),
    )


def _halves_column(scored: Scored, splits: int) -> pl.Series:
    """P by the fits to halves, first and second of each split in turn; null where there are none."""
    dtype = pl.Array(pl.Float64, 2 * splits)
    if scored.P_halves is None:
        return pl.Series([None] * len(scored.prediction.table), dtype=dtype)
    return pl.Series(scored.P_halves.reshape(2 * splits, -1).T.copy(), dtype=dtype)
