"""Files written whole: the old one or the new one, told by the name that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from twoafc.files import whole_file


def test_what_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write() -> None:
        with whole_file(path) as partial:
            partial.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=rf"^{path} could not be written: No space left on device$"):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "a.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with whole_file(link) as partial:
        partial.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.txt", "link.txt", "there"]


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wrong = {"file/a.txt": "Not a directory", "l" * 250: "File name too long"}
    for path, reason in ((tmp_path / name, reason) for name, reason in wrong.items()):
        with pytest.raises(OSError, match=rf"^{path} could not be written: {reason}$"), whole_file(path) as partial:
            partial.write_text("x")
