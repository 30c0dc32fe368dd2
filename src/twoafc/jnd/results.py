"""An evaluation of pairs as a folder of plain files, written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from twoafc import plots, tables
from twoafc.folder import file_names, plain
from twoafc.frames import write_frame
from twoafc.jnd.evaluation import PairsEvaluation
from twoafc.jnd.figures import curves, shown
from twoafc.jnd.pairs import Pairs
from twoafc.jnd.report import page
from twoafc.jnd.runs import CurveRun
from twoafc.jnd.tables import all_tables
from twoafc.report import FILE, put
from twoafc.results import RESULTS, whole


def write(evaluation: PairsEvaluation, folder: str | Path, card: Mapping[str, Any], train: Pairs) -> None:
    """Write scores, tables, pairs, models and figures to a folder; an earlier result there is replaced as a whole.

    Parameters
    ----------
    card : mapping
        What made the result: see `twoafc.jnd.card`.
    train : Pairs
        What the curves were fitted to, for the figures.
    """
    with whole(folder) as partial:
        _fill(partial, evaluation, card, train)


def _fill(folder: Path, evaluation: PairsEvaluation, card: Mapping[str, Any], train: Pairs) -> None:
    write_frame(evaluation.frame(), folder / "scores.csv")
    write_frame(evaluation.pairs, folder / "pairs.parquet")
    if evaluation.comparisons:
        write_frame(pl.DataFrame(evaluation.comparisons, infer_schema_length=None), folder / "comparisons.csv")
    found = all_tables(evaluation.scores, evaluation.comparisons)
    for ending, form in (("md", tables.markdown), ("tex", tables.latex)):
        remarks = [f"error bars: {evaluation.error_bars}", *evaluation.notes]
        text = [*(form(table) for table in found), tables.remarks(remarks, ending)]
        (folder / f"tables.{ending}").write_text("\n".join(text), encoding="utf-8")
    names = file_names([f"{run.distance}-{run.estimator}" for run in evaluation.runs])
    for name, run in zip(names, evaluation.runs, strict=True):
        if hasattr(run.fit, "save"):
            run.fit.save(folder / "models" / name)
    _draw(folder / "figures", evaluation.runs, train)
    (folder / FILE).touch()
    told = {**card, "notes": evaluation.notes, "error_bars": evaluation.error_bars}
    RESULTS.tell(folder, told, {"scores": evaluation.scores, "comparisons": evaluation.comparisons})
    put(folder, page(folder))


def _draw(folder: Path, runs: list[CurveRun], train: Pairs) -> None:
    for estimator in dict.fromkeys(run.estimator for run in runs):
        named = {run.distance: shown(run.fit, train[run.distance]) for run in runs if run.estimator == estimator}
        figure = curves(named)
        plots.save(figure, *(folder / f"curves-{plain(estimator)}.{ending}" for ending in ("svg", "pdf")), dpi=150)
