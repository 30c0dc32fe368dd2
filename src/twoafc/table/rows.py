"""What fits and scores ask of a table with one distance: rows that are triplets, or that stand for several alike."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from twoafc.arrays import FloatArray, IntArray

Groups = tuple[list[str], IntArray]
"""Names of the groups in order, and the number of each row's among them."""


class Rows(Protocol):
    """Votes and distances, row by row: one row may stand for several triplets."""

    k: ClassVar[int]
    row: ClassVar[str]

    @property
    def columns(self) -> tuple[FloatArray, ...]:
        """The k columns of the distance, each of shape (T,)."""

    @property
    def n(self) -> IntArray:
        """Votes for x1 on each triplet, shape (T,)."""

    @property
    def M(self) -> IntArray:
        """Votes on each triplet, shape (T,)."""

    @property
    def count(self) -> IntArray | None:
        """Triplets that each row stands for, shape (T,); None where it is one throughout."""

    @property
    def groups(self) -> Groups | None:
        """Groups of the rows; None where the table has none."""

    def uniformised(self) -> tuple[Any, ...]:
        """Map of the distances to [0, 1], and the columns under it."""

    def __len__(self) -> int: ...
