"""Single votes merged into triplets: repeats of one triplet are one row, shown either way round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

TRIPLET = ("ref", "x0", "x1")
QUADRUPLE = ("ref0", "x0", "ref1", "x1")


@dataclass(frozen=True, eq=False)
class Merged:
    """Which merged row each vote belongs to, and whether it was shown the other way round.

    Parameters
    ----------
    first : array of int, shape (T,)
        The vote that came first for each merged row, in order; its orientation and labels are the row's.
    row : array of int, shape (votes,)
        The merged row of each vote.
    swapped : array of bool, shape (votes,)
        True where x0 and x1 were shown the other way round than in the first vote.
    """

    first: NDArray[np.int64]
    row: NDArray[np.int64]
    swapped: NDArray[np.bool_]


def merge(labels: pl.DataFrame, votes: int) -> Merged:
    """Find which of some votes, with their labels, judge the same triplet.

    The images name the triplet (``ref, x0, x1``, or ``ref0, x0, ref1, x1``), else the column ``triplet`` does; groups
    stay apart. Votes that nothing identifies are triplets with M = 1.

    Examples
    --------
    >>> shown = pl.DataFrame({"ref": ["r", "r", "s"], "x0": ["a", "b", "a"], "x1": ["b", "a", "b"]})
    >>> merge(shown, 3).row, merge(shown, 3).swapped
    (array([0, 0, 1]), array([False,  True, False]))
    """
    rows = np.arange(votes, dtype=np.int64)
    names = set(labels.columns)
    if set(TRIPLET) <= names:
        shared, one, other = ["ref"], ["x0"], ["x1"]
    elif set(QUADRUPLE) <= names:
        shared, one, other = [], ["ref0", "x0"], ["ref1", "x1"]
    elif "triplet" in names:
        shared, one, other = ["triplet"], [], []
    else:
        return Merged(rows, rows, np.zeros(len(rows), dtype=np.bool_))
    if "group" in names:
        shared = [*shared, "group"]
    # A dense number for each shown item, so that an unordered pair is (smaller, larger).
    pairs = pl.concat([_items(labels, one), _items(labels, other)]).rank("dense").to_numpy()
    a, b = pairs[: len(rows)], pairs[len(rows) :]
    keys = {"low": np.minimum(a, b), "high": np.maximum(a, b)} | {name: labels[name] for name in shared}
    lead = pl.DataFrame(keys | {"vote": rows}).select(pl.col("vote").first().over(list(keys)))["vote"].to_numpy()
    first, row = np.unique(lead, return_inverse=True)
    return Merged(first, row, a != a[lead])


def _items(labels: pl.DataFrame, columns: list[str]) -> pl.Series:
    if not columns:
        return pl.Series("item", [""]).new_from_index(0, len(labels))
    # Lengths in front keep ("a", "bc") and ("ab", "c") apart.
    parts = [pl.concat_str(pl.col(name).str.len_bytes(), pl.lit(":"), pl.col(name)) for name in columns]
    return labels.select(pl.concat_str(*parts).alias("item")).to_series()
