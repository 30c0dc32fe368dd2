from __future__ import annotations

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from twoafc import metrics

votes = st.integers(1, 12).flatmap(lambda M: st.tuples(st.integers(0, M), st.just(M), st.floats(0.001, 0.999)))
tables = st.lists(votes, min_size=1, max_size=20).map(
    lambda rows: tuple(np.array(column) for column in zip(*rows, strict=True))
)


@given(tables)
def test_nll_is_the_mean_of_binomial_log_probabilities(table: tuple[np.ndarray, ...]) -> None:
    n, M, P = table
    slow = [-stats.binom.logpmf(a, b, c) for a, b, c in zip(n, M, P, strict=True)]
    assert metrics.nll(n, M, P) == pytest.approx(np.mean(slow), rel=1e-10)
    assert metrics.nll_per_vote(n, M, P) == pytest.approx(np.sum(slow) / M.sum(), rel=1e-10)


@given(tables)
def test_agreement_measures_the_distance_to_the_most_likely_count(table: tuple[np.ndarray, ...]) -> None:
    n, M, P = table
    slow = []
    for a, b, c in zip(n, M, P, strict=True):
        place = (b + 1) * c
        modes = {min(int(np.floor(place)), b), max(int(np.ceil(place)) - 1, 0)}
        slow.append(np.mean([100 - 100 * abs(mode - a) / b for mode in modes]))
    assert metrics.agreement(n, M, P) == pytest.approx(np.mean(slow), rel=1e-12)
    # No count is likelier than the one called most likely.
    for m, p, mode in zip(M, P, metrics.most_likely(M, P), strict=True):
        assert stats.binom.pmf(mode, m, p) >= stats.binom.pmf(np.arange(m + 1), m, p).max() * (1 - 1e-9)


@given(tables)
def test_agreement_favours_neither_side(table: tuple[np.ndarray, ...]) -> None:
    n, M, _ = table
    half = np.full(len(n), 0.5)
    np.testing.assert_allclose(metrics.agreement(n, M, half), metrics.agreement(M - n, M, half), rtol=1e-12)
    assert metrics.agreement(3, 5, 0.5) == metrics.agreement(2, 5, 0.5) == 90


@given(tables)
def test_the_2afc_score_is_a_mean_over_triplets_and_over_votes(table: tuple[np.ndarray, ...]) -> None:
    n, M, P = table
    agreed = np.where(P > 0.5, n, np.where(P < 0.5, M - n, M / 2))
    assert metrics.score_2afc(n, M, P) == pytest.approx(np.mean(100 * agreed / M), rel=1e-12)
    assert metrics.score_2afc_votes(n, M, P) == pytest.approx(100 * agreed.sum() / M.sum(), rel=1e-12)


@pytest.mark.parametrize("score", [metrics.nll, metrics.nll_per_vote, metrics.agreement, metrics.score_2afc])
@pytest.mark.parametrize(
    ("n", "M", "P", "message"),
    [
        (1, 2, 1.5, "P must lie in [0, 1]; index 0 has P=1.5 (1 of 1)"),
        ([1, 1], 2, [0.5, np.nan], "P must lie in [0, 1]; index 1 has P=nan (1 of 2)"),
        ([1, 3], [2, 2], 0.5, "n must lie in [0, M]; index 1 has n=3, M=2 (1 of 2)"),
        (-1, 2, 0.5, "n must lie in [0, M]; index 0 has n=-1, M=2 (1 of 1)"),
        (0, 0, 0.5, "M must be at least 1; index 0 has M=0 (1 of 1)"),
    ],
)
def test_impossible_arguments_are_refused_by_their_rule(score: Any, n: Any, M: Any, P: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        score(n, M, P)


def test_the_most_likely_count_never_exceeds_the_votes() -> None:
    assert metrics.most_likely([5, 5], [1.0, 0.0]).tolist() == [5, 0]


@given(tables)
def test_expectations_are_sums_over_every_count(table: tuple[np.ndarray, ...]) -> None:
    _, M, P = table
    nll, agreement = [], []
    for m, p in zip(M, P, strict=True):
        j = np.arange(m + 1)
        pmf = stats.binom.pmf(j, m, p)
        nll.append(-np.sum(pmf * stats.binom.logpmf(j, m, p)))
        agreement.append(np.sum(pmf * metrics.agreement_per_triplet(j, m, p)))
    np.testing.assert_allclose(metrics.expected_nll_per_triplet(M, P), nll, rtol=1e-9)
    np.testing.assert_allclose(metrics.expected_agreement_per_triplet(M, P), agreement, rtol=1e-9)
    assert metrics.expected_nll(M, P) == pytest.approx(np.mean(nll), rel=1e-9)
    assert metrics.expected_agreement(M, P) == pytest.approx(np.mean(agreement), rel=1e-9)


@given(st.integers(1, 10), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_expected_nll_is_least_at_the_true_probability(M: int, true: float, other: float) -> None:
    j = np.arange(M + 1)
    expected = -np.sum(stats.binom.pmf(j, M, true) * metrics.log_likelihood(j, M, other))
    assert expected >= metrics.expected_nll(M, true) - 1e-9


def test_certainty_costs_nothing_when_right_and_everything_when_wrong() -> None:
    assert metrics.log_likelihood([5, 0], [5, 5], [1.0, 0.0]).tolist() == [0.0, 0.0]
    assert np.isneginf(metrics.log_likelihood(4, 5, 1.0))
    assert metrics.expected_nll([5], [1.0]) == 0


def test_ties_count_one_half_or_go_to_x0() -> None:
    n, M = np.array([4, 1]), np.array([5, 5])
    assert metrics.score_2afc_distance(n, M, [1.0, 2.0], [1.0, 1.0]) == pytest.approx((50 + 20) / 2)
    assert metrics.score_2afc_distance(n, M, [1.0, 2.0], [1.0, 1.0], ties="x0") == pytest.approx((20 + 20) / 2)
    assert metrics.score_2afc(n, M, [0.5, 0.9]) == pytest.approx((50 + 20) / 2)
    assert metrics.score_2afc(n, M, [0.5, 0.9], ties="x0") == pytest.approx((20 + 20) / 2)


def test_sampled_scores_approach_their_expectation() -> None:
    rng = np.random.default_rng(0)
    M, P = rng.integers(1, 6, 200_000), rng.random(200_000)
    drawn = metrics.simulate(M, P, seed=1)
    assert metrics.nll(drawn, M, P) == pytest.approx(metrics.expected_nll(M, P), abs=0.005)
    assert metrics.agreement(drawn, M, P) == pytest.approx(metrics.expected_agreement(M, P), abs=0.2)
    c = metrics.choice(P - 0.5)
    assert metrics.score_2afc(drawn, M, P) == pytest.approx(metrics.expected_score_2afc(P, c), abs=0.3)
    np.testing.assert_array_equal(drawn, metrics.simulate(M, P, seed=1))
    assert (drawn != metrics.simulate(M, P, seed=2)).any()


@pytest.mark.parametrize("M", [249, 250, 2000])
def test_counts_that_never_occur_are_left_out_of_no_sum(M: int) -> None:
    j = np.arange(M + 1)
    for p in (0.0, 1e-9, 0.003, 0.3, 0.5, 0.999, 1.0):
        pmf, log_pmf = stats.binom.pmf(j, M, p), stats.binom.logpmf(j, M, p)
        nll = -np.sum(pmf * np.where(pmf > 0, log_pmf, 0.0))
        agreement = np.sum(pmf * metrics.agreement_per_triplet(j, M, np.full(M + 1, p)))
        assert metrics.expected_nll_per_triplet([M], [p])[0] == pytest.approx(nll, rel=1e-9, abs=1e-12)
        assert metrics.expected_agreement_per_triplet([M], [p])[0] == pytest.approx(agreement, rel=1e-9)


def test_many_votes_need_little_memory() -> None:
    P = np.linspace(0.01, 0.99, 30_000)
    tracemalloc.start()
    expected = metrics.expected_nll_per_triplet(1000, P)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27
    # The entropy of a binomial with so many votes is nearly that of a normal law.
    np.testing.assert_allclose(expected[15_000], np.log(2 * np.pi * np.e * 1000 * 0.25) / 2, atol=1e-3)
