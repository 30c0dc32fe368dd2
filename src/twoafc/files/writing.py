"""Files and folders written whole: under a hidden name first, then renamed."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoafc.errors import DataError
from twoafc.files.text import strict_json

PARTIAL = r"\.\d+\.part"
"""How the hidden name of an unfinished file ends, as a pattern."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path to write to, which takes the place of another when all is written; a crash leaves that as it was.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with whole_file(path) as partial:
    ...     _ = partial.write_text("all of it")
    >>> [file.name for file in path.parent.iterdir()]
    ['a.txt']
    """
    whole = Path(os.path.realpath(path))  # a link stays one
    partial = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    try:
        yield partial
        partial.replace(whole)
    except OSError as error:
        # A full disk names no file, and a folder that may not be written to the hidden one.
        raise OSError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


@contextmanager
def durable_file(path: Path) -> Iterator[Path]:
    """Give a path to write to, as `whole_file` does; the file also survives a power cut."""
    with whole_file(path) as partial:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name, too
        finally:
            os.close(folder)


def write_text(text: str, path: Path) -> None:
    """Write a text so that it is never seen unfinished."""
    with durable_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def clear_partial(folder: Path, names: list[str]) -> None:
    """Remove what killed processes have left of some files; no other process may be writing them."""
    left = re.compile(rf"\.({'|'.join(map(re.escape, names))}){PARTIAL}")
    for path in folder.glob(".*.part"):
        if left.fullmatch(path.name):
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class OutputFolder:
    """A kind of folder.

    Parameters
    ----------
    name : str
        The file in it that holds its card, and in the card the list of its files.
    what : str
        What it holds, in a word: results, sweeps.
    folders : tuple of str
        Folders in it.
    """

    name: str
    what: str
    folders: tuple[str, ...] = ("figures",)

    def check(self, folder: str | Path, inputs: Iterable[Path] = ()) -> None:
        """Refuse a folder that holds anything but an earlier one of this kind, or an input, before any work is done."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is a file; {self.what} are written to a folder")
        if Path.cwd().is_relative_to(folder.resolve()):
            raise DataError(
                f"{folder} is or holds the current folder, which cannot be replaced as a whole; name another"
            )
        for path in inputs:
            if path.resolve().is_relative_to(folder.resolve()):
                raise DataError(f"{path} lies in {folder}, which would be replaced as a whole; name another folder")
        foreign = sorted(set(self.files(folder)) - set(self._listed(folder)))
        if foreign:
            raise DataError(
                f"{folder} holds other files ({foreign[0]}); choose a new folder, or one with {self.what} alone"
            )

    def files(self, folder: Path) -> list[str]:
        """List all that a folder holds, but for the folders that it has of its own."""
        own = [folder / name for name in self.folders]
        paths = (path for path in folder.rglob("*") if path.is_symlink() or path not in own)
        return [path.relative_to(folder).as_posix() for path in paths]

    def _listed(self, folder: Path) -> list[str]:
        """Files that an earlier folder says it consists of; none where there is no earlier one."""
        try:
            files = json.loads((folder / self.name).read_text(encoding="utf-8"))["card"]["files"]
            return [str(file) for file in files]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    @contextmanager
    def whole(self, folder: str | Path) -> Iterator[Path]:
        """Give a folder to fill, as `replaced` does, but none that holds anything else."""
        self.check(folder)
        with replaced(Path(folder)) as partial:
            for name in self.folders:
                (partial / name).mkdir()
            yield partial

    def write_card(self, folder: Path, card: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        """Write the file with the card, last of all: it lists the others."""
        whole = {"card": {**card, "files": sorted({*self.files(folder), self.name})}, **content}
        (folder / self.name).write_text(strict_json(whole, indent=1), encoding="utf-8")


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Give a folder to fill, which takes the place of an earlier one only when it is filled without an error."""
    whole = folder.resolve()
    partial = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    with written(folder):
        try:
            whole.parent.mkdir(parents=True, exist_ok=True)
            partial.mkdir()
            yield partial
            _replace(whole, partial)
        except OSError as error:
            if str(partial) not in str(error):
                raise
            raise OSError(str(error).replace(str(partial), str(folder))) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Say what could not be written where an error of the system does not: a full disk names no file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(f"{path} could not be written: {error.strerror}") from error


def _replace(folder: Path, partial: Path) -> None:
    """Put a finished folder in the place of an earlier one, which is given up only when the new one stands."""
    old = partial.with_suffix(".old")
    if folder.exists():
        folder.rename(old)
    try:
        partial.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
