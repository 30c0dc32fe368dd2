"""A table cut into folds for cross-validation, by reference where references are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twoafc.errors import DataError
from twoafc.triplets import Triplets


def split_key(table: Triplets) -> str:
    """Name what stays together in one fold: the reference (of a quadruple, its first one), else the single triplet."""
    return next((name for name in ("ref", "ref0") if name in table.labels.columns), "triplet")


def assign(table: Triplets, folds: int, *, seed: int) -> NDArray[np.int64]:
    """Give every row its fold, 0..folds - 1, at random, with whole references in one fold and folds of like size.

    Examples
    --------
    >>> table = Triplets.from_frame({"n": [1] * 4, "M": [1] * 4, "d0": range(4), "d1": range(4), "ref": list("aabb")})
    >>> fold = assign(table, 2, seed=0)
    >>> bool(fold[0] == fold[1] != fold[2] == fold[3])
    True
    """
    key = split_key(table)
    units = np.arange(len(table)) if key == "triplet" else table.codes(key)[1]
    sizes = np.bincount(units)
    if not 2 <= folds <= len(sizes):
        what = "triplets" if key == "triplet" else f"references ({key})"
        raise DataError(f"folds must lie between 2 and the number of {what}, {len(sizes)}; found {folds}")
    order = np.random.default_rng(seed).permutation(len(sizes))
    # The largest references first, each to the smallest fold; the shuffle decides among equals.
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold, filled = np.empty(len(sizes), dtype=np.int64), np.zeros(folds, dtype=np.int64)
    for unit in order:
        fold[unit] = np.argmin(filled)
        filled[fold[unit]] += sizes[unit]
    return fold[units]
