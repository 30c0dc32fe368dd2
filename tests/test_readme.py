"""The README's commands and code, run as they are written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import random_table
from twoafc.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(kind: str) -> list[str]:
    found = re.findall(rf"```{kind}\n(.*?)```", README, flags=re.DOTALL)
    assert found, f"the README has no block of {kind}"
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = random_table(300, seed=1).to_frame()
    for name in ("train", "test", "votes"):
        both = {f"{d}_d{i}": f"d{i}" for d in ("ssim", "lpips") for i in (0, 1)}
        frame.with_columns(**both).drop("d0", "d1").write_csv(tmp_path / f"{name}.csv")
    return tmp_path


def test_the_test_and_main_commands_are_there() -> None:
    assert "pip install . && twoafc demo" in README
    assert "pip install '.[test]' && pytest" in README
    assert "\"pip install '.[test]' && pytest\"\n" in (Path(__file__).parents[1] / ".ci" / "run").read_text()


@pytest.mark.usefixtures("plain")
def test_the_commands_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) == 6
    assert commands[0] == "pip install . && twoafc demo"  # run below
    monkeypatch.chdir(folder)
    for command in commands[1:]:
        program, *arguments = command.split()
        assert program == "twoafc"
        main(arguments)


@pytest.mark.slow
def test_the_demo_prints_the_table_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "twoafc", "demo"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    rows = {line.split()[0]: numbers(line) for line in done.stdout.splitlines() if "±" in line or "(truth)" in line}
    shown = [line for line in blocks("console")[0].splitlines() if " auto  " in line or "(truth)" in line]
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


@pytest.mark.usefixtures("plain")
def test_the_python_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})


def test_the_table_is_a_table(tmp_path: Path) -> None:
    import twoafc

    (tmp_path / "t.csv").write_text(blocks("csv")[0])
    assert list(twoafc.Triplets.read(tmp_path / "t.csv").distances) == ["ssim", "lpips"]


def test_the_pictures_are_there() -> None:
    for path in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (Path(__file__).parents[1] / path).stat().st_size > 1000
