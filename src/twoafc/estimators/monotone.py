"""The nearest surface on which P never falls where d0 grows."""

from __future__ import annotations

import numpy as np

from twoafc.arrays import FloatArray
from twoafc.estimators.basis import REACH, antisymmetric_slopes

BEYOND = 6.0
"""A normal score that no table reaches."""
MARGIN = 2e-3
"""Least slope on the grid, so that f does not fall between its points either."""


def nearest_monotone(theta: FloatArray, information: FloatArray, size: int) -> FloatArray:
    """Move coefficients as little as the information allows, until f rises with z0, on a fine grid.

    By antisymmetry f then falls with z1. The least distance under linear constraints is found by non-negative least
    squares (Lawson and Hanson, 1974).
    """
    from scipy.optimize import nnls

    line = np.linspace(-REACH, REACH, 4 * size)
    # Beyond the last knots slopes are straight lines in z1: what holds at both ends of those holds between.
    z0, z1 = (axis.ravel() for axis in np.meshgrid(line, [-BEYOND, *line, BEYOND]))
    slopes = antisymmetric_slopes(z0, z1, size)
    root = np.linalg.cholesky(information)
    # theta = theta0 + root^-T x, with |x| least and slopes @ theta >= 0.
    against = np.linalg.solve(root, slopes.T)
    short = MARGIN - slopes @ theta
    if (short <= 0).all():
        return theta
    stacked = np.vstack([against, short[None, :]])
    target = np.append(np.zeros(len(theta)), 1.0)
    multipliers, _ = nnls(stacked, target, maxiter=100 * len(short))
    residual = target - stacked @ multipliers
    return np.asarray(theta + np.linalg.solve(root.T, -residual[:-1] / residual[-1]))
