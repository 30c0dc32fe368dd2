"""A source, opened: its lazy frame, the columns that counting needs, and the files that it came from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import polars as pl

from twoafc.columns import distance_names, says_votes
from twoafc.counts.lattice import Lattice
from twoafc.engine.bulk import Pairs, Progress, bulk
from twoafc.engine.parts import check_alike, find_parts, is_parquet, schemas, size
from twoafc.engine.program import counted
from twoafc.engine.single_votes import UNMERGED, identifying, merged_votes
from twoafc.engine.sources import ENGINES, Schemas, polars_frame
from twoafc.errors import DataError

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
    columns : list of str
        Those columns.
    pairs : mapping of name to columns
        The distances.
    parts : list of str
        The files; none where a frame was given.
    schemas : mapping of part to its columns
        Of the files that lie here.
    """

    engine: str
    frame: Any
    columns: list[str]
    pairs: Pairs
    parts: list[str]
    schemas: Schemas

    @property
    def holds_votes(self) -> bool:
        """Whether rows are single votes."""
        return "choice" in self.columns

    @property
    def note(self) -> str | None:
        """What a reader of the counts should be told; None where there is nothing."""
        return UNMERGED if self.holds_votes and not identifying(self.columns) else None

    @property
    def in_polars(self) -> bool:
        """Whether the quick way of counting is open: polars, and rows that are triplets already."""
        return isinstance(nw.to_native(self.frame), pl.LazyFrame) and not self.holds_votes

    def counted(self, d: tuple[str, str], lattice: Lattice, *, refs: bool = False, packed: bool = True) -> pl.DataFrame:
        """Count one distance by the program that serves every engine."""
        frame = merged_votes(self.frame, self.columns, self.pairs) if self.holds_votes else self.frame
        by = [name for name in ("group", "ref") if name in self.columns and (refs or name != "ref")]
        return counted(frame, d, lattice, by=by, packed=packed)

    def counted_in_bulk(self, lattice: Lattice, progress: Progress | None) -> dict[str, pl.DataFrame]:
        """Count all distances in one pass of polars."""
        columns = [name for name in self.columns if name != "ref"]
        local = list(self.schemas)
        # Some rows of the first, the middle and the last part: days and sites differ.
        some = sorted({0, len(local) // 2, len(local) - 1}) if local else []
        heads = [polars_frame([local[place]], self.schemas, columns) for place in some] or [nw.to_native(self.frame)]
        sample = pl.concat((_plain(head, columns).head(SAMPLE).collect() for head in heads), how="vertical_relaxed")
        total = (size(local).rows or 0) if progress and local and len(local) == len(self.parts) else 0
        return bulk(_plain(nw.to_native(self.frame), columns), sample, self.pairs, lattice, progress, total)


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
    columns, pairs = _needed(frame.collect_schema().names(), distances, keep_refs)
    return Table(frame.implementation.name.lower(), frame.select(*columns), columns, pairs, [], {})


def _open_files(source: Any, engine: str, distances: Sequence[str] | None, keep_refs: bool) -> Table:
    parts = find_parts(source)
    found = schemas(parts)
    if found:
        # The columns of the part that has most: another that lacks one is named.
        most = max(found, key=lambda part: len(found[part]))
        try:
            columns, pairs = _needed(list(found[most]), distances, keep_refs)
        except DataError as error:
            raise DataError(f"{most}: {error}") from error
        check_alike(found, columns)
    else:
        native = pl.scan_parquet(parts) if is_parquet(parts[0]) else pl.scan_csv(parts)
        columns, pairs = _needed(native.collect_schema().names(), distances, keep_refs)
    frame = nw.from_native(ENGINES[engine](parts, found, columns)).lazy()
    return Table(engine, frame.select(*columns), columns, pairs, parts, found)


def _needed(columns: list[str], distances: Sequence[str] | None, keep_refs: bool) -> tuple[list[str], Pairs]:
    """Find the columns that counting needs, and those of each distance."""
    pairs = distance_names(columns)
    votes = says_votes(columns)
    if not pairs:
        raise DataError(
            f"no distance in the table; expected columns d0 and d1, or NAME_d0 and NAME_d1; found {', '.join(columns)}"
        )
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
