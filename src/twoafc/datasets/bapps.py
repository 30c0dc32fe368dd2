"""BAPPS (Zhang et al. 2018): patches compared with a reference (2AFC), or in pairs that are the same or not (JND).

On disk a subset, such as ``2afc/val/cnn``, has a folder for each role and one of votes, and each folder has a file for
every stem: ``ref/000017.png``, ``p0/000017.png``, ``p1/000017.png``, ``judge/000017.npy``. Files are paired by stem.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from twoafc.arrays import IntArray, Progress
from twoafc.datasets.dataset import Dataset
from twoafc.errors import DataError
from twoafc.files import NotAFileError, open_file
from twoafc.images import ENDINGS

DEPTH = 3
"""Largest number of folders between the one that is opened and a subset: ``ROOT/2afc/val/cnn``."""
IGNORED = ("thumbs.db", "desktop.ini")
NPY_1_0 = b"\x93NUMPY\x01\x00"
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Layout:
    """The folders of a subset."""

    name: str
    images: Mapping[str, str]  # the folder of each role
    votes: str  # the folder of votes
    never: frozenset[str]  # folders that a subset of this kind does not have
    M: Mapping[str, int]  # by split, the number of judges

    @property
    def folders(self) -> tuple[str, ...]:
        """All folders of a subset."""
        return (*self.images.values(), self.votes)


IMAGES = {"ref": "ref", "x0": "p0", "x1": "p1"}
TWO_AFC = Layout("bapps", IMAGES, "judge", frozenset({"same"}), {"train": 2, "val": 5})
JND = Layout("bapps_jnd", {"ref": "p0", "x": "p1"}, "same", frozenset({"judge", "ref"}), {"val": 3})


def open_bapps(
    path: str | Path, *, split: str | None = None, M: int | None = None, progress: Progress | None = None
) -> Dataset:
    """Open BAPPS 2AFC: all of it, a split (``2afc/val``) or a subset (``2afc/val/cnn``).

    A triplet is named ``SPLIT/SUBSET/STEM`` and an image ``SPLIT/SUBSET/FOLDER/STEM``, so that every triplet has a
    reference of its own. The group is the subset, with its split in front where several splits are opened as one.

    Parameters
    ----------
    path : str or Path
    split : "train" or "val", default all
    M : int, default 2 in train, 5 in val
        Number of people who judged each triplet; the files only have their share.
    progress : callable (done, total, what), optional
    """
    return _open(Path(path), TWO_AFC, split, M, progress)


def open_bapps_jnd(
    path: str | Path, *, split: str | None = None, M: int | None = None, progress: Progress | None = None
) -> Dataset:
    """Open BAPPS JND: pairs that n of M = 3 people called the same; otherwise as `open_bapps`."""
    return _open(Path(path), JND, split, M, progress)


def bapps_subsets(path: Path, layout: Layout = TWO_AFC) -> list[Path]:
    """Find the subsets of a folder: itself, or those at the first level below it that has any."""
    level = [path]
    for _ in range(DEPTH + 1):
        inside = {folder: _folders(folder) for folder in level}
        if any(layout.votes in names for names in inside.values()):
            # A subset without one of its folders, beside a complete one, is included here and refused later.
            subsets = [
                folder for folder, names in inside.items() if names & {*layout.folders} and not names & layout.never
            ]
            deeper = [subset for other in inside if other not in subsets for subset in bapps_subsets(other, layout)]
            if subsets and deeper:
                raise DataError(
                    f"BAPPS subsets must lie at one depth; {subsets[0]} and {deeper[0]} do not: open one alone"
                )
            return subsets
        level = [folder / name for folder, names in inside.items() for name in sorted(names)]
    return []


def _folders(path: Path) -> set[str]:
    if not path.is_dir():
        return set()
    with os.scandir(path) as entries:
        return {entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()}


def _open(path: Path, layout: Layout, split: str | None, M: int | None, progress: Progress | None) -> Dataset:
    if M is not None and M < 1:
        raise ValueError(f"M must be at least 1; found {M}")
    # The split and the subset are the last two folders; of the absolute path, so that "." has a name too.
    names = {folder: Path(os.path.abspath(folder)).parts[-2:] for folder in bapps_subsets(path, layout)}
    if not names:
        raise DataError(f"no BAPPS subset in {path}; expected the folders {', '.join(layout.folders)}, in it or below")
    chosen = {folder: pair for folder, pair in names.items() if split in (None, pair[0])}
    if not chosen:
        raise DataError(f"no split {split} in {path}; it has {', '.join(sorted({pair[0] for pair in names.values()}))}")
    listed = {folder: _files(folder, layout) for folder in chosen}
    total = sum(len(inside[layout.votes]) for inside in listed.values())
    tables: list[pl.DataFrame] = []
    for folder, inside in listed.items():
        if progress:
            progress(sum(map(len, tables)), total, f"votes of {chosen[folder][-1]}")
        tables.append(_table(folder, chosen[folder], inside[layout.votes], layout, M))
    if progress:
        progress(total, total, "votes")
    table = pl.concat(tables)
    notes: tuple[str, ...] = ()
    splits = sorted({split for split, _ in chosen.values()})
    if len(splits) > 1:
        table = table.with_columns(group=pl.col("triplet").str.replace("/[^/]*$", ""))
        notes = (f"opened as one: the splits {' and '.join(splits)}; groups are named SPLIT/SUBSET",)
    files = {
        role: pl.concat(
            f"{(folder / name).relative_to(path).as_posix()}/" + pl.Series(inside[name])
            for folder, inside in listed.items()
        )
        for role, name in layout.images.items()
    }
    return Dataset(layout.name, path, tuple(layout.images), files, table, notes)


# Pairing by stem


def _files(folder: Path, layout: Layout) -> dict[str, list[str]]:
    """Pair the files of a subset; return the names in each of its folders, in the order of their stems."""
    existing = _folders(folder)
    missing = [name for name in layout.folders if name not in existing]
    if missing:
        raise DataError(f"a BAPPS subset has the folders {', '.join(layout.folders)}; {folder} has no {missing[0]}")
    listed = {name: _by_stem(folder / name, ENDINGS) for name in layout.images.values()}
    listed[layout.votes] = _by_stem(folder / layout.votes, (".npy",))
    stems = sorted(set().union(*listed.values()))
    if not stems:
        raise DataError(f"no files in {folder / layout.folders[0]}")
    for name, files in listed.items():
        lost = [stem for stem in stems if stem not in files]
        if lost:
            other = next(candidate for candidate, names in listed.items() if lost[0] in names)
            raise DataError(
                f"every stem must be in each folder; {folder / other / listed[other][lost[0]]} has no partner in "
                f"{folder / name} ({len(lost)} of {len(stems)} stems are missing there)"
            )
    return {name: [files[stem] for stem in stems] for name, files in listed.items()}


def _by_stem(folder: Path, endings: tuple[str, ...]) -> dict[str, str]:
    """Map stems to file names; files left by operating systems are ignored, any other file is refused."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from error
    stems: dict[str, str] = {}
    for name in names:
        if name.startswith(".") or name.lower() in IGNORED:
            continue
        stem, ending = os.path.splitext(name)
        if ending.lower() not in endings:
            raise DataError(f"unexpected file: {folder / name}; expected names that end in {' or '.join(endings)}")
        if stem in stems:
            raise DataError(f"a stem must be one file; {folder} has {stems[stem]} and {name}")
        stems[stem] = name
    return stems


# Votes


def _table(folder: Path, named: tuple[str, ...], names: list[str], layout: Layout, M: int | None) -> pl.DataFrame:
    """Read the votes of a subset: a row per stem with triplet, group, a label for each role, n and M."""
    split, subset = named
    M = M or layout.M.get(split)
    if M is None:
        known = " or ".join(f"{name} ({judges})" for name, judges in layout.M.items())
        raise DataError(
            f"the number of judges follows from the folder {known}; {folder} is in {split!r}: give M (--M of the "
            "command)"
        )
    stems = pl.Series([os.path.splitext(name)[0] for name in names])
    prefix = f"{split}/{subset}/"
    labels = {role: f"{prefix}{name}/" + stems for role, name in layout.images.items()}
    paths = [os.path.join(folder, layout.votes, name) for name in names]
    n = _read_votes(paths, prefix + stems, M)
    return pl.DataFrame({"triplet": prefix + stems, "group": subset, **labels, "n": n, "M": M})


def _read_votes(paths: list[str], triplets: pl.Series, M: int) -> IntArray:
    """Read n = share x M from .npy files with one share each; n must be a whole number."""
    shares = np.empty(len(paths))
    dtypes: dict[bytes, np.dtype[np.generic]] = {}
    for row, path in enumerate(paths):
        try:
            with open_file(path) as file:
                shares[row] = _read_number(file.read(), dtypes)
        except (OSError, ValueError, SyntaxError) as error:
            reason = str(error) if isinstance(error, NotAFileError) else f"{path}: {error}"
            raise DataError(f"votes must be one number in a .npy file; triplet {triplets[row]}: {reason}") from error
    scaled = shares * M
    n = np.round(np.clip(np.nan_to_num(scaled), 0, M))
    wrong = ~(abs(scaled - n) <= TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"votes must be a share of M = {M} people; triplet {triplets[row]} has {shares[row]:g} in {paths[row]} "
            f"({wrong.sum()} of {len(paths)} files)"
        )
    return n.astype(np.int64)


def _read_number(content: bytes, dtypes: dict[bytes, np.dtype[np.generic]]) -> float:
    """Read the one number of a .npy file: ten times as fast as ``numpy.load``, since headers are parsed once.

    Only a single number is accepted: no objects, which would be unpickled.
    """
    start = 10 + int.from_bytes(content[8:10], "little")
    header = content[:start]
    if header not in dtypes:
        if not header.startswith(NPY_1_0):
            raise ValueError("not a .npy file of version 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(header[8:]))
        if math.prod(shape) != 1 or dtype.kind not in "fiu":
            raise ValueError(f"expected one number; found shape {shape} of {dtype}")
        dtypes[header] = dtype
    dtype = dtypes[header]
    if len(content) != start + dtype.itemsize:
        raise ValueError(f"{len(content) - start} bytes where one {dtype} has {dtype.itemsize}")
    return float(np.frombuffer(content, dtype, offset=start)[0])
