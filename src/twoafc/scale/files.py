"""The files of a table: listed from paths and patterns, and inspected before any long work begins."""

from __future__ import annotations

import csv
import glob
import gzip
import hashlib
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from twoafc.errors import DataError
from twoafc.files import reading_parquet, require_file, require_utf8
from twoafc.table import LABELS, READABLE, all_named, csv_header

Schemas = Mapping[str, Mapping[str, pl.DataType | None]]
"""Columns of each file, with their types where the file has them."""
PARQUET = (".parquet", ".pq")
END = 2**16
"""Bytes at either end that identify a file: in Parquet the last hold the extremes of its columns."""


class Size(NamedTuple):
    """How large a table is: its rows (None where only reading all of it would tell) and the bytes of its files."""

    rows: int | None
    bytes: int


class Head(NamedTuple):
    """How a CSV file begins: its separator, the names of its columns, and how many blank lines come before these."""

    mark: str
    names: tuple[str, ...]
    blank: int


def find_parts(source: str | Path | Sequence[str | Path]) -> list[str]:
    """List the files that a path, a pattern or a list of them names, in order; remote ones are taken as they are.

    Examples
    --------
    >>> find_parts("s3://votes/*.parquet")
    ['s3://votes/*.parquet']
    """
    named = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not named:
        raise ValueError("name at least one file of votes")
    parts = [part for name in map(str, named) for part in ([name] if is_remote(name) else _found(name))]
    for part in parts:
        if not is_remote(part):
            require_file(part)
        if not part.lower().endswith(READABLE):
            raise DataError(f"a table must be one of {', '.join(READABLE)}; found {part}")
    kinds = {is_parquet(part) for part in parts}
    if len(kinds) > 1:
        raise DataError(f"parts must be all Parquet or all CSV; found {parts[0]} and others")
    _refuse_twice(parts)
    return parts


def _found(name: str) -> list[str]:
    """Files that a path or a pattern names; of a folder, as Spark and Dask write tables, those of Parquet in it."""
    # A file whose own name has a bracket in it is that file, not a pattern.
    paths = [name] if os.path.exists(name) or not glob.has_magic(name) else sorted(glob.glob(name, recursive=True))
    if not paths:
        raise DataError(f"no file matches {name}")
    return [part for path in paths for part in (_inside(path) if os.path.isdir(path) else [path])]


def _inside(folder: str) -> list[str]:
    ended = (path for path in Path(folder).rglob("*") if path.is_file() and is_parquet(path.name))
    paths = sorted(str(path) for path in ended if not any(map(_is_hidden, path.relative_to(folder).parts)))
    if not paths:
        raise DataError(f"{folder} is a folder without Parquet files; name the files of the table")
    return paths


def _is_hidden(name: str) -> bool:
    """Whether Spark and others put it beside a table: _temporary, _delta_log, .staging; not a folder _day=3 of it."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _refuse_twice(parts: Sequence[str]) -> None:
    """Refuse a file that is named twice, by whatever paths: its votes would count double."""
    named: dict[str, str] = {}
    for part in parts:
        place = part if is_remote(part) else os.path.realpath(part)
        if place in named:
            other = f"as {named[place]} too" if named[place] != part else f"{parts.count(part)} times"
            raise DataError(f"a part must be named once; {part} is named {other}")
        named[place] = part


def is_remote(part: str) -> bool:
    """Whether an engine must fetch a file itself: s3://, gs://, https:// and the like."""
    return "://" in part


def is_parquet(part: str) -> bool:
    """Whether a file is Parquet, by the end of its name; otherwise CSV."""
    return part.lower().endswith(PARQUET)


def schemas(parts: Sequence[str]) -> dict[str, dict[str, pl.DataType | None]]:
    """Columns of each local part, with their types where the file says them; an unreadable part is named."""
    return {part: _schema(part) for part in parts if not is_remote(part)}


def _schema(part: str) -> dict[str, pl.DataType | None]:
    if is_parquet(part):
        with reading_parquet(part):
            return dict(pl.scan_parquet(part, glob=False).collect_schema())
    try:
        return dict.fromkeys(csv_head(part).names)
    except DataError as error:
        raise DataError(f"{part}: {error}") from error
    except (UnicodeDecodeError, OSError, EOFError) as error:
        raise DataError(f"{part}: not a readable CSV file: {first_line(error)}") from error


def csv_head(part: str) -> Head:
    """Look at the first lines of a CSV file; its first row may have no more values than there are columns."""
    with _opener(part)(part, "rb") as file:
        require_utf8(file.read(4))
    with _opener(part)(part, "rt", encoding="utf-8-sig") as file:
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
    return Head(mark, tuple(all_named(names)), blank)


def _opener(part: str) -> Any:
    return gzip.open if part.lower().endswith(".gz") else open


def check_alike(schemas: Mapping[str, Mapping[str, pl.DataType | None]], needed: Sequence[str]) -> None:
    """Refuse parts without a column that the others have, or with values of a wrong type in it."""
    for part, columns in schemas.items():
        for name in needed:
            if name not in columns:
                raise DataError(f"{part} has no column {name}, which the others have")
            kind = columns[name]
            if kind is not None and (rule := broken_kind(name, kind)):
                raise DataError(f"{part}: {rule}; the column holds {kind}")
        for folder in Path(part).parts[:-1]:
            name = folder.partition("=")[0]
            if "=" in folder and name in LABELS and name not in columns:
                raise DataError(f"{part} has no column {name}, only a folder {folder}; write the column into the files")


def broken_kind(name: str, kind: Any) -> str | None:
    """Return the rule that a column of some type (of polars or narwhals) breaks; None where it breaks none.

    Examples
    --------
    >>> broken_kind("group", pl.Float64())
    'group must be text or whole numbers to be counted'
    """
    if name not in LABELS:
        return None if kind.is_numeric() or str(kind) in ("Boolean", "Null") else f"{name} must be a number"
    # Engines write 1e8 and True in different ways, so that groups would not be the same.
    odd = kind.is_float() or kind.is_decimal() or kind.is_temporal() or kind.is_nested()
    return f"{name} must be text or whole numbers to be counted" if odd or str(kind) in ("Boolean", "Binary") else None


def size(source: str | Path | Sequence[str | Path]) -> Size:
    """Return the size of a table from the ends of its files, without reading them.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> pl.DataFrame({"n": [1, 2, 3]}).write_parquet(f"{folder}/a.parquet")
    >>> size(f"{folder}/*.parquet").rows
    3
    """
    parts = find_parts(source)
    local = [part for part in parts if not is_remote(part)]
    used = sum(os.path.getsize(part) for part in local)
    if len(local) < len(parts) or not is_parquet(parts[0]):
        return Size(None, used)
    schemas(parts)  # names the part that cannot be read
    return Size(sum(_rows(part) for part in parts), used)


def _rows(part: str) -> int:
    with reading_parquet(part):
        return int(pl.scan_parquet(part, glob=False).select(pl.len()).collect().item())


def fingerprints(parts: Sequence[str]) -> tuple[str, ...]:
    """Identify files, whatever they are called, by their sizes and ends; none where one of them is remote.

    Files without rows are left out: they hold no votes, and those of any two sites are the same.

    Examples
    --------
    >>> fingerprints(["s3://votes/a.parquet"])
    ()
    """
    if any(map(is_remote, parts)):
        return ()
    return tuple(sorted(_fingerprint(part) for part in parts if not is_bare(part)))


def is_bare(part: str) -> bool:
    """Whether a local file has columns but no rows.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> pl.DataFrame({"n": [], "M": []}).write_csv(f"{folder}/a.csv")
    >>> is_bare(f"{folder}/a.csv")
    True
    """
    if is_parquet(part):
        return _rows(part) == 0
    with _opener(part)(part, "rb") as file:
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
