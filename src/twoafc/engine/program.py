"""Counting as one lazy program, the same for every engine that narwhals knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import polars as pl

from twoafc.counts.lattice import HIGHEST, LOWEST, OCTAVES, Lattice
from twoafc.engine.rules import lawful_counts

FEW = 1024
"""Votes on one triplet that fit into the packed key; with more, n and M are columns of their own."""


def counted(
    frame: Any, d: tuple[str, str], lattice: Lattice, *, by: Sequence[str] = (), packed: bool = True
) -> pl.DataFrame:
    """Count the rows of a lazy frame by bins of d0 and d1, sign, n, M and labels.

    Bins, sign, n and M make one whole number, for engines group by one column much quicker than by five.

    Returns
    -------
    frame with the columns ``bin0, bin1, sign, n, M``, those of `by`, and ``count``; what breaks a rule of the table,
    or does not fit into the packed key, stands under bin0 = -1
    """
    x0, x1 = (nw.col(name).cast(nw.Float64) for name in d)
    bin0, bin1 = bin_of(x0, lattice), bin_of(x1, lattice)
    n, M = nw.col("n").cast(nw.Float64), nw.col("M").cast(nw.Float64)
    sign = nw.when(x0 > x1).then(nw.lit(2)).otherwise(nw.when(x0 < x1).then(nw.lit(0)).otherwise(nw.lit(1)))
    lawful = lawful_counts(n, M) & (bin0 >= 0) & (bin1 >= 0)
    place = (bin0.cast(nw.Int64) * lattice.bins + bin1.cast(nw.Int64)) * 3 + sign.cast(nw.Int64)
    labels = [nw.col(name).cast(nw.String) for name in by]
    if packed:
        pair = n.cast(nw.Int64) * FEW + M.cast(nw.Int64)
        key = nw.when(lawful & (M < FEW)).then(place * FEW**2 + pair).otherwise(nw.lit(-1))
        keyed = frame.select(key.alias("key"), *labels)
        keys = ["key", *by]
    else:
        key = nw.when(lawful).then(place).otherwise(nw.lit(-1))
        keyed = frame.select(key.alias("key"), n.alias("n"), M.alias("M"), *labels)
        keys = ["key", "n", "M", *by]
    found = collected(keyed.group_by(*keys).agg(nw.len().alias("count")))
    return _unpacked(found.with_columns(pl.col("key").fill_null(-1).cast(pl.Int64)), lattice, packed)


def bin_of(x: Any, lattice: Lattice) -> Any:
    """Lattice.index of a column of floats; -1 for what is no distance.

    Bits are out of an engine's reach, but powers of two are exact, and so is all arithmetic with them. Only the
    logarithm is rounded, and that does no harm: just below a power of two, and just above it, the bins of the octave
    before and of the octave after it, carried on, are the same.

    Still a float when it leaves: an engine's cast to a whole number may round, or stop at a NaN.
    """
    inside = x.clip(LOWEST / 2, HIGHEST)
    octave = (inside.log() * (1 / math.log(2))).floor()
    k = octave * lattice.per_octave + ((inside / 2.0**octave - 1) * lattice.per_octave).floor()
    place = (k + (OCTAVES // 2 * lattice.per_octave + 2)).clip(1, lattice.bins - 1)
    # Not x < inf: DuckDB takes that as true for a NaN where the file's statistics tell of finite ends alone.
    positive = nw.when((x > 0) & x.is_finite()).then(place)
    return positive.otherwise(nw.when(x == 0).then(nw.lit(0.0)).otherwise(nw.lit(-1.0)))


def _unpacked(found: pl.DataFrame, lattice: Lattice, packed: bool) -> pl.DataFrame:
    key = pl.col("key")
    lawful = key >= 0
    if packed:
        found = found.with_columns(
            n=(key // FEW) % FEW, M=key % FEW, key=pl.when(lawful).then(key // FEW**2).otherwise(-1)
        )
    bin0, bin1, sign = key // (3 * lattice.bins), key // 3 % lattice.bins, key % 3 - 1
    parts = {name: pl.when(lawful).then(part).otherwise(-1) for name, part in {"bin0": bin0, "bin1": bin1}.items()}
    return found.with_columns(**parts, sign=pl.when(lawful).then(sign).otherwise(0)).drop("key")


def collected(frame: Any) -> pl.DataFrame:
    """Run a lazy frame and give a polars one."""
    native = nw.to_native(frame)
    if isinstance(native, pl.LazyFrame):
        return native.collect(engine="streaming")
    found = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return pl.DataFrame(found.to_polars())
