"""MS-SSIM: golden values, a slow obvious version, and the promises that every distance makes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.signal import correlate2d

from test_distances import golden_folder, golden_images, images
from twoafc.distances import Distance, distance
from twoafc.distances.ms_ssim import WEIGHTS, WEIGHTS_3, halved, mean_similarity

KINDS = ("numpy", "numpy float32", "torch float32", "torch float64")
LEAST = {"ms_ssim": 161, "ms_ssim_3": 41}
names = pytest.mark.parametrize("name", list(LEAST))


def of_kind(kind: str, *batches: np.ndarray):
    """Batches as arrays or tensors of a kind such as "torch float32"; a bare "numpy" leaves them in float64."""
    dtype = np.float32 if kind.endswith("float32") else np.float64
    arrays = [batch.astype(dtype) for batch in batches]
    return arrays if kind.startswith("numpy") else [*map(pytest.importorskip("torch").from_numpy, arrays)]


def agrees_with_golden(measure: Distance, variant: str, kind: str, groups: tuple[str, ...] | None = None) -> None:
    golden = json.loads((golden_folder() / "golden.json").read_text())["variants"][variant]
    precision = "float32" if kind.endswith("float32") else "float64"
    table, tolerance = golden["values"], golden["tolerance"].get(precision)
    if tolerance is None:  # the source is in single precision, and was recomputed in double
        table, tolerance = golden["values_float64"], golden["tolerance"]["float64 (against values_float64)"]
    for group in groups or table:
        for which, expected in table[group].items():
            pair = of_kind(kind, golden_images(group, "ref"), golden_images(group, which))
            np.testing.assert_allclose(measure(*pair), expected, **tolerance)


def keeps_promises(measure: Distance, height: int, width: int) -> None:
    ref, x = images(0, 3, 3, height, width), images(1, 3, 3, height, width)
    x[0] = ref[0]
    before = ref.copy(), x.copy()
    d = measure(ref, x)
    assert d.shape == (3,)
    assert d.dtype == np.float64
    assert d[0] == 0
    assert (d[1:] > 0).all()
    np.testing.assert_allclose(measure(x, ref), d, rtol=1e-12)
    np.testing.assert_allclose([measure(ref[[i]], x[[i]])[0] for i in range(3)], d, rtol=1e-12)
    np.testing.assert_array_equal((ref, x), before)
    assert measure(ref[:0], x[:0]).shape == (0,)


def agrees_on_torch(measure: Distance, height: int, width: int) -> None:
    ref, x = images(0, 2, 3, height, width), images(1, 2, 3, height, width)
    for kind, tolerance in (("torch float64", 1e-12), ("torch float32", 2e-5)):
        a, b = of_kind(kind, ref, x)
        assert measure(a, b).dtype == a.dtype
        np.testing.assert_allclose(measure(a, b), measure(ref, x), rtol=tolerance)
        assert (measure(a, a) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_golden_values(kind):
    agrees_with_golden(distance("ms_ssim"), "ms_ssim.rgb.exact_window", kind)


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


def slow_halves(image: np.ndarray) -> np.ndarray:
    """As the authors' code: filter with a 2 x 2 mean, the edge repeated, and keep every second pixel."""
    return correlate2d(np.pad(image, ((0, 1), (0, 1)), mode="edge"), np.full((2, 2), 0.25), mode="valid")[::2, ::2]


@pytest.mark.parametrize(("height", "width"), [(41, 44), (46, 43)])
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


def test_tiles_make_no_difference():
    ref, x = images(0, 1, 1, 131, 75), images(1, 1, 1, 131, 75)
    structure, similarity = slow_similarity(ref[0, 0], x[0, 0])
    assert mean_similarity(ref, x, luminance=False)[0, 0] == pytest.approx(structure, abs=1e-12)
    assert mean_similarity(ref, x, luminance=True)[0, 0] == pytest.approx(similarity, abs=1e-12)


def test_weights_are_the_authors():
    assert WEIGHTS == (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
    assert sum(WEIGHTS_3) == pytest.approx(1, abs=1e-15)


def test_halves_of_odd_sides():
    image = images(0, 1, 1, 5, 8)
    np.testing.assert_allclose(halved(image)[0, 0], slow_halves(image[0, 0]), rtol=1e-15)


def test_a_negative_has_nothing_in_common():
    board = np.indices((41, 41)).sum(axis=0) % 2 * np.ones((1, 3, 1, 1))
    assert distance("ms_ssim_3")(board, 1 - board)[0] == 1


@names
def test_promises(name):
    keeps_promises(distance(name), LEAST[name], LEAST[name] + 4)


@names
def test_torch_agrees_with_numpy(name):
    agrees_on_torch(distance(name), LEAST[name] + 3, LEAST[name])


@names
def test_smaller_images_are_refused(name):
    side = LEAST[name]
    small = np.zeros((1, 3, side, side - 1))
    message = rf"^images must be at least {side} x {side} pixels for this distance; got {side} x {side - 1}$"
    with pytest.raises(ValueError, match=message):
        distance(name)(small, small)
