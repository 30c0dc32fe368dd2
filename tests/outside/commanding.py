"""Commands run in this process, and what they take, print and write."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
from PIL import Image
from rich.console import Console

from outside.tables import named, pairs, single_votes
from twoafc.cli import app, main

# To be removed on purpose; `simulated` of the card tells of the second.
LEFT_OUT = {"--sigma-along", "--simulated-seed", "sigma_along", "simulated_seed", "simulated"}
OPTION = re.compile(r"^│ (?:\*  |   )?((?:[A-Z]+ )?)(--[A-Za-z][\w-]*)")


def run(*arguments: object) -> str:
    """Run a command and give what it printed."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(printed):
        main([str(one) for one in arguments])
    printed.flush()
    return printed.buffer.getvalue().decode()  # type: ignore[attr-defined]


def helped(*command: str) -> list[str]:
    # With a console of its own: that of the application keeps the width of the first help in this process.
    printed = io.StringIO()
    app.help_print(list(command), console=Console(width=400, file=printed))
    return printed.getvalue().splitlines()


def commands(*above: str) -> list[str]:
    """All commands, those of a command (plan size) with its name before theirs."""
    lines = "\n".join(helped(*above))
    names = re.findall(r"^│ ([a-z]+) ", lines, flags=re.MULTILINE)
    if above:
        return [f"{above[0]} {name}" for name in names]
    return [each for name in names for each in commands(name) or [name]]


def options(command: str) -> dict[str, Any]:
    """Options of a command with their choices and defaults; `required` lists those that must be given."""
    found: dict[str, Any] = {"options": {}, "required": [], "arguments": []}
    for line in helped(*command.split()):
        positional = re.match(r"^│ (?:\*  |   )?([A-Z]+) ", line)
        if positional:
            found["arguments"].append(positional[1])
        option = OPTION.match(line)
        if option is None or option[2] in LEFT_OUT:
            continue
        choices = re.search(r"\[choices: (.*?)\]", line)
        default = re.search(r"\[default: (.*?)\]", line)
        found["options"][option[2]] = {
            "choices": dict.fromkeys(choices[1].split(", ")) if choices else {},
            "default": default and default[1],
        }
        if "[required]" in line:
            found["required"].append(option[2])
    return found


def shape(value: Any) -> Any:
    """Keys of nested records; a list has the shape of all its entries together."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        merged: dict[str, Any] = {}
        for one in value:
            merged |= shape(one) if isinstance(one, dict) else {}
        return merged
    return None


def files(folder: Path) -> dict[str, None]:
    return {str(path.relative_to(folder)): None for path in sorted(folder.rglob("*")) if path.is_file()}


def columns(path: Path) -> dict[str, str]:
    """Columns of a table, with their types where the file has types."""
    if path.suffix == ".parquet":
        return {name: str(dtype) for name, dtype in pl.read_parquet(path).schema.items()}
    return dict.fromkeys(pl.read_csv(path).columns, "")


def results(folder: Path) -> dict[str, Any]:
    """Describe a folder of results."""
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    tables = {path.name: columns(path) for path in sorted(folder.iterdir()) if path.suffix in (".csv", ".parquet")}
    return {"files": files(folder), "scores.json": shape(scores), "tables": tables}


def _evaluate(here: Path) -> dict[str, Any]:
    """Train and test with groups, references, two estimators and two seeds; then all that reads the results."""
    named(1).write_csv(here / "train.csv")
    named(2, triplets=300).write_csv(here / "test.csv")
    out = here / "results"
    estimators = ("--estimator", "density", "--estimator", "network", "--seeds", 2)
    tables = ("--train", here / "train.csv", "--test", here / "test.csv")
    printed = json.loads(run("evaluate", *tables, *estimators, "--out", out, "--json"))
    model = out / "models" / "near-density.npz"
    answers = {
        "compare": ("compare", out, "--measure", "nll"),
        "query": ("query", model, "--d0", 0.4, "--d1", 0.9, "--votes", 5, "--observed", 2),
        "query triplet": ("query", out, "--triplet", pl.read_csv(here / "test.csv")["triplet"][3]),
        "failures": ("failures", out, "--distance", "near", "--top", 3),
        "failures versus": ("failures", out, "--distance", "near", "--versus", "noisy", "--top", 3),
        "report": ("report", out),
        "check": ("check", here / "train.csv", "--test", here / "test.csv"),
    }
    said = {name: json.loads(run(*command, "--json")) for name, command in answers.items()}
    run("failures", out, "--distance", "near", "--top", 2, "--out", here / "failures")
    run("query", out, "--triplet", pl.read_csv(here / "test.csv")["triplet"][3], "--out", here / "card.svg")
    return {
        "shape": results(out)
        | {"printed": {name: shape(answer) for name, answer in said.items()}}
        | {"failures": files(here / "failures"), "card": (here / "card.svg").stat().st_size > 1000},
        "scores": printed,
        "said": said,
    }


def _written(here: Path, table: pl.DataFrame, *arguments: object) -> dict[str, Any]:
    table.write_csv(here / "train.csv")
    run("evaluate", "--train", here / "train.csv", *arguments, "--out", here / "results", "--quiet")
    return {
        "shape": results(here / "results"),
        "scores": json.loads((here / "results" / "scores.json").read_text(encoding="utf-8")),
    }


def _folds(here: Path) -> dict[str, Any]:
    return _written(here, named(3, triplets=240), "--distance", "near", "--folds", 3)


def _votes(here: Path) -> dict[str, Any]:
    single_votes(5).write_csv(here / "test.csv")
    return _written(here, single_votes(4), "--test", here / "test.csv")


def _pairs(here: Path) -> dict[str, Any]:
    pairs(7, 200).write_csv(here / "test.csv")
    found = _written(here, pairs(6), "--test", here / "test.csv", "--estimator", "density", "--estimator", "spline")
    model = here / "results" / "models" / "near-spline.npz"
    found["said"] = {"query": json.loads(run("query", model, "--d", 0.4, "--votes", 3, "--json"))}
    return found


def _sweep(here: Path) -> dict[str, Any]:
    named(1).write_csv(here / "train.csv")
    named(2, triplets=300).write_csv(here / "test.csv")
    tables = ("--train", here / "train.csv", "--test", here / "test.csv", "--distance", "near")
    tried = ("--sigma", 0.02, "--sigma", 0.1, "--grid-size", 10, "--grid-size", 20, "--workers", 1)
    printed = json.loads(run("sweep", *tables, *tried, "--out", here / "sweep", "--json"))
    written = {"files": files(here / "sweep"), "columns": columns(here / "sweep" / "sweep.csv")}
    return {"shape": written | {"sweep.json": shape(printed)}, "scores": printed}


def _measure(here: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    for name in ("r", "a", "b"):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(here / f"{name}.png")
    (here / "votes.csv").write_text("ref,x0,x1,n,M\nr.png,a.png,b.png,1,3\na.png,r.png,b.png,2,3\n")
    asked = ("--distance", "ssim", "--distance", "euclidean", "--workers", 1)
    printed = json.loads(run("measure", here / "votes.csv", *asked, "--out", here / "out.parquet", "--json"))
    table = pl.read_parquet(here / "out.parquet")
    return {
        "shape": {"printed": shape(printed), "columns": columns(here / "out.parquet"), "files": files(here)},
        "values": table.select(name for name in table.columns if table[name].dtype.is_numeric()).to_dict(
            as_series=False
        ),
    }


def _counts(here: Path) -> dict[str, Any]:
    """Only that the commands run and write: the files may change."""
    for name, seed in (("one", 1), ("two", 2)):
        named(seed).write_csv(here / f"{name}.csv")
        run("count", here / f"{name}.csv", "--distance", "near", "--out", here / name, "--quiet")
    run("merge", here / "one" / "near.npz", here / "two" / "near.npz", "--out", here / "sum.npz", "--quiet")
    return {"shape": {name: (here / name).is_file() for name in ("one/near.npz", "two/near.npz", "sum.npz")}}


def _simulate(here: Path) -> dict[str, Any]:
    drawn = ("--world", "thurstone", "--triplets", 50, "--votes", 1, "--votes", 5, "--references", 7, "--lapse", 0.1)
    printed = json.loads(run("simulate", "--out", here / "t.parquet", *drawn, "--seed", 3, "--json"))
    table = pl.read_parquet(here / "t.parquet")
    return {
        "shape": {"printed": shape(printed), "columns": columns(here / "t.parquet")},
        "values": table.head(5).to_dict(as_series=False),
    }


def _fetch(_: Path) -> dict[str, Any]:
    """What is known, wherever it is."""
    listed = json.loads(run("fetch", "--json"))
    return {"shape": {"record": shape(listed), "names": {one["name"]: one["digest"] for one in listed}}}


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "evaluate": _evaluate,
    "folds": _folds,
    "votes": _votes,
    "pairs": _pairs,
    "sweep": _sweep,
    "measure": _measure,
    "counts": _counts,
    "simulate": _simulate,
    "fetch": _fetch,
}


@functools.cache
def case(name: str) -> dict[str, Any]:
    """Run the commands of a case in an empty folder, once."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"COLUMNS": "120"}):
        return CASES[name](Path(folder))
