"""What counting finds in a table: rows of counts, with the names of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from twoafc.table import RESERVED_GROUPS


class Found(NamedTuple):
    """Rows with ``group`` (a number), ``bin0``, ``bin1``, ``sign``, ``n``, ``M`` and ``count``; a key maybe in several.

    What breaks a rule of the table stands under bin0 = -1. `groups` are the names that occur, in order, "" for one that
    is missing; none where the table has no groups.
    """

    rows: pl.DataFrame
    groups: list[str]

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Found:
        """Number the groups of rows that have their names.

        Examples
        --------
        >>> found = Found.of(pl.DataFrame({"group": ["b", "a", None], "count": [1, 2, 1]}))
        >>> found.rows["group"].to_list(), found.groups
        ([2, 1, 0], ['', 'a', 'b'])
        """
        groups = names_of(rows)
        return cls(numbered(rows, groups), groups)

    @property
    def lawful(self) -> bool:
        """Whether no row breaks a rule."""
        return bool((self.rows["bin0"] >= 0).all()) and not {"", *RESERVED_GROUPS} & {*self.groups}


def names_of(*frames: pl.DataFrame) -> list[str]:
    """Names of the groups of some rows, in order, "" for one that is missing."""
    columns = (frame["group"].unique().fill_null("") for frame in frames if "group" in frame.columns)
    return sorted({name for column in columns for name in column})


def numbered(rows: pl.DataFrame, groups: Sequence[str]) -> pl.DataFrame:
    """Give groups their numbers instead of their names; all are 0 where there are none."""
    if not groups:
        return rows.with_columns(group=pl.lit(0, dtype=pl.Int32))
    number = pl.col("group").fill_null("").replace_strict(list(groups), range(len(groups)), return_dtype=pl.Int32)
    return rows.with_columns(number)
