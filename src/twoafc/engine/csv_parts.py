"""CSV files as lazy frames of each engine, read as a table in memory is.

Columns go by the names of `csv_header`, all of them text until `as_numbers`, rows without any value are left out, and
one with more values than the header has names is an error. Of a file that lies elsewhere no head is known: the engine
goes by its own reading of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import polars as pl

from twoafc.engine.parts import Head
from twoafc.errors import require
from twoafc.table import LABELS


def polars_csv(path: str, head: Head | None, **scan: Any) -> pl.LazyFrame:
    """Scan a file with polars; `scan` is told to `polars.scan_csv` as it is."""
    if head:
        scan |= {"separator": head.mark, "with_column_names": lambda _: list(head.names), "skip_lines": head.blank}
    frame = pl.scan_csv(path, infer_schema=False, **scan)
    return frame.filter(pl.any_horizontal(pl.exclude(scan.get("row_index_name", ())).is_not_null()))


def duckdb_csv(paths: Sequence[str], head: Head | None) -> Any:
    """Read files of one header with DuckDB; left to guess, it passes over a line such as `# end`."""
    duckdb = require("duckdb", extra="cluster")
    read: dict[str, Any] = {"header": True, "quotechar": '"', "escapechar": '"'}
    if head:
        kinds = dict.fromkeys(head.names, "VARCHAR")
        read |= {"sep": head.mark, "columns": kinds, "skiprows": head.blank, "auto_detect": False}
    else:
        read |= {"sep": ",", "all_varchar": True, "union_by_name": True}
    frame = duckdb.read_csv(list(paths), **read)
    return frame.filter(duckdb.CoalesceOperator(*map(duckdb.ColumnExpression, frame.columns)).isnotnull())


def dask_csv(paths: Sequence[str], head: Head | None) -> Any:
    """Read files of one header with Dask."""
    frames = require("dask.dataframe", extra="cluster")
    # NA is a name like any other; a file that is packed cannot be read in pieces.
    read: dict[str, Any] = {"dtype": str, "keep_default_na": False, "na_values": [""]}
    if any(path.lower().endswith(".gz") for path in paths):
        read["blocksize"] = None
    if head:
        read |= {"sep": head.mark, "names": list(head.names), "header": 0, "index_col": False}
    return frames.read_csv(list(paths), **read).dropna(how="all")


def spark_csv(session: Any, paths: Sequence[str], head: Head | None) -> Any:
    """Read files of one header with Spark."""
    # Headers are compared with the first file's, where a pattern names several that lie elsewhere.
    read = {"header": True, "quote": '"', "escape": '"', "enforceSchema": head is not None, "mode": "FAILFAST"}
    frame = session.read.csv(list(paths), sep=head.mark if head else ",", **read)
    names = head.names if head else frame.columns
    # By numbers on the way: a dot in a name is a sign of Spark's own.
    return frame.toDF(*(f"column_{place}" for place in range(len(names)))).na.drop("all").toDF(*names)


def as_numbers(frame: Any, known: Mapping[str, str]) -> Any:
    """Make the text of a lazy frame's columns of numbers such that every engine reads the same numbers in it.

    What programs write for the choices 1 and 0 becomes these; 1_000 and 5f, which some engines take for numbers, none.

    Parameters
    ----------
    known : mapping of column to its name in the frame
    """
    schema = frame.collect_schema()
    texts = {column: name for column, name in known.items() if column not in LABELS and schema[name] == nw.String}
    return frame.with_columns(_number(column, name).alias(name) for column, name in texts.items())


def _number(column: str, name: str) -> Any:
    text = nw.col(name).str.strip_chars()
    said = text
    if column == "choice":
        lower = text.str.to_lowercase()
        said = nw.when(lower == "false").then(nw.lit("0")).otherwise(text)
        said = nw.when(lower == "true").then(nw.lit("1")).otherwise(said)
    return nw.when(~said.str.contains("[_dDfF]")).then(said).cast(nw.Float64)
