"""Open users' files, and make their text safe to show.

Only regular files are accepted: pipes and devices may block, or never end.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from twoafc.errors import DataError, first_line

# Control characters (C0, DEL, C1), surrogates, and the two codes that are never characters.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
BREAKS = "\t\n\r"
_PRINTING = threading.RLock()
"""Standard error belongs to the whole process."""

SPECIAL = (
    (stat.S_ISDIR, "a folder, not a file"),
    (stat.S_ISFIFO, "a pipe; save it to a file first"),
    (stat.S_ISCHR, "a device, not a file"),
    (stat.S_ISBLK, "a device, not a file"),
    (stat.S_ISSOCK, "a socket, not a file"),
)


class NotAFileError(OSError):
    """A path is a folder, a pipe or a device; `strerror` says which."""

    def __str__(self) -> str:
        return f"{self.filename} is {self.strerror}"


def open_file(path: str | Path) -> BinaryIO:
    """Open a regular file for reading, or raise OSError; links to files are followed."""
    # Without waiting for a process that writes into a pipe.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _require_regular(os.fstat(handle), path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_file(path: str | Path) -> None:
    """Raise a `DataError` unless a path is a file that could be read."""
    try:
        _require_regular(os.stat(path), path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"no such file: {path}") from error
    except NotAFileError as error:
        raise DataError(str(error)) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def require_format(found: object, expected: int, what: str, remedy: str) -> None:
    """Raise a `DataError` for a file of another format than this version reads; `what` names the file."""
    if type(found) is not int or found != expected:
        raise DataError(f"{what} is of format {found!r}, this version reads {expected}: {remedy}")


@contextmanager
def reading_parquet(path: str | Path) -> Iterator[None]:
    """Raise a `DataError` if polars cannot read a Parquet file; messages of polars itself are not printed."""
    import polars as pl

    try:
        with quiet_polars(path):
            yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        panic = isinstance(error, pl.exceptions.PanicException)  # its message is about the code of polars
        raise DataError(f"{path}: not a readable Parquet file: {'damaged' if panic else first_line(error)}") from error


@contextmanager
def reading_csv() -> Iterator[None]:
    """Raise a `DataError` if a CSV file, packed or not, cannot be read; it does not name the file."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, UnicodeDecodeError, OSError, EOFError) as error:
        raise DataError(f"not a readable CSV file: {first_line(error)}") from error


@contextmanager
def quiet_polars(path: str | Path) -> Iterator[None]:
    """Suppress messages of polars if it fails; if it aborts for lack of memory, print one line and exit with code 2.

    Messages of other code on standard error are printed afterwards, unless polars failed.
    """
    with unprinted() as kept, _one_line_of_aborts(path):
        yield
        kept.seek(0)
        printed = kept.read()
    with suppress(OSError):
        os.write(2, printed)


@contextmanager
def _one_line_of_aborts(path: str | Path) -> Iterator[None]:
    """If the process aborts, print one line and exit with code 2."""
    if os.name != "posix":
        yield
        return
    system = ctypes.CDLL(None)
    system.signal.restype, system.signal.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)

    def end(_: int) -> None:
        what = f"{legible(str(path))} asks for more memory than there is; is the file damaged?"
        print(f"twoafc: {what}", file=sys.stderr, flush=True)
        os._exit(2)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(end)
    before = system.signal(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        system.signal(signal.SIGABRT, before)


@contextmanager
def unprinted() -> Iterator[BinaryIO]:
    """Redirect what libraries write to standard error to a file, which is yielded; Python's own output is printed."""
    with _PRINTING, tempfile.TemporaryFile() as kept:
        stream, shown = sys.stderr, os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            with suppress(OSError, ValueError, AttributeError):  # a stream may be none, closed, or no file
                if stream.fileno() == 2:
                    sys.stderr = os.fdopen(shown, "w", encoding="utf-8", errors="replace", closefd=False)
            yield kept
        finally:
            if sys.stderr is not None:
                sys.stderr.flush()
            sys.stderr = stream
            os.dup2(shown, 2)
            os.close(shown)


def _require_regular(state: os.stat_result, path: str | Path) -> None:
    for is_kind, kind in SPECIAL:
        if is_kind(state.st_mode):
            raise NotAFileError(errno.EINVAL, kind, str(path))


def legible(text: str, keep: str = "") -> str:
    r"""Replace control characters and other invisible codes, except those to keep, by a replacement sign.

    Examples
    --------
    >>> legible("ssim\x1b[31m\n"), legible("ssim\x07\n", keep=BREAKS)
    ('ssim�[31m�', 'ssim�\n')
    """
    return STEERING.sub(lambda match: match[0] if match[0] in keep else "\ufffd", text)
