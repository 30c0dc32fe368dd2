"""Digests of files, and the comparison with the published one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

CHUNK = 2**20

Progress = Callable[[int, int | None, str], None]
"""Called with what is done, out of how much where that is known (both in bytes), and of what."""


def digests(path: Path, methods: tuple[str, ...] = (), *, progress: Progress | None = None) -> dict[str, str]:
    """Sha256 of a file, and other digests in the same reading.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a")
    ...     _ = path.write_bytes(b"abc")
    ...     found = digests(path, ("md5",))
    >>> found["sha256"][:8], found["md5"][:8]
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


def compare(path: Path, wanted: str | None, *, progress: Progress | None = None) -> tuple[str, str]:
    """Give a file's sha256, and what is wrong with the file by the wanted digest, or nothing.

    Parameters
    ----------
    wanted : str or None
        Such as ``"sha256 ba78..."``; None accepts any file.
    """
    method, _, expected = (wanted or "sha256").partition(" ")
    found = digests(path, (method,) if method != "sha256" else (), progress=progress)
    if not expected or found[method] == expected:
        return found["sha256"], ""
    return found["sha256"], f"its {method} is {found[method]}, {expected} is wanted"
