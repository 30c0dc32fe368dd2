"""Values between the nodes of a G x G grid over [0, 1]^2, and their variance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import FloatArray

Offset = tuple[int, int]
NEIGHBOURS: tuple[Offset, ...] = ((0, 0), (0, 1), (1, 0), (1, 1), (1, -1))
"""The offsets between the four nodes around a point, each pair once."""


def interpolate(grid: FloatArray, u0: FloatArray, u1: FloatArray) -> FloatArray:
    """Value between the nodes of a grid over [0, 1]^2, bilinear.

    The two off-diagonal terms are added to each other first: an antisymmetric grid then gives exactly antisymmetric
    values, and exactly 0 where u0 = u1.

    Examples
    --------
    >>> interpolate(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0.5]), np.array([0.25]))
    array([1.25])
    """
    (i, a), (j, b) = _cell(u0, len(grid)), _cell(u1, len(grid))
    even = (1 - a) * (1 - b) * grid[i, j] + a * b * grid[i + 1, j + 1]
    odd = (1 - a) * b * grid[i, j + 1] + a * (1 - b) * grid[i + 1, j]
    return np.asarray(even + odd)


def _cell(u: FloatArray, size: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Index of the node at or below u, and how far u lies towards the next one."""
    x = u * (size - 1)
    i = np.minimum(x.astype(np.int64), size - 2)
    return i, x - i


def interpolated_variance(covariances: Mapping[Offset, FloatArray], u0: FloatArray, u1: FloatArray) -> FloatArray:
    """Variance of a bilinear value, from the covariance of each node with its `NEIGHBOURS`."""
    size = len(covariances[0, 0])
    (i, a), (j, b) = _cell(u0, size), _cell(u1, size)
    w00, w01, w10, w11 = (1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b
    own, right, below, across, back = (covariances[offset] for offset in NEIGHBOURS)
    variance = w00**2 * own[i, j] + w01**2 * own[i, j + 1] + w10**2 * own[i + 1, j] + w11**2 * own[i + 1, j + 1]
    variance += 2 * (w00 * w01 * right[i, j] + w10 * w11 * right[i + 1, j])
    variance += 2 * (w00 * w10 * below[i, j] + w01 * w11 * below[i, j + 1])
    variance += 2 * (w00 * w11 * across[i, j] + w01 * w10 * back[i, j + 1])
    return np.maximum(variance, 0.0)
