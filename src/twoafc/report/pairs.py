"""Results of pairs as one page: verdict, scores, differences, curves and groups."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from twoafc import tables
from twoafc.errors import DataError
from twoafc.estimators import DensityCurve, SplineCurve, load
from twoafc.folder import file_names
from twoafc.inference import Record
from twoafc.plots.curves import curve, shown
from twoafc.report import grids
from twoafc.report.drawings import MOST_DRAWN, Drawing, Scale, forests
from twoafc.report.page import heading, render, too_many_groups
from twoafc.report.svg import inline
from twoafc.report.verdict import judged, verdict
from twoafc.table import Pairs
from twoafc.tables import short

DIFFERENCES = {"nll": ("NLL", 4), "average_precision": ("AP %, distance only", 2)}


def pairs_page(folder: Path) -> str:
    """Write a folder of results of pairs as the text of a page."""
    told, pairs = _read(folder)
    ranked, scores = judged(told), told["scores"]
    table = tables.summary(scores, columns=short(scores))
    return render(
        "pairs.html",
        told["card"],
        heading=heading(ranked),
        verdict=verdict(told),
        scores=grids.Grid(table.caption, table.header, table.rows),
        reading=[tables.READING, f"error bars: {told['card']['error_bars']}"],
        forests=forests(ranked, _scales(ranked)),
        differences=grids.differences(told["comparisons"], ranked, DIFFERENCES),
        curves=_curves(folder, told, pairs, ranked),
        groups=grids.groups(scores),
        many_groups=too_many_groups(scores),
    )


def _read(folder: Path) -> tuple[dict[str, Any], pl.DataFrame]:
    path = folder / "scores.json"
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        _ = told["scores"], told["comparisons"], told["card"]["error_bars"]
        return told, pl.read_parquet(folder / "pairs.parquet")
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is not that of a result; run twoafc evaluate again") from error


def _scales(ranked: Sequence[Record]) -> list[Scale]:
    floors = {name: ranked[0].get(f"{name}_floor") for name in ("nll", "average_precision")} if ranked else {}
    reference = {name: {} if floor is None else {"constant P": floor} for name, floor in floors.items()}
    return [
        Scale("nll", "NLL, nats per pair", "lower", reference.get("nll", {})),
        Scale("average_precision", "average precision, %", "higher", reference.get("average_precision", {})),
    ]


def _curves(folder: Path, told: Mapping[str, Any], pairs: pl.DataFrame, ranked: Sequence[Record]) -> list[Drawing]:
    """Each curve with the votes that it was tested on."""
    from matplotlib.figure import Figure

    keys = list(dict.fromkeys((record["distance"], record["estimator"]) for record in told["scores"]))
    files = dict(zip(keys, file_names(["-".join(key) for key in keys]), strict=True))
    several = len({label for _, label in keys}) > 1
    drawn = []
    for place, record in enumerate(ranked[:MOST_DRAWN]):
        name, label = record["distance"], record["estimator"]
        path = folder / "models" / files[name, label]
        fit = load(path) if path.is_file() else None
        if not isinstance(fit, DensityCurve | SplineCurve):
            continue  # an estimator of the user's own saves no model that could be read here
        rows = pairs.filter(distance=name, estimator=label).select("n", "M", "d")
        values = shown(fit, Pairs.from_frame(rows))
        figure = Figure(figsize=(3.0, 2.3), layout="constrained")
        curve(values, figure.subplots())
        title = f"Chance of same by {name}: the curve, and shares of the tested votes with 95 % intervals"
        words = f"P goes from {values.P[0]:.2f} at the smallest distances to {values.P[-1]:.2f} at the largest."
        image = inline(figure, name=f"curve-{place}", title=title, description=words)
        drawn.append(Drawing(f"{name}, {label}" if several else name, image))
    return drawn
