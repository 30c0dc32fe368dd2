"""Commands run in this process or in one of their own: their exit codes, refusals, and results without figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from twoafc.cli import main

PROGRAM = f"""
import sys
sys.path.append({str(Path(__file__).parent)!r})
from drawing import plain_results
from twoafc.cli import main
with plain_results():
    main(sys.argv[1:])
"""
"""The program `twoafc`, without figures."""


def code_of(*arguments: object) -> int:
    """Run a command and give its exit code."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


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
