"""A table that is counted: its files, listed and inspected, and opened by polars, DuckDB, Dask or Spark, or a frame."""

from __future__ import annotations

import csv
import glob
import hashlib
import logging
import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from twoafc.errors import DataError, naming, require
from twoafc.files import reading_csv, reading_parquet, require_file, unprinted
from twoafc.scale.program import Pairs, identifying
from twoafc.table import (
    ANSWERS,
    LABELS,
    READABLE,
    Votes,
    all_named,
    csv_header,
    distance_columns,
    open_csv,
    says_votes,
)

Schemas = Mapping[str, Mapping[str, pl.DataType | None]]
"""Columns of each file, with their types where the file has them."""
Columns = Sequence[str] | None
"""Those that are needed; None for all, if the columns of the files are not known yet."""
PARQUET = (".parquet", ".pq")
END = 2**16
"""Bytes at either end that identify a file: in Parquet the last hold the extremes of its columns."""


def find_parts(source: str | Path | Sequence[str | Path]) -> list[str]:
    """List the files that a path, a pattern or a list of them names, in order; remote ones are taken as they are."""
    named = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not named:
        raise ValueError("name at least one file of votes")
    paths = [path for name in map(str, named) for path in ([name] if is_remote(name) else matching(name))]
    parts = [part for path in paths for part in (_inside(path) if os.path.isdir(path) else [path])]
    for part in parts:
        if not is_remote(part):
            require_file(part)
        if not part.lower().endswith(READABLE):
            raise DataError(f"a table must be one of {', '.join(READABLE)}; found {part}")
    if len({is_parquet(part) for part in parts}) > 1:
        raise DataError(f"parts must be all Parquet or all CSV; found {parts[0]} and others")
    # Votes of a file that is named twice would be counted twice.
    places: dict[str, str] = {}
    for part in parts:
        place = part if is_remote(part) else os.path.realpath(part)
        if place in places:
            raise DataError(f"a part must be named once; {places[place]} and {part} are one file")
        places[place] = part
    return parts


def matching(name: str) -> list[str]:
    """List the paths that a path or a pattern names."""
    # A file whose own name has a bracket in it is that file, not a pattern.
    pattern = glob.has_magic(name) and not os.path.exists(name)
    paths = sorted(glob.glob(name, recursive=True)) if pattern else [name]
    if not paths:
        raise DataError(f"no file matches {name}")
    return paths


def _inside(folder: str) -> list[str]:
    """List the Parquet files in a folder, as Spark and Dask write tables.

    What they put beside a table (_temporary, _delta_log, .staging) is left out; a folder _day=3 is a part of it.
    """
    paths = []
    for path in Path(folder).rglob("*"):
        within = path.relative_to(folder).parts
        hidden = any(name.startswith(".") or (name.startswith("_") and "=" not in name) for name in within)
        if path.is_file() and is_parquet(path.name) and not hidden:
            paths.append(str(path))
    if not paths:
        counts = min(Path(folder).glob("*.npz"), default=None)
        names = f"name one of its files of counts, such as {counts}" if counts else "name the files of the table"
        raise DataError(f"{folder} is a folder without Parquet files; {names}")
    return sorted(paths)


def is_remote(part: str) -> bool:
    """Whether an engine must fetch a file itself: s3://, gs://, https:// and the like."""
    return "://" in part


def is_parquet(part: str) -> bool:
    """Whether a file is Parquet, by the end of its name; otherwise CSV."""
    return part.lower().endswith(PARQUET)


def schemas(parts: Sequence[str]) -> dict[str, dict[str, pl.DataType | None]]:
    """Columns of each local part, with their types if the file has them; the error names an unreadable part."""
    by_part: dict[str, dict[str, pl.DataType | None]] = {}
    for part in (part for part in parts if not is_remote(part)):
        if is_parquet(part):
            with reading_parquet(part):
                by_part[part] = dict(pl.scan_parquet(part, glob=False).collect_schema())
        else:
            with naming(part), reading_csv():
                by_part[part] = dict.fromkeys(csv_head(part)[1])
    return by_part


def csv_head(part: str) -> tuple[str, list[str], int]:
    """Read how a CSV file begins: its separator, the names of its columns, and how many blank lines precede them.

    Its first row must not have more values than there are columns.
    """
    with open_csv(part) as file:
        blank, line = next(((number, line) for number, line in enumerate(file) if line.strip()), (0, ""))
        while line.count('"') % 2 and (more := file.readline()):  # a name with a line break in it
            line += more
        first = next((line for line in file if line.strip()), "")
    mark, names = csv_header(line)
    try:
        values = next(csv.reader([first], delimiter=mark), [])
    except csv.Error as error:
        raise DataError(f"row 0 cannot be read: {error}") from error
    if len(values) > len(names):
        raise DataError(f"a row must not have more values than there are columns; row 0 has {len(values)}")
    return mark, all_named(names), blank


def check_alike(schemas: Mapping[str, Mapping[str, pl.DataType | None]], needed: Sequence[str]) -> None:
    """Refuse parts without a column that the others have, or with values of a wrong type in it."""
    for part, columns in schemas.items():
        for name in needed:
            if name not in columns:
                raise DataError(f"{part} has no column {name}, which the others have")
            kind = columns[name]
            if kind is not None and (rule := broken_kind(name, kind)):
                raise DataError(f"{part}: {rule}; the column has type {kind}")
        for folder in Path(part).parts[:-1]:
            name = folder.partition("=")[0]
            if "=" in folder and name in LABELS and name not in columns:
                raise DataError(f"{part} has no column {name}, only a folder {folder}; write the column into the files")


def broken_kind(name: str, kind: Any) -> str | None:
    """Return the rule that a column of some type (of polars or narwhals) breaks; None where it breaks none."""
    if name not in LABELS:
        return None if kind.is_numeric() or str(kind) in ("Boolean", "Null") else f"{name} must be a number"
    # Engines write 1e8 and True in different ways, so that groups would not be the same.
    odd = kind.is_float() or kind.is_decimal() or kind.is_temporal() or kind.is_nested()
    return f"{name} must be text or whole numbers to be counted" if odd or str(kind) in ("Boolean", "Binary") else None


def rows_in(parts: Sequence[str]) -> int | None:
    """Return the number of rows of a table; None if only reading all of its files would show it."""
    known = is_parquet(parts[0]) and not any(map(is_remote, parts))
    return sum(map(_rows, parts)) if known else None


def _rows(part: str) -> int:
    with reading_parquet(part):
        return int(pl.scan_parquet(part, glob=False).select(pl.len()).collect().item())


def fingerprints(parts: Sequence[str]) -> tuple[str, ...]:
    """Identify files by their sizes and ends, not by their names; none where one of them is remote.

    Files without rows are left out: they hold no votes, and those of any two sites are the same.
    """
    if any(map(is_remote, parts)):
        return ()
    return tuple(sorted(_fingerprint(part) for part in parts if not is_bare(part)))


def is_bare(part: str) -> bool:
    """Whether a local file has columns but no rows."""
    if is_parquet(part):
        return _rows(part) == 0
    with open_csv(part) as file:
        return len(list(islice((line for line in file if line.strip()), 2))) == 1


def _fingerprint(part: str) -> str:
    digest = hashlib.sha256(str(os.path.getsize(part)).encode())
    with open(part, "rb") as file:
        digest.update(file.read(END))
        file.seek(-min(END, os.path.getsize(part)), os.SEEK_END)
        digest.update(file.read())
    return digest.hexdigest()[:32]


def first_line(error: Exception) -> str:
    """First line of an engine's message; of an exception in Java, that of its cause."""
    cause = getattr(error, "java_exception", None)
    if cause is not None:
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.getMessage() or cause.toString()).strip().split("\n")[0]
    # Dask writes first that something went wrong, and then what.
    text = str(error).strip().rpartition("Original Message: ")[2] or type(error).__name__
    return text.split("\n")[0]


# Frames of the files, by engine. Columns are read by name. Files with other types are read apart, since some engines
# fail at numbers of another width.


def polars_csv(path: str, **scan: Any) -> pl.LazyFrame:
    """Scan a CSV file as it would be read into memory: all columns as text, without rows that have no value."""
    if not is_remote(path):
        mark, names, blank = csv_head(path)
        scan |= {"separator": mark, "with_column_names": lambda _: names, "skip_lines": blank}
    frame = pl.scan_csv(path, infer_schema=False, **scan)
    return frame.filter(pl.any_horizontal(pl.exclude(scan.get("row_index_name", ())).is_not_null()))


def as_numbers(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Convert labels to text, and columns of text that should be numbers to numbers; choices may be words."""
    kinds = frame.collect_schema()
    labels = [pl.col(name).cast(pl.String) for name in kinds if name in LABELS]
    texts = [name for name, kind in kinds.items() if kind == pl.String and name not in LABELS]
    words = pl.col("choice").str.strip_chars().str.to_lowercase().replace(ANSWERS)
    numbers = (words if name == "choice" else pl.col(name).str.strip_chars() for name in texts)
    return frame.with_columns(*labels, *(expression.cast(pl.Float64, strict=False) for expression in numbers))


def polars_frame(parts: Sequence[str], schemas: Schemas, columns: Columns) -> pl.LazyFrame:
    """Read the parts with polars."""
    if is_parquet(parts[0]):
        # In the names of local files a bracket or a star is no pattern; columns that some parts have are not needed.
        options: dict[str, Any] = {"glob": any(map(is_remote, parts)), "hive_partitioning": False}
        read = [pl.scan_parquet(alike, extra_columns="ignore", **options) for alike in _alike(parts, schemas, columns)]
    else:
        read = [polars_csv(part, glob=is_remote(part)) for part in parts]
    frames = [as_numbers(frame if columns is None else frame.select(columns)) for frame in read]
    return pl.concat(frames, how="vertical_relaxed")


def _duckdb_frame(parts: Sequence[str], schemas: Schemas, columns: Columns) -> Any:
    duckdb = require("duckdb", extra="cluster")
    _refuse_like_names("duckdb", schemas)
    frame = duckdb.read_parquet(_escaped(parts), union_by_name=True, hive_partitioning=False)
    return frame if columns is None else frame.select(*map(duckdb.ColumnExpression, columns))


def _dask_frame(parts: Sequence[str], schemas: Schemas, columns: Columns) -> Any:
    """Read the parts with Dask; where a distributed client is open, its workers do the work."""
    frames = require("dask.dataframe", extra="cluster")
    named = None if columns is None else list(columns)
    # Folders named group=x would otherwise be taken for a second column of that name.
    options = {"columns": named, "dataset": {"partitioning": None}}
    read = [frames.read_parquet(_escaped(alike), **options) for alike in _alike(parts, schemas, columns)]
    if len(read) == 1 or named is None:
        return read[0]
    kinds = {name: "string" if name in LABELS else "float64" for name in named}
    return frames.concat([frame.astype(kinds) for frame in read])


def _spark_frame(parts: Sequence[str], schemas: Schemas, columns: Columns) -> Any:
    """Read the parts with Spark, in the open session or a local one; columns are named by `engine_names`."""
    sql = require("pyspark.sql", extra="spark")
    _refuse_like_names("spark", schemas)
    for part in parts:
        if os.path.basename(part).startswith(("_", ".")):
            raise DataError(f"{part}: spark passes over files whose names begin with _ or .; rename it")
        if not is_remote(part) and ":" in os.path.abspath(part):
            raise DataError(f"{part}: spark cannot read a file with a colon in its path; rename it")
    # Spark would print what it raises, and its virtual machine much else.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    builder = sql.SparkSession.builder.appName("twoafc").config("spark.ui.showConsoleProgress", "false")
    try:
        with unprinted():
            session = sql.SparkSession.getActiveSession() or builder.getOrCreate()
    except Exception as error:
        raise DataError(f"spark did not start; is Java installed? {first_line(error)}") from error
    frames = []
    for alike in _alike(parts, schemas, columns):
        escaped = (re.sub(r"([][{}*?\\])", r"\\\1", os.path.abspath(part)) for part in alike)
        paths = [part if is_remote(part) else f"file://{path}" for part, path in zip(alike, escaped, strict=True)]
        frame = session.read.parquet(*paths)
        frames.append(frame if columns is None else spark_selected(frame, columns))
    return reduce(lambda one, other: one.union(other), frames)


def spark_selected(frame: Any, columns: Sequence[str]) -> Any:
    """Take columns of a Spark frame by their place, under the names of `engine_names`."""
    places = [frame.columns.index(name) for name in columns]
    numbered = frame.toDF(*(f"column_{place}" for place in range(len(frame.columns))))
    return numbered.select(*(f"column_{place}" for place in places)).toDF(*engine_names("spark", columns).values())


def engine_names(engine: str, columns: Sequence[str]) -> dict[str, str]:
    """Names of columns in the frame of an engine: a dot or a backtick in a name has a meaning in Spark."""
    odd = {name for name in columns if engine == "spark" and not re.fullmatch(r"\w+", name)}
    return {name: f"needed_{place}" if name in odd else name for place, name in enumerate(columns)}


def _alike(parts: Sequence[str], schemas: Schemas, columns: Columns) -> list[list[str]]:
    """Group Parquet files whose columns have the same types, which can be read at once."""
    types = defaultdict(list)
    for part in parts:
        types[tuple(str(schemas[part].get(name)) for name in columns or ()) if part in schemas else ()].append(part)
    return list(types.values())


def _escaped(parts: Sequence[str]) -> list[str]:
    return [part if is_remote(part) else glob.escape(part) for part in parts]


def _refuse_like_names(engine: str, schemas: Schemas) -> None:
    """Refuse columns that differ in capitals only, which the engine confuses."""
    for part, columns in schemas.items():
        lower: dict[str, str] = {}
        for name in columns:
            other = lower.setdefault(name.lower(), name)
            if other != name:
                raise DataError(
                    f"{part}: {engine} cannot tell the columns {other} and {name} apart; rename one, or count with "
                    "polars or dask"
                )


ENGINES: dict[str, Callable[[Sequence[str], Schemas, Columns], Any]] = {
    "polars": polars_frame,
    "duckdb": _duckdb_frame,
    "dask": _dask_frame,
    "spark": _spark_frame,
}


def open_frame(engine: str, parts: Sequence[str], schemas: Schemas, columns: Columns) -> Any:
    """Open the parts as a lazy frame of narwhals; the error names a part that the engine cannot read."""
    try:
        frame = nw.from_native(ENGINES[engine](parts, schemas, columns)).lazy()
        frame.collect_schema()
        return frame
    except (DataError, ImportError):
        raise
    # Engines raise errors of many kinds for files that are missing, forbidden or broken.
    except Exception as error:
        if len(parts) > 1:
            for part in parts:
                open_frame(engine, [part], schemas, columns)
            raise DataError(f"{engine} cannot read {listed(parts)} together: {first_line(error)}") from error
        raise DataError(f"{parts[0]}: {engine} cannot read it: {first_line(error)}") from error


def listed(parts: Sequence[str]) -> str:
    """Name the first of some files, and the number of others."""
    more = len(parts) - 1
    return parts[0] + (f" and {more} other{'s' * (more > 1)}" if more else "")


# A table in files, or a frame.


@dataclass(frozen=True)
class Input:
    """A table of votes and distances, not yet read."""

    engine: str  # what reads it
    frame: Any  # a lazy frame of narwhals, with the columns that are needed
    known: Mapping[str, str]  # those columns, with their names in the frame
    pairs: Pairs  # the columns of each distance
    parts: list[str]  # the files; none where a frame was given
    schemas: Schemas  # of the local files
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
    def named(self) -> str:
        """The files in a few words, or "the table"."""
        return listed(self.parts) if self.parts else "the table"

    def error(self, rule: str) -> DataError:
        """Return the error for a broken rule, with the files if there are any."""
        return DataError(f"{self.named}: {rule}" if self.parts else rule)


def open_table(source: Any, engine: str | None, distances: Sequence[str] | None, keep_refs: bool) -> Input:
    """Open files, or take a frame of any library that narwhals supports."""
    if engine is not None and engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}; there are {', '.join(ENGINES)}")
    if isinstance(source, str | os.PathLike | list | tuple):
        return _open_files(source, engine or "polars", distances, keep_refs)
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
        kind, frame = "polars", nw.from_native(as_numbers(native.select(columns)))
    elif frame.implementation.is_spark_like():
        kind, frame = "spark", nw.from_native(spark_selected(native, columns)).lazy()
    else:
        kind = frame.implementation.name.lower()
    known = engine_names(kind, columns)
    return Input(kind, frame.select(*known.values()), known, pairs, [], {}, keep_refs)


def _open_files(source: Any, engine: str, distances: Sequence[str] | None, keep_refs: bool) -> Input:
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
    return Input(engine, frame, known, pairs, parts, by_part, keep_refs)


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
    if isinstance(distances, str):
        raise ValueError(f"distances must be a list of names; found the text {distances!r}")
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
