"""What the two estimators cost: time to fit, parameters, time to ask for P of 1 and of 128 triplets."""

from __future__ import annotations

import os
import platform
import time
import timeit
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from twoafc.estimators import DensityFit, Estimator
from twoafc.estimators.perceptron import PARAMETERS
from twoafc.inference import Record
from twoafc.table import Triplets

FITS, PATIENCE = 10, 15.0
"""Fits of which the quickest counts, as in the paper; no further one is begun after so many seconds."""


def measured(table: Triplets, estimators: Mapping[str, Estimator]) -> dict[str, Record]:
    """Time estimators on a table with one distance: the least of several runs, a lower bound as in the paper."""
    return {name: _measured(table, estimator) for name, estimator in estimators.items()}


def _measured(table: Triplets, estimator: Estimator) -> Record:
    seconds, fits, fit = _quickest(lambda: estimator.fit(table))
    d0, d1 = (np.resize(column, 128) for column in (table.d0, table.d1))
    return {
        "train_s": seconds,
        "fits": fits,
        "triplets": len(table),
        "parameters": int(fit.surface.size if isinstance(fit, DensityFit) else PARAMETERS),
        "infer_1_s": _least(lambda: fit.probability(d0[:1], d1[:1])),
        "infer_128_s": _least(lambda: fit.probability(d0, d1)),
        "machine": machine(),
    }


def machine() -> str:
    """Name the machine that the times are of."""
    return f"{_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _quickest(run: Callable[[], Any]) -> tuple[float, int, Any]:
    taken: list[float] = []
    begin = time.perf_counter()
    while len(taken) < FITS and time.perf_counter() - begin < PATIENCE:
        start = time.perf_counter()
        made = run()
        taken.append(time.perf_counter() - start)
    return min(taken), len(taken), made


def _least(call: Callable[[], Any]) -> float:
    """Time one call: the least mean of five rounds, each of a hundredth of a second or more."""
    timer, number = timeit.Timer(call), 1
    while timer.timeit(number) < 0.01:
        number *= 2
    return min(timer.repeat(5, number)) / number
