"""Which images are accepted, and how batches are worked through."""

from __future__ import annotations

import re

import numpy as np
import pytest

from distance_checks import images
from twoafc.distances import distance
from twoafc.distances.batches import in_pieces


def test_euclidean_and_rmse_against_loops():
    ref, x = images(0, 2, 3, 4, 5), images(1, 2, 3, 4, 5)
    squares = [
        sum((a - b) ** 2 for a, b in zip(r.ravel(), y.ravel(), strict=True)) for r, y in zip(ref, x, strict=True)
    ]
    np.testing.assert_allclose(distance("euclidean")(ref, x), np.sqrt(squares), rtol=1e-12)
    np.testing.assert_allclose(distance("rmse")(ref, x), np.sqrt(np.divide(squares, 60)), rtol=1e-12)


def test_rounding_outside_the_range_is_accepted():
    ref = np.zeros((1, 3, 4, 4))
    assert distance("rmse")(ref - 1e-7, ref + 1 + 1e-7) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("ref", "x", "message"),
    [
        (np.zeros((3, 16, 16)), np.zeros((3, 16, 16)), "images must have shape (B, 3, H, W); ref has (3, 16, 16)"),
        (
            np.zeros((1, 3, 16, 16)),
            np.zeros((1, 1, 16, 16)),
            "images must have shape (B, 3, H, W); x has (1, 1, 16, 16)",
        ),
        (
            np.zeros((2, 3, 16, 16)),
            np.zeros((1, 3, 16, 16)),
            "ref and x must have one shape; got (2, 3, 16, 16) and (1, 3, 16, 16)",
        ),
        (
            np.zeros((1, 3, 16, 10)),
            np.zeros((1, 3, 16, 10)),
            "images must be at least 11 x 11 pixels for this distance; got 16 x 10",
        ),
        (
            np.zeros((1, 3, 16, 16)),
            np.full((1, 3, 16, 16), 1.5),
            "images must lie in [0, 1]; x has values from 1.5 to 1.5",
        ),
        (
            np.full((1, 3, 16, 16), -0.25),
            np.zeros((1, 3, 16, 16)),
            "images must lie in [0, 1]; ref has values from -0.25 to -0.25",
        ),
        (
            np.full((1, 3, 16, 16), np.nan),
            np.zeros((1, 3, 16, 16)),
            "images must lie in [0, 1]; ref has values from nan to nan",
        ),
        (
            np.zeros((1, 3, 16, 16), dtype=np.uint8),
            np.zeros((1, 3, 16, 16)),
            "images must be float32 or float64 with values in [0, 1]; ref is uint8",
        ),
    ],
)
def test_wrong_images_are_refused(ref, x, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        distance("ssim")(ref, x)


def test_two_kinds_of_arrays_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"^ref and x must be of one kind; got ndarray and Tensor$"):
        distance("rmse")(np.zeros((1, 3, 4, 4)), torch.zeros(1, 3, 4, 4))


def test_pieces_cover_the_batch_in_order():
    ref = np.arange(10.0).reshape(10, 1, 1, 1) / 10 * np.ones((10, 3, 64, 64))
    np.testing.assert_allclose(in_pieces(lambda a, b: a.mean(axis=(1, 2, 3)), ref, ref), np.arange(10) / 10)
