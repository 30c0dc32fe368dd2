from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator
from scipy.special import expit, gammaln
from scipy.stats import binom, rankdata

from conftest import random_table
from twoafc.core import Uniform
from twoafc.estimators import Density, Spline
from twoafc.estimators.kernel import interpolated_variance
from twoafc.metrics import agreement, nll, score_2afc_distance
from twoafc.table import Triplets

rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.floats(0.0, 9.0), st.floats(0.0, 9.0)), min_size=1, max_size=25
)
settings_drawn = st.builds(Density, sigma=st.floats(0.01, 1.0), grid_size=st.integers(2, 12))


def slow_kernel(x: np.ndarray, y: np.ndarray, density: Density) -> np.ndarray:
    """Gaussian of a step (x, y) in the plane."""
    # Numbers below exp(-700) are subnormal: nothing in the sum, and ten times the time.
    return np.exp(np.maximum(-(x**2 + y**2) / (2 * density.sigma**2), -700))


def as_table(drawn: list[tuple[int, int, float, float]]) -> Triplets:
    n, M, d0, d1 = (np.array(column) for column in zip(*drawn, strict=True))
    return Triplets.from_frame({"n": np.minimum(n, M), "M": M, "d0": d0, "d1": d1})


def slow_surface(table: Triplets, density: Density) -> np.ndarray:
    """The formula of section 3.1 as it stands: a loop over nodes, a sum over triplets and their mirrors."""
    pooled = (rankdata(np.concatenate([table.d0, table.d1])) - 0.5) / (2 * len(table))
    u0, u1 = np.split(pooled, 2)
    a, b = np.concatenate([u0, u1]), np.concatenate([u1, u0])
    n, M = np.concatenate([table.n, table.M - table.n]), np.concatenate([table.M, table.M])
    nodes = np.linspace(0, 1, density.grid_size)
    P = np.empty((density.grid_size, density.grid_size))
    for i, x in enumerate(nodes):
        for j, y in enumerate(nodes):
            K = slow_kernel(a - x, b - y, density)
            P[i, j] = (K @ n + density.prior / 2) / (K @ M + density.prior)
    return P


def slow_probability(table: Triplets, density: Density, d0: np.ndarray, d1: np.ndarray) -> np.ndarray:
    nodes = np.linspace(0, 1, density.grid_size)
    U = Uniform.learn(table.d0, table.d1)
    return RegularGridInterpolator((nodes, nodes), slow_surface(table, density))(np.stack([U(d0), U(d1)], axis=-1))


@settings(deadline=None, max_examples=60)
@given(rows, settings_drawn)
def test_the_surface_is_the_papers_formula(drawn: list[tuple[int, int, float, float]], density: Density) -> None:
    table = as_table(drawn)
    np.testing.assert_allclose(density.fit(table).surface, slow_surface(table, density), rtol=0, atol=1e-11)


def test_between_nodes_the_surface_is_bilinear() -> None:
    train, test = random_table(300), random_table(100, seed=1)
    found = Density().fit(train).probability(test.d0, test.d1)
    np.testing.assert_allclose(found, slow_probability(train, Density(), test.d0, test.d1), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"), [("lpips_alex", (1.348, 79.41, 73.547)), ("rmse", (1.677, 72.12, 63.881))]
)
def test_the_real_votes_give_the_known_figures(
    material: tuple[Triplets, Triplets], name: str, expected: tuple[float, float, float]
) -> None:
    train, test = material[0][name], material[1][name]
    P = Density().fit(train).probability(test.d0, test.d1)
    assert nll(test.n, test.M, P) == pytest.approx(expected[0], abs=0.0006)
    assert agreement(test.n, test.M, P) == pytest.approx(expected[1], abs=0.02)
    assert score_2afc_distance(test.n, test.M, test.d0, test.d1) == pytest.approx(expected[2], abs=0.0006)


@settings(deadline=None, max_examples=60)
@given(rows, settings_drawn)
def test_p_is_symmetric_and_a_probability(drawn: list[tuple[int, int, float, float]], density: Density) -> None:
    fit = density.fit(as_table(drawn))
    d0, d1 = np.random.default_rng(0).uniform(-1, 10, (2, 200))
    P, swapped = fit.probability(d0, d1), fit.probability(d1, d0)
    assert ((P >= 0) & (P <= 1)).all()
    np.testing.assert_allclose(P + swapped, 1, rtol=0, atol=1e-15)
    assert (fit.probability(d0, d0) == 0.5).all()


@settings(deadline=None, max_examples=40)
@given(rows, settings_drawn, st.randoms(use_true_random=False))
def test_row_order_is_irrelevant(drawn: list[tuple[int, int, float, float]], density: Density, random: object) -> None:
    table = as_table(drawn)
    order = np.random.default_rng(random.getrandbits(32)).permutation(len(table))  # type: ignore[attr-defined]
    np.testing.assert_allclose(density.fit(table).surface, density.fit(table.where(order)).surface, rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(rows, settings_drawn)
def test_single_votes_give_the_surface_of_the_triplets(
    drawn: list[tuple[int, int, float, float]], density: Density
) -> None:
    table = as_table(drawn)
    fit = density.fit(table)
    row = np.repeat(np.arange(len(table)), table.M)
    choice = np.concatenate([[1] * n + [0] * (M - n) for n, M in zip(table.n, table.M, strict=True)])
    votes = Triplets.from_frame({"choice": choice, "d0": table.d0[row], "d1": table.d1[row]})
    assert len(votes) == table.M.sum()
    again = density.fit(dataclasses.replace(votes, uniform=fit.uniform))
    np.testing.assert_allclose(again.surface, fit.surface, rtol=0, atol=1e-12)


def test_the_papers_route_through_each_count_gives_the_same_surface() -> None:
    """Equations 1 and 2, with j = 0 counted and a vanishing prior: P = (1/M) sum of j Pr(j | d0, d1)."""
    table = random_table(400, M=3)
    density = Density(sigma=0.1, grid_size=9, prior=1e-15)
    both = [table, table.mirrored()]
    U = Uniform.learn(table.d0, table.d1)
    nodes = np.linspace(0, 1, 9)
    p = np.zeros((4, 9, 9))
    for part in both:
        u0, u1 = U(part.d0), U(part.d1)
        for j in range(4):
            of_j = part.n == j
            K0, K1 = (np.exp(-0.5 * ((nodes[:, None] - u[of_j]) / 0.1) ** 2) for u in (u0, u1))
            p[j] += K0 @ K1.T
    conditional = p / p.sum(axis=0)
    P = np.tensordot(np.arange(4), conditional, axes=1) / 3
    fit = density.fit(table)
    np.testing.assert_allclose(fit.surface, P, rtol=0, atol=1e-12)
    local = sum(conditional[j] * binom.logpmf(j, 3, P) for j in range(4))
    np.testing.assert_allclose(fit.log_likelihood, local, atol=1e-10)
    even, by_density = fit.plane_log_likelihood
    assert even == pytest.approx(local.mean(), abs=1e-10)
    assert by_density == pytest.approx(np.average(local, weights=p.sum(axis=0)), abs=1e-10)


def test_the_local_log_likelihood_takes_mixed_votes() -> None:
    table = random_table(300)
    density = Density(sigma=0.15, grid_size=6)
    fit, U = density.fit(table), Uniform.learn(table.d0, table.d1)
    a, b = (np.concatenate([U(x), U(y)]) for x, y in ((table.d0, table.d1), (table.d1, table.d0)))
    n, M = np.concatenate([table.n, table.M - table.n]), np.concatenate([table.M, table.M])
    nodes = np.linspace(0, 1, 6)
    for i, j in ((0, 0), (1, 4), (5, 0), (3, 3)):
        K = np.exp(-((a - nodes[i]) ** 2 + (b - nodes[j]) ** 2) / (2 * 0.15**2))
        P = fit.surface[i, j]
        log_c = gammaln(M + 1) - gammaln(n + 1) - gammaln(M - n + 1)
        slow = K @ (log_c + n * np.log(P) + (M - n) * np.log(1 - P)) / K.sum()
        assert fit.log_likelihood[i, j] == pytest.approx(slow, abs=1e-10)


def test_without_data_p_is_one_half_and_unknown() -> None:
    table = Triplets.from_frame({"n": [5], "M": [5], "d0": [2.0], "d1": [1.0]})
    fit = Density().fit(table)
    assert fit.probability(2.0, 1.0) > 0.9
    assert fit.probability(9.0, 0.0) == pytest.approx(0.5, abs=1e-6)
    assert fit.standard_error(9.0, 0.0) == pytest.approx(np.sqrt(1 / 12), abs=1e-3)
    assert fit.standard_error(9.0, 8.0) == pytest.approx(np.sqrt(1 / 12))
    assert fit.standard_error(9.0, 9.0) == 0
    assert np.isnan(fit.log_likelihood[19, 0])
    assert 0 < fit.surface.min() < fit.surface.max() < 1


def slow_error(table: Triplets, density: Density, u0: float, u1: float) -> float:
    """The sandwich formula at one point: each triplet moves P by its residual, its mirror by minus as much."""
    fit, U, nodes = density.fit(table), Uniform.learn(table.d0, table.d1), np.linspace(0, 1, density.grid_size)
    x0, x1 = U(table.d0), U(table.d1)
    cells = [min(int(u * (density.grid_size - 1)), density.grid_size - 2) for u in (u0, u1)]
    shares = [u * (density.grid_size - 1) - cell for u, cell in zip((u0, u1), cells, strict=True)]
    moved = np.zeros(len(table))
    for a in (0, 1):
        for b in (0, 1):
            i, j = cells[0] + a, cells[1] + b
            weight = (shares[0] if a else 1 - shares[0]) * (shares[1] if b else 1 - shares[1])
            K = slow_kernel(x0 - nodes[i], x1 - nodes[j], density)
            K_mirror = slow_kernel(x1 - nodes[i], x0 - nodes[j], density)
            P, D = fit.surface[i, j], fit.sums.M[i, j] + density.prior
            moved += weight * (K * (table.n - P * table.M) + K_mirror * (table.M - table.n - P * table.M)) / D
    return float(np.sqrt(np.sum(moved**2)))


def test_the_variance_is_the_sandwich_formula() -> None:
    # 32 triplets without ties put the uniformised distances on the centres of the 64 fine cells: no room is needed.
    rng = np.random.default_rng(8)
    d0, d1 = np.split(rng.permutation(64).astype(float), 2)
    M = rng.integers(1, 6, 32)
    table = Triplets.from_frame({"n": rng.binomial(M, 0.6), "M": M, "d0": d0, "d1": d1})
    density = Density(sigma=0.3, grid_size=5)
    fit = density.fit(table)
    for u0, u1 in rng.random((25, 2)):
        variance = interpolated_variance(fit.covariances[0], np.array(u0), np.array(u1))
        assert float(variance) == pytest.approx(slow_error(table, density, u0, u1) ** 2, rel=1e-9, abs=1e-15)


def test_fine_cells_move_the_standard_error_little() -> None:
    table = random_table(4000)
    density = Density(sigma=0.06, grid_size=15)
    fit = density.fit(table)
    at = np.random.default_rng(3).uniform(0.1, 0.9, (40, 2))
    fast = [np.sqrt(float(interpolated_variance(fit.covariances[0], *map(np.array, u)))) for u in at]
    slow = [slow_error(table, density, *u) for u in at]
    np.testing.assert_allclose(fast, slow, rtol=0.02, atol=1e-4)


def test_unanimous_votes_are_not_certain() -> None:
    d0, d1 = np.random.default_rng(1).random((2, 2000))
    n = np.where(d0 > d1, 2, 0)
    fit = Density().fit(Triplets.from_frame({"n": n, "M": np.full(2000, 2), "d0": d0, "d1": d1}))
    # Some 26 triplets, 52 votes, speak at a node: with one vote more on either side, sqrt(53 / 54^2 / 52) = 0.019.
    assert fit.standard_error(0.8, 0.2) == pytest.approx(0.019, rel=0.3)
    (one,) = (
        Density().fit(Triplets.from_frame({"n": [5], "M": [5], "d0": [2.0], "d1": [1.0]})).standard_error([2.0], [1.0])
    )
    assert one > 0.1


def test_the_standard_error_agrees_with_refits_to_new_votes() -> None:
    rng = np.random.default_rng(5)
    d0, d1 = rng.random((2, 2000))
    M = rng.integers(1, 4, 2000)
    P = expit(3 * (d0 - d1))
    draws = [Triplets.from_frame({"n": rng.binomial(M, P), "M": M, "d0": d0, "d1": d1}) for _ in range(150)]
    density, at = Density(sigma=0.08), rng.random((2, 60))
    spread = np.std([density.fit(draw).probability(*at) for draw in draws], axis=0, ddof=1)
    error = np.mean([density.fit(draw).standard_error(*at) for draw in draws[:20]], axis=0)
    assert np.median(error / spread) == pytest.approx(1, abs=0.06)


def gentle(d0: np.ndarray, d1: np.ndarray) -> np.ndarray:
    return expit(1.5 * (d0 - d1))


def sharp(d0: np.ndarray, d1: np.ndarray) -> np.ndarray:
    """Nearly all agree, away from the diagonal; a kernel that stays on one side of it has no bias."""
    return np.where(d0 > d1, 0.97, 0.03)


@pytest.mark.parametrize(
    ("truth", "T", "M", "sigma"),
    [
        (gentle, 600, 5, 1 / 20),
        (gentle, 2000, 2, 1 / 44),
        (gentle, 8000, 1, 1 / 44),
        (gentle, 3000, 0, 1 / 44),
        (sharp, 3000, 5, 1 / 44),
        (sharp, 10_000, 2, 1 / 44),
    ],
)
def test_a_known_p_is_recovered_within_its_standard_errors(truth: Any, T: int, M: int, sigma: float) -> None:
    covered = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        d0, d1 = rng.random((2, T))
        votes = np.full(T, M) if M else rng.integers(1, 6, T)
        n = rng.binomial(votes, truth(d0, d1))
        fit = Density(sigma=sigma).fit(Triplets.from_frame({"n": n, "M": votes, "d0": d0, "d1": d1}))
        at = rng.random((2, 1500))
        at = at[:, abs(at[0] - at[1]) > 0.2] if truth is sharp else at
        error = fit.probability(*at) - truth(*at)
        covered.append(np.mean(np.abs(error) <= 1.96 * fit.standard_error(*at)))
    assert 0.90 <= np.mean(covered) <= 0.98


def test_the_standard_error_is_symmetric_and_zero_on_the_diagonal() -> None:
    fit = Density().fit(random_table(500))
    d0, d1 = np.random.default_rng(0).uniform(0.1, 4, (2, 100))
    np.testing.assert_allclose(fit.standard_error(d0, d1), fit.standard_error(d1, d0), atol=1e-12)
    assert (fit.standard_error(d0, d0) == 0).all()


def test_shapes_broadcast() -> None:
    fit = Density().fit(random_table())
    assert fit.probability(1.0, 2.0).shape == ()
    assert fit.probability(np.ones((3, 1)), np.ones(4)).shape == (3, 4)
    assert fit.standard_error(np.ones((3, 1)), np.ones(4)).shape == (3, 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sigma": 0.0}, "sigma must be a positive number or auto; found 0.0"),
        ({"sigma": -1.0}, "sigma must be a positive number or auto; found -1.0"),
        ({"sigma": None}, "sigma must be a positive number or auto; found None"),
        ({"sigma": float("nan")}, "sigma must be a positive number or auto; found nan"),
        ({"grid_size": 1}, "grid_size must be a whole number, at least 2; found 1"),
        ({"grid_size": 2.5}, "grid_size must be a whole number, at least 2; found 2.5"),
        ({"prior": 0.0}, "prior must be a positive number of votes; found 0.0"),
    ],
)
def test_settings_are_checked(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Density(**wrong)  # type: ignore[arg-type]


def test_settings_are_values() -> None:
    assert Density() == Density(sigma=1 / 44, grid_size=20, prior=1e-3)
    assert hash(Density()) == hash(Density())
    with pytest.raises(dataclasses.FrozenInstanceError):
        Density().sigma = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("settings", [Density(), Spline()])
def test_nan_is_refused_as_a_distance(settings: Density | Spline) -> None:
    fit = settings.fit(random_table())
    with pytest.raises(ValueError, match=r"a distance must be a number; index 1 has nan \(1 of 3\)"):
        fit.probability([0.1, np.nan, 0.2], 0.3)
