"""The files that a table lies in: found by path or pattern, and looked at before any long work begins."""

from __future__ import annotations

import csv
import glob
import gzip
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from twoafc.errors import DataError
from twoafc.frames import KNOWN, READABLE, SEPARATORS

PARQUET = (".parquet", ".pq")


class Size(NamedTuple):
    """How large a table is: its rows (None where only reading all of it would tell) and the bytes of its files."""

    rows: int | None
    bytes: int


def find_parts(source: str | Path | Sequence[str | Path]) -> list[str]:
    """Find the files that a path, a pattern or a list of them names, in order; remote ones are taken as they are.

    Examples
    --------
    >>> find_parts("s3://votes/*.parquet")
    ['s3://votes/*.parquet']
    """
    named = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not named:
        raise ValueError("name at least one file of votes")
    parts: list[str] = []
    for name in map(str, named):
        if is_remote(name):
            parts.append(name)
            continue
        # A file whose own name has a bracket in it is that file, not a pattern.
        found = [name] if os.path.exists(name) or not glob.has_magic(name) else sorted(glob.glob(name, recursive=True))
        if not found:
            raise DataError(f"no file matches {name}")
        parts += found
    for part in parts:
        if not is_remote(part) and not os.path.isfile(part):
            raise DataError(f"no such file: {part}")
        if not part.lower().endswith(READABLE):
            raise DataError(f"a table must be one of {', '.join(READABLE)}; found {part}")
    kinds = {is_parquet(part) for part in parts}
    if len(kinds) > 1:
        raise DataError(f"parts must be all Parquet or all CSV; found {parts[0]} and others")
    twice = next((part for part in parts if parts.count(part) > 1), None) if len(set(parts)) < len(parts) else None
    if twice:
        raise DataError(f"a part must be named once; {twice} is named {parts.count(twice)} times")
    return parts


def is_remote(part: str) -> bool:
    """Tell whether an engine must fetch a file itself: s3://, gs://, https:// and the like."""
    return "://" in part


def is_parquet(part: str) -> bool:
    """Tell Parquet from CSV by the name's end."""
    return part.lower().endswith(PARQUET)


def schemas(parts: Sequence[str]) -> dict[str, dict[str, pl.DataType | None]]:
    """Columns of each local part, with their types where the file says them; an unreadable part is named."""
    return {part: _schema(part) for part in parts if not is_remote(part)}


def _schema(part: str) -> dict[str, pl.DataType | None]:
    kind = "Parquet" if is_parquet(part) else "CSV"
    try:
        if is_parquet(part):
            return dict(pl.read_parquet_schema(part))
        return dict.fromkeys(csv_head(part)[1])
    except (pl.exceptions.PolarsError, UnicodeDecodeError, OSError, EOFError) as error:
        raise DataError(f"{part}: not a readable {kind} file: {first_line(error)}") from error


def csv_head(part: str) -> tuple[str, list[str]]:
    """Separator and column names of a CSV file."""
    opener = gzip.open if part.lower().endswith(".gz") else open
    with opener(part, "rt", encoding="utf-8-sig") as file:
        line = next((line for line in file if line.strip()), "")
    heads = {mark: [name.strip() for name in next(csv.reader([line], delimiter=mark))] for mark in SEPARATORS}
    mark = max(heads, key=lambda mark: len(KNOWN & set(heads[mark])))
    return mark, heads[mark]


def check_alike(found: Mapping[str, Mapping[str, pl.DataType | None]], needed: Sequence[str]) -> None:
    """Refuse parts that lack a column which the others have, or hold text where a number must be."""
    for part, columns in found.items():
        for name in needed:
            if name not in columns:
                raise DataError(f"{part} has no column {name}, which the others have")
            kind = columns[name]
            named = name in ("group", "ref", "ref0", "x0", "ref1", "x1", "triplet")
            if kind is not None and not named and not (kind.is_numeric() or kind == pl.Boolean):
                raise DataError(f"{part}: {name} must be a number; the column holds {kind}")


def size(source: str | Path | Sequence[str | Path]) -> Size:
    """Tell how large a table is from the ends of its files, without reading them.

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
    try:
        return int(pl.scan_parquet(part).select(pl.len()).collect().item())
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{part}: not a readable Parquet file: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """First line of what an engine said."""
    return (str(error).strip() or type(error).__name__).split("\n")[0]
