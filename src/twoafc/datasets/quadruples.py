"""Difference scaling (MLDS): which of two pairs of stimuli differs more; stimuli on a scale, without images.

The format of the R package MLDS: a row is one judgement, ``Response`` (or ``resp``) and ``s1`` to ``s4``, in any case.
The first pair is s1 and s2, the second s3 and s4; a response of 1 means that the second pair differs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twoafc.arrays import FloatArray
from twoafc.datasets.dataset import count_votes
from twoafc.errors import DataError, naming
from twoafc.table import QUADRUPLE, Where, as_frame, numbers_of, read_frame, refuse, row_name

RESPONSES = ("response", "resp")
STIMULI = ("s1", "s2", "s3", "s4")


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
        return _read(as_frame(table), row_name, scale)
    with naming(table):
        return _read(*read_frame(table), scale)


def _read(frame: pl.DataFrame, where: Where, scale: Sequence[float] | None) -> pl.DataFrame:
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
