"""Operations on files that all modules of `twoafc.fetch` need: digests, free space, JSON notes, new folders."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from twoafc.errors import DataError
from twoafc.files import write_text

CHUNK = 2**20
# Disk full, quota exceeded, file larger than the system allows: the remedy is the same.
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

Progress = Callable[[int, int | None, str], None]
"""Called with the bytes done, the total bytes if known, and a description."""


def compare_digest(path: Path, expected: str | None, *, progress: Progress | None = None) -> tuple[str, str]:
    """Return a file's sha256, and how the file differs from an expected digest, or ""; None expects any file."""
    method, _, value = (expected or "sha256").partition(" ")
    digests = {name: hashlib.new(name, usedforsecurity=False) for name in {"sha256", method}}
    total, done = path.stat().st_size, 0
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            for digest in digests.values():
                digest.update(chunk)
            done += len(chunk)
            if progress:
                progress(done, total, f"checking {path.name}")
    sha256, computed = digests["sha256"].hexdigest(), digests[method].hexdigest()
    return sha256, f"its {method} is {computed}, expected {value}" if value and computed != value else ""


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
    """Format a number of bytes, such as 244.4 MB."""
    return "unknown" if size is None else decimal(size)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder; if the work inside fails, remove the folders that were made and are still empty."""
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
    """Read a note; None if there is none, or if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def write_json(path: Path, note: dict[str, Any]) -> None:
    """Write a note completely or not at all."""
    write_text(json.dumps(note, indent=1), path)
