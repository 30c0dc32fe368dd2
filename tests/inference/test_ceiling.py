from __future__ import annotations

import dataclasses
import time
import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp, stdtrit
from scipy.stats import binom, hypergeom

from twoafc.inference import (
    Ceiling,
    Dependence,
    best_scores,
    estimate_ceiling,
    share_explained,
    share_interval,
    t_interval,
)
from twoafc.inference.ceiling import largest_mean, pools_by_votes
from twoafc.inference.mixtures import EVERY, Q, bounding_function, estimate_mixture, folded_draws, folded_pmf
from twoafc.metrics import expected_nll, score_2afc
from twoafc.table import Triplets, merge_votes

MEASURES = ("nll", "gain", "score_2afc")


def drawn(world: str, T: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return {
        "beta(.8, .8)": lambda: rng.beta(0.8, 0.8, T),
        "beta(.2, .2)": lambda: rng.beta(0.2, 0.2, T),
        "bimodal": lambda: rng.choice([0.1, 0.7], T),
        "constant .5": lambda: np.full(T, 0.5),
        "constant .9": lambda: np.full(T, 0.9),
    }[world]()


def truth(p: np.ndarray, M: np.ndarray) -> dict[str, float]:
    """The same by the metrics themselves: what the true chances score on these very triplets, in expectation."""
    entropy = -(p * np.log(np.clip(p, 1e-300, 1)) + (1 - p) * np.log(np.clip(1 - p, 1e-300, 1)))
    best = 100 * float(np.maximum(p, 1 - p).mean())
    return {"nll": expected_nll(M, p), "gain": float(np.mean(M * (np.log(2) - entropy))), "score_2afc": best}


def holds(ceiling: Ceiling, true: dict[str, float]) -> bool:
    ends = {name: (getattr(ceiling, f"{name}_lowest"), getattr(ceiling, f"{name}_highest")) for name in MEASURES}
    # The mean of equal numbers may differ from them in the last digit.
    return all(low - 1e-12 <= true[name] <= high + 1e-12 for name, (low, high) in ends.items())


@pytest.mark.parametrize("votes", [[2], [3], [5], [10], [1, 2, 3, 4, 5]], ids=str)
@pytest.mark.parametrize("world", ["beta(.8, .8)", "beta(.2, .2)", "bimodal", "constant .5", "constant .9"])
def test_the_bounds_hold_the_truth_where_it_is_known(world: str, votes: list[int]) -> None:
    p = drawn(world, 4000, 1)
    rng = np.random.default_rng(2)
    M = rng.choice(votes, 4000)
    ceiling = estimate_ceiling(rng.binomial(M, p), M)
    assert holds(ceiling, truth(p, M))
    for name in MEASURES:
        low, high, lowest, highest = (getattr(ceiling, f"{name}_{end}") for end in ("low", "high", "lowest", "highest"))
        assert lowest <= low + 1e-6
        assert low <= high <= highest + 1e-6


@pytest.mark.slow
def test_the_joint_level_is_kept_where_the_truth_is_at_the_edge() -> None:
    # p is the same everywhere, which no other mixture with the same counts is: the bounds have the sampling error only.
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, M = rng.binomial(3, 0.9, 150), np.full(150, 3)
        covered.append(holds(estimate_ceiling(n, M, level=0.8), truth(np.full(150, 0.9), M)))
    assert np.mean(covered) > 0.8


@pytest.mark.slow
def test_rare_disagreement_is_not_taken_for_none() -> None:
    covered = []
    for seed in range(80):
        n, M = np.random.default_rng(seed).binomial(2, 0.01, 100), np.full(100, 2)
        covered.append(holds(estimate_ceiling(n, M), truth(np.full(100, 0.01), M)))
    assert np.mean(covered) > 0.93


@pytest.mark.slow
def test_triplets_of_one_reference_widen_the_bounds_and_the_truth_stays_in() -> None:
    clustered, independent = [], []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        # Every reference has its own p, so that 600 triplets are no more than 30 draws of it.
        p = np.repeat(rng.choice([0.5, 0.97], 30), 20)
        n, M, ref = rng.binomial(4, p), np.full(600, 4), np.repeat(np.arange(30), 20)
        true = truth(np.array([0.5, 0.97]), np.full(2, 4))
        clustered.append(holds(estimate_ceiling(n, M, clusters=ref), true))
        independent.append(holds(estimate_ceiling(n, M), true))
    assert np.mean(clustered) > 0.93
    assert np.mean(independent) < 0.8


@pytest.mark.parametrize("M", [2, 3])
def test_two_or_three_votes_give_the_bounds_in_closed_form(M: int) -> None:
    rng = np.random.default_rng(0)
    n = rng.binomial(M, rng.beta(0.5, 0.5, 2000))
    ceiling = estimate_ceiling(n, np.full(2000, M))
    # People's agreement is (1 + E(2p - 1)^2) / 2.
    square = 2 * ceiling.human_triplets / 100 - 1
    assert ceiling.score_2afc_low == pytest.approx(50 + 50 * square, abs=2e-3)
    # Curved bounds are lines that touch the curve a little off, for less variance.
    assert 0 <= ceiling.score_2afc_high - (50 + 50 * np.sqrt(square)) < 0.1
    # A vote's entropy is concave in (2p - 1)^2: greatest where all p are alike, least where they are 0, 1/2 and 1.
    q = (1 + np.sqrt(square)) / 2
    entropy = -q * np.log(q) - (1 - q) * np.log(1 - q)
    assert 0 <= M * (np.log(2) - entropy) - ceiling.gain_low < 0.01
    assert ceiling.gain_high == pytest.approx(M * square * np.log(2), abs=1e-4)
    assert 0 <= M * (np.log(2) - entropy) - (ceiling.floor_nll - ceiling.nll_high) < 0.01
    # The exact region of one share: the likelihood ratio's ends, through the same closed form.
    unanimous = np.mean((n == 0) | (n == M))
    chance = np.linspace(1e-6, 1 - 1e-6, 200_001)
    ratio = (
        2 * 2000 * (unanimous * np.log(unanimous / chance) + (1 - unanimous) * np.log((1 - unanimous) / (1 - chance)))
    )
    ends = chance[ratio <= stdtrit(1999, 1 - 0.05 / 9) ** 2][[0, -1]]
    squares = 2 * ends - 1 if M == 2 else (4 * ends - 1) / 3
    assert ceiling.score_2afc_lowest == pytest.approx(50 + 50 * squares[0], abs=5e-3)
    assert 0 <= ceiling.score_2afc_highest - (50 + 50 * np.sqrt(squares[1])) < 0.1


def test_one_vote_gives_no_ceiling() -> None:
    ceiling = estimate_ceiling([0, 1, 1], [1, 1, 1])
    assert not ceiling.known
    assert ceiling.note == "M = 1 only: no ceiling can be known"
    assert (ceiling.nll_lowest, ceiling.nll_highest) == (0, pytest.approx(np.log(2)))
    assert (ceiling.score_2afc_low, ceiling.score_2afc_high) == pytest.approx((50, 100))
    assert ceiling.floor_nll == pytest.approx(np.log(2))
    assert np.isnan(ceiling.human_triplets)
    assert np.isnan(ceiling.human_pairs_se)
    assert share_explained(ceiling, 0.5) == (None, None)


def test_one_vote_on_some_triplets_bounds_nothing() -> None:
    n, M = np.repeat([0, 1, 2], [300, 150, 300]), np.full(750, 2)
    alone = estimate_ceiling(n, M)
    joined = estimate_ceiling(np.append(n, np.ones(250, dtype=int)), np.append(M, np.ones(250, dtype=int)))
    for name, trivial in {"nll": (0, np.log(2)), "gain": (0, np.log(2)), "score_2afc": (50, 100)}.items():
        for end, bound in zip(("low", "high"), trivial, strict=True):
            expected = 0.75 * getattr(alone, f"{name}_{end}") + 0.25 * bound
            assert getattr(joined, f"{name}_{end}") == pytest.approx(expected, rel=2e-3)
    assert joined.note == "250 of 1000 triplets have one vote and do not contribute to the bounds"


@given(
    counts=st.lists(st.integers(0, 60), min_size=7, max_size=7).filter(any),
    seed=st.integers(0, 2**32),
    level=st.floats(0.5, 0.99),
)
@example(counts=[6, 0, 8, 18, 41, 27, 0], seed=0, level=0.5)  # a bit of rounding moved a bound, once
@settings(max_examples=6, deadline=None)
def test_orientation_and_order_are_irrelevant_and_certainty_costs_width(
    counts: list[int], seed: int, level: float
) -> None:
    n = np.repeat(np.arange(7), counts)
    M = np.full(len(n), 6)
    rng = np.random.default_rng(seed)
    ceiling = estimate_ceiling(n, M, level=level)
    swapped = rng.permutation(np.where(rng.random(len(n)) < 0.5, n, M - n))
    again = estimate_ceiling(swapped, M, level=level)
    wider = estimate_ceiling(n, M, level=(1 + level) / 2)
    for name in MEASURES:
        for end in ("low", "high", "lowest", "highest"):
            value = getattr(ceiling, f"{name}_{end}")
            assert getattr(again, f"{name}_{end}") == pytest.approx(value, abs=1e-6)
        assert getattr(wider, f"{name}_lowest") <= getattr(ceiling, f"{name}_lowest")
        assert getattr(wider, f"{name}_highest") >= getattr(ceiling, f"{name}_highest")


def votes_of(M: int, T: int = 3000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.binomial(M, rng.beta(0.6, 0.9, T))


# Functions of the votes


@pytest.mark.parametrize("m", [1, 2, 5, 10, 47, 200])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
def test_the_inequality_holds_at_any_q(m: int, penalty: float) -> None:
    # At random values of q between those that the inequality was made to hold at, and by scipy's binomial.
    q = np.append(np.random.default_rng(0).uniform(0.5, 1, 3000), [0.5, 1 - 1e-7, 1])
    k = np.arange(m + 1)
    pmf = binom.pmf(k[:, None], m, q)
    chance = folded_pmf(m)[:, ::EVERY].mean(axis=1)
    known = np.sqrt(np.arange(m // 2 + 1))
    for (name, f), exact in zip(best_scores(Q).items(), best_scores(q).values(), strict=True):
        for end in (-1, 1):
            g = bounding_function(end * f, m, chance, penalty, known if name == "nll" else None)
            expectation = g[np.minimum(k, m - k)] @ pmf
            assert np.min(expectation - end * exact) >= -1e-5 * (np.ptp(g) + np.ptp(f))


@pytest.mark.parametrize("m", [2, 5, 8])
@pytest.mark.parametrize("penalty", [0.3, 3.0])
def test_the_mean_and_variance_are_as_small_as_a_general_optimiser_finds(m: int, penalty: float) -> None:
    chance = binom.pmf(np.arange(m // 2 + 1), m, 0.3) + 0.02
    chance /= chance.sum()
    known = np.linspace(0, 0.2, len(chance))
    pmf, f = folded_pmf(m)[:, ::20], Q[::20]

    def loss(g: np.ndarray) -> float:
        rest = g - known
        return float(g @ chance + penalty / 2 * (rest**2 @ chance - (rest @ chance) ** 2))

    constraint = {"type": "ineq", "fun": lambda g: g @ pmf - f}
    slow = minimize(loss, np.ones(len(chance)), method="SLSQP", constraints=[constraint], options={"maxiter": 500})
    assert slow.success
    fast = bounding_function(Q, m, chance, penalty, known)
    assert loss(fast) == pytest.approx(slow.fun, abs=2e-4)


@pytest.mark.parametrize("m", [2, 5, 9])
def test_without_a_price_of_variance_the_bound_is_the_largest_mean_over_mixtures(m: int) -> None:
    # The slow version: a linear programme over all mixtures with these probabilities of k.
    q = Q[::EVERY]
    chance = folded_pmf(m)[:, ::EVERY] @ np.where(q > 0.7, 1.0, 0.2) / np.where(q > 0.7, 1.0, 0.2).sum()
    equal = folded_pmf(m)[:, ::EVERY]
    for f in best_scores(Q).values():
        largest = -linprog(-f[::EVERY], A_eq=equal, b_eq=chance).fun
        bound = float(bounding_function(f, m, chance, 1e-3 / np.ptp(f)) @ chance)
        assert largest - 1e-6 <= bound <= largest + 0.002 * np.ptp(f)


def test_a_fit_that_fails_leaves_the_constant_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("scipy.optimize.nnls", fails)
    assert bounding_function(Q, 4, np.full(3, 1 / 3), 1.0) == pytest.approx(1)


@pytest.mark.parametrize("M", [2, 5, 9])
def test_the_estimated_mixture_is_nearly_the_most_likely(M: int) -> None:
    counts = np.bincount(np.minimum(votes_of(M, 400), M - votes_of(M, 400)), minlength=M // 2 + 1).astype(float)
    pmf = folded_pmf(M)[:, ::EVERY]

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        w = np.exp(x - logsumexp(x))
        slope = -pmf.T @ (counts / (pmf @ w))
        return float(-counts @ np.log(pmf @ w)), w * (slope - w @ slope)

    best = minimize(loss, np.zeros(pmf.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 20_000}).fun
    weights = estimate_mixture([(M, counts)])
    assert weights.sum() == pytest.approx(1)
    assert -counts @ np.log(pmf @ weights) == pytest.approx(best, abs=0.1)


def test_drawn_votes_are_hypergeometric() -> None:
    for M, m in ((5, 3), (30, 16), (100_000, 21)):
        n = np.unique(np.linspace(0, M, 40).astype(np.int64))
        drawn = hypergeom.pmf(np.arange(m + 1), M, n[:, None], m)
        folded = np.stack([drawn[:, k] + (drawn[:, m - k] if k < m - k else 0) for k in range(m // 2 + 1)], 1)
        np.testing.assert_allclose(folded_draws(n, np.full(len(n), M), m), folded, rtol=1e-9, atol=1e-15)


def test_draws_from_billions_are_binomial() -> None:
    drawn = binom.pmf(np.arange(101), 100, 0.3)
    folded = np.append(drawn[:50] + drawn[:50:-1], drawn[50])
    np.testing.assert_allclose(
        folded_draws(np.array([300_000_000]), np.array([1_000_000_000]), 100)[0], folded, atol=1e-6
    )


def test_draws_have_the_expectation_of_as_many_votes() -> None:
    for M, m in ((5, 3), (30, 16), (300, 100), (4, 4)):
        n = np.arange(M + 1)
        pmf = binom.pmf(n[:, None], M, Q)
        np.testing.assert_allclose(folded_draws(n, np.full(M + 1, M), m).T @ pmf, folded_pmf(m), atol=1e-12)


# Confidence limits


@pytest.mark.parametrize("top", [1.0, 1.5])
@pytest.mark.parametrize("excess", [0.001, 0.05, 0.6])
def test_the_largest_mean_is_the_one_that_a_general_optimiser_finds(top: float, excess: float) -> None:
    values, share = np.array([-0.5, 0.2, 1.0]), np.array([0.2, 0.5, 0.3])
    support, seen = np.append(values, top), np.append(share, 0.0)

    def divergence(x: np.ndarray) -> float:
        weight = np.exp(x - logsumexp(x))
        return float(np.sum(share * np.log(share / weight[:3]))) - excess

    slow = minimize(
        lambda x: -np.exp(x - logsumexp(x)) @ support,
        np.log(seen + 0.01),
        method="SLSQP",
        constraints=[{"type": "ineq", "fun": lambda x: -divergence(x)}],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert largest_mean(values, share, top, excess) == pytest.approx(-slow.fun, abs=1e-4)


def test_the_largest_mean_of_what_is_all_alike() -> None:
    assert largest_mean(np.array([2.0]), np.array([1.0]), 2.0, 0.1) == 2
    # So few units that anything is possible.
    assert largest_mean(np.array([0.0, 1.0]), np.array([0.5, 0.5]), 1.0, 500.0) == pytest.approx(1)


# Many numbers of votes


def test_neighbouring_numbers_of_votes_with_few_triplets_are_pooled() -> None:
    M = np.repeat([1, 2, 10, 11, 13, 14, 40, 99, 100, 500, 9000], [3, 60, 20, 20, 20, 1, 1, 7, 1, 1, 90])
    n = M // 3
    pools, pool, kind = pools_by_votes(n, M, np.ones_like(M))
    assert [(each.M.min(), each.M.max(), each.triplets, each.kept) for each in pools] == [
        (1, 1, 3, 1),
        (2, 2, 60, 2),
        (10, 13, 60, 10),
        (14, 14, 1, 14),
        (40, 40, 1, 40),
        (99, 100, 8, 99),
        (500, 9000, 91, 200),
    ]
    votes = np.concatenate([np.stack([each.n, each.M]) for each in pools], axis=1)
    assert votes[:, kind].tolist() == [n.tolist(), M.tolist()]
    assert [each.M.min() for each in pools] == [M[pool == k].min() for k in range(len(pools))]
    rng = np.random.default_rng(0)
    ceiling = estimate_ceiling(rng.binomial(M, rng.beta(0.8, 0.8, len(M))), M)
    assert ceiling.note == (
        "3 of 224 triplets have one vote and do not contribute to the bounds; "
        "numbers of votes with few triplets, and those from 200 on, are pooled (M = 10 to 13, 99 to 100, 500 to 9000)"
    )


def test_many_numbers_of_votes_are_as_good_as_one() -> None:
    rng = np.random.default_rng(0)
    p, M = rng.beta(0.8, 0.8, 300), rng.integers(20, 41, 300)
    many, one = estimate_ceiling(rng.binomial(M, p), M), estimate_ceiling(rng.binomial(30, p), np.full(300, 30))
    assert holds(many, truth(p, M))
    widths = [ceiling.score_2afc_highest - ceiling.score_2afc_lowest for ceiling in (many, one)]
    assert widths[0] < 1.1 * widths[1] < 8


def test_votes_may_depend_on_p_within_a_pool() -> None:
    rng = np.random.default_rng(0)
    p = rng.choice([0.5, 0.95], 3000)
    # Few triplets have the same M: those of one kind have 20 to 22 votes, those of the other 23 to 26.
    M = np.where(p == 0.5, rng.integers(20, 23, 3000), rng.integers(23, 27, 3000))
    rows = np.arange(240)
    n, M = rng.binomial(M, p)[rows], M[rows]
    ceiling = estimate_ceiling(n, M)
    assert len(pools_by_votes(n, M, np.ones_like(M))[0]) < 7
    assert holds(ceiling, truth(p[rows], M))


def test_a_thousand_numbers_of_votes() -> None:
    rng = np.random.default_rng(0)
    M = np.append(np.arange(1, 1001), rng.integers(1, 1001, 500))
    p = rng.beta(0.8, 0.8, 1500)
    start = time.process_time()
    ceiling = estimate_ceiling(rng.binomial(M, p), M)
    assert time.process_time() - start < 5
    assert holds(ceiling, truth(p, M))
    assert ceiling.score_2afc_highest - ceiling.score_2afc_lowest < 3


def test_a_billion_votes_need_little_time_and_memory() -> None:
    tracemalloc.start()
    start = time.process_time()
    ceiling = estimate_ceiling([400_000_000], [1_000_000_000])
    seconds, (_, most) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 1
    assert most < 1e8
    # One triplet says nothing of others.
    assert (ceiling.score_2afc_lowest, ceiling.score_2afc_highest) == (50, 100)


def test_very_many_votes() -> None:
    p, M = drawn("beta(.8, .8)", 300, 0), np.full(300, 100_000)
    ceiling = estimate_ceiling(np.random.default_rng(1).binomial(M, p), M)
    assert holds(ceiling, truth(p, M))
    assert ceiling.score_2afc_highest - ceiling.score_2afc_lowest < 6


def test_votes_that_no_mixture_fits_are_noted() -> None:
    # Four people who always split evenly agree less often than by the toss of a coin.
    ceiling = estimate_ceiling(np.full(300, 2), np.full(300, 4))
    assert ceiling.note == (
        "no mixture fits the votes (M = 4): votes on one triplet are not independent draws with one probability"
    )
    assert ceiling.score_2afc_lowest == 50
    # Four of five, always: more regular than any coin, though people agree more often than not.
    assert estimate_ceiling(np.full(300, 4), np.full(300, 5)).note.startswith("no mixture fits the votes (M = 5)")


def test_votes_that_a_mixture_fits_are_not_noted() -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        M = rng.integers(20, 41, 40)
        assert "no mixture" not in estimate_ceiling(rng.binomial(M, 0.9), M).note


def test_agreement_of_people_against_slow_counting_of_pairs() -> None:
    rng = np.random.default_rng(0)
    M = rng.integers(1, 6, 40)
    n = rng.binomial(M, 0.7)
    shares, agreeing, pairs = [], 0, 0
    for ones, people in zip(n, M, strict=True):
        votes = [1] * ones + [0] * (people - ones)
        alike = [votes[i] == votes[j] for i in range(people) for j in range(i)]
        agreeing, pairs = agreeing + sum(alike), pairs + len(alike)
        shares += [np.mean(alike)] if alike else []
    ceiling = estimate_ceiling(n, M)
    assert ceiling.human_triplets == pytest.approx(100 * np.mean(shares))
    assert ceiling.human_triplets_se == pytest.approx(100 * np.std(shares, ddof=1) / np.sqrt(len(shares)))
    assert ceiling.human_pairs == pytest.approx(100 * agreeing / pairs)
    assert ceiling.pairs == pairs


def test_people_agree_on_clic_as_often_as_known(shared: Path) -> None:
    columns = ["ref", "x0", "x1", "choice"]
    votes = pl.read_csv(shared / "data" / "clic2021" / "oracle.csv", has_header=False, new_columns=columns)
    votes = votes.filter(pl.col("x0") != pl.col("x1"))
    merged = merge_votes(votes.drop("choice"), len(votes))
    choice = np.where(merged.swapped, 1 - votes["choice"].to_numpy(), votes["choice"].to_numpy())
    n, M = np.bincount(merged.row, choice).astype(int), np.bincount(merged.row)
    ceiling = estimate_ceiling(n, M)
    assert ceiling.pairs == 757
    assert ceiling.human_pairs * 757 / 100 == pytest.approx(588)
    assert round(ceiling.human_triplets, 2) == 75.98
    assert ceiling.known
    assert ceiling.note.startswith(
        "4548 of 4810 triplets have one vote and do not contribute to the bounds; numbers of votes"
    )
    assert ceiling.score_2afc_lowest < 54
    assert ceiling.score_2afc_highest > 97


def test_the_ceiling_of_the_material_votes(material: tuple[Triplets, Triplets]) -> None:
    _, test = material
    ceiling = estimate_ceiling(test.n, test.M, clusters=test.codes("ref")[1])
    ends = [getattr(ceiling, f"score_2afc_{end}") for end in ("lowest", "low", "high", "highest")]
    assert ends == sorted(ends)
    assert ends[0] > 70
    assert ends[-1] < 85


def test_copies_of_triplets_add_nothing() -> None:
    n, M = votes_of(5, 400), np.full(400, 5)
    once = estimate_ceiling(n, M)
    twice = estimate_ceiling(np.tile(n, 2), np.tile(M, 2), clusters=np.tile(np.arange(400), 2))
    for name in MEASURES:
        for end in ("lowest", "low", "high", "highest"):
            width = getattr(once, f"{name}_highest") - getattr(once, f"{name}_lowest")
            assert getattr(twice, f"{name}_{end}") == pytest.approx(getattr(once, f"{name}_{end}"), abs=0.02 * width)


def test_one_cluster_leaves_everything_open() -> None:
    ceiling = estimate_ceiling(votes_of(5, 100), np.full(100, 5), clusters=np.zeros(100))
    assert (ceiling.score_2afc_lowest, ceiling.score_2afc_highest) == (50, 100)


def test_clusters_of_one_row_each_are_no_clusters() -> None:
    n, M = votes_of(5, 2000), np.full(2000, 5)
    alone, each = estimate_ceiling(n, M), estimate_ceiling(n, M, clusters=np.arange(2000))
    assert each.score_2afc_lowest == pytest.approx(alone.score_2afc_lowest, abs=0.1)
    assert each.human_pairs_se == pytest.approx(alone.human_pairs_se)


def test_explained_is_all_for_the_truth_and_nothing_for_the_floor() -> None:
    rng = np.random.default_rng(0)
    p, M = rng.beta(0.5, 0.5, 5000), np.full(5000, 5)
    n = rng.binomial(M, p)
    ceiling = estimate_ceiling(n, M)
    reached = float(truth(p, M)["nll"])
    low, high = share_explained(ceiling, reached)
    assert low < 1 < high
    assert share_explained(ceiling, ceiling.floor_nll) == (0, 0)
    assert score_2afc(n, M, p) == pytest.approx(ceiling.score_2afc_low, abs=3)
    # A gain is divided by the greatest and the least that it may be out of; a loss the other way round.
    floor = ceiling.floor_nll
    assert share_explained(ceiling, floor - 0.6, floor - 0.7, floor - 0.5) == pytest.approx(
        (0.5 / ceiling.gain_highest, 0.7 / ceiling.gain_lowest)
    )
    assert share_explained(ceiling, floor, floor - 0.1, floor + 0.1) == pytest.approx(
        (-0.1 / ceiling.gain_lowest, 0.1 / ceiling.gain_lowest)
    )
    assert share_explained(ceiling, floor + 0.2, floor + 0.1, floor + 0.3) == pytest.approx(
        (-0.3 / ceiling.gain_lowest, -0.1 / ceiling.gain_highest)
    )


def test_the_share_explained_has_no_end_where_nothing_may_be_explainable() -> None:
    n, M = np.random.default_rng(0).binomial(5, 0.5, 300), np.full(300, 5)
    ceiling = estimate_ceiling(n, M)
    assert ceiling.gain_lowest == 0
    low, high = share_explained(ceiling, ceiling.floor_nll - 0.01)
    assert low == pytest.approx(0.01 / ceiling.gain_highest)
    assert high is None
    assert share_explained(ceiling, ceiling.floor_nll + 0.01) == (None, pytest.approx(-0.01 / ceiling.gain_highest))


def test_the_results_are_frozen_and_plain() -> None:
    ceiling = estimate_ceiling([0, 1, 2, 2], [2, 2, 2, 2])
    with pytest.raises(dataclasses.FrozenInstanceError):
        ceiling.known = False  # type: ignore[misc]
    for each in (ceiling, estimate_ceiling([1], [3])):
        plain = dataclasses.asdict(each)
        assert {type(value) for value in plain.values()} <= {int, float, bool, str}


# Functions that were scored


def test_the_ceiling_is_never_worse_than_a_scored_function() -> None:
    rng = np.random.default_rng(0)
    p, M = rng.beta(0.8, 0.8, 400), np.full(400, 5)
    n = rng.binomial(M, p)
    plain = estimate_ceiling(n, M)
    own = -np.log(np.clip(p, 0.05, 0.95)) * n - np.log(1 - np.clip(p, 0.05, 0.95)) * (M - n)
    # Better than the votes allow.
    scores = [100.0 * (rng.random(400) < 0.95), 100 * n / M, np.full(400, np.nan)]
    nll = [0.1 * own, own]
    best = estimate_ceiling(n, M, scored={"nll": nll, "score_2afc": scores})

    def limits(values: list[np.ndarray], risk: float, among: int) -> list[list[float]]:
        interval = share_interval if values is scores else t_interval
        means = [(x.mean(), x.std(ddof=1) / 20) for x in values if np.isfinite(x).all()]
        return [[*interval(*each, 400, level=1 - 2 * risk / among)] for each in means]

    # The lower bound at the joint level; the upper one just as high as the function is at this level.
    assert best.score_2afc_lowest == pytest.approx(max(low for *_, low, _ in limits(scores, 0.05 / 9, 3)))
    assert best.score_2afc_highest == pytest.approx(max(low for *_, low, _ in limits(scores, 0.05, 3)))
    assert best.score_2afc_lowest > plain.score_2afc_highest
    # Those of NLLs are corrected for skewness.
    assert best.nll_highest == pytest.approx(min(high for *_, high in limits(nll, 0.05 / 9, 2)), rel=0.05)
    assert best.nll_lowest == pytest.approx(min(high for *_, high in limits(nll, 0.05, 2)), rel=0.05)
    assert best.nll_lowest < best.nll_highest < plain.nll_lowest
    assert best.gain_highest > best.gain_lowest > plain.gain_highest
    for name in MEASURES:
        lowest, low, high, highest = (getattr(best, f"{name}_{end}") for end in ("lowest", "low", "high", "highest"))
        assert lowest <= low <= high <= highest
    # Functions that are worse change nothing.
    worse = estimate_ceiling(n, M, scored={"nll": [own + 9], "score_2afc": [100 - scores[0]]})
    assert worse == plain
    assert estimate_ceiling(n, M, scored={"nll": [], "score_2afc": []}) == plain


def test_one_vote_and_a_scored_function_bound_the_best_from_one_side() -> None:
    right = np.random.default_rng(0).random(1000) < 0.8
    ceiling = estimate_ceiling(right.astype(int), np.ones(1000, dtype=int), scored={"score_2afc": [100.0 * right]})
    assert 75 < ceiling.score_2afc_lowest < 80
    assert ceiling.score_2afc_highest == 100


@pytest.mark.slow
def test_the_joint_level_is_kept_with_many_scored_functions() -> None:
    covered = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p, M = rng.choice([0.1, 0.7], 200), np.full(200, 10)
        n = rng.binomial(M, p)
        # Twenty functions, all of them as good as the best.
        nll = [-np.log(p) * n - np.log(1 - p) * (M - n)] * 20
        scores = [100 * np.where(p > 0.5, n, M - n) / M] * 20
        logarithm = estimate_ceiling(n, M).floor_nll - 10 * np.log(2)
        ceiling = estimate_ceiling(n, M, scored={"nll": [each + logarithm for each in nll], "score_2afc": scores})
        covered.append(holds(ceiling, truth(np.array([0.1, 0.7]), np.full(2, 10))))
    assert np.mean(covered) >= 0.95


@pytest.mark.parametrize(
    ("n", "M", "options", "message"),
    [
        ([1], [1, 2], {}, "n and M must be two lists of equal length, not empty; found shapes (1,) and (2,)"),
        ([], [], {}, "n and M must be two lists of equal length, not empty; found shapes (0,) and (0,)"),
        (
            [1, 6, 7],
            [5, 5, 5],
            {},
            "n and M must be whole numbers with 0 <= n <= M and M >= 1; row 1 has n=6, M=5 (2 of 3 rows)",
        ),
        (
            [0.5],
            [2],
            {},
            "n and M must be whole numbers with 0 <= n <= M and M >= 1; row 0 has n=0.5, M=2 (1 of 1 rows)",
        ),
        ([0], [0], {}, "n and M must be whole numbers with 0 <= n <= M and M >= 1; row 0 has n=0, M=0 (1 of 1 rows)"),
        ([1], [2], {"clusters": [0, 1]}, "clusters must have one label per row, (1,); found (2,)"),
        ([1], [2], {"clusters": Dependence(3, (), "")}, "clusters must have one label per row, (1,); found (3,)"),
        ([1], [2], {"level": 1.0}, "level must lie between 0 and 1; found 1"),
        (
            [1],
            [2],
            {"scored": {"nll": [[1.0, 2.0]]}},
            "scored must have nll or score_2afc of each function, with shape (1,); found nll, (2,)",
        ),
        (
            [1],
            [2],
            {"scored": {"gain": [[1.0]]}},
            "scored must have nll or score_2afc of each function, with shape (1,); found gain",
        ),
    ],
)
def test_invalid_votes_are_rejected(n: list[float], M: list[int], options: dict, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        estimate_ceiling(n, M, **options)
    assert str(error.value) == message


def test_limits_on_the_wrong_side_of_the_nll_are_rejected() -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        share_explained(estimate_ceiling([1, 2], [2, 2]), 1.0, 1.1, 1.2)
    assert str(error.value) == "nll must lie between nll_low and nll_high; found 1 and 1.1, 1.2"
