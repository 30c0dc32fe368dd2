"""Any table that a user may hold, on disk or in memory, to one polars frame."""

from __future__ import annotations

import csv
import gzip
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from twoafc.columns import Where
from twoafc.errors import DataError

READABLE = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq")


def row_name(row: int) -> str:
    """Name a row of a frame; rows count from 0.

    Examples
    --------
    >>> row_name(17)
    'row 17'
    """
    return f"row {row}"


def read_frame(path: str | Path) -> tuple[pl.DataFrame, Where]:
    """Read a CSV or Parquet file; the cells of a CSV stay text until they are checked."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    if path.name.endswith((".parquet", ".pq")):
        try:
            return pl.read_parquet(path), row_name
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"not a readable Parquet file: {_first_line(error)}") from error
    if not path.name.endswith(READABLE):
        raise DataError(f"a table must be one of {', '.join(READABLE)}; found {path.name}")
    return _read_csv(path)


def _read_csv(path: Path) -> tuple[pl.DataFrame, Where]:
    try:
        with _open_text(path) as file:
            header = file.readline()
        separator = next((mark for mark in ",;\t" if mark in header), ",")
        columns = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
        if not any(columns):
            raise DataError("the file is empty; expected a header and rows")
        check_unique(columns)
        # Text first: a cell that is not a number can then be named, with its row.
        frame = pl.read_csv(path, separator=separator, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"not a readable CSV file: {_first_line(error)}") from error
    except (UnicodeDecodeError, OSError, EOFError) as error:
        raise DataError(f"not a readable CSV file: {error}") from error
    return frame.rename(dict(zip(frame.columns, columns, strict=True))), lambda row: _line_name(path, row, len(frame))


def _open_text(path: Path) -> Any:
    opener = gzip.open if path.name.endswith(".gz") else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def _line_name(path: Path, row: int, rows: int) -> str:
    """Name a row with its line too, where lines and rows go together (no line break inside a cell)."""
    with _open_text(path) as file:
        lines = sum(1 for _ in file)
    return f"row {row} (line {row + 2})" if lines == rows + 1 else f"row {row}"


def write_frame(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a frame as CSV or Parquet, by the ending of the name; never half a file."""
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"a table is written as .csv or .parquet; found {path.name}")
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.suffix == ".csv":
            frame.write_csv(partial)
        else:
            frame.write_parquet(partial)
        partial.replace(path)
    except pl.exceptions.PolarsError as error:  # what a full disk is to polars
        raise OSError(f"{path} could not be written: {_first_line(error)}") from error
    finally:
        partial.unlink(missing_ok=True)


def as_frame(table: Any) -> pl.DataFrame:
    """Take a pandas, polars or arrow frame, or a mapping of columns, as a polars frame.

    Examples
    --------
    >>> as_frame({"n": [1], "M": [2]}).columns
    ['n', 'M']
    """
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
    import narwhals as nw

    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError as error:
        kind = type(table).__name__
        raise TypeError(f"a table must be a path or a pandas, polars or arrow frame; found {kind}") from error
    return pl.DataFrame({name: _series(frame[name]) for name in frame.columns})


def _series(column: Any) -> pl.Series:
    """Carry one narwhals column over; by way of numpy, which asks for no arrow library beside pandas."""
    if column.dtype.is_numeric() and not column.is_null().any():
        return pl.Series(column.to_numpy())
    return pl.Series(column.to_list(), strict=False)


def check_unique(columns: list[str]) -> None:
    """Refuse a table in which a name heads two columns."""
    twice = {name: count for name, count in Counter(columns).items() if count > 1}
    if twice:
        name, count = next(iter(twice.items()))
        raise DataError(f"column names must differ; {name} heads {count} columns")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
