"""P(same | d) by kernel density: section 3.1 of the paper, along one axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform, uniformise
from twoafc.errors import DataError
from twoafc.estimators.bandwidth_curve import choose_sigma
from twoafc.estimators.density import GUESS, Density
from twoafc.files import save_archive
from twoafc.table import Pairs, repeated_units

KIND = "pairs-density"
SUMS = ("n", "M", "observed", "observed_next", "binomial", "binomial_next")
"""Rows of the sums that a fit holds, at the nodes: see `DensityCurve`."""


def fit_density(settings: Density, table: Pairs) -> DensityCurve:
    """Fit the curve to a table with one distance."""
    if settings.sigma_along is not None:
        raise ValueError(f"pairs have no diagonal to be smoothed along; found sigma_along={settings.sigma_along}")
    uniform, u = uniformise(table.d)
    clusters = repeated_units(table)
    if settings.sigma == "auto":
        sigma = choose_sigma(u, table.n, table.M, clusters, prior=settings.prior)
        settings = replace(settings, sigma=sigma, grid_size=max(settings.grid_size, ceil(1.5 / sigma)))
    unit = np.arange(len(table)) if clusters is None else clusters
    return DensityCurve(settings, uniform, table.share, _sums(settings, u, table, unit))


def _sums(settings: Density, u: FloatArray, table: Pairs, unit: IntArray) -> FloatArray:
    """Kernel sums at the nodes, shape (6, G): of n K and M K, and the products that variances are made of."""
    n, M, prior = table.n, table.M, settings.prior
    sums = np.zeros((len(SUMS), settings.grid_size))
    last_moved: FloatArray = np.zeros(int(unit.max()) + 1)
    last_K, last_P = np.zeros(len(u)), 0.5
    for i, node in enumerate(np.linspace(0, 1, settings.grid_size)):
        K = np.exp(-(((u - node) / float(settings.sigma)) ** 2) / 2)
        N, D = K @ n, K @ M
        P = (N + prior * table.share) / (D + prior)
        # What each pair, or all pairs of a reference together, moves P by, times D.
        moved = np.asarray(np.bincount(unit, K * (n - P * M)), dtype=np.float64)
        # As is usual for a proportion, one vote is added to either side of those that speak at a node.
        votes = D**2 / max(K**2 @ M, np.finfo(np.float64).tiny)
        shrunk = (P * votes + 1) / (votes + 2)
        both = np.sqrt(shrunk * (1 - shrunk) * last_P * (1 - last_P))
        sums[:4, i] = N, D, moved @ moved, moved @ last_moved
        sums[4:, i] = shrunk * (1 - shrunk) * (K**2 @ M), both * ((K * last_K) @ M)
        last_moved, last_K, last_P = moved, K, shrunk
    # Products with the node before become products with the node after.
    sums[3], sums[5] = np.roll(sums[3], -1), np.roll(sums[5], -1)
    sums[[3, 5], -1] = 0.0
    return sums


@dataclass(frozen=True, eq=False)
class DensityCurve:
    """A fitted curve: P = (sum of n K + prior share) / (sum of M K + prior), linear between the nodes.

    Parameters
    ----------
    settings : Density
    uniform : Uniform
        Map of distances to [0, 1], learnt from the training pairs.
    share : float
        Share of "same" in all training votes: what P tends to where there is no data.
    sums : array, shape (6, G)
        At the nodes: sums of n K and of M K; of squared residuals between pairs (or references), and of their products
        with those at the next node; the same two if votes were independent.
    """

    settings: Density
    uniform: Uniform
    share: float
    sums: FloatArray

    def probability(self, d: ArrayLike) -> FloatArray:
        """Chance of "same", for distances of any shape; outside the training range, that at its ends."""
        return np.clip(np.interp(self.uniform(d), self._nodes, self.curve), 0.0, 1.0)

    def standard_error(self, d: ArrayLike) -> FloatArray:
        """Give the standard error of P: of its noise, not of the bias that smoothing brings.

        It comes from the spread of the votes between pairs, or between references where they repeat, is no smaller than
        that of independent votes, and rises to that of a uniform guess, 0.29, where there is no data.
        """
        x = self.uniform(d) * (self.settings.grid_size - 1)
        i = np.minimum(x.astype(np.int64), self.settings.grid_size - 2)
        a = x - i
        D, prior = self.sums[1] + self.settings.prior, self.settings.prior

        def variance(own: FloatArray, following: FloatArray) -> FloatArray:
            ends = ((1 - a) / D[i]) ** 2 * own[i] + (a / D[i + 1]) ** 2 * own[i + 1]
            return np.asarray(ends + 2 * a * (1 - a) * following[i] / (D[i] * D[i + 1]))

        noise = np.maximum(variance(*self.sums[2:4]), variance(*self.sums[4:6]))
        guessed = (1 - a) * prior / D[i] + a * prior / D[i + 1]
        return np.asarray(np.sqrt(np.maximum(noise, 0.0) + guessed**2 * GUESS))

    @cached_property
    def curve(self) -> FloatArray:
        """P at the nodes, shape (G,): node i has u = i / (G - 1)."""
        N, D = self.sums[:2]
        return np.asarray((N + self.settings.prior * self.share) / (D + self.settings.prior))

    @property
    def _nodes(self) -> FloatArray:
        return np.linspace(0, 1, self.settings.grid_size)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that a saved model holds."""
        return {**self.uniform.arrays(), "share": np.array(self.share), "sums": self.sums}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> DensityCurve:
        """Build a fit from the settings and arrays of a saved model, checking all of them."""
        density = Density(**settings)
        if density.sigma == "auto" or density.sigma_along is not None:
            raise DataError("a fitted curve has one sigma of its own; that of the model has not")
        shape, share, sums = (len(SUMS), density.grid_size), arrays["share"], arrays["sums"]
        if sums.dtype != np.float64 or sums.shape != shape or not np.isfinite(sums).all():
            raise DataError(f"sums must be finite numbers of shape {shape}; found {sums.dtype} {sums.shape}")
        if share.dtype != np.float64 or share.shape != () or not 0 <= share <= 1:
            raise DataError(f"the share of same must lie in [0, 1]; found {share}")
        if (sums[[0, 1, 2, 4]] < 0).any() or (sums[0] > sums[1] * (1 + 1e-9)).any():
            raise DataError("sums over votes must not be negative, nor n exceed M; those of the model do")
        return cls(density, Uniform.restore(arrays), float(share), sums)

    def save(self, path: str | Path) -> None:
        """Write the model; `twoafc.load` reads it."""
        save_archive(path, KIND, asdict(self.settings), self.arrays())
