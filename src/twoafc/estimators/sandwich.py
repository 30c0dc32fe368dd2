"""How uncertain a kernel estimate of P is: a sandwich, from the spread of the votes between triplets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twoafc.estimators.kernel import SquaredSums

FloatArray = NDArray[np.float64]


def node_covariance(
    P: FloatArray, D: FloatArray, squared: SquaredSums, *, sigma: float, offset: tuple[int, int]
) -> FloatArray:
    """Covariance of P at each node (i, j) with P at (i, j) + offset, shape (G, G); 0 where there is no such node.

    A triplet moves P at a node by K (n - P M) / D and, through its mirror, by minus the same at the mirrored node; the
    products of two kernels are found on the half lattice.
    """
    G, (di, dj) = len(P), offset
    nn, nM, MM = squared
    spread = 1 / (4 * (sigma * (G - 1)) ** 2)
    i, j = np.meshgrid(np.arange(G - di), np.arange(max(0, -dj), G - max(0, dj)), indexing="ij")
    k, m = i + di, j + dj

    def products(p: NDArray[np.int64], q: NDArray[np.int64], P_other: FloatArray) -> FloatArray:
        kernel = np.exp(-spread * ((i - p) ** 2 + (j - q) ** 2))
        at = (i + p, j + q)
        return np.asarray(kernel * (nn[at] - (P[i, j] + P_other) * nM[at] + P[i, j] * P_other * MM[at]))

    covariance = np.zeros((G, G))
    covariance[i, j] = (products(k, m, P[k, m]) - products(m, k, 1 - P[k, m])) / (D[i, j] * D[k, m])
    return covariance


def unseen(variance: FloatArray, D: FloatArray, squared: SquaredSums, prior: float) -> FloatArray:
    """Estimate the error that the residuals do not show where triplets are few, with the sign of u0 - u1, (G, G).

    Of the m = D^2 / sum of (M K)^2 triplets that speak at a node, one is spent on P itself: their residuals show the
    share 1 - 1/m of the true spread. The missing share is made up with the average spread over the plane. The prior
    stands for an unknown P, with the variance 1/12 of a uniform guess.

    Parameters
    ----------
    variance : array, shape (G, G)
        Variance of P at the nodes, as the residuals show it.
    """
    MM = squared.MM[::2, ::2]
    shares = MM / np.maximum(D, prior) ** 2
    shown = (variance * (D + prior) ** 2).sum() + prior**2 / 12
    spread = shown / ((MM * np.maximum(1 - shares, 0)).sum() + prior**2)
    missing = spread * MM * np.minimum(shares, 1)
    nodes = np.arange(len(D))
    side = np.sign(np.subtract.outer(nodes, nodes))
    return np.asarray(side * np.sqrt(missing + prior**2 / 12) / (D + prior))
