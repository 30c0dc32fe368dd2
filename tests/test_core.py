"""The map of distances to [0, 1], and fits on one thread of the BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import rankdata
from threadpoolctl import threadpool_info, threadpool_limits

import twoafc
from conftest import random_table
from twoafc.core import Uniform, one_thread, uniformise

values = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 2)), min_size=1, max_size=40)


@given(values)
def test_training_values_go_to_the_middle_of_their_step(d: list[float]) -> None:
    U, u0, u1 = uniformise(d, d[::-1])
    pooled = np.array(d + d[::-1])
    expected = (rankdata(pooled) - 0.5) / len(pooled)
    np.testing.assert_allclose(np.concatenate([u0, u1]), expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(U(d), u0)


@example([0.0] * 5 + [1.0] * 3 + [-1.0], [0.0, -3.714570294121838e-274])  # one bit too far, once
@given(values, st.lists(st.floats(-2e6, 2e6), min_size=2, max_size=20))
def test_the_map_is_monotone_and_stays_in_the_unit_interval(d: list[float], queries: list[float]) -> None:
    U = Uniform.learn(d, d)
    u = U(np.sort(queries))
    assert (np.diff(u) >= 0).all()
    assert u.min() >= 0
    assert u.max() <= 1


def test_the_map_is_strict_between_training_values() -> None:
    U = Uniform.learn([1.0, 2.0], [4.0, 8.0])
    inside = np.linspace(1, 8, 50)
    assert (np.diff(U(inside)) > 0).all()


def test_values_outside_the_training_range_go_to_the_ends() -> None:
    U = Uniform.learn([1.0, 2.0], [4.0, 8.0])
    assert U([0.999, 8.001]).tolist() == [0.0, 1.0]


def test_both_axes_share_one_map() -> None:
    U, u0, u1 = uniformise([1.0, 3.0], [3.0, 1.0])
    assert u0.tolist() == u1[::-1].tolist() == [0.25, 0.75]
    assert U.at_most.tolist() == [2, 4]


def test_a_constant_distance_goes_to_the_middle() -> None:
    assert Uniform.learn([2.0, 2.0], [2.0, 2.0])([1.0, 2.0, 3.0]).tolist() == [0.0, 0.5, 1.0]


@given(values)
def test_inverse_gives_training_values_back(d: list[float]) -> None:
    U = Uniform.learn(d, d)
    np.testing.assert_array_equal(U.inverse(U.levels), U.values)


# Threads


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_inside_and_as_many_as_before_outside() -> None:
    with threadpool_limits(2, user_api="blas"):
        with one_thread():
            assert threads() == {1}
            with one_thread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}


def test_blocks_of_several_threads_may_overlap() -> None:
    with threadpool_limits(2, user_api="blas"):
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == {2}


def test_fits_use_one(monkeypatch: Any) -> None:
    seen = []
    inverse = np.linalg.inv
    monkeypatch.setattr(np.linalg, "inv", lambda matrix: seen.append(threads()) or inverse(matrix))
    table = random_table()
    with threadpool_limits(2, user_api="blas"):
        twoafc.Spline().fit(table)
        assert threads() == {2}
    assert set(map(tuple, seen)) == {(1,)}
