"""What tests of error bars share: tables, and their scores with clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from conftest import random_table
from twoafc.inference import Clustering, Values, by_group, clustering_of, values_of, values_per_row
from twoafc.table import Triplets

ALONE = "triplets taken as independent"


def scored(table: Triplets, P: np.ndarray) -> tuple[Values, Clustering, list[dict[str, Any]]]:
    link = clustering_of(table)
    values = values_per_row(table, P)
    return values_of(table, P, values, link), link, by_group(table, values)


def grouped(T: int, seed: int, **labels: Any) -> tuple[Triplets, np.ndarray]:
    table = random_table(T, seed=seed, group=[("a", "a", "b")[k % 3] for k in range(T)], **labels)
    return table, expit(2 * (table.d0 - table.d1))


def observed(T: int, observers: int, rng: np.random.Generator, spread: float) -> tuple[Triplets, np.ndarray]:
    """Five votes a triplet; observers differ in how well they see."""
    d0, d1 = rng.random((2, T))
    row = np.repeat(np.arange(T), 5)
    observer = rng.permuted(np.tile(np.arange(observers), (T, 1)), axis=1)[:, :5].ravel()
    skill = np.exp(spread * rng.normal(size=observers))[observer]
    choice = rng.random(5 * T) < expit(4 * skill * (d0 - d1)[row])
    columns = {"triplet": row, "observer": observer, "choice": choice.astype(int), "d0": d0[row], "d1": d1[row]}
    return Triplets.from_frame(columns), expit(4 * (d0 - d1))


def three(T: int = 400) -> tuple[dict[str, Values], Clustering]:
    rng = np.random.default_rng(8)
    d0, d1 = rng.random((2, T))
    table = Triplets.from_frame({"n": rng.binomial(3, expit(5 * (d0 - d1))), "M": [3] * T, "d0": d0, "d1": d1})
    link = clustering_of(table)
    surfaces = {"poor": np.full(T, 0.5), "good": expit(5 * (d0 - d1)), "near": expit(4.8 * (d0 - d1))}
    return {name: values_of(table, P, values_per_row(table, P), link) for name, P in surfaces.items()}, link
