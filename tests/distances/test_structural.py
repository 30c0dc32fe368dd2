"""SSIM and MS-SSIM against slow versions by the definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import correlate1d
from scipy.signal import correlate2d

from distance_checks import images
from twoafc.distances import distance


def slow_similarity(ref: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """Contrast and structure, and with luminance, of one channel: each window's moments by their definitions."""
    window = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    window = np.outer(window, window) / window.sum() ** 2
    structures, similarities = [], []
    for i in range(ref.shape[0] - 10):
        for j in range(ref.shape[1] - 10):
            a, b = ref[i : i + 11, j : j + 11], x[i : i + 11, j : j + 11]
            mean_a, mean_b = (window * a).sum(), (window * b).sum()
            a, b = a - mean_a, b - mean_b
            structure = (2 * (window * a * b).sum() + 9e-4) / ((window * (a**2 + b**2)).sum() + 9e-4)
            structures.append(structure)
            similarities.append(structure * (2 * mean_a * mean_b + 1e-4) / (mean_a**2 + mean_b**2 + 1e-4))
    return float(np.mean(structures)), float(np.mean(similarities))


def test_ssim_against_its_definition():
    ref, x = images(0, 1, 3, 13, 17), images(1, 1, 3, 13, 17)
    expected = 1 - np.mean([slow_similarity(ref[0, channel], x[0, channel])[1] for channel in range(3)])
    assert distance("ssim")(ref, x)[0] == pytest.approx(expected, abs=1e-12)
    luma_ref, luma_x = (np.tensordot([0.299, 0.587, 0.114], image[0], axes=1) for image in (ref, x))
    assert distance("ssim_luma")(ref, x)[0] == pytest.approx(1 - slow_similarity(luma_ref, luma_x)[1], abs=1e-12)


def test_ssim_of_an_image_of_several_tiles():
    ref, x = images(0, 1, 3, 131, 75), images(1, 1, 3, 131, 75)
    window = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    window /= window.sum()

    def mean(image):
        return correlate1d(correlate1d(image, window, axis=2), window, axis=3)[:, :, 5:-5, 5:-5]

    a, b = mean(ref), mean(x)
    variances, covariance = mean(ref**2) - a**2 + mean(x**2) - b**2, mean(ref * x) - a * b
    similarity = (2 * a * b + 1e-4) * (2 * covariance + 9e-4) / ((a**2 + b**2 + 1e-4) * (variances + 9e-4))
    assert distance("ssim")(ref, x)[0] == pytest.approx(1 - similarity.mean(), abs=1e-12)


def slow_halves(image: np.ndarray) -> np.ndarray:
    """As the authors' code: filter with a 2 x 2 mean, the edge repeated, and keep every second pixel."""
    return correlate2d(np.pad(image, ((0, 1), (0, 1)), mode="edge"), np.full((2, 2), 0.25), mode="valid")[::2, ::2]


@pytest.mark.parametrize(("height", "width"), [(41, 44), (46, 43), (67, 70)])
def test_three_scales_against_the_definition(height, width):
    ref = images(0, 3, height, width)
    x = np.clip(ref + 0.2 * images(1, 3, height, width), 0, 1)
    expected = []
    for a, b in zip(ref, x, strict=True):
        fine, _ = slow_similarity(a, b)
        middle, _ = slow_similarity(slow_halves(a), slow_halves(b))
        _, coarse = slow_similarity(slow_halves(slow_halves(a)), slow_halves(slow_halves(b)))
        weights = np.array([0.0448, 0.2856, 0.3001]) / (0.0448 + 0.2856 + 0.3001)
        expected.append(np.prod(np.array([fine, middle, coarse]) ** weights))
    assert distance("ms_ssim_3")(ref[None], x[None])[0] == pytest.approx(1 - np.mean(expected), abs=1e-12)


def test_a_negative_has_nothing_in_common():
    board = np.indices((41, 41)).sum(axis=0) % 2 * np.ones((1, 3, 1, 1))
    assert distance("ms_ssim_3")(board, 1 - board)[0] == 1
