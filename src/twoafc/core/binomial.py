"""The binomial law of the votes, Pr_B(n; M, P): appendix C of the paper."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from twoafc.arrays import FloatArray, IntArray


def log_coefficient(n: ArrayLike, M: ArrayLike) -> FloatArray:
    """Logarithm of the binomial coefficient, log C(M, n)."""
    n, M = np.asarray(n, dtype=np.float64), np.asarray(M, dtype=np.float64)
    return np.asarray(gammaln(M + 1) - gammaln(n + 1) - gammaln(M - n + 1))


def log_pmf(n: ArrayLike, M: ArrayLike, P: ArrayLike) -> FloatArray:
    """Logarithm of Pr_B(n; M, P); minus infinity where P is 0 or 1 and the votes say otherwise.

    Examples
    --------
    >>> np.exp(log_pmf([0, 1, 2], 2, 0.5)).round(3)
    array([0.25, 0.5 , 0.25])
    """
    n, M, P = (np.asarray(value, dtype=np.float64) for value in (n, M, P))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Logarithms of P alone, so that a table of many n takes as many as there are P.
        chosen, others = n * np.log(P), (M - n) * np.log1p(-P)
    return np.asarray(log_coefficient(n, M) + np.where(n == 0, 0.0, chosen) + np.where(n == M, 0.0, others))


def likely_counts(M: int, P: ArrayLike) -> IntArray:
    """Counts j = 0..M; where there are many, for each P along a new last axis only those with a chance above 1e-30.

    Those left out lie more than twelve standard deviations off, and thirty counts, whatever P: the window is as wide
    for every P as it must be for 1/2.

    Examples
    --------
    >>> likely_counts(2, [0.5, 1.0])
    array([0, 1, 2])
    >>> likely_counts(1_000_000, [0.5, 1.0])[:, [0, -1]]
    array([[ 493970,  506030],
           [ 987940, 1000000]])
    """
    P, width = np.asarray(P, dtype=np.float64), counts_width(M)
    if width == M + 1:
        return np.arange(M + 1)  # one row for all: quickly worked with
    first = np.clip(np.round(M * P) - width // 2, 0, M + 1 - width).astype(np.int64)
    return np.asarray(first[..., None] + np.arange(width))


def counts_width(M: int) -> int:
    """How many counts `likely_counts` gives."""
    return min(M + 1, 2 * (math.ceil(6 * math.sqrt(M)) + 30) + 1)


def pmf_table(M: int, P: ArrayLike) -> FloatArray:
    """Pr_B(j; M, P) for every j = 0..M, along a new last axis."""
    return np.asarray(np.exp(log_pmf(np.arange(M + 1), M, np.asarray(P, dtype=np.float64)[..., None])))
