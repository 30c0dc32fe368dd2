"""Which files are installed, missing or damaged; nothing is downloaded to find out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from twoafc.distances import (
    MismatchError,
    Published,
    UnreadableError,
    excerpt_file,
    read_archive,
    read_tensors,
    usual_places,
)
from twoafc.fetch.disk import Progress, compare_digest, format_size
from twoafc.fetch.registry import Archive, File, Files, chosen, digest_source, folder_of, part_of, stored
from twoafc.fetch.unpack import find_damage, noted_damage, read_receipt


@dataclass(frozen=True)
class State:
    """What is known of one file, or of the data set that it unpacks to.

    Parameters
    ----------
    file : Published or Archive
        The file.
    state : {"there", "missing", "damaged"}
        Whether it is installed.
    where : Path or None
        Where it is.
    note : str
        Further information: what is wrong with it, who published its digest, how much of it is downloaded.
    bytes : int or None
        Its size, where it is installed; of a data set, unpacked.
    """

    file: File
    state: Literal["there", "missing", "damaged"]
    where: Path | None = None
    note: str = ""
    bytes: int | None = None


def status(names: Iterable[str] | None = None, *, to: Path | None = None, files: Files | None = None) -> list[State]:
    """Look for files; weights are read and checked, of data sets only the receipt is.

    Parameters
    ----------
    names : iterable of str, optional
        Names of files, distances and data sets; all by default.
    to : Path, optional
        The folder to look in, in place of the usual ones.
    files : mapping, optional
        The files to choose from; `known` by default.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print([(state.file.name, state.state) for state in status(["lpips_alex"], to=Path(folder))])
    [('alexnet', 'missing'), ('lpips_alex_head', 'missing')]
    """
    return [state_of(file, to) for file in chosen(names, files)]


def verify(
    names: Iterable[str] | None = None,
    *,
    to: Path | None = None,
    files: Files | None = None,
    progress: Progress | None = None,
) -> list[State]:
    """Look for files, and read every installed one again; parameters as for `status`."""
    return [_verified(state, to, progress) for state in status(names, to=to, files=files)]


def _verified(state: State, to: Path | None, progress: Progress | None) -> State:
    if isinstance(state.file, Published) or state.where is None:
        return state
    folder = folder_of(state.file, to)
    if read_receipt(state.file, folder) is None:
        return state
    problem = find_damage(state.file, folder, progress=progress)
    note = problem or "unchanged since it was unpacked"
    return replace(state, state="damaged" if problem else "there", note=note)


def state_of(file: File, to: Path | None = None) -> State:
    """Look for one file, or for the data set that it unpacks to."""
    return _weights_state(file, to) if isinstance(file, Published) else _data_set_state(file, to)


def require_match(path: Path, wanted: Published) -> None:
    """Raise `MismatchError` unless a file holds published weights: by its tensors, or without torch by its digest."""
    if not wanted.tensors:
        read_archive(path, wanted)
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
                require_match(path, wanted)
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
    if isinstance(error, MismatchError) and not isinstance(error, UnreadableError):
        return not error.unrelated or path.name in (wanted.file, excerpt_file(wanted).name)
    # Of a file that cannot be read, only its name tells what it should be.
    names = (wanted.file, *(Path(inside).name for _, inside in wanted.installed))
    return path.name in names or wanted.name in path.name


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
    problem = problem or noted_damage(archive, folder)
    note = problem or f"{receipt['files']} files; {receipt['checked']}"
    return State(archive, "damaged" if problem else "there", place, note, bytes=receipt.get("bytes"))


def _downloaded(path: Path) -> str:
    """Say how much of a missing file is downloaded."""
    if path.is_file():
        return "its archive is downloaded; run the same command to unpack it"
    part = part_of(path)
    size = part.stat().st_size if part.is_file() else 0
    return f"{format_size(size)} are downloaded; fetch continues from there" if size else ""
