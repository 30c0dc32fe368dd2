"""The rules of a table as expressions for every engine: true of what breaks one, and of what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from twoafc.table import MOST_VOTES


def broken_distance(name: str) -> Any:
    """Tell what is no distance that can be counted."""
    x = nw.col(name).cast(nw.Float64)
    return x.is_null() | ~((x >= 0) & x.is_finite())


def broken_choice() -> Any:
    """Tell a choice that is neither 0 nor 1."""
    choice = nw.col("choice").cast(nw.Float64)
    return choice.is_null() | ~((choice == 0) | (choice == 1))


def broken_counts() -> Any:
    """Tell n and M that are no numbers of votes."""
    n, M = nw.col("n").cast(nw.Float64), nw.col("M").cast(nw.Float64)
    return n.is_null() | M.is_null() | ~lawful_counts(n, M)


def lawful_counts(n: Any, M: Any) -> Any:
    """Tell n of M votes; missing where one of them is."""
    return (n >= 0) & (n <= M) & (M >= 1) & (M <= MOST_VOTES) & (n == n.floor()) & (M.floor() == M)


def broken_name(name: str, reserved: Sequence[str] = ()) -> Any:
    """Tell a name that is missing, empty or reserved."""
    return nw.col(name).is_null() | nw.col(name).cast(nw.String).is_in(["", *reserved])
