"""A server on this machine that misbehaves on request, and small files for it to serve."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import re
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoafc import fetch
from twoafc.distances import Published
from twoafc.errors import DataError
from twoafc.fetch import Archive

CONTENT = b"PK" + np.random.default_rng(0).bytes(300_000)


@dataclasses.dataclass
class Answer:
    """How the server answers: what, with which headers, and where it breaks off (each number is used once)."""

    content: bytes = CONTENT
    status: int = 200
    ranges: bool = True
    length: bool = True
    cuts: list[int] = dataclasses.field(default_factory=list)
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    sent: list[int] = dataclasses.field(default_factory=list)
    asked: list[dict[str, str]] = dataclasses.field(default_factory=list)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    answers: dict[str, Answer]

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        answer = self.server.answers[self.path.rpartition("/")[2]]
        answer.asked.append(dict(self.headers))
        body, status, start, last = answer.content, answer.status, 0, len(answer.content) - 1
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked and status == 200 and answer.ranges:
            if asked[1]:
                start, last = int(asked[1]), min(last, int(asked[2] or last))
            else:
                start = max(len(body) - int(asked[2]), 0)
            status = 206 if start < len(body) else 416
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(body)}")
        if status == 416:
            self.send_header("Content-Range", f"bytes */{len(body)}")
        body = body[start : last + 1]
        if answer.length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if status != 416 and self.command != "HEAD":
            body = body[: answer.cuts.pop(0)] if answer.cuts else body
            answer.sent.append(len(body))
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server that has one file, and others that the test adds."""
    with Server(("127.0.0.1", 0), Handler) as running:
        running.answers = {"file": Answer()}
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


FILES = {
    f"{subset}/{folder}/{stem:06}{'.npy' if folder == 'judge' else '.png'}": f"{subset}{folder}{stem}".encode() * 9
    for subset in ("cnn", "traditional")
    for folder in ("ref", "p0", "p1", "judge")
    for stem in range(3)
}


def tarred(files: dict[str, bytes], *odd: tarfile.TarInfo, root: str = "val/", packed: bool = True) -> bytes:
    """Make a tar, the same bytes for the same files whenever it is made."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(root + name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in odd:
            archive.addfile(info)
    return gzip.compress(stream.getvalue(), mtime=0) if packed else stream.getvalue()


def zipped(files: dict[str, bytes], *odd: zipfile.ZipInfo, root: str = "") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(root + name, content)
        for info in odd:
            archive.writestr(info, b"/etc/passwd")
    return packed.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def a_zip(url: str, content: bytes = CONTENT, **changes: Any) -> Published:
    """Published weights of the simplest kind, known by their digest alone."""
    file = Published("toy", "toy.zip", url, len(content), f"sha256 {sha256(content)}", (), {}, "MIT")
    return dataclasses.replace(file, **changes)


def an_archive(url: str, content: bytes | None = None, **changes: Any) -> Archive:
    digest = None if content is None else f"sha256 {sha256(content)}"
    by = None if content is None else "a third party"
    file = Archive(
        "toy_val", "toy.tar.gz", url, None, None, digest, by, "unstated", "toy", "2afc/val", "cnn/judge", "2afc/val",
        1000, 10**7, "toys",
    )  # fmt: skip
    return dataclasses.replace(file, **changes)


def checkpoints(here: Path) -> Path:
    return here / "torch" / "hub" / "checkpoints"


def get(file: Published | Archive, **options: Any) -> fetch.Got:
    (got,) = fetch.get(file.name, files={file.name: file}, pause=0.0, **options)
    return got


def refusal(work: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        work(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files_below(folder: Path) -> list[str]:
    """Names of all files in a folder and in those inside it."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def tree(folder: Path) -> dict[str, bytes]:
    """All files of a folder but those that fetch keeps for itself."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith(".twoafc/")}
