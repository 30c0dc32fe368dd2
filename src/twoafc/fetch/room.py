"""Room on the disk: asked for before the work, and a clear word where it ends during the work."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from twoafc.errors import DataError

# Disk full, quota used up, file larger than the system allows: what the user can do about them is the same.
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def require_room(folder: Path, needed: int, what: str) -> None:
    """Refuse to begin what the disk has no room for."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"there is no room for {what}; it needs {in_words(needed)} and {folder} has {in_words(free)} left; "
            "free some, or name another folder with --to"
        )


def told(error: OSError, folder: Path, what: str) -> DataError:
    """Say why writing failed, and what to do about it."""
    if error.errno in NO_ROOM:
        return DataError(
            f"the disk is full; {what} could not be written to {folder} ({error.strerror}); free some room"
        )
    return DataError(f"{what} could not be written to {folder}: {error.strerror}")


def in_words(size: int | None) -> str:
    """Write a number of bytes for people.

    Examples
    --------
    >>> in_words(244408911), in_words(6009), in_words(12), in_words(None)
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
