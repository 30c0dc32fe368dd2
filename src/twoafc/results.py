"""An evaluation as a folder of plain files, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc import plots, tables
from twoafc.errors import DataError
from twoafc.evaluation import Evaluation, Run
from twoafc.folder import model_files, plain
from twoafc.frames import write_frame
from twoafc.uniform import Uniform


def check_folder(folder: str | Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse a folder that holds anything but an earlier result, an input above all, before any work is done."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; results are written to a folder")
    if Path.cwd().is_relative_to(folder.resolve()):
        raise DataError(f"{folder} is or holds the current folder, which cannot be replaced as a whole; name another")
    for path in inputs:
        if path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{path} lies in {folder}, which would be replaced as a whole; name another folder")
    foreign = sorted(set(_files(folder)) - set(_told_files(folder)))
    if foreign:
        raise DataError(f"{folder} holds other files ({foreign[0]}); choose a new folder, or one with results alone")


def _files(folder: Path) -> list[str]:
    """All that a folder holds, but for the two folders that a result has of its own."""
    own = (folder / "models", folder / "figures")
    held = (path for path in folder.rglob("*") if path.is_symlink() or path not in own)
    return [path.relative_to(folder).as_posix() for path in held]


def _told_files(folder: Path) -> list[str]:
    """Files that an earlier result says it consists of; none where there is no earlier result."""
    try:
        files = json.loads((folder / "scores.json").read_text(encoding="utf-8"))["card"]["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [str(name) for name in files]


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


@contextmanager
def whole(folder: str | Path) -> Iterator[Path]:
    """Give a folder to fill, which takes the place of an earlier result only when it is filled without an error."""
    check_folder(folder)
    folder = Path(folder).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        partial.mkdir()
        yield partial
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
    shown = [tables.summary(evaluation.scores), tables.summary(evaluation.scores, split="train")]
    shown += [t for m in ("nll", "agreement", "score_2afc") if (t := tables.by_group(evaluation.scores, m))]
    shown += [tables.comparison_table(evaluation.comparisons, m) for m in _measures(evaluation.comparisons)]
    for ending, form in (("md", tables.markdown), ("tex", tables.latex)):
        remarks = [tables.READING, f"error bars: {evaluation.error_bars}", *evaluation.remarks()]
        text = [*(form(table) for table in shown), tables.remarks(remarks, ending)]
        (folder / f"tables.{ending}").write_text("\n".join(text), encoding="utf-8")
    if evaluation.votes is not None:
        write_frame(evaluation.votes, folder / "votes.parquet")
    if evaluation.comparisons:
        write_frame(pl.DataFrame(evaluation.comparisons, infer_schema_length=None), folder / "comparisons.csv")
    (folder / "models").mkdir()
    for name, run in model_names(evaluation.runs).items():
        if hasattr(run.fit, "save"):
            run.fit.save(folder / "models" / name)
    with warnings.catch_warnings():
        # Matplotlib's own font lacks some scripts; a box in a title is no reason to trouble the user.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        _draw(folder / "figures", evaluation)
    files = sorted([*_files(folder), "scores.json"])
    told = {
        "card": {**card, "notes": evaluation.notes, "error_bars": evaluation.error_bars, "files": files},
        "scores": evaluation.scores,
        "comparisons": evaluation.comparisons,
        "ceiling": None if evaluation.ceiling is None else asdict(evaluation.ceiling),
        "findings": [asdict(finding) for finding in evaluation.findings],
        "goodness": [
            {"distance": distance, "estimator": estimator, **found.record()}
            for (distance, estimator), found in evaluation.goodness.items()
        ],
    }
    (folder / "scores.json").write_text(strict_json(told, indent=1), encoding="utf-8")


def _measures(comparisons: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(record["measure"] for record in comparisons))


def _draw(folder: Path, evaluation: Evaluation) -> None:
    folder.mkdir()
    for estimator in dict.fromkeys(run.estimator for run in evaluation.runs):
        held = {name: found for (name, label), found in evaluation.goodness.items() if label == estimator}
        figures = {
            "surfaces": plots.surfaces(surfaces_of([run for run in evaluation.runs if run.estimator == estimator])),
            "reliability": plots.reliabilities({name: found.calibration.bins for name, found in held.items()}),
            "residuals": plots.residual_maps({name: found.residuals for name, found in held.items()}),
        }
        for name, figure in figures.items():
            for ending in ("svg", "pdf") if figure else ():
                figure.savefig(folder / f"{name}-{plain(estimator)}.{ending}", dpi=150)  # type: ignore[union-attr]


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


def strict_json(value: Any, indent: int | None = None) -> str:
    """Write JSON that any reader takes: numbers that are not finite become null.

    Examples
    --------
    >>> strict_json({"nll": float("inf"), "group": "é"})
    '{"nll": null, "group": "é"}'
    """
    return json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
