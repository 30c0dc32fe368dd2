"""The folder of a result: its files, how they are written (all or nothing), read back, and checked when read."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from twoafc.diagnostics import Finding
from twoafc.estimators import Estimator, FusionFit, HeadsFit, Model
from twoafc.files import OutputFolder, file_digest, require_unchanged, restored
from twoafc.inference import DRAWS, Ceiling, Goodness, Record
from twoafc.results import tables
from twoafc.table import Votes, read_frame, write_frame

if TYPE_CHECKING:
    from twoafc.results.result import Result, Run
    from twoafc.scale import Counts

Key = tuple[str, str, int | None]
"""Distance, estimator and seed of a fit."""
RESULTS = OutputFolder("scores.json", "results", ("models", "figures"))
check_folder = RESULTS.check
REPORT = "report.html"
HALVES = "P_halves"
"""Column of the tested rows with P by fits to complementary halves of the training table, if its noise counts."""
INFINITE = ("nll", "nll_per_vote", "nll_floor", "nll_per_vote_floor")
"""Scores that may be infinite."""


# The card: versions, tables with their hashes, settings and fits

LIBRARIES = ("twoafc", "numpy", "scipy", "polars")


def describe_table(table: Votes, *paths: str | Path) -> dict[str, Any]:
    """Describe a table: its size, a hash of its contents and of the files that it came from, if any."""
    digest = hashlib.sha256()
    own = {} if table.weight is None else {"weight": table.weight}
    for name, column in ({"n": table.n, "M": table.M} | own).items():
        digest.update(name.encode() + column.tobytes())
    for name in sorted(table.distances):
        digest.update(name.encode() + b"".join(column.tobytes() for column in table.distances[name]))
    for name in table.labels.columns:
        digest.update("\0".join([name, *table.labels[name]]).encode())
    return {
        f"{table.row}s": len(table),
        **({"effective": table.effective_rows} if own else {}),
        **({"same": table.share} if table.k == 1 else {}),
        "votes": int(table.M.sum()),
        "M": [int(m) for m in np.unique(table.M)],
        "contents_sha256": digest.hexdigest(),
        **describe_files(*paths),
    }


def describe_files(*paths: str | Path) -> dict[str, Any]:
    """Describe the files of a table by their names and hashes, one file also by its path.

    In scores.json the path is relative to the folder of the result.
    """
    if len(paths) == 1:
        path = Path(paths[0])
        return {"file": path.name, "file_sha256": file_digest(path), "path": os.path.abspath(path)}
    return {"files_sha256": {str(path): file_digest(path) for path in paths}} if paths else {}


def describe_counts(counts: Mapping[str, Counts]) -> dict[str, Any]:
    """Describe counts by distance: their size, the bins, and a digest for each distance."""
    first = next(iter(counts.values()))
    return {
        "triplets": first.triplets,
        "votes": first.votes,
        "M": list(first.by_votes),
        "bins_per_octave": first.lattice.per_octave,
        "rows": " and ".join(first.rows),
        "references": "kept" if first.refs_kept else "not kept",
        "widest_bin": {name: counted.widest for name, counted in counts.items()},
        "counts_sha256": {name: counted.digest for name, counted in counts.items()},
    }


def make_card(
    data: Mapping[str, Mapping[str, Any]],
    estimators: Mapping[str, Estimator],
    settings: Mapping[str, Any],
    runs: Sequence[Run],
) -> dict[str, Any]:
    """Make the card of an evaluation: versions, machine and time, tables, settings, and the summary of each fit.

    ``data`` describes the table of each role, train and test; ``settings`` are those of the evaluation, with ``ties``
    and ``seed``.
    """
    pairs = any("pairs" in table for table in data.values())
    tie_rule = {"half": "a tie counts one half", "x0": "a tie counts as a choice of x0"}[settings["ties"]]
    simulated = "exact expectation"
    if pairs:
        tie_rule = "pairs at one distance enter the ranking of the average precision together"
        simulated += f"; of the average precision the mean over {DRAWS} draws"
    return {
        **({"kind": "pairs"} if pairs else {}),
        "versions": {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()},
        "machine": platform.platform(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {role: dict(described) for role, described in data.items()},
        "estimators": {
            name: asdict(estimator) if is_dataclass(estimator) and not isinstance(estimator, type) else repr(estimator)
            for name, estimator in estimators.items()
        },
        "settings": dict(settings),
        "tie_rule": tie_rule,
        "simulated": simulated,
        "fits": [
            {"distance": run.distance, "estimator": run.estimator, "seed": run.seed}
            | (run.fit.summary() if isinstance(run.fit, Model) else {})
            for run in runs
        ],
    }


# Writing


def write_result(
    result: Result,
    folder: str | Path,
    data: Mapping[str, pl.DataFrame] | None = None,
    images: str | Path | None = None,
) -> None:
    """Write a result to a folder: see `Result.write`."""
    from twoafc import plots
    from twoafc.results.report.page import report_page  # here, since it is slow to import

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
        _write_tables(result, partial)
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
        (partial / REPORT).write_text(report_page(result, images), encoding="utf-8")
        RESULTS.write_card(partial, *_written(result, folder))


def _write_tables(result: Result, folder: Path) -> None:
    """Write tables.md and tables.tex."""
    notes = [tables.reading(result.scores), f"error bars: {result.error_bars}", *result.remarks()]
    shown = tables.all_tables(result.scores, result.comparisons)
    text = "\n".join([*map(tables.markdown, shown), tables.note_lines(notes, "md")])
    (folder / "tables.md").write_text(text, encoding="utf-8")
    covered = result.error_bars.removeprefix("95 % intervals ")
    planned = result.comparisons if result.card.get("planned") else []
    weighted = result.triplets is not None and "weight" in result.triplets.columns
    paper = tables.paper_table(result.scores, result.ceiling, covered, planned, weighted=weighted)
    (folder / "tables.tex").write_text(paper, encoding="utf-8")


LONGEST = 200
"""Bytes of a file's name before its ending; file systems take 255."""


def model_files(fits: Iterable[Key]) -> list[str]:
    """Name a file for each fit: distance-estimator.npz, with the seed if there are several.

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
    """Turn names of models into file names; names that differ only in special characters get a number.

    Examples
    --------
    >>> file_names(["a/b", "a b"])
    ['a_b.npz', 'a_b~1.npz']
    """
    names = [plain(stem) for stem in stems]
    earlier = [names[:place].count(name) for place, name in enumerate(names)]
    return [f"{name}~{count}.npz" if count else f"{name}.npz" for name, count in zip(names, earlier, strict=True)]


def plain(name: str) -> str:
    """Turn a name into one that any file system accepts; a very long one ends in a digest.

    Examples
    --------
    >>> plain("a/b"), len(plain(300 * "a"))
    ('a_b', 109)
    """
    text = re.sub(r"[^\w.+-]+", "_", name)
    if len(text.encode()) <= LONGEST:
        return text
    return f"{text.encode()[:100].decode(errors='ignore')}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"


# scores.json, and reading


AGAIN = "run twoafc evaluate again"


def _written(result: Result, folder: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the card and the other content of scores.json; `read_result` restores a result from them."""
    start = os.path.abspath(folder)
    data = {
        role: table | ({"path": os.path.relpath(table["path"], start)} if "path" in table else {})
        for role, table in result.card.get("data", {}).items()
    }
    card = {**result.card, "notes": result.notes, "error_bars": result.error_bars, "data": data}
    content = {
        "scores": result.scores,
        "comparisons": result.comparisons,
        "ceiling": None if result.ceiling is None else asdict(result.ceiling),
        "findings": [asdict(finding) for finding in result.findings],
        "goodness": [
            {"distance": distance, "estimator": estimator, **goodness.record()}
            for (distance, estimator), goodness in result.goodness.items()
        ],
    }
    return card, content


def read_result(folder: Path) -> dict[str, Any]:
    """Read scores.json of a folder as the arguments of `Result`; a `DataError` if it is not as it was written."""
    content = RESULTS.read_card(folder, AGAIN)
    card = content["card"]
    own = {name: value for name, value in card.items() if name not in ("notes", "error_bars", "files")}
    for table in card["data"].values():
        if "path" in table:
            table["path"] = os.path.abspath(folder / table["path"])
    return {
        "scores": [_with_infinity(record) for record in content["scores"]],
        "notes": card["notes"],
        "comparisons": content["comparisons"],
        "goodness": {
            (record["distance"], record["estimator"]): restored(Goodness, record) for record in content["goodness"]
        },
        "error_bars": card["error_bars"],
        "ceiling": restored(Ceiling | None, content["ceiling"]),
        "findings": [_finding(record) for record in content["findings"]],
        "row": "pair" if card.get("kind") == "pairs" else "triplet",
        "card": own,
        "folder": folder,
        "digests": content["sha256"],
    }


def _finding(record: Record) -> Finding:
    """Restore a finding; what a later version has added to it is dropped."""
    return Finding(**{field.name: record[field.name] for field in fields(Finding) if field.name in record})


def _with_infinity(record: Record) -> Record:
    """Restore an infinite NLL, for which JSON has null; if all runs diverged, the NLL is unknown."""
    if tables.all_diverged(record):
        return record
    return record | {name: math.inf for name in INFINITE if name in record and record[name] is None}


def read_rows(folder: Path, name: str, digests: Mapping[str, str]) -> pl.DataFrame | None:
    """Read a frame of the folder; None if the result has none, a `DataError` if the file is not as it was written."""
    if name not in digests:
        return None
    require_unchanged(folder / name, digests[name], AGAIN)
    return read_frame(folder / name)[0]
