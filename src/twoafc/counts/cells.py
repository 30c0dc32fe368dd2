"""The tables inside counts: their columns, and how rows of one key are added up."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from twoafc.counts.lattice import Lattice

Key = Mapping[str, type[pl.DataType]]
KEY: Key = {"group": pl.Int32, "bin0": pl.Int32, "bin1": pl.Int32, "sign": pl.Int8, "n": pl.Int32, "M": pl.Int32}
CLUSTER_KEY: Key = {"ref": pl.UInt64, **KEY}
CLUSTER_TIMES = 16
"""How many bins of the lattice one bin of the table by reference takes in."""


def cluster_lattice(lattice: Lattice) -> Lattice:
    """Give the bins of the table by reference that goes with counts on a lattice.

    Examples
    --------
    >>> cluster_lattice(Lattice(128))
    Lattice(per_octave=8)
    """
    return lattice.coarser(min(CLUSTER_TIMES, lattice.per_octave))


def widened(frame: pl.DataFrame, old: Lattice, new: Lattice) -> pl.DataFrame:
    """Change the bins of one lattice to those of a coarser one."""
    times = old.per_octave // new.per_octave
    bins = {name: pl.Series(old.merged(frame[name].to_numpy(), times)) for name in ("bin0", "bin1")}
    return frame.with_columns(**bins)


def gathered(rows: pl.DataFrame, key: Key) -> pl.DataFrame:
    """Add up rows with one key; each key once, in order, in columns of fixed types.

    Examples
    --------
    >>> key = {"n": pl.Int64, "M": pl.Int64}
    >>> gathered(pl.DataFrame({"n": [1, 0, 1], "M": [2, 2, 2], "count": [1, 1, 3]}), key).rows()
    [(0, 2, 1), (1, 2, 4)]
    """
    typed = rows.select(*(pl.col(name).cast(kind) for name, kind in key.items()), pl.col("count").cast(pl.Int64))
    names = [name for name in key if name != "ref"]
    ends = {name: (typed[name].to_numpy().min(initial=0), typed[name].to_numpy().max(initial=0)) for name in names}
    span = {name: int(most) - int(least) + 1 for name, (least, most) in ends.items()}
    if math.prod(span.values()) >= 2**63:
        return typed.group_by(list(key)).agg(pl.col("count").sum()).sort(list(key))
    # One number for the key: grouped and sorted many times quicker than as many columns.
    packed = np.zeros(len(typed), dtype=np.int64)
    for name in names:
        packed *= span[name]
        packed += typed[name].to_numpy()
        packed -= int(ends[name][0])
    if "ref" in key:
        keyed = typed.with_columns(pl.Series("key", packed)).group_by("ref", "key", maintain_order=True)
        return keyed.agg(pl.col(*names).first(), pl.col("count").sum()).sort("ref", "key").select(*key, "count")
    if (packed[1:] > packed[:-1]).all():
        return typed
    order = np.argsort(packed, kind="stable")  # next to no time where most rows are in order
    packed = packed[order]
    first = np.flatnonzero(np.concatenate([[True], packed[1:] != packed[:-1]]))
    count = np.add.reduceat(typed["count"].to_numpy()[order], first)
    return typed[order[first]].with_columns(pl.Series("count", count))
