"""A table as a lazy frame of the engine that is to count it.

Each reads the needed columns by name, parts that differ one after the other: an engine that is given unlike CSV files
at once takes the columns of all of them to be those of the first, and some stumble over numbers of another width.
"""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import polars as pl

from twoafc.engine.csv_parts import dask_csv, duckdb_csv, polars_csv, spark_csv
from twoafc.engine.parts import Head, csv_head, is_parquet, is_remote
from twoafc.engine.session import spark_session
from twoafc.errors import DataError, require
from twoafc.table import LABELS

Schemas = Mapping[str, Mapping[str, pl.DataType | None]]
Columns = Sequence[str] | None
"""Those that are needed; None for all, of files whose columns are not known yet."""


def polars_frame(parts: Sequence[str], found: Schemas, columns: Columns) -> pl.LazyFrame:
    """Scan the parts with polars."""
    if not is_parquet(parts[0]):
        read = (polars_csv(part, _head(part), glob=is_remote(part)) for part in parts)
        return pl.concat(frame if columns is None else frame.select(columns) for frame in read)
    # Where they are known to lie here, a bracket or a star is part of a name.
    options: dict[str, Any] = {"glob": any(map(is_remote, parts)), "hive_partitioning": False}
    options["extra_columns"] = "ignore"  # that only some parts have; nothing asks for them
    if columns is None:
        return pl.scan_parquet(list(parts), **options)
    frames = [pl.scan_parquet(alike, **options).select(columns) for _, alike in _alike(parts, found, columns)]
    if len(frames) == 1:
        return frames[0]
    kinds = [pl.col(name).cast(pl.String if name in LABELS else pl.Float64) for name in columns]
    return pl.concat(frame.select(kinds) for frame in frames)


def duckdb_frame(parts: Sequence[str], found: Schemas, columns: Columns) -> Any:
    """Read the parts with DuckDB."""
    duckdb = require("duckdb", extra="cluster")
    refuse_like_names("duckdb", found)
    frames = []
    for head, alike in _alike(parts, found, columns):
        paths = [part if is_remote(part) else glob.escape(part) for part in alike]
        if is_parquet(paths[0]):
            frame = duckdb.read_parquet(paths, union_by_name=True, hive_partitioning=False)
        else:
            frame = duckdb_csv(paths, head)
        frames.append(frame if columns is None else frame.select(*map(duckdb.ColumnExpression, columns)))
    return reduce(lambda one, other: one.union(other), frames)


def dask_frame(parts: Sequence[str], found: Schemas, columns: Columns) -> Any:
    """Read the parts with Dask; where a distributed client is open, its workers do the work."""
    frames = require("dask.dataframe", extra="cluster")
    named = None if columns is None else list(columns)
    read = []
    for head, alike in _alike(parts, found, columns):
        paths = [part if is_remote(part) else glob.escape(part) for part in alike]
        if is_parquet(paths[0]):
            # Folders named group=x would otherwise be taken for a second column of that name.
            read.append(frames.read_parquet(paths, columns=named, dataset={"partitioning": None}))
        else:
            frame = dask_csv(paths, head)
            read.append(frame if named is None else frame[named])
    if len(read) == 1 or named is None:
        return read[0]
    kinds = {name: "string" if name in LABELS else "float64" for name in named}
    return frames.concat([frame.astype(kinds) if is_parquet(parts[0]) else frame for frame in read])


def spark_frame(parts: Sequence[str], found: Schemas, columns: Columns) -> Any:
    """Read the parts with Spark, in the session that is open or a local one; columns have the names of `spoken`."""
    require("pyspark.sql", extra="spark")
    refuse_like_names("spark", found)
    _refuse_for_spark(parts)
    session = spark_session()
    frames = []
    for head, alike in _alike(parts, found, columns):
        paths = [part if is_remote(part) else f"file://{_spark_escaped(os.path.abspath(part))}" for part in alike]
        frame = session.read.parquet(*paths) if is_parquet(paths[0]) else spark_csv(session, paths, head)
        frames.append(frame if columns is None else spark_selected(frame, columns))
    return reduce(lambda one, other: one.union(other), frames)


def spark_selected(frame: Any, columns: Sequence[str]) -> Any:
    """Take columns of a Spark frame by their place, under the names of `spoken`."""
    places = [frame.columns.index(name) for name in columns]
    numbered = frame.toDF(*(f"column_{place}" for place in range(len(frame.columns))))
    return numbered.select(*(f"column_{place}" for place in places)).toDF(*spoken("spark", columns).values())


def spoken(engine: str, columns: Sequence[str]) -> dict[str, str]:
    """Names by which an engine is told of columns: Spark takes a dot or a backtick in one for a sign of its own.

    Examples
    --------
    >>> spoken("spark", ["n", "v0.1_d0"])
    {'n': 'n', 'v0.1_d0': 'needed_1'}
    """
    odd = engine == "spark"
    return {
        name: f"needed_{place}" if odd and not re.fullmatch(r"\w+", name) else name
        for place, name in enumerate(columns)
    }


def _alike(parts: Sequence[str], found: Schemas, columns: Columns) -> list[tuple[Head | None, list[str]]]:
    """Parts that can be read at once: Parquet files with columns of the same types, CSV files that begin alike."""
    if is_parquet(parts[0]):
        types = defaultdict(list)
        for part in parts:
            types[tuple(str(found[part].get(name)) for name in columns or ()) if part in found else ()].append(part)
        return [(None, alike) for alike in types.values()]
    heads: dict[Head | None, list[str]] = defaultdict(list)
    for part in parts:
        heads[_head(part)].append(part)
    return list(heads.items())


def _head(part: str) -> Head | None:
    return None if is_remote(part) else csv_head(part)


def refuse_like_names(engine: str, found: Schemas) -> None:
    """Refuse columns that the engine would take for one another."""
    for part, columns in found.items():
        held: dict[str, str] = {}
        for name in columns:
            other = held.setdefault(name.lower(), name)
            if other != name:
                raise DataError(
                    f"{part}: {engine} cannot tell the columns {other} and {name} apart; rename one, or count with "
                    "polars or dask"
                )


def _refuse_for_spark(parts: Sequence[str]) -> None:
    for part in parts:
        name = os.path.basename(part)
        if name.startswith(("_", ".")):
            raise DataError(f"{part}: spark passes over files whose names begin with _ or .; rename it")
        if not is_remote(part) and ":" in os.path.abspath(part):
            raise DataError(f"{part}: spark cannot read a file with a colon in its path; rename it")


def _spark_escaped(part: str) -> str:
    return re.sub(r"([][{}*?\\])", r"\\\1", part)


ENGINES: dict[str, Callable[[Sequence[str], Schemas, Columns], Any]] = {
    "polars": polars_frame,
    "duckdb": duckdb_frame,
    "dask": dask_frame,
    "spark": spark_frame,
}
