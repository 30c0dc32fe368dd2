"""Commands that are to fail: in one line, with nothing printed but that."""

from __future__ import annotations

import pytest

from twoafc.cli import main


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Give the one line in which a command says what is wrong, without the name of the program."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("twoafc: ")
    assert said.err.count("\n") == 1
    return said.err.removeprefix("twoafc: ").rstrip("\n")
