"""The figures of a report, one for each distance, each with what is seen on it in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from markupsafe import Markup

from twoafc import plots
from twoafc.core import Uniform
from twoafc.estimators import Loaded
from twoafc.folder import Results
from twoafc.inference import Bin, Ceiling, Record
from twoafc.outcomes import outcomes
from twoafc.report.svg import inline
from twoafc.report.verdict import judged, with_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NODES, CELLS = 61, 10
"""Nodes of a surface along each axis, and cells in which its triplets are counted."""
MOST_DRAWN = 12
"""Distances whose surface and reliability are drawn, the best first: more would make a page that nobody reads."""


@dataclass(frozen=True)
class Drawing:
    """A figure, under its name."""

    name: str
    image: Markup


Reference = Mapping[str, float | tuple[float, float]]
"""What scores are held against: a line, or a band."""


@dataclass(frozen=True)
class Scale:
    """A score as a forest plot shows it."""

    name: str
    label: str
    better: Literal["lower", "higher"]
    reference: Reference = field(default_factory=dict)


def scales(found: Ceiling | None) -> list[Scale]:
    """Give the scores that are drawn of triplets, between floor and ceiling."""
    nll, share = (
        Scale("nll", "NLL, nats per triplet", "lower"),
        Scale("score_2afc_distance", "2AFC of the distance alone, %", "higher"),
    )
    if found is None:
        return [nll, share]
    floors: list[Reference] = [{"floor": found.floor_nll}, {"floor": 50.0}]
    ends = (found.nll_lowest, found.nll_highest), (found.score_2afc_lowest, found.score_2afc_highest)
    bands: list[Reference] = [{"ceiling": each} if found.known else {} for each in ends]
    return [replace(s, reference={**f, **b}) for s, f, b in zip((nll, share), floors, bands, strict=True)]


def forests(records: Sequence[Record], shown: Sequence[Scale]) -> list[Drawing]:
    """Scores with their error bars, a figure for each scale."""
    several = len({record["estimator"] for record in records}) > 1
    return [_forest(scale, records, several) for scale in shown if records]


def _forest(scale: Scale, records: Sequence[Record], several: bool) -> Drawing:
    from matplotlib.figure import Figure

    rows = [
        plots.ForestRow(
            name=record["distance"],
            value=record[scale.name],
            low=_or_nan(record.get(f"{scale.name}_low")),
            high=_or_nan(record.get(f"{scale.name}_high")),
            letters=record.get(f"{scale.name}_letters") or "",
            group=record["estimator"] if several else "",
        )
        for record in records
        if record.get(scale.name) is not None
    ]
    lines = len(rows) + (len({row.group for row in rows}) if several else 0)
    figure = Figure(figsize=(4.2, 0.8 + 0.24 * lines), layout="constrained")
    plots.forest(rows, figure.subplots(), label=scale.label, better=scale.better, reference=scale.reference)
    told = "; ".join(
        f"{row.name}{f', {row.group}' if row.group else ''}: {row.value:.4g}"
        + (f" ({row.low:.4g} to {row.high:.4g})" if np.isfinite(row.low) else "")
        for row in rows
    )
    title = f"{scale.label}: every distance with its 95 % interval, {scale.better} is better"
    return Drawing(scale.label, inline(figure, name=f"forest-{scale.name}", title=title, description=told))


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def surfaces(results: Results) -> list[Drawing]:
    """P over the plane of the two distances, of every fit that knows its map, the best first."""
    return [
        Drawing(_name(results, record), _surface(record, fit, _tested(results, record), place))
        for place, (record, fit) in enumerate(_fits(results))
    ]


def _fits(results: Results) -> Iterator[tuple[Record, Loaded]]:
    for record in judged(results.told)[:MOST_DRAWN]:
        # An estimator of the user's own saves no model.
        if results.has_model(*_key(record)):
            fit = results.fit(*_key(record))
            if isinstance(fit.uniform, Uniform):
                yield record, fit


def _tested(results: Results, record: Record) -> pl.DataFrame | None:
    """The tested triplets; None where these were counted, and nothing is told of single ones."""
    return outcomes(results, *_key(record)) if (results.folder / "triplets.parquet").is_file() else None


def _key(record: Record) -> tuple[str, str]:
    return record["distance"], record["estimator"]


def _name(results: Results, record: Record) -> str:
    several = len({label for _, label, _ in results.fits}) > 1
    return f"{record['distance']}, {record['estimator']}" if several else str(record["distance"])


def _surface(record: Record, fit: Loaded, rows: pl.DataFrame | None, place: int) -> Markup:
    uniform = fit.uniform
    assert isinstance(uniform, Uniform)
    d = uniform.inverse(np.linspace(0, 1, NODES))
    P = np.asarray(fit.probability(d[:, None], d[None, :]))
    density = None
    if rows is not None:
        u0, u1 = (uniform(rows[name].to_numpy()) for name in ("d0", "d1"))
        density = np.histogram2d(u0, u1, bins=CELLS, range=((0, 1), (0, 1)))[0]
    figure, ax = _panel()
    plots.surface(P, ax, density=density)
    title = f"Chance P that x1 is chosen, by {record['distance']}, over the plane of its two distances"
    told = f"P goes from {P.min():.2f} to {P.max():.2f} and is 1/2 where the distances are equal."
    return inline(figure, name=f"surface-{place}", title=title, description=told)


def _panel() -> tuple[Figure, Axes]:
    """A small figure with one square panel; its place is given, since finding it takes as long as drawing."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.2, 2.1))
    return figure, figure.add_axes((0.2, 0.18, 0.76, 0.79))


def reliabilities(results: Results) -> list[Drawing]:
    """Share of votes for x1 against P, the best distance first."""
    held = {(each["distance"], each["estimator"]): each["calibration"] for each in results.told.get("goodness") or []}
    shown = [record for record in judged(results.told) if _key(record) in held]
    return [
        Drawing(_name(results, record), _reliability(record, held[_key(record)], place))
        for place, record in enumerate(shown[:MOST_DRAWN])
    ]


def _reliability(record: Record, calibration: Mapping[str, Any], place: int) -> Markup:
    bins = [Bin(**{each.name: _or_nan(told[each.name]) for each in fields(Bin)}) for told in calibration["bins"]]  # type: ignore[arg-type]
    figure, ax = _panel()
    plots.reliability(bins, ax)
    title = f"Share of votes for x1 against P, by {record['distance']}"
    far, chance = (100 * _or_nan(calibration[each]) for each in ("ece", "ece_by_chance"))
    slope = calibration["slope"]
    told = f"{len(bins)} bins of triplets with like P; they lie {far:.1f} % from the diagonal on average, "
    told += f"where the noise of the votes alone would make it {chance:.1f} %."
    if slope["low"] is not None:
        told += f" Slope {with_error(slope['value'], slope['se'])}."
    return inline(figure, name=f"reliability-{place}", title=title, description=told)
