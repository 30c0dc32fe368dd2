"""Weights and data sets: listed, fetched, imported, verified, by functions and by the command."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import refused
from serving import (
    CONTENT,
    FILES,
    Answer,
    Server,
    a_zip,
    an_archive,
    checkpoints,
    files_below,
    get,
    refusal,
    sha256,
    tarred,
    tree,
)
from twoafc import fetch
from twoafc.cli import main
from twoafc.distances import DEEP, NEEDS, Published, distance, weights
from twoafc.fetch import Archive, registry

pytestmark = pytest.mark.usefixtures("here")


def test_a_full_disk_while_unpacking_leaves_nothing(here: Path) -> None:
    packed = tarred(FILES | {"cnn/large": os.urandom(90_000)})
    Path("toy.tar.gz").write_bytes(packed)
    file = an_archive("https://example.org/toy.tar.gz", packed)
    code = f"""
import resource
from pathlib import Path
from twoafc import fetch
from twoafc.errors import DataError
from twoafc.fetch import Archive
file = {file!r}
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    fetch.import_file("toy_val", Path("toy.tar.gz"), files={{"toy_val": file}})
except DataError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = r"the disk is full; val/cnn/large could not be written to \S+ \(File too large\); free some space\n"
    assert re.fullmatch(expected, done.stdout)
    assert files_below(here) == ["toy.tar.gz"]
    (got,) = fetch.import_file("toy_val", Path("toy.tar.gz"), files={"toy_val": file})
    assert len(tree(got.where)) == len(FILES) + 1


@pytest.fixture
def toy(server: Server) -> Archive:
    packed = tarred(FILES)
    server.answers["toy.tar.gz"] = Answer(content=packed)
    return an_archive(server.url("toy.tar.gz"), packed)


@pytest.mark.parametrize("root", ["", "val/", "some/where/val/"])
def test_a_data_set_is_unpacked_to_its_place_wherever_the_archive_begins(server: Server, here: Path, root: str) -> None:
    packed = tarred(FILES, root=root)
    server.answers["toy.tar.gz"] = Answer(content=packed, cuts=[100])
    got = get(an_archive(server.url("toy.tar.gz"), packed))
    assert got.where == here / "data" / "toy" / "2afc" / "val"
    assert got.note == "24 files; sha256 as a third party states it"
    assert tree(here / "data" / "toy") == {f"2afc/val/{name}": content for name, content in FILES.items()}
    hidden = here / "data" / "toy" / ".twoafc"
    assert sorted(os.listdir(hidden)) == ["toy_val.json", "toy_val.sha256"]
    receipt = json.loads((hidden / "toy_val.json").read_text())
    del receipt["date"]
    assert receipt == {
        "name": "toy_val",
        "url": server.url("toy.tar.gz"),
        "archive": "toy.tar.gz",
        "archive_bytes": len(packed),
        "archive_sha256": sha256(packed),
        "checked": "sha256 as a third party states it",
        "entries": ["2afc/val"],
        "files": 24,
        "bytes": sum(map(len, FILES.values())),
    }


def test_the_list_of_checksums_is_one_that_other_tools_read(toy: Archive) -> None:
    if not shutil.which("sha256sum"):
        pytest.skip("no sha256sum here")
    folder = get(toy).where.parents[1]
    command = ["sha256sum", "--check", "--strict", "--quiet", ".twoafc/toy_val.sha256"]
    subprocess.run(command, cwd=folder, check=True)


def test_a_fetched_data_set_can_be_opened(server: Server) -> None:
    from PIL import Image

    from twoafc.datasets import open_dataset

    files = {}
    for name in FILES:
        stream = io.BytesIO()
        if name.endswith(".npy"):
            np.save(stream, np.array([0.4], dtype=np.float32))
        else:
            Image.new("RGB", (8, 8)).save(stream, format="png")
        files[name] = stream.getvalue()
    packed = tarred(files)
    server.answers["toy.tar.gz"] = Answer(content=packed)
    got = get(an_archive(server.url("toy.tar.gz"), packed))
    for folder in (got.where, got.where.parents[1]):
        data = open_dataset(folder)
        assert len(data) == 6
        assert set(np.asarray(data.n)) == {2}


def test_a_folder_of_the_users_choice_is_remembered(toy: Archive, here: Path) -> None:
    got = get(toy, to=here / "mine")
    assert got.where == here / "mine" / "2afc" / "val"
    (state,) = fetch.status(files={"toy_val": toy})
    assert (state.state, state.where) == ("there", got.where)
    assert not get(toy).new
    (state,) = fetch.status(files={"toy_val": toy}, to=here / "elsewhere")
    assert state.state == "missing"
    shutil.rmtree(here / "mine")
    (state,) = fetch.status(files={"toy_val": toy})
    assert (state.state, state.note) == ("missing", "sha256 as a third party states it")
    (here / "a").touch()
    assert refusal(get, toy, to=here / "a") == (
        f"data sets are unpacked into a folder; {here / 'a'} is a file; name a folder with --to"
    )


def test_a_data_set_is_installed_where_its_folder_cannot_be_noted(
    toy: Archive, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "data").write_text("in the way")
    assert get(toy, to=here / "mine").new
    monkeypatch.delenv("TWOAFC_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(here / "xdg"))
    assert fetch.data_folder() == here / "xdg" / "twoafc"


def test_without_a_digest_the_sha256_is_noted(toy: Archive, server: Server, here: Path) -> None:
    unchecked = dataclasses.replace(toy, digest=None, stated_by=None)
    packed = server.answers["toy.tar.gz"].content
    assert get(unchecked).note == (
        f"24 files; no digest is published, so it could not be checked; it has sha256 {sha256(packed)}, "
        "noted for --verify"
    )
    receipt = json.loads((here / "data" / "toy" / ".twoafc" / "toy_val.json").read_text())
    assert (receipt["archive_sha256"], receipt["checked"]) == (sha256(packed), "no digest is published")


def test_other_digests_than_sha256_are_compared(toy: Archive, server: Server) -> None:
    packed = server.answers["toy.tar.gz"].content
    for method in ("md5", "sha512"):
        wrong = dataclasses.replace(toy, digest=f"{method} 00")
        found = hashlib.new(method, packed).hexdigest()
        assert f"its {method} is {found}, expected 00; it is kept as " in refusal(get, wrong)
    right = dataclasses.replace(toy, digest=f"md5 {hashlib.md5(packed).hexdigest()}", stated_by="the publisher")
    assert get(right).note == "24 files; md5 as the publisher states it"


def test_verify_reports_what_changed(toy: Archive, here: Path, offline: None) -> None:
    Path("toy.tar.gz").write_bytes(tarred(FILES))
    (got,) = fetch.import_file("toy_val", Path("toy.tar.gz"), files={"toy_val": toy})

    def found() -> tuple[str, str]:
        (state,) = fetch.verify(files={"toy_val": toy})
        return state.state, state.note

    assert found() == ("there", "unchanged since it was unpacked")
    (got.where / "cnn" / "p0" / "000001.png").write_bytes(b"!")
    (got.where / "cnn" / "p0" / "000002.png").write_bytes(b"!")
    assert found() == ("damaged", "2 of 24 files changed, first 2afc/val/cnn/p0/000001.png")
    (got.where / "cnn" / "p0" / "000002.png").unlink()
    assert found() == (
        "damaged",
        "1 of 24 files missing, first 2afc/val/cnn/p0/000002.png; 1 of 24 files changed, first "
        "2afc/val/cnn/p0/000001.png",
    )
    sums = here / "data" / "toy" / ".twoafc" / "toy_val.sha256"
    sums.write_text("".join(sums.read_text().splitlines(keepends=True)[:3]))
    assert found() == ("damaged", "its list of files is damaged: 3 of 24 are in it")
    sums.unlink()
    assert found() == ("damaged", "its list of files is damaged: 0 of 24 are in it")


def test_a_data_set_installed_by_the_user_is_not_replaced(toy: Archive, here: Path) -> None:
    mine = here / "data" / "toy" / "2afc" / "val" / "cnn" / "judge"
    mine.mkdir(parents=True)
    got = get(toy)
    assert (got.new, got.note) == (False, "not installed by fetch, so it cannot be verified")
    (state,) = fetch.verify(files={"toy_val": toy})
    assert (state.state, state.note) == ("there", "not installed by fetch, so it cannot be verified")
    mine.rmdir()
    assert refusal(get, toy) == (
        f"{here / 'data' / 'toy' / '2afc' / 'val'} exists already, and fetch did not install it from toy.tar.gz; "
        "move it away, or name another folder with --to"
    )
    assert mine.parent.is_dir()
    # What came is whole: it is not fetched again.
    (state,) = fetch.status(files={"toy_val": toy})
    assert (state.state, state.note) == ("missing", "its archive is downloaded; run the same command to unpack it")
    shutil.rmtree(here / "data" / "toy" / "2afc")
    assert get(dataclasses.replace(toy, url="https://127.0.0.1:1/gone")).new


def test_archives_that_share_a_folder(server: Server, here: Path) -> None:
    files: dict[str, Archive | Published] = {}
    for letter in "ab":
        packed = tarred({f"{letter}.png": letter.encode(), f"{letter}/c.png": b"c"}, root="", packed=False)
        server.answers[f"{letter}.tar"] = Answer(content=packed)
        files[f"toy_{letter}"] = an_archive(
            server.url(f"{letter}.tar"), packed, name=f"toy_{letter}", file=f"{letter}.tar", place=".", marker=None
        )
    fetch.get("toys", files=files)
    folder = here / "data" / "toy"
    assert tree(folder) == {"a.png": b"a", "a/c.png": b"c", "b.png": b"b", "b/c.png": b"c"}
    assert [state.state for state in fetch.verify(files=files)] == ["there", "there"]
    (folder / "a.png").unlink()
    states = fetch.status(["toys"], files=files)
    assert [(state.state, state.note) for state in states] == [
        ("damaged", "1 of its entries are missing, first a.png"),
        ("there", "2 files; sha256 as a third party states it"),
    ]
    assert [got.new for got in fetch.get("toys", files=files)] == [True, False]
    assert (folder / "a.png").read_bytes() == b"a"


def test_an_archive_of_something_else_is_refused(toy: Archive, here: Path) -> None:
    for root, marker, message in (
        ({"a": b"x"}, "cnn/judge", "is not toy_val; it has no cnn/judge"),
        ({"x/cnn/judge/0": b"", "y/cnn/judge/0": b""}, "cnn/judge", "is not toy_val alone; cnn/judge is in x and y"),
    ):
        Path("a.tar.gz").write_bytes(tarred(root, root=""))
        file = dataclasses.replace(toy, digest=None, marker=marker)
        assert refusal(fetch.import_file, "toy_val", Path("a.tar.gz"), files={"toy_val": file}) == f"a.tar.gz {message}"
        assert files_below(here) == ["a.tar.gz"]


HTML = b"\n<!DOCTYPE html><html><body>Sign in</body></html>"


@pytest.mark.parametrize(
    ("content", "received"),
    [
        (HTML, f"{len(HTML)} bytes (toy.tar.gz is damaged or incomplete: "),
        (b"", "0 bytes (toy.tar.gz is damaged or incomplete: "),
        (tarred(FILES)[:-200], ""),
        (tarred({"a": b"x"}), "93 bytes (toy.tar.gz is not toy_val; it has no cnn/judge)"),
        (tarred({}), "45 bytes (toy.tar.gz is not toy_val; it has no files)"),
    ],
    ids=["page", "empty", "cut", "other", "no files"],
)
def test_a_bad_download_without_a_digest_is_not_kept(
    toy: Archive, server: Server, here: Path, content: bytes, received: str
) -> None:
    file = dataclasses.replace(toy, digest=None)
    server.answers["toy.tar.gz"] = Answer(content=content)
    said = refusal(get, file)
    assert said.startswith(f"toy_val was not fetched; {file.url} sent {received}")
    assert said.endswith(
        "; it is not kept, and the same command downloads it again; "
        "or: get toy.tar.gz elsewhere and run twoafc fetch toy_val --from FILE"
    )
    assert not files_below(here)
    server.answers["toy.tar.gz"] = Answer(content=tarred(FILES))
    assert get(file).new


def test_a_kept_archive_that_is_none_is_downloaded_again(toy: Archive, here: Path) -> None:
    kept = here / "data" / "toy" / ".twoafc" / "toy.tar.gz"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(HTML)
    assert "it is not kept, and the same command downloads it again" in refusal(
        get, dataclasses.replace(toy, digest=None)
    )
    assert not kept.exists()
    assert get(dataclasses.replace(toy, digest=None)).new


@pytest.mark.parametrize("length", [True, False])
def test_no_more_is_stored_than_an_archive_can_have(toy: Archive, server: Server, here: Path, length: bool) -> None:
    server.answers["toy.tar.gz"] = Answer(content=bytes(3_000_000), length=length)
    file = dataclasses.replace(toy, digest=None, most_bytes=1_000_000)
    what = "has 3.0 MB" if length else "sends no length, and does not end"
    assert f"{file.url} {what}; the published file has 1.0 MB at most: it is another file" in refusal(get, file)
    assert not files_below(here)


def test_a_failed_download_of_a_data_set_leaves_nothing_new(toy: Archive, server: Server, here: Path) -> None:
    server.answers["toy.tar.gz"] = Answer(status=404)
    assert refusal(get, toy).startswith("toy_val was not fetched; ")
    assert not files_below(here)
    server.answers["toy.tar.gz"] = Answer(content=tarred(FILES), cuts=[50, 0, 0, 0, 0])
    refusal(get, toy)
    assert os.listdir(here / "data" / "toy" / ".twoafc") == [".toy.tar.gz.part"]


def test_a_kill_while_unpacking_leaves_no_data_set(toy: Archive, here: Path) -> None:
    Path("toy.tar.gz").write_bytes(tarred(FILES))
    code = f"""
import os, signal
from pathlib import Path
from twoafc import fetch
from twoafc.fetch import Archive
def kill(done, total, what):
    if "unpacking" in what and done > 200:
        os.kill(os.getpid(), signal.SIGKILL)
fetch.import_file("toy_val", Path("toy.tar.gz"), files={{"toy_val": {toy!r}}}, progress=kill)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(here / "data" / "toy") == [".twoafc"]
    (state,) = fetch.status(files={"toy_val": toy})
    assert state.state == "missing"
    fetch.import_file("toy_val", Path("toy.tar.gz"), files={"toy_val": toy})
    assert sorted(os.listdir(here / "data" / "toy" / ".twoafc")) == ["toy_val.json", "toy_val.sha256"]
    assert [state.state for state in fetch.verify(files={"toy_val": toy})] == ["there"]


def test_a_damaged_data_set_is_replaced_on_import(toy: Archive, here: Path, offline: None) -> None:
    Path("toy.tar.gz").write_bytes(tarred(FILES))
    (got,) = fetch.import_file("toy_val", Path("toy.tar.gz"), files={"toy_val": toy})
    (got.where / "cnn" / "p0" / "000001.png").unlink()
    (got.where / "more.txt").touch()
    (got,) = fetch.import_file("toy_val", Path("toy.tar.gz"), files={"toy_val": toy})
    assert tree(got.where) == FILES


def test_a_data_set_that_verify_reported_damaged_is_fetched_again(toy: Archive, server: Server) -> None:
    got = get(toy)
    image = got.where / "cnn" / "p0" / "000001.png"
    whole = image.read_bytes()
    image.write_bytes(b"!")
    # Nobody has looked yet.
    assert not get(toy).new
    (found,) = fetch.verify(files={"toy_val": toy})
    (state,) = fetch.status(files={"toy_val": toy})
    assert state == found
    assert (state.state, state.note) == ("damaged", "1 of 24 files changed, first 2afc/val/cnn/p0/000001.png")
    # Whoever repairs it needs no download.
    image.write_bytes(whole)
    assert [state.state for state in fetch.verify(files={"toy_val": toy})] == ["there"]
    assert not get(toy).new
    image.write_bytes(b"!")
    fetch.verify(files={"toy_val": toy})
    assert get(toy).new
    assert tree(got.where) == FILES
    assert len(server.answers["toy.tar.gz"].asked) == 2
    assert sorted(os.listdir(got.where.parents[1] / ".twoafc")) == ["toy_val.json", "toy_val.sha256"]
    assert [state.state for state in fetch.status(files={"toy_val": toy})] == ["there"]


def toy_weights(**changes: Any) -> tuple[Published, dict[str, Any]]:
    torch = pytest.importorskip("torch")
    tensors = {"features.0.weight": torch.arange(12, dtype=torch.float32).reshape(1, 3, 2, 2)}
    stored = {**tensors, "classifier.weight": torch.zeros(4)}
    torch.save(stored, "whole.pth")
    content = Path("whole.pth").read_bytes()
    known = {name: (tuple(tensor.shape), weights.digest(tensor.numpy())) for name, tensor in tensors.items()}
    file = Published(
        "toy", "toy-1234.pth", "https://example.org/toy-1234.pth", len(content), f"sha256 {sha256(content)}", (), known
    )
    return dataclasses.replace(file, **changes), tensors


def test_the_published_file_is_imported_under_its_name(here: Path, offline: None) -> None:
    file, _ = toy_weights()
    (got,) = fetch.import_file("toy", Path("whole.pth"), files={"toy": file})
    assert (got.where, got.note) == (checkpoints(here) / "toy-1234.pth", "sha256 as this package records it")
    assert Path("whole.pth").is_file()
    assert os.listdir(checkpoints(here)) == ["toy-1234.pth"]
    assert fetch.import_file("toy", got.where, files={"toy": file})[0].where == got.where


def test_the_same_tensors_in_another_file_do_not_get_the_published_name(
    here: Path, monkeypatch: pytest.MonkeyPatch, offline: None
) -> None:
    torch = pytest.importorskip("torch")
    file, tensors = toy_weights()
    torch.save(tensors, "convolutions.pth")
    (got,) = fetch.import_file("toy", Path("convolutions.pth"), files={"toy": file})
    assert got.where == checkpoints(here) / "twoafc-toy.pth"
    assert got.note == "its tensors are the published ones, the file is not"
    (state,) = fetch.status(files={"toy": file})
    assert (state.state, state.where) == ("there", got.where)
    monkeypatch.setattr(weights, "published", lambda: {"toy": file})
    assert torch.equal(weights.tensors("toy")["features.0.weight"], tensors["features.0.weight"])
    (got,) = fetch.import_file("toy", Path("convolutions.pth"), to=here / "mine", files={"toy": file})
    assert fetch.status(to=here / "mine", files={"toy": file})[0].where == got.where == here / "mine" / "twoafc-toy.pth"


def test_a_wrong_file_is_not_imported(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    file, tensors = toy_weights()
    torch.save({name: tensor + 1 for name, tensor in tensors.items()}, "wrong.pth")
    found = sha256(Path("wrong.pth").read_bytes())
    words = f"wrong.pth is not toy (toy-1234.pth); its sha256 is {found}, expected {file.digest.split()[1]}"
    message = refusal(fetch.import_file, "toy", Path("wrong.pth"), files={"toy": file})
    assert message == f"{words}; and its features.0.weight is not the published one"
    monkeypatch.setitem(sys.modules, "torch", None)
    message = refusal(fetch.import_file, "toy", Path("wrong.pth"), files={"toy": file})
    assert message == f"{words}; and its sha256 is another, and without torch its tensors cannot be compared"
    assert not checkpoints(here).exists()
    zips = {"toy": a_zip("https://example.org/a", b"other")}
    assert refusal(fetch.import_file, "toy", Path("wrong.pth"), files=zips) == (
        f"wrong.pth is not toy (toy.zip); its sha256 is {found}, expected {sha256(b'other')}"
    )
    toy = an_archive("https://example.org/a", b"other")
    assert refusal(fetch.import_file, "toy_val", Path("wrong.pth"), files={"toy_val": toy}) == (
        f"wrong.pth is not toy_val (toy.tar.gz); its sha256 is {found}, expected {sha256(b'other')}"
    )


def test_imports_from_a_folder_and_what_cannot_be_imported(here: Path, offline: None) -> None:
    (here / "copies").mkdir()
    for name in ("a.zip", "b.zip"):
        (here / "copies" / name).write_bytes(CONTENT)
    (here / "copies" / "b.zip").write_bytes(CONTENT + b"b")
    files = {
        name: a_zip("https://example.org/a", content, name=name, file=f"{name}.zip")
        for name, content in (("a", CONTENT), ("b", CONTENT + b"b"))
    }
    got = fetch.import_file("weights", here / "copies", files=files)
    assert [one.where.name for one in got] == ["a.zip", "b.zip"]
    with pytest.raises(ValueError, match=r"^weights is several files \(a, b\); name one of them, or a folder with all"):
        fetch.import_file("weights", here / "copies" / "a.zip", files=files)
    (here / "copies" / "b.zip").rename(here / "copies" / "other")
    assert [one.note for one in fetch.import_file("weights", here / "copies", to=here / "to", files=files)] == [
        "sha256 as this package records it"
    ] * 2
    assert sorted(os.listdir(here / "to")) == ["a.zip", "b.zip"]
    (here / "copies" / "other").unlink()
    message = refusal(fetch.import_file, "weights", here / "copies", to=here / "none", files=files)
    assert message == (f"b is not in {here / 'copies'}; none of its 1 files has these weights; wanted: {files['b']}")
    assert not (here / "none").exists()
    (here / "copies" / "a.zip").unlink()
    message = refusal(fetch.import_file, "a", here / "copies", files=files)
    assert message == f"a is not in {here / 'copies'} (an empty folder); wanted: {files['a']}"
    toy = an_archive("https://example.org/a", b"other")
    message = refusal(fetch.import_file, "toy_val", here / "copies", files={"toy_val": toy})
    assert message == f"no such file: {here / 'copies' / 'toy.tar.gz'}"
    assert refusal(fetch.import_file, "a", here / "none", files=files) == f"no such file: {here / 'none'}"


def test_weights_in_a_folder_are_recognised_by_their_tensors(
    here: Path, monkeypatch: pytest.MonkeyPatch, offline: None
) -> None:
    torch = pytest.importorskip("torch")
    file, tensors = toy_weights()
    (here / "copies").mkdir()
    (here / "copies" / "cut.pth").write_bytes(Path("whole.pth").read_bytes()[:-200])
    (here / "copies" / "notes.txt").write_text("no weights")
    torch.save(tensors, here / "copies" / "anything.bin")
    (got,) = fetch.import_file("toy", here / "copies", files={"toy": file})
    assert got.where == checkpoints(here) / "twoafc-toy.pth"
    # A damaged file under the published name does not stand in the way of a good one.
    (here / "copies" / "toy-1234.pth").write_bytes(b"PK")
    assert fetch.import_file("toy", here / "copies", files={"toy": file})[0].where == got.where
    (here / "copies" / "anything.bin").unlink()
    message = refusal(fetch.import_file, "toy", here / "copies", files={"toy": file})
    assert message.startswith(f"{here / 'copies' / 'toy-1234.pth'} is not toy (toy-1234.pth); its sha256 is ")
    (here / "copies" / "toy-1234.pth").unlink()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert refusal(fetch.import_file, "toy", here / "copies", files={"toy": file}) == (
        f"toy is not in {here / 'copies'}; none of its 2 files has these weights, which without torch are "
        f"recognised by their digest alone; wanted: {file}"
    )


def test_a_folder_of_real_weights_by_command(
    shared: Path, here: Path, offline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    main(["fetch", "lpips", "--from", str(shared / "weights")])
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["alexnet", "lpips_alex_head"]
    assert sorted(os.listdir(checkpoints(here))) == ["lpips_lin_v0.1_alex.pth", "twoafc-alexnet.pth"]
    main(["fetch"])
    lines = capsys.readouterr().out.splitlines()
    # The size is that of the file which is there, not of the published one.
    assert next(line.split()[:4] for line in lines if "alexnet" in line) == ["alexnet", "there", "9.9", "MB"]


def test_an_unreadable_file_is_reported_by_its_name(here: Path, monkeypatch: pytest.MonkeyPatch, offline: None) -> None:
    torch = pytest.importorskip("torch")
    (here / "given").mkdir()
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(here / "given"))
    torch.save({"features.0.weight": torch.zeros(64, 3, 11, 11)}, "whole.pth")
    cut = Path("whole.pth").read_bytes()[:-200]

    def damaged(*names: str) -> list[str]:
        for name in names:
            (here / "given" / name).write_bytes(cut)
        states = fetch.verify(["alexnet", "vgg16", "squeezenet1_1"])
        assert {state.state for state in states} <= {"damaged", "missing"}
        assert all(state.bytes == len(cut) for state in states if state.state == "damaged")
        return [state.file.name for state in states if state.state == "damaged"]

    assert damaged() == []
    assert damaged("mine.pth") == []
    assert damaged("twoafc-alexnet.pth") == ["alexnet"]
    assert damaged("vgg16-397923af.pth") == ["alexnet", "vgg16"]


def test_an_import_removes_a_partial_download(server: Server, here: Path) -> None:
    server.answers["file"] = Answer(cuts=[1000, 0, 0, 0, 0])
    refusal(get, a_zip(server.url("file")))
    assert os.listdir(checkpoints(here)) == [".toy.zip.part"]
    Path("mine.zip").write_bytes(CONTENT)
    fetch.import_file("toy", Path("mine.zip"), files={"toy": a_zip(server.url("file"))})
    assert os.listdir(checkpoints(here)) == ["toy.zip"]


def test_a_full_disk_while_importing_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    Path("toy.zip").write_bytes(CONTENT)
    monkeypatch.setattr(shutil, "copyfile", full)
    assert refusal(fetch.import_file, "toy", Path("toy.zip"), files={"toy": a_zip("https://example.org/a")}) == (
        f"the disk is full; toy.zip could not be written to {checkpoints(here)} (No space left on device); "
        "free some space"
    )
    assert files_below(here) == ["toy.zip"]


@pytest.mark.parametrize("with_torch", [True, False])
def test_a_damaged_file_is_reported_and_replaced_on_request(
    server: Server, here: Path, monkeypatch: pytest.MonkeyPatch, with_torch: bool
) -> None:
    file, _ = toy_weights(url=server.url("file"))
    server.answers["file"] = Answer(content=Path("whole.pth").read_bytes())
    if not with_torch:
        monkeypatch.setitem(sys.modules, "torch", None)
    where = checkpoints(here) / "toy-1234.pth"
    where.parent.mkdir(parents=True)
    where.write_bytes(Path("whole.pth").read_bytes()[:-200])
    (state,) = fetch.status(files={"toy": file})
    assert (state.state, state.where) == ("damaged", where)
    assert state.note.startswith("torch cannot read it: " if with_torch else "its sha256 is another")
    assert server.answers["file"].asked == []
    assert get(file).new
    (state,) = fetch.status(files={"toy": file})
    assert (state.state, state.where, state.note) == ("there", where, "")


def test_status_offline(shared: Path, monkeypatch: pytest.MonkeyPatch, offline: None) -> None:
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(shared / "weights"))
    states = {state.file.name: state.state for state in fetch.verify(["weights"])}
    assert states == {name: "missing" if name.startswith("pim") else "there" for name in weights.published()}


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_a_distance_needs_the_listed_files(name: str, shared: Path, here: Path) -> None:
    pytest.importorskip("torch")
    if name.startswith("pim"):
        assert f"twoafc fetch {NEEDS[name][0]}" in refusal(distance, name, weights=here)
    else:
        made: Any = distance(name, weights=shared / "weights")
        assert tuple(made.weights) == NEEDS[name]


def test_the_registry_is_sound() -> None:
    known = fetch.known()
    assert set(DEEP) == set(NEEDS)
    assert {part for parts in NEEDS.values() for part in parts} == set(weights.published())
    lengths = {"md5": 32, "sha256": 64, "sha512": 128}
    for name, file in known.items():
        assert file.name == name
        assert file.url.startswith("https://")
        assert file.terms
        if file.digest:
            method, digest = file.digest.split()
            assert re.fullmatch(rf"[0-9a-f]{{{lengths[method]}}}", digest)
        if isinstance(file, Archive):
            assert (file.digest is None) == (file.stated_by is None)
            assert file.url.endswith(f"/{file.file}")
            assert "file" not in (file.folder, file.place)
            assert file.most_files > 0 < file.most_bytes
    # Nothing but a file's own name may stand for a file.
    assert not {file.group for file in known.values() if isinstance(file, Archive)} & set(known)


def test_names() -> None:
    def names(*asked: str) -> list[str]:
        return [file.name for file in fetch.chosen(asked)]

    assert names("lpips") == names("lpips_alex") == ["alexnet", "lpips_alex_head"]
    assert names("pim", "pim_5") == ["pim_1", "pim_5"]
    assert names("bapps") == ["bapps_val", "bapps_train", "bapps_jnd"]
    assert len(names("clic2021_test")) == 17
    assert names("weights") == list(weights.published())
    assert [file.name for file in fetch.chosen()] == list(fetch.known())
    for wrong, message in (
        ("ssim", "ssim needs no files"),
        ("alexnett", "there is no file, distance or data set 'alexnett' to fetch; did you mean alexnet?"),
        ("zzz", "there is no file, distance or data set 'zzz' to fetch; run twoafc fetch for a list"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            names(wrong)


@pytest.fixture
def known(toy: Archive, server: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Published | Archive]:
    """The command with a registry of two files; nothing but code can exchange it."""
    files: dict[str, Published | Archive] = {"toy": a_zip(server.url("file")), "toy_val": toy}
    monkeypatch.setattr(registry, "known", lambda: files)
    return files


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return refused(capsys, "fetch", *arguments)


def test_the_list(known: dict[str, Any], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["fetch"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        f"Weights, kept in {checkpoints(here)}",
        f"  toy missing 300.0 kB MIT {known['toy'].url}",
        "",
        f"Data sets, kept in {here / 'data'}",
        f"  toy_val missing ? unstated {known['toy_val'].url} (sha256 as a third party states it)",
        "",
    ]
    assert lines[6].startswith(
        "Get: twoafc fetch NAME, of a file or of a distance (lpips_alex = alexnet + lpips_alex_he"
    )
    assert len(lines) == 7
    main(["fetch", "toy", "toy_val"])
    assert capsys.readouterr().out.splitlines() == [
        f"toy: {checkpoints(here) / 'toy.zip'} (sha256 as this package records it)",
        f"toy_val: {here / 'data' / 'toy' / '2afc' / 'val'} (24 files; sha256 as a third party states it)",
        f"  to measure a distance on it: twoafc measure {here / 'data' / 'toy' / '2afc' / 'val'} --distance ssim "
        "--out toy_val.parquet",
    ]
    main(["fetch"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"  toy there 300.0 kB MIT {checkpoints(here) / 'toy.zip'}"
    assert lines[4].startswith(f"  toy_val there 2.4 kB unstated {here / 'data' / 'toy' / '2afc' / 'val'} (24 files; ")
    main(["fetch", "toy"])
    assert capsys.readouterr().out == f"toy: there already, {checkpoints(here) / 'toy.zip'}\n"
    main(["fetch", "toy", "--quiet"])
    assert capsys.readouterr().out == ""


def test_the_real_list_downloads_nothing(
    offline: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["fetch"])
    lines = capsys.readouterr().out.splitlines()
    named = {line.split()[0]: line.split()[1] for line in lines if line.startswith("  ")}
    assert {"alexnet", "pim_5", "bapps_val", "clic2021_valid", "clic2021_test", "nights"} <= set(named)
    assert named["alexnet"] == "missing"
    assert sum(line.split()[:1] == ["clic2021_test"] for line in lines) == 1
    main(["fetch", "--verify"])
    main(["fetch", "--json"])
    records = json.loads(capsys.readouterr().out.partition("\n[")[2].join(["[", ""]))
    assert [record["name"] for record in records] == list(fetch.known())


def test_json(known: dict[str, Any], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["fetch", "--json"])
    record, _ = json.loads(capsys.readouterr().out)
    assert record == {
        "name": "toy",
        "kind": "weights",
        "state": "missing",
        "where": None,
        "note": "",
        "file": "toy.zip",
        "source": known["toy"].url,
        "bytes": len(CONTENT),
        "digest": known["toy"].digest,
        "worth": "sha256 as this package records it",
        "terms": "MIT",
    }
    main(["fetch", "toys", "--json"])
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["state"], record["kind"]) == ("fetched", "data set")
    main(["fetch", "toy_val", "--verify", "--json"])
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["state"], record["note"]) == ("there", "unchanged since it was unpacked")


def test_verify_and_import_by_command(
    known: dict[str, Any], here: Path, offline: None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.zip").write_bytes(CONTENT)
    Path("mine.tar.gz").write_bytes(tarred(FILES))
    main(["fetch", "toy", "--from", "mine.zip"])
    main(["fetch", "toy_val", "--from", "mine.tar.gz", "--to", "here"])
    assert f"toy_val: {here / 'here' / '2afc' / 'val'} (24 files" in capsys.readouterr().out
    main(["fetch", "--verify"])
    assert "there" in capsys.readouterr().out
    (here / "here" / "2afc" / "val" / "cnn" / "p0" / "000001.png").unlink()
    with pytest.raises(SystemExit, match="2"):
        main(["fetch", "--verify"])
    assert capsys.readouterr().err == "twoafc: 1 damaged; to fetch again: twoafc fetch toy_val\n"
    expected = "--from takes one name, that of the file: twoafc fetch NAME --from FILE"
    for arguments in (["--from", "mine.zip"], ["toy", "toy_val", "--from", "a"], ["toy", "--verify", "--from", "a"]):
        assert failure(capsys, *arguments) == expected
    assert failure(capsys, "toy", "--from", "none") == "no such file: none"
    assert failure(capsys, "nothing").startswith("there is no file, distance or data set 'nothing' to fetch")


def test_the_help_explains_every_option(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # kept by cyclopts for later calls in this process
    main(["fetch", "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for words in ("without any, all are listed", "default TWOAFC_WEIGHTS", "a file that you have", "Download nothing"):
        assert words in shown


def test_control_c_by_command(
    known: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch, "get", interrupt)
    with pytest.raises(SystemExit) as caught:
        main(["fetch", "toy"])
    assert caught.value.code == 130
    expected = "twoafc: interrupted; the partial download is kept, and the same command continues it\n"
    assert capsys.readouterr().err == expected


def test_a_progress_bar_on_a_terminal(known: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    main(["fetch", "toy"])
    assert "toy.zip" in shown.getvalue()


def test_fetch_is_light() -> None:
    heavy = ["torch", "polars", "matplotlib", "PIL"]
    code = (
        f"from twoafc import fetch; fetch.status; import sys; print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
