"""Triplets and references that occur twice, in one table or in both."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import IntArray
from twoafc.diagnostics.finding import Finding, listed, share_of
from twoafc.diagnostics.keys import accident, accident_between, by_distances, by_names, hashed, mixed
from twoafc.diagnostics.view import View
from twoafc.table import Triplets


def overlap(train: View, test: View) -> list[Finding]:
    """Find what train and test share."""
    found = _shared_triplets(train, test)
    # Names that do not tell triplets apart do not tell references apart either.
    return found if any(each.code == "names" for each in found) else found + _shared_references(train.table, test.table)


def duplicates(view: View) -> list[Finding]:
    """Find triplets that several rows of one table hold."""
    table = view.table
    named = by_names(table)
    rows = named or by_distances(table, list(table.distances))
    # Groups may name their images alike, and observers judge the same triplets.
    extra = [name for name in ("group", "observer") if named and name in table.labels.columns]
    keys = mixed([rows.keys, *(hashed(table, name) for name in extra)])
    _, first, group, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    repeats = len(table) - len(times)
    if repeats == 0 or (named is None and accident(view, rows, times)):
        return []
    lead = first[group]
    later = np.flatnonzero(lead != np.arange(len(table)))
    same = _same_distances(table, later, table, lead[later])
    if named and same.mean() < 0.5:
        return [_unlike(view.role, repeats, float(same.mean()), _example(table, later[0]))]
    n = np.where(rows.one == rows.one[lead], table.n, table.M - table.n)
    copied = int(((n == table.n[lead]) & (table.M[lead] == table.M))[later].sum())
    by = "names" if named else "distances, all of them equal"
    return [
        Finding(
            "duplicates",
            "warning",
            view.role,
            None,
            "one row per triplet; some triplets stand in several rows",
            f"{share_of(repeats, len(table))} rows repeat an earlier one by their {by}, {copied} of them with the same "
            f"n and M; first in row {later[0]}{_example(table, later[0])}",
            "drop rows copied by mistake, and add up n and M of rows that are further votes: the errors of all scores "
            "count every row as a triplet of its own",
        )
    ]


def _shared_triplets(train: View, test: View) -> list[Finding]:
    a, b = by_names(train.table), by_names(test.table)
    shared = [name for name in test.table.distances if name in train.table.distances]
    named = a is not None and b is not None
    if a is None or b is None:
        if not shared:
            return []
        a, b = (by_distances(view.table, shared) for view in (train, test))
    distinct, first = np.unique(a.keys, return_index=True)
    keys = b.keys
    place = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
    both = np.flatnonzero(distinct[place] == keys)
    if len(both) == 0 or (not named and accident_between(train, a, b, len(both))):
        return []
    if named and shared:
        same = _same_distances(test.table, both, train.table, first[place[both]])
        if same.mean() < 0.5:
            return [_unlike("both", len(both), float(same.mean()), _example(test.table, both[0]))]
    by = "names" if named else "distances, all of them equal"
    return [
        Finding(
            "shared_triplets",
            "warning",
            "both",
            None,
            "test triplets must be new; some stand in the training table too",
            f"{share_of(len(both), len(test.table))} test rows are in train by their {by}; first in test row "
            f"{both[0]}{_example(test.table, both[0])}",
            "take them out of one of the two: scores on triplets that the fit has seen are too good",
        )
    ]


def _shared_references(train: Triplets, test: Triplets) -> list[Finding]:
    known, asked = (_references(table) for table in (train, test))
    if known is None or asked is None:
        return []
    met = asked.filter(asked.is_in(known.implode()))
    if met.is_empty():
        return []
    shared = met.unique().sort().to_list()
    of = f"{len(shared)} of {asked.n_unique()} references of test are in train ({listed(shared, 3)})"
    return [
        Finding(
            "shared_references",
            "note",
            "both",
            None,
            "train and test share references: a narrow kernel can remember stimuli",
            f"{of}, in {share_of(len(met), len(asked))} {'rows' if len(asked) == len(test) else 'pairs'}",
            "the scores hold for new triplets of these references; for new references split by reference "
            "(one table: --folds does so)",
        )
    ]


def _references(table: Triplets) -> pl.Series | None:
    """The reference of each row, for quadruples of each pair."""
    columns = [name for name in ("ref", "ref0", "ref1") if name in table.labels.columns]
    return pl.concat([table.labels[name].alias("ref") for name in columns]) if columns else None


def _unlike(role: str, rows: int, same: float, example: str) -> Finding:
    return Finding(
        "names",
        "note",
        role,
        None,
        "the names of images should tell triplets apart; rows with the same names have other distances",
        f"{rows} rows repeat the names of another, {100 * same:.0f} % of them its distances{example}",
        "give every image a name of its own (with its folder), or find out which rows are out of order",
    )


def _example(table: Triplets, row: int) -> str:
    names = [name for name in ("ref", "ref0", "x0", "ref1", "x1") if name in table.labels.columns]
    return f" ({', '.join(table.labels[name][int(row)] for name in names)})" if names else ""


def _same_distances(table: Triplets, rows: IntArray, other: Triplets, others: IntArray) -> NDArray[np.bool_]:
    """Whether rows have the distances of their partners, whichever way round, in at least one of the distances."""
    same = np.zeros(len(rows), dtype=np.bool_)
    for name in table.distances:
        if name not in other.distances:
            continue
        a = np.sort([d[rows] for d in table.distances[name]], axis=0)
        b = np.sort([d[others] for d in other.distances[name]], axis=0)
        same |= (np.abs(a - b) <= 1e-3 * np.abs(a) + 1e-9).all(axis=0)
    return same
