"""CSV as people write it: counting takes and refuses the same files as reading does."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from counting import HEAD, ROWS, TAKEN, plainly, refusal
from twoafc import count
from twoafc.errors import DataError
from twoafc.table import Triplets

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask, of pandas that is newer than it


def write(text: str) -> None:
    Path("a.csv").write_bytes(text.encode())


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_what_memory_takes_is_taken(text: str) -> None:
    write(text)
    assert count("a.csv") == plainly(Triplets.read("a.csv").to_frame().drop("triplet"))


REFUSED = {
    "a cell that is empty": ("1,2,,.4", "d0 must not be missing; row 40 has no d0"),
    "a cell of quotes": ('1,2,"",.4', "d0 must not be missing; row 40 has no d0"),
    "too few cells": ("1,2,.3", "d1 must not be missing; row 40 has no d1"),
    "no number": ("1,2,NA,.4", "d0 must be a number; row 40 has d0='NA'"),
    "a thousand with a line": ("1,1_000,.3,.4", "M must be a number; row 40 has M='1_000'"),
    "a Java number": ("1,2,5f,.4", "d0 must be a number; row 40 has d0='5f'"),
    "a Fortran number": ("1,2,1d-1,.4", "d0 must be a number; row 40 has d0='1d-1'"),
    "a hexadecimal number": ("1,0x10,.3,.4", "M must be a number; row 40 has M='0x10'"),
    "not a number": ("1,2,nan,.4", "d0 must be finite; row 40 has d0=nan"),
    "too large a number": ("1,2,1e400,.4", "d0 must be finite; row 40 has d0=inf"),
    "a remark": ("# end,,,", "n must be a number; row 40 has n='# end'"),
    "a row after a blank line": ("\n1,2,-1,.4", "d0 must be at least 0 to be counted; row 41 has d0=-1.0"),
}


@pytest.mark.parametrize(("row", "told"), REFUSED.values(), ids=REFUSED)
def test_what_memory_refuses_is_refused(row: str, told: str) -> None:
    write(f"{HEAD}{ROWS}{row}\n")
    assert refusal("a.csv") == f"a.csv: {told} (1 of 41 rows)"
    if "to be counted" not in told:
        with pytest.raises(DataError, match=r"^a\.csv: "):
            Triplets.read("a.csv")


def test_rows_with_more_values_than_columns_are_refused() -> None:
    write(f"{HEAD}1,2,.3,.4,9\n{ROWS}")
    assert refusal("a.csv") == ("a.csv: a row must not have more values than there are columns; row 0 has 5")
    write(f"{HEAD}{ROWS}1,2,.3,.4,9\n")
    assert refusal("a.csv").startswith("a.csv: not a readable CSV file: found more fields")
    write("")
    assert refusal("a.csv") == "a.csv: the file is empty; expected a header and rows"


def test_a_column_of_text_in_a_frame_is_read_like_one_of_a_file() -> None:
    text = {"choice": ["true", " False "], "triplet": ["a", "a"], "d0": ["0.1", "0.1"], "d1": [0.2, 0.2]}
    frame = pl.LazyFrame(text)
    assert count(frame) == plainly(Triplets.from_frame(frame.collect()).to_frame())


def test_a_packed_file_that_is_cut_short_is_named() -> None:
    packed = gzip.compress((HEAD + ROWS * 50).encode())
    Path("a.csv.gz").write_bytes(packed[: len(packed) // 2])
    assert refusal("a.csv.gz").startswith("a.csv.gz: ")


def test_a_name_with_a_line_break_is_one_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('n,"my\n""own"" M",M,d0,d1\n1,x,2,0.1,0.2\n0,y,2,0.3,0.1\n')
    assert Triplets.read(path).M.tolist() == [2, 2]
    assert count(path)["distance"].votes == 4
