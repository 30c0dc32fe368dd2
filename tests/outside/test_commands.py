"""The commands, their options, and one line for a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import refused
from outside import commanding, comparing

EXPECTED = comparing.read("options")


def test_no_command_is_missing() -> None:
    assert set(EXPECTED) <= set(commanding.commands())


@pytest.mark.parametrize("command", EXPECTED)
def test_options_are_still_taken(command: str) -> None:
    actual = commanding.options(command)
    assert not list(comparing.differences(EXPECTED[command], actual))


@pytest.mark.parametrize(
    "mistake",
    [
        "brew",
        *(f"{command} --nonsense" for command in EXPECTED),
        "check none.csv",
        "compare none",
        "compare",
        "count none.csv --out counts",
        "demo --triplets 3",
        "evaluate",
        "evaluate --train none.csv",
        "evaluate --train bad.csv",
        "evaluate --train good.csv --folds 1",
        "evaluate --train good.csv --estimator tea",
        "evaluate --train good.csv --distance tea",
        "evaluate --train good.csv --sigma -1",
        "evaluate --train good.csv --ties maybe",
        "explore none",
        "failures none",
        "fetch nothing_known",
        "measure none --distance ssim --out t.csv",
        "measure good.csv --distance tea --out t.csv",
        "merge none.npz --out sum.npz",
        "query good.csv --d0 1 --d1 2 --votes 5",
        "report none",
        "reproduce",
        "simulate --out t.txt",
        "simulate --out t.csv --world flat",
        "sweep --train none.csv",
    ],
)
def test_a_mistake_gets_one_line_and_writes_nothing(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("n,M,d0,d1\n3,2,1,1\n")
    (tmp_path / "good.csv").write_text("n,M,d0,d1\n" + "1,2,1,2\n0,2,3,1\n" * 20)
    assert refused(capsys, *mistake.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "good.csv"]
