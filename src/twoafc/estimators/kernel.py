"""Sums of a Gaussian kernel over triplets, at the nodes of a grid: section 3.1 of the paper."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoafc.binomial import log_coefficient

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CHUNK = 4096
"""Triplets handled at once, so that their kernels stay in the processor's cache."""
BLOCK = 512
"""Triplets in one matrix product: larger ones wake the other threads of BLAS, which cost more than they help here."""
NEGLIGIBLE = 60.0
"""A kernel below exp(-60) counts as exp(-60): numbers that underflow slow the processor down and change nothing."""


class Sums(NamedTuple):
    """Kernel sums at the nodes, each of shape (G, G), over the triplets and their mirrors.

    ``n`` and ``M`` are sums of n K and M K, ``triplets`` of K alone, ``log_coefficient`` of K log C(M, n).
    """

    n: FloatArray
    M: FloatArray
    triplets: FloatArray
    log_coefficient: FloatArray


class SquaredSums(NamedTuple):
    """Sums of K^2 n^2, K^2 n M, K^2 M^2 and K^2 M over the triplets and their mirrors.

    They stand on the half lattice, the nodes and the points midway between them, shape (2G - 1, 2G - 1), because the
    product of two Gaussian kernels is a narrower one at their midpoint: from these come the covariances of all nodes.
    """

    nn: FloatArray
    nM: FloatArray
    MM: FloatArray
    M: FloatArray


def kernel_sums(u0: FloatArray, u1: FloatArray, n: IntArray, M: IntArray, *, sigma: float, grid_size: int) -> Sums:
    """Sum the kernel over all triplets, exactly.

    Triplets with the same (n, M) are summed together, as the paper does for each count j: the kernel is separable, so
    one such sum is a matrix product that needs no weights.
    """
    scale = 1 / (sigma * np.sqrt(2))
    nodes = np.linspace(0, 1, grid_size) * scale
    order, starts = _by_counts(n, M)
    total = np.zeros((4, grid_size, grid_size))
    room = np.empty((2, grid_size, CHUNK))  # one place for all kernels: new memory would cost as much as they do
    for start, end in pairwise(starts):
        K = np.zeros((grid_size, grid_size))
        for a in range(start, end, CHUNK):
            chunk = order[a : min(a + CHUNK, end)]
            K0, K1 = (_kernel(nodes, u[chunk] * scale, out) for u, out in zip((u0, u1), room, strict=True))
            for b in range(0, len(chunk), BLOCK):
                K += K0[:, b : b + BLOCK] @ K1[:, b : b + BLOCK].T
        n_c, M_c = n[order[start]], M[order[start]]
        total += np.array([n_c, M_c, 1.0, log_coefficient(n_c, M_c)])[:, None, None] * K
    N, D, K, C = total
    return Sums(N + (D - N).T, D + D.T, K + K.T, C + C.T)


def _by_counts(n: IntArray, M: IntArray) -> tuple[IntArray, list[int]]:
    """Order the triplets by (n, M); say where each run of equal counts starts, and where the last one ends."""
    code = M * (M + 1) // 2 + n
    # numpy sorts 16-bit integers by radix, in a tenth of the time.
    small = code.astype(np.uint16) if code.max() < 2**16 else code
    order = np.argsort(small, kind="stable")
    changes = np.flatnonzero(np.diff(code[order])) + 1
    return order, [0, *changes.tolist(), len(code)]


def _kernel(nodes: FloatArray, v: FloatArray, room: FloatArray) -> FloatArray:
    """exp(-(node - v)^2), shape (nodes, points), made in the room given."""
    t = room[:, : len(v)]
    np.subtract(nodes[:, None], v, out=t)
    np.multiply(t, t, out=t)
    np.minimum(t, NEGLIGIBLE, out=t)
    np.negative(t, out=t)
    return np.exp(t, out=t)


def squared_sums(
    u0: FloatArray, u1: FloatArray, n: IntArray, M: IntArray, *, sigma: float, grid_size: int
) -> SquaredSums:
    """Sum squared kernels over all triplets, each moved to the centre of a fine cell.

    They serve standard errors alone, where the cells cost about a thousandth; P itself comes from `kernel_sums`.
    """
    cells = int(np.clip(np.ceil(6 / sigma), 64, 1024))
    i, j = (np.minimum((u * cells).astype(np.int64), cells - 1) for u in (u0, u1))
    cell = i * cells + j
    centres = (np.arange(cells) + 0.5) / cells
    half_lattice = np.linspace(0, 1, 2 * grid_size - 1)
    K = _kernel(half_lattice / sigma, centres / sigma, np.empty((len(half_lattice), cells)))

    def smooth(weights: IntArray) -> FloatArray:
        counted = np.bincount(cell, weights, cells * cells).reshape(cells, cells)
        return np.asarray(K @ counted @ K.T)

    nn, nM, MM, votes = smooth(n * n), smooth(n * M), smooth(M * M), smooth(M)
    return SquaredSums(nn + (MM - 2 * nM + nn).T, nM + (MM - nM).T, MM + MM.T, votes + votes.T)
