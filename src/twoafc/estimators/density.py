"""P by kernel density: section 3.1 of the paper, over the plane of two distances (triplets) or along one (pairs)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from twoafc.arrays import FloatArray
from twoafc.core import Uniform, one_thread
from twoafc.estimators.kernel import (
    Rows,
    Sums,
    choose_sigma,
    covariances,
    interpolate,
    interpolated_variance,
    kernel_sums,
)
from twoafc.estimators.saved import Model, of_rows
from twoafc.public import public
from twoafc.table import as_votes, repeated_units

GUESS = 1 / 12
"""Variance of a P that is uniform in [0, 1], as under the prior."""


@public
@dataclass(frozen=True)
class Density:
    """Settings of the density estimator; the defaults are the paper's.

    Parameters
    ----------
    sigma : float or "auto"
        Width of the Gaussian kernel, on distances uniformised to [0, 1]; auto chooses it by the likelihood of triplets
        (or references, where they repeat) that are left out.
    grid_size : int
        Nodes along each axis, evenly spaced from 0 to 1; P is bilinear between them. An automatic sigma that is narrow
        gets more.
    prior : float
        Votes at every node (a triplet on the node counts M) for P = 1/2 or, for pairs, for the share of "same" in all
        votes: the P where there is no data.

    Examples
    --------
    >>> from twoafc.table import Triplets
    >>> table = Triplets.from_frame({"n": [2, 0], "M": [2, 2], "d0": [0.9, 0.1], "d1": [0.2, 0.6]})
    >>> fit = Density(sigma=0.2).fit(table)
    >>> fit
    DensityFit(sigma=0.2, grid_size=20, 2 triplets)
    >>> fit.probability([0.9, 0.2], [0.2, 0.9]).round(3)
    array([0.998, 0.002])
    """

    sigma: float | Literal["auto"] = 1 / 44
    grid_size: int = 20
    prior: float = 1e-3

    takes_counts: ClassVar[Literal[True]] = True

    def __post_init__(self) -> None:
        if self.sigma != "auto" and not (isinstance(self.sigma, Real) and 0 < self.sigma < np.inf):
            raise ValueError(f"sigma must be a positive number or auto; found {self.sigma}")
        if int(self.grid_size) != self.grid_size or self.grid_size < 2:
            raise ValueError(f"grid_size must be a whole number, at least 2; found {self.grid_size}")
        if not (np.isfinite(self.prior) and self.prior > 0):
            raise ValueError(f"prior must be a positive number of votes; found {self.prior}")
        object.__setattr__(self, "grid_size", int(self.grid_size))  # numpy's integers cannot be saved as settings

    @one_thread()
    def fit(self, table: Any) -> DensityFit:
        """Fit P to a table, path or frame with one distance."""
        table = as_votes(table)
        uniform, *columns = table.uniformised()
        clusters = repeated_units(table) if table.k == 1 or self.sigma == "auto" else None
        rows = Rows(tuple(columns), table.n, table.M, table.mass, clusters)
        share = 0.5 if table.k == 2 else float((table.n * table.mass).sum() / (table.M * table.mass).sum())
        chosen = self
        if self.sigma == "auto":
            row, of_parts = table.parts
            weight = 1.0 if table.scaled_weight is None else table.scaled_weight
            parts = Rows(tuple(x[row] for x in columns), table.n[row], table.M[row], of_parts, clusters)
            sigma = choose_sigma(parts, share=share, prior=self.prior, weight=weight)
            chosen = replace(self, sigma=sigma, grid_size=max(self.grid_size, ceil(1.5 / sigma)))
        sigma = float(chosen.sigma)
        sums = kernel_sums(rows, sigma=sigma, grid_size=chosen.grid_size)
        P = share + _excess_at_nodes(sums, share, self.prior)
        later = partial(covariances, rows, table.squared_mass, P, sums.M, sigma=sigma, prior=self.prior)
        return DensityFit(chosen, uniform, share, sums, later)


def _excess_at_nodes(sums: Sums, share: float, prior: float) -> FloatArray:
    """P - share at the nodes; antisymmetric to the last bit for k = 2: the mirrored sum of n K is its transpose."""
    N, D, _, _ = sums
    return np.asarray(((N - N.T) / 2 if N.ndim == 2 else N - share * D) / (D + prior))


@dataclass(frozen=True, eq=False, repr=False)
class DensityFit(Model):
    """P = (sum of n K + prior share) / (sum of M K + prior) at the nodes, linear between them.

    A surface over two distances for triplets, whose sums are over the triplets and their mirrors, or a curve over one
    for pairs.
    """

    settings: Density
    uniform: Uniform  # the map of the distances to [0, 1]
    share: float  # P where there is no data: 1/2, or for pairs the share of "same" in all votes
    sums: Sums
    compute_covariances: Callable[[], FloatArray]  # they take longer than the rest, and are computed on first use

    name: ClassVar[str] = "density"

    @property
    def k(self) -> int:
        """Distances of a row: 2 for triplets, 1 for pairs."""
        return self.sums.M.ndim

    def __repr__(self) -> str:
        rows = f"{self.uniform.at_most[-1] / self.k:.0f} {'triplets' if self.k == 2 else 'pairs'}"
        return f"DensityFit(sigma={self.settings.sigma:.4g}, grid_size={self.settings.grid_size}, {rows})"

    @cached_property
    def covariances(self) -> FloatArray:
        """Covariances of P at neighbouring nodes, as observed and as binomial: shape (2, offsets, G, ...)."""
        return self.compute_covariances()

    @cached_property
    def _excess(self) -> FloatArray:
        return _excess_at_nodes(self.sums, self.share, self.settings.prior)

    @property
    def surface(self) -> FloatArray:
        """P at the nodes, shape (G, G): row i has u0 = i / (G - 1), column j has u1 = j / (G - 1); of pairs (G,)."""
        return np.clip(self.share + self._excess, 0.0, 1.0)

    @property
    def probability(self) -> Callable[..., FloatArray]:
        """Chance that x1 is chosen, a function of d0 and d1; for pairs, chance of "same", a function of d."""
        return of_rows(self._chance, self.k)

    def _chance(self, *d: ArrayLike) -> FloatArray:
        return np.clip(self.share + interpolate(self._excess, *map(self.uniform, d)), 0.0, 1.0)

    @property
    def standard_error(self) -> Callable[..., FloatArray]:
        """Standard error of P, a function of d0 and d1, or of d: of its noise, not of the bias that smoothing brings.

        It comes from the spread of the votes between rows (a sandwich), or between references of pairs where they
        repeat, and is no smaller than that of independent votes. It is 0 where d0 = d1, since P = 1/2 there by
        symmetry, and rises to that of a uniform guess, 0.29, where there is no data.
        """
        return of_rows(self._error, self.k)

    def _error(self, *d: ArrayLike) -> FloatArray:
        u = tuple(map(self.uniform, d))
        observed, binomial = (interpolated_variance(kind, *u) for kind in self.covariances)
        guessed = interpolate(self.settings.prior / (self.sums.M + self.settings.prior), *u)
        variance = np.maximum(observed, binomial) + guessed**2 * GUESS
        if self.k == 2:
            # Where both distances lie beyond the training range, P = 1/2 is a guess.
            beyond = np.where(np.asarray(d[0]) == np.asarray(d[1]), 0.0, GUESS)
            variance = np.where(u[0] == u[1], beyond, variance)
        return np.asarray(np.sqrt(variance))

    @property
    def log_likelihood(self) -> FloatArray:
        """Local log-likelihood at the nodes (appendix C), in the shape of `surface`; NaN where there is no data."""
        N, D, K, C = self.sums
        P = self.surface
        total = C + xlogy(N, P) + xlogy(np.maximum(D - N, 0.0), 1 - P)
        return np.divide(total, K, out=np.full_like(K, np.nan), where=self.settings.prior < D)

    @property
    def plane_log_likelihood(self) -> tuple[float, float]:
        """Average of the local log-likelihood over the nodes that have data: evenly, and by the density of triplets."""
        local, K = self.log_likelihood, self.sums.rows
        known = np.isfinite(local)
        if not known.any():
            return float("nan"), float("nan")
        return float(local[known].mean()), float(np.average(local[known], weights=K[known]))

    def summary(self) -> dict[str, Any]:
        """Describe the fit on the card of a result."""
        if self.k == 1:
            return {"sigma": self.settings.sigma, "grid_size": self.settings.grid_size}
        even, by_density = self.plane_log_likelihood
        return {"plane_log_likelihood": even, "plane_log_likelihood_by_density": by_density}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a saved model."""
        own = {"share": np.array(self.share), "sums": np.stack(self.sums), "covariances": self.covariances}
        return {**self.uniform.arrays(), **own}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> DensityFit:
        """Build a fit from the settings and arrays of a saved model."""
        share, sums, covariances = float(arrays["share"]), Sums(*arrays["sums"]), arrays["covariances"]
        return cls(Density(**settings), Uniform.restore(arrays), share, sums, lambda: np.asarray(covariances))
