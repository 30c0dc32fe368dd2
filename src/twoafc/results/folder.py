"""The folder of a result: its files, how they are written (all or nothing), read back, and checked when read."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import twoafc
from twoafc.diagnostics import Finding
from twoafc.errors import DataError
from twoafc.estimators import Estimator, FusionFit, HeadsFit, Model
from twoafc.files import OutputFolder, legible, recover, require_format, restored
from twoafc.inference import DRAWS, Ceiling, Goodness, Record
from twoafc.results import tables
from twoafc.table import LABELS, MOST_VOTES, PAIR_LABELS, Votes, read_frame, write_frame

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
        return {"file": path.name, "file_sha256": _digest(path), "path": os.path.abspath(path)}
    return {"files_sha256": {str(path): _digest(path) for path in paths}} if paths else {}


def _digest(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_counts(counts: Mapping[str, Counts]) -> dict[str, Any]:
    """Describe counts by distance: their size, the bins, and a digest for each distance."""
    first = next(iter(counts.values()))
    return {
        "triplets": first.triplets,
        "votes": first.votes,
        "M": first.cells["M"].unique().sort().to_list(),
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
        notes = [tables.reading(result.scores), f"error bars: {result.error_bars}", *result.remarks()]
        shown = tables.all_tables(result.scores, result.comparisons)
        text = "\n".join([*map(tables.markdown, shown), tables.note_lines(notes, "md")])
        (partial / "tables.md").write_text(text, encoding="utf-8")
        covered = result.error_bars.removeprefix("95 % intervals ")
        planned = result.comparisons if result.card.get("planned") else []
        weighted = result.triplets is not None and "weight" in result.triplets.columns
        paper = tables.paper_table(result.scores, result.ceiling, covered, planned, weighted=weighted)
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
        (partial / REPORT).write_text(report_page(result, images), encoding="utf-8")
        card = {**result.card, "notes": result.notes, "error_bars": result.error_bars}
        start = os.path.abspath(folder)
        card["data"] = {
            role: table | ({"path": os.path.relpath(table["path"], start)} if "path" in table else {})
            for role, table in card.get("data", {}).items()
        }
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
        RESULTS.write_card(partial, card, content)


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


# Reading


def read_result(folder: Path) -> dict[str, Any]:
    """Read scores.json of a folder as the arguments of `Result`; a `DataError` if no evaluation has written it."""
    content = read_json(folder)
    card = content["card"]
    own = {name: value for name, value in card.items() if name not in ("notes", "error_bars", "files")}
    for table in card.get("data", {}).values():
        if "path" in table:
            table["path"] = os.path.abspath(folder / table["path"])
    try:
        return {
            "scores": [_with_infinity(record) for record in content["scores"]],
            "notes": card.get("notes", []),
            "comparisons": content["comparisons"],
            "goodness": {
                (record["distance"], record["estimator"]): restored(Goodness, record)
                for record in content.get("goodness", [])
            },
            "error_bars": card["error_bars"],
            "ceiling": restored(Ceiling | None, content.get("ceiling")),
            "findings": [
                Finding(**{field.name: record[field.name] for field in fields(Finding) if field.name in record})
                for record in content.get("findings", [])
            ],
            "row": "pair" if card.get("kind") == "pairs" else "triplet",
            "card": own,
            "folder": folder,
        }
    except (ValueError, KeyError, TypeError) as error:
        raise _not_a_result(folder, f"its values do not fit ({error})", content) from error


def read_json(folder: Path) -> Any:
    """Read scores.json of a folder; a `DataError` if it is missing, of another format or differs from `FORM`."""
    path = folder / RESULTS.name
    recover(folder)
    if not path.is_file():
        raise DataError(f"{folder} is not a folder of results; it has no {RESULTS.name}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()  # Python reads more than JSON allows
    except (OSError, ValueError, RecursionError) as error:
        raise _not_a_result(folder, "it is not JSON that can be read") from error
    if isinstance(content, dict):
        require_format(content.get("format", 0), RESULTS.format, str(path), "run twoafc evaluate again")
    if wrong := problem(content):
        raise _not_a_result(folder, wrong, content)
    return content


def _not_a_result(folder: Path, problem: str, content: Any = None) -> DataError:
    """Return the error of a scores.json that no evaluation has written, or another version."""
    try:
        by = str(content["card"]["versions"]["twoafc"])
    except (KeyError, TypeError):
        by = twoafc.__version__
    wrote = "" if by == twoafc.__version__ else f" (twoafc {legible(by[:20])} wrote it, this is {twoafc.__version__})"
    return DataError(
        f"{folder / RESULTS.name} is not that of a result; {legible(problem)}{wrote}; run twoafc evaluate again"
    )


def _with_infinity(record: Record) -> Record:
    """Restore an infinite NLL, for which JSON has null; if all runs diverged, the NLL is unknown."""
    if tables.all_diverged(record):
        return record
    return record | {name: math.inf for name in INFINITE if name in record and record[name] is None}


# What the package relies on in scores.json. A form is a type, [form] for a list, or a record of names and forms, where
# a name with "?" may be missing, and "..." is the form of all names that are not listed. Without "..." they may be
# anything, so that what later versions add is accepted.

SCALAR, NUMBER = str | int | float | None, int | float | None
NAMED = {"distance": str, "estimator": str}
FORM: dict[str, Any] = {
    "format": int,
    "card": {
        "settings": {"ties": str, "seed?": int, "...": SCALAR},
        "error_bars": str,
        "notes?": [str],
        "files?": [str],
        "frames?": str | None,
        "data?": {"...": {"path?": str}},
        "fits?": [NAMED],
        "planned?": [[str]],
    },
    "scores": [{**NAMED, "split": str, "group": str, "seed": int | None, "...": SCALAR}],
    "comparisons": [
        {
            **dict.fromkeys(("a", "b", "estimator", "measure", "sentence"), str),
            **dict.fromkeys(("difference", "se", "low", "high", "p", "p_holm", "low_holm", "high_holm"), NUMBER),
            "tests": int,
            "different": bool,
            "...": SCALAR,
        }
    ],
    "ceiling?": dict | None,
    "findings?": [{}],
    "goodness?": [NAMED],
}


def problem(content: Any) -> str | None:
    """Describe how the content of scores.json differs from `FORM`; None if it does not.

    Examples
    --------
    >>> problem({"format": 1, "card": {"settings": {"ties": "half"}}, "scores": [], "comparisons": []})
    'card has no error_bars'
    >>> problem([])
    'it must be a record, found []'
    """
    return _difference(content, FORM, "") or (None if content["scores"] else "it has no scores")


def _difference(value: Any, form: Any, place: str) -> str | None:
    kind, words = form, getattr(form, "__name__", str(form))
    if isinstance(form, list | dict):
        kind, words = type(form), "a list" if isinstance(form, list) else "a record"
    if not isinstance(value, kind):
        return f"{place or 'it'} must be {words}, found {repr(value)[:20]}"
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(form, list):
        parts = [(item, form[0], f"{place}[{number}]") for number, item in enumerate(value)]
    elif isinstance(form, dict):
        missing = [name for name in form if name not in value and name != "..." and name[-1] != "?"]
        if missing:
            return f"{place or 'it'} has no {missing[0]}"
        forms = {name.rstrip("?"): inner for name, inner in form.items()}
        listed = [name for name in value if name in forms or "..." in forms]
        parts = [(value[name], forms.get(name, forms.get("...")), f"{place}.{name}".lstrip(".")) for name in listed]
    return next((issue for part in parts if (issue := _difference(*part))), None)


WHOLE, DECIMAL = (lambda kind: kind.is_integer()), (lambda kind: kind.is_float())
COLUMNS: list[tuple[tuple[str, ...], str, Callable[[pl.DataType], bool], Callable[[pl.Expr], pl.Expr]]] = [
    ((*LABELS, *PAIR_LABELS, "distance", "estimator"), "text", lambda kind: kind == pl.String, pl.Expr.is_not_null),
    (("diverged", "swapped"), "true or false", lambda kind: kind == pl.Boolean, pl.Expr.is_not_null),
    (("d", "d0", "d1"), "finite numbers", DECIMAL, pl.Expr.is_finite),
    (("seed",), "whole numbers", lambda kind: kind.is_integer() or kind == pl.Null, lambda _: pl.lit(True)),
    (("choice",), "0 or 1", WHOLE, lambda choice: choice.is_between(0, 1)),
    (("M",), f"whole numbers from 1 to {MOST_VOTES:.0e}", WHOLE, lambda M: M.is_between(1, MOST_VOTES)),
    (("n",), "whole numbers from 0 to M", WHOLE, lambda n: n.is_between(0, pl.col("M"))),
    (("weight",), "positive numbers", DECIMAL, lambda weight: weight.is_finite() & (weight > 0)),
    (("P",), "numbers in [0, 1]", DECIMAL, lambda P: P.is_between(0, 1)),
    (("nll",), "numbers", DECIMAL, pl.Expr.is_not_nan),
]
"""The form of columns of single triplets or votes: names, the form in words, whether a type is right, and values."""


def read_rows(path: Path, needed: set[str]) -> pl.DataFrame | None:
    """Read a frame of the folder; None if there is none, a `DataError` if no evaluation has written it."""
    if not path.is_file():
        return None
    frame, _ = read_frame(path)
    if missing := ", ".join(sorted(needed - set(frame.columns))):
        raise DataError(f"{path} lacks {missing}; it was not written by twoafc evaluate")
    wrong = None if len(frame) else "it has no rows"
    for names, words, is_kind, is_right in COLUMNS:
        for name in frame.columns:
            right = name not in names or (
                is_kind(frame.schema[name]) and frame.select(is_right(pl.col(name)).fill_null(False).all()).item()
            )
            wrong = wrong or (None if right else f"{name} must be {words}")
    if wrong:
        raise DataError(f"{path} was not written by twoafc evaluate; {wrong}; run it again")
    return frame
