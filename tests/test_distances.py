"""Distances: golden values, slow obvious versions, and the promises that every distance makes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import correlate1d

from twoafc.distances import ALIASES, DEEP, DISTANCES, distance
from twoafc.distances.batches import in_pieces

GOLDEN = {"euclidean": "euclidean.l2", "rmse": "euclidean.rmse", "ssim": "ssim.rgb", "ssim_luma": "ssim.luma601"}
names = pytest.mark.parametrize("name", list(GOLDEN))


def images(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape)


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    # On a busy machine threads that wait for each other make these small products take seconds.
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


def golden_folder() -> Path:
    if "TWOAFC_SHARED" not in os.environ:
        pytest.skip("the golden values are not at hand: set TWOAFC_SHARED to the folder that holds golden/")
    return Path(os.environ["TWOAFC_SHARED"]) / "golden"


def golden_images(group: str, which: str) -> np.ndarray:
    with np.load(golden_folder() / "images.npz") as archive:
        return archive[f"{group}_{which}"].transpose(0, 3, 1, 2) / 255


@pytest.mark.parametrize("kind", ["numpy", "numpy float32", "torch float32", "torch float64"])
@pytest.mark.parametrize("name", list(GOLDEN))
def test_golden_values(name, kind, request):
    variant = json.loads((golden_folder() / "golden.json").read_text())["variants"][GOLDEN[name]]
    for group, values in variant["values"].items():
        for which, expected in values.items():
            ref, x = golden_images(group, "ref"), golden_images(group, which)
            if kind.endswith("float32"):
                ref, x = ref.astype(np.float32), x.astype(np.float32)
            if kind.startswith("torch"):
                ref, x = map(request.getfixturevalue("torch").from_numpy, (ref, x))
            tolerance = variant["tolerance"]["float32" if kind.endswith("float32") else "float64"]
            np.testing.assert_allclose(distance(name)(ref, x), expected, **tolerance)


def slow_ssim(ref: np.ndarray, x: np.ndarray) -> float:
    """One channel, window by window, as the definition reads."""
    window = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))
    window = np.outer(window, window) / window.sum() ** 2
    values = []
    for i in range(ref.shape[0] - 10):
        for j in range(ref.shape[1] - 10):
            a, b = ref[i : i + 11, j : j + 11], x[i : i + 11, j : j + 11]
            mean_a, mean_b = (window * a).sum(), (window * b).sum()
            variance_a, variance_b = (window * (a - mean_a) ** 2).sum(), (window * (b - mean_b) ** 2).sum()
            covariance = (window * (a - mean_a) * (b - mean_b)).sum()
            luminance = (2 * mean_a * mean_b + 1e-4) / (mean_a**2 + mean_b**2 + 1e-4)
            values.append(luminance * (2 * covariance + 9e-4) / (variance_a + variance_b + 9e-4))
    return float(np.mean(values))


def test_ssim_against_its_definition():
    ref, x = images(0, 1, 3, 13, 17), images(1, 1, 3, 13, 17)
    expected = 1 - np.mean([slow_ssim(ref[0, channel], x[0, channel]) for channel in range(3)])
    assert distance("ssim")(ref, x)[0] == pytest.approx(expected, abs=1e-12)
    luma_ref, luma_x = (np.tensordot([0.299, 0.587, 0.114], image[0], axes=1) for image in (ref, x))
    assert distance("ssim_luma")(ref, x)[0] == pytest.approx(1 - slow_ssim(luma_ref, luma_x), abs=1e-12)


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


def test_euclidean_and_rmse_against_loops():
    ref, x = images(0, 2, 3, 4, 5), images(1, 2, 3, 4, 5)
    squares = [
        sum((a - b) ** 2 for a, b in zip(r.ravel(), y.ravel(), strict=True)) for r, y in zip(ref, x, strict=True)
    ]
    np.testing.assert_allclose(distance("euclidean")(ref, x), np.sqrt(squares), rtol=1e-12)
    np.testing.assert_allclose(distance("rmse")(ref, x), np.sqrt(np.divide(squares, 60)), rtol=1e-12)


@names
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), height=st.integers(11, 20), width=st.integers(11, 20))
def test_promises(name, seed, height, width):
    ref, x = images(seed, 3, 3, height, width), images(seed + 1, 3, 3, height, width)
    x[0] = ref[0]
    d = distance(name)(ref, x)
    assert d.shape == (3,)
    assert d.dtype == np.float64
    assert d[0] == 0
    assert (d[1:] > 0).all()
    np.testing.assert_allclose(distance(name)(x, ref), d, rtol=1e-12)
    assert (distance(name)(ref, ref) == 0).all()


@names
def test_a_batch_equals_single_calls(name):
    ref, x = images(0, 11, 3, 40, 30), images(1, 11, 3, 40, 30)
    singles = [distance(name)(ref[i : i + 1], x[i : i + 1])[0] for i in range(11)]
    np.testing.assert_allclose(distance(name)(ref, x), singles, rtol=1e-12)


@names
def test_an_empty_batch_has_no_distances(name):
    assert distance(name)(np.zeros((0, 3, 16, 16)), np.zeros((0, 3, 16, 16))).shape == (0,)


@names
def test_inputs_are_not_changed(name):
    ref, x = images(0, 2, 3, 16, 16), images(1, 2, 3, 16, 16)
    before = ref.copy(), x.copy()
    distance(name)(ref, x)
    np.testing.assert_array_equal((ref, x), before)


@names
def test_torch_keeps_its_type_and_agrees_with_numpy(name, torch):
    ref, x = images(0, 3, 3, 33, 40), images(1, 3, 3, 33, 40)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        d = distance(name)(torch.from_numpy(ref).to(dtype), torch.from_numpy(x).to(dtype))
        assert d.dtype == dtype
        np.testing.assert_allclose(d, distance(name)(ref, x), rtol=tolerance)
    assert (distance(name)(torch.from_numpy(ref).float(), torch.from_numpy(ref).float()) == 0).all()


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


def test_two_kinds_of_arrays_are_refused(torch):
    with pytest.raises(TypeError, match=r"^ref and x must be of one kind; got ndarray and Tensor$"):
        distance("rmse")(np.zeros((1, 3, 4, 4)), torch.zeros(1, 3, 4, 4))


def test_an_unknown_name_lists_the_names():
    known = ", ".join((*DISTANCES, *DEEP, *ALIASES))
    with pytest.raises(
        ValueError,
        match=f"^there is no distance 'psnr'; the names are: {known}; your own goes by package.module:function$",
    ):
        distance("psnr")


def test_plain_distances_have_no_settings():
    with pytest.raises(TypeError, match=r"^ssim has no settings; got device$"):
        distance("ssim", device="cuda")


def test_pieces_cover_the_batch_in_order():
    ref = np.arange(10.0).reshape(10, 1, 1, 1) / 10 * np.ones((10, 3, 64, 64))
    np.testing.assert_allclose(in_pieces(lambda a, b: a.mean(axis=(1, 2, 3)), ref, ref), np.arange(10) / 10)
