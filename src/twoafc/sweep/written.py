"""A sweep as tables, figures and a folder of plain files, written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoafc import plots
from twoafc.files import Kept
from twoafc.inference import Record
from twoafc.results import Table, latex, markdown, note_lines
from twoafc.sweep.found import Measure, Sweep
from twoafc.sweep.points import Parameter
from twoafc.table import write_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Kept("sweep.json", "sweeps")
READING = "± standard error; best: least NLL, chosen by the tested votes themselves, which flatters it a little"
CHOSEN = {
    False: "automatic: chosen by triplets left out in turn from the training table",
    True: "automatic: chosen by triplets left out in turn from the whole table; its NLL is that of choosing anew in "
    "each fold, without the triplets that are scored",
}
"""What the automatic sigma is, with a test table and where the table is cross-validated."""
DRAWN: tuple[Measure, ...] = ("nll", "agreement")


def write(found: Sweep, folder: str | Path, card: Mapping[str, Any]) -> None:
    """Write scores, tables and figures to a folder; an earlier sweep there is replaced as a whole.

    Parameters
    ----------
    card : mapping
        What made the sweep: see `twoafc.results.make_card`.
    """
    with FOLDER.whole(folder) as partial:
        write_frame(found.frame(), partial / "sweep.csv")
        shown = [summary(found, parameter) for parameter in found.parameters]
        for ending, form in (("md", markdown), ("tex", latex)):
            text = [*(form(table) for table in shown), note_lines(remarks(found), ending)]
            (partial / f"tables.{ending}").write_text("\n".join(text), encoding="utf-8")
        for parameter, measure in product(found.parameters, DRAWN):
            figure = draw(found, parameter, measure)
            stem = f"sweep-{parameter}-{measure}"
            plots.save(figure, *(partial / "figures" / f"{stem}.{ending}" for ending in ("svg", "pdf")))
        FOLDER.tell(partial, {**card, "notes": found.notes, "error_bars": found.error_bars}, content(found))


def content(found: Sweep) -> dict[str, Any]:
    """Put together what sweep.json holds beside the card."""
    return {
        "held": _settings(found.held),
        "chosen": _settings(found.chosen),
        "automatic": {name: _settings(each) for name, each in found.automatic.items()},
        "scores": found.scores,
        "automatic_scores": list(found.tested.values()),
        "comparisons": found.comparisons,
        "findings": [asdict(each) for each in found.findings],
    }


def _settings(each: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(each).items() if name in ("sigma", "grid_size")}


def remarks(found: Sweep) -> list[str]:
    """Say what a reader of the tables should know."""
    automatic = [CHOSEN[found.cross_validated]] if found.tested else []
    compared = [f"{record['distance']}: {record['sentence']}" for record in found.comparisons]
    told = [READING, *automatic, f"error bars: {found.error_bars}", *compared]
    return [*told, *(f"note: {note}" for note in found.notes), *map(str, found.findings)]


def summary(found: Sweep, parameter: Parameter) -> Table:
    """Tell of each distance the best, the automatic and the paper's value, with the NLL of each."""
    automatic, chosen = found.automatic_values(parameter), float(getattr(found.chosen, parameter))
    rows = []
    for name in found.distances:
        records = [found.best(name, parameter), found.at(name, parameter, chosen)]
        if automatic:
            by_itself = found.tested[name] if parameter == "sigma" else found.at(name, parameter, automatic[name])
            records.insert(1, by_itself)
        rows.append((name, *(text for record in records for text in _cells(record, parameter))))
    heading = {"sigma": "sigma", "grid_size": "nodes"}[parameter]
    kinds = ("best", *(("automatic",) if automatic else ()), "paper's")
    header = ("distance", *(text for kind in kinds for text in (f"{kind} {heading}", "NLL ↓")))
    held = {"sigma": f"{found.held.grid_size} nodes an axis", "grid_size": f"sigma = {found.held.sigma:.3g}"}[parameter]
    first = found.scores[0]
    caption = f"NLL against {heading}, with {held}: {first['triplets']} triplets, {first['votes']} votes"
    return Table(caption, header, tuple(rows))


def _cells(record: Record, parameter: Parameter) -> tuple[str, str]:
    value, se = record[parameter], record["nll_se"]
    error = "" if se is None else f" ± {se:.4f}"
    return f"{value:.3g}" if parameter == "sigma" else str(value), f"{record['nll']:.4f}{error}"


def draw(found: Sweep, parameter: Parameter, measure: Measure = "nll") -> Figure:
    """Draw a measure against a parameter for every distance, the paper's and the automatic values marked."""
    from matplotlib.figure import Figure

    labels = {
        "sigma": f"kernel width σ ({found.held.grid_size} nodes an axis)",
        "grid_size": f"nodes along an axis (σ = {found.held.sigma:.3g})",
    }
    measures = {
        "nll": "NLL, nats per triplet",
        "nll_per_vote": "NLL, nats per vote",
        "agreement": "agreement AJ, %",
        "score_2afc": "2AFC score, %",
    }
    figure = Figure(figsize=(4.4, 3.2), layout="constrained")
    plots.sweep(
        found.curves(parameter, measure),
        figure.subplots(),
        label=labels[parameter],
        measure=measures[measure],
        chosen=float(getattr(found.chosen, parameter)),
        automatic=found.automatic_values(parameter),
        logarithmic=parameter == "sigma",
    )
    return figure
