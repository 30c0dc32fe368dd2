"""A table cut into folds for cross-validation, by reference where references are known."""

from __future__ import annotations

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
    if key in table.labels.columns and table.labels[key].n_unique() == len(table):
        return None
    unit = split_units(table)
    return unit if unit.max() + 1 < len(unit) else None


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
    sizes = np.bincount(unit)
    if not 2 <= folds <= len(sizes):
        what = {table.row: f"{table.row}s", "ref": "references"}.get(split_key(table), "sets of linked references")
        raise DataError(f"folds must lie between 2 and the number of {what}, {len(sizes)}; found {folds}")
    order = np.random.default_rng(seed).permutation(len(sizes))
    # The largest references first, each to the smallest fold; the shuffle decides among equals.
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold, filled = np.empty(len(sizes), dtype=np.int64), np.zeros(folds, dtype=np.int64)
    for place in order:
        fold[place] = np.argmin(filled)
        filled[fold[place]] += sizes[place]
    return fold[unit]
