"""A data set's archive to its folder, with a receipt: what it was, what came out of it, and the sha256 of each file."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from twoafc.errors import DataError
from twoafc.fetch.digests import Progress, digests
from twoafc.fetch.places import HIDDEN, made, read_json, write_json
from twoafc.fetch.registry import Archive, worth
from twoafc.fetch.room import told
from twoafc.fetch.unpack import Unpacked, unpack
from twoafc.files import whole_file

Receipt = dict[str, Any]


def receipt_of(archive: Archive, folder: Path) -> Receipt | None:
    """Read the receipt of a data set in a folder, or give None."""
    return read_json(folder / HIDDEN / f"{archive.name}.json")


def install(archive: Archive, packed: Path, folder: Path, *, sha256: str, progress: Progress | None = None) -> Receipt:
    """Unpack an archive that was checked into the data set's folder, whole or not at all.

    Parameters
    ----------
    packed, sha256 : Path, str
        The archive, and its digest, for the receipt.
    folder : Path
        The data set's folder. What this archive put there before is replaced; nothing else is.

    Returns
    -------
    dict
        The receipt, which is also kept in the folder, beside a list that ``sha256sum --check`` reads.
    """
    hidden = folder / HIDDEN
    with made(hidden), _in_turn(hidden):
        unpacked = hidden / f"{archive.name}.unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)  # of a run that was killed
        try:
            limits = {"most_files": archive.most_files, "most_bytes": archive.most_bytes}
            files = unpack(packed, unpacked, **limits, progress=progress)
            root = _root(archive, packed, files)
            entries = _entries(archive, unpacked, root)
            _require_free(archive, folder, list(entries))
            prefix = "" if archive.place == "." else f"{archive.place}/"
            below = f"{root}/" if root else ""
            kept = {prefix + name.removeprefix(below): file for name, file in files.items() if name.startswith(below)}
            receipt = _receipt(archive, packed, sha256, kept, list(entries))
            # First the receipt, then what it tells of: a run killed in between leaves a data set that is missing.
            _write_sums(hidden / f"{archive.name}.sha256", kept)
            write_json(hidden / f"{archive.name}.json", receipt)
            for entry, source in entries.items():
                _move(source, folder / entry, hidden)
            _mark(archive, folder).unlink(missing_ok=True)
        except OSError as error:
            raise told(error, folder, archive.name) from error
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
    return receipt


def marked_damage(archive: Archive, folder: Path) -> str:
    """Say what `damage` found the last time, or nothing."""
    try:
        return _mark(archive, folder).read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""


def mark_damage(archive: Archive, folder: Path, wrong: str) -> None:
    """Note what `damage` found, so that the data set is fetched again when it is asked for."""
    mark = _mark(archive, folder)
    with contextlib.suppress(OSError):  # where nothing can be written, nothing can be fetched either
        if wrong:
            mark.write_text(wrong, encoding="utf-8")
        else:
            mark.unlink(missing_ok=True)


def _mark(archive: Archive, folder: Path) -> Path:
    return folder / HIDDEN / f"{archive.name}.damaged"


def damage(archive: Archive, folder: Path, *, progress: Progress | None = None) -> str:
    """Read every file of a data set again, and say what is wrong with them, or nothing."""
    receipt = receipt_of(archive, folder) or {}
    try:
        lines = (folder / HIDDEN / f"{archive.name}.sha256").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        lines = []
    missing, changed = [], []
    for done, line in enumerate(lines):
        sha256, _, name = line.partition("  ")
        try:
            if digests(folder / name)["sha256"] != sha256:
                changed.append(name)
        except OSError:
            missing.append(name)
        if progress:
            progress(done + 1, len(lines), f"checking {archive.name}")
    if receipt.get("files") != len(lines):
        return f"its list of files is damaged: {len(lines)} of {receipt.get('files')} are in it"
    told = [(missing, "missing"), (changed, "changed")]
    return "; ".join(f"{len(names)} of {len(lines)} files {what}, first {names[0]}" for names, what in told if names)


def _root(archive: Archive, packed: Path, files: Mapping[str, Unpacked]) -> str:
    """Find the folder in the archive that holds the marker; where archives begin differs, what they hold does not."""
    if archive.marker is None:
        return ""
    marker = PurePosixPath(archive.marker).parts
    roots = set()
    for name in files:
        parts = PurePosixPath(name).parts
        starts = range(len(parts) - len(marker) + 1)
        roots |= {parts[:start] for start in starts if parts[start : start + len(marker)] == marker}
    if not roots:
        raise DataError(f"{packed} is not {archive.name}; it holds no {archive.marker}")
    outermost = sorted(roots, key=lambda root: (len(root), root))[:2]
    if len(outermost) == 2 and len(outermost[0]) == len(outermost[1]):
        found = " and ".join("/".join(root) for root in outermost)
        raise DataError(f"{packed} is not {archive.name} alone; {archive.marker} is in {found}")
    return "/".join(outermost[0])


def _entries(archive: Archive, unpacked: Path, root: str) -> dict[str, Path]:
    """What is to be moved, by its name below the data set's folder."""
    if archive.place != ".":
        return {archive.place: unpacked / root}
    return {path.name: path for path in sorted((unpacked / root).iterdir())}


def _require_free(archive: Archive, folder: Path, entries: list[str]) -> None:
    """Refuse to touch what did not come from this archive."""
    own = (receipt_of(archive, folder) or {}).get("entries", [])
    for entry in entries:
        if (folder / entry).exists() and entry not in own:
            raise DataError(
                f"{folder / entry} is there already, and is none of what fetch put there from {archive.file}; "
                "move it away, or name another folder with --to"
            )


def _receipt(archive: Archive, packed: Path, sha256: str, files: Mapping[str, Unpacked], entries: list[str]) -> Receipt:
    return {
        "name": archive.name,
        "url": archive.url,
        "archive": archive.file,
        "archive_bytes": packed.stat().st_size,
        "archive_sha256": sha256,
        "checked": worth(archive),
        "entries": entries,
        "files": len(files),
        "bytes": sum(file.bytes for file in files.values()),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _write_sums(path: Path, files: Mapping[str, Unpacked]) -> None:
    with whole_file(path) as partial:
        partial.write_text("".join(f"{file.sha256}  {name}\n" for name, file in files.items()), encoding="utf-8")


def _move(source: Path, target: Path, hidden: Path) -> None:
    """Put a finished entry in its place; an earlier one is given up only when the new one stands."""
    old = hidden / "replaced"
    shutil.rmtree(old, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        old.mkdir()
        target.rename(old / target.name)
    source.rename(target)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _in_turn(folder: Path) -> Iterator[None]:
    """Let one process at a time work in a folder; the system forgets the lock with the process."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # nor on this disk
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
