"""The figures as the paper prints them, the slips among them, and the paper's own arithmetic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Slip:
    """Something that the paper prints wrongly, or that contradicts itself: where, what, and what holds."""

    id: str
    where: str
    says: str
    holds: str


@dataclass(frozen=True)
class PrintedRow:
    """One row of a printed table.

    Parameters
    ----------
    estimator, measure, split : str
        What was measured; the estimator "distance" is none: the distance alone decides.
    values, sd : tuple of float
        In the order of `distances`; sd, over the paper's ten runs, is empty where none is printed.
    instead : tuple of float
        The right figures, where the row is printed wrongly; else empty.
    slips : mapping of distance to the id of a slip, as pairs
    """

    estimator: str
    measure: str
    split: str
    values: tuple[float, ...]
    sd: tuple[float, ...] = ()
    instead: tuple[float, ...] = ()
    slips: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class PrintedTable:
    """A printed table of distances (columns) by estimators and measures (rows)."""

    name: str
    where: str
    set: str
    caption: str
    rows: tuple[PrintedRow, ...]


@cache
def document() -> dict[str, Any]:
    """Give all that is kept of the paper, as it is in the file."""
    text = Path(__file__).with_name("printed.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def distances() -> tuple[str, ...]:
    """Name the paper's six distances, in its order.

    Examples
    --------
    >>> distances()
    ('euclidean', 'nlpd', 'ssim', 'pim', 'lpips', 'dists')
    """
    return tuple(document()["distances"])


def slips() -> tuple[Slip, ...]:
    """List the slips, in the order of their numbers."""
    return tuple(Slip(**row) for row in document()["slips"])


def slip_number(id: str) -> int:
    """Number a slip, from 1, as footnotes do.

    Examples
    --------
    >>> slip_number("counts")
    1
    """
    return [slip.id for slip in slips()].index(id) + 1


@cache
def printed_tables() -> dict[str, PrintedTable]:
    """Give the tables of distances by measures, by name.

    Examples
    --------
    >>> printed_tables()["bapps"].rows[2].values
    (63.46, 63.31, 63.65, 70.09, 68.94, 69.12)
    """
    found = {}
    for name, table in document()["tables"].items():
        rows = tuple(_row(row) for row in table["rows"])
        found[name] = PrintedTable(name, table["where"], table["set"], table["caption"], rows)
    return found


def _row(row: dict[str, Any]) -> PrintedRow:
    marks = dict(row.get("slips", {})) | {name: row["slip"] for name in distances() if "slip" in row}
    lists = {key: tuple(row.get(key, ())) for key in ("values", "sd", "instead")}
    return PrintedRow(row["estimator"], row["measure"], row["split"], **lists, slips=tuple(marks.items()))


@dataclass(frozen=True)
class Aggregate:
    """Table 1 of one distance and measure, and what the table by distortion gives for it.

    `by_true` weights the six distortions by their true numbers of triplets, `by_printed` by those that are printed.
    """

    distance: str
    measure: str
    table_1: float
    by_true: float
    by_printed: float


def aggregates() -> list[Aggregate]:
    """Pool the paper's figures by distortion over triplets, as a check on its arithmetic and on ours.

    Examples
    --------
    >>> next(each for each in aggregates() if (each.distance, each.measure) == ("lpips", "score_2afc"))
    Aggregate(distance='lpips', measure='score_2afc', table_1=68.94, by_true=68.93..., by_printed=67.34...)
    """
    table = document()["by_distortion"]
    first = {row.measure: row.values for row in printed_tables()["bapps"].rows if row.estimator == "density"}
    return [
        Aggregate(
            row["distance"],
            row["measure"],
            first[row["measure"]][distances().index(row["distance"])],
            pooled(row["values"], table["triplets"]),
            pooled(row["values"], table["triplets_as_printed"]),
        )
        for row in table["rows"]
    ]


def pooled(values: Sequence[float], triplets: Sequence[int]) -> float:
    """Pool means of groups over their triplets.

    Examples
    --------
    >>> pooled([1.0, 2.0], [1, 3])
    1.75
    """
    return float(np.average(values, weights=triplets))
