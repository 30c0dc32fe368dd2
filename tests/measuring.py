"""Data sets of file names, for tests of measuring."""

from __future__ import annotations

import signal
from pathlib import Path

import polars as pl
from hypothesis import strategies as st

from twoafc.datasets import Dataset

TRIED, TWICE = 1 + 1, 4 + 4
"""Items on which a user's distance is tried before a run, in two processes; and those that are measured twice in it."""
SELF = 1
"""Calls with a reference and itself, before a run."""
ROLES = {3: ("ref", "x0", "x1"), 4: ("ref0", "x0", "ref1", "x1"), 2: ("ref", "x")}


class Interrupt:
    """Progress that is interrupted after so many items."""

    def __init__(self, after: int = 8) -> None:
        self.after, self.done = after, list[int]()

    def __call__(self, done: int, *_: object) -> None:
        self.done.append(done)
        if done == self.after:
            signal.raise_signal(signal.SIGINT)


def dataset(rows: list[tuple[str, ...]]) -> Dataset:
    roles = ROLES[len(rows[0])]
    files = {role: pl.Series(role, [row[place] for row in rows]) for place, role in enumerate(roles)}
    names = pl.Series("triplet", [f"row {number}" for number in range(len(rows))])
    votes = {"n": pl.Series([1] * len(rows)), "M": pl.Series([2] * len(rows))}
    return Dataset("table", Path("folder"), roles, files, pl.DataFrame({"triplet": names, **files, **votes}))


def some_rows() -> st.SearchStrategy[list[tuple[str, ...]]]:
    return st.sampled_from([2, 3, 4]).flatmap(
        lambda width: st.lists(st.tuples(*[st.sampled_from("abcdef")] * width), min_size=1, max_size=30)
    )
