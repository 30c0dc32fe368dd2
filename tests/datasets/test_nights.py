"""NIGHTS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import trees
from twoafc.datasets import open_dataset, open_nights
from twoafc.datasets.nights import UNANIMOUS
from twoafc.errors import DataError


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    trees.write_nights(tmp_path)
    return tmp_path


def message(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        open_nights(path, **options)
    return str(caught.value)


def test_votes_are_for_the_right_image(tmp_path: Path) -> None:
    written = trees.write_nights(tmp_path, 9)
    data = open_dataset(tmp_path)
    assert data.M.tolist() == written["votes"].to_list()
    assert data.n.tolist() == (written["votes"] * written["right_vote"]).to_list()
    assert data.files["x0"].to_list() == written["left_path"].to_list()
    assert data.files["x1"].to_list() == written["right_path"].to_list()
    assert data.table["group"].to_list() == ["other", "imagenet"] * 4 + ["other"]
    assert data.notes == (UNANIMOUS,)


def test_one_split(nights: Path) -> None:
    data = open_dataset(nights / "data.csv", split="val")
    assert data.table["triplet"].to_list() == ["1", "4"]
    assert data.missing().is_empty()
    assert message(nights, split="tests") == f"{nights / 'data.csv'}: no split tests; the table has test, train, val"


def test_votes_may_be_counts(nights: Path) -> None:
    table = pl.read_csv(nights / "data.csv").with_columns(left_vote=2, right_vote=3, votes=5)
    table.drop("is_imagenet").write_csv(nights / "data.csv")
    data = open_dataset(nights)
    assert (data.n.tolist(), data.M.tolist()) == ([3] * 6, [5] * 6)
    assert data.notes == ()
    assert data.group is None


def test_bad_nights(nights: Path) -> None:
    file = nights / "data.csv"
    table = pl.read_csv(file)
    table.drop("votes").write_csv(file)
    found = ", ".join(name for name in table.columns if name != "votes")
    assert message(nights) == f"{file}: NIGHTS needs the column votes; found {found}"
    table.with_columns(right_vote=1).write_csv(file)
    assert message(nights).startswith(
        f"{file}: left_vote and right_vote must be 1 and 0, or add up to votes; row 0 (line 2) has 1 and 1 of 5 ("
    )
    table.drop("split").write_csv(file)
    assert message(nights, split="val").startswith(f"{file}: the table has no column split; found id, left_vote")
    table.with_columns(votes=0).write_csv(file)
    assert message(nights) == f"{file}: M must be at least 1; row 0 (line 2) has M=0 (6 of 6 rows)"
    assert message(nights / "nothing.csv") == f"no such file: {nights / 'nothing.csv'}"


def test_missing_images_are_noted(nights: Path) -> None:
    (nights / "ref/000/002.png").unlink()
    assert open_dataset(nights).notes[1] == (
        f"images of 1 of 6 rows are missing; triplet 2, ref: no such file: {nights / 'ref/000/002.png'}"
    )
