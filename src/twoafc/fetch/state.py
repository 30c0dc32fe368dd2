"""What is there, what is missing and what is damaged; nothing is downloaded to find out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from twoafc.distances.weights import (
    MismatchError,
    Published,
    UnreadableError,
    excerpt_file,
    read_archive,
    read_tensors,
    usual_places,
)
from twoafc.fetch.digests import Progress, compare
from twoafc.fetch.install import damage, mark_damage, marked_damage, receipt_of
from twoafc.fetch.places import HIDDEN, folder_of, part_of, stored
from twoafc.fetch.registry import Archive, File, Files, chosen, worth
from twoafc.fetch.room import in_words

Found = Literal["there", "missing", "damaged"]


@dataclass(frozen=True)
class State:
    """What is known of one file, or of the data set that it unpacks to.

    Parameters
    ----------
    file : Published or Archive
        What was looked for.
    state : {"there", "missing", "damaged"}
        What was found.
    where : Path or None
        Where it is.
    note : str
        What else is to be said: what is wrong with it, who vouches for it, how much of it has come.
    bytes : int or None
        Size of what is there, where it is known; of a data set, unpacked.
    """

    file: File
    state: Found
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
        The files there are; `known` by default.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print([(found.file.name, found.state) for found in status(["lpips_alex"], to=Path(folder))])
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
    """Look for files, and read every one that is there again; parameters as for `status`."""
    found = []
    for state in status(names, to=to, files=files):
        if isinstance(state.file, Published) or state.where is None:
            found.append(state)
            continue
        folder = folder_of(state.file, to)
        if receipt_of(state.file, folder) is None:
            found.append(state)
            continue
        wrong = damage(state.file, folder, progress=progress)
        mark_damage(state.file, folder, wrong)
        note = wrong or "unchanged since it was unpacked"
        found.append(replace(state, state="damaged" if wrong else "there", note=note))
    return found


def state_of(file: File, to: Path | None = None) -> State:
    """Look for one file, or for the data set that it unpacks to."""
    return _weights(file, to) if isinstance(file, Published) else _data_set(file, to)


def fits(path: Path, wanted: Published) -> None:
    """Raise `MismatchError` if a file does not hold published weights: by tensors, or without torch by digest."""
    if not wanted.tensors:
        read_archive(path, wanted)
    elif importlib.util.find_spec("torch"):
        read_tensors(path, wanted)
    else:
        # Without torch only the published file itself can be told, and that has a known size.
        ours = path.name == wanted.file
        same = wanted.bytes in (None, path.stat().st_size) and not compare(path, wanted.digest)[1]
        if not same:
            method = wanted.digest.split()[0]
            raise MismatchError(
                f"its {method} is another, and without torch its tensors cannot be compared", unrelated=not ours
            )


def _weights(wanted: Published, to: Path | None) -> State:
    damaged = None
    given = [to / wanted.file, to / excerpt_file(wanted).name] if to else []
    for path in given or (path for _, files in usual_places(wanted) for path in files):
        try:
            if path.is_file():
                fits(path, wanted)
                return State(wanted, "there", path, bytes=path.stat().st_size)
        except (MismatchError, OSError) as error:
            if damaged is None and _blamed(path, wanted, error):
                note = getattr(error, "strerror", None) or str(error)
                damaged = State(wanted, "damaged", path, note, path.stat().st_size if path.is_file() else None)
    packages = ", ".join(package for package, _ in wanted.installed)
    note = f"also inside the packages {packages}" if packages else ""
    return damaged or State(wanted, "missing", None, _begun(stored(wanted, to)) or note)


def _blamed(path: Path, wanted: Published, error: MismatchError | OSError) -> bool:
    """Whether a file that does not fit is to be told as these weights, damaged."""
    if isinstance(error, MismatchError) and not isinstance(error, UnreadableError):
        return not error.unrelated or path.name in (wanted.file, excerpt_file(wanted).name)
    # What cannot be read may be anyone's: only its name tells whose.
    names = (wanted.file, *(Path(inside).name for _, inside in wanted.installed))
    return path.name in names or wanted.name in path.name


def _data_set(archive: Archive, to: Path | None) -> State:
    folder = folder_of(archive, to)
    place = folder / archive.place
    receipt = receipt_of(archive, folder)
    if receipt is None:
        marked = archive.marker is not None and (place / archive.marker).exists()
        if marked:
            return State(archive, "there", place, "not put there by fetch, so it cannot be verified")
        return State(archive, "missing", None, _begun(folder / HIDDEN / archive.file) or worth(archive))
    gone = [entry for entry in receipt["entries"] if not (folder / entry).exists()]
    if len(gone) == len(receipt["entries"]):
        return State(archive, "missing", None, _begun(folder / HIDDEN / archive.file) or worth(archive))
    wrong = f"{len(gone)} of its entries are missing, first {gone[0]}" if gone else marked_damage(archive, folder)
    note = wrong or f"{receipt['files']} files; {receipt['checked']}"
    return State(archive, "damaged" if wrong else "there", place, note, bytes=receipt.get("bytes"))


def _begun(path: Path) -> str:
    """Say how much has come of a file that is not there."""
    if path.is_file():
        return "its archive is there; the same command unpacks it"
    part = part_of(path)
    size = part.stat().st_size if part.is_file() else 0
    return f"{in_words(size)} have come; fetch continues there" if size else ""
