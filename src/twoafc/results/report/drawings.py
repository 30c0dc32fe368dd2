"""The figures of a report as SVG inside the page, each with what it shows in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

import numpy as np
import polars as pl
from markupsafe import Markup

from twoafc import plots
from twoafc.arrays import FloatArray
from twoafc.core import Uniform
from twoafc.files import BREAKS, legible
from twoafc.inference import Goodness, Record
from twoafc.results.report.verdict import with_error
from twoafc.table import Pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from twoafc.results.result import Result

NODES, CELLS = 61, 10
"""Nodes of a surface along each axis, and cells in which its triplets are counted."""
MOST_DRAWN = 12
"""Distances whose surface, curve or reliability is drawn, the best first: more would make a page that nobody reads."""


@dataclass(frozen=True)
class Drawing:
    """A figure, under its name."""

    name: str
    image: Markup


Reference = dict[str, float | tuple[float, float]]
"""What scores are compared with: a line, or a band."""
FONTS = re.compile(r"font(-family)?:([^;]*?)'DejaVu Sans'[^;]*")
REFERENCE = re.compile(r"url\(#([^)]*)\)")
DROPPED = ("metadata", "style")


@dataclass(frozen=True)
class Scale:
    """A score as a forest plot shows it."""

    name: str
    label: str
    better: Literal["lower", "higher"]
    reference: Reference = field(default_factory=dict)


def scales(result: Result, ranked: Sequence[Record]) -> list[Scale]:
    """The scores that are drawn, with their floor and, for triplets, their ceiling."""
    if result.row == "pair":
        floors = {name: ranked[0].get(f"{name}_floor") for name in ("nll", "average_precision")} if ranked else {}
        lines: dict[str, Reference] = {
            name: {"constant P": floor} if floor is not None and np.isfinite(floor) else {}
            for name, floor in floors.items()
        }
        return [
            Scale("nll", "NLL, nats per pair", "lower", lines.get("nll", {})),
            Scale("average_precision", "average precision, %", "higher", lines.get("average_precision", {})),
        ]
    nll: Reference = {}
    share: Reference = {}
    ceiling = result.ceiling
    if ceiling is not None:
        nll, share = {"floor": ceiling.floor_nll}, {"floor": 50.0}
        if ceiling.known:
            nll |= {"ceiling": (ceiling.nll_lowest, ceiling.nll_highest)}
            share |= {"ceiling": (ceiling.score_2afc_lowest, ceiling.score_2afc_highest)}
    return [
        Scale("nll", "NLL, nats per triplet", "lower", nll),
        Scale("score_2afc_distance", "2AFC of the distance alone, %", "higher", share),
    ]


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
    words = "; ".join(
        f"{row.name}{f', {row.group}' if row.group else ''}: {row.value:.4g}"
        + (f" ({row.low:.4g} to {row.high:.4g})" if np.isfinite(row.low) else "")
        for row in rows
    )
    title = f"{scale.label}: every distance with its 95 % interval, {scale.better} is better"
    return Drawing(scale.label, inline(figure, name=f"forest-{scale.name}", title=title, description=words))


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def surfaces(result: Result, ranked: Sequence[Record]) -> list[Drawing]:
    """P over the plane of the two distances, of every fit that is saved, the best first."""
    drawn = []
    for place, record in enumerate(ranked[:MOST_DRAWN]):
        fit, rows = result.model(*_key(record)), _tested(result, record)
        uniform = None if fit is None else map_of(fit, rows)
        if uniform is not None:
            drawn.append(Drawing(_name(ranked, record), _surface(record, fit, uniform, rows, place)))
    return drawn


def map_of(fit: Any, rows: pl.DataFrame | None) -> Uniform | None:
    """The map of a fit to the plane of its surface; that of the tested rows where it has none and these are known."""
    uniform = getattr(fit, "uniform", None)
    if isinstance(uniform, Uniform):
        return uniform
    return None if rows is None else Uniform.learn(rows["d0"].to_numpy(), rows["d1"].to_numpy())


def surface_of(fit: Any, uniform: Uniform, size: int) -> FloatArray:
    """P over the uniformised plane, shape (size, size)."""
    d0, d1 = np.meshgrid(*[uniform.inverse(np.linspace(0, 1, size))] * 2, indexing="ij")
    return np.asarray(fit.probability(d0.ravel(), d1.ravel()), dtype=np.float64).reshape(size, size)


def unsaved(result: Result, ranked: Sequence[Record]) -> list[str]:
    """Names of what has no surface on the page, since its estimator saves no model."""
    return [_name(ranked, record) for record in ranked[:MOST_DRAWN] if result.model(*_key(record)) is None]


def _tested(result: Result, record: Record) -> pl.DataFrame | None:
    """The tested rows; None where these were counted, and single ones are not known."""
    return None if result.triplets is None else result.outcome_rows(*_key(record))


def _key(record: Record) -> tuple[str, str]:
    return record["distance"], record["estimator"]


def _name(ranked: Sequence[Record], record: Record) -> str:
    several = len({one["estimator"] for one in ranked}) > 1
    return f"{record['distance']}, {record['estimator']}" if several else str(record["distance"])


def _surface(record: Record, fit: Any, uniform: Uniform, rows: pl.DataFrame | None, place: int) -> Markup:
    P = surface_of(fit, uniform, NODES)
    density = None
    if rows is not None:
        u0, u1 = (uniform(rows[name].to_numpy()) for name in ("d0", "d1"))
        density = np.histogram2d(u0, u1, bins=CELLS, range=((0, 1), (0, 1)))[0]
    figure, ax = _panel()
    plots.surface(P, ax, density=density)
    title = f"Chance P that x1 is chosen, by {record['distance']}, over the plane of its two distances"
    words = f"P goes from {P.min():.2f} to {P.max():.2f} and is 1/2 where the distances are equal."
    return inline(figure, name=f"surface-{place}", title=title, description=words)


def _panel() -> tuple[Figure, Axes]:
    """A small figure with one square panel; its place is given, since finding it takes as long as drawing."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.2, 2.1))
    return figure, figure.add_axes((0.2, 0.18, 0.76, 0.79))


def curves(result: Result, ranked: Sequence[Record]) -> list[Drawing]:
    """P along the one distance of pairs, with the votes that it was tested on, the best first."""
    from matplotlib.figure import Figure

    drawn = []
    for place, record in enumerate(ranked[:MOST_DRAWN]):
        fit = result.model(*_key(record))
        if fit is None:
            continue  # an estimator of the user's own that saves no model
        name, label = _key(record)
        rows = result.rows.filter(distance=name, estimator=label).select("n", "M", "d")
        values = plots.curve_values(fit, Pairs.from_frame(rows))
        figure = Figure(figsize=(3.0, 2.3), layout="constrained")
        plots.curve(values, figure.subplots())
        title = f"Chance of same by {name}: the curve, and shares of the tested votes with 95 % intervals"
        words = f"P goes from {values.P[0]:.2f} at the smallest distances to {values.P[-1]:.2f} at the largest."
        drawn.append(
            Drawing(_name(ranked, record), inline(figure, name=f"curve-{place}", title=title, description=words))
        )
    return drawn


def reliabilities(result: Result, ranked: Sequence[Record]) -> list[Drawing]:
    """Share of votes for x1 against P, the best distance first."""
    shown = [record for record in ranked if _key(record) in result.goodness]
    return [
        Drawing(_name(ranked, record), _reliability(record, result.goodness[_key(record)], place))
        for place, record in enumerate(shown[:MOST_DRAWN])
    ]


def _reliability(record: Record, goodness: Goodness, place: int) -> Markup:
    calibration, of = goodness.calibration, "same" if goodness.row == "pair" else "x₁"
    figure, ax = _panel()
    plots.reliability(calibration.bins, ax, of=of)
    title = f"Share of votes for {of.replace('₁', '1')} against P, by {record['distance']}"
    far, chance, slope = 100 * calibration.ece, 100 * calibration.ece_by_chance, calibration.slope
    words = f"{len(calibration.bins)} bins of {goodness.row}s with like P; they lie {far:.1f} % from the diagonal on "
    words += f"average, where the noise of the votes alone would make it {chance:.1f} %."
    if np.isfinite(slope.low):
        words += f" Slope {with_error(slope.value, slope.se)}."
    return inline(figure, name=f"reliability-{place}", title=title, description=words)


def inline(figure: Figure, *, name: str, title: str, description: str = "") -> Markup:
    """Write a figure as an SVG element of a page.

    Parameters
    ----------
    name : str
        Prefix of its ids; figures of one page must have different names.
    title, description : str
        What the figure is, and what is seen on it, in words.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> element = inline(Figure(figsize=(1, 1)), name="empty", title="Nothing, as <text>")
    >>> element.startswith('<svg class="figure" role="img" aria-labelledby="empty-title"')
    True
    >>> "Nothing, as &lt;text&gt;" in element
    True
    """
    root = ElementTree.fromstring(plots.svg(figure))
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in DROPPED:
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        renamed = {_local(key): _renamed(_local(key), value, name) for key, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update(renamed)
    shape = {key: root.attrib[key] for key in ("width", "height", "viewBox")}
    root.attrib.clear()
    labels = f"{name}-title {name}-description" if description else f"{name}-title"
    root.attrib.update({"class": "figure", "role": "img", "aria-labelledby": labels, **shape})
    if description:
        root.insert(0, _worded("desc", f"{name}-description", description))
    root.insert(0, _worded("title", f"{name}-title", title))
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _local(name: str) -> str:
    """A name without its namespace, which HTML knows by the element svg itself."""
    return name.rpartition("}")[2] if isinstance(name, str) else name


def _renamed(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return FONTS.sub(_family, REFERENCE.sub(rf"url(#{name}-\1)", value)) if "#" in value or "font" in value else value


def _family(match: re.Match[str]) -> str:
    """The fonts of the page in place of a long list that no reader may have."""
    return f"font{match[1] or ''}:{match[2]}sans-serif"


def _worded(tag: str, identity: str, text: str) -> ElementTree.Element:
    element = ElementTree.Element(tag, {"id": identity})
    element.text = legible(text, keep=BREAKS)
    return element
