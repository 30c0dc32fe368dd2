"""How uncertain a kernel estimate of P is, from the spread of the votes between triplets and from their number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.estimators.kernel import SquaredSums, Width


def observed_covariance(
    P: FloatArray, D: FloatArray, squared: SquaredSums, *, width: Width, offset: tuple[int, int]
) -> FloatArray:
    """Covariance of P at each node (i, j) with P at (i, j) + offset, as the residuals show it: a sandwich, (G, G).

    A triplet moves P at a node by K (n - P M) / D and, through its mirror, by minus the same at the mirrored node.
    """
    nn, nM, MM, _ = squared

    def moved(at: tuple[IntArray, IntArray], P: FloatArray, other: FloatArray) -> FloatArray:
        return np.asarray(nn[at] - (P + other) * nM[at] + P * other * MM[at])

    return _covariance(moved, P, D, width, offset)


def binomial_covariance(
    P: FloatArray, D: FloatArray, squared: SquaredSums, *, width: Width, offset: tuple[int, int]
) -> FloatArray:
    """The same as it would be if votes were independent, (G, G): what unanimous or few votes cannot go below.

    Where all agree there are no residuals, but P is not therefore certain. As is usual for a proportion, one vote is
    added to either side, where D^2 / sum of M K^2 counts the votes that speak at a node.
    """
    votes = D**2 / np.maximum(squared.M[::2, ::2], np.finfo(np.float64).tiny)
    shrunk = (P * votes + 1) / (votes + 2)

    def moved(at: tuple[IntArray, IntArray], P: FloatArray, other: FloatArray) -> FloatArray:
        return np.asarray(squared.M[at] * np.sqrt(P * (1 - P) * other * (1 - other)))

    return _covariance(moved, shrunk, D, width, offset)


def _covariance(
    moved: Callable[[tuple[IntArray, IntArray], FloatArray, FloatArray], FloatArray],
    P: FloatArray,
    D: FloatArray,
    width: Width,
    offset: tuple[int, int],
) -> FloatArray:
    """Covariance at an offset, 0 where there is no such node; the products of kernels stand on the half lattice."""
    G, (di, dj) = len(P), offset
    along, across = (1 / (8 * (each * (G - 1)) ** 2) for each in (width.along, width.across))
    i, j = np.meshgrid(np.arange(G - di), np.arange(max(0, -dj), G - max(0, dj)), indexing="ij")
    k, m = i + di, j + dj

    def products(p: IntArray, q: IntArray, other: FloatArray) -> FloatArray:
        kernel = np.exp(-along * (i - p + j - q) ** 2 - across * (i - p - j + q) ** 2)
        return np.asarray(kernel * moved((i + p, j + q), P[i, j], other))

    covariance = np.zeros((G, G))
    covariance[i, j] = (products(k, m, P[k, m]) - products(m, k, 1 - P[k, m])) / (D[i, j] * D[k, m])
    return covariance
