"""Every command on every bad file: exit code 2, one line, no traceback, and nothing left behind.

A file that is added to the zoo is given to every command.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

import damaged
import trees
import twoafc
from commands import refused
from serving import tarred, zipped
from twoafc import cli

COMMANDS = {
    "evaluate": "evaluate --train FILE --out new",
    "fuse": "fuse --train FILE --out new",
    "check": "check FILE",
    "count": "count FILE --out new.npz",
    "merge": "merge FILE --out new.npz",
    "sweep": "sweep --train FILE --out new",
    "measure": "measure FILE --distance rmse --out new.csv --device cpu",
    "query": "query FILE --d0 1 --d1 2",
    "query --triplet": "query FILE --triplet 0",
    "report": "report FILE",
    "compare": "compare FILE",
    "failures": "failures FILE --out new",
    "explore": "explore FILE",
    "fetch": "fetch bapps_jnd --from FILE --to new",
    "reproduce": "reproduce --bapps FILE --out new",
    "gate": "gate --baseline FILE --candidate FILE --max-loss 0.1",
    "plan size": "plan size FILE --difference 0.1",
    "plan choose": "plan choose --pool FILE --votes 10 --out new.csv",
    "plan status": "plan status FILE --out new.csv",
}
GOOD = b"n,M,d0,d1\n" + b"1,2,0.3,0.4\n" * 30


def parquet(**columns: list[object]) -> bytes:
    content = io.BytesIO()
    pl.DataFrame(columns).write_parquet(content)
    return content.getvalue()


def npz(**arrays: object) -> bytes:
    content = io.BytesIO()
    np.savez(content, **{name: np.asarray(each) for name, each in arrays.items()})
    return content.getvalue()


def image(kind: str) -> bytes:
    content = io.BytesIO()
    Image.fromarray(trees.picture(np.random.default_rng(0), 16)).save(content, format=kind)
    return content.getvalue()


FILES: dict[str, bytes] = {
    # tables
    "empty.csv": b"",
    "blank.csv": b"\n\n \n",
    "head.csv": b"n,M,d0,d1\n",
    "no-distance.csv": b"n,M\n1,2\n",
    "text.csv": b"n,M,d0,d1\n1,2,a,b\n",
    "nan.csv": b"n,M,d0,d1\n1,2,nan,0.1\n",
    "long-row.csv": b"n,M,d0,d1\n1,2,3,4,5\n",
    "many-votes.csv": b"n,M,d0,d1\n3,2,0.1,0.2\n",
    "twice.csv": b"n,n,d0,d1\n1,2,0.1,0.2\n",
    "utf-16.csv": GOOD.decode().encode("utf-16"),
    "latin.csv": GOOD + b"1,2,0.3,\xff\n",
    "long-name.csv": b"n" * 200_000 + b"\n1\n",
    "nul.csv": b"n,M,d0,d1\n\0\0\0\0\n",
    "quote.csv": b'n,M,"d0,d1\n1,2,0.1,0.2\n',
    "cut.csv.gz": gzip.compress(GOOD)[:-20],
    "no.csv.gz": b"no gzip",
    "empty.parquet": b"",
    "no.parquet": b"PAR1 no PAR1",
    "cut.parquet": parquet(n=[1], M=[2], d0=[0.1], d1=[0.2])[:-30],
    "panic.parquet": damaged.PANIC,
    "nested.parquet": parquet(n=[[1]], M=[2], d0=[0.1], d1=[0.2]),
    "null.parquet": parquet(n=[None], M=[2], d0=[0.1], d1=[0.2]),
    # models and counts
    "empty.npz": b"",
    "no.npz": b"PK no zip",
    "no-card.npz": npz(a=[1]),
    "card.npz": npz(card=np.frombuffer(b'{"format": "twoafc model 2"}', dtype=np.uint8)),
    "deep.npz": npz(card=np.frombuffer(b"[" * 100_000, dtype=np.uint8)),
    "objects.npz": npz(card=np.array([{}], dtype=object)),
    # images and archives
    "image.png": b"\x89PNG\r\n\x1a\n",
    "empty.png": b"",
    "cut.png": image("PNG")[:-40],
    "changed.png": image("PNG").replace(b"IDAT", b"IDAX"),
    "huge.png": image("PNG")[:16] + b"\x7f\xff\xff\xff" * 2 + image("PNG")[24:],
    "cut.jpg": image("JPEG")[:-200],
    "cut.tif": image("TIFF")[:-200],
    "cut.gif": image("GIF")[:-200],
    "page.html": b"<!DOCTYPE html>",
    "cut.tar.gz": tarred({"a": b"x" * 999})[:-9],
    "other.tar.gz": tarred({"a": b"x"}),
    "climbing.zip": zipped({"../a": b"x"}),
}
CARD = {"settings": {"ties": "half"}, "error_bars": ""}
RESULTS = {
    "empty": "",
    "null": "null",
    "list": "[]",
    "deep": "[" * 100_000,
    "no-scores": json.dumps({"card": CARD, "scores": [], "comparisons": []}),
    "null-scores": json.dumps({"card": CARD, "scores": None, "comparisons": []}),
    "surrogate": '{"card": "\\ud800"}',
}
SPECIAL: dict[str, Callable[[Path], object]] = {
    **dict.fromkeys(("pipe.csv", "pipe.npz", "pipe.png"), os.mkfifo),
    **dict.fromkeys(("device.csv", "device.parquet", "device.png"), lambda path: path.symlink_to("/dev/zero")),
    "loop.csv": lambda path: path.symlink_to(path.name),
    **dict.fromkeys(("folder.csv", "folder.png"), os.mkdir),
}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    for name, text in RESULTS.items():
        (folder / name).mkdir()
        (folder / name / "scores.json").write_text(text)
    for name, make in SPECIAL.items():
        make(folder / name)
    return folder


def test_every_command_that_takes_a_file_is_tried() -> None:
    assert {command.split()[0] for command in COMMANDS.values()} == {*cli.COMMANDS} - {"demo", "simulate"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_bad_file_gets_one_line(
    zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TWOAFC_DATA", str(tmp_path / "data"))
    before = sorted(os.walk(zoo))
    for name in (*FILES, *RESULTS, *SPECIAL, "missing.csv", "no text \udcff.csv", "two\nlines.csv", "nul\0.csv"):
        said = refused(capfd, *(word.replace("FILE", str(zoo / name)) for word in COMMANDS[command].split()))
        assert "Traceback" not in said, name
        assert os.listdir(tmp_path) == [], name
    assert sorted(os.walk(zoo)) == before


@pytest.fixture
def named(zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A table, images.csv, in which every bad file is the image of a row, after two rows of good ones."""
    monkeypatch.chdir(tmp_path)
    names = [str(zoo / name) for name in (*FILES, *RESULTS, *SPECIAL, "missing.png")]
    good = [str(tmp_path / f"{number}.png") for number in range(2)]
    for number, path in enumerate(good):
        trees.save(trees.picture(np.random.default_rng(number), 16), Path(path))
    columns = {"triplet": ["good 0", "good 1", *names], "ref": good[0], "x0": good[1], "x1": [*good, *names]}
    votes = {"n": [row % 3 for row in range(len(names) + 2)], "M": 2, "d0": 0.1, "d1": 0.2}
    pl.DataFrame(columns | votes).write_csv("images.csv")
    return names


@pytest.mark.parametrize("options", ["", "--without-anchors"])
def test_bad_images_of_a_table_are_listed_one_by_one(
    named: list[str], capfd: pytest.CaptureFixture[str], options: str
) -> None:
    command = f"measure images.csv --distance rmse --out new.csv --device cpu --workers 1 {options}".split()
    before = set(os.listdir())
    with pytest.raises(SystemExit) as caught:
        cli.main([*command, "--quiet"])
    assert caught.value.code == 1
    said = capfd.readouterr().err.splitlines()
    assert said[0] == f"twoafc: {len(named)} rows could not be measured and are not in the table:"
    assert len(said) == 1 + 20 + 2
    listed = pl.read_csv("new.csv.failures.csv")
    assert listed["triplet"].to_list() == listed["file"].to_list() == named
    assert listed["reason"].str.contains(r"Traceback|\n").any() is False
    assert pl.read_csv("new.csv")["triplet"].to_list() == ["good 0", "good 1"][bool(options) :]
    assert set(os.listdir()) - before == {"new.csv", "new.csv.json", "new.csv.failures.csv"}


def test_bad_images_of_a_result_are_not_shown(named: list[str], zoo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from twoafc.explore.data import Explored
    from twoafc.explore.server import application
    from twoafc.results import Pictures, triplet_images

    names = pl.read_csv("images.csv").with_columns(pl.col("x1").str.split("/").list.last())
    twoafc.evaluate(twoafc.Triplets.from_frame(names), estimators={"density": twoafc.Density()}).write("results")
    found = twoafc.Result.read("results")
    for row in found.triplets.iter_rows(named=True):
        assert triplet_images(row, Pictures(zoo)) == [None] * 3
    explored = Explored(found)
    browser = application(explored, Pictures(zoo)).test_client()
    for row in range(len(explored)):
        # A browser shows what it can of an image whose head is whole.
        assert browser.get(f"/image/{row}/x1", headers={"Host": "localhost"}).status_code in (200, 404)
    assert capfd.readouterr() == ("", "")
    cli.main(["failures", "results", "--images", str(zoo), "--out", "new", "--top", "2", "--quiet"])
    assert capfd.readouterr() == ("", "")
