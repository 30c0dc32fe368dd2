"""The general case: a CSV or Parquet file of image paths, with n and M, or one choice per row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from twoafc.datasets.counted import counted
from twoafc.datasets.dataset import PAIR, Dataset, note_missing
from twoafc.datasets.endings import with_endings
from twoafc.errors import DataError
from twoafc.table import (
    QUADRUPLE,
    TRIPLET,
    Where,
    check_unique,
    choices_of,
    counts_of,
    labels_of,
    read_frame,
    refuse,
    says_votes,
)


def open_table(path: str | Path, *, folder: str | Path | None = None) -> Dataset:
    """Open a table whose columns ``ref``, ``x0`` and ``x1`` are paths of images.

    Quadruples have ``ref0, x0, ref1, x1``; pairs ``ref, x``, with n the votes for "same". The other columns are those
    of any table: n and M, or choice; triplet, group and observer where known. Repeats of a triplet that come as
    choices are merged, shown either way round. Paths may have been written on Windows, and may lack their endings
    where only one file can be meant. Distances that the table has are left aside.

    Parameters
    ----------
    path : str or Path
        CSV or Parquet.
    folder : str or Path, default the table's own
        Where relative paths start.
    """
    path = Path(path)
    try:
        frame, where = read_frame(path)
        data = _dataset(frame, where, Path(path.parent if folder is None else folder))
        return note_missing(with_endings(data))
    except DataError as error:
        raise DataError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from error


def roles_of(columns: list[str]) -> tuple[str, ...] | None:
    """Tell what the images of a row are, by a table's columns; None where it has none of images.

    Examples
    --------
    >>> roles_of(["n", "M", "x1", "x0", "ref"])
    ('ref', 'x0', 'x1')
    """
    return next((roles for roles in (QUADRUPLE, TRIPLET, PAIR) if set(roles) <= set(columns)), None)


def _dataset(frame: pl.DataFrame, where: Where, folder: Path) -> Dataset:
    check_unique(frame.columns)
    roles = roles_of(frame.columns)
    if roles is None and {"s1", "s2", "s3", "s4"} <= {name.lower() for name in frame.columns}:
        raise DataError(
            "difference scaling (s1 to s4) has no images to measure; twoafc.datasets.read_quadruples(PATH) gives its "
            "table of n, M, d0, d1: write that to a file, which evaluate reads"
        )
    if roles is None:
        raise DataError(
            "no images in the table; expected columns of paths, ref, x0, x1 (or ref0, x0, ref1, x1, or ref, x); "
            f"found {', '.join(frame.columns)}"
        )
    votes_given = says_votes(frame.columns)
    if votes_given and roles == PAIR:
        raise DataError("pairs (ref, x) need n, the votes for 'same', and M; found choice")
    if frame.is_empty():
        raise DataError("the table has no rows")
    labels = _labels(frame, roles, where)
    if votes_given:
        table, notes = counted(labels, choices_of(frame, where))
    else:
        n, M = counts_of(frame, where)
        table, notes = labels.with_columns(n=pl.Series(n), M=pl.Series(M)), []
    table, renamed = _identified(table)
    measured = [name for name in frame.columns if name in ("d", "d0", "d1") or name.endswith(("_d", "_d0", "_d1"))]
    if measured:
        notes.append(f"distances that the table has already are left aside: {', '.join(measured)}")
    twins = int(_twins(table, roles).sum())
    if twins:
        notes.append(f"{twins} of {len(table)} rows show one image twice, as x0 and as x1")
    return Dataset("table", folder, roles, {role: table[role] for role in roles}, table, (*notes, *renamed))


def _labels(frame: pl.DataFrame, roles: tuple[str, ...], where: Where) -> pl.DataFrame:
    """Take the columns that name things: triplet, group, the images' paths, observer."""
    order = [name for name in ("triplet", "group", *roles, "observer") if name in frame.columns]
    labels = labels_of(frame.select(order), where)
    if roles == PAIR:
        path = frame["x"].cast(pl.String)
        refuse((path.is_null() | (path == "")).to_numpy(), "x must not be missing", where, lambda row: "no x")
        labels = labels.with_columns(x=path)
    paths = pl.col(roles).str.strip_chars().str.replace_all("\\", "/", literal=True)
    return labels.select(order).with_columns(paths)


def _identified(table: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Give every row a name of its own: the one it has, with its group where that tells rows apart, or its number."""
    if "triplet" not in table.columns:
        number = pl.Series("triplet", np.arange(len(table))).cast(pl.String)
        return table.insert_column(0, number), []
    if table["triplet"].is_duplicated().any() and "group" in table.columns:
        named = pl.concat_str("group", pl.lit("/"), "triplet").alias("triplet")
        return table.with_columns(named), ["triplets are named GROUP/TRIPLET, since groups share their names"]
    return table, []


def _twins(table: pl.DataFrame, roles: tuple[str, ...]) -> pl.Series:
    if roles == PAIR:
        return pl.Series([False])
    same = table["x0"] == table["x1"]
    return same if roles == TRIPLET else same & (table["ref0"] == table["ref1"])
