"""Numbers: scores, error bars, comparisons, ceilings, fits and findings are what they were.

Where they change on purpose, write the expected ones anew: see `freeze.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from outside import comparing, numbers


@pytest.mark.parametrize("name", numbers.MATERIAL)
def test_numbers_of_real_votes(name: str, shared: Path) -> None:
    comparing.check(name, numbers.MATERIAL[name]())


@pytest.mark.parametrize("name", numbers.SIMULATED)
def test_numbers_of_simulated_votes(name: str) -> None:
    comparing.check(name, numbers.SIMULATED[name]())


def test_a_small_change_is_seen() -> None:
    """The comparison itself: 1e-8 of a number, a missing key, an entry more."""
    for expected, actual in (({"a": 1.5}, {"a": 1.5 * (1 + 1e-8)}), ({"a": 1}, {"b": 1}), ([1], [1, 1]), ("a", "b")):
        assert list(comparing.differences(expected, actual))
    assert not list(comparing.differences({"a": 1.5}, {"a": 1.5 * (1 + 1e-10), "b": 2}))
    assert not list(comparing.differences({"spline": 1.5}, {"spline": 1.5 * (1 + 1e-8)}))
    assert list(comparing.differences({"spline": 1.5}, {"spline": 1.5 * (1 + 1e-5)}))
