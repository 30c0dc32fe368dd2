"""Files on request: from their published source, or from a copy that the user has."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from twoafc.distances.weights import MismatchError, Published, excerpt_file, files_in
from twoafc.errors import DataError
from twoafc.fetch.digests import Progress, compare
from twoafc.fetch.download import Source, abandon, download, finish
from twoafc.fetch.install import install
from twoafc.fetch.places import folder_of, made, part_of, remember, stored, weights_folder
from twoafc.fetch.registry import Archive, File, Files, chosen, size_of, worth
from twoafc.fetch.room import require_room, told
from twoafc.fetch.state import fits, state_of


@dataclass(frozen=True)
class Got:
    """A file that is there now.

    Parameters
    ----------
    file : Published or Archive
        Which.
    where : Path
        The file of weights, or the folder of the data set.
    new : bool
        Whether it came now, or was there already.
    note : str
        What vouches for it.
    """

    file: File
    where: Path
    new: bool
    note: str


def get(
    names: str | Iterable[str],
    *,
    to: Path | None = None,
    files: Files | None = None,
    progress: Progress | None = None,
    pause: float = 1.0,
) -> list[Got]:
    """Download what is missing or damaged of the named files, check it, and put it where it is looked for.

    Parameters
    ----------
    names : str or iterable of str
        Files, distances (what they need), data sets.
    to : Path, optional
        For weights, the folder to store them in: by default TWOAFC_WEIGHTS, or the cache of torch hub. For a data set,
        its own folder: by default one in `twoafc.fetch.data_folder`.
    files : mapping, optional
        The files there are; `twoafc.fetch.known` by default.
    progress : callable, optional
        Called with bytes done, bytes in all where that is known, and of what.
    pause : float
        Seconds before a broken connection is tried again; doubled each time.
    """
    asked = chosen([names] if isinstance(names, str) else names, files)
    return [_get(file, to, progress, pause) for file in asked]


def import_file(
    name: str, path: Path, *, to: Path | None = None, files: Files | None = None, progress: Progress | None = None
) -> list[Got]:
    """Take files from a local copy, checked like a download; the copy stays as it is.

    Parameters
    ----------
    name : str
        A file, a distance, a data set.
    path : Path
        The copy; or a folder with copies, of weights under any names, of data sets under their published ones.
    to, files, progress
        As for `get`.
    """
    asked = chosen([name], files)
    if path.is_dir():
        pairs = [(file, _found_in(path, file)) for file in asked]
    elif len(asked) == 1:
        pairs = [(asked[0], path)]
    else:
        parts = ", ".join(file.name for file in asked)
        raise ValueError(f"{name} is several files ({parts}); name one of them, or a folder that holds them all")
    absent = [copy for _, copy in pairs if not copy.is_file()]
    if absent:
        raise DataError(f"no such file: {absent[0]}")
    return [_import(file, copy, to, progress) for file, copy in pairs]


def _found_in(folder: Path, file: File) -> Path:
    """Find the copy of a file in a folder: an archive by its name, weights by what they hold."""
    named = folder / file.file
    if isinstance(file, Archive):
        return named
    place, copies = files_in(folder, file)
    for copy in copies:
        try:
            fits(copy, file)
            return copy
        except (MismatchError, OSError):
            continue
    if named.is_file():  # what is wrong with it is told when it is imported
        return named
    known = "" if importlib.util.find_spec("torch") else ", which without torch are known by their digest alone"
    held = f"; none of its {len(copies)} files holds these weights{known}" if copies else ""
    raise DataError(f"{file.name} is not in {place}{held}; wanted: {file}")


def _get(file: File, to: Path | None, progress: Progress | None, pause: float) -> Got:
    found = state_of(file, to)
    if found.state == "there" and found.where:
        return Got(file, found.where, False, found.note)
    path = stored(file, to)
    if isinstance(file, Archive) and path.is_file():  # of a run that could not unpack it
        part = path
    else:
        part = part_of(path)
        with made(path.parent):
            _download(file, part, progress, pause)
    sha256, wrong = compare(part, file.digest, progress=progress)
    if wrong:
        aside = path.with_name(f".{path.name}.wrong")
        finish(part, aside)
        raise DataError(
            f"{file.name} was not fetched; what came from {file.url} is refused: {wrong}; it is kept as {aside}"
        )
    if part != path:
        finish(part, path)
    if isinstance(file, Published):
        return Got(file, path, True, worth(file))
    got = _unpack(file, path, to, sha256, progress)
    path.unlink()
    return got


def _download(file: File, part: Path, progress: Progress | None, pause: float) -> None:
    # An archive of images unpacks to about its own size, and is there until then.
    needed = (size_of(file) or 0) * (2 if isinstance(file, Archive) else 1)
    require_room(part.parent, needed - _size(part), file.file)
    try:
        source = Source(file.url, file.bytes, checked=file.digest is not None)
        download(source, part, progress=progress, pause=pause)
    except DataError as error:
        raise DataError(f"{file.name} was not fetched; {error}; {_otherwise(file)}") from error


def _import(file: File, copy: Path, to: Path | None, progress: Progress | None) -> Got:
    sha256, wrong = compare(copy, file.digest, progress=progress)
    if isinstance(file, Archive):
        if wrong:
            raise DataError(f"{copy} is not {file.name} ({file.file}); {wrong}")
        return _unpack(file, copy, to, sha256, progress)
    path, note = stored(file, to), worth(file)
    if wrong:
        # Another file with the same tensors will do, but not under the name that other tools know the published one by.
        try:
            fits(copy, file)
        except MismatchError as unfit:
            why = f"{wrong}; and {unfit}" if file.tensors else wrong
            raise DataError(f"{copy} is not {file.name} ({file.file}); {why}") from unfit
        path, note = weights_folder(to) / excerpt_file(file).name, "its tensors are the published ones, the file is not"
    _copy(copy, path)
    abandon(part_of(stored(file, to)))
    return Got(file, path, True, note)


def _unpack(archive: Archive, packed: Path, to: Path | None, sha256: str, progress: Progress | None) -> Got:
    folder = folder_of(archive, to)
    receipt = install(archive, packed, folder, sha256=sha256, progress=progress)
    remember(archive, folder)
    said = "" if archive.digest else f", so it could not be checked; it has sha256 {sha256}, noted for --verify"
    return Got(archive, folder / archive.place, True, f"{receipt['files']} files; {worth(archive)}{said}")


def _copy(source: Path, path: Path) -> None:
    if path.exists() and path.samefile(source):
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    with made(path.parent):
        require_room(path.parent, source.stat().st_size, path.name)
        try:
            shutil.copyfile(source, partial)
            with partial.open("rb+") as stream:
                os.fsync(stream.fileno())
            partial.replace(path)
        except OSError as error:
            raise told(error, path.parent, path.name) from error
        finally:
            partial.unlink(missing_ok=True)


def _otherwise(file: File) -> str:
    """Say how else a file may come."""
    packages = file.installed if isinstance(file, Published) else ()
    inside = f"pip install {packages[0][0]}, which brings it along, or " if packages else ""
    return f"or: {inside}get {file.file} elsewhere and run twoafc fetch {file.name} --from FILE"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
