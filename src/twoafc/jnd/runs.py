"""Fits of curves to distances, and P on pairs that they have not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoafc import folds as cross_validation
from twoafc.arrays import FloatArray, IntArray
from twoafc.errors import DataError
from twoafc.evaluation import Settings
from twoafc.jnd.curves import Curve, fit_curve
from twoafc.jnd.pairs import Pairs
from twoafc.jnd.scores import Prediction


@dataclass(frozen=True)
class CurveRun:
    """One fit of one estimator on one distance, to the whole training table."""

    distance: str
    estimator: str
    fit: Curve


def predictions(
    run: CurveRun, settings: Any, train: Pairs, test: Pairs | None, fold: IntArray | None
) -> Iterator[Prediction]:
    """Give P on the training pairs and on pairs that the fit has not seen: a test table, or the folds."""
    key = (run.distance, run.estimator)
    tables = {"train": train} | ({"test": test} if test is not None else {})
    for split, table in tables.items():
        yield Prediction(*key, split, table, _probability(run, run.fit, table), np.full(len(table), train.share))
    if fold is None:
        return
    P, floor = np.empty(len(train)), np.empty(len(train))
    for k in range(fold.max() + 1):
        rows, others = np.flatnonzero(fold == k), train.where(fold != k)
        P[rows], floor[rows] = _probability(run, fit_curve(others, settings), train.where(rows)), others.share
        yield Prediction(*key, f"fold-{k}", train.where(rows), P[rows], floor[rows])
    yield Prediction(*key, "test", train, P, floor)


def _probability(run: CurveRun, fit: Curve, table: Pairs) -> FloatArray:
    """Ask a fit for P and hold it to its promise: one number in [0, 1] per pair."""
    P = np.asarray(fit.probability(table.d), dtype=np.float64)
    if P.shape != table.d.shape:
        raise DataError(f"{run.estimator} must give one P per pair, {table.d.shape}; found {P.shape}")
    wrong = ~((P >= 0) & (P <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"{run.estimator} must give P in [0, 1]; row {row} has P={P[row]} ({wrong.sum()} of {P.size})")
    return P


def folds_of(train: Pairs, settings: Settings) -> IntArray:
    """Give every row its fold, whole references at a time where they are known."""
    try:
        return cross_validation.assign(train.rows(), settings.folds, seed=settings.seed)
    except DataError as error:
        raise DataError(of_pairs(str(error))) from error


def of_pairs(told: str) -> str:
    """Say of pairs what was said of triplets.

    Examples
    --------
    >>> of_pairs("each triplet stands alone")
    'each pair stands alone'
    """
    return told.replace("triplet", "pair")
