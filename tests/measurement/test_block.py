"""Blocks: pixels reach the distances as they are in the files, and items are grouped by size."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from twoafc.images import as_float, read_pixels, trace
from twoafc.measurement.block import Block, Decoder, items_by_size


def save(path: Path, shape: tuple[int, int], *, deep: bool = False, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 2**16 if deep else 256, shape if deep else (*shape, 3))
    Image.fromarray(pixels.astype(np.uint16 if deep else np.uint8)).save(path)
    return str(path)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_pixels_come_through_as_they_are(tmp_path: Path, device: str) -> None:
    if device != "cpu":  # as on a GPU: tensors
        pytest.importorskip("torch")
    shapes = [(8, 8), (8, 8), (5, 9), (8, 8), (5, 9)]
    paths = [save(tmp_path / f"{i}.png", shape, deep=i == 1, seed=i) for i, shape in enumerate(shapes)]
    decoded = pickle.loads(pickle.dumps(Decoder(0).read_all([*paths, str(tmp_path / "none.png")])))
    assert decoded.sizes == [*shapes, "no such file"]
    assert decoded.traces == [*(trace(Path(path).read_bytes()) for path in paths), 0]
    batches = decoded.on(device)
    for numbers in ([0], [1], [2], [3, 1, 3], [4, 2]):
        batch = batches.batch(np.array(numbers))
        assert isinstance(batch, np.ndarray) == (device == "cpu")
        expected = np.stack([as_float(read_pixels(paths[number])) for number in numbers])
        np.testing.assert_array_equal(np.asarray(batch), expected)


def test_all_levels_become_the_same_numbers_on_a_device(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(levels).save(tmp_path / "levels.png")
    tensors = Decoder(0).read_all([str(tmp_path / "levels.png")]).on("cpu:0")
    np.testing.assert_array_equal(tensors.batch(np.array([0]))[0, 0].numpy(), as_float(levels))


def test_8_and_16_bits_are_the_same_numbers_in_one_batch(tmp_path: Path) -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(levels).save(tmp_path / "8.png")
    Image.fromarray(levels.astype(np.uint16) * 257).save(tmp_path / "16.png")
    batches = Decoder(0).read_all([str(tmp_path / "8.png"), str(tmp_path / "16.png")])
    for image in (0, 1):
        np.testing.assert_array_equal(batches.batch(np.array([image]))[0, 0], as_float(levels))


def test_a_decoder_keeps_what_fits(tmp_path: Path) -> None:
    for number in range(4):
        Image.fromarray(np.full((4, 4, 3), number, dtype=np.uint8)).save(tmp_path / f"{number}.png")
    decoder = Decoder(capacity=2 * 48)
    for number in (0, 1, 2, 3, 3, 0):
        path = tmp_path / f"{number}.png"
        pixels, found = decoder.read(str(path))
        assert not isinstance(pixels, str)
        assert pixels.max() == number
        assert found == trace(path.read_bytes())
        assert decoder.bytes == sum(each.nbytes for each, _ in decoder.cache.values()) <= 2 * 48
    assert [Path(path).stem for path in decoder.cache] == ["3", "0"]
    assert decoder.read(str(tmp_path / "4.png")) == ("no such file", 0)


def test_items_are_grouped_by_size() -> None:
    places = np.array([[0, 1, 2], [0, 1, 3], [4, 4, 4], [3, 3, 5], [1, 2, 0]])
    block = Block(np.arange(5), ["a", "b", "c", "d", "e", "f"], places, {})
    groups, failures = items_by_size(block, [(8, 8), (8, 8), (8, 8), (9, 8), (5, 5), "no such file"])
    assert {size: items.tolist() for size, items in groups.items()} == {(8, 8): [0, 4], (5, 5): [2]}
    assert [tuple(failure) for failure in failures] == [
        (1, 3, "the image has 9 x 8 pixels, its reference 8 x 8"),
        (3, 5, "no such file"),
    ]
