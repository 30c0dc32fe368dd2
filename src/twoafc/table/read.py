"""Tables on disk or in memory to polars frames, and back."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import polars as pl

from twoafc.errors import DataError, first_line, naming
from twoafc.files import durable_file, reading_csv, reading_parquet, require_file
from twoafc.table.rules import LABELS, PAIR_LABELS, Where

SEPARATORS = ",;\t"
KNOWN = {"n", "M", "choice", "weight", "d", "d0", "d1", *LABELS, *PAIR_LABELS}
READABLE = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq")


def row_name(row: int) -> str:
    """Name a row of a frame; rows count from 0."""
    return f"row {row}"


def read_frame(path: str | Path) -> tuple[pl.DataFrame, Where]:
    """Read a CSV or Parquet file; the cells of a CSV stay text until they are checked."""
    path = Path(path)
    name = path.name.lower()
    require_file(path)
    if not name.endswith(READABLE):
        raise DataError(f"a table must be one of {', '.join(READABLE)}; found {path.name}")
    if name.endswith((".parquet", ".pq")):
        with reading_parquet(path):
            return pl.read_parquet(path), row_name
    with reading_csv():
        return _read_csv(path)


def renamed(frame: pl.DataFrame, rename: Mapping[str, str] | None) -> pl.DataFrame:
    """Rename columns, OLD to NEW."""
    for old, new in (rename or {}).items():
        if old not in frame.columns:
            raise DataError(f"no column {old} to rename to {new}; found {', '.join(frame.columns)}")
        if new in frame.columns and new not in (rename or {}):
            raise DataError(f"{old} cannot be renamed to {new}, which is another column of the table")
    return frame.rename(dict(rename)) if rename else frame


def read_frames(paths: Sequence[str | Path]) -> tuple[pl.DataFrame, Where]:
    """Read a table in several files, all with the same columns; rows are named with their file."""
    if len(paths) == 1:
        return _named_frame(paths[0])
    frames, places = zip(*map(_named_frame, paths), strict=True)
    for path, frame in zip(paths, frames, strict=True):
        odd = sorted({*frame.columns} ^ {*frames[0].columns})
        if odd:
            has, lacks = (paths[0], path) if odd[0] in frames[0].columns else (path, paths[0])
            raise DataError(f"parts must have the same columns; {lacks} has no {odd[0]}, which {has} has")
    starts = np.cumsum([0, *map(len, frames)])
    try:
        whole = pl.concat((frame.select(frames[0].columns) for frame in frames), how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        raise DataError(f"the columns of {paths[0]} and the other parts do not fit: {first_line(error)}") from error

    def where(row: int) -> str:
        part = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{paths[part]}, {places[part](row - int(starts[part]))}"

    return whole, where


def _named_frame(path: str | Path) -> tuple[pl.DataFrame, Where]:
    with naming(path):
        return read_frame(path)


def _read_csv(path: Path) -> tuple[pl.DataFrame, Where]:
    with open_csv(path) as file:
        text = re.sub(r"\A(?:[ \t]*\n)+", "", file.read())  # without blank lines at the start
    separator, columns = csv_header(text)
    # Text first: a cell that is not a number can then be named, with its row.
    frame = pl.read_csv(text.encode(), separator=separator, infer_schema=False, raise_if_empty=False)
    frame.columns = all_named(columns)
    # Leave out blank lines, and columns without a name: the index of pandas, or a comma at the end of each line.
    rows = np.flatnonzero(frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series().to_numpy())
    for place, name in enumerate(columns):
        if place and not name and frame[frame.columns[place]].is_not_null().any():
            raise DataError(f"every column needs a name; column {place + 1} of {len(columns)} has none")
    frame = frame.select(name for name in columns if name)
    lines = len(text.splitlines()) == len(frame) + 1

    def where(row: int) -> str:
        # Line breaks inside cells shift the lines: only the row is named then.
        return f"row {rows[row]} (line {rows[row] + 2})" if lines else f"row {rows[row]}"

    return frame[rows], where


def open_csv(path: str | Path) -> TextIO:
    """Open a CSV file, packed or not, as text with plain line ends, without a byte order mark."""
    opener: Any = gzip.open if str(path).lower().endswith(".gz") else open
    with opener(path, "rb") as file:
        start = file.read(4)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in start:
        raise DataError('a table must be text in UTF-8; found UTF-16: save it again as "CSV UTF-8"')
    text: TextIO = opener(path, "rt", encoding="utf-8-sig")
    return text


def csv_header(text: str) -> tuple[str, list[str]]:
    r"""Separator and column names of a CSV that begins with its header; no name is there twice.

    Examples
    --------
    >>> csv_header('n; M; d0; "d1"\n1;2;0.3;0.4')
    (';', ['n', 'M', 'd0', 'd1'])
    """
    heads = {mark: _split(text, mark) for mark in SEPARATORS}
    mark = max(heads, key=lambda mark: len(KNOWN & set(heads[mark])))
    if not any(heads[mark]):
        raise DataError("the file is empty; expected a header and rows")
    check_unique([name for name in heads[mark] if name])
    return mark, heads[mark]


def _split(text: str, mark: str) -> list[str]:
    rows = csv.reader(io.StringIO(text), delimiter=mark, skipinitialspace=True)
    try:
        return [name.strip() for name in next(rows, [])]
    except csv.Error as error:
        raise DataError(f"a table must begin with the names of its columns; {error}") from error


def all_named(columns: Sequence[str]) -> list[str]:
    """Name columns without a name by something that no file has."""
    return [name or f"\0{place}" for place, name in enumerate(columns)]


def write_frame(frame: pl.DataFrame, path: str | Path, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a frame as CSV or Parquet (there with metadata), by the ending of the name; never half a file."""
    path = Path(path)
    require_table_path(path)
    with durable_file(path) as partial:
        try:
            csv = path.suffix == ".csv"
            frame.write_csv(partial) if csv else frame.write_parquet(partial, metadata=dict(metadata or {}))
        except pl.exceptions.PolarsError as error:  # a full disk
            raise OSError(first_line(error)) from error


def require_table_path(path: Path) -> None:
    """Raise an error where no table can be written: the ending of the name says the kind, and the folder exists."""
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"a table is written as .csv or .parquet; found {path.name}")
    if not path.parent.is_dir():
        raise OSError(f"no such folder: {path.parent}")


def as_frame(table: Any) -> pl.DataFrame:
    """Convert a pandas, polars or arrow frame, or a mapping of columns, to a polars frame."""
    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, Mapping):
        lengths = {str(name): len(column) for name, column in table.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"columns must have one length; found {lengths}")
        return pl.DataFrame({str(name): pl.Series(column, strict=False) for name, column in table.items()})
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if names is not None:
        check_unique([str(name) for name in names])
    if hasattr(table, "__arrow_c_array__") and hasattr(table, "num_columns"):
        return pl.DataFrame(table)
    import narwhals as nw

    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError as error:
        kind = type(table).__name__
        raise TypeError(f"a table must be a path or a pandas, polars or arrow frame; found {kind}") from error
    return pl.DataFrame({str(column.name): _series(column) for column in frame.iter_columns()})


def native_kind(table: Any) -> str | None:
    """Name the library of a frame, for `to_native`; None for polars and what is not a frame."""
    if isinstance(table, pl.DataFrame | pl.LazyFrame | Mapping | str | Path):
        return None
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True, pass_through=True)
    return frame.implementation.value if isinstance(frame, nw.DataFrame) else None


def to_native(frame: pl.DataFrame, kind: str | None) -> Any:
    """Convert a frame to one of the library that `native_kind` named."""
    if kind is None:
        return frame
    import narwhals as nw

    backend: Any = kind
    return nw.from_dict(frame.to_dict(as_series=False), backend=backend).to_native()


def _series(column: Any) -> pl.Series:
    """Convert a narwhals column by way of numpy, since pandas may be installed without arrow."""
    missing = column.is_null()
    if (column.dtype.is_integer() or column.dtype.is_float()) and not missing.any():
        return pl.Series(column.to_numpy())
    return pl.Series([None if gone else value for value, gone in zip(column, missing, strict=True)], strict=False)


def check_unique(columns: list[str]) -> None:
    """Refuse a table with two columns of one name."""
    for name, count in Counter(columns).most_common(1):
        if count > 1:
            raise DataError(f"column names must differ; {name} is the name of {count} columns")
