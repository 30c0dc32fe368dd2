"""What the commands write and print: names, keys and columns of today stay, and so do the numbers."""

from __future__ import annotations

import pytest

from outside import commanding, comparing, numbers

EXPECTED = comparing.read("files")


@pytest.mark.parametrize("name", commanding.CASES)
def test_nothing_vanishes_from_the_files(name: str) -> None:
    found = list(comparing.differences(EXPECTED[name], commanding.case(name)["shape"]))
    assert not found, "\n".join(found)
    if name in numbers.COMMANDS:
        comparing.check(f"command_{name}", numbers.COMMANDS[name]())
