"""What fits and scores are made of: the binomial law, the map of distances to [0, 1], and matrix products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoafc.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


# The binomial law of the votes, Pr_B(n; M, P): appendix C of the paper


def log_coefficient(n: ArrayLike, M: ArrayLike) -> FloatArray:
    """Logarithm of the binomial coefficient, log C(M, n)."""
    from scipy.special import gammaln  # here, since it is slow to import

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


# Distances mapped to [0, 1] by their own distribution function: appendix B


@dataclass(frozen=True, eq=False)
class Uniform:
    """The distribution function of the training distances, d0 and d1 pooled.

    One map serves both axes, or P(d0, d1) = 1 - P(d1, d0) could not hold. A training value goes to the middle of its
    step, so that ties share one image; between training values the map is linear, so that it is strictly increasing
    over the training range; values outside that range go to 0 or 1.

    Examples
    --------
    >>> U = Uniform.learn([1.0, 2.0], [2.0, 5.0])
    >>> U([0.0, 1.0, 2.0, 3.5, 5.0, 9.0])
    array([0.    , 0.125 , 0.5   , 0.6875, 0.875 , 1.    ])
    """

    values: FloatArray  # the distinct training distances, increasing, shape (K,)
    at_most: IntArray | FloatArray  # how many of all are at most that value; of weighted rows the sums of their weights

    @classmethod
    def learn(cls, *columns: ArrayLike, weight: FloatArray | None = None) -> Uniform:
        """Learn the map from the distances of the training rows: d0 and d1 together, or d alone."""
        uniform: Uniform = uniformise(*columns, weight=weight)[0]
        return uniform

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]]) -> Uniform:
        """Take the map of a saved model."""
        return cls(arrays["values"], arrays["at_most"])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a saved model."""
        return {"values": self.values, "at_most": self.at_most}

    @cached_property
    def levels(self) -> FloatArray:
        """Image of each training value: the middle of its step, shape (K,)."""
        below = np.concatenate([[0], self.at_most[:-1]])
        return np.asarray((below + self.at_most) / (2 * self.at_most[-1]))

    def __call__(self, d: ArrayLike) -> FloatArray:
        """Map distances of any shape to [0, 1]; NaN is refused."""
        d = require_numbers(d)
        levels = self.levels
        u = np.interp(d, self.values, levels, left=0.0, right=1.0)
        # Rounding may carry a value that lies just below a training value past it, by one bit.
        above = np.minimum(np.searchsorted(self.values, d), len(levels) - 1)
        return np.asarray(np.where(d <= self.values[-1], np.minimum(u, levels[above]), u))

    def places(self, u: FloatArray) -> IntArray:
        """Index of the training value that each level belongs to, for levels of training values.

        Twice the mid-rank of a value is a whole number without weights: a table of these is quicker than any search.

        Examples
        --------
        >>> U, u0, u1 = uniformise([1.0, 2.0], [2.0, 5.0])
        >>> U.places(u1)
        array([1, 2])
        """
        if self.at_most.dtype != np.int64:
            return np.asarray(np.searchsorted(self.levels, u))
        twice = 2 * int(self.at_most[-1])
        index = np.zeros(twice + 1, dtype=np.int64)
        index[self.at_most + np.concatenate([[0], self.at_most[:-1]])] = np.arange(len(self.values))
        return np.asarray(index[np.rint(u * twice).astype(np.int64)])

    def inverse(self, u: ArrayLike) -> FloatArray:
        """Give the distances that map to u; below the first and above the last level, the extreme distances."""
        return np.interp(np.asarray(u, dtype=np.float64), self.levels, self.values)


def require_numbers(d: ArrayLike) -> FloatArray:
    """Take distances as an array of numbers; NaN is refused."""
    d = np.asarray(d, dtype=np.float64)
    missing = np.isnan(d)
    if missing.any():
        index = int(np.argmax(missing))
        raise ValueError(f"a distance must be a number; index {index} has nan ({missing.sum()} of {d.size})")
    return d


def uniformise(*columns: ArrayLike, weight: FloatArray | None = None) -> tuple[Any, ...]:
    """Learn the map and apply it to the same distances, with a single sort: U, U(d0), U(d1), or U, U(d).

    With a weight for each row the map is the weighted distribution function, that of the population.

    Examples
    --------
    >>> U, u0, u1 = uniformise([1.0, 2.0], [2.0, 5.0])
    >>> u0, u1
    (array([0.125, 0.5  ]), array([0.5  , 0.875]))
    """
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    pooled = np.concatenate(arrays)
    order = np.argsort(pooled)
    ordered = pooled[order]
    last = np.flatnonzero(np.concatenate([ordered[1:] != ordered[:-1], [True]]))
    at_most = last + 1 if weight is None else np.cumsum(np.tile(weight, len(arrays))[order])[last]
    U = Uniform(ordered[last], at_most)
    u = np.empty_like(pooled)
    levels = U.levels
    u[order] = levels if len(levels) == len(u) else np.repeat(levels, np.diff(last, prepend=-1))
    return U, *np.split(u, np.cumsum([len(array) for array in arrays])[:-1])


# Matrix products on one thread
#
# The matrices of a fit are narrow: more threads of the BLAS gain nothing on an idle machine, and on a busy one they
# wait for each other, which made a fit ten times slower.


_LOCK = Lock()
_ENTERED: list[Any] = []
"""The limit, once for each block that is running: the last one lifts it, since blocks of several threads overlap."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread of the BLAS inside a `with` block, or in a function that this decorates."""
    with _LOCK:
        _ENTERED.append(_ENTERED[0] if _ENTERED else _libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _LOCK:
            limit = _ENTERED.pop()
            if not _ENTERED:
                limit.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
