"""Values of the distances that need numpy alone."""

from __future__ import annotations

from outside import comparing, numbers


def test_distances_are_what_they_were() -> None:
    comparing.check("distances", numbers.distances())
