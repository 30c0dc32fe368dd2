"""A source, opened: its lazy frame, the columns that counting needs, and the files that it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.counts.lattice import Lattice
from twoafc.counts.stored import TRIPLETS, UNIDENTIFIED, VOTES
from twoafc.engine.bulk import Pairs, Progress, bulk
from twoafc.engine.csv_parts import as_numbers
from twoafc.engine.found import Found
from twoafc.engine.parts import broken_kind, check_alike, find_parts, first_line, is_bare, schemas, size
from twoafc.engine.program import bin_of, collected, counted
from twoafc.engine.single_votes import LEAST, described, identifying, merged_votes, room, unlike_votes
from twoafc.engine.sources import ENGINES, Schemas, polars_frame, spark_selected, spoken
from twoafc.errors import DataError
from twoafc.table import LABELS, distance_columns, says_votes

SAMPLE = 100_000


@dataclass(frozen=True)
class Table:
    """A table of votes and distances, not yet read.

    Parameters
    ----------
    engine : str
        What reads it.
    frame : narwhals.LazyFrame
        Its rows, with the columns that are needed.
    known : mapping of str to str
        Those columns, with their names in the frame.
    pairs : mapping of name to columns
        The distances.
    parts : list of str
        The files; none where a frame was given.
    schemas : mapping of part to its columns
        Of the files that lie here.
    """

    engine: str
    frame: Any
    known: Mapping[str, str]
    pairs: Pairs
    parts: list[str]
    schemas: Schemas

    @property
    def columns(self) -> list[str]:
        """The columns that are needed, by the names that the files give them."""
        return list(self.known)

    @property
    def holds_votes(self) -> bool:
        """Whether rows are single votes."""
        return "choice" in self.columns

    @property
    def kind(self) -> str:
        """What a row is."""
        if not self.holds_votes:
            return TRIPLETS
        return VOTES if identifying(self.columns) else UNIDENTIFIED

    @property
    def in_polars(self) -> bool:
        """Whether the quick way of counting is open: polars, and rows that are triplets already."""
        return isinstance(nw.to_native(self.frame), pl.LazyFrame) and not self.holds_votes

    def rows(self) -> int | None:
        """How many rows there are; None where only reading all of them would tell."""
        return size(self.parts).rows if self.parts else None

    def counted(self, d: tuple[str, str], lattice: Lattice, *, refs: bool = False, packed: bool = True) -> pl.DataFrame:
        """Count one distance by the program that serves every engine."""
        by = [name for name in ("group", "ref") if name in self.columns and (refs or name != "ref")]
        return counted(self._triplets(), (self.known[d[0]], self.known[d[1]]), lattice, by=by, packed=packed)

    def values_within(self, d: tuple[str, str], bins: NDArray[np.int64], lattice: Lattice) -> pl.DataFrame:
        """Give the distances that lie in some bins, each value once: ``x``, and how many ``times``."""
        frame = self._triplets()
        pooled = nw.concat([frame.select(nw.col(self.known[name]).cast(nw.Float64).alias("x")) for name in d])
        placed = pooled.with_columns(bin_of(nw.col("x"), lattice).alias("bin"))
        some = placed.filter(nw.col("bin").is_in(bins.astype(np.float64).tolist()))
        return collected(some.group_by("x").agg(nw.len().alias("times")))

    def unlike(self) -> str:
        """Say which triplet has votes that give it unlike distances or references, and what these are."""
        by, pairs = identifying(self.columns), self._spoken_pairs()
        found = collected(unlike_votes(self.frame, self.columns, pairs).sort(*by).head(1))
        row = found.row(0, named=True)
        ends = {name: (row[name + LEAST], row[name]) for name in row if name + LEAST in row}
        triplet = ", ".join(f"{name}={row[name]!r}" for name in by)
        for name in described(self.columns):
            least, most = ends.pop(name)
            if least != most:
                return f"votes on one triplet must have the same {name}; {triplet} has {least!r} and {most!r}"
        name = max(ends, key=lambda each: (ends[each][1] - ends[each][0]) / room(abs(ends[each][1])))
        distance = next(distance for distance, pair in pairs.items() if name in pair)
        least, most = ends[name]
        return f"votes on one triplet must have the same distances ({distance}); {triplet} has {least} and {most}"

    def _triplets(self) -> Any:
        """The rows, single votes merged into triplets."""
        if not self.holds_votes:
            return self.frame
        return merged_votes(self.frame, self.columns, self._spoken_pairs())

    def _spoken_pairs(self) -> Pairs:
        return {name: (self.known[d0], self.known[d1]) for name, (d0, d1) in self.pairs.items()}

    @property
    def told(self) -> str:
        """The files, or that there are none, in a word or two."""
        return told_parts(self.parts) if self.parts else "the table"

    def blamed(self, rule: str) -> DataError:
        """Make an error of a broken rule, with the files that it was found in."""
        return DataError(f"{self.told}: {rule}" if self.parts else rule)

    def counted_in_bulk(self, lattice: Lattice, progress: Progress | None) -> dict[str, Found]:
        """Count all distances in one pass of polars."""
        columns = [name for name in self.columns if name != "ref"]
        local = [part for part in self.schemas if not is_bare(part)]
        # Some rows of the first, the middle and the last part that have any: days and sites differ.
        some = sorted({0, len(local) // 2, len(local) - 1}) if local else []
        heads = [nw.from_native(polars_frame([local[place]], self.schemas, columns)) for place in some] or [self.frame]
        read = (_plain(nw.to_native(as_numbers(head, self.known)), columns).head(SAMPLE).collect() for head in heads)
        sample = pl.concat(read, how="vertical_relaxed")
        return bulk(_plain(nw.to_native(self.frame), columns), sample, self.pairs, lattice, self.rows(), progress)


def _plain(frame: pl.LazyFrame, columns: Sequence[str]) -> pl.LazyFrame:
    return frame.select(pl.col(name).cast(pl.String) if name == "group" else name for name in columns)


def open_table(source: Any, engine: str | None, distances: Sequence[str] | None, keep_refs: bool) -> Table:
    """Open files, or take a frame of any library that narwhals knows."""
    if engine is not None and engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}; there are {', '.join(ENGINES)}")
    if isinstance(source, str | os.PathLike | list | tuple):
        return _open_files(source, engine or "polars", distances, keep_refs)
    try:
        frame = nw.from_native(source).lazy()
    except TypeError as error:
        kind = type(source).__name__
        raise TypeError(f"a table must be a path, a pattern, a list of paths or a frame; found {kind}") from error
    if engine is not None:
        raise ValueError("an engine is chosen for files; a frame is counted by its own")
    schema = frame.collect_schema()
    columns, pairs = _needed(schema.names(), distances, keep_refs)
    for name in (name for name in columns if name in LABELS):
        if rule := broken_kind(name, schema[name]):
            raise DataError(f"{rule}; the column holds {schema[name]}")
    kind = "spark" if frame.implementation.is_spark_like() else frame.implementation.name.lower()
    known = spoken(kind, columns)
    if list(known.values()) != columns:
        frame = nw.from_native(spark_selected(nw.to_native(frame), columns)).lazy()
    return Table(kind, as_numbers(frame.select(*known.values()), known), known, pairs, [], {})


def _open_files(source: Any, engine: str, distances: Sequence[str] | None, keep_refs: bool) -> Table:
    parts = find_parts(source)
    found = schemas(parts)
    # The columns of the part that has most: another that lacks one is named.
    most = max(found, key=lambda part: len(found[part])) if found else parts[0]
    names = list(found[most]) if found else _opened(engine, parts, found, None).collect_schema().names()
    try:
        columns, pairs = _needed(names, distances, keep_refs)
    except DataError as error:
        raise DataError(f"{most}: {error}") from error
    check_alike(found, columns)
    known = spoken(engine, columns)
    frame = _opened(engine, parts, found, columns).select(*known.values())
    return Table(engine, as_numbers(frame, known), known, pairs, parts, found)


def _opened(engine: str, parts: Sequence[str], found: Schemas, columns: Sequence[str] | None) -> Any:
    """Open the parts; one that the engine stumbles over is named."""
    try:
        frame = nw.from_native(ENGINES[engine](parts, found, columns)).lazy()
        frame.collect_schema()
        return frame
    except (DataError, ImportError):
        raise
    # Engines have errors of many kinds for a file that is not there, not theirs to read or not as they expect it.
    except Exception as error:
        if len(parts) > 1:
            open_each(engine, parts, found, columns)
            raise DataError(f"{engine} cannot read {told_parts(parts)} together: {first_line(error)}") from error
        if isinstance(error, OSError) and str(error).startswith("spark did not start"):
            raise
        raise DataError(f"{parts[0]}: {engine} cannot read it: {first_line(error)}") from error


def open_each(engine: str, parts: Sequence[str], found: Schemas, columns: Sequence[str] | None) -> None:
    """Open the parts one by one, so that one that cannot be opened is named."""
    for part in parts:
        _opened(engine, [part], found, columns)


def told_parts(parts: Sequence[str]) -> str:
    """Name some parts in a word or two.

    Examples
    --------
    >>> told_parts(["a.csv"]), told_parts(["a.csv", "b.csv", "c.csv"])
    ('a.csv', 'a.csv and 2 others')
    """
    more = len(parts) - 1
    return parts[0] + (f" and {more} other{'s' * (more > 1)}" if more else "")


def _needed(columns: list[str], distances: Sequence[str] | None, keep_refs: bool) -> tuple[list[str], Pairs]:
    """Find the columns that counting needs, and those of each distance."""
    for name in columns:
        if not isinstance(name, str):
            raise DataError(f"names of columns must be text; found {name!r}")
    pairs = {name: (c[0], c[1]) for name, c in distance_columns(columns).items() if len(c) == 2}
    votes = says_votes(columns)
    if not pairs:
        raise DataError(
            f"no distance in the table; expected columns d0 and d1, or NAME_d0 and NAME_d1; found {', '.join(columns)}"
        )
    if isinstance(distances, str):
        raise ValueError(f"distances must be a list of names; found the text {distances!r}")
    if distances is not None and not list(distances):
        raise ValueError(f"name a distance to count, or leave the choice open; the table has {', '.join(pairs)}")
    for name in distances or ():
        if name not in pairs:
            raise DataError(f"no distance {name!r} in the table; it has {', '.join(pairs)}")
    pairs = {name: pair for name, pair in pairs.items() if distances is None or name in distances}
    if keep_refs and "ref" not in columns:
        raise DataError(f"refs can be kept where there is a column ref; found {', '.join(columns)}")
    kept = ["group"] if "group" in columns else []
    kept += identifying(columns) if votes else []
    kept += ["ref"] if keep_refs and "ref" not in kept else []
    return [*(["choice"] if votes else ["n", "M"]), *kept, *(name for pair in pairs.values() for name in pair)], pairs
