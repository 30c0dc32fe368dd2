"""Counts of triplets (`CountedTriplets`) as the estimators take them: by places, which may lie on a lattice."""

from __future__ import annotations

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.core import Uniform
from twoafc.counted import ByReference, CountedTriplets
from twoafc.estimators.bandwidth import choose_sigma
from twoafc.estimators.basis import Scores, normal_scores
from twoafc.estimators.density import Density, DensityFit, with_sigma
from twoafc.estimators.kernel import CHUNK, WORK, Sums, gaussian
from twoafc.estimators.penalised import Cells, Dispersion, between_clusters, between_rows, gather_sums
from twoafc.places import Axis

DENSEST = 2**23
"""Cells of a plane of bins that is worth having in full."""


def fit_density_to_counts(settings: Density, table: CountedTriplets, uniform: Uniform | None) -> DensityFit:
    """Fit P to the places of a table, each of which has votes of many triplets."""
    uniform = uniform or table.uniform
    u0, u1 = table.places.under(uniform)
    if settings.sigma == "auto":
        references = references_of(table)
        row, unit, times = table.place, None, table.count
        n, M = table.n, table.M
        if references is not None:
            unit, times = references.ref, references.times
            row, n, M = table.place[references.row], n[references.row], M[references.row]
        asked = {"share": 0.5, "prior": settings.prior}
        sigma = choose_sigma((u0[row], u1[row]), n, M, unit, **asked, count=times)
        settings = with_sigma(settings, sigma)
    sigma, size = float(settings.sigma), settings.grid_size
    votes, axis = table.votes, table.places.axis
    weights = np.stack([votes.n, votes.M, votes.triplets, votes.log_coefficient])
    products = np.stack([votes.nn, votes.nM, votes.MM, votes.M])
    if axis is None or len(axis.d) ** 2 > DENSEST:
        total = _at_places(u0, u1, weights, sigma, size)
    else:
        rest = axis.apart
        total = _on_lattice(axis, uniform(axis.d), weights, sigma, size)
        total += _at_places(u0[rest], u1[rest], weights[:, rest], sigma, size)
    return DensityFit.from_sums(settings, uniform, Sums.mirrored(total), (u0, u1), products)


def references_of(table: CountedTriplets) -> ByReference | None:
    """Triplets by reference; None where no reference repeats, or where counts have lost their references."""
    kept = table.references
    return kept if kept is not None and kept.ref.max() + 1 < kept.times.sum() else None


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


def gathered_places(table: CountedTriplets) -> tuple[Uniform, Scores, Cells, Dispersion]:
    """Gather the places of a table in cells; return also the map, the scores, and the dispersion."""
    uniform, places, votes = table.uniform, table.places, table.votes
    scores = normal_scores(uniform, *places.under(uniform), count=votes.triplets)
    z0, z1 = (np.interp(d, uniform.values, scores.values) for d in (places.d0, places.d1))
    cells, cell = gather_sums((z0, z1), votes.n, votes.M, votes.nn, votes.nM, votes.MM)
    references = references_of(table)
    if references is None:
        return uniform, scores, cells, between_rows(cells)
    row = references.row
    n, M, place = table.n[row], table.M[row], table.place[row]
    n = np.where(z0[place] < z1[place], M - n, n)
    return uniform, scores, cells, between_clusters(cell[place], references.ref, n, M, references.times)
