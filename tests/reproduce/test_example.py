"""The worked example agrees with the density estimator, and each of its steps is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import random_table
from twoafc.core import log_pmf
from twoafc.errors import DataError
from twoafc.estimators import Density
from twoafc.reproduce import five_points, worked_example


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 20), st.integers(0, 10**6), st.floats(0.05, 0.5), st.integers(2, 12))
def test_the_steps_are_the_density_estimator(M: int, T: int, seed: int, sigma: float, size: int) -> None:
    table = random_table(T, M=M, seed=seed)
    steps = worked_example(table, sigma=sigma, grid_size=size)
    fit = Density(sigma=sigma, grid_size=size).fit(table)
    np.testing.assert_allclose(steps.P, fit.surface, atol=1e-9)
    np.testing.assert_allclose(steps.density, fit.sums.rows, atol=1e-9)
    np.testing.assert_allclose(steps.conditional.sum(axis=0), 1)
    # A mirrored triplet is counted for the other image: p(j, d0, d1) = p(M - j, d1, d0).
    np.testing.assert_allclose(steps.joint, steps.joint[::-1].transpose(0, 2, 1))


def test_the_log_likelihood_is_that_of_the_counts_under_the_binomial() -> None:
    steps = worked_example()
    observed = steps.joint / steps.density
    expected = np.sum([observed[j] * log_pmf(j, steps.M, steps.P) for j in range(steps.M + 1)], axis=0)
    known = np.isfinite(steps.log_likelihood)
    assert 0.5 < known.mean() < 1
    np.testing.assert_allclose(steps.log_likelihood[known], expected[known], atol=1e-9)


def test_five_points_have_every_count() -> None:
    table = five_points()
    assert len(table) == 5
    assert set(table.n) == {0, 1, 2}
    # Ten distances, all different: uniformised, they are spread evenly.
    steps = worked_example()
    assert sorted(np.concatenate([steps.u0, steps.u1])) == pytest.approx(np.arange(10) / 10 + 0.05)


def test_the_example_needs_one_M() -> None:
    message = (
        r"^the worked example needs the same M for all triplets; found M from 1 to 5; use Density, which accepts any M$"
    )
    with pytest.raises(DataError, match=message):
        worked_example(random_table())
