"""Shares of people, one number in each .npy file, to votes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from twoafc.errors import DataError

MAGIC = b"\x93NUMPY\x01\x00"
ROOM = 1e-3
EVERY = 2000


def read_share(content: bytes, layouts: dict[bytes, np.dtype[np.generic]]) -> float:
    """Read the one number of a .npy file; what its header says is kept in `layouts`, since all files share a few.

    ``numpy.load`` would do, and take ten times as long.
    """
    start = 10 + int.from_bytes(content[8:10], "little")
    head = content[:start]
    if head not in layouts:
        layouts[head] = _layout(head)
    dtype = layouts[head]
    if len(content) != start + dtype.itemsize:
        raise ValueError(f"{len(content) - start} bytes where one {dtype} has {dtype.itemsize}")
    return float(np.frombuffer(content, dtype, offset=start)[0])


def _layout(head: bytes) -> np.dtype[np.generic]:
    """Let numpy read a header, which holds no pickles; only one number is let through."""
    if not head.startswith(MAGIC):
        raise ValueError("not a .npy file of version 1.0")
    shape, _, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(head[8:]))
    if math.prod(shape) != 1 or dtype.kind not in "fiu":
        raise ValueError(f"expected one number; found shape {shape} of {dtype}")
    return dtype


def votes_of(
    files: Sequence[str], M: int, *, names: Sequence[str], progress: Callable[[int], None] | None = None
) -> NDArray[np.int64]:
    """Read how many of M people each file tells of: n = share x M, which must be a whole number.

    Parameters
    ----------
    files : sequence of str
        Paths of .npy files with one number each.
    M : int
        People who judged.
    names : sequence of str
        What each file is about, for errors.
    progress : callable (done), optional
    """
    shares = np.empty(len(files))
    layouts: dict[bytes, np.dtype[np.generic]] = {}
    for row, path in enumerate(files):
        if progress and row % EVERY == 0:
            progress(row)
        try:
            with open(path, "rb", buffering=0) as file:
                shares[row] = read_share(file.read(), layouts)
        except (OSError, ValueError, SyntaxError) as error:
            raise DataError(
                f"votes must be one number in a .npy file; triplet {names[row]}: {path}: {error}"
            ) from error
    scaled = shares * M
    n = np.round(np.clip(np.nan_to_num(scaled), 0, M))
    wrong = ~(abs(scaled - n) <= ROOM)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"votes must be a share of M = {M} people; triplet {names[row]} has {shares[row]:g} in {files[row]} "
            f"({wrong.sum()} of {len(files)} files)"
        )
    return n.astype(np.int64)
