"""BAPPS: 2AFC and JND, paired by stem and never by position."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import trees
from twoafc.datasets import Dataset, open_bapps, open_bapps_jnd, open_dataset
from twoafc.errors import DataError

ALL = {"train": ("cnn", "mix", "traditional"), "val": ("cnn", "color", "superres")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    trees.write_bapps(tmp_path)
    return tmp_path


def message(path: Path, **options: Any) -> str:
    with pytest.raises((DataError, ValueError)) as caught:
        open_bapps(path, **options)
    return str(caught.value)


def as_written(data: Dataset) -> list[tuple[Any, ...]]:
    return data.table.select("triplet", "n", "M").rows()


# --- what is read -----------------------------------------------------------------------------------------------------


def test_all_splits_are_read_as_written(tmp_path: Path) -> None:
    written = trees.write_bapps(tmp_path, 4, subsets=ALL)
    data = open_dataset(tmp_path)
    assert (data.name, len(data)) == ("bapps", 24)
    assert as_written(data) == written.sort("triplet").rows()
    assert data.table["group"].unique(maintain_order=True).to_list() == [
        "train/cnn", "train/mix", "train/traditional", "val/cnn", "val/color", "val/superres",
    ]  # fmt: skip
    assert data.notes == ("opened as one: the splits train and val; groups are named SPLIT/SUBSET",)
    assert data.table.row(13) == (
        "val/cnn/000001", "val/cnn", "val/cnn/ref/000001", "val/cnn/p0/000001", "val/cnn/p1/000001", data.n[13], 5,
    )  # fmt: skip
    assert data.path("x0", 13) == tmp_path / "2afc/val/cnn/p0/000001.png"


@pytest.mark.parametrize("inside", ["", "2afc", "2afc/val", "2afc/val/color"])
def test_it_may_be_opened_at_any_level(root: Path, inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = open_dataset(root / inside)
    color = data.where(data.group == "color")  # type: ignore[arg-type]
    assert color.table["triplet"].to_list() == [f"val/color/{number:06d}" for number in range(3)]
    assert data.missing().is_empty()
    monkeypatch.chdir(root / inside)
    here = open_dataset(".")
    assert here.table.equals(data.table)
    assert here.missing().is_empty()


def test_a_split_can_be_chosen(tmp_path: Path) -> None:
    trees.write_bapps(tmp_path, 2, subsets=ALL)
    data = open_dataset(tmp_path, split="train")
    assert set(data.M) == {2}
    assert data.table["group"].unique().sort().to_list() == ["cnn", "mix", "traditional"]
    assert message(tmp_path, split="test") == f"no split test in {tmp_path}; it has train, val"


def test_jnd_is_pairs(tmp_path: Path) -> None:
    written = trees.write_jnd(tmp_path, 4, subsets=("cnn", "traditional"))
    for inside in ("", "jnd", "jnd/val"):
        data = open_dataset(tmp_path / inside)
        assert (data.name, data.pairs) == ("bapps_jnd", (("ref", "x", "d"),))
        assert as_written(data) == written.rows()
    assert data.path("x", 7) == tmp_path / "jnd/val/traditional/p1/000003.png"


def test_2afc_and_jnd_side_by_side(tmp_path: Path) -> None:
    trees.write_bapps(tmp_path)
    trees.write_jnd(tmp_path)
    assert open_dataset(tmp_path).name == "bapps"
    assert len(open_bapps(tmp_path)) == 6
    assert len(open_bapps_jnd(tmp_path)) == 3
    assert open_dataset(tmp_path / "jnd").name == "bapps_jnd"


@pytest.mark.parametrize("junk", ["Thumbs.db", ".DS_Store", "._000001.png", "desktop.ini"])
def test_files_of_operating_systems_are_ignored(root: Path, junk: str) -> None:
    before = open_dataset(root)
    for folder in root.rglob("*"):
        if folder.is_dir():
            (folder / junk).write_bytes(b"junk")
    assert open_dataset(root).table.equals(before.table)


def test_images_in_another_format(root: Path) -> None:
    path = root / "2afc/val/cnn/p1/000001.png"
    Image.open(path).save(path.with_suffix(".bmp"))
    path.unlink()
    data = open_dataset(root)
    assert data.files["x1"][1] == "2afc/val/cnn/p1/000001.bmp"


def test_progress_is_reported(root: Path) -> None:
    calls: list[tuple[int, int, str]] = []
    open_dataset(root, progress=lambda *call: calls.append(call))
    assert calls == [(0, 6, "votes of cnn"), (3, 6, "votes of color"), (6, 6, "votes")]


# --- pairing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ref", "p0", "p1", "judge"])
def test_a_missing_stem_is_reported(root: Path, name: str) -> None:
    folder = root / "2afc/val/cnn"
    ending = "npy" if name == "judge" else "png"
    (folder / name / f"000001.{ending}").unlink()
    other = folder / ("p0/000001.png" if name == "ref" else "ref/000001.png")
    assert message(root) == (
        f"every stem must be in each folder; {other} has no partner in {folder / name} (1 of 3 stems are missing there)"
    )


def test_an_additional_stem_is_reported(root: Path) -> None:
    folder = root / "2afc/val/color"
    for stem in ("000007", "000008"):
        shutil.copy(folder / "p1/000000.png", folder / f"p1/{stem}.png")
    assert message(root) == (
        f"every stem must be in each folder; {folder / 'p1/000007.png'} has no partner in {folder / 'ref'} "
        "(2 of 5 stems are missing there)"
    )


def test_gaps_in_the_numbers_do_not_shift_what_follows(root: Path) -> None:
    folder = root / "2afc/val/cnn"
    whole = open_dataset(root)
    for name in ("ref", "p0", "p1", "judge"):
        (folder / name / f"000000.{'npy' if name == 'judge' else 'png'}").unlink()
    data = open_dataset(root)
    assert data.table.equals(whole.table[1:])


@pytest.mark.parametrize("name", ["ref", "p0", "judge"])
def test_a_subset_without_one_of_its_folders(root: Path, name: str) -> None:
    folder = root / "2afc/val/color"
    shutil.rmtree(folder / name)
    assert message(root) == f"a BAPPS subset has the folders ref, p0, p1, judge; {folder} has no {name}"


def test_jnd_without_votes_beside_one_that_has_them(tmp_path: Path) -> None:
    trees.write_jnd(tmp_path, 2, subsets=("cnn", "traditional"))
    folder = tmp_path / "jnd/val/cnn"
    shutil.rmtree(folder / "same")
    with pytest.raises(DataError) as caught:
        open_bapps_jnd(tmp_path)
    assert str(caught.value) == f"a BAPPS subset has the folders p0, p1, same; {folder} has no same"


@pytest.mark.parametrize(("name", "endings"), [("p0", ".png or .jpg or "), ("judge", ".npy")])
def test_an_unexpected_file_is_reported(root: Path, name: str, endings: str) -> None:
    path = root / "2afc/val/cnn" / name / "readme.txt"
    path.write_text("hello")
    assert message(root).startswith(f"unexpected file: {path}; expected names that end in {endings}")


def test_two_files_of_one_stem(root: Path) -> None:
    folder = root / "2afc/val/cnn/p0"
    shutil.copy(folder / "000000.png", folder / "000000.bmp")
    assert message(root) == f"a stem must be one file; {folder} has 000000.bmp and 000000.png"


def test_an_empty_subset(root: Path) -> None:
    folder = root / "2afc/val/cnn"
    for name in ("ref", "p0", "p1", "judge"):
        shutil.rmtree(folder / name)
        (folder / name).mkdir()
    assert message(root) == f"no files in {folder / 'ref'}"


def test_no_subset(tmp_path: Path) -> None:
    assert message(tmp_path) == (
        f"no BAPPS subset in {tmp_path}; expected the folders ref, p0, p1, judge, in it or below"
    )


# --- votes ------------------------------------------------------------------------------------------------------------


def votes_file(root: Path) -> Path:
    return root / "2afc/val/cnn/judge/000001.npy"


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, np.float32(0.6), np.float16(0.6), np.array([0.4]), 1])
def test_shares_are_counted(root: Path, share: Any) -> None:
    np.save(votes_file(root), np.asarray(share))
    assert open_dataset(root).n[1] == round(float(np.asarray(share).item()) * 5)


@pytest.mark.parametrize("share", [0.3, 0.6004, -0.2, 1.2, np.nan, np.inf])
def test_shares_that_are_not_multiples_of_1_over_M(root: Path, share: float) -> None:
    np.save(votes_file(root), np.array([share]))
    assert message(root) == (
        f"votes must be a share of M = 5 people; triplet val/cnn/000001 has {share:g} in {votes_file(root)} "
        "(1 of 3 files)"
    )


class Trap:
    """What a pickle could do to whoever reads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("sprung",))


def bad_votes() -> dict[str, tuple[bytes, str]]:
    def saved(array: Any, **options: Any) -> bytes:
        import io

        stream = io.BytesIO()
        np.save(stream, array, **options)
        return stream.getvalue()

    good = saved(np.array([0.4]))
    return {
        "two numbers": (saved(np.array([0.4, 0.6])), "expected one number; found shape (2,) of float64"),
        "text": (saved(np.array("0.4")), "expected one number; found shape () of <U3"),
        "complex": (saved(np.array([0.4j])), "expected one number; found shape (1,) of complex128"),
        "pickle": (saved(np.array([Trap()]), allow_pickle=True), "expected one number; found shape (1,) of object"),
        "bare pickle": (pickle.dumps(Trap()), "not a .npy file of version 1.0"),
        "empty": (b"", "not a .npy file of version 1.0"),
        "truncated": (good[:-3], "5 bytes where one float64 has 8"),
        "too long": (good + b"\0", "9 bytes where one float64 has 8"),
        "header cut": (good[:40], "EOF: reading array header, expected 118 bytes got 30"),
    }


@pytest.mark.parametrize("kind", bad_votes())
def test_votes_that_cannot_be_read(root: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    content, reason = bad_votes()[kind]
    votes_file(root).write_bytes(content)
    assert message(root) == (
        f"votes must be one number in a .npy file; triplet val/cnn/000001: {votes_file(root)}: {reason}"
    )
    assert not (root / "sprung").exists()


def test_the_number_of_judges_must_be_known(root: Path) -> None:
    moved = (root / "2afc/val").rename(root / "2afc/mine")
    assert message(root) == (
        f"the number of judges follows from the folder train (2) or val (5); {moved / 'cnn'}"
        " is in 'mine': give M (--M of the command)"
    )
    assert set(open_dataset(root, M=5).M) == {5}
    assert message(root, M=0) == "M must be at least 1; found 0"


def test_subsets_at_unequal_depth_are_refused(tmp_path: Path) -> None:
    trees.write_bapps(tmp_path, 1, subsets={"val": ("cnn", "color")})
    val = tmp_path / "2afc" / "val"
    (val / "more").mkdir()
    (val / "color").rename(val / "more" / "color")
    unlike = f"{val / 'cnn'} and {val / 'more' / 'color'} do not"
    with pytest.raises(DataError) as caught:
        open_dataset(tmp_path)
    assert str(caught.value) == f"BAPPS subsets must lie at one depth; {unlike}: open one alone"
    assert len(open_dataset(val / "cnn")) == 1
