"""Where things are kept: weights where torch and other tools look, data sets in one folder or where the user said."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twoafc.distances.weights import Published, cache_folder
from twoafc.errors import DataError
from twoafc.fetch.registry import Archive
from twoafc.files import whole_file

HIDDEN = ".twoafc"
"""The folder inside a data set's own with what `fetch` notes of it: receipts, checksums, half of an archive."""


def weights_folder(to: Path | None = None) -> Path:
    """Folder where weights are stored: the one given, TWOAFC_WEIGHTS, or the cache of torch hub."""
    named = os.environ.get("TWOAFC_WEIGHTS")
    folder = to or (Path(named).expanduser() if named else cache_folder())
    if folder.is_file():
        raise DataError(
            f"weights are stored in a folder; {folder} is a file; name a folder with --to or TWOAFC_WEIGHTS"
        )
    return folder


def data_folder() -> Path:
    """Folder of data sets for which no other was named: TWOAFC_DATA, or twoafc among the user's data."""
    named = os.environ.get("TWOAFC_DATA")
    home = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "twoafc"
    return (Path(named) if named else home).expanduser()


def folder_of(archive: Archive, to: Path | None = None) -> Path:
    """Folder of a data set: the one given, the one given when it was fetched, or its own in `data_folder`."""
    folder = to or _remembered().get(archive.name) or data_folder() / archive.folder
    folder = Path(folder).expanduser().absolute()
    if folder.is_file():
        raise DataError(f"data sets are unpacked into a folder; {folder} is a file; name a folder with --to")
    return folder


def stored(file: Published | Archive, to: Path | None = None) -> Path:
    """Path that a file gets once it has come whole and was checked."""
    if isinstance(file, Published):
        return weights_folder(to) / file.file
    return folder_of(file, to) / HIDDEN / file.file


def part_of(path: Path) -> Path:
    """Path of what has come so far of a file.

    Examples
    --------
    >>> part_of(Path("cache", "a.zip")).name
    '.a.zip.part'
    """
    return path.with_name(f".{path.name}.part")


def remember(archive: Archive, folder: Path) -> None:
    """Note that a data set was put into a folder of the user's choice, so that it is found there again."""
    if folder == data_folder() / archive.folder:
        return
    # The note is a convenience: where it cannot be written, --to tells the same.
    with contextlib.suppress(OSError):
        data_folder().mkdir(parents=True, exist_ok=True)
        write_json(data_folder() / "folders.json", _remembered() | {archive.name: str(folder)})


def _remembered() -> dict[str, Any]:
    return read_json(data_folder() / "folders.json") or {}


@contextlib.contextmanager
def made(folder: Path) -> Iterator[None]:
    """Make a folder for what is done within; if that fails, what was made for it and is empty goes again."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # of a folder with something in it, and those above it
            for path in new:
                path.rmdir()
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a small note, or give None where there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_json(path: Path, note: dict[str, Any]) -> None:
    """Write a small note whole or not at all."""
    with whole_file(path) as partial, partial.open("w", encoding="utf-8") as stream:
        json.dump(note, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
