from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import random_table
from twoafc.diagnostics import check
from twoafc.errors import DataError
from twoafc.table import Triplets, as_votes

GOOD: dict[str, list[Any]] = {"n": [1, 0, 3], "M": [2, 1, 3], "d0": [0.1, 0.2, 0.3], "d1": [0.3, 0.2, 0.1]}
VOTES: dict[str, list[Any]] = {
    "ref": ["r", "r", "r", "s"],
    "x0": ["a", "b", "a", "a"],
    "x1": ["b", "a", "b", "b"],
    "choice": [1, 1, 0, 1],
    "ssim_d0": [0.1, 0.4, 0.1, 0.5],
    "ssim_d1": [0.4, 0.1, 0.4, 0.6],
    "observer": ["p", "q", "q", "p"],
}


def message(table: Any) -> str:
    read = Triplets.read if isinstance(table, Path) else Triplets.from_frame
    with pytest.raises(DataError) as caught:
        read(table)
    return str(caught.value)


# --- what can be read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [dict, pl.DataFrame, pl.LazyFrame, pd.DataFrame, pa.table])
def test_any_frame_is_read(kind: Any) -> None:
    table = Triplets.from_frame(kind(GOOD))
    assert table.n.tolist() == [1, 0, 3]
    assert table.M.tolist() == [2, 1, 3]
    assert table.d0.tolist() == [0.1, 0.2, 0.3]
    assert table.n.dtype == table.M.dtype == np.int64


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet"])
def test_files_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    frame = pl.DataFrame(GOOD | {"group": ["a, b", "c", "c"]})
    if name.endswith(".parquet"):
        frame.write_parquet(path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    else:
        frame.write_csv(path, separator="\t" if name.endswith(".tsv") else ",")
    table = Triplets.read(path)
    assert table.to_frame().equals(Triplets.from_frame(frame).to_frame())
    assert table.labels["group"].to_list() == ["a, b", "c", "c"]


def test_a_csv_may_have_semicolons_spaces_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffn; M; d0; d1\n1; 2; 0.1; 3e-1\n".encode())
    table = Triplets.read(path)
    assert (table.n.tolist(), table.M.tolist(), table.d1.tolist()) == ([1], [2], [0.3])


@pytest.mark.parametrize(
    "text",
    [
        "n,M,d0,d1\n1,2,0.1,0.2\n\n3,3,0.3,0.4\n\n",
        "\n\nn,M,d0,d1\n1,2,0.1,0.2\n3,3,0.3,0.4\n",
        "n,M,d0,d1,,\n1,2,0.1,0.2,,\n3,3,0.3,0.4,,\n",
        "n,M,d0,d1\r\n1,2,0.1,0.2\r\n3,3,0.3,0.4\r\n",
        "n,M,d0,d1\r1,2,0.1,0.2\r3,3,0.3,0.4",
        'n;M;d0;d1;"a,b"\n1;2;0.1;0.2;x\n3;3;0.3;0.4;y\n',
        'n,M,d0,d1,"a\nb"\n1,2,0.1,0.2,x\n3,3,0.3,0.4,y\n',
        '"n","M","d0","d1"\n"1","2","0.1","0.2"\n"3.0","3","3e-1","0.4"\n',
        "n\tM\td0\td1\ta,b\n1\t2\t0.1\t0.2\t\n3\t3\t0.3\t0.4\t\n",
        ",n,M,d0,d1\n0,1,2,0.1,0.2\n1,3,3,0.3,0.4\n",  # the index that pandas writes
    ],
)
def test_a_csv_may_be_written_in_many_ways(tmp_path: Path, text: str) -> None:
    path = tmp_path / "Votes.CSV"
    path.write_bytes(text.encode())
    table = Triplets.read(path)
    assert (table.n.tolist(), table.M.tolist()) == ([1, 3], [2, 3])
    assert (table.d0.tolist(), table.d1.tolist()) == ([0.1, 0.3], [0.2, 0.4])


def test_a_column_with_values_needs_a_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,M,d0,d1,\n1,2,0.1,0.2,x\n")
    assert message(path) == f"{path}: every column needs a name; column 5 of 5 has none"


def test_blank_lines_do_not_move_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,M,d0,d1\n1,2,0.1,0.2\n\n5,2,0.1,0.2\n")
    assert message(path) == f"{path}: n must lie in [0, M]; row 2 (line 4) has n=5, M=2 (1 of 2 rows)"


def test_choices_may_be_written_as_true_and_false(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("choice,d0,d1\nTrue,0.1,0.2\nfalse,0.1,0.2\n")
    assert Triplets.read(path).n.tolist() == [1, 0]


def test_sides_are_those_that_the_column_first_says() -> None:
    """Left is the image that was shown first; words for images and numbers mean the same wherever they were shown."""
    choice = ["left", "Right", "ArrowLeft", "arrowright", "x0", "x1", "0", "1"]
    d = {"d0": [0.1] * 8, "d1": [0.2] * 8}
    assert Triplets.from_frame({"choice": choice} | d).n.tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    for first, n in (("x0", [0, 1, 0, 1, 0, 1, 0, 1]), ("x1", [1, 0, 1, 0, 0, 1, 0, 1])):
        assert Triplets.from_frame({"choice": choice, "first": [first] * 8} | d).n.tolist() == n
    unknown = {"choice": choice, "first": [None, "left", "x0", 3, "", "b", "x1", "x1"]}
    assert Triplets.from_frame(unknown | d).n.tolist() == [0, 1, 0, 1, 0, 1, 0, 1]


def test_unusual_columns_of_frames_are_read_or_refused() -> None:
    frame = pd.DataFrame(GOOD)
    assert message(frame.assign(n=pd.array([1, None, 3], dtype="Int64"))) == (
        "n must not be missing; row 1 has no n (1 of 3 rows)"
    )
    assert Triplets.from_frame(frame.assign(n=pd.array([1, 0, 3], dtype="Int64"))).n.tolist() == [1, 0, 3]
    assert len(Triplets.from_frame(frame.assign(**{"group": pd.Categorical(["a", "b", "a"])}))) == 3
    frame[0] = 7
    assert len(Triplets.from_frame(frame)) == 3
    arrow = pa.table(GOOD | {"group": pa.array(["a", "b", "a"]).dictionary_encode()})
    assert Triplets.from_frame(arrow).labels["group"].to_list() == ["a", "b", "a"]
    assert len(Triplets.from_frame(arrow.to_batches()[0])) == 3
    decimals = pa.array([0, 1, 2]).cast(pa.decimal128(21, 2))
    assert Triplets.from_frame(arrow.set_column(2, "d0", decimals)).d0.tolist() == [0, 1, 2]


def test_whole_numbers_may_come_as_floats() -> None:
    table = Triplets.from_frame(pd.DataFrame(GOOD).astype(float))
    assert table.n.tolist() == [1, 0, 3]


def test_a_wide_table_has_many_distances() -> None:
    table = Triplets.from_frame(GOOD | {"lpips_vgg_d0": [1, 2, 3], "lpips_vgg_d1": [3, 2, 1], "note": ["x", "y", "z"]})
    assert list(table.distances) == ["distance", "lpips_vgg"]
    assert table["lpips_vgg"].d1.tolist() == [3, 2, 1]
    with pytest.raises(
        ValueError, match=r"the table has 2 distances; choose one, table\[NAME\], of distance, lpips_vgg"
    ):
        _ = table.d0
    with pytest.raises(DataError, match="no distance 'ssim' in the table; it has distance, lpips_vgg"):
        _ = table["ssim"]


def test_rows_are_numbered_where_the_table_does_not_name_them() -> None:
    assert Triplets.from_frame(GOOD).labels["triplet"].to_list() == ["0", "1", "2"]
    assert Triplets.from_frame(GOOD | {"triplet": [7, 8, 9]}).labels["triplet"].to_list() == ["7", "8", "9"]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"n": [1, 2, 3]}, "n must lie in [0, M]; row 1 has n=2, M=1 (1 of 3 rows)"),
        ({"n": [-1, 0, -2]}, "n must lie in [0, M]; row 0 has n=-1, M=2 (2 of 3 rows)"),
        ({"n": [1, 0.5, 3]}, "n must be a whole number; row 1 has n=0.5 (1 of 3 rows)"),
        ({"n": [1, None, 3]}, "n must not be missing; row 1 has no n (1 of 3 rows)"),
        ({"n": ["1", "", "3"]}, "n must not be missing; row 1 has no n (1 of 3 rows)"),
        ({"n": [1, float("inf"), 3]}, "n must be a whole number; row 1 has n=inf (1 of 3 rows)"),
        ({"M": [2, 1, 0]}, "M must be at least 1; row 2 has M=0 (1 of 3 rows)"),
        ({"M": [2, None, None]}, "M must not be missing; row 1 has no M (2 of 3 rows)"),
        ({"d0": [0.1, float("nan"), 0.3]}, "d0 must be finite; row 1 has d0=nan (1 of 3 rows)"),
        ({"d1": [0.1, 0.2, -float("inf")]}, "d1 must be finite; row 2 has d1=-inf (1 of 3 rows)"),
        ({"d1": [0.1, None, 0.2]}, "d1 must not be missing; row 1 has no d1 (1 of 3 rows)"),
        ({"d1": ["0.1", " ", "0.2"]}, "d1 must not be missing; row 1 has no d1 (1 of 3 rows)"),
        ({"M": [2, 1, 1e300]}, "M must be a number of votes; row 2 has M=1e+300 (1 of 3 rows)"),
        ({"ref": [["a"], ["b"], ["c"]]}, "ref must be text or numbers; the column has type List(String)"),
        (
            {"distance_d0": [1, 2, 3], "distance_d1": [1, 2, 3]},
            "two distances are called distance: d0 and distance_d0; rename one",
        ),
        ({"d0": ["0.1", "abc", "0.3"]}, "d0 must be a number; row 1 has d0='abc' (1 of 3 rows)"),
        ({"M": ["2", "one", "two"]}, "M must be a number; row 1 has M='one' (2 of 3 rows)"),
        ({"ref": ["a", None, "b"]}, "ref must not be missing; row 1 has no ref (1 of 3 rows)"),
        (
            {"group": ["a", "all", "mean"]},
            "a group must not be named all or mean (names of summary rows); row 1 has group='all' (2 of 3 rows)",
        ),
        ({"_d0": [1, 2, 3]}, "a distance needs a name before its _d0 or _d1; found the column _d0"),
        ({"ssim_d0": [1, 2, 3]}, "a distance needs both of its columns; ssim_d0 has no partner ssim_d1"),
        ({"ssim_d1": [1, 2, 3]}, "a distance needs both of its columns; ssim_d1 has no partner ssim_d0"),
        ({"choice": [1, 0, 1]}, "a table has n and M, or choice; found choice and n and M"),
        ({"n": [1, 0]}, "columns must have one length; found {'n': 2, 'M': 3, 'd0': 3, 'd1': 3}"),
    ],
)
def test_a_broken_table_is_refused_with_rule_row_value_and_count(changed: dict[str, Any], expected: str) -> None:
    assert message(GOOD | changed) == expected


def test_missing_columns_are_named() -> None:
    assert message({"d0": [1.0], "d1": [1.0], "n": [1]}) == (
        "missing column M; a table has n and M, or choice; found d0, d1, n"
    )
    assert message({"d0": [1.0], "d1": [1.0]}) == (
        "missing columns n and M; a table has n and M, or choice; found d0, d1"
    )
    assert message({"n": [1], "M": [1], "d": [1.0]}) == (
        "no distance in the table; expected columns d0 and d1, or NAME_d0 and NAME_d1; found n, M, d; "
        "NAME_d is a distance of pairs: see Pairs"
    )


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    assert message({name: [] for name in GOOD}) == "the table has no rows"
    path = tmp_path / "t.csv"
    path.write_text("n,M,d0,d1\n")
    assert message(path) == f"{path}: the table has no rows"
    path.write_text("")
    assert message(path) == f"{path}: the file is empty; expected a header and rows"


def test_duplicate_column_names_are_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, 2, 0.1, 0.2, 0.3]], columns=["n", "M", "d0", "d1", "d0"])
    assert message(frame) == "column names must differ; d0 is the name of 2 columns"
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    assert message(path) == f"{path}: column names must differ; d0 is the name of 2 columns"


def test_a_csv_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,M,d0,d1\n1,2,0.1,0.2\n1,2,0.1,x\n")
    assert message(path) == f"{path}: d1 must be a number; row 1 (line 3) has d1='x' (1 of 2 rows)"
    # A line break inside a cell moves the lines: only the row is told then.
    path.write_text('n,M,d0,d1,group\n1,2,0.1,0.2,"a\nb"\n1,2,0.1,x,c\n')
    assert message(path) == f"{path}: d1 must be a number; row 1 has d1='x' (1 of 2 rows)"


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"no such file: {tmp_path / 'none.csv'}"):
        Triplets.read(tmp_path / "none.csv")
    for name, content, start in (
        ("t.parquet", b"PAR1 but no more", "not a readable Parquet file: "),
        ("t.csv", b"n,M,d0,d1\n1,2,3,4,5\n", "not a readable CSV file: "),
        ("t.csv", b"n,M,d0,d1\n1,2,3,\xff", "not a readable CSV file: "),
        (
            "t.csv",
            "n,M\n".encode("utf-16"),
            'a table must be text in UTF-8; found UTF-16: save it again as "CSV UTF-8"',
        ),
        ("t.csv", "n,M\n".encode("utf-16-be"), "a table must be text in UTF-8; found UTF-16: "),
        ("t.csv", b"n" * 200_000, "a table must begin with the names of its columns; field larger than field limit"),
        ("t.xlsx", b"x", "a table must be one of .csv, .csv.gz, .tsv, .parquet, .pq; found t.xlsx"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError) as caught:
            Triplets.read(tmp_path / name)
        assert str(caught.value).removeprefix(f"{tmp_path / name}: ").startswith(start)
        assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match="a table must be a path or a pandas, polars or arrow frame; found int"):
        Triplets.from_frame(7)
    with pytest.raises(DataError, match="d0 must be a number; the column has type Date"):
        Triplets.from_frame(pl.DataFrame(GOOD).with_columns(d0=pl.date(2020, 1, 1)))


# --- votes ------------------------------------------------------------------------------------------------------------


def test_votes_are_merged_over_repeats_and_swaps() -> None:
    table = Triplets.from_frame(VOTES)
    # Two votes as shown (1, 0) and one swapped (1, so x0 of the first orientation).
    assert table.n.tolist() == [1, 1]
    assert table.M.tolist() == [3, 1]
    assert table.labels.rows() == [("0", "r", "a", "b"), ("1", "s", "a", "b")]
    assert table.d0.tolist() == [0.1, 0.5]
    assert table.votes is not None
    assert table.votes.rows() == [(0, 1, False, "p"), (0, 1, True, "q"), (0, 0, False, "q"), (1, 1, False, "p")]


def test_votes_on_quadruples_are_merged() -> None:
    table = Triplets.from_frame(
        {
            "ref0": ["a", "c", "a"],
            "x0": ["b", "d", "bc"],
            "ref1": ["c", "a", "c"],
            "x1": ["d", "b", "d"],
            "choice": [True, True, False],
            "d0": [1, 2, 3],
            "d1": [2, 1, 3],
        }
    )
    assert table.n.tolist() == [1, 0]
    assert table.M.tolist() == [2, 1]
    assert table.labels.columns == ["triplet", "ref0", "x0", "ref1", "x1"]


def test_votes_are_merged_by_name_within_groups_or_not_at_all() -> None:
    votes = {"choice": [1, 0, 1], "d0": [1.0, 1.0, 1.0], "d1": [2.0, 2.0, 2.0]}
    assert Triplets.from_frame(votes).M.tolist() == [1, 1, 1]
    assert Triplets.from_frame(votes | {"triplet": ["a", "a", "b"]}).M.tolist() == [2, 1]
    grouped = Triplets.from_frame(votes | {"triplet": ["a", "a", "a"], "group": ["g", "h", "g"]})
    assert (grouped.n.tolist(), grouped.M.tolist()) == ([2, 0], [2, 1])


def test_votes_on_one_triplet_must_have_one_reference() -> None:
    votes = {"choice": [1, 0, 1], "d0": [1.0, 1.0, 1.0], "d1": [2.0, 2.0, 2.0], "triplet": ["a", "a", "b"]}
    assert Triplets.from_frame(votes | {"ref": ["r", "r", "s"]}).M.tolist() == [2, 1]
    assert message(votes | {"ref": ["r", "s", "s"]}) == (
        "votes on one triplet must have the same ref; row 1 has 's', not 'r' (1 of 3 rows)"
    )


def test_votes_on_one_triplet_must_agree_on_its_distances() -> None:
    assert message(VOTES | {"ssim_d1": [0.4, 0.1, 0.45, 0.6]}) == (
        "votes on one triplet must have the same distances (ssim); "
        "row 2 has (0.1, 0.45), row 0 (0.1, 0.4) (1 of 4 rows)"
    )
    assert message(VOTES | {"ssim_d1": [0.4, 0.4, 0.4, 0.6]}).startswith("votes on one triplet must have the same")
    nearly = Triplets.from_frame(VOTES | {"ssim_d0": [0.0, 0.4, 1e-17, 0.5], "ssim_d1": [0.4, 0.0, 0.4, 0.6]})
    assert nearly.M.tolist() == [3, 1]


def test_a_choice_is_zero_or_one() -> None:
    assert message(VOTES | {"choice": [1, 2, 0, 1]}) == "choice must be 0 or 1; row 1 has choice=2 (1 of 4 rows)"


@given(st.lists(st.tuples(st.sampled_from("rs"), st.permutations("abc"), st.booleans()), min_size=1, max_size=30))
def test_merging_loses_no_vote_and_keeps_who_was_chosen(shown: list[tuple[str, list[str], bool]]) -> None:
    distance = {"a": 1.0, "b": 2.0, "c": 3.0}
    frame = {
        "ref": [ref for ref, _, _ in shown],
        "x0": [x[0] for _, x, _ in shown],
        "x1": [x[1] for _, x, _ in shown],
        "choice": [int(second) for _, _, second in shown],
        "d0": [distance[x[0]] for _, x, _ in shown],
        "d1": [distance[x[1]] for _, x, _ in shown],
    }
    table = Triplets.from_frame(frame)
    assert table.M.sum() == len(shown)
    assert len(table) == len({(ref, frozenset(x[:2])) for ref, x, _ in shown})
    chosen: dict[tuple[str, str, str], int] = {}
    for ref, x, second in shown:
        key = (ref, *sorted(x[:2]))
        chosen[key] = chosen.get(key, 0) + (x[1 if second else 0] == key[2])
    for row in table.to_frame().iter_rows(named=True):
        low, high = sorted((row["x0"], row["x1"]))
        for_high = row["n"] if row["x1"] == high else row["M"] - row["n"]
        assert for_high == chosen[row["ref"], low, high]


# --- what a table can do ----------------------------------------------------------------------------------------------


def test_mirrored_twice_is_the_same_table() -> None:
    table = Triplets.from_frame(VOTES)
    mirror = table.mirrored()
    assert mirror.n.tolist() == [2, 0]
    assert mirror.labels["x0"].to_list() == ["b", "b"]
    assert mirror.d0.tolist() == [0.4, 0.6]
    again = mirror.mirrored()
    assert again.to_frame().equals(table.to_frame())
    assert again.votes is not None
    assert again.votes.equals(table.votes)


def test_where_keeps_rows_and_their_votes() -> None:
    table = Triplets.from_frame(VOTES)
    kept = table.where([False, True])
    assert kept.labels["ref"].to_list() == ["s"]
    assert kept.votes is not None
    assert kept.votes.rows() == [(0, 1, False, "p")]
    turned = table.where([1, 0])
    assert turned.n.tolist() == [1, 1]
    assert turned.M.tolist() == [1, 3]
    assert turned.votes is not None
    assert turned.votes["row"].to_list() == [1, 1, 1, 0]


def test_codes_number_the_labels_in_order() -> None:
    table = random_table(4, group=["b", "a", "b", "c"])
    assert table.codes("group")[0] == ["a", "b", "c"]
    assert table.codes("group")[1].tolist() == [1, 0, 1, 2]


def test_a_table_cannot_be_changed() -> None:
    table = Triplets.from_frame(GOOD)
    with pytest.raises(ValueError, match="read-only"):
        table.n[0] = 5


def test_reading_does_not_freeze_the_users_own_arrays() -> None:
    mine = np.array([0.1, 0.2, 0.3])
    Triplets.from_frame(GOOD | {"d0": mine})
    mine[0] = 7.0
    frame = pl.DataFrame(GOOD)
    table = Triplets.from_frame(frame)
    assert table.d0.tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_written_table_reads_back_the_same(tmp_path: Path, name: str) -> None:
    table = random_table(50, group=["g"] * 50)
    table.write(tmp_path / name)
    assert Triplets.read(tmp_path / name).to_frame().equals(table.to_frame())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(ValueError, match=r"a table is written as \.csv or \.parquet; found t\.txt"):
        table.write(tmp_path / "t.txt")


def test_the_real_votes_are_read(material: tuple[Triplets, Triplets]) -> None:
    train, test = material
    assert len(train) == 22_801
    assert len(test) == 3_000
    assert train.M.sum() + test.M.sum() == 104_692
    assert len(train.distances) == 10


def test_the_clic_answers_merge_as_known(shared: Path) -> None:
    answers = pl.read_csv(
        shared / "data" / "clic2021" / "oracle.csv", has_header=False, new_columns=["ref", "x0", "x1", "choice"]
    )
    table = Triplets.from_frame(answers.with_columns(d0=pl.lit(1.0), d1=pl.lit(1.0)))
    assert len(answers) == 5_220
    assert len(table) == 4_812
    assert np.bincount(table.M)[1:].tolist() == [4550, 192, 45, 10, 2, 2, 3, 5, 2, 1]


def test_judgements_of_difference_scaling_are_told_where_to_go() -> None:
    told = message({"Response": [1], "S1": [1], "S2": [2], "S3": [3], "S4": [4], "d0": [1.0], "d1": [1.0]})
    assert told.endswith("; judgements of difference scaling are read by twoafc.datasets.read_quadruples")


# --- study exports ----------------------------------------------------------------------------------------------------

STUDY = {
    "participant": ["p1", "p2", "p1"],
    "rt": [812, 644, 1020],
    "reference": ["r", "r", "s"],
    "x0": ["a", "a", "a"],
    "x1": ["b", "b", "b"],
    "response": ["left", "Right", " right"],
    "ssim_d0": [0.1, 0.1, 0.5],
    "ssim_d1": [0.4, 0.4, 0.6],
}
NAMES = {"participant": "observer", "reference": "ref", "response": "choice"}


def test_an_export_is_read_under_its_own_names(tmp_path: Path) -> None:
    table = Triplets.from_frame(STUDY, rename=NAMES)
    assert (table.n.tolist(), table.M.tolist()) == ([1, 1], [2, 1])
    assert table.votes is not None
    assert table.votes["observer"].to_list() == ["p1", "p2", "p1"]
    pl.DataFrame(STUDY).write_csv(tmp_path / "study.csv")
    assert Triplets.read(tmp_path / "study.csv", rename=NAMES).n.tolist() == [1, 1]
    assert as_votes(tmp_path / "study.csv", rename=NAMES).n.tolist() == [1, 1]


@pytest.mark.parametrize(
    "answers",
    [("0", "1"), ("x0", "x1"), ("left", "right"), ("A", "B"), ("ArrowLeft", "ArrowRight"), ("false", "TRUE"), (0, 1)],
)
def test_answers_as_studies_write_them(answers: tuple[Any, Any]) -> None:
    table = Triplets.from_frame({"choice": [*answers, answers[1]], "d0": [0.1, 0.2, 0.3], "d1": [0.3, 0.2, 0.1]})
    assert table.n.tolist() == [0, 1, 1]


def test_all_that_is_missing_is_named_at_once_with_the_likely_columns() -> None:
    assert message({name: STUDY[name] for name in ("participant", "rt", "response")}) == (
        "no distance and no n and M (or choice) in the table; expected columns d0 and d1, or NAME_d0 and NAME_d1; "
        "found participant, rt, response; perhaps --rename participant=observer --rename response=choice"
    )
    assert message(STUDY) == (
        "missing columns n and M; a table has n and M, or choice; found participant, rt, reference, x0, x1, response, "
        "ssim_d0, ssim_d1; perhaps --rename participant=observer --rename reference=ref --rename response=choice"
    )
    assert message({"ref": ["r"], "x0": ["a"], "x1": ["b"], "n": [1], "M": [1]}) == (
        "no distance in the table; expected columns d0 and d1, or NAME_d0 and NAME_d1; found ref, x0, x1, n, M; "
        "twoafc measure computes distances of images"
    )


def test_a_wrong_renaming_is_refused() -> None:
    for rename, told in (
        ({"answer": "choice"}, "no column answer to rename to choice; found n, M, d0, d1"),
        ({"n": "M"}, "n cannot be renamed to M, which is another column of the table"),
    ):
        with pytest.raises(DataError) as caught:
            Triplets.from_frame(GOOD, rename=rename)
        assert str(caught.value) == told


def test_a_column_that_may_be_ours_and_is_not_used_is_mentioned() -> None:
    table = Triplets.from_frame(GOOD | {"Participant": ["p", "q", "r"], "rt": [1, 2, 3], "choices": [1, 1, 1]})
    assert table.unused == {"Participant": "observer"}
    (note,) = [str(finding) for finding in check(table) if finding.code == "unused"]
    assert note == (
        "note: train: the column Participant is not used; it may be what is called observer here; "
        "if so, add --rename Participant=observer"
    )
