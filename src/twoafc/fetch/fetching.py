"""Get files: download them from their published source, or import a copy that the user has."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from twoafc.distances import MismatchError, Published, excerpt_file, files_in
from twoafc.errors import DataError
from twoafc.fetch.disk import Progress, compare_digest, new_folder, require_space, write_error
from twoafc.fetch.download import Source, abandon, download, finish
from twoafc.fetch.registry import (
    Archive,
    File,
    Files,
    chosen,
    digest_source,
    folder_of,
    part_of,
    remember,
    size_of,
    stored,
    weights_folder,
)
from twoafc.fetch.state import require_match, state_of
from twoafc.fetch.unpack import install


@dataclass(frozen=True)
class Got:
    """A file that is installed now.

    Parameters
    ----------
    file : Published or Archive
        The file.
    where : Path
        The file of weights, or the folder of the data set.
    new : bool
        Whether it was installed by this call, or before.
    note : str
        How it was checked.
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
    """Download those of the named files that are missing or damaged, check them, and install them.

    Parameters
    ----------
    names : str or iterable of str
        Files, distances (all that they need), data sets.
    to : Path, optional
        For weights, the folder to store them in: by default TWOAFC_WEIGHTS, or the cache of torch hub. For a data set,
        its own folder: by default one in `twoafc.fetch.data_folder`.
    files : mapping, optional
        The files to choose from; `twoafc.fetch.known` by default.
    progress : callable, optional
        Called with the bytes done, the bytes in all where that is known, and a description.
    pause : float
        Seconds before a failed connection is tried again; doubled each time.
    """
    return [_get(file, to, progress, pause) for file in chosen([names] if isinstance(names, str) else names, files)]


def import_file(
    name: str, path: Path, *, to: Path | None = None, files: Files | None = None, progress: Progress | None = None
) -> list[Got]:
    """Import files from a local copy, checked like a download; the copy is not changed.

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
        copies = [(file, _find_copy(path, file)) for file in asked]
    elif len(asked) == 1:
        copies = [(asked[0], path)]
    else:
        parts = ", ".join(file.name for file in asked)
        raise ValueError(f"{name} is several files ({parts}); name one of them, or a folder that holds them all")
    missing = [copy for _, copy in copies if not copy.is_file()]
    if missing:
        raise DataError(f"no such file: {missing[0]}")
    return [_import(file, copy, to, progress) for file, copy in copies]


def _find_copy(folder: Path, file: File) -> Path:
    """Find the copy of a file in a folder: an archive by its name, weights by their tensors."""
    named = folder / file.file
    if isinstance(file, Archive):
        return named
    place, copies = files_in(folder, file)
    for copy in copies:
        try:
            require_match(copy, file)
            return copy
        except (MismatchError, OSError):
            continue
    if named.is_file():  # importing it will report what is wrong with it
        return named
    hint = "" if importlib.util.find_spec("torch") else ", which without torch are recognised by their digest alone"
    none = f"; none of its {len(copies)} files holds these weights{hint}" if copies else ""
    raise DataError(f"{file.name} is not in {place}{none}; wanted: {file}")


def _get(file: File, to: Path | None, progress: Progress | None, pause: float) -> Got:
    state = state_of(file, to)
    if state.state == "there" and state.where:
        return Got(file, state.where, False, state.note)
    path = stored(file, to)
    if isinstance(file, Archive) and path.is_file():  # of a run that could not unpack it
        part = path
    else:
        part = part_of(path)
        with new_folder(path.parent):
            _download(file, part, progress, pause)
    sha256, problem = compare_digest(part, file.digest, progress=progress)
    if problem:
        aside = path.with_name(f".{path.name}.wrong")
        finish(part, aside)
        raise DataError(
            f"{file.name} was not fetched; the download from {file.url} is refused: {problem}; it is kept as {aside}"
        )
    if part != path:
        finish(part, path)
    if isinstance(file, Published):
        return Got(file, path, True, digest_source(file))
    got = _install(file, path, to, sha256, progress)
    path.unlink()
    return got


def _download(file: File, part: Path, progress: Progress | None, pause: float) -> None:
    # An archive of images unpacks to about its own size, and is removed only afterwards.
    needed = (size_of(file) or 0) * (2 if isinstance(file, Archive) else 1)
    require_space(part.parent, needed - (part.stat().st_size if part.is_file() else 0), file.file)
    try:
        source = Source(file.url, file.bytes, checked=file.digest is not None)
        download(source, part, progress=progress, pause=pause)
    except DataError as error:
        packages = file.installed if isinstance(file, Published) else ()
        package = f"pip install {packages[0][0]}, which includes it, or " if packages else ""
        otherwise = f"or: {package}get {file.file} elsewhere and run twoafc fetch {file.name} --from FILE"
        raise DataError(f"{file.name} was not fetched; {error}; {otherwise}") from error


def _import(file: File, copy: Path, to: Path | None, progress: Progress | None) -> Got:
    sha256, problem = compare_digest(copy, file.digest, progress=progress)
    if isinstance(file, Archive):
        if problem:
            raise DataError(f"{copy} is not {file.name} ({file.file}); {problem}")
        return _install(file, copy, to, sha256, progress)
    path, note = stored(file, to), digest_source(file)
    if problem:
        # Another file with the same tensors will do, but not under the name that other tools rely on.
        try:
            require_match(copy, file)
        except MismatchError as mismatch:
            why = f"{problem}; and {mismatch}" if file.tensors else problem
            raise DataError(f"{copy} is not {file.name} ({file.file}); {why}") from mismatch
        path, note = weights_folder(to) / excerpt_file(file).name, "its tensors are the published ones, the file is not"
    _copy(copy, path)
    abandon(part_of(stored(file, to)))
    return Got(file, path, True, note)


def _install(archive: Archive, packed: Path, to: Path | None, sha256: str, progress: Progress | None) -> Got:
    folder = folder_of(archive, to)
    receipt = install(archive, packed, folder, sha256=sha256, progress=progress)
    remember(archive, folder)
    note = f"{receipt['files']} files; {digest_source(archive)}"
    if not archive.digest:
        note += f", so it could not be checked; it has sha256 {sha256}, noted for --verify"
    return Got(archive, folder / archive.place, True, note)


def _copy(source: Path, path: Path) -> None:
    if path.exists() and path.samefile(source):
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    with new_folder(path.parent):
        require_space(path.parent, source.stat().st_size, path.name)
        try:
            shutil.copyfile(source, partial)
            with partial.open("rb+") as stream:
                os.fsync(stream.fileno())
            partial.replace(path)
        except OSError as error:
            raise write_error(error, path.parent, path.name) from error
        finally:
            partial.unlink(missing_ok=True)
