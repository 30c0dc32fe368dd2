"""Simulated worlds with several distances, for tests of fusing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from twoafc.arrays import FloatArray
from twoafc.table import Triplets


def several(
    triplets: int,
    weights: Sequence[float],
    *,
    votes: int = 5,
    seed: int = 0,
    references: int | None = None,
    common: float = 0.6,
) -> tuple[Triplets, FloatArray]:
    """Make a table with distances a, b, c, ..., and the true P: F is the weighted sum of their logarithms.

    `common` is the correlation of the logarithms of the distances of one image.
    """
    rng = np.random.default_rng(seed)
    K = len(weights)
    z = np.sqrt(common) * rng.normal(size=(2, triplets, 1)) + np.sqrt(1 - common) * rng.normal(size=(2, triplets, K))
    F = z @ np.asarray(weights, dtype=np.float64)
    P = 0.01 + 0.98 * expit(F[0] - F[1])
    columns: dict[str, object] = {"n": rng.binomial(votes, P), "M": np.full(triplets, votes)}
    if references:
        columns["ref"] = [f"r{number}" for number in rng.integers(references, size=triplets)]
    for k, name in enumerate("abcdefghijklmnop"[:K]):
        columns |= {f"{name}_d{side}": np.exp(z[side, :, k]) for side in (0, 1)}
    return Triplets.from_frame(columns), P


def excess(P: FloatArray, Q: FloatArray) -> float:
    """Expected NLL of a vote under Q less that under the truth P."""
    return float(np.mean(P * np.log(P / Q) + (1 - P) * np.log((1 - P) / (1 - Q))))
