"""An evaluation of pairs as a folder of plain files, written whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from twoafc import tables
from twoafc.frames import write_frame
from twoafc.jnd.evaluation import PairsEvaluation
from twoafc.jnd.figures import curves, shown
from twoafc.jnd.pairs import Pairs
from twoafc.jnd.runs import CurveRun
from twoafc.jnd.tables import all_tables
from twoafc.results import check_folder, strict_json


def write(evaluation: PairsEvaluation, folder: str | Path, card: Mapping[str, Any], train: Pairs) -> None:
    """Write scores, tables, pairs, models and figures to a folder; an earlier result there is replaced as a whole.

    Parameters
    ----------
    card : mapping
        What made the result: see `twoafc.jnd.card`.
    train : Pairs
        What the curves were fitted to, for the figures.
    """
    check_folder(folder)
    folder = Path(folder).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        partial.mkdir()
        _fill(partial, evaluation, card, train)
        _replace(folder, partial)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _replace(folder: Path, partial: Path) -> None:
    """Put a finished folder in the place of an earlier one, which is given up only when the new one stands."""
    old = partial.with_suffix(".old")
    if folder.exists():
        folder.rename(old)
    try:
        partial.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


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
    (folder / "models").mkdir()
    for name, run in model_names(evaluation.runs).items():
        if hasattr(run.fit, "save"):
            run.fit.save(folder / "models" / name)
    _draw(folder / "figures", evaluation.runs, train)
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    told = {
        "card": {
            **card,
            "notes": evaluation.notes,
            "error_bars": evaluation.error_bars,
            "files": sorted([*files, "scores.json"]),
        },
        "scores": evaluation.scores,
        "comparisons": evaluation.comparisons,
    }
    (folder / "scores.json").write_text(strict_json(told, indent=1), encoding="utf-8")


def _draw(folder: Path, runs: list[CurveRun], train: Pairs) -> None:
    folder.mkdir()
    for estimator in dict.fromkeys(run.estimator for run in runs):
        named = {run.distance: shown(run.fit, train[run.distance]) for run in runs if run.estimator == estimator}
        figure = curves(named)
        for ending in ("svg", "pdf"):
            figure.savefig(folder / f"curves-{_plain(estimator)}.{ending}", dpi=150)


def model_names(runs: list[CurveRun]) -> dict[str, CurveRun]:
    """Name a file for each fit: distance-estimator.npz, told apart where columns differ by odd signs alone."""
    named: dict[str, CurveRun] = {}
    for run in runs:
        stem = _plain(f"{run.distance}-{run.estimator}")
        taken = sum(name.startswith((f"{stem}.", f"{stem}~")) for name in named)
        named[f"{stem}~{taken}.npz" if taken else f"{stem}.npz"] = run
    return named


def _plain(name: str) -> str:
    """Make a name fit for a file, whatever the column of the table was called."""
    return re.sub(r"[^\w.+-]+", "_", name)
