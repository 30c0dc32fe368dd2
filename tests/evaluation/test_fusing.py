"""`twoafc.fuse`: honest by construction, compared with every part, refused in one line, and of use elsewhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twoafc
from commands import refused
from fusing import several
from twoafc.cli import main
from twoafc.errors import DataError
from twoafc.explore.data import REFIT, Explored, Fitted
from twoafc.results import HALVES, Result
from twoafc.table import Triplets, assign_folds


@pytest.fixture(scope="module")
def table() -> Triplets:
    return several(600, [1.5, 1.0, 0.0], seed=1, references=45, votes=3)[0]


@pytest.fixture(scope="module")
def result(table: Triplets) -> Result:
    return twoafc.fuse(table, folds=2)


def test_every_part_is_compared_with_the_fused_distance(result: Result) -> None:
    compared = [(r["a"], r["b"], r["different"]) for r in result.comparisons if r["measure"] == "nll"]
    assert sorted(compared) == [("fused", name, True) for name in "abc"]
    assert {r["tests"] for r in result.comparisons} == {3}
    assert "noise of training included" in result.error_bars
    assert result.rows.filter(distance="fused")[HALVES].null_count() == 0
    best, *others = result.summary()["distance"]
    assert (best, sorted(others)) == ("fused", ["a", "b", "c"])


def test_scores_are_those_of_votes_that_no_choice_has_seen(table: Triplets, result: Result) -> None:
    """Turning all votes of a fold round changes nothing in what is predicted of it."""
    fold = assign_folds(table, 2, seed=0)
    turned = dataclasses.replace(table, n=np.where(fold == 1, table.M - table.n, table.n))
    other = twoafc.fuse(turned, folds=2, error_bars="fixed")
    columns = ["fused_d0", "fused_d1"]
    ours, theirs = (each.table()[columns] for each in (result, other))
    assert ours.filter(pl.Series(fold == 1)).equals(theirs.filter(pl.Series(fold == 1)))
    assert not ours.equals(theirs)


def test_what_each_part_is_worth(result: Result) -> None:
    about = result.card["fusion"]
    assert [each["part"] for each in about["without"]][:2] == ["a", "b"]
    assert all(each["low"] > 0 for each in about["without"] if each["part"] in "ab")
    assert [each["share"] for each in about["learning"]] == [0.25, 0.5]
    gain, made_of, *_, twice = about["sentences"]
    assert gain.startswith("fused explains the votes better than a: ")
    assert made_of.startswith("fused is made of a")
    assert "twice as much would bring about" in twice
    assert result.verdict()[:2] == [gain, made_of]


def test_a_test_table_is_predicted_by_one_fit(table: Triplets) -> None:
    test, _ = several(400, [1.5, 1.0, 0.0], seed=2, references=20, votes=3)
    found = twoafc.fuse(table, test, distances=["a", "b"], error_bars="fixed")
    left_out = next(text for text in found.caveats if "left out" in text)
    assert "fused" in left_out
    assert left_out.endswith("; --error-bars analytic includes it")
    columns = {name: d[1] for name, d in test.distances.items()}
    np.testing.assert_array_equal(found.table()["fused_d1"].to_numpy(), found.fused(columns))
    assert found.card["fusion"]["of"] == ["a", "b"]
    assert found.card["fusion"]["without"] == []  # of two, each without the other is there as a part


def test_the_explorer_shows_it_like_any_other(table: Triplets, tmp_path: Path) -> None:
    """With a test table its training values come from the file of the distance, since the table has no such column."""
    rows = np.arange(len(table)) % 3 > 0
    parts = {name: table.where(mask) for name, mask in (("train", rows), ("test", ~rows))}
    for name, part in parts.items():
        part.write(tmp_path / f"{name}.csv")
    command = ["fuse", "--train", "train.csv", "--test", "test.csv", "--out", "fused", "--error-bars", "fixed"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        main([*command, "--distance", "a,b", "--quiet"])
    explored = Explored(Result.read(tmp_path / "fused"))
    assert explored.about()["ranking"][0]["distance"] == "fused"
    for estimator in ("auto", REFIT):
        points = explored.points(Fitted("fused", estimator, 0.1, 20))
        assert points.surface is not None
        assert ((points.P > 0.5) == (points.d[0] > points.d[1])).all()


def test_the_folder_has_the_distance_and_the_table(result: Result, tmp_path: Path) -> None:
    result.write(tmp_path / "fused")
    again = Result.read(tmp_path / "fused")
    assert again.fused.parts == result.fused.parts
    assert again.card["fusion"] == result.card["fusion"]
    assert "What fused is made of" in (tmp_path / "fused/report.html").read_text()
    assert (tmp_path / "fused/figures/functions.svg").is_file()
    scored = twoafc.evaluate(tmp_path / "fused/fused.parquet", distances="fused", folds=2, error_bars="fixed")
    ours, theirs = (
        next(r["score_2afc_distance"] for r in each.scores if (r["distance"], r["split"]) == ("fused", "test"))
        for each in (result, scored)
    )
    assert ours == pytest.approx(theirs)
    model = twoafc.load(tmp_path / "fused/fused.npz")
    assert model.card["scores"]["triplets"] == 600
    assert model.card["data"]["train"]["contents_sha256"] == result.card["data"]["train"]["contents_sha256"]
    np.testing.assert_array_equal(model.probability(2.0, 1.0), again.model("fused", "auto").probability(2.0, 1.0))


def test_distances_that_add_nothing_are_left_out_with_a_note(table: Triplets) -> None:
    d = table.distances
    same = tuple(3 * column for column in d["a"])
    flat = (np.ones(len(table)),) * 2
    four = dataclasses.replace(table, distances={"a": d["a"], "b": d["b"], "same": same, "flat": flat})
    found = twoafc.fuse(four, folds=2, error_bars="fixed")
    assert found.notes[:2] == [
        "same is left out: it orders all images as a does",
        "flat is left out: it has one value, 1",
    ]
    assert found.card["fusion"]["of"] == ["a", "b"]


def test_votes_that_are_separated_get_a_note(table: Triplets) -> None:
    d = table.distances["a"]
    sure = dataclasses.replace(table["a"], n=np.where(d[0] > d[1], table.M, 0))
    both = dataclasses.replace(sure, distances={"a": d, "b": table.distances["b"]})
    assert twoafc.fuse(both, folds=2, error_bars="fixed").notes[0] == (
        "the fused distance separates all training votes: they fix the order of images, not its scale"
    )


def wrong(table: Any, **changes: Any) -> str:
    with pytest.raises(DataError) as caught:
        twoafc.fuse(table, **changes)
    return str(caught.value)


def test_what_cannot_be_fused_is_refused_in_one_line(table: Triplets) -> None:
    d = table.distances
    assert wrong(table["a"]) == "fusing needs two distances at least; the table has a"
    twin = dataclasses.replace(table, distances={"a": d["a"], "again": d["a"]})
    assert wrong(twin) == (
        "fusing needs two distances at least; the table has a (again is left out: it orders all images as a does)"
    )
    below = dataclasses.replace(table, distances={"a": d["a"], "b": tuple(column - 1 for column in d["b"])})
    least = min(column.min() for column in below.distances["b"])
    assert wrong(below) == f"a distance to be fused must be at least 0; b in train has {least:g}"
    assert wrong(table, name="a") == ("the table has a distance a already; give the new one another name (--name)")
    pairs = twoafc.Pairs.from_frame({"n": [1, 2], "M": [2, 2], "a_d": [1, 2], "b_d": [2, 1]})
    assert wrong(pairs) == "distances are fused by votes on triplets; train has pairs"
    assert wrong(table, folds=46) == "folds must lie between 2 and the number of references, 45; found 46"
    with pytest.raises(TypeError, match="fuse has no argument 'fold'; perhaps folds"):
        twoafc.fuse(table, fold=3)


def test_a_result_without_a_fused_distance_says_so(table: Triplets) -> None:
    with pytest.raises(DataError, match="the result has no fused distance; twoafc fuse makes one"):
        _ = twoafc.evaluate(table["a"], folds=2, error_bars="fixed").fused


def test_the_command(table: Triplets, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "votes.csv", tmp_path / "fused"
    table.write(path)
    main(["fuse", "--train", str(path), "--out", str(out), "--error-bars", "fixed", "--folds", "2"])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("fused explains the votes better than a: ")
    assert said[-1] == f"Fused distance: {out / 'fused.npz'}"
    train = ("fuse", "--train", str(path), "--out", str(out))
    assert refused(capsys, *train, "--distance", "a,x") == ("the train table has no distance x; it has a, b, c")
    assert refused(capsys, *train, "--test", str(path), "--folds", "3") == (
        "--folds cross-validates a single table; there is a test table too"
    )
