"""What `evaluate` is told to read: options that do nothing are refused, and notes say what was done and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import refused
from counting import tally
from twoafc import evaluate, worlds
from twoafc.cli import main
from twoafc.table import Triplets


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes to train and to test on, as tables and counted."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("train", "test")):
        frame = worlds.simulate("weber", triplets=600, votes=3, seed=seed)
        frame.write_parquet(f"{name}.parquet")
        tally(Triplets.from_frame(frame)).save(f"{name}.npz")


def evaluated(*arguments: str) -> dict[str, Any]:
    main(["evaluate", *arguments, "--quiet", "--out", "out"])
    told: dict[str, Any] = json.loads(Path("out/scores.json").read_text())
    return told


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return refused(capsys, "evaluate", *arguments, "--out", "out")


@pytest.mark.parametrize(
    ("option", "value"), [("--engine", ("polars",)), ("--per-octave", ("64",)), ("--keep-refs", ())]
)
def test_options_without_effect_are_refused(
    option: str, value: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert failure(capsys, "--train", "train.npz", "--test", "test.npz", option, *value) == (
        f"{option} sets how tables are counted; these are already counts: leave it out"
    )
    assert not Path("out").exists()


def test_the_note_names_an_engine_that_was_not_chosen() -> None:
    beside = evaluated("--train", "train.npz", "--test", "test.parquet")["card"]
    assert beside["notes"][0] == "counted by polars; --engine chooses another"
    assert (beside["data"]["train"]["engine"], beside["data"]["test"]["engine"]) == ("counted before", "polars")
    asked = evaluated("--train", "train.parquet", "--test", "test.parquet", "--per-octave", "64")["card"]
    assert asked["notes"][0] == "counted by polars; --engine chooses another"
    chosen = evaluated("--train", "train.parquet", "--test", "test.parquet", "--engine", "duckdb")["card"]
    assert not any("counted by" in note for note in chosen["notes"])
    assert chosen["data"]["train"]["engine"] == "duckdb"


def test_bins_of_unlike_width_are_told() -> None:
    tally(Triplets.read("train.parquet"), per_octave=64).save("wide.npz")
    notes = evaluated("--train", "wide.npz", "--test", "test.npz")["card"]["notes"]
    assert notes[0] == "counted in bins of different widths; per doubling of a distance, train 64, test 128"


def test_letters_are_explained_where_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "--train", "train.npz", "--test", "test.npz", "--out", "out"])
    said = capsys.readouterr().out
    assert "± standard error\n" in said
    for text in (said, Path("out/tables.md").read_text(), Path("out/report.html").read_text()):
        assert "share a letter" not in text


def test_a_file_of_counts_may_have_a_bracket_in_its_name() -> None:
    Path("train.npz").rename("train[1].npz")
    assert evaluated("--train", "train[1].npz", "--test", "test.npz")["card"]["data"]["train"]["triplets"] == 600


def test_no_distances_are_called_none() -> None:
    counts = {"distance": tally(Triplets.read("train.parquet"))}
    with pytest.raises(ValueError, match=r"^train and test must share a distance; train has none, test has distance$"):
        evaluate({}, counts)
