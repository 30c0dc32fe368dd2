"""Which triplets go together where rows stand for several: the variance of means over counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twoafc.arrays import FloatArray, IntArray
from twoafc.counted import CountedTriplets
from twoafc.inference.dependence import Dependence

NOT_KEPT = "not clustered: the counts keep no references"


@dataclass(frozen=True, eq=False)
class CountedDependence:
    """Which triplets go together, as `Dependence` says it of rows that are single triplets.

    Parameters
    ----------
    times : array of int, shape (C,)
        Triplets that each row stands for.
    clusters : Dependence or None
        Of the rows; None where each triplet stands alone, those of one row too.
    told : str
        The same in words.

    Examples
    --------
    >>> alone = CountedDependence(np.array([2, 2]), None, NOT_KEPT)
    >>> alone.variance(np.array([[0.25], [-0.25]]), np.full(2, 0.25)).round(4)
    array([[0.3333]])
    """

    times: IntArray
    clusters: Dependence | None
    told: str

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.times)

    @property
    def kinds(self) -> tuple[IntArray, ...]:
        """Number of each row's label of each kind, as in `Dependence`."""
        return () if self.clusters is None else self.clusters.kinds

    def variance(
        self, influence: FloatArray, weight: FloatArray, strata: IntArray | None = None, count: int = 1
    ) -> FloatArray:
        """Variance of weighted means, (count, k), from influence and weight of one triplet of each row."""
        if self.clusters is not None:
            return self.clusters.variance(influence * self.times[:, None], weight * self.times, strata, count)
        with np.errstate(divide="ignore"):
            factor = np.where(weight < 1 - 1e-12, self.times / (1 - weight), np.nan)
        if strata is None:
            return np.asarray(np.einsum("t,tk,tk->k", factor, influence, influence))[None, :]
        return self._sums(factor[:, None] * influence**2, strata, count)

    def own_share(self, weight: FloatArray, strata: IntArray) -> FloatArray:
        """Factor 1 / sqrt(1 - s) of each row, s the share of its stratum that its largest set holds; NaN where all."""
        if self.clusters is not None:
            return self.clusters.own_share(weight * self.times, strata)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(weight < 1 - 1e-12, 1 / np.sqrt(1 - weight), np.nan)

    def skewness(self, influence: FloatArray, strata: IntArray | None = None, count: int = 1) -> FloatArray:
        """Skewness of weighted means, (count, k), from the influence of one triplet of each row."""
        if self.clusters is not None:
            return self.clusters.skewness(influence * self.times[:, None], strata, count)
        variance = self.variance(influence, np.zeros(len(influence)), strata, count)
        # Products, not a power, which numpy takes by way of logarithms.
        cubes = self._sums(self.times[:, None] * influence * influence * influence, strata, count)
        return np.divide(cubes, variance**1.5, out=np.zeros(variance.shape), where=variance > 0)

    def units(self, weight: FloatArray, strata: IntArray | None = None, count: int = 1) -> FloatArray:
        """Effective number of independent units in each stratum, (count,), from the weight of one triplet."""
        if self.clusters is not None:
            return self.clusters.units(weight * self.times, strata, count)
        squares = self._sums((self.times * weight**2)[:, None], strata, count)[:, 0]
        return np.asarray(1 / np.maximum(squares, np.finfo(np.float64).tiny))

    def freedom(self, influence: FloatArray, strata: IntArray | None = None, count: int = 1) -> FloatArray:
        """Degrees of freedom of the variance, (count, k): infinite, since references are the one kind there is."""
        return np.full((count, influence.shape[1]), np.inf)

    def at(self, rows: IntArray) -> CountedDependence:
        """The dependence of some of the rows, each once."""
        clusters = None if self.clusters is None else self.clusters.at(rows)
        return CountedDependence(self.times[rows], clusters, self.told)

    def _sums(self, columns: FloatArray, strata: IntArray | None, count: int) -> FloatArray:
        if strata is None:
            return np.asarray(columns.sum(axis=0))[None, :]
        return np.stack([np.bincount(strata, column, minlength=count) for column in columns.T], axis=1)


AnyDependence = Dependence | CountedDependence


def alone(table: CountedTriplets, told: str = NOT_KEPT) -> CountedDependence:
    """Take every triplet of a table of counts to stand alone."""
    return CountedDependence(table.count, None, told)
