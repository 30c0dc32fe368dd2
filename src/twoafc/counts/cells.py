"""The tables inside counts: their columns, and how rows of one key are added up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.arrays import IntArray
from twoafc.core import blocks_of
from twoafc.counts.lattice import Lattice

Key = Mapping[str, type[pl.DataType]]
Spans = Mapping[str, tuple[int, int]]
"""The least and the greatest number in each column of a key."""
KEY: Key = {"group": pl.Int32, "bin0": pl.Int32, "bin1": pl.Int32, "sign": pl.Int8, "n": pl.Int32, "M": pl.Int32}
CLUSTER_KEY: Key = {"ref": pl.UInt64, **KEY}
CLUSTER_TIMES = 4
"""How many bins of the lattice one bin of the table by reference takes in."""


def cluster_lattice(lattice: Lattice) -> Lattice:
    """Give the bins of the table by reference that goes with counts on a lattice.

    Examples
    --------
    >>> cluster_lattice(Lattice(128))
    Lattice(per_octave=32)
    """
    return lattice.coarser(min(CLUSTER_TIMES, lattice.per_octave))


def widened(frame: pl.DataFrame, old: Lattice, new: Lattice) -> pl.DataFrame:
    """Change the bins of one lattice to those of a coarser one."""
    times = old.per_octave // new.per_octave
    bins = {name: pl.Series(old.merged(frame[name].to_numpy(), times)) for name in ("bin0", "bin1")}
    return frame.with_columns(**bins)


def gathered(key: Key, *frames: pl.DataFrame) -> pl.DataFrame:
    """Add up rows with one key; each key once, in order, in columns of fixed types.

    Examples
    --------
    >>> key = {"n": pl.Int64, "M": pl.Int64}
    >>> gathered(key, pl.DataFrame({"n": [1, 0, 1], "M": [2, 2, 2], "count": [1, 1, 3]})).rows()
    [(0, 2, 1), (1, 2, 4)]
    """
    kinds: Key = {**key, "count": pl.Int64}
    typed = [frame.select(pl.col(name).cast(kind) for name, kind in kinds.items()) for frame in frames if len(frame)]
    if not typed:
        return pl.DataFrame(schema=dict(kinds))
    rows = pl.concat(typed)
    spans = {name: _ends([rows], name) for name in key if name != "ref"}
    if not fits(spans):
        return rows.group_by(list(key)).agg(pl.col("count").sum()).sort(list(key))
    # One number for the key: grouped and sorted many times quicker than as many columns.
    if "ref" in key:
        keyed = rows.with_columns(pl.Series("key", _codes(rows, spans))).group_by("ref", "key", maintain_order=True)
        summed = keyed.agg(pl.col(*spans).first(), pl.col("count").sum())
        return summed.sort("ref", "key").select(*key, "count")
    return rows if len(typed) == 1 and _in_order(rows, spans) else _sorted(rows, _codes(rows, spans))


def coded(*frames: pl.DataFrame) -> list[IntArray]:
    """Give every row of some frames a number that is the same for the same key, references aside.

    Examples
    --------
    >>> rows = pl.DataFrame({"group": 0, "bin0": [7, 5], "bin1": 5, "sign": 1, "n": [2, 1], "M": 2})
    >>> coded(rows, rows[:1])
    [array([5, 0]), array([5])]
    """
    spans = {name: _ends(frames, name) for name in KEY}
    if fits(spans):
        return [_codes(frame, spans) for frame in frames]
    rows = np.concatenate([frame.select(KEY).to_numpy() for frame in frames])
    number = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return np.split(number, np.cumsum([len(frame) for frame in frames])[:-1])


def fits(spans: Spans) -> bool:
    """Whether every key is a number of its own."""
    return math.prod(most - least + 1 for least, most in spans.values()) < 2**63


def numbers_of(columns: Mapping[str, NDArray[Any]], spans: Spans) -> IntArray:
    """Give each key as one number; numbers are in the order of the keys.

    Examples
    --------
    >>> numbers_of({"sign": np.array([-1, 1]), "n": np.array([2, 0])}, {"sign": (-1, 1), "n": (0, 2)})
    array([2, 6])
    """
    number = np.zeros(len(next(iter(columns.values()))), dtype=np.int64)
    for name, (least, most) in spans.items():
        if most > least:
            number *= most - least + 1
            number += columns[name]
            number -= least
    return number


def _ends(frames: Sequence[pl.DataFrame], name: str) -> tuple[int, int]:
    ends = [frame.select(least=pl.col(name).min(), most=pl.col(name).max()).row(0) for frame in frames]
    return min(least for least, _ in ends), max(most for _, most in ends)


def _in_blocks(frame: pl.DataFrame, spans: Spans) -> Iterator[IntArray]:
    # One that is the same everywhere may not be laid out in memory yet.
    varying = [name for name, (least, most) in spans.items() if most > least] or [*spans][:1]
    columns = {name: frame[name].to_numpy() for name in varying}
    for some in blocks_of(len(frame)):
        yield numbers_of({name: column[some] for name, column in columns.items()}, spans)


def _codes(frame: pl.DataFrame, spans: Spans) -> IntArray:
    return np.concatenate([*_in_blocks(frame, spans)])


def _in_order(frame: pl.DataFrame, spans: Spans) -> bool:
    """Whether each key stands once, in order."""
    last = -1
    for code in _in_blocks(frame, spans):
        if code[0] <= last or not (code[1:] > code[:-1]).all():
            return False
        last = code[-1]
    return True


def _sorted(frame: pl.DataFrame, code: IntArray) -> pl.DataFrame:
    """Put rows in the order of their codes, those of one code added up."""
    order = np.argsort(code, kind="stable")  # next to no time where most rows are in order
    code = code[order]
    first = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]]))
    count = np.add.reduceat(frame["count"].to_numpy()[order], first)
    return frame[order[first]].with_columns(pl.Series("count", count))
