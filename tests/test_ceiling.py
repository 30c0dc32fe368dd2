from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import chi2, hypergeom

from twoafc.core import pmf_table
from twoafc.inference import mixture
from twoafc.inference.ceiling import Ceiling, ceiling, explained
from twoafc.inference.ceiling_bounds import functions_of
from twoafc.inference.ceiling_common import common_mixture
from twoafc.inference.ceiling_reach import Reach, across, within
from twoafc.inference.ceiling_votes import by_number_of_votes, dependence_of
from twoafc.inference.dependence import Dependence
from twoafc.inference.mixture import Mixtures
from twoafc.inference.mixture_votes import Histogram, chances, folded_pmf, folding
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


def holds(found: Ceiling, true: dict[str, float]) -> bool:
    ends = {name: (getattr(found, f"{name}_lowest"), getattr(found, f"{name}_highest")) for name in MEASURES}
    # The mean of equal numbers may differ from them in the last digit.
    return all(low - 1e-12 <= true[name] <= high + 1e-12 for name, (low, high) in ends.items())


@pytest.mark.parametrize("votes", [[2], [3], [5], [10], [1, 2, 3, 4, 5]], ids=str)
@pytest.mark.parametrize("world", ["beta(.8, .8)", "beta(.2, .2)", "bimodal", "constant .5", "constant .9"])
def test_the_bounds_hold_the_truth_where_it_is_known(world: str, votes: list[int]) -> None:
    p = drawn(world, 4000, 1)
    rng = np.random.default_rng(2)
    M = rng.choice(votes, 4000)
    found = ceiling(rng.binomial(M, p), M)
    assert holds(found, truth(p, M))
    for name in MEASURES:
        low, high, lowest, highest = (getattr(found, f"{name}_{end}") for end in ("low", "high", "lowest", "highest"))
        assert lowest <= low + 1e-6
        assert low <= high <= highest + 1e-6


def test_the_joint_level_is_kept_where_the_truth_is_at_the_edge() -> None:
    # p is the same everywhere, which no other mixture with the same counts is: the bounds have the sampling error only.
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, M = rng.binomial(3, 0.9, 150), np.full(150, 3)
        held.append(holds(ceiling(n, M, level=0.8), truth(np.full(150, 0.9), M)))
    assert np.mean(held) > 0.8


def test_rare_disagreement_is_not_taken_for_none() -> None:
    held = []
    for seed in range(80):
        n, M = np.random.default_rng(seed).binomial(2, 0.01, 100), np.full(100, 2)
        held.append(holds(ceiling(n, M), truth(np.full(100, 0.01), M)))
    assert np.mean(held) > 0.93


def test_triplets_of_one_reference_widen_the_bounds_and_the_truth_stays_in() -> None:
    held, alone = [], []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        # Every reference has its own p, so that 600 triplets are no more than 30 draws of it.
        p = np.repeat(rng.choice([0.5, 0.97], 30), 20)
        n, M, ref = rng.binomial(4, p), np.full(600, 4), np.repeat(np.arange(30), 20)
        true = truth(np.array([0.5, 0.97]), np.full(2, 4))
        held.append(holds(ceiling(n, M, clusters=ref), true))
        alone.append(holds(ceiling(n, M), true))
    assert np.mean(held) > 0.93
    assert np.mean(alone) < 0.8


@pytest.mark.parametrize("M", [2, 3])
def test_two_or_three_votes_give_the_bounds_in_closed_form(M: int) -> None:
    rng = np.random.default_rng(0)
    n = rng.binomial(M, rng.beta(0.5, 0.5, 2000))
    found = ceiling(n, np.full(2000, M))
    # People's agreement is (1 + E(2p - 1)^2) / 2.
    square = 2 * found.human_triplets / 100 - 1
    assert found.score_2afc_low == pytest.approx(50 + 50 * square, abs=1e-3)
    assert found.score_2afc_high == pytest.approx(50 + 50 * np.sqrt(square), abs=1e-2)
    # A vote's entropy is concave in (2p - 1)^2: greatest where all p are alike, least where they are 0, 1/2 and 1.
    q = (1 + np.sqrt(square)) / 2
    entropy = -q * np.log(q) - (1 - q) * np.log(1 - q)
    assert found.gain_low == pytest.approx(M * (np.log(2) - entropy), abs=1e-3)
    assert found.gain_high == pytest.approx(M * square * np.log(2), abs=1e-3)
    assert found.floor_nll - found.nll_high == pytest.approx(found.gain_low, abs=1e-4)
    # The exact region of one share: the likelihood ratio's ends, through the same closed form.
    unanimous = np.mean((n == 0) | (n == M))
    chance = np.linspace(1e-6, 1 - 1e-6, 200_001)
    ratio = (
        2 * 2000 * (unanimous * np.log(unanimous / chance) + (1 - unanimous) * np.log((1 - unanimous) / (1 - chance)))
    )
    ends = chance[ratio <= chi2.ppf(0.95, 1)][[0, -1]]
    squares = 2 * ends - 1 if M == 2 else (4 * ends - 1) / 3
    assert found.score_2afc_lowest == pytest.approx(50 + 50 * squares[0], abs=0.1)
    assert found.score_2afc_highest == pytest.approx(50 + 50 * np.sqrt(squares[1]), abs=0.1)
    assert found.score_2afc_lowest <= 50 + 50 * squares[0] + 1e-3
    assert found.score_2afc_highest >= 50 + 50 * np.sqrt(squares[1]) - 1e-3


def test_one_vote_tells_nothing() -> None:
    found = ceiling([0, 1, 1], [1, 1, 1])
    assert not found.known
    assert found.note == "M = 1 only: no ceiling can be known"
    assert (found.nll_lowest, found.nll_highest) == (0, pytest.approx(np.log(2)))
    assert (found.score_2afc_low, found.score_2afc_high) == (50, 100)
    assert found.floor_nll == pytest.approx(np.log(2))
    assert np.isnan(found.human_triplets)
    assert np.isnan(found.human_pairs_se)
    assert explained(found, 0.5) == (None, None)
    assert common_mixture([0, 1, 1], [1, 1, 1]).reason == found.note


def test_one_vote_on_some_triplets_adds_the_trivial_bound() -> None:
    n, M = np.repeat([0, 1, 2], [300, 150, 300]), np.full(750, 2)
    alone = ceiling(n, M)
    joined = ceiling(np.append(n, np.ones(250, dtype=int)), np.append(M, np.ones(250, dtype=int)))
    assert joined.nll_lowest == pytest.approx(0.75 * alone.nll_lowest)
    assert joined.nll_highest == pytest.approx(0.75 * alone.nll_highest + 0.25 * np.log(2))
    assert joined.score_2afc_lowest == pytest.approx(0.75 * alone.score_2afc_lowest + 0.25 * 50)
    assert joined.note == "250 of 1000 triplets have one vote, which bounds nothing"


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
    found = ceiling(n, M, level=level)
    swapped = rng.permutation(np.where(rng.random(len(n)) < 0.5, n, M - n))
    again = ceiling(swapped, M, level=level)
    wider = ceiling(n, M, level=(1 + level) / 2)
    for name in MEASURES:
        for end in ("low", "high", "lowest", "highest"):
            value = getattr(found, f"{name}_{end}")
            assert getattr(again, f"{name}_{end}") == pytest.approx(value, abs=1e-6)
        # A programme may stop a few per cent short of the region's edge, on the outer side.
        room = 0.05 * (getattr(found, f"{name}_highest") - getattr(found, f"{name}_lowest"))
        assert getattr(wider, f"{name}_lowest") <= getattr(found, f"{name}_lowest") + room
        assert getattr(wider, f"{name}_highest") >= getattr(found, f"{name}_highest") - room


def votes_of(M: int, T: int = 3000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.binomial(M, rng.beta(0.6, 0.9, T))


@pytest.mark.parametrize("M", [4, 5, 7])
def test_random_mixtures_within_the_likelihood_lie_within_the_bounds(M: int) -> None:
    mixtures = Mixtures([Histogram(M, M, votes_of(M))])
    reach = float(chi2.ppf(0.95, M // 2))
    limit = mixtures.deviance(mixtures.fitted) + reach
    rng = np.random.default_rng(1)
    tried = 0
    functions = functions_of(M)
    bounds = dict(zip(functions, mixtures.plausible(list(functions.values()), reach), strict=True))
    for _ in range(1500):
        # Any mixture, drawn towards the best one until it fits: where it enters the region is near the region's edge.
        q = rng.uniform(0.5, 1, rng.integers(1, 6)) if rng.random() < 0.8 else rng.choice([0.5, 0.75, 1.0], 2)
        weights = rng.dirichlet(np.ones(len(q)))
        share = 1.0
        own = Histogram(M, M, mixtures.histograms[0].n).expected(q) @ weights
        while mixtures.deviance(mixtures.fitted + share * (own - mixtures.fitted)) > limit:
            share *= 0.8
        tried += share > 0.05
        for name, each in functions.items():
            mean = share * each(q) @ weights + (1 - share) * each(chances(1601)[::10]) @ mixtures.weights
            assert bounds[name][0] - 1e-9 <= mean <= bounds[name][1] + 1e-9
    assert tried > 50


@pytest.mark.parametrize("M", [4, 10])
def test_the_bounds_are_reached_nearly(M: int) -> None:
    mixtures = Mixtures([Histogram(M, M, votes_of(M))])
    reach = float(chi2.ppf(0.95, M // 2))
    limit = mixtures.deviance(mixtures.fitted) + reach
    q = chances(101)
    expected = mixtures.histograms[0].expected(q)
    [(low, high)] = mixtures.plausible([lambda q: 100 * q], reach)

    def penalised(sign: int, price: float) -> float:
        """A mixture inside the region, by another way: the mean and the deviance weighed against each other."""

        def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
            w = np.exp(x - logsumexp(x))
            fitted = expected @ w
            slope = sign * q * 100 + price * expected.T @ (2 * (1 - mixtures.observed / fitted))
            return float(sign * 100 * q @ w + price * mixtures.deviance(fitted)), w * (slope - w @ slope)

        x = minimize(loss, np.zeros(len(q)), jac=True, method="L-BFGS-B", options={"maxiter": 3000}).x
        w = np.exp(x - logsumexp(x))
        inside = mixtures.deviance(expected @ w) <= limit
        return float(100 * q @ w) if inside else sign * np.inf

    prices = np.geomspace(0.02, 5, 12)
    width = high - low
    assert low <= min(penalised(1, price) for price in prices) <= low + 0.12 * width
    assert high - 0.12 * width <= max(penalised(-1, price) for price in prices) <= high


def test_a_programme_that_the_solver_gives_up_is_solved_another_way() -> None:
    counts = [496, 385, 341, 355, 342, 299, 341, 300, 141]
    mixtures = Mixtures([Histogram(16, 16, np.repeat(np.arange(9), counts))])
    [(low, high)] = mixtures.plausible([lambda q: q], 15.507)
    [(less, more)] = mixtures.plausible([lambda q: -q], 15.507)
    assert (low, high) == pytest.approx((-more, -less), abs=1e-5)


@pytest.mark.parametrize("M", [2, 5, 9])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_most_likely_mixture_is_the_one_that_a_general_optimiser_finds(M: int, seed: int) -> None:
    n = np.random.default_rng(seed).choice(M + 1, 200, p=np.random.default_rng(seed + 7).dirichlet(np.ones(M + 1)))
    mixtures = Mixtures([Histogram(M, M, n)])
    expected = mixtures.histograms[0].expected(chances(1601)[::10])

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        w = np.exp(x - logsumexp(x))
        fitted = expected @ w
        slope = -expected.T @ (mixtures.observed / fitted)
        return float(-mixtures.observed @ np.log(fitted)), w * (slope - w @ slope)

    other = minimize(loss, np.zeros(expected.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 20_000}).fun
    ours = float(-mixtures.observed @ np.log(mixtures.fitted))
    assert ours <= other + 1e-6
    assert ours == pytest.approx(other, abs=0.5)
    # The likelihood's slope towards any single q is at most 0: no mixture is better.
    slope = expected.T @ np.divide(mixtures.observed, mixtures.fitted) / 200 - 1
    assert slope.max() < 1e-6


def test_a_finer_grid_changes_nothing_that_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    n, M = votes_of(6), np.full(3000, 6)
    coarse = ceiling(n, M)
    monkeypatch.setattr("twoafc.inference.mixture.VALUES", 12_801)
    monkeypatch.setattr("twoafc.inference.mixture.EVERY", 20)
    monkeypatch.setattr("twoafc.inference.mixture.SLACK", 0.05)
    fine = ceiling(n, M)
    for name, room in {"nll": 2e-4, "gain": 2e-4, "score_2afc": 2e-2}.items():
        for end in ("low", "high"):
            assert getattr(fine, f"{name}_{end}") == pytest.approx(getattr(coarse, f"{name}_{end}"), abs=room)
        for end in ("lowest", "highest"):
            assert getattr(fine, f"{name}_{end}") == pytest.approx(getattr(coarse, f"{name}_{end}"), abs=10 * room)


def test_folded_votes_are_drawn_without_replacement() -> None:
    q = np.array([0.5, 0.7, 1.0])
    for M, kept in ((5, 3), (30, 16), (4, 4)):
        # Votes drawn from binomial votes are binomial.
        assert folded_pmf(kept, q) == pytest.approx(folding(M, kept, np.arange(M + 1)).T @ pmf_table(M, q).T, abs=1e-12)


def test_chances_of_drawn_votes_are_those_of_the_hypergeometric_law() -> None:
    for M, kept in ((5, 3), (30, 16), (100_000, 21)):
        n = np.unique(np.linspace(0, M, 40).astype(np.int64))
        drawn = hypergeom.pmf(np.arange(kept + 1), M, n[:, None], kept)
        folded = np.stack([drawn[:, k] + (drawn[:, kept - k] if k < kept - k else 0) for k in range(kept // 2 + 1)], 1)
        np.testing.assert_allclose(folding(M, kept, n), folded, rtol=1e-9, atol=1e-15)


def test_votes_may_be_very_many() -> None:
    p, M = drawn("beta(.8, .8)", 300, 0), np.full(300, 100_000)
    assert holds(ceiling(np.random.default_rng(1).binomial(M, p), M), truth(p, M))


def test_bounds_that_hardly_rise_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    M = rng.permutation(np.arange(20, 26))
    n = rng.binomial(M, rng.beta(0.8, 0.8, 6))
    quick = ceiling(n, M)
    monkeypatch.setattr(mixture, "LATELY", mixture.ROUNDS)
    slow = ceiling(n, M)
    for name in ("nll_lowest", "nll_highest", "score_2afc_lowest", "score_2afc_highest"):
        assert getattr(quick, name) == pytest.approx(getattr(slow, name), rel=2e-3)


def test_many_votes_or_few_triplets_use_some_votes_and_say_so() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(0.8, 0.8, 2060)
    M = np.append(np.full(2000, 40), np.full(60, 7))
    found = ceiling(rng.binomial(M, p), M)
    assert [(each.M, each.kept) for each in found.by_votes] == [(7, 3), (40, 17)]
    assert found.note == "of many votes, or on few triplets, some are used (3 of 7, 17 of 40)"
    assert holds(found, truth(p, M))
    assert found.by_votes[1].score_2afc.highest - found.by_votes[1].score_2afc.lowest < 8


def test_votes_that_are_no_draws_of_one_chance_are_pointed_out() -> None:
    # Four people who always split evenly agree less often than by the toss of a coin.
    found = ceiling(np.full(300, 2), np.full(300, 4))
    assert found.note == "no mixture fits the votes (M = 4): votes on a triplet are not independent draws of one chance"
    assert found.score_2afc_lowest == 50
    assert found.by_votes[0].p < 1e-10


def test_people_agree_as_slow_counting_of_pairs_says() -> None:
    rng = np.random.default_rng(0)
    M = rng.integers(1, 6, 40)
    n = rng.binomial(M, 0.7)
    shares, agreeing, pairs = [], 0, 0
    for ones, people in zip(n, M, strict=True):
        votes = [1] * ones + [0] * (people - ones)
        alike = [votes[i] == votes[j] for i in range(people) for j in range(i)]
        agreeing, pairs = agreeing + sum(alike), pairs + len(alike)
        shares += [np.mean(alike)] if alike else []
    found = ceiling(n, M)
    assert found.human_triplets == pytest.approx(100 * np.mean(shares))
    assert found.human_triplets_se == pytest.approx(100 * np.std(shares, ddof=1) / np.sqrt(len(shares)))
    assert found.human_pairs == pytest.approx(100 * agreeing / pairs)
    assert found.pairs == pairs


def test_people_agree_on_clic_as_often_as_known(shared: Path) -> None:
    columns = ["ref", "x0", "x1", "choice"]
    votes = pl.read_csv(shared / "data" / "clic2021" / "oracle.csv", has_header=False, new_columns=columns)
    votes = votes.filter(pl.col("x0") != pl.col("x1"))
    merged = merge_votes(votes.drop("choice"), len(votes))
    choice = np.where(merged.swapped, 1 - votes["choice"].to_numpy(), votes["choice"].to_numpy())
    n, M = np.bincount(merged.row, choice).astype(int), np.bincount(merged.row)
    found = ceiling(n, M)
    assert found.pairs == 757
    assert found.human_pairs * 757 / 100 == pytest.approx(588)
    assert round(found.human_triplets, 2) == 75.98
    assert found.known
    assert found.note.startswith("4548 of 4810 triplets have one vote, which bounds nothing; of many votes, or on few")
    assert found.score_2afc_lowest < 54
    assert found.score_2afc_highest > 97


def test_on_material_one_mixture_does_not_serve_all_numbers_of_votes(material: tuple[Triplets, Triplets]) -> None:
    train, test = material
    told = common_mixture(train.n, train.M)
    assert told.rejected
    assert told.ceiling is None
    assert told.reason.endswith("people agree .661 at M = 2 and .719 at M = 5")
    clustered = common_mixture(test.n, test.M, clusters=test.codes("ref")[1])
    assert clustered.rejected
    found = ceiling(test.n, test.M, clusters=test.codes("ref")[1])
    assert 70 < found.score_2afc_lowest < found.score_2afc_low < found.score_2afc_high < found.score_2afc_highest < 85


def test_a_common_mixture_is_rarely_rejected_where_there_is_one_and_narrows_the_bounds() -> None:
    rejected, held = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p, M = rng.beta(0.8, 0.8, 900), rng.choice([1, 2, 5], 900)
        n = rng.binomial(M, p)
        told = common_mixture(n, M, clusters=np.arange(900) // 3 if seed % 2 else None)
        rejected.append(told.rejected)
        if told.ceiling is not None:
            held.append(holds(told.ceiling, truth(p, M)))
            wide, narrow = ceiling(n, M), told.ceiling
            assert (
                narrow.score_2afc_highest - narrow.score_2afc_lowest < wide.score_2afc_highest - wide.score_2afc_lowest
            )
            assert told.reason.startswith("one mixture for all M is not rejected (p = ")
    assert np.mean(rejected) <= 0.1
    assert np.mean(held) > 0.93


def test_a_common_mixture_is_rejected_where_votes_differ_though_agreement_does_not() -> None:
    # At M = 4 all p are alike, at M = 5 they are 1/2 or 1, and people agree equally often.
    rng = np.random.default_rng(0)
    M = np.repeat([4, 5], 4000)
    one = (1 + np.sqrt(0.5)) / 2
    p = np.where(M == 4, one, rng.choice([0.5, 1.0], 8000))
    told = common_mixture(rng.binomial(M, p), M)
    assert told.rejected
    assert told.reason.endswith("their numbers differ though people agree about equally often")


def test_design_effects_are_those_of_copies() -> None:
    n = votes_of(5, 400)
    histogram = Histogram(5, 5, n)
    fitted = Mixtures([histogram]).fitted
    together = Dependence(800, (np.tile(np.arange(400), 2),), "")
    twice = Histogram(5, 5, np.tile(n, 2))
    alone = within(histogram, fitted, dependence_of(None, 400))
    assert (alone.freedom, alone.scale) == (2, 1)
    copied = within(twice, 2 * fitted, together)
    # Every row twice: each direction's variance is double, up to sampling.
    assert copied.scale == pytest.approx(2, rel=0.1)
    assert copied.freedom == pytest.approx(2, rel=0.1)
    assert copied.limit(0.95) == pytest.approx(2 * alone.limit(0.95), rel=0.1)
    assert copied.p_value(2 * alone.limit(0.95)) == pytest.approx(0.05, abs=0.02)
    both = across([histogram, histogram], np.tile(fitted, 2), together, common=True)
    assert both.freedom == pytest.approx(2, rel=0.1)


def test_one_cluster_leaves_everything_open() -> None:
    found = ceiling(votes_of(5, 100), np.full(100, 5), clusters=np.zeros(100))
    assert (found.score_2afc_lowest, found.score_2afc_highest) == (50, 100)
    assert Reach(2, np.inf, 3.0).limit(0.95) == np.inf
    assert Reach(2, np.inf, 3.0).p_value(9.0) == 1


def test_clusters_of_one_row_each_are_no_clusters() -> None:
    n, M = votes_of(5, 2000), np.full(2000, 5)
    alone, each = ceiling(n, M), ceiling(n, M, clusters=np.arange(2000))
    assert each.score_2afc_lowest == pytest.approx(alone.score_2afc_lowest, abs=0.1)
    assert each.human_pairs_se == pytest.approx(alone.human_pairs_se)


def test_explained_is_all_for_the_truth_and_nothing_for_the_floor() -> None:
    rng = np.random.default_rng(0)
    p, M = rng.beta(0.5, 0.5, 5000), np.full(5000, 5)
    n = rng.binomial(M, p)
    found = ceiling(n, M)
    reached = float(truth(p, M)["nll"])
    low, high = explained(found, reached)
    assert low < 1 < high
    assert explained(found, found.floor_nll) == (0, 0)
    assert score_2afc(n, M, p) == pytest.approx(found.score_2afc_low, abs=3)
    # A gain is divided by the greatest and the least that it may be out of; a loss the other way round.
    floor = found.floor_nll
    assert explained(found, floor - 0.6, floor - 0.7, floor - 0.5) == pytest.approx(
        (0.5 / found.gain_highest, 0.7 / found.gain_lowest)
    )
    assert explained(found, floor, floor - 0.1, floor + 0.1) == pytest.approx(
        (-0.1 / found.gain_lowest, 0.1 / found.gain_lowest)
    )
    assert explained(found, floor + 0.2, floor + 0.1, floor + 0.3) == pytest.approx(
        (-0.3 / found.gain_lowest, -0.1 / found.gain_highest)
    )


def test_what_is_explained_has_no_end_where_nothing_may_be_to_explain() -> None:
    n, M = np.random.default_rng(0).binomial(5, 0.5, 300), np.full(300, 5)
    found = ceiling(n, M)
    assert found.gain_lowest == 0
    low, high = explained(found, found.floor_nll - 0.01)
    assert low == pytest.approx(0.01 / found.gain_highest)
    assert high is None
    assert explained(found, found.floor_nll + 0.01) == (None, pytest.approx(-0.01 / found.gain_highest))


def test_the_results_are_frozen_and_plain() -> None:
    found = ceiling([0, 1, 2, 2], [2, 2, 2, 2])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.known = False  # type: ignore[misc]
    plain = dataclasses.asdict(found)
    assert {type(value) for value in plain.values()} <= {int, float, bool, str, tuple}


def test_a_histogram_for_each_number_of_votes_and_its_rows() -> None:
    histograms, rows = by_number_of_votes(np.array([1, 0, 2, 3]), np.array([1, 2, 2, 3]))
    assert [(each.M, each.n.tolist()) for each in histograms] == [(1, [1]), (2, [0, 2]), (3, [3])]
    assert [where.tolist() for where in rows] == [[0], [1, 2], [3]]


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
    ],
)
def test_what_is_no_votes_is_refused(n: list[float], M: list[int], options: dict, message: str) -> None:
    for each in (ceiling, common_mixture):
        with pytest.raises(ValueError) as error:  # noqa: PT011
            each(n, M, **options)
        assert str(error.value) == message


def test_limits_on_the_wrong_side_of_the_nll_are_refused() -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        explained(ceiling([1, 2], [2, 2]), 1.0, 1.1, 1.2)
    assert str(error.value) == "nll must lie between nll_low and nll_high; found 1 and 1.1, 1.2"
