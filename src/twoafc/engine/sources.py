"""A table as a lazy frame of the engine that is to count it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from twoafc.engine.parts import csv_head, is_parquet, is_remote
from twoafc.errors import require

Schemas = Mapping[str, Mapping[str, pl.DataType | None]]


def polars_frame(parts: Sequence[str], found: Schemas, columns: Sequence[str]) -> pl.LazyFrame:
    """Scan the parts with polars; parts whose numbers differ in width are brought to one."""
    if not is_parquet(parts[0]):
        mark = "," if is_remote(parts[0]) else csv_head(parts[0])[0]
        # Labels stay text, whatever their first rows look like; all else is a number or an error.
        typed = {name: pl.String if name in LABELS else pl.Float64 for name in columns}
        return pl.concat(pl.scan_csv(part, separator=mark, schema_overrides=typed).select(columns) for part in parts)
    kinds = {tuple(schema.get(name) for name in columns) for schema in found.values()}
    if len(kinds) <= 1:
        return pl.scan_parquet(list(parts)).select(columns)
    each = (pl.scan_parquet(part).select(columns) for part in parts)
    return pl.concat(
        frame.select(pl.col(name).cast(pl.String if name in LABELS else pl.Float64) for name in columns)
        for frame in each
    )


def duckdb_frame(parts: Sequence[str], found: Schemas, columns: Sequence[str]) -> Any:
    """Read the parts with DuckDB."""
    duckdb = require("duckdb", extra="cluster")
    if is_parquet(parts[0]):
        return duckdb.read_parquet(list(parts), union_by_name=True)
    return duckdb.read_csv(list(parts), header=True, all_varchar=True)


def dask_frame(parts: Sequence[str], found: Schemas, columns: Sequence[str]) -> Any:
    """Read the parts with Dask; where a distributed client is open, its workers do the work."""
    frames = require("dask.dataframe", extra="cluster")
    if is_parquet(parts[0]):
        return frames.read_parquet(list(parts), columns=list(columns))
    mark = "," if is_remote(parts[0]) else csv_head(parts[0])[0]
    return frames.read_csv(list(parts), sep=mark, usecols=list(columns), dtype=str)


def spark_frame(parts: Sequence[str], found: Schemas, columns: Sequence[str]) -> Any:
    """Read the parts with Spark, in the session that is open or a local one."""
    sql = require("pyspark.sql", extra="spark")
    session = sql.SparkSession.builder.appName("twoafc").getOrCreate()
    if is_parquet(parts[0]):
        return session.read.parquet(*parts).select(*columns)
    mark = "," if is_remote(parts[0]) else csv_head(parts[0])[0]
    return session.read.csv(list(parts), header=True, sep=mark).select(*columns)


LABELS = ("group", "ref", "ref0", "x0", "ref1", "x1", "triplet")
ENGINES: dict[str, Callable[[Sequence[str], Schemas, Sequence[str]], Any]] = {
    "polars": polars_frame,
    "duckdb": duckdb_frame,
    "dask": dask_frame,
    "spark": spark_frame,
}
