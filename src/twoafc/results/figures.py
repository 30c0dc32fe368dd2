"""The figures of a result, one method each, and what its chart shows; its folder holds all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from twoafc import plots
from twoafc.arrays import FloatArray
from twoafc.core import Uniform
from twoafc.errors import DataError
from twoafc.inference import Goodness, Record
from twoafc.inference import p_text as text_of
from twoafc.results.compare import look_up
from twoafc.results.tables import key_of
from twoafc.results.verdict import ranking
from twoafc.table import Pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from twoafc.results.result import Result, Run

NODES = 61
"""Nodes of a surface along each axis."""


class Figures:
    """Draw a result: every method returns a matplotlib figure, with the best distance first.

    `estimator` is the first of the result by default, `distances` all of it. `twoafc.plots.save` writes a figure.
    """

    def __init__(self, result: Result) -> None:
        self._result = result

    def __repr__(self) -> str:
        return f"figures: {', '.join(name for name in dir(self) if not name.startswith('_'))}"

    def differences(self) -> Figure:
        """Paired differences of NLL from the leader or the baseline, or of planned pairs; else the scores."""
        from matplotlib.figure import Figure

        shown = chart(self._result, ranking(self._result))
        figure = Figure(figsize=(plots.COLUMN, 0.75 + 0.17 * len(shown.rows)), layout="constrained")
        ax = plots.forest(shown.rows, figure.subplots(), label=shown.label, reference=shown.reference)
        if shown.kind != "scores":
            ax.axvline(0, color="black", linewidth=0.6, zorder=0)
        return figure

    def surfaces(self, distances: str | Sequence[str] | None = None, estimator: str | None = None) -> Figure:
        """P(d0, d1) over the plane of the two distances, both mapped to [0, 1] by the distribution of all of them."""
        runs = self._runs(*self._asked(distances, estimator, "triplet", "surfaces"))
        return _drawn(plots.surfaces(surfaces_of(runs, NODES, rows=self._result.triplets)), "surface")

    def curves(self, distances: str | Sequence[str] | None = None, estimator: str | None = None) -> Figure:
        """P(same | d) of pairs, with the tested pairs."""
        values: dict[str, plots.Curve] = {}
        for run in self._runs(*self._asked(distances, estimator, "pair", "curves")):
            if run.distance not in values:
                values[run.distance] = curve_of(self._result, run.fit, run.distance, run.estimator)
        return _drawn(plots.curves(values) if values else None, "curve")

    def reliability(self, distances: str | Sequence[str] | None = None, estimator: str | None = None) -> Figure:
        """Share of votes against P, in bins of equal numbers of rows."""
        goodness = self._goodness(*self._asked(distances, estimator))
        bins = {name: value.calibration.bins for name, value in goodness.items()}
        return _drawn(plots.reliabilities(bins, of="same" if self._result.row == "pair" else "x1"), "calibration")

    def residuals(self, distances: str | Sequence[str] | None = None, estimator: str | None = None) -> Figure:
        """Where over the plane people chose x1 more or less often than P says."""
        goodness = self._goodness(*self._asked(distances, estimator, "triplet", "residuals"))
        maps = {name: value.residuals for name, value in goodness.items() if value.residuals is not None}
        return _drawn(plots.residual_maps(maps), "map of residuals")

    def functions(self) -> Figure:
        """What each part contributes to a fused distance, as a function of its own."""
        fused = self._result.fused
        return plots.functions({name: fused.drawn(name) for name in fused.parts})

    def triplet(self, name: str | int, distance: str | None = None, *, images: str | Path | None = None) -> Figure:
        """One tested triplet: images, votes, P, and the NLL of every count."""
        from twoafc.results.image_folder import pictures_of
        from twoafc.results.query import ask_triplet, draw_card

        self._require("triplet", "cards")
        asked = ask_triplet(self._result, str(name), names=None if distance is None else [distance])
        first = next(iter(asked["answers"]))
        pictures = pictures_of(self._result, None if images is None else Path(images))
        return draw_card(asked, {first: asked["answers"][first]}, pictures)

    def files(self) -> dict[str, Figure]:
        """All figures, by the names of their files in a folder of results."""
        figures: dict[str, Figure] = {}
        kinds = ("reliability", "curves") if self._result.row == "pair" else ("reliability", "surfaces", "residuals")
        ranked = ranking(self._result)
        if len(ranked) > 1:
            tested = chart(self._result, ranked).kind != "scores"
            figures["differences" if tested else "scores"] = self.differences()
        if "fusion" in self._result.card:
            figures["functions"] = self.functions()
        for estimator in dict.fromkeys(label for _, label, _ in self._result.fits):
            for kind in kinds:
                # An estimator that saves no model has no surface, one that diverged no calibration.
                with suppress(NothingToDrawError):
                    figures[f"{kind}-{estimator}"] = getattr(self, kind)(estimator=estimator)
        return figures

    def _require(self, row: str, what: str) -> None:
        if self._result.row != row:
            other = "reliability, curves, differences" if row == "triplet" else "reliability, surfaces, differences"
            raise DataError(f"{what} are drawn of {row}s; this result has {self._result.row}s: {other}")

    def _asked(
        self, distances: str | Sequence[str] | None, estimator: str | None, row: str = "", what: str = ""
    ) -> tuple[str, list[str]]:
        """Return the requested estimator and distances, the best first; check the kind of row."""
        self._require(row or self._result.row, what)
        labels = list(dict.fromkeys(label for _, label, _ in self._result.fits))
        label = labels[0] if estimator is None else look_up("estimator", estimator, labels, self._result.name)
        scored = [record["distance"] for record in ranking(self._result) if record["estimator"] == label]
        known = list(dict.fromkeys([*scored, *(name for name, own, _ in self._result.fits if own == label)]))
        asked = known if distances is None else [distances] if isinstance(distances, str) else distances
        wanted = {look_up("distance", name, known, self._result.name) for name in asked}
        return label, [name for name in known if name in wanted]

    def _runs(self, estimator: str, distances: Sequence[str]) -> list[Run]:
        runs = [run for run in self._result.runs if run.estimator == estimator and run.distance in distances]
        return sorted(runs, key=lambda run: distances.index(run.distance))

    def _goodness(self, estimator: str, distances: Sequence[str]) -> dict[str, Goodness]:
        known = self._result.goodness
        return {name: known[name, estimator] for name in distances if (name, estimator) in known}


class NothingToDrawError(DataError):
    """A figure would be empty."""


def _drawn(figure: Figure | None, what: str) -> Figure:
    if figure is None:
        reason = "none was kept, every run diverged, or the results are of counts"
        raise NothingToDrawError(f"there is no {what} to draw: {reason}")
    return figure


def surfaces_of(runs: Sequence[Run], size: int = 101, rows: pl.DataFrame | None = None) -> dict[str, FloatArray]:
    """Evaluate P over the uniformised plane, by distance; with several seeds, the first that did not diverge.

    ``rows`` are the tested ones: their distances define the plane of saved fits that have no map of their own.
    """
    surfaces: dict[str, FloatArray] = {}
    for run in runs:
        if not run.diverged and run.distance not in surfaces:
            saved = rows if hasattr(run.fit, "save") else None
            tested = None if saved is None else saved.filter(distance=run.distance, estimator=run.estimator)
            uniform = map_of(run.fit, tested)
            if uniform is not None:
                surfaces[run.distance] = plots.surface_values(run.fit.probability, uniform, size)
    return surfaces


def map_of(fit: Any, rows: pl.DataFrame | None) -> Uniform | None:
    """Return the map of a fit to the uniformised plane; if it has none, that of the tested rows, if these are known."""
    uniform = getattr(fit, "uniform", None)
    if isinstance(uniform, Uniform):
        return uniform
    return None if rows is None else Uniform.learn(rows["d0"].to_numpy(), rows["d1"].to_numpy())


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
        mine = {f"{record['a']} – {record['b']}": record for record, _ in compared}
        rows = [_difference(record, record["a"], name) for name, record in mine.items()]
        return Chart("pairs", f"difference of NLL, {unit}", rows, p={name: p_text(r) for name, r in mine.items()})
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
    low, high = sorted(sign * _number(record[f"{end}_holm"]) for end in ("low", "high"))
    return plots.ForestRow(name, sign * record["difference"], low, high)


def _references(result: Result, record: Record, origin: float = 0.0) -> dict[str, plots.Reference]:
    """Return floor and ceiling of the NLL, less the NLL of the distance that the others are compared with."""
    ceiling = result.ceiling
    if ceiling is None:
        floor = _number(record.get("nll_floor"))
        return {"constant P": floor - origin} if math.isfinite(floor) else {}
    best = {"ceiling": (ceiling.nll_lowest - origin, ceiling.nll_highest - origin)} if ceiling.known else {}
    return {**best, "P = 1/2": ceiling.floor_nll - origin}


def curve_of(result: Result, fit: Any, distance: str, estimator: str) -> plots.Curve:
    """Return the curve of P(same | d) of a fit, with the tested pairs."""
    rows = result.rows.filter(distance=distance, estimator=estimator)
    return plots.curve_values(fit, Pairs.from_frame(rows.select("n", "M", "d")))


def p_text(record: Record) -> str:
    """Write the p-value of a comparison; corrected where there was more than one test.

    Examples
    --------
    >>> p_text({"p_holm": 0.00002, "tests": 45}), p_text({"p_holm": 0.031, "tests": 1}), p_text({"p_holm": None})
    ('p < 0.0001 (Holm)', 'p = 0.031', '')
    """
    p = record["p_holm"]
    return "" if p is None else text_of(p) + " (Holm)" * bool(record["tests"] > 1)


def interval_of(record: Record, name: str) -> tuple[float, float, float]:
    """Return a score with the ends of its interval; NaN for unknown ones."""
    return _number(record[name]), _number(record.get(f"{name}_low")), _number(record.get(f"{name}_high"))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
