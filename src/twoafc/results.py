"""An evaluation as a folder of plain files, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoafc import plots, tables
from twoafc.errors import DataError
from twoafc.evaluate import Evaluation, Run
from twoafc.frames import write_frame
from twoafc.uniform import Uniform

OURS = ("scores.csv", "scores.json", "triplets.parquet", "models", "tables.md", "tables.tex", "figures", "report.html")


def check_folder(folder: str | Path, *, ours: tuple[str, ...] = OURS) -> None:
    """Refuse a folder that holds anything but an earlier result, before any work is done."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; results are written to a folder")
    foreign = sorted(path.name for path in folder.iterdir() if path.name not in ours) if folder.exists() else []
    if foreign:
        raise DataError(f"{folder} holds other files ({foreign[0]}); choose a new folder, or one with results alone")


def write(evaluation: Evaluation, folder: str | Path, card: Mapping[str, Any]) -> None:
    """Write scores, tables, triplets and models to a folder; an earlier result there is replaced as a whole."""
    folder = Path(folder)
    check_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        partial.mkdir()
        _fill(partial, evaluation, card)
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


def _fill(folder: Path, evaluation: Evaluation, card: Mapping[str, Any]) -> None:
    write_frame(evaluation.frame(), folder / "scores.csv")
    write_frame(evaluation.triplets, folder / "triplets.parquet")
    told = {"card": {**card, "notes": evaluation.notes}, "scores": evaluation.scores, "comparisons": []}
    (folder / "scores.json").write_text(json.dumps(jsonable(told), indent=1, ensure_ascii=False, allow_nan=False))
    shown = [tables.summary(evaluation.scores), tables.summary(evaluation.scores, split="train")]
    shown += [t for m in ("nll", "agreement", "score_2afc") if (t := tables.by_group(evaluation.scores, m))]
    (folder / "tables.md").write_text("\n".join(tables.markdown(table) for table in shown))
    (folder / "tables.tex").write_text("\n".join(tables.latex(table) for table in shown))
    (folder / "models").mkdir()
    for name, run in model_names(evaluation.runs).items():
        if hasattr(run.fit, "save"):
            run.fit.save(folder / "models" / name)
    (folder / "figures").mkdir()
    for estimator in dict.fromkeys(run.estimator for run in evaluation.runs):
        named = surfaces_of([run for run in evaluation.runs if run.estimator == estimator])
        if named:
            figure = plots.surfaces(named)
            for ending in ("svg", "pdf"):
                figure.savefig(folder / "figures" / f"surfaces-{_plain(estimator)}.{ending}", dpi=150)


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
    """Name a file for each fit: distance-estimator.npz, with the seed where there are several."""
    named: dict[str, Run] = {}
    several = len({run.seed for run in runs if run.seed is not None}) > 1
    for run in runs:
        seed = f"-seed{run.seed}" if several and run.seed is not None else ""
        stem = _plain(f"{run.distance}-{run.estimator}{seed}")
        taken = sum(name.startswith(f"{stem}.") or name.startswith(f"{stem}~") for name in named)
        named[f"{stem}~{taken}.npz" if taken else f"{stem}.npz"] = run
    return named


def _plain(name: str) -> str:
    """Make a name fit for a file, whatever the column of the table was called."""
    return re.sub(r"[^\w.+-]+", "_", name)


def jsonable(value: Any) -> Any:
    """Make a value fit for strict JSON: numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
