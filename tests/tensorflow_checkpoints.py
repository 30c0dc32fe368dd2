"""A writer of TensorFlow checkpoints, as small as the format allows: every key in full, in one block."""

from __future__ import annotations

import numpy as np

from twoafc.distances.pim import SUFFIX

INDEX_END = (0xDB4775248B80FB57).to_bytes(8, "little")


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + varint(value // 128)


def number(field: int, value: int) -> bytes:
    return varint(field * 8) + varint(value) if value else b""


def message(field: int, content: bytes) -> bytes:
    return varint(field * 8 + 2) + varint(len(content)) + content


def entry(values: np.ndarray, offset: int) -> bytes:
    content = values.tobytes()
    shape = b"".join(message(2, number(1, size)) for size in values.shape)
    checksum = varint(6 * 8 + 5) + bytes(4)  # not compared
    return number(1, 1) + message(2, shape) + number(4, offset) + number(5, len(content)) + checksum


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    content = b"".join(b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in entries)
    content += (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    return content + bytes(5)  # not compressed; a checksum, not compared


def index_of(entries: dict[bytes, bytes]) -> bytes:
    data = block(sorted(entries.items()))
    meta = block([])
    handles = block([(b"~", varint(0) + varint(len(data) - 5))])
    places = (len(data), len(meta) - 5, len(data) + len(meta), len(handles) - 5)
    return data + meta + handles + b"".join(map(varint, places)).ljust(40, b"\0") + INDEX_END


HEADER = {b"": number(1, 1)}


def checkpoint(variables: dict[str, np.ndarray]) -> tuple[bytes, bytes]:
    data, entries = b"", dict(HEADER)
    for name, values in variables.items():
        entries[f"{name}{SUFFIX}".encode()] = entry(values, len(data))
        data += values.tobytes()
    return index_of(entries), data


def equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], values, strict=True)
