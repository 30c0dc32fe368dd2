"""What Pillow leaves open about a PNG: whether the file is whole, and the lower half of 16-bit colours."""

from __future__ import annotations

import io
import zlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import PngImagePlugin

START = b"\x89PNG\r\n\x1a\n"


def flaw(content: bytes) -> str | None:
    """Say what is wrong with a PNG's chunks; None where they are whole.

    Each chunk carries a checksum. Pillow does not read those of the pixels, and stops where it has pixels enough.

    Examples
    --------
    >>> flaw(START + bytes(8))
    'truncated: the PNG ends before its last chunk'
    """
    view, place, kind = memoryview(content), len(START), b""
    while kind != b"IEND":
        end = place + int.from_bytes(view[place : place + 4]) + 12
        if end > len(content):
            return "truncated: the PNG ends before its last chunk"
        kind = content[place + 4 : place + 8]
        if zlib.crc32(view[place + 4 : end - 4]) != int.from_bytes(view[end - 4 : end]):
            return f"damaged: the checksum of the PNG's chunk at byte {place} is wrong"
        place = end
    return None


def size(start: bytes) -> tuple[int, int] | None:
    """Read height and width from the first 24 bytes; None where these are not a PNG's."""
    if not start.startswith(START) or start[12:16] != b"IHDR" or len(start) < 24:
        return None
    return int.from_bytes(start[20:24]), int.from_bytes(start[16:20])


def sixteen_bits(content: bytes) -> NDArray[np.uint16]:
    """Decode a PNG of 16-bit RGB or RGBA to shape (H, W, channels).

    Pillow keeps one byte of each such sample: the first where told that the high byte comes first, as it does in a
    PNG, the second where told the opposite. Decoding twice gives both.
    """
    if not _bytes_are_told_apart():
        raise NotImplementedError("this version of Pillow does not give the lower byte of 16-bit colours")
    return _both_bytes(content)


def _both_bytes(content: bytes) -> NDArray[np.uint16]:
    high, low = (_one_byte(content, order) for order in ("16B", "16L"))
    return np.asarray(high.astype(np.uint16) << 8 | low, dtype=np.uint16)


def _one_byte(content: bytes, order: str) -> NDArray[np.uint8]:
    image = PngImagePlugin.PngImageFile(io.BytesIO(content))
    codec, extents, offset, stored = image.tile[0]
    kind: Any = type(image.tile[0])  # a plain tuple, before Pillow 11
    tile: Any = (codec, extents, offset, str(stored).replace("16B", order))
    image.tile = [tile if kind is tuple else kind(*tile)]
    return np.asarray(image)


@cache
def _bytes_are_told_apart() -> bool:
    """Try it once on one pixel: Pillow does not promise it."""
    head = b"IHDR" + (1).to_bytes(4) * 2 + bytes([16, 2, 0, 0, 0])
    body = b"IDAT" + zlib.compress(bytes([0, 1, 2, 3, 4, 5, 6]))
    chunks = [(len(part) - 4).to_bytes(4) + part + zlib.crc32(part).to_bytes(4) for part in (head, body, b"IEND")]
    return bool((_both_bytes(START + b"".join(chunks)) == [0x0102, 0x0304, 0x0506]).all())
