"""Tables of images' paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import trees
from twoafc.datasets import open_dataset, open_table
from twoafc.datasets.dataset import count_votes
from twoafc.errors import DataError
from twoafc.table import Triplets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five small images, each in another format and size."""
    for number, name in enumerate(("a.png", "b.jpg", "c.bmp", "d.tiff", "sub/e.webp")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (8 + number, 9), (40 * number, 0, 7)).save(path)
    return tmp_path


def written(folder: Path, text: str, name: str = "votes.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def message(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        open_table(path, **options)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def test_triplets_with_counts(folder: Path) -> None:
    path = written(folder, "group,ref,x0,x1,n,M,extra\ng,a.png,b.jpg,c.bmp,1,3,q\nh,a.png,c.bmp,sub/e.webp,0,2,\n")
    data = open_dataset(path)
    assert data.table.columns == ["triplet", "group", "ref", "x0", "x1", "n", "M"]
    assert data.table.rows()[1] == ("1", "h", "a.png", "c.bmp", "sub/e.webp", 0, 2)
    assert data.path("x1", 1) == folder / "sub/e.webp"
    assert data.notes == ()
    assert data.missing().is_empty()


def test_parquet_and_a_folder_elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("votes") / "votes.parquet"
    pl.DataFrame({"ref": ["a.png"], "x0": ["b.jpg"], "x1": [str(folder / "c.bmp")], "n": [1], "M": [2]}).write_parquet(
        path
    )
    data = open_dataset(path, folder=folder)
    assert data.missing().is_empty()
    assert data.path("x1", 0) == folder / "c.bmp"


def test_paths_written_on_windows(folder: Path) -> None:
    data = open_table(written(folder, "ref,x0,x1,n,M\na.png, b.jpg ,sub\\e.webp,1,1\n"))
    assert data.files["x0"].to_list() == ["b.jpg"]
    assert data.files["x1"].to_list() == ["sub/e.webp"]
    assert data.missing().is_empty()


def test_choices_are_merged_and_observers_are_dropped_with_a_note(folder: Path) -> None:
    rows = ["ann,a.png,b.jpg,c.bmp,1", "bob,a.png,c.bmp,b.jpg,1", "ann,a.png,b.jpg,c.bmp,1", "bob,b.jpg,a.png,c.bmp,0"]
    path = written(folder, "\n".join(["observer,ref,x0,x1,choice", *rows]))
    data = open_table(path)
    assert data.table.rows() == [("0", "a.png", "b.jpg", "c.bmp", 2, 3), ("1", "b.jpg", "a.png", "c.bmp", 0, 1)]
    assert data.notes == (
        "4 votes on 2 triplets: repeats are merged, of which 1 was shown the other way round",
        "votes of 2 observers are counted together: who cast them is not kept",
    )


def test_counts_by_observer_are_not_merged(folder: Path) -> None:
    data = open_table(written(folder, "ref,x0,x1,n,M,observer\na.png,b.jpg,c.bmp,1,2,p\na.png,b.jpg,c.bmp,0,2,q\n"))
    assert data.table["observer"].to_list() == ["p", "q"]


def test_quadruples_and_pairs(folder: Path) -> None:
    data = open_dataset(written(folder, "ref0,x0,ref1,x1,n,M\na.png,b.jpg,c.bmp,d.tiff,1,2\n"))
    assert data.pairs == (("ref0", "x0", "d0"), ("ref1", "x1", "d1"))
    data = open_dataset(written(folder, "ref,x,n,M\na.png,b.jpg,1,3\n"))
    assert data.pairs == (("ref", "x", "d"),)
    assert data.table.rows() == [("0", "a.png", "b.jpg", 1, 3)]


def test_swapped_quadruples_are_merged(folder: Path) -> None:
    rows = ["a.png,b.jpg,c.bmp,d.tiff,1", "c.bmp,d.tiff,a.png,b.jpg,1"]
    data = open_dataset(written(folder, "\n".join(["ref0,x0,ref1,x1,choice", *rows])))
    assert data.table.rows() == [("0", "a.png", "b.jpg", "c.bmp", "d.tiff", 1, 2)]


def test_names_shared_by_groups_get_the_group_in_front(folder: Path) -> None:
    rows = ["7,g,a.png,b.jpg,c.bmp,1,1", "7,h,a.png,b.jpg,d.tiff,1,1"]
    data = open_table(written(folder, "\n".join(["triplet,group,ref,x0,x1,n,M", *rows])))
    assert data.table["triplet"].to_list() == ["g/7", "h/7"]
    assert data.notes == ("triplets are named GROUP/TRIPLET, because groups share names",)


def test_one_image_as_both_choices_is_noted(folder: Path) -> None:
    data = open_table(written(folder, "ref,x0,x1,n,M\na.png,b.jpg,b.jpg,1,2\na.png,b.jpg,c.bmp,1,2\n"))
    assert data.notes == ("1 of 2 rows show one image twice, as x0 and as x1",)


def test_distances_in_the_table_are_ignored(folder: Path) -> None:
    data = open_table(written(folder, "ref,x0,x1,n,M,d0,d1,ssim_d0,ssim_d1,extra\na.png,b.jpg,c.bmp,1,2,3,4,5,6,7\n"))
    assert data.table.columns == ["triplet", "ref", "x0", "x1", "n", "M"]
    assert data.notes == ("distances in the table are ignored: d0, d1, ssim_d0, ssim_d1",)


BAD = [
    ("name,n,M\na,1,2\n", "no images in the table; expected columns of paths, ref, x0, x1 (or ref0, x0, ref1, x1, or "
     "ref, x); found name, n, M"),
    ("ref,x0,x1\na.png,b.jpg,c.bmp\n", "missing columns n and M; a table has n and M, or choice; found ref, x0, x1"),
    ("ref,x,choice\na.png,b.jpg,1\n", "pairs (ref, x) need n, the votes for 'same', and M; found choice"),
    ("ref,x0,x1,n,M\n", "the table has no rows"),
    ("ref,x0,x1,n,M\na.png,b.jpg,c.bmp,3,2\n", "n must lie in [0, M]; row 0 (line 2) has n=3, M=2 (1 of 1 rows)"),
    ("ref,x0,x1,n,M\na.png,,c.bmp,1,2\n", "x0 must not be missing; row 0 (line 2) has no x0 (1 of 1 rows)"),
    ("ref,x,n,M\na.png,,1,2\n", "x must not be missing; row 0 (line 2) has no x (1 of 1 rows)"),
    ("triplet,ref,x0,x1,n,M\nt,a.png,b.jpg,c.bmp,1,2\nt,a.png,b.jpg,d.tiff,1,2\n",
     "triplet must differ from row to row; 't' names 2 rows"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), BAD)
def test_bad_tables(folder: Path, text: str, expected: str) -> None:
    assert message(written(folder, text)) == expected


def test_a_wrong_folder_is_reported(folder: Path) -> None:
    path = written(folder, "ref,x0,x1,n,M\na.png,b.jpg,c.bmp,1,2\n")
    assert message(path, folder=folder / "sub") == (
        f"none of the images is there; triplet 0, ref: no such file: {folder / 'sub' / 'a.png'}"
    )
    with pytest.raises(DataError, match=r"^no such file: .*nothing\.csv$"):
        open_table(folder / "nothing.csv")


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("rs"), st.sampled_from("ab"), st.sampled_from("abc"), st.integers(0, 1)), min_size=1
    )
)
def test_votes_are_counted_as_a_table_of_votes_counts_them(votes: list[tuple[str, str, str, int]]) -> None:
    ref, x0, x1, choice = map(list, zip(*votes, strict=True))
    labels = pl.DataFrame({"ref": ref, "x0": x0, "x1": x1})
    table, _ = count_votes(labels, np.array(choice))
    same = Triplets.from_frame(labels.with_columns(choice=pl.Series(choice), d0=0.5, d1=0.5))
    assert table.equals(same.to_frame().select(table.columns))


def test_difference_scaling_is_referred_to_read_quadruples(tmp_path: Path) -> None:
    path = tmp_path / "mlds.csv"
    path.write_text("Response,S1,S2,S3,S4\n1,1,2,3,4\n")
    with pytest.raises(DataError) as caught:
        open_dataset(path)
    assert str(caught.value) == (
        f"{path}: difference scaling (s1 to s4) has no images to measure; twoafc.datasets.read_quadruples(PATH) gives "
        "its table of n, M, d0, d1: write that to a file, which evaluate reads"
    )


def test_names_without_extensions(tmp_path: Path) -> None:
    path = trees.write_table(tmp_path, 3)
    frame = pl.read_csv(path).with_columns(pl.col("x0").str.strip_suffix(".png"))
    frame.write_csv(path)
    data = open_dataset(path)
    assert data.files["x0"].to_list() == [f"images/{number}-x0.png" for number in range(3)]
    assert data.table["x0"].to_list() == [f"images/{number}-x0" for number in range(3)]
    assert data.notes == ("3 images are named without extensions: images/0-x0 is read as images/0-x0.png",)
    assert len(data.missing()) == 0
    (tmp_path / "images" / "1-x0.jpg").touch()
    with pytest.raises(DataError) as caught:
        open_dataset(path)
    assert str(caught.value) == (
        f"{path}: an image must be one file; images/1-x0 may be 1-x0.jpg or 1-x0.png: add the extension"
    )
    # A file of that very name is the one that is meant.
    (tmp_path / "images" / "1-x0").touch()
    assert open_dataset(path).files["x0"][1] == "images/1-x0"
