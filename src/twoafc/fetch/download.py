"""One file from a server to the disk, continued where it stopped.

By urllib alone: it knows proxies, redirects and certificates, and is one dependency less. What has come is kept in a
hidden file, which gets its name elsewhere, when it has been checked.
"""

from __future__ import annotations

import http.client
import os
import re
import ssl
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

import twoafc
from twoafc.errors import DataError
from twoafc.fetch.digests import Progress
from twoafc.fetch.places import read_json, write_json
from twoafc.fetch.room import in_words, require_room, told

CHUNK = 2**18
TIMEOUT = 30.0
ATTEMPTS = 4
"""Tries without a gain after which the connection is given up."""
PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Answers that another try may better."""


class Broken(Exception):  # noqa: N818 - not an error of the caller's: it is tried again
    """A connection that ended early, or a server that was not up to it."""


@dataclass(frozen=True)
class Source:
    """What to bring.

    Parameters
    ----------
    url : str
        Https; http from this machine alone.
    bytes : int or None
        The exact size, where it is known.
    checked : bool
        Whether a digest will tell if the halves of a broken download do not belong together.
    """

    url: str
    bytes: int | None = None
    checked: bool = True


def download(source: Source, part: Path, *, progress: Progress | None = None, pause: float = 1.0) -> None:
    """Bring a file, whole, to the path `part`; what lies there already is continued.

    Parameters
    ----------
    pause : float
        Seconds before a second try; doubled before each further one.
    """
    if not _safe(source.url):
        raise DataError(f"only https is fetched; got {source.url}")
    part.parent.mkdir(parents=True, exist_ok=True)
    with _alone(part) as stream:
        best, failures = _size(stream), 0
        while True:
            try:
                _continue(source, stream, part, progress)
                break
            except Broken as broken:
                # What counts is how far it got at best: a server that starts anew each time gains nothing.
                size = _size(stream)
                best, failures = max(best, size), 0 if size > best else failures + 1
                if failures == ATTEMPTS:
                    raise DataError(_given_up(source, size, broken)) from broken
                time.sleep(pause * 2.0 ** (failures - 1))
        os.fsync(stream.fileno())


def finish(part: Path, path: Path) -> None:
    """Give what has come its name."""
    part.replace(path)
    _note_of(part).unlink(missing_ok=True)


def abandon(part: Path) -> None:
    """Remove what has come, if anything."""
    part.unlink(missing_ok=True)
    _note_of(part).unlink(missing_ok=True)


def _continue(source: Source, stream: IO[bytes], part: Path, progress: Progress | None) -> None:
    """Bring what is missing in one try, or raise `Broken`."""
    note = read_json(_note_of(part)) or {}
    start, validator = _size(stream), note.get("validator")
    if note.get("url") != source.url or not (validator or source.checked) or start > (source.bytes or start):
        start = _begin_again(stream)
    if start and start == source.bytes:
        return
    with _ask(source.url, start, validator, part) as answer:
        if answer.status == 416:
            return
        if start and answer.status != 206:
            start = _begin_again(stream)
        total = _total(answer, start, part)
        if None not in (source.bytes, total) and total != source.bytes:
            raise DataError(f"{source.url} has {total} bytes, and {source.bytes} are published: it is another file")
        total = source.bytes if total is None else total
        require_room(part.parent, (total or 0) - start, _name(part))
        tag = answer.headers.get("ETag") or ""
        # A weak tag does not promise equal bytes.
        validator = tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified")
        write_json(_note_of(part), {"url": source.url, "validator": validator})
        _receive(answer, stream, total, part, progress)


def _ask(url: str, start: int, validator: str | None, part: Path) -> Any:
    """Ask the server for all from a byte on; an answer with status 416 says that there is no more."""
    headers = {"User-Agent": f"twoafc/{twoafc.__version__}", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-"} | ({"If-Range": validator} if validator else {})
    try:
        return _opener().open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        if error.code == 416 and error.headers.get("Content-Range") == f"bytes */{start}":
            return error
        with error:
            if error.code == 416 and start:
                _forget(part)
                raise Broken("what has come is more than the server has") from error
            if error.code in PASSING:
                raise Broken(f"{error.code} {error.reason}") from error
            raise DataError(f"{url} was answered with {error.code} {error.reason}") from error
    except (URLError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise DataError(f"{url} cannot be trusted: {reason.verify_message}") from error
        raise Broken(_words(reason)) from error


def _total(answer: Any, start: int, part: Path) -> int | None:
    """Size of the whole file by the answer's headers, where they tell it."""
    if answer.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range") or "")
        if found is None or int(found[1]) != start:
            _forget(part)
            raise Broken("the server sent another part than it was asked for")
        return None if found[2] == "*" else int(found[2])
    length = answer.headers.get("Content-Length") or ""
    return int(length) if length.isdecimal() else None


def _receive(answer: Any, stream: IO[bytes], total: int | None, part: Path, progress: Progress | None) -> None:
    done = _size(stream)
    while True:
        if progress:
            progress(done, total, _name(part))
        try:
            chunk = memoryview(answer.read1(CHUNK))
        except (OSError, http.client.HTTPException) as error:
            raise Broken(_words(error)) from error
        if not chunk:
            break
        done += len(chunk)
        if total is not None and done > total:
            _forget(part)
            raise Broken(f"more than {total} bytes came")
        try:
            while chunk:
                chunk = chunk[stream.write(chunk) :]
        except OSError as error:
            kept = f"{in_words(_size(stream))} of {in_words(total)} are kept, and the same command continues"
            raise DataError(f"{told(error, part.parent, _name(part))}; {kept}") from error
    if total is not None and done < total:
        raise Broken("the connection was closed early")


def _given_up(source: Source, size: int, broken: Broken) -> str:
    host = urlsplit(source.url).hostname
    kept = f"{in_words(size)} have come and are kept: the same command continues there" if size else "nothing has come"
    return f"{host} could not be reached, or broke off, {ATTEMPTS} times ({broken}); {kept}"


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to https alone, and from this machine to itself."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not _safe(newurl) or (_local(newurl) and not _local(req.full_url)):
            fp.close()
            raise DataError(f"only https is followed; {req.full_url} leads to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Redirects())


def _local(url: str) -> bool:
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


def _safe(url: str) -> bool:
    return urlsplit(url).scheme == "https" or (urlsplit(url).scheme == "http" and _local(url))


@contextmanager
def _alone(part: Path) -> Iterator[IO[bytes]]:
    """Open what has come so far, for this process alone; the system forgets the lock with the process."""
    with part.open("ab", buffering=0) as stream:
        try:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(f"another process is fetching {_name(part)} into {part.parent}; wait for it") from error
        except (ImportError, OSError):  # no such locks on this system, or on this disk
            pass
        try:
            yield stream
        except BaseException:
            if not _size(stream):
                abandon(part)
            raise


def _size(stream: IO[bytes]) -> int:
    return os.fstat(stream.fileno()).st_size


def _begin_again(stream: IO[bytes]) -> int:
    stream.truncate(0)
    return 0


def _note_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _forget(part: Path) -> None:
    """Let the next try begin again."""
    _note_of(part).unlink(missing_ok=True)


def _name(part: Path) -> str:
    return part.name.removeprefix(".").removesuffix(".part")


def _words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
