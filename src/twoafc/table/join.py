"""Distances measured elsewhere, added to a table of votes by the names of triplets or of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from twoafc.arrays import BoolArray, FloatArray, IntArray
from twoafc.errors import DataError
from twoafc.table.merging import PAIR, QUADRUPLE, TRIPLET, beyond_rounding, compared_images, falling
from twoafc.table.read import as_frame, check_unique, read_frame, row_name
from twoafc.table.rules import Where, distance_columns, finite_column, labels_of, refuse
from twoafc.table.votes import Distances

# Relative to the median of a distance: values less than this below 0 are rounding, as in `twoafc.check_distance`.
ROUNDING = 1e-4

Values = dict[str, FloatArray]


def join_columns(table: Any, columns: Any) -> pl.DataFrame:
    """Add distances measured elsewhere to a table of votes.

    Parameters
    ----------
    table : path or frame
        Votes, one row per triplet, per pair or per vote; its rows and columns stay as they are.
    columns : path or frame
        Either one row per triplet with ``NAME_d0`` and ``NAME_d1``, found by ``triplet`` where both tables have it,
        else by ``ref, x0, x1`` (quadruples: ``ref0, x0, ref1, x1``); where x0 and x1 are swapped, so are the
        distances. Or one row per pair of images: ``ref``, ``x`` and ``NAME_d``. Where both tables
        have ``group``, groups stay apart. Rows of other triplets are ignored, and so are repeats that agree. Distances
        are at least 0; what is below by no more than rounding becomes 0.

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
    keys = _names(other, elsewhere)
    if set(PAIR) <= set(keys.columns):
        added = _by_pairs(_names(frame, where), keys, other, where, elsewhere)
    else:
        added = _by_triplets(labels_of(frame, where), keys, other, where, elsewhere)
    taken = [name for name in added if name in frame.columns]
    if taken:
        raise DataError(f"the table has the column {taken[0]} already; drop it, or rename the new one")
    return frame.with_columns(**{name: pl.Series(values) for name, values in added.items()})


def _opened(table: Any) -> tuple[pl.DataFrame, Where]:
    frame, where = read_frame(table) if isinstance(table, str | Path) else (as_frame(table), row_name)
    check_unique(frame.columns)
    return frame, (lambda row: f"{table}: {where(row)}") if isinstance(table, str | Path) else where


def _names(frame: pl.DataFrame, where: Where) -> pl.DataFrame:
    """Return the columns with names; ``x``, which only pairs have, is read like ``x0``."""
    if "x" not in frame.columns or "x0" in frame.columns:
        return labels_of(frame, where)
    return labels_of(frame.rename({"x": "x0"}), where).rename({"x0": "x"})


def _by_triplets(
    labels: pl.DataFrame, keys: pl.DataFrame, other: pl.DataFrame, where: Where, elsewhere: Where
) -> Values:
    names = {name: (c[0], c[1]) for name, c in distance_columns(other.columns).items() if len(c) == 2}
    if not names:
        raise DataError(f"no distance to add; expected columns NAME_d0 and NAME_d1; found {', '.join(other.columns)}")
    both = set(labels.columns) & set(keys.columns)
    images = next((shown for shown in (TRIPLET, QUADRUPLE) if set(shown) <= both), ())
    if not images and "triplet" not in both:
        wanted = "triplet, or ref, x0 and x1, or ref0, x0, ref1 and x1"
        raise DataError(
            f"both tables must name the triplets by {wanted}; both have {', '.join(sorted(both)) or 'none'}"
        )
    # In one order, so that repeats can be compared; the rows of the table are swapped back in the end.
    asked, turned = _ordered(labels, images)
    given, swapped = _ordered(keys, images)
    values: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, columns in names.items():
        d0, d1 = _distances(other, columns, elsewhere)
        values[name] = np.where(swapped, d1, d0), np.where(swapped, d0, d1)
    rows = _places(Side(asked, labels, where), Side(given, keys, elsewhere), images, values)
    if "triplet" in both and images:
        shown, measured = labels.select(images), keys[rows].select(images)
        rule = "rows of one triplet must show the same images in both tables"
        other_images = ~_agree(asked, given[rows], images)
        refuse(other_images, rule, where, lambda row: f"{shown.row(row)}, its distances {measured.row(row)}")
    added: Values = {}
    for name, (name0, name1) in names.items():
        d0, d1 = (column[rows] for column in values[name])
        added |= {name0: np.where(turned, d1, d0), name1: np.where(turned, d0, d1)}
    return added


def _by_pairs(labels: pl.DataFrame, keys: pl.DataFrame, other: pl.DataFrame, where: Where, elsewhere: Where) -> Values:
    names = [name for name in other.columns if name.endswith("_d") and name != "_d"]
    if not names:
        raise DataError(
            f"no distance to add; pairs of ref and x need a column NAME_d; found {', '.join(other.columns)}"
        )
    shown = compared_images(labels.columns)
    if not shown:
        have = ", ".join(labels.columns) or "none"
        wanted = "ref, x0 and x1, or ref0, x0, ref1 and x1, or ref and x"
        raise DataError(f"pairs of ref and x need a table with {wanted}; it has {have}")
    values = {name: _distances(other, (name, name), elsewhere)[0] for name in names}
    added: Values = {}
    for ref, x in shown:
        group = ["group"] * ("group" in labels.columns)
        asked = labels.select(*group, ref=ref, x=x)
        rows = _places(
            Side(asked, asked, where), Side(keys, keys, elsewhere), PAIR, {name: (values[name],) for name in names}
        )
        added |= {name + x.removeprefix("x"): values[name][rows] for name in names}
    return added


def _distances(other: pl.DataFrame, columns: tuple[str, str], where: Where) -> tuple[FloatArray, FloatArray]:
    """Return the two columns of a distance, finite and at least 0."""
    distances = [finite_column(other, column, where) for column in columns]
    usual = np.median(np.abs(distances)) if len(other) else 0.0
    low = np.minimum(*distances)
    below = low < -ROUNDING * usual

    def describe(row: int) -> str:
        return f"{columns[0] if distances[0][row] == low[row] else columns[1]}={low[row]:g}"

    refuse(below, "a distance must be at least 0", where, describe)
    return np.maximum(distances[0], 0), np.maximum(distances[1], 0)


def _ordered(labels: pl.DataFrame, images: tuple[str, ...]) -> tuple[pl.DataFrame, BoolArray]:
    """Order x0 and x1 of every row, with their references, by name; return also which rows were swapped."""
    if not images:
        return labels, np.zeros(len(labels), dtype=np.bool_)
    after = falling(labels, *((["ref0", "x0"], ["ref1", "x1"]) if images == QUADRUPLE else (["x0"], ["x1"])))
    partners = {name: f"{name[:-1]}{1 - int(name[-1])}" for name in images if name != "ref"}
    sides = {name: pl.when(after).then(pl.col(partner)).otherwise(pl.col(name)) for name, partner in partners.items()}
    return labels.with_columns(**sides), after.to_numpy()


class Side(NamedTuple):
    """One of the two tables: the names that its rows are matched by, the names as given, and where a row is."""

    names: pl.DataFrame
    given: pl.DataFrame
    where: Where


def _places(table: Side, columns: Side, images: tuple[str, ...], distances: Distances) -> IntArray:
    """Find the row of distances that each row of votes names; of repeats that agree, the first."""
    both = set(table.names.columns) & set(columns.names.columns)
    on = [*(("triplet",) if "triplet" in both and images != PAIR else images), *["group"] * ("group" in both)]
    keys = columns.names.with_columns(place=pl.Series(np.arange(len(columns.names))))
    lead = keys.select(pl.col("place").first().over(on))["place"].to_numpy()

    def text_of(side: Side, row: int) -> str:
        return ", ".join(f"{name}={side.given[name][row]!r}" for name in on)

    other = ~_agree(keys, keys[lead], images)
    for d in distances.values():
        other |= beyond_rounding(d, lead)
    rule = "repeated rows of distances must agree"
    refuse(
        other,
        rule,
        columns.where,
        lambda row: f"{text_of(columns, row)}, for which {columns.where(int(lead[row]))} has others",
    )
    first = keys.filter(pl.col("place") == pl.Series(lead))
    places = table.names.join(first.select(*on, "place"), on=on, how="left", maintain_order="left")["place"]
    absent = places.is_null().to_numpy()
    rule = "every row needs its distances"
    refuse(absent, rule, table.where, lambda row: f"{text_of(table, row)}, for which there are none")
    return places.to_numpy().astype(np.int64)


def _agree(a: pl.DataFrame, b: pl.DataFrame, names: tuple[str, ...]) -> BoolArray:
    same = np.ones(len(a), dtype=np.bool_)
    for name in names:
        same &= (a[name] == b[name]).to_numpy()
    return same
