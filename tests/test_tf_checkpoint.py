"""TensorFlow's checkpoints without TensorFlow: its own samples, and damage of every kind."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from test_distances import golden_folder
from twoafc.distances.crc32c import crc32c, masked
from twoafc.distances.tf_checkpoint import MAGIC, SUFFIX, variables
from twoafc.errors import DataError

# A writer of checkpoints, as small as the format allows: one variable after the other, every key in full.


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + varint(value // 128)


def number(field: int, value: int) -> bytes:
    return varint(field * 8) + varint(value) if value else b""


def message(field: int, content: bytes) -> bytes:
    return varint(field * 8 + 2) + varint(len(content)) + content


def entry(values: np.ndarray, offset: int, dtype: int = 1) -> bytes:
    content = values.tobytes()
    shape = b"".join(message(2, number(1, size)) for size in values.shape)
    checksum = varint(6 * 8 + 5) + masked(content).to_bytes(4, "little")
    return number(1, dtype) + message(2, shape) + number(4, offset) + number(5, len(content)) + checksum


def block(entries: list[tuple[bytes, bytes]], kind: int = 0) -> bytes:
    content = b"".join(b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in entries)
    content += (0).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes([kind])
    return content + masked(content).to_bytes(4, "little")


def index_of(entries: dict[bytes, bytes], kind: int = 0) -> bytes:
    data = block(sorted(entries.items()), kind)
    meta = block([])
    handles = block([(b"~", varint(0) + varint(len(data) - 5))])
    places = (len(data), len(meta) - 5, len(data) + len(meta), len(handles) - 5)
    return data + meta + handles + b"".join(map(varint, places)).ljust(40, b"\0") + MAGIC


HEADER = {b"": number(1, 1)}
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
KEY = f"kernel{SUFFIX}".encode()


def checkpoint(variables: dict[str, np.ndarray]) -> tuple[bytes, bytes]:
    data, entries = b"", dict(HEADER)
    for name, values in variables.items():
        entries[f"{name}{SUFFIX}".encode()] = entry(values, len(data))
        data += values.tobytes()
    return index_of(entries), data


def tiny() -> tuple[bytes, bytes]:
    folder = golden_folder() / "pim_random_ckpt" / "tiny"
    return (folder / "weights.index").read_bytes(), (folder / "weights.data-00000-of-00001").read_bytes()


def golden_vectors(prefix: str) -> dict[str, np.ndarray]:
    with np.load(golden_folder() / "pim_random.npz") as archive:
        return {name.removeprefix(prefix): archive[name] for name in archive.files if name.startswith(prefix)}


def equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], values, strict=True)


# Checksums


def slow_crc32c(text: bytes) -> int:
    """Bit by bit."""
    crc = 0xFFFFFFFF
    for byte in text:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=40))
def test_checksums_of_short_texts(text):
    assert crc32c(text) == slow_crc32c(text)


@pytest.mark.parametrize("length", [4095, 4096, 4097, 8191, 8192, 12345])
def test_checksums_of_long_texts(length):
    text = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8).tobytes()
    assert crc32c(text) == slow_crc32c(text)


def test_known_checksums():
    # RFC 3720, B.4: 32 bytes of zeros, of ones, rising, falling.
    texts = (bytes(32), b"\xff" * 32, bytes(range(32)), bytes(reversed(range(32))))
    assert [crc32c(text) for text in texts] == [0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0x113FDB5C]


# Checkpoints


def test_the_sample_checkpoint_of_tensorflow():
    expected = golden_vectors("tiny/var/")
    index, data = tiny()
    equal(variables(index, [data], expected), expected)


def test_what_is_written_is_read():
    rng = np.random.default_rng(0)
    shapes = {"bias": (4,), "kernel": (5, 5, 3, 4), "large": (40, 41), "scalar": ()}
    expected = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    index, data = checkpoint(expected)
    equal(variables(index, [data], expected), expected)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_one_flipped_bit_is_caught(data):
    expected = {"bias": np.float32([1, 2, 3]), "kernel": VALUES}
    files = list(checkpoint(expected))
    which = data.draw(st.integers(0, 1))
    position = data.draw(st.integers(0, 8 * len(files[which]) - 1))
    damaged = bytearray(files[which])
    damaged[position // 8] ^= 1 << position % 8
    files[which] = bytes(damaged)
    with pytest.raises(DataError):
        variables(files[0], [files[1]], expected)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_flipped_bit_is_caught_in_the_sample(data):
    index, content = tiny()
    position = data.draw(st.integers(0, 8 * len(index) - 1))
    damaged = bytearray(index)
    damaged[position // 8] ^= 1 << position % 8
    with pytest.raises(DataError):
        variables(bytes(damaged), [content], ["marginal_encoder/encoders/0/base/0/kernel"])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_noise_is_refused(noise, ends_well):
    with pytest.raises(DataError):
        variables(noise + MAGIC * ends_well, [b""], [])


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(1, 300))
def test_a_truncated_index_is_refused(cut):
    index, data = checkpoint({"kernel": VALUES})
    with pytest.raises(DataError):
        variables(index[:-cut], [data], ["kernel"])


@pytest.mark.parametrize(
    ("entries", "kind", "told"),
    [
        ({KEY: entry(VALUES, 0)}, 1, "the index is compressed (type 1), which is not read here"),
        ({b"": number(1, 1) + number(2, 1)}, 0, "the checkpoint is big-endian, which is not read here"),
        ({b"": number(1, 2)}, 0, "the checkpoint has 2 data files; 1 are at hand"),
        ({}, 0, "the checkpoint has no variable kernel; it has 0 others"),
        ({KEY: entry(VALUES, 0, dtype=9)}, 0, "variable kernel must be float32 (type 1); it has type 9"),
        (
            {KEY: entry(VALUES, 0) + message(7, b"")},
            0,
            "variable kernel is stored in slices, which are not read here",
        ),
        (
            {KEY: entry(VALUES, 0).replace(number(5, 24), number(5, 20))},
            0,
            "variable kernel of shape (2, 3) must have 24 bytes; it has 20",
        ),
        ({KEY: entry(VALUES, 4)}, 0, "variable kernel lies outside its data file: that is cut short"),
        ({KEY: entry(VALUES, 0) + number(3, 1)}, 0, "variable kernel lies outside its data file: that is cut short"),
        (
            {KEY: entry(VALUES + 1, 0)},
            0,
            "variable kernel does not have its checksum: the data file is damaged",
        ),
        ({KEY: b"\x0b"}, 0, "the index of the checkpoint is damaged: a field has the unknown kind 3"),
        ({KEY: b"\x08" + b"\xff" * 10}, 0, "the index of the checkpoint is damaged: a number has more than 64 bits"),
        ({KEY: b"\x08\x80\x00"}, 0, "the index of the checkpoint is damaged: a number has a byte too many"),
        ({KEY: b"\x12\x09abc"}, 0, "the index of the checkpoint is damaged: it ends too early"),
    ],
)
def test_what_is_refused(entries, kind, told):
    with pytest.raises(DataError, match=f"^{re.escape(told)}$"):
        variables(index_of(HEADER | entries, kind), [VALUES.tobytes()], ["kernel"])


def parts_of(*data: bytes, meta: bytes, handles: bytes) -> bytes:
    places = (sum(map(len, data)), len(meta) - 5, sum(map(len, data)) + len(meta), len(handles) - 5)
    return b"".join((*data, meta, handles, b"".join(map(varint, places)).ljust(40, b"\0"), MAGIC))


def test_tables_that_do_not_hang_together_are_refused():
    rows = [block([(b"", number(1, 1))]), block([(b"a", b"")])]
    starts = (0, len(rows[0]))
    handles = [varint(start) + varint(len(row) - 5) for start, row in zip(starts, rows, strict=True)]
    meta, damaged = block([]), "^the index of the checkpoint is damaged: "
    index = parts_of(*rows, meta=meta, handles=block([(b"a", handles[0]), (b"b", handles[1])]))
    assert variables(index, [b""], []) == {}
    cases = {
        "its blocks are not one after the other": block([(b"a", handles[0]), (b"b", handles[0])]),
        "its blocks do not fill it": block([(b"a", handles[0])]),
        "a block lies outside it": block([(b"a", varint(0) + varint(999))]),
        "a name shares more than there is": _with_content(b"\x05\x01\x00a" + (0).to_bytes(4, "little")),
        "a block is too short": _with_content((9).to_bytes(4, "little")),
    }
    for told, changed in cases.items():
        with pytest.raises(DataError, match=damaged + told):
            variables(parts_of(*rows, meta=meta, handles=changed), [b""], [])
    rows[1] = block([(b"", b"")])
    handles[1] = varint(starts[1]) + varint(len(rows[1]) - 5)
    index = parts_of(*rows, meta=meta, handles=block([(b"a", handles[0]), (b"b", handles[1])]))
    with pytest.raises(DataError, match=damaged + "its names are not in order"):
        variables(index, [b""], [])


def _with_content(content: bytes) -> bytes:
    return content + b"\0" + masked(content + b"\0").to_bytes(4, "little")
