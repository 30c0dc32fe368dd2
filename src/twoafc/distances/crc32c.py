"""CRC-32C, the checksum of TensorFlow's checkpoints (Castagnoli's polynomial; RFC 3720, appendix B.4), by numpy.

A checksum is a chain of table look-ups, one byte after the other. But it is linear: a long text is cut into lanes that
go side by side, and their sums are put together two by two.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
POLYNOMIAL = 0x82F63B78
LANES = 1024
SHORT = 4096


def crc32c(text: bytes) -> int:
    """CRC-32C of some bytes.

    Examples
    --------
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    return (_short(text) if len(text) < SHORT else _long(text)) ^ 0xFFFFFFFF


def masked(text: bytes) -> int:
    """CRC-32C as checkpoints store it, so that a text that holds its own sum is no special case.

    Examples
    --------
    >>> hex(masked(b"123456789"))
    '0xc78ab0e5'
    """
    crc = crc32c(text)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def tables() -> Words:
    """Make the tables: entry [k, byte] is what a byte becomes with k zero bytes after it, shape (4, 256).

    Examples
    --------
    >>> tables().shape, hex(tables()[0, 128])
    ((4, 256), '0x82f63b78')
    """
    found = np.zeros((4, 256), dtype=np.uint32)
    found[0] = np.arange(256)
    for _ in range(8):
        found[0] = found[0] >> 1 ^ np.where(found[0] & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    for k in range(1, 4):
        found[k] = found[k - 1] >> 8 ^ found[0][found[k - 1] & 0xFF]
    return found


def _short(text: bytes) -> int:
    table = tables()[0].tolist()
    crc = 0xFFFFFFFF
    for byte in text:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc


def _long(text: bytes) -> int:
    """Go down all lanes at once, four bytes at a step; 32 more lanes of zeros carry one bit each.

    To start from ones is to invert the first four bytes, and zeros put before a text that starts from zero change
    nothing: so the lanes can be made equally long.
    """
    steps = -(-len(text) // (4 * LANES))
    padded = np.zeros(4 * LANES * steps, dtype=np.uint8)
    padded[-len(text) :] = np.frombuffer(text, dtype=np.uint8)
    padded[len(padded) - len(text) :][:4] ^= 0xFF
    words = np.zeros((steps, LANES + 32), dtype=np.uint32)
    words[:, :LANES] = padded.view("<u4").reshape(LANES, steps).T
    state = np.concatenate([np.zeros(LANES, np.uint32), np.uint32(1) << np.arange(32, dtype=np.uint32)])
    table = tables()
    for word in words:
        state = state ^ word
        state = (
            table[3][state & 0xFF] ^ table[2][state >> 8 & 0xFF] ^ table[1][state >> 16 & 0xFF] ^ table[0][state >> 24]
        )
    return _combined(state[:LANES], state[LANES:])


def _combined(lanes: Words, shift: Words) -> int:
    """Put the lanes' sums together; `shift` says what becomes of each bit of a sum when one more lane follows it."""
    while len(lanes) > 1:
        lanes = _shifted(lanes[0::2], shift) ^ lanes[1::2]
        shift = _shifted(shift, shift)
    return int(lanes[0])


def _shifted(sums: Words, shift: Words) -> Words:
    bits = sums[:, None] >> np.arange(32, dtype=np.uint32) & 1
    return np.asarray(np.bitwise_xor.reduce(bits * shift, axis=1))
