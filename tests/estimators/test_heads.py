"""Heads fitted to votes: the fit against a slow one, recovery, the published heads to fall back to, saved files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import twoafc
from channels import PUBLISHED, settings_of, table_of, world
from fusing import excess
from twoafc.arrays import FloatArray
from twoafc.errors import DataError
from twoafc.estimators import HeadsFit, Spline
from twoafc.estimators.heads import Ridge
from twoafc.estimators.penalised import MOST_LAPSE, SPREAD_LAPSE, USUAL_LAPSE
from twoafc.measurement import MeasuredChannels

OTHER = np.array([0.0, 0.0, 1.5, 0.0, 2.0, 0.0, 0.0, 0.3])


def slow_fit(file: MeasuredChannels, strength: float) -> FloatArray:
    """Heads as the formulas say: over heads, s and the lapse, row by row in double precision."""
    first, second = file.means.astype(np.float64)[file.places.T]
    n, M = (file.frame[name].to_numpy() for name in ("n", "M"))
    published = np.concatenate(file.heads)
    v = ((first - second) ** 2).mean(axis=0)
    scale = 1 / np.sqrt(v)

    def loss(parameters: FloatArray) -> float:
        w, s, kappa = parameters[:-2] * scale, parameters[-2], parameters[-1]
        lapse = MOST_LAPSE * expit(kappa)
        total = strength / 2 * sum(v * (w - s * published) ** 2) + ((kappa - USUAL_LAPSE) / SPREAD_LAPSE) ** 2 / 2
        for x0, x1, votes, all_votes in zip(first, second, n, M, strict=True):
            P = lapse / 2 + (1 - lapse) * expit(w @ x0 - w @ x1)
            total -= votes * np.log(P) + (all_votes - votes) * np.log(1 - P)
        return float(total)

    start = np.append(np.full(len(published), 0.2), [0.5, USUAL_LAPSE])
    bounds = [(0, None)] * (len(start) - 1) + [(None, None)]
    return np.asarray(minimize(loss, start, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-12}).x[:-2] * scale)


@pytest.mark.parametrize("strength", [1.0, 300.0])
def test_the_fit_is_the_minimum_of_the_formula(strength: float) -> None:
    file, _ = world(120, OTHER, seed=3)
    fit = settings_of(file, strength=strength).fit(table_of(file))
    scale = np.geomspace(0.1, 10, len(OTHER))
    np.testing.assert_allclose(np.concatenate(fit.heads) * scale, slow_fit(file, strength) * scale, atol=0.01)


def test_the_gradient_is_that_of_the_loss() -> None:
    file, _ = world(200, OTHER, seed=4)
    ridge = Ridge.of(table_of(file), settings_of(file))
    theta = np.append(np.random.default_rng(0).uniform(0.1, 0.5, len(OTHER)), -2.0)
    _, gradient = ridge.loss(theta, 7.0)
    for at, step in enumerate(np.eye(len(theta)) * 0.01):
        slope = (ridge.loss(theta + step, 7.0)[0] - ridge.loss(theta - step, 7.0)[0]) / 0.02
        assert gradient[at] == pytest.approx(slope, rel=1e-3, abs=0.05)


def predicted(fit: HeadsFit, file: MeasuredChannels) -> FloatArray:
    d = file.means.astype(np.float64) @ np.concatenate(fit.heads)
    return fit.probability(*d[file.places.T])


@pytest.fixture(scope="module")
def refitted() -> HeadsFit:
    file, _ = world(1500, OTHER, seed=1)
    return settings_of(file).fit(table_of(file))


def test_other_heads_are_found(refitted: HeadsFit) -> None:
    new, P = world(4000, OTHER, seed=2)
    assert refitted.probability.surface is None
    assert excess(P, predicted(refitted, new)) < 0.003
    best = Spline().fit(new.votes())
    assert excess(P, best.probability(*new.votes().columns)) > 0.02  # the published ones, even fitted to these votes
    w = np.concatenate(refitted.heads) * np.geomspace(0.1, 10, len(OTHER))
    assert (w >= 0).all()
    np.testing.assert_allclose(w, OTHER, atol=0.35)
    ours, _ = refitted.shares()
    assert sum(ours) == pytest.approx(1)


@pytest.mark.parametrize("triplets", [60, 600])
def test_published_heads_stay_where_they_are_the_truth(triplets: int) -> None:
    file, _ = world(triplets, PUBLISHED, seed=5, votes=2)
    fit = settings_of(file).fit(table_of(file))
    assert fit.probability.surface is not None
    assert fit.settings.strength == np.inf
    d = file.votes()
    np.testing.assert_allclose(fit.reduce(file.places[:, :1]), d.columns[0], rtol=1e-5)
    expected = Spline().fit(d).probability(*d.columns)
    np.testing.assert_allclose(predicted(fit, file), expected, atol=1e-3)


def test_a_strong_ridge_gives_a_multiple_of_the_published_heads() -> None:
    file, _ = world(300, OTHER, seed=6)
    fit = settings_of(file, strength=1e9).fit(table_of(file))
    published = np.concatenate(file.heads)
    ratio = np.concatenate(fit.heads)[published > 0] / published[published > 0]
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-3)


def test_turning_triplets_round_changes_nothing() -> None:
    file, _ = world(300, OTHER, seed=7)
    table = table_of(file)
    one, other = (settings_of(file, strength=10.0).fit(each) for each in (table, table.mirrored()))
    for ours, theirs in zip(one.heads, other.heads, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.01, atol=1e-3)


def test_a_channel_that_never_differs_keeps_its_share() -> None:
    file, _ = world(300, PUBLISHED, seed=8)
    means = file.means.copy()
    means[:, 0] = 3.0
    flat = dataclasses.replace(file, means=means)
    fit = settings_of(flat, strength=1e9).fit(table_of(flat))
    published = np.concatenate(file.heads)
    w = np.concatenate(fit.heads)
    assert w[0] / published[0] == pytest.approx(w[3] / published[3], rel=1e-3)


def test_weights_of_rows_count_like_copies() -> None:
    file, _ = world(200, OTHER, seed=9)
    table = table_of(file)
    twice = dataclasses.replace(table, n=2 * table.n, M=2 * table.M)
    weighted = dataclasses.replace(table, count=np.full(200, 2))
    one, other = (settings_of(file, strength=10.0).fit(each) for each in (twice, weighted))
    np.testing.assert_allclose(np.concatenate(one.heads), np.concatenate(other.heads), rtol=1e-3, atol=1e-4)


def test_saved_heads_are_read_again(refitted: HeadsFit, tmp_path: Path) -> None:
    path = tmp_path / "heads.npz"
    refitted.save(path)
    again = twoafc.load(path)
    assert isinstance(again, HeadsFit)
    assert again.digest == refitted.digest
    assert again.summary() == refitted.summary()
    assert repr(again) == repr(refitted)
    np.testing.assert_array_equal(again.probability([2.0, 1.0], [1.0, 1.0]), refitted.probability([2.0, 1.0], 1.0))
    assert again.probability(1.0, 1.0) == 0.5
    with pytest.raises(DataError, match="heads read from a file cannot be applied to channels"):
        again.reduce(np.zeros((1, 1), dtype=np.int64))


def test_the_published_are_saved_with_their_surface(tmp_path: Path) -> None:
    file, _ = world(60, PUBLISHED, seed=5, votes=2)
    fit = settings_of(file).fit(table_of(file))
    fit.save(tmp_path / "heads.npz")
    again = twoafc.load(tmp_path / "heads.npz")
    np.testing.assert_array_equal(again.probability([2.0], [1.0]), fit.probability([2.0], [1.0]))
    assert again.summary()["published"] is True


def test_the_state_dict_has_the_names_of_the_authors(refitted: HeadsFit) -> None:
    pytest.importorskip("torch")
    tensors = refitted.state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "lin0.model.1.weight": (1, 3, 1, 1),
        "lin1.model.1.weight": (1, 5, 1, 1),
    }
    np.testing.assert_array_equal(tensors["lin1.model.1.weight"].numpy().ravel(), refitted.heads[1])


def test_separable_votes_and_equal_channels_give_usable_fits() -> None:
    file, P = world(200, OTHER, seed=10)
    sure = dataclasses.replace(file, frame=file.frame.with_columns(n=5 * (P > 0.5).astype(np.int64)))
    fit = settings_of(sure).fit(table_of(sure))
    Q = predicted(fit, sure)
    assert np.isfinite(Q).all()
    assert (Q > 0).all()
    assert np.mean((Q > 0.5) == (P > 0.5)) > 0.95
    flat = dataclasses.replace(file, means=np.ones_like(file.means))
    fit = settings_of(flat).fit(table_of(flat))
    assert fit.probability.surface is not None
    assert (predicted(fit, flat) == 0.5).all()
