"""Scores of surfaces fitted anew to tables drawn anew: the error of the fit and of the triplets together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from twoafc import folds as cross_validation
from twoafc.arrays import FloatArray, IntArray
from twoafc.evaluation.records import scored
from twoafc.evaluation.runs import Job, predictions
from twoafc.evaluation.settings import Progress, Settings
from twoafc.inference.bootstrap import drawn_rows
from twoafc.inference.dependence import Dependence
from twoafc.inference.errorbars import Together, together
from twoafc.scores import ALL_MEASURES
from twoafc.triplets import Triplets

Key = tuple[str, str, str, str]
"""Distance, estimator, split, group."""


def refits(
    train: Triplets,
    test: Triplets | None,
    plan: Callable[[Settings], Sequence[Job]],
    settings: Settings,
    progress: Progress | None = None,
) -> dict[Key, FloatArray]:
    """Draw the training table anew, fit and score again, as often as the settings say: (draws, measures) a score.

    Scores on a test table are those of the same test triplets: their spread is the error of the fit alone, to which
    that of the triplets comes. Without one the drawn table is cross-validated, and the spread is all there is. The
    mean of the draws is not used: a drawn table holds fewer different triplets, so that fits to it are a little worse.
    """
    rng = np.random.default_rng(settings.seed)
    rows = together(train).drawable
    found: dict[Key, FloatArray] = {}
    for draw in range(settings.draws):
        if progress:
            progress(draw, settings.draws, "fitting to drawn tables")
        drawn = _redrawn(train, drawn_rows(rows, rng))
        # Another seed for each draw: what a seed decides is part of the error.
        current = dataclasses.replace(settings, seeds=1, seed=settings.seed + draw)
        fold = None if test is not None else _folds(drawn, current)
        if test is None and fold is None:
            continue
        for job in plan(current):
            for prediction in predictions(job, job.run(drawn), drawn, test, fold):
                alone = Together(Dependence(len(prediction.table), (), ""), None)
                if prediction.diverged:
                    continue
                for record in scored(prediction, current, alone).records:
                    key = (record["distance"], record["estimator"], record["split"], record["group"])
                    replicates = found.setdefault(key, np.full((settings.draws, len(ALL_MEASURES)), np.nan))
                    replicates[draw] = [np.nan if record[name] is None else record[name] for name in ALL_MEASURES]
    return found


def _folds(drawn: Triplets, settings: Settings) -> IntArray | None:
    """Folds of a drawn table, fewer where it holds fewer references than that; None where it holds one."""
    units = len(np.unique(cross_validation.units(drawn)))
    if units < 2:
        return None
    return cross_validation.assign(drawn, min(settings.folds, units), seed=settings.seed)


def _redrawn(table: Triplets, rows: IntArray) -> Triplets:
    """Take rows as often as they were drawn; copies of a triplet share a reference, and are left out together."""
    labels = table.labels[rows]
    if not {"ref", "ref0"} & set(labels.columns):
        labels = labels.with_columns(ref=pl.col("triplet"))
    copies = pl.Series(np.arange(len(rows))).cast(pl.String)
    pairs = {name: (d0[rows], d1[rows]) for name, (d0, d1) in table.distances.items()}
    return Triplets(table.n[rows], table.M[rows], pairs, labels.with_columns(triplet=copies))
