from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize
from scipy.special import ndtri, rel_entr

from conftest import random_table
from twoafc import worlds
from twoafc.core import uniformise
from twoafc.estimators import Density, Spline, spline_basis
from twoafc.estimators.basis import LAST_KNOT, functions, parts, slopes
from twoafc.estimators.penalised import LINKS, PRECISE, Problem, between_clusters, between_rows, chances, gather, solve
from twoafc.table import Triplets

rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.floats(0.0, 9.0), st.floats(0.0, 9.0)), min_size=1, max_size=40
)


def world(name: str, T: int, seed: int, votes: Any = 2, lapse: float = 0.0) -> Triplets:
    return Triplets.from_frame(worlds.simulate(name, triplets=T, votes=votes, seed=seed, lapse=lapse))


def excess(fit: Any, name: str, seed: int, lapse: float = 0.0) -> float:
    """Expected NLL above that of the truth, for new triplets with M = 5: five times the divergence of P from it."""
    test = worlds.simulate(name, triplets=10_000, votes=5, seed=10_000 + seed, lapse=lapse)
    P, Q = fit.probability(test["d0"], test["d1"]), test["P"].to_numpy()
    return float(5 * np.mean(rel_entr(Q, P) + rel_entr(1 - Q, 1 - P)))


# --- the functions ----------------------------------------------------------------------------------------------------


def test_the_functions_are_natural_cubic_splines() -> None:
    basis = spline_basis(8)
    inside, outside = np.linspace(-LAST_KNOT, LAST_KNOT, 101), np.array([-4.0, -3.0, 3.0, 4.0])
    for place in range(8):
        slow = CubicSpline(basis.knots, basis(basis.knots)[:, place], bc_type="natural")
        np.testing.assert_allclose(basis(inside)[:, place], slow(inside), atol=1e-10)
        ends = np.where(outside < 0, -LAST_KNOT, LAST_KNOT)
        straight = slow(ends) + (outside - ends) * slow(ends, 1)
        np.testing.assert_allclose(basis(outside)[:, place], straight, atol=1e-9)
        np.testing.assert_allclose(basis.slopes(inside[1:-1])[:, place], slow(inside[1:-1], 1), atol=1e-4)
        fine = np.linspace(-LAST_KNOT, LAST_KNOT, 200_001)
        rough = np.sum(slow(fine, 2) ** 2) * (fine[1] - fine[0])
        assert basis.roughness[place] == pytest.approx(rough, rel=1e-3, abs=1e-8)


def test_the_functions_are_orthonormal_for_normal_scores() -> None:
    z = np.linspace(-4, 4, 2001)
    weight = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    values = spline_basis(10)(z)
    np.testing.assert_allclose(values.T @ (weight[:, None] * values), np.eye(10), atol=1e-8)
    np.testing.assert_allclose(spline_basis(10)(np.array([-2.0, 0.0, 2.0]))[:, 0], 1, atol=1e-12)


def test_pairs_are_antisymmetric_and_their_slopes_are_slopes() -> None:
    z0, z1 = np.random.default_rng(0).normal(size=(2, 50))
    np.testing.assert_array_equal(functions((z0, z1), 7), -functions((z1, z0), 7))
    step = 1e-5
    slow = (functions((z0 + step, z1), 7) - functions((z0 - step, z1), 7)) / (2 * step)
    np.testing.assert_allclose(slopes(z0, z1, 7), slow, atol=1e-3)
    part, roughness = parts(7, k=2)
    assert np.bincount(part).tolist() == [1, 5, 5, 10]
    assert roughness.min() == 1


def test_cells_lose_no_vote() -> None:
    rng = np.random.default_rng(0)
    z0, z1 = rng.normal(size=(2, 3000))
    M = rng.integers(1, 6, 3000)
    n = rng.binomial(M, 0.4)
    cells, cell = gather((z0, z1), n, M, np.ones(len(n)), np.ones(len(n)))
    turned = np.where(z0 < z1, M - n, n)
    assert (cells.M.sum(), cells.n.sum()) == (M.sum(), turned.sum())
    assert (cells.nn.sum(), cells.nM.sum()) == ((turned**2).sum(), (turned * M).sum())
    assert (cells.z[0] >= cells.z[1]).all()
    assert cells.z[0] @ cells.M == pytest.approx(np.maximum(z0, z1) @ M)
    assert np.abs(cells.z[0][cell] - np.maximum(z0, z1)).max() < 0.09


# --- the solver -------------------------------------------------------------------------------------------------------


def a_problem(link: str, T: int = 3000, name: str = "thurstone") -> Problem:
    table = world(name, T, seed=3)
    _, u0, u1 = uniformise(table.d0, table.d1)
    cells, _ = gather((ndtri(u0), ndtri(u1)), table.n, table.M, table.mass, table.squared_mass)
    return Problem(cells, functions(cells.z, 6), *parts(6, k=2), link)


@pytest.mark.parametrize("link", LINKS)
def test_derivatives_are_derivatives(link: str) -> None:
    problem = a_problem(link)
    theta = np.append(np.random.default_rng(0).normal(scale=0.1, size=15), -2.0)
    _, jacobian = chances(theta, problem.X, link)
    for place in range(16):
        step = np.zeros(16)
        step[place] = 1e-6
        slow = (chances(theta + step, problem.X, link)[0] - chances(theta - step, problem.X, link)[0]) / 2e-6
        np.testing.assert_allclose(jacobian[:, place], slow, atol=1e-7)


@pytest.mark.parametrize("link", LINKS)
def test_scoring_finds_the_minimum(link: str) -> None:
    problem, precision = a_problem(link), np.array([0.1, 3.0, 10.0, 30.0])
    theta = np.append(np.zeros(15), -3.5)
    for _ in range(60):
        theta, _ = problem.step(theta, problem.scores(theta), precision, 1.3)
    penalty = problem.penalty(precision)
    slow = minimize(problem.loss, np.append(np.zeros(15), -3.5), args=(penalty, 1.3), tol=1e-9)
    assert problem.loss(theta, penalty, 1.3) <= slow.fun + 1e-5
    np.testing.assert_allclose(chances(theta, problem.X, link)[0], chances(slow.x, problem.X, link)[0], atol=1e-3)


@pytest.mark.parametrize("doubt", [0.0, (0.0, 0.0, 0.5, 1.0)])
def test_the_smoothness_is_that_of_the_greatest_marginal_likelihood(doubt: Any) -> None:
    """Times the prior of the precisions, which favours smooth parts."""
    problem = dataclasses.replace(a_problem("logit"), doubt=doubt)
    best = solve(problem)

    def evidence(precision: np.ndarray) -> float:
        theta = best.theta
        for _ in range(20):
            theta, _ = problem.step(theta, problem.scores(theta), precision, 1.0)
        penalty = problem.penalty(precision)
        information = problem.scores(theta)[3] + np.diag(penalty)
        return -problem.loss(theta, penalty, 1.0) + (np.log(penalty).sum() - np.linalg.slogdet(information)[1]) / 2

    def posterior(precision: np.ndarray) -> float:
        return evidence(precision) + float(np.sum(doubt * np.log(precision))) / 2

    reached = posterior(best.precision)
    assert best.evidence == pytest.approx(evidence(best.precision), abs=0.05)
    for part in range(4):
        for factor in (0.3, 3.0):
            other = best.precision.copy()
            other[part] = min(factor * other[part], PRECISE)
            assert posterior(other) < reached + 0.02


def test_dispersion_is_one_for_binomial_votes_and_more_for_correlated_votes() -> None:
    rng = np.random.default_rng(0)
    T = 4000
    d0, d1 = rng.lognormal(size=(2, T))
    _, u0, u1 = uniformise(d0, d1)
    M = np.full(T, 5)
    P = d0 / (d0 + d1)
    own = rng.beta(2 * P, 2 * (1 - P))  # each triplet's own chance about P: dispersion 1 + 4 / 3
    ref = np.arange(T) // 20
    # Some references are judged with more certainty than others.
    linked = 1 / (1 + np.exp(-np.log(P / (1 - P)) * rng.gamma(1.0, size=T // 20)[ref]))
    found = {}
    for name, chance in {"binomial": P, "triplets": own, "references": linked}.items():
        n = rng.binomial(M, chance)
        cells, cell = gather((ndtri(u0), ndtri(u1)), n, M, np.ones(T), np.ones(T))
        problem = Problem(cells, functions(cells.z, 6), *parts(6, k=2), "logit")
        turned = np.where(u0 < u1, M - n, n)
        by_reference = between_clusters(cell, ref, turned, M, np.ones(T))
        found[name] = [solve(problem, measure).dispersion for measure in (between_rows(cells), by_reference)]
        # A cluster of one triplet each is a triplet.
        single = between_clusters(cell, np.arange(T), turned, M, np.ones(T))
        assert solve(problem, single).dispersion == pytest.approx(found[name][0], rel=0.01)
    assert found["binomial"][0] == pytest.approx(1, abs=0.1)
    assert found["triplets"][0] == pytest.approx(1 + 4 / 3, rel=0.1)
    assert found["references"][1] > 1.15 * found["references"][0] > 1.15


# --- the estimator ----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(rows)
def test_p_is_symmetric_and_a_probability_on_any_table(drawn: list[tuple[int, int, float, float]]) -> None:
    n, M, d0, d1 = (np.array(column) for column in zip(*drawn, strict=True))
    fit = Spline().fit(Triplets.from_frame({"n": np.minimum(n, M), "M": M, "d0": d0, "d1": d1}))
    q0, q1 = np.random.default_rng(0).uniform(-1, 10, (2, 100))
    P = fit.probability(q0, q1)
    assert ((P > 0) & (P < 1)).all()
    np.testing.assert_allclose(P + fit.probability(q1, q0), 1, rtol=0, atol=1e-12)
    assert (fit.probability(q0, q0) == 0.5).all()
    error = fit.standard_error(q0, q1)
    assert np.isfinite(error).all()
    np.testing.assert_allclose(fit.standard_error(q0, q0), 0, atol=1e-12)


def test_extreme_tables_are_fitted() -> None:
    rng = np.random.default_rng(0)
    d0, d1 = rng.uniform(-1, 1, (2, 300)) * 1.7e308
    huge = Spline().fit(Triplets.from_frame({"n": rng.integers(0, 3, 300), "M": [2] * 300, "d0": d0, "d1": d1}))
    assert np.isfinite(huge.probability(d0, d1)).all()
    d0, d1 = rng.random((2, 300))
    found = []
    for M in (10**6, 10**9):
        n = np.round(M * rng.beta(2 + 4 * d0, 2 + 4 * d1)).astype(int)
        table = Triplets.from_frame({"n": n, "M": [M] * 300, "d0": d0, "d1": d1})
        found.append((Spline().fit(table).dispersion / M, Density(sigma="auto").fit(table).settings.sigma))
    assert found[1][0] == pytest.approx(found[0][0], rel=0.5)
    assert 0.5 < found[1][1] / found[0][1] < 2


@pytest.mark.parametrize(("name", "lapse"), [("weber", 0.0), ("sqrt_noise", 0.0), ("weber", 0.05), ("thurstone", 0.0)])
def test_its_own_error_is_an_eighth_of_the_paper_smoothers(name: str, lapse: float) -> None:
    tables = [world(name, 5000, seed, lapse=lapse) for seed in range(3)]
    ours, papers = (
        np.mean([excess(estimator.fit(table), name, seed, lapse) for seed, table in enumerate(tables)])
        for estimator in (Spline(), Density())
    )
    assert ours <= max(papers / 8, 0.002)


def test_a_useless_distance_costs_next_to_nothing() -> None:
    for T, most in ((300, 0.01), (5000, 0.001)):
        found = [excess(Spline().fit(world("useless", T, seed)), "useless", seed) for seed in range(8)]
        assert np.mean(found) < most


def test_a_distance_that_turns_round_is_followed() -> None:
    """Small distances are confused with large ones: P falls where d0 grows beyond the middle."""
    rng = np.random.default_rng(0)

    def truth(d0: np.ndarray, d1: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-4 * (np.sin(np.pi * d0) - np.sin(np.pi * d1))))

    d0, d1 = rng.random((2, 20_000))
    table = Triplets.from_frame({"n": rng.binomial(2, truth(d0, d1)), "M": [2] * 20_000, "d0": d0, "d1": d1})
    at = rng.random((2, 2000))
    free, monotone = Spline().fit(table).probability(*at), Spline(monotone=True).fit(table).probability(*at)
    assert np.abs(free - truth(*at)).mean() < 0.02
    assert np.abs(monotone - truth(*at)).mean() > 0.1


def test_a_monotone_surface_never_falls_where_d0_grows() -> None:
    table = world("saturating", 400, seed=4)
    free, monotone = Spline().fit(table), Spline(monotone=True).fit(table)
    line = np.linspace(table.d0.min(), table.d0.max(), 80)
    assert np.diff(monotone.probability(line[:, None], line[None, :]), axis=0).min() > -1e-6
    for seed in (11, 3):  # sharp votes, whose free surface falls beyond the last knots
        rng = np.random.default_rng(seed)
        d0, d1 = rng.random((2, 500))
        n = rng.binomial(1, np.where(d0 > d1, 0.73, 0.27))
        step = Spline(monotone=True).fit(Triplets.from_frame({"n": n, "M": [1] * 500, "d0": d0, "d1": d1}))
        fine = np.linspace(0, 1, 301)
        assert np.diff(step.probability(fine[:, None], fine[None, :]), axis=0).min() > -1e-4
    # Where nothing has to be moved nothing is.
    gentle = world("weber", 3000, seed=1)
    at = np.random.default_rng(0).uniform(0.3, 3, (2, 50))
    np.testing.assert_allclose(
        Spline(monotone=True).fit(gentle).probability(*at), Spline().fit(gentle).probability(*at), atol=0.01
    )
    assert free.probability(2.0, 1.0) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "T", "votes"), [("weber", 1000, 2), ("thurstone", 3000, 2), ("saturating", 2000, [1, 5])]
)
def test_intervals_cover_the_truth(name: str, T: int, votes: Any) -> None:
    # The errors of one fit are correlated, so it takes many fits.
    covered = []
    for seed in range(40):
        fit = Spline().fit(world(name, T, seed, votes))
        test = worlds.simulate(name, triplets=2000, votes=1, seed=10_000 + seed)
        error = fit.probability(test["d0"], test["d1"]) - test["P"].to_numpy()
        covered.append(np.mean(np.abs(error) <= 1.96 * fit.standard_error(test["d0"], test["d1"])))
    assert 0.90 <= np.mean(covered) <= 0.98


@pytest.mark.parametrize("change", [lambda d: d**10, np.log1p, lambda d: np.exp(d) * 1e-200, np.sqrt])
def test_an_increasing_change_of_the_distance_changes_nothing(change: Any) -> None:
    table = world("weber", 2000, 3)
    changed = Triplets.from_frame({"n": table.n, "M": table.M, "d0": change(table.d0), "d1": change(table.d1)})
    fit, other = Spline().fit(table), Spline().fit(changed)
    P, Q = fit.probability(table.d0, table.d1), other.probability(changed.d0, changed.d1)
    np.testing.assert_allclose(P, Q, rtol=0, atol=1e-9)
    error = other.standard_error(changed.d0, changed.d1)
    np.testing.assert_allclose(fit.standard_error(table.d0, table.d1), error, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-2, 1e-10])
def test_triplets_on_two_scales_are_fitted_nearly_as_well_as_on_one(scale: float) -> None:
    def excess(factor: float, seed: int) -> float:
        train, test = (worlds.simulate("thurstone", triplets=T, votes=2, seed=s) for T, s in ((5000, seed), (9000, 99)))
        Q = test["P"].to_numpy()
        scales = [np.where(np.arange(len(table)) % 2, factor, 1.0) for table in (train, test)]
        votes = {"n": train["n"], "M": train["M"], "d0": train["d0"] * scales[0], "d1": train["d1"] * scales[0]}
        P = Spline().fit(Triplets.from_frame(votes)).probability(test["d0"] * scales[1], test["d1"] * scales[1])
        return float(np.mean(rel_entr(Q, P) + rel_entr(1 - Q, 1 - P)))

    seeds = range(3)
    # Ranks alone give 17 times the excess of one scale; measured: 1.4 to 2.1.
    assert np.mean([excess(scale, s) for s in seeds]) < 3 * np.mean([excess(1.0, s) for s in seeds])


def test_the_lapse_rate_is_found() -> None:
    assert Spline().fit(world("weber", 40_000, 1, lapse=0.1)).lapse == pytest.approx(0.1, abs=0.03)
    assert Spline().fit(world("weber", 40_000, 1)).lapse < 0.01


def test_the_link_is_the_worlds_own() -> None:
    assert Spline().fit(world("weber", 40_000, 1)).link == "logit"
    assert Spline().fit(world("thurstone", 40_000, 1)).link == "probit"
    assert Spline(link="probit").fit(world("weber", 1000, 1)).link == "probit"


def test_correlated_votes_are_not_followed() -> None:
    """Overdispersed votes: taken as independent they would ask for a rougher surface."""
    rng = np.random.default_rng(1)
    d0, d1 = rng.lognormal(size=(2, 3000))
    P = d0 / (d0 + d1)
    n = rng.binomial(5, rng.beta(P, 1 - P))
    table = Triplets.from_frame({"n": n, "M": [5] * 3000, "d0": d0, "d1": d1})
    assert Spline().fit(table).dispersion == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 3}, "size must be a whole number, at least 4; found 3"),
        ({"size": 4.5}, "size must be a whole number, at least 4; found 4.5"),
        ({"size": float("inf")}, "size must be a whole number, at least 4; found inf"),
        ({"monotone": "yes"}, "monotone must be True or False; found 'yes'"),
        ({"link": "cloglog"}, "link must be auto, logit or probit; found 'cloglog'"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spline(**wrong)


def test_beyond_the_training_range_P_is_a_guess() -> None:
    table = random_table()
    top = max(table.d0.max(), table.d1.max())
    for fit in (Spline().fit(table), Density().fit(table)):
        assert fit.probability(10 * top, 20 * top) == 0.5
        assert fit.standard_error(10 * top, 20 * top) == pytest.approx(12**-0.5)
        assert fit.standard_error(10 * top, 10 * top) == 0.0
        assert fit.standard_error(np.median(table.d0), 10 * top) < 0.25


def test_distances_that_change_a_little_move_P_a_little() -> None:
    """Fits that stop before smoothness is settled jump: one in eight of these moved P by 0.007."""
    at = worlds.simulate("thurstone", triplets=1000, votes=3, seed=99)
    for seed in range(10):
        train, rng = worlds.simulate("thurstone", triplets=300, votes=3, seed=seed), np.random.default_rng(seed)
        P = []
        for change in (0.0, 2e-3, 2e-3):
            d = {name: train[name].to_numpy() * np.exp(change * rng.normal(size=300)) for name in ("d0", "d1")}
            fit = Spline().fit(Triplets.from_frame({"n": train["n"], "M": train["M"], **d}))
            P.append(fit.probability(at["d0"].to_numpy(), at["d1"].to_numpy()))
        assert np.sqrt(np.mean((np.array(P[1:]) - P[0]) ** 2, axis=1)).max() < 0.003
