"""Settings of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from twoafc.metrics import Ties
from twoafc.public import public

FOLDS = 5
ErrorBars = Literal["analytic", "fixed", "bootstrap", "refit"]


@public
@dataclass(frozen=True)
class Settings:
    """Settings of an evaluation.

    Parameters
    ----------
    folds : int, optional
        Parts of the training table for cross-validation, where there is no test table; default 5, or as many as there
        are references if these are fewer.
    seeds : int
        Runs of an estimator that has a seed; their mean and spread are reported.
    seed : int
        Seed of the folds and of the bootstrap, and the first of the estimators' seeds.
    ties : "half" or "x0"
        What a tie is worth in a 2AFC score.
    error_bars : "analytic", "fixed", "bootstrap" or "refit"
        What varies, and how. By formula: other test triplets and, from fits to halves of the training table, other
        training triplets; or, "fixed", other test triplets alone. From drawn tables: other test triplets
        ("bootstrap"), or other training triplets as well ("refit", which is cautious).
    draws : int
        Tables drawn for bootstrap and refit.
    """

    folds: int | None = None
    seeds: int = 1
    seed: int = 0
    ties: Ties = "half"
    error_bars: ErrorBars = "analytic"
    draws: int = 200

    def __post_init__(self) -> None:
        for name, least in {"seeds": 1, "seed": 0, "draws": 2}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}; found {getattr(self, name)}")
        for name, kind in {"ties": Ties, "error_bars": ErrorBars}.items():
            *known, last = get_args(kind)
            if getattr(self, name) not in (*known, last):
                raise ValueError(f"{name} must be {', '.join(known)} or {last}; found {getattr(self, name)!r}")
