"""Sums of a Gaussian kernel over triplets, at the nodes of a grid: section 3.1 of the paper."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import log_coefficient

CHUNK = 4096
"""Triplets handled at once, so that their kernels stay in the processor's cache."""
WORK = 2**18
"""Multiplications in one matrix product: larger ones wake the other threads of BLAS, which cost more than they help."""
NEGLIGIBLE = 60.0
"""A kernel below exp(-60) counts as exp(-60): numbers that underflow slow the processor down and change nothing."""


class Width(NamedTuple):
    """Widths of the kernel across the diagonal u0 = u1, where choices turn, and along it; equal ones make it round."""

    across: float
    along: float


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


def kernel_sums(
    u0: FloatArray,
    u1: FloatArray,
    n: IntArray,
    M: IntArray,
    *,
    width: Width,
    grid_size: int,
    count: IntArray | None = None,
) -> Sums:
    """Sum the kernel over all triplets, exactly; each row is one triplet or, with `count`, so many that are alike.

    Triplets with the same (n, M) are summed together, as the paper does for each count j: the kernel is separable, so
    one such sum is a matrix product that needs no weights but those of rows that stand for several.
    """
    axes, points = separable(grid_size, width), turned(u0, u1, width)
    order, starts = _by_counts(n, M)
    total = np.zeros((4, *(len(axis.nodes) for axis in axes)))
    block = _block(axes)
    room = np.empty(
        (2, len(axes[0].nodes), CHUNK)
    )  # one place for all kernels: new memory would cost as much as they do
    for start, end in pairwise(starts):
        K = np.zeros(total.shape[1:])
        for a in range(start, end, CHUNK):
            chunk = order[a : min(a + CHUNK, end)]
            K0, K1 = (
                _kernel(axis.nodes * axis.scale, u[chunk] * axis.scale, out)
                for axis, u, out in zip(axes, points, room, strict=True)
            )
            if count is not None:
                K0 *= count[chunk]
            for b in range(0, len(chunk), block):
                K += K0[:, b : b + block] @ K1[:, b : b + block].T
        n_c, M_c = n[order[start]], M[order[start]]
        total += np.array([n_c, M_c, 1.0, log_coefficient(n_c, M_c)])[:, None, None] * K
    return _mirrored(total, grid_size)


def _block(axes: tuple[Axis, Axis]) -> int:
    """Points whose kernels are multiplied at once."""
    return int(np.clip(WORK // (len(axes[0].nodes) * len(axes[1].nodes)), 16, 512))


def _mirrored(total: FloatArray, grid_size: int) -> Sums:
    """Add the sums over the mirrored triplets."""
    N, D, K, C = turned_back(total, grid_size)
    return Sums(N + (D - N).T, D + D.T, K + K.T, C + C.T)


class Axis(NamedTuple):
    """A coordinate in which the kernel is exp(-(scale (node - point))^2); its nodes lie evenly from low to high."""

    low: float
    high: float
    nodes: FloatArray
    scale: float


def separable(grid_size: int, width: Width) -> tuple[Axis, Axis]:
    """Give two coordinates in which the kernel is a product: u0 and u1, or their sum and difference.

    A round kernel is a product in either pair; the first has half as many nodes an axis.
    """
    if width.across == width.along:
        axis = Axis(0, 1, np.linspace(0, 1, grid_size), 1 / (width.across * np.sqrt(2)))
        return axis, axis
    count = 2 * grid_size - 1
    return (
        Axis(0, 2, np.linspace(0, 2, count), 1 / (2 * width.along)),
        Axis(-1, 1, np.linspace(-1, 1, count), 1 / (2 * width.across)),
    )


def turned(u0: FloatArray, u1: FloatArray, width: Width) -> tuple[FloatArray, FloatArray]:
    """Give the points in the coordinates of `separable`."""
    return (u0, u1) if width.across == width.along else (u0 + u1, u0 - u1)


def turned_back(values: FloatArray, grid_size: int) -> FloatArray:
    """Bring values at the nodes of the `separable` coordinates, shape (..., ., .), to the nodes of (u0, u1)."""
    if values.shape[-1] == grid_size:
        return values
    i, j = np.indices((grid_size, grid_size))
    return np.asarray(values[..., i + j, i - j + grid_size - 1])


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
    u0: FloatArray,
    u1: FloatArray,
    n: IntArray,
    M: IntArray,
    *,
    width: Width,
    grid_size: int,
    count: IntArray | None = None,
) -> SquaredSums:
    """Sum squared kernels over all triplets, each moved to the centre of a fine cell; `count` as in `kernel_sums`.

    They serve standard errors alone, where the cells cost about a thousandth; P itself comes from `kernel_sums`.
    """
    products = np.stack([n * n, n * M, M * M, M])
    products = products if count is None else products * count
    size = 2 * grid_size - 1
    (i, K0), (j, K1) = map(_celled, separable(size, width), turned(u0, u1, width))
    cell, shape = i * K1.shape[1] + j, (K0.shape[1], K1.shape[1])
    gathered = (np.bincount(cell, each, shape[0] * shape[1]).reshape(shape) for each in products)
    nn, nM, MM, votes = (turned_back(K0 @ each @ K1.T, size) for each in gathered)
    return SquaredSums(nn + (MM - 2 * nM + nn).T, nM + (MM - nM).T, MM + MM.T, votes + votes.T)


def _celled(axis: Axis, points: FloatArray) -> tuple[IntArray, FloatArray]:
    """Give the cell of each point, a sixth of a width each, and the squared kernel from nodes to cells' centres."""
    span, scale = axis.high - axis.low, axis.scale * np.sqrt(2)
    cells = int(np.clip(np.ceil(6 * span * scale), 64, 1024))
    cell = np.minimum(((points - axis.low) / span * cells).astype(np.int64), cells - 1)
    centres = axis.low + (np.arange(cells) + 0.5) / cells * span
    return cell, _kernel(axis.nodes * scale, centres * scale, np.empty((len(axis.nodes), cells)))
