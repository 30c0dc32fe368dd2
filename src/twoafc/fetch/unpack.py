"""Unpack untrusted archives, and install a data set from one, completely or not at all.

Only names and bytes are taken from an archive; links and devices are refused. ``tarfile``'s ``filter="data"`` is not
enough: it accepts links, names that collide or mean devices on other systems, and bombs; zip files have no filter.
"""

from __future__ import annotations

import contextlib
import datetime
import gzip
import hashlib
import os
import re
import shutil
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from twoafc.errors import DataError
from twoafc.fetch.disk import CHUNK, Progress, new_folder, read_json, require_space, write_error, write_json
from twoafc.fetch.registry import HIDDEN, Archive, digest_source
from twoafc.files import lock, write_text

# Images hardly compress, tables of votes some twenty times; a bomb compresses a thousand times.
RATIO, AT_LEAST = 100, 2**24
# Names that mean a device, or another name, on one system or another.
FORBIDDEN = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*[ .]", flags=re.IGNORECASE)
# Errors on reading a damaged archive; errors on writing are converted before.
DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, UnicodeError, NotImplementedError, OSError)

Receipt = dict[str, Any]
Names = dict[tuple[str, ...], tuple[tuple[str, ...], bool]]
"""By a name as a system may fold it: the name itself, and whether it is a folder."""


class ArchiveError(DataError):
    """An archive that is refused, for a reason other than the disk or the folder."""


class Member(NamedTuple):
    """A file or folder in an archive."""

    name: str
    size: int
    is_folder: bool
    problem: str  # why it is refused, or ""
    stream: IO[bytes] | None


class Unpacked(NamedTuple):
    """An unpacked file: its size and sha256."""

    bytes: int
    sha256: str


def unpack(
    archive: Path, into: Path, *, most_files: int, most_bytes: int, progress: Progress | None = None
) -> dict[str, Unpacked]:
    """Unpack a .zip, .tar or .tar.gz into a new folder, and return its files by name; a refusal leaves no folder.

    Parameters
    ----------
    most_files, most_bytes : int
        Limits; an archive that exceeds one is refused before more is written.
    """
    into.mkdir(parents=True)
    most_bytes = min(most_bytes, max(AT_LEAST, RATIO * archive.stat().st_size))
    names, files, total = Names(), {}, 0
    try:
        with _members(archive, into, most_bytes) as members:
            for count, member in enumerate(members, start=1):
                parts = tuple(part for part in member.name.split("/") if part not in ("", "."))
                if problem := member.problem or _name_problem(member, parts, names):
                    raise ArchiveError(f"{archive} is refused; {member.name!r} in it {problem}")
                total += member.size
                if count > most_files or total > most_bytes:
                    limit = f"{most_files} entries" if count > most_files else f"{most_bytes} bytes"
                    raise ArchiveError(f"{archive} is refused; it unpacks to more than {limit}")
                unpacked = _write(member, into.joinpath(*parts))
                if unpacked:
                    files["/".join(parts)] = unpacked
                if progress:
                    progress(total, None, f"unpacking {archive.name}")
    except BaseException as error:
        shutil.rmtree(into, ignore_errors=True)
        if isinstance(error, DAMAGED):
            raise ArchiveError(f"{archive} is damaged or incomplete: {error}") from error
        raise
    return files


def _write(member: Member, path: Path) -> Unpacked | None:
    """Make a folder, or write a file and compute its digest."""
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
        raise write_error(error, path.parent, path.name) from error
    return Unpacked(size, digest.hexdigest())


def _name_problem(member: Member, parts: tuple[str, ...], names: Names) -> str:
    """Return why a member's name is refused, or ""; add the name, and those of the folders above it, to `names`.

    No two names may mean the same file on any system: some do not distinguish case, or Unicode forms of an accent.
    """
    odd = member.name.startswith("/") or any(sign in member.name for sign in "\\:") or not member.name.isprintable()
    if odd or any(FORBIDDEN.fullmatch(part) for part in parts) or not (parts or member.is_folder):
        return "is not a plain relative path"
    folded = tuple(unicodedata.normalize("NFC", part).casefold() for part in parts)
    for end in range(1, len(parts) + 1):
        is_folder = member.is_folder or end < len(parts)
        key, name = folded[:end], (parts[:end], is_folder)
        if key in names and (names[key] != name or not is_folder):
            return "may mean the same file as another of its names"
        names[key] = name
    return ""


@contextlib.contextmanager
def _members(archive: Path, into: Path, most_bytes: int) -> Iterator[Iterator[Member]]:
    with archive.open("rb") as raw:
        start = raw.read(2)
        raw.seek(0)
        if start == b"PK":
            with zipfile.ZipFile(raw) as opened:
                needed = sum(info.file_size for info in opened.infolist())
                if needed <= most_bytes:  # otherwise it is refused later
                    require_space(into, needed, f"the contents of {archive.name}")
                yield _zip_members(opened)
            return
        require_space(into, archive.stat().st_size, f"the contents of {archive.name}")
        guard = _Guard(gzip.GzipFile(fileobj=raw) if start == b"\x1f\x8b" else raw, most_bytes, archive)
        with tarfile.TarFile(fileobj=guard, mode="r") as tar:  # type: ignore[arg-type]
            yield _tar_members(tar, guard)


def _zip_members(opened: zipfile.ZipFile) -> Iterator[Member]:
    for info in opened.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        problem = "" if kind in (0, stat.S_IFREG, stat.S_IFDIR) else "is a link or a device"
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            problem = "is encrypted, or compressed by an unusual method"
        # The name as it is stored: zipfile cuts it off at a NUL.
        name = info.orig_filename
        if problem or info.is_dir():
            yield Member(name, 0, info.is_dir(), problem, None)
            continue
        with opened.open(info) as stream:
            yield Member(name, info.file_size, False, "", stream)


def _tar_members(opened: tarfile.TarFile, guard: _Guard) -> Iterator[Member]:
    while (info := opened.next()) is not None:
        # Otherwise the list of a million members stays in memory.
        opened.members.clear()  # type: ignore[attr-defined]
        plain = info.isdir() or (info.isreg() and not info.issparse() and info.size >= 0)
        stream = opened.extractfile(info) if plain and not info.isdir() else None
        problem = "" if plain else "is a link or a device"
        yield Member(info.name, 0 if stream is None else info.size, info.isdir(), problem, stream)
    if guard.last != bytes(tarfile.BLOCKSIZE):
        raise EOFError("it has no end mark")
    # To the very end, where gzip stores its checksum.
    while guard.read(CHUNK):
        pass


class _Guard:
    """A tar's bytes, read forward only and with a limit: the headers of a bomb may be as large as any file."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, most_bytes: int, archive: Path) -> None:
        self.stream, self.archive = stream, archive
        # Each file may add a header and padding.
        self.most = 2 * most_bytes + AT_LEAST
        self.last = b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= CHUNK or self.stream.tell() > self.most:
            raise ArchiveError(f"{self.archive} is refused; its headers are too large")
        content = self.stream.read(size)
        self.last = content or self.last
        return content

    def tell(self) -> int:
        return self.stream.tell()

    def seek(self, offset: int) -> int:
        # A forged size may point back, to the same member for ever.
        if offset < self.tell():
            raise ArchiveError(f"{self.archive} is refused; its headers point backwards")
        return self.stream.seek(offset)


# Installing a data set


def read_receipt(archive: Archive, folder: Path) -> Receipt | None:
    """Read the receipt of a data set in a folder, or return None."""
    return read_json(folder / HIDDEN / f"{archive.name}.json")


def install(archive: Archive, packed: Path, folder: Path, *, sha256: str, progress: Progress | None = None) -> Receipt:
    """Unpack a checked archive into the data set's folder, completely or not at all.

    Parameters
    ----------
    packed, sha256 : Path, str
        The archive, and its digest, for the receipt.
    folder : Path
        The data set's folder. What this archive installed there before is replaced; nothing else is.

    Returns
    -------
    dict
        The receipt, which is also stored in the folder, beside a list that ``sha256sum --check`` reads.
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
            _damage_note(archive, folder).unlink(missing_ok=True)
        except OSError as error:
            raise write_error(error, folder, archive.name) from error
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
    return receipt


def find_damage(archive: Archive, folder: Path, *, progress: Progress | None = None) -> str:
    """Read every file of a data set again; return a description of the damage, or "".

    The result is noted, so that a damaged data set is fetched again on request.
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
    note = _damage_note(archive, folder)
    with contextlib.suppress(OSError):  # where nothing can be written, nothing can be fetched either
        if problems:
            note.write_text("; ".join(problems), encoding="utf-8")
        else:
            note.unlink(missing_ok=True)
    return "; ".join(problems)


def noted_damage(archive: Archive, folder: Path) -> str:
    """Return what `find_damage` reported the last time."""
    try:
        return _damage_note(archive, folder).read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""


def _damage_note(archive: Archive, folder: Path) -> Path:
    return folder / HIDDEN / f"{archive.name}.damaged"


def _root(archive: Archive, packed: Path, files: Mapping[str, Unpacked]) -> str:
    """Find the folder in the archive that holds the marker; archives may have other folders above it."""
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
