"""Tables of a report: the scores between their floor and ceiling, differences, how P suits the votes, and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twoafc import tables
from twoafc.inference import Ceiling, Record

GROUPED = {2: ("nll", "score_2afc_distance"), 1: ("nll", "agreement", "average_precision")}
COMPARED = {"nll": ("NLL", 4), "score_2afc_distance": ("2AFC %, distance only", 2)}
"""What distances are compared by, with headings and decimals."""
MOST_PAIRS = 66
"""Pairs of distances in a table: those of twelve distances."""


@dataclass(frozen=True)
class Grid:
    """A table with so many columns that name a row, and rows below the line.

    Attributes
    ----------
    caption : str
    header : names of the columns
    rows, foot : rows of cells, all of the header's length
    names : int
        Columns that name the row and are read as text; the others are figures.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    foot: tuple[tuple[str, ...], ...] = ()
    names: int = 2


def scores(records: Sequence[Record], found: Ceiling | None) -> Grid:
    """Every distance on tested votes, the best first, with floor and ceiling below."""
    table = tables.summary(records, columns=tables.short(records))
    columns = [column for column in tables.short(records) if column.heading in table.header]
    return Grid(table.caption, table.header, table.rows, () if found is None else _reach(found, columns))


def _reach(found: Ceiling, columns: Sequence[tables.Column]) -> tuple[tuple[str, ...], ...]:
    floor = {"nll": f"{found.floor_nll:.4f}", "explained": "0", "score_2afc": "50", "score_2afc_distance": "50"}
    best = {}
    if found.known:
        best = {
            "nll": f"{found.nll_lowest:.4f} to {found.nll_highest:.4f}",
            "explained": "100",
            "score_2afc": f"{found.score_2afc_lowest:.1f} to {found.score_2afc_highest:.1f}",
        }
    rows = (("floor", "P = 1/2", floor), ("ceiling", "best function", best))
    return tuple((name, what, *(cells.get(column.name, "–") for column in columns)) for name, what, cells in rows)


def differences(
    comparisons: Sequence[Record], ranked: Sequence[Record], measures: Mapping[str, tuple[str, int]] = COMPARED
) -> list[Grid]:
    """All pairs of distances under each estimator, the better by NLL first, with both measures in one row."""
    found = []
    labels = list(dict.fromkeys(record["estimator"] for record in comparisons))
    for label in labels:
        order = [record["distance"] for record in ranked if record["estimator"] == label]
        told = {(r["a"], r["b"], r["measure"]): r for r in comparisons if r["estimator"] == label}
        pairs = [(a, b) for place, a in enumerate(order) for b in order[place + 1 :]][:MOST_PAIRS]
        rows = [
            (f"{a} – {b}", *(cell for m in measures for cell in _difference(told, (a, b), m, measures[m][1])))
            for a, b in pairs
        ]
        heads = [head for name, _ in measures.values() for head in (name, "95 % interval", "p (Holm)")]
        caption = "Differences, the first minus the second" + (f", by {label}" if len(labels) > 1 else "")
        found += [Grid(caption, ("distances", *heads), tuple(rows), names=1)] if rows else []
    return found


def _difference(
    told: Mapping[tuple[str, str, str], Record], pair: tuple[str, str], measure: str, places: int
) -> tuple[str, str, str]:
    """Difference of two distances, whichever of them was put first, its interval and its p."""
    record, sign = told.get((*pair, measure)), 1
    if record is None:
        record, sign = told.get((*pair[::-1], measure)), -1
    if record is None or record["se"] is None:
        return "–", "–", "–"
    low, high = sorted((sign * record["low"], sign * record["high"]))
    p = record["p_holm"]
    return f"{sign * record['difference']:+.{places}f}", f"{low:+.{places}f} to {high:+.{places}f}", _chance(p)


def _chance(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def suits(held: Sequence[Mapping[str, Any]], ranked: Sequence[Record]) -> Grid | None:
    """How P suits the votes that it was tested on, the best distance first; None where nothing is told."""
    by_key = {(each["distance"], each["estimator"]): each for each in held}
    keys = [(record["distance"], record["estimator"]) for record in ranked]
    rows = tuple((*key, *_suit(by_key[key])) for key in keys if key in by_key)
    header = ("slope", "lost to scale, nats", "votes correlate beyond P", "liking for x1, %", "cast at random, %")
    return Grid("How P suits the votes", ("distance", "estimator", *header), rows) if rows else None


def _suit(found: Mapping[str, Any]) -> tuple[str, ...]:
    calibration, lapses = found["calibration"], (found.get("lapses") or {}).get("high")
    lost = [calibration[name] for name in ("calibration", "calibration_se")]
    return (
        _interval(calibration["slope"], ".2f"),
        "–" if None in lost else "{:+.4f} ± {:.4f}".format(*lost),
        _interval(found.get("intraclass"), ".2f"),
        _interval(found.get("asymmetry"), "+.1f"),
        "–" if lapses is None else f"at most {lapses:.0f}",
    )


def _interval(found: Mapping[str, Any] | None, form: str) -> str:
    if not found or None in [found.get(name) for name in ("value", "low", "high")]:
        return "–"
    return f"{found['value']:{form}} ({found['low']:{form}} to {found['high']:{form}})"


def groups(records: Sequence[Record]) -> list[Grid]:
    """Scores by group, for the measures that a reader compares; none where there are no groups, or too many."""
    measures = GROUPED[tables.kind(records)] if records else ()
    found = [tables.by_group(records, measure) for measure in measures]
    return [_upright(table) for table in found if table is not None and table.rows]


def _upright(table: tables.Table) -> Grid:
    """Turn a table so that the shorter side goes across: a page scrolls down more gladly than sideways."""
    several = len({row[1] for row in table.rows}) > 1
    names = [f"{row[0]}, {row[1]}" if several else row[0] for row in table.rows]
    labels = [*table.header[2:-2], "mean of groups", "all pooled"]
    if len(names) > len(labels):
        rows = tuple((name, *row[2:]) for name, row in zip(names, table.rows, strict=True))
        return Grid(table.caption, ("distance", *labels), rows, names=1)
    turned = list(zip(labels, *(row[2:] for row in table.rows), strict=True))
    return Grid(table.caption, ("group", *names), tuple(turned[:-2]), tuple(turned[-2:]), names=1)
