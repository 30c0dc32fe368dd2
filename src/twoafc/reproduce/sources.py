"""The two data sets: opened from disk, or generated in the same layouts; and samples of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

from twoafc.arrays import IntArray, Progress
from twoafc.datasets import NO_IMAGES, TWO_AFC, Dataset, bapps_subsets, is_clic, open_bapps, open_clic
from twoafc.errors import DataError
from twoafc.files import replaced
from twoafc.reproduce.printed import SETS
from twoafc.worlds import Images, observers, photograph_triplets

BAPPS_SPLITS = {"train": "train", "test": "val"}
CLIC_SPLITS = {"train": ("clic2021_test", "train"), "test": ("clic2021_valid", "valid", "val")}
"""Folders or files of CLIC's answers: the paper trains on the released answers of CLIC's test."""
LAYOUTS = {
    "bapps": "2afc/train/{traditional,cnn,mix}/{ref,p0,p1,judge} and "
    "2afc/val/{traditional,cnn,superres,deblur,color,frameinterp}/{ref,p0,p1,judge} below it",
    "clic": "clic2021_test/ (or train/) and clic2021_valid/ (or val/) in it, each with its answers "
    "(a CSV without a header, O,A,B,T, such as oracle.csv) and its images",
}
FETCH = {
    "bapps": "twoafc fetch bapps_train bapps_val (6.4 GB)",
    "clic": "twoafc fetch clic2021_test clic2021_valid (size not published)",
}


def open_source(name: str, folder: Path, *, progress: Progress | None = None) -> dict[str, Dataset]:
    """Open BAPPS or CLIC 2021: those of its splits, train and test, that are present."""
    splits = _open_bapps(folder, progress) if name == "bapps" else _open_clic(folder)
    if not splits:
        raise DataError(f"no {SETS[name]} in {folder}; {_how_to_get(name)}")
    return splits


def _open_bapps(folder: Path, progress: Progress | None) -> dict[str, Dataset]:
    # The folder may also be a single split: DIR/2afc/val.
    present = {path.resolve().parent.name for path in bapps_subsets(folder)} if folder.is_dir() else set()
    splits = {split: name for split, name in BAPPS_SPLITS.items() if name in present}
    return {split: open_bapps(folder, split=name, progress=progress) for split, name in splits.items()}


def _open_clic(folder: Path) -> dict[str, Dataset]:
    files = {split: file for split, names in CLIC_SPLITS.items() if (file := _named_answers(folder, names))}
    if not files and (file := _only_answers(folder)):
        files = {"test": file}
    return {split: _open_answers(file) for split, file in files.items()}


def _named_answers(folder: Path, names: Sequence[str]) -> Path | None:
    """Find the answers of a split: a file NAME.csv, or the answers in a folder NAME."""
    for name in names:
        file = folder / f"{name}.csv"
        if file.is_file() and is_clic(file):
            return file
        if answers := _only_answers(folder / name):
            return answers
    return None


def _only_answers(folder: Path) -> Path | None:
    """Find the one CSV of a folder with four columns that names images."""
    files = [file for file in sorted(folder.glob("*.csv")) if is_clic(file) and _has_four_columns(file)]
    if len(files) > 1:
        raise DataError(f"one file of answers is expected in {folder}; found {files[0].name} and {files[1].name}")
    return files[0] if files else None


def _has_four_columns(file: Path) -> bool:
    with file.open("rb") as lines:
        return lines.readline(10_000).count(b",") == 3


def _open_answers(file: Path) -> Dataset:
    """Open answers of CLIC; their images may lie in folders below, as the archives 0.tar to f.tar may unpack."""
    data = open_clic(file)
    if NO_IMAGES not in data.notes:
        return data
    below = {
        name: os.path.relpath(os.path.join(place, name), data.folder)
        for place, _, names in os.walk(data.folder)
        for name in names
    }
    files = {role: pl.Series([below.get(name, name) for name in names]) for role, names in data.files.items()}
    notes = [note for note in data.notes if note != NO_IMAGES]
    data = replace(data, files=files, notes=(*notes, "images were found by name in the folders below"))
    if len(data.missing()) == len(data) * len(data.roles):
        raise DataError(f"the answers {file} name images, but none of these exists; {_how_to_get('clic')}")
    return data


def _how_to_get(name: str) -> str:
    return f"expected {LAYOUTS[name]}; to get it, run: {FETCH[name]}; twoafc fetch lists the addresses"


def sample(data: Dataset, limit: int | None, *, seed: int) -> Dataset:
    """Draw a number of triplets, from each group in proportion to its size, in the data set's order; None keeps all."""
    if limit is None or limit >= len(data):
        return data
    group = np.zeros(len(data)) if data.group is None else data.group.to_numpy()
    names, sizes = np.unique(group, return_counts=True)
    rng = np.random.default_rng(seed)
    rows = [
        rng.choice(np.flatnonzero(group == name), count, replace=False)
        for name, count in zip(names, allocate(sizes, limit), strict=True)
    ]
    return data.where(np.sort(np.concatenate(rows)))


def allocate(sizes: IntArray, limit: int) -> IntArray:
    """Divide a limit in proportion to sizes, with at least one each if it suffices, by largest remainders.

    Examples
    --------
    >>> allocate(np.array([60, 30, 1]), 10)
    array([6, 3, 1])
    """
    exact = sizes * (limit / sizes.sum())
    counts: IntArray = np.floor(exact).astype(np.int64)
    if limit >= len(sizes):
        counts[counts == 0] = 1
    while counts.sum() > limit:
        counts[np.argmax(counts)] -= 1
    counts[np.argsort(-(exact - counts), kind="stable")[: limit - counts.sum()]] += 1
    return counts


# Generated data sets: distorted photographs judged by simulated observers, in the layouts of BAPPS and CLIC 2021.

SUBSETS = {
    "train": ("traditional", "cnn", "mix"),
    "val": ("traditional", "cnn", "superres", "deblur", "color", "frameinterp"),
}
"""The subsets of BAPPS, all with the same distortions here."""
SIZES = {"train": 2400, "val": 1200, "clic2021_test": 2000, "clic2021_valid": 600}
"""Triplets without a limit."""
REPEATS = {"clic2021_test": (1, 2), "clic2021_valid": (1, 1, 1, 2, 3, 5, 10)}
"""Judgements per triplet of CLIC: each of these equally often."""
ANCHORED = 20
"""One in so many triplets of CLIC is an anchor: its first choice is the original itself."""


def generate(
    name: str, root: Path, *, limit: int | None = None, seed: int = 0, progress: Progress | None = None
) -> Path:
    """Write ROOT/bapps or ROOT/clic, with at most `limit` triplets in each split; an existing folder is kept."""
    folder = root / name
    if not folder.is_dir():
        with replaced(folder) as partial:
            (_generate_bapps if name == "bapps" else _generate_clic)(partial, limit, seed, progress)
    return folder


def _generate_bapps(root: Path, limit: int | None, seed: int, progress: Progress | None) -> None:
    for number, (split, names) in enumerate(SUBSETS.items()):
        total, M = limit or SIZES[split], TWO_AFC.M[split]
        for place, (name, rows) in enumerate(zip(names, np.array_split(np.arange(total), len(names)), strict=True)):
            if progress:
                progress(int(rows[0]), total, f"making BAPPS-like photographs, {split}")
            drawn, judged = np.random.default_rng([seed, number, place]).integers(2**31, size=2)
            made = photograph_triplets(len(rows), seed=int(drawn))
            votes = observers(made.ref, made.x0, made.x1, votes=M, seed=int(judged))
            folder = root / "2afc" / split / name
            for kind, images in {"ref": made.ref, "p0": made.x0, "p1": made.x1}.items():
                for row, image in enumerate(images):
                    _save(image, folder / kind / f"{row:06d}.png")
            (folder / "judge").mkdir()
            for row, n in enumerate(votes.n):
                np.save(folder / "judge" / f"{row:06d}.npy", np.array([n / M], dtype=np.float32))


def _generate_clic(root: Path, limit: int | None, seed: int, progress: Progress | None) -> None:
    """Generate both sets of CLIC: repeats are shown in either order, and some choices are anchors."""
    for place, (split, repeats) in enumerate(REPEATS.items()):
        if progress:
            progress(place, len(REPEATS), f"making CLIC-like photographs, {split}")
        rng = np.random.default_rng([seed, 7, place])
        made = photograph_triplets(limit or SIZES[split], seed=int(rng.integers(2**31)))
        made.x0[::ANCHORED] = made.ref[::ANCHORED]
        votes = observers(made.ref, made.x0, made.x1, votes=repeats, seed=int(rng.integers(2**31)))
        lines = []
        for row, images in enumerate(zip(made.ref, made.x0, made.x1, strict=True)):
            original, *pair = (f"{rng.bytes(16).hex()}.png" for _ in images)
            for image, file in zip(images, (original, *pair), strict=True):
                _save(image, root / split / file)
            for vote in range(votes.M[row]):
                choice, swapped = int(vote < votes.n[row]), vote % 2
                a, b = reversed(pair) if swapped else pair
                lines.append(f"{original},{a},{b},{choice ^ swapped}\n")
        (root / split / "oracle.csv").write_text("".join(lines))


def _save(image: Images, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.round(image.transpose(1, 2, 0) * 255).astype(np.uint8)).save(path, compress_level=1)
