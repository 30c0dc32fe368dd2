"""Curves P(same | d) of pairs: what they recover, their errors, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import expit

from pairs_world import falling, world
from twoafc import Density, Network, Pairs, Spline

ESTIMATORS: dict[str, Any] = {"density": Density(), "auto": Density(sigma="auto"), "spline": Spline()}


VOTES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=40)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_known_curve_is_recovered_within_its_errors(name: str) -> None:
    d = np.exp(np.linspace(-1.5, 1.5, 7))
    off, tolerance = [], []
    for seed in range(12):
        fit: Any = ESTIMATORS[name].fit(world(1500, seed=seed)["good"])
        P, se = fit.probability(d), fit.standard_error(d)
        off.append((P - falling(np.log(d))) / se)
        tolerance.append(np.abs(P - falling(np.log(d))).max())
    assert np.mean(np.abs(off) < 2) > 0.85
    assert 0.6 < np.std(off) < 1.3
    assert np.mean(tolerance) < {"density": 0.08, "auto": 0.06, "spline": 0.04}[name]


@pytest.mark.parametrize("name", ["density", "spline"])
def test_errors_know_of_references_that_repeat(name: str) -> None:
    def drawn(seed: int) -> Pairs:
        rng = np.random.default_rng(seed)
        ref = rng.integers(60, size=900)
        z, liking = rng.normal(size=900), rng.normal(size=60)
        n = rng.binomial(3, expit(-2 * z + liking[ref]))
        return Pairs.from_frame({"n": n, "M": [3] * 900, "d": np.exp(z), "ref": ref})

    d = np.exp([-1.0, 0.0, 1.0])
    fits: list[Any] = [ESTIMATORS[name].fit(drawn(seed)["distance"]) for seed in range(80)]
    spread = np.std([fit.probability(d) for fit in fits], axis=0, ddof=1)
    se = np.mean([fit.standard_error(d) for fit in fits], axis=0)
    assert (spread / se > 0.6).all()
    # A tenth too small in the middle, for the spline: one dispersion serves the whole curve.
    assert (spread / se < 1.4).all()


def test_the_density_curve_is_the_plain_sum() -> None:
    table = world(80, seed=3)["poor"]
    fit: Any = Density(sigma=0.1, grid_size=5, prior=0.5).fit(table)
    u = (np.argsort(np.argsort(table.d)) + 0.5) / 80
    moved: list[np.ndarray] = []
    for i, node in enumerate(np.linspace(0, 1, 5)):
        K = np.exp(-((u - node) ** 2) / (2 * 0.1**2))
        P = (np.sum(table.n * K) + 0.5 * table.share) / (np.sum(table.M * K) + 0.5)
        assert fit.surface[i] == pytest.approx(P, rel=1e-12)
        moved.append(K * (table.n - P * table.M) / (np.sum(table.M * K) + 0.5))
        assert fit.covariances[0, 0, i] == pytest.approx(moved[i] @ moved[i], rel=1e-9)
        if i:
            assert fit.covariances[0, 1, i - 1] == pytest.approx(moved[i] @ moved[i - 1], rel=1e-9)
    between = fit.uniform.inverse(0.25 / 2)
    assert fit.probability(between) == pytest.approx(fit.surface[:2].mean(), rel=1e-9)


def test_where_there_is_no_data_density_gives_the_overall_share() -> None:
    table = Pairs.from_frame({"n": [3] * 9 + [0], "M": [3] * 10, "d": [1.0] * 9 + [2.0]})
    fit: Any = Density(sigma=0.01, grid_size=101).fit(table)
    empty = fit.uniform.inverse(0.7)
    assert fit.probability(empty) == pytest.approx(0.9)
    assert fit.standard_error(empty) == pytest.approx(np.sqrt(1 / 12), rel=1e-3)
    assert fit.standard_error(1.0) < 0.1


@settings(max_examples=25, deadline=None)
@example([(0, 0), (0, 0), (0, 1), (1, 1)], "auto")  # widths that only rounding tells apart
@given(VOTES.filter(lambda rows: len(rows) > 1), st.sampled_from(sorted(ESTIMATORS)))
def test_laws_of_curves(rows: list[tuple[int, int]], name: str) -> None:
    n, d = (np.array(column) for column in zip(*rows, strict=True))
    columns = {"n": n, "M": np.full(len(n), 3), "d": d / 3}
    at = np.linspace(-1, 6, 15)
    fit: Any = ESTIMATORS[name].fit(Pairs.from_frame(columns))
    P = fit.probability(at)
    assert ((P >= 0) & (P <= 1)).all()
    se = fit.standard_error(at)
    assert (np.isfinite(se) & (se >= 0)).all()
    turned: Any = ESTIMATORS[name].fit(Pairs.from_frame({key: column[::-1] for key, column in columns.items()}))
    np.testing.assert_allclose(turned.probability(at), P, atol=1e-6)
    # Outside the training range, what holds at its ends.
    assert P[0] == pytest.approx(float(fit.probability(d.min() / 3 - 1e-9)), abs=1e-6)
    assert fit.probability(at.reshape(3, 5)).shape == fit.standard_error(at.reshape(3, 5)).shape == (3, 5)
    assert np.shape(fit.probability(0.5)) == ()


def test_unanimous_votes_leave_room_for_doubt() -> None:
    table = Pairs.from_frame({"n": [3] * 50, "M": [3] * 50, "d": np.arange(50.0)})
    for estimator in ESTIMATORS.values():
        fit: Any = estimator.fit(table)
        assert 0.97 < fit.probability(25.0) <= 1
        assert 0.001 < fit.standard_error(25.0) < 0.1


def test_a_curve_need_not_fall() -> None:
    rng = np.random.default_rng(0)
    d = rng.random(4000)
    table = Pairs.from_frame({"n": rng.binomial(3, 0.2 + 2 * (d - 0.5) ** 2), "M": [3] * 4000, "d": d})
    for estimator in ESTIMATORS.values():
        P = estimator.fit(table).probability([0.02, 0.5, 0.98])
        np.testing.assert_allclose(P, [0.66, 0.2, 0.66], atol=0.07)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Network(), "network does not support pairs; use density or spline"),
        (Spline(monotone=True), "monotone does not support pairs"),
    ],
)
def test_an_estimator_without_a_form_for_pairs_says_so(estimator: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        estimator.fit(world(10)["good"])
    assert str(caught.value) == message
