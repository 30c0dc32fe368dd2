from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counting import tally
from drawing import plain_results
from twoafc import worlds
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.scale import engines
from twoafc.table import Triplets


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Votes in three parts, and a table to test on."""
    monkeypatch.chdir(tmp_path)
    for seed in range(4):
        frame = worlds.simulate("weber", triplets=1500, votes=3, seed=seed)
        labels = {"ref": pl.Series(np.arange(1500) % 200).cast(pl.String), "group": pl.Series(["a", "b", "b"] * 500)}
        frame = frame.with_columns(**labels)
        frame.write_parquet(f"votes-{seed}.parquet" if seed < 3 else "test.parquet")
        if seed < 2:
            frame.write_csv(f"votes-{seed}.csv")
    return tmp_path


def scores(out: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((Path(out) / "scores.json").read_text())
    return told


def evaluate(*arguments: str) -> None:
    with plain_results():
        main(["evaluate", *arguments, "--quiet"])


def test_tables_are_counted_by_the_engine_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--train", "votes-*.parquet", "--test", "test.parquet")
    main(["evaluate", *common, "--engine", "polars", "--keep-refs", "--out", "a"])
    said = capsys.readouterr().out
    assert "note: distance: counted in bins, 128 for each doubling of the distance" in said
    assert "clustered by ref" in said
    too_small = (
        "Caution: error bars take triplets as independent: the counts keep no references; they are too small where "
        "references recur, so count with --keep-refs.\n"
    )
    assert too_small not in said
    main(["evaluate", *common, "--engine", "polars", "--out", "alone"])
    assert too_small in capsys.readouterr().out
    assert too_small[9:-2] in Path("alone", "tables.md").read_text(encoding="utf-8")
    evaluate(*common, "--engine", "duckdb", "--keep-refs", "--out", "b")
    one, other = scores("a"), scores("b")
    assert one["scores"] == other["scores"]
    for role in ("train", "test"):
        assert one["card"]["data"][role] | {"engine": "duckdb"} == other["card"]["data"][role]
    assert one["card"]["data"]["train"]["triplets"] == 4500
    assert one["card"]["data"]["train"]["source"] == "votes-*.parquet"
    evaluate(*common, "--out", "exact")
    for record, exact in zip(one["scores"], scores("exact")["scores"], strict=True):
        assert record["nll"] == pytest.approx(exact["nll"], abs=2e-3)
        assert record["score_2afc_distance"] == pytest.approx(exact["score_2afc_distance"], abs=1e-9)
        assert record["nll_se"] == pytest.approx(exact["nll_se"], rel=0.05)
    main(["query", "a/models/distance-auto.npz", "--d0", "2", "--d1", "1", "--votes", "3"])
    assert "P = 0." in capsys.readouterr().out


def test_counts_on_file_take_the_place_of_tables(folder: Path) -> None:
    for name in ("votes-0", "votes-1", "votes-2", "test"):
        tally(Triplets.read(f"{name}.parquet")).save(f"{name}.npz")
    evaluate("--train", "votes-*.parquet", "--test", "test.npz", "--engine", "polars", "--out", "tables")
    # A table beside counts is counted on their lattice.
    evaluate("--train", "votes-*.npz", "--test", "test.parquet", "--out", "mixed")
    assert scores("tables")["scores"] == scores("mixed")["scores"]


def test_a_large_table_is_counted_and_the_reader_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "MOST_ROWS", 4000)
    evaluate("--train", "votes-*.parquet", "--test", "test.parquet", "--out", "large")
    assert not (folder / "large" / "triplets.parquet").exists()
    assert scores("large")["card"]["notes"][0] == (
        "counted by polars, since a table of more than 4,000 rows is not read; --engine chooses another"
    )


def test_a_single_table_is_cross_validated_from_its_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate("--train", "votes-*.parquet", "--engine", "polars", "--out", "counted")
    evaluate("--train", "votes-*.parquet", "--out", "exact")
    one, other = ({(r["split"], r["group"]): r for r in scores(out)["scores"]} for out in ("counted", "exact"))
    assert list(one) == list(other)
    assert one["test", "all"]["triplets"] == 4500
    assert one["test", "all"]["nll"] == pytest.approx(other["test", "all"]["nll"], abs=0.01)
    assert scores("counted")["card"]["settings"]["folds"] == 5
    monkeypatch.setattr(engines, "MOST_ROWS", 4000)
    evaluate("--train", "votes-*.parquet", "--folds", "3", "--out", "large")
    assert [r["split"] for r in scores("large")["scores"] if r["group"] == "all"] == [
        "train",
        "fold-0",
        "fold-1",
        "fold-2",
        "test",
    ]


def test_a_table_in_several_files_is_read_as_one(folder: Path) -> None:
    whole = Triplets.from_frame(pl.concat(pl.read_parquet(f"votes-{k}.parquet") for k in (0, 1)))
    for ending in ("parquet", "csv"):
        parts = Triplets.read_parts([f"votes-{k}.{ending}" for k in (0, 1)])
        for name in ("n", "M", "d0", "d1"):
            np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    evaluate("--train", "votes-[01].csv", "--test", "test.parquet", "--out", "parts")
    told = scores("parts")
    assert told["card"]["data"]["train"]["triplets"] == len(whole)
    assert set(told["card"]["data"]["train"]["files_sha256"]) == {"votes-0.csv", "votes-1.csv"}


def test_what_is_wrong_with_one_part_names_it(folder: Path) -> None:
    frame = pl.read_parquet("votes-0.parquet")
    frame.drop("ref").write_parquet("part-1.parquet")
    frame.with_columns(n=pl.lit(9)).write_parquet("part-2.parquet")
    frame.with_columns(M=pl.Series([[3]] * 1500)).write_parquet("part-3.parquet")
    Path("part-4.parquet").write_bytes(b"PAR1")
    for parts in (["votes-0.parquet", "part-1.parquet"], ["part-1.parquet", "votes-0.parquet"]):
        with pytest.raises(DataError) as caught:
            Triplets.read_parts(parts)
        assert str(caught.value) == (
            "parts must have the same columns; part-1.parquet has no ref, which votes-0.parquet has"
        )
    with pytest.raises(DataError) as caught:
        Triplets.read_parts(["votes-0.parquet", "part-2.parquet"])
    assert str(caught.value) == ("n must lie in [0, M]; part-2.parquet, row 0 has n=9, M=3 (1500 of 3000 rows)")
    with pytest.raises(DataError, match=r"^the columns of votes-0.parquet and the other parts do not fit: "):
        Triplets.read_parts(["votes-0.parquet", "part-3.parquet"])
    with pytest.raises(DataError, match=r"^part-4.parquet: not a readable Parquet file: "):
        Triplets.read_parts(["votes-0.parquet", "part-4.parquet"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--engine", "polars", "--folds", "1"],
            "folds must lie between 2 and the number of triplets, 1500; found 1",
        ),
        (
            ["--engine", "polars", "--test", "test.parquet", "--strict"],
            "--strict needs single triplets; counts have none",
        ),
        (
            ["--engine", "polars", "--test", "test.parquet", "--rename", "a=b"],
            "--rename needs a table that is read; a counted table must have the standard column names",
        ),
        (["--test", "absent-*.npz"], "no file matches absent-*.npz"),
        (["--test", "absent.npz"], "no such file: absent.npz"),
        (
            ["--test", "test.parquet", "--per-octave", "100"],
            "per_octave must be a power of two from 1 to 4096; found 100",
        ),
        (
            ["--test", "test.parquet", "--per-octave", "0"],
            "per_octave must be a power of two from 1 to 4096; found 0",
        ),
        (
            ["--test", "same.csv", "--engine", "polars"],
            PAIRS := "same.csv: only tables of triplets can be counted; this one has pairs",
        ),
    ],
)
def test_what_cannot_be_done_with_counts_is_said_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    Path("same.csv").write_text("n,M,d\n1,2,0.5\n")
    train = "same.csv" if message == PAIRS else "votes-0.parquet"
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", "--train", train, *arguments])
    assert capsys.readouterr().err == f"twoafc: {message}\n"
    assert not Path("results").exists()
