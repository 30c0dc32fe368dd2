"""Folders that are replaced as a whole."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from twoafc.files import clear_partial, recover, replaced, whole_file


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
        if path.name == "new":
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


def killed_at(step: str, folder: Path) -> None:
    """Replace a folder in a process that is killed at a step."""
    code = f"""
import os, signal
from pathlib import Path
from twoafc.files import replaced, writing
def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
rename = Path.rename
def step(path, target):
    if {step!r} == "between" and path.name == "new":
        kill()
    done = rename(path, target)
    if {step!r} == "after" and path.name == "new":
        kill()
    return done
Path.rename = step
with replaced(Path({str(folder)!r})) as partial:
    (partial / "t.csv").write_text("new")
    if {step!r} == "filling":
        kill()
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("step", "stands"), [("filling", "old"), ("between", "old"), ("after", "new")])
def test_what_a_kill_has_left_is_cleared_and_an_earlier_folder_put_back(tmp_path: Path, step: str, stands: str) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "t.csv").write_text("old")
    killed_at(step, folder)
    assert len(list(tmp_path.glob(".*"))) == 1
    recover(folder)
    assert (folder / "t.csv").read_text() == stands
    with replaced(folder) as partial:
        (partial / "t.csv").write_text("newer")
    assert (folder / "t.csv").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    """Two at once write one folder, or one file, and both finish; the last one stands."""
    for name, write in (("results", replaced), ("t.csv", whole_file)):
        with write(tmp_path / name) as first:
            with write(tmp_path / name) as second:
                assert first != second
                clear_partial(tmp_path)
                assert first.exists()
                assert second.exists()
            assert first.exists()
        assert [path.name for path in tmp_path.iterdir()] == [name]
        shutil.rmtree(tmp_path / name) if name == "results" else None
    (tmp_path / ".t.csv.0123.part").write_text("of a process that was killed")
    (tmp_path / ".u.csv.0123.part").write_text("of another file")
    with whole_file(tmp_path / "t.csv") as partial:
        partial.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".u.csv.0123.part", "t.csv"]


def test_many_processes_write_one_folder(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from twoafc.files import replaced, whole_file
for turn in range(40):
    with whole_file(Path({str(tmp_path)!r}, "t.csv")) as partial:
        partial.write_text("whole")
    try:
        with replaced(Path({str(tmp_path)!r}, "results")) as partial:
            (partial / "t.csv").write_text("whole")
    except OSError as error:  # the other put its folder there in between
        assert "not empty" in str(error), error
"""
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["results", "t.csv", "t.csv"]


def _fail_within(path: Path) -> None:
    with replaced(path) as folder:
        (folder / "t.csv").write_text("half")
        raise OSError(28, "No space left on device")
