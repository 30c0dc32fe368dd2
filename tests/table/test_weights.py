"""Sampling weights of rows: read, refused by rule and row, and carried along with their rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from conftest import random_table
from twoafc import Pairs, Triplets, check, count
from twoafc.datasets import open_table
from twoafc.errors import DataError
from twoafc.table import as_votes, join_columns, split_rows

GOOD = {"n": [1, 0, 3], "M": [2, 2, 3], "d0": [0.1, 0.2, 0.3], "d1": [0.3, 0.2, 0.1], "weight": [1.0, 2.5, 40.0]}
VOTES = {"choice": [1, 1, 0], "ref": ["r", "r", "s"], "x0": ["a", "b", "a"], "x1": ["b", "a", "c"]}
MEASURED = {"d0": [0.1, 0.2, 0.3], "d1": [0.2, 0.1, 0.4]}


def message(table: Any) -> str:
    with pytest.raises(DataError) as caught:
        as_votes(table)
    return str(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("kind", [Triplets, Pairs])
def test_the_column_weight_is_read_and_written(tmp_path: Path, name: str, kind: Any) -> None:
    frame = pl.DataFrame(GOOD if kind is Triplets else {"d": GOOD["d0"], **{k: GOOD[k] for k in ("n", "M", "weight")}})
    frame.write_csv(tmp_path / name) if name.endswith("csv") else frame.write_parquet(tmp_path / name)
    table = kind.read(tmp_path / name)
    assert table.weight.tolist() == [1.0, 2.5, 40.0]
    table.write(tmp_path / f"again-{name}")
    assert kind.read(tmp_path / f"again-{name}").to_frame().equals(table.to_frame())
    assert kind.from_frame(frame.to_pandas()).weight.tolist() == [1.0, 2.5, 40.0]
    assert kind.from_frame(frame.rename({"weight": "w"}), rename={"w": "weight"}).weight.tolist() == [1.0, 2.5, 40.0]
    assert kind.from_frame(frame.drop("weight")).weight is None


def test_a_weight_must_be_a_positive_number(tmp_path: Path) -> None:
    frame = pd.DataFrame(GOOD)
    assert message(frame.assign(weight=[1, -1, 0])) == "weight must be positive; row 1 has weight=-1 (2 of 3 rows)"
    assert message(frame.assign(weight=[1, 2, 0])) == "weight must be positive; row 2 has weight=0 (1 of 3 rows)"
    assert message(GOOD | {"weight": [1, None, 2]}) == "weight must not be missing; row 1 has no weight (1 of 3 rows)"
    assert message(GOOD | {"weight": [1.0, np.nan, 2]}) == "weight must be finite; row 1 has weight=nan (1 of 3 rows)"
    assert message(GOOD | {"weight": [1.0, np.inf, 2]}) == "weight must be finite; row 1 has weight=inf (1 of 3 rows)"
    assert message(GOOD | {"weight": ["1", "2", "x"]}) == "weight must be a number; row 2 has weight='x' (1 of 3 rows)"
    path = tmp_path / "t.csv"
    path.write_text("n,M,d0,d1,weight\n1,2,0.1,0.2,3\n1,2,0.1,0.2,-2\n")
    assert message(path) == f"{path}: weight must be positive; row 1 (line 3) has weight=-2 (1 of 2 rows)"
    path.write_text("n,M,d0,d1,weight\n1,2,0.1,0.2,\n")
    assert message(path) == f"{path}: weight must not be missing; row 0 (line 2) has no weight (1 of 1 rows)"


def test_equal_weights_are_none() -> None:
    assert Triplets.from_frame(GOOD | {"weight": [2.5] * 3}).weight is None


def test_votes_on_one_triplet_have_one_weight() -> None:
    table = Triplets.from_frame(VOTES | MEASURED | {"weight": [2.0, 2.0 * (1 + 1e-12), 5.0]})
    assert table.weight is not None
    assert table.weight.tolist() == [2.0, 5.0]
    assert table.M.tolist() == [2, 1]
    assert message(VOTES | MEASURED | {"weight": [2.0, 3.0, 5.0]}) == (
        "votes on one triplet must have the same weight; row 1 has 3.0, row 0 2.0 (1 of 3 rows)"
    )
    pairs = {"choice": [1, 0], "ref": ["r", "r"], "x": ["a", "a"], "d": [0.1, 0.1]}
    assert message(pairs | {"weight": [1.0, 2.0]}) == (
        "votes on one pair must have the same weight; row 1 has 2.0, row 0 1.0 (1 of 2 rows)"
    )


def test_weights_go_where_their_rows_go() -> None:
    weight = np.random.default_rng(0).lognormal(size=60)
    table = random_table(60, weight=weight, ref=np.arange(60) // 4)
    rows = np.array([5, 3, 40])
    assert table.weight is not None
    for some in (table.where(rows), table.at(rows), table["distance"].where(rows), table.where(rows).mirrored()):
        np.testing.assert_array_equal(some.weight, weight[rows])
    np.testing.assert_array_equal(Triplets.from_frame(table.to_frame()).weight, weight)
    parts, _ = split_rows(table, 3, seed=0)
    np.testing.assert_array_equal(parts.weight, weight)
    frame = pl.DataFrame({"triplet": table.labels["triplet"], "my_d0": table.d0, "my_d1": table.d1})
    joined = Triplets.from_frame(join_columns(table.to_frame(), frame))
    np.testing.assert_array_equal(joined.weight, weight)
    with pytest.raises(ValueError, match="read-only"):
        table.weight[0] = 2


def test_weights_are_scaled_to_the_effective_number_of_rows() -> None:
    table = Triplets.from_frame(GOOD)
    w = np.array(GOOD["weight"])
    assert table.effective_rows == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert table.scaled_weight is not None
    assert table.scaled_weight.sum() == pytest.approx(table.effective_rows)
    assert (table.scaled_weight**2).sum() == pytest.approx(table.effective_rows)
    np.testing.assert_allclose(table.scaled_weight / table.scaled_weight[0], w)
    alike = replace(table, weight=np.full(3, 3.0))
    assert alike.scaled_weight is not None
    assert alike.scaled_weight.tolist() == [1.0] * 3
    huge = Triplets.from_frame(GOOD | {"weight": (1e300 * w).tolist()})
    np.testing.assert_allclose(huge.scaled_weight, table.scaled_weight)
    assert table.share == pytest.approx((w * table.n).sum() / (w * table.M).sum())
    assert repr(table) == "Triplets(3 triplets, weighted like 1, 7 votes, M = 2..3, distances: distance)"


def test_images_keep_their_weights(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(b"")
    path = tmp_path / "votes.csv"
    pl.DataFrame(VOTES | {"weight": [2.0, 2.0, 5.0]}).write_csv(path)
    for name in ("a", "b", "c", "s"):
        (tmp_path / name).write_bytes(b"")
    assert open_table(path).table["weight"].to_list() == [2.0, 5.0]
    pl.DataFrame({**VOTES, "weight": [2.0, 1.0, 5.0]}).write_csv(path)
    with pytest.raises(DataError, match=r"votes on one triplet must have the same weight; row 1 \(line 3\) has 1.0"):
        open_table(path)
    pl.DataFrame({"n": [1], "M": [2], "ref": ["r"], "x": ["a"], "weight": [-1]}).write_csv(path)
    with pytest.raises(DataError, match=r"weight must be positive; row 0 \(line 2\) has weight=-1"):
        open_table(path)


def test_counts_refuse_weights() -> None:
    with pytest.raises(DataError) as caught:
        count(pl.DataFrame(GOOD))
    expected = "counts have no weights; the table has a column weight: evaluate the table itself, or drop it"
    assert str(caught.value).endswith(expected)
    with pytest.raises(
        ValueError, match="rows that stand for several triplets have no weights; found count and weight"
    ):
        replace(Triplets.from_frame(GOOD), count=np.ones(3, dtype=np.int64))


def test_another_name_of_the_column_is_noticed() -> None:
    frame = random_table(60).to_frame().with_columns(sampling_weight=pl.lit(2.0))
    (finding,) = [each for each in check(frame) if each.code == "unused"]
    assert finding.remedy == "if so, add --rename sampling_weight=weight"
