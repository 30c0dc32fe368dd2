"""Distances measured elsewhere, added to a table of votes by the names of triplets or of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.columns import Where, distance, distance_names, labels_of, refuse
from twoafc.errors import DataError
from twoafc.frames import as_frame, check_unique, read_frame, row_name
from twoafc.votes import QUADRUPLE, TRIPLET

PAIR = ("ref", "x")
SWAPPED = {"x0": "x1", "x1": "x0", "ref0": "ref1", "ref1": "ref0"}


def join_columns(table: Any, columns: Any) -> pl.DataFrame:
    """Add distances measured elsewhere to a table of votes.

    Parameters
    ----------
    table : path or frame
        Votes, one row per triplet or per vote; its rows and columns stay as they are.
    columns : path or frame
        Either one row per triplet with ``NAME_d0`` and ``NAME_d1``, found by ``triplet`` where both tables have it,
        else by ``ref, x0, x1`` (quadruples: ``ref0, x0, ref1, x1``); rows that show x0 and x1 the other way round have
        their distances changed over. Or one row per pair of images: ``ref``, ``x`` and ``NAME_d``. Where both tables
        have ``group``, groups stay apart. Rows of other triplets are ignored.

    Returns
    -------
    polars.DataFrame
        The table with ``NAME_d0`` and ``NAME_d1`` for each distance.

    Examples
    --------
    >>> votes = {"ref": ["r", "r"], "x0": ["a", "b"], "x1": ["b", "a"], "choice": [1, 0]}
    >>> measured = {"ref": ["r"], "x0": ["a"], "x1": ["b"], "my_d0": [0.3], "my_d1": [0.1]}
    >>> join_columns(votes, measured).select("my_d0", "my_d1").rows()
    [(0.3, 0.1), (0.1, 0.3)]
    """
    frame, where = _opened(table)
    other, elsewhere = _opened(columns)
    labels, keys = labels_of(frame, where), _names(other, elsewhere)
    if set(PAIR) <= set(keys.columns):
        found = _by_pairs(labels, keys, other, where, elsewhere)
    else:
        found = _by_triplets(labels, keys, other, where, elsewhere)
    taken = [name for name in found if name in frame.columns]
    if taken:
        raise DataError(f"the table has the column {taken[0]} already; drop it there, or give the new one another name")
    return frame.with_columns(**{name: pl.Series(values) for name, values in found.items()})


def _opened(table: Any) -> tuple[pl.DataFrame, Where]:
    frame, where = read_frame(table) if isinstance(table, str | Path) else (as_frame(table), row_name)
    check_unique(frame.columns)
    return frame, (lambda row: f"{table}: {where(row)}") if isinstance(table, str | Path) else where


def _names(frame: pl.DataFrame, where: Where) -> pl.DataFrame:
    """Take the columns that name things; ``x``, which only pairs have, is read as ``x0`` is."""
    if "x" not in frame.columns or "x0" in frame.columns:
        return labels_of(frame, where)
    return labels_of(frame.rename({"x": "x0"}), where).rename({"x0": "x"})


def _by_triplets(
    labels: pl.DataFrame, keys: pl.DataFrame, other: pl.DataFrame, where: Where, elsewhere: Where
) -> dict[str, NDArray[np.float64]]:
    names = distance_names(other.columns)
    if not names:
        raise DataError(f"no distance to add; expected columns NAME_d0 and NAME_d1; found {', '.join(other.columns)}")
    both = set(labels.columns) & set(keys.columns)
    images = next((shown for shown in (TRIPLET, QUADRUPLE) if set(shown) <= both), ())
    if "triplet" in both:
        rows, swapped = _places(labels, keys, ("triplet",), where, elsewhere), np.zeros(len(labels), dtype=np.bool_)
        if images:
            swapped = _turned(labels.select(images), keys[rows].select(images), where)
    elif images:
        rows = _places(labels, keys, images, where, elsewhere)
        swapped, rows = rows >= len(keys), rows % len(keys)
    else:
        wanted = "triplet, or ref, x0 and x1, or ref0, x0, ref1 and x1"
        raise DataError(
            f"both tables must name the triplets by {wanted}; both have {', '.join(sorted(both)) or 'none'}"
        )
    found: dict[str, NDArray[np.float64]] = {}
    for columns in names.values():
        d0, d1 = (values[rows] for values in distance(other, columns, elsewhere))
        found |= {columns[0]: np.where(swapped, d1, d0), columns[1]: np.where(swapped, d0, d1)}
    return found


def _by_pairs(
    labels: pl.DataFrame, keys: pl.DataFrame, other: pl.DataFrame, where: Where, elsewhere: Where
) -> dict[str, NDArray[np.float64]]:
    names = [name for name in other.columns if name.endswith("_d") and name != "_d"]
    if not names:
        raise DataError(
            f"no distance to add; pairs of ref and x need a column NAME_d; found {', '.join(other.columns)}"
        )
    shown = next((roles for roles in (TRIPLET, QUADRUPLE) if set(roles) <= set(labels.columns)), None)
    if shown is None:
        have = ", ".join(labels.columns) or "none"
        raise DataError(f"pairs of ref and x need a table with ref, x0 and x1, or ref0, x0, ref1 and x1; it has {have}")
    found = {}
    for side in ("0", "1"):
        ref = "ref" if shown == TRIPLET else f"ref{side}"
        group = ["group"] * ("group" in labels.columns)
        asked = labels.select(*group, pl.col(ref).alias("ref"), pl.col(f"x{side}").alias("x"))
        rows = _places(asked, keys, PAIR, where, elsewhere)
        for name in names:
            found[name + side] = distance(other, (name, name), elsewhere)[0][rows]
    return found


def _places(
    labels: pl.DataFrame, keys: pl.DataFrame, by: tuple[str, ...], where: Where, elsewhere: Where
) -> NDArray[np.int64]:
    """Find the row of `keys` that each row of `labels` names; from len(keys) on, seen the other way round."""
    on = [*by, *["group"] * ("group" in labels.columns and "group" in keys.columns)]
    given = keys.select(on).with_columns(place=pl.Series(np.arange(len(keys))))
    if by in (TRIPLET, QUADRUPLE):
        turned = given.rename({name: SWAPPED[name] for name in by if name in SWAPPED}).select(given.columns)
        # What is the same either way round is there already.
        new = pl.any_horizontal(pl.col(name) != given[name] for name in by)
        given = pl.concat([given, turned.with_columns(pl.col("place") + len(keys)).filter(new)])

    def told(frame: pl.DataFrame, row: int) -> str:
        return ", ".join(f"{name}={frame[name][row]!r}" for name in on)

    again = given.select(on).is_duplicated().to_numpy()[: len(keys)]
    refuse(
        again, "a row of distances must be given once", elsewhere, lambda row: f"{told(given, row)}, and so has another"
    )
    found = labels.join(given, on=on, how="left", maintain_order="left")["place"]
    absent = found.is_null().to_numpy()
    refuse(absent, "every row needs its distances", where, lambda row: f"{told(labels, row)}, for which there are none")
    return found.to_numpy().astype(np.int64)


def _turned(shown: pl.DataFrame, measured: pl.DataFrame, where: Where) -> NDArray[np.bool_]:
    """Tell which rows show their images the other way round; other images under the same name are refused."""
    same = _agree(shown, measured)
    other = measured.rename({name: SWAPPED[name] for name in measured.columns if name in SWAPPED})
    swapped = ~same & _agree(shown, other.select(shown.columns))
    rule = "rows of one triplet must show the same images in both tables"
    refuse(~(same | swapped), rule, where, lambda row: f"{shown.row(row)}, its distances {measured.row(row)}")
    return swapped


def _agree(a: pl.DataFrame, b: pl.DataFrame) -> NDArray[np.bool_]:
    return np.asarray(np.logical_and.reduce([(a[name] == b[name]).to_numpy() for name in a.columns]))
