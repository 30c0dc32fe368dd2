"""Tables of pairs with "same" votes."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pairs_world import world
from twoafc import DataError, Pairs, Triplets
from twoafc.table import read_votes


def frame(**columns: object) -> dict[str, Any]:
    return {"n": [1, 2], "M": [3, 3], "d": [0.1, 0.2]} | columns


# The table.


def test_a_table_of_pairs_is_read(tmp_path: Path) -> None:
    path = tmp_path / "jnd.csv"
    path.write_text("triplet,group,ref,x,n,M,lpips_d,ssim_d\na,g,r,s,1,3,0.1,0.2\nb,h,r,t,3,3,0.05,0.3\n")
    table = Pairs.read(path)
    assert repr(table) == "Pairs(2 pairs, 6 votes, M = 3, 67 % same, distances: lpips, ssim)"
    assert table.labels.columns == ["pair", "group", "ref", "x"]
    assert table["ssim"].d.tolist() == [0.2, 0.3]
    assert table.share == 4 / 6
    assert not table.n.flags.writeable


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_that_is_written_reads_the_same(tmp_path: Path, name: str) -> None:
    table = world(30, group=["a", "b"] * 15, ref=[f"r{k % 7}" for k in range(30)])
    table.write(tmp_path / name)
    again = Pairs.read(tmp_path / name)
    assert again.to_frame().equals(table.to_frame())


def test_the_columns_tell_what_a_file_holds(tmp_path: Path) -> None:
    for name, text, kind in (
        ("a.csv", "\ufeffn;M;lpips_d\n1;2;0.5\n", Pairs),
        ("b.tsv", '\n"n"\t"M"\t"d"\n1\t2\t0.5\n', Pairs),
        ("c.csv.gz", "n,M,ssim_d\n1,2,0.5\n", Pairs),
        ("d.csv", "n,M,ssim_d0,ssim_d1\n1,2,0.5,0.6\n", Triplets),
    ):
        opener = gzip.open if name.endswith(".gz") else open
        with opener(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write(text)
        assert type(read_votes([tmp_path / name])) is kind


def test_plain_d_is_a_distance_too() -> None:
    table = Pairs.from_frame(frame())
    assert list(table.distances) == ["distance"]
    assert table.to_frame().columns == ["pair", "n", "M", "d"]


def test_votes_are_merged_whichever_image_comes_first() -> None:
    votes = {
        "choice": [1, 0, 1, 1],
        "ref": ["a", "b", "a", "a"],
        "x": ["b", "a", "b", "c"],
        "observer": ["o", "p", "q", "o"],
        "d": [0.1, 0.1, 0.1, 0.3],
    }
    table = Pairs.from_frame(votes)
    assert (table.n.tolist(), table.M.tolist(), table.d.tolist()) == ([2, 1], [3, 1], [0.1, 0.3])
    assert table.votes is not None
    assert table.votes.to_dict(as_series=False) == {
        "row": [0, 0, 0, 1],
        "choice": [1, 0, 1, 1],
        "swapped": [False] * 4,
        "observer": ["o", "p", "q", "o"],
    }
    # Another group is another pair; a name alone will do; what nothing identifies stays single.
    assert len(Pairs.from_frame(votes | {"group": ["g", "g", "h", "h"]})) == 3
    named = {"choice": [1, 0], "pair": ["k", "k"], "d": [0.1, 0.1]}
    assert Pairs.from_frame(named).n.tolist() == [1]
    assert Pairs.from_frame({"choice": [1, 0], "d": [0.1, 0.1]}).M.tolist() == [1, 1]
    kept = table.where([1])
    assert kept.votes is not None
    assert kept.votes["row"].to_list() == [0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"n": [1], "M": [2], "d": [1.0], "ssim_d0": [1.0], "ssim_d1": [2.0]},
            "a table has pairs (NAME_d) or triplets (NAME_d0 and NAME_d1), since n counts other votes in each; "
            "found d and ssim_d0",
        ),
        (
            {"n": [1], "M": [2], "d0": [1.0], "d1": [2.0]},
            "no distance of pairs in the table; expected a column d, or NAME_d; found n, M, d0, d1",
        ),
        (
            {"n": [1], "M": [2], "d": [1.0], "distance_d": [2.0]},
            "two distances are called distance: d and distance_d; rename one",
        ),
        ({"n": [], "M": [], "d": []}, "the table has no rows"),
        ({"M": [2], "d": [1.0]}, "missing column n; a table has n and M, or choice; found M, d"),
        (frame(n=[4, 0]), "n must lie in [0, M]; row 0 has n=4, M=3 (1 of 2 rows)"),
        (frame(d=[0.1, np.inf]), "d must be finite; row 1 has d=inf (1 of 2 rows)"),
        (frame(d=[0.1, None]), "d must not be missing; row 1 has no d (1 of 2 rows)"),
        (frame(x=["a", ""]), "x must not be missing; row 1 has no x (1 of 2 rows)"),
        (frame(pair=[None, "b"]), "pair must not be missing; row 0 has no pair (1 of 2 rows)"),
        (frame(x=[[1], [2]]), "x must be text or numbers; the column has type List(Int64)"),
        (frame(pair=[0, 1], triplet=[0, 1]), "a pair is named by the column pair or by triplet; found both"),
        (
            frame(group=["a", "all"]),
            "a group must not be named all or mean (names of summary rows); row 1 has group='all' (1 of 2 rows)",
        ),
        (
            {"choice": [1, 0], "pair": ["k", "k"], "d": [0.1, 0.2]},
            "votes on one pair must have the same distance (distance); row 1 has 0.2, row 0 0.1 (1 of 2 rows)",
        ),
    ],
)
def test_a_wrong_table_is_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        Pairs.from_frame(columns)
    assert str(caught.value) == message


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n,M,d\n4,3,1\n")
    with pytest.raises(DataError) as caught:
        Pairs.read(tmp_path / "t.csv")
    assert str(caught.value) == f"{tmp_path / 't.csv'}: n must lie in [0, M]; row 0 (line 2) has n=4, M=3 (1 of 1 rows)"
    with pytest.raises(DataError, match=r"^no such file: none\.csv$"):
        Pairs.read("none.csv")


def test_a_distance_that_is_not_there_is_refused() -> None:
    with pytest.raises(DataError, match=r"^no distance 'tea' in the table; it has good, poor$"):
        world(10)["tea"]
    with pytest.raises(ValueError, match=r"^the table has 2 distances; choose one, table\[NAME\], of good, poor$"):
        _ = world(10).d
