"""Triplets of photographs and their simulated observers."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from twoafc.core import log_pmf
from twoafc.distances import distance, luma
from twoafc.worlds import (
    DISTORTIONS,
    LEAST_CONTRAST,
    PHOTOGRAPHS,
    brightness,
    hidden_distance,
    observers,
    patches,
    photograph,
    photograph_triplets,
)


@pytest.fixture(scope="module")
def triplets():
    return photograph_triplets(600, seed=1)


def test_shapes_ranges_and_names(triplets):
    assert len(triplets) == 600
    for images in (triplets.ref, triplets.x0, triplets.x1):
        assert images.shape == (600, 3, 64, 64)
        assert images.dtype == np.float32
        assert images.min() >= 0
        assert images.max() <= 1
    columns = ["group", "ref", "x0", "x1", "distortion0", "distortion1", "strength0", "strength1"]
    assert triplets.table.columns == columns
    assert set(triplets.table["group"].value_counts()["count"]) == {75}
    assert set(triplets.table["distortion0"]) == set(DISTORTIONS)
    assert triplets.table["ref"].n_unique() == 600
    group, ref, x0, _, distortion0, _, strength0, _ = triplets.table.row(0)
    assert group in PHOTOGRAPHS
    assert ref.startswith(f"{group}-")
    assert x0 == f"{ref}-{distortion0}-{strength0}"


def test_a_name_says_where_the_patch_is(triplets):
    for row in range(8):
        name, top, left = triplets.table["ref"][row].rsplit("-", 2)
        cut = photograph(name)[:, int(top) : int(top) + 64, int(left) : int(left) + 64]
        np.testing.assert_array_equal(triplets.ref[row], cut)


def test_both_images_come_from_the_reference(triplets):
    assert np.median(distance("ssim")(triplets.ref, triplets.x0)) < 0.2
    assert np.median(distance("ssim")(triplets.ref, np.roll(triplets.x0, 1, axis=0))) > 0.7


def test_seeds_reproduce_and_differ():
    first, again, other = (photograph_triplets(24, seed=seed) for seed in (3, 3, 4))
    for name in ("ref", "x0", "x1"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert first.table.equals(again.table)
    assert not first.table.equals(other.table)


def test_no_network_is_needed(monkeypatch):
    def refuse(*_):
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    photograph.cache_clear()
    assert all(photograph(name).shape[0] == 3 for name in PHOTOGRAPHS)


def test_flat_patches_are_rejected():
    image = np.full((3, 200, 300), 0.5, dtype=np.float32)
    image[:, 100:, 150:] += np.random.default_rng(0).uniform(-0.3, 0.3, (100, 150)).astype(np.float32)
    cut, corners = patches(image, 200)
    assert luma(cut).std(axis=(1, 2, 3)).min() >= LEAST_CONTRAST - 1e-6
    assert len(np.unique(corners, axis=0)) == 200
    for name in PHOTOGRAPHS:
        assert luma(patches(photograph(name), 50)[0]).std(axis=(1, 2, 3)).min() >= LEAST_CONTRAST - 1e-6


def test_too_few_triplets_are_refused():
    with pytest.raises(ValueError, match=r"^count must be at least 1; got 0$"):
        photograph_triplets(0)


def test_swapping_the_images_swaps_the_probabilities(triplets):
    P = observers(triplets.ref, triplets.x0, triplets.x1, 5).P
    swapped = observers(triplets.ref, triplets.x1, triplets.x0, 5).P
    np.testing.assert_allclose(P + swapped, 1, atol=1e-12)


def test_votes_follow_the_true_probability_and_the_seed(triplets):
    n, M, P = observers(triplets.ref, triplets.x0, triplets.x1, [2, 5], seed=1)
    assert set(M) == {2, 5}
    assert ((n >= 0) & (n <= M)).all()
    assert abs((n - M * P).sum()) < 4 * np.sqrt((M * P * (1 - P)).sum())
    assert 0.80 < np.maximum(P, 1 - P).mean() < 0.85
    assert P.min() >= 0.015
    assert P.max() <= 0.985
    again, other = (observers(triplets.ref, triplets.x0, triplets.x1, [2, 5], seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(n, again.n)
    assert (n != other.n).any()


def test_the_hidden_distance_is_a_distance(triplets):
    ref, x = triplets.ref[:50], triplets.x0[:50]
    assert (hidden_distance(ref, ref) == 0).all()
    assert (hidden_distance(ref, x) >= 0).all()
    np.testing.assert_allclose(hidden_distance(ref, x), hidden_distance(x, ref), rtol=1e-6)
    np.testing.assert_allclose(hidden_distance(ref[7:8], x[7:8]), hidden_distance(ref, x)[7:8], rtol=1e-4)


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_observers_notice_a_shift_less_than_equally_large_noise(name):
    image = photograph(name)
    cut, corners = patches(image[:, :, :-1], 40)
    shifted = np.stack([image[:, top : top + 64, left + 1 : left + 65] for top, left in corners])
    size = distance("rmse")(cut, shifted)[:, None, None, None]
    noisy = (cut + size * np.random.default_rng(0).standard_normal(cut.shape)).clip(0, 1).astype(np.float32)
    assert np.mean(hidden_distance(cut, shifted) < hidden_distance(cut, noisy)) > 0.9


def test_brightness_compares_the_mean_luma_only(triplets):
    assert (brightness(triplets.ref, triplets.ref[:, :, ::-1]) < 1e-9).all()
    expected = abs(luma(triplets.ref).mean(axis=(1, 2, 3)) - luma(triplets.x0).mean(axis=(1, 2, 3)))
    np.testing.assert_allclose(brightness(triplets.ref, triplets.x0), expected, atol=1e-6)


def share_explained(d0: np.ndarray, d1: np.ndarray, P: np.ndarray) -> float:
    """Mean true probability that observers choose as the distance does."""
    return float(np.mean(np.where(d0 > d1, P, 1 - P)))


def test_the_distances_explain_the_votes_in_the_known_order(triplets):
    n, M, P = observers(triplets.ref, triplets.x0, triplets.x1, 5)
    shares = [
        share_explained(d(triplets.ref, triplets.x0), d(triplets.ref, triplets.x1), P)
        for d in (brightness, distance("euclidean"), distance("ssim"), hidden_distance)
    ]
    assert shares == sorted(shares)
    assert np.diff(shares).min() > 0.02
    assert -log_pmf(n, M, P).mean() < -log_pmf(n, M, np.full(len(P), 0.5)).mean() - 1
