"""Distortions change nothing at strength 0, more with more strength, and always return an image."""

from __future__ import annotations

import re

import numpy as np
import pytest

from twoafc.distances import distance, luma
from twoafc.worlds import DISTORTIONS, PHOTOGRAPHS, distort, patches, photograph
from twoafc.worlds.distortions import interpolation, there_and_back

names = pytest.mark.parametrize("name", list(DISTORTIONS))


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.concatenate([patches(photograph(name), 5)[0] for name in PHOTOGRAPHS])


@names
def test_strength_0_changes_nothing_visible(name, images):
    # Less than one level of eight bits: JPEG rounds even at its best.
    assert distance("rmse")(images, distort(name, images, np.zeros(len(images)))).max() < 1 / 255


@names
def test_a_small_strength_changes_little(name, images):
    assert np.median(distance("rmse")(images, distort(name, images, np.full(len(images), 0.02)))) < 0.01


@names
def test_more_strength_distorts_more(name, images):
    strengths = (0.0, 0.25, 0.5, 0.75, 1.0)
    means = [distance("rmse")(images, distort(name, images, np.full(len(images), s))).mean() for s in strengths]
    assert (np.diff(means) > 0).all()
    assert means[-1] > 0.03


@names
def test_results_are_images_and_the_input_is_unchanged(name, images):
    before = images.copy()
    distorted = distort(name, images, np.linspace(0, 1, len(images)))
    assert distorted.shape == images.shape
    assert distorted.dtype == np.float32
    assert distorted.min() >= 0
    assert distorted.max() <= 1
    np.testing.assert_array_equal(images, before)


@names
def test_seeds_reproduce(name, images):
    strength = np.linspace(0, 1, len(images))
    first, again = (distort(name, images, strength, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("name", ["noise", "chroma_noise", "warp", "shift", "colour_shift", "brightness"])
def test_other_seeds_differ(name, images):
    first, other = (distort(name, images, np.full(len(images), 0.5), seed=seed) for seed in (1, 2))
    assert (first != other).any()


@pytest.mark.parametrize("name", ["chroma_noise", "colour_shift"])
def test_colours_change_without_the_luma(name):
    grey = np.full((4, 3, 32, 32), 0.5, dtype=np.float32)
    coloured = distort(name, grey, np.full(4, 0.4))
    np.testing.assert_allclose(luma(coloured), luma(grey), atol=1e-3)
    assert distance("rmse")(grey, coloured).min() > 0.02


def test_a_shift_moves_the_image_by_its_length():
    ramp = np.broadcast_to(np.linspace(0, 1, 64, dtype=np.float32), (30, 3, 64, 64))
    tilted = (ramp + ramp.swapaxes(2, 3)) / 2
    moved = 63 * 2 * (distort("shift", tilted, np.full(30, 0.7)) - tilted)[:, 0, 10:-10, 10:-10]
    # Along the diagonal of a plane a shift of 1.4 pixels by the angle a is seen as 1.4 (sin a + cos a).
    assert abs(moved).max() <= 1.4 * np.sqrt(2) + 1e-3
    assert abs(moved).max() > 1.8


def test_there_and_back_keeps_means_and_at_full_size_everything():
    np.testing.assert_allclose(there_and_back(64, 64), np.eye(64), atol=1e-6)
    np.testing.assert_allclose(there_and_back(64, 11).sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(interpolation(5, 64).sum(axis=1), 1, atol=1e-6)


def test_posterised_images_have_few_levels(images):
    assert set(np.unique(distort("posterise", images, np.ones(len(images))))) == {0, 0.5, 1}


def test_an_unknown_name_lists_the_names(images):
    message = f"there is no distortion 'melt'; the names are: {', '.join(DISTORTIONS)}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        distort("melt", images, np.ones(len(images)))
