"""Unpack untrusted archives, and install a data set from one, completely or not at all.

The filter "data" of `tarfile` does not serve alone: it allows links, limits no sizes, and serves no zip files.
"""

from __future__ import annotations

import contextlib
import datetime
import gzip
import hashlib
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from twoafc.errors import DataError
from twoafc.fetch.download import CHUNK, Progress, new_folder, require_space, write_error
from twoafc.fetch.registry import HIDDEN, Archive, digest_source, read_json, write_json
from twoafc.files import lock, write_text

# Images hardly compress, tables of votes some twenty times; a bomb compresses a thousand times.
RATIO, AT_LEAST = 100, 2**24

Receipt = dict[str, Any]


class ArchiveError(DataError):
    """An archive that is refused, for a reason other than the disk or the folder."""


class Unpacked(NamedTuple):
    """An unpacked file: its size and sha256."""

    bytes: int
    sha256: str


def unpack(
    archive: Path, into: Path, *, most_files: int, most_bytes: int, progress: Progress | None = None
) -> dict[str, Unpacked]:
    """Unpack a .zip, .tar or .tar.gz into a new folder, and return its files by name; a refusal leaves no folder.

    An archive that exceeds a limit is refused before more is written.
    """
    into.mkdir(parents=True)
    most_bytes = min(most_bytes, max(AT_LEAST, RATIO * archive.stat().st_size))
    files, name, total = dict[str, Unpacked](), archive.name, 0
    try:
        with archive.open("rb") as raw:
            members = _members(raw, into, archive, most_bytes)
            for count, (name, size, plain, stream) in enumerate(members, start=1):
                odd = name.startswith("/") or ".." in name.split("/") or any(sign in name for sign in "\\:")
                if odd or not plain or not name.isprintable():
                    problem = "is not a plain relative path" if plain else "is a link or a device"
                    raise ArchiveError(f"{archive} is refused; {name!r} in it {problem}")
                total += size
                if count > most_files or total > most_bytes:
                    limit = f"{most_files} entries" if count > most_files else f"{most_bytes} bytes"
                    raise ArchiveError(f"{archive} is refused; it unpacks to more than {limit}")
                path = into / name
                (path.parent if stream else path).mkdir(parents=True, exist_ok=True)
                if stream:
                    files[path.relative_to(into).as_posix()] = _write(stream, path)
                if progress:
                    progress(total, None, f"unpacking {archive.name}")
    except BaseException as error:
        shutil.rmtree(into, ignore_errors=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise write_error(error, into, name) from error
        if isinstance(error, Exception) and not isinstance(error, DataError):  # a damaged archive may raise anything
            raise ArchiveError(f"{archive} is damaged or incomplete: {error}") from error
        raise
    return files


def _write(stream: IO[bytes], path: Path) -> Unpacked:
    digest = hashlib.sha256()
    with path.open("xb") as file:
        while chunk := stream.read(CHUNK):
            file.write(chunk)
            digest.update(chunk)
        return Unpacked(file.tell(), digest.hexdigest())


def _members(
    raw: IO[bytes], into: Path, archive: Path, most_bytes: int
) -> Iterator[tuple[str, int, bool, IO[bytes] | None]]:
    """Yield of each member its name, size, whether it is neither a link nor a device, and its bytes if it is a file."""
    start, size = raw.read(2), raw.seek(0, os.SEEK_END)
    raw.seek(0)
    if start == b"PK":
        with zipfile.ZipFile(raw) as opened:
            needed = sum(info.file_size for info in opened.infolist())
            if needed <= most_bytes:  # otherwise it is refused later
                require_space(into, needed, f"the contents of {archive.name}")
            for info in opened.infolist():
                plain = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
                with opened.open(info) as stream:
                    yield info.filename, info.file_size, plain, None if info.is_dir() else stream
        return
    require_space(into, size, f"the contents of {archive.name}")
    if start != b"\x1f\x8b":
        raw.seek(max(0, size - tarfile.BLOCKSIZE))
        if raw.read() != bytes(tarfile.BLOCKSIZE):
            raise EOFError("it has no end mark")
        raw.seek(0)
    # Each file may add a header and padding.
    limited = _Limited(gzip.GzipFile(fileobj=raw) if start == b"\x1f\x8b" else raw, 2 * most_bytes + AT_LEAST, archive)
    with tarfile.open(fileobj=limited, mode="r|") as tar:  # type: ignore[call-overload]
        while (info := tar.next()) is not None:
            # Otherwise the list of a million members stays in memory.
            tar.members.clear()
            content = tar.extractfile(info) if info.isreg() else None
            yield info.name, info.size, info.isreg() or info.isdir(), content
        while limited.read(CHUNK):  # to the very end, where gzip stores its checksum
            pass


class _Limited:
    """A tar's bytes with a limit: the headers of a bomb may be as large as any file."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, most: int, archive: Path) -> None:
        self.stream, self.most, self.archive = stream, most, archive

    def read(self, size: int) -> bytes:
        if self.stream.tell() > self.most:
            raise ArchiveError(f"{self.archive} is refused; its headers are too large")
        return self.stream.read(size)


# Installing a data set


def read_receipt(archive: Archive, folder: Path) -> Receipt | None:
    """Read the receipt of a data set in a folder, or return None."""
    return read_json(folder / HIDDEN / f"{archive.name}.json")


def install(archive: Archive, packed: Path, folder: Path, *, sha256: str, progress: Progress | None = None) -> Receipt:
    """Unpack a checked archive into the data set's folder, completely or not at all.

    What it installed there before is replaced; nothing else is. Returns the receipt, which has the archive's `sha256`
    and is also stored in the folder, beside a list that ``sha256sum --check`` reads.
    """
    hidden = folder / HIDDEN
    with new_folder(hidden), _one_at_a_time(hidden):
        unpacked = hidden / f"{archive.name}.unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)  # of a run that was killed
        try:
            limits = {"most_files": archive.most_files, "most_bytes": archive.most_bytes}
            files = unpack(packed, unpacked, **limits, progress=progress)
            root = _root(archive, packed, files)
            if archive.place == ".":
                entries = {path.name: path for path in sorted((unpacked / root).iterdir())}
            else:
                entries = {archive.place: unpacked / root}
            _require_free(archive, folder, list(entries))
            prefix = "" if archive.place == "." else f"{archive.place}/"
            below = f"{root}/" if root else ""
            used = {prefix + name.removeprefix(below): file for name, file in files.items() if name.startswith(below)}
            receipt = {
                "name": archive.name,
                "url": archive.url,
                "archive": archive.file,
                "archive_bytes": packed.stat().st_size,
                "archive_sha256": sha256,
                "checked": digest_source(archive),
                "entries": list(entries),
                "files": len(used),
                "bytes": sum(file.bytes for file in used.values()),
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            }
            # The receipt comes before the files: a run killed in between leaves a data set that is missing.
            lines = (f"{file.sha256}  {name}\n" for name, file in used.items())
            write_text("".join(lines), hidden / f"{archive.name}.sha256")
            write_json(hidden / f"{archive.name}.json", receipt)
            for entry, source in entries.items():
                _move(source, folder / entry, hidden)
        except OSError as error:
            raise write_error(error, folder, archive.name) from error
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
    return receipt


def find_damage(archive: Archive, folder: Path, *, progress: Progress | None = None) -> str:
    """Read every file of a data set again; return a description of the damage, or "".

    The result is noted in the receipt, so that a damaged data set is fetched again on request.
    """
    receipt, lines = read_receipt(archive, folder) or {}, list[str]()
    with contextlib.suppress(OSError, UnicodeError):
        lines = (folder / HIDDEN / f"{archive.name}.sha256").read_text(encoding="utf-8").splitlines()
    damage: dict[str, list[str]] = {"missing": [], "changed": []}
    for done, line in enumerate(lines, start=1):
        sha256, _, name = line.partition("  ")
        try:
            with (folder / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                    damage["changed"].append(name)
        except OSError:
            damage["missing"].append(name)
        if progress:
            progress(done, len(lines), f"checking {archive.name}")
    problems = [
        f"{len(names)} of {len(lines)} files {what}, first {names[0]}" for what, names in damage.items() if names
    ]
    if receipt.get("files") != len(lines):
        problems = [f"its list of files is damaged: {len(lines)} of {receipt.get('files')} are in it"]
    with contextlib.suppress(OSError):  # where nothing can be written, nothing can be fetched either
        write_json(folder / HIDDEN / f"{archive.name}.json", receipt | {"damage": "; ".join(problems)})
    return "; ".join(problems)


def _root(archive: Archive, packed: Path, files: Mapping[str, Unpacked]) -> str:
    """Find the folder in the archive that contains the marker; archives may have other folders above it."""
    if not files:
        raise ArchiveError(f"{packed} is not {archive.name}; it has no files")
    if archive.marker is None:
        return ""
    marker = PurePosixPath(archive.marker).parts
    roots = set()
    for name in files:
        parts = PurePosixPath(name).parts
        starts = range(len(parts) - len(marker) + 1)
        roots |= {parts[:start] for start in starts if parts[start : start + len(marker)] == marker}
    if not roots:
        raise ArchiveError(f"{packed} is not {archive.name}; it has no {archive.marker}")
    outermost = sorted(roots, key=lambda root: (len(root), root))[:2]
    if len(outermost) == 2 and len(outermost[0]) == len(outermost[1]):
        both = " and ".join("/".join(root) for root in outermost)
        raise ArchiveError(f"{packed} is not {archive.name} alone; {archive.marker} is in {both}")
    return "/".join(outermost[0])


def _require_free(archive: Archive, folder: Path, entries: list[str]) -> None:
    """Refuse to replace what did not come from this archive."""
    own = (read_receipt(archive, folder) or {}).get("entries", [])
    for entry in entries:
        if (folder / entry).exists() and entry not in own:
            raise DataError(
                f"{folder / entry} exists already, and fetch did not install it from {archive.file}; "
                "move it away, or name another folder with --to"
            )


def _move(source: Path, target: Path, hidden: Path) -> None:
    """Move a complete entry to its place; an earlier one is removed only afterwards."""
    old = hidden / "replaced"
    shutil.rmtree(old, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        old.mkdir()
        target.rename(old / target.name)
    source.rename(target)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process at a time work in a folder."""
    if os.name == "nt":  # folders cannot be opened there
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle, wait=True)
        yield
    finally:
        os.close(handle)
