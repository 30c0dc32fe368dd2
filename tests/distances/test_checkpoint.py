"""Checkpoints of TensorFlow, read without it: its own sample, and files that cannot be read."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distance_checks import golden_folder, golden_vectors
from tensorflow_checkpoints import HEADER, KEY, VALUES, checkpoint, entry, equal, index_of, number
from twoafc.distances.weights import INDEX_END, read_checkpoint
from twoafc.errors import DataError


def tiny() -> tuple[bytes, bytes]:
    folder = golden_folder() / "pim_random_ckpt" / "tiny"
    return (folder / "weights.index").read_bytes(), (folder / "weights.data-00000-of-00001").read_bytes()


def test_the_sample_checkpoint_of_tensorflow():
    expected = golden_vectors("tiny/var/")
    index, data = tiny()
    equal(read_checkpoint(index, [data], expected), expected)


def test_what_is_written_is_read():
    rng = np.random.default_rng(0)
    shapes = {"bias": (4,), "kernel": (5, 5, 3, 4), "large": (40, 41), "scalar": ()}
    expected = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    index, data = checkpoint(expected)
    equal(read_checkpoint(index, [data], expected), expected)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_noise_is_refused(noise, ends_well):
    with pytest.raises(DataError):
        read_checkpoint(noise + INDEX_END * ends_well, [b""], [])


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(1, 300))
def test_a_truncated_index_is_refused(cut):
    index, data = checkpoint({"kernel": VALUES})
    with pytest.raises(DataError):
        read_checkpoint(index[:-cut], [data], ["kernel"])


DAMAGED = "the index of the checkpoint is damaged, or of another format: "


@pytest.mark.parametrize(
    ("entries", "kind", "message"),
    [
        ({KEY: entry(VALUES, 0)}, 1, f"{DAMAGED}a block is compressed"),
        ({b"": number(1, 1) + number(2, 1)}, 0, "the checkpoint must be little-endian; it is big-endian"),
        ({b"": number(1, 2)}, 0, "the checkpoint has 2 data files; 1 are at hand"),
        ({}, 0, "the checkpoint has no variable kernel; it has 0 others"),
        ({KEY: entry(VALUES, 0, dtype=9)}, 0, "variable kernel must be float32 (type 1); it has type 9"),
        (
            {KEY: entry(VALUES, 0).replace(number(5, 24), number(5, 20))},
            0,
            "variable kernel of shape (2, 3) must have 24 bytes; it has 20",
        ),
        ({KEY: entry(VALUES, 4)}, 0, "variable kernel lies outside its data file, which is cut short"),
        ({KEY: entry(VALUES, 0) + number(3, 1)}, 0, "variable kernel lies outside its data file, which is cut short"),
        ({KEY: b"\x0b"}, 0, f"{DAMAGED}a field has the unknown kind 3"),
        ({KEY: b"\x08" + b"\xff" * 10}, 0, f"{DAMAGED}it ends too early"),
    ],
)
def test_what_is_refused(entries, kind, message):
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        read_checkpoint(index_of(HEADER | entries, kind), [VALUES.tobytes()], ["kernel"])
