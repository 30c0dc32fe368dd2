"""What commands print: for people on a terminal, whole and plain for programs, progress apart from both."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from threading import Thread

import pytest

from commands import PROGRAM
from conftest import random_table
from drawing import plain_results
from twoafc.cli import main
from twoafc.cli.show import print_table, say

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
NAMES = ("lpips_with_one_ending", "lpips_with_another_ending", "[red]ssim[/red]")


class Terminal:
    """A terminal of some width that keeps what is written to it."""

    def __init__(self, columns: int) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.held = b""
        self.reader = Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        while True:
            try:
                some = os.read(self.master, 65536)
            except OSError:  # how Linux tells the end
                return
            self.held += some

    def text(self) -> str:
        os.close(self.slave)
        self.reader.join()
        os.close(self.master)
        return self.held.decode().replace("\r\n", "\n")


def run(folder: Path, *arguments: str, stdout: int = subprocess.PIPE, stderr: int, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    told = kept | {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)} | environment
    done = subprocess.run(command, cwd=folder, env=told, stdout=stdout, stderr=stderr, text=True, timeout=60)
    assert done.returncode == 0
    return done.stdout or ""


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A folder with results, with what evaluating wrote to a pipe and, on standard error, to a terminal."""
    folder = tmp_path_factory.mktemp("terminal")
    table = random_table(150).to_frame()
    for name in NAMES:
        table = table.with_columns(**{f"{name}_d0": table["d0"], f"{name}_d1": table["d1"]})
    table.drop("d0", "d1").write_csv(folder / "t.csv")
    terminal = Terminal(80)
    said = run(folder, "evaluate", "--train", "t.csv", "--folds", "2", stderr=terminal.slave)
    return folder, said, terminal.text()


def test_a_program_reads_it_plain_and_whole(evaluated: tuple[Path, str, str]) -> None:
    _, said, _ = evaluated
    assert ESCAPE.search(said) is None
    header = next(line for line in said.splitlines() if "2AFC % ↑, distance only" in line)
    assert header.split()[:2] == ["distance", "estimator"]
    for name in NAMES:
        (row,) = [line for line in said.splitlines() if line.startswith(f"  {name} ")]
        assert row.count("±") == 4
    assert "Report: results/report.html" in said.splitlines()


def test_progress_goes_to_standard_error_alone(evaluated: tuple[Path, str, str]) -> None:
    _, said, shown = evaluated
    assert "100%" in shown
    assert "━" in shown
    assert "━" not in said


def test_a_narrow_terminal_gets_colour_and_whole_cells(evaluated: tuple[Path, str, str]) -> None:
    folder = evaluated[0]
    terminal = Terminal(80)
    run(folder, "compare", "results", stdout=terminal.slave, stderr=terminal.slave)
    shown = terminal.text()
    assert COLOUR.search(shown)
    lines = ESCAPE.sub("", shown).splitlines()
    assert max(map(len, lines)) <= 80
    for name in NAMES:
        assert any(line.strip()[1:].startswith(f" {name} ") for line in lines)
    assert "…" not in shown


def test_no_color_is_heeded(evaluated: tuple[Path, str, str]) -> None:
    terminal = Terminal(80)
    run(evaluated[0], "compare", "results", stdout=terminal.slave, stderr=terminal.slave, NO_COLOR="1")
    shown = terminal.text()
    assert "have the same NLL on every triplet" in shown
    assert COLOUR.search(shown) is None


def test_a_wide_table_is_printed_in_one_piece_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    header = ("distance", "estimator", *(f"score {k}" for k in range(40)))
    print_table("Many", header, [("a" * 50, "density", *("1.0000 ± 0.0001" for _ in range(40)))])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "Many"
    assert sum("a" * 50 in line for line in lines) == 1
    assert next(line for line in lines if "a" * 50 in line).count("±") == 40


def test_names_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "ssim\x1b[2J\x07\x9b"
    print_table(name, ("distance", name), [(name, name)])
    say(name, f"note: {name}")
    said = capsys.readouterr().out
    assert said.count("ssim\ufffd[2J\ufffd\ufffd") == 6
    assert not set(said) & set("\x1b\x07\x9b")


def test_comparing_can_be_quiet(evaluated: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", str(evaluated[0] / "results"), "--quiet"])
    assert capsys.readouterr() == ("", "")


def test_quiet_is_silent_and_json_is_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (
        "simulate --out t.csv --triplets 60",
        "check t.csv",
        "evaluate --train t.csv --folds 2 --out r",
        "report r",
        "failures r",
    ):
        with plain_results():
            main([*command.split(), "--quiet"])
        assert capsys.readouterr() == ("", "")
    main(["simulate", "--out", "t.csv", "--triplets", "60", "--seed", "3", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told == {"out": "t.csv", "world": "weber", "triplets": 60, "votes": 120, "seed": 3}
    with plain_results():
        main(["demo", "--triplets", "40", "--quiet", "--json"])
    assert json.loads(capsys.readouterr().out) == json.loads(Path("demo", "scores.json").read_text())


def test_results_are_written_where_the_reader_has_seen_enough(evaluated: tuple[Path, str, str]) -> None:
    folder = evaluated[0]
    command = f"{sys.executable} -m twoafc evaluate --train t.csv --folds 2 --out unread | head -n 1"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 1
    assert (folder / "unread" / "scores.json").is_file()
