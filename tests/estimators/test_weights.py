"""Fits with sampling weights: a weight is so many copies of the row, and only ratios of weights count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from conftest import random_table
from twoafc import Density, Network, Pairs, Spline, Triplets
from twoafc.core import Uniform, uniformise
from twoafc.estimators.kernel import Rows, rows_left_out
from twoafc.table import Votes

AT = np.abs(np.random.default_rng(9).normal(size=(2, 60)))


def weighted_and_repeated(k: int, rows: int = 400) -> tuple[Votes, Votes]:
    """A table with whole weights, and the same with every row as often as its weight says; copies share a reference."""
    refs = {"ref": np.arange(rows) // 4}
    triplets = random_table(rows, seed=3, **refs)
    table: Votes = triplets
    if k == 1:
        table = Pairs.from_frame({"n": triplets.M - triplets.n, "M": triplets.M, "d": triplets.d0, **refs})
    weight = np.random.default_rng(0).integers(1, 6, rows)
    repeated = table.at(np.repeat(np.arange(rows), weight))
    names = np.arange(len(repeated)).astype(str)
    return (
        replace(table, weight=weight.astype(np.float64)),
        replace(repeated, labels=repeated.labels.with_columns(**{table.row: names})),
    )


def test_the_map_is_the_weighted_distribution_function() -> None:
    d0, d1, weight = [1.0, 2.0, 2.0], [2.0, 5.0, 1.0], np.array([1, 3, 2])
    copies = (np.repeat(d0, weight), np.repeat(d1, weight))
    U, V = Uniform.learn(d0, d1, weight=weight / 2), Uniform.learn(*copies)
    np.testing.assert_allclose(U.levels, V.levels)
    np.testing.assert_array_equal(U.at_most, V.at_most / 2)
    found = uniformise(d0, d1, weight=weight / 2)
    assert found[0].places(found[1]).tolist() == [0, 1, 1]
    assert Uniform.restore(U.arrays()).levels.tolist() == U.levels.tolist()


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("sigma", [0.1, "auto"])
def test_a_weight_is_so_many_copies_to_the_density(sigma: Any, k: int) -> None:
    table, repeated = weighted_and_repeated(k)
    # The prior is a number of votes, on the scale of the weights.
    prior = 1e-3 * len(repeated) / table.effective_rows
    fit, other = Density(sigma=sigma).fit(table), Density(sigma=sigma, prior=prior).fit(repeated)
    assert fit.settings.sigma == other.settings.sigma
    np.testing.assert_allclose(fit.probability(*AT[:k]), other.probability(*AT[:k]), rtol=0, atol=1e-12)
    if k == 1:  # as observed between clusters; the error of the surface of triplets does not look at these
        np.testing.assert_allclose(fit.covariances[0], other.covariances[0], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("k", [1, 2])
def test_a_weight_is_so_many_copies_in_one_cluster_to_the_spline(k: int) -> None:
    table, repeated = weighted_and_repeated(k)
    fit, other = Spline().fit(table), Spline().fit(repeated)
    # The dispersion of copies has the scale of the weights, unless it is 1, the least.
    np.testing.assert_allclose(fit.probability(*AT[:k]), other.probability(*AT[:k]), rtol=0, atol=5e-4)


def test_a_weight_is_so_many_copies_to_the_network() -> None:
    table, repeated = weighted_and_repeated(2, rows=100)
    fit, other = (Network(solver="lbfgs").fit(one) for one in (table, repeated))
    assert fit.chance_nll == pytest.approx(other.chance_nll, rel=1e-12)
    assert fit.training_nll[-1] == pytest.approx(other.training_nll[-1], rel=1e-2)
    # One step on all rows at once: the gradient is that of the copies.
    step = {"epochs": 1, "batch_size": 10**6}
    adam, copied = (Network(**step).fit(one) for one in (table, repeated))
    np.testing.assert_allclose(adam.parameters, copied.parameters, atol=1e-4)
    assert adam.training_nll[-1] == pytest.approx(copied.training_nll[-1], rel=1e-4)


@pytest.mark.parametrize("k", [1, 2])
def test_a_row_is_left_out_with_its_weight(k: int) -> None:
    rng = np.random.default_rng(1)
    T, sigma, prior = 40, 0.1, 1e-3
    cell, M, weight = rng.integers(0, 16, (k, T)), rng.integers(1, 4, T), rng.integers(1, 4, T).astype(np.float64)
    n, share = rng.binomial(M, 0.4), 0.5 if k == 2 else 0.4
    rows, place = Rows((), n, M, weight), np.ravel_multi_index(tuple(cell), (16,) * k)
    found = rows_left_out(rows, place, (16,) * k, share, prior, weight)(sigma)
    u = cell / 16
    slow = 0.0
    for t in range(T):
        N = D = 0.0
        for s in range(T):
            if s != t:
                K = weight[s] * np.exp(-(((u[:, t] - u[:, s]) / sigma) ** 2).sum() / 2)
                N, D = N + K * n[s], D + K * M[s]
                if k == 2:
                    mirror = weight[s] * np.exp(-(((u[::-1, t] - u[:, s]) / sigma) ** 2).sum() / 2)
                    N, D = N + mirror * (M[s] - n[s]), D + mirror * M[s]
        P = (N + prior * share) / (D + prior)
        slow += weight[t] * (n[t] * np.log(P) + (M[t] - n[t]) * np.log(1 - P))
    assert found == pytest.approx(slow, rel=1e-9)


@settings(max_examples=15)
@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 100))
def test_neither_the_scale_of_weights_nor_the_order_of_rows_counts(scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.lognormal(size=80)
    table = random_table(80, seed=seed, weight=weight)
    other = replace(table, weight=scale * weight).where(rng.permutation(80))
    for estimator in (Density(), Density(sigma="auto"), Spline(size=5)):
        fits = [estimator.fit(one) for one in (table, other)]
        np.testing.assert_allclose(*(fit.probability(*AT) for fit in fits), rtol=0, atol=1e-6)
        np.testing.assert_allclose(*(fit.standard_error(*AT) for fit in fits), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("estimator", [Density(), Density(sigma="auto"), Spline(), Network(epochs=2)])
def test_weights_of_one_change_nothing(estimator: Any) -> None:
    table = random_table(150, ref=np.arange(150) // 3)
    fits = [estimator.fit(one) for one in (table, replace(table, weight=np.ones(150)))]
    np.testing.assert_allclose(*(fit.probability(*AT) for fit in fits), rtol=0, atol=1e-12)


def test_unequal_weights_do_not_make_the_spline_overconfident() -> None:
    """Intervals of P cover the truth as often as without weights, and its smoothness follows the effective rows."""
    z = np.random.default_rng(5).normal(size=(2, 200))
    truth = expit(1.2 * (z[0] - z[1]))
    covered, errors = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y, weight = rng.normal(size=(2, 500)), rng.lognormal(sigma=1.3, size=500)
        n = rng.binomial(3, expit(1.2 * (y[0] - y[1])))
        columns = {"n": n, "M": [3] * 500, "d0": np.exp(y[0]), "d1": np.exp(y[1]), "weight": weight}
        fit = Spline().fit(Triplets.from_frame(columns))
        P, se = fit.probability(*np.exp(z)), fit.standard_error(*np.exp(z))
        covered.append(np.mean(np.abs(P - truth) < 1.96 * se))
        errors.append(np.sqrt(np.mean((P - truth) ** 2)))
    assert np.mean(covered) > 0.93
    assert np.mean(errors) < 0.04
