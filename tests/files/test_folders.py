"""Folders that are replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from twoafc.files import replaced


def test_a_folder_takes_the_place_of_another_only_when_it_is_whole(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with replaced(tmp_path / "tables") as folder:
            (folder / "t.csv").write_text(text)
    with pytest.raises(OSError, match=rf"^{tmp_path / 'tables'} could not be written: No space left on device$"):
        _fail_within(tmp_path / "tables")
    assert (tmp_path / "tables" / "t.csv").read_text() == "new"
    with replaced(tmp_path / "tables") as folder:
        assert list(folder.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.csv").write_text("old")
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.suffix == ".part":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with (
        pytest.raises(OSError, match=r"tables could not be written: Permission denied$"),
        replaced(tmp_path / "tables"),
    ):
        pass
    assert (tmp_path / "tables" / "t.csv").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def _fail_within(path: Path) -> None:
    with replaced(path) as folder:
        (folder / "t.csv").write_text("half")
        raise OSError(28, "No space left on device")
