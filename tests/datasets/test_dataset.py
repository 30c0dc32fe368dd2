"""What every data set promises, and how its layout is recognised."""

from __future__ import annotations

import hashlib
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import trees
from twoafc.datasets import Dataset, open_dataset
from twoafc.errors import DataError
from twoafc.table import Triplets


def folder_of_all(root: Path) -> dict[str, Path]:
    """One small tree of each layout."""
    for name in ("clic", "nights", "table"):
        (root / name).mkdir()
    trees.write_bapps(root / "bapps")
    trees.write_jnd(root / "jnd")
    trees.write_nights(root / "nights")
    return {
        "bapps": root / "bapps",
        "bapps_jnd": root / "jnd",
        "clic": trees.write_clic(root / "clic"),
        "nights": root / "nights",
        "table": trees.write_table(root / "table"),
    }


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return folder_of_all(tmp_path_factory.mktemp("data"))


NAMES = ("bapps", "bapps_jnd", "clic", "nights", "table")


def message(action: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises((DataError, ValueError)) as caught:
        action(*arguments, **options)
    return str(caught.value)


# --- promises ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_layout_is_recognised_and_keeps_the_contract(layouts: dict[str, Path], name: str) -> None:
    data = open_dataset(layouts[name])
    assert data.name == name
    of_pairs = name == "bapps_jnd"
    assert data.pairs == ((("ref", "x", "d"),) if of_pairs else (("ref", "x0", "d0"), ("ref", "x1", "d1")))
    assert tuple(data.files) == data.roles
    assert {len(data), *map(len, data.files.values()), len(data.n), len(data.M)} == {len(data.table)}
    assert data.table["triplet"].dtype == pl.String
    assert data.table["triplet"].n_unique() == len(data) > 0
    assert (data.n >= 0).all()
    assert (data.n <= data.M).all()
    assert data.n.dtype == data.M.dtype == np.int64
    assert [name for name in ("triplet", *data.roles, "n", "M") if name not in data.table.columns] == []
    assert data.missing().is_empty()
    assert (data.group is None) == (name == "clic")


@pytest.mark.parametrize("name", NAMES)
def test_images_are_those_of_the_files(layouts: dict[str, Path], name: str) -> None:
    data = open_dataset(layouts[name])
    rows = [2, 0]
    batches = data.images(rows)
    assert len(batches) == len(data.roles)
    for role, batch in zip(data.roles, batches, strict=True):
        assert batch.dtype == np.float32
        for row, image in zip(rows, batch, strict=True):
            stored = np.asarray(Image.open(data.path(role, row)), dtype=np.float64) / 255
            assert np.array_equal(image, stored.transpose(2, 0, 1).astype(np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_can_be_pickled(layouts: dict[str, Path], name: str) -> None:
    data = open_dataset(layouts[name])
    copy = pickle.loads(pickle.dumps(data))
    assert copy.table.equals(data.table)
    assert copy.fingerprint() == data.fingerprint()
    assert len(pickle.dumps(data)) < 10_000


@pytest.mark.parametrize("name", [name for name in NAMES if name != "bapps_jnd"])
def test_the_table_needs_only_distances_to_be_a_table_of_votes(layouts: dict[str, Path], name: str) -> None:
    data = open_dataset(layouts[name])
    table = Triplets.from_frame(data.table.with_columns(d0=0.1, d1=0.2))
    assert np.array_equal(table.n, data.n)
    assert table.labels.equals(data.table.select(table.labels.columns))


def test_rows_can_be_chosen_by_mask_or_number(layouts: dict[str, Path]) -> None:
    data = open_dataset(layouts["table"])
    chosen = data.where([5, 1])
    assert chosen.table["triplet"].to_list() == ["t5", "t1"]
    assert chosen.files["x1"].to_list() == ["images/5-x1.png", "images/1-x1.png"]
    mask = data.group.to_numpy() == "a"  # type: ignore[union-attr]
    assert data.where(mask).table["triplet"].to_list() == ["t0", "t2", "t4", "t6"]
    assert [batch.shape for batch in data.images([])] == [(0, 3, 0, 0)] * 3


def test_the_fingerprint_does_not_depend_on_the_folder(layouts: dict[str, Path], tmp_path: Path) -> None:
    data = open_dataset(layouts["table"])
    moved = shutil.copytree(layouts["table"].parent, tmp_path / "moved")
    assert open_dataset(moved / "table.csv").fingerprint() == data.fingerprint()
    assert data.where(np.arange(len(data))[::-1]).fingerprint() != data.fingerprint()
    text = layouts["table"].read_text()
    (moved / "table.csv").write_text(text.replace("images/3-x0.png", "images/4-x0.png"))
    assert open_dataset(moved / "table.csv").fingerprint() != data.fingerprint()


def test_the_fingerprint_stays_the_same_from_version_to_version() -> None:
    files = {"ref": pl.Series(["a.png"]), "x": pl.Series(["b.png"])}
    table = pl.DataFrame({"triplet": ["0"], "ref": ["a"], "x": ["b"], "n": [1], "M": [3]})
    data = Dataset("table", Path("anywhere"), ("ref", "x"), files, table)
    text = "table ('ref', 'x')\ntriplet,ref,x,n,M,file ref,file x\n0,a,b,1,3,a.png,b.png\n"
    assert data.fingerprint() == hashlib.sha256(text.encode()).hexdigest()


# --- an image that cannot be used is named with its triplet -----------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return trees.write_table(tmp_path, 4, sizes=(32, 32, (32, 40)))


def test_missing_truncated_and_other_files(table: Path) -> None:
    folder = table.parent / "images"
    (folder / "1-x1.png").unlink()
    broken = folder / "0-ref.png"
    broken.write_bytes(broken.read_bytes()[:500])
    (folder / "3-x0.png").write_text("not an image")
    data = open_dataset(table)
    assert data.notes == (f"images of 1 of 4 rows are missing; triplet t1, x1: no such file: {folder / '1-x1.png'}",)
    assert data.missing().rows() == [("t1", "x1", "images/1-x1.png")]
    assert message(data.images, [1]) == f"triplet t1, x1: {folder / '1-x1.png'}: no such file"
    assert message(data.images, [0]) == (
        f"triplet t0, ref: {broken}: the image is truncated: the PNG ends before its last chunk"
    )
    assert message(data.images, [3]) == (
        f"triplet t3, x0: {folder / '3-x0.png'}: no image that can be read; "
        "expected PNG, JPEG, WEBP, TIFF, BMP, GIF or PPM"
    )


def test_images_of_one_batch_have_one_size(table: Path) -> None:
    data = open_dataset(table)
    folder = table.parent / "images"
    assert data.images([2])[0].shape == (1, 3, 32, 40)
    assert message(data.images, [0, 2]) == (
        f"images must have one size; triplet t2, ref: {folder / '2-ref.png'} is 32 x 40, "
        f"{folder / '0-ref.png'} is 32 x 32 (height x width)"
    )


# --- what cannot be a data set ----------------------------------------------------------------------------------------


def made(**changes: Any) -> Dataset:
    table = pl.DataFrame({"triplet": ["0", "1"], "ref": ["a", "b"], "x": ["c", "d"], "n": [1, 0], "M": [3, 3]})
    files = {"ref": table["ref"], "x": table["x"]}
    parts = {"name": "table", "folder": Path(), "roles": ("ref", "x"), "files": files, "table": table} | changes
    return Dataset(**parts)  # type: ignore[arg-type]


def test_a_data_set_is_checked_when_it_is_made() -> None:
    good = made()
    kinds = "('ref', 'x0', 'x1'), ('ref0', 'x0', 'ref1', 'x1'), ('ref', 'x')"
    assert repr(good) == "Dataset(table, 2 pairs, 6 votes)"
    assert message(made, roles=("x", "ref")) == (f"roles must be one of {kinds} and name the files; found ('x', 'ref')")
    assert message(made, table=good.table[:1]) == "the table and the files must have one length; found [1, 2]"
    assert message(made, table=good.table.drop("n")) == "the table needs the column n; it has triplet, ref, x, M"
    assert message(made, table=good.table.with_columns(triplet=pl.lit("0"))) == (
        "triplet must differ from row to row; '0' names 2 rows"
    )


def test_paths_without_a_data_set(tmp_path: Path, layouts: dict[str, Path]) -> None:
    assert message(open_dataset, tmp_path / "nothing") == f"no such file or folder: {tmp_path / 'nothing'}"
    (tmp_path / "photographs").mkdir()
    assert message(open_dataset, tmp_path) == (
        f"no data set in {tmp_path}; expected BAPPS (folders ref, p0, p1, judge, or p0, p1, same), NIGHTS (data.csv), "
        "CLIC (oracle.csv), or a table: give its file"
    )
    assert message(open_dataset, layouts["table"], split="val") == (
        f"{layouts['table']}, in the layout table, takes no option split; it takes folder, rename"
    )


def test_options_that_are_none_are_ignored(layouts: dict[str, Path]) -> None:
    for name in NAMES:
        assert len(open_dataset(layouts[name], split=None, folder=None, progress=print)) > 0
