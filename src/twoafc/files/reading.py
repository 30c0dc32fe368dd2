"""The one place where a user's files are opened: regular files alone, which end, and do not keep a reader waiting."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from twoafc.errors import DataError

SPECIAL = (
    (stat.S_ISDIR, "a folder, not a file"),
    (stat.S_ISFIFO, "a pipe; save it to a file first"),
    (stat.S_ISCHR, "a device, not a file"),
    (stat.S_ISBLK, "a device, not a file"),
    (stat.S_ISSOCK, "a socket, not a file"),
)


class NotAFileError(OSError):
    """What is at a path is a folder, a pipe or a device; `strerror` says which."""

    def __str__(self) -> str:
        return f"{self.filename} is {self.strerror}"


def open_file(path: str | Path) -> BinaryIO:
    """Open a file for reading; links to files are followed, and all that is no file is refused.

    Raises
    ------
    OSError
        Of the system, or `NotAFileError`.
    """
    # Without waiting for somebody who writes into a pipe.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _require_regular(os.fstat(handle), path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_file(path: str | Path) -> None:
    """Raise a `DataError` where there is no file that could be read.

    Examples
    --------
    >>> require_file("/dev/null")
    Traceback (most recent call last):
        ...
    twoafc.DataError: /dev/null is a device, not a file
    """
    try:
        _require_regular(os.stat(path), path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"no such file: {path}") from error
    except NotAFileError as error:
        raise DataError(str(error)) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def require_utf8(start: bytes) -> None:
    """Raise a `DataError` where a text begins as UTF-16 does, which spreadsheets call Unicode.

    Examples
    --------
    >>> require_utf8("n,M".encode("utf-16"))
    Traceback (most recent call last):
        ...
    twoafc.DataError: a table must be text in UTF-8; found UTF-16: save it again as "CSV UTF-8"
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in start[:4]:
        raise DataError('a table must be text in UTF-8; found UTF-16: save it again as "CSV UTF-8"')


def _require_regular(state: os.stat_result, path: str | Path) -> None:
    for is_kind, kind in SPECIAL:
        if is_kind(state.st_mode):
            raise NotAFileError(errno.EINVAL, kind, str(path))
