"""The figures of a result, one method each; its folder holds all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from twoafc import plots
from twoafc.arrays import FloatArray
from twoafc.errors import DataError
from twoafc.inference import Goodness
from twoafc.results.chart import NODES, chart, map_of
from twoafc.results.compare import look_up
from twoafc.results.verdict import ranking
from twoafc.table import Pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from twoafc.results.result import Result, Run


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
        self._require("triplet", "surfaces")
        runs = self._runs(*self._asked(distances, estimator))
        return _drawn(plots.surfaces(surfaces_of(runs, NODES, rows=self._result.triplets)), "surface")

    def curves(self, distances: str | Sequence[str] | None = None, estimator: str | None = None) -> Figure:
        """P(same | d) of pairs, with the tested pairs."""
        self._require("pair", "curves")
        values: dict[str, plots.Curve] = {}
        for run in self._runs(*self._asked(distances, estimator)):
            if run.distance not in values:
                rows = self._result.rows.filter(distance=run.distance, estimator=run.estimator)
                values[run.distance] = plots.curve_values(run.fit, Pairs.from_frame(rows.select("n", "M", "d")))
        return _drawn(plots.curves(values) if values else None, "curve")

    def reliability(self, distances: str | Sequence[str] | None = None, estimator: str | None = None) -> Figure:
        """Share of votes against P, in bins of equal numbers of rows."""
        goodness = self._goodness(*self._asked(distances, estimator))
        bins = {name: value.calibration.bins for name, value in goodness.items()}
        return _drawn(plots.reliabilities(bins, of="same" if self._result.row == "pair" else "x1"), "calibration")

    def residuals(self, distances: str | Sequence[str] | None = None, estimator: str | None = None) -> Figure:
        """Where over the plane people chose x1 more or less often than P says."""
        self._require("triplet", "residuals")
        goodness = self._goodness(*self._asked(distances, estimator))
        maps = {name: value.residuals for name, value in goodness.items() if value.residuals is not None}
        return _drawn(plots.residual_maps(maps), "map of residuals")

    def functions(self) -> Figure:
        """What each part contributes to a fused distance, as a function of its own."""
        fused = self._result.fused
        return plots.functions({name: fused.drawn(name) for name in fused.parts})

    def triplet(self, name: str | int, distance: str | None = None, *, images: str | Path | None = None) -> Figure:
        """One tested triplet: images, votes, P, and the NLL of every count."""
        from twoafc.results.query import ask_triplet, draw_card, pictures_of

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

    def _asked(self, distances: str | Sequence[str] | None, estimator: str | None) -> tuple[str, list[str]]:
        """Return the estimator that is asked for, and the distances, the best first."""
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
    """A figure would have nothing on it."""


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
