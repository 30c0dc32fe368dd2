"""Download one file, and resume where an earlier attempt stopped.

`urllib` handles proxies, redirects and certificates; `pooch` is not used because it cannot resume, and data sets have
gigabytes. An incomplete download is kept in a hidden file, which the caller renames after checking it by the published
digest, or by the checksums inside an archive. Both show whether the file on the server has changed between two parts.
"""

from __future__ import annotations

import errno
import http.client
import os
import re
import shutil
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from rich.filesize import decimal

import twoafc
from twoafc.errors import DataError
from twoafc.files import lock

Progress = Callable[[int, int | None, str], None]
"""Called with the bytes done, the total bytes if known, and a description."""
CHUNK = 2**18
TIMEOUT = 30.0
ATTEMPTS = 4
"""Attempts without progress after which the download fails."""
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}
"""Status codes after which another attempt may succeed."""
# Disk full, quota exceeded, file larger than the system allows: the remedy is the same.
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
AT_MOST = "the published file has {} at most: it is another file"


class AttemptError(Exception):
    """A failed attempt that may be repeated: the connection ended early, or the server has a temporary problem."""


@dataclass(frozen=True)
class RemoteFile:
    """What to download."""

    url: str  # https; http from this machine only
    bytes: int | None = None  # the exact size, if it is known
    most: int | None = None  # the most bytes that it can have, if its size is not known


def download(source: RemoteFile, part: Path, *, progress: Progress | None = None, pause: float = 1.0) -> None:
    """Download a file completely to the path `part`; a partial download there is resumed.

    The second attempt comes after `pause` seconds, which are doubled before each further one.
    """
    if not _safe(source.url):
        raise DataError(f"only https is accepted; got {source.url}")
    part.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(part) as stream:
        best, failures = _size(stream), 0
        while True:
            try:
                _attempt(source, stream, part, progress)
                break
            except AttemptError as error:
                # Progress is measured from the best attempt: a server that always starts again makes none.
                size = _size(stream)
                best, failures = max(best, size), 0 if size > best else failures + 1
                if failures == ATTEMPTS:
                    kept = f"{format_size(size)} are kept; run the same command to continue"
                    kept = kept if size else "nothing was downloaded"
                    host = urlsplit(source.url).hostname
                    raise DataError(f"the download from {host} failed {ATTEMPTS} times ({error}); {kept}") from error
                time.sleep(pause * 2.0 ** (failures - 1))
        os.fsync(stream.fileno())


def _attempt(source: RemoteFile, stream: IO[bytes], part: Path, progress: Progress | None) -> None:
    """Download what is missing, or raise `AttemptError`."""
    start = _size(stream)
    if start > (source.bytes or source.most or start):
        start = stream.truncate(0)
    if start and start == source.bytes:
        return
    with _request(source.url, start, stream) as response:
        if response.status == 416:
            return
        if start and response.status != 206:
            start = stream.truncate(0)
        total = _total(response, start, stream)
        if None not in (source.bytes, total) and total != source.bytes:
            raise DataError(
                f"{source.url} has {total} bytes, and the published file {source.bytes}: it is another file"
            )
        total = source.bytes if total is None else total
        if total and source.most and total > source.most:
            raise DataError(f"{source.url} has {format_size(total)}; {AT_MOST.format(format_size(source.most))}")
        require_space(part.parent, (total or 0) - start, _name(part))
        _receive(source, response, stream, total, part, progress)


def _request(url: str, start: int, stream: IO[bytes]) -> Any:
    """Request all bytes from `start` on; a response with status 416 says that there are no more."""
    headers = {"User-Agent": f"twoafc/{twoafc.__version__}", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-"}
    try:
        opener = urllib.request.build_opener(_Redirects())
        return opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        if error.code == 416 and error.headers.get("Content-Range") == f"bytes */{start}":
            return error
        with error:
            if error.code == 416 and start:
                stream.truncate(0)
                raise AttemptError("the partial download is longer than the file") from error
            if error.code in TEMPORARY:
                raise AttemptError(f"{error.code} {error.reason}") from error
            raise DataError(f"{url} returned {error.code} {error.reason}") from error
    except (URLError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise DataError(f"{url} cannot be trusted: {reason.verify_message}") from error
        raise AttemptError(_reason(reason)) from error


def _total(response: Any, start: int, stream: IO[bytes]) -> int | None:
    """Size of the whole file by the headers of the response, or None."""
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range") or "")
        if match is None or int(match[1]) != start:
            stream.truncate(0)
            raise AttemptError("the server sent another part than requested")
        return None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length") or ""
    return int(length) if length.isdecimal() else None


def _receive(
    source: RemoteFile, response: Any, stream: IO[bytes], total: int | None, part: Path, progress: Progress | None
) -> None:
    done = _size(stream)
    while True:
        if progress:
            progress(done, total, _name(part))
        try:
            chunk = memoryview(response.read1(CHUNK))
        except (OSError, http.client.HTTPException) as error:
            raise AttemptError(_reason(error)) from error
        if not chunk:
            break
        done += len(chunk)
        if total is not None and done > total:
            stream.truncate(0)
            raise AttemptError(f"the server sent more than {total} bytes")
        if source.most and done > source.most:
            stream.truncate(0)
            limit = AT_MOST.format(format_size(source.most))
            raise DataError(f"{source.url} sends no length, and does not end; {limit}; nothing is kept")
        try:
            while chunk:
                chunk = chunk[stream.write(chunk) :]
        except OSError as error:
            kept = f"{format_size(_size(stream))} of {format_size(total)} are kept; run the same command to continue"
            raise DataError(f"{write_error(error, part.parent, _name(part))}; {kept}") from error
    if total is not None and done < total:
        raise AttemptError("the connection was closed early")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to https only, and from this machine to itself."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not _safe(newurl) or (_local(newurl) and not _local(req.full_url)):
            fp.close()
            raise DataError(f"only https is accepted; {req.full_url} redirects to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _local(url: str) -> bool:
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


def _safe(url: str) -> bool:
    return urlsplit(url).scheme == "https" or (urlsplit(url).scheme == "http" and _local(url))


@contextmanager
def _exclusive(part: Path) -> Iterator[IO[bytes]]:
    """Open a partial download for this process only; if the work fails and it is empty, remove it."""
    with part.open("ab", buffering=0) as stream:
        if lock(stream.fileno()) is False:
            raise DataError(f"another process is fetching {_name(part)} into {part.parent}; wait for it")
        try:
            yield stream
        except BaseException:
            if not _size(stream):
                part.unlink(missing_ok=True)
            raise


def _size(stream: IO[bytes]) -> int:
    return os.fstat(stream.fileno()).st_size


def _name(part: Path) -> str:
    return part.name.removeprefix(".").removesuffix(".part")


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def write_error(error: OSError, folder: Path, what: str) -> DataError:
    """Make the error for a failed write: why it failed, and what to do."""
    if error.errno in NO_SPACE:
        return DataError(
            f"the disk is full; {what} could not be written to {folder} ({error.strerror}); free some space"
        )
    return DataError(f"{what} could not be written to {folder}: {error.strerror}")


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raise DataError if the disk has less than `needed` bytes left."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"there is no space for {what}; it needs {format_size(needed)} and {folder} has {format_size(free)} left; "
            "free some, or name another folder with --to"
        )


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder; if the work inside fails, remove the folders that were made and are still empty."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):  # of a folder that is not empty, and those above it
            for path in new:
                path.rmdir()
        raise


def format_size(size: int | None) -> str:
    """Format a number of bytes, such as 244.4 MB."""
    return "unknown" if size is None else decimal(size)
