"""Only regular files are opened: whatever else is at a path is refused by name, at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commands
import damaged
import trees
import twoafc
from twoafc.datasets import open_dataset
from twoafc.errors import DataError
from twoafc.files import read_archive, reading_parquet, require_file, unprinted
from twoafc.images import pixel_size, read_pixels
from twoafc.table import read_frame, read_votes

PIPE, DEVICE = "a pipe; save it to a file first", "a device, not a file"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def special(name: str) -> dict[str, str]:
    """Put a pipe, with a link to it, and a link to a device at names like this one; nobody writes into the pipe."""
    stem, dot, ending = name.partition(".")
    paths = [f"{stem}{kind}{dot}{ending}" for kind in ("-pipe", "-link", "-device")]
    os.mkfifo(paths[0])
    os.symlink(paths[0], paths[1])
    os.symlink("/dev/zero", paths[2])
    return dict(zip(paths, (PIPE, PIPE, DEVICE), strict=True))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("t.csv", lambda path: read_votes([path])),
        ("t.parquet", lambda path: read_votes([path])),
        ("t.csv.gz", lambda path: read_votes([path])),
        ("t.csv", open_dataset),
        ("t.csv", twoafc.count),
        ("t.parquet", twoafc.count),
        ("model.npz", read_archive),
        ("model.npz", twoafc.load),
    ],
)
def test_pipes_and_devices_are_refused(name: str, read: Callable[[Any], Any]) -> None:
    for path, kind in special(name).items():
        with pytest.raises(DataError, match=f"{path} is {kind}$"):
            read(path)


def test_pipes_and_devices_are_no_images(here: Path) -> None:
    for path, kind in special("x.png").items():
        for read in (read_pixels, pixel_size):
            with pytest.raises(DataError, match=f"^{path}: this is {kind}$"):
                read(path)
    trees.write_table(here, 3)
    Path("images/1-x0.png").unlink()
    os.mkfifo("images/1-x0.png")
    found = twoafc.measure("table.csv", ["rmse"], "t.parquet", device="cpu", workers=1)
    assert [str(failure) for failure in found.failures] == [f"t1: images/1-x0.png: this is {PIPE}"]


def test_pipes_among_judgements(here: Path) -> None:
    trees.write_bapps(here / "bapps", 2)
    judge = next(iter(sorted(here.rglob("judge/*.npy"))))
    judge.unlink()
    os.mkfifo(judge)
    with pytest.raises(DataError, match=f"^votes must be one number in a .npy file; triplet .*/000000.npy is {PIPE}$"):
        open_dataset("bapps")


def test_commands_refuse_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, kind in special("t.csv").items():
        for command in (["evaluate", "--train", path], ["check", path], ["measure", path, "--distance", "rmse"]):
            options = ["--out", "out.csv"] if command[0] == "measure" else []
            assert commands.refused(capsys, *command, *options).endswith(f"{path} is {kind}")
    trees.write_table(here, 2)
    assert commands.refused(capsys, "measure", "table.csv", "--distance", "rmse", "--out", "t-pipe.csv") == (
        f"t-pipe.csv is {PIPE}"
    )


def test_sockets_folders_and_what_cannot_be_looked_at(here: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("s.csv")
        with pytest.raises(DataError, match=r"^s\.csv is a socket, not a file$"):
            require_file("s.csv")
    os.symlink("loop.csv", "loop.csv")
    for path, reason in (
        (".", "^. is a folder, not a file$"),
        ("none.csv", r"^no such file: none\.csv$"),
        ("s.csv/t.csv", r"^no such file: s\.csv/t\.csv$"),
        ("loop.csv", r"^loop\.csv cannot be read: Too many levels of symbolic links$"),
        ("a\0.csv", r"cannot be read: embedded null byte$"),
    ):
        with pytest.raises(DataError, match=reason):
            require_file(path)


@pytest.mark.parametrize("read", [read_frame, twoafc.count, lambda path: twoafc.count([path, "b.parquet"])])
def test_a_panic_of_polars_is_an_error_as_others(capfd: pytest.CaptureFixture[str], read: Callable[[Any], Any]) -> None:
    Path("a.parquet").write_bytes(damaged.PANIC)
    Path("b.parquet").write_bytes(damaged.WHOLE)
    with pytest.raises(DataError, match=r"^a\.parquet: not a readable Parquet file: damaged$"):
        read("a.parquet")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("command", ["check a.parquet", "count a.parquet --out c", "evaluate --train a.parquet"])
def test_where_polars_aborts_there_is_one_line(command: str) -> None:
    Path("a.parquet").write_bytes(damaged.ABORT)
    done = subprocess.run([sys.executable, "-m", "twoafc", *command.split()], capture_output=True, text=True)
    asks = "a.parquet asks for more memory than there is; is the file damaged?"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"twoafc: {asks}\n")


def test_what_python_prints_is_printed_all_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    def twice(number: int) -> None:
        with unprinted(), unprinted() as kept:
            os.write(2, f"past Python {number}".encode())
            kept.seek(0)
            assert kept.read() == f"past Python {number}".encode()

    stream, sys.stderr = sys.stderr, open(2, "w", closefd=False)  # noqa: SIM115 - as in a command
    try:
        with unprinted():
            print("by Python", file=sys.stderr)
        threads = [threading.Thread(target=twice, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.write(2, b"afterwards")
    finally:
        sys.stderr = stream
    assert capfd.readouterr().err == "by Python\nafterwards"


def test_what_others_print_while_a_table_is_read_is_printed(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A log that holds standard error itself writes past Python's own while polars is kept quiet."""
    with reading_parquet("t.parquet"):
        os.write(2, b"from a log\n")
    assert capfd.readouterr().err == "from a log\n"
