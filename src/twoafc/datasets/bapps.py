"""BAPPS (Zhang et al. 2018): patches judged two against one (2AFC), or told apart in pairs (JND).

On disk a subset, such as ``2afc/val/cnn``, has a folder for each role and one of votes, and in each of them a file for
every stem: ``ref/000017.png``, ``p0/000017.png``, ``p1/000017.png``, ``judge/000017.npy``. They are paired by stem.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl

from twoafc.datasets.dataset import Dataset
from twoafc.datasets.shares import votes_of
from twoafc.datasets.stems import paired, stem_of
from twoafc.errors import DataError
from twoafc.images import ENDINGS

Progress = Callable[[int, int, str], None]
"""Called with the rows read, those in all, and what is being read."""
DEPTH = 3
"""Subsets lie at most so many folders below the one that is opened: ``ROOT/2afc/val/cnn``."""


@dataclass(frozen=True)
class Layout:
    """The folders of a subset, by role and of votes; those it never has; and how many people judged, by split."""

    name: str
    images: Mapping[str, str]
    votes: str
    never: frozenset[str]
    M: Mapping[str, int]

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
    split : "train" or "val", default all that are there
    M : int, default 2 in train, 5 in val
        How many people judged each triplet; the files tell their share alone.
    progress : callable (done, total, what), optional
    """
    return _open(Path(path), TWO_AFC, split, M, progress)


def open_bapps_jnd(
    path: str | Path, *, split: str | None = None, M: int | None = None, progress: Progress | None = None
) -> Dataset:
    """Open BAPPS JND: pairs, of which n of M = 3 people said that they are the same; else as `open_bapps`."""
    return _open(Path(path), JND, split, M, progress)


def subsets(path: Path, layout: Layout) -> list[Path]:
    """Find the subsets of a folder: itself, or those at the first level below it that has one."""
    level = [path]
    for _ in range(DEPTH + 1):
        inside = {folder: _folders(folder) for folder in level}
        if any(layout.votes in names for names in inside.values()):
            # A subset that has lost a folder, beside one that is whole, is still meant, and refused later.
            found = [each for each, names in inside.items() if names & {*layout.folders} and not names & layout.never]
            deeper = [each for other in inside if other not in found for each in subsets(other, layout)]
            if found and deeper:
                raise DataError(
                    f"BAPPS subsets must lie at one depth; {found[0]} and {deeper[0]} do not: open one alone"
                )
            return found
        level = [folder / name for folder, names in inside.items() for name in sorted(names)]
    return []


def _folders(path: Path) -> set[str]:
    if not path.is_dir():
        return set()
    with os.scandir(path) as entries:
        return {entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()}


class Subset(NamedTuple):
    """A subset's folder, the names it goes by, and the paired files in each of its folders."""

    folder: Path
    split: str
    name: str
    files: Mapping[str, list[str]]


def _open(path: Path, layout: Layout, split: str | None, M: int | None, progress: Progress | None) -> Dataset:
    if M is not None and M < 1:
        raise ValueError(f"M must be at least 1; found {M}")
    found = {folder: _names(folder) for folder in subsets(path, layout)}
    if not found:
        raise DataError(f"no BAPPS subset in {path}; expected the folders {', '.join(layout.folders)}, in it or below")
    chosen = {folder: names for folder, names in found.items() if split in (None, names[0])}
    if not chosen:
        there = sorted({names[0] for names in found.values()})
        raise DataError(f"no split {split} in {path}; it has {', '.join(there)}")
    parts = [Subset(folder, *names, _files(folder, layout)) for folder, names in chosen.items()]
    splits = sorted({part.split for part in parts})
    table = _table(parts, layout, M, progress)
    notes: tuple[str, ...] = ()
    if len(splits) > 1:
        table = table.with_columns(group=pl.col("triplet").str.replace("/[^/]*$", ""))
        notes = (f"opened as one: the splits {' and '.join(splits)}; groups tell them apart",)
    files = {
        role: pl.concat([_relative(path, part.folder / name, part.files[name]) for part in parts])
        for role, name in layout.images.items()
    }
    return Dataset(layout.name, path, tuple(layout.images), files, table, notes)


def _names(folder: Path) -> tuple[str, str]:
    """Name the split and the subset after the last two folders; absolute, so that "." has a name too."""
    whole = Path(os.path.abspath(folder))
    return whole.parent.name, whole.name


def _files(folder: Path, layout: Layout) -> dict[str, list[str]]:
    """Pair the files of a subset; give the names in each of its folders, in the order of their stems."""
    there = _folders(folder)
    lost = [name for name in layout.folders if name not in there]
    if lost:
        raise DataError(f"a BAPPS subset has the folders {', '.join(layout.folders)}; {folder} has no {lost[0]}")
    endings = {folder / name: ENDINGS for name in layout.images.values()} | {folder / layout.votes: (".npy",)}
    names = paired(endings)
    return {each.name: names[each] for each in endings}


def _table(parts: list[Subset], layout: Layout, M: int | None, progress: Progress | None) -> pl.DataFrame:
    """Read the votes: a row per stem with triplet, group, a label for each role, n and M."""
    total = sum(len(part.files[layout.votes]) for part in parts)
    tables: list[pl.DataFrame] = []
    for part in parts:
        done = sum(map(len, tables))
        told = partial(_tell, progress, done, total, f"votes of {part.name}") if progress else None
        tables.append(_rows(part, layout, _people(part, layout) if M is None else M, told))
    if progress:
        progress(total, total, "votes")
    return pl.concat(tables)


def _people(part: Subset, layout: Layout) -> int:
    if part.split not in layout.M:
        known = " or ".join(f"{name} ({M})" for name, M in layout.M.items())
        where = f"{part.folder} is in {part.split!r}"
        raise DataError(f"how many people judged is told by the folder {known}; {where}: give M (--M of the command)")
    return layout.M[part.split]


def _rows(part: Subset, layout: Layout, M: int, progress: Callable[[int], None] | None) -> pl.DataFrame:
    votes = part.files[layout.votes]
    stems = pl.Series([stem_of(name) for name in votes])
    prefix = f"{part.split}/{part.name}/"
    triplet = prefix + stems
    paths = [os.path.join(part.folder, layout.votes, name) for name in votes]
    n = votes_of(paths, M, names=triplet.to_list(), progress=progress)
    labels = {role: f"{prefix}{name}/" + stems for role, name in layout.images.items()}
    return pl.DataFrame({"triplet": triplet, "group": part.name, **labels, "n": n, "M": M})


def _relative(root: Path, folder: Path, names: list[str]) -> pl.Series:
    return folder.relative_to(root).as_posix() + "/" + pl.Series(names)


def _tell(progress: Progress, before: int, total: int, what: str, done: int) -> None:
    progress(before + done, total, what)
