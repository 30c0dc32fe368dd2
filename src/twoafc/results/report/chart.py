"""The chart of a report: paired differences of NLL to the leader, to a baseline, or of planned pairs; or scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from twoafc import plots
from twoafc.inference import Record
from twoafc.results.report import svg
from twoafc.results.verdict import with_error

if TYPE_CHECKING:
    from twoafc.results.result import Result

BARE = {2: ("score_2afc_distance", "2AFC of the distance alone, %"), 1: ("average_precision", "average precision, %")}
"""What the second column of the chart shows, of triplets (2) and of pairs (1)."""


@dataclass(frozen=True)
class Chart:
    """Rows as `plots.forest` takes them, the best distance first, with floor and ceiling.

    ``to`` is the distance that the others are compared with, and ``p`` has the p-values of the rows.
    """

    kind: Literal["differences", "pairs", "scores"]
    label: str
    rows: list[plots.ForestRow]
    reference: dict[str, svg.Reference] = field(default_factory=dict)
    to: str | None = None
    p: dict[str, str] = field(default_factory=dict)


def chart(result: Result, ranked: Sequence[Record]) -> Chart:
    """Compare all distances with the leader or the baseline; or show planned pairs, or scores if none was tested."""
    best = _of_leading_estimator(ranked)
    unit = f"nats per {result.row}"
    if len(best) < len({(record["distance"], record["estimator"]) for record in ranked}):
        unit = f"by {ranked[0]['estimator']}, {unit}"
    compared = [
        (record, {record["a"], record["b"]})
        for record in result.comparisons
        if (record["measure"], record["estimator"]) == ("nll", ranked[0]["estimator"])
        if {record["a"], record["b"]} <= set(best) and record["difference"] is not None
    ]
    if not compared:
        rows = [plots.ForestRow(name, *ends(record, "nll")) for name, record in best.items()]
        return Chart("scores", f"NLL, {unit}", rows, _references(result, ranked[0]))
    to = str(result.card.get("baseline") or next(iter(best)))
    if result.card.get("planned") and not all(to in pair for _, pair in compared):
        rows = [_difference(record, record["a"], f"{record['a']} – {record['b']}") for record, _ in compared]
        p = {row.name: p_text(record) for row, (record, _) in zip(rows, compared, strict=True)}
        return Chart("pairs", f"difference of NLL, {unit}", rows, p=p)
    mine = {next(iter(pair - {to})): record for record, pair in compared if to in pair}
    rows = [
        _difference(mine[name], name, name) if name != to else plots.ForestRow(name, 0.0, math.nan, math.nan)
        for name in best
        if name in mine or name == to
    ]
    p = {name: p_text(record) for name, record in mine.items()}
    reference = _references(result, best[to], float(best[to]["nll"]))
    return Chart("differences", f"difference of NLL from {to}, {unit}", rows, reference, to, p)


def _of_leading_estimator(ranked: Sequence[Record]) -> dict[str, Record]:
    return {record["distance"]: record for record in ranked if record["estimator"] == ranked[0]["estimator"]}


def _difference(record: Record, first: str, name: str) -> plots.ForestRow:
    """A comparison as a row: the first distance minus the other, with the interval that belongs to the corrected p."""
    sign = 1 if record["a"] == first else -1
    low, high = sorted(sign * number(record.get(f"{end}_holm", record[end])) for end in ("low", "high"))
    return plots.ForestRow(name, sign * record["difference"], low, high)


def _references(result: Result, record: Record, origin: float = 0.0) -> dict[str, svg.Reference]:
    """Floor and ceiling of the NLL, less that of the distance which the others are compared with."""
    ceiling = result.ceiling
    if ceiling is None:
        floor = number(record.get("nll_floor"))
        return {"constant P": floor - origin} if math.isfinite(floor) else {}
    best = {"ceiling": (ceiling.nll_lowest - origin, ceiling.nll_highest - origin)} if ceiling.known else {}
    return {**best, "P = 1/2": ceiling.floor_nll - origin}


def ends(record: Record, name: str) -> tuple[float, float, float]:
    """A score with the ends of its interval; NaN where it has none."""
    return number(record[name]), number(record.get(f"{name}_low")), number(record.get(f"{name}_high"))


def number(value: float | None) -> float:
    """Return a value of a record, NaN in place of None."""
    return math.nan if value is None else float(value)


def p_text(record: Record) -> str:
    """Write the p-value of a comparison; corrected where there was more than one test.

    Examples
    --------
    >>> p_text({"p_holm": 0.00002, "tests": 45}), p_text({"p_holm": 0.031, "tests": 1}), p_text({"p_holm": None})
    ('p < 0.0001 (Holm)', 'p = 0.031', '')
    """
    p = record["p_holm"]
    if p is None:
        return ""
    text = "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}" if p < 0.1 else f"p = {p:.2f}"
    return text if record.get("tests", 2) == 1 else f"{text} (Holm)"


def brief(result: Result, ranked: Sequence[Record]) -> dict[str, Any]:
    """The chart as the page shows it: line by line, with the bare distances beside it."""
    shown, records, (name, heading) = chart(result, ranked), _of_leading_estimator(ranked), BARE[result.k]
    zero: dict[str, svg.Reference] = {} if shown.kind == "scores" else {"zero": 0.0}
    values = [0.0 for _ in zero] + [end for row in shown.rows for end in row[1:4]]
    axis = svg.Axis.over(values, {**zero, **shown.reference}.items())
    bare, ceiling = None, result.ceiling
    scores = {distance: ends(record, name) for distance, record in records.items() if record.get(name) is not None}
    if scores and shown.kind != "pairs":
        marks: dict[str, svg.Reference] = {}
        if ceiling is not None and ceiling.known:
            marks = {
                "ceiling": (ceiling.score_2afc_lowest, ceiling.score_2afc_highest),
                "people": ceiling.human_triplets,
            }
        bare = svg.Axis.over([end for interval in scores.values() for end in interval], marks.items())
    narrowest = min((half for row in shown.rows if (half := (row.high - row.low) / 2) > 0), default=0.01)
    places = min(max(1 - math.floor(math.log10(narrowest)), 2), 6)
    lines = []
    for row in shown.rows:
        words, score = _words(row, shown, records, places), scores.get(row.name)
        line = {"name": row.name, "words": words, "p": shown.p.get(row.name, ""), "score": ""}
        line["drawing"] = svg.interval(axis, row[1:4], f"{row.name}: {words}")
        if bare is not None and score is not None:
            text = f"{score[0]:.1f} %"
            line |= {"score": text, "bare": svg.interval(bare, score, f"{row.name}: {text}")}
        lines.append(line)
    return {
        "shown": shown,
        "lines": lines,
        "names": svg.names(axis),
        "scale": svg.scale(axis),
        "corrected": all("low_holm" in record for record in result.comparisons),
        "bare": bare and {"label": heading, "names": svg.names(bare), "scale": svg.scale(bare)},
    }


def _words(row: plots.ForestRow, shown: Chart, records: Mapping[str, Record], places: int) -> str:
    """The value of a line with its interval; of the distance that the others are compared with, its NLL."""
    if row.name == shown.to:
        record = records[row.name]
        return f"NLL {with_error(record['nll'], record.get('nll_se', record.get('nll_sd')))}"
    sign = "" if shown.kind == "scores" else "+"
    value, low, high = (f"{end:{sign}.{places}f}".replace("-", svg.MINUS) for end in row[1:4])
    return f"{value} ({low} to {high})" if math.isfinite(row.low) else value
