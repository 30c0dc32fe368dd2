"""Smooth functions of one distance, and antisymmetric functions of two made from them.

The axis is the normal score z of a distance, so that the functions can be made orthonormal once and for all. They are
natural cubic splines, straight lines beyond the last knots, ordered from smooth to rough: a constant, a line, then
ever more wiggly ones, each with its roughness (Demmler and Reinsch, 1975).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, toeplitz

from twoafc.arrays import FloatArray

REACH = 2.6
"""The outermost knots; one distance in a hundred lies beyond them."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Orthonormal smooth functions of one normal score.

    Parameters
    ----------
    knots : array, shape (K,)
        Evenly spaced, increasing.
    curvature : array, shape (K, K)
        Second derivatives at the knots of the natural splines that are 1 at one knot and 0 at the others.
    mixing : array, shape (K, K)
        Values at the knots of the K functions, one in each column.
    roughness : array, shape (K,)
        Integral of the squared second derivative of each function; 0 for the first two.
    """

    knots: FloatArray
    curvature: FloatArray
    mixing: FloatArray
    roughness: FloatArray

    def __call__(self, z: FloatArray) -> FloatArray:
        """Values of the functions at z, along a new last axis."""
        return np.asarray(_cardinal(z, self.knots, self.curvature) @ self.mixing)

    def slopes(self, z: FloatArray) -> FloatArray:
        """First derivatives of the functions at z, along a new last axis."""
        step = 1e-4
        return (self(z + step) - self(z - step)) / (2 * step)


@cache
def basis(size: int) -> Basis:
    """Make the basis of a given size.

    Examples
    --------
    >>> functions = basis(10)
    >>> functions(np.array([-1.0, 0.0, 1.0]))[:, 0].round(6)
    array([1., 1., 1.])
    >>> functions.roughness.round(1)[:4]
    array([ 0. ,  0. ,  7. , 37.3])
    """
    knots = np.linspace(-REACH, REACH, size)
    curvature, penalty = _natural(knots)
    z = np.linspace(-4, 4, 2001)
    values = _cardinal(z, knots, curvature)
    weight = np.exp(-(z**2) / 2)
    gram = values.T @ (values * (weight / weight.sum())[:, None])
    roughness, mixing = eigh(penalty, gram)
    # The two smoothest span all straight lines: of these, the constant and the line through 0.
    for place, line in enumerate((np.ones(size), knots)):
        mixing[:, place] = line / np.sqrt(line @ gram @ line)
    roughness[:2] = 0.0
    # An eigenvector's sign is the library's whim, but a saved model must mean the same everywhere.
    mixing *= np.sign(mixing[-1])
    return Basis(knots, curvature, mixing, roughness)


def _natural(knots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Second derivatives at the knots as a matrix on the values there, and the integral of their square."""
    size, h = len(knots), knots[1] - knots[0]
    second = np.diff(np.eye(size), 2, axis=0) / h
    band = toeplitz(np.concatenate([[2 * h / 3, h / 6], np.zeros(size - 4)]))
    inner = np.linalg.solve(band, second)
    return np.vstack([np.zeros(size), inner, np.zeros(size)]), second.T @ inner


def _cardinal(z: FloatArray, knots: FloatArray, curvature: FloatArray) -> FloatArray:
    """Natural splines that are 1 at one knot and 0 at the others, at z; straight lines outside the knots."""
    z = np.asarray(z, dtype=np.float64)
    h = knots[1] - knots[0]
    inside = np.clip(z, knots[0], knots[-1])
    j = np.clip(((inside - knots[0]) / h).astype(np.int64), 0, len(knots) - 2)
    b = (inside - knots[j]) / h
    a, unit = 1 - b, np.eye(len(knots))
    spline = a[..., None] * unit[j] + b[..., None] * unit[j + 1]
    spline += ((a**3 - a) * h * h / 6)[..., None] * curvature[j] + ((b**3 - b) * h * h / 6)[..., None] * curvature[
        j + 1
    ]
    # Slopes at the two ends, for what lies beyond them.
    first = (unit[1] - unit[0]) / h - h / 6 * curvature[1]
    last = (unit[-1] - unit[-2]) / h + h / 6 * curvature[-2]
    beyond = z - inside
    return np.asarray(spline + beyond[..., None] * np.where((beyond < 0)[..., None], first, last))


PARTS = ("line", "scale", "tilt", "interaction")
"""What an antisymmetric function is made of, each with a smoothness of its own: see `antisymmetric`."""


def parts(size: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Say of each antisymmetric function which of the `PARTS` it belongs to, and its roughness, at least 1.

    Examples
    --------
    >>> part, roughness = parts(5)
    >>> part
    array([0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    """
    i, j = np.triu_indices(size, 1)
    part = np.where(i > 1, 3, np.where(i == 1, 2, np.where(j > 1, 1, 0)))
    rough = np.where(part == 0, 1.0, basis(size).roughness[i] + basis(size).roughness[j])
    least = np.array([rough[part == p].min() for p in range(len(PARTS))])
    return part, rough / least[part]


def antisymmetric(z0: FloatArray, z1: FloatArray, size: int) -> FloatArray:
    """Functions f(z0, z1) = -f(z1, z0), all pairs of one-dimensional ones, along a new last axis.

    They are phi_j(z0) phi_i(z1) - phi_i(z0) phi_j(z1) for i < j. With i = 0 they are differences g(z0) - g(z1): first
    the straight line (``line``: only the ratio of distances counts, where these are log-normal), then curves
    (``scale``: the distance has to be bent). ``tilt`` and ``interaction`` are what no bending of it can explain.

    Examples
    --------
    >>> z = np.array([0.5, -1.0])
    >>> antisymmetric(z, z, 4).round(12).tolist() == np.zeros((2, 6)).tolist()
    True
    """
    i, j = np.triu_indices(size, 1)
    left, right = basis(size)(z0), basis(size)(z1)
    return np.asarray(left[..., j] * right[..., i] - left[..., i] * right[..., j])


def antisymmetric_slopes(z0: FloatArray, z1: FloatArray, size: int) -> FloatArray:
    """Derivatives of the antisymmetric functions by z0, along a new last axis."""
    i, j = np.triu_indices(size, 1)
    left, right = basis(size).slopes(z0), basis(size)(z1)
    return np.asarray(left[..., j] * right[..., i] - left[..., i] * right[..., j])
