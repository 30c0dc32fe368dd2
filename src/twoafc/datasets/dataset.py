"""`Dataset`: images on disk and the votes on them, one row per triplet, quadruple or pair."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from twoafc.arrays import IntArray
from twoafc.errors import DataError
from twoafc.images import ImageError, Pixels, as_float, read_pixels
from twoafc.table import COMPARED_IMAGES, PAIR, QUADRUPLE, TRIPLET, Where, merge_votes, row_name


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Images on disk, and the votes on them; `twoafc.datasets.open_dataset` makes one.

    Parameters
    ----------
    name : str
        The layout: "bapps", "bapps_jnd", "clic", "nights" or "table".
    folder : Path
        The folder that `files` are relative to.
    roles : tuple of str
        Names of the images of a row: ``ref, x0, x1``; quadruples ``ref0, x0, ref1, x1``; pairs ``ref, x``.
    files : mapping of role to polars.Series, each of length T
        Each row's image, as text relative to `folder`, or absolute.
    table : polars.DataFrame, T rows
        ``triplet``, unique; a label for each role; ``n`` and ``M``; ``group``, ``observer`` and ``weight`` where
        known. Of M people n found x1 closer to its reference; of a pair, n saw no difference.
    notes : tuple of str
        What was merged, what was dropped, and what cannot be known.

    Examples
    --------
    >>> data = Dataset(
    ...     "table", Path("photographs"), ("ref", "x"), {"ref": pl.Series(["a.png"]), "x": pl.Series(["b.png"])},
    ...     pl.DataFrame({"triplet": ["0"], "ref": ["a"], "x": ["b"], "n": [1], "M": [3]}),
    ... )
    >>> data, data.pairs
    (Dataset(table, 1 pair, 3 votes), (('ref', 'x', 'd'),))
    """

    name: str
    folder: Path
    roles: tuple[str, ...]
    files: Mapping[str, pl.Series]
    table: pl.DataFrame
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.roles not in COMPARED_IMAGES or tuple(self.files) != self.roles:
            raise ValueError(
                f"roles must be one of {', '.join(map(str, COMPARED_IMAGES))} and name the files; found {self.roles}"
            )
        lengths = {len(self.table), *(len(files) for files in self.files.values())}
        if len(lengths) > 1:
            raise ValueError(f"the table and the files must have one length; found {sorted(lengths)}")
        missing = [name for name in ("triplet", *self.roles, "n", "M") if name not in self.table.columns]
        if missing:
            raise ValueError(f"the table needs the column {missing[0]}; it has {', '.join(self.table.columns)}")
        twice = self.table["triplet"].is_duplicated()
        if twice.any():
            name = self.table["triplet"].filter(twice)[0]
            count = (self.table["triplet"] == name).sum()
            raise DataError(f"triplet must differ from row to row; {name!r} names {count} rows")

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        kind = {TRIPLET: "triplet", QUADRUPLE: "quadruple", PAIR: "pair"}[self.roles]
        return f"Dataset({self.name}, {len(self)} {kind}{'s' * (len(self) != 1)}, {self.M.sum()} votes)"

    @property
    def n(self) -> IntArray:
        """Votes for x1, or for "same"; shape (T,)."""
        return self.table["n"].cast(pl.Int64).to_numpy()

    @property
    def M(self) -> IntArray:
        """Number of votes, shape (T,)."""
        return self.table["M"].cast(pl.Int64).to_numpy()

    @property
    def group(self) -> pl.Series | None:
        """Group of each row, or None."""
        return self.table["group"] if "group" in self.table.columns else None

    @property
    def pairs(self) -> tuple[tuple[str, str, str], ...]:
        """What to measure: two roles, and the name of the distance between them."""
        return tuple((ref, x, "d" + x.removeprefix("x")) for ref, x in COMPARED_IMAGES[self.roles])

    def path(self, role: str, row: int) -> Path:
        """Path of one image."""
        return self.folder / str(self.files[role][row])

    def where(self, rows: ArrayLike) -> Dataset:
        """Select rows by a mask or by indices."""
        kept = self._indices(rows)
        files = {role: names.gather(kept) for role, names in self.files.items()}
        return replace(self, files=files, table=self.table[kept])

    def _indices(self, rows: ArrayLike) -> IntArray:
        chosen = np.asarray(rows)
        indices: IntArray = np.arange(len(self))[chosen if chosen.size else chosen.astype(np.int64)]
        return indices

    def images(self, rows: ArrayLike) -> tuple[NDArray[np.float32], ...]:
        """Read the images of some rows: one array (B, 3, H, W) in [0, 1] per role; all must have one size."""
        chosen = self._indices(rows)
        read: dict[str, Pixels] = {}
        batch = []
        for role in self.roles:
            pixels = [self._pixels(role, int(row), read) for row in chosen]
            batch.append(
                np.stack([as_float(image) for image in pixels]) if pixels else np.zeros((0, 3, 0, 0), np.float32)
            )
        return tuple(batch)

    def _pixels(self, role: str, row: int, read: dict[str, Pixels]) -> Pixels:
        """Read one image, once for all rows that show it, and compare its size with that of the first."""
        path = str(self.path(role, row))
        if path not in read:
            try:
                read[path] = read_pixels(path)
            except ImageError as error:
                raise DataError(f"triplet {self.table['triplet'][row]}, {role}: {error}") from error
        height, width = read[path].shape[1:]
        first = next(iter(read))
        if read[first].shape[1:] != (height, width):
            a, b = read[first].shape[1:]
            raise DataError(
                f"images must have one size; triplet {self.table['triplet'][row]}, {role}: {path} is "
                f"{height} x {width}, {first} is {a} x {b} (height x width)"
            )
        return read[path]

    def missing(self) -> pl.DataFrame:
        """List the missing images: ``triplet``, ``role`` and ``file``; each folder is listed once."""
        present: dict[str, set[str]] = {}
        absent = []
        for role, files in self.files.items():
            lost = [name for name in files.unique() if not _exists(os.path.join(self.folder, name), present)]
            rows = self.table.select("triplet", role=pl.lit(role), file=files)
            absent.append(rows.filter(pl.col("file").is_in(lost)))
        return pl.concat(absent)

    def fingerprint(self) -> str:
        """Sha256 of the table and the file names; it does not depend on the folder or the pixels."""
        files = [names.rename(f"file {role}") for role, names in self.files.items()]
        frame = self.table.hstack(files)
        digest = hashlib.sha256(f"{self.name} {self.roles}\n".encode())
        digest.update(frame.write_csv().encode())
        return digest.hexdigest()


def note_missing(data: Dataset) -> Dataset:
    """Add a note on rows whose images are missing; raise DataError if all images are."""
    absent = data.missing()
    if absent.is_empty():
        return data
    first = absent.row(0, named=True)
    where = f"triplet {first['triplet']}, {first['role']}: no such file: {data.folder / first['file']}"
    if len(absent) == len(data) * len(data.roles):
        raise DataError(f"none of the images is there; {where}")
    note = f"images of {absent['triplet'].n_unique()} of {len(data)} rows are missing; {where}"
    return replace(data, notes=(*data.notes, note))


def _exists(path: str, present: dict[str, set[str]]) -> bool:
    parent, name = os.path.split(path)
    if parent not in present:
        try:
            present[parent] = set(os.listdir(parent))
        except OSError:
            present[parent] = set()
    # The second test is for file systems that do not distinguish A.png from a.png.
    return name in present[parent] or (bool(present[parent]) and os.path.exists(path))


def first_cells(path: Path) -> list[str]:
    """Return the cells of the first line of a CSV."""
    with path.open("rb") as file:
        line = file.readline(10_000).decode("utf-8-sig", errors="replace").strip()
    return [cell.strip(' "') for cell in line.split(",")]


def count_votes(labels: pl.DataFrame, choice: IntArray, where: Where = row_name) -> tuple[pl.DataFrame, list[str]]:
    """Merge single votes on each triplet into one row with n and M, whichever choice was x0; note what was merged.

    Labels have a row per vote, and any of triplet, group, ref, x0, x1 (quadruples: ref0, x0, ref1, x1), observer and
    weight; a choice is 1 where x1 was chosen, 0 where x0 was.

    Examples
    --------
    >>> shown = pl.DataFrame({"ref": ["r", "r"], "x0": ["a", "b"], "x1": ["b", "a"]})
    >>> table, notes = count_votes(shown, np.array([1, 1]))
    >>> table.row(0), notes
    (('r', 'a', 'b', 1, 2), ['2 votes on 1 triplet: repeats are merged, of which 1 was shown the other way round'])
    """
    merged = merge_votes(labels, len(choice))
    if "weight" in labels.columns:
        merged.require_same("weight", [labels["weight"].to_numpy()], where, "triplet")
    n, M = merged.counted(choice)
    T = len(n)
    table = labels.drop("observer", strict=False)[merged.first].with_columns(n=pl.Series(n), M=pl.Series(M))
    notes = []
    if len(choice) > T:
        count = int(merged.swapped.sum())
        swapped = f", of which {count} {'was' if count == 1 else 'were'} shown the other way round" * (count > 0)
        notes.append(f"{len(choice)} votes on {T} triplet{'s' * (T != 1)}: repeats are merged{swapped}")
    if "observer" in labels.columns:
        people = labels["observer"].n_unique()
        notes.append(f"votes of {people} observer{'s' * (people != 1)} are counted together: who cast them is not kept")
    return table, notes
