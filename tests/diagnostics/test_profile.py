"""The relation of a distance to the votes, against textbook formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import f as f_distribution
from scipy.stats import kstest, ttest_1samp

from twoafc.diagnostics.profile import relate


def test_the_score_and_its_error_are_those_of_textbooks() -> None:
    rng = np.random.default_rng(0)
    u0, u1 = rng.random((2, 400))
    share = rng.binomial(3, 0.4 + 0.2 * (u1 > u0)) / 3
    unit = rng.integers(0, 30, 400)
    right = np.where(u0 > u1, share, 1 - share)
    relation = relate(share, u0, u1, None)
    assert relation.score == pytest.approx(100 * right.mean())
    assert relation.se == pytest.approx(100 * right.std(ddof=1) / 20)
    assert relation.low == pytest.approx(ttest_1samp(right, 0.5, alternative="less").pvalue)
    sums = [sum(right[t] - right.mean() for t in range(400) if unit[t] == k) for k in range(30)]
    assert relate(share, u0, u1, unit).se == pytest.approx(100 * np.sqrt(30 / 29 * sum(s**2 for s in sums)) / 400)


def test_the_joint_test_is_hotellings() -> None:
    rng = np.random.default_rng(1)
    u0, u1 = rng.random((2, 300))
    share = rng.binomial(2, 0.45 + 0.1 * u0) / 2
    d, s = u0 - u1, u0 + u1 - 1
    terms = np.stack([np.sign(d), d, d * s, d**3, d * s**2])
    x = (terms - terms.mean(axis=1, keepdims=True)) * (share - share.mean())
    mean, covariance = x.mean(axis=1), np.cov(x)
    statistic = 300 * mean @ np.linalg.solve(covariance, mean) * (300 - 5) / (5 * 299)
    assert relate(share, u0, u1, None).p == pytest.approx(f_distribution.sf(statistic, 5, 295), rel=1e-6)


@pytest.mark.parametrize("units", [None, 40])
def test_p_values_are_uniform_where_a_distance_is_unrelated(units: int | None) -> None:
    rng = np.random.default_rng(2)
    relations = []
    for _ in range(400):
        u0, u1 = rng.random((2, 600))
        relations.append(
            relate(rng.binomial(2, 0.5, 600) / 2, u0, u1, None if units is None else rng.integers(0, units, 600))
        )
    assert kstest([each.low for each in relations], "uniform").pvalue > 1e-3
    # With few units the joint test is a little cautious or bold; what matters are its tails.
    assert np.mean([each.p < 0.01 for each in relations]) < 0.04
