"""Finding the part and the row that broke a rule, once counting has met one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.engine.csv_parts import polars_csv
from twoafc.engine.parts import csv_head, first_line, is_parquet, is_remote
from twoafc.engine.program import collected
from twoafc.engine.rules import broken_choice, broken_counts, broken_distance, broken_name
from twoafc.errors import DataError
from twoafc.table import (
    LABELS,
    RESERVED_GROUPS,
    Where,
    choices_of,
    counts_of,
    finite_column,
    labels_of,
    refuse,
    row_name,
)

Pairs = Mapping[str, tuple[str, str]]
SLICE = 1_000_000
"""Rows looked at together."""
ROW = "\0row"


def check_rows(frame: pl.DataFrame, pairs: Pairs, where: Where) -> None:
    """Raise a `DataError` that names the first rule that some rows break, if they break any."""
    labels_of(frame, where)
    choices_of(frame, where) if "choice" in frame.columns else counts_of(frame, where)
    for pair in pairs.values():
        for name, values in zip(pair, (finite_column(frame, column, where) for column in pair), strict=True):
            rule = f"{name} must be at least 0 to be counted"
            refuse(values < 0, rule, where, _told(name, values))


def _told(name: str, values: NDArray[np.float64]) -> Callable[[int], str]:
    return lambda row: f"{name}={values[row]}"


def _named(numbers: pl.Series) -> Where:
    return lambda row: row_name(numbers[row])


def blame_parts(parts: Sequence[str], columns: Sequence[str], pairs: Pairs) -> None:
    """Go through the parts, a slice at a time, and raise a `DataError` for the first that is at fault."""
    for part in (part for part in parts if not is_remote(part)):
        kind = "Parquet" if is_parquet(part) else "CSV"
        try:
            for numbers, rows in _slices(part, columns):
                check_rows(rows, pairs, _named(numbers))
        except DataError as error:
            raise DataError(f"{part}: {error}") from error
        except (pl.exceptions.PolarsError, OSError, EOFError) as error:
            raise DataError(f"{part}: not a readable {kind} file: {first_line(error)}") from error


def _slices(part: str, columns: Sequence[str]) -> Iterator[tuple[pl.Series, pl.DataFrame]]:
    """Rows of a part, some at a time, with their numbers; what holds nothing is a row of the file too, and left out."""
    if is_parquet(part):
        frame = pl.scan_parquet(part, glob=False, row_index_name=ROW)
    else:
        frame = polars_csv(part, csv_head(part), glob=False, row_index_name=ROW)
    first = 0
    while len(rows := frame.select(ROW, *columns).slice(first, SLICE).collect()):
        yield rows[ROW], rows.drop(ROW)
        first += len(rows)


def blame_frame(frame: Any, known: Mapping[str, str], pairs: Pairs) -> None:
    """Look for a broken rule among the rows of a lazy frame that may break one; only those are brought here.

    Parameters
    ----------
    known : mapping of column to its name in the frame
    """
    columns = list(known)
    odd = broken_choice() if "choice" in columns else broken_counts()
    for name in (name for pair in pairs.values() for name in pair):
        odd = odd | broken_distance(known[name])
    for name in (name for name in columns if name in LABELS):
        odd = odd | broken_name(name, RESERVED_GROUPS if name == "group" else ())
    found = collected(frame.filter(odd).select(*known.values()).head(1000))
    try:
        check_rows(found.rename({name: column for column, name in known.items()}), pairs, lambda row: "a row")
    except DataError as error:
        # How many break a rule is not known: only some of them were brought.
        raise DataError(re.sub(r" \(\d+ of \d+ rows\)$", "", str(error))) from error
