"""An evaluation as a folder of plain files, written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc import plots, report, tables
from twoafc.core import Uniform
from twoafc.evaluation import Evaluation, Run
from twoafc.files import Kept
from twoafc.folder import model_files, plain
from twoafc.plots.curves import Shown, curves, shown
from twoafc.table import Pairs, write_frame

RESULTS = Kept("scores.json", "results", ("models", "figures"))
check_folder, whole = RESULTS.check, RESULTS.whole


def write(
    evaluation: Evaluation, folder: str | Path, card: Mapping[str, Any], data: Mapping[str, pl.DataFrame] | None = None
) -> None:
    """Write scores, tables, triplets and models to a folder; an earlier result there is replaced as a whole.

    Parameters
    ----------
    card : mapping
        What made the result: see `twoafc.card`.
    data : mapping of file name to frame, optional
        Tables to keep beside the results.
    """
    with whole(folder) as partial:
        for name, frame in (data or {}).items():
            write_frame(frame, partial / name)
        _fill(partial, evaluation, card)


def _fill(folder: Path, evaluation: Evaluation, card: Mapping[str, Any]) -> None:
    write_frame(evaluation.frame(), folder / "scores.csv")
    if evaluation.triplets is not None:
        write_frame(evaluation.triplets, folder / f"{evaluation.row}s.parquet")
    shown = tables.all_tables(evaluation.scores, evaluation.comparisons)
    for ending, form in (("md", tables.markdown), ("tex", tables.latex)):
        reading = tables.READING if evaluation.comparisons else tables.BARS
        remarks = [reading, f"error bars: {evaluation.error_bars}", *evaluation.remarks()]
        text = [*(form(table) for table in shown), tables.remarks(remarks, ending)]
        (folder / f"tables.{ending}").write_text("\n".join(text), encoding="utf-8")
    if evaluation.votes is not None:
        write_frame(evaluation.votes, folder / "votes.parquet")
    if evaluation.comparisons:
        write_frame(pl.DataFrame(evaluation.comparisons, infer_schema_length=None), folder / "comparisons.csv")
    for name, run in model_names(evaluation.runs).items():
        if hasattr(run.fit, "save"):
            run.fit.save(folder / "models" / name)
    _draw(folder / "figures", evaluation)
    (folder / report.FILE).touch()
    told = {
        "scores": evaluation.scores,
        "comparisons": evaluation.comparisons,
        "ceiling": None if evaluation.ceiling is None else asdict(evaluation.ceiling),
        "findings": [asdict(finding) for finding in evaluation.findings],
        "goodness": [
            {"distance": distance, "estimator": estimator, **found.record()}
            for (distance, estimator), found in evaluation.goodness.items()
        ],
    }
    RESULTS.tell(folder, {**card, "notes": evaluation.notes, "error_bars": evaluation.error_bars}, told)
    report.write(folder)


def _draw(folder: Path, evaluation: Evaluation) -> None:
    for estimator in dict.fromkeys(run.estimator for run in evaluation.runs):
        held = {name: found for (name, label), found in evaluation.goodness.items() if label == estimator}
        figures = {"reliability": plots.reliabilities({name: found.calibration.bins for name, found in held.items()})}
        if evaluation.row == "pair":
            figures["curves"] = curves(_curves(evaluation, estimator))
        else:
            runs = [run for run in evaluation.runs if run.estimator == estimator]
            figures["surfaces"] = plots.surfaces(surfaces_of(runs))
            maps = {name: found.residuals for name, found in held.items() if found.residuals is not None}
            figures["residuals"] = plots.residual_maps(maps)
        for name, figure in figures.items():
            if figure is not None:
                stem = f"{name}-{plain(estimator)}"
                plots.save(figure, *(folder / f"{stem}.{ending}" for ending in ("svg", "pdf")), dpi=150)


def _curves(evaluation: Evaluation, estimator: str) -> dict[str, Shown]:
    """Curves over the tested pairs, by distance."""
    assert evaluation.triplets is not None
    named = {}
    for run in evaluation.runs:
        if run.estimator == estimator and run.distance not in named:
            rows = evaluation.triplets.filter(distance=run.distance, estimator=estimator).select("n", "M", "d")
            named[run.distance] = shown(run.fit, Pairs.from_frame(rows))
    return named


def surfaces_of(runs: list[Run], size: int = 101) -> dict[str, NDArray[np.float64]]:
    """P over the uniformised plane, by distance, of the fits that know their map; the first seed stands for all."""
    u = np.linspace(0, 1, size)
    named: dict[str, NDArray[np.float64]] = {}
    for run in runs:
        uniform = getattr(run.fit, "uniform", None)
        if isinstance(uniform, Uniform) and not run.diverged and run.distance not in named:
            d = uniform.inverse(u)
            named[run.distance] = run.fit.probability(d[:, None], d[None, :])
    return named


def model_names(runs: list[Run]) -> dict[str, Run]:
    """Name a file for each fit."""
    return dict(zip(model_files((run.distance, run.estimator, run.seed) for run in runs), runs, strict=True))
