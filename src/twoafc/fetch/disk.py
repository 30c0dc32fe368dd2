"""Small operations on files that all of `twoafc.fetch` needs: digests, free space, JSON notes, new folders."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from twoafc.errors import DataError
from twoafc.files import whole_file

CHUNK = 2**20
# Disk full, quota exceeded, file larger than the system allows: the remedy is the same.
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

Progress = Callable[[int, int | None, str], None]
"""Called with the bytes done, the bytes in all where that is known, and a description."""


def digests(path: Path, methods: tuple[str, ...] = (), *, progress: Progress | None = None) -> dict[str, str]:
    """Compute the sha256 of a file, and other digests in the same pass.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a")
    ...     _ = path.write_bytes(b"abc")
    ...     result = digests(path, ("md5",))
    >>> result["sha256"][:8], result["md5"][:8]
    ('ba7816bf', '90015098')
    """
    running = {method: hashlib.new(method, usedforsecurity=False) for method in ("sha256", *methods)}
    total, done = path.stat().st_size, 0
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            for digest in running.values():
                digest.update(chunk)
            done += len(chunk)
            if progress:
                progress(done, total, f"checking {path.name}")
    return {method: digest.hexdigest() for method, digest in running.items()}


def compare_digest(path: Path, expected: str | None, *, progress: Progress | None = None) -> tuple[str, str]:
    """Return a file's sha256, and how the file differs from an expected digest, or "".

    Parameters
    ----------
    expected : str or None
        Such as ``"sha256 ba78..."``; None accepts any file.
    """
    method, _, value = (expected or "sha256").partition(" ")
    computed = digests(path, (method,) if method != "sha256" else (), progress=progress)
    differs = bool(value) and computed[method] != value
    return computed["sha256"], f"its {method} is {computed[method]}, expected {value}" if differs else ""


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raise DataError if the disk has less than `needed` bytes left."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"there is no space for {what}; it needs {format_size(needed)} and {folder} has {format_size(free)} left; "
            "free some, or name another folder with --to"
        )


def write_error(error: OSError, folder: Path, what: str) -> DataError:
    """Make the error for a failed write: why it failed, and what to do."""
    if error.errno in NO_SPACE:
        return DataError(
            f"the disk is full; {what} could not be written to {folder} ({error.strerror}); free some space"
        )
    return DataError(f"{what} could not be written to {folder}: {error.strerror}")


def format_size(size: int | None) -> str:
    """Write a number of bytes for people.

    Examples
    --------
    >>> format_size(244408911), format_size(6009), format_size(12), format_size(None)
    ('244 MB', '6.0 kB', '12 bytes', 'unknown')
    """
    if size is None:
        return "unknown"
    value, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "bytes" or value >= 10 else f"{value:.1f} {unit}"


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder for the work inside; if that fails, remove what was made and is still empty."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # of a folder that is not empty, and those above it
            for path in new:
                path.rmdir()
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a note, or return None where there is none that can be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def write_json(path: Path, note: dict[str, Any]) -> None:
    """Write a note completely or not at all."""
    with whole_file(path) as partial, partial.open("w", encoding="utf-8") as stream:
        json.dump(note, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
