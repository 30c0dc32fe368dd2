"""The two data sets on disk: found, opened, drawn from where a limit is given, and rid of anchors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twoafc.datasets import NO_IMAGES, Dataset, bapps_subsets, is_clic, open_bapps, open_clic
from twoafc.errors import DataError
from twoafc.evaluation import Progress
from twoafc.fetch import File, chosen, size_of

SETS = {"bapps": "BAPPS", "clic": "CLIC 2021"}
ROLES = {"train": ("clic2021_test", "train"), "test": ("clic2021_valid", "valid", "val")}
"""Folders (or files) of CLIC's answers: the training set of the paper is what CLIC released as its test's truth."""
LAYOUTS = {
    "bapps": "2afc/train/{traditional,cnn,mix}/{ref,p0,p1,judge} and "
    "2afc/val/{traditional,cnn,superres,deblur,color,frameinterp}/{ref,p0,p1,judge} below it",
    "clic": "clic2021_test/ (or train/) and clic2021_valid/ (or val/) in it, each with its answers "
    "(a CSV without a header, O,A,B,T, such as oracle.csv) and its images",
}
ARCHIVES = {
    "bapps": {"train": "bapps_train", "test": "bapps_val"},
    "clic": {"train": "clic2021_test", "test": "clic2021_valid"},
}
"""What `twoafc fetch` gets each split by."""


@dataclass(frozen=True, eq=False)
class Source:
    """A data set of the paper's: to fit on, and to test on; None where there is nothing to test on but the former.

    `alone` says which split of the paper's that one is, train or test; it is empty where both are there.
    """

    name: str
    train: Dataset
    test: Dataset | None
    notes: tuple[str, ...] = ()
    alone: str = ""

    @property
    def splits(self) -> dict[str, Dataset]:
        """What there is, by split."""
        return {"train": self.train} | ({"test": self.test} if self.test is not None else {})


def wanted(name: str, *roles: str) -> str:
    """Say where a data set, or a split of it, is to be had, its size and its layout.

    Examples
    --------
    >>> "twoafc_val.tar.gz, 1.1 GB" in wanted("bapps")
    True
    """
    names = [ARCHIVES[name][role] for role in roles or ("train", "test")]
    files = [file for each in names for file in chosen([each])]
    told = [_archives(chosen([each])) for each in names]
    sizes = [size_of(file) for file in files]
    if len(told) > 1 and None not in sizes:
        told.append(f"{_size(sum(filter(None, sizes)))} in all")
    return f"expected {LAYOUTS[name]}; get it by: twoafc fetch {' '.join(names)} ({'; '.join(told)})"


def _archives(files: Sequence[File]) -> str:
    """Name the archives of one split, with their size and address; of many, the first and the last few."""
    if len(files) == 1:
        return f"{files[0].file}, {_size(size_of(files[0]))}, from {files[0].url}"
    first, second, last = files[0], files[1], files[-1]
    where = second.url.removesuffix(second.file)
    size = sum(size_of(each) or 0 for each in files) if all(map(size_of, files)) else None
    return f"{first.file} and {second.file} to {last.file}, {len(files)} archives, {_size(size)}, from {where}"


def _size(size: int | None) -> str:
    return "size not published" if size is None else f"{size / 1e9:.1f} GB"


def find_bapps(folder: Path, *, progress: Progress | None = None) -> Source:
    """Open BAPPS: train is fitted on, val tested on; one of them alone is cross-validated."""
    found = bapps_subsets(folder) if folder.is_dir() else []
    there = {"train": "train", "test": "val"}
    # A single split may be named itself: DIR/2afc/val.
    names = {split.resolve().parent.name for split in found}
    if not names & set(there.values()):
        raise DataError(f"no BAPPS in {folder}; {wanted('bapps')}")
    opened = {
        role: open_bapps(folder, split=split, progress=progress) for role, split in there.items() if split in names
    }
    return _source("bapps", folder, opened)


def find_clic(folder: Path) -> Source:
    """Open CLIC 2021: the released truth of its test is fitted on, its validation set tested on."""
    files = {role: file for role, names in ROLES.items() if (file := _answers(folder, names))}
    if not files and (alone := _csv(folder)):
        files = {"test": alone}
    if not files:
        raise DataError(f"no CLIC 2021 in {folder}; {wanted('clic')}")
    return _source("clic", folder, {role: _open_clic(file, role) for role, file in files.items()})


def _source(name: str, folder: Path, opened: dict[str, Dataset]) -> Source:
    notes = tuple(f"{name} {role}: {note}" for role, data in opened.items() for note in data.notes)
    if len(opened) == 2:
        return Source(name, opened["train"], opened["test"], notes)
    ((role, data),) = opened.items()
    lost = {"train": "test", "test": "training"}[role]
    told = f"{name}: {folder} has no {lost} set; what is there is cross-validated, which the paper does not do"
    return Source(name, data, None, (*notes, told), alone=role)


def _answers(folder: Path, names: Sequence[str]) -> Path | None:
    for name in names:
        if (folder / f"{name}.csv").is_file() and is_clic(folder / f"{name}.csv"):
            return folder / f"{name}.csv"
        if found := _csv(folder / name):
            return found
    return None


def _csv(folder: Path) -> Path | None:
    """Find the answers in a folder: the only CSV of four columns that names images."""
    if not folder.is_dir():
        return None
    files = [file for file in sorted(folder.glob("*.csv")) if is_clic(file) and _has_answers(file)]
    if len(files) > 1:
        raise DataError(f"one file of answers is expected in {folder}; found {files[0].name} and {files[1].name}")
    return files[0] if files else None


def _has_answers(file: Path) -> bool:
    with file.open("rb") as lines:
        return lines.readline(10_000).count(b",") == 3


def _open_clic(file: Path, role: str) -> Dataset:
    data = open_clic(file)
    if NO_IMAGES not in data.notes:
        return data
    moved = _in_subfolders(data)
    if len(moved.missing()) == len(data) * len(data.roles):
        raise DataError(f"the answers {file} name images, and none of them is there; {wanted('clic', role)}")
    return moved


def _in_subfolders(data: Dataset) -> Dataset:
    """Look for images by their names in the folders below, as the archives 0.tar to f.tar may unpack."""
    below = {
        name: os.path.relpath(os.path.join(place, name), data.folder)
        for place, _, names in os.walk(data.folder)
        for name in names
    }
    files = {role: pl.Series([below.get(name, name) for name in names]) for role, names in data.files.items()}
    notes = tuple(note for note in data.notes if note != NO_IMAGES)
    return replace(data, files=files, notes=(*notes, "images were found by their names, in folders below"))


def drawn(data: Dataset, limit: int | None, *, seed: int) -> Dataset:
    """Draw so many triplets, from each group as many as its share, in the order of the data set; None keeps all."""
    if limit is None or limit >= len(data):
        return data
    group = np.zeros(len(data), dtype=np.int64) if data.group is None else _codes(data.group)
    counts = shares(np.bincount(group), limit)
    rng = np.random.default_rng(seed)
    rows = [rng.choice(np.flatnonzero(group == code), count, replace=False) for code, count in enumerate(counts)]
    return data.where(np.sort(np.concatenate(rows)))


def shares(sizes: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Share out a limit by size, at least one to each where it suffices, the rest to the largest remainders.

    Examples
    --------
    >>> shares(np.array([60, 30, 1]), 10)
    array([6, 3, 1])
    """
    exact = sizes * (limit / sizes.sum())
    least: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    if limit >= len(sizes):
        least[least == 0] = 1
    while least.sum() > limit:
        least[np.argmax(least)] -= 1
    for place in np.argsort(-(exact - least), kind="stable")[: limit - least.sum()]:
        least[place] += 1
    return least


def _codes(column: pl.Series) -> NDArray[np.int64]:
    codes: NDArray[np.int64] = column.rank("dense").to_numpy().astype(np.int64) - 1
    return codes
