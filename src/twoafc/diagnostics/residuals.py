"""Where over the plane of the two distances the surface misses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import uniformise
from twoafc.inference.errorbars import Together
from twoafc.inference.intervals import p_value

CELLS = 8
FEWEST_EXPECTED = 5.0
"""A cell is tested where the variance of its number of votes for x1 is at least this: as for a chi-squared test."""


@dataclass(frozen=True, eq=False)
class ResidualMap:
    """What people chose less what P says, over cells of the uniformised plane.

    Attributes
    ----------
    residual : array, shape (G, G)
        Share of votes for x1 minus P, by votes; antisymmetric, NaN where there are no triplets. Row i has u0 in
        [i / G, (i + 1) / G), column j has u1 there.
    se : array, shape (G, G)
        Its standard error; NaN on the diagonal, where the residual is 0 by symmetry.
    triplets : array of int, shape (G, G)
        Triplets in the cell or mirrored into it.
    p : array, shape (G, G)
        p-value of the residual, corrected for the number of cells that are tested (Bonferroni); NaN where there are too
        few votes, or too sure a P, for a test.
    edges : array, shape (G + 1,)
        Distances at the edges of the cells.
    """

    residual: FloatArray
    se: FloatArray
    triplets: IntArray
    p: FloatArray
    edges: FloatArray

    def worst(self) -> str | None:
        """Tell where the surface misses most; None where it misses nowhere that could be told from noise."""
        with np.errstate(invalid="ignore"):
            sure = np.where(self.p < 0.05, abs(self.residual), 0.0)
        if not np.tril(sure).any():
            return None
        i, j = np.unravel_index(int(np.argmax(np.tril(sure))), sure.shape)
        more = "more" if self.residual[i, j] > 0 else "less"
        far, near = ((self.edges[k], self.edges[k + 1]) for k in (i, j))
        return (
            f"the nearer image is chosen {abs(100 * self.residual[i, j]):.1f} % {more} often than P says where its "
            f"distance is {near[0]:.3g} to {near[1]:.3g} and the other's {far[0]:.3g} to {far[1]:.3g} "
            f"({self.triplets[i, j]} triplets, p = {self.p[i, j]:.2g})"
        )


def residual_map(
    n: IntArray, M: IntArray, P: FloatArray, d0: FloatArray, d1: FloatArray, link: Together, *, cells: int = CELLS
) -> ResidualMap:
    """Sum the residuals n - M P of triplets in the same cell, each seen with d0 >= d1, mirrored if need be."""
    uniform, u0, u1 = uniformise(d0, d1)
    i, j = (np.minimum((u * cells).astype(np.int64), cells - 1) for u in (u0, u1))
    residual = np.where(u0 >= u1, 1, -1) * (n - M * P)
    code = np.maximum(i, j) * cells + np.minimum(i, j)
    count = cells * cells
    votes = np.bincount(code, M, minlength=count)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(code, residual, minlength=count) / votes
    weight = M / votes[code]
    influence = (residual - mean[code] * M) / votes[code]
    observed = link.rows.variance(influence[:, None], weight, code, count)[:, 0]
    # Votes that happen to agree show no spread; the binomial of P itself is the least there is, if P is right.
    expected = np.bincount(code, M * P * (1 - P), minlength=count)
    with np.errstate(divide="ignore", invalid="ignore"):
        se = np.sqrt(np.fmax(observed, expected / votes**2))
    units = link.rows.units(weight, code, count)
    tested = (expected >= FEWEST_EXPECTED) & (units > 1) & (np.arange(count) % (cells + 1) > 0)
    tests = max(1, int(tested.sum()))
    each = [p_value(*cell) if test else np.nan for *cell, test in zip(mean, se, units, tested, strict=True)]
    p = np.minimum(tests * np.array(each), 1.0)
    lower = np.tril_indices(cells, -1)

    def unfolded(values: FloatArray, sign: int) -> FloatArray:
        square = values.reshape(cells, cells).astype(np.float64)
        square.T[lower] = sign * square[lower]
        return square

    full = unfolded(mean, -1)
    np.fill_diagonal(full, np.where(votes.reshape(cells, cells).diagonal() > 0, 0.0, np.nan))
    triplets = unfolded(np.bincount(code, minlength=count).astype(np.float64), 1).astype(np.int64)
    errors, chances = unfolded(se, 1), unfolded(p, 1)
    for square in (errors, chances):
        np.fill_diagonal(square, np.nan)
        square[triplets == 0] = np.nan
    return ResidualMap(full, errors, triplets, chances, uniform.inverse(np.linspace(0, 1, cells + 1)))
