"""Options of a reproduction, and the folders that it is written to."""

from __future__ import annotations

from pathlib import Path

import pytest

import trees
from twoafc.errors import DataError
from twoafc.reproduce import Options, reproduce
from twoafc.reproduce.printed import DataMatch
from twoafc.reproduce.run import caution_about, claim, earlier_sets

SETTINGS = {"limit": None, "seed": 0, "synthetic": False}


def test_other_folders_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "paper"
    assert earlier_sets(out, SETTINGS) == {}
    claim(out, SETTINGS, {})
    assert earlier_sets(out, SETTINGS) == {}
    card = (out / "run.json").read_text()
    with pytest.raises(DataError) as caught:
        earlier_sets(out, {**SETTINGS, "limit": 100})
    assert str(caught.value) == (
        f"all runs into a folder have the same limit; {out} has none, this run 100; name another folder, or remove it"
    )
    (out / "mine.txt").touch()
    message = f"{out} has other files (mine.txt); name a new folder, or one of an earlier run only"
    with pytest.raises(DataError) as caught:
        earlier_sets(out, SETTINGS)
    assert str(caught.value) == message
    (out / "run.json").unlink()
    with pytest.raises(DataError) as caught:
        earlier_sets(out, SETTINGS)
    assert str(caught.value) == message
    with pytest.raises(DataError, match=r"mine.txt is a file; the tables and figures are written to a folder$"):
        earlier_sets(out / "mine.txt", SETTINGS)
    with pytest.raises(DataError) as caught:
        claim(tmp_path, SETTINGS, {"bapps": out})
    assert str(caught.value) == f"{out} lies in {tmp_path}, the output folder; name another output folder"
    (out / "mine.txt").unlink()
    for other, said in (('"format": 99,', 99), ("", 0)):
        (out / "run.json").write_text(card.replace('"format": 1,', other))
        with pytest.raises(DataError) as caught:
            earlier_sets(out, SETTINGS)
        assert str(caught.value) == f"{out / 'run.json'} is of format {said}, this version reads 1: name a new folder"
    (out / "run.json").write_text("{}")
    with pytest.raises(DataError, match=r"run.json is not from an earlier run; name a new folder$"):
        earlier_sets(out, SETTINGS)


def test_partial_folders_of_killed_runs_are_removed(tmp_path: Path) -> None:
    claim(tmp_path / "paper", SETTINGS, {})
    names = ("results/.bapps.4194399.part", ".tables.4194399.part", "synthetic/.clic.4194399.part")
    partial = [tmp_path / "paper" / name for name in names]
    for path in partial:
        path.mkdir(parents=True)
    claim(tmp_path / "paper", SETTINGS, {})
    assert not any(path.exists() for path in partial)


def test_a_folder_remembers_its_data_sets(tmp_path: Path) -> None:
    out = tmp_path / "paper"
    sets = {"bapps": tmp_path / "b", "clic": tmp_path / "c"}
    claim(out, SETTINGS, sets)
    assert earlier_sets(out, SETTINGS) == sets
    trees.write_bapps(tmp_path / "bapps", 1, size=16)
    with pytest.raises(DataError) as caught:
        reproduce(out, bapps=tmp_path / "bapps", options=Options(("rmse",)))
    assert str(caught.value) == (
        f"{out} has CLIC 2021 from an earlier run, which is no longer in {tmp_path / 'c'}; give its path with "
        "--clic, or name another output folder"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 19}, "limit must be at least 20, or there is nothing to fit; found 19"),
        ({"seeds": 0}, "seeds must be at least 1; found 0"),
        ({"seed": -1}, "seed must be at least 0; found -1"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        Options(**options)  # type: ignore[arg-type]


def test_a_limit_is_cautioned_about_only_if_it_applied() -> None:
    complete = DataMatch(frozenset({"train", "test"}))
    assert caution_about(Options(limit=10**6), False, {"bapps": complete}) == []
    caution = caution_about(Options(limit=500), False, {"bapps": complete, "clic": DataMatch(frozenset({"train"}))})
    assert caution[0].startswith("A quick look: at most 500")


def test_a_data_set_is_needed_and_only_one_kind(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        reproduce(tmp_path / "paper")
    assert str(caught.value) == (
        "a data set is needed; found none; name a folder of BAPPS (--bapps) or of CLIC 2021 (--clic), or --synthetic; "
        "to get the data, run: twoafc fetch bapps_train bapps_val (6.4 GB) or twoafc fetch clic2021_test "
        "clic2021_valid (size not published)"
    )
    with pytest.raises(ValueError, match=r"^synthetic sets replace the real ones; found clic too; choose one$"):
        reproduce(tmp_path / "paper", clic=tmp_path, synthetic=True)
    assert list(tmp_path.iterdir()) == []
