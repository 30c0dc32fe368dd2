"""Distances mapped to [0, 1] by their own distribution function: appendix B of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from twoafc.errors import DataError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Uniform:
    """The distribution function of the training distances, d0 and d1 pooled.

    One map serves both axes, or P(d0, d1) = 1 - P(d1, d0) could not hold. A training value goes to the middle of its
    step, so that ties share one image; between training values the map is linear, so that it is strictly increasing
    over the training range; values outside that range go to 0 or 1.

    Parameters
    ----------
    values : array, shape (K,)
        The distinct training distances, increasing.
    counts : array of int, shape (K,)
        How often each occurs.

    Examples
    --------
    >>> U = Uniform.learn([1.0, 2.0], [2.0, 5.0])
    >>> U([0.0, 1.0, 2.0, 3.5, 5.0, 9.0])
    array([0.    , 0.125 , 0.5   , 0.6875, 0.875 , 1.    ])
    """

    values: FloatArray
    counts: NDArray[np.int64]

    @classmethod
    def learn(cls, d0: ArrayLike, d1: ArrayLike) -> Uniform:
        """Learn the map from both distances of the training triplets."""
        return uniformise(d0, d1)[0]

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]]) -> Uniform:
        """Take the map of a saved model, checking it."""
        values, counts = arrays["values"], arrays["counts"]
        rising = values.dtype == np.float64 and values.ndim == 1 and np.isfinite(values).all() and len(values) > 0
        if not rising or (np.diff(values) <= 0).any():
            raise DataError("the map's values must be finite and increasing; those of the model are not")
        if counts.dtype != np.int64 or counts.shape != values.shape or (counts < 1).any():
            raise DataError("the map's counts must be whole numbers, one per value; those of the model are not")
        return cls(values, counts)

    @property
    def levels(self) -> FloatArray:
        """Image of each training value: the middle of its step, shape (K,)."""
        return np.asarray((np.cumsum(self.counts) - self.counts / 2) / self.counts.sum())

    def __call__(self, d: ArrayLike) -> FloatArray:
        """Map distances of any shape to [0, 1]."""
        return np.interp(np.asarray(d, dtype=np.float64), self.values, self.levels, left=0.0, right=1.0)

    def inverse(self, u: ArrayLike) -> FloatArray:
        """Give the distances that map to u; below the first and above the last level, the extreme distances.

        Examples
        --------
        >>> Uniform.learn([1.0, 2.0], [2.0, 5.0]).inverse([0.0, 0.5, 0.6875])
        array([1. , 2. , 3.5])
        """
        return np.interp(np.asarray(u, dtype=np.float64), self.levels, self.values)


def uniformise(d0: ArrayLike, d1: ArrayLike) -> tuple[Uniform, FloatArray, FloatArray]:
    """Learn the map and apply it to the same distances, with a single sort.

    Returns
    -------
    (U, u0, u1)
        The map, and the images of d0 and d1 under it; equal to ``U(d0), U(d1)``.

    Examples
    --------
    >>> U, u0, u1 = uniformise([1.0, 2.0], [2.0, 5.0])
    >>> u0, u1
    (array([0.125, 0.5  ]), array([0.5  , 0.875]))
    """
    d0, d1 = np.asarray(d0, dtype=np.float64), np.asarray(d1, dtype=np.float64)
    pooled = np.concatenate([d0, d1])
    # polars sorts faster than numpy where numpy has no vectorised sort (14 ms against 19 for 302,800 values).
    order = pl.Series(pooled).arg_sort().to_numpy()
    ordered = pooled[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    U = Uniform(ordered[first], np.diff(first, append=len(pooled)))
    u = np.empty_like(pooled)
    u[order] = np.repeat(U.levels, U.counts)
    return U, u[: len(d0)], u[len(d0) :]
