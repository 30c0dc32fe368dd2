"""The two data sets on disk, samples of them, and generated ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trees
from twoafc.datasets import open_bapps, open_clic, without_anchors
from twoafc.errors import DataError
from twoafc.fetch import chosen, size_of
from twoafc.reproduce.sources import FETCH, LAYOUTS, allocate, generate, open_source, sample
from twoafc.worlds import hidden_distance

BOTH = {"train": ("cnn", "mix"), "val": ("cnn", "color")}


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.data())
def test_a_limit_is_allocated_by_size(sizes: list[int], data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, sum(sizes)))
    counts = allocate(np.array(sizes), limit)
    assert counts.sum() == limit
    assert (counts <= sizes).all()
    if limit >= len(sizes):
        assert (counts >= 1).all()
    # As near to the exact share as whole numbers allow, except for those raised to one.
    assert (counts <= np.maximum(np.ceil(np.array(sizes) * limit / sum(sizes)), 1)).all()


def test_a_sample_depends_on_the_seed_only(tmp_path: Path) -> None:
    trees.write_bapps(tmp_path, 12, subsets=BOTH, size=16)
    data = open_bapps(tmp_path, split="val")
    few = sample(data, 10, seed=3)
    assert few.table.equals(sample(data, 10, seed=3).table)
    assert not few.table.equals(sample(data, 10, seed=4).table)
    assert few.table["group"].value_counts().sort("group").rows() == [("cnn", 5), ("color", 5)]
    assert few.table["triplet"].is_sorted()
    assert sample(data, None, seed=0) is data
    assert sample(data, 24, seed=0) is data


def test_bapps_is_opened_with_both_splits_or_with_one(tmp_path: Path) -> None:
    trees.write_bapps(tmp_path, 2, subsets=BOTH, size=16)
    for folder in (tmp_path, tmp_path / "2afc"):
        splits = open_source("bapps", folder)
        assert {split: set(data.M) for split, data in splits.items()} == {"train": {2}, "test": {5}}
    assert list(open_source("bapps", tmp_path / "2afc" / "val")) == ["test"]


def test_clic_is_recognised_by_the_names_of_its_folders(tmp_path: Path) -> None:
    for name in ("clic2021_test", "clic2021_valid"):
        trees.write_clic(tmp_path / "a" / name, size=(16, 16))
    for name in ("train", "val"):
        trees.write_clic(tmp_path / "b" / name, size=(16, 16)).rename(tmp_path / "b" / name / "answers.csv")
    for folder in ("a", "b"):
        assert list(open_source("clic", tmp_path / folder)) == ["train", "test"]
    assert list(open_source("clic", tmp_path / "a" / "clic2021_valid")) == ["test"]


def test_files_of_answers_of_clic_are_assigned_by_their_names(tmp_path: Path) -> None:
    answers = trees.write_clic(tmp_path, size=(16, 16))
    text = answers.read_text()
    (tmp_path / "clic2021_valid.csv").write_text(text)
    answers.rename(tmp_path / "clic2021_test.csv")
    splits = open_source("clic", tmp_path)
    assert list(splits) == ["train", "test"]
    assert all(data.missing().is_empty() for data in splits.values())
    (tmp_path / "clic2021_valid.csv").unlink()
    assert list(open_source("clic", tmp_path)) == ["train"]
    for name in ("train", "valid"):
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "clic2021_test.csv").unlink()
    assert list(open_source("clic", tmp_path)) == ["train", "test"]


def test_images_of_clic_may_lie_in_folders_below(tmp_path: Path) -> None:
    answers = trees.write_clic(tmp_path / "val", size=(16, 16))
    for image in sorted(answers.parent.glob("*.png")):
        (answers.parent / image.name[0]).mkdir(exist_ok=True)
        image.rename(answers.parent / image.name[0] / image.name)
    data = open_source("clic", tmp_path)["test"]
    assert data.missing().is_empty()
    assert data.images([0])[0].shape == (1, 3, 16, 16)


def test_missing_data_are_reported_with_layout_and_command(tmp_path: Path) -> None:
    for name, title in (("bapps", "BAPPS"), ("clic", "CLIC 2021")):
        for folder in (tmp_path, tmp_path / "none"):
            with pytest.raises(DataError) as caught:
                open_source(name, folder)
            expected = f"expected {LAYOUTS[name]}; to get it, run: {FETCH[name]}; twoafc fetch lists the addresses"
            assert str(caught.value) == f"no {title} in {folder}; {expected}"
    assert "2afc/train/{traditional,cnn,mix}/{ref,p0,p1,judge}" in LAYOUTS["bapps"]


@pytest.mark.parametrize("name", ["bapps", "clic"])
def test_the_sizes_are_those_of_the_files_to_fetch(name: str) -> None:
    command = FETCH[name].removeprefix("twoafc fetch ").partition(" (")
    sizes = [size_of(file) for file in chosen(command[0].split())]
    size = "size not published" if None in sizes else f"{sum(filter(None, sizes)) / 1e9:.1f} GB"
    assert command[2] == f"{size})"


def test_answers_without_images_or_in_two_files_are_refused(tmp_path: Path) -> None:
    answers = trees.write_clic(tmp_path / "val", size=(16, 16))
    for image in answers.parent.glob("*.png"):
        image.unlink()
    with pytest.raises(DataError) as caught:
        open_source("clic", tmp_path)
    assert str(caught.value).startswith(
        f"the answers {answers} name images, but none of these exists; expected clic2021_"
    )
    (answers.parent / "more.csv").write_text(answers.read_text())
    with pytest.raises(DataError, match=r"^one file of answers is expected in .*val; found more.csv and oracle.csv$"):
        open_source("clic", tmp_path)


def test_generated_sets_have_the_real_layouts(tmp_path: Path) -> None:
    one, two = (generate("bapps", tmp_path / name, limit=12, seed=5) for name in "ab")
    train, val = (open_bapps(one, split=split) for split in ("train", "val"))
    assert (len(train), set(train.M), set(train.table["group"])) == (12, {2}, {"traditional", "cnn", "mix"})
    assert (len(val), set(val.M), val.table["group"].n_unique()) == (12, {5}, 6)
    assert (val.images([0])[0].shape, contents(one)) == ((1, 3, 64, 64), contents(two))
    answers = generate("clic", tmp_path / "a", limit=24, seed=5) / "clic2021_valid"
    data = open_clic(answers)
    assert data.M.max() > 1
    shown = {tuple(line.split(",")[:3]) for line in (answers / "oracle.csv").read_text().splitlines()}
    assert any((original, x1, x0) in shown for original, x0, x1 in shown)
    rest = without_anchors(data)
    assert 0 < len(data) - len(rest) < len(data) / 3
    # An existing set is kept.
    before = contents(tmp_path / "a")
    generate("clic", tmp_path / "a", limit=24, seed=6)
    assert contents(tmp_path / "a") == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_simulated_observers_judge_the_images_on_disk(tmp_path: Path) -> None:
    data = open_bapps(generate("bapps", tmp_path, limit=72, seed=1), split="val")
    ref, x0, x1 = (np.asarray(images) for images in data.images(np.arange(len(data))))
    difference = hidden_distance(ref, x0) - hidden_distance(ref, x1)
    assert np.corrcoef(difference, data.n / data.M)[0, 1] > 0.5
