"""The commands on tables of pairs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trees
import twoafc
from commands import refused
from pairs_world import falling, world
from twoafc import Density
from twoafc.cli import main

pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    world(300, seed=1, group=["a", "b"] * 150).write("jnd_train.csv")
    world(200, seed=2, group=["a", "b"] * 100).write("jnd_test.parquet")
    return tmp_path


def test_the_commands_take_pairs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "evaluate --train jnd_train.csv --test jnd_test.parquet --estimator density --estimator spline --out r"
    main(command.split())
    said = capsys.readouterr().out
    told = json.loads(Path("r", "scores.json").read_text())
    best = min((r for r in told["scores"] if r["split"] == "test" and r["group"] == "all"), key=lambda r: r["nll"])
    assert f"{best['nll']:.4f} ± {best['nll_se']:.4f} a" in said
    assert f"{best['average_precision']:.2f} ± {best['average_precision_se']:.2f}" in said
    assert "note: floor: the constant P = " in said
    assert said.endswith("Results: r\nReport: r/report.html\n")
    main([*command.split(), "--json"])
    assert json.loads(capsys.readouterr().out)["scores"] == told["scores"]
    main(["query", "r/models/good-spline.npz", "--d", "0.5", "--votes", "3", "--observed", "1", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["d", "votes", "P", "standard_error", "counts"]
    assert answer["P"] == pytest.approx(falling(np.log(0.5)), abs=0.1)
    assert sum(count["probability"] for count in answer["counts"]) == pytest.approx(1)
    main(["query", "r/models/good-density.npz", "--d", "0.5", "--votes", "3"])
    said = capsys.readouterr().out
    assert "(standard error): the chance of same at d = 0.5" in said
    assert "Counts of 3 votes for same" in said


def test_one_table_is_cross_validated(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "--train", "jnd_train.csv", "--folds", "3", "--distance", "good", "--sigma", "auto"])
    assert "note: no test table: 3-fold cross-validation, split by pair" in capsys.readouterr().out
    told = json.loads(Path("results", "scores.json").read_text())
    assert {r["distance"] for r in told["scores"]} == {"good"}
    assert told["comparisons"] == []
    main(["evaluate", "--train", "jnd_train.csv", "--estimator", "auto", "--quiet"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate --train jnd_train.csv --estimator network", "network does not support pairs; use density or spline"),
        (
            "evaluate --train jnd_train.csv --ties x0",
            "ties concerns 2AFC scores, which pairs do not have; found ties='x0'",
        ),
        (
            "evaluate --train jnd_train.csv --test triplets.csv",
            "train and test must have rows of one kind; train has pairs, test triplets",
        ),
        (
            "evaluate --train triplets.csv --test jnd_test.parquet",
            "train and test must have rows of one kind; train has triplets, test pairs",
        ),
        *(
            (
                f"evaluate --train {file}",
                f"{file}: a table has pairs (NAME_d) or triplets (NAME_d0 and NAME_d1), since n counts other votes in "
                "each; found a_d and a_d0",
            )
            for file in ("both.csv", "both.parquet")
        ),
        (
            "query pairs.npz --d0 1 --d1 2 --votes 3",
            "the model is of pairs and takes one distance; give --d instead of --d0 and --d1",
        ),
        ("query pairs.npz --d nan --votes 3", "distances must be finite; found d=nan"),
        ("query pairs.npz --d 1 --votes 0", "votes must be at least 1; found 0"),
        (
            "query triplets.npz --d 1 --votes 3",
            "the model is of triplets and takes two distances; give --d0 and --d1",
        ),
    ],
)
def test_a_mistake_gets_one_line(here: Path, capsys: pytest.CaptureFixture[str], command: str, message: str) -> None:
    Path("triplets.csv").write_text("n,M,d0,d1\n1,2,0.5,1\n2,2,1,0.5\n")
    Path("both.csv").write_text('"n";"M";"a_d0";"a_d1";"a_d"\n1;2;1;1;1\n')
    pl.DataFrame({"n": [1], "M": [2], "a_d0": [1.0], "a_d1": [2.0], "a_d": [1.0]}).write_parquet("both.parquet")
    Density().fit(world(30)["good"]).save("pairs.npz")
    Density().fit(twoafc.Triplets.read("triplets.csv")).save("triplets.npz")
    assert refused(capsys, *command.split()) == message
    assert not Path("results").exists()


def test_from_images_to_scores(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """BAPPS JND on disk, measured, then evaluated: the table between needs no touch."""
    trees.write_jnd(here, 12, subsets=("cnn", "traditional"))
    main(["measure", "jnd", "--distance", "rmse,euclidean", "--workers", "1", "--out", "measured.csv", "--quiet"])
    main(["evaluate", "--train", "measured.csv", "--folds", "3", "--estimator", "spline", "--out", "r"])
    assert "Scores on test: 24 pairs, 72 votes" in capsys.readouterr().out
    told = json.loads(Path("r", "scores.json").read_text())
    assert {r["group"] for r in told["scores"] if r["split"] == "test"} == {"cnn", "traditional", "mean", "all"}
    # The one is a multiple of the other: they put all pairs in one order.
    (same,) = (r for r in told["comparisons"] if r["measure"] == "average_precision")
    assert same["sentence"] == f"{same['a']} and {same['b']} order the pairs alike"
