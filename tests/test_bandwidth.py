from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from conftest import random_table
from twoafc.estimators import Density
from twoafc.estimators.bandwidth import CANDIDATES, _triplets_left_out, choose_sigma
from twoafc.triplets import Triplets


def slow_left_out(u0: np.ndarray, u1: np.ndarray, n: np.ndarray, M: np.ndarray, sigma: float, prior: float) -> float:
    """The definition: for each triplet, the estimate from all others and their mirrors, where the triplet is."""
    total = 0.0
    for t in range(len(n)):
        others = np.arange(len(n)) != t
        N, D = prior / 2, prior
        for a, b, k in ((u0, u1, n), (u1, u0, M - n)):
            K = np.exp(-((a[others] - u0[t]) ** 2 + (b[others] - u1[t]) ** 2) / (2 * sigma**2))
            N, D = N + K @ k[others], D + K @ M[others]
        total += n[t] * np.log(N / D) + (M[t] - n[t]) * np.log(1 - N / D)
    return total


def test_whole_triplets_are_left_out_with_their_mirrors() -> None:
    rng = np.random.default_rng(0)
    size = 64
    i, j = rng.integers(0, size, (2, 150))
    M = rng.integers(1, 4, 150)
    n = rng.binomial(M, 0.4)
    u0, u1 = (i + 0.5) / size, (j + 0.5) / size
    found = _triplets_left_out(CANDIDATES, i, j, n, M, None, size, 1e-3)
    for place in (2, 6, 10):
        assert found[place] == pytest.approx(slow_left_out(u0, u1, n, M, CANDIDATES[place], 1e-3), rel=1e-9)


def overdispersed(T: int, seed: int) -> Triplets:
    rng = np.random.default_rng(seed)
    d0, d1 = rng.random((2, T))
    P = expit(2 * (d0 - d1))
    n = rng.binomial(5, rng.beta(P, 1 - P))
    return Triplets.from_frame({"n": n, "M": np.full(T, 5), "d0": d0, "d1": d1})


def test_votes_that_go_together_do_not_narrow_the_kernel() -> None:
    table = overdispersed(1500, 1)
    chosen = Density(sigma="auto").fit(table).settings.sigma
    assert chosen > 0.06
    each = np.repeat(np.arange(1500), 5)
    choice = np.concatenate([[1] * n + [0] * (5 - n) for n in table.n])
    votes = Triplets.from_frame({"choice": choice, "d0": table.d0[each], "d1": table.d1[each]})
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
    chosen = [choose_sigma(u0, u1, rng.binomial(2, 0.5, 4000), M, None, prior=1e-3) for _ in range(9)]
    assert np.median(chosen) > 0.2


def test_an_automatic_width_brings_the_nodes_it_needs() -> None:
    fit = Density(sigma="auto").fit(random_table(3000, M=3))
    assert fit.settings.grid_size >= max(20, 1.5 / fit.settings.sigma)
    assert Density(sigma="auto", grid_size=90).fit(random_table(100)).settings.grid_size >= 90
    assert Density().fit(random_table(100)).settings == Density(sigma=1 / 44, grid_size=20)
