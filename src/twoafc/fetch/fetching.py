"""Report which files are installed, and get the others: by download, or from a copy that the user has."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from twoafc.distances import (
    MismatchError,
    Published,
    UnreadableError,
    excerpt_file,
    files_in,
    read_published,
    read_tensors,
    usual_places,
)
from twoafc.errors import DataError
from twoafc.fetch.download import Progress, RemoteFile, download, format_size, new_folder, require_space, write_error
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
from twoafc.fetch.unpack import ArchiveError, find_damage, install, read_receipt
from twoafc.files import durable_file


@dataclass(frozen=True)
class State:
    """What is known of one file, or of the data set that it unpacks to."""

    file: File
    state: Literal["there", "missing", "damaged"]
    where: Path | None = None
    note: str = ""  #: what is wrong with it, who published its digest, how much of it is downloaded
    bytes: int | None = None  #: its size, if it is installed; of a data set, unpacked


@dataclass(frozen=True)
class Got:
    """A file that is installed now."""

    file: File
    where: Path  #: the file of weights, or the folder of the data set
    new: bool  #: whether it was installed by this call, or before
    note: str  #: how it was checked


def status(names: Iterable[str] | None = None, *, to: Path | None = None, files: Files | None = None) -> list[State]:
    """Look for files; weights are read and checked, but only the receipts of data sets.

    Parameters
    ----------
    names : iterable of str, optional
        Names of files, distances and data sets; all by default.
    to : Path, optional
        The folder to look in, instead of the usual ones.
    files : mapping, optional
        The files to choose from; `known` by default.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print([(state.file.name, state.state) for state in status(["lpips_alex"], to=Path(folder))])
    [('alexnet', 'missing'), ('lpips_alex_head', 'missing')]
    """
    return [_state(file, to) for file in chosen(names, files)]


def verify(
    names: Iterable[str] | None = None,
    *,
    to: Path | None = None,
    files: Files | None = None,
    progress: Progress | None = None,
) -> list[State]:
    """Look for files, and read every installed one again; parameters as for `status`."""
    return [_verified(state, to, progress) for state in status(names, to=to, files=files)]


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
        Called with the bytes done, the total bytes if known, and a description.
    pause : float
        Seconds before a failed connection is tried again; doubled each time.
    """
    installed = []
    for file in chosen([names] if isinstance(names, str) else names, files):
        state = _state(file, to)
        if state.state == "there" and state.where:
            installed.append(Got(file, state.where, False, state.note))
            continue
        path = stored(file, to)
        with new_folder(path.parent):
            installed.append(_fetch(file, path, to, progress, pause))
    return installed


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
        raise ValueError(f"{name} is several files ({parts}); name one of them, or a folder with all of them")
    missing = [copy for _, copy in copies if not copy.is_file()]
    if missing:
        raise DataError(f"no such file: {missing[0]}")
    return [_import(file, copy, to, progress) for file, copy in copies]


# What is installed


def _verified(state: State, to: Path | None, progress: Progress | None) -> State:
    if isinstance(state.file, Published) or state.where is None:
        return state
    folder = folder_of(state.file, to)
    if read_receipt(state.file, folder) is None:
        return state
    problem = find_damage(state.file, folder, progress=progress)
    note = problem or "unchanged since it was unpacked"
    return replace(state, state="damaged" if problem else "there", note=note)


def _state(file: File, to: Path | None = None) -> State:
    """Look for one file, or for the data set that it unpacks to."""
    return _weights_state(file, to) if isinstance(file, Published) else _data_set_state(file, to)


def _require_match(path: Path, wanted: Published) -> None:
    """Raise `MismatchError` unless a file has the published weights: by its tensors, or without torch by its digest."""
    if not wanted.tensors:
        read_published(path, wanted)
    elif importlib.util.find_spec("torch"):
        read_tensors(path, wanted)
    elif wanted.bytes not in (None, path.stat().st_size) or compare_digest(path, wanted.digest)[1]:
        # Without torch only the published file itself can be recognised.
        reason = f"its {wanted.digest.split()[0]} is another, and without torch its tensors cannot be compared"
        raise MismatchError(reason, unrelated=path.name != wanted.file)


def _weights_state(wanted: Published, to: Path | None) -> State:
    damaged = None
    given = [to / wanted.file, to / excerpt_file(wanted).name] if to else []
    for path in given or (path for _, files in usual_places(wanted) for path in files):
        try:
            if path.is_file():
                _require_match(path, wanted)
                return State(wanted, "there", path, bytes=path.stat().st_size)
        except (MismatchError, OSError) as error:
            if damaged is None and _is_meant(path, wanted, error):
                note = getattr(error, "strerror", None) or str(error)
                damaged = State(wanted, "damaged", path, note, path.stat().st_size if path.is_file() else None)
    packages = ", ".join(package for package, _ in wanted.installed)
    note = f"also inside the packages {packages}" if packages else ""
    return damaged or State(wanted, "missing", None, _downloaded(stored(wanted, to)) or note)


def _is_meant(path: Path, wanted: Published, error: MismatchError | OSError) -> bool:
    """Return whether a file that does not match is to be reported as these weights, damaged."""
    names = (wanted.file, excerpt_file(wanted).name, *(Path(inside).name for _, inside in wanted.installed))
    if isinstance(error, UnreadableError | OSError):  # it can only be recognised by its name
        return path.name in names
    return path.name in names or not error.unrelated


def _data_set_state(archive: Archive, to: Path | None) -> State:
    folder = folder_of(archive, to)
    place, receipt = folder / archive.place, read_receipt(archive, folder)
    if receipt is None and archive.marker is not None and (place / archive.marker).exists():
        return State(archive, "there", place, "not installed by fetch, so it cannot be verified")
    entries = receipt["entries"] if receipt else []
    missing = [entry for entry in entries if not (folder / entry).exists()]
    if receipt is None or len(missing) == len(entries):
        return State(archive, "missing", None, _downloaded(stored(archive, to)) or digest_source(archive))
    problem = f"{len(missing)} of its entries are missing, first {missing[0]}" if missing else ""
    problem = problem or receipt.get("damage", "")
    note = problem or f"{receipt['files']} files; {receipt['checked']}"
    return State(archive, "damaged" if problem else "there", place, note, bytes=receipt.get("bytes"))


def _downloaded(path: Path) -> str:
    """Say how much of a missing file is downloaded."""
    if path.is_file():
        return "its archive is downloaded; run the same command to unpack it"
    part = part_of(path)
    size = part.stat().st_size if part.is_file() else 0
    return f"{format_size(size)} are downloaded; fetch continues from there" if size else ""


# Getting files


def compare_digest(path: Path, expected: str | None, *, progress: Progress | None = None) -> tuple[str, str]:
    """Return a file's sha256, and how the file differs from an expected digest, or ""; None expects any file."""
    method, _, value = (expected or "sha256").partition(" ")
    digests = {name: hashlib.new(name, usedforsecurity=False) for name in {"sha256", method}}
    total, done = path.stat().st_size, 0
    with path.open("rb") as stream:
        while chunk := stream.read(2**20):
            for digest in digests.values():
                digest.update(chunk)
            done += len(chunk)
            if progress:
                progress(done, total, f"checking {path.name}")
    sha256, computed = digests["sha256"].hexdigest(), digests[method].hexdigest()
    return sha256, f"its {method} is {computed}, expected {value}" if value and computed != value else ""


def _find_copy(folder: Path, file: File) -> Path:
    """Find the copy of a file in a folder: an archive by its name, weights by their tensors."""
    named = folder / file.file
    if isinstance(file, Archive):
        return named
    place, copies = files_in(folder, file)
    for copy in copies:
        try:
            _require_match(copy, file)
            return copy
        except (MismatchError, OSError):
            continue
    if named.is_file():  # importing it will report what is wrong with it
        return named
    hint = "" if importlib.util.find_spec("torch") else ", which without torch are recognised by their digest alone"
    none = f"; none of its {len(copies)} files has these weights{hint}" if copies else ""
    raise DataError(f"{file.name} is not in {place}{none}; wanted: {file}")


def _fetch(file: File, path: Path, to: Path | None, progress: Progress | None, pause: float) -> Got:
    kept = isinstance(file, Archive) and path.is_file()  # of a run that could not unpack it
    part = path if kept else part_of(path)
    if not kept:
        _download(file, part, progress, pause)
    sha256, problem = compare_digest(part, file.digest, progress=progress)
    if problem:
        aside = path.with_name(f".{path.name}.wrong")
        part.replace(aside)
        raise DataError(
            f"{file.name} was not fetched; the download from {file.url} is refused: {problem}; it is kept as {aside}"
        )
    if part != path:
        part.replace(path)
    if isinstance(file, Published):
        return Got(file, path, True, digest_source(file))
    try:
        got = _install(file, path, to, sha256, progress)
    except ArchiveError as error:
        if file.digest:
            raise
        # With no digest, only this shows that it is not the published file.
        size, reason = format_size(path.stat().st_size), str(error).replace(str(path), file.file)
        path.unlink()
        again = "it is not kept, and the same command downloads it again"
        raise DataError(
            f"{file.name} was not fetched; {file.url} sent {size} ({reason}); {again}; {_otherwise(file)}"
        ) from error
    path.unlink()
    return got


def _download(file: File, part: Path, progress: Progress | None, pause: float) -> None:
    # An archive of images unpacks to about its own size, and is removed only afterwards.
    needed = (size_of(file) or 0) * (2 if isinstance(file, Archive) else 1)
    require_space(part.parent, needed - (part.stat().st_size if part.is_file() else 0), file.file)
    try:
        most = file.most_bytes if isinstance(file, Archive) else None
        source = RemoteFile(file.url, file.bytes, most)
        download(source, part, progress=progress, pause=pause)
    except DataError as error:
        raise DataError(f"{file.name} was not fetched; {error}; {_otherwise(file)}") from error


def _otherwise(file: File) -> str:
    """Say how else to get a file."""
    packages = file.installed if isinstance(file, Published) else ()
    package = f"pip install {packages[0][0]}, which includes it, or " if packages else ""
    return f"or: {package}get {file.file} elsewhere and run twoafc fetch {file.name} --from FILE"


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
            _require_match(copy, file)
        except MismatchError as mismatch:
            why = f"{problem}; and {mismatch}" if file.tensors else problem
            raise DataError(f"{copy} is not {file.name} ({file.file}); {why}") from mismatch
        path, note = weights_folder(to) / excerpt_file(file).name, "its tensors are the published ones, the file is not"
    _copy(copy, path)
    part_of(stored(file, to)).unlink(missing_ok=True)
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
    with new_folder(path.parent):
        require_space(path.parent, source.stat().st_size, path.name)
        try:
            with durable_file(path) as partial:
                shutil.copyfile(source, partial)
        except OSError as error:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
            raise write_error(cause, path.parent, path.name) from error
