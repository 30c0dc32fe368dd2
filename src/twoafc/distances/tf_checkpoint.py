"""Variables of a TensorFlow checkpoint, without TensorFlow: a reader that trusts no byte of what it reads.

The index is a sorted table in LevelDB's format, from a variable's name to its type, shape and place in a data file.
Every block of it and every variable read is held to its checksum, and every size to the length of its file. Compressed
blocks, slices, big-endian files and types other than float32 are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoafc.distances.crc32c import masked
from twoafc.errors import DataError

MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
FOOTER, TRAILER = 48, 5
FLOAT32 = 1
# A name on disk ends so.
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"

Field = tuple[int, int | bytes]
Fields = Iterable[Field]


def variables(index: bytes, shards: Sequence[bytes], wanted: Iterable[str]) -> dict[str, NDArray[np.float32]]:
    """Read the wanted variables of a checkpoint.

    Parameters
    ----------
    index : bytes
        Content of the file ``*.index``.
    shards : sequence of bytes
        Contents of the files ``*.data-0000i-of-0000n``, in order.
    wanted : iterable of str
        Names of variables, without the suffix that they have on disk. Others are left alone.

    Returns
    -------
    dict of str to array of float32
    """
    table = dict(_table(index))
    header = _numbers(_fields(table.pop(b"", b"")))
    if header.get(1, 0) != len(shards):
        raise DataError(f"the checkpoint has {header.get(1, 0)} data files; {len(shards)} are at hand")
    if header.get(2, 0) != 0:
        raise DataError("the checkpoint is big-endian, which is not read here")
    found = {}
    for name in wanted:
        if (key := (name + SUFFIX).encode()) not in table:
            raise DataError(f"the checkpoint has no variable {name}; it has {len(table)} others")
        found[name] = _values(name, table[key], shards)
    return found


def _values(name: str, entry: bytes, shards: Sequence[bytes]) -> NDArray[np.float32]:
    """Read a variable at the place that its entry names, and hold it to all that the entry says."""
    fields = list(_fields(entry))
    if any(number == 7 for number, _ in fields):
        raise DataError(f"variable {name} is stored in slices, which are not read here")
    numbers = _numbers(fields)
    dtype, shard, offset, size, checksum = (numbers.get(number, 0) for number in (1, 3, 4, 5, 6))
    if dtype != FLOAT32:
        raise DataError(f"variable {name} must be float32 (type {FLOAT32}); it has type {dtype}")
    shape = _shape(fields)
    if size != 4 * math.prod(shape):
        raise DataError(f"variable {name} of shape {shape} must have {4 * math.prod(shape)} bytes; it has {size}")
    if shard >= len(shards) or offset + size > len(shards[shard]):
        raise DataError(f"variable {name} lies outside its data file: that is cut short")
    content = shards[shard][offset : offset + size]
    if masked(content) != checksum:
        raise DataError(f"variable {name} does not have its checksum: the data file is damaged")
    return np.frombuffer(content, dtype="<f4").astype(np.float32).reshape(shape)


def _shape(fields: Fields) -> tuple[int, ...]:
    """Read field 2, whose fields 2 are the sides, whose fields 1 are their lengths."""
    sides = [side for shape in _messages(fields, 2) for side in _messages(_fields(shape), 2)]
    return tuple(_numbers(_fields(side)).get(1, 0) for side in sides)


def _table(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give the index's names and entries; blocks must follow one another without a gap, and names be in order."""
    if len(index) < FOOTER or index[-8:] != MAGIC:
        raise DataError("the index does not end as a checkpoint's does: it is cut short, or of another kind")
    footer = _Reader(index[-FOOTER:-8])
    meta, meta_size, top, top_size = (footer.varint() for _ in range(4))
    end, last = 0, None
    for _, handle in _entries(_block(index, top, top_size)):
        place = _Reader(handle)
        start, size = place.varint(), place.varint()
        _require(start == end, "its blocks are not one after the other")
        end = start + size + TRAILER
        for key, entry in _entries(_block(index, start, size)):
            _require(last is None or key > last, "its names are not in order")
            last = key
            yield key, entry
    _block(index, meta, meta_size)
    ends = (end, meta + meta_size + TRAILER, top + top_size + TRAILER)
    _require(ends == (meta, top, len(index) - FOOTER) and not any(footer.rest()), "its blocks do not fill it")


def _block(index: bytes, offset: int, size: int) -> bytes:
    """Take a block out of the index, by its checksum, which covers the byte that says whether it is compressed."""
    end = offset + size + TRAILER
    _require(end <= len(index) - FOOTER, "a block lies outside it")
    content, checksum = index[offset : end - 4], index[end - 4 : end]
    _require(masked(content) == int.from_bytes(checksum, "little"), f"the block at byte {offset} has another checksum")
    if content[-1] != 0:
        raise DataError(f"the index is compressed (type {content[-1]}), which is not read here")
    return content[:-1]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give a block's keys and values; a key is stored without what it shares with the one before."""
    _require(len(block) >= 4, "a block is too short")
    restarts = int.from_bytes(block[-4:], "little")
    _require(4 * (restarts + 1) <= len(block), "a block is too short")
    reader, key = _Reader(block[: len(block) - 4 * (restarts + 1)]), b""
    while reader.left():
        shared, own, length = (reader.varint() for _ in range(3))
        _require(shared <= len(key), "a name shares more than there is")
        key = key[:shared] + reader.take(own)
        yield key, reader.take(length)


def _fields(message: bytes) -> Iterator[Field]:
    """Give the numbers and values of a protocol buffer's fields."""
    reader = _Reader(message)
    while reader.left():
        number, kind = divmod(reader.varint(), 8)
        if kind == 0:
            yield number, reader.varint()
        elif kind == 2:
            yield number, reader.take(reader.varint())
        else:
            _require(kind in (1, 5), f"a field has the unknown kind {kind}")
            yield number, int.from_bytes(reader.take(8 if kind == 1 else 4), "little")


def _numbers(fields: Fields) -> dict[int, int]:
    """Give the fields that are numbers; one that is 0 is left out on disk."""
    return {number: value for number, value in fields if isinstance(value, int)}


def _messages(fields: Fields, wanted: int) -> list[bytes]:
    return [value for number, value in fields if number == wanted and isinstance(value, bytes)]


def _require(fact: bool, damage: str) -> None:
    if not fact:
        raise DataError(f"the index of the checkpoint is damaged: {damage}")


@dataclass
class _Reader:
    """Bytes read from their start, never beyond their end."""

    content: bytes
    at: int = 0

    def left(self) -> int:
        return len(self.content) - self.at

    def take(self, count: int) -> bytes:
        _require(count <= self.left(), "it ends too early")
        self.at += count
        return self.content[self.at - count : self.at]

    def varint(self) -> int:
        """Take a whole number of at most 64 bits, seven to a byte, the lowest first."""
        value = 0
        for place in range(10):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                _require(byte > 0 or place == 0, "a number has a byte too many")
                return value
        raise DataError("the index of the checkpoint is damaged: a number has more than 64 bits")

    def rest(self) -> bytes:
        return self.take(self.left())
