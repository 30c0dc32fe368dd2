"""Distances that say little by themselves: constant, nearly so, tied, negative, or given twice."""

from __future__ import annotations

import numpy as np

from twoafc.diagnostics.finding import Finding, share_of
from twoafc.diagnostics.view import Column, View

FEWEST_ROWS = 5
FEWEST_TIES, MANY_TIES, MOST_TIES = 10, 0.1, 0.25
ROUNDING = 1e-4
"""Of the largest value; below zero by less is rounding."""


def values(view: View) -> list[Finding]:
    """Look at the values of each distance alone, then for two that are one."""
    if len(view.table) < FEWEST_ROWS:
        return []
    found: list[Finding] = []
    for column in view.columns.values():
        still = _constant(view, column)
        found += still or [*_fixed_side(view, column), *_ties(view, column)]
        found += _negative(view, column)
    return found + _twins(view)


def _constant(view: View, column: Column) -> list[Finding]:
    if column.still is None:
        return []
    exactly = column.commonest[1] == 1
    return [
        Finding(
            "constant",
            "warning",
            view.role,
            column.name,
            f"a distance must vary; {column.name} is {'constant' if exactly else 'nearly constant'}",
            column.still,
            "measure it again and write all its digits, or leave it out",
        )
    ]


def _fixed_side(view: View, column: Column) -> list[Finding]:
    """One image of the two always as far from its reference: an error at 0, a design (one standard) elsewhere."""
    for side, d in (("0", column.d0), ("1", column.d1)):
        if d[0] == d[-1] and np.ptp(d) == 0:
            zero = d[0] == 0
            return [
                Finding(
                    "constant",
                    "warning" if zero else "note",
                    view.role,
                    column.name,
                    f"d{side} of {column.name} is the same in every row",
                    f"d{side} = {d[0]:g}" + (f": x{side} is the reference itself" if zero else ""),
                    f"check which image d{side} was measured on; leave it if x{side} is one fixed standard",
                )
            ]
    return []


def _ties(view: View, column: Column) -> list[Finding]:
    ties = int((column.d0 == column.d1).sum())
    share = ties / len(view.table)
    # So many that another sample of such rows would have them too.
    if ties < FEWEST_TIES or ties - 2 * np.sqrt(ties) < MANY_TIES * len(view.table):
        return []
    distinct = len(column.U.values)
    return [
        Finding(
            "ties",
            "warning" if share >= MOST_TIES else "note",
            view.role,
            column.name,
            f"{column.name} does not tell x0 from x1 in many rows: d0 = d1",
            f"{share_of(ties, len(view.table))} rows are ties; {distinct} distinct values in {2 * len(view.table)}",
            "write more digits if it was rounded; a tie counts as half a choice in the 2AFC score, and P is 1/2 there",
        )
    ]


def _negative(view: View, column: Column) -> list[Finding]:
    smallest, largest = float(column.U.values[0]), float(np.abs(column.U.values[[0, -1]]).max())
    if smallest >= -ROUNDING * largest:
        return []
    below = int((column.d0 < 0).sum() + (column.d1 < 0).sum())
    return [
        Finding(
            "negative",
            "note",
            view.role,
            column.name,
            f"a distance is at least 0; {column.name} has negative values",
            f"{share_of(below, 2 * len(view.table))} values are below 0, the least is {smallest:g}",
            "check that it is a distance, smaller = closer, and not a similarity, a logarithm or a difference",
        )
    ]


def _twins(view: View) -> list[Finding]:
    found = []
    columns = list(view.columns.values())
    for place, column in enumerate(columns):
        for other in columns[:place]:
            # The rank correlation is at hand, and spares most comparisons.
            alike = abs(view.side[column.name, other.name] - 1) < 1e-9 and column.still is None
            if alike and np.array_equal(column.d0, other.d0) and np.array_equal(column.d1, other.d1):
                found.append(
                    Finding(
                        "twins",
                        "note",
                        view.role,
                        column.name,
                        f"{column.name} and {other.name} are one distance under two names",
                        f"all {len(view.table)} rows are equal",
                        "check that both were measured; leave one out",
                    )
                )
                break
    return found
