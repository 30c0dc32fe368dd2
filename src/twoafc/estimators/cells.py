"""Triplets gathered in fine cells of the plane of normal scores: what a spline is fitted to, whatever their number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twoafc.arrays import FloatArray, IntArray

LATTICE = 96
"""Cells along each axis."""
LIMIT = 4.0
"""Normal scores beyond it share the outermost cells, though each cell keeps the mean of its own."""


class Cells(NamedTuple):
    """Sums over the triplets of each cell that has any, each of shape (C,).

    Every triplet stands on the side z0 >= z1, turned round where need be. ``z0`` and ``z1`` are means over votes, so
    that the cells' size costs nothing to first order; ``n`` and ``M`` sums, ``nn``, ``nM``, ``MM`` sums of products.
    """

    z0: FloatArray
    z1: FloatArray
    n: FloatArray
    M: FloatArray
    nn: FloatArray
    nM: FloatArray
    MM: FloatArray


def gather(
    z0: FloatArray, z1: FloatArray, n: IntArray, M: IntArray, count: IntArray | None = None
) -> tuple[Cells, IntArray]:
    """Gather triplets in cells; give also the cell of each row, which is one triplet or `count` that are alike.

    Examples
    --------
    >>> cells, cell = gather(np.array([0.0, 1.0]), np.array([1.0, 0.0]), np.array([1, 3]), np.array([4, 4]))
    >>> cells.z0, cells.n, cells.M, cell
    (array([1.]), array([6.]), array([8.]), array([0, 0]))
    """
    times = np.ones(len(n), dtype=np.int64) if count is None else count
    sums = (n * times, M * times, n * n * times, n * M * times, M * M * times)
    votes, all_votes, nn, nM, MM = (each.astype(np.float64) for each in sums)
    turned = z0 < z1
    upper, lower = np.where(turned, z1, z0), np.where(turned, z0, z1)
    chosen, nn, nM = (
        np.where(turned, all_votes - votes, votes),
        np.where(turned, MM - 2 * nM + nn, nn),
        np.where(turned, MM - nM, nM),
    )
    i, j = (np.clip((z + LIMIT) * (LATTICE / (2 * LIMIT)), 0, LATTICE - 1).astype(np.int64) for z in (upper, lower))
    place = i * LATTICE + j
    used = np.bincount(place, minlength=LATTICE**2) > 0
    cell = (np.cumsum(used) - 1)[place]

    def total(weights: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(cell, weights), dtype=np.float64)

    sizes = total(all_votes)
    means = (total(upper * all_votes) / sizes, total(lower * all_votes) / sizes)
    return Cells(*means, total(chosen), sizes, total(nn), total(nM), total(MM)), cell
