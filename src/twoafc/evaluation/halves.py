"""The noise of training in an evaluation: whether it counts, fits to halves of the training table, and words for it.

What is computed from these fits is in `twoafc.inference.training`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from twoafc.arrays import IntArray
from twoafc.errors import DataError
from twoafc.estimators import Estimator
from twoafc.evaluation.loop import HalfFits, Job, probability_at
from twoafc.evaluation.records import Scored
from twoafc.evaluation.settings import Settings
from twoafc.inference import SPLITS, Clustering, clustering_of, independent_rows
from twoafc.results import Run
from twoafc.table import Votes, assign_folds, most_folds

TRAINING_NOISE = 80.0
"""The constant c of `training_matters` for the density, and for estimators that do not state their own."""
CROSSED_ROWS = 8000
"""Rows up to which the noise of training counts in a cross-validated density."""
FEW_ROWS, FEWEST_ROWS = 100, 4
"""Fewer training rows than the first get a caution; a table of fewer than the second is not split into halves."""


def training_matters(estimator: Estimator, train: float, test: float | None) -> bool:
    """Whether another training table would change scores by a sizable part of their error over test rows.

    The variance of training over that of the test rows is about c T_test / T_train^2, with a constant c of the
    estimator; it counts from a twentieth on. When a table is cross-validated, fits share their rows, and the noise
    counts longer.

    Parameters
    ----------
    train, test : float
        Independent rows that the tables are worth; None for a test table that is not there.

    Examples
    --------
    >>> from twoafc import Density
    >>> training_matters(Density(), 300, 1500), training_matters(Density(), 5000, 1500)
    (True, False)
    """
    noise = float(getattr(estimator, "training_noise", TRAINING_NOISE)) or TRAINING_NOISE
    if test is None:
        return train < getattr(estimator, "crossed_rows", CROSSED_ROWS)
    return noise * test / train**2 > 0.05


def split_into_halves(train: Votes, fold: IntArray | None, *, seed: int) -> IntArray:
    """Split a table at random into halves, whole references at a time: 0 or 1 for every row, shape (splits, T).

    Where that leaves a half without rows, in the table or outside a fold, rows are split one by one.
    """
    splits = SPLITS if fold is None else SPLITS // 2
    whole = most_folds(train) > 1
    halves = np.empty((splits, len(train)), dtype=np.int64)
    for split, key in enumerate(np.random.SeedSequence(seed).generate_state(splits)):
        halves[split] = assign_folds(train, 2, seed=int(key)) if whole else 0
        codes = 2 * (0 if fold is None else fold) + halves[split]
        sizes = np.bincount(codes, minlength=2 if fold is None else 2 * (fold.max() + 1)).reshape(-1, 2)
        left = sizes if fold is None else sizes.sum(axis=0) - sizes
        if not left.all():
            halves[split] = np.random.default_rng(key).permutation(len(train)) % 2
    return halves


def fit_to_halves(
    job: Job, run: Run, train: Votes, test: Votes | None, fold: IntArray | None, half: IntArray
) -> HalfFits:
    """Fit to complementary halves of the training table and predict the rows that are tested.

    Without a test table each fold is predicted by fits to the halves of the other folds. What the fit to the whole
    table chose once for all, such as the link of a spline, is taken from it.
    """
    seen, settings = train[job.distance], getattr(run.fit, "chosen_settings", job.settings)
    tested = seen if test is None else test[job.distance]
    P = np.empty((len(half), 2, len(tested)))
    for split, side, k in product(range(len(half)), (0, 1), range(1 if fold is None else fold.max() + 1)):
        others = half[split] == side if fold is None else (half[split] == side) & (fold != k)
        rows = np.arange(len(tested)) if fold is None else np.flatnonzero(fold == k)
        try:
            refit = dataclasses.replace(run, fit=settings.fit(seen.where(others)))
        except Exception as error:
            raise DataError(
                f"{job.estimator} could not be fitted to half of the training table, {int(others.sum())} rows "
                f"({type(error).__name__}: {error}); --error-bars fixed needs no such fits"
            ) from error
        P[split, side, rows] = probability_at(refit, *(column[rows] for column in tested.columns))
    clustering = clustering_of(train)
    units = clustering.units(clustering.rows.shares())
    return HalfFits(P, fold is not None, max(1.0, min(float(len(half)), float(units[0]) - 1)))


def noisy_estimators(
    parts: Sequence[Scored],
    estimators: Mapping[str, Estimator],
    clusterings: Mapping[str, Clustering],
    *,
    crossed: bool,
) -> list[str]:
    """Name the estimators whose noise of training counts in the error bars: for one distance, so for all."""
    worth: dict[tuple[str, str], list[float]] = {}
    for one in parts:
        split = one.prediction.split
        if one.values is not None and split in ("train", "test"):
            rows = independent_rows(one.values, clusterings[split])
            worth.setdefault((one.key[1], split), []).append(rows)
    return [
        name
        for name, estimator in estimators.items()
        if (name, "train") in worth
        and training_matters(estimator, min(worth[name, "train"]), None if crossed else max(worth[name, "test"]))
    ]


def included_estimators(
    noisy: Sequence[str],
    estimators: Mapping[str, Estimator],
    train: Votes,
    fold: IntArray | None,
    settings: Settings,
) -> list[str]:
    """Name the estimators whose noise of training is estimated: not of counts, nor of slow fits, nor of a few rows."""
    if not noise_is_estimated(train, fold, settings):
        return []
    return [name for name in noisy if not _is_slow(estimators[name])]


def noise_is_estimated(train: Votes, fold: IntArray | None, settings: Settings) -> bool:
    """Whether the noise of training is estimated at all."""
    return settings.error_bars == "analytic" and train.count is None and fitted_rows(train, fold) >= FEWEST_ROWS


def _is_slow(estimator: Estimator) -> bool:
    return getattr(estimator, "training_noise", TRAINING_NOISE) == 0


def fitted_rows(train: Votes, fold: IntArray | None) -> int:
    """Rows, in effect, of the smallest table that is fitted: the training table, or without its largest fold."""
    rows = np.ones(len(train)) if train.mass is None else train.mass
    return int(rows.sum() - (0 if fold is None else np.bincount(fold, rows).max()))


def training_words(
    train: Votes,
    estimators: Mapping[str, Estimator],
    noisy: Sequence[str],
    included: Sequence[str],
    settings: Settings,
) -> str:
    """Say whether the error bars include the noise of training."""
    if settings.error_bars == "refit":
        return ""
    if settings.error_bars != "analytic":
        return "noise of training left out; "
    negligible = [name for name in estimators if name not in noisy]
    left_out = [name for name in noisy if name not in included]
    named = {"included": included, "negligible": negligible, "left out": left_out}
    ((how, _), *others) = [(how, names) for how, names in named.items() if names]
    if others:
        parts = [f"{how} for {' and '.join(names)}" for how, names in named.items() if names]
        return f"noise of training {', '.join(parts)}; "
    size = len(train) if train.count is None else train.count.sum()
    return f"noise of training {how}{f' with {size} training triplets' if how == 'negligible' else ''}; "


def training_caveats(
    unseen: Sequence[Scored],
    noisy: Sequence[str],
    included: Sequence[str],
    train: Votes,
    fold: IntArray | None,
    settings: Settings,
) -> list[str]:
    """What few training rows, and noise of training that is left out, mean for the error bars."""
    caveats = []
    rows = fitted_rows(train, fold)
    if rows < FEW_ROWS:
        effect = "" if train.weight is None else " in effect"
        caveats.append(
            f"only {rows} training {train.row}s{effect}: fits are rough, and error bars and tests are not to be "
            "trusted (in simulations with 30 one test in ten alarmed, with 10 one in seven)"
        )
    left_out = [name for name in noisy if name not in included]
    if left_out and settings.error_bars != "refit":
        remedy = "" if train.count is not None else "; --error-bars refit includes it"
        caveats.append(
            f"the noise of training counts here and is left out for {' and '.join(left_out)}: error bars are too "
            f"small, and differences are found too often{remedy}"
        )
    halves = {one.key: one.values.halves for one in unseen if one.values is not None and one.values.halves is not None}
    unknown = [" ".join(key) for key, fits in halves.items() if not np.isfinite(fits.apart).all(axis=(1, 2)).any()]
    if unknown:
        caveats.append(
            f"fits of {', '.join(unknown)} to halves of the training table give votes no chance: error bars are unknown"
        )
    return caveats


def training_card(unseen: Sequence[Scored]) -> dict[str, Any]:
    """What is needed beside P of the fits to halves to compute the noise of training again."""
    halves = next((one.prediction.halves for one in unseen if one.prediction.halves is not None), None)
    if halves is None:
        return {}
    return {"training": {"splits": len(halves.P), "cross_validated": halves.crossed, "df": halves.freedom}}
