from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from conftest import random_table
from twoafc.estimators import Density
from twoafc.estimators.bandwidth import _clusters_left_out, _triplets_left_out, _Votes, choose_width
from twoafc.estimators.kernel import Width
from twoafc.metrics import nll
from twoafc.table import Triplets


def slow_left_out(
    u0: np.ndarray, u1: np.ndarray, n: np.ndarray, M: np.ndarray, unit: np.ndarray, width: Width, prior: float
) -> float:
    """The definition: for each triplet, the estimate from all others and their mirrors, where the triplet is."""
    total = 0.0
    for t in range(len(n)):
        others = unit != unit[t]
        N, D = prior / 2, prior
        for a, b, k in ((u0, u1, n), (u1, u0, M - n)):
            x, y = a[others] - u0[t], b[others] - u1[t]
            K = np.exp(-((x + y) ** 2) / (4 * width.along**2) - (x - y) ** 2 / (4 * width.across**2))
            N, D = N + K @ k[others], D + K @ M[others]
        total += n[t] * np.log(N / D) + (M[t] - n[t]) * np.log(1 - N / D)
    return total


WIDTHS = [Width(0.02, 0.02), Width(0.1, 0.1), Width(0.05, 0.3), Width(0.2, 0.04)]


@pytest.mark.parametrize("whole_references", [False, True])
def test_whole_triplets_and_references_are_left_out_with_their_mirrors(whole_references: bool) -> None:
    rng = np.random.default_rng(0)
    size = 64
    i, j = rng.integers(0, size, (2, 150))
    M = rng.integers(1, 4, 150)
    n = rng.binomial(M, 0.4)
    u0, u1 = (i + 0.5) / size, (j + 0.5) / size
    unit = np.arange(150) % 15 if whole_references else np.arange(150)
    votes = _Votes(i, j, n, M, np.ones(150, dtype=np.int64))
    found = (
        _clusters_left_out(WIDTHS, votes, unit, size, 1e-3)
        if whole_references
        else _triplets_left_out(WIDTHS, votes, size, 1e-3)
    )
    for width, likelihood in zip(WIDTHS, found, strict=True):
        assert likelihood == pytest.approx(slow_left_out(u0, u1, n, M, unit, width, 1e-3), rel=1e-9)


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
    chosen = [choose_width(u0, u1, rng.binomial(2, 0.5, 4000), M, None, prior=1e-3).across for _ in range(9)]
    assert np.median(chosen) > 0.2


def test_an_automatic_width_brings_the_nodes_it_needs() -> None:
    fit = Density(sigma="auto").fit(random_table(3000, M=3))
    assert fit.settings.grid_size >= max(20, 1.5 / fit.settings.sigma)
    assert Density(sigma="auto", grid_size=90).fit(random_table(100)).settings.grid_size >= 90
    assert Density().fit(random_table(100)).settings == Density(sigma=1 / 44, grid_size=20)


def ridge(T: int, seed: int) -> Triplets:
    """Votes that depend on the ratio of the distances alone, sharply: P changes across the diagonal only."""
    rng = np.random.default_rng(seed)
    u0, u1 = rng.random((2, T))
    return Triplets.from_frame({"n": rng.binomial(3, expit(25 * (u0 - u1))), "M": np.full(T, 3), "d0": u0, "d1": u1})


def test_a_width_along_the_diagonal_is_chosen_wider_where_nothing_changes_along_it() -> None:
    train, test = ridge(3000, 1), ridge(20_000, 2)
    fits = {along: Density(sigma="auto", sigma_along=along).fit(train) for along in (None, "auto")}
    chosen = fits["auto"].settings
    assert chosen.sigma_along > 4 * chosen.sigma
    assert fits[None].settings.sigma_along is None
    round_, long = (nll(test.n, test.M, fit.probability(test.d0, test.d1)) for fit in fits.values())
    assert long < round_ - 0.001


@pytest.mark.parametrize(("sigma", "along"), [("auto", 0.3), (0.05, "auto"), ("auto", "auto")])
def test_one_width_may_be_given_and_the_other_chosen(sigma: float | str, along: float | str) -> None:
    settings = Density(sigma=sigma, sigma_along=along).fit(ridge(800, 3)).settings  # type: ignore[arg-type]
    if sigma != "auto":
        assert settings.sigma == sigma
    if along != "auto":
        assert settings.sigma_along == along
    assert settings.sigma < settings.sigma_along
    assert settings.grid_size >= 1.5 / settings.sigma
