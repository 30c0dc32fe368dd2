"""Single votes merged into triplets: repeats of one triplet are one row, shown either way round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.table.rules import Where, refuse

TRIPLET = ("ref", "x0", "x1")
QUADRUPLE = ("ref0", "x0", "ref1", "x1")
PAIR = ("ref", "x")
COMPARED_IMAGES = {
    TRIPLET: (("ref", "x0"), ("ref", "x1")),
    QUADRUPLE: (("ref0", "x0"), ("ref1", "x1")),
    PAIR: (("ref", "x"),),
}
"""By the columns that name the images of a row: the two images between which each distance is."""
SAME_DISTANCE = 1e-9
"""Largest difference between votes on one row, relative to its largest distance: rounding of a repeated measurement."""


def compared_images(columns: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Columns that name the two images of each distance of a table; none where it does not name them all."""
    present = set(columns)
    return next((pairs for names, pairs in COMPARED_IMAGES.items() if present.issuperset(names)), ())


@dataclass(frozen=True, eq=False)
class Merged:
    """Which merged row each vote belongs to, and whether it was shown the other way round.

    ``first``, shape (T,), is the first vote of each merged row that was shown as the row is; its labels are the row's.
    Rows are in the order in which they came.
    """

    first: IntArray
    row: IntArray  # of each vote, shape (votes,)
    swapped: BoolArray  # whether x0 and x1 were shown the other way round than the row has them; never for pairs

    def counted(self, choice: IntArray) -> tuple[IntArray, IntArray]:
        """Return n and M of each row: its votes for x1, or for "same", and all of its votes."""
        T = len(self.first)
        n = np.bincount(self.row, weights=choice ^ self.swapped, minlength=T).astype(np.int64)
        return n, np.bincount(self.row, minlength=T)

    def require_same(self, what: str, values: Sequence[FloatArray], where: Where, row: str) -> None:
        """Refuse votes on one row with different weights, or different distances, whose columns are swapped too."""
        lead = self.first[self.row]
        shown = [np.where(self.swapped, other, column) for column, other in zip(values, values[::-1], strict=True)]

        def text(at: int) -> str:
            listed = ", ".join(str(column[at]) for column in values)
            return f"({listed})" if len(values) > 1 else listed

        rule = f"votes on one {row} must have the same {what}"
        refuse(beyond_rounding(shown, lead), rule, where, lambda at: f"{text(at)}, row {lead[at]} {text(lead[at])}")


def merge_votes(labels: pl.DataFrame, votes: int) -> Merged:
    """Find which of some votes, with their labels, judge the same triplet.

    The images name the row (``ref, x0, x1``, or ``ref0, x0, ref1, x1``, or ``ref, x`` of a pair in either order), else
    the column ``triplet`` or ``pair`` does; groups are separate. A row has the order of x0 and x1 in which most of its
    votes were shown or, of two equally frequent, the one with the smaller name first, so that the order of the votes
    does not matter. Votes that nothing identifies are rows with M = 1.

    Examples
    --------
    >>> shown = pl.DataFrame({"ref": ["r", "r", "s"], "x0": ["a", "b", "a"], "x1": ["b", "a", "b"]})
    >>> merge_votes(shown, 3).row, merge_votes(shown, 3).swapped
    (array([0, 0, 1]), array([False,  True, False]))
    """
    rows = np.arange(votes, dtype=np.int64)
    names = set(labels.columns)
    if set(TRIPLET) <= names:
        shared, one, other = ["ref"], ["x0"], ["x1"]
    elif set(QUADRUPLE) <= names:
        shared, one, other = [], ["ref0", "x0"], ["ref1", "x1"]
    elif set(PAIR) <= names:
        shared, one, other = [], ["ref"], ["x"]
    elif names & {"triplet", "pair"}:
        shared, one, other = [*(names & {"triplet", "pair"})], [], []
    else:
        return Merged(rows, rows, np.zeros(len(rows), dtype=np.bool_))
    if "group" in names:
        shared = [*shared, "group"]
    # A dense number for each shown item, so that an unordered pair is (smaller, larger).
    pairs = pl.concat([_items(labels, one), _items(labels, other)]).rank("dense").to_numpy()
    a, b = pairs[: len(rows)], pairs[len(rows) :]
    keys = {"low": np.minimum(a, b), "high": np.maximum(a, b)} | {name: labels[name] for name in shared}
    shown = pl.DataFrame(keys | {"vote": rows}).with_columns(falling=falling(labels, one, other))
    mostly = shown.with_columns(turned=(2 * pl.col("falling").sum() > pl.len()).over(list(keys)))
    usual = pl.col("vote").filter(pl.col("falling") == pl.col("turned"))
    by_vote = mostly.select(
        "falling", "turned", lead=pl.col("vote").first().over(list(keys)), usual=usual.first().over(list(keys))
    )
    _, place, row = np.unique(by_vote["lead"].to_numpy(), return_index=True, return_inverse=True)
    # The two images of a pair have no sides.
    swapped = (by_vote["falling"] != by_vote["turned"]) & (one != ["ref"])
    return Merged(by_vote["usual"].to_numpy()[place], row, swapped.to_numpy())


def beyond_rounding(values: Sequence[FloatArray], lead: IntArray) -> BoolArray:
    """Return which votes differ from the first on their row, `lead`, where those of a row differ by more than rounding.

    For d0, and for d1, the largest less the smallest of a row's `values` may be `SAME_DISTANCE` of the largest of both.
    """

    def most(x: FloatArray) -> FloatArray:
        largest = np.full(len(x), -np.inf)
        np.maximum.at(largest, lead, x)
        return largest[lead]

    allowed = SAME_DISTANCE * np.max([most(np.abs(x)) for x in values], axis=0)
    spread = np.max([most(x) + most(-x) for x in values], axis=0)
    off = np.max([np.abs(x - x[lead]) for x in values], axis=0)
    return np.asarray((spread > allowed) & (off > allowed / 3))  # if d differs by x, one is x / 2 from the first


def falling(labels: pl.DataFrame, one: Sequence[str], other: Sequence[str]) -> pl.Series:
    """Whether the names of what was shown are in descending order; the first that differ decide."""
    falls, same = pl.lit(False), pl.lit(True)
    for left, right in zip(one, other, strict=True):
        falls, same = falls | (same & (pl.col(left) > pl.col(right))), same & (pl.col(left) == pl.col(right))
    return labels.select(falls.alias("falling") if one else pl.repeat(False, pl.len()).alias("falling")).to_series()


def _items(labels: pl.DataFrame, columns: list[str]) -> pl.Series:
    if not columns:
        return pl.Series("item", [""]).new_from_index(0, len(labels))
    # Lengths in front keep ("a", "bc") and ("ab", "c") apart.
    parts = [pl.concat_str(pl.col(name).str.len_bytes(), pl.lit(":"), pl.col(name)) for name in columns]
    return labels.select(pl.concat_str(*parts).alias("item")).to_series()
