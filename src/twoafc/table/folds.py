"""A table cut into folds for cross-validation, by reference where references are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from twoafc.arrays import IntArray
from twoafc.errors import DataError
from twoafc.table.votes import Votes


def split_key(table: Votes) -> str:
    """Name what stays together in one fold: whole references, or those of quadruples that share one, or triplets."""
    if {"ref0", "ref1"} <= set(table.labels.columns):
        return "ref0 and ref1"
    return "ref" if "ref" in table.labels.columns else table.row


def split_units(table: Votes) -> IntArray:
    """Number the units that stay together, for each row."""
    key = split_key(table)
    if key != "ref0 and ref1":
        return table.codes(key)[1]
    # Quadruples hang together by any reference that they share, first or second.
    names, codes = np.unique(np.stack([table.labels["ref0"], table.labels["ref1"]]), return_inverse=True)
    ref0, ref1 = codes.reshape(2, -1)
    links = csr_array((np.ones(len(table)), (ref0, ref1)), shape=(len(names), len(names)))
    return np.asarray(connected_components(links, directed=False)[1][ref0], dtype=np.int64)


def repeated_units(table: Votes) -> IntArray | None:
    """Number the units where some hold several rows; None where each row is its own."""
    key = split_key(table)
    rows = len(table) if table.count is None or key == table.row else int(table.count.sum())
    if key in table.labels.columns and table.labels[key].n_unique() == rows:
        return None
    unit = split_units(table)
    return unit if unit.max() + 1 < rows else None


def assign_folds(table: Votes, folds: int, *, seed: int) -> IntArray:
    """Give every row its fold, 0..folds - 1, at random, with whole references in one fold and folds of like size.

    Examples
    --------
    >>> from twoafc.table import Triplets
    >>> table = Triplets.from_frame({"n": [1] * 4, "M": [1] * 4, "d0": range(4), "d1": range(4), "ref": list("aabb")})
    >>> fold = assign_folds(table, 2, seed=0)
    >>> bool(fold[0] == fold[1] != fold[2] == fold[3])
    True
    """
    unit = split_units(table)
    _, unit = np.unique(unit, return_inverse=True)
    sizes = np.bincount(unit, table.count)
    if not 2 <= folds <= len(sizes):
        what = {table.row: f"{table.row}s", "ref": "references"}.get(split_key(table), "sets of linked references")
        raise DataError(f"folds must lie between 2 and the number of {what}, {len(sizes)}; found {folds}")
    order = np.random.default_rng(seed).permutation(len(sizes))
    # The largest references first, each to the smallest fold; the shuffle decides among equals.
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold, filled = np.empty(len(sizes), dtype=np.int64), np.zeros(folds)
    for place in order:
        fold[place] = np.argmin(filled)
        filled[fold[place]] += sizes[place]
    return fold[unit]


def split_rows(table: Votes, folds: int, *, seed: int) -> tuple[Votes, IntArray]:
    """Cut a table into folds; return it with the fold of every row.

    A row that stands for several triplets without a reference becomes one row in each fold that has any of them, which
    is drawn for each of its triplets.

    Examples
    --------
    >>> from twoafc.table import Triplets
    >>> table = Triplets.from_frame({"n": [1, 0], "M": [2, 2], "d0": [1, 2], "d1": [2, 1]})
    >>> counted = replace(table, count=np.array([50, 50]))
    >>> parts, fold = split_rows(counted, 2, seed=0)
    >>> parts.n, fold, parts.count.sum()
    (array([1, 0, 1, 0]), array([0, 0, 1, 1]), np.int64(100))
    """
    if table.count is None or split_key(table) != table.row:
        return table, assign_folds(table, folds, seed=seed)
    total = int(table.count.sum())
    if not 2 <= folds <= total:
        raise DataError(f"folds must lie between 2 and the number of {table.row}s, {total}; found {folds}")
    rng, left, drawn = np.random.default_rng(seed), table.count, []
    for rest in range(folds, 0, -1):
        drawn.append(rng.binomial(left, 1 / rest))
        left = left - drawn[-1]
    fold, row = np.nonzero(np.stack(drawn))
    if len(np.unique(fold)) < folds:
        raise DataError(f"each fold must have {table.row}s; of {total} one of {folds} folds got none: take fewer folds")
    return replace(table.at(row), count=np.stack(drawn)[fold, row]), fold
