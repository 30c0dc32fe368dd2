"""`count`: a table of any size to counts, read by polars, DuckDB, Dask or Spark.

How one row is counted: an engine reads it (`files.py`). Its distances fall into bins of the lattice (`lattice.py`), and
its bins, sign of d0 - d1, n, M, group and reference make up its cell. The cell's count grows by one: in an array if
polars reads the table (`dense.py`), otherwise by a group-by that any engine runs (`program.py`), which first merges
single votes into triplets. `Counts.table` turns each cell back into a row, with its count.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import polars as pl

from twoafc.arrays import Progress
from twoafc.errors import DataError, naming
from twoafc.files import quiet_polars, reading_csv, reading_parquet
from twoafc.scale.dense import count_densely
from twoafc.scale.files import (
    ENGINES,
    Schemas,
    as_numbers,
    broken_kind,
    check_alike,
    engine_names,
    find_parts,
    fingerprints,
    first_line,
    is_bare,
    is_parquet,
    is_remote,
    listed,
    open_frame,
    polars_csv,
    polars_frame,
    rows_in,
    schemas,
    spark_selected,
)
from twoafc.scale.lattice import KEY, REF_KEY, TRIPLETS, UNIDENTIFIED, VOTES, Counts, Lattice, summed
from twoafc.scale.program import (
    Pairs,
    Tally,
    broken_choice,
    broken_counts,
    broken_distance,
    broken_name,
    collected,
    count_by_program,
    identifying,
    merged_votes,
    unlike_votes,
)
from twoafc.table import (
    LABELS,
    RESERVED_GROUPS,
    Votes,
    Where,
    choices_of,
    counts_of,
    distance_columns,
    finite_column,
    labels_of,
    refuse,
    row_name,
    says_votes,
)

SAMPLE = 100_000
SLICE = 1_000_000
"""Rows that are checked together."""
ROW = "\0row"


def count(
    source: Any,
    *,
    distances: Sequence[str] | None = None,
    engine: str | None = None,
    per_octave: int = 128,
    keep_refs: bool = False,
    progress: Progress | None = None,
) -> dict[str, Counts]:
    """Count the triplets of a table of any size on a lattice of raw distances.

    Parameters
    ----------
    source : path, pattern, list of paths, Triplets, or any frame that narwhals supports
        Parquet or CSV files (s3:// and the like where the engine reads them), or a frame of polars, DuckDB, Dask,
        PySpark, pandas or arrow. Columns as those of `Triplets`; distances must be at least 0.
    distances : sequence of str, optional
        Those to count; default all.
    engine : {"polars", "duckdb", "dask", "spark"}, optional
        What reads files; default polars, which alone reads CSV. A frame is counted by its own engine.
    per_octave : int
        Bins for each doubling of a distance, a power of two; counts add up only where it is the same.
    keep_refs : bool
        Count by reference, which clustered error bars need; as large as the table where references hardly repeat.
    progress : callable(done, total, what), optional
        Called with the number of rows counted; by polars alone.

    Returns
    -------
    dict of name to Counts

    Notes
    -----
    Single votes (``choice``) are merged into triplets by the engine first, where columns identify these; else each
    vote is a triplet with M = 1.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.LazyFrame({"n": [3, 0], "M": [5, 2], "ssim_d0": [0.4, 0.1], "ssim_d1": [0.2, 0.3]})
    >>> count(table)
    {'ssim': Counts(ssim: 2 triplets, 7 votes, 2 cells, 128 bins per octave)}
    """
    table = _open(source, engine, distances, Lattice(per_octave), keep_refs)
    with quiet_polars(table.named):
        try:
            return _count(table, progress)
        except (DataError, ImportError, MemoryError):
            raise
        # Engines raise errors of many kinds if a part cannot be read; look for that part.
        except (Exception, pl.exceptions.PanicException) as error:
            _check_parts(table)
            for part in table.parts:
                open_frame(table.engine, [part], table.schemas, None)
            raise DataError(f"{table.engine} could not count {table.named}: {first_line(error)}") from error


def _count(table: Input, progress: Progress | None) -> dict[str, Counts]:
    """Count every distance of a table, and check that all rows were counted."""
    rows = rows_in(table.parts) if table.parts else None
    # The quick pass is by polars, of rows that are triplets already.
    dense = table.count_densely(rows, progress) if table.engine == "polars" and not table.holds_votes else {}
    by_name = {}
    for name in table.pairs:
        tally = dense.pop(name) if name in dense else table.count_by_program(name)
        if tally.cells.is_empty():
            raise table.error("the table has no rows")
        if not tally.lawful:
            _check_parts(table)
            _check_frame(table)
            raise table.error(unlike_votes(table.frame, table.columns, table.known_pairs))
        counts = by_name[name] = _counts(name, tally, table)
        seen = counts.votes if table.holds_votes else counts.triplets
        # An engine may skip files that it takes for its own metadata.
        if rows is not None and seen != rows:
            raise DataError(
                f"{table.engine} counted {seen} of the {rows} rows of {table.named}; count with another engine"
            )
    return by_name


def _counts(name: str, tally: Tally, table: Input) -> Counts:
    """Number the groups, and add up the cells with the same key."""
    cells, groups = tally.cells.with_columns(group=pl.lit(0, dtype=pl.Int32)), ()
    if "group" in tally.cells.columns:
        groups = tuple(sorted(tally.cells["group"].unique()))
        number = pl.col("group").replace_strict(groups, range(len(groups)), return_dtype=pl.Int32)
        cells = tally.cells.with_columns(number)
    key = REF_KEY if "ref" in cells.columns else KEY
    ends = (tally.ends[0] + 0.0, tally.ends[1] + 0.0)  # never -0.0
    files, kinds = fingerprints(table.parts), (table.kind,)
    return Counts(name, table.lattice, summed(key, cells), tally.histogram, ends, groups, (), files, kinds)


def _digests(refs: pl.Series) -> pl.DataFrame:
    """Number references, each given once, by a digest that is the same at every site; in its order."""
    named = refs.filter(refs != "")
    digests = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") for name in named]
    return pl.DataFrame({"ref": named, "digest": pl.Series(digests, dtype=pl.UInt64)}).sort("digest")


@dataclass(frozen=True)
class Input:
    """A table of votes and distances, not yet read."""

    engine: str  # what reads it
    frame: Any  # a lazy frame of narwhals, with the columns that are needed
    known: Mapping[str, str]  # those columns, with their names in the frame
    pairs: Pairs  # the columns of each distance
    parts: list[str]  # the files; none where a frame was given
    schemas: Schemas  # of the local files
    lattice: Lattice
    keep_refs: bool

    @property
    def columns(self) -> list[str]:
        """The columns that are needed, by their names in the files."""
        return list(self.known)

    @property
    def known_pairs(self) -> Pairs:
        """The distances, by the names of their columns in the frame."""
        return {name: (self.known[d0], self.known[d1]) for name, (d0, d1) in self.pairs.items()}

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
    def named(self) -> str:
        """The files in a few words, or "the table"."""
        return listed(self.parts) if self.parts else "the table"

    def error(self, rule: str) -> DataError:
        """Return the error for a broken rule, with the files if there are any."""
        return DataError(f"{self.named}: {rule}" if self.parts else rule)

    def count_by_program(self, name: str) -> Tally:
        """Count one distance by the program that every engine runs."""
        by = [label for label in ("group", "ref") if label in self.columns and (self.keep_refs or label != "ref")]
        frame = merged_votes(self.frame, self.columns, self.known_pairs) if self.holds_votes else self.frame
        tally = count_by_program(frame, self.known_pairs[name], self.lattice, by)
        if not self.keep_refs:
            return tally
        digests = _digests(tally.cells["ref"].unique())
        number = pl.col("ref").replace_strict(digests["ref"], digests["digest"], default=None, return_dtype=pl.UInt64)
        return tally._replace(cells=tally.cells.with_columns(number))

    def count_densely(self, rows: int | None, progress: Progress | None) -> dict[str, Tally]:
        """Count all distances in one pass of polars; if references are kept, a first pass lists them."""
        plain = [pl.col(name).cast(pl.String) if name in LABELS else name for name in self.columns]
        local = [part for part in self.schemas if not is_bare(part)]
        # Sample the first, the middle and the last part with rows: days and sites differ.
        some = sorted({0, len(local) // 2, len(local) - 1}) if local else []
        frame = nw.to_native(self.frame)
        heads = [as_numbers(polars_frame([local[place]], self.schemas, self.columns)) for place in some] or [frame]
        sample = pl.concat([head.select(plain).head(SAMPLE).collect() for head in heads], how="vertical_relaxed")
        frame = frame.select(plain)
        refs = None
        if self.keep_refs:
            refs = _digests(frame.select(pl.col("ref").unique()).collect(engine="streaming")["ref"])
        return count_densely(frame, sample, self.pairs, self.lattice, rows, progress, refs=refs)


def _open(source: Any, engine: str | None, distances: Sequence[str] | None, lattice: Lattice, keep_refs: bool) -> Input:
    """Open files, or take a frame of any library that narwhals supports."""
    if engine is not None and engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}; there are {', '.join(ENGINES)}")
    if isinstance(source, str | os.PathLike | list | tuple):
        return _open_files(source, engine or "polars", distances, lattice, keep_refs)
    if isinstance(source, Votes):
        source = source.to_frame()
    try:
        frame: Any = nw.from_native(pl.DataFrame(source) if isinstance(source, Mapping) else source)
    except TypeError as error:
        kind = type(source).__name__
        raise TypeError(f"a table must be a path, a pattern, a list of paths or a frame; found {kind}") from error
    if engine is not None:
        raise ValueError("the engine is chosen for files only; a frame is counted by its own")
    for name in frame.columns:
        if not isinstance(name, str):
            raise DataError(f"names of columns must be text; found {name!r}")
    if isinstance(frame, nw.DataFrame):
        frame = nw.from_native(frame.to_polars().lazy())
    schema = frame.collect_schema()
    columns, pairs = _needed(schema.names(), distances, keep_refs)
    native = nw.to_native(frame)
    for name in columns:
        if (name in LABELS or not isinstance(native, pl.LazyFrame)) and (rule := broken_kind(name, schema[name])):
            raise DataError(f"{rule}; the column has type {schema[name]}")
    if isinstance(native, pl.LazyFrame):
        known = {name: name for name in columns}
        frame = nw.from_native(as_numbers(native.select(columns)))
        return Input("polars", frame, known, pairs, [], {}, lattice, keep_refs)
    kind = "spark" if frame.implementation.is_spark_like() else frame.implementation.name.lower()
    known = engine_names(kind, columns)
    if list(known.values()) != columns:
        frame = nw.from_native(spark_selected(native, columns)).lazy()
    return Input(kind, frame.select(*known.values()), known, pairs, [], {}, lattice, keep_refs)


def _open_files(source: Any, engine: str, distances: Sequence[str] | None, lattice: Lattice, keep_refs: bool) -> Input:
    parts = find_parts(source)
    if engine != "polars" and not is_parquet(parts[0]):
        raise DataError(f"{engine} reads Parquet; found {parts[0]}: CSV is read by polars, so leave the engine out")
    by_part = schemas(parts)
    # The columns of the part that has most; a part that lacks one is refused.
    most = max(by_part, key=lambda part: len(by_part[part])) if by_part else parts[0]
    names = list(by_part[most]) if by_part else open_frame(engine, parts, by_part, None).collect_schema().names()
    with naming(most):
        columns, pairs = _needed(names, distances, keep_refs)
    check_alike(by_part, columns)
    known = engine_names(engine, columns)
    frame = open_frame(engine, parts, by_part, columns).select(*known.values())
    if engine == "polars":
        frame = nw.from_native(as_numbers(nw.to_native(frame)))
    return Input(engine, frame, known, pairs, parts, by_part, lattice, keep_refs)


def _needed(columns: list[str], distances: Sequence[str] | None, keep_refs: bool) -> tuple[list[str], Pairs]:
    """Find the columns that counting needs, and those of each distance."""
    pairs = {name: (c[0], c[1]) for name, c in distance_columns(columns).items() if len(c) == 2}
    votes = says_votes(columns)
    if not pairs and distance_columns(columns):
        raise DataError("only tables of triplets can be counted; this one has pairs")
    if not pairs:
        raise DataError(
            f"no distance in the table; expected columns d0 and d1, or NAME_d0 and NAME_d1; found {', '.join(columns)}"
        )
    if "weight" in columns:
        raise DataError("counts have no weights; the table has a column weight: evaluate the table itself, or drop it")
    if distances is not None and not list(distances):
        raise ValueError(f"name a distance to count, or leave the choice open; the table has {', '.join(pairs)}")
    for name in distances or ():
        if name not in pairs:
            raise DataError(f"no distance {name!r} in the table; it has {', '.join(pairs)}")
    pairs = {name: pair for name, pair in pairs.items() if distances is None or name in distances}
    if keep_refs and "ref" not in columns:
        raise DataError(f"keeping refs requires a column ref; found {', '.join(columns)}")
    kept = ["group"] if "group" in columns else []
    kept += identifying(columns) if votes else []
    kept += ["ref"] if keep_refs and "ref" not in kept else []
    return [*(["choice"] if votes else ["n", "M"]), *kept, *(name for pair in pairs.values() for name in pair)], pairs


def _check_rows(frame: pl.DataFrame, pairs: Pairs, where: Where) -> None:
    """Raise a `DataError` that names the first rule that some rows break, if they break any."""
    labels_of(frame, where)
    choices_of(frame, where) if "choice" in frame.columns else counts_of(frame, where)
    for name in (name for pair in pairs.values() for name in pair):
        values = finite_column(frame, name, where)
        rule = f"{name} must be at least 0 to be counted"
        refuse(values < 0, rule, where, lambda row, name=name, values=values: f"{name}={values[row]}")  # type: ignore[misc]


def _check_parts(table: Input) -> None:
    """Go through the local files, some rows at a time, and raise a `DataError` for the first that breaks a rule."""
    # Empty rows of a CSV file have a number too, but are left out.
    options: dict[str, Any] = {"glob": False, "row_index_name": ROW}
    for part in (part for part in table.parts if not is_remote(part)):
        parquet = is_parquet(part)
        frame = pl.scan_parquet(part, **options) if parquet else polars_csv(part, **options)
        with naming(part), reading_parquet(part) if parquet else reading_csv():
            first = 0
            while not (rows := frame.select(ROW, *table.columns).slice(first, SLICE).collect()).is_empty():
                _check_rows(rows, table.pairs, lambda row, number=rows[ROW]: row_name(number[row]))  # type: ignore[misc]
                first += len(rows)


def _check_frame(table: Input) -> None:
    """Collect the rows of a lazy frame that may break a rule, and raise a `DataError` for the first."""
    odd = broken_choice() if table.holds_votes else broken_counts()
    for name in (name for pair in table.known_pairs.values() for name in pair):
        odd = odd | broken_distance(name)
    for name in (name for name in table.columns if name in LABELS):
        odd = odd | broken_name(name, RESERVED_GROUPS if name == "group" else ())
    rows = collected(table.frame.filter(odd).select(*table.known.values()).head(1000))
    try:
        names = {name: column for column, name in table.known.items()}
        _check_rows(rows.rename(names), table.pairs, lambda row: "a row")
    except DataError as error:
        # Only some rows were collected, so their number is not known.
        raise DataError(re.sub(r" \(\d+ of \d+ rows\)$", "", str(error))) from error
