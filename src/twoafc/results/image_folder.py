"""Images of triplets, looked up by their names inside one folder, and nowhere else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from twoafc.errors import DataError
from twoafc.images import ENDINGS

MOST_BYTES = 64 * 2**20
"""Size of the largest file that is read; larger ones are hardly images of triplets."""
FORMS = tuple(form for ending in ENDINGS for form in (ending, ending.upper(), ending.title()))
"""Endings as they are written."""


@dataclass(frozen=True)
class Pictures:
    """A folder of images; names of images are looked for in it and below, and nowhere else.

    A name is a path relative to the folder, with or without its ending. Leading parts of it may be those of the folder
    itself, and ``2afc`` or ``jnd`` may lie between: names that `twoafc measure` gives to images of a data set are
    found in the folder of the data set, of its split, and of its subset.

    Parameters
    ----------
    folder : Path
    """

    folder: Path

    def __post_init__(self) -> None:
        if not Path(self.folder).is_dir():
            raise DataError(f"no such folder of images: {self.folder}")
        object.__setattr__(self, "folder", Path(self.folder))

    def path(self, name: str) -> Path | None:
        """Return the file of an image; None where there is none, or none inside the folder."""
        parts = _parts(name)
        if parts is None:
            return None
        own = os.path.realpath(self.folder).split(os.sep)
        for start in range(len(parts)):
            if parts[:start] == own[len(own) - start :]:
                for home in ("", "2afc", "jnd"):
                    path = self._inside(os.path.join(home, *parts[start:]))
                    if path is not None:
                        return path
        return None

    def missing(self, names: Iterable[str]) -> list[str]:
        """Which of these images are not in the folder, by one look at all that is in it."""
        root = os.path.realpath(self.folder)
        own, known = root.split(os.sep), set()
        for folder, _, files in os.walk(root):
            inside = os.path.relpath(folder, root)
            for file in files:
                path = file if inside == os.curdir else f"{inside}/{file}".replace(os.sep, "/")
                known |= {path, os.path.splitext(path)[0]}
        gone = []
        for name in names:
            parts = _parts(name) or []
            starts = [start for start in range(len(parts)) if parts[:start] == own[len(own) - start :]]
            places = (home + "/".join(parts[start:]) for start in starts for home in ("", "2afc/", "jnd/"))
            if not any(place in known for place in places):
                gone.append(name)
        return gone

    def read(self, name: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        """Read the file of an image; None where there is none inside the folder, or it is larger than that.

        A link that takes the place of the file or a folder after the check is not followed.
        """
        path = self.path(name)
        if path is None:
            return None
        try:
            root = os.path.realpath(self.folder)
            with open(_opened(root, path.relative_to(root).parts), "rb") as file:
                state = os.fstat(file.fileno())
                if not stat.S_ISREG(state.st_mode) or state.st_size > most_bytes:
                    return None
                content = file.read(most_bytes + 1)  # it may grow meanwhile
        except (OSError, ValueError):  # gone, not to be read, or no longer in the folder
            return None
        return content if len(content) <= most_bytes else None

    def _inside(self, relative: str) -> Path | None:
        """Find a file by its relative path, with or without an ending; where links lead must be inside, too."""
        root = os.path.realpath(self.folder)
        given = os.path.splitext(relative)[1].lower()
        endings = ("", *FORMS) if given in ENDINGS else FORMS
        for ending in endings:
            real = os.path.realpath(os.path.join(root, relative + ending))
            if os.path.commonpath([root, real]) == root and real != root and os.path.isfile(real):
                # What a link points to must be an image by its name, too.
                return Path(real) if os.path.splitext(real)[1].lower() in ENDINGS else None
        return None


def _opened(root: str, parts: tuple[str, ...]) -> int:
    """Open a file below a folder, one part of its path after the other, following no link; give its descriptor."""
    *folders, name = parts
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in folders:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        # Without waiting: a pipe may have come in the place of the file.
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)


def _parts(name: str) -> list[str] | None:
    """Split a name at its slashes; None of one that is absolute, climbs, or holds what no name of an image has."""
    if not name or "\0" in name or name.startswith(("/", "\\")) or os.path.isabs(name):
        return None
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return None if not parts or ".." in parts or any(":" in part for part in parts[:1]) else parts
