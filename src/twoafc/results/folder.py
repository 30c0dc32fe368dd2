"""The folder of a result: plain files, written whole or not at all, and how they are named and read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import twoafc
from twoafc.errors import DataError
from twoafc.estimators import FusionFit, HeadsFit
from twoafc.files import OutputFolder, legible, recover, whole_file
from twoafc.results import format, tables
from twoafc.table import write_frame

if TYPE_CHECKING:
    from twoafc.results.result import Result

Key = tuple[str, str, int | None]
"""Distance, estimator and seed of a fit."""
RESULTS = OutputFolder("scores.json", "results", ("models", "figures"))
check_folder = RESULTS.check


def read_json(folder: Path) -> Any:
    """Read scores.json of a folder; a `DataError` where it is missing or has another form than `format.FORM`."""
    path = folder / RESULTS.name
    recover(folder)
    if not path.is_file():
        raise DataError(f"{folder} is not a folder of results; it has no {RESULTS.name}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise not_a_result(folder, "it is not JSON that can be read") from error
    problem = format.problem(content)
    if problem:
        raise not_a_result(folder, problem, content)
    return content


def not_a_result(folder: Path, problem: str, content: Any = None) -> DataError:
    """Return the error of a scores.json that no evaluation has written, or another version."""
    try:
        by = str(content["card"]["versions"]["twoafc"])
    except (KeyError, TypeError):
        by = twoafc.__version__
    version = "" if by == twoafc.__version__ else f" (twoafc {legible(by[:20])} wrote it, this is {twoafc.__version__})"
    return DataError(
        f"{folder / RESULTS.name} is not that of a result; {legible(problem)}{version}; run twoafc evaluate again"
    )


def write_result(
    result: Result,
    folder: str | Path,
    data: Mapping[str, pl.DataFrame] | None = None,
    images: str | Path | None = None,
) -> None:
    """Write a result to a folder: see `Result.write`."""
    from twoafc import plots
    from twoafc.results.report.page import REPORT, report_page, write_page  # here, since it is slow to import

    with RESULTS.whole(folder) as partial:
        for name, frame in (data or {}).items():
            write_frame(frame, partial / name)
        write_frame(pl.DataFrame(result.scores, infer_schema_length=None), partial / "scores.csv")
        if result.triplets is not None:
            write_frame(result.triplets, partial / f"{result.row}s.parquet")
        if result.votes is not None:
            write_frame(result.votes, partial / "votes.parquet")
        if result.comparisons:
            write_frame(pl.DataFrame(result.comparisons, infer_schema_length=None), partial / "comparisons.csv")
        (partial / "tables.md").write_text(_tables(result), encoding="utf-8")
        covered = result.error_bars.removeprefix("95 % intervals ")
        planned = result.comparisons if result.card.get("planned") else []
        paper = tables.paper_table(result.scores, result.ceiling, covered, planned)
        (partial / "tables.tex").write_text(paper, encoding="utf-8")
        keys = [(run.distance, run.estimator, run.seed) for run in result.runs]
        for name, run in zip(model_files(keys), result.runs, strict=True):
            if hasattr(run.fit, "save"):
                run.fit.save(partial / "models" / name)
            if isinstance(run.fit, FusionFit | HeadsFit):
                run.fit.save(partial / f"{plain(run.distance)}.npz")
                write_frame(result.wide(), partial / f"{plain(run.distance)}.parquet")
        for name, figure in result.plot.files().items():
            files = (partial / "figures" / f"{plain(name)}.{ending}" for ending in ("svg", "pdf"))
            plots.save(figure, *files, dpi=150)
        write_page(partial / REPORT, report_page(result, images))
        card = {**result.card, "notes": result.notes, "error_bars": result.error_bars}
        card["data"] = {role: _beside(table, result.folder, folder) for role, table in card.get("data", {}).items()}
        RESULTS.write_card(partial, card, _content(result))


def _beside(described: Mapping[str, Any], read_from: Path | None, folder: str | Path) -> dict[str, Any]:
    """Describe a table with its path relative to the folder that is written; a result that was read has another."""
    if "path" not in described:
        return dict(described)
    path = os.path.join(os.path.abspath(read_from or ""), described["path"])
    try:
        return {**described, "path": Path(os.path.relpath(path, os.path.abspath(folder))).as_posix()}
    except ValueError:  # on another drive
        return {name: value for name, value in described.items() if name != "path"}


def _content(result: Result) -> dict[str, Any]:
    """What scores.json holds beside the card."""
    return {
        "scores": result.scores,
        "comparisons": result.comparisons,
        "ceiling": None if result.ceiling is None else asdict(result.ceiling),
        "findings": [asdict(finding) for finding in result.findings],
        "goodness": [
            {"distance": distance, "estimator": estimator, **goodness.record()}
            for (distance, estimator), goodness in result.goodness.items()
        ],
    }


def _tables(result: Result) -> str:
    """All tables as Markdown, with what a reader should know below."""
    notes = [tables.reading(result.scores), f"error bars: {result.error_bars}", *result.remarks()]
    shown = tables.all_tables(result.scores, result.comparisons)
    return "\n".join([*map(tables.markdown, shown), tables.note_lines(notes, "md")])


def write_report(result: Result, images: str | Path | None = None) -> Path:
    """Write report.html into the folder of a result, in the place of an earlier one, and return its path."""
    from twoafc.results.report.page import REPORT, report_page, write_page  # here, since it is slow to import

    assert result.folder is not None
    text = report_page(result, images)
    content = read_json(result.folder)
    files = content["card"].get("files", [])
    if REPORT not in files:
        # Listed before it is written: everything in the folder is among its files.
        content["card"]["files"] = sorted([*files, REPORT])
        with whole_file(result.folder / RESULTS.name) as partial:
            partial.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    return write_page(result.folder / REPORT, text)


def model_files(fits: Iterable[Key]) -> list[str]:
    """Name a file for each fit: distance-estimator.npz, with the seed where there are several.

    Examples
    --------
    >>> model_files([("ssim", "density", None), ("ssim", "network", 0), ("ssim", "network", 1)])
    ['ssim-density.npz', 'ssim-network-seed0.npz', 'ssim-network-seed1.npz']
    """
    keys = list(fits)
    several = len({seed for _, _, seed in keys if seed is not None}) > 1
    seeds = [f"-seed{seed}" if several and seed is not None else "" for _, _, seed in keys]
    return file_names([f"{name}-{estimator}{seed}" for (name, estimator, _), seed in zip(keys, seeds, strict=True)])


def file_names(stems: Sequence[str]) -> list[str]:
    """Turn names of models into names of files; names that differ in special characters alone get a number.

    Examples
    --------
    >>> file_names(["a/b", "a b"])
    ['a_b.npz', 'a_b~1.npz']
    """
    names = [plain(stem) for stem in stems]
    earlier = [names[:place].count(name) for place, name in enumerate(names)]
    return [f"{name}~{count}.npz" if count else f"{name}.npz" for name, count in zip(names, earlier, strict=True)]


def plain(name: str) -> str:
    """Turn a name into one that any file system takes."""
    return re.sub(r"[^\w.+-]+", "_", name)
