"""Archives to files, trusting nothing: plain files and folders below one new folder, or nothing at all.

Only names and bytes are taken from an archive. Its links, devices, owners, permissions and times are not: the former
are refused, the latter left out, so that nothing depends on what a system makes of them.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from twoafc.errors import DataError
from twoafc.fetch.digests import Progress
from twoafc.fetch.room import require_room, told

CHUNK = 2**20
# Images hardly shrink, tables of votes some twenty times; a bomb shrinks a thousand times.
RATIO, AT_LEAST = 100, 2**24
# Names that mean a device, or another name, to one system or another.
FORBIDDEN = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*[ .]", flags=re.IGNORECASE)
# What the readers of archives stumble over in a damaged one; an error of writing is told before it comes to this.
DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, UnicodeError, NotImplementedError, OSError)


class Member(NamedTuple):
    """A file or folder in an archive; `odd` says what else it is, `stream` reads it."""

    name: str
    size: int
    is_folder: bool
    odd: str
    stream: IO[bytes] | None


class Unpacked(NamedTuple):
    """A file that was unpacked: its size and sha256."""

    bytes: int
    sha256: str


def unpack(
    archive: Path, into: Path, *, most_files: int, most_bytes: int, progress: Progress | None = None
) -> dict[str, Unpacked]:
    """Unpack a .zip, .tar or .tar.gz into a new folder; give its files by name. A refusal leaves no folder.

    Parameters
    ----------
    most_files, most_bytes : int
        What the archive may hold at most; more is refused before it is written.
    """
    into.mkdir(parents=True)
    most_bytes = min(most_bytes, max(AT_LEAST, RATIO * archive.stat().st_size))
    names, files, total = _Names(archive), {}, 0
    try:
        with _members(archive, into, most_bytes) as members:
            for count, member in enumerate(members, start=1):
                if member.odd:
                    raise DataError(f"{archive} is refused; {member.name!r} in it is {member.odd}")
                parts = names.take(member)
                total += member.size
                if count > most_files or total > most_bytes:
                    limit = f"{most_files} entries" if count > most_files else f"{most_bytes} bytes"
                    raise DataError(f"{archive} is refused; it unpacks to more than {limit}")
                unpacked = _write(member, into.joinpath(*parts))
                if unpacked:
                    files["/".join(parts)] = unpacked
                if progress:
                    progress(total, None, f"unpacking {archive.name}")
    except BaseException as error:
        shutil.rmtree(into, ignore_errors=True)
        if isinstance(error, DAMAGED):
            raise DataError(f"{archive} is damaged or cut off: {error}") from error
        raise
    return files


def _write(member: Member, path: Path) -> Unpacked | None:
    """Make a folder, or write a file and hash it on the way."""
    try:
        (path if member.stream is None else path.parent).mkdir(parents=True, exist_ok=True)
        if member.stream is None:
            return None
        size, digest = 0, hashlib.sha256()
        with path.open("xb") as stream:
            while chunk := member.stream.read(CHUNK):
                stream.write(chunk)
                size += len(chunk)
                digest.update(chunk)
    except gzip.BadGzipFile:  # an OSError of reading, not of writing
        raise
    except OSError as error:
        raise told(error, path.parent, path.name) from error
    return Unpacked(size, digest.hexdigest())


class _Names:
    """The names seen so far, none of which may mean the same file as another, on any system."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.folders: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}
        self.files: set[tuple[str, ...]] = set()

    def take(self, member: Member) -> tuple[str, ...]:
        """Give the parts of a member's name, or refuse it."""
        name = member.name
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        odd = name.startswith("/") or any(sign in name for sign in "\\:") or not name.isprintable()
        if odd or any(FORBIDDEN.fullmatch(part) for part in parts) or not (parts or member.is_folder):
            raise DataError(f"{self.archive} is refused; {name!r} in it is no plain relative name")
        self._take_folder(parts if member.is_folder else parts[:-1], name)
        if not member.is_folder:
            key = _folded(parts)
            if key in self.files or key in self.folders:
                raise self._twice(name)
            self.files.add(key)
        return parts

    def _take_folder(self, parts: tuple[str, ...], name: str) -> None:
        key = _folded(parts)
        if key in self.files or self.folders.get(key, parts) != parts:
            raise self._twice(name)
        if key not in self.folders:
            self._take_folder(parts[:-1], name)
            self.folders[key] = parts

    def _twice(self, name: str) -> DataError:
        return DataError(f"{self.archive} is refused; {name!r} in it may mean the same file as another of its names")


def _folded(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Fold what some systems do not tell apart: case, and ways to write an accent."""
    return tuple(unicodedata.normalize("NFC", part).casefold() for part in parts)


@contextmanager
def _members(archive: Path, into: Path, most_bytes: int) -> Iterator[Iterator[Member]]:
    with archive.open("rb") as raw:
        start = raw.read(2)
        raw.seek(0)
        if start == b"PK":
            with zipfile.ZipFile(raw) as opened:
                needed = sum(info.file_size for info in opened.infolist())
                if needed <= most_bytes:  # else it is refused on the way
                    require_room(into, needed, f"what {archive.name} holds")
                yield _of_zip(opened)
            return
        require_room(into, archive.stat().st_size, f"what {archive.name} holds")
        guard = _Guard(gzip.GzipFile(fileobj=raw) if start == b"\x1f\x8b" else raw, most_bytes, archive)
        with tarfile.TarFile(fileobj=guard, mode="r") as tar:  # type: ignore[arg-type]
            yield _of_tar(tar, guard)


def _of_zip(opened: zipfile.ZipFile) -> Iterator[Member]:
    for info in opened.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        odd = "" if kind in (0, stat.S_IFREG, stat.S_IFDIR) else "a link or a device"
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            odd = "encrypted, or packed in an unusual way"
        # The name as it is stored: zipfile cuts it off at a NUL.
        name = info.orig_filename
        if odd or info.is_dir():
            yield Member(name, 0, info.is_dir(), odd, None)
            continue
        with opened.open(info) as stream:
            yield Member(name, info.file_size, False, "", stream)


def _of_tar(opened: tarfile.TarFile, guard: _Guard) -> Iterator[Member]:
    while (info := opened.next()) is not None:
        # Else the list of a million members stays in memory.
        opened.members.clear()  # type: ignore[attr-defined]
        plain = info.isdir() or (info.isreg() and not info.issparse() and info.size >= 0)
        odd = "" if plain else "a link or a device"
        stream = None if odd or info.isdir() else opened.extractfile(info)
        yield Member(info.name, 0 if stream is None else info.size, info.isdir(), odd, stream)
    if guard.last != bytes(tarfile.BLOCKSIZE):
        raise EOFError("it has no end mark")
    # To the very end, where gzip keeps its checksum.
    while guard.read(CHUNK):
        pass


class _Guard:
    """A tar's bytes, forward only and with a limit: the headers of a bomb may be as large as any file."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, most_bytes: int, archive: Path) -> None:
        self.stream, self.archive = stream, archive
        # Each file may bring a header and its padding.
        self.most = 2 * most_bytes + AT_LEAST
        self.last = b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= CHUNK or self.stream.tell() > self.most:
            raise DataError(f"{self.archive} is refused; its headers are out of all proportion")
        found = self.stream.read(size)
        self.last = found or self.last
        return found

    def tell(self) -> int:
        return self.stream.tell()

    def seek(self, offset: int) -> int:
        # A forged size may lead back, to the same member for ever.
        if offset < self.tell():
            raise DataError(f"{self.archive} is refused; its headers are out of all proportion")
        return self.stream.seek(offset)
