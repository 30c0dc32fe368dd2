"""Counting as one lazy program, the same for every engine that narwhals supports; single votes are merged first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import polars as pl

from twoafc.scale.lattice import BIN_KEY, FINE, HIGHEST, KEY, LOWEST, OCTAVES, REF_KEY, Lattice, summed
from twoafc.table import MOST_VOTES, QUADRUPLE, RESERVED_GROUPS, SAME_DISTANCE, TRIPLET

Pairs = Mapping[str, tuple[str, str]]

TURNED, LEAST = "twoafc_turned", "_twoafc_least"


class Tally(NamedTuple):
    """The result of counting one distance: cells with the names of groups, the fine histogram, and the extremes.

    Rows that break a rule of the table have bin0 = -1. Where references are kept, `ref` is a digest of the name, null
    where there is none.
    """

    cells: pl.DataFrame
    histogram: pl.DataFrame
    ends: tuple[float, float]

    @property
    def lawful(self) -> bool:
        """Whether no row breaks a rule."""
        names = self.cells["group"].unique().to_list() if "group" in self.cells.columns else []
        lost = self.cells["ref"].null_count() if "ref" in self.cells.columns else 0
        return not lost and bool((self.cells["bin0"] >= 0).all()) and not {None, "", *RESERVED_GROUPS} & {*names}

    @property
    def numbered(self) -> tuple[pl.DataFrame, tuple[str, ...]]:
        """The cells by number of the group, in order, each key once, and the names of the groups."""
        key = REF_KEY if "ref" in self.cells.columns else KEY
        if "group" not in self.cells.columns:
            return summed(key, self.cells.with_columns(group=pl.lit(0))), ()
        groups = tuple(sorted(self.cells["group"].unique()))
        number = pl.col("group").replace_strict(groups, range(len(groups)), return_dtype=pl.Int32)
        return summed(key, self.cells.with_columns(number)), groups


def count_by_program(frame: Any, d: tuple[str, str], lattice: Lattice, by: Sequence[str]) -> Tally:
    """Count the rows of a lazy frame by cells and labels, and all distances by fine bins."""
    cells = cells_of(frame.with_columns(nw.col(name).cast(nw.String) for name in by), d, lattice, by)
    pooled = nw.concat([frame.select(nw.col(name).cast(nw.Float64).alias("x")) for name in d])
    fine = pooled.select("x", bin_of(nw.col("x"), FINE).alias("bin")).group_by("bin")
    histogram = collected(
        fine.agg(nw.len().alias("count"), nw.col("x").min().alias("low"), nw.col("x").max().alias("high"))
    )
    histogram = histogram.filter(pl.col("bin") >= 0)
    ends = (float(histogram["low"].min() or 0.0), float(histogram["high"].max() or 0.0))  # type: ignore[arg-type]
    return Tally(cells, summed(BIN_KEY, histogram), ends)


def cells_of(frame: Any, d: tuple[str, str], lattice: Lattice, by: Sequence[str]) -> pl.DataFrame:
    """Count the rows of a lazy frame by bins of d0 and d1, sign, n, M and labels.

    A row that breaks a rule of the table has -1 in place of bins, n and M.
    """
    x0, x1 = (nw.col(name).cast(nw.Float64) for name in d)
    bin0, bin1 = bin_of(x0, lattice), bin_of(x1, lattice)
    n, M = nw.col("n").cast(nw.Float64), nw.col("M").cast(nw.Float64)
    sign = nw.when(x0 > x1).then(nw.lit(2)).otherwise(nw.when(x0 < x1).then(nw.lit(0)).otherwise(nw.lit(1)))
    lawful = is_lawful(n, M) & (bin0 >= 0) & (bin1 >= 0)
    place = (bin0.cast(nw.Int64) * lattice.bins + bin1.cast(nw.Int64)) * 3 + sign.cast(nw.Int64)
    keyed = frame.select(
        nw.when(lawful).then(place).otherwise(nw.lit(-1)).alias("key"), n.alias("n"), M.alias("M"), *by
    )
    cells = collected(keyed.group_by("key", "n", "M", *by).agg(nw.len().alias("count")))
    key, broken = pl.col("key"), pl.col("key").fill_null(-1) < 0
    columns = {"bin0": key // (3 * lattice.bins), "bin1": key // 3 % lattice.bins, "sign": key % 3 - 1}
    columns |= {"n": pl.col("n"), "M": pl.col("M")}
    columns = {name: pl.when(broken).then(-1).otherwise(x).cast(KEY[name]) for name, x in columns.items()}
    return cells.select(*by, pl.col("count").cast(pl.Int64), **columns)


def bin_of(x: Any, lattice: Lattice) -> Any:
    """`Lattice.index` as an expression of an engine, a float; -1 for what is not a distance.

    Engines have no operations on bits, but arithmetic with powers of two is exact. Only the logarithm is rounded, which
    is harmless: next to a power of two the bins of the octaves on both sides, continued, coincide. The bin stays a
    float, since an engine's cast to an integer may round, or fail at a NaN.
    """
    inside = x.clip(LOWEST / 2, HIGHEST)
    octave = (inside.log() * (1 / math.log(2))).floor()
    k = octave * lattice.per_octave + ((inside / 2.0**octave - 1) * lattice.per_octave).floor()
    place = (k + (OCTAVES // 2 * lattice.per_octave + 2)).clip(1, lattice.bins - 1)
    # Not x < inf: to DuckDB that is true for a NaN if the file's statistics have finite ends.
    positive = nw.when((x > 0) & x.is_finite()).then(place)
    return positive.otherwise(nw.when(x == 0).then(nw.lit(0.0)).otherwise(nw.lit(-1.0)))


def collected(frame: Any) -> pl.DataFrame:
    """Run a lazy frame and return a polars one."""
    native = nw.to_native(frame)
    if isinstance(native, pl.LazyFrame):
        return native.collect(engine="streaming")
    return pl.DataFrame(frame.collect().to_polars())


def is_lawful(n: Any, M: Any) -> Any:
    """Whether n and M are valid numbers of votes; null where one of them is."""
    return (n >= 0) & (n <= M) & (M >= 1) & (M <= MOST_VOTES) & (n == n.floor()) & (M.floor() == M)


def broken_counts() -> Any:
    """Whether n and M are not valid numbers of votes."""
    n, M = nw.col("n").cast(nw.Float64), nw.col("M").cast(nw.Float64)
    return n.is_null() | M.is_null() | ~is_lawful(n, M)


def broken_distance(name: str) -> Any:
    """Whether a value is not a distance that can be counted."""
    x = nw.col(name).cast(nw.Float64)
    return x.is_null() | ~((x >= 0) & x.is_finite())


def broken_choice() -> Any:
    """Whether a choice is neither 0 nor 1."""
    choice = nw.col("choice").cast(nw.Float64)
    return choice.is_null() | ~((choice == 0) | (choice == 1))


def broken_name(name: str, reserved: Sequence[str] = ()) -> Any:
    """Whether a name is missing, empty or reserved."""
    return nw.col(name).is_null() | nw.col(name).cast(nw.String).is_in(["", *reserved])


def identifying(columns: Sequence[str]) -> list[str]:
    """Columns that identify the triplet of a vote; none if the table has none."""
    ways = (TRIPLET, QUADRUPLE, ("triplet",))
    return next((list(names) for names in ways if set(names) <= set(columns)), [])


def _described(columns: Sequence[str]) -> list[str]:
    """Columns that do not identify a triplet but must be the same in all its votes: ref, if `triplet` identifies it."""
    return [name for name in ("ref",) if name in columns and name not in identifying(columns)]


def merged_votes(frame: Any, columns: Sequence[str], pairs: Pairs) -> Any:
    """Merge the votes of a lazy frame: columns n, M, the distances, and group and ref where there are any.

    As for tables in memory: votes are swapped so that x0 has the smaller name, and a merged triplet is swapped back if
    most of its votes were shown the other way round. A vote that breaks a rule, or votes on one triplet with different
    distances, give an n outside [0, M], so that counting detects them.
    """
    labels = [name for name in ("group", "ref") if name in columns]
    distances = [name for pair in pairs.values() for name in pair]
    if not identifying(columns):
        n = nw.when(broken_choice()).then(nw.lit(-1.0)).otherwise(nw.col("choice").cast(nw.Float64))
        return frame.select(n.alias("n"), nw.lit(1).alias("M"), *distances, *labels)
    back = 2 * nw.col(TURNED) > nw.col("M")
    n, M = nw.col("n").cast(nw.Float64), nw.col("M").cast(nw.Float64)
    n = nw.when(_alike(pairs, columns)).then(nw.when(back).then(M - n).otherwise(n)).otherwise(nw.lit(-1.0))
    usual = [
        nw.when(back).then(nw.col(there)).otherwise(nw.col(here)).alias(here)
        for pair in pairs.values()
        for here, there in (pair, pair[::-1])
    ]
    return _by_triplet(frame, columns, pairs).select(n.alias("n"), "M", *usual, *labels)


def unlike_votes(frame: Any, columns: Sequence[str], pairs: Pairs) -> str:
    """Describe a triplet whose votes have different distances or references."""
    by = identifying(columns)
    unlike = _by_triplet(frame, columns, pairs).filter(~_alike(pairs, columns))
    row = collected(unlike.sort(*by).head(1)).row(0, named=True)
    triplet = ", ".join(f"{name}={row[name]!r}" for name in by)
    for name in _described(columns):
        if row[name] != row[name + LEAST]:
            return (
                f"votes on one triplet must have the same {name}; {triplet} has {row[name + LEAST]!r} and {row[name]!r}"
            )
    apart = {
        (distance, name): (row[name] - row[name + LEAST]) / max(row[pair[0]], row[pair[1]], 1e-300)
        for distance, pair in pairs.items()
        for name in pair
    }
    distance, name = max(apart, key=lambda key: apart[key])
    least, most = row[name + LEAST], row[name]
    return f"votes on one triplet must have the same distances ({distance}); {triplet} has {least} and {most}"


def _by_triplet(frame: Any, columns: Sequence[str], pairs: Pairs) -> Any:
    """Group votes by triplet, swapped so that x0 has the smaller name: n, M, number of swaps, and the distances."""
    by, described = identifying(columns), _described(columns)
    kept = [name for name in ("group",) if name in columns]
    swapped = _swapped(by)
    turned: dict[str, Any] = {}
    for d0, d1 in pairs.values():
        x0, x1 = nw.col(d0).cast(nw.Float64), nw.col(d1).cast(nw.Float64)
        turned |= {d0: nw.when(swapped).then(x1).otherwise(x0), d1: nw.when(swapped).then(x0).otherwise(x1)}
    items = {name: nw.col(name).cast(nw.String) for name in by}
    for one, other in (("x0", "x1"), ("ref0", "ref1")):
        if one in items and other in items:
            a, b = nw.col(one).cast(nw.String), nw.col(other).cast(nw.String)
            items |= {one: nw.when(swapped).then(b).otherwise(a), other: nw.when(swapped).then(a).otherwise(b)}
    choice = nw.col("choice").cast(nw.Float64)
    vote = nw.when(swapped).then(1 - choice).otherwise(choice)
    # One vote that breaks a rule outweighs all others on its triplet, swapped or not.
    broken = broken_choice()
    for rule in (*map(broken_distance, turned), *map(broken_name, [*by, *kept, *described])):
        broken = broken | rule
    weighed = nw.when(broken).then(nw.lit(-2.0 * MOST_VOTES)).otherwise(vote)
    rows = frame.select(
        weighed.alias("n"),
        nw.when(swapped).then(nw.lit(1)).otherwise(nw.lit(0)).alias(TURNED),
        *(value.alias(name) for name, value in (items | turned).items()),
        *(nw.col(name).cast(nw.String) for name in (*kept, *described)),
    )
    least = [nw.col(name).min().alias(f"{name}{LEAST}") for name in (*turned, *described)]
    most = [nw.col(name).max() for name in (*turned, *described)]
    sums = [nw.col(name).sum() for name in ("n", TURNED)]
    return rows.group_by(*by, *kept).agg(*sums, nw.len().alias("M"), *least, *most)


def _alike(pairs: Pairs, columns: Sequence[str]) -> Any:
    """Whether all votes on a triplet have the same distances, up to rounding, and the same reference."""
    alike = nw.lit(True)
    for name in _described(columns):
        alike = alike & (nw.col(name) == nw.col(f"{name}{LEAST}"))
    for pair in pairs.values():
        d0, d1 = (nw.col(name) for name in pair)
        largest = nw.when(d0 > d1).then(d0).otherwise(d1)
        for name in pair:
            alike = alike & (nw.col(name) - nw.col(f"{name}{LEAST}") <= SAME_DISTANCE * largest)
    return alike


def _swapped(by: Sequence[str]) -> Any:
    """Whether the names of a vote's two images, or pairs of images, are in descending order."""
    if "x0" not in by:
        return nw.lit(False)
    x0, x1 = nw.col("x0").cast(nw.String), nw.col("x1").cast(nw.String)
    if "ref0" not in by:
        return x0 > x1
    ref0, ref1 = nw.col("ref0").cast(nw.String), nw.col("ref1").cast(nw.String)
    return (ref0 > ref1) | ((ref0 == ref1) & (x0 > x1))
