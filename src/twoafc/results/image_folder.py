"""Images of rows, looked up by their names inside one folder, and nowhere else."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twoafc.errors import DataError
from twoafc.files import open_file
from twoafc.images import ENDINGS, ImageError, decode, eight_bits

if TYPE_CHECKING:
    from PIL import Image

    from twoafc.results.result import Result

MOST_BYTES = 64 * 2**20
"""Size of the largest file that is read."""
IMAGES = ("x0", "ref", "ref0", "ref1", "x1", "x")
"""Labels that name images, in the order in which they are shown."""
MANY = 1000
"""Names from which on the files of a folder are listed, instead of each being looked up."""
FORMS = tuple(form for ending in ENDINGS for form in (ending, ending.upper(), ending.title()))
"""Endings as they are written."""


@dataclass(frozen=True)
class Pictures:
    """A folder of images; images are looked up by name in it and below, and nowhere else.

    A name is a path relative to the folder, with or without its ending. It may begin with the last parts of the path
    of the folder, and ``2afc`` or ``jnd`` may be left out: so the names that `twoafc measure` gives to the images of a
    data set are found from the folder of the data set, of its split, or of its subset.
    """

    folder: Path

    def __post_init__(self) -> None:
        if not Path(self.folder).is_dir():
            raise DataError(f"no such folder of images: {self.folder}")
        object.__setattr__(self, "folder", Path(self.folder))

    def path(self, name: str) -> Path | None:
        """Return the file of an image; None if there is none inside the folder."""
        own = os.path.realpath(self.folder).split(os.sep)
        return next((path for place in _places(name, own) if (path := self._inside(place))), None)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return which of these images are not in the folder; for many of them its files are listed once."""
        names = list(names)
        if len(names) < MANY:
            return [name for name in names if self.path(name) is None]
        root, known = os.path.realpath(self.folder), set()
        for folder, _, files in os.walk(root):
            inside = os.path.relpath(folder, root)
            for file in files:
                path = file if inside == os.curdir else f"{inside}/{file}".replace(os.sep, "/")
                known |= {path, os.path.splitext(path)[0]}
        own = root.split(os.sep)
        return [name for name in names if known.isdisjoint(_places(name, own))]

    def read(self, name: str) -> bytes | None:
        """Read the file of an image; None if there is none inside the folder, or it is too large."""
        path = self.path(name)
        try:
            if path is None or path.stat().st_size > MOST_BYTES:
                return None
            with open_file(path) as file:
                return file.read()
        except OSError:  # gone, or not to be read
            return None

    def thumbnail(self, name: str, side: int) -> Image.Image | None:
        """Return an image with at most so many pixels along a side; None if there is none, or it cannot be read."""
        from PIL import Image

        content = self.read(name)
        if content is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, on files that it can read nevertheless
            try:
                pixels = eight_bits(decode(content, name))
            except ImageError:
                return None
        image = Image.fromarray(np.moveaxis(pixels, 0, -1))
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
        return image

    def _inside(self, relative: str) -> Path | None:
        """Find a file by its relative path, with or without an ending; the target of a link must be inside, too."""
        root = os.path.realpath(self.folder)
        given = os.path.splitext(relative)[1].lower()
        endings = ("", *FORMS) if given in ENDINGS else FORMS
        for ending in endings:
            real = os.path.realpath(os.path.join(root, relative + ending))
            if os.path.commonpath([root, real]) == root and real != root and os.path.isfile(real):
                # The target of a link must have the name of an image, too.
                return Path(real) if os.path.splitext(real)[1].lower() in ENDINGS else None
        return None


def _places(name: str, own: Sequence[str]) -> list[str]:
    """List the paths at which an image may be, relative to the folder; none for a name that is absolute or climbs.

    ``own`` are the parts of the path of the folder.
    """
    if not name or "\0" in name or name.startswith(("/", "\\")) or os.path.isabs(name):
        return []
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts or any(":" in part for part in parts[:1]):
        return []
    starts = [start for start in range(len(parts)) if parts[:start] == own[len(own) - start :]]
    return [home + "/".join(parts[start:]) for start in starts for home in ("", "2afc/", "jnd/")]


# The images that rows of a result name


def pictures_of(result: Result, folder: Path | None) -> Pictures | None:
    """Open a folder of images for a result that names images; None if no folder is given."""
    if folder is None:
        return None
    if not {"x0", "x1"} <= set(result.rows.columns):
        raise DataError(f"{result.name} names no images; the table that was tested had no columns ref, x0, x1")
    return Pictures(folder)


def row_images(row: Mapping[str, Any], pictures: Pictures | None, side: int) -> dict[str, Image.Image | None]:
    """Return the images that a row names, by label, in the order in which they are shown; None if one cannot be read.

    They are reduced to so many pixels along a side, at most.
    """
    named = [part for part in IMAGES if row.get(part)]
    return {part: None if pictures is None else pictures.thumbnail(row[part], side) for part in named}


def missing_images(rows: Iterable[Mapping[str, Any]], pictures: Pictures | None) -> list[str]:
    """Report how many images of some triplets are not in the folder, and name one of them."""
    if pictures is None:
        return []
    names = dict.fromkeys(row[part] for row in rows for part in IMAGES if row.get(part))
    absent = pictures.missing(names)
    return [f"{len(absent)} of {len(names)} images are not in {pictures.folder} ({absent[0]})"] if absent else []
