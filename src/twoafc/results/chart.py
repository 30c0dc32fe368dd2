"""What the chart of a result shows: paired differences of NLL, or scores; and the plane on which a fit is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from twoafc import plots
from twoafc.core import Uniform
from twoafc.inference import Record
from twoafc.inference import p_text as text_of
from twoafc.results.tables import key_of

if TYPE_CHECKING:
    from twoafc.results.result import Result

NODES = 61
"""Nodes of a surface along each axis."""


@dataclass(frozen=True)
class Chart:
    """Paired differences of NLL to the leader or a baseline, or of planned pairs; or scores, if nothing was compared.

    ``rows`` are what `plots.forest` draws, the best distance first; ``reference`` has floor and ceiling; ``to`` is the
    distance that the others are compared with, and ``p`` has the p-values of the rows.
    """

    kind: Literal["differences", "pairs", "scores"]
    label: str
    rows: list[plots.ForestRow]
    reference: dict[str, plots.Reference] = field(default_factory=dict)
    to: str | None = None
    p: dict[str, str] = field(default_factory=dict)


def chart(result: Result, ranked: Sequence[Record]) -> Chart:
    """Choose what the chart of a result shows, and compute its rows."""
    best = of_leading_estimator(ranked)
    unit = f"nats per {result.row}"
    if len(best) < len(set(map(key_of, ranked))):
        unit = f"by {ranked[0]['estimator']}, {unit}"
    compared = [
        (record, {record["a"], record["b"]})
        for record in result.comparisons
        if (record["measure"], record["estimator"]) == ("nll", ranked[0]["estimator"])
        if {record["a"], record["b"]} <= set(best) and record["difference"] is not None
    ]
    if not compared:
        rows = [plots.ForestRow(name, *interval_of(record, "nll")) for name, record in best.items()]
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


def of_leading_estimator(ranked: Sequence[Record]) -> dict[str, Record]:
    """Return the scores under the estimator of the best, by distance."""
    return {record["distance"]: record for record in ranked if record["estimator"] == ranked[0]["estimator"]}


def _difference(record: Record, first: str, name: str) -> plots.ForestRow:
    """Return a comparison as a row: the first distance minus the other, with the corrected interval."""
    sign = 1 if record["a"] == first else -1
    low, high = sorted(sign * _number(record.get(f"{end}_holm", record[end])) for end in ("low", "high"))
    return plots.ForestRow(name, sign * record["difference"], low, high)


def _references(result: Result, record: Record, origin: float = 0.0) -> dict[str, plots.Reference]:
    """Return floor and ceiling of the NLL, less the NLL of the distance that the others are compared with."""
    ceiling = result.ceiling
    if ceiling is None:
        floor = _number(record.get("nll_floor"))
        return {"constant P": floor - origin} if math.isfinite(floor) else {}
    best = {"ceiling": (ceiling.nll_lowest - origin, ceiling.nll_highest - origin)} if ceiling.known else {}
    return {**best, "P = 1/2": ceiling.floor_nll - origin}


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
    return text_of(p) + " (Holm)" * bool(record.get("tests", 2) > 1)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def interval_of(record: Record, name: str) -> tuple[float, float, float]:
    """Return a score with the ends of its interval; NaN for unknown ones."""
    return _number(record[name]), _number(record.get(f"{name}_low")), _number(record.get(f"{name}_high"))


def map_of(fit: Any, rows: pl.DataFrame | None) -> Uniform | None:
    """Return the map of a fit to the uniformised plane; if it has none, that of the tested rows, if these are known."""
    uniform = getattr(fit, "uniform", None)
    if isinstance(uniform, Uniform):
        return uniform
    return None if rows is None else Uniform.learn(rows["d0"].to_numpy(), rows["d1"].to_numpy())
