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

from twoafc.errors import DataError
from twoafc.images import ImageError, Pixels, as_float, read_pixels
from twoafc.table import QUADRUPLE, TRIPLET

PAIR = ("ref", "x")
PAIRS = {
    TRIPLET: (("ref", "x0", "d0"), ("ref", "x1", "d1")),
    QUADRUPLE: (("ref0", "x0", "d0"), ("ref1", "x1", "d1")),
    PAIR: (("ref", "x", "d"),),
}
"""By roles: which two images each distance is measured between, and its name."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Images on disk, and what people said of them; `twoafc.datasets.open_dataset` makes one.

    Parameters
    ----------
    name : str
        The layout: "bapps", "bapps_jnd", "clic", "nights" or "table".
    folder : Path
        Where `files` are relative to.
    roles : tuple of str
        What the images of a row are: ``ref, x0, x1``; quadruples ``ref0, x0, ref1, x1``; pairs ``ref, x``.
    files : mapping of role to polars.Series, each of length T
        Each row's image, as text relative to `folder`, or absolute.
    table : polars.DataFrame, T rows
        ``triplet``, another in every row; a label for each role; ``n`` and ``M``; ``group`` and ``observer`` where
        known. Of M people n found x1 closer to its reference; of a pair, n saw no difference.
    notes : tuple of str
        What a reader should know: what was merged, dropped, or cannot be known.

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
        if self.roles not in PAIRS or tuple(self.files) != self.roles:
            raise ValueError(
                f"roles must be one of {', '.join(map(str, PAIRS))} and name the files; found {self.roles}"
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
    def n(self) -> NDArray[np.int64]:
        """Votes for x1, or for "same"; shape (T,)."""
        return self.table["n"].cast(pl.Int64).to_numpy()

    @property
    def M(self) -> NDArray[np.int64]:
        """Votes in all, shape (T,)."""
        return self.table["M"].cast(pl.Int64).to_numpy()

    @property
    def group(self) -> pl.Series | None:
        """Each row's group; None where there are none."""
        return self.table["group"] if "group" in self.table.columns else None

    @property
    def pairs(self) -> tuple[tuple[str, str, str], ...]:
        """What to measure: from which role to which, and the name of the distance between."""
        return PAIRS[self.roles]

    def path(self, role: str, row: int) -> Path:
        """Give the file of one image."""
        return self.folder / str(self.files[role][row])

    def where(self, rows: ArrayLike) -> Dataset:
        """Keep some rows, given as a mask or as indices."""
        kept = self._numbers(rows)
        files = {role: names.gather(kept) for role, names in self.files.items()}
        return replace(self, files=files, table=self.table[kept])

    def _numbers(self, rows: ArrayLike) -> NDArray[np.int64]:
        chosen = np.asarray(rows)
        numbers: NDArray[np.int64] = np.arange(len(self))[chosen if chosen.size else chosen.astype(np.int64)]
        return numbers

    def images(self, rows: ArrayLike) -> tuple[NDArray[np.float32], ...]:
        """Read the images of some rows: one array (B, 3, H, W) in [0, 1] per role; all must have one size."""
        chosen = self._numbers(rows)
        read: dict[str, Pixels] = {}
        batch = []
        for role in self.roles:
            pixels = [self._pixels(role, int(row), read) for row in chosen]
            batch.append(
                np.stack([as_float(each) for each in pixels]) if pixels else np.zeros((0, 3, 0, 0), np.float32)
            )
        return tuple(batch)

    def _pixels(self, role: str, row: int, read: dict[str, Pixels]) -> Pixels:
        """Read one image, once for all rows that show it, and hold it to the size of the first."""
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
        """List the images that are not there: ``triplet``, ``role`` and ``file``, looking once into each folder."""
        present: dict[str, set[str]] = {}
        absent = []
        for role, files in self.files.items():
            lost = [name for name in files.unique() if not _is_there(os.path.join(self.folder, name), present)]
            found = self.table.select("triplet", role=pl.lit(role), file=files).filter(pl.col("file").is_in(lost))
            absent.append(found)
        return pl.concat(absent)

    def fingerprint(self) -> str:
        """Give a sha256 of the table and the names of the files, wherever the folder lies; pixels are not read."""
        files = [names.rename(f"file {role}") for role, names in self.files.items()]
        frame = self.table.hstack(files)
        digest = hashlib.sha256(f"{self.name} {self.roles}\n".encode())
        digest.update(frame.write_csv().encode())
        return digest.hexdigest()


def require_images(data: Dataset) -> None:
    """Refuse a data set that has no image at all."""
    absent = data.missing()
    if len(absent) == len(data) * len(data.roles):
        raise DataError(f"none of the images is there; {_first(data, absent)}")


def _first(data: Dataset, absent: pl.DataFrame) -> str:
    first = absent.row(0, named=True)
    return f"triplet {first['triplet']}, {first['role']}: no such file: {data.folder / first['file']}"


def note_missing(data: Dataset) -> Dataset:
    """Note of how many rows images are missing, with the first of them; refuse a data set that has no image at all."""
    absent = data.missing()
    if absent.is_empty():
        return data
    which = _first(data, absent)
    if len(absent) == len(data) * len(data.roles):
        raise DataError(f"none of the images is there; {which}")
    rows = absent["triplet"].n_unique()
    return replace(data, notes=(*data.notes, f"images of {rows} of {len(data)} rows are missing; {which}"))


def _is_there(path: str, present: dict[str, set[str]]) -> bool:
    parent, name = os.path.split(path)
    if parent not in present:
        try:
            present[parent] = set(os.listdir(parent))
        except OSError:
            present[parent] = set()
    # The second look is for file systems that do not tell A.png from a.png.
    return name in present[parent] or (bool(present[parent]) and os.path.exists(path))
