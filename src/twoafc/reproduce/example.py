"""The density estimator step by step on a few points: the example of section 3.1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import pmf_table
from twoafc.errors import DataError
from twoafc.estimators import Density
from twoafc.table import Triplets


@dataclass(frozen=True, eq=False)
class WorkedExample:
    """The results of all steps of the density estimator, for T triplets of M votes on a grid of G x G."""

    n: IntArray  #: (T,): of M people, n chose x1
    M: int
    d0: FloatArray  #: (T,): the distances as they are
    d1: FloatArray
    u0: FloatArray  #: (T,): the same, uniformised
    u1: FloatArray
    sigma: float  #: width of the kernel
    #: (M + 1, G, G): p(n = j, d0, d1), a sum of kernels over triplets with n = j, and mirrored ones with n = M - j
    joint: FloatArray
    density: FloatArray  #: (G, G): p(d0, d1), their sum over j
    conditional: FloatArray  #: (M + 1, G, G): Pr(n = j | d0, d1) (eq. 1), with a prior for where there is no data
    P: FloatArray  #: (G, G): the mean of j / M under it (eq. 2)
    #: (G, G): L(d0, d1), how well Binomial(M, P) fits the counts there (appendix C); NaN where there is no data
    log_likelihood: FloatArray


def five_points() -> Triplets:
    """Return five triplets of two votes, with every count from 0 to 2 among them.

    The paper draws other points, which it does not print.
    """
    return Triplets.from_frame(
        {
            "n": [2, 2, 1, 1, 0],
            "M": [2, 2, 2, 2, 2],
            "d0": [0.90, 0.31, 0.45, 0.20, 0.13],
            "d1": [0.10, 0.06, 0.24, 1.40, 0.62],
        }
    )


def worked_example(table: Triplets | None = None, *, sigma: float = 0.1, grid_size: int = 10) -> WorkedExample:
    """Compute the density estimator by its definition, with one sum for each count j of the votes.

    Parameters
    ----------
    table : Triplets, optional
        With one distance, and the same M for all; default `five_points`.
    sigma, grid_size : float, int
        Width of the kernel and nodes along each axis; the paper's example has a grid of 10 x 10.

    Examples
    --------
    >>> steps = worked_example()
    >>> steps.conditional[:, 8, 1].round(2), steps.P[8, 1].round(2)
    (array([0.  , 0.05, 0.95]), np.float64(0.98))
    """
    table = five_points() if table is None else table
    M = int(table.M[0])
    if (table.M != M).any():
        raise DataError(
            f"the worked example needs the same M for all triplets; found M from {table.M.min()} to {table.M.max()}; "
            f"use Density, which accepts any M"
        )
    fit = Density(sigma=sigma, grid_size=grid_size).fit(table)
    u0, u1 = fit.uniform(table.d0), fit.uniform(table.d1)
    nodes = np.linspace(0, 1, grid_size)
    square = (nodes[:, None, None] - u0) ** 2 + (nodes[None, :, None] - u1) ** 2
    K = np.exp(-square / (2 * sigma**2))
    sums = np.stack([K[..., table.n == j].sum(axis=-1) for j in range(M + 1)])
    joint = sums + sums[::-1].transpose(0, 2, 1)
    density = joint.sum(axis=0)
    # The prior's votes are random: they hardly change P where there is data, and give 1/2 where there is none.
    prior = fit.settings.prior / M
    conditional = (joint + prior * pmf_table(M, 0.5)[:, None, None]) / (density + prior)
    P = np.tensordot(np.arange(M + 1) / M, conditional, axes=1)
    return WorkedExample(
        table.n, M, table.d0, table.d1, u0, u1, sigma, joint, density, conditional, P, fit.log_likelihood
    )
