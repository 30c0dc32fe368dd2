"""Difference scaling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from twoafc.datasets import read_quadruples
from twoafc.errors import DataError
from twoafc.table import Triplets

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
    response = (s[:, 3] - s[:, 2] > s[:, 1] - s[:, 0]).astype(int)
    table = Triplets.from_frame(read_quadruples({"Response": response, **{f"s{k + 1}": s[:, k] for k in range(4)}}))
    assert ((table.n > 0) == (table.d1 < table.d0)).all()
    assert table.M.sum() == len(s)


def test_repeats_are_merged() -> None:
    frame = read_quadruples(SHOWN)
    assert frame.rows() == [("1.0", "3.0", "4.0", "9.0", 0, 2, 2.0, 5.0), ("2.0", "4.0", "5.0", "7.0", 1, 1, 2.0, 2.0)]
    assert frame.columns == ["ref0", "x0", "ref1", "x1", "n", "M", "d0", "d1"]
    assert len(Triplets.from_frame(frame)) == 2


def test_files_and_names_as_in_r(tmp_path: Path) -> None:
    path = tmp_path / "kk1.csv"
    pl.DataFrame(SHOWN).rename({"Response": "resp", "s1": "S1", "s4": "S4"}).write_csv(path)
    assert read_quadruples(path).equals(read_quadruples(SHOWN))


def test_numbers_of_stimuli_refer_to_a_scale() -> None:
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
