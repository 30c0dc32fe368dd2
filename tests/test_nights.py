"""NIGHTS, and difference scaling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import trees
from twoafc.datasets import open_dataset, open_nights, read_quadruples
from twoafc.datasets.nights import UNANIMOUS
from twoafc.errors import DataError
from twoafc.table import Triplets


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    trees.write_nights(tmp_path)
    return tmp_path


def message(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        open_nights(path, **options)
    return str(caught.value)


# --- NIGHTS -----------------------------------------------------------------------------------------------------------


def test_votes_are_for_the_right_image(tmp_path: Path) -> None:
    written = trees.write_nights(tmp_path, 9)
    data = open_dataset(tmp_path)
    assert data.M.tolist() == written["votes"].to_list()
    assert data.n.tolist() == (written["votes"] * written["right_vote"]).to_list()
    assert data.files["x0"].to_list() == written["left_path"].to_list()
    assert data.files["x1"].to_list() == written["right_path"].to_list()
    assert data.table["group"].to_list() == ["other", "imagenet"] * 4 + ["other"]
    assert data.notes == (UNANIMOUS,)


def test_a_split_of_it(nights: Path) -> None:
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


# --- difference scaling -----------------------------------------------------------------------------------------------

SHOWN = {"Response": [1, 0, 1], "s1": [1, 2, 1], "s2": [3, 4, 3], "s3": [4, 5, 4], "s4": [9, 7, 9]}


def refused(table: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_quadruples(table, **options)
    return str(caught.value)


def test_a_response_of_1_is_for_the_larger_difference() -> None:
    """A judge without fault names the larger difference; then d predicts every vote."""
    rng = np.random.default_rng(0)
    s = np.sort(rng.choice(40, (200, 4)), axis=1)
    s = s[s[:, 1] - s[:, 0] != s[:, 3] - s[:, 2]]
    said = (s[:, 3] - s[:, 2] > s[:, 1] - s[:, 0]).astype(int)
    table = Triplets.from_frame(read_quadruples({"Response": said, **{f"s{k + 1}": s[:, k] for k in range(4)}}))
    assert ((table.n > 0) == (table.d1 < table.d0)).all()
    assert table.M.sum() == len(s)


def test_repeats_are_merged() -> None:
    frame = read_quadruples(SHOWN)
    assert frame.rows() == [("1.0", "3.0", "4.0", "9.0", 0, 2, 2.0, 5.0), ("2.0", "4.0", "5.0", "7.0", 1, 1, 2.0, 2.0)]
    assert frame.columns == ["ref0", "x0", "ref1", "x1", "n", "M", "d0", "d1"]
    assert len(Triplets.from_frame(frame)) == 2


def test_files_and_the_names_of_r(tmp_path: Path) -> None:
    path = tmp_path / "kk1.csv"
    pl.DataFrame(SHOWN).rename({"Response": "resp", "s1": "S1", "s4": "S4"}).write_csv(path)
    assert read_quadruples(path).equals(read_quadruples(SHOWN))


def test_numbers_of_stimuli_stand_for_a_scale() -> None:
    frame = read_quadruples(SHOWN, scale=[0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.1, 2.8, 3.6])
    assert frame["d0"].to_list() == pytest.approx([0.3, 0.5])
    assert frame["d1"].to_list() == pytest.approx([3.0, 1.1])


def test_bad_quadruples(tmp_path: Path) -> None:
    head = "expected Response, s1, s2, s3 and s4; found"
    assert refused({"s1": [1]}) == f"no column Response; {head} s1"
    assert refused({"Response": [1], "s1": [1], "s2": [1], "s4": [1]}) == f"no column s3; {head} response, s1, s2, s4"
    assert refused(SHOWN | {"Response": [0, 1, 2]}) == "Response must be 0 or 1; row 2 has Response=2 (1 of 3 rows)"
    assert refused(SHOWN | {"s2": [1.0, np.nan, 2.0]}) == "s2 must be finite; row 1 has s2=nan (1 of 3 rows)"
    assert refused(SHOWN, scale=[1, 2, 3]) == "s2 must be a stimulus from 1 to 3; row 1 has s2=4 (1 of 3 rows)"
    assert refused({name: [] for name in SHOWN}) == "the table has no rows"
    path = tmp_path / "judged.csv"
    path.write_text("Response,s1,s2,s3,s4\n3,1,2,3,4\n")
    assert refused(path) == f"{path}: Response must be 0 or 1; row 0 (line 2) has Response=3 (1 of 1 rows)"
