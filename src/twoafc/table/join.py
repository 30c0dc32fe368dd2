"""Distances measured elsewhere, added to a table of votes by the names of triplets or of images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twoafc.errors import DataError
from twoafc.table.merging import PAIR, QUADRUPLE, TRIPLET, beyond_rounding, compared_images
from twoafc.table.read import as_frame, check_unique, read_frame, row_name
from twoafc.table.rules import LABELS, Where, distance_columns, finite_column, labels_of, refuse

# Relative to the median of a distance: values less than this below 0 are rounding, as in `twoafc.check_distance`.
ROUNDING = 1e-4


def join_columns(table: Any, columns: Any) -> pl.DataFrame:
    """Add distances measured elsewhere to a table of votes.

    Parameters
    ----------
    table : path or frame
        Votes, one row per triplet, per pair or per vote; its rows and columns stay as they are.
    columns : path or frame
        Either one row per triplet with ``NAME_d0`` and ``NAME_d1``, found by the names that both tables have:
        ``triplet``, or ``ref, x0, x1`` (quadruples: ``ref0, x0, ref1, x1``), or both; where x0 and x1 are swapped, so
        are the distances. Or one row per pair of images: ``ref``, ``x`` and ``NAME_d``. Where both tables have
        ``group``, groups stay apart. Rows of other triplets are ignored, and so are repeats that agree. Distances are
        at least 0; what is below by no more than rounding becomes 0.

    Returns
    -------
    polars.DataFrame
        The table with ``NAME_d0`` and ``NAME_d1`` for each distance; with ``NAME_d`` where it has pairs, ``ref`` and
        ``x``, itself.

    Examples
    --------
    >>> votes = {"ref": ["r", "r"], "x0": ["a", "b"], "x1": ["b", "a"], "choice": [1, 0]}
    >>> measured = {"ref": ["r"], "x0": ["a"], "x1": ["b"], "my_d0": [0.3], "my_d1": [0.1]}
    >>> join_columns(votes, measured).select("my_d0", "my_d1").rows()
    [(0.3, 0.1), (0.1, 0.3)]
    """
    frame, where = _opened(table)
    other, elsewhere = _opened(columns)
    if {*PAIR} <= {*other.columns} and "x0" not in other.columns:
        names = LABELS if "x0" in frame.columns else (*LABELS, "x")
        added = _by_pairs(labels_of(frame, where, names), other, where, elsewhere)
    else:
        added = _by_triplets(labels_of(frame, where), other, where, elsewhere)
    taken = [name for name in added.columns if name in frame.columns]
    if taken:
        raise DataError(f"the table has the column {taken[0]} already; drop it, or rename the new one")
    return frame.hstack(added)


def _opened(table: Any) -> tuple[pl.DataFrame, Where]:
    frame, where = read_frame(table) if isinstance(table, str | Path) else (as_frame(table), row_name)
    check_unique(frame.columns)
    return frame, (lambda row: f"{table}: {where(row)}") if isinstance(table, str | Path) else where


def _by_triplets(labels: pl.DataFrame, other: pl.DataFrame, where: Where, elsewhere: Where) -> pl.DataFrame:
    distances = [columns for columns in distance_columns(other.columns).values() if len(columns) == 2]
    if not distances:
        raise DataError(f"no distance to add; expected columns NAME_d0 and NAME_d1; found {', '.join(other.columns)}")
    both = set(labels.columns) & set(other.columns)
    images = next((shown for shown in (TRIPLET, QUADRUPLE) if set(shown) <= both), ())
    if not images and "triplet" not in both:
        wanted = "triplet, or ref, x0 and x1, or ref0, x0, ref1 and x1"
        raise DataError(
            f"both tables must name the triplets by {wanted}; both have {', '.join(sorted(both)) or 'none'}"
        )
    on = [*(name for name in ("triplet", "group") if name in both), *images]
    measured = _measured(other, on, distances, elsewhere)
    if images:
        # Each triplet in both orders of x0 and x1, with its distances; once where they are the same image.
        sides = [("x0", "x1"), ("ref0", "ref1"), *distances]
        swaps = {a: b for one, two in sides for a, b in ((one, two), (two, one)) if a in measured.columns}
        mirrored = measured.rename(swaps).select(measured.columns)
        mirrored = mirrored.filter(pl.any_horizontal(pl.col(a) != pl.col(b) for a, b in sides[:2] if a in images))
        measured = pl.concat([measured, mirrored]).sort("place", maintain_order=True)
    return _found(labels, measured, on, distances, where, elsewhere)


def _by_pairs(labels: pl.DataFrame, other: pl.DataFrame, where: Where, elsewhere: Where) -> pl.DataFrame:
    distances = [(name,) for name in other.columns if name.endswith("_d") and name != "_d"]
    if not distances:
        raise DataError(
            f"no distance to add; pairs of ref and x need a column NAME_d; found {', '.join(other.columns)}"
        )
    shown = compared_images(labels.columns)
    if not shown:
        have = ", ".join(labels.columns) or "none"
        wanted = "ref, x0 and x1, or ref0, x0, ref1 and x1, or ref and x"
        raise DataError(f"pairs of ref and x need a table with {wanted}; it has {have}")
    on = [*PAIR, *(["group"] if "group" in labels.columns and "group" in other.columns else [])]
    measured = _measured(other, on, distances, elsewhere)
    added = []
    for ref, x in shown:
        asked = labels.with_columns(ref=ref, x=x)
        found = _found(asked, measured, on, distances, where, elsewhere)
        added += [column.rename(column.name + x.removeprefix("x")) for column in found]
    return pl.DataFrame(added)


def _measured(other: pl.DataFrame, on: list[str], distances: Sequence[tuple[str, ...]], where: Where) -> pl.DataFrame:
    """Return the names and the distances, finite and at least 0, with the place of each row."""
    columns = {"place": pl.Series(np.arange(len(other)))}
    for names in distances:
        values = [finite_column(other, name, where) for name in names]
        lowest = -ROUNDING * np.median(np.abs(values)) if len(other) else 0.0
        for name, d in zip(names, values, strict=True):
            rule = "a distance must be at least 0"
            refuse(d < lowest, rule, where, lambda row, name=name, d=d: f"{name}={d[row]:g}")  # type: ignore[misc]
            columns[name] = pl.Series(np.maximum(d, 0))
    return labels_of(other, where, on).with_columns(**columns)


def _found(
    labels: pl.DataFrame,
    measured: pl.DataFrame,
    on: list[str],
    distances: Sequence[tuple[str, ...]],
    where: Where,
    elsewhere: Where,
) -> pl.DataFrame:
    """Find the distances of each row of votes by its names; repeats must agree."""

    def text_of(frame: pl.DataFrame, row: int) -> str:
        return ", ".join(f"{name}={frame[name][row]!r}" for name in on)

    place = measured["place"].to_numpy()
    lead = measured.with_row_index().select(pl.col("index").first().over(on)).to_series().to_numpy()
    other = np.zeros(len(measured), dtype=np.bool_)
    for names in distances:
        other |= beyond_rounding([measured[name].to_numpy() for name in names], lead)
    at = int(np.argmax(other)) if other.any() else 0
    refuse(
        np.isin(np.unique(place), place[other]),
        "repeated rows of distances must agree",
        elsewhere,
        lambda _: f"{text_of(measured, at)}, for which {elsewhere(place[lead[at]])} has others",
    )

    def missing(row: int) -> str:
        text = f"{text_of(labels, row)}, for which there are none"
        if "triplet" in on and (named := measured["triplet"].index_of(labels["triplet"][row])) is not None:
            text += f"; there {text_of(measured, named)}"
        return text

    found = labels.join(measured.unique(on, keep="first"), on=on, how="left", maintain_order="left")
    refuse(
        found["place"].is_null().to_numpy(),
        "every row needs its distances",
        where,
        missing,
    )
    return found.select(name for names in distances for name in names)
