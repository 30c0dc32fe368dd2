"""Counts of triplets (`CountedTriplets`) as the estimators take them: by places, which may lie on a lattice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform
from twoafc.counted import CountedTriplets
from twoafc.estimators.basis import Scores, normal_scores
from twoafc.estimators.kernel import CHUNK, WORK, Sums, gaussian
from twoafc.estimators.penalised import Cells, gather_sums
from twoafc.places import Axis
from twoafc.table import Rows, Votes, repeated_units

DENSEST = 2**23
"""Cells of a plane of bins that is worth having in full."""


class Clusters(NamedTuple):
    """Entry i says that triplets of the unit ``unit[i]`` are like row ``row[i]`` of the table, ``times[i]`` of them.

    ``row`` may also be a slice of all rows; ``times`` is None where each entry is one triplet.
    """

    unit: IntArray
    row: IntArray | slice
    times: IntArray | None


def clusters_of(table: Rows) -> Clusters | None:
    """Number the rows by reference; None where no reference repeats, or where counts have lost their references."""
    if isinstance(table, CountedTriplets):
        kept = table.references
        repeated = kept is not None and kept.ref.max() + 1 < kept.times.sum()
        return Clusters(kept.ref, kept.row, kept.times) if kept is not None and repeated else None
    units = repeated_units(table) if isinstance(table, Votes) else None
    return None if units is None else Clusters(units, slice(None), table.count)


def sums_of_places(
    table: CountedTriplets, uniform: Uniform, sigma: float, grid_size: int
) -> tuple[Sums, tuple[FloatArray, ...], FloatArray]:
    """Sum the kernel over the places of a table; return also the places and the products of their votes."""
    u0, u1 = table.places.under(uniform)
    votes, axis = table.votes, table.places.axis
    weights = np.stack([votes.n, votes.M, votes.triplets, votes.log_coefficient])
    products = np.stack([votes.nn, votes.nM, votes.MM, votes.M])
    if axis is None or len(axis.d) ** 2 > DENSEST:
        total = _at_places(u0, u1, weights, sigma, grid_size)
    else:
        rest = axis.apart
        total = _on_lattice(axis, uniform(axis.d), weights, sigma, grid_size)
        total += _at_places(u0[rest], u1[rest], weights[:, rest], sigma, grid_size)
    return Sums.mirrored(total), (u0, u1), products


def _on_lattice(axis: Axis, u: FloatArray, weights: FloatArray, sigma: float, grid_size: int) -> FloatArray:
    """Sums over the places that lie on the lattice, by two matrix products."""
    scale, size = 1 / (sigma * np.sqrt(2)), len(u)
    K = gaussian(np.linspace(0, 1, grid_size) * scale, u * scale, np.empty((grid_size, size)))
    on = ~axis.apart
    cell = axis.i[on] * size + axis.j[on]
    step = max(WORK // (size * grid_size), 1)
    total, plane = np.zeros((len(weights), grid_size, grid_size)), np.zeros((size, size))
    for out, weight in zip(total, weights, strict=True):
        plane.put(cell, weight[on])  # the same cells each time, one for each place
        for a in range(0, size, step):
            out += K[:, a : a + step] @ (plane[a : a + step] @ K.T)
    return total


def _at_places(u0: FloatArray, u1: FloatArray, weights: FloatArray, sigma: float, grid_size: int) -> FloatArray:
    """Sums over places anywhere."""
    scale = 1 / (sigma * np.sqrt(2))
    nodes = np.linspace(0, 1, grid_size) * scale
    block = int(np.clip(WORK // grid_size**2, 16, 512))
    total, buffers = np.zeros((len(weights), grid_size, grid_size)), np.empty((2, grid_size, CHUNK))
    for a in range(0, len(u0), CHUNK):
        K0, K1 = (
            gaussian(nodes, u[a : a + CHUNK] * scale, buffer) for u, buffer in zip((u0, u1), buffers, strict=True)
        )
        for b in range(0, K0.shape[1], block):
            some = slice(b, b + block)
            for out, weight in zip(total, weights[:, a : a + CHUNK], strict=True):
                out += (K0[:, some] * weight[some]) @ K1[:, some].T
    return total


def gathered_places(table: CountedTriplets) -> tuple[Uniform, Scores, Cells, IntArray]:
    """Gather the places of a table in cells; return also the map, the scores, and the cell of each row."""
    uniform, places, votes = table.uniform, table.places, table.votes
    scores = normal_scores(uniform, places.d0, places.d1, count=votes.triplets)
    z0, z1 = (np.interp(d, uniform.values, scores.values) for d in (places.d0, places.d1))
    cells, cell = gather_sums((z0, z1), votes.n, votes.M, votes.nn, votes.nM, votes.MM)
    return uniform, scores, cells, cell[table.place]
