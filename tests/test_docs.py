"""The documentation, the README and the first hour as written: pictures and links are there, commands and code run.

Pages whose examples Sphinx runs (tutorials) are run by it; `.ci/run` builds them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twoafc
from conftest import random_table
from fusing import several
from trees import write_bapps
from twoafc.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted(page for page in DOCS.rglob("*.md") if not {"_build", "jupyter_execute"} & set(page.parts))
NOTEBOOK = "file_format: mystnb"


def blocks(text: str) -> list[tuple[str, str]]:
    """Fenced blocks in their order: the language, and what is in them."""
    return re.findall(r"^```(\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables and images by the names that the pages use."""
    folder = tmp_path_factory.mktemp("scene")
    for seed, name in enumerate(("train", "test")):
        random_table(200, seed=seed).write(folder / f"{name}.csv")
        rng = np.random.default_rng(seed)
        d = rng.random(200)
        pairs = {"n": rng.binomial(3, 1 - d), "M": [3] * 200, "ssim_d": d, "lpips_d": d + 0.1 * rng.random(200)}
        pl.DataFrame(pairs).write_csv(folder / f"jnd_{name}.csv")
    several(200, [1.0, 1.0])[0].write(folder / "votes.csv")
    write_bapps(folder / "bapps", 12, subsets={"train": ("cnn",), "val": ("cnn", "color")})
    return folder


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pictures_and_links_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (page.parent / picture).stat().st_size > 1000
    for link in re.findall(r"(?<!!)\[[^\]]*\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / link).exists(), link


RUNNABLE = [page for page in PAGES if NOTEBOOK not in page.read_text(encoding="utf-8")]
RUNNABLE = [page for page in RUNNABLE if {"python", "console"} & {kind for kind, _ in blocks(page.read_text())}]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda path: path.relative_to(DOCS).as_posix())
@pytest.mark.usefixtures("plain")
def test_commands_and_code_run(page: Path, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the page's order; the Python of a page is one script."""
    for path in scene.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    script = ""
    for kind, content in blocks(page.read_text(encoding="utf-8")):
        if kind == "console":
            lines = content.splitlines()
            assert all(line.startswith("$ twoafc ") for line in lines), f"{page}: every line is a command"
            for line in lines:
                main(line.split()[2:])
        if kind == "python":
            script += content
    if script:
        exec(compile(script, page.name, "exec"), {"__name__": "__main__"})


# The README

SHOWN = {kind: [content for each, content in blocks(README) if each == kind] for kind in ("console", "python", "csv")}


@pytest.fixture
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tables that the README names."""
    frame = random_table(300, seed=1).to_frame()
    for name in ("train", "test", "votes"):
        both = {f"{d}_d{i}": f"d{i}" for d in ("ssim", "lpips") for i in (0, 1)}
        frame.with_columns(**both).drop("d0", "d1").write_csv(tmp_path / f"{name}.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_the_test_and_main_commands_are_there() -> None:
    assert "pip install . && twoafc demo" in README
    assert "pip install '.[test]' && pytest" in README
    assert "\"pip install '.[test]' && pytest\"\n" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.usefixtures("plain", "readers_folder")
def test_the_commands_of_the_readme_run() -> None:
    commands = [line[2:] for block in SHOWN["console"] for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) == 6
    assert commands[0] == "pip install . && twoafc demo"  # run below
    for command in commands[1:]:
        program, *arguments = command.split()
        assert program == "twoafc"
        main(arguments)


@pytest.mark.usefixtures("plain", "readers_folder")
def test_the_python_of_the_readme_runs() -> None:
    assert SHOWN["python"]
    for block in SHOWN["python"]:
        exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})


def test_the_table_of_the_readme_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(SHOWN["csv"][0])
    assert list(twoafc.Triplets.read(tmp_path / "t.csv").distances) == ["ssim", "lpips"]


@pytest.mark.slow
def test_the_demo_prints_the_table_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "twoafc", "demo"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    rows = {line.split()[0]: numbers(line) for line in done.stdout.splitlines() if "±" in line or "(truth)" in line}
    shown = [line for line in SHOWN["console"][0].splitlines() if " auto  " in line or "(truth)" in line]
    assert len(shown) == 6
    for line in shown:
        # Another JPEG library or processor moves the last digits; the truth that the README tells stays.
        assert rows[line.split()[0]] == pytest.approx(numbers(line), rel=0.03)
    assert "They are not people" in done.stdout
    assert "Results: demo" in done.stdout.splitlines()
    monkeypatch.chdir(tmp_path)
    assert {"train.csv", "test.csv", "scores.csv"} <= {path.name for path in Path("demo").iterdir()}
    records = scores_of("demo")
    order = sorted(records, key=lambda name: records[name]["nll"])
    assert order[0] == "(truth)"
    assert sorted(order[1:4]) == ["ms_ssim_3", "nlpd", "ssim"]
    assert order[4:] == ["euclidean", "brightness"]
    # What it tells to try next gives the same scores.
    (again,) = (line for line in done.stdout.splitlines() if line.startswith("  twoafc evaluate"))
    main(again.split()[1:])
    assert scores_of("my-results") == {name: record for name, record in records.items() if name != "(truth)"}


def scores_of(folder: str) -> dict[str, dict[str, Any]]:
    records = json.loads(Path(folder, "scores.json").read_text())["scores"]
    return {record["distance"]: record for record in records if (record["split"], record["group"]) == ("test", "all")}


def numbers(line: str) -> list[float]:
    """Scores of a printed row, without error bars and letters; the share explained is left out."""
    return [float(text) for text in re.findall(r"\d+\.\d+", re.sub(r"± \d+\.\d+|ms_ssim_3", "", line))]


# The first hour


@pytest.mark.slow
def test_the_first_hour_runs_and_says_what_it_should(tmp_path: Path) -> None:
    home = Path(sys.executable).parent
    path = {"PATH": os.pathsep.join([str(home), os.environ["PATH"]]), "PYTHONPATH": os.pathsep.join(sys.path)}
    command, environment = ["bash", str(ROOT / "examples" / "first_hour.sh")], os.environ | path
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    _, demo, table, question, python, metric, study, paper = done.stdout.split("# ")
    assert "They are not people" in demo
    assert "Four of five distances share the lead: " in demo
    assert "Results: demo" in demo
    assert "note: both: M differs between train and test" in table
    assert "Report: results/report.html" in table
    first, *_, last = question.splitlines()[1:-1]
    assert first.startswith("nlpd and ssim cannot be told apart: nlpd is ahead by ")
    assert first.endswith(" (Holm)")
    assert last.startswith("ssim agrees with more votes than brightness: ")
    assert (
        "Both distances share the lead: ssim is nominally first, and euclidean cannot be told apart from it." in python
    )
    assert "pandas ['ssim', 'euclidean']" in python
    assert python.splitlines()[-1].startswith("ssim and euclidean cannot be told apart: ssim is ahead by ")
    assert not python.splitlines()[-1].endswith("(Holm)")
    assert metric.splitlines()[1].startswith("blocks keeps the promises of a distance (tried on 64 x 64 pixels")
    assert "Table: measured.parquet (60 rows)" in study
    assert "Against rmse, the baseline: two cannot be told apart from it (ssim, blocks)." in study
    assert "Caution: only 48 training triplets" in study
    assert r"\begin{table}" in paper
    assert "differences.pdf" in paper
    page = (tmp_path / "study" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/") >= 9  # three triplets with their pictures
