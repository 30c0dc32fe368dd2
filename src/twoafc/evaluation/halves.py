"""The noise of training in an evaluation: whether it counts, fits to halves of the training table, and words for it.

What is computed from these fits is in `twoafc.inference.training`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from twoafc.arrays import FloatArray, IntArray, Progress
from twoafc.errors import DataError
from twoafc.estimators import DensityFit, Estimator
from twoafc.evaluation.loop import Data, Fits, Task, crossed, joined
from twoafc.evaluation.records import Scored
from twoafc.evaluation.settings import Settings
from twoafc.inference import (
    SPLITS,
    Clustering,
    HalfScores,
    clustering_of,
    degrees_of_freedom,
    halves_of,
    independent_rows,
)
from twoafc.metrics import Ties
from twoafc.results import Run
from twoafc.table import Votes, assign_folds, most_folds

TRAINING_NOISE = 80.0
"""The constant c of `training_matters` for the density, and for estimators that do not state their own."""
CROSSED_ROWS = 8000
"""Rows up to which the noise of training counts in a cross-validated density."""
FEW_TRAINED, FEW_FOR_DENSITY, FEWEST_TRAINED = 100, 250, 4
"""Fewer training rows than the first, or for a density the second, get a caution; a table of fewer than the last is not
split into halves."""


def training_matters(estimator: Estimator, train: float, test: float | None) -> bool:
    """Whether another training table would change scores by a sizable part of their error over test rows.

    The variance of training over that of the test rows is about c T_test / T_train^2, with a constant c of the
    estimator; it counts from a twentieth on. When a table is cross-validated, fits share their rows, and the noise
    counts longer. `train` and `test` are effective numbers of independent rows; None if there is no test table.

    Examples
    --------
    >>> from twoafc import Density
    >>> training_matters(Density(), 300, 1500), training_matters(Density(), 5000, 1500)
    (True, False)
    """
    noise = getattr(estimator, "training_noise", None) or TRAINING_NOISE
    if test is None:
        return train < getattr(estimator, "crossed_rows", CROSSED_ROWS)
    return noise * test / train**2 > 0.05


def split_into_halves(data: Data, *, seed: int) -> IntArray:
    """Split the training table at random into halves, whole references at a time: 0 or 1, shape (splits, T).

    Rows are split one by one where a fit would otherwise have no rows.
    """
    splits = SPLITS if data.test is not None else SPLITS // 2
    whole = most_folds(data.train) > 1
    halves = np.empty((splits, len(data.train)), dtype=np.int64)
    for split, key in enumerate(np.random.SeedSequence(seed).generate_state(splits)):
        halves[split] = assign_folds(data.train, 2, seed=int(key)) if whole else 0
        if not all(np.bincount(halves[split, fitted], minlength=2).all() for fitted, _ in data.parts()):
            halves[split] = np.random.default_rng(key).permutation(len(data.train)) % 2
    return halves


def fit_to_halves(task: Task, run: Run, data: Data, half: IntArray) -> FloatArray:
    """Fit to complementary halves of the training table and predict the rows that are tested: shape (splits, 2, T).

    Without a test table each fold is predicted by fits to the halves of the other folds. Choices that the fit to the
    whole table made once for all, such as the link of a spline, are taken from it.
    """
    data = data.of(task.distance)
    settings = getattr(run.fit, "chosen_settings", task.settings)

    def fit(train: Votes) -> Run:
        try:
            return replace(run, fit=settings.fit(train))
        except Exception as error:
            raise DataError(
                f"{task.estimator} could not be fitted to half of the training table, {len(train)} rows "
                f"({type(error).__name__}: {error}); --error-bars fixed needs no such fits"
            ) from error

    P = np.empty((len(half), 2, len(data.tested)))
    for split, side in product(range(len(half)), (0, 1)):
        P[split, side] = joined(crossed(fit, data._replace(kept=half[split] == side)), data.tested).P
    return P


def score_halves(P: FloatArray, table: Votes, data: Data, ties: Ties = "half") -> HalfScores:
    """Score fits to halves on the tested rows; `table` has them with the distance."""
    clustering = clustering_of(data.train)
    units = float(clustering.units(clustering.rows.shares())[0])
    return halves_of(table, P, ties=ties, crossed=data.test is None, df=degrees_of_freedom(len(P), units))


class TrainingNoise(NamedTuple):
    """Estimators and learned distances whose noise of training counts.

    ``included`` are those whose error bars include it, ``slow`` those for which only `refit` estimates it.
    """

    counts: list[str]
    included: list[str]
    slow: list[str]

    @property
    def left_out(self) -> list[str]:
        """Those whose error bars are too small."""
        return [name for name in self.counts if name not in self.included]


def find_noise(
    scored: Sequence[Scored], fits: Fits, data: Data, clusterings: Mapping[str, Clustering], settings: Settings
) -> TrainingNoise:
    """Find where the noise of training counts, and where it is estimated.

    It counts for an estimator if it does for one distance. It is not estimated for counts, few rows or slow fits.
    """
    effective: dict[tuple[str, str], list[float]] = {}
    for one in scored:
        if one.values is not None and one.key[0] not in fits.learned and one.split in ("train", "test"):
            rows = independent_rows(one.values, clusterings[one.split])
            effective.setdefault((one.key[1], one.split), []).append(rows)
    counts = [
        name
        for name, estimator in fits.estimators.items()
        if (name, "train") in effective
        and training_matters(
            estimator, min(effective[name, "train"]), None if data.test is None else max(effective[name, "test"])
        )
    ]
    slow = [name for name in counts if getattr(fits.estimators[name], "training_noise", TRAINING_NOISE) is None]
    counts += fits.learned
    estimated = settings.error_bars == "analytic" and data.train.count is None and data.fitted_rows >= FEWEST_TRAINED
    return TrainingNoise(counts, [name for name in counts if name not in slow] if estimated else [], slow)


def with_noise(
    parts: Sequence[tuple[Task, Scored]],
    noise: TrainingNoise,
    data: Data,
    settings: Settings,
    progress: Progress | None,
) -> tuple[list[Scored], int]:
    """Add fits to halves of the training table where noise is included; return also the number of splits."""
    if not noise.included:
        return [one for _, one in parts], 0
    half = split_into_halves(data, seed=settings.seed)
    tests = sum(one.split == "test" for _, one in parts)
    scored, done = [], 0
    for task, one in parts:
        if one.split == "test":
            if (task.estimator in noise.included or task.distance in noise.included) and not one.prediction.diverged:
                if progress:
                    progress(done, tests, f"{task}: fits to halves")
                P = fit_to_halves(task, one.prediction.run, data, half)
                halves = score_halves(P, one.prediction.table, data, settings.ties)
                values, grouped = (part and replace(part, halves=halves) for part in (one.values, one.grouped))
                one = replace(one, values=values, grouped=grouped, P_halves=P)
            done += 1
        scored.append(one)
    return scored, len(half)


def training_words(train: Votes, estimators: Mapping[str, Estimator], noise: TrainingNoise, settings: Settings) -> str:
    """Describe whether the error bars include the noise of training."""
    if settings.error_bars == "refit":
        return ""
    if settings.error_bars != "analytic":
        return "noise of training left out; "
    negligible = [name for name in estimators if name not in noise.counts]
    named = {"included": noise.included, "negligible": negligible, "left out": noise.left_out}
    ((how, _), *others) = [(how, names) for how, names in named.items() if names]
    if others:
        parts = [f"{how} for {' and '.join(names)}" for how, names in named.items() if names]
        return f"noise of training {', '.join(parts)}; "
    size = len(train) if train.count is None else train.count.sum()
    return f"noise of training {how}{f' with {size} training triplets' if how == 'negligible' else ''}; "


def training_caveats(unseen: Sequence[Scored], noise: TrainingNoise, data: Data, settings: Settings) -> list[str]:
    """Describe what few training rows, or leaving out the noise of training, mean for the error bars."""
    caveats = []
    train, rows = data.train, data.fitted_rows
    if rows < FEW_TRAINED:
        effect = ("" if train.weight is None else " in effect") + " in each fold" * (data.test is None)
        caveats.append(
            f"only {rows} training {train.row}s{effect}: fits are rough, and error bars and tests are "
            "unreliable (in simulations the false-positive rate was 10 % with 30, 14 % with 10)"
        )
    rough = sorted({one.key[1] for one in unseen if isinstance(one.prediction.run.fit, DensityFit)})
    if FEW_TRAINED <= rows < FEW_FOR_DENSITY and data.test is not None and rough:
        caveats.append(
            f"only {rows} training {train.row}s: error bars of the NLL are too small for {' and '.join(rough)} (in "
            "simulations the false-positive rate was 10 % with 100, 7 % with 200)"
        )
    if noise.left_out and settings.error_bars != "refit":
        method = "refit" if set(noise.left_out) <= set(noise.slow) else "analytic"
        remedy = f", and too many differences are significant; --error-bars {method} includes it"
        if train.count is not None or method == settings.error_bars:
            remedy = ""
        caveats.append(
            f"the noise of training counts here and is left out for {' and '.join(noise.left_out)}: error bars are too "
            f"small{remedy}"
        )
    halves = {one.key: one.values.halves for one in unseen if one.values is not None and one.values.halves is not None}
    unknown = [" ".join(key) for key, fits in halves.items() if not np.isfinite(fits.apart).all(axis=(1, 2)).any()]
    if unknown:
        caveats.append(
            f"fits of {', '.join(unknown)} to halves of the training table "
            "assign probability 0 to observed votes; error bars cannot be estimated"
        )
    return caveats


def training_card(unseen: Sequence[Scored]) -> dict[str, Any]:
    """Return what is needed, beside P of the fits to halves, to compute the noise of training again."""
    halves = next((one.values.halves for one in unseen if one.values is not None and one.values.halves), None)
    if halves is None:
        return {}
    return {"training": {"splits": len(halves.apart), "cross_validated": halves.crossed, "df": halves.df}}
