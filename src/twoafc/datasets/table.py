"""Tables, CSV or Parquet: of image paths, with n and M or one choice per row; or of difference scaling, without images.

Difference scaling (MLDS) asks which of two pairs of stimuli differs more. The format is that of the R package MLDS: a
row is one judgement, ``Response`` (or ``resp``) and ``s1`` to ``s4``, in any case. The first pair is s1 and s2, the
second s3 and s4; a response of 1 means that the second pair differs more.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray
from twoafc.datasets.dataset import Dataset, count_votes, note_missing
from twoafc.errors import DataError, naming
from twoafc.images import ENDINGS
from twoafc.table import (
    PAIR,
    QUADRUPLE,
    TRIPLET,
    Where,
    as_frame,
    check_unique,
    choices_of,
    counts_of,
    found_columns,
    labels_of,
    missing_votes,
    numbers_of,
    read_frame,
    refuse,
    renamed,
    row_name,
    says_votes,
    weight_of,
)

RESPONSES = ("response", "resp")
STIMULI = ("s1", "s2", "s3", "s4")


def open_table(
    path: str | Path, *, folder: str | Path | None = None, rename: Mapping[str, str] | None = None
) -> Dataset:
    """Open a table whose columns ``ref``, ``x0`` and ``x1`` are paths of images.

    Quadruples have ``ref0, x0, ref1, x1``; pairs ``ref, x``, with n the votes for "same". The other columns are those
    of any table: n and M, or choice; triplet, group, observer and weight where known. Choices on the same triplet are
    merged, whichever image was x0. Paths may be written as on Windows, and without extensions where only one file fits.
    Distances in the table are ignored.

    Parameters
    ----------
    path : str or Path
        CSV or Parquet.
    folder : str or Path, default the table's own
        The folder that paths are relative to.
    rename : mapping of OLD to NEW, optional
        Other names for some columns, ``{"response": "choice"}``.
    """
    path = Path(path)
    with naming(path):
        frame, where = read_frame(path)
        data = _dataset(renamed(frame, rename), where, Path(path.parent if folder is None else folder))
        return note_missing(_with_extensions(data))


def _dataset(frame: pl.DataFrame, where: Where, folder: Path) -> Dataset:
    check_unique(frame.columns)
    roles = next((roles for roles in (QUADRUPLE, TRIPLET, PAIR) if {*roles} <= {*frame.columns}), None)
    if roles is None and {*STIMULI} <= {name.lower() for name in frame.columns}:
        raise DataError(
            "difference scaling (s1 to s4) has no images to measure; twoafc.datasets.read_quadruples(PATH) gives its "
            "table of n, M, d0, d1: write that to a file, which evaluate reads"
        )
    if roles is None:
        votes = missing_votes(frame.columns)
        votes = f" and no {votes} (or choice)" if votes else ""
        raise DataError(
            f"no images{votes} in the table; expected columns of paths, ref, x0, x1 (or ref0, x0, ref1, x1, or ref, "
            f"x); {found_columns(frame.columns)}"
        )
    votes_given = says_votes(frame.columns)
    if votes_given and roles == PAIR:
        raise DataError("pairs (ref, x) need n, the votes for 'same', and M; found choice")
    if frame.is_empty():
        raise DataError("the table has no rows")
    labels = labels_of(frame, where, ("triplet", "group", *roles, "observer"))
    labels = labels.with_columns(pl.col(roles).str.strip_chars().str.replace_all("\\", "/", literal=True))
    weight = weight_of(frame, where)
    if weight is not None:
        labels = labels.with_columns(weight=pl.Series(weight))
    if votes_given:
        table, notes = count_votes(labels, choices_of(frame, where), where)
    else:
        n, M = counts_of(frame, where)
        table, notes = labels.with_columns(n=pl.Series(n), M=pl.Series(M)), []
    table, renamed = _identified(table)
    measured = [name for name in frame.columns if name in ("d", "d0", "d1") or name.endswith(("_d", "_d0", "_d1"))]
    if measured:
        notes.append(f"distances in the table are ignored: {', '.join(measured)}")
    if roles != PAIR:
        same = table["x0"] == table["x1"]
        twins = same if roles == TRIPLET else same & (table["ref0"] == table["ref1"])
        if twins.any():
            notes.append(f"{twins.sum()} of {len(table)} rows show one image twice, as x0 and as x1")
    return Dataset("table", folder, roles, {role: table[role] for role in roles}, table, (*notes, *renamed))


def _identified(table: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Make the names of triplets unique: as given, or with the group in front, or the row number."""
    if "triplet" not in table.columns:
        number = pl.Series("triplet", np.arange(len(table))).cast(pl.String)
        return table.insert_column(0, number), []
    if table["triplet"].is_duplicated().any() and "group" in table.columns:
        named = pl.concat_str("group", pl.lit("/"), "triplet").alias("triplet")
        return table.with_columns(named), ["triplets are named GROUP/TRIPLET, because groups share names"]
    return table, []


def _with_extensions(data: Dataset) -> Dataset:
    """Complete names of images that exist only with an extension, ``teflon`` to ``teflon.jpg``; labels stay."""
    listed: dict[str, dict[str, list[str]]] = {}
    complete: dict[str, str] = {}
    for name in sorted(set(data.missing()["file"])):
        folder, stem = os.path.split(name)
        if folder not in listed:
            listed[folder] = _images_by_stem(os.path.join(data.folder, folder))
        candidates = listed[folder].get(stem, [])
        if len(candidates) > 1:
            raise DataError(f"an image must be one file; {name} may be {' or '.join(candidates)}: add the extension")
        if candidates:
            complete[name] = f"{folder}/{candidates[0]}" if folder else candidates[0]
    if not complete:
        return data
    files = {role: names.replace(complete) for role, names in data.files.items()}
    first, *_ = complete.items()
    note = f"{len(complete)} images are named without extensions: {first[0]} is read as {first[1]}"
    return replace(data, files=files, notes=(*data.notes, note))


def _images_by_stem(folder: str) -> dict[str, list[str]]:
    stems: dict[str, list[str]] = {}
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            stem, extension = os.path.splitext(name)
            if extension.lower() in ENDINGS:
                stems.setdefault(stem, []).append(name)
    return stems


def read_quadruples(table: Any, *, scale: Sequence[float] | None = None) -> pl.DataFrame:
    """Read judgements of differences as a table that `twoafc.Triplets.from_frame` takes: n, M, d0, d1.

    ``d0 = |s2 - s1|`` and ``d1 = |s4 - s3|``; n counts responses of 0: the second pair differs less. Repeats are
    merged, whichever pair came first.

    Parameters
    ----------
    table : path of a CSV or Parquet file, or a frame
    scale : sequence of float, optional
        Physical values of the stimuli, where s1 to s4 are their numbers, from 1.

    Examples
    --------
    >>> shown = {"Response": [1, 1, 0], "s1": [1, 3, 1], "s2": [2, 7, 2], "s3": [3, 1, 4], "s4": [7, 2, 5]}
    >>> read_quadruples(shown).select("n", "M", "d0", "d1").rows()
    [(1, 2, 1.0, 4.0), (1, 1, 1.0, 1.0)]
    """
    if not isinstance(table, str | Path):
        return _scaled(as_frame(table), row_name, scale)
    with naming(table):
        return _scaled(*read_frame(table), scale)


def _scaled(frame: pl.DataFrame, where: Where, scale: Sequence[float] | None) -> pl.DataFrame:
    frame = frame.rename({name: name.lower() for name in frame.columns})
    response = next((name for name in RESPONSES if name in frame.columns), None)
    missing = [name for name in STIMULI if name not in frame.columns]
    if response is None or missing:
        absent = "Response" if response is None else missing[0]
        raise DataError(f"no column {absent}; expected Response, s1, s2, s3 and s4; found {', '.join(frame.columns)}")
    if frame.is_empty():
        raise DataError("the table has no rows")
    answer = numbers_of(frame, response, where)
    refuse((answer != 0) & (answer != 1), "Response must be 0 or 1", where, lambda row: f"Response={answer[row]:g}")
    shown = [_values(frame, name, scale, where) for name in STIMULI]
    labels = pl.DataFrame(
        {role: pl.Series(values).cast(pl.String) for role, values in zip(QUADRUPLE, shown, strict=True)}
    )
    merged, _ = count_votes(labels, (1 - answer).astype(np.int64))
    ref0, x0, ref1, x1 = (pl.col(role).cast(pl.Float64) for role in QUADRUPLE)
    return merged.with_columns(d0=(x0 - ref0).abs(), d1=(x1 - ref1).abs())


def _values(frame: pl.DataFrame, name: str, scale: Sequence[float] | None, where: Where) -> FloatArray:
    values = numbers_of(frame, name, where)
    refuse(~np.isfinite(values), f"{name} must be finite", where, lambda row: f"{name}={values[row]}")
    if scale is None:
        return values
    wrong = (values != np.round(values)) | (values < 1) | (values > len(scale))
    refuse(wrong, f"{name} must be a stimulus from 1 to {len(scale)}", where, lambda row: f"{name}={values[row]:g}")
    return np.asarray(scale, dtype=np.float64)[values.astype(np.int64) - 1]
