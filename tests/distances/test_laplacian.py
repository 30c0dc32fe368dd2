"""NLPD in its three forms: golden values, and slow obvious versions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import convolve2d, correlate2d

from distance_checks import KINDS, agrees_with_golden, images
from twoafc.distances import distance, nlpd_rgb

kinds = pytest.mark.parametrize("kind", KINDS)

SIGMAS = (0.0248, 0.0185, 0.0179, 0.0191, 0.0220, 0.2782)
# As printed: above, left, right, below.
CROSSES = (
    (0.1011, 0.1493, 0.1460, 0.1015),
    (0.0757, 0.1986, 0.1846, 0.0837),
    (0.0477, 0.2138, 0.2243, 0.0467),
    (0, 0.2503, 0.2616, 0),
    (0, 0.2598, 0.2552, 0),
    (0, 0.2215, 0.0717, 0),
)
LOW_PASS = np.outer((0.05, 0.25, 0.4, 0.25, 0.05), (0.05, 0.25, 0.4, 0.25, 0.05))


@kinds
@pytest.mark.parametrize("levels", range(1, 7))
def test_golden_values_of_the_rgb_form(levels, kind):
    agrees_with_golden(lambda ref, x: nlpd_rgb(ref, x, levels=levels), f"nlpd.hepburn_torch.k{levels}", kind)


@kinds
@pytest.mark.parametrize(("name", "groups"), [("nlpd_2017", ("s256", "odd")), ("nlpd_2017_5", ("s64", "ex"))])
def test_golden_values_of_2017(name, groups, kind):
    agrees_with_golden(distance(name), "nlpd.google2017.rgbmean", kind, groups)


def kernel(level: int, size: int) -> np.ndarray:
    full = np.zeros((size, size))
    middle = size // 2
    above, left, right, below = CROSSES[level]
    full[middle - 1, middle], full[middle + 1, middle] = above, below
    full[middle, middle - 1], full[middle, middle + 1] = left, right
    if size == 5 and level == 0:
        full[2, 4] = 0.0072
    return full


def rms(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.subtract(a, b) ** 2)))


def slow_2016(image: np.ndarray) -> list[np.ndarray]:
    bands = []
    for _ in range(5):
        low = correlate2d(np.pad(image, 2, mode="symmetric"), LOW_PASS, mode="valid")[::2, ::2]
        wide = np.pad(low, 1, mode="edge")
        spread = np.zeros((2 * wide.shape[0], 2 * wide.shape[1]))
        spread[::2, ::2] = 4 * wide
        up = correlate2d(spread, LOW_PASS, mode="same")[2 : 2 + image.shape[0], 2 : 2 + image.shape[1]]
        bands.append(image - up)
        image = low
    bands.append(image)
    return [
        band / (SIGMAS[level] + convolve2d(abs(band), kernel(level, 5), mode="same"))
        for level, band in enumerate(bands)
    ]


@pytest.mark.parametrize(("height", "width"), [(17, 23), (30, 64), (140, 70)])
def test_2016_against_its_definition(height, width):
    ref, x = images(0, 3, height, width), images(1, 3, height, width)
    luma = [np.tensordot([0.299, 0.587, 0.114], image, axes=1) for image in (ref, x)]
    expected = np.mean([rms(a, b) for a, b in zip(*map(slow_2016, luma), strict=True)])
    assert distance("nlpd")(ref[None], x[None])[0] == pytest.approx(expected, rel=1e-12)


def slow_bilinear(image: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Corners on corners."""
    rows, columns = (np.arange(size) * (count - 1) / (size - 1) for size, count in zip(shape, image.shape, strict=True))
    across = np.array([np.interp(columns, np.arange(image.shape[1]), row) for row in image])
    return np.array([np.interp(rows, np.arange(image.shape[0]), column) for column in across.T]).T


def slow_rgb(image: np.ndarray, levels: int) -> list[np.ndarray]:
    bands = []
    for level in range(levels):
        pads = [divmod((-(-size // 2) - 1) * 2 + 5 - size, 2) for size in image.shape]
        padded = np.pad(image, [(half, half + rest) for half, rest in pads], mode="reflect")
        low = correlate2d(padded, LOW_PASS, mode="valid")[::2, ::2]
        up = np.pad(slow_bilinear(low, image.shape), 2, mode="reflect")
        band = image - correlate2d(up, LOW_PASS, mode="valid")
        around = correlate2d(np.pad(abs(band), 1, mode="reflect"), kernel(level, 3), mode="valid")
        bands.append(band / (SIGMAS[level] + around))
        image = low
    return bands


@pytest.mark.parametrize("levels", [1, 3])
def test_the_rgb_form_against_its_definition(levels):
    ref, x = images(0, 3, 20, 33), images(1, 3, 20, 33)
    bands = [[slow_rgb(channel, levels) for channel in image] for image in (ref, x)]
    errors = [rms(*([image[channel][level] for channel in range(3)] for image in bands)) for level in range(levels)]
    expected = sum(error**0.6 for error in errors) ** (1 / 0.6)
    assert nlpd_rgb(ref[None], x[None], levels=levels)[0] == pytest.approx(expected, rel=1e-12)


def slow_2017(image: np.ndarray, levels: int) -> list[np.ndarray]:
    image = (image**2.4 * 175 + 5) ** (1 / 2.6)
    weights = np.array(
        [
            [0.04, 0.04, 0.05, 0.04, 0.04],
            [0.04, 0.03, 0.04, 0.03, 0.04],
            [0.05, 0.04, 0.05, 0.04, 0.05],
            [0.04, 0.03, 0.04, 0.03, 0.04],
            [0.04, 0.04, 0.05, 0.04, 0.04],
        ]
    )
    bands = []
    for _ in range(levels - 1):
        low = correlate2d(np.pad(image, 4, mode="reflect"), LOW_PASS, mode="valid")[::2, ::2]
        up = np.zeros((image.shape[0] + 9, image.shape[1] + 9))
        for i, j in np.ndindex(low.shape):
            up[2 * i : 2 * i + 5, 2 * j : 2 * j + 5] += 4 * low[i, j] * LOW_PASS
        band = image - up[4 : 4 + image.shape[0], 4 : 4 + image.shape[1]]
        bands.append(band / (0.17 + correlate2d(abs(band), weights, mode="same")))
        image = low[1:-1, 1:-1]
    return [*bands, image / (abs(image) + 4.86)]


def test_2017_against_its_definition():
    ref, x = images(0, 3, 33, 38), images(1, 3, 33, 38)
    expected = []
    for a, b in zip(ref, x, strict=True):
        errors = [rms(p, q) for p, q in zip(slow_2017(a, 5), slow_2017(b, 5), strict=True)]
        expected.append(np.mean(np.power(errors, 0.6)) ** (1 / 0.6))
    assert distance("nlpd_2017_5")(ref[None], x[None])[0] == pytest.approx(np.mean(expected), rel=1e-12)


@pytest.mark.parametrize("levels", [0, 7])
def test_levels_out_of_range_are_refused(levels):
    image = np.zeros((1, 3, 256, 256))
    with pytest.raises(ValueError, match=rf"^levels must lie in 1\.\.6; got {levels}$"):
        nlpd_rgb(image, image, levels=levels)


def test_values_just_below_zero_are_accepted():
    ref = np.zeros((1, 3, 64, 64))
    assert distance("nlpd_2017_5")(ref - 1e-7, ref)[0] == pytest.approx(0, abs=1e-9)
