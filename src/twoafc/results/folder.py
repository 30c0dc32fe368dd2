"""The folder of a result: plain files, written whole or not at all, and how they are named and read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import twoafc
from twoafc import plots
from twoafc.arrays import FloatArray
from twoafc.errors import DataError
from twoafc.files import OutputFolder, legible, recover, whole_file
from twoafc.results import format, tables
from twoafc.results.report import parts
from twoafc.results.report.chart import Chart, chart
from twoafc.results.report.page import REPORT, report_page, write_page
from twoafc.results.report.verdict import ranking
from twoafc.table import Pairs, write_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from twoafc.results.result import Result, Run

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
    found = format.problem(content)
    if found:
        raise not_a_result(folder, found, content)
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
        paper = tables.paper_table(result.scores, result.ceiling, result.error_bars.removeprefix("95 % intervals "))
        (partial / "tables.tex").write_text(paper, encoding="utf-8")
        keys = [(run.distance, run.estimator, run.seed) for run in result.runs]
        for name, run in zip(model_files(keys), result.runs, strict=True):
            if hasattr(run.fit, "save"):
                run.fit.save(partial / "models" / name)
        for name, figure in _figures(result).items():
            plots.save(figure, *(partial / "figures" / f"{name}.{ending}" for ending in ("svg", "pdf")), dpi=150)
        write_page(partial / REPORT, report_page(result, images))
        card = {**result.card, "notes": result.notes, "error_bars": result.error_bars}
        RESULTS.write_card(partial, card, _content(result))


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


def _figures(result: Result) -> dict[str, Figure]:
    """Draw the chart of the report and, for each estimator, reliability, and residuals and surfaces (curves, of pairs).

    Distances are in the order of their scores.
    """
    ranked = ranking(result)
    figures: dict[str, Figure | None] = {}
    if len(ranked) > 1:
        shown = chart(result, ranked)
        figures["scores" if shown.kind == "scores" else "differences"] = _forest(shown)
    for estimator in dict.fromkeys(label for _, label, _ in result.fits):
        runs = [run for run in result.runs if run.estimator == estimator]
        scored = [record["distance"] for record in ranked if record["estimator"] == estimator]
        fitted = [name for name, label, _ in result.fits if label == estimator]
        order = list(dict.fromkeys([*scored, *fitted, *(run.distance for run in runs)]))
        runs.sort(key=lambda run: order.index(run.distance))
        suits = {name: result.goodness[name, estimator] for name in order if (name, estimator) in result.goodness}
        bins = {name: each.calibration.bins for name, each in suits.items()}
        of, file = "same" if result.row == "pair" else "x1", plain(estimator)
        figures[f"reliability-{file}"] = plots.reliabilities(bins, of=of)
        if result.row == "pair":
            figures[f"curves-{file}"] = plots.curves(_curves(result, runs)) if runs else None
            continue
        maps = {name: each.residuals for name, each in suits.items() if each.residuals is not None}
        figures[f"surfaces-{file}"] = plots.surfaces(surfaces_of(runs, parts.NODES, rows=result.triplets))
        figures[f"residuals-{file}"] = plots.residual_maps(maps)
    return {name: figure for name, figure in figures.items() if figure is not None}


def _forest(shown: Chart) -> Figure:
    """The chart of the report at the width of a column."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(plots.COLUMN, 0.75 + 0.17 * len(shown.rows)), layout="constrained")
    ax = plots.forest(shown.rows, figure.subplots(), label=shown.label, reference=shown.reference)
    if shown.kind != "scores":
        ax.axvline(0, color="black", linewidth=0.6, zorder=0)
    return figure


def _curves(result: Result, runs: Sequence[Run]) -> dict[str, plots.Curve]:
    """Curves over the tested pairs, by distance."""
    firsts = {run.distance: run for run in reversed(runs)}
    tested = {
        name: result.rows.filter(distance=name, estimator=run.estimator).select("n", "M", "d")
        for name, run in reversed(firsts.items())
    }
    return {name: plots.curve_values(firsts[name].fit, Pairs.from_frame(rows)) for name, rows in tested.items()}


def surfaces_of(runs: Sequence[Run], size: int = 101, rows: pl.DataFrame | None = None) -> dict[str, FloatArray]:
    """P over the uniformised plane, by distance; with several seeds, the first.

    Parameters
    ----------
    rows : polars.DataFrame, optional
        The tested rows, whose distances give the plane of saved fits that have no map of their own.
    """
    surfaces: dict[str, FloatArray] = {}
    for run in runs:
        if not run.diverged and run.distance not in surfaces:
            saved = rows if hasattr(run.fit, "save") else None
            tested = None if saved is None else saved.filter(distance=run.distance, estimator=run.estimator)
            uniform = parts.map_of(run.fit, tested)
            if uniform is not None:
                surfaces[run.distance] = parts.over_plane(run.fit.probability, uniform, size)
    return surfaces


def write_report(result: Result, images: str | Path | None = None) -> Path:
    """Write report.html into the folder of a result, in the place of an earlier one, and return its path."""
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
