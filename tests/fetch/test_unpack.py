"""Archives, honest and hostile: what comes out, what is refused, and that nothing lies elsewhere."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving import (
    FILES,
    refusal,
    sha256,
    tarred,
    tree,
    zipped,
)
from twoafc.errors import DataError
from twoafc.fetch.unpack import unpack


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def unpacked(content: bytes, **limits: int) -> dict[str, bytes]:
    """Unpack bytes; a refusal must leave nothing, and nothing may lie anywhere else."""
    packed, into = Path("packed").absolute(), Path("inner", "into").absolute()
    packed.write_bytes(content)
    try:
        files = unpack(packed, into, **({"most_files": 1000, "most_bytes": 10**7} | limits))
    except DataError:
        assert not into.exists()
        raise
    finally:
        assert sorted(path.name for path in Path().iterdir()) == ["inner", "packed"]
        assert os.listdir("inner") in ([], ["into"])
    found = tree(into)
    assert {name: (file.bytes, file.sha256) for name, file in files.items()} == {
        name: (len(content), sha256(content)) for name, content in found.items()
    }
    shutil.rmtree("inner")
    return found


def unpacking(content: bytes, **limits: int) -> str:
    message = refusal(unpacked, content, **limits)
    return message.removeprefix(str(Path("packed").absolute()))


def test_archives_come_out_as_they_went_in() -> None:
    assert unpacked(tarred(FILES, root="")) == FILES
    assert unpacked(tarred(FILES, root="./", packed=False)) == FILES
    assert unpacked(zipped(FILES)) == FILES
    folder = tarfile.TarInfo("empty")
    folder.type = tarfile.DIRTYPE
    assert unpacked(tarred({}, folder, folder)) == {}
    assert unpacked(zipped({})) == {}
    assert unpacked(tarred({"é/" + "n" * 150 + ".png": b"x"}, root="")) == {"é/" + "n" * 150 + ".png": b"x"}


names = st.text(st.sampled_from("abAB.é/\\: ~"), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(files=st.dictionaries(names, st.binary(max_size=600), max_size=4), as_zip=st.booleans())
def test_whatever_the_names_nothing_leaves_the_folder(files: dict[str, bytes], as_zip: bool) -> None:
    packed = zipped(files) if as_zip else tarred(files, root="")
    # `unpacked` itself looks for anything outside.
    try:
        found = unpacked(packed)
    except DataError:
        return
    plain = {"/".join(part for part in name.split("/") if part not in ("", ".")): files[name] for name in files}
    assert found.items() <= plain.items()
    # A slash at the end of a name may make it a folder's.
    assert len(found) >= sum(not name.endswith("/") for name in files)


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../out", "a/../../out", "a\\..\\b", "C:out", "a/b:c", "a\nb", "\udcff"],
)
@pytest.mark.parametrize("pack", [tarred, zipped])
def test_a_name_that_leads_elsewhere_is_refused(name: str, pack: Any) -> None:
    if name == "\udcff" and pack is zipped:
        pytest.skip("zipfile cannot write such a name")
    assert unpacking(pack({"good": b"x", name: b"x"}, root="")) == (
        f" is refused; {name!r} in it is not a plain relative path"
    )


KINDS = [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"]


@pytest.mark.parametrize("kind", KINDS)
def test_links_and_devices_are_refused(kind: bytes) -> None:
    info = tarfile.TarInfo("odd")
    info.type, info.linkname = kind, "/etc/passwd"
    assert unpacking(tarred(FILES, info)) == " is refused; 'odd' in it is a link or a device"


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_in_a_zip_are_refused(mode: int) -> None:
    info = zipfile.ZipInfo("odd")
    info.external_attr = (mode | 0o777) << 16
    assert unpacking(zipped(FILES, info)) == " is refused; 'odd' in it is a link or a device"


def test_an_encrypted_zip_is_refused() -> None:
    packed = bytearray(zipped({"a": b"x"}))
    packed[packed.index(b"PK\1\2") + 8] |= 1
    assert "is encrypted, password required" in unpacking(bytes(packed))


@pytest.mark.parametrize("pair", [("a", "a/b"), ("a/b", "a"), ("a", "./a")])
@pytest.mark.parametrize("pack", [tarred, zipped])
def test_names_that_mean_the_same_file_are_refused(pair: tuple[str, str], pack: Any) -> None:
    assert f"{pair[1]} could not be written to " in refusal(unpacked, pack(dict.fromkeys(pair, b"x"), root=""))


@pytest.mark.parametrize("pack", [tarred, zipped])
def test_bombs_are_refused(pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = {"zeros": bytes(20 * 2**20)}
    assert unpacking(pack(zeros, root=""), most_bytes=10**9) == f" is refused; it unpacks to more than {2**24} bytes"
    assert unpacking(pack(FILES, root=""), most_bytes=100) == " is refused; it unpacks to more than 100 bytes"
    assert unpacking(pack(FILES, root=""), most_files=23) == " is refused; it unpacks to more than 23 entries"
    assert unpacked(pack(FILES, root=""), most_files=24) == FILES


def test_bombs_in_headers_are_refused() -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 2**30
    block = header.tobuf(tarfile.USTAR_FORMAT)
    expected = " is refused; its headers are too large"
    assert unpacking(gzip.compress(block + bytes(60 * 2**20))) == expected
    # Endless nothing after the end.
    assert unpacking(gzip.compress(tarred({}, packed=False) + bytes(60 * 2**20))) == expected
    backwards = tarfile.TarInfo("back")
    backwards.size = -1024
    assert unpacking(gzip.compress(backwards.tobuf(tarfile.GNU_FORMAT) + bytes(4096))).startswith(" is ")


def test_a_sparse_file_is_refused(here: Path) -> None:
    with Path("sparse").open("wb") as stream:
        stream.truncate(10**8)
    done = subprocess.run(["tar", "--sparse", "--format=gnu", "-cf", "sparse.tar", "sparse"], capture_output=True)
    if done.returncode:
        pytest.skip("no GNU tar here")
    packed = Path("sparse.tar").read_bytes()
    for path in ("sparse", "sparse.tar"):
        Path(path).unlink()
    assert unpacking(packed) == " is refused; it unpacks to more than 10000000 bytes"


@pytest.mark.parametrize(
    "packed", [tarred(FILES), tarred(FILES, packed=False), zipped(FILES)], ids=["gz", "tar", "zip"]
)
def test_an_archive_cut_off_anywhere_is_refused(packed: bytes) -> None:
    # The last block of a tar may be missing: it has two marks of its end, and padding.
    end = len(packed) if packed[:2] in (b"PK", b"\x1f\x8b") else len(packed.rstrip(b"\0")) + 512
    cuts = {0, 1, 100, 512, 1024, 1536, end // 3, end // 2, end - 600, end - 100, end - 9, end - 1}
    for cut in cuts & set(range(end)):
        assert unpacking(packed[:cut]).startswith(" is damaged or incomplete: ")


def test_no_archive_at_all() -> None:
    assert unpacking(b"<html>404</html>" * 99).startswith(" is damaged or incomplete: ")


@settings(max_examples=150, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), which=st.sampled_from(["gz", "zip"]))
def test_one_wrong_bit_changes_no_file_unseen(place: float, bit: int, which: str) -> None:
    packed = bytearray(tarred(FILES, root="") if which == "gz" else zipped(FILES))
    packed[int(place * len(packed))] ^= 1 << bit
    try:
        found = unpacked(bytes(packed))
    except DataError:
        return
    # A date, a comment or a flag may have changed, or a zip's entry have another name; no content.
    assert set(found.values()) <= set(FILES.values())
    assert which == "zip" or found == FILES


def test_free_space_is_checked_before_unpacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 10))
    for packed in (tarred(FILES), zipped(FILES)):
        assert "there is no space for the contents of packed; it needs" in refusal(unpacked, packed)
