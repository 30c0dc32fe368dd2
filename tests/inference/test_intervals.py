"""Intervals and p-values against those of other libraries and of printed formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from twoafc.inference import holm, p_value, share_interval, t_interval


def test_intervals_are_students_and_wilsons() -> None:
    found = t_interval(2.0, 0.3, units=8.0)
    assert found[2:] == pytest.approx(stats.t.interval(0.95, 7, 2.0, 0.3), rel=1e-12)
    # As many tosses as the standard error of a proportion says: 40 heads of 100, by Wilson's formula with z for t.
    share = share_interval(40.0, 100 * np.sqrt(0.4 * 0.6 / 100), units=1e12)
    wilson = stats.binomtest(40, 100).proportion_ci(method="wilson")
    assert (share.low / 100, share.high / 100) == pytest.approx((wilson.low, wilson.high), rel=1e-6)
    edge = stats.binomtest(0, 50).proportion_ci(method="wilson")
    assert share_interval(0.0, 0.0, units=50.0).low == 0
    assert share_interval(0.0, 0.0, units=50.0).high / 100 > edge.high
    assert np.isnan(share_interval(50.0, 1.0, units=1.0).low)


def test_skewness_moves_both_ends_of_an_interval() -> None:
    plain, right = t_interval(1.0, 0.1, 50.0), t_interval(1.0, 0.1, 50.0, skew=0.2)
    assert right.low > plain.low
    assert right.high > plain.high
    # The transformation and its inverse, as Hall prints it.
    t, skew = (1.0 - right.low) / 0.1, 0.2
    assert t + skew * (t**2 / 3 + 1 / 6) + skew**2 * t**3 / 27 == pytest.approx(stats.t.ppf(0.975, 49), rel=1e-9)


def test_p_values_are_those_of_the_t_test() -> None:
    values = np.random.default_rng(3).normal(0.1, 1, 40)
    se = values.std(ddof=1) / np.sqrt(40)
    assert p_value(values.mean(), se, 40.0) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-9)
    assert p_value(0.0, 0.0, 9.0) == 1.0
    # The same difference in every unit: as likely as so many heads, or so many tails.
    assert p_value(0.1, 0.0, 9.0) == pytest.approx(2 * 0.5**9)
    assert np.isnan(p_value(0.1, 0.1, 1.0))
    assert np.isnan(p_value(0.1, float("nan"), 9.0))


def test_holm_goes_down_the_ordered_p_values() -> None:
    found = holm([0.01, float("nan"), 0.011, 0.3, 0.04])
    np.testing.assert_allclose(found, [0.04, np.nan, 0.04, 0.3, 0.08])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1, 1])
