"""The files that `twoafc fetch` knows, listed in two JSON files, and the folders that they are stored in."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from twoafc.distances import ALIASES, DISTANCES, NEEDS, Published, cache_folder, published
from twoafc.errors import DataError
from twoafc.files import write_text

HIDDEN = ".twoafc"
"""Folder inside a data set's own, for receipts, checksums and incomplete archives."""


@dataclass(frozen=True)
class Archive:
    """An archive of a data set."""

    name: str  #: in this package
    file: str  #: the published file's name
    url: str
    bytes: int | None  #: its exact size, if known
    roughly: int | None  #: its approximate size
    digest: str | None  #: such as "sha256 4148..."
    stated_by: str | None  #: who published the digest
    terms: str  #: its licence, in a word
    folder: str  #: of the data set, below the default one
    place: str  #: where in it the folder with the marker goes; "." if that folder's entries go there directly
    marker: str | None  #: without one, everything in the archive is used
    opens: str | None  #: what to give to ``twoafc measure``, below the data set's folder
    most_files: int  #: a limit that the genuine archive does not exceed
    most_bytes: int  #: likewise
    group: str | None = None  #: the name of a data set that comes in several archives


File = Published | Archive
Files = Mapping[str, File]


@cache
def known() -> dict[str, File]:
    """Return every file that can be fetched, by name: weights first, then data sets.

    Examples
    --------
    >>> known()["bapps_val"].file, known()["alexnet"].bytes
    ('twoafc_val.tar.gz', 244408911)
    """
    table = json.loads(Path(__file__).with_name("datasets.json").read_text(encoding="utf-8"))
    del table["about"]
    defaults = table.pop("defaults")
    return {**published(), **{name: Archive(name, **{**defaults, **row}) for name, row in table.items()}}


def chosen(names: Iterable[str] | None = None, files: Files | None = None) -> list[File]:
    """Return the files for some names, each once: of files, distances, data sets, or ``"weights"``.

    Without names, all files.

    Examples
    --------
    >>> [file.name for file in chosen(["lpips", "lpips_vgg", "vgg16"])]
    ['alexnet', 'lpips_alex_head', 'vgg16', 'lpips_vgg_head']
    """
    files = known() if files is None else files
    if names is None:
        return list(files.values())
    selected: dict[str, File] = {}
    for name in names:
        selected |= {part: files[part] for part in _parts(name, files)}
    return list(selected.values())


def _parts(name: str, files: Files) -> Iterable[str]:
    if name in files:
        return [name]
    if name == "weights":
        return [part for part, file in files.items() if isinstance(file, Published)]
    full = ALIASES.get(name, name)
    if full in NEEDS:
        return NEEDS[full]
    if full in DISTANCES:
        raise ValueError(f"{name} needs no files")
    parts = [part for part, file in files.items() if isinstance(file, Archive) and file.group == name]
    if parts:
        return parts
    groups = {file.group for file in files.values() if isinstance(file, Archive) and file.group}
    names = [*files, *NEEDS, *ALIASES, *sorted(groups), "weights"]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else "; run twoafc fetch for a list"
    raise ValueError(f"there is no file, distance or data set {name!r} to fetch{hint}")


def size_of(file: File) -> int | None:
    """Exact or approximate size of a file in bytes, if known."""
    return file.bytes or (file.roughly if isinstance(file, Archive) else None)


def digest_source(file: File) -> str:
    """Say who published the digest of a file."""
    if file.digest is None:
        return "no digest is published"
    source = f"{file.stated_by} states" if isinstance(file, Archive) else "this package records"
    return f"{file.digest.split()[0]} as {source} it"


# Folders


def weights_folder(to: Path | None = None) -> Path:
    """Folder where weights are stored: the one given, TWOAFC_WEIGHTS, or the cache of torch hub."""
    variable = os.environ.get("TWOAFC_WEIGHTS")
    folder = to or (Path(variable).expanduser() if variable else cache_folder())
    if folder.is_file():
        raise DataError(
            f"weights are stored in a folder; {folder} is a file; name a folder with --to or TWOAFC_WEIGHTS"
        )
    return folder


def data_folder() -> Path:
    """Default folder of data sets: TWOAFC_DATA, or twoafc among the user's data."""
    variable = os.environ.get("TWOAFC_DATA")
    home = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "twoafc"
    return (Path(variable) if variable else home).expanduser()


def folder_of(archive: Archive, to: Path | None = None) -> Path:
    """Folder of a data set: the one given, the one given when it was fetched, or its own in `data_folder`."""
    folder = to or _remembered().get(archive.name) or data_folder() / archive.folder
    folder = Path(folder).expanduser().absolute()
    if folder.is_file():
        raise DataError(f"data sets are unpacked into a folder; {folder} is a file; name a folder with --to")
    return folder


def stored(file: File, to: Path | None = None) -> Path:
    """Path of a file once it is complete and checked."""
    if isinstance(file, Published):
        return weights_folder(to) / file.file
    return folder_of(file, to) / HIDDEN / file.file


def part_of(path: Path) -> Path:
    """Path of an incomplete download."""
    return path.with_name(f".{path.name}.part")


def remember(archive: Archive, folder: Path) -> None:
    """Note that a data set was put into a folder of the user's choice, so that it is found there again."""
    if folder == data_folder() / archive.folder:
        return
    # The note is a convenience: if it cannot be written, the user can repeat --to.
    with contextlib.suppress(OSError):
        data_folder().mkdir(parents=True, exist_ok=True)
        write_json(data_folder() / "folders.json", _remembered() | {archive.name: str(folder)})


def _remembered() -> dict[str, Any]:
    return read_json(data_folder() / "folders.json") or {}


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a note; None if there is none, or if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def write_json(path: Path, note: dict[str, Any]) -> None:
    """Write a note completely or not at all."""
    write_text(json.dumps(note, indent=1), path)
