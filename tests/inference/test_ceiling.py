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
from twoafc.inference import Ceiling, Dependence, best_scores, estimate_ceiling, share_explained
from twoafc.inference import mixtures as mixtures_module
from twoafc.inference.ceiling import DevianceLaw, as_dependence, deviance_law, histograms_by_votes
from twoafc.inference.mixtures import Histogram, Mixtures, folded_draws, folded_pmf, q_grid
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
    assert ceiling.score_2afc_low == pytest.approx(50 + 50 * square, abs=1e-3)
    assert ceiling.score_2afc_high == pytest.approx(50 + 50 * np.sqrt(square), abs=1e-2)
    # A vote's entropy is concave in (2p - 1)^2: greatest where all p are alike, least where they are 0, 1/2 and 1.
    q = (1 + np.sqrt(square)) / 2
    entropy = -q * np.log(q) - (1 - q) * np.log(1 - q)
    assert ceiling.gain_low == pytest.approx(M * (np.log(2) - entropy), abs=1e-3)
    assert ceiling.gain_high == pytest.approx(M * square * np.log(2), abs=1e-3)
    assert ceiling.floor_nll - ceiling.nll_high == pytest.approx(ceiling.gain_low, abs=1e-4)
    # The exact region of one share: the likelihood ratio's ends, through the same closed form.
    unanimous = np.mean((n == 0) | (n == M))
    chance = np.linspace(1e-6, 1 - 1e-6, 200_001)
    ratio = (
        2 * 2000 * (unanimous * np.log(unanimous / chance) + (1 - unanimous) * np.log((1 - unanimous) / (1 - chance)))
    )
    ends = chance[ratio <= chi2.ppf(0.95, 1)][[0, -1]]
    squares = 2 * ends - 1 if M == 2 else (4 * ends - 1) / 3
    assert ceiling.score_2afc_lowest == pytest.approx(50 + 50 * squares[0], abs=0.1)
    assert ceiling.score_2afc_highest == pytest.approx(50 + 50 * np.sqrt(squares[1]), abs=0.1)
    assert ceiling.score_2afc_lowest <= 50 + 50 * squares[0] + 1e-3
    assert ceiling.score_2afc_highest >= 50 + 50 * np.sqrt(squares[1]) - 1e-3


def test_one_vote_gives_no_ceiling() -> None:
    ceiling = estimate_ceiling([0, 1, 1], [1, 1, 1])
    assert not ceiling.known
    assert ceiling.note == "M = 1 only: no ceiling can be known"
    assert (ceiling.nll_lowest, ceiling.nll_highest) == (0, pytest.approx(np.log(2)))
    assert (ceiling.score_2afc_low, ceiling.score_2afc_high) == (50, 100)
    assert ceiling.floor_nll == pytest.approx(np.log(2))
    assert np.isnan(ceiling.human_triplets)
    assert np.isnan(ceiling.human_pairs_se)
    assert share_explained(ceiling, 0.5) == (None, None)


def test_one_vote_on_some_triplets_adds_the_trivial_bound() -> None:
    n, M = np.repeat([0, 1, 2], [300, 150, 300]), np.full(750, 2)
    alone = estimate_ceiling(n, M)
    joined = estimate_ceiling(np.append(n, np.ones(250, dtype=int)), np.append(M, np.ones(250, dtype=int)))
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
    ceiling = estimate_ceiling(n, M, level=level)
    swapped = rng.permutation(np.where(rng.random(len(n)) < 0.5, n, M - n))
    again = estimate_ceiling(swapped, M, level=level)
    wider = estimate_ceiling(n, M, level=(1 + level) / 2)
    for name in MEASURES:
        for end in ("low", "high", "lowest", "highest"):
            value = getattr(ceiling, f"{name}_{end}")
            assert getattr(again, f"{name}_{end}") == pytest.approx(value, abs=1e-6)
        # A programme may stop a few per cent short of the region's edge, on the outer side.
        room = 0.05 * (getattr(ceiling, f"{name}_highest") - getattr(ceiling, f"{name}_lowest"))
        assert getattr(wider, f"{name}_lowest") <= getattr(ceiling, f"{name}_lowest") + room
        assert getattr(wider, f"{name}_highest") >= getattr(ceiling, f"{name}_highest") - room


def votes_of(M: int, T: int = 3000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.binomial(M, rng.beta(0.6, 0.9, T))


@pytest.mark.parametrize("M", [4, 5, 7])
def test_random_mixtures_within_the_likelihood_lie_within_the_bounds(M: int) -> None:
    mixtures = Mixtures(Histogram(M, M, votes_of(M)))
    reach = float(chi2.ppf(0.95, M // 2))
    limit = mixtures.deviance(mixtures.fitted) + reach
    rng = np.random.default_rng(1)
    tried = 0
    functions = best_scores(M)
    bounds = dict(zip(functions, mixtures.plausible(list(functions.values()), reach), strict=True))
    for _ in range(1500):
        # Any mixture, drawn towards the best one until it fits: where it enters the region is near the region's edge.
        q = rng.uniform(0.5, 1, rng.integers(1, 6)) if rng.random() < 0.8 else rng.choice([0.5, 0.75, 1.0], 2)
        weights = rng.dirichlet(np.ones(len(q)))
        share = 1.0
        own = Histogram(M, M, mixtures.histogram.n).expected(q) @ weights
        while mixtures.deviance(mixtures.fitted + share * (own - mixtures.fitted)) > limit:
            share *= 0.8
        tried += share > 0.05
        for name, each in functions.items():
            mean = share * each(q) @ weights + (1 - share) * each(q_grid(1601)[::10]) @ mixtures.weights
            assert bounds[name][0] - 1e-9 <= mean <= bounds[name][1] + 1e-9
    assert tried > 50


@pytest.mark.parametrize("M", [4, 10])
def test_the_bounds_are_reached_nearly(M: int) -> None:
    mixtures = Mixtures(Histogram(M, M, votes_of(M)))
    reach = float(chi2.ppf(0.95, M // 2))
    limit = mixtures.deviance(mixtures.fitted) + reach
    q = q_grid(101)
    expected = mixtures.histogram.expected(q)
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


def test_a_programme_that_fails_with_presolve_is_solved_without() -> None:
    counts = [496, 385, 341, 355, 342, 299, 341, 300, 141]
    mixtures = Mixtures(Histogram(16, 16, np.repeat(np.arange(9), counts)))
    [(low, high)] = mixtures.plausible([lambda q: q], 15.507)
    [(less, more)] = mixtures.plausible([lambda q: -q], 15.507)
    assert (low, high) == pytest.approx((-more, -less), abs=1e-5)


@pytest.mark.parametrize("M", [2, 5, 9])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_most_likely_mixture_is_the_one_that_a_general_optimiser_finds(M: int, seed: int) -> None:
    n = np.random.default_rng(seed).choice(M + 1, 200, p=np.random.default_rng(seed + 7).dirichlet(np.ones(M + 1)))
    mixtures = Mixtures(Histogram(M, M, n))
    expected = mixtures.histogram.expected(q_grid(1601)[::10])

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
    coarse = estimate_ceiling(n, M)
    monkeypatch.setattr("twoafc.inference.mixtures.VALUES", 12_801)
    monkeypatch.setattr("twoafc.inference.mixtures.EVERY", 20)
    monkeypatch.setattr("twoafc.inference.mixtures.SLACK", 0.05)
    fine = estimate_ceiling(n, M)
    for name, room in {"nll": 2e-4, "gain": 2e-4, "score_2afc": 2e-2}.items():
        for end in ("low", "high"):
            assert getattr(fine, f"{name}_{end}") == pytest.approx(getattr(coarse, f"{name}_{end}"), abs=room)
        for end in ("lowest", "highest"):
            assert getattr(fine, f"{name}_{end}") == pytest.approx(getattr(coarse, f"{name}_{end}"), abs=10 * room)


def test_folded_votes_are_drawn_without_replacement() -> None:
    q = np.array([0.5, 0.7, 1.0])
    for M, kept in ((5, 3), (30, 16), (4, 4)):
        # Votes drawn from binomial votes are binomial.
        assert folded_pmf(kept, q) == pytest.approx(
            folded_draws(M, kept, np.arange(M + 1)).T @ pmf_table(M, q).T, abs=1e-12
        )


def test_drawn_votes_are_hypergeometric() -> None:
    for M, kept in ((5, 3), (30, 16), (100_000, 21)):
        n = np.unique(np.linspace(0, M, 40).astype(np.int64))
        drawn = hypergeom.pmf(np.arange(kept + 1), M, n[:, None], kept)
        folded = np.stack([drawn[:, k] + (drawn[:, kept - k] if k < kept - k else 0) for k in range(kept // 2 + 1)], 1)
        np.testing.assert_allclose(folded_draws(M, kept, n), folded, rtol=1e-9, atol=1e-15)


def test_very_many_votes() -> None:
    p, M = drawn("beta(.8, .8)", 300, 0), np.full(300, 100_000)
    assert holds(estimate_ceiling(np.random.default_rng(1).binomial(M, p), M), truth(p, M))


def test_bounds_that_stall_stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    M = rng.permutation(np.arange(20, 26))
    n = rng.binomial(M, rng.beta(0.8, 0.8, 6))
    quick = estimate_ceiling(n, M)
    monkeypatch.setattr(mixtures_module, "STALL_ROUNDS", mixtures_module.ROUNDS)
    slow = estimate_ceiling(n, M)
    for name in ("nll_lowest", "nll_highest", "score_2afc_lowest", "score_2afc_highest"):
        assert getattr(quick, name) == pytest.approx(getattr(slow, name), rel=2e-3)


def test_large_M_or_few_triplets_use_only_some_votes() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(0.8, 0.8, 2060)
    M = np.append(np.full(2000, 40), np.full(60, 7))
    ceiling = estimate_ceiling(rng.binomial(M, p), M)
    assert [(each.M, each.kept) for each in ceiling.by_votes] == [(7, 3), (40, 17)]
    assert ceiling.note == "only some votes are used where M is large or triplets are few (3 of 7, 17 of 40)"
    assert holds(ceiling, truth(p, M))
    assert ceiling.by_votes[1].score_2afc.highest - ceiling.by_votes[1].score_2afc.lowest < 8


def test_votes_that_no_mixture_fits_are_noted() -> None:
    # Four people who always split evenly agree less often than by the toss of a coin.
    ceiling = estimate_ceiling(np.full(300, 2), np.full(300, 4))
    assert ceiling.note == (
        "no mixture fits the votes (M = 4): votes on one triplet are not independent draws with one probability"
    )
    assert ceiling.score_2afc_lowest == 50
    assert ceiling.by_votes[0].p < 1e-10


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
    assert ceiling.note.startswith("4548 of 4810 triplets have one vote, which bounds nothing; only some votes")
    assert ceiling.score_2afc_lowest < 54
    assert ceiling.score_2afc_highest > 97


def test_the_ceiling_of_the_material_votes(material: tuple[Triplets, Triplets]) -> None:
    _, test = material
    ceiling = estimate_ceiling(test.n, test.M, clusters=test.codes("ref")[1])
    ends = [getattr(ceiling, f"score_2afc_{end}") for end in ("lowest", "low", "high", "highest")]
    assert ends == sorted(ends)
    assert ends[0] > 70
    assert ends[-1] < 85


def test_design_effects_are_those_of_copies() -> None:
    n = votes_of(5, 400)
    histogram = Histogram(5, 5, n)
    fitted = Mixtures(histogram).fitted
    dependence = Dependence(800, (np.tile(np.arange(400), 2),), "")
    twice = Histogram(5, 5, np.tile(n, 2))
    alone = deviance_law(histogram, fitted, as_dependence(None, 400))
    assert (alone.freedom, alone.scale) == (2, 1)
    copied = deviance_law(twice, 2 * fitted, dependence)
    # Every row twice: each direction's variance is double, up to sampling.
    assert copied.scale == pytest.approx(2, rel=0.1)
    assert copied.freedom == pytest.approx(2, rel=0.1)
    assert copied.limit(0.95) == pytest.approx(2 * alone.limit(0.95), rel=0.1)
    assert copied.p_value(2 * alone.limit(0.95)) == pytest.approx(0.05, abs=0.02)


def test_one_cluster_leaves_everything_open() -> None:
    ceiling = estimate_ceiling(votes_of(5, 100), np.full(100, 5), clusters=np.zeros(100))
    assert (ceiling.score_2afc_lowest, ceiling.score_2afc_highest) == (50, 100)
    assert DevianceLaw(2, np.inf, 3.0).limit(0.95) == np.inf
    assert DevianceLaw(2, np.inf, 3.0).p_value(9.0) == 1


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
    plain = dataclasses.asdict(ceiling)
    assert {type(value) for value in plain.values()} <= {int, float, bool, str, tuple}


def test_a_histogram_for_each_number_of_votes_and_its_rows() -> None:
    histograms, rows = histograms_by_votes(np.array([1, 0, 2, 3]), np.array([1, 2, 2, 3]))
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
def test_invalid_votes_are_rejected(n: list[float], M: list[int], options: dict, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        estimate_ceiling(n, M, **options)
    assert str(error.value) == message


def test_limits_on_the_wrong_side_of_the_nll_are_rejected() -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        share_explained(estimate_ceiling([1, 2], [2, 2]), 1.0, 1.1, 1.2)
    assert str(error.value) == "nll must lie between nll_low and nll_high; found 1 and 1.1, 1.2"
