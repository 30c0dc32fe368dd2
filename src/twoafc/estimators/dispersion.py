"""How much more votes vary than the binomial says, as one number: the ratio of robust to model information.

Votes on one triplet go together beyond what the distance explains, and so may triplets of one reference. A likelihood
that took every vote for independent would follow their noise; dividing it by the dispersion sees to that.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from twoafc.arrays import FloatArray, IntArray
from twoafc.estimators.cells import Cells
from twoafc.estimators.penalised import Dispersion


def between_triplets(cells: Cells) -> Dispersion:
    """Measure the dispersion of votes between triplets; with M = 1 throughout it is 1."""

    def dispersion(P: FloatArray, weight: FloatArray, jacobian: FloatArray, covariance: FloatArray) -> float:
        residuals = (cells.nn - 2 * P * cells.nM + P**2 * cells.MM) * weight**2
        spread = np.einsum("ci,ij,cj->c", jacobian, covariance, jacobian, optimize=True)
        return _ratio(float(residuals @ spread), float(cells.M * weight @ spread))

    return dispersion


def between_clusters(
    cell: IntArray, cluster: IntArray, n: IntArray, M: IntArray, count: IntArray | None = None
) -> Dispersion:
    """Measure the dispersion of votes between clusters of triplets, given the cell and cluster of each row.

    A row is one triplet or `count` that are alike.
    """
    times = np.ones(len(n)) if count is None else count.astype(np.float64)
    shape = (int(cluster.max()) + 1, int(cell.max()) + 1)
    votes, all_votes = (csr_array((column * times, (cluster, cell)), shape=shape) for column in (n, M))

    def dispersion(P: FloatArray, weight: FloatArray, jacobian: FloatArray, covariance: FloatArray) -> float:
        scores = np.asarray(votes @ (weight[:, None] * jacobian) - all_votes @ ((P * weight)[:, None] * jacobian))
        robust = np.trace(covariance @ (scores.T @ scores)) * len(scores) / max(len(scores) - 1, 1)
        model = np.trace(covariance @ (jacobian.T @ ((all_votes.sum(axis=0) * weight)[:, None] * jacobian)))
        return _ratio(float(robust), float(model))

    return dispersion


def _ratio(robust: float, model: float) -> float:
    """Ratio of the two, 1 at least: fewer differences than the binomial's own are chance, or no data at all."""
    return max(1.0, robust / model) if model > 0 else 1.0
