"""P over the plane of the two distances, by kernel density: section 3.1 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import ceil
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform
from twoafc.errors import DataError
from twoafc.estimators.bandwidth import choose_width
from twoafc.estimators.clusters import clusters_of
from twoafc.estimators.grid import NEIGHBOURS, Offset, interpolate, interpolated_variance
from twoafc.estimators.kernel import (
    SquaredSums,
    Sums,
    Width,
    kernel_sums,
    squared_sums,
)
from twoafc.estimators.sandwich import binomial_covariance, observed_covariance
from twoafc.files import save_archive
from twoafc.table import Pairs, Rows, Triplets

if TYPE_CHECKING:
    from twoafc.estimators.density_curve import DensityCurve

GUESS = 1 / 12
"""Variance of a P that is anything between 0 and 1: what the prior stands for."""


@dataclass(frozen=True)
class Density:
    """Settings of the density estimator; the defaults are the paper's.

    Parameters
    ----------
    sigma : float or "auto"
        Width of the Gaussian kernel, on distances uniformised to [0, 1]; auto takes the one under which triplets (or
        references, where they repeat) that are left out are most likely.
    sigma_along : float, "auto" or None
        Width along the diagonal d0 = d1, where P changes less than across it; sigma is then the width across. None, as
        in the paper: the same.
    grid_size : int
        Nodes along each axis, evenly spaced from 0 to 1; P is bilinear between them. With an automatic sigma there are
        as many more as it takes to follow the kernel.
    prior : float
        Votes for P = 1/2 at every node (a triplet on the node counts M): where there is no data P tends to 1/2.

    Examples
    --------
    >>> from twoafc.table import Triplets
    >>> table = Triplets.from_frame({"n": [2, 0], "M": [2, 2], "d0": [0.9, 0.1], "d1": [0.2, 0.6]})
    >>> fit = Density(sigma=0.2).fit(table)
    >>> fit.probability([0.9, 0.2], [0.2, 0.9]).round(3)
    array([0.998, 0.002])
    """

    sigma: float | Literal["auto"] = 1 / 44
    grid_size: int = 20
    prior: float = 1e-3
    sigma_along: float | Literal["auto"] | None = None

    def __post_init__(self) -> None:
        for name, value in (("sigma", self.sigma), ("sigma_along", self.sigma_along)):
            absent = name == "sigma_along" and value is None
            if value != "auto" and not absent and not (isinstance(value, Real) and 0 < value < np.inf):
                raise ValueError(f"{name} must be a positive number or auto; found {value}")
        if int(self.grid_size) != self.grid_size or self.grid_size < 2:
            raise ValueError(f"grid_size must be a whole number, at least 2; found {self.grid_size}")
        if not (np.isfinite(self.prior) and self.prior > 0):
            raise ValueError(f"prior must be a positive number of votes; found {self.prior}")
        object.__setattr__(self, "grid_size", int(self.grid_size))  # numpy's integers cannot be saved as settings

    @overload
    def fit(self, table: Pairs, *, uniform: Uniform | None = None) -> DensityCurve: ...
    @overload
    def fit(self, table: Triplets, *, uniform: Uniform | None = None) -> DensityFit: ...
    @overload
    def fit(self, table: Rows, *, uniform: Uniform | None = None) -> DensityFit | DensityCurve: ...
    def fit(self, table: Rows | Pairs, *, uniform: Uniform | None = None) -> DensityFit | DensityCurve:
        """Fit P to a table with one distance; `uniform` is the map to use instead of one learnt from the table."""
        if isinstance(table, Pairs):
            from twoafc.estimators.density_curve import fit_density

            return fit_density(self, table)
        if uniform is None:
            uniform, u0, u1 = table.uniformised()
        else:
            u0, u1 = (uniform(d) for d in table.columns)
        data = (u0, u1, table.n, table.M)
        chosen = self if self._settled else self._chosen(table, data)
        width, size, count = chosen.width, chosen.grid_size, table.count
        sums = kernel_sums(*data, width=width, grid_size=size, count=count)
        return DensityFit(chosen, uniform, sums, squared_sums(*data, width=width, grid_size=size, count=count))

    @property
    def _settled(self) -> bool:
        return "auto" not in (self.sigma, self.sigma_along)

    def _chosen(self, table: Rows, data: tuple[FloatArray, FloatArray, IntArray, IntArray]) -> Density:
        """Put widths in the place of auto, for a table whose columns are (u0, u1, n, M)."""
        asked = (self.sigma, self.sigma_along)
        clusters = clusters_of(table)
        if clusters is None:
            width = choose_width(*data, None, asked=asked, prior=self.prior, count=table.count)
        else:
            (u0, u1, n, M), (unit, row, times) = data, clusters
            rows = (u0[row], u1[row], n[row], M[row])
            width = choose_width(*rows, unit, asked=asked, prior=self.prior, count=times)
        along = None if self.sigma_along is None else width.along
        size = max(self.grid_size, ceil(1.5 / min(width)))
        return replace(self, sigma=width.across, sigma_along=along, grid_size=size)

    @property
    def width(self) -> Width:
        """The kernel's widths, of settings without auto."""
        return Width(float(self.sigma), float(self.sigma if self.sigma_along is None else self.sigma_along))


@dataclass(frozen=True, eq=False)
class DensityFit:
    """A fitted surface: P = (sum of n K + prior / 2) / (sum of M K + prior) over triplets and their mirrors."""

    settings: Density
    uniform: Uniform
    sums: Sums
    squared_sums: SquaredSums
    carried: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def probability(self, d0: ArrayLike, d1: ArrayLike) -> FloatArray:
        """Chance that x1 is chosen, for distances of any shape; P(d0, d1) + P(d1, d0) = 1."""
        excess = interpolate(self._excess, self.uniform(d0), self.uniform(d1))
        return np.clip(0.5 + excess, 0.0, 1.0)

    def standard_error(self, d0: ArrayLike, d1: ArrayLike) -> FloatArray:
        """Give the standard error of P: of its noise, not of the bias that smoothing brings.

        It comes from the spread of the votes between triplets (a sandwich), and is no smaller than that of independent
        votes. It is 0 where d0 = d1, since P = 1/2 there by symmetry, and rises to that of a uniform guess, 0.29, where
        there is no data.
        """
        d0, d1 = np.asarray(d0, dtype=np.float64), np.asarray(d1, dtype=np.float64)
        u0, u1 = self.uniform(d0), self.uniform(d1)
        observed, binomial = (interpolated_variance(each, u0, u1) for each in self._covariances)
        share = interpolate(self.settings.prior / (self.sums.M + self.settings.prior), u0, u1)
        variance = np.maximum(observed, binomial) + share**2 * GUESS
        # Beyond the training distances on one side, P is 1/2 for want of a better guess.
        variance = np.where(u0 == u1, GUESS, variance)
        return np.sqrt(np.where(d0 == d1, 0.0, variance))

    @property
    def surface(self) -> FloatArray:
        """P at the nodes, shape (G, G): row i has u0 = i / (G - 1), column j has u1 = j / (G - 1)."""
        return np.clip(0.5 + self._excess, 0.0, 1.0)

    @property
    def log_likelihood(self) -> FloatArray:
        """Local log-likelihood L(d0, d1) at the nodes (appendix C), shape (G, G); NaN where there is no data."""
        N, D, K, C = self.sums
        P = self.surface
        total = C + xlogy(N, P) + xlogy(np.maximum(D - N, 0.0), 1 - P)
        return np.divide(total, K, out=np.full_like(K, np.nan), where=self.settings.prior < D)

    @property
    def plane_log_likelihood(self) -> tuple[float, float]:
        """Average of the local log-likelihood over the nodes that have data: evenly, and by the density of triplets."""
        local, K = self.log_likelihood, self.sums.triplets
        known = np.isfinite(local)
        if not known.any():
            return float("nan"), float("nan")
        return float(local[known].mean()), float(np.average(local[known], weights=K[known]))

    @cached_property
    def _excess(self) -> FloatArray:
        """P - 1/2 at the nodes, antisymmetric to the last bit: the mirrored sum of n K is its transpose."""
        N, D, _, _ = self.sums
        return np.asarray((N - N.T) / (2 * (D + self.settings.prior)))

    @cached_property
    def _covariances(self) -> tuple[dict[Offset, FloatArray], dict[Offset, FloatArray]]:
        """Covariances of P at neighbouring nodes: as observed, and as binomial."""
        P, D, width = 0.5 + self._excess, self.sums.M + self.settings.prior, self.settings.width
        kinds = (observed_covariance, binomial_covariance)
        observed, binomial = (
            {offset: kind(P, D, self.squared_sums, width=width, offset=offset) for offset in NEIGHBOURS}
            for kind in kinds
        )
        return observed, binomial

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that a saved model holds."""
        return {
            **self.uniform.arrays(),
            "sums": np.stack(self.sums),
            "squared_sums": np.stack(self.squared_sums),
            **self.carried,
        }

    @classmethod
    def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> DensityFit:
        """Build a fit from the settings and arrays of a saved model, checking all of them."""
        density = Density(**settings)
        if "auto" in (density.sigma, density.sigma_along):
            raise DataError("a fitted model has a sigma of its own; that of the model is auto")
        G = density.grid_size
        for name, shape in {"sums": (4, G, G), "squared_sums": (4, 2 * G - 1, 2 * G - 1)}.items():
            array = arrays[name]
            if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
                raise DataError(f"{name} must be finite numbers of shape {shape}; found {array.dtype} {array.shape}")
        N, D, _, _ = sums = Sums(*arrays["sums"])
        slack = 1e-9 * (1 + D.max())
        if (arrays["sums"] < -slack).any() or (arrays["squared_sums"] < -slack).any():
            raise DataError("sums over votes must not be negative; those of the model are")
        if (abs(N + N.T - D) > slack).any() or (D != D.T).any():
            raise DataError("sums of votes must be symmetric; those of the model are not")
        return cls(density, Uniform.restore(arrays), sums, SquaredSums(*arrays["squared_sums"]))

    def save(self, path: str | Path) -> None:
        """Write the model; `twoafc.load` reads it."""
        save_archive(path, "density", asdict(self.settings), self.arrays())
