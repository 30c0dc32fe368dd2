"""Files from a real server that breaks off, lies or refuses, to a disk that may be full."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving import (
    CONTENT,
    FILES,
    Answer,
    Handler,
    Server,
    a_zip,
    an_archive,
    checkpoints,
    files_below,
    get,
    refusal,
    sha256,
    tarred,
    zipped,
)
from twoafc import fetch
from twoafc.errors import DataError
from twoafc.fetch import download as downloads
from twoafc.fetch.download import RemoteFile, download

pytestmark = pytest.mark.usefixtures("here")


def test_weights_are_stored_in_the_cache_of_torch(server: Server, here: Path) -> None:
    shown: list[tuple[int, int | None, str]] = []
    got = get(a_zip(server.url("file")), progress=lambda *state: shown.append(state))
    assert got.where == checkpoints(here) / "toy.zip"
    assert (got.new, got.note) == (True, "sha256 as this package records it")
    assert got.where.read_bytes() == CONTENT
    assert os.listdir(got.where.parent) == ["toy.zip"]
    assert shown[0] == (0, len(CONTENT), "toy.zip")
    assert (len(CONTENT), len(CONTENT), "toy.zip") in shown
    assert shown[-1] == (len(CONTENT), len(CONTENT), "checking .toy.zip.part")
    assert server.answers["file"].asked[0]["User-Agent"].startswith("twoafc/")
    again = get(a_zip(server.url("file")))
    assert (again.where, again.new) == (got.where, False)
    assert len(server.answers["file"].sent) == 1


def test_weights_are_stored_in_the_given_folder(server: Server, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOAFC_WEIGHTS", str(here / "mine"))
    assert get(a_zip(server.url("file"))).where == here / "mine" / "toy.zip"
    assert get(a_zip(server.url("file")), to=here / "other").where == here / "other" / "toy.zip"
    (here / "a").write_text("a file")
    assert refusal(get, a_zip(server.url("file")), to=here / "a") == (
        f"weights are stored in a folder; {here / 'a'} is a file; name a folder with --to or TWOAFC_WEIGHTS"
    )


@pytest.mark.parametrize("length", [True, False])
def test_a_broken_connection_is_resumed(server: Server, length: bool) -> None:
    answer = server.answers["file"] = Answer(cuts=[100_000, 50_000], length=length)
    assert get(a_zip(server.url("file"))).where.read_bytes() == CONTENT
    assert answer.sent == [100_000, 50_000, len(CONTENT) - 150_000]
    assert "Range" not in answer.asked[0]
    assert [asked["Range"] for asked in answer.asked[1:]] == ["bytes=100000-", "bytes=150000-"]


def test_the_same_command_continues(server: Server, here: Path) -> None:
    answer = server.answers["file"] = Answer(cuts=[100_000, 0, 0, 0, 0])
    file = a_zip(server.url("file"))
    assert refusal(get, file) == (
        "toy was not fetched; the download from 127.0.0.1 failed 4 times (the connection was closed early); "
        "100.0 kB are kept; run the same command to continue; "
        "or: get toy.zip elsewhere and run twoafc fetch toy --from FILE"
    )
    (state,) = fetch.status(files={"toy": file})
    assert (state.state, state.note) == ("missing", "100.0 kB are downloaded; fetch continues from there")
    assert get(file).where.read_bytes() == CONTENT
    assert answer.sent == [100_000, 0, 0, 0, 0, len(CONTENT) - 100_000]
    assert os.listdir(checkpoints(here)) == ["toy.zip"]


def test_control_c_keeps_the_partial_download(server: Server) -> None:
    def interrupt(done: int, *_: Any) -> None:
        if done:
            raise KeyboardInterrupt

    file = a_zip(server.url("file"))
    with pytest.raises(KeyboardInterrupt):
        get(file, progress=interrupt)
    assert get(file).where.read_bytes() == CONTENT
    kept = len(CONTENT) - server.answers["file"].sent[1]
    assert 0 < kept < len(CONTENT)


def test_a_server_without_ranges_starts_again(server: Server) -> None:
    answer = server.answers["file"] = Answer(cuts=[100_000], ranges=False)
    assert get(a_zip(server.url("file"))).where.read_bytes() == CONTENT
    assert answer.sent == [100_000, len(CONTENT)]
    server.answers["file"] = Answer(cuts=[100_000] * 9, ranges=False)
    part = Path("never.part")
    assert "failed 4 times" in refusal(download, RemoteFile(server.url("file")), part, pause=0.0)
    assert len(server.answers["file"].sent) == 5


def test_parts_of_two_files_are_refused_and_downloaded_again(server: Server, here: Path) -> None:
    server.answers["file"] = Answer(content=b"x" * len(CONTENT), cuts=[1000, 0, 0, 0, 0])
    file = a_zip(server.url("file"))
    refusal(get, file)
    answer = server.answers["file"] = Answer()
    assert "is refused: its sha256 is" in refusal(get, file)
    assert get(file).where.read_bytes() == CONTENT
    assert answer.sent == [len(CONTENT) - 1000, len(CONTENT)]


@pytest.mark.parametrize("packed", [tarred(FILES), zipped(FILES)])
def test_parts_of_two_archives_without_a_digest_are_refused_and_downloaded_again(server: Server, packed: bytes) -> None:
    """Their own checksums show it."""
    other = {name: content[::-1] for name, content in FILES.items()}
    half = len(packed) // 2
    first = (tarred if packed.startswith(b"\x1f") else zipped)(other, root="val/")
    server.answers["file"] = Answer(content=first, cuts=[half, 0, 0, 0, 0])
    archive = an_archive(server.url("file"))
    refusal(get, archive)
    server.answers["file"] = Answer(content=packed)
    assert "it is not kept, and the same command downloads it again" in refusal(get, archive)
    assert get(archive).new


def test_a_complete_part_is_not_downloaded_again(server: Server) -> None:
    for size in (len(CONTENT), None):
        answer = server.answers["file"] = Answer()
        part = Path(f"{size}.part")
        download(RemoteFile(server.url("file"), size), part)
        download(RemoteFile(server.url("file"), size), part)
        assert answer.sent == [len(CONTENT)]
        assert len(answer.asked) == (1 if size else 2)
        assert part.read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_downloaded_again(server: Server) -> None:
    server.answers["file"] = Answer(content=b"x" * 100)
    part = Path("a.part")
    for size in (None, 100):
        download(RemoteFile(server.url("file")), part, pause=0.0)
        with part.open("ab") as stream:
            stream.write(b"more")
        download(RemoteFile(server.url("file"), size), part, pause=0.0)
        assert part.read_bytes() == b"x" * 100


def test_another_part_than_requested_is_not_appended(server: Server) -> None:
    answer = server.answers["file"] = Answer(content=b"x" * 1000, cuts=[400])
    part = Path("a.part")

    class Odd(Handler):
        def send_header(self, keyword: str, value: str) -> None:
            super().send_header(keyword, "bytes 0-999/1000" if keyword == "Content-Range" else value)

    server.RequestHandlerClass = Odd
    download(RemoteFile(server.url("file")), part, pause=0.0)
    assert answer.sent == [400, 600, 1000]
    assert part.read_bytes() == b"x" * 1000


def test_more_than_was_announced_is_not_kept(server: Server, here: Path) -> None:
    server.answers["file"] = Answer(length=False)
    message = refusal(get, a_zip(server.url("file"), bytes=1000))
    assert "4 times (the server sent more than 1000 bytes)" in message


def test_a_file_of_another_size_is_refused_before_it_is_fetched(server: Server, here: Path) -> None:
    url = server.url("file")
    assert refusal(get, a_zip(url, bytes=7)) == (
        f"toy was not fetched; {url} has {len(CONTENT)} bytes, and the published file 7: it is another file; "
        "or: get toy.zip elsewhere and run twoafc fetch toy --from FILE"
    )
    assert not (checkpoints(here) / "toy.zip").exists()


def test_a_wrong_digest_names_both_and_sets_the_file_aside(server: Server, here: Path) -> None:
    wrong = CONTENT[:-1] + b"!"
    server.answers["file"] = Answer(content=wrong)
    url, aside = server.url("file"), checkpoints(here) / ".toy.zip.wrong"
    assert refusal(get, a_zip(url)) == (
        f"toy was not fetched; the download from {url} is refused: its sha256 is {sha256(wrong)}, expected "
        f"{sha256(CONTENT)}; it is kept as {aside}"
    )
    assert aside.read_bytes() == wrong
    assert os.listdir(checkpoints(here)) == [".toy.zip.wrong"]
    server.answers["file"] = Answer()
    assert get(a_zip(url)).new


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (410, 1), (500, 4), (503, 4), (429, 4)])
def test_error_responses(server: Server, status: int, tries: int) -> None:
    answer = server.answers["file"] = Answer(status=status, content=b"sorry")
    url = server.url("file")
    message = refusal(download, RemoteFile(url), Path("a.part"), pause=0.0)
    words = {404: "Not Found", 403: "Forbidden", 410: "Gone"}
    if tries == 1:
        assert message == f"{url} returned {status} {words[status]}"
    else:
        assert re.fullmatch(
            rf"the download from 127.0.0.1 failed 4 times \({status} [\w ]+\); nothing was downloaded", message
        )
    assert len(answer.asked) == tries


def test_no_server(here: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/toy.zip"
    file = a_zip(url, installed=(("toy_package", "toy.zip"),))
    assert refusal(get, file) == (
        "toy was not fetched; the download from 127.0.0.1 failed 4 times (Connection refused); nothing was downloaded; "
        "or: pip install toy_package, which includes it, or get toy.zip elsewhere and run "
        "twoafc fetch toy --from FILE"
    )
    assert not files_below(here)


def test_a_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "TIMEOUT", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a"
        assert "4 times (timed out)" in refusal(download, RemoteFile(url), Path("a.part"), pause=0.0)


def test_a_server_without_a_valid_certificate_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Opener:
        def open(self, *_: Any, **__: Any) -> None:
            error = ssl.SSLCertVerificationError()
            error.verify_message = "self-signed certificate"
            raise URLError(error)

    monkeypatch.setattr(downloads.urllib.request, "build_opener", lambda *_: Opener())
    assert refusal(download, RemoteFile("https://example.org/a"), Path("a.part")) == (
        "https://example.org/a cannot be trusted: self-signed certificate"
    )


@pytest.mark.parametrize("url", ["http://example.org/a", "ftp://example.org/a", "file:///etc/passwd", "a"])
def test_only_https_is_fetched(url: str, offline: None) -> None:
    assert refusal(download, RemoteFile(url), Path("a.part")) == f"only https is accepted; got {url}"


def test_redirects(server: Server) -> None:
    server.answers["start"] = Answer(status=302, content=b"", headers={"Location": server.url("file")})
    server.answers["file"] = Answer(cuts=[1000])
    download(RemoteFile(server.url("start")), Path("a.part"), pause=0.0)
    assert Path("a.part").read_bytes() == CONTENT
    assert server.answers["file"].sent == [1000, len(CONTENT) - 1000]
    for place in ("http://example.org/a", "ftp://example.org/a"):
        server.answers["start"].headers["Location"] = place
        message = refusal(download, RemoteFile(server.url("start")), Path("b.part"))
        assert message == f"only https is accepted; {server.url('start')} redirects to {place}"
    server.answers["start"].headers["Location"] = "file:///etc/passwd"
    assert "returned 302" in refusal(download, RemoteFile(server.url("start")), Path("b.part"))
    handler = downloads._Redirects()
    request = downloads.urllib.request.Request("https://example.org/a")
    assert refusal(handler.redirect_request, request, io.BytesIO(), 302, "", {}, "http://localhost/b") == (
        "only https is accepted; https://example.org/a redirects to http://localhost/b"
    )


def test_a_proxy_of_the_environment_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", server.url("")[:-1])
    download(RemoteFile("http://localhost:1/file"), Path("a.part"), pause=0.0)
    assert Path("a.part").read_bytes() == CONTENT


def test_two_downloads_of_one_file_are_refused(server: Server) -> None:
    part = Path("a.part").absolute()
    with downloads._exclusive(part):
        message = refusal(download, RemoteFile(server.url("file")), part)
    assert message == f"another process is fetching a into {part.parent}; wait for it"


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 400), max_size=6), ranges=st.booleans(), length=st.booleans())
def test_interrupted_downloads_are_completed(server: Server, cuts: list[int], ranges: bool, length: bool) -> None:
    content = CONTENT[:1000]
    server.answers["file"] = Answer(content=content, cuts=cuts, ranges=ranges, length=length)
    part = Path("any.part")
    part.unlink(missing_ok=True)
    try:
        download(RemoteFile(server.url("file"), len(content)), part, pause=0.0)
    except DataError:  # a server that starts anew may never get there
        assert not ranges
    else:
        assert part.read_bytes() == content


def test_free_space_is_checked_before_downloading(server: Server, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 1000))
    assert refusal(get, a_zip(server.url("file"))) == (
        f"there is no space for toy.zip; it needs 300.0 kB and {checkpoints(here)} has 1.0 kB left; "
        "free some, or name another folder with --to"
    )
    assert server.answers["file"].asked == []
    # Where the size is not known before, the server says it.
    assert "there is no space for toy.zip; it needs 300.0 kB" in refusal(get, a_zip(server.url("file"), bytes=None))


def test_a_full_disk_keeps_the_partial_download(server: Server, here: Path) -> None:
    code = f"""
import resource, sys
from pathlib import Path
from twoafc.fetch.download import RemoteFile, download
from twoafc.errors import DataError
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    download(RemoteFile({server.url("file")!r}), Path(".toy.zip.part").absolute())
except DataError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"the disk is full; toy.zip could not be written to {here} (File too large); free some space; "
        "50.0 kB of 300.0 kB are kept; run the same command to continue\n"
    )
    download(RemoteFile(server.url("file")), Path(".toy.zip.part").absolute())
    assert Path(".toy.zip.part").read_bytes() == CONTENT
    assert server.answers["file"].sent[1] == len(CONTENT) - 50_000


def test_other_write_errors(here: Path) -> None:
    error = downloads.write_error(OSError(errno.EROFS, "Read-only file system"), here, "a")
    assert str(error) == f"a could not be written to {here}: Read-only file system"
