"""Tables of a report: the scores between their floor and ceiling, differences, how P suits the votes, and groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from twoafc.inference import Ceiling, Goodness, Interval, Record
from twoafc.results import tables
from twoafc.results.tables import Table

GROUPED = {2: ("nll", "score_2afc_distance"), 1: ("nll", "agreement", "average_precision")}
COMPARED = {
    2: {"nll": ("NLL", 4), "score_2afc_distance": ("2AFC %, distance only", 2)},
    1: {"nll": ("NLL", 4), "average_precision": ("AP %, distance only", 2)},
}
"""Measures by which triplets (2) and pairs (1) are compared, with headings and decimals."""
MOST_PAIRS = 66
"""Pairs of distances in a table: those of twelve distances."""


def scores(records: Sequence[Record], ceiling: Ceiling | None) -> Table:
    """Every distance on tested votes, the best first, with floor and ceiling below."""
    table = tables.summary_table(records, columns=tables.short(records))
    columns = [column for column in tables.short(records) if column.heading in table.header]
    return table if ceiling is None else replace(table, foot=_foot(ceiling, columns))


def _foot(ceiling: Ceiling, columns: Sequence[tables.Column]) -> tuple[tuple[str, ...], ...]:
    floor = {"nll": f"{ceiling.floor_nll:.4f}", "explained": "0", "score_2afc": "50", "score_2afc_distance": "50"}
    best = {}
    if ceiling.known:
        best = {
            "nll": f"{ceiling.nll_lowest:.4f} to {ceiling.nll_highest:.4f}",
            "explained": "100",
            "score_2afc": f"{ceiling.score_2afc_lowest:.1f} to {ceiling.score_2afc_highest:.1f}",
        }
    rows = (("floor", "P = 1/2", floor), ("ceiling", "best function", best))
    return tuple((name, what, *(cells.get(column.name, "–") for column in columns)) for name, what, cells in rows)


def differences(comparisons: Sequence[Record], ranked: Sequence[Record], k: int = 2) -> list[Table]:
    """All pairs of distances under each estimator, the better by NLL first, with both measures in one row."""
    shown = []
    measures = COMPARED[k]
    labels = list(dict.fromkeys(record["estimator"] for record in comparisons))
    for label in labels:
        order = [record["distance"] for record in ranked if record["estimator"] == label]
        compared = {(r["a"], r["b"], r["measure"]): r for r in comparisons if r["estimator"] == label}
        pairs = [(a, b) for place, a in enumerate(order) for b in order[place + 1 :]][:MOST_PAIRS]
        rows = [
            (f"{a} – {b}", *(cell for m in measures for cell in _difference(compared, (a, b), m, measures[m][1])))
            for a, b in pairs
        ]
        heads = [head for name, _ in measures.values() for head in (name, "95 % interval", "p (Holm)")]
        caption = "Differences, the first minus the second" + (f", by {label}" if len(labels) > 1 else "")
        shown += [Table(caption, ("distances", *heads), tuple(rows), names=1)] if rows else []
    return shown


def _difference(
    compared: Mapping[tuple[str, str, str], Record], pair: tuple[str, str], measure: str, places: int
) -> tuple[str, str, str]:
    """Difference of two distances, whichever of them was put first, its interval and its p."""
    record, sign = compared.get((*pair, measure)), 1
    if record is None:
        record, sign = compared.get((*pair[::-1], measure)), -1
    if record is None or record["se"] is None:
        return "–", "–", "–"
    low, high = sorted((sign * record["low"], sign * record["high"]))
    p = record["p_holm"]
    return f"{sign * record['difference']:+.{places}f}", f"{low:+.{places}f} to {high:+.{places}f}", _chance(p)


def _chance(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def suits(goodness: Mapping[tuple[str, str], Goodness], ranked: Sequence[Record]) -> Table | None:
    """How P suits the votes that it was tested on, the best distance first; None where nothing is known."""
    keys = [(record["distance"], record["estimator"]) for record in ranked]
    header = ("slope", "miscalibration, nats", "votes correlate beyond P", "preference for x1, %", "cast at random, %")
    known = [key for key in keys if key in goodness]
    if not known:
        return None
    # Of pairs there are no sides, and no bound on random votes.
    columns = 3 if goodness[known[0]].asymmetry is None else 5
    rows = tuple((*key, *_suit(goodness[key])[:columns]) for key in known)
    return Table("How P suits the votes", ("distance", "estimator", *header[:columns]), rows)


def _suit(goodness: Goodness) -> tuple[str, ...]:
    lost, se = goodness.calibration.calibration, goodness.calibration.calibration_se
    lapses = (goodness.lapses or {}).get("high")
    side: list[Any] = [(goodness.asymmetry or {}).get(name) for name in ("value", "se", "low", "high")]
    return (
        _interval(goodness.calibration.slope, ".2f"),
        f"{lost:+.4f} ± {se:.4f}" if _known(lost, se) else "–",
        _interval(goodness.intraclass, ".2f"),
        _interval(Interval(*side) if _known(*side) else None, "+.1f"),
        f"at most {lapses:.0f}" if _known(lapses) else "–",
    )


def _interval(interval: Interval | None, form: str) -> str:
    if interval is None or not _known(interval.value, interval.low, interval.high):
        return "–"
    return f"{interval.value:{form}} ({interval.low:{form}} to {interval.high:{form}})"


def _known(*values: Any) -> bool:
    return all(value is not None and math.isfinite(value) for value in values)


def groups(records: Sequence[Record]) -> list[Table]:
    """Scores by group, for the measures that a reader compares; none where there are no groups, or too many."""
    measures = GROUPED[tables.distances_per_row(records)] if records else ()
    by_group = [tables.group_table(records, measure) for measure in measures]
    return [_upright(table) for table in by_group if table is not None and table.rows]


def _upright(table: Table) -> Table:
    """Turn a table so that the shorter side goes across: pages scroll down more easily than sideways."""
    several = len({row[1] for row in table.rows}) > 1
    names = [f"{row[0]}, {row[1]}" if several else row[0] for row in table.rows]
    labels = [*table.header[2:-2], "mean of groups", "all pooled"]
    if len(names) > len(labels):
        rows = tuple((name, *row[2:]) for name, row in zip(names, table.rows, strict=True))
        return Table(table.caption, ("distance", *labels), rows, names=1)
    turned = list(zip(labels, *(row[2:] for row in table.rows), strict=True))
    return Table(table.caption, ("group", *names), tuple(turned[:-2]), tuple(turned[-2:]), names=1)
