"""Simulated pairs with votes for "same"."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from twoafc.arrays import FloatArray
from twoafc.table import Pairs


def falling(z: FloatArray, slope: float = 2.0) -> FloatArray:
    """The chance of "same" in the simulated world, by the logarithm of its distance."""
    return np.asarray(0.02 + 0.95 * expit(-slope * z - 0.4))


def pairs(T: int = 400, seed: int = 0, noise: float = 0.8, M: int = 3, **columns: object) -> Pairs:
    """Pairs of which one distance tells all, and another, noisier, tells less."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=T)
    good, poor = np.exp(z), np.exp(z + noise * rng.normal(size=T))
    frame = {"n": rng.binomial(M, falling(z)), "M": np.full(T, M), "good_d": good, "poor_d": poor}
    return Pairs.from_frame(frame | columns)
