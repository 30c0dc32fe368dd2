"""Fits use one thread of the BLAS, and leave the number of threads as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import twoafc
from conftest import random_table
from twoafc.core import one_thread


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
