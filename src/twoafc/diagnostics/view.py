"""A table as the checks look at it: the ranks of its distances, their relation to the votes and to each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twoafc.arrays import FloatArray, IntArray
from twoafc.core import Uniform, uniformise
from twoafc.diagnostics.relation import Relation, relate
from twoafc.table import Triplets, repeated_units

QUANTILES = 1024
MOSTLY_ONE = 0.9
"""Share of one value that makes a distance as good as constant."""
LITTLE_SPREAD = 0.01
"""Of the middle 98 % of the values against their median; d(x, x) = 0, so that a distance varies by more than this."""


@dataclass(frozen=True, eq=False)
class Column:
    """One distance of one table: its distribution, its ranks, and how it relates to the votes."""

    name: str
    d0: FloatArray
    d1: FloatArray
    U: Uniform
    u0: FloatArray
    u1: FloatArray
    relation: Relation

    @cached_property
    def commonest(self) -> tuple[float, float]:
        """The commonest value, and its share of all."""
        times = np.diff(self.U.at_most, prepend=0)
        most = int(np.argmax(times))
        return float(self.U.values[most]), float(times[most] / self.U.at_most[-1])

    @cached_property
    def quantiles(self) -> FloatArray:
        """Evenly spaced quantiles of d0 and d1 together, increasing."""
        places = (np.arange(QUANTILES) + 0.5) / QUANTILES * self.U.at_most[-1]
        return np.asarray(self.U.values[np.searchsorted(self.U.at_most, places)])

    @cached_property
    def still(self) -> str | None:
        """Why the distance is as good as constant; None where it varies enough to relate to votes."""
        value, share = self.commonest
        if share == 1:
            return f"every d0 and d1 is {value:g}"
        if share >= MOSTLY_ONE:
            return f"{100 * share:.1f} % of all d0 and d1 are {value:g}"
        low, middle, high = self.quantiles[[QUANTILES // 100, QUANTILES // 2, -1 - QUANTILES // 100]]
        if high - low < LITTLE_SPREAD * abs(middle):
            return f"98 % of all d0 and d1 lie in {low:.9g}..{high:.9g}"
        return None


@dataclass(frozen=True, eq=False)
class View:
    """A table, its distances, and how their ranks go together across rows: evidence that the votes have no part in.

    Parameters
    ----------
    role : str
        "train" or "test".
    table : Triplets
    columns : dict of Column
    unit : array of int or None
        The reference of each row where they repeat.
    size, side : dict
        Rank correlation of two distances by name: of u0 + u1, how large both are, and of u0 - u1, which is larger.
        A similarity goes against a distance in both, one with d0 and d1 changed over in the second only, and one whose
        rows are shuffled in neither.
    """

    role: str
    table: Triplets
    columns: dict[str, Column]
    unit: IntArray | None
    size: dict[tuple[str, str], float]
    side: dict[tuple[str, str], float]

    @cached_property
    def varying(self) -> dict[str, Column]:
        """The distances that vary."""
        return {name: column for name, column in self.columns.items() if column.still is None}

    def among(self, name: str, rows: NDArray[np.bool_]) -> Relation:
        """Relate a distance to the votes of some rows, by its ranks in the whole table."""
        column, unit = self.columns[name], self.unit
        if unit is not None:
            unit = np.unique(unit[rows], return_inverse=True)[1].astype(np.int64)
        share = self.table.n[rows] / self.table.M[rows]
        return relate(share, column.u0[rows], column.u1[rows], unit)

    def kin(self, name: str, others: list[str]) -> str | None:
        """Name the one of some other distances whose sides go most closely with this one's, or against them."""
        others = [other for other in others if other != name]
        return max(others, key=lambda other: abs(self.side[name, other]), default=None)


def view(role: str, table: Triplets) -> View:
    """Look at a table."""
    share, unit = table.n / table.M, repeated_units(table)
    if unit is not None:
        unit = np.unique(unit, return_inverse=True)[1].astype(np.int64)
    columns = {}
    for name, (d0, d1) in table.distances.items():
        U, u0, u1 = uniformise(d0, d1)
        columns[name] = Column(name, d0, d1, U, u0, u1, relate(share, u0, u1, unit))
    names = list(columns)
    size = _correlations(names, [column.u0 + column.u1 for column in columns.values()])
    side = _correlations(names, [column.u0 - column.u1 for column in columns.values()])
    return View(role, table, columns, unit, size, side)


def _correlations(names: list[str], rows: list[FloatArray]) -> dict[tuple[str, str], float]:
    matrix = np.stack(rows)
    matrix = matrix - matrix.mean(axis=1, keepdims=True)
    length = np.sqrt((matrix**2).sum(axis=1))
    # A constant column goes with none.
    products = matrix @ matrix.T / np.maximum(np.outer(length, length), np.finfo(float).tiny)
    return {(a, b): float(products[i, j]) for i, a in enumerate(names) for j, b in enumerate(names)}
