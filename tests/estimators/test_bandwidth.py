from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from conftest import random_table
from twoafc.estimators import Density
from twoafc.estimators.kernel import Rows, choose_sigma, clusters_left_out, rows_left_out
from twoafc.table import Triplets

PRIOR = 1e-3

SIGMAS = (0.02, 0.1, 0.2)


def slow_left_out(
    u: tuple[np.ndarray, ...], n: np.ndarray, M: np.ndarray, unit: np.ndarray, sigma: float, share: float
) -> float:
    """The definition: for each row, the estimate from all others (and their mirrors), where the row is."""
    sides = [(u, n)] if len(u) == 1 else [(u, n), (u[::-1], M - n)]
    total = 0.0
    for t in range(len(n)):
        others = unit != unit[t]
        N, D = PRIOR * share, PRIOR
        for side, k in sides:
            K = np.exp(-sum((x[others] - y[t]) ** 2 for x, y in zip(side, u, strict=True)) / (2 * sigma**2))
            N, D = N + K @ k[others], D + K @ M[others]
        total += n[t] * np.log(N / D) + (M[t] - n[t]) * np.log(1 - N / D)
    return total


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("whole_references", [False, True])
def test_whole_rows_and_references_are_left_out(k: int, whole_references: bool) -> None:
    rng = np.random.default_rng(0)
    shape = (64,) * k
    cells = rng.integers(0, 64, (k, 150))
    M = rng.integers(1, 4, 150)
    n, share = rng.binomial(M, 0.4), 0.5 if k == 2 else 0.4
    unit = np.arange(150) % 15 if whole_references else np.arange(150)
    left_out = clusters_left_out if whole_references else rows_left_out
    rows = Rows((), n, M, np.ones(150), unit if whole_references else None)
    likelihood = left_out(rows, np.ravel_multi_index(tuple(cells), shape), shape, share, PRIOR)
    for sigma in SIGMAS:
        slow = slow_left_out(tuple((cells + 0.5) / 64), n, M, unit, sigma, share)
        assert likelihood(sigma) == pytest.approx(slow, rel=1e-9)


@pytest.mark.parametrize("k", [1, 2])
def test_the_width_chosen_is_the_likeliest(k: int) -> None:
    rng = np.random.default_rng(5)
    u = tuple(rng.random((k, 60)))
    M = np.full(60, 3)
    n = rng.binomial(M, expit(6 * (u[0] - (u[1] if k == 2 else 0.5))))
    share = 0.5 if k == 2 else n.sum() / M.sum()
    sigma = choose_sigma(Rows(u, n, M, np.ones(60)), share=share, prior=PRIOR)
    tried = [slow_left_out(u, n, M, np.arange(60), sigma * factor, share) for factor in (0.5, 1, 2)]
    assert tried[1] == max(tried)


def overdispersed(T: int, seed: int) -> Triplets:
    rng = np.random.default_rng(seed)
    d0, d1 = rng.random((2, T))
    P = expit(2 * (d0 - d1))
    n = rng.binomial(5, rng.beta(P, 1 - P))
    return Triplets.from_frame({"n": n, "M": np.full(T, 5), "d0": d0, "d1": d1})


def test_correlated_votes_do_not_narrow_the_kernel() -> None:
    table = overdispersed(1500, 1)
    chosen = Density(sigma="auto").fit(table).settings.sigma
    assert chosen > 0.06
    row = np.repeat(np.arange(1500), 5)
    choice = np.concatenate([[1] * n + [0] * (5 - n) for n in table.n])
    votes = Triplets.from_frame({"choice": choice, "d0": table.d0[row], "d1": table.d1[row]})
    # Single votes left out would find the others of the same triplet where they were.
    assert Density(sigma="auto").fit(votes).settings.sigma < 0.02


def test_references_that_repeat_are_left_out_whole() -> None:
    rng = np.random.default_rng(2)
    # A hundred references, each with distances near one place and a taste of its own.
    ref = np.arange(2000) % 100
    centre = rng.random((2, 100))
    d0, d1 = np.clip(centre[:, ref] + rng.normal(scale=0.01, size=(2, 2000)), 0, 1)
    P = expit(2 * (d0 - d1) + rng.normal(scale=2, size=100)[ref])
    columns = {"n": rng.binomial(2, P), "M": np.full(2000, 2), "d0": d0, "d1": d1}
    alone = Density(sigma="auto").fit(Triplets.from_frame(columns)).settings.sigma
    whole = Density(sigma="auto").fit(Triplets.from_frame(columns | {"ref": ref})).settings.sigma
    assert whole > 2 * alone


def test_a_useless_distance_gets_a_wide_kernel() -> None:
    rng = np.random.default_rng(0)
    u0, u1 = rng.random((2, 4000))
    M = np.full(4000, 2)
    tables = [Rows((u0, u1), rng.binomial(2, 0.5, 4000), M, np.ones(4000)) for _ in range(9)]
    chosen = [choose_sigma(rows, share=0.5, prior=PRIOR) for rows in tables]
    assert np.median(chosen) > 0.2


def test_an_automatic_width_brings_the_nodes_it_needs() -> None:
    fit = Density(sigma="auto").fit(random_table(3000, M=3))
    assert fit.settings.grid_size >= max(20, 1.5 / fit.settings.sigma)
    assert Density(sigma="auto", grid_size=90).fit(random_table(100)).settings.grid_size >= 90
    assert Density().fit(random_table(100)).settings == Density(sigma=1 / 44, grid_size=20)
