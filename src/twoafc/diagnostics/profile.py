"""A table as the checks see it: ranks of its distances, and their relation to the votes and to each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.special import fdtrc, stdtr

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.core import Uniform, uniformise
from twoafc.inference import clustering_of, holm, p_value
from twoafc.table import Votes, repeated_units

QUANTILES = 1024
ONE_VALUE = 0.9  # share of one value from which a distance counts as constant
MIN_SPREAD = 0.01
"""Least range of the middle 98 % relative to the median; since d(x, x) = 0, a distance varies by more than this."""
ONE_SIDED = 0.95  # share of the votes for one side from which the other hardly occurs
MIN_UNITS = 20
"""With fewer references their spread is not known: rows count as independent, and effects must be large."""


@dataclass(frozen=True)
class Relation:
    """2AFC score of a distance, without a fit, and the p-value of the votes if they were unrelated to the distance."""

    score: float  # in per cent, as its error and the effect are
    se: float
    low: float  # probability of a score so low at a true 50 %
    high: float  # and of one so high
    effect: float  # score minus that of the same votes shuffled, which is above 50 % where x1 is usually better
    effect_se: float
    p: float  # of the votes if they were unrelated to any of five antisymmetric functions of the ranks
    units: int  # rows, or references where these repeat and are not too few; of weighted rows, in effect
    coarse: bool  # whether references repeat but are too few, so that rows counted as independent

    @property
    def smallest(self) -> float:
        """Smallest plausible absolute effect, in per cent."""
        return max(0.0, abs(self.effect) - 2.33 * self.effect_se)

    @property
    def largest(self) -> float:
        """Largest plausible absolute effect, in per cent."""
        return abs(self.effect) + 2.33 * self.effect_se


def relate(
    share: FloatArray, u0: FloatArray, u1: FloatArray, unit: IntArray | None, weight: FloatArray | None = None
) -> Relation:
    """Relate votes, the share n / M of each row, to the ranks of a distance; ``unit`` numbers repeated references."""
    coarse = unit is not None and int(unit.max()) + 1 < MIN_UNITS
    if coarse:
        unit = None
    difference, total = u0 - u1, u0 + u1 - 1
    side = np.sign(difference)
    units = len(share) if unit is None else int(unit.max()) + 1
    rows, own = float(len(share)), np.ones(len(share)) if weight is None else weight * (len(share) / weight.sum())
    if weight is not None:
        (of_units,) = _sums(own[None], unit)
        # Effective numbers, after Kish.
        rows, units = float(own.sum() ** 2 / (own @ own)), int(of_units.sum() ** 2 / (of_units @ of_units))
    (score, se), least_se = _mean(side * (share - 0.5), unit, own), least_error(rows)
    t = score / max(se, least_se)
    others = (difference, difference * total, difference * (difference * difference), difference * (total * total))
    features = np.stack([side, *others])
    features -= np.average(features, axis=1, weights=weight)[:, None]
    features *= share - np.average(share, weights=weight)
    effect, effect_se = _mean(features[0], unit, own)
    return Relation(
        score=50 + 100 * score,
        se=100 * se,
        low=float(stdtr(units - 1, t)) if units > 1 else 1.0,
        high=float(stdtr(units - 1, -t)) if units > 1 else 1.0,
        effect=100 * effect,
        effect_se=100 * max(effect_se, least_se),
        p=_hotelling(features * own, unit),
        units=units,
        coarse=coarse,
    )


def least_error(rows: float) -> float:
    """Least standard error of a share: unanimous votes show no spread, and the next vote could still differ."""
    return float(0.15 / np.sqrt(rows))


def _sums(values: FloatArray, unit: IntArray | None) -> FloatArray:
    """Sum each row of values within units."""
    return values if unit is None else np.stack([np.bincount(unit, weights=row) for row in values])


def _mean(values: FloatArray, unit: IntArray | None, own: FloatArray) -> tuple[float, float]:
    """Mean, and its standard error over units, with weights that are 1 on average."""
    mean = (values * own).mean()
    (sums,) = _sums(((values - mean) * own)[None], unit)
    return float(mean), float(np.sqrt(len(sums) / max(len(sums) - 1, 1) * (sums * sums).sum()) / len(values))


def _hotelling(features: FloatArray, unit: IntArray | None) -> float:
    """p-value of Hotelling's test that all rows of features have mean zero, over units."""
    sums = _sums(features, unit)
    groups = sums.shape[1]
    total, scatter = sums.sum(axis=1), sums @ sums.T
    # With few distinct distances some of the functions coincide.
    scale = np.sqrt(np.maximum(np.diag(scatter), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(scatter / np.outer(scale, scale))
    regular = values > 1e-9
    rank = int(regular.sum())
    if rank == 0 or groups <= 2 * rank:
        return 1.0
    projection = vectors[:, regular].T @ (total / scale)
    ratio = float((projection**2 / values[regular]).sum()) / groups
    # `scatter` is about zero, not about the mean: this is Hotelling's statistic in those terms.
    statistic = ratio / max(1 - ratio, 1e-300) * (groups - rank) / rank
    return float(fdtrc(rank, groups - rank, statistic))


@dataclass(frozen=True, eq=False)
class Column:
    """One distance of a table, its distribution and its ranks; `d` and `u` have k arrays each: d0 and d1, or d.

    ``weighted`` is its distribution by the sampling weights of the rows.
    """

    d: tuple[FloatArray, ...]
    u: tuple[FloatArray, ...]
    uniform: Uniform
    weighted: Uniform

    @cached_property
    def times(self) -> IntArray:
        """Number of occurrences of each distinct value."""
        return np.asarray(np.diff(self.uniform.at_most, prepend=0))

    @cached_property
    def quantiles(self) -> FloatArray:
        """Evenly spaced quantiles of all values, by weight, increasing."""
        index = (np.arange(QUANTILES) + 0.5) / QUANTILES * self.weighted.at_most[-1]
        return np.asarray(self.weighted.values[np.searchsorted(self.weighted.at_most, index)])

    @cached_property
    def constant(self) -> str | None:
        """Why the distance counts as constant; None where it varies."""
        commonest = int(np.argmax(self.times))
        value, share = float(self.uniform.values[commonest]), float(self.times[commonest] / self.uniform.at_most[-1])
        if share == 1:
            return f"every value is {value:g}"
        if share >= ONE_VALUE:
            return f"{100 * share:.1f} % of all values are {value:g}"
        low, middle, high = self.quantiles[[QUANTILES // 100, QUANTILES // 2, -1 - QUANTILES // 100]]
        if high - low < MIN_SPREAD * abs(middle):
            return f"98 % of all values lie in {low:.9g}..{high:.9g}"
        return None


@dataclass(frozen=True, eq=False)
class Profile:
    """A table, train or test, with the ranks of its distances; ``unit`` numbers references where they repeat."""

    role: str
    table: Votes
    columns: dict[str, Column]
    unit: IntArray | None

    @property
    def effective_rows(self) -> float:
        """Number of rows, in effect; fewer where a few references have many rows."""
        rows = self.table.effective_rows
        return rows if self.unit is None else min(rows, 4 * (int(self.unit.max()) + 1))

    @cached_property
    def varying(self) -> dict[str, Column]:
        """The distances that are not constant."""
        return {name: column for name, column in self.columns.items() if column.constant is None}

    @cached_property
    def one_sided(self) -> str | None:
        """The image, x0 or x1, that has all votes, or nearly all; None where both are chosen."""
        share = self.table.share
        return "x1" if share >= ONE_SIDED else "x0" if share <= 1 - ONE_SIDED else None

    @cached_property
    def relations(self) -> dict[str, Relation]:
        """Relation of each distance to the votes."""
        return {name: self.relation(name, slice(None)) for name in self.columns}

    def relation(self, name: str, rows: BoolArray | slice) -> Relation:
        """Relate a distance to the votes of some rows, by its ranks in the whole table."""
        unit = None if self.unit is None else np.unique(self.unit[rows], return_inverse=True)[1]
        u0, u1 = self.columns[name].u
        weight = None if self.table.weight is None else self.table.weight[rows]
        return relate(self.table.n[rows] / self.table.M[rows], u0[rows], u1[rows], unit, weight)

    @cached_property
    def below_half(self) -> dict[str, float]:
        """p-value of a 2AFC score below 50 %, one-sided, by clustered error, corrected for the number of distances.

        NaN where there are too few references, or rows, to know the error.
        """
        corrected = holm([self._below_half(name) for name in self.varying]).tolist()
        return dict(zip(self.varying, corrected, strict=True))

    def _below_half(self, name: str) -> float:
        relation, table = self.relations[name], self.table
        if relation.units < MIN_UNITS:
            return float("nan")
        if relation.low > 0.05:
            return 1.0  # without clusters, which take time
        clustering, (u0, u1) = clustering_of(table), self.columns[name].u
        side, excess = np.sign(u0 - u1), relation.score / 100 - 0.5
        own, weight = clustering.rows.weights, clustering.rows.shares()
        centre, coefficient = 0.5 + side * excess, side / table.M * own / own.sum()
        error = clustering.linear_errors(coefficient, table.n - table.M * centre, centre, weight)
        se = max(float(error[0]), least_error(table.effective_rows))
        p = p_value(excess, se, float(clustering.units(weight)[0]))
        return p / 2 if np.isfinite(p) else 1.0

    # Correlations of the distances with each other do not depend on the votes. A similarity has negative correlations
    # with a distance in both, a distance with d0 and d1 swapped in the second only; shuffled rows have none.

    @cached_property
    def size(self) -> dict[tuple[str, str], float]:
        """Rank correlation of u0 + u1 between two distances."""
        return self._correlations([np.sum(column.u, axis=0) for column in self.columns.values()])

    @cached_property
    def side(self) -> dict[tuple[str, str], float]:
        """Rank correlation of u0 - u1 between two distances; of u for pairs."""
        return self._correlations([column.u[0] - sum(column.u[1:]) for column in self.columns.values()])

    def _correlations(self, rows: list[FloatArray]) -> dict[tuple[str, str], float]:
        # A constant column correlates with none.
        matrix = np.nan_to_num(np.corrcoef(rows)).ravel()
        return dict(zip(product(self.columns, self.columns), matrix.tolist(), strict=True))


def profile_of(role: str, table: Votes) -> Profile:
    """Rank the distances of a table."""
    columns = {}
    for name, d in table.distances.items():
        uniform, u, _ = uniformise(np.concatenate(d), d[0][:0])
        weighted = uniform if table.weight is None else Uniform.learn(*d, weight=table.scaled_weight)
        columns[name] = Column(d, tuple(np.split(u, len(d))), uniform, weighted)
    unit = repeated_units(table)
    if unit is None and "ref" in table.labels.columns and table.labels["ref"].n_unique() == 1:
        unit = np.zeros(len(table), dtype=np.int64)
    return Profile(role, table, columns, unit)
