"""Distances measured elsewhere, joined to a table of votes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twoafc import DataError, Pairs, Triplets, join_columns

VOTES = {"triplet": ["s", "t"], "n": [1, 2], "M": [2, 2]}
SHOWN = {"ref": ["r", "r", "r"], "x0": ["a", "b", "a"], "x1": ["b", "a", "a"], "n": [0, 1, 1], "M": [1, 1, 1]}

JUDGED = {"ref": ["r", "r", "s", "r"], "x": ["a", "b", "a", "a"], "n": [0, 1, 1, 2], "M": [3, 3, 3, 3]}


def pairs(frame: pl.DataFrame, name: str = "my") -> list[tuple[float, float]]:
    return frame.select(f"{name}_d0", f"{name}_d1").rows()


def test_by_triplet_whatever_the_order_of_rows() -> None:
    found = join_columns(VOTES, {"triplet": ["t", "u", "s"], "my_d0": [1.0, 9, 3], "my_d1": [2.0, 9, 4]})
    assert pairs(found) == [(3, 4), (1, 2)]
    assert found.columns == ["triplet", "n", "M", "my_d0", "my_d1"]
    assert Triplets.from_frame(found)["my"].d0.tolist() == [3, 1]


def test_rows_shown_the_other_way_round_have_their_distances_changed_over() -> None:
    measured = {"ref": ["r", "r"], "x0": ["b", "a"], "x1": ["a", "a"], "my_d0": [0.1, 0.5], "my_d1": [0.2, 0.5]}
    assert pairs(join_columns(SHOWN, measured)) == [(0.2, 0.1), (0.1, 0.2), (0.5, 0.5)]


def test_a_triplet_named_and_shown_the_other_way_round() -> None:
    votes = {"triplet": [1, 2], "ref": ["r", "s"], "x0": ["a", "c"], "x1": ["b", "d"], "choice": [0, 1]}
    measured = {**votes, "x0": ["b", "c"], "x1": ["a", "d"], "my_d0": [0.1, 0.3], "my_d1": [0.2, 0.4]}
    measured.pop("choice")
    assert pairs(join_columns(votes, measured)) == [(0.2, 0.1), (0.3, 0.4)]


def test_pairs_of_images() -> None:
    measured = {"ref": ["r", "r"], "x": ["b", "a"], "my_d": [0.1, 0.2], "other_d": [1, 2]}
    found = join_columns(SHOWN, measured)
    assert pairs(found) == [(0.2, 0.1), (0.1, 0.2), (0.2, 0.2)]
    assert pairs(found, "other") == [(2, 1), (1, 2), (2, 2)]


def test_pairs_of_images_that_were_judged_as_pairs() -> None:
    measured = {"ref": ["s", "r", "r"], "x": ["a", "b", "a"], "my_d": [0.3, 0.2, 0.1], "other_d": [3, 2, 1]}
    found = join_columns(JUDGED, measured)
    assert found.columns == ["ref", "x", "n", "M", "my_d", "other_d"]
    assert found["my_d"].to_list() == [0.1, 0.2, 0.3, 0.1]
    assert Pairs.from_frame(found)["other"].d.tolist() == [1, 2, 3, 1]
    groups = {**JUDGED, "group": ["u", "u", "u", "v"]}
    measured = {"ref": ["r", *"rrs"], "x": ["a", *"aba"], "group": ["v", *"uuu"], "my_d": [0.4, 0.1, 0.2, 0.3]}
    assert join_columns(groups, measured)["my_d"].to_list() == [0.1, 0.2, 0.3, 0.4]


def test_repeats_that_agree_are_one() -> None:
    turned = {"ref": ["r"] * 3, "x0": ["a", "b", "a"], "x1": ["b", "a", "a"], "my_d0": [0.3, 0.1 + 1e-11, 0.5]}
    turned["my_d1"] = [0.1, 0.3, 0.5]
    assert pairs(join_columns(SHOWN, turned)) == [(0.3, 0.1), (0.1, 0.3), (0.5, 0.5)]
    named = {"triplet": ["t", "s", "t"], "my_d0": [1, 3, 1], "my_d1": [2, 4, 2]}
    assert pairs(join_columns(VOTES, named)) == [(3, 4), (1, 2)]
    of_pairs = {"ref": ["r"] * 4, "x": ["a", "b", "b", "a"], "my_d": [0.2, 0.1, 0.1, 0.2]}
    assert pairs(join_columns(SHOWN, of_pairs)) == [(0.2, 0.1), (0.1, 0.2), (0.2, 0.2)]
    both = {"triplet": [1, 1], "ref": ["r", "r"], "x0": ["b", "a"], "x1": ["a", "b"], "my_d0": [1, 3], "my_d1": [3, 1]}
    asked = {"triplet": [1, 1], "ref": ["r", "r"], "x0": ["a", "b"], "x1": ["b", "a"], "choice": [0, 1]}
    assert pairs(join_columns(asked, both)) == [(3, 1), (1, 3)]


def test_what_is_below_0_by_rounding_becomes_0() -> None:
    measured = {"triplet": ["s", "t"], "my_d0": [0.5, -1e-8], "my_d1": [0.25, 0.5]}
    assert pairs(join_columns(VOTES, measured)) == [(0.5, 0.25), (0.0, 0.5)]


def test_quadruples() -> None:
    votes = {"ref0": ["r"], "x0": ["a"], "ref1": ["s"], "x1": ["b"], "n": [1], "M": [1]}
    turned = {"ref0": ["s"], "x0": ["b"], "ref1": ["r"], "x1": ["a"], "my_d0": [0.1], "my_d1": [0.2]}
    assert pairs(join_columns(votes, turned)) == [(0.2, 0.1)]
    assert pairs(join_columns(votes, {"ref": ["r", "s"], "x": ["a", "b"], "my_d": [0.3, 0.4]})) == [(0.3, 0.4)]


def test_groups_stay_apart() -> None:
    votes = {"triplet": [1, 1], "group": ["cnn", "blur"], "choice": [0, 1]}
    measured = {"triplet": [1, 1], "group": ["blur", "cnn"], "my_d0": [0.1, 0.3], "my_d1": [0.2, 0.4]}
    assert pairs(join_columns(votes, measured)) == [(0.3, 0.4), (0.1, 0.2)]


def test_files(tmp_path: Path) -> None:
    pl.DataFrame(VOTES).write_parquet(tmp_path / "votes.parquet")
    (tmp_path / "my.csv").write_text("triplet,my_d0,my_d1\nt,1,2\ns,3,4\n")
    assert pairs(join_columns(tmp_path / "votes.parquet", tmp_path / "my.csv")) == [(3, 4), (1, 2)]
    with pytest.raises(DataError, match=rf"^every row needs its distances; {tmp_path}/votes.parquet: row 0 has "):
        join_columns(str(tmp_path / "votes.parquet"), {"triplet": ["t"], "my_d0": [1.0], "my_d1": [1.0]})


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), images=st.integers(1, 4), rows=st.integers(1, 30))
def test_against_a_loop(seed: int, images: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    d = rng.random((2, images, images))  # by reference, x, and anything else that a triplet's distance may depend on
    every = [(r, a, b) for r in range(2) for a in range(images) for b in range(a, images)]
    kept = [(r, b, a) if rng.random() < 0.5 else (r, a, b) for r, a, b in rng.permutation(every)]
    kept += [(r, b, a) if rng.random() < 0.5 else (r, a, b) for r, a, b in kept if rng.random() < 0.5]
    measured = [(r, a, b, d[r, a, b], d[r, b, a]) for r, a, b in kept]
    asked = rng.integers(0, [2, images, images], (rows, 3))
    found = join_columns(
        pl.DataFrame(asked, schema=["ref", "x0", "x1"]),
        pl.DataFrame(measured, schema=["ref", "x0", "x1", "my_d0", "my_d1"], orient="row"),
    )
    assert pairs(found) == [(d[r, a, b], d[r, b, a]) for r, a, b in asked]


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        (
            VOTES,
            {"triplet": ["t"], "my_d0": [1.0], "my_d1": [2.0]},
            "every row needs its distances; row 0 has triplet='s', for which there are none (1 of 2 rows)",
        ),
        (
            VOTES,
            {"triplet": ["s", "t", "t"], "my_d0": [1.0, 1, 1], "my_d1": [2.0, 2, 2.1]},
            "repeated rows of distances must agree; row 2 has triplet='t', for which row 1 has others (1 of 3 rows)",
        ),
        (
            SHOWN,
            {"ref": ["r", "r"], "x0": ["a", "b"], "x1": ["b", "a"], "my_d0": [1.0, 1], "my_d1": [2.0, 2]},
            "repeated rows of distances must agree; row 1 has ref='r', x0='b', x1='a', for which row 0 has others "
            "(1 of 2 rows)",
        ),
        (
            SHOWN,
            {"ref": ["r"], "x": ["a"], "my_d": [1.0]},
            "every row needs its distances; row 1 has ref='r', x='b', for which there are none (1 of 3 rows)",
        ),
        (
            {"triplet": [1], "ref": ["r"], "x0": ["a"], "x1": ["b"]},
            {"triplet": [1], "ref": ["r"], "x0": ["a"], "x1": ["c"], "my_d0": [1.0], "my_d1": [1.0]},
            "every row needs its distances; row 0 has triplet='1', ref='r', x0='a', x1='b', for which there are none; "
            "there triplet='1', ref='r', x0='a', x1='c' (1 of 1 rows)",
        ),
        (
            VOTES,
            {"ref": ["r"], "my_d0": [1.0], "my_d1": [2.0]},
            "both tables must name the triplets by triplet, or ref, x0 and x1, or ref0, x0, ref1 and x1; "
            "both have none",
        ),
        (
            VOTES,
            {"triplet": ["s", "t"], "my": [1.0, 2.0]},
            "no distance to add; expected columns NAME_d0 and NAME_d1; found triplet, my",
        ),
        (
            SHOWN,
            {"ref": ["r"], "x": ["a"], "my": [1.0]},
            "no distance to add; pairs of ref and x need a column NAME_d; found ref, x, my",
        ),
        (
            VOTES,
            {"ref": ["r"], "x": ["a"], "my_d": [1.0]},
            "pairs of ref and x need a table with ref, x0 and x1, or ref0, x0, ref1 and x1, or ref and x; "
            "it has triplet",
        ),
        (
            {**VOTES, "my_d1": [1, 1]},
            {"triplet": ["s", "t"], "my_d0": [1.0, 2.0], "my_d1": [1.0, 2.0]},
            "the table has the column my_d1 already; drop it, or rename the new one",
        ),
        (
            JUDGED,
            {"ref": ["r", "r", "s", "s"], "x": ["a", "b", "a", "a"], "my_d": [0.1, 0.2, 0.3, 0.31]},
            "repeated rows of distances must agree; row 3 has ref='s', x='a', for which row 2 has others (1 of 4 rows)",
        ),
        (
            JUDGED,
            {"ref": ["r", "r", "s"], "x": ["a", "b", "b"], "my_d": [0.1, 0.2, 0.3]},
            "every row needs its distances; row 2 has ref='s', x='a', for which there are none (1 of 4 rows)",
        ),
        (
            JUDGED,
            {"ref": ["r"], "x0": ["a"], "x1": ["b"], "my_d0": [1.0], "my_d1": [1.0]},
            "both tables must name the triplets by triplet, or ref, x0 and x1, or ref0, x0, ref1 and x1; both have ref",
        ),
        (
            VOTES,
            {"triplet": ["s", "t"], "my_d0": [1.0, 0.5], "my_d1": [0.5, -0.25]},
            "a distance must be at least 0; row 1 has my_d1=-0.25 (1 of 2 rows)",
        ),
        (
            SHOWN,
            {"ref": ["r", "r"], "x": ["a", "b"], "my_d": [-0.9, -0.8]},
            "a distance must be at least 0; row 0 has my_d=-0.9 (2 of 2 rows)",
        ),
        (
            VOTES,
            {"triplet": ["s", "t"], "my_d0": [1.0, float("nan")], "my_d1": [1.0, 2.0]},
            "my_d0 must be finite; row 1 has my_d0=nan (1 of 2 rows)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(table: Any, columns: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        join_columns(table, columns)
